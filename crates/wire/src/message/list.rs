//! Lists in messages. One that is too long is refused before more of it unfolds than may be in one: two bytes of a
//! message may become a hundred in memory. So are lists within the items of a list, where all of them together are:
//! before twice as much unfolds as they may have, for one of them may by itself have as much.

use super::{Outcome, Want};
use crate::account::STAGES_MAX;
use crate::entry::{Entry, EntryId};
use crate::{RelativePath, limits};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// A function for each kind of list, that takes no more items than there may be.
macro_rules! lists {
    ($($(#[$about:meta])* $name:ident: $most:expr;)*) => {$(
        $(#[$about])*
        pub(crate) fn $name<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
            from: D,
        ) -> Result<Vec<T>, D::Error> {
            from.deserialize_seq(AtMost::<T> { items: $most, nested: 0, nested_in: |_| 0 })
        }
    )*};
}

lists! {
    /// Answers, acknowledgements, outcomes, rules of a filter.
    items: limits::MESSAGE_ITEMS_MAX;
    /// Flows.
    entries: limits::OFFER_ENTRIES_MAX;
    /// Digests of chunks.
    digests: limits::MESSAGE_DIGESTS_MAX;
    /// Extended attributes of one entry.
    xattrs: limits::XATTRS_MAX;
    /// What could not be kept of one entry.
    losses: limits::MESSAGE_LOSSES_MAX;
    /// Runs of chunks of one entry.
    runs: limits::MESSAGE_RUNS_MAX;
    /// What a transfer reads from.
    places: limits::PLACES_MAX;
    /// Names that alone are sent.
    names: limits::ONLY_NAMES_MAX;
    /// Stages of one side.
    stages: STAGES_MAX;
    /// Streams of a link.
    streams: usize::from(limits::STREAMS_MAX);
    /// Rates of a measurement.
    rates: limits::MEASURE_RATES_MAX;
    /// Exports of a server.
    exports: limits::EXPORTS_TOLD_MAX;
    /// Slots of a server.
    slots: limits::SLOTS_MAX;
    /// Ranges of a set of frames.
    ranges: limits::SET_RANGES_MAX;
    /// Producers of a channel.
    producers: limits::PRODUCERS_MAX;
    /// Rows of a channel's status.
    rows: limits::STATUS_ROWS_MAX;
    /// Addresses in one of them.
    addresses: limits::STATUS_ADDRESSES_MAX;
    /// Reasons in one of them.
    reasons: limits::STATUS_REASONS_MAX;
}

/// Answers and outcomes, with what is in their own lists.
pub(crate) fn nesting_items<'de, D: Deserializer<'de>, T: Deserialize<'de> + Nesting>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(AtMost::<T> {
        items: limits::MESSAGE_ITEMS_MAX,
        nested: T::NESTED_MAX,
        nested_in: T::nested,
    })
}

/// Entries, with what is in their own lists.
pub(crate) fn nesting_entries<'de, D: Deserializer<'de>, T: Deserialize<'de> + Nesting>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(AtMost::<T> {
        items: limits::OFFER_ENTRIES_MAX,
        nested: T::NESTED_MAX,
        nested_in: T::nested,
    })
}

/// An item of a list that has lists of its own.
pub(crate) trait Nesting {
    /// How many items the lists of all items of a message may have together.
    const NESTED_MAX: usize;

    /// How many those of this one have.
    fn nested(&self) -> usize;
}

impl Nesting for Entry {
    const NESTED_MAX: usize = limits::MESSAGE_XATTRS_MAX;

    fn nested(&self) -> usize {
        self.xattrs.len()
    }
}

impl Nesting for (EntryId, Want) {
    const NESTED_MAX: usize = limits::MESSAGE_RUNS_MAX;

    fn nested(&self) -> usize {
        self.1.runs().len()
    }
}

impl Nesting for Outcome {
    const NESTED_MAX: usize = limits::MESSAGE_LOSSES_MAX;

    fn nested(&self) -> usize {
        self.losses().len()
    }
}

impl Nesting for (EntryId, Outcome) {
    const NESTED_MAX: usize = Outcome::NESTED_MAX;

    fn nested(&self) -> usize {
        self.1.nested()
    }
}

impl Nesting for (RelativePath, Outcome) {
    const NESTED_MAX: usize = Outcome::NESTED_MAX;

    fn nested(&self) -> usize {
        self.1.nested()
    }
}

impl Nesting for (EntryId, RelativePath, Outcome) {
    const NESTED_MAX: usize = Outcome::NESTED_MAX;

    fn nested(&self) -> usize {
        self.2.nested()
    }
}

impl Nesting for (Entry, Outcome) {
    const NESTED_MAX: usize = Entry::NESTED_MAX + Outcome::NESTED_MAX;

    fn nested(&self) -> usize {
        self.0.nested() + self.1.nested()
    }
}

struct AtMost<T> {
    items: usize,
    /// In the lists of all items together.
    nested: usize,
    nested_in: fn(&T) -> usize,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} items", self.items)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let length = list.size_hint().unwrap_or(0);
        if length > self.items {
            return Err(A::Error::invalid_length(length, &self));
        }
        let mut items = Vec::with_capacity(length);
        let mut nested = 0;
        while let Some(item) = list.next_element()? {
            nested += (self.nested_in)(&item);
            if items.len() == self.items || nested > self.nested {
                return Err(A::Error::invalid_length(items.len() + 1, &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        AckLevel, ChannelStatus, ChannelWishes, ClockOffset, Consume, ConsumerStatus, ErrandTold, FilterRule,
        FlowMark, FlowMessage, FrameFrom, FramePolicy, FrameRole, FrameTerms, FramesMessage, HasOf,
        LENGTH_BYTES, Loss, LossReason, Measured, Message, Open, Place, ProducerId, ProducerStatus, Pull,
        Push, Question, Reply, Request, Run, Slot, SlotTable, SlotTaken, Terms, TransferMessage as Say,
        TransferNumber, Vouch,
    };
    use super::*;
    use crate::account::{SideAccounts, StageAccount, StreamAccount};
    use crate::entry::{Evidence, Kind, Xattr};
    use crate::{DecodeError, Digest};

    const REFUSED: Result<Message, DecodeError> = Err(DecodeError::Invalid { what: "message" });

    fn decoded(message: Message) -> Result<Message, DecodeError> {
        let decoded = Message::decode(&message.encode().unwrap()[LENGTH_BYTES..]);
        assert!(decoded.as_ref().map_or(true, |decoded| *decoded == message));
        decoded
    }

    fn says(say: Say) -> Message {
        Message::Transfer(TransferNumber(1), say)
    }

    fn replies(reply: Reply) -> Message {
        Message::Reply { number: 1, reply }
    }

    fn opens(request: Request) -> Message {
        let terms = Terms::of(limits::CHUNK_BYTES_MIN, limits::SEGMENT_BYTES_MIN as u32);
        Message::Open(Box::new(Open::of(TransferNumber(1), request, terms)))
    }

    fn places(count: usize) -> Vec<Place> {
        vec![Place { export: None, path: Vec::new() }; count]
    }

    fn entry(xattrs: usize) -> Entry {
        Entry {
            id: EntryId(1),
            path: RelativePath::root(),
            kind: Kind::Directory,
            mode: 0,
            uid: 0,
            gid: 0,
            evidence: Evidence::default(),
            xattrs: vec![Xattr { name: b"x".to_vec(), value: Vec::new() }; xattrs],
        }
    }

    fn done(losses: usize) -> Outcome {
        let loss = Loss { what: String::new(), why: String::new() };
        Outcome::Done { digest: None, losses: vec![loss; losses] }
    }

    #[test]
    fn a_list_that_is_too_long_is_refused_before_it_unfolds() {
        let (id, path, run) = (EntryId(1), RelativePath::default(), Run { first: 0, count: 1 });
        let outcome = Outcome::Unchanged { digest: None };
        let mark = FlowMark { flow: id, bytes: 0, digest: Digest::default() };
        let lists = |more: usize| {
            let (items, entries) = (limits::MESSAGE_ITEMS_MAX + more, limits::OFFER_ENTRIES_MAX + more);
            let digests = vec![Digest::default(); limits::MESSAGE_DIGESTS_MAX + more];
            [
                Say::Offer(vec![entry(0); entries]),
                Say::Want(vec![(id, Want::Nothing); items]),
                Say::Have { entry: id, first: 0, digests },
                Say::Ack(AckLevel::Verified, vec![(id, run); items]),
                Say::Repair(vec![(id, run); items]),
                Say::Differs(vec![(id, run); items]),
                Say::Holes(vec![(id, run); items]),
                Say::Withdraw(vec![(id, None); items]),
                Say::Aside(vec![(id, path.clone(), outcome.clone()); items]),
                Say::Troubles(vec![(path.clone(), outcome.clone()); items]),
                Say::Deleted(vec![path.clone(); items]),
                Say::SourcesGone(vec![path.clone(); items]),
                Say::Heard(vec![run; items]),
                Say::Settled(vec![(id, outcome.clone()); items]),
                Say::Flow(FlowMessage::Mark(vec![mark; entries])),
                Say::Flow(FlowMessage::End(vec![mark; entries])),
                Say::Flow(FlowMessage::Again(vec![(id, 0); entries])),
            ]
        };
        lists(0).into_iter().for_each(|list| assert!(decoded(says(list)).is_ok()));
        // What has unfolded is known by its name, and refused as too large.
        lists(1).into_iter().for_each(|list| assert_eq!(decoded(says(list)), REFUSED));
        for lists in [lists_of_one, questions_and_answers, status_of_a_channel] {
            lists(0).into_iter().for_each(|message| assert!(decoded(message).is_ok()));
            lists(1).into_iter().for_each(|message| assert_eq!(decoded(message), REFUSED));
        }
    }

    /// Lists of one entry, one side, one set.
    fn lists_of_one(more: usize) -> Vec<Message> {
        let (id, path) = (EntryId(1), RelativePath::default());
        let runs = vec![Run { first: 0, count: 1 }; limits::MESSAGE_RUNS_MAX + more];
        let losses = || done(limits::MESSAGE_LOSSES_MAX + more);
        let stages = vec![StageAccount::default(); STAGES_MAX + more];
        let streams = vec![StreamAccount::default(); usize::from(limits::STREAMS_MAX) + more];
        let taken = (0..(limits::SET_RANGES_MAX + more) as u32).map(|at| (2 * at, 2 * at + 1)).collect();
        let says_all = [
            Say::Offer(vec![entry(limits::XATTRS_MAX + more)]),
            Say::Want(vec![(id, Want::Missing(runs.clone()))]),
            Say::Want(vec![(id, Want::Compare(runs))]),
            Say::Settled(vec![(id, losses())]),
            Say::Aside(vec![(id, path.clone(), losses())]),
            Say::Troubles(vec![(path, losses())]),
            Say::Accounts(Box::new(SideAccounts { stages, ..SideAccounts::default() })),
            Say::Accounts(Box::new(SideAccounts { streams, ..SideAccounts::default() })),
            Say::Frames(FramesMessage::SetHad { set: 1, taken }),
        ];
        says_all.map(says).into()
    }

    fn questions_and_answers(more: usize) -> Vec<Message> {
        let rule = FilterRule { include: true, pattern: String::new() };
        let filter = vec![rule; limits::MESSAGE_ITEMS_MAX + more];
        let only = vec![RelativePath::default(); limits::ONLY_NAMES_MAX + more];
        let place = || Place { export: None, path: Vec::new() };
        let vouch = Vouch {
            certificate: [1; 32],
            places: places(limits::PLACES_MAX + more),
            write: false,
            deed: Digest::default(),
            seconds: 1,
            at: "host:1".into(),
        };
        let rates = vec![0; limits::MEASURE_RATES_MAX + more];
        let exports = vec![(String::new(), false); limits::EXPORTS_TOLD_MAX + more];
        let slot = Slot {
            lease: [0; 16],
            lease_millis: 0,
            period_micros: limits::SLOT_PERIOD_MICROS_MIN,
            length_micros: 0,
            opens_micros: 0,
            bytes: 0,
            bytes_per_s: 1,
            worst_micros: 0,
            is_any_time: false,
            settle_micros: 0,
            over_bytes: 0,
        };
        let slots = vec![SlotTaken { slot, is_yours: false }; limits::SLOTS_MAX + more];
        let table = SlotTable { bytes_per_s: 1, slots, settle_micros: 0, beside_bytes: 0, held_micros: 0 };
        let settled = vec![(entry(limits::XATTRS_MAX + more), done(0))];
        vec![
            opens(Request::Pull(Pull::of(places(limits::PLACES_MAX + more)))),
            opens(Request::Pull(Pull { only, ..Pull::of(places(1)) })),
            opens(Request::Pull(Pull { filter: filter.clone(), ..Pull::of(places(1)) })),
            opens(Request::Push(Push { filter, ..Push::to(place()) })),
            Message::Ask { number: 1, question: Question::Vouch(vouch) },
            replies(Reply::Entries(vec![entry(limits::XATTRS_MAX + more)])),
            replies(Reply::Measured(Measured { rates, ..Measured::default() })),
            replies(Reply::About { program: String::new(), exports }),
            replies(Reply::Slots(table)),
            replies(Reply::Errand(Box::new(ErrandTold::Settled(settled)))),
        ]
    }

    fn status_of_a_channel(more: usize) -> Vec<Message> {
        let rows = limits::STATUS_ROWS_MAX + more;
        let cam = ProducerId::new("cam").unwrap();
        let producer = ProducerStatus {
            producer: cam.clone(),
            frames: 0,
            bytes: 0,
            waiting: 0,
            is_linked: false,
            is_finished: false,
            is_gone: false,
            clock: ClockOffset { offset_ns: 0, bound_ns: 0 },
        };
        let consumer = ConsumerStatus {
            name: "c".into(),
            addresses: Vec::new(),
            members: 1,
            policy: FramePolicy::Block,
            behind: 0,
            in_flight: 0,
            taken: 0,
            bytes: 0,
            lost: Vec::new(),
            tail_ns: [0; 4],
        };
        let addresses = vec!["::1".to_owned(); limits::STATUS_ADDRESSES_MAX + more];
        let lost = vec![(LossReason::Dropped, 1); limits::STATUS_REASONS_MAX + more];
        let of = |consumers| ChannelStatus { consumers, ..ChannelStatus::default() };
        let status = [
            ChannelStatus { producers: vec![producer; rows], ..ChannelStatus::default() },
            ChannelStatus { sets: vec![(0, 0, 0); rows], ..ChannelStatus::default() },
            of(vec![consumer.clone(); rows]),
            of(vec![ConsumerStatus { addresses, ..consumer.clone() }]),
            of(vec![ConsumerStatus { lost, ..consumer }]),
        ];
        let mut messages: Vec<Message> =
            status.into_iter().map(|status| replies(Reply::Channel(Box::new(status)))).collect();
        let has = HasOf { producer: cam, next: 0, is_over: false };
        let consume = Consume {
            consumer: [1; 16],
            process: [2; 16],
            name: None,
            group: None,
            policy: FramePolicy::Block,
            from: FrameFrom::Start,
            instance: None,
            has: vec![has; limits::PRODUCERS_MAX + more],
            producers: 1,
            keep_ms: 0,
            patience_ms: 0,
        };
        let frames = FrameTerms {
            window_bytes: limits::LANE_BYTES_MIN,
            window_items: 1,
            channel: ChannelWishes::default(),
            role: FrameRole::Consume(Box::new(consume)),
        };
        let place = Place { export: None, path: Vec::new() };
        messages.push(opens(Request::Frames { place, frames }));
        messages
    }

    #[test]
    fn lists_within_items_are_bounded_for_all_items_of_a_message_together() {
        let (id, path, run) = (EntryId(1), RelativePath::default(), Run { first: 0, count: 1 });
        let lists = |more: usize| {
            let (losses, runs) = (limits::MESSAGE_LOSSES_MAX - 1, limits::MESSAGE_RUNS_MAX - 1);
            let (most, rest) = (done(losses), done(1 + more));
            let entries = || {
                let full = limits::MESSAGE_XATTRS_MAX / limits::XATTRS_MAX;
                let mut entries = vec![entry(limits::XATTRS_MAX); full];
                entries.push(entry(more));
                entries
            };
            [
                says(Say::Settled(vec![(id, most.clone()), (id, rest.clone())])),
                says(Say::Aside(vec![(id, path.clone(), most.clone()), (id, path.clone(), rest.clone())])),
                says(Say::Troubles(vec![(path.clone(), most), (path.clone(), rest)])),
                says(Say::Want(vec![
                    (id, Want::Missing(vec![run; runs])),
                    (id, Want::Compare(vec![run; 1 + more])),
                ])),
                says(Say::Offer(entries())),
                replies(Reply::Entries(entries())),
            ]
        };
        lists(0).into_iter().for_each(|list| assert!(decoded(list).is_ok()));
        // Before they unfold, too.
        lists(1).into_iter().for_each(|list| assert_eq!(decoded(list), REFUSED));
    }

    #[test]
    fn what_a_message_holds_counts_with_all_that_is_in_its_items() {
        let loss = Loss { what: "mode".into(), why: String::new() };
        let outcome = Outcome::Done { digest: None, losses: vec![loss; 1000] };
        assert!(Say::Settled(vec![(EntryId(1), outcome)]).heap_bytes() >= 1000 * (size_of::<Loss>() + 4));
        let runs = vec![Run { first: 0, count: 1 }; 1000];
        for want in [Want::Missing(runs.clone()), Want::Compare(runs)] {
            assert!(Say::Want(vec![(EntryId(1), want)]).heap_bytes() >= 1000 * size_of::<Run>());
        }
        let have = Say::Have { entry: EntryId(1), first: 0, digests: vec![Digest::default(); 1000] };
        assert!(have.heap_bytes() >= 32 * 1000);
    }
}
