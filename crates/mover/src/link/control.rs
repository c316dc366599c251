//! The control connection of a session, after its hello: messages and heartbeats, on one thread.
//!
//! In each round the thread
//!
//! 1. waits for the socket, for a message to send, or for a deadline;
//! 2. takes the bytes that are there, and gives each whole message to the callback;
//! 3. sends what is queued, and a heartbeat when one is due and nothing else is on its way;
//! 4. judges the peer: bytes of its own under TLS reset the idle clock, nothing else does.
//!
//! The side that closes sends all that is queued, then TLS's close_notify, then waits a little for the peer to close as
//! well: a socket closed while bytes of the peer lie unread in it would take back what was sent last. The peer cannot
//! put off the end: however it talks and takes, what has not left after the stall timeout stays. A channel that nobody
//! hears any more is ended at once instead ([`ControlHandle::end_at_once`]).
//!
//! Bounds: a message in the making has at most [`MESSAGE_BYTES_MAX`](thalweg_wire::limits::MESSAGE_BYTES_MAX) bytes,
//! checked before memory is taken for it, and that memory grows with the bytes that came; the queue has at most
//! [`ControlLimits::queue_bytes_max`](crate::link::ControlLimits).
//!
//! Not judged here: whether the transfer gets on. A peer that sends heartbeats and does nothing is alive here; whoever
//! owns the transfer holds its own clock against it.

use super::tls::{Connection, is_transient, of_decode, of_tls};
use crate::failure::of_io;
use crate::mutex::lock;
use crate::{Failure, FailureKind, Result};
use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_sys::socket::{self, Interest, Wake};
use thalweg_wire::DecodeError;
use thalweg_wire::message::{Heartbeat, LENGTH_BYTES, Message, TransferMessage, name_of};

/// Called for each message of the peer, in order, on the channel's thread. While it runs nothing is read or sent: it
/// hands on and returns.
pub type OnMessage = Box<dyn FnMut(Message) + Send>;
/// Called once, last, on the channel's thread.
pub type OnEnd = Box<dyn FnOnce(ControlEnd) + Send>;
/// Says what a heartbeat contains; called when one is sent, on the channel's thread.
pub type HeartbeatSource = Box<dyn FnMut() -> Heartbeat + Send>;

/// Without a sign of life for so long a link counts as lost, where nobody says otherwise.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Deadlines and bounds of a channel. All of them are ours: nothing the peer says changes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlLimits {
    /// Without a byte from the peer, or without its taking a byte of ours, for this long the channel ends. One that we
    /// close may take as long to send what is queued.
    pub stall_timeout: Duration,
    /// Time between heartbeats.
    pub heartbeat_interval: Duration,
    /// Most bytes of messages that may wait to be sent. The message beyond it ends the channel.
    pub queue_bytes_max: usize,
}

impl Default for ControlLimits {
    /// [`STALL_TIMEOUT`], 1 s, 64 MiB.
    fn default() -> Self {
        ControlLimits {
            stall_timeout: STALL_TIMEOUT,
            heartbeat_interval: Duration::from_secs(1),
            queue_bytes_max: 64 << 20,
        }
    }
}

/// How a channel ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlEnd {
    /// We closed it, and all that was queued is sent.
    Closed,
    /// The peer closed it, between two messages.
    PeerClosed,
    /// Nothing came, or nothing was taken, for too long, or less than there was to say: the path or the peer stands
    /// still, and may go on.
    Silent(Failure),
    /// Anything else: `Connection` if the path or the peer is gone, `Protocol` or `Damage` if what came was wrong.
    Failed(Failure),
}

/// Starts channels.
pub struct ControlChannel;

impl ControlChannel {
    /// Takes over a connection after its hello and drives it on a new thread until it ends.
    ///
    /// The channel also ends, as if closed, when the last handle is dropped.
    ///
    /// # Errors
    /// `Io` if there are no descriptors or threads left; no callback is called then.
    pub fn spawn(
        connection: Connection,
        on_message: OnMessage,
        on_end: OnEnd,
        heartbeat: HeartbeatSource,
        limits: ControlLimits,
    ) -> Result<ControlHandle> {
        const OPERATION: &str = "start control channel";
        connection.socket.set_nonblocking(true).map_err(|error| of_io(OPERATION, &error))?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::default()),
            wake: Wake::new().map_err(|error| of_io(OPERATION, &error))?,
            queue_bytes_max: limits.queue_bytes_max,
        });
        let now = Instant::now();
        let mut driver = Driver {
            connection,
            shared: shared.clone(),
            limits,
            on_message,
            heartbeat,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            outgoing_sent: 0,
            heard_at: now,
            taken_at: now,
            heartbeat_due: now,
            close_by: None,
            phase: Phase::Open,
        };
        let thread = std::thread::Builder::new().name("control".to_owned());
        let run = move || {
            // A callback that panics must not leave its owner waiting for an end that never comes.
            let end = catch_unwind(AssertUnwindSafe(|| driver.run())).unwrap_or_else(|_| {
                ControlEnd::Failed(Failure::new(
                    FailureKind::Internal,
                    CONTROL,
                    "the control thread panicked",
                ))
            });
            {
                let mut queue = driver.shared.lock();
                queue.end = Some(end.clone());
                // Handles may stay.
                queue.clear();
            }
            drop(driver);
            on_end(end);
        };
        thread.spawn(run).map_err(|error| of_io(OPERATION, &error))?;
        Ok(ControlHandle(Arc::new(LastHandle(shared))))
    }
}

/// Sends on a channel and closes it. A clone is the same channel.
#[derive(Clone)]
pub struct ControlHandle(Arc<LastHandle>);

impl ControlHandle {
    /// Queues a message. Never waits; what is queued is sent in order, also when [`ControlHandle::close`] follows.
    ///
    /// # Errors
    /// `Connection` if the channel has ended or is closing, or if the peer has left so much unread that the queue is
    /// full: the channel ends then, for a peer that heard the next message and not this one would believe something
    /// else than we do. `Internal` for a message that the peer would refuse.
    pub fn send(&self, message: Message) -> Result<()> {
        let bytes = message.encode().map_err(|error| unsayable(&message, &error))?;
        let shared = &self.0.0;
        let mut queue = shared.lock();
        if let Some(end) = &queue.end {
            return Err(end.as_failure());
        }
        if queue.is_closing {
            return Err(Failure::new(FailureKind::Connection, CONTROL, "the control connection is closing"));
        }
        if queue.bytes.saturating_add(bytes.len()) > shared.queue_bytes_max {
            let why = format!("the peer leaves {} bytes of messages unread", queue.bytes);
            let failure = Failure::new(FailureKind::Connection, CONTROL, why);
            queue.end = Some(ControlEnd::Silent(failure.clone()));
            queue.clear();
            drop(queue);
            // An end that nobody is woken for is seen at the next heartbeat.
            let _ = shared.wake();
            return Err(failure);
        }
        let was_empty = queue.messages.is_empty();
        queue.bytes += bytes.len();
        queue.messages.push_back(bytes);
        drop(queue);
        if was_empty { shared.wake() } else { Ok(()) }
    }

    /// Sends what is queued, for at most the stall timeout, tells the peer that nothing follows, and ends. Does not
    /// wait for it; `on_end` tells.
    pub fn close(&self) {
        self.0.0.close();
    }

    /// Ends the channel for this reason as soon as its thread is through with what it does: what is queued is forgotten
    /// now, and the peer is not waited for. Also one that is closing. Does not wait for it; `on_end` tells.
    pub fn end_at_once(&self, why: Failure) {
        let shared = &self.0.0;
        {
            let mut queue = shared.lock();
            queue.end.get_or_insert(ControlEnd::Failed(why));
            queue.clear();
        }
        // As in `Shared::close`.
        let _ = shared.wake();
    }

    /// Forgets what is queued if that is more than so many bytes.
    pub fn forget_beyond(&self, bytes: usize) {
        let mut queue = self.0.0.lock();
        if queue.bytes > bytes {
            queue.clear();
        }
    }

    /// Whether it was closed, and the kernel has all that was to be said.
    pub fn has_said_all(&self) -> bool {
        let queue = self.0.0.lock();
        queue.is_said || queue.end.is_some()
    }

    /// Bytes of messages that wait to be sent.
    pub fn queued_bytes(&self) -> usize {
        self.0.0.lock().bytes
    }
}

impl fmt::Debug for ControlHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlHandle").field("queued_bytes", &self.queued_bytes()).finish_non_exhaustive()
    }
}

/// Closes the channel when nobody can any more.
struct LastHandle(Arc<Shared>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Wake,
    queue_bytes_max: usize,
}

#[derive(Default)]
struct Queue {
    /// Encoded, with their lengths in front.
    messages: VecDeque<Vec<u8>>,
    /// In `messages` together.
    bytes: usize,
    is_closing: bool,
    /// It is closed, and the kernel has what was queued.
    is_said: bool,
    /// How the channel ended, or is to end now.
    end: Option<ControlEnd>,
}

impl Queue {
    /// Nothing waits and nothing will come.
    fn is_done(&self) -> bool {
        self.is_closing && self.messages.is_empty()
    }

    fn clear(&mut self) {
        // With its memory: a full one holds as many as there are.
        self.messages = VecDeque::new();
        self.bytes = 0;
    }
}

impl Shared {
    /// No foreign code runs under the lock, so a poisoned one holds a sound state all the same.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn wake(&self) -> Result<()> {
        self.wake.wake().map_err(|error| of_io(CONTROL, &error))
    }

    fn close(&self) {
        self.lock().is_closing = true;
        // The descriptor is open as long as we are; a flag that cannot be raised is seen at the next heartbeat.
        let _ = self.wake();
    }
}

impl ControlEnd {
    fn as_failure(&self) -> Failure {
        match self {
            // A thread of ours that panicked says nothing against what is to be said.
            ControlEnd::Failed(failure) if failure.kind == FailureKind::Internal => {
                Failure { kind: FailureKind::Connection, ..failure.clone() }
            }
            ControlEnd::Silent(failure) | ControlEnd::Failed(failure) => failure.clone(),
            ControlEnd::Closed | ControlEnd::PeerClosed => {
                Failure::new(FailureKind::Connection, CONTROL, "the control connection has ended")
            }
        }
    }
}

const CONTROL: &str = "control connection";
/// How long we wait for the peer to close after us.
const LINGER: Duration = Duration::from_secs(5);
/// Reads in one round before it is our turn to send: 256 KiB or a little less.
const READS_PER_ROUND: usize = 64;
/// Messages are gathered up to this much, so that many small ones share a record.
const GATHER_BYTES: usize = 16 << 10;

struct Driver {
    connection: Connection,
    shared: Arc<Shared>,
    limits: ControlLimits,
    on_message: OnMessage,
    heartbeat: HeartbeatSource,
    /// The beginning of a message, with its length in front.
    incoming: Vec<u8>,
    /// Messages that are being sent.
    outgoing: Vec<u8>,
    /// How much of it TLS has taken.
    outgoing_sent: usize,
    /// When the peer last said something.
    heard_at: Instant,
    /// When the socket last took something, or had nothing to take.
    taken_at: Instant,
    heartbeat_due: Instant,
    /// Since we close: by when all that was queued must have left. No sign of life puts it off.
    close_by: Option<Instant>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// TLS has all that was queued and the end; it only has to leave.
    Closing,
    /// All of it has left. Until this moment the peer may close as well.
    Lingering(Instant),
}

impl Driver {
    fn run(&mut self) -> ControlEnd {
        // What came in the same breath as the hello.
        let mut is_readable = true;
        loop {
            let result = match is_readable {
                true => self.read(),
                false => Ok(None),
            };
            let result = result.and_then(|end| match end {
                Some(end) => Ok(Some(end)),
                None => self.write().and_then(|()| self.judge()),
            });
            let result = result.and_then(|end| match end {
                Some(end) => Ok(Err(end)),
                None => self.wait().map(Ok),
            });
            match result {
                Ok(Ok(readable)) => is_readable = readable,
                Ok(Err(end)) => return self.end(end),
                Err(failure) => return self.end(ControlEnd::Failed(failure)),
            }
        }
    }

    /// Once all of ours has left, however the peer goes is a good end.
    fn end(&self, end: ControlEnd) -> ControlEnd {
        match self.phase {
            Phase::Lingering(_) => ControlEnd::Closed,
            Phase::Open | Phase::Closing => end,
        }
    }

    /// Until there is something to do; whether that is reading.
    fn wait(&mut self) -> Result<bool> {
        let now = Instant::now();
        let wants_write = self.connection.tls.wants_write();
        let mut left = self.heartbeat_due.saturating_duration_since(now);
        let of = |since: Instant| (since + self.limits.stall_timeout).saturating_duration_since(now);
        left = left.min(of(self.heard_at));
        if wants_write {
            // A heartbeat that is due waits for what is on its way.
            left = of(self.taken_at).min(of(self.heard_at));
        }
        if let Some(by) = self.close_by {
            left = left.min(by.saturating_duration_since(now));
        }
        if let Phase::Lingering(until) = self.phase {
            left = until.saturating_duration_since(now);
        }
        let socket = Interest { read: true, write: wants_write };
        let fds = [(self.connection.as_fd(), socket), (self.shared.wake.as_fd(), Interest::READ)];
        // A moment more: a deadline rounded down would be found not yet passed.
        let ready = socket::poll(&fds, Some(left + Duration::from_millis(1)));
        let ready = ready.map_err(|error| of_io(CONTROL, &error))?;
        if ready.get(1).is_some_and(|wake| wake.any()) {
            self.shared.wake.drain().map_err(|error| of_io(CONTROL, &error))?;
        }
        Ok(ready.first().is_some_and(|socket| socket.readable || socket.error || socket.hung_up))
    }

    /// Takes what the peer has sent.
    fn read(&mut self) -> Result<Option<ControlEnd>> {
        for _ in 0..READS_PER_ROUND {
            if let Some(end) = self.take_plaintext()? {
                return Ok(Some(end));
            }
            match self.connection.tls.read_tls(&mut &*self.connection.socket) {
                Ok(0) => return Err(cut()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(of_io(CONTROL, &error)),
            }
            if let Err(error) = self.connection.tls.process_new_packets() {
                // Tells the peer why, if that does not take waiting.
                let _ = self.connection.tls.write_tls(&mut &*self.connection.socket);
                return Err(of_tls(CONTROL, &error));
            }
        }
        self.take_plaintext()
    }

    /// Takes what TLS has opened, and hands on the messages that are whole.
    fn take_plaintext(&mut self) -> Result<Option<ControlEnd>> {
        let mut piece = [0; 16 << 10];
        loop {
            match self.connection.tls.reader().read(&mut piece) {
                Ok(0) if self.incoming.is_empty() => return Ok(Some(ControlEnd::PeerClosed)),
                Ok(0) => {
                    let why = "the peer closed the connection in the middle of a message";
                    return Err(Failure::new(FailureKind::Protocol, CONTROL, why));
                }
                Ok(read) => {
                    self.split(&piece[..read])?;
                    // After the callback, whose time is not the peer's.
                    self.heard_at = Instant::now();
                }
                Err(error) if is_transient(&error) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(cut()),
                Err(error) => return Err(of_io(CONTROL, &error)),
            }
        }
    }

    /// Adds bytes to the message in the making and hands on each that is whole.
    fn split(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let missing = match self.incoming.first_chunk::<LENGTH_BYTES>() {
                None => LENGTH_BYTES - self.incoming.len(),
                Some(head) => {
                    let length = Message::length(*head).map_err(|error| of_decode(CONTROL, &error))?;
                    LENGTH_BYTES + length - self.incoming.len()
                }
            };
            let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
            self.incoming.extend_from_slice(taken);
            bytes = rest;
            let Some((head, body)) = self.incoming.split_first_chunk::<LENGTH_BYTES>() else {
                continue;
            };
            if body.len() < Message::length(*head).map_err(|error| of_decode(CONTROL, &error))? {
                continue;
            }
            let message = Message::decode(body).map_err(|error| of_decode(CONTROL, &error))?;
            self.incoming.clear();
            (self.on_message)(message);
        }
        if self.incoming.is_empty() {
            // A large message does not keep its memory for the life of the channel.
            self.incoming.shrink_to(GATHER_BYTES);
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<Option<ControlEnd>> {
        let now = Instant::now();
        let (end, is_closing) = {
            let queue = self.shared.lock();
            (queue.end.clone(), queue.is_closing)
        };
        if end.is_some() {
            return Ok(end);
        }
        if let Phase::Lingering(until) = self.phase {
            return Ok((now >= until).then_some(ControlEnd::Closed));
        }
        let limit = self.limits.stall_timeout;
        if is_closing && now >= *self.close_by.get_or_insert(now + limit) {
            let why = format!("the peer did not take what was left to say within {} s", seconds(limit));
            return Ok(Some(ControlEnd::Failed(Failure::new(FailureKind::Connection, CONTROL, why))));
        }
        let stalled = |why: &str| {
            let why = format!("{why} for {} s", seconds(limit));
            Ok(Some(ControlEnd::Silent(Failure::new(FailureKind::Connection, CONTROL, why))))
        };
        if now.saturating_duration_since(self.heard_at) >= limit {
            return stalled("no sign of life from the peer");
        }
        if self.connection.tls.wants_write() && now.saturating_duration_since(self.taken_at) >= limit {
            return stalled("the peer has taken nothing");
        }
        Ok(None)
    }

    /// Sends what there is, as far as the socket takes it.
    fn write(&mut self) -> Result<()> {
        loop {
            while self.connection.tls.wants_write() {
                match self.connection.tls.write_tls(&mut &*self.connection.socket) {
                    Ok(_) => self.taken_at = Instant::now(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if is_transient(&error) => {}
                    Err(error) => return Err(of_io(CONTROL, &error)),
                }
            }
            // Nothing waits, so there is nothing that the peer could fail to take.
            self.taken_at = Instant::now();
            match self.phase {
                Phase::Lingering(_) => return Ok(()),
                Phase::Closing => {
                    self.phase = Phase::Lingering(Instant::now() + LINGER.min(self.limits.stall_timeout));
                    // A socket that is gone already is one less to shut.
                    let _ = socket::shutdown_write(&self.connection);
                    self.shared.lock().is_said = true;
                }
                Phase::Open => {
                    if self.outgoing_sent < self.outgoing.len() || self.gather() {
                        let taken = self.connection.tls.writer().write(&self.outgoing[self.outgoing_sent..]);
                        self.outgoing_sent += taken.map_err(|error| of_io(CONTROL, &error))?;
                    } else if self.shared.lock().is_done() {
                        self.connection.tls.send_close_notify();
                        self.phase = Phase::Closing;
                    } else {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Finds something to send; `false` if there is nothing.
    fn gather(&mut self) -> bool {
        self.outgoing.clear();
        self.outgoing.shrink_to(GATHER_BYTES);
        self.outgoing_sent = 0;
        let mut queue = self.shared.lock();
        while self.outgoing.len() < GATHER_BYTES {
            let Some(message) = queue.messages.pop_front() else { break };
            queue.bytes -= message.len();
            self.outgoing.extend_from_slice(&message);
        }
        let is_closing = queue.is_closing;
        drop(queue);
        let now = Instant::now();
        if self.outgoing.is_empty() && !is_closing && now >= self.heartbeat_due {
            self.heartbeat_due = now + self.limits.heartbeat_interval;
            // It has a fixed handful of numbers: its encoding cannot be refused.
            self.outgoing = Message::Heartbeat((self.heartbeat)()).encode().unwrap_or_default();
        }
        !self.outgoing.is_empty()
    }
}

/// Whole seconds where they are whole.
fn seconds(time: Duration) -> String {
    match time.subsec_millis() {
        0 => time.as_secs().to_string(),
        _ => format!("{:.1}", time.as_secs_f64()),
    }
}

/// Of a message that the peer would refuse.
fn unsayable(message: &Message, error: &DecodeError) -> Failure {
    let name = match message {
        Message::Transfer(_, TransferMessage::Flow(said)) => name_of(said),
        Message::Transfer(_, said) => name_of(said),
        message => name_of(message),
    };
    let cause = format!(
        "the peer would refuse what is to be said to it ({name}): {error}; this is a defect of thalweg, please report it"
    );
    Failure::new(FailureKind::Internal, CONTROL, cause)
}

fn cut() -> Failure {
    Failure::new(FailureKind::Connection, CONTROL, "the connection was cut")
}

#[cfg(test)]
mod tests;
