//! `--and`: more copies in one command.

use clap::{ArgMatches, FromArgMatches};
use std::ffi::OsString;

/// The option as clap knows it.
#[derive(clap::Args)]
#[group(skip)]
struct Options {
    /// One more copy at the same time: its sources, then its destination (a place that begins with `-` is written
    /// `./-`). May be given several times. Copies with the same daemon or ssh host share one link, in both directions;
    /// others have links of their own. All options apply to every copy, and the gravest exit code is the command's
    #[arg(long, value_name = "PLACE", num_args = 2..)]
    and: Vec<OsString>,
}

/// The places of each further copy, in the order typed; each has two or more.
#[derive(Debug, Clone, Default)]
pub struct AndArgs {
    /// See the type.
    pub copies: Vec<Vec<OsString>>,
}

impl clap::Args for AndArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Options::augment_args_for_update(command)
    }
}

impl FromArgMatches for AndArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let occurrences = matches.get_occurrences::<OsString>("and").into_iter().flatten();
        Ok(AndArgs { copies: occurrences.map(|places| places.cloned().collect()).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
