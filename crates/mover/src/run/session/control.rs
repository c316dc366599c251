//! The control channel of a session: one link at a time. What comes on it is heard by the transfers, or kept for those
//! that are not there yet.

use super::Session;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::link::{Connection, ControlChannel, ControlEnd};
use crate::mutex::lock;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_wire::limits;
use thalweg_wire::message::{Heartbeat, Message, TransferMessage, TransferNumber};

/// What is kept for transfers that are not there yet, as it unfolds in memory: a sender may offer all that may be under
/// way before the receiver's side stands.
const EARLY_BYTES_MAX: usize = limits::ENTRY_BYTES_IN_FLIGHT_MAX
    + limits::MESSAGE_BYTES_MAX
    + limits::ENTRIES_IN_FLIGHT_MAX * size_of::<thalweg_wire::Entry>();

/// Links of a session that have not ended, the one that stands included: one that was replaced ends as soon as its
/// thread is through with what it does.
const LINKS_MAX: usize = 4;

/// What was said to a transfer that is not there yet.
#[derive(Default)]
pub(super) struct Early {
    pub(super) messages: Vec<TransferMessage>,
    bytes: usize,
}

impl Session {
    /// Whether another link may take the place of that which stands: not too many have not ended yet.
    pub fn has_room_for_link(&self) -> bool {
        self.links.load(Ordering::Acquire) < LINKS_MAX
    }

    /// What is wrong where it may not.
    pub fn too_many_links() -> Failure {
        Failure::new(FailureKind::Busy, "resume", "earlier links of the session have not ended yet")
    }

    /// Puts a control connection in place, the first or one after an outage. Transfers that are there begin
    /// to talk again.
    ///
    /// # Errors
    /// If the session is closed, or there is no thread to be had; `Busy` if [`LINKS_MAX`] of its links have not ended.
    pub fn attach_control(&self, connection: Connection) -> Result<()> {
        let gate = lock(&self.gate);
        let closed = || Failure::new(FailureKind::Connection, "resume", "the session is closed");
        let epoch = {
            let state = self.lock();
            if state.closed {
                return Err(closed());
            }
            if !self.has_room_for_link() {
                return Err(Session::too_many_links());
            }
            // Only that of the new link once it is in place: until then the one that stands is heard.
            state.epoch + 1
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
        // Before the new one is there: no thread may say to it what is for the old one.
        let (old, streams) = {
            let mut state = self.lock();
            (state.control.take(), std::mem::take(&mut state.streams))
        };
        streams.values().for_each(|(_, stop)| stop.stop());
        for transfer in self.transfers() {
            streams.keys().for_each(|&stream| transfer.stream_lost(stream));
            transfer.link_lost();
        }
        let (transfers, was_lost) = {
            let mut state = self.lock();
            if state.closed {
                // Who closed it meanwhile found no link to say so on.
                let why = state.failed.clone();
                drop(state);
                let _ = handle.send(Message::Goodbye(why));
                handle.close();
                self.lock().closing = Some(handle);
                if let Some(old) = old {
                    old.end_at_once(replaced());
                }
                return Err(closed());
            }
            (state.control, state.epoch) = (Some(handle), epoch);
            state.forget_early();
            state.failed = None;
            let lost = state.without_link_since().map(|since| since.elapsed());
            (state.lost_at, state.fell_silent, state.heard_at) = (None, false, Some(Instant::now()));
            if let Some(lost) = lost {
                state.outages.lost(lost);
            }
            (state.peer_address, state.rtt) = (peer_address, rtt);
            state.usual_congestion = usual_congestion;
            let transfers: Vec<_> = state.transfers.values().cloned().collect();
            (transfers, lost)
        };
        if let Some(old) = old {
            // Its peer is at the new one. It would keep what is queued, for as long as nobody takes that.
            old.end_at_once(replaced());
        }
        transfers.iter().for_each(|transfer| transfer.link_up());
        self.tell_failed();
        drop(gate);
        if let Some(lost) = was_lost {
            (self.events)(Event::LinkUp(lost));
        }
        Ok(())
    }

    /// Says again why transfers that are not there any more failed: their peers would wait for them in vain.
    fn tell_failed(&self) {
        let is_failed = |(_, word): &&(_, TransferMessage)| matches!(word, TransferMessage::Abort(_));
        let failed: Vec<_> = self.lock().last_words.iter().filter(is_failed).cloned().collect();
        for (number, word) in failed {
            let _ = self.say(Message::Transfer(number, word));
        }
    }

    /// Drops the link, as if it had fallen silent: whoever waits for it tries to get it back.
    pub fn drop_link(&self, why: Failure) {
        let epoch = self.lock().epoch;
        self.control_ended(epoch, ControlEnd::Silent(why));
    }

    fn hear(&self, epoch: u64, message: Message) {
        let _gate = lock(&self.gate);
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
                // It hears nothing more.
                self.close_saying(Some(failure), 0);
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

    /// Memory of what the peer has us keep, in bytes; about: of transfers, of what was said to those that are
    /// not there yet, and what it does not take. Buffers of streams, and frames of channels, have bounds of
    /// their own.
    pub fn held_bytes(&self) -> usize {
        let (early, closing, transfers): (usize, _, Vec<_>) = {
            let state = self.lock();
            let early = state.early.values().map(|early| early.bytes).sum();
            (early, state.closing.clone(), state.transfers.values().cloned().collect())
        };
        let closing = closing.map_or(0, |control| control.queued_bytes());
        early
            + closing
            + self.queued_bytes()
            + transfers.iter().map(|transfer| transfer.held_bytes()).sum::<usize>()
    }

    fn keep_early(&self, number: TransferNumber, message: TransferMessage) -> Result<()> {
        let bytes = size_of::<TransferMessage>() + message.heap_bytes();
        let mut state = self.lock();
        if state.over.contains(&number) {
            use TransferMessage as T;
            let is_last = matches!(message, T::Receipt(_) | T::Unsigned | T::SourcesDone(_));
            // What became of source files may be an answer itself: a statement would be answered by it again, for ever.
            let is_done = matches!(message, T::SourcesDone(_));
            let answers = |word: &T| !is_done || matches!(word, T::SourcesHeard | T::Abort(_));
            let is_said = |of: TransferNumber, word: &T| is_last && of == number && answers(word);
            let said = state.last_words.iter().find(|(of, word)| is_said(*of, word)).cloned();
            drop(state);
            // It says its own again because it did not hear ours.
            if let Some((number, word)) = said {
                let _ = self.say(Message::Transfer(number, word));
            }
            return Ok(());
        }
        let held: usize = state.early.values().map(|early| early.bytes).sum();
        let is_one_more = !state.early.contains_key(&number) && state.early.len() >= limits::TRANSFERS_MAX;
        if is_one_more || held + bytes > EARLY_BYTES_MAX {
            let cause = "too much was said to transfers that are not open";
            return Err(Failure::new(FailureKind::Protocol, "read messages", cause));
        }
        let early = state.early.entry(number).or_default();
        early.messages.push(message);
        early.bytes += bytes;
        Ok(())
    }

    pub(super) fn control_ended(&self, epoch: u64, end: ControlEnd) {
        // A link may end before it is in place: its end is noted when it is, or nobody would ever dial another.
        let gate = lock(&self.gate);
        let fell_silent = matches!(end, ControlEnd::Silent(_));
        let why = match end {
            ControlEnd::Silent(failure) | ControlEnd::Failed(failure) => failure,
            ControlEnd::Closed | ControlEnd::PeerClosed => {
                Failure::new(FailureKind::Connection, "transfer", "the peer closed the connection")
            }
        };
        let (control, streams) = {
            let mut state = self.lock();
            if state.epoch != epoch || state.closed || state.lost_at.is_some() {
                return;
            }
            state.epoch += 1;
            let control = state.control.take();
            state.forget_early();
            // What it waited for then says nothing about now. What it verified stays so.
            let verified_bytes = state.peer.verified_bytes;
            state.peer = Heartbeat { verified_bytes, ..Heartbeat::default() };
            (state.lost_at, state.fell_silent) = (Some(Instant::now()), fell_silent);
            (control, std::mem::take(&mut state.streams))
        };
        if let Some(control) = control {
            // Where it stands and only its streams do not get on: the next one is told all of it again.
            control.end_at_once(why.clone());
        }
        streams.values().for_each(|(_, stop)| stop.stop());
        for transfer in self.transfers() {
            streams.keys().for_each(|&stream| transfer.stream_lost(stream));
            transfer.link_lost();
        }
        drop(gate);
        (self.events)(Event::LinkLost(why.clone()));
        if let Ok(session) = self.strong() {
            self.owner.on_link_lost(&session, &why);
        }
    }
}

/// Why a link ended that the peer does not use any more.
fn replaced() -> Failure {
    Failure::new(FailureKind::Connection, "transfer", "another link took its place")
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Owner;
    use super::*;
    use crate::endpoint::Source;
    use crate::endpoint::synthetic::{NoiseSource, NullDestination};
    use crate::endpoint::testing::{HeldUp, Panics};
    use crate::event;
    use crate::link::testing::{LONG, connected, unix_pair};
    use crate::link::{ControlLimits, Fingerprint};
    use crate::run::flow::job::FlowWishes;
    use crate::run::flow::sender::FlowSend;
    use crate::run::party::Party;
    use crate::run::receiver::ReceiveRun;
    use crate::run::sender::{SendRun, Sources};
    use crate::run::transfer::testing::Double;
    use crate::run::{Ended, Outbox};
    use crate::transfer::{receiver, sender};
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;
    use thalweg_wire::hello::Cipher;
    use thalweg_wire::message::{Reply, SourceTotals, Terms, Until};
    use thalweg_wire::{Digest, EntryId, RelativePath};

    struct Nobody;

    impl Owner for Nobody {
        fn on_message(&self, _: &Arc<Session>, _: Message) {}
        fn on_link_lost(&self, _: &Arc<Session>, _: &Failure) {}
        fn on_goodbye(&self, _: &Arc<Session>, _: Option<&Failure>) {}
        fn on_stream_lost(&self, _: &Arc<Session>, _: u16, _: &Failure) {}
    }

    pub(in super::super) fn session(limits: ControlLimits) -> Arc<Session> {
        session_telling(limits, event::nobody())
    }

    fn session_telling(limits: ControlLimits, events: event::Events) -> Arc<Session> {
        let (key, peer) = ([2u8; 32].into(), Fingerprint([3; 32]));
        Session::new([1; 16], key, Cipher::Aes128Gcm, peer, limits, Box::new(Nobody), events).unwrap()
    }

    /// It is given up only once another can be had: by then nothing came for long.
    #[test]
    fn a_link_that_fell_silent_was_gone_since_something_came_over_it() {
        const SILENCE: Duration = Duration::from_millis(300);
        let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
        let (told, hears) = std::sync::mpsc::channel();
        let session = session_telling(limits, Arc::new(move |event| drop(told.send(event))));
        let (ours, _peer_that_says_nothing) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        std::thread::sleep(SILENCE);
        session.drop_link(Failure::new(FailureKind::Connection, "transfer", "silence"));
        let (ours, _other) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        assert!(matches!(hears.recv_timeout(LONG), Ok(Event::LinkLost(_))));
        let back = hears.recv_timeout(LONG);
        assert!(matches!(back, Ok(Event::LinkUp(after)) if after >= SILENCE), "{back:?}");
        session.close(None);
    }

    #[test]
    fn a_link_that_ends_while_it_is_put_in_place_is_lost_when_it_stands() {
        let session = session(ControlLimits::default());
        // As it is held by who puts it there.
        let gate = session.gate.lock().unwrap();
        let ending = {
            let session = session.clone();
            std::thread::spawn(move || session.control_ended(0, ControlEnd::PeerClosed))
        };
        // Long enough for the other thread, if it did not wait.
        std::thread::sleep(Duration::from_millis(200));
        assert!(session.lost_since().is_none(), "putting it in place would hide that it is lost");
        drop(gate);
        ending.join().unwrap();
        assert!(session.lost_since().is_some());
    }

    /// What nobody takes who does not read.
    fn say_much(session: &Session, messages: usize) {
        for _ in 0..messages {
            let reply = Reply::Bytes(vec![7; 1 << 20]);
            session.say(Message::Reply { number: 1, reply }).unwrap();
        }
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + LONG;
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Each had a thread, a socket and what was queued for its peer, for as long as that might have taken it.
    #[test]
    fn links_that_were_replaced_do_not_stay_though_nobody_reads_what_was_said_on_them() {
        let session = session(ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() });
        let mut peers_that_do_not_read = Vec::new();
        for _ in 0..64 {
            let (ours, theirs) = connected(unix_pair());
            peers_that_do_not_read.push(theirs);
            match session.attach_control(ours) {
                Ok(()) => say_much(&session, 4),
                // Those before it are through in a moment.
                Err(failure) => assert_eq!(failure.kind, FailureKind::Busy, "{failure}"),
            }
            assert!(session.links.load(Ordering::Acquire) <= LINKS_MAX);
            assert!(session.held_bytes() < 5 << 20, "what was queued for others is kept");
        }
        until("all but one end", || session.links.load(Ordering::Acquire) == 1);
        session.close(Some(Failure::new(FailureKind::Stopped, "test", "it is over")));
        assert!(session.has_links() && session.held_bytes() <= limits::MESSAGE_BYTES_MAX);
        session.end_link();
        until("that of a session that was closed ends too", || !session.has_links());
    }

    #[test]
    fn nothing_of_what_is_queued_is_kept_for_a_peer_that_said_goodbye() {
        let session = session(ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() });
        let (ours, mut theirs) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        say_much(&session, 8);
        assert!(session.held_bytes() > 4 << 20);
        theirs.write_all(&Message::Goodbye(None).encode().unwrap(), LONG).unwrap();
        until("it goes on", || session.is_put_away());
        assert!(session.held_bytes() < 1 << 20);
        session.end_link();
    }

    /// Has said its last word.
    fn last() -> Arc<Double> {
        let last_word = Some(TransferMessage::Unsigned);
        Arc::new(Double { sends: true, last_word, ..Double::default() })
    }

    /// The link that took the word along took the receiver's reason to be there too.
    #[test]
    fn who_says_its_last_word_again_to_one_that_is_gone_hears_the_last_word_of_that() {
        let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
        let (here, there) = (session(limits), session(limits));
        let (ours, theirs) = connected(unix_pair());
        here.attach_control(ours).unwrap();
        there.attach_control(theirs).unwrap();
        let number = TransferNumber(1);
        let waits = last();
        here.add(number, waits.clone()).unwrap();
        there.add(number, last()).unwrap();
        there.remove(number);
        here.outbox().say(number, TransferMessage::Unsigned);
        waits.wait_to_hear();
        assert_eq!(*lock(&waits.heard), [TransferMessage::Unsigned]);
        here.close(None);
        there.close(None);
    }

    /// The daemon had waited in vain for the client to come back and hear it.
    #[test]
    fn what_became_of_source_files_is_said_to_who_says_its_statement_again_and_no_statement_answers_it() {
        let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
        let (here, there) = (session(limits), session(limits));
        let [number, over, next] = [1, 2, 3].map(TransferNumber);
        let terms = Terms::of(4 << 20, 1 << 20);
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let bounds = sender::Limits::for_path(&terms, None);
        let run = SendRun::new(number, source, terms, bounds, there.outbox(), event::nobody());
        there.add(number, run.clone()).unwrap();
        run.tell_sources(&Sources::default(), &|| true);
        there.remove(number);
        let (ours, theirs) = connected(unix_pair());
        here.attach_control(ours).unwrap();
        there.attach_control(theirs).unwrap();
        let waits = last();
        here.add(number, waits.clone()).unwrap();
        here.outbox().say(number, TransferMessage::Unsigned);
        waits.wait_to_hear();
        let done = TransferMessage::SourcesDone(SourceTotals::default());
        assert_eq!(*lock(&waits.heard), std::slice::from_ref(&done));
        // Of a client that is gone and had not heard it.
        let (hears, hears_next) = (last(), last());
        for (number, hears) in [(over, &hears), (next, &hears_next)] {
            here.add(number, last()).unwrap();
            here.remove(number);
            there.add(number, hears.clone()).unwrap();
        }
        there.outbox().say(over, done);
        there.outbox().say(next, TransferMessage::Unsigned);
        // It is answered behind what was said before.
        hears_next.wait_to_hear();
        assert!(lock(&hears.heard).is_empty(), "it would be said again for that");
        here.close(None);
        there.close(None);
    }

    /// It was left out, and the peer waited for it on each link anew.
    #[test]
    fn what_is_too_long_to_be_said_ends_the_session_at_both_sides_which_say_why() {
        let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
        let (here, there) = (session(limits), session(limits));
        let (ours, theirs) = connected(unix_pair());
        here.attach_control(ours).unwrap();
        there.attach_control(theirs).unwrap();
        let name = RelativePath::new(vec![b'x'; limits::NAME_BYTES_MAX]).unwrap();
        let names = vec![name; limits::MESSAGE_BYTES_MAX / limits::NAME_BYTES_MAX];
        here.outbox().say(TransferNumber(1), TransferMessage::Deleted(names));
        let until = Instant::now() + LONG;
        while !(here.is_closed() && there.is_closed()) {
            assert!(Instant::now() < until, "somebody waits for it");
            std::thread::sleep(Duration::from_millis(2));
        }
        for session in [here, there] {
            let failure = session.failure().unwrap();
            assert_eq!(failure.kind, FailureKind::Internal, "{failure}");
            assert!(
                failure.cause.contains("Deleted") && failure.cause.contains("above the limit"),
                "{failure}"
            );
        }
    }

    #[test]
    fn what_is_for_one_link_is_not_said_to_the_next() {
        let session = session(ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() });
        let word = || Message::Taken { number: 1, pieces: 1 };
        let (ours, _first) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        let epoch = session.epoch();
        session.say_in(epoch, word()).unwrap();
        let (ours, _second) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        session.say_in(epoch, word()).unwrap_err();
        session.say_in(session.epoch(), word()).unwrap();
    }

    #[test]
    fn a_session_that_is_closed_while_it_gets_another_link_says_so_on_that() {
        let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
        let (here, there) = (session(limits), session(limits));
        let closes = Arc::downgrade(&here);
        let on_link_lost = Box::new(move || {
            if let Some(session) = closes.upgrade() {
                session.close(None);
            }
        });
        let transfer = Double { on_link_lost, ..Double::default() };
        here.add(TransferNumber(1), Arc::new(transfer)).unwrap();
        let (ours, theirs) = connected(unix_pair());
        there.attach_control(theirs).unwrap();
        assert_eq!(here.attach_control(ours).unwrap_err().kind, FailureKind::Connection);
        let until = Instant::now() + LONG;
        while !there.is_closed() {
            assert!(Instant::now() < until, "it waits for one that is gone");
            std::thread::sleep(Duration::from_millis(2));
        }
        there.close(None);
    }

    /// A producer of frames that was taken for one with a link kept its name from the session that it came back in.
    #[test]
    fn a_transfer_that_is_added_after_the_link_was_lost_hears_that() {
        let session = session(ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() });
        let (ours, _theirs) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        let losses = Arc::new(AtomicUsize::new(0));
        let add = |number| {
            let told = losses.clone();
            let on_link_lost = Box::new(move || {
                told.fetch_add(1, Ordering::AcqRel);
            });
            let transfer = Double { on_link_lost, ..Double::default() };
            session.add(TransferNumber(number), Arc::new(transfer)).unwrap();
            losses.load(Ordering::Acquire)
        };
        assert_eq!(add(1), 0, "it stands");
        session.drop_link(Failure::new(FailureKind::Connection, "transfer", "cut off"));
        assert_eq!(add(2), 2, "one heard it then, and one when it came");
    }

    #[test]
    fn what_was_said_on_another_link_to_a_transfer_that_is_not_there_is_not_heard() {
        let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
        let (here, there) = (session(limits), session(limits));
        let link = || {
            let (ours, theirs) = connected(unix_pair());
            here.attach_control(ours).unwrap();
            there.attach_control(theirs).unwrap();
        };
        let number = TransferNumber(1);
        let say = |word| {
            here.outbox().say(number, word);
            let until = Instant::now() + LONG;
            while there.lock().early.is_empty() {
                assert!(Instant::now() < until, "it does not come");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        link();
        say(TransferMessage::Unsigned);
        link();
        assert!(there.lock().early.is_empty(), "the peer says it again");
        say(TransferMessage::SourcesHeard);
        there.drop_link(Failure::new(FailureKind::Connection, "transfer", "cut off"));
        assert!(there.lock().early.is_empty());
        here.close(None);
        there.close(None);
    }

    /// The word was said to a link that was dead and not known to be: the peer waited out its patience.
    #[test]
    fn why_a_transfer_failed_is_said_again_to_a_peer_that_comes_back() {
        let orders = [true, false].map(|is_removed| [(true, is_removed), (false, is_removed)]);
        // Taken out before the next link stands, or after that.
        for (sends, is_removed) in orders.concat() {
            let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
            let (here, there) = (session(limits), session(limits));
            let (ours, _dead) = connected(unix_pair());
            there.attach_control(ours).unwrap();
            let (number, terms) = (TransferNumber(1), Terms::of(4 << 20, 1 << 20));
            let waits = last();
            here.add(number, waits.clone()).unwrap();
            let full = Failure::new(FailureKind::Space, "write", "no space is left");
            if sends {
                let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
                let bounds = sender::Limits::for_path(&terms, None);
                let run = SendRun::new(number, source, terms, bounds, there.outbox(), event::nobody());
                there.add(number, run.clone()).unwrap();
                run.abort(full.clone());
            } else {
                let destination = Arc::new(NullDestination::default());
                let (bounds, outbox) = (receiver::Limits::default(), there.outbox());
                let run = ReceiveRun::start(number, destination, terms, bounds, outbox, event::nobody());
                let run = run.unwrap();
                there.add(number, run.clone()).unwrap();
                run.abort(full.clone());
                run.close();
            }
            if is_removed {
                there.remove(number);
            }
            let (ours, theirs) = connected(unix_pair());
            here.attach_control(ours).unwrap();
            there.attach_control(theirs).unwrap();
            if !is_removed {
                there.remove(number);
            }
            there.tell_over(number, full.clone());
            let until = Instant::now() + LONG;
            while !lock(&waits.heard).contains(&TransferMessage::Abort(full.clone())) {
                assert!(Instant::now() < until, "nobody says why");
                std::thread::sleep(Duration::from_millis(2));
            }
            here.close(None);
            there.close(None);
        }
    }

    #[test]
    fn a_thread_that_panics_at_one_side_ends_the_transfer_at_both() {
        for (panics, thread) in [(Panics::Scan, "scan"), (Panics::Decide, "decide")] {
            let limits = ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() };
            let (here, there) = (session(limits), session(limits));
            let (ours, theirs) = connected(unix_pair());
            here.attach_control(ours).unwrap();
            there.attach_control(theirs).unwrap();
            let (number, terms) = (TransferNumber(1), Terms::of(4 << 20, 1 << 20));
            let destination = Arc::new(HeldUp::new(panics));
            let (bounds, outbox) = (receiver::Limits::default(), there.outbox());
            let receiver =
                ReceiveRun::start(number, destination, terms.clone(), bounds, outbox, event::nobody())
                    .unwrap();
            there.add(number, receiver.clone()).unwrap();
            let source: Arc<dyn Source> = match panics {
                Panics::Scan => Arc::new(panics),
                _ => Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 }),
            };
            let (bounds, outbox) = (sender::Limits::for_path(&terms, None), here.outbox());
            let sender = SendRun::new(number, source, terms, bounds, outbox, event::nobody());
            here.add(number, sender.clone()).unwrap();
            sender.start().unwrap();
            for ended in [sender.wait(2 * LONG), receiver.wait(2 * LONG)] {
                let Some(Ended::Failed(failure)) = &ended else { panic!("{panics:?}: {ended:?}") };
                assert_eq!(failure.kind, FailureKind::Internal, "{failure}");
                assert!(failure.cause.contains(&format!("`{thread}` panicked")), "{failure}");
            }
            here.close(None);
            there.close(None);
        }
    }

    #[test]
    fn a_message_that_the_link_has_no_room_for_is_the_end_of_the_link() {
        let limits =
            ControlLimits { stall_timeout: 10 * LONG, queue_bytes_max: 4 << 20, ..ControlLimits::default() };
        let session = session(limits);
        let (ours, _peer_that_does_not_read) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        let outbox = session.outbox();
        for _ in 0..16 {
            let digests = vec![Digest([7; 32]); thalweg_wire::limits::MESSAGE_DIGESTS_MAX];
            let message = TransferMessage::Have { entry: EntryId(1), first: 0, digests };
            outbox.say(TransferNumber(1), message);
        }
        let until = Instant::now() + LONG;
        while session.lost_since().is_none() {
            assert!(Instant::now() < until, "the message is lost and the link is not");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(session.fell_silent() && outbox.queued_bytes() == 0);
    }

    /// Counts what is said.
    struct Counts(Arc<AtomicUsize>);

    impl Outbox for Counts {
        fn say(&self, _: TransferNumber, _: TransferMessage) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }

        fn work(&self) {}
    }

    /// Who closes it may be held up for longer than it takes to begin the next.
    #[test]
    fn a_stream_that_goes_on_in_the_next_session_keeps_its_link_when_the_one_before_has_ended() {
        let session = session(ControlLimits::default());
        let flow = FlowWishes::new(Until::default()).terms;
        let flows = FlowSend::new(Terms::of(4 << 20, 1 << 20), flow, event::nobody());
        flows.attach(TransferNumber(2), session.outbox(), None);
        let said = Arc::new(AtomicUsize::new(0));
        // It is ended first. Meanwhile who has the stream sees that the session is closed.
        let on_session_ends = {
            let (session, flows, said) = (session.clone(), flows.clone(), said.clone());
            Box::new(move || {
                assert!(session.is_closed());
                flows.attach(TransferNumber(1), Box::new(Counts(said.clone())), None);
            })
        };
        let slow = Double { on_session_ends, ..Double::default() };
        session.add(TransferNumber(1), Arc::new(slow)).unwrap();
        session.add(TransferNumber(2), flows.clone()).unwrap();
        session.close(None);
        let before = said.load(Ordering::Acquire);
        flows.tell_accounts();
        assert_eq!(said.load(Ordering::Acquire), before + 1);
    }
}
