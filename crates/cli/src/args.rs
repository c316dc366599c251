//! The command line: the commands, and a file for the options of each.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments on options are their help, where brackets are syntax"
)]

pub mod copy;

pub mod knobs;

pub mod and;

pub mod along;

pub mod filters;

pub mod manners;

pub mod headings;

pub mod stream;

pub mod frames;

pub mod slots;

pub mod watch;

pub mod places;

pub mod identity;

pub mod login;

pub mod running;

pub mod jobs;

pub mod probe;

pub mod tune;

pub mod serve;

pub mod ticket;

pub mod link;

pub mod testbed;

pub mod model;

pub mod doctor;

pub mod bench;

pub mod dataset;

pub mod report;

use crate::args::filters::ExplainArgs;
use crate::config;
use crate::exit;
use bench::BenchCommand;
use clap::{Parser, Subcommand};
use copy::CopyArgs;
use dataset::DatasetCommand;
use doctor::DoctorArgs;
use frames::FramesCommand;
use identity::IdentityArgs;
use jobs::{JobArgs, JobsArgs, KeepJobArgs};
use login::{LoginArgs, LogoutArgs};
use model::{AdviseArgs, ModelCommand};
use places::{CatArgs, CheckArgs, DuArgs, GcArgs, LsArgs, RmArgs, VerifyArgs};
use probe::{PredictArgs, ProbeArgs};
use report::{PlotArgs, ReportArgs};
use running::{LimitArgs, WhyArgs};
use serve::{DeputyArgs, MoverArgs, ServeArgs};
use slots::SlotsArgs;
use std::ffi::{OsStr, OsString};
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use stream::{MarkArgs, StreamArgs};
use testbed::TestbedCommand;
use thalweg_wire::limits;
use ticket::TicketCommand;
use tune::TuneArgs;
use watch::{KeepRunArgs, WatchArgs};

/// What help and answers mean by such numbers.
const PAPERS: &str = "Papers: 000 to 004, as in `003 Eq 11`, are those of docs/papers.md.";

/// Moves huge data sets: encrypted, verified, durable, resumable, and says which stage is the narrowest.
#[derive(Debug, Parser)]
#[command(
    name = "thalweg",
    version,
    max_term_width = 100,
    after_help = format!("{}\n\n{}\n\n{PAPERS}", exit::help(), config::help())
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml
    #[arg(long, value_name = "FILE", global = true, env = "THALWEG_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
}

/// Commands that another thalweg starts, whose user was told what there is to tell.
pub const INTERNAL: [&str; 4] = ["mover", "deputy", "keep-run", "keep-job"];

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy files and trees
    Cp(CopyArgs),
    /// Make a destination the same as a source
    Sync(CopyArgs),
    /// Move what is still being made: files that grow, directories with such files, pipes (`-`)
    Stream(StreamArgs),
    /// Say how much of a file that a stream writes is durable
    Mark(MarkArgs),
    /// Frames of detectors, from memory to memory: many producers, many consumers, nothing lost unnamed
    #[command(subcommand)]
    Frames(FramesCommand),
    /// Show who may send to a daemon, and when: the slots that it gave away
    Slots(SlotsArgs),
    /// Check that what a receipt says is still there, and undamaged
    Verify(VerifyArgs),
    /// Say who signs receipts here: fingerprint, public key and certificate
    Identity(IdentityArgs),
    /// Log in at an identity provider whose tokens a daemon takes: approved in a browser, kept for all commands there
    Login(LoginArgs),
    /// Forget such logins, and have their provider give no more tokens by them
    Logout(LogoutArgs),
    /// Compare two places by content, changing nothing
    Check(CheckArgs),
    /// List what is at a place
    Ls(LsArgs),
    /// Sum up the bytes below a place
    Du(DuArgs),
    /// Print files, compared with their digests
    Cat(CatArgs),
    /// Remove files and trees
    Rm(RmArgs),
    /// Find and remove what unfinished copies left behind
    Gc(GcArgs),
    /// Give copies that run another rate
    Limit(LimitArgs),
    /// Say which stage of a transfer is the narrowest, by what factor, what would be next, and what to turn
    Why(WhyArgs),
    /// Show what goes on without a terminal (--detach); wait for it, stop it, resume it
    Jobs(JobsArgs),
    /// Say how long a transfer would take, with a range, before it begins
    Predict(PredictArgs),
    /// Measure each part of a way alone and in company: which stage is the narrowest
    Probe(ProbeArgs),
    /// Find settings for a way by trial, one knob at a time; later copies start with them
    Tune(TuneArgs),
    /// Say which rule takes a path in or leaves it out
    ExplainFilter(ExplainArgs),
    /// Serve directories to other machines
    Serve(ServeArgs),
    /// Let people into a daemon, each with a name, rights and an end; and take that back
    #[command(subcommand)]
    Ticket(TicketCommand),
    /// Copy what becomes complete in a directory, and run a program on arrival, each item once
    Watch(WatchArgs),
    /// Hosts on this machine, joined by an emulated path: delay, rate, loss, for any program
    #[command(subcommand)]
    Testbed(TestbedCommand),
    /// Analyse here, stream, or send files? Will the deadline hold? A verdict, its reason, and what would change it
    Advise(AdviseArgs),
    /// Ask one law: windows, loss, volume, tails, frames, damage, stages, number of files
    #[command(subcommand)]
    Model(ModelCommand),
    /// Say what on this machine stands in the way of moving data: what is, what should be, why, how to take it back
    Doctor(DoctorArgs),
    /// Measure: throughput by size, distance, loss, order, damage, load; raw samples kept, laws beside
    #[command(
        subcommand,
        after_help = "Exits with 2 if a run FAILED: `lag` holds each frame against what was taken or named as lost. Runs that are VOID \
                      (this machine was too slow for the emulated path) change no exit code; neither is in a median."
    )]
    Bench(BenchCommand),
    /// Files made from a seed, to measure and to try with, and checked by it
    #[command(subcommand)]
    Dataset(DatasetCommand),
    /// Draw the figures of results: SVG or PNG, with their data as CSV
    Plot(PlotArgs),
    /// One page about results: figures beside the papers' own, tables, what was measured where; HTML that stands alone
    Report(ReportArgs),
    /// The far side of a copy by ssh; not for people
    #[command(hide = true)]
    Mover(MoverArgs),
    /// The acting end of a copy between two far places; not for people
    #[command(hide = true)]
    Deputy(DeputyArgs),
    /// The keeper of a command that watch runs; not for people
    #[command(hide = true)]
    KeepRun(KeepRunArgs),
    /// The keeper of a job; not for people
    #[command(hide = true)]
    KeepJob(KeepJobArgs),
}

impl Command {
    /// Whether files are copied in this process: it meets the limits of the shell with an error, and gives copies the
    /// modes of their sources. All others, and the programs that they become or start, find what the shell gave them.
    pub fn makes_copies(&self) -> bool {
        matches!(
            self,
            Command::Cp(_)
                | Command::Sync(_)
                | Command::Probe(_)
                | Command::Tune(_)
                | Command::Stream(_)
                | Command::Watch(_)
                | Command::Serve(_)
                | Command::Mover(_)
        )
    }

    /// How a log is to be written, where that was said.
    pub fn log_format(&self) -> Option<serve::LogFormat> {
        match self {
            Command::Serve(args) => args.log_format,
            _ => None,
        }
    }

    /// Whether stdout is what was asked for, and nothing else may get in there.
    pub fn stdout_is_data(&self) -> bool {
        match self {
            Command::Cat(_) => true,
            Command::Stream(args) => args.destination == OsStr::new("-"),
            Command::Frames(FramesCommand::Pull(args)) => args.directory == OsStr::new("-"),
            _ => false,
        }
    }

    /// Whether events are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            Command::Cp(args) | Command::Sync(args) => args.json,
            Command::Stream(args) => args.json,
            Command::Mark(args) => args.json,
            Command::Frames(command) => command.wants_json(),
            Command::Slots(args) => args.ask.json,
            Command::Verify(args) => args.ask.json,
            Command::Identity(args) => args.json,
            Command::Login(args) => args.json,
            Command::Logout(args) => args.of.json,
            Command::Check(args) => args.ask.json,
            Command::Ls(args) => args.ask.json,
            Command::Du(args) => args.ask.json,
            Command::Cat(args) => args.ask.json,
            Command::Rm(args) => args.ask.json,
            Command::Gc(args) => args.json,
            Command::Why(args) => args.json,
            Command::Jobs(args) => args.json,
            Command::Probe(args) => args.ask.json,
            Command::Tune(args) => args.ask.json,
            Command::Predict(args) => args.ask.json,
            Command::Testbed(command) => command.wants_json(),
            Command::Advise(args) => args.json,
            Command::Model(command) => command.wants_json(),
            Command::Doctor(args) => args.json,
            Command::Bench(command) => command.wants_json(),
            Command::Dataset(command) => command.wants_json(),
            Command::Watch(args) => args.json,
            Command::Ticket(command) => command.wants_json(),
            Command::Plot(_)
            | Command::Report(_)
            | Command::Limit(_)
            | Command::ExplainFilter(_)
            | Command::Serve(_)
            | Command::Mover(_)
            | Command::Deputy(_)
            | Command::KeepRun(_)
            | Command::KeepJob(_) => false,
        }
    }

    /// Whether it is to go on as a job, and where that is kept, of commands that can.
    pub fn job(&self) -> Option<(&JobArgs, Option<&Path>)> {
        match self {
            Command::Cp(args) | Command::Sync(args) => Some((&args.job, args.link.state.as_deref())),
            Command::Stream(args) => Some((&args.job, args.link.state.as_deref())),
            Command::Watch(args) => Some((&args.job, args.link.state.as_deref())),
            Command::Verify(args) => Some((&args.stated.job, args.stated.state.as_deref())),
            Command::Check(args) => Some((&args.stated.job, args.stated.state.as_deref())),
            Command::Frames(FramesCommand::Push(args)) => {
                Some((&args.stated.job, args.stated.state.as_deref()))
            }
            _ => None,
        }
    }

    /// Whether it reads stdin, of commands that can go on as jobs.
    pub fn reads_stdin(&self) -> bool {
        match self {
            Command::Cp(args) | Command::Sync(args) => args.filter.reads_stdin(),
            Command::Stream(args) => args.source == OsStr::new("-"),
            Command::Watch(args) => args.filter.reads_stdin(),
            Command::Check(args) => {
                args.filter.reads_stdin() || args.sums.as_deref().is_some_and(|list| list.as_os_str() == "-")
            }
            Command::Frames(FramesCommand::Push(args)) => args.places.iter().any(|place| place == "-"),
            _ => false,
        }
    }
}

/// The same of words that make no command, as far as they tell: a destination `-` is the last word, or stands before an
/// option.
pub fn words_ask_for_data(words: &[OsString]) -> bool {
    match command_in(words) {
        "cat" => true,
        "stream" | "frames" => {
            let last = words.iter().rposition(|word| word == "-");
            last.is_some_and(|at| words.get(at + 1).is_none_or(is_option))
        }
        _ => false,
    }
}

fn is_option(word: impl AsRef<OsStr>) -> bool {
    word.as_ref().as_encoded_bytes().starts_with(b"-")
}

/// Where the command stands, in words that may make none.
pub fn command_at(words: &[OsString]) -> Option<usize> {
    let mut at = 1;
    while words.get(at).is_some_and(is_option) {
        // The one option before a command that takes a word.
        at += if words[at] == "--config" { 2 } else { 1 };
    }
    (at < words.len()).then_some(at)
}

/// That command; empty if there is none.
pub fn command_in(words: &[OsString]) -> &str {
    command_at(words).and_then(|at| words[at].to_str()).unwrap_or_default()
}

/// Reads how many streams a link is to have.
pub fn stream_count() -> impl Fn(&str) -> Result<u16, String> + Clone + Send + Sync + 'static {
    whole::<u16>(1..=i128::from(limits::STREAMS_MAX))
}

/// Reads a whole number in these bounds, and says them where it is none.
pub fn whole<T: TryFrom<i128> + 'static>(
    bounds: impl RangeBounds<i128> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<i128>().ok().filter(|number| bounds.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            match (bounds.start_bound(), bounds.end_bound()) {
                (Bound::Included(low), Bound::Included(high)) => {
                    format!("a whole number from {low} to {high} is wanted")
                }
                (Bound::Included(low), _) if *low != 0 => {
                    format!("a whole number is wanted, at least {low}")
                }
                _ => "a whole number is wanted".to_owned(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_make_no_command_tell_whether_stdout_was_to_be_data() {
        let asks =
            |line: &str| words_ask_for_data(&line.split(' ').map(OsString::from).collect::<Vec<OsString>>());
        for line in [
            "thalweg cat --json",
            "thalweg --config file cat --json --odd",
            "thalweg stream file - --json --odd",
            "thalweg stream --json --odd file -",
            "thalweg frames pull tw://host/channel - --json --odd",
        ] {
            assert!(asks(line), "{line}");
        }
        for line in [
            "thalweg",
            "thalweg --json",
            "thalweg cp cat - --json --odd",
            "thalweg stream - file --json --odd",
            "thalweg frames pull tw://host/channel cat --json --odd",
        ] {
            assert!(!asks(line), "{line}");
        }
    }
}
