//! Frames of detectors: what gives them, what takes them, and a hub inside this process. See `thalweg_client::frames`.
//!
//! Payloads are not copied here: bytes of Python go into the engine as they are, and a frame that came stands still
//! until Python has let it go, so that arrays may look at it by its address.

use crate::failures::raise;
use crate::fork_guard::Ours;
use crate::options::seconds;
use crate::reaching::Reaching;
use crate::waiting::{GivingUp, STEP, is_given_up, on_a_thread};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyString};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_client::far_movers::How;
use thalweg_client::frames::{
    self, ChannelWishes, ClockOffset, ConsumerReport, Delivery, FrameFrom, FramePolicy, HeldLevel, HubWishes,
    NewFrame, Payload, ReceiverFigures, ReceiverWishes, SenderFigures, SenderWishes,
};
use thalweg_client::options::units;
use thalweg_client::{events, identity};
use thalweg_mover::admission::SlotHeld;
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::frames::{FINISH, OPEN_CHANNEL, PUSH};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::flow::lags::Lag;

/// How the channel is kept, if this is the first to open it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ChannelOptions {
    memory_bytes: Option<u64>,
    spill_bytes: Option<u64>,
    recorded: bool,
    unattended: bool,
}

impl ChannelOptions {
    fn wishes(&self) -> ChannelWishes {
        ChannelWishes {
            memory_bytes: self.memory_bytes,
            is_recorded: self.recorded,
            spill_bytes: self.spill_bytes,
            is_unattended: self.unattended,
        }
    }
}

/// What a sender goes by.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SenderOptions {
    producer: Option<String>,
    durable: bool,
    window_bytes: u64,
    streams: Option<u16>,
    slot: Option<String>,
    channel: ChannelOptions,
}

/// What a receiver goes by.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ReceiverOptions {
    policy: String,
    depth: u32,
    group: Option<String>,
    from_now: bool,
    from_sequence: Option<u64>,
    name: Option<String>,
    producers: u32,
    keep_s: f64,
    link_bits_per_s: Option<u64>,
    window_bytes: u64,
    streams: Option<u16>,
    channel: ChannelOptions,
}

impl ReceiverOptions {
    fn policy(&self) -> Result<FramePolicy> {
        Ok(match self.policy.as_str() {
            "block" => FramePolicy::Block,
            "spill" => FramePolicy::Spill,
            "drop-oldest" => FramePolicy::DropOldest { depth: self.depth },
            "latest-only" => FramePolicy::LatestOnly,
            other => {
                let cause = format!("policy={other:?}: block, spill, drop-oldest or latest-only");
                return Err(Failure::new(FailureKind::Usage, OPEN_CHANNEL, cause));
            }
        })
    }

    fn wishes(&self, reaching: &Reaching) -> Result<ReceiverWishes> {
        Ok(ReceiverWishes {
            policy: self.policy()?,
            group: self.group.clone(),
            from: match (self.from_now, self.from_sequence) {
                (true, _) => FrameFrom::Now,
                (false, Some(sequence)) => FrameFrom::Sequence(sequence),
                (false, None) => FrameFrom::Start,
            },
            name: self.name.clone(),
            producers: self.producers,
            keep: seconds(self.keep_s),
            link_bits_per_s: self.link_bits_per_s,
            window_bytes: self.window_bytes,
            channel: self.channel.wishes(),
            streams: self.streams,
            link: reaching.link_without_notes(false)?,
            ..ReceiverWishes::default()
        })
    }
}

/// A frame as Python gives it, without its payload.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Head {
    set: Option<(u64, u32)>,
    time_ns: Option<u64>,
    deadline_ns: Option<u64>,
    dtype: String,
    shape: Vec<u64>,
    metadata: Vec<u8>,
}

/// Bytes of Python, or a frame that came and goes on.
#[derive(FromPyObject)]
pub enum Data {
    Frame(Py<Frame>),
    Bytes(PyBackedBytes),
}

/// See [`frames::Sender`].
#[pyclass(frozen)]
pub struct Sender(Ours<frames::Sender>);

#[pymethods]
impl Sender {
    /// Reaches the channel.
    #[new]
    fn new(
        py: Python<'_>,
        place: OsString,
        options: SenderOptions,
        reaching: Reaching,
        gives_up: Option<Bound<'_, GivingUp>>,
    ) -> PyResult<Sender> {
        let usage = |cause: String| raise(py, &Failure::new(FailureKind::Usage, "take a slot", cause));
        let wishes = SenderWishes {
            slot: options.slot.as_deref().map(units::parse_slot).transpose().map_err(usage)?,
            producer: options.producer.clone(),
            level: if options.durable { HeldLevel::Durable } else { HeldLevel::Memory },
            window_bytes: options.window_bytes,
            channel: options.channel.wishes(),
            streams: options.streams,
            link: reaching.link_without_notes(true).map_err(|failure| raise(py, &failure))?,
            ..SenderWishes::default()
        };
        let opened = on_a_thread(py, gives_up.as_ref(), move |_| {
            frames::Sender::open(&place, how(&reaching)?, wishes)
        })?;
        opened.map(|sender| Sender(Ours::new(sender))).map_err(|failure| raise(py, &failure))
    }

    #[getter]
    fn producer(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.0.get(py)?.producer())
    }

    fn push(&self, py: Python<'_>, data: Data, head: Head, timeout_s: Option<f64>) -> PyResult<u64> {
        let sender = self.0.get(py)?;
        let payload = match data {
            Data::Frame(frame) => frame.get().0.payload.clone(),
            Data::Bytes(bytes) => Payload::new(bytes),
        };
        let frame = NewFrame {
            set: head.set,
            time_ns: head.time_ns,
            deadline_ns: head.deadline_ns,
            dtype: head.dtype,
            shape: head.shape,
            metadata: head.metadata,
            payload,
        };
        let prepared = py.detach(|| sender.prepare(frame)).map_err(|failure| raise(py, &failure))?;
        in_steps(py, timeout_s, None, |time| {
            sender.push_prepared(prepared.clone(), Some(time)).map(Step::Came).or_else(Step::of_busy)
        })?
        .ok_or_else(|| raise(py, &late(PUSH)))
    }

    fn declare_set(&self, py: Python<'_>, set: u64, frames: u32) -> PyResult<()> {
        let sender = self.0.get(py)?;
        py.detach(|| sender.declare_set(set, frames)).map_err(|failure| raise(py, &failure))
    }

    fn end_set(&self, py: Python<'_>, set: u64) -> PyResult<()> {
        let sender = self.0.get(py)?;
        py.detach(|| sender.end_set(set)).map_err(|failure| raise(py, &failure))
    }

    #[getter]
    fn next_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.0.get(py)?.next_sequence())
    }

    /// What it did, as JSON.
    fn finish(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<String> {
        let sender = self.0.get(py)?;
        let report = in_steps(py, timeout_s, None, |time| {
            sender.finish(Some(time)).map(Step::Came).or_else(Step::of_busy)
        })?;
        let report = report.ok_or_else(|| raise(py, &late(FINISH)))?;
        let mut object = of_sender(&report.figures, sender.slot());
        object.insert("producer".into(), report.producer.into());
        object.insert("sequence_end".into(), report.frames.into());
        Ok(Value::Object(object).to_string())
    }

    /// In a fork nothing: it is not there to be ended.
    fn abort(&self, py: Python<'_>) {
        if let Some(sender) = self.0.there() {
            py.detach(|| sender.abort());
        }
    }

    /// As JSON.
    fn figures(&self, py: Python<'_>) -> PyResult<String> {
        let sender = self.0.get(py)?;
        Ok(Value::Object(of_sender(&sender.figures(), sender.slot())).to_string())
    }
}

/// See [`frames::Receiver`].
#[pyclass(frozen)]
pub struct Receiver(Ours<frames::Receiver>);

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(receiver) = self.0.there() {
            crate::at_the_end(|| drop(receiver.let_go()));
        }
    }
}

#[pymethods]
impl Receiver {
    /// Reaches the channel.
    #[new]
    fn new(
        py: Python<'_>,
        place: OsString,
        options: ReceiverOptions,
        reaching: Reaching,
        gives_up: Option<Bound<'_, GivingUp>>,
    ) -> PyResult<Receiver> {
        let opened = on_a_thread(py, gives_up.as_ref(), move |_| {
            let wishes = options.wishes(&reaching)?;
            frames::Receiver::open(&place, how(&reaching)?, wishes)
        })?;
        opened.map(|receiver| Receiver(Ours::new(receiver))).map_err(|failure| raise(py, &failure))
    }

    /// A frame, or what else is told, as JSON; `None` if nothing came in time.
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout_s: Option<f64>,
        gives_up: Option<Bound<'py, GivingUp>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let receiver = self.0.get(py)?;
        let delivery = in_steps(py, timeout_s, gives_up.as_ref(), |time| {
            Ok(match receiver.next(Some(time))? {
                Some(delivery) => Step::Came(delivery),
                // Another thread got the end, or closed it.
                None if receiver.is_over() => Step::Over,
                None => Step::NotYet,
            })
        })?;
        let Some(delivery) = delivery else { return Ok(None) };
        let told = match delivery {
            Delivery::Frame(frame) => return Ok(Some(Bound::new(py, Frame(frame))?.into_any())),
            Delivery::Lost(lost) => json!({
                "event": "lost", "producer": lost.producer.as_str(), "first": lost.first, "end": lost.end,
                "reason": lost.reason.name(),
            }),
            Delivery::Set(set) => json!({
                "event": "set", "set": set.set, "frames": set.frames, "delivered": set.delivered,
                "taken": set.taken, "missing": set.missing,
            }),
            Delivery::End(report) => of_consumer(&report),
        };
        Ok(Some(PyString::new(py, &told.to_string()).into_any()))
    }

    /// As JSON.
    fn figures(&self, py: Python<'_>) -> PyResult<String> {
        Ok(Value::Object(of_receiver(&self.0.get(py)?.figures())).to_string())
    }

    /// From now on what was handed out counts as taken only with [`Receiver::settle`].
    fn hold(&self, py: Python<'_>) -> PyResult<()> {
        self.0.get(py)?.hold();
        Ok(())
    }

    /// All that was handed out so far is taken.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let receiver = self.0.get(py)?;
        py.detach(|| receiver.settle());
        Ok(())
    }

    /// Ends, and leaves its place to who comes back under its name; what it got, as JSON.
    fn let_go(&self, py: Python<'_>) -> PyResult<String> {
        let receiver = self.0.get(py)?;
        Ok(of_consumer(&py.detach(|| receiver.let_go())).to_string())
    }

    /// Leaves; what it got, as JSON.
    fn close(&self, py: Python<'_>) -> PyResult<String> {
        let receiver = self.0.get(py)?;
        Ok(of_consumer(&py.detach(|| receiver.close())).to_string())
    }
}

/// A frame that came.
#[pyclass(frozen)]
pub struct Frame(frames::Frame);

#[pymethods]
impl Frame {
    #[getter]
    fn producer(&self) -> &str {
        &self.0.producer
    }

    #[getter]
    fn sequence(&self) -> u64 {
        self.0.sequence
    }

    #[getter]
    fn set(&self) -> Option<(u64, u32)> {
        self.0.set
    }

    #[getter]
    fn time_ns(&self) -> u64 {
        self.0.time_ns
    }

    #[getter]
    fn deadline_ns(&self) -> Option<u64> {
        self.0.deadline_ns
    }

    #[getter]
    fn latency_ns(&self) -> Option<u64> {
        self.0.latency_ns
    }

    #[getter]
    fn dtype(&self) -> &str {
        &self.0.dtype
    }

    #[getter]
    fn shape(&self) -> Vec<u64> {
        self.0.shape.clone()
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.metadata)
    }

    #[getter]
    fn digest(&self) -> String {
        self.0.digest.to_string()
    }

    /// Bytes of the payload.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.payload.len()
    }

    /// Where the payload stands, as long as this object does.
    #[getter]
    fn address(&self) -> usize {
        self.0.payload.as_ptr().addr()
    }
}

/// See [`frames::Hub`].
#[pyclass(frozen)]
pub struct Hub(Ours<Mutex<Option<frames::Hub>>>);

#[pymethods]
impl Hub {
    /// Listens, and writes its ticket.
    #[new]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        ticket: PathBuf,
        listen: Vec<String>,
        memory_bytes_max: Option<u64>,
    ) -> PyResult<Hub> {
        if let Some(address) = listen.iter().find(|address| !has_port(address)) {
            let cause = format!("{address:?}: HOST:PORT, for instance 127.0.0.1:0");
            return Err(raise(py, &Failure::new(FailureKind::Usage, "listen", cause)));
        }
        let mut wishes = HubWishes { listen, ..HubWishes::new(&directory, &ticket) };
        wishes.memory_bytes_max = memory_bytes_max.unwrap_or(wishes.memory_bytes_max);
        let started = py.detach(|| frames::Hub::start(&wishes));
        started.map(|hub| Hub(Ours::new(Mutex::new(Some(hub))))).map_err(|failure| raise(py, &failure))
    }

    fn addresses(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let hub = lock(self.0.get(py)?);
        Ok(hub.iter().flat_map(|hub| hub.addresses()).map(ToString::to_string).collect())
    }

    fn place(&self, py: Python<'_>, channel: &str) -> PyResult<OsString> {
        let over = || Failure::new(FailureKind::Stopped, "name a channel", "the hub was stopped");
        let place = lock(self.0.get(py)?).as_ref().ok_or_else(over).and_then(|hub| hub.place(channel));
        place.map_err(|failure| raise(py, &failure))
    }

    /// In a fork nothing: it is not there to be ended.
    fn stop(&self, py: Python<'_>) {
        py.detach(|| {
            if let Some(hub) = self.0.there().and_then(|hub| lock(hub).take()) {
                hub.stop();
            }
        });
    }
}

/// Whether it is written as an address to listen at.
fn has_port(address: &str) -> bool {
    let parts = address.rsplit_once(':');
    parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn how(reaching: &Reaching) -> Result<How> {
    let state = identity::state_directory(reaching.state())?;
    reaching.how(state, event::nobody())
}

/// What came of a step.
enum Step<T> {
    Came(T),
    NotYet,
    Over,
}

impl<T> Step<T> {
    /// A step that says `Busy` only says that it was too short.
    fn of_busy(failure: Failure) -> Result<Step<T>> {
        if failure.kind == FailureKind::Busy { Ok(Step::NotYet) } else { Err(failure) }
    }
}

/// Waits in short steps, so that a Ctrl-C is heard; `None` if it did not come in time, never will, or was given up.
fn in_steps<T: Send>(
    py: Python<'_>,
    timeout_s: Option<f64>,
    gives_up: Option<&Bound<'_, GivingUp>>,
    step: impl Fn(Duration) -> Result<Step<T>> + Sync,
) -> PyResult<Option<T>> {
    let until = timeout_s.and_then(|timeout_s| Instant::now().checked_add(seconds(timeout_s)));
    loop {
        let left = until.map_or(STEP, |until| until.saturating_duration_since(Instant::now()));
        let now = left.min(STEP);
        match py.detach(|| step(now)).map_err(|failure| raise(py, &failure))? {
            Step::Came(value) => return Ok(Some(value)),
            Step::Over => return Ok(None),
            Step::NotYet if left <= now && until.is_some() => return Ok(None),
            Step::NotYet => {}
        }
        py.check_signals()?;
        if is_given_up(gives_up) {
            return Ok(None);
        }
    }
}

fn late(operation: &str) -> Failure {
    let cause = "the hub did not take what was pushed in time";
    Failure::new(FailureKind::Busy, operation, cause).because(Reason::ConsumersSlow)
}

/// None where it was not measured.
fn clock(clock: Option<ClockOffset>) -> Value {
    let known = clock.filter(|clock| clock.bound_ns != u64::MAX);
    json!(known.map(|clock| json!({"offset_ns": clock.offset_ns, "bound_ns": clock.bound_ns})))
}

fn of_sender(figures: &SenderFigures, slot: Option<(SlotHeld, Lag)>) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    put("frames", figures.frames.into());
    put("bytes", figures.bytes.into());
    put("waiting", figures.waiting.into());
    put("waiting_bytes", figures.waiting_bytes.into());
    put("again", figures.again.into());
    put("blocked_ns", figures.blocked_ns.into());
    put("outages", figures.outages.into());
    put("clock", clock(figures.clock));
    put("slot", slot.as_ref().map(|(held, _)| events::slot(held, Instant::now())).into());
    for (key, value) in slot.iter().flat_map(|(_, lag)| events::lag(lag)) {
        put(key, value);
    }
    object
}

fn of_receiver(figures: &ReceiverFigures) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    let lost: Map<String, Value> =
        figures.lost.iter().map(|(why, count)| (why.name().to_owned(), (*count).into())).collect();
    put("frames", figures.frames.into());
    put("bytes", figures.bytes.into());
    put("lost", Value::Object(lost));
    put("sets_complete", figures.sets.0.into());
    put("sets_incomplete", figures.sets.1.into());
    put("again", figures.again.into());
    put("damaged", figures.damaged.into());
    put("late", figures.late.into());
    put("with_deadline", figures.with_deadline.into());
    put("deadline_unknown", figures.deadline_unknown.into());
    put("outages", figures.outages.into());
    put("clock", clock(figures.clock));
    let latency = figures.latency.map(|latency| {
        json!({
            "count": latency.count, "p50_ns": latency.p50_ns, "p90_ns": latency.p90_ns,
            "p99_ns": latency.p99_ns, "max_ns": latency.max_ns, "bound_ns": latency.bound_ns,
            "speed_score": latency.speed_score,
        })
    });
    put("latency", json!(latency));
    put("unmeasured", figures.unmeasured.into());
    object
}

fn of_consumer(report: &ConsumerReport) -> Value {
    json!({
        "event": "end", "figures": of_receiver(&report.figures),
        "producers_finished": report.producers_finished, "producers_gone": report.producers_gone,
    })
}
