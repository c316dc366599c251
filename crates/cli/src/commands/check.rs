//! `thalweg check`: compares two places by content, or one with a list of `b3sum`, and changes nothing.

use crate::args::places::CheckArgs;
use crate::commands::places::Troubles;
use crate::commands::verify::shown_by;
use crate::exit::Exit;
use crate::place::Places;
use crate::progress::{Progress, Ticker};
use crate::{begun, json, out, show, threads, units};
use std::ffi::{OsStr, OsString};
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, Mutex};
use thalweg_client::check::{self, Found, InPart, List, Selected, Tell, Told};
use thalweg_client::reach::Reach;
use thalweg_client::verify::{self, SampleSize};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Meter;
use thalweg_wire::RelativePath;
use thalweg_wire::message::PartOf;
use thalweg_wire::path::Sentence;

/// `thalweg check`.
///
/// # Errors
/// When a place cannot be listed at all; `Usage` for a filter or a list that is none.
pub fn check(args: &CheckArgs, places: &Places) -> Result<Exit> {
    if args.sums.as_deref().is_some_and(|list| list.as_os_str() == "-") && args.filter.reads_stdin() {
        return Err(usage("stdin is one file: `-` stands for --sums and for another list"));
    }
    let selected = Selected::new(args.filter.rules()?, args.filter.only()?)?;
    match (&args.sums, &args.destination) {
        (Some(list), _) => check_list(args, list, &selected.in_part(args.part), places),
        (None, Some(destination)) => check_places(args, destination, &selected, places),
        // It is asked for where words are read.
        (None, None) => Err(Failure::new(FailureKind::Usage, "check", "there is no second place")),
    }
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

/// Compares two places. At several hosts they are as many comparisons, each of a part, all under way together: where
/// one fails the others go on.
fn check_places(args: &CheckArgs, second: &OsStr, selected: &Selected, places: &Places) -> Result<Exit> {
    let (json, parts) = (args.ask.json, check::in_parts([&args.source, second], args.part)?);
    if args.sample.is_some() && parts.len() > 1 {
        let cause = "--sample draws from one comparison, and several hosts are named: name one of them";
        return Err(usage(cause));
    }
    let mut far_movers = args.patience.far_movers(&args.ask, places);
    let mut open = |place: &OsString| -> Result<Reach> {
        Ok(Reach::open(place, &mut far_movers)?.following_links(args.copy_links))
    };
    let reach = |(_, [source, destination]): &InPart| -> Result<[Reach; 2]> {
        Ok([open(source)?, open(destination)?])
    };
    let reached: Vec<Result<[Reach; 2]>> = parts.iter().map(reach).collect();
    let failures = || reached.iter().filter_map(|reached| reached.as_ref().err());
    let is_none = failures().count() == parts.len();
    if let Some(failure) = failures().find(|failure| is_none || failure.kind == FailureKind::Usage) {
        return Err(failure.clone());
    }
    begun::tell();
    let seed = args.sample.map(|_| args.seed.clone().unwrap_or_else(verify::random_seed));
    if let Some(seed) = seed.as_ref().filter(|_| !json) {
        show::line(&format!("a sample is drawn by the seed {seed}"));
    }
    let meters: Vec<Arc<Meter>> = parts.iter().map(|_| Arc::default()).collect();
    let mut tickers = Vec::new();
    for ((part, _), meter) in parts.iter().zip(&meters).filter(|_| json) {
        tickers.push(Ticker::start_of(meter.clone(), part.filter(|_| parts.len() > 1))?);
    }
    let progress = Mutex::new(Progress::start(&meters, false, json));
    let (devices, sample) = (args.devices, args.sample.zip(seed.clone()));
    let comparing = Comparing { json, devices, sample, selected, progress };
    let compared = comparing.compare_all(&parts, &reached, &meters);
    // Nothing comes behind the last line.
    drop((tickers, comparing));
    let (mut found, mut exit, mut missing) = (None::<Found>, Exit::Done, Vec::new());
    for ((part, _), one) in parts.iter().zip(&compared) {
        match one {
            Ok(one) => found = Some(found.map_or(*one, |found| found.and(one))),
            Err(failure) if compared.iter().all(Result::is_err) => return Err(failure.clone()),
            Err(failure) => {
                Troubles::new(json).add(failure);
                exit = exit.worst(Exit::of(failure.kind));
                missing.extend(part.map(|part| part.number));
            }
        }
    }
    let (found, of) = (found.unwrap_or_default(), Of { part: args.part, missing });
    Ok(end(json, &found, seed.as_deref(), &of_both(&found, &of), &of)?.worst(exit))
}

/// What the comparisons of one command share.
struct Comparing<'a> {
    json: bool,
    devices: bool,
    sample: Option<(SampleSize, String)>,
    selected: &'a Selected,
    progress: Mutex<Option<Progress>>,
}

impl Comparing<'_> {
    /// Runs all of them, each in a thread of its own; of places that were not reached it is said why.
    fn compare_all(
        &self,
        parts: &[InPart],
        reached: &[Result<[Reach; 2]>],
        meters: &[Arc<Meter>],
    ) -> Vec<Result<Found>> {
        let ended = || Failure::new(FailureKind::Internal, "check", "a thread ended early");
        std::thread::scope(|scope| {
            let begun: Vec<_> = parts
                .iter()
                .zip(reached)
                .zip(meters)
                .map(|((part, reached), meter)| {
                    let places = reached.as_ref().map_err(Failure::clone)?;
                    threads::spawn_scoped(scope, "check", move || self.compare(part, places, meter))
                })
                .collect();
            let found = begun.into_iter().map(|one| one?.join().unwrap_or_else(|_| Err(ended())));
            found.collect()
        })
    }

    fn compare(
        &self,
        (part, names): &InPart,
        [source, destination]: &[Reach; 2],
        meter: &Meter,
    ) -> Result<Found> {
        let selected = self.selected.clone().in_part(*part);
        let mut teller = Teller::new(self.json, names.clone());
        let mut tell = |told: Told<'_>| teller.hear_beside(lock(&self.progress).as_ref(), told);
        let (sides, sample) = ([source, destination], self.sample.clone());
        // A signal ends the process: nothing is left half done by reading.
        let never = Arc::default();
        check::check_sample(sides, &selected, self.devices, sample, meter, &mut tell, &never)
    }
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
    let of = Of { part: args.part, missing: Vec::new() };
    end(args.ask.json, &found, None, &of_list(&found, &of), &of)
}

/// What was compared of two places.
struct Of {
    /// The part that was asked for alone.
    part: Option<PartOf>,
    /// Numbers of parts whose hosts could not compare them.
    missing: Vec<u32>,
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
        let mut tell = |told: Told<'_>| self.hear_beside(progress.as_ref(), told);
        let found = compare(&meter, &mut tell);
        // Nothing comes behind the last line.
        drop((ticker, progress));
        found
    }

    /// Prints it where nothing is drawn meanwhile.
    fn hear_beside(&mut self, progress: Option<&Progress>, told: Told<'_>) -> Result<()> {
        let Some(progress) = progress else { return self.hear(told) };
        let mut heard = Ok(());
        progress.aside(|| heard = self.hear(told));
        heard
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
            false => out::line(&shown_difference(what, path, why)),
        };
        // The exit code is an answer of its own: a reader that is gone does not end the comparison.
        if out::is_closed() { Ok(()) } else { told }
    }
}

/// A difference, for people; why may be in the words of a far side.
fn shown_difference(what: &str, path: &RelativePath, why: &str) -> String {
    format!("{what}  {path}  ({})", Sentence(why))
}

/// The last line, or event. `seed`: what a sample was drawn by.
fn end(json: bool, found: &Found, seed: Option<&str>, said: &str, of: &Of) -> Result<Exit> {
    let exit = if found.is_same() && of.missing.is_empty() { Exit::Done } else { Exit::Partial };
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
            "part": of.part.map(|part| part.to_string()), "parts_missing": of.missing,
        })),
        false => std::iter::once(said).chain(shown.as_deref()).try_for_each(out::line),
    };
    if !json && sampled.is_some() && shown.is_none() {
        show::line("hint: files that were not drawn were not read: check without --sample");
    }
    if !json && !of.missing.is_empty() {
        let numbers: Vec<String> = of.missing.iter().map(u32::to_string).collect();
        let numbers = numbers.join(", ");
        show::line(&format!("hint: not compared are parts {numbers}: check again when their hosts are back"));
    }
    out::answered(told, exit)
}

fn verdict(found: &Found, of: &Of) -> String {
    let verdict = match (found.is_different(), found.is_same() && of.missing.is_empty()) {
        (true, _) => "different",
        (false, true) if found.sampled.is_some() => "same by sample",
        (false, true) => "same",
        (false, false) => "not comparable in full",
    };
    match of.part {
        Some(PartOf { number, count }) => format!("{verdict}: part {number} of {count}"),
        None => verdict.to_owned(),
    }
}

fn of_both(found: &Found, of: &Of) -> String {
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
        verdict(found, of),
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
fn of_list(found: &Found, of: &Of) -> String {
    format!(
        "{}: {} of the list looked at, {} as it says; {} missing, {} differ, {} unreadable, \
         extra not looked for{}",
        verdict(found, of),
        units::files(found.files),
        units::size(found.bytes),
        found.missing,
        found.differing,
        found.unreadable,
        outages(found),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_far_side_has_no_such_file_is_no_order_to_a_terminal() {
        let path = RelativePath::new(b"a\nb".to_vec()).unwrap();
        let shown = shown_difference("missing", &path, "there is none\u{1b}]0;x\u{7}");
        assert_eq!(shown, "missing  a\\x0ab  (there is none\\x1b]0;x\\x07)");
    }
}
