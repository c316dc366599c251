//! Tries proposed changes in a testbed, before against after, and takes back the recommendation of what does not help.
//!
//! 1. What would be changed is put into groups that make sense only together.
//! 2. Of each, hosts with today's settings and hosts with the changed ones take turns, a few times; one stream of TCP, as
//!    a program that chooses nothing has it.
//! 3. A change helps if every run with it was better than every run without, and by more than a little.
//!
//! Not to be tried so: what the kernel has only once, and what is for faults that the path does not have. `--apply` with
//! it leaves those alone as well.

use super::finding::{Finding, Report, Verdict};
use super::roots::Roots;
use super::wanted::{Reach, SYSCTLS, Sysctl};
use crate::bench::statistics::median;
use crate::testbed::check::{RATE_TIME, rate_of_one_stream};
use crate::testbed::registry::Registry;
use crate::testbed::spec::{Paths, Spec};
use serde::Serialize;
use std::process::Command;
use std::time::Duration;
use thalweg_mover::failure::Result;

/// Settings that are tried together.
const GROUPS: &[&[&str]] = &[
    &["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"],
    &["net.ipv4.tcp_congestion_control"],
    &["net.ipv4.tcp_window_scaling"],
    &["net.ipv4.tcp_sack"],
    &["net.ipv4.tcp_moderate_rcvbuf"],
];

/// Runs of each kind.
const ROUNDS: usize = 3;

/// How much better the median has to be.
const GAIN_MIN: f64 = 1.05;

/// The testbed's name: one proof at a time.
pub const NAME: &str = "doctor";

/// One group, tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Its settings.
    pub settings: Vec<&'static str>,
    /// Payload of a stream with today's settings, in bits a second, a value for each run.
    pub before_bits_per_s: Vec<f64>,
    /// The same with the changed ones.
    pub after_bits_per_s: Vec<f64>,
    /// Whether it helps.
    pub helps: bool,
}

/// The path on which is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TrialPath {
    /// Round trip time.
    pub rtt: Duration,
    /// Rate of the line, in bits a second.
    pub rate_bits_per_s: u64,
}

impl Trial {
    fn new(settings: Vec<&'static str>, before: Vec<f64>, after: Vec<f64>) -> Trial {
        let most = before.iter().copied().fold(0.0, f64::max);
        let least = after.iter().copied().fold(f64::INFINITY, f64::min);
        let helps = least > most && median(&after) > GAIN_MIN * median(&before);
        Trial { settings, before_bits_per_s: before, after_bits_per_s: after, helps }
    }

    /// In words: what became of it.
    pub fn sentence(&self) -> String {
        let mbit = |rates: &[f64]| format!("{:.0}", median(rates) / 1e6);
        let verdict = if self.helps { "helps" } else { "does not help, so it is not recommended" };
        format!(
            "tried in a testbed: {} Mbit/s before, {} after (medians of {ROUNDS}): {verdict}",
            mbit(&self.before_bits_per_s),
            mbit(&self.after_bits_per_s)
        )
    }
}

/// Tries what `report` would have `--apply` change, and leaves only what helps. `wire` makes the process of a testbed (see
/// [`Registry::up`]). Takes about half a minute for each group at 50 ms.
///
/// # Errors
/// If no testbed can be had here.
pub fn prove(
    report: &mut Report,
    roots: &Roots,
    path: TrialPath,
    registry: &Registry,
    mut wire: impl FnMut() -> Result<Command>,
) -> Result<Vec<Trial>> {
    let today: Vec<(String, String)> = SYSCTLS
        .iter()
        .filter(|sysctl| sysctl.reach == Reach::Namespace)
        .filter_map(|sysctl| Some((sysctl.key.to_owned(), roots.sysctl_value(sysctl.key).ok()?)))
        .collect();
    let mut trials = Vec::new();
    for group in GROUPS {
        let proposed: Vec<(&'static str, String)> =
            group.iter().filter_map(|key| Some((*key, proposal(report, key)?.to_owned()))).collect();
        if proposed.is_empty() {
            continue;
        }
        let mut changed = today.clone();
        for (name, value) in &proposed {
            changed.retain(|(key, _)| key != name);
            changed.push(((*name).to_owned(), value.clone()));
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            before.push(run(path, &today, registry, wire()?)?);
            after.push(run(path, &changed, registry, wire()?)?);
        }
        let names = proposed.iter().map(|(name, _)| *name).collect();
        trials.push(Trial::new(names, before, after));
    }
    judge(report, &trials);
    Ok(trials)
}

/// What a setting would be changed to.
fn proposal<'a>(report: &'a Report, key: &str) -> Option<&'a str> {
    let finding = report.findings.iter().find(|finding| finding.name == key && may_be_tried(finding));
    finding?.wanted.as_deref()
}

/// What `--apply` does by itself, and what depends on the path if it is for paths that lose nothing, as a testbed's.
fn may_be_tried(finding: &Finding) -> bool {
    let is_of_the_table =
        |sysctl: &Sysctl| sysctl.key == finding.name && finding.wanted.as_deref() == Some(sysctl.value);
    finding.remedy.as_ref().is_some_and(|remedy| {
        let depends = finding.verdict == Verdict::Depends && SYSCTLS.iter().any(is_of_the_table);
        remedy.by_apply || depends
    })
}

/// Writes into the findings what came of the trials.
fn judge(report: &mut Report, trials: &[Trial]) {
    for finding in report.findings.iter_mut().filter(|finding| may_be_tried(finding)) {
        let Some(remedy) = &mut finding.remedy else { continue };
        match trials.iter().find(|trial| trial.settings.contains(&finding.name.as_str())) {
            Some(trial) => {
                finding.why = format!("{}; {}", finding.why, trial.sentence());
                if trial.helps {
                    (finding.verdict, remedy.by_apply) = (Verdict::Change, true);
                } else {
                    (finding.verdict, finding.remedy) = (Verdict::Told, None);
                }
            }
            None => {
                remedy.by_apply = false;
                let why =
                    "not tried: a testbed's path does not show it, or the kernel has only one such setting";
                finding.why = format!("{}; {why}", finding.why);
            }
        }
    }
}

/// One run in a testbed of its own, which is gone afterwards.
fn run(path: TrialPath, sysctls: &[(String, String)], registry: &Registry, wire: Command) -> Result<f64> {
    let mut paths = Paths::default();
    for direction in [&mut paths.forward, &mut paths.back] {
        direction.delay_ns = u64::try_from(path.rtt.as_nanos() / 2).unwrap_or(u64::MAX);
        direction.rate_bits_per_s = Some(path.rate_bits_per_s);
    }
    paths.set_default_queues();
    let spec = Spec {
        name: NAME.into(),
        left: 1,
        right: 1,
        mtu_bytes: 1500,
        paths,
        seed: 0,
        sysctls: sysctls.to_vec(),
    };
    registry.up(&spec, wire)?;
    let rate = rate_of_one_stream(registry, NAME, RATE_TIME);
    let down = registry.down(NAME);
    let rate = rate?;
    down?;
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::{Remedy, Subject};

    fn proposed(name: &str) -> Finding {
        let mut finding = Finding::told(Subject::Network, name, "now", "why").wanted("then", false, "source");
        finding.remedy = Some(Remedy { apply: "do".into(), undo: "undo".into(), by_apply: true });
        finding
    }

    #[test]
    fn a_change_helps_only_beyond_noise_and_by_more_than_a_little() {
        let helps =
            |before: &[f64], after: &[f64]| Trial::new(Vec::new(), before.to_vec(), after.to_vec()).helps;
        assert!(helps(&[100.0, 110.0, 105.0], &[200.0, 190.0, 210.0]));
        assert!(!helps(&[100.0, 195.0, 105.0], &[200.0, 190.0, 210.0]));
        assert!(!helps(&[100.0, 101.0, 100.0], &[103.0, 103.0, 104.0]));
    }

    #[test]
    fn what_does_not_help_and_what_was_not_tried_is_not_applied() {
        let names = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_congestion_control", "net.core.rmem_max"];
        let mut report = Report { findings: names.map(proposed).to_vec(), beliefs: Vec::new() };
        let trial = |name, after| Trial::new(vec![name], vec![1e8; 3], vec![after; 3]);
        judge(&mut report, &[trial(names[0], 9e8), trial(names[1], 1e8)]);
        let left: Vec<bool> = names.iter().map(|name| proposal(&report, name).is_some()).collect();
        assert_eq!(left, [true, false, false]);
        let verdicts: Vec<Verdict> = report.findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Change, Verdict::Told, Verdict::Change]);
        assert!(
            report.findings[1].why.contains("100 Mbit/s before, 100 after"),
            "{}",
            report.findings[1].why
        );
    }

    #[test]
    fn what_depends_on_the_path_is_applied_only_after_a_trial_on_such_a_path() {
        const NAME: &str = "net.ipv4.tcp_congestion_control";
        let advised = |wanted: &str| {
            let depends = Finding::told(Subject::Congestion, NAME, "now", "why").depends(wanted, "source");
            Report { findings: vec![depends.remedied("do", "undo")], beliefs: Vec::new() }
        };
        let tried = |after| {
            let mut report = advised("cubic");
            judge(&mut report, &[Trial::new(vec![NAME], vec![1e8; 3], vec![after; 3])]);
            let by_apply = report.findings[0].remedy.as_ref().map(|remedy| remedy.by_apply);
            (report.findings[0].verdict, by_apply)
        };
        assert_eq!(tried(9e8), (Verdict::Change, Some(true)));
        assert_eq!(tried(1e8), (Verdict::Told, None));
        // A testbed's path loses nothing, so it cannot show what bbr is for.
        assert_eq!(proposal(&advised("cubic"), NAME), Some("cubic"));
        assert_eq!(proposal(&advised("bbr"), NAME), None);
    }
}
