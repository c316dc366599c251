//! A copy, as Python asks for it.

use crate::failures::raise;
use crate::options::{self, only, read, rules, streams, within};
use crate::reaching::Reaching;
use crate::waiting::unless_stopped;
use crate::work::{Heard, Record, Teller, Work};
use pyo3::prelude::*;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg_client::events;
use thalweg_client::job::Asked;
use thalweg_client::options::{knobs, memory, units};
use thalweg_client::place::Places;
use thalweg_client::receipt::{self, ReceiptFile, ReportFile};
use thalweg_mover::event::Event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{
    Fidelity, Meter, Movement, Remembered, Report, Selection, Stop, Wishes, deletes_in_part,
};
use thalweg_mover::run::steer::Rate;
use thalweg_wire::message::{Check, PartOf, Preserve, Stays, VerifyLevel};

/// What a copy goes by.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct CopyOptions {
    delete_max: Option<u64>,
    remove_source_files: bool,
    compress: bool,
    verify: String,
    check: String,
    find_renames: bool,
    dry_run: bool,
    update: bool,
    ignore_existing: bool,
    one_file_system: bool,
    copy_links: bool,
    part: Option<(u32, u32)>,
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
    // What deletes is the other command, for who is told to give one.
    let command = if options.delete_max.is_some() { "sync" } else { "cp" };
    let asked = Asked::read(command, places, only, &Places::default())?;
    let part = part(options)?;
    let asked = asked.in_part(part).in_chunks(wishes.movement.asked.chunk_bytes);
    let state = reaching.state_if_room(&teller.of_links())?;
    wishes.remembered.state = Some(state.clone());
    let (mut far_movers, keys) = (reaching.to_copy(state.clone(), teller.of_links())?, state.clone());
    let (_far_movers, job) = unless_stopped(stop, move || {
        let job = asked.reach(&mut far_movers, &keys)?;
        Ok((far_movers, job))
    })?;
    if options.remove_source_files {
        job.refuse_written([options.receipt.as_deref(), options.report.as_deref()])?;
    }
    job.refuse_doomed(&wishes, options.receipt.as_slice(), options.report.as_deref())?;
    let congestion = reaching.congestion(job.is_push())?;
    wishes.movement.link.congestion = congestion.where_we_send(job.is_push());
    let receipt = match &options.receipt {
        Some(path) => {
            let deletes = options.delete_max.is_some();
            let asked = receipt::Asked::of(places, options.compress, deletes, part, &wishes.selection);
            Some(ReceiptFile::begin(path, &asked)?)
        }
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
    let mut finished = events::finished(&report, options.dry_run);
    finished.insert("sources_kept".into(), sources_kept(&report).into());
    Ok(heard.told(finished, kept))
}

/// Source files that were to be removed and could not be, as the last attempt found them.
fn sources_kept(report: &Report) -> u64 {
    let of = |why| report.sources.left.of(why);
    let kept = [Stays::Changed, Stays::OpenForWriting, Stays::NotRemoved].map(of);
    kept.into_iter().fold(0, u64::saturating_add)
}

/// A stop may have come when all else was done.
fn all_removed(report: &Report) -> Result<()> {
    let cause = "stopped on request; all is copied, and what was not removed yet stays";
    match report.sources.is_cut_short {
        true => Err(Failure::new(FailureKind::Stopped, "remove source files", cause)),
        false => Ok(()),
    }
}

fn part(options: &CopyOptions) -> Result<Option<PartOf>> {
    match (options::part("copy", options.part)?, options.delete_max) {
        (Some(part), Some(_)) => Err(deletes_in_part(part)),
        (part, _) => Ok(part),
    }
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
        finds_renames: options.find_renames,
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
            // The copy has it.
            part: None,
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
