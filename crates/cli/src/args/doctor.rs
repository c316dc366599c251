//! Options of doctor.

use crate::exit;
use std::path::PathBuf;

/// Options of doctor.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct DoctorArgs {
    /// Directories that data are read from or written to: their disks are measured for some five seconds each, with a file
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
