//! The client of a session: dials, opens transfers, and keeps link and streams standing until they are over.

use crate::event::{Event, Events};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::{
    Connection, ControlLimits, PathHints, Role, TlsForm, mark, resume_proof, stream_proof, tune_stream,
};
use crate::run::session::{Owner, Session, Transfer};
use crate::run::spread::Local;
use crate::stage::Stage;
use rustls::ClientConfig;
use socket2::{Domain, Socket, Type};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver as Inbox, SyncSender, TrySendError};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use thalweg_wire::hello::{Cipher, Hello, Purpose, System};
use thalweg_wire::limits;
use thalweg_wire::message::{
    Message, Open, Opened, Question, Reply, Steer, TransferMessage, TransferNumber, WaitingFor,
};

/// Time in which TCP, TLS and hello must be done.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// First and longest pause between two tries to reach a peer.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A link that is silent for so long, four heartbeats, is dialled anew beside the old one; the first that works wins.
/// The kernel's own tries to send again double their distance each time and would find a healed path too late.
const SILENCE: Duration = Duration::from_secs(4);
/// A path on which less than this moves is as good as dead. What moves faster keeps its link even if a frame takes
/// longer than the stall timeout, until the patience for what was verified is at its end.
const LIVE_BYTES_PER_S: f64 = 1024.0;
/// Time that the last words may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in which a server must answer a question or begin its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How to reach the peer: called for each connection.
pub trait Connect: Send + Sync {
    /// A connected socket (or pair of pipes in one), within the deadline.
    ///
    /// # Errors
    /// `Connection` if the peer cannot be reached.
    fn connect(&self, deadline: Duration) -> Result<OwnedFd>;

    /// As [`Connect::connect`], for a data stream.
    ///
    /// # Errors
    /// As there.
    fn connect_stream(&self, _stream: u16, deadline: Duration) -> Result<OwnedFd> {
        self.connect(deadline)
    }

    /// The connection of this stream broke.
    fn stream_lost(&self, _stream: u16) {}

    /// Where the peer is dialled, each `host:port`; none if it is reached in another way.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// For messages.
    fn name(&self) -> String;

    /// The copy is over: what was started to reach the peer may end.
    fn close(&self) {}
}

/// By TCP, to the first of some addresses that answers.
#[derive(Debug, Clone)]
pub struct TcpConnect {
    /// `host:port`.
    pub addresses: Vec<String>,
}

impl Connect for TcpConnect {
    fn connect(&self, deadline: Duration) -> Result<OwnedFd> {
        connect_any(&self.addresses, None, deadline)
    }

    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn name(&self) -> String {
        self.addresses.join(", ")
    }
}

/// Connects to the first of some `host:port` that answers, from `local` if that is given.
///
/// # Errors
/// `Connection`, why the last one did not answer.
pub(super) fn connect_any(
    addresses: &[String],
    local: Option<&Local>,
    deadline: Duration,
) -> Result<OwnedFd> {
    let until = Instant::now() + deadline;
    let mut last = Failure::new(FailureKind::Connection, "connect", "no address was given");
    for address in addresses {
        let resolved = match address.to_socket_addrs() {
            Ok(resolved) => resolved,
            Err(error) => {
                last = Failure::new(FailureKind::Connection, "look up", format!("{address}: {error}"));
                continue;
            }
        };
        for socket_address in resolved {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(last);
            }
            match connect_from(&socket_address, local, left.min(deadline / 2 + Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream.into()),
                Err(error) => {
                    let text = failure::of_io("connect", &error).cause;
                    let from = match local {
                        None => String::new(),
                        Some(Local::Address(address)) => format!(" from {address}"),
                        Some(Local::Interface(name)) => format!(" by {name}"),
                    };
                    last = Failure::new(
                        FailureKind::Connection,
                        "connect",
                        format!("{socket_address}{from}: {text}"),
                    );
                }
            }
        }
    }
    Err(last)
}

fn connect_from(address: &SocketAddr, local: Option<&Local>, deadline: Duration) -> io::Result<TcpStream> {
    let Some(local) = local else { return TcpStream::connect_timeout(address, deadline) };
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
    match local {
        Local::Address(own) => socket.bind(&SocketAddr::new(*own, 0).into())?,
        Local::Interface(name) => socket.bind_device(Some(name.as_bytes()))?,
    }
    socket.connect_timeout(&(*address).into(), deadline)?;
    Ok(socket.into())
}

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
    /// Congestion control, if it shall not be chosen.
    pub congestion: Option<String>,
    /// Mark of all packets (DSCP, 0..=63).
    pub dscp: Option<u8>,
}

impl Default for LinkSettings {
    fn default() -> Self {
        LinkSettings {
            cipher: if thalweg_sys::usage::has_aes() { Cipher::Aes128Gcm } else { Cipher::ChaCha20Poly1305 },
            tls_form: TlsForm::default(),
            stall_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(600),
            congestion: None,
            dscp: None,
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
    opened: Vec<Opened>,
    /// Each has room for what a server may be ahead, and the end.
    replies: HashMap<u32, SyncSender<Reply>>,
    next_question: u32,
    streams_wanted: u16,
    /// What their sockets are told, besides what is of the link.
    hints: StreamHints,
    knocked: bool,
}

/// What a plan says to each stream's socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamHints {
    /// Bytes under way, at most.
    pub window_bytes: Option<u64>,
    /// Bytes that there shall be room for.
    pub share_bytes: Option<u64>,
}

struct Dialler {
    connect: Arc<dyn Connect>,
    tls: Arc<ClientConfig>,
    server_name: String,
    settings: LinkSettings,
    events: Events,
    /// Who seals TLS records was told.
    told_tls: AtomicBool,
}

struct ClientOwner {
    mail: Arc<Mail>,
    connect: Arc<dyn Connect>,
}

impl Owner for ClientOwner {
    fn on_message(&self, session: &Arc<Session>, message: Message) {
        let mut boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
        match message {
            Message::Opened(opened) => boxes.opened.push(opened),
            Message::Reply { number, reply } => {
                let is_end = matches!(reply, Reply::End(_));
                // Of an answer that nobody waits for any more the rest is dropped.
                let sent = boxes.replies.get(&number).map(|queue| queue.try_send(reply));
                if is_end {
                    boxes.replies.remove(&number);
                }
                if let Some(Err(TrySendError::Full(_))) = sent {
                    drop(boxes);
                    let cause = "the server said more of an answer than was asked for so far";
                    session.close(Some(Failure::new(FailureKind::Protocol, "ask", cause)));
                    return;
                }
            }
            Message::Stuck { stream } => {
                drop(boxes);
                let cause = "the peer gets nothing across on it";
                session.lose_stream(stream, Failure::new(FailureKind::Connection, "transfer", cause));
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

    fn on_stream_lost(&self, _: &Arc<Session>, stream: u16, _: &Failure) {
        self.connect.stream_lost(stream);
        self.mail.knock_now();
    }
}

impl Mail {
    fn knock_now(&self) {
        self.boxes.lock().unwrap_or_else(|p| p.into_inner()).knocked = true;
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
        server_name: &str,
        settings: LinkSettings,
        events: Events,
    ) -> Result<Client> {
        let dialler = Arc::new(Dialler {
            connect,
            tls,
            server_name: server_name.to_owned(),
            settings: settings.clone(),
            events: events.clone(),
            told_tls: AtomicBool::new(false),
        });
        let mail = Arc::new(Mail::default());
        let dialled = Instant::now();
        let until = dialler.deadline();
        let fd = dialler.connect.connect(left(until))?;
        mark(&fd, settings.dscp);
        let tcp_rtt = thalweg_sys::socket::tcp_info(&fd).ok().map(|info| info.rtt_min.min(dialled.elapsed()));
        let mut connection = dialler.secure(fd, until)?;
        let key = connection.export_session_key()?;
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
            Box::new(ClientOwner { mail: mail.clone(), connect: dialler.connect.clone() }),
            events,
        )?;
        session.attach_control(connection)?;
        let keeper = Keeper { session: session.clone(), dialler, mail: mail.clone(), rtt };
        std::thread::Builder::new()
            .name("dial".into())
            .spawn(move || keeper.run())
            .map_err(|error| failure::of_io("start a thread", &error))?;
        let system = answer.system;
        Ok(Client { session, rtt, system, answer_timeout: settings.patience.min(ANSWER_TIMEOUT), mail })
    }

    /// Has at least so many streams dialled, and replaced when they break. New ones are told `hints`.
    pub fn want_streams(&self, streams: u16, hints: StreamHints) {
        let mut boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
        boxes.streams_wanted = boxes.streams_wanted.max(streams);
        boxes.hints = hints;
        drop(boxes);
        self.mail.knock_now();
    }

    /// Opens a transfer at the server. The caller adds its own side to the session afterwards.
    ///
    /// # Errors
    /// The server's reason, `Connection` if it does not answer.
    pub fn open(&self, open: Open) -> Result<Opened> {
        let number = open.transfer;
        self.session.say(Message::Open(Box::new(open)))?;
        let until = Instant::now() + self.answer_timeout;
        let mut boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
        loop {
            if let Some(at) = boxes.opened.iter().position(|opened| opened.transfer == number) {
                let opened = boxes.opened.swap_remove(at);
                return match opened.refused {
                    Some(failure) => Err(failure),
                    None => Ok(opened),
                };
            }
            if let Some(failure) = self.session.failure() {
                return Err(failure);
            }
            if self.session.lost_since().is_some() {
                // Whether the server heard it nobody knows: the next attempt begins a session of its own.
                let cause = "the link was lost before the transfer began";
                return Err(Failure::new(FailureKind::Connection, "open", cause));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Failure::new(FailureKind::Connection, "open", "the server did not answer"));
            }
            let step = left.min(Duration::from_millis(500));
            boxes = self.mail.knock.wait_timeout(boxes, step).unwrap_or_else(|p| p.into_inner()).0;
        }
    }

    /// Turns the knobs of a transfer that the server sends.
    pub fn steer(&self, number: TransferNumber, steer: Steer) {
        // Without a link the terms hold, and the caller says it again when it changes.
        let _ = self.session.say(Message::Steer(number, steer));
    }

    /// Ends a transfer from this side, whatever became of it; the others go on.
    pub fn give_up(&self, number: TransferNumber, why: &Failure) {
        // Without a link the session's end, or its next link, ends it there.
        let _ = self.session.say(Message::Transfer(number, TransferMessage::Abort(why.clone())));
    }

    /// Asks a question; pieces of the answer come until [`Reply::End`].
    ///
    /// # Errors
    /// `Connection` without a link.
    pub fn ask(&self, question: Question) -> Result<Answers> {
        let (queue, inbox) = mpsc::sync_channel(limits::REPLIES_AHEAD_MAX as usize + 1);
        let number = {
            let mut boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
            boxes.next_question += 1;
            let number = boxes.next_question;
            boxes.replies.insert(number, queue);
            number
        };
        self.session.say(Message::Ask { number, question })?;
        Ok(Answers {
            inbox,
            number,
            session: self.session.clone(),
            mail: self.mail.clone(),
            taken: 0,
            ended: false,
        })
    }

    /// Ends the session in order.
    pub fn close(&self) {
        self.session.close(None);
        self.mail.knock_now();
        self.session.flush(GOODBYE_TIMEOUT);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}

/// The pieces of an answer. The server is at most [`limits::REPLIES_AHEAD_MAX`] pieces ahead of what was taken; dropped
/// before its end, the rest is not asked for.
pub struct Answers {
    inbox: Inbox<Reply>,
    number: u32,
    session: Arc<Session>,
    mail: Arc<Mail>,
    /// Pieces of which the server has not heard that they were taken.
    taken: u32,
    ended: bool,
}

impl Answers {
    /// One more piece is out of the queue. Told by the half: the server has the other half to go on with.
    fn note_taken(&mut self) {
        self.taken += 1;
        if self.taken >= limits::REPLIES_AHEAD_MAX / 2 {
            // Without a link the answer is over, as the next look shows.
            let _ = self.session.say(Message::Taken { number: self.number, pieces: self.taken });
            self.taken = 0;
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let mut boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
        if boxes.replies.remove(&self.number).is_some() {
            drop(boxes);
            let _ = self.session.say(Message::Enough { number: self.number });
        }
    }
}

impl Iterator for Answers {
    type Item = Result<Reply>;

    fn next(&mut self) -> Option<Result<Reply>> {
        if self.ended {
            return None;
        }
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match self.inbox.recv_timeout(Duration::from_millis(250)) {
                Ok(Reply::End(failure)) => {
                    self.ended = true;
                    return failure.map(Err);
                }
                Ok(reply) => {
                    self.note_taken();
                    return Some(Ok(reply));
                }
                Err(_) => {
                    let lost = self.session.lost_since().is_some() || self.session.is_closed();
                    if lost || Instant::now() >= until {
                        self.ended = true;
                        let cause = "the connection ended before the answer was complete";
                        let failure = Failure::new(FailureKind::Connection, "ask", cause);
                        return Some(Err(self.session.failure().unwrap_or(failure)));
                    }
                }
            }
        }
    }
}

impl Dialler {
    /// By when TCP, TLS and hello must be done together: a dial never takes longer than a stall is borne.
    fn deadline(&self) -> Instant {
        Instant::now() + DIAL_TIMEOUT.min(self.settings.stall_timeout.max(Duration::from_secs(1)))
    }

    fn secure(&self, fd: OwnedFd, until: Instant) -> Result<Connection> {
        Connection::connect(fd, self.tls.clone(), &self.server_name, left(until))
    }

    fn resume(&self, session: &Session, at_most: Duration) -> Result<Connection> {
        let until = self.deadline().min(Instant::now() + at_most);
        let fd = self.connect.connect(left(until))?;
        mark(&fd, self.settings.dscp);
        let mut connection = self.secure(fd, until)?;
        let proof = resume_proof(&session.key, &connection, &session.id)?;
        let hello = Hello { session: session.id, proof, ..Hello::new(Purpose::Resume, session.cipher) };
        connection.hello(&hello, left(until))?;
        Ok(connection)
    }

    fn stream(
        &self,
        session: &Session,
        stream: u16,
        rtt: Duration,
        planned: StreamHints,
        at_most: Duration,
    ) -> Result<()> {
        let until = self.deadline().min(Instant::now() + at_most);
        let fd = self.connect.connect_stream(stream, left(until))?;
        let hints = PathHints {
            rtt: Some(rtt),
            congestion: self.settings.congestion.clone(),
            frame_bytes: crate::plan::SEGMENT_BYTES as usize,
            window_bytes: planned.window_bytes,
            share_bytes: planned.share_bytes,
            dscp: self.settings.dscp,
            pacing_bytes_per_s: None,
        };
        tune_stream(fd.as_fd(), &hints);
        let mut connection = self.secure(fd, until)?;
        let proof = stream_proof(&session.key, &connection, &session.id, stream)?;
        let hello =
            Hello { session: session.id, stream, proof, ..Hello::new(Purpose::Stream, session.cipher) };
        connection.hello(&hello, left(until))?;
        connection.set_tls_form(self.settings.tls_form);
        let (writer, reader) = connection.into_streams(session.cipher, &session.id, stream, Role::Client)?;
        if let Some(decision) = writer.kernel_tls()
            && !self.told_tls.swap(true, Ordering::AcqRel)
        {
            (self.events)(Event::Detail(decision.to_string()));
        }
        session.attach_stream(stream, writer, reader)
    }
}

/// Keeps the link and its streams standing, and judges the peer by what it acknowledges.
struct Keeper {
    session: Arc<Session>,
    dialler: Arc<Dialler>,
    mail: Arc<Mail>,
    rtt: Duration,
}

impl Keeper {
    fn run(self) {
        let mut back_off = BACK_OFF.0;
        let mut last_progress = (progress(&self.session), Instant::now());
        let mut link_progress = last_progress;
        let stall_timeout = self.dialler.settings.stall_timeout;
        let live_bytes = (LIVE_BYTES_PER_S * stall_timeout.as_secs_f64()) as u64;
        let mut moved = self.session.moved_bytes();
        while !self.session.is_closed() {
            let now = progress(&self.session);
            let grew = now.iter().zip(&last_progress.0).any(|(now, last)| now > last);
            // A transfer that is taken out takes its numbers along.
            last_progress.0 = now;
            if grew {
                last_progress.1 = Instant::now();
                link_progress = last_progress;
            }
            let moved_now = self.session.moved_bytes();
            // It starts over when a stream does.
            if moved_now < moved {
                moved = moved_now;
            }
            if moved_now - moved > live_bytes {
                moved = moved_now;
                link_progress.1 = Instant::now();
            }
            if !awaits_peer(&self.session) {
                last_progress.1 = Instant::now();
                link_progress.1 = Instant::now();
            }
            let patience_left = self.dialler.settings.patience.saturating_sub(last_progress.1.elapsed());
            if patience_left.is_zero() {
                let seconds = self.dialler.settings.patience.as_secs();
                let cause = format!("no progress for {seconds} s");
                self.session.close(Some(Failure::new(FailureKind::Connection, "transfer", cause)));
                return;
            }
            let is_lost = self.session.lost_since().is_some();
            let is_silent = !is_lost
                && link_progress.1.elapsed() > SILENCE
                && self.session.heard_at().is_some_and(|at| at.elapsed() > SILENCE);
            if is_lost || is_silent {
                // A dial and a pause that reach beyond the patience would only delay the end.
                let patience = patience_left.max(Duration::from_millis(500));
                match self.dialler.resume(&self.session, patience).and_then(|c| self.replace_link(c)) {
                    Ok(()) => {
                        back_off = BACK_OFF.0;
                        link_progress.1 = Instant::now();
                    }
                    Err(failure) if failure.kind == FailureKind::NotFound => {
                        let cause = "the far mover was restarted and does not know the session any more";
                        self.session.close(Some(Failure::new(FailureKind::Connection, "resume", cause)));
                        return;
                    }
                    Err(failure) => {
                        tracing::info!(%failure, "still no link");
                        self.pause(back_off.min(patience));
                        back_off = (back_off * 2).min(BACK_OFF.1);
                        continue;
                    }
                }
            }
            let heartbeat = self.session.peer_heartbeat();
            let excused = heartbeat.waiting_for.is_some();
            if link_progress.1.elapsed() > stall_timeout && !excused {
                let seconds = stall_timeout.as_secs();
                let cause = format!("the peer acknowledged nothing for {seconds} s");
                link_progress.1 = Instant::now();
                self.session.drop_link(Failure::new(FailureKind::Connection, "transfer", cause));
                continue;
            }
            if self.dial_streams(patience_left) {
                back_off = BACK_OFF.0;
                self.pause(Duration::from_millis(250));
            } else {
                self.pause(back_off.min(patience_left));
                back_off = (back_off * 2).min(BACK_OFF.1);
            }
        }
    }

    /// Puts a new control connection in the place of one that is lost or silent.
    fn replace_link(&self, connection: Connection) -> Result<()> {
        if self.session.lost_since().is_none() {
            let cause = format!("the peer said nothing for {} s", SILENCE.as_secs());
            self.session.drop_link(Failure::new(FailureKind::Connection, "transfer", cause));
        }
        self.session.attach_control(connection)
    }

    /// Dials what is missing, side by side, for at most so long. False if some could not be had.
    fn dial_streams(&self, at_most: Duration) -> bool {
        let (wanted, hints) = {
            let boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
            (boxes.streams_wanted, boxes.hints)
        };
        let there = self.session.streams();
        let missing: Vec<u16> = (0..wanted).filter(|stream| !there.contains(stream)).collect();
        std::thread::scope(|scope| {
            let dials: Vec<_> = missing
                .iter()
                .map(|&stream| {
                    scope.spawn(move || {
                        let dialled = self.dialler.stream(&self.session, stream, self.rtt, hints, at_most);
                        if let Err(failure) = &dialled {
                            tracing::info!(stream, %failure, "stream not dialled");
                        }
                        dialled.is_ok()
                    })
                })
                .collect();
            dials.into_iter().all(|dial| dial.join().unwrap_or(false))
        })
    }

    fn pause(&self, at_most: Duration) {
        let boxes = self.mail.boxes.lock().unwrap_or_else(|p| p.into_inner());
        let quiet = |boxes: &mut Boxes| !boxes.knocked;
        let (mut boxes, _) =
            self.mail.knock.wait_timeout_while(boxes, at_most, quiet).unwrap_or_else(|p| p.into_inner());
        boxes.knocked = false;
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

/// Everything that the peer acknowledged or sent well: only this counts as progress. A chunk may take longer than a
/// stall is borne, so its segments count; but no claim of the peer counts beyond what we sent.
fn progress(session: &Session) -> [u64; 5] {
    let mut sum = [0; 5];
    let mut sent_bytes = 0;
    for transfer in session.transfers() {
        match transfer {
            Transfer::Send(run) => {
                let progress = run.progress();
                sum[0] += progress.bytes_verified;
                sum[1] += progress.bytes_durable;
                sum[2] += progress.entries_settled;
                sum[3] += u64::from(run.ended().is_some());
                sent_bytes += run.accounts.bytes(Stage::Send);
            }
            Transfer::Receive(run) => {
                let progress = run.progress();
                sum[0] += progress.verified_bytes;
                sum[1] += progress.durable_bytes;
                sum[2] += progress.settled_entries;
                sum[3] += u64::from(run.ended().is_some());
                sum[4] += run.accounts.bytes(Stage::Verify);
            }
            Transfer::SendFlows(run) => {
                let progress = run.progress();
                sum[1] += progress.marked_bytes;
                sum[2] += progress.settled;
                sum[3] += u64::from(run.ended().is_some());
                sent_bytes += run.accounts.bytes(Stage::Send);
            }
            Transfer::ReceiveFlows(run) => {
                let progress = run.progress();
                sum[0] += progress.verified_bytes;
                sum[1] += progress.durable_bytes;
                sum[2] += progress.settled_entries;
                sum[3] += u64::from(run.ended().is_some());
                sum[4] += run.accounts.bytes(Stage::Verify);
            }
            Transfer::Frames(run) => {
                sum[0] += run.moved_bytes();
                if run.sends() {
                    sent_bytes += run.accounts().bytes(Stage::Send);
                }
            }
        }
    }
    sum[4] += session.peer_heartbeat().verified_bytes.min(sent_bytes);
    sum
}

/// A disk that gives nothing for so long is one that hangs.
const READ_STALL: Duration = Duration::from_secs(10);

fn awaits_peer(session: &Session) -> bool {
    session.transfers().iter().any(|transfer| match transfer {
        Transfer::Send(run) => run.awaits_peer(),
        Transfer::Receive(run) => run.awaits_peer(),
        // A program may take its time, and so may who makes what it gets.
        Transfer::SendFlows(run) => {
            let heartbeat = session.peer_heartbeat();
            // What is there is read again before it is gone on with: that takes as long as it takes, as long as it goes on.
            let is_excused = match heartbeat.waiting_for {
                Some(WaitingFor::Consumer) => true,
                Some(WaitingFor::Read) => Duration::from_millis(heartbeat.waiting_ms.into()) < READ_STALL,
                _ => false,
            };
            run.awaits_peer() && !is_excused
        }
        Transfer::ReceiveFlows(run) => run.awaits_peer(),
        // Consumers may take their time, and so may who makes frames; a peer that is silent is another matter.
        Transfer::Frames(run) => {
            let waiting_for = session.peer_heartbeat().waiting_for;
            let is_silent = session.heard_at().is_some_and(|at| at.elapsed() > SILENCE / 2);
            is_silent || (run.awaits_peer() && waiting_for != Some(WaitingFor::Consumer))
        }
    })
}
