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
use thalweg_mover::tune::search::{Decision, Ladder, Search, Setting};
use thalweg_sys::socket;
use thalweg_wire::limits;

/// A trial takes so much of the time that there is, so that most comparisons come to their end.
const TRIALS: u32 = 45;
const TRIAL: (Duration, Duration) = (Duration::from_millis(700), Duration::from_secs(5));
/// However slow the way is, so many trials have their time.
const TRIALS_MIN: u32 = 12;
/// Chunks that each stream has through in a trial at least.
const CHUNKS_MIN: u64 = 2;
/// Round trips in a trial at least: a stream starts slowly.
const TRIAL_ROUND_TRIPS: u32 = 20;
/// Bytes of one trial: fewer say nothing, more are not worth the room at the destination.
const TRIAL_BYTES: (u64, u64) = (4 << 20, 2 << 30);
/// Files at once matter only where there are so many.
const ENTRIES_MIN: u64 = 64;

const STREAMS: &[u64] = &[1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const REQUEST_BYTES: &[u64] = &[256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
const IO_DEPTHS: &[u64] = &[1, 2, 4, 8, 16];
const CONCURRENCY: &[u64] = &[64, 256, 1024, 4096];
const CONGESTION: &[&str] = &["cubic", "bbr", "reno"];
const _: () = assert!(STREAMS[STREAMS.len() - 1] == plan::STREAMS_MAX as u64);
const _: () = assert!(REQUEST_BYTES[REQUEST_BYTES.len() - 1] <= plan::CHUNK_BYTES);
const _: () = assert!(IO_DEPTHS[IO_DEPTHS.len() - 1] <= limits::IO_DEPTH_MAX as u64);
const _: () = assert!(CONCURRENCY[CONCURRENCY.len() - 1] <= limits::CONCURRENCY_MAX as u64);

/// What a ladder is of, and the values of its steps.
enum Knob {
    Streams(Vec<u64>),
    Congestion(Vec<Option<String>>),
    Request(Vec<u64>),
    IoDepth(Vec<u64>),
    Concurrency(Vec<u64>),
}

/// `thalweg tune`.
///
/// # Errors
/// What is wrong with the command line; when the far place cannot be reached; when not even the way as it is can be measured;
/// `Stopped`.
pub fn tune(args: &TuneArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read(&typed, None, places)?;
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
    let entries = trials.size(&now, known.as_ref())?;
    let congestion = known.as_ref().and_then(|known| known.congestion.clone());
    let knobs = knobs(&job, &now, congestion.as_ref(), entries);
    let mut search = Search::new(knobs.iter().map(|knob| knob.ladder(&now, congestion.as_ref())).collect());
    while let Some(setting) = search.next() {
        if let Some(why) = trials.is_used_up() {
            search.stop(why);
            break;
        }
        let told = search.decisions().len();
        let measured = trials.measure(&words(&knobs, &setting), |wishes| apply(&knobs, &setting, wishes))?;
        search.measured(measured.map_err(|failure| failure.to_string()));
        search.decisions()[told..].iter().for_each(|decision| tell(args, &knobs, decision));
    }
    if let Some(last) = search.decisions().last().filter(|last| last.why == OVER || last.why == BYTES_OVER) {
        tell(args, &knobs, last);
    }
    let found = found(&search, &knobs, &untuned, trials.rate_of(&search));
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

/// Small chunks, so that little comes late at the end of a trial; the same of all candidates whose requests are no larger.
fn chunk_bytes(request_bytes: u32) -> u64 {
    u64::from(request_bytes).max(1 << 20)
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
    fn size(&mut self, now: &Plan, known: Option<&Tuned>) -> Result<u64> {
        let known = known.cloned().unwrap_or_default();
        let (streams, segment) = (now.streams.value, now.segment_bytes.value);
        let longest = self.args.time / TRIALS_MIN;
        let rate = loop {
            let rate = self.measure("the way as it is", |wishes| {
                wishes.asked.streams = Some(streams);
                wishes.asked.request_bytes = Some(segment);
                wishes.asked.chunk_bytes = Some(chunk_bytes(segment));
                wishes.disk.depth = known.io_depth;
                wishes.link.congestion = known.congestion.clone();
            })??;
            // What was cut off shows nothing before each stream had some chunks through.
            let is_cut = self.longest > self.time.mul_f64(1.5);
            let wanted = u64::from(streams) * chunk_bytes(segment) * CHUNKS_MIN;
            if !is_cut || self.last_bytes >= wanted || self.time >= longest {
                break rate;
            }
            self.time = (self.time * 2).min(longest);
            self.longest = Duration::ZERO;
        };
        let wanted = (rate / 8.0 * self.time.as_secs_f64()) as u64;
        let most = TRIAL_BYTES.1.min(self.args.bytes / u64::from(TRIALS)).max(TRIAL_BYTES.0);
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

/// What can be turned on this way.
fn knobs(job: &Job, now: &Plan, congestion: Option<&String>, entries: u64) -> Vec<Knob> {
    let is_far = matches!(job.from, From::Far(..)) || job.is_push();
    let with = |values: &[u64], start: u64| {
        let mut values = values.to_vec();
        values.push(start);
        values.sort_unstable();
        values.dedup();
        values
    };
    let mut knobs = Vec::new();
    // More than on a path within a room gain nothing there, and are never tuned to by a copy either.
    let is_near = stand_is_near(now);
    let streams: Vec<u64> = STREAMS.iter().copied().filter(|streams| !is_near || *streams <= 8).collect();
    knobs.push(Knob::Streams(with(&streams, now.streams.value.into())));
    if is_far {
        let mut names = vec![None];
        // Of a far side that sends nobody knows what it has: it says so when it is tried.
        let permitted = job.is_push().then(permitted_congestion);
        let is_there =
            |name: &&&str| permitted.as_ref().is_none_or(|there| there.iter().any(|is| is == **name));
        names.extend(CONGESTION.iter().filter(is_there).map(|name| Some((*name).to_owned())));
        if congestion.is_some() && !names.contains(&congestion.cloned()) {
            names.push(congestion.cloned());
        }
        knobs.push(Knob::Congestion(names));
    }
    knobs.push(Knob::Request(with(REQUEST_BYTES, now.segment_bytes.value.into())));
    knobs.push(Knob::IoDepth(with(IO_DEPTHS, now.disk.io_depth.value.into())));
    if entries >= ENTRIES_MIN {
        knobs.push(Knob::Concurrency(with(CONCURRENCY, now.concurrency.value.into())));
    }
    knobs
}

fn stand_is_near(now: &Plan) -> bool {
    now.share_bytes.is_none()
}

/// What this machine has, and lets us have.
fn permitted_congestion() -> Vec<String> {
    let is_root = thalweg_sys::usage::effective_uid() == 0;
    let words = if is_root { socket::available_congestion() } else { socket::allowed_congestion() };
    words.unwrap_or_default()
}

impl Knob {
    fn name(&self) -> &'static str {
        match self {
            Knob::Streams(_) => "streams",
            Knob::Congestion(_) => "congestion control",
            Knob::Request(_) => "request",
            Knob::IoDepth(_) => "I/O depth",
            Knob::Concurrency(_) => "concurrency",
        }
    }

    /// The step in words.
    fn word(&self, step: usize) -> String {
        match self {
            Knob::Streams(values) | Knob::IoDepth(values) | Knob::Concurrency(values) => {
                values[step].to_string()
            }
            Knob::Request(values) => units::size(values[step]),
            Knob::Congestion(names) => {
                names[step].clone().unwrap_or_else(|| "the system's choice".to_owned())
            }
        }
    }

    fn ladder(&self, now: &Plan, congestion: Option<&String>) -> Ladder {
        let at = |values: &[u64], start: u64| values.iter().position(|value| *value == start).unwrap_or(0);
        let (count, start) = match self {
            Knob::Streams(values) => (values.len(), at(values, now.streams.value.into())),
            Knob::Request(values) => (values.len(), at(values, now.segment_bytes.value.into())),
            Knob::IoDepth(values) => (values.len(), at(values, now.disk.io_depth.value.into())),
            Knob::Concurrency(values) => (values.len(), at(values, now.concurrency.value.into())),
            Knob::Congestion(names) => {
                (names.len(), names.iter().position(|name| name.as_ref() == congestion).unwrap_or(0))
            }
        };
        Ladder {
            name: self.name(),
            steps: (0..count).map(|step| self.word(step)).collect(),
            start,
            is_ordered: !matches!(self, Knob::Congestion(_)),
        }
    }
}

fn apply(knobs: &[Knob], setting: &Setting, wishes: &mut Wishes) {
    for (knob, &step) in knobs.iter().zip(setting) {
        match knob {
            Knob::Streams(values) => wishes.asked.streams = u16::try_from(values[step]).ok(),
            Knob::Request(values) => {
                wishes.asked.request_bytes = u32::try_from(values[step]).ok();
                wishes.asked.chunk_bytes = wishes.asked.request_bytes.map(chunk_bytes);
            }
            Knob::IoDepth(values) => wishes.disk.depth = u16::try_from(values[step]).ok(),
            Knob::Concurrency(values) => wishes.asked.concurrency = u32::try_from(values[step]).ok(),
            Knob::Congestion(names) => wishes.link.congestion = names[step].clone(),
        }
    }
}

fn words(knobs: &[Knob], setting: &Setting) -> String {
    let words: Vec<String> = knobs
        .iter()
        .zip(setting)
        .map(|(knob, &step)| format!("{} {}", knob.name(), knob.word(step)))
        .collect();
    words.join(", ")
}

/// What later copies start with: where the result differs from what they would choose by themselves.
fn found(search: &Search, knobs: &[Knob], untuned: &Plan, rate: Option<f64>) -> Option<Tuned> {
    let mut tuned = Tuned { rate_bits_per_s: rate? as u64, ..Tuned::default() };
    for (knob, &step) in knobs.iter().zip(search.kept()) {
        let other = |values: &[u64], own: u64| Some(values[step]).filter(|value| *value != own);
        match knob {
            Knob::Streams(values) => {
                let streams = other(values, untuned.streams.value.into());
                tuned.streams = streams.and_then(|streams| streams.try_into().ok());
            }
            Knob::Request(values) => {
                let bytes = other(values, untuned.segment_bytes.value.into());
                tuned.request_bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            }
            Knob::IoDepth(values) => {
                let depth = other(values, untuned.disk.io_depth.value.into());
                tuned.io_depth = depth.and_then(|depth| depth.try_into().ok());
            }
            Knob::Concurrency(values) => {
                let files = other(values, untuned.concurrency.value.into());
                tuned.concurrency = files.and_then(|files| files.try_into().ok());
            }
            Knob::Congestion(names) => tuned.congestion = names[step].clone(),
        }
    }
    let nothing = Tuned { rate_bits_per_s: tuned.rate_bits_per_s, ..Tuned::default() };
    (tuned != nothing).then_some(tuned)
}

fn shown(rate: f64) -> String {
    if rate > 0.0 { show_rate(rate as u64) } else { "nothing".to_owned() }
}

/// One decision, when it was made.
fn tell(args: &TuneArgs, knobs: &[Knob], decision: &Decision) {
    let step = |ladder: usize, setting: &Setting| knobs[ladder].word(setting[ladder]);
    if args.ask.json {
        let (knob, from, to) = match decision.ladder {
            Some(at) => (Some(knobs[at].name()), step(at, &decision.from), step(at, &decision.to)),
            None => (None, words(knobs, &decision.from), words(knobs, &decision.to)),
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
            format!("{} {} -> {}", knobs[at].name(), step(at, &decision.from), step(at, &decision.to))
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

/// The last word.
struct Said<'a> {
    args: &'a TuneArgs,
    job: &'a Job,
    knobs: &'a [Knob],
    search: &'a Search,
    trials: &'a Trials<'a>,
    found: Option<Tuned>,
}

impl Said<'_> {
    fn changes(&self) -> Vec<(&'static str, String, String)> {
        let both = self.search.start().iter().zip(self.search.kept());
        let changed = self.knobs.iter().zip(both).filter(|(_, (from, to))| from != to);
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
