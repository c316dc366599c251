//! One decision before a transfer: how many streams, how large chunks and segments. Each with its reason.

use crate::model::window::whole_bandwidth_delay_product_bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use thalweg_wire::hello::System;
use thalweg_wire::limits;
use thalweg_wire::message::{Direct, Disk, is_congestion_name};

mod disk;

mod sizes;

mod window;

pub use disk::{
    DIRECT_BYTES, DIRECT_READ_BYTES, DIRECT_READ_REQUEST_BYTES, DiskPlan, IO_DEPTH, disk_plan, order_name,
};
pub(crate) use sizes::frame_bytes;
use sizes::{FRAME_MORE_BYTES, chunk, for_frames, segment};
pub use window::{Buffer, Window, window_of_buffers};

/// A value and why it is that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Why, in a few words.
    pub why: String,
}

/// What a plan will go by, before the peer has told what it lets a stream have.
#[derive(Debug, Clone)]
pub struct Foreseen {
    /// What the user insists on.
    pub asked: Asked,
    /// What is known of the path but for its round-trip time and the system of the peer.
    pub path: Path,
}

impl Foreseen {
    /// Streams that it will have over this round trip, as far as that can be told: so many may be begun before. More
    /// than are planned at all are not.
    pub fn streams(&self, rtt: Duration) -> u16 {
        let path = Path { rtt: Some(rtt), ..self.path.clone() };
        plan(&self.asked, &path).streams.value.min(STREAMS_PLANNED_MAX)
    }
}

impl<T: fmt::Display> fmt::Display for Chosen<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.value, self.why)
    }
}

/// What the user insists on. `None`: choose.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// TCP connections.
    pub streams: Option<u16>,
    /// TCP connections at most where [`Asked::streams`] says nothing, and why no more.
    pub streams_most: Option<(u16, &'static str)>,
    /// Bytes of a chunk.
    pub chunk_bytes: Option<u64>,
    /// Files in flight at once.
    pub concurrency: Option<u32>,
    /// Chunks or packs in flight in each stream.
    pub depth: Option<u32>,
    /// Bytes under way in each stream.
    pub window_bytes: Option<u64>,
    /// Bits a second of the whole transfer, at most.
    pub rate_bits_per_s: Option<u64>,
    /// The transfer yields to others.
    pub yields: bool,
    /// Bytes of a segment: the unit of reading and writing.
    pub request_bytes: Option<u32>,
    /// How each side uses its disk.
    pub disk: Disk,
    /// Why this machine has no io_uring, if it has none.
    pub no_io_uring: Option<String>,
    /// Bytes that all buffers of this process may take.
    pub memory_bytes: Option<u64>,
    /// What is sent is packed first, beside what it is made of.
    pub compress: bool,
    /// The same of what this side sends, also where it does not pay: for measurements.
    pub compress_always: bool,
}

/// What is known of the way between two movers.
#[derive(Debug, Clone, Default)]
pub struct Path {
    /// Round-trip time; `None`: within this machine.
    pub rtt: Option<Duration>,
    /// What the machine that sends lets a stream have.
    pub sender: System,
    /// What the machine that receives lets a stream have.
    pub receiver: System,
    /// What earlier transfers on this route did best with.
    pub learned: Option<Learned>,
    /// What trials found best for this way.
    pub tuned: Option<Tuned>,
}

impl Path {
    /// What was learned of this path, as it is now.
    fn learned(&self) -> Option<Learned> {
        self.learned.filter(|learned| learned.holds_at(self.rtt))
    }
}

/// What did best on a route, as a start for the next transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// Streams.
    pub streams: u16,
    /// Content bits a second that they reached.
    pub rate_bits_per_s: u64,
    /// Round-trip time that it was learned at: the same name may be near today and far tomorrow.
    pub rtt: Duration,
}

impl Learned {
    /// Whether it says anything about a path with this round-trip time: windows and streams go by it.
    fn holds_at(&self, rtt: Option<Duration>) -> bool {
        are_alike(self.rtt, rtt)
    }
}

/// Whether what was found at one round-trip time says anything of a path with the other, as it is now.
fn are_alike(found: Duration, now: Option<Duration>) -> bool {
    let [one, other] = [found, now.unwrap_or_default()].map(|rtt| rtt.max(NEAR_RTT));
    one.max(other) <= one.min(other).mul_f64(ROUND_TRIPS_ALIKE)
}

/// What trials before any transfer found best for a way; `None`: no better than what is planned anyway.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// TCP connections.
    pub streams: Option<u16>,
    /// Bytes of a segment: the unit of reading and writing.
    pub request_bytes: Option<u32>,
    /// Bytes of a chunk: the unit of order and repair.
    pub chunk_bytes: Option<u64>,
    /// Disk requests in flight for each stream.
    pub io_depth: Option<u16>,
    /// Past the page cache, at the source.
    pub direct_source: Option<Direct>,
    /// Past the page cache, at the destination.
    pub direct_destination: Option<Direct>,
    /// Files in flight at once.
    pub concurrency: Option<u32>,
    /// Chunks or packs in flight in each stream.
    pub depth: Option<u32>,
    /// Congestion control of data streams.
    pub congestion: Option<String>,
    /// Content bits a second that it reached.
    pub rate_bits_per_s: u64,
    /// Round-trip time that it was found at; `None`: within this machine, or by a version that did not keep it. Left
    /// out then: such a version reads no file that names it, and would begin its history anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Duration>,
}

impl Tuned {
    /// What of it holds on a path with this round-trip time: how a disk is used holds on any, the rest on one like that
    /// which it was found on. The same name may be near today and far tomorrow.
    #[must_use]
    pub fn at(self, rtt: Option<Duration>) -> Tuned {
        match self.rtt {
            Some(found) if !are_alike(found, rtt) => Tuned {
                io_depth: self.io_depth,
                direct_source: self.direct_source,
                direct_destination: self.direct_destination,
                rate_bits_per_s: self.rate_bits_per_s,
                rtt: self.rtt,
                ..Tuned::default()
            },
            _ => self,
        }
    }

    /// Without what no trial can have found: for what was read from a file.
    pub fn within_bounds(self) -> Tuned {
        let is_request = |bytes: &u32| {
            let bytes = u64::from(*bytes);
            bytes.is_power_of_two() && (limits::SEGMENT_BYTES_MIN..=CHUNK_BYTES).contains(&bytes)
        };
        let request_bytes = self.request_bytes.filter(is_request);
        let is_chunk = |bytes: &u64| {
            limits::is_chunk_size(*bytes) && *bytes >= u64::from(request_bytes.unwrap_or(SEGMENT_BYTES))
        };
        Tuned {
            streams: self.streams.filter(|streams| (1..=STREAMS_PLANNED_MAX).contains(streams)),
            request_bytes,
            chunk_bytes: self.chunk_bytes.filter(is_chunk),
            io_depth: self.io_depth.filter(|depth| (1..=limits::IO_DEPTH_MAX).contains(depth)),
            direct_source: self.direct_source,
            direct_destination: self.direct_destination,
            concurrency: self.concurrency.filter(|files| (1..=limits::CONCURRENCY_MAX).contains(files)),
            depth: self.depth.filter(|depth| (1..=limits::DEPTH_MAX).contains(depth)),
            congestion: self.congestion.filter(|name| is_congestion_name(name)),
            rate_bits_per_s: self.rate_bits_per_s,
            rtt: self.rtt,
        }
    }

    /// Without the congestion control, which is not permitted any more; `None` if nothing else was found.
    pub fn without_congestion(self) -> Option<Tuned> {
        let nothing = Tuned { rate_bits_per_s: self.rate_bits_per_s, rtt: self.rtt, ..Tuned::default() };
        let rest = Tuned { congestion: None, ..self };
        (rest != nothing).then_some(rest)
    }

    fn why(&self) -> String {
        format!("trials found it best for this way: {}", show_rate(self.rate_bits_per_s))
    }
}

/// What a transfer goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// TCP connections (the papers' parallelism).
    pub streams: Chosen<u16>,
    /// More streams have no memory, or are not to be.
    pub streams_max: u16,
    /// Unit of order, journal and repair, in bytes.
    pub chunk_bytes: Chosen<u64>,
    /// Unit of reading, sealing and writing, in bytes.
    pub segment_bytes: Chosen<u32>,
    /// Files with chunks in flight at once.
    pub concurrency: Chosen<u32>,
    /// Chunks or packs in flight in each stream (the papers' pipelining); `None`: what the window takes.
    pub depth: Chosen<Option<u32>>,
    /// Bytes under way in each stream, at most; `None`: left to the kernel.
    pub window_bytes: Chosen<Option<u64>>,
    /// What the systems of both ends let one stream have; `None` where that does not matter or nothing is known. It is
    /// not handed on: who plans tells what follows from it.
    #[serde(skip)]
    pub window: Option<Window>,
    /// What the streams shall be enough for: a rate that is known not to be passed, else [`RATE_BITS_PER_S`].
    pub goal_bits_per_s: u64,
    /// The number of streams was asked for.
    pub are_streams_asked: bool,
    /// Bytes that each stream should have room for: its share of the bandwidth-delay product. `None` on a near path.
    pub share_bytes: Option<u64>,
    /// Congestion control that trials found; `None`: what was asked for, or the system's choice.
    pub congestion: Option<Chosen<String>>,
    /// How each side uses its disk, in words.
    pub disk: DiskPlan,
}

impl Plan {
    /// Whether it is for a path with a round trip of [`NEAR_RTT`] or more.
    pub fn is_far(&self) -> bool {
        self.share_bytes.is_some()
    }

    /// What the systems of both ends keep from one stream that is to carry `goal_bits_per_s`, and how to lift it, where
    /// `streams` take work. `None` where they keep nothing from it, or the window that was asked for is narrower.
    pub fn window_advice(&self, goal_bits_per_s: u64, streams: u16) -> Option<String> {
        let is_narrower = |window: &&Window| self.window_bytes.value.is_none_or(|asked| asked > window.bytes);
        let window = self.window.as_ref().filter(is_narrower)?;
        // Streams that were asked for are used for another reason.
        window.advice(goal_bits_per_s, (!self.are_streams_asked).then_some(streams))
    }
}

/// Bytes of a chunk, if nobody says otherwise and the path does not ask for less.
pub const CHUNK_BYTES: u64 = 4 << 20;
/// Bytes of a segment, if nobody says otherwise: where a core has a second-level cache of 1 MiB, twice as many cost 6 %
/// more CPU a byte; where it has 2 MiB, they cost the same (docs/measurements.md, segments).
pub const SEGMENT_BYTES: u32 = 512 << 10;
/// The same on a near path: a disk that is written past the page cache takes 1.3 times as much a second in requests of
/// this size (docs/measurements.md, segments), and a far path is seldom so fast as to notice.
pub const NEAR_SEGMENT_BYTES: u32 = 1 << 20;
/// Files in flight, if nobody says otherwise.
pub const CONCURRENCY: u32 = 256;
/// Rate that streams shall be enough for while nobody knows what the path carries, in bits a second.
pub const RATE_BITS_PER_S: u64 = 10_000_000_000;
/// Most streams that are opened without being asked for: more cost more in CPU and fairness than they were measured to
/// gain (docs/measurements.md, windows far).
pub const STREAMS_PLANNED_MAX: u16 = 32;
/// Fewest on a far path: a loss costs one of them half its rate, not the whole transfer.
pub(crate) const FAR_STREAMS_MIN: u16 = 8;
/// Round trips below this are within one machine or one room.
pub const NEAR_RTT: Duration = Duration::from_millis(1);
/// What was learned at a round-trip time that was so many times this one, or the other way round, is of this path:
/// queues are longer and shorter by the hour.
const ROUND_TRIPS_ALIKE: f64 = 1.5;
/// Of its window a stream uses so much on average, with reno's and cubic's saw teeth (docs/measurements.md, windows
/// far).
const WINDOW_USE: f64 = 0.8;

/// Plans for a path.
pub fn plan(asked: &Asked, path: &Path) -> Plan {
    let cores = near_cores(path);
    let far = path.rtt.filter(|rtt| *rtt >= NEAR_RTT);
    let window = far.and_then(|rtt| Window::of(path, rtt));
    let known_rate = known_rate(asked, path);
    let goal = known_rate.as_ref().map_or(RATE_BITS_PER_S, |(rate, _)| *rate);
    // What trials found was found without a rate to keep.
    let is_bound = asked.rate_bits_per_s.is_some() || asked.yields;
    let tuned = path.tuned.clone().filter(|_| !is_bound).map(|tuned| tuned.at(path.rtt));
    let tuned = tuned.as_ref();
    // On a near path what copies taught says nothing of streams.
    let is_learned = far.is_some() && path.learned().is_some();
    let tuned_streams = tuned.filter(|_| !is_learned).and_then(|tuned| Some((tuned.streams?, tuned.why())));
    let streams = match (asked.streams, tuned_streams, path.rtt, far) {
        (Some(streams), ..) => chosen(streams, "as asked"),
        (None, Some((streams, why)), ..) => chosen(streams, why),
        (None, None, None, _) => chosen(near_streams(cores), "one for each core, at most 4: no path between"),
        (None, None, Some(rtt), None) => chosen(
            near_streams(cores),
            format!("one for each core, at most 4: round trip {} is near", show(rtt)),
        ),
        (None, None, _, Some(rtt)) => far_streams(path, rtt, goal, window.as_ref(), known_rate.as_ref()),
    };
    let most = asked.streams_most.filter(|_| asked.streams.is_none());
    let over = most.filter(|(most, _)| streams.value > *most);
    let streams = over.map_or(streams, |(most, why)| chosen(most, why));
    let chunk_bytes = chunk(asked, tuned, known_rate.as_ref(), streams.value, far.is_some());
    let segment_bytes = segment(asked, tuned, chunk_bytes.value, far.is_some());
    // Frames of all streams have so much memory.
    let frames = if asked.compress { 2 } else { 1 };
    let of_all = limits::STREAM_BYTES_MAX / (frames * (u64::from(segment_bytes.value) + FRAME_MORE_BYTES));
    let of_ours = for_frames(asked).map(|bytes| bytes / frame_bytes(u64::from(segment_bytes.value)));
    let streams_max = u16::try_from(of_all.min(of_ours.unwrap_or(u64::MAX)).max(1)).unwrap_or(u16::MAX);
    // What was asked for is refused by who reads it, if it is too much for everybody; within our own bound it is
    // bounded.
    let is_bound = of_ours.is_some_and(|most| most <= u64::from(streams_max));
    let streams = match streams.value > streams_max && (asked.streams.is_none() || is_bound) {
        true if is_bound => chosen(streams_max, "as many as --memory has room for"),
        true => chosen(streams_max, "as many as there is memory for requests of this size"),
        false => streams,
    };
    let share_bytes =
        far.map(|rtt| whole_bandwidth_delay_product_bytes(goal, rtt) / u64::from(streams.value.max(1)));
    let window_bytes = match (asked.window_bytes, far) {
        (Some(bytes), _) => chosen(Some(bytes), "as asked"),
        (None, Some(_)) => {
            chosen(None, "left to the kernel: the path, or `thalweg limit`, may allow more than now")
        }
        (None, None) => chosen(None, "left to the kernel"),
    };
    Plan {
        // Nor more while it runs.
        streams_max: most.map_or(streams_max, |(most, _)| streams_max.min(most)),
        disk: disk_plan(&asked.disk, tuned, segment_bytes.value, asked.no_io_uring.clone()),
        streams,
        segment_bytes,
        chunk_bytes,
        concurrency: match (asked.concurrency, tuned) {
            (Some(files), _) => chosen(files, "as asked"),
            (None, Some(Tuned { concurrency: Some(files), .. })) => {
                chosen(*files, tuned.map(Tuned::why).unwrap_or_default())
            }
            _ => chosen(CONCURRENCY, "enough to hide each file's own waits"),
        },
        depth: match (asked.depth, tuned.and_then(|tuned| Some((tuned.depth?, tuned.why())))) {
            (Some(tasks), _) => chosen(Some(tasks), "as asked"),
            (None, Some((tasks, why))) => chosen(Some(tasks), why),
            (None, None) => chosen(None, "what the window takes: nothing waits for an answer"),
        },
        window_bytes,
        window,
        goal_bits_per_s: goal,
        are_streams_asked: asked.streams.is_some(),
        share_bytes,
        congestion: tuned.and_then(|tuned| Some(chosen(tuned.congestion.clone()?, tuned.why()))),
    }
}

/// A rate that the transfer will not pass, in bits a second, and how that is known.
fn known_rate(asked: &Asked, path: &Path) -> Option<(u64, String)> {
    let learned = path.learned().map(|learned| {
        (
            learned.rate_bits_per_s,
            format!("{} was the best on this route", show_rate(learned.rate_bits_per_s)),
        )
    });
    let asked = asked.rate_bits_per_s.map(|rate| (rate, format!("{} were asked for", show_rate(rate))));
    [asked, learned].into_iter().flatten().min_by_key(|(rate, _)| *rate)
}

fn far_streams(
    path: &Path,
    rtt: Duration,
    goal: u64,
    window: Option<&Window>,
    known_rate: Option<&(u64, String)>,
) -> Chosen<u16> {
    // Where less was asked for than the route carried, fewer streams are enough.
    if let Some(learned) = path.learned().filter(|learned| learned.rate_bits_per_s == goal) {
        let streams = learned.streams.clamp(1, STREAMS_PLANNED_MAX);
        let rate = show_rate(learned.rate_bits_per_s);
        return chosen(streams, format!("with so many this route carried {rate}"));
    }
    let streams = streams_for_rate(known_rate.map(|(rate, _)| *rate), rtt, window);
    let goal = show_rate(goal);
    let windows = window.map_or("about 8 MiB under way in each".to_owned(), Window::in_words);
    let rtt = show(rtt);
    chosen(streams, format!("round trip {rtt}, {windows}: enough for {goal}, or {STREAMS_PLANNED_MAX}"))
}

/// Streams on a far path for a rate that will not be passed, or for whatever it carries. Nothing is gained by more than
/// carry that rate.
pub(crate) fn streams_for_rate(bits_per_s: Option<u64>, rtt: Duration, window: Option<&Window>) -> u16 {
    let fewest = if bits_per_s.is_some() { 1 } else { FAR_STREAMS_MIN };
    streams_for(bits_per_s.unwrap_or(RATE_BITS_PER_S), rtt, window).clamp(fewest, STREAMS_PLANNED_MAX)
}

/// Streams whose windows hold what is under way at this rate.
fn streams_for(bits_per_s: u64, rtt: Duration, window: Option<&Window>) -> u16 {
    // Without a word from the peer: what default kernels reach (docs/measurements.md, windows far).
    let window_bytes = window.map_or(8 << 20, |window| window.bytes);
    let needed = whole_bandwidth_delay_product_bytes(bits_per_s, rtt) as f64;
    (needed / (WINDOW_USE * window_bytes as f64)).ceil() as u16
}

/// Enough streams for files of so many bytes on average, over a far path: their names take longer than their bytes, and
/// each stream more is another thread that waits for a core.
pub(crate) fn streams_for_files(file_bytes: u64, rtt: Duration, window: Option<&Window>) -> u16 {
    let bits_per_s = FILES_PER_S.saturating_mul(file_bytes).saturating_mul(8).min(RATE_BITS_PER_S);
    streams_for(bits_per_s, rtt, window).clamp(FAR_STREAMS_MIN, STREAMS_PLANNED_MAX)
}

/// Of `files` with `bytes` in all, those that travel in chunks, by their average: none if that is no more than a
/// segment. Only of them a concurrency bounds how many are under way; smaller ones travel in packs.
pub fn files_in_chunks(files: u64, bytes: u64, segment_bytes: u32) -> u64 {
    let is_large = bytes.checked_div(files).is_some_and(|average| average > segment_bytes.into());
    if is_large { files } else { 0 }
}

/// Files that a machine makes in a second, by a bare loop: 47,000 with one thread, 79,000 with two
/// (docs/measurements.md, small files).
const FILES_PER_S: u64 = 60_000;

/// CPUs that both ends have.
fn near_cores(path: &Path) -> usize {
    [path.sender.cores, path.receiver.cores].into_iter().filter(|cores| *cores > 0).min().unwrap_or(1).into()
}

fn near_streams(cores: usize) -> u16 {
    cores.clamp(1, 4) as u16
}

fn chosen<T>(value: T, why: impl Into<String>) -> Chosen<T> {
    Chosen { value, why: why.into() }
}

fn show(rtt: Duration) -> String {
    format!("{:.1} ms", rtt.as_secs_f64() * 1e3)
}

/// A rate in decimal bits a second, for people.
pub fn show_rate(bits_per_s: u64) -> String {
    match bits_per_s {
        rate if rate >= 1_000_000_000 => format!("{:.2} Gbit/s", rate as f64 / 1e9),
        rate if rate >= 1_000_000 => format!("{:.1} Mbit/s", rate as f64 / 1e6),
        rate if rate >= 100 => format!("{:.1} kbit/s", rate as f64 / 1e3),
        rate => format!("{rate} bit/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cores(cores: u16) -> System {
        System { cores, ..System::default() }
    }

    fn path(rtt: Option<Duration>, cores: u16) -> Path {
        Path { rtt, sender: with_cores(cores), receiver: with_cores(cores), ..Path::default() }
    }

    fn streams(rtt: Option<Duration>, cores: u16) -> u16 {
        plan(&Asked::default(), &path(rtt, cores)).streams.value
    }

    #[test]
    fn far_paths_get_more_streams_and_what_is_asked_is_kept() {
        assert_eq!(streams(None, 8), 4);
        assert_eq!(streams(Some(Duration::from_micros(200)), 2), 2);
        assert_eq!(streams(Some(Duration::from_millis(10)), 2), 8);
        assert_eq!(streams(Some(Duration::from_millis(100)), 2), 19);
        assert_eq!(streams(Some(Duration::from_millis(300)), 2), 32);
        let asked = Asked { streams: Some(3), chunk_bytes: Some(64 << 10), ..Asked::default() };
        let plan = plan(&asked, &path(None, 2));
        assert_eq!((plan.streams.value, plan.chunk_bytes.value, plan.segment_bytes.value), (3, 65536, 65536));
    }

    #[test]
    fn what_needs_few_streams_gets_no_more_and_each_has_room_for_its_share() {
        let rtt = Duration::from_millis(300);
        let far = path(Some(rtt), 2);
        let few = Asked { streams_most: Some((8, "few")), ..Asked::default() };
        let with = |streams| plan(&Asked { streams, ..few.clone() }, &far);
        assert_eq!(with(None).streams, chosen(8, "few"));
        assert!(with(None).streams_max == 8 && with(Some(20)).streams_max > 8, "nor more while it runs");
        let share = whole_bandwidth_delay_product_bytes(RATE_BITS_PER_S, rtt) / 8;
        assert_eq!(with(None).share_bytes, Some(share));
        assert_eq!(with(Some(20)).streams, chosen(20, "as asked"));
        let near = plan(&few, &path(None, 2)).streams;
        assert_eq!(near.value, 2, "{near}");
    }

    #[test]
    fn no_more_streams_are_begun_before_the_peer_is_known_than_are_planned_then() {
        let rtt = Duration::from_millis(100);
        let learned = Learned { streams: 4, rate_bits_per_s: 1_000_000_000, rtt };
        let asked = Asked::default();
        for (asked, learned, begun) in [
            (asked.clone(), None, 19),
            (asked.clone(), Some(learned), 4),
            (Asked { streams: Some(3), yields: true, ..asked.clone() }, None, 3),
            (Asked { streams: Some(64), ..asked.clone() }, None, STREAMS_PLANNED_MAX),
            (Asked { streams_most: Some((2, "few")), ..asked.clone() }, None, 2),
            (Asked { rate_bits_per_s: Some(1), ..asked.clone() }, None, 1),
        ] {
            let foreseen = Foreseen { asked: asked.clone(), path: Path { learned, ..Path::default() } };
            assert_eq!(foreseen.streams(rtt), begun, "{asked:?}");
        }
        // Of a peer with windows like ours, narrower and wider ones as many are planned, or more.
        let windows = |kib: u32| System { tcp_wmem_max_kib: kib, tcp_rmem_max_kib: 2 * kib, ..with_cores(2) };
        for (own, begun) in [(64 << 10, FAR_STREAMS_MIN), (8 << 10, 19)] {
            let path = Path { sender: windows(own), ..Path::default() };
            let foreseen = Foreseen { asked: asked.clone(), path: path.clone() };
            assert_eq!(foreseen.streams(rtt), begun, "{own} KiB");
            for far in [System::default(), windows(own), windows(4 << 10), windows(1 << 20)] {
                let planned = plan(&asked, &Path { rtt: Some(rtt), receiver: far, ..path.clone() }).streams;
                assert!(planned.value >= begun, "{own} KiB, {far:?}: {planned}");
            }
        }
        // What trials found at this round trip counts, and at another one not.
        for (at, begun) in [(rtt, 4), (10 * rtt, 19)] {
            let tuned = Some(Tuned { streams: Some(4), rtt: Some(at), ..Tuned::default() });
            let foreseen = Foreseen { asked: asked.clone(), path: Path { tuned, ..Path::default() } };
            assert_eq!(foreseen.streams(rtt), begun, "{at:?}");
        }
    }

    #[test]
    fn small_files_need_no_more_streams_than_their_bytes() {
        let rtt = Duration::from_millis(100);
        // 20 MB under way of 4 KiB each; of 64 KiB the usual rate is the bound, as it is for a large file.
        assert_eq!(streams_for_files(4096, rtt, None), FAR_STREAMS_MIN);
        assert_eq!(streams_for_files(16 << 10, rtt, None), 15);
        assert_eq!(streams_for_files(64 << 10, rtt, None), streams(Some(rtt), 2));
        assert_eq!(streams_for_files(u64::MAX, Duration::MAX, None), STREAMS_PLANNED_MAX);
    }

    #[test]
    fn near_streams_are_no_more_than_the_cores_of_the_poorer_side() {
        let near = Path { receiver: with_cores(1), ..path(Some(Duration::from_micros(200)), 8) };
        assert_eq!(plan(&Asked::default(), &near).streams.value, 1);
    }

    #[test]
    fn what_was_asked_or_learned_of_the_rate_bounds_the_streams_of_that_path_and_no_window() {
        let far = path(Some(Duration::from_millis(100)), 2);
        let asked = Asked { rate_bits_per_s: Some(100_000_000), ..Asked::default() };
        let slow = plan(&asked, &far);
        // One stream holds it; its window is not bounded by it, for the rate may be raised while it runs.
        assert_eq!((slow.streams.value, slow.window_bytes.value), (1, None));
        let rtt = Duration::from_millis(100);
        let learned = Learned { streams: 6, rate_bits_per_s: 960_000_000, rtt };
        let known = plan(&Asked::default(), &Path { learned: Some(learned), ..far.clone() });
        assert_eq!((known.streams.value, known.window_bytes.value), (6, None));
        assert!(known.streams.why.contains("960.0 Mbit/s"), "{}", known.streams.why);
        let less = plan(&asked, &Path { learned: Some(learned), ..far.clone() }).streams;
        assert_eq!(less.value, 1, "{less}");
        assert!(less.why.contains("enough for 100.0 Mbit/s"), "{}", less.why);
        let yields = Asked { yields: true, ..asked.clone() };
        assert_eq!(plan(&yields, &Path { learned: Some(learned), ..far.clone() }).streams.value, 1);
        let more = Asked { rate_bits_per_s: Some(2_000_000_000), ..Asked::default() };
        assert_eq!(plan(&more, &Path { learned: Some(learned), ..far.clone() }).streams.value, 6);
        assert_eq!(plan(&Asked::default(), &far).window_bytes.value, None);
        // Learned while the other end was next door, it says nothing of this path.
        let near = Learned { rtt: Duration::from_micros(200), ..learned };
        let moved = plan(&Asked::default(), &Path { learned: Some(near), ..far.clone() });
        assert_eq!((moved.streams.value, moved.window_bytes.value), (19, None));
    }

    #[test]
    fn a_rate_that_is_above_nothing_is_not_shown_as_nothing() {
        for (rate, shown) in [
            (0, "0 bit/s"),
            (8, "8 bit/s"),
            (99, "99 bit/s"),
            (100, "0.1 kbit/s"),
            (20_000_000, "20.0 Mbit/s"),
            (1_120_000_000, "1.12 Gbit/s"),
        ] {
            assert_eq!(show_rate(rate), shown);
        }
    }

    #[test]
    fn what_trials_found_holds_unless_somebody_asks_for_something_else() {
        let tuned = Tuned {
            streams: Some(6),
            request_bytes: Some(512 << 10),
            chunk_bytes: Some(16 << 20),
            io_depth: Some(16),
            direct_source: Some(Direct::On),
            direct_destination: Some(Direct::Off),
            concurrency: Some(1024),
            depth: Some(8),
            congestion: Some("cubic".into()),
            rate_bits_per_s: 940_000_000,
            rtt: None,
        };
        assert_eq!(tuned.clone().within_bounds(), tuned);
        let odd = Tuned { chunk_bytes: Some(256 << 10), depth: Some(0), ..tuned.clone() };
        let kept = Tuned { chunk_bytes: None, depth: None, ..tuned.clone() };
        assert_eq!(odd.within_bounds(), kept, "a chunk is no smaller than a request");
        let path = Path { tuned: Some(tuned), ..path(None, 2) };
        let known = plan(&Asked::default(), &path);
        assert_eq!((known.streams.value, known.segment_bytes.value), (6, 512 << 10));
        assert_eq!((known.concurrency.value, known.disk.io_depth.value), (1024, 16));
        assert_eq!((known.chunk_bytes.value, known.depth.value), (16 << 20, Some(8)));
        assert_eq!(known.disk.direct.each_ref().map(|direct| direct.value), ["on", "off"]);
        assert!(known.streams.why.contains("trials found it best for this way: 940.0 Mbit/s"));
        let mut disk = Disk::default();
        disk.source.direct = Direct::Off;
        let asked = Asked {
            streams: Some(2),
            request_bytes: Some(1 << 20),
            chunk_bytes: Some(2 << 20),
            depth: Some(3),
            disk,
            ..Asked::default()
        };
        let other = plan(&asked, &path);
        assert_eq!((other.streams.value, other.segment_bytes.value), (2, 1 << 20));
        assert_eq!((other.chunk_bytes.value, other.depth.value), (2 << 20, Some(3)));
        assert_eq!(other.disk.direct.each_ref().map(|direct| direct.value), ["off", "off"]);
        // A rate that is to be kept wants small segments, whatever was found without one.
        let slow = Asked { rate_bits_per_s: Some(8_000_000), ..Asked::default() };
        assert_eq!(plan(&slow, &path).segment_bytes.value, 64 << 10);
    }

    #[test]
    fn what_trials_found_at_another_round_trip_time_is_of_this_path_only_for_the_disks() {
        let rtt = Duration::from_millis;
        let found = Tuned {
            streams: Some(6),
            chunk_bytes: Some(16 << 20),
            depth: Some(8),
            congestion: Some("cubic".into()),
            io_depth: Some(16),
            rate_bits_per_s: 940_000_000,
            rtt: Some(rtt(100)),
            ..Tuned::default()
        };
        assert_eq!(found.clone().within_bounds(), found);
        let at = |tuned: &Tuned, now: Duration| {
            plan(&Asked::default(), &Path { tuned: Some(tuned.clone()), ..path(Some(now), 2) })
        };
        let alike = at(&found, rtt(120));
        assert_eq!((alike.streams.value, alike.chunk_bytes.value, alike.depth.value), (6, 16 << 20, Some(8)));
        for other in [Duration::from_micros(200), rtt(20), rtt(300)] {
            let planned = at(&found, other);
            let untuned = plan(&Asked::default(), &path(Some(other), 2));
            assert_eq!(planned.streams, untuned.streams, "{other:?}");
            assert_eq!(
                (planned.chunk_bytes, planned.depth),
                (untuned.chunk_bytes, untuned.depth),
                "{other:?}"
            );
            assert_eq!((planned.congestion, planned.disk.io_depth.value), (None, 16), "{other:?}");
        }
        // Of what an earlier version left nobody knows where it was found.
        let old: Tuned = serde_json::from_str(r#"{"streams":6,"rate_bits_per_s":940000000}"#).unwrap();
        assert_eq!((old.rtt, at(&old, rtt(300)).streams.value), (None, 6));
        // And it reads what was found since, where there is no round-trip time to keep.
        assert!(!serde_json::to_string(&old).unwrap().contains("rtt"));
        let kept = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Tuned>(&kept).unwrap(), found);
        // A congestion control was all that was found.
        let alone = Tuned { congestion: Some("bbr".into()), rtt: Some(rtt(20)), ..Tuned::default() };
        assert_eq!(alone.without_congestion(), None);
    }

    #[test]
    fn streams_that_trials_found_for_a_near_way_stay_when_copies_have_taught_its_rate() {
        let tuned = Tuned { streams: Some(6), rate_bits_per_s: 940_000_000, ..Tuned::default() };
        let streams_at = |rtt| {
            let learned = Learned { streams: 9, rate_bits_per_s: 960_000_000, rtt };
            let known = Path { tuned: Some(tuned.clone()), learned: Some(learned), ..path(Some(rtt), 2) };
            plan(&Asked::default(), &known).streams
        };
        let near = streams_at(Duration::from_micros(200));
        assert_eq!(near.value, 6);
        assert!(near.why.contains("trials found it best"), "{}", near.why);
        assert_eq!(streams_at(Duration::from_millis(100)).value, 9);
    }

    #[test]
    fn memory_that_is_bounded_bounds_streams_and_then_segments_and_is_named() {
        let far = path(Some(Duration::from_millis(100)), 2);
        let with = |bytes: u64, streams| {
            plan(&Asked { memory_bytes: Some(bytes), streams, ..Asked::default() }, &far)
        };
        // Half of it is for frames of 576 KiB.
        let some = with(9 << 20, None);
        assert_eq!((some.streams.value, some.segment_bytes.value), (8, SEGMENT_BYTES));
        assert!(some.streams.why.contains("--memory"), "{}", some.streams);
        assert_eq!(with(9 << 20, Some(64)).streams.value, 8);
        let little = with(1 << 20, None);
        assert_eq!((little.streams.value, little.segment_bytes.value), (1, 256 << 10));
        assert!(little.segment_bytes.why.contains("--memory"), "{}", little.segment_bytes.why);
        assert_eq!(with(1 << 30, None).streams.value, 19);
    }

    #[test]
    fn what_no_trial_can_have_found_is_forgotten() {
        let odd = Tuned {
            streams: Some(0),
            request_bytes: Some(100_000),
            chunk_bytes: Some(3 << 20),
            io_depth: Some(1000),
            direct_source: None,
            direct_destination: None,
            concurrency: Some(u32::MAX),
            depth: Some(u32::MAX),
            congestion: Some("a b; reboot".into()),
            rate_bits_per_s: 1,
            rtt: None,
        };
        assert_eq!(odd.within_bounds(), Tuned { rate_bits_per_s: 1, ..Tuned::default() });
    }

    #[test]
    fn requests_are_no_larger_than_chunks_and_all_streams_have_memory_for_them() {
        let no_io_uring = Some("EPERM".into());
        let asked = Asked { request_bytes: Some(64 << 20), no_io_uring, ..Asked::default() };
        let far = Path { rtt: Some(Duration::from_millis(300)), ..Path::default() };
        let plan = plan(&asked, &far);
        assert_eq!((plan.segment_bytes.value, plan.chunk_bytes.value), (64 << 20, 64 << 20));
        assert_eq!(plan.streams.value, 15);
        let packed = super::plan(&Asked { compress: true, ..asked }, &far);
        assert_eq!(packed.streams.value, 7);
        assert_eq!(plan.disk.engine.to_string(), "threads (io_uring is not to be had: EPERM)");
    }

    #[test]
    fn a_plan_that_is_handed_on_says_the_same_and_has_no_word_that_none_has() {
        let plan = plan(&Asked::default(), &Path::default());
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
        assert!(serde_json::from_str::<Plan>(&text.replace("\"auto\"", "\"so\"")).is_err());
    }
}
