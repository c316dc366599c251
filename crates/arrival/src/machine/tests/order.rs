//! Whose turn it is, and what waits for whom.

use super::*;

#[test]
fn an_item_that_fails_again_and_again_is_given_up_and_in_order_holds_the_others() {
    let mut machine = Machine::new(Rules { order: Order::Name, ..rules(Order::Name) });
    let files = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
    let mut now = Duration::ZERO;
    let _ = machine.take(now, looked(seen(&files)));
    now += Duration::from_secs(2);
    let _ = machine.take(now, looked(seen(&files)));
    let (_, moves) = machine.decide(now);
    assert_eq!(moves.len(), 2);
    for name in ["b", "a"] {
        let moved = Input::Moved(path(name), Ok(arrived(&path(name), version(files[name]))));
        let _ = machine.take(now, moved);
    }
    for attempt in 1..=3 {
        assert_eq!(machine.decide(now).1, [Action::Run(path("a"), attempt)], "attempt {attempt}");
        let _ = machine.take(now, Input::Ended(path("a"), attempt, Outcome::Failed(9)));
        assert!(machine.decide(now).1.is_empty(), "it is tried again at once");
        now += BACKOFF_MAX;
    }
    assert_eq!(machine.blocked_by(), Some(&path("a")));
    assert!(machine.decide(now).1.is_empty());
    // A new version is another chance.
    let _ = machine.take(now, looked(seen(&BTreeMap::from([("a".to_owned(), 7), ("b".to_owned(), 2)]))));
    assert_eq!(machine.blocked_by(), None);
}

#[test]
fn a_copy_that_ends_leads_to_the_next_however_many_wait_for_their_turn() {
    let mut machine = Machine::new(rules(Order::Name));
    let files: BTreeMap<String, u64> = (1..=9u64).map(|number| (format!("scan{number}"), number)).collect();
    let at = Duration::from_secs;
    let _ = machine.take(at(0), looked(seen(&files)));
    let _ = machine.take(at(2), looked(seen(&files)));
    let moved = |machine: &mut Machine, number: u64| {
        let name = path(&format!("scan{number}"));
        let _ = machine.take(at(2), Input::Moved(name.clone(), Ok(arrived(&name, version(number)))));
        machine.decide(at(2)).1
    };
    let moves = |numbers: &[u64]| -> Vec<Action> {
        let one = |&number| Action::Move(path(&format!("scan{number}")), version(number));
        numbers.iter().map(one).collect()
    };
    assert_eq!(machine.decide(at(2)).1, moves(&[1, 2, 3]));
    // The first is not there: the others are copied, and wait for it.
    for number in 2..=7 {
        assert_eq!(moved(&mut machine, number), moves(&[number + 2]));
    }
    assert_eq!(moved(&mut machine, 8), []);
    assert_eq!(moved(&mut machine, 1), [Action::Run(path("scan1"), 1)]);
    // Copies are at work, and so is the command: of what is found out in another life nothing is left out.
    let mut next = Machine::new(rules(Order::Name));
    machine.snapshot().into_iter().for_each(|record| next.replay(record));
    next.begin();
    assert_eq!(next.decide(at(0)).1, [Action::Recover(path("scan1"), 1)]);
}

#[test]
fn an_item_without_its_marker_is_nothing_to_do_and_is_told_where_others_wait_for_it_in_order() {
    let at = Duration::from_secs;
    for order in [Order::Arrival, Order::Name] {
        let complete = Complete::Marker(b".done".to_vec());
        let mut machine = Machine::new(Rules { complete, returns_results: false, ..rules(order) });
        let look = |marked: &[&str]| {
            let of = |name: &&str| Seen {
                name: path(name),
                version: version(1),
                is_marked: marked.contains(name),
            };
            looked(["a", "b"].iter().map(of).collect())
        };
        let _ = machine.take(at(0), look(&[]));
        assert_eq!(machine.decide(at(0)).1, []);
        assert!(machine.is_idle() && machine.given_up().is_empty(), "{order:?}");
        let _ = machine.take(at(1), look(&["b"]));
        assert!(!machine.is_idle(), "{order:?}");
        assert_eq!(machine.decide(at(1)).1, [Action::Move(path("b"), version(1))]);
        let _ = machine.take(at(1), Input::Moved(path("b"), Ok(arrived(&path("b"), version(1)))));
        let actions = machine.decide(at(1)).1;
        match order {
            Order::Arrival => {
                assert_eq!(actions, [Action::Run(path("b"), 1)]);
                let _ = machine.take(at(1), Input::Ended(path("b"), 1, Outcome::Succeeded));
                assert!(machine.is_idle() && machine.given_up().is_empty());
            }
            _ => {
                assert_eq!(actions, []);
                assert!(machine.is_idle());
                assert_eq!(machine.given_up(), [&path("a")]);
            }
        }
        let _ = machine.take(at(2), look(&["a", "b"]));
        assert!(!machine.is_idle() && machine.given_up().is_empty(), "{order:?}");
    }
}

#[test]
fn by_time_what_is_written_anew_waits_for_what_changed_before_it_in_this_life_and_in_the_next() {
    let at = Duration::from_secs;
    let by_time = || Rules { returns_results: false, ..rules(Order::Time) };
    let look = |files: &[(&str, u64)]| {
        let files = files.iter().map(|(name, content)| ((*name).to_owned(), *content)).collect();
        looked(seen(&files))
    };
    let moved = |name: &str, content| Input::Moved(path(name), Ok(arrived(&path(name), version(content))));
    let life = |records: &[Record]| {
        let mut machine = Machine::new(by_time());
        records.iter().cloned().for_each(|record| machine.replay(record));
        machine.begin();
        machine
    };
    for is_replayed in [false, true] {
        let mut records = Vec::new();
        let mut machine = life(&records);
        for second in [0, 2] {
            records.extend(machine.take(at(second), look(&[("a", 1)])));
        }
        assert_eq!(machine.decide(at(2)).1, [Action::Move(path("a"), version(1))]);
        records.extend(machine.take(at(2), moved("a", 1)));
        let (started, actions) = machine.decide(at(2));
        assert_eq!(actions, [Action::Run(path("a"), 1)]);
        records.extend(started);
        records.extend(machine.take(at(3), Input::Ended(path("a"), 1, Outcome::Succeeded)));
        if is_replayed {
            machine = life(&records);
        }
        let later = [("a", 9), ("b", 5)];
        for second in [10, 12] {
            records.extend(machine.take(at(second), look(&later)));
        }
        let moves = [Action::Move(path("b"), version(5)), Action::Move(path("a"), version(9))];
        assert_eq!(machine.decide(at(12)).1, moves, "replayed: {is_replayed}");
        records.extend(machine.take(at(13), moved("a", 9)));
        assert_eq!(machine.decide(at(13)).1, [], "replayed: {is_replayed}");
        records.extend(machine.take(at(13), moved("b", 5)));
        if is_replayed {
            machine = life(&records);
            let _ = machine.take(at(14), look(&later));
        }
        assert_eq!(machine.decide(at(14)).1, [Action::Run(path("b"), 1)], "replayed: {is_replayed}");
    }
}

#[test]
fn what_arrived_and_was_changed_without_a_new_marker_before_its_turn_is_told() {
    let at = Duration::from_secs;
    let complete = Complete::Marker(b".done".to_vec());
    let rules = Rules { complete, runs_max: 1, returns_results: false, ..rules(Order::Arrival) };
    let mut machine = Machine::new(rules);
    let look = |content, is_marked| {
        let of = |name, content, is_marked| Seen { name: path(name), version: version(content), is_marked };
        looked(vec![of("a", 1, true), of("b", content, is_marked)])
    };
    let _ = machine.take(at(0), look(1, true));
    assert_eq!(machine.decide(at(0)).1.len(), 2);
    for name in ["a", "b"] {
        let _ = machine.take(at(0), Input::Moved(path(name), Ok(arrived(&path(name), version(1)))));
    }
    assert_eq!(machine.decide(at(0)).1, [Action::Run(path("a"), 1)]);
    let _ = machine.take(at(1), look(2, false));
    let _ = machine.take(at(1), Input::Ended(path("a"), 1, Outcome::Succeeded));
    assert_eq!(machine.decide(at(1)).1, []);
    assert!(machine.is_idle());
    assert_eq!(machine.given_up(), [&path("b")]);
    let _ = machine.take(at(2), look(2, true));
    assert_eq!(machine.decide(at(2)).1, [Action::Move(path("b"), version(2))]);
}
