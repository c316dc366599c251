//! What the program goes by besides its command line: the environment and configuration files.
//!
//! 1. What stands in a file is the default of an option: first `/etc/thalweg/config.toml`, over it
//!    `$XDG_CONFIG_HOME/thalweg/config.toml`; with `--config FILE` only that one.
//! 2. The environment goes over files: `THALWEG_` and the option's name, `-` as `_`. An empty variable says nothing.
//! 3. The command line goes over both.
//!
//! A key at the top is an option of every command that has it, or has a command with it; in a table with a command's
//! name it is that command's only, and goes over the top. `[place.NAME]` gives a place a name. What is not known, or
//! has a bad value, is an error with file and line. No secret stands in a file or in the environment: tickets are named
//! by their files.

mod internal;

mod near;

use crate::args::{Args, headings};
use crate::help_flag;
use crate::place::{Configured, Places};
use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory};
use etcetera::BaseStrategy;
use std::ffi::OsString;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use thalweg_client::objects::{SCHEME, Settings, Style};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_wire::path::Escaped;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use internal::internal;
use near::{nearest, not_known};

/// Options that may stand in a file or in the environment: what is of a site or a person. What one command line means
/// (names, filters, --delete, --receipt, ...) is not among them.
pub const OPTIONS: [&str; 55] = [
    "advertise",
    "bind",
    "block-max",
    "bootstrap",
    "bwlimit",
    "cca",
    "check",
    "chunk",
    "cipher",
    "class",
    "compress",
    "concurrency",
    "depth",
    "direct",
    "dscp",
    "errands",
    "export",
    "far-path",
    "far-ports",
    "frames-memory",
    "io-depth",
    "ionice",
    "issuers",
    "ktls",
    "listen",
    "log-format",
    "max-delete",
    "max-sessions",
    "max-sessions-per-address",
    "max-spill",
    "memory",
    "metrics",
    "near-ports",
    "nice",
    "no-io-uring",
    "no-tune",
    "one-file-system",
    "order",
    "patience",
    "place-file",
    "progress",
    "quiet",
    "request",
    "require-tls",
    "rsh",
    "slots",
    "stall-timeout",
    "state",
    "streams",
    "ticket",
    "ticket-file",
    "tls-records",
    "verify",
    "via",
    "window",
];

/// Those whose value is a file or a directory of this machine. Where a configuration has it, `~/` is the home
/// directory, and what is relative is beside that file, for whoever reads it stands somewhere else each time.
const FILES: [&str; 5] = ["issuers", "place-file", "state", "ticket", "ticket-file"];

/// Options that have only the name of one of these, by the command that has them, or has commands that do: what they
/// say is of one command line.
const NAMESAKES: [(&str, &[&str]); 4] = [
    // Of a hub, not of this process; and of frames, which has other bounds.
    ("frames", &["listen", "memory", "window"]),
    // What one ticket permits, not what a daemon has.
    ("ticket", &["bwlimit", "export"]),
    // One of the laws that are known, where a kernel has more.
    ("advise", &["cca"]),
    // Numbers of a law.
    ("model", &["chunk", "window"]),
];

/// Keys of a [place.NAME] that is in a bucket.
const OF_BUCKETS: [&str; 8] =
    ["endpoint", "region", "profile", "style", "ca", "anonymous", "directory-markers", "server-times"];

/// How the variables begin.
const PREFIX: &str = "THALWEG_";

/// Variables that are no options, without [`PREFIX`]: those of users, those that deputies, keepers of jobs and testbeds
/// give to programs which they start, and those of builds and tests.
const OTHERS: [&str; 16] = [
    "CONFIG",
    "LOG",
    "STATIC",
    "CLIENT_LINE",
    "JOB",
    "TESTBED",
    "TESTBED_HOST",
    "COMMIT",
    "GOLDEN",
    "GUEST",
    "PICTURES",
    "PROGRAM",
    "SEED",
    "STRIKES",
    "TEST_DIR",
    "TORTURE",
];

/// How the variables begin that tell programs of an item, without [`PREFIX`].
const OF_ITEMS: &str = "ITEM_";

/// Whether an option of a command (one at the top), or of the commands that it has, may stand in a file or in the
/// environment.
fn may_stand(command: &str, option: &str) -> bool {
    let is_namesake = NAMESAKES.iter().any(|(name, options)| *name == command && options.contains(&option));
    OPTIONS.contains(&option) && !is_namesake
}

/// Whether a command (one at the top) takes this option from files and from the environment, for itself or for the
/// commands that it has.
pub fn takes(command: &Command, option: &str) -> bool {
    may_stand(command.get_name(), option) && !options_named(command, option).is_empty()
}

/// The options of this name that a command has, and the commands that it has. What is hidden is there to be refused.
fn options_named<'a>(command: &'a Command, option: &str) -> Vec<&'a Arg> {
    let is_it = |argument: &&Arg| argument.get_long() == Some(option) && !argument.is_hide_set();
    let own = command.get_arguments().filter(is_it);
    own.chain(command.get_subcommands().flat_map(|sub| options_named(sub, option))).collect()
}

/// The variable of an option.
pub fn variable(option: &str) -> String {
    format!("{PREFIX}{}", option.to_ascii_uppercase().replace('-', "_"))
}

/// Whether a variable is there and empty: then it says nothing, for that is how units and scripts take one back.
fn is_empty(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value.is_empty())
}

/// What is to be said of variables, of these names, that look like ours and are none.
pub fn unknown_variables(names: impl Iterator<Item = OsString>) -> Vec<String> {
    let said = |name: OsString| {
        let rest = name.to_str()?.strip_prefix(PREFIX)?;
        let option = rest.to_ascii_lowercase().replace('_', "-");
        let is_option = OPTIONS.contains(&&*option) && variable(&option) == name.to_str()?;
        if is_option || OTHERS.contains(&rest) || rest.starts_with(OF_ITEMS) {
            return None;
        }
        let near = nearest(&option, OPTIONS.into_iter());
        let near = near.map(|near| format!(": did you mean {}?", variable(near))).unwrap_or_default();
        Some(format!("{} in the environment says nothing{near}", Escaped(name.as_encoded_bytes())))
    };
    let mut all: Vec<String> = names.filter_map(said).collect();
    all.sort_unstable();
    all
}

/// Why a value that nobody typed is wrong: it stands in the environment, and its variable is named.
pub fn wrong_variable(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return None;
    }
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    // As in `--streams <N>`.
    let typed = argument.split([' ', '=']).next()?;
    let variable = variable(typed.strip_prefix("--")?);
    let is_it = |word: &OsString| {
        let rest = word.as_encoded_bytes().strip_prefix(typed.as_bytes());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"="))
    };
    if words.iter().any(is_it) || std::env::var_os(&variable).is_none() {
        return None;
    }
    let why = error.to_string();
    Some(format!("{variable} in the environment: {}", why.strip_prefix("error: ").unwrap_or(&why)))
}

/// The files and the variables, for `--help` and the manual.
pub fn help() -> String {
    let options = OPTIONS.join(", ");
    format!(
        "Configuration: /etc/thalweg/config.toml, over it $XDG_CONFIG_HOME/thalweg/config.toml (or --config FILE alone), \
         over them the environment (THALWEG_STREAMS for --streams), over all the command line. Options that may stand \
         there: {options}. THALWEG_LOG=info (or debug) has it tell on stderr what it does."
    )
}

/// The command line, with the environment, without files.
pub fn command() -> Command {
    let mut command = headings::arranged(Args::command());
    if is_empty(&variable("config")) {
        command = command.mut_arg("config", |argument| argument.env(None::<&'static str>));
    }
    command.mut_subcommands(|sub| {
        let name = sub.get_name().to_owned();
        map_options(sub, &|argument| {
            let option = argument.get_long().filter(|long| may_stand(&name, long) && !argument.is_hide_set());
            let Some(option) = option else { return argument };
            let variable = variable(option);
            let argument = match is_empty(&variable) {
                true => argument,
                false => argument.env(variable).hide_env_values(true),
            };
            match argument.get_action() {
                ArgAction::SetTrue => argument.value_parser(BoolishValueParser::new()),
                _ => argument,
            }
        })
    })
}

/// The command line with environment and files, and the places that these name. `words` are looked through for
/// `--config` only.
///
/// # Errors
/// `Usage` for a file that does not make sense, with its line; what the kernel says about it.
pub fn layered(words: &[OsString]) -> Result<(Command, Places)> {
    let mut command = command();
    let mut places = Places::default();
    // Whatever else is wrong is told when all of it is read.
    let seen = help_flag::ignored(command.clone()).ignore_errors(true).try_get_matches_from(words);
    let asked = seen.ok().and_then(|matches| matches.get_one::<PathBuf>("config").cloned());
    let (files, is_asked) = match asked {
        Some(file) => (vec![file], true),
        None => (usual_files(), false),
    };
    for file in files {
        let text = match text_of(&file) {
            Ok(text) => text,
            Err(error) if is_absent(&error) && !is_asked => continue,
            Err(error) => {
                return Err(failure::at_path(failure::of_io("read the configuration", &error), &file));
            }
        };
        command = apply(&file, &text, command, &mut places)?;
    }
    Ok((command, places))
}

/// Whether this says that a file is not there, also for want of a directory to be in: `HOME=/dev/null` is some users'.
fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// A file's text, of a pipe's too: as long as any of these may be.
fn text_of(path: &Path) -> std::io::Result<String> {
    /// Beyond it is something else: a disk, a stream without end.
    const BYTES_MAX: u64 = 1 << 20;
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    match read as u64 > BYTES_MAX {
        true => Err(std::io::Error::other("it is longer than 1 MiB, as no configuration is")),
        false => Ok(text),
    }
}

/// Adds what the text of a file says to the options and the places.
///
/// # Errors
/// `Usage` for what cannot be in a file, with line and column.
pub fn apply(path: &Path, text: &str, command: Command, places: &mut Places) -> Result<Command> {
    File { path, text }.apply(command, places)
}

fn usual_files() -> Vec<PathBuf> {
    let own = etcetera::choose_base_strategy().ok().map(|base| base.config_dir().join("thalweg/config.toml"));
    std::iter::once(PathBuf::from("/etc/thalweg/config.toml")).chain(own).collect()
}

/// Changes the options of a command, and of the commands that it has.
fn map_options(command: Command, change: &dyn Fn(Arg) -> Arg) -> Command {
    command.mut_args(change).mut_subcommands(|sub| map_options(sub, change))
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn apply(&self, mut command: Command, places: &mut Places) -> Result<Command> {
        let table = DeTable::parse(self.text)
            .map_err(|error| self.refuse(error.span().unwrap_or_default(), error.message()))?;
        let is_command = |key: &str| command.get_subcommands().any(|sub| sub.get_name() == key);
        let (tables, options): (Vec<_>, Vec<_>) = table.get_ref().iter().partition(|(key, value)| {
            matches!(value.get_ref(), DeValue::Table(_))
                && (key.get_ref() == "place" || is_command(key.get_ref()))
        });
        for (key, value) in options {
            let mut is_known = false;
            let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
            for name in names {
                (command, is_known) = match self.set(command, &name, key, value)? {
                    (command, true) => (command, true),
                    (command, false) => (command, is_known),
                };
            }
            if !is_known {
                return Err(self.unknown(key, None, &command));
            }
        }
        for (key, value) in tables {
            let DeValue::Table(inner) = value.get_ref() else { continue };
            for (option, value) in inner.iter() {
                if key.get_ref() == "place" {
                    self.place(option, value, places)?;
                    continue;
                }
                let (changed, is_known) = self.set(command, key.get_ref(), option, value)?;
                if !is_known {
                    return Err(self.unknown(option, Some(key.get_ref().as_ref()), &changed));
                }
                command = changed;
            }
        }
        Ok(command)
    }

    /// Makes `value` the default of an option of one command and of the commands that it has, if any has that option.
    fn set(
        &self,
        command: Command,
        name: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(Command, bool)> {
        let option = key.get_ref().as_ref();
        let found = command.find_subcommand(name).filter(|sub| takes(sub, option));
        let Some(found) = found else { return Ok((command, false)) };
        let mut values = Vec::new();
        for argument in options_named(found, option) {
            // The same words, if they are right for each.
            values = self.values(argument, value)?;
        }
        let changed = command.mut_subcommand(name, |sub| {
            map_options(sub, &|argument| match argument.get_long() == Some(option) {
                true => argument.required(false).default_values(values.clone()),
                false => argument,
            })
        });
        Ok((changed, true))
    }

    /// The words that an option would have on the command line, each read as it would be there.
    fn values(&self, argument: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Vec<OsString>> {
        let refuse = |why: &str| Err(self.refuse(value.span(), why));
        let is_flag = matches!(argument.get_action(), ArgAction::SetTrue);
        let is_list = matches!(argument.get_action(), ArgAction::Append);
        let word = |value: &DeValue<'_>| match value {
            DeValue::String(text) => Some(OsString::from(text.as_ref())),
            DeValue::Integer(number) => Some(number.to_string().into()),
            _ => None,
        };
        let words = match (value.get_ref(), is_flag) {
            (DeValue::Boolean(is_set), true) => return Ok(vec![is_set.to_string().into()]),
            (_, true) => return refuse("`true` or `false` is expected"),
            (DeValue::Array(values), _) if is_list => {
                values.iter().map(|value| word(value.get_ref())).collect::<Option<Vec<_>>>()
            }
            (value, _) => word(value).map(|word| vec![word]),
        };
        let Some(words) = words.filter(|words| !words.is_empty()) else {
            let expected = if is_list {
                "a text or a list of texts is expected"
            } else {
                "a text or a number is expected"
            };
            return refuse(expected);
        };
        let option = argument.get_long().unwrap_or_default();
        let alone = Command::new("thalweg").no_binary_name(true).arg(argument.clone().required(false));
        for word in &words {
            let mut typed = OsString::from(format!("--{option}="));
            typed.push(word);
            if let Err(error) = alone.clone().try_get_matches_from([typed]) {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                return refuse(line.strip_prefix("error: ").unwrap_or(line));
            }
        }
        let is_file = FILES.contains(&option);
        let whole = |word: OsString| match word.to_str() {
            Some(text) if is_file => self.file(text).into_os_string(),
            _ => word,
        };
        Ok(words.into_iter().map(whole).collect())
    }

    fn place(
        &self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        places: &mut Places,
    ) -> Result<()> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.refuse(value.span(), "a place is a table: [place.NAME]"));
        };
        if !Places::is_name(name.get_ref()) {
            return Err(self.refuse(name.span(), "the name of a place has letters, digits, `.`, `_` and `-`"));
        }
        let (mut url, mut ticket) = (None, None);
        let (mut settings, mut of_bucket) = (Settings::default(), None);
        for (key, value) in table.iter() {
            let option: &str = key.get_ref().as_ref();
            if OF_BUCKETS.contains(&option) {
                self.set_of_bucket(&mut settings, option, value)?;
                of_bucket = of_bucket.or(Some((option, key.span())));
                continue;
            }
            let DeValue::String(text) = value.get_ref() else {
                return Err(self.refuse(value.span(), "a text is expected"));
            };
            match option {
                "url" => {
                    Configured { url: text.to_string(), ticket: None, settings: Settings::default() }
                        .check()
                        .map_err(|failure| self.refuse(value.span(), &failure.cause))?;
                    url = Some(text.to_string());
                }
                "ticket" => ticket = Some((self.file(text), value.span())),
                _ => {
                    let known = ["url", "ticket"].into_iter().chain(OF_BUCKETS);
                    return Err(self.refuse(key.span(), &not_known(option, known)));
                }
            }
        }
        let Some(url) = url else { return Err(self.refuse(name.span(), "the place has no `url`")) };
        if let Some((_, span)) = &ticket
            && !url.starts_with("tw://")
        {
            return Err(self.refuse(span.clone(), "only a daemon (tw://) has a ticket"));
        }
        if let Some((key, span)) = of_bucket
            && !url.starts_with(SCHEME)
        {
            return Err(self.refuse(span, &format!("only a bucket ({SCHEME}) has `{key}`")));
        }
        places.insert(name.get_ref(), Configured { url, ticket: ticket.map(|(file, _)| file), settings });
        Ok(())
    }

    /// Reads what one of [`OF_BUCKETS`] says.
    fn set_of_bucket(&self, settings: &mut Settings, name: &str, value: &Spanned<DeValue<'_>>) -> Result<()> {
        let refuse = |why: &str| Err(self.refuse(value.span(), why));
        let options = &mut settings.options;
        let flag = match name {
            "anonymous" => Some(&mut options.anonymous),
            "directory-markers" => Some(&mut settings.directory_markers),
            "server-times" => Some(&mut settings.server_times),
            _ => None,
        };
        if let Some(flag) = flag {
            let DeValue::Boolean(is_set) = value.get_ref() else {
                return refuse("`true` or `false` is expected");
            };
            *flag = *is_set;
            return Ok(());
        }
        let DeValue::String(text) = value.get_ref() else { return refuse("a text is expected") };
        match name {
            "endpoint" if !text.starts_with("https://") && !text.starts_with("http://") => {
                return refuse(
                    "an endpoint is https://HOST[:PORT], or http:// where nothing is to be encrypted",
                );
            }
            "endpoint" => options.endpoint = Some(text.to_string()),
            "region" => options.region = Some(text.to_string()),
            "profile" => options.profile = Some(text.to_string()),
            "ca" => options.ca = Some(self.file(text)),
            _ => match text.as_ref() {
                "path" => options.style = Some(Style::Path),
                "virtual" => options.style = Some(Style::VirtualHost),
                _ => return refuse("`path` or `virtual` is expected"),
            },
        }
        Ok(())
    }

    /// A file named in this one: `~/` is the home directory, what is relative is beside this file.
    fn file(&self, text: &str) -> PathBuf {
        let below = if text == "~" { Some("") } else { text.strip_prefix("~/") };
        match (below, etcetera::home_dir()) {
            (Some(below), Ok(home)) => home.join(below),
            _ => self.path.parent().unwrap_or(Path::new("")).join(text),
        }
    }

    /// Why a key at the top, or in the table of the command `table`, says nothing.
    fn unknown(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        table: Option<&str>,
        command: &Command,
    ) -> Failure {
        /// Commands that are named as those that have an option.
        const NAMED_MAX: usize = 3;
        let name: &str = key.get_ref().as_ref();
        let has = |sub: &&Command| !options_named(sub, name).is_empty();
        let owners: Vec<String> =
            command.get_subcommands().filter(has).map(|sub| format!("`{}`", sub.get_name())).collect();
        let why = match (owners.len(), table) {
            (1.., Some(table)) if OPTIONS.contains(&name) && owners.contains(&format!("`{table}`")) => {
                format!("`{name}` of `{table}` may only be given on the command line")
            }
            (1.., Some(table)) if OPTIONS.contains(&name) => format!("`{name}` is no option of `{table}`"),
            (0, _) => {
                let commands = command.get_subcommands().filter(|sub| !sub.is_hide_set());
                let known = OPTIONS.into_iter().chain(["place"]);
                not_known(name, known.chain(commands.map(Command::get_name)))
            }
            (count, _) => {
                let of = if count > NAMED_MAX { "several commands".to_owned() } else { owners.join(", ") };
                format!("`{name}` is an option of {of}, but may only be given on the command line")
            }
        };
        self.refuse(key.span(), &why)
    }

    fn refuse(&self, span: Range<usize>, why: &str) -> Failure {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        let path = failure::shown_path(self.path.as_os_str().as_encoded_bytes());
        let cause = format!("{path}:{line}: {why}");
        Failure::new(FailureKind::Usage, "read the configuration", cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::frames::FramesCommand;
    use crate::place::Place;
    use clap::FromArgMatches;
    use std::ffi::OsStr;
    use std::time::Duration;

    fn apply(text: &str) -> Result<(Command, Places)> {
        let mut places = Places::default();
        let file = File { path: Path::new("/x/config.toml"), text };
        file.apply(command(), &mut places).map(|command| (command, places))
    }

    fn refused(text: &str) -> String {
        apply(text).map(|_| ()).expect_err(text).cause
    }

    fn copy(text: &str, words: &[&str]) -> crate::args::copy::CopyArgs {
        let (command, _) = apply(text).unwrap();
        let matches = command.try_get_matches_from([&["thalweg", "cp", "a", "b"], words].concat()).unwrap();
        match Args::from_arg_matches(&matches).unwrap().command {
            crate::args::Command::Cp(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_option_named_here_is_one() {
        for option in OPTIONS {
            let has = |sub: &Command| sub.get_arguments().any(|argument| argument.get_long() == Some(option));
            assert!(command().get_subcommands().any(has), "{option}");
        }
        command().debug_assert();
    }

    /// These are the rows of the table in docs/reference/configuration.md.
    #[test]
    fn what_a_command_takes_from_files_stands_in_its_help() {
        fn help(command: &Command) -> String {
            let own = command.clone().render_long_help().to_string();
            command.get_subcommands().fold(own, |all, sub| all + "\n" + &help(sub))
        }
        let command = command();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let help = help(sub);
            for option in OPTIONS.into_iter().filter(|option| takes(sub, option)) {
                let long = format!("--{option}");
                let names = |line: &str| {
                    let line = line.trim_start();
                    line.starts_with('-') && line.split([' ', ',']).any(|word| word == long)
                };
                assert!(help.lines().any(names), "{} {long}", sub.get_name());
            }
        }
        let takes_it = |name: &str| takes(command.find_subcommand(name).unwrap(), "max-delete");
        assert!(takes_it("sync") && !takes_it("cp"));
    }

    /// Whoever serves by a file can have every option there. What is of one command line only stands here, with its
    /// reason.
    #[test]
    fn every_option_of_a_daemon_may_stand_in_a_file() {
        let exceptions = ["config" /* it names the file */, "help" /* it serves nothing */];
        let mut command = command();
        command.build();
        let serve = command.find_subcommand("serve").unwrap();
        let options: Vec<&str> = serve.get_arguments().filter_map(Arg::get_long).collect();
        assert!(options.len() > 10 && exceptions.iter().all(|one| options.contains(one)), "{options:?}");
        for option in options {
            assert!(OPTIONS.contains(&option) != exceptions.contains(&option), "{option}");
        }
        let (command, _) =
            apply("[serve]\nexport = \"a=/a\"\nslots = \"10Gbit/s\"\nframes-memory = \"2GiB\"\n").unwrap();
        let matches = command.try_get_matches_from(["thalweg", "serve"]).unwrap();
        match Args::from_arg_matches(&matches).unwrap().command {
            crate::args::Command::Serve(args) => {
                assert!(args.slots.is_some());
                assert_eq!(args.frames_memory, Some(2 << 30));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn variables_that_are_none_of_ours_are_named_with_what_was_meant() {
        let said = |names: &[&str]| unknown_variables(names.iter().map(OsString::from));
        let known: Vec<String> = OPTIONS.into_iter().map(variable).collect();
        assert_eq!(unknown_variables(known.into_iter().map(OsString::from)), [""; 0]);
        let others = ["THALWEG_CONFIG", "THALWEG_ITEM_PATH", "THALWEG_SEED", "HOME", "thalweg_x"];
        assert_eq!(said(&others), [""; 0]);
        assert_eq!(
            said(&["THALWEG_STREMS", "THALWEG_HOME", "THALWEG_streams"]),
            [
                "THALWEG_HOME in the environment says nothing",
                "THALWEG_STREMS in the environment says nothing: did you mean THALWEG_STREAMS?",
                "THALWEG_streams in the environment says nothing: did you mean THALWEG_STREAMS?",
            ]
        );
    }

    #[test]
    fn a_command_goes_over_the_top_and_the_command_line_over_both() {
        let text = "streams = 3\ncompress = true\nchunk = \"1MiB\"\n[cp]\nstreams = 5\n[sync]\nstreams = 7\n";
        let args = copy(text, &[]);
        assert_eq!(
            (args.link.streams, args.knobs.compress, args.knobs.chunk),
            (Some(5), true, Some(1 << 20))
        );
        assert_eq!(copy(text, &["--streams", "9"]).link.streams, Some(9));
        let (command, _) = apply("[serve]\nexport = [\"a=/a\", \"b=/b:ro\"]\nlisten = \"[::]:1\"\n").unwrap();
        let matches = command.try_get_matches_from(["thalweg", "serve"]).unwrap();
        match Args::from_arg_matches(&matches).unwrap().command {
            crate::args::Command::Serve(args) => {
                assert_eq!(args.export, ["a=/a", "b=/b:ro"]);
                assert_eq!(args.listen, ["[::]:1"]);
            }
            other => panic!("{other:?}"),
        }
    }

    /// File and environment mean the same to `frames`, whose options are those of its commands.
    #[test]
    fn options_reach_the_commands_of_a_command_and_leave_namesakes_alone() {
        let text = "ticket = \"/t\"\npatience = \"7s\"\nmemory = \"1GiB\"\nwindow = \"512MiB\"\n\
                    listen = \"[::]:1\"\n[frames]\nstreams = 3\n";
        let frames = |words: &[&str]| {
            let (command, _) = apply(text).unwrap();
            let matches = command.try_get_matches_from([&["thalweg", "frames"], words].concat()).unwrap();
            match Args::from_arg_matches(&matches).unwrap().command {
                crate::args::Command::Frames(frames) => frames,
                other => panic!("{other:?}"),
            }
        };
        match frames(&["status", "tw://h/data/x"]) {
            FramesCommand::Status(args) => assert_eq!(args.ticket, Some("/t".into())),
            other => panic!("{other:?}"),
        }
        match frames(&["pull", "tw://h/data/x", "dir"]) {
            FramesCommand::Pull(args) => {
                assert_eq!((args.link.patience, args.link.streams), (Duration::from_secs(7), Some(3)));
                assert_eq!((args.link.window, args.link.memory, args.listen), (64 << 20, None, None));
            }
            other => panic!("{other:?}"),
        }
        let all = command();
        let has_variable = |name: &str, option: &str| {
            let found = options_named(all.find_subcommand(name).unwrap(), option);
            assert!(!found.is_empty(), "{name} --{option}");
            found.iter().any(|argument| argument.get_env().is_some())
        };
        assert!(has_variable("frames", "ticket") && has_variable("serve", "listen"));
        for (name, options) in NAMESAKES {
            for option in options {
                assert!(!has_variable(name, option), "{name} --{option}");
            }
        }
    }

    /// No shell reads them, and a directory called `~` would be made wherever a command is typed.
    #[test]
    fn files_and_directories_that_options_name_are_at_home_or_beside_the_file() {
        let home = etcetera::home_dir().unwrap();
        for (text, path) in [
            ("~/kept", home.join("kept")),
            ("~", home.join("")),
            ("kept", "/x/kept".into()),
            ("/kept", "/kept".into()),
            ("~other/kept", "/x/~other/kept".into()),
        ] {
            let link = copy(&format!("state = \"{text}\"\n[cp]\nticket = \"{text}\"\n"), &[]).link;
            assert_eq!((link.state, link.ticket), (Some(path.clone()), Some(path)), "{text}");
        }
        let text = "[serve]\nexport = \"a=/a\"\nissuers = \"i\"\nplace-file = \"p\"\nticket-file = \"t\"\n";
        let matches = apply(text).unwrap().0.try_get_matches_from(["thalweg", "serve"]).unwrap();
        match Args::from_arg_matches(&matches).unwrap().command {
            crate::args::Command::Serve(args) => {
                let named = [args.issuers, args.place_file, args.ticket_file];
                assert_eq!(named, ["/x/i", "/x/p", "/x/t"].map(|path| Some(PathBuf::from(path))));
            }
            other => panic!("{other:?}"),
        }
        // What is typed is a shell's.
        assert_eq!(copy("state = \"kept\"\n", &["--state", "here"]).link.state, Some("here".into()));
        // No other option takes a file or a directory of this machine alone.
        let is_path = |argument: &&Arg| {
            let names = argument.get_value_names().unwrap_or_default();
            names.iter().any(|name| ["FILE", "DIR"].contains(&name.as_str()))
        };
        for option in OPTIONS.into_iter().filter(|option| !FILES.contains(option)) {
            let all = command();
            let found = all.get_subcommands().flat_map(|sub| options_named(sub, option)).find(is_path);
            assert!(found.is_none(), "{option}");
        }
    }

    /// `advise` knows the laws of three, and is no reason to refuse what copies take.
    #[test]
    fn a_congestion_control_of_no_law_may_stand_at_the_top() {
        assert_eq!(copy("cca = \"htcp\"\n", &[]).link.congestion.cca.as_deref(), Some("htcp"));
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        for (text, line, why) in [
            ("streams = 3\nstrems = 4\n", 2, "`strems` is not known here: did you mean `streams`?"),
            ("\n\nstreams = \"many\"\n", 3, "invalid value 'many' for '--streams"),
            ("streams = 0", 1, "a whole number from 1 to 256 is wanted"),
            ("compress = \"yes\"", 1, "`true` or `false`"),
            ("streams = [1]", 1, "a text or a number"),
            ("[cp]\nexport = \"a=/a\"", 2, "`export` is no option of `cp`"),
            ("[cp]\nmax-delete = 9", 2, "`max-delete` is no option of `cp`"),
            (
                "[sync]\ndelete = true",
                2,
                "`delete` is an option of `sync`, `watch`, but may only be given on the command line",
            ),
            ("json = true", 1, "`json` is an option of several commands, but may only"),
            ("[frames]\nwindow = \"1MiB\"", 2, "`window` of `frames` may only be given on the command line"),
            ("[nothing]\nx = 1", 1, "`nothing` is not known here"),
            ("[srve]\nmemory = \"1GiB\"", 1, "`srve` is not known here: did you mean `serve`?"),
            ("a = ", 1, ""),
            ("[place.a]\nticket = \"t\"", 1, "no `url`"),
            ("[place.a]\nurl = \"tw://\"", 2, "expected tw://host"),
            ("[place.a]\nurl = \"/local\"", 2, "tw://HOST"),
            ("[place.a]\nurl = \"host:x\"\nticket = \"t\"", 3, "only a daemon"),
            ("[place.a]\nurl = \"host:x\"\nregion = \"r\"", 3, "only a bucket (s3://) has `region`"),
            ("[place.a]\nurl = \"s3://data\"\nanonymous = \"yes\"", 3, "`true` or `false`"),
            ("[place.a]\nurl = \"s3://data\"\nregion = true", 3, "a text is expected"),
            ("[place.a]\nurl = \"s3://data\"\nendpoint = \"host\"", 3, "an endpoint is https://HOST"),
            ("[place.a]\nurl = \"s3://data\"\nstyle = \"dns\"", 3, "`path` or `virtual`"),
            ("[place.a]\nurl = \"s3://data\"\nregoin = \"r\"", 3, "did you mean `region`?"),
            ("[place.a]\nurl = \"s3://d%ta\"", 2, "names of buckets have letters"),
            ("[place.a]\nurl = \"host:x\"\nport = 1", 3, "a text is expected"),
            ("[place.a]\nurl = \"host:x\"\nkey = \"1\"", 3, "`key` is not known here"),
            ("[place.a]\ntickt = \"x\"", 2, "`tickt` is not known here: did you mean `ticket`?"),
            ("[place.\"a/b\"]\nurl = \"host:x\"", 1, "the name of a place"),
        ] {
            let cause = refused(text);
            assert!(cause.starts_with(&format!("/x/config.toml:{line}: ")) && cause.contains(why), "{cause}");
        }
    }

    #[test]
    fn places_in_buckets_have_their_store_beside_their_name() {
        let text = "[place.lab]\nurl = \"s3://data/base\"\nendpoint = \"https://store.example\"\nregion = \"lab\"\n\
                    profile = \"me\"\nstyle = \"path\"\nca = \"store.pem\"\nanonymous = true\n\
                    directory-markers = true\nserver-times = true\n";
        let (_, places) = apply(text).unwrap();
        let Place::Object { location, settings } = Place::parse(OsStr::new("@lab/x"), &places).unwrap()
        else {
            panic!("it is in a bucket")
        };
        assert_eq!((location.bucket.as_str(), location.key.as_str()), ("data", "base/x"));
        let options = &settings.options;
        assert_eq!(options.endpoint.as_deref(), Some("https://store.example"));
        assert_eq!((options.region.as_deref(), options.profile.as_deref()), (Some("lab"), Some("me")));
        assert_eq!(options.style, Some(Style::Path));
        assert_eq!(options.ca.as_deref(), Some(Path::new("/x/store.pem")));
        assert!(options.anonymous && settings.directory_markers && settings.server_times);
    }

    #[test]
    fn places_have_names_and_tickets_beside_the_file() {
        let text = "[place.site]\nurl = \"tw://h:9/data/base/\"\nticket = \"site.ticket\"\n\
                    [place.host]\nurl = \"tw://h\"\n[place.home]\nurl = \"me@h:\"\n\
                    [place.url]\nurl = \"ssh://me@h:22\"\n[place.root]\nurl = \"ssh://me@h/\"\n";
        let (_, places) = apply(text).unwrap();
        let named = |text: &str| Place::parse(OsStr::new(text), &places);
        let daemon = |address: &str, path: &[u8], ticket: Option<&str>| Place::Daemon {
            address: address.into(),
            export: "data".into(),
            path: path.to_vec(),
            ticket: ticket.map(PathBuf::from),
        };
        let ticket = Some("/x/site.ticket");
        assert_eq!(named("@site").unwrap(), daemon("h:9", b"base/", ticket));
        assert_eq!(named("@site/").unwrap(), daemon("h:9", b"base/", ticket));
        assert_eq!(named("@site/a b/").unwrap(), daemon("h:9", b"base/a b/", ticket));
        assert_eq!(named("@host/data/x").unwrap(), daemon("h:8487", b"x", None));
        let home = |path: &[u8]| Place::Ssh { host: "me@h".into(), port: None, path: path.to_vec() };
        assert_eq!(named("@home/x").unwrap(), home(b"x"));
        assert_eq!(named("@home").unwrap(), home(b"."));
        // Nor is a name there a module, the home of another, or below the root.
        for (text, path) in
            [("@home/~x", "./~x"), ("@home/~/x", "./~/x"), ("@home/:x", "./:x"), ("@home//x", ".//x")]
        {
            assert_eq!(named(text).unwrap(), home(path.as_bytes()), "{text}");
        }
        // A URL without a path is the home too, and what is below it is not below the root.
        let there = |text: &str| thalweg_client::far_movers::place_there(&named(text).unwrap());
        for (one, other) in [("@url", "@home"), ("@url/x", "@home/x"), ("@url/x/y/", "@home/x/y/")] {
            assert_eq!(there(one), there(other), "{one}");
        }
        assert_eq!(named("@root/x").unwrap(), home(b"/x"));
        assert!(named("@nowhere/x").is_err() && named("@").is_err());
        assert_eq!(named("./@site").unwrap(), Place::Local("./@site".into()));
    }
}
