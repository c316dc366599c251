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
