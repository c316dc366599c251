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
    /// Files that were read already.
    held: Vec<(PathBuf, Vec<u8>)>,
}

/// The filters of a copy for another thalweg.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// Words; a file in them is `{file:NAME}`.
    pub words: Vec<OsString>,
    /// Names of these files, and their content.
    pub files: Vec<(String, Vec<u8>)>,
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
        self.files().any(|file| is_stdin(file))
    }

    /// The same with its files read: a pipe gives what is in it once.
    ///
    /// # Errors
    /// What the kernel says about a file.
    pub fn held(&self) -> Result<FilterArgs> {
        let mut held: Vec<(PathBuf, Vec<u8>)> = Vec::new();
        for file in self.files() {
            if !held.iter().any(|(known, _)| known == file) {
                held.push((file.clone(), self.read(file)?));
            }
        }
        Ok(FilterArgs { held, ..self.clone() })
    }

    /// As another thalweg takes them, in the same order.
    ///
    /// # Errors
    /// What the kernel says about a file.
    pub fn along(&self) -> Result<Along> {
        let mut along = Along::default();
        for typed in &self.typed {
            match typed {
                Typed::Rule(line) => along.words.push(format!("--filter={line}").into()),
                Typed::Pattern(true, pattern) => along.words.push(format!("--include={pattern}").into()),
                Typed::Pattern(false, pattern) => along.words.push(format!("--exclude={pattern}").into()),
                Typed::File(true, file) => along.take("include-from", self.read(file)?),
                Typed::File(false, file) => along.take("exclude-from", self.read(file)?),
            }
        }
        if let Some(file) = &self.files_from {
            along.take("files-from", self.read(file)?);
        }
        if self.from0 {
            along.words.push("--from0".into());
        }
        Ok(along)
    }

    /// All files that are named, `--files-from` first: nothing of a source is read before its names are known.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let of_rules = self.typed.iter().filter_map(|typed| match typed {
            Typed::File(_, file) => Some(file),
            Typed::Rule(_) | Typed::Pattern(..) => None,
        });
        self.files_from.iter().chain(of_rules)
    }

    fn read(&self, file: &Path) -> Result<Vec<u8>> {
        if let Some((_, bytes)) = self.held.iter().find(|(known, _)| known == file) {
            return Ok(bytes.clone());
        }
        let mut bytes = Vec::new();
        let read = match is_stdin(file) {
            true => std::io::stdin().lock().read_to_end(&mut bytes),
            false => std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes)),
        };
        read.map_err(|error| failure::at_path(failure::of_io("read", &error), file))?;
        Ok(bytes)
    }
}

impl Along {
    /// An option with a file, which may stand several times.
    fn take(&mut self, option: &str, content: Vec<u8>) {
        let name = format!("{option}-{}", self.files.len());
        self.words.extend([format!("--{option}"), format!("{{file:{name}}}")].map(OsString::from));
        self.files.push((name, content));
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
            held: Vec::new(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};

    fn filters(words: &[&str]) -> FilterArgs {
        let command = FilterArgs::augment_args(Command::new("cp").no_binary_name(true));
        FilterArgs::from_arg_matches(&command.get_matches_from(words)).unwrap()
    }

    #[test]
    fn filters_go_along_in_their_order_with_what_their_files_had() {
        let scratch = tempfile::tempdir().unwrap();
        let (rules, names) = (scratch.path().join("rules"), scratch.path().join("names"));
        std::fs::write(&rules, "*.tmp\n").unwrap();
        std::fs::write(&names, "a\nb\n").unwrap();
        let (rules, names) = (rules.to_str().unwrap(), names.to_str().unwrap());
        let words = ["--exclude", "-x", "--include-from", rules, "--filter", "- y", "--include", "z"];
        let more = ["--exclude-from", rules, "--files-from", names, "--from0"];
        let held = filters(&[&words[..], &more].concat()).held().unwrap();
        let rules_before = held.rules().unwrap();
        // They may be pipes: nobody reads them again.
        std::fs::remove_file(rules).unwrap();
        std::fs::remove_file(names).unwrap();
        assert_eq!(held.rules().unwrap(), rules_before);
        let Along { words, files } = held.along().unwrap();
        let expected = [
            "--exclude=-x",
            "--include-from",
            "{file:include-from-0}",
            "--filter=- y",
            "--include=z",
            "--exclude-from",
            "{file:exclude-from-1}",
            "--files-from",
            "{file:files-from-2}",
            "--from0",
        ];
        assert_eq!(words, expected);
        let content: Vec<&[u8]> = files.iter().map(|(_, content)| content.as_slice()).collect();
        assert_eq!(content, [&b"*.tmp\n"[..], b"*.tmp\n", b"a\nb\n"]);
        // Read there they are the same.
        let there: Vec<String> = words
            .iter()
            .map(|word| match files.iter().find(|(name, _)| word == format!("{{file:{name}}}").as_str()) {
                Some((name, content)) => {
                    let path = scratch.path().join(name);
                    std::fs::write(&path, content).unwrap();
                    path.to_str().unwrap().to_owned()
                }
                None => word.to_str().unwrap().to_owned(),
            })
            .collect();
        let there = filters(&there.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(there.rules().unwrap(), rules_before);
        assert!(filters(&[]).along().unwrap() == Along::default());
    }
}
