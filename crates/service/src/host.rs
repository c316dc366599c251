//! The server's side of sessions: admits connections, opens transfers, waits for clients that were cut off,
//! and cleans up behind those that do not come back.

use crate::answer::{self, Room};
use crate::export::Exports;
use crate::published::Served;
use crate::slots::Slots;
use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::destination::{DestinationPlace, LocalDestination};
use thalweg_mover::endpoint::local::source::{LocalSource, ScanOptions, SourceRoot};
use thalweg_mover::endpoint::sparing::SparingSource;
use thalweg_mover::endpoint::synthetic::{NoiseSource, NullDestination};
use thalweg_mover::endpoint::{Destination, Source};
use thalweg_mover::event;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::{
    Connection, ControlLimits, Fingerprint, Identity, PathHints, Role, TlsForm, own_system, proof_matches,
    resume_proof, stream_proof, tune_stream,
};
use thalweg_mover::manifest::filter::Filter;
use thalweg_mover::run::Ended;
use thalweg_mover::run::agree::{self, Party, Signer};
use thalweg_mover::run::frames::hub::Hub;
use thalweg_mover::run::receiver::ReceiveRun;
use thalweg_mover::run::sender::SendRun;
use thalweg_mover::run::session::{Owner, Session, Transfer};
use thalweg_mover::transfer::{receiver, sender};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::hello::{self, Answer, Cipher, Hello, Purpose, ServerHello, SessionId};
use thalweg_wire::limits;
use thalweg_wire::message::{Direction, Message, Open, Opened, SourceForm, Steer, TransferNumber, Trial};

/// Bounds of a server.
#[derive(Debug, Clone)]
pub struct HostLimits {
    /// Sessions at the same time.
    pub sessions: usize,
    /// Of these, with the same certificate: nobody can keep all others out.
    pub sessions_per_client: usize,
    /// Data streams of all sessions with the same certificate.
    pub streams_per_client: usize,
    /// How long a session without a link is kept for its client to come back.
    pub patience: Duration,
    /// Without a sign of life for so long, a link counts as lost.
    pub stall_timeout: Duration,
    /// Requests of one session that are worked on at the same time.
    pub requests: usize,
    /// Bytes of frames that all channels together may hold in memory.
    pub channel_bytes_max: u64,
    /// How streams in TLS form are.
    pub tls_form: TlsForm,
    /// What the way to it carries, in bits a second, if it is to be given away in slots.
    pub slots_bits_per_s: Option<u64>,
    /// How long it was seen to take to make durable what arrived, before anything did.
    pub settle: Duration,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits {
            sessions: 256,
            sessions_per_client: 128,
            streams_per_client: 1024,
            patience: Duration::from_secs(600),
            stall_timeout: Duration::from_secs(30),
            requests: 32,
            channel_bytes_max: limits::CHANNEL_BYTES_MAX,
            tls_form: TlsForm::default(),
            slots_bits_per_s: None,
            settle: Duration::ZERO,
        }
    }
}

/// A client that said nothing for three heartbeats and is said to have begun anew is gone.
const SILENCE: Duration = Duration::from_secs(3);
/// What is heard later was not on its way before.
const IN_FLIGHT: Duration = Duration::from_millis(500);
/// Time between two tellings of where a transfer's time goes.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Time for a session that ends to put away what it received.
const CLOSING: Duration = Duration::from_secs(5);

/// How long a session without link and transfers is kept.
const IDLE_PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub struct Host {
    identity: Identity,
    pub(crate) exports: Exports,
    pub(crate) state: Option<PathBuf>,
    /// Channels of frames.
    pub(crate) hub: Hub,
    limits: HostLimits,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    instances: AtomicU64,
    idle_since: Mutex<Instant>,
    /// Held while a part is measured alone: two at once would measure each other.
    pub(crate) measuring: Mutex<()>,
    pub(crate) slots: Option<Slots>,
    /// Each transfer has a clone until it is concluded.
    pub(crate) work: Arc<()>,
    this: Weak<Host>,
}

impl Host {
    /// A server with this identity and these exports. `state` is where it remembers what destinations hold.
    pub fn new(
        identity: Identity,
        exports: Exports,
        state: Option<PathBuf>,
        limits: HostLimits,
    ) -> Arc<Host> {
        let host = Arc::new_cyclic(|this| Host {
            identity,
            exports,
            state,
            slots: limits.slots_bits_per_s.map(|bits| Slots::new(bits, limits.settle)),
            hub: Hub::new(limits.channel_bytes_max),
            limits,
            sessions: Mutex::default(),
            instances: AtomicU64::new(1),
            idle_since: Mutex::new(Instant::now()),
            measuring: Mutex::default(),
            work: Arc::default(),
            this: this.clone(),
        });
        let reaper = Arc::downgrade(&host);
        let reap = move || {
            while let Some(host) = reaper.upgrade() {
                host.reap();
                drop(host);
                std::thread::sleep(Duration::from_millis(250));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("reaper".into()).spawn(reap) {
            tracing::error!(%error, "no thread to clean up sessions");
        }
        host
    }

    /// Takes a connection whose peer has proved who it is; reads its hello and gives it its place.
    ///
    /// # Errors
    /// Why it was turned away.
    pub fn admit(&self, mut connection: Connection, deadline: Duration) -> Result<()> {
        let until = Instant::now() + deadline;
        let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let hello = connection.read_hello(left())?;
        let version =
            hello::negotiate((limits::VERSION_MIN, limits::VERSION_MAX), hello.versions).unwrap_or(0);
        let mut answer = ServerHello {
            version,
            versions: (limits::VERSION_MIN, limits::VERSION_MAX),
            answer: Answer::Accepted,
            cipher: hello.cipher,
            features: 0,
            session: hello.session,
            system: own_system(),
        };
        match hello.purpose {
            Purpose::Control => {
                if self.is_full(&connection.peer_fingerprint()) {
                    answer.answer = Answer::Busy;
                    connection.answer(&answer, left())?;
                    return Err(Failure::new(FailureKind::Busy, "admit", "too many sessions"));
                }
                let mut id = [0; 16];
                aws_lc_rs::rand::fill(&mut id)
                    .map_err(|_| Failure::new(FailureKind::Internal, "admit", "no random numbers"))?;
                answer.session = id;
                self.begin(connection, &answer, left())
            }
            Purpose::Stream | Purpose::Resume => {
                let session = self.sessions().get(&hello.session).cloned();
                let proved = session.as_ref().is_some_and(|s| proves(s, &connection, &hello));
                let Some(session) = session.filter(|_| proved) else {
                    answer.answer = Answer::UnknownSession;
                    answer.cipher = Cipher::Aes128Gcm;
                    connection.answer(&answer, left())?;
                    return Err(Failure::new(
                        FailureKind::NotFound,
                        "admit",
                        "unknown session or wrong proof",
                    ));
                };
                answer.cipher = session.cipher;
                if hello.purpose == Purpose::Resume {
                    connection.answer(&answer, left())?;
                    return session.attach_control(connection);
                }
                if self.streams_of(&session.peer) >= self.limits.streams_per_client {
                    answer.answer = Answer::Busy;
                    connection.answer(&answer, left())?;
                    return Err(Failure::new(FailureKind::Busy, "admit", "too many streams of one client"));
                }
                connection.answer(&answer, left())?;
                connection.set_tls_form(self.limits.tls_form);
                let (writer, reader) =
                    connection.into_streams(session.cipher, &session.id, hello.stream, Role::Server)?;
                if let Some(decision) = writer.kernel_tls() {
                    tracing::info!(stream = hello.stream, %decision, "stream in TLS form");
                }
                let rtt = thalweg_sys::socket::tcp_info(writer.fd()).ok().map(|info| info.rtt_min);
                tune_stream(writer.fd(), &PathHints { rtt, ..wanted_path(&session) });
                session.attach_stream(hello.stream, writer, reader)
            }
        }
    }

    /// Sessions that are not over, linked or not.
    pub fn session_count(&self) -> usize {
        self.sessions().values().filter(|session| !session.is_closed()).count()
    }

    /// Whether another session of this client would be one too many, of all or of its own. Sessions that have ended, or
    /// have neither link nor transfer, make room at once.
    fn is_full(&self, client: &Fingerprint) -> bool {
        let is_over = |sessions: &HashMap<SessionId, Arc<Session>>| {
            let theirs = sessions.values().filter(|session| session.peer.matches(client)).count();
            sessions.len() >= self.limits.sessions || theirs >= self.limits.sessions_per_client
        };
        if !is_over(&self.sessions()) {
            return false;
        }
        self.end_all("nothing was under way", |session| {
            session.is_closed() || (session.lost_since().is_some() && session.transfers().is_empty())
        });
        is_over(&self.sessions())
    }

    fn streams_of(&self, client: &Fingerprint) -> usize {
        let theirs: Vec<_> =
            self.sessions().values().filter(|session| session.peer.matches(client)).cloned().collect();
        theirs.iter().map(|session| session.streams().len()).sum()
    }

    /// Since when no session has a link; `None` if one has, or if there is none.
    pub fn linkless_since(&self) -> Option<Instant> {
        let sessions = self.sessions();
        let lost: Option<Vec<Instant>> = sessions.values().map(|session| session.lost_since()).collect();
        lost?.into_iter().max()
    }

    /// Whether a transfer is still being concluded, maybe one whose session has ended.
    pub fn is_at_work(&self) -> bool {
        Arc::strong_count(&self.work) > 1
    }

    /// For how long there has been no session. One that is over counts until it is put away, a moment later.
    pub fn idle_for(&self) -> Duration {
        if !self.sessions().is_empty() {
            return Duration::ZERO;
        }
        self.idle_since.lock().unwrap_or_else(|p| p.into_inner()).elapsed()
    }

    /// Ends all sessions in order; what they received stays for the next attempt.
    pub fn stop(&self) {
        self.end_sessions();
        self.hub.close();
    }

    fn end_sessions(&self) {
        let sessions: Vec<_> = self.sessions().drain().map(|(_, session)| session).collect();
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(|| {
                    let cause = "the server is shutting down; the transfer resumes with the same command";
                    session.close(Some(Failure::new(FailureKind::Connection, "serve", cause)));
                });
            }
        });
    }

    fn begin(&self, mut connection: Connection, answer: &ServerHello, deadline: Duration) -> Result<()> {
        let key = connection.export_session_key()?;
        let peer = connection.peer_fingerprint();
        let limits = ControlLimits { stall_timeout: self.limits.stall_timeout, ..ControlLimits::default() };
        let owner = ServerOwner {
            host: self.this.clone(),
            requests: Arc::default(),
            answers: Arc::default(),
            limit: self.limits.requests,
        };
        let session =
            Session::new(answer.session, key, answer.cipher, peer, limits, Box::new(owner), event::nobody())?;
        self.sessions().insert(answer.session, session.clone());
        // Known before it is answered: the client may dial streams at once.
        let begun = connection.answer(answer, deadline).and_then(|()| session.attach_control(connection));
        if begun.is_err() {
            self.sessions().remove(&answer.session);
        }
        tracing::info!(%peer, "session begun");
        begun
    }

    fn reap(&self) {
        self.hub.reap(self.limits.patience);
        self.narrow_beside_slots();
        self.end_all("the client did not come back", |session| {
            // With nothing under way there is nothing to come back for.
            let patience = match session.transfers().is_empty() {
                true => self.limits.patience.min(IDLE_PATIENCE),
                false => self.limits.patience,
            };
            session.is_closed() || session.lost_since().is_some_and(|at| at.elapsed() > patience)
        });
    }

    /// What comes without a slot shall have little under way when a window opens.
    pub(crate) fn narrow_beside_slots(&self) {
        let Some(slots) = &self.slots else { return };
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        slots.narrow(&sessions, wanted_path);
    }

    /// Ends the sessions that are `gone`.
    fn end_all(&self, why: &str, is_gone: impl Fn(&Session) -> bool) {
        let gone: Vec<Arc<Session>> = {
            let mut sessions = self.sessions();
            let ids: Vec<SessionId> =
                sessions.iter().filter(|(_, session)| is_gone(session)).map(|(id, _)| *id).collect();
            ids.iter().filter_map(|id| sessions.remove(id)).collect()
        };
        if !gone.is_empty() {
            *self.idle_since.lock().unwrap_or_else(|p| p.into_inner()) = Instant::now();
        }
        for session in gone {
            session.close(Some(Failure::new(FailureKind::Connection, "serve", why)));
        }
    }

    /// A knob of a transfer that we send. One that is over, or that we receive, has none.
    fn steer(session: &Session, number: TransferNumber, steer: &Steer) {
        for transfer in session.transfers() {
            match transfer {
                Transfer::Send(run) if run.number() == number => run.steer(steer),
                Transfer::SendFlows(run) if run.number() == number => run.steer(steer),
                _ => {}
            }
        }
    }

    fn open(&self, session: &Arc<Session>, open: Open) {
        let number = open.transfer;
        let form = open.source.clone();
        let instance = self.instances.fetch_add(1, Ordering::Relaxed);
        if let Some(frames) = open.frames.clone() {
            return self.open_frames(session, open, &frames);
        }
        let opened = match (open.direction, open.flow.clone()) {
            (Direction::Push, None) => self.open_push(session, open).map(|()| form.clone()),
            (Direction::Pull, None) => self.open_pull(session, open),
            (Direction::Push, Some(flow)) => self.receive_flows(session, open, flow).map(|()| form.clone()),
            (Direction::Pull, Some(flow)) => self.send_flows(session, open, flow),
        };
        let (source, refused) = match opened {
            Ok(source) => (source, None),
            Err(failure) => {
                // What the client says to it now crossed our answer.
                session.remove(number);
                (form, Some(failure))
            }
        };
        let starts = refused.is_none();
        let said = session.say(Message::Opened(Opened { transfer: number, source, instance, refused }));
        if let Err(failure) = said {
            tracing::info!(%failure, "the client is gone before its transfer began");
        }
        if starts
            && let Some(Transfer::Send(run)) = session
                .transfers()
                .into_iter()
                .find(|t| matches!(t, Transfer::Send(run) if run.number() == number))
            && let Err(error) = run.start()
        {
            run.abort(failure::of_io("start", &error));
        }
    }

    fn open_push(&self, session: &Arc<Session>, open: Open) -> Result<()> {
        let is_trial = open.trial.is_some();
        let destination: Arc<dyn Destination> = match open.trial {
            None => Arc::new(self.open_destination(session, &open)?),
            Some(Trial::Scratch { bytes_max }) => {
                let place = self.exports.resolve(&open.places[0], true)?;
                let place = DestinationPlace { path: path_of(place.path), below: place.below };
                let terms = open.terms.clone();
                Arc::new(LocalDestination::open_scratch(&place, &open.source, terms, bytes_max)?)
            }
            Some(_) => {
                // Nothing is written; who may not even name the place shall not measure either.
                self.exports.resolve(&open.places[0], false)?;
                Arc::new(NullDestination::default())
            }
        };
        let told = Served::begin(self.state.as_deref(), &open, &session.peer.to_string());
        let run = ReceiveRun::start(
            open.transfer,
            destination,
            open.terms,
            receiver::Limits::default(),
            session.outbox(),
            event::nobody(),
        )
        .map_err(|error| failure::of_io("start", &error))?;
        if let Err(failure) = session.add(open.transfer, Transfer::Receive(run.clone())) {
            run.close();
            return Err(failure);
        }
        let (host, session, work) = (self.strong()?, session.clone(), self.work.clone());
        in_thread("transfer", move || {
            let _work = work;
            let seen = || (run.progress().settled_entries, run.peer_accounts(), run.side());
            host.receive_to_the_end(&session, told.as_ref(), is_trial, &*run, seen);
            session.remove(run.number());
        })
    }

    fn open_destination(&self, session: &Arc<Session>, open: &Open) -> Result<LocalDestination> {
        self.when_free(session, &open.terms.job_key, || {
            let place = self.exports.resolve(&open.places[0], !open.terms.dry_run)?;
            LocalDestination::open(
                DestinationPlace { path: path_of(place.path), below: place.below },
                &open.source,
                place.trailing_slash,
                open.terms.clone(),
                self.state.clone(),
                Filter::new(open.filter.clone())?,
            )
        })
    }

    /// Where the job's lock is held by an older session of the same client that was cut off, this is that client
    /// again under the same command: the older session ends, what it made durable stays.
    pub(crate) fn when_free<T>(
        &self,
        session: &Arc<Session>,
        job_key: &[u8; 16],
        open: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let since = Instant::now();
        loop {
            let busy = match open() {
                Err(failure) if failure.kind == FailureKind::Busy => failure,
                other => return other,
            };
            match self.holder(session, job_key) {
                Some(holder) if holder.lost_since().is_some() || is_silent(&holder) => {
                    tracing::info!("a client begins its job anew; its older session ends");
                    let cause = "the same client began the job anew";
                    holder.close(Some(Failure::new(FailureKind::Connection, "serve", cause)));
                }
                // It lives: what it says now was not on its way when we began to ask.
                Some(holder) if holder.heard_at().is_some_and(|at| at > since + IN_FLIGHT) => {
                    return Err(busy);
                }
                // Nobody's, or one that is just closing.
                None if since.elapsed() > CLOSING => return Err(busy),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Another session of the same client that receives for this job.
    fn holder(&self, session: &Arc<Session>, job_key: &[u8; 16]) -> Option<Arc<Session>> {
        let others: Vec<_> = self.sessions().values().cloned().collect();
        others.into_iter().find(|other| {
            !Arc::ptr_eq(other, session)
                && other.peer.matches(&session.peer)
                && other.transfers().iter().any(|transfer| match transfer {
                    Transfer::Receive(run) => run.terms.job_key == *job_key,
                    Transfer::ReceiveFlows(run) => run.terms.job_key == *job_key,
                    Transfer::Send(_) | Transfer::SendFlows(_) | Transfer::Frames(_) => false,
                })
        })
    }

    fn open_pull(&self, session: &Arc<Session>, open: Open) -> Result<SourceForm> {
        if let Some(name) = &open.terms.congestion {
            check_congestion(name)?;
        }
        let roots = open
            .places
            .iter()
            .map(|place| {
                let place = self.exports.resolve(place, false)?;
                Ok(SourceRoot {
                    path: path_of(place.path),
                    contents: place.trailing_slash,
                    below: place.below,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let options = ScanOptions {
            filter: Filter::new(open.filter.clone())?,
            only: open.only.clone(),
            preserve: open.terms.preserve,
            one_file_system: false,
            follow_links: false,
            direct: open.terms.disk.source.direct,
        };
        let is_trial = open.trial.is_some();
        let (source, form): (Arc<dyn Source>, SourceForm) = match open.trial {
            Some(Trial::Noise { bytes, file_bytes }) => {
                (Arc::new(NoiseSource { bytes, file_bytes }), SourceForm::Many)
            }
            trial => {
                let source = LocalSource::open(roots, options)?;
                let form = source.form();
                match trial {
                    Some(Trial::Source { bytes_max }) => {
                        (Arc::new(SparingSource::new(Arc::new(source), bytes_max)), form)
                    }
                    _ => (Arc::new(source), form),
                }
            }
        };
        let limits = sender::Limits::for_terms(&open.terms);
        let told = Served::begin(self.state.as_deref(), &open, &session.peer.to_string());
        let run = SendRun::new(open.transfer, source, open.terms, limits, session.outbox(), event::nobody());
        session.add(open.transfer, Transfer::Send(run.clone()))?;
        let (host, session, work) = (self.strong()?, session.clone(), self.work.clone());
        in_thread("transfer", move || {
            let _work = work;
            let seen = || (run.progress().entries_settled, run.side(), run.peer_accounts());
            if let Some(ended) = watch(told.as_ref(), &session, is_trial, |time| run.wait(time), seen) {
                match agree::totals_of(ended).and_then(|totals| {
                    agree::as_sender(&*run, &host.signer(&session), totals, agree::STATEMENT_TIMEOUT)
                }) {
                    Ok(agreed) => tracing::info!(root = %agreed.sender.statement.root, "sent"),
                    Err(failure) => tracing::warn!(%failure, "transfer failed"),
                }
            }
            session.remove(run.number());
        })?;
        Ok(form)
    }

    /// Until a receiving side has ended, and was agreed on.
    pub(crate) fn receive_to_the_end(
        &self,
        session: &Session,
        told: Option<&Served>,
        is_trial: bool,
        run: &dyn Party,
        seen: impl Fn() -> (u64, SideAccounts, SideAccounts),
    ) {
        if let Some(ended) = watch(told, session, is_trial, |time| run.wait(time), seen) {
            match agree::totals_of(ended).and_then(|totals| {
                agree::as_receiver(run, &self.signer(session), totals, agree::STATEMENT_TIMEOUT)
            }) {
                Ok(agreed) => tracing::info!(root = %agreed.receiver.statement.root, "received"),
                Err(failure) => tracing::warn!(%failure, "transfer failed"),
            }
        }
        run.close();
    }

    pub(crate) fn signer(&self, session: &Session) -> Signer<'_> {
        Signer { identity: &self.identity, peer: session.peer, header: None }
    }

    pub(crate) fn strong(&self) -> Result<Arc<Host>> {
        self.this
            .upgrade()
            .ok_or_else(|| Failure::new(FailureKind::Stopped, "serve", "the server is shutting down"))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct ServerOwner {
    host: Weak<Host>,
    requests: Arc<AtomicU64>,
    /// Questions that are being answered, by their numbers.
    answers: Arc<Mutex<HashMap<u32, Arc<Room>>>>,
    limit: usize,
}

impl Owner for ServerOwner {
    fn on_message(&self, session: &Arc<Session>, message: Message) {
        let Some(host) = self.host.upgrade() else { return };
        let broken = |cause: &str| {
            session.close(Some(Failure::new(FailureKind::Protocol, "serve", cause)));
        };
        let rooms = || self.answers.lock().unwrap_or_else(|p| p.into_inner());
        // Of an answer that has ended meanwhile there is nothing to be held back.
        match message {
            Message::Taken { number, pieces } => {
                if let Some(room) = rooms().get(&number) {
                    room.taken(pieces);
                }
                return;
            }
            Message::Steer(number, steer) => return Host::steer(session, number, &steer),
            Message::Enough { number } => {
                if let Some(room) = rooms().get(&number) {
                    room.enough();
                }
                return;
            }
            _ => {}
        }
        if self.requests.fetch_add(1, Ordering::AcqRel) >= self.limit as u64 {
            self.requests.fetch_sub(1, Ordering::AcqRel);
            return broken("too many requests at once");
        }
        let room = Arc::new(Room::new());
        if let Message::Ask { number, .. } = &message
            && rooms().insert(*number, room.clone()).is_some()
        {
            return broken("two questions have the same number");
        }
        let (session, requests, answers) = (session.clone(), self.requests.clone(), self.answers.clone());
        let work = move || {
            match message {
                Message::Open(open) => host.open(&session, *open),
                Message::Ask { number, question } => {
                    answer::answer(&host, &session, number, question, &room);
                    answers.lock().unwrap_or_else(|p| p.into_inner()).remove(&number);
                }
                _ => {
                    let cause = "the client said what only a server says";
                    session.close(Some(Failure::new(FailureKind::Protocol, "serve", cause)));
                }
            }
            requests.fetch_sub(1, Ordering::AcqRel);
        };
        if let Err(failure) = in_thread("request", work) {
            tracing::error!(%failure, "request not served");
            self.requests.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn on_link_lost(&self, _: &Arc<Session>, why: &Failure) {
        tracing::info!(%why, "link lost");
    }

    fn on_stream_lost(&self, _: &Arc<Session>, stream: u16, why: &Failure) {
        tracing::info!(stream, %why, "stream lost");
    }

    fn portion_bytes(&self) -> usize {
        let host = self.host.upgrade();
        host.as_ref().and_then(|host| host.slots.as_ref()).map_or(usize::MAX, Slots::portion_bytes)
    }

    fn before_taking(&self, session: &Session, took: u64, is_over: &dyn Fn() -> bool) {
        let host = self.host.upgrade();
        if let Some(slots) = host.as_ref().and_then(|host| host.slots.as_ref()) {
            slots.wait_for_turn(&session.id, took, is_over);
        }
    }

    fn on_stream_stuck(&self, session: &Arc<Session>, stream: u16) {
        // Without a link it is dialled anew anyway.
        let _ = session.say(Message::Stuck { stream });
    }
}

/// What the transfers of a session ask of its streams.
fn wanted_path(session: &Session) -> PathHints {
    let mut path =
        PathHints { frame_bytes: thalweg_mover::plan::SEGMENT_BYTES as usize, ..PathHints::default() };
    for transfer in session.transfers() {
        let (terms, sends) = match &transfer {
            Transfer::Send(run) => (&run.terms, true),
            Transfer::Receive(run) => (&run.terms, false),
            Transfer::SendFlows(run) => (&run.terms, true),
            Transfer::ReceiveFlows(run) => (&run.terms, false),
            Transfer::Frames(run) => (run.terms(), run.sends()),
        };
        path.window_bytes = path.window_bytes.or(terms.window_bytes);
        path.share_bytes = path.share_bytes.or(terms.share_bytes.filter(|_| sends));
        path.dscp = path.dscp.or(terms.dscp);
        path.congestion = path.congestion.or(terms.congestion.clone().filter(|_| sends));
    }
    path
}

/// Only what everybody on this machine may choose: on a client's word no module is loaded.
pub(crate) fn check_congestion(name: &str) -> Result<()> {
    let allowed = thalweg_sys::socket::allowed_congestion().unwrap_or_default();
    if allowed.iter().any(|known| known == name) {
        return Ok(());
    }
    let cause =
        format!("the congestion control `{name}` is not permitted here; permitted: {}", allowed.join(", "));
    Err(Failure::new(FailureKind::Unsupported, "open", cause))
}

fn is_silent(session: &Session) -> bool {
    session.heard_at().is_some_and(|at| at.elapsed() > SILENCE)
}

fn proves(session: &Session, connection: &Connection, hello: &Hello) -> bool {
    let ours = match hello.purpose {
        Purpose::Stream => stream_proof(&session.key, connection, &session.id, hello.stream),
        Purpose::Resume => resume_proof(&session.key, connection, &session.id),
        Purpose::Control => return false,
    };
    connection.peer_fingerprint().matches(&session.peer)
        && ours.is_ok_and(|ours| proof_matches(&ours, &hello.proof))
}

pub(crate) fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

pub(crate) fn in_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
        .map(drop)
        .map_err(|error| failure::of_io("start a thread", &error))
}

/// Waits until a transfer has ended, or its session, and tells meanwhile what is `seen`: entries settled, and where the
/// time goes at the sending and at the receiving side.
pub(crate) fn watch(
    told: Option<&Served>,
    session: &Session,
    is_trial: bool,
    wait: impl Fn(Duration) -> Option<Ended>,
    seen: impl Fn() -> (u64, SideAccounts, SideAccounts),
) -> Option<Ended> {
    let tell = || {
        if let Some(told) = told {
            let (entries, sender, receiver) = seen();
            told.tell(session.streams().len(), entries, sender, receiver);
        }
    };
    let ended = loop {
        match wait(TELL_EVERY) {
            // Nobody comes back for a measurement.
            None if is_trial && session.lost_since().is_some() => break None,
            None if !session.is_closed() => tell(),
            ended => break ended,
        }
    };
    tell();
    if let Some(told) = told {
        told.end(matches!(ended, Some(Ended::Finished(_))));
    }
    ended
}
