//! Work that takes its time (a copy, a verification, a comparison, a stream) on a thread of its own, and how Python
//! hears of it.

use crate::failures::{raise, raise_text};
use crate::fork_guard::Ours;
use crate::options::{read, within};
use pyo3::prelude::*;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::events;
use thalweg_client::options::{memory, units};
use thalweg_client::receipt::ReportFile;
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Meter, Report, Stop, Watch};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::message::Outcome;

/// Events that may wait for Python; then the work waits too.
const EVENTS_AHEAD: usize = 1024;
/// Time between two looks whether work that tells nothing is over.
const NOTICE: Duration = Duration::from_millis(10);
/// Failed entries that are kept for the exception; all are counted.
const FAILURES_KEPT: usize = 1000;

/// Work under way.
#[pyclass(frozen)]
pub struct Work(Ours<Underway>);

struct Underway {
    stop: Arc<Stop>,
    meter: Arc<Meter>,
    progress: fn(&Meter) -> Value,
    rate: Arc<Rate>,
    is_over: Arc<AtomicBool>,
    hears: Mutex<Option<Receiver<String>>>,
    worker: Mutex<Option<JoinHandle<Result<Value>>>>,
    result: Mutex<Option<Result<Value>>>,
}

/// Tells Python. Without a listener, or after it is gone, nothing is told.
#[derive(Clone)]
pub struct Teller(Option<SyncSender<String>>);

impl Teller {
    /// Says it, where somebody listens; waits while [`EVENTS_AHEAD`] are not taken.
    pub fn tell(&self, object: Map<String, Value>) {
        if let Teller(Some(sender)) = self {
            let _ = sender.send(Value::Object(object).to_string());
        }
    }
}

/// Says at its end that the work is over.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Work {
    /// Begins it on a thread of its own; `progress` says how far it is, and it goes no faster than `rate`.
    pub fn start(
        meter: Arc<Meter>,
        progress: fn(&Meter) -> Value,
        rate: Arc<Rate>,
        tells: bool,
        work: impl FnOnce(&Teller, &Arc<Stop>) -> Result<Value> + Send + 'static,
    ) -> PyResult<Work> {
        let (sender, hears) = sync_channel(EVENTS_AHEAD);
        let (stop, is_over) = (Arc::new(Stop::default()), Arc::new(AtomicBool::new(false)));
        let (asked, over) = (stop.clone(), is_over.clone());
        let run = move || {
            // However it ends: who waits for a panic's words would wait for ever.
            let _over = Over(over);
            let teller = Teller(tells.then_some(sender));
            work(&teller, &asked)
        };
        let worker = std::thread::Builder::new().name("thalweg".into()).spawn(run)?;
        Ok(Work(Ours::new(Underway {
            stop,
            meter,
            progress,
            rate,
            is_over,
            hears: Mutex::new(Some(hears)),
            worker: Mutex::new(Some(worker)),
            result: Mutex::default(),
        })))
    }
}

impl Underway {
    /// Waits for the end. What is told meanwhile is thrown away: nobody waits for it any more.
    fn finish(&self) {
        drop(lock(&self.hears).take());
        if let Some(worker) = lock(&self.worker).take() {
            let ended = worker.join().unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Internal, "run a thread", "a thread ended with a panic"))
            });
            *lock(&self.result) = Some(ended);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.stop.stop();
        self.finish();
    }
}

#[pymethods]
impl Work {
    /// Events as JSON texts; waits at most `timeout_s` seconds for the first. `None` when there will be no more.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Vec<String>>> {
        let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or_default();
        let work = self.0.get(py)?;
        Ok(py.detach(|| {
            let held = lock(&work.hears);
            let hears = held.as_ref()?;
            // Read before the channel is: what was told before the end is in it. (Threads of the link may hold the
            // channel a while longer, so its end says nothing.)
            let is_over = work.is_over.load(Ordering::Acquire);
            let first = match hears.recv_timeout(if is_over { Duration::ZERO } else { timeout }) {
                Ok(first) => first,
                Err(_) if is_over => return None,
                Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                // Nothing is told to nobody.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(timeout.min(NOTICE));
                    return Some(Vec::new());
                }
            };
            Some(std::iter::once(first).chain(hears.try_iter()).collect())
        }))
    }

    /// How far it is, as JSON.
    fn progress(&self, py: Python<'_>) -> PyResult<String> {
        let work = self.0.get(py)?;
        Ok((work.progress)(&work.meter).to_string())
    }

    /// From now on it goes no faster; `none` and `None` are no limit.
    fn limit(&self, py: Python<'_>, rate: Option<String>) -> PyResult<()> {
        let work = self.0.get(py)?;
        let rate = read("bwlimit", rate.as_deref(), units::parse_limit);
        work.rate.set_bits(rate.map_err(|failure| raise(py, &failure))?.flatten());
        Ok(())
    }

    /// Asks it to stop in order. Does not wait. In a fork nothing.
    fn stop(&self) {
        if let Some(work) = self.0.there() {
            work.stop.stop();
        }
    }

    /// Waits for its end, and says how it ended, as JSON; raises the failure. Events that were not taken are lost.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        let work = self.0.get(py)?;
        py.detach(|| work.finish());
        match lock(&work.result).as_ref() {
            Some(Ok(value)) => Ok(value.to_string()),
            Some(Err(failure)) => Err(raise(py, failure)),
            None => Err(raise_text(py, r#"{"kind": "internal", "operation": "work", "why": "no result"}"#)),
        }
    }
}

/// Writes what is about an entry into a report.
pub type Record = Arc<dyn Fn(&Event) + Send + Sync>;

/// What is heard of work: told to Python, written into a report, and failures kept for the exception.
pub struct Heard {
    teller: Teller,
    entries: bool,
    record: Option<Record>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    failures: Vec<Value>,
    /// It was told that source files stay that were to be removed.
    is_source_kept: bool,
    /// Names of deleted entries that came; of many only the first do.
    deleted: u64,
}

impl Kept {
    fn add(&mut self, failure: Failure) {
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(Value::Object(events::error(&failure)));
        }
    }
}

impl Heard {
    /// `entries`: each entry is told.
    pub fn new(teller: &Teller, entries: bool, record: Option<Record>) -> Heard {
        Heard { teller: teller.clone(), entries, record, kept: Arc::default() }
    }

    /// How the work tells it.
    pub fn watch(&self, meter: Arc<Meter>) -> Watch {
        let (kept, entries, tells) = (self.kept.clone(), self.entries, self.teller.clone());
        let record = self.record.clone();
        Watch {
            events: Arc::new(move |event| {
                if let Some(record) = &record {
                    record(&event);
                }
                hear(event, entries, &tells, &kept);
            }),
            is_behind: None,
            link_events: self.teller.of_links(),
            meter,
            evidence: None,
        }
    }

    /// Behind all entries of a copy: how many deleted ones have no name there, and in its report the prediction.
    pub fn tell_end(&self, report: &Report, file: Option<&ReportFile>) {
        let unnamed = report.totals.deleted.saturating_sub(lock(&self.kept).deleted);
        let unnamed = (unnamed > 0).then(|| events::deleted_unnamed(unnamed));
        if let Some(file) = file {
            let compared = report.compared.as_ref().map(events::prediction);
            let lines = unnamed.clone().into_iter().chain(compared);
            lines.for_each(|object| file.line(&Value::Object(object)));
        }
        if let Some(object) = unnamed.filter(|_| self.entries) {
            self.teller.tell(object);
        }
    }

    /// What is told at the end: `finished`, what failed, whether source files stay that were to be removed, and why
    /// receipt and report were not `kept`, or not all was removed, if so. What was moved is there all the same.
    pub fn told(&self, mut finished: Map<String, Value>, kept: Result<()>) -> Value {
        let Kept { failures, is_source_kept, .. } = std::mem::take(&mut *lock(&self.kept));
        finished.insert("failures".into(), Value::Array(failures));
        finished.insert("is_source_kept".into(), is_source_kept.into());
        finished.insert("lost".into(), kept.err().map(|failure| events::error(&failure)).into());
        Value::Object(finished)
    }
}

fn hear(event: Event, entries: bool, teller: &Teller, kept: &Mutex<Kept>) {
    let failed = match &event {
        Event::Settled(entry, Outcome::Failed(failure)) => Some((&entry.path, failure)),
        Event::Aside(path, Outcome::Failed(failure)) => Some((path, failure)),
        _ => None,
    };
    if let Some((path, failure)) = failed {
        let path = failure.path.clone().or_else(|| Some(path.clone()));
        lock(kept).add(Failure { path, ..failure.clone() });
    }
    match &event {
        Event::SourceKept(failure) => {
            let mut kept = lock(kept);
            kept.is_source_kept = true;
            kept.add(failure.clone());
        }
        Event::Deleted(_) => lock(kept).deleted += 1,
        _ => {}
    }
    match events::of_entry(&event) {
        Some(object) if entries => teller.tell(object),
        Some(_) => {}
        None => teller.tell_noted(event),
    }
}

impl Teller {
    /// Tells what happens to links, from before there is anything that rides on them.
    pub fn of_links(&self) -> Events {
        let teller = self.clone();
        Arc::new(move |event| teller.tell_noted(event))
    }

    fn tell_noted(&self, event: Event) {
        match &event {
            Event::Slot(held) => {
                if let Value::Object(object) = events::slot(held, Instant::now()) {
                    self.tell(object);
                }
            }
            Event::TriedAgain(failure, pause) => self.tell(events::tried_again(failure, *pause)),
            Event::Detail(_) => {}
            event => {
                if let Some(note) = events::note(event) {
                    self.tell(note.object());
                }
            }
        }
    }
}

/// Waits, before `process` ends, until no login of its is in the middle of something. A fork has none of its threads.
#[pyfunction]
pub fn settle(py: Python<'_>, process: u32) {
    if std::process::id() == process {
        py.detach(thalweg_client::login::settle);
    }
}

/// From now on the buffers of this process take at most so many bytes together; without, there is no bound.
#[pyfunction]
pub fn limit_memory(py: Python<'_>, bytes: Option<u64>) -> PyResult<()> {
    let bytes = within("bytes", bytes, memory::check).map_err(|failure| raise(py, &failure))?;
    memory::bound(bytes);
    Ok(())
}
