//! Traffic of TCP without a program around it, from one host to another: what iperf3 would do, started to the
//! millisecond.

use super::network::{Host, Testbed};
use super::stopped;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Result, of_io};
use thalweg_sys::namespace::NetworkNamespace;

/// Without a byte for so long, a stream has failed.
const SILENCE: Duration = Duration::from_secs(60);

/// How often who waits looks whether it should go on.
const POLL: Duration = Duration::from_millis(20);

/// What is written at once.
const BLOCK_BYTES: usize = 128 << 10;

/// Clients in one host that send to a server in another.
pub struct Clients {
    /// When each begins, the earlier ones first.
    pub starts: Vec<Duration>,
    /// What each sends.
    pub bytes: u64,
    /// Over so many streams, evenly.
    pub streams: u32,
}

impl Clients {
    /// Lets them send; seconds from each one's start until its last byte had been read and that was known.
    ///
    /// # Errors
    /// If a stream fails or falls silent; `Stopped`.
    pub fn run(&self, testbed: &Testbed, stop: &AtomicBool) -> Result<Vec<f64>> {
        let failed = |error: io::Error| of_io("send over an emulated path", &error);
        let (here, there) = (testbed.namespace(&testbed.left)?, testbed.namespace(&testbed.right)?);
        let listener = there.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let target = SocketAddrV4::new(of(&testbed.right), listener.local_addr().map_err(failed)?.port());
        let is_over = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            let serving = thread(scope, || serve(&listener, &is_over))?;
            let times = each_when_due(&self.starts, stop, |at| self.one(&here, target, at));
            is_over.store(true, Ordering::Relaxed);
            let served = join(serving.join());
            times.and_then(|times| served.map(|()| times))
        });
        match stop.load(Ordering::Relaxed) {
            true => Err(stopped()),
            false => times.map_err(failed),
        }
    }

    fn one(&self, here: &NetworkNamespace, target: SocketAddrV4, at: Instant) -> io::Result<f64> {
        let share = self.bytes / u64::from(self.streams);
        std::thread::scope(|scope| {
            let streams = (0..self.streams)
                .map(|stream| {
                    let rest = if stream == 0 { self.bytes % u64::from(self.streams) } else { 0 };
                    thread(scope, move || send(here, target, share + rest))
                })
                .collect::<io::Result<Vec<_>>>()?;
            streams.into_iter().try_for_each(|stream| join(stream.join()))
        })?;
        Ok(at.elapsed().as_secs_f64())
    }
}

/// Does the work at each of these times from now on, in a thread of its own: what each gave, in order. None of them is
/// there before it is due, nor after it has ended: there may be thousands. Of those that were not due when it was to
/// stop, nothing.
fn each_when_due(
    starts: &[Duration],
    stop: &AtomicBool,
    work: impl Fn(Instant) -> io::Result<f64> + Sync,
) -> io::Result<Vec<f64>> {
    let (begun, work) = (Instant::now(), &work);
    std::thread::scope(|scope| {
        let mut running: VecDeque<ScopedJoinHandle<'_, io::Result<f64>>> = VecDeque::new();
        let mut done = Vec::with_capacity(starts.len());
        for at in starts.iter().map(|start| begun + *start) {
            if !is_reached(at, stop) {
                break;
            }
            while running.front().is_some_and(ScopedJoinHandle::is_finished) {
                done.extend(running.pop_front().map(|ended| join(ended.join())).transpose()?);
            }
            running.push_back(thread(scope, move || work(at))?);
        }
        for last in running {
            done.push(join(last.join())?);
        }
        Ok(done)
    })
}

/// Whether it is that time; not where it is to stop before.
fn is_reached(at: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(POLL));
    }
    false
}

/// Where there are no more threads to be had, that is an error and no panic.
fn thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    std::thread::Builder::new().spawn_scoped(scope, work)
}

fn of(host: &Host) -> Ipv4Addr {
    host.address
}

fn join<T>(joined: std::thread::Result<io::Result<T>>) -> io::Result<T> {
    joined.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

fn send(here: &NetworkNamespace, target: SocketAddrV4, bytes: u64) -> io::Result<()> {
    let mut stream = here.inside(|| TcpStream::connect_timeout(&target.into(), SILENCE))?;
    set_patience(&stream)?;
    let block = [7; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let now = left.min(BLOCK_BYTES as u64) as usize;
        stream.write_all(&block[..now])?;
        left -= now as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    // One byte, when all was read.
    stream.read_exact(&mut [0])
}

fn serve(listener: &TcpListener, is_over: &AtomicBool) -> io::Result<()> {
    std::thread::scope(|scope| {
        let mut streams = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => streams.push(thread(scope, move || take(stream))?),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_micros(500));
                }
                Err(error) => return Err(error),
            }
        }
        streams.into_iter().try_for_each(|stream| join(stream.join()))
    })
}

fn take(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    set_patience(&stream)?;
    let mut block = vec![0; BLOCK_BYTES];
    while stream.read(&mut block)? > 0 {}
    stream.write_all(&[1])
}

fn set_patience(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_begins_when_it_is_due_and_who_is_not_due_before_the_stop_does_not() {
        let (stop, begun) = (AtomicBool::new(false), AtomicUsize::new(0));
        let hour = Duration::from_secs(3600);
        let starts = [Duration::ZERO, Duration::ZERO, Duration::from_millis(30), hour];
        let first = Instant::now();
        let found = each_when_due(&starts, &stop, |at| {
            assert!(Instant::now() >= at);
            if begun.fetch_add(1, Ordering::Relaxed) == 2 {
                stop.store(true, Ordering::Relaxed);
            }
            Ok((at - first).as_secs_f64())
        });
        let found = found.unwrap();
        assert!(found.len() == 3 && found[0] == found[1] && found[2] > found[1] + 0.029, "{found:?}");
        let failed = each_when_due(&starts[..1], &AtomicBool::new(false), |_| Err(io::Error::other("no")));
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}
