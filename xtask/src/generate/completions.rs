//! Completions: what `clap_complete` generates, without what is hidden, and with what it leaves out.

use super::{text, visible};
use anyhow::Result;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_cli::args::frames::POLICIES;
use thalweg_cli::config;
use thalweg_mover::endpoint::content::Content;

/// Where they are.
pub const DIRECTORY: &str = "packaging/completions";

/// Shells, each with the name under which it looks for its script.
const SHELLS: [(Shell, &str); 4] = [
    (Shell::Bash, "thalweg.bash"),
    (Shell::Zsh, "_thalweg"),
    (Shell::Fish, "thalweg.fish"),
    (Shell::Elvish, "thalweg.elv"),
];

/// All of them, by their path.
///
/// # Errors
/// If a generator writes no text.
pub fn files() -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for (shell, name) in SHELLS {
        files.insert(Path::new(DIRECTORY).join(name), script(shell)?.into_bytes());
    }
    Ok(files)
}

/// The script of a shell.
fn script(shell: Shell) -> Result<String> {
    let mut command = offered(&config::command());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "thalweg", &mut script);
    let script = String::from_utf8(script)?;
    Ok(match shell {
        Shell::Bash => files_for_places(&script, &command),
        Shell::Fish => script + &third_level(&command),
        _ => script,
    })
}

/// The command line without what is hidden, which the generators would offer.
fn offered(command: &Command) -> Command {
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set()).map(with_words);
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(offered);
    let mut made = Command::new(command.get_name().to_owned()).args(arguments).subcommands(below);
    if let Some(about) = command.get_about() {
        made = made.about(about.clone());
    }
    if let Some(version) = command.get_version() {
        made = made.version(version.to_owned());
    }
    made
}

/// An option with the words that it takes, where the program reads them by itself.
fn with_words(argument: &Arg) -> Arg {
    let words = match argument.get_long() {
        Some("policy") => POLICIES.to_vec(),
        Some("content") => Content::ALL.iter().map(|(name, _)| *name).collect(),
        _ => return argument.clone(),
    };
    argument.clone().value_parser(PossibleValuesParser::new(words))
}

/// The script of bash, in which commands that take places offer options to who began one, and else nothing: then bash
/// offers files. As it is generated, they offer their options to who began nothing.
fn files_for_places(script: &str, command: &Command) -> String {
    const OPTIONS: &str = r#"            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )"#;
    let mut labels = Vec::new();
    labels_with_places("thalweg", command, &mut labels);
    let mut takes_places = false;
    let mut changed = String::with_capacity(script.len());
    for line in script.lines() {
        if let Some(label) = line.strip_prefix("        ").and_then(|rest| rest.strip_suffix(')'))
            && !label.starts_with(' ')
        {
            takes_places = labels.iter().any(|with_places| with_places == label);
        }
        if takes_places && line == OPTIONS {
            continue;
        }
        // `|| ${COMP_CWORD} -eq N`: behind the command's name.
        let parts = line.split_once(" || ${COMP_CWORD} -eq ").filter(|_| takes_places);
        let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once(" ]]")?.1)));
        match parts {
            Some((before, behind)) => changed.extend([before, " ]]", behind]),
            None => changed.push_str(line),
        }
        changed.push('\n');
    }
    changed
}

/// How the script of bash names the commands that take places, or other words that are not known beforehand.
fn labels_with_places(label: &str, command: &Command, labels: &mut Vec<String>) {
    /// Between the names of a command and of one below it, and for `-` in a name.
    const BETWEEN: &str = "__subcmd__";
    for sub in visible(command) {
        let label = format!("{label}{BETWEEN}{}", sub.get_name().replace('-', BETWEEN));
        labels_with_places(&label, sub, labels);
        if sub.get_positionals().any(|argument| argument.get_possible_values().is_empty()) {
            labels.push(label);
        }
    }
}

/// For fish, the options of `bench sweep bulk` and its like: its generator ends above them.
fn third_level(command: &Command) -> String {
    let mut lines = String::new();
    let pairs = visible(command).flat_map(|first| visible(first).map(move |second| [first, second]));
    for [first, second] in pairs {
        for third in visible(second) {
            let condition = format!(
                "__fish_thalweg_using_subcommand {}; and __fish_seen_subcommand_from {}; \
                 and __fish_seen_subcommand_from {}",
                first.get_name(),
                second.get_name(),
                third.get_name()
            );
            for argument in third.get_arguments().filter(|argument| !argument.is_positional()) {
                let _ = write!(lines, "complete -c thalweg -n \"{condition}\"");
                if let Some(short) = argument.get_short() {
                    let _ = write!(lines, " -s {short}");
                }
                if let Some(long) = argument.get_long() {
                    let _ = write!(lines, " -l {long}");
                }
                let help = text(argument.get_help()).replace('\\', "\\\\").replace('\'', "\\'");
                let value = if argument.get_action().takes_values() { " -r" } else { "" };
                let _ = writeln!(lines, " -d '{help}'{value}");
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_offer_nothing_that_is_hidden() {
        for (shell, name) in SHELLS {
            let script = script(shell).unwrap();
            for hidden in ["not for people", "keep-run", "testbed,wire"] {
                assert!(!script.contains(hidden), "{name}: {hidden}");
            }
            assert!(script.contains("explain-filter") && script.contains("max-delete"), "{name}");
        }
    }

    #[test]
    fn completions_have_the_words_that_an_option_takes() {
        for policy in POLICIES {
            let words = ["thalweg", "frames", "pull", "tw://h/data/x", "dir", "--policy", policy];
            assert!(config::command().try_get_matches_from(words).is_ok(), "{policy}");
        }
        // That of elvish has no values.
        for (shell, name) in &SHELLS[..3] {
            let script = script(*shell).unwrap();
            let contents = Content::ALL.iter().map(|(content, _)| *content);
            for word in POLICIES.into_iter().chain(contents) {
                let is_there = script.lines().any(|line| {
                    line.split(|c: char| !c.is_alphanumeric() && c != '-').any(|part| part == word)
                });
                assert!(is_there, "{name}: {word}");
            }
        }
    }

    #[test]
    fn in_bash_a_command_that_takes_places_offers_options_to_who_began_one_only() {
        let script = script(Shell::Bash).unwrap();
        let of = |label: &str| {
            let rest = script.split_once(&format!("\n        {label})\n")).expect(label).1;
            rest.split("\n        thalweg").next().unwrap_or_default()
        };
        let offers = |part: &str| part.matches(r#"compgen -W "${opts}""#).count();
        for label in ["thalweg__subcmd__cp", "thalweg__subcmd__frames__subcmd__push"] {
            let part = of(label);
            assert!(part.contains("if [[ ${cur} == -* ]] ; then") && offers(part) == 1, "{part}");
        }
        for label in ["thalweg", "thalweg__subcmd__frames"] {
            let part = of(label);
            assert!(part.contains(" || ${COMP_CWORD} -eq ") && offers(part) == 2, "{part}");
        }
    }

    #[test]
    fn in_fish_a_command_at_the_third_level_has_its_options() {
        let script = script(Shell::Fish).unwrap();
        let seen = "and __fish_seen_subcommand_from";
        let line = format!("using_subcommand bench; {seen} sweep; {seen} bulk\" -l budget -d ");
        assert!(script.contains(&line));
    }
}
