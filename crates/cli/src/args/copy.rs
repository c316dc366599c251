//! Options of cp and sync, and the values that they take.

use super::link::LinkArgs;
use crate::args::along::AlongArgs;
use crate::args::and::AndArgs;
use crate::args::filters::FilterArgs;
use crate::args::jobs::JobArgs;
use crate::args::knobs::KnobArgs;
use crate::args::manners::MannersArgs;
use crate::args::whole;
use crate::exit;
use crate::units;
use clap::ArgMatches;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use std::ffi::OsString;
use std::path::PathBuf;
use thalweg_client::options::{knobs, memory};
use thalweg_wire::message::{Check, PartOf, VerifyLevel};

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
    /// Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it
    /// (MiB/s). `thalweg limit` changes it while the copy runs
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// How it stands to others.
    #[command(flatten)]
    pub manners: MannersArgs,
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
    /// How far to verify
    #[arg(long, value_enum, default_value_t = Verify::Written)]
    pub verify: Verify,
    /// What is turned by hand.
    #[command(flatten)]
    pub knobs: KnobArgs,
    /// Through a directory of this machine, in which at most SIZE lies at any moment (from 1MiB; default: four fifths
    /// of what is free there now): into it and out of it at the same time, each at its own speed, compared from end to
    /// end. Both places may be far, also both tw://. See docs/guide/staging.md
    #[arg(long, value_name = "DIR[:SIZE]", conflicts_with = "and")]
    pub stage: Option<OsString>,
    /// The link.
    #[command(flatten)]
    pub link: LinkArgs,
    /// The ticket for the daemon at the destination, where both places are at daemons: --ticket is that for the one at
    /// the source
    #[arg(long, value_name = "FILE")]
    pub to_ticket: Option<PathBuf>,
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
