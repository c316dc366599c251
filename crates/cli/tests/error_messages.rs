//! What is said when something cannot be done: what was being done, of what, why, and what a person may do about it.

mod support;

use std::process::{Command, Stdio};
use support::{Scratch, finish};
use thalweg_lab::wrap::wrap;

/// A command that fails.
struct Case<'a> {
    words: Vec<&'a str>,
    exit: i32,
    /// What was being done.
    operation: &'a str,
    /// Of what.
    object: &'a str,
    /// Why.
    why: &'a str,
    /// What may be done about it; empty: it is in the sentence, or nobody knows.
    hint: &'a str,
}

/// A command that cannot open the place it is given.
fn cannot_open<'a>(command: &'a str, place: &'a str, why: &'a str) -> Case<'a> {
    Case { words: vec![command, place], exit: 3, operation: "open", object: place, why, hint: "" }
}

#[test]
fn an_error_says_what_was_done_of_what_and_what_may_be_done_about_it() {
    let scratch = Scratch::new();
    for directory in ["export", "directory"] {
        std::fs::create_dir_all(scratch.path(directory)).unwrap();
    }
    std::fs::write(scratch.path("plain"), "content\n").unwrap();
    let export = scratch.path("export");
    let with_flag = |name: &str, flag: &str| format!("{name}={}:{flag}", export.display());
    let (ro, full) = (with_flag("ro", "ro"), with_flag("full", "min-free=1PiB"));
    let daemon = scratch.daemon_with(&[("data", &export)], &["--export", &ro, "--export", &full]);
    let others = Scratch::new();
    let other_daemon = others.daemon(&[("data", &export)]);
    let here = |name: &str| scratch.path(name).display().to_string();
    let (plain, directory, absent) = (here("plain"), here("directory"), here("absent"));
    let no_ticket = here("no-ticket");
    std::fs::write(&no_ticket, "words\n").unwrap();
    let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&no_ticket, own).unwrap();
    let far = |export: &str, path: &str| daemon.place(export, path);
    let (read_only, above) = (far("ro", "x"), far("data", "../../etc"));
    let (far_directory, channel) = (far("data", "there"), far("data", "channel"));
    std::fs::create_dir(scratch.path("export/there")).unwrap();
    let (address, no_room) = (daemon.address(), far("full", "x"));
    let other_ticket = other_daemon.ticket.display().to_string();
    std::fs::write(scratch.path("ssh.sh"), "exit 127\n").unwrap();
    let ssh = format!("sh '{}'", here("ssh.sh"));
    let cases = [
        Case {
            words: vec!["rm", &directory],
            exit: 3,
            operation: "remove",
            object: &directory,
            why: "it is a directory: use -r",
            hint: "",
        },
        Case {
            words: vec!["rm", &far_directory],
            exit: 3,
            operation: "remove",
            object: "`there`",
            why: "it is a directory: use -r",
            hint: "",
        },
        cannot_open("cat", &directory, "it is a directory"),
        cannot_open("cat", &absent, "No such file or directory"),
        cannot_open("ls", &absent, "No such file or directory"),
        Case {
            words: vec!["cp", &plain, &read_only],
            exit: 3,
            operation: "open",
            object: "the export `ro`",
            why: "read-only",
            hint: "",
        },
        Case {
            words: vec!["cp", &above, &directory],
            exit: 1,
            operation: "open",
            object: "`../../etc`",
            why: "must stay inside its export",
            hint: "",
        },
        Case {
            words: vec!["ls", "--ticket", &no_ticket, &read_only],
            exit: 1,
            operation: "read ticket",
            object: &no_ticket,
            why: "line 1: there is no `=`",
            hint: "",
        },
        Case {
            words: vec!["ls", "tw://host.example/data"],
            exit: 1,
            operation: "connect",
            object: "`host.example:8487`",
            why: "a daemon asks who you are",
            hint: "",
        },
        Case {
            words: vec!["verify", &plain, &directory],
            exit: 1,
            operation: "read the receipt",
            object: &plain,
            why: "this is no receipt",
            hint: "",
        },
        Case {
            words: vec!["frames", "status", &channel],
            exit: 3,
            operation: "look at a channel",
            object: "`data/channel`",
            why: "nobody has opened",
            hint: "",
        },
        Case {
            words: vec!["report", &plain],
            exit: 1,
            operation: "read a result",
            object: &plain,
            why: "no result file, which `thalweg bench` writes",
            hint: "",
        },
        Case {
            words: vec!["cp", &plain, "/proc/x"],
            exit: 3,
            operation: "make the staging directory",
            object: "`/proc`",
            why: "No such file or directory",
            hint: "",
        },
        Case {
            words: vec!["cp", "--streams", "abc", "a", "b"],
            exit: 1,
            operation: "invalid value 'abc'",
            object: "--streams",
            why: "a whole number from 1 to 256 is wanted",
            hint: "",
        },
        Case {
            words: vec!["cp", &plain, "tw://127.0.0.1:1/data/x"],
            exit: 3,
            operation: "connect",
            object: "127.0.0.1:1",
            why: "refused",
            hint: "is `thalweg serve` running there",
        },
        Case {
            words: vec!["cp", &plain, "tw://mistyped.invalid/data/x"],
            exit: 3,
            operation: "look up",
            object: "mistyped.invalid",
            why: "mistyped.invalid",
            hint: "is the name of the host right",
        },
        Case {
            words: vec!["cp", &plain],
            exit: 1,
            operation: "",
            object: "",
            why: "the destination is missing",
            hint: "",
        },
        Case {
            words: vec!["cp", &plain, &no_room],
            exit: 6,
            operation: "write",
            object: "the export `full`",
            why: "are kept free (min-free)",
            hint: "make room",
        },
        Case {
            words: vec!["ls", "--ticket", &other_ticket, &far_directory],
            exit: 3,
            operation: "TLS handshake",
            object: &address,
            why: "not one we trust",
            hint: "the ticket is an old one, or that of another daemon",
        },
        Case {
            words: vec!["cp", "-e", &ssh, &plain, "host.example:x"],
            exit: 3,
            operation: "start by ssh",
            object: "host.example",
            why: "no `thalweg` at",
            hint: "let thalweg place its own copy with --bootstrap",
        },
        Case {
            words: vec!["predict", "tw://a.example/data/x", "tw://b.example/data/y"],
            exit: 3,
            operation: "copy between far places",
            object: "tw://a.example:8487/data/x",
            why: "both places are far",
            hint: "cp and sync go through a directory here with --stage DIR",
        },
    ];
    for Case { words, exit, operation, object, why, hint } in cases {
        let mut command = scratch.thalweg();
        command.args(&words).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !words.contains(&"tw://host.example/data") {
            command.env("THALWEG_TICKET", &daemon.ticket);
        }
        let out = finish(command.spawn().unwrap());
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(exit), "{words:?}: {told}");
        let first = told.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        for part in [operation, object, why] {
            assert!(first.contains(part), "{words:?}: `{part}` is not in: {told}");
        }
        let hinted = told.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_default();
        assert!(hinted.contains(hint) && hinted.is_empty() == hint.is_empty(), "{words:?}: {told}");
    }
}

#[test]
fn a_want_of_descriptors_is_told_as_that_and_not_as_a_disk_that_fails() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), "content\n").unwrap();
    let mut shell = Command::new("sh");
    // Fewer than a copy needs to begin.
    shell.args(["-c", "ulimit -n 12; exec \"$@\"", "sh"]);
    let mut copy = scratch.thalweg();
    copy.arg("cp").arg(scratch.path("file")).arg(scratch.path("to"));
    let out = finish(wrap(shell, &copy).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(6), "{told}");
    assert!(told.contains("Too many open files") && told.contains("`ulimit -n`"), "{told}");
    assert!(!told.contains("file system fails"), "{told}");
}

/// Where a copy can begin, and its entries fail: how many descriptors that takes depends on the machine.
#[test]
fn entries_that_want_descriptors_are_not_told_to_make_room() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from/deep")).unwrap();
    for number in 0..60 {
        std::fs::write(scratch.path("from/deep").join(number.to_string()), vec![7; 64 << 10]).unwrap();
    }
    let mut entries_that_failed = 0;
    for limit in 14..28 {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]);
        let mut copy = scratch.thalweg();
        copy.arg("cp").arg(scratch.path("from/")).arg(scratch.path(&format!("to-{limit}")));
        let out = finish(wrap(shell, &copy).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        if out.status.success() {
            continue;
        }
        assert!(told.contains("`ulimit -n`") && !told.contains("make room"), "{limit}: {told}");
        entries_that_failed += told.matches("on `deep/").count();
    }
    assert!(entries_that_failed > 0, "no limit was one at which entries fail, and not the whole copy");
}

#[test]
fn a_want_of_threads_is_told_as_that_and_is_no_panic() {
    use std::os::unix::fs::PermissionsExt;
    let row = "threads of nobody";
    if !support::chance::has("prlimit") {
        return support::chance::skipped(row, "no prlimit");
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("from")).unwrap();
    std::fs::create_dir_all(scratch.path("mine")).unwrap();
    std::fs::write(scratch.path("from/file"), "content\n").unwrap();
    for open_to_all in [scratch.root(), &scratch.path("mine")] {
        std::fs::set_permissions(open_to_all, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let Some(as_nobody) = scratch.as_nobody(row) else { return };
    for most in 1..=12 {
        let to = format!("mine/to-{most}");
        for words in [&["cp", "--state", "mine/state", "from/", &to][..], &["check", "from", "from"]] {
            let mut limited = Command::new("prlimit");
            limited.arg(format!("--nproc={most}")).arg("--");
            let mut command = scratch.thalweg();
            command.args(words).current_dir(scratch.root());
            let mut limited = as_nobody(wrap(limited, &command));
            let out = finish(limited.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
            let told = String::from_utf8_lossy(&out.stderr).into_owned();
            let code = out.status.code();
            let is_told = code == Some(6) && told.contains("`ulimit -u`");
            assert!(!told.contains("panicked"), "{most}, {words:?}: {told}");
            assert!(is_told || (most > 1 && code == Some(0)), "{most}, {words:?}: {code:?} {told}");
        }
    }
}
