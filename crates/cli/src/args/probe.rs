//! Options of what measures a way before anything is moved: probe, predict.

use super::copy::Verify;
use super::knobs::KnobArgs;
use super::link::{CongestionArgs, WayArgs};
use super::manners::Class;
use super::places::AskArgs;
use crate::args::stream_count;
use crate::units;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

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
    /// Take about so long, from 4 s to 1 min: less says less. Over a way of less than some 50 Mbit/s, or with a slow
    /// disk, at most half as long again (24 s if less than 16 s was asked for), counted from when the far side was
    /// reached, so that transfers come to their ends
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_probe_time)]
    pub seconds: Duration,
    /// Draw the basin into a file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// TCP connections (default: as a copy would choose)
    #[arg(long, value_name = "N", value_parser = stream_count())]
    pub streams: Option<u16>,
    /// Which ways they take.
    #[command(flatten)]
    pub way: WayArgs,
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
    after_help = "Goes by what earlier transfers and probes of the same way took; without any, or where a probe of more than a \
day ago is all there is, it measures for some seconds, as `thalweg probe` does. Counts everything at SRC as to be sent: `thalweg cp -n` says what is there already.\n\n\
Exits with 0; with 2 if --deadline is not kept at P99, or if too little is known to say."
)]
pub struct PredictArgs {
    /// What would be read: PATH, [USER@]HOST:PATH, tw://HOST[:PORT]/EXPORT/PATH or s3://BUCKET/KEY
    #[arg(value_name = "SRC")]
    pub source: OsString,
    /// Where it would be written; need not be there yet
    #[arg(value_name = "DST")]
    pub destination: OsString,
    /// Will it be done in this time, in 99 of 100 cases?
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub deadline: Option<Duration>,
    /// Count what is at SRC for so long, or 1,000 entries in any case; if it is larger, a sample is taken for as long
    /// again
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::parse_time)]
    pub scan: Duration,
    /// Measure for so long where nothing is known, or only by a probe of more than a day ago; from 4 s to 1 min
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = parse_probe_time)]
    pub measure: Duration,
    /// Do not measure: only what is remembered counts
    #[arg(long)]
    pub no_measure: bool,
    /// Of the copy, as in cp; what is measured is not held to it (--no-measure)
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// As in cp
    #[arg(long, value_enum, default_value_t = Verify::Written)]
    pub verify: Verify,
    /// As in cp
    #[arg(long, value_name = "N", value_parser = stream_count())]
    pub streams: Option<u16>,
    /// What else the copy would be told, for copies are remembered by it.
    #[command(flatten)]
    pub knobs: KnobArgs,
    /// How its streams answer congestion.
    #[command(flatten)]
    pub congestion: CongestionArgs,
    /// As in cp
    #[arg(long, value_enum, default_value_t = Class::Normal)]
    pub class: Class,
    /// As in cp
    #[arg(long, value_name = "DSCP", value_parser = units::parse_dscp)]
    pub dscp: Option<u8>,
    /// Which ways they take.
    #[command(flatten)]
    pub way: WayArgs,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Whom to ask.
    #[command(flatten)]
    pub ask: AskArgs,
}

impl PredictArgs {
    /// Whether the copy would yield to others.
    pub fn yields(&self) -> bool {
        self.class == Class::Scavenger
    }

    /// What its packets would be marked with.
    pub fn mark(&self) -> Option<u8> {
        self.dscp.or(self.yields().then_some(units::LOWER_EFFORT))
    }
}

fn parse_probe_time(text: &str) -> Result<Duration, String> {
    let time = units::parse_time(text)?;
    let times = Duration::from_secs(4)..=Duration::from_secs(60);
    if times.contains(&time) { Ok(time) } else { Err("from 4s to 1min".into()) }
}
