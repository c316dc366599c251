//! `-h` as rsync, ls and du have it: help where it stands alone, and beside places a wish for sizes that people can
//! read, which all are here.

use crate::args;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::ffi::OsString;

/// Commands that are typed with such a `-h`: `cp -avh`, `ls -lh`.
const COMMANDS: [&str; 4] = ["cp", "sync", "ls", "du"];

/// The command line in which `-h` of these commands changes nothing. `--help` stays.
pub fn ignored(command: Command) -> Command {
    COMMANDS.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |sub| {
            sub.disable_help_flag(true)
                .arg(Arg::new("h").short('h').action(ArgAction::Count).hide(true))
                .arg(Arg::new("help").long("help").action(ArgAction::Help))
        })
    })
}

/// Reads the words.
///
/// # Errors
/// As clap has them; help is one.
pub fn parse(command: &Command, words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let is_alone = args::command_at(words).is_some_and(|at| words[at + 1..] == ["-h"]);
    let help = match command.clone().try_get_matches_from(words) {
        Err(error) if error.kind() == ErrorKind::DisplayHelp && !is_alone => error,
        parsed => return parsed,
    };
    let parsed = ignored(command.clone()).try_get_matches_from(words);
    match parsed.as_ref().map_err(clap::Error::kind) {
        // Asked for by `--help`; or there is no place.
        Err(ErrorKind::DisplayHelp | ErrorKind::MissingRequiredArgument) => Err(help),
        _ => parsed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn read(line: &str) -> Result<ArgMatches, ErrorKind> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        parse(&config::command(), &words).map_err(|error| error.kind())
    }

    #[test]
    fn h_is_help_alone_and_nothing_beside_places() {
        for line in [
            "thalweg cp -avh a b",
            "thalweg cp -h a b",
            "thalweg cp a b -hh",
            "thalweg sync -ah --delete a b",
            "thalweg ls -lh",
            "thalweg ls -h a",
            "thalweg du -sh",
            "thalweg --config file du -sh a",
        ] {
            assert!(read(line).is_ok(), "{line}: {:?}", read(line).err());
        }
        for line in [
            "thalweg -h",
            "thalweg -h cp a b",
            "thalweg cp -h",
            "thalweg cp -avh",
            "thalweg cp --help a b",
            "thalweg cp --help",
            "thalweg cp -h --help a b",
            "thalweg ls -h",
            "thalweg --config file du -h",
            "thalweg rm -rh a",
            "thalweg help cp",
        ] {
            assert_eq!(read(line).err(), Some(ErrorKind::DisplayHelp), "{line}");
        }
        assert_eq!(read("thalweg cp -h --odd a b").err(), Some(ErrorKind::UnknownArgument));
    }
}
