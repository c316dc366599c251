//! Options and commands of other movers (rsync, scp, rclone, bbcp), and what is said to who types them here: where the
//! same is had, or that it is not here. docs/guide/other-tools.md has the same rows.
//!
//! What asks for nothing that is not always done is accepted, and stands with the options of cp (`-a`, `-p`). Of those
//! that to GNU cp or scp mean something else some are accepted only among others (`-rlpt`): see [`refuse_alone`].

use crate::args;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Words of others, and what is said to them.
#[derive(Debug, Clone, Copy)]
pub struct Spelling {
    /// What is typed: words that mean the same.
    pub typed: &'static [&'static str],
    /// One line.
    pub told: &'static str,
}

const fn row(typed: &'static [&'static str], told: &'static str) -> Spelling {
    Spelling { typed, told }
}

/// Options that cp and sync do not have.
pub const OPTIONS: &[Spelling] = &[
    row(&["-c", "--checksum"], "`--check digest` compares content; what is sent is always verified"),
    row(&["-I", "--ignore-times"], "`--check nothing` sends everything again"),
    row(&["--size-only"], "not here; `--check digest` compares content"),
    row(
        &["-W", "--whole-file", "--no-whole-file", "--no-W"],
        "`--check digest` sends only what differs of a file, `--check nothing` sends everything again",
    ),
    row(
        &["-i", "--itemize-changes"],
        "`-v` names each entry, `--report FILE` says how each ended (scp's: `--rsh 'ssh -i KEY'`)",
    ),
    row(&["--stats"], "always on: the last line has the totals, and `--json` has all of them"),
    row(&["--info", "--debug"], "`-v` names each entry, `-vv` also those left alone"),
    row(
        &["--out-format", "--log-file", "--log-file-format"],
        "`--json` and `--report FILE` say how each entry ended",
    ),
    row(&["--stderr"], "not here: errors and progress go to stderr, what was done to stdout"),
    row(&["--outbuf"], "not here: what a copy tells is written at once, line by line"),
    row(&["-8", "--8-bit-output"], "not here: names are UTF-8 as they are told, and other bytes are escaped"),
    row(&["--no-motd"], "not needed: no daemon here has a greeting"),
    row(&["-V", "--version"], "`thalweg --version` says it"),
    row(&["--list-only"], "`thalweg ls -lR` lists"),
    row(
        &["-R"],
        "cp's goes into directories, which is always done; rsync's is not here: write the path in the destination",
    ),
    row(&["--relative"], "not here: write the path in the destination, where what is missing is made"),
    row(&["--no-implied-dirs"], "not here: directories above a name of `--files-from` come with it"),
    row(
        &["-d"],
        "cp's keeps links, which is done without `-L`; rsync's is not here: directories are copied with what is in them",
    ),
    row(
        &["--dirs", "--old-dirs", "--old-d"],
        "not here: directories are copied with what is in them (with `--files-from` only what it names)",
    ),
    row(
        &["--inc-recursive", "--i-r", "--no-inc-recursive", "--no-i-r"],
        "not here: copying always begins while the source is still searched",
    ),
    row(&["-m", "--prune-empty-dirs"], "not here: directories are copied, empty or not"),
    row(
        &["-k", "--copy-dirlinks"],
        "not here: links are copied as links, or with `-L` all as what they lead to",
    ),
    row(
        &["--copy-unsafe-links", "--safe-links", "--munge-links"],
        "not here: links are copied as links, wherever they lead, or with `-L` all as what they lead to",
    ),
    row(
        &["-K", "--keep-dirlinks", "--insecure-links", "--confine-root"],
        "not here: below a destination no link is followed, below a source with `-L`",
    ),
    row(
        &["-t"],
        "rsync's keeps times, which is always done; GNU cp's names the destination: here it is the last word",
    ),
    row(
        &["-l"],
        "rsync's keeps links, which is always done; GNU cp's makes hard links: not here (scp's: `--bwlimit`)",
    ),
    row(&["-o"], "rsync's keeps owners, which is always done (scp's: `--rsh 'ssh -o NAME=VALUE'`)"),
    row(&["-O", "--omit-dir-times", "--omit-link-times"], "not here: `--no-times` keeps none"),
    row(&["-J"], "not here: `--no-times` keeps none (scp's: `--rsh 'ssh -J HOST'`)"),
    row(
        &["-U", "--atimes", "-N", "--crtimes"],
        "not here: times of change are kept, those of access and of creation are not",
    ),
    row(&["--open-noatime"], "not here: where the source is mounted with noatime reading changes no time"),
    row(&["-@", "--modify-window"], "not here: `--check digest` compares content where times say too little"),
    row(&["-E", "--executability"], "always on (not with `--no-perms`): modes are kept"),
    row(&["--specials"], "`-D` copies FIFOs and device nodes"),
    row(&["--copy-devices", "--write-devices"], "not here: `-D` copies device nodes as nodes"),
    row(
        &["--no-D", "--no-devices", "--no-specials", "--drop-D"],
        "always so without `-D`: FIFOs and device nodes are left alone",
    ),
    row(&["--no-group", "--no-g"], "`--no-owner` keeps neither owners nor groups"),
    row(&["--no-X", "--no-acls", "--no-A"], "`--no-xattrs` keeps neither attributes nor ACLs"),
    row(&["--no-links", "--no-l"], "not here: links are copied as links"),
    row(
        &["--super", "--fake-super"],
        "not here: owners and devices are kept where the user at the destination may make them",
    ),
    row(&["--copy-as"], "not here: `USER@HOST:PATH` names who reads or writes at the far side"),
    row(
        &["--chown", "--chmod", "--usermap", "--groupmap"],
        "not here: owners and modes are the source's, or left to the destination: `--no-owner`, `--no-perms`",
    ),
    row(&["--numeric-ids"], "always on: owners and groups are kept by number"),
    row(&["--partial", "--append", "--append-verify"], "always on: the same command resumes a broken copy"),
    row(&["--inplace", "--delay-updates"], "not here: a file gets its name when it is whole and verified"),
    row(&["--preallocate"], "always on: a file has its room before it is written, unless it has holes"),
    row(
        &["-T", "--temp-dir", "--partial-dir"],
        "not here: what is unfinished lies beside its destination, in `.thalweg-staging` (or `.thalweg-staging-UID`)",
    ),
    row(&["--fsync"], "always on: what is reported as done is durable"),
    row(
        &["--mkpath"],
        "always on: what is missing of the destination's path is made, with the mode that `mkdir -p` would give it",
    ),
    row(
        &["--link-dest", "--copy-dest", "--compare-dest"],
        "not here: only what is at the destination is compared",
    ),
    row(
        &["-y", "--fuzzy", "--detect-renamed", "--track-renames"],
        "`--find-renames` copies what the destination has under another name",
    ),
    row(
        &["-b", "--backup", "--backup-dir", "--suffix"],
        "not here: what is replaced or deleted is gone; `-nv` names beforehand what would be copied or deleted",
    ),
    row(&["--remove-sent-files"], "`thalweg cp --remove-source-files` is it here"),
    row(
        &["--max-size", "--min-size", "--max-age", "--min-age"],
        "not here: `find` makes a list by size or age, and `--files-from LIST` copies it",
    ),
    row(
        &["--existing", "--ignore-non-existing"],
        "not here: what is missing is made; `--files-from LIST` copies only what it names",
    ),
    row(
        &["--ignore-missing-args", "--delete-missing-args"],
        "not here: a source that is missing is an error",
    ),
    row(&["--cvs-exclude"], "`--exclude PATTERN` leaves out names"),
    row(
        &["-F"],
        "`--filter` and `--exclude-from` have rules here, files in the tree do not (scp's: `--rsh 'ssh -F FILE'`)",
    ),
    row(&["-f"], "cp's replaces what is there, which is always done; rsync's is `--filter RULE` here"),
    row(
        &["--del", "--delete-before", "--delete-during", "--delete-delay", "--delete-after"],
        "`thalweg sync --delete` is it here",
    ),
    row(&["--force"], "`thalweg sync --delete` removes what stands in the way"),
    row(&["--delete-excluded"], "not here: what is excluded is never deleted; `thalweg rm` removes it"),
    row(&["--ignore-errors"], "not here: where the source cannot be listed in full nothing is deleted"),
    row(&["--timeout"], "`--stall-timeout TIME` dials again, `--patience TIME` gives up"),
    row(&["--contimeout"], "`--patience TIME` gives up without progress"),
    row(
        &["--stop-after", "--stop-at"],
        "not here: `timeout 10m thalweg cp SRC DST` ends it, and the same command resumes",
    ),
    row(&["--rsync-path"], "`--far-path PROGRAM` is it here"),
    row(&["-s", "--secluded-args", "--protect-args"], "always on: no shell reads names (bbcp's: --streams)"),
    row(&["--old-args"], "not here: no shell reads names"),
    row(&["-M", "--remote-option"], "not here: options are for both sides"),
    row(&["--trust-sender"], "not here: names that the far side sends are always checked"),
    row(&["--blocking-io", "--protocol"], "not needed: both sides agree by themselves"),
    row(&["--iconv"], "not here: names are bytes, and stay as they are"),
    row(&["--password-file", "--early-input"], "`--ticket FILE` is how a daemon knows you"),
    row(&["--address"], "`--bind ADDRESS` is it here"),
    row(&["--sockopts"], "`--window SIZE`, `--cca NAME` and `--dscp DSCP` are those there are here"),
    row(
        &["--write-batch", "--only-write-batch", "--read-batch"],
        "not here: `--and` makes further copies at the same time",
    ),
    row(&["--max-alloc"], "`--memory SIZE` is it here"),
    row(
        &["-B", "--block-size"],
        "`--chunk SIZE` is what is sent and verified as one (scp's: `--rsh 'ssh -o BatchMode=yes'`)",
    ),
    row(
        &["--checksum-choice", "--cc", "--checksum-seed"],
        "not here: content is always compared and verified by BLAKE3",
    ),
    row(&["-C"], "`-z` compresses where it pays (scp's); `--exclude PATTERN` leaves out names (rsync's)"),
    row(
        &[
            "--compress-level",
            "--zl",
            "--compress-choice",
            "--zc",
            "--compress-threads",
            "--zt",
            "--skip-compress",
        ],
        "`-z` compresses where it pays",
    ),
    row(&["-w"], "`--window SIZE` is it here (bbcp's)"),
    row(&["--transfers", "--checkers"], "`--concurrency N` is how many files are in flight"),
    row(&["--multi-thread-streams", "--parallel"], "`--streams N` is it here"),
    row(&["--immutable"], "`--ignore-existing` leaves alone what is there"),
];

/// Options of cp and sync that stream and watch do not have.
pub const OF_COPIES: &[Spelling] = &[row(
    &["-L", "--copy-links"],
    "no link in a directory is followed; `thalweg cp -L` copies what links lead to",
)];

/// Commands that thalweg does not have.
pub const COMMANDS: &[Spelling] = &[
    row(
        &["mv", "move", "moveto"],
        "`thalweg cp --remove-source-files SRC DST` removes files that are verified at the destination",
    ),
    row(
        &["copy", "copyto", "rsync", "scp", "get", "put", "send", "fetch"],
        "`thalweg cp SRC DST`, each of which may be far",
    ),
    row(&["mirror"], "`thalweg sync --delete SRC DST` makes the destination the same"),
    row(&["rcat"], "`thalweg stream - DST` writes what stdin gives"),
    row(&["delete", "purge"], "`thalweg rm` removes files, `thalweg rm -r` trees"),
    row(&["size"], "`thalweg du` sums up the bytes"),
    row(&["lsl", "lsf", "lsd", "dir"], "`thalweg ls` lists, `thalweg ls -l` with sizes and times"),
    row(&["cmp", "diff", "cryptcheck"], "`thalweg check` compares two places by content"),
    row(&["checksum"], "`thalweg check --sums FILE PLACE` compares a place with a list of `b3sum`"),
    row(&["mkdir"], "not needed: what is missing of a destination's path is made"),
    row(&["daemon", "server"], "`thalweg serve` serves directories to other machines"),
];

fn told(rows: &[Spelling], typed: &str) -> Option<&'static str> {
    rows.iter().find(|row| row.typed.contains(&typed)).map(|row| row.told)
}

/// Among other letters (`-rlptgoD`) they are rsync's. Alone they are as often meant as GNU cp or scp have them, and the
/// next word, a value there, would be taken as a place.
const ALONE: [&str; 3] = ["-t", "-l", "-o"];

/// Refuses what is accepted only among other letters, of cp and sync.
///
/// # Errors
/// As of an option that a command does not have.
pub fn refuse_alone(command: &Command, words: &[OsString]) -> Result<(), clap::Error> {
    let name = args::command_in(words);
    let (Some(at), Some(sub)) = (args::command_at(words), command.find_subcommand(name)) else {
        return Ok(());
    };
    if !["cp", "sync"].contains(&name) {
        return Ok(());
    }
    // `--exclude -t` names a pattern.
    let takes_any = |word: &OsString| {
        let long = word.to_str().and_then(|word| word.strip_prefix("--"));
        sub.get_arguments().any(|option| {
            option.is_allow_hyphen_values_set() && option.get_long().is_some() && option.get_long() == long
        })
    };
    let options = || words[at..].windows(2).take_while(|pair| pair[1] != "--");
    // scp's; here it is progress, and the number would be a source.
    let is_port = |pair: &[OsString]| {
        pair[0] == "-P" && pair[1].to_str().is_some_and(|next| next.parse::<u16>().is_ok())
    };
    if let Some(pair) = options().find(|pair| is_port(pair)) {
        let port = pair[1].display();
        let why =
            format!("`-P {port}`: scp's port is `--port {port}` here; a file of that name is `./{port}`\n");
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, why));
    }
    let mut typed = options().filter(|pair| !takes_any(&pair[0])).filter_map(|pair| pair[1].to_str());
    let Some(typed) = typed.find(|word| ALONE.contains(word)) else { return Ok(()) };
    let why = format!("`{typed}` is no option of `{name}`: {}\n", told(OPTIONS, typed).unwrap_or_default());
    Err(clap::Error::raw(ErrorKind::UnknownArgument, why))
}

/// The same error, or what is to be said to who typed what another mover has. What is not for people is not proposed.
pub fn explained(mut error: clap::Error, command: &Command, words: &[OsString]) -> clap::Error {
    let name = args::command_in(words);
    let why = match error.kind() {
        ErrorKind::UnknownArgument if ["cp", "sync"].contains(&name) => {
            let typed = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            told(OPTIONS, typed).map(|told| format!("`{typed}` is no option of `{name}`: {told}\n"))
        }
        ErrorKind::UnknownArgument if ["stream", "watch"].contains(&name) => {
            let typed = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            told(OF_COPIES, typed).map(|told| format!("`{typed}` is no option of `{name}`: {told}\n"))
        }
        // Not one below a command.
        ErrorKind::InvalidSubcommand if text(&error, ContextKind::InvalidSubcommand) == Some(name) => {
            told(COMMANDS, name).map(|told| format!("`{name}` is no command: {told}\n"))
        }
        _ => None,
    };
    if let Some(why) = why {
        return clap::Error::raw(error.kind(), why);
    }
    let is_hidden = |name: &String| command.find_subcommand(name).is_some_and(Command::is_hide_set);
    let proposed = error.get(ContextKind::SuggestedSubcommand);
    if matches!(proposed, Some(ContextValue::Strings(names)) if names.iter().any(is_hidden)) {
        error.remove(ContextKind::SuggestedSubcommand);
    }
    error
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, help_flag};

    fn said(words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let error = help_flag::parse(&config::command(), &words).expect_err("an error");
        explained(error, &config::command(), &words).to_string()
    }

    #[test]
    fn who_asks_a_stream_or_a_watch_to_follow_links_is_told_what_does() {
        for row in OF_COPIES {
            for &typed in row.typed {
                let stream = said(&["thalweg", "stream", typed, "a", "b"]);
                assert!(stream.contains(&format!("`{typed}` is no option of `stream`: ")), "{stream}");
                let watch = said(&["thalweg", "watch", typed, "a", "b", "--on-arrival", "true"]);
                assert!(watch.contains(&format!("`{typed}` is no option of `watch`: ")), "{watch}");
                assert!(stream.contains(row.told) && watch.contains(row.told), "{stream}{watch}");
            }
        }
    }

    #[test]
    fn no_word_has_two_answers_and_none_is_an_option_or_a_command_here() {
        let command = config::command();
        let cp = command.find_subcommand("cp").unwrap();
        let all: Vec<&str> = OPTIONS.iter().chain(COMMANDS).flat_map(|row| row.typed).copied().collect();
        for (at, word) in all.iter().enumerate() {
            assert!(!all[..at].contains(word), "{word} stands twice");
            let bare = word.trim_start_matches('-');
            let is_option = cp.get_arguments().any(|argument| {
                let longs = argument.get_long_and_visible_aliases().unwrap_or_default();
                let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
                match word.starts_with("--") {
                    true => longs.contains(&bare),
                    false => word.starts_with('-') && shorts.iter().any(|short| short.to_string() == bare),
                }
            });
            assert!(!is_option && command.find_subcommand(word).is_none(), "{word}");
        }
    }

    /// What `rsync --help` lists (3.5.0).
    const OF_RSYNC: &str = "
        --verbose -v --info --debug --stderr --quiet -q --no-motd --checksum -c --archive -a --no-D --recursive -r
        --inc-recursive --i-r --no-inc-recursive --no-i-r --relative -R --no-implied-dirs --backup -b --backup-dir
        --suffix --update -u --inplace --append --append-verify --dirs -d --old-dirs --old-d --mkpath --links -l
        --copy-links -L --copy-unsafe-links --safe-links --insecure-links --confine-root --munge-links
        --copy-dirlinks -k --keep-dirlinks -K --hard-links -H --perms -p --executability -E --chmod --acls -A
        --xattrs -X --owner -o --group -g --devices --copy-devices --write-devices --specials --drop-D -D --times -t
        --atimes -U --open-noatime --crtimes -N --omit-dir-times -O --omit-link-times -J --super --fake-super
        --sparse -S --preallocate --dry-run -n --whole-file -W --no-whole-file --no-W --checksum-choice --cc
        --one-file-system -x --block-size -B --rsh -e --rsync-path --existing --ignore-non-existing
        --ignore-existing --remove-source-files --del --delete --delete-before --delete-during --delete-delay
        --delete-after --delete-excluded --ignore-missing-args --delete-missing-args --ignore-errors --force
        --max-delete --max-size --min-size --max-alloc --partial --partial-dir --delay-updates --prune-empty-dirs -m
        --numeric-ids --usermap --groupmap --chown --timeout --contimeout --ignore-times -I --size-only
        --modify-window -@ --temp-dir -T --fuzzy -y --compare-dest --copy-dest --link-dest --compress -z
        --compress-choice --zc --compress-level --zl --compress-threads --zt --skip-compress --cvs-exclude -C
        --filter -f -F --exclude --exclude-from --include --include-from --files-from --from0 -0 --old-args
        --secluded-args -s --trust-sender --copy-as --address --port --sockopts --blocking-io --outbuf --stats
        --8-bit-output -8 --human-readable -h --progress -P --itemize-changes -i --remote-option -M --out-format
        --log-file --log-file-format --password-file --early-input --list-only --bwlimit --stop-after --stop-at
        --fsync --write-batch --only-write-batch --read-batch --protocol --iconv --checksum-seed --ipv4 -4 --ipv6 -6
        --version -V --help";

    #[test]
    fn each_option_of_rsync_is_taken_or_told_of() {
        let mut sync = config::command().find_subcommand("sync").unwrap().clone();
        sync.build();
        for word in OF_RSYNC.split_whitespace() {
            let bare = word.trim_start_matches('-');
            let is_taken = sync.get_arguments().any(|argument| match word.starts_with("--") {
                true => {
                    let also = argument.get_all_aliases().unwrap_or_default();
                    argument.get_long() == Some(bare) || also.contains(&bare)
                }
                false => {
                    let also = argument.get_all_short_aliases().unwrap_or_default();
                    argument.get_short().into_iter().chain(also).any(|short| short.to_string() == bare)
                }
            });
            assert!(is_taken || told(OPTIONS, word).is_some(), "{word}");
        }
    }

    #[test]
    fn letters_that_others_mean_otherwise_are_refused_alone_and_accepted_among_others() {
        let refused = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            help_flag::parse(&config::command(), &words).expect(line);
            refuse_alone(&config::command(), &words).err().map(|error| error.to_string())
        };
        for (line, typed) in [
            ("thalweg cp -t dst a q", "-t"),
            ("thalweg --config file cp a b -l", "-l"),
            ("thalweg sync -l 8000 a b", "-l"),
            ("thalweg cp -r -o X=Y a b", "-o"),
            ("thalweg cp --exclude x -t a b", "-t"),
        ] {
            let said = refused(line).expect(line);
            assert!(said.contains(&format!("`{typed}` is no option of")), "{line}: {said}");
            assert!(said.contains(told(OPTIONS, typed).unwrap()), "{line}: {said}");
        }
        for line in [
            "thalweg cp -rlptgoD a b",
            "thalweg cp -pt -p -g -X -A a b",
            "thalweg cp --exclude -t a b",
            "thalweg cp a -- -t -l",
            "thalweg ls -l a",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
        assert!(ALONE.iter().all(|typed| told(OPTIONS, typed).is_some()));
    }

    #[test]
    fn what_is_not_for_people_is_not_proposed() {
        let text = said(&["thalweg", "moverr"]);
        assert!(text.contains("moverr") && !text.contains("'mover'"), "{text}");
        assert!(said(&["thalweg", "strem"]).contains("stream"));
        // A command below a command is another's.
        assert!(!said(&["thalweg", "frames", "copy"]).contains("thalweg cp"));
        assert!(!said(&["thalweg", "ls", "--checksum"]).contains("--check digest"));
    }
}
