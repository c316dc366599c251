//! The time that a transfer would take if one resource were all there is.

use super::{Evidence, Narrow, Where, cpu, crowd, heat, path, slow};
use crate::stage::Stage;
use serde::{Deserialize, Serialize};
use thalweg_wire::account::{SideAccounts, StageAccount};

/// What makes a stage narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Listing the source.
    Scan,
    /// Of a stream: nothing more was there to read.
    Producer,
    /// The disk that is read.
    SourceDisk,
    /// Opening and closing many small files.
    SmallFilesRead,
    /// The source's threads compute.
    SourceCpu,
    /// The destination's threads compute.
    DestinationCpu,
    /// The CPUs of the machine are used up.
    Cpu,
    /// A control group allows no more CPU.
    CpuQuota,
    /// The rate that was asked for.
    RateLimit,
    /// What the operator of that side lets all that it moves have together.
    OperatorLimit,
    /// The link is full.
    Link,
    /// Data travel in ssh: what that carries and what the link behind it does, no account tells apart.
    Ssh,
    /// The windows are smaller than bandwidth times delay.
    Window,
    /// Our send buffers are.
    SendBuffer,
    /// Packets are lost.
    Loss,
    /// One stream is much slower than the others.
    SlowStream,
    /// All streams of one card or route are much slower than the others.
    SlowCard,
    /// The disk that is written.
    DestinationDisk,
    /// Each sync takes its time, however little there is to sync.
    SlowSync,
    /// Making many small files.
    SmallFilesWrite,
    /// Giving files their names and metadata.
    Names,
    /// Looking at what is there.
    Look,
    /// Too little may be under way.
    Plan,
}

impl Cause {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Scan => "scan",
            Cause::Producer => "producer",
            Cause::SourceDisk => "source-disk",
            Cause::SmallFilesRead => "small-files-read",
            Cause::SourceCpu => "source-cpu",
            Cause::DestinationCpu => "destination-cpu",
            Cause::Cpu => "cpu",
            Cause::CpuQuota => "cpu-quota",
            Cause::RateLimit => "rate-limit",
            Cause::OperatorLimit => "operator-limit",
            Cause::Link => "link",
            Cause::Ssh => "ssh",
            Cause::Window => "window",
            Cause::SendBuffer => "send-buffer",
            Cause::Loss => "loss",
            Cause::SlowStream => "slow-stream",
            Cause::SlowCard => "slow-card",
            Cause::DestinationDisk => "destination-disk",
            Cause::SlowSync => "slow-sync",
            Cause::SmallFilesWrite => "small-files-write",
            Cause::Names => "names",
            Cause::Look => "look",
            Cause::Plan => "plan",
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Need {
    pub stage: Option<Stage>,
    pub place: Where,
    pub cause: Cause,
    /// How long it would take alone.
    pub seconds: f64,
    /// What it is chosen by: a cause that makes others look busy goes before them.
    pub weight: f64,
}

impl Need {
    /// Whether it is a CPU, or a share of one, that is not used up.
    pub fn is_idle_cpu(&self) -> bool {
        matches!(self.cause, Cause::Cpu | Cause::CpuQuota) && self.weight < self.seconds
    }

    /// As it is told.
    pub fn narrow(&self, evidence: &Evidence) -> Narrow {
        let stage = match (self.stage, self.place, self.cause) {
            (Some(stage), ..) => stage.name(),
            (_, Where::Path, _) => "path",
            (.., Cause::Plan) => "plan",
            _ => "cpu",
        };
        let seconds = self.seconds.max(1e-9);
        let bytes = match self.cause {
            Cause::RateLimit => paced_bytes(evidence),
            _ => match (self.stage, self.place) {
                (_, Where::Path) => evidence.bytes,
                (Some(stage), Where::Destination) => {
                    evidence.bytes_through(&evidence.receiver.stage(stage as u8))
                }
                (Some(stage), _) => evidence.bytes_through(&evidence.sender.stage(stage as u8)),
                (None, _) => evidence.content_bytes(),
            },
        };
        Narrow {
            stage: stage.to_owned(),
            place: self.place,
            cause: self.cause,
            busy: (seconds / evidence.seconds().max(1e-9)).min(1.0),
            bytes_per_s: bytes as f64 / seconds,
            entries_per_s: evidence.entries as f64 / seconds,
            heat: heat::of(evidence, self.cause, self.place).map(|heat| heat.share()),
        }
    }
}

/// Content bytes that went by a rate: what went before one was set, or after it was taken away, did not.
fn paced_bytes(evidence: &Evidence) -> u64 {
    let row = |stage: Stage| evidence.sender.stage(stage as u8);
    let pace = row(Stage::Pace);
    match pace.bytes {
        0 => evidence.bytes,
        bytes if row(Stage::Compress).busy_nanos == 0 => bytes.min(evidence.bytes),
        // It has bytes as they are sent: the content is as large a part of all as the frames are.
        _ => {
            let part = pace.items as f64 / row(Stage::Send).items.max(1) as f64;
            (evidence.bytes as f64 * part.min(1.0)) as u64
        }
    }
}

/// Bytes that went through one of the limits of a side, as they were sent. Versions from before these were told have
/// content there, which is several times as much where it is packed: no more than the streams carried counts.
fn limited_bytes(evidence: &Evidence, side: &SideAccounts, stage: Stage) -> u64 {
    let bytes = side.stage(stage as u8).bytes;
    let is_packed = evidence.sender.stage(Stage::Compress as u8).busy_nanos > 0;
    match path::carried_bytes(evidence) as u64 {
        carried @ 1.. if is_packed => bytes.min(carried),
        _ => bytes,
    }
}

/// Stages of a stream's thread at the sender.
const SENDING: [Stage; 5] = [Stage::Read, Stage::Open, Stage::Digest, Stage::Compress, Stage::Send];
/// Stages of a stream's thread at the receiver.
const RECEIVING: [Stage; 6] =
    [Stage::Receive, Stage::Expand, Stage::Read, Stage::Verify, Stage::Write, Stage::Create];
/// Stages of the one thread that reads a flow; streams hand on what it read.
const FLOW_READING: [Stage; 2] = [Stage::Read, Stage::Digest];
/// Stages of a stream's thread at the receiver of a flow; one other thread writes.
const FLOW_RECEIVING: [Stage; 2] = [Stage::Receive, Stage::Verify];
/// Stages of the thread that makes things durable.
const ROUNDS: [Stage; 5] = [Stage::Sync, Stage::ReadBack, Stage::Record, Stage::Conclude, Stage::Copy];
/// Stages of the thread that looks at what stands at the destination.
const DECIDING: [Stage; 2] = [Stage::Decide, Stage::Reread];

/// A rate limit that was met to this share is what limits, if it was waited for at all: during more than the second
/// share.
const AT_LIMIT: f64 = 0.93;
const FELT: f64 = 0.05;
/// One that threads wait for during more than this share of the time is what limits, whatever it is now.
const HELD: f64 = 0.5;

/// Stages that one pool of threads does in turn.
struct Pool {
    parts: Vec<Part>,
    threads: f64,
}

#[derive(Clone, Copy)]
struct Part {
    stage: Stage,
    place: Where,
    busy: f64,
    cpu: f64,
    /// What it waited for was a CPU.
    is_crowded: bool,
}

impl Part {
    fn of(side: &SideAccounts, stage: Stage, place: Where) -> Part {
        let row = side.stage(stage as u8);
        // Of threads that read back side by side the time of one is booked, and the CPU time of all: it has its share
        // of that, which is more where they are more than there are CPUs.
        let threads = match stage {
            Stage::ReadBack => f64::from(row.threads.max(1)).min(cpu::usable(side)),
            _ => 1.0,
        };
        Part {
            stage,
            place,
            busy: row.busy_nanos as f64 / 1e9,
            cpu: row.cpu_nanos as f64 / 1e9 / threads,
            is_crowded: crowd::explains(side, stage).is_some(),
        }
    }

    /// Waits for a device more than it computes.
    fn waits(&self) -> bool {
        self.cpu < self.busy * 0.5 && !self.is_crowded
    }

    fn cause(&self, is_sync_slow: bool) -> Cause {
        match self.stage {
            Stage::Scan => Cause::Scan,
            Stage::Read if self.waits() && self.place == Where::Source => Cause::SourceDisk,
            Stage::Read if self.waits() => Cause::DestinationDisk,
            Stage::Open => Cause::SmallFilesRead,
            Stage::Create => Cause::SmallFilesWrite,
            Stage::Decide => Cause::Look,
            Stage::Sync | Stage::Record | Stage::Conclude if is_sync_slow => Cause::SlowSync,
            Stage::Sync | Stage::Record => Cause::DestinationDisk,
            stage if stage == Stage::Write || reads_there(stage) => match self.waits() {
                true => Cause::DestinationDisk,
                false => Cause::DestinationCpu,
            },
            Stage::Finish | Stage::Conclude => Cause::Names,
            _ if self.place == Where::Source => Cause::SourceCpu,
            _ => Cause::DestinationCpu,
        }
    }
}

impl Pool {
    /// Time of all parts, shared by its threads.
    fn seconds(&self) -> f64 {
        self.parts.iter().map(|part| part.busy).sum::<f64>() / self.threads
    }
}

/// Whether a stage reads and digests what stands at the destination by a thread that is no stream's.
fn reads_there(stage: Stage) -> bool {
    matches!(stage, Stage::ReadBack | Stage::Copy | Stage::Reread)
}

/// Resources with a need.
pub(super) fn needs(evidence: &Evidence) -> Vec<Need> {
    let mut needs = of_pools(&pools(evidence), evidence);
    needs.extend(cpu::needs(evidence));
    needs.extend(of_limits(evidence, None));
    needs.extend(path::need(evidence));
    needs.retain(|need| need.seconds > 0.0);
    needs
}

/// The resources that are left if `gone` were infinitely wide.
pub(super) fn without(evidence: &Evidence, gone: &Need) -> Vec<Need> {
    let mut pools = pools(evidence);
    for pool in &mut pools {
        for part in &mut pool.parts {
            if is_gone(part, gone, evidence) {
                // What it computes stays, where it was slow for another reason.
                let computes = match gone.cause {
                    Cause::CpuQuota | Cause::Cpu | Cause::SourceDisk => true,
                    // What comes from the disk is digested, however fast that is.
                    Cause::DestinationDisk => reads_there(part.stage),
                    // Nor where only the wait for a CPU is gone.
                    _ => part.is_crowded,
                };
                part.busy = if computes { part.cpu.min(part.busy) } else { 0.0 };
                part.cpu = part.busy;
            }
        }
    }
    let mut needs = of_pools(&pools, evidence);
    needs.extend(of_limits(evidence, Some(gone)).into_iter().filter(|need| need.cause != gone.cause));
    let is_same_cpu = |need: &Need| gone.cause == need.cause && gone.place == need.place;
    needs.extend(cpu::needs(evidence).into_iter().filter(|need| !is_same_cpu(need)));
    match gone.cause {
        // The others are the path.
        Cause::SlowStream | Cause::SlowCard => {
            let seconds = evidence.seconds() / slow::without(evidence);
            needs.push(Need { cause: Cause::Link, seconds, ..*gone })
        }
        _ if gone.place == Where::Path => {}
        _ => needs.extend(path::need_next(evidence)),
    }
    needs.retain(|need| need.seconds > 0.0);
    needs
}

/// Whether a part is slow because of `gone`.
fn is_gone(part: &Part, gone: &Need, evidence: &Evidence) -> bool {
    match gone.cause {
        Cause::CpuQuota => part.place == gone.place || gone.place == Where::Both,
        Cause::Cpu => true,
        Cause::SourceDisk => part.stage == Stage::Read && part.place == Where::Source,
        // Waiting for a disk shows in several places.
        Cause::DestinationDisk | Cause::SlowSync => {
            matches!(part.stage, Stage::Sync | Stage::Record | Stage::Conclude)
                || part.stage == Stage::Write && part.waits()
                || part.stage == Stage::Read && part.place == Where::Destination && part.waits()
                // A sync that is slow however little there is makes no reading slow.
                || gone.cause == Cause::DestinationDisk && reads_there(part.stage) && part.waits()
                || gone.stage == Some(part.stage) && part.place == Where::Destination
        }
        // On one connection, what a slow receiver holds up is no part of the sender's.
        _ => gone.stage == Some(part.stage) && (part.place == gone.place || !evidence.is_linked),
    }
}

fn pools(evidence: &Evidence) -> Vec<Pool> {
    let parts = |side: &SideAccounts, stages: &[Stage], place: Where| -> Vec<Part> {
        stages.iter().map(|&stage| Part::of(side, stage, place)).collect()
    };
    let (sender, receiver) = (&evidence.sender, &evidence.receiver);
    let (sending_threads, receiving_threads) = (evidence.sending_threads(), evidence.receiving_threads());
    let mut pools = Vec::new();
    match (evidence.is_flow, evidence.is_linked) {
        (true, _) => {
            let reading = parts(sender, &FLOW_READING, Where::Source);
            pools.push(Pool { parts: reading, threads: evidence.reading_threads() });
            let sending = parts(sender, &[Stage::Send], Where::Source);
            pools.push(Pool { parts: sending, threads: sending_threads });
            let receiving = parts(receiver, &FLOW_RECEIVING, Where::Destination);
            pools.push(Pool { parts: receiving, threads: receiving_threads });
            pools.push(Pool { parts: parts(receiver, &[Stage::Write], Where::Destination), threads: 1.0 });
        }
        (false, true) => {
            let receiving = parts(receiver, &RECEIVING, Where::Destination);
            pools.push(Pool { parts: receiving, threads: receiving_threads });
            let sending = parts(sender, &SENDING, Where::Source);
            pools.push(Pool { parts: sending, threads: sending_threads });
        }
        (false, false) => {
            // One thread does both.
            let mut both = parts(sender, &SENDING, Where::Source);
            both.extend(parts(receiver, &RECEIVING, Where::Destination));
            pools.push(Pool { parts: both, threads: sending_threads });
        }
    }
    pools.push(Pool { parts: parts(receiver, &ROUNDS, Where::Destination), threads: 1.0 });
    pools.push(Pool { parts: parts(receiver, &[Stage::Finish], Where::Destination), threads: 1.0 });
    pools.push(Pool { parts: parts(sender, &[Stage::Scan], Where::Source), threads: 1.0 });
    pools.push(Pool { parts: parts(receiver, &DECIDING, Where::Destination), threads: 1.0 });
    pools
}

/// Each pool by its largest part. The need is that of the whole pool where the part is most of it: the threads have no
/// time for more.
fn of_pools(pools: &[Pool], evidence: &Evidence) -> Vec<Need> {
    let is_sync_slow = is_sync_slow(evidence);
    let of_pool = |pool: &Pool| {
        let part = pool.parts.iter().max_by(|a, b| a.busy.total_cmp(&b.busy))?;
        let cause = part.cause(is_sync_slow);
        let seconds = pool.seconds().min(evidence.seconds());
        Some(Need { stage: Some(part.stage), place: part.place, cause, seconds, weight: seconds })
    };
    pools.iter().filter_map(of_pool).collect()
}

/// Whether syncs take most of their time however little there is to write: as many as there were, each as long as one
/// with next to nothing to write. That is one of a record, or all of the end's, whichever is less. (Where data are
/// still being written, a record waits for them.)
fn is_sync_slow(evidence: &Evidence) -> bool {
    let row = |stage: Stage| -> StageAccount { evidence.receiver.stage(stage as u8) };
    let (sync, record, conclude) = (row(Stage::Sync), row(Stage::Record), row(Stage::Conclude));
    let at_end = conclude.busy_nanos.saturating_sub(conclude.cpu_nanos);
    let least = record.busy_nanos.checked_div(record.items).map_or(at_end, |one| one.min(at_end));
    let times = sync.items + record.items + conclude.items;
    let all = sync.busy_nanos as f64 + record.busy_nanos as f64 + conclude.busy_nanos as f64;
    least as f64 * times as f64 > all * 0.5
}

/// What holds a transfer back on purpose; with `gone`, if that were infinitely wide.
fn of_limits(evidence: &Evidence, gone: Option<&Need>) -> Vec<Need> {
    let mut needs = Vec::new();
    let seconds = evidence.seconds();
    let sender = &evidence.sender;
    needs.extend(of_rate(evidence, gone));
    needs.extend([Where::Source, Where::Destination].map(|place| of_operator(evidence, place)));
    if evidence.is_flow {
        let read = sender.stage(Stage::Read as u8);
        let waited = (read.input_nanos as f64 / 1e9).min(seconds);
        needs.push(Need {
            stage: Some(Stage::Read),
            place: Where::Source,
            cause: Cause::Producer,
            seconds: waited,
            weight: waited,
        });
    }
    let held_back = sender.stage(Stage::Read as u8).output_nanos as f64 / 1e9 / evidence.reading_threads();
    needs.push(Need {
        stage: None,
        place: Where::Source,
        cause: Cause::Plan,
        seconds: held_back.min(seconds),
        weight: held_back.min(seconds),
    });
    needs
}

/// What the operator of a side lets all that it moves have: by what the threads of that side waited for their
/// share.
fn of_operator(evidence: &Evidence, place: Where) -> Need {
    let seconds = evidence.seconds();
    let (side, threads) = match place {
        Where::Source => (&evidence.sender, evidence.sending_threads()),
        _ => (&evidence.receiver, evidence.receiving_threads()),
    };
    let row = side.stage(Stage::Limit as u8);
    let waited = (row.busy_nanos as f64 / 1e9 / threads).min(seconds);
    let is_felt = waited > seconds * FELT;
    // Where few of the streams have anything to move, the others do not wait for it.
    let by_rate = match &side.limit {
        Some(limit) if is_felt => {
            limited_bytes(evidence, side, Stage::Limit) as f64 / limit.bytes_per_s.max(1) as f64
        }
        _ => 0.0,
    };
    let is_met = waited > seconds * HELD || by_rate > seconds * AT_LIMIT;
    let seconds_needed = by_rate.max(waited).min(seconds);
    let weight = if is_met { seconds * 3.0 } else { waited };
    let (stage, cause) = (Some(Stage::Limit), Cause::OperatorLimit);
    Need { stage, place, cause, seconds: seconds_needed, weight }
}

/// Whether it leaves the threads that send without a CPU.
fn wakes_senders_late(need: &Need) -> bool {
    matches!(need.cause, Cause::CpuQuota | Cause::Cpu) && matches!(need.place, Where::Source | Where::Both)
}

/// A rate that was kept, whether or not one is kept now: by what the threads that send waited for it. A thread that
/// gets no CPU wakes late from such a wait: without that, if that is `gone`, the rate itself says how long it takes.
fn of_rate(evidence: &Evidence, gone: Option<&Need>) -> Option<Need> {
    let seconds = evidence.seconds();
    let sender = &evidence.sender;
    let asked = evidence.rate_bytes_per_s.filter(|&rate| rate > 0);
    let pace = sender.stage(Stage::Pace as u8);
    let waited = (pace.busy_nanos as f64 / 1e9 / evidence.sending_threads()).min(seconds);
    let (seconds_needed, is_met) = match evidence.yields {
        // Who yields waits for others: there the rate itself says whether it was met.
        true => {
            let needed = evidence.bytes as f64 / asked? as f64;
            (needed, needed > seconds * AT_LIMIT)
        }
        // The rate of now is that of before only where it was waited for.
        false => {
            let paced = limited_bytes(evidence, sender, Stage::Pace) as f64;
            let by_rate = asked.map_or(0.0, |rate| paced / rate as f64);
            // Where few of the streams have anything to send, the others do not wait for it.
            let is_reached = by_rate > seconds * AT_LIMIT && waited > seconds * FELT;
            let is_late = by_rate > 0.0 && gone.is_some_and(wakes_senders_late);
            let needed = if is_late { by_rate } else { by_rate.max(waited) };
            (needed, waited > seconds * HELD || is_reached)
        }
    };
    let seconds_needed = seconds_needed.min(seconds);
    let weight = if is_met { seconds * 3.0 } else { seconds_needed.min(waited) };
    let (stage, place, cause) = (Some(Stage::Pace), Where::Source, Cause::RateLimit);
    Some(Need { stage, place, cause, seconds: seconds_needed, weight })
}
