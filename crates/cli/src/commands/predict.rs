//! `thalweg predict`: how long a transfer would take, before it begins.
//!
//! 1. Count what is at the source, for a bounded time; of what is larger, take samples ([`thalweg_mover::model::tree`]).
//! 2. Go by what earlier transfers and probes of the same way took; without any, measure for some seconds.
//! 3. Say it term by term, with a range, and what the plan would be and which limit binds.

use crate::args::copy::Verify;
use crate::args::way::PredictArgs;
use crate::commands::probe::{self, Stand, how};
use crate::exit::Exit;
use crate::place::Places;
use crate::{json, out, tell, units};
use serde_json::json;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_client::fars::Fars;
use thalweg_client::identity;
use thalweg_client::job::{Asked, Job};
use thalweg_client::profiles::Profiles;
use thalweg_client::reach::Reach;
use thalweg_lab::probe::find;
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::model::history::{Probed, Way};
use thalweg_mover::model::prediction::{self, Deadline, Knowledge, Known, Missing, Prediction, Term, Work};
use thalweg_mover::model::{ModelError, tree};
use thalweg_mover::plan::{self, Plan};
use thalweg_mover::run::copy::{From, To};
use thalweg_wire::{Kind, RelativePath};

/// Descents into a tree that is too large to count.
const DESCENTS_MAX: usize = 400;
/// Directories of one level that a descent chooses among; of more, one of these is taken.
const CHOICES_MAX: usize = 65_536;
/// Levels of a descent.
const DEPTH_MAX: usize = 256;

/// What is at the source.
struct Size {
    work: Work,
    /// How it is known.
    how: String,
}

/// `thalweg predict`.
///
/// # Errors
/// What is wrong with the command line; when a place cannot be reached or listed.
pub fn predict(args: &PredictArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read(&typed, None, places)?;
    let mut fars = Fars::new(how(&args.ask, places, &state));
    let job = asked.reach(&mut fars, &state)?;
    let size = match &job.from {
        From::Local(_) | From::Far(..) => count(&Reach::open(&args.source, &mut fars)?, args.scan)?,
        From::Zero(bytes) => made(*bytes),
        From::Simulated(spec) => made(spec.bytes),
        From::Noise(bytes, _) => made(*bytes),
        From::Dataset(spec, _) => Size {
            work: Work { bytes: spec.bytes() as f64, entries: spec.files as f64, ..Work::default() },
            how: "as asked".to_owned(),
        },
    };
    let work = Work {
        reads_back: args.verify != Verify::Written,
        bytes_per_s_max: args.bwlimit.map(|bits| (bits / 8).max(1) as f64),
        ..size.work
    };
    let stand = Stand::new(&job, args.streams, args.measure, &state, args.ask.json)?;
    let asked =
        plan::Asked { streams: args.streams, rate_bits_per_s: args.bwlimit, ..plan::Asked::default() };
    let path = stand.path();
    let plan = plan::plan(&asked, &path);
    let mut known = Profiles::read(&state).of(&job.from, &job.to).cloned().unwrap_or_default();
    let is_real =
        matches!(job.from, From::Local(_) | From::Far(..)) && matches!(job.to, To::Local(_) | To::Far(..));
    if known.knowledge().byte.is_none() && is_real && !args.no_measure && work.bytes_per_s_max.is_none() {
        measure(&stand, &job, &state, &mut known)?;
    }
    drop(stand);
    drop(fars);
    let knowledge = completed(known.knowledge(), path.rtt);
    let predicted = prediction::predict(&knowledge, &work)
        .map_err(|error: ModelError| Failure::new(FailureKind::Internal, "predict", error))?;
    let verdict = match (&predicted, args.deadline) {
        (Ok(predicted), Some(deadline)) => Some(prediction::deadline(predicted, deadline.as_secs_f64())),
        _ => None,
    };
    let said = Said { job: &job, args, size: &size, work, known: &known, plan: &plan, verdict };
    match args.ask.json {
        true => said.as_json(&predicted),
        false => said.tell(&predicted),
    }
    Ok(match (predicted, verdict) {
        (Err(_), _) | (_, Some(Deadline::Uncertain | Deadline::TooLate)) => Exit::Partial,
        _ => Exit::Done,
    })
}

fn made(bytes: u64) -> Size {
    let work = Work { bytes: bytes as f64, entries: 1.0, ..Work::default() };
    Size { work, how: "as asked".to_owned() }
}

/// Nothing is remembered: a short probe, which is remembered too.
fn measure(stand: &Stand<'_>, job: &Job, state: &Path, known: &mut Way) -> Result<()> {
    let measured = stand.measure()?;
    let probed = probe::remembered(&measured, &find(&measured));
    Profiles::probed(state, &job.from, &job.to, probed.clone());
    known.probed = Some(probed);
    Ok(())
}

/// Where no transfer has shown it: dialling and TLS take four round trips and some computing, the last round of syncs half a
/// second; each by a factor of three either way.
fn completed(knowledge: Knowledge, rtt: Option<Duration>) -> Knowledge {
    const UNKNOWN: f64 = 0.55;
    let rtts = rtt.map_or(0.0, |rtt| rtt.as_secs_f64()) * 4.0;
    Knowledge {
        start: knowledge.start.or(Some(Known { count: 0, ..Known::measured(0.1 + rtts, UNKNOWN) })),
        end: knowledge.end.or(Some(Known { count: 0, ..Known::measured(0.5 + rtts, UNKNOWN) })),
        ..knowledge
    }
}

/// Counts for so long; then takes samples for as long again.
fn count(reach: &Reach, time: Duration) -> Result<Size> {
    let until = Instant::now() + time;
    let (mut entries, mut bytes, mut troubles) = (0u64, 0u64, 0u64);
    let began = Instant::now();
    let listed = reach.list(true, &mut |found| {
        match found {
            Found::Entry(entry) => {
                entries += u64::from(!entry.path.is_root());
                if matches!(entry.kind, Kind::File { .. }) {
                    bytes = bytes.saturating_add(entry.content_bytes());
                }
            }
            Found::Trouble(_) => troubles += 1,
        }
        match Instant::now() < until {
            true => Ok(()),
            false => Err(Failure::new(FailureKind::Stopped, "count", "the time is over")),
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let unseen = if troubles > 0 { format!("; {troubles} could not be listed") } else { String::new() };
    match listed {
        Ok(()) => {
            let work = Work { bytes: bytes as f64, entries: entries as f64, ..Work::default() };
            Ok(Size { work, how: format!("counted in {seconds:.1} s{unseen}") })
        }
        Err(failure) if failure.kind == FailureKind::Stopped => {
            let mut choose = |number: u64| random() % number.max(1);
            let seen = sample(reach, Instant::now() + time, &mut choose)?;
            // No fewer than were counted.
            let work = Work {
                bytes: seen.bytes.0.max(bytes as f64),
                bytes_sd: seen.bytes.1,
                entries: seen.entries.0.max(entries as f64),
                entries_sd: seen.entries.1,
                ..Work::default()
            };
            let how = format!(
                "estimated from {} descents: {} entries were counted in {seconds:.1} s, which were not all{unseen}",
                seen.descents,
                units::count(entries)
            );
            Ok(Size { work, how })
        }
        Err(failure) => Err(failure),
    }
}

/// A number that nobody foresees; the standard library keys its hashes with one.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Walks down by chance, again and again.
fn sample(reach: &Reach, until: Instant, choose: &mut dyn FnMut(u64) -> u64) -> Result<tree::Estimate> {
    let mut descents = Vec::new();
    while descents.len() < DESCENTS_MAX && (descents.len() < 2 || Instant::now() < until) {
        let mut levels = Vec::new();
        let mut at = RelativePath::root();
        while levels.len() < DEPTH_MAX {
            let (mut level, mut below) = (tree::Level::default(), Vec::new());
            let listed = reach.below(at.as_bytes()).list(false, &mut |found| {
                let Found::Entry(entry) = found else { return Ok(()) };
                if entry.path.is_root() {
                    return Ok(());
                }
                level.entries += 1.0;
                match entry.kind {
                    Kind::File { .. } => level.bytes += entry.content_bytes() as f64,
                    Kind::Directory => {
                        level.directories += 1;
                        if below.len() < CHOICES_MAX {
                            below.push(entry.path);
                        }
                    }
                    _ => {}
                }
                Ok(())
            });
            // One that cannot be listed counts as empty, as it does for a copy.
            if listed.is_err() && levels.is_empty() {
                return listed.map(|()| tree::Estimate::default());
            }
            levels.push(level);
            let Some(next) = below.get(choose(below.len() as u64) as usize) else { break };
            let Ok(path) = at.join(next.as_bytes()) else { break };
            at = path;
        }
        descents.push(tree::descent(&levels));
    }
    Ok(tree::estimate(&descents))
}

/// What is said, and in which form.
struct Said<'a> {
    job: &'a Job,
    args: &'a PredictArgs,
    size: &'a Size,
    work: Work,
    known: &'a Way,
    plan: &'a Plan,
    verdict: Option<Deadline>,
}

impl Said<'_> {
    /// The limits in bits a second, each with its equation; the least binds.
    fn limits(&self) -> Vec<(String, f64, String)> {
        let mut limits = Vec::new();
        if let Some(rate) = self.args.bwlimit {
            limits.push(("rate limit".to_owned(), rate as f64, "--bwlimit".to_owned()));
        }
        if let Some(window) = &self.plan.window {
            let streams = self.plan.streams.value;
            let equation = format!(
                "window law: {streams} streams x {} / {:.1} ms ({} of the {})",
                units::size(window.bytes),
                window.rtt.as_secs_f64() * 1e3,
                window.setting,
                window.side
            );
            let rate = window.rate_bits_per_s() as f64 * f64::from(streams);
            limits.push(("windows".to_owned(), rate, equation));
        }
        if let Some(Probed { stages, .. }) = &self.known.probed {
            let probed =
                |(name, bits): &(String, f64)| (name.clone(), *bits, "measured by a probe".to_owned());
            limits.extend(stages.iter().map(probed));
        }
        if let Some(byte) = self.known.knowledge().byte.filter(|_| self.known.count() > 0) {
            let equation = format!("median of {} transfers of this way", byte.count);
            limits.push(("the way as a whole".to_owned(), 8.0 / byte.median(), equation));
        }
        limits.retain(|(_, bits, _)| bits.is_finite() && *bits > 0.0);
        limits
    }

    fn binding(&self, limits: &[(String, f64, String)]) -> Option<usize> {
        (0..limits.len()).min_by(|&a, &b| limits[a].1.total_cmp(&limits[b].1))
    }

    fn as_json(&self, predicted: &std::result::Result<Prediction, Missing>) {
        let limits = self.limits();
        let binding = self.binding(&limits).map(|at| limits[at].0.clone());
        let limits: Vec<serde_json::Value> = limits
            .iter()
            .map(|(name, bits, why)| json!({"limit": name, "bits_per_s": bits, "why": why}))
            .collect();
        let told = predicted.as_ref().ok();
        json::tell(&json!({
            "event": "predicted", "from": self.job.names.0, "to": self.job.names.1,
            "bytes": self.work.bytes, "bytes_sd": self.work.bytes_sd,
            "entries": self.work.entries, "entries_sd": self.work.entries_sd, "counted": self.size.how,
            "seconds": told.map(|told| told.seconds), "low_s": told.map(|told| told.low_s),
            "high_s": told.map(|told| told.high_s), "p99_s": told.map(|told| told.p99_s),
            "terms": told.map(json::terms), "transfers": self.known.count(), "probe": self.known.probed,
            "missing": predicted.as_ref().err().map(|missing| missing.0),
            "limits": limits, "binds": binding, "plan": json::plan(self.plan),
            "deadline_s": self.args.deadline.map(|time| time.as_secs_f64()), "deadline": self.verdict,
        }));
    }

    fn tell(&self, predicted: &std::result::Result<Prediction, Missing>) {
        let work = &self.work;
        let mut size =
            format!("{} in {}", units::size(work.bytes as u64), units::entries(work.entries as u64));
        if work.bytes_sd > 0.0 || work.entries_sd > 0.0 {
            let share = |sd: f64, of: f64| units::share(sd / of.max(1.0));
            size = format!(
                "about {size} (standard errors {} and {})",
                share(work.bytes_sd, work.bytes),
                share(work.entries_sd, work.entries)
            );
        }
        match predicted {
            Ok(told) => out::tell(&format!(
                "{}, between {} and {} (95 %), {} at P99: {size}",
                units::time(told.seconds),
                units::time(told.low_s),
                units::time(told.high_s),
                units::time(told.p99_s),
            )),
            Err(Missing(term)) => out::tell(&format!(
                "nothing is known of {} on this way yet, so no time can be said: {size}. {}",
                term.name(),
                match term {
                    Term::Bytes => "To learn it: `thalweg probe`, or a copy.",
                    _ => "To learn it: one copy of such files.",
                }
            )),
        }
        out::tell(&format!("({} -> {}; {})", self.job.names.0, self.job.names.1, self.size.how));
        if let Ok(told) = predicted {
            self.terms(told);
        }
        let limits = self.limits();
        if let Some(binding) = self.binding(&limits) {
            out::tell("");
            for (at, (name, bits, why)) in limits.iter().enumerate() {
                let mark = if at == binding { " < binds" } else { "" };
                out::tell(&format!("  {name:<20} {:>14}  {why}{mark}", units::bit_rate(*bits)));
            }
        }
        out::tell("");
        tell::plan_lines(self.plan).iter().for_each(|line| out::tell(line));
        if let (Some(time), Some(verdict)) = (self.args.deadline, self.verdict) {
            let words = match verdict {
                Deadline::Holds => "holds: 99 of 100 such transfers take less",
                Deadline::Uncertain => "is kept more often than not, but not in 99 of 100 cases",
                Deadline::TooLate => "is not kept",
            };
            out::tell(&format!("\ndeadline of {}: {words}", units::time(time.as_secs_f64())));
        }
    }

    fn terms(&self, told: &Prediction) {
        out::tell("\ntime = start-up + entries + bytes / rate + verification + last sync (001 Eqs 3 and 5)");
        for (term, seconds) in &told.terms {
            let why = match term {
                Term::Start => "until the first content stands verified".to_owned(),
                Term::Entries => {
                    format!(
                        "{} x {}",
                        units::count(self.work.entries as u64),
                        units::time(seconds / self.work.entries)
                    )
                }
                Term::Bytes => {
                    let rate = units::bit_rate(self.work.bytes * 8.0 / seconds);
                    let narrow = self.known.narrowest.clone();
                    let narrow = narrow.or_else(|| self.known.probed.as_ref()?.narrowest.clone());
                    let narrow =
                        narrow.map_or(String::new(), |stage| format!("; narrowest of late: {stage}"));
                    format!("{} at {rate}{narrow}", units::size(self.work.bytes as u64))
                }
                Term::Verification => "reading back what was written".to_owned(),
                Term::End => "after the last content".to_owned(),
            };
            out::tell(&format!("  {:<14} {:>10}  {why}", term.name(), units::time(*seconds)));
        }
        if self.args.verify == Verify::Written {
            out::tell("  verification   with the write: nothing extra");
        }
        let rests = match (self.known.count(), &self.known.probed) {
            (0, Some(_)) => "a probe; no transfer of this way is remembered yet".to_owned(),
            (0, None) => "the rate limit that was asked for".to_owned(),
            (1, _) => "1 earlier transfer of this way".to_owned(),
            (many, _) => format!("{many} earlier transfers of this way"),
        };
        out::tell(&format!("rests on: {rests}"));
    }
}
