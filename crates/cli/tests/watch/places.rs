//! Places that are far, full, or not there.

use crate::journal::journal;
use crate::support::chance::in_time;
use crate::support::job::Running;
use crate::support::machine::in_place_of_ssh;
use crate::support::proxy::Proxy;
use crate::support::volume::{self, Volume};
use crate::support::{Daemon, facts, noise, wait_until};
use crate::{Bench, LIMIT, LOG, analysis, arrived_whole, ends, items_done, sshd, start, terminate};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn options_that_do_nothing_for_any_place_of_a_watch_are_told_once() {
    let bench = Bench::new();
    let far = bench.scratch.path("far");
    std::fs::create_dir(&far).unwrap();
    let daemon = bench.scratch.daemon(&[("data", &far)]);
    let (source, ticket) = (bench.source.to_str().unwrap(), daemon.ticket.to_str().unwrap());
    let (near, place) = (bench.destination.to_str().unwrap(), daemon.place("data", ""));
    let script = analysis(&bench.scratch, LOG);
    let results = ["--on-arrival", script.to_str().unwrap(), "--results-back", &place];
    let here = "without effect within this machine, where nothing is sent: --ticket, --port\n";
    let there = "without effect: --port (no place is reached by ssh)\n";
    for (to, more, told) in [(near, &results[..], there), (near, &[], here), (&*place, &[], there)] {
        let more = [&["--ticket", ticket, "--port", "33", "--idle-exit", "300ms"][..], more].concat();
        let (code, text) = ends(bench.watch(source, to, &more));
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(text.matches("without effect").count(), 1, "{text}");
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn what_may_not_be_deleted_at_a_destination_is_given_up_at_once_with_what_to_do() {
    let bench = Bench::new();
    std::fs::create_dir(&bench.destination).unwrap();
    let export = format!("kept={}:no-delete", bench.destination.display());
    let daemon = bench.scratch.daemon_with(&[], &["--export", &export]);
    let (source, place) = (bench.source.to_str().unwrap(), daemon.place("kept", ""));
    let watch = |more: &[&str]| {
        let ticket = daemon.ticket.to_str().unwrap();
        let all = ["--ticket", ticket, "--item", "directory", "--idle-exit", "500ms"];
        ends(bench.watch(source, &place, &[&all[..], more].concat()))
    };
    for name in ["a", "b"] {
        bench.put(&format!("run/{name}"), name.as_bytes());
    }
    let (code, text) = watch(&["--delete"]);
    assert_eq!(code, Some(0), "{text}");
    std::fs::remove_file(bench.source.join("run/b")).unwrap();
    // It would go on for ever.
    let (code, text) = watch(&["--delete"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("remove failed on `b`") && text.contains("nothing is deleted (no-delete)"),
        "{text}"
    );
    assert!(
        text.contains("hint: without --delete it stays there") && text.contains("run: given up"),
        "{text}"
    );
    let (code, text) = watch(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("run: 1 entry at the destination") && bench.destination.join("run/b").exists(),
        "{text}"
    );
}

#[test]
fn a_destination_that_is_not_there_is_told_and_no_success() {
    let bench = Bench::new();
    let out = bench.scratch.path("out");
    std::fs::create_dir(&out).unwrap();
    let daemon = bench.scratch.daemon(&[("data", &out)]);
    bench.put("a", b"a");
    let place = daemon.place("misspelt", "");
    let source = bench.source.to_str().unwrap();
    let ticket = daemon.ticket.to_str().unwrap();
    let more = ["--ticket", ticket, "--idle-exit", "500ms", "--attempts", "2"];
    let (code, text) = ends(bench.watch(source, &place, &more));
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("there is no export `misspelt`") && text.contains("a: given up"), "{text}");
    // What goes before it arrived is no success either.
    let more = ["--ticket", ticket, "--idle-exit", "500ms", "--attempts", "20", "--json"];
    let watch = Running::start(bench.watch(source, &place, &more));
    // By the second time a look has seen that it is not the item that is not there.
    let failures = || watch.said().iter().filter(|(_, line)| line.contains("misspelt")).count();
    assert!(wait_until(LIMIT, || failures() >= 4), "each is told to people and to programs");
    std::fs::remove_file(bench.source.join("a")).unwrap();
    let ran = watch.end(LIMIT).expect(2);
    assert!(ran.stdout.contains(r#""lost":["a"]"#), "{}", ran.stdout);
}

#[test]
fn what_is_no_directory_is_not_watched_here_or_far_whatever_is_an_item() {
    let bench = Bench::new();
    let daemon = bench.scratch.daemon(&[("data", &bench.source)]);
    bench.put("a", b"a");
    let (here, far) = (bench.source.join("a"), daemon.place("data", "a"));
    let ticket = daemon.ticket.to_str().unwrap();
    for place in [here.to_str().unwrap(), &far] {
        for kind in ["file", "directory"] {
            let more = ["--ticket", ticket, "--idle-exit", "500ms", "--item", kind];
            let (code, text) = ends(bench.watch(place, bench.destination.to_str().unwrap(), &more));
            assert_eq!(code, Some(1), "{place}, {kind}: {text}");
            assert!(text.contains("`a` is no directory"), "{text}");
        }
    }
}

#[test]
fn more_items_at_the_same_time_than_a_session_bears_arrive_without_trouble() {
    let bench = Bench::new();
    let out = bench.scratch.path("out");
    std::fs::create_dir(&out).unwrap();
    let daemon = bench.scratch.daemon(&[("data", &out)]);
    let names: Vec<String> = (0..20).map(|number| format!("item{number}")).collect();
    for (seed, name) in (0..).zip(&names) {
        bench.put(name, &noise(seed, 256 << 10));
    }
    let (source, ticket) = (bench.source.to_str().unwrap(), daemon.ticket.to_str().unwrap());
    // So slow that all of them are under way at the same time.
    let more = ["--ticket", ticket, "--idle-exit", "500ms", "--transfers", "20", "--bwlimit", "1MB/s"];
    let (code, text) = ends(bench.watch(source, &daemon.place("data", ""), &more));
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("too many transfers"), "{text}");
    arrived_whole(&bench.source, &out, &names);
}

#[test]
fn while_a_far_directory_does_not_answer_the_watch_can_end_and_afterwards_sees_at_once() {
    let bench = Bench::new();
    let daemon = bench.scratch.daemon(&[("data", &bench.source)]);
    let proxy = Proxy::new(&daemon.address());
    let ticket = daemon.ticket.to_str().unwrap();
    let destination = bench.destination.to_str().unwrap();
    let more = ["--ticket", ticket, "--json"];
    let watch = Running::start(bench.watch(&proxy.place("data", ""), destination, &more));
    let is_done = |name: &str| items_done(&watch.said()).iter().any(|(_, done)| done == name);
    bench.put("a", b"a");
    assert!(wait_until(LIMIT, || is_done("a")));
    proxy.stall(true);
    bench.put("b", b"b");
    std::thread::sleep(Duration::from_secs(15));
    proxy.stall(false);
    assert!(wait_until(LIMIT, || is_done("b")));
    // The look that saw that one took all the time of the outage.
    let begun = Instant::now();
    bench.put("c", b"c");
    assert!(wait_until(LIMIT, || is_done("c")));
    assert!(in_time("an item after an outage", begun.elapsed(), Duration::from_secs(5)));
    proxy.stall(true);
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(watch.pid() as i32), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let ran = watch.end(LIMIT);
    assert!(in_time("the end during an outage", begun.elapsed(), Duration::from_secs(2)));
    ran.expect(143);
}

/// Whether there is something to do only a look can tell.
#[test]
fn a_watch_does_not_end_for_want_of_work_while_nobody_can_look() {
    let bench = Bench::new();
    let daemon = bench.scratch.daemon(&[("data", &bench.source)]);
    let proxy = Proxy::new(&daemon.address());
    let ticket = daemon.ticket.to_str().unwrap();
    let more = ["--ticket", ticket, "--json", "--idle-exit", "5s"];
    bench.put("a", b"a");
    let place = proxy.place("data", "");
    let mut watch = Running::start(bench.watch(&place, bench.destination.to_str().unwrap(), &more));
    let is_done = || items_done(&watch.said()).iter().any(|(_, done)| done == "a");
    assert!(wait_until(LIMIT, is_done));
    proxy.refuse(true);
    proxy.cut();
    std::thread::sleep(Duration::from_secs(12));
    assert!(!watch.is_over(), "it ended, and nobody could look");
    bench.put("b", b"b");
    proxy.refuse(false);
    watch.end(LIMIT).expect(0);
    arrived_whole(&bench.source, &bench.destination, &["a".to_owned(), "b".to_owned()]);
}

#[test]
fn a_watch_that_could_look_at_a_part_only_tells_the_rest_and_ends_with_no_success() {
    let bench = Bench::new();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(bench.scratch.root(), 0o755);
    let Some(by) = bench.scratch.as_nobody("watch of a part") else { return };
    bench.put("a", b"a");
    bench.put("closed/b", b"b");
    let state = bench.scratch.path("state");
    for path in [&state, &bench.destination] {
        std::fs::create_dir(path).unwrap();
        mode(path, 0o777);
    }
    mode(&bench.source.join("closed"), 0o000);
    let watch = |more: &[&str]| {
        let own = ["--idle-exit", "500ms", "--json", "--state", state.to_str().unwrap()];
        let more = [&own[..], more].concat();
        let mut command = by(bench.local(&more));
        command.current_dir(bench.scratch.root());
        ends(command)
    };
    let (code, text) = watch(&[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(r#""unseen":["closed"]"#) && text.contains("error: closed: "), "{text}");
    // What is left out is not missed.
    let (code, text) = watch(&["--exclude", "closed/"]);
    assert_eq!(code, Some(0), "{text}");
    mode(&bench.source.join("closed"), 0o755);
    let (code, text) = watch(&[]);
    assert_eq!(code, Some(0), "{text}");
    arrived_whole(&bench.source, &bench.destination, &["a".to_owned(), "closed/b".to_owned()]);
}

/// They would be items, and their results items again.
#[test]
fn results_do_not_go_back_into_a_far_directory_that_is_watched() {
    let bench = Bench::new();
    let destination = bench.destination.to_str().unwrap();
    // Nobody is there: who began to look would tell that.
    let source = "tw://127.0.0.1:1/data/in";
    for place in ["tw://127.0.0.1:1/data/in/results", "tw://127.0.0.1:1/data/./in//"] {
        let more = ["--on-arrival", "true", "--results-back", place];
        let (code, text) = ends(bench.watch(source, destination, &more));
        assert_eq!(code, Some(1), "{place}: {text}");
        assert!(text.contains("is in the watched directory"), "{place}: {text}");
    }
}

/// Those to the one would be dialled at the other.
#[test]
fn addresses_for_data_streams_are_refused_where_places_are_at_two_far_movers() {
    let bench = Bench::new();
    let more =
        ["--via", "127.0.0.1", "--on-arrival", "true", "--results-back", "tw://127.0.0.1:2/data/results"];
    let destination = bench.destination.to_str().unwrap();
    let (code, text) = ends(bench.watch("tw://127.0.0.1:1/data/in", destination, &more));
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("addresses of one far side, and there are two"), "{text}");
}

#[test]
fn what_was_typed_of_data_streams_is_told_once_where_there_are_none() {
    let bench = Bench::new();
    bench.put("a", b"a");
    let more = ["--idle-exit", "500ms", "--bind", "lo", "--cipher", "tls", "--ktls", "on"];
    let (code, text) = ends(bench.local(&more));
    assert_eq!(code, Some(0), "{text}");
    let told = "without effect within this machine, where nothing is sent: --bind, --cipher, --ktls\n";
    assert!(text.matches("without effect").count() == 1 && text.contains(told), "{text}");
}

#[test]
fn a_destination_that_is_full_delays_an_item_until_there_is_room() {
    if !volume::can_mount("watch") {
        return;
    }
    let bench = Bench::new();
    let volume = Volume::in_memory(bench.scratch.root(), "small", "size=4m");
    let ballast = volume.path.join("ballast");
    std::fs::write(&ballast, vec![1; 3 << 20]).unwrap();
    bench.put("large", &vec![2; 2 << 20]);
    let destination = volume.path.join("out");
    let script = analysis(&bench.scratch, LOG);
    let (source, log) = (bench.source.to_str().unwrap(), bench.scratch.path("watch.log"));
    let mut command =
        bench.watch(source, destination.to_str().unwrap(), &["--on-arrival", script.to_str().unwrap()]);
    let told = std::fs::File::create(&log).unwrap();
    let mut watch = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(told).spawn().unwrap();
    let says = |text: &str| std::fs::read_to_string(&log).unwrap_or_default().contains(text);
    assert!(wait_until(LIMIT, || says("No space left")));
    assert_eq!(bench.log().len(), 0);
    std::fs::remove_file(&ballast).unwrap();
    assert!(wait_until(LIMIT, || bench.log().len() == 1));
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143));
    assert_eq!(std::fs::read(destination.join("large")).unwrap(), vec![2; 2 << 20]);
}

/// Each content once, whatever the log was written by.
#[track_caller]
fn analysed_once(bench: &Bench, names: &[String]) {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in bench.log() {
        *times.entry(line).or_default() += 1;
    }
    let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "analysed twice: {twice:?}");
    assert_eq!(times.len(), names.len(), "{times:?}");
}

#[test]
fn a_directory_behind_ssh_is_watched_and_goes_on_after_a_kill() {
    let bench = Bench::new();
    let Some(sshd) = sshd::Sshd::start(&bench.scratch) else { return };
    let script = analysis(&bench.scratch, LOG);
    let source = sshd.url(&bench.source);
    let more = ["-e", &sshd.rsh, "--on-arrival", script.to_str().unwrap()];
    let watch = |more: &[&str]| bench.watch(&source, bench.destination.to_str().unwrap(), more);
    let names: Vec<String> = (0..6).map(|number| format!("run/shot {number}")).collect();
    let mut running = start(watch(&more));
    for name in &names[..3] {
        bench.put(name, name.as_bytes());
    }
    assert!(wait_until(LIMIT, || bench.log().len() == 3), "{:?}", bench.log());
    running.kill().unwrap();
    running.wait().unwrap();
    for name in &names[3..] {
        bench.put(name, name.as_bytes());
    }
    let (code, text) = ends(watch(&[&more[..], &["--idle-exit", "1s"]].concat()));
    assert_eq!(code, Some(0), "{text}");
    analysed_once(&bench, &names);
    arrived_whole(&bench.source, &bench.destination, &names);
}

/// What one of them has done is nothing to the other: two hosts may be behind one name, each at a port of its own.
#[test]
fn two_watches_that_differ_in_the_port_of_ssh_are_two() {
    let bench = Bench::new();
    let rsh = in_place_of_ssh(&bench.scratch);
    let script = analysis(&bench.scratch, LOG);
    bench.put("shot", b"shot");
    std::fs::create_dir(&bench.destination).unwrap();
    let to = bench.destination.display();
    let url = |port: &str| format!("ssh://127.0.0.1:{port}{to}");
    for (at, port) in ["22", "2222"].into_iter().enumerate() {
        let more = ["-e", &rsh, "--far-path", env!("CARGO_BIN_EXE_thalweg"), "--idle-exit", "500ms"];
        let more = [&more[..], &["--on-arrival", script.to_str().unwrap()]].concat();
        // The same place, written in two ways.
        for (place, port) in [(url(port), &[][..]), (format!("127.0.0.1:{to}"), &["--port", port])] {
            let source = bench.source.to_str().unwrap();
            let (code, text) = ends(bench.watch(source, &place, &[&more[..], port].concat()));
            assert_eq!(code, Some(0), "{text}");
            assert_eq!(bench.log().len(), at + 1, "{place} {port:?}: {text}");
        }
    }
    // What was signed names the place, too.
    let watches = bench.scratch.path("client-state/watch");
    let found = facts(&watches);
    let is_receipt = |name: &&Vec<u8>| name.ends_with(b".receipt");
    let paths = found.keys().filter(is_receipt).map(|name| watches.join(std::ffi::OsStr::from_bytes(name)));
    let texts: Vec<String> = paths.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for port in ["22", "2222"] {
        assert!(texts.iter().any(|text| text.contains(&url(port))), "{port}: {texts:?}");
    }
}

/// A daemon whose place is taken by another, which knows nothing of it: the ticket of the first, and what is there now.
fn replaced(bench: &Bench, far: &Path, first: Daemon) -> (PathBuf, Daemon) {
    let (address, stale) = (first.address(), bench.scratch.path("stale"));
    std::fs::copy(&first.ticket, &stale).unwrap();
    drop(first);
    std::fs::remove_dir_all(bench.scratch.path("server-state")).unwrap();
    (stale, bench.scratch.daemon_at(&address, &[("data", far)], &[], |command| command))
}

/// All items fail alike.
#[test]
fn what_a_person_may_do_about_items_that_cannot_be_copied_is_told_once() {
    let bench = Bench::new();
    let far = bench.scratch.path("far");
    std::fs::create_dir(&far).unwrap();
    let first = bench.scratch.daemon(&[("data", &far)]);
    let more = ["--ticket", first.ticket.to_str().unwrap()];
    let mut command = bench.watch(bench.source.to_str().unwrap(), &first.place("data", ""), &more);
    let told = bench.scratch.path("told");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(std::fs::File::create(&told).unwrap());
    let mut watch = command.spawn().unwrap();
    let said = || std::fs::read_to_string(&told).unwrap();
    // Once it was let in it goes on.
    bench.put("first", b"first");
    assert!(wait_until(LIMIT, || far.join("first").exists()), "{}", said());
    let (_, _daemon) = replaced(&bench, &far, first);
    let names = ["a", "b", "c"];
    names.iter().for_each(|name| bench.put(name, name.as_bytes()));
    let has_failed = |name: &&str| said().contains(&format!("error: {name}: "));
    let is_told = || names.iter().all(has_failed) && said().contains("hint: the ticket is an old one");
    assert!(wait_until(LIMIT, is_told), "{}", said());
    terminate(&watch);
    assert_eq!(watch.wait().unwrap().code(), Some(143), "{}", said());
    assert_eq!(said().matches("hint: the ticket is an old one").count(), 1, "{}", said());
    assert!(said().contains("fetch"), "{}", said());
}

/// As a copy is, and as a watch is of what is far.
#[test]
fn a_far_destination_that_does_not_let_a_watch_in_ends_it_at_its_first_copy_and_blames_no_item() {
    let bench = Bench::new();
    let far = bench.scratch.path("far");
    std::fs::create_dir(&far).unwrap();
    let first = bench.scratch.daemon(&[("data", &far)]);
    let (stale, daemon) = replaced(&bench, &far, first);
    let names = ["a", "b", "c"];
    names.iter().for_each(|name| bench.put(name, name.as_bytes()));
    let (source, place) = (bench.source.to_str().unwrap(), daemon.place("data", ""));
    let watch = |more: &[&str]| {
        let more = [&["--idle-exit", "300ms"][..], more].concat();
        ends(bench.watch(source, &place, &more))
    };
    let (code, text) = watch(&["--ticket", stale.to_str().unwrap()]);
    assert_eq!(code, Some(3), "{text}");
    assert_eq!(text.matches("hint: the ticket is an old one").count(), 1, "{text}");
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    // Without one nobody is asked.
    let (code, text) = watch(&[]);
    assert_eq!((code, text.matches("error: ").count()), (Some(1), 1), "{text}");
    assert!(text.contains("give the ticket"), "{text}");
    // Nothing is given up by that.
    let (code, text) = watch(&["--ticket", daemon.ticket.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    arrived_whole(&bench.source, &far, &names.map(str::to_owned));
}

#[test]
fn a_far_place_that_does_not_let_results_in_ends_the_watch_and_they_go_there_at_the_next_start() {
    let bench = Bench::new();
    let far = bench.scratch.path("far");
    std::fs::create_dir(&far).unwrap();
    let first = bench.scratch.daemon(&[("data", &far)]);
    let (stale, daemon) = replaced(&bench, &far, first);
    bench.put("item", b"item");
    let script = analysis(&bench.scratch, &format!("echo found > \"$THALWEG_ITEM_RESULTS/out\"\n{LOG}"));
    let place = daemon.place("data", "");
    let watch = |ticket: &Path| {
        let (ticket, script) = (ticket.to_str().unwrap(), script.to_str().unwrap());
        let results = ["--results-back", place.as_str(), "--on-arrival", script];
        let more = [&["--ticket", ticket, "--idle-exit", "300ms"][..], &results].concat();
        let (source, destination) = (bench.source.to_str().unwrap(), bench.destination.to_str().unwrap());
        ends(bench.watch(source, destination, &more))
    };
    let (code, text) = watch(&stale);
    assert_eq!(code, Some(3), "{text}");
    assert_eq!(text.matches("error: ").count(), 1, "{text}");
    assert!(!far.join("item").exists());
    let (code, text) = watch(&daemon.ticket);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(std::fs::read_to_string(far.join("item/out")).unwrap(), "found\n");
    // The program did not run for it again.
    let log = std::fs::read_to_string(bench.scratch.path("log")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
}

/// However many items are to be copied at once.
#[test]
fn by_one_dial_a_watch_hears_that_a_far_destination_does_not_let_it_in() {
    let bench = Bench::new();
    let far = bench.scratch.path("far");
    std::fs::create_dir(&far).unwrap();
    let first = bench.scratch.daemon(&[("data", &far)]);
    let (stale, daemon) = replaced(&bench, &far, first);
    let proxy = Proxy::new(&daemon.address());
    (0..8).for_each(|number| bench.put(&format!("item{number}"), b"item"));
    let more = ["--ticket", stale.to_str().unwrap(), "--idle-exit", "300ms", "--transfers", "8"];
    let (code, text) = ends(bench.watch(bench.source.to_str().unwrap(), &proxy.place("data", ""), &more));
    assert_eq!(code, Some(3), "{text}");
    assert!(proxy.accepted() <= 2, "{} connections for 8 items", proxy.accepted());
}

/// Neither an old ticket nor a daemon without the export lets a copy begin, and what did not begin replaced nothing.
#[test]
fn what_waits_is_run_as_it_arrived_if_a_far_destination_refused_its_correction_and_that_goes() {
    for is_let_in in [false, true] {
        let bench = Bench::new();
        let far = bench.scratch.path("far");
        std::fs::create_dir(&far).unwrap();
        let first = bench.scratch.daemon(&[("data", &far)]);
        let (stale, mut daemon) = replaced(&bench, &far, first);
        let (address, ticket, place) = (daemon.address(), daemon.ticket.clone(), daemon.place("data", ""));
        let body = format!("if test -e \"$LOG.fails\"; then exit 1; fi\n{LOG}");
        let script = analysis(&bench.scratch, &body);
        let watch = |ticket: &Path| {
            let (ticket, script) = (ticket.to_str().unwrap(), script.to_str().unwrap());
            let more = ["--ticket", ticket, "--idle-exit", "300ms", "--attempts", "1", "--transfers", "8"];
            let more = [&more[..], &["--on-arrival", script]].concat();
            ends(bench.watch(bench.source.to_str().unwrap(), &place, &more))
        };
        let names: Vec<String> = (0..8).map(|number| format!("item{number}")).collect();
        names.iter().for_each(|name| bench.put(name, b"first"));
        std::fs::write(bench.scratch.path("log.fails"), "").unwrap();
        let (code, text) = watch(&ticket);
        assert_eq!(code, Some(2), "{text}");
        names.iter().for_each(|name| bench.put(name, b"corrected"));
        if is_let_in {
            drop(daemon);
            daemon = bench.scratch.daemon_at(&address, &[("other", &far)], &[], |command| command);
            let (code, text) = watch(&ticket);
            assert_eq!(code, Some(2), "{text}");
            assert!(text.contains("there is no export `data`"), "{text}");
            drop(daemon);
            daemon = bench.scratch.daemon_at(&address, &[("data", &far)], &[], |command| command);
        } else {
            let (code, text) = watch(&stale);
            assert_eq!(code, Some(3), "{text}");
        }
        let records = journal(&bench);
        let count = |what: &str| records.matches(&format!("{{\"{what}\":")).count();
        let (begun, stood) = (count("Replacing"), count("Stands"));
        assert!(begun > 0 && begun == stood, "{begun} begun, {stood} stood: {records}");
        names.iter().for_each(|name| std::fs::remove_file(bench.source.join(name)).unwrap());
        std::fs::remove_file(bench.scratch.path("log.fails")).unwrap();
        let (code, text) = watch(&daemon.ticket);
        assert_eq!((code, bench.log().len()), (Some(0), names.len()), "let in: {is_let_in}: {text}");
    }
}
