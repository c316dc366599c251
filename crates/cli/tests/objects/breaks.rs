//! What is killed, overwritten or left behind.

use super::servers::{KEY, Kind, SECRET, Server, each};
use super::support::job::{Running, signal, wait_for_handler};
use super::support::{Scratch, noise, wait_until};
use nix::sys::signal::Signal::SIGINT;
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Of one part, and of one chunk.
const PART: u64 = 8 * MIB;
const BYTES: u64 = 96 * MIB;
/// Only what hangs takes longer.
const HANG: Duration = Duration::from_secs(300);

/// Begins to copy `BYTES` so slowly that somebody can come between.
fn begin_slowly(server: &Server, from: &str, to: &str) -> Running {
    server.begin(&["cp", "--json", "--chunk", "8MiB", "--bwlimit", "200Mbit/s", from, to])
}

#[test]
fn a_copy_that_is_killed_goes_on_with_the_parts_that_are_there() {
    each("kill", |server| {
        std::fs::write(server.scratch.path("large"), noise(1, BYTES as usize)).unwrap();
        let (from, to) = (server.path("large"), server.place("large"));
        let copying = begin_slowly(server, &from, &to);
        let has_parts = wait_until(HANG, || server.unfinished_bytes() >= 5 * PART);
        copying.kill();
        assert!(has_parts, "no part came");
        assert_eq!(server.get("large"), None, "it has its name before all of it is there");
        let again = server.ok(&["cp", "--json", "--chunk", "8MiB", &from, &to]);
        let (resumed, received) = (again.number("bytes_resumed"), again.number("bytes_received"));
        assert!(resumed >= PART && resumed + received == BYTES, "{resumed} and {received}");
        assert!(server.get("large").unwrap() == noise(1, BYTES as usize));
        assert_eq!(server.unfinished_bytes(), 0);
    });
}

#[test]
fn a_source_that_changed_after_a_kill_is_not_mixed_with_what_it_was() {
    each("kill and change", |server| {
        std::fs::write(server.scratch.path("large"), noise(1, BYTES as usize)).unwrap();
        let (from, to) = (server.path("large"), server.place("large"));
        let copying = begin_slowly(server, &from, &to);
        let has_parts = wait_until(HANG, || server.unfinished_bytes() >= 2 * PART);
        copying.kill();
        assert!(has_parts, "no part came");
        std::fs::write(server.scratch.path("large"), noise(2, BYTES as usize)).unwrap();
        server.ok(&["cp", "--chunk", "8MiB", &from, &to]);
        assert!(server.get("large").unwrap() == noise(2, BYTES as usize));
        assert_eq!(server.unfinished_bytes(), 0);
    });
}

#[test]
fn an_object_that_is_overwritten_while_it_is_read_is_never_mixed() {
    each("overwritten", |server| {
        let (before, after) = (noise(1, BYTES as usize), noise(2, BYTES as usize));
        server.put("object", &before);
        let (from, to) = (server.place("object"), server.path("down"));
        let copying = begin_slowly(server, &from, &to);
        // A tenth of it is under way.
        let comes = || has_written(server.scratch.root(), BYTES / 10);
        assert!(wait_until(HANG, comes), "nothing came");
        server.put("object", &after);
        let ran = copying.end(HANG);
        let there = std::fs::read(server.scratch.path("down")).ok();
        match ran.code {
            Some(0) => assert!(there.as_ref() == Some(&after) || there.as_ref() == Some(&before)),
            code => {
                assert_eq!((code, there.is_none()), (Some(5), true), "{}", ran.stderr);
                server.ok(&["cp", &from, &to]);
                assert!(std::fs::read(server.scratch.path("down")).unwrap() == after);
            }
        }
    });
}

/// Whether hidden partial files beside the destination have so many bytes on disk.
fn has_written(root: &Path, bytes: u64) -> bool {
    let names = std::fs::read_dir(root).into_iter().flatten().flatten();
    let staging = names.filter(|name| name.file_name().to_string_lossy().starts_with(".thalweg-staging"));
    staging.map(|name| super::support::job::bytes_allocated(&name.path())).sum::<u64>() >= bytes
}

#[test]
fn what_uploads_left_is_found_and_removed_when_it_is_old_enough() {
    each("leftovers", |server| {
        std::fs::write(server.scratch.path("large"), noise(1, BYTES as usize)).unwrap();
        let copying = begin_slowly(server, &server.path("large"), &server.place("large"));
        let has_parts = wait_until(HANG, || server.unfinished_bytes() >= PART);
        copying.kill();
        assert!(has_parts, "no part came");
        let there = server.place("");
        // No copy of ours left it, as far as another state directory knows.
        let other = server.path("another-state");
        let unknown = server.ok(&["gc", "--yes", "--state", &other, &there]);
        assert!(unknown.stdout.contains("unknown") && server.unfinished_bytes() > 0, "{}", unknown.stdout);
        // Moto says of each that it was begun in 2010.
        if server.kind == Kind::Versity {
            let kept = server.ok(&["gc", "--yes", "--older-than", "7d", &there]);
            assert!(kept.stdout.contains("recent") && server.unfinished_bytes() > 0, "{}", kept.stdout);
        }
        let removed = server.ok(&["gc", "--yes", &there]);
        assert!(removed.stdout.contains("removed"), "{}", removed.stdout);
        assert_eq!(server.unfinished_bytes(), 0);
        // The next attempt begins anew.
        server.ok(&["cp", "--chunk", "8MiB", &server.path("large"), &server.place("large")]);
        assert!(server.get("large").unwrap() == noise(1, BYTES as usize));
    });
}

/// Begins to copy a tree of a large file and small ones with this patience, and kills the store when parts are there.
fn begin_and_kill_the_store(server: &mut Server, patience: &str) -> Running {
    let from = server.scratch.path("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("large"), noise(1, BYTES as usize)).unwrap();
    for number in 0..SMALL {
        std::fs::write(from.join(number.to_string()), noise(number, 100)).unwrap();
    }
    let words = ["cp", "--chunk", "8MiB", "--bwlimit", "200Mbit/s", "--patience", patience];
    let places = [server.path("from/"), server.place("up/")];
    let words: Vec<&str> = words.into_iter().chain(places.iter().map(String::as_str)).collect();
    let copying = server.begin(&words);
    // Some are noted by then, too.
    assert!(wait_until(HANG, || server.unfinished_bytes() >= 5 * PART), "no part came");
    server.end();
    copying
}

const SMALL: u64 = 300;

#[test]
fn a_store_that_stays_away_ends_the_copy_once_and_not_each_entry() {
    let Some(mut server) = Server::start(Kind::Versity, "store away") else { return };
    let ran = begin_and_kill_the_store(&mut server, "2s").end(HANG).expect(3);
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("is that its endpoint"), "{}", ran.stderr);
    server.start_again();
    // What it has of the large file stays for the next attempt.
    let words = ["cp", "--json", "--chunk", "8MiB", &server.path("from/"), &server.place("up/")];
    assert!(server.ok(&words).number("bytes_resumed") >= PART);
    assert!(server.get("up/large").unwrap() == noise(1, BYTES as usize));
    assert_eq!(server.keys().len() as u64, SMALL + 1);
}

/// A store that is asked again for the ten minutes of the patience would be told as one that does not answer.
#[test]
fn who_asks_to_stop_does_not_wait_for_a_store_that_is_silent() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), noise(1, 1 << 20)).unwrap();
    // Whoever connects is heard, and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    silent.set_nonblocking(true).unwrap();
    let mut command = scratch.thalweg();
    command.env("HOME", scratch.root()).env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT_URL", format!("http://{}", silent.local_addr().unwrap()));
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command.arg("cp").arg(scratch.path("file")).arg("s3://data/up/");
    let copying = Running::start(command);
    let mut asks = None;
    let is_asked = wait_until(HANG, || {
        asks = asks.take().or_else(|| silent.accept().ok());
        asks.is_some()
    });
    assert!(is_asked, "nothing was asked");
    wait_for_handler(copying.pid(), SIGINT);
    signal(copying.pid(), SIGINT);
    copying.end(HANG).expect(130);
}

#[test]
fn a_copy_goes_on_when_the_store_comes_back_within_its_patience() {
    let Some(mut server) = Server::start(Kind::Versity, "store back") else { return };
    let copying = begin_and_kill_the_store(&mut server, "5m");
    server.start_again();
    copying.end(HANG).expect(0);
    assert!(server.get("up/large").unwrap() == noise(1, BYTES as usize));
    assert_eq!((server.keys().len() as u64, server.unfinished_bytes()), (SMALL + 1, 0));
}
