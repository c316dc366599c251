//! One daemon at a time has a state directory.

use super::support::{Scratch, wait_until};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// `thalweg serve` with this state directory, its words for the test.
fn serve_with(scratch: &Scratch, state: &Path) -> std::process::Child {
    let mut command = scratch.thalweg();
    command.args(["serve", "--listen", "127.0.0.1:0", "--export"]);
    command.arg(format!("data={}", scratch.root().display())).arg("--state").arg(state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Its first line on stdout, without which it does not serve.
fn is_listening(daemon: &mut std::process::Child) -> bool {
    let mut line = String::new();
    let stdout = daemon.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    line.starts_with("listening at ")
}

#[test]
fn a_state_directory_has_one_daemon_and_a_killed_one_keeps_no_other_out() {
    let scratch = Scratch::new();
    let state = scratch.path("state\n\x1b[31m");
    let mut first = serve_with(&scratch, &state);
    assert!(is_listening(&mut first));
    let mut second = serve_with(&scratch, &state);
    let ended = wait_until(Duration::from_secs(60), || second.try_wait().unwrap().is_some());
    if !ended {
        let _ = second.kill();
    }
    let out = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((ended, out.status.code()), (true, Some(3)), "{said}");
    assert!(
        said.contains("another `thalweg serve` has it") && said.contains("state\\x0a\\x1b[31m"),
        "{said}"
    );
    assert!(said.contains("--state DIR") && !said.contains('\x1b'), "{said}");
    // One beside it with a state of its own serves, and so does the next one of this when the first was killed.
    let mut beside = serve_with(&scratch, &scratch.path("other"));
    assert!(is_listening(&mut beside));
    first.kill().unwrap();
    first.wait().unwrap();
    let mut next = serve_with(&scratch, &state);
    assert!(is_listening(&mut next));
    for daemon in [&mut beside, &mut next] {
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
}

/// One that was killed has its state directory until its threads are done, which a slow disk may take a while for.
#[test]
fn a_daemon_that_is_started_while_the_one_before_it_ends_waits_for_that() {
    let scratch = Scratch::new();
    let state = scratch.path("state");
    let mut first = serve_with(&scratch, &state);
    assert!(is_listening(&mut first));
    let mut next = serve_with(&scratch, &state);
    std::thread::sleep(Duration::from_secs(1));
    assert!(next.try_wait().unwrap().is_none(), "it did not wait");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(is_listening(&mut next));
    let _ = next.kill();
    let _ = next.wait();
}
