//! How well the path keeps what was asked, measured by ordinary sockets in the first hosts of both sides. Other
//! traffic on the path disturbs it.

use super::daemon::{Request, Status};
use super::registry::{HostRecord, Record, Registry};
use super::spec::Paths;
use super::wire::Path;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};
use thalweg_sys::namespace::NetworkNamespace;
use thalweg_sys::socket;

/// Round trips that are measured.
const ECHOES: usize = 50;

/// Bytes behind the headers of an echo and of a packet that is counted.
const SMALL_BYTES: usize = 32;

/// The same with the headers of IP and UDP.
const SMALL_PACKET_BYTES: u64 = SMALL_BYTES as u64 + 28;

/// Small packets of which the lost ones are counted, at most.
const COUNTED_PACKETS: f64 = 20_000.0;

/// Of these so many a second at most: a slow machine's wire keeps up with them.
const COUNTED_PACKETS_PER_S: f64 = 10_000.0;

/// The counting takes no longer.
const COUNTING_TIME: Duration = Duration::from_secs(4);

/// A packet is late for sure where so many follow it before it comes: threads that send and read wait for each other.
const LATE_BY_PACKETS: f64 = 3.0;

/// Packets of which rare losses are counted, and how many a second. Of a loss of 1e-5 four are hit in each direction.
const RARE_PACKETS: f64 = 400_000.0;
const RARE_PACKETS_PER_S: f64 = 20_000.0;
const RARE_COUNTING_TIME: Duration = Duration::from_secs(30);

/// Round trips from which their spread is computed: as many as fit into the time, between these.
const SPREAD_ECHOES: std::ops::RangeInclusive<u32> = 50..=200;
const SPREAD_TIME: Duration = Duration::from_secs(4);

/// What this machine itself adds to the spread, at most.
const SPREAD_OF_THE_MACHINE_MS: f64 = 0.1;

/// Streams of the measurement of rate, so that the window of one is not the limit.
const STREAMS: Streams = Streams { count: 4, window_bytes: None };

/// The kernel keeps so much beside each byte of a window, at most.
const BUFFER_FOR_WINDOW: usize = 8;

/// A connection is asked for again after 1, 3 and 7 s; what a measurement before left in the path's queue may have
/// dropped it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// The streams may take so many round trips to fill the path, and at least [`WARM_UP_MIN`].
const WARM_UP_RTTS: u32 = 30;
const WARM_UP_MIN: Duration = Duration::from_secs(1);
/// Then they are waited for until so many steps, of a round trip but at least this long, are alike: but for this share, and
/// what one read more or less brings. No longer than the most: a path that loses packets never gets there.
const STEADY_STEPS: usize = 5;
const STEADY_STEP: Duration = Duration::from_millis(100);
const STEADY_SHARE: f64 = 0.05;
const STEADY_BYTES: f64 = 65_536.0;
const STEADY_STEPS_MAX: usize = 30;

/// The measurement of rate proper, unless another time is asked for.
pub const RATE_TIME: Duration = Duration::from_secs(3);

/// What one direction's delay may add to a wait before a packet counts as lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// IP and TCP headers with time stamps, as Linux sends them.
const TCP_HEADER_BYTES: f64 = 52.0;

/// What was found.
#[derive(Debug, Clone, Serialize)]
pub struct Accuracy {
    /// One for each thing measured.
    pub lines: Vec<Line>,
    /// What could not be measured on this path, and why.
    pub not_measured: Vec<String>,
    /// What the wire used meanwhile, in CPU-seconds for each 10^9 bytes carried; of small packets alone it says nothing.
    pub wire_cpu_seconds_per_gb: f64,
}

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// What was measured.
    pub what: String,
    /// What it should be, in [`Line::unit`].
    pub expected: f64,
    /// What it is.
    pub measured: f64,
    /// How far apart they may be.
    pub tolerance: f64,
    /// Of what is counted: so many could have been hit.
    pub draws: Option<u64>,
    /// `ms`, `packets`, `Mbit/s`.
    pub unit: &'static str,
    /// In words: of how many, or why nothing was to be expected.
    pub note: String,
}

impl Line {
    /// Whether it is as it should be.
    pub fn is_within(&self) -> bool {
        (self.measured - self.expected).abs() <= self.tolerance
    }

    /// That none at all would be as it should be too, in words; nothing where that is not so.
    fn too_few(&self) -> Option<String> {
        let is_so = self.draws.is_some() && self.expected > 0.0 && self.tolerance >= self.expected;
        is_so.then(|| {
            format!(
                "{}: whether it is so rare, or never: {:.1} {} are expected, give or take {:.1}; `thalweg bench path` counts \
                 more",
                self.what, self.expected, self.unit, self.tolerance
            )
        })
    }
}

/// A thing that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Round trip time of small packets.
    RoundTrip,
    /// Of small packets those lost, passed by later ones, and twice, in both directions.
    Packets,
    /// The same of twenty times as many, for what is rare: some 20 s for each direction.
    RarePackets,
    /// How far round trip times of small packets are spread, where there is jitter.
    Spread,
    /// Payload of TCP in both directions, where nothing is lost on purpose.
    Rate,
}

/// Measures round trip time, jitter, loss, order, copies and rate.
///
/// # Errors
/// `NotFound` if no such testbed is up; what the kernel says.
pub fn measure(registry: &Registry, name: &str) -> Result<Accuracy> {
    let paths = registry.ask(name, &Request::Status)?.spec.paths;
    measure_parts(registry, name, &parts_of(&paths))
}

/// What there is to measure of these: what is rare among more packets, which takes longer.
fn parts_of(paths: &Paths) -> [Part; 4] {
    let is_rare = |path: &Path| {
        let is_few = |share: f64| share > 0.0 && is_too_few(COUNTED_PACKETS as u64, share);
        let late = if is_passed(path, packets_per_s(path, &RARE)) { path.reorder } else { 0.0 };
        [path.loss, late, path.duplicate].into_iter().any(is_few)
    };
    let packets = match is_rare(&paths.forward) || is_rare(&paths.back) {
        true => Part::RarePackets,
        false => Part::Packets,
    };
    [Part::RoundTrip, Part::Spread, packets, Part::Rate]
}

/// The same of some of these.
///
/// # Errors
/// As [`measure`].
pub fn measure_parts(registry: &Registry, name: &str, parts: &[Part]) -> Result<Accuracy> {
    let record = registry.running(name)?;
    let (left, right) = (End::of(&record, "left")?, End::of(&record, "right")?);
    let before = registry.ask(name, &Request::Status)?;
    let (paths, mtu_bytes) = (&before.spec.paths, before.spec.mtu_bytes);
    let rtt = Duration::from_nanos(paths.rtt_ns());
    let (mut lines, mut not_measured) = (Vec::new(), Vec::new());
    if parts.contains(&Part::RoundTrip) {
        let round_trips = round_trips(&left, &right, rtt, ECHOES)?;
        let median = round_trips[round_trips.len() / 2];
        lines.push(rtt_line(&paths.forward, &paths.back, median));
    }
    if parts.contains(&Part::Spread) && paths.forward.jitter_ns + paths.back.jitter_ns > 0 {
        let echoes = (SPREAD_TIME.as_secs_f64() / rtt.as_secs_f64().max(1e-3)) as u32;
        let echoes = echoes.clamp(*SPREAD_ECHOES.start(), *SPREAD_ECHOES.end());
        let seen = round_trips(&left, &right, rtt, echoes as usize)?;
        lines.push(spread_line(&paths.forward, &paths.back, &seen));
    }
    for (direction, path, from, to) in
        [("forward", &paths.forward, &left, &right), ("back", &paths.back, &right, &left)]
    {
        for load in [COUNTED, RARE].iter().filter(|load| parts.contains(&load.part)) {
            let counted = count(from, to, path, rtt, load)?;
            let of_packets = counted.lines(direction, path);
            not_measured.extend(of_packets.iter().filter_map(Line::too_few));
            not_measured.extend(counted.not_passed(direction, path));
            lines.extend(of_packets);
        }
        match path.rate_bits_per_s.filter(|_| parts.contains(&Part::Rate)) {
            Some(_) if path.loss > 0.0 => not_measured.push(format!(
                "{direction}: rate: where packets are lost, TCP's says more of TCP than of the line; `set --loss 0` first"
            )),
            Some(rate) => {
                let measured = tcp_rate(from, to, rtt, &STREAMS, RATE_TIME)?;
                lines.push(rate_line(direction, rate as f64, path.framing_bytes, mtu_bytes, measured));
            }
            None => {}
        }
    }
    let after = registry.ask(name, &Request::Status)?;
    let cpu_seconds = after.cpu_seconds - before.cpu_seconds;
    let wire_cpu_seconds_per_gb = cpu_seconds / ((carried(&after) - carried(&before)).max(1) as f64 / 1e9);
    lines.push(Line {
        what: "lost by the wire itself".into(),
        expected: 0.0,
        measured: (trouble(&after) - trouble(&before)) as f64,
        tolerance: 0.0,
        draws: None,
        unit: "packets",
        note: "anything but 0: this machine was too slow".into(),
    });
    Ok(Accuracy { lines, not_measured, wire_cpu_seconds_per_gb })
}

/// Payload of one connection from left to right, in bits per second, measured for `time` some round trips after its start.
///
/// # Errors
/// As [`measure`].
pub fn rate_of_one_stream(registry: &Registry, name: &str, time: Duration) -> Result<f64> {
    rate_of_streams(registry, name, &Streams { count: 1, window_bytes: None }, time)
}

/// Connections that are measured together.
#[derive(Debug, Clone, Copy)]
pub struct Streams {
    /// How many, 1 to 1000.
    pub count: u32,
    /// The window of each; the kernel's choice if `None`.
    pub window_bytes: Option<u32>,
}

/// The same of several connections together.
///
/// # Errors
/// As [`measure`].
pub fn rate_of_streams(registry: &Registry, name: &str, streams: &Streams, time: Duration) -> Result<f64> {
    let record = registry.running(name)?;
    // The record says what it was once; the path may have been changed since.
    let status = registry.ask(name, &Request::Status)?;
    let (left, right) = (End::of(&record, "left")?, End::of(&record, "right")?);
    tcp_rate(&left, &right, Duration::from_nanos(status.spec.paths.rtt_ns()), streams, time)
}

fn carried(status: &Status) -> u64 {
    status.forward.counters.bytes + status.back.counters.bytes
}

fn trouble(status: &Status) -> u64 {
    status.forward.trouble + status.back.trouble
}

/// A host that takes part.
pub(super) struct End {
    /// Where it is.
    pub namespace: NetworkNamespace,
    /// Its address.
    pub address: Ipv4Addr,
}

impl End {
    fn of(record: &Record, name: &str) -> Result<End> {
        let host: &HostRecord = record.host(name)?;
        Ok(End { namespace: record.namespace(host.fd)?, address: host.address })
    }

    fn udp(&self) -> Result<UdpSocket> {
        let made = self.namespace.inside(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.set_read_timeout(Some(Duration::from_millis(20)))?;
            // As much as the default if more is not permitted.
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 16 << 20);
            Ok(socket)
        });
        made.map_err(|error| of_io("open a socket in a host", &error))
    }

    fn at(&self, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(self.address, port)
    }
}

fn port(socket: &UdpSocket) -> Result<u16> {
    Ok(socket.local_addr().map_err(|error| of_io("look at a socket", &error))?.port())
}

/// A thread reads what comes until told that no more will.
fn while_reading<T>(
    mut read: impl FnMut() -> io::Result<()> + Send,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Timeouts are how it notices the end.
                let _ = read();
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// Round trip times of so many small packets, at most 256, least first; those of lost ones are missing, but not all.
///
/// # Errors
/// `Connection` if none comes back.
pub(super) fn round_trips(left: &End, right: &End, rtt: Duration, echoes: usize) -> Result<Vec<Duration>> {
    let failed = |error: io::Error| of_io("measure the round trip time", &error);
    let (asks, answers) = (left.udp()?, right.udp()?);
    let to = right.at(port(&answers)?);
    asks.set_read_timeout(Some(rtt + PATIENCE)).map_err(failed)?;
    let ask = || {
        at_once();
        let mut seen = Vec::new();
        for number in 0..echoes {
            let begun = Instant::now();
            let mut bytes = [number as u8; SMALL_BYTES];
            asks.send_to(&bytes, to).map_err(failed)?;
            // A late answer to an earlier one is not this one's.
            while asks.recv(&mut bytes).is_ok() {
                if usize::from(bytes[0]) == number {
                    seen.push(begun.elapsed());
                    break;
                }
            }
        }
        Ok(seen)
    };
    let mut seen = while_reading(
        || {
            at_once();
            let mut bytes = [0; SMALL_BYTES];
            let (length, from) = answers.recv_from(&mut bytes)?;
            answers.send_to(&bytes[..length], from).map(drop)
        },
        || in_a_thread(ask),
    )?;
    seen.sort();
    match seen.is_empty() {
        true => {
            Err(Failure::new(FailureKind::Connection, "measure the round trip time", "no packet came back"))
        }
        false => Ok(seen),
    }
}

/// What is measured is the path, not how long this thread waits for a core.
fn at_once() {
    // Where that is not permitted, a busy machine shows.
    let _ = thalweg_sys::usage::run_before_others();
}

fn in_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let ended = std::thread::scope(|scope| scope.spawn(work).join());
    ended
        .unwrap_or_else(|_| Err(Failure::new(FailureKind::Internal, "measure the path", "a thread panicked")))
}

fn rtt_line(forward: &Path, back: &Path, measured: Duration) -> Line {
    let line_ms = |path: &Path| {
        let bits = (SMALL_PACKET_BYTES + u64::from(path.framing_bytes)) as f64 * 8e3;
        path.rate_bits_per_s.map_or(0.0, |rate| bits / rate as f64)
    };
    let expected = (forward.delay_ns + back.delay_ns) as f64 / 1e6 + line_ms(forward) + line_ms(back);
    let jitter_ms = (forward.jitter_ns + back.jitter_ns) as f64 / 1e6;
    Line {
        what: "round trip time".into(),
        expected,
        measured: measured.as_secs_f64() * 1e3,
        tolerance: (expected * 0.01).max(0.2) + jitter_ms,
        draws: None,
        unit: "ms",
        note: format!("median of {ECHOES}"),
    }
}

/// A delay that is drawn evenly between -j and +j has the variance j^2 / 3 and the fourth cumulant -2 j^4 / 15; one that
/// is l for a share p of packets, and 0 for the others, has p q l^2 and p q l^4 (1 - 6 p q), where q = 1 - p. Those of both
/// directions add up. Of n values whose fourth moment is k times the square of their variance the standard deviation is
/// off by `sqrt((k - 1) / 4n)` of itself (Kendall & Stuart, *The Advanced Theory of Statistics*, 10.9); four times that is
/// the tolerance. k is 2.4 where both jitters are alike, and taken for no less; the rarer late packets are, the greater it
/// is, and the less such a spread tells.
fn spread_line(forward: &Path, back: &Path, seen: &[Duration]) -> Line {
    let (mut expected_variance, mut fourth) = (0.0f64, 0.0f64);
    for path in [forward, back] {
        let (jitter, late_by) = (path.jitter_ns as f64 / 1e6, path.late_by_ns as f64 / 1e6);
        let of_late = path.reorder * (1.0 - path.reorder);
        expected_variance += jitter.powi(2) / 3.0 + of_late * late_by.powi(2);
        fourth += of_late * (1.0 - 6.0 * of_late) * late_by.powi(4) - jitter.powi(4) * 2.0 / 15.0;
    }
    let expected = f64::sqrt(expected_variance);
    let kurtosis = (3.0 + fourth / expected_variance.powi(2)).max(2.4);
    let times: Vec<f64> = seen.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let has_late = forward.reorder.max(back.reorder) > 0.0;
    Line {
        what: "jitter: standard deviation of the round trip time".into(),
        expected,
        measured: variance.sqrt(),
        tolerance: 4.0 * expected * ((kurtosis - 1.0) / (4.0 * count)).sqrt() + SPREAD_OF_THE_MACHINE_MS,
        draws: None,
        unit: "ms",
        note: format!("of {count}{}", if has_late { ", late ones too" } else { "" }),
    }
}

/// How packets are counted.
struct Load {
    part: Part,
    packets: f64,
    per_s: f64,
    time: Duration,
}

const COUNTED: Load =
    Load { part: Part::Packets, packets: COUNTED_PACKETS, per_s: COUNTED_PACKETS_PER_S, time: COUNTING_TIME };

const RARE: Load = Load {
    part: Part::RarePackets,
    packets: RARE_PACKETS,
    per_s: RARE_PACKETS_PER_S,
    time: RARE_COUNTING_TIME,
};

/// What became of small packets.
#[derive(Debug, Default)]
struct Counted {
    sent: u64,
    per_s: f64,
    lost: u64,
    passed_by_later: u64,
    twice: u64,
}

/// How many small packets are sent in a second: half of the line at most, so that its queue drops none.
fn packets_per_s(path: &Path, load: &Load) -> f64 {
    let bits = (SMALL_PACKET_BYTES + u64::from(path.framing_bytes)) as f64 * 8.0;
    path.rate_bits_per_s.map_or(f64::MAX, |rate| rate as f64 / bits / 2.0).min(load.per_s)
}

/// Whether each late one of so many packets a second is passed for sure: at least [`LATE_BY_PACKETS`] follow before it comes.
fn is_passed(path: &Path, per_s: f64) -> bool {
    path.late_by_ns as f64 / 1e9 * per_s >= LATE_BY_PACKETS
}

/// After the last packet, for all to come, late ones too.
fn rest(path: &Path, rtt: Duration) -> Duration {
    let late_by = if path.reorder > 0.0 { Duration::from_nanos(path.late_by_ns) } else { Duration::ZERO };
    rtt + late_by + PATIENCE
}

fn count(from: &End, to: &End, path: &Path, rtt: Duration, load: &Load) -> Result<Counted> {
    let failed = |error: io::Error| of_io("count lost packets", &error);
    let (sends, receives) = (from.udp()?, to.udp()?);
    let target = to.at(port(&receives)?);
    let per_s = packets_per_s(path, load);
    let sent = (per_s * load.time.as_secs_f64()).min(load.packets) as u64;
    let mut times = vec![0u8; sent as usize];
    let (mut highest, mut passed_by_later) = (0, 0);
    while_reading(
        || {
            let mut bytes = [0; SMALL_BYTES];
            receives.recv(&mut bytes)?;
            let number = u64::from_be_bytes(bytes[..8].try_into().unwrap_or_default());
            if let Some(times) = times.get_mut(number as usize) {
                *times = times.saturating_add(1);
                passed_by_later += u64::from(number < highest && *times == 1);
                highest = highest.max(number);
            }
            Ok(())
        },
        || {
            let begun = Instant::now();
            for number in 0..sent {
                let due = Duration::from_secs_f64(number as f64 / per_s);
                // A millisecond's worth at a time: sleeps are no finer.
                if let Some(left) = due.checked_sub(begun.elapsed() + Duration::from_millis(1)) {
                    std::thread::sleep(left);
                }
                let mut bytes = [0; SMALL_BYTES];
                bytes[..8].copy_from_slice(&number.to_be_bytes());
                sends.send_to(&bytes, target).map_err(failed)?;
            }
            std::thread::sleep(rest(path, rtt));
            Ok(())
        },
    )?;
    let lost = times.iter().filter(|times| **times == 0).count() as u64;
    let twice = times.iter().filter(|times| **times > 1).count() as u64;
    Ok(Counted { sent, per_s, lost, passed_by_later, twice })
}

impl Counted {
    fn lines(&self, direction: &str, path: &Path) -> Vec<Line> {
        let line = |what: &str, share: f64, measured: u64| Line {
            what: format!("{direction}: {what}"),
            expected: self.sent as f64 * share,
            measured: measured as f64,
            tolerance: binomial_tolerance(self.sent, share),
            draws: Some(self.sent),
            unit: "packets",
            note: format!("of {}", self.sent),
        };
        let mut lines = vec![line(LOST, path.loss, self.lost)];
        if path.duplicate > 0.0 {
            lines.push(line(TWICE, path.duplicate * (1.0 - path.loss), self.twice));
        }
        if path.reorder > 0.0 && is_passed(path, self.per_s) {
            lines.push(line(LATE, path.reorder * (1.0 - path.loss), self.passed_by_later));
        }
        lines
    }

    /// That late packets may come before the next one, in words; nothing where that is not so.
    fn not_passed(&self, direction: &str, path: &Path) -> Option<String> {
        let is_so = path.reorder > 0.0 && !is_passed(path, self.per_s);
        is_so.then(|| {
            format!(
                "{direction}: {LATE}: packets are late by {:?}, and the next one leaves {:.3} ms later; \
                 `set --late-by {}ms` first",
                Duration::from_nanos(path.late_by_ns),
                1e3 / self.per_s,
                (LATE_BY_PACKETS * 1e3 / self.per_s).ceil()
            )
        })
    }
}

/// What becomes of packets, at the end of [`Line::what`].
pub const LOST: &str = "lost";
/// See [`LOST`].
pub const TWICE: &str = "came twice";
/// See [`LOST`].
pub const LATE: &str = "passed by later ones";

/// Four standard deviations of a binomial distribution: outside of it once in 16,000 times; and one packet, since
/// few hits are not distributed normally.
pub fn binomial_tolerance(draws: u64, share: f64) -> f64 {
    4.0 * (draws as f64 * share * (1.0 - share)).sqrt() + 1.0
}

/// Whether none at all would be within the tolerance of so rare a thing.
fn is_too_few(draws: u64, share: f64) -> bool {
    binomial_tolerance(draws, share) >= draws as f64 * share
}

/// The window of what is accepted here: the kernel's own tuning would make it wider. When the kernel has seen how packets fill
/// their memory it takes the clamp back; who reads sets it again ([`keep_window`]).
fn fix_window(listener: &TcpListener, bytes: u32) -> io::Result<()> {
    socket::set_receive_buffer_force(listener, bytes as usize * BUFFER_FOR_WINDOW)?;
    socket::set_window_clamp(listener, bytes)
}

/// Keeps the window of a connection at what [`fix_window`] gave it.
fn keep_window(connection: &TcpStream, bytes: Option<u32>) {
    if let Some(bytes) = bytes {
        let _ = socket::set_window_clamp(connection, bytes);
    }
}

/// Payload of `streams` together, in bits per second, once they fill the path.
fn tcp_rate(from: &End, to: &End, rtt: Duration, streams: &Streams, time: Duration) -> Result<f64> {
    let failed = |error: io::Error| of_io("measure the rate", &error);
    let listener = to.namespace.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).map_err(failed)?;
    if let Some(bytes) = streams.window_bytes {
        fix_window(&listener, bytes).map_err(failed)?;
    }
    let target = to.at(listener.local_addr().map_err(failed)?.port());
    let mut pairs = Vec::new();
    for _ in 0..streams.count.clamp(1, 1000) {
        let connect = || TcpStream::connect_timeout(&target.into(), rtt * 4 + CONNECT_PATIENCE);
        let sends = from.namespace.inside(connect).map_err(failed)?;
        let (receives, _) = listener.accept().map_err(failed)?;
        // What is not sent when it is over would fill the path for whoever comes next.
        rustix::net::sockopt::set_socket_linger(&sends, Some(Duration::ZERO))
            .map_err(|error| failed(error.into()))?;
        for stream in [&sends, &receives] {
            stream.set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
            stream.set_write_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
        }
        pairs.push((sends, receives));
    }
    let (received, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let rate = std::thread::scope(|scope| {
        for (mut sends, mut receives) in pairs {
            let (received, is_over) = (&received, &is_over);
            scope.spawn(move || {
                let bytes = vec![0; 256 << 10];
                while !is_over.load(Ordering::Relaxed) {
                    let _ = sends.write(&bytes);
                }
            });
            scope.spawn(move || {
                let mut bytes = vec![0; 256 << 10];
                while !is_over.load(Ordering::Relaxed) {
                    keep_window(&receives, streams.window_bytes);
                    if let Ok(length) = receives.read(&mut bytes) {
                        received.fetch_add(length as u64, Ordering::Relaxed);
                    }
                }
            });
        }
        std::thread::sleep((rtt * WARM_UP_RTTS).max(WARM_UP_MIN));
        // What waited behind a packet that slow start lost comes all at once, and would count as carried in that moment.
        let mut steps = Vec::new();
        while steps.len() < STEADY_STEPS_MAX && !is_steady(&steps) {
            let before = received.load(Ordering::Relaxed);
            std::thread::sleep(rtt.max(STEADY_STEP));
            steps.push(received.load(Ordering::Relaxed) - before);
        }
        let (begun, before) = (Instant::now(), received.load(Ordering::Relaxed));
        std::thread::sleep(time);
        let (seconds, after) = (begun.elapsed().as_secs_f64(), received.load(Ordering::Relaxed));
        is_over.store(true, Ordering::Relaxed);
        (after - before) as f64 * 8.0 / seconds
    });
    Ok(rate)
}

/// Whether what came in each of the last steps is alike.
fn is_steady(steps: &[u64]) -> bool {
    let Some(last) = steps.len().checked_sub(STEADY_STEPS).map(|first| &steps[first..]) else { return false };
    let mean = last.iter().sum::<u64>() as f64 / STEADY_STEPS as f64;
    last.iter().all(|bytes| (*bytes as f64 - mean).abs() <= STEADY_SHARE * mean + STEADY_BYTES)
}

fn rate_line(direction: &str, rate: f64, framing_bytes: u32, mtu_bytes: u32, measured: f64) -> Line {
    let mtu_bytes = f64::from(mtu_bytes);
    let expected = rate / 1e6 * (mtu_bytes - TCP_HEADER_BYTES) / (mtu_bytes + f64::from(framing_bytes));
    Line {
        what: format!("{direction}: rate of TCP's payload"),
        expected,
        measured: measured / 1e6,
        tolerance: expected * 0.02,
        draws: None,
        unit: "Mbit/s",
        note: format!("{} streams, {RATE_TIME:?}", STREAMS.count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_of_ethernet_carries_941_megabits_of_tcp() {
        let line = rate_line("forward", 1e9, 38, 1500, 930e6);
        assert!((line.expected - 941.48).abs() < 0.01, "{}", line.expected);
        assert!(line.is_within());
        assert!(!rate_line("forward", 1e9, 38, 1500, 900e6).is_within());
    }

    #[test]
    fn steady_is_what_came_alike_for_some_time_and_not_what_came_all_at_once() {
        let line = 25_000_000;
        assert!(!is_steady(&[line; STEADY_STEPS - 1]));
        assert!(is_steady(&[0, 10 * line, line, line, line, line, line]));
        assert!(!is_steady(&[line, line, line, 4 * line, line]));
        assert!(!is_steady(&[0, line, line, line, line]));
        assert!(is_steady(&[12_000, 0, 24_000, 12_000, 12_000]), "single packets of a slow line");
    }

    #[test]
    fn jitter_is_seen_in_the_spread_of_round_trips_and_its_lack_is_too() {
        let path = Path { jitter_ns: 2_000_000, ..Path::default() };
        // Each of the 200 pairs of steps through both ranges, in ms: what even draws give on average.
        let of = |jitter_us: u64| -> Vec<Duration> {
            let draw =
                |number: u64, steps: u64| 10_000 + 2 * jitter_us * (number % steps) / (steps - 1) - jitter_us;
            (0..200).map(|number| Duration::from_micros(draw(number, 20) + draw(number / 20, 10))).collect()
        };
        let line = spread_line(&path, &path, &of(2_000));
        assert!((line.expected - 2.0 * (2.0f64 / 3.0).sqrt()).abs() < 1e-9, "{line:?}");
        assert!(line.is_within() && line.tolerance < line.expected / 4.0, "{line:?}");
        assert!(!spread_line(&path, &path, &of(0)).is_within());
        assert!(!spread_line(&path, &path, &of(1_000)).is_within(), "half of it");
        assert!(!spread_line(&path, &path, &of(4_000)).is_within(), "twice as much");
    }

    /// 10 ms, jitter of 1 ms, and 1 % that are late by 5 ms: of 200 round trips four, two in each direction.
    #[test]
    fn late_packets_are_part_of_the_spread_that_is_expected() {
        let path = Path { jitter_ns: 1_000_000, reorder: 0.01, late_by_ns: 5_000_000, ..Path::default() };
        let of = |jitter_us: u64, late: u64| -> Vec<Duration> {
            let draw =
                |number: u64, steps: u64| 5_000 + 2 * jitter_us * (number % steps) / (steps - 1) - jitter_us;
            let late_us = |number: u64| if number % 50 == 7 && number / 50 < late { 5_000 } else { 0 };
            let trip = |number: u64| draw(number, 20) + draw(number / 20, 10) + late_us(number);
            (0..200).map(|number| Duration::from_micros(trip(number))).collect()
        };
        let line = spread_line(&path, &path, &of(1_000, 4));
        assert!((line.expected - (2.0f64 / 3.0 + 2.0 * 0.0099 * 25.0).sqrt()).abs() < 1e-9, "{line:?}");
        assert!((line.measured - 1.118).abs() < 0.1 && line.is_within(), "{line:?}");
        assert!(spread_line(&path, &path, &of(1_000, 0)).is_within(), "none of them happened to be late");
        assert!(!spread_line(&path, &path, &of(0, 0)).is_within());
        assert!(!spread_line(&path, &path, &of(3_000, 4)).is_within(), "three times as much");
        // Without late packets it is as near as ever.
        let on_time = Path { reorder: 0.0, ..path };
        assert!(!spread_line(&on_time, &on_time, &of(1_000, 4)).is_within());
    }

    #[test]
    fn what_is_rare_is_counted_among_more_packets_and_jitter_is_measured() {
        let parts = |path: Path| parts_of(&Paths { forward: path, back: Path::default() });
        let lossy = |loss| parts(Path { loss, ..Path::default() });
        assert!(parts(Path::default()).contains(&Part::Spread));
        assert!(lossy(0.0).contains(&Part::Packets) && lossy(1e-2).contains(&Part::Packets));
        assert!(lossy(1e-5).contains(&Part::RarePackets) && lossy(5e-4).contains(&Part::RarePackets));
        assert!(parts(Path { duplicate: 1e-4, ..Path::default() }).contains(&Part::RarePackets));
    }

    #[test]
    fn a_loss_that_cannot_be_told_from_none_is_said_not_to_be_measured() {
        let said = |loss: f64, sent: u64| -> Vec<String> {
            let path = Path { loss, ..Path::default() };
            let counted = Counted { sent, ..Counted::default() };
            counted.lines("forward", &path).iter().filter_map(Line::too_few).collect()
        };
        let told = said(1e-5, RARE_PACKETS as u64);
        assert!(
            told[0].starts_with("forward: lost: ") && told[0].contains("4.0 packets are expected"),
            "{told:?}"
        );
        assert!(said(1e-4, RARE_PACKETS as u64).is_empty(), "40, give or take 26");
        assert!(said(0.0, RARE_PACKETS as u64).is_empty(), "none are asked for");
    }

    #[test]
    fn packets_that_no_later_one_passes_for_sure_are_said_not_to_be_counted() {
        // A line of 1 Mbit/s has one each 1.57 ms, half as many as it carries.
        let slow = Path { rate_bits_per_s: Some(1_000_000), reorder: 0.01, ..Path::default() };
        let per_s = packets_per_s(&slow, &COUNTED);
        assert!((1e3 / per_s - 1.568).abs() < 1e-9, "{per_s}");
        let counted = Counted { sent: 2550, per_s, ..Counted::default() };
        let is_counted =
            |path: &Path| counted.lines("forward", path).iter().any(|line| line.what.ends_with(LATE));
        let told = counted.not_passed("forward", &slow).unwrap();
        assert!(!is_counted(&slow) && told.ends_with("`set --late-by 5ms` first"), "{told}");
        let later = Path { late_by_ns: 5_000_000, ..slow.clone() };
        assert!(is_counted(&later) && counted.not_passed("forward", &later).is_none());
        // More packets are no help there, and are where they are close enough.
        let parts = |path: Path| parts_of(&Paths { forward: path, back: Path::default() });
        assert!(parts(Path { reorder: 1e-4, ..slow }).contains(&Part::Packets));
        assert!(parts(Path { reorder: 1e-4, ..Path::default() }).contains(&Part::RarePackets));
    }

    #[test]
    fn late_packets_are_waited_for() {
        let path = Path { reorder: 0.01, late_by_ns: 2_000_000_000, ..Path::default() };
        let rtt = Duration::from_millis(10);
        assert_eq!(rest(&path, rtt), rtt + PATIENCE + Duration::from_secs(2));
        assert_eq!(rest(&Path { reorder: 0.0, ..path }, rtt), rtt + PATIENCE);
    }

    #[test]
    fn of_rare_losses_enough_packets_are_counted_over_three_runs_to_tell_them_from_none() {
        let draws = 2 * 3 * RARE_PACKETS as u64;
        let expected = draws as f64 * 1e-5;
        assert!(expected > binomial_tolerance(draws, 1e-5), "{expected}");
        assert!(RARE_PACKETS / RARE_PACKETS_PER_S <= RARE_COUNTING_TIME.as_secs_f64());
    }

    #[test]
    fn the_round_trip_has_a_tolerance_of_a_fifth_of_a_millisecond_or_a_hundredth() {
        let path = Path { delay_ns: 50_000_000, ..Path::default() };
        assert_eq!(rtt_line(&path, &path, Duration::from_millis(101)).tolerance, 1.0);
        let path = Path { delay_ns: 140_000, ..path };
        assert_eq!(rtt_line(&path, &path, Duration::ZERO).tolerance, 0.2);
    }
}
