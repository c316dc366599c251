//! Flows that failed and may come right: told when they are tried again, and as failed only if they are not complete in
//! the end.
//!
//! At the side that tells people. Where the source is read here, its feed decides what is begun again
//! ([`Failing::decided`]); where it is far, the same rule says what its feed does ([`Failing::decide`]).

use super::entry;
use crate::event::{Event, Events};
use crate::flow::Over;
use crate::retry::{self, Again, Key, Rule, Tries};
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_wire::EntryId;
use thalweg_wire::message::{FlowBegin, Outcome};

/// Flows that are kept until the end; more are told as failed at once, and stay so.
const KEPT_MAX: usize = 1 << 16;

/// See the module.
#[derive(Default)]
pub(super) struct Failing {
    rule: Rule,
    /// Of these it is not known yet whether they are begun again.
    undecided: BTreeMap<EntryId, Over>,
    /// These are begun again.
    kept: BTreeMap<Key, Over>,
    /// How often they failed; only where nobody else counts it.
    tries: BTreeMap<Key, Tries>,
    /// Attempts behind which another came.
    superseded: u64,
}

impl Failing {
    /// What is begun again; before that is said, nothing is.
    pub fn set_rule(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Attempts that are over and behind which another came: who counts files does not count these.
    pub fn superseded(&self) -> u64 {
        self.superseded
    }

    /// A flow is over: tells it, unless it may be begun again. Says whether that is to be decided.
    pub fn settled(&mut self, over: Over, events: &Events) -> bool {
        let key = retry::key(&over.begin);
        self.superseded += u64::from(self.kept.remove(&key).is_some());
        let is_open = match &over.outcome {
            Outcome::Failed(failure) => {
                self.rule.may(&over.begin.origin, failure.kind)
                    && self.kept.len() + self.undecided.len() < KEPT_MAX
            }
            _ => false,
        };
        match is_open {
            true => drop(self.undecided.insert(over.begin.flow, over)),
            false => {
                self.tries.remove(&key);
                events(entry::event(over));
            }
        }
        is_open
    }

    /// It is begun again after a pause, or not.
    pub fn decided(&mut self, flow: EntryId, again: Option<Again>, events: &Events) {
        let Some(over) = self.undecided.remove(&flow) else { return };
        let Some(Again { pause, is_news }) = again else { return events(entry::event(over)) };
        if is_news && let Outcome::Failed(failure) = &over.outcome {
            events(Event::TriedAgain(failure.clone(), pause));
        }
        self.kept.insert(retry::key(&over.begin), over);
    }

    /// As its far feed decides that, of a flow that had gone on for so long.
    pub fn decide(&mut self, flow: EntryId, went_on_for: Duration, events: &Events) {
        let Some(Over { begin, outcome: Outcome::Failed(failure), .. }) = self.undecided.get(&flow) else {
            return;
        };
        let key = retry::key(begin);
        let again = self.tries.entry(key.clone()).or_default().failed(self.rule, failure.kind, went_on_for);
        if again.is_none() {
            self.tries.remove(&key);
        }
        self.decided(flow, again, events);
    }

    /// Nothing is begun again any more: tells as failed what is not complete, unless `goes_on` knows better, of a flow
    /// that failed with so many bytes.
    pub fn end(&mut self, goes_on: impl Fn(&FlowBegin, u64) -> bool, events: &Events) {
        self.rule = Rule::Never;
        let undecided = std::mem::take(&mut self.undecided).into_values();
        let kept = std::mem::take(&mut self.kept).into_values();
        for over in undecided.chain(kept).filter(|over| !goes_on(&over.begin, over.bytes)) {
            events(entry::event(over));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{Failure, FailureKind};
    use std::sync::{Arc, Mutex};
    use thalweg_wire::RelativePath;
    use thalweg_wire::message::Origin;

    fn over(flow: u64, origin: u8, failed: Option<FailureKind>) -> Over {
        let path = RelativePath::new(format!("run{origin}").into_bytes()).unwrap();
        let origin = Origin([origin; 16]);
        let outcome = match failed {
            Some(kind) => Outcome::Failed(Failure::new(kind, "write", "No space left on device").at(&path)),
            None => Outcome::Done { digest: None, losses: Vec::new() },
        };
        let begin = FlowBegin { flow: EntryId(flow), path, origin, mode: 0o644, is_certain: true };
        Over { begin, name: None, bytes: 7, outcome }
    }

    /// What was told, in short.
    fn listens() -> (Events, impl Fn() -> Vec<String>) {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = told.clone();
        let events: Events = Arc::new(move |event| {
            let text = match event {
                Event::TriedAgain(failure, pause) => format!("{failure}; again in {pause:?}"),
                Event::Settled(entry, Outcome::Failed(failure)) => {
                    format!("{} failed: {}", entry.path, failure.kind.word())
                }
                Event::Settled(entry, _) => format!("{} is complete", entry.path),
                _ => return,
            };
            hears.lock().unwrap().push(text);
        });
        (events, move || std::mem::take(&mut *told.lock().unwrap()))
    }

    #[test]
    fn a_file_that_is_complete_in_the_end_is_not_named_as_failed_and_one_that_is_not_is() {
        let (events, told) = listens();
        let mut failing = Failing::default();
        failing.set_rule(Rule::Always);
        for flow in 0..5 {
            assert!(failing.settled(over(flow, 1, Some(FailureKind::Space)), &events));
            failing.decide(EntryId(flow), Duration::ZERO, &events);
        }
        assert_eq!(told(), ["write failed on `run1`: No space left on device; again in 1s"]);
        assert!(failing.settled(over(5, 2, Some(FailureKind::Space)), &events));
        failing.decided(
            EntryId(5),
            Some(Again { pause: Duration::from_millis(7300), is_news: true }),
            &events,
        );
        assert_eq!(told(), ["write failed on `run2`: No space left on device; again in 7.3s"]);
        assert!(failing.settled(over(6, 3, Some(FailureKind::Io)), &events));
        failing.decided(EntryId(6), Some(Again { pause: Duration::ZERO, is_news: false }), &events);
        assert!(!failing.settled(over(7, 1, None), &events));
        assert_eq!(told(), ["run1 is complete"]);
        assert_eq!(failing.superseded(), 5);
        // One is under way again, and all of it is durable.
        failing.end(|begin, bytes| begin.origin == Origin([3; 16]) && bytes == 7, &events);
        assert_eq!(told(), ["run2 failed: space"]);
        failing.end(|_, _| false, &events);
        assert!(told().is_empty(), "each is told once");
    }

    #[test]
    fn what_is_not_begun_again_is_told_at_once() {
        let (events, told) = listens();
        let mut failing = Failing::default();
        assert!(!failing.settled(over(0, 1, Some(FailureKind::Space)), &events));
        assert_eq!(told(), ["run1 failed: space"], "nobody said that anything is begun again");
        failing.set_rule(Rule::Few);
        assert!(!failing.settled(over(1, 1, Some(FailureKind::Conflict)), &events));
        assert_eq!(told(), ["run1 failed: conflict"]);
        for flow in 2..5 {
            assert!(failing.settled(over(flow, 1, Some(FailureKind::Space)), &events));
            failing.decide(EntryId(flow), Duration::ZERO, &events);
        }
        let last = told();
        assert_eq!(last.len(), 2, "{last:?}");
        assert_eq!(last[1], "run1 failed: space");
        // Who does not know what is asked has nothing to say.
        failing.decided(EntryId(9), None, &events);
        assert!(told().is_empty());
    }
}
