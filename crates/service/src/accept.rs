//! Accepts connections. Until a peer has proved who it is, it costs a small task and a deadline, never a
//! thread: handshakes run on an asynchronous runtime, everything after them on blocking threads.

use crate::counts::{Counted, Counts};
use crate::metrics::Refused;
use crate::sessions::{First, Host, Origin};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::ticket::ADDRESSES_MAX;
use thalweg_mover::link::{ClientTrust, Connection, Fingerprint, Identity, Token, server_config};
use thalweg_mover::mutex::lock;
use thalweg_wire::hello::{HELLO_BYTES, Hello, Purpose, negotiate};
use thalweg_wire::limits;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use zeroize::Zeroizing;

/// From accept to the end of the hello, in total.
pub const ADMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that have not proved who they are, at most; the rest wait in the kernel.
const STRANGERS_MAX: usize = 8192;
/// Of these, from the same address; of one more, the oldest is cut. So a flood from one address does not keep others
/// out, and somebody honest at the same address still has the time that it takes for so many to come later.
const STRANGERS_PER_SOURCE_MAX: usize = 256;
/// Connections whose owner is known and that have not said what they are for, of one client at one address.
const NEWCOMERS_PER_ORIGIN_MAX: usize = 64;
/// Of these, from the same address, whatever tickets they came with.
const NEWCOMERS_PER_SOURCE_MAX: usize = 256;
/// Tokens that are checked at a time: each may wait some seconds for an identity provider, on a thread.
const TOKENS_CHECKED_MAX: usize = 32;
/// Lines of the log, in a minute, on those who were turned away, or could not be accepted: else strangers would decide
/// how fast it grows.
const LINES_A_MINUTE_MAX: u32 = 60;
/// Connections that wait in the kernel: as many as it permits (`net.core.somaxconn`).
const BACKLOG: u32 = u32::MAX;
/// What fails where nobody can be listened to.
pub const LISTEN: &str = "listen";

/// A server that listens.
pub struct Listening {
    /// Where, with the ports that the kernel chose.
    pub addresses: Vec<SocketAddr>,
    door: Door,
    runtime: Option<tokio::runtime::Runtime>,
}

/// What every connection passes.
#[derive(Clone)]
struct Door {
    acceptor: TlsAcceptor,
    host: Arc<Host>,
    newcomers: Arc<Newcomers>,
    turned_away: Arc<Mutex<LinesAMinute>>,
    checks: Arc<Semaphore>,
}

impl Door {
    /// TLS; and where tokens are taken what the peer says first, with what becomes of it if it is a token.
    async fn secure(&self, stream: TcpStream) -> std::io::Result<(TlsStream<TcpStream>, Option<First>)> {
        let mut stream = self.acceptor.accept(stream).await?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        // Also of who is known: of all together no more tokens are checked at a time.
        let peer = certificate.map(Fingerprint::of).filter(|_| self.host.takes_tokens());
        let Some(peer) = peer else { return Ok((stream, None)) };
        let odd = |why: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
        let mut hello = [0; HELLO_BYTES];
        stream.read_exact(&mut hello).await?;
        let mut verdict = None;
        // All else is answered behind, another version of the protocol too.
        let ours = (limits::VERSION_MIN, limits::VERSION_MAX);
        let shows_token =
            |said: &Hello| said.purpose == Purpose::Token && negotiate(ours, said.versions).is_some();
        if let Some(said) = Hello::decode(&hello).ok().filter(shows_token) {
            let length = usize::from(said.stream);
            if length > limits::TOKEN_BYTES_MAX {
                return Err(odd("a token is too long"));
            }
            let mut bytes = Zeroizing::new(vec![0; length]);
            stream.read_exact(&mut bytes).await?;
            let token = Token::from_bytes(&bytes).map_err(|_| odd("what is shown is no token"))?;
            let turn = self.checks.clone().acquire_owned().await.map_err(std::io::Error::other)?;
            let host = self.host.clone();
            let check = move || {
                let _turn = turn;
                host.introduce(peer, &token)
            };
            verdict = Some(tokio::task::spawn_blocking(check).await.map_err(std::io::Error::other)?);
        }
        Ok((stream, Some(First { hello, verdict })))
    }

    /// Notes in the log who was turned away and why, or that there were more than it tells.
    fn turned_away(&self, address: Option<SocketAddr>, why: &dyn std::fmt::Display) {
        let more = |untold: u64| tracing::info!(more = untold, "as many more were turned away before");
        lock(&self.turned_away).tell(Instant::now(), more, || {
            let address = address.map_or_else(|| "unknown".to_owned(), |address| address.to_string());
            tracing::info!(%address, error = %why, "a connection was turned away");
        });
    }
}

/// Lines of one kind: how many of this minute are used, and how many of what happened got none.
#[derive(Default)]
struct LinesAMinute {
    since: Option<Instant>,
    lines: u32,
    untold: u64,
}

impl LinesAMinute {
    /// Tells one more by `line`, or counts it where this minute has had its lines; before the first of a minute `more`
    /// tells how many got none, if any did.
    fn tell(&mut self, now: Instant, more: impl FnOnce(u64), line: impl FnOnce()) {
        let is_over = self.since.is_none_or(|since| now.duration_since(since) >= Duration::from_secs(60));
        if is_over {
            let before =
                std::mem::replace(self, LinesAMinute { since: Some(now), ..LinesAMinute::default() });
            if before.untold > 0 {
                more(before.untold);
            }
        }
        if self.lines < LINES_A_MINUTE_MAX {
            self.lines += 1;
            line();
        } else {
            self.untold += 1;
        }
    }
}

/// Connections whose peers have not proved who they are, by where they come from, oldest first.
struct Strangers {
    places: Arc<Semaphore>,
    sources: Mutex<HashMap<IpAddr, VecDeque<Kept>>>,
    serial: AtomicU64,
}

/// A stranger's number, and what keeps the connection: it is cut when this is dropped.
type Kept = (u64, oneshot::Sender<()>);

impl Default for Strangers {
    fn default() -> Self {
        Strangers {
            places: Arc::new(Semaphore::new(STRANGERS_MAX)),
            sources: Mutex::default(),
            serial: AtomicU64::new(0),
        }
    }
}

/// A stranger's place: free again when this is dropped.
struct Place {
    strangers: Arc<Strangers>,
    source: IpAddr,
    number: u64,
    _place: OwnedSemaphorePermit,
}

impl Strangers {
    /// Notes a stranger. The receiver ends when the stranger has to go because too many came later.
    fn note(
        self: &Arc<Self>,
        address: IpAddr,
        place: OwnedSemaphorePermit,
    ) -> (Place, oneshot::Receiver<()>) {
        let source = source_of(address);
        let number = self.serial.fetch_add(1, Ordering::Relaxed);
        let (keep, cut) = oneshot::channel();
        let mut sources = lock(&self.sources);
        let from_there = sources.entry(source).or_default();
        from_there.push_back((number, keep));
        if from_there.len() > STRANGERS_PER_SOURCE_MAX {
            from_there.pop_front();
        }
        drop(sources);
        (Place { strangers: self.clone(), source, number, _place: place }, cut)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sources = lock(&self.strangers.sources);
        if let Some(from_there) = sources.get_mut(&self.source) {
            from_there.retain(|(number, _)| *number != self.number);
            if from_there.is_empty() {
                sources.remove(&self.source);
            }
        }
    }
}

/// Who counts as one: an IPv4 address, or the IPv6 network of 64 bits that one subscriber has.
pub(crate) fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::V6(segments.into())
        }
        address => address,
    }
}

/// How many connections are being admitted.
#[derive(Default)]
struct Newcomers {
    /// Of each client at each address.
    by_origin: Arc<Counts<Origin>>,
    /// At each address.
    by_source: Arc<Counts<Option<IpAddr>>>,
}

/// One of them, until this goes.
type Newcomer = (Counted<Origin>, Counted<Option<IpAddr>>);

impl Newcomers {
    fn note(&self, origin: Origin) -> Result<Newcomer> {
        let busy = |cause: &str| Err(Failure::new(FailureKind::Busy, "admit", cause));
        // Always in this order; whoever goes holds one at a time.
        let (by_origin, by_source) = (self.by_origin.lock(), self.by_source.lock());
        let count = |of: Option<&usize>| of.copied().unwrap_or(0);
        if count(by_origin.get(&origin)) >= NEWCOMERS_PER_ORIGIN_MAX {
            return busy("too many connections of one client at once");
        }
        if count(by_source.get(&origin.source)) >= NEWCOMERS_PER_SOURCE_MAX {
            return busy("too many connections from one address at once");
        }
        let of_client = self.by_origin.take(by_origin, origin, 1);
        Ok((of_client, self.by_source.take(by_source, origin.source, 1)))
    }
}

/// Listens at `addresses` (`host:port`; port 0: the kernel chooses) for clients that `trust` admits: of a name at all
/// that it has here. Where there is no IPv6, `[::]` is `0.0.0.0`; where an IPv4 address with the same port is listed,
/// it is IPv6 alone.
///
/// # Errors
/// If an address cannot be had; `Usage` if one cannot be read.
pub fn listen(
    host: Arc<Host>,
    identity: &Identity,
    trust: &ClientTrust,
    addresses: &[String],
) -> Result<Listening> {
    let acceptor = TlsAcceptor::from(server_config(identity, trust)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .thread_name("accept")
        .build()
        .map_err(|error| failure::of_io(START, &error).because(Reason::NoThreads))?;
    let strangers = Arc::new(Strangers::default());
    let newcomers = Arc::new(Newcomers::default());
    let turned_away = Arc::<Mutex<LinesAMinute>>::default();
    let checks = Arc::new(Semaphore::new(TOKENS_CHECKED_MAX));
    let listeners = {
        let _inside = runtime.enter();
        bind_all(addresses)?
    };
    let mut bound = Vec::new();
    for listener in listeners {
        bound.push(listener.local_addr().map_err(|error| failure::of_io(LISTEN, &error))?);
        let door = Door {
            acceptor: acceptor.clone(),
            host: host.clone(),
            newcomers: newcomers.clone(),
            turned_away: turned_away.clone(),
            checks: checks.clone(),
        };
        runtime.spawn(accept_loop(listener, door, strangers.clone()));
    }
    let door = Door { acceptor, host, newcomers, turned_away, checks };
    Ok(Listening { addresses: bound, door, runtime: Some(runtime) })
}

/// Sockets that listen at `addresses`, in order.
pub(crate) fn bind_all(addresses: &[String]) -> Result<Vec<TcpListener>> {
    let wanted = addresses.iter().map(|text| addresses_of(text)).collect::<Result<Vec<_>>>()?;
    let all = wanted.concat();
    let mut listeners = Vec::new();
    let mut taken: Vec<SocketAddr> = Vec::new();
    for (text, wanted) in addresses.iter().zip(wanted) {
        let mut missing = None;
        let mut is_heard = false;
        let is_one_of_several = wanted.len() > 1;
        for address in wanted {
            // Two names may have the same address; port 0 is another port each time.
            if address.port() != 0 && taken.contains(&address) {
                is_heard = true;
                continue;
            }
            taken.push(address);
            let is_ipv6_only = has_ipv4_beside(&address, &all);
            let bound = match bind(address, is_ipv6_only) {
                Err(error) if is_everywhere_in_ipv6(&address) && thalweg_sys::address::is_missing(&error) => {
                    tracing::warn!(%address, %error, "there is no IPv6 here: it listens for IPv4 alone");
                    // What is listed beside it is all of IPv4 that was asked for.
                    if is_ipv6_only {
                        is_heard = true;
                        continue;
                    }
                    bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())), false)
                }
                bound => bound,
            };
            match bound {
                Ok(listener) => {
                    is_heard = true;
                    listeners.push(listener);
                }
                // Another of its addresses may do.
                Err(error) if is_one_of_several || thalweg_sys::address::is_missing(&error) => {
                    tracing::warn!(%address, %error, "it does not listen there");
                    missing = Some(error);
                }
                Err(error) => return Err(not_bound(text, &error)),
            }
        }
        if !is_heard {
            return Err(not_bound(text, &missing.unwrap_or_else(|| std::io::ErrorKind::NotFound.into())));
        }
    }
    Ok(listeners)
}

/// What `host:port` stands for.
fn addresses_of(text: &str) -> Result<Vec<SocketAddr>> {
    match text.to_socket_addrs() {
        Ok(addresses) => Ok(addresses.collect()),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
            let cause = format!("`{text}`: expected ADDRESS:PORT (of IPv6 [ADDRESS]:PORT)");
            Err(Failure::new(FailureKind::Usage, LISTEN, cause))
        }
        Err(error) => Err(not_bound(text, &error)),
    }
}

fn not_bound(text: &str, error: &std::io::Error) -> Failure {
    let (kind, reason) = match error.kind() {
        std::io::ErrorKind::PermissionDenied => (FailureKind::Permission, Reason::Other),
        std::io::ErrorKind::AddrInUse => (FailureKind::Busy, Reason::PortTaken),
        _ => (FailureKind::NotFound, Reason::Other),
    };
    Failure::new(kind, LISTEN, format!("{text}: {error}")).because(reason)
}

fn bind(address: SocketAddr, is_ipv6_only: bool) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A daemon that is started anew shall not wait until the kernel has forgotten connections of the old one.
    socket.set_reuseaddr(true)?;
    if is_ipv6_only {
        thalweg_sys::socket::set_ipv6_only(&socket)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn is_everywhere_in_ipv6(address: &SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Whether this is `[::]`, which would hear IPv4 as well, and an address of that with the same port is in the list.
fn has_ipv4_beside(address: &SocketAddr, all: &[SocketAddr]) -> bool {
    let is_beside = |other: &SocketAddr| other.is_ipv4() && other.port() == address.port();
    is_everywhere_in_ipv6(address) && address.port() != 0 && all.iter().any(is_beside)
}

impl Listening {
    /// Where others may find it, each `host:port`: for `0.0.0.0` and `[::]` the addresses of this machine, without
    /// those of the loopback if it has another; as many as a ticket takes. Behind NAT they are not what clients dial.
    ///
    /// # Errors
    /// What the kernel says; `NotFound` if there is none.
    pub fn reachable(&self) -> Result<Vec<String>> {
        let own = match self.addresses.iter().any(|address| address.ip().is_unspecified()) {
            true => thalweg_sys::address::own().map_err(|error| failure::of_io(FIND_ADDRESSES, &error))?,
            false => Vec::new(),
        };
        let found = reachable(&self.addresses, &own, thalweg_sys::address::ipv6_hears_ipv4());
        if found.is_empty() {
            let cause = "no interface has one: name what clients are to dial (--advertise)";
            return Err(Failure::new(FailureKind::NotFound, FIND_ADDRESSES, cause));
        }
        Ok(found.into_iter().take(ADDRESSES_MAX).map(|address| address.to_string()).collect())
    }

    /// Serves a connection that was made from here, as if it had been accepted.
    ///
    /// # Errors
    /// If the socket cannot be had.
    pub fn adopt(&self, stream: std::net::TcpStream) -> Result<()> {
        let of_io = |error: std::io::Error| failure::of_io("dial back", &error);
        stream.set_nonblocking(true).map_err(of_io)?;
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let _inside = runtime.enter();
        let stream = TcpStream::from_std(stream).map_err(of_io)?;
        runtime.spawn(welcome(stream, self.door.clone(), None));
        Ok(())
    }

    /// Accepts nothing more and ends all sessions in order.
    pub fn stop(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.door.host.stop();
    }
}

const START: &str = "start the daemon";
const FIND_ADDRESSES: &str = "find the addresses of this machine";

/// Of those listened at, the unspecified ones as what they stand for.
fn reachable(listening: &[SocketAddr], own: &[IpAddr], ipv6_hears_ipv4: bool) -> Vec<SocketAddr> {
    let hears = |address: &SocketAddr, own: &IpAddr| {
        let hears_ipv4 = ipv6_hears_ipv4 && !has_ipv4_beside(address, listening);
        own.is_ipv4() == address.is_ipv4() || own.is_ipv4() && hears_ipv4
    };
    let everywhere = || listening.iter().filter(|address| address.ip().is_unspecified());
    let others = || own.iter().filter(|own| !own.is_loopback());
    let is_alone = !everywhere().any(|address| others().any(|own| hears(address, own)));
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in listening {
        let of = |ip: &IpAddr| SocketAddr::new(*ip, address.port());
        let stands_for: Vec<SocketAddr> = match address.ip().is_unspecified() {
            false => vec![*address],
            true => {
                let heard = own.iter().filter(|own| hears(address, own));
                heard.filter(|own| is_alone || !own.is_loopback()).map(of).collect()
            }
        };
        stands_for.into_iter().for_each(|address| {
            if !found.contains(&address) {
                found.push(address);
            }
        });
    }
    found
}

async fn accept_loop(listener: TcpListener, door: Door, strangers: Arc<Strangers>) {
    let mut failed = LinesAMinute::default();
    loop {
        let Ok(place) = strangers.places.clone().acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, or a connection that died in the queue: wait a little, go on.
                let more = |untold: u64| {
                    tracing::warn!(more = untold, "as many more could not be accepted before");
                };
                failed.tell(Instant::now(), more, || tracing::warn!(%error, "accept"));
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let noted = strangers.note(address.ip(), place);
        tokio::spawn(welcome(stream, door.clone(), Some(noted)));
    }
}

/// TLS, hello, where tokens are taken behind a token, and then to its session; a stranger's place is free again when
/// they have proved who they are.
async fn welcome(stream: TcpStream, door: Door, stranger: Option<(Place, oneshot::Receiver<()>)>) {
    let since = Instant::now();
    // As the other side, which waits for our answers.
    let _ = stream.set_nodelay(true);
    let address = stream.peer_addr().ok();
    let handshake = tokio::time::timeout(ADMIT_TIMEOUT, door.secure(stream));
    let secured = match stranger {
        Some((_place, cut)) => tokio::select! {
            secured = handshake => secured,
            _ = cut => {
                door.host.metrics.refuse(Refused::Crowd);
                return door.turned_away(address, &"too many strangers came later");
            }
        },
        None => handshake.await,
    };
    let secured = match secured {
        Ok(Ok((stream, first))) => {
            let (socket, tls) = stream.into_inner();
            socket
                .into_std()
                .map_err(|error| failure::of_io("accept", &error))
                .and_then(|socket| Ok((Connection::from_parts(socket.into(), tls)?, first)))
        }
        Ok(Err(error)) => {
            door.host.metrics.refuse(Refused::Handshake);
            return door.turned_away(address, &error);
        }
        Err(_) => {
            door.host.metrics.refuse(Refused::Handshake);
            Err(Failure::new(FailureKind::Connection, "accept", "the handshake took too long"))
        }
    };
    let left = ADMIT_TIMEOUT.saturating_sub(since.elapsed());
    let counted = secured.and_then(|(connection, first)| {
        let newcomer = door.newcomers.note(Origin::of(&connection));
        let newcomer = newcomer.inspect_err(|_| door.host.metrics.refuse(Refused::Crowd))?;
        Ok((newcomer, connection, first))
    });
    let host = door.host.clone();
    let admit =
        move || counted.and_then(|(_newcomer, connection, first)| host.admit(connection, first, left));
    let admitted = tokio::task::spawn_blocking(admit).await;
    match admitted {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => door.turned_away(address, &failure),
        Err(error) => tracing::error!(%error, "a connection could not be served"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_turned_away_is_told_so_often_in_a_minute_and_then_counted() {
        let begin = Instant::now();
        let mut lines = LinesAMinute::default();
        // Whether it got a line, and how many more were told of before.
        let mut one_more = |now| {
            let (mut untold, mut is_told) = (0, false);
            lines.tell(now, |more| untold = more, || is_told = true);
            (is_told, untold)
        };
        let told: Vec<(bool, u64)> = (0..1000).map(|_| one_more(begin)).collect();
        assert_eq!(told.iter().filter(|(is_told, _)| *is_told).count(), 60);
        assert!(told.iter().all(|(_, untold)| *untold == 0));
        assert_eq!(one_more(begin + Duration::from_secs(60)), (true, 940));
        assert_eq!(one_more(begin + Duration::from_secs(61)), (true, 0));
    }

    #[tokio::test]
    async fn the_oldest_stranger_of_a_source_goes_when_too_many_come_and_nobody_elses() {
        let strangers = Arc::new(Strangers::default());
        let new = |address: &str| {
            let place = strangers.places.clone().try_acquire_owned().expect("a place");
            strangers.note(address.parse().expect("an address"), place)
        };
        let mut other = new("192.0.2.2");
        let mut held: Vec<_> = (0..STRANGERS_PER_SOURCE_MAX).map(|_| new("192.0.2.1")).collect();
        assert!(held.iter_mut().all(|(_, cut)| cut.try_recv() == Err(oneshot::error::TryRecvError::Empty)));
        let mapped = new("::ffff:192.0.2.1");
        let cut: Vec<_> = held
            .iter_mut()
            .map(|(_, cut)| cut.try_recv() == Err(oneshot::error::TryRecvError::Closed))
            .collect();
        assert!(cut[0] && !cut[1..].contains(&true));
        assert_eq!(other.1.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        drop((held, mapped, other));
        assert!(strangers.sources.lock().expect("not poisoned").is_empty());
        assert_eq!(strangers.places.available_permits(), STRANGERS_MAX);
    }

    #[test]
    fn unspecified_addresses_stand_for_those_of_this_machine() {
        let at = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().expect("an address")).collect()
        };
        let own: Vec<IpAddr> = ["127.0.0.1", "192.0.2.1", "::1", "2001:db8::7"]
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        let found = |listening: &[&str], own: &[IpAddr], both| reachable(&at(listening), own, both);
        assert_eq!(found(&["[::]:1"], &own, true), at(&["192.0.2.1:1", "[2001:db8::7]:1"]));
        assert_eq!(found(&["[::]:1"], &own, false), at(&["[2001:db8::7]:1"]));
        assert_eq!(found(&["0.0.0.0:1"], &own, true), at(&["192.0.2.1:1"]));
        assert_eq!(
            found(&["0.0.0.0:1", "[::]:1", "127.0.0.1:2"], &own, true),
            at(&["192.0.2.1:1", "[2001:db8::7]:1", "127.0.0.1:2"])
        );
        // Of IPv4 it hears what is listed, and no other address of this machine.
        assert_eq!(found(&["127.0.0.1:1", "[::]:1"], &own, true), at(&["127.0.0.1:1", "[2001:db8::7]:1"]));
        assert_eq!(found(&["0.0.0.0:1", "[::]:1"], &own[..3], true), at(&["192.0.2.1:1"]));
        // Without a network it is found by who is here.
        assert_eq!(found(&["[::]:1"], &own[..1], true), at(&["127.0.0.1:1"]));
        assert!(found(&["0.0.0.0:1"], &own[2..], true).is_empty());
    }

    #[test]
    fn an_address_to_listen_at_that_cannot_be_read_is_a_wrong_command() {
        for bad in ["xx", "127.0.0.1", "127.0.0.1:99999", "[::1]"] {
            let failure = addresses_of(bad).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage, "{failure}");
            assert!(failure.cause.contains("ADDRESS:PORT"), "{failure}");
        }
    }

    #[tokio::test]
    async fn an_address_that_two_names_have_is_listened_at_once_and_port_0_is_another_each_time() {
        let texts = |of: &[&str]| of.iter().map(ToString::to_string).collect::<Vec<String>>();
        // As long as it is held, nobody else gets this port at all addresses.
        let held = bind_all(&texts(&["127.0.0.1:0"])).unwrap().remove(0);
        let named = format!("127.77.0.1:{}", held.local_addr().unwrap().port());
        let named = named.as_str();
        assert_eq!(bind_all(&texts(&[named, named])).unwrap().len(), 1);
        assert_eq!(bind_all(&texts(&["127.0.0.1:0", "127.0.0.1:0", "0.0.0.0:0"])).unwrap().len(), 3);
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let source = |text: &str| source_of(text.parse().expect("an address"));
        assert_eq!(source("2001:db8:1:2::7"), source("2001:db8:1:2:ffff::1"));
        assert_ne!(source("2001:db8:1:2::7"), source("2001:db8:1:3::7"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }

    #[test]
    fn the_connections_of_one_client_at_one_address_are_counted_apart() {
        let newcomers = Arc::new(Newcomers::default());
        let at = |client, address: &str| Origin {
            client: Fingerprint([client; 32]),
            source: Some(address.parse().expect("an address")),
        };
        let one = at(1, "192.0.2.1");
        let held: Vec<_> =
            (0..NEWCOMERS_PER_ORIGIN_MAX).map(|_| newcomers.note(one).expect("room")).collect();
        assert!(newcomers.note(one).is_err());
        assert!(newcomers.note(at(2, "192.0.2.1")).is_ok());
        assert!(newcomers.note(at(1, "192.0.2.2")).is_ok());
        drop(held);
        assert!(newcomers.note(one).is_ok());
        assert!(newcomers.by_origin.lock().is_empty() && newcomers.by_source.lock().is_empty());
    }

    #[test]
    fn the_connections_from_one_address_are_counted_whatever_tickets_they_came_with() {
        let newcomers = Arc::new(Newcomers::default());
        let note = |client: usize, address: &str| {
            let source = Some(address.parse().expect("an address"));
            let client = Fingerprint([u8::try_from(client).expect("few"); 32]);
            newcomers.note(Origin { client, source })
        };
        let each = |at: usize| note(at / NEWCOMERS_PER_ORIGIN_MAX, "192.0.2.1");
        let held: Vec<_> = (0..NEWCOMERS_PER_SOURCE_MAX).map(|at| each(at).expect("room")).collect();
        assert!(note(255, "192.0.2.1").is_err());
        assert!(note(255, "192.0.2.2").is_ok());
        drop(held);
        assert!(note(255, "192.0.2.1").is_ok());
    }

    #[test]
    fn connections_without_an_address_are_counted_together() {
        let newcomers = Arc::new(Newcomers::default());
        let note = |client: usize| {
            let client = Fingerprint([u8::try_from(client).expect("few"); 32]);
            newcomers.note(Origin { client, source: None })
        };
        let each = |at: usize| note(at / NEWCOMERS_PER_ORIGIN_MAX);
        let held: Vec<_> = (0..NEWCOMERS_PER_SOURCE_MAX).map(|at| each(at).expect("room")).collect();
        assert!(note(255).is_err());
        drop(held);
        assert!(note(255).is_ok());
    }
}
