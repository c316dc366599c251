//! What a copy tells of itself: counters and evidence while it runs, its report at the end.

use super::{BEGINNING, Beginning, Job, Movement, Report, Sources};
use crate::basin::times::Passage;
use crate::basin::{self, Evidence, Outages, Verdict};
use crate::event::Event;
use crate::plan::{self, Learned, Plan};
use crate::run::agree::Agreed;
use crate::run::far_mover::FarMover;
use crate::run::ledger::{self, EVIDENCE_EVERY, Settings};
use crate::run::receiver::ReceiveRun;
use crate::run::sender::SendRun;
use crate::run::steer::Steering;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::Totals;

/// Looks that are so far apart say that the process was stopped: they wait for no file system and no disk.
const STOOD_STILL: Duration = Duration::from_secs(5);

impl Job<'_> {
    pub(super) fn measure_sender(&mut self, run: &SendRun) {
        let progress = run.progress();
        self.watch.meter.entries_found.store(progress.entries_offered, Ordering::Relaxed);
        self.watch.meter.bytes_found.store(progress.bytes_offered, Ordering::Relaxed);
        self.watch.meter.scan_over.store(run.scan_totals().is_some(), Ordering::Relaxed);
        self.watch.meter.entries_settled.store(progress.entries_settled, Ordering::Relaxed);
        self.watch.meter.bytes_verified.store(progress.bytes_verified, Ordering::Relaxed);
        self.watch.meter.bytes_unmoved.store(progress.bytes_unmoved, Ordering::Relaxed);
        let more = &self.watch.meter.counted;
        more.bytes_resumed.store(progress.bytes_resumed, Ordering::Relaxed);
        more.bytes_compared.store(progress.bytes_same, Ordering::Relaxed);
        more.chunks_repaired.store(progress.repairs, Ordering::Relaxed);
        more.entries_failed.store(progress.entries_failed, Ordering::Relaxed);
        more.entries_damaged.store(progress.entries_damaged, Ordering::Relaxed);
        self.note_progress(progress.bytes_verified.saturating_sub(progress.bytes_resumed));
    }

    pub(super) fn measure_receiver(&mut self, run: &ReceiveRun) {
        let progress = run.progress();
        // The end of the scan is not told before what was offered last may be under way.
        let totals = run.scan_totals();
        let (entries, bytes) = totals.as_ref().map_or_else(
            || run.offered(),
            |totals| (totals.entries, totals.bytes.saturating_add(run.unlinked_bytes())),
        );
        self.watch.meter.entries_found.store(entries, Ordering::Relaxed);
        self.watch.meter.bytes_found.store(bytes, Ordering::Relaxed);
        self.watch.meter.scan_over.store(totals.is_some(), Ordering::Relaxed);
        self.watch.meter.entries_settled.store(progress.settled_entries, Ordering::Relaxed);
        let settled = run.totals();
        self.watch.meter.entries_moved.store(settled.done, Ordering::Relaxed);
        self.watch.meter.bytes_verified.store(progress.verified_bytes, Ordering::Relaxed);
        self.watch.meter.bytes_unmoved.store(run.unmoved_bytes(), Ordering::Relaxed);
        let more = &self.watch.meter.counted;
        let compared_bytes = settled.bytes_same.saturating_add(run.compared_hole_bytes());
        more.bytes_resumed.store(settled.bytes_resumed, Ordering::Relaxed);
        more.bytes_compared.store(compared_bytes, Ordering::Relaxed);
        more.chunks_repaired.store(settled.chunks_repaired, Ordering::Relaxed);
        more.entries_failed.store(settled.failed, Ordering::Relaxed);
        more.entries_damaged.store(run.damaged_entries(), Ordering::Relaxed);
        self.note_progress(progress.verified_bytes.saturating_sub(settled.bytes_resumed));
    }

    pub(super) fn report(
        &mut self,
        totals: Totals,
        agreed: Option<Agreed>,
        plan: Plan,
        sides: (SideAccounts, SideAccounts),
        steering: &Steering,
        sources: Sources,
    ) -> Report {
        if self.wishes.dry_run {
            self.tell_room(&sides.1, true);
        }
        let renamed = sides.1.renamed.unwrap_or_default();
        let elapsed = self.started.elapsed();
        let settled = totals.done + totals.unchanged + totals.skipped + totals.failed;
        let streams = steering.streams();
        let evidence = Evidence { entries: settled, ..self.evidence(&plan, streams, sides) };
        let verdict = basin::judge(&evidence);
        let learned = learned_of_path(verdict.as_ref(), steering.learned());
        let rate = self.wishes.movement.rate.bytes_per_s().map(|rate| rate.saturating_mul(8));
        if let Some(advice) = window_advice(&plan, rate, streams, &totals, elapsed) {
            (self.watch.events)(Event::Note(advice));
        }
        if renamed.is_cut {
            let text = "more stands at the destination than is looked at for files of other names: what was not found \
                        was sent (--find-renames)";
            (self.watch.events)(Event::Note(text.to_owned()));
        }
        self.tell_left(&sources);
        (self.watch.events)(Event::Finished(totals));
        let passage = self.passage(elapsed);
        let beginnings = std::mem::take(&mut self.beginnings);
        Report {
            totals,
            agreed,
            plan,
            elapsed,
            evidence,
            verdict,
            attempts: 1,
            in_ssh: self.far().is_some_and(FarMover::is_carried),
            learned,
            passage,
            beginnings,
            compared: None,
            sources,
            renamed,
        }
    }

    /// Tells where the time goes, if it is time to; of a copy that is stopped the last time. Keeps what the beginning
    /// showed.
    pub(super) fn tell_evidence(
        &mut self,
        plan: &Plan,
        streams: u16,
        sides: impl FnOnce() -> (SideAccounts, SideAccounts),
    ) {
        if self.evidence_at.elapsed() < EVIDENCE_EVERY && !self.stop.is_asked() {
            return;
        }
        self.evidence_at = Instant::now();
        let sides = sides();
        // A dry run tells it at its end.
        if !self.wishes.dry_run {
            self.tell_room(&sides.1, false);
        }
        let evidence = self.evidence(plan, streams, sides);
        self.note_beginning(&evidence);
        if let Some(sink) = &self.watch.evidence {
            sink(&evidence);
            // A disk that holds up who hears it does not stop the copy.
            self.looked_at = Some(Instant::now());
        }
    }

    /// Says once that more is to come than the destination has room for: hours before it is full.
    fn tell_room(&mut self, receiver: &SideAccounts, is_all: bool) {
        let Some(room) = receiver.room.filter(|room| room.wanted_bytes > room.free_bytes) else { return };
        if !self.is_trial() && !self.is_room_told {
            self.is_room_told = true;
            (self.watch.events)(Event::LacksRoom { room, is_all });
        }
    }

    fn note_beginning(&mut self, evidence: &Evidence) {
        let passage = self.passage(self.started.elapsed());
        // A look that saw nothing new says nothing new: so there are few, however long nothing comes.
        let shown_s = self.beginnings.last().map_or(0.0, |last| last.passage.content_s());
        if shown_s < BEGINNING.as_secs_f64() && passage.content_s() > shown_s {
            self.beginnings.push(Beginning { evidence: evidence.clone(), passage });
        }
    }

    /// When content came, of a copy that has lasted so long.
    fn passage(&self, elapsed: Duration) -> Passage {
        let seconds = elapsed.as_secs_f64();
        match self.passage {
            // Without content, all of it is before and after.
            None => Passage { first_s: seconds, first_bytes: 0, last_s: seconds, seconds },
            Some([first, last]) => Passage {
                first_s: first.0.as_secs_f64(),
                first_bytes: first.1,
                last_s: last.0.as_secs_f64(),
                seconds,
            },
        }
    }

    /// `streams` take work by now.
    fn evidence(
        &self,
        plan: &Plan,
        streams: u16,
        (sender, receiver): (SideAccounts, SideAccounts),
    ) -> Evidence {
        let Movement { asked, rate, .. } = &self.wishes.movement;
        let settings = Settings {
            is_linked: !self.is_local(),
            is_flow: false,
            yields: asked.yields,
            in_ssh: self.far().is_some_and(FarMover::is_carried),
            streams,
            concurrency: plan.concurrency.value,
            depth: plan.depth.value,
            rate_bytes_per_s: rate.bytes_per_s(),
            window_bytes: asked.window_bytes,
        };
        let entries = self.watch.meter.entries_settled.load(Ordering::Relaxed);
        Evidence { outages: self.outages(), ..ledger::evidence(&settings, entries, sender, receiver) }
    }

    /// Of this attempt the outages of its link, of all of the copy the times in which we stood still.
    fn outages(&self) -> Outages {
        let of_link = self.session.as_ref().map(|(session, before)| session.outages().since(*before));
        Outages { still_nanos: self.stillness.still_nanos, ..of_link.unwrap_or_default() }
    }

    /// Looks come about ten times a second.
    fn note_look(&mut self) {
        let since = self.looked_at.replace(Instant::now()).map(|last| last.elapsed());
        if let Some(still) = since.filter(|since| *since >= STOOD_STILL) {
            self.stillness.stood_still(still);
        }
    }

    /// `came_bytes`: what stands verified and was not there from an earlier attempt. How long it took to read that
    /// again says nothing of how content comes.
    fn note_progress(&mut self, came_bytes: u64) {
        self.note_look();
        self.watch.meter.came(came_bytes);
        let bytes = self.watch.meter.bytes_verified.load(Ordering::Relaxed);
        let entries = self.watch.meter.entries_settled.load(Ordering::Relaxed);
        let now = (self.started.elapsed(), came_bytes);
        match &mut self.passage {
            Some([_, last]) if came_bytes > last.1 => *last = now,
            None if came_bytes > 0 => self.passage = Some([now, now]),
            _ => {}
        }
        // What an earlier attempt brought stands too.
        let unmoved = self.watch.meter.bytes_unmoved.load(Ordering::Relaxed);
        self.attempts.reached(entries, bytes.saturating_add(unmoved), Instant::now());
    }
}

/// The system's limits, where they were what held the transfer: its streams carried at least half of what their windows
/// let them. `streams` took work at the end, whatever was planned. What the route carried before is no measure: windows
/// may have held that too. `rate_bits_per_s` was asked for.
fn window_advice(
    plan: &Plan,
    rate_bits_per_s: Option<u64>,
    streams: u16,
    totals: &Totals,
    elapsed: Duration,
) -> Option<String> {
    let window = plan.window.as_ref()?;
    // What an earlier attempt brought, or was there, took no stream's time.
    let reached = totals.bytes_received as f64 * 8.0 / elapsed.as_secs_f64().max(1e-9);
    let allowed = window.rate_bits_per_s() as f64 * f64::from(streams);
    let goal = rate_bits_per_s.unwrap_or(plan::RATE_BITS_PER_S);
    (reached >= 0.5 * allowed).then(|| plan.window_advice(goal, streams)).flatten()
}

/// What a slow disk or many small files let through says nothing of what the path carries.
fn learned_of_path(verdict: Option<&Verdict>, learned: Option<Learned>) -> Option<Learned> {
    learned.filter(|_| verdict.is_some_and(|verdict| verdict.narrowest.place == basin::Where::Path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basin::{Cause, Narrow, Where};
    use thalweg_wire::hello::System;

    /// 19 streams were planned; 8 took work in the end, and carried what their windows let them.
    #[test]
    fn a_window_is_judged_by_the_streams_that_took_work_in_the_end() {
        let rtt = Duration::from_millis(100);
        let system =
            System { rmem_max_kib: 208, wmem_max_kib: 208, tcp_rmem_max_kib: 6 << 10, ..System::default() };
        let system = System { tcp_wmem_max_kib: 4 << 10, ..system };
        let path = plan::Path { rtt: Some(rtt), sender: system, receiver: system, ..plan::Path::default() };
        let plan = plan::plan(&plan::Asked::default(), &path);
        let window = plan.window.clone().expect("the system keeps something from a stream");
        let second = Duration::from_secs(1);
        let bytes_received = window.rate_bits_per_s() / 8 * 8 * 6 / 10;
        let carried = Totals { bytes_received, ..Totals::default() };
        let advice =
            window_advice(&plan, None, 8, &carried, second).expect("8 streams carried most of what they may");
        assert!(advice.ends_with("using 8 streams instead"), "{advice}");
        assert!(plan.streams.value > 16, "{:?}", plan.streams);
        assert_eq!(window_advice(&plan, None, plan.streams.value, &carried, second), None);
        let rate = Some(window.rate_bits_per_s());
        assert_eq!(window_advice(&plan, rate, 8, &carried, second), None, "one stream carries that");
        let resumed =
            Totals { bytes_done: bytes_received, bytes_resumed: bytes_received, ..Totals::default() };
        assert_eq!(window_advice(&plan, None, 8, &resumed, second), None, "nothing was carried");
    }

    #[test]
    fn only_a_copy_that_the_path_bounded_teaches_what_it_carries() {
        let learned = Learned { streams: 8, rate_bits_per_s: 1 << 30, rtt: Duration::from_millis(100) };
        let bounded_by = |place| Verdict {
            narrowest: Narrow {
                stage: "one".to_owned(),
                place,
                cause: Cause::SourceDisk,
                busy: 1.0,
                bytes_per_s: 1.0,
                entries_per_s: 0.0,
                heat: None,
            },
            next: None,
            factor: 1.0,
            factor_low: None,
            knob: String::new(),
            sentence: String::new(),
        };
        let taught = |place| learned_of_path(Some(&bounded_by(place)), Some(learned)).is_some();
        assert!(taught(Where::Path));
        for place in [Where::Source, Where::Destination, Where::Both] {
            assert!(!taught(place), "{place:?}");
        }
        assert!(learned_of_path(None, Some(learned)).is_none());
        assert!(learned_of_path(Some(&bounded_by(Where::Path)), None).is_none());
    }
}
