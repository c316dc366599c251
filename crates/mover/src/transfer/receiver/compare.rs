//! A file that stands at the destination may hold the entry's content, or some of it: chunk by chunk the sender
//! tells what it read, and only what differs is sent.
//!
//! ```text
//! Want::Compare ---> Compare frame: digest of a chunk ---> same: noted      all same and sealed: the file is kept
//!                                                    \--> differs: asked for, and what is the same is copied
//! ```
//!
//! Nothing is written before a difference is known. Copied chunks are digested again on the way, and count like
//! those that came from the sender.
//!
//! A file of another name is only copied from: that it is not the entry is known from the beginning. If the first
//! [`IN_VAIN_MAX`] of its chunks that are compared differ, it is taken for another file, and all of the entry is asked
//! for.

use super::{Action, Candidate, Item, Large, Receiver, State, protocol};
use crate::failure::{Failure, FailureKind, Result};
use crate::transfer::runs::RunSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::message::{Outcome, Run, TransferMessage as Say};
use thalweg_wire::{Digest, Entry, EntryId, digest, limits};

/// Runs of holes that wait to be looked for, in all files that stand here: beyond it such a file counts as
/// another, and is copied from as far as it is the same.
const LOOKING_MAX: usize = 64 << 10;

/// Chunks of a file of another name that are compared in vain before it counts as another file: of several streams each
/// has one, and that the one that differs answers first says nothing of the others.
const IN_VAIN_MAX: u64 = 4;

/// What is known of a candidate.
pub(super) struct Comparison {
    candidate: Candidate,
    /// It is not the entry's content as a whole, so there is a partial.
    differs: bool,
    /// Chunks with the source's content that are not in the partial.
    same: BTreeMap<u64, Digest>,
    /// The one of them that is being copied.
    copying: Option<u64>,
    /// Runs of holes being looked for.
    looking: u32,
    /// Bytes of holes that were heard while no difference was known.
    hole_bytes: u64,
    /// Some chunk was found the same.
    has_helped: bool,
    /// Until then: chunks of a file of another name that differ, and were asked for since the entry was offered last.
    in_vain: Vec<u64>,
    /// Some chunk was copied from a file of another name.
    is_counted: bool,
}

impl Comparison {
    pub(super) fn new(candidate: Candidate, has_partial: bool) -> Self {
        Comparison {
            candidate,
            differs: has_partial || !candidate.is_whole || candidate.is_elsewhere,
            same: BTreeMap::new(),
            copying: None,
            looking: 0,
            hole_bytes: 0,
            has_helped: false,
            in_vain: Vec::new(),
            is_counted: false,
        }
    }

    /// A chunk differs. Whether that shows that this is a file of another name in which nothing of the entry is; if
    /// not, the chunk is to be asked for.
    fn is_wrong_guess(&mut self, chunk: u64) -> bool {
        if !self.candidate.is_elsewhere || self.has_helped || self.in_vain.contains(&chunk) {
            return false;
        }
        if self.in_vain.len() as u64 + 1 >= self.candidate.chunks.min(IN_VAIN_MAX) {
            return true;
        }
        self.in_vain.push(chunk);
        false
    }

    /// The entry is offered again: what was asked for before is asked for anew.
    pub(super) fn begin_anew(&mut self) {
        self.in_vain.clear();
    }

    pub(super) fn is_same(&self, chunk: u64) -> bool {
        self.same.contains_key(&chunk)
    }

    /// Chunks that are the same and not in the partial.
    pub(super) fn same_chunks(&self) -> u64 {
        self.same.len() as u64
    }

    /// Whether the file that stands there may still turn out to be the entry.
    pub(super) fn is_undecided(&self) -> bool {
        !self.differs
    }

    /// Moves what can be compared out of `missing`, and what was already.
    pub(super) fn take_comparable(&self, missing: &mut RunSet) -> Vec<Run> {
        self.same.keys().for_each(|&chunk| missing.remove(chunk, chunk + 1));
        let mut comparable = missing.clone();
        comparable.remove(self.candidate.chunks, u64::MAX);
        missing.remove(0, self.candidate.chunks);
        comparable.said()
    }
}

impl Receiver {
    /// Whether chunk `chunk` of this entry is to be compared with the file that stands there: its entry if so.
    ///
    /// # Errors
    /// `Protocol` for a chunk that cannot be compared.
    pub fn compare_wanted(&mut self, id: EntryId, chunk: u64) -> Result<Option<Arc<Entry>>> {
        if !self.was_offered(id) {
            return Err(protocol("data of an entry that was never offered"));
        }
        let Some(Item { entry, state: State::Large(large), unconfirmed, .. }) = self.items.get(&id) else {
            return Ok(None);
        };
        if !self.takes_content() {
            return Ok(None);
        }
        // It was given up after this was sent; what was asked for then follows.
        let Some(comparison) = &large.comparison else { return Ok(None) };
        if chunk >= comparison.candidate.chunks {
            return Err(protocol("a comparison beyond what can be compared"));
        }
        if large.has(chunk) {
            // Whoever asks again does not know.
            if !unconfirmed {
                self.outbox.ack(id, chunk);
            }
            return Ok(None);
        }
        Ok(Some(entry.clone()))
    }

    /// The file that stands there has what the sender read of this chunk.
    pub fn chunk_same(&mut self, id: EntryId, chunk: u64, digest: Digest, now: Duration) {
        let Some(Item { entry, state: State::Large(large), unconfirmed, .. }) = self.items.get_mut(&id)
        else {
            return;
        };
        if large.has(chunk) {
            return;
        }
        let Some(comparison) = &mut large.comparison else { return };
        if large.writers.contains_key(&chunk) {
            // It is being written. If that ends before it is complete, it is asked for again.
            large.dropped.insert(chunk);
            return;
        }
        comparison.same.insert(chunk, digest);
        comparison.has_helped = true;
        let bytes = digest::chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes);
        self.counts.verified_bytes = self.counts.verified_bytes.saturating_add(bytes);
        self.counts.totals.bytes_same = self.counts.totals.bytes_same.saturating_add(bytes);
        if !*unconfirmed {
            self.outbox.ack(id, chunk);
        }
        self.carry_on_comparison(id);
        self.proceed(now);
    }

    /// It has not: the sender is asked for the chunk.
    pub fn chunk_differs(&mut self, id: EntryId, chunk: u64, now: Duration) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        if large.has(chunk) {
            return;
        }
        let Some(comparison) = &mut large.comparison else { return };
        if comparison.is_wrong_guess(chunk) {
            self.give_up_guess(id);
        } else {
            self.ask_whole(id, chunk);
            self.there_is_a_difference(id, now);
        }
        self.proceed(now);
    }

    /// Whether an answer to [`Action::Copy`] is waited for, and the chunk would be written.
    pub fn is_copy_wanted(&self, id: EntryId, chunk: u64) -> bool {
        let Some(Item { state: State::Large(large), .. }) = self.items.get(&id) else { return false };
        let copying = large.comparison.as_ref().and_then(|comparison| comparison.copying);
        self.takes_content() && copying == Some(chunk)
    }

    /// Answer to [`Action::Copy`]: whether the chunk is in the partial. If not, the file has changed since it was
    /// compared, and the sender is asked for the chunk.
    pub fn copied(&mut self, id: EntryId, chunk: u64, is_there: bool, now: Duration) {
        let Some(Item { entry, state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        let Some(comparison) = &mut large.comparison else { return };
        if comparison.copying.take_if(|copied| *copied == chunk).is_none() {
            return;
        }
        let Some(digest) = comparison.same.remove(&chunk) else { return };
        let bytes = digest::chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes);
        if is_there {
            if comparison.candidate.is_elsewhere {
                let (files, found) = &mut self.counts.renamed;
                *files += u64::from(!std::mem::replace(&mut comparison.is_counted, true));
                *found = found.saturating_add(bytes);
            }
            large.written.insert(chunk, chunk + 1);
            self.chunk_is_dirty(id, chunk, digest, bytes, now);
        } else {
            self.counts.verified_bytes = self.counts.verified_bytes.saturating_sub(bytes);
            self.counts.totals.bytes_same = self.counts.totals.bytes_same.saturating_sub(bytes);
            self.ask_whole(id, chunk);
        }
        self.carry_on_comparison(id);
        self.proceed(now);
    }

    /// Whether it matters for an entry what [`Action::CompareHoles`] is answered. It is to be answered all the same.
    pub fn is_undecided(&self, id: EntryId) -> bool {
        let Some(Item { state: State::Large(large), .. }) = self.items.get(&id) else { return false };
        large.is_undecided()
    }

    /// Answer to [`Action::CompareHoles`].
    pub fn holes_compared(&mut self, id: EntryId, is_hole: bool, now: Duration) {
        self.bounded.looking = self.bounded.looking.saturating_sub(1);
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        let Some(comparison) = &mut large.comparison else { return };
        comparison.looking = comparison.looking.saturating_sub(1);
        if is_hole {
            self.carry_on_comparison(id);
        } else {
            self.there_is_a_difference(id, now);
        }
        self.proceed(now);
    }

    /// Answer to [`Action::Keep`]: the outcome, and whether names or metadata were changed; `None` if the file is
    /// not what was compared any more.
    pub fn kept(&mut self, id: EntryId, kept: Option<(Outcome, bool)>, now: Duration) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let State::Keeping(same_bytes) = item.state else { return };
        let size = item.entry.evidence.size;
        match kept {
            Some((outcome, made)) => {
                self.counts.durable_bytes = self.counts.durable_bytes.saturating_add(same_bytes);
                if made {
                    item.state = State::Named(outcome);
                    self.rounds.dirty.named.push(id);
                    self.rounds.dirty.since.get_or_insert(now);
                } else {
                    self.tell(id, outcome);
                }
            }
            // The sender has withdrawn it, and waits for no word about it.
            None if self.replacing.replaced.get(&item.entry.path) == Some(&id) => {
                let cause = "it changed while it was compared";
                self.tell(id, Outcome::Failed(Failure::new(FailureKind::Changed, "compare", cause)));
            }
            // Told as what would be copied: its content is not asked for.
            None if self.terms.dry_run => self.tell(id, Outcome::Done { digest: None, losses: Vec::new() }),
            None => {
                item.state = State::Large(Large::new(&item.entry, self.terms.chunk_bytes, self.keeps_pieces));
                let is_unconfirmed = item.unconfirmed;
                self.awaiting.insert(id);
                self.counts.verified_bytes = self.counts.verified_bytes.saturating_sub(size);
                self.counts.totals.bytes_same = self.counts.totals.bytes_same.saturating_sub(same_bytes);
                let holes = &mut self.counts.compared_hole_bytes;
                *holes = holes.saturating_sub(size - same_bytes);
                self.counts.durable_bytes = self.counts.durable_bytes.saturating_sub(size - same_bytes);
                if !is_unconfirmed {
                    self.say_missing(id);
                }
            }
        }
        self.proceed(now);
    }

    /// Holes of the source were heard, with so many bytes that are new: whether the candidate has them too must be
    /// looked up, unless it differs anyway.
    pub(super) fn compare_holes(&mut self, id: EntryId, run: Run, bytes: u64, now: Duration) {
        if self.bounded.looking >= LOOKING_MAX {
            self.there_is_a_difference(id, now);
        } else if let Some(Item { entry, state: State::Large(large), .. }) = self.items.get_mut(&id)
            && let Some(comparison) = large.comparison.as_mut().filter(|comparison| !comparison.differs)
        {
            comparison.looking += 1;
            comparison.hole_bytes = comparison.hole_bytes.saturating_add(bytes);
            self.counts.compared_hole_bytes = self.counts.compared_hole_bytes.saturating_add(bytes);
            self.bounded.looking += 1;
            self.outbox.act(Action::CompareHoles(entry.clone(), run));
        }
    }

    /// Asks for a chunk that was compared, or that nobody sends any more.
    pub(super) fn ask_whole(&mut self, id: EntryId, chunk: u64) {
        let Some(item) = self.items.get_mut(&id) else { return };
        if let State::Large(large) = &mut item.state {
            // What is read again needs a new one.
            large.seal = None;
        }
        // Else the answer to the repeated offer asks for them.
        if !item.unconfirmed && !self.terms.dry_run {
            item.asked = item.asked.wrapping_add(1);
            self.outbox.say_acks();
            self.outbox.say(Say::Differs(vec![(id, Run { first: chunk, count: 1 })]));
        }
    }

    /// The file of another name is another file: the sender is asked for all that is not here and was not asked for.
    fn give_up_guess(&mut self, id: EntryId) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let State::Large(large) = &mut item.state else { return };
        let in_vain = large.comparison.take().map(|comparison| comparison.in_vain).unwrap_or_default();
        // What is read again needs a new one.
        large.seal = None;
        // Else the answer to the repeated offer asks for it.
        if item.unconfirmed {
            return;
        }
        let mut missing = large.missing();
        in_vain.into_iter().for_each(|chunk| missing.remove(chunk, chunk + 1));
        let asked: Vec<(EntryId, Run)> = missing.said().into_iter().map(|run| (id, run)).collect();
        self.outbox.say_acks();
        for runs in asked.chunks(limits::MESSAGE_ITEMS_MAX / 2) {
            item.asked = item.asked.wrapping_add(runs.len() as u32);
            self.outbox.say(Say::Differs(runs.to_vec()));
        }
    }

    /// The file that stands there will not be kept as it is.
    pub(super) fn there_is_a_difference(&mut self, id: EntryId, now: Duration) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        let Some(comparison) = large.comparison.as_mut().filter(|comparison| !comparison.differs) else {
            return;
        };
        comparison.differs = true;
        let hole_bytes = std::mem::take(&mut comparison.hole_bytes);
        self.counts.compared_hole_bytes = self.counts.compared_hole_bytes.saturating_sub(hole_bytes);
        if self.terms.dry_run {
            self.tell(id, Outcome::Done { digest: None, losses: Vec::new() });
        } else {
            self.carry_on(id, now);
        }
    }

    /// Copies the next chunk if there is a difference; keeps the file if there is none.
    pub(super) fn carry_on_comparison(&mut self, id: EntryId) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let State::Large(large) = &mut item.state else { return };
        let Some(comparison) = &mut large.comparison else { return };
        if comparison.differs {
            if comparison.copying.is_none()
                && let Some((&chunk, &digest)) = comparison.same.first_key_value()
            {
                comparison.copying = Some(chunk);
                self.outbox.act(Action::Copy(item.entry.clone(), chunk, digest));
            }
            return;
        }
        let Some(seal) = large.seal.filter(|_| comparison.looking == 0) else { return };
        let has_all = large.tree.present() + comparison.same.len() as u64 == large.tree.chunks();
        if !has_all {
            return;
        }
        let mut same_bytes = 0;
        for (chunk, digest) in std::mem::take(&mut comparison.same) {
            large.tree.insert(chunk, digest);
            same_bytes += digest::chunk_length(chunk, item.entry.evidence.size, self.terms.chunk_bytes);
        }
        let Some(root) = large.tree.root().filter(|root| *root == seal.digest) else {
            let cause = "what the sender told of the chunks does not join to what it told of the whole";
            self.outbox.act(Action::Discard(id));
            self.tell(id, Outcome::Failed(Failure::new(FailureKind::Damage, "compare", cause)));
            return;
        };
        self.bounded.hole_runs = self.bounded.hole_runs.saturating_sub(large.tree.hole_runs());
        let entry = item.entry.clone();
        item.state = State::Keeping(same_bytes);
        self.awaiting.remove(&id);
        self.outbox.act(Action::Keep(entry, root));
    }
}
