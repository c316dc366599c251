//! Which flows that failed are begun again, and when; of transfers that lost their link, [`attempts`].
//!
//! What may pass is tried again after a pause that doubles: a full disk may have room again, one that may not be
//! written may be writable. What cannot pass comes out the same: another file stands there, the source is another by
//! now.
//!
//! A file counts once, however often its flow is begun again: [`Tally`].
//!
//! Not decided here: what is begun again is what its feed can read again, by the feed's own clock.

use crate::failure::FailureKind;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_wire::RelativePath;
use thalweg_wire::message::{FlowBegin, Origin, Outcome, Totals, Until};

/// One session after the other.
pub mod attempts;

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
pub(crate) fn may_pass(origin: &Origin, kind: FailureKind) -> bool {
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

/// Memory of one, in bytes; about.
pub(crate) fn key_bytes((path, _): &Key) -> usize {
    2 * size_of::<Key>() + path.as_ref().map_or(0, |path| path.as_bytes().len())
}

/// Whether two flows are of the same file.
pub fn is_same(one: &FlowBegin, other: &FlowBegin) -> bool {
    let has_name = one.is_certain || one.path == other.path;
    one.origin == other.origin && one.is_certain == other.is_certain && has_name
}

/// What has no origin is told apart by its name only.
fn tells_apart((path, origin): &Key) -> bool {
    path.is_some() || *origin != Origin::default()
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

/// Counts files by how their latest flow ended: one that fails, is begun again, is complete, grows and is complete once
/// more is one file. What failed for what cannot pass was told as that for good, and stays counted so beside what
/// follows.
#[derive(Debug)]
pub struct Tally {
    /// Counted as failed, and whether that may pass.
    failed: BTreeMap<Key, bool>,
    /// Counted as done: when, in the order of such words, and with so many bytes.
    done: BTreeMap<Key, (u64, u64)>,
    done_order: BTreeMap<u64, Key>,
    next_done: u64,
    most: usize,
    /// Memory of all these, in bytes; about.
    held_bytes: usize,
}

impl Tally {
    /// Remembers so many that failed, and so many of the latest that were done. Others count as often as they end.
    pub fn new(most: usize) -> Tally {
        let (failed, done, done_order) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Tally { failed, done, done_order, next_done: 0, most, held_bytes: 0 }
    }

    /// Memory of what is remembered, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Counts a flow that is over, with so many bytes.
    pub fn count(&mut self, totals: &mut Totals, begin: &FlowBegin, bytes: u64, outcome: &Outcome) {
        let key = key(begin);
        if let Some((order, before)) = self.done.remove(&key) {
            self.done_order.remove(&order);
            self.held_bytes -= 2 * key_bytes(&key);
            totals.done -= 1;
            totals.bytes_done -= before;
        }
        match outcome {
            Outcome::Done { .. } => {
                totals.done += 1;
                totals.bytes_done += bytes;
                if self.failed.get(&key) == Some(&true) {
                    self.failed.remove(&key);
                    self.held_bytes -= key_bytes(&key);
                    totals.failed -= 1;
                }
                if tells_apart(&key) {
                    self.keep_done(key, bytes);
                }
            }
            outcome => {
                let passes =
                    matches!(outcome, Outcome::Failed(failure) if may_pass(&begin.origin, failure.kind));
                match self.failed.get_mut(&key) {
                    Some(before) => *before &= passes,
                    None => {
                        totals.failed += 1;
                        if tells_apart(&key) && self.failed.len() < self.most {
                            self.held_bytes += key_bytes(&key);
                            self.failed.insert(key, passes);
                        }
                    }
                }
            }
        }
    }

    /// Nothing is done any more: another sender has to say it all again.
    pub fn begin_anew(&mut self, totals: &mut Totals) {
        (totals.done, totals.bytes_done) = (0, 0);
        self.done.clear();
        self.done_order.clear();
        self.held_bytes = self.failed.keys().map(key_bytes).sum();
    }

    fn keep_done(&mut self, key: Key, bytes: u64) {
        if self.done_order.len() >= self.most
            && let Some((_, first)) = self.done_order.pop_first()
        {
            self.done.remove(&first);
            self.held_bytes -= 2 * key_bytes(&first);
        }
        let order = self.next_done;
        self.next_done += 1;
        self.held_bytes += 2 * key_bytes(&key);
        self.done_order.insert(order, key.clone());
        self.done.insert(key, (order, bytes));
    }
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 1 << failures.saturating_sub(1).min(6);
    PAUSE_MIN.saturating_mul(doubled).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use thalweg_wire::EntryId;

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

    fn begin(origin: u8) -> FlowBegin {
        let path = RelativePath::new(format!("run{origin}").into_bytes()).unwrap();
        let origin = Origin([origin; 16]);
        FlowBegin { flow: EntryId(0), path, origin, mode: 0o644, is_certain: true }
    }

    fn failed(kind: FailureKind) -> Outcome {
        Outcome::Failed(Failure::new(kind, "write", "no"))
    }

    const DONE: Outcome = Outcome::Done { digest: None, losses: Vec::new() };

    #[test]
    fn a_file_counts_once_however_often_its_flow_is_begun_again() {
        let (mut tally, mut totals) = (Tally::new(9), Totals::default());
        let mut count = |origin, bytes, outcome: &Outcome| {
            tally.count(&mut totals, &begin(origin), bytes, outcome);
            (totals.done, totals.bytes_done, totals.failed)
        };
        assert_eq!(count(1, 0, &failed(FailureKind::Space)), (0, 0, 1));
        assert_eq!(count(1, 5, &failed(FailureKind::Space)), (0, 0, 1));
        assert_eq!(count(1, 7, &DONE), (1, 7, 0));
        assert_eq!(count(2, 1, &DONE), (2, 8, 0));
        assert_eq!(count(1, 9, &DONE), (2, 10, 0), "it grew");
        assert_eq!(count(1, 9, &failed(FailureKind::Io)), (1, 1, 1));
        assert_eq!(count(1, 12, &DONE), (2, 13, 0));
        // What was told as failed stays so, once.
        assert_eq!(count(2, 1, &failed(FailureKind::Changed)), (1, 12, 1));
        assert_eq!(count(2, 1, &failed(FailureKind::Changed)), (1, 12, 1));
        assert_eq!(count(2, 3, &DONE), (2, 15, 1));
        // Neither name nor origin tells these apart.
        assert_eq!(count(0, 1, &DONE), (3, 16, 1));
        assert_eq!(count(0, 1, &DONE), (4, 17, 1));
        assert_eq!(count(0, 1, &failed(FailureKind::Io)), (4, 17, 2));
        assert_eq!(count(0, 1, &failed(FailureKind::Io)), (4, 17, 3));
    }

    #[test]
    fn the_latest_that_were_done_are_remembered_up_to_a_bound() {
        let (mut tally, mut totals) = (Tally::new(2), Totals::default());
        for (origin, done) in [(1, 1), (2, 2), (3, 3), (3, 3), (2, 3), (1, 4), (3, 5)] {
            tally.count(&mut totals, &begin(origin), 1, &DONE);
            assert_eq!((totals.done, totals.bytes_done), (done, done), "{origin}");
            assert!(tally.done.len() <= 2 && tally.done_order.len() <= 2);
            let kept = tally.done.keys().map(|key| 2 * key_bytes(key)).sum::<usize>();
            assert_eq!(tally.held_bytes(), kept, "{origin}");
        }
        tally.begin_anew(&mut totals);
        assert_eq!((totals.done, totals.bytes_done, tally.held_bytes()), (0, 0, 0));
        tally.count(&mut totals, &begin(3), 1, &DONE);
        assert_eq!((totals.done, totals.bytes_done), (1, 1));
    }
}
