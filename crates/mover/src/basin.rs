//! The whole way as one basin: which stage is the narrowest.
//!
//! Every thread of the data path is always in one stage. Where a stage is narrow, the threads before it wait in
//! *send* and the threads behind it wait in *receive*; where neither side is busy, the path between them is
//! narrow. So the shares of time alone tell, without knowing any capacity.

use crate::stage::Stage;
use std::time::Duration;
use thalweg_wire::message::StageAccount;

/// Which stage set the rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Narrowest {
    /// Its name.
    pub stage: &'static str,
    /// Where it is: `source`, `destination`, or `path`.
    pub place: &'static str,
    /// Share of the time that its threads spent in it, 0 to 1.
    pub busy: f64,
    /// The next one, and its share.
    pub next: Option<(&'static str, f64)>,
}

/// Threads wait for the other side if they spend more than this share of their time in send or receive.
const WAITING: f64 = 0.5;

/// Judges the accounts of both sides of a transfer that ran for `elapsed` on `streams` streams. `None` if
/// nothing was booked.
pub fn narrowest(
    sender: &[StageAccount],
    receiver: &[StageAccount],
    streams: u16,
    elapsed: Duration,
) -> Option<Narrowest> {
    let total = elapsed.as_nanos() as f64;
    if total <= 0.0 {
        return None;
    }
    let share = |rows: &[StageAccount], stage: Stage| {
        let threads = if is_of_one_thread(stage) { 1.0 } else { f64::from(streams.max(1)) };
        let nanos = rows.iter().find(|row| row.stage == stage as u8).map_or(0, |row| row.nanos);
        (nanos as f64 / (total * threads)).min(1.0)
    };
    let shares = |rows: &[StageAccount],
                  stages: &[Stage],
                  place: &'static str|
     -> Vec<(&'static str, &'static str, f64)> {
        stages.iter().map(|&stage| (stage.name(), place, share(rows, stage))).collect()
    };
    let at_source = shares(sender, &[Stage::Scan, Stage::Read, Stage::Digest, Stage::Compress], "source");
    let mut at_destination = shares(receiver, &[Stage::Expand, Stage::Verify, Stage::Write], "destination");
    let rounds =
        shares(receiver, &[Stage::Sync, Stage::ReadBack, Stage::Record, Stage::Finish], "destination");
    let (sending, receiving) = (share(sender, Stage::Send), share(receiver, Stage::Receive));
    let is_linked = receiver.iter().any(|row| row.stage == Stage::Receive as u8);
    at_destination.extend(rounds);

    let mut all: Vec<_> = at_source.iter().chain(&at_destination).copied().collect();
    if is_linked {
        // What both sides wait for is neither of theirs.
        let waiting = sending.min(receiving);
        let source_busy: f64 = at_source.iter().map(|(_, _, share)| share).sum();
        let path =
            if sending > WAITING && receiving > WAITING && source_busy < WAITING { waiting } else { 0.0 };
        all.push(("path", "path", path));
    }
    all.sort_by(|a, b| b.2.total_cmp(&a.2));
    let &(stage, place, busy) = all.first()?;
    if busy <= 0.0 {
        return None;
    }
    Some(Narrowest { stage, place, busy, next: all.get(1).map(|&(name, _, share)| (name, share)) })
}

fn is_of_one_thread(stage: Stage) -> bool {
    matches!(stage, Stage::Scan | Stage::Sync | Stage::ReadBack | Stage::Record | Stage::Finish)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(stage: Stage, milliseconds: u64) -> StageAccount {
        StageAccount { stage: stage as u8, nanos: milliseconds * 1_000_000, bytes: 1, threads: 1 }
    }

    fn judge(sender: &[StageAccount], receiver: &[StageAccount]) -> &'static str {
        narrowest(sender, receiver, 1, Duration::from_secs(1)).map_or("nothing", |n| n.stage)
    }

    #[test]
    fn the_stage_that_all_others_wait_for_is_named() {
        let slow_source = [row(Stage::Read, 900), row(Stage::Digest, 50), row(Stage::Send, 50)];
        assert_eq!(judge(&slow_source, &[row(Stage::Receive, 950), row(Stage::Write, 50)]), "read");
        let waits = [row(Stage::Read, 50), row(Stage::Digest, 50), row(Stage::Send, 900)];
        assert_eq!(judge(&waits, &[row(Stage::Receive, 100), row(Stage::Write, 900)]), "write");
        assert_eq!(judge(&waits, &[row(Stage::Receive, 900), row(Stage::Write, 100)]), "path");
        assert_eq!(judge(&waits, &[row(Stage::Receive, 500), row(Stage::Sync, 950)]), "sync");
        assert_eq!(judge(&[], &[]), "nothing");
    }
}
