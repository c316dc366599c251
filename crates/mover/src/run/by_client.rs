//! Reaches a far mover that somebody else starts: a copy that a deputy runs asks, through the deputy, who started that.
//!
//! 1. [`ClientLine`] is the way to ask: one end of a pair of sockets, of which the deputy has the other. It carries
//!    lines of [`errand`](crate::link::ssh::errand).
//! 2. [`reach`] has the far mover started, and [reached](super::reaching) as by ssh: directly, by having it dial, and
//!    where neither goes through ssh processes of who started the deputy.
//! 3. [`ClientLine::tells`] says how far the copy is, [`ClientLine::tell_evidence`] where its time goes; its rate is
//!    what who asked for it wants ([`ClientLine::obeys`]).
//!
//! Who is at the other end of a connection is proved by TLS in each case: the fingerprint that is trusted came by ssh,
//! from the machine that the user named, over the machine that the user sits at.

use crate::basin::Evidence;
use crate::event::Events;
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::ssh::errand::{
    ASKS_MAX, Ask, ERRAND_LINE_BYTES_MAX, FromDeputy, Limit, Lines, Nothing, Outcome, Said, ToDeputy, What,
};
use crate::link::ssh::{self, DialBack, LOGIN_TIMEOUT, Ready};
use crate::link::{Family, Identity, Pins, ServerTrust, client_config};
use crate::mutex::lock;
use crate::run::copy::Meter;
use crate::run::dialling::{BRIDGE_LIMIT, DIAL_LIMIT, SAY_LIMIT, carried, not_reached};
use crate::run::far_mover::FarMover;
use crate::run::reaching::{self, Allowed, Asks, Started, Starter};
use crate::run::steer::Rate;
use crate::run::thread;
use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::net::{IpAddr, Shutdown};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_wire::message::ErrandCounts;

/// Time for a far mover to be started, where our program may have to be placed there first: two logins, and an upload
/// over a slow way.
const SUMMON_LIMIT: Duration = LOGIN_TIMEOUT.saturating_mul(4);
/// Time for a connection that rides in two ssh logins, one at either end.
const CARRY_LIMIT: Duration = BRIDGE_LIMIT.saturating_mul(2).saturating_add(DIAL_LIMIT);
/// At the end of a copy, time for its last word to be taken.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);
/// Between two looks whether an answer is still wanted.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Between two words on how far a copy is.
const TELL_EVERY: Duration = Duration::from_millis(250);

/// The way to who started a deputy, for the copy that it runs. See the module.
pub struct ClientLine {
    socket: UnixStream,
    unsaid: Arc<Unsaid>,
    waiting: Arc<Mutex<Waiting>>,
    limited: Arc<Mutex<Limited>>,
    next: AtomicU64,
}

/// What is to be said, until a thread has written it: whoever says something does not wait for the deputy to take it.
#[derive(Default)]
struct Unsaid {
    words: Mutex<Words>,
    changed: Condvar,
}

#[derive(Default)]
struct Words {
    /// At most [`ASKS_MAX`].
    asks: VecDeque<Ask>,
    /// How far the copy is by now: what was told before and is not written is of no use any more.
    progress: Option<ErrandCounts>,
    /// So of where its time goes.
    evidence: Option<FromDeputy>,
    /// Something is being written.
    is_writing: bool,
    /// Nothing more is said.
    is_over: bool,
}

impl Words {
    fn take(&mut self) -> Option<FromDeputy> {
        let ask = self.asks.pop_front().map(FromDeputy::Ask);
        let ask = ask.or_else(|| self.progress.take().map(FromDeputy::Progress));
        ask.or_else(|| self.evidence.take())
    }

    fn is_idle(&self) -> bool {
        let is_said = self.asks.is_empty() && self.progress.is_none() && self.evidence.is_none();
        self.is_over || (is_said && !self.is_writing)
    }
}

impl Unsaid {
    /// Writes one after the other, until nothing more is said or nobody takes it.
    fn write(&self, mut to: &UnixStream) {
        let mut words = lock(&self.words);
        while !words.is_over {
            let Some(next) = words.take() else {
                words = self.changed.wait(words).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            words.is_writing = true;
            drop(words);
            let written = to.write_all(next.to_line().as_bytes());
            words = lock(&self.words);
            words.is_writing = false;
            // What is lost is lost: who reads it is gone.
            words.is_over |= written.is_err();
            self.changed.notify_all();
        }
    }

    fn say(&self, change: impl FnOnce(&mut Words)) {
        change(&mut lock(&self.words));
        self.changed.notify_all();
    }

    /// Waits for so long, at most, until all is written.
    fn flush(&self, limit: Duration) {
        let until = Instant::now() + limit;
        let mut words = lock(&self.words);
        while !words.is_idle() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            words = self.changed.wait_timeout(words, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[derive(Default)]
struct Waiting {
    /// Who waits, by the numbers of asks.
    answers: HashMap<u64, SyncSender<Outcome>>,
    /// Nothing more comes.
    is_over: bool,
}

/// The rate that who asked for the copy wants, and what keeps it. Either may come first.
#[derive(Default)]
struct Limited {
    wanted: Option<Limit>,
    rate: Option<Arc<Rate>>,
}

impl Limited {
    fn keep(&self) {
        if let (Some(wanted), Some(rate)) = (self.wanted, &self.rate) {
            rate.set(wanted.bytes_per_s);
        }
    }
}

impl ClientLine {
    /// On this socket.
    ///
    /// # Errors
    /// If it cannot be had three times, or there are no threads for it.
    pub fn new(socket: OwnedFd) -> Result<Arc<ClientLine>> {
        let socket = UnixStream::from(socket);
        let again = || socket.try_clone().map_err(|error| failure::of_io("speak with the deputy", &error));
        let (hears, says) = (again()?, again()?);
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let (at_end, on_panic) = (waiting.clone(), waiting.clone());
        let limited: Arc<Mutex<Limited>> = Arc::default();
        let limits = limited.clone();
        let hear = move || {
            let mut lines = Lines::new(hears);
            while let Ok(Some(line)) = lines.next_line() {
                match ToDeputy::of_line(&line) {
                    Ok(Some(ToDeputy::Answer(answer))) => {
                        let waits = lock(&at_end).answers.remove(&answer.id);
                        // Nobody waits any more, or one does: there is room for one.
                        let _ = waits.map(|waits| waits.try_send(answer.outcome));
                    }
                    Ok(Some(ToDeputy::Limit(wanted))) => {
                        let mut limited = lock(&limits);
                        limited.wanted = Some(wanted);
                        limited.keep();
                    }
                    Ok(_) => {}
                    Err(failure) => tracing::warn!(%failure, "not understood"),
                }
            }
            end(&at_end);
        };
        thread::guarded("deputy", move |_| end(&on_panic), hear)?;
        let (unsaid, next): (Arc<Unsaid>, _) = (Arc::default(), AtomicU64::new(0));
        let line = ClientLine { socket, unsaid: unsaid.clone(), waiting: waiting.clone(), limited, next };
        let on_panic = waiting.clone();
        let say = move || {
            unsaid.write(&says);
            end(&waiting);
        };
        thread::guarded("to-deputy", move |_| end(&on_panic), say)?;
        Ok(Arc::new(line))
    }

    /// Asks, and waits for the answer for so long, and until the copy `is_over`.
    fn ask(&self, what: What, limit: Duration, is_over: &AtomicBool) -> Result<Outcome> {
        let (until, id) = (Instant::now() + limit, self.next.fetch_add(1, Ordering::Relaxed));
        let (told, hears) = mpsc::sync_channel(1);
        {
            let mut waiting = lock(&self.waiting);
            if waiting.is_over {
                return Err(gone());
            }
            waiting.answers.insert(id, told);
        }
        let mut is_full = false;
        self.unsaid.say(|words| {
            is_full = words.asks.len() >= ASKS_MAX;
            if !is_full {
                words.asks.push_back(Ask { id, what });
            }
        });
        let outcome = loop {
            if is_full {
                break Err(not_reached("as much is asked already as may be at the same time"));
            }
            if is_over.load(Ordering::Acquire) {
                break Err(not_reached("the copy is over"));
            }
            let left = until.saturating_duration_since(Instant::now());
            match hears.recv_timeout(left.min(LOOK_AGAIN)) {
                Ok(Outcome::Failed(failed)) => break Err(failed.failure()),
                Ok(outcome) => break Ok(outcome),
                Err(RecvTimeoutError::Disconnected) => break Err(gone()),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    break Err(not_reached("the machine where the copy was asked for does not answer"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        lock(&self.waiting).answers.remove(&id);
        // What nobody waits for is not asked any more.
        self.unsaid.say(|words| words.asks.retain(|ask| ask.id != id));
        outcome
    }

    /// Tells how far the copy is that this counts, until what is returned is dropped.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn tells(self: &Arc<Self>, meter: Arc<Meter>) -> Result<Telling> {
        let (over, is_over) = mpsc::channel::<()>();
        let line = self.clone();
        let tell = move || {
            let mut last = None;
            loop {
                let ended = !matches!(is_over.recv_timeout(TELL_EVERY), Err(RecvTimeoutError::Timeout));
                let now = meter.counts();
                if last != Some(now) {
                    line.unsaid.say(|words| words.progress = Some(now));
                    last = Some(now);
                }
                if ended {
                    line.unsaid.flush(LAST_WORD_LIMIT);
                    return;
                }
            }
        };
        let thread = thread::guarded("progress", drop, tell)?;
        Ok(Telling { over: Some(over), thread: Some(thread) })
    }
}

impl ClientLine {
    /// Tells where the time of the copy goes. Does not wait; more than one line has is not told.
    pub fn tell_evidence(&self, now: &Evidence) {
        let said = FromDeputy::Evidence(serde_json::to_value(now).unwrap_or_default());
        if said.to_line().len() <= ERRAND_LINE_BYTES_MAX {
            self.unsaid.say(|words| words.evidence = Some(said));
        }
    }

    /// From now on the rate is what who asked for the copy wants, once he says so.
    pub fn obeys(&self, rate: &Arc<Rate>) {
        let mut limited = lock(&self.limited);
        limited.rate = Some(rate.clone());
        limited.keep();
    }
}

impl Drop for ClientLine {
    /// Its threads end.
    fn drop(&mut self) {
        self.unsaid.say(|words| words.is_over = true);
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Tells how far a copy is, see [`ClientLine::tells`].
pub struct Telling {
    over: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Telling {
    fn drop(&mut self) {
        drop(self.over.take());
        // Its panic was told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn end(waiting: &Mutex<Waiting>) {
    let mut waiting = lock(waiting);
    waiting.is_over = true;
    waiting.answers.clear();
}

fn gone() -> Failure {
    not_reached("the machine where the copy was asked for is gone")
}

/// In which manners a far mover may be dialled, and where this machine is.
#[derive(Debug, Clone, Default)]
pub struct Here {
    /// Only addresses of this family are dialled.
    pub family: Option<Family>,
    /// Ports here that the far mover may dial.
    pub near_ports: Option<(u16, u16)>,
    /// Data ride in ssh, through the machine where the copy was asked for.
    pub via_ssh: bool,
    /// Addresses at which others may dial this machine, the likeliest first.
    pub addresses: Vec<IpAddr>,
}

/// Has a far mover started at `name`, the other end of an errand, and finds a way to it, as `identity`.
///
/// # Errors
/// What became of it where it was to be started; `Connection` if nobody can be asked.
pub fn reach(
    line: Arc<ClientLine>,
    name: &str,
    here: &Here,
    identity: &Identity,
    events: Events,
) -> Result<FarMover> {
    let pins = Pins::new();
    let tls = client_config(identity, &ServerTrust::PinnedAnyOf(pins.clone()))?;
    let allowed = Allowed { family: here.family, near_ports: here.near_ports, via_ssh: here.via_ssh };
    let is_asked_for = |address: &&IpAddr| here.family.is_none_or(|family| family.has(address));
    let starter = ClientStarter {
        line,
        name: name.to_owned(),
        client: identity.fingerprint().to_string(),
        addresses: here.addresses.iter().filter(is_asked_for).copied().take(ssh::ADDRESSES_MAX).collect(),
    };
    reaching::reach(starter, allowed, (pins, tls), events)
}

/// Has far movers started.
struct ClientStarter {
    line: Arc<ClientLine>,
    name: String,
    client: String,
    addresses: Vec<IpAddr>,
}

/// One of those.
struct Summoned {
    ready: Ready,
    host: String,
    line: Arc<ClientLine>,
    addresses: Vec<IpAddr>,
    is_over: Arc<AtomicBool>,
}

impl Starter for ClientStarter {
    type Started = Summoned;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn start(&self, first: bool) -> Result<Summoned> {
        let summon = What::Summon { client: self.client.clone(), first };
        // Nobody ends the wait, as nobody ends a login.
        match self.line.ask(summon, SUMMON_LIMIT, &AtomicBool::new(false))? {
            Outcome::Ready { mover, host } => Ok(Summoned {
                ready: mover,
                host,
                line: self.line.clone(),
                addresses: self.addresses.clone(),
                is_over: Arc::default(),
            }),
            Outcome::Done(_) | Outcome::Failed(_) => Err(odd()),
        }
    }

    fn host(&self, far: &Summoned) -> String {
        far.host.clone()
    }

    /// The port is known where it is carried.
    fn bridge(&self, _port: u16, is_over: &AtomicBool) -> Result<OwnedFd> {
        carried(SAY_LIMIT, |request| {
            let what = What::Bridge { port: request.port, token: request.token.clone() };
            self.line.ask(what, CARRY_LIMIT, is_over).map(drop)
        })
    }

    fn why_bridged(&self) -> String {
        format!(
            "no port of {} can be reached from the other end, nor one of that from there: all data pass through the \
             machine where the copy was asked for",
            self.name
        )
    }

    fn close(&self) {}
}

impl Started for Summoned {
    fn ready(&self) -> &Ready {
        &self.ready
    }

    fn dials_back(&self) -> bool {
        !self.addresses.is_empty()
    }

    fn asker(&self) -> Asks {
        let (line, addresses, is_over) = (self.line.clone(), self.addresses.clone(), self.is_over.clone());
        Box::new(move |request: &DialBack| {
            let request = DialBack { addresses, ..request.clone() };
            line.ask(What::DialBack(request), SAY_LIMIT, &is_over).map(drop)
        })
    }

    fn may_be_gone(&mut self, is_late: bool) -> bool {
        is_late || self.line.ask(What::Look(Nothing {}), SAY_LIMIT, &self.is_over).is_ok()
    }

    /// It is closed where it was started, when another takes its place or the deputy ends.
    fn close(&mut self) {
        self.is_over.store(true, Ordering::Release);
    }
}

fn odd() -> Failure {
    let cause = "the machine where the copy was asked for answers something else";
    Failure::new(FailureKind::Protocol, ssh::START, cause).because(Reason::FarProgramDiffers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event;
    use crate::link::ssh::errand::{Answer, Failed};
    use crate::link::testing::{LONG, our_client_config};
    use crate::run::client::Connect;
    use crate::run::dialling::Reached;
    use crate::run::reaching::Reaching;
    use std::net::{Ipv4Addr, TcpStream};

    /// A line, and the deputy's end of it: what it reads, and where it writes.
    fn line() -> (Arc<ClientLine>, Lines<UnixStream>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let line = ClientLine::new(ours.into()).unwrap();
        (line, Lines::new(theirs.try_clone().unwrap()), theirs)
    }

    fn heard(lines: &mut Lines<UnixStream>) -> FromDeputy {
        FromDeputy::of_line(&lines.next_line().unwrap().unwrap()).unwrap().unwrap()
    }

    #[test]
    fn each_who_asks_gets_the_answer_to_it_in_whatever_order_they_come() {
        let (line, mut lines, mut theirs) = line();
        let asks = |token: &'static str| {
            let line = line.clone();
            std::thread::spawn(move || {
                let what = What::Bridge { port: 1, token: token.to_owned() };
                line.ask(what, LONG, &AtomicBool::new(false))
            })
        };
        let (good, bad) = (asks("good"), asks("bad"));
        let mut asked: Vec<Ask> = (0..2)
            .map(|_| match heard(&mut lines) {
                FromDeputy::Ask(ask) => ask,
                other => panic!("{other:?}"),
            })
            .collect();
        asked.reverse();
        for ask in asked {
            let What::Bridge { token, .. } = ask.what else { panic!("another ask") };
            let outcome = match token.as_str() {
                "good" => Outcome::Done(Nothing {}),
                _ => Outcome::Failed(Failed::of(&Failure::new(FailureKind::NotFound, "bridge", "gone"))),
            };
            // One that nobody asked for, and what no deputy hears, are passed over.
            let strange = ToDeputy::Answer(Answer { id: 7, outcome: Outcome::Done(Nothing {}) });
            let answer = ToDeputy::Answer(Answer { id: ask.id, outcome });
            let said = format!("nonsense\n{{\"later\":1}}\n{}{}", strange.to_line(), answer.to_line());
            theirs.write_all(said.as_bytes()).unwrap();
        }
        assert!(matches!(good.join().unwrap(), Ok(Outcome::Done(_))));
        assert_eq!(bad.join().unwrap().unwrap_err().kind, FailureKind::NotFound);
    }

    #[test]
    fn who_waits_for_a_deputy_that_is_gone_hears_it_and_nobody_asks_it_any_more() {
        let (line, mut lines, theirs) = line();
        let asks = {
            let line = line.clone();
            std::thread::spawn(move || line.ask(What::Look(Nothing {}), LONG, &AtomicBool::new(false)))
        };
        heard(&mut lines);
        drop((lines, theirs));
        assert_eq!(asks.join().unwrap().unwrap_err().kind, FailureKind::Connection);
        assert!(line.ask(What::Look(Nothing {}), LONG, &AtomicBool::new(false)).is_err());
    }

    #[test]
    fn an_ask_ends_with_its_copy_and_when_its_time_is_over() {
        let (line, _lines, _theirs) = line();
        for (limit, is_over) in [(Duration::from_millis(20), false), (LONG, true)] {
            let failure = line.ask(What::Look(Nothing {}), limit, &AtomicBool::new(is_over)).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Connection, "{failure}");
        }
        assert!(lock(&line.waiting).answers.is_empty(), "who does not wait any more is forgotten");
    }

    #[test]
    fn nobody_waits_for_a_deputy_that_takes_nothing_longer_than_for_its_answer() {
        let (line, mut lines, theirs) = line();
        let telling = line.tells(Arc::default()).unwrap();
        // Far more than a pair of sockets holds.
        let token = "x".repeat(8 << 10);
        for _ in 0..2 * ASKS_MAX {
            let what = What::Bridge { port: 1, token: token.clone() };
            line.ask(what, Duration::ZERO, &AtomicBool::new(false)).unwrap_err();
        }
        assert!(lock(&line.unsaid.words).asks.is_empty(), "what nobody waits for is not asked later");
        drop(telling);
        // It is as it was once something is taken.
        let asks = {
            let line = line.clone();
            std::thread::spawn(move || line.ask(What::Look(Nothing {}), LONG, &AtomicBool::new(false)))
        };
        while !matches!(heard(&mut lines), FromDeputy::Ask(Ask { what: What::Look(_), .. })) {}
        drop((lines, theirs));
        assert!(asks.join().unwrap().is_err());
    }

    /// Streams that are dialled at the same time have their asks go together.
    #[test]
    fn nobody_waits_until_another_has_been_dialled_back() {
        let (line, mut lines, mut theirs) = line();
        let starter = ClientStarter {
            line: line.clone(),
            name: "far".to_owned(),
            client: String::new(),
            addresses: Vec::new(),
        };
        let ready = Ready {
            port: 1,
            addresses: Vec::new(),
            bridge_port: 1,
            dials_back: true,
            fingerprint: "ab".repeat(32),
            versions: (1, 1),
            version: "0.1.0".to_owned(),
            confines: true,
        };
        let tls = (Pins::new(), our_client_config());
        let reaching = Arc::new(Reaching::new(starter, Allowed::default(), tls, event::nobody()));
        let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let far = Summoned { ready, host: "far".to_owned(), line, addresses, is_over: Arc::default() };
        reaching.lock().far = Some(far);
        reaching.lock().reached = Some(Reached::Back);
        let dials = [reaching.clone(), reaching].map(|dials| std::thread::spawn(move || dials.connect(LONG)));
        let asked: Vec<Ask> = (0..2)
            .map(|_| match heard(&mut lines) {
                FromDeputy::Ask(ask) => ask,
                other => panic!("{other:?}"),
            })
            .collect();
        // Neither is answered before both were heard.
        let mut streams = Vec::new();
        for Ask { id, what } in asked {
            let What::DialBack(request) = what else { panic!("another ask") };
            let mut stream = TcpStream::connect((request.addresses[0], request.port)).unwrap();
            stream.write_all(request.token.as_bytes()).unwrap();
            streams.push(stream);
            let answer = ToDeputy::Answer(Answer { id, outcome: Outcome::Done(Nothing {}) });
            theirs.write_all(answer.to_line().as_bytes()).unwrap();
        }
        for dial in dials {
            dial.join().unwrap().unwrap();
        }
    }

    #[test]
    fn how_far_a_copy_is_is_told_also_at_its_end_and_counts_elsewhere_as_it_did_here() {
        let (line, mut lines, _theirs) = line();
        let (meter, there) = (Arc::new(Meter::default()), Meter::default());
        let telling = line.tells(meter.clone()).unwrap();
        meter.bytes_verified.store(7, Ordering::Relaxed);
        meter.scan_over.store(true, Ordering::Relaxed);
        drop(telling);
        while there.bytes_verified.load(Ordering::Relaxed) != 7 {
            let FromDeputy::Progress(progress) = heard(&mut lines) else { panic!("no progress") };
            there.count_as(&progress);
        }
        assert_eq!(there.counts(), meter.counts());
    }

    #[test]
    fn where_the_time_goes_is_told_as_it_is_by_now_and_also_at_the_end() {
        let (line, mut lines, theirs) = line();
        let telling = line.tells(Arc::default()).unwrap();
        for bytes in 1..=2_000 {
            line.tell_evidence(&Evidence { bytes, ..Evidence::default() });
        }
        // Far more than a pair of sockets holds: what nobody has taken by then is of no use.
        drop(telling);
        let mut told = Vec::new();
        while told.last() != Some(&2_000) {
            if let FromDeputy::Evidence(evidence) = heard(&mut lines) {
                told.push(evidence["bytes"].as_u64().unwrap());
            }
        }
        assert!(told.len() < 2_000 && told.is_sorted(), "{} were told", told.len());
        drop(theirs);
    }

    #[test]
    fn a_copy_goes_as_fast_as_who_asked_for_it_says_whenever_he_says_it() {
        let (line, _lines, mut theirs) = line();
        let says = |theirs: &mut UnixStream, bytes_per_s| {
            let limit = ToDeputy::Limit(Limit { bytes_per_s });
            theirs.write_all(limit.to_line().as_bytes()).unwrap();
        };
        let becomes = |wanted: &dyn Fn() -> bool| {
            let until = Instant::now() + LONG;
            while !wanted() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(wanted());
        };
        // Before there is a copy.
        says(&mut theirs, Some(7));
        becomes(&|| lock(&line.limited).wanted.is_some());
        let rate = Arc::new(Rate::new(Some(5)));
        line.obeys(&rate);
        assert_eq!(rate.bytes_per_s(), Some(7));
        says(&mut theirs, None);
        becomes(&|| rate.bytes_per_s().is_none());
    }
}
