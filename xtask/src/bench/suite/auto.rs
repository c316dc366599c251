//! The settings that thalweg chooses by itself, beside all others.

use super::{Suite, loopback};
use crate::bench::control_group::{SlowDisk, Way};
use crate::bench::network::{self, Testbed};
use crate::bench::record::{Load, PATH, Results, SEARCH, Sample, scenario_of};
use crate::bench::tell::{self, Goal};
use crate::bench::workspace::{Times, Volume};
use crate::bench::{Bench, data, workspace};
use crate::servers::Daemon;
use crate::{toolchain, trees};
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_lab::bench::MTU_BYTES;
use thalweg_lab::bench::record::PathKind;

pub const SUITE: Suite = Suite {
    name: "auto",
    title: Some("Automatic settings"),
    asks: "How close do the settings that thalweg chooses by itself come to the best that an exhaustive search over \
           streams, chunk size and depth finds? Every combination runs once; the best five, those named below as found, then \
           run against the automatic ones in interleaved rounds, so that luck in the search does not count. Goal: at most \
           1.05 × the wall time of the best, on six shapes.",
    takes: "about 40 minutes, 6 GB of disk; the long links need `thalweg testbed`",
    runs: 5,
    // Of most shapes; each sample says which path its own is.
    path: loopback,
    rows: Vec::new,
    run,
    tell,
};

const AUTOMATIC: &str = "automatic";
const FINALISTS: usize = 5;
const STREAMS: [&str; 5] = ["1", "2", "4", "8", "16"];
const CHUNKS: [&str; 3] = ["1MiB", "4MiB", "16MiB"];
/// The last: as many as the window takes, which is the default.
const DEPTHS: [Option<&str>; 3] = [Some("2"), Some("8"), None];
const LINK_BITS_PER_S: u64 = 1_000_000_000;
const LONG_LINK: [&str; 4] = ["--rtt", "100ms", "--rate", "1Gbit/s"];
/// The round trip time of it.
const LONG_LINK_RTT_S: f64 = 0.1;
const DISK_BYTES_PER_S: u64 = 200_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Narrow {
    Nothing,
    ThinLink,
    LongLink,
    SourceDisk,
    DestinationDisk,
}

struct Shape {
    name: &'static str,
    narrow: Narrow,
    files: u64,
    bytes: u64,
}

const SHAPES: [Shape; 6] = [
    Shape { name: "fast everything", narrow: Narrow::Nothing, files: 1, bytes: 1 << 30 },
    Shape { name: "thin link", narrow: Narrow::ThinLink, files: 1, bytes: 256 << 20 },
    Shape { name: "long link", narrow: Narrow::LongLink, files: 1, bytes: 512 << 20 },
    Shape { name: "slow source disk", narrow: Narrow::SourceDisk, files: 1, bytes: 256 << 20 },
    Shape { name: "slow destination disk", narrow: Narrow::DestinationDisk, files: 1, bytes: 256 << 20 },
    Shape { name: "small files on a long link", narrow: Narrow::LongLink, files: 20_000, bytes: 4096 },
];

impl Shape {
    /// Over which path its copies go, in words.
    fn path(&self) -> String {
        match self.narrow {
            Narrow::LongLink => {
                let (rtt_s, rate_bits_per_s) = (Some(LONG_LINK_RTT_S), Some(LINK_BITS_PER_S));
                PathKind::Testbed { rtt_s, rate_bits_per_s, loss: None, mtu_bytes: MTU_BYTES }.to_string()
            }
            Narrow::ThinLink => {
                let gbit = LINK_BITS_PER_S as f64 / 1e9;
                format!("{}, {gbit} Gbit/s in both directions together", PathKind::Loopback)
            }
            Narrow::Nothing | Narrow::SourceDisk | Narrow::DestinationDisk => PathKind::Loopback.to_string(),
        }
    }
}

/// What is set by hand; nothing is automatic.
#[derive(Clone)]
struct Settings {
    name: String,
    words: Vec<String>,
}

fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for streams in STREAMS {
        for chunk in CHUNKS {
            for depth in DEPTHS {
                let mut words = vec!["--streams", streams, "--chunk", chunk];
                words.extend(depth.iter().flat_map(|depth| ["--depth", depth]));
                let name = format!("{streams} streams, {chunk}, depth {}", depth.unwrap_or("by window"));
                all.push(Settings { name, words: words.into_iter().map(str::to_owned).collect() });
            }
        }
    }
    all
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    for shape in &SHAPES {
        if !bench.wants(shape.name) {
            continue;
        }
        if shape.narrow == Narrow::LongLink
            && let Some(why) = Testbed::is_missing(&bench.workspace)
        {
            bench.log.left_out(shape.name, &why)?;
            continue;
        }
        contest(bench, shape)?;
    }
    Ok(())
}

/// The search, then the rounds.
fn contest(bench: &mut Bench<'_>, shape: &Shape) -> Result<()> {
    let runs = bench.runs();
    let each = match bench.args.large_mib {
        Some(mib) if shape.files == 1 => mib << 20,
        _ => shape.bytes,
    };
    let (bytes, files) = (each * shape.files, shape.files);
    let source = bench.workspace.directory(&format!("source of {}", shape.name).replace(' ', "-"))?;
    data::make_files(&toolchain::directory()?, &source, files, each)?;
    let copies = (all_settings().len() + (runs + 1) * (FINALISTS + 1)) as u64;
    let volume = match files > 1 {
        true => Some(Volume::new(&bench.workspace.scratch, "volume", copies * files)?),
        false => None,
    };
    let export = match &volume {
        Some(volume) => volume.path.clone(),
        None => bench.workspace.directory("export")?,
    };
    let site = Site::new(&bench.workspace, shape, source, export)?;
    let search = format!("{}{SEARCH}", shape.name);
    let mut found = Vec::new();
    for settings in all_settings() {
        let load = Load { scenario: &search, tool: &settings.name, run: 1, bytes, files };
        let sample = site.measure(&settings, found.len(), &load)?;
        eprintln!("{search}: {}: {:.2} s", settings.name, sample.wall_s);
        bench.log.sample(&sample)?;
        found.push((sample.wall_s, settings));
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let searched = found.len();
    let mut finalists: Vec<Settings> =
        found.into_iter().take(FINALISTS).map(|(_, settings)| settings).collect();
    finalists.insert(0, Settings { name: AUTOMATIC.to_owned(), words: Vec::new() });
    let log = &mut bench.log;
    workspace::rounds(runs, finalists, |run, settings| {
        let load = Load { scenario: shape.name, tool: &settings.name, run, bytes, files };
        let sample = site.measure(settings, searched + run, &load)?;
        eprintln!("{}: {} {run}: {:.2} s", shape.name, settings.name, sample.wall_s);
        if run == 0 { Ok(()) } else { log.sample(&sample) }
    })
}

/// Both sides, and what is narrow between or at them; all of it goes with the value.
struct Site<'a> {
    workspace: &'a workspace::Workspace,
    daemon: Daemon,
    narrow: Narrow,
    path: String,
    disk: Option<SlowDisk>,
    testbed: Option<Testbed<'a>>,
    source: PathBuf,
    export: PathBuf,
}

impl<'a> Site<'a> {
    fn new(
        workspace: &'a workspace::Workspace,
        shape: &Shape,
        source: PathBuf,
        export: PathBuf,
    ) -> Result<Site<'a>> {
        let disk = match shape.narrow {
            Narrow::SourceDisk => Some(SlowDisk::new(&source, Way::Read, DISK_BYTES_PER_S)?),
            Narrow::DestinationDisk => Some(SlowDisk::new(&export, Way::Write, DISK_BYTES_PER_S)?),
            _ => None,
        };
        let testbed = match shape.narrow {
            Narrow::LongLink => Some(Testbed::up(workspace, &LONG_LINK)?),
            _ => None,
        };
        if shape.narrow == Narrow::ThinLink {
            network::thin_loopback(LINK_BITS_PER_S)?;
        }
        let exports = [format!("bench={}", export.display())];
        let enter = |command| {
            let command = match &testbed {
                Some(testbed) => testbed.enter("right", &command),
                None => command,
            };
            let command = workspace.group.enter(command);
            match &disk {
                Some(disk) if shape.narrow == Narrow::DestinationDisk => disk.enter(command),
                _ => command,
            }
        };
        let daemon = match &testbed {
            Some(testbed) => {
                let address = format!("{}:8487", testbed.address);
                Daemon::start_at(&address, &workspace.thalweg, &workspace.scratch, &exports, enter)?
            }
            None => Daemon::start(&workspace.thalweg, &workspace.scratch, &exports, enter)?,
        };
        let (narrow, path) = (shape.narrow, shape.path());
        Ok(Site { workspace, daemon, narrow, path, disk, testbed, source, export })
    }

    /// One copy, with its path, and what that cost where it is an emulated one.
    fn measure(&self, settings: &Settings, turn: usize, load: &Load<'_>) -> Result<Sample> {
        let copy = || Ok(load.took(&self.copy(settings, turn)?).with(PATH, self.path.as_str().into()));
        match &self.testbed {
            Some(testbed) => testbed.over(copy),
            None => copy(),
        }
    }

    /// `turn` keeps copies of many files apart, which stay.
    fn copy(&self, settings: &Settings, turn: usize) -> Result<Times> {
        let name = format!("{turn}-{}", settings.name.replace([' ', ','], "-"));
        let destination: &Path = &self.export.join(&name);
        match self.narrow {
            Narrow::SourceDisk => data::cool(&self.source)?,
            _ => data::warm(&self.source)?,
        }
        let mut command = self.workspace.thalweg();
        command.args(["cp", "-q", "--ticket"]).arg(&self.daemon.ticket).args(&settings.words);
        command.arg(format!("{}/", self.source.display()));
        command.arg(format!("tw://{}/bench/{name}", self.daemon.address));
        if let Some(testbed) = &self.testbed {
            command = testbed.enter("left", &command);
        }
        if let (Narrow::SourceDisk, Some(disk)) = (self.narrow, &self.disk) {
            command = disk.enter(command);
        }
        let times = self.workspace.time(command, Some(destination)).with_context(|| settings.name.clone())?;
        trees::same_content(&self.source, destination)?;
        data::free(destination)?;
        Ok(times)
    }
}

impl Drop for Site<'_> {
    fn drop(&mut self) {
        if self.narrow == Narrow::ThinLink {
            let _ = network::wide_loopback();
        }
    }
}

fn tell(results: &Results) -> Result<String> {
    let mut out = String::from(
        "| shape | best found | wall s | automatic, wall s | automatic against it | goal | worst of the search, s | the path's \
         own CPU-s/GB, best | automatic | worst |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for shape in &SHAPES {
        let wall = |tool: &str| results.series(shape.name, tool, |sample: &Sample| sample.wall_s);
        let mut others = results.tools(shape.name);
        others.retain(|tool| *tool != AUTOMATIC);
        others.sort_by(|a, b| tell::median_of(&wall(a)).total_cmp(&tell::median_of(&wall(b))));
        let Some(best) = others.first() else {
            writeln!(out, "| {} | not measured | | | | | | | | |", shape.name)?;
            continue;
        };
        let search = format!("{}{SEARCH}", shape.name);
        let is_of_it = |sample: &&Sample| scenario_of(sample) == search && sample.counts();
        let searched = results.samples.iter().filter(is_of_it);
        let worst = searched.max_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
        let worst_s = worst.map_or(f64::NAN, |sample| sample.wall_s);
        let wire = match shape.narrow {
            Narrow::LongLink => [
                tell::wire_cost(results, shape.name, best),
                tell::wire_cost(results, shape.name, AUTOMATIC),
                tell::wire_cost_of(worst.as_slice()),
            ],
            _ => [tell::NO_WIRE; 3].map(str::to_owned),
        };
        writeln!(
            out,
            "| {} | {best} | {} | {} | {} | {} | {worst_s:.2} | {} |",
            shape.name,
            tell::with_interval(&wall(best)),
            tell::with_interval(&wall(AUTOMATIC)),
            tell::ratio(&wall(AUTOMATIC), &wall(best)),
            Goal::AtMost(1.05).verdict(tell::ratio_median(&wall(AUTOMATIC), &wall(best))),
            wire.join(" | "),
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_says_which_path_its_copies_take() {
        let paths: Vec<String> = SHAPES.iter().map(Shape::path).collect();
        let far = format!("emulated path, 100 ms, 1 Gbit/s, MTU {MTU_BYTES}");
        let thin = "loopback, 1 Gbit/s in both directions together";
        assert_eq!(paths, ["loopback", thin, &far, "loopback", "loopback", &far]);
        assert_eq!(LONG_LINK, ["--rtt", "100ms", "--rate", "1Gbit/s"]);
    }

    #[test]
    fn what_the_long_link_cost_stands_beside_each_time_and_of_older_results_that_it_was_not_recorded() {
        let of = |scenario: &str, tool: &str, wall_s: f64, cost: Option<f64>| {
            let load = Load { scenario, tool, run: 1, bytes: 1 << 29, files: 1 };
            let times = Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 };
            Sample { wire_cpu_s_per_gb: cost, ..load.took(&times) }
        };
        let rows = |costs: [Option<f64>; 3]| -> Vec<String> {
            let samples = vec![
                of("long link, search", "slow", 30.0, costs[2]),
                of("long link, search", "quick", 6.0, costs[0]),
                of("long link", "quick", 6.0, costs[0]),
                of("long link", AUTOMATIC, 6.0, costs[1]),
                of("thin link", "quick", 2.0, None),
                of("thin link", AUTOMATIC, 2.0, None),
            ];
            let told = tell(&Results { samples, ..Results::default() }).unwrap();
            told.lines().map(str::to_owned).collect()
        };
        let told = rows([Some(2.0), Some(3.0), Some(4.0)]);
        let end_of = |name: &str, rows: &[String]| {
            let row = rows.iter().find(|row| row.starts_with(&format!("| {name} |"))).unwrap();
            row.split(" | ").skip(6).collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(end_of("long link", &told), "30.00 | 2.00 | 3.00 | 4.00 |");
        assert_eq!(end_of("thin link", &told), "NaN | – | – | – |");
        let columns = |row: &String| row.matches('|').count();
        assert!(told.iter().all(|row| columns(row) == columns(&told[0])), "{told:?}");
        let older = rows([None; 3]);
        assert_eq!(end_of("long link", &older), "30.00 | not recorded | not recorded | not recorded |");
    }
}
