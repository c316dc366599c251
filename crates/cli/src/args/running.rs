//! Options of what looks at transfers that run, or did: why, limit.

use std::ffi::OsString;
use std::path::PathBuf;

/// Options of why.
#[derive(Debug, clap::Args)]
pub struct WhyArgs {
    /// Process number of a running copy, a file with the output of cp --json, or the beginning of a transfer's name in
    /// --list (default: the last transfer)
    #[arg(value_name = "PID|FILE|TRANSFER")]
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
    /// Where thalweg keeps its keys and what it remembers; that of a daemon shows what it serves
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The answer as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of limit.
#[derive(Debug, clap::Args)]
pub struct LimitArgs {
    /// Process numbers of copies, streams and watches (without: all that you run), or of a daemon, for all
    /// of its sessions together; then the rate: for instance 500Mbit/s, or none
    #[arg(value_name = "PID... RATE", required = true, num_args = 1..)]
    pub words: Vec<String>,
    /// Where thalweg keeps its keys and what it remembers; to reach a daemon, its state directory
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}
