//! Data streams over several addresses and network cards of both sides.
//!
//! A new stream takes the pair of a local and a far address that has the fewest; one that carried a stream which broke,
//! or on which none could be had, is shunned for a while, longer each time, and its streams come up on the others. When
//! it may be tried again and has two fewer than another, streams come back to it, one after the other. A slow pair
//! needs no rule: streams take work from one list, so it gets as much as it carries.

use crate::failure::{Failure, FailureKind, Reason, Result};
use crate::link::{Family, TokenSource};
use crate::mutex::lock;
use crate::run::client::{Answered, CONNECT, Connect, connect_any};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Where a connection begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Local {
    /// An address of this machine.
    Address(IpAddr),
    /// A network card, by its name; needs Linux 5.7 or root.
    Interface(String),
}

/// What fails where streams cannot be spread as was asked, for messages and hints.
pub const SPREAD: &str = "spread streams";
/// Pairs at most: far addresses times local ones.
pub const PAIRS_MAX: usize = 256;
/// A pair that is not the last resort must answer within this time.
const DIAL_LIMIT: Duration = Duration::from_secs(3);
/// First and longest time for which a pair is shunned.
const SHUN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));

/// See the module.
pub struct Spread {
    inner: Arc<dyn Connect>,
    /// `host` or `host:port`; none: where `inner` dials.
    far: Vec<String>,
    /// None: what the system's routes say.
    local: Vec<Local>,
    pairs: Mutex<AddressPairs>,
    /// Of each pair, where its name was found.
    answered: Arc<[Answered]>,
    began: Instant,
}

impl Spread {
    /// Streams of `inner` from all of `local` to all of `far`, in turn; the control connection goes as `inner` says,
    /// and by any pair if that fails.
    ///
    /// # Errors
    /// `Usage` for too many of them, and for what this machine does not have.
    pub fn new(inner: Arc<dyn Connect>, far: Vec<String>, local: Vec<Local>) -> Result<Spread> {
        let count = far.len().max(1) * local.len().max(1);
        if count > PAIRS_MAX {
            let cause = format!("{count} ways are more than {PAIRS_MAX}");
            return Err(Failure::new(FailureKind::Usage, SPREAD, cause));
        }
        local.iter().try_for_each(check_local)?;
        let known = inner.addresses();
        // Without an address to dial they go as the control connection does.
        if !known.is_empty() {
            let dialled = if far.is_empty() { &known } else { &far };
            local.iter().try_for_each(|local| check_family(local, dialled))?;
        }
        Ok(Spread {
            inner,
            far,
            local,
            pairs: Mutex::new(AddressPairs::new(count)),
            answered: (0..count).map(|_| Answered::default()).collect(),
            began: Instant::now(),
        })
    }

    /// The pair with this number: whom to dial, and from where.
    fn pair(&self, number: usize) -> (Vec<String>, Option<&Local>) {
        let known = self.inner.addresses();
        let locals = self.local.len().max(1);
        let far = match self.far.get(number / locals) {
            None => known,
            Some(far) if has_port(far) => vec![far.clone()],
            Some(far) => {
                let port = known.iter().find_map(|address| address.rsplit_once(':')).map(|(_, port)| port);
                // Without a port that can be dialled they go as the control connection does, which is told.
                port.map(|port| with_port(far, port)).into_iter().collect()
            }
        };
        (far, self.local.get(number % locals))
    }

    fn dial(&self, number: usize, deadline: Duration) -> Result<OwnedFd> {
        let (far, local) = self.pair(number);
        if far.is_empty() {
            return self.inner.connect(deadline);
        }
        connect_any(&far, local, self.inner.family(), &self.answered[number], deadline)
    }

    /// Tries pairs in this order.
    fn dial_in_order(&self, order: &[usize], stream: Option<u16>, deadline: Duration) -> Result<OwnedFd> {
        let until = Instant::now() + deadline;
        let mut last =
            Failure::new(FailureKind::Connection, CONNECT, "no way is left").because(Reason::NotAnswered);
        for (at, &pair) in order.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if let Some(stream) = stream {
                self.lock().place(stream, pair);
            }
            let limit = if at + 1 == order.len() { left } else { left.min(DIAL_LIMIT) };
            match self.dial(pair, limit) {
                Ok(fd) => return Ok(fd),
                Err(failure) => {
                    self.lock().shun(pair, self.began.elapsed());
                    last = failure;
                }
            }
        }
        if let Some(stream) = stream {
            self.lock().forget(stream);
        }
        Err(last)
    }

    /// No way leads there. The peer, which may answer where it was named, is not to blame: what was named beside it is.
    fn unreached(&self, last: Failure) -> Failure {
        // With no address to dial from these, or to, they went as the control connection does.
        if (0..self.far.len().max(1)).all(|far| self.pair(far * self.local.len().max(1)).0.is_empty()) {
            return last;
        }
        let what = match (self.far.is_empty(), self.local.is_empty()) {
            (true, _) => "the far side could be reached from nothing that --bind names",
            (false, true) => "no address of --via could be reached",
            (false, false) => "no address of --via could be reached from what --bind names",
        };
        Failure::new(last.kind, SPREAD, format!("{what}: {}", last.cause)).because(Reason::NoWay)
    }

    fn lock(&self) -> MutexGuard<'_, AddressPairs> {
        lock(&self.pairs)
    }
}

impl Connect for Spread {
    fn connect(&self, deadline: Duration) -> Result<OwnedFd> {
        // Half of the time for the address that was given, so that there is some for others.
        self.inner.connect(deadline / 2).or_else(|failure| {
            if self.inner.addresses().is_empty() {
                return Err(failure);
            }
            let order = self.lock().order(self.began.elapsed());
            self.dial_in_order(&order, None, deadline / 2)
        })
    }

    fn connect_stream(&self, stream: u16, deadline: Duration) -> Result<OwnedFd> {
        let moves = self.lock().moving.take().filter(|(moving, _)| *moving == stream);
        if let Some((_, pair)) = moves {
            // It stands where it is until it stands there.
            return self
                .dial(pair, deadline.min(DIAL_LIMIT))
                .inspect(|_| self.lock().dial_anew(stream, pair))
                .inspect_err(|_| {
                    self.lock().shun(pair, self.began.elapsed());
                });
        }
        // Placed in the same breath: streams that are dialled side by side shall not all choose the same.
        let order = {
            let mut pairs = self.lock();
            pairs.forget(stream);
            let order = pairs.order(self.began.elapsed());
            if let Some(&first) = order.first() {
                pairs.place(stream, first);
            }
            order
        };
        self.dial_in_order(&order, Some(stream), deadline).map_err(|failure| self.unreached(failure))
    }

    fn for_session(&self) -> Option<Arc<dyn Connect>> {
        Some(Arc::new(Spread {
            inner: self.inner.clone(),
            far: self.far.clone(),
            local: self.local.clone(),
            pairs: Mutex::new(self.lock().without_streams()),
            answered: self.answered.clone(),
            began: self.began,
        }))
    }

    fn stream_to_move(&self) -> Option<u16> {
        let mut pairs = self.lock();
        pairs.moving = pairs.to_move(self.began.elapsed());
        pairs.moving.map(|(stream, _)| stream)
    }

    fn stream_dialled(&self, stream: u16, stands: bool) {
        self.lock().dialled(stream, stands, self.began.elapsed());
    }

    fn stream_given_up(&self, stream: u16) {
        self.lock().forget(stream);
    }

    fn stream_lost(&self, stream: u16) {
        self.lock().lost(stream, self.began.elapsed());
    }

    fn misled(&self, stream: Option<u16>) {
        match stream.and_then(|stream| self.lock().placed.get(&stream).copied()) {
            // What else is known is of other ways.
            Some(pair) if !self.pair(pair).0.is_empty() => self.answered[pair].misled(),
            Some(_) => self.inner.misled(stream),
            // Of the control connection nobody knows by which it went.
            None => {
                self.answered.iter().for_each(Answered::misled);
                self.inner.misled(stream);
            }
        }
    }

    fn got_across(&self, more: u64) {
        self.inner.got_across(more);
    }

    fn addresses(&self) -> Vec<String> {
        self.inner.addresses()
    }

    fn family(&self) -> Option<Family> {
        self.inner.family()
    }

    fn tokens(&self) -> Option<Arc<dyn TokenSource>> {
        self.inner.tokens()
    }

    fn is_carried(&self) -> bool {
        self.inner.is_carried()
    }

    fn name(&self) -> String {
        self.inner.name()
    }

    fn close(&self) {
        self.inner.close();
    }
}

/// Streams would be dialled from it in vain, for as long as there is patience.
fn check_local(local: &Local) -> Result<()> {
    let missing =
        |what: &str| Failure::new(FailureKind::Usage, SPREAD, format!("this machine has no {what} (--bind)"));
    match local {
        Local::Interface(name) => match thalweg_sys::card::is_there(name) {
            Ok(false) => Err(missing(&format!("network card `{name}`"))),
            // Where it cannot be asked dialling tells.
            Ok(true) | Err(_) => Ok(()),
        },
        Local::Address(address) => match UdpSocket::bind((*address, 0)) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                Err(missing(&format!("address {address}")))
            }
            Ok(_) | Err(_) => Ok(()),
        },
    }
}

/// Nothing leads from an address of IPv4 to one of IPv6, or back. A name may have both.
fn check_family(local: &Local, far: &[String]) -> Result<()> {
    let Local::Address(own) = local else { return Ok(()) };
    let may_lead = |far: &String| address_of(far).is_none_or(|far| far.is_ipv4() == own.is_ipv4());
    if far.iter().any(may_lead) {
        return Ok(());
    }
    let cause =
        format!("from {own} (--bind) nothing leads to {}: one is of IPv4, the other of IPv6", far.join(", "));
    Err(Failure::new(FailureKind::Usage, SPREAD, cause))
}

/// Whether `host` or `host:port` may stand for an address of this family: a name may have both.
pub fn may_be_of(family: Family, text: &str) -> bool {
    address_of(text).is_none_or(|address| family.has(&address))
}

/// The address of `host` or `host:port`; none if it is a name.
fn address_of(text: &str) -> Option<IpAddr> {
    let host = if has_port(text) { text.rsplit_once(':')?.0 } else { text };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // Behind `%` stands the card that leads to it.
    bare.split('%').next()?.parse().ok()
}

/// An IPv6 address may be written with brackets or without.
fn with_port(host: &str, port: &str) -> String {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if bare.contains(':') { format!("[{bare}]:{port}") } else { format!("{bare}:{port}") }
}

fn has_port(address: &str) -> bool {
    match address.rsplit_once(':') {
        Some((host, port)) => port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')),
        None => false,
    }
}

/// Which pair carries which stream, and which are shunned. Time is that since any fixed moment.
#[derive(Debug)]
struct AddressPairs {
    pairs: Vec<AddressPair>,
    placed: BTreeMap<u16, usize>,
    /// A stream that is to be dialled anew, and the pair that it is to take.
    moving: Option<(u16, usize)>,
    /// Where streams stand until they stand on the pair that they are dialled on.
    stood: BTreeMap<u16, usize>,
}

#[derive(Debug, Clone, Default)]
struct AddressPair {
    streams: BTreeSet<u16>,
    shunned_until: Duration,
    /// For how long it is shunned the next time.
    next: Duration,
}

impl AddressPairs {
    fn new(count: usize) -> AddressPairs {
        AddressPairs {
            pairs: vec![AddressPair { next: SHUN.0, ..AddressPair::default() }; count],
            placed: BTreeMap::new(),
            moving: None,
            stood: BTreeMap::new(),
        }
    }

    /// The same pairs, shunned as they are, for the streams of another session.
    fn without_streams(&self) -> AddressPairs {
        let bare = |pair: &AddressPair| AddressPair { streams: BTreeSet::new(), ..*pair };
        AddressPairs { pairs: self.pairs.iter().map(bare).collect(), ..AddressPairs::new(0) }
    }

    /// A stream of the pair that has the most, for the one that has the fewest, if that would not only change places.
    fn to_move(&self, now: Duration) -> Option<(u16, usize)> {
        let streams = |at: &usize| self.pairs[*at].streams.len();
        let open = (0..self.pairs.len()).filter(|at| self.pairs[*at].shunned_until <= now);
        let fewest = open.min_by_key(streams)?;
        let most = (0..self.pairs.len()).max_by_key(streams)?;
        let stream = *self.pairs[most].streams.last()?;
        (streams(&most) >= streams(&fewest) + 2).then_some((stream, fewest))
    }

    /// In which order to try them: those with the fewest streams first; those that are shunned last, the soonest over
    /// first.
    fn order(&self, now: Duration) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pairs.len()).collect();
        order.sort_by_key(|&at| {
            let pair = &self.pairs[at];
            let shunned = pair.shunned_until.saturating_sub(now);
            (shunned, pair.streams.len(), at)
        });
        order
    }

    fn place(&mut self, stream: u16, pair: usize) {
        self.take_away(stream);
        self.placed.insert(stream, pair);
        self.pairs[pair].streams.insert(stream);
    }

    fn take_away(&mut self, stream: u16) -> Option<usize> {
        let pair = self.placed.remove(&stream)?;
        self.pairs[pair].streams.remove(&stream);
        Some(pair)
    }

    /// It stands nowhere.
    fn forget(&mut self, stream: u16) {
        self.take_away(stream);
        self.stood.remove(&stream);
    }

    /// A stream that stands has a connection on another pair, on which it does not stand yet.
    fn dial_anew(&mut self, stream: u16, pair: usize) {
        if let Some(stood) = self.take_away(stream) {
            self.stood.insert(stream, stood);
        }
        self.place(stream, pair);
    }

    /// A pair that lets nothing through but the first packets is one on which no stream can be had.
    fn dialled(&mut self, stream: u16, stands: bool, now: Duration) {
        let stood = self.stood.remove(&stream);
        if stands {
            return;
        }
        if let Some(pair) = self.take_away(stream) {
            self.shun(pair, now);
        }
        if let Some(pair) = stood {
            self.place(stream, pair);
        }
    }

    fn lost(&mut self, stream: u16, now: Duration) {
        // One that is just dialled anew broke where it stood.
        if let Some(pair) = self.stood.remove(&stream).or_else(|| self.take_away(stream)) {
            self.shun(pair, now);
        }
    }

    /// Many streams that break at once count once.
    fn shun(&mut self, pair: usize, now: Duration) {
        let pair = &mut self.pairs[pair];
        if pair.shunned_until > now {
            return;
        }
        // One that held for long after it was shunned begins anew.
        if now.saturating_sub(pair.shunned_until) > SHUN.1 {
            pair.next = SHUN.0;
        }
        pair.shunned_until = now + pair.next;
        pair.next = (pair.next * 2).min(SHUN.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn placed(pairs: &mut AddressPairs, streams: std::ops::Range<u16>, now: Duration) {
        for stream in streams {
            let pair = pairs.order(now)[0];
            pairs.place(stream, pair);
        }
    }

    #[test]
    fn streams_are_spread_evenly_and_those_of_a_dead_way_come_up_on_others() {
        let mut pairs = AddressPairs::new(3);
        placed(&mut pairs, 0..9, SECOND);
        let counts =
            |pairs: &AddressPairs| pairs.pairs.iter().map(|pair| pair.streams.len()).collect::<Vec<_>>();
        assert_eq!(counts(&pairs), [3, 3, 3]);
        let lost: Vec<u16> = pairs.pairs[1].streams.iter().copied().collect();
        for &stream in &lost {
            pairs.lost(stream, SECOND);
        }
        for stream in lost {
            let pair = pairs.order(SECOND)[0];
            pairs.place(stream, pair);
        }
        let mut now = counts(&pairs);
        now.sort();
        assert_eq!((counts(&pairs)[1], now), (0, vec![0, 4, 5]));
        // When it may be tried again, it has the fewest, and streams come back until all have as many.
        assert_eq!(pairs.to_move(SECOND), None);
        let later = SECOND + SHUN.0;
        assert_eq!(pairs.order(later)[0], 1);
        while let Some((stream, pair)) = pairs.to_move(later) {
            assert_eq!(pair, 1);
            pairs.place(stream, pair);
        }
        assert_eq!(counts(&pairs), [3, 3, 3]);
    }

    #[test]
    fn streams_of_another_session_are_spread_as_if_there_had_been_none_and_keep_from_bad_ways() {
        let mut pairs = AddressPairs::new(2);
        placed(&mut pairs, 0..16, SECOND);
        let counts = |pairs: &AddressPairs| [pairs.pairs[0].streams.len(), pairs.pairs[1].streams.len()];
        assert_eq!(counts(&pairs), [8, 8]);
        let mut next = pairs.without_streams();
        placed(&mut next, 0..8, SECOND);
        assert_eq!((counts(&next), next.to_move(SECOND)), ([4, 4], None));
        pairs.shun(0, SECOND);
        assert_eq!(pairs.without_streams().order(SECOND), [1, 0]);
    }

    #[test]
    fn a_way_that_breaks_again_and_again_is_shunned_for_longer_and_at_most_a_minute() {
        let mut pairs = AddressPairs::new(2);
        let mut now = Duration::ZERO;
        let mut times = Vec::new();
        for _ in 0..6 {
            pairs.shun(0, now);
            pairs.shun(0, now);
            times.push((pairs.pairs[0].shunned_until - now).as_secs());
            now = pairs.pairs[0].shunned_until;
        }
        assert_eq!(times, [5, 10, 20, 40, 60, 60]);
        pairs.shun(0, now + SHUN.1 * 2);
        assert_eq!(pairs.pairs[0].next, SHUN.0 * 2);
    }

    /// The first packets get through, and nothing after them.
    #[test]
    fn a_way_on_which_no_stream_comes_to_stand_is_shunned_and_who_was_to_move_there_is_where_it_was() {
        let mut pairs = AddressPairs::new(2);
        placed(&mut pairs, 0..4, SECOND);
        let counts = |pairs: &AddressPairs| [pairs.pairs[0].streams.len(), pairs.pairs[1].streams.len()];
        let of_second: Vec<u16> = pairs.pairs[1].streams.iter().copied().collect();
        for &stream in &of_second {
            pairs.dialled(stream, false, SECOND);
        }
        assert_eq!((counts(&pairs), pairs.order(SECOND)), ([2, 0], vec![0, 1]));
        of_second.iter().for_each(|&stream| pairs.place(stream, 0));
        let mut now = SECOND + SHUN.0;
        let (stream, pair) = pairs.to_move(now).unwrap();
        pairs.dial_anew(stream, pair);
        pairs.dialled(stream, false, now);
        assert_eq!((pair, counts(&pairs), pairs.to_move(now)), (1, [4, 0], None));
        // It stands there at last, and breaks there.
        now += 2 * SHUN.0;
        let (stream, pair) = pairs.to_move(now).unwrap();
        pairs.dial_anew(stream, pair);
        pairs.dialled(stream, true, now);
        assert_eq!(counts(&pairs), [3, 1]);
        pairs.lost(stream, now);
        assert_eq!((counts(&pairs), pairs.order(now)), ([3, 0], vec![0, 1]));
        // One that breaks while it is dialled anew says nothing of where it goes.
        now += 4 * SHUN.0;
        let (stream, pair) = pairs.to_move(now).unwrap();
        pairs.dial_anew(stream, pair);
        pairs.lost(stream, now);
        pairs.dialled(stream, true, now);
        assert_eq!((counts(&pairs), pairs.order(now)), ([2, 1], vec![1, 0]));
    }

    #[test]
    fn an_address_may_have_a_port_or_take_that_of_the_place() {
        assert!(has_port("10.0.0.1:7") && has_port("[2001:db8::1]:7") && has_port("host:7"));
        assert!(!has_port("10.0.0.1") && !has_port("2001:db8::1") && !has_port("host"));
        assert!(!has_port("[2001:db8::1]"));
        assert_eq!(
            (with_port("host", "7"), with_port("10.0.0.1", "7")),
            ("host:7".into(), "10.0.0.1:7".into())
        );
        for address in ["::1", "[::1]"] {
            assert_eq!(with_port(address, "7"), "[::1]:7");
        }
    }

    /// Answers, at a port at which nobody listens for streams; without an address it is reached in another way.
    struct Peer(Vec<String>);

    impl Connect for Peer {
        fn connect(&self, _: Duration) -> Result<OwnedFd> {
            Err(Failure::new(FailureKind::Connection, CONNECT, "in its own way"))
        }

        fn addresses(&self) -> Vec<String> {
            self.0.clone()
        }

        fn name(&self) -> String {
            "peer".into()
        }
    }

    #[test]
    fn where_no_way_leads_to_the_peer_the_options_that_named_them_are_named_and_not_the_peer() {
        let here = || vec![Local::Address("127.0.0.1".parse().unwrap())];
        let failed = |peer: &[&str], far: &[&str], local: Vec<Local>| {
            let texts = |of: &[&str]| of.iter().map(ToString::to_string).collect::<Vec<String>>();
            let spread = Spread::new(Arc::new(Peer(texts(peer))), texts(far), local).unwrap();
            spread.connect_stream(0, SECOND).unwrap_err()
        };
        // Port 1 of this machine: nobody listens there.
        for (far, local, options) in [
            (&["127.0.0.1:1"][..], Vec::new(), &["--via"][..]),
            (&["127.0.0.1:1", "127.0.0.1"], here(), &["--via", "--bind"]),
            (&[], here(), &["--bind"]),
        ] {
            let failure = failed(&["127.0.0.1:1"], far, local);
            assert_eq!((failure.kind, failure.operation.as_str()), (FailureKind::Connection, SPREAD));
            assert!(options.iter().all(|option| failure.cause.contains(option)), "{failure}");
            assert!(failure.cause.contains("127.0.0.1:1"), "{failure}");
        }
        let failure = failed(&[], &["127.0.0.1"], Vec::new());
        assert_eq!(failure.to_string(), "connect failed: in its own way");
    }

    #[test]
    fn a_stream_that_was_misled_says_nothing_of_the_other_ways() {
        let listeners = [0, 1].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let far = listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        let spread = Spread::new(Arc::new(Peer(vec!["127.0.0.1:1".into()])), far, Vec::new()).unwrap();
        let connections = [0, 1].map(|stream| spread.connect_stream(stream, SECOND).unwrap());
        let is_doubted = |pair: usize| format!("{:?}", spread.answered[pair]).contains("is_doubted: true");
        let doubted = || [0, 1].map(is_doubted);
        let misled = spread.lock().placed[&1];
        spread.misled(Some(1));
        assert_eq!(doubted(), [misled == 0, misled == 1]);
        spread.misled(None);
        assert_eq!(doubted(), [true, true]);
        drop(connections);
    }

    #[test]
    fn an_address_from_which_nothing_leads_to_any_of_those_to_dial_is_refused() {
        let check = |own: &str, far: &[&str]| {
            let far: Vec<String> = far.iter().map(ToString::to_string).collect();
            check_family(&Local::Address(own.parse().unwrap()), &far)
        };
        for (own, far) in [
            ("fd09::2", &["10.9.0.1:8487"][..]),
            ("10.9.0.2", &["[fd09::1]:8487", "fd09::1", "[fe80::1%eth0]"][..]),
        ] {
            let failure = check(own, far).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage, "{failure}");
            assert!(failure.cause.contains(own) && failure.cause.contains(far[0]), "{failure}");
        }
        for far in ["[fd09::1]:8487", "fd09::1", "host", "host:8487"] {
            check("fd09::2", &["10.9.0.1:8487", far]).unwrap();
        }
        check_family(&Local::Interface("lo".into()), &["10.9.0.1:8487".to_owned()]).unwrap();
    }

    #[test]
    fn an_address_is_of_one_family_and_a_name_may_be_of_both() {
        for (text, is_four, is_six) in [
            ("10.9.0.1", true, false),
            ("10.9.0.1:8487", true, false),
            ("fd09::8487", false, true),
            ("[fd09::1]:8487", false, true),
            ("[fe80::1%eth0]", false, true),
            ("dtn.example.org:8487", true, true),
        ] {
            let may_be = [Family::Four, Family::Six].map(|family| may_be_of(family, text));
            assert_eq!(may_be, [is_four, is_six], "{text}");
        }
    }

    #[test]
    fn what_this_machine_does_not_have_is_refused_by_its_name() {
        let refused = |local| check_local(&local).unwrap_err().to_string();
        let far = "192.0.2.77".parse().unwrap();
        assert!(refused(Local::Address(far)).contains("192.0.2.77"));
        assert!(refused(Local::Interface("nosuchcard0".into())).contains("`nosuchcard0`"));
        check_local(&Local::Address("127.0.0.1".parse().unwrap())).unwrap();
        check_local(&Local::Interface("lo".into())).unwrap();
    }
}
