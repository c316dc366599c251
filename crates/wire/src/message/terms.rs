//! How a transfer is done: what both sides agree on at its beginning, and what may be turned while it runs.

use crate::{DecodeError, limits};
use serde::{Deserialize, Serialize};

/// Knobs that may be turned while a transfer runs; all of them, each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Steer {
    /// Send no more than so many content bytes a second.
    pub rate_bytes_per_s: Option<u64>,
    /// Streams that take work, of those that stand; all of them if nobody says.
    pub streams: Option<u16>,
    /// As [`Terms::concurrency`].
    pub concurrency: Option<u32>,
    /// As [`Terms::depth`].
    pub depth: Option<u32>,
}

/// How far a copy is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub enum VerifyLevel {
    /// Digest checked before each write, write errors fatal, everything synced.
    #[default]
    Written,
    /// As `Written`, then read again from the medium, past the page cache.
    Readback,
    /// As `Readback`, and the source read twice.
    Paranoid,
}

/// How an entry that exists at the destination is recognised as unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Check {
    /// Size, mtime in ns, and what the catalogue remembers of ctime and inode.
    #[default]
    Evidence,
    /// Compare content by digests; only chunks that differ are sent.
    Digest,
    /// Send everything.
    Nothing,
}

/// What besides content is kept. Symbolic links, hard links and holes always are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// Permission bits, and ACLs where attributes are kept. Otherwise what is new has of its entry's bits what the
    /// umask of the side that writes leaves, and what is there keeps its own.
    pub mode: bool,
    /// Numeric owner and group, where permitted. Otherwise what is written belongs to who writes, or to the group that
    /// its directory hands down, and has set-id bits only where those are its entry's owner and group.
    pub owner: bool,
    /// Times of last change, in ns.
    pub times: bool,
    /// Extended attributes; POSIX ACLs where modes are kept too.
    pub xattrs: bool,
    /// FIFOs and device nodes.
    pub devices: bool,
}

impl Preserve {
    /// All of it.
    pub const ALL: Preserve = Preserve { mode: true, owner: true, times: true, xattrs: true, devices: true };
}

impl Default for Preserve {
    /// An archive: all but FIFOs and devices, which are for who asks.
    fn default() -> Self {
        Preserve { devices: false, ..Preserve::ALL }
    }
}

/// How a transfer is done; the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Bytes of a chunk: a power of two, see [`limits`].
    pub chunk_bytes: u64,
    /// Largest payload of a frame before compression: a power of two, at most `chunk_bytes`.
    pub segment_bytes: u32,
    /// How far to check.
    pub verify: VerifyLevel,
    /// How to recognise what is there already.
    pub check: Check,
    /// What to keep.
    pub preserve: Preserve,
    /// Remove what the source does not have: at most this many entries.
    pub delete_max: Option<u64>,
    /// Compress where it pays.
    pub compress: bool,
    /// Send no more than so many content bytes a second.
    pub rate_bytes_per_s: Option<u64>,
    /// Decide and report, change nothing.
    pub dry_run: bool,
    /// Make names of the destination only if they do not exist.
    pub ignore_existing: bool,
    /// Leave an entry alone when the destination's is newer.
    pub update: bool,
    /// Identifies the job across attempts: same sources and destination, same key.
    pub job_key: [u8; 16],
    /// Files with chunks in flight at once, at most; the sender's choice if nobody asked.
    pub concurrency: Option<u32>,
    /// Chunks or packs of one stream that are handed out and not verified, at most; as many as the window takes if
    /// nobody asked.
    pub depth: Option<u32>,
    /// Bytes under way in each stream, for both ends of it; left to the kernel if nobody asked.
    pub window_bytes: Option<u64>,
    /// Congestion control of the streams, for the end that sends; left to the path if nobody asked.
    pub congestion: Option<String>,
    /// How each side uses its disk.
    pub disk: Disk,
    /// Bytes that the end that sends should make room for in each stream, as planned: its share of the bandwidth-delay
    /// product. `None`: left to the kernel.
    pub share_bytes: Option<u64>,
    /// Mark of the packets of both ends, 0..=63 (DSCP, RFC 2474); left to the system if nobody asked.
    pub dscp: Option<u8>,
    /// The scavenger class: the sender yields to others by delay (RFC 6817).
    pub yields: bool,
    /// The sender's files go when they are settled: the receiver leaves alone what may be the source itself,
    /// and makes durable also what stays, whoever wrote it.
    pub removes_source: bool,
    /// Only this part of the entries is sent. At the destination others may be at work on the other parts.
    pub part: Option<PartOf>,
    /// Before a file is sent that the destination lacks, the receiver looks for its content in files of other names.
    pub finds_renames: bool,
}

/// One of the parts that the entries of a source are dealt into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartOf {
    /// Which one, from 1 on.
    pub number: u32,
    /// How many there are: 1 to [`limits::PARTS_MAX`].
    pub count: u32,
}

impl PartOf {
    /// `None` for a part that there is not.
    pub fn new(number: u32, count: u32) -> Option<PartOf> {
        let part = PartOf { number, count };
        part.is_one().then_some(part)
    }

    pub(super) fn check(self) -> Result<(), DecodeError> {
        if self.is_one() { Ok(()) } else { Err(DecodeError::Invalid { what: "part" }) }
    }

    fn is_one(self) -> bool {
        (1..=limits::PARTS_MAX).contains(&self.count) && (1..=self.count).contains(&self.number)
    }
}

/// As a user writes it: `2/4`.
impl std::fmt::Display for PartOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

/// How the two sides use their disks; the default is: as they see fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Disk {
    /// At the source.
    pub source: DiskSide,
    /// At the destination.
    pub destination: DiskSide,
    /// Requests in flight for each stream, at most, see [`limits::IO_DEPTH_MAX`]; the side's choice if nobody asked.
    pub depth: Option<u16>,
    /// Helper threads even where there is an io_uring.
    pub no_io_uring: bool,
}

/// How one side uses its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct DiskSide {
    /// Past the page cache or through it.
    pub direct: Direct,
    /// In which order requests are made; the side's choice if nobody asked.
    pub order: Option<Order>,
}

/// Direct I/O: past the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum Direct {
    /// Where it measured faster: for large files, on file systems that gain by it. What is to be read and is in the
    /// page cache already comes from there.
    #[default]
    Auto,
    /// For every file that goes by segments, where the file system takes it; what is to be read as above.
    On,
    /// Never.
    Off,
}

/// Which chunk next, and when a thread may make its request (004, section II-A.3; `Layout`: 002, section VI-D).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Each thread has its own offsets, dealt round-robin, and waits for nobody.
    Strict,
    /// A request is made when all before it have ended.
    Serial,
    /// A request is made when all before it have been made.
    Loose,
    /// As it comes.
    None,
    /// By the place on the medium, one queue for each device.
    Layout,
}

impl Steer {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        if self.streams.is_some_and(|streams| !(1..=limits::STREAMS_MAX).contains(&streams)) {
            return Err(DecodeError::Invalid { what: "streams" });
        }
        check_in_flight(self.concurrency, self.depth)
    }
}

fn check_in_flight(concurrency: Option<u32>, depth: Option<u32>) -> Result<(), DecodeError> {
    let is_within = |value: Option<u32>, high: u32| value.is_none_or(|value| (1..=high).contains(&value));
    if !is_within(concurrency, limits::CONCURRENCY_MAX) {
        return Err(DecodeError::Invalid { what: "concurrency" });
    }
    if !is_within(depth, limits::DEPTH_MAX) {
        return Err(DecodeError::Invalid { what: "depth" });
    }
    Ok(())
}

/// Whether chunks and segments may have these sizes.
pub(super) fn check_sizes(chunk_bytes: u64, segment_bytes: u32) -> Result<(), DecodeError> {
    if !limits::is_chunk_size(chunk_bytes) {
        return Err(DecodeError::Invalid { what: "chunk size" });
    }
    let segment = u64::from(segment_bytes);
    let segments = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX.min(chunk_bytes);
    if !segment.is_power_of_two() || !segments.contains(&segment) {
        return Err(DecodeError::Invalid { what: "segment size" });
    }
    Ok(())
}

impl Disk {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        match self.depth.is_some_and(|depth| !(1..=limits::IO_DEPTH_MAX).contains(&depth)) {
            true => Err(DecodeError::Invalid { what: "depth of disk requests" }),
            false => Ok(()),
        }
    }
}

impl Terms {
    /// An archive in chunks and segments of these sizes; nothing is deleted, compressed, or held back.
    pub fn of(chunk_bytes: u64, segment_bytes: u32) -> Terms {
        Terms {
            chunk_bytes,
            segment_bytes,
            verify: VerifyLevel::default(),
            check: Check::default(),
            preserve: Preserve::default(),
            delete_max: None,
            compress: false,
            rate_bytes_per_s: None,
            dry_run: false,
            ignore_existing: false,
            update: false,
            job_key: [0; 16],
            concurrency: None,
            depth: None,
            window_bytes: None,
            congestion: None,
            disk: Disk::default(),
            share_bytes: None,
            dscp: None,
            yields: false,
            removes_source: false,
            part: None,
            finds_renames: false,
        }
    }

    pub(super) fn check_knobs(&self) -> Result<(), DecodeError> {
        check_in_flight(self.concurrency, self.depth)?;
        if self.dscp.is_some_and(|dscp| dscp > limits::DSCP_MAX) {
            return Err(DecodeError::Invalid { what: "DSCP" });
        }
        let windows = limits::WINDOW_BYTES_MIN..=limits::WINDOW_BYTES_MAX;
        if self.share_bytes.is_some_and(|bytes| bytes > limits::WINDOW_BYTES_MAX) {
            return Err(DecodeError::Invalid { what: "share" });
        }
        if self.window_bytes.is_some_and(|bytes| !windows.contains(&bytes)) {
            return Err(DecodeError::Invalid { what: "window" });
        }
        if self.congestion.as_deref().is_some_and(|name| !is_congestion_name(name)) {
            return Err(DecodeError::Invalid { what: "congestion control" });
        }
        self.disk.check()?;
        // What a part lacks the other parts have.
        if self.part.is_some_and(|part| !part.is_one() || self.delete_max.is_some()) {
            return Err(DecodeError::Invalid { what: "part" });
        }
        Ok(())
    }
}

/// Whether this can be the name of a congestion control.
pub fn is_congestion_name(name: &str) -> bool {
    (1..=limits::CONGESTION_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
