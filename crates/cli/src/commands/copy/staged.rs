//! A copy through a directory of this machine as a part of `cp` and `sync`.
//!
//! 1. What such a copy does not do is refused, before anybody is reached.
//! 2. What the destination lacks passes through the stage, in rounds ([`thalweg_client::staged::Legs`]).
//! 3. Where one of the places is on this machine, the direct copy ends it: directories, links and all that the stage is
//!    no place for, deletion, the removal of sources. It finds the files there, and moves none of them.

use crate::args::copy::{CheckBy, CopyArgs};
use crate::copy_output::{Listener, Teller};
use crate::exit::Exit;
use crate::place::Places;
use crate::{begun, out, running, signals, units};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_client::far_movers::{FarMovers, Whom};
use thalweg_client::job::{Asked, Job};
use thalweg_client::options::congestion;
use thalweg_client::receipt::ReceiptFile;
use thalweg_client::staged::{
    self, Expected, Legs, Needs, ROUND_ITEMS_MAX, Running, STAGE_BYTES_MIN, StagePlace, Summary, TwoFar,
    needs_between,
};
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::copy::{Meter, Report, Stop, Watch};
use thalweg_sys::heat;
use thalweg_wire::message::{Check, Outcome};
use thalweg_wire::path::Escaped;

/// `thalweg cp --stage`, `thalweg sync --stage`.
///
/// # Errors
/// What is wrong with the command line; when no place could be reached, or the stage not be had.
pub fn run(command: &str, args: &CopyArgs, places: &Places, stage: &OsStr) -> Result<Exit> {
    let (directory, bytes_asked) = parse(stage)?;
    let filter = args.filter.held()?;
    let only = filter.only()?;
    let mut all = super::read_places(args, only.as_deref(), places)?;
    let (Some(mut asked), true) = (all.pop(), all.is_empty()) else {
        return Err(refused("it is for one copy, from and to one host each"));
    };
    if args.to_ticket.as_deref().is_some_and(|ticket| !asked.give_to_ticket(ticket)) {
        return Err(super::needs_daemons());
    }
    check(args, &asked, only.is_some())?;
    let selection = super::selection(args, &filter, only.unwrap_or_default())?;
    let key = staged::key_of(&asked, &selection, args.devices);
    staged::refuse(&asked, &directory, &key)?;
    if args.dry_run && !asked.is_both_far() {
        // What would be copied is the same.
        return super::run_directly(command, args, &filter, places);
    }
    let state = super::state_if_room(args.link.state.as_deref(), args.quiet)?;
    // Before there are threads: they inherit it.
    super::stand_back(args.manners.priority())?;
    let held_before = heat::held();
    super::bound_memory(args.knobs.memory);

    let place = StagePlace::open(&directory, &key)?;
    let far: Vec<Whom> = asked.far_movers().collect();
    let mut far_movers = FarMovers::new(super::how(args, places, &state));
    let legs = Legs::reach(&asked, &mut far_movers, &state, place, bytes_asked)?;
    let stop = Arc::new(Stop::default());
    let ends = match asked.is_both_far() {
        true => Ends::Far(Box::new(TwoFar::reach(&asked, &mut far_movers, &stop, args.copy_links)?)),
        false => Ends::Near(Box::new(asked.in_chunks(args.knobs.chunk).reach(&mut far_movers, &state)?)),
    };
    if let Ends::Near(direct) = &ends
        && args.remove_source_files
    {
        direct.refuse_written([args.receipt.as_deref(), args.report.as_deref()])?;
    }
    let wishes = super::wishes(args, &filter, selection.only, &state)?;
    if let Ends::Near(direct) = &ends {
        direct.refuse_doomed(&wishes, args.receipt.as_slice(), args.report.as_deref())?;
    }
    let sends = legs.is_push() || matches!(&ends, Ends::Near(direct) if direct.is_push());
    let congestion = congestion::wished(args.link.congestion.cca.as_deref(), sends)?;
    let _listens = running::listen(&state, &wishes.movement.rate);

    let signal = signals::stop_on(stop.clone(), (!args.quiet).then_some(super::STOPPING))?;
    let header = super::header(args, &wishes.selection, None);
    let receipt = args.receipt.as_deref().map(|path| ReceiptFile::begin(path, &header)).transpose()?;
    let meter: Arc<Meter> = Arc::default();
    meter.came(0);
    let teller = Arc::new(Teller::start(args, std::slice::from_ref(&meter), BTreeSet::new())?);
    let unused = args.link.typed.unused(&far);
    if !unused.is_empty() {
        teller.hear_link(&Event::Note(format!("without effect: {}", unused.join(", "))));
    }
    if bytes_asked.is_some_and(|asked| asked > legs.bytes_max()) {
        let text = format!("the stage has room for no more than {}", units::size(legs.bytes_max()));
        teller.hear_link(&Event::Note(text));
    }
    let listener = Arc::new(Listener::new(teller.clone(), 1));
    let hears = teller.clone();
    let link_events: Events = Arc::new(move |event| hears.hear_link(&event));
    let tell = |event: Event| listener.hear(&event);
    let running = Running {
        wishes: &wishes,
        congestion: &congestion,
        state: &state,
        link_events,
        meter,
        stop: &stop,
        tell: &tell,
        tells_failed: matches!(ends, Ends::Far(_)),
    };
    begun::tell();
    let ended = Passing {
        args,
        legs: &legs,
        ends: &ends,
        running: &running,
        listener: &listener,
        receipt: receipt.as_ref(),
    }
    .run();
    let failed = ended.as_ref().err().map(|failure| {
        let exit = match failure.kind {
            FailureKind::Stopped => signal.exit(),
            kind => Exit::of(kind),
        };
        listener.failed(failure, exit)
    });

    drop(legs);
    // Ends links in order, and what ssh started.
    drop((ends, far_movers));
    teller.tell_held(held_before, heat::held());
    if let Ok((summary, report)) = &ended {
        if let Some(report) = report {
            listener.write_end(report);
        }
        listener.write_compared(summary.compared.as_ref());
    }
    let mut reported = teller.stop();
    if let (Some(receipt), Ok((_, Some(report)))) = (receipt, &ended)
        && let Some(agreed) = &report.agreed
    {
        reported = reported.worst(teller.kept(receipt.finish(agreed)));
    }
    Ok(match (ended, failed) {
        (Ok((summary, _)), _) => listener.finish_staged(&summary, reported),
        (Err(_), failed) => failed.unwrap_or(Exit::Nothing).worst(reported),
    })
}

/// Where the source and the destination are.
enum Ends {
    /// One of them at least on this machine: the direct copy between them.
    Near(Box<Job>),
    /// Neither.
    Far(Box<TwoFar>),
}

/// A copy through a stage under way.
struct Passing<'a> {
    args: &'a CopyArgs,
    legs: &'a Legs,
    ends: &'a Ends,
    running: &'a Running<'a>,
    listener: &'a Arc<Listener>,
    /// That of the direct copy.
    receipt: Option<&'a ReceiptFile>,
}

impl Passing<'_> {
    /// All of it: what became of it, and what the direct copy says that ends it.
    fn run(&self) -> Result<(Summary, Option<Report>)> {
        let Passing { args, legs, ends, running, .. } = *self;
        let began = Instant::now();
        // Each copy looks by itself whether it sends; for what is known of the way it is as it was asked for.
        let mut asked = running.wishes.clone();
        asked.movement.link.congestion = running.congestion.where_we_send(false);
        let expected = Expected::begin(legs, &asked, running.state, began);
        let mut summary = Summary { bytes_max: legs.bytes_max(), ..Summary::default() };
        let mut is_first = true;
        loop {
            let needs = self.needs(is_first)?;
            if is_first {
                (summary.files_past, summary.unchanged) = (needs.files_past, needs.unchanged);
                (summary.skipped, summary.failed) = (needs.skipped, needs.failed);
                summary.stood = needs.unchanged;
            }
            is_first = false;
            if args.dry_run {
                summary.carried.done = needs.items.len() as u64;
                summary.carried.bytes = needs.bytes;
                summary.elapsed = began.elapsed();
                return Ok((summary, None));
            }
            running.meter.entries_found.fetch_add(needs.items.len() as u64, Ordering::Relaxed);
            running.meter.bytes_found.fetch_add(needs.bytes, Ordering::Relaxed);
            running.meter.scan_over.store(!needs.has_more, Ordering::Relaxed);
            if needs.items.is_empty() && !legs.has_left() {
                break;
            }
            legs.carry(needs.items, running)?;
            if !needs.has_more {
                break;
            }
            match (legs.check_tried(), ends) {
                (Ok(()), _) => {}
                // The direct copy moves the rest.
                (Err(_), Ends::Near(_)) => break,
                (Err(failure), Ends::Far(_)) => return Err(failure),
            }
        }
        let ended = match ends {
            Ends::Near(direct) => Some(self.end_directly(direct)?),
            Ends::Far(_) => None,
        };
        summary.carried = legs.carried();
        summary.failed += summary.carried.failed;
        summary.skipped += summary.carried.skipped;
        summary.unchanged += summary.carried.unchanged;
        if let Some((Report { totals, sources, .. }, found_again)) = &ended {
            // What passed through the stage stands there by now.
            let passed = summary.carried.done + summary.carried.unchanged;
            summary.unchanged = totals.unchanged.saturating_sub(passed.saturating_sub(*found_again));
            summary.skipped = totals.skipped.saturating_sub(*found_again);
            summary.failed += totals.failed;
            summary.direct = Some((*totals, *sources));
        }
        summary.elapsed = began.elapsed();
        let attempts = ended.as_ref().map_or(1, |(report, _)| report.attempts);
        let told = (&summary, attempts);
        let compared = expected.map(|expected| expected.end(legs, told, &asked, running.state));
        summary.compared = compared;
        Ok((summary, ended.map(|(report, _)| report)))
    }

    fn needs(&self, is_first: bool) -> Result<Needs> {
        match self.ends {
            Ends::Near(direct) => self.legs.needs_of(direct, self.running, ROUND_ITEMS_MAX),
            Ends::Far(far) => {
                let wishes = self.running.wishes;
                needs_between(self.legs, far, wishes, ROUND_ITEMS_MAX, &mut |event| {
                    if is_first {
                        self.listener.hear(&event);
                    }
                })
            }
        }
    }

    /// The direct copy, and how much of what passed through the stage it left alone. What stands at the destination as
    /// it should is not told: most of it passed just now, and was told then.
    fn end_directly(&self, direct: &Job) -> Result<(Report, u64)> {
        let running = self.running;
        let mut wishes = running.wishes.clone();
        if wishes.fidelity.check == Check::Nothing {
            wishes.fidelity.check = Check::Evidence;
        }
        wishes.movement.link.congestion = running.congestion.where_we_send(direct.is_push());
        wishes.receipt = self.receipt.map(ReceiptFile::sink);
        let (hears, passed) = (self.listener.clone(), self.legs.take_passed());
        let found_again: Arc<AtomicU64> = Arc::default();
        let finds = found_again.clone();
        let watch = Watch {
            events: Arc::new(move |event| match event {
                Event::Settled(_, Outcome::Unchanged { .. }) => {}
                Event::Settled(entry, Outcome::Skipped(_)) if passed.has(&entry.path) => {
                    finds.fetch_add(1, Ordering::Relaxed);
                }
                event => hears.hear(&event),
            }),
            is_behind: Some(Arc::new(out::is_behind)),
            link_events: running.link_events.clone(),
            meter: Arc::default(),
            evidence: None,
        };
        let report = direct.run(&wishes, running.state, &watch, running.stop)?;
        // It is a part of what is predicted.
        let report = Report { compared: None, ..report };
        Ok((report, found_again.load(Ordering::Relaxed)))
    }
}

/// `DIR[:SIZE]`: what is behind the last colon is a size if it begins with a digit and holds no slash.
fn parse(stage: &OsStr) -> Result<(PathBuf, Option<u64>)> {
    let bytes = stage.as_bytes();
    let (directory, size) = match bytes.iter().rposition(|&byte| byte == b':') {
        Some(at) if bytes.get(at + 1).is_some_and(u8::is_ascii_digit) && !bytes[at..].contains(&b'/') => {
            (&bytes[..at], Some(&bytes[at + 1..]))
        }
        _ => (bytes, None),
    };
    if directory.is_empty() {
        return Err(refused("the directory is missing: --stage DIR[:SIZE]"));
    }
    let size = size.map(|size| {
        let text = String::from_utf8_lossy(size);
        units::parse_size(&text).map_err(|why| refused(&format!("`{}`: {why}", Escaped(size))))
    });
    let size = size.transpose()?;
    if size.is_some_and(|size| size < STAGE_BYTES_MIN) {
        return Err(refused(&format!("it is to have at least {}", units::size(STAGE_BYTES_MIN))));
    }
    Ok((Path::new(OsStr::from_bytes(directory)).to_owned(), size))
}

/// Refuses what cannot be done right.
fn check(args: &CopyArgs, asked: &Asked, has_list: bool) -> Result<()> {
    if asked.part().is_some() {
        return Err(refused("it is for one copy, from and to one host each"));
    }
    if args.receipt.is_some() && asked.is_both_far() {
        return Err(refused(
            "nobody signs what passes between two far places: each side signs for one leg. Leave out --receipt, \
             and compare both with `thalweg check` afterwards",
        ));
    }
    let left_alone = [(args.update, "--update"), (args.ignore_existing, "--ignore-existing")];
    if let Some((_, option)) = left_alone.into_iter().find(|(is_asked, _)| *is_asked) {
        let instead = match asked.is_both_far() {
            true => format!(
                "Copy without --stage, if a place is reached by ssh or one of the two daemons acts; else copy to a \
                 directory of this machine, and from there with {option}"
            ),
            false => format!("Copy without --stage: then {option} goes by what was there before"),
        };
        return Err(refused(&format!(
            "{option} is not done through one: what this command itself brought would count as what was there, and come \
             without its other names and its owner. {instead}"
        )));
    }
    let by_the_last =
        [(args.receipt.is_some(), "--receipt"), (args.remove_source_files, "--remove-source-files")];
    for (_, option) in by_the_last.into_iter().filter(|(is_asked, _)| *is_asked && !asked.is_both_far()) {
        let why = "it goes by what the direct copy compares that ends this one";
        if args.knobs.check != CheckBy::Digest {
            return Err(refused(&format!("{option}: {why} by content. It takes --check digest with it")));
        }
    }
    if !asked.is_both_far() {
        return Ok(());
    }
    let all = [
        (args.delete, "--delete"),
        (args.remove_source_files, "--remove-source-files"),
        (has_list, "--files-from"),
        (args.one_file_system, "--one-file-system"),
        (args.no_times, "--no-times"),
        (args.knobs.check == CheckBy::Digest, "--check digest"),
    ];
    match all.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, option)) => Err(refused(&format!(
            "{option} is not done between two far places: both are listed, and compared by size and time"
        ))),
        None => Ok(()),
    }
}

fn refused(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", format!("--stage: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_stands_behind_the_last_colon_of_a_stage() {
        let read =
            |text: &str| parse(OsStr::new(text)).map(|(path, bytes)| (path.display().to_string(), bytes));
        for (text, path, bytes) in [
            ("/nvme", "/nvme", None),
            ("/nvme:2MiB", "/nvme", Some(2 << 20)),
            ("a:b:1G", "a:b", Some(1 << 30)),
            ("a:b", "a:b", None),
            ("x:1G/", "x:1G/", None),
        ] {
            assert_eq!(read(text).unwrap(), (path.to_owned(), bytes), "{text}");
        }
        for bad in [":1G", "/nvme:1", "/nvme:9x", "/nvme:1MB"] {
            assert_eq!(read(bad).unwrap_err().kind, FailureKind::Usage, "{bad}");
        }
    }
}
