//! What metrics have of a copy that this server runs as the client of another one: what they have of a transfer that a
//! client opens here. Each attempt counts as one, as each attempt of a client does: the first at once, another one when
//! it has reached the other server. Between two there is none.

use crate::log::{Done, PULL, outcome_of};
use crate::metrics::{Count, Labels, Metrics};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg_mover::basin::Evidence;
use thalweg_mover::failure::{Failure, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Meter;
use thalweg_wire::message::Totals;

/// See the module.
pub(super) struct Counting {
    metrics: Arc<Metrics>,
    labels: Labels,
    meter: Arc<Meter>,
    now: Mutex<Now>,
}

/// The attempt that is under way.
#[derive(Default)]
struct Now {
    /// `None` between two.
    count: Option<Arc<Count>>,
    /// What the attempt before it did: as long as the meter has that, nothing is known of this one.
    before: Option<Done>,
}

impl Counting {
    /// Of one whose `meter` this is. Nothing is counted before it begins.
    pub fn new(metrics: Arc<Metrics>, labels: Labels, meter: Arc<Meter>) -> Counting {
        Counting { metrics, labels, meter, now: Mutex::default() }
    }

    /// An attempt begins, unless one is under way or it is over.
    pub fn begin(&self) {
        lock(&self.now).count.get_or_insert_with(|| self.metrics.begin(self.labels.clone()));
    }

    /// So its time goes by now.
    pub fn note(&self, evidence: &Evidence) {
        let own = if self.labels.direction == Some(PULL) { &evidence.sender } else { &evidence.receiver };
        let mut now = lock(&self.now);
        let Some(count) = now.count.clone() else { return };
        now.before = None;
        count.note(&self.done(), own, Some(evidence.clone()));
    }

    /// An attempt failed, and another one is due.
    pub fn again(&self, why: &Failure) {
        self.end(&Err(why.clone()));
        let before = Some(self.done());
        *lock(&self.now) = Now { count: None, before };
    }

    /// It ended so; between two attempts there is none that does. A second time it does nothing.
    pub fn end(&self, ended: &Result<Totals>) {
        let Labels { kind, direction, .. } = self.labels;
        let now = lock(&self.now);
        let Some(count) = &now.count else { return };
        let by_then = match self.done() {
            done if ended.is_err() && now.before == Some(done) => Done::default(),
            done => done,
        };
        let done = ended.as_ref().map_or(by_then, |totals| Done::from(*totals));
        let known = done.known(by_then, direction, kind);
        count.end(&outcome_of(ended.as_ref().map(|_| ())), &known.moved(kind));
    }

    /// How much of it is done by now.
    fn done(&self) -> Done {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (meter, more) = (&self.meter, &self.meter.counted);
        let bytes = of(&meter.bytes_verified).saturating_sub(of(&more.bytes_compared));
        let done = Done {
            failed: of(&more.entries_failed),
            damaged: of(&more.entries_damaged),
            resumed: of(&more.bytes_resumed),
            repaired: of(&more.chunks_repaired),
            ..Done::by_then(of(&meter.entries_settled), bytes)
        };
        done.moved(self.labels.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{DRY_RUN, FILES, PUSH};
    use thalweg_mover::failure::FailureKind;

    fn labels(kind: &'static str, direction: &'static str) -> Labels {
        Labels { kind, direction: Some(direction), export: Some("data".to_owned()), ticket: None }
    }

    fn begun(metrics: &Arc<Metrics>, labels: Labels, meter: &Arc<Meter>) -> Counting {
        let counting = Counting::new(metrics.clone(), labels, meter.clone());
        counting.begin();
        counting
    }

    fn set(meter: &Meter, bytes: u64, resumed: u64, compared: u64) {
        meter.bytes_verified.store(bytes, Ordering::Relaxed);
        meter.entries_settled.store(2, Ordering::Relaxed);
        meter.counted.bytes_resumed.store(resumed, Ordering::Relaxed);
        meter.counted.bytes_compared.store(compared, Ordering::Relaxed);
    }

    #[test]
    fn each_attempt_of_a_copy_counts_as_a_transfer_and_what_was_only_compared_does_not() {
        let (metrics, meter) = (Metrics::new(), Arc::<Meter>::default());
        let counting = begun(&metrics, labels(FILES, PUSH), &meter);
        set(&meter, 100, 0, 30);
        counting.note(&Evidence::default());
        assert_eq!(metrics.moved("data", PUSH).bytes, 70);
        counting.again(&Failure::new(FailureKind::Connection, "copy", "lost"));
        // The second ends before anything of it is seen.
        counting.begin();
        counting.again(&Failure::new(FailureKind::Connection, "copy", "lost again"));
        assert_eq!(metrics.moved("data", PUSH).bytes, 70);
        // The third moves a little, and ends before it is told where its time went.
        counting.begin();
        set(&meter, 9, 0, 0);
        counting.again(&Failure::new(FailureKind::Connection, "copy", "lost once more"));
        assert_eq!(metrics.moved("data", PUSH).bytes, 79);
        // The fourth finds what the first had made durable.
        counting.begin();
        set(&meter, 200, 50, 30);
        let totals = Totals { done: 2, bytes_done: 200, bytes_resumed: 50, ..Totals::default() };
        counting.end(&Ok(totals));
        counting.end(&Ok(totals));
        let moved = metrics.moved("data", PUSH);
        assert_eq!((moved.bytes, moved.resumed_bytes), (79 + 170, 50));
        // Of the first and the third both that came to an end, of the fourth both that are done.
        assert_eq!(moved.entries, 6);
        counting.begin();
        let ended = vec![("connection".to_owned(), 3), ("done".to_owned(), 1)];
        assert_eq!(metrics.transfers(FILES, PUSH), (4, ended));
    }

    #[test]
    fn a_copy_that_is_stopped_between_two_attempts_leaves_no_empty_transfer() {
        let (metrics, meter) = (Metrics::new(), Arc::<Meter>::default());
        let counting = begun(&metrics, labels(FILES, PUSH), &meter);
        counting.begin();
        set(&meter, 100, 0, 0);
        counting.note(&Evidence::default());
        counting.again(&Failure::new(FailureKind::Connection, "copy", "lost"));
        // One that does not reach the other server is none there either.
        counting.again(&Failure::new(FailureKind::Connection, "copy", "refused"));
        counting.note(&Evidence::default());
        counting.end(&Err(Failure::new(FailureKind::Stopped, "copy", "stopped on request")));
        drop(counting);
        assert_eq!(metrics.transfers(FILES, PUSH), (1, vec![("connection".to_owned(), 1)]));
        let moved = metrics.moved("data", PUSH);
        assert_eq!((moved.bytes, moved.entries), (100, 2));
    }

    #[test]
    fn what_goes_counts_as_that_and_a_dry_run_moves_nothing() {
        let (metrics, meter) = (Metrics::new(), Arc::<Meter>::default());
        set(&meter, 100, 0, 0);
        let counting = begun(&metrics, labels(FILES, PULL), &meter);
        // Its totals are the word of who received.
        counting.end(&Ok(Totals { done: 9, bytes_done: 900, ..Totals::default() }));
        let moved = metrics.moved("data", PULL);
        assert_eq!((moved.bytes, moved.entries, metrics.moved("data", PUSH).bytes), (100, 2, 0));
        let counting = begun(&metrics, labels(DRY_RUN, PULL), &meter);
        counting.note(&Evidence::default());
        counting.end(&Ok(Totals { done: 2, bytes_done: 100, ..Totals::default() }));
        assert_eq!(metrics.moved("data", PULL).bytes, 100);
    }
}
