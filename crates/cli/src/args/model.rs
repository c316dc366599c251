//! The command lines of `thalweg advise` and `thalweg model`.

use crate::args::whole;
use crate::units;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Congestion control that a law is known of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Control {
    /// Half the window at each loss
    Reno,
    /// Linux's default
    Cubic,
    /// Version 1: loss up to 5 % does not bind it
    Bbr,
}

/// How transfers that share a link begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StartsArg {
    /// Together, whenever data are there
    Simultaneous,
    /// Each in a slot of its own, with bandwidth reserved for it (`stream --slot`)
    Scheduled,
}

/// Round trip, windows and loss of a path.
#[derive(Debug, Clone, clap::Args)]
pub struct PathArgs {
    /// Bytes that each stream has under way at most (the smaller of both sides' buffers)
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub window: Option<u64>,
    /// Number of streams [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=65_535))]
    pub streams: Option<u16>,
    /// Congestion control that answers loss
    #[arg(long, value_name = "NAME", value_enum, default_value = "cubic")]
    pub cca: Control,
    /// Bytes of a packet; TCP's payload is 52 less
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = whole::<u32>(68..=65535))]
    pub mtu: u32,
}

/// Which cases of a result file.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct CaseArgs {
    /// Of measured times only those of this series, for instance "simultaneous, 2 streams"
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// Of measured times only those at this load of the line, for instance 0.64 or 64%
    #[arg(long, value_name = "SHARE", value_parser = parse_load)]
    pub load: Option<f64>,
}

/// Options of `thalweg advise`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes:\n    0  a way holds the deadline, or none was asked for\n    2  no way is sure to hold it, or none \
                        keeps up with the data\n    1  the command line makes no sense"
)]
pub struct AdviseArgs {
    /// Data of one unit: a scan, a snapshot, what comes in a second
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub data: u64,
    /// Bandwidth of the path
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bandwidth: u64,
    /// Such a unit comes again and again, every so often
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub every: Option<Duration>,
    /// A unit must be done within this time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub deadline: Option<Duration>,

    /// The analysis of a unit takes so long here
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, requires = "remote_time")]
    pub local_time: Option<Duration>,
    /// The analysis of a unit takes so long there
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub remote_time: Option<Duration>,
    /// Or: so much work is a unit, for instance 34TFLOP
    #[arg(long, value_name = "WORK", value_parser = units::parse_work, requires = "remote_speed",
          conflicts_with_all = ["local_time", "remote_time"])]
    pub work: Option<f64>,
    /// So fast is the computer here, for instance 10TFLOP/s
    #[arg(long, value_name = "SPEED", value_parser = units::parse_speed, requires = "work")]
    pub local_speed: Option<f64>,
    /// So fast is the computer there
    #[arg(long, value_name = "SPEED", value_parser = units::parse_speed, requires = "work")]
    pub remote_speed: Option<f64>,

    /// Share of the bandwidth that a transfer gets (alpha) [default: what window and loss leave, or all of it]
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, conflicts_with = "loss")]
    pub efficiency: Option<f64>,
    /// Round trip time of the path: half of it is in all times over the path. Without it --window, --streams, --cca and
    /// --mtu say nothing
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub rtt: Option<Duration>,
    /// Share of packets that are lost
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, requires = "rtt")]
    pub loss: Option<f64>,
    /// Streams and windows.
    #[command(flatten)]
    pub path: PathArgs,

    /// With files a unit takes so many times as long as its transfer alone (theta, 1 or more)
    #[arg(long, value_name = "FACTOR", conflicts_with = "fit")]
    pub io_overhead: Option<f64>,
    /// Measured transfers of files, as `thalweg model fit` reads them: how many files, and what they cost
    #[arg(long, value_name = "FILE")]
    pub fit: Option<PathBuf>,
    /// Most files that a unit may be cut into [default: the most that were measured]
    #[arg(long, value_name = "N", requires = "fit", value_parser = whole::<u64>(1..))]
    pub files_max: Option<u64>,

    /// Measured times of transfers of a unit, as `thalweg model tail` reads them, at least 299 for P99; of one
    /// case: of a file with several --series and --load choose it
    #[arg(long, value_name = "FILE", group = "tail")]
    pub times: Option<PathBuf>,
    /// Which case of --times.
    #[command(flatten)]
    pub case: CaseArgs,
    /// Worst time of a transfer as a multiple of data / bandwidth (Streaming Speed Score)
    #[arg(long, value_name = "FACTOR", group = "tail")]
    pub score: Option<f64>,
    /// Nothing was measured: take the worst from the load, as 003 published it of one testbed (a unit each second over
    /// 16 ms; up to twice or half of these), for transfers that begin so [default: simultaneous, with --every]
    #[arg(long, value_name = "HOW", group = "tail", requires = "every")]
    pub starts: Option<StartsArg>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `thalweg advise` would not hear: windows and streams without a round trip time. From the environment or a file
/// they may be for other commands, but whoever types them thinks that they count.
///
/// # Errors
/// As of any option that requires another.
pub fn refuse_unheard(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(advise) = matches.subcommand_matches("advise") else { return Ok(()) };
    let is_typed = |option: &&str| advise.value_source(option) == Some(ValueSource::CommandLine);
    match ["window", "streams", "cca", "mtu"].into_iter().find(is_typed) {
        Some(option) if !is_typed(&"rtt") || is_typed(&"efficiency") => {
            let why = format!("--{option} says nothing without --rtt, and beside --efficiency\n");
            Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, why))
        }
        _ => Ok(()),
    }
}

/// One law.
#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    /// How many files, of what size? Fits 001 Eq 6 to measured transfers
    Fit(FitArgs),
    /// What a window carries over a round trip time; with --rate, the window and the streams that it needs
    Window(WindowArgs),
    /// What loss leaves of a stream, by congestion control
    Loss(LossArgs),
    /// Data, time, rate: give two, get the third
    Volume(VolumeArgs),
    /// Rates that the papers name: what instruments make, what clouds carry at most, with source and year
    Published(PublishedArgs),
    /// P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed
    /// Score
    Tail(TailArgs),
    /// Frames of a detector, gathered into files or streamed: when has the last one arrived?
    Frames(FramesArgs),
    /// What damage costs: whole files sent again, or only chunks
    Repair(RepairArgs),
    /// What a row of stages carries, which is the narrowest, and what widening one would gain
    Basin(BasinArgs),
}

impl ModelCommand {
    /// Whether results are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            ModelCommand::Fit(args) => args.json,
            ModelCommand::Window(args) => args.json,
            ModelCommand::Loss(args) => args.json,
            ModelCommand::Volume(args) => args.json,
            ModelCommand::Published(args) => args.json,
            ModelCommand::Tail(args) => args.json,
            ModelCommand::Frames(args) => args.json,
            ModelCommand::Repair(args) => args.json,
            ModelCommand::Basin(args) => args.json,
        }
    }
}

/// Options of `thalweg model fit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "thalweg neither splits nor joins files at rest: it verifies, acknowledges and sends again by chunks within \
                        them (`cp --chunk`), and small files travel together. The best number of files is for programs \
                        that check whole files: split(1) before, cat(1) behind."
)]
pub struct FitArgs {
    /// What `thalweg bench files` or `bench whole-files` wrote, or one JSON object on a line: {"files": N, "bytes": N,
    /// "concurrency": N, "seconds": N}; `-`: standard input. Lines
    /// without any of these are passed over. At least four measurements, with three different numbers of files, for
    /// each concurrency
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The best number of files is for so much data [default: the largest measured]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub data: Option<u64>,
    /// Also say how long so many files take
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u64>(0..))]
    pub predict: Vec<u64>,
    /// Fit measurements with these numbers of files only, and compare the prediction with the others
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u64>(0..))]
    pub points: Vec<u64>,
    /// Most files that the data may be cut into [default: the most that were measured]
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub files_max: Option<u64>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model window`.
#[derive(Debug, clap::Args)]
pub struct WindowArgs {
    /// Round trip time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub rtt: Duration,
    /// Bytes that each stream has under way at most
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, required_unless_present = "rate")]
    pub window: Option<u64>,
    /// Rate that is wanted
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: Option<u64>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model loss`.
#[derive(Debug, clap::Args)]
pub struct LossArgs {
    /// Share of packets that are lost
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share)]
    pub loss: f64,
    /// Round trip time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub rtt: Duration,
    /// Rate that is wanted: how many streams does it take, and what loss would one bear?
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: Option<u64>,
    /// Bytes of a packet; TCP's payload is 52 less
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = whole::<u32>(68..=65535))]
    pub mtu: u32,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model volume`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("given").args(["data", "rate", "time"]).multiple(true).required(true))]
pub struct VolumeArgs {
    /// Data
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub data: Option<u64>,
    /// Rate; alone: the data of a day
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: Option<u64>,
    /// Time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub time: Option<Duration>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model published`.
#[derive(Debug, clap::Args)]
pub struct PublishedArgs {
    /// Also say how long so much data takes at each rate
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub data: Option<u64>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model tail`.
#[derive(Debug, clap::Args)]
pub struct TailArgs {
    /// What `thalweg bench congest` wrote, or a time in seconds on each line, alone or as {"seconds": N}; `-`: standard
    /// input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Data of each transfer
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, requires = "rate")]
    pub data: Option<u64>,
    /// Rate of the link
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate, requires = "data")]
    pub rate: Option<u64>,
    /// Which of them.
    #[command(flatten)]
    pub case: CaseArgs,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model frames`.
#[derive(Debug, clap::Args)]
pub struct FramesArgs {
    /// Number of frames
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub frames: u64,
    /// Data of a frame
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub frame: u64,
    /// A frame comes every so often
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub every: Duration,
    /// Rate of the path
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: u64,
    /// What each file costs besides its bytes
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub per_file: Duration,
    /// Numbers of files to compare with a stream [default: 1, 10, 100, ... and one for each frame]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u64>(0..))]
    pub files: Vec<u64>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model repair`.
#[derive(Debug, clap::Args)]
pub struct RepairArgs {
    /// Number of files
    #[arg(long, value_name = "N", value_parser = whole::<u64>(1..))]
    pub files: u64,
    /// Data in all of them
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub data: u64,
    /// Rate, end to end
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub rate: u64,
    /// So many times a verification fails
    #[arg(long, value_name = "N", value_parser = whole::<u64>(0..))]
    pub failures: u64,
    /// What is sent again for each, if not the file
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size, default_value = "4MiB")]
    pub chunk: u64,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg model basin`.
#[derive(Debug, clap::Args)]
pub struct BasinArgs {
    /// A stage, in the order of the byte's journey: read=2GB/s, or wan=10Gbit/s,50ms with its latency. Give several
    #[arg(long = "stage", required = true, value_name = "NAME=RATE[,LATENCY]", value_parser = parse_stage)]
    pub stages: Vec<(String, u64, Duration)>,
    /// How long so much data takes
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub data: Option<u64>,
    /// Tell it as JSON
    #[arg(long)]
    pub json: bool,
}

/// A share of a line, which may be more than all of it.
fn parse_load(text: &str) -> Result<f64, String> {
    let (number, by) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let load: f64 = number.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    match (load * by).is_finite() && load >= 0.0 {
        true => Ok(load * by),
        false => Err("a load is 0 or more, 1 or 100% is all of the line".into()),
    }
}

fn parse_stage(text: &str) -> Result<(String, u64, Duration), String> {
    let (name, numbers) = text.split_once('=').ok_or("a stage is NAME=RATE or NAME=RATE,LATENCY")?;
    if name.trim().is_empty() {
        return Err("a stage has a name before `=`".into());
    }
    let (rate, latency) = match numbers.split_once(',') {
        Some((rate, latency)) => (rate, units::parse_time(latency)?),
        None => (numbers, Duration::ZERO),
    };
    Ok((name.trim().to_owned(), units::parse_rate(rate)?, latency))
}
