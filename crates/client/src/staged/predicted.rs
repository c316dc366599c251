//! Predicted against actual of a copy through a stage, as a whole: from the first look to the last word.
//!
//! A way through a stage is one of its own: of the same places, by the disk of the stage. What holds each leg by itself
//! (a rate limit) or is done on each of them (reading back) makes another way of it: what follows for both together
//! depends on how far they overlap. Its terms:
//!
//! 1. The start lasts until the first leg begins: both places are looked at.
//! 2. What follows until the last leg is over is time of bytes; without content to speak of, of entries. The legs
//!    overlap and wait for each other, so that no part of it is that of entries alone.
//! 3. The end is the direct copy that ends it, where one does.
//!
//! Not compared is what came otherwise than earlier ones did: what lay in the stage from an earlier command, and what
//! went past it.

use super::{Legs, Summary};
use crate::profiles::{ByHand, Ends, Profiles};
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_mover::history::{self, Moved, Observed, Way};
use thalweg_mover::model::prediction::{Compared, LeftOut, Taken, Work, compare};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Wishes;

/// When the legs were at work.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Course {
    began: Option<Instant>,
    ended: Option<Instant>,
    is_cut_off: bool,
}

impl Course {
    /// A leg copies something.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began.get_or_insert(now);
    }

    /// That is over; whether it was [cut off](thalweg_mover::run::copy::Report::is_cut_off).
    pub(super) fn end(&mut self, now: Instant, is_cut_off: bool) {
        self.ended = Some(now);
        self.is_cut_off |= is_cut_off;
    }
}

/// What was known of the way of a copy through a stage when that began.
pub struct Expected {
    began: Instant,
    ends: Ends,
    by_hand: ByHand,
    known: Option<Way>,
    rate: (u64, Option<u64>),
    has_left: bool,
}

impl Expected {
    /// Of one that began at this time, and whose state directory this is. `None` where nothing is to be predicted.
    pub fn begin(legs: &Legs, wishes: &Wishes, state: &Path, began: Instant) -> Option<Expected> {
        if wishes.remembered.no_profile || wishes.dry_run {
            return None;
        }
        let ends = Ends::of(&legs.sources.first()?.alone, &legs.to)?.through(&legs.place.tree(0));
        let rate = rate_of(wishes);
        let by_hand = ByHand::of(wishes).and_staged(rate.1, wishes.fidelity.verify);
        let known = Profiles::read(state).of_ends(&ends, &by_hand).cloned();
        Some(Expected { began, ends, by_hand, known, rate, has_left: legs.has_left() })
    }

    /// Predicted against actual of one that came to its end so; its way is known by one more then. `attempts`: of the
    /// direct copy that ended it, 1 without one.
    pub fn end(
        self,
        legs: &Legs,
        (summary, attempts): (&Summary, u32),
        wishes: &Wishes,
        state: &Path,
    ) -> Compared {
        let (course, carried) = (*lock(&legs.course), &summary.carried);
        let direct = summary.direct.unwrap_or_default().0;
        let (Some(first), Some(last)) = (course.began, course.ended) else {
            let is_past = direct.bytes_received > 0 || direct.done > direct.unchanged;
            return if is_past { Compared::PastStage } else { Compared::LittleMoved };
        };
        match () {
            () if self.has_left => return Compared::InStage,
            () if course.is_cut_off || attempts > 1 => return Compared::CutOff,
            () if rate_of(wishes) != self.rate => return Compared::RateChanged,
            () if carried.done <= carried.unchanged.max(summary.stood) => return Compared::LittleMoved,
            () if direct.bytes_received > 0 => return Compared::PastStage,
            () => {}
        }
        let entries = carried.done.saturating_add(direct.done) as f64;
        let work = Work { bytes: carried.bytes as f64, entries, ..Work::default() };
        let start = first.saturating_duration_since(self.began);
        let taken = taken(start, last.saturating_duration_since(first), summary.elapsed, &work);
        let compared = match self.known.as_ref().map(|way| way.predict(&work, 0.0)) {
            Some(Ok(Ok(predicted))) => {
                let mut told = compare(predicted, taken);
                told.left_out = LeftOut { bytes: 0, entries: summary.stood };
                Compared::Told(Box::new(told))
            }
            Some(Ok(Err(missing))) => Compared::Unknown(missing),
            Some(Err(_)) | None => Compared::NoProfile,
        };
        let moved = Moved { bytes: work.bytes, first_bytes: 0.0, entries, reads_back: false };
        let narrower = carried.narrower().map(|(leg, _)| format!("the leg {} of its stage", leg.word()));
        let observed = Observed::of(&taken, &moved, false);
        Profiles::learn(state, &self.ends, &self.by_hand, observed, narrower);
        compared
    }
}

fn rate_of(wishes: &Wishes) -> (u64, Option<u64>) {
    let rate = &wishes.movement.rate;
    (rate.changes(), rate.bytes_per_s())
}

/// `start`: until the first leg began; `legs`: from then until the last was over.
fn taken(start: Duration, legs: Duration, elapsed: Duration, work: &Work) -> Taken {
    let [start_s, legs_s, elapsed_s] = [start, legs, elapsed].map(|time| time.as_secs_f64());
    let is_bare = history::is_bare(work.bytes, work.entries);
    let (entries_s, bytes_s) = if is_bare { (legs_s, 0.0) } else { (0.0, legs_s) };
    Taken { start_s, entries_s, bytes_s, back_s: 0.0, end_s: (elapsed_s - start_s - legs_s).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::staged::Carried;
    use crate::staged::tests::legs_of;
    use std::sync::Arc;
    use thalweg_mover::model::prediction::Term;
    use thalweg_mover::run::copy::{Remembered, Sources};
    use thalweg_mover::run::steer::Rate;
    use thalweg_wire::message::{Totals, VerifyLevel};

    fn carried(done: u64, bytes: u64) -> Summary {
        let carried = Carried { done, bytes, ..Carried::default() };
        Summary { carried, elapsed: Duration::from_secs(14), ..Summary::default() }
    }

    /// Of a copy whose legs were at work from its second second to its twelfth.
    fn ended(root: &Path, wishes: &Wishes, attempts: u32, summary: &Summary) -> Option<Compared> {
        ended_by(root, wishes, [attempts, 1], summary)
    }

    /// The same; attempts of a leg, and of the direct copy.
    fn ended_by(root: &Path, wishes: &Wishes, attempts: [u32; 2], summary: &Summary) -> Option<Compared> {
        let [of_leg, of_direct] = attempts;
        let (legs, began) = (legs_of(root), Instant::now());
        let expected = Expected::begin(&legs, wishes, root, began)?;
        lock(&legs.course).begin(began + Duration::from_secs(2));
        lock(&legs.course).begin(began + Duration::from_secs(3));
        lock(&legs.course).end(began + Duration::from_secs(12), of_leg > 1);
        Some(expected.end(&legs, (summary, of_direct), wishes, root))
    }

    #[test]
    fn a_copy_through_a_stage_is_predicted_by_earlier_ones_through_it() {
        let (scratch, wishes) = (tempfile::tempdir().unwrap(), Wishes::default());
        let root = scratch.path();
        let some = carried(10, 1 << 30);
        assert_eq!(ended(root, &wishes, 1, &some), Some(Compared::NoProfile));
        let stood = Summary { stood: 3, unchanged: 4, ..some.clone() };
        let Some(Compared::Told(told)) = ended(root, &wishes, 1, &stood) else { panic!("it is known") };
        assert!((told.predicted.seconds - 14.0).abs() < 0.01, "{told:?}");
        let Taken { start_s, bytes_s, end_s, .. } = told.actual;
        assert_eq!([start_s, bytes_s, end_s].map(f64::round), [2.0, 10.0, 2.0]);
        assert_eq!((told.left_out, told.is_within), (LeftOut { bytes: 0, entries: 3 }, true));
        // Twice as much in the same time.
        let more = carried(10, 2 << 30);
        let Some(Compared::Told(told)) = ended(root, &wishes, 1, &more) else { panic!("it is known") };
        assert_eq!(told.wrong, Term::Bytes);
        // Under a limit, or read back, it is another way.
        let mut limited = wishes.clone();
        limited.movement.rate = Arc::new(Rate::new(Some(1_000_000)));
        assert_eq!(ended(root, &limited, 1, &some), Some(Compared::NoProfile));
        let mut read_back = wishes.clone();
        read_back.fidelity.verify = VerifyLevel::Readback;
        assert_eq!(ended(root, &read_back, 1, &some), Some(Compared::NoProfile));
    }

    #[test]
    fn what_came_otherwise_than_earlier_copies_is_not_held_against_them_and_teaches_none() {
        let (scratch, wishes) = (tempfile::tempdir().unwrap(), Wishes::default());
        let root = scratch.path();
        let some = carried(10, 1 << 30);
        assert_eq!(ended(root, &wishes, 2, &some), Some(Compared::CutOff));
        assert_eq!(ended_by(root, &wishes, [1, 2], &some), Some(Compared::CutOff));
        let nothing = Summary { unchanged: 9, ..carried(0, 0) };
        assert_eq!(ended(root, &wishes, 1, &nothing), Some(Compared::LittleMoved));
        let few = Summary { stood: 10, ..some.clone() };
        assert_eq!(ended(root, &wishes, 1, &few), Some(Compared::LittleMoved));
        let past = Totals { done: 1, bytes_received: 1 << 20, ..Totals::default() };
        let past = Summary { direct: Some((past, Sources::default())), ..some.clone() };
        assert_eq!(ended(root, &wishes, 1, &past), Some(Compared::PastStage));
        // Nothing passed, and all the same it was moved.
        let legs = legs_of(root);
        let all_past = Expected::begin(&legs, &wishes, root, Instant::now()).unwrap();
        assert_eq!(all_past.end(&legs, (&past, 1), &wishes, root), Compared::PastStage);
        let none = Expected::begin(&legs, &wishes, root, Instant::now()).unwrap();
        assert_eq!(none.end(&legs, (&Summary::default(), 1), &wishes, root), Compared::LittleMoved);
        drop(legs);
        // None of these is known.
        assert_eq!(ended(root, &wishes, 1, &some), Some(Compared::NoProfile));
        let remembered = Remembered { no_profile: true, ..Remembered::default() };
        assert_eq!(ended(root, &Wishes { remembered, ..wishes.clone() }, 1, &some), None);
        assert_eq!(ended(root, &Wishes { dry_run: true, ..wishes }, 1, &some), None);
    }

    #[test]
    fn without_content_what_the_legs_took_is_time_of_entries() {
        let second = Duration::from_secs;
        let bare = Work { entries: 1000.0, ..Work::default() };
        let seen = taken(second(1), second(4), second(6), &bare);
        assert_eq!((seen.start_s, seen.entries_s, seen.bytes_s, seen.end_s), (1.0, 4.0, 0.0, 1.0));
        // Clocks that are read one after the other.
        assert_eq!(taken(second(1), second(4), second(4), &bare).end_s, 0.0);
    }
}
