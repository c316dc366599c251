//! What a process may use: files, locked memory, control groups, CPUs as heat leaves them, counters of energy,
//! abilities of the kernel.

use super::energy;
use super::finding::{Finding, Subject};
use super::heat;
use super::machine::Machine;
use super::measure::Probes;
use super::roots::{Roots, names, number, read};
use super::wanted::{LOCKED_BYTES, OPEN_FILES};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Everything about it.
pub fn findings(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Finding> {
    let mut found = Vec::new();
    match read(&roots.proc.join("self/limits")) {
        Ok(text) => {
            found.extend(limit(
                &text,
                "Max open files",
                "open files",
                OPEN_FILES,
                "nofile",
                "eight files for each entry in flight; thalweg raises the soft limit to the hard one itself",
            ));
            found.extend(limit(
                &text,
                "Max locked memory",
                "locked memory",
                LOCKED_BYTES,
                "memlock",
                "buffers that are registered with the kernel are locked",
            ));
        }
        Err(why) => found.push(Finding::unseen(Subject::Limits, "limits of a process", why)),
    }
    found.extend(groups(roots));
    found.push(heat::finding(roots, machine));
    found.push(energy::finding(roots, machine));
    found.push(tried(
        "io_uring",
        probes.io_uring.as_ref(),
        "made one",
        "keeps several writes in flight for each thread; without it threads do",
    ));
    if let Ok(disabled) = roots.sysctl_value("kernel.io_uring_disabled") {
        let scope = machine.reach(super::wanted::Reach::Kernel).unwrap_or_else(|why| why);
        found.push(
            Finding::told(
                Subject::Limits,
                "kernel.io_uring_disabled",
                &disabled,
                "1: for all but a group; 2: for everybody. A distribution or a site may have turned it off on purpose; \
                 threads keep as many writes in flight then",
            )
            .depends_unless(disabled == "0", "0", "io_uring_setup(2)")
            .scoped(scope)
            .remedied(
                "sysctl -w kernel.io_uring_disabled=0, if the site's rules allow it",
                format!("sysctl -w kernel.io_uring_disabled={disabled}"),
            ),
        );
    }
    found.push(tried(
        "kernel TLS",
        probes.kernel_tls.as_ref(),
        "a connection took it",
        "of use to other programs: thalweg seals its frames itself, which costs less (000 Fig. 5 ran without it as well)",
    ));
    found
}

fn tried(name: &str, outcome: Option<&super::measure::Tried<()>>, there: &str, why: &str) -> Finding {
    match outcome {
        Some(Ok(())) => Finding::told(Subject::Limits, name, format!("yes ({there})"), why),
        Some(Err(cause)) => Finding::told(Subject::Limits, name, format!("no ({cause})"), why),
        None => Finding::unseen(Subject::Limits, name, "not tried"),
    }
}

/// The hard limit of a line of `/proc/self/limits`: columns are two spaces or more apart.
fn limit(text: &str, label: &str, name: &str, least: u64, item: &str, why: &str) -> Option<Finding> {
    let rest = text.lines().find_map(|line| line.strip_prefix(label))?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [soft, hard, ..] = words[..] else { return None };
    let is_good = hard == "unlimited" || hard.parse::<u64>().is_ok_and(|hard| hard >= least);
    Some(
        Finding::told(Subject::Limits, name, format!("{soft}, may be raised to {hard}"), why)
            .wanted(format!("at least {least}"), is_good, "setrlimit(2); thalweg's own need")
            .scoped("processes started from this one; a service has its own in its unit")
            .remedied(
                format!(
                    "raise the hard limit `{item}` in /etc/security/limits.d, or Limit{} of the unit",
                    item.to_uppercase()
                ),
                format!("set it back to {hard}"),
            ),
    )
}

/// What the control group and those above it allow: each may limit (a job's, a user's), and the tightest one does.
fn groups(roots: &Roots) -> Vec<Finding> {
    let tightest = |files: &[(&str, &str)]| tightest(roots, files);
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    // `controller`: the one of version 1; without a value there is no limit only where it, or version 2, is shown.
    let said = |name: &str, controller: &str, value: Option<String>, why: &str| {
        let found = match value {
            Some(value) => Finding::told(Subject::Limits, name, value, why),
            None if is_shown(roots, controller) => Finding::told(Subject::Limits, name, "no limit", why),
            None => {
                let place = roots.sys.join("fs/cgroup");
                let why = format!("{} shows no control group of {controller}", place.display());
                Finding::unseen(Subject::Limits, name, why)
            }
        };
        found.scoped("whoever started this: container, job, unit")
    };
    let taken = "of the control group or one around it; what is above it is taken away";
    vec![
        said("CPUs of the control group", "cpu", cpu_quota(roots).map(|cpus| format!("{cpus:.2}")), taken),
        said("memory of the control group", "memory", group_memory_bytes(roots).map(mib), taken),
        said(
            "memory that slows the control group",
            "memory",
            tightest(&[("", "memory.high")]).map(mib),
            "of it or one around it (memory.high): above it processes are held up, and page cache is taken back",
        ),
        said(
            "I/O of the control group",
            "blkio",
            io_limits(roots),
            "of it or one around it (io.max): bytes (bps) and requests (iops) a second, for each device by its numbers",
        ),
        said(
            "tasks of the control group",
            "pids",
            tightest(&[("", "pids.max"), ("pids", "pids.max")]).map(|tasks| tasks.to_string()),
            "of it or one around it (pids.max): threads count, and above it none can be started",
        ),
    ]
}

/// Whether control groups are shown in which a controller would limit: those of version 2, or its own of version 1. A
/// directory without any file is where none is mounted.
fn is_shown(roots: &Roots, controller: &str) -> bool {
    let top = roots.sys.join("fs/cgroup");
    let is_version_2 = read(&top.join("cgroup.controllers")).is_ok();
    is_version_2 || groups_of(roots, controller).last().is_some_and(|top| !names(top).is_empty())
}

/// Memory that the control group and those above it may have: the tightest limit. `None` if there is none.
pub fn group_memory_bytes(roots: &Roots) -> Option<u64> {
    tightest(roots, &[("", "memory.max"), ("memory", "memory.limit_in_bytes")])
}

/// Memory of this machine, as its kernel tells. `None` if that cannot be read.
pub fn machine_memory_bytes(roots: &Roots) -> Option<u64> {
    let text = read(&roots.proc.join("meminfo")).ok()?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

/// The least number that these files, each of a controller, have in the control group and in those above it.
fn tightest(roots: &Roots, files: &[(&str, &str)]) -> Option<u64> {
    let numbers = files.iter().flat_map(|(controller, file)| {
        groups_of(roots, controller).into_iter().filter_map(move |group| number::<u64>(&group.join(file)))
    });
    // Version 1 says "no limit" with a number near the largest.
    numbers.filter(|number| *number < 1 << 62).min()
}

/// CPUs at once by the quota of the control group and of those above it: the tightest.
pub fn cpu_quota(roots: &Roots) -> Option<f64> {
    let version_2 = groups_of(roots, "").into_iter().filter_map(|group| {
        let text = read(&group.join("cpu.max")).ok()?;
        let (quota, period) = text.split_once(' ')?;
        share(quota.parse().ok()?, period.parse().ok()?)
    });
    let version_1 = groups_of(roots, "cpu").into_iter().filter_map(|group| {
        share(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
    });
    version_2.chain(version_1).reduce(f64::min)
}

fn share(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

/// The files of version 1 whose lines are what `io.max` has in one.
const IO_V1: [(&str, &str); 4] = [
    ("rbps", "blkio.throttle.read_bps_device"),
    ("wbps", "blkio.throttle.write_bps_device"),
    ("riops", "blkio.throttle.read_iops_device"),
    ("wiops", "blkio.throttle.write_iops_device"),
];

/// The tightest of each kind for each device, as `io.max` has them.
fn io_limits(roots: &Roots) -> Option<String> {
    let mut tightest: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    // Without a limit it is `max`, which is no number.
    let mut limit = |device: &str, kind: &str, number: &str| {
        if let Ok(number) = number.parse() {
            let least = tightest.entry(device.into()).or_default().entry(kind.into()).or_insert(number);
            *least = number.min(*least);
        }
    };
    for group in groups_of(roots, "") {
        for line in read(&group.join("io.max")).unwrap_or_default().lines() {
            let Some((device, limits)) = line.split_once(' ') else { continue };
            for (kind, number) in limits.split_whitespace().filter_map(|word| word.split_once('=')) {
                limit(device, kind, number);
            }
        }
    }
    for group in groups_of(roots, "blkio") {
        for (kind, file) in IO_V1 {
            let text = read(&group.join(file)).unwrap_or_default();
            for (device, number) in text.lines().filter_map(|line| line.split_once(' ')) {
                limit(device, kind, number.trim());
            }
        }
    }
    let devices = tightest.iter().map(|(device, kinds)| {
        let kinds = kinds.iter().map(|(kind, number)| format!(" {kind}={number}"));
        format!("{device}{}", kinds.collect::<String>())
    });
    (!tightest.is_empty()).then(|| devices.collect::<Vec<_>>().join(", "))
}

/// Directories of the group that this process is in, by `controller` (none is version 2), and of all above it. A
/// container with a namespace of groups sees its own as the root; others see the host's path, of which only the root is
/// there.
fn groups_of(roots: &Roots, controller: &str) -> Vec<PathBuf> {
    let lines = read(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let line = lines.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_it = controllers.split(',').any(|one| one == controller);
        is_it.then_some((controllers, path.trim_start_matches('/')))
    });
    let (together, path) = line.unwrap_or((controller, ""));
    // Controllers of version 1 that share a hierarchy have a directory of all their names, and mostly links of each.
    let tops = [together, controller].map(|name| roots.sys.join("fs/cgroup").join(name));
    let Some(top) = tops.into_iter().find(|top| top.is_dir()) else { return Vec::new() };
    let group = top.join(path);
    group.ancestors().take_while(|group| group.starts_with(&top)).map(Path::to_owned).collect()
}
