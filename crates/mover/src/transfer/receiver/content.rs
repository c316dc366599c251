//! Content that arrives: who may write it, what counts as written, what is asked for again.

use super::{Action, Claim, Copy, DAMAGED_MAX, End, Item, LOST_MAX, Receiver, State, Writer, protocol};
use crate::failure::{Failure, FailureKind, Reason, Result, VERIFY};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest;
use thalweg_wire::message::{Outcome, Run, Seal, TransferMessage as Say};
use thalweg_wire::{Digest, Entry, EntryId, Kind};

impl Receiver {
    /// Whether content is still taken: not without room, and not when it failed. By then the next attempt may have what
    /// was written so far.
    pub(super) fn takes_content(&self) -> bool {
        self.rounds.full.is_none() && self.end != End::Failed
    }

    /// Whether small files of these entries may be written: those that are still wanted.
    pub fn small_wanted(&self, ids: impl Iterator<Item = EntryId>) -> Vec<Option<Arc<Entry>>> {
        ids.map(|id| {
            self.items
                .get(&id)
                .filter(|item| self.takes_content() && item.awaits_pack())
                .map(|item| item.entry.clone())
        })
        .collect()
    }

    /// Whether chunks of this entry may be written: its entry if they are still wanted. In a dry run none are,
    /// though they are compared.
    pub fn chunks_wanted(&self, id: EntryId) -> Option<Arc<Entry>> {
        let takes_content = self.takes_content() && !self.terms.dry_run;
        self.items
            .get(&id)
            .filter(|item| takes_content && matches!(item.state, State::Large(_)))
            .map(|item| item.entry.clone())
    }

    /// Whether it was offered and has no last word yet, and one is to come.
    pub fn is_under_way(&self, id: EntryId) -> bool {
        self.end != End::Failed && self.items.contains_key(&id)
    }

    /// The entry, if all of its content is durable and it waits for its name.
    pub fn finishing(&self, id: EntryId) -> Option<Arc<Entry>> {
        let item = self.items.get(&id).filter(|item| matches!(item.state, State::Finishing(_)))?;
        Some(item.entry.clone())
    }

    /// Whether `writer` (a number of its own for every stream that ever was) may write the next segment of
    /// this chunk now; if so, it must tell [`Receiver::segment_written`] when the write returned. `begins` with the
    /// first segment of the chunk: which copy of it.
    ///
    /// A chunk can come twice, and the second copy may be damaged on the way to the disk, or read when the
    /// source was another. It must not touch what was verified, nor be mixed with the first: a chunk has one
    /// writer, and a newcomer takes over only from one that is not writing at this moment, and never with a first copy
    /// from one sent again: else a copy that creeps in would put an end to the one that was sent because it is so slow.
    pub fn claim_chunk(&mut self, writer: u64, id: EntryId, chunk: u64, begins: Option<Copy>) -> Claim {
        if !self.takes_content() || self.terms.dry_run {
            return Claim::Unwanted;
        }
        let Some(Item { state: State::Large(large), unconfirmed, .. }) = self.items.get_mut(&id) else {
            return Claim::Unwanted;
        };
        if chunk >= large.tree.chunks() {
            return Claim::Unwanted;
        }
        if large.has(chunk) {
            // Whoever sent it again does not know.
            if begins.is_some() && !*unconfirmed {
                self.outbox.ack(id, chunk);
            }
            return Claim::Unwanted;
        }
        let copy = match (large.writers.get_mut(&chunk), begins) {
            (Some(holder), _) if holder.number == writer => {
                holder.is_writing = true;
                holder.copy = begins.unwrap_or(holder.copy);
                return Claim::Write;
            }
            (Some(holder), Some(_)) if holder.is_writing => return Claim::Busy,
            (Some(Writer { copy: Copy::First, .. }), Some(copy)) => copy,
            (Some(_), Some(Copy::Again)) => Copy::Again,
            (None, Some(copy)) => copy,
            (Some(_), Some(Copy::First)) | (_, None) => {
                // Another stream's copy goes before. If that one ends before it is complete, it is asked for again.
                large.dropped.insert(chunk);
                return Claim::Unwanted;
            }
        };
        large.writers.insert(chunk, Writer { number: writer, is_writing: true, copy });
        Claim::Write
    }

    /// The write allowed by [`Receiver::claim_chunk`] returned. After the last segment of a chunk that went
    /// well, tell only [`Receiver::chunk_written`]: between the two another could begin to write.
    pub fn segment_written(&mut self, writer: u64, id: EntryId, chunk: u64) {
        if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
            && let Some(holder) = large.writers.get_mut(&chunk)
            && holder.number == writer
        {
            holder.is_writing = false;
        }
    }

    /// The rest of this copy of a chunk does not come, or cannot be written; its last write returned. If another copy
    /// was dropped in its favour, the chunk is asked for again.
    pub fn copy_given_up(&mut self, writer: u64, id: EntryId, chunk: u64) {
        if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
            && large.writers.get(&chunk).is_some_and(|holder| holder.number == writer)
        {
            large.writers.remove(&chunk);
            if large.dropped.remove(&chunk) {
                self.orphaned(id, chunk);
            }
        }
    }

    /// A stream ended here, for whatever reason, and its last write returned. What it left incomplete, after
    /// another stream's copy was dropped in its favour, is asked for again.
    pub fn writer_gone(&mut self, writer: u64) {
        let mut orphans = Vec::new();
        for (&id, item) in &mut self.items {
            let State::Large(large) = &mut item.state else { continue };
            let dropped = &mut large.dropped;
            large.writers.retain(|&chunk, holder| {
                if holder.number == writer && dropped.remove(&chunk) {
                    orphans.push((id, chunk));
                }
                holder.number != writer
            });
        }
        orphans.sort_unstable();
        orphans.into_iter().for_each(|(id, chunk)| self.orphaned(id, chunk));
    }

    /// Nobody sends this chunk any more, and nothing of it was wrong: streams may die as often as they like without the
    /// entry counting as damaged.
    fn orphaned(&mut self, id: EntryId, chunk: u64) {
        if let Some(Item { state: State::Large(large), .. }) = self.items.get(&id)
            && !large.has(chunk)
        {
            self.ask_whole(id, chunk);
        }
    }

    /// The destination lost what had come of a chunk before it was whole, as where it has no room to wait for the rest.
    /// Nothing of it was wrong, either; but if it loses more and more, and none becomes whole, the entry fails.
    pub fn lost(&mut self, id: EntryId, chunk: u64, now: Duration) {
        let Some(item) = self.items.get_mut(&id) else { return };
        if let State::Large(large) = &mut item.state {
            // Once, whoever was turned away for this copy.
            large.dropped.remove(&chunk);
            item.lost += 1;
            if item.lost > LOST_MAX {
                let cause = format!("what came of its chunks was lost {LOST_MAX} times before one was whole");
                let failure = Failure::new(FailureKind::Unsupported, "write", cause).at(&item.entry.path);
                self.write_failed(id, failure, now);
                return;
            }
        }
        self.orphaned(id, chunk);
    }

    /// Whether `id` was ever offered: data for anything else is a breach of protocol.
    pub fn was_offered(&self, id: EntryId) -> bool {
        id < self.next_id
    }

    /// Small files were verified and staged. False for those that are not wanted (any more): the caller
    /// throws them away.
    pub fn files_staged(&mut self, files: &[(EntryId, Digest)], now: Duration) -> Vec<bool> {
        let mut taken = Vec::with_capacity(files.len());
        for &(id, digest) in files {
            let wanted = self.items.get_mut(&id).filter(|item| item.awaits_pack());
            taken.push(wanted.is_some());
            let Some(item) = wanted else { continue };
            item.state = State::Staged(digest);
            if !item.unconfirmed {
                self.outbox.ack(id, 0);
            }
            let bytes = item.entry.evidence.size;
            self.awaiting.remove(&id);
            self.counts.verified_bytes = self.counts.verified_bytes.saturating_add(bytes);
            self.counts.totals.bytes_received = self.counts.totals.bytes_received.saturating_add(bytes);
            self.rounds.dirty.staged.push(id);
            self.rounds.dirty.bytes += bytes;
            self.rounds.dirty.since.get_or_insert(now);
        }
        self.proceed(now);
        taken
    }

    /// A chunk was verified and written.
    pub fn chunk_written(&mut self, id: EntryId, chunk: u64, digest: Digest, now: Duration) {
        let Some(Item { entry, state: State::Large(large), unconfirmed, lost, .. }) = self.items.get_mut(&id)
        else {
            return;
        };
        let bytes = digest::chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes);
        self.counts.totals.bytes_received = self.counts.totals.bytes_received.saturating_add(bytes);
        if chunk >= large.tree.chunks() {
            return;
        }
        if large.has(chunk) {
            if !*unconfirmed {
                self.outbox.ack(id, chunk);
            }
            return;
        }
        *lost = 0;
        large.writers.remove(&chunk);
        large.dropped.remove(&chunk);
        large.written.insert(chunk, chunk + 1);
        self.counts.verified_bytes = self.counts.verified_bytes.saturating_add(bytes);
        if !*unconfirmed {
            // It was sent because it was wanted: the sender knows what we have.
            large.have = Vec::new();
            self.outbox.ack(id, chunk);
        }
        self.chunk_is_dirty(id, chunk, digest, bytes, now);
        self.there_is_a_difference(id, now);
        self.proceed(now);
    }

    pub(super) fn chunk_is_dirty(
        &mut self,
        id: EntryId,
        chunk: u64,
        digest: Digest,
        bytes: u64,
        now: Duration,
    ) {
        self.rounds.dirty.chunks.entry(id).or_default().push((chunk, digest));
        self.rounds.dirty.bytes += bytes;
        self.rounds.dirty.since.get_or_insert(now);
    }

    /// A chunk or small file (chunk 0) arrived damaged: it is asked for again, unless it is there by now.
    pub fn damaged(&mut self, id: EntryId, chunk: u64) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let missing = match &mut item.state {
            State::Small => true,
            State::Large(large) if chunk < large.tree.chunks() && !large.has(chunk) => {
                // What is read again needs a new one.
                large.seal = None;
                large.dropped.remove(&chunk);
                true
            }
            _ => false,
        };
        if missing {
            self.counts.totals.chunks_repaired += 1;
            item.damaged += 1;
            if item.damaged > DAMAGED_MAX {
                let cause = format!("it came damaged {DAMAGED_MAX} times");
                let failure = Failure::new(FailureKind::Damage, VERIFY, cause).at(&item.entry.path);
                self.rounds.forget(id);
                self.outbox.act(Action::Discard(id));
                self.tell(id, Outcome::Failed(failure.because(Reason::Damaged)));
                return;
            }
            if item.unconfirmed {
                // The answer to the repeated offer asks for it.
                return;
            }
            item.asked = item.asked.wrapping_add(1);
            // After an acknowledgement of the same bytes that has not gone out yet.
            self.outbox.say_acks();
            self.outbox.say(Say::Repair(vec![(id, Run { first: chunk, count: 1 })]));
        }
    }

    /// No more room may be taken: ends the transfer, when what is complete by now is kept. One that concludes takes
    /// none.
    pub fn run_out(&mut self, failure: Failure, now: Duration) {
        if self.end == End::Open {
            self.rounds.full.get_or_insert(failure);
            self.proceed(now);
        }
    }

    /// Writing an entry failed. A full or broken destination ends the transfer, anything else the entry.
    pub fn write_failed(&mut self, id: EntryId, failure: Failure, now: Duration) {
        if failure.kind == FailureKind::Space {
            self.rounds.full.get_or_insert(failure);
            self.proceed(now);
            return;
        }
        if failure.kind == FailureKind::Io {
            self.abort(failure);
            return;
        }
        let Some(item) = self.items.get(&id) else { return };
        if matches!(item.state, State::Small | State::Large(_)) {
            self.rounds.forget(id);
            self.outbox.act(Action::Discard(id));
            self.tell(id, Outcome::Failed(failure));
            self.proceed(now);
        }
    }

    pub(super) fn hear_holes(&mut self, id: EntryId, run: Run, now: Duration) -> Result<()> {
        let mark = digest::hole_chunk_mark(self.terms.chunk_bytes, u64::from(self.terms.segment_bytes));
        let chunk_bytes = self.terms.chunk_bytes;
        let Some(item) = self.items.get_mut(&id) else { return self.late(id) };
        let large = match &mut item.state {
            State::Large(large) => large,
            // Found twice, by two streams.
            State::Keeping(..) | State::Finishing(_) | State::Named(_) => return Ok(()),
            _ => return Err(protocol("holes in what is not a large file")),
        };
        let size = item.entry.evidence.size;
        let whole_chunks = size / chunk_bytes;
        if !matches!(item.entry.kind, Kind::File { marked: true, .. }) || run.first + run.count > whole_chunks
        {
            return Err(protocol("holes that the file cannot have"));
        }
        let (before, runs_before) = (large.tree.present(), large.tree.hole_runs());
        large.tree.insert_marked_holes(run.first, run.count, mark);
        let bytes = (large.tree.present() - before) * chunk_bytes;
        let more = large.tree.hole_runs().saturating_sub(runs_before);
        self.count_hole_runs(more)?;
        self.counts.verified_bytes = self.counts.verified_bytes.saturating_add(bytes);
        self.counts.durable_bytes = self.counts.durable_bytes.saturating_add(bytes);
        if bytes > 0 {
            self.compare_holes(id, run, bytes, now);
        }
        self.carry_on(id, now);
        Ok(())
    }

    /// So many more runs of holes are kept. They are counted anew, now and then: data that came between took
    /// some.
    fn count_hole_runs(&mut self, more: usize) -> Result<()> {
        self.bounded.hole_runs += more;
        if self.bounded.hole_runs / 2 <= self.limits.hole_runs {
            return Ok(());
        }
        let runs_of = |item: &Item| match &item.state {
            State::Large(large) => large.tree.hole_runs(),
            _ => 0,
        };
        self.bounded.hole_runs = self.items.values().map(runs_of).sum();
        match self.bounded.hole_runs <= self.limits.hole_runs {
            true => Ok(()),
            false => Err(protocol("holes without end, and nothing of what lies between them")),
        }
    }

    /// So many runs of holes are kept no more. Data that came between may have taken some before.
    pub(super) fn let_go_of_holes(&mut self, runs: usize) {
        self.bounded.hole_runs = self.bounded.hole_runs.saturating_sub(runs);
    }

    pub(super) fn hear_seal(&mut self, id: EntryId, seal: Seal, now: Duration) -> Result<()> {
        let Some(item) = self.items.get_mut(&id) else { return self.late(id) };
        if seal.evidence != item.entry.evidence {
            return Err(protocol("a seal for other content than was offered"));
        }
        if let State::Large(large) = &mut item.state
            // Else it crossed a request: another follows when that is read.
            && seal.asked == item.asked
        {
            large.have = Vec::new();
            large.seal = Some(seal);
            self.carry_on(id, now);
        }
        Ok(())
    }

    /// Nothing of a large file may be written any more: then only a round can carry it on, or a comparison.
    pub(super) fn carry_on(&mut self, id: EntryId, now: Duration) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get(&id) else { return };
        if !large.is_undecided() {
            self.rounds.dirty.chunks.entry(id).or_default();
            self.rounds.dirty.since.get_or_insert(now);
        }
        self.carry_on_comparison(id);
    }
}
