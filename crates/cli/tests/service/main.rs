//! The daemon as a service: packaging/systemd/thalweg.service, and what docs/guide/daemon.md says about it.

#[path = "../support/mod.rs"]
mod support;

// Its unit.
mod daemon_unit;

// Units of watches and streams.
mod units;

// Where it listens.
mod listening;

// One at a time.
mod state;

// Signals.
mod reload;

// What its exports permit.
mod exports;

// How many it serves.
mod sessions;

// What Prometheus is told.
mod metrics;

// Users with tickets.
mod tickets;

// Users with tokens.
mod tokens;

// A real provider of these.
mod provider;

// Logins at one.
mod logins;

// Copies between two of them.
mod daemons;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use support::{Scratch, finish};

/// Where the unit says that it keeps its state.
const STATE: &str = "/var/lib/thalweg";
/// What it may write besides.
const EXPORT: &str = "/srv/data";

fn packaged(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).expect("a file of the repository")
}

/// What stands behind `KEY=`.
fn of_the_unit(unit: &str, key: &str) -> String {
    let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.unwrap_or_else(|| panic!("{key}= stands in the unit")).to_owned()
}

/// Runs the program with this ticket: its exit code, and what it said.
fn asked(scratch: &Scratch, ticket: &Path, words: &[&str]) -> (Option<i32>, String) {
    let mut command = scratch.thalweg();
    command.args(words).env("THALWEG_TICKET", ticket).stdout(Stdio::piped()).stderr(Stdio::piped());
    let out = finish(command.spawn().unwrap());
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
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
