//! What a process may use: files, locked memory, control groups, abilities of the kernel.

use super::finding::{Finding, Subject};
use super::machine::Machine;
use super::measure::Probes;
use super::roots::{Roots, read};
use super::wanted::{LOCKED_BYTES, OPEN_FILES};
use std::path::PathBuf;

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

/// What the control group allows; version 2, else version 1.
fn groups(roots: &Roots) -> Vec<Finding> {
    let root = roots.sys.join("fs/cgroup");
    let lines = read(&roots.proc.join("self/cgroup")).unwrap_or_default();
    // A container with a namespace of groups sees its own as the root, others see the host's path.
    let file = |controller: &str, name: &str| -> Option<String> {
        let path_of = |wanted: &str| {
            lines.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let controllers = parts.next()?;
                let path = parts.next()?;
                controllers
                    .split(',')
                    .any(|one| one == wanted)
                    .then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let top: PathBuf = if controller.is_empty() { root.clone() } else { root.join(controller) };
        let below = path_of(controller).unwrap_or_default();
        [top.join(below), top].iter().find_map(|directory| read(&directory.join(name)).ok())
    };
    let cpu = file("", "cpu.max").and_then(|text| {
        let (quota, period) = text.split_once(' ')?;
        share(quota.parse().ok()?, period.parse().ok()?)
    });
    let cpu = cpu.or_else(|| {
        let number = |name: &str| file("cpu", name).and_then(|text| text.parse::<i64>().ok());
        share(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
    });
    let memory = file("", "memory.max").or_else(|| file("memory", "memory.limit_in_bytes"));
    // Version 1 says "no limit" with a number near the largest.
    let memory = memory.and_then(|text| text.parse::<u64>().ok()).filter(|bytes| *bytes < 1 << 62);
    let said = |name: &str, value: Option<String>| {
        let current = value.unwrap_or_else(|| "no limit".into());
        Finding::told(Subject::Limits, name, current, "of the control group; what is above it is taken away")
            .scoped("whoever started this: container, job, unit")
    };
    vec![
        said("CPUs of the control group", cpu.map(|cpus| format!("{cpus:.2}"))),
        said("memory of the control group", memory.map(|bytes| format!("{} MiB", bytes >> 20))),
    ]
}

fn share(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}
