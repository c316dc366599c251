//! A stream from this machine to a far one, maybe in windows that its server promises.

use super::open::job_key_of;
use super::{FlowFrom, FlowReport, FlowTo, Job, internal};
use crate::admission::SlotHeld;
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::plan::{self, Plan};
use crate::retry::Tries;
use crate::run::Ended;
use crate::run::agree::{self, Wait};
use crate::run::client::Client;
use crate::run::far_mover::FarMover;
use crate::run::flow::sender::FlowSend;
use crate::run::flow::slot::{TakenSlot, Word, fit_pieces};
use crate::run::party::Party;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::message::{Direction, FlowTerms, Place, Request, SourceForm, WaitingFor};

/// What goes on in each session: who sends, what is sent, and by which plan.
type Begun = (Arc<FlowSend>, SourceForm, Plan);

impl Job<'_> {
    pub(super) fn push(&mut self, from: FlowFrom, far: &Arc<FarMover>, place: &Place) -> Result<FlowReport> {
        let is_pipe = matches!(from, FlowFrom::Pipe(_));
        let mut from = Some(from);
        let mut begun: Option<Begun> = None;
        let mut held = None;
        let result = self.in_sessions(far, &mut |job, client, number| {
            let ready = begun.as_ref().and_then(|(run, ..)| run.latest_burst());
            let mut slot = job.take_slot(client, ready)?;
            let (run, form, plan) = match &begun {
                Some(begun) => begun.clone(),
                None => {
                    let now = job.begin_push(client, &mut from, (far, place), slot.as_ref())?;
                    begun.insert(now).clone()
                }
            };
            job.opens_by = Some(job.rule_of(&form, is_pipe));
            let (place, flow) = (place.clone(), run.flow.clone());
            let request = Request::FlowPush { place, source: form, flow };
            let open = job.opening(number, request, run.terms().clone());
            let (server, granted) = client.open_flow_push(open, &|| job.stop.is_asked())?;
            job.opens_by = None;
            job.openings = Tries::default();
            let granted = job.granted(granted, run.flow.window_bytes, "destination");
            check_granted(slot.as_ref().map(TakenSlot::buffer_bytes), run.flow.window_bytes, granted)?;
            run.fit_window(granted)?;
            if let Some(slot) = &mut slot {
                run.set_slot(Some((slot.gate(), slot.held().deadline)));
                slot.keep(run.clone())?;
            }
            run.attach(number, client.session.outbox(), job.lines());
            client.add(number, run.clone())?;
            client.want_streams(plan.streams.value, &plan);
            let ended = job.wait_for_push(client, (&*run, &plan), slot.as_ref(), &mut held)?;
            // What came during the last wait.
            job.measure_sender(&run);
            let totals = agree::totals_of(ended).map_err(|failure| run.read_failure().unwrap_or(failure))?;
            let signer = job.signer_with(client, number, server, None);
            let wait = Wait { patience: job.wishes.link.patience, is_given_up: &|| job.stop.is_asked() };
            let agreed = agree::as_sender(&*run, &signer, totals, wait)?;
            let rows = (run.own_accounts(), run.peer_accounts());
            Ok((totals, agreed, plan, rows))
        });
        if let (Err(failure), Some((run, ..))) = (&result, &begun) {
            run.abort(failure.clone());
        }
        if let Some((run, ..)) = &begun {
            run.tell_failing();
        }
        let lag = begun.as_ref().map(|(run, ..)| run.lag());
        self.reported(result).map(|report| FlowReport { lag, slot: held, ..report })
    }

    /// Opens the source and begins to read it, by a plan that fits the link and the slot.
    fn begin_push(
        &self,
        client: &Client,
        from: &mut Option<FlowFrom>,
        to: (&Arc<FarMover>, &Place),
        slot: Option<&TakenSlot>,
    ) -> Result<Begun> {
        let mut plan = self.plan(client, Direction::Push);
        if let Some(slot) = slot {
            self.check_rate(&slot.held())?;
            fit_pieces(&mut plan, slot.held().slot.bytes);
        }
        let key = job_key_of(Some(to), &FlowTo::Null);
        let terms = self.terms(&plan, key);
        let from = from.take().ok_or_else(|| internal("the source is gone"))?;
        let (feed, form) = self.feed(from, &terms)?;
        let flow = self.flow_terms(slot)?;
        let run = FlowSend::new(terms, flow, self.watch.events.clone());
        run.start(feed)?;
        Ok((run, form, plan))
    }

    /// Waits for the end in one session; meanwhile keeps to the rate, looks whether the slot is kept, and tells how far
    /// it is. `held`: the slot as it was told last.
    fn wait_for_push(
        &mut self,
        client: &Client,
        (run, plan): (&FlowSend, &Plan),
        slot: Option<&TakenSlot>,
        held: &mut Option<SlotHeld>,
    ) -> Result<Ended> {
        let mut is_read_told = false;
        self.wait(client, |job| {
            let waits_for = client.session.peer_heartbeat().waiting_for;
            if waits_for == Some(WaitingFor::Read) && !std::mem::replace(&mut is_read_told, true) {
                let text = "the destination reads what it has again, to go on behind it";
                (job.watch.events)(Event::Note(text.into()));
            }
            if let Some(slot) = slot {
                if let Some(news) = slot.news(held) {
                    (job.watch.events)(Event::Slot(Box::new(news)));
                }
                slot.look_for_late();
                if let Some(failure) = slot.failure() {
                    return Some(Err(failure));
                }
            }
            job.measure_sender(run);
            job.keep_rate(0, |steer| {
                run.steer(steer);
                true
            });
            job.tell_evidence(plan, || (run.own_accounts(), run.peer_accounts()));
            match run.wait(Duration::from_millis(100)) {
                None if job.stop.is_asked() => Some(Err(job.stop_sender(run))),
                ended => ended.map(Ok),
            }
        })
    }

    fn take_slot(&self, client: &Arc<Client>, ready: Option<Instant>) -> Result<Option<TakenSlot>> {
        let Some(asked) = self.wishes.slot else { return Ok(None) };
        let word = Word::Durable(Duration::from_millis(self.wishes.terms.mark_every_ms.into()));
        let (stall, is_given_up) = (self.wishes.link.stall_timeout, || self.stop.is_asked());
        TakenSlot::take(client, asked, (word, stall), ready, &is_given_up).map(Some)
    }

    /// What a window is for has to go within it: else more and more waits for the next one.
    fn check_rate(&self, held: &SlotHeld) -> Result<()> {
        let slot = &held.slot;
        let needed = u128::from(slot.bytes) * 1_000_000 / u128::from(slot.length_micros.max(1));
        let needed = u64::try_from(needed).unwrap_or(u64::MAX);
        let Some(rate) = self.wishes.rate.bytes_per_s().filter(|&rate| rate < needed) else { return Ok(()) };
        let cause = format!(
            "a window of the slot is for {} bytes in {:.3} s, which is {}, and --bwlimit allows {}: allow that much, or leave \
            it out",
            slot.bytes,
            slot.length_micros as f64 / 1e6,
            plan::show_rate(needed.saturating_mul(8)),
            plan::show_rate(rate.saturating_mul(8))
        );
        Err(Failure::new(FailureKind::Usage, "take a slot", cause))
    }

    /// What a slot promises is for bytes that are read when they are ready: the buffer is as large as that takes.
    fn flow_terms(&self, slot: Option<&TakenSlot>) -> Result<FlowTerms> {
        let terms = self.wishes.terms.clone();
        let Some(needed) = slot.map(TakenSlot::buffer_bytes).filter(|&needed| needed > terms.window_bytes)
        else {
            return Ok(terms);
        };
        let allowed = self.wishes.asked.memory_bytes.map_or(u64::MAX, |bytes| bytes / 2);
        let most = limits::FLOW_WINDOW_BYTES_MAX.min(allowed);
        if needed > most {
            let (bound, turn) = match most < limits::FLOW_WINDOW_BYTES_MAX {
                true => ("half of --memory", "smaller bursts, a shorter --mark-every, or more --memory"),
                false => ("no buffer is larger", "smaller bursts, or a shorter --mark-every"),
            };
            let cause = format!(
                "{needed} bytes would have to be kept until they are durable, and {most} are allowed ({bound}): \
                {turn}"
            );
            return Err(Failure::new(FailureKind::Usage, "take a slot", cause));
        }
        Ok(FlowTerms { window_bytes: needed, ..terms })
    }
}

/// What a slot promises is kept only if all that it takes is: the bytes `needed`, as far as they were `asked` for. In a
/// later session a slot may need a little more than the first one did, by which the buffer was made.
fn check_granted(needed: Option<u64>, asked: u64, granted: u64) -> Result<()> {
    let Some(needed) = needed.filter(|&needed| needed.min(asked) > granted) else { return Ok(()) };
    let cause = format!(
        "{needed} bytes would have to be kept until they are durable, and the destination keeps at most {granted} of a \
         stream: smaller bursts, a shorter --mark-every, or more memory there"
    );
    Err(Failure::new(FailureKind::Usage, "take a slot", cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_ends_for_what_the_destination_keeps_less_than_was_asked_and_not_for_what_nobody_asked() {
        assert!(check_granted(None, 100, 1).is_ok());
        assert!(check_granted(Some(90), 100, 90).is_ok());
        let refused = check_granted(Some(90), 100, 89).unwrap_err();
        assert!(refused.cause.contains("keeps at most 89 of a stream"), "{refused}");
        // In the session after an outage answers take longer, and the buffer is as it was.
        assert!(check_granted(Some(110), 100, 100).is_ok());
        assert!(check_granted(Some(110), 100, 99).is_err());
    }
}
