//! What a stream's two threads do: one asks the senders for work, one hands frames to the receivers.

use super::{LOOK_AGAIN, Session, payload_max};
use crate::failure::{self, Result};
use crate::link::{FrameBuffer, FrameReader, FrameWriter, Meanwhile, Received};
use crate::run::party::Party;
use crate::run::sender::{Did, SendLane};
use crate::run::share::Share;
use crate::run::transfer::Reception;
use crate::stage::intake::Intake;
use crate::stage::receiving::Receiving;
use crate::stage::send::{Outlet, Queued};
use crate::stage::{Booking, Clocks};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::TransferNumber;

impl Session {
    pub(super) fn send_loop(&self, stream: u16, serial: u64, writer: FrameWriter) -> Result<()> {
        let mut out = Out { writer, session: self, stream: (stream, serial), transfer: None, own: None };
        let mut lanes: HashMap<TransferNumber, SendLane> = HashMap::new();
        let mut shared_buffer: Option<FrameBuffer> = None;
        let broken = |error: io::Error| failure::of_io("send", &error);
        let no_memory = |error: io::Error| failure::of_memory("send", &error);
        loop {
            if self.is_gone(stream, serial) {
                // Only reading or the link showed it. Whoever breaks streams shall not collect threads and sockets
                // here.
                return Ok(());
            }
            let seen = self.bell.rings();
            let (mut pause, mut worked) = (LOOK_AGAIN, false);
            let (mut waits, mut stands_by) = (false, false);
            let mut note = |did: Did| match did {
                Did::Work => worked = true,
                Did::Nothing(at_most) => {
                    waits = true;
                    pause = pause.min(at_most.unwrap_or(LOOK_AGAIN));
                }
                Did::StandBy => stands_by = true,
                Did::Over => {}
            };
            let senders = self.files_senders();
            lanes.retain(|number, _| senders.iter().any(|run| run.number() == *number));
            for run in senders {
                if let Entry::Vacant(place) = lanes.entry(run.number()) {
                    place.insert(run.lane(stream).map_err(no_memory)?);
                }
                let Some(lane) = lanes.get_mut(&run.number()) else { continue };
                out.transfer = Some(run.number());
                note(run.work(lane, &mut out).map_err(broken)?);
            }
            let others = self.others_that_send();
            let has = shared_buffer.as_ref().map(FrameBuffer::payload_max);
            match others.iter().map(|(_, run)| payload_max(run.terms())).max() {
                // Its memory is not counted any more.
                None => shared_buffer = None,
                Some(bytes) if has.is_none_or(|has| has < bytes) => {
                    shared_buffer = Some(FrameBuffer::new(bytes).map_err(no_memory)?);
                }
                Some(_) => {}
            }
            for (number, run) in others {
                let Some(buffer) = &mut shared_buffer else { continue };
                out.transfer = Some(number);
                note(run.work(stream, buffer, &mut out).map_err(broken)?);
            }
            if worked {
                continue;
            }
            let goes_on = match stands_by && !waits {
                true => self.bell.stand_by(seen, pause),
                false => self.bell.wait(seen, pause),
            };
            if !goes_on {
                out.writer.finish().map_err(broken)?;
                return Ok(());
            }
        }
    }

    pub(super) fn receive_loop(&self, stream: u16, serial: u64, mut reader: FrameReader) -> Result<()> {
        let payload_max = || self.payload_max.load(Ordering::Acquire);
        let mut buffer = FrameBuffer::new(payload_max()).map_err(|e| failure::of_memory("receive", &e))?;
        let mut intakes = Intakes {
            by_transfer: HashMap::new(),
            session: self,
            stream: (stream, serial),
            last: None,
            own: None,
            took: 0,
            held: HeldTime::default(),
        };
        loop {
            let since = Clocks::read();
            let inner = match reader.receive_up_to(&mut buffer, payload_max, &mut intakes)? {
                Received::Frame(inner) => inner,
                Received::End => return Ok(()),
                Received::Cut(error) => return Err(failure::of_io("receive", &error)),
            };
            let came = Clocks::read();
            let payload = buffer.payload().len();
            let reception = reception(&inner, payload, came.since(since), std::mem::take(&mut intakes.held));
            intakes.came(inner.transfer, payload);
            let _in_hand = self.in_hand.take(came.wall());
            if !intakes.by_transfer.contains_key(&inner.transfer)
                && let Some(transfer) = self.transfer(inner.transfer)
            {
                let Some(run) = transfer.clone().files_receiver() else {
                    transfer.take(serial, &inner, buffer.payload(), &reception)?;
                    continue;
                };
                intakes.by_transfer.retain(|number, _| self.transfer(*number).is_some());
                let intake = Intake::new(run.clone(), u32::from(stream));
                intakes.by_transfer.insert(inner.transfer, (run, intake));
            }
            let intakes = &mut intakes.by_transfer;
            if let Some((run, intake)) = intakes.get_mut(&inner.transfer) {
                reception.book(run.accounts());
                intake.take(came, &inner, &mut buffer, payload)?;
            }
        }
    }
}

/// The sending half of a stream, as long as it is one of its session.
struct Out<'a> {
    writer: FrameWriter,
    session: &'a Session,
    stream: (u16, u64),
    /// Whose work it does.
    transfer: Option<TransferNumber>,
    /// The transfer that it did work for last, of those that have a share of what their exports may move, and that.
    own: Option<(TransferNumber, Arc<Share>)>,
}

impl Out<'_> {
    /// The share of the transfer that it works for, if its export has one: it never gets another. That there is none is
    /// not kept.
    fn own_share(&mut self) -> Option<Arc<Share>> {
        let number = self.transfer?;
        if self.own.as_ref().is_none_or(|(of, _)| *of != number) {
            self.own = Some((number, self.session.own_share(number)?));
        }
        self.own.as_ref().map(|(_, share)| share.clone())
    }
}

impl Outlet for Out<'_> {
    fn put(&mut self, buffer: &mut FrameBuffer, payload: usize, inner: &Inner) -> io::Result<()> {
        self.writer.put(buffer, payload, inner)
    }

    fn is_over(&self) -> bool {
        let (stream, serial) = self.stream;
        self.session.is_over(stream, serial)
    }

    fn unsent_bytes(&self) -> u64 {
        Outlet::unsent_bytes(&self.writer)
    }

    fn queued(&self) -> Queued {
        Outlet::queued(&self.writer)
    }

    fn wait_for_share(&mut self, bytes: u64, goes_on: &mut dyn FnMut() -> bool) -> bool {
        let (stream, serial) = self.stream;
        let session = self.session;
        let mut goes_on = || goes_on() && !session.is_over(stream, serial);
        let own = self.own_share();
        let waited = own.as_ref().and_then(|share| session.wait_in(share, bytes, &mut goes_on, || {}));
        if waited.is_some_and(|waited| !waited.goes) {
            return true;
        }
        let of_all = session.wait_for_share(bytes, goes_on, || {});
        if let (Some(share), Some(of_all)) = (&own, of_all) {
            share.note_beside(of_all.time);
        }
        of_all.or(waited).is_some()
    }
}

/// For how long a stream was held to its session's share while a frame came.
#[derive(Debug, Default, Clone, Copy)]
struct HeldTime {
    all: Duration,
    /// What of it no transfer was told yet.
    unbooked: Duration,
}

/// What receiving this frame took: wall time and CPU time since its stream began to wait for it, and what of that it
/// was held. A limit is one of bytes as they are sent: of the `payload`.
fn reception(inner: &Inner, payload: usize, (wall, cpu): (Duration, Duration), held: HeldTime) -> Reception {
    let wall = wall.saturating_sub(held.all);
    let input = wall.saturating_sub(cpu);
    let bytes = u64::from(inner.raw_bytes);
    let receive = Booking { busy: wall - input, input, cpu, bytes, items: 1, ..Booking::default() };
    let is_held = !held.all.is_zero();
    let (busy, sent) = (held.unbooked, payload as u64);
    let limit = is_held.then(|| Booking { busy, bytes: sent, items: 1, ..Booking::default() });
    Reception { receive, limit }
}

/// Receiving stages of one stream, by transfer.
struct Intakes<'a> {
    by_transfer: HashMap<TransferNumber, (Arc<dyn Receiving>, Intake)>,
    session: &'a Session,
    stream: (u16, u64),
    /// Whose frame came last.
    last: Option<TransferNumber>,
    /// For whom more comes, most likely, and the share of that transfer of what its export may move, if it has one.
    own: Option<(TransferNumber, Arc<Share>)>,
    /// Bytes of which the owner was not told.
    took: usize,
    /// Since the last frame was whole.
    held: HeldTime,
}

impl Intakes<'_> {
    /// The share of the transfer that more comes for, if its export has one. Whose a frame is shows only with its end:
    /// until then it counts as in [`Intakes::book_held`].
    fn own_share(&mut self) -> Option<Arc<Share>> {
        let number = self.last.or_else(|| self.session.first_that_receives())?;
        // That there is none is not kept: frames may come before their transfer is opened.
        if self.own.as_ref().is_none_or(|(of, _)| *of != number) {
            self.own = self.session.own_share(number).map(|share| (number, share));
        }
        self.own.as_ref().map(|(_, share)| share.clone())
    }

    /// A frame of so many bytes is whole, and is for this transfer. If it was taken for that of a transfer of another
    /// export, what was waited for there counts as that of both. What it took last is waited for in its own.
    fn came(&mut self, number: TransferNumber, bytes: usize) {
        let waited_in = self.own.as_ref().map(|(_, share)| share.clone());
        self.last = Some(number);
        let Some(share) = self.own_share() else { return };
        if waited_in.is_none_or(|waited_in| !waited_in.is_of_one_total_with(&share)) {
            share.charge(bytes.saturating_sub(self.took) as u64);
        }
    }

    /// Books a wait for its session's share at once: at a low limit a frame takes long, and one that is lost
    /// never ends. Whose it is shows only with its end: until then it counts as that of the transfer whose frame
    /// came last, or of the first that receives.
    fn book_held(&mut self, time: Duration) {
        self.held.all += time;
        let of_last = self.last.and_then(|number| self.session.transfer(number));
        let receives = || self.session.transfers().into_iter().find(|transfer| !transfer.sends());
        match of_last.or_else(receives) {
            Some(transfer) => transfer.book_limit(time),
            None => self.held.unbooked += time,
        }
    }
}

/// What came last is waited for by nobody on this stream any more: by who comes next, or a peer that dials anew
/// all the time had it for nothing.
impl Drop for Intakes<'_> {
    fn drop(&mut self) {
        self.session.shares().for_each(|share| share.charge(self.took as u64));
        if let Some((_, share)) = &self.own {
            share.charge(self.took as u64);
        }
    }
}

/// Their writes end while the stream waits for frames.
impl Meanwhile for Intakes<'_> {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.by_transfer.values().filter_map(|(_, intake)| intake.fd()).collect()
    }

    fn notice(&mut self) {
        self.by_transfer.values_mut().for_each(|(_, intake)| intake.notice());
    }

    fn settle(&mut self) {
        self.by_transfer.values_mut().for_each(|(_, intake)| intake.settle());
    }

    fn portion_bytes(&self) -> usize {
        let session = self.session;
        let own = self.own.as_ref().map(|(_, share)| &**share);
        let of_shares = session.shares().chain(own).map(Share::portion_bytes);
        session.owner.portion_bytes().min(of_shares.min().unwrap_or(usize::MAX))
    }

    fn before_portion(&mut self) {
        let (session, (stream, serial)) = (self.session, self.stream);
        let is_over = || session.is_over(stream, serial);
        let took = std::mem::take(&mut self.took);
        session.owner.before_taking(session, took as u64, &is_over);
        let mut goes = true;
        // What has ended meanwhile is told first: it may be long until the next look.
        let own = self.own_share();
        if let Some(share) = &own
            && let Some(waited) = session.wait_in(share, took as u64, || !is_over(), || self.settle())
        {
            goes = waited.goes;
            self.book_held(waited.time);
        }
        if let Some(waited) = session.wait_for_share(took as u64, || !is_over(), || self.settle()) {
            goes &= waited.goes;
            if let Some(share) = &own {
                share.note_beside(waited.time);
            }
            self.book_held(waited.time);
        }
        // They came, and nobody waits for them here any more.
        self.took += if goes { 0 } else { took };
    }

    fn took(&mut self, bytes: usize) {
        self.took += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::session;
    use super::*;
    use crate::link::ControlLimits;
    use crate::run::share::Total;
    use crate::run::steer::Rate;
    use crate::run::transfer::testing::Double;

    /// Of a session that may move a byte a second, and a stream that is lost.
    fn limited() -> (Arc<Session>, Arc<Total>) {
        let (session, rate) = (session(ControlLimits::default()), Arc::new(Rate::new(Some(1))));
        let total = Total::new(rate, "dtn1".to_owned());
        session.share_in(total.share());
        (session, total)
    }

    fn intakes(session: &Session, took: usize) -> Intakes<'_> {
        let (by_transfer, held) = (HashMap::new(), HeldTime::default());
        Intakes { by_transfer, session, stream: (0, 1), last: None, own: None, took, held }
    }

    #[test]
    fn a_wait_for_a_share_is_booked_though_the_frame_never_comes() {
        let (session, total) = limited();
        total.share().charge(1 << 40);
        let mut receives = intakes(&session, 10);
        receives.before_portion();
        assert_eq!(receives.took, 10, "they did not go, and are charged when it is dropped");
        assert_eq!(receives.held.unbooked, receives.held.all, "nobody is there yet");
        let transfer = Arc::new(Double::default());
        session.add(TransferNumber(1), transfer.clone()).unwrap();
        let before = receives.held;
        receives.before_portion();
        let told = transfer.held.lock().unwrap().clone();
        assert_eq!(told, [receives.held.all - before.all]);
        assert_eq!(receives.held.unbooked, before.unbooked, "it is not booked twice");
    }

    /// A session with transfer 1, of an export that may move a byte a second.
    fn with_export() -> (Arc<Session>, Arc<Rate>, Arc<Total>, Arc<Double>) {
        let (session, rate) = (session(ControlLimits::default()), Arc::new(Rate::new(Some(1))));
        let of_export = Total::of_export(rate.clone(), "dtn1".to_owned(), "data".to_owned());
        session.share_transfer(TransferNumber(1), of_export.share());
        let transfer = Arc::new(Double::default());
        session.add(TransferNumber(1), transfer.clone()).unwrap();
        (session, rate, of_export, transfer)
    }

    #[test]
    fn what_comes_for_an_export_is_held_to_what_that_may_move() {
        let (session, rate, of_export, transfer) = with_export();
        of_export.share().charge(1 << 40);
        // Before its first frame is whole, and behind it.
        for last in [None, Some(TransferNumber(1))] {
            let mut receives = intakes(&session, 10);
            receives.last = last;
            transfer.held.lock().unwrap().clear();
            receives.before_portion();
            assert_eq!(receives.took, 10, "they did not go, and are charged when it is dropped");
            assert_eq!(*transfer.held.lock().unwrap(), [receives.held.all]);
            assert!(receives.portion_bytes() < 1 << 20);
        }
        // Without the limit they go.
        rate.set(None);
        let mut receives = intakes(&session, 10);
        receives.before_portion();
        assert_eq!((receives.took, receives.portion_bytes()), (0, usize::MAX));
    }

    /// At a byte a second it would wait for ever.
    #[test]
    fn what_a_ticket_may_move_holds_beside_what_all_sessions_may() {
        let (session, total) = limited();
        let of_ticket = Total::new(Arc::new(Rate::new(Some(1))), "dtn1".to_owned());
        session.share_in_ticket(of_ticket.share());
        of_ticket.share().charge(1 << 40);
        let mut before = 0;
        let waited = session.wait_for_share(10, || false, || before += 1);
        assert!(waited.is_some_and(|waited| !waited.goes) && before == 1);
        assert_eq!(total.owes(), Duration::ZERO, "what does not go counts nowhere");
        let mut receives = intakes(&session, 0);
        receives.took(1 << 40);
        drop(receives);
        assert!(total.owes() > Duration::from_secs(3600) && of_ticket.owes() > Duration::from_secs(3600));
    }

    #[test]
    fn a_frame_that_was_taken_for_that_of_another_transfer_counts_for_its_own_export() {
        let (session, _, of_export, _) = with_export();
        let mut receives = intakes(&session, 0);
        // Transfer 2 has no limit: what comes behind its frame is taken for its.
        receives.came(TransferNumber(2), 100);
        receives.before_portion();
        assert_eq!(of_export.owes(), Duration::ZERO);
        receives.came(TransferNumber(1), 1 << 40);
        assert!(of_export.owes() > 1000 * Duration::from_secs(3600));
        drop(receives);
        // The lower of two limits is told, of each transfer that it is for.
        let told = |number| session.outbox().limit(TransferNumber(number)).map(|limit| limit.export);
        let of_export = Some(Some("data".to_owned()));
        assert_eq!((told(1), told(2)), (of_export.clone(), None));
        session.share_in(Total::new(Arc::new(Rate::new(Some(2))), "dtn1".to_owned()).share());
        assert_eq!((told(1), told(2)), (of_export, Some(None)));
        session.remove(TransferNumber(1));
        assert!(session.own_share(TransferNumber(1)).is_none());
    }

    #[test]
    fn of_two_limits_that_hold_the_one_that_was_waited_for_is_told_and_before_that_the_lower() {
        // Of all, of the export, and which is waited for.
        for (of_all, of_one, waits_in_export) in [(2, 1, false), (1, 2, true)] {
            let (session, rate, of_export, _) = with_export();
            rate.set(Some(of_one));
            let total = Total::new(Arc::new(Rate::new(Some(of_all))), "dtn1".to_owned());
            session.share_in(total.share());
            let told = || session.outbox().limit(TransferNumber(1)).map(|limit| limit.export.is_some());
            assert_eq!(told(), Some(of_one < of_all));
            let bound = if waits_in_export { &of_export } else { &total };
            bound.share().charge(1 << 40);
            let mut receives = intakes(&session, 10);
            receives.last = Some(TransferNumber(1));
            receives.before_portion();
            assert_eq!(told(), Some(waits_in_export));
        }
    }

    #[test]
    fn what_is_waited_for_behind_a_frame_of_another_export_counts_once() {
        let (session, _, of_export, _) = with_export();
        let mut receives = intakes(&session, 0);
        receives.came(TransferNumber(2), 0);
        let bytes = 1 << 20;
        receives.took(bytes);
        receives.came(TransferNumber(1), bytes);
        receives.before_portion();
        drop(receives);
        let owed = Duration::from_secs(bytes as u64);
        let owes = of_export.owes();
        assert!(owes > owed / 2 && owes < owed * 3 / 2, "{owes:?} for {owed:?}");
    }

    /// As with `--and`: frames of one command come in turns on each stream.
    #[test]
    fn a_frame_that_was_waited_for_in_its_export_counts_once_whichever_transfer_of_it_has_it() {
        let (session, _, of_export, _) = with_export();
        session.share_transfer(TransferNumber(2), of_export.share());
        let mut receives = intakes(&session, 0);
        for number in [1, 2, 1, 2] {
            // What came is waited for, or would be if there were more, before its frame is whole.
            receives.before_portion();
            receives.came(TransferNumber(number), 1 << 40);
        }
        assert_eq!(of_export.owes(), Duration::ZERO);
    }

    #[test]
    fn frames_that_come_before_their_transfer_has_a_share_do_not_keep_it_from_having_one() {
        let (session, _, of_export, _) = with_export();
        let mut receives = intakes(&session, 0);
        receives.came(TransferNumber(2), 1 << 40);
        receives.before_portion();
        session.share_transfer(TransferNumber(2), of_export.share());
        receives.before_portion();
        assert!(receives.portion_bytes() < 1 << 20);
        receives.took = 1 << 40;
        drop(receives);
        assert!(of_export.owes() > Duration::from_secs(3600));
    }

    #[test]
    fn what_came_last_on_a_stream_that_is_over_counts_for_the_limit() {
        let (session, total) = limited();
        drop(intakes(&session, 1 << 40));
        assert!(total.share().wait(1, || false, || {}).is_some());
        // Also where it ended while they waited, for an hour of others.
        let hour = Duration::from_secs(3600);
        let (session, total) = limited();
        total.share().charge(hour.as_secs());
        let mut receives = intakes(&session, 1 << 40);
        receives.before_portion();
        assert!(total.owes() <= hour, "nobody waits for them while it stands");
        drop(receives);
        assert!(total.owes() > 1000 * hour);
    }
}
