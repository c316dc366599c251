//! The daemon as a service: packaging/systemd/thalweg.service, and what docs/guide/daemon.md says about it.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::chance::{has, is_root, skipped};
use support::{Scratch, finish, noise, wait_until};

/// Where the unit says that it keeps its state.
const STATE: &str = "/var/lib/thalweg";
/// What it may write besides.
const EXPORT: &str = "/srv/data";
/// Nobody in particular.
const NOBODY: u32 = 65534;

fn packaged(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).expect("a file of the repository")
}

/// What stands behind `KEY=`.
fn of_the_unit(unit: &str, key: &str) -> String {
    let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("{key}= stands in the unit")).to_owned()
}

#[test]
fn the_unit_is_one_that_systemd_understands() {
    if !has("systemd-analyze") {
        return skipped("the unit of systemd", "needs systemd-analyze (package systemd)");
    }
    let scratch = Scratch::new();
    let unit = packaged("packaging/systemd/thalweg.service");
    let installed = unit.replace("/usr/local/bin/thalweg", env!("CARGO_BIN_EXE_thalweg"));
    assert_ne!(installed, unit);
    let verified = |text: &str| {
        std::fs::write(scratch.path("thalweg.service"), text).unwrap();
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).arg(scratch.path("thalweg.service"));
        let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // It speaks of other units too, and ends with 0 whatever it says of keys.
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        said.lines().filter(|line| line.contains("thalweg")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(verified(&installed).is_empty(), "{:?}", verified(&installed));
    assert!(!verified(&installed.replace("ProtectHome=", "ProtecHome=")).is_empty(), "it does look");
}

/// The line of the unit, with the configuration of the guide, as a user without rights, where all of the system is read-only but
/// what the unit names: what systemd makes of it, by hand.
#[test]
fn the_unit_s_own_command_serves_as_a_user_of_its_own_who_may_write_nothing_else() {
    let row = "the daemon as a service";
    if !is_root() || !["unshare", "setpriv", "mount"].iter().all(|program| has(program)) {
        return skipped(row, "needs root, unshare, setpriv and mount");
    }
    let scratch = Scratch::new();
    let unit = packaged("packaging/systemd/thalweg.service");
    let guide = packaged("docs/guide/daemon.md");
    let line = of_the_unit(&unit, "ExecStart");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[..2], ["/usr/local/bin/thalweg", "serve"]);
    assert_eq!(of_the_unit(&unit, "StateDirectory"), "thalweg");
    assert_eq!(of_the_unit(&unit, "ReadWritePaths"), EXPORT);
    let configured =
        guide.lines().find_map(|line| line.strip_prefix("printf '")?.split_once("' > ")).unwrap();
    assert_eq!(configured.1, "/etc/thalweg/config.toml");
    // Below a directory that everybody may enter, with a program that everybody may run.
    let (state, export) = (scratch.path("var"), scratch.path("srv"));
    let here = |text: &str| {
        text.replace(STATE, &state.display().to_string()).replace(EXPORT, &export.display().to_string())
    };
    let open =
        |path: &Path| std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755));
    open(scratch.root()).unwrap();
    let program = scratch.path("thalweg");
    std::fs::copy(env!("CARGO_BIN_EXE_thalweg"), &program).unwrap();
    open(&program).unwrap();
    for directory in [&state, &export] {
        std::fs::create_dir(directory).unwrap();
        std::os::unix::fs::chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let config = here(&configured.0.replace("\\n", "\n")) + "listen = [\"127.0.0.1:0\"]\n";
    std::fs::write(scratch.path("config.toml"), config).unwrap();
    open(&scratch.path("config.toml")).unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut try_it = Command::new("setpriv");
    try_it.args(nobody).arg(&program).arg("--version").env_clear().env("PATH", &path).env("HOME", STATE);
    let can_run = try_it.output();
    if !can_run.is_ok_and(|out| out.status.success()) {
        return skipped(row, "the scratch directory is not one that everybody may enter");
    }
    let script = "mount --make-rprivate / && mount --bind \"$1\" \"$1\" && mount --bind \"$2\" \"$2\" && \
                  mount -o remount,bind,ro / && shift 2 && exec setpriv \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).args([&state, &export]).args(nobody).arg(&program);
    command.args(words[1..].iter().map(|word| here(word)));
    command.env_clear().env("PATH", path).env("HOME", STATE);
    command.env("THALWEG_CONFIG", scratch.path("config.toml")).env("THALWEG_LOG", "info");
    let log = std::fs::File::create(scratch.path("log")).unwrap();
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let ticket = state.join("ticket");
    let is_there = wait_until(Duration::from_secs(60), || ticket.exists());
    let said = std::fs::read_to_string(scratch.path("log")).unwrap();
    let ends = Ends { scratch: &scratch, ticket: &ticket };
    let came = is_there.then(|| ends.copy(&noise(1, 3 << 20)));
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    let status = daemon.wait().unwrap();
    assert!(is_there, "{said}");
    assert_eq!(came.unwrap(), "copied");
    assert!(std::fs::read(export.join("file")).unwrap() == noise(1, 3 << 20));
    assert!(status.success(), "it ends in order at SIGTERM: {status}");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(&ticket).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(export.join("file")).unwrap().uid(), NOBODY);
}

struct Ends<'a> {
    scratch: &'a Scratch,
    ticket: &'a PathBuf,
}

impl Ends<'_> {
    /// Pushes a file, with a copy of the ticket: a secret that is somebody else's file is not taken. `copied`, or what went wrong.
    fn copy(&self, content: &[u8]) -> String {
        let own = self.scratch.path("own-ticket");
        std::fs::copy(self.ticket, &own).unwrap();
        std::fs::write(self.scratch.path("file"), content).unwrap();
        let text = std::fs::read_to_string(self.ticket).unwrap();
        let at = text.find("127.0.0.1:").expect("an address in the ticket");
        let address: String =
            text[at..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect();
        let out = self.scratch.run([
            "cp".into(),
            "--ticket".into(),
            own,
            self.scratch.path("file"),
            PathBuf::from(format!("tw://{address}/data/")),
        ]);
        match out.status.code() {
            // The owner cannot be kept, which is told.
            Some(0 | 2) => "copied".to_owned(),
            _ => String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }
}

#[test]
fn a_daemon_serves_though_nobody_reads_what_it_prints() {
    let scratch = Scratch::new();
    let ticket = scratch.path("ticket");
    std::fs::create_dir(scratch.path("srv")).unwrap();
    let mut command = scratch.thalweg();
    command.args(["serve", "--listen", "127.0.0.1:0", "--ticket-file"]).arg(&ticket).arg("--export");
    command.arg(format!("data={}", scratch.path("srv").display())).env("THALWEG_STATE", scratch.path("far"));
    let mut daemon =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    drop(daemon.stdout.take());
    let is_there = wait_until(Duration::from_secs(60), || ticket.exists());
    let came = is_there.then(|| Ends { scratch: &scratch, ticket: &ticket }.copy(b"some bytes"));
    let is_alive = matches!(daemon.try_wait(), Ok(None));
    let _ = daemon.kill();
    let _ = daemon.wait();
    assert_eq!((came.as_deref(), is_alive), (Some("copied"), true));
}

/// `thalweg serve` with this state directory, its words for the test.
fn serve_with(scratch: &Scratch, state: &Path) -> std::process::Child {
    let mut command = scratch.thalweg();
    command.args(["serve", "--listen", "127.0.0.1:0", "--export"]);
    command.arg(format!("data={}", scratch.root().display())).arg("--state").arg(state);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Its first line on stdout, without which it does not serve.
fn is_listening(daemon: &mut std::process::Child) -> bool {
    let mut line = String::new();
    let stdout = daemon.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    line.starts_with("listening at ")
}

#[test]
fn a_state_directory_has_one_daemon_and_a_killed_one_keeps_no_other_out() {
    let scratch = Scratch::new();
    let state = scratch.path("state\n\x1b[31m");
    let mut first = serve_with(&scratch, &state);
    assert!(is_listening(&mut first));
    let mut second = serve_with(&scratch, &state);
    let ended = wait_until(Duration::from_secs(60), || second.try_wait().unwrap().is_some());
    if !ended {
        let _ = second.kill();
    }
    let out = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((ended, out.status.code()), (true, Some(3)), "{said}");
    assert!(said.contains("another `thalweg serve` has `") && said.contains("state\\x0a\\x1b[31m"), "{said}");
    assert!(said.contains("--state DIR") && !said.contains('\x1b'), "{said}");
    // One beside it with a state of its own serves, and so does the next one of this when the first was killed.
    let mut beside = serve_with(&scratch, &scratch.path("other"));
    assert!(is_listening(&mut beside));
    first.kill().unwrap();
    first.wait().unwrap();
    let mut next = serve_with(&scratch, &state);
    assert!(is_listening(&mut next));
    for daemon in [&mut beside, &mut next] {
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
}
