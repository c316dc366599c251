//! What is copied again because it went, and what comes again though it is done.

use super::*;

/// A machine with one item for which the command runs; it may fail so often.
fn running(attempts_max: u32) -> Machine {
    let mut machine = Machine::new(Rules { attempts_max, ..rules(Order::Arrival) });
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    for second in [0, 2] {
        let _ = machine.take(Duration::from_secs(second), looked(seen(&files)));
    }
    copied(&mut machine, Duration::from_secs(2));
    assert_eq!(machine.decide(Duration::from_secs(2)).1, [Action::Run(path("a"), 1)]);
    machine
}

/// Its item is copied, as the machine says.
fn copied(machine: &mut Machine, now: Duration) {
    assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
    let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(1)))));
}

#[test]
fn what_arrived_and_is_not_there_any_more_is_copied_again_but_not_for_ever() {
    let now = Duration::from_secs(2);
    let gone = |attempt| Input::CopyGone(path("a"), attempt, "it is gone".into());
    let mut machine = running(1);
    let records = machine.take(now, gone(1));
    assert!(matches!(&records[..], [Record::Ended(_, 1, Outcome::NotStarted(_))]), "{records:?}");
    assert!(!machine.is_idle() && machine.given_up().is_empty(), "no attempt was made");
    copied(&mut machine, now);
    assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 2)]);
    // Somebody removes it each time.
    let _ = machine.take(now, gone(2));
    assert_eq!(machine.given_up(), [&path("a")]);
    assert_eq!(machine.decide(now + BACKOFF_MAX).1, []);
    // The next life finds it gone, and has it copied again.
    let journal = machine.snapshot();
    let mut machine = Machine::new(rules(Order::Arrival));
    journal.into_iter().for_each(|record| machine.replay(record));
    machine.begin();
    let files = BTreeMap::from([("a".to_owned(), 1)]);
    for second in [0, 2] {
        let _ = machine.take(Duration::from_secs(second), looked(seen(&files)));
    }
    assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 3)]);
    let _ = machine.take(now, gone(3));
    copied(&mut machine, now);
}

#[test]
fn a_copy_that_is_made_again_makes_no_failure_of_the_command_undone() {
    let mut now = Duration::from_secs(2);
    let mut machine = running(3);
    let failed = |attempt| Input::Ended(path("a"), attempt, Outcome::Failed(9));
    let _ = machine.take(now, failed(1));
    now += BACKOFF_MAX;
    assert_eq!(machine.decide(now).1, [Action::Run(path("a"), 2)]);
    let _ = machine.take(now, Input::CopyGone(path("a"), 2, "it is gone".into()));
    // That the way to it fails for a while is no failure of the command.
    for _ in 0..3 {
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(1))]);
        let _ = machine.take(now, Input::Moved(path("a"), Err(Trouble::Passing)));
        now += BACKOFF_MAX;
    }
    copied(&mut machine, now);
    for attempt in [3, 4] {
        assert!(machine.given_up().is_empty());
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), attempt)]);
        let _ = machine.take(now, failed(attempt));
        now += BACKOFF_MAX;
    }
    assert_eq!(machine.given_up(), [&path("a")]);
}

#[test]
fn what_is_neither_where_it_arrived_nor_at_the_source_is_given_up() {
    let mut now = Duration::from_secs(3);
    let mut machine = running(2);
    let _ = machine.take(now, looked(Vec::new()));
    for attempt in [1, 2] {
        let _ = machine.take(now, Input::CopyGone(path("a"), attempt, "it is gone".into()));
        now += BACKOFF_MAX;
        let next = (attempt == 1).then(|| Action::Run(path("a"), 2));
        assert_eq!(machine.decide(now).1, next.into_iter().collect::<Vec<_>>(), "attempt {attempt}");
    }
    assert!(machine.is_idle());
    assert_eq!(machine.given_up(), [&path("a")]);
}

#[test]
fn what_is_done_and_gone_is_forgotten_but_for_its_key_and_never_analysed_again() {
    let rules = || Rules { returns_results: false, ..rules(Order::Arrival) };
    let mut machine = Machine::new(rules());
    let mut now = Duration::ZERO;
    let look = |content: Option<u64>| {
        looked(seen(&content.map(|content| ("a".to_owned(), content)).into_iter().collect()))
    };
    // What a look at this content leads to; a run succeeds at once.
    let mut go = |machine: &mut Machine, content: u64| -> Option<u32> {
        let _ = machine.take(now, look(Some(content)));
        now += Duration::from_secs(2);
        let _ = machine.take(now, look(Some(content)));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(content))]);
        let _ = machine.take(now, Input::Moved(path("a"), Ok(arrived(&path("a"), version(content)))));
        let attempt = match machine.decide(now).1[..] {
            [Action::Run(_, attempt)] => attempt,
            [] => return None,
            ref other => panic!("{other:?}"),
        };
        let ended = machine.take(now, Input::Ended(path("a"), attempt, Outcome::Succeeded));
        assert_eq!(ended.last(), Some(&Record::Done(path("a"))));
        Some(attempt)
    };
    assert_eq!(go(&mut machine, 1), Some(1));
    // It is there: nothing is forgotten.
    assert!(machine.forget().is_empty());
    let _ = machine.take(Duration::from_secs(3), look(None));
    assert_eq!(machine.forget(), [path("a")]);
    let journal = machine.snapshot();
    assert!(matches!(&journal[..], [Record::Past(keys)] if keys.len() == 1), "{journal:?}");
    let mut next = Machine::new(rules());
    journal.into_iter().for_each(|record| next.replay(record));
    next.begin();
    // The same again runs nothing; another content of that name does, and the first after it does not.
    assert_eq!(go(&mut next, 1), None);
    assert_eq!(go(&mut next, 2), Some(1));
    assert_eq!(go(&mut next, 1), None);
    assert_eq!(go(&mut next, 2), None);
    assert!(next.is_idle());
}

#[test]
fn a_touch_without_new_content_runs_nothing_again() {
    let mut machine = Machine::new(Rules { returns_results: false, ..rules(Order::Arrival) });
    let mut now = Duration::ZERO;
    for (touch, runs) in [(1, true), (2, false), (3, false)] {
        let all = vec![Seen { name: path("a"), version: version(touch), is_marked: false }];
        let _ = machine.take(now, looked(all.clone()));
        now += Duration::from_secs(2);
        let _ = machine.take(now, looked(all));
        assert_eq!(machine.decide(now).1, [Action::Move(path("a"), version(touch))]);
        let same = Arrived { version: version(touch), ..arrived(&path("a"), version(1)) };
        let _ = machine.take(now, Input::Moved(path("a"), Ok(same)));
        let (_, actions) = machine.decide(now);
        assert_eq!(!actions.is_empty(), runs);
        if runs {
            let ended = machine.take(now, Input::Ended(path("a"), 1, Outcome::Succeeded));
            assert_eq!(ended.last(), Some(&Record::Done(path("a"))));
        }
        assert!(machine.is_idle());
    }
}

/// Looks at one item with this content.
fn look_at(content: u64) -> Input {
    looked(seen(&BTreeMap::from([("a".to_owned(), content)])))
}

#[test]
fn what_is_corrected_while_it_waits_for_its_turn_is_copied_first_and_the_earlier_version_never_runs() {
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), content)])));
    let at = Duration::from_secs;
    for order in [Order::Arrival, Order::Name, Order::Time] {
        let rules = Rules { runs_max: 1, attempts_max: 1, returns_results: false, ..rules(order) };
        let mut machine = Machine::new(rules);
        for second in [0, 2] {
            let _ = machine.take(at(second), look(2));
        }
        assert_eq!(machine.decide(at(2)).1.len(), 2, "{order:?}");
        for (name, content) in [("a", 1), ("b", 2)] {
            let _ = machine.take(at(2), Input::Moved(path(name), Ok(arrived(&path(name), version(content)))));
        }
        assert_eq!(machine.decide(at(2)).1, [Action::Run(path("a"), 1)], "{order:?}");
        let _ = machine.take(at(3), look(7));
        let _ = machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Succeeded));
        assert_eq!(machine.decide(at(3)).1, [], "{order:?}: neither is run, nor is it complete");
        assert!(!machine.is_idle(), "{order:?}");
        assert_eq!(machine.wakes_at(), Some(at(5)), "{order:?}");
        let _ = machine.take(at(5), look(7));
        assert_eq!(machine.decide(at(5)).1, [Action::Move(path("b"), version(7))], "{order:?}");
        let _ = machine.take(at(5), Input::Moved(path("b"), Ok(arrived(&path("b"), version(7)))));
        assert_eq!(machine.decide(at(5)).1, [Action::Run(path("b"), 1)], "{order:?}");
        assert_eq!(machine.arrived(&path("b")).unwrap().bytes, 7, "{order:?}");
    }
}

#[test]
fn by_time_what_is_corrected_while_it_waits_holds_up_nothing_that_changed_before_the_correction() {
    let look = |content| {
        let files = [("a", 1), ("b", content), ("c", 5)].map(|(name, content)| (name.to_owned(), content));
        looked(seen(&BTreeMap::from(files)))
    };
    let at = Duration::from_secs;
    let mut machine = Machine::new(Rules { returns_results: false, ..rules(Order::Time) });
    for second in [0, 2] {
        let _ = machine.take(at(second), look(2));
    }
    assert_eq!(machine.decide(at(2)).1.len(), 3);
    for (name, content) in [("a", 1), ("b", 2), ("c", 5)] {
        let _ = machine.take(at(2), Input::Moved(path(name), Ok(arrived(&path(name), version(content)))));
    }
    assert_eq!(machine.decide(at(2)).1, [Action::Run(path("a"), 1)]);
    let _ = machine.take(at(3), look(7));
    let _ = machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Succeeded));
    assert_eq!(machine.decide(at(3)).1, [Action::Run(path("c"), 1)]);
}

#[test]
fn a_run_that_did_not_begin_because_the_source_had_changed_is_no_attempt_and_the_other_version_is_copied() {
    let at = Duration::from_secs;
    let mut machine = running(1);
    let records = machine.take(at(3), Input::SourceChanged(path("a"), 1, version(7)));
    assert!(matches!(&records[..], [Record::Ended(_, 1, Outcome::NotStarted(_))]), "{records:?}");
    assert_eq!(machine.decide(at(3)).1, [], "it is not run before a look");
    assert!(!machine.is_idle() && machine.given_up().is_empty(), "no attempt was made");
    assert_eq!(machine.wakes_at(), Some(at(5)));
    let _ = machine.take(at(5), look_at(7));
    assert_eq!(machine.decide(at(5)).1, [Action::Move(path("a"), version(7))]);
    let _ = machine.take(at(5), Input::Moved(path("a"), Ok(arrived(&path("a"), version(7)))));
    assert_eq!(machine.decide(at(5)).1, [Action::Run(path("a"), 2)]);
    let _ = machine.take(at(6), Input::Ended(path("a"), 2, Outcome::Failed(1)));
    assert_eq!(machine.given_up(), [&path("a")]);
}

#[test]
fn what_is_corrected_while_the_last_attempt_runs_is_copied_and_not_given_up() {
    let at = Duration::from_secs;
    let mut machine = running(1);
    for second in [3, 5] {
        let _ = machine.take(at(second), look_at(7));
        assert_eq!(machine.decide(at(second)).1, [], "the command runs");
    }
    let _ = machine.take(at(6), Input::Ended(path("a"), 1, Outcome::Failed(1)));
    assert!(machine.given_up().is_empty());
    assert_eq!(machine.decide(at(6)).1, [Action::Move(path("a"), version(7))]);
}

#[test]
fn what_waits_is_run_as_it_arrived_if_its_correction_goes_before_it_was_copied() {
    let at = Duration::from_secs;
    for trouble in [Trouble::Passing, Trouble::Lasting] {
        let mut machine = running(3);
        let _ = machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Failed(1)));
        for second in [3, 5] {
            let _ = machine.take(at(second), look_at(7));
        }
        assert_eq!(machine.decide(at(5)).1, [Action::Move(path("a"), version(7))], "{trouble:?}");
        let _ = machine.take(at(5), Input::Moved(path("a"), Err(trouble)));
        let _ = machine.take(at(6), looked(Vec::new()));
        assert_eq!(machine.decide(at(6)).1, [Action::Run(path("a"), 2)], "{trouble:?}");
    }
}

/// A machine whose item waits for the command, which failed once, and whose correction is being copied over it.
fn correcting() -> Machine {
    let at = Duration::from_secs;
    let mut machine = running(3);
    let _ = machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Failed(1)));
    for second in [3, 5] {
        let _ = machine.take(at(second), look_at(7));
    }
    let (records, actions) = machine.decide(at(5));
    assert_eq!(records, [Record::Replacing(path("a"))], "before anything is copied");
    assert_eq!(actions, [Action::Move(path("a"), version(7))]);
    machine
}

/// The next life of a watch that is killed.
fn next_life(machine: &Machine) -> Machine {
    let mut next = Machine::new(machine.rules.clone());
    machine.snapshot().into_iter().for_each(|record| next.replay(record));
    next.begin();
    next
}

#[test]
fn what_goes_while_its_correction_replaces_what_arrived_is_not_run_and_told_until_it_comes_again() {
    let at = Duration::from_secs;
    for is_killed in [false, true] {
        let mut machine = correcting();
        match is_killed {
            true => machine = next_life(&machine),
            false => {
                let records = machine.take(at(5), Input::MovedInPart(path("a"), Trouble::Passing));
                assert_eq!(records, []);
            }
        }
        // However many lives it stays gone.
        for _ in 0..2 {
            let _ = machine.take(at(6), looked(Vec::new()));
            assert_eq!(machine.decide(at(6) + BACKOFF_MAX), (Vec::new(), Vec::new()), "killed: {is_killed}");
            assert!(machine.is_idle() && machine.given_up().is_empty(), "killed: {is_killed}");
            assert_eq!(
                (machine.torn(), machine.lost().count()),
                (vec![&path("a")], 0),
                "killed: {is_killed}"
            );
            machine = next_life(&machine);
        }
        for second in [70, 72] {
            let _ = machine.take(at(second), look_at(7));
        }
        assert!(machine.torn().is_empty(), "killed: {is_killed}");
        assert_eq!(machine.decide(at(72)).1, [Action::Move(path("a"), version(7))], "killed: {is_killed}");
        let _ = machine.take(at(72), Input::Moved(path("a"), Ok(arrived(&path("a"), version(7)))));
        assert_eq!(machine.decide(at(72)).1, [Action::Run(path("a"), 2)], "killed: {is_killed}");
    }
}

#[test]
fn of_what_is_torn_so_many_names_are_told_however_much_there_is() {
    let mut machine = Machine::new(rules(Order::Arrival));
    for number in 0..2000 {
        let name = path(&format!("item{number:04}"));
        let known = Known { arrived: arrived(&name, version(1)), attempt: 1, stage: Stage::Replacing };
        machine.replay(Record::Known(name, known));
    }
    machine.begin();
    let _ = machine.take(Duration::ZERO, looked(Vec::new()));
    let torn = machine.torn();
    assert_eq!((torn.len(), torn[0], torn[1023]), (1024, &path("item0000"), &path("item1023")));
}

#[test]
fn what_went_while_its_correction_was_copied_goes_its_way_unless_that_replaced_something() {
    let at = Duration::from_secs;
    for (trouble, is_lost) in [(Trouble::Missing, false), (Trouble::Passing, true), (Trouble::Lasting, true)]
    {
        let gone = |input| {
            let mut machine = correcting();
            let _ = machine.take(at(6), looked(Vec::new()));
            let _ = machine.take(at(6), input);
            let actions = machine.decide(at(6)).1;
            assert!(machine.given_up().is_empty(), "{trouble:?}");
            (machine, actions)
        };
        let (machine, actions) = gone(Input::Moved(path("a"), Err(trouble)));
        assert_eq!(actions, [Action::Run(path("a"), 2)], "{trouble:?}");
        // Of the correction it is told, too.
        assert_eq!((machine.lost().count(), machine.torn().len()), (usize::from(is_lost), 0), "{trouble:?}");
        let (machine, actions) = gone(Input::MovedInPart(path("a"), trouble));
        assert_eq!(actions, [], "{trouble:?}");
        assert!(machine.is_idle(), "{trouble:?}");
        assert_eq!((machine.lost().count(), machine.torn()), (0, vec![&path("a")]), "{trouble:?}");
    }
}

#[test]
fn what_one_copy_replaced_does_not_stand_again_because_the_next_replaced_nothing() {
    let at = Duration::from_secs;
    for is_killed in [false, true] {
        let mut machine = correcting();
        match is_killed {
            true => {
                machine = next_life(&machine);
                let _ = machine.take(at(5), look_at(7));
            }
            false => drop(machine.take(at(5), Input::MovedInPart(path("a"), Trouble::Passing))),
        }
        let _ = machine.take(at(8), look_at(7));
        let again = (Vec::new(), vec![Action::Move(path("a"), version(7))]);
        assert_eq!(machine.decide(at(8)), again, "killed: {is_killed}");
        let records = machine.take(at(8), Input::Moved(path("a"), Err(Trouble::Passing)));
        assert_eq!(records, [], "killed: {is_killed}");
        let _ = machine.take(at(9), looked(Vec::new()));
        assert_eq!(machine.decide(at(9)).1, [], "killed: {is_killed}");
        assert_eq!(machine.torn(), [&path("a")], "killed: {is_killed}");
    }
}

#[test]
fn in_order_what_began_to_be_replaced_holds_up_others_until_a_look_says_that_it_went() {
    let at = Duration::from_secs;
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content), ("b".to_owned(), 2)])));
    let mut machine = Machine::new(rules(Order::Name));
    for second in [0, 2] {
        let _ = machine.take(at(second), look(1));
    }
    assert_eq!(machine.decide(at(2)).1.len(), 2);
    for (name, content) in [("a", 1), ("b", 2)] {
        let _ = machine.take(at(2), Input::Moved(path(name), Ok(arrived(&path(name), version(content)))));
    }
    assert_eq!(machine.decide(at(2)).1, [Action::Run(path("a"), 1)]);
    let _ = machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Failed(1)));
    for second in [3, 5] {
        let _ = machine.take(at(second), look(7));
    }
    assert_eq!(machine.decide(at(5)).1, [Action::Move(path("a"), version(7))]);
    let mut machine = next_life(&machine);
    let rest = || seen(&BTreeMap::from([("b".to_owned(), 2)]));
    let _ = machine.take(at(0), Input::Looked(rest(), vec![path("a")]));
    assert_eq!(machine.decide(at(0)).1, [], "nobody could look at it");
    assert!(machine.is_idle() && machine.torn().is_empty());
    let _ = machine.take(at(1), looked(rest()));
    assert_eq!(machine.decide(at(1)).1, [Action::Run(path("b"), 1)]);
    assert_eq!((machine.torn(), machine.blocked_by()), (vec![&path("a")], None));
}
