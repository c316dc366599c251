//! With the other place at a far mover, and with TLS to the store.

use super::servers::{Kind, Server, each};
use super::sshd::Sshd;
use super::support::job::Running;
use super::support::noise;
use std::time::Duration;

const BYTES: usize = (20 << 20) + 5;
/// Only what hangs takes longer.
const HANG: Duration = Duration::from_secs(300);

fn make(server: &Server) {
    for (name, content) in [("from/large", noise(1, BYTES)), ("from/in/small", noise(2, 1000))] {
        let path = server.scratch.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[track_caller]
fn assert_made(server: &Server, directory: &str) {
    for (name, content) in [("large", noise(1, BYTES)), ("in/small", noise(2, 1000))] {
        let path = server.scratch.path(directory).join(name);
        assert!(std::fs::read(&path).unwrap() == content, "{}", path.display());
    }
}

#[test]
fn a_bucket_is_filled_from_a_daemon_and_copied_to_it() {
    each("daemon", |server| {
        make(server);
        std::fs::create_dir(server.scratch.path("back")).unwrap();
        let exports = [("from", server.scratch.path("from")), ("back", server.scratch.path("back"))];
        let exports: Vec<_> = exports.iter().map(|(name, path)| (*name, path.as_path())).collect();
        let daemon = server.scratch.daemon(&exports);
        let ticket = daemon.ticket.display().to_string();
        server.ok(&["cp", "--ticket", &ticket, &daemon.place("from", ""), &server.place("run/")]);
        assert_eq!(server.keys(), ["run/in/small", "run/large"]);
        server.ok(&["cp", "--ticket", &ticket, &server.place("run/"), &daemon.place("back", "")]);
        assert_made(server, "back");
        let (from, to) = (server.place("run/"), daemon.place("back", ""));
        let again = server.ok(&["cp", "--json", "--ticket", &ticket, &from, &to]);
        assert_eq!(again.number("bytes_received"), 0);
    });
}

#[test]
fn a_bucket_is_filled_by_ssh_and_copied_by_it() {
    each("ssh", |server| {
        let Some(sshd) = Sshd::start(&server.scratch) else { return };
        make(server);
        let from = sshd.url(&server.scratch.path("from/"));
        let back = sshd.url(&server.scratch.path("back/"));
        server.ok(&["cp", "-e", &sshd.rsh, &from, &server.place("run/")]);
        assert_eq!(server.keys(), ["run/in/small", "run/large"]);
        server.ok(&["cp", "-e", &sshd.rsh, &server.place("run/"), &back]);
        assert_made(server, "back");
    });
}

/// Moto speaks TLS only with a certificate of its own.
#[test]
fn a_store_is_reached_by_tls_with_an_authority_that_is_named_and_not_without() {
    let Some(server) = Server::start(Kind::Versity, "TLS") else { return };
    make(&server);
    let server = server.with_tls();
    let words = ["cp", "--patience", "1s", &server.path("from/"), &server.place("run/")];
    let refused = server.run(&words).expect(3);
    assert!(refused.stderr.to_lowercase().contains("certificate"), "{}", refused.stderr);
    let config = server.scratch.path("config.toml");
    let text = format!(
        "[place.lab]\nurl = \"s3://data/run\"\nendpoint = \"{}\"\nca = \"ca.pem\"\nstyle = \"path\"\n",
        server.endpoint
    );
    std::fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let mut command = server.thalweg();
    command.env_remove("AWS_ENDPOINT_URL");
    command.args(["--config", &config, "cp", &server.path("from/"), "@lab/x/"]);
    Running::start(command).end(HANG).expect(0);
    let ca = server.ca.as_ref().unwrap().display().to_string();
    let mut command = server.thalweg();
    command.env("AWS_CA_BUNDLE", ca).args(["cp", &server.place("run/x/"), &server.path("back/")]);
    Running::start(command).end(HANG).expect(0);
    assert_made(&server, "back");
}
