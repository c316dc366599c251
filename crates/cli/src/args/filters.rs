//! `--filter`, `--include`, `--exclude` and their files: one list, in the order in which they were typed.

use clap::{ArgMatches, FromArgMatches};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::filter::{parse_filter_line, parse_pattern_line};
use thalweg_wire::RelativePath;
use thalweg_wire::message::FilterRule;
use thalweg_wire::path::Escaped;

/// The options as clap knows them.
#[derive(clap::Args)]
struct Options {
    /// A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter
    /// options make one list, in the order typed. Patterns mean what they mean to rsync
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<String>,
    /// Take in names that match, before a later --exclude
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    include: Vec<String>,
    /// Leave out names that match
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<String>,
    /// Patterns to take in, one a line, from a file (`-`: stdin)
    #[arg(long, value_name = "FILE")]
    include_from: Vec<PathBuf>,
    /// Patterns to leave out, one a line, from a file (`-`: stdin)
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not
    /// descended into
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Names and patterns in those files end with NUL, not with a line
    #[arg(short = '0', long)]
    from0: bool,
}

/// Options of explain-filter.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// Which names.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Paths relative to the source; with a trailing slash a directory
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<OsString>,
}

/// What was typed, in its order.
#[derive(Debug, Clone, Default)]
pub struct FilterArgs {
    typed: Vec<Typed>,
    files_from: Option<PathBuf>,
    from0: bool,
}

#[derive(Debug, Clone)]
enum Typed {
    Rule(String),
    Pattern(bool, String),
    File(bool, PathBuf),
}

impl FilterArgs {
    /// The rules, files read.
    ///
    /// # Errors
    /// `Usage` for a rule that is none; what the kernel says about a file.
    pub fn rules(&self) -> Result<Vec<FilterRule>> {
        let mut rules = Vec::new();
        for typed in &self.typed {
            match typed {
                Typed::Rule(line) => rules.extend(parse_filter_line(line)?),
                Typed::Pattern(include, pattern) => {
                    rules.push(FilterRule { include: *include, pattern: pattern.clone() });
                }
                Typed::File(include, file) => {
                    let bytes = self.read(file)?;
                    for line in split(&bytes, self.from0) {
                        let line = std::str::from_utf8(line).map_err(|_| {
                            let cause = format!("the pattern `{}` is not UTF-8", Escaped(line));
                            Failure::new(FailureKind::Usage, "read the filter rules", cause)
                        })?;
                        rules.extend(parse_pattern_line(line, *include)?);
                    }
                }
            }
        }
        Ok(rules)
    }

    /// The names of `--files-from`; `None` without it. Leading slashes and `./` go, as with rsync.
    ///
    /// # Errors
    /// `Usage` for a name that leads out of the source, or an empty list; what the kernel says about the file.
    pub fn only(&self) -> Result<Option<Vec<RelativePath>>> {
        let Some(file) = &self.files_from else { return Ok(None) };
        names(&self.read(file)?, self.from0).map(Some)
    }

    /// Whether one of its files is stdin.
    pub fn reads_stdin(&self) -> bool {
        let of_rules = self.typed.iter().filter_map(|typed| match typed {
            Typed::File(_, file) => Some(file),
            Typed::Rule(_) | Typed::Pattern(..) => None,
        });
        of_rules.chain(&self.files_from).any(|file| is_stdin(file))
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = match is_stdin(file) {
            true => std::io::stdin().lock().read_to_end(&mut bytes),
            false => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)),
        };
        read.map_err(|error| failure::at_path(failure::of_io("read", &error), file))?;
        Ok(bytes)
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == OsStr::new("-")
}

/// The names in a list as `--files-from` takes it: one a line, or each ended by NUL. Leading slashes and `./` go.
///
/// # Errors
/// `Usage` for a name that leads out of the source, or an empty list.
pub fn names(bytes: &[u8], from0: bool) -> Result<Vec<RelativePath>> {
    thalweg_client::options::names::relative(split(bytes, from0))
}

/// What stands between the ends of lines, or between NULs; nothing empty.
fn split(bytes: &[u8], from0: bool) -> impl Iterator<Item = &[u8]> {
    let end = if from0 { 0 } else { b'\n' };
    bytes
        .split(move |&byte| byte == end)
        .map(move |line| if from0 { line } else { line.strip_suffix(b"\r").unwrap_or(line) })
        .filter(|line| !line.is_empty())
}

impl clap::Args for FilterArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        Options::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Options::augment_args_for_update(command)
    }
}

impl FromArgMatches for FilterArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut typed: Vec<(usize, Typed)> = Vec::new();
        let places = |name: &str| matches.indices_of(name).into_iter().flatten();
        let texts = |name: &str| matches.get_many::<String>(name).into_iter().flatten().cloned();
        let files = |name: &str| matches.get_many::<PathBuf>(name).into_iter().flatten().cloned();
        typed.extend(places("filter").zip(texts("filter").map(Typed::Rule)));
        typed.extend(places("include").zip(texts("include").map(|pattern| Typed::Pattern(true, pattern))));
        typed.extend(places("exclude").zip(texts("exclude").map(|pattern| Typed::Pattern(false, pattern))));
        typed.extend(places("include_from").zip(files("include_from").map(|file| Typed::File(true, file))));
        typed.extend(places("exclude_from").zip(files("exclude_from").map(|file| Typed::File(false, file))));
        typed.sort_by_key(|(at, _)| *at);
        Ok(FilterArgs {
            typed: typed.into_iter().map(|(_, typed)| typed).collect(),
            files_from: matches.get_one::<PathBuf>("files_from").cloned(),
            from0: matches.get_flag("from0"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
