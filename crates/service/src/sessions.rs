//! The server's side of sessions: admits connections, opens transfers, waits for clients that were cut off,
//! and cleans up behind those that do not come back. [`Host`] is that server, whatever process it is in: a daemon, a
//! mover that ssh started, a program with a hub of its own.

use crate::export::{Changes, Exports};
use crate::frames::Attachments;
use crate::log::{Failures, of_session};
use crate::metrics::{Metrics, Refused};
use crate::slots::Slots;
use crate::tickets::issuers::NotTaken;
use crate::tickets::{self, Guest, Record, Standing, Tickets, Vouched};
use errands::Errands;
use export_totals::ExportTotals;
use host_limits::{TakenSessions, TakenStreams};
use owner::ServerOwner;
use places::OpenPlaces;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};
use thalweg_mover::event;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::{
    Connection, ControlLimits, Fingerprint, Identity, PathHints, Register, Role, Token, own_system,
    proof_matches, resume_proof, set_stream_options, stream_proof,
};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::frames::hub::Hub;
use thalweg_mover::run::sender::SendRun;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::share::Total;
use thalweg_mover::run::thread;
use thalweg_sys::clock::unix_seconds;
use thalweg_sys::machine;
use thalweg_wire::hello::{self, Answer, Cipher, HELLO_BYTES, Hello, Purpose, ServerHello, SessionId};
use thalweg_wire::limits;
use thalweg_wire::message::Place;

mod host_limits;

mod export_totals;

mod opening;

mod course;

mod removal;

mod owner;

mod signing;

mod places;

mod reaping;

mod vouched;

mod errands;

pub(crate) use course::Bounds;
pub use host_limits::{HostLimits, Origin};
pub(crate) use opening::{check_congestion, logged_notes, path_of};

/// Time for what was received to be put away at the end: a client has its last word before that is done.
const CONCLUDE_TIMEOUT: Duration = Duration::from_secs(30);
/// Of that, the time in which sessions may end before the channels of frames do.
const SESSIONS_FIRST: Duration = Duration::from_secs(5);
/// Between two looks whether it is.
const CONCLUDE_LOOK: Duration = Duration::from_millis(5);

/// See the module.
pub struct Host {
    identity: Identity,
    /// Replaced as a whole: see [`Host::replace_exports`].
    exports: Mutex<Exports>,
    /// Who may come in, and what each may do; without, all who come may do everything.
    tickets: OnceLock<Arc<Tickets>>,
    pub(crate) state: Option<PathBuf>,
    /// Channels of frames.
    pub(crate) hub: Hub,
    /// Who is at them.
    pub(crate) attachments: Attachments,
    pub(crate) limits: HostLimits,
    sessions: Mutex<HashMap<SessionId, Arc<Session>>>,
    /// Those that begin, and are not among them yet.
    taken_sessions: Arc<TakenSessions>,
    /// Streams that begin, and are not among those of their sessions yet.
    taken_streams: Arc<TakenStreams>,
    /// What pulls read.
    places: OpenPlaces,
    /// Transfers that remove their source files, each with its session, which may be closed by now.
    removals: Mutex<Vec<(Arc<Session>, Arc<SendRun>)>>,
    idle_since: Mutex<Instant>,
    /// Held while a part is measured alone: two at once would measure each other.
    pub(crate) measuring: Mutex<()>,
    pub(crate) slots: Option<Slots>,
    /// What all sessions have a share of.
    total: Arc<Total>,
    /// What transfers have a share of, by their exports.
    export_totals: ExportTotals,
    /// Copies that it runs as the client of another server.
    errands: Errands,
    /// What failed of late, for the log.
    pub(crate) failures: Arc<Failures>,
    /// What it counts.
    pub(crate) metrics: Arc<Metrics>,
    /// Each copy and stream has a clone until it is concluded, and so has whatever else is to have its last line in the
    /// log.
    pub(crate) work: Arc<()>,
    /// It ends, and its channels of frames are being closed.
    ends_channels: AtomicBool,
    /// Each session that is being closed has a clone: on a disk that stands still that takes as long as it stands.
    closing: Arc<()>,
    /// Those that left `sessions` and whose links have not ended, the oldest first: see [`Host::leave`].
    leaving: Mutex<Vec<Arc<Session>>>,
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
            tickets: OnceLock::new(),
            state,
            slots: limits.slots_bits_per_s.map(|bits| Slots::new(bits, limits.settle)),
            hub: Hub::new(limits.channel_bytes_max).with_block_max(limits.block_max),
            attachments: Attachments::default(),
            total: Total::new(limits.rate.clone(), machine::host_name()),
            export_totals: ExportTotals::default(),
            limits,
            sessions: Mutex::default(),
            taken_sessions: Arc::default(),
            taken_streams: Arc::default(),
            places: OpenPlaces::default(),
            removals: Mutex::default(),
            idle_since: Mutex::new(Instant::now()),
            measuring: Mutex::default(),
            errands: Errands::default(),
            failures: Arc::default(),
            metrics: Metrics::new(),
            work: Arc::default(),
            ends_channels: AtomicBool::new(false),
            closing: Arc::default(),
            leaving: Mutex::default(),
            this: this.clone(),
        });
        host.export_totals.limit(&host.exports());
        host.again_and_again("reaper", Host::reap);
        if host.limits.held_bytes_max < usize::MAX {
            host.again_and_again("memory", Host::bound_memory);
        }
        // On a thread of its own: logs of channels are on disks, which may stand still.
        host.again_and_again("channels", |host| host.hub.reap(host.limits.patience));
        host
    }

    /// Has it go by these tickets: to be called before anybody comes; a second time it does nothing.
    pub fn heed(&self, tickets: Arc<Tickets>) {
        if self.tickets.set(tickets).is_ok() {
            self.again_and_again("tickets", Host::end_without_ticket);
        }
    }

    /// The ticket of who comes so, or what the token of its session gives, as it is now; `None` where there are no
    /// tickets.
    ///
    /// # Errors
    /// `Permission` if it is not taken any more.
    fn ticket_of(&self, by: By<'_>) -> Result<Option<Arc<Record>>> {
        let now = unix_seconds();
        match by {
            By::Ticket(peer) => self.tickets.get().map(|tickets| tickets.take(peer, now)).transpose(),
            By::Token(guest) => {
                let record = guest.record();
                record.check(now).map(|()| Some(record))
            }
            // Who vouches is no such guest: this ends.
            By::Vouched(vouched) => {
                let voucher = vouched.voucher().ok_or_else(tickets::over)?;
                self.ticket_of(by_of(&voucher))
            }
        }
    }

    /// Why what is under way of who comes so ends now for want of a ticket, if it does.
    fn ends_of(&self, by: By<'_>) -> Option<Failure> {
        let now = unix_seconds();
        match by {
            By::Ticket(peer) => self.tickets.get()?.ends(peer, now),
            By::Token(guest) => guest.record().ends(now),
            By::Vouched(vouched) => match vouched.voucher() {
                Some(voucher) => self.ends_of(by_of(&voucher)),
                None => Some(tickets::over()),
            },
        }
    }

    /// Why nothing is begun now by who comes so, if that is known.
    fn refuses(&self, by: By<'_>) -> Option<Failure> {
        let now = unix_seconds();
        match by {
            By::Ticket(peer) => self.tickets.get()?.refuses(peer, now),
            By::Token(guest) => guest.record().check(now).err(),
            By::Vouched(vouched) => match vouched.voucher() {
                Some(voucher) => self.refuses(by_of(&voucher)),
                None => Some(tickets::over()),
            },
        }
    }

    /// Why what the client of this session has under way ends now for want of a ticket, if it does.
    pub(crate) fn ends_for_ticket(&self, session: &Session) -> Option<Failure> {
        self.ends_of(by_of(session))
    }

    /// What the client of this session may reach now.
    ///
    /// # Errors
    /// `Permission` if its ticket is not taken any more.
    pub(crate) fn exports_of(&self, session: &Session) -> Result<Exports> {
        let exports = self.exports();
        let Some(ticket) = self.ticket_of(by_of(session))? else { return Ok(exports) };
        Ok(exports.narrowed(&ticket.reach))
    }

    /// Whether it lets anybody in who shows a token.
    pub(crate) fn takes_tokens(&self) -> bool {
        self.tickets.get().is_some_and(|tickets| tickets.takes_tokens())
    }

    /// What becomes of a token that the one with this certificate shows. May take some seconds: see
    /// [`Tickets::introduce`].
    pub(crate) fn introduce(&self, peer: Fingerprint, token: &Token) -> Verdict {
        let nobody = || NotTaken { answer: Answer::TokenRefused, why: "no tokens are taken".to_owned() };
        let tickets = self.tickets.get().ok_or_else(nobody)?;
        let guest = tickets.introduce(peer, token, unix_seconds())?;
        tracing::info!(ticket = %guest.record().name, client = %peer, "a token is taken");
        Ok(guest)
    }

    /// What clients may reach now.
    pub(crate) fn exports(&self) -> Exports {
        self.exports.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Names of what there is to reach now.
    pub fn export_names(&self) -> Vec<String> {
        self.exports().names().into_iter().map(|(name, _)| name).collect()
    }

    /// Lets clients reach these from now on, and says what is other than before. What is under way keeps the directory
    /// that it began with, and so does a channel of frames that is open.
    pub fn replace_exports(&self, exports: Exports) -> Changes {
        // First: a transfer that is opened in between would have no share, as long as it lasts.
        self.export_totals.limit(&exports);
        // Compared and closed without the lock: one that was on a file system whose server is away takes as long as
        // that is.
        let before = std::mem::replace(&mut *lock(&self.exports), exports.clone());
        before.changes(&exports)
    }

    /// Takes a connection whose peer has proved that it has a key; reads its hello, behind its token if it shows one,
    /// and gives it its place. `first`: what of that was read already.
    ///
    /// # Errors
    /// Why it was turned away.
    pub fn admit(&self, mut connection: Connection, first: Option<First>, deadline: Duration) -> Result<()> {
        let until = Instant::now() + deadline;
        let peer = connection.peer_fingerprint();
        // It has a key, and says nothing that is understood, or not in time.
        let unheard = |_: &Failure| self.metrics.refuse(Refused::Handshake);
        let (mut hello, verdict) = match first {
            Some(First { hello, verdict }) => (connection.take_hello(&hello, left(until))?, verdict),
            None => (connection.read_hello(left(until)).inspect_err(unheard)?, None),
        };
        let mut guest = None;
        if hello.purpose == Purpose::Token {
            let verdict = match verdict {
                Some(verdict) => verdict,
                // Here no tokens are taken, and none is checked.
                None => {
                    let token = connection.read_token(&hello, left(until)).inspect_err(unheard)?;
                    self.introduce(peer, &token)
                }
            };
            let said = verdict.as_ref().map_or_else(|not_taken| not_taken.answer, |_| Answer::Accepted);
            let system = hello::System::default();
            connection.answer(&ServerHello { answer: said, system, ..answer_to(&hello) }, left(until))?;
            guest = Some(verdict.map_err(|not| {
                self.metrics.refuse(Refused::Token);
                Failure::new(FailureKind::Permission, "check a token", not.why)
            })?);
            hello = match connection.read_hello(left(until)) {
                // The token was all that there was to say.
                Err(failure) if failure.kind == FailureKind::Connection => return Ok(()),
                hello => hello.inspect_err(unheard)?,
            };
        }
        let mut answer = answer_to(&hello);
        let tickets = self.tickets.get();
        if tickets.is_some_and(|tickets| tickets.is_stranger(&peer)) {
            answer.system = hello::System::default();
        }
        let lacks_token = guest.is_none() && tickets.is_some_and(|tickets| tickets.wants_token(&peer));
        match hello.purpose {
            Purpose::Control if lacks_token => {
                self.metrics.refuse(Refused::Token);
                answer.answer = Answer::TokenWanted;
                connection.answer(&answer, left(until))?;
                Err(Failure::new(FailureKind::Permission, "begin a session", "no token was shown"))
            }
            Purpose::Control => self.begin(connection, answer, guest, until),
            Purpose::Stream | Purpose::Resume => self.join(connection, &hello, answer, until),
            Purpose::Token => {
                Err(Failure::new(FailureKind::Protocol, "admit", "it showed two tokens on one connection"))
            }
        }
    }

    /// A session of which this is the first connection, if there is room for one more. `guest`: who showed a token on
    /// it.
    fn begin(
        &self,
        mut connection: Connection,
        mut answer: ServerHello,
        guest: Option<Arc<Guest>>,
        until: Instant,
    ) -> Result<()> {
        let Some(seat) = self.take_session(&Origin::of(&connection)) else {
            self.metrics.refuse(Refused::Sessions);
            answer.answer = Answer::Busy;
            connection.answer(&answer, left(until))?;
            let cause = "there are as many as there may be";
            return Err(Failure::new(FailureKind::Busy, "begin a session", cause));
        };
        let mut id = [0; 16];
        let cause = "no random numbers";
        aws_lc_rs::rand::fill(&mut id)
            .map_err(|_| Failure::new(FailureKind::Internal, "begin a session", cause))?;
        answer.session = id;
        let key = connection.export_session_key()?;
        let peer = connection.peer_fingerprint();
        let limits = ControlLimits { stall_timeout: self.limits.stall_timeout, ..ControlLimits::default() };
        let owner = Box::new(ServerOwner::new(self.this.clone(), self.limits.requests));
        let vouched = guest.is_none().then(|| self.tickets.get()?.vouched(&peer)).flatten();
        let by = By::of(&peer, guest.as_deref(), vouched.as_deref());
        let ticket = self.ticket_of(by);
        let refused = ticket.is_err().then(|| self.refused_ticket(by));
        let session = Session::new(id, key, answer.cipher, peer, limits, owner, event::nobody())?;
        match (&ticket, vouched) {
            (Ok(Some(ticket)), Some(vouched)) => self.begin_as_guest(&session, ticket, vouched),
            (Ok(Some(ticket)), None) => self.begin_with(&session, ticket, guest),
            (Ok(None) | Err(_), _) => {}
        }
        refused.into_iter().for_each(|refused| self.metrics.refuse(refused));
        session.share_in(self.total.share());
        {
            let mut sessions = self.sessions();
            sessions.insert(id, session.clone());
            // Nobody counts both.
            drop(seat);
        }
        // Known before it is answered: the client may dial streams at once.
        let begun = connection.answer(&answer, left(until)).and_then(|()| session.attach_control(connection));
        // Who is not let in (any more) has proved to be the holder, and is told why: TLS has no words for it.
        if let (Ok(()), Err(why)) = (&begun, &ticket) {
            session.close(Some(why.clone()));
        }
        let begun = begun.and(ticket.map(drop));
        match &begun {
            Ok(()) => of_session!(info, &session, "session begun"),
            Err(_) => {
                let gone = self.sessions().remove(&id);
                // Other connections may have resumed it meanwhile.
                gone.iter().for_each(|session| session.close(None));
                self.leave(gone);
            }
        }
        begun
    }

    /// What is wrong with the ticket of a client that is not let in.
    fn refused_ticket(&self, by: By<'_>) -> Refused {
        let now = unix_seconds();
        let standing = match by {
            By::Ticket(peer) => self.tickets.get().and_then(|tickets| tickets.standing(peer, now)),
            By::Token(guest) => Some(guest.record().standing(now)),
            By::Vouched(vouched) => match vouched.voucher() {
                Some(voucher) => return self.refused_ticket(by_of(&voucher)),
                None => None,
            },
        };
        match standing {
            Some(Standing::Expired(_)) => Refused::TicketExpired,
            Some(Standing::Revoked(_)) => Refused::TicketRevoked,
            Some(Standing::Valid) | None => Refused::TicketGone,
        }
    }

    /// What a session has of its ticket. Where slots are promised nothing of them is held back by a limit.
    fn begin_with(&self, session: &Session, ticket: &Record, guest: Option<Arc<Guest>>) {
        session.set_ticket(ticket.name.clone(), guest);
        self.share_of_ticket(session, ticket);
    }

    /// The same of a guest for whom somebody vouched with that ticket.
    fn begin_as_guest(&self, session: &Session, ticket: &Record, vouched: Arc<Vouched>) {
        session.set_ticket(vouched.told(&ticket.name), Some(vouched));
        self.share_of_ticket(session, ticket);
    }

    fn share_of_ticket(&self, session: &Session, ticket: &Record) {
        let Some(tickets) = self.tickets.get() else { return };
        if let Some(share) = tickets.share(ticket).filter(|_| self.slots.is_none()) {
            session.share_in_ticket(share);
        }
        // Of a token nothing is kept.
        if ticket.issuer.is_none() {
            tickets.note_use(&ticket.name, unix_seconds());
        }
    }

    /// Another connection of a session that there is, if its hello proves that it belongs to it.
    fn join(
        &self,
        mut connection: Connection,
        hello: &Hello,
        mut answer: ServerHello,
        until: Instant,
    ) -> Result<()> {
        let session = self.sessions().get(&hello.session).cloned();
        let proved = session.as_ref().is_some_and(|s| proves(s, &connection, hello));
        let Some(session) = session.filter(|_| proved) else {
            self.metrics.refuse(Refused::UnknownSession);
            answer.answer = Answer::UnknownSession;
            answer.cipher = Cipher::Aes128Gcm;
            connection.answer(&answer, left(until))?;
            let cause = "its session is not known, or the proof for it is wrong";
            return Err(Failure::new(FailureKind::NotFound, "join a session", cause));
        };
        answer.cipher = session.cipher;
        if hello.purpose == Purpose::Resume {
            // Refused behind the answer the client would take it for a link that broke.
            if !session.has_room_for_link() {
                answer.answer = Answer::Busy;
                connection.answer(&answer, left(until))?;
                return Err(Session::too_many_links());
            }
            connection.answer(&answer, left(until))?;
            return session.attach_control(connection);
        }
        let Some(_seat) = self.take_stream(&session, hello.stream) else {
            self.metrics.refuse(Refused::Streams);
            answer.answer = Answer::Busy;
            connection.answer(&answer, left(until))?;
            let cause = "there are as many as there may be";
            return Err(Failure::new(FailureKind::Busy, "add a stream", cause));
        };
        // Before the answer: with that the client has the stream, which ends with its link.
        let epoch = session.link_epoch();
        if epoch.is_none() && session.lost_since().is_some() {
            answer.answer = Answer::Busy;
            connection.answer(&answer, left(until))?;
            let cause = "the link of its session is lost";
            return Err(Failure::new(FailureKind::Busy, "add a stream", cause));
        }
        connection.answer(&answer, left(until))?;
        self.add_stream(&session, epoch, hello.stream, connection)
    }

    /// A data stream whose hello was answered, of the link that stood then, if one did.
    fn add_stream(
        &self,
        session: &Session,
        epoch: Option<u64>,
        stream: u16,
        mut connection: Connection,
    ) -> Result<()> {
        connection.set_tls_form(self.limits.tls_form);
        let (writer, reader) = connection.into_streams(session.cipher, &session.id, stream, Role::Server)?;
        if let Some(decision) = writer.kernel_tls() {
            of_session!(info, session, stream, %decision, "stream in TLS form");
        }
        let rtt = thalweg_sys::socket::tcp_info(writer.fd()).ok().map(|info| info.rtt_min);
        let path = session.wanted_path();
        set_stream_options(writer.fd(), &PathHints { rtt, ..path.clone() });
        // A session that is new since the last look is held to small windows from its first stream on.
        self.narrow_beside_slots();
        session.attach_stream(epoch, stream, writer, reader)?;
        // A transfer that was added meanwhile did not find the stream.
        if session.wanted_path() != path {
            session.set_stream_options();
        }
        Ok(())
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
        self.metrics.stop();
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
                host.close_channels();
            }
        };
        if thread::guarded("close", drop, close).is_err() {
            self.close_channels();
        }
    }

    fn close_channels(&self) {
        // First: who sees to those at the channels is not to take them for replaced.
        self.ends_channels.store(true, Ordering::Release);
        self.hub.close();
    }

    /// Whether it ends, and its channels with it: whoever is at them is not waited for any more.
    pub(crate) fn ends_channels(&self) -> bool {
        self.ends_channels.load(Ordering::Acquire)
    }

    /// What comes without a slot shall have little under way when a window opens.
    pub(crate) fn narrow_beside_slots(&self) {
        let Some(slots) = &self.slots else { return };
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        slots.narrow(&sessions);
    }

    pub(crate) fn strong(&self) -> Result<Arc<Host>> {
        self.this
            .upgrade()
            .ok_or_else(|| Failure::new(FailureKind::Stopped, "serve", "the server is shutting down"))
    }

    /// The sessions that there are now.
    pub(crate) fn sessions_now(&self) -> Vec<Arc<Session>> {
        self.sessions().values().cloned().collect()
    }

    /// Those with other servers, in which it is the client.
    pub(crate) fn errand_sessions(&self) -> Vec<Arc<Session>> {
        self.errands.running().iter().filter_map(|running| running.far()).collect()
    }

    /// The export that something at these places is counted under: that of the first, if it is one of ours.
    pub(crate) fn counted_export(&self, places: &[Place]) -> Option<String> {
        let name = places.first()?.export.as_ref()?;
        self.exports().has(name).then(|| name.clone())
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Session>>> {
        lock(&self.sessions)
    }
}

/// What becomes of a token.
pub(crate) type Verdict = std::result::Result<Arc<Guest>, NotTaken>;

/// What somebody said first, before it was known who that is: of a token it was read to its end.
pub struct First {
    /// The hello, as it came.
    pub(crate) hello: [u8; HELLO_BYTES],
    /// Of a token.
    pub(crate) verdict: Option<Verdict>,
}

/// With what somebody comes.
#[derive(Clone, Copy)]
enum By<'a> {
    /// With a ticket of this certificate, if there is one.
    Ticket(&'a Fingerprint),
    /// With a token, shown where the session began.
    Token(&'a Guest),
    /// With the word of another client.
    Vouched(&'a Vouched),
}

impl<'a> By<'a> {
    fn of(peer: &'a Fingerprint, guest: Option<&'a Guest>, vouched: Option<&'a Vouched>) -> By<'a> {
        match (guest, vouched) {
            (Some(guest), _) => By::Token(guest),
            (None, Some(vouched)) => By::Vouched(vouched),
            (None, None) => By::Ticket(peer),
        }
    }
}

/// With what the client of this session came.
fn by_of(session: &Session) -> By<'_> {
    By::of(&session.peer, session.kept_of_ticket(), session.kept_of_ticket())
}

/// A hello that is accepted.
fn answer_to(hello: &Hello) -> ServerHello {
    let ours = (limits::VERSION_MIN, limits::VERSION_MAX);
    ServerHello {
        version: hello::negotiate(ours, hello.versions).unwrap_or(0),
        versions: ours,
        answer: Answer::Accepted,
        cipher: hello.cipher,
        features: 0,
        session: hello.session,
        system: own_system(),
    }
}

/// What is left until then, a millisecond at least.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

fn proves(session: &Session, connection: &Connection, hello: &Hello) -> bool {
    let ours = match hello.purpose {
        Purpose::Stream => stream_proof(&session.key, connection, &session.id, hello.stream),
        Purpose::Resume => resume_proof(&session.key, connection, &session.id),
        Purpose::Control | Purpose::Token => return false,
    };
    connection.peer_fingerprint().matches(&session.peer)
        && ours.is_ok_and(|ours| proof_matches(&ours, &hello.proof))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::mpsc;
    use thalweg_mover::endpoint::testing::{HeldUp, Hold};
    use thalweg_mover::run::receiver::ReceiveRun;
    use thalweg_mover::transfer::receiver;
    use thalweg_wire::message::{Terms, TransferNumber};

    /// A disk that stands still when its destination is closed, until the test ends.
    pub(super) struct Stuck {
        pub reached: mpsc::Sender<()>,
        pub goes_on: Mutex<mpsc::Receiver<()>>,
    }

    impl Hold for Stuck {
        fn close(&self) {
            let _ = self.reached.send(());
            let _ = self.goes_on.lock().unwrap_or_else(|p| p.into_inner()).recv();
        }
    }

    /// A session of this host that was cut off.
    pub(crate) fn cut_off(host: &Arc<Host>, id: u8) -> Arc<Session> {
        cut_off_of(host, id, Fingerprint([7; 32]))
    }

    /// The same, of a client with this certificate.
    pub(crate) fn cut_off_of(host: &Arc<Host>, id: u8, peer: Fingerprint) -> Arc<Session> {
        let owner = Box::new(ServerOwner::new(host.this.clone(), host.limits.requests));
        let key = [id; 32].into();
        let limits = ControlLimits::default();
        let session = Session::new([id; 16], key, Cipher::Aes128Gcm, peer, limits, owner, event::nobody())
            .expect("a session");
        session.drop_link(Failure::new(FailureKind::Connection, "test", "cut off"));
        session
    }

    /// Nobody waits for so long but in vain.
    pub(super) const LIMIT: Duration = Duration::from_secs(60);

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
}
