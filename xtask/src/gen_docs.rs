//! `cargo xtask gen`: what is written from the code and committed, so that nobody needs a compiler to read it.
//!
//! Man pages (packaging/man), completions (packaging/completions), golden vectors (crates/wire/vectors), and of
//! docs/reference: cli.md, configuration.md and exit-codes.md; from the committed benchmark results
//! docs/performance.md, in README.md, docs/faults.md, docs/guide/testbed.md and docs/guide/bench.md the tables between
//! their two marks, and docs/figures. With `--check` nothing is written: a file that would change is an error.

use crate::{accuracy, bench, figures, findings, kills, tools};
use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use thalweg_cli::args::frames::POLICIES;
use thalweg_cli::{config, exit};
use thalweg_mover::endpoint::content::Content;

#[derive(clap::Args)]
pub struct Args {
    /// Write nothing; fail if a committed file is stale
    #[arg(long)]
    check: bool,
}

/// Directories in which every file is made here: what is not made any more is removed.
const OWN: [&str; 4] = ["packaging/man", "packaging/completions", "crates/wire/vectors", figures::DIRECTORY];

pub fn run(options: &Args) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let files = files()?;
    let mut stale: BTreeSet<PathBuf> = BTreeSet::new();
    for (path, content) in &files {
        let there = std::fs::read(root.join(path)).ok();
        if there.as_deref() != Some(content) {
            stale.insert(path.clone());
        }
    }
    let mut gone = Vec::new();
    for directory in OWN {
        for entry in std::fs::read_dir(root.join(directory)).into_iter().flatten() {
            let path = Path::new(directory).join(entry?.file_name());
            if !files.contains_key(&path) {
                gone.push(path);
            }
        }
    }
    if options.check {
        let all: Vec<_> = stale.iter().chain(&gone).map(|path| path.display().to_string()).collect();
        if !all.is_empty() {
            bail!("stale, run `cargo xtask gen`: {}", all.join(", "));
        }
        return Ok(());
    }
    for path in &stale {
        let to = root.join(path);
        std::fs::create_dir_all(to.parent().context("a parent")?)?;
        std::fs::write(&to, &files[path]).with_context(|| to.display().to_string())?;
        println!("{}", path.display());
    }
    for path in gone {
        std::fs::remove_file(root.join(&path))?;
        println!("{} (removed)", path.display());
    }
    Ok(())
}

fn files() -> anyhow::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut command = config::command();
    command.build();
    man("thalweg", &command, &mut files)?;
    for (shell, name) in SHELLS {
        files.insert(Path::new("packaging/completions").join(name), completions(shell)?.into_bytes());
    }
    files.insert("docs/reference/cli.md".into(), reference(&command).into_bytes());
    files.insert("docs/reference/exit-codes.md".into(), exit_codes().into_bytes());
    for family in thalweg_wire::vectors::families() {
        let path = Path::new("crates/wire/vectors").join(family.name).with_extension("txt");
        files.insert(path, family.to_text().into_bytes());
    }
    if let Some(results) = bench::record::Results::read(bench::suite::beside_rsync::SUITE.name)? {
        let mut told = bench::table::table(&results)? + "\n";
        let in_short: [(&str, InShort); 3] = [
            (bench::suite::large::SUITE.name, bench::suite::large::in_short),
            (bench::suite::small::SUITE.name, bench::suite::small::in_short),
            (bench::suite::beside_zeromq::NAME, bench::suite::beside_zeromq::in_short),
        ];
        for (name, in_short) in in_short {
            told +=
                &bench::record::Results::read(name)?.map(|results| in_short(&results)).unwrap_or_default();
        }
        let told = told.trim_end().to_owned() + "\n";
        files.insert("README.md".into(), tools::with_results("README.md", &told)?.into_bytes());
    }
    files.extend(figures::files()?);
    files.insert(accuracy::PAGE.into(), accuracy::page()?.into_bytes());
    files.insert(findings::PAGE.into(), findings::page()?.into_bytes());
    files.insert(kills::PAGE.into(), kills::page()?.into_bytes());
    files.insert("docs/performance.md".into(), bench::page::page()?.into_bytes());
    files.insert("docs/reference/configuration.md".into(), configuration(&command).into_bytes());
    Ok(files)
}

/// Tells the results of a suite in a sentence, for README.md.
type InShort = fn(&bench::record::Results) -> String;

fn man(name: &str, command: &Command, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    let mut page = Vec::new();
    let titled = command.clone().name(name.to_owned()).display_name(name.to_owned());
    // Of what the short help leaves out, the page has the long help only.
    let explained = titled.mut_args(|argument| match (argument.get_long_help(), argument.get_help()) {
        (None, Some(help)) => {
            let help = help.clone();
            argument.long_help(help)
        }
        _ => argument,
    });
    clap_mangen::Man::new(explained).render(&mut page)?;
    files.insert(Path::new("packaging/man").join(format!("{name}.1")), page);
    for sub in visible(command) {
        man(&format!("{name}-{}", sub.get_name()), sub, files)?;
    }
    Ok(())
}

/// Shells, each with the name under which it looks for its script.
const SHELLS: [(Shell, &str); 4] = [
    (Shell::Bash, "thalweg.bash"),
    (Shell::Zsh, "_thalweg"),
    (Shell::Fish, "thalweg.fish"),
    (Shell::Elvish, "thalweg.elv"),
];

fn completions(shell: Shell) -> anyhow::Result<String> {
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

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

const MADE: &str = "<!-- Made by `cargo xtask gen` from the code. Do not edit. -->\n\n";

fn reference(command: &Command) -> String {
    let mut page = format!("{MADE}# The command line\n\n");
    let _ = writeln!(page, "{}\n", text(command.get_about()));
    for sub in visible(command) {
        let _ = writeln!(page, "- [`thalweg {0}`](#thalweg-{0}): {1}", sub.get_name(), text(sub.get_about()));
    }
    for sub in visible(command) {
        section(&mut page, "thalweg", sub);
    }
    let _ = writeln!(page, "\nExit codes: [exit-codes.md](exit-codes.md).");
    page
}

/// A command, then those below it.
fn section(page: &mut String, above: &str, command: &Command) {
    let name = format!("{above} {}", command.get_name());
    let _ = writeln!(page, "\n## {name}\n\n{}\n", text(command.get_about()));
    let usage = command.clone().bin_name(&name).render_usage().to_string();
    let _ = writeln!(page, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown()
        .filter(|argument| argument.get_help_heading().is_none())
        .for_each(|argument| option(page, argument));
    let mut headings: Vec<&str> = Vec::new();
    for heading in shown().filter_map(clap::Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = writeln!(page, "\n**{heading}**\n");
        shown()
            .filter(|argument| argument.get_help_heading() == Some(heading))
            .for_each(|argument| option(page, argument));
    }
    if let Some(after) = command.get_after_help().filter(|after| !after.to_string().starts_with("Exit codes"))
    {
        let _ = writeln!(page, "\n{after}");
    }
    for sub in visible(command) {
        section(page, &name, sub);
    }
}

fn option(page: &mut String, argument: &clap::Arg) {
    if matches!(argument.get_id().as_str(), "help" | "version") {
        return;
    }
    let names: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_value_names().unwrap_or_default().iter().map(|name| name.to_string());
    let value = if takes_value { values.collect::<Vec<_>>().join(" ") } else { String::new() };
    let shown =
        [names.join(", "), value].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let _ = write!(page, "- `{shown}`: {}", text(argument.get_help()));
    let possible = argument.get_possible_values();
    if takes_value && !possible.is_empty() {
        let all: Vec<_> = possible
            .iter()
            .map(|value| format!("`{}` ({})", value.get_name(), text(value.get_help())))
            .collect();
        let _ = write!(page, ". One of {}", all.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(page, ". Default: `{}`", defaults.join(" "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(page, ". Environment: `{}`", variable.to_string_lossy());
    }
    page.push('\n');
}

fn text(help: Option<&clap::builder::StyledStr>) -> String {
    help.map(|help| help.to_string().replace('\n', " ")).unwrap_or_default()
}

fn exit_codes() -> String {
    let mut page =
        format!("{MADE}# Exit codes\n\nNever renumbered. A code that is not here is a failure.\n\n");
    page.push_str("| code | meaning |\n|---|---|\n");
    for (exit, meaning) in exit::TABLE {
        let _ = writeln!(page, "| {} | {meaning} |", exit.code());
    }
    page.push_str(
        "\nOf several failed entries the gravest decides: damage (4), then space (6), then other failures (2), then \
         changed sources (5). Of several copies in one command (`--and`) it is the same, and a copy of which nothing could \
         be done (1, 3) stands between other failures and space; a signal (130, 143) goes over all. A reader of stdout that goes away (`thalweg ls | head`) is no failure: commands that only \
         print end with 0, copies go on.\n",
    );
    page
}

const CONFIGURATION: &str = "\
Layers, each over the one before:

1. `/etc/thalweg/config.toml`
2. `$XDG_CONFIG_HOME/thalweg/config.toml` (`~/.config/thalweg/config.toml`)
3. the environment
4. the command line

`--config FILE` (or `THALWEG_CONFIG`) goes in the place of the first two. A key at the top of a file is an option of every \
command that has it; in a table with a command's name it is that command's only, and goes over the top. `[frames]` is of \
all its commands. What only has the name of such an option stands on the command line: `--listen`, `--memory` and \
`--window` of `frames`, `--cca` of `advise`, `--chunk` and `--window` of `model`. A value is a text \
or a number as on the command line, `true` or `false` for a flag, and a list of texts where an option may be given several \
times (in the environment it has one value there). A flag that a file sets is taken back by its variable: \
`THALWEG_COMPRESS=no`. What is not known, or has a bad value, is an error with file and line. A variable that is empty \
says nothing, and one that begins with `THALWEG_` and is none of those below is told with a warning.

```toml
streams = 8
stall-timeout = \"20s\"

[cp]
compress = true

[serve]
listen = [\"0.0.0.0:8487\", \"[::]:8487\"]
export = [\"data=/srv/data\", \"archive=/srv/archive:ro\"]

[place.site]
url = \"tw://dtn.example.org/data\"
ticket = \"site.ticket\"

[place.archive]
url = \"s3://archive/beamline\"
endpoint = \"https://store.example.org\"
profile = \"archive\"
```

## Places

`[place.NAME]` gives a place a name: `@NAME/path` is the path below `url` wherever a place is accepted, `@NAME` the place \
itself. `url` is `tw://HOST[:PORT][/EXPORT[/PATH]]`, an ssh place or `s3://BUCKET[/PREFIX]`; `ticket` names the ticket file of that daemon (relative \
to the configuration file; `~/` is your home) and goes over `--ticket`. A file of this machine that begins with `@` is \
written `./@...`. Secrets stand in ticket files only, never in a configuration, in the environment or on a command line; those \
for object stores stand where the AWS tools have them.

A place in a bucket may have: `endpoint`, the URL of the store (`http://` where nothing is to be encrypted); `region`; \
`profile`, one of the AWS configuration; `style`, `path` or `virtual`: where the bucket stands in a URL; `ca`, a file of \
certificates to trust (PEM); `anonymous = true`, where requests are not to be signed; `directory-markers = true`, which keeps \
directories as empty objects; `server-times = true`, which asks no object for the time of its file. What is not said is \
looked for in the environment and the AWS configuration ([object stores](../guide/objects.md)).

## Variables that are no options

| variable | what it says |
|---|---|
| `THALWEG_LOG` | what is told on stderr beside errors: `info`, `debug`, or by part, `thalweg_mover=debug` |
| `THALWEG_STATIC` | a static program for `--bootstrap` |

## Options

| option | variable | commands |
|---|---|---|
";

fn configuration(command: &Command) -> String {
    let mut page = format!("{MADE}# Configuration\n\n{CONFIGURATION}");
    for option in config::OPTIONS {
        let takes = |sub: &&Command| config::takes(sub, option);
        let commands: Vec<&str> = visible(command).filter(takes).map(Command::get_name).collect();
        let _ = writeln!(page, "| `{option}` | `{}` | {} |", config::variable(option), commands.join(", "));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_offer_nothing_that_is_hidden() {
        for (shell, name) in SHELLS {
            let script = completions(shell).unwrap();
            for hidden in ["not for people", "keep-run", "testbed,wire", "via-ssh"] {
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
            let script = completions(*shell).unwrap();
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
        let script = completions(Shell::Bash).unwrap();
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
        let script = completions(Shell::Fish).unwrap();
        let seen = "and __fish_seen_subcommand_from";
        let line = format!("using_subcommand bench; {seen} sweep; {seen} bulk\" -l budget -d ");
        assert!(script.contains(&line));
    }
}
