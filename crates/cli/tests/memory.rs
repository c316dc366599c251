//! `--memory`: one bound for the buffers of a process, named where it limits, whatever is copied.

mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::group::MemoryGroup;
use support::job::peak_memory;
use support::{Daemon, Scratch, assert_same, finish, noise};
use thalweg_client::far_movers::{How, SshOptions};
use thalweg_client::frames::{self, Sender, SenderWishes};
use thalweg_client::place::Places;

/// Of both sides.
const MEMORY: u64 = 16 << 20;
/// What a process has beside its buffers: the program, its threads, what is known of entries under way (64 MiB: promise
/// 67 of SPEC.md).
const BESIDE: u64 = 64 << 20;

/// Runs to the end; the most memory that it had.
fn peak_of(mut command: Command) -> (u64, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut most = 0;
    let until = Instant::now() + Duration::from_secs(300);
    let status = loop {
        most = most.max(peak_memory(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("the copy does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    assert!(status.success(), "{said}");
    (most, said)
}

fn copy(scratch: &Scratch, daemon: &Daemon, more: &[&str], from: &str, to: &str) -> Command {
    let mut command = scratch.thalweg();
    command.args(["cp", "--memory", "16MiB", "--quiet", "--ticket"]).arg(&daemon.ticket);
    command.args(more).args([from, to]);
    command
}

#[test]
fn large_files_many_files_and_many_streams_stay_within_the_memory_that_is_allowed() {
    let scratch = Scratch::new();
    let large = scratch.path("large");
    std::fs::create_dir_all(&large).unwrap();
    for number in 0..2u64 {
        std::fs::write(large.join(number.to_string()), noise(number, 48 << 20)).unwrap();
    }
    let many = scratch.path("many");
    for directory in 0..4u64 {
        let below = many.join(directory.to_string());
        std::fs::create_dir_all(&below).unwrap();
        for file in 0..500u64 {
            std::fs::write(below.join(file.to_string()), noise(file, 3000)).unwrap();
        }
    }
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon =
        scratch.daemon_with(&[("to", &to), ("large", &large), ("many", &many)], &["--memory", "16MiB"]);
    let at = |path: &Path| format!("{}/", path.display());
    let same = |name: &str, target: &Path| assert_same(&scratch.path(name), target);
    for (name, streams) in [("large", "24"), ("many", "24")] {
        for way in ["push", "pull", "local"] {
            let (from, there, target) = match way {
                "push" => (at(&scratch.path(name)), daemon.place("to", "pushed/"), to.join("pushed")),
                "pull" => (daemon.place(name, ""), at(&scratch.path("got")), scratch.path("got")),
                _ => (at(&scratch.path(name)), at(&scratch.path("got")), scratch.path("got")),
            };
            let words = ["--streams", streams, "--direct", "source=on,destination=on"];
            let (most, _) = peak_of(copy(&scratch, &daemon, &words, &from, &there));
            assert!(most <= MEMORY + BESIDE, "{way} of {name} by {streams} streams took {most} bytes");
            same(name, &target);
            std::fs::remove_dir_all(&target).unwrap();
        }
    }
    let most = peak_memory(daemon.pid()).unwrap();
    assert!(most <= MEMORY + BESIDE, "the daemon took {most} bytes");
    // It is named where it limits.
    let said = scratch.ok([
        "cp",
        "-n",
        "--memory",
        "16MiB",
        "--streams",
        "24",
        "--ticket",
        daemon.ticket.to_str().unwrap(),
        &at(&large),
        &daemon.place("to", "new/"),
    ]);
    assert!(said.contains("4 (as many as --memory has room for)"), "{said}");
}

/// The largest that may be asked for: more of them, and less than one at the end.
#[test]
fn requests_of_64_mib_arrive_within_the_memory_that_is_allowed() {
    // A frame of a stream at each side of a local copy, and four in writes.
    const MEMORY: u64 = 512 << 20;
    let scratch = Scratch::new();
    let from = scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("file"), noise(1, (128 << 20) + 4097)).unwrap();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    let daemon = scratch.daemon_with(&[("to", &to), ("from", &from)], &["--memory", "512MiB"]);
    let at = |path: &Path| format!("{}/", path.display());
    let (here, there) = (at(&scratch.path("got")), daemon.place("to", "pushed/"));
    for (source, target, arrived, more) in [
        (at(&from), &here, scratch.path("got"), &["--direct", "on"][..]),
        (at(&from), &here, scratch.path("got"), &["--direct", "off", "--no-io-uring"]),
        (at(&from), &there, to.join("pushed"), &["--direct", "on"]),
        (at(&from), &there, to.join("pushed"), &["--compress", "--cipher", "tls"]),
        (daemon.place("from", ""), &here, scratch.path("got"), &["--verify", "readback"]),
    ] {
        let mut command = scratch.thalweg();
        command.args(["cp", "--memory", "512MiB", "--request", "64MiB", "--chunk", "64MiB", "--quiet"]);
        command.arg("--ticket").arg(&daemon.ticket).args(more).args([&source, target]);
        let (most, _) = peak_of(command);
        assert!(most <= MEMORY + BESIDE, "{source} to {target}, {more:?}, took {most} bytes");
        assert_same(&from, &arrived);
        std::fs::remove_dir_all(&arrived).unwrap();
    }
    let most = peak_memory(daemon.pid()).unwrap();
    assert!(most <= MEMORY + BESIDE, "the daemon took {most} bytes");
}

/// A stream takes half for what is not durable yet and half for frames, however much goes through it.
#[test]
fn a_local_copy_that_has_no_memory_for_a_single_frame_says_what_to_turn() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 20 << 20)).unwrap();
    let mut command = scratch.thalweg();
    command.args(["cp", "--memory", "16MiB", "--request", "16MiB"]);
    let out = command.args([scratch.path("file"), scratch.path("copy")]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && said.contains("get memory for a stream failed"), "{said}");
    assert!(said.contains("hint: ") && said.contains("--request") && said.contains("--memory"), "{said}");
}

#[test]
fn a_stream_stays_within_the_memory_that_is_allowed_at_both_sides() {
    let scratch = Scratch::in_memory();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&to).unwrap();
    let content = noise(1, 160 << 20);
    std::fs::write(&from, &content).unwrap();
    let daemon = scratch.daemon_with(&[("to", &to)], &["--memory", "16MiB"]);
    let stream = |from: &str, to: &str| {
        let mut command = scratch.thalweg();
        command.args(["stream", "--memory", "16MiB", "--quiet", "--ticket"]).arg(&daemon.ticket);
        command.args([from, to]);
        command
    };
    let there = daemon.place("to", "x");
    let back = scratch.path("back");
    for (from, to) in [(from.to_str().unwrap(), there.as_str()), (there.as_str(), back.to_str().unwrap())] {
        let (most, _) = peak_of(stream(from, to));
        assert!(most <= MEMORY + BESIDE, "{from} to {to} took {most} bytes");
    }
    assert!(std::fs::read(&back).unwrap() == content);
    let most = peak_memory(daemon.pid()).unwrap();
    assert!(most <= MEMORY + BESIDE, "the daemon took {most} bytes");
}

#[test]
fn a_stream_says_what_the_memory_leaves_of_its_streams_and_its_buffer() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&to).unwrap();
    std::fs::write(&from, noise(1, 1 << 20)).unwrap();
    let daemon = scratch.daemon(&[("to", &to)]);
    let said = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["stream", "-v", "--streams", "24", "--ticket"]).arg(&daemon.ticket).args(more);
        command.arg(&from).arg(daemon.place("to", "x"));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = finish(child);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let bound = said(&["--memory", "16MiB"]);
    assert!(bound.contains("(as many as --memory has room for)"), "{bound}");
    assert!(bound.contains("(half of --memory)"), "{bound}");
    let free = said(&[]);
    assert!(free.contains("24 (as asked)") && free.contains("(--buffer)"), "{free}");
    assert!(!free.contains("half of --memory"), "{free}");
}

/// A daemon with little memory refuses streams for which there is none; those that it has do the work.
#[test]
fn a_daemon_with_little_memory_serves_a_client_that_asks_for_many_streams() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir_all(&from).unwrap();
    std::fs::create_dir_all(&to).unwrap();
    for number in 0..4u64 {
        std::fs::write(from.join(number.to_string()), noise(number, 12 << 20)).unwrap();
    }
    let daemon = scratch.daemon_with(&[("to", &to), ("from", &from)], &["--memory", "8MiB"]);
    let ticket = daemon.ticket.display().to_string();
    for (source, target) in [
        (format!("{}/", from.display()), daemon.place("to", "pushed/")),
        (daemon.place("from", ""), format!("{}/", scratch.path("pulled").display())),
    ] {
        scratch.ok(["cp", "--quiet", "--streams", "16", "--ticket", &ticket, &source, &target]);
    }
    assert_same(&from, &to.join("pushed"));
    assert_same(&from, &scratch.path("pulled"));
    let most = peak_memory(daemon.pid()).unwrap();
    assert!(most <= (8 << 20) + BESIDE, "the daemon took {most} bytes");
    let refused = scratch.run(["cp", "--memory", "1MiB", "a", "b"]);
    assert_eq!(refused.status.code(), Some(1));
}

/// What was said on stderr: an error that names the daemon, what is needed and what there is, and a hint.
fn assert_says_why(said: &str, daemon: &Daemon) {
    let place = format!("error: get memory for a stream at {} failed: ", daemon.address());
    let cause = said.lines().find_map(|line| line.strip_prefix(&place)).unwrap_or_else(|| panic!("{said}"));
    assert!(cause.contains("8388608") && cause.contains("(--memory)"), "{said}");
    assert!(said.lines().any(|line| line.starts_with("hint: ") && line.contains("serve --memory")), "{said}");
}

#[test]
fn a_daemon_that_has_no_memory_for_a_single_frame_says_what_it_needs_and_what_it_has() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir_all(&from).unwrap();
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(from.join("file"), noise(1, 1 << 20)).unwrap();
    let daemon = scratch.daemon_with(&[("to", &to), ("from", &from)], &["--memory", "8MiB"]);
    let ticket = daemon.ticket.display().to_string();
    let here = format!("{}/", from.display());
    for (source, target) in [
        (here.clone(), daemon.place("to", "new/")),
        (daemon.place("from", ""), format!("{}/", scratch.path("pulled").display())),
    ] {
        let words = ["cp", "--request", "16MiB", "--chunk", "16MiB", "--ticket", &ticket, &source, &target];
        let refused = scratch.run(words);
        assert_eq!(refused.status.code(), Some(6));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_says_why(&said, &daemon);
        assert!(said.contains("a frame takes 1"), "{said}");
    }
    // Nothing was begun there.
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
    scratch.ok(["cp", "--ticket", &ticket, &here, &daemon.place("to", "new/")]);
    assert_same(&from, &to.join("new"));
}

/// Pipes that stay open until their producers are dropped and have, all together, the memory of the daemon: each stream
/// has a frame of 540 KiB once it carried one, and from its beginning where the transfer was open before it.
struct Pipes<'a> {
    scratch: &'a Scratch,
    daemon: &'a Daemon,
    to: PathBuf,
    open: Vec<Child>,
}

impl Pipes<'_> {
    const CONTENT: usize = 100_000;

    /// One pipe more, for what the others left: who comes in between takes it from one of them, not from all.
    fn add(&mut self) {
        let target = self.daemon.place("to", &format!("pipe{}", self.open.len()));
        let mut command = self.scratch.thalweg();
        command.args(["stream", "--quiet", "--streams", "15", "--ticket"]).arg(&self.daemon.ticket);
        let mut pipe =
            command.args(["-", &target]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let written = std::io::Write::write_all(pipe.stdin.as_mut().unwrap(), &noise(2, Self::CONTENT));
        // One that finds no memory at all does not read what it is given.
        assert!(written.is_ok() || !self.open.is_empty(), "{written:?}");
        self.open.push(pipe);
        std::thread::sleep(Duration::from_secs(1));
    }

    /// All come to their end: the first with its content, and of the others each with it or without memory.
    fn end(self) {
        for (number, mut pipe) in self.open.into_iter().enumerate() {
            drop(pipe.stdin.take());
            match pipe.wait().unwrap().code() {
                Some(0) => {
                    let written = std::fs::read(self.to.join(format!("pipe{number}"))).unwrap();
                    assert_eq!(written, noise(2, Self::CONTENT));
                }
                code => assert!(number > 0 && code == Some(6), "pipe {number} ended with {code:?}"),
            }
        }
    }
}

/// Who goes beyond what a group may have is killed.
#[test]
fn a_daemon_that_is_not_told_how_much_it_may_have_goes_by_its_control_group() {
    let Some(group) = MemoryGroup::new("a daemon in a small control group", 48 << 20) else { return };
    let scratch = Scratch::new();
    let to = scratch.path("to");
    std::fs::create_dir(&to).unwrap();
    std::fs::write(scratch.path("file"), noise(1, 300 << 20)).unwrap();
    let mut daemon = scratch.daemon_at("127.0.0.1:0", &[("to", &to)], &[], |command| group.around(&command));
    let ticket = daemon.ticket.display().to_string();
    let words = ["cp", "--quiet", "--streams", "24", "--patience", "60s", "--ticket", &ticket];
    let (from, there) = (scratch.path("file").display().to_string(), daemon.place("to", ""));
    scratch.ok([&words[..], &[from.as_str(), there.as_str()]].concat());
    assert!(daemon.is_alive(), "it was killed");
    assert!(std::fs::read(to.join("file")).unwrap() == noise(1, 300 << 20));
    // Frames have an eighth of it, and what is under way of them another.
    let how = || How::to_ask(&Places::default(), Some(daemon.ticket.as_path()), SshOptions::default());
    let place = OsString::from(daemon.place("to", "channel"));
    let _sender = Sender::open(&place, how(), SenderWishes::default()).unwrap();
    let bytes = frames::status(&place, how()).unwrap().memory_bytes_max;
    assert!(bytes <= (48 << 20) / 8, "{bytes}");
}

#[test]
fn a_client_that_gets_no_stream_because_others_have_the_memory_is_told_so_and_comes_in_when_they_are_gone() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir_all(&from).unwrap();
    std::fs::create_dir_all(&to).unwrap();
    std::fs::write(from.join("file"), noise(1, 3 << 20)).unwrap();
    let daemon = scratch.daemon_with(&[("to", &to), ("from", &from)], &["--memory", "8MiB"]);
    let ticket = daemon.ticket.display().to_string();
    let here = format!("{}/", from.display());
    let mut pipes = Pipes { scratch: &scratch, daemon: &daemon, to: to.clone(), open: Vec::new() };
    pipes.add();
    let until = Instant::now() + Duration::from_secs(300);
    for (number, pull) in [(0, false), (1, true)] {
        let target = scratch.path(&format!("pulled{number}"));
        let (source, target) = match pull {
            false => (here.clone(), daemon.place("to", &format!("new{number}/"))),
            true => (daemon.place("from", ""), format!("{}/", target.display())),
        };
        loop {
            let second = scratch.run(["cp", "--streams", "2", "--ticket", &ticket, &source, &target]);
            if second.status.success() {
                assert!(Instant::now() < until, "the daemon always has memory");
                pipes.add();
                continue;
            }
            let said = String::from_utf8_lossy(&second.stderr);
            assert_eq!(second.status.code(), Some(6), "{said}");
            assert_says_why(&said, &daemon);
            assert!(said.contains("a buffer of "), "{said}");
            break;
        }
    }
    pipes.end();
    scratch.ok(["cp", "--quiet", "--ticket", &ticket, &here, &daemon.place("to", "after/")]);
    assert_same(&from, &to.join("after"));
}
