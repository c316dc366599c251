//! Options of everything that keeps a link to a far place.

use crate::args::SshArgs;
use crate::units;
use std::path::PathBuf;
use std::time::Duration;

/// How a far place is reached, and for how long.
#[derive(Debug, clap::Args)]
pub struct LinkArgs {
    /// TCP connections (default: by round trip and cores)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub streams: Option<u16>,
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
}
