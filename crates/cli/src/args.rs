//! The command line.

use crate::and::AndArgs;
use crate::bench_args::BenchCommand;
use crate::config;
use crate::dataset_args::DatasetCommand;
use crate::exit;
use crate::filters::FilterArgs;
use crate::frames_args::FramesCommand;
use crate::model_args::{AdviseArgs, ModelCommand};
use crate::report_args::{PlotArgs, ReportArgs};
use crate::stream_args::{MarkArgs, StreamArgs};
use crate::testbed_args::TestbedCommand;
use crate::units;
use crate::watch_args::{KeepRunArgs, WatchArgs};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::fars::SshOptions;
use thalweg_mover::link::ktls::{RECORDS_MAX, RECORDS_MIN};
use thalweg_mover::link::{KernelTls, TlsForm};
use thalweg_mover::run::spread::Local;
use thalweg_sys::priority::IoPriority;
use thalweg_wire::limits;
use thalweg_wire::message::{Direct, Order, VerifyLevel, is_congestion_name};

/// Moves huge data sets: encrypted, verified, durable, resumable, and says which stage is the narrowest.
#[derive(Debug, Parser)]
#[command(
    name = "thalweg",
    version,
    max_term_width = 100,
    after_help = format!("{}\n\n{}", exit::help(), config::help())
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml
    #[arg(long, value_name = "FILE", global = true, env = "THALWEG_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy files and trees
    Cp(CopyArgs),
    /// Make a destination the same as a source
    Sync(CopyArgs),
    /// Move what is still being made: files that grow, directories in which they do, pipes (`-`)
    Stream(StreamArgs),
    /// How much of a file that a stream writes is durable
    Mark(MarkArgs),
    /// Frames of detectors, from memory to memory: many producers, many consumers, nothing lost unnamed
    #[command(subcommand)]
    Frames(FramesCommand),
    /// Check that what a receipt says is still there, and undamaged
    Verify(VerifyArgs),
    /// Compare two places by content, changing nothing
    Check(CheckArgs),
    /// List what is at a place
    Ls(LsArgs),
    /// Sum up the bytes below a place
    Du(DuArgs),
    /// Print files, compared with their digests
    Cat(CatArgs),
    /// Remove files and trees
    Rm(RmArgs),
    /// Find and remove what unfinished copies left behind
    Gc(GcArgs),
    /// Give copies that run another rate
    Limit(LimitArgs),
    /// Say which stage of a transfer is the narrowest, by what factor, what would be next, and what to turn
    Why(WhyArgs),
    /// Say how long a transfer would take, with a range, before it begins
    Predict(PredictArgs),
    /// Measure each part of a way alone and in company: which stage is the narrowest
    Probe(ProbeArgs),
    /// Say which rule takes a path in or leaves it out
    ExplainFilter(ExplainArgs),
    /// Serve directories to other machines
    Serve(ServeArgs),
    /// Copy what becomes complete in a directory, and run a program on arrival, each item once
    Watch(WatchArgs),
    /// Hosts on this machine, joined by an emulated path: delay, rate, loss, for any program
    #[command(subcommand)]
    Testbed(TestbedCommand),
    /// Analyse here, stream, or send files? Will the deadline hold? A verdict, its reason, and what would change it
    Advise(AdviseArgs),
    /// Ask one law: windows, loss, volume, tails, frames, damage, stages, number of files
    #[command(subcommand)]
    Model(ModelCommand),
    /// What of this machine stands in the way of moving data: what is, what should be, why, how to take it back
    Doctor(DoctorArgs),
    /// Measure: throughput by size, distance, loss, order, damage, load; raw samples kept, laws beside
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Files made from a seed, to measure and to try with, and checked by it
    #[command(subcommand)]
    Dataset(DatasetCommand),
    /// Draw the figures of results: SVG or PNG, with their data as CSV
    Plot(PlotArgs),
    /// One page about results: figures beside the papers' own, tables, what was measured where; HTML that stands alone
    Report(ReportArgs),
    /// The far side of a copy by ssh; not for people
    #[command(hide = true)]
    Mover(MoverArgs),
    /// The keeper of a command that watch runs; not for people
    #[command(hide = true)]
    KeepRun(KeepRunArgs),
}

impl Command {
    /// Whether files are copied in this process: it meets the limits of the shell with an error, and gives copies the
    /// modes of their sources. All others, and the programs that they become or start, find what the shell gave them.
    pub fn makes_copies(&self) -> bool {
        matches!(
            self,
            Command::Cp(_)
                | Command::Sync(_)
                | Command::Probe(_)
                | Command::Stream(_)
                | Command::Watch(_)
                | Command::Serve(_)
                | Command::Mover(_)
        )
    }

    /// Whether events are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            Command::Cp(args) | Command::Sync(args) => args.json,
            Command::Stream(args) => args.json,
            Command::Mark(args) => args.json,
            Command::Frames(command) => command.wants_json(),
            Command::Verify(args) => args.ask.json,
            Command::Check(args) => args.ask.json,
            Command::Ls(args) => args.ask.json,
            Command::Du(args) => args.ask.json,
            Command::Cat(args) => args.ask.json,
            Command::Rm(args) => args.ask.json,
            Command::Gc(args) => args.json,
            Command::Why(args) => args.json,
            Command::Probe(args) => args.ask.json,
            Command::Predict(args) => args.ask.json,
            Command::Testbed(command) => command.wants_json(),
            Command::Advise(args) => args.json,
            Command::Model(command) => command.wants_json(),
            Command::Doctor(args) => args.json,
            Command::Bench(command) => command.wants_json(),
            Command::Dataset(command) => command.wants_json(),
            Command::Watch(args) => args.json,
            Command::Plot(_)
            | Command::Report(_)
            | Command::Limit(_)
            | Command::ExplainFilter(_)
            | Command::Serve(_)
            | Command::Mover(_)
            | Command::KeepRun(_) => false,
        }
    }
}

/// Options of doctor.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct DoctorArgs {
    /// Directories that data are read from or written to: their disks are measured for some four seconds each, with a file
    /// of 256 MiB at most that has no name
    #[arg(value_name = "DIR")]
    pub paths: Vec<PathBuf>,
    /// Measure the round trip time and the MTU of the path to an open TCP port of another machine
    #[arg(long, value_name = "HOST:PORT")]
    pub to: Option<String>,
    /// Try proposed kernel settings in a testbed, before against after (at the round trip time of --to, else 50 ms), and
    /// recommend only what helps; with --apply, change only that. Needs root and takes about a minute
    #[arg(long, conflicts_with = "undo")]
    pub prove: bool,
    /// Change kernel settings, also for the next start (a file of sysctl.d), and write a tuned profile; say what was changed
    #[arg(long, conflicts_with = "undo")]
    pub apply: bool,
    /// Put back what was there before --apply
    #[arg(long, conflicts_with_all = ["paths", "to"])]
    pub undo: bool,
    /// Explain what is good as well
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Tell results as JSON, one object on a line
    #[arg(long)]
    pub json: bool,
    /// Keep what was there before --apply in DIR/doctor [default: $XDG_STATE_HOME/thalweg], and record the testbed of
    /// --prove in DIR/testbed
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Read and change the machine whose /proc, /sys, /etc and /run are below DIR; nothing is measured; for tests
    #[arg(long, value_name = "DIR", hide = true, requires = "state", conflicts_with_all = ["paths", "to"])]
    pub root: Option<PathBuf>,
}

/// Options of cp and sync.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct CopyArgs {
    /// Sources, then the destination: PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH, @NAME/PATH (a
    /// place of the configuration), zero:SIZE, data:files=9,size=1MiB,content=frames,seed=1 (as `thalweg dataset make`
    /// has it), sim:seek=8ms,rate=100MB,devices=4 (a simulated array), null:.
    /// A trailing slash on a source means its contents
    #[arg(required = true, num_args = 1.., value_name = "PLACE")]
    pub places: Vec<OsString>,
    /// More copies.
    #[command(flatten)]
    pub and: AndArgs,

    /// Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers
    #[arg(short = 'a', long)]
    pub archive: bool,
    /// Copy directories. Always on; accepted for your fingers
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Keep hard links. Always on; accepted for your fingers
    #[arg(short = 'H', long)]
    pub hard_links: bool,
    /// Keep holes. Always on; accepted for your fingers
    #[arg(short = 'S', long)]
    pub sparse: bool,
    /// Also copy FIFOs and device nodes
    #[arg(short = 'D', long)]
    pub devices: bool,
    /// Say what would be done, change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Name each entry; twice: also those left alone
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Only errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Show progress even when stderr is no terminal
    #[arg(short = 'P', long)]
    pub progress: bool,
    /// Compress where it pays
    #[arg(short = 'z', long)]
    pub compress: bool,
    /// Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it (MiB/s).
    /// `thalweg limit` changes it while the copy runs
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19
    /// and idle I/O priority on this machine
    #[arg(long, value_enum, default_value_t = Class::Normal)]
    pub class: Class,
    /// Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63
    #[arg(long, value_name = "DSCP", value_parser = units::parse_dscp)]
    pub dscp: Option<u8>,
    /// Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the
    /// ticket names
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub via: Vec<String>,
    /// Addresses or network cards of this machine over which data streams are spread
    #[arg(long, value_name = "ADDRESS|CARD", value_delimiter = ',', value_parser = parse_local)]
    pub bind: Vec<Local>,
    /// Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route
    #[arg(long)]
    pub no_tune: bool,
    /// Neither predict the time from what earlier copies of this way took, nor remember what this one took
    #[arg(long)]
    pub no_profile: bool,
    /// Take less of the CPU than others on this machine, up to 19
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(-20..=19), allow_negative_numbers = true)]
    pub nice: Option<i32>,
    /// Take the disk after others: idle, or best-effort[:0-7]
    #[arg(long, value_name = "CLASS", value_parser = parse_io_priority)]
    pub ionice: Option<IoPriority>,
    /// Leave alone what is newer at the destination
    #[arg(short = 'u', long)]
    pub update: bool,
    /// Leave alone what exists at the destination
    #[arg(long)]
    pub ignore_existing: bool,
    /// Do not cross into other file systems
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// sync: remove what the source does not have
    #[arg(long)]
    pub delete: bool,
    /// sync: refuse to remove more than this many entries
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub max_delete: u64,
    /// Which names.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How to recognise what is there already
    #[arg(long, value_enum, default_value_t = CheckBy::Evidence)]
    pub check: CheckBy,
    /// How far to verify
    #[arg(long, value_enum, default_value_t = Verify::Written)]
    pub verify: Verify,
    /// TCP connections (default: by round trip and cores)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: Option<u16>,
    /// Files in flight at once
    #[arg(long, value_name = "N", value_parser = parse_concurrency)]
    pub concurrency: Option<u32>,
    /// Chunks or packs of small files in flight in each stream (default: as many as the window takes)
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    pub depth: Option<u32>,
    /// Bytes of a chunk: a power of two from 64KiB to 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_chunk)]
    pub chunk: Option<u64>,
    /// Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: 1MiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_request)]
    pub request: Option<u32>,
    /// Requests to a disk in flight for each stream (default: 4)
    #[arg(long, value_name = "N", value_parser = parse_io_depth)]
    pub io_depth: Option<u16>,
    /// Past the page cache: auto (writing large files, where it pays), on, off; for one side source=on, for both
    /// source=on,destination=off
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = parse_direct)]
    pub direct: Sides<Direct>,
    /// Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial,
    /// for both source=layout,destination=serial. At the destination serial, loose or none (default:
    /// source=loose,destination=none)
    #[arg(long, value_name = "ORDER", value_parser = parse_order)]
    pub order: Option<Sides<Order>>,
    /// Helper threads for requests in flight, even where there is an io_uring
    #[arg(long)]
    pub no_io_uring: bool,
    /// Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)
    #[arg(long, value_name = "SIZE", value_parser = parse_window)]
    pub window: Option<u64>,
    /// Congestion control of the side that sends, for instance cubic or bbr
    #[arg(long, value_name = "NAME", value_parser = parse_congestion)]
    pub cca: Option<String>,
    /// Protection of the data streams
    #[arg(long, value_enum)]
    pub cipher: Option<CipherArg>,
    /// With `--cipher tls`.
    #[command(flatten)]
    pub tls: TlsArgs,
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Places that ssh reaches.
    #[command(flatten)]
    pub ssh: SshArgs,
    /// Drop a link that acknowledges nothing for so long, and dial again
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_time)]
    pub stall_timeout: Duration,
    /// Give up without progress for so long
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_time)]
    pub patience: Duration,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Write what both sides signed, and a line for each entry, to a file: see `thalweg verify`. Of one copy, so not
    /// with --and
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "and"])]
    pub receipt: Option<PathBuf>,
    /// Write how each entry ended, as JSON lines, to a file
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of limit.
#[derive(Debug, clap::Args)]
pub struct LimitArgs {
    /// Process numbers of the copies (without: all that you run), then the rate: for instance 500Mbit/s, or none
    #[arg(value_name = "PID... RATE", required = true, num_args = 1..)]
    pub words: Vec<String>,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// How a copy stands to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Class {
    /// As fast as the path carries, fair as TCP is
    Normal,
    /// What others leave
    Scavenger,
}

/// Options of everything that only asks.
#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// What `thalweg serve` wrote: whom to expect and who we are
    #[arg(long, value_name = "FILE")]
    pub ticket: Option<PathBuf>,
    /// Places that ssh reaches.
    #[command(flatten)]
    pub ssh: SshArgs,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of ls.
#[derive(Debug, clap::Args)]
pub struct LsArgs {
    /// PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "PLACE", default_value = ".")]
    pub place: OsString,
    /// With kind, mode, owner, bytes and time
    #[arg(short = 'l', long)]
    pub long: bool,
    /// All levels
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of du.
#[derive(Debug, clap::Args)]
pub struct DuArgs {
    /// PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "PLACE", default_value = ".")]
    pub place: OsString,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of cat.
#[derive(Debug, clap::Args)]
pub struct CatArgs {
    /// PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "PLACE", required = true)]
    pub places: Vec<OsString>,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of rm.
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "PLACE", required = true)]
    pub places: Vec<OsString>,
    /// Directories, with everything in them
    #[arg(short = 'r', long)]
    pub recursive: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of check.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 0 if both are the same, with 2 if not.")]
pub struct CheckArgs {
    /// PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "DST")]
    pub destination: OsString,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of verify.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exits with 0 if everything is as the receipt says, with 2 if something is missing (or \
extra, with --strict), with 4 if something is damaged or the receipt is not what was signed."
)]
pub struct VerifyArgs {
    /// What `--receipt` wrote
    #[arg(value_name = "RECEIPT")]
    pub receipt: PathBuf,
    /// Where it was copied to: PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "PLACE")]
    pub place: OsString,
    /// Also report what is there and not in the receipt
    #[arg(long)]
    pub strict: bool,
    /// Who may have signed: SHA-256 fingerprints of certificates (`openssl x509 -in CERT -noout -fingerprint -sha256`) or
    /// Ed25519 public keys, in hexadecimal
    #[arg(long, value_name = "FINGERPRINT", value_delimiter = ',', value_parser = parse_key)]
    pub keys: Vec<String>,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of gc.
#[derive(Debug, clap::Args)]
pub struct GcArgs {
    /// A directory of this machine
    #[arg(value_name = "DIR", required = true)]
    pub places: Vec<OsString>,
    /// Remove what no copy uses; without it only list. Copies that would resume from it begin anew
    #[arg(long)]
    pub yes: bool,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of why.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// Process number of a running copy, a file with the output of cp --json, or the beginning of a job's name (default:
    /// the last transfer)
    #[arg(value_name = "PID|FILE|JOB")]
    pub transfer: Option<OsString>,
    /// With a table of all stages of both sides; twice: also streams, processes and disks
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Only the sentence
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Look again every second until the transfer is over
    #[arg(long)]
    pub watch: bool,
    /// All transfers that are known, a line each
    #[arg(long, conflicts_with_all = ["watch", "transfer"])]
    pub list: bool,
    /// Where thalweg keeps its keys and what it remembers: of a daemon, what it serves
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The answer as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of probe.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads files of SRC and changes none. Below DST it writes into a hidden directory, at most a quarter of the \
room that is left, and removes it; what a killed probe leaves, the next one there removes, or `thalweg gc`.\n\n\
Exits with 0 if everything was measured, with 2 if something could not be, which is said."
)]
pub struct ProbeArgs {
    /// What would be read: PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where it would be written; need not be there yet
    #[arg(value_name = "DST")]
    pub destination: OsString,
    /// Take about so long, from 4 s to 1 min: less says less
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_probe_time)]
    pub seconds: Duration,
    /// Draw the basin into a file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// TCP connections (default: as a copy would choose)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: Option<u16>,
    /// With the accounts of the whole way
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Do not remember the result for `thalweg predict`
    #[arg(long)]
    pub no_profile: bool,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of predict.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Goes by what earlier transfers and probes of the same way took; without any it measures for some seconds, as \
`thalweg probe` does. Counts everything at SRC as to be sent: `thalweg cp -n` says what is there already.\n\n\
Exits with 0; with 2 if --deadline is not kept at P99, or if too little is known to say."
)]
pub struct PredictArgs {
    /// What would be read: PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where it would be written; need not be there yet
    #[arg(value_name = "DST")]
    pub destination: OsString,
    /// Will it be done in this time, in 99 of 100 cases?
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub deadline: Option<Duration>,
    /// Count what is at SRC for so long; of what is larger a sample is taken for as long again
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::parse_time)]
    pub scan: Duration,
    /// Measure for so long where nothing is known, from 4 s to 1 min
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = parse_probe_time)]
    pub measure: Duration,
    /// Do not measure: only what is remembered counts
    #[arg(long)]
    pub no_measure: bool,
    /// As in cp
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// As in cp
    #[arg(long, value_enum, default_value_t = Verify::Written)]
    pub verify: Verify,
    /// As in cp
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: Option<u16>,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

/// Options of explain-filter.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// Which names.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Paths relative to the source; with a trailing slash a directory
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
}

/// Options for places that ssh reaches.
#[derive(Debug, clap::Args)]
pub struct SshArgs {
    /// The ssh to start, with its options; split into words, never given to a shell
    #[arg(short = 'e', long, value_name = "COMMAND", default_value = "ssh")]
    pub rsh: OsString,
    /// Port of sshd
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// The thalweg to start at the far side
    #[arg(long, value_name = "PROGRAM", default_value = "thalweg")]
    pub far_path: OsString,
    /// Ports that the far side may listen at, if a firewall lets only some through
    #[arg(long, value_name = "LOW-HIGH", value_parser = parse_ports)]
    pub far_ports: Option<(u16, u16)>,
    /// If the far side has no thalweg, place our own static one in its user's cache
    #[arg(long)]
    pub bootstrap: bool,
    /// Data ride in ssh, as they do when every port is shut
    #[arg(long, hide = true)]
    pub via_ssh: bool,
}

impl SshArgs {
    /// As the library takes them.
    pub fn options(&self) -> SshOptions {
        SshOptions {
            rsh: self.rsh.clone(),
            port: self.port,
            far_path: self.far_path.clone(),
            far_ports: self.far_ports,
            bootstrap: self.bootstrap,
            via_ssh: self.via_ssh,
        }
    }
}

/// Options of mover. Nothing secret is among them.
#[derive(Debug, clap::Args)]
pub struct MoverArgs {
    /// Bridge stdin and stdout to this port of the loopback
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub bridge: Option<u16>,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// How what is there already is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckBy {
    /// Size, time of change, and what is remembered of the last copy
    Evidence,
    /// Compare content
    Digest,
    /// Send everything again
    Nothing,
}

/// How far a copy is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Verify {
    /// Digest compared before each write, everything synced
    Written,
    /// Then read again from the medium
    Readback,
    /// And the source read twice
    Paranoid,
}

impl Verify {
    /// As it is agreed with the other side.
    pub fn level(self) -> VerifyLevel {
        match self {
            Verify::Written => VerifyLevel::Written,
            Verify::Readback => VerifyLevel::Readback,
            Verify::Paranoid => VerifyLevel::Paranoid,
        }
    }
}

/// How data streams are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum CipherArg {
    /// Sealed frames, AES-128-GCM
    Aes128,
    /// Sealed frames, AES-256-GCM
    Aes256,
    /// Sealed frames, ChaCha20-Poly1305
    Chacha20,
    /// Plain TLS 1.3 records
    Tls,
}

/// How streams in TLS form are, of either side.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct TlsArgs {
    /// With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to
    /// be faster, wherever the kernel can, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto")]
    pub ktls: KtlsArg,
    /// With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640,
    /// which is short of what a key may seal
    #[arg(long, value_name = "COUNT", default_value_t = RECORDS_MAX,
          value_parser = clap::value_parser!(u64).range(RECORDS_MIN..=RECORDS_MAX))]
    pub tls_records: u64,
}

impl TlsArgs {
    /// As the mover takes it.
    pub fn form(self) -> TlsForm {
        let kernel = match self.ktls {
            KtlsArg::Auto => KernelTls::Auto,
            KtlsArg::On => KernelTls::On,
            KtlsArg::Off => KernelTls::Off,
        };
        TlsForm { kernel, records_max: self.tls_records }
    }
}

/// Whether the kernel seals TLS records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum KtlsArg {
    /// Where it was measured to be faster
    Auto,
    /// Wherever the kernel can
    On,
    /// Never
    Off,
}

/// Options of serve.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Where to listen, ADDRESS:PORT; port 0 lets the kernel choose. May be given several times
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:8487")]
    pub listen: Vec<String>,
    /// A directory that clients may use: NAME=DIR, or NAME=DIR:ro. May be given several times
    #[arg(long, value_name = "NAME=DIR[:ro]", required = true)]
    pub export: Vec<String>,
    /// Where the server keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Write what a client needs (addresses, fingerprint, key) here, readable by you only
    #[arg(long, value_name = "FILE")]
    pub ticket_file: Option<PathBuf>,
    /// Address that the ticket names instead of those listened at. May be given several times
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Vec<String>,
    /// Keep a session without a link for so long
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = units::parse_time)]
    pub patience: Duration,
    /// Without a sign of life for so long, a link counts as lost
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::parse_time)]
    pub stall_timeout: Duration,
    /// Bytes of frames that all channels together may hold in memory
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_size)]
    pub frames_memory: u64,
    /// For clients that ask for TLS records.
    #[command(flatten)]
    pub tls: TlsArgs,
}

fn parse_probe_time(text: &str) -> Result<Duration, String> {
    let time = units::parse_time(text)?;
    let times = Duration::from_secs(4)..=Duration::from_secs(60);
    if times.contains(&time) { Ok(time) } else { Err("from 4s to 1min".into()) }
}

fn parse_chunk(text: &str) -> Result<u64, String> {
    use thalweg_wire::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
    let bytes = units::parse_size(text)?;
    if !bytes.is_power_of_two() || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes) {
        return Err("a chunk is a power of two from 64KiB to 64MiB".into());
    }
    Ok(bytes)
}

fn parse_key(text: &str) -> Result<String, String> {
    // openssl puts colons between the bytes.
    let digits = text.replace(':', "").to_ascii_lowercase();
    match digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(digits),
        false => Err("a fingerprint or public key has 64 hexadecimal digits".into()),
    }
}

fn parse_local(text: &str) -> Result<Local, String> {
    match (text.parse(), text.len()) {
        (Ok(address), _) => Ok(Local::Address(address)),
        // IFNAMSIZ, the final NUL not counted.
        (Err(_), 1..=15) => Ok(Local::Interface(text.to_owned())),
        (Err(_), _) => Err("an address of this machine, or the name of a network card".into()),
    }
}

fn parse_io_priority(text: &str) -> Result<IoPriority, String> {
    let odd = || "idle, or best-effort:0 (first) to best-effort:7 (last)".to_owned();
    match text.split_once(':') {
        None if text == "idle" => Ok(IoPriority::Idle),
        None if text == "best-effort" => Ok(IoPriority::BestEffort(4)),
        Some(("best-effort", level)) => {
            let level = level.parse().ok().filter(|level| *level <= 7);
            level.map(IoPriority::BestEffort).ok_or_else(odd)
        }
        _ => Err(odd()),
    }
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let odd = || "two ports, LOW-HIGH".to_owned();
    let (low, high) = text.split_once('-').ok_or_else(odd)?;
    match (low.trim().parse(), high.trim().parse()) {
        (Ok(low), Ok(high)) if 0 < low && low <= high => Ok((low, high)),
        _ => Err(odd()),
    }
}

fn parse_concurrency(text: &str) -> Result<u32, String> {
    parse_count(text, limits::CONCURRENCY_MAX)
}

fn parse_depth(text: &str) -> Result<u32, String> {
    parse_count(text, limits::DEPTH_MAX)
}

fn parse_count(text: &str, high: u32) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=high).contains(count));
    count.ok_or_else(|| format!("a number from 1 to {high}"))
}

fn parse_request(text: &str) -> Result<u32, String> {
    let bytes = units::parse_size(text)?;
    let sizes = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX;
    match bytes.is_power_of_two() && sizes.contains(&bytes) {
        true => Ok(bytes as u32),
        false => Err("a request is a power of two from 64KiB to 64MiB".into()),
    }
}

fn parse_io_depth(text: &str) -> Result<u16, String> {
    parse_count(text, u32::from(limits::IO_DEPTH_MAX)).map(|count| count as u16)
}

/// A value for each side; `None`: nothing was said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides<T> {
    /// Of the source.
    pub source: Option<T>,
    /// Of the destination.
    pub destination: Option<T>,
}

/// `VALUE` for both sides, or `source=VALUE`, `destination=VALUE`, with a comma between them.
fn parse_sides<T: Copy>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Sides<T>, String> {
    let mut sides = Sides { source: None, destination: None };
    for part in text.split(',') {
        let (place, value) = match part.split_once('=') {
            Some(("source", value)) => (&mut sides.source, value),
            Some(("destination", value)) => (&mut sides.destination, value),
            Some((other, _)) => return Err(format!("`{other}` is no side: source or destination")),
            None if part.len() == text.len() => {
                let value = Some(parse(part)?);
                return Ok(Sides { source: value, destination: value });
            }
            None => return Err(format!("`{part}`: of which side? source={part} or destination={part}")),
        };
        if place.replace(parse(value)?).is_some() {
            return Err("a side is named twice".into());
        }
    }
    Ok(sides)
}

fn parse_direct(text: &str) -> Result<Sides<Direct>, String> {
    parse_sides(text, |word| match word {
        "auto" => Ok(Direct::Auto),
        "on" => Ok(Direct::On),
        "off" => Ok(Direct::Off),
        _ => Err(format!("`{word}`: auto, on or off")),
    })
}

fn parse_order(text: &str) -> Result<Sides<Order>, String> {
    let sides = parse_sides(text, |word| match word {
        "strict" => Ok(Order::Strict),
        "serial" => Ok(Order::Serial),
        "loose" => Ok(Order::Loose),
        "none" => Ok(Order::None),
        "layout" => Ok(Order::Layout),
        _ => Err(format!("`{word}`: strict, serial, loose, none or layout")),
    })?;
    // A destination writes what comes: which chunk next is the source's choice.
    let is_of_source = |order| matches!(order, Some(Order::Strict | Order::Layout));
    match (text.contains('='), is_of_source(sides.destination)) {
        (true, true) => Err("strict and layout are orders of the source".into()),
        (false, true) => Ok(Sides { destination: None, ..sides }),
        _ => Ok(sides),
    }
}

fn parse_window(text: &str) -> Result<u64, String> {
    let bytes = units::parse_size(text)?;
    match (limits::WINDOW_BYTES_MIN..=limits::WINDOW_BYTES_MAX).contains(&bytes) {
        true => Ok(bytes),
        false => Err("a window has from 4KiB to 1GiB".into()),
    }
}

fn parse_congestion(text: &str) -> Result<String, String> {
    match is_congestion_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a name of at most 15 letters, digits, `_` and `-`".into()),
    }
}
