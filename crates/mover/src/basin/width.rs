//! The stages of a transfer, each with what it could let through: for tables and drawings.

use super::{Evidence, Where, need, path};
use crate::stage::Stage;
use serde::Serialize;
use thalweg_wire::account::SideAccounts;

/// A stage with its account.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Width {
    /// Its name; `path` for the path.
    pub stage: &'static str,
    /// Where it is.
    pub place: Where,
    /// Share of its threads' time at work, 0 to 1; of the path: in which both sides waited for it.
    pub busy: f64,
    /// Share without anything to work on.
    pub input: f64,
    /// Share in which what comes behind did not take what was ready.
    pub output: f64,
    /// CPU time, in seconds.
    pub cpu_s: f64,
    /// Content bytes through it.
    pub bytes: u64,
    /// Pieces of work through it.
    pub items: u64,
    /// Threads that share it.
    pub threads: u16,
    /// The most that ever waited before it, in pieces of work; of a stage that has several requests to a disk in
    /// flight, the most of these. `None` where there is no queue.
    pub queue_max: Option<u32>,
    /// Content bytes a second that it could let through; of the narrowest and the next as the verdict says.
    pub bytes_per_s: f64,
}

/// The stages that did anything, in the order of a byte's journey.
pub fn widths(evidence: &Evidence) -> Vec<Width> {
    let mut all = by_own_work(evidence);
    let Some((narrowest, next)) = super::narrowest_and_next(evidence) else { return all };
    // What else the threads of a stage do holds it up, which its own work does not show. One row can be both: then it
    // is the narrowest, which comes last here.
    for narrow in next.iter().chain([&narrowest]).map(|need| need.narrow(evidence)) {
        let row = all.iter_mut().find(|row| row.stage == narrow.stage && row.place == narrow.place);
        if let Some(row) = row {
            row.bytes_per_s = narrow.bytes_per_s;
        }
    }
    all
}

/// The same, each stage as wide as its own work alone would let it be: widths of stages that share threads can be
/// added.
pub fn by_own_work(evidence: &Evidence) -> Vec<Width> {
    let before = Stage::ALL.iter().filter(|&&stage| stage <= Stage::Send);
    // What stands at the destination is read by those who verify; and each side may have a limit.
    let is_after = |stage: Stage| matches!(stage, Stage::Read | Stage::Limit) || stage > Stage::Send;
    let after = Stage::ALL.iter().filter(|&&stage| is_after(stage));
    let mut all: Vec<Width> =
        before.filter_map(|&stage| width(evidence, &evidence.sender, stage, Where::Source)).collect();
    // The path has no threads: it is as wide as it is said to be.
    let narrowest = super::narrowest_of(evidence, &need::needs(evidence));
    let narrowest = narrowest.filter(|need| need.place == Where::Path);
    let waited_s = narrowest.or_else(|| path::need(evidence)).map_or(0.0, |need| need.seconds);
    let path = narrowest.or_else(|| path::need_behind(evidence));
    all.extend(path.filter(|need| need.seconds > 0.0).map(|need| Width {
        stage: "path",
        place: Where::Path,
        busy: waited_s / evidence.seconds().max(1e-9),
        input: 0.0,
        output: 0.0,
        cpu_s: 0.0,
        bytes: evidence.bytes,
        items: 0,
        threads: u16::try_from(evidence.sender.streams.len()).unwrap_or(u16::MAX),
        queue_max: None,
        bytes_per_s: evidence.bytes as f64 / need.seconds,
    }));
    all.extend(after.filter_map(|&stage| width(evidence, &evidence.receiver, stage, Where::Destination)));
    all
}

fn width(evidence: &Evidence, side: &SideAccounts, stage: Stage, place: Where) -> Option<Width> {
    let row = side.stage(stage as u8);
    if row.busy_nanos == 0 {
        return None;
    }
    let threads = match stage {
        Stage::Scan | Stage::Decide => 1.0,
        stage if stage >= Stage::Sync => 1.0,
        Stage::Write if evidence.is_flow => 1.0,
        Stage::Pace | Stage::Limit | Stage::Send if place == Where::Source => evidence.sending_threads(),
        stage if stage <= Stage::Send && place == Where::Source => evidence.reading_threads(),
        // Without a link the sender's threads do it.
        _ => evidence.receiving_threads(),
    };
    let share = |nanos: u64| nanos as f64 / 1e9 / threads / evidence.seconds().max(1e-9);
    Some(Width {
        stage: stage.name(),
        place,
        busy: share(row.busy_nanos),
        input: share(row.input_nanos),
        output: share(row.output_nanos),
        cpu_s: row.cpu_nanos as f64 / 1e9,
        bytes: row.bytes,
        items: row.items,
        threads: threads as u16,
        queue_max: (row.queue_max > 0).then_some(row.queue_max),
        bytes_per_s: evidence.bytes_through(&row) as f64 * threads / (row.busy_nanos as f64 / 1e9),
    })
}
