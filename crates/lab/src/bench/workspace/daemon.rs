//! `thalweg serve` for a suite.

use super::processes::{Noted, POLL, SERVER_WAIT, cpu_of, end};
use super::{Workspace, enter};
use crate::bench::network::Host;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};
use thalweg_mover::link::ticket::Ticket;

/// `thalweg serve`, with an export `data`; ends with the value.
pub struct Daemon {
    child: Child,
    /// `HOST:PORT`.
    address: String,
    pub(super) ticket: PathBuf,
    export: PathBuf,
    _noted: Noted,
}

impl Workspace {
    /// Starts a server on the loopback, or in a host.
    ///
    /// # Errors
    /// If it does not start.
    pub fn daemon(&self, host: Option<&Host>) -> Result<Daemon> {
        self.daemon_with(host, &[])
    }

    /// The same, with more words.
    ///
    /// # Errors
    /// As there.
    pub fn daemon_with(&self, host: Option<&Host>, more: &[&str]) -> Result<Daemon> {
        // Hosts of two testbeds have the same names.
        let number = self.daemons.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", host.map_or("here", |host| &host.name));
        let failed = |error: std::io::Error| of_io("start the server", &error);
        let export = self.path(&format!("served-{name}"));
        fs::create_dir_all(&export).map_err(failed)?;
        let ticket = self.path(&format!("ticket-{name}"));
        let listen = host.map_or_else(|| "127.0.0.1:0".to_owned(), |host| format!("{}:8487", host.address));
        let mut command = self.command(&format!("server-{name}"));
        command.args(["serve", "--listen", &listen, "--export"]);
        command.arg(format!("data={}", export.display())).arg("--ticket-file").arg(&ticket).args(more);
        let mut command = enter(host, command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().map_err(failed)?;
        let noted = Noted::new(&self.running, child.id());
        let mut daemon = Daemon { child, address: String::new(), ticket, export, _noted: noted };
        let until = Instant::now() + SERVER_WAIT;
        // Written when it listens.
        loop {
            if daemon.ticket.exists() {
                let ticket = Ticket::read(&daemon.ticket)?;
                daemon.address = ticket.addresses.into_iter().next().unwrap_or_default();
                return Ok(daemon);
            }
            let ended = daemon.child.try_wait().map_err(failed)?;
            if ended.is_some() || Instant::now() > until {
                let cause =
                    ended.map_or_else(|| "it wrote no ticket".to_owned(), |code| format!("it ended: {code}"));
                return Err(Failure::new(FailureKind::Internal, "start the server", cause));
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Daemon {
    /// Where `name` is served.
    pub fn url(&self, name: &str) -> String {
        format!("tw://{}/data/{name}", self.address)
    }

    /// Where that is on the disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.export.join(name)
    }

    /// CPU that it took so far; none where it cannot be told.
    pub(super) fn cpu_s(&self) -> Option<f64> {
        cpu_of(self.child.id())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
