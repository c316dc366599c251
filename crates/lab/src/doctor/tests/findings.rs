//! What is found of a data transfer node, and how the beliefs are answered by it.

use super::*;

#[test]
fn a_node_with_a_fast_card_is_told_what_stands_in_its_way() {
    let report = dtn().report(&dtn_probes(), &["/data"]);
    let change = |name: &str, current: &str, wanted: &str| {
        let found = finding(&report, name);
        assert_eq!((found.verdict, found.current.as_deref()), (Verdict::Change, Some(current)), "{name}");
        assert_eq!(found.wanted.as_deref(), Some(wanted), "{name}");
        assert!(!found.why.is_empty() && found.source.is_some() && found.scope.is_some(), "{name}");
    };
    // Twice what 100 Gbit/s have under way in 74 ms.
    change("net.core.rmem_max", "212992", "1850736640");
    change("net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 131072 1073741824");
    change("net.core.netdev_max_backlog", "1000", "8192");
    change("ens1f0 rings", "rx 2048 tx 2048", "rx 8160 tx 2048");
    change("ens1f0 offloads", "tso on, gro off", "tso on, gro on");
    change("ens1f0 PCIe", "8.0 GT/s x8: some 57 Gbit/s, less than the line", "16.0 GT/s x16");
    change("ens1f0 queue", "mq of pfifo_fast", "mq of fq");
    change("governor", "powersave", "performance");
    change("clock source", "hpet", "tsc");
    change("open files", "1024, may be raised to 1024", "at least 2048");
    change("/data write", "40.00 Gbit/s (5000 MB/s)", "above the line's 100 Gbit/s");
    let options = finding(&report, "/data mount options");
    assert_eq!(
        (options.verdict, options.current.as_deref()),
        (Verdict::Change, Some("rw,sync,noatime,attr2")),
        "each once"
    );
    let interrupts = finding(&report, "ens1f0 interrupts");
    assert_eq!(interrupts.verdict, Verdict::Change);
    assert!(
        interrupts.current.as_deref().is_some_and(|text| text.contains("2 of these CPUs are at another"))
    );
    let default = finding(&report, "net.core.default_qdisc");
    assert_eq!(
        (default.verdict, default.wanted.as_deref()),
        (Verdict::Depends, Some("fq")),
        "bbr is the default"
    );
    for (name, wanted) in [
        ("ens1f0 MTU", "9000"),
        ("ens1f0 pause frames", "rx on tx on"),
        ("net.ipv4.tcp_slow_start_after_idle", "0"),
        ("NUMA nodes", "thalweg at node 1, that of ens1f0"),
    ] {
        let found = finding(&report, name);
        assert_eq!((found.verdict, found.wanted.as_deref()), (Verdict::Depends, Some(wanted)), "{name}");
        assert!(found.remedy.as_ref().is_some_and(|remedy| !remedy.by_apply), "{name}");
    }
    let node = finding(&report, "NUMA nodes").remedy.clone().expect("a remedy").apply;
    for words in ["numactl --cpunodebind=1 --membind=1 ", "`CPUAffinity=4-7`", "`NUMAMask=1`"] {
        assert!(node.contains(words), "{node}");
    }
    assert_eq!(finding(&report, "/data read").verdict, Verdict::Good);
    assert_eq!(finding(&report, "VAES").current.as_deref(), Some("yes"));
    let remedy = finding(&report, "ens1f0 rings").remedy.clone().expect("a remedy");
    assert_eq!(remedy.undo, "ethtool -G ens1f0 rx 2048 tx 2048");
}

/// Of what nothing is lost, a longer line is no advice to follow blindly.
#[test]
fn where_no_packet_was_lost_for_want_of_room_rings_and_backlog_may_stay() {
    let tree = dtn();
    tree.put("proc/net/softnet_stat", "0003c34f 00000000 00000002\n00018a21 00000000 00000000");
    tree.put("sys/class/net/ens1f0/statistics/rx_missed_errors", "0");
    let probes = dtn_probes();
    let report = tree.report(&probes, &[]);
    for name in ["ens1f0 rings", "net.core.netdev_max_backlog"] {
        let found = finding(&report, name);
        assert_eq!(found.verdict, Verdict::Depends, "{name}");
        assert!(found.remedy.as_ref().is_some_and(|remedy| !remedy.by_apply), "{name}");
    }
    let why = &finding(&report, "net.core.netdev_max_backlog").why;
    assert!(why.contains("0 packets were dropped so since boot"), "{why}");
    let done = apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
    assert!(!done.iter().any(|done| done.what == "net.core.netdev_max_backlog"), "{done:?}");
}

/// Of that path nothing is known: 100 ms are another's.
#[test]
fn where_the_path_that_was_asked_for_was_not_measured_buffers_are_left_alone() {
    let tree = dtn();
    let probes = Probes { way: Some(Err("far:443: Connection refused".into())), ..dtn_probes() };
    let report = tree.report(&probes, &[]);
    let done = apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
    for name in ["net.core.rmem_max", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        let found = finding(&report, name);
        assert_eq!(found.verdict, Verdict::Depends, "{name}");
        assert!(found.remedy.as_ref().is_some_and(|remedy| !remedy.by_apply), "{name}");
        assert!(found.why.contains("could not be measured"), "{}", found.why);
        assert!(!done.iter().any(|done| done.what == name), "{done:?}");
    }
    assert!(value(&done, "net.ipv4.tcp_mtu_probing").trouble.is_none(), "what is of no path is changed");
}

#[test]
fn what_is_put_back_by_hand_is_what_was_there_before() {
    let tree = dtn();
    tree.put("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance");
    tree.put("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "powersave");
    let undo = |tree: &Tree, name: &str| {
        let report = tree.report(&dtn_probes(), &[]);
        finding(&report, name).remedy.clone().expect("a remedy").undo
    };
    assert_eq!(
        undo(&tree, "governor"),
        "cpupower -c 1 frequency-set -g performance && cpupower -c 0,2 frequency-set -g powersave"
    );
    let affinities = "for n in 77; do echo 0 > /proc/irq/$n/smp_affinity_list; done; \
                      for n in 78; do echo 1 > /proc/irq/$n/smp_affinity_list; done";
    assert_eq!(undo(&tree, "ens1f0 interrupts"), affinities, "nothing that did not run is started");
    tree.put("proc/812/comm", "irqbalance");
    assert_eq!(undo(&tree, "ens1f0 interrupts"), format!("{affinities}; systemctl start irqbalance"));
}

/// RHEL turns it off from 9.3 on.
#[test]
fn io_uring_that_was_turned_off_is_no_fault() {
    for (disabled, verdict) in [("0", Verdict::Good), ("1", Verdict::Depends), ("2", Verdict::Depends)] {
        let tree = dtn();
        tree.put("proc/sys/kernel/io_uring_disabled", disabled);
        let report = tree.report(&Probes::default(), &[]);
        assert_eq!(finding(&report, "kernel.io_uring_disabled").verdict, verdict, "{disabled}");
    }
}

/// 256 MiB go into a quick disk in some hundredths of a second, of which the sync is the most.
#[test]
fn a_disk_that_was_measured_too_shortly_is_not_judged_by_the_line() {
    let mut probes = dtn_probes();
    let disk = probes.disks.get_mut(Path::new("/data")).and_then(|disk| disk.as_mut().ok()).expect("a disk");
    disk.write_time = Duration::from_millis(21);
    let report = dtn().report(&probes, &["/data"]);
    let found = finding(&report, "/data write");
    assert_eq!((found.verdict, found.wanted.as_deref()), (Verdict::Told, None));
    assert!(found.why.contains("21 ms only, which is not enough to judge"), "{}", found.why);
    assert_answered(&report, 4, Holds::Unknown, "too little room at /data");
}

/// The congestion control by default and what was sent again are the machine's; bbr is loaded unless `available` says
/// otherwise.
fn control(name: &str, sent: u64, again: u64, available: &str) -> Finding {
    let tree = dtn();
    tree.put("proc/sys/net/ipv4/tcp_congestion_control", name);
    tree.put("proc/sys/net/ipv4/tcp_available_congestion_control", available);
    tree.put("proc/net/snmp", &format!("Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 {sent} {again}"));
    finding(&tree.report(&Probes::default(), &[]), "net.ipv4.tcp_congestion_control").clone()
}

#[test]
fn which_congestion_control_is_advised_depends_on_what_was_sent_again_and_none_is_a_fault() {
    let advice = |name: &str, again: u64| {
        let found = control(name, 10_000_000, again, "reno cubic bbr");
        assert!(found.why.contains(&format!("{again} of 10000000 segments")), "{}", found.why);
        assert!(found.why.contains("4.6e-5"), "the threshold: {}", found.why);
        assert!(!found.remedy.is_some_and(|remedy| remedy.by_apply), "{name}");
        (found.verdict, found.wanted)
    };
    let wanted = |name: &str| Some(name.to_owned());
    // 460 of 10 million are 4.6e-5.
    assert_eq!(advice("cubic", 460), (Verdict::Good, wanted("cubic")));
    assert_eq!(advice("bbr", 460), (Verdict::Depends, wanted("cubic")));
    assert_eq!(advice("reno", 0), (Verdict::Depends, wanted("cubic")));
    assert_eq!(advice("cubic", 461), (Verdict::Depends, wanted("bbr")));
    assert_eq!(advice("reno", 461), (Verdict::Depends, wanted("bbr")));
    assert_eq!(advice("bbr", 461), (Verdict::Told, None));
    assert_eq!(control("htcp", 10_000_000, 461, "htcp").verdict, Verdict::Told);
    // By hand: RFC 9438 Eq 5 gives less there than Reno's sqrt(1.5 / 1e-3) = 38.7 segments of 1448 bytes in each 50 ms.
    let lossy = control("cubic", 10_000_000, 10_000, "reno cubic");
    assert!(lossy.why.contains("one stream with cubic carries 9 Mbit/s over 50.0 ms"), "{}", lossy.why);
    assert!(lossy.remedy.is_some_and(|remedy| remedy.apply.starts_with("modprobe tcp_bbr")));
}

#[test]
fn what_whoever_asks_knows_of_the_loss_goes_over_what_was_sent_again_here() {
    let tree = dtn();
    tree.put("proc/sys/net/ipv4/tcp_congestion_control", "cubic");
    let advice = |loss: Option<f64>| {
        let report = tree.report(&Probes { loss, ..Probes::default() }, &[]);
        let found = finding(&report, DEFAULT).clone();
        (found.verdict, found.wanted.unwrap_or_default(), found.why.contains("as --loss says"))
    };
    // 220 of 22 million segments were sent again.
    assert_eq!(advice(None), (Verdict::Good, "cubic".to_owned(), false));
    assert_eq!(advice(Some(1e-3)), (Verdict::Depends, "bbr".to_owned(), true));
    assert_eq!(advice(Some(0.0)), (Verdict::Good, "cubic".to_owned(), true));
    assert_eq!(loss_to_prove_with(&tree.roots()), 0.0);
    tree.put("proc/net/snmp", "Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 22000000 22000");
    assert_eq!(loss_to_prove_with(&tree.roots()), 1e-3);
    tree.put("proc/net/snmp", "Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 22000000 11000000");
    assert_eq!(loss_to_prove_with(&tree.roots()), 0.05, "beyond it nothing is proved");
}

#[test]
fn what_was_lost_cannot_be_seen_in_few_segments_and_then_no_congestion_control_is_advised() {
    for name in ["cubic", "bbr"] {
        let found = control(name, 21_999, 0, "reno cubic bbr");
        assert_eq!((found.verdict, found.wanted, found.remedy), (Verdict::Told, None, None));
        assert!(found.why.contains("cannot be seen: only 21999 TCP segments"), "{}", found.why);
    }
    assert_eq!(control("bbr", 22_000, 0, "reno cubic bbr").verdict, Verdict::Depends);
}

#[test]
fn the_six_beliefs_are_answered_by_what_was_measured() {
    let report = dtn().report(&dtn_probes(), &["/data"]);
    assert_eq!(report.beliefs.len(), 6);
    // Half of the receiver's 6 MiB, less than the sender's 4 MiB, each 74 ms.
    assert_answered(&report, 1, Holds::No, "0.34 Gbit/s at 74.000 ms (295 streams");
    assert_answered(&report, 1, Holds::No, "a receive buffer (net.ipv4.tcp_rmem) of up to 6 MiB");
    assert_answered(&report, 2, Holds::No, "220 of 22000000 segments (1.0e-5)");
    assert_answered(&report, 2, Holds::No, "counts the loopback and bare acknowledgements as well");
    assert_answered(&report, 3, Holds::No, "measured up to 9.6 Gbit/s");
    assert_answered(
        &report,
        3,
        Holds::No,
        "Tried were a network namespace and a socket to netfilter in it, no path",
    );
    assert_answered(
        &report,
        4,
        Holds::No,
        "/data takes 40.0 Gbit/s (measured with 16 requests in flight; 32.0 one at a time), less than the line's 100.0",
    );
    assert_answered(&report, 5, Holds::No, "8 of them 128.0");
    assert_answered(&report, 6, Holds::Unknown, "no guest");
}

/// Windows are wide, much is lost, the disk is quicker than the line and the processors are not.
#[test]
fn a_belief_that_holds_here_is_said_to_hold() {
    let tree = dtn();
    for key in ["tcp_rmem", "tcp_wmem"] {
        tree.put(&format!("proc/sys/net/ipv4/{key}"), "4096 67108864 2147483647");
    }
    tree.put("proc/net/snmp", "Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 22000000 22000");
    let mut probes = dtn_probes();
    let disk = probes.disks.get_mut(Path::new("/data")).and_then(|disk| disk.as_mut().ok()).expect("a disk");
    disk.write_bytes_per_s = 20e9;
    probes.core_bytes_per_s = Some(Ok(1e9));
    probes.testbed = Some(Err("the kernel needs nfnetlink_queue".into()));
    let report = tree.report(&probes, &["/data"]);
    // A window of 1 GiB each 74 ms: 116 Gbit/s.
    let (_, answer) = belief(&report, 1);
    assert!(answer.contains("(one stream fills the line)") && answer.ends_with("large enough"), "{answer}");
    assert_answered(&report, 2, Holds::Yes, "22000 of 22000000 segments (1.0e-3)");
    assert_answered(&report, 3, Holds::Unknown, "nfnetlink_queue");
    assert_answered(&report, 4, Holds::Yes, "160.0 Gbit/s");
    assert_answered(&report, 5, Holds::Yes, "8 of them 64.0");
}

/// One of 100 Gbit/s that nobody plugged in is not what a disk is to fill.
#[test]
fn of_the_lines_only_those_that_are_up_count() {
    let tree = dtn();
    tree.put("sys/class/net/ens1f0/operstate", "down");
    tree.put("sys/class/net/ens2f0/operstate", "up");
    tree.put("sys/class/net/ens2f0/speed", "25000");
    tree.put("sys/class/net/ens2f0/device/numa_node", "0");
    let report = tree.report(&dtn_probes(), &["/data"]);
    assert_answered(&report, 4, Holds::Yes, "more than the line's 25.0");
    assert_eq!(finding(&report, "/data write").verdict, Verdict::Good);
    assert_eq!(finding(&report, "/data write, one at a time").verdict, Verdict::Told);
}

/// Everything that a node is to be asked about, each with its line; what should be otherwise says what, why, by whom it
/// is wanted, where a change takes effect, and how to make it and to take it back.
#[test]
fn each_thing_has_its_line_and_each_change_its_reason_its_reach_and_its_way_back() {
    let tree = dtn();
    let clock = ClockState { synchronised: false, error_max: Duration::from_millis(5) };
    let probes = Probes {
        io_uring: Some(Ok(())),
        kernel_tls: Some(Err("the kernel has no CONFIG_TLS".into())),
        clock: Some(Ok(clock)),
        ..dtn_probes()
    };
    let report = tree.report(&probes, &["/data"]);
    for name in [
        "virtualisation",
        "container",
        "network namespace",
        "kernel settings",
        "net.core.rmem_max",
        "net.core.wmem_max",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
        "net.ipv4.tcp_mtu_probing",
        "net.core.default_qdisc",
        "net.core.netdev_max_backlog",
        "net.ipv4.tcp_congestion_control",
        "net.ipv4.tcp_available_congestion_control",
        "net.ipv4.tcp_allowed_congestion_control",
        "net.ipv4.tcp_slow_start_after_idle",
        "ens1f0 line",
        "ens1f0 rings",
        "ens1f0 queue",
        "ens1f0 MTU",
        "ens1f0 PCIe",
        "ens1f0 pause frames",
        "ens1f0 offloads",
        "ens1f0 interrupts",
        "path MTU to far:443",
        "round trip time to far:443",
        "NUMA nodes",
        "AES",
        "VAES",
        "SHA",
        "digest and seal",
        "governor",
        "CPUs of the control group",
        "memory of the control group",
        "memory that slows the control group",
        "I/O of the control group",
        "tasks of the control group",
        "open files",
        "locked memory",
        "io_uring",
        "kernel TLS",
        "/data file system",
        "/data mount options",
        "/data disk",
        "/data write",
        "/data read",
        "/data read latency",
        "/data sync latency",
        "clock source",
        "synchronised",
    ] {
        let found = finding(&report, name);
        assert_ne!(found.verdict, Verdict::Unseen, "{name}: {found:?}");
        assert!(!found.why.is_empty(), "{name}");
    }
    let changes =
        report.findings.iter().filter(|one| matches!(one.verdict, Verdict::Change | Verdict::Depends));
    for one in changes.clone() {
        assert!(proofs::of(&one.name).is_some(), "neither a proof nor why there is none: {one:?}");
    }
    // A disk that is too slow is no setting.
    for one in changes.filter(|one| one.name != "/data write") {
        let has = |words: &Option<String>| words.as_ref().is_some_and(|words| !words.is_empty());
        assert!(has(&one.wanted) && has(&one.source) && has(&one.scope), "{one:?}");
        let back = one.remedy.as_ref().is_some_and(|way| !way.apply.is_empty() && !way.undo.is_empty());
        assert!(back, "{one:?}");
    }
}
