//! `thalweg stream`: what is still being made, from one place to another.

use super::slots;
use crate::exit::Exit;
use crate::place::Places;
use crate::progress::Progress;
use crate::{begun, json, running, show, signals, threads, units};
use serde_json::{Value, json};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_cli::args::stream::StreamArgs;
use thalweg_client::events;
use thalweg_client::far_movers::{FarMovers, Whom};
use thalweg_client::options::congestion;
use thalweg_client::receipt::{self, ReceiptFile};
use thalweg_client::stream::{self, End, Ends, Report};
use thalweg_mover::event::{self, Event};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::plan::{Asked, Plan};
use thalweg_mover::run::copy::{Meter, Stop, Watch};
use thalweg_mover::run::flow::job::{FlowReport, FlowTo, FlowWishes};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::message::{FlowTerms, Outcome, Until};
use thalweg_wire::path::Escaped;

/// Streams.
///
/// # Errors
/// What is wrong with the command line; when it could not begin or not go on.
pub fn stream(args: &StreamArgs, places: &Places) -> Result<Exit> {
    super::copy::bound_memory(args.memory);
    let priority = args.priority.priority();
    // Before there are threads: they inherit it.
    super::copy::stand_back(priority)?;
    let state = super::copy::state_if_room(args.link.state.as_deref(), args.quiet)?;
    let events = if args.quiet { event::nobody() } else { show::notes() };
    let mut far_movers = FarMovers::new(args.link.how(places, &state, priority, events));
    let source = End::parse(&args.source, places, || duplicate(std::io::stdin().as_fd()))?;
    let destination = End::parse(&args.destination, places, || duplicate(std::io::stdout().as_fd()))?;
    let is_stdout = destination.is_pipe();
    let names = [&args.source, &args.destination].map(|text| Escaped(text.as_bytes()).to_string());
    let far = |end: &End| match end {
        End::Named(named) => Whom::of(named),
        End::Pipe(_) => None,
    };
    let far: Vec<Whom> = [&source, &destination].into_iter().filter_map(far).collect();
    let ends = Ends::reach(source, destination, &mut far_movers, &state)?;
    let mut wishes = wishes(args);
    wishes.unused = args.link.typed.unused(&far);
    let sends = matches!(ends.to, FlowTo::Far(..));
    let congestion = congestion::wished(args.link.congestion.cca.as_deref(), sends)?;
    wishes.link.congestion = congestion.where_we_send(sends);
    let receipt = begin_receipt(args, &names)?;
    wishes.receipt = receipt.as_ref().map(ReceiptFile::sink);
    let stop = Arc::new(Stop::default());
    let telling = "stopping: what was read becomes durable first; once more to stop at once";
    let signal = signals::stop_on(stop.clone(), (!args.quiet).then_some(telling))?;
    let meter: Arc<Meter> = Arc::default();
    let teller = Arc::new(Teller::start(args, is_stdout, !far.is_empty(), &meter)?);
    if let Some(text) = congestion.note {
        teller.hear(&Event::Note(text));
    }
    let watch = watch(&teller, meter);
    let _listens = running::listen(&state, &wishes.rate);
    begun::tell();
    let result = ends.run([&names[0], &names[1]], &wishes, &state, &watch, &stop);
    drop(far_movers);
    let reported = teller.stop();
    match result {
        Ok(report) => {
            let receipt = receipt.map_or(Ok(()), |receipt| receipt.finish(&report.agreed));
            let kept = teller.kept(reported).worst(teller.kept(receipt));
            Ok(teller.finish(&report, kept))
        }
        Err(failure) => {
            let exit = match failure.kind {
                FailureKind::Stopped if stop.is_asked() => signal.exit(),
                // Whoever takes the bytes has gone.
                FailureKind::Stopped => Exit::Nothing,
                kind => Exit::of(kind),
            };
            let exit = exit.worst(teller.kept(reported));
            teller.failed(&failure, exit);
            Ok(exit)
        }
    }
}

fn begin_receipt(args: &StreamArgs, [from, to]: &[String; 2]) -> Result<Option<ReceiptFile>> {
    let begin = |path| ReceiptFile::begin(path, &receipt::Asked::of_stream(from, to));
    args.receipt.as_deref().map(begin).transpose()
}

/// Hands what happens to who tells it.
fn watch(teller: &Arc<Teller>, meter: Arc<Meter>) -> Watch {
    let (hears, hears_link) = (teller.clone(), teller.clone());
    Watch {
        events: Arc::new(move |event| hears.hear(&event)),
        // A stream has few.
        is_behind: None,
        link_events: Arc::new(move |event| hears_link.hear(&event)),
        meter,
        evidence: None,
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
        recheck: args.recheck,
    };
    let often = args.slot.map_or(args.mark_every, |slot| args.mark_every.min(slot.deadline / 10));
    let mark_every_ms = u32::try_from(millis(often)).unwrap_or(u32::MAX);
    let mut wishes = FlowWishes::new(until);
    let (window_bytes, _) = buffer_bytes(args);
    wishes.terms = FlowTerms { window_bytes, mark_every_ms, ..wishes.terms };
    wishes.asked = Asked { streams: args.link.streams, memory_bytes: args.memory, ..Asked::default() };
    wishes.rate = Arc::new(Rate::of_bits(args.bwlimit));
    wishes.slot = args.slot;
    wishes.link = args.link.settings();
    wishes.asked_of_way = args.link.typed.of_streams;
    wishes.link.dscp = args.priority.dscp;
    wishes
}

/// What is kept until it is marked, and why so much.
fn buffer_bytes(args: &StreamArgs) -> (u64, &'static str) {
    let bytes = stream::buffer_bytes(args.buffer, args.memory);
    (bytes, if bytes < args.buffer { "half of --memory" } else { "--buffer" })
}

/// Tells what happens: to people on stderr; as JSON on stdout, or on stderr where stdout is the destination.
struct Teller {
    /// Whether the other side is far.
    is_linked: bool,
    /// See [`buffer_bytes`]; `None` in a slot, which says itself what it takes.
    buffer: Option<(u64, &'static str)>,
    verbose: bool,
    quiet: bool,
    json: bool,
    is_stdout: bool,
    progress: Mutex<Option<Progress>>,
    /// Kinds of what failed, each once.
    failed: Mutex<Vec<FailureKind>>,
    report: Option<Report>,
    over: Arc<AtomicBool>,
    ticker: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Teller {
    fn start(args: &StreamArgs, is_stdout: bool, is_linked: bool, meter: &Arc<Meter>) -> Result<Teller> {
        let report = args.report.as_deref().map(Report::begin).transpose()?;
        let over = Arc::new(AtomicBool::new(false));
        let ticker = args.json.then(|| {
            let (meter, over) = (meter.clone(), over.clone());
            threads::spawn("progress", move || {
                std::thread::park_timeout(PROGRESS_EVERY);
                while !over.load(Ordering::Acquire) {
                    let progress = events::flow_progress(&meter);
                    match is_stdout {
                        false => json::tell_progress(&progress, 1),
                        true => json::tell_progress_aside(&progress),
                    }
                    std::thread::park_timeout(PROGRESS_EVERY);
                }
            })
        });
        let ticker = ticker.transpose()?;
        Ok(Teller {
            is_linked,
            buffer: args.slot.is_none().then(|| buffer_bytes(args)),
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
            report,
            over,
            ticker: Mutex::new(ticker),
        })
    }

    fn hear(&self, event: &Event) {
        let (name, text) = match event {
            Event::Settled(entry, outcome) => {
                if let Outcome::Failed(failure) = outcome {
                    let mut kinds = lock(&self.failed);
                    if !kinds.contains(&failure.kind) {
                        kinds.push(failure.kind);
                    }
                    drop(kinds);
                    show::lines(failure).iter().for_each(|line| self.line(line));
                }
                let event = || Value::Object(events::settled(Some(entry), &entry.path, outcome));
                if let Some(report) = &self.report {
                    report.tell(entry.id, event);
                }
                if self.json {
                    tell(self.is_stdout, &event());
                } else if self.verbose && !matches!(outcome, Outcome::Failed(_)) {
                    let bytes = units::counted(entry.evidence.size, "byte", "bytes");
                    self.line(&format!("{}: {bytes}", entry.path));
                }
                return;
            }
            Event::TriedAgain(failure, pause) if self.json => {
                return tell(self.is_stdout, &Value::Object(events::tried_again(failure, *pause)));
            }
            // Also to who wants to hear of errors only.
            Event::TriedAgain(failure, pause) => {
                let seconds = pause.as_millis().div_ceil(1000);
                return self.line(&format!("{failure}; tried again in {seconds} s"));
            }
            Event::Stands(path, bytes) if self.json => {
                return tell(self.is_stdout, &events::stands(path, *bytes));
            }
            Event::Stands(path, bytes) if self.verbose && *bytes > 0 => {
                let behind = units::counted(*bytes, "byte", "bytes");
                ("stands", format!("{path}: goes on behind {behind}"))
            }
            Event::Planned(plan) => {
                if self.verbose && !self.quiet && !self.json {
                    self.plan_lines(plan).iter().for_each(|line| self.line(line));
                }
                return;
            }
            Event::Slot(held) if self.json => {
                return tell(self.is_stdout, &events::slot(held, Instant::now()));
            }
            // Of windows that follow bursts people are told once, in words.
            Event::Slot(held) if held.moves > 0 => return,
            Event::Slot(held) => ("slot", slots::taken_line(held)),
            event => match events::note(event) {
                Some(note) if note.level.is_for(self.verbose, self.json) => (note.name, note.text),
                _ => return,
            },
        };
        if self.json {
            tell(self.is_stdout, &json!({"event": name, "text": text}));
        } else if !self.quiet {
            self.line(&text);
        }
    }

    /// What it goes by, and why.
    fn plan_lines(&self, plan: &Plan) -> Vec<String> {
        let mut lines = Vec::new();
        if self.is_linked {
            lines.push(format!("  streams      {}", plan.streams));
        }
        if let Some((bytes, why)) = self.buffer {
            let piece = &plan.segment_bytes;
            lines.push(format!("  piece        {} ({})", units::size(piece.value.into()), piece.why));
            lines.push(format!("  buffer       {} ({why})", units::size(bytes)));
        }
        lines
    }

    fn line(&self, text: &str) {
        match &*lock(&self.progress) {
            Some(progress) => progress.line(text),
            None => show::line_later(text.to_owned()),
        }
    }

    /// Shows no more progress, and has the report whole.
    fn stop(&self) -> Result<()> {
        self.over.store(true, Ordering::Release);
        if let Some(ticker) = lock(&self.ticker).take() {
            ticker.thread().unpark();
            let _ = ticker.join();
        }
        lock(&self.progress).take();
        self.report.as_ref().map_or(Ok(()), Report::finish)
    }

    fn failed(&self, failure: &Failure, exit: Exit) {
        if self.json {
            tell(self.is_stdout, &json::error(failure, Some(exit)));
        }
        show::failure(failure);
    }

    /// What became of the report or the receipt: says so if it is not whole. How the stream ended is told all the same.
    fn kept(&self, written: Result<()>) -> Exit {
        let Err(failure) = written else { return Exit::Done };
        if self.json {
            tell(self.is_stdout, &json::error(&failure, None));
        }
        show::failure(&failure);
        Exit::of_entries(std::iter::once(failure.kind))
    }

    /// The last line, and the exit code, which is at least what became of report and receipt (`kept`).
    fn finish(&self, report: &FlowReport, kept: Exit) -> Exit {
        let kinds = lock(&self.failed).clone();
        let exit = Exit::of_entries(kinds.into_iter()).worst(kept);
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
        false => json::tell_later(value),
        true => json::tell_aside_later(value),
    }
}

fn finished(report: &FlowReport, exit: Exit) -> Value {
    let mut object = events::flow_finished(report, Instant::now());
    object.insert("exit".into(), exit.code().into());
    Value::Object(object)
}

fn last_line(report: &FlowReport) -> String {
    let totals = &report.totals;
    let seconds = report.elapsed.as_secs_f64();
    let rate = units::bit_rate(totals.bytes_received as f64 * 8.0 / seconds.max(1e-9));
    let files = units::files(totals.done);
    let done = units::size(totals.bytes_done);
    let mut line = match totals.failed {
        0 => format!("{done} in {files} streamed in {seconds:.2} s, {rate}"),
        _ => {
            let came = units::size(totals.bytes_received);
            format!("{done} in {files} complete, of {came} that came in {seconds:.2} s, {rate}")
        }
    };
    if totals.bytes_resumed > 0 {
        line.push_str(&format!("; {} were there already", units::size(totals.bytes_resumed)));
    }
    if totals.done > 0 {
        line.push_str("; verified, durable");
    }
    if let Some((held, lag)) = report.slot.as_ref().zip(report.lag.as_ref()) {
        line.push_str(&format!("; {}", slots::kept(held, lag)));
    }
    if totals.failed > 0 {
        line.push_str(&format!("; {} failed", units::count(totals.failed)));
    }
    line
}
