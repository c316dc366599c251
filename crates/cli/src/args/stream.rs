//! The command line of `thalweg stream` and `thalweg mark`.

use crate::args::jobs::JobArgs;
use crate::args::link::LinkArgs;
use crate::args::manners::PriorityArgs;
use crate::exit;
use crate::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_client::options::knobs;
use thalweg_client::stream::check_marker;
use thalweg_mover::admission::SlotAsked;
use thalweg_wire::limits;

/// Options of stream.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub struct StreamArgs {
    /// A file that grows, a directory in which files do, a FIFO, or - for standard input: PATH,
    /// [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH, @NAME/PATH. A trailing slash on a directory means its contents
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where to: the same, - for standard output, or null:
    #[arg(value_name = "DST")]
    pub destination: OsString,

    /// Files are complete when nobody has them open for writing. This is the default; in a directory each file
    /// is complete then in any case
    #[arg(long)]
    pub until_closed: bool,
    /// All is complete when nothing grew, and nothing new came, for so long
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub until_idle: Option<Duration>,
    /// The file is complete when it has so many bytes
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub until_size: Option<u64>,
    /// All is complete when there is something of this name beside the file, or in the directory; it is not sent
    #[arg(long, value_name = "NAME", value_parser = parse_marker)]
    pub until_marker: Option<OsString>,
    /// Never complete: go on until interrupted
    #[arg(short = 'f', long, conflicts_with_all = ["until_closed", "until_idle", "until_size", "until_marker"])]
    pub follow: bool,
    /// Wait for a source that is not there yet
    #[arg(long)]
    pub wait: bool,
    /// Look every so often, and do not go by the file system's events (which network file systems lack)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub poll: Option<Duration>,

    /// Read each file again as a whole before it is said to be complete: what its writer changed after it was sent is
    /// told (exit 5), also where that changed while the file went on growing
    #[arg(long)]
    pub recheck: bool,

    /// Bytes that are kept in memory until they are durable at the destination, from 64KiB to 256MiB: a producer that
    /// is faster waits
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_buffer)]
    pub buffer: u64,
    /// Take at most so much memory for buffers here, from 8MiB: at most half of it for --buffer, and fewer streams
    #[arg(long, value_name = "SIZE", value_parser = crate::args::copy::parse_memory)]
    pub memory: Option<u64>,
    /// Time between two marks, up to a minute: how late a byte may become durable
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_mark_every)]
    pub mark_every: Duration,

    /// Send in a slot of the daemon (`thalweg serve --slots`): BYTES become ready every PERIOD, or bytes at RATE all
    /// the time, and are to be durable within DEADLINE; for instance 1s:20MB:300ms, 100Mbit/s:300ms. What cannot be
    /// promised is refused, with by how much it does not fit or what would. Marks are made at least ten times in a
    /// deadline
    #[arg(long, value_name = "PERIOD:BYTES:DEADLINE|RATE:DEADLINE", value_parser = units::parse_slot)]
    pub slot: Option<SlotAsked>,
    /// Send no faster than this; for instance 500Mbit/s, 50MB/s, or 50M (MiB/s). `thalweg limit` changes it while the
    /// stream runs
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// Marks and priorities.
    #[command(flatten)]
    pub priority: PriorityArgs,
    /// The link; without --streams at most 4 of them: pieces come one after the other.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Whether it is a job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Name each file, and tell what the stream goes by and more of the link
    #[arg(short = 'v', long)]
    pub verbose: bool,
    /// Only errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Show progress even when stderr is no terminal
    #[arg(short = 'P', long)]
    pub progress: bool,
    /// Write what both sides signed, and a line for each file, to a file: see `thalweg verify`
    #[arg(long, value_name = "FILE", conflicts_with = "follow")]
    pub receipt: Option<PathBuf>,
    /// Write how each file ended, as JSON lines, to a file, behind what is in it
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Events as JSON, one a line, on stdout; on stderr if stdout is the destination
    #[arg(long)]
    pub json: bool,
}

/// Options of mark.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Prints of each file bytes, state and path. `growing`: a stream writes it, and so many bytes are durable and \
verified; if that stream was killed or failed, until it goes on or `thalweg gc` removes what it noted. `no-stream`: no stream is writing it here, and so many bytes it has; whether it is complete, or ever was of a stream, \
nobody notes: the stream itself says so when it ends (exit 0, --report, --receipt)."
)]
pub struct MarkArgs {
    /// Files of this machine that a stream writes
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// As JSON, one object on a line
    #[arg(long)]
    pub json: bool,
}

fn parse_marker(text: &str) -> Result<OsString, String> {
    check_marker(text.as_bytes()).map(|()| text.into())
}

fn parse_buffer(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(knobs::buffer)
}

fn parse_mark_every(text: &str) -> Result<Duration, String> {
    let time = units::parse_time(text)?;
    match time.as_millis() <= u128::from(limits::MARK_EVERY_MS_MAX) {
        true => Ok(time),
        false => Err("marks are made at least once a minute".to_owned()),
    }
}
