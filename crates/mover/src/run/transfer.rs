//! One side of a transfer as its session sees it, whatever it moves and whichever way: what it hears of link,
//! streams and peer, what it does on a stream, and what shows how it gets on.

use crate::failure::{Failure, Result};
use crate::link::FrameBuffer;
use crate::run::party::Party;
use crate::run::sender::{Did, SendRun};
use crate::stage::receiving::Receiving;
use crate::stage::send::Outlet;
use crate::stage::{Accounts, Booking, Stage};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::{Heartbeat, Steer, Terms, TransferMessage, WaitingFor};

#[cfg(test)]
pub(crate) mod testing;

/// A side of a transfer in a session: a sender or a receiver, of files or of flows, or one end of a lane of
/// frames. What has a default here need not concern a kind.
pub trait Transfer: Send + Sync {
    /// What both sides agreed on.
    fn terms(&self) -> &Terms;

    /// Whether we send.
    fn sends(&self) -> bool;

    /// Whether it writes at the destination of this job.
    fn writes_for(&self, _job_key: &[u8; 16]) -> bool {
        false
    }

    /// Whether it removes, or is yet to remove, what its peer has of this job.
    fn removes_for(&self, _job_key: &[u8; 16]) -> bool {
        false
    }

    /// What got across so far.
    fn crossed(&self) -> Crossed;

    /// Memory of what the peer has it keep, in bytes, without buffers of streams and frames of channels; about.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Adds what it has to say to what the peer hears about once a second.
    fn add_to(&self, _heartbeat: &mut Heartbeat) {}

    /// Whether what holds it up now is the peer, and nothing that the peer says of itself excuses that.
    fn blames(&self, peer: &PeerNow) -> bool;

    /// Whether what is to be sent is not there: our own disk takes its time.
    fn is_reading(&self) -> bool {
        false
    }

    /// The peer said something to it.
    ///
    /// # Errors
    /// What ends the session.
    fn hear(&self, message: TransferMessage) -> Result<()>;

    /// The link stands (again).
    fn link_up(&self);

    /// Of a receiver: its last word, once it was said. Of one that failed without: why. The session says it again to a
    /// peer that did not hear it.
    fn last_word(&self) -> Option<TransferMessage> {
        None
    }

    /// The link is lost; it may come back. One that is added meanwhile is told too.
    fn link_lost(&self) {
        self.drop_unsaid();
    }

    /// What still waits to be said to the link that was is not for the next one, which is told everything
    /// anew.
    fn drop_unsaid(&self) {}

    /// A stream is ready. May be told twice.
    fn stream_up(&self, _stream: u16) {}

    /// A stream is gone: what it carried may never have arrived.
    fn stream_lost(&self, _stream: u16) {}

    /// Nothing more comes on this connection; see [`Transfer::take`].
    fn connection_over(&self, _connection: u64) {}

    /// Its session is gone. What may go on in another one waits for that: whoever has it ends it.
    fn detach(&self) {}

    /// Of what goes on in one session after the other: the number of the one that it was attached to last.
    fn attachment(&self) -> u64 {
        0
    }

    /// The session ends, for this reason: what cannot go on in another one ends with it. It had this
    /// [`Transfer::attachment`] when it was added to the session: what was attached to another one since is not
    /// concerned.
    fn session_ends(&self, _attachment: u64, _why: &Failure) {
        self.detach();
    }

    /// The session ended: puts away what it received. Waits for its threads.
    fn put_away(&self) {}

    /// Some times a second.
    fn tick(&self) {}

    /// Tells the peer our accounts. Ends of a lane have none to tell.
    fn tell_accounts(&self) {}

    /// Turns its knobs, from now on. Only what sends has any.
    fn steer(&self, _steer: &Steer) {}

    /// How the packets of its streams are to be spaced. `None`: it sends nothing for which that counts.
    fn spacing(&self) -> Option<Spacing> {
        None
    }

    /// Window to be kept on the streams that it receives on, in bytes, if one was asked for.
    fn kept_window_bytes(&self) -> Option<u64> {
        None
    }

    /// The sender of files that it is, which has a lane of its own on each stream. Others that send share one
    /// buffer of that, see [`Transfer::work`].
    fn files_sender(self: Arc<Self>) -> Option<Arc<SendRun>> {
        None
    }

    /// The receiver of files that it is, which has a stage of its own on each stream. Others get what comes,
    /// see [`Transfer::take`].
    fn files_receiver(self: Arc<Self>) -> Option<Arc<dyn Receiving>> {
        None
    }

    /// Bytes of payloads for which it has memory of its own on each stream that it sends on. `None`: it
    /// shares some.
    fn lane_bytes(&self) -> Option<u64> {
        None
    }

    /// Sends the next of it on a stream, if there is anything.
    ///
    /// # Errors
    /// When the stream is gone.
    fn work(&self, _stream: u16, _buffer: &mut FrameBuffer, _outlet: &mut dyn Outlet) -> io::Result<Did> {
        Ok(Did::Over)
    }

    /// A stream was held to its session's share for so long, while a frame comes that is most likely for it.
    /// What sends has its own way to book that.
    fn book_limit(&self, _held: Duration) {}

    /// Takes a wire frame, and books what receiving it took. Each connection of the session has a number of
    /// its own, which a stream has not: one that takes the place of another may bring frames while the
    /// other's last ones are still taken. A sender of files or flows ignores what comes.
    ///
    /// # Errors
    /// What ends the session.
    fn take(&self, _connection: u64, _inner: &Inner, _payload: &[u8], _received: &Reception) -> Result<()> {
        Ok(())
    }
}

/// What of a transfer got across: what the peer acknowledged, and what it sent well.
#[derive(Debug, Default, Clone, Copy)]
pub struct Crossed {
    /// Content bytes that are verified at the destination.
    pub verified_bytes: u64,
    /// Of these, durable.
    pub durable_bytes: u64,
    /// Bytes that no further session carries again: durable ones, and of frames, which nobody asks for a
    /// second time, all.
    pub kept_bytes: u64,
    /// Entries or flows that are settled.
    pub settled: u64,
    /// One, if it has ended.
    pub ended: u64,
    /// Bytes that we verified, segments of chunks that are not whole included.
    pub received_bytes: u64,
    /// Bytes that we sent: no claim of the peer counts beyond these.
    pub sent_bytes: u64,
}

impl Crossed {
    /// Of a sender of files or flows, without what the peer acknowledged.
    pub(super) fn sent(run: &impl Party) -> Crossed {
        Crossed {
            ended: u64::from(run.ended().is_some()),
            sent_bytes: run.accounts().bytes(Stage::Send),
            ..Crossed::default()
        }
    }

    /// Of a receiver of files or flows that is as far as this.
    pub(super) fn received(run: &impl Party, progress: &Heartbeat) -> Crossed {
        Crossed {
            verified_bytes: progress.verified_bytes,
            durable_bytes: progress.durable_bytes,
            kept_bytes: progress.durable_bytes,
            settled: progress.settled_entries,
            ended: u64::from(run.ended().is_some()),
            received_bytes: run.accounts().good_bytes(),
            sent_bytes: 0,
        }
    }
}

/// What a receiver of files or flows adds to a heartbeat when it is as far as this.
pub(super) fn add_received(run: &impl Party, progress: &Heartbeat, heartbeat: &mut Heartbeat) {
    let sum = heartbeat;
    // By the segment, not by the chunk: on a slow path one chunk may take longer than a stall is borne.
    sum.verified_bytes = sum.verified_bytes.saturating_add(run.accounts().good_bytes());
    sum.durable_bytes = sum.durable_bytes.saturating_add(progress.durable_bytes);
    sum.settled_entries += progress.settled_entries;
    if progress.waiting_for.is_some() && progress.waiting_ms >= sum.waiting_ms {
        (sum.waiting_for, sum.waiting_ms) = (progress.waiting_for, progress.waiting_ms);
    }
}

/// A wait for a share of so long, for a frame that is not there yet.
pub(super) fn limited(held: Duration) -> Booking {
    Booking { busy: held, ..Booking::default() }
}

/// What receiving a wire frame took.
#[derive(Debug, Clone, Copy)]
pub struct Reception {
    /// From the wait for it on, without what follows.
    pub receive: Booking,
    /// What its session was held to its share for, if it was; without what was booked as it came.
    pub limit: Option<Booking>,
}

impl Reception {
    /// Books it.
    pub fn book(&self, accounts: &Accounts) {
        if let Some(limit) = self.limit {
            accounts.book(Stage::Limit, limit);
        }
        accounts.book(Stage::Receive, self.receive);
    }
}

/// How packets of what sends are to be spaced.
#[derive(Debug, Clone, Copy)]
pub struct Spacing {
    /// The rate that it is held to, in bytes a second, if it is.
    pub rate: Option<u64>,
    /// The rate within its slot, in bytes a second; 0 without one.
    pub in_slot: u64,
    /// Streams that take its work; `usize::MAX`: all that stand.
    pub at_work: usize,
    /// It yields to others.
    pub yields: bool,
}

/// What a session knows of its peer at this moment.
#[derive(Debug, Clone, Copy)]
pub struct PeerNow {
    /// It said nothing for a while.
    pub is_silent: bool,
    /// What it said last.
    pub heartbeat: Heartbeat,
}

/// A disk that gives nothing for so long is one that hangs.
const WORK_STALL: Duration = Duration::from_secs(10);

/// Whether a side does what shows in no number, and gets on with it. A receiver reads again what is there before it is
/// gone on with, or deletes what the source does not have; a sender reads a second time what it has sent. That takes
/// its time.
pub(super) fn works_on(side: &Heartbeat) -> bool {
    let stood_for = Duration::from_millis(side.waiting_ms.into());
    match side.waiting_for {
        Some(WaitingFor::Read | WaitingFor::Write) => stood_for < WORK_STALL,
        _ => false,
    }
}

/// The same of a peer that sends. Versions from before it was told for how long it stood say 0, also while a read
/// hangs: that is no sign that it gets on.
pub(super) fn sends_on(peer: &Heartbeat) -> bool {
    peer.waiting_ms > 0 && works_on(peer)
}

/// What a sender tells of that: 1 ms at least.
pub(super) fn told_ms(stood_for: Duration) -> u32 {
    u32::try_from(stood_for.as_millis()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::flow_destination::NullFlows;
    use crate::endpoint::synthetic::{NoiseSource, NullDestination};
    use crate::event;
    use crate::failure::FailureKind;
    use crate::run::Outbox;
    use crate::run::flow::job::FlowWishes;
    use crate::run::flow::receiver::FlowReceive;
    use crate::run::flow::sender::FlowSend;
    use crate::run::receiver::ReceiveRun;
    use crate::transfer::receiver;
    use crate::transfer::sender::Limits;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use thalweg_wire::message::{TransferNumber, Until};

    struct Nobody;

    impl Outbox for Nobody {
        fn say(&self, _: TransferNumber, _: TransferMessage) {}
        fn work(&self) {}
    }

    #[test]
    fn files_end_with_their_session_and_flows_may_go_on_in_another() {
        let (number, terms) = (TransferNumber(0), Terms::of(4 << 20, 1 << 20));
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let limits = Limits::for_path(&terms, None);
        let files = SendRun::new(number, source, terms.clone(), limits, Box::new(Nobody), event::nobody());
        let flows = FlowSend::new(terms, FlowWishes::new(Until::default()).terms, event::nobody());
        flows.attach(number, Box::new(Nobody), None);
        let both: [Arc<dyn Transfer>; 2] = [files, flows];
        let why = Failure::new(FailureKind::Connection, "transfer", "cut off");
        both.iter().for_each(|transfer| transfer.session_ends(transfer.attachment(), &why));
        assert_eq!(both.map(|transfer| transfer.crossed().ended), [1, 0]);
    }

    /// Counts what is said, and of that who gives up.
    #[derive(Clone, Default)]
    struct Counts(Arc<AtomicUsize>, Arc<AtomicUsize>);

    impl Outbox for Counts {
        fn say(&self, _: TransferNumber, message: TransferMessage) {
            self.0.fetch_add(1, Ordering::AcqRel);
            if matches!(message, TransferMessage::Abort(_)) {
                self.1.fetch_add(1, Ordering::AcqRel);
            }
        }

        fn work(&self) {}
    }

    /// The thread that ends the one may be held up for longer than it takes to begin the next.
    #[test]
    fn a_session_that_is_late_to_end_takes_nothing_from_the_next_one_of_a_flow() {
        let (number, terms, said) = (TransferNumber(0), Terms::of(4 << 20, 1 << 20), Counts::default());
        let wishes = FlowWishes::new(Until::default());
        let sends = FlowSend::new(terms.clone(), wishes.terms.clone(), event::nobody());
        let takes = FlowReceive::start(Arc::new(NullFlows), terms, &wishes.terms, event::nobody()).unwrap();
        sends.attach(number, Box::new(Nobody), None);
        takes.attach(number, Box::new(Nobody), None);
        let both: [Arc<dyn Transfer>; 2] = [sends.clone(), takes.clone()];
        let first = both.each_ref().map(|transfer| transfer.attachment());
        sends.attach(number, Box::new(said.clone()), None);
        takes.attach(number, Box::new(said.clone()), None);
        let tells = |transfer: &Arc<dyn Transfer>| {
            let before = said.0.load(Ordering::Acquire);
            transfer.tell_accounts();
            said.0.load(Ordering::Acquire) - before
        };
        let why = Failure::new(FailureKind::Connection, "transfer", "cut off");
        both.iter().zip(first).for_each(|(transfer, first)| transfer.session_ends(first, &why));
        assert_eq!(both.each_ref().map(tells), [1, 1], "it has its link");
        let no_word = || [sends.why_no_statement(), takes.why_no_statement()].map(|why| why.is_some());
        assert_eq!(no_word(), [false, false], "its peer's is waited for");
        both.iter().for_each(|transfer| transfer.session_ends(transfer.attachment(), &why));
        assert_eq!(both.each_ref().map(tells), [0, 0]);
        assert_eq!(no_word(), [true, true]);
        takes.close();
    }

    /// A new link is in place before transfers know of it: what they said to it of the old one, and once more when they
    /// do, its peer took for a breach.
    #[test]
    fn between_two_links_nothing_is_said() {
        let (number, terms, said) = (TransferNumber(0), Terms::of(4 << 20, 1 << 20), Counts::default());
        let outbox = || Box::new(said.clone());
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let limits = Limits::for_path(&terms, None);
        let sends = SendRun::new(number, source, terms.clone(), limits, outbox(), event::nobody());
        let (destination, limits) = (Arc::new(NullDestination::default()), receiver::Limits::default());
        let receives =
            ReceiveRun::start(number, destination, terms.clone(), limits, outbox(), event::nobody()).unwrap();
        let wishes = FlowWishes::new(Until::default());
        let flows = FlowSend::new(terms.clone(), wishes.terms.clone(), event::nobody());
        flows.attach(number, outbox(), None);
        let takes = FlowReceive::start(Arc::new(NullFlows), terms, &wishes.terms, event::nobody()).unwrap();
        takes.attach(number, outbox(), None);
        let all: [Arc<dyn Transfer>; 4] = [sends.clone(), receives.clone(), flows.clone(), takes.clone()];
        for transfer in &all {
            transfer.link_lost();
            let before = said.0.load(Ordering::Acquire);
            transfer.tell_accounts();
            assert_eq!(said.0.load(Ordering::Acquire), before, "it is for no link");
            transfer.link_up();
            let before = said.0.load(Ordering::Acquire);
            transfer.tell_accounts();
            assert_eq!(said.0.load(Ordering::Acquire), before + 1);
        }
        // Why it failed meanwhile is said on the next one.
        let full = || Failure::new(FailureKind::Space, "write", "no space is left");
        let aborts: [&dyn Fn(); 4] =
            [&|| sends.abort(full()), &|| receives.abort(full()), &|| flows.abort(full()), &|| {
                takes.abort(full())
            }];
        for (transfer, abort) in all.iter().zip(aborts) {
            transfer.link_lost();
            let before = said.1.load(Ordering::Acquire);
            abort();
            assert_eq!(said.1.load(Ordering::Acquire), before, "it is for no link");
            transfer.link_up();
            assert_eq!(said.1.load(Ordering::Acquire), before + 1, "nobody says why");
        }
        let why = Failure::new(FailureKind::Stopped, "transfer", "the test is over");
        for transfer in all {
            transfer.session_ends(transfer.attachment(), &why);
            transfer.put_away();
        }
    }

    #[test]
    fn who_reads_again_or_deletes_is_borne_as_long_as_that_goes_on() {
        let says = |waiting_for, waiting_ms| Heartbeat { waiting_for, waiting_ms, ..Heartbeat::default() };
        assert!(works_on(&says(Some(WaitingFor::Read), 9_999)));
        assert!(works_on(&says(Some(WaitingFor::Write), 9_999)), "it deletes");
        assert!(!works_on(&says(Some(WaitingFor::Read), 10_000)), "a disk that hangs is not read");
        assert!(!works_on(&says(Some(WaitingFor::Sync), 0)));
        assert!(!works_on(&Heartbeat::default()));
        let sends = |stood_for| sends_on(&says(Some(WaitingFor::Read), told_ms(stood_for)));
        assert!(sends(Duration::ZERO) && sends(Duration::from_secs(9)) && !sends(Duration::from_secs(10)));
        assert!(!sends_on(&says(Some(WaitingFor::Read), 0)), "an older sender says that for ever");
        assert_eq!(told_ms(Duration::MAX), u32::MAX);
    }
}
