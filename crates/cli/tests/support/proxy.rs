//! A wire between client and daemon that can be slowed, stalled, cut, and made to lie.

use super::chance::Random;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What happens to bytes on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    Flip,
    Zero,
    Drop,
    Double,
    Swap,
    Cut,
    Stall,
}

pub const LIES: [Lie; 7] = [Lie::Flip, Lie::Zero, Lie::Drop, Lie::Double, Lie::Swap, Lie::Cut, Lie::Stall];

/// See the module. Connections end with it.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    /// Bytes a second, both directions of all connections together; 0: as fast as it goes.
    rate: AtomicU64,
    /// The same for each direction of each connection.
    rate_of_each: AtomicU64,
    /// Sockets stay open, nothing passes.
    stalled: AtomicBool,
    /// Only what the server says is lost.
    answers_lost: AtomicBool,
    /// Connections, counted from 0, that stand still for ever.
    dead: Mutex<std::ops::Range<u64>>,
    /// Bytes that a connection carries in one direction before it stands still for ever.
    mute_after: AtomicU64,
    refuses: AtomicBool,
    stopped: AtomicBool,
    passed: AtomicU64,
    bucket: Mutex<Instant>,
    lies: Mutex<Option<Lies>>,
    told: Mutex<Vec<(Lie, u64)>>,
    connections: Mutex<Vec<TcpStream>>,
    accepted: AtomicU64,
    before_each: Mutex<Option<Box<dyn Fn() + Send>>>,
}

struct Lies {
    random: Random,
    kinds: Vec<Lie>,
    left: u64,
    /// Typical distance between two, in bytes.
    distance: u64,
}

impl Proxy {
    pub fn new(target: &str) -> Proxy {
        let target = target.parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("non-blocking");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            target,
            rate: AtomicU64::new(0),
            rate_of_each: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            answers_lost: AtomicBool::new(false),
            dead: Mutex::new(0..0),
            mute_after: AtomicU64::new(u64::MAX),
            refuses: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            bucket: Mutex::new(Instant::now()),
            lies: Mutex::new(None),
            told: Mutex::default(),
            connections: Mutex::default(),
            accepted: AtomicU64::new(0),
            before_each: Mutex::new(None),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accepting.accept(&listener));
        Proxy { address, shared }
    }

    /// `tw://…/EXPORT/PATH` through here.
    pub fn place(&self, export: &str, path: &str) -> String {
        format!("tw://{}/{export}/{path}", self.address)
    }

    pub fn limit(&self, bytes_per_s: u64) {
        self.shared.rate.store(bytes_per_s, Ordering::Relaxed);
        *self.shared.bucket.lock().unwrap() = Instant::now();
    }

    /// Each connection carries no more than so many bytes a second in each direction: more of them carry more.
    pub fn limit_each(&self, bytes_per_s: u64) {
        self.shared.rate_of_each.store(bytes_per_s, Ordering::Relaxed);
    }

    pub fn stall(&self, on: bool) {
        self.shared.stalled.store(on, Ordering::Relaxed);
    }

    pub fn lose_answers(&self, on: bool) {
        self.shared.answers_lost.store(on, Ordering::Relaxed);
    }

    /// These connections, counted from 0 in the order in which they came, carry nothing any more; the others do.
    pub fn kill_quietly(&self, connections: std::ops::Range<u64>) {
        *self.shared.dead.lock().unwrap() = connections;
    }

    /// Connections carry so many bytes in each direction and then nothing more, old ones and new ones.
    pub fn mute_after(&self, bytes: u64) {
        self.shared.mute_after.store(bytes, Ordering::Relaxed);
    }

    /// Nothing passes, in either direction, before `act` is done, which is done for every piece of it.
    pub fn before_each(&self, act: impl Fn() + Send + 'static) {
        *self.shared.before_each.lock().unwrap() = Some(Box::new(act));
    }

    pub fn refuse(&self, on: bool) {
        self.shared.refuses.store(on, Ordering::Relaxed);
    }

    /// Ends all connections that stand; whether there was one.
    pub fn cut(&self) -> bool {
        let mut connections = self.shared.connections.lock().unwrap();
        // One that has ended cannot be shut down.
        connections.drain(..).filter(|socket| socket.shutdown(Shutdown::Both).is_ok()).count() > 0
    }

    /// Lies `times` times, about every `distance` bytes of each connection.
    pub fn lie(&self, random: Random, kinds: &[Lie], times: u64, distance: u64) {
        *self.shared.lies.lock().unwrap() =
            Some(Lies { random, kinds: kinds.to_vec(), left: times, distance });
    }

    /// Lies told so far, with the offset in their connection.
    pub fn told(&self) -> Vec<(Lie, u64)> {
        self.shared.told.lock().unwrap().clone()
    }

    /// Bytes that passed, both directions.
    pub fn passed(&self) -> u64 {
        self.shared.passed.load(Ordering::Relaxed)
    }

    /// Connections that came so far.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.cut();
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stopped.load(Ordering::Relaxed) {
            let Ok((client, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let number = self.accepted.fetch_add(1, Ordering::Relaxed);
            if self.refuses.load(Ordering::Relaxed) {
                continue;
            }
            let shared = self.clone();
            std::thread::spawn(move || shared.join(client, number));
        }
    }

    fn join(self: Arc<Self>, client: TcpStream, number: u64) {
        let _ = client.set_nonblocking(false);
        while self.stalled.load(Ordering::Relaxed) && !self.stopped.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let Ok(server) = TcpStream::connect(self.target) else { return };
        for socket in [&client, &server] {
            let _ = socket.set_nodelay(true);
            if let Ok(socket) = socket.try_clone() {
                self.connections.lock().unwrap().push(socket);
            }
        }
        let pair = |a: &TcpStream, b: &TcpStream| Some((a.try_clone().ok()?, b.try_clone().ok()?));
        let (Some(there), Some(back)) = (pair(&client, &server), pair(&server, &client)) else { return };
        let other = self.clone();
        let answers = std::thread::spawn(move || other.pump(back.0, back.1, number, true));
        self.pump(there.0, there.1, number, false);
        let _ = answers.join();
    }

    fn pump(&self, mut from: TcpStream, mut to: TcpStream, number: u64, is_answer: bool) {
        let mut buffer = vec![0; 32 << 10];
        let mut offset = 0;
        let mut own_bucket = Instant::now();
        let mut next_lie = self.draw();
        loop {
            let read = match from.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            let is_held = || {
                self.stalled.load(Ordering::Relaxed)
                    || is_answer && self.answers_lost.load(Ordering::Relaxed)
                    || offset > self.mute_after.load(Ordering::Relaxed)
                    || self.dead.lock().unwrap().contains(&number)
            };
            while is_held() && !self.stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            if let Some(act) = &*self.before_each.lock().unwrap() {
                act();
            }
            self.pace(read as u64);
            pace(read as u64, self.rate_of_each.load(Ordering::Relaxed), &mut own_bucket);
            let mut bytes = buffer[..read].to_vec();
            if next_lie.is_none() {
                next_lie = self.draw().map(|(lie, distance)| (lie, offset + distance));
            }
            if let Some((lie, at)) = next_lie
                && at < offset + read as u64
                && self.take()
            {
                let within = at.saturating_sub(offset) as usize;
                self.told.lock().unwrap().push((lie, at));
                if !distort(&mut bytes, within, lie) {
                    break;
                }
                next_lie = self.draw().map(|(lie, distance)| (lie, offset + read as u64 + distance));
            }
            offset += read as u64;
            if to.write_all(&bytes).is_err() {
                break;
            }
            self.passed.fetch_add(read as u64, Ordering::Relaxed);
        }
        // An end in order on one side stays open on the other until it ends as well.
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }

    fn draw(&self) -> Option<(Lie, u64)> {
        let mut lies = self.lies.lock().unwrap();
        let lies = lies.as_mut().filter(|lies| lies.left > 0)?;
        let kind = lies.kinds[lies.random.below(lies.kinds.len() as u64) as usize];
        // Mostly in data; one in four in a handshake or among the first messages.
        let reach = if lies.random.below(4) == 0 { 6000 } else { lies.distance * 2 };
        Some((kind, lies.random.below(reach)))
    }

    fn take(&self) -> bool {
        let mut lies = self.lies.lock().unwrap();
        match lies.as_mut().filter(|lies| lies.left > 0) {
            Some(lies) => {
                lies.left -= 1;
                true
            }
            None => false,
        }
    }

    fn pace(&self, bytes: u64) {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate == 0 {
            return;
        }
        let until = book(bytes, rate, &mut self.bucket.lock().unwrap());
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

fn pace(bytes: u64, rate: u64, bucket: &mut Instant) {
    if rate > 0 {
        std::thread::sleep(book(bytes, rate, bucket).saturating_duration_since(Instant::now()));
    }
}

/// When so many bytes may have passed.
fn book(bytes: u64, rate: u64, bucket: &mut Instant) -> Instant {
    *bucket = (*bucket).max(Instant::now()) + Duration::from_secs_f64(bytes as f64 / rate as f64);
    *bucket
}

/// Changes `bytes` at `at`. False: the connection ends here.
fn distort(bytes: &mut Vec<u8>, at: usize, lie: Lie) -> bool {
    let at = at.min(bytes.len() - 1);
    let end = (at + 16).min(bytes.len());
    match lie {
        Lie::Flip => bytes[at] ^= 1 << (at % 8),
        Lie::Zero => bytes[at..end].fill(0),
        Lie::Drop => drop(bytes.drain(at..end)),
        Lie::Double => {
            let twice = bytes[at..end].to_vec();
            bytes.splice(at..at, twice);
        }
        Lie::Swap => bytes[at..end].reverse(),
        Lie::Cut => return false,
        Lie::Stall => std::thread::sleep(Duration::from_millis(700)),
    }
    true
}
