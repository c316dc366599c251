//! How many system calls a chunk takes where an io_uring writes it, counted by strace. valgrind runs no io_uring: what
//! is counted beside this ([`super`]) goes by helper threads.
//!
//! A file is pulled from a daemon into a directory, past the page cache, once small and once large, the receiving side
//! under strace. The difference, shared out over the chunks between the two sizes, is what one chunk takes. Counted are
//! the calls for rings and files ([`COUNTED`]). Not counted are those of sockets, which go by how much has arrived, and
//! those of locks and clocks, which go by time.
//!
//! - A request takes one call of the ring at least. Where there are fewer than [`RING_SHARE_MIN`] of that, something
//!   else wrote the chunk: a failure.
//! - More than [`SLACK`] above [`BUDGET`] is a failure. Less is none: how often a thread waits for the disk is up to
//!   the disk.
//!
//! Not here: instructions. In user space all of them together are those of digest and cipher, beside which the
//! bookkeeping does not show.

use super::{SEGMENTS, Unit, pull};
use crate::packages;
use crate::scratch::Scratch;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use thalweg_lab::wrap::wrap;
use thalweg_sys::{Dir, queue};

/// System calls for a chunk, at the receiving side, as it was measured.
const BUDGET: f64 = 21.5;
/// How far above the budget it may be: a thread that has to wait for the disk asks the ring once more, and disks
/// differ.
const SLACK: f64 = 0.5;
/// Of the requests of a chunk, so many go by the ring at least. The rest is for segments that find no memory to be in
/// flight in, and are written at once.
const RING_SHARE_MIN: f64 = 0.9;

/// What is counted; the first is the ring's.
const COUNTED: [&str; 11] = [
    "io_uring_enter",
    "read",
    "write",
    "readv",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
];

/// Chunks of the small and of the large file.
const CHUNKS: [u64; 2] = [8, 72];
const NAME: &str = "receiver, by an io_uring";
const STRACE: &[(&str, &str)] = &[("strace", "/usr/bin/strace")];

/// Calls by name.
type Calls = BTreeMap<String, u64>;

/// Counts, tells, and gives what is wrong. Where this machine has no io_uring, no direct I/O or no right to trace, it
/// tells that and counts nothing.
///
/// # Errors
/// If a copy fails, or strace counts nothing.
pub(super) fn run(thalweg: &Path, is_verbose: bool) -> Result<Vec<String>> {
    packages::install(STRACE)?;
    if let Some(why) = lacking()? {
        println!("{NAME}: not counted: {why}");
        return Ok(Vec::new());
    }
    let [small, large] = CHUNKS.map(|chunks| count(thalweg, chunks));
    let each = of_a_chunk(&small?, &large?, (CHUNKS[1] - CHUNKS[0]) as f64);
    let sum = |names: &[&str]| -> f64 {
        each.iter().filter(|(name, _)| names.contains(&name.as_str())).map(|(_, calls)| calls).sum()
    };
    let (ring, all) = (sum(&COUNTED[..1]), sum(&COUNTED));
    println!(
        "{NAME}: {all:.1} system calls for each chunk, {ring:.1} of them the ring's; {BUDGET:.1} budgeted"
    );
    if is_verbose {
        each.iter().take(25).for_each(|(name, calls)| println!("  {calls:>9.2}  {name}"));
    }
    Ok(judge(ring, all, BUDGET))
}

/// What is wrong with these counts.
fn judge(ring: f64, all: f64, budget: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    if ring < SEGMENTS * RING_SHARE_MIN {
        wrong.push(format!("{NAME}: {ring:.1} calls of the ring for the {SEGMENTS:.0} requests of a chunk"));
    }
    if all > budget * (1.0 + SLACK) {
        wrong.push(format!("{NAME}: {all:.1} system calls for a chunk, not about {budget:.1}"));
    }
    wrong
}

/// Why nothing can be counted here, if so.
fn lacking() -> Result<Option<String>> {
    if let Err(why) = queue::io_uring_is_there() {
        return Ok(Some(format!("no io_uring is to be had: {why}")));
    }
    let scratch = Scratch::new("calls")?;
    let probe = Dir::open(&scratch.path("."))?.create_new(b"probe", 0o600)?;
    if let Err(why) = probe.set_direct(true) {
        return Ok(Some(format!("no direct I/O below target/: {why}")));
    }
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).output();
    let can_trace = traced.is_ok_and(|output| output.status.success());
    Ok((!can_trace).then(|| "no strace, or no right to trace".to_owned()))
}

/// Calls of the receiving side of one copy.
fn count(thalweg: &Path, chunks: u64) -> Result<Calls> {
    let scratch = Scratch::new("calls")?;
    let (out, to) = (scratch.path("strace"), scratch.path("to").display().to_string());
    let under = |side: usize, command: Command| {
        if side == 0 {
            return command;
        }
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-c", "-o"]).arg(&out);
        wrap(strace, &command)
    };
    pull(thalweg, &scratch, (Unit::Chunk, chunks), (&to, &["--direct", "destination=on"]), &under)?;
    let text = std::fs::read_to_string(&out).with_context(|| out.display().to_string())?;
    let calls = parse(&text);
    ensure!(!calls.is_empty(), "strace counted nothing in {}", out.display());
    Ok(calls)
}

/// What one chunk more takes, the most frequent call first.
fn of_a_chunk(small: &Calls, large: &Calls, chunks: f64) -> Vec<(String, f64)> {
    let before = |name: &str| small.get(name).copied().unwrap_or(0) as f64;
    let mut each: Vec<(String, f64)> =
        large.iter().map(|(name, &calls)| (name.clone(), (calls as f64 - before(name)) / chunks)).collect();
    each.sort_by(|a, b| b.1.total_cmp(&a.1));
    each
}

/// Reads the table of `strace -c`: share, seconds, microseconds for a call, calls, errors if there were any, name.
fn parse(table: &str) -> Calls {
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let calls = words.get(3)?.parse::<u64>().ok()?;
        let name = words.get(4..)?.last().filter(|name| **name != "total")?;
        Some(((*name).to_owned(), calls))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 88.95    0.000314          52         6         2 read
  2.83    0.000010           5        64           io_uring_enter
------ ----------- ----------- --------- --------- ----------------
100.00    0.000353          29        70         2 total
";

    #[test]
    fn calls_are_read_with_and_without_errors_and_their_sum_is_none() {
        let calls = parse(TABLE);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls["read"], calls["io_uring_enter"]), (6, 64));
        let more =
            Calls::from([("io_uring_enter".to_owned(), 96), ("read".to_owned(), 6), ("close".to_owned(), 4)]);
        let each = of_a_chunk(&calls, &more, 4.0);
        let named: Vec<(&str, f64)> = each.iter().map(|(name, calls)| (name.as_str(), *calls)).collect();
        assert_eq!(named, [("io_uring_enter", 8.0), ("close", 1.0), ("read", 0.0)]);
    }

    #[test]
    fn a_chunk_that_no_ring_wrote_and_one_that_takes_half_as_many_calls_more_are_failures() {
        assert!(judge(SEGMENTS, 11.0, 10.0).is_empty());
        assert!(judge(SEGMENTS, 8.0, 10.0).is_empty(), "fewer calls are no failure");
        assert_eq!(judge(SEGMENTS, 15.5, 10.0).len(), 1);
        assert_eq!(judge(SEGMENTS / 2.0, 10.0, 10.0).len(), 1);
        assert_eq!(judge(0.0, 10.0, 10.0).len(), 1);
    }
}
