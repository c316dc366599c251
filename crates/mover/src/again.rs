//! Which flows that failed are begun again, and when.
//!
//! What may pass is tried again after a pause that doubles: a full disk may have room again, one that may not be written may be
//! writable. What cannot pass comes out the same: another file stands there, the source is another by now.
//!
//! Not decided here: what is begun again is what its feed can read again, by the feed's own clock.

use crate::failure::FailureKind;
use std::collections::BTreeSet;
use std::time::Duration;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{FlowBegin, Origin, Outcome, Totals, Until};

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest: who makes room sees within that time that it goes on. A flow that went on for so long has come right.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// So often in a row a flow may fail, where the stream has an end of its own.
pub const FAILURES_MAX: u32 = 3;

/// Which flows are begun again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rule {
    /// None: nothing of a pipe is had a second time, and with a single file that has an end the stream ends.
    #[default]
    Never,
    /// Those of a directory that has an end, until they failed [`FAILURES_MAX`] times in a row.
    Few,
    /// All, always: only its user ends the stream.
    Always,
}

impl Rule {
    /// Of a stream that ends like this, of a single file or of a directory.
    pub fn of(until: &Until, is_single: bool) -> Rule {
        let has_end = is_single || until.idle_ms.is_some() || until.marker.is_some();
        match (until.forever || !has_end, is_single) {
            (true, _) => Rule::Always,
            (false, false) => Rule::Few,
            (false, true) => Rule::Never,
        }
    }

    /// Whether a flow of this origin that failed so may be begun again.
    pub fn may(self, origin: &Origin, kind: FailureKind) -> bool {
        self != Rule::Never && may_pass(origin, kind)
    }
}

/// Whether it may come right by itself, or by what somebody does about it. A pipe has no origin.
pub fn may_pass(origin: &Origin, kind: FailureKind) -> bool {
    use FailureKind::{Busy, Connection, Io, Permission, Space};
    // `Connection` is what a network file system says that does not answer.
    *origin != Origin::default() && matches!(kind, Busy | Connection | Io | Permission | Space)
}

/// What tells a flow from others, whatever number it has: its origin, and its name where that is not certain.
pub type Key = (Option<RelativePath>, Origin);

/// Of a flow that began so.
pub fn key(begin: &FlowBegin) -> Key {
    ((!begin.is_certain).then(|| begin.path.clone()), begin.origin)
}

/// When a flow is begun again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// After so long.
    pub pause: Duration,
    /// It has not failed for such a reason since it came right last: people are told once.
    pub is_news: bool,
}

/// How often one flow failed in a row, and for which reasons.
#[derive(Debug, Clone, Default)]
pub struct Tries {
    failures: u32,
    told: Vec<FailureKind>,
}

impl Tries {
    /// It failed, after it had gone on for so long. `None`: it is not begun again.
    pub fn failed(&mut self, rule: Rule, kind: FailureKind, went_on_for: Duration) -> Option<Again> {
        if went_on_for >= PAUSE_MAX {
            *self = Tries::default();
        }
        self.failures = self.failures.saturating_add(1);
        match rule {
            Rule::Never => return None,
            Rule::Few if self.failures >= FAILURES_MAX => return None,
            Rule::Few | Rule::Always => {}
        }
        let is_news = !self.told.contains(&kind);
        if is_news {
            self.told.push(kind);
        }
        Some(Again { pause: pause_after(self.failures), is_news })
    }
}

/// Flows that are counted as failed, and may be complete yet: a file counts once, however often it failed before that.
#[derive(Debug)]
pub struct Tally {
    flows: BTreeSet<Key>,
    most: usize,
}

impl Tally {
    /// Remembers so many. More count as often as they fail.
    pub fn new(most: usize) -> Tally {
        Tally { flows: BTreeSet::new(), most }
    }

    /// Counts a flow that is over, with so many bytes.
    pub fn count(&mut self, totals: &mut Totals, begin: &FlowBegin, bytes: u64, outcome: &Outcome) {
        let key = key(begin);
        let was_counted = self.flows.remove(&key);
        match outcome {
            Outcome::Done { .. } => {
                totals.done += 1;
                totals.bytes_done += bytes;
                totals.failed -= u64::from(was_counted);
            }
            outcome => {
                totals.failed += u64::from(!was_counted);
                let passes =
                    matches!(outcome, Outcome::Failed(failure) if may_pass(&begin.origin, failure.kind));
                if passes && self.flows.len() < self.most {
                    self.flows.insert(key);
                }
            }
        }
    }
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 1 << failures.saturating_sub(1).min(6);
    PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute_and_each_reason_is_news_once() {
        let mut tries = Tries::default();
        let mut fails = |kind, went_on_s| {
            let again = tries.failed(Rule::Always, kind, Duration::from_secs(went_on_s)).unwrap();
            (again.pause.as_secs(), again.is_news)
        };
        let first: Vec<_> = (0..9).map(|_| fails(FailureKind::Space, 59)).collect();
        assert_eq!(
            first.iter().map(|(pause, _)| *pause).collect::<Vec<_>>(),
            [1, 2, 4, 8, 16, 32, 60, 60, 60]
        );
        assert_eq!(first.iter().filter(|(_, is_news)| *is_news).count(), 1);
        assert_eq!(fails(FailureKind::Io, 0), (60, true));
        assert_eq!(fails(FailureKind::Io, 0), (60, false));
        // It had come right.
        assert_eq!(fails(FailureKind::Space, 60), (1, true));
    }

    #[test]
    fn who_has_an_end_gives_up_and_who_ends_by_its_user_does_not() {
        let forever = Until { forever: true, ..Until::default() };
        let idle = Until { idle_ms: Some(5), ..Until::default() };
        let closed = Until { closed: true, ..Until::default() };
        for (until, is_single, rule) in [
            (&forever, true, Rule::Always),
            (&forever, false, Rule::Always),
            (&closed, false, Rule::Always),
            (&idle, false, Rule::Few),
            (&idle, true, Rule::Never),
            (&closed, true, Rule::Never),
        ] {
            assert_eq!(Rule::of(until, is_single), rule, "{until:?}, {is_single}");
        }
        for (rule, most) in [(Rule::Never, 0), (Rule::Few, 2), (Rule::Always, 500)] {
            let mut tries = Tries::default();
            let mut fails = || tries.failed(rule, FailureKind::Space, Duration::ZERO);
            assert_eq!((0..500).take_while(|_| fails().is_some()).count(), most, "{rule:?}");
        }
    }

    #[test]
    fn what_cannot_pass_and_what_comes_from_a_pipe_is_not_begun_again() {
        let origin = Origin([1; 16]);
        for kind in
            [FailureKind::Conflict, FailureKind::Changed, FailureKind::Damage, FailureKind::Unsupported]
        {
            assert!(!Rule::Always.may(&origin, kind), "{kind:?}");
        }
        assert!(
            Rule::Always.may(&origin, FailureKind::Space) && !Rule::Never.may(&origin, FailureKind::Space)
        );
        assert!(!Rule::Always.may(&Origin::default(), FailureKind::Space));
    }
}
