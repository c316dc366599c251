//! What who started a deputy does for the copy that it runs: all that takes a login at the other end, which the user
//! has and the deputy has not.
//!
//! 1. *Summon*: a mover is started at the other end, which admits the deputy's copy alone, and serves the one place of
//!    the errand alone.
//! 2. *Dial back*: it is asked to dial the deputy's end.
//! 3. *Bridge*: where neither end can dial the other, each connection rides in two ssh processes, and is pumped from
//!    the one to the other here.
//!
//! A deputy is on a machine of which this one need not believe everything: what it may have done here is this, each
//! within bounds, and nothing of what it says reaches a command line.

use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::Fingerprint;
use crate::link::ssh::deputy::StartedDeputy;
use crate::link::ssh::errand::{ASKS_MAX, Failed, Nothing, Outcome, What};
use crate::link::ssh::{self, ADDRESSES_MAX, DialBack, Only, Order, StartedMover, check_token};
use crate::mutex::lock;
use crate::run::by_ssh::{SshStarter, SshWishes};
use crate::run::dialling::{CLOSED, LOGINS_MAX, not_reached};
use crate::run::reaching::Starter;
use crate::run::thread;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_wire::limits;

/// Between two movers that are started: each costs a login.
const SUMMON_EVERY: Duration = Duration::from_secs(2);
/// Connections that are carried at the same time, at most, and that may begin one right after the other.
const CARRIED_MAX: usize = ASKS_MAX;
/// Between two more of them: each costs a login at either end.
const BRIDGE_EVERY: Duration = SUMMON_EVERY;
/// One of which one direction has ended lives so long, at most.
const HALF_OPEN: Duration = Duration::from_secs(60);
/// So does one of which an end takes nothing: longer than a slow disk syncs.
const STUCK: Duration = Duration::from_secs(600);
/// Between two looks whether the other direction has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Read and written at once; a channel of ssh has packets of 32 KiB.
const PIECE_BYTES: usize = 128 << 10;

/// See the module.
pub struct Steward {
    acting: SshStarter,
    other: Option<Other>,
    /// Protocol versions that the deputy speaks.
    versions: Mutex<(u16, u16)>,
    /// Nothing more is done: logins that are under way end, and none begins.
    is_over: AtomicBool,
    /// Bridges that are logging in.
    logins: AtomicUsize,
    /// How many may begin.
    budget: Mutex<Budget>,
    carried: Mutex<Vec<Arc<Carried>>>,
}

/// An other end that ssh reaches.
struct Other {
    wishes: SshWishes,
    only: Only,
    starter: SshStarter,
    /// Held while one is started; when that was last.
    summoned: Mutex<Option<Instant>>,
    far: Mutex<Option<StartedMover>>,
}

impl Steward {
    /// For a deputy at the acting end. The other one is reached by ssh, and of it a mover serves `only` this; or it is
    /// none of ours.
    pub fn new(acting: SshWishes, other: Option<(SshWishes, Only)>) -> Steward {
        // Of an order only what a mover is told is of use, and who its client is says each ask.
        let nobody = Fingerprint([0; 32]);
        let starter = |wishes: SshWishes| {
            let order = wishes.order(nobody);
            SshStarter::new(wishes, order).serving_asks()
        };
        let other = other.map(|(wishes, only)| Other {
            starter: starter(wishes.clone()),
            wishes,
            only,
            summoned: Mutex::default(),
            far: Mutex::default(),
        });
        Steward {
            acting: starter(acting),
            other,
            versions: Mutex::new((limits::VERSION_MIN, limits::VERSION_MAX)),
            is_over: AtomicBool::new(false),
            logins: AtomicUsize::new(0),
            budget: Mutex::new(Budget::new(Instant::now())),
            carried: Mutex::default(),
        }
    }

    /// Starts the deputy, unless it `is_over` before. Its user may be asked for a password, so this comes before
    /// anything that draws on the terminal.
    ///
    /// # Errors
    /// `Connection` if ssh does not get there, or it is over; `NotFound` if there is no program; `Protocol` if it is
    /// too old or too new.
    pub fn start_deputy(&self, is_over: &dyn Fn() -> bool) -> Result<StartedDeputy> {
        let started = self.acting.start_deputy(is_over)?;
        *lock(&self.versions) = started.deputy.versions;
        Ok(started)
    }

    /// Does what was asked for, which may take as long as logins do.
    pub fn answer(&self, what: &What) -> Outcome {
        let done = |done: Result<()>| done.map(|()| Outcome::Done(Nothing {}));
        let outcome = match what {
            What::Summon { client, first } => self.summon(client, *first),
            What::Look(_) => done(self.look()),
            What::DialBack(request) => done(self.dial_back(request)),
            What::Bridge { port, token } => done(self.bridge(*port, token)),
        };
        outcome.unwrap_or_else(|failure| Outcome::Failed(Failed::of(&failure)))
    }

    /// All that was started ends.
    pub fn close(&self) {
        self.is_over.store(true, Ordering::Release);
        for carried in lock(&self.carried).drain(..) {
            carried.end();
        }
        if let Some(other) = &self.other {
            if let Some(mut far) = lock(&other.far).take() {
                far.close();
            }
            other.starter.close();
        }
        self.acting.close();
    }

    fn other(&self) -> Result<&Other> {
        if self.is_over.load(Ordering::Acquire) {
            return Err(not_reached("the copy is over"));
        }
        self.other.as_ref().ok_or_else(|| {
            let cause = "the other end of this copy is not reached by ssh";
            Failure::new(FailureKind::Permission, ssh::START, cause)
        })
    }

    fn summon(&self, client: &str, first: bool) -> Result<Outcome> {
        let other = self.other()?;
        let Ok(mut summoned) = other.summoned.try_lock() else { return Err(busy("one is being started")) };
        if summoned.is_some_and(|at| at.elapsed() < SUMMON_EVERY) {
            return Err(busy("one was started just now"));
        }
        let client: Fingerprint = client.parse()?;
        let order = Order {
            versions: *lock(&self.versions),
            only: Some(other.only.clone()),
            ..other.wishes.order(client)
        };
        if let Some(mut old) = lock(&other.far).take() {
            old.close();
        }
        // Only at the first one somebody is there to type.
        let first = first && summoned.is_none();
        let is_over = || self.is_over.load(Ordering::Acquire);
        let started = other.starter.start_as(&order, first, &is_over);
        *summoned = Some(Instant::now());
        let started = started?;
        let outcome = Outcome::Ready { mover: started.ready.clone(), host: other.starter.host(&started) };
        *lock(&other.far) = Some(started);
        // It was closed meanwhile, and this one was not there.
        if self.is_over.load(Ordering::Acquire)
            && let Some(mut far) = lock(&other.far).take()
        {
            far.close();
        }
        Ok(outcome)
    }

    /// Whether ssh to the mover has ended.
    fn look(&self) -> Result<()> {
        let is_there = lock(&self.other()?.far).as_mut().is_some_and(|far| !far.ssh_ended());
        if is_there { Err(busy("it is there")) } else { Ok(()) }
    }

    fn dial_back(&self, request: &DialBack) -> Result<()> {
        request.check()?;
        let mut request = request.clone();
        request.addresses.truncate(ADDRESSES_MAX);
        let mut far = lock(&self.other()?.far);
        let asker = far.as_mut().and_then(|far| (!far.ssh_ended()).then(|| far.asker()));
        drop(far);
        match asker {
            Some(asker) => asker.ask(&request),
            None => Err(Failure::new(CLOSED, ssh::REACH, "ssh to the far mover has ended")),
        }
    }

    fn bridge(&self, port: u16, token: &str) -> Result<()> {
        check_token(token)?;
        let other = self.other()?;
        let bridge_port = lock(&other.far).as_ref().map(|far| far.ready.bridge_port);
        let nobody = || Failure::new(CLOSED, ssh::REACH, "there is no far mover");
        let bridge_port = bridge_port.ok_or_else(nobody)?;
        let _login = Login::begin(&self.logins)?;
        lock(&self.carried).retain(|carried| carried.lives());
        if lock(&self.carried).len() >= CARRIED_MAX {
            return Err(busy("as many connections are carried as there may be"));
        }
        if !lock(&self.budget).take(Instant::now()) {
            return Err(busy("as many connections were begun as may be for now"));
        }
        // First the one that tells whether the mover is there at all.
        let far = other.starter.bridge(bridge_port, &self.is_over)?;
        let near = self.acting.bridge(port, &self.is_over).map_err(|mut failure| {
            // It says nothing of the mover.
            failure.kind = FailureKind::Connection;
            failure
        })?;
        let (far, mut near) = (UnixStream::from(far), UnixStream::from(near));
        near.write_all(token.as_bytes()).map_err(|error| failure::of_io(ssh::REACH, &error))?;
        let carried = Carried::begin(near, far)?;
        lock(&self.carried).push(carried.clone());
        if self.is_over.load(Ordering::Acquire) {
            carried.end();
        }
        Ok(())
    }
}

impl Drop for Steward {
    fn drop(&mut self) {
        self.close();
    }
}

fn busy(cause: &str) -> Failure {
    Failure::new(FailureKind::Busy, ssh::REACH, cause)
}

/// One of the bridges that may log in at the same time.
struct Login<'a>(&'a AtomicUsize);

impl Login<'_> {
    /// The deputy's copy has no more at a time: there are two logins for each.
    fn begin(logins: &AtomicUsize) -> Result<Login<'_>> {
        match logins.fetch_add(1, Ordering::AcqRel) < LOGINS_MAX {
            true => Ok(Login(logins)),
            false => {
                logins.fetch_sub(1, Ordering::AcqRel);
                Err(busy("as many bridges log in as may at the same time"))
            }
        }
    }
}

impl Drop for Login<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How many bridges may begin: [`CARRIED_MAX`] at first, and one more every [`BRIDGE_EVERY`].
struct Budget {
    left: usize,
    /// When the last one came.
    since: Instant,
}

impl Budget {
    fn new(now: Instant) -> Budget {
        Budget { left: CARRIED_MAX, since: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        while self.left < CARRIED_MAX && now.saturating_duration_since(self.since) >= BRIDGE_EVERY {
            self.left += 1;
            self.since += BRIDGE_EVERY;
        }
        if self.left == CARRIED_MAX {
            self.since = now;
        }
        let may = self.left > 0;
        self.left -= usize::from(may);
        may
    }
}

/// A connection between two bridges.
struct Carried {
    ends: [UnixStream; 2],
    /// Directions that go on.
    directions: AtomicUsize,
    /// When the first of them ended.
    half_since: Mutex<Option<Instant>>,
}

impl Carried {
    /// Each direction in a thread of its own, until both have ended.
    fn begin(near: UnixStream, far: UnixStream) -> Result<Arc<Carried>> {
        for end in [&near, &far] {
            end.set_read_timeout(Some(LOOK_AGAIN))
                .and_then(|()| end.set_write_timeout(Some(LOOK_AGAIN)))
                .map_err(|error| failure::of_io(ssh::REACH, &error))?;
        }
        let (directions, half_since) = (AtomicUsize::new(2), Mutex::default());
        let carried = Arc::new(Carried { ends: [near, far], directions, half_since });
        for from in 0..2 {
            let (works, panicked) = (carried.clone(), carried.clone());
            let started = thread::guarded("carry", move |_| panicked.end(), move || works.carry(from));
            if let Err(failure) = started {
                carried.end();
                return Err(failure);
            }
        }
        Ok(carried)
    }

    fn carry(&self, from: usize) {
        let (mut from, to) = (&self.ends[from], &self.ends[1 - from]);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(read) if self.put(to, &piece[..read], STUCK) => {}
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock && !self.is_left() => {}
                Err(_) => break,
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        lock(&self.half_since).get_or_insert_with(Instant::now);
        // With the last direction both ends close, and with them ssh.
        if self.directions.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.end();
        }
    }

    /// Writes all of it, as long as the end takes some of it within `patience`.
    fn put(&self, mut to: &UnixStream, mut piece: &[u8], patience: Duration) -> bool {
        let mut since = Instant::now();
        while !piece.is_empty() {
            match to.write(piece) {
                Ok(0) => return false,
                Ok(written) => {
                    piece = &piece[written..];
                    since = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if error.kind() == ErrorKind::WouldBlock
                        && !self.is_left()
                        && since.elapsed() < patience => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether the other direction has ended long ago.
    fn is_left(&self) -> bool {
        lock(&self.half_since).is_some_and(|since| since.elapsed() > HALF_OPEN)
    }

    fn lives(&self) -> bool {
        self.directions.load(Ordering::Acquire) > 0
    }

    fn end(&self) {
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Reason;
    use crate::link::ssh::{FarProgram, Ready, Ssh, TOKEN_BYTES};
    use crate::link::testing::LONG;
    use crate::run::logins;
    use std::ffi::OsStr;
    use thalweg_sys::priority::Priority;

    fn wishes(rsh: &str) -> SshWishes {
        SshWishes {
            ssh: Ssh::new(OsStr::new(rsh), "far", None).unwrap(),
            program: FarProgram::at("thalweg".into()),
            bootstrap: false,
            static_programs: None,
            ports: None,
            near_ports: None,
            via_ssh: false,
            patience: LONG,
            stall_timeout: LONG,
            priority: Priority::default(),
        }
    }

    fn refused(steward: &Steward, what: &What) -> Failure {
        match steward.answer(what) {
            Outcome::Failed(failed) => failed.failure(),
            other => panic!("{other:?}"),
        }
    }

    fn summon() -> What {
        What::Summon { client: "ab".repeat(32), first: true }
    }

    /// Each tells in a file that it was started, and what with.
    fn told(scratch: &tempfile::TempDir) -> (String, impl Fn() -> String) {
        let (script, begun) = (scratch.path().join("ssh.sh"), scratch.path().join("begun"));
        let text = format!("echo \"$*\" >> '{}'\nhead -n 1 >> '{0}'\n", begun.display());
        std::fs::write(&script, text).unwrap();
        let said = move || std::fs::read_to_string(&begun).unwrap_or_default();
        (format!("sh '{}'", script.display()), said)
    }

    #[test]
    fn a_deputy_whose_other_end_is_not_by_ssh_has_nothing_done_there() {
        let scratch = tempfile::tempdir().unwrap();
        let (rsh, said) = told(&scratch);
        let steward = Steward::new(wishes(&rsh), None);
        let token = "0f".repeat(TOKEN_BYTES / 2);
        for what in [summon(), What::Look(Nothing {}), What::Bridge { port: 22, token }] {
            assert_eq!(refused(&steward, &what).kind, FailureKind::Permission, "{what:?}");
        }
        assert_eq!(said(), "");
    }

    #[test]
    fn what_a_deputy_says_is_checked_before_anything_is_started() {
        let scratch = tempfile::tempdir().unwrap();
        let (rsh, said) = told(&scratch);
        let steward = Steward::new(wishes(&rsh), Some((wishes(&rsh), Only::new(b"to", true))));
        for client in ["", "ab", "; id"] {
            let summon = What::Summon { client: client.to_owned(), first: true };
            refused(&steward, &summon);
        }
        for token in ["", "short", &"\n".repeat(TOKEN_BYTES)] {
            let request = DialBack { port: 1, token: token.to_owned(), addresses: Vec::new() };
            assert_eq!(refused(&steward, &What::DialBack(request)).kind, FailureKind::Protocol);
            let bridge = What::Bridge { port: 1, token: token.to_owned() };
            assert_eq!(refused(&steward, &bridge).kind, FailureKind::Protocol);
        }
        // There is none yet.
        let bridge = What::Bridge { port: 1, token: "0f".repeat(TOKEN_BYTES / 2) };
        assert_eq!(refused(&steward, &bridge).kind, CLOSED);
        assert_eq!(said(), "");
    }

    #[test]
    fn a_mover_is_told_the_one_place_and_none_is_started_right_after_another() {
        let scratch = tempfile::tempdir().unwrap();
        let (rsh, said) = told(&scratch);
        let steward = Steward::new(wishes("false"), Some((wishes(&rsh), Only::new(b"to", true))));
        // It says nothing and ends.
        refused(&steward, &summon());
        let told = said();
        let (words, order) = told.trim().split_once('\n').unwrap();
        assert!(words.ends_with("thalweg mover"), "{words}");
        let order = Order::of_line(order).unwrap();
        assert_eq!((order.client, order.only), ("ab".repeat(32), Some(Only::new(b"to", true))));
        assert_eq!(refused(&steward, &summon()).kind, FailureKind::Busy);
        assert_eq!(said().lines().count(), 2);
        steward.close();
        assert_eq!(refused(&steward, &summon()).kind, FailureKind::Connection);
    }

    #[test]
    fn where_somebody_may_have_to_type_one_host_asks_after_the_other() {
        let scratch = tempfile::tempdir().unwrap();
        let (rsh, said) = told(&scratch);
        let mut beside = wishes(&rsh);
        beside.ssh = beside.ssh.within(Some(LONG));
        let steward = Steward::new(beside, None);
        let turn = logins::typing();
        assert_eq!(steward.start_deputy(&|| true).err().unwrap().kind, FailureKind::Connection);
        assert_eq!(said(), "");
        drop(turn);
    }

    #[test]
    fn a_mover_that_does_not_say_that_it_keeps_to_the_one_place_is_ended() {
        let scratch = tempfile::tempdir().unwrap();
        let ready = Ready {
            port: 1,
            addresses: Vec::new(),
            bridge_port: 1,
            dials_back: false,
            fingerprint: "ab".repeat(32),
            versions: (limits::VERSION_MIN, limits::VERSION_MAX),
            version: "0.1.0".to_owned(),
            confines: true,
        };
        let older = ready.to_line().replace("\"confines\":true", "\"later\":1");
        let script = scratch.path().join("ssh.sh");
        for (said, is_good) in [(ready.to_line(), true), (older, false)] {
            let text = format!("read order\necho '{}'\ncat > /dev/null\n", said.trim());
            std::fs::write(&script, text).unwrap();
            let rsh = format!("sh '{}'", script.display());
            let steward = Steward::new(wishes("false"), Some((wishes(&rsh), Only::new(b"to", true))));
            if is_good {
                assert!(matches!(steward.answer(&summon()), Outcome::Ready { .. }));
            } else {
                let failure = refused(&steward, &summon());
                assert_eq!(failure.reason, Reason::FarProgramDiffers, "{failure}");
                assert!(lock(&steward.other().unwrap().far).is_none());
            }
        }
    }

    #[test]
    fn bytes_are_carried_both_ways_until_both_have_ended() {
        let ((near, mut a), (far, mut b)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let carried = Carried::begin(near, far).unwrap();
        let much = vec![7; 3 << 20];
        let writes = {
            let (mut a, much) = (a.try_clone().unwrap(), much.clone());
            std::thread::spawn(move || {
                a.write_all(&much).unwrap();
                a.shutdown(Shutdown::Write).unwrap();
            })
        };
        let mut came = Vec::new();
        b.read_to_end(&mut came).unwrap();
        writes.join().unwrap();
        assert!(came == much);
        assert!(carried.lives());
        b.write_all(b"thanks").unwrap();
        drop(b);
        let mut back = Vec::new();
        a.read_to_end(&mut back).unwrap();
        assert_eq!(back, b"thanks");
        let until = Instant::now() + LONG;
        while carried.lives() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!carried.lives());
    }

    #[test]
    fn what_is_carried_to_an_end_that_takes_nothing_ends() {
        let ((near, a), (far, mut b)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let carried = Carried::begin(near, far).unwrap();
        // More than a pair of sockets holds.
        assert!(!carried.put(&carried.ends[0], &vec![7; 16 << 20], Duration::ZERO));
        drop(a);
        carried.end();
        assert_eq!(b.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn connections_begin_as_many_as_there_are_streams_at_once_and_then_one_from_time_to_time() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let taken = |budget: &mut Budget, now| (0..2 * CARRIED_MAX).filter(|_| budget.take(now)).count();
        assert_eq!(taken(&mut budget, start), CARRIED_MAX);
        let mut now = start;
        for (later, more) in [(BRIDGE_EVERY / 2, 0), (BRIDGE_EVERY / 2, 1), (BRIDGE_EVERY * 3, 3)] {
            now += later;
            assert_eq!(taken(&mut budget, now), more, "{later:?}");
        }
        // Who waited for long has no more than at first.
        assert_eq!(taken(&mut budget, now + Duration::from_secs(1 << 20)), CARRIED_MAX);
    }

    /// One that the deputy's machine wanted could look like one of the user's own.
    #[test]
    fn only_the_first_login_that_a_deputy_has_done_may_ask_for_a_password() {
        let scratch = tempfile::tempdir().unwrap();
        let (_, said) = told(&scratch);
        // By its name it takes the options of OpenSSH.
        let (ssh, script) = (scratch.path().join("ssh"), scratch.path().join("ssh.sh"));
        std::os::unix::fs::symlink("/bin/sh", &ssh).unwrap();
        let rsh = format!("'{}' '{}'", ssh.display(), script.display());
        for (first, times) in [(true, 0), (false, 1)] {
            let steward = Steward::new(wishes("false"), Some((wishes(&rsh), Only::new(b"to", true))));
            refused(&steward, &What::Summon { client: "ab".repeat(32), first });
            assert_eq!(said().matches("BatchMode=yes").count(), times, "{}", said());
        }
        assert_eq!(said().matches("thalweg mover").count(), 2);
    }

    #[test]
    fn what_is_carried_ends_when_the_copy_is_over() {
        let ((near, mut a), (far, _b)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let steward = Steward::new(wishes("false"), None);
        lock(&steward.carried).push(Carried::begin(near, far).unwrap());
        steward.close();
        assert_eq!(a.read(&mut [0]).unwrap(), 0);
    }
}
