//! The streams of the link that stands: put in place, given what their path asks for, taken out.

use super::{Session, TOO_MUCH_MEMORY};
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::link::{FrameReader, FrameWriter, PathHints, StopHandle};
use crate::run::thread;
use std::sync::atomic::Ordering;
use thalweg_wire::limits;

impl Session {
    /// Puts a data stream to work: one of the link of this [`Session::epoch`] and of none in its place, where one is
    /// given. With an earlier one it is over for the peer, and would only end the stream that has its number by now.
    ///
    /// # Errors
    /// If the session is closed or that link does not stand any more, if it has too many streams, or there are no
    /// threads to be had.
    pub fn attach_stream(
        &self,
        epoch: Option<u64>,
        stream: u16,
        writer: FrameWriter,
        reader: FrameReader,
    ) -> Result<()> {
        let ended = self.ended();
        let (serial, old) = {
            let mut state = self.lock();
            if state.closed || state.control.is_none() {
                return Err(Failure::new(FailureKind::Connection, "add a stream", "the session has no link"));
            }
            if epoch.is_some_and(|epoch| epoch != state.epoch) {
                let cause = "the link was lost before the stream stood";
                return Err(Failure::new(FailureKind::Connection, "add a stream", cause));
            }
            // The bound is for each direction.
            let frame_bytes =
                state.sends_bytes(None, &ended).max(self.payload_max.load(Ordering::Acquire) as u64);
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
        let sent = move |session: &Session, sent: Result<()>| {
            if let Err(failure) = sent {
                session.end_stream(stream, serial, failure);
            }
        };
        let received = move |session: &Session, received: Result<()>| {
            session.transfers().iter().for_each(|transfer| transfer.connection_over(serial));
            if let Err(failure) = received {
                session.end_stream(stream, serial, failure);
            }
        };
        let (sending, receiving) = (self.strong()?, self.strong()?);
        let (send_fails, receive_fails) = (sending.clone(), receiving.clone());
        let (last, last_of_panic, last_of_none) =
            (reader.stop_handle(), reader.stop_handle(), reader.stop_handle());
        let send = move || sent(&sending, sending.send_loop(stream, serial, writer));
        let receive = move || {
            received(&receiving, receiving.receive_loop(stream, serial, reader));
            receiving.stream_over(serial, &last);
        };
        let receive_panics = move |why| {
            received(&receive_fails, Err(why));
            receive_fails.stream_over(serial, &last_of_panic);
        };
        // A panic costs the session, not the process.
        let started = thread::guarded("send", move |why| sent(&send_fails, Err(why)), send)
            .and_then(|_| thread::guarded("receive", receive_panics, receive));
        if let Err(failure) = started {
            // Half a stream would be waited for.
            self.end_stream(stream, serial, failure.clone());
            self.stream_over(serial, &last_of_none);
            return Err(failure);
        }
        self.bell.ring_for_all();
        Ok(())
    }

    /// Nothing more comes on this connection.
    fn stream_over(&self, connection: u64, last: &StopHandle) {
        let last = last.info().unwrap_or_default();
        self.owner.on_stream_over(self, connection, &last);
        if let Some(hears) = self.hears_last.get() {
            hears(connection, &last);
        }
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
            let transfers: Vec<_> = state.transfers.values().cloned().collect();
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

    /// Gives the streams that stand what their path asks for by now: a transfer came that asks for something else than
    /// those that were there when they were dialled. A window that is offered stays.
    pub fn set_stream_options(&self) {
        let path = &self.wanted_path();
        let state = self.lock();
        for (_, handle) in state.streams.values() {
            handle.set_options(path);
            if state.window_offered.is_some() {
                handle.offer_window(state.window_offered, path);
            }
        }
    }

    /// Gives up a stream, as if it had broken: what it carried goes back.
    pub fn lose_stream(&self, stream: u16, why: Failure) {
        let serial = self.lock().streams.get(&stream).map(|(serial, _)| *serial);
        if let Some(serial) = serial {
            self.stream_ended(stream, serial, why);
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
    pub(super) fn is_gone(&self, stream: u16, serial: u64) -> bool {
        let state = self.lock();
        !state.closed && !state.stands(stream, serial)
    }

    /// Whether a stream was taken out, at the end of the session too.
    pub(super) fn is_over(&self, stream: u16, serial: u64) -> bool {
        !self.lock().stands(stream, serial)
    }
}

#[cfg(test)]
mod tests {
    use super::super::control::tests::session;
    use super::*;
    use crate::endpoint::synthetic::NoiseSource;
    use crate::event;
    use crate::link::testing::{LONG, connected, unix_pair};
    use crate::link::{Connection, ControlLimits, FrameBuffer, Role};
    use crate::mutex::lock;
    use crate::run::sender::{Did, SendLane, SendRun};
    use crate::run::transfer::Transfer;
    use crate::run::transfer::testing::Double;
    use crate::stage::send::Outlet;
    use crate::transfer::sender::Limits;
    use std::io;
    use std::sync::Arc;
    use thalweg_wire::frame::Inner;
    use thalweg_wire::message::{Steer, Terms, TransferNumber};

    /// A session with a link, and the peer's end of that.
    fn linked() -> (Arc<Session>, Connection) {
        let session = session(ControlLimits { stall_timeout: 10 * LONG, ..ControlLimits::default() });
        let (ours, theirs) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        (session, theirs)
    }

    /// Adds a stream; the peer's end of it keeps it open.
    fn attach(session: &Session, stream: u16) -> Result<Connection> {
        attach_in(session, None, stream)
    }

    fn attach_in(session: &Session, epoch: Option<u64>, stream: u16) -> Result<Connection> {
        let (ours, theirs) = connected(unix_pair());
        let (writer, reader) = ours.into_streams(session.cipher, &session.id, stream, Role::Client)?;
        session.attach_stream(epoch, stream, writer, reader)?;
        Ok(theirs)
    }

    struct Nowhere;

    impl Outlet for Nowhere {
        fn put(&mut self, _: &mut FrameBuffer, _: usize, _: &Inner) -> io::Result<()> {
            Ok(())
        }
    }

    /// Each message would wake all that take no work, for nothing.
    #[test]
    fn a_stream_that_is_one_too_many_stands_by_and_is_woken_when_others_than_before_take_work() {
        let (session, _link) = linked();
        let terms = Terms::of(4 << 20, 1 << 20);
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let (number, limits) = (TransferNumber(1), Limits::for_path(&terms, None));
        let run = SendRun::new(number, source, terms.clone(), limits, session.outbox(), event::nobody());
        (0..2).for_each(|stream| run.stream_up(stream));
        let mut lane = SendLane::new(1, &terms).unwrap();
        let mut does = || run.work(&mut lane, &mut Nowhere).unwrap();
        let rings = || session.bell.rings().for_all;
        let before = rings();
        assert!(matches!(does(), Did::Nothing(None)));
        run.steer(&Steer { streams: Some(1), ..Steer::default() });
        assert!(matches!(does(), Did::StandBy) && rings() == before + 1);
        run.stream_lost(0);
        assert!(matches!(does(), Did::Nothing(None)) && rings() == before + 2);
        session.close(None);
    }

    /// Else what one of them had sent by half would be gone on with on the stream that has its number next.
    #[test]
    fn a_link_that_is_replaced_takes_its_streams_along_as_one_that_is_lost() {
        let (session, _first) = linked();
        let transfer = Arc::new(Double::default());
        session.add(TransferNumber(1), transfer.clone()).unwrap();
        let streams: Vec<_> = (0..2).map(|stream| attach(&session, stream).unwrap()).collect();
        let (ours, _second) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        assert_eq!(*lock(&transfer.streams_lost), [0, 1]);
        session.close(None);
        drop(streams);
    }

    #[test]
    fn a_stream_of_an_earlier_link_takes_the_place_of_none_of_the_one_that_stands() {
        let (session, _first) = linked();
        let (earlier, transfer) = (session.link_epoch(), Arc::new(Double::default()));
        session.add(TransferNumber(1), transfer.clone()).unwrap();
        let (ours, _second) = connected(unix_pair());
        session.attach_control(ours).unwrap();
        let stands = attach_in(&session, session.link_epoch(), 0).unwrap();
        let failure = attach_in(&session, earlier, 0).map(drop).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
        assert!(lock(&transfer.streams_lost).is_empty(), "what it carries would be sent again");
        session.close(None);
        drop(stands);
    }

    fn add_sender(session: &Session, number: u16, segment_bytes: u32) -> Result<()> {
        let terms = Terms { compress: true, ..Terms::of(64 << 20, segment_bytes) };
        let (number, source) = (TransferNumber(number), Arc::new(NoiseSource { bytes: 0, file_bytes: 1 }));
        let limits = Limits::for_path(&terms, None);
        let run = SendRun::new(number, source, terms, limits, session.outbox(), event::nobody());
        session.add(number, run)
    }

    /// Each of its streams has a frame of each sender, and what that is packed into beside it.
    #[test]
    fn what_sends_has_no_more_memory_for_frames_than_a_link_may_have() {
        let (session, _peer) = linked();
        let streams: Vec<_> = (0..9).map(|stream| attach(&session, stream).unwrap()).collect();
        assert_eq!(add_sender(&session, 1, 64 << 20).unwrap_err().cause, TOO_MUCH_MEMORY);
        add_sender(&session, 1, 64 << 10).unwrap();
        session.close(None);
        drop(streams);
        // None of them is too much for itself.
        let (session, _peer) = linked();
        (0..8).for_each(|number| add_sender(&session, number, 64 << 20).unwrap());
        assert_eq!(attach(&session, 0).map(drop).unwrap_err().cause, TOO_MUCH_MEMORY);
        session.close(None);
    }
}
