//! Hostile peers: authenticated, and lying. A client against the real daemon, a server against the real `thalweg cp`.
//!
//! After every lie: refused in time, the daemon lives, nothing outside of the root was touched, and an honest copy
//! works. Promises 21, 24 and 26 to 33 of SPEC.md.

#[path = "../support/mod.rs"]
mod support;

mod sessions;

mod bounds;

mod senders;

mod receivers;

mod servers;

mod receipts;

mod silence;

mod flows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::chance::{has, in_time, skipped};
use support::job::{Ran, Running, with};
use support::peer::*;
use support::{Daemon, Scratch, facts, noise, wait_until};
use thalweg_mover::link::{Identity, resume_proof, stream_proof};
use thalweg_wire::frame::{Encoding, FrameKind, Inner, PackItem};
use thalweg_wire::hello::{Answer, Hello, Purpose, ServerHello, System};
use thalweg_wire::message::{
    AckLevel, ChannelTerms, Check, Direction, Failure, FailureKind, Loss, Message, Open, Opened, Outcome,
    Place, Pull, PullTrial, Push, PushTrial, Question, Reply, Request, Run, ScanTotals, Seal, SourceForm,
    Terms, Totals, TransferMessage as T, TransferNumber, VerifyLevel, Want,
};
use thalweg_wire::receipt::{Side, Signatory, Signed, Statement, TransferKind};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, limits};

/// A refusal comes at once; the machine may be busy. Less than the stall timeout of the daemon, which ends much.
const AT_ONCE: Duration = Duration::from_secs(25);

/// A daemon with an export that can be written, one that cannot, and something outside of both.
struct World {
    scratch: Scratch,
    daemon: Daemon,
    outside: BTreeMap<Vec<u8>, String>,
    honest: u32,
}

impl World {
    fn new() -> World {
        // In memory: what is written here is nothing, and a refusal does not wait for a disk.
        let scratch = Scratch::in_memory();
        for name in ["export", "readonly", "outside", "honest"] {
            std::fs::create_dir(scratch.path(name)).unwrap();
        }
        std::fs::write(scratch.path("outside/canary"), b"outside").unwrap();
        std::fs::write(scratch.path("readonly/secret"), b"read only").unwrap();
        std::fs::write(scratch.path("honest/large"), noise(1, 300_000)).unwrap();
        std::fs::write(scratch.path("honest/small"), b"small").unwrap();
        let read_only = scratch.path("readonly");
        let daemon = scratch.daemon_at(
            "127.0.0.1:0",
            &[("data", &scratch.path("export"))],
            &["--patience", "5s", "--export", &format!("ro={}:ro", read_only.display())],
            |mut command| {
                command.env("THALWEG_LOG", "info");
                command
            },
        );
        let outside = facts(&scratch.path("outside"));
        World { scratch, daemon, outside, honest: 0 }
    }

    fn client(&self) -> HostileClient {
        HostileClient::begin(&self.daemon.ticket, &self.daemon.address())
    }

    fn export(&self, name: &str) -> PathBuf {
        self.scratch.path("export").join(name)
    }

    /// Opens a push to a directory of its own, with a stream.
    fn pushing(&self, into: &str) -> (HostileClient, Stream) {
        let mut client = self.client();
        client.open_push("data", into);
        let stream = client.stream(0);
        (client, stream)
    }

    #[track_caller]
    fn is_unharmed(&mut self, words: &str) {
        assert!(self.daemon.is_alive(), "{words}: the daemon died\n{}", self.scratch.server_log());
        let log = self.scratch.server_log();
        assert!(!log.contains("panicked"), "{words}: a panic\n{log}");
        assert_eq!(
            facts(&self.scratch.path("outside")),
            self.outside,
            "{words}: something outside was touched"
        );
        let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!(names(&self.scratch.path("readonly")), 1, "{words}: the read-only export was written");
        assert!(!self.scratch.path("planted").exists(), "{words}: planted beside the export");
    }

    #[track_caller]
    fn still_serves(&mut self, words: &str) {
        self.is_unharmed(words);
        self.honest += 1;
        let to = self.daemon.place("data", &format!("honest-{}/", self.honest));
        let job = with(self.scratch.thalweg(), ["cp", "--quiet", "--ticket"]);
        let job = with(with(job, [&self.daemon.ticket, &self.scratch.path("honest/")]), [to]);
        let ran = Running::start(job).end(Duration::from_secs(60));
        assert_eq!(
            ran.code,
            Some(0),
            "{words}: an honest copy failed\n{}\n{}",
            ran.stderr,
            self.scratch.server_log()
        );
        let there = self.export(&format!("honest-{}/large", self.honest));
        assert_eq!(std::fs::read(there).unwrap(), noise(1, 300_000), "{words}");
    }
}

/// Offers this, and waits until the receiver wants it.
#[track_caller]
fn offer_and_hear_want(client: &mut HostileClient, entries: Vec<Entry>) {
    let wanted = entries.last().unwrap().id;
    client.line.tell(T::Offer(entries));
    let want = client.line.hear_some(AT_ONCE, |message| match message {
        Message::Transfer(_, T::Want(items)) => items.into_iter().find(|(id, _)| *id == wanted),
        _ => None,
    });
    assert!(want.is_some(), "entry {wanted:?} is not wanted");
}

/// A copy that gives up soon.
fn cp(scratch: &Scratch, server: &HostileServer, args: &[String]) -> std::process::Command {
    cp_with(scratch, server, args, ["--stall-timeout", "2s", "--patience", "6s"])
}

/// One that does not: with a server that answers, on a machine that may be held up.
fn patient_cp(scratch: &Scratch, server: &HostileServer, args: &[String]) -> std::process::Command {
    cp_with(scratch, server, args, ["--stall-timeout", "20s", "--patience", "40s"])
}

fn cp_with(
    scratch: &Scratch,
    server: &HostileServer,
    args: &[String],
    patience: [&str; 4],
) -> std::process::Command {
    let job = with(scratch.thalweg(), ["cp", "--streams", "1", "--chunk", "64KiB"]);
    with(with(with(with(job, patience), ["--ticket"]), [&server.ticket]), args)
}

/// Whether the client's goodbye says that the protocol was broken. That it ends alone says nothing: it does so with
/// whoever is silent.
fn is_told_breach(line: &mut Line) -> bool {
    let why = line.hear_some(AT_ONCE, |message| match message {
        Message::Goodbye(why) => Some(why),
        _ => None,
    });
    why.flatten().is_some_and(|why| why.kind == FailureKind::Protocol)
}

fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// No byte that a terminal would act on.
#[track_caller]
fn assert_inert(ran: &Ran, words: &str) {
    for text in [&ran.stdout, &ran.stderr] {
        let bad = text.chars().find(|&c| c.is_control() && c != '\n');
        assert_eq!(bad, None, "{words}: {text:?}");
    }
}
