//! The table in README.md, made from the results of the suite `beside-rsync`.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use thalweg_lab::bench::statistics::median;

/// The tools in it.
pub const TOOLS: [&str; 4] = ["thalweg daemon", "rsync daemon", "thalweg ssh", "rsync ssh"];

/// Wall and CPU seconds of the runs of one tool in one scenario.
#[derive(Default)]
struct Runs {
    wall_s: Vec<f64>,
    cpu_s_per_gb: Vec<f64>,
    bytes: f64,
    files: f64,
}

/// A Markdown table of a result file: medians, with the smallest and largest run, and how many times as long as
/// thalweg over the same kind of link a tool took.
///
/// # Errors
/// If the file cannot be read or holds something else.
pub fn table(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    let about = lines.next().context("an empty result file")??;
    let mut rows: BTreeMap<(String, usize), Runs> = BTreeMap::new();
    for line in lines {
        let sample = line?;
        let word = |key: &str| sample[key].as_str().with_context(|| format!("no {key} in {sample}"));
        let number = |key: &str| sample[key].as_f64().with_context(|| format!("no {key} in {sample}"));
        let tool = word("tool")?;
        let place = TOOLS.iter().position(|known| *known == tool);
        let scenario = format!("{}, {}", word("scenario")?, word("cache")?);
        let runs = rows.entry((scenario, place.with_context(|| format!("no tool {tool}"))?)).or_default();
        (runs.bytes, runs.files) = (number("bytes")?, number("files")?);
        runs.wall_s.push(number("wall_s")?);
        runs.cpu_s_per_gb.push(number("cpu_s")? / (runs.bytes / 1e9));
    }
    let mut out = String::from(
        "| scenario, cache | tool | wall s (min–max) | Gbit/s | CPU-s/GB (min–max) | wall, CPU against thalweg |\n\
         |---|---|---|---|---|---|\n",
    );
    for ((scenario, place), runs) in &rows {
        let (wall, cpu) = (median(&runs.wall_s), median(&runs.cpu_s_per_gb));
        // Daemon against daemon, ssh against ssh.
        let ours = TOOLS.iter().position(|tool| {
            tool.starts_with("thalweg") && tool.split(' ').next_back() == TOOLS[*place].split(' ').next_back()
        });
        let ours = ours.and_then(|ours| rows.get(&(scenario.clone(), ours)));
        let against = match ours {
            Some(ours) if !TOOLS[*place].starts_with("thalweg") => {
                format!("{:.2} ×, {:.2} ×", wall / median(&ours.wall_s), cpu / median(&ours.cpu_s_per_gb))
            }
            _ => String::new(),
        };
        writeln!(
            out,
            "| {scenario} | {} | {wall:.2} ({}) | {:.2} | {cpu:.2} ({}) | {against} |",
            TOOLS[*place],
            spread(&runs.wall_s),
            runs.bytes * 8.0 / wall / 1e9,
            spread(&runs.cpu_s_per_gb),
        )?;
    }
    let runs = rows.values().map(|runs| runs.wall_s.len()).min().unwrap_or(0);
    let mut sizes: Vec<String> = rows
        .iter()
        .map(|((scenario, _), runs)| {
            let name = scenario.split(',').next().unwrap_or_default();
            format!("{name}: {} files, {:.2} GB", runs.files, runs.bytes / 1e9)
        })
        .collect();
    sizes.dedup();
    let about = &about["about"];
    let of = |key: &str| about[key].as_str().unwrap_or("?").to_owned();
    write!(
        out,
        "\nMedians of {runs} interleaved runs over loopback; final sync included, every copy compared afterwards; \
         CPU seconds of all processes of both sides for each 10⁹ bytes. {}. rsync's daemon does not encrypt. \
         {} ({} cores), {}, {}; {}; {}, commit {}.\n",
        sizes.join("; "),
        of("cpu"),
        about["cores"],
        of("kernel"),
        of("file_system"),
        of("rsync"),
        of("date"),
        of("commit"),
    )?;
    Ok(out)
}

fn spread(values: &[f64]) -> String {
    let (least, most) = values
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
    format!("{least:.2}–{most:.2}")
}
