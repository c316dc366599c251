//! One decision before a transfer: how many streams, how large chunks and segments. Each with its reason.

use crate::order;
use std::fmt;
use std::time::Duration;
use thalweg_wire::limits;
use thalweg_wire::message::{Direct, Disk, Order};

/// A value and why it is that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<T> {
    /// The value.
    pub value: T,
    /// Why, in a few words.
    pub why: String,
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
    /// Bytes of a chunk.
    pub chunk_bytes: Option<u64>,
    /// Files in flight at once.
    pub concurrency: Option<u32>,
    /// Chunks or packs in flight in each stream.
    pub depth: Option<u32>,
    /// Bytes of a segment: the unit of reading and writing.
    pub request_bytes: Option<u32>,
}

/// What a transfer goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// TCP connections (the papers' parallelism).
    pub streams: Chosen<u16>,
    /// Unit of order, journal and repair, in bytes.
    pub chunk_bytes: Chosen<u64>,
    /// Unit of reading, sealing and writing, in bytes.
    pub segment_bytes: Chosen<u32>,
    /// Files with chunks in flight at once.
    pub concurrency: Chosen<u32>,
    /// Chunks or packs in flight in each stream (the papers' pipelining); `None`: what the window takes.
    pub depth: Chosen<Option<u32>>,
    /// How each side uses its disk, in words.
    pub disk: DiskPlan,
}

/// How disks are used: what is asked for, or what each side does by itself, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskPlan {
    /// Requests in flight for each stream.
    pub io_depth: Chosen<u16>,
    /// What keeps several requests in flight, at this machine.
    pub engine: Chosen<&'static str>,
    /// Past the page cache, at the source and at the destination.
    pub direct: [Chosen<&'static str>; 2],
    /// Order of requests, at the source and at the destination.
    pub order: [Chosen<&'static str>; 2],
}

/// Disk requests in flight for each stream, if nobody says otherwise: fewer cost a disk that is the narrowest stage, more
/// gain nothing (LIMITS section 3).
pub const IO_DEPTH: u16 = 4;

/// Plans for disks. `no_ring`: why this machine has no io_uring, if it has none.
pub fn disk_plan(asked: &Disk, no_ring: Option<String>) -> DiskPlan {
    let direct = |asked, auto: &str| match asked {
        Direct::Auto => chosen("auto", auto),
        Direct::On => chosen("on", "as asked, where the file system takes it"),
        Direct::Off => chosen("off", "as asked"),
    };
    let ordered = |asked: Option<Order>, default: Order, why: &str| match asked {
        Some(asked) => chosen(order_name(asked), "as asked"),
        None => chosen(order_name(default), why),
    };
    DiskPlan {
        io_depth: match asked.depth {
            Some(depth) => chosen(depth, "as asked"),
            None => chosen(IO_DEPTH, "enough to keep a disk busy"),
        },
        engine: match (asked.no_io_uring, no_ring) {
            (true, _) => chosen("threads", "as asked"),
            (false, None) => chosen("io_uring", "tried: this kernel lets us"),
            (false, Some(why)) => chosen("threads", format!("io_uring is not to be had: {why}")),
        },
        direct: [
            direct(asked.source.direct, "through the page cache, whose reading ahead measured faster"),
            direct(asked.destination.direct, "past the page cache from 16 MiB, on ext4 and XFS"),
        ],
        order: [
            ordered(asked.source.order, order::SOURCE, "each request after the one before it was made"),
            ordered(asked.destination.order, order::DESTINATION, "data arrive mostly in order"),
        ],
    }
}

/// The word for an order.
pub fn order_name(order: Order) -> &'static str {
    match order {
        Order::Strict => "strict",
        Order::Serial => "serial",
        Order::Loose => "loose",
        Order::None => "none",
        Order::Layout => "layout",
    }
}

/// Bytes of a chunk, if nobody says otherwise.
pub const CHUNK_BYTES: u64 = 4 << 20;
/// Bytes of a segment, if nobody says otherwise: LIMITS section 5, flat from 512 KiB to 1 MiB.
pub const SEGMENT_BYTES: u32 = 1 << 20;
/// Files in flight, if nobody says otherwise.
pub const CONCURRENCY: u32 = 256;

/// Plans for a path with this round-trip time (`None`: within this machine) between movers with so many
/// cores.
pub fn plan(asked: &Asked, disk: DiskPlan, rtt: Option<Duration>, cores: usize) -> Plan {
    let streams = match (asked.streams, rtt) {
        (Some(streams), _) => chosen(streams, "as asked"),
        (None, None) => chosen(near_streams(cores), "one for each core, at most 4: no path between"),
        (None, Some(rtt)) if rtt < Duration::from_millis(1) => chosen(
            near_streams(cores),
            format!("one for each core, at most 4: round trip {} is near", show(rtt)),
        ),
        (None, Some(rtt)) => {
            // Default kernels let one stream have about 4 MiB under way (LIMITS section 7): so many of them
            // carry 10 Gbit/s, up to 32.
            let bytes_wanted = 10e9 / 8.0 * rtt.as_secs_f64();
            let streams = (bytes_wanted / (0.8 * 8e6)).ceil().clamp(4.0, 32.0) as u16;
            chosen(
                streams,
                format!("round trip {}, about 8 MB under way in each, enough for 10 Gbit/s or 32", show(rtt)),
            )
        }
    };
    let chunk_bytes = match (asked.chunk_bytes, asked.request_bytes.map(u64::from)) {
        (Some(bytes), _) => chosen(bytes, "as asked"),
        (None, Some(request)) if request > CHUNK_BYTES => chosen(request, "one request"),
        (None, _) => chosen(CHUNK_BYTES, "repairs stay small, bookkeeping rare"),
    };
    let segment_bytes = match asked.request_bytes {
        Some(bytes) => chosen(bytes, "as asked"),
        None => chosen(
            u64::from(SEGMENT_BYTES).min(chunk_bytes.value) as u32,
            "fits the second-level cache; larger gains nothing",
        ),
    };
    // Frames of all streams have so much memory.
    let streams_max =
        (limits::STREAM_BYTES_MAX / (u64::from(segment_bytes.value) + (64 << 10))).max(1) as u16;
    let streams = match streams.value > streams_max && asked.streams.is_none() {
        true => chosen(streams_max, "as many as there is memory for requests of this size"),
        false => streams,
    };
    Plan {
        disk,
        streams,
        segment_bytes,
        chunk_bytes,
        concurrency: match asked.concurrency {
            Some(files) => chosen(files, "as asked"),
            None => chosen(CONCURRENCY, "enough to hide each file's own waits"),
        },
        depth: match asked.depth {
            Some(tasks) => chosen(Some(tasks), "as asked"),
            None => chosen(None, "what the window takes: nothing waits for an answer"),
        },
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_paths_get_more_streams_and_what_is_asked_is_kept() {
        let none = Asked::default();
        let plan = |asked: &Asked, rtt, cores| plan(asked, disk_plan(&Disk::default(), None), rtt, cores);
        assert_eq!(plan(&none, None, 8).streams.value, 4);
        assert_eq!(plan(&none, Some(Duration::from_micros(200)), 2).streams.value, 2);
        assert_eq!(plan(&none, Some(Duration::from_millis(10)), 2).streams.value, 4);
        assert_eq!(plan(&none, Some(Duration::from_millis(100)), 2).streams.value, 20);
        assert_eq!(plan(&none, Some(Duration::from_millis(300)), 2).streams.value, 32);
        let asked = Asked { streams: Some(3), chunk_bytes: Some(64 << 10), ..Asked::default() };
        let plan = plan(&asked, None, 2);
        assert_eq!((plan.streams.value, plan.chunk_bytes.value, plan.segment_bytes.value), (3, 65536, 65536));
    }

    #[test]
    fn requests_are_no_larger_than_chunks_and_all_streams_have_memory_for_them() {
        let asked = Asked { request_bytes: Some(64 << 20), ..Asked::default() };
        let far = Some(Duration::from_millis(300));
        let plan = plan(&asked, disk_plan(&Disk::default(), Some("EPERM".into())), far, 2);
        assert_eq!((plan.segment_bytes.value, plan.chunk_bytes.value), (64 << 20, 64 << 20));
        assert_eq!(plan.streams.value, 15);
        assert_eq!(plan.disk.engine.to_string(), "threads (io_uring is not to be had: EPERM)");
    }
}
