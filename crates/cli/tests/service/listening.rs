//! Where a daemon listens, and what it says of that: to its service manager, on stdout and in its ticket.

use super::support::chance::skipped;
use super::support::job::Strace;
use super::support::{Scratch, finish, wait_until};
use super::{Ends, packaged};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::Duration;
use thalweg_lab::wrap::wrap;
use thalweg_mover::link::Ticket;

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
