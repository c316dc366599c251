//! Lists in messages. One that is too long is refused before more of it unfolds than may be in one: two bytes of a
//! message may become a hundred in memory.

use crate::limits;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Answers, acknowledgements, outcomes.
pub(super) fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    at_most(limits::MESSAGE_ITEMS_MAX, from)
}

/// Entries, or flows.
pub(super) fn entries<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    at_most(limits::OFFER_ENTRIES_MAX, from)
}

/// Digests of chunks.
pub(super) fn digests<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    at_most(limits::MESSAGE_DIGESTS_MAX, from)
}

fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>>(most: usize, from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(AtMost(most, PhantomData))
}

struct AtMost<T>(usize, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {} items", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let length = list.size_hint().unwrap_or(0);
        if length > self.0 {
            return Err(A::Error::invalid_length(length, &self));
        }
        let mut items = Vec::with_capacity(length);
        while let Some(item) = list.next_element()? {
            if items.len() == self.0 {
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
        AckLevel, FlowMark, FlowMessage, LENGTH_BYTES, Loss, Message, Outcome, Run, TransferMessage as Say,
        TransferNumber, Want,
    };
    use super::*;
    use crate::{DecodeError, Digest, EntryId, RelativePath};

    fn decoded(say: Say) -> Result<Message, DecodeError> {
        let message = Message::Transfer(TransferNumber(1), say);
        let decoded = Message::decode(&message.encode().unwrap()[LENGTH_BYTES..]);
        assert!(decoded.as_ref().map_or(true, |decoded| *decoded == message));
        decoded
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
        lists(0).into_iter().for_each(|list| assert!(decoded(list).is_ok()));
        // What has unfolded is known by its name, and refused as too large.
        let refused = Err(DecodeError::Invalid { what: "message" });
        lists(1).into_iter().for_each(|list| assert_eq!(decoded(list), refused));
    }

    #[test]
    fn lists_within_items_are_bounded_for_all_items_of_a_message_together() {
        let (id, path, run) = (EntryId(1), RelativePath::default(), Run { first: 0, count: 1 });
        let done = |losses| {
            let loss = Loss { what: String::new(), why: String::new() };
            Outcome::Done { digest: None, losses: vec![loss; losses] }
        };
        let lists = |more: usize| {
            let (losses, runs) = (limits::MESSAGE_LOSSES_MAX - 1, limits::MESSAGE_RUNS_MAX - 1);
            let (most, rest) = (done(losses), done(1 + more));
            [
                Say::Settled(vec![(id, most.clone()), (id, rest.clone())]),
                Say::Aside(vec![(id, path.clone(), most.clone()), (id, path.clone(), rest.clone())]),
                Say::Troubles(vec![(path.clone(), most), (path.clone(), rest)]),
                Say::Want(vec![
                    (id, Want::Missing(vec![run; runs])),
                    (id, Want::Compare(vec![run; 1 + more])),
                ]),
            ]
        };
        lists(0).into_iter().for_each(|list| assert!(decoded(list).is_ok()));
        for list in lists(1) {
            assert!(matches!(decoded(list), Err(DecodeError::TooLarge { what: "losses" | "runs", .. })));
        }
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
