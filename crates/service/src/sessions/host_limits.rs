//! What a server has room for: sessions and streams, in all and of those that count as one, and memory for what their
//! clients have it keep.

use super::Host;
use super::errands::Running;
use crate::accept::source_of;
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
    /// Whether another session from there would be one too many, of all or of those from there. Sessions that have
    /// ended, or have neither link nor transfer nor guest, make room at once; then the one from there that has been
    /// without a link for longest: a client that was killed begins the same command again.
    pub(super) fn is_full(&self, origin: &Origin) -> bool {
        let is_over = |sessions: &HashMap<SessionId, Arc<Session>>| {
            let theirs = sessions.values().filter(|session| origin.is_address_of(session)).count();
            sessions.len() >= self.limits.sessions || theirs >= self.limits.sessions_per_address
        };
        if !is_over(&self.sessions()) {
            return false;
        }
        self.end_all("nothing was under way", |session| {
            // Under way is also what a guest of it does, which would end with it.
            let is_idle = || session.transfers().is_empty() && !self.has_vouched(session);
            session.is_closed() || (session.lost_since().is_some() && is_idle())
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
    pub(super) fn has_room_for_stream(&self, session: &Session) -> bool {
        self.streams_left(session) > 0
    }

    /// How many more it may have. Those of a copy that is run for somebody count as that one's, while they stand.
    pub(super) fn streams_left(&self, session: &Session) -> usize {
        let origin = Origin::of_session(session);
        let sessions: Vec<Arc<Session>> = self.sessions().values().cloned().collect();
        let (mut all, mut theirs) = (0, 0);
        let mut count = |asker: &Session, streams: usize| {
            all += streams;
            theirs += if origin.is_address_of(asker) { streams } else { 0 };
        };
        sessions.iter().for_each(|session| count(session, session.streams().len()));
        for running in self.errands.running() {
            count(running.asker(), running.far().map_or(0, |far| far.streams().len()));
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
                Holder::Session(greedy) => {
                    self.end_all(why, |session| std::ptr::eq(session, &*greedy));
                    greedy.end_link();
                }
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
