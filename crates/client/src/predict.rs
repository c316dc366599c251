//! How long a transfer would take, before it begins; what `thalweg predict` and Python's `predict` say.
//!
//! 1. Count what is at the source, for a bounded time; of what is larger, take samples
//!    ([`thalweg_mover::model::tree`]). Content that has several names is copied, and counts, once; in samples only if
//!    they are in one directory.
//! 2. Go by what earlier transfers and probes of the same way took; without any, or only by a probe of long ago,
//!    whoever asks may measure.
//! 3. Term by term, with a range, and what the plan would be and which limit binds.

use crate::events;
use crate::far_movers::FarMovers;
use crate::inodes::Inodes;
use crate::job::Job;
use crate::options::units;
use crate::profiles::{ByHand, Profiles};
use crate::reach::Reach;
use crate::routes;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::history::{Probed, Way};
use thalweg_mover::link::own_system;
use thalweg_mover::model::prediction::{self, Deadline, Missing, Prediction, Work};
use thalweg_mover::model::{ModelError, tree};
use thalweg_mover::plan::{self, Plan};
use thalweg_mover::run::client::Client;
use thalweg_mover::run::copy::{From, Stop, To};
use thalweg_sys::Dir;
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::{Entry, Kind, RelativePath};

/// A tree of so many entries is counted in any case, if that takes no longer than [`ANYWAY`].
const COUNTED_ANYWAY: u64 = 1000;
/// What is done in any case ends after so much more than the time that was given.
const ANYWAY: Duration = Duration::from_secs(2);
/// Descents into a tree that is too large to count: at least, if there is time ([`ANYWAY`]), and at most. One that is
/// under way when that is over ends where it is.
const DESCENTS_MIN: usize = 30;
const DESCENTS_MAX: usize = 400;
/// So many descents that came to their end say how large a tree is and how far that is off, whatever the one that was
/// cut off would have seen: it is at most one of eleven then. Of three it may be the one that came to most of the tree.
const DESCENTS_ENOUGH: usize = 10;
/// Directories of one level that a descent chooses among; of more, one of these is taken.
const CHOICES_MAX: usize = 65_536;
/// Levels of a descent.
const DEPTH_MAX: usize = 256;

/// So long what a probe found is gone by, in seconds: who else uses the line and the disks is another matter the next
/// day.
const PROBE_HOLDS_S: u64 = 86_400;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The transfer would read back what it wrote.
    pub reads_back: bool,
    /// It would be held to so many bits a second.
    pub bits_per_s_max: Option<u64>,
    /// What a plan would be asked; the limit is put in.
    pub asked: plan::Asked,
    /// It would begin without what was learned and what trials found, and stay there.
    pub holds_still: bool,
    /// What of it would be turned by hand, what a plan is asked among it.
    pub by_hand: ByHand,
    /// Will it be done in this time?
    pub deadline: Option<Duration>,
}

/// What is at the source.
#[derive(Debug, Clone)]
pub struct Size {
    /// Entries and bytes, and how they are to be moved.
    pub work: Work,
    /// How it is known, in words.
    pub how: String,
}

/// One limit of the way: its name, what it lets pass in bits a second, and why.
pub type LimitOfWay = (String, f64, String);

/// The answer.
pub struct Predicted {
    /// Both places, as they are shown.
    pub names: (String, String),
    /// What was asked.
    pub wanted: Wanted,
    /// What is at the source.
    pub size: Size,
    /// What is known of the way.
    pub known: Way,
    /// What the transfer would go by.
    pub plan: Plan,
    /// How long it takes; or what nothing is known of.
    pub prediction: std::result::Result<Prediction, Missing>,
    /// Whether the deadline holds.
    pub verdict: Option<Deadline>,
    /// Whether both ends are places that a probe can measure.
    pub is_real: bool,
    /// Bytes that an ordinary user can write at the destination now, quotas not counted; `None` of one that is not of
    /// this machine, or keeps nothing.
    pub room_bytes: Option<u64>,
}

/// Counts what is at the source, for so long; of what is larger takes samples for as long again. `source` is the place
/// as typed; `stop` ends it early.
///
/// # Errors
/// When it cannot be reached or listed; `Stopped`.
pub fn size(
    job: &Job,
    source: &OsStr,
    far_movers: &mut FarMovers,
    time: Duration,
    stop: &Arc<Stop>,
) -> Result<Size> {
    Ok(match &job.from {
        From::Local(_) | From::Far(..) | From::Given(_) => {
            count(&Reach::open(source, far_movers)?.until(stop), time)?
        }
        From::Zero(bytes) => made(*bytes),
        From::Simulated(spec) => made(spec.bytes),
        From::Noise(bytes, _) => made(*bytes),
        From::Dataset(spec) => Size {
            work: Work { bytes: spec.bytes() as f64, entries: spec.files as f64, ..Work::default() },
            how: "as asked".to_owned(),
        },
    })
}

/// The path between both sides, as a plan takes it; `client` is the link with the far one, if one is far.
pub fn path(job: &Job, client: Option<&Client>) -> plan::Path {
    let here = own_system();
    match client {
        Some(client) => plan::Path {
            rtt: Some(client.rtt),
            sender: if matches!(job.from, From::Far(..)) { client.system } else { here },
            receiver: if matches!(job.to, To::Far(..)) { client.system } else { here },
            ..plan::Path::default()
        },
        None => plan::Path { sender: here, receiver: here, ..plan::Path::default() },
    }
}

/// Asks. `path` is the one between both sides; `measure` is asked for a short probe where nothing is known of a real
/// way, or nothing but what a probe found more than a day ago, and may say none. A rate limit is no knowledge of a way.
///
/// # Errors
/// Those of `measure`.
pub fn predict(
    job: &Job,
    size: Size,
    state: &Path,
    wanted: Wanted,
    path: &plan::Path,
    measure: &mut dyn FnMut() -> Result<Option<Probed>>,
) -> Result<Predicted> {
    let work = Work {
        reads_back: wanted.reads_back,
        bytes_per_s_max: wanted.bits_per_s_max.map(|bits| (bits / 8).max(1) as f64),
        ..size.work
    };
    let size = Size { work, ..size };
    let asked = plan::Asked { rate_bits_per_s: wanted.bits_per_s_max, ..wanted.asked.clone() };
    let profiles = Profiles::read(state);
    // As a copy goes by them.
    let route = routes::of(&job.from, &job.to).filter(|_| !wanted.holds_still);
    let learned = route.and_then(|route| routes::known(state, &route));
    let untouched = profiles.of(&job.from, &job.to, &wanted.by_hand.of_way());
    let tuned = untouched.filter(|_| !wanted.holds_still).and_then(|way| way.tuned.clone());
    let plan = plan::plan(&asked, &plan::Path { learned, tuned, ..path.clone() });
    let mut known = profiles.of(&job.from, &job.to, &wanted.by_hand).cloned().unwrap_or_default();
    let is_real =
        matches!(job.from, From::Local(_) | From::Far(..)) && matches!(job.to, To::Local(_) | To::Far(..));
    let is_unknown = match known.probe_of_bytes(&work) {
        Some(probed) => unix_seconds().saturating_sub(probed.at) > PROBE_HOLDS_S,
        None => known.alike(&work).is_empty() && !known.knowledge(&work).knows_bytes(&work),
    };
    if is_unknown
        && is_real
        && let Some(probed) = measure()?
    {
        Profiles::probed(state, &job.from, &job.to, &wanted.by_hand, probed.clone());
        known.probed = Some(probed);
    }
    let prediction = known
        .predict(&work, path.rtt.unwrap_or_default().as_secs_f64())
        .map_err(|error: ModelError| Failure::new(FailureKind::Internal, "predict", error))?;
    let verdict = match (&prediction, wanted.deadline) {
        (Ok(told), Some(deadline)) => Some(prediction::deadline(told, deadline.as_secs_f64())),
        _ => None,
    };
    let (names, room_bytes) = (job.names.clone(), room_bytes(&job.to));
    Ok(Predicted { names, wanted, size, known, plan, prediction, verdict, is_real, room_bytes })
}

/// Of what is not there yet, in the directory that it would be made in.
fn room_bytes(to: &To) -> Option<u64> {
    let To::Local(path) = to else { return None };
    let path = std::path::absolute(path).ok()?;
    let there = path.ancestors().find_map(|path| Dir::open(path).ok())?;
    let system = there.file_system().ok().filter(|system| system.bytes_total > 0)?;
    Some(system.bytes_available)
}

impl Predicted {
    /// The limits, each with its equation; the least binds.
    pub fn limits(&self) -> Vec<LimitOfWay> {
        let mut limits = Vec::new();
        if let Some(rate) = self.wanted.bits_per_s_max {
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
            // A probe's rates have its start and end in their time; content has come through all stages at this one.
            let byte = self.known.knowledge(&self.size.work).byte;
            let carried = byte.map_or(0.0, |byte| 8.0 / byte.median());
            let limit = |(name, bits): &(String, f64)| match *bits < carried {
                true => (name.clone(), carried, "content came through so fast".to_owned()),
                false => (name.clone(), *bits, "measured by a probe".to_owned()),
            };
            limits.extend(stages.iter().map(limit));
        }
        if let Some(byte) = self.known.byte_seen(&self.size.work) {
            let many = if byte.count == 1 { "" } else { "s" };
            let equation = format!("median of {} transfer{many} of this way", byte.count);
            limits.push(("the way as a whole".to_owned(), 8.0 / byte.median(), equation));
        }
        limits.retain(|(_, bits, _)| bits.is_finite() && *bits > 0.0);
        limits
    }

    /// Which of them is the least; of several the one that the probe called the narrowest.
    pub fn binding(&self, limits: &[LimitOfWay]) -> Option<usize> {
        let narrowest = self.known.probed.as_ref().and_then(|probed| probed.narrowest.as_deref());
        let is_other = |at: usize| Some(limits[at].0.as_str()) != narrowest;
        (0..limits.len())
            .min_by(|&a, &b| limits[a].1.total_cmp(&limits[b].1).then(is_other(a).cmp(&is_other(b))))
    }

    /// As the event `predicted` of docs/reference/json.md.
    pub fn as_json(&self) -> Value {
        let limits = self.limits();
        let binding = self.binding(&limits).map(|at| limits[at].0.clone());
        let limits: Vec<Value> = limits
            .iter()
            .map(|(name, bits, why)| json!({"limit": name, "bits_per_s": bits, "why": why}))
            .collect();
        let (told, work) = (self.prediction.as_ref().ok(), &self.size.work);
        json!({
            "event": "predicted", "from": self.names.0, "to": self.names.1,
            "bytes": work.bytes, "bytes_sd": work.bytes_sd,
            "entries": work.entries, "entries_sd": work.entries_sd, "counted": self.size.how,
            "room_bytes": self.room_bytes,
            "seconds": told.map(|told| told.seconds), "low_s": told.map(|told| told.low_s),
            "high_s": told.map(|told| told.high_s), "p99_s": told.map(|told| told.p99_s),
            "terms": told.map(events::terms), "transfers": self.known.count(), "probe": self.known.probed,
            "missing": self.prediction.as_ref().err().map(|missing| missing.0),
            "limits": limits, "binds": binding, "plan": events::plan(&self.plan),
            "deadline_s": self.wanted.deadline.map(|time| time.as_secs_f64()), "deadline": self.verdict,
        })
    }
}

fn made(bytes: u64) -> Size {
    let work = Work { bytes: bytes as f64, entries: 1.0, ..Work::default() };
    Size { work, how: "as asked".to_owned() }
}

/// Counts for so long; then takes samples for as long again.
fn count(reach: &Reach, time: Duration) -> Result<Size> {
    let until = Instant::now() + time;
    let (mut entries, mut bytes, mut troubles) = (0u64, 0u64, 0u64);
    let mut inodes = Inodes::default();
    let (began, mut is_over) = (Instant::now(), false);
    let listed = reach.list(true, &mut |found| {
        match found {
            Found::Entry(entry) => {
                entries += u64::from(is_copied(&entry));
                if matches!(entry.kind, Kind::File { .. }) && inodes.is_new(&entry) {
                    bytes = bytes.saturating_add(entry.content_bytes());
                }
            }
            Found::Trouble(_) => troubles += 1,
        }
        let now = Instant::now();
        match now < until || (entries < COUNTED_ANYWAY && now < until + ANYWAY) {
            true => Ok(()),
            false => {
                is_over = true;
                Err(Failure::new(FailureKind::Stopped, "count", "the time is over"))
            }
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let unseen = if troubles > 0 { format!("; {troubles} could not be listed") } else { String::new() };
    match listed {
        Ok(()) => {
            let work = Work { bytes: bytes as f64, entries: entries as f64, ..Work::default() };
            Ok(Size { work, how: format!("counted in {seconds:.1} s{unseen}") })
        }
        Err(_) if is_over => {
            let mut choose = |number: u64| random() % number.max(1);
            let (seen, is_cut) = sample(reach, Instant::now() + time, &mut choose)?;
            // No fewer than were counted.
            let work = Work {
                bytes: seen.bytes.0.max(bytes as f64),
                bytes_sd: seen.bytes.1,
                entries: seen.entries.0.max(entries as f64),
                entries_sd: seen.entries.1,
                ..Work::default()
            };
            let more = if is_cut {
                "; the last one did not come to its end in time, so that there is at least so much"
            } else {
                ""
            };
            let how = format!(
                "estimated from {}: {} counted in {seconds:.1} s, which were not all{unseen}{more}",
                failure::counted(seen.descents as u64, "descent", "descents"),
                units::counted(entries, "entry was", "entries were")
            );
            Ok(Size { work, how })
        }
        Err(failure) => Err(failure),
    }
}

/// The directory itself is there, and FIFOs and devices are left out unless they are asked for.
fn is_copied(entry: &Entry) -> bool {
    !entry.path.is_root() && !matches!(entry.kind, Kind::Fifo | Kind::Device { .. })
}

/// A number that nobody foresees; the standard library keys its hashes with one.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Walks down by chance, again and again. Whether the estimate rests on a descent that was cut off when the time was
/// over ([`with_cut`]): then it is a lower bound, and its errors are as large as it is.
fn sample(
    reach: &Reach,
    until: Instant,
    choose: &mut dyn FnMut(u64) -> u64,
) -> Result<(tree::Estimate, bool)> {
    let mut descents = Vec::new();
    let end = until + ANYWAY;
    let may_go_on = |descents: usize| {
        let now = Instant::now();
        descents == 0 || now < until || (descents < DESCENTS_MIN && now < end)
    };
    while descents.len() < DESCENTS_MAX && may_go_on(descents.len()) {
        let (mut levels, mut is_cut) = (Vec::new(), false);
        let mut at = RelativePath::root();
        while levels.len() < DEPTH_MAX {
            let (mut level, mut below) = (tree::Level::default(), Vec::new());
            let mut inodes = Inodes::default();
            let listed = reach.below(at.as_bytes()).list(false, &mut |found| {
                let Found::Entry(entry) = found else { return Ok(()) };
                if !is_copied(&entry) {
                    return Ok(());
                }
                level.entries += 1.0;
                match entry.kind {
                    Kind::File { .. } if !inodes.is_new(&entry) => {}
                    Kind::File { .. } => level.bytes += entry.content_bytes() as f64,
                    Kind::Directory => {
                        level.directories += 1;
                        if below.len() < CHOICES_MAX {
                            below.push(entry.path);
                        }
                    }
                    _ => {}
                }
                is_cut = Instant::now() >= end;
                match is_cut {
                    true => Err(Failure::new(FailureKind::Stopped, "count", "the time is over")),
                    false => Ok(()),
                }
            });
            if is_cut {
                levels.push(level);
                return Ok(with_cut(descents, tree::descent(&levels)));
            }
            // One that cannot be listed counts as empty, as it does for a copy.
            if listed.is_err() && levels.is_empty() {
                return listed.map(|()| (tree::Estimate::default(), false));
            }
            levels.push(level);
            let Some(next) = below.get(choose(below.len() as u64) as usize) else { break };
            let Ok(path) = at.join(next.as_bytes()) else { break };
            at = path;
        }
        descents.push(tree::descent(&levels));
    }
    Ok((tree::estimate(&descents), false))
}

/// The estimate of these descents and of one that was cut off, and whether it rests on that. Behind
/// [`DESCENTS_ENOUGH`] it does only if the part has more in it than each of them: some descent is under way when the
/// time ends, but seldom in such a directory. Of fewer it raises the others, or says nothing.
fn with_cut(mut descents: Vec<(f64, f64)>, cut: (f64, f64)) -> (tree::Estimate, bool) {
    let whole = tree::estimate(&descents);
    let is_beyond = |of: fn(&(f64, f64)) -> f64| descents.iter().all(|one| of(one) < of(&cut));
    if descents.len() >= DESCENTS_ENOUGH && !is_beyond(|seen| seen.0) && !is_beyond(|seen| seen.1) {
        return (whole, false);
    }
    let least = (cut.0.max(whole.entries.0), cut.1.max(whole.bytes.0));
    if descents.is_empty() || least != (whole.entries.0, whole.bytes.0) {
        descents.push(least);
    }
    let told = tree::estimate(&descents);
    let unsure = |(mean, error): (f64, f64)| (mean, error.max(mean));
    (tree::Estimate { entries: unsure(told.entries), bytes: unsure(told.bytes), ..told }, true)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::far_movers::{How, SshOptions};
    use crate::place::Places;
    use thalweg_mover::history::{Moved, Observed};
    use thalweg_mover::link::Identity;
    use thalweg_mover::model::prediction::Taken;
    use thalweg_mover::plan::Tuned;
    use thalweg_mover::run::copy::{Movement, Wishes};

    /// Of a file here: what is asked of `measure`, and the probe that the answer rests on.
    fn asked(state: &Path, job: &Job) -> (u32, Option<u64>) {
        let size =
            Size { work: Work { bytes: 1e9, entries: 1.0, ..Work::default() }, how: "as asked".to_owned() };
        let wanted = Wanted::default();
        let mut measured = 0;
        let mut measure = || {
            measured += 1;
            Ok(Some(probed(unix_seconds())))
        };
        let told = predict(job, size, state, wanted, &path(job, None), &mut measure).unwrap();
        let at = told.known.probe_of_bytes(&told.size.work).map(|probed| probed.at);
        assert!(told.prediction.is_ok());
        (measured, at)
    }

    /// That a byte takes a nanosecond, and nothing else.
    pub(crate) fn probed(at: u64) -> Probed {
        Probed {
            stages: Vec::new(),
            byte_s: Some(1e-9),
            entry_s: None,
            spread: 0.1,
            narrowest: None,
            observed: None,
            at,
        }
    }

    fn job(state: &Path) -> Job {
        let place = state.join("place");
        Job {
            from: From::Local(vec![place.clone()]),
            to: To::Local(place),
            signer: Arc::new(Identity::generate("somebody").unwrap()),
            names: (String::new(), String::new()),
            part: None,
            client_line: None,
        }
    }

    #[test]
    fn the_plan_is_the_one_that_a_copy_would_go_by() {
        let state = tempfile::tempdir().unwrap();
        let job = job(state.path());
        let tuned = Tuned { streams: Some(6), ..Tuned::default() };
        assert!(Profiles::tuned(state.path(), &job.from, &job.to, &ByHand::default(), Some(tuned)));
        let size =
            Size { work: Work { bytes: 1e9, entries: 1.0, ..Work::default() }, how: "as asked".to_owned() };
        let wanted = Wanted::default();
        let told = predict(&job, size, state.path(), wanted, &path(&job, None), &mut || Ok(None)).unwrap();
        assert_eq!(told.plan.streams.value, 6);
    }

    /// Nobody knows whether it carries what the limit lets pass.
    #[test]
    fn a_way_that_nobody_has_seen_is_measured_for_a_limited_copy_too() {
        let state = tempfile::tempdir().unwrap();
        let job = job(state.path());
        let limited = |measured: &mut dyn FnMut() -> Result<Option<Probed>>| {
            let work = Work { bytes: 1e11, entries: 1.0, ..Work::default() };
            let size = Size { work, how: "as asked".to_owned() };
            let wanted = Wanted {
                bits_per_s_max: Some(80_000_000_000),
                deadline: Some(Duration::from_secs(60)),
                ..Wanted::default()
            };
            predict(&job, size, state.path(), wanted, &path(&job, None), measured).unwrap()
        };
        // Where it may not be measured, nothing is promised.
        let told = limited(&mut || Ok(None));
        assert_eq!((told.prediction, told.verdict), (Err(Missing(prediction::Term::Bytes)), None));
        // At a nanosecond a byte it takes longer than the limit would.
        let told = limited(&mut || Ok(Some(probed(unix_seconds()))));
        assert_eq!(told.verdict, Some(Deadline::TooLate));
        assert!(told.prediction.unwrap().seconds > 99.0);
    }

    /// Most of the time of a short probe is its last sync.
    #[test]
    fn no_limit_binds_below_the_rate_that_the_bytes_are_predicted_by() {
        let state = tempfile::tempdir().unwrap();
        let job = job(state.path());
        let taken = Taken { bytes_s: 1.0, end_s: 1.5, ..Taken::default() };
        let moved = Moved { bytes: 1e9, entries: 1.0, ..Moved::default() };
        let stage = |name: &str, bits: f64| (name.to_owned(), bits);
        let mut measure = || {
            Ok(Some(Probed {
                stages: vec![stage("source storage", 9.0e9), stage("destination storage", 3.2e9)],
                byte_s: Some(2.5e-9),
                narrowest: Some("destination storage".into()),
                observed: Some(Observed::of(&taken, &moved, false)),
                ..probed(unix_seconds())
            }))
        };
        let size =
            Size { work: Work { bytes: 1e9, entries: 1.0, ..Work::default() }, how: "as asked".to_owned() };
        let wanted = Wanted::default();
        let told = predict(&job, size, state.path(), wanted, &path(&job, None), &mut measure).unwrap();
        let terms = &told.prediction.as_ref().unwrap().terms;
        let seconds = terms.iter().find(|(term, _)| *term == prediction::Term::Bytes).unwrap().1;
        let limits = told.limits();
        let (name, bits, _) = &limits[told.binding(&limits).unwrap()];
        assert_eq!(name, "destination storage");
        assert!(*bits > 0.99 * 8e9 / seconds, "{limits:?}, and the bytes in {seconds} s");
    }

    #[test]
    fn what_a_probe_found_of_ways_that_were_asked_for_is_known_to_who_asks_for_them() {
        let state = tempfile::tempdir().unwrap();
        let job = job(state.path());
        let movement = Movement { has_bind: true, ..Movement::default() };
        let by_hand = ByHand::of(&Wishes { movement, ..Wishes::default() });
        Profiles::probed(state.path(), &job.from, &job.to, &by_hand, probed(unix_seconds()));
        let is_known = |by_hand: ByHand| {
            let work = Work { bytes: 1e9, entries: 1.0, ..Work::default() };
            let size = Size { work, how: "as asked".to_owned() };
            let wanted = Wanted { by_hand, ..Wanted::default() };
            let told = predict(&job, size, state.path(), wanted, &path(&job, None), &mut || Ok(None));
            told.unwrap().prediction.is_ok()
        };
        assert!(is_known(by_hand) && !is_known(ByHand::default()));
    }

    #[test]
    fn what_a_probe_found_is_measured_again_after_a_day() {
        let state = tempfile::tempdir().unwrap();
        let job = job(state.path());
        let nothing = ByHand::default();
        let began = unix_seconds();
        let (measured, at) = asked(state.path(), &job);
        assert!(measured == 1 && at >= Some(began));
        assert_eq!(asked(state.path(), &job), (0, at));
        let hours_ago = |hours: u64| probed(unix_seconds() - hours * 3600);
        Profiles::probed(state.path(), &job.from, &job.to, &nothing, hours_ago(23));
        assert!(matches!(asked(state.path(), &job), (0, Some(at)) if at < began));
        Profiles::probed(state.path(), &job.from, &job.to, &nothing, hours_ago(25));
        assert!(matches!(asked(state.path(), &job), (1, Some(at)) if at >= began));
    }

    #[test]
    fn a_count_that_is_stopped_is_no_estimate() {
        let scratch = tempfile::tempdir().unwrap();
        let stop: Arc<Stop> = Arc::default();
        let reach = Reach::local(scratch.path().to_owned()).until(&stop);
        assert!(count(&reach, Duration::from_secs(3600)).is_ok());
        stop.stop();
        let stopped = count(&reach, Duration::from_secs(3600)).unwrap_err();
        assert_eq!(stopped.kind, FailureKind::Stopped);
    }

    #[test]
    fn content_with_several_names_counts_once_and_what_no_copy_takes_does_not() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("below")).unwrap();
        std::fs::write(at("a"), vec![0; 1000]).unwrap();
        for name in ["b", "below/c"] {
            std::fs::hard_link(at("a"), at(name)).unwrap();
        }
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let reach = Reach::local(scratch.path().to_owned());
        let counted = count(&reach, Duration::from_secs(3600)).unwrap().work;
        assert_eq!((counted.entries, counted.bytes), (4.0, 1000.0));
        // Whoever comes into one directory does not know what is in another.
        let (sampled, is_cut) = sample(&reach, Instant::now(), &mut |_| 0).unwrap();
        assert_eq!((sampled.entries.0, sampled.bytes.0, is_cut), (4.0, 2000.0, false));
    }

    /// One that is listed to its end takes as long as it takes, however little time there is.
    #[test]
    fn a_directory_that_takes_too_long_to_list_counts_in_part_and_as_no_more_than_that() {
        let scratch = tempfile::tempdir().unwrap();
        for number in 0..100 {
            std::fs::write(scratch.path().join(number.to_string()), vec![0; 10]).unwrap();
        }
        let reach = Reach::local(scratch.path().to_owned());
        // All time is over, also what is given in any case.
        let until = Instant::now().checked_sub(ANYWAY).unwrap();
        let (seen, is_cut) = sample(&reach, until, &mut |_| 0).unwrap();
        assert!(is_cut && seen.descents == 1, "{seen:?}");
        assert_eq!((seen.entries, seen.bytes), ((1.0, 1.0), (10.0, 10.0)));
        // It raises what whole descents have seen, and lowers nothing.
        let of = |cut| with_cut(vec![(100.0, 1e6); 3], cut).0;
        let (less, more) = (of((1.0, 10.0)), of((500.0, 10.0)));
        assert_eq!((less.entries, less.bytes, less.descents), ((100.0, 100.0), (1e6, 1e6), 3));
        assert_eq!((more.entries, more.bytes, more.descents), ((200.0, 200.0), (1e6, 1e6), 4));
    }

    /// As of a far tree whose descents take longer than there is time: one is always under way at the end of it.
    #[test]
    fn a_descent_that_is_cut_off_takes_nothing_from_an_estimate_of_many_that_were_not() {
        let whole: Vec<(f64, f64)> = (0..20u8).map(|number| (100.0 + f64::from(number % 3), 1e6)).collect();
        for cut in [(0.0, 0.0), (7.0, 10.0), (101.5, 1e6)] {
            let (told, is_cut) = with_cut(whole.clone(), cut);
            assert!(!is_cut && told.entries.1 < 1.0, "{told:?}");
            assert_eq!(told, tree::estimate(&whole));
        }
        let (few, is_cut) = with_cut(whole[..DESCENTS_ENOUGH - 1].to_vec(), (7.0, 10.0));
        assert!(is_cut && few.entries.1 >= few.entries.0, "{few:?}");
        // No chance of the time: it came into a directory larger than all others.
        let (beyond, is_cut) = with_cut(whole, (1e6, 10.0));
        assert!(is_cut && beyond.entries.0 > 1e4, "{beyond:?}");
    }

    /// Two thirds of the directories are ten times as large as the others, and a third have one more below them.
    #[test]
    fn samples_of_an_uneven_tree_know_how_far_they_are_off() {
        let scratch = tempfile::tempdir().unwrap();
        let (mut entries, mut bytes) = (0, 0);
        let mut fill = |directory: &Path, files: u64| {
            std::fs::create_dir_all(directory).unwrap();
            for file in 0..files {
                std::fs::write(directory.join(format!("file {file}")), vec![0; 100]).unwrap();
            }
            entries += files + 1;
            bytes += 100 * files;
        };
        for number in 0..30 {
            let directory = scratch.path().join(number.to_string());
            fill(&directory, if number % 3 == 0 { 2 } else { 20 });
            if number % 3 == 1 {
                fill(&directory.join("below"), 5);
            }
        }
        let mut far_movers = FarMovers::new(How::to_ask(&Places::default(), None, SshOptions::default()));
        let reach = Reach::open(scratch.path().as_os_str(), &mut far_movers).unwrap();
        let until = Instant::now() + Duration::from_secs(3600);
        let mut within = 0;
        for seed in 0..10u64 {
            let mut state = seed;
            let mut choose = |number: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % number.max(1)
            };
            let (seen, _) = sample(&reach, until, &mut choose).unwrap();
            assert_eq!(seen.descents, DESCENTS_MAX);
            for ((told, error), truth) in [(seen.entries, entries), (seen.bytes, bytes)] {
                let off = (told - truth as f64).abs();
                assert!(error > 0.0 && error < told / 20.0 && off < 5.0 * error, "{seen:?}, not {truth}");
            }
            within += u32::from((seen.bytes.0 - bytes as f64).abs() < 1.96 * seen.bytes.1);
        }
        // Fewer of 10 are one case in a hundred thousand, where each of them holds in 95 of 100.
        assert!(within >= 5, "{within} of 10");
    }
}
