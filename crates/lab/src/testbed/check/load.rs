//! What a path does for those who do not send all the time: bursts with rests between, and small packets beside
//! streams.

use super::ends::End;
use super::rate::{Streams, tcp_rate, warm_up};
use super::round_trip::{ECHOES, round_trips};
use crate::testbed::daemon::Request;
use crate::testbed::registry::Registry;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};

/// Bursts that one connection sends. The first one does not count: each connection begins slowly.
const BURSTS: usize = 4;

/// Some retransmission timeouts (a round trip and at least 200 ms each): the kernel halves the window for each one that
/// a connection rests.
const REST_RTTS: u32 = 8;
const REST_MIN: Duration = Duration::from_secs(2);

/// A connection is asked for again after 1, 3 and 7 s.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// A burst may take so long before it counts as never come.
const BURST_WAIT: Duration = Duration::from_secs(60);

/// Bytes of one write and read.
const REQUEST_BYTES: usize = 64 << 10;

/// Payload of one connection from left to right that sends bursts of so many bytes, with rests between, in bits per
/// second of the median burst: from when its first byte is handed to the kernel to when its last one has come.
///
/// # Errors
/// As [`measure`](super::measure); `Connection` if a burst has not come after a minute.
pub fn rate_of_bursts(registry: &Registry, name: &str, burst_bytes: u64) -> Result<f64> {
    let (left, right, rtt) = ends(registry, name)?;
    let failed = |error: io::Error| of_io("measure the rate of bursts", &error);
    let listener =
        right.namespace.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).map_err(failed)?;
    let target = right.at(listener.local_addr().map_err(failed)?.port());
    let connect = || TcpStream::connect_timeout(&target.into(), rtt * 4 + CONNECT_PATIENCE);
    let sends = left.namespace.inside(connect).map_err(failed)?;
    let (mut receives, _) = listener.accept().map_err(failed)?;
    sends.set_write_timeout(Some(BURST_WAIT)).map_err(failed)?;
    receives.set_read_timeout(Some(BURST_WAIT)).map_err(failed)?;
    // A burst that is given up is not to go on coming: who receives it would be waited for.
    rustix::net::sockopt::set_socket_linger(&sends, Some(Duration::ZERO))
        .map_err(|error| failed(error.into()))?;
    let (told, hears) = mpsc::channel();
    let mut rates = std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..BURSTS {
                let came = receive(&mut receives, burst_bytes).map(|()| Instant::now());
                let is_over = came.is_err();
                if told.send(came).is_err() || is_over {
                    break;
                }
            }
        });
        let (mut sends, mut rates) = (sends, Vec::new());
        for number in 0..BURSTS {
            let begun = Instant::now();
            send(&mut sends, burst_bytes, begun + BURST_WAIT).map_err(failed)?;
            let came = hears.recv_timeout(BURST_WAIT).map_err(|_| {
                let cause = format!("a burst had not come after {} s", BURST_WAIT.as_secs());
                Failure::new(FailureKind::Connection, "measure the rate of bursts", cause)
            })?;
            let took = came.map_err(failed)?.saturating_duration_since(begun);
            if number > 0 {
                rates.push(burst_bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9));
            }
            if number + 1 < BURSTS {
                std::thread::sleep((rtt * REST_RTTS).max(REST_MIN));
            }
        }
        Ok::<Vec<f64>, Failure>(rates)
    })?;
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

fn send(stream: &mut TcpStream, bytes: u64, until: Instant) -> io::Result<()> {
    let request = [0; REQUEST_BYTES];
    let mut left = bytes;
    while left > 0 {
        if Instant::now() > until {
            let why = format!("a burst was not sent after {} s", BURST_WAIT.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        let length = left.min(REQUEST_BYTES as u64);
        stream.write_all(&request[..length as usize])?;
        left -= length;
    }
    Ok(())
}

fn receive(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let mut request = [0; REQUEST_BYTES];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(REQUEST_BYTES as u64);
        stream.read_exact(&mut request[..length as usize])?;
        left -= length;
    }
    Ok(())
}

/// What small packets meet while connections from left to right send all that they can: payload of these together, in
/// bits per second, and the median round trip of those.
///
/// # Errors
/// As [`measure`](super::measure).
pub fn round_trip_beside(registry: &Registry, name: &str, streams: &Streams) -> Result<(f64, Duration)> {
    let (left, right, rtt) = ends(registry, name)?;
    // A packet that waits in a queue takes longer than one that does not, and all of them go beside streams.
    let time = (rtt * 3 * ECHOES as u32).max(super::RATE_TIME);
    std::thread::scope(|scope| {
        let load = scope.spawn(|| tcp_rate(&left, &right, rtt, streams, time));
        std::thread::sleep(warm_up(rtt));
        let seen = round_trips(&left, &right, rtt, ECHOES);
        let panicked =
            |_| Err(Failure::new(FailureKind::Internal, "measure the path under load", "a thread panicked"));
        let rate = load.join().unwrap_or_else(panicked)?;
        let seen = seen?;
        Ok((rate, seen[seen.len() / 2]))
    })
}

/// The first hosts of both sides, and the round trip time between them.
fn ends(registry: &Registry, name: &str) -> Result<(End, End, Duration)> {
    let record = registry.running(name)?;
    // The record says what it was once; the path may have been changed since.
    let status = registry.ask(name, &Request::Status)?;
    let rtt = Duration::from_nanos(status.spec.paths.rtt_ns());
    Ok((End::of(&record, "left")?, End::of(&record, "right")?, rtt))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_comes_whole_whatever_its_size() {
        for bytes in [1, REQUEST_BYTES as u64, 3 * REQUEST_BYTES as u64 + 7] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut sends = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut receives, _) = listener.accept().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| send(&mut sends, bytes, Instant::now() + BURST_WAIT).unwrap());
                receive(&mut receives, bytes).unwrap();
            });
            drop(sends);
            assert_eq!(receives.read(&mut [0; 1]).unwrap(), 0, "{bytes}: nothing is left");
        }
    }
}
