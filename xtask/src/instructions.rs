//! `cargo xtask instructions`: how many instructions our own code spends on a chunk, counted by valgrind's callgrind.
//!
//! A file is pulled from a daemon, once small and once large, under callgrind. The difference,
//! shared out over the chunks between the two sizes, is what one chunk costs: what happens once cancels out. Counted is
//! what runs in [`PATH`], the functions that every chunk passes, and in what they call; not what is done once a second,
//! which under callgrind would seem to be done for every chunk. Three figures for each side of each of [`CASES`]:
//!
//! - *own*: functions written in Rust. What is done to each byte by digest and cipher is assembly or C here (its
//!   instructions depend on the machine; its time is measured by `cargo xtask bench`): what is left is the bookkeeping,
//!   which could grow unnoticed. More than [`SLACK`] above the budget is a failure, and so is less than that below, so
//!   that the budget follows when the path gets shorter.
//! - *copies*: `memcpy` and `memmove` of the C library. Their instructions depend on the machine, so they are held to a
//!   bound and not to a figure: [`COPIES_MAX`] is less than any machine needs to copy a segment once.
//! - *accounting*: what the clocks of the stages take, as a share of all that is done for the chunk, digest and cipher
//!   included. What the kernel does for a reading of a clock is not seen here and reckoned at [`CLOCK`]. It is no bound
//!   of the share of time, either way: what the kernel does for the bytes is left out, which makes the share larger;
//!   and valgrind has neither AVX-512 nor VAES, with which digest and cipher take fewer instructions, which makes it
//!   smaller. That share is told by `cargo bench -p thalweg-mover --bench accounts`. More than [`ACCOUNTING_MAX`] is a
//!   failure all the same: what accounting takes cannot grow unnoticed. So is another number of readings of clocks for
//!   a segment than [`READINGS_A_SEGMENT`], by which that bench goes.
//!
//! Of small files, which travel in packs, what one takes is told, and not judged while nothing was measured.
//!
//! Where an io_uring writes, which valgrind cannot run, system calls are counted: [`calls`].

use crate::scratch::Scratch;
use crate::servers::Daemon;
use crate::test;
use crate::{cargo, command, packages, toolchain};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_lab::wrap::wrap;
use thalweg_mover::stage::READINGS_A_SEGMENT;

mod calls;

/// Options of the count.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Show the functions that cost most
    #[arg(long)]
    verbose: bool,
    /// This program instead of a release that is built now
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// One way of a chunk.
struct Case {
    name: &'static str,
    /// Into a directory on disk, not into `null:`.
    writes: bool,
    unit: Unit,
    /// How many of these there are: few and many.
    counts: [u64; 2],
    /// Of the sending side and of the receiving side.
    budget: [Budget; 2],
}

/// What is counted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Of one file: 4 MiB in segments of [`SEGMENT_BYTES`].
    Chunk,
    /// Of [`SMALL_FILE_BYTES`], in packs.
    SmallFile,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Chunk => "chunk",
            Unit::SmallFile => "small file",
        }
    }
}

/// Own instructions for one of them.
#[derive(Clone, Copy, PartialEq)]
enum Budget {
    /// The side does what it does in another case.
    NotCounted,
    /// Nothing was measured yet: told, and not judged.
    Told,
    About(f64),
}

const CASES: [Case; 3] = [
    Case {
        name: "into null:",
        writes: false,
        unit: Unit::Chunk,
        counts: [8, 72],
        budget: [Budget::About(18_300.0), Budget::About(25_500.0)],
    },
    // Who sends does the same.
    Case {
        name: "into a directory",
        writes: true,
        unit: Unit::Chunk,
        counts: [8, 40],
        budget: [Budget::NotCounted, Budget::About(31_700.0)],
    },
    Case {
        name: "small files into null:",
        writes: false,
        unit: Unit::SmallFile,
        counts: [1_000, 5_000],
        budget: [Budget::Told, Budget::Told],
    },
];
const SIDES: [&str; 2] = ["sender", "receiver"];
/// What a chunk passes at the sending and at the receiving side.
const PATH: [&[&str]; 2] = [
    &["thalweg_mover::run::sender::SendRun::work"],
    &[
        "thalweg_mover::link::stream::reader::FrameReader::receive_up_to",
        "thalweg_mover::stage::intake::Intake::take",
    ],
];
/// How far the count may be from the budget.
const SLACK: f64 = 0.15;
/// How much less readings of clocks may be: a wait reads some, and how often threads wait for each other goes by how
/// the machine wakes them. The same program had 9.1 to 11.4 for a segment.
const FEWER_READINGS: f64 = 0.25;
/// Of copies of memory for a chunk. There are some 3,700, of what stands beside the bytes; a segment of 512 KiB takes
/// 16,384 at least, a load and a store for 64 bytes.
const COPIES_MAX: f64 = 8_192.0;

/// Where the time of stages is booked.
const ACCOUNTING: &str = "::stage::account::";
/// Instructions that a reading of a clock is reckoned at: that of a thread's CPU clock, a system call, takes 0.2 µs,
/// and few processors do five instructions in a nanosecond. The wall clock, every other reading, takes less.
const CLOCK: f64 = 1_000.0;
/// Readings for a chunk around what [`PATH`] names: the receiving side reads two clocks before each frame, and two
/// behind it.
const READINGS_BESIDE: [f64; 2] = [0.0, 4.0 * SEGMENTS];
/// Share of a chunk's instructions.
const ACCOUNTING_MAX: f64 = 0.01;
/// Times that a case is counted until all of its figures are in order: a thread that finds the machine busy waits more
/// often, and reads clocks each time.
const TRIES_MAX: usize = 3;
/// Of files that travel in packs.
const SMALL_FILE_BYTES: usize = 4096;

const CHUNK_BYTES: u64 = thalweg_mover::plan::CHUNK_BYTES;
/// What is asked for: round trips beneath valgrind are long, and what is usual goes by them.
const SEGMENT_BYTES: u32 = thalweg_mover::plan::SEGMENT_BYTES;
/// Of a chunk.
const SEGMENTS: f64 = CHUNK_BYTES as f64 / SEGMENT_BYTES as f64;

/// Runs it. valgrind must be there; where strace is not, its part is left out.
///
/// # Errors
/// If a side spends more than its budget, or less, or copies, or accounts for too much.
pub fn run(args: &Args) -> Result<()> {
    packages::install(test::VALGRIND)?;
    let thalweg = args.program.clone().map_or_else(cargo::build_release, Ok)?;
    let mut failed = Vec::new();
    for case in &CASES {
        let mut wrong = Vec::new();
        for _ in 0..TRIES_MAX {
            wrong = of_case(&thalweg, case, args.verbose)?;
            if wrong.is_empty() {
                break;
            }
            println!("{}", wrong.join("; "));
        }
        failed.extend(wrong);
    }
    failed.extend(calls::run(&thalweg, args.verbose)?);
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}; see `cargo xtask instructions --verbose`", failed.join("; "))
    }
}

/// Counts a case; what is wrong with it.
fn of_case(thalweg: &Path, case: &Case, is_verbose: bool) -> Result<Vec<String>> {
    let mut failed = Vec::new();
    let [small, large] = case.counts.map(|units| count(thalweg, case, units));
    let (small, large) = (small?, large?);
    for side in 0..SIDES.len() {
        let (Some(small), Some(large)) = (&small[side], &large[side]) else { continue };
        let name = format!("{}, {}", SIDES[side], case.name);
        let chunks = (case.counts[1] - case.counts[0]) as f64;
        let costs = of_a_chunk(&small.spent, &large.spent, chunks);
        for function in PATH[side] {
            let is_there = costs.iter().any(|(cost, _)| cost.name.contains(function));
            ensure!(is_there, "nothing was counted in {function}: has it another name by now?");
        }
        let sum = |is_of: fn(&Function) -> bool| -> f64 {
            costs.iter().filter(|(function, _)| is_of(function)).map(|(_, cost)| cost).sum()
        };
        let (own, copies) = (sum(Function::is_own), sum(Function::is_copy));
        ensure!(
            copies > 0.0,
            "no copy of memory was counted: without symbols of libc (libc6-dbg) none can be"
        );
        let Budget::About(budget) = case.budget[side] else {
            let unit = case.unit.name();
            println!("{name}: {own:.0} instructions for each {unit}, {copies:.0} that copy; not judged yet");
            continue;
        };
        println!(
            "{name}: {own:.0} instructions for each chunk, {budget:.0} budgeted; {copies:.0} that copy, {COPIES_MAX:.0} allowed"
        );
        let more = |small: u64, large: u64| (large as f64 - small as f64) / chunks;
        let accounting = Accounting {
            instructions: more(small.accounting, large.accounting),
            readings: more(small.readings, large.readings) + READINGS_BESIDE[side],
            all: costs.iter().map(|(_, cost)| cost).sum(),
        };
        ensure!(
            accounting.instructions > 0.0 && accounting.readings > READINGS_BESIDE[side],
            "no booking was counted in {ACCOUNTING}, or no clock: has it another name by now?"
        );
        println!(
            "{name}: {:.0} of {:.0} for accounting, and {:.0} readings of clocks: {:.2} %, {:.0} % allowed",
            accounting.instructions,
            accounting.all,
            accounting.readings,
            accounting.share() * 100.0,
            ACCOUNTING_MAX * 100.0
        );
        if is_verbose {
            let shown = costs.iter().filter(|(function, _)| function.is_own() || function.is_copy());
            shown.take(25).for_each(|(function, cost)| println!("  {cost:>9.0}  {}", function.name));
        }
        failed.extend(judge(&name, own, budget, copies, &accounting));
        if !case.writes {
            failed.extend(judge_readings(&name, accounting.readings / SEGMENTS, READINGS_A_SEGMENT[side]));
        }
    }
    Ok(failed)
}

/// What is wrong with these counts.
fn judge(name: &str, own: f64, budget: f64, copies: f64, accounting: &Accounting) -> Vec<String> {
    let mut wrong = Vec::new();
    if (own - budget).abs() > budget * SLACK {
        wrong.push(format!("{name} spends {own:.0} instructions on a chunk, not about {budget:.0}"));
    }
    if copies > COPIES_MAX {
        wrong.push(format!("{name} spends {copies:.0} instructions on copies of memory for a chunk, not at most {COPIES_MAX:.0}"));
    }
    let share = accounting.share();
    if share > ACCOUNTING_MAX {
        wrong.push(format!(
            "{name} spends {:.2} % of a chunk on accounting for it, not at most {:.0} %",
            share * 100.0,
            ACCOUNTING_MAX * 100.0
        ));
    }
    wrong
}

/// What is wrong with so many readings of clocks for a segment.
fn judge_readings(name: &str, readings: f64, expected: f64) -> Option<String> {
    let is_other = readings > expected * (1.0 + SLACK) || readings < expected * (1.0 - FEWER_READINGS);
    is_other.then(|| {
        format!("{name} reads clocks {readings:.1} times for a segment, not about {expected:.1} times")
    })
}

/// What accounting for one chunk takes.
struct Accounting {
    /// Instructions, without the kernel's.
    instructions: f64,
    /// Readings of clocks, whoever asked for them.
    readings: f64,
    /// Instructions for the chunk, for whatever.
    all: f64,
}

impl Accounting {
    fn share(&self) -> f64 {
        (self.instructions + self.readings * CLOCK) / self.all
    }
}

/// What a function is called, and which file it is from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Function {
    name: String,
    object: String,
}

impl Function {
    /// Its name has a path; the digest's own tree is as long as there are bytes.
    fn is_own(&self) -> bool {
        self.name.contains("::") && !self.name.contains("blake3::")
    }

    /// The C library's, by whatever name its variants for processors have.
    fn is_copy(&self) -> bool {
        let file = self.object.rsplit('/').next().unwrap_or_default();
        file.starts_with("libc.so")
            && ["memcpy", "memmove", "mempcpy"].iter().any(|name| self.name.contains(name))
    }
}

/// What callgrind counted of one side.
#[derive(Default)]
struct Counted {
    spent: Costs,
    /// Instructions of bookings, with all that they call.
    accounting: u64,
    /// Readings of clocks.
    readings: u64,
}

/// Instructions by function.
type Costs = HashMap<Function, u64>;

/// What one chunk (or file) more costs, the most expensive function first.
fn of_a_chunk(small: &Costs, large: &Costs, chunks: f64) -> Vec<(Function, f64)> {
    let before = |function: &Function| small.get(function).copied().unwrap_or(0) as f64;
    let mut costs: Vec<(Function, f64)> = large
        .iter()
        .map(|(function, &cost)| (function.clone(), (cost as f64 - before(function)) / chunks))
        .collect();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1));
    costs
}

/// Costs of both sides, where they are counted.
fn count(thalweg: &Path, case: &Case, units: u64) -> Result<[Option<Counted>; 2]> {
    let scratch = Scratch::new("instructions")?;
    let outs = SIDES.map(|side| scratch.path(side));
    let under = |side: usize, command: Command| {
        if case.budget[side] == Budget::NotCounted {
            return command;
        }
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind"]);
        valgrind.arg(format!("--callgrind-out-file={}", outs[side].display()));
        valgrind.args(PATH[side].iter().map(|function| format!("--toggle-collect={function}")));
        wrap(valgrind, &command)
    };
    let to = if case.writes { scratch.path("to").display().to_string() } else { "null:".to_owned() };
    // Threads: what valgrind makes of an io_uring is its own affair.
    pull(thalweg, &scratch, (case.unit, units), (&to, &["--no-io-uring"]), &under)?;
    let is_counted = |side: usize| case.budget[side] != Budget::NotCounted;
    let counted = |side: usize| is_counted(side).then(|| read(&outs[side])).transpose();
    Ok([counted(0)?, counted(1)?])
}

/// Pulls a file of so many chunks, or so many small files, from a daemon to a place, with more options. `under` puts a
/// program around each side.
fn pull(
    thalweg: &Path,
    scratch: &Scratch,
    (unit, units): (Unit, u64),
    (to, more): (&str, &[&str]),
    under: &dyn Fn(usize, Command) -> Command,
) -> Result<()> {
    let export = scratch.path("export");
    std::fs::create_dir(&export)?;
    match unit {
        Unit::Chunk => {
            let bytes = units * CHUNK_BYTES;
            toolchain::make_large_file(&toolchain::directory()?, &export.join("file"), bytes)?;
        }
        Unit::SmallFile => {
            std::fs::create_dir(export.join("file"))?;
            for number in 0..units {
                let path = export.join("file").join(number.to_string());
                std::fs::write(path, [number as u8; SMALL_FILE_BYTES])?;
            }
        }
    }
    let exports = [format!("data={}:ro", export.display())];
    let daemon = Daemon::start(thalweg, scratch, &exports, |command| under(0, command))?;
    let mut pull = Command::new(thalweg);
    pull.args(["cp", "--quiet", "--streams", "1", "--request", &SEGMENT_BYTES.to_string()]).args(more);
    pull.arg("--ticket").arg(&daemon.ticket);
    pull.arg(format!("tw://{}/data/file", daemon.address)).arg(to);
    pull.env("THALWEG_STATE", scratch.path("client-state"));
    command::run(&mut under(1, pull))?;
    daemon.stop()
}

/// Reads callgrind's file: what each function spent itself, and what bookings spent with what they called (valgrind
/// manual, "Callgrind Format Specification").
fn read(path: &Path) -> Result<Counted> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let counted = parse(&text);
    ensure!(!counted.spent.is_empty(), "callgrind wrote nothing to {}", path.display());
    Ok(counted)
}

/// A name that is told once with its number, and from then on by the number alone.
fn named<'a>(names: &mut HashMap<&'a str, &'a str>, text: &'a str) -> &'a str {
    let (id, name) = text.split_once(' ').unwrap_or((text, ""));
    if !name.is_empty() {
        names.insert(id, name);
    }
    names.get(id).copied().unwrap_or(id)
}

fn parse(text: &str) -> Counted {
    let (mut functions, mut objects) = (HashMap::new(), HashMap::new());
    let mut counted = Counted::default();
    let (mut function, mut object, mut called) = ("", "", "");
    let mut calls = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = named(&mut functions, name);
        } else if let Some(name) = line.strip_prefix("ob=") {
            object = named(&mut objects, name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            called = named(&mut functions, name);
        } else if let Some(name) = line.strip_prefix("cob=") {
            named(&mut objects, name);
        } else if let Some(call) = line.strip_prefix("calls=") {
            calls = Some(call.split(' ').next().and_then(|count| count.parse::<u64>().ok()).unwrap_or(0));
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            match calls.take() {
                None => {
                    let function = Function { name: function.to_owned(), object: object.to_owned() };
                    *counted.spent.entry(function).or_default() += cost;
                }
                // Its cost is that of the calls, with all that is called there.
                Some(calls) => {
                    if called.contains(ACCOUNTING) && !function.contains(ACCOUNTING) {
                        counted.accounting += cost;
                    }
                    if called.contains("clock_gettime") && !function.contains("clock_gettime") {
                        counted.readings += calls;
                    }
                }
            }
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "events: Ir\n\nob=(1) /bin/thalweg\nfl=(1) a.rs\nfn=(1) mover::take\n10 100\ncob=(2) /lib/libc.so.6\n\
                        cfn=(2) __memcpy_avx\ncalls=3 0\n12 9000\n+3 7\n\nob=(2)\nfn=(2)\n* 9000\n\nob=(1)\n\
                        fn=(3) blake3::hash\n5 50\nfn=(1)\n11 1\n";
    /// A lap, which reads a clock twice and books; and a clock that somebody else reads.
    const BOOKING: &str = "ob=(1) /bin/thalweg\nfn=(1) mover::take\n1 1000\ncfn=(2) mover::stage::account::Stopwatch::lap\ncalls=1 0\n\
                           2 90\ncob=(2) /lib/libc.so.6\ncfn=(3) clock_gettime@@GLIBC_2.17\ncalls=1 0\n3 5\n\nfn=(2)\n4 50\n\
                           cob=(2)\ncfn=(3)\ncalls=2 0\n5 10\ncfn=(4) mover::stage::account::Accounts::book\ncalls=1 0\n6 30\n\n\
                           fn=(4)\n7 30\n\nob=(2)\nfn=(3)\n8 15\n";
    const LITTLE: Accounting = Accounting { instructions: 0.0, readings: 0.0, all: 1.0 };

    #[test]
    fn what_a_function_spent_itself_is_counted_and_what_it_called_where_it_was_spent() {
        let costs = parse(FILE).spent;
        let sum = |is_of: fn(&Function) -> bool| -> u64 {
            costs.iter().filter(|(function, _)| is_of(function)).map(|(_, cost)| cost).sum()
        };
        assert_eq!((sum(Function::is_own), sum(Function::is_copy)), (108, 9000));
        let each = of_a_chunk(
            &parse("ob=(1) /lib/libc.so.6\nfn=(1) memcpy\n1 10\n").spent,
            &parse("ob=(1) /lib/libc.so.6\nfn=(1) memcpy\n1 50\n").spent,
            4.0,
        );
        assert_eq!(each.iter().map(|(_, cost)| *cost).collect::<Vec<_>>(), [10.0]);
    }

    #[test]
    fn bookings_count_once_with_what_they_call_and_every_reading_of_a_clock() {
        let counted = parse(BOOKING);
        assert_eq!((counted.accounting, counted.readings), (90, 3));
        assert_eq!(counted.spent.values().sum::<u64>(), 1000 + 50 + 30 + 15);
    }

    #[test]
    fn a_copy_of_the_chunk_more_is_a_failure_and_so_is_bookkeeping() {
        assert!(judge("a", 1000.0, 1000.0, 2000.0, &LITTLE).is_empty());
        // Of a segment, with a load and a store of 64 bytes, the widest there are.
        assert_eq!(judge("a", 1000.0, 1000.0, f64::from((1 << 20) / 64 * 2), &LITTLE).len(), 1);
        let [more, less] = [1200.0, 800.0].map(|own| judge("a", own, 1000.0, 0.0, &LITTLE).len());
        assert_eq!(more + less, 2);
    }

    #[test]
    fn another_number_of_readings_than_the_bench_goes_by_is_a_failure() {
        let judged = |readings| judge_readings("a", readings, 11.0).is_some();
        let expected = [(11.0, false), (12.0, false), (13.0, true), (9.0, false), (8.0, true)];
        expected
            .iter()
            .for_each(|(readings, is_other)| assert_eq!(judged(*readings), *is_other, "{readings}"));
    }

    #[test]
    fn accounting_for_more_than_one_in_a_hundred_is_a_failure() {
        let judged = |instructions, readings| {
            judge("a", 1000.0, 1000.0, 0.0, &Accounting { instructions, readings, all: 4_000_000.0 }).len()
        };
        assert_eq!([judged(1_000.0, 30.0), judged(1_000.0, 40.0), judged(41_000.0, 0.0)], [0, 1, 1]);
    }
}
