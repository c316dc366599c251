//! Machines made of files: nothing of the machine that runs the tests is read or changed.

mod changes;

mod elsewhere;

mod findings;

mod kernel;

mod machines;

mod theirs;

use super::change::{Done, apply, has_profile, out_of_reach, undo};
use super::congestion::DEFAULT;
use super::measure::{Card, DiskSpeed, Probes, Way};
use super::path_mtu::PathMtu;
use super::queue::Queue;
use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use thalweg_sys::card::{Offload, Pause, Rings};
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
    ("proc/sys/net/ipv4/tcp_slow_start_after_idle", "1"),
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
        ("proc/net/softnet_stat", "0003c34f 00000011 00000002\n00018a21 00000001 00000000".into()),
        ("proc/stat", "cpu  100 0 100 9800 0 0 0 0 0 0".into()),
        ("proc/irq/77/smp_affinity_list", "0".into()),
        ("proc/irq/78/smp_affinity_list", "1".into()),
        ("sys/class/net/ens1f0/speed", "100000".into()),
        ("sys/class/net/ens1f0/mtu", "1500".into()),
        ("sys/class/net/ens1f0/statistics/rx_missed_errors", "1200".into()),
        ("sys/class/net/ens1f0/device/current_link_speed", "8.0 GT/s PCIe".into()),
        ("sys/class/net/ens1f0/device/current_link_width", "8".into()),
        ("sys/class/net/ens1f0/device/max_link_speed", "16.0 GT/s PCIe".into()),
        ("sys/class/net/ens1f0/device/max_link_width", "16".into()),
        ("sys/class/net/ens1f0/device/numa_node", "1".into()),
        ("sys/class/net/ens1f0/device/msi_irqs/77", "msix".into()),
        ("sys/class/net/ens1f0/device/msi_irqs/78", "msix".into()),
        ("sys/class/net/ens1f0/queues/rx-0/rps_cpus", "0".into()),
        ("sys/class/net/ens1f0/queues/rx-1/rps_cpus", "0".into()),
        ("sys/class/net/veth0/speed", "10000".into()),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids".into()),
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
    let pause = Pause { negotiated: false, receive: false, send: false };
    let card =
        Card { rings: Ok(rings), offloads, pause: Ok(pause), mtu_max_bytes: Ok(9702), queue: Ok(queue) };
    let speed = DiskSpeed {
        write_one_bytes_per_s: 4e9,
        write_bytes_per_s: 5e9,
        write_time: Duration::from_secs(1),
        read_bytes_per_s: Some(14e9),
        read_time: Duration::from_secs(1),
        read_latency: Some(Duration::from_micros(80)),
        sync_latency: Duration::from_micros(30),
    };
    Probes {
        cards: BTreeMap::from([("ens1f0".into(), card)]),
        core_bytes_per_s: Some(Ok(2e9)),
        testbed: Some(Ok(())),
        disks: BTreeMap::from([(PathBuf::from("/data"), Ok(speed))]),
        way: Some(Ok(Way {
            to: "far:443".into(),
            rtt: Duration::from_millis(74),
            mtu_bytes: 9000,
            tcp_packet_bytes: 9000,
            path_mtu: Ok(PathMtu { arrived_bytes: Some(9000), ..PathMtu::default() }),
            standing_still: 0,
        })),
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

fn value<'a>(done: &'a [Done], what: &str) -> &'a Done {
    done.iter().find(|done| done.what == what).unwrap_or_else(|| panic!("nothing about {what}"))
}

/// As a trial (`--prove`) leaves the finding of a congestion control that helped.
fn with_proven_default(mut report: Report) -> Report {
    let found = report.findings.iter_mut().find(|finding| finding.name == DEFAULT).expect("a default");
    (found.verdict, found.wanted) = (Verdict::Change, Some("cubic".into()));
    found.remedy = Some(Remedy { apply: "do".into(), undo: "undo".into(), by_apply: true });
    report
}
