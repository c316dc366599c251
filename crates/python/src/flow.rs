//! Streams: content that is still being made, as work that Python waits for.

use crate::failures::raise;
use crate::options::{odd, read, seconds, streams};
use crate::reaching::Reaching;
use crate::waiting::unless_stopped;
use crate::work::{Heard, Record, Teller, Work};
use pyo3::prelude::*;
use serde_json::Value;
use std::ffi::OsString;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use thalweg_client::events;
use thalweg_client::options::{knobs, memory, units};
use thalweg_client::place::Places;
use thalweg_client::receipt::{self, ReceiptFile};
use thalweg_client::stream::{End, Ends, Report, buffer_bytes, check_marker, pipe};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_mover::run::flow::job::{FlowTo, FlowWishes};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::limits;
use thalweg_wire::message::{FlowTerms, Until};
use thalweg_wire::path::Escaped;

/// What a stream goes by.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct StreamOptions {
    until_closed: bool,
    until_idle_s: Option<f64>,
    until_bytes: Option<u64>,
    until_marker: Option<OsString>,
    follow: bool,
    wait: bool,
    poll_s: Option<f64>,
    recheck: bool,
    buffer_bytes: u64,
    mark_every_s: f64,
    bwlimit: Option<String>,
    dscp: Option<String>,
    streams: Option<u16>,
    slot: Option<String>,
    receipt: Option<PathBuf>,
    report: Option<PathBuf>,
    /// Tell of each file.
    entries: bool,
    /// Tell of anything at all.
    tells: bool,
}

/// Begins a stream from one place to another. A place that is `-` is the descriptor beside it, which is duplicated.
#[pyfunction]
pub fn stream(
    py: Python<'_>,
    places: (OsString, OsString),
    pipes: (Option<RawFd>, Option<RawFd>),
    options: StreamOptions,
    reaching: Reaching,
) -> PyResult<Work> {
    let told = |failure: Failure| raise(py, &failure);
    let wishes = wishes(&options, &reaching).map_err(told)?;
    let end = |place: &OsString, number: Option<RawFd>| {
        End::parse(place, &Places::default(), || duplicate(number)).map_err(told)
    };
    let ends = (end(&places.0, pipes.0)?, end(&places.1, pipes.1)?);
    let [from, to] = [&places.0, &places.1].map(|place| Escaped(place.as_encoded_bytes()).to_string());
    let meter: Arc<Meter> = Arc::default();
    let counts = meter.clone();
    let rate = wishes.rate.clone();
    Work::start(meter, events::flow_progress, rate, options.tells, move |teller, stop| {
        streamed(ends, [&from, &to], (&options, &reaching), wishes, counts, teller, stop)
    })
}

fn streamed(
    (source, destination): (End, End),
    [from, to]: [&str; 2],
    (options, reaching): (&StreamOptions, &Reaching),
    mut wishes: FlowWishes,
    meter: Arc<Meter>,
    teller: &Teller,
    stop: &Stop,
) -> Result<Value> {
    let state = reaching.state_if_room(&teller.of_links())?;
    let mut far_movers = reaching.to_copy(state.clone(), teller.of_links())?;
    let far = Ends::far(&source, &destination);
    // Without the ends: what nobody waits for any more holds no pipe.
    let mut far_movers = unless_stopped(stop, move || {
        far.map_or(Ok(()), |whom| far_movers.reach(&whom).map(drop))?;
        Ok(far_movers)
    })?;
    let ends = Ends::reach(source, destination, &mut far_movers, &state)?;
    let sends = matches!(ends.to, FlowTo::Far(..));
    let congestion = reaching.congestion(sends)?;
    wishes.link.congestion = congestion.where_we_send(sends);
    let asked = receipt::Asked::of_stream(from, to);
    let receipt = options.receipt.as_deref().map(|path| ReceiptFile::begin(path, &asked)).transpose()?;
    wishes.receipt = receipt.as_ref().map(ReceiptFile::sink);
    let file = options.report.as_deref().map(Report::begin).transpose()?.map(Arc::new);
    let record = file.clone().map(|file| -> Record {
        Arc::new(move |event: &Event| {
            if let (Event::Settled(entry, _), Some(object)) = (event, events::of_entry(event)) {
                file.tell(entry.id, || Value::Object(object));
            }
        })
    });
    let heard = Heard::new(teller, options.entries, record);
    let watch = heard.watch(meter);
    if let Some(text) = congestion.note {
        (watch.events)(Event::Note(text));
    }
    let report = ends.run([from, to], &wishes, &state, &watch, stop);
    let reported = file.map_or(Ok(()), |file| file.finish());
    let report = report?;
    let kept = receipt.map_or(Ok(()), |receipt| receipt.finish(&report.agreed));
    Ok(heard.told(events::flow_finished(&report, Instant::now()), kept.and(reported)))
}

fn duplicate(number: Option<RawFd>) -> Result<OwnedFd> {
    let missing = || Failure::new(FailureKind::Usage, "open a pipe", "`-` needs a descriptor");
    pipe(number.ok_or_else(missing)?)
}

fn wishes(options: &StreamOptions, reaching: &Reaching) -> Result<FlowWishes> {
    let usage = |cause: String| Failure::new(FailureKind::Usage, "stream", cause);
    knobs::buffer(options.buffer_bytes).map_err(usage)?;
    let millis = |time: f64| u64::try_from(seconds(time).as_millis()).unwrap_or(u64::MAX);
    let slot = options.slot.as_deref().map(units::parse_slot).transpose().map_err(usage)?;
    let mark_every = seconds(options.mark_every_s);
    let often = slot.map_or(mark_every, |slot| mark_every.min(slot.deadline / 10));
    let mark_every_ms = u64::try_from(often.as_millis()).unwrap_or(u64::MAX);
    if mark_every_ms > u64::from(limits::MARK_EVERY_MS_MAX) {
        return Err(usage("marks are made at least once a minute".into()));
    }
    if let Some(marker) = &options.until_marker {
        check_marker(marker.as_encoded_bytes())
            .map_err(|why| odd(format!("until_marker={marker:?}: {why}")))?;
    }
    let until = Until {
        closed: options.until_closed,
        idle_ms: options.until_idle_s.map(millis),
        bytes: options.until_bytes,
        marker: options.until_marker.clone().map(OsStringExt::into_vec),
        forever: options.follow,
        wait: options.wait,
        poll_ms: options.poll_s.map(|time| u32::try_from(millis(time)).unwrap_or(u32::MAX).max(1)),
        recheck: options.recheck,
    };
    let ends = Until { forever: false, wait: false, poll_ms: None, recheck: false, ..until.clone() };
    if until.forever && ends != Until::default() {
        return Err(usage("follow=True has no end: it goes with no until_…".into()));
    }
    let rate = options.bwlimit.as_deref().map(units::parse_rate).transpose().map_err(usage)?;
    let mut wishes = FlowWishes::new(until);
    let memory_bytes = memory::bytes_max();
    wishes.terms = FlowTerms {
        window_bytes: buffer_bytes(options.buffer_bytes, memory_bytes),
        mark_every_ms: u32::try_from(mark_every_ms).unwrap_or(u32::MAX),
        ..wishes.terms
    };
    let streams = streams("stream", options.streams)?;
    wishes.asked = plan::Asked { streams, memory_bytes, ..plan::Asked::default() };
    wishes.rate = Arc::new(Rate::of_bits(rate));
    wishes.slot = slot;
    wishes.link = reaching.link()?;
    wishes.link.dscp = read("dscp", options.dscp.as_deref(), units::parse_dscp)?;
    wishes.asked_of_way = reaching.asked_of_way();
    Ok(wishes)
}
