//! A session: what two movers share, whatever connections it rides on at the moment.
//!
//! It owns the control channel, the streams and the transfers. When the control channel ends, the streams end
//! with it and the transfers stay, until the client comes back ([`Session::attach_control`] again) or nobody
//! waits any longer ([`Session::close`]). Each stream has two threads: one asks the senders of the session
//! for work, one hands frames to its receivers; a direction that is not used costs a sleeping thread.

use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::{
    Connection, ControlChannel, ControlEnd, ControlHandle, ControlLimits, Fingerprint, FrameBuffer,
    FrameReader, FrameWriter, PathHints, StopHandle,
};
use crate::run::Outbox;
use crate::run::bell::Bell;
use crate::run::flow::sender::FlowSend;
use crate::run::frames::FramesLink;
use crate::run::party::Party;
use crate::run::sender::SendRun;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use thalweg_sys::Buffer;
use thalweg_sys::socket::TcpInfo;
use thalweg_wire::account::StreamAccount;
use thalweg_wire::hello::{Cipher, SessionId};
use thalweg_wire::message::{Heartbeat, Message, Terms, TransferMessage, TransferNumber};
use thalweg_wire::{frame, limits};
use zeroize::Zeroizing;

mod keeping;

mod streams;

mod transfer;

pub use transfer::Transfer;

/// How often receivers are told the time.
const TICK: Duration = Duration::from_millis(100);
/// Streams and the keeper look at least this often, whatever they were told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// What is kept for transfers that are not there yet, as it unfolds in memory: a sender may offer all that may be under
/// way before the receiver's side stands.
const EARLY_BYTES_MAX: usize = limits::ENTRY_BYTES_IN_FLIGHT_MAX
    + limits::MESSAGE_BYTES_MAX
    + limits::ENTRIES_IN_FLIGHT_MAX * size_of::<thalweg_wire::Entry>();

/// See [`limits::STREAM_BYTES_MAX`].
const TOO_MUCH_MEMORY: &str =
    "more memory than a link has would go into frames: fewer streams, or a smaller --request";

/// What the owner of a session does with what is not for a transfer.
pub trait Owner: Send + Sync {
    /// A message outside of transfers. Called on the control thread: hand on and return.
    fn on_message(&self, session: &Arc<Session>, message: Message);
    /// The link is gone.
    fn on_link_lost(&self, session: &Arc<Session>, why: &Failure);
    /// The peer ended the session: in order, or for this reason.
    fn on_goodbye(&self, session: &Arc<Session>, why: Option<&Failure>);
    /// A stream is gone while the link stands.
    fn on_stream_lost(&self, session: &Arc<Session>, stream: u16, why: &Failure);
    /// A stream on which we send gets nothing across, and is about to be given up.
    fn on_stream_stuck(&self, _session: &Arc<Session>, _stream: u16) {}
    /// Bytes of a stream after which [`Owner::before_taking`] is to be asked again.
    fn portion_bytes(&self) -> usize {
        usize::MAX
    }
    /// More is about to be taken from a stream, on which `took` bytes came since the last time: may wait, while `is_over`
    /// says no.
    fn before_taking(&self, _session: &Session, _took: u64, _is_over: &dyn Fn() -> bool) {}
}

/// See the module.
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Its key: proves that a stream belongs to it.
    pub key: Zeroizing<[u8; 32]>,
    /// How its data streams are protected.
    pub cipher: Cipher,
    /// Whom it was begun with: nobody else may join it, whatever he knows.
    pub peer: Fingerprint,
    limits: ControlLimits,
    owner: Box<dyn Owner>,
    events: Events,
    state: Mutex<State>,
    /// Held while a link is put in place, so that nothing is heard before the transfers know of it.
    gate: Mutex<()>,
    bell: Bell,
    /// Control channels that have not ended yet.
    links: AtomicUsize,
    /// Largest payload that a transfer of this session may carry: what receiving streams have memory for.
    payload_max: AtomicUsize,
    this: Weak<Session>,
}

#[derive(Default)]
struct State {
    control: Option<ControlHandle>,
    epoch: u64,
    transfers: BTreeMap<TransferNumber, Transfer>,
    early: BTreeMap<TransferNumber, Early>,
    /// Transfers that were taken out: what is still on its way to them is ignored. Grows with what the client
    /// began in this session, by a few bytes each.
    over: BTreeSet<TransferNumber>,
    streams: BTreeMap<u16, (u64, StopHandle)>,
    stream_serial: u64,
    /// Bytes that each stream got across, and since when there were no more though it tries.
    delivered: BTreeMap<u16, (u64, Instant)>,
    /// The most that each stream was seen to deliver in a second, where it had enough to send.
    fastest: BTreeMap<u16, u64>,
    closed: bool,
    /// What its transfers had is put away.
    is_put_away: bool,
    failed: Option<Failure>,
    lost_at: Option<Instant>,
    /// Of the link that was lost last nothing came any more.
    fell_silent: bool,
    heard_at: Option<Instant>,
    /// Where the link that stands, or stood last, comes from or goes to.
    peer_address: Option<SocketAddr>,
    /// The shortest round trip of its control connection when it was put in place.
    rtt: Option<Duration>,
    /// Its congestion control, which nobody chose.
    usual_congestion: Option<String>,
    peer: Heartbeat,
    accounts_at: Option<Instant>,
    /// What each stream's kernel said at the last sample.
    sampled: BTreeMap<u16, TcpInfo>,
    /// Whether streams were told a rate.
    is_spaced: bool,
    /// What streams may have under way beside others' slots; see [`Session::offer_windows`].
    window_offered: Option<u64>,
}

impl State {
    /// Whether this connection is that of a stream, and no other in its place. None is, when the session is closed.
    fn stands(&self, stream: u16, serial: u64) -> bool {
        self.streams.get(&stream).is_some_and(|(current, _)| *current == serial)
    }
}

impl Session {
    /// A session without a link.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn new(
        id: SessionId,
        key: Zeroizing<[u8; 32]>,
        cipher: Cipher,
        peer: Fingerprint,
        limits: ControlLimits,
        owner: Box<dyn Owner>,
        events: Events,
    ) -> Result<Arc<Session>> {
        let session = Arc::new_cyclic(|this| Session {
            id,
            key,
            cipher,
            peer,
            limits,
            owner,
            events,
            state: Mutex::default(),
            gate: Mutex::default(),
            bell: Bell::default(),
            links: AtomicUsize::new(0),
            payload_max: AtomicUsize::new(limits::SEGMENT_BYTES_MIN as usize),
            this: this.clone(),
        });
        let keeper = Arc::downgrade(&session);
        spawn("keeper", move || {
            while let Some(session) = keeper.upgrade() {
                if !session.keep() {
                    return;
                }
                drop(session);
                std::thread::sleep(TICK);
            }
        })?;
        Ok(session)
    }

    /// Puts a control connection in place, the first or one after an outage. Transfers that are there begin
    /// to talk again.
    ///
    /// # Errors
    /// If the session is closed, or there is no thread to be had.
    pub fn attach_control(&self, connection: Connection) -> Result<()> {
        let gate = self.gate.lock().unwrap_or_else(|p| p.into_inner());
        let epoch = {
            let mut state = self.lock();
            if state.closed {
                return Err(Failure::new(FailureKind::Connection, "resume", "the session is closed"));
            }
            state.epoch += 1;
            state.epoch
        };
        let (peer_address, rtt) = (connection.peer_address(), connection.rtt());
        let usual_congestion = connection.usual_congestion();
        let (heard, ended, told) = (self.this.clone(), self.this.clone(), self.this.clone());
        self.links.fetch_add(1, Ordering::AcqRel);
        let handle = ControlChannel::spawn(
            connection,
            Box::new(move |message| {
                if let Some(session) = heard.upgrade() {
                    session.hear(epoch, message);
                }
            }),
            Box::new(move |end| {
                if let Some(session) = ended.upgrade() {
                    session.links.fetch_sub(1, Ordering::AcqRel);
                    session.control_ended(epoch, end);
                }
            }),
            Box::new(move || told.upgrade().map(|session| session.heartbeat()).unwrap_or_default()),
            self.limits,
        )
        .inspect_err(|_| {
            self.links.fetch_sub(1, Ordering::AcqRel);
        })?;
        let (old, streams, transfers, was_lost) = {
            let mut state = self.lock();
            let old = state.control.replace(handle);
            let streams = std::mem::take(&mut state.streams);
            state.failed = None;
            state.heard_at = Some(Instant::now());
            (state.peer_address, state.rtt) = (peer_address, rtt);
            state.usual_congestion = usual_congestion;
            let lost = state.lost_at.take();
            state.fell_silent = false;
            let transfers: Vec<Transfer> = state.transfers.values().cloned().collect();
            (old, streams, transfers, lost)
        };
        if let Some(old) = old {
            old.close();
        }
        streams.values().for_each(|(_, stop)| stop.stop());
        transfers.iter().for_each(Transfer::link_up);
        drop(gate);
        if let Some(lost) = was_lost {
            (self.events)(Event::LinkUp(lost.elapsed()));
        }
        Ok(())
    }

    /// Puts a data stream to work.
    ///
    /// # Errors
    /// If the session is closed, has too many streams, or there are no threads to be had.
    pub fn attach_stream(&self, stream: u16, writer: FrameWriter, reader: FrameReader) -> Result<()> {
        let (serial, old) = {
            let mut state = self.lock();
            if state.closed || state.control.is_none() {
                return Err(Failure::new(FailureKind::Connection, "add a stream", "the session has no link"));
            }
            let frame_bytes = self.payload_max.load(Ordering::Acquire) as u64;
            let is_new = !state.streams.contains_key(&stream);
            if is_new && (state.streams.len() as u64 + 1) * frame_bytes > limits::STREAM_BYTES_MAX {
                return Err(Failure::new(FailureKind::Protocol, "add a stream", TOO_MUCH_MEMORY));
            }
            if stream >= limits::STREAMS_MAX {
                return Err(Failure::new(FailureKind::Protocol, "add a stream", "too many streams"));
            }
            state.stream_serial += 1;
            let serial = state.stream_serial;
            let handle = writer.stop_handle();
            // Before anything is read of it: with the next look at slots a whole window would be under way.
            if let Some(bytes) = state.window_offered {
                handle.offer_window(Some(bytes), &PathHints::default());
            }
            let old = state.streams.insert(stream, (serial, handle));
            state.delivered.remove(&stream);
            (serial, old)
        };
        if let Some((_, old)) = &old {
            old.stop();
        }
        for transfer in self.transfers() {
            if old.is_some() {
                transfer.stream_lost(stream);
            }
            transfer.stream_up(stream);
        }
        let (sending, receiving) = (self.strong()?, self.strong()?);
        let send = move || {
            if let Err(failure) = guarded(|| sending.send_loop(stream, serial, writer)) {
                sending.end_stream(stream, serial, failure);
            }
        };
        let receive = move || {
            let received = guarded(|| receiving.receive_loop(stream, serial, reader));
            receiving.frames().iter().for_each(|run| run.connection_over(serial));
            if let Err(failure) = received {
                receiving.end_stream(stream, serial, failure);
            }
        };
        if let Err(failure) = spawn("send", send).and_then(|()| spawn("receive", receive)) {
            // Half a stream would be waited for.
            self.end_stream(stream, serial, failure.clone());
            return Err(failure);
        }
        self.bell.ring();
        Ok(())
    }

    /// Adds a transfer. What the peer said to it already is heard now.
    ///
    /// # Errors
    /// `Protocol` if its number is taken or there are too many.
    pub fn add(&self, number: TransferNumber, transfer: Transfer) -> Result<()> {
        let _gate = self.gate.lock().unwrap_or_else(|p| p.into_inner());
        check_memory(transfer.terms())?;
        let payload_max = if transfer.sends() { 0 } else { payload_max(transfer.terms()) };
        let (early, streams) = {
            let mut state = self.lock();
            if state.closed {
                // Nobody would ever end it.
                return Err(Failure::new(FailureKind::Connection, "open", "the session is closed"));
            }
            if state.transfers.contains_key(&number) || state.over.contains(&number) {
                return Err(Failure::new(
                    FailureKind::Protocol,
                    "open",
                    "the transfer's number was used before",
                ));
            }
            if state.transfers.len() >= limits::TRANSFERS_MAX {
                return Err(Failure::new(FailureKind::Protocol, "open", "too many transfers in one session"));
            }
            if state.streams.len() as u64 * payload_max as u64 > limits::STREAM_BYTES_MAX {
                return Err(Failure::new(FailureKind::Protocol, "open", TOO_MUCH_MEMORY));
            }
            self.payload_max.fetch_max(payload_max, Ordering::AcqRel);
            state.transfers.insert(number, transfer.clone());
            let streams: Vec<u16> = state.streams.keys().copied().collect();
            (state.early.remove(&number).unwrap_or_default().messages, streams)
        };
        // Not under our own lock: a transfer calls us while it holds its own.
        streams.into_iter().for_each(|stream| transfer.stream_up(stream));
        for message in early {
            if let Err(failure) = transfer.hear(message) {
                self.remove(number);
                return Err(failure);
            }
        }
        self.bell.ring();
        Ok(())
    }

    /// Takes a transfer out; what is said to it from now on is ignored, and its number is not used again.
    pub fn remove(&self, number: TransferNumber) -> Option<Transfer> {
        let mut state = self.lock();
        state.over.insert(number);
        state.early.remove(&number);
        state.transfers.remove(&number)
    }

    /// Transfers in it.
    pub fn transfers(&self) -> Vec<Transfer> {
        self.lock().transfers.values().cloned().collect()
    }

    /// Says something outside of transfers.
    ///
    /// # Errors
    /// `Connection` without a link.
    pub fn say(&self, message: Message) -> Result<()> {
        let control = self.lock().control.clone();
        match control {
            Some(control) => control.send(message),
            None => Err(Failure::new(FailureKind::Connection, "send", "there is no link at the moment")),
        }
    }

    /// Bytes of messages that wait to be sent; 0 without a link.
    pub fn queued_bytes(&self) -> usize {
        let control = self.lock().control.clone();
        control.map_or(0, |control| control.queued_bytes())
    }

    /// Bytes that moved on the streams that stand now, both ways and parts of frames included, as both kernels and the
    /// peer's last heartbeat say. A sign of life of the path and no more: it goes back when a stream is replaced.
    pub fn moved_bytes(&self) -> u64 {
        let state = self.lock();
        let of = |(_, handle): &(u64, StopHandle)| {
            handle.arrived().unwrap_or(0) + handle.delivered().map_or(0, |(bytes, _)| bytes)
        };
        state.streams.values().map(of).sum::<u64>().saturating_add(state.peer.arrived_bytes)
    }

    /// What transfers of this session say goes through this.
    pub fn outbox(&self) -> Box<dyn Outbox> {
        Box::new(SessionOutbox(self.this.clone()))
    }

    /// Numbers of the streams that stand.
    pub fn streams(&self) -> Vec<u16> {
        self.lock().streams.keys().copied().collect()
    }

    /// Number of the link that stands: each one that comes or goes has a higher one.
    pub fn epoch(&self) -> u64 {
        self.lock().epoch
    }

    /// Since when there is no link, if there is none.
    pub fn lost_since(&self) -> Option<Instant> {
        self.lock().lost_at
    }

    /// Whether the link was lost because nothing came of it any more, as in an outage. Else its other end was closed: the
    /// peer's process may have ended.
    pub fn fell_silent(&self) -> bool {
        self.lock().fell_silent
    }

    /// The peer's end of the link that stands, or stood last; `None` for what is no internet socket.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.lock().peer_address
    }

    /// The shortest round trip on the control connection that stands, or stood last, by the time that it was put in place;
    /// `None` for what is no TCP socket. Of a connection that is forwarded it is only the way to who forwards it.
    pub fn rtt(&self) -> Option<Duration> {
        self.lock().rtt
    }

    /// When the peer last said something. It does so about once a second.
    pub fn heard_at(&self) -> Option<Instant> {
        self.lock().heard_at
    }

    /// Has each stream's peer send no more than so many bytes ahead of what is read; `None`: as its path asks for.
    /// Also what a transfer asked for is held to that.
    pub fn offer_windows(&self, bytes: Option<u64>, path: &PathHints) {
        let mut state = self.lock();
        state.window_offered = bytes;
        state.streams.values().for_each(|(_, handle)| handle.offer_window(bytes, path));
    }

    /// What the transfers that have not ended ask of its streams.
    pub fn wanted_path(&self) -> PathHints {
        let (transfers, usual_congestion) = {
            let state = self.lock();
            let transfers: Vec<Transfer> = state.transfers.values().cloned().collect();
            (transfers, state.usual_congestion.clone())
        };
        let frame_bytes = crate::plan::SEGMENT_BYTES as usize;
        let mut path = PathHints { frame_bytes, usual_congestion, ..PathHints::default() };
        for transfer in transfers.iter().filter(|transfer| transfer.crossed().ended == 0) {
            let (terms, sends) = (transfer.terms(), transfer.sends());
            path.window_bytes = path.window_bytes.or(terms.window_bytes);
            path.share_bytes = path.share_bytes.or(terms.share_bytes.filter(|_| sends));
            path.dscp = path.dscp.or(terms.dscp);
            path.congestion = path.congestion.or(terms.congestion.clone().filter(|_| sends));
        }
        path
    }

    /// Gives the streams that stand what their path asks for by now: a transfer came that asks for something else than those
    /// that were there when they were dialled. A window that is offered stays.
    pub fn tune_streams(&self) {
        let path = &self.wanted_path();
        let state = self.lock();
        for (_, handle) in state.streams.values() {
            handle.tune(path);
            if state.window_offered.is_some() {
                handle.offer_window(state.window_offered, path);
            }
        }
    }

    /// Why the session cannot go on, if it cannot.
    pub fn failure(&self) -> Option<Failure> {
        self.lock().failed.clone()
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The peer's last heartbeat.
    pub fn peer_heartbeat(&self) -> Heartbeat {
        self.lock().peer
    }

    /// Gives up a stream, as if it had broken: what it carried goes back.
    pub fn lose_stream(&self, stream: u16, why: Failure) {
        let serial = self.lock().streams.get(&stream).map(|(serial, _)| *serial);
        if let Some(serial) = serial {
            self.stream_ended(stream, serial, why);
        }
    }

    /// Drops the link, as if it had fallen silent: whoever waits for it tries to get it back.
    pub fn drop_link(&self, why: Failure) {
        let epoch = self.lock().epoch;
        self.control_ended(epoch, ControlEnd::Silent(why));
    }

    /// Ends everything: says goodbye (with the reason, if it is a bad one), streams end in order, receivers
    /// keep what they have for the next attempt. Returns when the transfers are closed.
    pub fn close(&self, why: Option<Failure>) {
        let (control, streams, transfers) = {
            let mut state = self.lock();
            if std::mem::replace(&mut state.closed, true) {
                return;
            }
            state.failed = state.failed.take().or(why.clone());
            (state.control.take(), std::mem::take(&mut state.streams), std::mem::take(&mut state.transfers))
        };
        let failure = why
            .clone()
            .unwrap_or_else(|| Failure::new(FailureKind::Stopped, "transfer", "the session was closed"));
        transfers.values().for_each(|transfer| transfer.session_ends(&failure));
        if let Some(control) = control {
            let _ = control.send(Message::Goodbye(why));
            control.close();
        }
        self.bell.stop();
        for transfer in transfers.values() {
            if let Transfer::Receive(run) = transfer {
                run.close();
            }
        }
        // Whoever still sends or waits on a stream has nothing to say any more.
        streams.values().for_each(|(_, stop)| stop.stop());
        self.lock().is_put_away = true;
    }

    /// Whether it was closed, and what its transfers had is put away: whoever closed it waits for that, another does not.
    pub fn is_put_away(&self) -> bool {
        self.lock().is_put_away
    }

    /// Waits until what was said last is on its way, at most so long. Not to be called by who carries it out.
    pub fn flush(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        while self.links.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The peer broke the protocol, or we cannot go on: ends the session.
    fn fail(&self, why: Failure) {
        tracing::warn!(%why, "session ends");
        (self.events)(Event::Note(format!("session ends: {why}")));
        self.close(Some(why));
    }

    fn hear(&self, epoch: u64, message: Message) {
        let _gate = self.gate.lock().unwrap_or_else(|p| p.into_inner());
        let transfer = {
            let mut state = self.lock();
            if state.epoch != epoch || state.closed {
                return;
            }
            state.heard_at = Some(Instant::now());
            match &message {
                Message::Heartbeat(heartbeat) => {
                    // Claims that come and go shall not look like progress.
                    let verified_bytes = heartbeat.verified_bytes.max(state.peer.verified_bytes);
                    state.peer = Heartbeat { verified_bytes, ..*heartbeat };
                    return;
                }
                Message::Transfer(number, _) => state.transfers.get(number).cloned(),
                _ => None,
            }
        };
        let result = match (transfer, message) {
            (Some(transfer), Message::Transfer(_, message)) => transfer.hear(message),
            (None, Message::Transfer(number, message)) => self.keep_early(number, message),
            (_, Message::Goodbye(why)) => {
                drop(_gate);
                let failure = why.clone().unwrap_or_else(|| {
                    Failure::new(FailureKind::Connection, "transfer", "the peer ended the session")
                });
                self.lock().failed = Some(failure.clone());
                if let Ok(session) = self.strong() {
                    self.owner.on_goodbye(&session, why.as_ref());
                }
                self.close(Some(failure));
                return;
            }
            (_, message) => {
                drop(_gate);
                if let Ok(session) = self.strong() {
                    self.owner.on_message(&session, message);
                }
                return;
            }
        };
        drop(_gate);
        if let Err(failure) = result {
            self.fail(failure);
        }
    }

    fn keep_early(&self, number: TransferNumber, message: TransferMessage) -> Result<()> {
        let bytes = early_bytes(&message);
        let mut state = self.lock();
        if state.over.contains(&number) {
            return Ok(());
        }
        let held: usize = state.early.values().map(|early| early.bytes).sum();
        let is_one_more = !state.early.contains_key(&number) && state.early.len() >= limits::TRANSFERS_MAX;
        if is_one_more || held + bytes > EARLY_BYTES_MAX {
            let cause = "too much was said to transfers that are not open";
            return Err(Failure::new(FailureKind::Protocol, "hear", cause));
        }
        let early = state.early.entry(number).or_default();
        early.messages.push(message);
        early.bytes += bytes;
        Ok(())
    }

    fn control_ended(&self, epoch: u64, end: ControlEnd) {
        let fell_silent = matches!(end, ControlEnd::Silent(_));
        let why = match end {
            ControlEnd::Silent(failure) | ControlEnd::Failed(failure) => failure,
            ControlEnd::Closed | ControlEnd::PeerClosed => {
                Failure::new(FailureKind::Connection, "transfer", "the peer closed the connection")
            }
        };
        let streams = {
            let mut state = self.lock();
            if state.epoch != epoch || state.closed || state.lost_at.is_some() {
                return;
            }
            state.epoch += 1;
            state.control = None;
            // What it waited for then says nothing about now. What it verified stays so.
            let verified_bytes = state.peer.verified_bytes;
            state.peer = Heartbeat { verified_bytes, ..Heartbeat::default() };
            (state.lost_at, state.fell_silent) = (Some(Instant::now()), fell_silent);
            std::mem::take(&mut state.streams)
        };
        streams.values().for_each(|(_, stop)| stop.stop());
        for transfer in self.transfers() {
            streams.keys().for_each(|&stream| transfer.stream_lost(stream));
            transfer.link_lost();
        }
        (self.events)(Event::LinkLost(why.clone()));
        if let Ok(session) = self.strong() {
            self.owner.on_link_lost(&session, &why);
        }
    }

    /// A stream cannot go on. What the peer did wrong, or we, ends the session; anything else the stream.
    fn end_stream(&self, stream: u16, serial: u64, why: Failure) {
        if matches!(why.kind, FailureKind::Protocol | FailureKind::Internal) {
            self.fail(why);
        } else {
            self.stream_ended(stream, serial, why);
        }
    }

    fn stream_ended(&self, stream: u16, serial: u64, why: Failure) {
        let stop = {
            let mut state = self.lock();
            match state.streams.get(&stream) {
                Some((current, _)) if *current == serial => state.streams.remove(&stream),
                _ => return,
            }
        };
        if let Some((_, stop)) = stop {
            stop.stop();
        }
        self.transfers().iter().for_each(|transfer| transfer.stream_lost(stream));
        // With the session its streams end.
        if self.is_closed() || self.failure().is_some() {
            return;
        }
        (self.events)(Event::StreamLost(stream, why.clone()));
        if let Ok(session) = self.strong() {
            self.owner.on_stream_lost(&session, stream, &why);
        }
    }

    /// Whether a stream was taken out, other than at the end of the session.
    fn is_gone(&self, stream: u16, serial: u64) -> bool {
        let state = self.lock();
        !state.closed && !state.stands(stream, serial)
    }

    /// Whether a stream was taken out, at the end of the session too.
    fn is_over(&self, stream: u16, serial: u64) -> bool {
        !self.lock().stands(stream, serial)
    }

    fn senders(&self) -> Vec<Arc<SendRun>> {
        self.of_kind(|transfer| match transfer {
            Transfer::Send(run) => Some(run.clone()),
            _ => None,
        })
    }

    fn flow_senders(&self) -> Vec<Arc<FlowSend>> {
        self.of_kind(|transfer| match transfer {
            Transfer::SendFlows(run) => Some(run.clone()),
            _ => None,
        })
    }

    fn frames(&self) -> Vec<Arc<dyn FramesLink>> {
        self.of_kind(|transfer| match transfer {
            Transfer::Frames(run) => Some(run.clone()),
            _ => None,
        })
    }

    fn of_kind<T>(&self, of: impl FnMut(&Transfer) -> Option<T>) -> Vec<T> {
        self.lock().transfers.values().filter_map(of).collect()
    }

    fn transfer(&self, number: TransferNumber) -> Option<Transfer> {
        self.lock().transfers.get(&number).cloned()
    }

    fn strong(&self) -> Result<Arc<Session>> {
        self.this
            .upgrade()
            .ok_or_else(|| Failure::new(FailureKind::Stopped, "transfer", "the session is gone"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// About what a message takes in memory.
fn early_bytes(message: &TransferMessage) -> usize {
    let unfolded = match message {
        TransferMessage::Offer(entries) => {
            entries.iter().map(|entry| entry.heap_bytes() + size_of::<thalweg_wire::Entry>()).sum()
        }
        // Nobody says many others before an answer came; the largest is a message of texts.
        _ => limits::MESSAGE_BYTES_MAX / 64,
    };
    unfolded + size_of::<TransferMessage>()
}

/// What was said to a transfer that is not there yet.
#[derive(Default)]
struct Early {
    messages: Vec<TransferMessage>,
    bytes: usize,
}

struct SessionOutbox(Weak<Session>);

impl Outbox for SessionOutbox {
    fn say(&self, transfer: TransferNumber, message: TransferMessage) {
        let Some(session) = self.0.upgrade() else { return };
        if let Err(failure) = session.say(Message::Transfer(transfer, message)) {
            // Without a link nothing needs to be said: the machines start over when it stands again.
            tracing::debug!(%failure, "not said");
        }
    }

    fn work(&self) {
        if let Some(session) = self.0.upgrade() {
            session.bell.ring();
        }
    }

    fn streams(&self) -> Vec<StreamAccount> {
        self.0.upgrade().map(|session| session.stream_accounts()).unwrap_or_default()
    }
}

/// Largest payload of a frame under these terms: a segment, or a pack with its index.
pub fn payload_max(terms: &Terms) -> usize {
    terms.segment_bytes as usize + PACK_FILES * frame::PACK_ITEM_BYTES
}

/// Whether the memory that this process may have for buffers is enough for one frame under these terms. Whether it is free
/// shows when a stream asks for it.
///
/// # Errors
/// `Space`, with what is needed and what is allowed.
pub fn check_memory(terms: &Terms) -> Result<()> {
    let needed = Buffer::memory_bytes(FrameBuffer::memory_bytes(payload_max(terms)));
    match thalweg_sys::buffer::allowed().filter(|allowed| *allowed < needed) {
        None => Ok(()),
        Some(allowed) => {
            let cause =
                format!("a frame takes {needed} bytes, and {allowed} are allowed for all buffers (--memory)");
            Err(Failure::new(FailureKind::Space, failure::NO_MEMORY, cause))
        }
    }
}

/// Files in one pack, at most: so many that a pack of files of 1 KiB still fills a frame of 512 KiB.
pub const PACK_FILES: usize = 512;

/// A panic costs the session, not the process, and nobody waits for a thread that is gone.
fn guarded(work: impl FnOnce() -> Result<()>) -> Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failure::new(FailureKind::Internal, "transfer", "a stream's thread panicked"))
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| failure::of_io("start a thread", &error))
}
