//! Many small files, beside others and beside a bare loop.

use super::{Suite, loopback};
use crate::bench::copies::{self, BARE, Scenario};
use crate::bench::record::Results;
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::Volume;
use crate::bench::{Bench, data};
use anyhow::Result;
use std::fmt::Write;
use thalweg_lab::bench::statistics;

pub const SUITE: Suite = Suite {
    name: "small",
    title: Some("Small files"),
    asks: "How fast do many small warm files become durable, beside a bare local loop that only creates, writes, renames \
           and syncs once (two threads, 16 directories), and beside other tools? Goals: at least 0.85 × the rate of the \
           bare loop; faster than every other tool; at least 1.7 × the best that encrypts. Each scenario has a fresh \
           ext4 of its own in a file, and each run a new directory, because creating after a mass deletion is slow.",
    takes: "about 12 minutes, 5 GB of disk",
    runs: 5,
    path: loopback,
    run,
    tell,
};

const OURS: &str = "thalweg daemon";
const NAMES: [&str; 8] =
    [OURS, "thalweg ssh", "rsync daemon", "rsync ssh", "tar ssh", "tar socket", "GridFTP", "GridFTP private"];
const ENCRYPTING: [&str; 3] = ["rsync ssh", "tar ssh", "GridFTP private"];
const SCENARIOS: [(&str, u32, usize); 2] =
    [("20,000 x 4 KiB", 20_000, 4096), ("50,000 x 1 KiB", 50_000, 1024)];

fn run(bench: &mut Bench<'_>) -> Result<()> {
    for (name, files, bytes) in SCENARIOS {
        if !bench.wants(name) {
            continue;
        }
        let tools = copies::chosen(bench, &NAMES)?;
        let copies = (bench.runs() as u64 + 1) * (tools.len() as u64 + 1);
        let source = bench.workspace.directory(&format!("source-{bytes}"))?;
        data::make_small_files(&source, files, bytes)?;
        let volume =
            Volume::new(&bench.workspace.scratch, &format!("volume-{bytes}"), copies * u64::from(files))?;
        let total = u64::from(files) * bytes as u64;
        let scenario = Scenario {
            name: name.to_owned(),
            source,
            bytes: total,
            files: u64::from(files),
            small_bytes: Some(bytes as u64),
        };
        copies::compete(bench, &volume.path, &scenario, &tools)?;
    }
    Ok(())
}

/// For README.md, in a sentence: how much longer it takes than the best other tool, and than the bare loop; nothing if
/// nothing was measured.
pub fn in_short(results: &Results) -> String {
    let mut told = Vec::new();
    for scenario in results.scenarios() {
        let wall = |tool: &str| results.series(scenario, tool, |sample| sample.wall_s);
        let longer =
            |tool: &str| tell::number(statistics::median(&statistics::ratios(&wall(OURS), &wall(tool))));
        let others = others(results, scenario);
        let best =
            others.iter().min_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b))));
        let Some(best) = best.filter(|_| [OURS, BARE].iter().all(|tool| !wall(tool).is_empty())) else {
            continue;
        };
        told.push(format!(
            "{scenario} take {} × as long as by the best other tool ({best}), {} × as long as by a bare local loop",
            longer(best),
            longer(BARE)
        ));
    }
    if told.is_empty() {
        return String::new();
    }
    format!(
        "Small files through a daemon, encrypted and verified, until they are durable: {}. The loop only creates, writes, \
         renames and syncs; tar over a plain socket neither encrypts nor verifies. `cargo xtask bench --suite {}`.\n\n",
        told.join("; "),
        SUITE.name,
    )
}

/// Tools that ran and are not ours.
fn others<'a>(results: &'a Results, scenario: &str) -> Vec<&'a str> {
    let tools = results.tools(scenario);
    tools.iter().filter(|tool| **tool != BARE && !tool.starts_with("thalweg")).copied().collect()
}

fn tell(results: &Results) -> Result<String> {
    let mut out = String::new();
    for scenario in results.scenarios() {
        let wall = |tool: &str| results.series(scenario, tool, |sample| sample.wall_s);
        let ours = wall(OURS);
        let best = |names: &[&str]| -> (String, String, f64) {
            let ran = names.iter().filter(|name| !wall(name).is_empty());
            match ran.min_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b)))) {
                Some(best) => {
                    let ratios = statistics::ratios(&wall(best), &ours);
                    ((*best).to_owned(), tell::ratio(&wall(best), &ours), statistics::median(&ratios))
                }
                None => ("none ran".to_owned(), String::new(), f64::NAN),
            }
        };
        let others = others(results, scenario);
        writeln!(
            out,
            "### {scenario}\n\n| beside | it is | times as fast as it | goal |\n|---|---|---|---|"
        )?;
        for (what, names, goal) in [
            ("the bare loop", &[BARE][..], 0.85),
            ("the best other tool", &others, 1.0),
            ("the best that encrypts", &ENCRYPTING, 1.7),
        ] {
            let (name, shown, ratio) = best(names);
            writeln!(out, "| {what} | {name} | {shown} | {} |", Goal::AtLeast(goal).verdict(ratio))?;
        }
        writeln!(out, "\n{}{}", by_the_loop(results, scenario), copies::table(results, scenario, OURS)?)?;
    }
    Ok(out)
}

/// How fast making the files alone lets any copy be, beside the best that encrypts.
fn by_the_loop(results: &Results, scenario: &str) -> String {
    let wall = |tool: &str| results.series(scenario, tool, |sample| sample.wall_s);
    let bare = wall(BARE);
    let ran = ENCRYPTING.iter().map(|tool| (*tool, wall(tool))).filter(|(_, wall)| !wall.is_empty());
    let best = ran.min_by(|a, b| tell::median_of(&a.1).total_cmp(&tell::median_of(&b.1)));
    match best {
        Some((name, wall)) if !bare.is_empty() => format!(
            "The bare loop, which moves nothing, is itself {} times as fast as {name}.\n\n",
            tell::ratio(&wall, &bare)
        ),
        _ => String::new(),
    }
}
