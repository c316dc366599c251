//! The server's side of sessions: admits connections, opens transfers, waits for clients that were cut off,
//! and cleans up behind those that do not come back. [`Host`] is that server, whatever process it is in: a daemon, a
//! mover that ssh started, a program with a hub of its own.

use crate::accept::source_of;
use crate::export::{Changes, Exports};
use crate::log::{Failures, of_session};
use crate::slots::Slots;
use owner::ServerOwner;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{
    Connection, ControlLimits, Fingerprint, Identity, PathHints, Role, STALL_TIMEOUT, TlsForm, own_system,
    proof_matches, resume_proof, set_stream_options, stream_proof,
};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::agree::Signer;
use thalweg_mover::run::client::PATIENCE;
use thalweg_mover::run::frames::hub::Hub;
use thalweg_mover::run::sender::SendRun;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::share::{Share, Total};
use thalweg_mover::run::steer::Rate;
use thalweg_mover::run::thread;
use thalweg_sys::machine;
use thalweg_wire::hello::{self, Answer, Cipher, Hello, Purpose, ServerHello, SessionId};
use thalweg_wire::message::{Open, Place, Request};
use thalweg_wire::receipt::{Signatory, TransferKind};
use thalweg_wire::{Digest, limits};

mod opening;

mod removal;

mod owner;

pub(crate) use opening::{Bounds, check_congestion, logged_notes, path_of};

/// Streams of a server for each of its sessions, on the whole.
const STREAMS_EACH: usize = 8;

/// Bounds of a server.
#[derive(Debug, Clone)]
pub struct HostLimits {
    /// Sessions at the same time.
    pub sessions: usize,
    /// Of these, with the same certificate from the same address (of IPv6: the same network of 64 bits). All who have a
    /// daemon's ticket have the same certificate: the address is what tells them apart, and keeps one from taking all.
    pub sessions_per_address: usize,
    /// Data streams at the same time.
    pub streams: usize,
    /// Of these, of sessions that count as one, as above.
    pub streams_per_address: usize,
    /// How long a session without a link is kept for its client to come back.
    pub patience: Duration,
    /// Without a sign of life for so long, a link counts as lost.
    pub stall_timeout: Duration,
    /// Requests of one session that are worked on at the same time.
    pub requests: usize,
    /// Bytes of frames that all channels together may hold in memory.
    pub channel_bytes_max: u64,
    /// Bytes of the spill log of each channel, where its export does not say otherwise.
    pub spill_bytes_max: u64,
    /// Bytes of what clients may have it keep in memory beside that, and beside buffers: entries, outcomes,
    /// lines of receipts, pieces and names of streams, messages. Where it is more, the largest session ends of those
    /// that count as one, as above, and have most. `usize::MAX`: no bound.
    pub held_bytes_max: usize,
    /// How streams in TLS form are.
    pub tls_form: TlsForm,
    /// Transfers of sessions whose streams are in another form are refused.
    pub requires_tls: bool,
    /// What the way to it carries, in bits a second, if it is to be given away in slots.
    pub slots_bits_per_s: Option<u64>,
    /// How long it was seen to take to make durable what arrived, before anything did.
    pub settle: Duration,
    /// What all sessions move together at most, both directions in one; it may change at any time.
    pub rate: Arc<Rate>,
}

impl Default for HostLimits {
    fn default() -> Self {
        HostLimits {
            sessions: HostLimits::SESSIONS,
            // Half of all: behind one address may be a whole site.
            sessions_per_address: HostLimits::SESSIONS / 2,
            streams: HostLimits::SESSIONS * STREAMS_EACH,
            streams_per_address: HostLimits::SESSIONS / 2 * STREAMS_EACH,
            patience: PATIENCE,
            stall_timeout: STALL_TIMEOUT,
            requests: 32,
            channel_bytes_max: limits::CHANNEL_BYTES_MAX,
            spill_bytes_max: limits::SPILL_BYTES_MAX,
            held_bytes_max: usize::MAX,
            tls_form: TlsForm::default(),
            requires_tls: false,
            slots_bits_per_s: None,
            settle: Duration::ZERO,
            rate: Arc::default(),
        }
    }
}

impl HostLimits {
    /// Sessions where nobody says how many.
    pub const SESSIONS: usize = 256;

    /// The same for so many sessions, and so many of them of one address (default: half), at least one. Where there are
    /// more sessions there are more streams; where there are fewer, as many.
    pub fn for_sessions(self, sessions: usize, per_address: Option<usize>) -> HostLimits {
        let sessions = sessions.max(1);
        let sessions_per_address = per_address.unwrap_or(sessions / 2).clamp(1, sessions);
        HostLimits {
            sessions,
            sessions_per_address,
            streams: self.streams.max(sessions * STREAMS_EACH),
            streams_per_address: self.streams_per_address.max(sessions_per_address * STREAMS_EACH),
            ..self
        }
    }
}

/// How long a session without link and transfers is kept.
const IDLE_PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks for what nobody comes back for.
const REAP_EVERY: Duration = Duration::from_millis(250);
/// Time for what was received to be put away at the end: a client has its last word before that is done.
const CONCLUDE_TIMEOUT: Duration = Duration::from_secs(30);
/// Of that, the time in which sessions may end before the channels of frames do.
const SESSIONS_FIRST: Duration = Duration::from_secs(5);
/// Between two looks whether it is.
const CONCLUDE_LOOK: Duration = Duration::from_millis(5);

/// What the transfers of an export have a share of.
struct ExportTotal {
    /// That of the export; a reload changes it.
    rate: Arc<Rate>,
    /// Shared by its transfers.
    total: Arc<Total>,
}

/// See the module.
pub struct Host {
    identity: Identity,
    /// Replaced as a whole: see [`Host::replace_exports`].
    exports: Mutex<Exports>,
    pub(crate) state: Option<PathBuf>,
    /// Channels of frames.
    pub(crate) hub: Hub,
    limits: HostLimits,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Transfers that remove their source files, each with its session, which may be closed by now.
    removals: Mutex<Vec<(Arc<Session>, Arc<SendRun>)>>,
    idle_since: Mutex<Instant>,
    /// Held while a part is measured alone: two at once would measure each other.
    pub(crate) measuring: Mutex<()>,
    pub(crate) slots: Option<Slots>,
    /// What all sessions have a share of.
    total: Arc<Total>,
    /// What transfers have a share of, by their exports. One that is no more keeps what it had, for what is under way.
    export_totals: Mutex<HashMap<String, ExportTotal>>,
    /// What failed of late, for the log.
    pub(crate) failures: Arc<Failures>,
    /// Each copy and stream has a clone until it is concluded.
    pub(crate) work: Arc<()>,
    /// Each session that is being closed has a clone: on a disk that stands still that takes as long as it stands.
    closing: Arc<()>,
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
            exports: Mutex::new(exports),
            state,
            slots: limits.slots_bits_per_s.map(|bits| Slots::new(bits, limits.settle)),
            hub: Hub::new(limits.channel_bytes_max),
            total: Total::new(limits.rate.clone(), machine::host_name()),
            export_totals: Mutex::default(),
            limits,
            sessions: Mutex::default(),
            removals: Mutex::default(),
            idle_since: Mutex::new(Instant::now()),
            measuring: Mutex::default(),
            failures: Arc::default(),
            work: Arc::default(),
            closing: Arc::default(),
            this: this.clone(),
        });
        host.limit_exports(&host.exports());
        host.again_and_again("reaper", Host::reap);
        if host.limits.held_bytes_max < usize::MAX {
            host.again_and_again("memory", Host::bound_memory);
        }
        // On a thread of its own: logs of channels are on disks, which may stand still.
        host.again_and_again("channels", |host| host.hub.reap(host.limits.patience));
        host
    }

    /// Does this every [`REAP_EVERY`], as long as there is a host.
    fn again_and_again(&self, name: &'static str, work: fn(&Host)) {
        let (host, again) = (self.this.clone(), self.this.clone());
        let go_on = move || {
            while let Some(host) = host.upgrade() {
                work(&host);
                drop(host);
                std::thread::sleep(REAP_EVERY);
            }
        };
        // What it panicked over may be gone by then.
        let on_panic = move |_: Failure| {
            std::thread::sleep(REAP_EVERY);
            if let Some(host) = again.upgrade() {
                host.again_and_again(name, work);
            }
        };
        if let Err(failure) = thread::guarded(name, on_panic, go_on) {
            tracing::error!(%failure, "nobody cleans up");
        }
    }

    /// What clients may reach now.
    pub(crate) fn exports(&self) -> Exports {
        self.exports.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Lets clients reach these from now on, and says what is other than before. What is under way keeps the directory
    /// that it began with, and so does a channel of frames that is open.
    pub fn replace_exports(&self, exports: Exports) -> Changes {
        // First: a transfer that is opened in between would have no share, as long as it lasts.
        self.limit_exports(&exports);
        // Compared and closed without the lock: one that was on a file system whose server is away takes as long as
        // that is.
        let before = std::mem::replace(&mut *lock(&self.exports), exports.clone());
        before.changes(&exports)
    }

    /// Has each export move what it may by now, also what is under way there.
    fn limit_exports(&self, exports: &Exports) {
        let mut totals = lock(&self.export_totals);
        for (name, bits_per_s) in exports.limits() {
            let of_export = || {
                let rate = Arc::<Rate>::default();
                let total = Total::of_export(rate.clone(), machine::host_name(), name.clone());
                ExportTotal { rate, total }
            };
            totals.entry(name.clone()).or_insert_with(of_export).rate.set_bits(bits_per_s);
        }
    }

    /// A share for a transfer at these places, of what their export may move; of several exports, that which may move
    /// least. `None` where there is no export.
    fn share_at(&self, places: &[Place]) -> Option<Share> {
        let totals = lock(&self.export_totals);
        let exports = places.iter().filter_map(|place| place.export.as_ref());
        let limits = exports.filter_map(|name| totals.get(name));
        let least = limits.min_by_key(|of| of.rate.bytes_per_s().unwrap_or(u64::MAX));
        least.map(|of| of.total.share())
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
                if self.is_full(&Origin::of(&connection)) {
                    answer.answer = Answer::Busy;
                    connection.answer(&answer, left())?;
                    let cause = "there are as many as there may be";
                    return Err(Failure::new(FailureKind::Busy, "begin a session", cause));
                }
                let mut id = [0; 16];
                let cause = "no random numbers";
                aws_lc_rs::rand::fill(&mut id)
                    .map_err(|_| Failure::new(FailureKind::Internal, "begin a session", cause))?;
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
                    let cause = "its session is not known, or the proof for it is wrong";
                    return Err(Failure::new(FailureKind::NotFound, "join a session", cause));
                };
                answer.cipher = session.cipher;
                if hello.purpose == Purpose::Resume {
                    connection.answer(&answer, left())?;
                    return session.attach_control(connection);
                }
                if !self.has_room_for_stream(&session) {
                    answer.answer = Answer::Busy;
                    connection.answer(&answer, left())?;
                    let cause = "there are as many as there may be";
                    return Err(Failure::new(FailureKind::Busy, "add a stream", cause));
                }
                connection.answer(&answer, left())?;
                connection.set_tls_form(self.limits.tls_form);
                let (writer, reader) =
                    connection.into_streams(session.cipher, &session.id, hello.stream, Role::Server)?;
                if let Some(decision) = writer.kernel_tls() {
                    of_session!(info, &session, stream = hello.stream, %decision, "stream in TLS form");
                }
                let rtt = thalweg_sys::socket::tcp_info(writer.fd()).ok().map(|info| info.rtt_min);
                let path = session.wanted_path();
                set_stream_options(writer.fd(), &PathHints { rtt, ..path.clone() });
                // A session that is new since the last look is held to small windows from its first stream on.
                self.narrow_beside_slots();
                session.attach_stream(hello.stream, writer, reader)?;
                // A transfer that was added meanwhile did not find the stream.
                if session.wanted_path() != path {
                    session.set_stream_options();
                }
                Ok(())
            }
        }
    }

    /// How long a session without a link is kept.
    pub(crate) fn patience(&self) -> Duration {
        self.limits.patience
    }

    /// Bytes of the spill log of each channel, where its export does not say otherwise.
    pub(crate) fn spill_bytes_max(&self) -> u64 {
        self.limits.spill_bytes_max
    }

    /// Bytes of what clients may have it keep.
    pub(crate) fn held_bytes_max(&self) -> usize {
        self.limits.held_bytes_max
    }

    /// Sessions that are not over, linked or not.
    pub fn session_count(&self) -> usize {
        self.sessions().values().filter(|session| !session.is_closed()).count()
    }

    /// Whether another session from there would be one too many, of all or of those from there. Sessions that have
    /// ended, or have neither link nor transfer, make room at once; then the one from there that has been without a
    /// link for longest: a client that was killed begins the same command again.
    fn is_full(&self, origin: &Origin) -> bool {
        let is_over = |sessions: &HashMap<SessionId, Arc<Session>>| {
            let theirs = sessions.values().filter(|session| origin.counts(session)).count();
            sessions.len() >= self.limits.sessions || theirs >= self.limits.sessions_per_address
        };
        if !is_over(&self.sessions()) {
            return false;
        }
        self.end_all("nothing was under way", |session| {
            session.is_closed() || (session.lost_since().is_some() && session.transfers().is_empty())
        });
        if !is_over(&self.sessions()) {
            return false;
        }
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        let lost = sessions.into_iter().filter(|session| origin.counts(session));
        let lost = lost.filter_map(|session| Some((session.lost_since()?, session)));
        if let Some((_, longest)) = lost.min_by_key(|(since, _)| *since) {
            self.end_all("its client was cut off, and there is no room for another beside it", |session| {
                std::ptr::eq(session, &*longest)
            });
        }
        is_over(&self.sessions())
    }

    /// Whether this session may have another stream: it counts where its session came from, whatever way it takes
    /// itself.
    fn has_room_for_stream(&self, session: &Session) -> bool {
        let origin = Origin::of_session(session);
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        let streams = |session: &Arc<Session>| session.streams().len();
        let all: usize = sessions.iter().map(streams).sum();
        let theirs: usize = sessions.iter().filter(|other| origin.counts(other)).map(streams).sum();
        all < self.limits.streams && theirs < self.limits.streams_per_address
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
        lock(&self.idle_since).elapsed()
    }

    /// Ends all sessions in order; what they received stays for the next attempt, and what was complete is put away
    /// when this returns: that is waited for, for [`CONCLUDE_TIMEOUT`] at most.
    pub fn stop(&self) {
        let until = Instant::now() + CONCLUDE_TIMEOUT;
        let sessions = self.end_sessions();
        self.close_hub(&sessions);
        // Also of sessions that their clients have ended, a moment ago.
        let is_done = || !self.is_at_work() && sessions.iter().all(|session| session.is_put_away());
        while !is_done() && Instant::now() < until {
            std::thread::sleep(CONCLUDE_LOOK);
        }
        if !is_done() {
            tracing::warn!("what was received is not put away: the disk takes too long");
        }
    }

    /// Each on a thread of its own, which is not waited for: one whose disk stands still holds up no other.
    fn end_sessions(&self) -> Vec<Arc<Session>> {
        let sessions: Vec<_> = self.sessions().drain().map(|(_, session)| session).collect();
        for session in &sessions {
            let cause = "the server is shutting down; the transfer resumes with the same command";
            of_session!(info, session, why = cause, "session ended");
            let why = Failure::new(FailureKind::Connection, "serve", cause);
            let (closed, failure, work) = (session.clone(), why.clone(), self.work.clone());
            let close = move || {
                let _work = work;
                closed.close(Some(failure));
            };
            if thread::guarded("close", drop, close).is_err() {
                session.close(Some(why));
            }
        }
        sessions
    }

    /// On a thread of its own too, behind the sessions that feed its channels, where these do not take long.
    fn close_hub(&self, sessions: &[Arc<Session>]) {
        let (host, sessions, work) = (self.this.clone(), sessions.to_vec(), self.work.clone());
        let close = move || {
            let _work = work;
            let until = Instant::now() + SESSIONS_FIRST;
            while !sessions.iter().all(|session| session.is_put_away()) && Instant::now() < until {
                std::thread::sleep(CONCLUDE_LOOK);
            }
            if let Some(host) = host.upgrade() {
                host.hub.close();
            }
        };
        if thread::guarded("close", drop, close).is_err() {
            self.hub.close();
        }
    }

    fn begin(&self, mut connection: Connection, answer: &ServerHello, deadline: Duration) -> Result<()> {
        let key = connection.export_session_key()?;
        let peer = connection.peer_fingerprint();
        let limits = ControlLimits { stall_timeout: self.limits.stall_timeout, ..ControlLimits::default() };
        let owner = ServerOwner {
            host: self.this.clone(),
            requests: Arc::default(),
            answers: Arc::default(),
            reads: Arc::default(),
            crew: Arc::default(),
            limit: self.limits.requests,
        };
        let session =
            Session::new(answer.session, key, answer.cipher, peer, limits, Box::new(owner), event::nobody())?;
        session.share_in(self.total.share());
        self.sessions().insert(answer.session, session.clone());
        // Known before it is answered: the client may dial streams at once.
        let begun = connection.answer(answer, deadline).and_then(|()| session.attach_control(connection));
        match &begun {
            Ok(()) => of_session!(info, &session, "session begun"),
            Err(_) => drop(self.sessions().remove(&answer.session)),
        }
        begun
    }

    fn reap(&self) {
        self.narrow_beside_slots();
        self.failures.tidy(Instant::now());
        self.end_all("the client did not come back", |session| {
            // With nothing under way there is nothing to come back for.
            let patience = match session.transfers().is_empty() {
                true => self.limits.patience.min(IDLE_PATIENCE),
                false => self.limits.patience,
            };
            session.is_put_away() || session.lost_since().is_some_and(|at| at.elapsed() > patience)
        });
    }

    /// Ends sessions whose peers have too much kept here, until what is left is within bounds. Between two
    /// looks it grows by what came meanwhile.
    fn bound_memory(&self) {
        let most = self.limits.held_bytes_max;
        let mut sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        let mut held: Vec<(Origin, usize)> =
            sessions.iter().map(|session| (Origin::of_session(session), session.held_bytes())).collect();
        while let Some(at) = one_too_much(&held, most) {
            held.swap_remove(at);
            let greedy = sessions.swap_remove(at);
            let why = "what its client had the server keep in memory is more than there is for it";
            self.end_all(why, |session| std::ptr::eq(session, &*greedy));
        }
    }

    /// What comes without a slot shall have little under way when a window opens.
    pub(crate) fn narrow_beside_slots(&self) {
        let Some(slots) = &self.slots else { return };
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        slots.narrow(&sessions);
    }

    /// Ends the sessions that are `gone`, each on a thread of its own: one whose disk stands still holds up no other.
    /// So many at a time as there may be sessions; the others stay for the next look.
    fn end_all(&self, why: &str, is_gone: impl Fn(&Session) -> bool) {
        let mut gone = Vec::new();
        // One clone is ours.
        let mut room = (self.limits.sessions + 1).saturating_sub(Arc::strong_count(&self.closing));
        self.sessions().retain(|_, session| {
            let is_closed = session.is_closed();
            if !is_gone(session) || !is_closed && room == 0 {
                return true;
            }
            room -= usize::from(!is_closed);
            gone.push(session.clone());
            false
        });
        if !gone.is_empty() {
            *lock(&self.idle_since) = Instant::now();
        }
        for session in gone.into_iter().filter(|session: &Arc<Session>| !session.is_closed()) {
            of_session!(info, &session, why, "session ended");
            let held = (self.closing.clone(), self.work.clone());
            let failure = Failure::new(FailureKind::Connection, "serve", why);
            let closed = session.clone();
            let close = move || {
                let _held = held;
                closed.close(Some(failure));
            };
            if let Err(failure) = thread::guarded("close", drop, close) {
                of_session!(warn, &session, %failure, "a session is not closed yet");
                self.sessions().insert(session.id, session);
            }
        }
    }

    /// Who signs what was opened so; `None` if nobody does. `place`: where we write.
    pub(crate) fn signs(session: &Session, open: &Open, place: Option<Place>) -> Option<Signs> {
        // What is thrown away, or was not moved, would pass for what is kept.
        if open.is_trial() || open.terms.dry_run {
            return None;
        }
        let kind = match &open.request {
            Request::Push(_) | Request::Pull(_) => TransferKind::Files,
            Request::FlowPush { .. } | Request::FlowPull { .. } => TransferKind::Stream,
            Request::Frames { .. } => return None,
        };
        let shown = Signatory { certificate: session.peer.0, is_ephemeral: false };
        Some(Signs { kind, client: open.signer.unwrap_or(shown), session: session.tie(open.transfer), place })
    }

    pub(crate) fn signer(&self, signs: &Signs) -> Signer<'_> {
        let Signs { kind, client, session, place } = signs.clone();
        let session = Some(session);
        Signer { identity: &self.identity, kind, peer: client, session, place, header: None }
    }

    pub(crate) fn strong(&self) -> Result<Arc<Host>> {
        self.this
            .upgrade()
            .ok_or_else(|| Failure::new(FailureKind::Stopped, "serve", "the server is shutting down"))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        lock(&self.sessions)
    }
}

/// What is known of the statements of a transfer when it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Signs {
    kind: TransferKind,
    /// Who signs for the client.
    client: Signatory,
    session: Digest,
    place: Option<Place>,
}

/// Who counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// With this certificate.
    pub client: Fingerprint,
    /// From this address, or network; `None` for what is no internet socket.
    pub source: Option<IpAddr>,
}

impl Origin {
    /// Of a connection.
    pub fn of(connection: &Connection) -> Origin {
        Origin {
            client: connection.peer_fingerprint(),
            source: connection.peer_address().map(|address| source_of(address.ip())),
        }
    }

    /// Of a session, by the link that stands or stood last.
    pub fn of_session(session: &Session) -> Origin {
        Origin { client: session.peer, source: session.peer_address().map(|address| source_of(address.ip())) }
    }

    /// Whether that session counts here. One of which is not known where it is from counts everywhere: it has just
    /// begun.
    fn counts(&self, session: &Session) -> bool {
        let other = Origin::of_session(session);
        let may_be_there = other.source.is_none() || other.source == self.source;
        may_be_there && other.client.matches(&self.client)
    }
}

/// Which of these sessions is to end, where all together hold more than `most`: that with most bytes of those
/// that count as one and have most. What nobody else needs, one may have.
fn one_too_much(held: &[(Origin, usize)], most: usize) -> Option<usize> {
    let mut by_origin: HashMap<Origin, usize> = HashMap::new();
    for (origin, bytes) in held {
        *by_origin.entry(*origin).or_default() += bytes;
    }
    let all: usize = by_origin.values().sum();
    if all <= most {
        return None;
    }
    let (origin, _) = by_origin.into_iter().max_by_key(|(_, bytes)| *bytes)?;
    let of_them = held.iter().enumerate().filter(|(_, (other, _))| *other == origin);
    of_them.max_by_key(|(_, (_, bytes))| *bytes).map(|(at, _)| at)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Export, Rights};
    use crate::log::{Done, Line};
    use crate::sessions::opening::ServedTransfer;
    use owner::ServerOwner;
    use std::sync::mpsc;
    use thalweg_mover::endpoint::synthetic::NullDestination;
    use thalweg_mover::endpoint::testing::{HeldUp, Hold};
    use thalweg_mover::run::Ended;
    use thalweg_mover::run::party::Party;
    use thalweg_mover::run::receiver::ReceiveRun;
    use thalweg_mover::transfer::receiver;
    use thalweg_wire::message::{Place, Question, Terms, TransferNumber};

    /// A disk that stands still when its destination is closed, until the test ends.
    struct Stuck {
        reached: mpsc::Sender<()>,
        goes_on: Mutex<mpsc::Receiver<()>>,
    }

    impl Hold for Stuck {
        fn close(&self) {
            let _ = self.reached.send(());
            let _ = self.goes_on.lock().unwrap_or_else(|p| p.into_inner()).recv();
        }
    }

    /// The lock of its job would stay with it.
    #[test]
    fn a_transfer_of_which_a_thread_panics_ends_with_that_and_is_put_away() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let number = TransferNumber(1);
        let (closes, closed) = mpsc::channel();
        let (goes_on, waits) = mpsc::channel();
        drop(goes_on);
        let stuck = Stuck { reached: closes, goes_on: Mutex::new(waits) };
        let (limits, outbox) = (receiver::Limits::default(), session.outbox());
        let terms = Terms::of(1 << 20, 1 << 16);
        let run =
            ReceiveRun::start(number, Arc::new(HeldUp::new(stuck)), terms, limits, outbox, event::nobody());
        let run = run.expect("threads");
        let place = Place { export: None, path: b"/x".to_vec() };
        let question = Question::Digest { place, chunk_bytes: 0, follow_links: false, after: None };
        let line = Line::of_question(&session, &question, Arc::default()).expect("a line");
        let panics = |_: &ReceiveRun| -> Done { panic!("as the test wants it") };
        let served = ServedTransfer { told: None, is_trial: false, line, signs: None };
        let (abort, taken) = (ReceiveRun::abort, |_: &ReceiveRun| 0);
        let bounds = Bounds { kept_free: None, taken, full: abort, abort };
        host.receive(&session, served, run.clone(), bounds, panics).expect("threads");
        closed.recv_timeout(LIMIT).expect("it is put away");
        match run.ended() {
            Some(Ended::Failed(why)) => assert_eq!(why.kind, FailureKind::Internal, "{why}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_trial_whose_link_is_lost_ends_with_that() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
        let (limits, outbox) = (receiver::Limits::default(), session.outbox());
        let destination = Arc::new(NullDestination::default());
        let run = ReceiveRun::start(number, destination, terms, limits, outbox, event::nobody());
        let run = run.expect("threads");
        let place = Place { export: None, path: b"/x".to_vec() };
        let question = Question::Digest { place, chunk_bytes: 0, follow_links: false, after: None };
        let line = Line::of_question(&session, &question, Arc::default()).expect("a line");
        let served = ServedTransfer { told: None, is_trial: true, line, signs: None };
        let (abort, taken) = (ReceiveRun::abort, |_: &ReceiveRun| 0);
        let bounds = Bounds { kept_free: None, taken, full: abort, abort };
        let by_then = |_: &ReceiveRun| Done::default();
        host.receive(&session, served, run.clone(), bounds, by_then).expect("threads");
        match run.wait(LIMIT) {
            Some(Ended::Failed(why)) => assert_eq!(why.kind, FailureKind::Connection, "{why}"),
            other => panic!("{other:?}"),
        }
    }

    /// A session of this host that was cut off.
    pub(super) fn cut_off(host: &Arc<Host>, id: u8) -> Arc<Session> {
        let owner = ServerOwner {
            host: host.this.clone(),
            requests: Arc::default(),
            answers: Arc::default(),
            reads: Arc::default(),
            crew: Arc::default(),
            limit: host.limits.requests,
        };
        let (key, peer) = ([id; 32].into(), Fingerprint([7; 32]));
        let limits = ControlLimits::default();
        let session =
            Session::new([id; 16], key, Cipher::Aes128Gcm, peer, limits, Box::new(owner), event::nobody())
                .expect("a session");
        session.drop_link(Failure::new(FailureKind::Connection, "test", "cut off"));
        session
    }

    /// Nobody waits for so long but in vain.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn transfers_of_an_export_share_its_limit_which_a_reload_changes() {
        let scratch = tempfile::tempdir().expect("a directory");
        let opened = |limits: [Option<u64>; 2]| {
            let of = |(name, bits_per_s_max)| {
                let rights = Rights { bits_per_s_max, ..Rights::default() };
                Export { rights, ..Export::of(name, scratch.path().to_path_buf()) }
            };
            Exports::open(["data", "other"].into_iter().zip(limits).map(of).collect()).expect("directories")
        };
        let identity = Identity::generate("server").expect("an identity");
        let host = Host::new(identity, opened([Some(8), None]), None, HostLimits::default());
        let at = |exports: &[&str]| {
            let place = |export: &&str| Place { export: Some((*export).to_owned()), path: b"x".to_vec() };
            host.share_at(&exports.iter().map(place).collect::<Vec<_>>())
        };
        let told = |exports: &[&str]| at(exports)?.told().map(|told| (told.bytes_per_s, told.export));
        let of = |bytes_per_s, name: &str| Some((bytes_per_s, Some(name.to_owned())));
        assert_eq!(told(&["data"]), of(1, "data"));
        assert_eq!((told(&["other"]), told(&["none"])), (None, None));
        assert_eq!(told(&["other", "data"]), of(1, "data"), "the lowest of several");
        // Two have one limit, and what was opened hears of the next.
        let (one, two) = (at(&["data"]).expect("a share"), at(&["data"]).expect("a share"));
        one.charge(1 << 40);
        assert!(two.wait(1, || false, || {}).is_some());
        let free = at(&["other"]).expect("a share");
        assert!(free.wait(1 << 40, || panic!("it waits"), || {}).is_none());
        host.replace_exports(opened([None, Some(16)]));
        assert!(one.told().is_none() && two.wait(1, || false, || {}).is_none());
        assert_eq!(free.told().map(|told| told.bytes_per_s), Some(2));
    }

    #[test]
    fn one_address_has_no_more_than_half_of_what_a_server_has() {
        let limits = HostLimits::default();
        assert!(limits.sessions_per_address * 2 <= limits.sessions, "{limits:?}");
        assert!(limits.streams_per_address * 2 <= limits.streams, "{limits:?}");
    }

    #[test]
    fn sessions_are_as_many_as_was_said_and_half_of_them_of_one_address_if_nobody_says() {
        let of = |sessions, per_address| {
            let limits = HostLimits::default().for_sessions(sessions, per_address);
            let streams = (limits.streams, limits.streams_per_address);
            (limits.sessions, limits.sessions_per_address, streams)
        };
        assert_eq!(of(256, None), (256, 128, (2048, 1024)));
        assert_eq!(of(256, Some(200)), (256, 200, (2048, 1600)));
        assert_eq!(of(1000, None), (1000, 500, (8000, 4000)));
        // A few sessions may have all streams that there were.
        assert_eq!(of(3, None), (3, 1, (2048, 1024)));
        assert_eq!(of(1, Some(7)), (1, 1, (2048, 1024)));
    }

    #[test]
    fn who_has_most_kept_in_memory_gives_way_where_all_have_too_much() {
        let of = |last: u8| {
            let source = Some(IpAddr::from([10, 0, 0, last]));
            Origin { client: Fingerprint([7; 32]), source }
        };
        let too_much = |held: &[(u8, usize)]| {
            let held: Vec<(Origin, usize)> = held.iter().map(|(last, bytes)| (of(*last), *bytes)).collect();
            one_too_much(&held, 100)
        };
        assert_eq!(too_much(&[]), None);
        assert_eq!(too_much(&[(1, 50), (2, 50)]), None);
        // Where nobody else needs it one address has all; one session more, and of its own the largest ends.
        assert_eq!(too_much(&[(1, 100)]), None);
        assert_eq!(too_much(&[(2, 40), (1, 20), (1, 31), (1, 0)]), None);
        assert_eq!(too_much(&[(2, 50), (1, 20), (1, 31), (1, 0)]), Some(2));
        // All together have too much: of those who have most, not of those with the largest session.
        assert_eq!(too_much(&[(1, 34), (2, 20), (2, 25), (3, 30)]), Some(2));
    }

    #[test]
    fn a_disk_that_stands_still_does_not_hold_up_the_end_of_a_server() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let (reached, reaches) = mpsc::channel();
        let (goes_on, waits) = mpsc::channel();
        let destination = Arc::new(HeldUp::new(Stuck { reached, goes_on: Mutex::new(waits) }));
        let session = cut_off(&host, 1);
        let (limits, outbox) = (receiver::Limits::default(), session.outbox());
        let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
        let run = ReceiveRun::start(number, destination, terms, limits, outbox, event::nobody());
        session.add(number, run.expect("threads")).expect("room");
        host.sessions().insert(session.id, session.clone());
        let (ends, ended) = mpsc::channel();
        let ending = {
            let host = host.clone();
            std::thread::spawn(move || ends.send(host.end_sessions().len()))
        };
        assert_eq!(ended.recv_timeout(LIMIT), Ok(1), "it waits for the disk");
        reaches.recv_timeout(LIMIT).expect("it is being closed");
        assert!(host.is_at_work() && !session.is_put_away());
        drop(goes_on);
        ending.join().expect("no panic").expect("it is heard");
    }

    #[test]
    fn a_session_whose_disk_stands_still_keeps_no_other_from_its_end() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let limits = HostLimits { sessions: 2, patience: Duration::ZERO, ..HostLimits::default() };
        let host = Host::new(identity, exports, None, limits);
        let (reached, reaches) = mpsc::channel();
        let mut held = Vec::new();
        let mut stuck = |id: u8| {
            let (goes_on, waits) = mpsc::channel();
            held.push(goes_on);
            let stuck = Stuck { reached: reached.clone(), goes_on: Mutex::new(waits) };
            let destination = Arc::new(HeldUp::new(stuck));
            let session = cut_off(&host, id);
            let number = TransferNumber(1);
            let (limits, outbox) = (receiver::Limits::default(), session.outbox());
            let terms = Terms::of(1 << 20, 1 << 16);
            let run = ReceiveRun::start(number, destination, terms, limits, outbox, event::nobody());
            session.add(number, run.expect("threads")).expect("room");
            host.sessions().insert(session.id, session);
        };
        stuck(1);
        reaches.recv_timeout(LIMIT).expect("the first is being closed");
        stuck(2);
        reaches.recv_timeout(LIMIT).expect("and the second");
        // So many at a time as there may be sessions.
        let third = cut_off(&host, 3);
        host.sessions().insert(third.id, third.clone());
        std::thread::sleep(4 * REAP_EVERY);
        assert!(!third.is_closed() && host.session_count() == 1);
        held.clear();
        let until = Instant::now() + LIMIT;
        while !third.is_put_away() {
            assert!(Instant::now() < until, "the third is not closed");
            std::thread::sleep(CONCLUDE_LOOK);
        }
        assert_eq!(host.session_count(), 0);
    }
}
