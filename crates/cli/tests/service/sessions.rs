//! How many sessions a daemon has, and whose they are.

use super::asked;
use super::support::job::{Running, bytes_allocated};
use super::support::machine::elsewhere;
use super::support::{Scratch, noise, wait_until};
use std::time::Duration;

/// Nodes of a cluster push from the same path to the same place, with copies of one ticket.
#[test]
fn the_same_command_on_two_machines_is_two_copies() {
    let scratch = Scratch::new();
    for name in ["export", "from"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/file"), noise(1, 8 << 20)).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let copy = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["cp", "--chunk", "64KiB", "--ticket"]).arg(&daemon.ticket).args(more);
        command.arg(scratch.path("from/")).arg(daemon.place("data", "all/"));
        command
    };
    let Some(second) = elsewhere("two machines", &scratch, &copy(&[])) else { return };
    // At this rate it would take minutes.
    let mut first = Running::start(copy(&["--bwlimit", "32K"]));
    let is_under_way =
        || std::fs::read_dir(scratch.path("export/all")).is_ok_and(|mut found| found.next().is_some());
    assert!(wait_until(Duration::from_secs(60), is_under_way));
    let second = Running::start(second).end(Duration::from_secs(120));
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(std::fs::read(scratch.path("export/all/file")).unwrap() == noise(1, 8 << 20));
    assert!(!first.is_over(), "the other one is not disturbed");
    first.kill();
}

/// Its session is cut off, and waited for ten minutes.
#[test]
fn a_client_that_was_killed_begins_again_where_one_address_has_one_session() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("srv")).unwrap();
    std::fs::write(scratch.path("file"), noise(9, 24 << 20)).unwrap();
    let bound = ["--max-sessions-per-address", "1"];
    let daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], &bound);
    let (from, to) = (scratch.path("file").display().to_string(), daemon.place("data", "file"));
    let mut copy = scratch.thalweg();
    copy.args(["cp", "--bwlimit", "1MB/s", &from, &to]).env("THALWEG_TICKET", &daemon.ticket);
    let copy = Running::start(copy);
    assert!(wait_until(LIMIT, || bytes_allocated(&scratch.path("srv")) >= 1 << 20));
    copy.kill();
    // The daemon hears of its end a moment later.
    let again = || asked(&scratch, &daemon.ticket, &["cp", &from, &to]);
    let mut last = again();
    assert!(
        wait_until(LIMIT, || {
            let is_done = last.0 == Some(0);
            if !is_done {
                last = again();
            }
            is_done
        }),
        "{last:?}"
    );
    assert!(std::fs::read(scratch.path("srv/file")).unwrap() == noise(9, 24 << 20));
}

/// A stream of a pipe that stays open is a session for as long as that is wanted.
#[test]
fn one_session_more_than_was_said_is_refused_until_another_ends() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("srv")).unwrap();
    // From one address comes half of all, if nobody says: one of two.
    let bounds = [["--max-sessions", "1"], ["--max-sessions", "2"], ["--max-sessions-per-address", "1"]];
    for (number, bounds) in bounds.iter().enumerate() {
        let daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], bounds);
        let name = format!("pipe-{number}");
        let mut stream = scratch.thalweg();
        stream.args(["stream", "-", &daemon.place("data", &name)]).env("THALWEG_TICKET", &daemon.ticket);
        let (stream, mut pipe) = Running::fed(stream);
        std::io::Write::write_all(&mut pipe, b"x").unwrap();
        let has_begun = || scratch.path("srv").join(&name).exists();
        assert!(wait_until(LIMIT, has_begun), "{bounds:?}");
        let listed = || asked(&scratch, &daemon.ticket, &["ls", &daemon.place("data", "")]);
        let (code, said) = listed();
        assert_eq!(code, Some(3), "{bounds:?}: {said}");
        assert!(said.contains("as many sessions or streams as it takes"), "{bounds:?}: {said}");
        drop(pipe);
        assert_eq!(stream.end(LIMIT).code, Some(0), "{bounds:?}");
        // The daemon hears of its end a moment later.
        assert!(wait_until(LIMIT, || listed().0 == Some(0)), "{bounds:?}");
    }
}
