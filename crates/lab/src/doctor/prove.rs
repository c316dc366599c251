//! Tries proposed changes in a testbed, before against after, and takes back the recommendation of what does not help.
//!
//! 1. What would be changed is put into groups that make sense only together.
//! 2. Of each, hosts with today's settings and hosts with the changed ones take turns, a few times; one stream of TCP,
//!    as a program that chooses nothing has it.
//! 3. A change helps if every run with it was better than every run without, and by more than a little. Where the path
//!    itself lost packets in any run, because this machine was too slow for it, there is no verdict.
//!
//! What is to be changed and was not shown to help is called unproved. Not to be tried so: what the kernel has only
//! once, and what is for faults that the path does not have. `--apply` with it leaves those alone as well.

use super::finding::{Finding, Report, Subject, Verdict};
use super::roots::Roots;
use super::wanted::{Reach, Rule, SYSCTLS, Sysctl};
use crate::bench::statistics::median;
use crate::testbed::check::{RATE_TIME, rate_of_one_stream};
use crate::testbed::daemon::Request;
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
    /// Rate of the line on which it was tried, in bits a second: of what a faster one needs it shows nothing.
    pub rate_bits_per_s: u64,
    /// Its round trip time, in seconds.
    pub rtt_s: f64,
    /// Payload of a stream with today's settings, in bits a second, a value for each run.
    pub before_bits_per_s: Vec<f64>,
    /// The same with the changed ones.
    pub after_bits_per_s: Vec<f64>,
    /// Packets that the emulated path itself lost, of all runs: this machine was too slow for it.
    pub lost_by_the_path: u64,
    /// What the emulated path took of this machine's CPUs, in seconds for 10^9 bytes carried.
    pub path_cpu_s_per_gb: f64,
    /// Whether it helps; `None`: no verdict, as the path lost packets.
    pub helps: Option<bool>,
}

/// A run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Run {
    bits_per_s: f64,
    /// What the path lost by itself, what it carried, and what that took.
    lost: u64,
    carried_bytes: u64,
    cpu_s: f64,
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
    fn new(path: TrialPath, settings: Vec<&'static str>, before: &[Run], after: &[Run]) -> Trial {
        let all = || before.iter().chain(after);
        let lost = all().map(|run| run.lost).sum();
        let carried: u64 = all().map(|run| run.carried_bytes).sum();
        let cpu_s: f64 = all().map(|run| run.cpu_s).sum();
        let [before, after] =
            [before, after].map(|runs| runs.iter().map(|run| run.bits_per_s).collect::<Vec<f64>>());
        let most = before.iter().copied().fold(0.0, f64::max);
        let least = after.iter().copied().fold(f64::INFINITY, f64::min);
        let helps = least > most && median(&after) > GAIN_MIN * median(&before);
        Trial {
            settings,
            rate_bits_per_s: path.rate_bits_per_s,
            rtt_s: path.rtt.as_secs_f64(),
            before_bits_per_s: before,
            after_bits_per_s: after,
            lost_by_the_path: lost,
            path_cpu_s_per_gb: cpu_s / (carried.max(1) as f64 / 1e9),
            helps: (lost == 0).then_some(helps),
        }
    }

    /// In words: what became of it.
    pub fn sentence(&self) -> String {
        let mbit = |rates: &[f64]| format!("{:.0}", median(rates) / 1e6);
        let verdict = match self.helps {
            Some(true) => "helps".to_owned(),
            Some(false) => "does not help, so it is not recommended".to_owned(),
            None => format!(
                "no verdict: the emulated path itself lost {} packets, as this machine was busy; try again when it is not",
                self.lost_by_the_path
            ),
        };
        format!(
            "tried in a testbed: {} Mbit/s before, {} after (medians of {ROUNDS}, {} Gbit/s and {:.1} ms; the path itself took \
             {:.1} CPU-s/GB): {verdict}",
            mbit(&self.before_bits_per_s),
            mbit(&self.after_bits_per_s),
            self.rate_bits_per_s as f64 / 1e9,
            self.rtt_s * 1e3,
            self.path_cpu_s_per_gb
        )
    }
}

/// Tries what `report` would have `--apply` change, and leaves only what helps. `wire` makes the process of a testbed
/// (see
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
        trials.push(Trial::new(path, names, &before, &after));
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
    let is_wanted =
        |sysctl: &Sysctl| sysctl.rule == Rule::Buffer || finding.wanted.as_deref() == Some(sysctl.value);
    let is_of_the_table = |sysctl: &Sysctl| sysctl.key == finding.name && is_wanted(sysctl);
    finding.remedy.as_ref().is_some_and(|remedy| {
        let depends = finding.verdict == Verdict::Depends && SYSCTLS.iter().any(is_of_the_table);
        remedy.by_apply || depends
    })
}

/// Of what no trial was about.
const NOT_TRIED: &str =
    "not tried: a testbed's path does not show it, or the kernel has only one such setting";

/// Writes into the findings what came of the trials.
fn judge(report: &mut Report, trials: &[Trial]) {
    // A clock that is wrong, or a slow disk, needs no proof by a path.
    let is_of_paths = |finding: &Finding| matches!(finding.subject, Subject::Network | Subject::Congestion);
    let concerns = |finding: &&mut Finding| {
        may_be_tried(finding) || finding.verdict == Verdict::Change && is_of_paths(finding)
    };
    for finding in report.findings.iter_mut().filter(concerns) {
        let trial = trials.iter().find(|trial| trial.settings.contains(&finding.name.as_str()));
        let trial = trial.filter(|_| may_be_tried(finding));
        let told = trial.map_or_else(|| NOT_TRIED.to_owned(), Trial::sentence);
        finding.why = format!("{}; {told}", finding.why);
        match trial.and_then(|trial| trial.helps) {
            Some(true) => {
                finding.verdict = Verdict::Change;
                finding.remedy.iter_mut().for_each(|remedy| remedy.by_apply = true);
            }
            Some(false) => (finding.verdict, finding.remedy) = (Verdict::Told, None),
            None => {
                if finding.verdict == Verdict::Change {
                    finding.verdict = Verdict::Unproved;
                }
                finding.remedy.iter_mut().for_each(|remedy| remedy.by_apply = false);
            }
        }
    }
}

/// One run in a testbed of its own, which is gone afterwards.
fn run(path: TrialPath, sysctls: &[(String, String)], registry: &Registry, wire: Command) -> Result<Run> {
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
    let run = rate_of_one_stream(registry, NAME, RATE_TIME).and_then(|bits_per_s| {
        let status = registry.ask(NAME, &Request::Status)?;
        let directions = [&status.forward, &status.back];
        Ok(Run {
            bits_per_s,
            lost: directions.iter().map(|direction| direction.trouble).sum(),
            carried_bytes: directions.iter().map(|direction| direction.counters.bytes).sum(),
            cpu_s: status.cpu_seconds,
        })
    });
    let down = registry.down(NAME);
    let run = run?;
    down?;
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Remedy;

    const PATH: TrialPath = TrialPath { rtt: Duration::from_millis(50), rate_bits_per_s: 1_000_000_000 };

    fn proposed(name: &str) -> Finding {
        let mut finding = Finding::told(Subject::Network, name, "now", "why").wanted("then", false, "source");
        finding.remedy = Some(Remedy { apply: "do".into(), undo: "undo".into(), by_apply: true });
        finding
    }

    #[test]
    fn a_change_helps_only_beyond_noise_and_by_more_than_a_little() {
        let helps = |before: [f64; 3], after: [f64; 3]| {
            Trial::new(PATH, Vec::new(), &runs(before), &runs(after)).helps
        };
        assert_eq!(helps([100.0, 110.0, 105.0], [200.0, 190.0, 210.0]), Some(true));
        assert_eq!(helps([100.0, 195.0, 105.0], [200.0, 190.0, 210.0]), Some(false));
        assert_eq!(helps([100.0, 101.0, 100.0], [103.0, 103.0, 104.0]), Some(false));
    }

    fn runs(rates: [f64; 3]) -> [Run; 3] {
        rates.map(|bits_per_s| Run { bits_per_s, carried_bytes: 1_000_000_000, cpu_s: 2.0, ..Run::default() })
    }

    /// A machine that is too busy for the path says nothing of a setting.
    #[test]
    fn where_the_path_itself_lost_packets_there_is_no_verdict_and_nothing_is_applied() {
        const NAME: &str = "net.ipv4.tcp_rmem";
        let mut after = runs([9e8; 3]);
        after[1].lost = 7;
        let trial = Trial::new(PATH, vec![NAME], &runs([1e8; 3]), &after);
        assert_eq!((trial.helps, trial.lost_by_the_path, trial.path_cpu_s_per_gb), (None, 7, 2.0));
        let said = trial.sentence();
        for words in ["3, 1 Gbit/s and 50.0 ms;", "2.0 CPU-s/GB", "no verdict: ", "7 packets"] {
            assert!(said.contains(words), "{said}");
        }
        let mut report = Report { findings: vec![proposed(NAME)], beliefs: Vec::new() };
        judge(&mut report, &[trial]);
        assert_eq!(report.findings[0].verdict, Verdict::Unproved);
        assert_eq!(report.findings[0].remedy.as_ref().map(|remedy| remedy.by_apply), Some(false));
    }

    #[test]
    fn what_does_not_help_and_what_was_not_tried_is_not_applied() {
        let names = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_congestion_control", "net.core.rmem_max"];
        let clock = Finding::told(Subject::Clock, "synchronised", "no", "why").wanted("yes", false, "source");
        let queue = Finding::told(Subject::Network, "queue", "now", "why").wanted("then", false, "source");
        let findings = names.map(proposed).into_iter().chain([clock, queue]).collect();
        let mut report = Report { findings, beliefs: Vec::new() };
        let trial = |name, after| Trial::new(PATH, vec![name], &runs([1e8; 3]), &runs([after; 3]));
        judge(&mut report, &[trial(names[0], 9e8), trial(names[1], 1e8)]);
        let left: Vec<bool> = names.iter().map(|name| proposal(&report, name).is_some()).collect();
        assert_eq!(left, [true, false, false]);
        let verdicts: Vec<Verdict> = report.findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(
            verdicts,
            [Verdict::Change, Verdict::Told, Verdict::Unproved, Verdict::Change, Verdict::Unproved]
        );
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
            judge(&mut report, &[Trial::new(PATH, vec![NAME], &runs([1e8; 3]), &runs([after; 3]))]);
            let by_apply = report.findings[0].remedy.as_ref().map(|remedy| remedy.by_apply);
            (report.findings[0].verdict, by_apply)
        };
        assert_eq!(tried(9e8), (Verdict::Change, Some(true)));
        assert_eq!(tried(1e8), (Verdict::Told, None));
        // Where no card says how fast its line is, larger buffers are advised, and no value of the table is.
        let mut report = advised("4096 131072 1073741824");
        report.findings[0].name = "net.ipv4.tcp_rmem".into();
        assert_eq!(proposal(&report, "net.ipv4.tcp_rmem"), Some("4096 131072 1073741824"));
        // A testbed's path loses nothing, so it cannot show what bbr is for.
        assert_eq!(proposal(&advised("cubic"), NAME), Some("cubic"));
        assert_eq!(proposal(&advised("bbr"), NAME), None);
    }
}
