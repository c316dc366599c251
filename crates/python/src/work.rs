//! Work that takes its time (a copy, a verification, a comparison) on a thread of its own, and how Python hears of it.

use crate::failures::{raise, raise_text};
use crate::ours::Ours;
use crate::waiting::unless_stopped;
use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::check::{self as comparing, Selected};
use thalweg_client::far_movers::{FarMovers, How, SshOptions};
use thalweg_client::job::Asked;
use thalweg_client::place::Places;
use thalweg_client::reach::Reach;
use thalweg_client::receipt::{self, ReceiptFile};
use thalweg_client::verify::{self as verifying, Expected, Receipt, Told};
use thalweg_client::{events, identity, units};
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::manifest::filter::parse_filter_line;
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{Fidelity, Meter, Movement, Selection, Stop, Watch, Wishes};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::hello::Cipher;
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
    /// Begins it on a thread of its own; `progress` says how far it is.
    pub fn start(
        meter: Arc<Meter>,
        progress: fn(&Meter) -> Value,
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
                Err(Failure::new(FailureKind::Internal, "work", "a thread ended with a panic"))
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

/// How far movers are reached.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Reaching {
    ticket: Option<PathBuf>,
    state: Option<PathBuf>,
    rsh: Option<OsString>,
    port: Option<u16>,
    far_path: Option<OsString>,
    far_ports: Option<String>,
    near_ports: Option<String>,
    bootstrap: bool,
    static_programs: Vec<PathBuf>,
    cipher: Option<String>,
    patience_s: f64,
    stall_timeout_s: f64,
}

impl Reaching {
    fn ssh(&self) -> Result<SshOptions> {
        let usual = SshOptions::default();
        Ok(SshOptions {
            rsh: self.rsh.clone().unwrap_or(usual.rsh),
            port: self.port,
            far_path: self.far_path.clone().unwrap_or(usual.far_path),
            far_ports: ports("far_ports", self.far_ports.as_deref())?,
            near_ports: ports("near_ports", self.near_ports.as_deref())?,
            bootstrap: self.bootstrap,
            // The program that runs is the interpreter.
            static_programs: Some(self.static_programs.clone()),
            ..SshOptions::default()
        })
    }

    /// Where keys and what is remembered are kept, if that was said.
    pub fn state(&self) -> Option<&Path> {
        self.state.as_deref()
    }

    /// How patient a link is, and how data are protected on it.
    pub fn link(&self) -> Result<LinkSettings> {
        let usual = LinkSettings::default();
        let cipher = match self.cipher.as_deref() {
            None => usual.cipher,
            Some("aes128") => Cipher::Aes128Gcm,
            Some("aes256") => Cipher::Aes256Gcm,
            Some("chacha20") => Cipher::ChaCha20Poly1305,
            Some("tls") => Cipher::Tls,
            Some(other) => return Err(odd(format!("cipher={other:?}: aes128, aes256, chacha20 or tls"))),
        };
        Ok(LinkSettings {
            cipher,
            stall_timeout: seconds(self.stall_timeout_s),
            patience: seconds(self.patience_s),
            ..usual
        })
    }

    /// For questions.
    pub fn to_ask(&self) -> Result<FarMovers> {
        let how = How::to_ask(&Places::default(), self.ticket.as_deref(), self.ssh()?);
        Ok(FarMovers::new(How { questions: self.link()?, ..how }))
    }

    /// For work that takes its time, with our keys and what is remembered in `state`; `events` hears notes
    /// about the way.
    pub fn to_copy(&self, state: PathBuf, events: Events) -> Result<FarMovers> {
        Ok(FarMovers::new(self.how(state, events)?))
    }

    /// The same, not begun.
    pub fn how(&self, state: PathBuf, events: Events) -> Result<How> {
        let link = self.link()?;
        let how = How::to_ask(&Places::default(), self.ticket.as_deref(), self.ssh()?);
        let LinkSettings { patience, stall_timeout, .. } = link;
        Ok(How { patience, stall_timeout, questions: link, state: Some(state), events, ..how })
    }
}

fn ports(name: &str, asked: Option<&str>) -> Result<Option<(u16, u16)>> {
    let read = |text| units::parse_ports(text).map_err(|why| odd(format!("{name}={text:?}: {why}")));
    asked.map(read).transpose()
}

fn odd(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, "read options", cause)
}

/// What a copy goes by.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CopyOptions {
    delete_max: Option<u64>,
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
    filter: Vec<String>,
    bwlimit: Option<String>,
    streams: Option<u16>,
    receipt: Option<PathBuf>,
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
    Work::start(meter, events::progress, options.tells, move |teller, stop| {
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
    let asked = Asked::read("cp", places, None, &Places::default())?;
    let state = identity::state_directory(reaching.state())?;
    wishes.remembered.state = Some(state.clone());
    let (mut far_movers, keys) = (reaching.to_copy(state.clone(), teller.of_links())?, state.clone());
    let (_far_movers, job) = unless_stopped(stop, move || {
        let job = asked.reach(&mut far_movers, &keys)?;
        Ok((far_movers, job))
    })?;
    let receipt = match &options.receipt {
        Some(path) => Some(ReceiptFile::begin(path, &header(places, options))?),
        None => None,
    };
    wishes.receipt = receipt.as_ref().map(ReceiptFile::sink);
    let heard = Heard::new(teller, options.entries);
    let report = job.run(&wishes, &state, &heard.watch(meter), stop)?;
    let kept = match (receipt, &report.agreed) {
        (Some(receipt), Some(agreed)) => receipt.finish(agreed),
        _ => Ok(()),
    };
    Ok(heard.told(events::finished(&report, options.dry_run), kept))
}

/// What is heard of work: told to Python, and failed entries kept for the exception.
pub struct Heard {
    teller: Teller,
    entries: bool,
    failures: Arc<Mutex<Vec<Value>>>,
}

impl Heard {
    /// `entries`: each entry is told.
    pub fn new(teller: &Teller, entries: bool) -> Heard {
        Heard { teller: teller.clone(), entries, failures: Arc::default() }
    }

    /// How the work tells it.
    pub fn watch(&self, meter: Arc<Meter>) -> Watch {
        let (kept, entries, tells) = (self.failures.clone(), self.entries, self.teller.clone());
        Watch {
            events: Arc::new(move |event| hear(event, entries, &tells, &kept)),
            link_events: self.teller.of_links(),
            meter,
            evidence: None,
        }
    }

    /// What is told at the end: `finished`, the failed entries, and why the receipt was not `kept`, if so.
    /// What was moved is there all the same.
    pub fn told(&self, mut finished: Map<String, Value>, kept: Result<()>) -> Value {
        let failures = std::mem::take(&mut *lock(&self.failures));
        finished.insert("failures".into(), Value::Array(failures));
        finished.insert("receipt_lost".into(), kept.err().map(|failure| events::error(&failure)).into());
        Value::Object(finished)
    }
}

fn hear(event: Event, entries: bool, teller: &Teller, failures: &Mutex<Vec<Value>>) {
    let (entry, path, outcome) = match event {
        Event::Settled(entry, outcome) => {
            let path = entry.path.clone();
            (Some(entry), path, outcome)
        }
        Event::Aside(path, outcome) => (None, path, outcome),
        Event::Deleted(path) => {
            if entries {
                teller.tell(events::about("deleted", &path));
            }
            return;
        }
        event => return teller.tell_noted(event),
    };
    if let Outcome::Failed(failure) = &outcome {
        let mut kept = lock(failures);
        if kept.len() < FAILURES_KEPT {
            let at = Failure { path: failure.path.clone().or_else(|| Some(path.clone())), ..failure.clone() };
            kept.push(Value::Object(events::error(&at)));
        }
    }
    if entries {
        teller.tell(events::settled(entry.as_deref(), &path, &outcome));
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
    let filter = rules(&options.filter)?;
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
    let streams = streams("copy", options.streams)?;
    let (compress, yields) = (options.compress, options.scavenger);
    let dscp = yields.then_some(units::LOWER_EFFORT);
    let asked = plan::Asked { streams, compress, yields, ..plan::Asked::default() };
    Ok(Wishes {
        selection: Selection {
            filter,
            one_file_system: options.one_file_system,
            follow_links: options.copy_links,
            update: options.update,
            ignore_existing: options.ignore_existing,
            ..Selection::default()
        },
        fidelity,
        movement: Movement {
            asked,
            rate: Arc::new(Rate::of_bits(rate)),
            link: LinkSettings { dscp, ..reaching.link()? },
            ..Movement::default()
        },
        dry_run: options.dry_run,
        ..Wishes::default()
    })
}

fn rules(lines: &[String]) -> Result<Vec<FilterRule>> {
    let mut rules = Vec::new();
    for line in lines {
        rules.extend(parse_filter_line(line)?);
    }
    Ok(rules)
}

/// Begins to compare a place with a receipt. `keys`: of either side, of the sender, of the receiver.
#[pyfunction]
pub fn verify(
    py: Python<'_>,
    receipt: PathBuf,
    place: OsString,
    strict: bool,
    keys: (Vec<String>, Vec<String>, Vec<String>),
    reaching: Reaching,
) -> PyResult<Work> {
    let read = |name: &str, keys: &[String]| -> Result<Vec<String>> {
        let read = |key: &String| {
            let refuse = |why: String| format!("{name}={key:?}: {why}");
            let usage = |why: String| Failure::new(FailureKind::Usage, "verify", refuse(why));
            verifying::parse_key(key).map_err(usage)
        };
        keys.iter().map(read).collect()
    };
    let (both, sender, receiver) = &keys;
    let expected = read("keys", both).and_then(|both| {
        Ok(Expected { both, sender: read("sender", sender)?, receiver: read("receiver", receiver)? })
    });
    let expected = expected.map_err(|failure| raise(py, &failure))?;
    let meter = Arc::new(Meter::default());
    Work::start(meter.clone(), events::progress, true, move |teller, stop| {
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

/// Begins to compare two places.
#[pyfunction]
pub fn check(
    py: Python<'_>,
    places: (OsString, OsString),
    devices: bool,
    filter: Vec<String>,
    reaching: Reaching,
) -> PyResult<Work> {
    let selected = rules(&filter).and_then(|rules| Selected::new(rules, None));
    let selected = selected.map_err(|failure| raise(py, &failure))?;
    let meter = Arc::new(Meter::default());
    Work::start(meter.clone(), events::progress, true, move |teller, stop| {
        let places = [places.0, places.1];
        let (named, mut far_movers) = (places.clone(), reaching.to_ask()?);
        let (_far_movers, sides) = unless_stopped(stop, move || {
            let sides = [Reach::open(&named[0], &mut far_movers)?, Reach::open(&named[1], &mut far_movers)?];
            Ok((far_movers, sides))
        })?;
        let mut tell = |told: comparing::Told<'_>| -> Result<()> {
            teller.tell(match told {
                comparing::Told::Difference(what, path, why) => events::difference(what, path, why),
                comparing::Told::Trouble(side, failure) => events::error_at(&places[side], failure),
            });
            Ok(())
        };
        let found = comparing::check([&sides[0], &sides[1]], &selected, devices, &meter, &mut tell, stop)?;
        Ok(json!({
            "entries": found.entries, "files": found.files, "bytes": found.bytes, "missing": found.missing,
            "extra": found.extra, "differing": found.differing, "unreadable": found.unreadable,
            "left_out": found.left_out,
        }))
    })
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
