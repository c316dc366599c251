//! What a copy tells while it runs and at its end: to people on stderr and stdout, to programs as JSON.

use crate::args::{CopyArgs, ExplainArgs, Verify};
use crate::exit::Exit;
use crate::progress::Progress;
use crate::receipt::ReportFile;
use crate::{json, out, show, units};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::manifest::filter::Filter;
use thalweg_mover::run::copy::{Meter, Report};
use thalweg_wire::message::Outcome;
use thalweg_wire::{Entry, RelativePath};

/// Time between two progress events.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Hears the events of a copy.
pub struct Listener {
    verbose: u8,
    quiet: bool,
    json: bool,
    progress: Mutex<Option<Progress>>,
    failed: Mutex<Vec<FailureKind>>,
    report: Option<ReportFile>,
    /// Content bytes of the entries done: what a dry run would copy.
    bytes_done: AtomicU64,
    over: Arc<AtomicBool>,
    /// Tells progress as JSON.
    ticker: Mutex<Option<JoinHandle<()>>>,
}

impl Listener {
    /// Begins to show progress, and the report if one is asked for.
    ///
    /// # Errors
    /// If the report cannot be written.
    pub fn start(args: &CopyArgs, meter: Arc<Meter>) -> Result<Listener> {
        let over = Arc::new(AtomicBool::new(false));
        let ticker = args.json.then(|| {
            let (meter, over) = (meter.clone(), over.clone());
            std::thread::spawn(move || {
                let mut next = Instant::now() + PROGRESS_EVERY;
                while !over.load(Ordering::Acquire) {
                    std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                    if Instant::now() >= next && !over.load(Ordering::Acquire) {
                        next += PROGRESS_EVERY;
                        json::tell(&json::progress(&meter));
                    }
                }
            })
        });
        Ok(Listener {
            verbose: if args.quiet { 0 } else { args.verbose },
            quiet: args.quiet,
            json: args.json,
            progress: Mutex::new(Progress::start(meter, args.progress, args.quiet || args.json)),
            failed: Mutex::default(),
            report: args.report.as_deref().map(ReportFile::begin).transpose()?,
            bytes_done: AtomicU64::new(0),
            over,
            ticker: Mutex::new(ticker),
        })
    }

    /// Shows no more progress: nothing of it comes after this has returned.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Release);
        if let Some(ticker) = lock(&self.ticker).take() {
            ticker.thread().unpark();
            let _ = ticker.join();
        }
        lock(&self.progress).take();
        if let Some(Err(failure)) = self.report.as_ref().map(ReportFile::finish) {
            self.line(&format!("error: {failure}"));
            lock(&self.failed).push(failure.kind);
        }
    }

    /// The last words, and the exit code.
    ///
    /// # Errors
    /// None so far.
    pub fn finish(&self, args: &CopyArgs, report: &Report) -> Result<Exit> {
        let exit = Exit::of_entries(lock(&self.failed).iter().copied());
        if self.json {
            json::tell(&json::finished(report, args.dry_run, exit));
        } else if !self.quiet && args.dry_run {
            self.dry_run(report);
        } else if !self.quiet {
            out::tell(&last_line(report, args.verify));
        }
        if exit == Exit::Space
            && let Some(hint) = show::hint(&Failure::new(FailureKind::Space, "write", ""))
        {
            self.line(&format!("hint: {hint}"));
        }
        Ok(exit)
    }

    /// Takes an event.
    pub fn hear(&self, event: &Event) {
        match event {
            Event::Settled(entry, outcome) => {
                if matches!(outcome, Outcome::Done { .. }) {
                    self.bytes_done.fetch_add(entry.content_bytes(), Ordering::Relaxed);
                }
                self.outcome(Some(entry), &entry.path, outcome);
            }
            Event::Aside(path, outcome) => self.outcome(None, path, outcome),
            Event::LinkLost(why) => self.note("link-lost", &format!("link lost: {why}; trying again")),
            Event::LinkUp(after) => {
                self.note("link-up", &format!("link is back after {:.1} s", after.as_secs_f64()));
            }
            Event::StreamLost(stream, why) if self.verbose > 0 => {
                self.note("stream-lost", &format!("stream {stream}: {why}"));
            }
            Event::Repaired(count) => self.note("repaired", &format!("{count} damaged, sent again")),
            Event::Note(text) => self.note("note", text),
            Event::ScanEnded(_) | Event::Finished(_) | Event::StreamLost(..) => {}
        }
    }

    fn note(&self, event: &str, text: &str) {
        if self.json {
            json::tell(&serde_json::json!({"event": event, "text": text}));
        }
        if !self.quiet {
            self.line(text);
        }
    }

    fn outcome(&self, entry: Option<&Entry>, path: &RelativePath, outcome: &Outcome) {
        if self.json || self.report.is_some() {
            let mut value = json::outcome(path, outcome);
            if let (Some(entry), serde_json::Value::Object(object)) = (entry, &mut value) {
                object.insert("type".into(), json::kind_word(entry).into());
                object.insert("bytes".into(), entry.content_bytes().into());
            }
            if self.json {
                json::tell(&value);
            }
            if let Some(report) = &self.report {
                report.line(&value);
            }
        }
        match outcome {
            Outcome::Done { losses, .. } => {
                for loss in losses.iter().filter(|_| !self.quiet) {
                    let show = |text: &str| thalweg_wire::path::Escaped(text.as_bytes()).to_string();
                    self.line(&format!(
                        "warning: `{path}`: {} not kept: {}",
                        show(&loss.what),
                        show(&loss.why)
                    ));
                }
                if self.verbose > 0 {
                    self.line(&path.to_string());
                }
            }
            Outcome::Unchanged { .. } if self.verbose > 1 => self.line(&format!("{path} (unchanged)")),
            Outcome::Skipped(why) if self.verbose > 0 => {
                self.line(&format!("{path} (skipped: {})", thalweg_wire::path::Escaped(why.as_bytes())));
            }
            Outcome::Failed(failure) => {
                lock(&self.failed).push(failure.kind);
                self.line(&format!("error: {failure}"));
            }
            _ => {}
        }
    }

    fn line(&self, text: &str) {
        match &*lock(&self.progress) {
            Some(progress) => progress.line(text),
            None => {
                use std::io::Write;
                // As with stdout, a reader that is gone is no reason to stop copying.
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        }
    }

    fn dry_run(&self, report: &Report) {
        let totals = &report.totals;
        let bytes = self.bytes_done.load(Ordering::Relaxed);
        let mut line = format!(
            "dry run: {} in {} entries would be copied",
            units::size(bytes),
            units::count(totals.done)
        );
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
        out::tell(&format!("{line}; nothing was changed"));
        let plan = &report.plan;
        out::tell(&format!("  streams      {}", plan.streams));
        out::tell(&format!(
            "  chunk        {} ({})",
            units::size(plan.chunk_bytes.value),
            plan.chunk_bytes.why
        ));
        let segment = u64::from(plan.segment_bytes.value);
        out::tell(&format!("  segment      {} ({})", units::size(segment), plan.segment_bytes.why));
        out::tell(&format!("  concurrency  {}", plan.concurrency));
    }
}

fn last_line(report: &Report, verify: Verify) -> String {
    let totals = &report.totals;
    let seconds = report.elapsed.as_secs_f64();
    let mut line = format!(
        "{} in {} entries copied in {seconds:.2} s, {}",
        units::size(totals.bytes_done),
        units::count(totals.done),
        units::rate(totals.bytes_done, seconds),
    );
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
    line.push_str(match verify {
        Verify::Written => "; verified as written, durable",
        Verify::Readback => "; verified by reading back, durable",
        Verify::Paranoid => "; verified by reading twice and back, durable",
    });
    if let Some(narrowest) = &report.narrowest {
        let place =
            if narrowest.place == "path" { String::new() } else { format!(" at the {}", narrowest.place) };
        let busy = narrowest.busy * 100.0;
        line.push_str(&format!("; narrowest stage: {}{place} ({busy:.0} % busy)", narrowest.stage));
    }
    line
}

/// `thalweg explain-filter`.
///
/// # Errors
/// `Usage` for rules and paths that are none.
pub fn explain_filter(args: &ExplainArgs) -> Result<Exit> {
    let filter = Filter::new(args.filter.rules()?)?;
    for text in &args.paths {
        let bytes = text.as_bytes();
        let is_dir = bytes.ends_with(b"/");
        let parts: Vec<&[u8]> =
            bytes.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
        let path = RelativePath::new(parts.join(&b'/'))
            .map_err(|error| Failure::new(FailureKind::Usage, "read the path", error))?;
        out::tell(&filter.explain(&path, is_dir));
    }
    Ok(Exit::Done)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
