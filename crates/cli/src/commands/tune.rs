//! `thalweg tune`: finds settings for a way by trial, and remembers them for later copies.
//!
//! 1. The way as a copy would begin it now, once: how much is moved in so much time.
//! 2. [`Search`] says what to measure next: so many bytes of the source, into a scratch directory, until they are durable.
//! 3. What is better than what a copy would choose by itself goes into the profile of the way.
//!
//! Bounded in time and in bytes; each trial is stopped after twice the time that it should take. What is under trial when
//! either is used up is not kept.

use super::probe::{Stand, how};
use crate::args::tune::TuneArgs;
use crate::exit::Exit;
use crate::place::Places;
use crate::{json, out, units};
use knobs::{Knobs, small_chunk_bytes};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use thalweg_client::fars::Fars;
use thalweg_client::job::{Asked, Job};
use thalweg_client::profiles::Profiles;
use thalweg_client::{identity, routes};
use thalweg_mover::basin::{Evidence, judge};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::plan::{self, Plan, Tuned, show_rate};
use thalweg_mover::run::copy::{From, To, Wishes};
use thalweg_mover::tune::search::{Decision, Search, Setting};

mod knobs;

/// A trial takes so much of the time that there is, but no longer than that: with the time that is usual, a hundred of them
/// have room, and every knob has its turn.
const TRIALS: u32 = 45;
const TRIAL: (Duration, Duration) = (Duration::from_millis(700), Duration::from_secs(2));
/// And so much of the bytes: with those that are usual, four streams have 16 chunks of 4 MiB each.
const TRIALS_OF_BYTES: u64 = 64;
/// However slow the way is, so many trials have their time.
const TRIALS_MIN: u32 = 12;
/// Chunks that each stream has through in a trial at least.
const CHUNKS_MIN: u64 = 2;
/// Round trips in a trial at least: a stream starts slowly.
const TRIAL_ROUND_TRIPS: u32 = 20;
/// Bytes of one trial: fewer say nothing, more are not worth the room at the destination.
const TRIAL_BYTES: (u64, u64) = (4 << 20, 2 << 30);

/// `thalweg tune`.
///
/// # Errors
/// What is wrong with the command line; when the far place cannot be reached; when not even the way as it is can be measured;
/// `Stopped`.
pub fn tune(args: &TuneArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read("tune", &typed, None, places)?;
    let mut fars = Fars::new(how(&args.ask, places, &state));
    let job = asked.reach(&mut fars, &state)?;
    if !matches!(job.from, From::Local(_) | From::Far(..)) || !matches!(job.to, To::Local(_) | To::Far(..)) {
        let cause = "settings are tuned for real places";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    let route = routes::of(&job.from, &job.to);
    let forget = || {
        Profiles::tuned(&state, &job.from, &job.to, None);
        if let Some(route) = &route {
            routes::forget(&state, route);
        }
    };
    if args.forget {
        forget();
        match args.ask.json {
            true => json::tell(&json!({"event": "forgotten", "from": job.names.0, "to": job.names.1})),
            false => out::tell("forgotten: copies of this way start as if nothing had been found for it"),
        }
        return Ok(Exit::Done);
    }
    let began = Instant::now();
    let stand = Stand::new(&job, None, args.time, &state, args.ask.json)?;
    let known = Profiles::read(&state);
    let known = known.of(&job.from, &job.to).and_then(|way| way.tuned.clone());
    let learned = route.as_ref().and_then(|route| routes::known(&state, route));
    let path = stand.path();
    let untuned = plan::plan(&plan::Asked::default(), &path);
    let now =
        plan::plan(&plan::Asked::default(), &plan::Path { tuned: known.clone(), learned, ..path.clone() });
    let mut trials = Trials {
        stand: &stand,
        args,
        began,
        time: trial_time(args.time, path.rtt),
        bytes: (args.bytes / 4).clamp(TRIAL_BYTES.0, TRIAL_BYTES.1),
        spent_bytes: 0,
        last_bytes: 0,
        count: 0,
        longest: Duration::ZERO,
        evidence: None,
    };
    let known = known.unwrap_or_default();
    let entries = trials.size(&now, &known)?;
    let is_far = matches!(job.from, From::Far(..)) || job.is_push();
    let knobs = Knobs::of(is_far, job.is_push(), &now, &known, (trials.bytes, entries));
    knobs.left_out.iter().for_each(|(knob, why)| tell_left_out(args, knob, why));
    let mut search = Search::new(knobs.ladders());
    let mut stopped = None;
    while let Some(setting) = search.next() {
        if let Some(why) = trials.is_used_up() {
            search.stop(why);
            stopped = Some(why);
            break;
        }
        let told = search.decisions().len();
        let measured = trials.measure(&knobs.words(&setting), |wishes| knobs.apply(&setting, wishes))?;
        search.measured(measured.map_err(|failure| failure.to_string()));
        search.decisions()[told..].iter().for_each(|decision| tell(args, &knobs, decision));
    }
    if let Some(last) = search.decisions().last().filter(|last| last.why == OVER || last.why == BYTES_OVER) {
        tell(args, &knobs, last);
    }
    if let Some(why) = stopped {
        let is_tried = |at: usize| search.decisions().iter().any(|decision| decision.ladder == Some(at));
        let not_tried = knobs.all.iter().enumerate().filter(|(at, _)| !is_tried(*at));
        not_tried.for_each(|(_, knob)| tell_left_out(args, knob.name(), why));
    }
    let found = trials.rate_of(&search).and_then(|rate| knobs.found(search.kept(), &untuned, rate as u64));
    let has_changed = search.kept() != search.start();
    if has_changed && !args.dry_run {
        forget();
        if let Some(found) = &found {
            Profiles::tuned(&state, &job.from, &job.to, Some(found.clone()));
        }
    }
    let said = Said { args, job: &job, knobs: &knobs, search: &search, trials: &trials, found };
    if args.ask.json {
        json::tell(&said.as_json())
    } else {
        said.tell()
    }
    drop(fars);
    Ok(Exit::Done)
}

const OVER: &str = "the time is over";
const BYTES_OVER: &str = "the bytes that may be moved are used up";

fn trial_time(time: Duration, rtt: Option<Duration>) -> Duration {
    let slowly = rtt.unwrap_or_default() * TRIAL_ROUND_TRIPS;
    (time / TRIALS).clamp(TRIAL.0, TRIAL.1).max(slowly.min(time / 10))
}

/// What is measured, and what it has cost so far.
struct Trials<'a> {
    stand: &'a Stand<'a>,
    args: &'a TuneArgs,
    began: Instant,
    /// One trial takes about so long.
    time: Duration,
    /// And moves so much.
    bytes: u64,
    spent_bytes: u64,
    last_bytes: u64,
    count: u32,
    longest: Duration,
    /// Of the last trial.
    evidence: Option<Evidence>,
}

impl Trials<'_> {
    /// Finds out how much a trial is to move. Returns the entries that it moved.
    fn size(&mut self, now: &Plan, known: &Tuned) -> Result<u64> {
        let (streams, segment) = (now.streams.value, now.segment_bytes.value);
        let longest = self.args.time / TRIALS_MIN;
        let rate = loop {
            let rate = self.measure("the way as it is", |wishes| {
                wishes.asked.streams = Some(streams);
                wishes.asked.request_bytes = Some(segment);
                wishes.asked.chunk_bytes = Some(small_chunk_bytes(segment.into()));
                wishes.disk.depth = known.io_depth;
                wishes.link.congestion = known.congestion.clone();
            })??;
            // What was cut off shows nothing before each stream had some chunks through.
            let is_cut = self.longest > self.time.mul_f64(1.5);
            let wanted = u64::from(streams) * small_chunk_bytes(segment.into()) * CHUNKS_MIN;
            if !is_cut || self.last_bytes >= wanted || self.time >= longest {
                break rate;
            }
            self.time = (self.time * 2).min(longest);
            self.longest = Duration::ZERO;
        };
        let wanted = (rate / 8.0 * self.time.as_secs_f64()) as u64;
        let most = TRIAL_BYTES.1.min(self.args.bytes / TRIALS_OF_BYTES).max(TRIAL_BYTES.0);
        self.bytes = wanted.clamp(TRIAL_BYTES.0, most);
        Ok(self.evidence.as_ref().map_or(0, |evidence| evidence.entries))
    }

    /// Bits a second until it was durable. The outer error ends everything.
    fn measure(&mut self, words: &str, change: impl FnOnce(&mut Wishes)) -> Result<Result<f64>> {
        let began = Instant::now();
        let measured = self.stand.trial(words, self.bytes, self.time, change)?;
        self.longest = self.longest.max(began.elapsed());
        self.count += 1;
        Ok(measured.map(|(rate, evidence)| {
            self.spent_bytes += rate.bytes;
            self.last_bytes = rate.bytes;
            self.evidence = Some(evidence);
            rate.bytes as f64 * 8.0 / rate.seconds.max(1e-9)
        }))
    }

    fn is_used_up(&self) -> Option<&'static str> {
        if self.began.elapsed() + self.longest > self.args.time {
            return Some(OVER);
        }
        (self.spent_bytes + self.bytes > self.args.bytes).then_some(BYTES_OVER)
    }

    /// What the setting that is kept reached when it was last measured, in bits a second.
    fn rate_of(&self, search: &Search) -> Option<f64> {
        let told =
            |decision: &Decision| match (&decision.to == search.kept(), &decision.from == search.kept()) {
                (true, _) if decision.rate > 0.0 => Some(decision.rate),
                (_, true) if decision.rate_before > 0.0 => Some(decision.rate_before),
                _ => None,
            };
        search.decisions().iter().rev().find_map(told)
    }
}

fn shown(rate: f64) -> String {
    if rate > 0.0 { show_rate(rate as u64) } else { "nothing".to_owned() }
}

/// One decision, when it was made.
fn tell(args: &TuneArgs, knobs: &Knobs, decision: &Decision) {
    let step = |ladder: usize, setting: &Setting| knobs.all[ladder].word(setting[ladder]);
    if args.ask.json {
        let (knob, from, to) = match decision.ladder {
            Some(at) => (Some(knobs.all[at].name()), step(at, &decision.from), step(at, &decision.to)),
            None => (None, knobs.words(&decision.from), knobs.words(&decision.to)),
        };
        json::tell(&json!({
            "event": "trial", "knob": knob, "from": from, "to": to,
            "bits_per_s_before": decision.rate_before, "bits_per_s": decision.rate,
            "kept": decision.is_kept, "why": decision.why,
        }));
        return;
    }
    let what = match decision.ladder {
        Some(at) => {
            format!("{} {} -> {}", knobs.all[at].name(), step(at, &decision.from), step(at, &decision.to))
        }
        None => "all of it together, against where it began".to_owned(),
    };
    let kept = if decision.is_kept { "kept" } else { "not kept" };
    out::tell(&format!(
        "{what}: {} instead of {}; {kept}: {}",
        shown(decision.rate),
        shown(decision.rate_before),
        decision.why
    ));
}

/// A knob that is not tried.
fn tell_left_out(args: &TuneArgs, knob: &str, why: &str) {
    match args.ask.json {
        true => json::tell(&json!({"event": "left-out", "knob": knob, "why": why})),
        false => out::tell(&format!("{knob}: not tried: {why}")),
    }
}

/// The last word.
struct Said<'a> {
    args: &'a TuneArgs,
    job: &'a Job,
    knobs: &'a Knobs,
    search: &'a Search,
    trials: &'a Trials<'a>,
    found: Option<Tuned>,
}

impl Said<'_> {
    fn changes(&self) -> Vec<(&'static str, String, String)> {
        let both = self.search.start().iter().zip(self.search.kept());
        let changed = self.knobs.all.iter().zip(both).filter(|(_, (from, to))| from != to);
        changed.map(|(knob, (&from, &to))| (knob.name(), knob.word(from), knob.word(to))).collect()
    }

    fn bound(&self) -> Option<String> {
        Some(judge(self.trials.evidence.as_ref()?)?.sentence)
    }

    fn as_json(&self) -> Value {
        let changes: Vec<Value> = self
            .changes()
            .into_iter()
            .map(|(knob, from, to)| json!({"knob": knob, "from": from, "to": to}))
            .collect();
        json!({
            "event": "tuned", "from": self.job.names.0, "to": self.job.names.1, "changes": changes,
            "bits_per_s": self.trials.rate_of(self.search), "profile": self.found,
            "remembered": !changes.is_empty() && !self.args.dry_run,
            "trials": self.trials.count, "bytes": self.trials.spent_bytes,
            "seconds": self.trials.began.elapsed().as_secs_f64(), "bound": self.bound(),
        })
    }

    fn tell(&self) {
        let changes = self.changes();
        let spent = format!(
            "{} trials, {} in {}",
            self.trials.count,
            units::size(self.trials.spent_bytes),
            units::time(self.trials.began.elapsed().as_secs_f64())
        );
        out::tell("");
        if changes.is_empty() {
            out::tell(&format!("nothing was better beyond noise than what a copy starts with ({spent})"));
        } else {
            let changes: Vec<String> =
                changes.iter().map(|(knob, from, to)| format!("{knob} {to} instead of {from}")).collect();
            let rate =
                self.trials.rate_of(self.search).map_or(String::new(), |rate| format!(": {}", shown(rate)));
            out::tell(&format!("{}{rate} ({spent})", changes.join(", ")));
            out::tell(match self.args.dry_run {
                true => "not remembered: it was a dry run",
                false => {
                    "later copies of this way start so; `thalweg tune --forget` with the same places takes it back"
                }
            });
        }
        if let Some(bound) = self.bound() {
            out::tell(&format!("what bounds it: {bound}"));
        }
    }
}
