//! What a process may use: files, locked memory, control groups, abilities of the kernel.

use super::finding::{Finding, Subject};
use super::machine::Machine;
use super::measure::Probes;
use super::roots::{Roots, number, read};
use super::wanted::{LOCKED_BYTES, OPEN_FILES};
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
                "1: for all but a group; 2: for everybody",
            )
            .wanted("0", disabled == "0", "io_uring_setup(2)")
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
    let lines = read(&roots.proc.join("self/cgroup")).unwrap_or_default();
    let of = |controller: &str| group_and_above(roots, &lines, controller).into_iter();
    let cpu_v2 = of("").filter_map(|group| {
        let text = read(&group.join("cpu.max")).ok()?;
        let (quota, period) = text.split_once(' ')?;
        share(quota.parse().ok()?, period.parse().ok()?)
    });
    let cpu_v1 = of("cpu").filter_map(|group| {
        share(number(&group.join("cpu.cfs_quota_us"))?, number(&group.join("cpu.cfs_period_us"))?)
    });
    let cpu = cpu_v2.chain(cpu_v1).reduce(f64::min);
    let memory_v2 = of("").filter_map(|group| number::<u64>(&group.join("memory.max")));
    let memory_v1 = of("memory").filter_map(|group| number::<u64>(&group.join("memory.limit_in_bytes")));
    // Version 1 says "no limit" with a number near the largest.
    let memory = memory_v2.chain(memory_v1).filter(|bytes| *bytes < 1 << 62).min();
    let said = |name: &str, value: Option<String>| {
        let current = value.unwrap_or_else(|| "no limit".into());
        let why = "of the control group or one around it; what is above it is taken away";
        Finding::told(Subject::Limits, name, current, why)
            .scoped("whoever started this: container, job, unit")
    };
    vec![
        said("CPUs of the control group", cpu.map(|cpus| format!("{cpus:.2}"))),
        said("memory of the control group", memory.map(|bytes| format!("{} MiB", bytes >> 20))),
    ]
}

/// Directories of the group that this process is in, by `controller` (none is version 2), and of all above it. A
/// container with a namespace of groups sees its own as the root; others see the host's path, of which only the root is
/// there.
fn group_and_above(roots: &Roots, lines: &str, controller: &str) -> Vec<PathBuf> {
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

fn share(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}
