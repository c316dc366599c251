//! What TCP carries: of one stream, or of several together.

use super::Line;
use super::ends::End;
use crate::testbed::daemon::Request;
use crate::testbed::registry::Registry;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Result, of_io};
use thalweg_sys::socket;

/// Streams of the measurement of rate, so that the window of one is not the limit.
pub(super) const STREAMS: Streams = Streams { count: 4, window_bytes: None };
/// The kernel keeps so much beside each byte of a window, at most.
const BUFFER_FOR_WINDOW: usize = 8;
/// A connection is asked for again after 1, 3 and 7 s; what a measurement before left in the path's queue may have
/// dropped it.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// The streams may take so many round trips to fill the path, and at least [`WARM_UP_MIN`].
const WARM_UP_RTTS: u32 = 30;
const WARM_UP_MIN: Duration = Duration::from_secs(1);
/// Then they are waited for until so many steps, of a round trip but at least this long, are alike: but for this share,
/// and what one read more or less brings. No longer than the most: a path that loses packets never gets there.
const STEADY_STEPS: usize = 5;
const STEADY_STEP: Duration = Duration::from_millis(100);
const STEADY_SHARE: f64 = 0.05;
const STEADY_BYTES: f64 = 65_536.0;
const STEADY_STEPS_MAX: usize = 30;
/// The measurement of rate proper, unless another time is asked for.
pub const RATE_TIME: Duration = Duration::from_secs(3);
/// IP and TCP headers with time stamps, as Linux sends them.
const TCP_HEADER_BYTES: f64 = 52.0;

/// Payload of one connection from left to right, in bits per second, measured for `time` some round trips after its
/// start.
///
/// # Errors
/// As [`measure`](super::measure).
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
/// As [`measure`](super::measure).
pub fn rate_of_streams(registry: &Registry, name: &str, streams: &Streams, time: Duration) -> Result<f64> {
    let record = registry.running(name)?;
    // The record says what it was once; the path may have been changed since.
    let status = registry.ask(name, &Request::Status)?;
    let (left, right) = (End::of(&record, "left")?, End::of(&record, "right")?);
    tcp_rate(&left, &right, Duration::from_nanos(status.spec.paths.rtt_ns()), streams, time)
}

/// The window of what is accepted here: the kernel's own tuning would make it wider. When the kernel has seen how
/// packets fill their memory it takes the clamp back; who reads sets it again ([`keep_window`]).
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
pub(super) fn tcp_rate(
    from: &End,
    to: &End,
    rtt: Duration,
    streams: &Streams,
    time: Duration,
) -> Result<f64> {
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
        std::thread::sleep(warm_up(rtt));
        // What waited behind a packet that slow start lost comes all at once, and would count as carried in that
        // moment.
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

/// What streams may take to fill the path.
pub(super) fn warm_up(rtt: Duration) -> Duration {
    (rtt * WARM_UP_RTTS).max(WARM_UP_MIN)
}

/// Whether what came in each of the last steps is alike.
fn is_steady(steps: &[u64]) -> bool {
    let Some(last) = steps.len().checked_sub(STEADY_STEPS).map(|first| &steps[first..]) else { return false };
    let mean = last.iter().sum::<u64>() as f64 / STEADY_STEPS as f64;
    last.iter().all(|bytes| (*bytes as f64 - mean).abs() <= STEADY_SHARE * mean + STEADY_BYTES)
}

pub(super) fn rate_line(
    direction: &str,
    rate: f64,
    framing_bytes: u32,
    mtu_bytes: u32,
    measured: f64,
) -> Line {
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
}
