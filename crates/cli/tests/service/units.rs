//! Units of watches and streams, each with the file that its guide has for it; and what a package brings
//! beside units.

use super::support::chance::{has, is_root, skipped};
use super::support::{Scratch, finish, wait_until};
use super::{EXPORT, STATE, of_the_unit, packaged};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use thalweg_lab::wrap::wrap;

/// The line of a unit with the file that its guide has for it, as systemd reads them, is started: what is in
/// `from` comes to the daemon. Then it is stopped, which is no failure.
fn the_unit_moves(command: &str, guide: &str, from: &str) {
    let unit = packaged(&format!("packaging/systemd/thalweg-{command}@.service"));
    let guide = packaged(guide);
    let (_, file) = guide.rsplit_once("```ini\n").expect("a file for the unit in the guide");
    let (file, _) = file.split_once("```").expect("its end");
    let scratch = Scratch::new();
    for name in ["from", "srv"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/item"), b"x").unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("srv"))]);
    let state = format!("%S/thalweg-{command}/%i");
    assert_eq!(format!("%S/{}", of_the_unit(&unit, "StateDirectory")), state);
    let slash = |word: &str| if word.ends_with('/') { "/" } else { "" };
    let here = |word: String| match word.as_str() {
        word if word == state => scratch.path("state").display().to_string(),
        word if word == from => format!("{}{}", scratch.path("from").display(), slash(word)),
        "/usr/local/bin/announce" => "/bin/true".to_owned(),
        word if word.starts_with("tw://") => daemon.place("data", "there") + slash(word),
        word => word.to_owned(),
    };
    let line = of_the_unit(&unit, "ExecStart");
    let words = line.split_whitespace().skip(1).flat_map(|word| unfolded_word(word, file)).map(here);
    assert!(of_the_unit(file, "THALWEG_TICKET").starts_with("/etc/thalweg/"));
    let mut running = scratch.thalweg();
    running.env("THALWEG_TICKET", &daemon.ticket).args(words);
    let running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_come = || std::fs::read(scratch.path("srv/there/item")).is_ok_and(|bytes| bytes == b"x");
    let has_come = wait_until(Duration::from_secs(60), has_come);
    let _ = Command::new("kill").arg(running.id().to_string()).status();
    let ended = finish(running).status.code();
    assert!(has_come, "the item is at the daemon");
    assert_eq!(ended.map(|code| code.to_string()), Some(of_the_unit(&unit, "SuccessExitStatus")));
}

/// A word of a line, with what a file says of its variable: `${NAME}` stays one word, `$NAME` becomes as many
/// as it has.
fn unfolded_word(word: &str, file: &str) -> Vec<String> {
    let Some(name) = word.strip_prefix('$') else { return vec![word.to_owned()] };
    match name.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
        Some(name) => vec![of_the_unit(file, name)],
        None => of_the_unit(file, name).split_whitespace().map(str::to_owned).collect(),
    }
}

#[test]
fn the_watch_of_the_guide_s_service_reaches_its_daemon_and_ends_as_is_expected_there() {
    the_unit_moves("watch", "docs/guide/watch.md", "/detector");
}

#[test]
fn the_stream_of_the_guide_s_service_reaches_its_daemon_and_ends_as_is_expected_there() {
    the_unit_moves("stream", "docs/guide/streaming.md", "/var/log/beamline/");
}

/// As systemd has it where the configuration names an export and the unit does not.
#[test]
fn a_daemon_says_of_an_export_that_its_unit_lets_it_read_alone_where_to_name_it_too() {
    if !is_root() || !["unshare", "mount"].iter().all(|program| has(program)) {
        return skipped("an export that the unit does not name", "needs root, unshare and mount");
    }
    let scratch = Scratch::new();
    let mut command = scratch.thalweg();
    command.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(scratch.path("state"));
    command.arg("--ticket-file").arg(scratch.path("ticket"));
    for (name, flags) in [("named", ""), ("forgotten", ""), ("archive", ":ro")] {
        std::fs::create_dir(scratch.path(name)).unwrap();
        command.arg("--export").arg(format!("{name}={}{flags}", scratch.path(name).display()));
    }
    let script = "for closed in \"$1\" \"$2\"; do mount --bind \"$closed\" \"$closed\" && \
                  mount -o remount,bind,ro \"$closed\" || exit 9; done; shift 2; exec \"$@\"";
    let mut around = Command::new("unshare");
    around.args(["--mount", "sh", "-c", script, "sh"]);
    around.args([scratch.path("forgotten"), scratch.path("archive")]);
    let mut command = wrap(around, &command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut daemon = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(daemon.stdout.take().expect("a pipe"));
    stdout.read_line(&mut line).unwrap();
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    let told = String::from_utf8_lossy(&finish(daemon).stderr).into_owned();
    assert!(line.starts_with("listening at "), "{line}{told}");
    let warnings: Vec<&str> = told.lines().filter(|line| line.starts_with("warning: ")).collect();
    let [warning] = warnings[..] else { panic!("{told}") };
    let forgotten = scratch.path("forgotten").display().to_string();
    assert!(warning.contains(&forgotten) && warning.contains("ReadWritePaths"), "{warning}");
}

#[test]
fn the_configuration_of_the_package_says_nothing_and_its_example_is_read() {
    let text = packaged("packaging/etc/config.toml");
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let example: Vec<&str> = lines.filter(|line| !line.starts_with(' ')).collect();
    let example = example.join("\n");
    assert!(example.starts_with("[serve]\n") && example.contains(EXPORT), "{example}");
    let scratch = Scratch::new();
    let file = scratch.path("config.toml").display().to_string();
    let root = scratch.root().display().to_string();
    for text in [&text, &example] {
        std::fs::write(&file, text).unwrap();
        scratch.ok(["--config", &file, "ls", &root]);
    }
}

#[test]
fn an_update_has_every_unit_that_stays_begin_again_and_a_removal_leaves_none_that_would() {
    let (update, removal) = (packaged("packaging/debian/postinst"), packaged("packaging/debian/prerm"));
    let restarts = update.lines().find(|line| line.contains("systemctl try-restart ")).expect("a restart");
    for name in ["thalweg.service", "thalweg-watch@", "thalweg-stream@"] {
        assert!(restarts.contains(name), "{name}: {restarts}");
    }
    // The program of an item outlives its watch.
    assert_eq!(of_the_unit(&packaged("packaging/systemd/thalweg-watch@.service"), "KillMode"), "process");
    let unlinks = removal.lines().find(|line| line.trim_start().starts_with("rm -f ")).expect("links");
    for name in ["thalweg-watch@", "thalweg-stream@"] {
        assert!(unlinks.contains(&format!(" /etc/systemd/system/*.wants/{name}*.service")), "{unlinks}");
    }
}

#[test]
fn a_watch_and_a_stream_keep_logins_where_their_units_let_them_write() {
    for name in ["thalweg-watch@", "thalweg-stream@"] {
        let unit = packaged(&format!("packaging/systemd/{name}.service"));
        let state = of_the_unit(&unit, "StateDirectory");
        assert_eq!(of_the_unit(&unit, "Environment"), format!("XDG_STATE_HOME=%S/{state}"));
    }
}

#[test]
fn the_package_starts_and_enables_nothing_and_its_user_is_that_of_the_units() {
    let script = packaged("packaging/debian/postinst");
    for word in [" start ", " enable ", " restart ", "--now"] {
        assert!(!script.contains(word), "{word}: {script}");
    }
    let makes_user = script.lines().find(|line| line.trim_start().starts_with("adduser ")).expect("a user");
    assert!(makes_user.contains("--system") && makes_user.contains(&format!("--home {STATE} ")));
    let user = makes_user.split_whitespace().next_back().expect("its name");
    for name in ["thalweg", "thalweg-gc", "thalweg-watch@", "thalweg-stream@"] {
        let unit = packaged(&format!("packaging/systemd/{name}.service"));
        assert_eq!(of_the_unit(&unit, "User"), user, "{name}");
    }
}
