//! The command line of `thalweg bench`.

use crate::args::whole;
use crate::units;
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;

/// What to measure, or what to do with what was measured.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Throughput by size of file
    #[command(subcommand)]
    Sweep(SweepCommand),
    /// Whether the emulated path keeps what it is asked to, and what it costs
    Path(RunArgs),
    /// What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)
    Latency(RunArgs),
    /// More and more streams of one window over a distance, beside the window law (004 Fig 2)
    Streams(RunArgs),
    /// Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)
    Cca(RunArgs),
    /// Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)
    Order(RunArgs),
    /// Files at once, streams, depth (001 Figs 4 and 5)
    Concurrency(RunArgs),
    /// The same data in more and more files, for `thalweg model fit` (001 Eq 6)
    Files(RunArgs),
    /// The same where whole files are checked after their transfer: the best number of files, for several at once (001
    /// Fig 9)
    WholeFiles(RunArgs),
    /// Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)
    Faults(RunArgs),
    /// Reading by the place on the medium (002 Table II)
    Layout(RunArgs),
    /// From where the data are, or through one more host (002 Table I)
    Hop(RunArgs),
    /// Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)
    Congest(RunArgs),
    /// A scan in files that are copied as each is finished, or streamed (003 Fig 4)
    Frames(RunArgs),
    /// How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)
    Lag(RunArgs),
    /// Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon
    /// promises (003 Figs 2 and 3)
    Slots(RunArgs),
    /// Copies of several shapes, each predicted before: does it take as long, within the range?
    Predict(RunArgs),
    /// A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)
    Storage(RunArgs),
    /// Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later),
    /// pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other.
    /// Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written
    /// as samples, see docs/guide/bench.md
    Import(ImportArgs),
    /// Show a result file as a table
    Show(ShowResultArgs),
}

/// Which sizes.
#[derive(Debug, Subcommand)]
pub enum SweepCommand {
    /// Files at rest (000 section III-B.2, Figs 5 and 8)
    Bulk(RunArgs),
    /// Files that grow while they move: how far behind is the copy? (000 section II-B, Figs 6 and 9)
    Streaming(RunArgs),
}

impl BenchCommand {
    /// Whether results are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            BenchCommand::Import(args) => args.json,
            BenchCommand::Show(args) => args.json,
            _ => self.suite().is_some_and(|(_, args)| args.json),
        }
    }

    /// Name and options, of those that measure.
    pub fn suite(&self) -> Option<(&'static str, &RunArgs)> {
        match self {
            BenchCommand::Sweep(SweepCommand::Bulk(args)) => Some(("sweep bulk", args)),
            BenchCommand::Sweep(SweepCommand::Streaming(args)) => Some(("sweep streaming", args)),
            BenchCommand::Path(args) => Some(("path", args)),
            BenchCommand::Latency(args) => Some(("latency", args)),
            BenchCommand::Streams(args) => Some(("streams", args)),
            BenchCommand::Cca(args) => Some(("cca", args)),
            BenchCommand::Order(args) => Some(("order", args)),
            BenchCommand::Concurrency(args) => Some(("concurrency", args)),
            BenchCommand::Files(args) => Some(("files", args)),
            BenchCommand::WholeFiles(args) => Some(("whole-files", args)),
            BenchCommand::Faults(args) => Some(("faults", args)),
            BenchCommand::Layout(args) => Some(("layout", args)),
            BenchCommand::Hop(args) => Some(("hop", args)),
            BenchCommand::Congest(args) => Some(("congest", args)),
            BenchCommand::Frames(args) => Some(("frames", args)),
            BenchCommand::Lag(args) => Some(("lag", args)),
            BenchCommand::Slots(args) => Some(("slots", args)),
            BenchCommand::Predict(args) => Some(("predict", args)),
            BenchCommand::Storage(args) => Some(("storage", args)),
            BenchCommand::Import(_) | BenchCommand::Show(_) => None,
        }
    }
}

/// Options of a suite.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Most bytes of one data set [default: the suite's own, mostly 64MiB; see docs/guide/bench.md]; not of `path`,
    /// `streams`
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub budget: Option<u64>,
    /// Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`,
    /// `faults`, `frames`, `predict`
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..=1 << 20))]
    pub max_files: Option<u64>,
    /// `whole-files`: files under way at once [default: 1,2,4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u64>(1..=64))]
    pub at_once: Vec<u64>,
    /// `whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by
    /// which a check is quicker than a transfer whatever the machine
    #[arg(long)]
    pub free_check: bool,
    /// Counted runs of each case [default: the suite's own, 3 to 5]; five give its median an interval of 94 %
    #[arg(long, value_name = "K", value_parser = whole::<u32>(1..=1000))]
    pub runs: Option<u32>,
    /// Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`,
    /// `streams`, `order`, `congest`, `lag`, `slots`, `storage`
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..))]
    pub seed: Option<u64>,
    /// Write the result here [default: SUITE-DATE.jsonl in this directory]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run
    /// none
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in
    /// `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = units::parse_time)]
    pub rtt: Vec<Duration>,
    /// Rate of the emulated line; in `congest` and `slots` it follows from --budget
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: Option<u64>,
    /// Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and
    /// `streams` none
    #[arg(long, value_name = "SHARE", value_delimiter = ',', value_parser = units::parse_share)]
    pub loss: Vec<f64>,
    /// How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how
    /// long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub time: Option<Duration>,
    /// `lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made
    /// meanwhile are 1 GiB at most, or --budget
    #[arg(long, value_name = "TIME", value_parser = parse_stall)]
    pub stall: Option<Duration>,
    /// `storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100
    /// requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub target: Option<u64>,
    /// Only the table, not each sample
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Tell the cases as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg bench import`.
#[derive(Debug, clap::Args)]
pub struct ImportArgs {
    /// What `iperf3 --json`, `fio --output-format=json`, `pscheduler task --format json` or `ping` wrote
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write the result here [default: FILE with the ending .jsonl]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Tell the cases as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg bench show`.
#[derive(Debug, clap::Args)]
pub struct ShowResultArgs {
    /// A result file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Tell the cases as JSON
    #[arg(long)]
    pub json: bool,
}

fn parse_stall(text: &str) -> Result<Duration, String> {
    let time = units::parse_time(text)?;
    match (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err("from 1ms to an hour".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};
    use thalweg_lab::bench::SUITES;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: BenchCommand,
    }

    #[test]
    fn each_suite_has_a_command_of_its_name_and_each_command_a_suite() {
        for suite in SUITES {
            let words = std::iter::once("bench").chain(suite.name.split(' '));
            let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(line.command.suite().map(|(name, _)| name), Some(suite.name));
        }
        let line = Line::command();
        let commands: usize = line.get_subcommands().map(|sub| sub.get_subcommands().count().max(1)).sum();
        assert_eq!(commands, SUITES.len() + ["import", "show"].len());
    }
}
