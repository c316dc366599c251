//! Dials the addresses of a peer side by side, so that one at which nobody answers holds up no connection (RFC 8305).
//!
//! 1. Names are looked up, all of them and one after the other: that has no bound but the resolver's own, and what it
//!    takes is lost to the dialling. The families of their addresses take turns, beginning with that of the first.
//! 2. The first address is dialled, and each next one when one has failed, or when none has answered for [`STEP`].
//! 3. The first connection that stands is taken, and the others are dropped. Its address is the first the next time.
//!
//! One thread, and at most [`ADDRESSES_MAX`] sockets. Whoever answers has not proved who it is, nor that more than the
//! first packets gets through: that is for TLS, and [`Answered::misled`] for where it came to nothing.

use super::dial::{CONNECT, left};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::Family;
use crate::run::spread::Local;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_sys::socket::{Interest, begin_connect, poll};

/// For so long who was dialled is alone: what RFC 8305 recommends.
const STEP: Duration = Duration::from_millis(250);
/// Addresses that are dialled: more than any host that we saw has.
const ADDRESSES_MAX: usize = 16;
/// So long who misled is dialled behind the others: a path that let only the first packets through may be mended by
/// then, and be the better one.
const MISLED_FOR: Duration = Duration::from_secs(300);

/// What some names were found to stand for: neither are they looked up, nor is a dead address waited for, with each
/// connection of a session. They are looked up anew where none answers.
#[derive(Debug, Default)]
pub(in crate::run) struct Answered(Mutex<Option<Known>>);

#[derive(Debug, Clone)]
struct Known {
    names: Vec<String>,
    /// The one that answered last is the first.
    addresses: Vec<SocketAddr>,
    /// None answered, or who did came to nothing: these count only where the names cannot be looked up.
    is_doubted: bool,
    /// Those that answered and came to nothing, and when; the latest is the last.
    misled: Vec<(SocketAddr, Instant)>,
}

impl Answered {
    /// What is to be dialled: what is known, or what `look_up` finds, those that misled lately last.
    fn addresses(
        &self,
        names: &[String],
        now: Instant,
        look_up: impl FnOnce() -> Result<Vec<SocketAddr>>,
    ) -> Result<Vec<SocketAddr>> {
        let known = self.lock().clone().filter(|known| known.names == names);
        let Some(Known { addresses, is_doubted, misled, .. }) = known else { return look_up() };
        if !is_doubted {
            return Ok(addresses);
        }
        let mut found = look_up().unwrap_or(addresses);
        let is_lately = |at: Instant| now.saturating_duration_since(at) < MISLED_FOR;
        found.sort_by_key(|address| misled.iter().position(|(other, at)| other == address && is_lately(*at)));
        Ok(found)
    }

    fn note(&self, names: &[String], dialled: &[SocketAddr], answered: SocketAddr) {
        let others = dialled.iter().copied().filter(|address| *address != answered);
        let addresses = std::iter::once(answered).chain(others).collect();
        let mut known = self.lock();
        let misled = known.take().filter(|known| known.names == names).map(|known| known.misled);
        let (names, misled) = (names.to_vec(), misled.unwrap_or_default());
        *known = Some(Known { names, addresses, is_doubted: false, misled });
    }

    /// Names are looked up anew the next time.
    fn doubt(&self) {
        if let Some(known) = &mut *self.lock() {
            known.is_doubted = true;
        }
    }

    /// Who answered last came to nothing: he is not the peer, or only the first packets get through to there. He is
    /// dialled last the next time.
    pub(in crate::run) fn misled(&self) {
        let mut known = self.lock();
        let Some(known) = &mut *known else { return };
        let Some(answered) = known.addresses.first().copied().filter(|_| !known.is_doubted) else { return };
        known.is_doubted = true;
        known.misled.retain(|(address, _)| *address != answered);
        known.misled.push((answered, Instant::now()));
        if known.misled.len() > ADDRESSES_MAX {
            known.misled.remove(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Connects to the first of some `host:port` that answers, from `local` and at an address of `family` if
/// these are given.
///
/// # Errors
/// `Connection`, why each did not answer.
pub(in crate::run) fn connect_any(
    names: &[String],
    local: Option<&Local>,
    family: Option<Family>,
    answered: &Answered,
    deadline: Duration,
) -> Result<OwnedFd> {
    let until = Instant::now() + deadline;
    let addresses = answered.addresses(names, Instant::now(), || look_up(names, local, family))?;
    match race(&addresses, left(until), |address| begin(address, local)) {
        Ok((address, socket)) => {
            answered.note(names, &addresses, address);
            Ok(socket.into())
        }
        Err(lost) => {
            answered.doubt();
            Err(unanswered(&lost, local))
        }
    }
}

fn unanswered(lost: &[(SocketAddr, io::Error)], local: Option<&Local>) -> Failure {
    let from = match local {
        None => String::new(),
        Some(Local::Address(address)) => format!(" from {address}"),
        Some(Local::Interface(name)) => format!(" by {name}"),
    };
    let each = lost.iter().map(|(address, error)| {
        let text = failure::of_io(CONNECT, error).cause;
        format!("{address}{from}: {text}")
    });
    not_answered(&each.collect::<Vec<_>>().join("; "))
}

fn not_answered(cause: &str) -> Failure {
    Failure::new(FailureKind::Connection, CONNECT, cause).because(Reason::NotAnswered)
}

/// Never none.
fn look_up(names: &[String], local: Option<&Local>, family: Option<Family>) -> Result<Vec<SocketAddr>> {
    let mut why = not_answered("no address was given");
    let mut found: Vec<SocketAddr> = Vec::new();
    for name in names {
        match resolve(name) {
            Ok(addresses) => found.extend(addresses),
            Err(error) => {
                let cause = format!("{name}: {error}");
                why = Failure::new(FailureKind::Connection, "look up", cause).because(Reason::NotResolved);
            }
        }
    }
    if let Some(family) = family
        && !found.is_empty()
    {
        found.retain(|address| family.has(&address.ip()));
        let cause = format!("{}: no address of {family} ({})", names.join(", "), family.option());
        why = Failure::new(FailureKind::Connection, "look up", cause).because(Reason::NotResolved);
    }
    // From an address of one family nothing leads to the other.
    if let Some(Local::Address(own)) = local
        && found.iter().any(|address| address.is_ipv4() == own.is_ipv4())
    {
        found.retain(|address| address.is_ipv4() == own.is_ipv4());
    }
    if found.is_empty() { Err(why) } else { Ok(in_turns(found)) }
}

/// What a `host:port` stands for. Of an address with the name of a card, as `[fe80::1%eth0]:9`, the C library knows the
/// number of that, without the brackets.
fn resolve(name: &str) -> io::Result<impl Iterator<Item = SocketAddr>> {
    let of_card = name.strip_prefix('[').and_then(|name| name.split_once("]:"));
    let of_card = of_card.filter(|(host, _)| host.contains('%'));
    match of_card.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
        Some(address) => address.to_socket_addrs(),
        None => name.to_socket_addrs(),
    }
}

/// One of each family in turn, beginning with that of the first; within a family as they came, and each once.
fn in_turns(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_four = found.first().is_some_and(SocketAddr::is_ipv4);
    let (first, other): (Vec<SocketAddr>, Vec<SocketAddr>) =
        found.into_iter().partition(|address| address.is_ipv4() == is_four);
    let mut turns = Vec::new();
    for at in 0..first.len().max(other.len()) {
        for address in [first.get(at), other.get(at)].into_iter().flatten() {
            if !turns.contains(address) {
                turns.push(*address);
            }
        }
    }
    turns.truncate(ADDRESSES_MAX);
    turns
}

fn begin(address: &SocketAddr, local: Option<&Local>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
    match local {
        None => {}
        Some(Local::Address(own)) => socket.bind(&SocketAddr::new(*own, 0).into())?,
        Some(Local::Interface(name)) => socket.bind_device(Some(name.as_bytes()))?,
    }
    socket.set_nonblocking(true)?;
    begin_connect(&socket, address)?;
    Ok(socket)
}

/// A connection that is not made yet.
struct Runner {
    address: SocketAddr,
    socket: Socket,
    until: Instant,
}

/// The first of these to be connected, each of which `begin` begins; else why each was not, in the order in which that
/// was seen. Each has half of the time for itself, and all are begun within the other half.
fn race(
    addresses: &[SocketAddr],
    deadline: Duration,
    mut begin: impl FnMut(&SocketAddr) -> io::Result<Socket>,
) -> std::result::Result<(SocketAddr, Socket), Vec<(SocketAddr, io::Error)>> {
    let mut next = Instant::now();
    let end = next + deadline;
    let step = STEP.min(deadline / 2 / addresses.len().max(1) as u32);
    let mut waiting = addresses.iter();
    let mut runners: Vec<Runner> = Vec::new();
    let mut lost = Vec::new();
    loop {
        let now = Instant::now();
        let dials = (waiting.len() > 0).then_some(next);
        let Some(wakes) = runners.iter().map(|runner| runner.until).chain(dials).min() else {
            return Err(lost);
        };
        let fds: Vec<_> = runners.iter().map(|runner| (runner.socket.as_fd(), Interest::WRITE)).collect();
        let found = match poll(&fds, Some(wakes.saturating_duration_since(now))) {
            Ok(found) => found,
            Err(error) => {
                lost.extend(runners.first().map(|runner| (runner.address, error)));
                return Err(lost);
            }
        };
        let mut found = found.into_iter();
        for settled in runners.extract_if(.., |_| found.next().is_some_and(|found| found.any())) {
            let connected = settled.socket.take_error().and_then(|error| error.map_or(Ok(()), Err));
            match connected.and_then(|()| settled.socket.set_nonblocking(false)) {
                Ok(()) => return Ok((settled.address, settled.socket)),
                // The next one need not wait.
                Err(error) => {
                    lost.push((settled.address, error));
                    next = now;
                }
            }
        }
        let now = Instant::now();
        for late in runners.extract_if(.., |runner| runner.until <= now) {
            lost.push((late.address, io::Error::new(io::ErrorKind::TimedOut, "connection timed out")));
        }
        if next <= now
            && let Some(address) = waiting.next()
        {
            match begin(address) {
                Ok(socket) => {
                    runners.push(Runner { address: *address, socket, until: end.min(now + deadline / 2) });
                    next = now + step;
                }
                Err(error) => lost.push((*address, error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::LONG;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// As one that nobody answers: it never takes a byte while the other end is kept.
    fn silent() -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        while (&ours).write(&[0; 4096]).is_ok() {}
        (OwnedFd::from(ours).into(), theirs)
    }

    fn connected() -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (OwnedFd::from(ours).into(), theirs)
    }

    #[test]
    fn addresses_at_which_nobody_answers_hold_up_no_other_and_none_is_dialled_behind_who_answers() {
        let all = ["192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1", "192.0.2.5:1"].map(address);
        let (mut begun, mut kept) = (Vec::new(), Vec::new());
        let (first, _socket) = race(&all, LONG, |address| {
            begun.push(*address);
            let (ours, theirs) = match begun.len() {
                1 | 3 => silent(),
                2 => return Err(io::ErrorKind::NetworkUnreachable.into()),
                _ => connected(),
            };
            kept.push(theirs);
            Ok(ours)
        })
        .unwrap();
        assert_eq!((first, &begun[..]), (all[3], &all[..4]));
    }

    #[test]
    fn where_none_answers_each_is_told_with_its_reason() {
        let all = ["192.0.2.1:1", "[2001:db8::1]:1"].map(address);
        let mut kept = Vec::new();
        let lost = race(&all, Duration::from_millis(20), |address| match address.is_ipv4() {
            true => {
                let (ours, theirs) = silent();
                kept.push(theirs);
                Ok(ours)
            }
            false => Err(io::ErrorKind::NetworkUnreachable.into()),
        })
        .map(drop)
        .unwrap_err();
        let own = "192.0.2.9".parse().unwrap();
        let failure = unanswered(&lost, Some(&Local::Address(own)));
        for said in ["192.0.2.1:1 from 192.0.2.9: connection timed out", "[2001:db8::1]:1 from 192.0.2.9: "] {
            assert!(failure.cause.contains(said), "{failure}");
        }
        assert_eq!(race(&[], LONG, |_| Ok(connected().0)).map(drop).unwrap_err().len(), 0);
    }

    /// Their queues are full: the kernel hears who knocks, and says nothing.
    #[test]
    fn two_addresses_of_a_peer_that_are_dead_leave_time_for_the_third() {
        let full = || {
            let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            listener.bind(&address("127.0.0.1:0").into()).unwrap();
            listener.listen(0).unwrap();
            let at = listener.local_addr().unwrap().as_socket().unwrap();
            let fill: Vec<Socket> = (0..8).map(|_| begin(&at, None).unwrap()).collect();
            (at.to_string(), listener, fill)
        };
        let (dead, other_dead) = (full(), full());
        let lives = TcpListener::bind("127.0.0.1:0").unwrap();
        let lives_at = lives.local_addr().unwrap();
        let names = [dead.0.clone(), other_dead.0.clone(), lives_at.to_string()];
        let fd = connect_any(&names, None, None, &Answered::default(), LONG).unwrap();
        assert_eq!(TcpStream::from(fd).peer_addr().unwrap(), lives_at);
    }

    #[test]
    fn who_answered_is_dialled_first_the_next_time_and_where_none_answers_nothing_is_known() {
        let lives = TcpListener::bind("127.0.0.1:0").unwrap();
        let (lives_at, shut) = (lives.local_addr().unwrap(), address("127.0.0.1:1"));
        let names = [shut.to_string(), lives_at.to_string()];
        let answered = Answered::default();
        drop(connect_any(&names, None, None, &answered, LONG).unwrap());
        let known =
            |names: &[String]| answered.addresses(names, Instant::now(), || Err(not_answered("looked up")));
        assert_eq!(known(&names).unwrap(), [lives_at, shut]);
        // Of other names it says nothing.
        let names = [shut.to_string()];
        known(&names).unwrap_err();
        answered.note(&names, &[shut], shut);
        connect_any(&names, None, None, &answered, LONG).unwrap_err();
        let found = answered.addresses(&names, Instant::now(), || Ok(vec![lives_at]));
        assert_eq!(found.unwrap(), [lives_at], "it is looked up");
        assert_eq!(known(&names).unwrap(), [shut], "and as it was where that is not possible");
    }

    /// As one behind a path that lets the first packets through and none that is large.
    #[test]
    fn who_answered_and_came_to_nothing_is_dialled_last_the_next_time() {
        let all = ["[2001:db8::1]:1", "192.0.2.1:1", "192.0.2.2:1"].map(address);
        let names = ["dtn:1".to_owned()];
        let answered = Answered::default();
        let next_at = |now| answered.addresses(&names, now, || Ok(all.to_vec())).unwrap();
        let next = || next_at(Instant::now());
        answered.note(&names, &next(), all[0]);
        assert_eq!(next()[0], all[0]);
        answered.misled();
        assert_eq!(next(), [all[1], all[2], all[0]]);
        answered.note(&names, &next(), all[1]);
        answered.misled();
        assert_eq!(next(), [all[2], all[0], all[1]], "the latest is the last");
        // Said twice of one connection it is no other's.
        answered.misled();
        assert_eq!(next(), [all[2], all[0], all[1]]);
        // Not for ever.
        assert_eq!(next_at(Instant::now() + MISLED_FOR), all);
    }

    #[test]
    fn an_address_with_the_name_of_a_card_has_its_number() {
        let found: Vec<SocketAddr> = resolve("[fe80::1%lo]:9").unwrap().collect();
        let [SocketAddr::V6(found)] = found[..] else { panic!("{found:?}") };
        assert_eq!((found.port(), found.ip().to_string()), (9, "fe80::1".to_owned()));
        assert_ne!(found.scope_id(), 0);
        assert_eq!(resolve("[::1]:9").unwrap().next(), Some(address("[::1]:9")));
    }

    #[test]
    fn families_take_turns_and_those_that_lead_nowhere_from_here_are_left_out() {
        let found = ["[::1]:7", "[::2]:7", "[::1]:7", "[::3]:7", "10.0.0.1:7"].map(address);
        let turns = ["[::1]:7", "10.0.0.1:7", "[::2]:7", "[::3]:7"].map(address);
        assert_eq!(in_turns(found.to_vec()), turns);
        let names = found.map(|address| address.to_string());
        let own = Local::Address("127.0.0.1".parse().unwrap());
        assert_eq!(look_up(&names, Some(&own), None).unwrap(), [address("10.0.0.1:7")]);
        let only_six = &names[..1];
        assert_eq!(look_up(only_six, Some(&own), None).unwrap(), [address("[::1]:7")]);
        let many: Vec<SocketAddr> = (1..=40).map(|port| SocketAddr::from(([10, 0, 0, 1], port))).collect();
        assert_eq!(in_turns(many).len(), ADDRESSES_MAX);
    }

    #[test]
    fn where_one_family_is_asked_for_none_of_the_other_is_dialled() {
        let names = ["[::1]:7", "10.0.0.1:7"].map(str::to_owned);
        let found = |family| look_up(&names, None, Some(family)).unwrap();
        assert_eq!(found(Family::Four), [address("10.0.0.1:7")]);
        assert_eq!(found(Family::Six), [address("[::1]:7")]);
        let failure = look_up(&names[..1], None, Some(Family::Four)).unwrap_err();
        assert!(failure.cause.contains("[::1]:7: no address of IPv4 (-4)"), "{failure}");
        assert_eq!(failure.reason, Reason::NotResolved);
    }
}
