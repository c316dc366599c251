//! Kills, cuts and restarts at random moments: a mark never goes back, and in the end the whole is there, once.

use crate::support::chance::{Random, Struck, quick_or_torture, strikes, struck};
use crate::support::job::{Running, Strace, signal, with};
use crate::support::proxy::Proxy;
use crate::support::{Scratch, assert_no_litter, finish, noise, wait_until};
use crate::{LIMIT, Writer, command, mark, piped};
use nix::sys::signal::Signal;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Writes a file in bits, as long as it lives, and closes it at the end.
fn write_slowly(path: &Path, content: Vec<u8>, pause: Duration) -> std::thread::JoinHandle<()> {
    let mut writer = Writer::new(path.to_owned());
    std::thread::spawn(move || {
        for bytes in content.chunks(20_000) {
            writer.write(bytes);
            std::thread::sleep(pause);
        }
    })
}

/// Watches that a mark, while there is one, never goes back, and never names what is not there.
fn watch(scratch: &Scratch, path: &Path, content: &[u8], done: &AtomicBool) -> u64 {
    let (mut last, mut looks) = (0, 0);
    while !done.load(Ordering::Acquire) {
        if path.exists() {
            let (now, is_complete) = mark(scratch, path);
            // Between two attempts, and after the end, there is no mark: the size is told.
            if !is_complete {
                assert!(now >= last, "the mark went back from {last} to {now}");
                let there = std::fs::read(path).unwrap();
                assert!(there[..now as usize] == content[..now as usize]);
                last = now;
                looks += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    looks
}

/// As many of each of so many kinds, in any order.
fn shuffled(random: &mut Random, kinds: u64, each: u64) -> Vec<u64> {
    let mut strikes: Vec<u64> = (0..kinds * each).map(|strike| strike % kinds).collect();
    for left in (1..strikes.len()).rev() {
        strikes.swap(left, random.below(left as u64 + 1) as usize);
    }
    strikes
}

/// A file grows at one side and is streamed to the other; whoever asked, the daemon and the link are struck.
fn through_strikes(row: &str, is_pull: bool) {
    let mut random = Random::new(row);
    let scratch = Arc::new(Scratch::new());
    let (here, export) = (scratch.path("here"), scratch.path("export"));
    std::fs::create_dir(&export).unwrap();
    std::fs::create_dir(&here).unwrap();
    let (from, to) = match is_pull {
        true => (export.join("x"), here.join("x")),
        false => (here.join("x"), export.join("x")),
    };
    let each = strikes(3);
    let mut strikes = shuffled(&mut random, 3, each);
    let content = noise(1, 20_000 * 5 * strikes.len());
    let mut daemon = Some(scratch.daemon(&[("data", &export)]));
    let address = daemon.as_ref().unwrap().address();
    let proxy = Proxy::new(&address);
    let place = proxy.place("data", "x");
    let local = here.join("x").display().to_string();
    let words = if is_pull { [&place, &local] } else { [&local, &place] };
    let writer = write_slowly(&from, content.clone(), Duration::from_millis(100));
    let done = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (scratch, to, content, done) = (scratch.clone(), to.clone(), content.clone(), done.clone());
        move || watch(&scratch, &to, &content, &done)
    });
    let start = || Running::start(with(command(&scratch), words));
    let mut job = start();
    while let Some(strike) = strikes.pop() {
        std::thread::sleep(Duration::from_millis(100 + random.below(400)));
        match strike {
            0 => {
                job.kill();
                job = start();
            }
            1 => {
                if let Some(daemon) = daemon.take() {
                    daemon.kill();
                }
                daemon = Some(scratch.daemon_at(&address, &[("data", &export)], &[], |command| command));
            }
            _ => proxy.cut(),
        }
    }
    writer.join().unwrap();
    job.end(LIMIT).expect(0);
    done.store(true, Ordering::Release);
    let looks = watcher.join().unwrap();
    assert!(looks > 0, "nobody saw a mark");
    let came = std::fs::read(&to).unwrap();
    assert!(came == content);
    assert_no_litter(to.parent().unwrap());
    struck(
        &format!(
            "{row}: {each} kills of the mover here, {each} of the daemon, {each} cuts of the link; in {looks} looks the mark \
             never went back and what was below it was the source's; the end is the whole"
        ),
        &Struck {
            kind: if is_pull {
                "a stream of a file that grows far away"
            } else {
                "a stream of a file that grows"
            },
            kills: 2 * each,
            cuts: each,
            resumed: 2 * each + each,
            whole: content.len() as u64,
            unit: "bytes",
            lost: (content.len() - came.len()) as u64,
            ..Struck::default()
        },
    );
}

#[test]
fn a_growing_file_outlives_kills_of_either_side_and_cuts_of_the_link() {
    through_strikes("stream push", false);
}

#[test]
fn a_file_that_grows_far_away_outlives_kills_of_either_side_and_cuts_of_the_link() {
    through_strikes("stream pull", true);
}

#[test]
fn a_pipe_outlives_cuts_and_restarts_of_the_daemon() {
    let mut random = Random::new("stream pipe");
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let mut daemon = Some(scratch.daemon(&[("data", &export)]));
    let address = daemon.as_ref().unwrap().address();
    let proxy = Proxy::new(&address);
    let mut child = piped(&scratch, &proxy.place("data", "x"), &["--buffer", "256KiB"]);
    let mut pipe = child.stdin.take().unwrap();
    let each = strikes(3);
    let strikes = shuffled(&mut random, 2, each);
    let content = noise(2, strikes.len() * (512 << 10));
    for (bytes, strike) in content.chunks(512 << 10).zip(strikes) {
        let (first, second) = bytes.split_at(200_000);
        pipe.write_all(first).unwrap();
        std::thread::sleep(Duration::from_millis(random.below(200)));
        if strike == 0 {
            proxy.cut();
        } else {
            if let Some(daemon) = daemon.take() {
                daemon.kill();
            }
            daemon = Some(scratch.daemon_at(&address, &[("data", &export)], &[], |command| command));
        }
        pipe.write_all(second).unwrap();
    }
    drop(pipe);
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let came = std::fs::read(export.join("x")).unwrap();
    assert!(came == content);
    assert_no_litter(&export);
    struck(
        &format!(
            "stream pipe: {each} kills of the daemon, {each} cuts of the link; the end is the whole, once"
        ),
        &Struck {
            kind: "a stream of a pipe",
            kills: each,
            cuts: each,
            resumed: each + each,
            whole: content.len() as u64,
            unit: "bytes",
            lost: (content.len() - came.len()) as u64,
            ..Struck::default()
        },
    );
}

#[test]
fn a_consumer_outlives_restarts_of_the_daemon_that_it_pulls_from() {
    let mut random = Random::new("stream to a pipe");
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let each = strikes(2);
    let strikes = shuffled(&mut random, 2, each);
    let content = noise(3, 20_000 * 8 * strikes.len());
    let writer = write_slowly(&export.join("x"), content.clone(), Duration::from_millis(100));
    let mut daemon = scratch.daemon(&[("data", &export)]);
    let address = daemon.address();
    let proxy = Proxy::new(&address);
    let mut pull = command(&scratch);
    let out = std::fs::File::create(scratch.path("out")).unwrap();
    let pull = pull.args([&proxy.place("data", "x"), "-"]).stdout(out);
    let child = pull.stderr(std::process::Stdio::piped()).spawn().unwrap();
    for strike in strikes {
        std::thread::sleep(Duration::from_millis(100 + random.below(500)));
        if strike == 0 {
            proxy.cut();
        } else {
            daemon.kill();
            daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
        }
    }
    writer.join().unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let came = std::fs::read(scratch.path("out")).unwrap();
    assert!(came == content);
    struck(
        &format!(
            "stream to a pipe: {each} kills of the daemon, {each} cuts of the link; what came is the whole, once"
        ),
        &Struck {
            kind: "a stream into a pipe",
            kills: each,
            cuts: each,
            resumed: each + each,
            whole: content.len() as u64,
            unit: "bytes",
            lost: (content.len() - came.len()) as u64,
            ..Struck::default()
        },
    );
}

#[test]
fn a_producer_that_was_killed_says_the_same_again_and_only_the_rest_is_sent() {
    let scratch = Scratch::new();
    let to = scratch.path("to");
    let content = noise(4, 1 << 20);
    let mut child = piped(&scratch, to.to_str().unwrap(), &[]);
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&content[..600_000]).unwrap();
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (600_000, false)));
    child.kill().unwrap();
    child.wait().unwrap();
    drop(pipe);
    assert_eq!(mark(&scratch, &to), (600_000, false));
    let mut child = piped(&scratch, to.to_str().unwrap(), &[]);
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = finish(child);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the first 600000 bytes are there already"), "{said}");
    assert!(std::fs::read(&to).unwrap() == content);
    assert_no_litter(scratch.root());
}

#[test]
fn asked_to_stop_it_keeps_its_mark_and_the_same_command_goes_on() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let mut writer = Writer::new(from.clone());
    writer.write(&noise(5, 100_000));
    let push = || Running::start(with(command(&scratch), [&from, &to]));
    let job = push();
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (100_000, false)));
    signal(job.pid(), Signal::SIGTERM);
    job.end(LIMIT).expect(143);
    assert_eq!(mark(&scratch, &to), (100_000, false));
    writer.write(&noise(6, 50_000));
    drop(writer);
    push().end(LIMIT).expect(0);
    assert!(std::fs::read(&to).unwrap() == [noise(5, 100_000), noise(6, 50_000)].concat());
}

#[test]
fn what_is_gone_on_with_is_told_to_be_read_again() {
    let scratch = Scratch::in_memory();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let (from, to) = (scratch.path("from"), export.join("x"));
    let first = noise(8, 17 << 20);
    let mut writer = Writer::new(from.clone());
    writer.write(&first);
    let push = || {
        let words = [from.to_str().unwrap().to_owned(), daemon.place("data", "x")];
        Running::start(with(command(&scratch), words))
    };
    let job = push();
    let bytes = first.len() as u64;
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (bytes, false)));
    job.kill();
    writer.write(b"and the rest");
    drop(writer);
    let ran = push().end(LIMIT).expect(0);
    assert!(ran.stderr.contains("reading 17825792 bytes of the source, "), "{}", ran.stderr);
    assert!(std::fs::read(&to).unwrap() == [first, b"and the rest".to_vec()].concat());
}

#[test]
fn a_link_outlives_a_reading_again_that_takes_longer_than_a_stall_and_so_does_one_that_is_cut_meanwhile() {
    if !Strace::available("stream reading") {
        return;
    }
    for is_cut in quick_or_torture(&[false][..], &[false, true]) {
        let scratch = Scratch::in_memory();
        let (from, export) = (scratch.path("from"), scratch.path("export"));
        let to = export.join("x");
        std::fs::create_dir(&export).unwrap();
        let content = noise(10, 16 << 20);
        std::fs::write(&to, &content).unwrap();
        let whole = [&content[..], b"and the rest"].concat();
        std::fs::write(&from, &whole).unwrap();
        // Twelve seconds at least, where five are a stall.
        let slow = Strace::inject("pread64:delay_enter=750000").with(["-P"]).with([&to]);
        let daemon =
            scratch.daemon_at("127.0.0.1:0", &[("data", &export)], &[], |command| slow.around(&command));
        let proxy = Proxy::new(&daemon.address());
        let words = ["--stall-timeout", "5s", from.to_str().unwrap(), &proxy.place("data", "x")];
        let job = Running::start(with(command(&scratch), words));
        if *is_cut {
            std::thread::sleep(Duration::from_secs(3));
            proxy.cut();
        }
        let ran = job.end(LIMIT).expect(0);
        assert!(ran.stderr.contains("the destination reads what it has again"), "{}", ran.stderr);
        assert!(!ran.stderr.contains("acknowledged nothing"), "{}", ran.stderr);
        assert!(std::fs::read(&to).unwrap() == whole);
    }
}

#[test]
fn what_was_changed_below_the_mark_is_found_and_not_gone_on_with() {
    let scratch = Scratch::new();
    let (from, to) = (scratch.path("from"), scratch.path("to"));
    let mut writer = Writer::new(from.clone());
    writer.write(&noise(7, 100_000));
    let push = || Running::start(with(command(&scratch), [&from, &to]));
    let job = push();
    assert!(wait_until(LIMIT, || to.exists() && mark(&scratch, &to) == (100_000, false)));
    job.kill();
    let mut rotten = std::fs::read(&to).unwrap();
    rotten[5000] ^= 1;
    std::fs::write(&to, &rotten).unwrap();
    drop(writer);
    let ran = push().end(LIMIT).expect(4);
    assert!(ran.stderr.contains("what is there is not what was durable"), "{}", ran.stderr);
}
