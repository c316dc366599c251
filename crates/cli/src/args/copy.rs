//! Options of cp and sync, and the values that they take.

use super::link::LinkArgs;
use crate::args::along::AlongArgs;
use crate::args::and::AndArgs;
use crate::args::filters::FilterArgs;
use crate::args::jobs::JobArgs;
use crate::args::manners::MannersArgs;
use crate::args::whole;
use crate::exit;
use crate::units;
use clap::ArgMatches;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use std::ffi::OsString;
use std::path::PathBuf;
use thalweg_client::options::knobs::{self, Sides};
use thalweg_client::options::memory;
use thalweg_wire::message::{Check, Direct, Order, PartOf, VerifyLevel};

/// What `thalweg cp` would not hear. From the environment or a file it is for `sync`, but whoever types it thinks that
/// it counts.
///
/// # Errors
/// As of an option that a command does not have.
pub fn refuse_unheard(matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some(cp) = matches.subcommand_matches("cp") else { return Ok(()) };
    match cp.value_source("max_delete") {
        Some(ValueSource::CommandLine) => {
            let why = "`cp` never deletes: use `thalweg sync --delete --max-delete N`\n";
            Err(clap::Error::raw(ErrorKind::UnknownArgument, why))
        }
        _ => Ok(()),
    }
}

/// Options of cp and sync.
#[derive(Debug, clap::Args)]
#[command(after_long_help = exit::help())]
pub struct CopyArgs {
    /// Before the options themselves, for what is read of them is taken.
    #[command(flatten)]
    pub along: AlongArgs,
    /// Sources, then the destination: PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH, s3://BUCKET/KEY (endpoint
    /// and credentials as for AWS), @NAME/PATH (a place of the configuration), zero:SIZE,
    /// data:files=9,size=1MiB,content=frames (a data set), sim:seek=8ms,rate=100MB,devices=4 (a simulated array),
    /// null:. A trailing slash on a source means its contents. What is missing of the destination's path is made.
    /// Hosts that see the same files share a copy: HOST1,HOST2:PATH, dtn[1-4]:PATH
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
    /// Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o
    /// as in `-rlpto`)
    // Hidden are those that are refused where they stand alone: see `spellings::refuse_alone`.
    #[arg(
        short = 'p',
        long,
        visible_short_aliases = ['g', 'X', 'A'],
        short_aliases = ['l', 't', 'o'],
        visible_aliases = ["links", "times", "owner", "group", "xattrs", "acls"],
        action = clap::ArgAction::Count
    )]
    pub perms: u8,
    /// Do not keep modes and ACLs: a new entry gets the source's permissions as far as the umask there leaves them, and
    /// no set-id bits; what stands there keeps its own
    #[arg(long, visible_alias = "no-p")]
    pub no_perms: bool,
    /// Do not keep owners and groups: what is written belongs to the user who writes it
    #[arg(long, visible_alias = "no-o")]
    pub no_owner: bool,
    /// Do not keep times. What has the same size is then compared by content, unless an earlier comparison is
    /// remembered
    #[arg(long, visible_alias = "no-t")]
    pub no_times: bool,
    /// Do not keep attributes and ACLs
    #[arg(long)]
    pub no_xattrs: bool,
    /// Sizes for people. Always on; accepted for your fingers, as is `-h` beside places
    #[arg(long, action = clap::ArgAction::Count)]
    pub human_readable: u8,
    /// Also copy FIFOs and device nodes
    #[arg(short = 'D', long)]
    pub devices: bool,
    /// Say what would be done, change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Whether it is a job.
    #[command(flatten)]
    pub job: JobArgs,
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
    /// Compress what this side sends also where that does not pay: to measure what it would take
    #[arg(long, hide = true, requires = "compress")]
    pub compress_always: bool,
    /// Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it
    /// (MiB/s). `thalweg limit` changes it while the copy runs
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// How it stands to others.
    #[command(flatten)]
    pub manners: MannersArgs,
    /// Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route
    #[arg(long)]
    pub no_tune: bool,
    /// Neither predict the time from what earlier copies of this way took, nor remember what this one took
    #[arg(long)]
    pub no_profile: bool,
    /// Leave alone what is newer at the destination
    #[arg(short = 'u', long)]
    pub update: bool,
    /// Leave alone what exists at the destination
    #[arg(long)]
    pub ignore_existing: bool,
    /// Do not cross into other file systems
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export
    #[arg(short = 'L', long)]
    pub copy_links: bool,
    /// Copy part K of N alone: files are dealt by their names, directories are in all parts. N hosts that see the same
    /// trees share a copy so, each with a K of its own (a job array); none knows of another. Not with deletions, --and
    /// and several hosts in a place
    #[arg(long, value_name = "K/N", value_parser = knobs::parse_part, conflicts_with = "and")]
    pub part: Option<PartOf>,
    /// cp: remove each file and link of a source once it is verified and durable at the destination; what was there
    /// before only if --check digest finds it the same. Directories stay, and what cannot be kept in full (--no-owner,
    /// --no-xattrs). At a daemon only in exports that may be written and deleted in. Not with --and or --copy-links
    #[arg(long, conflicts_with_all = ["and", "copy_links"])]
    pub remove_source_files: bool,
    /// sync: remove what the source does not have, and what stands where it has something of another kind
    #[arg(long)]
    pub delete: bool,
    /// sync: refuse to remove more than this many entries
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<u64>(0..))]
    pub max_delete: u64,
    /// Which names.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// How to recognise what is there already
    #[arg(long, value_enum, default_value_t = CheckBy::Evidence)]
    pub check: CheckBy,
    /// Before a file is sent that the destination lacks, look there for its content under other names, by size and
    /// time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in
    /// a bucket or a dry run, nor with `--check nothing`
    #[arg(long)]
    pub find_renames: bool,
    /// How far to verify
    #[arg(long, value_enum, default_value_t = Verify::Written)]
    pub verify: Verify,
    /// Requests to a disk in flight for each stream (default: 4)
    #[arg(long, value_name = "N", value_parser = parse_io_depth)]
    pub io_depth: Option<u16>,
    /// Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side
    /// source=on, for both source=on,destination=off
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = knobs::parse_direct)]
    pub direct: Sides<Direct>,
    /// Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial,
    /// for both source=layout,destination=serial. At the destination serial, loose or none (default:
    /// source=loose,destination=none)
    #[arg(long, value_name = "ORDER", value_parser = knobs::parse_order)]
    pub order: Option<Sides<Order>>,
    /// Helper threads for requests in flight, even where there is an io_uring
    #[arg(long)]
    pub no_io_uring: bool,
    /// Through a directory of this machine, in which at most SIZE lies at any moment (from 1MiB; default: four fifths
    /// of what is free there now): into it and out of it at the same time, each at its own speed, compared from end to
    /// end. Both places may be far, also both tw://. See docs/guide/staging.md
    #[arg(long, value_name = "DIR[:SIZE]", conflicts_with = "and")]
    pub stage: Option<OsString>,
    /// The link. It stands here for the order of the help: behind the disks, before the other knobs of speed.
    #[command(flatten)]
    pub link: LinkArgs,
    /// The ticket for the daemon at the destination, where both places are at daemons: --ticket is that for the one at
    /// the source
    #[arg(long, value_name = "FILE")]
    pub to_ticket: Option<PathBuf>,
    /// Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound
    /// (default: 256)
    #[arg(long, value_name = "N", value_parser = parse_concurrency)]
    pub concurrency: Option<u32>,
    /// Chunks or packs of small files in flight in each stream (default: as many as the window takes)
    #[arg(long, value_name = "N", value_parser = parse_depth)]
    pub depth: Option<u32>,
    /// Bytes of a chunk: a power of two from 64KiB to 64MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_chunk)]
    pub chunk: Option<u64>,
    /// Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default:
    /// near 1MiB, far 512KiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_request)]
    pub request: Option<u32>,
    /// Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far
    /// side has a bound of its own: serve --memory)
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    pub memory: Option<u64>,
    /// Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)
    #[arg(long, value_name = "SIZE", value_parser = parse_window)]
    pub window: Option<u64>,
    /// Write what both sides signed, and a line for each entry: see `thalweg verify`. Not with --and; of parts FILE.1,
    /// FILE.2 and so on
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "and"])]
    pub receipt: Option<PathBuf>,
    /// Append how each entry ended, and what was deleted, to a file, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Events as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
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

impl CheckBy {
    /// As it is agreed with the other side.
    pub fn check(self) -> Check {
        match self {
            CheckBy::Evidence => Check::Evidence,
            CheckBy::Digest => Check::Digest,
            CheckBy::Nothing => Check::Nothing,
        }
    }
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

/// A bound for buffers, in bytes.
pub fn parse_memory(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(memory::check)
}

fn parse_chunk(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(knobs::chunk)
}

fn parse_concurrency(text: &str) -> Result<u32, String> {
    knobs::concurrency(parse_count(text))
}

fn parse_depth(text: &str) -> Result<u32, String> {
    knobs::depth(parse_count(text))
}

/// None, which no count may be, for what is no number.
fn parse_count(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

fn parse_request(text: &str) -> Result<u32, String> {
    units::parse_size(text).and_then(knobs::request)
}

fn parse_io_depth(text: &str) -> Result<u16, String> {
    knobs::io_depth(parse_count(text))
}

fn parse_window(text: &str) -> Result<u64, String> {
    units::parse_size(text).and_then(knobs::window)
}
