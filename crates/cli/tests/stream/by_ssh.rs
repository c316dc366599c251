//! Streams by ssh: the far mover is started for them.

use crate::command;
use crate::sshd::Sshd;
use crate::support::{Scratch, assert_no_litter, finish, noise};
use std::io::Write;
use std::process::Stdio;

#[test]
fn a_pipe_goes_by_ssh_and_comes_back_the_same() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    let content = noise(1, 3 << 20 | 77);
    let place = sshd.url(&scratch.path("far"));
    let mut push = command(&scratch);
    push.args(["-e", &sshd.rsh, "-", &place]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = push.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(std::fs::read(scratch.path("far")).unwrap() == content);

    let mut pull = command(&scratch);
    pull.args(["-e", &sshd.rsh, &place, "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(pull.spawn().unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == content);
    assert_no_litter(scratch.root());
}

#[test]
fn options_that_do_nothing_where_data_ride_in_ssh_are_told_once() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start(&scratch) else { return };
    let content = noise(2, 100_000);
    let mut push = command(&scratch);
    push.args(["--via-ssh", "--cca", "reno", "--dscp", "EF", "-e", &sshd.rsh, "-"]);
    push.arg(sshd.url(&scratch.path("far"))).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = push.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("without effect where data ride in ssh: --dscp, --cca").count(), 1, "{said}");
    assert!(std::fs::read(scratch.path("far")).unwrap() == content);
}
