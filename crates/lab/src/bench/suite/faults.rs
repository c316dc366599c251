//! `faults`: what damage costs when whole files are sent again (001 section 4.1, Eqs 1 and 2, Figs 6 and 7) and when
//! only the damaged chunks are. What was sent again is counted on the wire.
//!
//! Each run copies a set, flips one bit in each of some chunks of the copy, and repairs it: in the one series by
//! removing each damaged file and copying again, in the other by `--check digest`, which finds the chunks by itself.
//!
//! A repair is a command of its own, which takes its time also where it has nothing to do: it dials, lists both sides,
//! and by `--check digest` reads all of both. The same command is run once more on the copy when that is sound again.
//! So the law has three terms beside the first copy (see [`Repair::law_s`]): this command with nothing to do, what
//! crosses the path again, and what of damaged files is sound and copied into new ones at the destination.
//!
//! Not measured: finding the damage by whole files. The suite knows which files it damaged, and removes them.

use super::{
    GBIT, MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, bytes, count, encrypted, of_copy, scaled, size,
    testbed_kind, words,
};
use crate::bench::network::{PathWish, Testbed, payload_share};
use crate::bench::record::{PathKind, Quantity, Sample};
use crate::bench::statistics::median;
use crate::bench::{Bench, Prepared, Wishes, timeline};
use crate::dataset;
use crate::testbed::spec::TUNED;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Failure, FailureKind, Result, counted, of_io};
use thalweg_mover::model::repair::{Damage, Looks};
use thalweg_mover::stage::Stage;

pub(super) const SUITE: Suite = Suite {
    name: "faults",
    asks: "what does damage cost: whole files again, or chunks? (001 Eqs 1 and 2, Figs 6 and 7)",
    runs: 3,
    budget_bytes: 64 * MIB,
    takes: Takes { max_files: Values::One, ..OVER_A_PATH },
    prepare,
    needs: super::a_testbed,
    plan: super::untold,
    run,
};

/// Shares of all chunks that are damaged.
const SHARES: [f64; 5] = [0.0, 0.01, 0.02, 0.05, 0.1];

/// Files at once, and streams, by which 001 Fig 7 tells failures; at one share.
const AT_ONCE: [u64; 3] = [1, 4, 16];
const SHARE_BY_AT_ONCE: f64 = 0.05;

const FILES: u64 = 16;

/// Of a file: so many that a damaged one is mostly sound.
const CHUNKS_OF_A_FILE: u64 = 64;

const CHUNK_BYTES_MIN: u64 = 64 << 10;

/// In seconds, the copy before anything was damaged.
pub const FIRST_COPY: &str = "first_copy";
/// In seconds, the command that repairs where nothing is damaged; where it finds chunks, predicted under the same name.
pub const NOTHING: &str = "nothing_to_repair";
/// In bytes with all headers, what the repair sent; predicted under the same name.
pub const SENT_AGAIN: &str = "sent_again_on_the_wire";
/// In bytes, the content of that.
pub const PAYLOAD_SENT_AGAIN: &str = "payload_sent_again";
/// Parameter of a sample: the share of all chunks that are damaged.
pub const DAMAGED_SHARE: &str = "damaged_share";
/// What is said of series whose law is told for files at once, behind their name.
pub const BY_FILES_AT_ONCE: &str = ", by files at once";

struct Case {
    share: f64,
    by_chunk: bool,
    /// Files at once; `None`: as planned.
    at_once: Option<u64>,
}

fn cases() -> Vec<Case> {
    let both = |share, at_once| [false, true].map(|by_chunk| Case { share, by_chunk, at_once });
    let by_share = SHARES.into_iter().flat_map(|share| both(share, None));
    by_share.chain(AT_ONCE.into_iter().flat_map(|at_once| both(SHARE_BY_AT_ONCE, Some(at_once)))).collect()
}

struct Shape {
    files: u64,
    chunk_bytes: u64,
    chunks: u64,
}

impl Shape {
    fn of(wishes: &Wishes) -> Shape {
        let files = FILES.min(wishes.files_max());
        let wanted = SUITE.budget_bytes(wishes) / files / CHUNKS_OF_A_FILE;
        let chunk_bytes = wanted.max(1).next_power_of_two().max(CHUNK_BYTES_MIN);
        let chunk_bytes =
            if chunk_bytes > wanted { (chunk_bytes / 2).max(CHUNK_BYTES_MIN) } else { chunk_bytes };
        let chunks = (SUITE.budget_bytes(wishes) / files / chunk_bytes).max(1);
        Shape { files, chunk_bytes, chunks }
    }

    fn file_bytes(&self) -> u64 {
        self.chunks * self.chunk_bytes
    }

    /// Which chunks are damaged: numbers over all files.
    fn damaged(&self, share: f64, seed: u64) -> Vec<u64> {
        let all = self.files * self.chunks;
        let wanted = (all as f64 * share).round() as usize;
        let mut numbers: Vec<u64> = (0..all).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
        numbers.truncate(wanted);
        numbers.sort_unstable();
        numbers
    }
}

fn path(wishes: &Wishes) -> PathWish {
    super::path_wish(wishes, Duration::from_millis(6), GBIT)
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let (path, shape) = (path(wishes), Shape::of(wishes));
    Ok(Prepared {
        path: testbed_kind(&path),
        encryption: encrypted(),
        verification: format!("{VERIFIED}; the repaired copy compared with its seed"),
        changes: vec![scaled("data", "1.2 TiB in 256 files of 4.8 GiB (001 section 4)", {
            let of = size(shape.file_bytes());
            format!(
                "{} of {of}, each {} of {}",
                counted(shape.files, "file", "files"),
                counted(shape.chunks, "chunk", "chunks"),
                size(shape.chunk_bytes)
            )
        })],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (shape, seed) = (Shape::of(bench.wishes), bench.wishes.seed());
    let set = DatasetSpec {
        files: shape.files,
        sizes: vec![(shape.file_bytes(), 1)],
        seed,
        ..DatasetSpec::default()
    };
    bench.workspace.needs(3 * set.bytes())?;
    let source = bench.workspace.path("source");
    dataset::make(&source, &set)?;
    let path = path(bench.wishes);
    let testbed = Testbed::up(&bench.workspace, "faults", &path, TUNED)?;
    let daemon = bench.workspace.daemon(Some(&testbed.right))?;
    let copy = daemon.path("copy");
    let of = |check: &str, at_once: Option<u64>| {
        let chunk = shape.chunk_bytes.to_string();
        let mut line = words(&["cp", "--no-tune", "--chunk", &chunk, "--request", &chunk, "--check", check]);
        if let Some(at_once) = at_once.map(|at_once| at_once.to_string()) {
            line.extend(words(&["--concurrency", &at_once, "--streams", &at_once]));
        }
        line.extend([format!("{}/", source.display()), daemon.url("copy")]);
        line
    };
    bench.take_turns(cases(), |bench, run, case| {
        let damaged = shape.damaged(case.share, seed.wrapping_add(u64::from(run)));
        let files: BTreeSet<u64> = damaged.iter().map(|number| number / shape.chunks).collect();
        bench.workspace.settle()?;
        let check = if case.by_chunk { "digest" } else { "evidence" };
        let (mut first_bytes, mut costs) = (0.0, Costs::default());
        let (workspace, testbed) = (&bench.workspace, &testbed);
        let measure = || {
            let before = testbed.carried()?;
            let first = workspace.copy(Some(&testbed.left), Some(&daemon), &of("evidence", case.at_once))?;
            first_bytes = testbed.carried()?.since(&before).forward_bytes as f64;
            costs = Costs::of(&first.finished);
            let by = if case.by_chunk { "chunks again" } else { "whole files again" };
            let by_at_once = if case.at_once.is_some() { BY_FILES_AT_ONCE } else { "" };
            let mut sample = of_copy(&format!("{by}{by_at_once}"), &first, set.bytes(), set.files);
            sample = sample.measured(FIRST_COPY, first.wall_s, "s");
            if damaged.is_empty() {
                return Ok(sample);
            }
            damage(&copy, &set, &shape, &damaged)?;
            if !case.by_chunk {
                files.iter().try_for_each(|&number| workspace.remove(&copy.join(set.file(number).path)))?;
            }
            let again = workspace.copy(Some(&testbed.left), Some(&daemon), &of(check, case.at_once))?;
            sample.wall_s += again.wall_s;
            sample.cpu_s = sample.cpu_s.zip(again.cpu_s).map(|(first, again)| first + again);
            Ok(sample.measured(PAYLOAD_SENT_AGAIN, again.number("bytes_received"), "B"))
        };
        let sample = timeline::beside(workspace, testbed, || super::over(testbed, measure))?;
        super::sound(&copy, &set)?;
        // Behind what is measured: the line carries nothing of it in the sample, nor in its figures over time.
        let idle = |check: &str| {
            bench.workspace.settle()?;
            let before = testbed.carried()?;
            let ended = bench.workspace.copy(Some(&testbed.left), Some(&daemon), &of(check, case.at_once))?;
            Ok::<_, Failure>((ended.wall_s, testbed.carried()?.since(&before).forward_bytes as f64))
        };
        let command = idle("evidence")?;
        let nothing = if case.by_chunk { idle(check)? } else { command };
        bench.workspace.remove(&copy)?;
        let seen = Seen {
            chunks: damaged.len(),
            files: files.len(),
            first_bytes,
            command_s: command.0,
            nothing,
            costs,
        };
        Ok(Some(with_laws(sample, case, &shape, &seen, &path)?))
    })
}

/// What a byte cost the stages of a copy, in seconds. Each works on several threads at once.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Costs {
    looks: Looks,
    write_s_per_byte: f64,
}

impl Costs {
    /// Of a copy with this last event; nothing where that does not tell.
    fn of(finished: &Value) -> Costs {
        let rows = finished["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let s_per_byte = |stage: Stage, place: &str| {
            let is_it = |row: &&Value| row["stage"] == stage.name() && row["place"] == place;
            let row = rows.iter().find(is_it)?;
            let busy_s = row["busy"].as_f64()? * finished["seconds"].as_f64()?;
            let bytes = row["bytes"].as_f64().filter(|bytes| *bytes > 0.0)?;
            Some(busy_s / bytes)
        };
        let looks = Looks {
            read_s_per_byte: s_per_byte(Stage::Read, "source").unwrap_or(0.0),
            check_s_per_byte: s_per_byte(Stage::Digest, "source").unwrap_or(0.0),
        };
        Costs { looks, write_s_per_byte: s_per_byte(Stage::Write, "destination").unwrap_or(0.0) }
    }

    fn rebuilt_s_per_byte(&self) -> f64 {
        self.looks.read_s_per_byte + self.looks.check_s_per_byte + self.write_s_per_byte
    }
}

/// What a run saw beside its sample.
struct Seen {
    /// Damaged ones.
    chunks: usize,
    /// Files that have any.
    files: usize,
    /// What the first copy sent, with all headers.
    first_bytes: f64,
    /// A command that looks at evidence and finds nothing to do.
    command_s: f64,
    /// The command that repairs, where nothing is damaged: seconds, and bytes with all headers.
    nothing: (f64, f64),
    costs: Costs,
}

/// What a law of a copy that is damaged and repaired counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repair {
    /// The copy itself, in seconds.
    pub first_s: f64,
    /// The command that repairs, where it has nothing to do, in seconds.
    pub nothing_s: f64,
    /// Content that crosses the path again, in bytes.
    pub again_bytes: f64,
    /// What the way carries of it after a start, in bits a second; positive.
    pub rate_bits_per_s: f64,
    /// Copying what is sound of damaged files into new ones, in seconds; 0 where whole files are sent.
    pub rebuilt_s: f64,
}

impl Repair {
    /// Seconds of copy and repair: `T = first + nothing + again / R + rebuilt`. The third term is what 001 Eq 1 has
    /// more with damage than without; of a repair by a command of its own it leaves out the second and the fourth.
    pub fn law_s(&self) -> f64 {
        self.first_s + self.nothing_s + self.again_bytes * 8.0 / self.rate_bits_per_s + self.rebuilt_s
    }
}

/// Counts of damage, what was sent again on the wire, and what the laws say of it.
fn with_laws(sample: Sample, case: &Case, shape: &Shape, seen: &Seen, path: &PathWish) -> Result<Sample> {
    let forward = sample.measured["bytes_forward_on_the_wire"].value().unwrap_or(0.0);
    let failures = if case.by_chunk { seen.chunks } else { seen.files } as f64;
    let damage = Damage { files: shape.files as f64, file_bytes: shape.file_bytes() as f64, failures };
    let failed = |error: thalweg_mover::model::ModelError| {
        Failure::new(FailureKind::Usage, "ask what damage costs", error.to_string())
    };
    let (all_bytes, line) = (sample.bytes as f64, path.payload_bits_per_s());
    let first_s = sample.measured[FIRST_COPY].value().unwrap_or(0.0);
    // What the way carries once it runs (R_e2e): as this very run saw it, and no more than the line.
    let moving_s = (first_s - seen.command_s).max(all_bytes * 8.0 / line);
    let rate_bits_per_s = all_bytes * 8.0 / moving_s;
    let again_bytes = if case.by_chunk { shape.chunk_bytes } else { shape.file_bytes() } as f64 * failures;
    let rebuilt_bytes = if case.by_chunk { seen.files as f64 * damage.file_bytes - again_bytes } else { 0.0 };
    let rebuilt_s = rebuilt_bytes * seen.costs.rebuilt_s_per_byte();
    let (nothing_s, nothing_bytes) = seen.nothing;
    let repair = Repair { first_s, nothing_s, again_bytes, rate_bits_per_s, rebuilt_s };
    let rate = sample.rate_bits_per_s();
    let sample = match case.at_once {
        Some(at_once) => sample.with("concurrency", count(at_once as f64)),
        None => sample,
    };
    let mut sample = sample
        .with(DAMAGED_SHARE, count(case.share))
        .with("chunk_size", bytes(shape.chunk_bytes))
        .measured("damaged_chunks", seen.chunks as f64, "1")
        .measured("damaged_files", seen.files as f64, "1")
        .measured(SENT_AGAIN, forward - seen.first_bytes, "B")
        .measured(NOTHING, nothing_s, "s")
        .measured("rate", rate, "bit/s");
    if case.by_chunk {
        // All is looked at: the law of a set without damage, less that of one where nobody looks.
        let sound = Damage { failures: 0.0, ..damage };
        let chunk_bytes = shape.chunk_bytes as f64;
        let with_looks_s = sound.time_by_chunk_with_looks_s(chunk_bytes, rate_bits_per_s, &seen.costs.looks);
        let looks_s = with_looks_s.map_err(failed)? - sound.time_s(rate_bits_per_s).map_err(failed)?;
        sample = sample.predicted(NOTHING, seen.command_s + looks_s, "s");
    }
    // Without damage the laws would only be compared with what they were given.
    Ok(match seen.chunks {
        0 => sample,
        // Headers and what a queue drops are as many for a byte as in the first copy.
        _ => sample
            .predicted(SENT_AGAIN, nothing_bytes + again_bytes * seen.first_bytes / all_bytes, "B")
            .predicted("rate", all_bytes * 8.0 / repair.law_s(), "bit/s"),
    })
}

/// How the copies of a series, damaged and repaired, compare with their law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The command that repairs, where nothing is damaged, in seconds: the median.
    pub nothing_s: f64,
    /// Whether that was measured, in each run. In results from before it is what the repair of the least damage took
    /// more than its content takes on the line; that damage then says nothing of the law.
    pub is_measured: bool,
    /// The rate over that of the law: the median at the share of damage at which that is the least.
    pub rate_least: f64,
    /// What was sent again over what the law counts of it: the largest of these medians.
    pub sent_again_most: f64,
}

impl Judged {
    /// Of the samples of one series over this path, those with damage; `None` where there are none with a law.
    pub fn of(samples: &[&Sample], path: &PathKind) -> Option<Judged> {
        let share = |sample: &Sample| sample.parameter(DAMAGED_SHARE).unwrap_or(0.0);
        let mut damaged: Vec<&Sample> =
            samples.iter().copied().filter(|sample| share(sample) > 0.0).collect();
        damaged.sort_by(|a, b| share(a).total_cmp(&share(b)));
        let number = |sample: &Sample, name: &str| sample.measured.get(name).and_then(Quantity::value);
        let law = |sample: &Sample, name: &str| sample.predicted.get(name).and_then(Quantity::value);
        let nothing: Vec<f64> = damaged.iter().filter_map(|sample| number(sample, NOTHING)).collect();
        let is_measured = !damaged.is_empty() && nothing.len() == damaged.len();
        let by_share = damaged.chunk_by(|a, b| share(a) == share(b));
        let (nothing_s, laws) = if is_measured {
            let of = |sample: &&Sample| {
                let rate = sample.rate_bits_per_s() / law(sample, "rate")?;
                Some((rate, number(sample, SENT_AGAIN)? / law(sample, SENT_AGAIN)?))
            };
            let laws = by_share.map(|samples| samples.iter().filter_map(of).collect::<Vec<_>>());
            (median(&nothing), laws.collect::<Vec<_>>())
        } else {
            let mut by_share = by_share;
            let line = line_bits_per_s(path)?;
            let least: Vec<Beside> =
                by_share.next()?.iter().filter_map(|sample| Beside::of(sample, line)).collect();
            if least.is_empty() {
                return None;
            }
            let middle = |of: fn(&Beside) -> f64| median(&least.iter().map(of).collect::<Vec<_>>());
            let (more_s, more_bytes) = (middle(|one| one.more_s), middle(|one| one.more_bytes));
            let of = |sample: &&Sample| Some(Beside::of(sample, line)?.with_nothing(more_s, more_bytes));
            let laws = by_share.map(|samples| samples.iter().filter_map(of).collect::<Vec<_>>());
            (more_s, laws.collect::<Vec<_>>())
        };
        let medians = |of: fn(&(f64, f64)) -> f64| {
            let known = laws.iter().filter(|laws| !laws.is_empty());
            known.map(|laws| median(&laws.iter().map(of).collect::<Vec<_>>())).collect::<Vec<_>>()
        };
        Some(Judged {
            nothing_s,
            is_measured,
            rate_least: medians(|law| law.0).into_iter().reduce(f64::min)?,
            sent_again_most: medians(|law| law.1).into_iter().reduce(f64::max)?,
        })
    }
}

/// A copy and its repair, beside what their content takes.
struct Beside {
    repair: Repair,
    wall_s: f64,
    /// What the repair took more than its content does on the line.
    more_s: f64,
    sent_again: f64,
    /// Its content, with as much for headers and for what a queue drops as the first copy had.
    content_bytes: f64,
    /// What it sent more than that.
    more_bytes: f64,
}

impl Beside {
    fn of(sample: &Sample, rate_bits_per_s: f64) -> Option<Beside> {
        let number = |name: &str| sample.measured.get(name).and_then(Quantity::value);
        let (first_s, again_bytes) = (number(FIRST_COPY)?, number(PAYLOAD_SENT_AGAIN)?);
        let (sent_again, all_sent) = (number(SENT_AGAIN)?, number("bytes_forward_on_the_wire")?);
        let content_bytes = again_bytes * (all_sent - sent_again) / sample.bytes as f64;
        let repair = Repair { first_s, nothing_s: 0.0, again_bytes, rate_bits_per_s, rebuilt_s: 0.0 };
        Some(Beside {
            wall_s: sample.wall_s,
            more_s: sample.wall_s - repair.law_s(),
            sent_again,
            content_bytes,
            more_bytes: sent_again - content_bytes,
            repair,
        })
    }

    /// Its rate and what it sent again over what the law says of them.
    fn with_nothing(&self, nothing_s: f64, nothing_bytes: f64) -> (f64, f64) {
        let law_s = Repair { nothing_s, ..self.repair }.law_s();
        (law_s / self.wall_s, self.sent_again / (nothing_bytes + self.content_bytes))
    }
}

fn line_bits_per_s(path: &PathKind) -> Option<f64> {
    match path {
        PathKind::Testbed { rate_bits_per_s, mtu_bytes, .. } => {
            Some((*rate_bits_per_s)? as f64 * payload_share(*mtu_bytes))
        }
        _ => None,
    }
}

/// Flips a bit in the middle of each of these chunks, and leaves the times as they were.
fn damage(copy: &Path, set: &DatasetSpec, shape: &Shape, chunks: &[u64]) -> Result<()> {
    let of = |error: std::io::Error| of_io("damage a copy", &error);
    for number in chunks {
        let path = copy.join(set.file(number / shape.chunks).path);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(of)?;
        let changed = file.metadata().and_then(|metadata| metadata.modified()).map_err(of)?;
        let at = number % shape.chunks * shape.chunk_bytes + shape.chunk_bytes / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).map_err(of)?;
        file.write_all_at(&[byte[0] ^ 1], at).map_err(of)?;
        file.set_modified(changed).map_err(of)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn damage_is_repaired_by_share_and_at_one_share_by_files_at_once() {
        let all = cases();
        let by_share = all.iter().filter(|case| case.at_once.is_none());
        assert_eq!(by_share.count(), 2 * SHARES.len());
        let by_at_once: Vec<(u64, f64)> =
            all.iter().filter_map(|case| Some((case.at_once?, case.share))).collect();
        assert_eq!(by_at_once, [1, 1, 4, 4, 16, 16].map(|at_once| (at_once, 0.05)));
        assert!(SHARES.contains(&SHARE_BY_AT_ONCE) && AT_ONCE.iter().all(|at_once| *at_once <= FILES));
    }

    #[test]
    fn what_a_byte_costs_is_what_the_stages_of_the_first_copy_were_busy_with_it() {
        let row = |stage: &str, place: &str, busy: f64, bytes: u64| {
            let mut row = json!({"stage": stage, "place": place, "busy": busy});
            row["bytes"] = bytes.into();
            row
        };
        let (there, read) = (row("read", "destination", 0.9, 1000), row("read", "source", 0.2, 1000));
        let (digest, write) = (row("digest", "source", 0.1, 1000), row("write", "destination", 0.05, 1000));
        let costs = Costs::of(&json!({"seconds": 2.0, "stages": [there, read, digest, write]}));
        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        assert!(is_near(costs.looks.read_s_per_byte, 4e-4) && is_near(costs.looks.check_s_per_byte, 2e-4));
        assert!(is_near(costs.write_s_per_byte, 1e-4) && is_near(costs.rebuilt_s_per_byte(), 7e-4));
        // What is not told costs nothing.
        let none = [row("read", "source", 0.5, 0)];
        assert_eq!(Costs::of(&json!({"seconds": 2.0, "stages": none})), Costs::default());
        assert_eq!(Costs::of(&json!({"event": "finished"})), Costs::default());
    }

    /// 64 MiB in a second, of which a fifth is the command; 102 chunks of a tenth of it, in all files, are damaged.
    #[test]
    fn the_laws_that_are_drawn_count_the_command_that_repairs_and_what_it_sends_and_rebuilds() {
        let shape = Shape { files: 16, chunk_bytes: 65_536, chunks: 64 };
        let rtt = Duration::from_millis(6);
        let path = PathWish { rtt, rate_bits_per_s: GBIT, loss: 0.0, mtu_bytes: 1500 };
        let bytes = shape.files * shape.file_bytes();
        let all = bytes as f64;
        let sample = Sample { bytes, wall_s: 2.0, ..Sample::default() };
        let sample = sample.measured(FIRST_COPY, 1.0, "s").measured("bytes_forward_on_the_wire", 0.0, "B");
        let looks = Looks { read_s_per_byte: 0.1 / all, check_s_per_byte: 0.05 / all };
        let costs = Costs { looks, write_s_per_byte: 0.05 / all };
        let told = |by_chunk: bool, nothing_s: f64, chunks: usize| {
            let case = Case { share: 0.1, by_chunk, at_once: None };
            let nothing = (nothing_s, 1000.0);
            let files = chunks.min(16);
            let seen = Seen { chunks, files, first_bytes: all * 1.05, command_s: 0.2, nothing, costs };
            with_laws(sample.clone(), &case, &shape, &seen, &path).unwrap()
        };
        let law = |sample: &Sample, name: &str| sample.predicted[name].value().unwrap();
        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        // By whole files: once, the command, and all of it again in the 0.8 s that the first copy moved.
        let whole = told(false, 0.2, 102);
        assert!(is_near(law(&whole, "rate"), all * 8.0 / (1.0 + 0.2 + 0.8)));
        assert!(is_near(law(&whole, SENT_AGAIN), 1000.0 + all * 1.05));
        assert!(!whole.predicted.contains_key(NOTHING), "it looks at no content");
        // By chunks: a tenth of that is sent, and nine tenths are rebuilt, at 0.2 s for all.
        let (again, chunks) = (102.0 / 1024.0, told(true, 0.4, 102));
        assert!(is_near(law(&chunks, "rate"), all * 8.0 / (1.0 + 0.4 + 0.8 * again + 0.2 * (1.0 - again))));
        assert!(is_near(law(&chunks, SENT_AGAIN), 1000.0 + all * again * 1.05));
        assert!(is_near(law(&chunks, NOTHING), 0.2 + 0.15) && chunks.measured[NOTHING].value() == Some(0.4));
        // Without damage only the search has a law.
        let sound = told(true, 0.4, 0);
        assert_eq!(sound.predicted.keys().collect::<Vec<_>>(), [NOTHING]);
    }

    /// Over a line of 100 MB of payload a second: a copy of 100 MB in 1.1 s, and a repair that takes 0.2 s and sends 1
    /// MB where it has nothing to do.
    #[test]
    fn what_a_repair_takes_with_nothing_to_do_is_found_in_results_that_did_not_measure_it() {
        let rate_bits_per_s = (8e8 / payload_share(1500)).round() as u64;
        let (rtt_s, loss) = (Some(0.006), Some(0.0));
        let path = PathKind::Testbed { rtt_s, rate_bits_per_s: Some(rate_bits_per_s), loss, mtu_bytes: 1500 };
        let of = |share: f64, slower: f64| {
            let again = 1e8 * share;
            let wall_s = (1.1 + 0.2 + share) * slower;
            let sent = 1e6 + again * 1.04;
            let sample = Sample { bytes: 100_000_000, wall_s, ..Sample::default() };
            let sample = sample.with(DAMAGED_SHARE, count(share)).measured(FIRST_COPY, 1.1, "s");
            let sample = sample.measured(PAYLOAD_SENT_AGAIN, again, "B").measured(SENT_AGAIN, sent, "B");
            sample.measured("bytes_forward_on_the_wire", 1.04e8 + sent, "B")
        };
        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-6;
        let judged = |samples: &[Sample]| Judged::of(&samples.iter().collect::<Vec<_>>(), &path);
        let fits = judged(&[of(0.01, 1.0), of(0.05, 1.0), of(0.1, 1.25)]).unwrap();
        assert!(!fits.is_measured && is_near(fits.nothing_s, 0.2), "{fits:?}");
        assert!(is_near(fits.rate_least, 0.8) && is_near(fits.sent_again_most, 1.0), "{fits:?}");
        // Of one share alone nothing is left to be judged, and without damage there is no law.
        assert_eq!((judged(&[of(0.01, 1.0)]), judged(&[of(0.0, 1.0)])), (None, None));
        // Where it was measured the laws of the samples count, at each share.
        let with_law = |share: f64, law_s: f64| {
            let sample = of(share, 1.0).measured(NOTHING, 0.3, "s");
            sample.predicted("rate", 8e8 / law_s, "bit/s").predicted(SENT_AGAIN, 1e6, "B")
        };
        let told = judged(&[with_law(0.01, 1.179), with_law(0.1, 1.4)]).unwrap();
        assert!(told.is_measured && told.nothing_s == 0.3, "{told:?}");
        assert!(is_near(told.rate_least, 0.9) && is_near(told.sent_again_most, 11.4), "{told:?}");
    }

    #[test]
    fn so_many_chunks_are_damaged_as_were_asked_for_and_each_once() {
        let shape = Shape { files: 16, chunk_bytes: 65_536, chunks: 64 };
        for share in SHARES {
            let mut numbers = shape.damaged(share, 3);
            assert_eq!(numbers.len(), (1024.0 * share).round() as usize);
            numbers.dedup();
            assert_eq!(numbers.len(), (1024.0 * share).round() as usize);
            assert!(numbers.iter().all(|number| *number < 1024));
        }
    }
}
