//! Kills, cuts and restarts at random moments: a mark never goes back, and in the end the whole is there, once.

use crate::support::chance::{Random, strikes};
use crate::support::count::{Count, stands};
use crate::support::job::{Running, Strace, signal, with};
use crate::support::plan::Plan;
use crate::support::proxy::Proxy;
use crate::support::{Daemon, Scratch, assert_no_litter, finish, noise, wait_until};
use crate::{LIMIT, Writer, append, command, holds, mark, piped};
use nix::sys::signal::Signal;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Writes a file in bits until it is told to stop, and closes it then; how much it wrote.
fn write_slowly(
    path: &Path,
    content: Arc<Vec<u8>>,
    stop: &Arc<AtomicBool>,
) -> std::thread::JoinHandle<usize> {
    let (mut writer, stop) = (Writer::new(path.to_owned()), stop.clone());
    std::thread::spawn(move || {
        let mut written = 0;
        for bytes in content.chunks(20_000) {
            writer.write(bytes);
            written += bytes.len();
            if stop.load(Ordering::Acquire) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        written
    })
}

/// More than is written between two strikes; and for all of them in ten minutes.
const BETWEEN_BYTES: usize = 20_000 * 40;
const ALL_BYTES: usize = 20_000 * 10 * 600;

/// A daemon that is killed and begins again at its address, and a link to it that is cut.
struct Served<'a> {
    scratch: &'a Scratch,
    export: &'a Path,
    daemon: Option<Daemon>,
    address: String,
    proxy: Proxy,
}

impl<'a> Served<'a> {
    fn new(scratch: &'a Scratch, export: &'a Path) -> Served<'a> {
        let daemon = scratch.daemon(&[("data", export)]);
        let address = daemon.address();
        Served { scratch, export, daemon: Some(daemon), proxy: Proxy::new(&address), address }
    }

    /// Strikes the link, or else the daemon: when, and whether there was anything that it could break.
    fn strike(&mut self, is_link: bool, is_under_way: bool, had: u64, count: &mut Count) -> (Instant, bool) {
        if is_link {
            let is_met = self.proxy.cut() && is_under_way;
            count.strike("the link", is_met, had);
            return (Instant::now(), is_met);
        }
        count.strike("the daemon", is_under_way, had);
        let at = Instant::now();
        if let Some(daemon) = self.daemon.take() {
            daemon.kill();
        }
        let exports = [("data", self.export)];
        self.daemon = Some(self.scratch.daemon_at(&self.address, &exports, &[], |command| command));
        (at, is_under_way)
    }
}

/// The mark of what may not be there yet.
fn marked(scratch: &Scratch, path: &Path) -> u64 {
    if path.exists() { mark(scratch, path).0 } else { 0 }
}

/// Looks at a mark, while there is one: how often, how often it was less than before, and how often it named what is
/// not there.
fn watch(scratch: &Scratch, path: &Path, content: &[u8], done: &AtomicBool) -> (u64, u64, u64) {
    let (mut last, mut looks, mut back, mut wrong) = (0, 0, 0, 0);
    while !done.load(Ordering::Acquire) {
        if path.exists() {
            let (now, is_over) = mark(scratch, path);
            // Between two attempts, and after the end, there is no mark: the size is told.
            if !is_over {
                // What is behind the mark of the look before: the whole is compared in the end.
                let new = last.min(now) as usize..now as usize;
                let mut there = vec![0; new.len()];
                let is_there = std::fs::File::open(path)
                    .and_then(|file| file.read_exact_at(&mut there, new.start as u64))
                    .is_ok();
                wrong += u64::from(!is_there || content.get(new) != Some(&there[..]));
                back += u64::from(now < last);
                last = now;
                looks += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (looks, back, wrong)
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
    let mut plan = Plan::new(&mut random, 3, strikes(3));
    let content = Arc::new(noise(1, (BETWEEN_BYTES * plan.most()).min(ALL_BYTES)));
    let mut served = Served::new(&scratch, &export);
    let place = served.proxy.place("data", "x");
    let local = here.join("x").display().to_string();
    let words = if is_pull { [&place, &local] } else { [&local, &place] };
    let kind =
        if is_pull { "a stream of a file that grows far away" } else { "a stream of a file that grows" };
    let mut count = Count::of(kind, "bytes");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_slowly(&from, content.clone(), &stop);
    let done = Arc::new(AtomicBool::new(false));
    let watcher = std::thread::spawn({
        let (scratch, to, content, done) = (scratch.clone(), to.clone(), content.clone(), done.clone());
        move || watch(&scratch, &to, &content, &done)
    });
    let start = || Running::start(with(with(command(&scratch), ["--json"]), words));
    let mut job = start();
    let (mut said, mut since) = (Vec::new(), Instant::now());
    while let Some(strike) = plan.next(400, || {
        if job.is_over() {
            // One that never had a link gives up; whoever asked does so again.
            said.extend(std::mem::replace(&mut job, start()).kill().said);
        }
        !stands(&job.said_since(since)).is_empty()
    }) {
        let had = marked(&scratch, &to);
        let is_under_way = !job.is_over();
        let (at, is_met) = match strike {
            0 => {
                count.strike("the mover here", is_under_way, had);
                let at = Instant::now();
                said.extend(job.kill().said);
                job = start();
                (at, is_under_way)
            }
            _ => served.strike(strike == 2, is_under_way, had, &mut count),
        };
        since = at;
        if !is_met {
            plan.missed();
        }
    }
    stop.store(true, Ordering::Release);
    let written = writer.join().unwrap();
    let mut ran = job.end(LIMIT);
    if ran.code == Some(3) {
        said.append(&mut ran.said);
        ran = start().end(LIMIT);
    }
    said.extend(ran.said.iter().cloned());
    stands(&said).into_iter().for_each(|(at, from)| count.stood(at, from));
    done.store(true, Ordering::Release);
    let (looks, back, wrong) = watcher.join().unwrap();
    count.looked(looks, back);
    count.foreign += wrong;
    count.bytes(&content[..written], &std::fs::read(&to).unwrap_or_default());
    count.over();
    ran.expect(0);
    assert!(looks > 0, "nobody saw a mark");
    assert_no_litter(to.parent().unwrap());
}

#[test]
fn a_growing_file_outlives_kills_of_either_side_and_cuts_of_the_link() {
    through_strikes("stream push", false);
}

#[test]
fn a_file_that_grows_far_away_outlives_kills_of_either_side_and_cuts_of_the_link() {
    through_strikes("stream pull", true);
}

/// Sockets stay open and nothing passes, for longer than a stall.
#[test]
fn a_link_that_falls_silent_under_a_growing_file_and_a_pipe_costs_nothing() {
    let scratch = Scratch::new();
    let (from, export) = (scratch.path("from"), scratch.path("export"));
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon_with(&[("data", &export)], &["--stall-timeout", "3s"]);
    let proxy = Proxy::new(&daemon.address());
    let content = noise(8, 200_000);
    let stalls = ["--stall-timeout", "3s"];
    let mut writer = Writer::new(from.clone());
    let grows = with(with(command(&scratch), stalls), [from.to_str().unwrap(), &proxy.place("data", "file")]);
    let grows = Running::start(grows);
    let (flows, mut pipe) =
        Running::fed(with(with(command(&scratch), stalls), ["-", &proxy.place("data", "pipe")]));
    let mut write = |bytes: &[u8]| {
        writer.write(bytes);
        pipe.write_all(bytes).unwrap();
    };
    let stand_at =
        |bytes: u64| ["file", "pipe"].iter().all(|name| marked(&scratch, &export.join(name)) == bytes);
    write(&content[..100_000]);
    assert!(wait_until(LIMIT, || stand_at(100_000)));
    proxy.stall(true);
    write(&content[100_000..]);
    let is_noticed = |job: &Running| job.said().iter().any(|(_, line)| line.contains("link lost"));
    assert!(wait_until(LIMIT, || is_noticed(&grows) && is_noticed(&flows)), "the silence");
    assert!(stand_at(100_000), "nothing passed");
    proxy.stall(false);
    assert!(wait_until(LIMIT, || stand_at(200_000)));
    drop((writer, pipe));
    for (job, name) in [(grows, "file"), (flows, "pipe")] {
        job.end(LIMIT).expect(0);
        assert!(std::fs::read(export.join(name)).unwrap() == content, "{name}");
    }
    assert_no_litter(&export);
}

#[test]
fn a_pipe_outlives_cuts_and_restarts_of_the_daemon() {
    let mut random = Random::new("stream pipe");
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let mut served = Served::new(&scratch, &export);
    let words = ["--json", "--buffer", "256KiB", "-", &served.proxy.place("data", "x")];
    let (mut job, mut pipe) = Running::fed(with(command(&scratch), words));
    let mut plan = Plan::new(&mut random, 2, strikes(3));
    let content = noise(2, (plan.most() + 1) * (512 << 10));
    let to = export.join("x");
    let mut count = Count::of("a stream of a pipe", "bytes");
    let (mut written, mut since) = (0, Instant::now());
    for bytes in content.chunks(512 << 10) {
        let (first, second) = bytes.split_at(200_000);
        pipe.write_all(first).unwrap();
        written += first.len();
        let Some(strike) = plan.next(400, || !stands(&job.said_since(since)).is_empty()) else { break };
        let had = marked(&scratch, &to);
        let (at, is_met) = served.strike(strike == 0, !job.is_over(), had, &mut count);
        since = at;
        if !is_met {
            plan.missed();
        }
        pipe.write_all(second).unwrap();
        written += second.len();
    }
    drop(pipe);
    let ran = job.end(LIMIT);
    stands(&ran.said).into_iter().for_each(|(at, from)| count.stood(at, from));
    count.bytes(&content[..written], &std::fs::read(&to).unwrap_or_default());
    count.over();
    ran.expect(0);
    assert_no_litter(&export);
}

#[test]
fn a_consumer_outlives_restarts_of_the_daemon_that_it_pulls_from() {
    let mut random = Random::new("stream to a pipe");
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let mut plan = Plan::new(&mut random, 2, strikes(2));
    let content = Arc::new(noise(3, (BETWEEN_BYTES * plan.most()).min(ALL_BYTES)));
    let stop = Arc::new(AtomicBool::new(false));
    let writer = write_slowly(&export.join("x"), content.clone(), &stop);
    let mut served = Served::new(&scratch, &export);
    let to = scratch.path("out");
    let mut pull = with(command(&scratch), ["--json", &served.proxy.place("data", "x"), "-"]);
    pull.stdin(std::process::Stdio::null()).stdout(std::fs::File::create(&to).unwrap());
    let (mut job, _) = Running::start_as(pull);
    let mut count = Count::of("a stream into a pipe", "bytes");
    let came = || std::fs::metadata(&to).unwrap().len();
    // Before its session stands there is nothing to come back to.
    assert!(wait_until(LIMIT, || came() > 0));
    let mut since = job.started;
    while let Some(strike) = plan.next(400, || !stands(&job.said_since(since)).is_empty()) {
        let had = came();
        let (at, is_met) = served.strike(strike == 0, !job.is_over(), had, &mut count);
        since = at;
        if !is_met {
            plan.missed();
        }
    }
    stop.store(true, Ordering::Release);
    let written = writer.join().unwrap();
    let ran = job.end(LIMIT);
    stands(&ran.said).into_iter().for_each(|(at, from)| count.stood(at, from));
    count.bytes(&content[..written], &std::fs::read(&to).unwrap());
    count.over();
    ran.expect(0);
}

/// A session that comes after knows the rate of the beginning: with that the rest would take three minutes more.
#[test]
fn a_rate_that_was_changed_holds_at_a_daemon_that_was_restarted() {
    let scratch = Scratch::new();
    let (export, state) = (scratch.path("export"), scratch.path("state"));
    std::fs::create_dir(&export).unwrap();
    let content = noise(5, 64 << 20);
    std::fs::write(export.join("x"), &content).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let address = daemon.address();
    let to = scratch.path("copy");
    let state_words = state.to_str().unwrap();
    let options = ["--json", "--bwlimit", "256K", "--until-size", "64MiB", "--state", state_words];
    let pull = with(with(command(&scratch), options), [&daemon.place("data", "x"), to.to_str().unwrap()]);
    let mut job = Running::start(pull);
    let came = || std::fs::metadata(&to).map_or(0, |stat| stat.len());
    assert!(wait_until(LIMIT, || came() > 1 << 20 || job.is_over()));
    let told = scratch.ok(["limit", "--state", state_words, "8M"]);
    assert!(told.contains("67.1 Mbit/s"), "{told}");
    assert!(wait_until(LIMIT, || came() > 16 << 20 || job.is_over()));
    assert!(!job.is_over(), "{} bytes came", came());
    daemon.kill();
    let _daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
    let ran = job.end(Duration::from_secs(120)).expect(0);
    assert!(ran.stdout.contains("link-lost"), "{}", ran.stdout);
    assert!(std::fs::read(&to).unwrap() == content);
}

#[test]
fn a_complete_file_that_was_renamed_goes_on_when_it_grows_after_restarts_of_either_side() {
    let scratch = Scratch::new();
    let (from, export) = (scratch.path("from"), scratch.path("export"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let address = daemon.address();
    let (source, place) = (format!("{}/", from.display()), daemon.place("data", "to"));
    let start = || {
        let words = ["--json", "--until-marker", "DONE", &source, &place];
        Running::start(with(command(&scratch), words))
    };
    // Whoever reads it has heard so.
    let is_complete = |job: &Running| {
        let is_told = |(_, line): &(Instant, String)| line.contains(r#""outcome":"done""#);
        assert!(wait_until(LIMIT, || job.said().iter().any(is_told)));
    };
    append(&from.join("run"), &noise(12, 1000));
    let job = start();
    is_complete(&job);
    job.kill();
    std::fs::rename(from.join("run"), from.join("run.1")).unwrap();
    let job = start();
    is_complete(&job);
    std::fs::rename(from.join("run.1"), from.join("run.2")).unwrap();
    daemon.kill();
    append(&from.join("run.2"), &noise(13, 500));
    let _daemon = scratch.daemon_at(&address, &[("data", &export)], &[], |command| command);
    let arrives = export.join("to");
    assert!(holds(&arrives.join("run"), &[noise(12, 1000), noise(13, 500)].concat()));
    append(&from.join("DONE"), b"");
    job.end(LIMIT).expect(0);
    for name in ["run.1", "run.2"] {
        assert!(!arrives.join(name).exists(), "{name} was begun");
    }
    assert_no_litter(&arrives);
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
    const READS_AGAIN: &str = "the destination reads what it has again";
    if !Strace::available("stream reading") {
        return;
    }
    let outlives = |is_cut: bool| {
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
        let mut job = Running::start(with(command(&scratch), words));
        if is_cut {
            // Meanwhile: it has begun, which is told, and takes long.
            let is_told = |(_, line): &(Instant, String)| line.contains(READS_AGAIN);
            assert!(wait_until(LIMIT, || job.is_over() || job.said().iter().any(is_told)));
            assert!(proxy.cut() && !job.is_over(), "it was over before it was cut");
        }
        let ran = job.end(LIMIT).expect(0);
        assert!(ran.stderr.contains(READS_AGAIN), "{}", ran.stderr);
        assert!(!ran.stderr.contains("acknowledged nothing"), "{}", ran.stderr);
        assert!(std::fs::read(&to).unwrap() == whole);
    };
    std::thread::scope(|scope| {
        for is_cut in [false, true] {
            scope.spawn(move || outlives(is_cut));
        }
    });
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

#[test]
fn a_stream_whose_file_is_removed_or_replaced_while_it_runs_is_not_said_to_be_whole() {
    let scratch = Scratch::new();
    let export = scratch.path("export");
    std::fs::create_dir(&export).unwrap();
    let daemon = scratch.daemon(&[("data", &export)]);
    let content = noise(11, 100_000);
    for (name, is_far, is_replaced) in [("a", false, false), ("b", true, false), ("c", true, true)] {
        let to = export.join(name);
        let place = if is_far { daemon.place("data", name) } else { to.to_str().unwrap().to_owned() };
        let mut child = piped(&scratch, &place, &[]);
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&content).unwrap();
        assert!(holds(&to, &content));
        if is_replaced {
            std::fs::write(scratch.path("other"), "of somebody else").unwrap();
            std::fs::rename(scratch.path("other"), &to).unwrap();
        } else {
            std::fs::remove_file(&to).unwrap();
        }
        drop(pipe);
        let output = finish(child);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{name}: {said}");
        let why = if is_replaced { "somebody replaced it" } else { "somebody removed it" };
        assert!(said.contains(why), "{name}: {said}");
        assert_eq!(to.exists(), is_replaced, "{name}");
    }
}
