//! What a stream's two threads do: one asks the senders for work, one hands frames to the receivers.

use super::{LOOK_AGAIN, Session, payload_max};
use crate::failure::{self, Result};
use crate::link::{FrameBuffer, FrameReader, FrameWriter, Meanwhile, Received};
use crate::run::party::Party;
use crate::run::sender::{Did, SendLane};
use crate::run::share::Share;
use crate::run::transfer::Reception;
use crate::stage::Booking;
use crate::stage::intake::Intake;
use crate::stage::receiving::Receiving;
use crate::stage::send::Outlet;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_sys::usage::thread_cpu;
use thalweg_wire::frame::Inner;
use thalweg_wire::message::TransferNumber;

impl Session {
    pub(super) fn send_loop(&self, stream: u16, serial: u64, writer: FrameWriter) -> Result<()> {
        let mut out = Out { writer, session: self, stream: (stream, serial) };
        let mut lanes: HashMap<TransferNumber, SendLane> = HashMap::new();
        let mut shared_buffer: Option<FrameBuffer> = None;
        let broken = |error: io::Error| failure::of_io("send", &error);
        let no_memory = |error: io::Error| failure::of_memory("send", &error);
        loop {
            if self.is_gone(stream, serial) {
                // Only reading or the link showed it. Whoever breaks streams shall not collect threads and sockets here.
                return Ok(());
            }
            let seen = self.bell.rings();
            let (mut pause, mut worked) = (LOOK_AGAIN, false);
            let mut note = |did: Did| match did {
                Did::Work => worked = true,
                Did::Nothing(at_most) => pause = pause.min(at_most.unwrap_or(LOOK_AGAIN)),
                Did::Over => {}
            };
            let senders = self.files_senders();
            lanes.retain(|number, _| senders.iter().any(|run| run.number() == *number));
            for run in senders {
                if let Entry::Vacant(place) = lanes.entry(run.number()) {
                    place.insert(SendLane::new(stream, run.terms()).map_err(no_memory)?);
                }
                let Some(lane) = lanes.get_mut(&run.number()) else { continue };
                note(run.work(lane, &mut out).map_err(broken)?);
            }
            let others = self.others_that_send();
            let has = shared_buffer.as_ref().map(FrameBuffer::payload_max);
            match others.iter().map(|run| payload_max(run.terms())).max() {
                // Its memory is not counted any more.
                None => shared_buffer = None,
                Some(bytes) if has.is_none_or(|has| has < bytes) => {
                    shared_buffer = Some(FrameBuffer::new(bytes).map_err(no_memory)?);
                }
                Some(_) => {}
            }
            for run in others {
                let Some(buffer) = &mut shared_buffer else { continue };
                note(run.work(stream, buffer, &mut out).map_err(broken)?);
            }
            if !worked && !self.bell.wait(seen, pause) {
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
            took: 0,
            held: Duration::ZERO,
        };
        loop {
            let (since, cpu_since) = (Instant::now(), thread_cpu());
            let inner = match reader.receive_up_to(&mut buffer, payload_max, &mut intakes)? {
                Received::Frame(inner) => inner,
                Received::End => return Ok(()),
                Received::Cut(error) => return Err(failure::of_io("receive", &error)),
            };
            let began = Began { since, cpu_since, held: std::mem::take(&mut intakes.held) };
            let transfer = self.transfer(inner.transfer);
            if let Some(transfer) = transfer.filter(|_| !intakes.by_transfer.contains_key(&inner.transfer)) {
                let Some(run) = transfer.clone().files_receiver() else {
                    transfer.take(serial, &inner, buffer.payload(), &began.reception(&inner))?;
                    continue;
                };
                intakes.by_transfer.retain(|number, _| self.transfer(*number).is_some());
                let intake = Intake::new(run.clone(), u32::from(stream));
                intakes.by_transfer.insert(inner.transfer, (run, intake));
            }
            let intakes = &mut intakes.by_transfer;
            if let Some((run, intake)) = intakes.get_mut(&inner.transfer) {
                began.reception(&inner).book(run.accounts());
                let payload = buffer.payload().len();
                intake.take(&inner, &mut buffer, payload)?;
            }
        }
    }
}

/// The sending half of a stream, as long as it is one of its session.
struct Out<'a> {
    writer: FrameWriter,
    session: &'a Session,
    stream: (u16, u64),
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

    fn wait_for_share(&mut self, bytes: u64, goes_on: &dyn Fn() -> bool) -> bool {
        let (stream, serial) = self.stream;
        let goes_on = || goes_on() && !self.session.is_over(stream, serial);
        self.session.wait_for_share(bytes, goes_on, || {}).is_some()
    }
}

/// When a stream began to wait for a frame.
struct Began {
    since: Instant,
    /// CPU time of its thread then.
    cpu_since: Duration,
    /// For so long it was held to its session's share meanwhile.
    held: Duration,
}

impl Began {
    /// What receiving this frame took.
    fn reception(&self, inner: &Inner) -> Reception {
        let (wall, cpu) = (self.since.elapsed(), thread_cpu().saturating_sub(self.cpu_since));
        let wall = wall.saturating_sub(self.held);
        let input = wall.saturating_sub(cpu);
        let bytes = u64::from(inner.raw_bytes);
        let receive = Booking { busy: wall - input, input, cpu, bytes, items: 1, ..Booking::default() };
        let is_held = !self.held.is_zero();
        let limit = is_held.then(|| Booking { busy: self.held, bytes, items: 1, ..Booking::default() });
        Reception { receive, limit }
    }
}

/// Receiving stages of one stream, by transfer.
struct Intakes<'a> {
    by_transfer: HashMap<TransferNumber, (Arc<dyn Receiving>, Intake)>,
    session: &'a Session,
    stream: (u16, u64),
    /// Bytes of which the owner was not told.
    took: usize,
    /// For so long it was held to its session's share, since that was last booked.
    held: Duration,
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
        let of_share = session.share.get().map_or(usize::MAX, Share::portion_bytes);
        session.owner.portion_bytes().min(of_share)
    }

    fn before_portion(&mut self) {
        let (session, (stream, serial)) = (self.session, self.stream);
        let is_over = || session.is_over(stream, serial);
        let took = std::mem::take(&mut self.took) as u64;
        session.owner.before_taking(session, took, &is_over);
        // What has ended meanwhile is told first: it may be long until the next look.
        if let Some(held) = session.wait_for_share(took, || !is_over(), || self.settle()) {
            self.held += held;
        }
    }

    fn took(&mut self, bytes: usize) {
        self.took += bytes;
    }
}
