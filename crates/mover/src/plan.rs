//! One decision before a transfer: how many streams, how large chunks and segments. Each with its reason.

use std::fmt;
use std::time::Duration;
use thalweg_wire::limits;

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
}

/// Bytes of a chunk, if nobody says otherwise.
pub const CHUNK_BYTES: u64 = 4 << 20;
/// Bytes of a segment, if nobody says otherwise: LIMITS section 5, flat from 512 KiB to 1 MiB.
pub const SEGMENT_BYTES: u32 = 1 << 20;
/// Files in flight, if nobody says otherwise.
pub const CONCURRENCY: u32 = 256;

/// Plans for a path with this round-trip time (`None`: within this machine) between movers with so many
/// cores.
pub fn plan(asked: &Asked, rtt: Option<Duration>, cores: usize) -> Plan {
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
    let streams_max = (limits::STREAM_BYTES_MAX / (u64::from(segment_bytes.value) + (64 << 10))).max(1) as u16;
    let streams = match streams.value > streams_max && asked.streams.is_none() {
        true => chosen(streams_max, "as many as there is memory for requests of this size"),
        false => streams,
    };
    Plan {
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
        assert_eq!(plan(&none, None, 8).streams.value, 4);
        assert_eq!(plan(&none, Some(Duration::from_micros(200)), 2).streams.value, 2);
        assert_eq!(plan(&none, Some(Duration::from_millis(10)), 2).streams.value, 4);
        assert_eq!(plan(&none, Some(Duration::from_millis(100)), 2).streams.value, 20);
        assert_eq!(plan(&none, Some(Duration::from_millis(300)), 2).streams.value, 32);
        let asked = Asked { streams: Some(3), chunk_bytes: Some(64 << 10), ..Asked::default() };
        let plan = plan(&asked, None, 2);
        assert_eq!((plan.streams.value, plan.chunk_bytes.value, plan.segment_bytes.value), (3, 65536, 65536));
    }
}
