//! What fails: copies, the command, results on their way back.

use super::*;

#[test]
fn what_fails_because_something_else_is_not_there_is_tried_on_and_counts_when_it_goes() {
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    let mut machine = Machine::new(rules(Order::Arrival));
    let mut now = Duration::ZERO;
    let _ = machine.take(now, looked(seen(&files)));
    for attempt in 1..=5 {
        now += BACKOFF_MAX;
        let _ = machine.take(now, looked(seen(&files)));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))], "attempt {attempt}");
        assert!(machine.is_busy(), "this one may succeed");
        let _ = machine.take(now, Input::Moved(path("a"), Err(Trouble::Missing)));
        assert!(!machine.is_busy());
        assert_eq!(machine.is_idle(), attempt >= 3, "attempt {attempt}");
        assert_eq!(machine.given_up().len(), usize::from(attempt >= 3));
    }
    let _ = machine.take(now, looked(Vec::new()));
    assert_eq!((machine.is_idle(), machine.given_up().len()), (true, 0));
    assert_eq!(machine.lost().collect::<Vec<_>>(), [&path("a")]);
    // It comes again, and arrives.
    let _ = machine.take(now, looked(seen(&files)));
    let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
    assert_eq!(machine.lost().count(), 0);
}

#[test]
fn what_goes_while_a_later_version_of_it_is_copied_leaves_nothing_to_do() {
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content)])));
    let at = Duration::from_secs;
    for (trouble, is_lost) in [(Trouble::Missing, false), (Trouble::Passing, true), (Trouble::Lasting, true)]
    {
        let mut machine = Machine::new(Rules { returns_results: false, ..rules(Order::Arrival) });
        let _ = machine.take(at(0), look(1));
        let _ = machine.take(at(2), look(1));
        assert_eq!(machine.decide(at(2)).1.len(), 1);
        let _ = machine.take(at(2), Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
        assert_eq!(machine.decide(at(2)).1, [Action::Run(path("a"), 1)]);
        let ended = machine.take(at(2), Input::Ended(path("a"), 1, Outcome::Succeeded));
        assert_eq!(ended.last(), Some(&Record::Done(path("a"))));
        let _ = machine.take(at(3), look(2));
        let _ = machine.take(at(5), look(2));
        assert_eq!(machine.decide(at(5)).1, [Action::Move(path("a"), version(2))]);
        let _ = machine.take(at(6), looked(Vec::new()));
        let _ = machine.take(at(6), Input::Moved(path("a"), Err(trouble)));
        assert!(machine.is_idle() && machine.given_up().is_empty(), "{trouble:?}");
        assert_eq!(machine.lost().count(), usize::from(is_lost), "{trouble:?}");
    }
}

#[test]
fn what_the_command_failed_for_is_replaced_by_what_somebody_corrected() {
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content)])));
    // Once; until it is given up; and in an earlier life.
    for (failures, is_restarted) in [(1, false), (3, false), (1, true), (3, true)] {
        let rules = rules([Order::Arrival, Order::Name][failures as usize % 2]);
        let mut machine = Machine::new(rules.clone());
        let mut now = Duration::ZERO;
        let _ = machine.take(now, look(1));
        now += Duration::from_secs(2);
        let _ = machine.take(now, look(1));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
        for attempt in 1..=failures {
            now += BACKOFF_MAX;
            assert_eq!(machine.decide(now).1, [Action::Run(path("a"), attempt)]);
            let _ = machine.take(now, Input::Ended(path("a"), attempt, Outcome::Failed(1)));
        }
        if is_restarted {
            let journal = machine.snapshot();
            machine = Machine::new(rules);
            journal.into_iter().for_each(|record| machine.replay(record));
            machine.begin();
        }
        let _ = machine.take(now, look(7));
        assert_eq!(machine.decide(now).1, [], "neither is what was corrected run, nor is the other complete");
        now += Duration::from_secs(2);
        let _ = machine.take(now, look(7));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(7))], "after {failures}");
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(7)))));
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), failures + 1)]);
        assert_eq!(machine.arrived(&path("a")).unwrap().bytes, 7);
    }
}

#[test]
fn results_that_have_nowhere_to_go_are_given_up_as_copies_are_and_their_item_is_not_lost() {
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    for (trouble, attempts) in [(Trouble::Missing, 3), (Trouble::Lasting, 1)] {
        let mut machine = Machine::new(rules(Order::Arrival));
        let mut now = Duration::ZERO;
        for _ in 0..2 {
            let _ = machine.take(now, looked(seen(&files)));
            now += Duration::from_secs(2);
        }
        let _ = machine.take(now, looked(seen(&files)));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 1)]);
        let _ = machine.take(now, Input::Ended(path("a"), 1, Outcome::Succeeded));
        for attempt in 1..=attempts {
            assert_eq!(machine.decide(now).1, [Action::Return(path("a"))], "attempt {attempt}");
            let _ = machine.take(now, Input::Returned(path("a"), Err(trouble)));
            assert_eq!(machine.is_idle(), attempt == attempts, "{trouble:?}, attempt {attempt}");
            now += BACKOFF_MAX;
            let _ = machine.take(now, looked(seen(&files)));
        }
        assert_eq!(machine.given_up(), [&path("a")], "{trouble:?}");
        let _ = machine.take(now, looked(Vec::new()));
        assert_eq!(machine.lost().count(), 0, "it arrived");
    }
}
