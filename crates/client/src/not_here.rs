//! What is asked for and not here: a copy between two daemons of which none acts, two far places for what is no copy,
//! several hosts where one is meant, places of other kinds. Each failure says what was asked, why it is not done, and
//! the command that does it instead.

use crate::far_movers::{Whom, is_same_mover};
use crate::place::Place;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use thalweg_mover::failure::{Failure, FailureKind, Reason};
use thalweg_mover::link::ssh;
use thalweg_wire::message::PartOf;
use thalweg_wire::path::{Escaped, Sentence};

/// Why several hosts in one place are refused.
pub(crate) const SEVERAL_HOSTS: &str = "one place is at one host here: several share a copy of cp or sync, thalweg cp \
HOST1,HOST2:PATH DST, or a check of two places, and of places of the configuration each has a name, @NAME1,NAME2/PATH";

/// Why a part is not shared by several hosts: each has one of its own.
pub(crate) fn part_of_several(part: PartOf, hosts: usize) -> Failure {
    let cause = format!("part {part} is one host's, and {hosts} are named: name one, or leave out --part");
    Failure::new(FailureKind::Usage, "read the places", cause)
}

/// Why `-` is no place.
pub(crate) const PIPE: &str = "a pipe is no place here: what stdin gives goes with `thalweg stream - DST`, and files \
come to stdout with `thalweg cat SRC` (a file of that name is `./-`)";

/// Why a stream does not come from a bucket.
pub(crate) const STREAM_FROM_BUCKET: &str =
    "an object is complete: `thalweg cat` prints one, and `thalweg cp` copies it";

/// Why a stream does not go into a bucket.
pub(crate) const STREAM_TO_BUCKET: &str = "an object is there only when it is whole: stream into a directory, and copy from \
there what is complete, with `thalweg cp` or `thalweg watch`";

/// Why `HOST::MODULE` is no place.
pub(crate) const RSYNC_MODULE: &str = "rsync's daemon speaks another protocol; the same host by ssh is HOST:PATH, \
and with `thalweg serve` there tw://HOST/EXPORT/PATH (a name that begins with a colon is HOST:./:NAME)";

/// Why `HOST:~NAME` is no place.
pub(crate) const HOME_OF_ANOTHER: &str = "homes of others are not looked up: give the whole path, HOST:/PATH (a name \
that begins with a tilde is HOST:./~NAME)";

/// Both places are far. Says which command to give, and where: at the far end that can be logged in to, else at that of
/// the source. `command` is what was asked for: `cp` and `sync` copy between them, of two daemons where one of them may
/// be sent to the other, so that who asks for such a copy by other means than the command is told the command.
pub(crate) fn both_far(command: &str, sources: &[Place], destination: &Place) -> Failure {
    let at = |end: &Place| match Whom::of(end) {
        Some(Whom::Ssh(host, None)) => host,
        // ssh takes this form too.
        Some(Whom::Ssh(host, port)) => Place::Ssh { host, port, path: b".".to_vec() }.to_string(),
        Some(Whom::Daemon(address, _)) => {
            let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
            Escaped(host.as_bytes()).to_string()
        }
        None => "here".to_owned(),
    };
    let is_ssh = |end: &Place| matches!(end, Place::Ssh { .. });
    let Some(first) = sources.first() else {
        return Failure::new(FailureKind::Unsupported, command, "both places are far");
    };
    let is_at_source = is_ssh(first) || !is_ssh(destination);
    if is_errand(command) && (is_ssh(first) || is_ssh(destination)) {
        let words: Vec<String> = sources.iter().chain([destination]).map(typed).collect();
        let cause = format!(
            "both places are far ({}, {}), and only the command copies between such: thalweg {command} {}",
            typed(first),
            typed(destination),
            words.join(" ")
        );
        return Failure::new(FailureKind::Unsupported, BETWEEN, cause).because(Reason::BothFar);
    }
    let host = at(if is_at_source { first } else { destination });
    let is_same_host = is_same_mover(first, destination);
    // Whoever logs in there finds the place of this side on its disk.
    let words: Vec<String> = sources
        .iter()
        .map(|source| (source, is_at_source || is_same_host))
        .chain([(destination, !is_at_source || is_same_host)])
        .map(|(place, is_there)| if is_there { there(place) } else { typed(place) })
        .collect();
    let why = match is_errand(command) {
        true => format!(
            "and `thalweg {command}` acts at one of them, which has to be reached by ssh: name it as HOST:PATH, or \
             pass the data through a directory here (--stage DIR), or log in"
        ),
        false => format!("and one end of `thalweg {command}` is on the machine where it is started. Log in"),
    };
    let mut cause = format!(
        "both places are far ({}, {}), {why} to {host}, and there: thalweg {command} {}",
        typed(first),
        typed(destination),
        words.join(" ")
    );
    let exports = sources.iter().chain([destination]).zip(&words).filter_map(|(place, word)| match place {
        Place::Daemon { export, .. } if word.starts_with("DIR") => {
            Some(Escaped(export.as_bytes()).to_string())
        }
        _ => None,
    });
    let mut exports: Vec<String> = exports.collect();
    exports.dedup();
    if !exports.is_empty() {
        // Written into a String: cannot fail.
        let _ = write!(cause, " (DIR is what the daemon there exports as {})", exports.join(", "));
    }
    Failure::new(FailureKind::Unsupported, BETWEEN, cause).because(Reason::BothFar)
}

/// Neither of two daemons may be sent to the other: who said so, each with its address, and why.
pub(crate) fn no_errands<'a>(
    command: &str,
    (sources, destination): (&[Place], &Place),
    refused: impl Iterator<Item = (&'a str, &'a Failure)>,
) -> Failure {
    let said = |(address, why): (&str, &Failure)| {
        format!("the daemon at {}: {}", Escaped(address.as_bytes()), Sentence(&why.cause))
    };
    let said: Vec<String> = refused.map(said).collect();
    let cause = format!(
        "{}. A daemon acts itself where its operator lets it be sent to the other one, by thalweg serve --errands HOST; {}",
        both_far(command, sources, destination).cause,
        said.join("; ")
    );
    Failure::new(FailureKind::Unsupported, BETWEEN, cause).because(Reason::NoErrands)
}

/// What fails where both places are far.
const BETWEEN: &str = "copy between far places";

/// Whether this command copies between two far places.
fn is_errand(command: &str) -> bool {
    matches!(command, "cp" | "sync")
}

/// Sources at several places. Says the command that copies from each at the same time.
pub(crate) fn several_places(sources: &[Place], destination: &Place) -> Failure {
    let mut groups: Vec<Vec<&Place>> = Vec::new();
    for source in sources {
        let is_together = |group: &&mut Vec<&Place>| are_together(group[0], source) && !is_alone(source);
        match groups.iter_mut().find(is_together) {
            Some(group) => group.push(source),
            None => groups.push(vec![source]),
        }
    }
    let mut cause = "all sources must be at one place".to_owned();
    if let Some(told) = sources.iter().find_map(named_here) {
        let _ = write!(cause, "; {told}");
    }
    let is_daemon = |place: &Place| matches!(place, Place::Daemon { .. });
    let is_copied = |group: &Vec<&Place>| !is_daemon(group[0]) || !is_daemon(destination);
    if groups.iter().all(is_copied) {
        let copy = |group: &Vec<&Place>| {
            let words: Vec<String> = group.iter().copied().chain([destination]).map(typed).collect();
            words.join(" ")
        };
        let copies: Vec<String> = groups.iter().map(copy).collect();
        let _ = write!(cause, "; several copies at the same time are: thalweg cp {}", copies.join(" --and "));
    }
    Failure::new(FailureKind::Usage, "read the places", cause)
}

/// What is said of a place by ssh whose words are also the name of a file here, which has a colon in it.
fn named_here(place: &Place) -> Option<String> {
    let Place::Ssh { host, port: None, path } = place else { return None };
    let word = [host.as_bytes(), b":", path].concat();
    Path::new(OsStr::from_bytes(&word)).symlink_metadata().ok()?;
    Some(format!("a file of this name is here: write {}", quoted(&[&b"./"[..], &word].concat())))
}

/// What becomes of a failure to reach a place by ssh: where a file here may have been meant, that is said, and not what
/// is to be done about ssh.
pub(crate) fn not_reached(place: &Place, failure: Failure) -> Failure {
    match named_here(place).filter(|_| failure.reason == Reason::SshEnded) {
        Some(told) => {
            Failure::new(FailureKind::NotFound, "find the place", format!("{}; {told}", failure.cause))
        }
        None => failure,
    }
}

/// Whether it is the only source of its copy: its content is made here, without a disk.
pub(crate) fn is_alone(place: &Place) -> bool {
    matches!(place, Place::Zero(_) | Place::Dataset(_) | Place::Simulated(_))
}

/// Whether one copy reads both, or one of them more than once: at one far mover, on this machine, or in buckets.
pub(crate) fn are_together(place: &Place, other: &Place) -> bool {
    Whom::of(place) == Whom::of(other)
        && is_alone(place) == is_alone(other)
        && place.is_in_bucket() == other.is_in_bucket()
}

/// Places in buckets that are sources of one copy, and do not give a name each: what is in several would be one.
pub(crate) fn no_names_of_their_own(cause: &str) -> Failure {
    let cause = format!(
        "{cause}: of several places in buckets each gives a name of its own, without a slash at its end; copy one after \
         the other"
    );
    Failure::new(FailureKind::Usage, "read the places", cause)
}

/// Why a place `SCHEME://...` is not one of ours, and what does it instead.
pub(crate) fn foreign(text: &[u8]) -> String {
    let shown = quoted(text);
    let all = Escaped(text).to_string();
    let (scheme, rest) = all.split_once("://").unwrap_or((&all, ""));
    // A shell takes what a download brought before it broke for all of it, and says so only with pipefail.
    let from = |out: &str| {
        format!(
            "what it gives goes through a pipe, and is verified from there on: set -o pipefail; {out} | thalweg stream - DST \
             (without pipefail a download that breaks off counts as its end)"
        )
    };
    let piped = |out: &str, into: &str| {
        format!(
            "{}, or set -o pipefail; thalweg stream SRC - | {into} (use what is written there only if this ends with 0)",
            from(out)
        )
    };
    let object = quoted(format!("s3://{rest}").as_bytes());
    let advice = match scheme.to_ascii_lowercase().as_str() {
        "s3" | "s3a" | "s3n" => format!("a place in a bucket is written {object}"),
        "gs" | "gcs" => format!(
            "Google's store speaks S3's protocol, too: write {object}, with AWS_ENDPOINT_URL=https://storage.googleapis.com (or \
             `endpoint` of a [place.NAME]) and the HMAC keys of an account as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ),
        "oss" | "cos" | "obs" | "b2" | "r2" | "oci" => format!(
            "such a store speaks S3's protocol, too: write {object}, with the URL of its S3 endpoint as AWS_ENDPOINT_URL, or as \
             `endpoint` of a [place.NAME]"
        ),
        "az" | "azure" | "abfs" | "abfss" | "wasb" | "wasbs" | "adl" | "swift" => {
            format!(
                "object stores of this kind are not here; with rclone {}",
                piped("rclone cat REMOTE:PATH", "rclone rcat --size BYTES REMOTE:PATH")
            )
        }
        "hdfs" | "webhdfs" => format!(
            "Hadoop's file system is not here; with its own program {}",
            piped(&format!("hdfs dfs -cat {shown}"), &format!("hdfs dfs -put - {shown}"))
        ),
        "http" | "https" | "ftp" | "ftps" => {
            format!("web servers are not here; {}", from(&format!("curl -fL {shown}")))
        }
        "scp" | "sftp" => format!("by ssh the same host is {}", quoted(format!("ssh://{rest}").as_bytes())),
        "rsync" => "rsync's daemon speaks another protocol; the same host by ssh is HOST:PATH, and with `thalweg serve` there \
                    tw://HOST/EXPORT/PATH"
            .to_owned(),
        "gsiftp" | "sshftp" | "ftp+gsi" | "globus" | "root" | "roots" | "xroot" | "xroots" | "dav" | "davs"
        | "srm" | "fdt" | "bbcp" => "that server speaks another protocol; the same host by ssh is HOST:PATH, and with `thalweg \
                                     serve` there tw://HOST/EXPORT/PATH"
            .to_owned(),
        "nfs" | "smb" | "cifs" | "lustre" | "gpfs" => {
            "mount it, and name the path where it is mounted".to_owned()
        }
        "file" => {
            let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
            format!("a path of this machine is written as it is: {}", quoted(path.as_bytes()))
        }
        _ => "this kind of place is not supported".to_owned(),
    };
    format!("{advice} (known are tw://, ssh://, HOST:PATH, s3:// and paths of this machine)")
}

/// A place as a word of a command line.
fn typed(place: &Place) -> String {
    quoted(place.to_string().as_bytes())
}

/// The same place, named by who is logged in at its host.
fn there(place: &Place) -> String {
    match place {
        Place::Ssh { path, .. } => {
            // From the home there, in which a login begins.
            let path = crate::ssh::place(path.clone()).path;
            let is_read_otherwise =
                path.contains(&b':') || matches!(path.first(), None | Some(b'-' | b'@' | b'~'));
            let is_odd = !path.starts_with(b"/") && is_read_otherwise;
            quoted(&if is_odd { [&b"./"[..], &path].concat() } else { path })
        }
        Place::Daemon { path, .. } if path.is_empty() => "DIR".to_owned(),
        Place::Daemon { path, .. } => format!("DIR/{}", quoted(Escaped(path).to_string().as_bytes())),
        place => typed(place),
    }
}

/// A word that a POSIX shell reads as it is. Bytes that no terminal shows are escaped, and then it is not exact.
fn quoted(word: &[u8]) -> String {
    String::from_utf8_lossy(&ssh::quote(Escaped(word).to_string().as_bytes())).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Places;
    use std::ffi::OsStr;

    fn place(text: &str) -> Place {
        Place::parse(OsStr::new(text), &Places::default()).unwrap()
    }

    fn between(command: &str, sources: &[&str], destination: &str) -> String {
        let sources: Vec<Place> = sources.iter().map(|source| place(source)).collect();
        both_far(command, &sources, &place(destination)).cause
    }

    #[test]
    fn two_far_places_are_one_near_and_one_far_for_who_logs_in_at_one() {
        for (sources, destination, told) in [
            (&["h1:x"][..], "me@h2:y", "Log in to h1, and there: thalweg predict x me@h2:y"),
            (&["me@h1:x", "me@h1:a b"], "h2:", "Log in to me@h1, and there: thalweg predict x 'a b' h2:"),
            (
                &["tw://a/data/run7"],
                "me@h2:y",
                "Log in to me@h2, and there: thalweg predict tw://a:8487/data/run7 y",
            ),
            (
                &["tw://a/data/run7"],
                "tw://b:9/in",
                "Log in to a, and there: thalweg predict DIR/run7 tw://b:9/in/ (DIR is what the daemon there exports as data)",
            ),
            (&["h1:x"], "h1:y/", "Log in to h1, and there: thalweg predict x y/"),
            (&["h1:x/"], "h1:-y", "Log in to h1, and there: thalweg predict x/ ./-y"),
            (&["h1:a:b"], "tw://c/d/", "Log in to h1, and there: thalweg predict ./a:b tw://c:8487/d/"),
            (
                &["tw://a/one/x"],
                "tw://a/two/",
                "Log in to a, and there: thalweg predict DIR/x DIR (DIR is what the daemon there exports as one, two)",
            ),
            (
                &["h1:it's"],
                "ssh://me@[::1]:22/y",
                r"Log in to h1, and there: thalweg predict 'it'\''s' 'ssh://me@[::1]:22/y'",
            ),
            // Two tunnels, to two machines.
            (
                &["ssh://bob@127.0.0.1:2201/~/x1"],
                "ssh://bob@127.0.0.1:2202/~/x9/",
                "Log in to ssh://bob@127.0.0.1:2201, and there: thalweg predict x1 'ssh://bob@127.0.0.1:2202/~/x9/'",
            ),
            (
                &["ssh://me@[::1]:22/~/a b", "ssh://me@[::1]:22/~/~/c"],
                "ssh://me@[::1]:22/~/",
                "Log in to ssh://me@[::1]:22, and there: thalweg predict 'a b' './~/c' ./",
            ),
            (&["ssh://h1/~/-x"], "h2:y", "Log in to h1, and there: thalweg predict ./-x h2:y"),
            (
                &["tw://a:1/one/x"],
                "tw://a:2/two/",
                "Log in to a, and there: thalweg predict DIR/x tw://a:2/two/ (DIR is what the daemon there exports as one)",
            ),
        ] {
            let cause = between("predict", sources, destination);
            assert!(cause.ends_with(told), "{sources:?} {destination}: {cause}");
            assert!(cause.starts_with("both places are far"), "{cause}");
        }
    }

    #[test]
    fn a_copy_between_two_daemons_needs_one_end_by_ssh_and_one_by_other_means_the_command() {
        for command in ["cp", "sync"] {
            let cause = between(command, &["tw://a/data/run7"], "tw://b:9/in");
            assert!(cause.starts_with("both places are far"), "{cause}");
            assert!(cause.contains("name it as HOST:PATH") && cause.contains("--stage DIR"), "{cause}");
            let told = format!(
                "log in to a, and there: thalweg {command} DIR/run7 tw://b:9/in/ (DIR is what the daemon there exports as data)"
            );
            assert!(cause.ends_with(&told), "{cause}");
            let cause = between(command, &["h1:x", "h1:a b"], "tw://b/in/y");
            let told = format!(
                "only the command copies between such: thalweg {command} h1:x 'h1:a b' tw://b:8487/in/y"
            );
            assert!(cause.ends_with(&told), "{cause}");
        }
    }

    /// What is told to be typed is read as the places that were meant.
    #[test]
    fn places_are_written_as_they_are_read() {
        for text in ["h:", "h:a/b", "me@h:/x/", "me@[::1]:x", "[::1]:/x", "ssh://me@[::1]:22/x", "ssh://h:22"]
        {
            let named = place(text);
            let words = ssh::split_words(typed(&named).as_bytes()).unwrap();
            assert_eq!(Place::parse(&words[0], &Places::default()).unwrap(), named, "{text}");
            assert_eq!(words.len(), 1, "{text}");
        }
    }

    #[test]
    fn sources_at_several_places_are_several_copies_at_the_same_time() {
        let cause = |sources: &[&str], destination: &str| {
            let sources: Vec<Place> = sources.iter().map(|source| place(source)).collect();
            several_places(&sources, &place(destination)).cause
        };
        assert!(
            cause(&["h1:x", "h2:y", "h1:z"], "here/")
                .ends_with("thalweg cp h1:x h1:z here/ --and h2:y here/")
        );
        assert!(cause(&["zero:1", "zero:1"], "a").ends_with("thalweg cp zero:1 a --and zero:1 a"));
        assert!(cause(&["s3://one/x", "here"], "a").ends_with("thalweg cp s3://one/x a --and here a"));
        assert!(cause(&["h1:x", "here"], "h2:y").ends_with("thalweg cp h1:x h2:y --and here h2:y"));
        // Between two daemons there is none.
        assert_eq!(cause(&["tw://a/x/y", "here"], "tw://b/x"), "all sources must be at one place");
    }

    #[test]
    fn other_kinds_of_places_are_told_what_does_it_instead() {
        for (text, told) in [
            ("S3://b/a key", "written 's3://b/a key' "),
            ("s3a://b/k", "written s3://b/k "),
            ("gs://b/k", "write s3://b/k, with AWS_ENDPOINT_URL=https://storage.googleapis.com"),
            ("gcs://b/k", "write s3://b/k, with AWS_ENDPOINT_URL=https://storage.googleapis.com"),
            ("cos://b/k", "write s3://b/k, with the URL of its S3 endpoint"),
            ("az://b/k", "set -o pipefail; rclone cat REMOTE:PATH | thalweg stream - DST"),
            ("az://b/k", "set -o pipefail; thalweg stream SRC - | rclone rcat --size BYTES REMOTE:PATH"),
            ("hdfs://h/k", "set -o pipefail; thalweg stream SRC - | hdfs dfs -put - hdfs://h/k"),
            ("https://h/x?y=1&z", "set -o pipefail; curl -fL 'https://h/x?y=1&z' | thalweg stream - DST"),
            ("sftp://me@h:22/x", "by ssh the same host is ssh://me@h:22/x"),
            ("file:///etc/passwd", "as it is: /etc/passwd"),
            ("file://localhost/etc/passwd", "as it is: /etc/passwd"),
            ("rsync://h/m", "tw://HOST/EXPORT/PATH"),
            ("gsiftp://h/m", "tw://HOST/EXPORT/PATH"),
            ("NFS://h/m", "mount it"),
            ("thalweg://h/x", "this kind of place is not supported"),
        ] {
            let cause = foreign(text.as_bytes());
            assert!(cause.contains(told), "{text}: {cause}");
            assert!(cause.contains("(known are tw://"), "{text}: {cause}");
        }
    }
}
