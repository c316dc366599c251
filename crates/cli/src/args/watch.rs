//! Options of watch.

use crate::args::copy::Verify;
use crate::args::filters::FilterArgs;
use crate::args::jobs::JobArgs;
use crate::args::link::LinkArgs;
use crate::args::manners::MannersArgs;
use crate::args::whole;
use crate::exit;
use crate::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Options of watch.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub struct WatchArgs {
    /// The directory to watch: PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH, s3://BUCKET[/PREFIX] or
    /// @NAME/PATH. Hidden names (that begin with a dot) are left alone
    #[arg(value_name = "DIR")]
    pub source: OsString,
    /// Where its items go, under their names: the same, or s3://BUCKET[/KEY]. One of both places is on this
    /// machine, or in a bucket
    #[arg(value_name = "DST")]
    pub destination: OsString,
    /// Run this program, on this machine, for each item once it has arrived, is verified and durable. It is told about
    /// the item in its environment (THALWEG_ITEM_PATH, _NAME, _DIGEST, _RECEIPT, _KEY, ...); no shell sees any of it
    #[arg(long, value_name = "PROGRAM")]
    pub on_arrival: Option<OsString>,
    /// Arguments of that program, as they are
    #[arg(last = true, value_name = "ARGUMENT", requires = "on_arrival")]
    pub arguments: Vec<OsString>,
    /// What is one item
    #[arg(long, value_enum, default_value_t = ItemArg::File)]
    pub item: ItemArg,
    /// An item is complete when its sizes and times have not changed for so long (default: 2s; a file in a bucket is
    /// complete when it is there)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time, conflicts_with = "marker")]
    pub stable: Option<Duration>,
    /// An item is complete when its marker is there, made or touched after the item's last change: for a file NAME the
    /// file NAME + MARKER beside it, for a directory the file MARKER in it
    #[arg(long, value_name = "MARKER")]
    pub marker: Option<OsString>,
    /// Run the program strictly one item after another, by name (numbers in names as numbers) or by time of the last
    /// change: the next waits until the one before has succeeded. Copies go ahead of it
    #[arg(long, value_enum, value_name = "BY")]
    pub in_order: Option<OrderArg>,
    /// Runs of the program at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u16>(1..=256), conflicts_with = "in_order")]
    pub jobs: u16,
    /// Items copied at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = whole::<u16>(1..=64))]
    pub transfers: u16,
    /// Runs that fail before an item is given up, until the next start; between them 1 s, doubled each time, at most 60
    /// s. With --in-order the watch ends then
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>(1..))]
    pub attempts: u32,
    /// After a run that succeeded, send what it wrote in the directory THALWEG_ITEM_RESULTS to PLACE/NAME
    #[arg(long, value_name = "PLACE", requires = "on_arrival")]
    pub results_back: Option<OsString>,
    /// Before an item that is a directory is copied again, remove at the destination what earlier copies brought of it
    /// and its source has no more; of results likewise. Without it nothing is removed: of an item it is told how much
    /// there is, also to the program (THALWEG_ITEM_STALE)
    #[arg(long)]
    pub delete: bool,
    /// Write what both sides sign of each item into this directory of this machine, which is made: a file
    /// NAME.DIGITS.receipt for each version that arrived, with _ for a slash (default: in the state directory)
    #[arg(long, value_name = "DIR")]
    pub receipts: Option<PathBuf>,
    /// Look at the directory at least so often (default: 10s where the kernel tells of changes, and in a bucket; else
    /// 1s)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub look_every: Option<Duration>,
    /// End when there was nothing to do for so long, as a look then sees; while the directory cannot be looked at, the
    /// watch goes on trying (default: never)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub idle_exit: Option<Duration>,
    /// Which names.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How far to verify
    #[arg(long, value_enum, default_value_t = Verify::Written)]
    pub verify: Verify,
    /// Compress where it pays
    #[arg(short = 'z', long)]
    pub compress: bool,
    /// Send no faster than this, all items together; for instance 500Mbit/s. `thalweg limit` changes it
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// How copies stand to others; the program that is run for what arrived has the usual priorities.
    #[command(flatten)]
    pub manners: MannersArgs,
    /// The link; a copy that is given up is tried again.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Whether it is a job.
    #[command(flatten)]
    pub job: JobArgs,
    /// Only errors
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// What is one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ItemArg {
    /// Each file, at any depth
    File,
    /// Each directory at the top, with all that is in it
    Directory,
}

/// In which order items are analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OrderArg {
    /// By name
    Name,
    /// By time of the last change, then by name
    Time,
}

/// Options of the keeper of a command.
#[derive(Debug, clap::Args)]
pub struct KeepRunArgs {
    /// The umask of the command
    #[arg(long, value_parser = whole::<u32>(0..))]
    pub umask: u32,
    /// Below a guard
    #[arg(long)]
    pub guarded: bool,
    /// Where its end is recorded
    pub record: PathBuf,
    /// The program
    pub program: OsString,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}
