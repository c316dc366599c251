//! How far a stream is, at which rate it goes, where the time goes, and what is said of it in the end.

use super::attempts::Done;
use super::{FlowReport, Job};
use crate::basin::{self, Evidence};
use crate::event::Event;
use crate::failure::Result;
use crate::plan::Plan;
use crate::run::agree::Agreed;
use crate::run::flow::receiver::FlowReceive;
use crate::run::flow::sender::FlowSend;
use crate::run::ledger::{self, EVIDENCE_EVERY, Settings};
use crate::run::steer::turned_to;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::{Steer, Totals};

impl Job<'_> {
    /// Has `say` tell the sender the rate that is wanted, if that is another than in this epoch of the link before.
    /// `say` is asked again later if it says false.
    pub(super) fn keep_rate(&mut self, epoch: u64, say: impl FnOnce(&Steer) -> bool) {
        let rate = self.wishes.rate.bytes_per_s();
        let is_turned = self.steered.1 != rate;
        if self.steered != (epoch, rate) && say(&Steer { rate_bytes_per_s: rate, ..Steer::default() }) {
            self.steered = (epoch, rate);
            if is_turned {
                (self.watch.events)(turned_to(rate));
            }
        }
    }

    pub(super) fn measure_sender(&mut self, run: &FlowSend) {
        let progress = run.progress();
        let bytes = (progress.read_bytes, progress.marked_bytes);
        self.measure(progress.flows, progress.settled, bytes, progress.is_at_rest());
    }

    pub(super) fn measure_receiver(&mut self, run: &FlowReceive) {
        let progress = run.progress();
        let settled = progress.settled_entries;
        let bytes = (progress.verified_bytes, progress.durable_bytes);
        self.measure(settled, settled, bytes, bytes.0 == bytes.1);
    }

    fn measure(
        &mut self,
        found: u64,
        settled: u64,
        (read_bytes, marked_bytes): (u64, u64),
        is_at_rest: bool,
    ) {
        let meter = &self.watch.meter;
        meter.entries_found.store(found, Ordering::Relaxed);
        meter.entries_settled.store(settled, Ordering::Relaxed);
        meter.bytes_found.store(read_bytes, Ordering::Relaxed);
        meter.bytes_verified.store(marked_bytes, Ordering::Relaxed);
        meter.came(marked_bytes);
        self.attempts.reached(settled, marked_bytes, Instant::now());
        // A producer may rest: then there is nothing to wait for.
        if is_at_rest {
            self.attempts.goes_well(Instant::now());
        }
    }

    pub(super) fn tell_evidence(
        &mut self,
        plan: &Plan,
        sides: impl FnOnce() -> (SideAccounts, SideAccounts),
    ) {
        let Some(sink) = &self.watch.evidence else { return };
        if self.told.is_none_or(|at| at.elapsed() >= EVIDENCE_EVERY) {
            sink(&self.evidence(plan, sides()));
            self.told = Some(Instant::now());
        }
    }

    fn evidence(&self, plan: &Plan, (sender, receiver): (SideAccounts, SideAccounts)) -> Evidence {
        let settings = Settings {
            is_linked: plan.streams.value > 0,
            is_flow: true,
            yields: false,
            in_ssh: self.in_ssh,
            streams: plan.streams.value,
            concurrency: 1,
            depth: None,
            rate_bytes_per_s: self.wishes.rate.bytes_per_s(),
            window_bytes: self.wishes.asked.window_bytes,
        };
        let entries = self.watch.meter.entries_settled.load(Ordering::Relaxed);
        ledger::evidence(&settings, entries, sender, receiver)
    }

    pub(super) fn reported(&mut self, result: Result<(Done, u32)>) -> Result<FlowReport> {
        result
            .map(|((totals, agreed, plan, rows), attempts)| self.report(totals, agreed, plan, rows, attempts))
    }

    pub(super) fn report(
        &mut self,
        totals: Totals,
        agreed: Agreed,
        plan: Plan,
        sides: (SideAccounts, SideAccounts),
        attempts: u32,
    ) -> FlowReport {
        let evidence = Evidence { entries: totals.done + totals.failed, ..self.evidence(&plan, sides) };
        let verdict = basin::judge(&evidence);
        (self.watch.events)(Event::Finished(totals));
        FlowReport {
            totals,
            agreed,
            plan,
            elapsed: self.started.elapsed(),
            evidence,
            verdict,
            attempts,
            lag: None,
            slot: None,
        }
    }
}
