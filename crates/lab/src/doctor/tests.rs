//! Machines made of files: nothing of the machine that runs the tests is read or changed.

use super::change::{Done, apply, has_profile, undo};
use super::congestion::DEFAULT;
use super::measure::{Card, DiskSpeed, Probes, Way};
use super::queue::Queue;
use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use thalweg_sys::card::{Offload, Rings};
use thalweg_sys::host::ClockState;
use thalweg_sys::namespace::NetworkNamespace;

struct Tree(TempDir);

impl Tree {
    fn with(files: &[(&str, &str)]) -> Tree {
        let tree = Tree(tempfile::tempdir().expect("a scratch directory"));
        for (path, text) in files {
            tree.put(path, text);
        }
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("make directories");
        fs::write(path, format!("{text}\n")).expect("write a file");
    }

    fn roots(&self) -> Roots {
        Roots::below(self.0.path())
    }

    fn report(&self, probes: &Probes, paths: &[&str]) -> Report {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        examine(&self.roots(), probes, &paths)
    }

    /// Every file with its mode and bytes, without the state directory.
    fn files(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        fn walk(path: &Path, into: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>) {
            for entry in fs::read_dir(path).expect("list").flatten() {
                let about = entry.metadata().expect("look at");
                if about.is_dir() {
                    into.insert(entry.path(), (about.permissions().mode(), Vec::new()));
                    walk(&entry.path(), into);
                } else {
                    let bytes = fs::read(entry.path()).expect("read");
                    into.insert(entry.path(), (about.permissions().mode(), bytes));
                }
            }
        }
        let mut files = BTreeMap::new();
        walk(self.0.path(), &mut files);
        files.retain(|path, _| !path.starts_with(self.state()));
        files
    }

    fn state(&self) -> PathBuf {
        self.0.path().join("state")
    }
}

/// The kernel settings of a distribution as it comes.
const STOCK: &[(&str, &str)] = &[
    ("proc/sys/net/core/rmem_max", "212992"),
    ("proc/sys/net/core/wmem_max", "212992"),
    ("proc/sys/net/core/default_qdisc", "fq_codel"),
    ("proc/sys/net/core/netdev_max_backlog", "1000"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304"),
    ("proc/sys/net/ipv4/tcp_mtu_probing", "0"),
    ("proc/sys/net/ipv4/tcp_congestion_control", "bbr"),
    ("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic bbr"),
    ("proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno bbr"),
    ("proc/sys/net/ipv4/tcp_window_scaling", "1"),
    ("proc/sys/net/ipv4/tcp_sack", "1"),
    ("proc/sys/net/ipv4/tcp_moderate_rcvbuf", "1"),
    ("proc/self/status", "Name:\tthalweg\nCapEff:\t000001ffffffffff"),
];

/// A data transfer node: two sockets, a card of 100 Gbit/s at node 1 whose interrupts go to node 0.
fn dtn() -> Tree {
    let tree = Tree::with(STOCK);
    let cpu = |number| {
        format!(
            "processor\t: {number}\nmodel name\t: Intel(R) Xeon(R) Gold 5418N\nflags\t\t: fpu aes pclmulqdq vaes avx512f sha_ni\n"
        )
    };
    let rest = [
        ("proc/cpuinfo", (0..8).map(cpu).collect::<String>()),
        ("proc/self/mountinfo", "22 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n30 22 259:9 / /data rw,sync,noatime - xfs /dev/nvme1n1 rw,sync,attr2".into()),
        ("proc/self/limits", "Max open files            1024                 1024                 files     \nMax locked memory         65536                65536                bytes     ".into()),
        ("proc/net/snmp", "Tcp: RtoMin OutSegs RetransSegs\nTcp: 200 22000000 220".into()),
        ("proc/stat", "cpu  100 0 100 9800 0 0 0 0 0 0".into()),
        ("proc/irq/77/smp_affinity_list", "0".into()),
        ("proc/irq/78/smp_affinity_list", "1".into()),
        ("sys/class/net/ens1f0/speed", "100000".into()),
        ("sys/class/net/ens1f0/mtu", "1500".into()),
        ("sys/class/net/ens1f0/device/numa_node", "1".into()),
        ("sys/class/net/ens1f0/device/msi_irqs/77", "msix".into()),
        ("sys/class/net/ens1f0/device/msi_irqs/78", "msix".into()),
        ("sys/class/net/ens1f0/queues/rx-0/rps_cpus", "0".into()),
        ("sys/class/net/ens1f0/queues/rx-1/rps_cpus", "0".into()),
        ("sys/class/net/veth0/speed", "10000".into()),
        ("sys/devices/system/node/node0/cpulist", "0-3".into()),
        ("sys/devices/system/node/node1/cpulist", "4-7".into()),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave".into()),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet".into()),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm".into()),
        ("sys/dev/block/259:9/queue/scheduler", "[none] mq-deadline".into()),
        ("sys/dev/block/259:9/queue/rotational", "0".into()),
    ];
    for (path, text) in rest {
        tree.put(path, &text);
    }
    tree
}

/// What would have been measured on it.
fn dtn_probes() -> Probes {
    let rings = Rings { receive: 2048, send: 2048, receive_max: 8160, send_max: 4096 };
    let offloads = vec![(Offload::SegmentationByCard, true), (Offload::Joining, false)];
    let queue = Queue { root: "mq".into(), number: 0, each: ["pfifo_fast".into()].into() };
    let card = Card { rings: Ok(rings), offloads, queue: Ok(queue) };
    let speed = DiskSpeed {
        write_one_bytes_per_s: 4e9,
        write_bytes_per_s: 5e9,
        read_bytes_per_s: Some(14e9),
        read_latency: Some(Duration::from_micros(80)),
        sync_latency: Duration::from_micros(30),
    };
    Probes {
        cards: BTreeMap::from([("ens1f0".into(), card)]),
        core_bytes_per_s: Some(Ok(2e9)),
        testbed: Some(Ok(())),
        disks: BTreeMap::from([(PathBuf::from("/data"), Ok(speed))]),
        way: Some(Ok(Way { to: "far:443".into(), rtt: Duration::from_millis(74), mtu_bytes: 9000 })),
        ..Probes::default()
    }
}

fn finding<'a>(report: &'a Report, name: &str) -> &'a Finding {
    report
        .findings
        .iter()
        .find(|finding| finding.name == name)
        .unwrap_or_else(|| panic!("nothing about {name}"))
}

fn belief(report: &Report, number: usize) -> (Holds, &str) {
    (report.beliefs[number - 1].holds, &report.beliefs[number - 1].answer)
}

/// That a belief was answered so, in these words among others.
#[track_caller]
fn assert_answered(report: &Report, number: usize, expected: Holds, words: &str) {
    let (holds, answer) = belief(report, number);
    assert!(holds == expected && answer.contains(words), "{number}: {holds:?}: {answer}");
}

#[test]
fn a_node_with_a_fast_card_is_told_what_stands_in_its_way() {
    let report = dtn().report(&dtn_probes(), &["/data"]);
    let change = |name: &str, current: &str, wanted: &str| {
        let found = finding(&report, name);
        assert_eq!((found.verdict, found.current.as_deref()), (Verdict::Change, Some(current)), "{name}");
        assert_eq!(found.wanted.as_deref(), Some(wanted), "{name}");
        assert!(!found.why.is_empty() && found.source.is_some() && found.scope.is_some(), "{name}");
    };
    change("net.core.rmem_max", "212992", "2147483647");
    change("net.ipv4.tcp_rmem", "4096 131072 6291456", "4096 67108864 1073741824");
    change("ens1f0 rings", "rx 2048 tx 2048", "rx 8160 tx 4096");
    change("ens1f0 offloads", "tso on, gro off", "tso on, gro on");
    change("ens1f0 MTU", "1500", "9000");
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
    assert_eq!(finding(&report, "/data read").verdict, Verdict::Good);
    assert_eq!(finding(&report, "VAES").current.as_deref(), Some("yes"));
    let remedy = finding(&report, "ens1f0 rings").remedy.clone().expect("a remedy");
    assert_eq!(remedy.undo, "ethtool -G ens1f0 rx 2048 tx 2048");
}

/// The congestion control by default and what was sent again are the machine's; bbr is loaded unless `available` says otherwise.
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
    // 4 MiB of buffer, half of it window, each 74 ms.
    assert_answered(&report, 1, Holds::No, "0.23 Gbit/s at 74.000 ms (442 streams");
    assert_answered(&report, 2, Holds::No, "220 of 22000000 segments (1.0e-5)");
    assert_answered(&report, 2, Holds::No, "counts the loopback and bare acknowledgements as well");
    assert_eq!(belief(&report, 3).0, Holds::No);
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

/// Everything that a node is to be asked about, each with its line; what should be otherwise says what, why, by whom it is
/// wanted, where a change takes effect, and how to make it and to take it back.
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
        "ens1f0 line",
        "ens1f0 rings",
        "ens1f0 queue",
        "ens1f0 MTU",
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
    // A disk that is too slow is no setting.
    for one in changes.filter(|one| one.name != "/data write") {
        let has = |words: &Option<String>| words.as_ref().is_some_and(|words| !words.is_empty());
        assert!(has(&one.wanted) && has(&one.source) && has(&one.scope), "{one:?}");
        let back = one.remedy.as_ref().is_some_and(|way| !way.apply.is_empty() && !way.undo.is_empty());
        assert!(back, "{one:?}");
    }
}

#[test]
fn a_guest_is_told_that_its_host_decides() {
    let tree = Tree::with(STOCK);
    tree.put("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu aes hypervisor");
    tree.put("sys/class/dmi/id/sys_vendor", "QEMU");
    tree.put("proc/stat", "cpu  500 0 300 100 0 0 0 100 0 0");
    let report = tree.report(&Probes::default(), &[]);
    assert_eq!(finding(&report, "virtualisation").current.as_deref(), Some("QEMU"));
    let scope = finding(&report, "net.core.rmem_max").scope.clone().unwrap_or_default();
    assert!(scope.contains("guest, not of its host"), "{scope}");
    assert_eq!(finding(&report, "governor").verdict, Verdict::Unseen);
    let (holds, answer) = belief(&report, 6);
    assert!(holds == Holds::No && answer.contains("10.0 % of its time"), "{answer}");
}

/// Its processors have no flag that would say so.
#[test]
fn an_arm_machine_is_called_a_guest_by_its_firmware_and_hardware_by_nothing() {
    let virtualisation = |files: &[(&str, &str)]| {
        let tree = Tree::with(STOCK);
        let core = |number| {
            format!("processor\t: {number}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd aes pmull sha2\n")
        };
        tree.put("proc/cpuinfo", &(0..4).map(core).collect::<String>());
        files.iter().for_each(|(path, text)| tree.put(path, text));
        let report = tree.report(&Probes::default(), &[]);
        assert_eq!(finding(&report, "AES").current.as_deref(), Some("yes"));
        let scope = finding(&report, "net.core.rmem_max").scope.clone().unwrap_or_default();
        let found = finding(&report, "virtualisation").clone();
        (found.current.ok_or(found.why), scope.contains("guest, not of its host"))
    };
    let guest = |name: &str| (Ok(name.to_owned()), true);
    let (vendor, product) = ("sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name");
    assert_eq!(virtualisation(&[(vendor, "QEMU")]), guest("QEMU"));
    let cloud = [(vendor, "Amazon EC2"), (product, "m7g.large")];
    assert_eq!(virtualisation(&cloud), guest("Amazon EC2 m7g.large"));
    let cloud = [(vendor, "Microsoft Corporation"), (product, "Virtual Machine")];
    assert_eq!(virtualisation(&cloud), guest("Microsoft Corporation Virtual Machine"));
    let tree = [("proc/device-tree/hypervisor/compatible", "xen,xen-4.17\0xen,xen\0")];
    assert_eq!(virtualisation(&tree), guest("xen,xen-4.17"));
    let tree = [("proc/device-tree/compatible", "linux,dummy-virt\0")];
    assert_eq!(virtualisation(&tree), guest("linux,dummy-virt (QEMU, KVM)"));
    let whole = [(vendor, "Amazon EC2"), (product, "m7g.metal")];
    assert_eq!(virtualisation(&whole), (Ok("none: hardware".into()), false));
    for files in [&[(vendor, "Ampere")][..], &[("proc/device-tree/compatible", "raspberrypi,5\0")], &[]] {
        let (seen, is_scoped) = virtualisation(files);
        assert!(seen.is_err() && !is_scoped, "{files:?}: {seen:?}");
    }
}

/// Two CPUs of a machine with 64 are what a copy has, whatever /proc/cpuinfo shows.
#[test]
fn a_limited_process_is_told_how_many_of_the_cpus_it_has() {
    let told = |allowed: &str, quota: &str| {
        let tree = Tree::with(&[("sys/class/net/ens1f0/speed", "100000"), ("sys/fs/cgroup/cpu.max", quota)]);
        let cpu = |number| format!("processor\t: {number}\nmodel name\t: a model\nflags\t\t: fpu aes\n");
        tree.put("proc/cpuinfo", &(0..64).map(cpu).collect::<String>());
        tree.put("proc/self/status", &format!("CapEff:\t0\nCpus_allowed_list:\t{allowed}"));
        let probes = Probes { core_bytes_per_s: Some(Ok(2e9)), ..Probes::default() };
        let report = tree.report(&probes, &[]);
        let processors = finding(&report, "processors").current.clone().expect("they are seen");
        let (holds, answer) = belief(&report, 5);
        (processors, holds, answer.to_owned())
    };
    // A kernel shows those that might be plugged in as well.
    let (processors, holds, answer) = told("0-255", "max 100000");
    assert_eq!(processors, "64 x a model");
    assert!(holds == Holds::No && answer.contains("64 of them 1024.0 at best"), "{answer}");
    let (processors, holds, answer) = told("0-255", "200000 100000");
    assert!(processors.contains("the 2 of 64 that this process may use"), "{processors}");
    assert!(processors.ends_with("allow 64, the quota of the control group allows 2.00"), "{processors}");
    assert!(holds == Holds::Yes && answer.contains("may use 32.0 at best"), "{answer}");
    let (processors, holds, answer) = told("0-1,8", "550000 100000");
    assert!(processors.contains("the 3 of 64") && processors.ends_with("allows 5.50"), "{processors}");
    assert!(holds == Holds::Yes && answer.contains("may use 48.0 at best"), "{answer}");
}

#[test]
fn a_container_is_told_what_it_cannot_see_and_cannot_change() {
    let tree = Tree::with(&[
        ("proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456"),
        ("proc/self/status", "CapEff:\t00000000a80425fb"),
        (
            "proc/self/mountinfo",
            "900 800 0:90 / / rw,relatime - overlay overlay rw,lowerdir=/a\n901 900 0:5 /sys /proc/sys ro,nosuid - proc proc rw",
        ),
        ("proc/self/cgroup", "0::/"),
        ("sys/fs/cgroup/cpu.max", "150000 100000"),
        ("sys/fs/cgroup/memory.max", "2147483648"),
        ("sys/class/net/eth0/mtu", "1500"),
    ]);
    let report = tree.report(&Probes::default(), &["/data"]);
    assert!(
        finding(&report, "container").current.as_deref().is_some_and(|name| name.contains("layered root"))
    );
    let buffer = finding(&report, "net.ipv4.tcp_rmem");
    assert!(buffer.verdict == Verdict::Change && buffer.remedy.is_none());
    assert!(buffer.scope.as_deref().is_some_and(|scope| scope.contains("--sysctl")));
    let backlog = finding(&report, "net.core.netdev_max_backlog");
    assert!(backlog.verdict == Verdict::Unseen && backlog.why.contains("is not there"), "{backlog:?}");
    assert_eq!(finding(&report, "CPUs of the control group").current.as_deref(), Some("1.50"));
    assert_eq!(finding(&report, "memory of the control group").current.as_deref(), Some("2048 MiB"));
    assert!(apply(&tree.roots(), &report, &Probes::default(), &tree.state()).expect("apply").is_empty());
    assert!(!tree.0.path().join("etc").exists());
}

/// What limits a job, a user or a unit around it does not stand at its own group.
#[test]
fn of_a_group_and_those_around_it_the_tightest_limit_is_told() {
    let told = |files: &[(&str, &str)]| {
        let report = Tree::with(files).report(&Probes::default(), &[]);
        let current = |name: &str| finding(&report, name).current.clone().expect("it is told");
        (current("CPUs of the control group"), current("memory of the control group"))
    };
    let are = |cpus: &str, memory: &str| (cpus.to_owned(), memory.to_owned());
    let around = [
        ("proc/self/cgroup", "0::/a/b"),
        ("sys/fs/cgroup/a/b/cpu.max", "max 100000"),
        ("sys/fs/cgroup/a/b/memory.max", "max"),
        ("sys/fs/cgroup/a/cpu.max", "200000 100000"),
        ("sys/fs/cgroup/a/memory.max", "1073741824"),
    ];
    assert_eq!(told(&around), are("2.00", "1024 MiB"));
    let own = [("sys/fs/cgroup/a/b/cpu.max", "50000 100000"), ("sys/fs/cgroup/a/b/memory.max", "536870912")];
    assert_eq!(told(&[around.as_slice(), &own].concat()), are("0.50", "512 MiB"));
    let version_1 = [
        ("proc/self/cgroup", "5:memory:/slurm/job\n4:cpu,cpuacct:/slurm/job\n1:name=systemd:/\n0::/"),
        ("sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_quota_us", "-1"),
        ("sys/fs/cgroup/cpu,cpuacct/slurm/job/cpu.cfs_period_us", "100000"),
        ("sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "300000"),
        ("sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000"),
        ("sys/fs/cgroup/memory/slurm/job/memory.limit_in_bytes", "9223372036854771712"),
        ("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "2147483648"),
    ];
    assert_eq!(told(&version_1), are("3.00", "2048 MiB"));
    // Of the host's path a container sees nothing but its own group, as the root.
    let container = [
        ("proc/self/cgroup", "4:cpu:/docker/0123\n0::/docker/0123"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
    ];
    assert_eq!(told(&container), are("1.50", "no limit"));
}

#[test]
fn what_slows_a_group_its_disks_and_its_tasks_is_told_too() {
    let told = |files: &[(&str, &str)]| {
        let report = Tree::with(files).report(&Probes::default(), &[]);
        ["memory that slows the control group", "I/O of the control group", "tasks of the control group"]
            .map(|name| finding(&report, name).current.clone().expect("it is told"))
    };
    let version_2 = [
        ("proc/self/cgroup", "0::/a/b"),
        ("sys/fs/cgroup/a/b/memory.high", "536870912"),
        ("sys/fs/cgroup/a/b/io.max", "8:16 rbps=2097152 wbps=max riops=max wiops=120\n8:32 rbps=max wbps=9"),
        ("sys/fs/cgroup/a/b/pids.max", "max"),
        ("sys/fs/cgroup/a/memory.high", "max"),
        ("sys/fs/cgroup/a/io.max", "8:16 rbps=1048576 wiops=500"),
        ("sys/fs/cgroup/a/pids.max", "100"),
    ];
    assert_eq!(told(&version_2), ["512 MiB", "8:16 rbps=1048576 wiops=120, 8:32 wbps=9", "100"]);
    let version_1 = [
        ("proc/self/cgroup", "5:pids:/job\n4:blkio:/job\n0::/"),
        ("sys/fs/cgroup/pids/job/pids.max", "40"),
        ("sys/fs/cgroup/blkio/job/blkio.throttle.write_bps_device", "8:0 1000"),
        ("sys/fs/cgroup/blkio/blkio.throttle.read_iops_device", "8:0 7"),
    ];
    assert_eq!(told(&version_1), ["no limit", "8:0 riops=7 wbps=1000", "40"]);
    assert_eq!(told(&[]), ["no limit"; 3]);
}

#[test]
fn an_empty_machine_is_all_unseen_and_nothing_panics() {
    let report = Tree::with(&[]).report(&Probes::default(), &["/data"]);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.verdict != Verdict::Change && finding.verdict != Verdict::Good)
    );
    assert!(report.beliefs.iter().all(|belief| belief.holds == Holds::Unknown));
}

fn value<'a>(done: &'a [Done], what: &str) -> &'a Done {
    done.iter().find(|done| done.what == what).unwrap_or_else(|| panic!("nothing about {what}"))
}

#[test]
fn what_was_applied_is_undone_exactly_also_when_applied_twice() {
    let tree = dtn();
    tree.put("etc/sysctl.d/90-thalweg.conf", "# ours from an earlier life\nnet.core.rmem_max = 1");
    let own = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o640)).expect("set a mode");
    let before = tree.files();
    let probes = dtn_probes();
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert!(value(&done, "net.core.rmem_max").now.contains("= 2147483647 (was 212992)"));
    let text = fs::read_to_string(&own).expect("the file of sysctl.d");
    assert!(text.contains("# 000 Table III\nnet.ipv4.tcp_rmem = 4096 67108864 1073741824\n"), "{text}");
    let profile =
        fs::read_to_string(tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf")).expect("the profile");
    assert!(profile.contains("devices=ens1f0\nring=rx 8160 tx 4096"), "{profile}");
    let report = tree.report(&probes, &[]);
    assert_eq!(finding(&report, "net.ipv4.tcp_rmem").verdict, Verdict::Good);

    // With the profile active the rings are as wanted, and it has to go on setting them.
    let mut probes = probes;
    let card = probes.cards.get_mut("ens1f0").expect("a card");
    card.rings = Ok(Rings { receive: 8160, send: 4096, receive_max: 8160, send_max: 4096 });
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply again");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    let profile =
        fs::read_to_string(tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf")).expect("the profile");
    assert!(profile.contains("devices=ens1f0\nring=rx 8160 tx 4096"), "{profile}");
    let text = fs::read_to_string(&own).expect("the file of sysctl.d");
    assert!(text.contains("rmem_max") && text.contains("mtu_probing = 1"), "{text}");

    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert_eq!(tree.files(), before);
    assert!(undo(&tree.roots(), &tree.state()).expect("undo again").is_empty());
}

/// It is to be changed for its middle number; its last one is more than 000 has.
#[test]
fn what_is_larger_than_wanted_is_never_lowered() {
    let tree = dtn();
    tree.put("proc/sys/net/ipv4/tcp_rmem", "4096 87380 2147483647");
    let before = tree.files();
    let probes = Probes::default();
    let mut report = tree.report(&probes, &[]);
    let wanted = "4096 67108864 2147483647";
    let found = finding(&report, "net.ipv4.tcp_rmem");
    assert_eq!((found.verdict, found.wanted.as_deref()), (Verdict::Change, Some(wanted)));
    let remedy = found.remedy.clone().expect("a remedy");
    assert_eq!(remedy.apply, format!("sysctl -w net.ipv4.tcp_rmem='{wanted}'"));
    // Somebody raises one between the look and the change.
    tree.put("proc/sys/net/ipv4/tcp_wmem", "4096 16384 2000000000");
    let done = apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    let now = |key: &str| tree.roots().sysctl_value(key).expect("a setting");
    assert_eq!(now("net.ipv4.tcp_rmem"), wanted);
    assert_eq!(now("net.ipv4.tcp_wmem"), "4096 67108864 2000000000");
    let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
    assert!(text.contains(&format!("net.ipv4.tcp_rmem = {wanted}\n")), "{text}");
    report = tree.report(&probes, &[]);
    assert_eq!(finding(&report, "net.ipv4.tcp_rmem").verdict, Verdict::Good);
    undo(&tree.roots(), &tree.state()).expect("undo");
    tree.put("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304");
    assert_eq!(tree.files(), before);
}

#[test]
fn new_devices_get_what_paces_bbr_where_that_is_the_default() {
    for (control, queue, source) in
        [("bbr", "fq", "kernel: net/ipv4/tcp_bbr.c; tc-fq(8)"), ("cubic", "fq_codel", "000 Table III")]
    {
        let tree = dtn();
        tree.put("proc/sys/net/ipv4/tcp_congestion_control", control);
        tree.put("proc/sys/net/core/default_qdisc", "pfifo_fast");
        let probes = dtn_probes();
        let report = tree.report(&probes, &[]);
        let card = finding(&report, "ens1f0 queue").wanted.clone();
        assert_eq!(card, Some(format!("mq of {queue}")));
        assert_eq!(finding(&report, "net.core.default_qdisc").wanted.as_deref(), Some(queue));
        apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
        assert_eq!(tree.roots().sysctl_value("net.core.default_qdisc").as_deref(), Ok(queue));
        let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
        assert!(text.contains(&format!("# {source}\nnet.core.default_qdisc = {queue}\n")), "{text}");
    }
}

/// As a trial (`--prove`) leaves the finding of a congestion control that helped.
fn with_proven_default(mut report: Report) -> Report {
    let found = report.findings.iter_mut().find(|finding| finding.name == DEFAULT).expect("a default");
    (found.verdict, found.wanted) = (Verdict::Change, Some("cubic".into()));
    found.remedy = Some(Remedy { apply: "do".into(), undo: "undo".into(), by_apply: true });
    report
}

/// The kernel allows to everybody for good what was the default once (net/ipv4/tcp_cong.c).
#[test]
fn who_may_choose_which_congestion_control_is_as_it_was_after_another_default() {
    let tree = dtn();
    let list = tree.roots().sysctl("net.ipv4.tcp_allowed_congestion_control");
    let before = tree.files();
    let probes = Probes::default();
    let change = || {
        let report = with_proven_default(tree.report(&probes, &[]));
        apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply")
    };
    change();
    fs::write(&list, "reno bbr cubic\n").expect("what the kernel does then");
    // What is there after the second is taken for ours, as after the first on a real kernel.
    let done = change();
    assert_eq!(
        value(&done, "net.ipv4.tcp_allowed_congestion_control").now,
        "= reno bbr cubic (was reno bbr)"
    );
    let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
    assert!(text.contains("tcp_congestion_control = cubic") && !text.contains("tcp_allowed"), "{text}");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
    assert_eq!(tree.files(), before);
    // The default first: putting it back allows it.
    let place = |what: &str| done.iter().position(|done| done.what == what).expect("it was put back");
    assert!(place(DEFAULT) < place("net.ipv4.tcp_allowed_congestion_control"), "{done:?}");
}

#[test]
fn whom_somebody_else_has_allowed_since_stays_allowed() {
    let tree = dtn();
    let probes = Probes::default();
    let report = with_proven_default(tree.report(&probes, &[]));
    apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply");
    const ALLOWED: &str = "net.ipv4.tcp_allowed_congestion_control";
    for (list, is_theirs) in [("reno bbr cubic htcp", true), ("reno cubic", true), ("cubic bbr reno", false)]
    {
        fs::write(tree.roots().sysctl(ALLOWED), list).expect("write");
        let record = fs::read(tree.state().join("doctor.json")).expect("the record");
        let done = undo(&tree.roots(), &tree.state()).expect("undo");
        assert_eq!(value(&done, ALLOWED).trouble.is_some(), is_theirs, "{list}: {done:?}");
        let left = if is_theirs { list } else { "reno bbr" };
        assert_eq!(tree.roots().sysctl_value(ALLOWED).as_deref(), Ok(left));
        fs::write(tree.state().join("doctor.json"), record).expect("write");
    }
}

/// It would write its settings again when it lets go of the profile, and rings and governor would stay.
#[test]
fn while_tuned_has_the_profile_active_undo_says_what_to_do_first_and_changes_nothing() {
    for (before, first) in
        [("virtual-guest\n", "`tuned-adm profile virtual-guest` first"), ("", "`tuned-adm off` first")]
    {
        let tree = dtn();
        tree.put("etc/tuned/active_profile", before.trim());
        let untouched = tree.files();
        let probes = dtn_probes();
        apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
        tree.put("etc/tuned/active_profile", "thalweg-dtn");
        // Applied again, what was active at first stays recorded.
        tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
        apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply again");
        let applied = tree.files();
        let refused = undo(&tree.roots(), &tree.state()).expect_err("refused");
        assert!(refused.to_string().contains(first), "{refused}");
        assert_eq!(tree.files(), applied);
        tree.put("etc/tuned/active_profile", before.trim());
        let done = undo(&tree.roots(), &tree.state()).expect("undo");
        assert!(done.iter().all(|done| done.trouble.is_none()), "{done:?}");
        assert_eq!(tree.files(), untouched);
    }
}

/// Settings of TCP as nobody wants them, with a larger maximum than wanted.
const WRONG: [(&str, &str); 7] = [
    ("tcp_rmem", "8192 65536 2147483647"),
    ("tcp_wmem", "4096 16384 4194304"),
    ("tcp_congestion_control", "reno"),
    ("tcp_mtu_probing", "0"),
    ("tcp_window_scaling", "0"),
    ("tcp_sack", "0"),
    ("tcp_moderate_rcvbuf", "0"),
];

/// What the kernel makes of what is written: in a network namespace of its own, whose settings are all that is changed.
#[test]
fn what_a_kernel_took_is_undone_exactly() {
    let skipped = |why: &str| println!("skipped: settings of a network namespace: {why}");
    if thalweg_sys::usage::effective_uid() != 0 {
        return skipped("they need root");
    }
    let space = match NetworkNamespace::new() {
        Ok(space) => space,
        Err(error) => return skipped(&error.to_string()),
    };
    let looks = space.inside(|| {
        let machine = Machine::of(&Roots::below(Path::new("/")));
        if machine.is_first_namespace || !machine.is_privileged {
            return Ok(None);
        }
        apply_and_undo_here().map(Some)
    });
    let Some(looks) = looks.expect("work inside") else {
        return skipped("this one is shown as the kernel's first, or none may be changed");
    };
    // Modules that others load add to it.
    let [before, between, after] = looks.map(|mut settings| {
        settings.remove("tcp_allowed_congestion_control");
        settings
    });
    assert_eq!(between["tcp_rmem"], "8192 67108864 2147483647");
    for (name, value) in WRONG.iter().filter(|(name, _)| *name != "tcp_congestion_control") {
        assert_ne!(&between[*name], value, "{name}");
    }
    assert_eq!(after, before);
}

/// In a kernel that nobody else uses also what it has only once, and who may choose what.
#[test]
fn what_a_kernel_of_its_own_took_is_undone_exactly() {
    let is_guest = fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("User Mode Linux"));
    if std::env::var_os("THALWEG_GUEST").is_none() || !is_guest {
        println!("skipped: settings of a kernel: `cargo xtask ktls` has one to change");
        return;
    }
    let [before, between, after] = apply_and_undo_here().expect("settings");
    assert_eq!(before["tcp_allowed_congestion_control"], "reno");
    assert_eq!(between["tcp_allowed_congestion_control"], "reno cubic");
    assert_eq!(between["tcp_congestion_control"], "cubic");
    assert_eq!(between["rmem_max"], "2147483647");
    assert_eq!(between["default_qdisc"], "fq_codel");
    assert_eq!(after, before);
}

/// Changes the settings that the calling thread is shown, as if cubic had been proved to help, and takes that back:
/// what they were before, between and after.
fn apply_and_undo_here() -> std::io::Result<[BTreeMap<String, String>; 3]> {
    let tree = Tree::with(&[]);
    std::os::unix::fs::symlink("/proc", tree.0.path().join("proc"))?;
    let roots = tree.roots();
    for (name, value) in WRONG {
        fs::write(roots.sysctl(&format!("net.ipv4.{name}")), value)?;
    }
    let allowed = "net.ipv4.tcp_allowed_congestion_control";
    if Machine::of(&roots).is_first_namespace {
        fs::write(roots.sysctl(allowed), "reno")?;
        fs::write(roots.sysctl("net.core.default_qdisc"), "pfifo_fast")?;
    }
    let probes = Probes::default();
    let mut report = examine(&roots, &probes, &[]);
    // In a namespace nothing else can be made the default.
    let is_allowed =
        roots.sysctl_value(allowed).is_ok_and(|list| list.split(' ').any(|name| name == "cubic"));
    if is_allowed || Machine::of(&roots).is_first_namespace {
        report = with_proven_default(report);
    }
    let before = settings_here();
    let applied = apply(&roots, &report, &probes, &tree.state()).expect("apply");
    let between = settings_here();
    let undone = undo(&roots, &tree.state()).expect("undo");
    assert!(applied.iter().chain(&undone).all(|done| done.trouble.is_none()), "{applied:?} {undone:?}");
    assert!(!tree.0.path().join("etc").exists());
    Ok([before, between, settings_here()])
}

/// Those of the calling thread's network namespace, with those of the kernel that it shows.
fn settings_here() -> BTreeMap<String, String> {
    let list = |directory: &str| fs::read_dir(directory).expect("settings").flatten();
    let tcp =
        list("/proc/sys/net/ipv4").filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"tcp_"));
    list("/proc/sys/net/core")
        .chain(tcp)
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, fs::read(entry.path()).ok()?)))
        .filter(|(name, _)| !name.contains("_available_"))
        .map(|(name, bytes)| (name, roots::spaced(&String::from_utf8_lossy(&bytes))))
        .collect()
}

/// It could not be put back: who made it wants the file elsewhere, or not at all.
#[test]
fn a_link_in_the_place_of_a_file_is_refused_before_anything_is_changed() {
    let tree = dtn();
    let own = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    fs::create_dir_all(own.parent().expect("a directory")).expect("make it");
    std::os::unix::fs::symlink("/dev/null", &own).expect("make a link");
    let probes = dtn_probes();
    let before = tree.files();
    let refused =
        apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect_err("refused");
    assert!(refused.to_string().contains("is there and no plain file"), "{refused}");
    assert_eq!(tree.files(), before);
    assert!(undo(&tree.roots(), &tree.state()).expect("undo").is_empty());
    assert_eq!(fs::read_link(&own).expect("still a link"), std::path::Path::new("/dev/null"));
}

#[test]
fn what_somebody_else_changed_since_is_left_and_told() {
    let tree = dtn();
    let probes = Probes::default();
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    tree.put("proc/sys/net/core/rmem_max", "77777777");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    let told = value(&done, "net.core.rmem_max");
    assert!(told.trouble.is_some() && told.now.contains("212992"), "{told:?}");
    let now = |path: &str| fs::read_to_string(tree.0.path().join(path)).expect("read").trim().to_owned();
    assert_eq!(now("proc/sys/net/core/rmem_max"), "77777777");
    assert_eq!(now("proc/sys/net/core/wmem_max"), "212992");
}

#[test]
fn what_somebody_changed_between_two_applies_is_left_and_told() {
    let tree = dtn();
    let before = tree.files();
    let probes = Probes::default();
    let change = || apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    change();
    let theirs = "4096 67108864 2147483647";
    tree.put("proc/sys/net/ipv4/tcp_rmem", theirs);
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    let done = change();
    let told = value(&done, "net.ipv4.tcp_rmem");
    assert!(told.trouble.is_none() && told.now.contains("somebody changed it since"), "{told:?}");
    let text = fs::read_to_string(tree.0.path().join("etc/sysctl.d/90-thalweg.conf")).expect("the file");
    assert!(text.contains("net.ipv4.tcp_rmem = 4096 67108864 1073741824\n"), "{text}");
    assert!(text.contains("net.ipv4.tcp_mtu_probing = 1\n"), "{text}");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    let told = value(&done, "net.ipv4.tcp_rmem");
    assert!(told.trouble.is_some() && told.now.contains("4096 131072 6291456"), "{told:?}");
    assert_eq!(tree.roots().sysctl_value("net.ipv4.tcp_rmem").as_deref(), Ok(theirs));
    tree.put("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456");
    assert_eq!(tree.files(), before);
}

#[test]
fn a_file_that_somebody_edited_between_two_applies_is_left_and_told() {
    let tree = dtn();
    let probes = Probes::default();
    let change = || apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    change();
    let own = tree.0.path().join("etc/sysctl.d/90-thalweg.conf");
    tree.put("etc/sysctl.d/90-thalweg.conf", "# an administrator's");
    tree.put("proc/sys/net/ipv4/tcp_mtu_probing", "0");
    for done in [change(), undo(&tree.roots(), &tree.state()).expect("undo")] {
        let told = value(&done, &own.display().to_string());
        assert!(told.trouble.as_ref().is_some_and(|why| why.contains("somebody changed it")), "{told:?}");
        assert_eq!(fs::read_to_string(&own).expect("the file"), "# an administrator's\n");
    }
}

/// The one that could not be put back stays recorded, and may be changed by somebody before the next try.
#[test]
fn what_somebody_changed_after_half_an_undo_is_left_and_told() {
    let tree = dtn();
    let probes = Probes::default();
    apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    let path = tree.roots().sysctl("net.core.wmem_max");
    fs::remove_file(&path).expect("take it away");
    fs::create_dir(&path).expect("what cannot be read as a file");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert_eq!(value(&done, "net.core.wmem_max").now, "not put back");
    fs::remove_dir(&path).expect("take it away");
    tree.put("proc/sys/net/core/wmem_max", "77777777");
    let done = undo(&tree.roots(), &tree.state()).expect("undo");
    assert!(done.len() == 1 && value(&done, "net.core.wmem_max").trouble.is_some(), "{done:?}");
    assert_eq!(tree.roots().sysctl_value("net.core.wmem_max").as_deref(), Ok("77777777"));
}

/// As a trial (`--prove`) leaves what it could not try.
#[test]
fn what_is_not_proved_is_in_no_file_and_the_governor_needs_the_profile_alone() {
    let tree = dtn();
    let probes = dtn_probes();
    let before = tree.files();
    let change = || {
        let mut report = tree.report(&probes, &[]);
        for found in report.findings.iter_mut().filter(|found| found.subject == Subject::Network) {
            if found.verdict == Verdict::Change {
                found.verdict = Verdict::Unproved;
            }
            found.remedy.iter_mut().for_each(|remedy| remedy.by_apply = false);
        }
        apply(&tree.roots(), &report, &probes, &tree.state()).expect("apply")
    };
    let done = change();
    let profile = tree.0.path().join("etc/tuned/thalweg-dtn/tuned.conf");
    assert!(done.len() == 1 && done[0].trouble.is_none(), "{done:?}");
    assert!(has_profile(&tree.roots(), &done));
    let text = fs::read_to_string(&profile).expect("the profile");
    assert!(text.contains("include=throughput-performance") && !text.contains("ring"), "{text}");
    assert!(!tree.0.path().join("etc/sysctl.d").exists());
    undo(&tree.roots(), &tree.state()).expect("undo");
    assert_eq!(tree.files(), before);
    tree.put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
    assert!(change().is_empty() && !tree.0.path().join("etc").exists());
}

/// By the rules of sysctl.d(5): the order of names, whichever directory; of one name the first directory alone.
#[test]
fn files_that_set_something_else_at_the_next_start_are_told() {
    let tree = dtn();
    for (path, text) in [
        ("usr/lib/sysctl.d/50-early.conf", "net.core.netdev_max_backlog = 1"),
        ("usr/lib/sysctl.d/95-masked.conf", "net.ipv4.tcp_rmem = 1 2 3"),
        ("etc/sysctl.d/95-masked.conf", "# nothing"),
        ("run/sysctl.d/95-first.conf", "net.core.rmem_max = 1\nnet.ipv4.tcp_wmem = 4096 67108864 1073741824"),
        ("etc/sysctl.conf", "net/core/rmem_max = 212992"),
        ("usr/lib/sysctl.d/99-note.txt", "net.core.wmem_max = 1"),
    ] {
        tree.put(path, text);
    }
    let link = tree.0.path().join("etc/sysctl.d/99-sysctl.conf");
    std::os::unix::fs::symlink("../sysctl.conf", &link).expect("make a link");
    let probes = Probes::default();
    let done = apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).expect("apply");
    let told: Vec<&Done> = done.iter().filter(|done| done.trouble.is_some()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].what, link.display().to_string());
    assert_eq!(told[0].now, "sets net.core.rmem_max = 212992 at the next start");
    assert!(told[0].trouble.as_ref().is_some_and(|why| why.contains("read after 90-thalweg.conf")));
}

#[test]
fn a_damaged_record_is_told_and_nothing_is_changed() {
    let tree = dtn();
    tree.put("state/doctor.json", "{");
    let before = tree.files();
    let probes = Probes::default();
    assert!(apply(&tree.roots(), &tree.report(&probes, &[]), &probes, &tree.state()).is_err());
    assert!(undo(&tree.roots(), &tree.state()).is_err());
    assert_eq!(tree.files(), before);
}
