//! What a server has room for: sessions and streams, in all and of those that count as one, and memory for what their
//! clients have it keep.

use super::Host;
use super::errands::Running;
use crate::accept::source_of;
use crate::counts::{Counted, Counts};
use crate::errands::ErrandsTo;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind};
use thalweg_mover::link::{Connection, Fingerprint, STALL_TIMEOUT, TlsForm};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::client::PATIENCE;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::steer::Rate;
use thalweg_wire::hello::SessionId;
use thalweg_wire::limits;

/// Streams of a server for each of its sessions, on the whole.
const STREAMS_EACH: usize = 8;

/// Bounds of a server.
#[derive(Debug, Clone)]
pub struct HostLimits {
    /// Sessions at the same time.
    pub sessions: usize,
    /// Of these, from the same address (of IPv6: the same network of 64 bits), whatever tickets they came with: who has
    /// several takes no more.
    pub sessions_per_address: usize,
    /// Data streams at the same time.
    pub streams: usize,
    /// Of these, of sessions from the same address, as above.
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
    /// For so long a consumer of frames with `block` that takes nothing may hold producers up. Default: without end.
    pub block_max: Option<Duration>,
    /// Bytes of what clients may have it keep in memory beside that, and beside buffers: entries, outcomes,
    /// lines of receipts, what is listed to find files of other names, pieces and names of streams, messages. Where it
    /// is more, the largest session ends of those from one address that have most. `usize::MAX`: no bound.
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
    /// Whom it may be sent to by its clients.
    pub errands: ErrandsTo,
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
            block_max: None,
            held_bytes_max: usize::MAX,
            tls_form: TlsForm::default(),
            requires_tls: false,
            slots_bits_per_s: None,
            settle: Duration::ZERO,
            rate: Arc::default(),
            errands: ErrandsTo::default(),
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

/// Seats of sessions that are given away before the session stands, by where it comes from: answers and threads lie
/// between, and others who ask meanwhile are not to have the same.
pub(super) type TakenSessions = Counts<Option<IpAddr>>;
/// The same of streams, by whose they are and which.
pub(super) type TakenStreams = Counts<(SessionId, u16)>;

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
    pub(super) fn counts(&self, session: &Session) -> bool {
        self.is_address_of(session) && session.peer.matches(&self.client)
    }

    /// The same, whoever's that session is.
    fn is_address_of(&self, session: &Session) -> bool {
        let other = Origin::of_session(session);
        other.source.is_none() || other.source == self.source
    }
}

impl Host {
    /// The seat of another session from there, until this goes; `None` if it would be one too many, of all or of those
    /// from there. Sessions that have ended, or have neither link nor transfer nor guest, make room at once; then the
    /// one from there that has been without a link for longest: a client that was killed begins the same command again.
    pub(super) fn take_session(&self, origin: &Origin) -> Option<Counted<Option<IpAddr>>> {
        if let Some(seat) = self.take_free(origin) {
            return Some(seat);
        }
        self.end_all("nothing was under way", |session| {
            // Under way is also what a guest of it does, which would end with it.
            let is_idle = || session.transfers().is_empty() && !self.has_vouched(session);
            session.is_closed() || (session.lost_since().is_some() && is_idle())
        });
        if let Some(seat) = self.take_free(origin) {
            return Some(seat);
        }
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        let lost = sessions.into_iter().filter(|session| origin.counts(session));
        let lost = lost.filter_map(|session| Some((session.lost_since()?, session)));
        if let Some((_, longest)) = lost.min_by_key(|(since, _)| *since) {
            self.end_all("its client was cut off, and there is no room for another beside it", |session| {
                std::ptr::eq(session, &*longest)
            });
        }
        self.take_free(origin)
    }

    /// The same, of what is free.
    fn take_free(&self, origin: &Origin) -> Option<Counted<Option<IpAddr>>> {
        // Held over both: what is put in place meanwhile gives its seat back behind that.
        let sessions = self.sessions();
        let begin = self.taken_sessions.lock();
        let theirs = sessions.values().filter(|session| origin.is_address_of(session)).count();
        let theirs = theirs + begin.get(&origin.source).copied().unwrap_or(0);
        let all = sessions.len() + begin.values().sum::<usize>();
        let is_full = all >= self.limits.sessions || theirs >= self.limits.sessions_per_address;
        (!is_full).then(|| self.taken_sessions.take(begin, origin.source, 1))
    }

    /// The seat of a stream of this session, until this goes; `None` if it would be one too many. It counts where its
    /// session came from, whatever way it takes itself.
    pub(super) fn take_stream(&self, session: &Session, stream: u16) -> Option<Counted<(SessionId, u16)>> {
        let begin = self.taken_streams.lock();
        let what = (session.id, stream);
        // One that takes the seat of another is not one more.
        let stands = begin.contains_key(&what) || session.streams().contains(&stream);
        let has_room = stands || self.streams_left(session, &begin) > 0;
        has_room.then(|| self.taken_streams.take(begin, what, 1))
    }

    /// Gives a copy that is run for somebody up to so many streams, for as long as it runs; how many it may have.
    pub(super) fn take_for_errand(&self, running: &Running, most: u16) -> u16 {
        let begin = self.taken_streams.lock();
        let left = self.streams_left(running.asker(), &begin);
        let streams = u16::try_from(left).unwrap_or(u16::MAX).min(most);
        running.take_streams(streams);
        streams
    }

    /// How many more this session may have, where these begin. Those of a copy that is run for somebody count as that
    /// one's, as many as it may have.
    fn streams_left(&self, session: &Session, begin: &HashMap<(SessionId, u16), usize>) -> usize {
        let origin = Origin::of_session(session);
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        let (mut all, mut theirs) = (0, 0);
        let mut count = |asker: &Session, streams: usize| {
            all += streams;
            theirs += if origin.is_address_of(asker) { streams } else { 0 };
        };
        for session in &sessions {
            let mut streams = session.streams();
            let own = begin.keys().filter(|(id, _)| *id == session.id).map(|(_, stream)| *stream);
            streams.extend(own);
            streams.sort_unstable();
            streams.dedup();
            count(session, streams.len());
        }
        for running in self.errands.running() {
            count(running.asker(), running.streams());
        }
        let (most, each) = (self.limits.streams, self.limits.streams_per_address);
        most.saturating_sub(all).min(each.saturating_sub(theirs))
    }

    /// Ends sessions whose peers have too much kept here, and copies that are run for somebody, until what is left is
    /// within bounds. Between two looks it grows by what came meanwhile.
    pub(super) fn bound_memory(&self) {
        let most = self.limits.held_bytes_max;
        let mut sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        // What they had to say may be there still.
        sessions.extend(lock(&self.leaving).iter().cloned());
        let sessions = sessions.into_iter().map(Holder::Session);
        let mut holders: Vec<Holder> =
            sessions.chain(self.errands.running().into_iter().map(Holder::Errand)).collect();
        let mut held: Vec<(Option<IpAddr>, usize)> = holders.iter().map(Holder::held).collect();
        while let Some(at) = one_too_much(&held, most) {
            held.swap_remove(at);
            let why = "what its client had the server keep in memory is more than there is for it";
            match holders.swap_remove(at) {
                // One that is told why now hears it; of what one that was told has left the rest goes.
                Holder::Session(greedy) if greedy.is_closed() => greedy.end_link(),
                Holder::Session(greedy) => self.end_all(why, |session| std::ptr::eq(session, &*greedy)),
                Holder::Errand(greedy) => greedy.end(Failure::new(FailureKind::Space, "serve", why)),
            }
        }
    }
}

/// What has something kept in memory for a client.
enum Holder {
    /// Its own session.
    Session(Arc<Session>),
    /// A copy that is run for it.
    Errand(Arc<Running>),
}

impl Holder {
    /// Where its client is, and how many bytes.
    fn held(&self) -> (Option<IpAddr>, usize) {
        match self {
            Holder::Session(session) => (Origin::of_session(session).source, session.held_bytes()),
            Holder::Errand(running) => {
                let bytes = running.far().map_or(0, |far| far.held_bytes());
                (Origin::of_session(running.asker()).source, bytes)
            }
        }
    }
}

/// Which of these sessions is to end, where all together hold more than `most`: that with most bytes of those
/// that count as one and have most. What nobody else needs, one may have.
fn one_too_much<O: Copy + Eq + Hash>(held: &[(O, usize)], most: usize) -> Option<usize> {
    let mut by_origin: HashMap<O, usize> = HashMap::new();
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

#[cfg(test)]
mod tests {
    use super::super::tests::cut_off;
    use super::*;
    use crate::export::Exports;
    use thalweg_mover::link::Identity;

    #[test]
    fn sessions_from_one_address_count_together_whatever_tickets_they_came_with() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let session = cut_off(&host, 1);
        let other = Origin { client: Fingerprint([8; 32]), source: Some(IpAddr::from([10, 0, 0, 1])) };
        assert!(other.is_address_of(&session) && !other.counts(&session));
    }

    #[test]
    fn one_address_has_no_more_than_half_of_what_a_server_has() {
        let limits = HostLimits::default();
        assert!(limits.sessions_per_address * 2 <= limits.sessions, "{limits:?}");
        assert!(limits.streams_per_address * 2 <= limits.streams, "{limits:?}");
    }

    fn host(limits: HostLimits) -> Arc<Host> {
        let identity = Identity::generate("server").expect("an identity");
        Host::new(identity, Exports::open(Vec::new()).expect("no exports"), None, limits)
    }

    /// Between the question and the session lie an answer and a thread: all who ask meanwhile would be let in.
    #[test]
    fn a_session_that_begins_has_its_place_before_it_stands_and_gives_it_back_if_it_never_does() {
        let host = host(HostLimits { sessions: 3, sessions_per_address: 2, ..HostLimits::default() });
        let from = |last: u8| Origin {
            client: Fingerprint([last; 32]),
            source: Some(IpAddr::from([10, 0, 0, last])),
        };
        let (first, second) = (host.take_session(&from(1)), host.take_session(&from(1)));
        assert!(first.is_some() && second.is_some());
        assert!(host.take_session(&from(1)).is_none(), "of one address");
        let other = host.take_session(&from(2));
        assert!(other.is_some() && host.take_session(&from(3)).is_none(), "of all");
        drop(second);
        assert!(host.take_session(&from(3)).is_some());
        drop((first, other));
        assert!(host.taken_sessions.lock().is_empty());
    }

    #[test]
    fn a_stream_that_begins_has_its_place_before_it_stands_and_one_in_the_place_of_another_takes_none() {
        let host = host(HostLimits { streams: 3, streams_per_address: 2, ..HostLimits::default() });
        let session = cut_off(&host, 1);
        host.sessions().insert(session.id, session.clone());
        let (first, second) = (host.take_stream(&session, 0), host.take_stream(&session, 7));
        assert!(first.is_some() && second.is_some() && host.take_stream(&session, 1).is_none());
        let again = host.take_stream(&session, 7);
        assert!(again.is_some());
        drop(second);
        assert!(host.take_stream(&session, 1).is_none(), "the other is still there");
        drop(again);
        assert!(host.take_stream(&session, 1).is_some());
        session.close(None);
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
}
