//! Clients of one daemon that are stopped, killed, slowed and started again at random moments, all at the same time.
//! Row X-3 of docs/faults.md.

mod support;

use std::collections::BTreeMap;
use std::time::Duration;
use support::chance::{Random, quick_or_torture};
use support::copies::{LIMIT, digests, make_small_source, wrong_names};
use support::job::{Running, with};
use support::{Scratch, assert_no_litter, assert_same, wait_until};

const CLIENTS: u64 = 8;

#[test]
fn x3_clients_that_are_stopped_killed_and_slowed_at_random_all_end_well() {
    let mut random = Random::new("X-3");
    let scratch = Scratch::new();
    let from = scratch.path("from");
    make_small_source(&from);
    let expected = digests(&from);
    for number in 0..CLIENTS {
        std::fs::create_dir(scratch.path(&format!("to-{number}"))).unwrap();
    }
    let daemon = scratch.daemon(&[("data", scratch.root())]);
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut random = random.fork();
            let (scratch, daemon, from, expected) = (&scratch, &daemon, &from, &expected);
            scope.spawn(move || {
                let to = scratch.path(&format!("to-{number}"));
                let state = scratch.path(&format!("state-{number}"));
                let copy = |more: &[&str]| {
                    let command = with(scratch.thalweg(), ["cp", "--json", "--quiet", "--chunk", "256KiB"]);
                    let command = with(with(command, ["--state"]), [&state]);
                    let command = with(with(command, ["--ticket"]), [&daemon.ticket]);
                    let mut command = with(command, more);
                    // Half of them push, half of them pull.
                    match number % 2 {
                        0 => command
                            .arg(format!("{}/", from.display()))
                            .arg(daemon.place("data", &format!("to-{number}/"))),
                        _ => command.arg(daemon.place("data", "from/")).arg(format!("{}/", to.display())),
                    };
                    Running::start(command)
                };
                let mut over = false;
                for _ in 0..quick_or_torture(5, 60) {
                    let job = copy(&["--bwlimit", "4MB/s"]);
                    std::thread::sleep(Duration::from_millis(random.below(900)));
                    let pid = job.pid().to_string();
                    let what = random.below(4);
                    let ran = match what {
                        0 => job.kill(),
                        1 => {
                            // One that is over by now says that it is not there.
                            let state = state.display().to_string();
                            let slowed = scratch.run(["limit", "--state", &state, &pid, "1MB/s"]);
                            assert!(matches!(slowed.status.code(), Some(0 | 3)), "{slowed:?}");
                            std::thread::sleep(Duration::from_millis(random.below(300)));
                            job.kill()
                        }
                        signal => {
                            let signal = if signal == 2 { "-INT" } else { "-TERM" };
                            let _ = std::process::Command::new("kill").args([signal, &pid]).output();
                            job.end(LIMIT)
                        }
                    };
                    // Killed; stopped in order, or before it listened for signals; over by then.
                    assert!(matches!(ran.code, None | Some(0 | 130 | 143)), "{what}: {ran:?}");
                    over |= ran.code == Some(0);
                    let wrong = wrong_names(&to, expected, &mut BTreeMap::new());
                    assert!(wrong.is_empty(), "{wrong:?}");
                }
                let last = copy(&[]).end(LIMIT).expect(0);
                assert!(!over || last.number("bytes_received") == 0, "what was done is sent again: {last:?}");
                // The daemon puts away what it kept for a push when it has signed.
                assert!(
                    wait_until(LIMIT, || !to.join(".thalweg-staging").exists()),
                    "something was left behind"
                );
                assert_same(from, &to);
                assert_no_litter(&to);
            });
        }
    });
    // The daemon has outlived all of them, and serves.
    scratch.ok([
        "ls".into(),
        "--ticket".into(),
        daemon.ticket.display().to_string(),
        daemon.place("data", "from/"),
    ]);
}
