//! Starts a far mover by the user's own ssh, and [reaches](super::reaching) it.

use crate::event::Events;
use crate::failure::Result;
use crate::link::ssh::deputy::{self, StartedDeputy};
use crate::link::ssh::{self, DialBack, FarProgram, NotStarted, Order, Ready, Ssh, StartedMover, bootstrap};
use crate::link::{Fingerprint, Identity, Pins, ServerTrust, client_config};
use crate::mutex::lock;
use crate::run::client::DIAL_TIMEOUT;
use crate::run::dialling::{BRIDGE_LIMIT, DIAL_LIMIT, SAY_LIMIT};
use crate::run::far_mover::FarMover;
use crate::run::logins::Logins;
use crate::run::reaching::{self, Allowed, Asks, Started, Starter};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use thalweg_sys::priority::Priority;

/// Time from the start of a far mover to its first session: each way is tried in turn, and the last one logs in once
/// more, at both ends where a deputy is its client, which asks by way of another machine.
pub const FIRST_SESSION_LIMIT: Duration = BRIDGE_LIMIT
    .saturating_mul(2)
    .saturating_add(DIAL_LIMIT.saturating_mul(3))
    .saturating_add(SAY_LIMIT.saturating_mul(2))
    .saturating_add(DIAL_TIMEOUT);
/// Time for a bridge to end by itself at the end.
const BRIDGE_ENDS: Duration = Duration::from_secs(1);

/// What a user wants of ssh.
#[derive(Clone)]
pub struct SshWishes {
    /// To whom, and how.
    pub ssh: Ssh,
    /// The program there.
    pub program: FarProgram,
    /// Place our own program there if there is none.
    pub bootstrap: bool,
    /// Where that may be; `None`: it is the one that runs, or beside it.
    pub static_programs: Option<Vec<PathBuf>>,
    /// Ports that the far mover may choose from.
    pub ports: Option<(u16, u16)>,
    /// Ports here that it may dial.
    pub near_ports: Option<(u16, u16)>,
    /// Bridges only.
    pub via_ssh: bool,
    /// For how long the far side keeps a session without a link.
    pub patience: Duration,
    /// After how long a silent link counts as lost there.
    pub stall_timeout: Duration,
    /// How the far mover stands to others there.
    pub priority: Priority,
}

impl SshWishes {
    /// What a far mover is told that is to admit `client` alone.
    pub(super) fn order(&self, client: Fingerprint) -> Order {
        Order {
            ports: self.ports,
            // More than others have is a right that somebody else gives, there.
            nice: self.priority.nice.filter(|nice| *nice > 0),
            io_priority: self.priority.io.map(|io| io.to_string()),
            ..Order::new(client, self.patience, self.stall_timeout)
        }
    }

    fn allowed(&self) -> Allowed {
        Allowed { family: self.ssh.family(), near_ports: self.near_ports, via_ssh: self.via_ssh }
    }
}

/// Starts a far mover and finds a way to it, as `identity`: the one with which the copy is signed as well.
///
/// # Errors
/// `Connection` if ssh does not get there; `NotFound` if there is no program; `Protocol` if it is too old or too new.
pub fn reach(wishes: SshWishes, identity: &Identity, events: Events) -> Result<FarMover> {
    let pins = Pins::new();
    let tls = client_config(identity, &ServerTrust::PinnedAnyOf(pins.clone()))?;
    let (order, allowed) = (wishes.order(identity.fingerprint()), wishes.allowed());
    reaching::reach(SshStarter::new(wishes, order), allowed, (pins, tls), events)
}

/// Starts far movers at one host.
pub(super) struct SshStarter {
    wishes: SshWishes,
    order: Order,
    /// The one that is there, or that was placed there.
    program: Mutex<FarProgram>,
    /// ssh processes that carry connections; each ends with its connection.
    bridges: Mutex<Vec<Child>>,
    logins: Logins,
    /// Another machine has it log in.
    serves_asks: bool,
}

impl SshStarter {
    /// Which are told this.
    pub(super) fn new(wishes: SshWishes, order: Order) -> SshStarter {
        let program = Mutex::new(wishes.program.clone());
        let (bridges, logins) = (Mutex::default(), Logins::default());
        SshStarter { wishes, order, program, bridges, logins, serves_asks: false }
    }

    /// The same, for another machine that has it log in when it likes: nobody is asked for a password then, but at a
    /// first time.
    pub(super) fn serving_asks(self) -> SshStarter {
        SshStarter { serves_asks: true, ..self }
    }

    /// ssh for a first time, or another.
    fn ssh(&self, first: bool) -> Ssh {
        let ssh = self.wishes.ssh.clone();
        if self.serves_asks && !first { ssh.never_asking() } else { ssh }
    }

    /// The program there.
    fn program(&self) -> FarProgram {
        lock(&self.program).clone()
    }

    /// Starts a far mover that is told this, unless it `is_over` before.
    pub(super) fn start_as(
        &self,
        order: &Order,
        first: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<StartedMover> {
        let start = |there: &Ssh| {
            self.started(there, is_over, |program| ssh::start(there, program, order, first, is_over))
        };
        let there = self.ssh(first);
        if first { self.logins.log_in(&there, is_over, start) } else { start(&there) }
    }

    /// Starts a deputy, unless it `is_over` before.
    pub(super) fn start_deputy(&self, is_over: &dyn Fn() -> bool) -> Result<StartedDeputy> {
        let start = |there: &Ssh| {
            self.started(there, is_over, |program| deputy::start(there, program, true, is_over))
        };
        self.logins.log_in(&self.ssh(true), is_over, start)
    }

    /// If need be after placing our program there.
    fn started<T>(
        &self,
        there: &Ssh,
        is_over: &dyn Fn() -> bool,
        start: impl Fn(&FarProgram) -> std::result::Result<T, NotStarted>,
    ) -> Result<T> {
        match start(&self.program()) {
            Ok(started) => Ok(started),
            Err(refused) if refused.program_is_missing && self.wishes.bootstrap => {
                let ours = self.wishes.static_programs.as_deref();
                let placed = bootstrap::place(there, ours, is_over)?;
                *lock(&self.program) = FarProgram::at(placed);
                start(&self.program()).map_err(|refused| refused.failure)
            }
            Err(refused) => Err(refused.failure),
        }
    }
}

impl Starter for SshStarter {
    type Started = StartedMover;

    fn name(&self) -> String {
        self.wishes.ssh.name()
    }

    fn start(&self, first: bool) -> Result<StartedMover> {
        self.start_as(&self.order, first, &|| false)
    }

    fn host(&self, _: &StartedMover) -> String {
        self.wishes.ssh.dialled_host()
    }

    fn bridge(&self, port: u16, is_over: &AtomicBool) -> Result<OwnedFd> {
        let (fd, child) = ssh::bridge(&self.ssh(false), &self.program(), port, BRIDGE_LIMIT, is_over)?;
        let mut bridges = lock(&self.bridges);
        bridges.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        bridges.push(child);
        Ok(fd)
    }

    fn why_bridged(&self) -> String {
        format!("no port of {} can be reached from here, nor one here from there", self.name())
    }

    fn close(&self) {
        for mut bridge in std::mem::take(&mut *lock(&self.bridges)) {
            ssh::end(&mut bridge, BRIDGE_ENDS);
        }
        self.logins.close();
    }
}

impl Started for StartedMover {
    fn ready(&self) -> &Ready {
        &self.ready
    }

    fn dials_back(&self) -> bool {
        self.ready.dials_back
    }

    fn asker(&self) -> Asks {
        let asker = StartedMover::asker(self);
        Box::new(move |request: &DialBack| asker.ask(request))
    }

    fn may_be_gone(&mut self, _is_late: bool) -> bool {
        self.ssh_ended()
    }

    fn close(&mut self) {
        StartedMover::close(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event;
    use crate::failure::{Failure, FailureKind};
    use crate::link::testing::{LONG, our_client_config, unix_pair};
    use crate::run::client::Connect;
    use crate::run::dialling::{Reached, has_gone};
    use crate::run::reaching::Reaching;
    use std::ffi::OsStr;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;
    use std::time::Instant;

    /// Whose connections ride in ssh.
    fn bridged(ssh: Ssh) -> Reaching<SshStarter> {
        let wishes = SshWishes {
            ssh,
            program: FarProgram::at("thalweg".into()),
            bootstrap: false,
            static_programs: None,
            ports: None,
            near_ports: None,
            via_ssh: true,
            patience: LONG,
            stall_timeout: LONG,
            priority: Priority::default(),
        };
        let (order, allowed) = (wishes.order(Fingerprint([3; 32])), wishes.allowed());
        let tls = (Pins::new(), our_client_config());
        let reaching = Reaching::new(SshStarter::new(wishes, order), allowed, tls, event::nobody());
        reaching.lock().reached = Some(Reached::Bridge(1));
        reaching
    }

    #[test]
    fn where_no_far_mover_stays_none_is_started_any_more_and_no_outage_is_waited_for() {
        let connect = bridged(Ssh::new(OsStr::new("false"), "far", None).unwrap());
        let why = connect.gives_up(&mut connect.lock());
        assert!(why.cause.contains("far: the far mover ends again and again"), "{why}");
        let again = connect.connect(LONG).unwrap_err();
        assert_eq!((again.kind, again.to_string()), (FailureKind::Unsupported, why.to_string()));
    }

    /// Else two slow answers in its first minutes were two ends of movers, after which none is started any more.
    #[test]
    fn a_far_mover_whose_handshake_is_only_slow_is_not_gone_until_it_was_silent_for_long() {
        let connect = bridged(Ssh::new(OsStr::new("false"), "far", None).unwrap());
        let silent = || {
            let (ours, _theirs) = unix_pair();
            connect.prove(ours, Duration::from_millis(20))
        };
        assert_eq!(has_gone(silent(), false).unwrap_err().kind, FailureKind::Connection);
        assert!(has_gone(silent(), true).unwrap());
        let another = Failure::new(FailureKind::Permission, "TLS handshake", "it is not the one trusted");
        assert!(has_gone(Err(another), false).unwrap());
        assert!(!has_gone(Ok(()), false).unwrap());
    }

    #[test]
    fn a_login_that_is_under_way_when_the_copy_is_over_ends_with_it_and_none_begins() {
        let scratch = tempfile::tempdir().unwrap();
        let (script, begun) = (scratch.path().join("ssh.sh"), scratch.path().join("begun"));
        std::fs::write(&script, format!("echo $$ >> '{}'\nexec sleep 60\n", begun.display())).unwrap();
        let command = format!("sh '{}'", script.display());
        let connect = Arc::new(bridged(Ssh::new(OsStr::new(&command), "far", None).unwrap()));
        let logins = || std::fs::read_to_string(&begun).unwrap_or_default();
        let dialling = {
            let connect = connect.clone();
            std::thread::spawn(move || connect.connect(LONG))
        };
        let until = Instant::now() + LONG;
        while !logins().ends_with('\n') {
            assert!(Instant::now() < until, "no login begins");
            std::thread::sleep(Duration::from_millis(5));
        }
        connect.close();
        let login = Path::new("/proc").join(logins().trim());
        assert!(!login.exists(), "it outlives the copy");
        assert!(dialling.join().unwrap().is_err());
        assert!(connect.connect(LONG).is_err());
        // Nor for another far mover, by whoever found just now that the first is gone.
        assert!(connect.summon(&mut connect.lock(), false).is_err());
        assert_eq!(logins().lines().count(), 1);
    }

    #[test]
    fn bridges_end_with_the_copy_also_while_another_far_mover_is_started() {
        let connect = bridged(Ssh::new(OsStr::new("false"), "far", None).unwrap());
        let bridge = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Path::new("/proc").join(bridge.id().to_string());
        connect.starter.bridges.lock().unwrap().push(bridge);
        // Whoever starts one holds it.
        let starting = connect.lock();
        connect.close();
        drop(starting);
        assert!(!process.exists(), "it outlives the copy");
    }
}
