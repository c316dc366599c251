//! Watches, the keepers and guards of what they run, daemons and links that go at any moment: nothing is lost, and
//! nothing analysed twice.

use crate::support::chance::{Random, strikes, strikes_asked};
use crate::support::count::Count;
use crate::support::job::{self, Running};
use crate::support::plan::Plan;
use crate::support::proxy::Proxy;
use crate::support::wait_until;
use crate::{Bench, LIMIT, LOG, analysis, items_done, keepers};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Into the count: after a strike a watch goes on with an item that was not done before, or begins anew with one that
/// was.
fn went_on(count: &mut Count, said: &[(Instant, String)]) {
    let mut known = BTreeSet::new();
    for (at, name) in items_done(said) {
        let had = known.len() as u64;
        count.stood(at, if known.insert(name) { had } else { 0 });
    }
}

/// What the log says of how often each name was analysed, and whether each arrived as it is.
fn count_items(bench: &Bench, count: &mut Count, names: &[String]) {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in bench.log() {
        let name = line.split(' ').next().unwrap_or_default();
        *times.entry(name.to_owned()).or_default() += 1;
    }
    let is_whole = |name: &str| {
        let [given, came] =
            [&bench.source, &bench.destination].map(|directory| std::fs::read(directory.join(name)).ok());
        given.is_some() && given == came
    };
    count.items(names, &times, is_whole);
}

/// A watch is killed again and again while items arrive; what the log says in the end, in its order.
fn through_kills(row: &str, kind: &'static str, kills: u64, how: &[&str]) -> (Vec<String>, Vec<String>) {
    let bench = Bench::new();
    let mut chance = Random::new(row);
    let script = analysis(&bench.scratch, &format!("sleep 0.0$(($$ % 5))\n{LOG}"));
    let more = [&["--json", "--on-arrival", script.to_str().unwrap()], how].concat();
    let mut plan = Plan::new(&mut chance, 1, kills);
    let mut count = Count::of(kind, "items");
    let (mut names, mut said) = (Vec::new(), Vec::new());
    let mut watch = loop {
        let mut watch = Running::start(bench.local(&more));
        // There is more to do than one at a time.
        for _ in 0..1 + chance.below(3) {
            let name = format!("shot{}", names.len());
            bench.put(&name, &vec![7; chance.below(200_000) as usize]);
            names.push(name);
        }
        if plan.next(300, || !items_done(&watch.said()).is_empty()).is_none() {
            break watch;
        }
        let had = items_done(&said).len() + items_done(&watch.said()).len();
        let is_under_way = !watch.is_over();
        count.strike("the watch", is_under_way, had as u64);
        if !is_under_way {
            plan.missed();
        }
        said.extend(watch.kill().said);
    };
    assert!(!watch.is_over(), "nobody ended the last one");
    job::signal(watch.pid(), nix::sys::signal::Signal::SIGTERM);
    said.extend(watch.end(LIMIT).said);
    for _ in 0..10 {
        let name = format!("shot{}", names.len());
        bench.put(&name, name.as_bytes());
        names.push(name);
    }
    let last = bench.local(&[&more[..], &["--idle-exit", "500ms"]].concat());
    let ran = Running::start(last).end(LIMIT);
    said.extend(ran.said.iter().cloned());
    went_on(&mut count, &said);
    count_items(&bench, &mut count, &names);
    count.over();
    ran.expect(0);
    let log = bench.log().iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect();
    (names, log)
}

#[test]
fn killed_at_any_moment_nothing_is_lost_and_nothing_analysed_twice() {
    through_kills("watch-kills", "a watch", strikes(25), &["--jobs", "3"]);
}

#[test]
fn killed_at_any_moment_items_in_order_are_analysed_one_after_the_other_and_once() {
    let (names, log) = through_kills("watch-order", "a watch in order", strikes(10), &["--in-order", "name"]);
    assert_eq!(log, names);
}

/// Keepers and guards, watches, daemons, links.
const KINDS: u64 = 4;

/// Longest that keepers are looked for; and longest for each of as many as were asked for.
const KEEPERS_LIMIT: Duration = Duration::from_secs(900);
const KEEPER_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn keepers_guards_watchers_and_links_that_go_at_any_moment_lose_nothing_and_analyse_nothing_twice() {
    use nix::sys::signal::{Signal, kill};
    let bench = Bench::new();
    let mut chance = Random::new("watch-keepers");
    let script = analysis(&bench.scratch, &format!("sleep 0.1\n{LOG}\nsleep 0.1"));
    let mut daemon = bench.scratch.daemon(&[("data", &bench.source)]);
    let address = daemon.address();
    let proxy = Proxy::new(&address);
    let source = proxy.place("data", "");
    let ticket = daemon.ticket.to_str().unwrap().to_owned();
    let more = ["--json", "--ticket", &ticket, "--jobs", "3", "--on-arrival", script.to_str().unwrap()];
    let watch = |more: &[&str]| bench.watch(&source, bench.destination.to_str().unwrap(), more);
    let state = bench.scratch.path("client-state");
    // Of one run only one of both: who kills guard and keeper of the same run has nobody left who knows.
    let mut met: BTreeSet<String> = BTreeSet::new();
    let each = strikes(4);
    let mut plan = Plan::new(&mut chance, KINDS, each);
    let mut count = Count::of("a watch of what is far, and the keepers and guards of its runs", "items");
    let (mut names, mut said) = (Vec::new(), Vec::new());
    let mut running = Running::start(watch(&more));
    // As many keepers as that are met however slow the machine is.
    let is_asked = strikes_asked().is_some();
    let (wanted, begun) = (if is_asked { each } else { each / 2 }, Instant::now());
    let at_most = KEEPERS_LIMIT.max(KEEPER_LIMIT * each.try_into().unwrap_or(u32::MAX));
    let (mut since, mut told) = (Instant::now(), 0);
    while begun.elapsed() < at_most {
        let mut put = || {
            let name = format!("shot{}", names.len());
            bench.put(&name, &vec![7; 1000 + chance.below(100_000) as usize]);
            names.push(name);
        };
        put();
        let next = plan.next(300, || {
            if running.is_over() {
                // One that could not reach the daemon for too long.
                said.extend(std::mem::replace(&mut running, Running::start(watch(&more))).kill().said);
                told = items_done(&said).len();
            }
            !items_done(&running.said_since(since)).is_empty()
        });
        let Some(kind) = next else { break };
        let is_under_way = !running.is_over();
        let mut of_new_runs = Vec::new();
        if kind == 0 {
            put();
            let _ = wait_until(KEEPER_LIMIT, || {
                of_new_runs = keepers(&state);
                of_new_runs.retain(|(_, record)| !met.contains(record));
                !of_new_runs.is_empty()
            });
        }
        let had = (told + items_done(&running.said()).len()) as u64;
        let is_met = match kind {
            0 if of_new_runs.is_empty() => false,
            0 => {
                let (pid, record) = &of_new_runs[chance.below(of_new_runs.len() as u64) as usize];
                let is_met = kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGKILL).is_ok();
                if is_met {
                    count.strike("a keeper or guard", true, had);
                    met.insert(record.clone());
                }
                is_met
            }
            1 => {
                count.strike("the watch", is_under_way, had);
                said.extend(running.kill().said);
                told = items_done(&said).len();
                running = Running::start(watch(&more));
                is_under_way
            }
            2 => {
                count.strike("the daemon", is_under_way, had);
                daemon.kill();
                let exports = [("data", bench.source.as_path())];
                daemon = bench.scratch.daemon_at(&address, &exports, &[], |command| command);
                is_under_way
            }
            _ => {
                let is_met = proxy.cut() && is_under_way;
                count.strike("the link", is_met, had);
                is_met
            }
        };
        since = Instant::now();
        if !is_met {
            plan.missed();
        }
    }
    assert!(met.len() as u64 >= wanted, "only {} keepers were met", met.len());
    said.extend(running.kill().said);
    let last = Running::start(watch(&[&more[..], &["--idle-exit", "1s"]].concat()));
    let ran = last.end(LIMIT);
    said.extend(ran.said.iter().cloned());
    went_on(&mut count, &said);
    count_items(&bench, &mut count, &names);
    count.over();
    ran.expect(0);
    assert_eq!(keepers(&state), [], "nobody is left");
}
