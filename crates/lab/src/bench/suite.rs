//! The suites: one file for each question, with what is run. Each says where the question comes from.

use super::network::{MTU_BYTES, PathWish, Testbed};
use super::record::{LOST_BY_A_SLOW_MACHINE, PathKind, Quantity, Sample, Scaled};
use super::workspace::Copied;
use super::{Bench, Prepared, Wishes};
use crate::dataset;
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

mod files;

mod faults;

mod layout;

mod hop;

mod congest;

mod frames;

mod lag;

mod slow_consumer;

mod slots;

pub mod predict;

pub(super) mod storage;

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
    /// Says what is to come, or why it cannot.
    pub(super) prepare: fn(&Wishes) -> Result<Prepared>,
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
}

const MIB: u64 = 1 << 20;

const GBIT: u64 = 1_000_000_000;

/// How far thalweg checks when nobody asks for more.
const VERIFIED: &str = "BLAKE3 of every segment before it is written, all synced";

/// How thalweg protects data streams when nobody chooses.
fn encrypted() -> String {
    let cipher = if thalweg_sys::usage::has_aes() { "AES-128-GCM" } else { "ChaCha20-Poly1305" };
    format!("{cipher}, sealed frames")
}

fn scaled(what: &str, from: &str, to: String) -> Scaled {
    Scaled { what: what.to_owned(), from: from.to_owned(), to }
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

/// A sample of a copy.
fn of_copy(series: &str, copied: &Copied, bytes: u64, files: u64) -> Sample {
    Sample {
        series: series.to_owned(),
        bytes,
        files,
        wall_s: copied.wall_s,
        cpu_s: copied.cpu_s,
        ..Sample::default()
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

/// The emulated path of a suite, as a user may change it.
fn path_wish(wishes: &Wishes, rtt: Duration, rate_bits_per_s: u64) -> PathWish {
    PathWish {
        rtt: wishes.rtts.first().copied().unwrap_or(rtt),
        rate_bits_per_s: wishes.rate_bits_per_s.unwrap_or(rate_bits_per_s),
        loss: wishes.losses.first().copied().unwrap_or(0.0),
        mtu_bytes: MTU_BYTES,
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
    let mut sample = measure()?;
    let carried = testbed.carried()?.since(&before);
    sample.wire_cpu_s_per_gb = carried.cpu_s_per_gb();
    for (name, value, unit) in [
        ("bytes_forward_on_the_wire", carried.forward_bytes, "B"),
        ("bytes_back_on_the_wire", carried.back_bytes, "B"),
        ("packets_lost", carried.lost, "1"),
        ("packets_dropped_by_the_queue", carried.overflowed, "1"),
        (LOST_BY_A_SLOW_MACHINE, carried.trouble, "1"),
    ] {
        sample = sample.measured(name, value as f64, unit);
    }
    Ok(sample)
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

    /// Of two nobody knows which is the odd one.
    #[test]
    fn nobody_has_to_ask_for_enough_runs() {
        for suite in SUITES {
            assert!((3..=5).contains(&suite.runs), "{}: {} runs", suite.name, suite.runs);
        }
    }
}
