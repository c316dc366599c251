//! The suites: one file for each question, with what is run. Each says where the question comes from.

use super::network::{MTU_BYTES, PathWish, Testbed};
use super::record::{PathKind, Quantity, Sample, Scaled};
use super::workspace::Copied;
use super::{Bench, Prepared, Wishes};
use crate::dataset;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Failure, FailureKind, Result};

pub(crate) mod path;

pub use path::{COST, COST_MOST, HOSTS, PACKETS};

mod bulk;

mod streaming;

mod latency;

mod streams;

mod cca;

mod order;

pub use order::REQUESTS_EACH;

mod concurrency;

mod sets;

mod files;

mod whole_files;

pub use whole_files::CHECK_RATE;

pub mod faults;

mod layout;

mod hop;

mod congest;

pub use congest::{BEGINS, FITTED};

mod frames;

mod lag;

mod slow_consumer;

mod slots;

pub use slots::{CARRIED, LONG, SLOTS};

pub mod predict;

pub(crate) mod storage;

/// See the module.
#[derive(Debug)]
pub struct Suite {
    /// As it is typed.
    pub name: &'static str,
    /// The question that it answers, with its source.
    pub asks: &'static str,
    /// Counted runs of each case, unless others are asked for.
    pub runs: u32,
    /// Most bytes of one data set, unless others are asked for.
    pub budget_bytes: u64,
    /// What a user may ask for.
    pub(super) takes: Takes,
    /// Says what is to come, or why it cannot. It tries nothing on this machine, so that it can be held against what an
    /// earlier result says.
    pub(super) prepare: fn(&Wishes) -> Result<Prepared>,
    /// Refuses what this machine has not, or says what is taken instead.
    pub(super) needs: fn(&Wishes, &mut Prepared) -> Result<()>,
    /// The cases of a whole run, as their samples name them; none where that depends on what is measured, or is not
    /// told.
    pub(super) plan: fn(&Wishes) -> Vec<Planned>,
    /// Does it.
    pub(super) run: fn(&mut Bench<'_>) -> Result<()>,
}

/// All of them.
pub const SUITES: &[Suite] = &[
    path::SUITE,
    bulk::SUITE,
    streaming::SUITE,
    latency::SUITE,
    streams::SUITE,
    cca::SUITE,
    order::SUITE,
    concurrency::SUITE,
    files::SUITE,
    whole_files::SUITE,
    faults::SUITE,
    layout::SUITE,
    hop::SUITE,
    congest::SUITE,
    frames::SUITE,
    lag::SUITE,
    slots::SUITE,
    predict::SUITE,
    storage::SUITE,
];

impl Suite {
    /// The one of this name.
    pub fn find(name: &str) -> Option<&'static Suite> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    /// Most bytes of one data set.
    pub fn budget_bytes(&self, wishes: &Wishes) -> u64 {
        wishes.budget_bytes.unwrap_or(self.budget_bytes).max(1)
    }

    /// Whether its data set has a number of bytes that a user bounds.
    pub(super) fn has_budget(&self) -> bool {
        self.takes.budget != Values::No
    }

    /// Whether its data set has a number of files that a user bounds.
    pub(super) fn has_many_files(&self) -> bool {
        self.takes.max_files != Values::No
    }

    /// Refuses what the suite would not go by.
    ///
    /// # Errors
    /// `Usage`, with what it takes.
    pub(super) fn check(&self, wishes: &Wishes) -> Result<()> {
        let refused = |cause: String| Err(Failure::new(FailureKind::Usage, "read the command line", cause));
        let name = self.name;
        for (option, taken, asked) in self.takes.each(wishes) {
            if asked > taken.most() {
                let what = if taken == Values::No { "no" } else { "one" };
                return refused(format!("`{name}` takes {what} {option}: it goes by {}", self.takes));
            }
        }
        let is_zero = [
            ("--rtt", wishes.rtts.iter().any(Duration::is_zero)),
            ("--time", wishes.time.iter().any(Duration::is_zero)),
        ];
        let (budget_bytes_min, files_min) = (self.takes.budget_bytes_min, self.takes.files_min);
        for (option, asked, least, shown) in [
            ("--budget", wishes.budget_bytes, budget_bytes_min, size(budget_bytes_min)),
            ("--max-files", wishes.files_max, files_min, files_min.to_string()),
        ] {
            if asked.is_some_and(|asked| asked < least) {
                return refused(format!("`{name}` takes a {option} of at least {shown}"));
            }
        }
        let is_double = [
            ("--rtt", has_doubles(&wishes.rtts)),
            ("--loss", has_doubles(&wishes.losses)),
            ("--at-once", has_doubles(&wishes.at_once)),
        ];
        // The second would be counted as one more run of the first.
        if let Some((option, _)) = is_double.into_iter().find(|(_, is_double)| *is_double) {
            return refused(format!("`{name}` takes each value of {option} once"));
        }
        // In no time nothing is measured, and without a distance there is no window law.
        if let Some((option, _)) = is_zero.into_iter().find(|(_, is_zero)| *is_zero) {
            return refused(format!("{option} must be more than 0"));
        }
        let is_path_bare = wishes.rtts.is_empty() && self.takes.is_path_by_rtt;
        if is_path_bare && (wishes.rate_bits_per_s.is_some() || !wishes.losses.is_empty()) {
            return refused(format!(
                "`{name}` has an emulated path, with --rate and --loss, only with --rtt"
            ));
        }
        Ok(())
    }
}

fn has_doubles<T: PartialEq>(values: &[T]) -> bool {
    values.iter().enumerate().any(|(at, value)| values[..at].contains(value))
}

/// A case, before it is measured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    pub series: String,
    pub parameters: BTreeMap<String, Quantity>,
    /// What a result that has not this case says it left out.
    pub left_out_as: Vec<String>,
}

impl Planned {
    /// The case of which such samples are.
    fn of(named: Sample, left_out_as: Vec<String>) -> Planned {
        Planned { series: named.series, parameters: named.parameters, left_out_as }
    }
}

/// A suite that does not say which cases it has.
fn untold(_: &Wishes) -> Vec<Planned> {
    Vec::new()
}

/// A suite that any machine can run.
fn nothing(_: &Wishes, _: &mut Prepared) -> Result<()> {
    Ok(())
}

/// One with an emulated path.
fn a_testbed(_: &Wishes, _: &mut Prepared) -> Result<()> {
    Testbed::check()
}

/// One that has an emulated path where a round trip time was asked for.
fn a_testbed_by_rtt(wishes: &Wishes, _: &mut Prepared) -> Result<()> {
    if wishes.rtts.is_empty() { Ok(()) } else { Testbed::check() }
}

/// How many values of an option a suite goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    No,
    One,
    Many,
}

impl Values {
    fn most(self) -> usize {
        match self {
            Values::No => 0,
            Values::One => 1,
            Values::Many => usize::MAX,
        }
    }
}

/// Which options a suite goes by, besides those that each has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Takes {
    pub rtt: Values,
    pub rate: Values,
    pub loss: Values,
    /// Without --rtt it goes over the loopback.
    pub is_path_by_rtt: bool,
    pub time: Values,
    pub stall: Values,
    pub target: Values,
    pub budget: Values,
    /// With less it would move more than it was asked for.
    pub budget_bytes_min: u64,
    pub max_files: Values,
    /// How many files are under way at once.
    pub at_once: Values,
    /// Whether checks may be as fast as this machine is.
    pub free_check: Values,
    /// With fewer it would make more than it was asked for.
    pub files_min: u64,
    /// Whether it leaves anything to chance that is ours.
    pub seed: Values,
    /// Whether it runs the program that is measured.
    pub program: Values,
}

/// What runs the program on this machine, with so much data.
pub(super) const ON_THIS_MACHINE: Takes = Takes {
    rtt: Values::No,
    rate: Values::No,
    loss: Values::No,
    is_path_by_rtt: false,
    time: Values::No,
    stall: Values::No,
    target: Values::No,
    budget: Values::One,
    budget_bytes_min: 1,
    max_files: Values::No,
    at_once: Values::No,
    free_check: Values::No,
    files_min: 1,
    seed: Values::One,
    program: Values::One,
};

/// The same over one emulated path.
pub(super) const OVER_A_PATH: Takes =
    Takes { rtt: Values::One, rate: Values::One, loss: Values::One, ..ON_THIS_MACHINE };

impl Takes {
    /// Each option with how many values of it are asked for.
    fn each(&self, wishes: &Wishes) -> [(&'static str, Values, usize); 12] {
        [
            ("--rtt", self.rtt, wishes.rtts.len()),
            ("--rate", self.rate, wishes.rate_bits_per_s.iter().count()),
            ("--loss", self.loss, wishes.losses.len()),
            ("--time", self.time, wishes.time.iter().count()),
            ("--stall", self.stall, wishes.stall.iter().count()),
            ("--target", self.target, wishes.target_bits_per_s.iter().count()),
            ("--budget", self.budget, wishes.budget_bytes.iter().count()),
            ("--max-files", self.max_files, wishes.files_max.iter().count()),
            ("--at-once", self.at_once, wishes.at_once.len()),
            ("--free-check", self.free_check, usize::from(wishes.is_check_free)),
            ("--seed", self.seed, wishes.seed.iter().count()),
            ("--program", self.program, usize::from(wishes.is_another)),
        ]
    }
}

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.each(&Wishes::default());
        let of = |values: Values| {
            let names = each.iter().filter(move |(_, taken, _)| *taken == values).map(|(name, ..)| *name);
            names.collect::<Vec<_>>().join(", ")
        };
        let parts = [("one each of ", of(Values::One)), ("several values of ", of(Values::Many))];
        let parts = parts.into_iter().filter(|(_, names)| !names.is_empty());
        let parts: Vec<String> = parts.map(|(how, names)| format!("{how}{names}")).collect();
        f.write_str(&parts.join(", and "))
    }
}

const MIB: u64 = 1 << 20;

const GBIT: u64 = 1_000_000_000;

/// What one transfer of 003, or one burst, would take at least: 0.5 GB over 25 Gbit/s (section 4.1).
const IDEAL_S: f64 = 0.16;

/// How far thalweg checks when nobody asks for more.
const VERIFIED: &str = "BLAKE3 of every segment before it is written, all synced";

/// How thalweg protects data streams when nobody chooses.
fn encrypted() -> String {
    let cipher = if thalweg_sys::machine::has_aes() { "AES-128-GCM" } else { "ChaCha20-Poly1305" };
    format!("{cipher}, sealed frames")
}

/// What a case reads or writes, where the disk is asked about.
#[derive(Clone, Copy, PartialEq)]
enum Disk {
    Simulated,
    Real,
}

/// What series on [`Disk::Real`] are called.
const REAL: &str = "the disk of --dir";

/// Copies on this machine alone.
fn on_disks(changes: Vec<Scaled>) -> Prepared {
    Prepared {
        path: PathKind::Disk,
        encryption: "none: one machine".to_owned(),
        verification: "BLAKE3 of every segment, read and given on".to_owned(),
        changes,
    }
}

fn scaled(what: &str, from: &str, to: String) -> Scaled {
    Scaled { what: what.to_owned(), from: from.to_owned(), to }
}

/// So many whole seconds as are asked for, or usual: who does something each second does it in no part of one.
///
/// # Errors
/// `Usage` of parts of a second, or of fewer than `least`.
fn whole_seconds(suite: &str, time: Option<Duration>, usual: Duration, least: u64) -> Result<u64> {
    let time = time.unwrap_or(usual);
    if time.subsec_nanos() == 0 && time.as_secs() >= least {
        return Ok(time.as_secs());
    }
    let cause = format!("`{suite}` takes a --time of whole seconds, at least {least}");
    Err(Failure::new(FailureKind::Usage, "read the command line", cause))
}

/// That a run is given another time than the paper's, if it is.
fn shortened(wishes: &Wishes, usual: Duration, paper: &str) -> Option<Scaled> {
    let time = wishes.time.filter(|time| *time != usual)?;
    Some(scaled("time", paper, format!("{} s", time.as_secs_f64())))
}

/// A size in the largest binary unit of which it is a whole number.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut at = 0;
    let mut value = bytes;
    while value > 0 && value.is_multiple_of(1024) && at + 1 < units.len() {
        (value, at) = (value / 1024, at + 1);
    }
    format!("{value} {}", units[at])
}

fn seconds(value: f64) -> Quantity {
    Quantity::number(value, "s")
}

fn bytes(value: u64) -> Quantity {
    Quantity::number(value as f64, "B")
}

fn count(value: impl Into<f64>) -> Quantity {
    Quantity::number(value.into(), "1")
}

/// A sample of a copy; where it told of the energy that its machines used meanwhile, with that for 10^12 bytes.
fn of_copy(series: &str, copied: &Copied, bytes: u64, files: u64) -> Sample {
    let sample = Sample {
        series: series.to_owned(),
        bytes,
        files,
        wall_s: copied.wall_s,
        cpu_s: copied.cpu_s,
        ..Sample::default()
    };
    match copied.finished["energy"]["kwh_per_tb"].as_f64() {
        Some(kwh) => sample.measured("energy", kwh, "kWh/TB"),
        None => sample,
    }
}

/// A copy, compared with its seed.
///
/// # Errors
/// `Damage`, with the first file that is not as it was made.
fn sound(copy: &Path, spec: &DatasetSpec) -> Result<()> {
    let checked = dataset::check(copy, spec)?;
    match checked.damage.first() {
        None => Ok(()),
        Some(damage) => {
            Err(Failure::new(FailureKind::Damage, "compare a copy with its seed", damage.to_string()))
        }
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Round trip times of a paper that are not among these; nothing where all are.
fn rtts_left_out(paper_ms: &[u64], rtts: &[Duration]) -> Option<String> {
    let missing = paper_ms.iter().filter(|ms| !rtts.contains(&Duration::from_millis(**ms)));
    let missing: Vec<String> = missing.map(|ms| format!("{ms}ms")).collect();
    (!missing.is_empty()).then(|| missing.join(","))
}

/// The emulated path of a suite, as a user may change it.
fn path_wish(wishes: &Wishes, rtt: Duration, rate_bits_per_s: u64) -> PathWish {
    PathWish {
        rtt: wishes.rtts.first().copied().unwrap_or(rtt),
        rate_bits_per_s: wishes.rate_bits_per_s.unwrap_or(rate_bits_per_s),
        loss: wishes.losses.first().copied().unwrap_or(0.0),
        mtu_bytes: MTU_BYTES,
    }
}

/// The emulated paths of a sweep: one for each round trip that a user named.
fn paths_by_rtt(wishes: &Wishes, rate_bits_per_s: u64) -> Vec<PathWish> {
    let path = |rtt: &Duration| PathWish { rtt: *rtt, ..path_wish(wishes, *rtt, rate_bits_per_s) };
    wishes.rtts.iter().map(path).collect()
}

/// What they are recorded as; none: the loopback. Where there are several, samples say which round trip they had.
fn kind_of_paths(paths: &[PathWish]) -> PathKind {
    match paths {
        [] => PathKind::Loopback,
        [path] => testbed_kind(path),
        [first, ..] => PathKind::Testbed {
            rtt_s: None,
            rate_bits_per_s: Some(first.rate_bits_per_s),
            loss: Some(first.loss),
            mtu_bytes: first.mtu_bytes,
        },
    }
}

fn testbed_kind(path: &PathWish) -> PathKind {
    PathKind::Testbed {
        rtt_s: Some(path.rtt.as_secs_f64()),
        rate_bits_per_s: Some(path.rate_bits_per_s),
        loss: Some(path.loss),
        mtu_bytes: path.mtu_bytes,
    }
}

/// Measures in a testbed: what the path carried meanwhile, and what that cost, come into the sample.
fn over(testbed: &Testbed, measure: impl FnOnce() -> Result<Sample>) -> Result<Sample> {
    let before = testbed.carried()?;
    let sample = measure()?;
    Ok(testbed.carried()?.since(&before).told_in(sample))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_names_of_their_own_and_sizes_are_whole() {
        let mut names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SUITES.len());
        assert!(Suite::find("latency").is_some() && Suite::find("folklore").is_none());
        assert_eq!((size(1 << 20), size(1536), size(0)), ("1 MiB".into(), "1536 B".into(), "0 B".into()));
    }

    #[test]
    fn a_sample_of_a_copy_has_the_energy_that_was_told_and_none_that_was_not() {
        let energy = |finished| {
            let sample = of_copy("one", &Copied { wall_s: 2.0, cpu_s: None, finished }, 1, 1);
            assert_eq!(sample.check(), Ok(()));
            sample.measured.get("energy").cloned()
        };
        let told = energy(serde_json::json!({"energy": {"kwh_per_tb": 0.25}}));
        assert_eq!(told, Some(Quantity::number(0.25, "kWh/TB")));
        assert_eq!(energy(serde_json::json!({"energy": null})), None);
        assert_eq!(energy(serde_json::Value::Null), None);
    }

    #[test]
    fn an_option_that_a_suite_does_not_go_by_is_refused_with_those_that_it_takes() {
        let ms = Duration::from_millis;
        let refused = |name: &str, wishes: Wishes| {
            let refused = Suite::find(name).unwrap().check(&wishes).err();
            refused.map(|failure| {
                assert_eq!(failure.kind, FailureKind::Usage);
                failure.cause
            })
        };
        let rtts = |count: u64| Wishes { rtts: (1..=count).map(ms).collect(), ..Wishes::default() };
        let losses =
            |count: u32| Wishes { losses: (1..=count).map(|at| f64::from(at) / 100.0).collect(), ..rtts(1) };
        let several = ["path", "sweep bulk", "sweep streaming", "latency", "streams", "cca"];
        let none = ["order", "layout", "predict", "storage"];
        let of_many_files = [
            "sweep bulk",
            "sweep streaming",
            "concurrency",
            "files",
            "whole-files",
            "faults",
            "frames",
            "predict",
        ];
        let without_chance = ["path", "streams", "order", "congest", "lag", "slots", "storage"];
        let for_a_time = ["latency", "streams", "congest", "frames", "lag", "slots", "storage"];
        for suite in SUITES {
            let name = suite.name;
            assert_eq!(refused(name, Wishes::default()), None, "{name}");
            assert_eq!(refused(name, rtts(1)).is_some(), none.contains(&name), "{name}");
            assert_eq!(refused(name, rtts(2)).is_some(), !several.contains(&name), "{name}");
            let is_lossless = none.contains(&name) || ["latency", "streams"].contains(&name);
            assert_eq!(refused(name, losses(1)).is_some(), is_lossless, "{name}");
            assert_eq!(refused(name, losses(2)).is_some(), !["path", "cca"].contains(&name), "{name}");
            let stall = Wishes { stall: Some(ms(1)), ..Wishes::default() };
            assert_eq!(refused(name, stall).is_some(), name != "lag", "{name}");
            let target = Wishes { target_bits_per_s: Some(1), ..Wishes::default() };
            assert_eq!(refused(name, target).is_some(), name != "storage", "{name}");
            let max_files = Wishes { files_max: Some(4096), ..Wishes::default() };
            assert_eq!(refused(name, max_files).is_some(), !of_many_files.contains(&name), "{name}");
            let at_once = Wishes { at_once: vec![1, 8], ..Wishes::default() };
            assert_eq!(refused(name, at_once).is_some(), name != "whole-files", "{name}");
            let free_check = Wishes { is_check_free: true, ..Wishes::default() };
            assert_eq!(refused(name, free_check).is_some(), name != "whole-files", "{name}");
            let seed = Wishes { seed: Some(0), ..Wishes::default() };
            assert_eq!(refused(name, seed).is_some(), without_chance.contains(&name), "{name}");
            let budget = Wishes { budget_bytes: Some(MIB), ..Wishes::default() };
            assert_eq!(refused(name, budget).is_some(), ["path", "streams"].contains(&name), "{name}");
            let time = Wishes { time: Some(ms(1000)), ..Wishes::default() };
            assert_eq!(refused(name, time).is_some(), !for_a_time.contains(&name), "{name}");
            let is_another = Wishes { is_another: true, ..Wishes::default() };
            let runs_nothing = ["path", "streams", "congest", "storage"].contains(&name);
            assert_eq!(refused(name, is_another).is_some(), runs_nothing, "{name}");
        }
        assert_eq!(
            refused("files", rtts(2)).as_deref(),
            Some(
                "`files` takes one --rtt: it goes by one each of --rtt, --rate, --loss, --budget, --max-files, --seed, \
                 --program"
            )
        );
        assert_eq!(
            refused("latency", losses(1)).as_deref(),
            Some(
                "`latency` takes no --loss: it goes by one each of --rate, --time, --budget, --seed, --program, and several \
                 values of --rtt"
            )
        );
        let nothing = Wishes { time: Some(Duration::ZERO), ..Wishes::default() };
        assert_eq!(refused("streams", nothing).as_deref(), Some("--time must be more than 0"));
        let near = Wishes { rtts: vec![ms(10), Duration::ZERO], ..Wishes::default() };
        assert_eq!(refused("latency", near).as_deref(), Some("--rtt must be more than 0"));
        for (name, least) in [("storage", "4 KiB"), ("lag", "1000000 B"), ("layout", "1 B"), ("slots", "1 B")]
        {
            let told = refused(name, Wishes { budget_bytes: Some(0), ..Wishes::default() });
            assert_eq!(told, Some(format!("`{name}` takes a --budget of at least {least}")));
        }
        let few = |files| Wishes { files_max: Some(files), ..Wishes::default() };
        assert_eq!(refused("files", few(3)).as_deref(), Some("`files` takes a --max-files of at least 4"));
        assert_eq!((refused("files", few(4)), refused("sweep bulk", few(1))), (None, None));
        let twice = Wishes { rtts: vec![ms(5), ms(6), ms(5)], ..Wishes::default() };
        for name in several {
            let told = refused(name, twice.clone());
            assert_eq!(told, Some(format!("`{name}` takes each value of --rtt once")));
        }
        let twice = Wishes { losses: vec![0.01; 2], ..rtts(1) };
        assert_eq!(refused("cca", twice).as_deref(), Some("`cca` takes each value of --loss once"));
        let twice = Wishes { at_once: vec![2, 2], ..Wishes::default() };
        let told = refused("whole-files", twice);
        assert_eq!(told.as_deref(), Some("`whole-files` takes each value of --at-once once"));
        let bare = Wishes { rate_bits_per_s: Some(GBIT), ..Wishes::default() };
        for name in ["sweep bulk", "sweep streaming", "frames"] {
            assert!(refused(name, bare.clone()).unwrap().ends_with("only with --rtt"), "{name}");
        }
        assert_eq!(refused("hop", bare), None);
    }

    #[test]
    fn what_happens_each_second_is_not_asked_for_in_parts_of_one() {
        let of = |ms: Option<u64>, least| {
            whole_seconds("slots", ms.map(Duration::from_millis), Duration::from_secs(10), least).ok()
        };
        assert_eq!((of(None, 2), of(Some(2000), 2)), (Some(10), Some(2)));
        assert_eq!((of(Some(1000), 2), of(Some(2500), 2), of(Some(300), 1)), (None, None, None));
    }

    /// Of two nobody knows which is the odd one.
    #[test]
    fn nobody_has_to_ask_for_enough_runs() {
        for suite in SUITES {
            assert!((3..=5).contains(&suite.runs), "{}: {} runs", suite.name, suite.runs);
        }
    }
}
