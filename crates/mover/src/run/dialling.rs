//! Connections to a far mover that somebody starts by ssh: what who starts it ([`by_ssh`](super::by_ssh)) and who has
//! another start it ([`by_client`](super::by_client)) do alike.

use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::ssh::{self, DialBack, TOKEN_BYTES};
use crate::link::{Connection, Family};
use crate::run::client::CONNECT;
use crate::run::thread;
use rustls::ClientConfig;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use thalweg_wire::hex::hex;

/// Time for each manner of dialling to prove itself.
pub(super) const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// Time for what only has to be said, by way of another machine.
pub(super) const SAY_LIMIT: Duration = Duration::from_secs(10);
/// Time for an ssh login that carries one connection.
pub(super) const BRIDGE_LIMIT: Duration = Duration::from_secs(60);
/// A far mover whose port is shut while ssh has ended is looked for at once; one that is only silent, after so long.
pub(super) const SILENT_IS_GONE: Duration = Duration::from_secs(60);
/// A far mover that ends within so long of its start has ended soon: later than a silent one is looked for.
pub(super) const SOON: Duration = SILENT_IS_GONE.saturating_mul(2);
/// Of such so many in a row are as many as are started: what ends them stays.
const FRUITLESS_MAX: u32 = 2;
/// Between two tries to start a far mover anew.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(10);
/// ssh logins of bridges at the same time: sshd turns strangers away at random from ten on (`MaxStartups 10:30:100`).
pub(super) const LOGINS_MAX: usize = 4;
/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;

/// How a far mover is reached.
#[derive(Debug, Clone)]
pub(super) enum Reached {
    /// At this address.
    Direct(SocketAddr),
    /// It dials.
    Back,
    /// In ssh, to this port of its loopback.
    Bridge(u16),
}

/// How the far movers that were started so far have ended.
#[derive(Default)]
pub(super) struct Lives {
    /// When the one that is there was started, and what had got across by then.
    begun: Option<(Instant, u64)>,
    /// So many in a row ended soon, and nothing more got across.
    fruitless: u32,
}

impl Lives {
    /// One was started.
    pub(super) fn begin(&mut self, now: Instant, across: u64) {
        self.begun = Some((now, across));
    }

    /// It has ended. Whether another one may do better.
    pub(super) fn end(&mut self, now: Instant, across: u64) -> bool {
        if let Some((begun, before)) = self.begun.take() {
            let was_fruitless = across <= before && now.saturating_duration_since(begun) < SOON;
            self.fruitless = if was_fruitless { self.fruitless + 1 } else { 0 };
        }
        self.fruitless < FRUITLESS_MAX
    }
}

/// The first address at which the far mover itself answers: one of those that were told, or one of the host that ssh
/// dials. Another machine may have the same address in our network.
pub(super) fn direct(
    told: &[IpAddr],
    host: impl FnOnce() -> String,
    port: u16,
    family: Option<Family>,
    tls: &Arc<ClientConfig>,
) -> Option<SocketAddr> {
    let until = Instant::now() + DIAL_LIMIT;
    let usable = |address: &IpAddr| {
        let is_asked_for = family.is_none_or(|family| family.has(address));
        is_asked_for && !address.is_unspecified() && !address.is_multicast()
    };
    let told = told.iter().copied().filter(usable);
    let mut addresses: Vec<SocketAddr> = told.map(|address| SocketAddr::new(address, port)).collect();
    // One word of each address.
    let (told, hears) = mpsc::channel();
    let race = |address: SocketAddr| {
        let (told, no_word, tls) = (told.clone(), told.clone(), tls.clone());
        let try_it = move || {
            let proved = TcpStream::connect_timeout(&address, DIAL_LIMIT)
                .map_err(|error| failure::of_io(CONNECT, &error))
                .and_then(|stream| prove(stream.into(), &tls, DIAL_LIMIT));
            let _ = told.send(proved.ok().map(|()| address));
        };
        let on_panic = move |_| {
            let _ = no_word.send(None);
        };
        thread::guarded("dial", on_panic, try_it).is_ok()
    };
    let mut tried = addresses.iter().filter(|address| race(**address)).count();
    let host = host();
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

/// Has whatever answers there prove that it is the far mover.
pub(super) fn prove(fd: OwnedFd, tls: &Arc<ClientConfig>, limit: Duration) -> Result<()> {
    Connection::connect(fd, tls.clone(), limit).map(drop)
}

/// A connection to the port at this address.
pub(super) fn dial(address: SocketAddr, deadline: Duration) -> Result<OwnedFd> {
    TcpStream::connect_timeout(&address, deadline).map(OwnedFd::from).map_err(|error| {
        let mut failure = failure::of_io(CONNECT, &error).because(Reason::NotAnswered);
        if error.kind() == ErrorKind::ConnectionRefused {
            failure.kind = CLOSED;
        }
        failure.cause = format!("{address}: {}", failure.cause);
        failure
    })
}

/// What its user is told where data ride in ssh.
pub(super) fn rides_in_ssh(why: &str) -> String {
    format!(
        "data ride in ssh ({why}): OpenSSH's window of about 2 MB limits each stream to 2 MB per round trip"
    )
}

/// Nobody listens at the far mover's port: said by the machine itself or by a bridge, not by the network.
pub(super) const CLOSED: FailureKind = FailureKind::NotFound;

/// Whether the far mover is gone, by how it ended when the process that listens at its port was to prove that it is the
/// far mover: another may have the port by now. One that is only slow is there, and is asked again, until it `is_late`.
pub(super) fn has_gone(proved: Result<()>, is_late: bool) -> Result<bool> {
    match proved {
        Ok(()) => Ok(false),
        Err(failure) if failure.kind == FailureKind::Connection && !is_late => Err(unreached(failure)),
        Err(_) => Ok(true),
    }
}

/// To whoever dials, a far mover that cannot be reached is an outage; `NotFound` would be taken for a session that is
/// gone.
pub(super) fn unreached(mut failure: Failure) -> Failure {
    failure.kind = FailureKind::Connection;
    // No daemon is missing there.
    if failure.reason == Reason::NotAnswered {
        failure.operation = ssh::REACH.to_owned();
        failure.reason = Reason::FarNotReached;
    }
    failure
}

pub(super) fn not_answered(cause: &str) -> Failure {
    Failure::new(FailureKind::Connection, CONNECT, cause).because(Reason::NotAnswered)
}

pub(super) fn not_reached(cause: &str) -> Failure {
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

/// Listens, has the far mover dial, and takes the connection that says the token first. The `deadline` is that of a
/// free port, and then, once `ask` has returned, of the connection: an ask may go a long way.
pub(super) fn dial_back(
    ports: Option<(u16, u16)>,
    deadline: Duration,
    ask: impl FnOnce(&DialBack) -> Result<()>,
) -> Result<OwnedFd> {
    let listener = listen_until(ports, Instant::now() + deadline)?;
    await_token(&listener, deadline, ask)
}

/// Listens at the loopback, has somebody carry a connection of the far mover there, and takes the one that says the
/// token first. `ask` returns when it is carried; the `deadline` is that of what comes then.
pub(super) fn carried(deadline: Duration, ask: impl FnOnce(&DialBack) -> Result<()>) -> Result<OwnedFd> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .map_err(|error| failure::of_io(CONNECT, &error).because(Reason::NotAnswered))?;
    await_token(&listener, deadline, ask)
}

fn await_token(
    listener: &TcpListener,
    deadline: Duration,
    ask: impl FnOnce(&DialBack) -> Result<()>,
) -> Result<OwnedFd> {
    let of_io = |error: std::io::Error| failure::of_io(CONNECT, &error).because(Reason::NotAnswered);
    listener.set_nonblocking(true).map_err(of_io)?;
    let port = listener.local_addr().map_err(of_io)?.port();
    let mut random = [0; TOKEN_BYTES / 2];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Failure::new(FailureKind::Internal, CONNECT, "no random numbers"))?;
    let token = hex(&random);
    ask(&DialBack { port, token: token.clone(), addresses: Vec::new() })?;
    let until = Instant::now() + deadline;
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
    use crate::link::testing::LONG;
    use std::io::Write;

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
    fn what_ssh_started_is_not_told_as_a_daemon_that_is_missing() {
        let refused = Failure::new(CLOSED, "dial", "10.0.0.1:7: Connection refused");
        let failure = unreached(refused.because(Reason::NotAnswered));
        assert_eq!((failure.kind, &*failure.operation), (FailureKind::Connection, ssh::REACH));
        assert_eq!(failure.reason, Reason::FarNotReached);
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
    fn what_it_takes_to_ask_is_no_time_in_which_the_far_mover_does_not_dial() {
        let (deadline, mut far) = (Duration::from_secs(2), None);
        let fd = dial_back(None, deadline, |request| {
            let mut dials = TcpStream::connect((Ipv4Addr::LOCALHOST, request.port)).unwrap();
            dials.write_all(request.token.as_bytes()).unwrap();
            far = Some(dials);
            std::thread::sleep(deadline + Duration::from_millis(100));
            Ok(())
        });
        assert!(fd.is_ok() && far.is_some());
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
