//! `cargo xtask entries`: trees of very many entries, and what they cost.
//!
//! Three trees: directories of a thousand files; one directory with all of them; and the first once more, with one
//! large file that comes before all others, sent slowly, so that everything waits behind it. Each is copied on this
//! machine, pushed to a daemon and pulled from one, `--runs` times. The trees are on an ext4 of their own, and each
//! copy on another, with the one byte of a file in its inode. Told of each copy:
//!
//! - *first*: seconds from the start of the program until the first file with content stands, verified, in the
//!   destination's staging directory. SPEC.md promises less than one for a million entries.
//! - *client*, *daemon*: the most memory that each ever had (`VmHWM`) beside its buffers, for which each has [`POOL`].
//!   It must not grow with the tree.
//! - *CPU*: seconds of both sides.
//!
//! Ten million entries take a copy about ten minutes, and what is told after the first second only a whole one shows.
//! With `--whole-once` a round has one way copy the whole tree, each way in one round, and ends the other copies once
//! their first content stands: three rounds of three ways take as long as three copies.
//!
//! Stopped (Ctrl-C, SIGTERM), it ends what it started, and takes away what it made; killed, it at least leaves no
//! process.
//!
//! With `--out` all of that as JSON lines, of which a section of docs/performance.md is made.

use crate::bench::control_group::Group;
use crate::bench::record;
use crate::bench::rows::{self, Rows};
use crate::bench::tell::{self, Goal, number};
use crate::bench::workspace::Volume;
use crate::scratch::Scratch;
use crate::servers::{self, Daemon};
use crate::{cargo, toolchain};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_lab::bench::statistics::median;
use thalweg_sys::child::dies_with_us;

/// Files of a directory in the trees that have many.
const FILES_IN_DIRECTORY: u64 = 1000;
/// Time between two looks at the copy.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// How fast the large file goes.
const SLOWLY: &str = "40MB/s";
/// The section of docs/performance.md is made of this result.
const NAME: &str = "entries";
/// `--memory` of each side: what is beside it is not for buffers.
const POOL: (&str, u64) = ("16MiB", 16 << 20);
/// Goals: the first content within so many seconds, and so much memory beside the buffers, in MiB.
const FIRST_S_MAX: f64 = 1.0;
const BESIDE_MIB_MAX: f64 = 256.0;

/// The trees: see the module.
const TREES: [&str; 3] = [DEEP, BEHIND, FLAT];
const DEEP: &str = "deep";
const BEHIND: &str = "behind";
const FLAT: &str = "flat";

/// How each tree goes: without a daemon, to one, from one.
const WAYS: [&str; 3] = ["local", "push", "pull"];

/// Options.
#[derive(clap::Args)]
pub struct Args {
    /// Files of each tree
    #[arg(long, default_value_t = 1_000_000)]
    files: u64,
    /// Bytes of the large file, in MiB
    #[arg(long, default_value_t = 1024)]
    large_mib: u64,
    /// Only this tree: `deep`, `flat` or `behind`
    #[arg(long, default_value = "")]
    only: String,
    /// Only this way: on this machine, to a daemon, from one
    #[arg(long, value_parser = WAYS)]
    way: Option<String>,
    /// Copies of each tree each way; the trees are made once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// One of these is of the whole tree, the others end once their first content stands
    #[arg(long)]
    whole_once: bool,
    /// Where copies go (default: each to an ext4 of its own in a file below target/)
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// What was measured, as JSON lines. bench/results/entries.jsonl is shown in docs/performance.md
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs it.
///
/// # Errors
/// If a copy fails or is not whole.
pub fn run(args: &Args) -> Result<()> {
    let thalweg = cargo::build_release()?;
    // How busy the machine was before.
    let about = record::about(NAME, &repeat(args))?;
    let stop = Stop::asked()?;
    let scratch = Scratch::new("entries")?;
    let wanted = |name: &str| name.contains(&args.only);
    let ways: Vec<&'static str> =
        WAYS.into_iter().filter(|way| args.way.as_deref().is_none_or(|wanted| wanted == *way)).collect();
    let rounds = ways.len() as u64;
    ensure!(!args.whole_once || args.runs >= rounds, "--whole-once needs --runs {rounds}: one for each way");
    let (is_deep_wanted, is_flat_wanted) = (wanted(DEEP) || wanted(BEHIND), wanted(FLAT));
    let trees = u64::from(is_deep_wanted) + u64::from(is_flat_wanted);
    let large = args.large_mib << 20;
    let volume = Volume::of_tiny_files(&scratch, "volume", trees * args.files, large)?;
    let mut bench = Bench { args, group: Group::new()?, thalweg, ways, rows: Vec::new(), stop };
    println!(
        "{:<7} {:<6} {:>9} {:>8} {:>8} {:>10} {:>11} {:>11} {:>8}",
        "tree", "way", "entries", "first s", "all s", "entries/s", "client MiB", "daemon MiB", "CPU s"
    );
    let deep = volume.path.join(DEEP);
    if is_deep_wanted {
        for directory in 0..args.files.div_ceil(FILES_IN_DIRECTORY) {
            let left = args.files - directory * FILES_IN_DIRECTORY;
            make_files(&deep.join(format!("d{directory:05}")), left.min(FILES_IN_DIRECTORY), &bench.stop)?;
        }
    }
    if wanted(DEEP) {
        bench.tree(DEEP, &deep, &scratch, &[])?;
    }
    if wanted(BEHIND) {
        // First in the order of names.
        let first = deep.join("a-large");
        toolchain::make_large_file(&toolchain::directory()?, &first, large)?;
        bench.tree(BEHIND, &deep, &scratch, &["--bwlimit", SLOWLY])?;
    }
    if is_flat_wanted {
        let flat = volume.path.join(FLAT);
        make_files(&flat, args.files, &bench.stop)?;
        bench.tree(FLAT, &flat, &scratch, &[])?;
    }
    if let Some(path) = &args.out {
        rows::write(path, &about, &bench.rows)?;
    }
    Ok(())
}

/// The command that repeats it.
fn repeat(args: &Args) -> String {
    let only = if args.only.is_empty() { String::new() } else { format!(" --only {}", args.only) };
    let way = args.way.as_ref().map(|way| format!(" --way {way}")).unwrap_or_default();
    let runs = if args.runs == 1 { String::new() } else { format!(" --runs {}", args.runs) };
    let whole = if args.whole_once { " --whole-once" } else { "" };
    format!(
        "cargo xtask entries --files {} --large-mib {}{only}{way}{runs}{whole}",
        args.files, args.large_mib
    )
}

fn make_files(directory: &Path, files: u64, stop: &Stop) -> Result<()> {
    fs::create_dir_all(directory)?;
    for number in 0..files {
        stop.look()?;
        fs::write(directory.join(format!("f{number:07}")), b"x")?;
    }
    Ok(())
}

/// Whether somebody wants it to end: asked between two steps, so that everything is taken away as at its own end.
struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From now on SIGINT and SIGTERM ask for it; the second ends at once.
    fn asked() -> Result<Stop> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Before what sets it: so the first does nothing here.
            flag::register_conditional_shutdown(signal, 1, stop.clone())?;
            flag::register(signal, stop.clone())?;
        }
        Ok(Stop(stop))
    }

    fn look(&self) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => bail!("stopped"),
            false => Ok(()),
        }
    }
}

/// A copy; goes with the value.
struct Copied(PathBuf);

impl Drop for Copied {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A client; ends with the value.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        servers::end(&mut self.0);
    }
}

struct Bench<'a> {
    args: &'a Args,
    group: Group,
    thalweg: PathBuf,
    ways: Vec<&'static str>,
    /// Of each copy.
    rows: Vec<Value>,
    stop: Stop,
}

impl Bench<'_> {
    fn tree(&mut self, name: &str, from: &Path, scratch: &Scratch, options: &[&str]) -> Result<()> {
        for round in 0..self.args.runs {
            for (at, way) in self.ways.clone().into_iter().enumerate() {
                let is_whole = !self.args.whole_once || round == at as u64;
                self.copy(name, from, (way, is_whole), scratch, options)?;
            }
        }
        Ok(())
    }

    /// Where a copy goes. One to a file system of its own goes with that in no time.
    fn place(&self, scratch: &Scratch) -> Result<(PathBuf, Option<Volume>)> {
        if let Some(to) = &self.args.to {
            return Ok((to.clone(), None));
        }
        // The copy of the large file, and as much again.
        let others = 2 * (self.args.large_mib << 20);
        let volume = Volume::of_tiny_files(scratch, "copies", self.args.files, others)?;
        Ok((volume.path.join("export"), Some(volume)))
    }

    fn copy(
        &mut self,
        name: &str,
        from: &Path,
        (way, is_whole): (&str, bool),
        scratch: &Scratch,
        options: &[&str],
    ) -> Result<()> {
        self.stop.look()?;
        // Both go after the processes that are below.
        let (to, volume) = self.place(scratch)?;
        let copy = to.join("copy");
        let _copied = volume.is_none().then(|| Copied(copy.clone()));
        fs::create_dir_all(&to)?;
        // A daemon for each, so that its peak is of this copy.
        let exports = [format!("in={}", to.display()), format!("out={}:ro", from.display())];
        let daemon = Daemon::start(&self.thalweg, scratch, &exports, |mut command| {
            command.args(["--memory", POOL.0]);
            let mut command = self.group.enter(command);
            dies_with_us(&mut command);
            command
        })?;
        let (here, there) = (format!("{}/", from.display()), copy.display().to_string());
        let places = match way {
            "push" => [here, format!("tw://{}/in/copy", daemon.address)],
            "pull" => [format!("tw://{}/out/", daemon.address), there],
            _ => [here, there],
        };
        let mut command = Command::new(&self.thalweg);
        command.args(["cp", "--json", "--memory", POOL.0, "--ticket"]).arg(&daemon.ticket);
        command.args(options).args(&places);
        // One that was ended is none of a later one's business.
        command.env("THALWEG_STATE", scratch.path(&format!("client-state-{}", self.rows.len())));
        let told = scratch.path("told");
        let cpu = self.group.cpu()?;
        let started = Instant::now();
        let mut command = self.group.enter(command);
        command.stdin(Stdio::null()).stdout(fs::File::create(&told)?);
        let mut client = Client(dies_with_us(&mut command).spawn()?);
        let (mut first, mut most) = (None, 0);
        let status = loop {
            if first.is_none() && has_content(&copy) {
                first = Some(started.elapsed());
            }
            most = most.max(peak_memory(client.0.id()).unwrap_or(most));
            if let Some(status) = client.0.try_wait()? {
                break Some(status);
            }
            if first.is_some() && !is_whole {
                break None;
            }
            self.stop.look()?;
            std::thread::sleep(LOOK_EVERY);
        };
        let seconds = started.elapsed().as_secs_f64();
        let cpu_s = (self.group.cpu()? - cpu).as_secs_f64();
        let of_daemon = peak_memory(daemon.pid()).context("the daemon's memory")?;
        let entries = match status {
            Some(status) => {
                let told = fs::read_to_string(told)?;
                let last = told.lines().last().unwrap_or_default();
                ensure!(status.success(), "{name}, {way}: {status}: {last}");
                let last: serde_json::Value = serde_json::from_str(last)?;
                let entries = last["done"].as_f64().with_context(|| format!("no `done` in {last}"))?;
                daemon.stop()?;
                entries
            }
            // Nobody has counted them.
            None => 0.0,
        };
        let row = Row {
            tree: name.to_owned(),
            way: way.to_owned(),
            is_whole: status.is_some(),
            entries,
            first_s: first.map(|first| first.as_secs_f64()),
            seconds,
            client_bytes: beside(most),
            daemon_bytes: (way != "local").then(|| beside(of_daemon)),
            cpu_s,
        };
        println!("{}", row.words());
        self.rows.push(serde_json::to_value(row)?);
        Ok(())
    }
}

/// Of the most memory that a process had, what was not for buffers.
fn beside(most: u64) -> u64 {
    most.saturating_sub(POOL.1)
}

/// What one copy cost.
#[derive(serde::Serialize, serde::Deserialize)]
struct Row {
    tree: String,
    way: String,
    /// It was not ended once its first content stood. Older results say nothing of it, and are.
    #[serde(default = "yes")]
    is_whole: bool,
    entries: f64,
    /// Nobody saw it where there is none.
    first_s: Option<f64>,
    seconds: f64,
    /// Beside the buffers.
    client_bytes: u64,
    /// `None` without a daemon.
    daemon_bytes: Option<u64>,
    cpu_s: f64,
}

fn yes() -> bool {
    true
}

impl Row {
    /// A line of the table on the screen.
    fn words(&self) -> String {
        let Row { tree, way, entries, seconds, cpu_s, .. } = self;
        format!(
            "{tree:<7} {way:<6} {entries:>9} {:>8.2} {seconds:>8.1} {:>10.0} {:>11} {:>11} {cpu_s:>8.1}",
            self.first_s.unwrap_or(f64::NAN),
            entries / seconds,
            self.client_bytes >> 20,
            self.daemon_bytes.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string()),
        )
    }
}

/// Its section of docs/performance.md; nothing without a result.
///
/// # Errors
/// If the result is none.
pub fn section() -> Result<String> {
    let Some(rows) = Rows::read(NAME)? else { return Ok(String::new()) };
    Ok(format!("{}\n{}\n", told(&rows.rows)?, rows.origin(&["tree", "way"])))
}

fn told(rows: &[Value]) -> Result<String> {
    let mut out = format!(
        "\n## Very many entries\n\nWhen does the first content stand, verified, and what memory does a tree of very many entries take? \
         Trees are of directories with a thousand files (deep), of one directory (flat), and the first once more behind one large file \
         that goes slowly (behind). Memory is the most that a side ever had, less the {} that it had for buffers (`--memory`). Goals, of \
         each tree: the first content within {FIRST_S_MAX} s, at most {BESIDE_MIB_MAX} MiB beside the buffers at either side.\n\n\
         | tree | way | entries | first content after, s | all, s | entries/s | client, MiB | daemon, MiB |\n|---|---|---|---|---|---|---|---|\n",
        POOL.0
    );
    let parsed =
        |row: &Value| -> Result<Row> { serde_json::from_value(row.clone()).with_context(|| row.to_string()) };
    let rows = rows.iter().map(parsed).collect::<Result<Vec<Row>>>()?;
    ensure!(!rows.is_empty(), "nothing was measured");
    let mut worst: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    let cases = cases(&rows);
    for case in &cases {
        let (tree, way) = (&case[0].tree, &case[0].way);
        let whole = |figure: fn(&Row) -> f64| -> Vec<f64> {
            case.iter().filter(|row| row.is_whole).map(|row| figure(row)).collect()
        };
        let entries = whole(|row| row.entries);
        ensure!(!entries.is_empty(), "no whole copy of {tree}, {way}");
        let first: Vec<f64> = case.iter().map(|row| row.first_s.unwrap_or(f64::INFINITY)).collect();
        let latest = first.iter().copied().fold(0.0, f64::max);
        let most = |of: fn(&Row) -> Option<u64>| case.iter().filter_map(|row| of(row)).max();
        let (client, daemon) = (most(|row| Some(row.client_bytes)), most(|row| row.daemon_bytes));
        let (longest, largest) = worst.entry(tree.as_str()).or_default();
        (*longest, *largest) = (longest.max(latest), (*largest).max(client.max(daemon).unwrap_or(0)));
        let mebibytes = |bytes: u64| number(bytes as f64 / f64::from(1 << 20));
        let shown = |bytes: Option<u64>| bytes.map_or("–".to_owned(), mebibytes);
        writeln!(
            out,
            "| {tree} | {way} | {} | {} | {} | {:.0} | {} | {} |",
            median(&entries),
            if latest.is_finite() { tell::shown(&first) } else { "not seen".to_owned() },
            tell::shown(&whole(|row| row.seconds)),
            median(&whole(|row| row.entries / row.seconds)),
            shown(client),
            shown(daemon),
        )?;
    }
    for (tree, way) in TREES.iter().flat_map(|tree| WAYS.map(|way| (*tree, way))) {
        if !cases.iter().any(|case| case[0].tree == tree && case[0].way == way) {
            writeln!(out, "| {tree} | {way} | not measured | | | | | |")?;
        }
    }
    let ended = rows.iter().filter(|row| !row.is_whole).count();
    if ended > 0 {
        writeln!(
            out,
            "\nOf {} copies {ended} were ended once their first content stood: all else is of the others, of which each \
             tree has one each way.",
            rows.len()
        )?;
    }
    Ok(out + &verdicts(&worst))
}

/// Of each tree the latest first content, in seconds, and the most memory of a side, in bytes, against the goals.
fn verdicts(worst: &BTreeMap<&str, (f64, u64)>) -> String {
    let mut out = String::from(
        "\n| tree | the latest first content, s | goal | the most memory, MiB | goal |\n|---|---|---|---|---|\n",
    );
    for tree in TREES {
        let of_tree = worst.get(tree).map(|(first_s, bytes)| (*first_s, *bytes as f64 / f64::from(1 << 20)));
        let (first_s, mebibytes) = of_tree.unwrap_or((f64::NAN, f64::NAN));
        let shown = |value: f64| if value.is_nan() { "–".to_owned() } else { number(value) };
        let first = Goal::AtMost(FIRST_S_MAX).verdict(first_s);
        let memory = Goal::AtMost(BESIDE_MIB_MAX).verdict(mebibytes);
        let (first_s, mebibytes) = (shown(first_s), shown(mebibytes));
        let _ = writeln!(out, "| {tree} | {first_s} | {first} | {mebibytes} | {memory} |");
    }
    out
}

/// Rows of one tree and one way together, in the order in which these came first.
fn cases(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut cases: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        match cases.iter_mut().find(|case| case[0].tree == row.tree && case[0].way == row.way) {
            Some(case) => case.push(row),
            None => cases.push(vec![row]),
        }
    }
    cases
}

/// Whether a small file with content stands in the staging directory of a copy.
fn has_content(copy: &Path) -> bool {
    let below = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let jobs = below(&copy.join(".thalweg-staging"));
    let lanes = jobs.flat_map(|job| below(&job.path()).collect::<Vec<_>>());
    let mut lanes = lanes.filter(|lane| lane.file_name().to_string_lossy().starts_with("lane-"));
    lanes.any(|lane| below(&lane.path()).any(|file| file.metadata().is_ok_and(|meta| meta.len() > 0)))
}

/// The most memory that a process ever had, in bytes.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_judges_the_latest_first_content_and_the_most_memory_of_either_side() {
        let good = row("local", Some(0.25), beside(116 << 20), None);
        let page = told(&[good.clone(), row("push", Some(0.5), 50 << 20, Some(200 << 20))]).unwrap();
        assert!(page.contains("| deep | local | 1000000 | 0.250 | 50.0 | 20000 | 100 | – |"), "{page}");
        assert!(page.contains("| deep | 0.500 | at most 1: met | 200 | at most 256: met |\n"), "{page}");
        assert!(!page.contains("were ended"), "{page}");
        let page = told(&[good, row("push", Some(1.5), 50 << 20, Some(512 << 20))]).unwrap();
        assert_eq!(page.matches("**missed by").count(), 2, "{page}");
        assert!(told(&[row("push", None, 0, None)]).unwrap().contains("**missed by inf %**"));
        assert!(told(&[]).is_err() && told(&[json!({})]).is_err());
    }

    #[test]
    fn trees_and_ways_that_are_missing_are_not_measured_and_neither_are_their_goals() {
        let page = told(&[row("push", Some(0.5), 50 << 20, Some(200 << 20))]).unwrap();
        for missing in ["deep | local", "deep | pull", "behind | push", "flat | local", "flat | pull"] {
            assert!(page.contains(&format!("| {missing} | not measured | | | | | |\n")), "{page}");
        }
        assert!(!page.contains("| deep | push | not measured"), "{page}");
        for tree in [BEHIND, FLAT] {
            let goals = format!("| {tree} | – | at most 1: not measured | – | at most 256: not measured |\n");
            assert!(page.contains(&goals), "{page}");
        }
        assert_eq!((page.matches(": met").count(), page.matches(": not measured").count()), (2, 4));
    }

    #[test]
    fn copies_that_were_ended_show_when_their_first_content_stood_and_nothing_else() {
        let ended = |first_s: f64| {
            let mut row = row("push", Some(first_s), 1 << 20, Some(1 << 20));
            row["is_whole"] = false.into();
            row["entries"] = 0.into();
            row["seconds"] = first_s.into();
            row
        };
        let mut whole = row("push", Some(0.25), 50 << 20, Some(200 << 20));
        // As older results have it.
        whole.as_object_mut().unwrap().remove("is_whole");
        let page = told(&[whole, ended(0.5), ended(0.75)]).unwrap();
        let line = "| deep | push | 1000000 | 0.500 [0.250–0.750] | 50.0 | 20000 | 50.0 | 200 |";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("Of 3 copies 2 were ended"), "{page}");
        assert!(page.contains("| deep | 0.750 | at most 1: met | 200 |"), "{page}");
        assert!(told(&[ended(0.5)]).is_err(), "no memory of a whole copy");
    }

    #[test]
    fn what_repeats_a_result_says_how_often_it_copied() {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: Args,
        }
        let told = |words: &str| {
            let words = std::iter::once("entries").chain(words.split_whitespace());
            repeat(&<Cli as clap::Parser>::try_parse_from(words).unwrap().args)
        };
        assert_eq!(told(""), "cargo xtask entries --files 1000000 --large-mib 1024");
        let words = "--files 10 --large-mib 1 --only deep --way push --runs 3 --whole-once";
        assert_eq!(told(words), format!("cargo xtask entries {words}"));
    }

    fn row(way: &str, first_s: Option<f64>, client_bytes: u64, daemon_bytes: Option<u64>) -> Value {
        let row = Row {
            tree: "deep".to_owned(),
            way: way.to_owned(),
            is_whole: true,
            entries: 1e6,
            first_s,
            seconds: 50.0,
            client_bytes,
            daemon_bytes,
            cpu_s: 9.0,
        };
        serde_json::to_value(row).unwrap()
    }
}
