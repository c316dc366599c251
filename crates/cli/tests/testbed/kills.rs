//! A testbed that is killed: while it comes up, while something is done with it, while it goes.

use super::{Measures, eventually, held_by, holders, processes_of, spaces_of, wires};
use crate::support::chance::{Random, has, quick_or_torture, say};
use crate::support::testbed::Testbed;
use nix::sys::signal::{Signal, kill};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use thalweg_sys::namespace::NetworkNamespace;

/// Who removes the record of one that was killed, for three rounds each.
const REMOVERS: [&str; 4] = ["down", "up", "status", "list"];

/// What is under way beside it is met within so long.
const UNDER_WAY: Duration = Duration::from_millis(80);

/// One that comes up: the daemon, or who starts it as well, dies somewhere on the way. Or it is up, and dies while a
/// program is started in it, while packets are under way, while it is changed, while it is removed.
#[test]
fn a_testbed_that_was_killed_at_any_moment_leaves_a_record_alone_which_the_next_command_removes() {
    let Some(testbed) = Testbed::up("kill", &["--rtt", "4ms"]) else { return };
    let mut random = Random::new("kill");
    assert!(testbed.do_it("down", &[]).status.success());
    // By it our devices are told from those of all others on this machine.
    let mtu = (2000 + random.below(6000)).to_string();
    let up = ["--rtt", "4ms", "--mtu", mtu.as_str()];
    let rules = rules();
    let began = Instant::now();
    assert!(testbed.do_it("up", &up).status.success());
    let up_takes = began.elapsed();
    say(&format!("kill: an `up` takes {} ms here, and dies within that", up_takes.as_millis()));
    let spaces = spaces_of(&wires(&testbed));
    assert!(spaces.len() >= 3, "two hosts and what is between: {spaces:?}");
    assert!(!holders(&spaces).is_empty(), "the testbed holds its own");
    // What is looked for below is seen where it is.
    let there = remains(&mtu, &spaces);
    for what in ["left-1", "right-1", "eth0", "queue "] {
        assert!(there.iter().any(|line| line.contains(what)), "{what}: {there:?}");
    }
    // One that runs, with a program inside.
    let mut inside = testbed.command("run", &["left", "sleep", "600"]).spawn().expect("start");
    let command_line = format!("/proc/{}/cmdline", inside.id());
    eventually("the program runs", || {
        std::fs::read(&command_line).is_ok_and(|bytes| bytes.starts_with(b"sleep"))
    });
    kill(testbed.pid(), Signal::SIGKILL).unwrap();
    eventually("it is dead", || wires(&testbed).is_empty());
    let down = testbed.do_it("down", &[]);
    assert!(String::from_utf8_lossy(&down.stdout).contains("1 program in it was ended"), "{down:?}");
    assert!(!inside.wait().unwrap().success());
    let recorded = || std::fs::read_dir(testbed.scratch.path("testbeds/testbed")).unwrap().count();
    let (mut seen, mut whole) = (BTreeSet::new(), 0);
    for round in 0..quick_or_torture(20_usize, 200) {
        let mut starter = testbed.command("up", &up).spawn().expect("start");
        let under_way: Option<(&str, &[&str])> = match round % 8 {
            1 => Some(("run", &["right", "sleep", "600"])),
            3 => Some(("run", &["left", "ping", "-q", "-i", "0.002", "right"])),
            5 => Some(("set", &["--rtt", "8ms", "--loss", "1e-3"])),
            7 => Some(("down", &[])),
            _ => None,
        };
        let beside = under_way.map(|(command, options)| {
            assert!(starter.wait().unwrap().success(), "round {round}");
            testbed.command(command, options).spawn().expect("start")
        });
        let most = if beside.is_some() { UNDER_WAY } else { up_takes };
        std::thread::sleep(Duration::from_micros(random.below(most.as_micros() as u64)));
        if round % 4 == 0 {
            let _ = starter.kill();
        }
        // One that was just being started is met at the next look.
        let mut spaces = BTreeSet::new();
        eventually("it is dead", || {
            let daemons = wires(&testbed);
            spaces.extend(spaces_of(&daemons));
            for process in daemons {
                let _ = kill(process, Signal::SIGKILL);
            }
            let has_starter = starter.try_wait().unwrap().is_none();
            !has_starter && wires(&testbed).is_empty() && processes_of(&testbed, &["up"]).is_empty()
        });
        // Nobody is asked to remove anything yet.
        if let Some(mut beside) = beside {
            // It was ended, or found that the testbed was dead.
            eventually("the program is gone", || beside.try_wait().unwrap().is_some());
        }
        // The kernel takes a namespace apart, with the devices in it, when nobody holds it any more.
        eventually("namespaces are gone", || holders(&spaces).is_empty());
        eventually("wardens are gone", || processes_of(&testbed, &["warden"]).is_empty());
        let mut left = Vec::new();
        eventually("devices and queues are gone", || {
            left = remains(&mtu, &spaces);
            left.is_empty()
        });
        let remover = REMOVERS[round / 3 % REMOVERS.len()];
        let options: &[&str] = match remover {
            "up" => &up,
            _ => &[],
        };
        let removed = testbed.do_it(remover, options);
        let told = String::from_utf8_lossy(&[&removed.stdout[..], &removed.stderr[..]].concat()).into_owned();
        // Of one that is no more there is no status.
        let code = if remover == "status" { 3 } else { 0 };
        assert_eq!(removed.status.code(), Some(code), "round {round}, {remover}: {told}");
        if remover == "up" {
            let down = testbed.do_it("down", &[]);
            assert!(down.status.success(), "round {round}: {down:?}");
        }
        assert_eq!(recorded(), 0, "round {round}, {remover}: {told}");
        whole += usize::from(spaces.len() >= 3);
        seen.extend(spaces);
    }
    say(&format!("kill: {} namespaces were seen, and went; in {whole} rounds all of one", seen.len()));
    assert!(!seen.is_empty(), "no round was late enough for there to be anything to leave");
    assert_eq!(rules_behind(&rules), Vec::<String>::new(), "rules of this namespace");
    assert!(testbed.do_it("up", &[]).status.success());
}

/// Devices of this MTU in any network namespace of this machine, and the packet queues of those namespaces and of
/// `spaces`.
fn remains(mtu: &str, spaces: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (space, path) in all_spaces() {
        // It, or who had it open, may have gone meanwhile.
        let Ok(there) = NetworkNamespace::open(&path) else { continue };
        let Ok((devices, queues)) = there.inside(look) else { continue };
        let is_ours = |line: &&str| line.contains(&format!(" mtu {mtu} "));
        let before = found.len();
        found.extend(devices.lines().filter(is_ours).map(|line| format!("{space}: {line}")));
        if found.len() > before || spaces.contains(&space) {
            found.extend(queues.lines().map(|line| format!("{space}: queue {line}")));
        }
    }
    found
}

/// Devices and packet queues of the namespace that the calling thread is in.
fn look() -> std::io::Result<(String, String)> {
    let output = Command::new("ip").args(["-o", "link"]).output()?;
    // Where the kernel's module was never loaded there is none.
    let queues = std::fs::read_to_string("/proc/thread-self/net/netfilter/nfnetlink_queue");
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), queues.unwrap_or_default()))
}

/// All network namespaces of this machine that somebody is in, has open or has mounted, and where each can be opened.
fn all_spaces() -> BTreeMap<String, PathBuf> {
    let mut all = BTreeMap::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
        let is_number = process.file_name().is_some_and(|name| {
            let name = name.as_encoded_bytes();
            name.iter().all(u8::is_ascii_digit)
        });
        // Most hold none but the one that they are in.
        if !is_number || held_by(&process.display().to_string()).iter().all(|space| all.contains_key(space)) {
            continue;
        }
        let open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        for link in open.map(|entry| entry.path()).chain([process.join("ns/net")]) {
            let Ok(name) = std::fs::read_link(&link) else { continue };
            let name = name.display().to_string();
            if name.starts_with("net:[") {
                all.entry(name).or_insert(link);
            }
        }
    }
    // 22 28 0:4 net:[4026532000] /run/netns/one …
    for line in std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words.len() > 4 && words[3].starts_with("net:[") {
            all.entry(words[3].to_owned()).or_insert(Path::new(words[4]).to_owned());
        }
    }
    all
}

/// Rules of this namespace that queue packets; none where there is no `nft` to ask.
fn rules() -> BTreeSet<String> {
    if !has("nft") {
        return BTreeSet::new();
    }
    let output = Command::new("nft").args(["list", "ruleset"]).output().expect("nft");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| line.to_ascii_lowercase().contains("queue"));
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Those that were not there before.
fn rules_behind(before: &BTreeSet<String>) -> Vec<String> {
    rules().difference(before).cloned().collect()
}
