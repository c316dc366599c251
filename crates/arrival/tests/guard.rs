//! A guard waits for all children of its process: it has a process of its own here, and one test.

use std::process::Command;
use thalweg_arrival::command::{RunPlace, guard};
use thalweg_arrival::machine::Outcome;

#[test]
fn a_command_whose_keeper_was_killed_before_it_told_its_number_is_known_and_its_end_recorded() {
    let directory = tempfile::tempdir().unwrap();
    // It lives on for a while, or ends as soon as its keeper, before or after it.
    for (number, rest, code) in [("1", "0.3", 3), ("2", "0", 0)] {
        let place = RunPlace::new(directory.path(), number);
        // As who starts a guard leaves it.
        std::fs::write(directory.path().join(format!("{number}.lock")), "").unwrap();
        let mut keeper = Command::new("sh");
        keeper.args(["-c", "sh -c \"sleep $0; exit $1\" & kill -KILL $$", rest, &code.to_string()]);
        guard(&directory.path().join(number), &mut keeper).unwrap();
        let outcome = if code == 0 { Outcome::Succeeded } else { Outcome::Failed(code) };
        assert_eq!(place.wait(&|| false).unwrap(), Some(outcome));
    }
    // Where it never began one, nobody can say how it ended.
    let place = RunPlace::new(directory.path(), "3");
    guard(&directory.path().join("3"), Command::new("sh").args(["-c", "kill -KILL $$"])).unwrap();
    assert_eq!(place.wait(&|| false).unwrap(), Some(Outcome::Unknown));
}
