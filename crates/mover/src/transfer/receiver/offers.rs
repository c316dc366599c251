//! What the sender says of an entry before its content: offered, left aside, withdrawn, said twice.

use super::compare::Comparison;
use super::left::thin;
use super::replaced::Withdrawn;
use super::{Action, Decided, End, Item, Large, Receiver, State, protocol};
use crate::failure::{Failure, Result};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::message::{Outcome, TransferMessage as Say, Want};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, digest, limits};

/// Memory of a run of holes.
const HOLE_RUN_BYTES: usize = 32;

impl Receiver {
    /// Answer to [`Action::Decide`] and [`Action::Link`].
    pub fn decided(&mut self, id: EntryId, decided: Decided, now: Duration) {
        let chunk_bytes = self.terms.chunk_bytes;
        let small_bytes = u64::from(self.terms.segment_bytes);
        if matches!(decided, Decided::Fresh) && self.is_linked_to_stand_in(id) {
            self.proceed(now);
            return;
        }
        let Some(item) = self.items.get_mut(&id).filter(|item| matches!(item.state, State::Deciding)) else {
            return;
        };
        if !matches!(decided, Decided::Settled { made: false, .. }) {
            self.deciding -= 1;
        }
        let bytes = item.entry.content_bytes();
        let sparse = matches!(item.entry.kind, Kind::File { sparse: true, .. });
        let is_new = match &decided {
            Decided::Fresh => true,
            // In a dry run that is the word for what would come.
            Decided::Settled { outcome: Outcome::Done { .. }, .. } => self.terms.dry_run,
            // Its content is here, and takes room once more.
            Decided::Wanted { present, candidate } => {
                present.is_empty() && candidate.is_some_and(|candidate| candidate.is_elsewhere)
            }
            Decided::Settled { .. } => false,
        };
        // What changed at the source and comes again takes no more room for that, unless it was a link.
        if is_new && !sparse && (item.first == id || item.was_link) {
            self.counts.wanted_bytes = self.counts.wanted_bytes.saturating_add(bytes);
        }
        match decided {
            Decided::Settled { outcome, made: false } => self.tell(id, outcome),
            Decided::Settled { outcome, made: true } => {
                self.counts.unmoved_bytes = self.counts.unmoved_bytes.saturating_add(bytes);
                item.state = State::Named(outcome);
                if !item.unconfirmed {
                    self.outbox.wants.push((id, Want::Nothing));
                }
                self.rounds.dirty.named.push(id);
                self.rounds.dirty.since.get_or_insert(now);
            }
            Decided::Fresh => {
                let size = item.entry.evidence.size;
                // Of a hard link nothing comes under this number: it is offered again as a file.
                let is_link = matches!(item.entry.kind, Kind::HardLink { .. });
                if is_link || (!sparse && size <= small_bytes) {
                    item.state = State::Small;
                } else {
                    item.state = State::Large(Large::new(&item.entry, chunk_bytes, self.keeps_pieces));
                }
                self.awaiting.insert(id);
                if !item.unconfirmed {
                    self.outbox.wants.push((id, Want::Whole));
                }
            }
            Decided::Wanted { present, candidate } => {
                let size = item.entry.evidence.size;
                let mut large = Large::new(&item.entry, chunk_bytes, self.keeps_pieces);
                let mut has_partial = !present.is_empty();
                let mut present = present;
                present.sort_unstable_by_key(|&(chunk, _)| chunk);
                present.dedup_by_key(|&mut (chunk, _)| chunk);
                present.retain(|&(chunk, _)| chunk < large.tree.chunks());
                // Something is left for the others.
                let room = self.limits.gaps.saturating_sub(self.bounded.gaps);
                let there = present.len();
                let mut gaps = thin(&mut present, room - room / 8);
                let may_have_holes =
                    matches!(item.entry.kind, Kind::File { sparse, marked } if sparse || marked);
                // Holes are never written: through those of what comes again, what is there would show.
                if may_have_holes && present.len() < there {
                    present.clear();
                    (gaps, has_partial) = (0, false);
                    self.outbox.act(Action::Discard(id));
                }
                large.comparison = candidate.map(|candidate| Comparison::new(candidate, has_partial));
                item.gaps += gaps;
                self.bounded.gaps += gaps;
                let mut bytes = 0;
                for &(chunk, digest) in &present {
                    large.tree.insert(chunk, digest);
                    bytes += digest::chunk_length(chunk, size, chunk_bytes);
                }
                self.counts.totals.bytes_resumed = self.counts.totals.bytes_resumed.saturating_add(bytes);
                self.counts.verified_bytes = self.counts.verified_bytes.saturating_add(bytes);
                self.counts.durable_bytes = self.counts.durable_bytes.saturating_add(bytes);
                large.have = present;
                item.state = State::Large(large);
                self.awaiting.insert(id);
                if !item.unconfirmed {
                    self.say_missing(id);
                }
            }
        }
        self.proceed(now);
    }

    /// Content bytes that do not come, of entries settled: those that were there already, were left out, or failed; in
    /// a dry run those that would come.
    pub fn unmoved_bytes(&self) -> u64 {
        self.counts.unmoved_bytes
    }

    /// Content bytes of entries decided of which nothing is here: what the destination needs room for, in a dry run
    /// would need. Sparse files are not in it: nobody knows what they take.
    pub fn wanted_bytes(&self) -> u64 {
        self.counts.wanted_bytes
    }

    /// Of an entry that has its last word.
    pub(super) fn note_unmoved(&mut self, item: &Item, outcome: &Outcome) {
        let bytes = item.entry.content_bytes();
        let is_left = match outcome {
            Outcome::Failed(_) | Outcome::Skipped(_) => true,
            // A difference was found: nobody looks at the rest.
            Outcome::Done { .. } => self.terms.dry_run,
            Outcome::Unchanged { .. } => false,
        };
        let unmoved = match &item.state {
            State::Deciding => bytes,
            State::Small if is_left => bytes,
            State::Large(large) if is_left => {
                bytes.saturating_sub(large.bytes_here(bytes, self.terms.chunk_bytes))
            }
            _ => 0,
        };
        self.counts.unmoved_bytes = self.counts.unmoved_bytes.saturating_add(unmoved);
    }

    /// Whether an answer to [`Action::Decide`] is still waited for.
    pub fn is_deciding(&self, id: EntryId) -> bool {
        self.items.get(&id).is_some_and(|item| matches!(item.state, State::Deciding))
    }

    pub(super) fn hear_offer(&mut self, entry: Entry) -> Result<()> {
        let id = entry.id;
        let replaces = std::mem::take(&mut self.replacing.follows);
        if id < self.next_id {
            return self.repeat(&entry);
        }
        self.check_unheard()?;
        self.check_number(id)?;
        // Of what the sender has withdrawn, some may not be known to be, and some is on its way to its name.
        let times = 1 + usize::from(self.repeat.is_on);
        if self.items.len() >= self.limits.entries * times + self.replacing.replaced.len()
            || self.bounded.item_bytes / times > self.limits.entry_bytes
        {
            return Err(protocol("more entries offered at once than agreed"));
        }
        // A source that changed after all was settled: what was concluded is concluded again.
        self.end = End::Open;
        self.next_id = EntryId(id.0 + 1);
        if !replaces {
            self.counts.offered.0 += 1;
            self.counts.offered.1 = self.counts.offered.1.saturating_add(entry.content_bytes());
        }
        let entry = Arc::new(entry);
        self.bounded.item_bytes += entry.heap_bytes();
        self.deciding += 1;
        let item = Item {
            entry,
            first: id,
            state: State::Deciding,
            unconfirmed: false,
            damaged: 0,
            lost: 0,
            had_stand_in: false,
            was_link: false,
            asked: 0,
            pieces: None,
            gaps: 0,
        };
        self.items.insert(id, item);
        if replaces {
            self.replace_withdrawn(id);
            self.free_withdrawn();
            self.look_again_at(id);
        } else if self.repeat.is_on {
            self.repeat.held.push(id);
        } else {
            self.look_at(id);
        }
        Ok(())
    }

    /// It was counted among what was offered when nobody knew that it replaces another.
    pub(super) fn count_less(&mut self, id: EntryId) {
        let Some(item) = self.items.get(&id) else { return };
        self.counts.offered.0 = self.counts.offered.0.saturating_sub(1);
        self.counts.offered.1 = self.counts.offered.1.saturating_sub(item.entry.content_bytes());
    }

    pub(super) fn hear_aside(&mut self, id: EntryId, path: RelativePath, outcome: Outcome) -> Result<()> {
        if let Some((told, _)) = self.told.outcomes.get(&id) {
            self.outbox.settled.push((id, told.clone()));
            return Ok(());
        }
        if let Outcome::Failed(failure) = &outcome
            && let Some(item) = self.items.get_mut(&id)
        {
            item.unconfirmed = false;
            self.hear_withdraw(id, Some(failure.clone()));
            return Ok(());
        }
        self.check_unheard()?;
        self.check_number(id)?;
        self.next_id = self.next_id.max(EntryId(id.0 + 1));
        self.counts.count(&outcome, 0);
        self.told.remember(id, outcome.clone(), 0);
        self.outbox.settled.push((id, outcome.clone()));
        self.outbox.act(Action::Aside(Some(id), path, outcome));
        Ok(())
    }

    /// Memory of what the sender has us keep, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        let items_bytes = self.items.len() * 2 * (size_of::<Item>() + size_of::<Entry>());
        self.bounded.item_bytes + items_bytes + self.told.bytes + self.bounded.hole_runs * HOLE_RUN_BYTES
    }

    /// Numbers that are passed by never come: a few of a sender whose entries changed while the link was
    /// down.
    fn check_number(&self, id: EntryId) -> Result<()> {
        let passed_by = id.0.saturating_sub(self.next_id.0);
        match passed_by <= limits::ENTRIES_IN_FLIGHT_MAX as u64 * 1024 && id.0 < u64::MAX {
            true => Ok(()),
            false => Err(protocol("entry numbers jump")),
        }
    }

    /// What was told is kept until the sender has heard it.
    pub(super) fn check_unheard(&self) -> Result<()> {
        match self.told.outcomes.len() < self.limits.told {
            true => Ok(()),
            false => Err(protocol("the sender does not say what it has heard")),
        }
    }

    pub(super) fn repeat(&mut self, entry: &Entry) -> Result<()> {
        let id = entry.id;
        if let Some((outcome, _)) = self.told.outcomes.get(&id) {
            self.outbox.settled.push((id, outcome.clone()));
            return Ok(());
        }
        // Withdrawn, or offered to an earlier instance only.
        let Some(item) = self.items.get_mut(&id) else {
            return Err(protocol("an entry offered again that is not known"));
        };
        item.unconfirmed = false;
        if *item.entry != *entry {
            return Err(protocol("an entry offered again with other content"));
        }
        match &mut item.state {
            State::Deciding => {}
            State::Small => self.outbox.wants.push((id, Want::Whole)),
            State::Large(large) => {
                // What is still missing may be read at another moment.
                large.seal = None;
                if let Some(comparison) = &mut large.comparison {
                    comparison.begin_anew();
                }
                self.say_missing(id);
            }
            State::Staged(_) | State::Keeping(..) | State::Finishing(_) | State::Named(_) => {
                self.outbox.wants.push((id, Want::Nothing));
            }
        }
        Ok(())
    }

    /// Asks for what is missing of a large file, after the digests of what is there.
    pub(super) fn say_missing(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get(&id) else { return };
        let have = neighbours(&large.have);
        let wants = large.wants();
        self.outbox.say_acks();
        // The sender lets go of the gaps of what is settled before it hears of these.
        if !have.is_empty() {
            self.outbox.say_settled();
        }
        for (first, digests) in have {
            for (step, digests) in digests.chunks(limits::MESSAGE_DIGESTS_MAX / 2).enumerate() {
                let first = first + (step * (limits::MESSAGE_DIGESTS_MAX / 2)) as u64;
                self.outbox.say(Say::Have { entry: id, first, digests: digests.to_vec() });
            }
        }
        self.outbox.say(Say::Want(wants.into_iter().map(|want| (id, want)).collect()));
    }

    pub(super) fn hear_withdraw(&mut self, id: EntryId, failure: Option<Failure>) {
        self.replacing.follows |= failure.is_none();
        let Some(item) = self.items.get(&id) else {
            // It was told, and is offered again under another number: it must not count twice. What was said before the
            // sender withdrew it stands in the receipt, at both ends: so this is said before anything of the other.
            if failure.is_none()
                && let Some((outcome, bytes)) = self.told.forget(id)
            {
                self.counts.uncount(&outcome, bytes);
                self.outbox.say(Say::Settled(vec![(id, outcome)]));
            }
            return;
        };
        let link_of = match &item.entry.kind {
            Kind::HardLink { of, .. } => Some(*of),
            _ => None,
        };
        let (path, old) = (item.entry.path.clone(), Withdrawn { id, first: item.first, link_of });
        if !item.state.awaits_data() {
            // It is complete and gets its name. Whatever replaces it comes after that.
            if failure.is_none() {
                self.replacing.replaced.insert(path.clone(), id);
                self.expect_replacement(path, old);
            }
            return;
        }
        self.rounds.forget(id);
        self.outbox.act(Action::Discard(id));
        match failure {
            Some(failure) => self.tell(id, Outcome::Failed(failure)),
            None => {
                self.remove(id);
                self.outbox.act(Action::Gone(id));
                self.expect_replacement(path, old);
            }
        }
    }

    pub(super) fn late(&self, id: EntryId) -> Result<()> {
        if self.was_offered(id) { Ok(()) } else { Err(protocol("an entry that was never offered")) }
    }
}

fn neighbours(sorted: &[(u64, Digest)]) -> Vec<(u64, Vec<Digest>)> {
    let mut runs: Vec<(u64, Vec<Digest>)> = Vec::new();
    for &(chunk, digest) in sorted {
        match runs.last_mut() {
            Some((first, digests)) if *first + digests.len() as u64 == chunk => digests.push(digest),
            _ => runs.push((chunk, vec![digest])),
        }
    }
    runs
}
