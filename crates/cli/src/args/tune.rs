//! The command line of `thalweg tune`.

use super::link::WayArgs;
use super::places::AskArgs;
use crate::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Options of tune.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Copies the source, or as much of it as takes some seconds, again and again into a scratch directory at the \
destination: each candidate setting in turns with the one that is kept, one knob at a time. A change is kept only if it is \
better beyond noise; where there are several, all together are measured at the end against where it began, if time and \
bytes allow. What was found is remembered, and \
later copies of this way start with it (`cp -n` says so); what is asked for on a command line counts for more, and `--no-tune` \
starts without it. Nothing else is changed at either side.\n\n\
Exits with 0, also where nothing was found better."
)]
pub struct TuneArgs {
    /// What is to be read: PATH, [USER@]HOST:PATH or tw://HOST[:PORT]/EXPORT/PATH
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where it is to be written; need not be there yet
    #[arg(value_name = "DST")]
    pub destination: OsString,
    /// Take no longer than this, from 10 s to 1 h: less tries less
    #[arg(long, value_name = "TIME", default_value = "4m", value_parser = parse_tune_time)]
    pub time: Duration,
    /// Move no more content than this in all trials, at least 64 MiB
    #[arg(long, value_name = "SIZE", default_value = "16GiB", value_parser = parse_tune_bytes)]
    pub bytes: u64,
    /// Which ways data streams take in all trials.
    #[command(flatten)]
    pub way: WayArgs,
    /// Say what was found, and do not remember it
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Measure nothing: forget what was found for this way
    #[arg(long, conflicts_with_all = ["dry_run", "time", "bytes"])]
    pub forget: bool,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

fn parse_tune_time(text: &str) -> Result<Duration, String> {
    let time = units::parse_time(text)?;
    let times = Duration::from_secs(10)..=Duration::from_secs(3600);
    if times.contains(&time) { Ok(time) } else { Err("from 10s to 1h".into()) }
}

fn parse_tune_bytes(text: &str) -> Result<u64, String> {
    let bytes = units::parse_size(text)?;
    if bytes >= 64 << 20 { Ok(bytes) } else { Err("at least 64MiB".into()) }
}
