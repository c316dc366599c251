//! How the options of a command stand in its help: under which heading, and which are left out of `-h`, which is to be
//! about a screen.
//!
//! By name, because commands share options.

use clap::{Arg, Command};

/// A heading, the options that `-h` shows under it, and those that only `--help` shows.
type Heading = (&'static str, &'static [&'static str], &'static [&'static str]);

/// Commands that move data, or say how they would be moved.
const COPIES: [&str; 7] = ["cp", "sync", "stream", "watch", "probe", "predict", "tune"];
/// Commands that only ask.
const ASKS: [&str; 7] = ["verify", "check", "ls", "du", "cat", "rm", "slots"];

const REACHING: Heading = (
    "Reaching the far side",
    &["ticket", "rsh", "bootstrap", "stall-timeout", "patience"],
    &["to-ticket", "port", "far-path", "far-ports", "near-ports", "via-ssh", "ipv4", "ipv6", "state"],
);

const OF_COPIES: [Heading; 8] = [
    (
        "What to copy",
        &[
            "update",
            "ignore-existing",
            "one-file-system",
            "delete",
            "max-delete",
            "include",
            "exclude",
            "files-from",
        ],
        &[
            "archive",
            "recursive",
            "copy-links",
            "hard-links",
            "sparse",
            "perms",
            "no-perms",
            "no-owner",
            "no-times",
            "no-xattrs",
            "devices",
            "part",
            "remove-source-files",
            "filter",
            "include-from",
            "exclude-from",
            "from0",
            "check",
            "find-renames",
        ],
    ),
    (
        "How fast",
        &["compress", "bwlimit", "streams"],
        &[
            "class",
            "nice",
            "ionice",
            "no-tune",
            "no-profile",
            "concurrency",
            "depth",
            "chunk",
            "request",
            "window",
            "memory",
        ],
    ),
    ("Verification", &["verify", "receipt"], &[]),
    ("Disk", &[], &["io-depth", "direct", "order", "no-io-uring", "stage"]),
    ("Network", &[], &["dscp", "via", "bind", "cca", "cipher", "ktls", "tls-records"]),
    REACHING,
    ("Output", &["verbose", "quiet", "progress", "report", "svg", "json"], &["human-readable"]),
    ("Job", &[], &["detach", "name"]),
];

const OF_SUITES: [Heading; 3] = [
    ("How much", &["budget", "runs", "time"], &["max-files", "seed", "stall", "target"]),
    ("Emulated path", &["rtt", "rate", "loss"], &[]),
    ("Output", &["out", "quiet", "json"], &[]),
];

/// The command line with its help in order. (Of many at once: what changes one subcommand puts it at the end.)
pub fn arranged(command: Command) -> Command {
    command.mut_subcommands(|sub| {
        let sub = match sub.get_name() {
            name if COPIES.contains(&name) => under(sub, &OF_COPIES),
            name if ASKS.contains(&name) => under(sub, &[REACHING]),
            "bench" => under(sub, &OF_SUITES),
            _ => sub,
        };
        match sub.get_name() {
            // It has them to refuse them, with the name of the command that takes them.
            "cp" => sub
                .mut_arg("delete", |argument| argument.hide(true))
                .mut_arg("max_delete", |argument| argument.hide(true))
                .override_usage("thalweg cp [OPTIONS] <SRC>... <DST>"),
            "sync" => sub.override_usage("thalweg sync [OPTIONS] <SRC>... <DST>"),
            // Likewise: it comes with the filters, and a watch takes what comes.
            "watch" => sub.mut_arg("files_from", |argument| argument.hide(true)),
            "frames" => sub.mut_subcommands(|sub| match sub.get_name() {
                "push" => sub.override_usage("thalweg frames push [OPTIONS] <FILE>... <PLACE>"),
                _ => sub,
            }),
            _ => sub,
        }
    })
}

fn under(command: Command, headings: &'static [Heading]) -> Command {
    command.mut_args(|argument| place(argument, headings)).mut_subcommands(|sub| under(sub, headings))
}

fn place(argument: Arg, headings: &[Heading]) -> Arg {
    let Some(option) = argument.get_long() else { return argument };
    let has = |options: &[&str]| options.contains(&option);
    match headings.iter().find(|(_, often, seldom)| has(often) || has(seldom)) {
        Some((heading, _, seldom)) => {
            let is_seldom = has(seldom);
            argument.help_heading(*heading).hide_short_help(is_seldom)
        }
        None => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn of(name: &str) -> Command {
        config::command().find_subcommand(name).unwrap().clone().term_width(100)
    }

    /// What is new stands under a heading; what belongs to none stands in this list.
    #[test]
    fn every_option_of_a_copy_stands_under_a_heading_and_every_name_in_one_is_an_option() {
        let plain = ["and", "compress-always", "dry-run"];
        for name in ["cp", "sync"] {
            for argument in of(name).get_arguments() {
                let Some(long) = argument.get_long() else { continue };
                assert_eq!(argument.get_help_heading().is_none(), plain.contains(&long), "{name} --{long}");
            }
        }
        let all = config::command();
        let has = |names: &[&str], option: &str| {
            let commands = all.get_subcommands().filter(|sub| names.contains(&sub.get_name()));
            let commands = commands.flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
            commands.flat_map(Command::get_arguments).any(|argument| argument.get_long() == Some(option))
        };
        for (names, headings) in
            [(&COPIES[..], &OF_COPIES[..]), (&ASKS[..], &[REACHING][..]), (&["bench"][..], &OF_SUITES[..])]
        {
            for (heading, often, seldom) in headings {
                // Who only asks has no link to lose.
                let options = often.iter().chain(*seldom).filter(|_| names != ASKS);
                options.for_each(|option| assert!(has(names, option), "{heading}: --{option}"));
            }
        }
    }

    #[test]
    fn the_short_help_of_a_copy_is_about_a_screen_and_the_long_one_has_everything() {
        for name in ["cp", "sync"] {
            let (short, long) = (of(name).render_help().to_string(), of(name).render_long_help().to_string());
            assert!(short.lines().count() <= 65, "{} lines: {short}", short.lines().count());
            for (heading, often, seldom) in &OF_COPIES {
                assert!(long.contains(&format!("\n{heading}:\n")), "{heading}: {long}");
                for option in often.iter().chain(*seldom).filter(|option| **option != "svg") {
                    let is_refused = name == "cp" && option.ends_with("delete");
                    assert_eq!(!is_refused, long.contains(&format!("--{option}")), "{name} --{option}");
                }
            }
            assert!(!short.contains("--tls-records") && short.contains("--exclude"), "{short}");
        }
    }

    #[test]
    fn the_help_of_a_watch_has_the_filters_but_no_list_which_it_refuses() {
        let long = of("watch").render_long_help().to_string();
        assert!(long.contains("--exclude-from") && !long.contains("--files-from"), "{long}");
    }

    #[test]
    fn the_short_help_of_what_keeps_a_link_says_how_long_it_waits() {
        for name in ["cp", "sync", "stream", "watch"] {
            let short = of(name).render_help().to_string();
            for option in ["--stall-timeout <TIME>", "--patience <TIME>"] {
                assert!(short.contains(option), "{name} {option}: {short}");
            }
        }
    }

    #[test]
    fn commands_stand_in_the_order_in_which_they_are_declared() {
        let names = |command: &Command| -> Vec<String> {
            let below = |sub: &Command| {
                sub.get_subcommands().map(|sub| sub.get_name().to_owned()).collect::<Vec<_>>()
            };
            command
                .get_subcommands()
                .flat_map(|sub| [vec![sub.get_name().to_owned()], below(sub)].concat())
                .collect()
        };
        assert_eq!(names(&config::command()), names(&<crate::args::Args as clap::CommandFactory>::command()));
    }

    #[test]
    fn a_usage_names_sources_and_the_destination_once() {
        for (words, usage) in [
            (&["cp"][..], "thalweg cp [OPTIONS] <SRC>... <DST>"),
            (&["frames", "push"], "thalweg frames push [OPTIONS] <FILE>... <PLACE>"),
        ] {
            let mut command = config::command();
            for word in words {
                command = command.find_subcommand(word).unwrap().clone();
            }
            assert_eq!(command.render_usage().to_string(), format!("Usage: {usage}"));
        }
    }
}
