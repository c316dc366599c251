//! Traffic of TCP without a program around it, from one host to another: what iperf3 would do, started to the
//! millisecond.

use super::network::{Host, Testbed};
use super::stopped;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// When each begins.
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
        let begun = Instant::now();
        let times = std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve(&listener, &is_over));
            let clients: Vec<_> = self
                .starts
                .iter()
                .map(|start| {
                    let here = &here;
                    scope.spawn(move || self.one(here, target, begun + *start, stop))
                })
                .collect();
            let times: io::Result<Vec<f64>> = clients.into_iter().map(|client| join(client.join())).collect();
            is_over.store(true, Ordering::Relaxed);
            let served = join(serving.join());
            times.and_then(|times| served.map(|()| times))
        });
        match stop.load(Ordering::Relaxed) {
            true => Err(stopped()),
            false => times.map_err(failed),
        }
    }

    fn one(
        &self,
        here: &NetworkNamespace,
        target: SocketAddrV4,
        at: Instant,
        stop: &AtomicBool,
    ) -> io::Result<f64> {
        while Instant::now() < at {
            if stop.load(Ordering::Relaxed) {
                return Ok(0.0);
            }
            std::thread::sleep((at - Instant::now()).min(POLL));
        }
        let share = self.bytes / u64::from(self.streams);
        std::thread::scope(|scope| {
            let streams: Vec<_> = (0..self.streams)
                .map(|stream| {
                    let rest = if stream == 0 { self.bytes % u64::from(self.streams) } else { 0 };
                    scope.spawn(move || send(here, target, share + rest))
                })
                .collect();
            streams.into_iter().try_for_each(|stream| join(stream.join()))
        })?;
        Ok(at.elapsed().as_secs_f64())
    }
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
                Ok((stream, _)) => streams.push(scope.spawn(move || take(stream))),
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
