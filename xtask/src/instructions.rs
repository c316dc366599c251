//! `cargo xtask instructions`: how many instructions our own code spends on a chunk, counted by valgrind's callgrind.
//!
//! A file is pulled from a daemon into `null:`, once small and once large, each side under callgrind. The difference,
//! shared out over the chunks between the two sizes, is what one chunk costs: what happens once cancels out. Counted is
//! what runs in [`PATH`], the functions that every chunk passes, and in what they call; not what is done once a second,
//! which under callgrind would seem to be done for every chunk. Only functions written in Rust count. What is done to each byte by digest, cipher and copies of memory is assembly
//! or C here (its instructions depend on the machine; its time is measured by `cargo xtask bench`): what is left is the
//! bookkeeping, which could grow unnoticed. The figures stand in [`BUDGET`]; more than [`SLACK`] above is a failure, and
//! so is less than that below, so that the budget follows when the path gets shorter.

use crate::servers::Daemon;
use crate::test;
use crate::tools::{self, Scratch};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Options of the count.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Show the functions that cost most
    #[arg(long)]
    verbose: bool,
}

/// Instructions for a chunk of 4 MiB in 4 segments, of the sending side and of the receiving side.
const BUDGET: [(&str, f64); 2] = [("sender", 9_900.0), ("receiver", 13_200.0)];
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

const CHUNK_BYTES: u64 = 4 << 20;
const CHUNKS: [u64; 2] = [8, 72];

/// Runs it. valgrind must be there.
///
/// # Errors
/// If a side spends more than its budget, or less.
pub fn run(args: &Args) -> Result<()> {
    tools::install(test::VALGRIND)?;
    let thalweg = tools::build_release()?;
    let counts = CHUNKS.map(|chunks| count(&thalweg, chunks));
    let [small, large] = counts;
    let (small, large) = (small?, large?);
    let mut failed = Vec::new();
    for (side, (name, budget)) in BUDGET.iter().enumerate() {
        let chunks = (CHUNKS[1] - CHUNKS[0]) as f64;
        let mut costs: Vec<(&str, f64)> = large[side]
            .iter()
            .map(|(function, &cost)| {
                let before = small[side].get(function).copied().unwrap_or(0);
                (function.as_str(), (cost as f64 - before as f64) / chunks)
            })
            .collect();
        for function in PATH[side] {
            let is_there = costs.iter().any(|(name, _)| name.contains(function));
            ensure!(is_there, "nothing was counted in {function}: has it another name by now?");
        }
        let each: f64 = costs.iter().map(|(_, cost)| cost).sum();
        println!("{name}: {each:.0} instructions for each chunk, {budget:.0} budgeted");
        if args.verbose {
            costs.sort_by(|a, b| b.1.total_cmp(&a.1));
            costs.iter().take(25).for_each(|(function, cost)| println!("  {cost:>9.0}  {function}"));
        }
        if (each - budget).abs() > budget * SLACK {
            failed.push(format!("{name} spends {each:.0} instructions on a chunk, not about {budget:.0}"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{}; see `cargo xtask instructions --verbose`", failed.join("; "))
    }
}

/// Costs by function, of both sides.
fn count(thalweg: &Path, chunks: u64) -> Result<[HashMap<String, u64>; 2]> {
    let scratch = Scratch::new("instructions")?;
    let file = scratch.path("export");
    std::fs::create_dir(&file)?;
    crate::demo::make_large_file(&tools::rust_toolchain()?, &file.join("file"), chunks * CHUNK_BYTES)?;
    let outs = ["sender", "receiver"].map(|side| scratch.path(side));
    let under = |side: usize, command: Command| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind"]);
        valgrind.arg(format!("--callgrind-out-file={}", outs[side].display()));
        valgrind.args(PATH[side].iter().map(|function| format!("--toggle-collect={function}")));
        valgrind.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            valgrind.env(name, value.unwrap_or_default());
        }
        valgrind
    };
    let exports = [format!("data={}:ro", file.display())];
    let daemon = Daemon::start(thalweg, &scratch, &exports, |command| under(0, command))?;
    let mut pull = Command::new(thalweg);
    pull.args(["cp", "--quiet", "--streams", "1", "--ticket"]).arg(&daemon.ticket);
    pull.args([&format!("tw://{}/data/file", daemon.address), "null:"]);
    pull.env("THALWEG_STATE", scratch.path("client-state"));
    tools::run(&mut under(1, pull))?;
    daemon.stop()?;
    let [sender, receiver] = [&outs[0], &outs[1]].map(|out| costs(out));
    Ok([sender?, receiver?])
}

/// Reads callgrind's file: what each function spent itself (valgrind manual, "Callgrind Format Specification").
fn costs(path: &Path) -> Result<HashMap<String, u64>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut costs = HashMap::new();
    let mut function = "";
    let mut is_of_a_call = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            let (id, name) = name.split_once(' ').unwrap_or((name, ""));
            if !name.is_empty() {
                names.insert(id, name);
            }
            function = names.get(id).copied().unwrap_or(id);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            if let Some((id, name)) = name.split_once(' ') {
                names.insert(id, name);
            }
        } else if line.starts_with("calls=") {
            is_of_a_call = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_of_a_call) && is_rust(function) {
                *costs.entry(function.to_owned()).or_default() += cost;
            }
        }
    }
    ensure!(!costs.is_empty(), "callgrind wrote nothing to {}", path.display());
    Ok(costs)
}

/// Its name has a path; the digest's own tree is as long as there are bytes.
fn is_rust(function: &str) -> bool {
    function.contains("::") && !function.contains("blake3::")
}
