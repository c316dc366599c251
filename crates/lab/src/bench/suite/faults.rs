//! `faults`: what damage costs when whole files are sent again (001 section 4.1, Eqs 1 and 2, Figs 6 and 7) and when
//! only the damaged chunks are. What was sent again is counted on the wire.
//!
//! Each run copies a set, flips one bit in each of some chunks of the copy, and repairs it: in the one series by
//! removing each damaged file and copying again, in the other by `--check digest`, which finds the chunks by itself.
//!
//! The laws count what crosses the path again, and that it is looked at again: whole files that are sent again are read
//! at the source and digested once more, and who looks for damaged chunks does so with all of them. How long a byte of
//! that takes the first copy shows.

use super::{
    GBIT, MIB, OVER_A_PATH, Suite, Takes, VERIFIED, Values, bytes, count, encrypted, of_copy, scaled, size,
    testbed_kind, words,
};
use crate::bench::network::{PathWish, Testbed};
use crate::bench::record::Sample;
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
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};
use thalweg_mover::model::repair::{Damage, Looks};
use thalweg_mover::stage::Stage;

pub const SUITE: Suite = Suite {
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
                "{} files of {of}, each {} chunks of {}",
                shape.files,
                shape.chunks,
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
        let (mut first_bytes, mut looks) = (0.0, Looks::default());
        let (workspace, testbed) = (&bench.workspace, &testbed);
        let measure = || {
            let before = testbed.carried()?;
            let first = workspace.copy(Some(&testbed.left), Some(&daemon), &of("evidence", case.at_once))?;
            first_bytes = testbed.carried()?.since(&before).forward_bytes as f64;
            looks = looks_of(&first.finished);
            let by = if case.by_chunk { "chunks again" } else { "whole files again" };
            let by_at_once = if case.at_once.is_some() { ", by files at once" } else { "" };
            let mut sample = of_copy(&format!("{by}{by_at_once}"), &first, set.bytes(), set.files);
            sample = sample.measured("first_copy", first.wall_s, "s");
            if damaged.is_empty() {
                return Ok(sample);
            }
            damage(&copy, &set, &shape, &damaged)?;
            if !case.by_chunk {
                files.iter().try_for_each(|&number| workspace.remove(&copy.join(set.file(number).path)))?;
            }
            let check = if case.by_chunk { "digest" } else { "evidence" };
            let again = workspace.copy(Some(&testbed.left), Some(&daemon), &of(check, case.at_once))?;
            sample.wall_s += again.wall_s;
            sample.cpu_s = sample.cpu_s.zip(again.cpu_s).map(|(first, again)| first + again);
            Ok(sample.measured("payload_sent_again", again.number("bytes_received"), "B"))
        };
        let sample = timeline::beside(workspace, testbed, || super::over(testbed, measure))?;
        super::sound(&copy, &set)?;
        bench.workspace.remove(&copy)?;
        let counts = (damaged.len(), files.len());
        Ok(Some(with_laws(sample, case, &shape, counts, (first_bytes, &looks), &path)?))
    })
}

/// What it cost the source of a copy to read a byte, and to digest it; `finished`: its last event. Both are done on
/// several threads at once.
fn looks_of(finished: &Value) -> Looks {
    let rows = finished["stages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let s_per_byte = |stage: Stage| {
        let is_it = |row: &&Value| row["stage"] == stage.name() && row["place"] == "source";
        let row = rows.iter().find(is_it)?;
        let busy_s = row["busy"].as_f64()? * finished["seconds"].as_f64()?;
        let bytes = row["bytes"].as_f64().filter(|bytes| *bytes > 0.0)?;
        Some(busy_s / bytes)
    };
    Looks {
        read_s_per_byte: s_per_byte(Stage::Read).unwrap_or(0.0),
        check_s_per_byte: s_per_byte(Stage::Digest).unwrap_or(0.0),
    }
}

/// Counts of damage, what was sent again on the wire, and what 001 Eqs 1 and 2 say, with what is looked at again.
fn with_laws(
    sample: Sample,
    case: &Case,
    shape: &Shape,
    (chunks, files): (usize, usize),
    (first_bytes, looks): (f64, &Looks),
    path: &PathWish,
) -> Result<Sample> {
    let forward = sample.measured["bytes_forward_on_the_wire"].value().unwrap_or(0.0);
    let failures = if case.by_chunk { chunks } else { files } as f64;
    let damage = Damage { files: shape.files as f64, file_bytes: shape.file_bytes() as f64, failures };
    let failed = |error: thalweg_mover::model::ModelError| {
        Failure::new(FailureKind::Usage, "ask what damage costs", error.to_string())
    };
    let line = path.payload_bits_per_s();
    // What the whole way carries without damage, as this very run saw it (R_e2e).
    let first_s = sample.measured["first_copy"].value().unwrap_or(0.0);
    let seen = sample.bytes as f64 * 8.0 / first_s;
    let law_s = match case.by_chunk {
        true => damage.time_by_chunk_with_looks_s(shape.chunk_bytes as f64, seen, looks),
        false => damage.time_with_looks_s(seen, looks),
    };
    let again_bytes = if case.by_chunk { shape.chunk_bytes } else { shape.file_bytes() } as f64 * failures;
    let rate = sample.rate_bits_per_s();
    let effective = sample.bytes as f64 * 8.0 / law_s.map_err(failed)?;
    let sample = match case.at_once {
        Some(at_once) => sample.with("concurrency", count(at_once as f64)),
        None => sample,
    };
    let sample = sample
        .with("damaged_share", count(case.share))
        .with("chunk_size", bytes(shape.chunk_bytes))
        .measured("damaged_chunks", chunks as f64, "1")
        .measured("damaged_files", files as f64, "1")
        .measured("sent_again_on_the_wire", forward - first_bytes, "B")
        .measured("rate", rate, "bit/s");
    // Without damage the laws would only be compared with what they were given.
    Ok(match chunks {
        0 => sample,
        _ => sample.predicted("sent_again_on_the_wire", again_bytes, "B").predicted(
            "rate",
            effective.min(line),
            "bit/s",
        ),
    })
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
    fn what_a_byte_costs_to_look_at_is_what_the_source_was_busy_with_it() {
        let row = |stage: &str, place: &str, busy: f64, bytes: u64| {
            let mut row = json!({"stage": stage, "place": place, "busy": busy});
            row["bytes"] = bytes.into();
            row
        };
        let (there, read) = (row("read", "destination", 0.9, 1000), row("read", "source", 0.2, 1000));
        let stages = [there, read, row("digest", "source", 0.1, 1000)];
        let looks = looks_of(&json!({"seconds": 2.0, "stages": stages}));
        assert!(
            (looks.read_s_per_byte - 4e-4).abs() < 1e-12 && (looks.check_s_per_byte - 2e-4).abs() < 1e-12
        );
        // What is not told costs nothing.
        let none = [row("read", "source", 0.5, 0)];
        assert_eq!(looks_of(&json!({"seconds": 2.0, "stages": none})), Looks::default());
        assert_eq!(looks_of(&json!({"event": "finished"})), Looks::default());
    }

    /// 64 MiB of which a tenth of the chunks are damaged, in all files.
    #[test]
    fn the_laws_that_are_drawn_count_what_is_looked_at_again() {
        let shape = Shape { files: 16, chunk_bytes: 65_536, chunks: 64 };
        let rtt = Duration::from_millis(6);
        let path = PathWish { rtt, rate_bits_per_s: GBIT, loss: 0.0, mtu_bytes: 1500 };
        let bytes = shape.files * shape.file_bytes();
        let sample = Sample { bytes, wall_s: 2.0, ..Sample::default() };
        let sample = sample.measured("first_copy", 1.0, "s").measured("bytes_forward_on_the_wire", 0.0, "B");
        let law = |by_chunk: bool, looks: &Looks| {
            let case = Case { share: 0.1, by_chunk, at_once: None };
            let told = with_laws(sample.clone(), &case, &shape, (102, 16), (0.0, looks), &path).unwrap();
            told.predicted["rate"].value().unwrap()
        };
        let a_second = 0.5 / bytes as f64;
        let looks = Looks { read_s_per_byte: a_second, check_s_per_byte: a_second };
        let rate = bytes as f64 * 8.0;
        let is_near = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        // Once, all of it again, and a second to look at that.
        assert!(
            is_near(law(false, &looks), rate / 3.0) && is_near(law(false, &Looks::default()), rate / 2.0)
        );
        assert!(is_near(law(true, &looks), rate / (2.0 + 102.0 / 1024.0)));
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
