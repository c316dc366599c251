//! The daemon as a service: packaging/systemd/thalweg.service, and what docs/guide/daemon.md says about it.

mod support;

#[path = "service/units.rs"]
mod units;

#[path = "service/metrics.rs"]
mod metrics;

#[path = "service/tickets.rs"]
mod tickets;

#[path = "service/tokens.rs"]
mod tokens;

#[path = "service/provider.rs"]
mod provider;

#[path = "service/logins.rs"]
mod logins;

#[path = "service/daemons.rs"]
mod daemons;

use nix::sys::signal::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::chance::{has, is_root, skipped};
use support::job::{Running, Strace, bytes_allocated, signal};
use support::machine::elsewhere;
use support::volume::{Volume, can_mount};
use support::{Scratch, finish, make_tree, noise, wait_until};
use thalweg_lab::wrap::wrap;
use thalweg_mover::link::Ticket;

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
    let installed = unit.replace("/usr/bin/thalweg", env!("CARGO_BIN_EXE_thalweg"));
    assert_ne!(installed, unit);
    let said_of = |units: &[PathBuf]| {
        let mut command = Command::new("systemd-analyze");
        command.args(["verify", "--man=no"]).args(units);
        let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        // It speaks of other units too, and ends with 0 whatever it says of keys.
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        said.lines().filter(|line| line.contains("thalweg")).map(str::to_owned).collect::<Vec<_>>()
    };
    let written = |name: &str, text: &str| {
        std::fs::write(scratch.path(name), text).unwrap();
        scratch.path(name)
    };
    let verified = |text: &str| said_of(&[written("thalweg.service", text)]);
    assert!(verified(&installed).is_empty(), "{:?}", verified(&installed));
    assert!(!verified(&installed.replace("ProtectHome=", "ProtecHome=")).is_empty(), "it does look");
    assert!(!verified(&installed.replace("@system-service", "@sistem-service")).is_empty(), "at values too");
    let cleaning = ["thalweg-gc.service", "thalweg-gc.timer"].map(|name| {
        let unit = packaged(&format!("packaging/systemd/{name}"));
        written(name, &unit.replace("/usr/bin/thalweg", env!("CARGO_BIN_EXE_thalweg")))
    });
    assert!(said_of(&cleaning).is_empty(), "{:?}", said_of(&cleaning));
    for name in ["thalweg-watch@.service", "thalweg-stream@.service"] {
        let unit = packaged(&format!("packaging/systemd/{name}"));
        let unit = unit.replace("/usr/bin/thalweg", env!("CARGO_BIN_EXE_thalweg"));
        let verified = |text: &str| said_of(&[written(name, text)]);
        assert!(verified(&unit).is_empty(), "{:?}", verified(&unit));
        assert!(!verified(&unit.replace("StateDirectory=", "StatDirectory=")).is_empty(), "it does look");
    }
}

#[test]
fn what_copies_left_goes_by_the_timer_s_unit_and_by_the_line_of_the_guide() {
    let unit = packaged("packaging/systemd/thalweg-gc.service");
    let line = of_the_unit(&unit, "ExecStart");
    assert_eq!(of_the_unit(&unit, "ReadWritePaths"), EXPORT);
    let guide = packaged("docs/guide/daemon.md");
    let of_crontab = guide.lines().find_map(|line| line.strip_prefix("30 3 * * * "));
    assert_eq!(of_crontab, Some(line.as_str()));
    let scratch = Scratch::new();
    let job = scratch.path("srv/.thalweg-staging/0123");
    std::fs::create_dir_all(&job).unwrap();
    for name in ["lock", "partial-7"] {
        std::fs::write(job.join(name), b"").unwrap();
    }
    let srv = scratch.path("srv").display().to_string();
    let clean = |line: &str| {
        let words = line.split_whitespace().skip(1);
        scratch.ok(words.map(|word| if word == EXPORT { srv.as_str() } else { word }))
    };
    let kept = clean(&line);
    assert!(kept.starts_with("recent  ") && job.join("partial-7").exists(), "{kept}");
    let gone = clean(&line.replace(" 7d ", " 0s "));
    assert!(gone.starts_with("removed  ") && !scratch.path("srv/.thalweg-staging").exists(), "{gone}");
}

/// System calls of a filter, as systemd unfolds its sets. `None` where there is no systemd.
fn unfolded(filter: &str) -> Option<BTreeSet<String>> {
    let out = Command::new("systemd-analyze").arg("syscall-filter").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut set = "";
    for line in text.lines() {
        match (line.trim(), line.starts_with('@')) {
            (name, true) => set = name,
            (call, false) if call.is_empty() || call.starts_with('#') => {}
            (call, false) => sets.entry(set).or_default().push(call),
        }
    }
    let mut calls = BTreeSet::new();
    let mut left: Vec<&str> = filter.split_whitespace().collect();
    while let Some(word) = left.pop() {
        match word.starts_with('@') {
            true => left.extend(sets.get(word)?),
            false => drop(calls.insert(word.to_owned())),
        }
    }
    Some(calls)
}

/// What a daemon asks of the kernel while it is pushed to, pulled from and asked, held against what the unit lets
/// through.
#[test]
fn the_unit_forbids_nothing_that_a_daemon_does() {
    let row = "system calls of the unit";
    if !Strace::available(row) {
        return;
    }
    let unit = packaged("packaging/systemd/thalweg.service");
    let Some(mut allowed) = unfolded(&of_the_unit(&unit, "SystemCallFilter")) else {
        return skipped(row, "needs systemd-analyze (package systemd)");
    };
    // Said there to be left out: they fail as on a kernel without them, by name or by the number that older programs
    // show.
    assert_eq!(of_the_unit(&unit, "SystemCallErrorNumber"), "ENOSYS");
    let left_out = ["cachestat", "listxattrat", "syscall_0x1c3", "syscall_0x1d1"];
    allowed.extend(left_out.map(str::to_owned));
    let scratch = Scratch::new();
    make_tree(&scratch.path("from"));
    std::fs::create_dir(scratch.path("srv")).unwrap();
    let calls = scratch.path("calls");
    let daemon = scratch.daemon_at("127.0.0.1:0", &[("data", &scratch.path("srv"))], &[], |command| {
        let mut traced = Command::new("strace");
        traced.args(["-D", "-f", "-q", "-e", "signal=none", "-o"]).arg(&calls).arg("--");
        wrap(traced, &command)
    });
    let run = |words: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(words).arg("--ticket").arg(&daemon.ticket);
        let out = finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    let from = format!("{}/", scratch.path("from").display());
    let (there, back) = (daemon.place("data", "tree/"), scratch.path("back").display().to_string());
    run(&["cp", &from, &there]);
    std::fs::write(scratch.path("from/deep/er/large"), noise(7, 20 << 20)).unwrap();
    run(&["cp", "--check", "digest", "--verify", "readback", &from, &there]);
    run(&["cp", &there, &back]);
    run(&["check", &from, &there]);
    run(&["rm", "-r", &daemon.place("data", "tree")]);
    let last = format!("{} ", daemon.pid());
    assert!(daemon.terminate().success());
    let told = || std::fs::read_to_string(&calls).unwrap();
    let is_last = |line: &str| line.starts_with(&last) && line.contains("+++ exited");
    assert!(wait_until(Duration::from_secs(60), || told().lines().any(is_last)), "strace ended");
    let text = told();
    let name_of = |line: &str| {
        let (name, _) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        let is_name = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        is_name.then(|| name.to_owned())
    };
    let made: BTreeSet<String> = text.lines().filter_map(name_of).collect();
    assert!(made.contains("renameat2") && made.contains("sendto"), "{made:?}");
    let forbidden: Vec<&String> = made.difference(&allowed).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
    let families = of_the_unit(&unit, "RestrictAddressFamilies");
    let families: Vec<&str> = families.split_whitespace().collect();
    let sockets = text.lines().filter_map(|line| line.split_once("socket(")?.1.split(',').next());
    let other: BTreeSet<&str> = sockets.filter(|family| !families.contains(family)).collect();
    assert!(other.is_empty(), "{other:?}");
}

/// A daemon tells who started it when it listens, not before, and when it ends.
#[test]
fn a_service_manager_hears_when_a_daemon_listens_and_when_it_ends() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("srv")).unwrap();
    let heard = |manager: &UnixDatagram| {
        manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut buffer = [0; 1024];
        let bytes = manager.recv(&mut buffer).expect("a word to the manager");
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    };
    let path = scratch.path("notify");
    let name = path.display().to_string();
    for is_abstract in [false, true] {
        let (manager, address) = match is_abstract {
            false => (UnixDatagram::bind(&path).unwrap(), name.clone()),
            true => {
                let address = SocketAddr::from_abstract_name(&name).unwrap();
                (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
            }
        };
        let daemon =
            scratch.daemon_at("127.0.0.1:0", &[("data", &scratch.path("srv"))], &[], |mut command| {
                command.env("NOTIFY_SOCKET", &address);
                command
            });
        let ready = heard(&manager);
        assert_eq!(ready, format!("READY=1\nSTATUS=listening at {}", daemon.address()));
        std::net::TcpStream::connect(daemon.address()).expect("it listens");
        assert!(daemon.terminate().success());
        assert!(heard(&manager).starts_with("STOPPING=1\n"));
    }
}

/// What it says on stdout before it serves, and in its ticket.
fn said_and_ticket(scratch: &Scratch, more: &[&str], wrap_in: Option<Command>) -> (String, Vec<String>) {
    let path = scratch.path("said-ticket");
    let _ = std::fs::remove_file(&path);
    let mut command = scratch.thalweg();
    command.arg("serve").arg(format!("--export=data={}", scratch.root().display())).args(more);
    command.arg("--state").arg(scratch.path("said-state")).arg("--ticket-file").arg(&path);
    let mut command = match wrap_in {
        Some(around) => wrap(around, &command),
        None => command,
    };
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = daemon.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    daemon.wait().unwrap();
    let ticket = Ticket::read(&path).unwrap_or_else(|failure| panic!("{line}: {failure}"));
    (line, ticket.addresses)
}

#[test]
fn a_daemon_says_where_it_listens_whatever_it_is_advertised_as() {
    let scratch = Scratch::new();
    let said = [("--advertise", "dtn.example.org:8487"), ("--advertise", "[2001:db8::7]:8487")];
    let more: Vec<&str> = said.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let (line, ticket) = said_and_ticket(&scratch, &[&["--listen", "127.0.0.1:0"], &more[..]].concat(), None);
    let rest = line.strip_prefix("listening at 127.0.0.1:").unwrap_or_else(|| panic!("{line}"));
    let (port, rest) = rest.split_once(',').unwrap();
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{line}");
    let advertised = " advertised as dtn.example.org:8487, [2001:db8::7]:8487, fingerprint ";
    assert!(rest.starts_with(advertised), "{line}");
    assert_eq!(ticket, said.map(|(_, address)| address));
}

/// The example of the reference: of IPv4 and of IPv6 each its own socket, at one port.
#[test]
fn a_daemon_listens_at_the_two_addresses_of_the_reference_s_example() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return skipped("both kinds of addresses", "needs IPv6");
    }
    let text = packaged("docs/reference/configuration.md");
    let line = text.lines().find(|line| line.starts_with("listen = ")).expect("an example");
    // Free when this is dropped, which the kernel gives to nobody else so soon.
    let free = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), "x").unwrap();
    let export = scratch.root().display();
    let line = line.replace(":8487", &format!(":{port}"));
    let text = format!("[serve]\n{line}\nexport = [\"data={export}\"]\n");
    std::fs::write(scratch.path("config.toml"), text).unwrap();
    let mut command = scratch.thalweg();
    command.arg("serve").arg("--config").arg(scratch.path("config.toml"));
    command.arg("--state").arg(scratch.path("both-state"));
    command.arg("--ticket-file").arg(scratch.path("both-ticket"));
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let has_begun = wait_until(Duration::from_secs(60), || scratch.path("both-ticket").exists());
    let said = |host: &str| {
        let mut command = scratch.thalweg();
        command.arg("ls").arg("--ticket").arg(scratch.path("both-ticket"));
        command.arg(format!("tw://{host}:{port}/data/"));
        finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let outs = ["127.0.0.1", "[::1]"].map(said);
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    daemon.wait().unwrap();
    assert!(has_begun, "it listens");
    for out in outs {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(String::from_utf8_lossy(&out.stdout).lines().any(|line| line.ends_with("file")));
    }
}

#[test]
fn a_daemon_on_a_machine_without_ipv6_listens_for_ipv4() {
    let row = "a machine without IPv6";
    if !Strace::available(row) {
        return;
    }
    let scratch = Scratch::new();
    let mut around = Strace::inject("socket:error=EAFNOSUPPORT:when=1").around(&scratch.thalweg());
    around.args(["serve", "--listen", "[::]:0", "--state"]).arg(scratch.path("four-state"));
    around.arg(format!("--export=data={}", scratch.root().display()));
    around.arg("--ticket-file").arg(scratch.path("four-ticket"));
    let mut daemon = around.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let stdout = daemon.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    daemon.wait().unwrap();
    assert!(line.starts_with("listening at 0.0.0.0:"), "{line}");
}

/// Nobody can dial `0.0.0.0`, or the loopback of another machine.
#[test]
fn the_ticket_of_a_daemon_that_listens_everywhere_names_the_machine_s_own_addresses() {
    let row = "addresses of a ticket";
    let in_a_net = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &format!("ip link set lo up && {script} exec \"$@\""), "sh"]);
        command
    };
    let tried = in_a_net("").arg("true").output();
    if !tried.is_ok_and(|out| out.status.success()) {
        return skipped(row, "needs a network namespace (root, unshare, ip)");
    }
    let scratch = Scratch::new();
    for (script, address) in [("", "127.0.0.1"), ("ip addr add 192.0.2.9/32 dev lo &&", "192.0.2.9")] {
        let (line, ticket) = said_and_ticket(&scratch, &["--listen", "0.0.0.0:0"], Some(in_a_net(script)));
        let port = line.strip_prefix("listening at 0.0.0.0:").and_then(|rest| rest.split_once(','));
        let (port, _) = port.unwrap_or_else(|| panic!("{line}"));
        assert_eq!(ticket, [format!("{address}:{port}")]);
    }
}

/// The line of the unit, with the configuration of the guide, as a user without rights, where all of the system is
/// read-only but what the unit names: what systemd makes of it, by hand.
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
    assert_eq!(words[..2], ["/usr/bin/thalweg", "serve"]);
    assert_eq!(of_the_unit(&unit, "Type"), "notify");
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
    // Where systemd listens, everybody may say something.
    let manager = UnixDatagram::bind(scratch.path("notify")).unwrap();
    std::fs::set_permissions(scratch.path("notify"), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .unwrap();
    manager.set_nonblocking(true).unwrap();
    command.env("NOTIFY_SOCKET", scratch.path("notify"));
    let log = std::fs::File::create(scratch.path("log")).unwrap();
    let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let ticket = state.join("ticket");
    let is_there = wait_until(Duration::from_secs(60), || ticket.exists());
    let said = std::fs::read_to_string(scratch.path("log")).unwrap();
    let ends = Ends { scratch: &scratch, ticket: &ticket };
    let is_ready = is_there && wait_until(Duration::from_secs(60), || manager.recv(&mut [0; 1024]).is_ok());
    let came = is_there.then(|| ends.copy(&noise(1, 3 << 20)));
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    let status = daemon.wait().unwrap();
    assert!(is_there && is_ready, "{said}");
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
    /// Pushes a file, with a copy of the ticket: a secret that is somebody else's file is not taken. `copied`, or what
    /// went wrong.
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

/// Nodes of a cluster push from the same path to the same place, with copies of one ticket.
#[test]
fn the_same_command_on_two_machines_is_two_copies() {
    let scratch = Scratch::new();
    for name in ["export", "from"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("from/file"), noise(1, 8 << 20)).unwrap();
    let daemon = scratch.daemon(&[("data", &scratch.path("export"))]);
    let copy = |more: &[&str]| {
        let mut command = scratch.thalweg();
        command.args(["cp", "--chunk", "64KiB", "--ticket"]).arg(&daemon.ticket).args(more);
        command.arg(scratch.path("from/")).arg(daemon.place("data", "all/"));
        command
    };
    let Some(second) = elsewhere("two machines", &scratch, &copy(&[])) else { return };
    // At this rate it would take minutes.
    let mut first = Running::start(copy(&["--bwlimit", "32K"]));
    let is_under_way =
        || std::fs::read_dir(scratch.path("export/all")).is_ok_and(|mut found| found.next().is_some());
    assert!(wait_until(Duration::from_secs(60), is_under_way));
    let second = Running::start(second).end(Duration::from_secs(120));
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(std::fs::read(scratch.path("export/all/file")).unwrap() == noise(1, 8 << 20));
    assert!(!first.is_over(), "the other one is not disturbed");
    first.kill();
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
    assert!(
        said.contains("another `thalweg serve` has it") && said.contains("state\\x0a\\x1b[31m"),
        "{said}"
    );
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

/// One that was killed has its state directory until its threads are done, which a slow disk may take a while for.
#[test]
fn a_daemon_that_is_started_while_the_one_before_it_ends_waits_for_that() {
    let scratch = Scratch::new();
    let state = scratch.path("state");
    let mut first = serve_with(&scratch, &state);
    assert!(is_listening(&mut first));
    let mut next = serve_with(&scratch, &state);
    std::thread::sleep(Duration::from_secs(1));
    assert!(next.try_wait().unwrap().is_none(), "it did not wait");
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(is_listening(&mut next));
    let _ = next.kill();
    let _ = next.wait();
}

/// At each signal the daemon's file is read anew. What is under way to an export that is gone by then goes on.
#[test]
fn at_sighup_a_daemon_reads_its_exports_anew_and_serves_on() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new();
    for name in ["a", "b"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    std::fs::write(scratch.path("file"), noise(1, 8 << 20)).unwrap();
    let file = scratch.path("config.toml").display().to_string();
    let configure = |exports: &[(&str, &str)], more: &str| {
        let of = |(name, at): &(&str, &str)| format!("\"{name}={}\"", scratch.path(at).display());
        let exports: Vec<String> = exports.iter().map(of).collect();
        std::fs::write(&file, format!("[serve]\nexport = [{}]\n{more}", exports.join(", "))).unwrap();
    };
    configure(&[("old", "a"), ("kept", "a")], "");
    let more = ["--config", file.as_str(), "--log-format", "json"];
    let mut daemon = scratch.daemon_at("127.0.0.1:0", &[], &more, |command| command);
    let server = format!("tw://{}", daemon.address());
    let ticket = daemon.ticket.display().to_string();
    let exports = || {
        let listed = scratch.ok(["ls", "--ticket", &ticket, &server]);
        let mut names: Vec<String> = listed.lines().map(str::to_owned).collect();
        names.sort();
        names
    };
    let told = |word: &str| -> Vec<serde_json::Value> {
        let log = scratch.server_log();
        let told = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        told.filter(|line| line["message"].as_str().is_some_and(|text| text.contains(word))).collect()
    };
    // What it says of the reading that this signal asks for.
    let reload = || {
        let before = told("exports").len();
        signal(daemon.pid(), Signal::SIGHUP);
        assert!(wait_until(LIMIT, || told("exports").len() > before), "{}", scratch.server_log());
        told("exports").pop().unwrap()
    };
    let mut copy = scratch.thalweg();
    copy.args(["cp", "--bwlimit", "4MB/s", "--ticket", &ticket, "file"]).arg(daemon.place("old", "there"));
    copy.current_dir(scratch.root());
    let copy = Running::start(copy);
    let is_under_way = || std::fs::read_dir(scratch.path("a")).unwrap().next().is_some();
    assert!(wait_until(LIMIT, is_under_way));

    let line = reload();
    assert_eq!(line["message"], "the exports are read anew, and are as they were", "{line}");
    configure(&[("kept", "b"), ("new", "b")], "patience = \"5min\"\nmetrics = \"127.0.0.1:0\"\n");
    let line = reload();
    assert_eq!((&line["added"], &line["removed"]), (&"new".into(), &"old".into()), "{line}");
    assert_eq!(line["changed"], "kept", "{line}");
    assert_eq!(exports(), ["kept/", "new/"]);
    // What a reading cannot change is said.
    assert_eq!(told("started anew")[0]["options"], "patience, metrics");
    let ran = copy.end(Duration::from_secs(120));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(std::fs::read(scratch.path("a/there")).unwrap() == noise(1, 8 << 20));
    let refused = scratch.run(["ls", "--ticket", &ticket, &daemon.place("old", "")]);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");

    // All of it, or nothing: of a file that makes no sense, and of a directory that is not there.
    for bad in [&[("new", "b"), ("kept", "missing")][..], &[]] {
        configure(bad, "");
        let line = reload();
        assert_eq!((&line["level"], line["failure"].is_string()), (&"ERROR".into(), true), "{line}");
        assert_eq!(exports(), ["kept/", "new/"]);
    }
    assert!(daemon.is_alive());
    assert_eq!(daemon.terminate().code(), Some(0));
}

/// Of a daemon that somebody started by hand nothing is left when the terminal is closed, wherever it writes.
#[test]
fn a_daemon_whose_terminal_is_gone_ends_in_order() {
    for has_log in [false, true] {
        let scratch = Scratch::new();
        let ends = nix::pty::openpty(None, None).expect("a pseudo-terminal");
        let path = std::fs::read_link(format!("/proc/self/fd/{}", ends.slave.as_raw_fd())).unwrap();
        // What is cloned here is closed in the daemon.
        let terminal = ends.master.try_clone().unwrap();
        drop(ends.master);
        let mut daemon = scratch.thalweg();
        daemon.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(scratch.path("far"));
        daemon.arg("--export").arg(format!("data={}", scratch.root().display()));
        daemon.arg("--ticket-file").arg(scratch.path("ticket"));
        // Who leads a session and has no terminal gets the first one that it opens.
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" < \"$TERMINAL\"", "sh"]).env("TERMINAL", path);
        let mut command = wrap(shell, &daemon);
        let log = std::fs::File::create(scratch.path("log")).unwrap();
        let stderr = if has_log { Stdio::from(log) } else { Stdio::from(ends.slave) };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut daemon = thalweg_sys::child::in_own_session(&mut command).spawn().unwrap();
        assert!(wait_until(Duration::from_secs(60), || scratch.path("ticket").exists()));
        drop(terminal);
        // A program that another test began just then may have the terminal for as long as it runs.
        let has_ended = wait_until(Duration::from_secs(60), || {
            signal(daemon.id(), Signal::SIGHUP);
            daemon.try_wait().unwrap().is_some()
        });
        let _ = daemon.kill();
        assert_eq!((has_ended, daemon.wait().unwrap().code()), (true, Some(0)), "log: {has_log}");
    }
}

/// Whoever asked for it is to hear that it did not come about, also where nobody asked for a log.
#[test]
fn a_reload_that_fails_is_told_without_a_log_too() {
    let scratch = Scratch::new();
    let file = scratch.path("config.toml");
    let export = format!("[serve]\nexport = [\"data={}\"]\n", scratch.root().display());
    std::fs::write(&file, export).unwrap();
    let more = ["--config", file.to_str().unwrap()];
    let daemon = scratch.daemon_at("127.0.0.1:0", &[], &more, |command| command);
    assert!(!scratch.server_log().contains("error: "), "{}", scratch.server_log());
    std::fs::write(&file, "[serve]\nexport = [\"data=/not/there\"]\n").unwrap();
    signal(daemon.pid(), Signal::SIGHUP);
    let is_told = || scratch.server_log().contains("error: ");
    assert!(wait_until(Duration::from_secs(60), is_told), "{}", scratch.server_log());
}

#[test]
fn the_exports_of_a_daemon_are_listed_with_their_rights() {
    let scratch = Scratch::new();
    for name in ["srv", "shut"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    let shut = format!("shut={}:ro", scratch.path("shut").display());
    let daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], &["--export", &shut]);
    let ticket = daemon.ticket.display().to_string();
    let server = format!("tw://{}", daemon.address());
    let listed = |words: &[&str]| scratch.ok(["ls", "--ticket", &ticket].iter().chain(words).copied());
    let sorted = |text: String| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(listed(&[&server])), ["data/", "shut/"]);
    assert_eq!(sorted(listed(&["-l", &format!("{server}/")])), ["ro shut/", "rw data/"]);
    let told: Vec<serde_json::Value> =
        listed(&["--json", &server]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| told.iter().find(|line| line["name"] == name).expect("it is told");
    assert_eq!((&of("data")["writable"], &of("shut")["writable"]), (&true.into(), &false.into()));
    assert_eq!(of("data")["event"], "export");
    // What is in all of them is not one list; and a place for files is in an export.
    let refused = |words: &[&str]| {
        let out = scratch.run([words, &["--ticket", &ticket, &server]].concat());
        (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
    };
    assert_eq!(refused(&["ls", "-R"]).0, Some(1));
    let (code, said) = refused(&["cp", &ticket]);
    assert!(code == Some(1) && said.contains("tw://host"), "{said}");
}

/// Runs the program with this ticket: its exit code, and what it said.
fn asked(scratch: &Scratch, ticket: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = scratch.thalweg();
    command.args(words).env("THALWEG_TICKET", ticket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let out = finish(command.spawn().unwrap());
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn where_nothing_is_deleted_or_replaced_what_is_there_stays_and_what_is_new_comes() {
    let scratch = Scratch::new();
    for name in ["srv", "from"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    let old = |name: &str| std::fs::write(scratch.path("srv").join(name), "old").unwrap();
    for (name, content) in [("longer", "much newer"), ("as-long", "new"), ("fresh", "new")] {
        let path = scratch.path("from").join(name);
        std::fs::write(&path, content).unwrap();
        // Not in one tick of the clock with what stands there.
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    ["longer", "as-long", "alone"].into_iter().for_each(old);
    let there = |name: &str| std::fs::read_to_string(scratch.path("srv").join(name)).ok();
    let stands = |names: &[&str]| names.iter().all(|name| there(name).as_deref() == Some("old"));
    let of = |name: &str, flags: &str| format!("{name}={}:{flags}", scratch.path("srv").display());
    let (kept, once) = (of("kept", "no-delete"), of("once", "no-replace"));
    let daemon =
        scratch.daemon_with(&[("data", &scratch.path("srv"))], &["--export", &kept, "--export", &once]);
    let run = |words: &[&str]| asked(&scratch, &daemon.ticket, words);
    let from = format!("{}/", scratch.path("from").display());

    // Nothing is replaced, whether its size or only its content tells that it is another one.
    let to_once = daemon.place("once", "");
    for how in ["evidence", "digest"] {
        let (code, said) = run(&["cp", "--check", how, &from, &to_once]);
        assert_eq!(code, Some(2), "{how}: {said}");
        for name in ["longer", "as-long"] {
            assert!(said.contains(&format!("replace failed on `{name}`")), "{how}: {said}");
        }
        assert!(said.contains("(no-replace)"), "{how}: {said}");
        assert!(stands(&["longer", "as-long", "alone"]), "{how}");
        assert_eq!(there("fresh").as_deref(), Some("new"), "{how}: what is new comes, and is no replacement");
    }
    let (code, said) = run(&["cp", "--dry-run", &from, &to_once]);
    assert!(code == Some(2) && said.contains("(no-replace)"), "{said}");
    let (code, said) = run(&["cp", "--ignore-existing", &from, &to_once]);
    assert_eq!(code, Some(0), "{said}");

    // Nothing is deleted, by either command; what is refused has moved nothing.
    std::fs::remove_file(scratch.path("srv/fresh")).unwrap();
    for words in [
        &["rm", &daemon.place("kept", "alone")][..],
        &["sync", "--delete", &from, &daemon.place("kept", "")],
        &["sync", "--delete", "--dry-run", &from, &daemon.place("kept", "")],
    ] {
        let (code, said) = run(words);
        assert_eq!(code, Some(3), "{words:?}: {said}");
        assert!(said.contains("in the export `kept` nothing is deleted (no-delete)"), "{words:?}: {said}");
        assert!(stands(&["longer", "as-long", "alone"]) && there("fresh").is_none(), "{words:?}");
    }
    // Each forbids what it says, and nothing else.
    let (code, said) = run(&["cp", &from, &daemon.place("kept", "")]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(there("longer").as_deref(), Some("much newer"));
    let (code, said) = run(&["rm", &daemon.place("once", "alone")]);
    assert_eq!((code, there("alone")), (Some(0), None), "{said}");
}

#[test]
fn room_that_is_kept_free_is_left_by_what_begins_by_what_is_large_and_by_what_runs() {
    if !can_mount("room kept free") {
        return;
    }
    const LIMIT: Duration = Duration::from_secs(120);
    let scratch = Scratch::new();
    for (name, mebibytes) in [("large", 48), ("small", 24)] {
        std::fs::write(scratch.path(name), noise(7, mebibytes << 20)).unwrap();
    }
    let volume = Volume::in_memory(scratch.root(), "disk", "size=64m");
    let export = |name: &str, free: &str| format!("{name}={}:min-free={free}", volume.path.display());
    let (half, all) = (export("half", "50%"), export("all", "1PiB"));
    let daemon = scratch.daemon_with(&[("data", &volume.path)], &["--export", &half, "--export", &all]);
    let run = |words: &[&str]| asked(&scratch, &daemon.ticket, words);
    let (large, small) = (scratch.path("large"), scratch.path("small"));
    let (large, small) = (large.display().to_string(), small.display().to_string());

    // Less is free than is kept: nothing begins, and what makes room may be done.
    std::fs::write(volume.path.join("old"), "old").unwrap();
    let (code, said) = run(&["cp", &small, &daemon.place("all", "x")]);
    assert!(code == Some(6) && said.contains("the export `all`") && said.contains("(min-free)"), "{said}");
    assert!(said.contains("hint:"), "{said}");
    let (code, said) = run(&["rm", &daemon.place("all", "old")]);
    assert!(code == Some(0) && !volume.path.join("old").exists(), "{said}");

    // One file would take more than may be taken: it is given back before anything of it came.
    let (code, said) = run(&["cp", &large, &daemon.place("half", "large")]);
    assert!(code == Some(6) && said.contains("(min-free)"), "{said}");
    assert!(bytes_allocated(&volume.path) < 1 << 20 && !volume.path.join("large").exists());

    // Another program takes the room while a file comes that has its own already.
    let to = daemon.place("half", "small");
    let mut copy = scratch.thalweg();
    copy.args(["cp", "--bwlimit", "1MB/s", &small, &to]).env("THALWEG_TICKET", &daemon.ticket);
    let copy = Running::start(copy);
    assert!(wait_until(LIMIT, || bytes_allocated(&volume.path) >= 24 << 20));
    std::fs::write(volume.path.join("ballast"), noise(8, 33 << 20)).unwrap();
    let ran = copy.end(LIMIT);
    assert_eq!(ran.code, Some(6), "{}", ran.stderr);
    assert!(ran.stderr.contains("the export `half`") && ran.stderr.contains("(min-free)"), "{}", ran.stderr);
    assert!(!volume.path.join("small").exists());
    std::fs::remove_file(volume.path.join("ballast")).unwrap();
    let (code, said) = run(&["cp", &small, &to]);
    assert_eq!(code, Some(0), "{said}");
    assert!(std::fs::read(volume.path.join("small")).unwrap() == noise(7, 24 << 20));
}

/// Its session is cut off, and waited for ten minutes.
#[test]
fn a_client_that_was_killed_begins_again_where_one_address_has_one_session() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("srv")).unwrap();
    std::fs::write(scratch.path("file"), noise(9, 24 << 20)).unwrap();
    let bound = ["--max-sessions-per-address", "1"];
    let daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], &bound);
    let (from, to) = (scratch.path("file").display().to_string(), daemon.place("data", "file"));
    let mut copy = scratch.thalweg();
    copy.args(["cp", "--bwlimit", "1MB/s", &from, &to]).env("THALWEG_TICKET", &daemon.ticket);
    let copy = Running::start(copy);
    assert!(wait_until(LIMIT, || bytes_allocated(&scratch.path("srv")) >= 1 << 20));
    copy.kill();
    // The daemon hears of its end a moment later.
    let again = || asked(&scratch, &daemon.ticket, &["cp", &from, &to]);
    let mut last = again();
    assert!(
        wait_until(LIMIT, || {
            let is_done = last.0 == Some(0);
            if !is_done {
                last = again();
            }
            is_done
        }),
        "{last:?}"
    );
    assert!(std::fs::read(scratch.path("srv/file")).unwrap() == noise(9, 24 << 20));
}

/// A stream of a pipe that stays open is a session for as long as that is wanted.
#[test]
fn one_session_more_than_was_said_is_refused_until_another_ends() {
    const LIMIT: Duration = Duration::from_secs(60);
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("srv")).unwrap();
    // From one address comes half of all, if nobody says: one of two.
    let bounds = [["--max-sessions", "1"], ["--max-sessions", "2"], ["--max-sessions-per-address", "1"]];
    for (number, bounds) in bounds.iter().enumerate() {
        let daemon = scratch.daemon_with(&[("data", &scratch.path("srv"))], bounds);
        let name = format!("pipe-{number}");
        let mut stream = scratch.thalweg();
        stream.args(["stream", "-", &daemon.place("data", &name)]).env("THALWEG_TICKET", &daemon.ticket);
        let (stream, mut pipe) = Running::fed(stream);
        std::io::Write::write_all(&mut pipe, b"x").unwrap();
        let has_begun = || scratch.path("srv").join(&name).exists();
        assert!(wait_until(LIMIT, has_begun), "{bounds:?}");
        let listed = || asked(&scratch, &daemon.ticket, &["ls", &daemon.place("data", "")]);
        let (code, said) = listed();
        assert_eq!(code, Some(3), "{bounds:?}: {said}");
        assert!(said.contains("as many sessions or streams as it takes"), "{bounds:?}: {said}");
        drop(pipe);
        assert_eq!(stream.end(LIMIT).code, Some(0), "{bounds:?}");
        // The daemon hears of its end a moment later.
        assert!(wait_until(LIMIT, || listed().0 == Some(0)), "{bounds:?}");
    }
}
