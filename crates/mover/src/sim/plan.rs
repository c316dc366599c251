//! What one seed means: sizes, limits, speeds, and which faults strike.

use super::random::Random;
use crate::transfer::sender::Hedging;
use crate::transfer::{receiver, sender};
use std::time::Duration;
use thalweg_wire::message::{Check, Order, Preserve, Terms, VerifyLevel};

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One data stream breaks; what was under way may still arrive, very late.
    StreamReset,
    /// One data stream stands still for a while, or for good.
    StreamStall,
    /// All connections are lost, and come back.
    LinkLoss,
    /// kill -9 of the receiving mover.
    ReceiverKill,
    /// The destination machine loses power.
    PowerCut,
    /// kill -9 of the sending mover; the user repeats the command.
    SenderKill,
    /// A source file changes, goes, or becomes unreadable.
    SourceChange,
    /// A bit flips at the sender after the digest was taken.
    DamagedFrame,
    /// A bit flips at the receiver between check and disk (only where a readback is asked for).
    DamagedWrite,
    /// A stored bit of a partial or the journal flips while no process runs.
    Rot,
    /// The destination is full, for a while.
    DiskFull,
    /// Somebody else puts another file, or the same again, where one stands at the destination.
    Stranger,
    /// A sync fails, once; what it should have written is lost and never tried again.
    SyncError,
}

/// All of them.
pub const ALL: [Fault; 13] = [
    Fault::StreamReset,
    Fault::StreamStall,
    Fault::LinkLoss,
    Fault::ReceiverKill,
    Fault::PowerCut,
    Fault::SenderKill,
    Fault::SourceChange,
    Fault::DamagedFrame,
    Fault::DamagedWrite,
    Fault::Rot,
    Fault::DiskFull,
    Fault::SyncError,
    Fault::Stranger,
];

/// Everything that a seed decides before the first event.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Names in the tree, at most.
    pub tree: u64,
    /// Agreed by both sides.
    pub terms: Terms,
    /// Of the sender.
    pub sender: sender::Limits,
    /// Of the receiver.
    pub receiver: receiver::Limits,
    /// Data streams.
    pub streams: u16,
    /// One way.
    pub latency: Duration,
    /// On top, at random.
    pub jitter: Duration,
    /// On the wire, for one KiB.
    pub kib_time: Duration,
    /// Frames that fit between a stream's two ends.
    pub window_frames: usize,
    /// One read of the source.
    pub read_time: Duration,
    /// One write at the destination.
    pub write_time: Duration,
    /// One sync.
    pub sync_time: Duration,
    /// One look at a name.
    pub decide_time: Duration,
    /// Actions of the receiver wait this long before anybody takes them.
    pub lazy: Duration,
    /// A stalled stream is cut after this.
    pub stall_cut: Duration,
    /// What may strike.
    pub faults: Vec<Fault>,
    /// How often in all.
    pub faults_max: u64,
    /// Time between two strikes.
    pub fault_every: Duration,
    /// How often the knobs of the sender are turned while it runs.
    pub steers: u64,
    /// Time between two turns.
    pub steer_every: Duration,
}

impl Plan {
    /// The plan of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0074_6861_6c77_6567);
        let random = &mut random;
        let faults = faults_of(seed % CLASSES);
        let segment_bytes = 1024u32 << random.below(2);
        let readback = faults.contains(&Fault::DamagedWrite) || random.percent(30);
        let terms = Terms {
            verify: if readback { VerifyLevel::Readback } else { VerifyLevel::Written },
            check: if random.percent(40) { Check::Digest } else { Check::Evidence },
            preserve: Preserve::ALL,
            job_key: [7; 16],
            ..Terms::of(u64::from(segment_bytes) << random.below(3), segment_bytes)
        };
        let tiny = random.percent(40);
        let entries = if tiny { random.within(1, 5) as usize } else { random.within(8, 200) as usize };
        let sender = sender_limits(random, (entries, tiny), segment_bytes, faults.is_empty());
        let receiver = receiver::Limits {
            entries: entries + BATCH_MAX,
            entry_bytes: usize::MAX,
            told: 4 * 2048,
            hole_runs: usize::MAX,
            gaps: usize::MAX,
            round_bytes: if tiny { random.within(1, 9000) } else { 1 << 20 },
            round_files: random.pick(&[1, 3, 1000]),
            round_after: Duration::from_millis(random.pick(&[1, 20, 500])),
        };
        let micros = |low, high, random: &mut Random| {
            // Even over magnitudes.
            let steps = 64 - u64::leading_zeros(high / low) as u64;
            Duration::from_micros((low << random.below(steps)) + random.below(low))
        };
        let mut plan = Plan {
            seed,
            tree: random.pick(&[2, 6, 15, 40]),
            terms,
            sender,
            receiver,
            streams: random.within(1, 5) as u16,
            latency: micros(50, 100_000, random),
            jitter: micros(1, 20_000, random),
            kib_time: micros(1, 4_000, random),
            window_frames: random.pick(&[1, 2, 8, 64]),
            read_time: micros(5, 2_000, random),
            write_time: micros(5, 2_000, random),
            sync_time: micros(50, 400_000, random),
            decide_time: micros(5, 5_000, random),
            lazy: if random.percent(30) { micros(10, 20_000, random) } else { Duration::ZERO },
            stall_cut: Duration::from_millis(random.pick(&[500, 5_000])),
            faults_max: if random.percent(80) { random.within(1, 8) } else { random.within(9, 40) },
            fault_every: micros(500, 300_000, random),
            faults,
            steers: 0,
            steer_every: Duration::ZERO,
        };
        plan.terms.disk.source.order = random.pick(&ORDERS);
        if random.percent(40) {
            plan.steers = random.within(1, 12);
            plan.steer_every = micros(500, 300_000, random);
        }
        plan
    }
}

/// What may strike in plans of a class.
fn faults_of(class: u64) -> Vec<Fault> {
    match class {
        0 => Vec::new(),
        1..=13 => vec![ALL[class as usize - 1]],
        14 => vec![Fault::StreamReset, Fault::StreamStall, Fault::LinkLoss, Fault::SourceChange],
        15 => vec![Fault::StreamReset, Fault::LinkLoss, Fault::SourceChange, Fault::Stranger],
        16 => vec![Fault::PowerCut, Fault::ReceiverKill, Fault::LinkLoss, Fault::Rot, Fault::DamagedFrame],
        _ => ALL.to_vec(),
    }
}

/// Of a sender that may offer so many entries, in a `tiny` plan or another.
fn sender_limits(
    random: &mut Random,
    (entries, tiny): (usize, bool),
    segment_bytes: u32,
    is_faultless: bool,
) -> sender::Limits {
    let sender = sender::Limits {
        entries,
        entry_bytes: if random.percent(10) { 1 } else { 1 << 20 },
        concurrency: if tiny { random.within(1, 2) as usize } else { random.within(1, 20) as usize },
        pack_bytes: random.within(1, 4) * u64::from(segment_bytes),
        pack_files: random.within(1, 20) as usize,
        retries: 3,
        repairs: 64,
        // Without faults nothing may be sent twice.
        hedge: Hedging::fixed(Duration::from_millis(if is_faultless {
            600_000
        } else {
            random.pick(&[20, 100, 3000])
        })),
        ..sender::Limits::for_segment(segment_bytes)
    };
    match random.percent(30) {
        true => sender::Limits { depth: random.within(1, 3) as usize, ..sender },
        false => sender,
    }
}

/// Without a layout, which would need disks, that order goes by offset.
const ORDERS: [Option<Order>; 6] = [
    None,
    Some(Order::Strict),
    Some(Order::Serial),
    Some(Order::Loose),
    Some(Order::None),
    Some(Order::Layout),
];

/// Kinds of plans, by which faults they have.
pub const CLASSES: u64 = 18;

/// Entries that the scan hands over at once, at most.
pub const BATCH_MAX: usize = 3;
