//! Many small files, beside others and beside a bare loop.

use super::{Row, Suite, loopback, row};
use crate::bench::copies::{self, BARE, Few, Scenario, seconds};
use crate::bench::record::Results;
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::Volume;
use crate::bench::{Bench, data, peers};
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
    takes: "about 18 minutes, 5 GB of disk",
    runs: 5,
    path: loopback,
    rows,
    run,
    tell,
};

const OURS: &str = "thalweg daemon";
const NAMES: [&str; 12] = [
    OURS,
    "thalweg ssh",
    "rsync daemon",
    "rsync ssh",
    "tar ssh",
    "tar socket",
    "GridFTP",
    "GridFTP private",
    "xrootd",
    "xrootd TLS",
    "rclone webdav",
    "rclone sftp",
];
const ENCRYPTING: [&str; 5] = ["rsync ssh", "tar ssh", "GridFTP private", "xrootd TLS", "rclone sftp"];
/// They take a millisecond and more for a file, and copy one file of so many.
const SLOW: [&str; 4] = ["xrootd", "xrootd TLS", "rclone webdav", "rclone sftp"];
const SLOW_ONE_IN: u32 = 10;
const SCENARIOS: [(&str, u32, usize); 2] =
    [("20,000 x 4 KiB", 20_000, 4096), ("50,000 x 1 KiB", 50_000, 1024)];

fn rows() -> Vec<Row> {
    let of = |(scenario, ..): (&'static str, u32, usize)| {
        NAMES.into_iter().chain([BARE]).map(move |name| row(scenario, name))
    };
    SCENARIOS.into_iter().flat_map(of).collect()
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    for (name, files, bytes) in SCENARIOS {
        if !bench.wants(name) {
            continue;
        }
        let tools = copies::chosen(bench, &NAMES)?;
        let few = files / SLOW_ONE_IN;
        let made_by = |tool: &&peers::Tool| u64::from(if SLOW.contains(&tool.name) { few } else { files });
        // And by the bare loop.
        let made = tools.iter().map(made_by).sum::<u64>() + u64::from(files);
        let source = bench.workspace.directory(&format!("source-{bytes}"))?;
        data::make_small_files(&source, files, bytes)?;
        let source_of_few = bench.workspace.directory(&format!("source-{bytes}-few"))?;
        data::make_small_files(&source_of_few, few, bytes)?;
        let copied = (bench.runs() as u64 + 1) * made;
        let volume = Volume::new(&bench.workspace.scratch, &format!("volume-{bytes}"), copied)?;
        let total = |files: u32| u64::from(files) * bytes as u64;
        let scenario = Scenario {
            name: name.to_owned(),
            source,
            bytes: total(files),
            files: u64::from(files),
            small_bytes: Some(bytes as u64),
            few: Some(Few { source: source_of_few, bytes: total(few), files: u64::from(few), tools: &SLOW }),
        };
        copies::compete(bench, &volume.path, &scenario, &tools)?;
    }
    Ok(())
}

/// For README.md, in a sentence: how much longer it takes than the best other tool that ran, with which those are, and
/// than the bare loop; nothing if nothing was measured.
pub fn in_short(results: &Results) -> String {
    let mut told = Vec::new();
    let mut ran: Vec<&str> = Vec::new();
    for scenario in results.scenarios() {
        let wall = |tool: &str| seconds(results, scenario, tool);
        let longer =
            |tool: &str| tell::number(statistics::median(&statistics::ratios(&wall(OURS), &wall(tool))));
        let others = others(results, scenario);
        let best =
            others.iter().min_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b))));
        let Some(best) = best.filter(|_| [OURS, BARE].iter().all(|tool| !wall(tool).is_empty())) else {
            continue;
        };
        told.push(format!(
            "{scenario} take {} × as long as by the best other tool that ran ({best}), {} × as long as by a bare local loop",
            longer(best),
            longer(BARE)
        ));
        for tool in others {
            if !ran.contains(&tool) {
                ran.push(tool);
            }
        }
    }
    if told.is_empty() {
        return String::new();
    }
    format!(
        "Small files through a daemon, encrypted and verified, until they are durable: {}. The other tools that ran: {}. The \
         loop only creates, writes, renames and syncs; tar over a plain socket neither encrypts nor verifies. `cargo xtask \
         bench --suite {}`.",
        told.join("; "),
        ran.join(", "),
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
        let wall = |tool: &str| seconds(results, scenario, tool);
        let ours = wall(OURS);
        let best = |names: &[&str]| -> (String, Vec<f64>) {
            let ran = names.iter().filter(|name| !wall(name).is_empty());
            match ran.min_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b)))) {
                Some(best) => ((*best).to_owned(), statistics::ratios(&wall(best), &ours)),
                None => ("none ran".to_owned(), Vec::new()),
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
            let (name, ratios) = best(names);
            let shown = if ratios.is_empty() { String::new() } else { tell::shown(&ratios) };
            writeln!(out, "| {what} | {name} | {shown} | {} |", Goal::AtLeast(goal).verdict_of(&ratios))?;
        }
        writeln!(out, "\n{}{}", by_the_loop(results, scenario), copies::table(results, scenario, OURS)?)?;
    }
    Ok(out)
}

/// How fast making the files alone lets any copy be, beside the best that encrypts.
fn by_the_loop(results: &Results, scenario: &str) -> String {
    let wall = |tool: &str| seconds(results, scenario, tool);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::Load;
    use crate::bench::workspace::Times;
    use thalweg_lab::bench::record::LeftOut;

    #[test]
    fn who_copied_a_tenth_of_the_files_is_compared_by_the_file_and_that_is_told() {
        let (scenario, mut samples) = (SCENARIOS[0].0, Vec::new());
        let tenth = u64::from(SCENARIOS[0].1 / SLOW_ONE_IN);
        for run in 1..=3 {
            for (tool, files, wall_s) in [
                (OURS, 20_000, 1.0),
                (BARE, 20_000, 0.9),
                ("tar ssh", 20_000, 2.0),
                ("xrootd TLS", tenth, 4.0),
            ] {
                let load = Load { scenario, tool, run, bytes: files * 4096, files };
                samples.push(load.took(&Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 }));
            }
        }
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        assert!(told.contains("| the best that encrypts | tar ssh | 2.00 [2.00–2.00] |"), "{told}");
        assert!(told.contains("| 500 | 500.0 | 40.0 [40.0–40.0] |"), "{told}");
        assert!(told.contains("xrootd TLS copied 2000 of these files"), "{told}");
        assert!(!told.contains("tar ssh copied"), "{told}");
    }

    #[test]
    fn a_result_without_a_tool_is_stale_and_one_that_says_why_it_has_it_not_is_fresh() {
        let times = Times { wall_s: 1.0, unsynced_s: 1.0, cpu_s: 1.0 };
        let load = |(scenario, tool): &Row| Load { scenario, tool, run: 1, bytes: 1, files: 1 }.took(&times);
        let all = |rows: Vec<Row>| Results { samples: rows.iter().map(load).collect(), ..Results::default() };
        assert_eq!(SUITE.difference(&all(rows())), None);
        let mut few = rows();
        few.retain(|it| *it != row(SCENARIOS[0].0, "xrootd"));
        let mut results = all(few);
        let told = SUITE.difference(&results);
        assert_eq!(told.as_deref(), Some("lacks xrootd in `20,000 x 4 KiB`"));
        let what = copies::left_out((SCENARIOS[0].0, "xrootd"));
        results.left_out.push(LeftOut { what, why: "it is not there".into() });
        assert_eq!(SUITE.difference(&results), None);
        results.left_out.clear();
        results.about.command = "cargo xtask bench --suite small --tool rsync".into();
        assert_eq!(SUITE.difference(&results), None, "others were not asked for");
        let mut more = rows();
        more.push(row(SCENARIOS[0].0, "folklore"));
        assert!(SUITE.difference(&all(more)).unwrap().starts_with("has folklore in "));
    }

    #[test]
    fn nothing_is_said_of_tools_that_did_not_run() {
        let load = Load { scenario: SCENARIOS[0].0, tool: OURS, run: 1, bytes: 1, files: 20_000 };
        let times = Times { wall_s: 1.0, unsynced_s: 1.0, cpu_s: 1.0 };
        let told = tell(&Results { samples: vec![load.took(&times)], ..Results::default() }).unwrap();
        for tool in SLOW {
            assert!(!format!("{} {told}", SUITE.asks).contains(tool.split(' ').next().unwrap()), "{told}");
        }
    }

    #[test]
    fn each_tool_is_one_that_there_is_and_who_is_slow_or_encrypts_runs() {
        assert!(NAMES.iter().all(|name| peers::tool(name).is_ok()));
        assert!(SLOW.iter().chain(&ENCRYPTING).all(|name| NAMES.contains(name)));
        for name in ENCRYPTING {
            assert_ne!(peers::tool(name).unwrap().encrypts, peers::ENCRYPTS_NOTHING, "{name}");
        }
    }
}
