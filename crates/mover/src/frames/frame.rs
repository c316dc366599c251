//! Frames as programs see them, and what is reported of them.

use super::sets::Missing;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use thalweg_wire::Digest;
use thalweg_wire::message::{ClockOffset, FrameHead, GroupSet, LossReason, LostRange, SetOver};

/// Bytes that several may hold. Cloning copies nothing; whatever owns them goes with the last clone.
#[derive(Clone)]
pub struct Payload(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl Payload {
    /// The bytes of any owner (a vector, a mapped file, a buffer of another language). They must not change.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Payload {
        Payload(Arc::new(owner))
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload::new(bytes)
    }
}

impl Default for Payload {
    fn default() -> Payload {
        Payload::new([])
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        **self == **other
    }
}

/// Its length; the content is the user's.
impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// A frame to be pushed.
#[derive(Debug, Clone, Default)]
pub struct NewFrame {
    /// Set that it belongs to, and its index there (below 2^20). Default: none.
    pub set: Option<(u64, u32)>,
    /// When it was made, in nanoseconds since 1970. Default: when it is pushed.
    pub time_ns: Option<u64>,
    /// Nanoseconds after that in which it should be with its consumers. Default: no deadline.
    pub deadline_ns: Option<u64>,
    /// Type of an element, as NumPy writes it (`<u2`); at most 64 bytes of ASCII. Default: empty.
    pub dtype: String,
    /// Elements along each axis, slowest first; at most 32 axes. Default: none. If there are some, their product must
    /// go into the payload.
    pub shape: Vec<u64>,
    /// Whatever the user adds, at most 32 KiB.
    pub metadata: Vec<u8>,
    /// The data, at most 1 GiB.
    pub payload: Payload,
}

/// A frame that was delivered. Its payload was held against its digest.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Who made it.
    pub producer: String,
    /// Its number among the frames of its producer.
    pub sequence: u64,
    /// Set that it belongs to, and its index there.
    pub set: Option<(u64, u32)>,
    /// When it was made, in nanoseconds since 1970 by its producer's clock.
    pub time_ns: u64,
    /// Nanoseconds after that in which it should have been here.
    pub deadline_ns: Option<u64>,
    /// From made to received, in nanoseconds by the hub's clock; not known without a measured clock.
    pub latency_ns: Option<u64>,
    /// Type of an element.
    pub dtype: String,
    /// Elements along each axis.
    pub shape: Vec<u64>,
    /// What the producer added.
    pub metadata: Vec<u8>,
    /// The data.
    pub payload: Payload,
    /// BLAKE3 of the data.
    pub digest: Digest,
}

impl Frame {
    /// Of a head and its payload.
    pub fn new(head: FrameHead, payload: Payload, latency_ns: Option<u64>) -> Frame {
        Frame {
            producer: head.producer.as_str().to_owned(),
            sequence: head.sequence,
            set: head.set,
            time_ns: head.time_ns,
            deadline_ns: head.deadline_ns,
            latency_ns,
            dtype: head.dtype,
            shape: head.shape,
            metadata: head.metadata,
            payload,
            digest: head.digest,
        }
    }

    /// Whether it came later than its deadline; `None` without a deadline or a measured clock.
    pub fn is_late(&self) -> Option<bool> {
        Some(self.latency_ns? > self.deadline_ns?)
    }
}

/// What a receiver hands out, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivery {
    /// A frame.
    Frame(Frame),
    /// Frames that this consumer does not get: no sequence is missing without such a word.
    Lost(LostRange),
    /// A set is over.
    Set(SetReport),
    /// Nothing follows.
    End(Box<ConsumerReport>),
}

/// How complete a set is, for this consumer; for a member of a group: for all members together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetReport {
    /// Which.
    pub set: u64,
    /// Frames that it should have.
    pub frames: u32,
    /// Frames of it that were delivered here, or to any member of the group.
    pub delivered: u32,
    /// Frames of it that the hub was given: what is missing below this was lost on the way here, and named.
    pub taken: u32,
    /// Indexes that were not delivered, as ranges `(first, end)`; empty for a complete set.
    pub missing: Vec<(u32, u32)>,
}

impl SetReport {
    /// Whether all of it was delivered.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    pub(super) fn new(set: u64, frames: u32, taken: u32, missing: Missing) -> SetReport {
        SetReport { set, frames, delivered: frames - missing.count, taken, missing: missing.ranges }
    }

    /// What a hub says of what a group has.
    pub(super) fn of_group(set: GroupSet) -> SetReport {
        let SetOver { set: number, frames, taken } = set.over;
        SetReport { set: number, frames, delivered: set.delivered, taken, missing: set.missing }
    }
}

/// What a producer did, when the hub has all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerReport {
    /// Its name.
    pub producer: String,
    /// Its next sequence: frames that it made, those of an earlier process under its name too.
    pub frames: u64,
    /// The figures at the end.
    pub figures: SenderFigures,
}

/// What a consumer got.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConsumerReport {
    /// The figures at the end.
    pub figures: ReceiverFigures,
    /// Producers that finished.
    pub producers_finished: u64,
    /// Producers that went away without finishing.
    pub producers_gone: Vec<String>,
}

/// Figures of a sender, so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SenderFigures {
    /// Frames pushed by this process.
    pub frames: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Frames that the hub has not yet, at the level that was asked for.
    pub waiting: u64,
    /// Payload bytes of those, held in memory here.
    pub waiting_bytes: u64,
    /// Frames sent again, after outages or damage.
    pub again: u64,
    /// Nanoseconds for which pushes waited for room.
    pub blocked_ns: u64,
    /// Links lost.
    pub outages: u64,
    /// Our clock against the hub's.
    pub clock: Option<ClockOffset>,
}

/// Figures of a receiver, so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReceiverFigures {
    /// Frames delivered.
    pub frames: u64,
    /// Payload bytes of them.
    pub bytes: u64,
    /// Frames that were named as lost, by reason.
    pub lost: Vec<(LossReason, u64)>,
    /// Sets that were over: complete, and not.
    pub sets: (u64, u64),
    /// Frames that came again and were dropped, after outages.
    pub again: u64,
    /// Frames that came damaged and were asked for again.
    pub damaged: u64,
    /// Frames with a deadline that came later than that.
    pub late: u64,
    /// Frames with a deadline.
    pub with_deadline: u64,
    /// Of those, the ones of which nobody knows whether they were late: without a measured clock, neither kept nor
    /// missed.
    pub deadline_unknown: u64,
    /// From made to received, of the frames that could be measured.
    pub latency: Option<Latency>,
    /// Frames that are not in it: a clock, the producer's when the hub took the frame or ours, was not measured yet.
    pub unmeasured: u64,
    /// Our clock against the hub's.
    pub clock: Option<ClockOffset>,
    /// Links lost.
    pub outages: u64,
}

impl ReceiverFigures {
    /// Frames named as lost, for any reason.
    pub fn lost_frames(&self) -> u64 {
        self.lost.iter().map(|(_, count)| count).sum()
    }
}

/// The tail of latencies, by the hub's clock, from a histogram: each figure is at most 1 % above what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Frames measured; those of [`ReceiverFigures::unmeasured`] are in none of the figures.
    pub count: u64,
    /// Nanoseconds that half of the frames did not exceed.
    pub p50_ns: u64,
    /// 90 of 100.
    pub p90_ns: u64,
    /// 99 of 100.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
    /// Each figure is wrong by at most this: half a round trip for each of both clocks.
    pub bound_ns: u64,
    /// Streaming Speed Score (003 Eq 11): the longest over what a frame of the mean size takes at the rate of the link.
    /// 1 is ideal; `None` where nobody said what the link carries.
    pub speed_score: Option<f64>,
}
