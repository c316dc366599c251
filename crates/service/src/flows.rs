//! The server's side of streams: what is still being made, received into exports or read from them.

use crate::log::{Done, Line};
use crate::min_free;
use crate::sessions::{Bounds, Host, check_congestion, logged_notes, path_of};
use std::sync::Arc;
use std::time::Instant;
use thalweg_mover::endpoint::feed::open::{self, GrowingPlace};
use thalweg_mover::endpoint::local::destination::DestinationPlace;
use thalweg_mover::endpoint::local::flow_destination::LocalFlows;
use thalweg_mover::event;
use thalweg_mover::failure::Result;
use thalweg_mover::run::flow::receiver::FlowReceive;
use thalweg_mover::run::flow::sender::FlowSend;
use thalweg_mover::run::party::Party;
use thalweg_mover::run::session::Session;
use thalweg_wire::limits;
use thalweg_wire::message::{FlowTerms, Open, Place, SourceForm, Totals};

impl Host {
    /// With a window that what clients may have it keep has room for.
    pub(crate) fn within_memory(&self, flow: &FlowTerms) -> FlowTerms {
        let window_bytes = window_within(flow.window_bytes, self.held_bytes_max());
        FlowTerms { window_bytes, ..flow.clone() }
    }

    pub(crate) fn receive_flows(
        &self,
        session: &Arc<Session>,
        open: &Open,
        (place, source, flow): (&Place, &SourceForm, &FlowTerms),
        line: &Line,
    ) -> Result<()> {
        let (destination, kept_free, stated) = self.when_free(session, &open.terms.job_key, || {
            let place = self.exports_of(session)?.resolve(place, true)?;
            let kept_free = place.kept_free(0)?;
            let (guard, stated) = (place.rights.guard, place.stated());
            let to = DestinationPlace { path: path_of(place.path), below: place.below };
            let opened = LocalFlows::open(to, source, place.trailing_slash, &open.terms.job_key);
            opened.map(|destination| (destination.guarded(guard), kept_free, stated))
        })?;
        let served = self.served(session, open, line, Some(stated));
        let run = FlowReceive::start(Arc::new(destination), open.terms.clone(), flow, event::nobody())?;
        run.attach(open.transfer, session.outbox(), None);
        let host = self.strong()?;
        let progress = move |run: &FlowReceive| {
            if let Some((slots, took)) = host.slots.as_ref().zip(run.take_longest_round()) {
                slots.note_settled(took, Instant::now());
            }
            let progress = run.progress();
            let by_then = Done::by_then(progress.settled_entries, progress.verified_bytes);
            Done { damaged: run.damaged(), ..by_then }
        };
        let taken = |run: &FlowReceive| {
            let progress = run.progress();
            min_free::taken(progress.verified_bytes, progress.settled_entries)
        };
        let bounds = Bounds { kept_free, taken, full: FlowReceive::abort, abort: FlowReceive::abort };
        self.receive(session, served, run, bounds, progress)
    }

    pub(crate) fn send_flows(
        &self,
        session: &Arc<Session>,
        open: &Open,
        (place, flow): (&Place, &FlowTerms),
        line: &Line,
    ) -> Result<SourceForm> {
        if let Some(name) = &open.terms.congestion {
            check_congestion(name)?;
        }
        let mut place = self.exports_of(session)?.resolve(place, false)?;
        if place.trailing_slash {
            place.path.push(b'/');
        }
        let from = GrowingPlace { path: path_of(place.path), below: place.below };
        let (feed, form) = open::open(&from, &flow.until, open.terms.segment_bytes as usize)?;
        let served = self.served(session, open, line, None);
        let run = FlowSend::new(open.terms.clone(), flow.clone(), logged_notes(session));
        let kept = run.clone();
        let served = served.telling(|told| told.with_rate(move || kept.rate()));
        run.note_there();
        run.attach(open.transfer, session.outbox(), None);
        let reading = run.clone();
        let by_then = |run: &FlowSend| {
            let progress = run.progress();
            let damaged = progress.damaged;
            Done { damaged, ..Done::by_then(progress.settled, progress.marked_bytes) }
        };
        let end = move |run: &FlowSend, ended: Result<Totals>, line: &Line| {
            line.end(&ended, run.stated_root(), by_then(run));
            if let Err(failure) = &ended {
                run.abort(failure.clone());
            }
        };
        self.send(session, served, run, by_then, FlowSend::abort, end)?;
        // Else nobody would see that it came to nothing.
        reading.start(feed).inspect_err(|failure| reading.abort(failure.clone()))?;
        Ok(form)
    }
}

/// A flow takes this part of what clients may have a server keep, so that one alone is never too much: its window may
/// be taken twice for a moment, by pieces of flows that ended and wait to be come by, and other things are kept beside.
const WINDOW_PART: usize = 4;

/// What is granted of the window that was asked for, where so many bytes may be held.
fn window_within(asked: u64, held_bytes_max: usize) -> u64 {
    let most = u64::try_from(held_bytes_max / WINDOW_PART).unwrap_or(u64::MAX);
    asked.min(most.max(limits::FLOW_WINDOW_BYTES_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_as_was_asked_where_there_is_room_and_never_all_of_it() {
        const LARGEST: u64 = limits::FLOW_WINDOW_BYTES_MAX;
        assert_eq!(window_within(LARGEST, usize::MAX), LARGEST);
        // A daemon of 1 GiB.
        assert_eq!(window_within(LARGEST, 256 << 20), 64 << 20);
        assert_eq!(window_within(1 << 20, 256 << 20), 1 << 20);
        assert_eq!(window_within(LARGEST, 1), limits::FLOW_WINDOW_BYTES_MIN);
    }
}
