//! What becomes of each option of a copy whose two places are far: at which of the three machines it counts. Such a
//! copy runs at one of the far ends, whose own configuration does not count; so all that was said goes along as words.

use crate::args::copy::CopyArgs;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::ffi::{OsStr, OsString};

/// They count where the copy runs, and go along if they say more than their defaults.
const ALONG: &[&str] = &[
    "bwlimit",
    "cca",
    "check",
    "chunk",
    "cipher",
    "class",
    "compress",
    "compress_always",
    "concurrency",
    "copy_links",
    "delete",
    "depth",
    "devices",
    "direct",
    "dry_run",
    "dscp",
    "find_renames",
    "ignore_existing",
    "io_depth",
    "ionice",
    "ipv4",
    "ipv6",
    "json",
    "ktls",
    "max_delete",
    "memory",
    "near_ports",
    "nice",
    "no_io_uring",
    "no_owner",
    "no_perms",
    "no_profile",
    "no_times",
    "no_tune",
    "no_xattrs",
    "one_file_system",
    "order",
    "patience",
    "quiet",
    "remove_source_files",
    "request",
    "stall_timeout",
    "streams",
    "tls_records",
    "update",
    "verbose",
    "verify",
    "via_ssh",
    "window",
];

/// So do these where they are typed: an environment or a file says them of the machine that they are on.
const TYPED_ALONG: &[&str] = &["bind", "via"];

/// The words of the options that go along as they are; those that name files are added by who reads these.
#[derive(Debug, Clone, Default)]
pub struct AlongArgs {
    /// One word for each option.
    pub words: Vec<OsString>,
}

impl Args for AlongArgs {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for AlongArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        // As they are without environment and files: what these say goes along.
        let plain = CopyArgs::augment_args(Command::new("cp"));
        let is_typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let goes = |id: &str| ALONG.contains(&id) || TYPED_ALONG.contains(&id) && is_typed(id);
        let along = plain.get_arguments().filter(|argument| goes(argument.get_id().as_str()));
        Ok(AlongArgs { words: along.flat_map(|argument| words(argument, matches)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What a copy was told of this option; nothing where that is its default.
fn words(option: &Arg, matches: &ArgMatches) -> Vec<OsString> {
    let Some(long) = option.get_long() else { return Vec::new() };
    let (id, long) = (option.get_id().as_str(), format!("--{long}"));
    match option.get_action() {
        ArgAction::SetTrue => vec![long.into(); usize::from(matches.get_flag(id))],
        ArgAction::Count => vec![long.into(); usize::from(matches.get_count(id))],
        _ => {
            let told: Vec<&OsStr> = matches.get_raw(id).into_iter().flatten().collect();
            let usual = option.get_default_values().iter().map(|value| value.as_os_str());
            if usual.eq(told.iter().copied()) {
                return Vec::new();
            }
            let word = |value: &&OsStr| {
                let mut word = OsString::from(format!("{long}="));
                word.push(value);
                word
            };
            told.iter().map(word).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::place::Places;
    use std::path::Path;

    /// The places; what is always done; how far sides are started or reached, and how is told of all copies of a
    /// command together; whether the command is a job.
    const STAYS: &[&str] = &[
        "and",
        "archive",
        "bootstrap",
        "detach",
        "far_path",
        "far_ports",
        "hard_links",
        "human_readable",
        "name",
        "perms",
        "places",
        "port",
        "progress",
        "recursive",
        "rsh",
        "sparse",
        "state",
        "to_ticket",
    ];
    /// `FilterArgs::along` makes these words, and the files that they name go along.
    const OF_FILTERS: &[&str] =
        &["exclude", "exclude_from", "files_from", "filter", "from0", "include", "include_from"];
    /// `commands/copy/errand.rs` has these: the part, files that go along and that come back.
    const OF_ERRANDS: &[&str] = &["part", "receipt", "report", "ticket"];
    /// With them the copy runs here.
    const HERE: &[&str] = &["stage"];

    /// A new option of a copy stands in one of these lists.
    #[test]
    fn each_option_of_a_copy_counts_in_one_place_if_both_its_places_are_far() {
        let command = config::command();
        for name in ["cp", "sync"] {
            let sub = command.find_subcommand(name).unwrap();
            let all: Vec<&str> = sub.get_arguments().map(|argument| argument.get_id().as_str()).collect();
            let lists = [ALONG, STAYS, OF_FILTERS, OF_ERRANDS, TYPED_ALONG, HERE];
            for id in &all {
                let times = lists.iter().filter(|list| list.contains(id)).count();
                assert_eq!(times, 1, "{name}: {id}");
            }
            assert!(lists.concat().iter().all(|id| all.contains(id)), "{name}");
        }
    }

    fn along(file: &str, words: &[&str]) -> Vec<String> {
        let command =
            config::apply(Path::new("config.toml"), file, config::command(), &mut Places::default()).unwrap();
        let words = [&["thalweg", "cp", "a:x", "b:y"], words].concat();
        let matches = command.try_get_matches_from(words).unwrap();
        let args = CopyArgs::from_arg_matches(matches.subcommand().unwrap().1).unwrap();
        let mut told: Vec<String> =
            args.along.words.iter().map(|word| word.to_str().unwrap().to_owned()).collect();
        told.sort_unstable();
        told
    }

    #[test]
    fn what_goes_along_is_what_counts_here_wherever_it_was_said_and_no_more() {
        assert!(along("", &[]).is_empty());
        // What only says how the far sides are reached, or is always done.
        assert!(along("rsh = \"my-ssh\"\n", &["-aHS", "--port", "22", "--progress"]).is_empty());
        assert_eq!(along("streams = 3\n[cp]\ncompress = true\n", &[]), ["--compress", "--streams=3"]);
        assert_eq!(along("streams = 3\n", &["--streams", "4"]), ["--streams=4"]);
        // The cards of this machine are not those of another one.
        assert!(along("bind = [\"eth2\"]\nvia = [\"h\"]\n", &[]).is_empty());
        let way = ["--via=10.1.0.7,h:7", "--bind", "eth2,10.1.0.8"];
        let words = ["--bind=10.1.0.8", "--bind=eth2", "--via=10.1.0.7", "--via=h:7"];
        assert_eq!(along("bind = [\"eth3\"]\n", &way), words);
        assert_eq!(
            along("", &["-vvn", "--nice", "-4", "--bwlimit", "50M", "--check", "digest", "--json"]),
            ["--bwlimit=50M", "--check=digest", "--dry-run", "--json", "--nice=-4", "--verbose", "--verbose"]
        );
        // They are read as the same.
        let words = along("", &["--order", "source=serial", "-q", "--patience", "2min"]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(along("", &words), words);
    }
}
