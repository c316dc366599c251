//! What no file tells and has to be tried or measured. Everything here is bounded in time and in bytes, and leaves
//! nothing.
//!
//! Nothing of it decides anything: what was found is a value that the subjects judge, so that tests can make it up.

use super::path_mtu::{self, PathMtu};
use super::roots::Roots;
use super::{link, queue as packet_queue};
use crate::testbed::netlink;
use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::link::Family;
use thalweg_mover::link::sealed::{SECRET_BYTES, Sealer};
use thalweg_mover::plan::IO_DEPTH;
use thalweg_mover::run::client::{Connect, TcpConnect};
use thalweg_sys::card::{Offload, Pause, Rings, has_offload, pause, rings};
use thalweg_sys::host::ClockState;
use thalweg_sys::namespace::NetworkNamespace;
use thalweg_sys::queue::{Engine, Operation, Queue, Request};
use thalweg_sys::{Buffer, Dir, File, FileSystemKind, Memory, socket};
use thalweg_wire::hello::Cipher;
use thalweg_wire::path::Escaped;
use thalweg_wire::{digest, limits};

/// Bytes of one write and read of a disk.
const DISK_REQUEST_BYTES: usize = 1 << 20;

/// Bytes of the file that a disk is measured with, at most: a quick one goes over it again and again.
const DISK_BYTES_MAX: u64 = 256 << 20;

/// Of the free room at most this part: whoever else writes there meanwhile finds some.
const ROOM_PART: u64 = 4;

/// With fewer bytes a disk says nothing of its rate.
const DISK_BYTES_MIN: u64 = 8 << 20;

/// Where writes end in the page cache, they are synced each so many bytes: else all of them are in it within the time,
/// and the one sync behind takes as long as it takes.
const SYNC_BYTES: u64 = 8 << 20;

/// Bytes of a small read and of a small write that is synced.
const SMALL_BYTES: usize = 4096;

/// Small requests, at most.
const SMALL_REQUESTS_MAX: usize = 100;

/// Requests in flight where several are: those of four streams.
pub const IN_FLIGHT: usize = 4 * IO_DEPTH as usize;

/// Each of the five measurements of a disk takes no longer than this and the request that it ends in.
const DISK_TIME: Duration = Duration::from_secs(1);

/// What was measured for a shorter time says more of the first and the last request than of the disk.
pub const DISK_TIME_MIN: Duration = Duration::from_millis(500);

/// How long a core is measured.
const CORE_TIME: Duration = Duration::from_millis(200);

/// How long a connection to another machine may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Connections that the round trip time is taken from.
const CONNECTIONS: usize = 3;

/// Something tried: it is there, or why not.
pub type Tried<T> = Result<T, String>;

/// What was tried and measured. [`Probes::default`] is nothing.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    /// Cards by name.
    pub cards: BTreeMap<String, Card>,
    /// An `io_uring`, made.
    pub io_uring: Option<Tried<()>>,
    /// A connection handed to the kernel's TLS.
    pub kernel_tls: Option<Tried<()>>,
    /// The clock.
    pub clock: Option<Tried<ClockState>>,
    /// What one core digests and seals, in bytes a second.
    pub core_bytes_per_s: Option<Tried<f64>>,
    /// A network namespace and a socket to netfilter in it, without which there is no testbed. Its packet queues are
    /// not tried: that would have the kernel load modules.
    pub testbed: Option<Tried<()>>,
    /// Paths by name.
    pub disks: BTreeMap<PathBuf, Tried<DiskSpeed>>,
    /// The way to another machine; what went wrong with it begins with its name.
    pub way: Option<Tried<Way>>,
    /// Share of packets that the paths lose, where whoever asks knows it.
    pub loss: Option<f64>,
}

/// What the driver and the kernel say of a card.
#[derive(Debug, Clone)]
pub struct Card {
    /// Its rings.
    pub rings: Tried<Rings>,
    /// Which offloads are on; those that it says nothing of are missing.
    pub offloads: Vec<(Offload, bool)>,
    /// What it does about pause frames.
    pub pause: Tried<Pause>,
    /// Bytes that a packet of it may have at most.
    pub mtu_max_bytes: Tried<u32>,
    /// What its packets wait in.
    pub queue: Tried<packet_queue::Queue>,
}

/// What a disk did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskSpeed {
    /// Written one request after another and synced, in bytes a second.
    pub write_one_bytes_per_s: f64,
    /// The same with [`IN_FLIGHT`] requests in flight.
    pub write_bytes_per_s: f64,
    /// How long that was measured.
    pub write_time: Duration,
    /// Read with [`IN_FLIGHT`] requests in flight, in bytes a second; nothing where the page cache cannot be passed by.
    pub read_bytes_per_s: Option<f64>,
    /// How long that was measured.
    pub read_time: Duration,
    /// Median of small reads at random; likewise.
    pub read_latency: Option<Duration>,
    /// Median of small writes with a sync.
    pub sync_latency: Duration,
}

/// The way to another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// As it was asked for.
    pub to: String,
    /// Round trip time, the least of a few.
    pub rtt: Duration,
    /// Bytes of a packet on it, as far as the kernel knew before any was tried.
    pub mtu_bytes: u32,
    /// Bytes of the largest packet that TCP sends on it, by what both sides told each other.
    pub tcp_packet_bytes: u32,
    /// The largest packet that arrives.
    pub path_mtu: Tried<PathMtu>,
    /// Connections of this machine to there that stand still, their segments sent again and again.
    pub standing_still: usize,
}

impl Probes {
    /// Tries and measures on this machine: some 300 ms, and up to five seconds for each of `paths`. `to`: a port of
    /// another machine, and the family of its addresses if only those of one are dialled; that takes some round trips,
    /// and up to 20 s where packets are lost on the way.
    pub fn take(devices: &[String], paths: &[PathBuf], to: Option<(&str, Option<Family>)>) -> Probes {
        let cards = devices.iter().map(|device| (device.clone(), card(device))).collect();
        Probes {
            cards,
            io_uring: Some(in_words(thalweg_sys::queue::io_uring_is_there())),
            kernel_tls: Some(in_words(kernel_tls())),
            clock: Some(in_words(thalweg_sys::host::clock_state())),
            core_bytes_per_s: Some(core_rate()),
            testbed: Some(in_words(testbed())),
            disks: paths.iter().map(|path| (path.clone(), in_words(disk(path)))).collect(),
            way: to
                .map(|(to, only)| way(to, only).map_err(|why| format!("{}: {why}", Escaped(to.as_bytes())))),
            loss: None,
        }
    }
}

fn in_words<T>(result: io::Result<T>) -> Tried<T> {
    result.map_err(|error| error.to_string())
}

fn card(device: &str) -> Card {
    let offloads = Offload::ALL.iter().filter_map(|&kind| Some((kind, has_offload(device, kind).ok()?)));
    Card {
        rings: in_words(rings(device)),
        offloads: offloads.collect(),
        pause: in_words(pause(device)),
        mtu_max_bytes: in_words(link::mtu_max(device)),
        queue: in_words(packet_queue::of(device)),
    }
}

/// Whether the kernel takes over TLS: tried.
pub fn kernel_tls() -> io::Result<()> {
    use socket::ktls::{self, Lacking};
    ktls::probe(ktls::Cipher::Aes128Gcm).map_err(|lacking| match lacking {
        Lacking::Ktls(error) | Lacking::Cipher(error) => error,
    })
}

/// In a namespace that nobody sees and that ends with the call.
fn testbed() -> io::Result<()> {
    NetworkNamespace::new()?.inside(|| netlink::Socket::open().map(drop))
}

/// What one core digests and seals of bytes in its cache.
fn core_rate() -> Tried<f64> {
    let mut sealer = Sealer::new(Cipher::Aes128Gcm, &[7; SECRET_BYTES], limits::KEY_BYTES_MAX)
        .map_err(|failure| failure.to_string())?;
    let mut bytes = vec![7; 1 << 20];
    let outer = [0; thalweg_wire::frame::OUTER_BYTES];
    let (began, mut done) = (Instant::now(), 0u64);
    while began.elapsed() < CORE_TIME {
        std::hint::black_box(digest::of_piece(0, &bytes, bytes.len() as u64));
        sealer.seal(&outer, &mut bytes).map_err(|failure| failure.to_string())?;
        done += bytes.len() as u64;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

/// What a file system with so many bytes free is measured with: whole requests. Nothing where that is too little.
fn measured_bytes(free: u64) -> Option<u64> {
    let request = DISK_REQUEST_BYTES as u64;
    let bytes = (free / ROOM_PART).min(DISK_BYTES_MAX) / request * request;
    (bytes >= DISK_BYTES_MIN).then_some(bytes)
}

/// Whether there is a disk behind the page cache. A tmpfs takes requests that go past it since Linux 6.6, and has none.
fn has_disk(kind: FileSystemKind) -> bool {
    kind != FileSystemKind::Tmpfs
}

/// In a file that has no name any more before its first byte.
fn disk(path: &Path) -> io::Result<DiskSpeed> {
    const NAME: &[u8] = b".thalweg-doctor";
    let room = rustix::fs::statvfs(path)?;
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    let bytes_max = measured_bytes(free).ok_or_else(|| {
        let why = format!("too little room to measure: {} MiB are free", free >> 20);
        io::Error::new(io::ErrorKind::StorageFull, why)
    })?;
    // What is written over may stay taken for a while: where files are copied on write, or snapshots keep them.
    let written_max = free / ROOM_PART;
    let directory = Dir::open(path)?;
    let _ = directory.remove_file(NAME);
    let file = Arc::new(directory.create_new(NAME, 0o600)?);
    directory.remove_file(NAME)?;
    let is_direct = has_disk(directory.file_system()?.kind) && file.set_direct(true).is_ok();
    let mut buffer = filled()?;

    let mut done = 0u64;
    let began = Instant::now();
    while done < written_max && began.elapsed() < DISK_TIME {
        file.write_all_at(&buffer, done % bytes_max)?;
        done += buffer.len() as u64;
        if !is_direct && done.is_multiple_of(SYNC_BYTES) {
            file.sync_data()?;
        }
    }
    file.sync_data()?;
    let write_one_bytes_per_s = done as f64 / began.elapsed().as_secs_f64();
    let written = done.min(bytes_max);
    let (write_bytes_per_s, write_time) =
        rate_in_flight(&file, Operation::Write, (written, written_max), is_direct)?;

    let sync_latency = median(|_| {
        file.write_all_at(&buffer[..SMALL_BYTES], 0)?;
        file.sync_data()
    })?;
    if !is_direct {
        return Ok(DiskSpeed {
            write_one_bytes_per_s,
            write_bytes_per_s,
            write_time,
            read_bytes_per_s: None,
            read_time: Duration::ZERO,
            read_latency: None,
            sync_latency,
        });
    }
    let (read_bytes_per_s, read_time) =
        rate_in_flight(&file, Operation::Read, (written, u64::MAX), is_direct)?;
    // A machine that stood still for that second has written nothing.
    let blocks = (written / SMALL_BYTES as u64).max(1);
    // A step that has no factor with a power of two visits blocks far from each other, none twice.
    let read_latency = median(|number| {
        let block = (number as u64).wrapping_mul(0x9E37_79B1) % blocks;
        match file.read_at(&mut buffer[..SMALL_BYTES], block * SMALL_BYTES as u64)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    })?;
    Ok(DiskSpeed {
        write_one_bytes_per_s,
        write_bytes_per_s,
        write_time,
        read_bytes_per_s: Some(read_bytes_per_s),
        read_time,
        read_latency: Some(read_latency),
        sync_latency,
    })
}

/// Of the first `bytes` of a file that has as many, again and again until the time is over or `bytes_max` are done,
/// with [`IN_FLIGHT`] requests in flight; what was written is synced. In bytes a second, and how long it took.
fn rate_in_flight(
    file: &Arc<File>,
    operation: Operation,
    (bytes, bytes_max): (u64, u64),
    is_direct: bool,
) -> io::Result<(f64, Duration)> {
    let mut queue =
        Queue::new(Engine::IoUring, IN_FLIGHT).or_else(|_| Queue::new(Engine::Threads, IN_FLIGHT))?;
    let mut idle = (0..IN_FLIGHT).map(|_| filled().map(Memory::Own)).collect::<io::Result<Vec<Memory>>>()?;
    let (began, mut done) = (Instant::now(), 0u64);
    while bytes > 0 && done < bytes_max && began.elapsed() < DISK_TIME {
        if operation == Operation::Write && !is_direct && done > 0 && done.is_multiple_of(SYNC_BYTES) {
            file.sync_data()?;
        }
        let memory = match idle.pop() {
            Some(memory) => memory,
            None => take_back(&mut queue)?,
        };
        let (file, length, offset) = (file.clone(), memory.len(), done % bytes);
        let request = Request { operation, file, memory, start: 0, bytes: length, offset, tag: done };
        queue.push(request).map_err(|(error, _)| error)?;
        done += length as u64;
    }
    while queue.in_flight() > 0 {
        take_back(&mut queue)?;
    }
    if operation == Operation::Write {
        file.sync_data()?;
    }
    let took = began.elapsed();
    Ok((done as f64 / took.as_secs_f64(), took))
}

fn take_back(queue: &mut Queue) -> io::Result<Memory> {
    let done = queue.take(true).ok_or_else(|| io::Error::other("nothing is in flight"))?;
    match done.result? {
        bytes if bytes == done.request.bytes => Ok(done.request.memory),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn filled() -> io::Result<Buffer> {
    let mut buffer = Buffer::new(DISK_REQUEST_BYTES)?;
    fastrand::Rng::with_seed(0).fill(&mut buffer);
    Ok(buffer)
}

/// The median time of a small request.
fn median(mut request: impl FnMut(usize) -> io::Result<()>) -> io::Result<Duration> {
    let mut times = Vec::with_capacity(SMALL_REQUESTS_MAX);
    let began = Instant::now();
    while times.len() < SMALL_REQUESTS_MAX && (times.is_empty() || began.elapsed() < DISK_TIME) {
        let start = Instant::now();
        request(times.len())?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// To the address that a transfer would dial first. The first connection contains that the name is looked up, and which
/// address answers; the others do not. While the last one stands, packets of all sizes are tried beside it.
fn way(to: &str, only: Option<Family>) -> Tried<Way> {
    let connect = TcpConnect::new(vec![to.to_owned()]).only(only);
    let mut rtt = CONNECT_TIME;
    let mut last = None;
    for _ in 0..CONNECTIONS {
        let began = Instant::now();
        let stream = connect.connect(CONNECT_TIME).map_err(|failure| {
            // Where an address was given, the cause begins with it.
            failure.cause.strip_prefix(&format!("{to}: ")).unwrap_or(&failure.cause).to_owned()
        })?;
        rtt = rtt.min(began.elapsed());
        last = Some(stream);
    }
    let stream = TcpStream::from(last.ok_or("nothing was dialled")?);
    let mtu_bytes = in_words(socket::path_mtu(&stream))?;
    let peer = in_words(stream.peer_addr())?;
    let tcp_packet_bytes = path_mtu::tcp_packet_bytes(&in_words(socket::tcp_info(&stream))?, &peer);
    let path_mtu = path_mtu::probe(peer, rtt, mtu_bytes, tcp_packet_bytes);
    let standing_still = path_mtu::standing_still(&Roots::below(Path::new("/")), peer.ip());
    Ok(Way { to: to.to_owned(), rtt, mtu_bytes, tcp_packet_bytes, path_mtu, standing_still })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a name stands for both families, the first of its addresses is of the other one.
    #[test]
    fn the_way_to_a_name_is_that_to_whichever_of_its_addresses_answers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let way = way(&format!("localhost:{port}"), None).unwrap();
        assert!(way.mtu_bytes > 0 && way.tcp_packet_bytes <= way.mtu_bytes, "{way:?}");
        drop(listener);
    }

    /// A file of eight requests, on whatever holds scratch directories: a tmpfs takes the same requests.
    #[test]
    fn a_disk_is_measured_for_as_long_as_it_may_take_however_small_the_file_is() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Dir::open(scratch.path()).unwrap();
        let file = Arc::new(directory.create_new(b"file", 0o600).unwrap());
        file.write_all_at(&vec![7; DISK_BYTES_MIN as usize], 0).unwrap();
        let measured = |operation, bytes_max| {
            rate_in_flight(&file, operation, (DISK_BYTES_MIN, bytes_max), false).unwrap().1
        };
        assert!(measured(Operation::Write, u64::MAX) >= DISK_TIME);
        assert!(measured(Operation::Read, u64::MAX) >= DISK_TIME);
        assert_eq!(std::fs::metadata(scratch.path().join("file")).unwrap().len(), DISK_BYTES_MIN);
    }

    #[test]
    fn memory_is_not_measured_as_a_disk() {
        assert!(!has_disk(FileSystemKind::Tmpfs));
        assert!(has_disk(FileSystemKind::Ext4) && has_disk(FileSystemKind::Other(1)));
    }

    #[test]
    fn a_file_system_is_measured_with_a_quarter_of_its_room_or_not_at_all() {
        const MIB: u64 = 1 << 20;
        assert_eq!(measured_bytes(u64::MAX), Some(DISK_BYTES_MAX));
        assert_eq!(measured_bytes(300 * MIB), Some(75 * MIB));
        assert_eq!(measured_bytes(35 * MIB - 1), Some(8 * MIB), "whole requests");
        assert_eq!(measured_bytes(32 * MIB - 1), None);
        assert_eq!(measured_bytes(0), None);
    }
}
