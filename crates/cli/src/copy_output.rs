//! What copies tell while they run and at their end: to people on stderr and stdout, to programs as JSON.

use crate::args::copy::{CopyArgs, Verify};
use crate::comparison;
use crate::exit::Exit;
use crate::progress::Progress;
use crate::{begun, identity, json, out, show, signals, threads, units};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::objects::KEEPS_NO;
use thalweg_client::receipt::ReportFile;
use thalweg_client::{events, hint};
use thalweg_mover::basin::{Narrow, Where};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::filter::EXCLUDED_BY;
use thalweg_mover::model::prediction::Compared;
use thalweg_mover::mutex::lock;
use thalweg_mover::plan::Plan;
use thalweg_mover::run::copy::{Meter, Report, Sources};
use thalweg_service::published::{self, State};
use thalweg_sys::heat::Held;
use thalweg_wire::RelativePath;
use thalweg_wire::account::RenamedAccount;
use thalweg_wire::message::{Outcome, Totals};
use thalweg_wire::path::Sentence;

pub mod relay;

mod staged;

/// A quota that held threads for less than this is not worth a word.
const HELD_TOLD: Duration = Duration::from_millis(500);
/// Of a copy that took less, most is beginning and end: a stage that was busy for a part of it says nothing of the way.
const NARROWEST_AFTER: Duration = Duration::from_secs(1);
/// Who reads that a copy was over before that is told where to ask, from so many bytes on: of fewer there is nothing to
/// ask but how long a round trip and a sync take.
const ASKED_OF_BYTES_MIN: u64 = 16 << 20;
/// Time between two progress events.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Where everything goes that the copies of one command tell.
pub struct Teller {
    verbose: u8,
    quiet: bool,
    json: bool,
    dry_run: bool,
    /// How far copies are checked.
    verify: Verify,
    /// Copies that tell; with more than one each says its number.
    copies: usize,
    /// The state directory, where one was asked for.
    state: Option<PathBuf>,
    progress: Mutex<Option<Progress>>,
    undrawn: Mutex<Option<Undrawn>>,
    report: Option<ReportFile>,
    over: Arc<AtomicBool>,
    /// Tells progress as JSON.
    ticker: Mutex<Option<JoinHandle<()>>>,
}

/// Progress that is not drawn yet.
struct Undrawn {
    meters: Vec<Arc<Meter>>,
    always: bool,
    never: bool,
    /// Copies that may still have a password asked for, by their numbers.
    awaited: BTreeSet<usize>,
    /// Whether one of the command's copies has begun; that they all failed on the way there is no beginning of a job.
    has_begun: bool,
}

impl Teller {
    /// Begins to show progress of the copies that `meters` count, and the report if one is asked for. Nothing is drawn
    /// before each copy of which the number is `awaited` has [begun](Teller::begun).
    ///
    /// # Errors
    /// If the report cannot be written, or no thread be had.
    pub fn start(args: &CopyArgs, meters: &[Arc<Meter>], awaited: BTreeSet<usize>) -> Result<Teller> {
        out::tell_of(meters.len());
        let over = Arc::new(AtomicBool::new(false));
        let ticker = args.json.then(|| {
            let (meters, over) = (meters.to_vec(), over.clone());
            threads::spawn("progress", move || {
                let mut next = Instant::now() + PROGRESS_EVERY;
                while !over.load(Ordering::Acquire) {
                    std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                    if Instant::now() >= next && !over.load(Ordering::Acquire) {
                        next += PROGRESS_EVERY;
                        for (meter, number) in meters.iter().zip(1..) {
                            let value = numbered(json::progress(meter), number, meters.len());
                            json::tell_progress(&value, number);
                        }
                    }
                }
            })
        });
        let ticker = ticker.transpose()?;
        let undrawn = Undrawn {
            meters: meters.to_vec(),
            always: args.progress,
            never: args.quiet || args.json,
            has_begun: awaited.len() < meters.len(),
            awaited,
        };
        let teller = Teller {
            verbose: if args.quiet { 0 } else { args.verbose },
            quiet: args.quiet,
            json: args.json,
            dry_run: args.dry_run,
            verify: args.verify,
            copies: meters.len(),
            state: args.link.state.clone(),
            progress: Mutex::default(),
            undrawn: Mutex::new(Some(undrawn)),
            report: args.report.as_deref().map(ReportFile::begin).transpose()?,
            over,
            ticker: Mutex::new(ticker),
        };
        teller.draw();
        Ok(teller)
    }

    /// Whether somebody is told of every entry.
    pub fn tells_all(&self) -> bool {
        self.json || self.verbose > 0 || self.dry_run || self.report.is_some()
    }

    /// The copy with this number has nobody asked for a password any more: it has begun, or ended without that. With
    /// the last of those that were awaited the command has begun, as a job.
    fn begun(&self, number: usize, has_begun: bool) {
        let (mut is_new, mut is_job_begun) = (false, false);
        if let Some(undrawn) = lock(&self.undrawn).as_mut()
            && undrawn.awaited.remove(&number)
        {
            undrawn.has_begun |= has_begun;
            (is_new, is_job_begun) = (true, undrawn.has_begun && undrawn.awaited.is_empty());
        }
        if is_job_begun {
            begun::tell();
        }
        if is_new {
            self.draw();
        }
    }

    /// Draws from now on, once nothing is awaited.
    fn draw(&self) {
        let ready = lock(&self.undrawn).take_if(|undrawn| undrawn.awaited.is_empty());
        if let Some(Undrawn { meters, always, never, .. }) = ready {
            *lock(&self.progress) = Progress::start(&meters, always, never);
        }
    }

    /// Shows no more progress (nothing of it comes after this has returned), and completes the report; says so if
    /// that fails.
    pub fn stop(&self) -> Exit {
        self.over.store(true, Ordering::Release);
        if let Some(ticker) = lock(&self.ticker).take() {
            ticker.thread().unpark();
            let _ = ticker.join();
        }
        lock(&self.undrawn).take();
        lock(&self.progress).take();
        self.kept(self.report.as_ref().map_or(Ok(()), ReportFile::finish))
    }

    /// What became of the report or the receipt: says so if it is not whole. How copies ended is told all the same.
    pub fn kept(&self, written: Result<()>) -> Exit {
        let Err(failure) = written else { return Exit::Done };
        if self.json {
            json::tell_later(&json::error(&failure, None));
        }
        show::lines(&failure).iter().for_each(|line| self.line(line));
        Exit::of_entries(std::iter::once(failure.kind))
    }

    /// Says what held this machine back meanwhile: heat, or the quota of its control group.
    pub fn tell_held(&self, before: Held, after: Held) {
        let heat = after.heat.zip(before.heat).map(|(after, before)| after.since(before)).unwrap_or_default();
        if heat.slowed > 0 {
            let when = match heat.times {
                // Not counted here: what was seen.
                0 => {
                    let looks = units::counted(heat.looks, "look", "looks");
                    format!("at {} of {looks}", units::count(heat.slowed))
                }
                1 => "once".to_owned(),
                times => format!("{} times", units::count(times)),
            };
            self.note_event(&Event::Note(format!("this machine's CPU was slowed for heat, {when}")), None);
        }
        let waited = after.quota.zip(before.quota).map_or(Duration::ZERO, |(a, b)| a.saturating_sub(b));
        if waited >= HELD_TOLD {
            let seconds = waited.as_secs_f64();
            let text = format!("the CPU quota of this control group held its threads for {seconds:.1} s");
            self.note_event(&Event::Note(text), None);
        }
    }

    /// Takes an event of a link, on which several copies may ride.
    pub fn hear_link(&self, event: &Event) {
        self.note_event(event, None);
    }

    fn note_event(&self, event: &Event, number: Option<usize>) {
        let Some(note) = events::note(event) else { return };
        let is_for = |is_program| note.level.is_for(self.verbose > 0, is_program);
        if self.json && is_for(true) {
            let value = serde_json::Value::Object(note.object());
            json::tell_later(&number.map_or(value.clone(), |number| numbered(value, number, self.copies)));
        }
        if !self.quiet && is_for(false) {
            let copy = number.map(|number| self.prefix(number)).unwrap_or_default();
            self.line(&format!("{copy}{}", note.text));
        }
    }

    /// Whether somebody reads the last line who would get an answer from `thalweg why`, and one about this copy.
    fn is_told_by_why(&self) -> bool {
        if self.copies != 1 || !std::io::stdout().is_terminal() {
            return false;
        }
        let Ok(state) = identity::state_path(self.state.as_deref()) else { return false };
        let all = published::all(&state);
        // As `why` takes one where none is named.
        let asked = all.iter().rfind(|told| told.state == State::Running).or(all.last());
        asked.is_some_and(|told| !told.is_served && told.pid == std::process::id())
    }

    /// What stands before the lines of a copy.
    fn prefix(&self, number: usize) -> String {
        if self.copies > 1 { format!("{number}: ") } else { String::new() }
    }

    fn line(&self, text: &str) {
        match &*lock(&self.progress) {
            Some(progress) => progress.line(text),
            // Before anything is drawn there.
            None if std::io::stderr().is_terminal() => show::line(text),
            // No link waits for its reader.
            None => show::line_later(text.to_owned()),
        }
    }
}

/// The event with `copy`, if there is more than one.
fn numbered(mut value: serde_json::Value, number: usize, copies: usize) -> serde_json::Value {
    if let (2.., serde_json::Value::Object(object)) = (copies, &mut value) {
        object.insert("copy".into(), number.into());
    }
    value
}

/// Hears the events of one copy.
pub struct Listener {
    teller: Arc<Teller>,
    /// Its place in the command, from 1.
    number: usize,
    failed: Mutex<Vec<FailureKind>>,
    /// What to do about files that are too large, if there was one.
    limit_hint: Mutex<Option<&'static str>>,
    /// What to do about the first that found no room: a full disk, a quota, or descriptors that are used up.
    space_hint: Mutex<Option<&'static str>>,
    /// What to do about the first link that could not be followed.
    links_hint: Mutex<Option<&'static str>>,
    /// Content bytes of the entries done: what a dry run would copy.
    bytes_done: AtomicU64,
    /// Things that could not be kept.
    losses: AtomicU64,
    /// Names of deleted entries that came; of many only the first do.
    deleted: AtomicU64,
}

/// Things that could not be kept, each told in a line; with more, the others are counted.
const LOSSES_SHOWN: u64 = 20;

impl Listener {
    /// For the copy with this number.
    pub fn new(teller: Arc<Teller>, number: usize) -> Listener {
        Listener {
            teller,
            number,
            failed: Mutex::default(),
            limit_hint: Mutex::default(),
            space_hint: Mutex::default(),
            links_hint: Mutex::default(),
            bytes_done: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
        }
    }

    /// Writes into the report file, which is complete after [`Teller::stop`], how many deleted entries it does not
    /// name, and the prediction.
    pub fn write_end(&self, report: &Report) {
        let unnamed = self.unnamed(report);
        if let (Some(file), 1..) = (&self.teller.report, unnamed) {
            file.line(&self.unnamed_event(unnamed));
        }
        self.write_compared(report.compared.as_ref());
    }

    /// Writes the prediction into the report file.
    pub fn write_compared(&self, compared: Option<&Compared>) {
        if let (Some(file), Some(compared)) = (&self.teller.report, compared) {
            file.line(&numbered(json::compared(compared), self.number, self.teller.copies));
        }
    }

    /// The last words, and the exit code, which is at least what [`Teller::kept`] said (`reported`). `is_kept`: the
    /// destination is one.
    pub fn finish(&self, report: &Report, is_kept: bool, reported: Exit) -> Exit {
        let of_entries = Exit::of_entries(lock(&self.failed).iter().copied());
        let exit = of_entries.worst(of_sources(&report.sources)).worst(reported);
        let untold = self.losses.load(Ordering::Relaxed).saturating_sub(LOSSES_SHOWN);
        if untold > 0 && !self.teller.quiet && self.teller.verbose == 0 {
            self.line(&format!(
                "warning: {} more could not be kept: --report FILE or -v names them",
                units::count(untold)
            ));
        }
        self.tell_unnamed(self.unnamed(report));
        let compared = report.compared.as_ref();
        self.tell_terms(compared);
        if self.teller.json {
            self.tell(json::finished(report, self.teller.dry_run, exit));
        } else if !self.teller.quiet && self.teller.dry_run {
            self.dry_run(report);
        } else if !self.teller.quiet {
            self.say(&format!("{}{}", self.last_line(report, is_kept), self.told_of(compared)));
        }
        if of_entries == Exit::Space
            && let Some(hint) = *lock(&self.space_hint)
        {
            self.line(&format!("hint: {hint}"));
        }
        let others = [*lock(&self.limit_hint), *lock(&self.links_hint)];
        for hint in others.into_iter().flatten() {
            self.line(&format!("hint: {hint}"));
        }
        exit
    }

    /// Predicted against actual, term by term, for who asks for more.
    fn tell_terms(&self, compared: Option<&Compared>) {
        if self.teller.verbose > 0 && !self.teller.json {
            compared.into_iter().flat_map(comparison::details).for_each(|line| self.line(&line));
        }
    }

    /// What stands behind the last line of it.
    fn told_of(&self, compared: Option<&Compared>) -> String {
        let is_verbose = self.teller.verbose > 0;
        compared.map(|compared| comparison::short(compared, is_verbose)).unwrap_or_default()
    }

    /// The copy failed as a whole; hands its exit code back.
    pub fn failed(&self, failure: &Failure, exit: Exit) -> Exit {
        if self.teller.json {
            self.tell(json::error(failure, Some(exit)));
        }
        show::lines(failure).iter().for_each(|line| self.line(line));
        exit
    }

    /// Takes an event.
    pub fn hear(&self, event: &Event) {
        self.record(event);
        match event {
            Event::Settled(entry, outcome) => {
                if matches!(outcome, Outcome::Done { .. }) {
                    self.bytes_done.fetch_add(entry.content_bytes(), Ordering::Relaxed);
                }
                self.outcome(true, &entry.path, outcome);
            }
            Event::Aside(path, outcome) => self.outcome(false, path, outcome),
            Event::Deleted(path) => self.deleted(path),
            Event::SourceRemoved(path) => self.source_removed(path),
            Event::SourceKept(failure) => self.source_kept(failure),
            // A dry run tells it at its end.
            Event::Planned(_) if self.teller.dry_run => {}
            Event::Planned(plan) if self.teller.verbose > 0 && !self.teller.json => {
                plan_lines(plan).iter().for_each(|line| self.line(line));
            }
            event => self.teller.note_event(event, Some(self.number)),
        }
    }

    fn deleted(&self, path: &RelativePath) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
        if self.tells_deleted() {
            self.line(&format!("{path} ({})", self.deleted_word()));
        }
    }

    fn source_removed(&self, path: &RelativePath) {
        if self.tells_deleted() {
            let word = if self.teller.dry_run { "would be removed" } else { "removed" };
            self.line(&format!("{path} ({word} at the source)"));
        }
    }

    /// It was asked for and not done, so the command is not as it should be.
    fn source_kept(&self, failure: &Failure) {
        lock(&self.failed).push(failure.kind);
        self.line(&format!("error: {failure}"));
    }

    /// Tells a program, and writes into the report, what is about an entry; it is made only where there is one of the
    /// two.
    fn record(&self, event: &Event) {
        if !self.teller.json && self.teller.report.is_none() {
            return;
        }
        let Some(object) = events::of_entry(event) else { return };
        let value = numbered(object.into(), self.number, self.teller.copies);
        if self.teller.json {
            json::tell_later(&value);
        }
        if let Some(report) = &self.teller.report {
            report.line(&value);
        }
    }

    /// Whether people are told the names of what is deleted.
    fn tells_deleted(&self) -> bool {
        let Teller { verbose, quiet, json, dry_run, .. } = *self.teller;
        !json && (verbose > 0 || (dry_run && !quiet))
    }

    fn deleted_word(&self) -> &'static str {
        if self.teller.dry_run { "would be deleted" } else { "deleted" }
    }

    /// Entries deleted of which no name came.
    fn unnamed(&self, report: &Report) -> u64 {
        report.totals.deleted.saturating_sub(self.deleted.load(Ordering::Relaxed))
    }

    fn unnamed_event(&self, unnamed: u64) -> serde_json::Value {
        numbered(events::deleted_unnamed(unnamed).into(), self.number, self.teller.copies)
    }

    fn tell_unnamed(&self, unnamed: u64) {
        if unnamed == 0 {
            return;
        }
        if self.teller.json {
            json::tell_later(&self.unnamed_event(unnamed));
        } else if self.tells_deleted() {
            self.line(&format!("{} more ({}, not named)", units::count(unnamed), self.deleted_word()));
        }
    }

    /// How an entry ended, and whether it was offered.
    fn outcome(&self, is_offered: bool, path: &RelativePath, outcome: &Outcome) {
        let Teller { verbose, quiet, .. } = *self.teller;
        match outcome {
            Outcome::Done { losses, .. } => {
                let told = self.losses.fetch_add(losses.len() as u64, Ordering::Relaxed);
                let room = if verbose > 0 { u64::MAX } else { LOSSES_SHOWN.saturating_sub(told) };
                for loss in losses.iter().filter(|_| !quiet).take(room as usize) {
                    self.line(&format!(
                        "warning: `{path}`: {} not kept: {}",
                        Sentence(&loss.what),
                        Sentence(&loss.why)
                    ));
                }
                if verbose > 0 {
                    self.line(&path.to_string());
                }
            }
            Outcome::Unchanged { .. } if verbose > 1 => self.line(&format!("{path} (unchanged)")),
            // What the source has and does not send is told, and what a bucket cannot hold; what the user asked to be
            // left out, on request.
            Outcome::Skipped(why)
                if verbose > 0
                    || (!quiet
                        && !why.starts_with(EXCLUDED_BY)
                        && (!is_offered || why.starts_with(KEEPS_NO))) =>
            {
                self.line(&format!("{path} (skipped: {})", Sentence(why)));
            }
            Outcome::Failed(failure) => {
                lock(&self.failed).push(failure.kind);
                if failure.reason == Reason::FileTooLarge {
                    *lock(&self.limit_hint) = hint::of(failure);
                }
                if failure.kind == FailureKind::Space {
                    let mut first = lock(&self.space_hint);
                    *first = first.or_else(|| hint::of(failure));
                }
                if failure.reason == Reason::NotFollowed {
                    let mut first = lock(&self.links_hint);
                    *first = first.or_else(|| hint::of(failure));
                }
                self.line(&format!("error: {failure}"));
            }
            _ => {}
        }
    }

    /// A line on stderr, of this copy.
    fn line(&self, text: &str) {
        self.teller.line(&format!("{}{text}", self.teller.prefix(self.number)));
    }

    /// A line on stdout, of this copy.
    fn say(&self, text: &str) {
        out::tell(&format!("{}{text}", self.teller.prefix(self.number)));
    }

    fn tell(&self, value: serde_json::Value) {
        json::tell_later(&numbered(value, self.number, self.teller.copies));
    }

    fn dry_run(&self, report: &Report) {
        let totals = &report.totals;
        let bytes = self.bytes_done.load(Ordering::Relaxed);
        let mut line =
            format!("dry run: {} in {} would be copied", units::size(bytes), units::entries(totals.done));
        for (count, word) in [
            (totals.unchanged, "unchanged"),
            (totals.skipped, "skipped"),
            (totals.deleted, "would be deleted"),
            (totals.failed, "failed"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {} {word}", units::count(count)));
            }
        }
        line.push_str(&sources(&report.sources, "would remove", "would leave"));
        self.say(&format!("{line}; nothing was changed"));
        plan_lines(&report.plan).iter().for_each(|line| self.say(line));
    }

    /// `is_kept` as [`Listener::finish`].
    fn last_line(&self, report: &Report, is_kept: bool) -> String {
        let totals = &report.totals;
        let seconds = report.elapsed.as_secs_f64();
        let mut line = format!(
            "{} in {} copied in {seconds:.2} s",
            units::size(totals.bytes_done),
            units::entries(totals.done),
        );
        line.push_str(&moved(totals, &report.renamed, report.attempts, seconds));
        for (count, word) in [
            (totals.unchanged, "unchanged"),
            (totals.skipped, "skipped"),
            (totals.deleted, "deleted"),
            (totals.failed, "failed"),
        ] {
            if count > 0 {
                line.push_str(&format!(", {} {word}", units::count(count)));
            }
        }
        line.push_str(&sources(&report.sources, "removed", "left"));
        if totals.done > 0 {
            let rest = if totals.failed > 0 { "the others " } else { "" };
            let verified = match self.teller.verify {
                Verify::Written => "verified as written",
                Verify::Readback => "verified by reading back",
                Verify::Paranoid => "verified by reading twice and back",
            };
            let kept = if is_kept { "durable" } else { "kept nowhere" };
            line.push_str(&format!("; {rest}{verified}, {kept}"));
        }
        let is_telling = self.teller.verbose > 0 || report.elapsed >= NARROWEST_AFTER;
        if let Some(verdict) = report.verdict.as_ref().filter(|_| totals.done > 0 && is_telling) {
            let narrowest = &verdict.narrowest;
            line.push_str(&format!("; narrowest stage: {}", stage(narrowest)));
        } else if totals.bytes_received >= ASKED_OF_BYTES_MIN && self.teller.is_told_by_why() {
            let state = show::state_option(self.teller.state.as_deref());
            line.push_str(&format!("; `thalweg why{state}` says what held it up"));
        }
        line
    }
}

/// What a copy goes by, and why.
pub fn plan_lines(plan: &Plan) -> Vec<String> {
    let automatic = |value: Option<String>| value.unwrap_or_else(|| "automatic".to_owned());
    let depth = automatic(plan.depth.value.map(|depth| depth.to_string()));
    let window = automatic(plan.window_bytes.value.map(units::size));
    let mut lines = vec![
        format!("  streams      {}", plan.streams),
        format!("  chunk        {} ({})", units::size(plan.chunk_bytes.value), plan.chunk_bytes.why),
        format!(
            "  segment      {} ({})",
            units::size(plan.segment_bytes.value.into()),
            plan.segment_bytes.why
        ),
        format!("  concurrency  {}", plan.concurrency),
        format!("  depth        {depth} ({})", plan.depth.why),
        format!("  window       {window} ({})", plan.window_bytes.why),
        format!("  io depth     {}", plan.disk.io_depth),
        format!("  engine       {}", plan.disk.engine),
    ];
    for (side, number) in [("source", 0), ("destination", 1)] {
        lines.push(format!("  direct       {side}: {}", plan.disk.direct[number]));
        lines.push(format!("  order        {side}: {}", plan.disk.order[number]));
    }
    lines.extend(plan.congestion.as_ref().map(|name| format!("  congestion   {name}")));
    let advice = plan.window_advice(plan.goal_bits_per_s, plan.streams.value);
    lines.extend(advice.map(|advice| format!("  {advice}")));
    lines
}

/// What became of source files that were to be removed.
fn sources(sources: &Sources, removed: &str, left: &str) -> String {
    let told = |(count, word): (u64, &str)| match count {
        0 => String::new(),
        _ => format!(", {word} {}", units::counted(count, "source file", "source files")),
    };
    [(sources.removed, removed), (sources.left.sum(), left)].map(told).concat()
}

/// The exit code of what became of them: a stop may have come when all else was done.
fn of_sources(sources: &Sources) -> Exit {
    if sources.is_cut_short { signals::exit() } else { Exit::Done }
}

/// What of the content was there before, and at which rate the rest came: only that crossed the link. Where a copy had
/// to start over, what it found there it may have sent itself in these seconds.
fn moved(totals: &Totals, renamed: &RenamedAccount, attempts: u32, seconds: f64) -> String {
    let files = units::counted(renamed.files, "file", "files");
    let there = [
        (if attempts > 1 { 0 } else { totals.bytes_resumed }, "durable from an earlier attempt".to_owned()),
        (totals.bytes_same.saturating_sub(renamed.bytes), "found there by comparing".to_owned()),
        (renamed.bytes, format!("found there under other names ({files})")),
    ];
    let there: String = there
        .into_iter()
        .filter(|(bytes, _)| *bytes > 0)
        .map(|(bytes, how)| format!(", {} {how}", units::size(bytes)))
        .collect();
    match (there.is_empty(), totals.bytes_received) {
        (true, _) if totals.bytes_done > 0 => format!(", {}", units::rate(totals.bytes_done, seconds)),
        (true, _) | (false, 0) => there,
        (false, sent) => format!("{there}, {} sent, {}", units::size(sent), units::rate(sent, seconds)),
    }
}

/// A stage with its place, and how busy it was.
pub fn stage(narrow: &Narrow) -> String {
    let place = match narrow.place {
        Where::Path => String::new(),
        Where::Both => " of this machine".to_owned(),
        place => format!(" at the {}", place.name()),
    };
    format!("{}{place} ({:.0} % busy)", narrow.stage, narrow.busy * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_what_was_sent_and_what_was_there_is_said() {
        let of = |done, received, resumed, same, attempts| {
            let totals = Totals {
                bytes_done: done,
                bytes_received: received,
                bytes_resumed: resumed,
                bytes_same: same,
                ..Totals::default()
            };
            moved(&totals, &RenamedAccount::default(), attempts, 1.0)
        };
        const MB: u64 = 1_000_000;
        assert_eq!(of(0, 0, 0, 0, 1), "");
        let rate = |bytes| units::rate(bytes, 1.0);
        assert_eq!(of(10 * MB, 10 * MB, 0, 0, 1), format!(", {}", rate(10 * MB)));
        let there = units::size(6 * MB);
        let sent = format!("{} sent, {}", units::size(4 * MB), rate(4 * MB));
        assert_eq!(
            of(10 * MB, 4 * MB, 6 * MB, 0, 1),
            format!(", {there} durable from an earlier attempt, {sent}")
        );
        assert_eq!(of(10 * MB, 4 * MB, 0, 6 * MB, 1), format!(", {there} found there by comparing, {sent}"));
        assert_eq!(of(6 * MB, 0, 6 * MB, 0, 1), format!(", {there} durable from an earlier attempt"));
        // Of a copy whose link was lost it is not known which attempt sent it.
        assert_eq!(of(10 * MB, 4 * MB, 6 * MB, 0, 2), format!(", {}", rate(10 * MB)));
        let totals = Totals { bytes_done: 10 * MB, bytes_same: 10 * MB, ..Totals::default() };
        let renamed = RenamedAccount { files: 2, bytes: 6 * MB, is_cut: false };
        let compared = units::size(4 * MB);
        assert_eq!(
            moved(&totals, &renamed, 1, 1.0),
            format!(", {compared} found there by comparing, {there} found there under other names (2 files)")
        );
    }

    #[test]
    fn a_stop_that_leaves_source_files_is_told_by_the_exit_code() {
        let whole = Sources { removed: 1, ..Sources::default() };
        assert_eq!(of_sources(&whole), Exit::Done);
        assert_eq!(of_sources(&Sources { is_cut_short: true, ..whole }), Exit::Interrupted);
    }
}
