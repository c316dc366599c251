//! What looks say, and what they could not see.

use super::*;

#[test]
fn what_grows_is_left_alone_until_it_has_rested() {
    let mut machine = Machine::new(rules(Order::Arrival));
    let look = |content| looked(seen(&BTreeMap::from([("a".to_owned(), content)])));
    let at = Duration::from_secs;
    for second in 0..5 {
        assert!(machine.take(at(second), look(second)).is_empty());
        assert_eq!(machine.decide(at(second)), (Vec::new(), Vec::new()));
    }
    assert_eq!(machine.wakes_at(), Some(at(6)));
    assert_eq!(machine.decide(at(6)).1, [], "nobody looked since");
    assert!(machine.take(at(6), look(4)).is_empty());
    assert_eq!(machine.wakes_at(), None);
    assert_eq!(machine.decide(at(6)).1, [Action::Move(path("a"), version(4))]);
}

#[test]
fn what_was_not_found_is_gone_only_if_a_look_says_so() {
    let both = BTreeMap::from([("run1".to_owned(), 1), ("run2".to_owned(), 2)]);
    let late = BTreeMap::from([("run2".to_owned(), 2)]);
    let at = Duration::from_secs;
    let begun = || {
        let mut machine = Machine::new(rules(Order::Name));
        let _ = machine.take(at(0), looked(seen(&both)));
        let _ = machine.take(at(2), looked(seen(&both)));
        assert_eq!(machine.decide(at(2)).1.len(), 2);
        let moved = Input::Moved(path("run2"), Ok(arrived(&path("run2"), version(2))));
        let _ = machine.take(at(2), moved);
        // A temporary file in it was removed while it was copied.
        let _ = machine.take(at(2), Input::Moved(path("run1"), Err(Trouble::Missing)));
        assert_eq!(machine.decide(at(2)).1, [], "nothing overtakes it before a look");
        machine
    };
    let mut machine = begun();
    let _ = machine.take(at(3), looked(seen(&both)));
    assert_eq!(machine.decide(at(3)).1, [Action::Move(path("run1"), version(1))]);
    let _ = machine.take(at(3), Input::Moved(path("run1"), Ok(arrived(&path("run1"), version(1)))));
    assert_eq!(machine.decide(at(3)).1, [Action::Run(path("run1"), 1)]);
    let mut machine = begun();
    let _ = machine.take(at(3), looked(seen(&late)));
    assert_eq!(machine.decide(at(3)).1, [Action::Run(path("run2"), 1)]);
    assert_eq!(machine.lost().count(), 0);
}

#[test]
fn what_nobody_could_look_at_stays_as_it_was_and_is_not_taken_to_rest() {
    let files = |first| BTreeMap::from([("a/1".to_owned(), first), ("b/2".to_owned(), 2)]);
    let rest = || seen(&BTreeMap::from([("b/2".to_owned(), 2)]));
    let at = Duration::from_secs;
    // The file itself, a directory above it, all of it.
    for unseen in ["a/1", "a", ""] {
        let mut machine = Machine::new(rules(Order::Name));
        let hidden =
            || Input::Looked(if unseen.is_empty() { Vec::new() } else { rest() }, vec![path(unseen)]);
        let _ = machine.take(at(0), looked(seen(&files(1))));
        let _ = machine.take(at(1), looked(seen(&files(1))));
        let _ = machine.take(at(2), looked(seen(&files(7))));
        assert_eq!(machine.decide(at(2)).1, [Action::Move(path("b/2"), version(2))]);
        let _ = machine.take(at(2), Input::Moved(path("b/2"), Ok(arrived(&path("b/2"), version(2)))));
        for second in [3, 4, 5] {
            let _ = machine.take(at(second), hidden());
            assert_eq!(machine.decide(at(second)).1, [], "{unseen:?}: nothing overtakes it, and it may grow");
            assert_eq!(machine.wakes_at(), Some(at(second + 2)));
        }
        assert!(
            machine.is_idle(),
            "{unseen:?}: whoever waits for an end shall not wait for what nobody can see"
        );
        assert_eq!(machine.lost().count(), 0);
        let _ = machine.take(at(6), looked(seen(&files(7))));
        assert!(!machine.is_idle());
        assert_eq!(machine.decide(at(6)).1, [], "{unseen:?}: it was seen again only now");
        let _ = machine.take(at(7), looked(seen(&files(7))));
        assert_eq!(machine.decide(at(7)).1, [Action::Move(path("a/1"), version(7))], "{unseen:?}");
    }
    // What is seen beside it is complete when it has rested.
    let mut machine = Machine::new(rules(Order::Arrival));
    for second in [0, 2] {
        let _ = machine.take(at(second), Input::Looked(rest(), vec![path("b"), path("")]));
    }
    assert_eq!(machine.decide(at(2)).1, [Action::Move(path("b/2"), version(2))]);
}

#[test]
fn a_directory_that_is_seen_in_part_is_no_other_version_and_not_complete() {
    let look = |content, unseen: &[&str]| {
        let all = seen(&BTreeMap::from([("run1".to_owned(), content)]));
        Input::Looked(all, unseen.iter().map(|name| path(name)).collect())
    };
    let at = Duration::from_secs;
    let mut machine = Machine::new(Rules { runs_command: false, ..rules(Order::Arrival) });
    for second in [0, 2] {
        let _ = machine.take(at(second), look(1, &["run1"]));
        assert_eq!(machine.decide(at(second)).1, [], "it may be more");
    }
    let _ = machine.take(at(3), look(5, &[]));
    let _ = machine.take(at(5), look(5, &[]));
    assert_eq!(machine.decide(at(5)).1, [Action::Move(path("run1"), version(5))]);
    let moved = machine.take(at(5), Input::Moved(path("run1"), Ok(arrived(&path("run1"), version(5)))));
    assert_eq!(moved.last(), Some(&Record::Done(path("run1"))));
    for second in [6, 9, 12] {
        let _ = machine.take(at(second), look(1, &["run1"]));
        assert_eq!(machine.decide(at(second)).1, []);
    }
    assert!(machine.is_idle());
}

#[test]
fn a_marker_that_nobody_could_look_at_does_not_count_until_it_is_seen_again() {
    let at = Duration::from_secs;
    let all = || vec![Seen { name: path("a/1"), version: version(1), is_marked: true }];
    // The item itself is seen in part; it is not seen, because nobody could look into the directory above it.
    for (seen_then, unseen) in [(all(), "a/1"), (Vec::new(), "a")] {
        let complete = Complete::Marker(b".done".to_vec());
        let mut machine = Machine::new(Rules { complete, ..rules(Order::Arrival) });
        let _ = machine.take(at(0), looked(all()));
        assert_eq!(machine.decide(at(0)).1, [Action::Move(path("a/1"), version(1))]);
        let _ = machine.take(at(1), Input::Moved(path("a/1"), Err(Trouble::Passing)));
        let _ = machine.take(at(2), Input::Looked(seen_then, vec![path(unseen)]));
        assert_eq!(machine.decide(at(3)).1, [], "{unseen}");
        assert!(
            machine.is_idle(),
            "{unseen}: whoever waits for an end shall not wait for what nobody can see"
        );
        let _ = machine.take(at(4), looked(all()));
        assert_eq!(machine.decide(at(4)).1, [Action::Move(path("a/1"), version(1))], "{unseen}");
    }
}
