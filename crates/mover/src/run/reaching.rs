//! Reaches a far mover that ssh starts, whoever starts that, and keeps reaching it.
//!
//! It is [dialled](super::dialling) in one of three manners, tried in this order within [`DIAL_LIMIT`] each; the first
//! whose peer proves that it is the far mover stays for the whole session:
//!
//! 1. **Direct**: its port is dialled, at the address that sshd was reached at, and at the host that ssh dials.
//! 2. **Back**: it is asked over ssh to dial us. TLS roles stay as they are.
//! 3. **Bridge**: each connection rides in ssh processes of its own. The user is told what that costs.
//!
//! If it cannot be reached any more while the copy goes on and its ssh has ended, it is looked for by ssh. One that is
//! there is reached by bridges from then on. If it is gone (its machine was started anew, or somebody ended it),
//! another one is started; the session ends, and the copy resumes by what the destination's journal holds. Where one
//! after the other ends soon, and nothing more gets across, nothing is started any more.

use crate::event::{Event, Events};
use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::link::ssh::{self, DialBack, Ready};
use crate::link::{Family, Fingerprint, Pins};
use crate::mutex::lock;
use crate::run::client::{Connect, DIAL_TIMEOUT};
use crate::run::dialling::{
    CLOSED, DIAL_LIMIT, LOGINS_MAX, Lives, RENEW_EVERY, Reached, SILENT_IS_GONE, dial, dial_back, direct,
    has_gone, not_answered, not_reached, prove, rides_in_ssh, unreached,
};
use crate::run::far_mover::FarMover;
use rustls::ClientConfig;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

/// At the end so long is waited for who starts a far mover, and for logins of bridges.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// Who starts far movers, and carries connections to them.
pub(super) trait Starter: Send + Sync {
    /// One that was started.
    type Started: Started;

    /// Where, for messages.
    fn name(&self) -> String;

    /// Starts one. `first`: its user may have to type.
    ///
    /// # Errors
    /// What a user is told.
    fn start(&self, first: bool) -> Result<Self::Started>;

    /// The name of its machine that ssh dials.
    fn host(&self, far: &Self::Started) -> String;

    /// A connection to this port of the loopback there, in ssh. A login that `is_over` overtakes is ended.
    ///
    /// # Errors
    /// [`CLOSED`] if nobody listens there.
    fn bridge(&self, port: u16, is_over: &AtomicBool) -> Result<OwnedFd>;

    /// Why connections ride in ssh where no other way is found.
    fn why_bridged(&self) -> String;

    /// What carries connections ends.
    fn close(&self);
}

/// A far mover that was started.
pub(super) trait Started: Send {
    /// What it said of itself.
    fn ready(&self) -> &Ready;

    /// Whether it can be asked to dial.
    fn dials_back(&self) -> bool;

    /// Who asks it to, which may take as long as a word by way of another machine: nobody else waits for that.
    fn asker(&self) -> Asks;

    /// Whether it may be gone, so that it is worth a login to look. `is_late`: it is silent for long.
    fn may_be_gone(&mut self, is_late: bool) -> bool;

    /// Nothing more is asked of it.
    fn close(&mut self);
}

/// Asks a far mover to dial. Fails if it does not hear that.
pub(super) type Asks = Box<dyn FnOnce(&DialBack) -> Result<()>>;

/// In which manners it may be dialled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed {
    /// Only addresses of this family are dialled.
    pub family: Option<Family>,
    /// Ports here that the far mover may dial.
    pub near_ports: Option<(u16, u16)>,
    /// Bridges only.
    pub via_ssh: bool,
}

/// Has a far mover started and finds a way to it. `tls` trusts whom `pins` has.
///
/// # Errors
/// As [`Starter::start`].
pub(super) fn reach<S: Starter + 'static>(
    starter: S,
    allowed: Allowed,
    (pins, tls): (Pins, Arc<ClientConfig>),
    events: Events,
) -> Result<FarMover> {
    let reaching = Reaching::new(starter, allowed, (pins, tls.clone()), events);
    reaching.summon(&mut reaching.lock(), true)?;
    Ok(FarMover::new(Arc::new(reaching), tls))
}

/// See the module.
pub(super) struct Reaching<S: Starter> {
    pub starter: S,
    allowed: Allowed,
    pins: Pins,
    tls: Arc<ClientConfig>,
    events: Events,
    state: Mutex<State<S::Started>>,
    /// Each is held during a bridge's login.
    logins: [Mutex<()>; LOGINS_MAX],
    next_login: AtomicUsize,
    /// Nothing is to be reached any more: logins that are under way end, and none begins.
    is_over: AtomicBool,
    /// What got across in all sessions so far.
    across: AtomicU64,
}

pub(super) struct State<F> {
    pub far: Option<F>,
    pub reached: Option<Reached>,
    summoned: u64,
    failing_since: Option<Instant>,
    renewed_at: Option<Instant>,
    lives: Lives,
    /// Why no other one is started.
    hopeless: Option<Failure>,
}

impl<S: Starter> Connect for Reaching<S> {
    fn connect(&self, deadline: Duration) -> Result<OwnedFd> {
        let (reached, summoned) = {
            let state = self.lock();
            if let Some(why) = &state.hopeless {
                return Err(why.clone());
            }
            (state.reached.clone(), state.summoned)
        };
        let dialled = match &reached {
            Some(reached) => self.dial(reached, deadline),
            None => Err(not_reached("there is no far mover")),
        };
        let failure = match dialled {
            Ok(fd) => {
                self.lock().failing_since = None;
                return Ok(fd);
            }
            Err(failure) => failure,
        };
        let mut state = self.lock();
        if state.summoned != summoned {
            // Somebody else has started another one meanwhile.
            let reached = state.reached.clone();
            drop(state);
            return match reached {
                Some(reached) => self.dial(&reached, deadline).map_err(unreached),
                None => Err(unreached(failure)),
            };
        }
        if !self.may_renew(&mut state, &failure) {
            return Err(unreached(failure));
        }
        state.renewed_at = Some(Instant::now());
        if self.is_gone(&state)? {
            if !state.lives.end(Instant::now(), self.across.load(Ordering::Relaxed)) {
                return Err(self.gives_up(&mut state));
            }
            self.summon(&mut state, false).map_err(unreached)?;
        } else if let Some(port) = state.far.as_ref().map(|far| far.ready().bridge_port) {
            let why = "its port is shut by now";
            (self.events)(Event::Note(format!("from now on data ride in ssh to {}: {why}", self.name())));
            state.reached = Some(Reached::Bridge(port));
            state.summoned += 1;
        }
        let reached = state.reached.clone();
        drop(state);
        reached.map_or(Err(unreached(failure)), |reached| self.dial(&reached, deadline).map_err(unreached))
    }

    fn addresses(&self) -> Vec<String> {
        match self.lock().reached {
            Some(Reached::Direct(address)) => vec![address.to_string()],
            _ => Vec::new(),
        }
    }

    fn family(&self) -> Option<Family> {
        self.allowed.family
    }

    fn is_carried(&self) -> bool {
        matches!(self.lock().reached, Some(Reached::Bridge(_)))
    }

    fn got_across(&self, more: u64) {
        self.across.fetch_add(more, Ordering::Relaxed);
    }

    fn name(&self) -> String {
        self.starter.name()
    }

    fn close(&self) {
        self.end();
    }
}

impl<S: Starter> Drop for Reaching<S> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<S: Starter> Reaching<S> {
    /// None is started yet.
    pub(super) fn new(
        starter: S,
        allowed: Allowed,
        (pins, tls): (Pins, Arc<ClientConfig>),
        events: Events,
    ) -> Reaching<S> {
        let state = State {
            far: None,
            reached: None,
            summoned: 0,
            failing_since: None,
            renewed_at: None,
            lives: Lives::default(),
            hopeless: None,
        };
        Reaching {
            starter,
            allowed,
            pins,
            tls,
            events,
            state: Mutex::new(state),
            logins: Default::default(),
            next_login: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            across: AtomicU64::new(0),
        }
    }

    /// Has a far mover started, and chooses the way to it.
    pub(super) fn summon(&self, state: &mut State<S::Started>, first: bool) -> Result<()> {
        // Looking whether the old one is gone takes a login's time, and the copy may have ended meanwhile.
        if self.is_over.load(Ordering::Acquire) {
            return Err(not_reached("the copy is over"));
        }
        if !first {
            let name = self.starter.name();
            (self.events)(Event::Note(format!("the far mover at {name} is gone; starting another")));
        }
        if let Some(mut old) = state.far.take() {
            old.close();
        }
        state.reached = None;
        let far = self.starter.start(first)?;
        let fingerprint: Fingerprint = far.ready().fingerprint.parse()?;
        self.pins.replace([fingerprint]);
        let reached = self.choose(&far);
        tracing::info!(?reached, version = %far.ready().version, "far mover started");
        if matches!(reached, Reached::Bridge(_)) && first {
            let why = match self.allowed.via_ssh {
                true => "as asked".to_owned(),
                false => self.starter.why_bridged(),
            };
            (self.events)(Event::Note(rides_in_ssh(&why)));
        }
        state.lives.begin(Instant::now(), self.across.load(Ordering::Relaxed));
        state.far = Some(far);
        state.reached = Some(reached);
        state.summoned += 1;
        state.failing_since = None;
        Ok(())
    }

    /// Starts none any more; why.
    pub(super) fn gives_up(&self, state: &mut State<S::Started>) -> Failure {
        if let Some(mut old) = state.far.take() {
            old.close();
        }
        state.reached = None;
        let cause = format!(
            "{}: the far mover ends again and again (see what it said above; `ulimit -v`?)",
            self.starter.name()
        );
        let why = Failure::new(FailureKind::Unsupported, ssh::REACH, cause).because(Reason::FarEnds);
        state.hopeless = Some(why.clone());
        why
    }

    fn choose(&self, far: &S::Started) -> Reached {
        let bridge = Reached::Bridge(far.ready().bridge_port);
        if self.allowed.via_ssh {
            return bridge;
        }
        let (ready, family) = (far.ready(), self.allowed.family);
        let found = direct(&ready.addresses, || self.starter.host(far), ready.port, family, &self.tls);
        if let Some(address) = found {
            return Reached::Direct(address);
        }
        if far.dials_back()
            && let Ok(fd) = dial_back(self.allowed.near_ports, DIAL_LIMIT, far.asker())
            && self.prove(fd, DIAL_LIMIT).is_ok()
        {
            return Reached::Back;
        }
        bridge
    }

    /// Has whatever answers there prove that it is the far mover.
    pub(super) fn prove(&self, fd: OwnedFd, limit: Duration) -> Result<()> {
        prove(fd, &self.tls, limit)
    }

    fn dial(&self, reached: &Reached, deadline: Duration) -> Result<OwnedFd> {
        match reached {
            Reached::Direct(address) => dial(*address, deadline),
            Reached::Back => {
                let asker = self.lock().far.as_ref().map(Started::asker);
                let asker = asker.ok_or_else(|| not_answered("the copy is over"))?;
                dial_back(self.allowed.near_ports, deadline, asker)
            }
            Reached::Bridge(port) => {
                let gate = &self.logins[self.next_login.fetch_add(1, Ordering::Relaxed) % LOGINS_MAX];
                let _login = gate.lock().unwrap_or_else(|p| p.into_inner());
                self.starter.bridge(*port, &self.is_over)
            }
        }
    }

    /// Whether it is time to look if the far mover is still there: ssh has ended, and its port is shut or silent for
    /// long.
    fn may_renew(&self, state: &mut State<S::Started>, failure: &Failure) -> bool {
        let since = *state.failing_since.get_or_insert_with(Instant::now);
        let is_over = self.is_over.load(Ordering::Acquire);
        if is_over || state.renewed_at.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return false;
        }
        let is_late = since.elapsed() > SILENT_IS_GONE;
        let is_worth_it = failure.kind == CLOSED || matches!(state.reached, Some(Reached::Back)) || is_late;
        // Without one, starting another failed before.
        state.far.as_mut().is_none_or(|far| is_worth_it && far.may_be_gone(is_late))
    }

    /// Asks by ssh. Two movers for one session would wait for each other's lock, so nothing is taken for granted.
    fn is_gone(&self, state: &State<S::Started>) -> Result<bool> {
        let Some(far) = &state.far else { return Ok(true) };
        match self.starter.bridge(far.ready().bridge_port, &self.is_over) {
            Ok(fd) => {
                let proved = self.prove(fd, DIAL_TIMEOUT);
                let is_late = state.failing_since.is_some_and(|since| since.elapsed() > SILENT_IS_GONE);
                has_gone(proved, is_late)
            }
            Err(failure) if failure.kind == CLOSED => Ok(true),
            Err(failure) => Err(unreached(failure)),
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        // Whoever holds it is starting another far mover, and its user may be asked for a password.
        let until = Instant::now() + CLOSE_LIMIT;
        let state = loop {
            match self.state.try_lock() {
                Ok(state) => break Some(state),
                Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() > until => break None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        if let Some(mut state) = state
            && let Some(mut far) = state.far.take()
        {
            far.close();
        }
        // What a login has led to by then is among what is closed.
        self.await_logins();
        self.starter.close();
    }

    /// Each ends soon once it is over: one that outlived the command would speak into its user's next line.
    fn await_logins(&self) {
        let until = Instant::now() + CLOSE_LIMIT;
        for gate in &self.logins {
            while matches!(gate.try_lock(), Err(TryLockError::WouldBlock)) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<S::Started>> {
        lock(&self.state)
    }
}
