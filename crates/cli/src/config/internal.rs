//! What processes go by that another thalweg started: the environment, and of files where the state is. Files are those
//! of whoever types commands. One that somebody edits, or that is of a newer version, ends no job, no run of a watch
//! and no far side.

use super::{File, command, is_absent, takes, text_of, usual_files};
use crate::args;
use clap::Command;
use std::ffi::OsString;
use std::path::PathBuf;
use thalweg_mover::failure::{self, Result};
use toml::de::DeTable;

/// What counts of a file.
const STATE: &str = "state";

/// The command line of such a process, and what is to be said of files that were passed over; `None` if the words are
/// of another command.
pub fn internal(words: &[OsString]) -> Option<(Command, Vec<String>)> {
    let name = args::command_in(words);
    if !args::INTERNAL.contains(&name) {
        return None;
    }
    let command = command();
    // Keepers keep nothing there themselves.
    if !command.find_subcommand(name).is_some_and(|sub| takes(sub, STATE)) {
        return Some((command, Vec::new()));
    }
    // Such a process is started without `--config`; a variable that names a file is the user's.
    let asked = std::env::var_os("THALWEG_CONFIG").filter(|file| !file.is_empty());
    let (files, is_asked) = match asked {
        Some(file) => (vec![PathBuf::from(file)], true),
        None => (usual_files(), false),
    };
    Some(with_state_of(&files, is_asked, command, name))
}

/// The command line with what these files say of the state of the command `name`, and what is to be said of those that
/// were passed over. If none was asked for, one that is absent is no matter.
fn with_state_of(
    files: &[PathBuf],
    is_asked: bool,
    mut command: Command,
    name: &str,
) -> (Command, Vec<String>) {
    let mut said = Vec::new();
    for path in files {
        let read = match text_of(path) {
            Ok(text) => File { path, text: &text }.with_state(command.clone(), name),
            Err(error) if is_absent(&error) && !is_asked => continue,
            Err(error) => Err(failure::at_path(failure::of_io("read the configuration", &error), path)),
        };
        match read {
            Ok(with_state) => command = with_state,
            Err(failure) => said.push(format!("warning: {failure}; this file is passed over")),
        }
    }
    (command, said)
}

impl File<'_> {
    /// The command line with what stands at the top of this file of the state of the command `name`.
    fn with_state(&self, mut command: Command, name: &str) -> Result<Command> {
        let table = DeTable::parse(self.text)
            .map_err(|error| self.refuse(error.span().unwrap_or_default(), error.message()))?;
        for (key, value) in table.get_ref().iter() {
            if key.get_ref() == STATE {
                command = self.set(command, name, key, value)?.0;
            }
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use std::path::Path;

    #[test]
    fn the_commands_that_are_not_for_people_are_the_internal_ones() {
        let command = command();
        let hidden: Vec<&str> =
            command.get_subcommands().filter(|sub| sub.is_hide_set()).map(Command::get_name).collect();
        assert!(hidden.len() == args::INTERNAL.len(), "{hidden:?}");
        assert!(hidden.iter().all(|name| args::INTERNAL.contains(name)), "{hidden:?}");
        assert!(internal(&["thalweg", "cp", "mover", "b"].map(OsString::from)).is_none());
    }

    #[test]
    fn of_a_file_a_far_side_takes_the_state_alone_and_keys_that_it_does_not_know_are_no_error() {
        let read = |text: &str| {
            let file = File { path: Path::new("/x/config.toml"), text };
            file.with_state(command(), "mover").map_err(|failure| failure.cause)
        };
        let state = |text: &str| {
            let matches = read(text).unwrap().try_get_matches_from(["thalweg", "mover"]).unwrap();
            match args::Args::from_arg_matches(&matches).unwrap().command {
                args::Command::Mover(args) => args.state,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(state("strems = 3\nstate = \"/s\"\n[cp]\nodd = 1\n"), Some(PathBuf::from("/s")));
        assert_eq!(state("streams = \"many\"\n"), None);
        assert!(read("a = 1\nb = [").unwrap_err().starts_with("/x/config.toml:2: "));
        assert!(read("state = [1]").unwrap_err().contains("a text or a number is expected"));
    }

    #[test]
    fn a_file_that_a_variable_names_and_that_is_absent_is_told_and_a_usual_one_is_not() {
        let absent = [PathBuf::from("/absent/config.toml")];
        let said = |is_asked: bool| with_state_of(&absent, is_asked, command(), "mover").1;
        assert_eq!(said(false), [""; 0]);
        let told = said(true);
        assert!(told.len() == 1 && told[0].contains("`/absent/config.toml`"), "{told:?}");
    }
}
