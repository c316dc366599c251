//! A session: what two movers share, whatever connections it rides on at the moment.
//!
//! It owns the control channel, the streams and the transfers. When the control channel ends, the streams end
//! with it and the transfers stay, until the client comes back ([`Session::attach_control`] again) or nobody
//! waits any longer ([`Session::close`]). Each stream has two threads: one asks the senders of the session
//! for work, one hands frames to its receivers; a direction that is not used costs a sleeping thread.

use crate::basin::Outages;
use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::{ControlHandle, ControlLimits, Fingerprint, FrameBuffer, StopHandle, statement_tie};
use crate::mutex::lock;
use crate::run::bell::Bell;
use crate::run::sender::{SendLane, SendRun};
use crate::run::share::{Share, Waited};
use crate::run::transfer::Transfer;
use crate::run::{Outbox, thread};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};
use thalweg_sys::Buffer;
use thalweg_sys::socket::TcpInfo;
use thalweg_wire::account::{LimitAccount, StreamAccount};
use thalweg_wire::hello::{Cipher, SessionId};
use thalweg_wire::message::{Heartbeat, Message, Terms, TransferMessage, TransferNumber, WaitingFor};
use thalweg_wire::{Digest, frame, limits};
use zeroize::Zeroizing;

// The link, and what is said on it.
mod control;

// Which streams there are.
mod stream_set;

// What each of them does.
mod streams;

// What they received and are not through with.
mod in_hand;

// What is looked at all the while.
mod keeping;

// What the looks at the streams show.
mod looks;

use control::Early;
use in_hand::InHand;
use looks::Looks;

/// How often receivers are told the time.
const TICK: Duration = Duration::from_millis(100);
/// Streams and the keeper look at least this often, whatever they were told.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Last words that are kept, of some KiB each: of as many transfers as may be there at a time.
const LAST_WORDS_MAX: usize = limits::TRANSFERS_MAX;

/// What is said before the reason why a session ends badly, at most: a peer that has left more unread takes none of it,
/// and it would be kept meanwhile.
const LEFT_TO_SAY_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX;

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
    /// It was closed, for whatever reason, and what its transfers had is put away.
    fn on_closed(&self, _session: &Session) {}
    /// A stream is gone while the link stands.
    fn on_stream_lost(&self, session: &Arc<Session>, stream: u16, why: &Failure);
    /// The peer broke the protocol, or we cannot go on: the session ends.
    fn on_failed(&self, _session: &Session, why: &Failure) {
        tracing::warn!(%why, "session ends");
    }
    /// Nothing more comes on a connection of a stream, which has this number in the session: what its kernel says last.
    /// Called once for each.
    fn on_stream_over(&self, _session: &Session, _connection: u64, _last: &TcpInfo) {}
    /// A stream on which we send gets nothing across, and is about to be given up.
    fn on_stream_stuck(&self, _session: &Arc<Session>, _stream: u16) {}
    /// Bytes of a stream after which [`Owner::before_taking`] is to be asked again.
    fn portion_bytes(&self) -> usize {
        usize::MAX
    }
    /// More is about to be taken from a stream, on which `took` bytes came since the last time: may wait, while
    /// `is_over` says no.
    fn before_taking(&self, _session: &Session, _took: u64, _is_over: &dyn Fn() -> bool) {}
}

/// Takes the number of a connection of a stream in its session, and what its kernel said last.
pub type HearsLast = Box<dyn Fn(u64, &TcpInfo) + Send + Sync>;

/// See the module.
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Its key: proves that a stream belongs to it.
    pub key: Zeroizing<[u8; 32]>,
    /// How its data streams are protected.
    pub cipher: Cipher,
    /// Whom it was begun with: nobody else may join it, whatever they know.
    pub peer: Fingerprint,
    /// Name of the ticket that the peer came with, where its server has tickets, and what that keeps of it.
    ticket: OnceLock<(String, Option<Arc<dyn Any + Send + Sync>>)>,
    limits: ControlLimits,
    owner: Box<dyn Owner>,
    events: Events,
    state: Mutex<State>,
    /// Held while a link is put in place, so that nothing is heard before the transfers know of it; and while one is
    /// lost, so that this comes after it.
    gate: Mutex<()>,
    bell: Bell,
    /// Control channels that have not ended yet.
    links: AtomicUsize,
    /// Largest payload that a transfer of this session may carry: what receiving streams have memory for.
    payload_max: AtomicUsize,
    /// Its share of what all sessions of a server may move.
    share: OnceLock<Share>,
    /// Its share of what all sessions of its ticket may.
    ticket_share: OnceLock<Share>,
    /// Hears the last of each stream's kernel, beside the owner.
    hears_last: OnceLock<HearsLast>,
    /// What its streams received and are not through with.
    in_hand: InHand,
    /// Streams that wait for that.
    waiting_for_share: AtomicUsize,
    /// Whether one began to since that was last said.
    waited_for_share: AtomicBool,
    /// Whether a transfer ever had one in an export: where none has, as at a client, streams look without the lock.
    any_transfer_shares: AtomicBool,
    this: Weak<Session>,
}

#[derive(Default)]
struct State {
    control: Option<ControlHandle>,
    /// The link of a session that was closed: it says what is left, while the peer takes that.
    closing: Option<ControlHandle>,
    epoch: u64,
    transfers: BTreeMap<TransferNumber, Arc<dyn Transfer>>,
    /// What each of them said of itself when it was added: see [`Transfer::session_ends`].
    attachments: BTreeMap<TransferNumber, u64>,
    /// Shares of transfers, of what their exports may move.
    shares: BTreeMap<TransferNumber, Arc<Share>>,
    early: BTreeMap<TransferNumber, Early>,
    /// Transfers that were taken out: what is still on its way to them is ignored. Grows with what the client
    /// began in this session, by a few bytes each.
    over: BTreeSet<TransferNumber>,
    /// What the latest of them said last, for peers that did not hear it: those that received or said what became of
    /// source files, and all that failed.
    last_words: VecDeque<(TransferNumber, TransferMessage)>,
    streams: BTreeMap<u16, (u64, StopHandle)>,
    stream_serial: u64,
    /// Bytes that each stream got across, and since when there were no more though it tries.
    delivered: BTreeMap<u16, (u64, Instant)>,
    /// The most that each stream was seen to deliver in a second, where it had enough to send.
    fastest: BTreeMap<u16, u64>,
    /// What was seen of them all the while.
    looks: Looks,
    closed: bool,
    /// What its transfers had is put away.
    is_put_away: bool,
    failed: Option<Failure>,
    /// Why something could not be said that the peer waits for: see [`SessionOutbox`].
    unsaid: Option<Failure>,
    lost_at: Option<Instant>,
    /// Those that are over.
    outages: Outages,
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
    sampled: BTreeMap<u16, (u64, TcpInfo)>,
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

    /// Bytes of payloads for which each stream has memory to send, with another transfer if there is `more`: every
    /// sender of files has its own, all others share some. Those that have `ended` and are only not taken out yet do
    /// not count.
    fn sends_bytes(&self, more: Option<&Arc<dyn Transfer>>, ended: &BTreeSet<TransferNumber>) -> u64 {
        let (mut lanes, mut shared) = (0u64, 0u64);
        let under_way = self.transfers.iter().filter(|(number, _)| !ended.contains(number));
        let transfers = under_way.map(|(_, transfer)| transfer).chain(more);
        for transfer in transfers.filter(|transfer| transfer.sends()) {
            match transfer.lane_bytes() {
                Some(bytes) => lanes += bytes,
                None => shared = shared.max(payload_max(transfer.terms()) as u64),
            }
        }
        lanes + shared
    }

    /// Since when there is no link, if there is none. One that fell silent carried nothing since it was heard last.
    fn without_link_since(&self) -> Option<Instant> {
        let silent_since = self.heard_at.filter(|_| self.fell_silent);
        self.lost_at.map(|lost| silent_since.unwrap_or(lost))
    }

    /// The link is another, or gone: the peer says all of it again.
    fn forget_early(&mut self) {
        self.early.clear();
    }

    fn keep_last_word(&mut self, number: TransferNumber, word: TransferMessage) {
        self.last_words.retain(|(of, _)| *of != number);
        self.last_words.push_back((number, word));
        if self.last_words.len() > LAST_WORDS_MAX {
            self.last_words.pop_front();
        }
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
            ticket: OnceLock::new(),
            limits,
            owner,
            events,
            state: Mutex::default(),
            gate: Mutex::default(),
            bell: Bell::default(),
            links: AtomicUsize::new(0),
            payload_max: AtomicUsize::new(limits::SEGMENT_BYTES_MIN as usize),
            share: OnceLock::new(),
            ticket_share: OnceLock::new(),
            hears_last: OnceLock::new(),
            in_hand: InHand::new(Instant::now()),
            waiting_for_share: AtomicUsize::new(0),
            waited_for_share: AtomicBool::new(false),
            any_transfer_shares: AtomicBool::new(false),
            this: this.clone(),
        });
        let (keeper, failing) = (Arc::downgrade(&session), Arc::downgrade(&session));
        let on_panic = move |why| {
            if let Some(session) = failing.upgrade() {
                session.fail(why);
            }
        };
        thread::guarded("keeper", on_panic, move || {
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

    /// Says with which ticket the peer came, and what is kept of that for as long as the session, if anything is. To be
    /// called before it has a link; a second time it does nothing.
    pub fn set_ticket<T: Any + Send + Sync>(&self, name: String, kept: Option<Arc<T>>) {
        let kept = kept.map(|kept| -> Arc<dyn Any + Send + Sync> { kept });
        let _ = self.ticket.set((name, kept));
    }

    /// Name of the ticket that the peer came with; `None` where there are none.
    pub fn ticket(&self) -> Option<&str> {
        self.ticket.get().map(|(name, _)| name.as_str())
    }

    /// What is kept of that ticket; `None` if that is nothing of this type.
    pub fn kept_of_ticket<T: Any>(&self) -> Option<&T> {
        self.ticket.get()?.1.as_ref()?.downcast_ref()
    }

    /// Has it move no more than its share. To be called before it has streams; a second time it does nothing.
    pub fn share_in(&self, share: Share) {
        let _ = self.share.set(share);
    }

    /// Has it move no more than its share of what all sessions of its ticket may, beside that. As
    /// [`Session::share_in`].
    pub fn share_in_ticket(&self, share: Share) {
        let _ = self.ticket_share.set(share);
    }

    /// Has this hear what the owner hears by [`Owner::on_stream_over`], from now on. A second time it does nothing.
    pub fn hear_last(&self, hears: HearsLast) {
        let _ = self.hears_last.set(hears);
    }

    /// Its shares, whatever is moved.
    fn shares(&self) -> impl Iterator<Item = &Share> {
        self.ticket_share.get().into_iter().chain(self.share.get())
    }

    /// Has a transfer move no more than its share of what its export may, beside that. To be called before it is added;
    /// a second time it does nothing.
    pub fn share_transfer(&self, number: TransferNumber, share: Share) {
        self.lock().shares.entry(number).or_insert_with(|| Arc::new(share));
        self.any_transfer_shares.store(true, Ordering::Release);
    }

    /// The share of a transfer of what its export may move, if it has one.
    fn own_share(&self, number: TransferNumber) -> Option<Arc<Share>> {
        if !self.any_transfer_shares.load(Ordering::Acquire) {
            return None;
        }
        self.lock().shares.get(&number).cloned()
    }

    /// Waits for its shares of so many bytes, while `goes_on`, and says for how long, and whether they go.
    /// Before it waits it calls `before`.
    fn wait_for_share(
        &self,
        bytes: u64,
        mut goes_on: impl FnMut() -> bool,
        before: impl FnOnce(),
    ) -> Option<Waited> {
        let mut before = Some(before);
        let mut begins = || {
            if let Some(before) = before.take() {
                before();
            }
        };
        let mut all: Option<Waited> = None;
        for share in self.shares() {
            let Some(waited) = self.wait_in(share, bytes, &mut goes_on, &mut begins) else { continue };
            let time = all.map_or(Duration::ZERO, |all| all.time) + waited.time;
            all = Some(Waited { time, goes: waited.goes });
            if !waited.goes {
                break;
            }
        }
        all
    }

    /// The same in this share, which may be that of a transfer.
    fn wait_in(
        &self,
        share: &Share,
        bytes: u64,
        goes_on: impl FnMut() -> bool,
        before: impl FnOnce(),
    ) -> Option<Waited> {
        let begins = || {
            before();
            self.waited_for_share.store(true, Ordering::Release);
            self.waiting_for_share.fetch_add(1, Ordering::AcqRel);
        };
        let waited = share.wait(bytes, goes_on, begins)?;
        self.waiting_for_share.fetch_sub(1, Ordering::AcqRel);
        Some(waited)
    }

    /// Whether any of its streams waits for its share, or did since this was last asked.
    fn waits_for_share(&self) -> bool {
        let waited = self.waited_for_share.swap(false, Ordering::AcqRel);
        waited || self.waiting_for_share.load(Ordering::Acquire) > 0
    }

    /// What it is called in logs: 16 hexadecimal digits, on whatever connections it rides.
    pub fn name(&self) -> String {
        name_of(&self.id)
    }

    /// What ties the statements of a transfer to this session.
    pub fn tie(&self, transfer: TransferNumber) -> Digest {
        statement_tie(&self.key, transfer)
    }

    /// Adds a transfer. What the peer said to it already on the link that stands is heard now; where none stands any
    /// more, it is told so.
    ///
    /// # Errors
    /// `Protocol` if its number is taken or there are too many; `Connection` if the session is closed.
    pub fn add(&self, number: TransferNumber, transfer: Arc<dyn Transfer>) -> Result<()> {
        self.add_in(None, number, transfer)
    }

    /// The same, if the link of this [`Session::epoch`] still stands, where one is given.
    pub(super) fn add_in(
        &self,
        epoch: Option<u64>,
        number: TransferNumber,
        transfer: Arc<dyn Transfer>,
    ) -> Result<()> {
        let _gate = lock(&self.gate);
        check_memory(transfer.terms())?;
        let payload_max = if transfer.sends() { 0 } else { payload_max(transfer.terms()) };
        let attachment = transfer.attachment();
        let ended = self.ended();
        let (early, streams, is_lost) = {
            let mut state = self.lock();
            if state.closed {
                // Nobody would ever end it.
                return Err(Failure::new(FailureKind::Connection, "open", "the session is closed"));
            }
            if epoch.is_some_and(|epoch| epoch != state.epoch) {
                let cause = "the link was lost before the transfer began";
                return Err(Failure::new(FailureKind::Connection, "open", cause));
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
            // The bound is for each direction.
            let bytes = state.sends_bytes(Some(&transfer), &ended).max(payload_max as u64);
            if state.streams.len() as u64 * bytes > limits::STREAM_BYTES_MAX {
                return Err(Failure::new(FailureKind::Protocol, "open", TOO_MUCH_MEMORY));
            }
            self.payload_max.fetch_max(payload_max, Ordering::AcqRel);
            state.transfers.insert(number, transfer.clone());
            state.attachments.insert(number, attachment);
            let streams: Vec<u16> = state.streams.keys().copied().collect();
            let early = state.early.remove(&number).unwrap_or_default().messages;
            (early, streams, state.lost_at.is_some())
        };
        // Not under our own lock: a transfer calls us while it holds its own.
        if is_lost {
            transfer.link_lost();
        }
        streams.into_iter().for_each(|stream| transfer.stream_up(stream));
        for message in early {
            if let Err(failure) = transfer.hear(message) {
                self.remove(number);
                return Err(failure);
            }
        }
        self.bell.ring_for_all();
        Ok(())
    }

    /// Takes a transfer out; what is said to it from now on is ignored, and its number is not used again.
    pub fn remove(&self, number: TransferNumber) -> Option<Arc<dyn Transfer>> {
        // Not under our own lock: a transfer calls us while it holds its own.
        let last_word = self.transfer(number).and_then(|transfer| transfer.last_word());
        let mut state = self.lock();
        if let Some(word) = last_word {
            state.keep_last_word(number, word);
        }
        state.over.insert(number);
        state.early.remove(&number);
        state.attachments.remove(&number);
        state.shares.remove(&number);
        state.transfers.remove(&number)
    }

    /// Tells the peer why a transfer that was taken out ended badly, unless that itself did, and tells it again on each
    /// link that follows: with this one it may be lost. Where it is over too, that is ignored.
    pub fn tell_over(&self, number: TransferNumber, why: Failure) {
        let word = TransferMessage::Abort(why);
        {
            let mut state = self.lock();
            let said = state.last_words.iter().find(|(of, _)| *of == number);
            if matches!(said, Some((_, TransferMessage::Abort(_)))) {
                return;
            }
            state.keep_last_word(number, word.clone());
        }
        // Without a link the next one is told.
        let _ = self.say(Message::Transfer(number, word));
    }

    /// Transfers that have ended and are not taken out yet. Never under our own lock: a transfer calls us while it
    /// holds its own.
    fn ended(&self) -> BTreeSet<TransferNumber> {
        let transfers: Vec<_> =
            self.lock().transfers.iter().map(|(number, transfer)| (*number, transfer.clone())).collect();
        let ended = transfers.into_iter().filter(|(_, transfer)| transfer.crossed().ended > 0);
        ended.map(|(number, _)| number).collect()
    }

    /// Whether the streams that stand have memory for the frames of so many transfers that are like the largest under
    /// way.
    pub(super) fn has_frames_for(&self, transfers: usize) -> bool {
        let state = self.lock();
        let of_each = |transfer: &Arc<dyn Transfer>| SendLane::payload_bytes(transfer.terms());
        let most = state.transfers.values().map(of_each).max().unwrap_or(0);
        state.streams.len() as u64 * most * transfers as u64 <= limits::STREAM_BYTES_MAX
    }

    /// So many transfers were taken out.
    pub(super) fn transfers_over(&self) -> usize {
        self.lock().over.len()
    }

    /// Transfers in it.
    pub fn transfers(&self) -> Vec<Arc<dyn Transfer>> {
        self.lock().transfers.values().cloned().collect()
    }

    /// The transfer with this number, if it is in it.
    pub fn transfer(&self, number: TransferNumber) -> Option<Arc<dyn Transfer>> {
        self.lock().transfers.get(&number).cloned()
    }

    /// Says something outside of transfers.
    ///
    /// # Errors
    /// `Connection` without a link; `Permission` if the peer ended the session because it does not let us in.
    pub fn say(&self, message: Message) -> Result<()> {
        let control = self.lock().control.clone();
        match control {
            Some(control) => control.send(message),
            None => Err(self.without_link("there is no link at the moment")),
        }
    }

    /// The same, to the link of this [`Session::epoch`] and to none in its place: what was said before may be lost with
    /// that one.
    ///
    /// # Errors
    /// `Connection` if it does not stand any more; `Permission` as [`Session::say`].
    pub fn say_in(&self, epoch: u64, message: Message) -> Result<()> {
        let control = {
            let state = self.lock();
            state.control.clone().filter(|_| state.epoch == epoch)
        };
        match control {
            Some(control) => control.send(message),
            None => Err(self.without_link("the link was lost")),
        }
    }

    /// Why nothing can be said: a peer that does not let us in (any more) has said so, and no other link helps.
    fn without_link(&self, cause: &str) -> Failure {
        let refused = self.failure().filter(|failure| failure.kind == FailureKind::Permission);
        refused.unwrap_or_else(|| Failure::new(FailureKind::Connection, "send", cause))
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

    /// The same, if a link stands.
    pub fn link_epoch(&self) -> Option<u64> {
        let state = self.lock();
        state.control.as_ref().map(|_| state.epoch)
    }

    /// Since when there is no link, if there is none.
    pub fn lost_since(&self) -> Option<Instant> {
        self.lock().lost_at
    }

    /// How often its link was lost so far and for how long in all, with the time that it is lost now.
    pub fn outages(&self) -> Outages {
        let state = self.lock();
        let mut outages = state.outages;
        if let Some(since) = state.without_link_since() {
            outages.lost(since.elapsed());
        }
        outages
    }

    /// Whether the link was lost because nothing came of it any more, as in an outage. Else its other end was closed:
    /// the peer's process may have ended.
    pub fn fell_silent(&self) -> bool {
        self.lock().fell_silent
    }

    /// The peer's end of the link that stands, or stood last; `None` for what is no internet socket.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.lock().peer_address
    }

    /// The shortest round trip on the control connection that stands, or stood last, by the time that it was put in
    /// place; `None` for what is no TCP socket. Of a connection that is forwarded it is only the way to who forwards
    /// it.
    pub fn rtt(&self) -> Option<Duration> {
        self.lock().rtt
    }

    /// When the peer last said something. It does so about once a second.
    pub fn heard_at(&self) -> Option<Instant> {
        self.lock().heard_at
    }

    /// Why the session cannot go on, if it cannot.
    pub fn failure(&self) -> Option<Failure> {
        self.lock().failed.clone()
    }

    /// Why `operation` does not go on in a session that was closed.
    pub fn why_closed(&self, operation: &str) -> Failure {
        let ended = || Failure::new(FailureKind::Connection, operation, "the session ended");
        self.failure().unwrap_or_else(ended)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The peer's last heartbeat.
    pub fn peer_heartbeat(&self) -> Heartbeat {
        self.lock().peer
    }

    /// Ends everything: says goodbye (with the reason, if it is a bad one), streams end in order, receivers
    /// keep what they have for the next attempt. Returns when the transfers are closed.
    pub fn close(&self, why: Option<Failure>) {
        let most = if why.is_some() { LEFT_TO_SAY_BYTES_MAX } else { usize::MAX };
        self.close_saying(why, most);
    }

    /// The same. Of what is queued nothing is said before the goodbye if it is more than so many bytes.
    fn close_saying(&self, why: Option<Failure>, bytes_max: usize) {
        let (control, streams, transfers, attachments) = {
            let mut state = self.lock();
            if std::mem::replace(&mut state.closed, true) {
                return;
            }
            state.failed = state.failed.take().or(why.clone());
            // Nobody will hear it.
            state.early.clear();
            let (control, streams) = (state.control.take(), std::mem::take(&mut state.streams));
            (control, streams, std::mem::take(&mut state.transfers), std::mem::take(&mut state.attachments))
        };
        let failure = why
            .clone()
            .unwrap_or_else(|| Failure::new(FailureKind::Stopped, "transfer", "the session was closed"));
        for (number, transfer) in &transfers {
            // Some may go on in the next session by now: whoever has them sees that this one is closed.
            transfer.session_ends(attachments.get(number).copied().unwrap_or_default(), &failure);
        }
        if let Some(control) = control {
            control.forget_beyond(bytes_max);
            let _ = control.send(Message::Goodbye(why));
            control.close();
            self.lock().closing = Some(control);
        }
        self.bell.stop();
        transfers.values().for_each(|transfer| transfer.put_away());
        // Whoever still sends or waits on a stream has nothing to say any more.
        streams.values().for_each(|(_, stop)| stop.stop());
        self.owner.on_closed(self);
        self.lock().is_put_away = true;
    }

    /// Whether it was closed, and what its transfers had is put away: whoever closed it waits for that, another does
    /// not.
    pub fn is_put_away(&self) -> bool {
        self.lock().is_put_away
    }

    /// Whether links of it have not ended: each has a thread and a socket. Of a session that was closed, what was said
    /// last is on its way.
    pub fn has_links(&self) -> bool {
        self.links.load(Ordering::Acquire) > 0
    }

    /// Ends the link of a session that was closed, whatever is left to say on it. Else it does nothing.
    pub fn end_link(&self) {
        let closing = self.lock().closing.clone();
        if let Some(control) = closing {
            let cause = "what was left to say is given up";
            control.end_at_once(Failure::new(FailureKind::Connection, "end a session", cause));
        }
    }

    /// Waits until what was said last is on its way, at most so long. Not to be called by who carries it out.
    pub fn flush(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        while self.has_links() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The same, but for the peer's end: until the kernel has what was said last.
    pub fn flush_own(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let is_said = || self.lock().closing.as_ref().is_some_and(ControlHandle::has_said_all);
        while self.has_links() && !is_said() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The peer broke the protocol, or we cannot go on: ends the session.
    fn fail(&self, why: Failure) {
        self.owner.on_failed(self, &why);
        (self.events)(Event::Note(format!("session ends: {why}")));
        self.close(Some(why));
    }

    fn files_senders(&self) -> Vec<Arc<SendRun>> {
        self.lock().transfers.values().filter_map(|transfer| transfer.clone().files_sender()).collect()
    }

    /// The first transfer that receives.
    fn first_that_receives(&self) -> Option<TransferNumber> {
        self.lock().transfers.iter().find(|(_, transfer)| !transfer.sends()).map(|(number, _)| *number)
    }

    /// What sends and has no memory of its own for that.
    fn others_that_send(&self) -> Vec<(TransferNumber, Arc<dyn Transfer>)> {
        let shares = |transfer: &Arc<dyn Transfer>| transfer.sends() && transfer.lane_bytes().is_none();
        let state = self.lock();
        let others = state.transfers.iter().filter(|(_, transfer)| shares(transfer));
        others.map(|(number, transfer)| (*number, transfer.clone())).collect()
    }

    fn strong(&self) -> Result<Arc<Session>> {
        self.this
            .upgrade()
            .ok_or_else(|| Failure::new(FailureKind::Stopped, "transfer", "the session is gone"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// See [`Session::name`].
pub fn name_of(id: &SessionId) -> String {
    format!("{:016x}", u128::from_be_bytes(*id) >> 64)
}

/// What transfers say. Without a link nothing needs to be said: the machines start over when it stands again. One that
/// has no room for it ends. But what no peer takes would be left out on every link, and waited for: that ends the
/// session.
struct SessionOutbox(Weak<Session>);

impl Outbox for SessionOutbox {
    fn say(&self, transfer: TransferNumber, message: TransferMessage) {
        let Some(session) = self.0.upgrade() else { return };
        let Err(failure) = session.say(Message::Transfer(transfer, message)) else { return };
        if failure.kind == FailureKind::Internal {
            // By the keeper: who says it holds the lock of its transfer, which ends with the session.
            session.lock().unsaid.get_or_insert(failure);
        } else {
            tracing::debug!(%failure, "not said");
        }
    }

    fn work(&self) {
        if let Some(session) = self.0.upgrade() {
            session.bell.ring();
        }
    }

    fn work_for_all(&self) {
        if let Some(session) = self.0.upgrade() {
            session.bell.ring_for_all();
        }
    }

    fn queued_bytes(&self) -> usize {
        self.0.upgrade().map_or(0, |session| session.queued_bytes())
    }

    fn excuses_peer(&self) -> bool {
        let writes = |session: &Session| session.peer_heartbeat().waiting_for == Some(WaitingFor::Write);
        self.0.upgrade().is_some_and(|session| session.lost_since().is_some() || writes(&session))
    }

    fn streams(&self) -> Vec<StreamAccount> {
        self.0.upgrade().map(|session| session.stream_accounts()).unwrap_or_default()
    }

    fn limit(&self, transfer: TransferNumber) -> Option<LimitAccount> {
        let session = self.0.upgrade()?;
        let lower = |limit: &LimitAccount| limit.bytes_per_s;
        let of_all = session.shares().filter_map(Share::told).min_by_key(lower);
        let own = session.own_share(transfer);
        let of_export = own.as_ref().and_then(|share| share.told());
        match own.and_then(|share| share.is_what_binds()) {
            // One that is no more limits nothing.
            Some(true) => of_export.or(of_all),
            Some(false) => of_all.or(of_export),
            None => of_all.into_iter().chain(of_export).min_by_key(lower),
        }
    }
}

/// Largest payload of a frame under these terms: a segment, or a pack with its index.
pub fn payload_max(terms: &Terms) -> usize {
    terms.segment_bytes as usize + PACK_FILES * frame::PACK_ITEM_BYTES
}

/// Whether the memory that this process may have for buffers is enough for one frame under these terms. Whether it is
/// free shows when a stream asks for it.
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
            Err(failure::no_memory(cause))
        }
    }
}

/// Files in one pack, at most: so many that a pack of files of 1 KiB still fills a frame of 512 KiB, the most of a
/// pack.
const PACK_FILES: usize = 512;
