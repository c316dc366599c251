//! The same copies by ours and by others', near and far, over an emulated path (`thalweg testbed`).

use super::{Row, Suite, emulated, row};
use crate::bench::copies::{self, seconds};
use crate::bench::network::Testbed;
use crate::bench::peers::{self, Job, Servers, TOOLS, Tool};
use crate::bench::record::{Load, Results, Sample, cpu_s_per_gb, files_per_s, gbit_per_s, scenario_of};
use crate::bench::tell;
use crate::bench::workspace::{Times, Volume};
use crate::bench::{Bench, data, workspace};
use crate::toolchain;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::statistics::Series;
use thalweg_lab::bench::table::told;

pub const SUITE: Suite = Suite {
    name: "distance-tools",
    title: Some("Other tools over a distance"),
    asks: "How long does what is pushed over a distance take to be durable there, by thalweg and by others? One warm file \
           of 512 MiB, and 10,000 files of 4 KiB, over a path of 1 Gbit/s without loss (941 Mbit/s of TCP's payload), with \
           cubic. The hosts' buffers are those of 000 Table III, so that no tool is held back by the kernel's windows; \
           those that tools have themselves stay. Tools that a distance holds back much copy less there, and it is said \
           where. The last scenario is of two pairs of hosts that copy at the same time over one path. There are no goals: a \
           time below 1 says that another tool is faster.",
    takes: "about 30 minutes, 7 GB of disk; needs `thalweg testbed`",
    runs: 3,
    path: || emulated(Some(1_000_000_000)),
    rows,
    run,
    tell,
};

const OURS: &str = "thalweg daemon";
/// xrootd with TLS is measured over loopback only: its certificate is of that.
const NAMES: [&str; 10] = [
    OURS,
    "thalweg ssh",
    "rsync daemon",
    "rsync ssh",
    "scp",
    "tar ssh",
    "GridFTP, 8 at once",
    "xrootd",
    "rclone webdav",
    "rclone sftp",
];
const PATHS: [&str; 3] = ["0.2ms", "20ms", "100ms"];
const LARGE_MIB: u64 = 512;
const SMALL_FILES: u32 = 10_000;
const SMALL_BYTES: usize = 4096;
/// Tools that wait for the far side with each file, and how many they copy near and where there is a distance: their
/// rate is the same, but for the start, and all of them would take minutes. GridFTP waits with eight at once, xrootd
/// and rclone with four; and near these two take a millisecond and more for each.
const FILE_BY_FILE: [(&str, [u32; 2]); 5] = [
    ("scp", [SMALL_FILES, 30]),
    ("GridFTP, 8 at once", [SMALL_FILES, 300]),
    ("xrootd", [SMALL_FILES / 10, 100]),
    ("rclone webdav", [SMALL_FILES / 10, 100]),
    ("rclone sftp", [SMALL_FILES / 10, 100]),
];
/// Tools that the window of an ssh channel, of 2 MiB, holds back: at the longest distance they copy half of the file.
const THROUGH_SSH: [&str; 4] = ["rsync ssh", "scp", "tar ssh", "rclone sftp"];
/// Of two pairs of hosts at the same time.
const PAIRS: [&str; 2] = [OURS, "rsync daemon"];
const PAIRS_PATH: &str = "100ms";
/// Of each pair: where it copies from, and where to.
const HOSTS: [[&str; 2]; 2] = [["left-1", "right-1"], ["left-2", "right-2"]];

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Large,
    Small,
    /// A half of the large file by each pair.
    TwoPairs,
}

/// One thing that is run on a path.
struct Case {
    what: What,
    rtt: &'static str,
    tool: &'static Tool,
}

impl Case {
    fn scenario(&self) -> String {
        let what = match self.what {
            What::Large => "a large file",
            What::Small => "10,000 x 4 KiB",
            What::TwoPairs => "two pairs of hosts",
        };
        format!("{what}, {}", self.rtt)
    }

    /// Where it copies from, and how many bytes that are, of a large file of so many.
    fn source(&self, large: u64) -> (String, u64) {
        let is_half = self.rtt == PATHS[2] && THROUGH_SSH.contains(&self.tool.name);
        match self.what {
            What::Large if is_half => ("half".to_owned(), large / 2),
            What::Large => ("large".to_owned(), large),
            // Each pair has it.
            What::TwoPairs => ("half".to_owned(), large / 2 * 2),
            What::Small => {
                let files = self.files();
                (format!("small-{files}"), u64::from(files) * SMALL_BYTES as u64)
            }
        }
    }

    fn files(&self) -> u32 {
        match self.what {
            What::Large => 1,
            What::TwoPairs => 2,
            What::Small => {
                let few = FILE_BY_FILE.iter().find(|(tool, _)| *tool == self.tool.name);
                few.map_or(SMALL_FILES, |(_, files)| files[usize::from(self.rtt != PATHS[0])])
            }
        }
    }
}

fn rows() -> Vec<Row> {
    let tools: Vec<&Tool> = NAMES.iter().filter_map(|name| peers::tool(name).ok()).collect();
    cases(&tools).iter().map(|case| row(case.scenario(), case.tool.name)).collect()
}

fn cases(tools: &[&'static Tool]) -> Vec<Case> {
    let mut cases = Vec::new();
    for what in [What::Large, What::Small] {
        for rtt in PATHS {
            cases.extend(tools.iter().map(|tool| Case { what, rtt, tool }));
        }
    }
    let pairs = tools.iter().filter(|tool| PAIRS.contains(&tool.name));
    cases.extend(pairs.map(|tool| Case { what: What::TwoPairs, rtt: PAIRS_PATH, tool }));
    cases
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    if let Some(why) = Testbed::is_missing(&bench.workspace) {
        bail!("{why}; --thalweg names another");
    }
    let tools = copies::chosen(bench, &NAMES)?;
    let runs = bench.runs();
    let mut cases = cases(&tools);
    cases.retain(|case| bench.wants(&case.scenario()));
    let bytes = bench.large_bytes(LARGE_MIB);
    for (name, bytes) in [("large", bytes), ("half", bytes / 2)] {
        let source = bench.workspace.directory(name)?;
        toolchain::make_large_file(&toolchain::directory()?, &source.join("file"), bytes)?;
    }
    for files in
        cases.iter().filter(|case| case.what == What::Small).map(Case::files).collect::<BTreeSet<_>>()
    {
        data::make_small_files(&bench.workspace.directory(&format!("small-{files}"))?, files, SMALL_BYTES)?;
    }
    let copied: u64 = cases.iter().map(|case| u64::from(case.files())).sum();
    let volume = Volume::new(&bench.workspace.scratch, "volume", copied * (runs as u64 + 1))?;
    let export = volume.path.join("export");
    std::fs::create_dir(&export)?;
    let workspace = &bench.workspace;
    let congestion = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")?;
    let congestion = format!("net.ipv4.tcp_congestion_control={}", congestion.trim());
    let up = ["--hosts", "2+2", "--tuned", "--sysctl", &congestion, "--rtt", PATHS[0], "--rate", "1Gbit/s"];
    let testbed = Testbed::up(workspace, &up)?;
    let start = |host: &'static str, tools: &[&'static Tool]| {
        let enter = |command| workspace.group.enter(testbed.enter(host, &command));
        Servers::start_at(testbed.address_of(host)?, workspace, &export, tools, enter)
    };
    let pairs: Vec<&Tool> = tools.iter().copied().filter(|tool| PAIRS.contains(&tool.name)).collect();
    let (first, missing) = start(HOSTS[0][1], &tools)?;
    let (second, _) = start(HOSTS[1][1], &pairs)?;
    let log = &mut bench.log;
    for (tool, why) in &missing {
        log.left_out(tool.name, why)?;
    }
    let mut left_out: HashSet<(String, &str)> = HashSet::new();
    cases.retain(|case| !missing.iter().any(|(tool, _)| tool.name == case.tool.name));
    let far = Far { workspace, testbed: &testbed, servers: [first, second], export: &export, bytes };
    workspace::rounds(runs, cases, |run, case| {
        let (scenario, tool) = (case.scenario(), case.tool.name);
        if left_out.contains(&(scenario.clone(), tool)) {
            return Ok(());
        }
        testbed.set(&["--rtt", case.rtt])?;
        match testbed.over(|| far.measure(case, run)) {
            Ok(sample) => {
                eprintln!("{}", told(&sample));
                if run == 0 { Ok(()) } else { log.sample(&sample) }
            }
            Err(error) if !case.tool.is_ours() => {
                log.left_out(&format!("{tool} ({scenario})"), &format!("{error:#}"))?;
                left_out.insert((scenario, tool));
                Ok(())
            }
            Err(error) => Err(error.context(scenario)),
        }
    })
}

/// Both sides of the path.
struct Far<'a> {
    workspace: &'a workspace::Workspace,
    testbed: &'a Testbed<'a>,
    /// Of each pair.
    servers: [Servers<'a>; 2],
    export: &'a Path,
    /// Of the large file.
    bytes: u64,
}

impl Far<'_> {
    fn measure(&self, case: &Case, run: usize) -> Result<Sample> {
        let (source, bytes) = case.source(self.bytes);
        let pairs = if case.what == What::TwoPairs { HOSTS.len() } else { 1 };
        let source: PathBuf = self.workspace.scratch.path(&source);
        data::warm(&source)?;
        let name = format!("{run} {} {}", case.scenario(), case.tool.name).replace([' ', ','], "-");
        let destinations: Vec<PathBuf> =
            (1..=pairs).map(|pair| self.export.join(format!("{name}-{pair}"))).collect();
        let job =
            |destination| Job { source: &source, destination, has_many_files: case.what == What::Small };
        let mut commands = Vec::new();
        for ((destination, servers), [left, _]) in destinations.iter().zip(&self.servers).zip(HOSTS) {
            let command = case.tool.command(servers, &job(destination))?;
            commands.push(self.testbed.enter(left, &command));
        }
        let (times, ended_s): (Times, Vec<f64>) = self.workspace.time_all(commands, Some(self.export))?;
        for destination in &destinations {
            case.tool.compare(&job(destination)).with_context(|| case.tool.name)?;
            data::free(destination)?;
        }
        let load =
            Load { scenario: &case.scenario(), tool: case.tool.name, run, bytes, files: case.files().into() };
        let sample = load.took(&times);
        Ok(if pairs > 1 { sample.distributed(ENDED, "s", ended_s) } else { sample })
    }
}

/// Of several pairs: the seconds until each had ended.
const ENDED: &str = "ended_s";

fn tell(results: &Results) -> Result<String> {
    let scenarios = results.scenarios();
    let mut out = String::from(
        "| scenario | thalweg daemon, s | the fastest other tool | its time against it | the fastest other that encrypts | its \
         time against it |\n|---|---|---|---|---|---|\n",
    );
    for scenario in &scenarios {
        let ours = seconds(results, scenario, OURS);
        let others = || results.tools(scenario).into_iter().filter(|tool| !tool.starts_with("thalweg"));
        let encrypts = |name: &&str| {
            TOOLS.iter().any(|tool| tool.name == *name && tool.encrypts != peers::ENCRYPTS_NOTHING)
        };
        let quickest = |tools: Vec<&str>| {
            let median = |tool: &&str| tell::median_of(&seconds(results, scenario, tool));
            match tools.into_iter().min_by(|a, b| median(a).total_cmp(&median(b))) {
                Some(tool) => format!("{tool} | {}", tell::ratio(&seconds(results, scenario, tool), &ours)),
                None => "none ran | ".to_owned(),
            }
        };
        let (any, sealed) = (quickest(others().collect()), quickest(others().filter(encrypts).collect()));
        writeln!(out, "| {scenario} | {} | {any} | {sealed} |", tell::with_interval(&ours))?;
    }
    for scenario in scenarios {
        writeln!(out, "\n### {}\n\n{}", heading(results, scenario), table(results, scenario)?.trim_end())?;
    }
    Ok(out)
}

/// What it is, with its size.
fn heading(results: &Results, scenario: &str) -> String {
    let (what, rtt) =
        scenario.split_once(", ").filter(|(_, rtt)| rtt.ends_with("ms")).unwrap_or((scenario, ""));
    let most = results.samples.iter().filter(|sample| scenario_of(sample) == scenario);
    let mib = most.map(|sample| sample.bytes).max().unwrap_or(0) >> 20;
    format!("{what} ({mib} MiB), round trip time {rtt}")
}

/// One scenario: what each tool takes.
fn table(results: &Results, scenario: &str) -> Result<String> {
    let samples = || results.samples.iter().filter(|sample| scenario_of(sample) == scenario);
    let files = samples().map(|sample| sample.files).max().unwrap_or(0);
    let bytes = samples().map(|sample| sample.bytes).max().unwrap_or(0);
    let are_many = files > HOSTS.len() as u64;
    let mut out = format!(
        "| tool | encrypts | verifies | s with sync | max/min | {} | CPU-s/GB | time against {OURS} | the path's own CPU-s/GB \
         |\n|---|---|---|---|---|---|---|---|---|\n",
        if are_many { "files/s" } else { "Gbit/s" },
    );
    let mut tools = results.tools(scenario);
    tools.sort_by_key(|tool| TOOLS.iter().position(|known| known.name == *tool));
    let (ours, mut notes) = (seconds(results, scenario, OURS), String::new());
    for name in tools {
        let tool = TOOLS.iter().find(|tool| tool.name == name);
        let (encrypts, verifies) = tool.map_or(("–", "–"), |tool| (tool.encrypts, tool.verifies));
        let series = |figure: fn(&Sample) -> f64| results.series(scenario, name, figure);
        let rate = series(if are_many { files_per_s } else { gbit_per_s });
        let against = match name == OURS {
            true => "1".to_owned(),
            false => tell::ratio(&seconds(results, scenario, name), &ours),
        };
        let wall = series(|sample| sample.wall_s);
        writeln!(
            out,
            "| {name} | {encrypts} | {verifies} | {} | {:.2} | {} | {} | {against} | {} |",
            tell::with_interval(&wall),
            tell::spread_of(&wall),
            tell::with_interval(&rate),
            tell::with_interval(&series(cpu_s_per_gb)),
            tell::wire_cost(results, scenario, name),
        )?;
        let copied = results.of(scenario, name).next();
        match copied.filter(|sample| sample.bytes < bytes) {
            Some(copied) if are_many => write!(
                notes,
                "\n{name} copied {} of these files, because it takes long for each: its seconds are of those, and its time is \
                 compared by the file.\n",
                copied.files
            )?,
            Some(copied) => write!(
                notes,
                "\n{name} copied {} MiB, because the window of an ssh channel holds it back: its seconds are of those, and its \
                 time is compared by the byte.\n",
                copied.bytes >> 20
            )?,
            None => {}
        }
        // Of several pairs: how evenly they shared the path.
        let share = |sample: &Sample| {
            let ended = &sample.distributions.get(ENDED)?.values;
            let (first, last) =
                ended.iter().fold((f64::MAX, 0.0), |(a, b): (f64, f64), s| (a.min(*s), b.max(*s)));
            (ended.len() > 1).then_some((sample.run as usize, last / first))
        };
        let shares: Series = results.of(scenario, name).filter_map(share).collect();
        if !shares.is_empty() {
            let shares = tell::with_interval(&shares);
            write!(notes, "\n{name}: the slower pair took {shares} times as long as the other.\n")?;
        }
    }
    Ok(out + &notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(scenario: &str, tool: &str, run: usize, (bytes, files): (u64, u64), wall_s: f64) -> Sample {
        let times = Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 };
        let sample = Load { scenario, tool, run, bytes, files }.took(&times);
        Sample { wire_cpu_s_per_gb: Some(2.5), ..sample }
    }

    #[test]
    fn each_path_has_its_tools_and_a_faster_one_is_said_to_be() {
        let file = (1_000_000_000, 1);
        let mut samples = Vec::new();
        for run in 1..=3 {
            samples.push(sample("a large file, 20ms", "scp", run, file, 40.0));
            samples.push(sample("a large file, 20ms", OURS, run, file, 10.0));
            samples.push(sample("a large file, 20ms", "GridFTP, 8 at once", run, file, 8.0));
        }
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        let row = "| a large file, 20ms | 10.0 [10.0–10.0] | GridFTP, 8 at once | 0.800 [0.800–0.800] | scp | 4.00 \
                   [4.00–4.00] |";
        assert!(told.contains(row), "{told}");
        assert!(told.contains("### a large file (953 MiB), round trip time 20ms"), "{told}");
        let row = "| 8.00 [8.00–8.00] | 1.00 | 1.00 [1.00–1.00] | 1.00 [1.00–1.00] | 0.800 [0.800–0.800] | 2.50 \
                   [2.50–2.50] |";
        assert!(told.contains(&format!("| GridFTP, 8 at once | nothing | nothing {row}")), "{told}");
        assert!(!told.contains("copied"), "{told}");
    }

    #[test]
    fn who_copied_fewer_files_is_compared_by_the_file_and_that_is_told() {
        let scenario = "10,000 x 4 KiB, 100ms";
        let samples = vec![
            sample(scenario, OURS, 1, (40_960_000, 10_000), 2.0),
            sample(scenario, "scp", 1, (122_880, 30), 12.0),
        ];
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        assert!(told.contains("| 10,000 x 4 KiB, 100ms | 2.00 | scp | 2000 | scp | 2000 |"), "{told}");
        assert!(told.contains("### 10,000 x 4 KiB (39 MiB), round trip time 100ms"), "{told}");
        assert!(told.contains("scp copied 30 of these files"), "{told}");
        assert!(told.contains("| 12.0 | 1.00 | 2.50 |"), "{told}");
    }

    #[test]
    fn who_copied_half_of_a_file_is_compared_by_the_byte_and_that_is_told() {
        let scenario = "a large file, 100ms";
        let samples = vec![
            sample(scenario, OURS, 1, (512 << 20, 1), 5.0),
            sample(scenario, "scp", 1, (256 << 20, 1), 15.0),
        ];
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        assert!(told.contains("| a large file, 100ms | 5.00 | scp | 6.00 | scp | 6.00 |"), "{told}");
        assert!(told.contains("scp copied 256 MiB, because"), "{told}");
        assert!(told.contains("### a large file (512 MiB)"), "{told}");
    }

    #[test]
    fn of_two_pairs_it_is_told_how_evenly_they_shared_the_path() {
        let scenario = "two pairs of hosts, 100ms";
        let pairs = |tool: &str, ended_s: [f64; 2]| {
            let sample = sample(scenario, tool, 1, (1_000_000_000, 2), ended_s[1]);
            sample.distributed(ENDED, "s", ended_s.to_vec())
        };
        let samples = vec![pairs(OURS, [8.0, 10.0]), pairs("rsync daemon", [10.0, 15.0])];
        let told = tell(&Results { samples, ..Results::default() }).unwrap();
        assert!(told.contains("thalweg daemon: the slower pair took 1.25 times"), "{told}");
        assert!(told.contains("rsync daemon: the slower pair took 1.50 times"), "{told}");
        assert!(told.contains("| Gbit/s |"), "{told}");
    }

    #[test]
    fn only_who_is_held_back_copies_less_and_only_over_a_distance() {
        let tools: Vec<&Tool> = NAMES.iter().map(|name| peers::tool(name).unwrap()).collect();
        let few =
            cases(&tools).into_iter().filter(|case| case.what == What::Small && case.files() != SMALL_FILES);
        let few: Vec<String> =
            few.map(|case| format!("{} {} {}", case.tool.name, case.rtt, case.files())).collect();
        let near = ["xrootd 0.2ms 1000", "rclone webdav 0.2ms 1000", "rclone sftp 0.2ms 1000"];
        let far = |rtt: &str| {
            let few = [
                ("scp", 30),
                ("GridFTP, 8 at once", 300),
                ("xrootd", 100),
                ("rclone webdav", 100),
                ("rclone sftp", 100),
            ];
            few.map(|(tool, files)| format!("{tool} {rtt} {files}"))
        };
        let all: Vec<String> =
            near.map(str::to_owned).into_iter().chain(far("20ms")).chain(far("100ms")).collect();
        assert_eq!(few, all);
        let half =
            cases(&tools).into_iter().filter(|case| case.what == What::Large && case.source(10).1 < 10);
        let half: Vec<String> = half.map(|case| format!("{} {}", case.tool.name, case.rtt)).collect();
        assert_eq!(half, ["rsync ssh 100ms", "scp 100ms", "tar ssh 100ms", "rclone sftp 100ms"]);
        assert_eq!(cases(&tools).len(), 2 * PATHS.len() * NAMES.len() + PAIRS.len());
    }
}
