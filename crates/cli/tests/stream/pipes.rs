//! Pipes: to a file, from a file, and from program to program.

use crate::support::job::{Running, signal, with};
use crate::support::{Scratch, assert_no_litter, finish, noise, wait_until};
use crate::{IMPATIENT, LIMIT, REST, append, command, holds, mark, piped};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use thalweg_lab::wrap::wrap;

#[test]
fn a_pipe_goes_to_a_daemon_and_comes_back_the_same() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon(&[("data", &to)]);
    let content = noise(1, 5 << 20 | 321);
    let mut child = piped(&scratch, &daemon.place("data", "run/x"), &[]);
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(to.join("run/x")).unwrap(), content);
    assert_eq!(mark(&scratch, &to.join("run/x")), (content.len() as u64, true));
    assert_no_litter(&to);

    let mut back = command(&scratch);
    back.arg(daemon.place("data", "run/x")).arg("-").stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = finish(back.spawn().unwrap());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == content);
}

#[test]
fn the_rate_of_a_stream_is_changed_while_it_runs_on_either_side() {
    let scratch = Scratch::new();
    let state = scratch.path("state");
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let content = noise(4, 64 << 20);
    std::fs::write(export.join("whole"), &content).unwrap();
    for is_push in [true, false] {
        let (from, to) = match is_push {
            true => (export.join("whole").into_os_string(), daemon.place("data", "copy").into()),
            false => (daemon.place("data", "whole").into(), scratch.path("copy").into_os_string()),
        };
        let copy = if is_push { export.join("copy") } else { scratch.path("copy") };
        let mut command = command(&scratch);
        command.args(["--json", "--bwlimit", "2Mbit/s", "--until-size", "64MiB", "--state"]).arg(&state);
        let mut job = Running::start({
            command.arg(from).arg(to);
            command
        });
        let came = || std::fs::metadata(&copy).map_or(0, |stat| stat.len());
        assert!(wait_until(LIMIT, || came() > 1 << 20 || job.is_over()));
        assert!(came() < 32 << 20, "{} bytes came", came());
        let told =
            scratch.ok([OsStr::new("limit"), OsStr::new("--state"), state.as_os_str(), OsStr::new("none")]);
        assert!(told.contains("no limit"), "{told}");
        // At 2 Mbit/s it would take four minutes more.
        let ran = job.end(Duration::from_secs(120)).expect(0);
        assert!(ran.stdout.contains("rate: no limit from now on"), "{}", ran.stdout);
        assert!(std::fs::read(&copy).unwrap() == content);
    }
}

#[test]
fn a_pipe_goes_into_a_local_file_and_out_of_it_and_nothing_is_nothing() {
    let scratch = Scratch::new();
    for bytes in [0, 1, 3 << 20] {
        let path = scratch.path(&format!("x-{bytes}"));
        let mut child = piped(&scratch, path.to_str().unwrap(), &[]);
        child.stdin.take().unwrap().write_all(&noise(2, bytes)).unwrap();
        assert!(finish(child).status.success());
        assert!(std::fs::read(&path).unwrap() == noise(2, bytes));
        let mut back = command(&scratch);
        back.arg(&path).arg("-").stdout(Stdio::piped()).stderr(Stdio::piped());
        assert!(finish(back.spawn().unwrap()).stdout == noise(2, bytes));
    }
    assert_no_litter(scratch.root());
}

#[test]
fn what_stands_there_is_gone_on_with_if_the_pipe_begins_with_it_and_never_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path("x");
    std::fs::write(&path, noise(3, 100_000)).unwrap();
    let mut child = piped(&scratch, path.to_str().unwrap(), &[]);
    child.stdin.take().unwrap().write_all(&noise(3, 300_000)).unwrap();
    assert!(finish(child).status.success());
    assert!(std::fs::read(&path).unwrap() == noise(3, 300_000));

    let mut child = piped(&scratch, path.to_str().unwrap(), &[]);
    // It may end before it has read all of this.
    let _ = child.stdin.take().unwrap().write_all(&noise(4, 400_000));
    let output = finish(child);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("another file of 300000 bytes stands there"), "{said}");
    assert!(std::fs::read(&path).unwrap() == noise(3, 300_000));
}

#[test]
fn a_consumer_follows_what_a_producer_streams_and_ends_when_it_is_complete() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon(&[("data", &to)]);
    let place = daemon.place("data", "x");
    let mut producer = piped(&scratch, &place, &[]);
    let mut pipe = producer.stdin.take().unwrap();
    let content = noise(5, 2 << 20);
    pipe.write_all(&content[..1 << 20]).unwrap();
    assert!(wait_until(LIMIT, || to.join("x").exists()));
    let mut follow = command(&scratch);
    let mut consumer =
        follow.args([&place, "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut got = vec![0; 1 << 20];
    consumer.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    assert!(got == content[..1 << 20]);
    // It waits: there is more to come.
    assert!(matches!(consumer.try_wait(), Ok(None)));
    pipe.write_all(&content[1 << 20..]).unwrap();
    drop(pipe);
    assert!(finish(producer).status.success());
    let mut rest = Vec::new();
    consumer.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    assert!(rest == content[1 << 20..]);
    assert!(finish(consumer).status.success());
}

#[test]
fn a_consumer_that_rests_holds_the_stream_up_and_one_that_leaves_ends_it() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let content = noise(6, 8 << 20);
    std::fs::write(to.join("x"), &content).unwrap();
    let daemon = scratch.daemon(&[("data", &to)]);
    let place = daemon.place("data", "x");
    let mut pull = command(&scratch);
    // A rest that is longer than a stall and than the patience is no fault of the link.
    pull.args(["--buffer", "64KiB"]).args(IMPATIENT).args([&place, "-"]);
    let mut child = pull.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(9));
    let mut got = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut got).unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(got == content);

    let mut pull = command(&scratch);
    let mut child = pull.args([&place, "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = finish(child);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nobody reads the output any more"), "{said}");
}

#[test]
fn what_a_consumer_got_that_is_not_complete_is_not_said_to_be_nothing_and_verified() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    let mut producer = piped(&scratch, to.to_str().unwrap(), &[]);
    let mut pipe = producer.stdin.take().unwrap();
    pipe.write_all(&noise(7, 200_000)).unwrap();
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (200_000, false)));
    producer.kill().unwrap();
    producer.wait().unwrap();
    let mut pull = command(&scratch);
    pull.args(["--until-idle", "500ms"]).args([&to, Path::new("-")]);
    let output = pull.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && output.stdout == noise(7, 200_000), "{said}");
    let last = said.lines().last().unwrap();
    assert!(
        last.contains("0 B in 0 files complete, of 195.31 KiB that came") && last.ends_with("; 1 failed"),
        "{last}"
    );
    assert!(!last.contains("verified"), "{last}");
}

#[test]
fn a_producer_may_rest_longer_than_a_stall_and_than_all_patience_and_who_follows_it_waits() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon_with(&[("data", &to)], &["--stall-timeout", "5s"]);
    let place = daemon.place("data", "x");
    let content = noise(8, 200_000);
    let mut producer = piped(&scratch, &place, &IMPATIENT);
    let mut pipe = producer.stdin.take().unwrap();
    pipe.write_all(&content[..120_000]).unwrap();
    assert!(holds(&to.join("x"), &content[..120_000]));
    let out = scratch.path("out");
    let mut follow = command(&scratch);
    follow.args(IMPATIENT).args([&place, "-"]).stdout(std::fs::File::create(&out).unwrap());
    let mut consumer = follow.stderr(Stdio::piped()).spawn().unwrap();
    assert!(holds(&out, &content[..120_000]));
    std::thread::sleep(REST);
    assert!(matches!(producer.try_wait(), Ok(None)) && matches!(consumer.try_wait(), Ok(None)));
    pipe.write_all(&content[120_000..]).unwrap();
    drop(pipe);
    for child in [producer, consumer] {
        let output = finish(child);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("acknowledged nothing"), "{said}");
    }
    assert!(std::fs::read(to.join("x")).unwrap() == content);
    assert!(std::fs::read(&out).unwrap() == content);
    assert_no_litter(&to);
}

#[test]
fn a_fifo_is_a_source_and_events_are_json() {
    let scratch = Scratch::new();
    let (fifo, to) = (scratch.path("fifo"), scratch.path("to"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut stream = command(&scratch);
    stream.arg("--json").arg(&fifo).arg(&to);
    let job = Running::start(stream);
    append(&fifo, &noise(7, 200_000));
    let ran = job.end(LIMIT).expect(0);
    assert_eq!(ran.number("bytes"), 200_000);
    assert_eq!(ran.number("files_complete"), 1);
    assert!(std::fs::read(&to).unwrap() == noise(7, 200_000));
}

#[test]
fn a_pipe_is_complete_when_its_writer_closes_it_and_asked_for_another_end_it_is_refused() {
    let scratch = Scratch::new();
    let (fifo, to) = (scratch.path("fifo"), scratch.path("to"));
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let ends = [["--until-size", "1MB"], ["--until-idle", "1s"], ["--until-marker", "DONE"]];
    for (end, from) in ends.iter().flat_map(|end| [(end, Path::new("-")), (end, &*fifo)]) {
        let mut stream = command(&scratch);
        let output = stream.args(end).args([from, &*to]).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{end:?} {from:?}: {said}");
        assert!(said.contains("a pipe is complete when its writer closes it"), "{said}");
        assert!(!to.exists());
    }
    // What only files need does no harm, and is told.
    let options = ["--until-closed", "--recheck", "--poll", "1s", "--wait"];
    let mut child = piped(&scratch, to.to_str().unwrap(), &options);
    child.stdin.take().unwrap().write_all(b"all of it").unwrap();
    let output = finish(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("without effect for a pipe: --wait, --poll, --recheck"), "{said}");
    assert_eq!(std::fs::read(&to).unwrap(), b"all of it");
}

/// As what `cat > FILE` would have made, here and at a daemon, whatever umask that one has.
#[test]
fn a_pipe_becomes_a_file_with_the_mode_that_the_users_umask_leaves() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon(&[("data", &to)]);
    for (place, made) in
        [(daemon.place("data", "x"), to.join("x")), (to.join("y").display().to_string(), to.join("y"))]
    {
        let mut stream = command(&scratch);
        stream.args(["-", &place]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "umask 027; echo x | \"$@\"", "sh"]);
        assert!(wrap(shell, &stream).stderr(Stdio::null()).status().unwrap().success());
        assert_eq!(std::fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

#[test]
fn a_daemon_tells_a_session_that_ended_in_order_from_a_link_that_was_lost() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &to)], &[], |mut command| {
        command.env("THALWEG_LOG", "info");
        command
    });
    let mut child = piped(&scratch, &daemon.place("data", "x"), &[]);
    child.stdin.take().unwrap().write_all(b"all of it").unwrap();
    assert!(finish(child).status.success());
    assert!(wait_until(LIMIT, || scratch.server_log().contains("session ended")), "{}", scratch.server_log());
    assert!(!scratch.server_log().contains("link lost"), "{}", scratch.server_log());
    let mut child = piped(&scratch, &daemon.place("data", "y"), &[]);
    child.stdin.as_mut().unwrap().write_all(b"a part").unwrap();
    assert!(wait_until(LIMIT, || to.join("y").exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_until(LIMIT, || scratch.server_log().contains("link lost")), "{}", scratch.server_log());
}

/// Of a terminal that goes away the kernel tells and the shell, and a login that ends sends SIGHUP behind SIGTERM.
/// Nobody can read again what was read from a pipe.
#[test]
fn a_pipe_whose_terminal_goes_away_brings_what_was_read_of_it() {
    /// What a pipe holds, and what is in a reader's hands.
    const UNREAD_MAX: usize = 1 << 20;
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    for (first, name, code) in [(Signal::SIGHUP, "x", 130), (Signal::SIGTERM, "y", 143)] {
        let content = noise(7, 4 << 20);
        let stream = with(command(&scratch), ["--bwlimit", "8Mbit/s", "-", &daemon.place("data", name)]);
        let (job, mut stdin) = Running::fed(stream);
        stdin.write_all(&content).unwrap();
        signal(job.pid(), first);
        let is_stopping = || job.said().iter().any(|(_, line)| line.contains("stopping:"));
        assert!(wait_until(LIMIT, is_stopping), "{:?}", job.said());
        signal(job.pid(), Signal::SIGHUP);
        job.end(LIMIT).expect(code);
        drop(stdin);
        let came = std::fs::read(export.join(name)).unwrap();
        assert!(content.starts_with(&came));
        assert!(came.len() + UNREAD_MAX >= content.len(), "{} bytes came", came.len());
        assert_eq!(mark(&scratch, &export.join(name)), (came.len() as u64, false));
    }
}
