//! Processors: how many, what they can, how fast they may run.

use super::finding::{Finding, Subject};
use super::machine::{Cpus, Machine};
use super::measure::Probes;
use super::roots::{Roots, list_of_numbers, names, read};
use super::wanted::GOVERNOR;
use std::collections::BTreeMap;

/// Instructions that matter, by their names on x86-64 and on Arm.
const INSTRUCTIONS: &[(&str, &[&str], &str)] = &[
    (
        "AES",
        &["aes"],
        "encryption without them costs ten times as much; then ChaCha20-Poly1305 is the better cipher",
    ),
    ("carry-less product", &["pclmulqdq", "pmull"], "the other half of AES-GCM"),
    ("VAES", &["vaes"], "several AES blocks at once; good to have"),
    ("AVX-512", &["avx512f"], "BLAKE3 digests sixteen blocks at once; good to have"),
    ("SHA", &["sha_ni", "sha2"], "certificates and foreign checksums only: thalweg's own digest is BLAKE3"),
];

/// What the finding about the governor is called.
pub const GOVERNOR_NAME: &str = "governor";

/// Everything about them.
pub fn findings(roots: &Roots, machine: &Machine, probes: &Probes) -> Vec<Finding> {
    let mut found = vec![Finding::told(
        Subject::Cpu,
        "processors",
        processors(&machine.cpus, &machine.cpu_model),
        "12 to 24 moderate cores were enough for 100 Gbit/s (000 section III-E)",
    )];
    for (name, flags, why) in INSTRUCTIONS {
        if machine.cpu_flags.is_empty() {
            let place = roots.proc.join("cpuinfo");
            found.push(Finding::unseen(Subject::Cpu, *name, format!("{} does not say", place.display())));
            continue;
        }
        let has = machine.cpu_flags.iter().any(|flag| flags.contains(&flag.as_str()));
        let current = if has { "yes" } else { "no" };
        found.push(Finding::told(Subject::Cpu, *name, current, *why));
    }
    found.push(match &probes.core_bytes_per_s {
        Some(Ok(rate)) => Finding::told(
            Subject::Cpu,
            "digest and seal",
            format!("{:.1} Gbit/s a core", rate * 8.0 / 1e9),
            "measured: BLAKE3 and AES-128-GCM of bytes in the cache, one thread",
        ),
        Some(Err(why)) => Finding::unseen(Subject::Cpu, "digest and seal", why),
        None => Finding::unseen(Subject::Cpu, "digest and seal", "not measured"),
    });
    found.push(governor(roots, machine));
    found
}

/// With what takes some of them from this process.
fn processors(cpus: &Cpus, model: &str) -> String {
    let there = format!("{} x {model}", cpus.online);
    if !cpus.is_limited() {
        return there;
    }
    let quota = match cpus.quota {
        Some(quota) => format!("the quota of the control group allows {quota:.2}"),
        None => "no quota of a control group is seen".to_owned(),
    };
    format!("{there}; {cpus}: affinity and cpuset allow {}, {quota}", cpus.allowed)
}

fn governor(roots: &Roots, machine: &Machine) -> Finding {
    let directory = roots.sys.join("devices/system/cpu");
    let mut governors: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for cpu in names(&directory) {
        let number = cpu.strip_prefix("cpu").and_then(|number| number.parse().ok());
        let governor = read(&directory.join(&cpu).join("cpufreq/scaling_governor"));
        if let (Some(number), Ok(governor)) = (number, governor) {
            governors.entry(governor).or_default().push(number);
        }
    }
    // Names are in the order of letters: cpu10 stands before cpu2.
    governors.values_mut().for_each(|cpus| cpus.sort_unstable());
    if governors.is_empty() {
        let why = match machine.hypervisor() {
            Some(_) => "the host decides about frequencies, a guest does not see them",
            None => "the kernel has no cpufreq here",
        };
        return Finding::unseen(Subject::Cpu, GOVERNOR_NAME, why);
    }
    let current = governors.keys().cloned().collect::<Vec<_>>().join(", ");
    Finding::told(
        Subject::Cpu,
        GOVERNOR_NAME,
        &current,
        "a core that first has to speed up is late for each burst",
    )
    .wanted(GOVERNOR, current == GOVERNOR, "000 reference 23: ESnet fasterdata, host tuning")
    .scoped(if machine.container.is_some() { "the host" } else { "this machine" })
    .remedied(
        format!("cpupower frequency-set -g {GOVERNOR}, or the tuned profile of --apply"),
        governors_back(&governors),
    )
}

/// The command that gives each CPU the governor that it has now.
fn governors_back(governors: &BTreeMap<String, Vec<u32>>) -> String {
    let each = governors.iter().map(|(governor, cpus)| {
        let some = if governors.len() > 1 { format!(" -c {}", list_of_numbers(cpus)) } else { String::new() };
        format!("cpupower{some} frequency-set -g {governor}")
    });
    each.collect::<Vec<_>>().join(" && ")
}

/// Time that the hypervisor gave to others, as a share of all time since boot.
pub fn stolen_share(roots: &Roots) -> Result<f64, String> {
    let path = roots.proc.join("stat");
    let text = read(&path)?;
    let ticks: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .map(|rest| rest.split_whitespace().filter_map(|word| word.parse().ok()).collect())
        .unwrap_or_default();
    // user nice system idle iowait irq softirq steal (proc(5)); guest time is in user time already.
    let all: u64 = ticks.iter().take(8).sum();
    match ticks.get(7) {
        Some(stolen) if all > 0 => Ok(*stolen as f64 / all as f64),
        _ => Err(format!("{} does not tell", path.display())),
    }
}
