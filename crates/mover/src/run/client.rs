//! The client of a session: dials, opens transfers, and keeps link and streams standing until they are over.

use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::link::{ControlLimits, STALL_TIMEOUT, TlsForm, mark, own_system};
use crate::mutex::lock;
use crate::plan::{Foreseen, Plan};
use crate::run::session::{Owner, Session};
use crate::run::thread;
use crate::run::transfer::Transfer;
use answers::STEP;
use dial::{Dialler, is_dialled, left};
use early::Early;
use keeper::{Keeper, UnderWay};
use rustls::ClientConfig;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::hello::{Cipher, Hello, Purpose, System};
use thalweg_wire::limits;
use thalweg_wire::message::{
    ChannelTerms, Direction, Message, Open, Opened, Question, Reply, SourceForm, Steer, TakenBefore, Terms,
    TransferNumber,
};
use thalweg_wire::receipt::Signatory;

mod dial;

mod early;

mod race;

mod keeper;

mod pulse;

mod answers;

pub use answers::{ANSWER_TIMEOUT, Answers};
pub use dial::{CONNECT, Connect, DIAL_TIMEOUT, TcpConnect};
pub(super) use race::{Answered, connect_any};

/// A stream for which there was no memory is not dialled again before.
const REFUSED_PAUSE: Duration = Duration::from_secs(3);
/// If no stream at all is to be had for so long, nothing will come of it.
const REFUSED_PATIENCE: Duration = Duration::from_secs(10);
/// Time that the last words may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// Without progress for so long a transfer fails, where nobody says otherwise; as long a server keeps a session without
/// a link.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// What the user wants of the link.
#[derive(Debug, Clone)]
pub struct LinkSettings {
    /// Protection of data streams.
    pub cipher: Cipher,
    /// How they are in TLS form.
    pub tls_form: TlsForm,
    /// Without acknowledged progress for so long, the link is dropped and dialled again.
    pub stall_timeout: Duration,
    /// Without progress for so long, the transfer fails.
    pub patience: Duration,
    /// What of that is spent before the link is dialled: the first progress gives it back.
    pub spent: Duration,
    /// Congestion control that each transfer's terms name, if it shall not be chosen.
    pub congestion: Option<String>,
    /// Mark of all packets (DSCP, 0..=63).
    pub dscp: Option<u8>,
    /// By what streams will be wanted, if that is foreseen: over a distance their sockets are connected while the
    /// server answers.
    pub foreseen: Option<Box<Foreseen>>,
}

impl Default for LinkSettings {
    fn default() -> Self {
        LinkSettings {
            cipher: if thalweg_sys::machine::has_aes() {
                Cipher::Aes128Gcm
            } else {
                Cipher::ChaCha20Poly1305
            },
            tls_form: TlsForm::default(),
            stall_timeout: STALL_TIMEOUT,
            patience: PATIENCE,
            spent: Duration::ZERO,
            congestion: None,
            dscp: None,
            foreseen: None,
        }
    }
}

impl LinkSettings {
    /// What these and a plan come to; the rest is as [`Terms::of`] has it.
    pub(super) fn terms(&self, plan: &Plan) -> Terms {
        Terms {
            window_bytes: plan.window_bytes.value,
            congestion: self.congestion.clone(),
            share_bytes: plan.share_bytes.map(|bytes| bytes.min(limits::WINDOW_BYTES_MAX)),
            dscp: self.dscp,
            ..Terms::of(plan.chunk_bytes.value, plan.segment_bytes.value)
        }
    }
}

/// A session that we began.
pub struct Client {
    /// The session.
    pub session: Arc<Session>,
    /// Round-trip time as the first connection showed it.
    pub rtt: Duration,
    /// What the server's machine lets a stream have.
    pub system: System,
    /// The peer, for messages.
    name: String,
    connect: Arc<dyn Connect>,
    /// A transfer failed: the server puts away what it had of it.
    has_failed: AtomicBool,
    /// For the answer to a request.
    answer_timeout: Duration,
    mail: Arc<Mail>,
}

/// What arrives outside of transfers, and wakes the keeper.
#[derive(Default)]
struct Mail {
    boxes: Mutex<Boxes>,
    knock: Condvar,
}

#[derive(Default)]
struct Boxes {
    /// Transfers that the server was asked to open, by their numbers, until their answers are heard.
    openings: HashMap<TransferNumber, Opening>,
    /// The link on which each was asked for, until it is concluded.
    opened_in: HashMap<TransferNumber, u64>,
    /// The link on which each question was asked: on another one pieces of its answer may be missing. Each has room for
    /// what a server may be ahead, and the end.
    replies: HashMap<u32, (u64, SyncSender<Reply>)>,
    next_question: u32,
    streams_wanted: u16,
    refusals: Refusals,
    dials: Dials,
    /// What their sockets are told, besides what is of the link.
    hints: StreamHints,
    knocked: bool,
}

/// What is known of a request to open a transfer.
enum Opening {
    Awaited,
    Answered(Opened),
    /// Nobody waits any more; the answer may still come.
    GivenUp,
}

impl Boxes {
    /// False for an answer that nobody asked for.
    fn take_opened(&mut self, number: TransferNumber, opened: Opened) -> bool {
        match self.openings.remove(&number) {
            Some(Opening::Awaited) => {
                self.openings.insert(number, Opening::Answered(opened));
                true
            }
            Some(Opening::GivenUp) => true,
            Some(Opening::Answered(_)) | None => false,
        }
    }
}

/// Streams for which there was no memory.
#[derive(Default)]
struct Refusals {
    /// Each when it was last refused.
    streams: BTreeMap<u16, Instant>,
    /// The first since anything got across, and the last word about it.
    since: Option<(Instant, Failure)>,
    is_told: bool,
}

impl Refusals {
    /// True the first time.
    fn note(&mut self, now: Instant, stream: u16, why: Failure) -> bool {
        self.streams.insert(stream, now);
        let since = self.since.take().map_or(now, |(since, _)| since);
        self.since = Some((since, why));
        !std::mem::replace(&mut self.is_told, true)
    }

    /// These stand. One that was refused a moment ago may be about to be lost; the others were had after all.
    fn stand(&mut self, now: Instant, there: &[u16]) {
        for stream in there {
            if !self.rests(now, *stream) {
                self.streams.remove(stream);
            }
        }
    }

    /// It is too early to ask for this one again.
    fn rests(&self, now: Instant, stream: u16) -> bool {
        self.streams.get(&stream).is_some_and(|at| now.saturating_duration_since(*at) < REFUSED_PAUSE)
    }

    /// Why, if none of so many streams was had for too long.
    fn is_hopeless(&self, now: Instant, wanted: u16) -> Option<Failure> {
        let (since, why) = self.since.as_ref()?;
        let is_none_left = wanted > 0 && (0..wanted).all(|stream| self.streams.contains_key(&stream));
        let is_late = now.saturating_duration_since(*since) > REFUSED_PATIENCE;
        (is_none_left && is_late).then(|| why.clone())
    }
}

/// How dialling streams went, until the first stands.
#[derive(Default)]
struct Dials {
    /// One stood: from then on it is the path that is judged.
    succeeded: bool,
    /// Why the last one failed.
    failure: Option<Failure>,
}

impl Dials {
    /// True for the first failure while there was a link, if no stream stood before.
    fn note(&mut self, failure: Option<Failure>, has_link: bool) -> bool {
        self.succeeded |= failure.is_none();
        if !has_link {
            return false;
        }
        let is_first = self.failure.is_none() && failure.is_some() && !self.succeeded;
        self.failure = failure.or(self.failure.take());
        is_first
    }

    /// Streams were dialled, and none ever stood.
    fn is_undialled(&self) -> bool {
        self.failure.is_some() && !self.succeeded
    }

    /// Why nothing moves, if no stream ever stood.
    fn failed(&self, after: Duration) -> Option<Failure> {
        let failure = self.failure.as_ref().filter(|_| self.is_undialled())?;
        let cause = format!("no stream could be dialled in {} s: {}", after.as_secs(), failure.cause);
        let whole = Failure::new(FailureKind::Connection, &failure.operation, cause);
        Some(whole.because(failure.reason))
    }
}

/// What a plan says to each stream's socket.
#[derive(Debug, Clone, Copy, Default)]
struct StreamHints {
    /// Bytes under way, at most.
    window_bytes: Option<u64>,
    /// Bytes that there shall be room for.
    share_bytes: Option<u64>,
}

struct ClientOwner {
    mail: Arc<Mail>,
    connect: Arc<dyn Connect>,
    events: Events,
}

impl ClientOwner {
    /// A side has no memory for a stream: told once, and counted.
    fn no_memory(&self, stream: u16, why: &Failure) {
        let is_first = {
            let mut boxes = lock(&self.mail.boxes);
            boxes.refusals.note(Instant::now(), stream, why.clone())
        };
        if is_first {
            (self.events)(Event::Note(format!("{why}; it goes on with the streams that there are")));
        }
    }
}

impl Owner for ClientOwner {
    fn on_message(&self, session: &Arc<Session>, message: Message) {
        let mut boxes = lock(&self.mail.boxes);
        match message {
            Message::Opened(number, opened) => {
                if !boxes.take_opened(number, opened) {
                    drop(boxes);
                    let cause = "the server opened a transfer that was not asked for";
                    session.close(Some(Failure::new(FailureKind::Protocol, "open", cause)));
                    return;
                }
            }
            Message::Reply { number, reply } => {
                let is_end = matches!(reply, Reply::End(_));
                let epoch = session.epoch();
                // Of an answer that nobody waits for any more the rest is dropped, and of one that was cut off.
                let asked = boxes.replies.get(&number).filter(|(asked_in, _)| *asked_in == epoch);
                let sent = asked.map(|(_, queue)| queue.try_send(reply));
                if is_end || sent.is_none() {
                    boxes.replies.remove(&number);
                }
                if let Some(Err(TrySendError::Full(_))) = sent {
                    drop(boxes);
                    let cause = "the server said more of an answer than was asked for so far";
                    session.close(Some(Failure::new(FailureKind::Protocol, "ask the server", cause)));
                    return;
                }
            }
            Message::Stuck { stream } => {
                drop(boxes);
                let cause = "the peer gets nothing across on it";
                session.lose_stream(stream, Failure::new(FailureKind::Connection, "transfer", cause));
                return;
            }
            Message::NoStream { stream, why } => {
                drop(boxes);
                let why = at_peer(why, &self.connect.name());
                self.no_memory(stream, &why);
                session.lose_stream(stream, why);
                self.mail.knock_now();
                return;
            }
            other => tracing::warn!(?other, "the server said what only a client says"),
        }
        drop(boxes);
        self.mail.knock.notify_all();
    }

    fn on_link_lost(&self, _: &Arc<Session>, _: &Failure) {
        self.mail.knock_now();
    }

    fn on_goodbye(&self, _: &Arc<Session>, _: Option<&Failure>) {
        self.mail.knock_now();
    }

    fn on_stream_lost(&self, _: &Arc<Session>, stream: u16, why: &Failure) {
        let is_used_up = why.reason == Reason::KeyUsedUp;
        // Its way is as good as it was: the next stream may take it at once.
        if !is_used_up {
            self.connect.stream_lost(stream);
        }
        // Our own; what the peer lacks it has said.
        if why.reason == Reason::NoMemory {
            self.no_memory(stream, why);
        }
        self.mail.knock_now();
    }
}

/// What the peer has no memory for: where that is belongs to what failed.
fn at_peer(why: Failure, name: &str) -> Failure {
    match why.reason == Reason::NoMemory {
        true => Failure { operation: format!("{} at {name}", failure::NO_MEMORY), ..why },
        false => why,
    }
}

impl Mail {
    fn knock_now(&self) {
        lock(&self.boxes).knocked = true;
        self.knock.notify_all();
    }
}

impl Client {
    /// Dials, and begins a session.
    ///
    /// # Errors
    /// `Connection` if the peer cannot be reached, `Permission` if it does not know us or is not who it should
    /// be, `Protocol` if no version is in common.
    pub fn connect(
        connect: Arc<dyn Connect>,
        tls: Arc<ClientConfig>,
        settings: LinkSettings,
        events: Events,
    ) -> Result<Client> {
        let dialler = Arc::new(Dialler {
            connect,
            tls,
            settings: settings.clone(),
            events: events.clone(),
            told_tls: AtomicBool::new(false),
            shown: Mutex::default(),
            refused: Mutex::default(),
            early: Early::default(),
        });
        let mail = Arc::new(Mail::default());
        let to_show = dialler.to_show()?;
        let dialled = Instant::now();
        let until = dialler.deadline();
        let fd = dialler.connect.connect(left(until))?;
        let until = dialler.deadline_once_connected(until);
        mark(&fd, settings.dscp);
        let tcp_rtt = thalweg_sys::socket::tcp_info(&fd).ok().map(|info| info.rtt_min.min(dialled.elapsed()));
        let mut connection = dialler.secure(fd, None, to_show, until)?;
        let key = connection.export_session_key()?;
        if let Some(rtt) = tcp_rtt.filter(|rtt| *rtt >= early::FAR) {
            dialler.begin_early(rtt, until);
        }
        let asked = Instant::now();
        let answer = connection.hello(&Hello::new(Purpose::Control, settings.cipher), left(until))?;
        // What does not ride in a TCP connection of ours (ssh carries it) is measured by question and answer.
        let rtt = tcp_rtt.unwrap_or_else(|| asked.elapsed());
        let session = Session::new(
            answer.session,
            key,
            answer.cipher,
            connection.peer_fingerprint(),
            ControlLimits { stall_timeout: settings.stall_timeout, ..ControlLimits::default() },
            Box::new(ClientOwner {
                mail: mail.clone(),
                connect: dialler.connect.clone(),
                events: events.clone(),
            }),
            events,
        )?;
        let (name, connect) = (dialler.connect.name(), dialler.connect.clone());
        session.attach_control(connection)?;
        let keeper =
            Keeper { session: session.clone(), dialler, mail: mail.clone(), rtt, dials: UnderWay::default() };
        // Else nobody would dial again, and nobody give up.
        let closing = session.clone();
        let on_panic = move |failure| closing.close(Some(failure));
        thread::guarded("dial", on_panic, move || keeper.run())
            .inspect_err(|failure| session.close(Some(failure.clone())))?;
        let system = answer.system;
        let answer_timeout = settings.patience.min(ANSWER_TIMEOUT);
        let has_failed = AtomicBool::new(false);
        Ok(Client { session, rtt, system, name, connect, has_failed, answer_timeout, mail })
    }

    /// Has at least so many streams dialled, and replaced when they break. New ones are told what the plan says; those
    /// that stand go by what the transfers that are there by now ask for.
    pub fn want_streams(&self, streams: u16, plan: &Plan) {
        let hints = StreamHints { window_bytes: plan.window_bytes.value, share_bytes: plan.share_bytes };
        let mut boxes = self.boxes();
        boxes.streams_wanted = boxes.streams_wanted.max(streams);
        boxes.hints = hints;
        drop(boxes);
        self.session.set_stream_options();
        self.mail.knock_now();
    }

    /// Opens a transfer in which the server receives files: who signs for it. The caller adds its own side to
    /// the session afterwards, here and below. A link that is lost is waited for, at most a minute.
    ///
    /// # Errors
    /// The server's reason, `Connection` if it does not answer, `Protocol` if it answers something else, which ends the
    /// session; `Stopped` if it `is_given_up` meanwhile, which is looked at some times a second.
    pub fn open_push(&self, open: Open, is_given_up: &dyn Fn() -> bool) -> Result<Signatory> {
        match self.open(open, is_given_up)? {
            Opened::Push { is_ephemeral } => Ok(self.server(is_ephemeral)),
            _ => Err(self.other_kind()),
        }
    }

    /// Opens a transfer in which the server sends them: what its source is, and who signs for it.
    ///
    /// # Errors
    /// As [`Client::open_push`].
    pub fn open_pull(&self, open: Open, is_given_up: &dyn Fn() -> bool) -> Result<(SourceForm, Signatory)> {
        match self.open(open, is_given_up)? {
            Opened::Pull { source, is_ephemeral } => Ok((source, self.server(is_ephemeral))),
            _ => Err(self.other_kind()),
        }
    }

    /// Opens a transfer in which the server receives flows: who signs for it, and the bytes that it keeps until they
    /// are marked.
    ///
    /// # Errors
    /// As [`Client::open_push`].
    pub fn open_flow_push(&self, open: Open, is_given_up: &dyn Fn() -> bool) -> Result<(Signatory, u64)> {
        match self.open(open, is_given_up)? {
            Opened::FlowPush { is_ephemeral, window_bytes } => Ok((self.server(is_ephemeral), window_bytes)),
            _ => Err(self.other_kind()),
        }
    }

    /// Opens a transfer in which the server sends them: what its source is, who signs for it, and the bytes that it
    /// keeps until they are marked.
    ///
    /// # Errors
    /// As [`Client::open_push`].
    pub fn open_flow_pull(
        &self,
        open: Open,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<(SourceForm, Signatory, u64)> {
        match self.open(open, is_given_up)? {
            Opened::FlowPull { source, is_ephemeral, window_bytes } => {
                Ok((source, self.server(is_ephemeral), window_bytes))
            }
            _ => Err(self.other_kind()),
        }
    }

    /// Opens the lane of a producer of frames: how its channel is kept, and what it took under that name before.
    ///
    /// # Errors
    /// As [`Client::open_push`].
    pub fn open_producer(
        &self,
        open: Open,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<(ChannelTerms, Option<TakenBefore>)> {
        match self.open(open, is_given_up)? {
            Opened::Produce { channel, before } => Ok((channel, before)),
            _ => Err(self.other_kind()),
        }
    }

    /// Opens the lane of a consumer of frames: its number, and how its channel is kept.
    ///
    /// # Errors
    /// As [`Client::open_push`].
    pub fn open_consumer(&self, open: Open, is_given_up: &dyn Fn() -> bool) -> Result<(u64, ChannelTerms)> {
        match self.open(open, is_given_up)? {
            Opened::Consume { instance, channel } => Ok((instance, channel)),
            _ => Err(self.other_kind()),
        }
    }

    fn open(&self, open: Open, is_given_up: &dyn Fn() -> bool) -> Result<Opened> {
        let number = open.transfer;
        let epoch = self.wait_for_link(is_given_up);
        if is_given_up() {
            return Err(stopped());
        }
        {
            let mut boxes = self.boxes();
            boxes.openings.insert(number, Opening::Awaited);
            boxes.opened_in.insert(number, epoch);
        }
        if let Err(failure) = self.session.say_in(epoch, Message::Open(Box::new(open))) {
            let mut boxes = self.boxes();
            boxes.openings.remove(&number);
            boxes.opened_in.remove(&number);
            return Err(failure);
        }
        let opened = self.hear_opened(number, epoch, is_given_up).inspect_err(|_| {
            self.boxes().openings.entry(number).and_modify(|opening| *opening = Opening::GivenUp);
        })?;
        match opened {
            Opened::Refused(failure) => Err(at_peer(failure, &self.name)),
            opened => Ok(opened),
        }
    }

    /// What the server opened was not asked for: nothing that it says of it can be believed.
    fn other_kind(&self) -> Failure {
        let cause = "the server opened another kind of transfer than was asked for";
        let failure = Failure::new(FailureKind::Protocol, "open", cause);
        self.session.close(Some(failure.clone()));
        failure
    }

    /// Who signs for the server: the holder of the certificate that it shows.
    fn server(&self, is_ephemeral: bool) -> Signatory {
        Signatory { certificate: self.session.peer.0, is_ephemeral }
    }

    /// The epoch of the link that stands; one that is lost is waited for, as long as for an answer and until it
    /// `is_given_up`.
    pub fn wait_for_link(&self, is_given_up: &dyn Fn() -> bool) -> u64 {
        let until = Instant::now() + self.answer_timeout;
        let may_come = || self.session.lost_since().is_some() && !self.session.is_closed();
        let mut boxes = self.boxes();
        while may_come() && !is_given_up() && Instant::now() < until {
            boxes = self.mail.knock.wait_timeout(boxes, STEP).unwrap_or_else(|p| p.into_inner()).0;
        }
        drop(boxes);
        self.session.epoch()
    }

    fn hear_opened(
        &self,
        number: TransferNumber,
        epoch: u64,
        is_given_up: &dyn Fn() -> bool,
    ) -> Result<Opened> {
        let until = Instant::now() + self.answer_timeout;
        let mut boxes = self.boxes();
        loop {
            if matches!(boxes.openings.get(&number), Some(Opening::Answered(_)))
                && let Some(Opening::Answered(opened)) = boxes.openings.remove(&number)
            {
                return Ok(opened);
            }
            if let Some(failure) = self.session.failure() {
                return Err(failure);
            }
            if self.session.epoch() != epoch {
                // Whether the server heard it nobody knows: the next attempt begins a session of its own.
                let cause = "the link was lost before the transfer began";
                return Err(Failure::new(FailureKind::Connection, "open", cause));
            }
            if is_given_up() {
                return Err(stopped());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::new(FailureKind::Connection, "open", "the server did not answer"));
            }
            let step = left.min(Duration::from_millis(500));
            boxes = self.mail.knock.wait_timeout(boxes, step).unwrap_or_else(|p| p.into_inner()).0;
        }
    }

    /// Turns the knobs of a transfer that the server sends. False without a link; and a link that breaks may take it
    /// along: it is to be said again when another one stands, see [`Session::epoch`].
    pub fn steer(&self, number: TransferNumber, steer: Steer) -> bool {
        self.session.say(Message::Steer(number, steer)).is_ok()
    }

    /// Adds our side of a transfer that the server opened.
    ///
    /// # Errors
    /// As [`Session::add`]; `Connection` if the link on which it was opened does not stand any more: with it the peer's
    /// first words may be lost.
    pub(super) fn add(&self, number: TransferNumber, transfer: Arc<dyn Transfer>) -> Result<()> {
        let opened_in = self.boxes().opened_in.get(&number).copied();
        self.session.add_in(opened_in, number, transfer)
    }

    /// A transfer is over at this side, well or by a failure. If the link was lost before the server answered, nobody
    /// knows what it heard: all transfers begin anew, in a session of their own. Else the others go on, also where a
    /// file system that does not answer calls that a lost connection; and the server is told, in an outage after it.
    pub(super) fn conclude(&self, number: TransferNumber, failure: Option<&Failure>) {
        let (opened_in, is_answered) = {
            let mut boxes = self.boxes();
            (boxes.opened_in.remove(&number), !boxes.openings.contains_key(&number))
        };
        self.session.remove(number);
        if let (Some(epoch), Some(failure)) = (opened_in, failure) {
            self.has_failed.store(true, Ordering::Release);
            let is_unknown = !is_answered && epoch != self.session.epoch();
            match failure.kind == FailureKind::Connection && is_unknown {
                true => self.session.close(Some(failure.clone())),
                false => self.session.tell_over(number, failure.clone()),
            }
        }
    }

    /// What the machines of the sender and of the receiver let a stream have.
    pub(super) fn systems(&self, direction: Direction) -> (System, System) {
        match direction {
            Direction::Push => (own_system(), self.system),
            Direction::Pull => (self.system, own_system()),
        }
    }

    /// Asks a question; pieces of the answer come until [`Reply::End`], on the link on which it was asked: with that
    /// the answer ends.
    ///
    /// # Errors
    /// `Connection` without a link.
    pub fn ask(&self, question: Question) -> Result<Answers> {
        let (queue, inbox) = mpsc::sync_channel(limits::REPLIES_AHEAD_MAX as usize + 1);
        let epoch = self.session.epoch();
        let number = {
            let mut boxes = self.boxes();
            boxes.next_question += 1;
            let number = boxes.next_question;
            boxes.replies.insert(number, (epoch, queue));
            number
        };
        if let Err(failure) = self.session.say_in(epoch, Message::Ask { number, question }) {
            self.boxes().replies.remove(&number);
            return Err(failure);
        }
        Ok(Answers {
            inbox,
            number,
            epoch,
            session: self.session.clone(),
            mail: self.mail.clone(),
            taken: 0,
            ended: false,
            patience: self.answer_timeout,
        })
    }

    fn boxes(&self) -> MutexGuard<'_, Boxes> {
        lock(&self.mail.boxes)
    }

    /// Ends the session in order. Over a distance the peer's goodbye is not waited for where all went well: the kernel
    /// sees to it that ours arrives. Should it not after all, the server keeps a session without transfers for some
    /// seconds. What rides in something that ends with us is waited for, and so is what the server puts away.
    pub fn close(&self) {
        let went_well = self.session.failure().is_none() && !self.has_failed.load(Ordering::Acquire);
        self.session.close(None);
        self.mail.knock_now();
        match went_well && self.rtt >= early::FAR && is_dialled(&*self.connect) {
            true => self.session.flush_own(GOODBYE_TIMEOUT),
            false => self.session.flush(GOODBYE_TIMEOUT),
        }
    }
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, "open", "stopped on request")
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
pub(super) mod tests;
