//! Events of the file system that are not to be had, that nobody sends, and that are too many.

use crate::support::job::{Running, Strace, signal, with};
use crate::support::{Scratch, assert_no_litter, chance, noise, wait_until};
use crate::{LIMIT, Writer, append, command, holds};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::time::Duration;

/// What is told where not all events are to be had.
const POLLING: &str = "looking every 100 ms";

/// Streams a directory in which a file grows after a rest, a file comes, and one in new directories; what was told.
fn streamed(strace: &Strace) -> String {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let mut writer = Writer::new(from.join("grows"));
    writer.write(&noise(1, 50_000));
    let mut stream = command(&scratch);
    stream.args(["--until-marker", "DONE"]).arg(scratch.path("from/")).arg(&to);
    let job = Running::start(strace.around(&stream));
    assert!(holds(&to.join("grows"), &noise(1, 50_000)));
    writer.write(b"after a rest");
    append(&from.join("new"), &noise(2, 1000));
    std::fs::create_dir_all(from.join("a/b")).unwrap();
    append(&from.join("a/b/c"), &noise(3, 2000));
    assert!(holds(&to.join("grows"), &[&noise(1, 50_000)[..], b"after a rest"].concat()));
    assert!(holds(&to.join("new"), &noise(2, 1000)));
    assert!(holds(&to.join("a/b/c"), &noise(3, 2000)));
    writer.write(b" and the end");
    drop(writer);
    append(&from.join("DONE"), b"");
    let ran = job.end(LIMIT).expect(0);
    let whole = [&noise(1, 50_000)[..], b"after a rest and the end"].concat();
    assert!(std::fs::read(to.join("grows")).unwrap() == whole);
    assert_no_litter(&to);
    ran.stderr
}

#[test]
fn without_events_everything_arrives_and_that_they_are_missing_is_told_once_with_the_setting() {
    if !Strace::available("stream events") {
        return;
    }
    for (fails, cause) in [
        ("inotify_init1:error=EMFILE", "fs.inotify.max_user_instances"),
        ("inotify_add_watch:error=ENOSPC", "fs.inotify.max_user_watches"),
        // The first directory has events, the others have none.
        ("inotify_add_watch:error=ENOSPC:when=2+", "fs.inotify.max_user_watches"),
    ] {
        let said = streamed(&Strace::inject(fails));
        assert!(said.contains(cause), "{fails}: {said}");
        assert_eq!(said.matches(POLLING).count(), 1, "{fails}: {said}");
    }
    // They cannot be read any more.
    let said = streamed(&Strace::inject("read:error=EIO").with(["-P", "anon_inode:inotify"]));
    assert!(said.contains("are not to be had any more"), "{said}");
    assert_eq!(said.matches(POLLING).count(), 1, "{said}");
}

#[test]
fn of_a_file_system_that_sends_no_events_everything_arrives_all_the_same() {
    if !Strace::available("stream without events") {
        return;
    }
    // Every directory is said to be watched, and nothing is ever told of one.
    let said = streamed(&Strace::inject("inotify_add_watch:retval=1"));
    assert!(!said.contains(POLLING), "{said}");
}

#[test]
fn what_cannot_be_watched_is_looked_at_more_often_than_once_a_second() {
    const LOOKS: usize = 100;
    if !Strace::available("stream looks") {
        return;
    }
    let scratch = Scratch::new();
    let (from, to, calls) = (scratch.path("from"), scratch.path("to"), scratch.path("calls"));
    let mut writer = Writer::new(from.clone());
    writer.write(&noise(4, 10_000));
    let strace = Strace::inject("inotify_add_watch:error=ENOSPC").with([OsStr::new("-o"), calls.as_os_str()]);
    let job = Running::start(strace.around(&with(command(&scratch), [&from, &to])));
    assert!(holds(&to, &noise(4, 10_000)));
    // Each look tries again.
    let looks = || std::fs::read_to_string(&calls).unwrap_or_default().matches("inotify_add_watch(").count();
    let before = looks();
    // Ten seconds; a hundred if it were once a second.
    assert!(wait_until(Duration::from_secs(90), || looks() >= before + LOOKS), "{} looks", looks() - before);
    writer.write(b"the end");
    drop(writer);
    job.end(LIMIT).expect(0);
    assert!(std::fs::read(&to).unwrap() == [&noise(4, 10_000)[..], b"the end"].concat());
}

#[test]
fn more_events_than_the_kernel_keeps_lose_nothing() {
    /// Of a kernel that keeps more, none are made to be too many.
    const KEPT_MAX: usize = 1 << 20;
    let kept = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap_or_default();
    let Some(kept) = kept.trim().parse::<usize>().ok().filter(|kept| *kept <= KEPT_MAX) else {
        return chance::skipped("stream overflow", "the kernel keeps any number of events, or none");
    };
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    std::fs::create_dir(&from).unwrap();
    let mut writers = ["a", "b"].map(|name| Writer::new(from.join(name)));
    writers.iter_mut().for_each(|writer| writer.write(b"begun "));
    let mut stream = command(&scratch);
    stream.args(["--until-marker", "DONE"]).arg(scratch.path("from/")).arg(&to);
    let job = Running::start(stream);
    assert!(holds(&to.join("a"), b"begun ") && holds(&to.join("b"), b"begun "));
    let pid = job.pid();
    signal(pid, Signal::SIGSTOP);
    let stands =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "));
    assert!(wait_until(LIMIT, stands));
    // In turns: the same event twice in a row is one.
    for _ in 0..kept {
        writers.iter_mut().for_each(|writer| writer.write(b"x"));
    }
    // No event tells of these.
    append(&from.join("new"), &noise(5, 1000));
    std::fs::create_dir(from.join("deep")).unwrap();
    append(&from.join("deep/new"), &noise(6, 1000));
    signal(pid, Signal::SIGCONT);
    let whole = [&b"begun "[..], &vec![b'x'; kept]].concat();
    assert!(holds(&to.join("a"), &whole) && holds(&to.join("b"), &whole));
    assert!(holds(&to.join("new"), &noise(5, 1000)) && holds(&to.join("deep/new"), &noise(6, 1000)));
    writers.iter_mut().for_each(|writer| writer.write(b" and over"));
    drop(writers);
    append(&from.join("DONE"), b"");
    let ran = job.end(LIMIT).expect(0);
    let whole = [&whole[..], b" and over"].concat();
    assert!(["a", "b"].iter().all(|name| std::fs::read(to.join(name)).unwrap() == whole));
    assert!(!ran.stderr.contains(POLLING), "{}", ran.stderr);
    assert_no_litter(&to);
}
