//! Guests, containers, limited processes and machines of which nothing is seen.

use super::*;

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
        let tree = Tree::with(&[
            ("sys/class/net/ens1f0/speed", "100000"),
            ("sys/class/net/ens1f0/device/numa_node", "0"),
            ("sys/fs/cgroup/cpu.max", quota),
        ]);
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
        ("proc/sys/net/ipv4/tcp_window_scaling", "0"),
        ("proc/self/status", "CapEff:\t00000000a80425fb"),
        (
            "proc/self/mountinfo",
            "900 800 0:90 / / rw,relatime - overlay overlay rw,lowerdir=/a\n901 900 0:5 /sys /proc/sys ro,nosuid - proc proc rw",
        ),
        ("proc/self/cgroup", "0::/"),
        ("sys/fs/cgroup/cpu.max", "150000 100000"),
        ("sys/fs/cgroup/memory.max", "2147483648"),
        ("sys/class/net/eth0/mtu", "1500"),
        ("sys/class/net/eth0/speed", "10000"),
    ]);
    let report = tree.report(&Probes::default(), &["/data"]);
    assert!(
        finding(&report, "container").current.as_deref().is_some_and(|name| name.contains("layered root"))
    );
    // What its end of a pair of devices in memory says of speed is nobody's line.
    let line = finding(&report, "eth0 line");
    assert!(line.verdict == Verdict::Unseen && line.why.contains("no card"), "{line:?}");
    let buffer = finding(&report, "net.ipv4.tcp_rmem");
    assert!(buffer.verdict == Verdict::Depends && buffer.remedy.is_none(), "{buffer:?}");
    assert!(buffer.scope.as_deref().is_some_and(|scope| scope.contains("--sysctl")));
    let backlog = finding(&report, "net.core.netdev_max_backlog");
    assert!(backlog.verdict == Verdict::Unseen && backlog.why.contains("is not there"), "{backlog:?}");
    assert_eq!(finding(&report, "CPUs of the control group").current.as_deref(), Some("1.50"));
    assert_eq!(finding(&report, "memory of the control group").current.as_deref(), Some("2048 MiB"));
    assert!(apply(&tree.roots(), &report, &Probes::default(), &tree.state()).expect("apply").is_empty());
    let left = out_of_reach(&report);
    assert!(left.len() == 1 && left[0].what == "net.ipv4.tcp_window_scaling", "{left:?}");
    assert!(left[0].trouble.as_ref().is_some_and(|why| why.contains("--sysctl")), "{left:?}");
    assert!(!tree.0.path().join("etc").exists());
}

#[test]
fn a_container_is_known_by_its_marks_and_a_machine_that_has_a_root_of_layers_is_none() {
    let layers = ("proc/self/mountinfo", "900 800 0:90 / / rw,relatime - overlay overlay rw,lowerdir=/a");
    let kept_by = |files: &[(&str, &str)]| {
        let report = Tree::with(files).report(&Probes::default(), &[]);
        finding(&report, "container").current.clone().expect("it is told")
    };
    assert_eq!(kept_by(&[]), "none");
    assert_eq!(kept_by(&[(".dockerenv", "")]), "docker");
    assert_eq!(kept_by(&[("proc/1/environ", "PATH=/bin\0container=lxc\0TERM=dumb\0")]), "lxc");
    assert_eq!(kept_by(&[("proc/1/environ", "PATH=/bin\0incontainer=lxc\0")]), "none");
    assert!(kept_by(&[layers]).contains("layered root"));
    // As a live system: the kernel's own processes are seen in no container with processes of its own.
    assert_eq!(kept_by(&[layers, ("proc/2/comm", "kthreadd")]), "none");
    assert_eq!(kept_by(&[layers, ("proc/2/comm", "kthreadd"), (".dockerenv", "")]), "docker");
    // A pod that sees the processes of its host: its own group has the mark, or is the top of what it sees.
    let on_host = |first: &str, own: &str| {
        kept_by(&[layers, ("proc/2/comm", "kthreadd"), ("proc/1/cgroup", first), ("proc/self/cgroup", own)])
    };
    let pod =
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1.slice/cri-containerd-2.scope";
    assert_eq!(on_host("0::/init.scope", pod), "kubernetes");
    assert_eq!(on_host("0::/init.scope", "0::/system.slice/cri-containerd-2.scope"), "containerd");
    assert_eq!(on_host("4:memory:/init.scope\n0::/", "4:memory:/docker/1f\n0::/"), "docker");
    assert!(on_host("0::/../../../init.scope", "0::/").contains("layered root"));
    // What keeps containers is in none, nor is a program of that name.
    for own in ["/system.slice/docker.service", "/user.slice/user-1000.slice/app-docker.scope"] {
        assert_eq!(on_host("0::/init.scope", &format!("0::{own}")), "none", "{own}");
    }
}

/// Who starts a container may mount those of its network so that they can be written.
#[test]
fn settings_of_the_network_may_be_changed_where_their_own_mount_allows_it() {
    let remedies = |mounts: &str| {
        let tree = Tree::with(STOCK);
        tree.put("proc/self/mountinfo", mounts);
        tree.put("proc/sys/net/ipv4/tcp_window_scaling", "0");
        let report = tree.report(&Probes::default(), &[]);
        ["net.ipv4.tcp_window_scaling", "net.core.rmem_max"].map(|key| finding(&report, key).remedy.is_some())
    };
    let read_only = "9 8 0:5 / /proc rw - proc proc rw\n10 9 0:5 /sys /proc/sys ro,nosuid - proc proc rw";
    assert_eq!(remedies("9 8 0:5 / /proc rw - proc proc rw"), [true, true]);
    assert_eq!(remedies(read_only), [false, false]);
    let net = format!("{read_only}\n11 10 0:5 /sys/net /proc/sys/net rw,nosuid - proc proc rw");
    assert_eq!(remedies(&net), [true, false]);
    // What is mounted over that again hides it.
    assert_eq!(
        remedies(&format!("{net}\n12 11 0:5 /sys/net /proc/sys/net ro - proc proc rw")),
        [false, false]
    );
}

/// What limits a job, a user or a unit around it does not stand at its own group.
#[test]
fn of_a_group_and_those_around_it_the_tightest_limit_is_told() {
    let told = |files: &[(&str, &str)]| {
        let report = Tree::with(files).report(&Probes::default(), &[]);
        let current = |name: &str| finding(&report, name).current.clone().unwrap_or("unseen".into());
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
    assert_eq!(told(&container), are("1.50", "unseen"));
    let empty = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
    assert_eq!(told(&[container.as_slice(), &[empty]].concat()), are("1.50", "no limit"));
    // A daemon that is not told how much it may have goes by the same.
    let bytes = |files: &[(&str, &str)]| group_memory_bytes(&Tree::with(files).roots());
    assert_eq!((bytes(&around), bytes(&version_1), bytes(&container)), (Some(1 << 30), Some(2 << 30), None));
}

#[test]
fn what_slows_a_group_its_disks_and_its_tasks_is_told_too() {
    let told = |files: &[(&str, &str)]| {
        let report = Tree::with(files).report(&Probes::default(), &[]);
        ["memory that slows the control group", "I/O of the control group", "tasks of the control group"]
            .map(|name| finding(&report, name).current.clone().unwrap_or("unseen".into()))
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
    assert_eq!(told(&version_1), ["unseen", "8:0 riops=7 wbps=1000", "40"]);
    assert_eq!(told(&[]), ["unseen"; 3]);
    assert_eq!(told(&[("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids")]), ["no limit"; 3]);
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
