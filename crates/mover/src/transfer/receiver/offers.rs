//! What the sender says of an entry before its content: offered, left aside, withdrawn, said twice.

use super::compare::Comparison;
use super::left::thin;
use super::{
    Action, Decided, End, Item, Large, Receiver, SETTLED_MAX, STAND_INS_MAX, StandIn, State, Withdrawn,
    protocol,
};
use crate::failure::{Failure, Result};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::message::{AckLevel, Outcome, TransferMessage as Say, Want};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, digest, limits};

/// Memory of a run of holes, and of an outcome that was told beside its texts.
const HOLE_RUN_BYTES: usize = 32;
const TOLD_BYTES: usize = 2 * size_of::<(EntryId, Outcome, u64)>();

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
            Decided::Settled { .. } | Decided::Wanted { .. } => false,
        };
        // What changed at the source and comes again takes no more room for that, unless it was a link.
        if is_new && !sparse && (item.first == id || item.was_link) {
            self.wanted_bytes = self.wanted_bytes.saturating_add(bytes);
        }
        match decided {
            Decided::Settled { outcome, made: false } => self.tell(id, outcome),
            Decided::Settled { outcome, made: true } => {
                self.unmoved_bytes = self.unmoved_bytes.saturating_add(bytes);
                item.state = State::Named(outcome);
                if !item.unconfirmed {
                    self.wants.push((id, Want::Nothing));
                }
                self.dirty.named.push(id);
                self.dirty.since.get_or_insert(now);
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
                    self.wants.push((id, Want::Whole));
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
                let room = self.limits.gaps.saturating_sub(self.gaps);
                let there = present.len();
                let mut gaps = thin(&mut present, room - room / 8);
                let may_have_holes =
                    matches!(item.entry.kind, Kind::File { sparse, marked } if sparse || marked);
                // Holes are never written: through those of what comes again, what is there would show.
                if may_have_holes && present.len() < there {
                    present.clear();
                    (gaps, has_partial) = (0, false);
                    self.actions.push_back(Action::Discard(id));
                }
                large.comparison = candidate.map(|candidate| Comparison::new(candidate, has_partial));
                item.gaps += gaps;
                self.gaps += gaps;
                let mut bytes = 0;
                for &(chunk, digest) in &present {
                    large.tree.insert(chunk, digest);
                    bytes += digest::chunk_length(chunk, size, chunk_bytes);
                }
                self.totals.bytes_resumed = self.totals.bytes_resumed.saturating_add(bytes);
                self.verified_bytes = self.verified_bytes.saturating_add(bytes);
                self.durable_bytes = self.durable_bytes.saturating_add(bytes);
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
        self.unmoved_bytes
    }

    /// Content bytes of entries decided of which nothing is here: what the destination needs room for, in a dry run
    /// would need. Sparse files are not in it: nobody knows what they take.
    pub fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes
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
        self.unmoved_bytes = self.unmoved_bytes.saturating_add(unmoved);
    }

    /// Whether an answer to [`Action::Decide`] is still waited for.
    pub fn is_deciding(&self, id: EntryId) -> bool {
        self.items.get(&id).is_some_and(|item| matches!(item.state, State::Deciding))
    }

    pub(super) fn hear_offer(&mut self, entry: Entry) -> Result<()> {
        let id = entry.id;
        let replaces = std::mem::take(&mut self.replacement_follows);
        if id < self.next_id {
            return self.repeat(&entry);
        }
        self.check_unheard()?;
        self.check_number(id)?;
        // Of what the sender has withdrawn, some may not be known to be, and some is on its way to its name.
        let times = 1 + usize::from(self.repeating);
        if self.items.len() >= self.limits.entries * times + self.replaced.len()
            || self.item_bytes / times > self.limits.entry_bytes
        {
            return Err(protocol("more entries offered at once than agreed"));
        }
        // A source that changed after all was settled: what was concluded is concluded again.
        self.end = End::Open;
        self.next_id = EntryId(id.0 + 1);
        if !replaces {
            self.offered.0 += 1;
            self.offered.1 = self.offered.1.saturating_add(entry.content_bytes());
        }
        let entry = Arc::new(entry);
        self.item_bytes += entry.heap_bytes();
        self.deciding += 1;
        let item = Item {
            entry,
            first: id,
            state: State::Deciding,
            unconfirmed: false,
            damaged: 0,
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
        } else if self.repeating {
            self.held.push(id);
        } else {
            self.look_at(id);
        }
        Ok(())
    }

    /// What waits for the entry that was withdrawn at this path waits for this one. Whether there was one.
    pub(super) fn replace_withdrawn(&mut self, id: EntryId) -> bool {
        let Some(item) = self.items.get_mut(&id) else { return false };
        let Some(old) = self.withdrawn.remove(&item.entry.path) else { return false };
        if let Some(of) = old.link_of {
            item.was_link = true;
            self.unlinked_bytes = self.unlinked_bytes.saturating_add(item.entry.content_bytes());
            if let Some(stand_in) = self.stand_ins.get_mut(&of).filter(|it| it.first == old.first) {
                stand_in.id = id;
            }
        }
        item.first = old.first;
        self.renumbered.insert(old.first, id);
        self.wait_for_instead(old.id, id);
        true
    }

    /// It was counted among what was offered when nobody knew that it replaces another.
    pub(super) fn count_less(&mut self, id: EntryId) {
        let Some(item) = self.items.get(&id) else { return };
        self.offered.0 = self.offered.0.saturating_sub(1);
        self.offered.1 = self.offered.1.saturating_sub(item.entry.content_bytes());
    }

    /// Nothing replaces what is withdrawn still: nothing waits for it.
    pub(super) fn free_withdrawn(&mut self) {
        for old in std::mem::take(&mut self.withdrawn).into_values() {
            // What is on its way to its name frees them when it is settled.
            if !self.items.contains_key(&old.id) {
                self.free_waiting(old.id, None);
            }
        }
    }

    /// Another entry will replace this one.
    fn expect_replacement(&mut self, path: RelativePath, mut old: Withdrawn) {
        // One that was offered while the link was down may be replaced before it was looked at.
        if let Some(before) = self.withdrawn.remove(&path).filter(|before| before.id != old.id) {
            old.first = before.first;
            old.link_of = old.link_of.or(before.link_of);
            self.wait_for_instead(before.id, old.id);
        }
        // A sender that never offers it is not remembered for ever.
        if self.withdrawn.len() >= self.limits.entries {
            self.free_withdrawn();
        }
        self.withdrawn.insert(path, old);
    }

    fn wait_for_instead(&mut self, old: EntryId, new: EntryId) {
        if let Some(waiting) = self.waiting.remove(&old) {
            self.waiting.entry(new).or_default().extend(waiting);
        }
    }

    /// A hard link as it is now that its file changed and was offered again, or came under another name. `None` if it
    /// is no link to that file: an editor may have put another under that name.
    pub(super) fn link_to(&self, file: &Entry, link: EntryId) -> Option<Entry> {
        let link = &self.items.get(&link)?.entry;
        let inode = |entry: &Entry| (entry.evidence.device, entry.evidence.inode);
        let is_of_it = matches!(link.kind, Kind::HardLink { .. }) && inode(link) == inode(file);
        let kind = Kind::HardLink { first: file.path.clone(), of: file.id };
        is_of_it.then(|| Entry { kind, evidence: file.evidence, ..Entry::clone(link) })
    }

    /// Whether a hard link that cannot be one to its first name is to be one to a second name that came by itself, or
    /// waits until that is settled. If there is none, the link itself comes so, and the next ones are linked to it.
    fn is_linked_to_stand_in(&mut self, link: EntryId) -> bool {
        let Some(item) = self.items.get_mut(&link) else { return false };
        let (State::Deciding, Kind::HardLink { of, .. }) = (&item.state, &item.entry.kind) else {
            return false;
        };
        let (of, entry) = (*of, item.entry.clone());
        // Once: where no link at all can be made, each name would wait for the one before.
        let had_stand_in = std::mem::replace(&mut item.had_stand_in, true);
        let Some(stand_in) = self.stand_ins.get(&of).filter(|_| !had_stand_in) else {
            if self.stand_ins.len() >= STAND_INS_MAX {
                self.stand_ins.pop_first();
            }
            self.stand_ins.insert(of, StandIn { first: link, id: link, path: entry.path.clone() });
            return false;
        };
        let id = self.renumbered.get(&stand_in.first).copied().unwrap_or(stand_in.id);
        let withdrawn = self.withdrawn.get(&stand_in.path).filter(|old| old.first == stand_in.first);
        let under_way = if self.items.contains_key(&id) { Some(id) } else { withdrawn.map(|old| old.id) };
        match under_way {
            Some(before) => {
                self.waiting.entry(before).or_default().push(link);
                self.behind += 1;
            }
            None => {
                let kind = Kind::HardLink { first: stand_in.path.clone(), of: stand_in.id };
                self.actions.push_back(Action::Link(Arc::new(Entry { kind, ..Entry::clone(&entry) })));
            }
        }
        true
    }

    /// Has an entry looked at whose path may have a name of this transfer already.
    pub(super) fn look_again_at(&mut self, id: EntryId) {
        if let Some(item) = self.items.get(&id) {
            self.actions.push_back(Action::OfferedBefore(item.entry.path.clone()));
        }
        self.look_at(id);
    }

    /// Has an entry decided, or puts it behind what must be settled before.
    pub(super) fn look_at(&mut self, id: EntryId) {
        let Some(item) = self.items.get(&id) else { return };
        let entry = item.entry.clone();
        let before = match entry.kind {
            Kind::HardLink { of, .. } => Some(self.renumbered.get(&of).copied().unwrap_or(of)),
            _ => self.replaced.get(&entry.path).copied(),
        };
        match before {
            Some(before) if before != id && self.items.contains_key(&before) => {
                self.waiting.entry(before).or_default().push(id);
                self.behind += 1;
            }
            _ if matches!(entry.kind, Kind::HardLink { .. }) => self.actions.push_back(Action::Link(entry)),
            _ => self.actions.push_back(Action::Decide(entry)),
        }
    }

    pub(super) fn hear_aside(&mut self, id: EntryId, path: RelativePath, outcome: Outcome) -> Result<()> {
        if let Some((told, _)) = self.told.get(&id) {
            self.settled.push((id, told.clone()));
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
        self.count(&outcome, 0);
        self.remember(id, outcome.clone(), 0);
        self.settled.push((id, outcome.clone()));
        self.actions.push_back(Action::Aside(Some(id), path, outcome));
        Ok(())
    }

    /// Memory of what the sender has us keep, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        let items_bytes = self.items.len() * 2 * (size_of::<Item>() + size_of::<Entry>());
        self.item_bytes + items_bytes + self.told_bytes + self.hole_runs * HOLE_RUN_BYTES
    }

    /// It was told, and is kept until the sender has heard it.
    pub(super) fn remember(&mut self, id: EntryId, outcome: Outcome, bytes: u64) {
        self.forget(id);
        self.told_bytes += TOLD_BYTES + outcome.heap_bytes();
        self.told.insert(id, (outcome, bytes));
    }

    /// What was told of it, which is kept no more.
    pub(super) fn forget(&mut self, id: EntryId) -> Option<(Outcome, u64)> {
        let told = self.told.remove(&id)?;
        self.told_bytes -= TOLD_BYTES + told.0.heap_bytes();
        Some(told)
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
        match self.told.len() < self.limits.told {
            true => Ok(()),
            false => Err(protocol("the sender does not say what it has heard")),
        }
    }

    pub(super) fn repeat(&mut self, entry: &Entry) -> Result<()> {
        let id = entry.id;
        if let Some((outcome, _)) = self.told.get(&id) {
            self.settled.push((id, outcome.clone()));
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
            State::Small => self.wants.push((id, Want::Whole)),
            State::Large(large) => {
                // What is still missing may be read at another moment.
                large.seal = None;
                self.say_missing(id);
            }
            State::Staged(_) | State::Keeping(..) | State::Finishing(_) | State::Named(_) => {
                self.wants.push((id, Want::Nothing));
            }
        }
        Ok(())
    }

    /// Asks for what is missing of a large file, after the digests of what is there.
    pub(super) fn say_missing(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get(&id) else { return };
        let have = neighbours(&large.have);
        let wants = large.wants();
        self.say_acks();
        // The sender lets go of the gaps of what is settled before it hears of these.
        if !have.is_empty() {
            self.say_settled();
        }
        for (first, digests) in have {
            for (step, digests) in digests.chunks(limits::MESSAGE_DIGESTS_MAX / 2).enumerate() {
                let first = first + (step * (limits::MESSAGE_DIGESTS_MAX / 2)) as u64;
                self.say(Say::Have { entry: id, first, digests: digests.to_vec() });
            }
        }
        self.say(Say::Want(wants.into_iter().map(|want| (id, want)).collect()));
    }

    /// Says what was collected so far, where something must not overtake it.
    pub(super) fn say_acks(&mut self) {
        while !self.acks.is_empty() {
            let n = self.acks.len().min(limits::MESSAGE_ITEMS_MAX / 2);
            let batch = self.acks.drain(..n).collect();
            self.say(Say::Ack(AckLevel::Verified, batch));
        }
    }

    /// The same of outcomes.
    pub(super) fn say_settled(&mut self) {
        while !self.settled.is_empty() {
            let n = self.settled.len().min(SETTLED_MAX);
            let batch = self.settled.drain(..n).collect();
            self.say(Say::Settled(batch));
        }
    }

    pub(super) fn hear_withdraw(&mut self, id: EntryId, failure: Option<Failure>) {
        self.replacement_follows |= failure.is_none();
        let Some(item) = self.items.get(&id) else {
            // It was told, and is offered again under another number: it must not count twice. What was said before the
            // sender withdrew it stands in the receipt, at both ends: so this is said before anything of the other.
            if failure.is_none()
                && let Some((outcome, bytes)) = self.forget(id)
            {
                self.uncount(&outcome, bytes);
                self.say(Say::Settled(vec![(id, outcome)]));
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
                self.replaced.insert(path.clone(), id);
                self.expect_replacement(path, old);
            }
            return;
        }
        self.drop_dirty(id);
        self.actions.push_back(Action::Discard(id));
        match failure {
            Some(failure) => self.tell(id, Outcome::Failed(failure)),
            None => {
                self.remove(id);
                self.actions.push_back(Action::Gone(id));
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
