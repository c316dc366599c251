//! `thalweg check`: compares two places by content, or one with a list of `b3sum`, and changes nothing.

use crate::args::places::CheckArgs;
use crate::commands::places::Troubles;
use crate::commands::verify::shown_by;
use crate::exit::Exit;
use crate::place::Places;
use crate::progress::{Progress, Ticker};
use crate::{begun, json, out, show, units};
use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;
use thalweg_client::check::{self, Found, List, Selected, Tell, Told};
use thalweg_client::reach::Reach;
use thalweg_client::verify;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::copy::Meter;
use thalweg_wire::RelativePath;

/// `thalweg check`.
///
/// # Errors
/// When a place cannot be listed at all; `Usage` for a filter or a list that is none.
pub fn check(args: &CheckArgs, places: &Places) -> Result<Exit> {
    if args.sums.as_deref().is_some_and(|list| list.as_os_str() == "-") && args.filter.reads_stdin() {
        let cause = "stdin is one file: `-` stands for --sums and for another list";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    let selected = Selected::new(args.filter.rules()?, args.filter.only()?)?;
    let destination = match (&args.sums, &args.destination) {
        (Some(list), _) => return check_list(args, list, &selected, places),
        (None, Some(destination)) => destination,
        // It is asked for where words are read.
        (None, None) => return Err(Failure::new(FailureKind::Usage, "check", "there is no second place")),
    };
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let mut teller = Teller::new(args.ask.json, [args.source.clone(), destination.clone()]);
    let source = Reach::open(&args.source, &mut far_movers)?.following_links(args.copy_links);
    let destination = Reach::open(destination, &mut far_movers)?.following_links(args.copy_links);
    begun::tell();
    // A signal ends the process: nothing is left half done by reading.
    let never = Arc::default();
    let seed = args.sample.map(|_| args.seed.clone().unwrap_or_else(verify::random_seed));
    let sample = args.sample.zip(seed.clone());
    if let Some(seed) = seed.as_ref().filter(|_| !args.ask.json) {
        show::line(&format!("a sample is drawn by the seed {seed}"));
    }
    let found = teller.watch(|meter, tell| {
        check::check_sample([&source, &destination], &selected, args.devices, sample, meter, tell, &never)
    })?;
    end(args.ask.json, &found, seed.as_deref(), &of_both(&found))
}

/// `thalweg check --sums`. What is wrong with a list that is a regular file is told before anybody is asked for a
/// password.
fn check_list(args: &CheckArgs, list: &Path, selected: &Selected, places: &Places) -> Result<Exit> {
    let lines = match list.as_os_str() == OsStr::new("-") {
        true => List::of(list, Box::new(BufReader::new(std::io::stdin()))),
        false => List::open(list)?,
    };
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let place = Reach::open(&args.source, &mut far_movers)?;
    begun::tell();
    let mut teller = Teller::new(args.ask.json, [list.into(), args.source.clone()]);
    let found = teller
        .watch(|meter, tell| check::check_list(lines, &place, selected, meter, tell, &Arc::default()))?;
    if found.same == 0 && found.differing > 0 {
        show::line(
            "warning: no digest is as it says: is it a list of b3sum? those of sha256sum look the same",
        );
    }
    end(args.ask.json, &found, None, &of_list(&found))
}

/// Prints what is found.
struct Teller {
    json: bool,
    /// Source and destination, or list and place, as they were typed.
    places: [OsString; 2],
    troubles: Troubles,
}

impl Teller {
    fn new(json: bool, places: [OsString; 2]) -> Teller {
        Teller { json, places, troubles: Troubles::new(json) }
    }

    /// Runs a comparison, and meanwhile shows or tells how far it is.
    fn watch(&mut self, compare: impl FnOnce(&Meter, &mut Tell<'_>) -> Result<Found>) -> Result<Found> {
        let meter = Arc::new(Meter::default());
        let ticker = self.json.then(|| Ticker::start(meter.clone())).transpose()?;
        let progress = Progress::start(std::slice::from_ref(&meter), false, self.json);
        let mut tell = |told: Told<'_>| match &progress {
            Some(progress) => {
                let mut heard = Ok(());
                progress.aside(|| heard = self.hear(told));
                heard
            }
            None => self.hear(told),
        };
        let found = compare(&meter, &mut tell);
        // Nothing comes behind the last line.
        drop((ticker, progress));
        found
    }

    fn hear(&mut self, told: Told<'_>) -> Result<()> {
        match told {
            Told::Difference(what, path, why) => self.difference(what, path, why),
            Told::Trouble(side, failure) => {
                self.troubles.add_at(&self.places[side], failure);
                Ok(())
            }
        }
    }

    fn difference(&self, what: &str, path: &RelativePath, why: &str) -> Result<()> {
        let told = match self.json {
            true => json::line(&json::difference(what, path, why)),
            false => out::line(&format!("{what}  {path}  ({why})")),
        };
        // The exit code is an answer of its own: a reader that is gone does not end the comparison.
        if out::is_closed() { Ok(()) } else { told }
    }
}

/// The last line, or event. `seed`: what a sample was drawn by.
fn end(json: bool, found: &Found, seed: Option<&str>, said: &str) -> Result<Exit> {
    let exit = if found.is_same() { Exit::Done } else { Exit::Partial };
    let sampled = seed.zip(found.sampled);
    let sample = sampled.map(|(seed, read)| {
        serde_json::json!({
            "seed": seed, "drawn": found.drawn, "files": read.files, "bytes": read.bytes,
            "of_files": read.of_files, "of_bytes": read.of_bytes, "least_found": read.least_found(),
            "probability": verify::PROBABILITY,
        })
    });
    let all = "all files with content were compared";
    let shown = sampled.filter(|_| found.is_same());
    let shown = shown.map(|(seed, read)| shown_by(seed, found.drawn, &read, all));
    let told = match json {
        true => json::line(&serde_json::json!({
            "event": "checked", "exit": exit.code(), "entries": found.entries, "files": found.files,
            "bytes": found.bytes, "missing": found.missing, "extra": found.extra,
            "differing": found.differing, "unreadable": found.unreadable, "left_out": found.left_out,
            "links_lost": found.links_lost, "sample": sample,
        })),
        false => std::iter::once(said).chain(shown.as_deref()).try_for_each(out::line),
    };
    if !json && sampled.is_some() && shown.is_none() {
        show::line("hint: files that were not drawn were not read: check without --sample");
    }
    out::answered(told, exit)
}

fn verdict(found: &Found) -> &'static str {
    match (found.is_different(), found.is_same()) {
        (true, _) => "different",
        (false, true) if found.sampled.is_some() => "same by sample",
        (false, true) => "same",
        (false, false) => "not comparable in full",
    }
}

fn of_both(found: &Found) -> String {
    let left_out = match found.left_out {
        0 => String::new(),
        count => format!("; {} left out: FIFOs and devices, without --devices", units::entries(count)),
    };
    let files = match found.sampled {
        Some(read) => format!("{} of {}", units::count(found.files), units::files(read.of_files)),
        None => units::files(found.files),
    };
    format!(
        "{}: {} on both sides, {} in {files} compared by digest; {} missing, {} extra, {} differ, \
         {} unreadable{left_out}{}",
        verdict(found),
        units::entries(found.entries),
        units::size(found.bytes),
        found.missing,
        found.extra.unwrap_or(0),
        found.differing,
        found.unreadable,
        outages(found),
    )
}

/// How often the link was lost, if it was.
fn outages(found: &Found) -> String {
    match found.links_lost {
        0 => String::new(),
        1 => "; the link was lost once".to_owned(),
        count => format!("; the link was lost {count} times"),
    }
}

/// Of a list: nobody looked for what else is there.
fn of_list(found: &Found) -> String {
    format!(
        "{}: {} of the list looked at, {} as it says; {} missing, {} differ, {} unreadable, \
         extra not looked for{}",
        verdict(found),
        units::files(found.files),
        units::size(found.bytes),
        found.missing,
        found.differing,
        found.unreadable,
        outages(found),
    )
}
