//! Tries proposed changes in a testbed, before against after, and takes back the recommendation of what does not help.
//!
//! 1. [`proofs`] has for each proposal what it is tried with, or why it cannot be. Proposals that make sense only
//!    together are tried together.
//! 2. Of each, a testbed as this machine is and one with the change take turns, a few times: the same path, and one
//!    stream of TCP as a program has it that chooses nothing. What helped before is in both. Once no further run can
//!    change the verdict there is none; what would help has a few more, as chance alone would have it in one trial of
//!    twenty.
//! 3. A change helps if every run with it was better than every run without, and by more than a little. Where the path
//!    itself lost packets in any run, because this machine was too slow for it, there is no verdict.
//!
//! What is to be changed and was not shown to help is called unproved. Not to be tried so: what the kernel has only
//! once, and hardware. `--apply` with it leaves those alone as well, and the governor.

use super::congestion::SEGMENT_BYTES;
use super::cpu::GOVERNOR_NAME;
use super::finding::{Finding, Report, Subject, Verdict};
use super::proofs::{self, How, PROOFS, Proof};
use super::queue::NO_QUEUE;
use super::roots::Roots;
use super::wanted::{Reach, SYSCTLS};
use crate::bench::statistics::median;
use crate::testbed::check::{RATE_TIME, Streams, rate_of_bursts, rate_of_one_stream, round_trip_beside};
use crate::testbed::daemon::Request;
use crate::testbed::hosts::{make_black_hole, set_queue};
use crate::testbed::presets::MTU_BYTES;
use crate::testbed::registry::{Record, Registry};
use crate::testbed::spec::{Paths, Spec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use thalweg_mover::failure::{Result, counted};
use thalweg_mover::model::loss::{self, CongestionControl};

/// Runs of each kind where the change does not help: three values are all larger than three others by chance in one
/// case of 20.
const ROUNDS: usize = 3;

/// Where it would help: five are all larger than five others by chance in one case of 252.
const ROUNDS_MAX: usize = 5;

/// A stream on a path that loses packets is to lose so many in each run, by the law of Reno; but no run takes longer
/// than this.
const LOSSES: f64 = 4.0;
const LOSSY_TIME_MAX: Duration = Duration::from_secs(10);

/// Behind a black hole the kernel takes 3 s of retransmissions before it tries smaller packets (`tcp_retries1`), and as
/// these are twice as far apart each time, up to 7.
const BLACK_HOLE_TIME: Duration = Duration::from_secs(10);

/// Share of packets that are lost where that is what a proposal is for, and nobody knows of a loss: the largest that
/// `thalweg bench cca` has.
const LOSS: f64 = 1e-3;

/// Largest packets of a black hole: larger than TCP begins with once it has noticed (`tcp_base_mss`, 1024), as large as
/// tunnels leave.
const HOLE_BYTES: u32 = 1400;

/// Bytes of a burst, at most and at least: what the path has under way, if that is between.
const BURST_BYTES_MAX: u64 = 4 << 20;
const BURST_BYTES_MIN: u64 = 64 << 10;

/// Streams that fill the queue of the sender's device: of each one the kernel has about a millisecond in it.
const STREAMS: u32 = 16;

/// The testbed's name: one proof at a time.
pub const NAME: &str = "doctor";

/// What is proposed together, tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Names of the findings.
    pub settings: Vec<String>,
    /// Rate of the line on which it was tried, in bits a second: of what a faster one needs it shows nothing.
    pub rate_bits_per_s: u64,
    /// Its round trip time, in seconds.
    pub rtt_s: f64,
    /// Share of packets that the path lost at random, in each direction.
    pub loss: f64,
    /// What else was special, in words; empty where one stream sent all the time.
    pub conditions: String,
    /// Payload of TCP as this machine is, in bits a second, a value for each run: of a stream, of its bursts, of
    /// streams together.
    pub before_bits_per_s: Vec<f64>,
    /// The same with the change.
    pub after_bits_per_s: Vec<f64>,
    /// Round trip of small packets beside these streams as this machine is, in seconds, a median for each run; empty
    /// where that is not what the change is for.
    pub before_rtt_s: Vec<f64>,
    /// The same with the change.
    pub after_rtt_s: Vec<f64>,
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
    /// Of small packets beside it, where that is measured.
    rtt_s: Option<f64>,
    /// What the path lost by itself, what it carried, and what that took.
    lost: u64,
    carried_bytes: u64,
    cpu_s: f64,
}

/// The path on which is tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TrialPath {
    /// Round trip time.
    pub rtt: Duration,
    /// Rate of the line, in bits a second.
    pub rate_bits_per_s: u64,
    /// Share of packets that are lost at random, in each direction.
    pub loss: f64,
}

/// A trial to be made.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    names: Vec<String>,
    gain_min: f64,
    before: Bed,
    after: Bed,
}

/// What a run is made on.
#[derive(Debug, Clone, PartialEq)]
struct Bed {
    sysctls: Vec<(String, String)>,
    mtu_bytes: u32,
    loss: f64,
    load: Load,
}

/// What travels over it.
#[derive(Debug, Clone, PartialEq)]
enum Load {
    /// One stream, all the time.
    Stream,
    /// One stream, in bursts.
    Bursts,
    /// One stream, whose largest packets are lost without a word.
    BlackHole,
    /// Many, with small packets beside them, through a queue of this kind.
    Streams(String),
}

impl Trial {
    fn new(path: TrialPath, plan: &Plan, before: &[Run], after: &[Run]) -> Trial {
        let all = || before.iter().chain(after);
        let lost = all().map(|run| run.lost).sum();
        let carried: u64 = all().map(|run| run.carried_bytes).sum();
        let cpu_s: f64 = all().map(|run| run.cpu_s).sum();
        let [before_rtt_s, after_rtt_s] =
            [before, after].map(|runs| runs.iter().filter_map(|run| run.rtt_s).collect::<Vec<f64>>());
        let [before, after] =
            [before, after].map(|runs| runs.iter().map(|run| run.bits_per_s).collect::<Vec<f64>>());
        let helps = match before_rtt_s.is_empty() {
            true => is_larger(&after, &before, plan.gain_min),
            // The shorter, the better.
            false => is_larger(&before_rtt_s, &after_rtt_s, plan.gain_min),
        };
        Trial {
            settings: plan.names.clone(),
            rate_bits_per_s: path.rate_bits_per_s,
            rtt_s: path.rtt.as_secs_f64(),
            loss: plan.before.loss,
            conditions: plan.conditions(path),
            before_bits_per_s: before,
            after_bits_per_s: after,
            before_rtt_s,
            after_rtt_s,
            lost_by_the_path: lost,
            path_cpu_s_per_gb: cpu_s / (carried.max(1) as f64 / 1e9),
            helps: (lost == 0).then_some(helps),
        }
    }

    /// In words: what became of it.
    pub fn sentence(&self) -> String {
        let mbit = |rates: &[f64]| format!("{:.0}", median(rates) / 1e6);
        let ms = |times: &[f64]| format!("{:.1}", median(times) * 1e3);
        let seen = match self.before_rtt_s.is_empty() {
            true => {
                format!(
                    "{} Mbit/s before, {} after",
                    mbit(&self.before_bits_per_s),
                    mbit(&self.after_bits_per_s)
                )
            }
            false => format!(
                "small packets took {} ms there and back before, {} after",
                ms(&self.before_rtt_s),
                ms(&self.after_rtt_s)
            ),
        };
        let verdict = match self.helps {
            Some(true) => "helps".to_owned(),
            Some(false) => "does not help, so it is not recommended".to_owned(),
            None => format!(
                "no verdict: the emulated path itself lost {}, as this machine was busy; try again when it is not",
                counted(self.lost_by_the_path, "packet", "packets")
            ),
        };
        let loss = match self.loss > 0.0 {
            true => format!(", {:.1e} of the packets lost at random", self.loss),
            false => String::new(),
        };
        let conditions = match self.conditions.is_empty() {
            true => String::new(),
            false => format!(", {}", self.conditions),
        };
        let runs = match self.before_bits_per_s.len() {
            1 => "one run each".to_owned(),
            runs => format!("medians of {runs}"),
        };
        format!(
            "tried in a testbed: {seen} ({runs}, {} Gbit/s and {:.1} ms{loss}{conditions}; the path itself took \
             {:.1} CPU-s/GB): {verdict}",
            self.rate_bits_per_s as f64 / 1e9,
            self.rtt_s * 1e3,
            self.path_cpu_s_per_gb
        )
    }
}

/// Beyond noise, and by more than a little: each of these is larger than each of those.
fn is_larger(these: &[f64], those: &[f64], gain_min: f64) -> bool {
    let least = these.iter().copied().fold(f64::INFINITY, f64::min);
    let most = those.iter().copied().fold(0.0, f64::max);
    least > most && median(these) > gain_min * median(those)
}

/// Tries what `report` proposes, and leaves only what helps. `wire` makes the process of a testbed (see
/// [`Registry::up`]). Takes up to a minute for each trial at 50 ms, and up to three where packets are lost or streams
/// rest; less where one run tells that it does not help.
///
/// # Errors
/// If no testbed can be had here. What one kind of trial needs and this machine lacks is told of what was to be tried.
pub fn prove(
    report: &mut Report,
    roots: &Roots,
    path: TrialPath,
    registry: &Registry,
    mut wire: impl FnMut() -> Result<Command>,
) -> Result<Vec<Trial>> {
    let mut base: Vec<(String, String)> = SYSCTLS
        .iter()
        .filter(|sysctl| sysctl.reach == Reach::Namespace)
        .filter_map(|sysctl| Some((sysctl.key.to_owned(), roots.sysctl_value(sysctl.key).ok()?)))
        .collect();
    let (mut trials, mut untried) = (Vec::new(), Vec::new());
    for proof in PROOFS {
        for plan in plans(report, proof, &base, path) {
            match try_out(path, &plan, registry, &mut wire)? {
                Ok([before, after]) => {
                    let trial = Trial::new(path, &plan, &before, &after);
                    if trial.helps == Some(true) {
                        base.clone_from(&plan.after.sysctls);
                    }
                    trials.push(trial);
                }
                Err(why) => untried.push(Untried { names: plan.names, why }),
            }
        }
    }
    judge(report, &trials, &untried);
    Ok(trials)
}

/// What could not be tried.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Untried {
    names: Vec<String>,
    /// What is missing here, and what it needs.
    why: String,
}

/// Trials of a row: none where nothing is proposed, and several where cards differ.
fn plans(report: &Report, proof: &Proof, base: &[(String, String)], path: TrialPath) -> Vec<Plan> {
    let of_row = report.findings.iter().filter(|finding| proof.has(&finding.name) && may_be_tried(finding));
    let bed = |loss, load| Bed { sysctls: base.to_vec(), mtu_bytes: MTU_BYTES, loss, load };
    let plan = |names, before, after| Plan { names, gain_min: proof.gain_min, before, after };
    let lossy = if path.loss > 0.0 { path.loss } else { LOSS };
    match proof.how {
        How::Not(_) | How::Measured => Vec::new(),
        How::Mtu => {
            let with = |mtu_bytes| Bed { mtu_bytes, ..bed(path.loss, Load::Stream) };
            let steps = steps(of_row).into_iter().filter_map(|((now, wanted), names)| {
                Some(plan(names, with(now.parse().ok()?), with(wanted.parse().ok()?)))
            });
            steps.collect()
        }
        How::Queue => {
            // No queue at all is nothing that a line of a testbed's host could have in front of it.
            let of_row = of_row.filter(|finding| finding.current.as_deref() != Some(NO_QUEUE));
            let with = |kind: String| bed(path.loss, Load::Streams(kind));
            steps(of_row)
                .into_iter()
                .map(|((now, wanted), names)| plan(names, with(now), with(wanted)))
                .collect()
        }
        How::Stream | How::Control | How::UnderLoss | How::Bursts | How::BlackHole => {
            let proposed: Vec<(String, String)> =
                of_row.filter_map(|finding| Some((finding.name.clone(), finding.wanted.clone()?))).collect();
            if proposed.is_empty() {
                return Vec::new();
            }
            let wants_bbr = proposed.iter().any(|(_, value)| value == CongestionControl::Bbr.name());
            let loss = match proof.how {
                How::UnderLoss => lossy,
                How::Control if wants_bbr => lossy,
                _ => path.loss,
            };
            let load = match proof.how {
                How::Bursts => Load::Bursts,
                How::BlackHole => Load::BlackHole,
                _ => Load::Stream,
            };
            let before = bed(loss, load);
            let mut after = before.clone();
            after.sysctls.retain(|(key, _)| proposed.iter().all(|(name, _)| name != key));
            after.sysctls.extend(proposed.iter().cloned());
            vec![plan(proposed.into_iter().map(|(name, _)| name).collect(), before, after)]
        }
    }
}

/// Names by what is there and what is wanted: the last words, as of `mq of fq`.
fn steps<'a>(findings: impl Iterator<Item = &'a Finding>) -> BTreeMap<(String, String), Vec<String>> {
    let mut steps: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for finding in findings {
        let last = |text: &Option<String>| text.as_deref()?.split_whitespace().next_back().map(str::to_owned);
        if let Some(step) = last(&finding.current).zip(last(&finding.wanted)) {
            steps.entry(step).or_default().push(finding.name.clone());
        }
    }
    steps
}

impl Plan {
    /// What is special about it, beside the loss.
    fn conditions(&self, path: TrialPath) -> String {
        match &self.before.load {
            Load::Stream if self.before.mtu_bytes != self.after.mtu_bytes => {
                format!("MTU {} and {}", self.before.mtu_bytes, self.after.mtu_bytes)
            }
            Load::Stream => String::new(),
            Load::Bursts => format!("bursts of {} KiB with rests between", burst_bytes(path) >> 10),
            Load::BlackHole => format!("packets of more than {HOLE_BYTES} bytes lost without a word"),
            Load::Streams(_) => {
                format!("beside {STREAMS} streams through the sender's own queue at half that rate")
            }
        }
    }
}

/// What the path has under way.
fn burst_bytes(path: TrialPath) -> u64 {
    let bytes = path.rate_bits_per_s as f64 * path.rtt.as_secs_f64() / 8.0;
    (bytes as u64).clamp(BURST_BYTES_MIN, BURST_BYTES_MAX)
}

/// Whether it is a proposal that can be taken back: `--apply` does it, or somebody who knows the site.
fn may_be_tried(finding: &Finding) -> bool {
    // Where streams are kept apart already, another queue is for the sender's CPU.
    let is_for_cpu = is_of_queues(finding) && finding.verdict == Verdict::Depends;
    is_proposal(finding) && finding.wanted.is_some() && finding.remedy.is_some() && !is_for_cpu
}

fn is_proposal(finding: &Finding) -> bool {
    matches!(finding.verdict, Verdict::Change | Verdict::Depends)
}

fn is_of_queues(finding: &Finding) -> bool {
    proofs::of(&finding.name).is_some_and(|proof| proof.how == How::Queue)
}

/// Why a proposal was not tried.
fn not_tried(finding: &Finding, untried: &[Untried]) -> String {
    let how = proofs::of(&finding.name).map(|proof| proof.how);
    let why = match untried.iter().find(|untried| untried.names.contains(&finding.name)) {
        Some(untried) => untried.why.as_str(),
        None => match how {
            Some(How::Not(why)) => why,
            Some(How::Measured) => "it was measured here, where it is",
            Some(How::Queue) if finding.verdict == Verdict::Depends => proofs::OF_THE_SENDER,
            _ if finding.remedy.is_none() => "it cannot be changed from here",
            _ => "what is there, or what is wanted, is nothing that a testbed can have",
        },
    };
    format!("not tried: {why}")
}

/// Writes into the findings what came of the trials.
fn judge(report: &mut Report, trials: &[Trial], untried: &[Untried]) {
    for finding in report.findings.iter_mut().filter(|finding| is_proposal(finding)) {
        // A clock that is wrong, or a slow disk, needs no proof by a path; what was measured on the path is one.
        let proof = proofs::of(&finding.name);
        let is_measured = proof.is_some_and(|proof| proof.how == How::Measured);
        let is_of_paths = matches!(finding.subject, Subject::Network | Subject::Congestion) && !is_measured;
        // A profile is for more than the governor, and --apply would write one for it alone.
        let needs_proof = is_of_paths || finding.name == GOVERNOR_NAME;
        let trial = trials.iter().find(|trial| trial.settings.contains(&finding.name));
        let told = trial.map_or_else(|| not_tried(finding, untried), Trial::sentence);
        finding.why = format!("{}; {told}", finding.why);
        match trial.and_then(|trial| trial.helps) {
            // What others have to do as well, or not everybody needs, is shown and left to whoever knows.
            Some(true)
                if finding.verdict == Verdict::Depends && proof.is_none_or(|proof| !proof.is_enough) => {}
            Some(true) => {
                let is_setting = SYSCTLS.iter().any(|sysctl| sysctl.key == finding.name);
                finding.verdict = Verdict::Change;
                finding.remedy.iter_mut().for_each(|remedy| remedy.by_apply = is_setting);
            }
            Some(false) => (finding.verdict, finding.remedy) = (Verdict::Told, None),
            None if needs_proof => {
                if finding.verdict == Verdict::Change {
                    finding.verdict = Verdict::Unproved;
                }
                finding.remedy.iter_mut().for_each(|remedy| remedy.by_apply = false);
            }
            None => {}
        }
    }
}

/// All runs of a trial, in turns; or why it cannot be made here.
fn try_out(
    path: TrialPath,
    plan: &Plan,
    registry: &Registry,
    wire: &mut impl FnMut() -> Result<Command>,
) -> Result<std::result::Result<[Vec<Run>; 2], String>> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS_MAX {
        match run(path, &plan.before, round, registry, wire()?)? {
            Ok(run) => before.push(run),
            Err(why) => return Ok(Err(why)),
        }
        // A testbed can be had: what fails now fails by the change.
        match run(path, &plan.after, round, registry, wire()?) {
            Ok(Ok(run)) => after.push(run),
            Ok(Err(why)) => return Ok(Err(why)),
            Err(failure) => return Ok(Err(format!("with it no testbed can be had: {failure}"))),
        }
        if is_over(path, plan, &before, &after) {
            break;
        }
    }
    Ok(Ok([before, after]))
}

/// Whether a trial has as many runs as it needs.
fn is_over(path: TrialPath, plan: &Plan, before: &[Run], after: &[Run]) -> bool {
    let would_help = || Trial::new(path, plan, before, after).helps == Some(true);
    is_settled(&plan.before.load, before, after)
        || after.len() >= ROUNDS_MAX
        || after.len() >= ROUNDS && !would_help()
}

/// Whether no further run can change the verdict: one with the change was no better than one without, or the path
/// itself lost packets; or nothing at all came through a black hole without it, which is no matter of chance.
fn is_settled(load: &Load, before: &[Run], after: &[Run]) -> bool {
    let is_better = |with: &Run, without: &Run| match (with.rtt_s, without.rtt_s) {
        (Some(with), Some(without)) => with < without,
        _ => with.bits_per_s > without.bits_per_s,
    };
    let is_void = before.iter().chain(after).any(|run| run.lost > 0);
    let may_help = after.iter().all(|with| before.iter().all(|without| is_better(with, without)));
    let is_hole = *load == Load::BlackHole && before.iter().all(|run| run.bits_per_s == 0.0);
    is_void || !may_help || is_hole
}

/// One run in a testbed of its own, which is gone afterwards; or what of it this machine lacks. `round`: chance is
/// another in each, and the same before and after.
fn run(
    path: TrialPath,
    bed: &Bed,
    round: usize,
    registry: &Registry,
    wire: Command,
) -> Result<std::result::Result<Run, String>> {
    let mut paths = Paths::default();
    for direction in [&mut paths.forward, &mut paths.back] {
        direction.delay_ns = u64::try_from(path.rtt.as_nanos() / 2).unwrap_or(u64::MAX);
        direction.rate_bits_per_s = Some(path.rate_bits_per_s);
        direction.loss = bed.loss;
    }
    paths.set_default_queues();
    let spec = Spec {
        name: NAME.into(),
        left: 1,
        right: 1,
        mtu_bytes: bed.mtu_bytes,
        paths,
        seed: round as u64,
        sysctls: bed.sysctls.clone(),
    };
    let record = registry.up(&spec, wire)?;
    // A load that does not come through is told of what was to be tried, and the other trials go on.
    let run = prepare(&record, path, bed)
        .and_then(|()| measured(path, bed, registry).map_err(|failure| failure.to_string()));
    registry.down(NAME)?;
    Ok(run)
}

/// What is to be there beside hosts and path.
///
/// # Errors
/// What this machine lacks for it, in words.
fn prepare(record: &Record, path: TrialPath, bed: &Bed) -> std::result::Result<(), String> {
    let (done, needs) = match &bed.load {
        Load::Stream | Load::Bursts => return Ok(()),
        Load::BlackHole => {
            let router = record.namespace(record.router_fd);
            let host = record.host("right").map(|host| host.name.clone());
            let done = router.and_then(|router| make_black_hole(&router, &host?, HOLE_BYTES));
            (done, "rules of routing (CONFIG_IP_MULTIPLE_TABLES)".to_owned())
        }
        Load::Streams(kind) => {
            let host = record.host("left").and_then(|host| record.namespace(host.fd));
            let done = host.and_then(|host| set_queue(&host, kind, path.rate_bits_per_s / 2));
            (
                done,
                format!(
                    "sch_{kind} and sch_htb (CONFIG_NET_SCH_{}, CONFIG_NET_SCH_HTB)",
                    kind.to_uppercase()
                ),
            )
        }
    };
    done.map_err(|failure| format!("{failure}. It needs a kernel with {needs}"))
}

/// How long a stream is measured.
fn stream_time(path: TrialPath, loss: f64) -> Duration {
    if loss <= 0.0 {
        return RATE_TIME;
    }
    let law = loss::rate_bits_per_s(CongestionControl::Reno, loss, path.rtt.as_secs_f64(), SEGMENT_BYTES);
    let rate = law.ok().flatten().unwrap_or(0.0).min(path.rate_bits_per_s as f64);
    let losses_per_s = rate / 8.0 / SEGMENT_BYTES * loss;
    let (least_s, most_s) = (RATE_TIME.as_secs_f64(), LOSSY_TIME_MAX.as_secs_f64());
    Duration::from_secs_f64((LOSSES / losses_per_s.max(f64::MIN_POSITIVE)).clamp(least_s, most_s))
}

fn measured(path: TrialPath, bed: &Bed, registry: &Registry) -> Result<Run> {
    let (bits_per_s, rtt_s) = match &bed.load {
        Load::Stream => (rate_of_one_stream(registry, NAME, stream_time(path, bed.loss))?, None),
        Load::BlackHole => (rate_of_one_stream(registry, NAME, BLACK_HOLE_TIME)?, None),
        Load::Bursts => (rate_of_bursts(registry, NAME, burst_bytes(path))?, None),
        Load::Streams(_) => {
            let streams = Streams { count: STREAMS, window_bytes: None };
            let (rate, rtt) = round_trip_beside(registry, NAME, &streams)?;
            (rate, Some(rtt.as_secs_f64()))
        }
    };
    let status = registry.ask(NAME, &Request::Status)?;
    let directions = [&status.forward, &status.back];
    Ok(Run {
        bits_per_s,
        rtt_s,
        lost: directions.iter().map(|direction| direction.trouble).sum(),
        carried_bytes: directions.iter().map(|direction| direction.counters.bytes).sum(),
        cpu_s: status.cpu_seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Remedy;
    use crate::doctor::{congestion, queue};

    const PATH: TrialPath =
        TrialPath { rtt: Duration::from_millis(50), rate_bits_per_s: 1_000_000_000, loss: 0.0 };

    fn proposed(name: &str) -> Finding {
        let mut finding = Finding::told(Subject::Network, name, "now", "why").wanted("then", false, "source");
        finding.remedy = Some(Remedy { apply: "do".into(), undo: "undo".into(), by_apply: true });
        finding
    }

    /// A proposal that is not for `--apply`.
    fn advised(name: &str, now: &str, wanted: &str) -> Finding {
        let depends = Finding::told(Subject::Network, name, now, "why").depends(wanted, "source");
        depends.remedied("do", "undo")
    }

    fn report(findings: Vec<Finding>) -> Report {
        Report { findings, beliefs: Vec::new() }
    }

    /// That of the row which `name` is in.
    fn planned(name: &str, finding: Finding, path: TrialPath) -> Vec<Plan> {
        plans(&report(vec![finding]), proofs::of(name).expect("a row"), &[], path)
    }

    fn plan(names: &[&str]) -> Plan {
        let bed = Bed { sysctls: Vec::new(), mtu_bytes: MTU_BYTES, loss: 0.0, load: Load::Stream };
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Plan { names, gain_min: 1.05, before: bed.clone(), after: bed }
    }

    fn runs(rates: [f64; 3]) -> [Run; 3] {
        rates.map(|bits_per_s| Run { bits_per_s, carried_bytes: 1_000_000_000, cpu_s: 2.0, ..Run::default() })
    }

    fn trial(name: &str, after: f64) -> Trial {
        Trial::new(PATH, &plan(&[name]), &runs([1e8; 3]), &runs([after; 3]))
    }

    fn by_apply(finding: &Finding) -> Option<bool> {
        finding.remedy.as_ref().map(|remedy| remedy.by_apply)
    }

    #[test]
    fn a_change_helps_only_beyond_noise_and_by_more_than_a_little() {
        let helps = |before: [f64; 3], after: [f64; 3]| {
            Trial::new(PATH, &plan(&[]), &runs(before), &runs(after)).helps
        };
        assert_eq!(helps([100.0, 110.0, 105.0], [200.0, 190.0, 210.0]), Some(true));
        assert_eq!(helps([100.0, 195.0, 105.0], [200.0, 190.0, 210.0]), Some(false));
        assert_eq!(helps([100.0, 101.0, 100.0], [103.0, 103.0, 104.0]), Some(false));
        // What stands still for good, and goes on with it.
        assert_eq!(helps([0.0; 3], [1.0, 2.0, 3.0]), Some(true));
        assert_eq!(helps([0.0; 3], [0.0; 3]), Some(false));
    }

    #[test]
    fn a_trial_is_over_once_no_run_can_change_its_verdict() {
        let is_settled = |load: &Load, before: &[f64], after: &[f64]| {
            let runs = |rates: &[f64]| {
                rates.iter().map(|rate| Run { bits_per_s: *rate, ..Run::default() }).collect::<Vec<Run>>()
            };
            is_settled(load, &runs(before), &runs(after))
        };
        assert!(!is_settled(&Load::Stream, &[1e8, 2e8], &[3e8, 4e8]));
        assert!(is_settled(&Load::Stream, &[1e8, 3e8], &[3e8, 4e8]), "not each run is better");
        // A stream may stand still by chance, but not in a black hole.
        assert!(!is_settled(&Load::Stream, &[0.0], &[1e8]));
        assert!(is_settled(&Load::BlackHole, &[0.0], &[1e8]));
        assert!(!is_settled(&Load::BlackHole, &[1.0], &[1e8]));
        let void = Run { bits_per_s: 1e8, lost: 1, ..Run::default() };
        assert!(super::is_settled(&Load::Stream, &[Run::default()], &[void]));
        let waits = |rtt_s| [Run { bits_per_s: 1e8, rtt_s: Some(rtt_s), ..Run::default() }];
        let load = Load::Streams("fq_codel".into());
        assert!(!super::is_settled(&load, &waits(0.09), &waits(0.05)));
        assert!(super::is_settled(&load, &waits(0.05), &waits(0.09)));
    }

    /// By chance alone each of three is better than each of three others once in 20 times.
    #[test]
    fn what_changes_nothing_is_hardly_ever_recommended_on_a_noisy_machine() {
        const TRIALS: usize = 10_000;
        let mut rng = fastrand::Rng::with_seed(7);
        let plan = plan(&[]);
        let mut helped = 0;
        for _ in 0..TRIALS {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            while before.is_empty() || !is_over(PATH, &plan, &before, &after) {
                for runs in [&mut before, &mut after] {
                    runs.push(Run { bits_per_s: 1e8 + 9e8 * rng.f64(), ..Run::default() });
                }
            }
            helped += usize::from(Trial::new(PATH, &plan, &before, &after).helps == Some(true));
        }
        assert!(helped < TRIALS / 100, "{helped} of {TRIALS}");
    }

    #[test]
    fn what_would_help_has_more_runs_and_what_does_not_has_none() {
        let is_over_after = |rates: &[f64], gain: f64| {
            let runs = |gain: f64| {
                let run = |rate: &f64| Run { bits_per_s: rate * gain, ..Run::default() };
                rates.iter().map(run).collect::<Vec<Run>>()
            };
            is_over(PATH, &plan(&[]), &runs(1.0), &runs(gain))
        };
        let five = [1e8, 1.01e8, 1.02e8, 1.01e8, 1e8];
        assert!(!is_over_after(&five[..2], 9.0));
        assert!(!is_over_after(&five[..3], 9.0), "it would help");
        assert!(is_over_after(&five[..3], 1.04), "better, but by a little");
        assert!(is_over_after(&five, 9.0));
    }

    #[test]
    fn a_stream_is_measured_until_some_packets_were_lost_between_bounds() {
        let seconds = |loss| stream_time(PATH, loss).as_secs_f64();
        assert_eq!(seconds(0.0), RATE_TIME.as_secs_f64());
        // One packet of 1000, by windows of 38.7 (sqrt(1.5 / p)): each 1.29 s.
        assert!((seconds(LOSS) - 5.164).abs() < 0.01, "{}", seconds(LOSS));
        assert_eq!(seconds(0.05), RATE_TIME.as_secs_f64());
        for loss in [1e-5, 1e-300] {
            assert_eq!(seconds(loss), LOSSY_TIME_MAX.as_secs_f64());
        }
    }

    #[test]
    fn of_small_packets_the_shorter_time_is_the_better_one() {
        let waits = |times: [f64; 3]| {
            times.map(|rtt_s| Run { bits_per_s: 1e8, rtt_s: Some(rtt_s), ..Run::default() })
        };
        let tried = |before, after| {
            let mut plan = plan(&["eth0 queue"]);
            plan.before.load = Load::Streams("pfifo_fast".into());
            Trial::new(PATH, &plan, &waits(before), &waits(after))
        };
        let helps = tried([0.08, 0.09, 0.1], [0.051, 0.05, 0.052]);
        assert_eq!(helps.helps, Some(true));
        let said = helps.sentence();
        assert!(said.contains("small packets took 90.0 ms there and back before, 51.0 after"), "{said}");
        assert!(said.contains("beside 16 streams"), "{said}");
        assert_eq!(tried([0.05, 0.05, 0.05], [0.08, 0.09, 0.1]).helps, Some(false));
    }

    /// A machine that is too busy for the path says nothing of a setting.
    #[test]
    fn where_the_path_itself_lost_packets_there_is_no_verdict_and_nothing_is_applied() {
        const NAME: &str = "net.ipv4.tcp_rmem";
        let mut after = runs([9e8; 3]);
        after[1].lost = 7;
        let trial = Trial::new(PATH, &plan(&[NAME]), &runs([1e8; 3]), &after);
        assert_eq!((trial.helps, trial.lost_by_the_path, trial.path_cpu_s_per_gb), (None, 7, 2.0));
        let said = trial.sentence();
        for words in ["3, 1 Gbit/s and 50.0 ms;", "2.0 CPU-s/GB", "no verdict: ", "7 packets"] {
            assert!(said.contains(words), "{said}");
        }
        let mut report = report(vec![proposed(NAME)]);
        judge(&mut report, &[trial], &[]);
        assert_eq!(report.findings[0].verdict, Verdict::Unproved);
        assert_eq!(by_apply(&report.findings[0]), Some(false));
    }

    #[test]
    fn what_does_not_help_and_what_was_not_tried_is_not_applied() {
        let names = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_congestion_control", "net.core.rmem_max"];
        let clock = Finding::told(Subject::Clock, "synchronised", "no", "why").wanted("yes", false, "source");
        let queue =
            Finding::told(Subject::Network, "eth0 queue", "now", "why").wanted("then", false, "source");
        let governor = Finding::told(Subject::Cpu, GOVERNOR_NAME, "powersave", "why")
            .wanted("performance", false, "source")
            .remedied("do", "undo");
        let hole =
            Finding::told(Subject::Network, "path MTU to far:1", "1", "why").wanted("2", false, "source");
        let mut report =
            report(names.map(proposed).into_iter().chain([clock, queue, hole, governor]).collect());
        judge(&mut report, &[trial(names[0], 9e8), trial(names[1], 1e8)], &[]);
        let verdicts: Vec<Verdict> = report.findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Change,
                Verdict::Told,
                Verdict::Unproved,
                Verdict::Change,
                Verdict::Unproved,
                Verdict::Change,
                Verdict::Unproved
            ]
        );
        let applied: Vec<Option<bool>> = report.findings.iter().map(by_apply).collect();
        assert_eq!(applied, [Some(true), None, Some(false), None, None, None, Some(false)]);
        let whys =
            ["helps", "100 Mbit/s before, 100 after", "of its own: a guest", "about no path", "from here"];
        for (finding, why) in report.findings.iter().zip(whys) {
            assert!(finding.why.contains(why), "{}: {}", finding.name, finding.why);
        }
    }

    #[test]
    fn what_depends_on_the_path_is_applied_only_after_a_trial_on_such_a_path() {
        const NAME: &str = congestion::DEFAULT;
        let tried = |after| {
            let mut report = report(vec![advised(NAME, "bbr", "cubic")]);
            judge(&mut report, &[trial(NAME, after)], &[]);
            (report.findings[0].verdict, by_apply(&report.findings[0]))
        };
        assert_eq!(tried(9e8), (Verdict::Change, Some(true)));
        assert_eq!(tried(1e8), (Verdict::Told, None));
        // cubic is for paths that lose little, and bbr for those that lose more: each is tried where it is for.
        let loss = |wanted: &str, loss: f64| {
            let plans = planned(NAME, advised(NAME, "now", wanted), TrialPath { loss, ..PATH });
            assert_eq!(plans[0].after.sysctls, [(NAME.to_owned(), wanted.to_owned())]);
            (plans[0].before.loss, plans[0].after.loss)
        };
        assert_eq!(loss("cubic", 0.0), (0.0, 0.0));
        assert_eq!(loss("cubic", 1e-5), (1e-5, 1e-5));
        assert_eq!(loss("bbr", 0.0), (LOSS, LOSS));
        assert_eq!(loss("bbr", 2e-4), (2e-4, 2e-4));
    }

    #[test]
    fn each_proposal_is_tried_with_what_it_is_for() {
        let load = |name: &str| planned(name, proposed(name), PATH)[0].before.clone();
        assert_eq!(load("net.ipv4.tcp_rmem").load, Load::Stream);
        assert_eq!(load("net.ipv4.tcp_sack").loss, LOSS);
        assert_eq!(load("net.ipv4.tcp_slow_start_after_idle").load, Load::Bursts);
        assert_eq!(load("net.ipv4.tcp_mtu_probing").load, Load::BlackHole);
        assert_eq!(planned("net.core.rmem_max", proposed("net.core.rmem_max"), PATH), []);
        // Where no card says how fast its line is, larger buffers are advised; both of them are one trial.
        let buffers = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(|name| advised(name, "1 2 3", "1 2 9"));
        let proof = proofs::of("net.ipv4.tcp_rmem").expect("a row");
        let base = [("net.ipv4.tcp_rmem", "1 2 3"), ("net.ipv4.tcp_sack", "1")];
        let base = base.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let both = plans(&report(buffers.to_vec()), proof, &base, PATH);
        assert_eq!(both.len(), 1);
        assert_eq!(
            (both[0].names.len(), both[0].before.sysctls.len(), both[0].after.sysctls.len()),
            (2, 2, 3)
        );
        // What cannot be changed from here is not tried.
        let mut far = proposed("net.ipv4.tcp_rmem");
        far.remedy = None;
        assert_eq!(planned("net.ipv4.tcp_rmem", far, PATH), []);
    }

    #[test]
    fn an_mtu_is_tried_once_for_cards_that_are_alike_and_left_to_the_site_though_it_helps() {
        let cards = ["eth0 MTU", "eth1 MTU"].map(|name| advised(name, "1500", "9000")).to_vec();
        let other = advised("eth2 MTU", "1500", "4096");
        let all = report([cards, vec![other]].concat());
        let plans = plans(&all, proofs::of("eth0 MTU").expect("a row"), &[], PATH);
        let mtus: Vec<(usize, u32, u32)> = plans
            .iter()
            .map(|plan| (plan.names.len(), plan.before.mtu_bytes, plan.after.mtu_bytes))
            .collect();
        assert_eq!(mtus, [(1, 1500, 4096), (2, 1500, 9000)]);
        let tried = Trial::new(PATH, &plans[1], &runs([9.41e8; 3]), &runs([9.89e8; 3]));
        assert_eq!(tried.helps, Some(true), "framing is all that is to be gained where nothing is lost");
        assert!(tried.sentence().contains("MTU 1500 and 9000"), "{}", tried.sentence());
        let mut report = report(vec![advised("eth0 MTU", "1500", "9000")]);
        judge(&mut report, &[tried], &[]);
        assert_eq!(report.findings[0].verdict, Verdict::Depends);
        assert_eq!(by_apply(&report.findings[0]), Some(false));
        assert!(report.findings[0].why.ends_with(": helps"), "{}", report.findings[0].why);
    }

    /// As of a kernel without `fq`: who has it sees the numbers.
    #[test]
    fn a_queue_that_the_kernel_does_not_have_is_unproved_with_what_it_would_need() {
        let card = Finding::told(Subject::Network, "eth0 queue", "mq of pfifo_fast", "why")
            .wanted("mq of fq", false, "source")
            .remedied("do", "undo");
        let mut default = proposed(queue::DEFAULT);
        (default.current, default.wanted) = (Some("pfifo_fast".into()), Some("fq".into()));
        let paced = advised("eth1 queue", "fq_codel", "fq");
        let mut report = report(vec![card, default, paced]);
        let plans = plans(&report, proofs::of("eth0 queue").expect("a row"), &[], PATH);
        assert_eq!(plans.len(), 1, "the default is what a device gets: one trial");
        assert_eq!(plans[0].names, ["eth0 queue", queue::DEFAULT]);
        assert_eq!(plans[0].before.load, Load::Streams("pfifo_fast".into()));
        assert_eq!(plans[0].after.load, Load::Streams("fq".into()));
        let why = "no such queue. It needs a kernel with sch_fq";
        judge(&mut report, &[], &[Untried { names: plans[0].names.clone(), why: why.into() }]);
        let verdicts: Vec<Verdict> = report.findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Unproved, Verdict::Unproved, Verdict::Depends]);
        for finding in &report.findings[..2] {
            assert!(finding.why.ends_with(&format!("; not tried: {why}")), "{}", finding.why);
            assert_eq!(by_apply(finding), Some(false));
        }
        assert!(report.findings[2].why.contains("saves the sender's CPU"), "{}", report.findings[2].why);
    }

    #[test]
    fn a_burst_is_what_the_path_has_under_way_between_bounds() {
        let bytes = |ms, rate| {
            burst_bytes(TrialPath { rtt: Duration::from_millis(ms), rate_bits_per_s: rate, loss: 0.0 })
        };
        assert_eq!(bytes(16, 1_000_000_000), 2_000_000);
        assert_eq!(bytes(1, 1_000_000), BURST_BYTES_MIN);
        assert_eq!(bytes(100, 4_000_000_000), BURST_BYTES_MAX);
    }
}
