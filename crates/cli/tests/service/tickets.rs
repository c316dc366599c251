//! Users of a daemon: `thalweg ticket`. Promises 114 and 115 of SPEC.md.

use super::support::job::{Running, journal_bytes, with};
use super::support::{Daemon, Scratch, noise, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use thalweg_mover::link::Ticket;

const LIMIT: Duration = Duration::from_secs(120);

/// A daemon with the exports `a` and `b`, with a file in each, and with a log.
fn stand() -> (Scratch, Daemon) {
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        std::fs::write(scratch.path(name).join(format!("file-{name}")), noise(1, 100_000)).unwrap();
    }
    let exports = [("a", scratch.path("a")), ("b", scratch.path("b"))];
    let exports: Vec<(&str, &Path)> = exports.iter().map(|(name, path)| (*name, path.as_path())).collect();
    let daemon = scratch.daemon_with(&exports, &["--log-format", "json"]);
    (scratch, daemon)
}

/// `thalweg ticket …` for that daemon.
fn asks(scratch: &Scratch, words: &[&str]) -> Output {
    let state = scratch.path("server-state");
    let command = with(with(scratch.thalweg(), ["ticket"]), words);
    let mut command = with(with(command, ["--state"]), [state]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

/// A new ticket of this name, with these options.
fn ticket(scratch: &Scratch, name: &str, words: &[&str]) -> PathBuf {
    let file = scratch.path(&format!("{name}.ticket"));
    let made = asks(scratch, &[&["new", name, "-o", file.to_str().unwrap()][..], words].concat());
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    file
}

/// A command with a ticket: its exit code, and what it said.
fn run(scratch: &Scratch, ticket: &Path, words: &[&str]) -> (Option<i32>, String) {
    let (command, rest) = words.split_first().unwrap();
    let words: Vec<&str> = [&[*command, "--ticket", ticket.to_str().unwrap()][..], rest].concat();
    let ran = scratch.run(words);
    let said = [ran.stdout.as_slice(), &ran.stderr].concat();
    (ran.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn each_user_sees_what_the_ticket_names_and_does_no_more_there_than_it_says() {
    let (scratch, daemon) = stand();
    std::fs::create_dir(scratch.path("a/run7")).unwrap();
    std::fs::write(scratch.path("a/run7/inside"), b"x").unwrap();
    std::fs::write(scratch.path("new"), b"new").unwrap();
    let new = scratch.path("new");
    let new = new.to_str().unwrap();
    let all = format!("tw://{}/", daemon.address());
    let alice = ticket(&scratch, "alice", &["--export", "a"]);
    let bob = ticket(&scratch, "bob", &["--export", "b:ro"]);
    let carol = ticket(&scratch, "carol", &["--export", "a:no-delete", "--below", "run7"]);
    let sees = |ticket: &Path| {
        let (code, said) = run(&scratch, ticket, &["ls", &all]);
        assert_eq!(code, Some(0), "{said}");
        ["a", "b"].map(|export| said.lines().any(|line| line.trim_end_matches('/') == export))
    };
    assert_eq!((sees(&alice), sees(&bob), sees(&daemon.ticket)), ([true, false], [false, true], [true; 2]));
    let (code, said) = run(&scratch, &alice, &["ls", &daemon.place("b", "")]);
    assert!(code == Some(3) && said.contains("there is no export `b`"), "{said}");
    // May read only.
    let back = scratch.path("back");
    let there = daemon.place("b", "file-b");
    assert_eq!(run(&scratch, &bob, &["cp", "-q", &there, back.to_str().unwrap()]).0, Some(0));
    let (code, said) = run(&scratch, &bob, &["cp", "-q", new, &daemon.place("b", "new")]);
    assert!(code == Some(3) && said.contains("read-only"), "{said}");
    assert!(!scratch.path("b/new").exists());
    // One directory is all of it.
    let (code, said) = run(&scratch, &carol, &["ls", &daemon.place("a", "")]);
    assert!(code == Some(0) && said.contains("inside") && !said.contains("file-a"), "{said}");
    assert_eq!(run(&scratch, &carol, &["cp", "-q", new, &daemon.place("a", "new")]).0, Some(0));
    assert!(scratch.path("a/run7/new").exists() && !scratch.path("a/new").exists());
    let (code, said) = run(&scratch, &carol, &["rm", &daemon.place("a", "new")]);
    assert!(code == Some(3) && said.contains("no-delete"), "{said}");
    // What each did stands under the name.
    let state = scratch.path("server-state");
    let listed = scratch.ok(["why", "--list", "--state", state.to_str().unwrap()]);
    assert!(listed.contains("ticket bob") && listed.contains("ticket carol"), "{listed}");
    let logged = |name: &str, message: &str| {
        let log = scratch.server_log();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.any(|line| line["ticket"] == name && line["message"] == message)
    };
    assert!(wait_until(LIMIT, || logged("carol", "transfer done")), "{}", scratch.server_log());
    assert!(logged("alice", "session begun") && logged("owner", "session begun"));
    let used = asks(&scratch, &["list", "--json"]);
    let used: Vec<Value> = String::from_utf8_lossy(&used.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object"))
        .collect();
    assert!(used.len() == 3 && used.iter().all(|line| line["used_at"].is_u64()), "{used:?}");
    assert_eq!(used[2]["exports"][0]["below"], "run7", "{used:?}");
}

#[test]
fn a_ticket_that_is_revoked_ends_its_copy_with_words_and_the_same_command_goes_on_with_another() {
    let (scratch, daemon) = stand();
    std::fs::write(scratch.path("large"), noise(2, 24 << 20)).unwrap();
    let (large, to) = (scratch.path("large"), daemon.place("a", "large"));
    let copy = |ticket: &Path, more: &[&str]| {
        let words = ["cp", "--json", "--quiet", "--no-tune", "--chunk", "1MiB", "--ticket"];
        let command = with(with(scratch.thalweg(), words), [ticket]);
        with(with(with(command, more), [&large]), [&to])
    };
    let alice = ticket(&scratch, "alice", &["--export", "a"]);
    let running = Running::start(copy(&alice, &["--bwlimit", "4MB/s"]));
    let export = scratch.path("a");
    assert!(wait_until(LIMIT, || journal_bytes(&export) > 500), "{:?}", running.said());
    let revoked = asks(&scratch, &["revoke", "alice"]);
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    let ran = running.end(LIMIT).expect(3);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("the ticket `alice` was revoked on 2"), "{said}");
    // Its holder hears it again, and its name is not given again.
    let (code, said) = run(&scratch, &alice, &["ls", &daemon.place("a", "")]);
    assert!(code == Some(3) && said.contains("the ticket `alice` was revoked on 2"), "{said}");
    let again = scratch.path("again");
    let again = asks(&scratch, &["new", "alice", "-o", again.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(3));
    assert!(!scratch.path("again").exists());
    let other = ticket(&scratch, "alice-2", &["--export", "a"]);
    let ran = Running::start(copy(&other, &[])).end(LIMIT).expect(0);
    assert!(ran.number("bytes_resumed") > 0, "{}", ran.stdout);
    assert_eq!(std::fs::read(scratch.path("a/large")).unwrap(), noise(2, 24 << 20));
}

#[test]
fn a_ticket_that_expired_is_refused_with_the_day_and_one_of_another_daemon_is_not_known() {
    let (scratch, daemon) = stand();
    let all = format!("tw://{}/", daemon.address());
    let short = ticket(&scratch, "short", &["--expires", "1s"]);
    let mut told = String::new();
    let is_told = wait_until(LIMIT, || {
        let (code, said) = run(&scratch, &short, &["ls", &all]);
        told = said;
        code == Some(3)
    });
    assert!(is_told && told.contains("the ticket `short` expired on 2"), "{told}");
    let listed = asks(&scratch, &["list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).starts_with("short  expired  all exports"), "{listed:?}");
    let past = asks(&scratch, &["new", "past", "--expires", "2001-09-09", "-o", "/dev/null/no"]);
    assert_eq!(past.status.code(), Some(1), "it would let nobody in");
    let (elsewhere, other) = stand();
    let stranger = ticket(&elsewhere, "alice", &[]);
    assert_eq!(run(&scratch, &stranger, &["ls", &all]).0, Some(3));
    // Also where it names this daemon: then that refuses it.
    let (theirs, own) = (Ticket::read(&stranger).unwrap(), Ticket::read(&daemon.ticket).unwrap());
    let mixed = scratch.path("mixed.ticket");
    Ticket { identity_pem: theirs.identity_pem.clone(), ..own }.write(&mixed).unwrap();
    let (code, said) = run(&scratch, &mixed, &["ls", &all]);
    assert!(code == Some(3) && said.contains("the peer does not let us in"), "{said}");
    assert_eq!(run(&elsewhere, &stranger, &["ls", &format!("tw://{}/", other.address())]).0, Some(0));
}

/// As on a disk that is full, or read-only.
#[test]
fn a_daemon_that_cannot_write_what_tickets_need_serves_its_owner() {
    let scratch = Scratch::new();
    for directory in ["a", "server-state", "server-state/daemon.json"] {
        std::fs::create_dir(scratch.path(directory)).unwrap();
    }
    std::fs::write(scratch.path("server-state/tickets"), b"no directory").unwrap();
    let export = scratch.path("a");
    let daemon = scratch.daemon_with(&[("a", &export)], &[]);
    assert_eq!(run(&scratch, &daemon.ticket, &["ls", &daemon.place("a", "")]).0, Some(0));
    let log = scratch.server_log();
    let told = ["there is no directory for tickets", "who makes tickets is not told"];
    assert!(told.iter().all(|words| log.contains(words)), "{log}");
}

#[test]
fn of_two_tickets_of_one_name_one_is_made_and_nothing_is_written_over() {
    let (scratch, _daemon) = stand();
    let state = scratch.path("server-state");
    let files: Vec<PathBuf> = (0..4).map(|at| scratch.path(&format!("ticket-{at}"))).collect();
    let started = files.iter().map(|file| {
        let command = with(with(scratch.thalweg(), ["ticket", "new", "alice", "--state"]), [&state]);
        Running::start(with(with(command, ["-o"]), [file]))
    });
    let started: Vec<Running> = started.collect();
    let ran = started.into_iter().map(|running| running.end(LIMIT));
    let codes: Vec<Option<i32>> = ran.map(|ran| ran.code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(files.iter().filter(|file| file.exists()).count(), 1);
    // A file that is there stays, and the name is free.
    std::fs::write(scratch.path("mine"), b"mine").unwrap();
    let mine = scratch.path("mine");
    assert_eq!(asks(&scratch, &["new", "bob", "-o", mine.to_str().unwrap()]).status.code(), Some(3));
    assert_eq!(std::fs::read(&mine).unwrap(), b"mine");
    let bob = ticket(&scratch, "bob", &["--export", "later"]);
    assert!(bob.exists());
    // What is noted of another that had its name is not about it.
    let used = scratch.path("server-state/tickets-used");
    std::fs::create_dir_all(&used).unwrap();
    let note = std::fs::File::create(used.join("bob")).unwrap();
    note.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let listed = asks(&scratch, &["list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.lines().any(|line| line.starts_with("bob ") && line.contains("never used")), "{listed}");
    for odd in ["owner", "../x", ".x", "a/b", ""] {
        let refused = asks(&scratch, &["new", odd, "-o", "/dev/null/no"]);
        assert_eq!(refused.status.code(), Some(1), "{odd}: {}", String::from_utf8_lossy(&refused.stderr));
    }
    assert_eq!(asks(&scratch, &["revoke", "nobody"]).status.code(), Some(3));
    // Without a daemon there is nothing to make a ticket for.
    let nowhere = scratch.path("nowhere");
    let words = ["ticket", "new", "x", "--state", nowhere.to_str().unwrap()];
    let refused = scratch.run(words);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(3) && said.contains("no `thalweg serve` began"), "{said}");
    assert!(!nowhere.exists());
}

/// Begins without `--ticket-file`, does that with the line that says where it listens, and ends: all that it said on
/// stdout behind that line.
fn said_without_a_ticket(scratch: &Scratch, state: &str, meanwhile: impl FnOnce(&str)) -> String {
    let command = with(scratch.thalweg(), ["serve", "--listen", "127.0.0.1:0", "--state", state, "--export"]);
    let mut command = with(command, [format!("data={}", scratch.root().display())]);
    let mut daemon = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(daemon.stdout.take().expect("a pipe"));
    let (mut line, mut rest) = (String::new(), String::new());
    stdout.read_line(&mut line).unwrap();
    meanwhile(&line);
    let _ = std::process::Command::new("kill").arg(daemon.id().to_string()).status();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(daemon.wait().unwrap().success(), "{line}{rest}");
    rest
}

#[test]
fn a_daemon_that_would_let_nobody_in_says_by_which_command_a_ticket_is_made() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), "x").unwrap();
    let state = scratch.path("own state");
    let state = state.to_str().unwrap();
    let said = said_without_a_ticket(&scratch, state, |_| {});
    let command = format!("`thalweg ticket new NAME --state '{state}'` makes one");
    assert!(said.contains(&format!("and there is none: {command}\n")), "{said}");
    let said = said_without_a_ticket(&scratch, state, |_| {});
    assert!(said.contains(&format!("--ticket-file wrote: {command}\n")), "{said}");
    // That very command lets somebody in; from then on the daemon says nothing of it.
    let file = scratch.path("alice.ticket");
    scratch.ok(["ticket", "new", "alice", "--state", state, "-o", file.to_str().unwrap()]);
    let said = said_without_a_ticket(&scratch, state, |line| {
        let address = line.strip_prefix("listening at ").and_then(|rest| rest.split_once(','));
        let place = format!("tw://{}/data/", address.expect("where it listens").0);
        let (code, said) = run(&scratch, &file, &["ls", &place]);
        assert!(code == Some(0) && said.lines().any(|line| line.ends_with("file")), "{said}");
    });
    assert!(!said.contains("ticket"), "{said}");
    // One that was taken back lets nobody in.
    scratch.ok(["ticket", "revoke", "alice", "--state", state]);
    assert!(said_without_a_ticket(&scratch, state, |_| {}).contains(&command));
}
