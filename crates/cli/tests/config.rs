//! Configuration files, environment and command line, by the real program.

mod support;

use std::path::Path;
use std::process::{Output, Stdio};
use support::{Scratch, assert_same, finish, make_tree};

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn said(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn configure(scratch: &Scratch, content: &str) {
    std::fs::create_dir_all(scratch.path("config/thalweg")).unwrap();
    std::fs::write(scratch.path("config/thalweg/config.toml"), content).unwrap();
}

fn run(scratch: &Scratch, environment: &[(&str, &str)], words: &[&str]) -> Output {
    let mut command = scratch.thalweg();
    command.envs(environment.iter().copied()).args(words);
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Streams and chunk that a dry run says it would go by.
fn plan(scratch: &Scratch, environment: &[(&str, &str)], more: &[&str]) -> (u64, u64) {
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let (from, to) = (text(&scratch.path("file")), text(&scratch.path("to")));
    let out = run(scratch, environment, &[&["cp", "-n", "--json", &from, &to], more].concat());
    assert!(out.status.success(), "{}", said(&out));
    let line = String::from_utf8(out.stdout).unwrap().lines().last().unwrap().to_owned();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    let value = |knob: &str| event["plan"][knob]["value"].as_u64().unwrap();
    (value("streams"), value("chunk_bytes"))
}

#[test]
fn the_command_line_goes_over_the_environment_and_that_over_the_file() {
    let scratch = Scratch::new();
    configure(&scratch, "streams = 3\nchunk = \"1MiB\"\n[sync]\nstreams = 9\n");
    assert_eq!(plan(&scratch, &[], &[]), (3, 1 << 20));
    let environment = [("THALWEG_STREAMS", "5")];
    assert_eq!(plan(&scratch, &environment, &[]), (5, 1 << 20));
    assert_eq!(plan(&scratch, &environment, &["--streams", "7"]), (7, 1 << 20));
    // A file that is named goes in the place of the usual ones.
    std::fs::write(scratch.path("other.toml"), "chunk = \"2MiB\"\nstreams = 6\n").unwrap();
    let other = text(&scratch.path("other.toml"));
    assert_eq!(plan(&scratch, &[], &["--config", &other]), (6, 2 << 20));
    assert_eq!(plan(&scratch, &[("THALWEG_CONFIG", &other)], &[]), (6, 2 << 20));
}

/// Units and scripts take a variable back so.
#[test]
fn an_empty_variable_says_nothing() {
    let scratch = Scratch::new();
    configure(&scratch, "streams = 3\n");
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let mut command = scratch.thalweg();
    for name in ["STREAMS", "STATE", "CONFIG", "QUIET", "VERIFY", "VIA"] {
        command.env(format!("THALWEG_{name}"), "");
    }
    // What is kept at home without a state directory is kept here.
    command.env("HOME", scratch.root()).env("XDG_STATE_HOME", scratch.path("kept"));
    command.args(["cp", "-n", "--json"]).arg(scratch.path("file")).arg(scratch.path("to"));
    let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    assert!(out.status.success(), "{}", said(&out));
    let line = String::from_utf8(out.stdout).unwrap().lines().last().unwrap().to_owned();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(event["plan"]["streams"]["value"], 3);
}

#[test]
fn what_is_wrong_in_the_environment_is_told_of_the_variable_and_what_is_typed_of_the_option() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let (file, to) = (text(&scratch.path("file")), text(&scratch.path("to")));
    for (name, value, why) in [
        ("THALWEG_STREAMS", "many", "invalid value 'many' for '--streams <N>': a whole number"),
        ("THALWEG_VERIFY", "no", "invalid value 'no' for '--verify <VERIFY>'"),
        ("THALWEG_QUIET", "perhaps", "invalid value 'perhaps' for '--quiet'"),
    ] {
        let out = run(&scratch, &[(name, value)], &["cp", &file, &to]);
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains(&format!("error: {name} in the environment: {why}")), "{}", said(&out));
    }
    let environment = [("THALWEG_STREAMS", "many")];
    for typed in [&["--streams=0"][..], &["--streams", "0"]] {
        let out = run(&scratch, &environment, &[&["cp", &file, &to], typed].concat());
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(said(&out).contains("error: invalid value '0' for '--streams <N>'"), "{}", said(&out));
    }
    assert!(!scratch.path("to").exists());
}

#[test]
fn a_variable_that_is_none_of_ours_is_told_and_holds_nothing_up() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let (file, to) = (text(&scratch.path("file")), text(&scratch.path("to")));
    let out = run(&scratch, &[("THALWEG_STREMS", "3"), ("THALWEG_ITEM_PATH", "x")], &["cp", &file, &to]);
    assert!(out.status.success() && scratch.path("to").exists(), "{}", said(&out));
    let warning = "warning: THALWEG_STREMS in the environment says nothing: did you mean THALWEG_STREAMS?\n";
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(told.contains(warning) && !told.contains("THALWEG_ITEM_PATH"), "{told}");
}

#[test]
fn a_flag_of_the_file_is_taken_back_by_its_variable() {
    let scratch = Scratch::new();
    configure(&scratch, "quiet = true\n");
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let words = ["cp", &text(&scratch.path("file")), &text(&scratch.path("to"))];
    assert!(run(&scratch, &[], &words).stdout.is_empty());
    assert!(!run(&scratch, &[("THALWEG_QUIET", "no")], &words).stdout.is_empty());
}

#[test]
fn what_is_wrong_in_a_file_is_a_usage_error_with_file_and_line() {
    let scratch = Scratch::new();
    for (content, what) in
        [("\n\nstrems = 3\n", "config.toml:3: `strems`"), ("a = 1\nb = [", "config.toml:2: ")]
    {
        configure(&scratch, content);
        let out = run(&scratch, &[], &["ls", "--json"]);
        assert_eq!(out.status.code(), Some(1), "{}", said(&out));
        assert!(String::from_utf8_lossy(&out.stderr).contains(what), "{}", said(&out));
        let event: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((&event["event"], &event["exit"]), (&"error".into(), &1.into()));
    }
    let absent = run(&scratch, &[], &["--config", "/absent/file", "ls"]);
    assert_eq!(absent.status.code(), Some(3), "{}", said(&absent));
    assert!(said(&absent).contains("/absent/file"), "{}", said(&absent));
}

/// `HOME=/dev/null` is what some services and accounts have.
#[test]
fn a_home_that_is_no_directory_has_no_configuration_and_says_what_to_name_for_the_state() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let (file, to) = (text(&scratch.path("file")), text(&scratch.path("to")));
    let home = ("XDG_CONFIG_HOME", "/dev/null");
    let out = run(&scratch, &[home], &["cp", &file, &to]);
    assert!(out.status.success() && scratch.path("to").exists(), "{}", said(&out));
    let out = run(&scratch, &[home, ("THALWEG_STATE", "/dev/null/state")], &["cp", &file, &to]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("hint: ") && said(&out).contains("--state DIR"), "{}", said(&out));
}

/// No link would stand for longer, whatever the network.
#[test]
fn a_time_in_which_nothing_can_come_is_refused_on_the_command_line_and_in_a_file() {
    let scratch = Scratch::new();
    let commands: [&[&str]; 4] = [
        &["cp", "/absent/a", "/absent/b"],
        &["stream", "/absent/a", "/absent/b"],
        &["serve", "--export", "data=/absent"],
        &["frames", "push", "--frame-bytes", "1", "/absent/a", "tw://host/data/channel"],
    ];
    let refused = |out: &Output| {
        assert_eq!(out.status.code(), Some(1), "{}", said(out));
        assert!(String::from_utf8_lossy(&out.stderr).contains("at least 100ms"), "{}", said(out));
    };
    for time in ["0s", "1ms"] {
        configure(&scratch, "");
        for command in commands {
            refused(&run(&scratch, &[], &[command, &["--stall-timeout", time]].concat()));
        }
        refused(&run(&scratch, &[], &[commands[0], &["--patience", time]].concat()));
        configure(&scratch, &format!("stall-timeout = \"{time}\"\n"));
        for command in commands {
            refused(&run(&scratch, &[], command));
        }
    }
}

#[test]
fn a_place_that_has_a_name_works_wherever_a_place_does() {
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("export")).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    // The ticket is named beside the file; nothing on the command line says who we are.
    std::fs::create_dir_all(scratch.path("config/thalweg")).unwrap();
    std::fs::copy(&daemon.ticket, scratch.path("config/thalweg/site.ticket")).unwrap();
    let place = format!("[place.site]\nurl = \"tw://{}\"\nticket = \"site.ticket\"\n", daemon.address());
    configure(&scratch, &place);
    let ok = |words: &[&str]| {
        let out = run(&scratch, &[], words);
        assert!(out.status.success(), "{words:?}: {}", said(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    ok(&["cp", &text(&scratch.path("from/")), "@site/data/tree"]);
    assert_same(&scratch.path("from"), &scratch.path("export/tree"));
    ok(&["cp", "@site/data/tree/", &text(&scratch.path("back"))]);
    assert_same(&scratch.path("from"), &scratch.path("back"));
    assert!(ok(&["check", &text(&scratch.path("from")), "@site/data/tree"]).contains("same: "));
    assert_eq!(ok(&["cat", "@site/data/tree/one-byte"]), "x");
    assert!(ok(&["ls", "@site/data/tree/deep"]).contains("small-1"));
    for site in ["@site", "@site/"] {
        assert_eq!(ok(&["ls", site]), "data/\n");
    }
    let unknown = run(&scratch, &[], &["ls", "@other/data"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", said(&unknown));
    assert!(said(&unknown).contains("[place.other]"), "{}", said(&unknown));
}

/// It is for `sync`: who types it for `cp` means something by it, and who has it in a file means `sync`.
#[test]
fn what_cp_would_not_hear_is_refused_where_it_is_typed_alone() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), b"x").unwrap();
    let (file, to) = (text(&scratch.path("file")), text(&scratch.path("to")));
    let typed = run(&scratch, &[], &["cp", "--max-delete", "9", &file, &to]);
    assert_eq!(typed.status.code(), Some(1), "{}", said(&typed));
    assert!(said(&typed).contains("thalweg sync --delete"), "{}", said(&typed));
    assert!(!scratch.path("to").exists());
    configure(&scratch, "max-delete = 9\n");
    let found = run(&scratch, &[("THALWEG_MAX_DELETE", "8")], &["cp", &file, &to]);
    assert!(found.status.success(), "{}", said(&found));
}
