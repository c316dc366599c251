//! How a peer is reached, and how a session's connections are made: TCP, TLS, hello.

use super::early::Early;
use super::race::{Answered, connect_any};
use super::{LinkSettings, StreamHints};
use crate::event::{Event, Events};
use crate::failure::{self, Failure, Reason, Result};
use crate::link::{
    Connection, Family, PathHints, Role, Token, TokenSource, mark, resume_proof, set_stream_options,
    stream_proof,
};
use crate::mutex::lock;
pub use crate::retry::attempts::DIAL_TIMEOUT;
use crate::run::session::Session;
use rustls::ClientConfig;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_wire::hello::{Hello, Purpose};

/// What fails where nobody answers.
pub const CONNECT: &str = "connect";

/// How to reach the peer: called for each connection.
pub trait Connect: Send + Sync {
    /// A connected socket (or pair of pipes in one), within the deadline. A login that carries it
    /// ([`Connect::is_carried`]) may take longer, within a bound of its own.
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

    /// How the streams of another session are dialled, where none stands yet. `None`: as those of this one, of which
    /// nothing is remembered.
    fn for_session(&self) -> Option<Arc<dyn Connect>> {
        None
    }

    /// A stream that stands and would do better on another way: the next [`Connect::connect_stream`] of it takes that.
    fn stream_to_move(&self) -> Option<u16> {
        None
    }

    /// What became of the connection that [`Connect::connect_stream`] made: the stream stands on it, or it came to
    /// nothing and the stream is where it was, if it was anywhere.
    fn stream_dialled(&self, _stream: u16, _stands: bool) {}

    /// The connection that [`Connect::connect_stream`] made is not needed: nothing is wrong with its way.
    fn stream_given_up(&self, _stream: u16) {}

    /// The connection of this stream broke.
    fn stream_lost(&self, _stream: u16) {}

    /// The last connection, of this `stream` or else the control connection, led to something that did not prove that
    /// it is the peer: what was remembered of where that is may be wrong.
    fn misled(&self, _stream: Option<u16>) {}

    /// So many bytes more got across for good, which the next session does not carry again: who starts the peer gives
    /// up on one that ends again and again without any.
    fn got_across(&self, _more: u64) {}

    /// Where the peer is dialled, each `host:port`; none if it is reached in another way.
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    /// The family whose addresses alone are dialled, if there is one.
    fn family(&self) -> Option<Family> {
        None
    }

    /// What is shown to the peer before a session, where that does not know our certificate.
    fn tokens(&self) -> Option<Arc<dyn TokenSource>> {
        None
    }

    /// Whether connections ride in something that is no socket of ours, as far as is known by now.
    fn is_carried(&self) -> bool {
        false
    }

    /// For messages.
    fn name(&self) -> String;

    /// The copy is over: what was started to reach the peer may end.
    fn close(&self) {}
}

/// By TCP, to the first of some addresses that answers: they are dialled side by side, and that one first the next
/// time.
#[derive(Debug, Clone)]
pub struct TcpConnect {
    addresses: Vec<String>,
    family: Option<Family>,
    answered: Arc<Answered>,
    tokens: Option<Arc<dyn TokenSource>>,
}

impl TcpConnect {
    /// To these, each `host:port`.
    pub fn new(addresses: Vec<String>) -> TcpConnect {
        TcpConnect { addresses, family: None, answered: Arc::default(), tokens: None }
    }

    /// The same, at addresses of this family only, if one is given.
    pub fn only(self, family: Option<Family>) -> TcpConnect {
        TcpConnect { family, ..self }
    }

    /// The same, where a token is shown to the peer, if there is where to have one.
    pub fn showing(self, tokens: Option<Arc<dyn TokenSource>>) -> TcpConnect {
        TcpConnect { tokens, ..self }
    }
}

impl Connect for TcpConnect {
    fn connect(&self, deadline: Duration) -> Result<OwnedFd> {
        connect_any(&self.addresses, None, self.family, &self.answered, deadline)
    }

    fn misled(&self, _: Option<u16>) {
        self.answered.misled();
    }

    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn family(&self) -> Option<Family> {
        self.family
    }

    fn tokens(&self) -> Option<Arc<dyn TokenSource>> {
        self.tokens.clone()
    }

    fn name(&self) -> String {
        self.addresses.join(", ")
    }
}

/// Makes the connections of a session.
pub(super) struct Dialler {
    pub connect: Arc<dyn Connect>,
    pub tls: Arc<ClientConfig>,
    pub settings: LinkSettings,
    pub events: Events,
    /// Who seals TLS records was told.
    pub told_tls: AtomicBool,
    /// The token that was shown last and taken.
    pub shown: Mutex<Option<Token>>,
    /// One that came in its place and is not taken: it is not shown again.
    pub refused: Mutex<Option<Token>>,
    /// Sockets of streams that nobody wanted yet.
    pub early: Early,
}

impl Dialler {
    /// By when TCP, TLS and hello must be done together: a dial never takes longer than a stall is borne.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + DIAL_TIMEOUT.min(self.settings.stall_timeout.max(Duration::from_secs(1)))
    }

    /// By when TLS and hello must be done on a connection that was to be made by `until`. A login that carries it has a
    /// bound of its own and may have taken longer: what comes after it has its own time.
    pub(super) fn deadline_once_connected(&self, until: Instant) -> Instant {
        if self.connect.is_carried() { self.deadline() } else { until }
    }

    /// The token to be shown on the next control connection, if one is. It is asked for before that is dialled: who
    /// makes tokens may take longer than a dial, and than the peer waits.
    ///
    /// One that was shown is not shown again: it may be over by now, and the peer bears with what is under way. Nor is
    /// one that it did not take where it took another: the connection does without.
    pub(super) fn to_show(&self) -> Result<Option<Token>> {
        let Some(tokens) = self.connect.tokens() else { return Ok(None) };
        let token = match tokens.token() {
            Err(_) if lock(&self.shown).is_some() => return Ok(None),
            token => token?,
        };
        Ok(Some(token).filter(|token| self.is_new(token)))
    }

    /// A connection of this `stream`, or else the control connection: on that the peer hears who we are first, by a
    /// token that is `to_show`. With that it knows the certificate of the streams.
    pub(super) fn secure(
        &self,
        fd: OwnedFd,
        stream: Option<u16>,
        to_show: Option<Token>,
        until: Instant,
    ) -> Result<Connection> {
        let named = |failure| failure::with_words(failure, &format!("`{}`", self.connect.name()));
        let mut connection = Connection::connect(fd, self.tls.clone(), left(until))
            .inspect_err(|_| self.connect.misled(stream))
            .map_err(named)?;
        if let Some(token) = to_show {
            self.show(&mut connection, token, until)?;
        }
        Ok(connection)
    }

    /// Shows the peer a token, and notes whether it is taken.
    fn show(&self, connection: &mut Connection, token: Token, until: Instant) -> Result<()> {
        if let Err(failure) = connection.introduce(&token, left(until)) {
            let failure = match self.connect.tokens() {
                Some(tokens) => not_taken(failure, &*tokens),
                None => failure,
            };
            if lock(&self.shown).is_some() && failure.reason == Reason::TokenNotTaken {
                tracing::warn!(%failure, "the session goes on by the token that was shown before");
                *lock(&self.refused) = Some(token);
            }
            return Err(failure);
        }
        *lock(&self.shown) = Some(token);
        Ok(())
    }

    /// Whether a token is neither that which was taken last nor one that was not since.
    fn is_new(&self, token: &Token) -> bool {
        [&self.shown, &self.refused].into_iter().all(|known| lock(known).as_ref() != Some(token))
    }

    /// Shows the token of now, if it is another than that which was shown last: the session outlives that one then.
    pub(super) fn show_anew(&self, tokens: &dyn TokenSource) -> Result<()> {
        let token = tokens.token()?;
        if !self.is_new(&token) {
            return Ok(());
        }
        let until = self.deadline();
        let fd = self.connect.connect(left(until))?;
        // The connection has done what it was for.
        self.secure(fd, None, Some(token), until).map(drop)
    }

    /// A control connection in the place of one that was lost, within `at_most` from when there is a token.
    pub(super) fn resume(&self, session: &Session, at_most: Duration) -> Result<Connection> {
        let to_show = self.to_show()?;
        let until = self.deadline().min(Instant::now() + at_most);
        let fd = self.connect.connect(left(until))?;
        let until = self.deadline_once_connected(until);
        mark(&fd, self.settings.dscp);
        let mut connection = self.secure(fd, None, to_show, until)?;
        let proof = resume_proof(&session.key, &connection, &session.id)?;
        let hello = Hello { session: session.id, proof, ..Hello::new(Purpose::Resume, session.cipher) };
        connection.hello(&hello, left(until))?;
        Ok(connection)
    }

    /// Begins to connect the streams that will be wanted over this round trip, as far as that is foreseen, and where
    /// they are dialled at addresses: what else leads there may have to start something for each.
    pub(super) fn begin_early(&self, rtt: Duration, until: Instant) {
        if let Some(foreseen) = self.settings.foreseen.as_ref().filter(|_| is_dialled(&*self.connect)) {
            self.early.begin(&self.connect, foreseen.streams(rtt), left(until));
        }
    }

    pub(super) fn stream(
        &self,
        session: &Session,
        stream: u16,
        rtt: Duration,
        planned: StreamHints,
        at_most: Duration,
    ) -> Result<()> {
        let until = self.deadline().min(Instant::now() + at_most);
        let fd = match self.early.take(stream, until) {
            Some(fd) => fd,
            None => self.connect.connect_stream(stream, left(until))?,
        };
        let until = self.deadline_once_connected(until);
        let stands = self.stream_on(fd, session, stream, rtt, planned, until);
        self.connect.stream_dialled(stream, stands.is_ok());
        stands
    }

    /// A stream on a socket that is connected.
    fn stream_on(
        &self,
        fd: OwnedFd,
        session: &Session,
        stream: u16,
        rtt: Duration,
        planned: StreamHints,
        until: Instant,
    ) -> Result<()> {
        let wanted = session.wanted_path();
        let hints = PathHints {
            rtt: Some(rtt),
            window_bytes: planned.window_bytes,
            share_bytes: planned.share_bytes,
            dscp: self.settings.dscp,
            ..wanted.clone()
        };
        set_stream_options(fd.as_fd(), &hints);
        let mut connection = self.secure(fd, Some(stream), None, until)?;
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
        session.attach_stream(None, stream, writer, reader)?;
        // A transfer that was added meanwhile did not find the stream.
        if session.wanted_path() != wanted {
            session.set_stream_options();
        }
        Ok(())
    }
}

/// Why a token is not taken, where it is, and who makes others.
fn not_taken(failure: Failure, tokens: &dyn TokenSource) -> Failure {
    if failure.reason != Reason::TokenNotTaken {
        return failure;
    }
    let (source, issuers) = (tokens.source(), tokens.issuers());
    let cause = format!("{source}: {}; this server takes tokens of {issuers}", failure.cause);
    Failure::new(failure.kind, &failure.operation, cause).because(failure.reason)
}

/// Whether connections are our own, made at addresses.
pub(super) fn is_dialled(connect: &dyn Connect) -> bool {
    !connect.is_carried() && !connect.addresses().is_empty()
}

pub(super) fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}
