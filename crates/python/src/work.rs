//! Work that takes its time (a copy, a verification, a comparison) on a thread of its own, and how Python hears of it.

use crate::failures::{raise, raise_text};
use crate::ours::Ours;
use crate::reaching::{Reaching, odd, read, within};
use crate::waiting::{GivingUp, on_a_thread, unless_stopped};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::check::{self as comparing, List, Selected};
use thalweg_client::job::Asked;
use thalweg_client::place::Places;
use thalweg_client::reach::Reach;
use thalweg_client::receipt::{self, ReceiptFile, ReportFile};
use thalweg_client::verify::{self as verifying, Expected, Receipt, Told, Unlisted};
use thalweg_client::{events, identity, knobs, memory, names, sums, units};
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::manifest::filter::parse_filter_line;
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{
    Fidelity, Meter, Movement, Remembered, Report, Selection, Stop, Watch, Wishes,
};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{Check, FilterRule, Outcome, Preserve, VerifyLevel};
use thalweg_wire::path::Escaped;

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
    fn tell(&self, object: Map<String, Value>) {
        if let Teller(Some(sender)) = self {
            let _ = sender.send(Value::Object(object).to_string());
        }
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
            let teller = Teller(tells.then_some(sender));
            let result = work(&teller, &asked);
            over.store(true, Ordering::Release);
            result
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

/// What a copy goes by.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CopyOptions {
    delete_max: Option<u64>,
    remove_source_files: bool,
    compress: bool,
    verify: String,
    check: String,
    dry_run: bool,
    update: bool,
    ignore_existing: bool,
    one_file_system: bool,
    copy_links: bool,
    perms: bool,
    owner: bool,
    times: bool,
    xattrs: bool,
    devices: bool,
    scavenger: bool,
    dscp: Option<String>,
    filter: Vec<String>,
    files_from: Option<Vec<Vec<u8>>>,
    bwlimit: Option<String>,
    tune: bool,
    profile: bool,
    streams: Option<u16>,
    chunk_bytes: Option<u64>,
    request_bytes: Option<u64>,
    window_bytes: Option<u64>,
    concurrency: Option<u64>,
    depth: Option<u64>,
    io_depth: Option<u64>,
    direct: Option<String>,
    order: Option<String>,
    io_uring: bool,
    receipt: Option<PathBuf>,
    report: Option<PathBuf>,
    /// Tell of each entry.
    entries: bool,
    /// Tell of anything at all.
    tells: bool,
}

/// Begins a copy of these places, sources first.
#[pyfunction]
pub fn copy(
    py: Python<'_>,
    places: Vec<OsString>,
    options: CopyOptions,
    reaching: Reaching,
) -> PyResult<Work> {
    let meter: Arc<Meter> = Arc::default();
    let counts = meter.clone();
    let wishes = wishes(&options, &reaching).map_err(|failure| raise(py, &failure))?;
    let rate = wishes.movement.rate.clone();
    Work::start(meter, events::progress, rate, options.tells, move |teller, stop| {
        copied(&places, &options, &reaching, wishes, counts, teller, stop)
    })
}

fn copied(
    places: &[OsString],
    options: &CopyOptions,
    reaching: &Reaching,
    mut wishes: Wishes,
    meter: Arc<Meter>,
    teller: &Teller,
    stop: &Stop,
) -> Result<Value> {
    let only = options.files_from.is_some().then_some(wishes.selection.only.as_slice());
    let asked = Asked::read("cp", places, only, &Places::default())?;
    let state = identity::state_directory(reaching.state())?;
    wishes.remembered.state = Some(state.clone());
    let (mut far_movers, keys) = (reaching.to_copy(state.clone(), teller.of_links())?, state.clone());
    let (_far_movers, job) = unless_stopped(stop, move || {
        let job = asked.reach(&mut far_movers, &keys)?;
        Ok((far_movers, job))
    })?;
    let congestion = reaching.congestion(job.is_push())?;
    wishes.movement.link.congestion = congestion.where_we_send(job.is_push());
    let receipt = match &options.receipt {
        Some(path) => Some(ReceiptFile::begin(path, &header(places, options))?),
        None => None,
    };
    wishes.receipt = receipt.as_ref().map(ReceiptFile::sink);
    let file = options.report.as_deref().map(ReportFile::begin).transpose()?.map(Arc::new);
    let record = file.clone().map(|file| -> Record {
        Arc::new(move |event: &Event| {
            if let Some(object) = events::of_entry(event) {
                file.line(&Value::Object(object));
            }
        })
    });
    let heard = Heard::new(teller, options.entries, record);
    let watch = heard.watch(meter);
    if let Some(text) = congestion.note {
        (watch.events)(Event::Note(text));
    }
    let report = job.run(&wishes, &state, &watch, stop);
    if let Ok(report) = &report {
        heard.tell_end(report, file.as_deref());
    }
    let reported = file.map_or(Ok(()), |file| file.finish());
    let report = report?;
    let kept = match (receipt, &report.agreed) {
        (Some(receipt), Some(agreed)) => receipt.finish(agreed),
        _ => Ok(()),
    };
    let kept = kept.and(reported).and(all_removed(&report));
    Ok(heard.told(events::finished(&report, options.dry_run), kept))
}

/// A stop may have come when all else was done.
fn all_removed(report: &Report) -> Result<()> {
    let cause = "stopped on request; all is copied, and what was not removed yet stays";
    match report.sources.is_cut_short {
        true => Err(Failure::new(FailureKind::Stopped, "remove source files", cause)),
        false => Ok(()),
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
    /// Source files that were to be removed and could not be.
    sources: u64,
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
            link_events: self.teller.of_links(),
            meter,
            evidence: None,
        }
    }

    /// Behind all entries of a copy: how many deleted ones have no name there, and in its report the prediction.
    fn tell_end(&self, report: &Report, file: Option<&ReportFile>) {
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

    /// What is told at the end: `finished`, what failed, and why receipt and report were not `kept`, or not all was
    /// removed, if so. What was moved is there all the same.
    pub fn told(&self, mut finished: Map<String, Value>, kept: Result<()>) -> Value {
        let Kept { failures, sources, .. } = std::mem::take(&mut *lock(&self.kept));
        finished.insert("failures".into(), Value::Array(failures));
        finished.insert("sources_kept".into(), sources.into());
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
            kept.sources += 1;
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

fn header(places: &[OsString], options: &CopyOptions) -> receipt::Asked {
    let shown: Vec<String> =
        places.iter().map(|place| Escaped(place.as_encoded_bytes()).to_string()).collect();
    let (to, from) = shown.split_last().map(|(to, from)| (to.clone(), from.to_vec())).unwrap_or_default();
    receipt::Asked { from, to, compress: options.compress, delete: options.delete_max.is_some() }
}

fn wishes(options: &CopyOptions, reaching: &Reaching) -> Result<Wishes> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "copy", cause);
    let rate = options.bwlimit.as_deref().map(units::parse_rate).transpose().map_err(usage)?;
    let fidelity = Fidelity {
        preserve: Preserve {
            mode: options.perms,
            owner: options.owner,
            times: options.times,
            xattrs: options.xattrs,
            devices: options.devices,
        },
        delete_max: options.delete_max,
        verify: match options.verify.as_str() {
            "written" => VerifyLevel::Written,
            "readback" => VerifyLevel::Readback,
            "paranoid" => VerifyLevel::Paranoid,
            other => return Err(usage(format!("verify={other:?}: written, readback or paranoid"))),
        },
        check: match options.check.as_str() {
            "evidence" => Check::Evidence,
            "digest" => Check::Digest,
            "nothing" => Check::Nothing,
            other => return Err(usage(format!("check={other:?}: evidence, digest or nothing"))),
        },
    };
    let movement = reaching.movement(asked(options)?)?;
    let dscp = read("dscp", options.dscp.as_deref(), units::parse_dscp)?;
    // A class says itself to every queue on the way as well.
    let dscp = dscp.or(options.scavenger.then_some(units::LOWER_EFFORT));
    Ok(Wishes {
        selection: Selection {
            filter: rules(&options.filter)?,
            only: only(options.files_from.as_deref())?.unwrap_or_default(),
            one_file_system: options.one_file_system,
            follow_links: options.copy_links,
            update: options.update,
            ignore_existing: options.ignore_existing,
        },
        fidelity,
        movement: Movement {
            rate: Arc::new(Rate::of_bits(rate)),
            holds_still: !options.tune,
            link: LinkSettings { dscp, ..movement.link },
            ..movement
        },
        remembered: Remembered { no_profile: !options.profile, ..Remembered::default() },
        dry_run: options.dry_run,
        removes_sources: options.remove_source_files,
        asked_of_way: reaching.asked_of_way(),
        ..Wishes::default()
    })
}

fn asked(options: &CopyOptions) -> Result<plan::Asked> {
    let direct = read("direct", options.direct.as_deref(), knobs::parse_direct)?;
    let order = read("order", options.order.as_deref(), knobs::parse_order)?;
    let io_depth = within("io_depth", options.io_depth, knobs::io_depth)?;
    let asked = plan::Asked {
        streams: streams("copy", options.streams)?,
        chunk_bytes: within("chunk_bytes", options.chunk_bytes, knobs::chunk)?,
        request_bytes: within("request_bytes", options.request_bytes, knobs::request)?,
        window_bytes: within("window_bytes", options.window_bytes, knobs::window)?,
        concurrency: within("concurrency", options.concurrency, knobs::concurrency)?,
        depth: within("depth", options.depth, knobs::depth)?,
        memory_bytes: memory::bytes_max(),
        disk: knobs::disk(direct, order, io_depth, !options.io_uring),
        yields: options.scavenger,
        compress: options.compress,
        ..plan::Asked::default()
    };
    knobs::check(&asked)?;
    Ok(asked)
}

fn only(listed: Option<&[Vec<u8>]>) -> Result<Option<Vec<RelativePath>>> {
    listed.map(|listed| names::relative(listed.iter().map(Vec::as_slice))).transpose()
}

fn rules(lines: &[String]) -> Result<Vec<FilterRule>> {
    let mut rules = Vec::new();
    for line in lines {
        rules.extend(parse_filter_line(line)?);
    }
    Ok(rules)
}

/// Keys of either side, of the sender, of the receiver.
type Keys = (Vec<String>, Vec<String>, Vec<String>);

fn expected((both, sender, receiver): &Keys) -> Result<Expected> {
    let read = |name: &str, keys: &[String]| -> Result<Vec<String>> {
        let read = |key: &String| {
            let refuse = |why: String| format!("{name}={key:?}: {why}");
            let usage = |why: String| Failure::new(FailureKind::Usage, "verify", refuse(why));
            verifying::parse_key(key).map_err(usage)
        };
        keys.iter().map(read).collect()
    };
    Ok(Expected {
        both: read("keys", both)?,
        sender: read("sender", sender)?,
        receiver: read("receiver", receiver)?,
    })
}

/// What a receipt certifies, as JSON; its files go into a list of `b3sum`, if one is named.
#[pyfunction]
pub fn read_receipt(
    py: Python<'_>,
    receipt: PathBuf,
    as_b3sum: Option<PathBuf>,
    keys: Keys,
    gives_up: Option<Bound<'_, GivingUp>>,
) -> PyResult<String> {
    let expected = expected(&keys).map_err(|failure| raise(py, &failure))?;
    let told = on_a_thread(py, gives_up.as_ref(), move |stop| {
        let receipt = Receipt::open(&receipt)?;
        let seal = verifying::seal(&receipt, &expected)?;
        let (mut listed, mut unlisted) = (0u64, Unlisted::default());
        if let Some(path) = &as_b3sum {
            sums::write_file(path, |write| {
                receipt.sums(&seal, &mut unlisted, &mut |line| {
                    if stop.is_asked() {
                        let cause = "stopped on request";
                        return Err(Failure::new(FailureKind::Stopped, "write the list", cause));
                    }
                    listed += 1;
                    write(line)
                })
            })?;
        }
        let of_list = |count: u64| as_b3sum.is_some().then_some(count);
        Ok(json!({
            "entries": seal.entries, "bytes": seal.bytes, "failed": seal.failed, "skipped": seal.skipped,
            "sender": seal.sender.to_string(), "receiver": seal.receiver.to_string(),
            "listed": of_list(listed), "without_digest": of_list(unlisted.without_digest),
            "unnamed": of_list(unlisted.unnamed), "receipt": verifying::certified(&seal, &expected),
        }))
    })?;
    told.map(|told| told.to_string()).map_err(|failure| raise(py, &failure))
}

/// Begins to compare a place with a receipt.
#[pyfunction]
pub fn verify(
    py: Python<'_>,
    receipt: PathBuf,
    place: OsString,
    strict: bool,
    keys: Keys,
    reaching: Reaching,
) -> PyResult<Work> {
    let expected = expected(&keys).map_err(|failure| raise(py, &failure))?;
    let meter = Arc::new(Meter::default());
    Work::start(meter.clone(), events::progress, Arc::default(), true, move |teller, stop| {
        let receipt = Receipt::open(&receipt)?;
        let seal = verifying::seal(&receipt, &expected)?;
        verifying::expect(&meter, &seal);
        let mut far_movers = reaching.to_ask()?;
        let (_far_movers, reach) = unless_stopped(stop, move || {
            let reach = Reach::open(&place, &mut far_movers)?;
            Ok((far_movers, reach))
        })?;
        let reach = reach.until(stop);
        let mut tell = |told: Told<'_>| match told {
            Told::Difference(what, path, why) => teller.tell(events::difference(what, path, why)),
            Told::Damage(path, ranges) => {
                for range in ranges {
                    let mut object = events::about("damage", path);
                    object.insert("start".into(), range.start.into());
                    object.insert("end".into(), range.end.into());
                    teller.tell(object);
                }
            }
            Told::Trouble(failure) => teller.tell(events::error(failure)),
            Told::Looked(bytes) => verifying::looked(&meter, bytes),
        };
        let found = verifying::verify(&receipt, &seal, &reach, strict, &mut tell, stop)?;
        Ok(json!({
            "entries": found.entries, "bytes": found.bytes, "missing": found.missing, "differing": found.differing,
            "extra": found.extra, "unreadable": found.unreadable, "without_digest": found.without_digest,
            "failed": found.failed, "skipped": found.skipped,
            "sender": seal.sender.to_string(), "receiver": seal.receiver.to_string(),
            "receipt": verifying::certified(&seal, &expected),
        }))
    })
}

/// What is compared.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CheckOptions {
    /// A list of `b3sum`, in place of a second place.
    sums: Option<PathBuf>,
    devices: bool,
    filter: Vec<String>,
    files_from: Option<Vec<Vec<u8>>>,
}

/// Begins to compare two places, or one with a list.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    places: Vec<OsString>,
    options: CheckOptions,
    reaching: Reaching,
) -> PyResult<Work> {
    let selected = rules(&options.filter)
        .and_then(|rules| Selected::new(rules, only(options.files_from.as_deref())?))
        .map_err(|failure| raise(py, &failure))?;
    let meter = Arc::new(Meter::default());
    Work::start(meter.clone(), events::progress, Arc::default(), true, move |teller, stop| {
        let CheckOptions { sums, devices, .. } = options;
        let of_list = sums.as_ref().map(|list| list.clone().into_os_string());
        let shown: Vec<OsString> = of_list.into_iter().chain(places.iter().cloned()).collect();
        let mut far_movers = reaching.to_ask()?;
        let (_far_movers, list, sides) = unless_stopped(stop, move || {
            // What is wrong with it is told before anybody is asked for a password.
            let list = sums.as_deref().map(open_list).transpose()?;
            let open = |place: &OsString| Reach::open(place, &mut far_movers);
            let sides = places.iter().map(open).collect::<Result<Vec<Reach>>>()?;
            Ok((far_movers, list, sides))
        })?;
        let mut tell = |told: comparing::Told<'_>| -> Result<()> {
            teller.tell(match told {
                comparing::Told::Difference(what, path, why) => events::difference(what, path, why),
                comparing::Told::Trouble(side, failure) => events::error_at(&shown[side], failure),
            });
            Ok(())
        };
        let found = match (list, &sides[..]) {
            (Some(list), [place]) => comparing::check_list(list, place, &selected, &meter, &mut tell, stop)?,
            (None, [source, destination]) => {
                comparing::check([source, destination], &selected, devices, &meter, &mut tell, stop)?
            }
            _ => return Err(odd("a place is compared with another, or with a list".into())),
        };
        Ok(json!({
            "entries": found.entries, "files": found.files, "bytes": found.bytes, "same": found.same,
            "missing": found.missing, "extra": found.extra, "differing": found.differing,
            "unreadable": found.unreadable, "left_out": found.left_out,
        }))
    })
}

/// A list that has an end: who waits for a pipe hears of no stop.
fn open_list(path: &Path) -> Result<List> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => {
            let name = Escaped(path.as_os_str().as_encoded_bytes());
            Err(odd(format!("sums: `{name}` is no regular file")))
        }
        _ => List::open(path),
    }
}

/// From now on the buffers of this process take at most so many bytes together; without, there is no bound.
#[pyfunction]
pub fn limit_memory(py: Python<'_>, bytes: Option<u64>) -> PyResult<()> {
    let bytes = within("bytes", bytes, memory::check).map_err(|failure| raise(py, &failure))?;
    memory::bound(bytes);
    Ok(())
}

/// As many streams as the program takes.
pub fn streams(operation: &str, asked: Option<u16>) -> Result<Option<u16>> {
    match asked {
        Some(0 | 257..) => Err(Failure::new(FailureKind::Usage, operation, "streams: from 1 to 256")),
        _ => Ok(asked),
    }
}

/// A time as Python says it. What is over already, as a difference of two times may be, is no time, and so is what is
/// no number; infinity is as long as anything takes.
pub fn seconds(seconds: f64) -> Duration {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) => time.min(units::TIME_MAX),
        Err(_) if seconds > 0.0 => units::TIME_MAX,
        Err(_) => Duration::ZERO,
    }
}
