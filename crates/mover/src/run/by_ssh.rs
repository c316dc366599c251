//! Reaches a far mover that the user's own ssh starts, and keeps reaching it.
//!
//! Three ways, tried in this order within [`DIAL_LIMIT`] each; the first whose peer proves that it is the far mover
//! stays for the whole session:
//!
//! 1. **Direct**: its port is dialled, at the address that sshd was reached at, and at the host that ssh dials.
//! 2. **Back**: it is asked over ssh to dial us. TLS roles stay as they are.
//! 3. **Bridge**: each connection rides in an ssh process of its own. The user is told what that costs.
//!
//! If it cannot be reached any more while the copy goes on and its ssh has ended, it is looked for by ssh. One that is
//! there is reached by bridges from then on. If it is gone (its machine was started anew, or somebody ended it),
//! another one is started; the session ends, and the copy resumes by what the destination's journal holds. Where one
//! after the other ends soon, and nothing more gets across, nothing is started any more.

use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::ssh::{self, DialBack, FarProgram, Order, Ssh, StartedMover, TOKEN_BYTES, bootstrap};
use crate::link::{Connection, Family, Fingerprint, Identity, Pins, ServerTrust, client_config};
use crate::mutex::lock;
use crate::run::client::{CONNECT, Connect, DIAL_TIMEOUT};
use crate::run::far_mover::FarMover;
use crate::run::thread;
use rustls::ClientConfig;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError, mpsc};
use std::time::{Duration, Instant};
use thalweg_sys::priority::Priority;
use thalweg_wire::hex::hex;

/// Time for each way to prove itself.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// Time for an ssh login that carries one connection.
const BRIDGE_LIMIT: Duration = Duration::from_secs(60);
/// Time from the start of a far mover to its first session: each way is tried in turn, and the last one logs in once
/// more.
pub const FIRST_SESSION_LIMIT: Duration =
    BRIDGE_LIMIT.saturating_add(DIAL_LIMIT.saturating_mul(3)).saturating_add(DIAL_TIMEOUT);
/// A far mover whose port is shut while ssh has ended is looked for at once; one that is only silent, after so long.
const SILENT_IS_GONE: Duration = Duration::from_secs(60);
/// A far mover that ends within so long of its start has ended soon: later than a silent one is looked for.
const SOON: Duration = SILENT_IS_GONE.saturating_mul(2);
/// Of such so many in a row are as many as are started: what ends them stays.
const FRUITLESS_MAX: u32 = 2;
/// Between two tries to start a far mover anew.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// ssh logins of bridges at the same time: sshd turns strangers away at random from ten on (`MaxStartups 10:30:100`).
const LOGINS_MAX: usize = 4;
/// At the end so long is waited for who starts a far mover, and for logins of bridges.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);
/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;

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

/// Starts a far mover and finds a way to it, as `identity`: the one with which the copy is signed as well.
///
/// # Errors
/// `Connection` if ssh does not get there; `NotFound` if there is no program; `Protocol` if it is too old or too new.
pub fn reach(wishes: SshWishes, identity: &Identity, events: Events) -> Result<FarMover> {
    let pins = Pins::new();
    let tls = client_config(identity, &ServerTrust::PinnedAnyOf(pins.clone()))?;
    let connect = SshConnect {
        order: Order {
            ports: wishes.ports,
            // More than others have is a right that somebody else gives, there.
            nice: wishes.priority.nice.filter(|nice| *nice > 0),
            io_priority: wishes.priority.io.map(|io| io.to_string()),
            ..Order::new(identity.fingerprint(), wishes.patience, wishes.stall_timeout)
        },
        state: Mutex::new(State { program: wishes.program.clone(), ..State::default() }),
        wishes,
        pins,
        tls: tls.clone(),
        events,
        bridges: Mutex::default(),
        logins: Default::default(),
        next_login: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        across: AtomicU64::new(0),
    };
    connect.summon(&mut connect.lock(), true)?;
    Ok(FarMover::new(Arc::new(connect), tls, "thalweg"))
}

struct SshConnect {
    wishes: SshWishes,
    order: Order,
    pins: Pins,
    tls: Arc<ClientConfig>,
    events: Events,
    state: Mutex<State>,
    /// ssh processes that carry connections; each ends with its connection.
    bridges: Mutex<Vec<Child>>,
    /// Each is held during a bridge's login.
    logins: [Mutex<()>; LOGINS_MAX],
    next_login: AtomicUsize,
    /// Nothing is to be reached any more: logins that are under way end, and none begins.
    is_over: AtomicBool,
    /// What got across in all sessions so far.
    across: AtomicU64,
}

struct State {
    program: FarProgram,
    far: Option<StartedMover>,
    reached: Option<Reached>,
    summoned: u64,
    failing_since: Option<Instant>,
    renewed_at: Option<Instant>,
    lives: Lives,
    /// Why no other one is started.
    hopeless: Option<Failure>,
}

impl Default for State {
    fn default() -> Self {
        State {
            program: FarProgram::at("thalweg".into()),
            far: None,
            reached: None,
            summoned: 0,
            failing_since: None,
            renewed_at: None,
            lives: Lives::default(),
            hopeless: None,
        }
    }
}

/// How the far movers that were started so far have ended.
#[derive(Default)]
struct Lives {
    /// When the one that is there was started, and what had got across by then.
    begun: Option<(Instant, u64)>,
    /// So many in a row ended soon, and nothing more got across.
    fruitless: u32,
}

impl Lives {
    fn begin(&mut self, now: Instant, across: u64) {
        self.begun = Some((now, across));
    }

    /// It has ended. Whether another one may do better.
    fn end(&mut self, now: Instant, across: u64) -> bool {
        if let Some((begun, before)) = self.begun.take() {
            let was_fruitless = across <= before && now.saturating_duration_since(begun) < SOON;
            self.fruitless = if was_fruitless { self.fruitless + 1 } else { 0 };
        }
        self.fruitless < FRUITLESS_MAX
    }
}

/// How a far mover is reached.
#[derive(Debug, Clone)]
enum Reached {
    Direct(SocketAddr),
    Back,
    Bridge(u16),
}

impl Connect for SshConnect {
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
        } else if let Some(port) = state.far.as_ref().map(|far| far.ready.bridge_port) {
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
        self.wishes.ssh.family()
    }

    fn is_carried(&self) -> bool {
        matches!(self.lock().reached, Some(Reached::Bridge(_)))
    }

    fn got_across(&self, more: u64) {
        self.across.fetch_add(more, Ordering::Relaxed);
    }

    fn name(&self) -> String {
        self.wishes.ssh.name()
    }

    fn close(&self) {
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
        // What a login has led to by then is among the bridges.
        self.await_logins();
        for mut bridge in std::mem::take(&mut *lock(&self.bridges)) {
            ssh::end(&mut bridge, Duration::from_secs(1));
        }
    }
}

impl Drop for SshConnect {
    fn drop(&mut self) {
        self.close();
    }
}

impl SshConnect {
    /// Starts a far mover, if need be after placing our program there, and chooses the way to it.
    fn summon(&self, state: &mut State, first: bool) -> Result<()> {
        // Looking whether the old one is gone takes a login's time, and the copy may have ended meanwhile.
        if self.is_over.load(Ordering::Acquire) {
            return Err(not_reached("the copy is over"));
        }
        if !first {
            (self.events)(Event::Note(format!("the far mover at {} is gone; starting another", self.name())));
        }
        if let Some(mut old) = state.far.take() {
            old.close();
        }
        state.reached = None;
        let ssh = &self.wishes.ssh;
        let mut far = match ssh::start(ssh, &state.program, &self.order, first) {
            Ok(far) => far,
            Err(refused) if refused.program_is_missing && self.wishes.bootstrap => {
                let placed = bootstrap::place(ssh, self.wishes.static_programs.as_deref())?;
                state.program = FarProgram::at(placed);
                ssh::start(ssh, &state.program, &self.order, first).map_err(|refused| refused.failure)?
            }
            Err(refused) => return Err(refused.failure),
        };
        let fingerprint: Fingerprint = far.ready.fingerprint.parse()?;
        self.pins.replace([fingerprint]);
        let reached = self.choose(&mut far);
        tracing::info!(?reached, version = far.ready.version, "far mover started");
        if matches!(reached, Reached::Bridge(_)) && first {
            let why = match self.wishes.via_ssh {
                true => "as asked".to_owned(),
                false => {
                    format!("no port of {} can be reached from here, nor one here from there", self.name())
                }
            };
            (self.events)(Event::Note(format!(
                "data ride in ssh ({why}): OpenSSH's window of about 2 MB limits each stream to 2 MB per round trip"
            )));
        }
        state.lives.begin(Instant::now(), self.across.load(Ordering::Relaxed));
        state.far = Some(far);
        state.reached = Some(reached);
        state.summoned += 1;
        state.failing_since = None;
        Ok(())
    }

    /// Starts none any more; why.
    fn gives_up(&self, state: &mut State) -> Failure {
        if let Some(mut old) = state.far.take() {
            old.close();
        }
        state.reached = None;
        let cause = format!(
            "{}: the far mover ends again and again (see what it said above; `ulimit -v`?)",
            self.name()
        );
        let why = Failure::new(FailureKind::Unsupported, ssh::REACH, cause).because(Reason::FarEnds);
        state.hopeless = Some(why.clone());
        why
    }

    fn choose(&self, far: &mut StartedMover) -> Reached {
        let bridge = Reached::Bridge(far.ready.bridge_port);
        if self.wishes.via_ssh {
            return bridge;
        }
        if let Some(address) = self.direct(far) {
            return Reached::Direct(address);
        }
        if far.ready.dials_back
            && let Ok(fd) = dial_back(self.wishes.near_ports, DIAL_LIMIT, |request| far.ask(request))
            && self.is_far_mover(fd)
        {
            return Reached::Back;
        }
        bridge
    }

    /// The first address at which the far mover itself answers. Another machine may have the same address in our
    /// network.
    fn direct(&self, far: &StartedMover) -> Option<SocketAddr> {
        let until = Instant::now() + DIAL_LIMIT;
        let port = far.ready.port;
        let family = self.wishes.ssh.family();
        let usable = |address: &IpAddr| {
            let is_asked_for = family.is_none_or(|family| family.has(address));
            is_asked_for && !address.is_unspecified() && !address.is_multicast()
        };
        let told = far.ready.addresses.iter().copied().filter(usable);
        let mut addresses: Vec<SocketAddr> = told.map(|address| SocketAddr::new(address, port)).collect();
        // One word of each address.
        let (told, hears) = mpsc::channel();
        let race = |address: SocketAddr| {
            let (told, no_word, tls) = (told.clone(), told.clone(), self.tls.clone());
            let try_it = move || {
                let proved = TcpStream::connect_timeout(&address, DIAL_LIMIT)
                    .map_err(|error| failure::of_io(CONNECT, &error))
                    .and_then(|stream| Connection::connect(stream.into(), tls, "thalweg", DIAL_LIMIT));
                let _ = told.send(proved.ok().map(|_| address));
            };
            let on_panic = move |_| {
                let _ = no_word.send(None);
            };
            thread::guarded("dial", on_panic, try_it).is_ok()
        };
        let mut tried = addresses.iter().filter(|address| race(**address)).count();
        let host = self.wishes.ssh.dialled_host();
        let (named, names) = mpsc::channel();
        let look_up = move || {
            // With the card of a link-local one.
            let found: Vec<SocketAddr> = (host.as_str(), port)
                .to_socket_addrs()
                .map(|found| found.take(ADDRESSES_MAX).collect())
                .unwrap_or_default();
            let _ = named.send(found);
        };
        if thread::guarded("look-up", drop, look_up).is_ok() {
            let left = until.saturating_duration_since(Instant::now());
            for address in names.recv_timeout(left).unwrap_or_default() {
                if usable(&address.ip()) && !addresses.contains(&address) {
                    addresses.push(address);
                    tried += usize::from(race(address));
                }
            }
        }
        for _ in 0..tried {
            let left = until.saturating_duration_since(Instant::now());
            match hears.recv_timeout(left) {
                Ok(Some(address)) => return Some(address),
                Ok(None) => {}
                Err(_) => return None,
            }
        }
        None
    }

    fn is_far_mover(&self, fd: OwnedFd) -> bool {
        self.prove(fd, DIAL_LIMIT).is_ok()
    }

    /// Has whatever answers there prove that it is the far mover.
    fn prove(&self, fd: OwnedFd, limit: Duration) -> Result<()> {
        Connection::connect(fd, self.tls.clone(), "thalweg", limit).map(drop)
    }

    fn dial(&self, reached: &Reached, deadline: Duration) -> Result<OwnedFd> {
        match reached {
            Reached::Direct(address) => {
                TcpStream::connect_timeout(address, deadline).map(OwnedFd::from).map_err(|error| {
                    let mut failure = failure::of_io(CONNECT, &error).because(Reason::NotAnswered);
                    if error.kind() == std::io::ErrorKind::ConnectionRefused {
                        failure.kind = CLOSED;
                    }
                    failure.cause = format!("{address}: {}", failure.cause);
                    failure
                })
            }
            Reached::Back => {
                dial_back(self.wishes.near_ports, deadline, |request| match &mut self.lock().far {
                    Some(far) => far.ask(request),
                    None => Err(not_answered("the copy is over")),
                })
            }
            Reached::Bridge(port) => {
                let program = self.lock().program.clone();
                let gate = &self.logins[self.next_login.fetch_add(1, Ordering::Relaxed) % LOGINS_MAX];
                let _login = gate.lock().unwrap_or_else(|p| p.into_inner());
                let (fd, child) =
                    ssh::bridge(&self.wishes.ssh, &program, *port, BRIDGE_LIMIT, &self.is_over)?;
                let mut bridges = lock(&self.bridges);
                bridges.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
                bridges.push(child);
                Ok(fd)
            }
        }
    }

    /// Whether it is time to look if the far mover is still there: ssh has ended, and its port is shut or silent for
    /// long.
    fn may_renew(&self, state: &mut State, failure: &Failure) -> bool {
        let since = *state.failing_since.get_or_insert_with(Instant::now);
        let is_over = self.is_over.load(Ordering::Acquire);
        if is_over || state.renewed_at.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return false;
        }
        let is_late = since.elapsed() > SILENT_IS_GONE;
        // Without one, starting another failed before.
        state.far.as_mut().is_none_or(|far| {
            far.ssh_ended()
                && (failure.kind == CLOSED || matches!(state.reached, Some(Reached::Back)) || is_late)
        })
    }

    /// Asks by ssh. Two movers for one session would wait for each other's lock, so nothing is taken for granted.
    fn is_gone(&self, state: &State) -> Result<bool> {
        let Some(far) = &state.far else { return Ok(true) };
        let port = far.ready.bridge_port;
        match ssh::bridge(&self.wishes.ssh, &state.program, port, BRIDGE_LIMIT, &self.is_over) {
            Ok((fd, mut child)) => {
                let proved = self.prove(fd, DIAL_TIMEOUT);
                ssh::end(&mut child, Duration::from_secs(1));
                let is_late = state.failing_since.is_some_and(|since| since.elapsed() > SILENT_IS_GONE);
                has_gone(proved, is_late)
            }
            Err(failure) if failure.kind == CLOSED => Ok(true),
            Err(failure) => Err(unreached(failure)),
        }
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

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Nobody listens at the far mover's port: said by the machine itself or by a bridge, not by the network.
const CLOSED: FailureKind = FailureKind::NotFound;

/// Whether the far mover is gone, by how it ended when the process that listens at its port was to prove that it is the
/// far mover: another may have the port by now. One that is only slow is there, and is asked again, until it `is_late`.
fn has_gone(proved: Result<()>, is_late: bool) -> Result<bool> {
    match proved {
        Ok(()) => Ok(false),
        Err(failure) if failure.kind == FailureKind::Connection && !is_late => Err(unreached(failure)),
        Err(_) => Ok(true),
    }
}

/// To whoever dials, a far mover that cannot be reached is an outage; `NotFound` would be taken for a session that is
/// gone.
fn unreached(mut failure: Failure) -> Failure {
    failure.kind = FailureKind::Connection;
    // No daemon is missing there.
    if failure.reason == Reason::NotAnswered {
        failure.operation = ssh::REACH.to_owned();
        failure.reason = Reason::FarNotReached;
    }
    failure
}

fn not_answered(cause: &str) -> Failure {
    Failure::new(FailureKind::Connection, CONNECT, cause).because(Reason::NotAnswered)
}

fn not_reached(cause: &str) -> Failure {
    Failure::new(FailureKind::Connection, ssh::REACH, cause).because(Reason::FarNotReached)
}

/// Time for all of the token. The far mover says it at once; a stranger who trickles keeps it out for so long.
const TOKEN_LIMIT: Duration = Duration::from_secs(1);

/// Between two looks whether one of the ports is free by now.
const PORT_LOOK: Duration = Duration::from_millis(10);

/// Listens at one of these ports, the lowest that is free, or at any.
fn listen_within(ports: Option<(u16, u16)>) -> std::io::Result<TcpListener> {
    let listen = |port: u16| {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| match error.kind() {
            ErrorKind::AddrInUse => Err(error),
            _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
        })
    };
    let (low, high) = ports.unwrap_or((0, 0));
    let mut listening = listen(low);
    for port in (low..=high).skip(1) {
        if listening.is_ok() {
            break;
        }
        listening = listen(port);
    }
    listening
}

/// The same. Dials beside this one may have all of these ports, each for a moment: one is waited for.
fn listen_until(ports: Option<(u16, u16)>, until: Instant) -> Result<TcpListener> {
    loop {
        let error = match listen_within(ports) {
            Ok(listener) => return Ok(listener),
            Err(error) => error,
        };
        if error.kind() != ErrorKind::AddrInUse || Instant::now() >= until {
            let failure = failure::of_io(CONNECT, &error).because(Reason::NotAnswered);
            return Err(match ports {
                Some((low, high)) => failure::with_words(failure, &format!("--near-ports {low}-{high}")),
                None => failure,
            });
        }
        std::thread::sleep(PORT_LOOK);
    }
}

/// Listens, has the far mover dial, and takes the connection that says the token first.
fn dial_back(
    ports: Option<(u16, u16)>,
    deadline: Duration,
    ask: impl FnOnce(&DialBack) -> Result<()>,
) -> Result<OwnedFd> {
    let of_io = |error: std::io::Error| failure::of_io(CONNECT, &error).because(Reason::NotAnswered);
    let until = Instant::now() + deadline;
    let listener = listen_until(ports, until)?;
    listener.set_nonblocking(true).map_err(of_io)?;
    let port = listener.local_addr().map_err(of_io)?.port();
    let mut random = [0; TOKEN_BYTES / 2];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Failure::new(FailureKind::Internal, CONNECT, "no random numbers"))?;
    let token = hex(&random);
    ask(&DialBack { port, token: token.clone() })?;
    while Instant::now() < until {
        match listener.accept() {
            Ok((mut stream, _)) => {
                let _ = stream.set_nonblocking(false);
                if says(&mut stream, token.as_bytes(), until.min(Instant::now() + TOKEN_LIMIT)) {
                    let _ = stream.set_read_timeout(None);
                    return Ok(stream.into());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Whoever it was has gone again.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
            Err(error) => return Err(of_io(error)),
        }
    }
    Err(not_answered("the far mover did not dial back"))
}

/// Whether whoever dialled says the token, all of it in time.
fn says(stream: &mut TcpStream, token: &[u8], until: Instant) -> bool {
    let mut said = [0; TOKEN_BYTES];
    let mut filled = 0;
    while filled < said.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match stream.read(&mut said[filled..]) {
            Ok(0) => return false,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    said == token
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event;
    use crate::link::testing::{LONG, our_client_config, unix_pair};
    use std::ffi::OsStr;
    use std::io::Write;
    use std::path::Path;
    use std::process::Command;

    /// Whose connections ride in ssh.
    fn bridged(ssh: Ssh) -> SshConnect {
        let program = FarProgram::at("thalweg".into());
        SshConnect {
            wishes: SshWishes {
                ssh,
                program,
                bootstrap: false,
                static_programs: None,
                ports: None,
                near_ports: None,
                via_ssh: true,
                patience: LONG,
                stall_timeout: LONG,
                priority: Priority::default(),
            },
            order: Order::new(Fingerprint([3; 32]), LONG, LONG),
            pins: Pins::new(),
            tls: our_client_config(),
            events: event::nobody(),
            state: Mutex::new(State { reached: Some(Reached::Bridge(1)), ..State::default() }),
            bridges: Mutex::default(),
            logins: Default::default(),
            next_login: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            across: AtomicU64::new(0),
        }
    }

    #[test]
    fn movers_that_end_soon_one_after_the_other_are_given_up_unless_something_gets_across() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        // Of each: for how long it lived, how much got across meanwhile, and whether another is started.
        for (story, movers) in [
            ("nothing ever", &[(second, 0, true), (2 * second, 0, false)][..]),
            ("much once, then nothing", &[(second, 7, true), (second, 0, true), (second, 0, false)]),
            ("less each time", &[(second, 3, true), (second, 2, true), (second, 1, true)]),
            ("long lives", &[(SOON, 0, true), (SOON, 0, true), (second, 0, true), (SOON, 0, true)]),
        ] {
            let (mut lives, mut all) = (Lives::default(), 0);
            for (lived, across, goes_on) in movers {
                lives.begin(now, all);
                all += across;
                assert_eq!(lives.end(now + *lived, all), *goes_on, "{story}: {lived:?}, {across}");
                // That another could not be started is no end of a mover.
                assert_eq!(lives.end(now + *lived, all), *goes_on, "{story}");
            }
        }
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
    fn what_ssh_started_is_not_told_as_a_daemon_that_is_missing() {
        let refused = Failure::new(CLOSED, "dial", "10.0.0.1:7: Connection refused");
        let failure = unreached(refused.because(Reason::NotAnswered));
        assert_eq!((failure.kind, &*failure.operation), (FailureKind::Connection, ssh::REACH));
        assert_eq!(failure.reason, Reason::FarNotReached);
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
        connect.bridges.lock().unwrap().push(bridge);
        // Whoever starts one holds it.
        let starting = connect.lock();
        connect.close();
        drop(starting);
        assert!(!process.exists(), "it outlives the copy");
    }

    #[test]
    fn a_stranger_who_trickles_does_not_keep_the_far_mover_from_dialling_back() {
        let mut far = None;
        let fd = dial_back(None, Duration::from_secs(10), |request| {
            let here = SocketAddr::from((Ipv4Addr::LOCALHOST, request.port));
            let mut stranger = TcpStream::connect(here).unwrap();
            // He would need longer than there is.
            std::thread::spawn(move || {
                while stranger.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(500));
                }
            });
            let mut dials = TcpStream::connect(here).unwrap();
            dials.write_all(request.token.as_bytes()).unwrap();
            far = Some(dials);
            Ok(())
        });
        let (mut near, mut far) = (TcpStream::from(fd.unwrap()), far.unwrap());
        far.write_all(b"!").unwrap();
        let mut said = [0];
        near.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"!", "it is the far mover's, and nothing but the token was read of it");
    }

    #[test]
    fn the_far_mover_is_asked_to_dial_a_port_that_it_may_and_none_where_all_are_taken() {
        let free = || TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let (taken, port) = (free(), free().local_addr().unwrap().port());
        let fd = dial_back(Some((port, port)), LONG, |request| {
            assert_eq!(request.port, port);
            let mut dials = TcpStream::connect((Ipv4Addr::LOCALHOST, request.port)).unwrap();
            dials.write_all(request.token.as_bytes()).unwrap();
            Ok(())
        });
        assert_eq!(TcpStream::from(fd.unwrap()).local_addr().unwrap().port(), port);
        let taken = taken.local_addr().unwrap().port();
        let nothing = |_: &DialBack| -> Result<()> { unreachable!("there is no port to dial") };
        let failure = dial_back(Some((taken, taken)), Duration::from_millis(20), nothing).unwrap_err();
        assert!(failure.cause.contains(&format!("--near-ports {taken}-{taken}")), "{failure}");
    }
}
