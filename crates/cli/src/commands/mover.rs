//! `thalweg mover`: the far side of a copy by ssh.
//!
//! 1. Read the client's line: whom to admit, and nobody else.
//! 2. Load the identity of this user, listen, and say where, on one line.
//! 3. Serve everything that this user may reach, until the session is over. Where the client is not the one who gave
//!    the order (a deputy's copy), serve the one place that the order names, for copies in the one direction.
//!
//! ssh may end at any time without harm: a mover with a session outlives it, because the network that took ssh away
//! comes back. It ends when its session has ended in order and ssh's channel is closed, when nobody was there for
//! [`IDLE`] after a session or for [`FIRST_SESSION_LIMIT`] before the first, when the client did not come back within its
//! patience, and soon when client and ssh vanished together: that is a client that was killed, and its next attempt
//! needs the lock that we hold.
//!
//! With `--bridge PORT`, stdin and stdout are carried to that port of the loopback instead.

use crate::args::serve::MoverArgs;
use crate::exit::Exit;
use crate::{identity, threads};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::ssh::{BRIDGE_MAGIC, DialBack, LINE_BYTES_MAX, Order, Ready, bootstrap};
use thalweg_mover::link::{ClientTrust, Identity};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::by_ssh::FIRST_SESSION_LIMIT;
use thalweg_service::accept::{self, Listening};
use thalweg_service::export::{Exports, OnlyPlace};
use thalweg_service::sessions::{Host, HostLimits};
use thalweg_wire::limits;

/// Without a session for so long after one, it ends.
const IDLE: Duration = Duration::from_secs(10);
/// Link and ssh that ended within so short a time ended together.
const TOGETHER: Duration = Duration::from_secs(10);
/// Time between two looks whether it is over: the user waits for our end.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How long a client that vanished together with its ssh may take to come back. Clients dial again within 2 s.
const COMES_BACK: Duration = Duration::from_secs(3);
/// Time for the client's first line.
const ORDER_TIMEOUT: Duration = Duration::from_secs(30);
/// A bridge of which one direction has ended lives so long, at most.
const HALF_OPEN: Duration = Duration::from_secs(60);
/// Read and written at once in a bridge; a channel of ssh has packets of 32 KiB.
const BRIDGE_PIECE_BYTES: usize = 128 << 10;
/// Connections that are being dialled back at the same time, and lines that wait for that.
const DIALS_MAX: usize = 64;
/// Time to dial back.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// Between two signs that a program which was placed here is used: far less than [`bootstrap::UNUSED_DAYS`].
const IN_USE_EVERY: Duration = Duration::from_secs(86_400);

/// Serves one client until it is done.
///
/// # Errors
/// If it cannot begin.
pub fn mover(args: &MoverArgs) -> Result<Exit> {
    let _ = thalweg_sys::process::forbid_core_dumps();
    say_in_use();
    if let Some(port) = args.bridge {
        return bridge(port);
    }
    let hung_up = Arc::new(AtomicBool::new(false));
    let ended = Arc::new(AtomicBool::new(false));
    // A hang-up is not ours to obey, see the head.
    for (signal, flag) in [(SIGHUP, &hung_up), (SIGINT, &ended), (SIGTERM, &ended)] {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|error| failure::of_io("listen for signals", &error))?;
    }
    if let Some(home) = std::env::var_os("HOME") {
        // Where it cannot be entered, relative paths are relative to where sshd put us.
        let _ = std::env::set_current_dir(home);
    }
    let stdin = Stdin::start()?;
    let order = Order::of_line(&stdin.line(ORDER_TIMEOUT)?)?;
    // Before the threads that move data. It is refused only to who was started with less already.
    let _ = order.priority().take();

    let trust = ClientTrust::default();
    trust.pinned.insert(order.client.parse()?);
    let limits = HostLimits {
        patience: Duration::from_millis(order.patience_ms),
        stall_timeout: Duration::from_millis(order.stall_timeout_ms),
        ..HostLimits::default()
    };
    // What is remembered of destinations and who we are outlive this run, if there is a place for them.
    let state = identity::state_directory(args.state.as_deref()).ok();
    let identity = match state.as_deref().map(identity::own) {
        Some(Ok(own)) => own,
        _ => Identity::generate("thalweg mover")?,
    };
    let fingerprint = identity.fingerprint();
    let host = Host::new(identity.copied()?, exports(&order)?, state, limits);
    let reached_at = SshConnection::of_environment();
    let listening = listen(&host, &identity, &trust, reached_at.ours, order.ports)?;
    let public = listening.addresses[0];
    let ready = Ready {
        port: public.port(),
        addresses: if public.ip().is_unspecified() { Vec::new() } else { vec![public.ip()] },
        bridge_port: listening.addresses.last().map_or(0, SocketAddr::port),
        dials_back: reached_at.theirs.is_some(),
        fingerprint: fingerprint.to_string(),
        versions: (limits::VERSION_MIN, limits::VERSION_MAX),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        confines: order.only.is_some(),
    };
    let mut stdout = std::io::stdout();
    stdout
        .write_all(ready.to_line().as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| failure::of_io("say where we listen", &error))?;

    serve(&host, &listening, &stdin, reached_at.theirs, &ended);
    listening.stop();
    Ok(Exit::Done)
}

/// If `--bootstrap` placed this program here: says by the time of its directory that it is used, now and once a day. On
/// a thread of its own, as a home may be on a disk that stands still; what cannot be said counts as unused sooner.
pub(super) fn say_in_use() {
    let Ok(program) = std::env::current_exe() else { return };
    let Some(directory) = bootstrap::placed_in(&program).map(ToOwned::to_owned) else { return };
    let say = move || File::open(&directory).and_then(|opened| opened.set_modified(SystemTime::now()));
    let _ = threads::spawn("in use", move || {
        while say().is_ok() {
            std::thread::sleep(IN_USE_EVERY);
        }
    });
}

/// What the client may reach.
fn exports(order: &Order) -> Result<Exports> {
    let Some(only) = &order.only else { return Ok(Exports::User) };
    let path = only.path().ok_or_else(|| {
        let cause = "the place that alone is to be served is none";
        Failure::new(FailureKind::Protocol, "read the order", cause)
    })?;
    Ok(Exports::Only(Arc::new(OnlyPlace { path, write: only.write })))
}

/// Until it is over, see the head.
fn serve(host: &Host, listening: &Listening, stdin: &Stdin, client: Option<IpAddr>, ended: &AtomicBool) {
    let begun = Instant::now();
    let mut was_there = false;
    let dials = Dials::default();
    while !ended.load(Ordering::Acquire) {
        while let Ok(line) = stdin.lines.try_recv() {
            match DialBack::of_line(&line) {
                Ok(request) => dials.dial(&request, client),
                Err(failure) => tracing::warn!(%failure, "not understood"),
            }
        }
        while let Ok(stream) = dials.dialled.try_recv() {
            if let Err(failure) = listening.adopt(stream) {
                tracing::info!(%failure, "dialled back in vain");
            }
        }
        let stdin_ended = stdin.ended_at();
        let is_idle = host.session_count() == 0 && !host.is_at_work();
        was_there |= !is_idle;
        if is_idle {
            // While ssh stands, a client that was not there yet may be logging in for a bridge.
            let (idle, most) = match was_there {
                true => (host.idle_for(), IDLE),
                false => (begun.elapsed(), FIRST_SESSION_LIMIT),
            };
            if stdin_ended.is_some() || idle > most {
                return;
            }
        }
        if let (Some(stdin), Some(link)) = (stdin_ended, host.linkless_since()) {
            let (first, last) = (stdin.min(link), stdin.max(link));
            if last - first < TOGETHER && last.elapsed() > COMES_BACK {
                tracing::info!("client and ssh vanished together");
                return;
            }
        }
        // Shorter where stdin says something, or ends.
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// At the address that ssh reached us at (or all of them), and at the loopback for bridges.
fn listen(
    host: &Arc<Host>,
    identity: &Identity,
    trust: &ClientTrust,
    at: Option<IpAddr>,
    ports: Option<(u16, u16)>,
) -> Result<Listening> {
    let (low, high) = ports.unwrap_or((0, 0));
    let everywhere = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let mut last = None;
    for address in at.into_iter().chain(everywhere) {
        for port in low..=high {
            let public = SocketAddr::new(address, port).to_string();
            let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
            match accept::listen(host.clone(), identity, trust, &[public, loopback]) {
                Ok(listening) => return Ok(listening),
                Err(failure) => last = Some(failure),
            }
        }
    }
    Err(last.unwrap_or_else(|| Failure::new(FailureKind::Usage, "listen", "there is no port to listen at")))
}

/// Connections to the client, which is served as if it had dialled.
struct Dials {
    tells: Sender<TcpStream>,
    dialled: Receiver<TcpStream>,
    under_way: Arc<AtomicUsize>,
}

impl Default for Dials {
    fn default() -> Dials {
        let (tells, dialled) = mpsc::channel();
        Dials { tells, dialled, under_way: Arc::default() }
    }
}

impl Dials {
    /// Dials the client at all of its addresses: those that were told, or else where ssh came from. Of several that
    /// answer the client keeps one.
    fn dial(&self, request: &DialBack, client: Option<IpAddr>) {
        let from_ssh = client.filter(|_| request.addresses.is_empty());
        let mut addresses = request.addresses.iter().copied().chain(from_ssh).peekable();
        if addresses.peek().is_none() {
            tracing::warn!("nobody knows where the client is");
        }
        for address in addresses {
            if self.under_way.fetch_add(1, Ordering::AcqRel) >= DIALS_MAX {
                self.under_way.fetch_sub(1, Ordering::AcqRel);
                tracing::warn!("too many connections are dialled back at once");
                return;
            }
            let (tells, under_way) = (self.tells.clone(), self.under_way.clone());
            let (address, token) = (SocketAddr::new(address, request.port), request.token.clone());
            let dial = move || {
                let dialled = TcpStream::connect_timeout(&address, DIAL_LIMIT)
                    .and_then(|mut stream| stream.write_all(token.as_bytes()).map(|()| stream));
                under_way.fetch_sub(1, Ordering::AcqRel);
                match dialled {
                    Ok(stream) => drop(tells.send(stream)),
                    Err(error) => tracing::info!(%error, %address, "dialled back in vain"),
                }
            };
            if let Err(failure) = threads::spawn("dial", dial) {
                self.under_way.fetch_sub(1, Ordering::AcqRel);
                tracing::warn!(%failure, "not dialled back");
            }
        }
    }
}

/// What sshd says of the connection that started us.
struct SshConnection {
    theirs: Option<IpAddr>,
    ours: Option<IpAddr>,
}

impl SshConnection {
    /// `SSH_CONNECTION`: client address, client port, server address, server port.
    fn of_environment() -> SshConnection {
        let text = std::env::var("SSH_CONNECTION").unwrap_or_default();
        let mut fields = text.split(' ');
        let mut address = |skip: usize| fields.nth(skip).and_then(|field| field.parse::<IpAddr>().ok());
        SshConnection { theirs: address(0), ours: address(1) }
    }
}

/// Reads stdin on a thread of its own, which wakes the one that started it.
struct Stdin {
    lines: Receiver<String>,
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Stdin {
    fn start() -> Result<Stdin> {
        let (told, lines) = mpsc::sync_channel(DIALS_MAX);
        let ended: Arc<Mutex<Option<Instant>>> = Arc::default();
        let (at_end, hears) = (ended.clone(), std::thread::current());
        let read = move || {
            let mut stdin = std::io::stdin().lock();
            let mut line = Vec::new();
            let mut byte = [0];
            // Lines are few; an endless one ends the reading, and so does anything that is not text.
            while line.len() <= LINE_BYTES_MAX && matches!(stdin.read(&mut byte), Ok(1)) {
                if byte[0] != b'\n' {
                    line.push(byte[0]);
                    continue;
                }
                let Ok(text) = String::from_utf8(std::mem::take(&mut line)) else { break };
                if told.send(text).is_err() {
                    break;
                }
                hears.unpark();
            }
            *lock(&at_end) = Some(Instant::now());
            hears.unpark();
        };
        std::thread::Builder::new()
            .name("stdin".into())
            .spawn(read)
            .map_err(|error| failure::of_thread(&error))?;
        Ok(Stdin { lines, ended })
    }

    fn line(&self, patience: Duration) -> Result<String> {
        self.lines.recv_timeout(patience).map_err(|_| {
            let cause = "the client's line did not come; this command is started by `thalweg cp` through ssh";
            Failure::new(FailureKind::Usage, "read the order", cause)
        })
    }

    fn ended_at(&self) -> Option<Instant> {
        *lock(&self.ended)
    }
}

/// Carries stdin and stdout to a port of the loopback until both directions have ended. What it cannot do it tells its
/// client alone: ssh hands stderr on to a user, who hears of it from the client.
fn bridge(port: u16) -> Result<Exit> {
    let of_io = |error: std::io::Error| failure::of_io("bridge", &error);
    let duplicate = |fd: std::io::Result<std::os::fd::OwnedFd>| fd.map(File::from).map_err(of_io);
    let mut stdin = duplicate(std::io::stdin().as_fd().try_clone_to_owned())?;
    let mut stdout = duplicate(std::io::stdout().as_fd().try_clone_to_owned())?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let said = |stdout: &mut File, word| stdout.write_all(format!("\n{BRIDGE_MAGIC}{word}\n").as_bytes());
    let socket = match TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
        Ok(socket) => socket,
        Err(error) => {
            tracing::info!(%error, port, "a bridge to nobody");
            let _ = said(&mut stdout, "gone");
            return Ok(Exit::Nothing);
        }
    };
    socket.set_nodelay(true).map_err(of_io)?;
    if said(&mut stdout, "up").is_err() {
        // The client is gone.
        return Ok(Exit::Nothing);
    }
    let mut to_mover = socket.try_clone().map_err(of_io)?;
    let (told, hears) = mpsc::channel();
    let inward = told.clone();
    threads::spawn("inward", move || {
        carry(&mut stdin, &mut to_mover);
        let _ = to_mover.shutdown(Shutdown::Write);
        let _ = inward.send(());
    })?;
    let mut from_mover = socket;
    threads::spawn("outward", move || {
        carry(&mut from_mover, &mut stdout);
        // ssh hears of the end when this process ends.
        let _ = told.send(());
    })?;
    let _ = hears.recv();
    // The other direction ends soon or never: no chapter of ours goes on in one direction only.
    let _ = hears.recv_timeout(HALF_OPEN);
    Ok(Exit::Done)
}

/// Until one of the two has ended. (With `std::io::copy`, which splices, handshakes through a bridge stood still.)
fn carry(from: &mut impl Read, to: &mut impl Write) {
    let mut piece = vec![0; BRIDGE_PIECE_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(read) if to.write_all(&piece[..read]).is_ok() => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => return,
        }
    }
}
