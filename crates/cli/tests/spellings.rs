//! What users of other movers type, and what the program says to it.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use support::{Scratch, finish};
use thalweg_cli::spellings::{COMMANDS, OPTIONS};

/// Runs the program in a directory with a file `file`.
fn run(scratch: &Scratch, words: &[&str]) -> Output {
    std::fs::write(scratch.path("file"), b"content").unwrap();
    let mut command = scratch.thalweg();
    command.args(words).current_dir(scratch.root()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

fn told(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn who_types_an_option_or_a_command_of_another_mover_is_told_what_it_is_here() {
    let scratch = Scratch::new();
    for row in OPTIONS {
        for &typed in row.typed {
            for command in ["cp", "sync"] {
                let out = run(&scratch, &[command, typed, "file", "to"]);
                let first = format!("error: `{typed}` is no option of `{command}`: {}", row.told);
                assert_eq!(told(&out).lines().next(), Some(&*first), "{}", told(&out));
                assert_eq!(out.status.code(), Some(1), "{typed}");
            }
        }
    }
    for row in COMMANDS {
        for &typed in row.typed {
            let out = run(&scratch, &[typed, "file", "to"]);
            let first = format!("error: `{typed}` is no command: {}", row.told);
            assert_eq!(told(&out).lines().next(), Some(&*first), "{}", told(&out));
            assert_eq!(out.status.code(), Some(1), "{typed}");
        }
    }
    // With a value, in a cluster, and as an event.
    for (words, option) in [
        (&["cp", "--timeout=30", "file", "to"][..], "--timeout"),
        (&["cp", "-avc", "file", "to"], "-c"),
        (&["cp", "--json", "-c", "file", "to"], "-c"),
        (&["cp", "-t", "to", "file", "other"], "-t"),
    ] {
        let out = run(&scratch, words);
        assert!(told(&out).starts_with(&format!("error: `{option}` is no option")), "{}", told(&out));
        let event = String::from_utf8_lossy(&out.stdout).into_owned();
        assert_eq!(event.contains("--check digest"), words.contains(&"--json"), "{event}");
    }
    assert!(!scratch.path("to").exists());
}

/// As instruments name them, by the time.
#[test]
fn a_file_whose_name_has_a_colon_is_told_how_it_is_written() {
    let scratch = Scratch::new();
    let name = "run_2026-01-01T12:00:00.h5";
    std::fs::write(scratch.path(name), b"content").unwrap();
    let written = format!("./{name}");
    // What ssh says where there is no such host.
    let ssh = scratch.path("no-such-host");
    std::fs::write(&ssh, "#!/bin/sh\nexit 255\n").unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ssh = ssh.display().to_string();
    for (words, code) in [(&["cp", "-e", &ssh, name, "to"][..], 3), (&["cp", "file", name, "to/"], 1)] {
        let out = run(&scratch, words);
        assert_eq!(out.status.code(), Some(code), "{}", told(&out));
        let is_told = told(&out).contains(&format!("a file of this name is here: write {written}"));
        assert!(is_told && !told(&out).contains("resumes"), "{}", told(&out));
    }
    let out = run(&scratch, &["cp", &written, "to"]);
    assert!(out.status.success() && scratch.path("to").exists(), "{}", told(&out));
}

#[test]
fn the_guide_has_the_rows_that_the_program_says() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/other-tools.md");
    let text = std::fs::read_to_string(guide).expect("the guide");
    let rows: Vec<String> = OPTIONS
        .iter()
        .chain(COMMANDS)
        .map(|row| {
            let typed: Vec<String> = row.typed.iter().map(|typed| format!("`{typed}`")).collect();
            format!("| {} | {} |", typed.join(", "), row.told)
        })
        .collect();
    let there: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(there, rows);
    // Each table is of the section that it is about.
    for (heading, table) in [("## Options", "| option | here |"), ("## Commands", "| command | here |")] {
        let above = text.lines().take_while(|line| *line != table).filter(|line| line.starts_with('#'));
        assert_eq!(above.last(), Some(heading));
    }
}

#[test]
fn what_rsync_users_ask_for_and_is_always_done_is_accepted() {
    for words in [
        &["cp", "-avh", "file", "to"][..],
        &["cp", "-h", "file", "to"],
        &["cp", "-rlptgoDHAXS", "file", "to"],
        &["cp", "--perms", "--links", "--times", "--owner", "--group", "--xattrs", "--acls", "file", "to"],
        &["cp", "-z", "--human-readable", "file", "to"],
        &["sync", "-ah", "--delete", "file", "to"],
    ] {
        let scratch = Scratch::new();
        let out = run(&scratch, words);
        assert!(out.status.success(), "{words:?}: {}", told(&out));
        assert_eq!(std::fs::read(scratch.path("to")).unwrap(), b"content", "{words:?}");
    }
    let scratch = Scratch::new();
    assert_eq!(run(&scratch, &["ls", "-h", "file"]).stdout, b"file\n");
    let sum = run(&scratch, &["du", "-sh", "file"]);
    assert!(String::from_utf8_lossy(&sum.stdout).contains("(7 bytes)"), "{sum:?}");
    for words in [&["cp", "-h"][..], &["cp", "--help"], &["cp", "-h", "-v"], &["ls", "-h"]] {
        let out = run(&scratch, words);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && text.contains("Usage: thalweg "), "{words:?}: {text}");
    }
}

#[test]
fn an_address_of_a_family_that_is_left_out_is_refused_by_all_that_reach_far_places() {
    let scratch = Scratch::new();
    for (words, part) in [
        (&["cp", "-4", "file", "tw://[::1]:1/data/"][..], "`[::1]:1` is no address of IPv4"),
        (&["sync", "--ipv6", "file", "127.0.0.1:to"], "`127.0.0.1` is no address of IPv6"),
        (&["stream", "-6", "file", "tw://127.0.0.1:1/data/"], "`127.0.0.1:1` is no address of IPv6"),
        (&["frames", "status", "-4", "tw://[::1]:1/data/x"], "`[::1]:1` is no address of IPv4"),
        (&["ls", "--ipv4", "tw://[::1]:1/data/"], "`[::1]:1` is no address of IPv4"),
        (&["ls", "-4", "-6", "file"], "cannot be used with"),
    ] {
        let out = run(&scratch, words);
        assert_eq!(out.status.code(), Some(1), "{words:?}: {}", told(&out));
        assert!(told(&out).contains(part), "{words:?}: {}", told(&out));
    }
}

#[test]
fn a_pipe_is_no_place_and_no_file_is_named_after_it() {
    let scratch = Scratch::new();
    for words in [&["cp", "file", "-"][..], &["cp", "-", "to"], &["sync", "file", "-"], &["ls", "-"]] {
        let out = run(&scratch, words);
        assert_eq!(out.status.code(), Some(1), "{words:?}: {}", told(&out));
        for part in ["thalweg stream - DST", "thalweg cat SRC", "`./-`"] {
            assert!(told(&out).contains(part), "{words:?}: {}", told(&out));
        }
        assert!(!scratch.path("-").exists() && !scratch.path("to").exists(), "{words:?}");
    }
    assert!(run(&scratch, &["cp", "file", "./-"]).status.success());
    assert!(run(&scratch, &["cp", "./-", "to"]).status.success());
    assert_eq!(std::fs::read(scratch.path("to")).unwrap(), b"content");
    // What knows a pipe still does.
    let piped = run(&scratch, &["stream", "file", "-"]);
    assert_eq!(piped.stdout, b"content", "{}", told(&piped));
}

#[test]
fn a_pattern_that_the_shell_left_as_it_was_gets_a_hint() {
    let scratch = Scratch::new();
    for words in [&["cp", "fil*", "to"][..], &["cat", "fil?"]] {
        let out = run(&scratch, words);
        assert_eq!(out.status.code(), Some(3), "{words:?}: {}", told(&out));
        assert!(told(&out).contains("hint: names are taken as they are"), "{words:?}: {}", told(&out));
    }
    assert!(!told(&run(&scratch, &["cp", "absent", "to"])).contains("hint: "));
}
