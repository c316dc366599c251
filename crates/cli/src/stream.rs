//! `thalweg stream`: what is still being made, from one place to another.

use crate::exit::Exit;
use crate::place::Places;
use crate::progress::Progress;
use crate::{json, show, signals, units};
use serde_json::{Value, json};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_cli::stream_args::StreamArgs;
use thalweg_client::events;
use thalweg_client::fars::{Fars, How};
use thalweg_client::identity;
use thalweg_client::stream::{End, Ends};
use thalweg_mover::event::{self, Event};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::plan::Asked;
use thalweg_mover::run::copy::{EvidenceSink, Meter, Stop, Watch};
use thalweg_mover::run::flow::job::{self, FlowReport, FlowWishes};
use thalweg_service::published::{Publisher, State};
use thalweg_wire::message::{FlowTerms, Outcome, Until};
use thalweg_wire::path::Escaped;

/// Streams.
///
/// # Errors
/// What is wrong with the command line; when it could not begin or not go on.
pub fn stream(args: &StreamArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let mut fars = Fars::new(How {
        places: places.clone(),
        ticket: args.ticket.clone(),
        ssh: args.ssh.options(),
        patience: args.patience,
        stall_timeout: args.stall_timeout,
        state: Some(state.clone()),
        events: if args.quiet { event::nobody() } else { show::notes() },
        via: Vec::new(),
        bind: Vec::new(),
    });
    let source = End::parse(&args.source, places, || duplicate(std::io::stdin().as_fd()))?;
    let destination = End::parse(&args.destination, places, || duplicate(std::io::stdout().as_fd()))?;
    let is_stdout = destination.is_pipe();
    let names = [&args.source, &args.destination].map(|text| Escaped(text.as_bytes()).to_string());
    let ends = Ends::reach(source, destination, &mut fars, &state)?;
    let wishes = wishes(args);
    let stop = Arc::new(Stop::default());
    let telling = "stopping: what was read becomes durable first; once more to stop at once";
    let signal = signals::stop_on(stop.clone(), (!args.quiet).then_some(telling))?;
    let meter: Arc<Meter> = Arc::default();
    let teller = Arc::new(Teller::start(args, is_stdout, &meter));
    let told = Publisher::begin(&state, &names[0], &names[1], false).map(Arc::new);
    let (hears, hears_link) = (teller.clone(), teller.clone());
    let watch = Watch {
        events: Arc::new(move |event| hears.hear(&event)),
        link_events: Arc::new(move |event| hears_link.hear(&event)),
        meter,
        evidence: told.clone().map(|told| -> EvidenceSink { Arc::new(move |now| told.tell(now)) }),
    };
    let result = job::stream(ends.from, ends.to, &wishes, &ends.signer, &watch, &stop);
    drop(fars);
    teller.stop();
    if let Some(told) = told {
        if let Ok(report) = &result {
            told.tell(&report.evidence);
        }
        told.over(if result.is_ok() { State::Finished } else { State::Failed });
    }
    match result {
        Ok(report) => Ok(teller.finish(&report)),
        Err(failure) => {
            let exit = match failure.kind {
                FailureKind::Stopped if stop.is_asked() => signal.exit(),
                // Whoever takes the bytes has gone.
                FailureKind::Stopped => Exit::Nothing,
                kind => Exit::of(kind),
            };
            teller.failed(&failure, exit);
            Ok(exit)
        }
    }
}

fn duplicate(fd: std::os::fd::BorrowedFd<'_>) -> Result<OwnedFd> {
    fd.try_clone_to_owned().map_err(|error| failure::of_io("open", &error))
}

fn wishes(args: &StreamArgs) -> FlowWishes {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let until = Until {
        closed: args.until_closed,
        idle_ms: args.until_idle.map(millis),
        bytes: args.until_size,
        marker: args.until_marker.as_ref().map(|name| name.as_bytes().to_vec()),
        forever: args.follow,
        wait: args.wait,
        poll_ms: args.poll.map(|time| u32::try_from(millis(time)).unwrap_or(u32::MAX).max(1)),
    };
    let mark_every_ms = u32::try_from(millis(args.mark_every)).unwrap_or(u32::MAX);
    let mut wishes = FlowWishes::new(until);
    wishes.terms = FlowTerms { window_bytes: args.buffer, mark_every_ms, ..wishes.terms };
    wishes.asked = Asked { streams: args.streams, ..Asked::default() };
    wishes.rate_bytes_per_s = args.bwlimit.map(|bits| (bits / 8).max(1));
    wishes.link.stall_timeout = args.stall_timeout;
    wishes.link.patience = args.patience;
    wishes.link.dscp = args.dscp;
    wishes
}

/// Tells what happens: to people on stderr; as JSON on stdout, or on stderr where stdout is the destination.
struct Teller {
    verbose: bool,
    quiet: bool,
    json: bool,
    is_stdout: bool,
    progress: Mutex<Option<Progress>>,
    failed: Mutex<Vec<FailureKind>>,
    over: Arc<AtomicBool>,
    ticker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Teller {
    fn start(args: &StreamArgs, is_stdout: bool, meter: &Arc<Meter>) -> Teller {
        let over = Arc::new(AtomicBool::new(false));
        let ticker = args.json.then(|| {
            let (meter, over) = (meter.clone(), over.clone());
            std::thread::spawn(move || {
                std::thread::park_timeout(PROGRESS_EVERY);
                while !over.load(Ordering::Acquire) {
                    tell(is_stdout, &events::flow_progress(&meter));
                    std::thread::park_timeout(PROGRESS_EVERY);
                }
            })
        });
        Teller {
            verbose: args.verbose,
            quiet: args.quiet,
            json: args.json,
            is_stdout,
            progress: Mutex::new(Progress::start(
                std::slice::from_ref(meter),
                args.progress,
                args.quiet || args.json,
            )),
            failed: Mutex::default(),
            over,
            ticker: Mutex::new(ticker),
        }
    }

    fn hear(&self, event: &Event) {
        let (name, text) = match event {
            Event::Settled(entry, outcome) => {
                if let Outcome::Failed(failure) = outcome {
                    self.failed.lock().unwrap_or_else(|p| p.into_inner()).push(failure.kind);
                    show::lines(failure).iter().for_each(|line| self.line(line));
                }
                if self.json {
                    let event = events::settled(Some(entry), &entry.path, outcome);
                    tell(self.is_stdout, &Value::Object(event));
                } else if self.verbose && !matches!(outcome, Outcome::Failed(_)) {
                    self.line(&format!("{}: {} bytes", entry.path, units::count(entry.evidence.size)));
                }
                return;
            }
            Event::LinkLost(why) => ("link-lost", format!("link lost: {why}; trying again")),
            Event::LinkUp(after) => ("link-up", format!("link is back after {:.1} s", after.as_secs_f64())),
            Event::StreamLost(stream, why) if self.verbose => {
                ("stream-lost", format!("stream {stream}: {why}"))
            }
            Event::Repaired(count) => ("repaired", format!("{count} damaged, sent again")),
            Event::Note(text) => ("note", text.clone()),
            Event::Detail(text) if self.verbose => ("detail", text.clone()),
            _ => return,
        };
        if self.json {
            tell(self.is_stdout, &json!({"event": name, "text": text}));
        } else if !self.quiet {
            self.line(&text);
        }
    }

    fn line(&self, text: &str) {
        match &*self.progress.lock().unwrap_or_else(|p| p.into_inner()) {
            Some(progress) => progress.line(text),
            // Nothing is to be done about a reader that is gone.
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// Shows no more progress.
    fn stop(&self) {
        self.over.store(true, Ordering::Release);
        if let Some(ticker) = self.ticker.lock().unwrap_or_else(|p| p.into_inner()).take() {
            ticker.thread().unpark();
            let _ = ticker.join();
        }
        self.progress.lock().unwrap_or_else(|p| p.into_inner()).take();
    }

    fn failed(&self, failure: &Failure, exit: Exit) {
        if self.json {
            tell(self.is_stdout, &json::error(failure, Some(exit)));
        }
        show::failure(failure);
    }

    /// The last line, and the exit code.
    fn finish(&self, report: &FlowReport) -> Exit {
        let kinds = self.failed.lock().unwrap_or_else(|p| p.into_inner()).clone();
        let exit = Exit::of_entries(kinds.into_iter());
        if self.json {
            tell(self.is_stdout, &finished(report, exit));
        } else if !self.quiet {
            self.line(&last_line(report));
        }
        exit
    }
}

/// Time between two progress events.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

fn tell(is_stdout: bool, value: &Value) {
    match is_stdout {
        false => json::tell(value),
        true => drop(writeln!(std::io::stderr(), "{}", json::inert(&value.to_string()))),
    }
}

fn finished(report: &FlowReport, exit: Exit) -> Value {
    let mut object = events::flow_finished(report);
    object.insert("exit".into(), exit.code().into());
    Value::Object(object)
}

fn last_line(report: &FlowReport) -> String {
    let totals = &report.totals;
    let seconds = report.elapsed.as_secs_f64();
    let rate = units::bit_rate(totals.bytes_received as f64 * 8.0 / seconds.max(1e-9));
    let files = match totals.done {
        1 => "1 file".to_owned(),
        count => format!("{} files", units::count(count)),
    };
    let mut line =
        format!("{} in {files} streamed in {seconds:.2} s, {rate}", units::size(totals.bytes_done));
    if totals.bytes_resumed > 0 {
        line.push_str(&format!("; {} were there already", units::size(totals.bytes_resumed)));
    }
    line.push_str("; verified, durable");
    if totals.failed > 0 {
        line.push_str(&format!("; {} failed", units::count(totals.failed)));
    }
    line
}
