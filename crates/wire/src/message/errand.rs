//! Errands: copies that a server runs as the client of another one, in the stead of its own client; and guests, as
//! which it is let in there.
//!
//! ```text
//! client                    server that acts                    other server
//! ErrandTo(address) ------> may it be sent there?
//! Vouch(guest)      ------------------------------------------> lets the guest in, for that alone
//! Errand            ------> dials, as the guest --------------> a session and a transfer, as any client's
//!                   <------ ErrandTold, up to Over or Failed
//! ```
//!
//! A guest has no more rights than the client that vouched for it, and ends with that one's session. A server that acts
//! and loses its client, or hears that the rest of the answer is not wanted, stops in order.

use super::{
    Check, Failure, FilterRule, Open, Outcome, PartOf, Place, Preserve, Pull, Request, Terms, VerifyLevel,
    check_count, check_outcomes, list,
};
use crate::account::RoomAccount;
use crate::digest::{Digest, PIECES_MAX};
use crate::entry::Entry;
use crate::hello::Cipher;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who is to be let in besides the client, for a part of what that may do itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vouch {
    /// Fingerprint of the guest's certificate.
    pub certificate: [u8; 32],
    /// What it copies from, or the one place that it copies into; their paths have at most
    /// [`limits::GUEST_PLACES_BYTES_MAX`] together.
    #[serde(deserialize_with = "list::places")]
    pub places: Vec<Place>,
    /// It copies into that; else from that.
    pub write: bool,
    /// What it does there: of any [`Open`] with another one nothing is opened.
    pub deed: Digest,
    /// For so long at most; 1 to [`limits::GUEST_SECONDS_MAX`].
    pub seconds: u32,
    /// Where it acts, for people.
    pub at: String,
}

impl Vouch {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        check_address(&self.at)?;
        check_count("places", self.places.len(), limits::PLACES_MAX)?;
        self.places.iter().try_for_each(Place::check)?;
        let bytes = self.places.iter().map(|place| place.path.len()).sum();
        check_count("paths of a guest", bytes, limits::GUEST_PLACES_BYTES_MAX)?;
        let is_one = !self.write && !self.places.is_empty() || self.places.len() == 1;
        match is_one && (1..=limits::GUEST_SECONDS_MAX).contains(&self.seconds) {
            true => Ok(()),
            false => Err(DecodeError::Invalid { what: "guest" }),
        }
    }
}

/// All of an [`Open`] by which a guest could read, write or delete more than its voucher asked for, or check less.
#[derive(Serialize)]
struct Deed<'a> {
    filter: &'a [FilterRule],
    only: &'a [RelativePath],
    one_file_system: bool,
    follow_links: bool,
    verify: VerifyLevel,
    check: Check,
    preserve: Preserve,
    delete_max: Option<u64>,
    dry_run: bool,
    ignore_existing: bool,
    update: bool,
    part: Option<PartOf>,
    finds_renames: bool,
}

impl<'a> Deed<'a> {
    /// Of who writes.
    fn of_push(filter: &'a [FilterRule], terms: &Terms) -> Deed<'a> {
        Deed {
            filter,
            only: &[],
            one_file_system: false,
            follow_links: false,
            verify: terms.verify,
            check: terms.check,
            preserve: terms.preserve,
            delete_max: terms.delete_max,
            dry_run: terms.dry_run,
            ignore_existing: terms.ignore_existing,
            update: terms.update,
            part: terms.part,
            finds_renames: terms.finds_renames,
        }
    }

    /// Of who reads.
    fn of_pull(pull: &'a Pull, terms: &Terms) -> Deed<'a> {
        Deed {
            only: &pull.only,
            one_file_system: pull.one_file_system,
            follow_links: pull.follow_links,
            ..Deed::of_push(&pull.filter, terms)
        }
    }

    fn digest(&self) -> Result<Digest, DecodeError> {
        let bytes = postcard::to_extend(self, Vec::<u8>::new());
        let bytes = bytes.map_err(|_| DecodeError::Invalid { what: "deed" })?;
        Ok(Digest(blake3::derive_key("thalweg 2026-11 deed of a guest", &bytes)))
    }
}

impl Open {
    /// What it asks for, as [`Vouch::deed`] tells it: the derived key of BLAKE3 of the rules, names and terms of
    /// `Deed`, encoded as in a message.
    ///
    /// # Errors
    /// `Invalid` if it is about no files.
    pub fn deed(&self) -> Result<Digest, DecodeError> {
        match &self.request {
            Request::Push(push) => Deed::of_push(&push.filter, &self.terms).digest(),
            Request::Pull(pull) => Deed::of_pull(pull, &self.terms).digest(),
            Request::FlowPush { .. } | Request::FlowPull { .. } | Request::Frames { .. } => {
                Err(DecodeError::Invalid { what: "deed" })
            }
        }
    }
}

/// A key with its certificate, PEM: good for one errand. A secret, which nothing shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestKey(pub String);

impl fmt::Debug for GuestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuestKey")
    }
}

/// A copy that the server runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// Where the other server is dialled, `host:port`.
    pub address: String,
    /// Fingerprint of its certificate: nobody else is spoken with.
    pub server: [u8; 32],
    /// As whom.
    pub guest: GuestKey,
    /// The server that is asked has the sources, and sends; else it has the destination, and receives.
    pub sends: bool,
    /// What is copied; [`Pull::removes_at_end`] and [`Pull::trial`] have no place in it.
    pub source: Pull,
    /// Where to.
    pub destination: Place,
    /// How. Sizes of chunks and segments, the share of a stream and the key of the job are chosen by who acts.
    pub terms: Terms,
    /// What else was asked for.
    pub knobs: ErrandKnobs,
    /// Digest of the header of a receipt, if the client writes one: its lines come with what is told.
    pub receipt: Option<Digest>,
    /// Every entry is told; else those only that did not come to a plain end.
    pub tells_all: bool,
}

/// What a client may ask of an errand beside its terms. `None`: who acts chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrandKnobs {
    /// TCP connections; 1 to [`limits::STREAMS_MAX`].
    pub streams: Option<u16>,
    /// Bytes of a chunk, as [`limits::is_chunk_size`] takes them.
    pub chunk_bytes: Option<u64>,
    /// Bytes of a segment: a power of two, at most those of a chunk.
    pub request_bytes: Option<u32>,
    /// How data travel.
    pub cipher: Cipher,
    /// No knob is turned while it runs.
    pub holds_still: bool,
    /// Without progress for so long it fails, in milliseconds.
    pub patience_ms: u32,
    /// Without a sign of life for so long a link counts as lost, in milliseconds.
    pub stall_ms: u32,
}

impl ErrandKnobs {
    fn check(&self) -> Result<(), DecodeError> {
        let is_streams = |streams: u16| (1..=limits::STREAMS_MAX).contains(&streams);
        let is_request = |bytes: u32| {
            let bytes = u64::from(bytes);
            let most = self.chunk_bytes.unwrap_or(limits::CHUNK_BYTES_MAX).min(limits::SEGMENT_BYTES_MAX);
            bytes.is_power_of_two() && (limits::SEGMENT_BYTES_MIN..=most).contains(&bytes)
        };
        let is_sound = self.streams.is_none_or(is_streams)
            && self.chunk_bytes.is_none_or(limits::is_chunk_size)
            && self.request_bytes.is_none_or(is_request)
            && self.patience_ms > 0
            && self.stall_ms > 0;
        if is_sound { Ok(()) } else { Err(DecodeError::Invalid { what: "knobs of an errand" }) }
    }
}

impl Errand {
    /// What who runs it asks the other server for, as [`Open::deed`].
    ///
    /// # Errors
    /// None that is known.
    pub fn deed(&self) -> Result<Digest, DecodeError> {
        match self.sends {
            true => Deed::of_push(&self.source.filter, &self.terms).digest(),
            false => Deed::of_pull(&self.source, &self.terms).digest(),
        }
    }

    pub(super) fn check(&self) -> Result<(), DecodeError> {
        check_address(&self.address)?;
        check_count("key of a guest", self.guest.0.len(), limits::GUEST_KEY_BYTES_MAX)?;
        self.source.check()?;
        self.destination.check()?;
        self.terms.check_knobs()?;
        self.knobs.check()?;
        let is_plain = !self.source.removes_at_end && self.source.trial.is_none();
        match is_plain && !self.terms.removes_source {
            true => Ok(()),
            false => Err(DecodeError::Invalid { what: "errand" }),
        }
    }
}

/// How far an errand's copy is: the counters of its meter. A deputy that ssh started tells them as JSON, where one that
/// is missing is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ErrandCounts {
    /// Entries found so far.
    pub entries_found: u64,
    /// Content bytes found so far.
    pub bytes_found: u64,
    /// Whether that is all.
    pub scan_over: bool,
    /// Entries settled.
    pub entries_settled: u64,
    /// Those of them whose content came, where who acts is the receiver.
    pub entries_moved: u64,
    /// Content bytes verified at the destination.
    pub bytes_verified: u64,
    /// Content bytes that do not come, of entries settled.
    pub bytes_unmoved: u64,
}

/// What a server tells of an errand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrandTold {
    /// Entries came to their end; of each what tells it, without attributes.
    Settled(#[serde(deserialize_with = "list::nesting_entries")] Vec<(Entry, Outcome)>),
    /// So did names that were never offered.
    Aside(#[serde(deserialize_with = "list::nesting_items")] Vec<(RelativePath, Outcome)>),
    /// Names removed at the destination, or that would be.
    Deleted(#[serde(deserialize_with = "list::items")] Vec<RelativePath>),
    /// The link between the two servers is gone, and is dialled again.
    LinkLost(Failure),
    /// It stands again.
    LinkUp {
        /// After so many milliseconds.
        millis: u64,
    },
    /// One of its streams broke.
    StreamLost(u16, Failure),
    /// Chunks or small files came damaged and are sent again.
    Repaired(u64),
    /// Something that a person may want to know.
    Note(String),
    /// A knob was turned, and why.
    Knob(String),
    /// Something for a person who wants to know more.
    Detail(String),
    /// More is to come than the destination has room for.
    LacksRoom {
        /// The room.
        room: RoomAccount,
        /// Whether all that is to come is known.
        is_all: bool,
    },
    /// What it goes by, as JSON.
    Planned(#[serde(with = "serde_bytes")] Vec<u8>),
    /// How far it is; also a sign of life.
    Counts(ErrandCounts),
    /// The receipt begins, or begins anew.
    ReceiptBegins,
    /// Lines of a block of it.
    Block {
        /// Which.
        number: u64,
        /// The next lines of it.
        #[serde(deserialize_with = "list::items")]
        lines: Vec<String>,
        /// These are the last.
        is_whole: bool,
    },
    /// Digests of the parts of a file.
    Pieces {
        /// Which.
        path: RelativePath,
        /// Bytes of each.
        piece_bytes: u64,
        /// In order.
        #[serde(deserialize_with = "list::digests")]
        digests: Vec<Digest>,
    },
    /// It is over: its report, as JSON. Nothing of it follows.
    Over(#[serde(with = "serde_bytes")] Vec<u8>),
    /// It failed as a whole. Nothing of it follows.
    Failed(Failure),
}

impl ErrandTold {
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        use ErrandTold as T;
        match self {
            T::Settled(entries) => {
                entries.iter().try_for_each(|(entry, _)| entry.check())?;
                check_outcomes(entries.iter().map(|(_, outcome)| outcome))
            }
            T::Aside(names) => check_outcomes(names.iter().map(|(_, outcome)| outcome)),
            T::LinkLost(failure) | T::StreamLost(_, failure) | T::Failed(failure) => failure.check(),
            T::Note(text) | T::Knob(text) | T::Detail(text) => {
                check_count("text", text.len(), limits::TEXT_BYTES_MAX)
            }
            T::Pieces { digests, .. } => check_count("digests", digests.len(), PIECES_MAX as usize),
            T::Deleted(_)
            | T::LinkUp { .. }
            | T::Repaired(_)
            | T::LacksRoom { .. }
            | T::Planned(_)
            | T::Counts(_)
            | T::ReceiptBegins
            | T::Block { .. }
            | T::Over(_) => Ok(()),
        }
    }
}

/// `host:port`, as far as it is looked at here.
pub(super) fn check_address(address: &str) -> Result<(), DecodeError> {
    check_count("address", address.len(), limits::ADDRESS_BYTES_MAX)?;
    match address.is_empty() || address.chars().any(char::is_control) {
        true => Err(DecodeError::Invalid { what: "address" }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{LENGTH_BYTES, Message, Push, Question, TransferNumber};

    fn place() -> Place {
        Place { export: Some("data".to_owned()), path: b"run7".to_vec() }
    }

    fn errand() -> Errand {
        Errand {
            address: "b:8487".to_owned(),
            server: [1; 32],
            guest: GuestKey("a secret".to_owned()),
            sends: false,
            source: Pull::of(vec![place()]),
            destination: place(),
            terms: Terms::of(limits::CHUNK_BYTES_MIN, limits::SEGMENT_BYTES_MIN as u32),
            knobs: ErrandKnobs {
                streams: None,
                chunk_bytes: None,
                request_bytes: None,
                cipher: Cipher::Tls,
                holds_still: false,
                patience_ms: 1,
                stall_ms: 1,
            },
            receipt: None,
            tells_all: false,
        }
    }

    fn is_taken(question: Question) -> bool {
        let message = Message::Ask { number: 1, question };
        Message::decode(&message.encode().unwrap()[LENGTH_BYTES..]).is_ok()
    }

    #[test]
    fn an_errand_that_no_client_would_ask_for_is_refused() {
        let asks = |change: &dyn Fn(&mut Errand)| {
            let mut errand = errand();
            change(&mut errand);
            is_taken(Question::Errand(Box::new(errand)))
        };
        assert!(asks(&|_| {}));
        assert!(!asks(&|errand| errand.address.clear()));
        assert!(!asks(&|errand| errand.address = "a\n:1".to_owned()));
        assert!(!asks(&|errand| errand.address = "a".repeat(limits::ADDRESS_BYTES_MAX + 1)));
        assert!(!asks(&|errand| errand.source.places.clear()));
        assert!(!asks(&|errand| errand.terms.removes_source = true));
        assert!(!asks(&|errand| errand.source.removes_at_end = true));
        assert!(!asks(&|errand| errand.knobs.streams = Some(0)));
        assert!(!asks(&|errand| errand.knobs.request_bytes = Some(3)));
        assert!(!asks(&|errand| errand.knobs.chunk_bytes = Some(3)));
        assert!(!asks(&|errand| errand.guest.0 = "x".repeat(limits::GUEST_KEY_BYTES_MAX + 1)));
    }

    #[test]
    fn a_guest_writes_into_one_place_and_not_for_ever() {
        let vouches = |places: usize, write: bool, seconds: u32| {
            is_taken(Question::Vouch(Vouch {
                certificate: [1; 32],
                places: vec![place(); places],
                write,
                deed: Digest([2; 32]),
                seconds,
                at: "a:8487".to_owned(),
            }))
        };
        assert!(vouches(1, true, 1) && vouches(2, false, limits::GUEST_SECONDS_MAX));
        assert!(!vouches(2, true, 1) && !vouches(0, true, 1) && !vouches(0, false, 1));
        assert!(!vouches(1, true, 0) && !vouches(1, true, limits::GUEST_SECONDS_MAX + 1));
        assert!(!vouches(limits::PLACES_MAX + 1, false, 1));
    }

    /// Else what acts is refused at the other server, or does there what nobody asked for.
    #[test]
    fn what_is_vouched_for_is_what_who_acts_opens_and_nothing_that_goes_further() {
        let rule = FilterRule { include: false, pattern: "*.key".to_owned() };
        for sends in [true, false] {
            let mut errand = Errand { sends, ..errand() };
            (errand.terms.delete_max, errand.terms.update) = (Some(7), true);
            errand.source.filter = vec![rule.clone()];
            let opened = |pull: &Pull, terms: &Terms| {
                let push = Push { filter: pull.filter.clone(), ..Push::to(place()) };
                let request = if sends { Request::Push(push) } else { Request::Pull(pull.clone()) };
                Open::of(TransferNumber(1), request, terms.clone()).deed().unwrap()
            };
            let vouched = errand.deed().unwrap();
            // Of a way, and not of what is done.
            let way = Terms { chunk_bytes: limits::CHUNK_BYTES_MAX, yields: true, ..errand.terms.clone() };
            assert_eq!(opened(&errand.source, &way), vouched);
            let of_terms: [fn(&mut Terms); 9] = [
                |terms| terms.delete_max = Some(8),
                |terms| terms.update = false,
                |terms| terms.ignore_existing = true,
                |terms| terms.dry_run = true,
                |terms| terms.check = Check::Nothing,
                |terms| terms.verify = VerifyLevel::Readback,
                |terms| terms.preserve.owner = !terms.preserve.owner,
                |terms| terms.part = PartOf::new(1, 2),
                |terms| terms.finds_renames = true,
            ];
            for change in of_terms {
                let mut terms = errand.terms.clone();
                change(&mut terms);
                assert_ne!(opened(&errand.source, &terms), vouched, "{terms:?}");
            }
            let all = Pull { filter: Vec::new(), ..errand.source.clone() };
            assert_ne!(opened(&all, &errand.terms), vouched, "what was left out");
            let wide = [
                Pull { only: vec![RelativePath::root()], ..errand.source.clone() },
                Pull { one_file_system: true, ..errand.source.clone() },
                Pull { follow_links: true, ..errand.source.clone() },
            ];
            for pull in wide.iter().filter(|_| !sends) {
                assert_ne!(opened(pull, &errand.terms), vouched, "{pull:?}");
            }
        }
    }

    #[test]
    fn what_is_kept_of_a_guest_has_a_bound() {
        let named = |bytes: usize| {
            let place = Place { export: Some("data".to_owned()), path: vec![b'x'; bytes] };
            let (places, at) = (vec![place.clone(), place], "a:8487".to_owned());
            let (certificate, write, deed, seconds) = ([1; 32], false, Digest([2; 32]), 1);
            is_taken(Question::Vouch(Vouch { certificate, places, write, deed, seconds, at }))
        };
        assert!(named(limits::GUEST_PLACES_BYTES_MAX / 2) && !named(limits::GUEST_PLACES_BYTES_MAX / 2 + 1));
    }

    #[test]
    fn what_shows_an_errand_shows_no_key() {
        assert!(!format!("{:?}", errand()).contains("secret"));
    }
}
