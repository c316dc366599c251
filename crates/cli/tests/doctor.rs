//! The doctor, as a user meets it. Settings are changed on a tree of files and in hosts of a testbed, never on this
//! machine.

mod support;

use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::chance::{is_root, quick_or_torture, say, skipped};
use support::job::{Running, Strace, signal};
use support::testbed::Testbed;
use support::{Scratch, finish, wait_until};
use thalweg_lab::testbed::registry::Registry;
use thalweg_lab::wrap::wrap;

const LIMIT: Duration = Duration::from_secs(180);

/// Twenty runs of some five seconds, or ten of ten, on a machine that has other things to do.
const PROOF_LIMIT: Duration = Duration::from_secs(900);

/// A machine of files below `name`.
fn machine(scratch: &Scratch, name: &str) {
    let files = [
        ("proc/sys/net/core/rmem_max", "212992\n"),
        ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ("proc/sys/net/ipv4/tcp_congestion_control", "bbr\n"),
        ("proc/self/status", "CapEff:\t000001ffffffffff\n"),
        ("sys/class/net/ens1f0/speed", "100000\n"),
        ("sys/class/net/ens1f0/device/numa_node", "0\n"),
        ("etc/sysctl.d/90-thalweg.conf", "# an administrator's\n"),
    ];
    for (path, text) in files {
        let path = scratch.path(name).join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("make directories");
        std::fs::write(path, text).expect("write");
    }
}

/// Gives that machine a card with a line of so many Mbit/s.
fn card(scratch: &Scratch, mbit_per_s: &str) {
    for (file, text) in [("speed", mbit_per_s), ("device/numa_node", "0\n")] {
        let path = scratch.path("machine/sys/class/net/ens1f0").join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("make directories");
        std::fs::write(path, text).expect("write");
    }
}

fn doctor(scratch: &Scratch, name: &str, what: &str) -> Command {
    let mut command = scratch.thalweg();
    command
        .arg("doctor")
        .arg(what)
        .arg("--root")
        .arg(scratch.path(name))
        .arg("--state")
        .arg(scratch.path("doctor-state"));
    command
}

fn facts(scratch: &Scratch, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn walk(path: &Path, into: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        use std::os::unix::ffi::OsStrExt;
        for entry in std::fs::read_dir(path).expect("list").flatten() {
            let bytes =
                if entry.path().is_dir() { Vec::new() } else { std::fs::read(entry.path()).expect("read") };
            into.push((entry.path().as_os_str().as_bytes().to_vec(), bytes));
            if entry.path().is_dir() {
                walk(&entry.path(), into);
            }
        }
    }
    let mut facts = Vec::new();
    walk(&scratch.path(name), &mut facts);
    facts.sort();
    facts
}

#[test]
fn this_machine_is_described_and_every_finding_says_why() {
    let scratch = Scratch::new();
    let data = scratch.path("data");
    std::fs::create_dir(&data).expect("make a directory");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("an address").port().to_string();
    let to = format!("127.0.0.1:{port}");
    let text =
        scratch.ok(["doctor".as_ref(), "--json".as_ref(), "--to".as_ref(), to.as_ref(), data.as_os_str()]);
    let event: Value = serde_json::from_str(text.trim()).expect("one line of JSON");
    let findings = event["findings"].as_array().expect("findings");
    for finding in findings {
        assert!(finding["why"].as_str().is_some_and(|why| !why.is_empty()), "{finding}");
        let is_seen = finding["current"].is_string();
        assert_eq!(is_seen, finding["verdict"] != "unseen", "{finding}");
        if finding["verdict"] == "change" {
            assert!(finding["wanted"].is_string() && finding["scope"].is_string(), "{finding}");
        }
    }
    let subjects = ["machine", "network", "congestion", "memory", "cpu", "storage", "limits", "clock"];
    for subject in subjects {
        assert!(findings.iter().any(|finding| finding["subject"] == subject), "nothing about {subject}");
    }
    for name in [" write", " write, one at a time"] {
        let is_it = |finding: &&Value| finding["name"].as_str().is_some_and(|whole| whole.ends_with(name));
        let rate = findings.iter().find(is_it).and_then(|finding| finding["current"].as_str());
        assert!(rate.is_some_and(|rate| rate.contains("MB/s")), "{name}: {event:#}");
    }
    assert_eq!(event["beliefs"].as_array().map(Vec::len), Some(6));
    assert_eq!(std::fs::read_dir(&data).expect("list").count(), 0, "something was left behind");
    scratch.ok(["doctor", "-v"]);
}

/// `/sys` stays that of whoever mounted it.
#[test]
fn in_another_network_namespace_the_cards_of_the_first_are_not_told_as_its_own() {
    let row = "doctor in another network namespace";
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let devices = entries.filter(|entry| entry.path().join("ifindex").exists());
    let names = devices.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let cards: Vec<String> = names.filter(|name| name != "lo").collect();
    let can = Command::new("unshare").args(["--net", "true"]).output();
    if cards.is_empty() || !can.is_ok_and(|out| out.status.success()) {
        return skipped(row, "needs a network card, and the right to unshare a network namespace");
    }
    let scratch = Scratch::new();
    let mut command = scratch.thalweg();
    command.args(["doctor", "--json"]);
    let mut other = Command::new("unshare");
    other.arg("--net");
    let mut command = wrap(other, &command);
    let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start"));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let event: Value = serde_json::from_slice(&out.stdout).expect("one line of JSON");
    let findings = event["findings"].as_array().expect("findings");
    let says = |finding: &&Value| finding["why"] == "/sys is that of another network namespace";
    assert_eq!(findings.iter().filter(says).count(), 1, "{event:#}");
    for finding in findings {
        let name = finding["name"].as_str().expect("a name");
        assert!(!cards.iter().any(|card| name.starts_with(&format!("{card} "))), "{finding}");
    }
}

#[test]
fn a_path_that_is_not_there_is_an_error() {
    let scratch = Scratch::new();
    let output = scratch.run(["doctor", "/no/such/directory"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/directory"));
}

#[test]
fn what_was_named_and_could_not_be_looked_at_is_named_and_ends_with_an_error() {
    let scratch = Scratch::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let closed = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let output = scratch.run(["doctor", "--to", &closed]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains(&format!("could not connect to {closed}: ")), "{told}");
    std::fs::write(scratch.path("file"), "").expect("write");
    let file = scratch.path("file").display().to_string();
    for (words, code, why) in [
        (&["doctor", "--prove", "--to", &closed][..], 3, &*closed),
        (&["doctor", "--to", "foo"][..], 1, "HOST:PORT"),
        (&["doctor", "--to", "127.0.0.1:99999"][..], 1, "HOST:PORT"),
        (&["doctor", &file][..], 1, "file`: it is no directory"),
    ] {
        let output = scratch.run(words);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {told}");
        assert!(told.contains(why), "{words:?}: {told}");
    }
}

/// The port is open at an address of the other family, which would have been dialled without the option.
#[test]
fn the_path_is_that_to_addresses_of_the_family_that_was_asked_for() {
    let scratch = Scratch::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("listen");
    let to = listener.local_addr().expect("an address").to_string();
    let told = |words: &[&str]| {
        let output = scratch.run(words);
        let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = told(&["doctor", "-6", "--to", &to]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains(&format!("could not connect to {to}: no address of IPv6 (-6)")), "{text}");
    let (code, text) = told(&["doctor", "-4", "--to", &to]);
    assert_eq!(code, Some(0), "{text}");
    // Nobody would be dialled.
    let (code, text) = told(&["doctor", "-4"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("--to"), "{text}");
}

/// By one who may change all of it, and where there is something to change.
#[test]
fn a_look_changes_nothing() {
    let scratch = Scratch::new();
    machine(&scratch, "machine");
    let before = facts(&scratch, "machine");
    let told = Running::start(doctor(&scratch, "machine", "--json")).end(LIMIT).expect(0).stdout;
    assert!(told.contains("\"verdict\":\"change\""), "{told}");
    assert_eq!(facts(&scratch, "machine"), before);
    assert!(!scratch.path("doctor-state").exists(), "nothing was changed that would have to be undone");
}

#[test]
fn what_was_applied_is_told_and_undone() {
    let scratch = Scratch::new();
    machine(&scratch, "machine");
    let before = facts(&scratch, "machine");
    let applied = Running::start(doctor(&scratch, "machine", "--apply")).end(LIMIT).expect(0);
    assert!(applied.stdout.contains("net.core.rmem_max = 2147483647 (was 212992)"), "{}", applied.stdout);
    assert_ne!(facts(&scratch, "machine"), before);
    let undone = Running::start(doctor(&scratch, "machine", "--undo")).end(LIMIT).expect(0);
    assert!(undone.stdout.contains("net.core.rmem_max = 212992"), "{}", undone.stdout);
    assert_eq!(facts(&scratch, "machine"), before);
    let again = Running::start(doctor(&scratch, "machine", "--undo")).end(LIMIT).expect(0);
    assert!(again.stdout.contains("nothing to put back"), "{}", again.stdout);
}

/// Real settings, of a host of a testbed alone: what the kernel has only once cannot be changed from there, and the
/// files are in the scratch directory.
#[test]
fn what_was_applied_in_a_host_of_a_testbed_is_undone_exactly_and_nothing_else_changes() {
    let wrong = [
        ("tcp_rmem", "4096 87380 4194304", "4096 87380 25165824"),
        ("tcp_window_scaling", "0", "1"),
        ("tcp_sack", "0", "1"),
        ("tcp_moderate_rcvbuf", "0", "1"),
    ];
    let settings: Vec<String> =
        wrong.iter().map(|(name, value, _)| format!("--sysctl=net.ipv4.{name}={value}")).collect();
    let options = ["--rtt", "4ms", "--stock"].into_iter().chain(settings.iter().map(String::as_str));
    let Some(testbed) = Testbed::up_bare("doctor --apply", &options.collect::<Vec<_>>()) else { return };
    // Seen in the kernel's first network namespace only: nothing is changed if this should be that one.
    testbed.run(&["left", "test", "!", "-e", "/proc/sys/net/core/netdev_max_backlog"]);
    let file = testbed.scratch.path("machine/etc/sysctl.d/90-thalweg.conf");
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("make directories");
    std::fs::write(&file, "# an administrator's\n").expect("write");
    std::os::unix::fs::symlink("/proc", testbed.scratch.path("machine/proc")).expect("make a link");
    // A line of 1 Gbit/s, which needs 24 MiB over 100 ms: of any machine's memory less than TCP may have.
    card(&testbed.scratch, "1000\n");

    let look = || {
        let script =
            "for file in /proc/sys/net/core/* /proc/sys/net/ipv4/tcp_*; do echo $file: $(cat $file); done";
        let inside = settings_of(&testbed.run(&["left", "sh", "-c", script]));
        let own = Command::new("sh").args(["-c", script]).output().expect("sh");
        let own = settings_of(&String::from_utf8_lossy(&own.stdout));
        (inside, own, facts(&testbed.scratch, "machine/etc"))
    };
    let doctor = |what: &str| -> Value {
        let mut command = doctor(&testbed.scratch, "machine", what);
        command.arg("--json");
        let output = finish(testbed.enter("left", &command).spawn().expect("start"));
        // Kernels differ in which of their own settings they show here: those are said to be changed on the host.
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(2), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one line of JSON")
    };
    let before = look();
    for (name, value, _) in wrong {
        assert_eq!(before.0.get(name).map(String::as_str), Some(value), "{name} before");
    }
    let applied = doctor("--apply");
    let changes = applied["changes"].as_array().expect("changes");
    for change in changes {
        let what = change["what"].as_str().expect("a name");
        match change["trouble"].as_str() {
            None => {
                assert!(what.starts_with("net.ipv4.tcp_") || what.contains("/machine/etc/"), "{applied:#}")
            }
            Some(why) => assert!(why.contains("change it on the host"), "{applied:#}"),
        }
    }
    let between = look();
    for (name, _, wanted) in wrong {
        assert_eq!(between.0.get(name).map(String::as_str), Some(wanted), "{name} after --apply");
    }
    assert_eq!(between.2, before.2, "a file would hold for the whole machine");
    assert_eq!(between.1, before.1, "this machine's own");
    let undone = doctor("--undo");
    let changes = undone["changes"].as_array().expect("changes");
    assert!(!changes.is_empty() && changes.iter().all(|change| change["trouble"].is_null()), "{undone:#}");
    assert_eq!(look(), before);
}

/// From lines `PATH: VALUE`. What is available is of the kernel, and grows with the modules that others load.
fn settings_of(lines: &str) -> BTreeMap<String, String> {
    let settings = lines.lines().filter_map(|line| line.split_once(": "));
    settings
        .map(|(path, value)| (path.rsplit('/').next().unwrap_or(path).to_owned(), value.to_owned()))
        .filter(|(name, _)| !name.contains("_available_") && !name.contains("_allowed_"))
        .collect()
}

/// A machine with these files below `proc`, whose settings may be written. By what it sent again its paths lose little.
fn machine_with(scratch: &Scratch, files: &[(&str, &str)]) {
    let rest = [
        ("self/status", "CapEff:\t000001ffffffffff\n"),
        ("net/snmp", "Tcp: OutSegs RetransSegs\nTcp: 22000000 220\n"),
    ];
    for (path, text) in rest.iter().chain(files) {
        let path = scratch.path("machine/proc").join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("make directories");
        std::fs::write(path, text).expect("write");
    }
}

/// What `doctor --prove --json` says of that machine; nothing, with the reason told, where no testbed can be had.
fn proved(scratch: &Scratch, row: &str, options: &[&str]) -> Option<Value> {
    if !is_root() {
        skipped(row, "needs root");
        return None;
    }
    let mut command = doctor(scratch, "machine", "--prove");
    command.arg("--json").args(options);
    let ran = Running::start(command).end(PROOF_LIMIT);
    if ran.stdout.contains("the kernel needs") {
        skipped(row, ran.stdout.trim());
        return None;
    }
    Some(serde_json::from_str(ran.expect(0).stdout.trim()).expect("one line of JSON"))
}

fn found<'a>(event: &'a Value, name: &str) -> &'a Value {
    let findings = event["findings"].as_array().expect("findings");
    findings.iter().find(|finding| finding["name"] == name).unwrap_or_else(|| panic!("{name}: {event:#}"))
}

/// How often a proof is tried that says nothing, as others use this machine.
const PROOFS: usize = 3;

/// The same until the trials of all these settings say something.
fn proved_of(scratch: &Scratch, row: &str, options: &[&str], settings: &[&str]) -> Option<Value> {
    let mut void = Vec::new();
    for _ in 0..PROOFS {
        let event = proved(scratch, row, options)?;
        void = settings.iter().copied().filter(|setting| is_void(&event, setting)).collect();
        if void.is_empty() {
            return Some(event);
        }
        say(&format!(
            "{row}: once more, as the path itself lost packets in the trial of {}",
            void.join(", ")
        ));
    }
    panic!("{row}: in each of {PROOFS} proofs the path itself lost packets; in the last in that of {void:?}");
}

/// Whether the trial of this setting says nothing, as the emulated path itself lost packets.
fn is_void(event: &Value, setting: &str) -> bool {
    let trials = event["trials"].as_array().expect("trials");
    let of_it =
        |trial: &&Value| trial["settings"].as_array().is_some_and(|all| all.contains(&setting.into()));
    trials.iter().find(of_it).is_some_and(|trial| trial["lost_by_the_path"] != 0)
}

#[test]
fn what_does_not_help_in_a_testbed_is_not_recommended() {
    let scratch = Scratch::new();
    // Buffers far too small for the path, so that it is not congestion control that bounds a stream.
    let files =
        [("sys/net/ipv4/tcp_rmem", "4096 131072 262144"), ("sys/net/ipv4/tcp_congestion_control", "reno")];
    machine_with(&scratch, &files);
    let (window, control) = ("net.ipv4.tcp_rmem", "net.ipv4.tcp_congestion_control");
    let Some(event) = proved_of(&scratch, "doctor --prove", &[], &[window, control]) else { return };
    let trials = event["trials"].as_array().expect("trials");
    assert!(trials.iter().all(|trial| trial["path_cpu_s_per_gb"].as_f64() > Some(0.0)), "{event:#}");
    for (name, word) in [(window, "change"), (control, "told")] {
        assert_eq!(found(&event, name)["verdict"], word, "{name}: {event:#}");
    }
    assert_eq!(trials[0]["rate_bits_per_s"], 1_000_000_000, "{event:#}");
    assert_eq!(trials.len(), 2, "{event:#}");
    assert!(!scratch.path("doctor-state/testbed/doctor").exists(), "a testbed was left behind");
}

/// One stream of cubic carries some hundredth of that line at such a loss (`thalweg model loss`), and no law binds bbr.
#[test]
fn on_a_path_that_loses_packets_bbr_is_proved_and_on_no_other() {
    const NAME: &str = "net.ipv4.tcp_congestion_control";
    let row = "doctor --prove --loss";
    if !thalweg_sys::socket::available_congestion().is_ok_and(|all| all.iter().any(|name| name == "bbr")) {
        return skipped(row, "this kernel has no bbr");
    }
    let scratch = Scratch::new();
    machine_with(&scratch, &[("sys/net/ipv4/tcp_congestion_control", "cubic")]);
    // What was sent again here speaks for cubic, so there is nothing to try, and no testbed.
    if let Some(event) = proved(&scratch, row, &[]) {
        assert_eq!(event["trials"].as_array().map(Vec::len), Some(0), "{event:#}");
    }
    let Some(event) = proved_of(&scratch, row, &["--loss", "1e-3"], &[NAME]) else { return };
    let trial = &event["trials"][0];
    assert_eq!((&trial["settings"][0], &trial["loss"]), (&NAME.into(), &1e-3.into()), "{event:#}");
    let finding = found(&event, NAME);
    assert_eq!(finding["wanted"], "bbr", "{event:#}");
    assert_eq!(finding["verdict"], "change", "{event:#}");
    assert_eq!(finding["remedy"]["by_apply"], true, "{event:#}");
    let why = finding["why"].as_str().expect("words");
    assert!(why.contains("as --loss says") && why.contains("1.0e-3 of the packets lost at random"), "{why}");
}

#[test]
fn what_is_for_paths_that_lose_large_packets_is_proved_on_one() {
    const NAME: &str = "net.ipv4.tcp_mtu_probing";
    let scratch = Scratch::new();
    machine_with(&scratch, &[("sys/net/ipv4/tcp_mtu_probing", "0"), ("sys/net/core/rmem_max", "212992")]);
    let row = "doctor --prove behind a black hole";
    let Some(event) = proved_of(&scratch, row, &[], &[NAME]) else { return };
    let finding = found(&event, NAME);
    let why = finding["why"].as_str().expect("words");
    if why.contains("CONFIG_IP_MULTIPLE_TABLES") {
        return skipped(row, why);
    }
    assert_eq!(finding["verdict"], "change", "{event:#}");
    assert!(why.contains("packets of more than 1400 bytes lost without a word"), "{why}");
    let before = event["trials"][0]["before_bits_per_s"].as_array().expect("runs");
    assert!(
        !before.is_empty() && before.iter().all(|rate| rate.as_f64() == Some(0.0)),
        "nothing comes through without it: {event:#}"
    );
    // What the kernel has only once is not changed to try it, and that is said.
    let kernel = found(&event, "net.core.rmem_max");
    assert!(
        kernel["why"].as_str().is_some_and(|why| why.contains("not tried: the kernel has one")),
        "{kernel}"
    );
}

/// By an ordinary connection and datagrams, as any user may send them.
#[test]
fn the_path_mtu_is_what_arrives_and_a_black_hole_is_told() {
    let Some(testbed) = Testbed::up_bare("doctor --to: the path MTU", &["--rtt", "2ms"]) else { return };
    let registry = Registry::new(Some(&testbed.scratch.path("testbeds/testbed"))).expect("a directory");
    let record = registry.running("testbed").expect("a testbed");
    let router = record.namespace(record.router_fd).expect("the router");
    let right = record.host("right").and_then(|host| record.namespace(host.fd)).expect("a host");
    let listener = right.inside(|| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("listen");
    let to = format!("10.77.2.1:{}", listener.local_addr().expect("an address").port());
    // Of the router's devices each has the name of the host that it leads to.
    let set = |device: &str, mtu: &str| {
        let words = ["link", "set", device, "mtu", mtu];
        let done = router.inside(|| Command::new("ip").args(words).status());
        assert!(done.is_ok_and(|status| status.success()), "{words:?}");
    };
    let assert_told = |mtu: &str, verdict: &str, words: &str| {
        let mut command = testbed.scratch.thalweg();
        command.args(["doctor", "--json", "--to", &to]);
        let output = finish(testbed.enter("left", &command).spawn().expect("start"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let event: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
        let finding = found(&event, &format!("path MTU to {to}"));
        assert_eq!((&finding["current"], &finding["verdict"]), (&mtu.into(), &verdict.into()), "{finding}");
        assert!(finding["why"].as_str().is_some_and(|why| why.contains(words)), "{finding}");
    };
    assert_told("1500", "told", "arrived");
    // What comes to a device that takes less is lost, and neither end knows.
    set("left-1", "1400");
    assert_told("1400", "change", "a black hole: packets of 1420 bytes are lost");
    set("left-1", "1500");
    set("right-1", "1300");
    assert_told("1300", "told", "a router on the way takes no more");
    // A far side that asks for less gets less of TCP, whatever else is lost.
    set("right-1", "1500");
    testbed.run(&["right", "ip", "link", "set", "eth0", "mtu", "1280"]);
    testbed.run(&["left", "ip", "route", "flush", "cache"]);
    assert_told("1280", "told", "only programs that use datagrams");
}

#[test]
fn what_was_tried_and_did_not_help_is_told_and_nothing_is_changed() {
    if !is_root() {
        return skipped("doctor --prove --apply", "needs root");
    }
    let scratch = Scratch::new();
    // A slow line, which any congestion control fills.
    machine_with(&scratch, &[("sys/net/ipv4/tcp_congestion_control", "reno")]);
    card(&scratch, "100\n");
    let before = facts(&scratch, "machine");
    let prove = |options: &[&str]| {
        let mut command = doctor(&scratch, "machine", "--prove");
        command.arg("--apply").args(options);
        Running::start(command).end(PROOF_LIMIT)
    };
    let ran = prove(&[]);
    if ran.stderr.contains("the kernel needs") {
        return skipped("doctor --prove --apply", ran.stderr.trim());
    }
    let told = ran.expect(0).stdout;
    assert!(told.contains("net.ipv4.tcp_congestion_control: tried in a testbed: "), "{told}");
    assert!(told.contains("nothing that was tried was shown to help"), "{told}");
    assert!(!told.contains("tuned-adm") && !told.contains("from here"), "{told}");
    assert_eq!(facts(&scratch, "machine"), before);
    let event: Value =
        serde_json::from_str(prove(&["--json"]).expect(0).stdout.trim()).expect("one line of JSON");
    assert_eq!(event["trials"][0]["settings"][0], "net.ipv4.tcp_congestion_control", "{event:#}");
    assert_eq!(event["changes"].as_array().map(Vec::len), Some(0), "{event:#}");
}

/// By one who may write none of them, in a tree that he owns.
#[test]
fn what_may_not_be_changed_from_here_is_told_with_its_reason_and_is_no_success() {
    let scratch = Scratch::new();
    machine(&scratch, "machine");
    std::fs::write(scratch.path("machine/proc/self/status"), "CapEff:\t0000000000000000\n").expect("write");
    let before = facts(&scratch, "machine");
    let told = Running::start(doctor(&scratch, "machine", "--apply")).end(LIMIT).expect(2).stdout;
    let line = "net.core.rmem_max = 212992 (2147483647 is wanted): NOT DONE: root may change it";
    assert!(told.lines().any(|told| told == line), "{told}");
    assert!(!told.contains("nothing to change") && !told.contains("--undo"), "{told}");
    assert_eq!(facts(&scratch, "machine"), before);
}

/// Who may neither read all of it nor change it: each is said with its reason, and nothing is changed.
#[test]
fn who_may_not_is_told_of_each_what_could_not_be_done() {
    let scratch = Scratch::new();
    machine(&scratch, "machine");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("set a mode");
    };
    mode(scratch.root(), 0o777);
    let Some(as_nobody) = scratch.as_nobody("doctor of nobody") else { return };
    let before = facts(&scratch, "machine");
    let closed = scratch.path("machine/proc/sys/net/core/netdev_max_backlog");
    mode(&closed, 0);
    let run = |options: &[&str]| {
        let mut command = doctor(&scratch, "machine", options[0]);
        command.args(&options[1..]);
        Running::start(as_nobody(command)).end(LIMIT)
    };
    let event: Value =
        serde_json::from_str(run(&["--json"]).expect(0).stdout.trim()).expect("one line of JSON");
    let findings = event["findings"].as_array().expect("findings");
    let backlog = findings.iter().find(|finding| finding["name"] == "net.core.netdev_max_backlog");
    let why = backlog.and_then(|finding| finding["why"].as_str()).unwrap_or_default();
    assert!(why.ends_with("netdev_max_backlog may not be read by this user"), "{event:#}");

    let told = run(&["--apply"]).expect(2).stdout;
    for key in ["net.core.rmem_max", "net.ipv4.tcp_rmem"] {
        let line = told.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        assert!(line.contains(": NOT DONE: Permission denied"), "{told}");
    }
    assert!(!told.contains("tuned-adm") && !told.contains("--undo"), "{told}");
    run(&["--undo"]).expect(0);

    let refused = run(&["--prove"]).expect(3).stderr;
    for words in ["make a network namespace failed", "a testbed needs root"] {
        assert!(refused.contains(words), "{refused}");
    }
    mode(&closed, 0o644);
    assert_eq!(facts(&scratch, "machine"), before);
}

/// Interrupted, it leaves no testbed that stands in the way of the next proof.
#[test]
fn a_proof_that_is_killed_takes_its_testbed_along() {
    if !is_root() {
        return skipped("doctor --prove killed", "needs root");
    }
    let scratch = Scratch::new();
    machine(&scratch, "machine");
    let words = std::fs::File::create(scratch.path("words")).expect("a file");
    let mut proof = doctor(&scratch, "machine", "--prove");
    let mut proof = proof.stdout(Stdio::null()).stderr(words).spawn().expect("start");
    let listed = || {
        let mut list = scratch.thalweg();
        list.args(["testbed", "list", "--state"]).arg(scratch.path("doctor-state"));
        String::from_utf8_lossy(&list.output().expect("a list").stdout).into_owned()
    };
    let mut ended = None;
    let is_up = wait_until(LIMIT, || {
        ended = proof.try_wait().expect("its state");
        if ended.is_some() || !listed().starts_with("up") {
            return ended.is_some();
        }
        // Each run takes its testbed down by itself. Stopped, the proof cannot before it is killed.
        signal(proof.id(), Signal::SIGSTOP);
        let is_still_up = listed().starts_with("up");
        if !is_still_up {
            signal(proof.id(), Signal::SIGCONT);
        }
        is_still_up
    });
    let words = std::fs::read_to_string(scratch.path("words")).expect("words");
    if ended.is_some() && words.contains("the kernel needs") {
        return skipped("doctor --prove killed", words.trim());
    }
    assert!(is_up && ended.is_none(), "{words}");
    proof.kill().expect("kill it");
    proof.wait().expect("its end");
    assert!(wait_until(LIMIT, || !listed().starts_with("up")), "{}", listed());
}

#[test]
fn what_somebody_changes_after_a_killed_apply_is_left_and_told() {
    if !Strace::available("doctor killed, then a change") {
        return;
    }
    let scratch = Scratch::new();
    machine(&scratch, "machine");
    let before = facts(&scratch, "machine");
    // The first gives the record its name, the second comes after all settings.
    let inject = Strace::inject("rename:signal=KILL:when=2");
    let killed = Running::start(inject.around(&doctor(&scratch, "machine", "--apply"))).end(LIMIT);
    assert_ne!(killed.code, Some(0));
    let setting = scratch.path("machine/proc/sys/net/core/rmem_max");
    let now = || std::fs::read_to_string(&setting).expect("read");
    assert_eq!(now(), "2147483647");
    std::fs::write(&setting, "77777777\n").expect("write");
    let told = Running::start(doctor(&scratch, "machine", "--undo")).end(LIMIT).expect(2).stdout;
    assert!(
        told.contains("net.core.rmem_max was `212992` before: NOT DONE: somebody changed it since"),
        "{told}"
    );
    assert_eq!(now(), "77777777\n");
    std::fs::write(&setting, "212992\n").expect("write");
    assert_eq!(facts(&scratch, "machine"), before);
}

#[test]
fn killed_at_each_call_that_changes_something_it_can_still_be_undone() {
    if !Strace::available("doctor killed") {
        return;
    }
    let scratch = Scratch::new();
    let mut kills = 0;
    // Each call until a run outlives it: then there are no more of it.
    for call in ["write", "fsync", "rename", "mkdir", "openat", "unlink", "rmdir", "fchmod", "ftruncate"] {
        for what in ["--apply", "--undo"] {
            for when in 1..=quick_or_torture(8, 400) {
                let name = format!("machine-{call}-{when}{what}");
                machine(&scratch, &name);
                let before = facts(&scratch, &name);
                if what == "--undo" {
                    Running::start(doctor(&scratch, &name, "--apply")).end(LIMIT).expect(0);
                }
                let inject = Strace::inject(&format!("{call}:signal=KILL:when={when}"));
                let ran = Running::start(inject.around(&doctor(&scratch, &name, what))).end(LIMIT);
                let was_killed = ran.code != Some(0);
                kills += usize::from(was_killed);
                Running::start(doctor(&scratch, &name, "--undo")).end(LIMIT).expect(0);
                assert_eq!(facts(&scratch, &name), before, "{what} killed at {call} number {when}");
                if !was_killed {
                    break;
                }
            }
        }
    }
    assert!(kills >= 20, "only {kills} kills landed");
}
