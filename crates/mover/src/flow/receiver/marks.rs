//! From pieces to marks: what came early waits for what is before it, and what is written is made durable in rounds.

use super::{Action, Phase, Receiver, Slot, cost};
use crate::failure::{Failure, FailureKind, Result};
use crate::flow::protocol;
use crate::memory::Bytes;
use std::time::Duration;
use thalweg_wire::message::{FlowMark, FlowMessage, Outcome, TransferMessage};
use thalweg_wire::{Digest, EntryId, limits};

impl Receiver {
    /// A piece came, and is what its digest says.
    ///
    /// # Errors
    /// `Protocol` for a piece that no correct sender sends.
    pub fn arrived(&mut self, flow: EntryId, offset: u64, bytes: impl Into<Bytes>) -> Result<()> {
        let mut bytes = bytes.into();
        let Some(slot) = self.slot(flow)? else { return Ok(()) };
        let Some(flow) = self.flows.get_mut(&slot) else { return Ok(()) };
        if flow.phase != Phase::Open {
            // Of an older link.
            return Ok(());
        }
        self.totals.bytes_received += bytes.len() as u64;
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= limits::FILE_BYTES_MAX);
        let Some(end) = end.filter(|_| !bytes.is_empty() && bytes.len() <= self.piece_bytes_max) else {
            return Err(protocol("a piece of a wrong length"));
        };
        if flow.end.is_some_and(|(last, _)| end > last) {
            return Err(protocol("a piece behind the end of its flow"));
        }
        if end <= flow.handed {
            return Ok(());
        }
        let known = flow.handed.saturating_sub(offset);
        let offset = offset + known;
        bytes.skip(known as usize);
        if flow.held.contains_key(&offset) {
            return Ok(());
        }
        if self.kept_bytes + cost(bytes.len()) > self.window_bytes + cost(self.piece_bytes_max) {
            return Err(protocol("more than the window was sent"));
        }
        self.kept_bytes += cost(bytes.len());
        flow.held.insert(offset, bytes);
        while let Some(entry) = flow.held.first_entry() {
            let at = *entry.key();
            if at > flow.handed {
                break;
            }
            let mut bytes = entry.remove();
            // Two senders may have cut the flow at different places.
            let known = ((flow.handed - at) as usize).min(bytes.len());
            bytes.skip(known);
            self.kept_bytes -= known;
            if bytes.is_empty() {
                self.kept_bytes -= cost(0);
            } else {
                let offset = flow.handed;
                flow.handed += bytes.len() as u64;
                flow.handed_pieces += 1;
                self.actions.push_back(Action::Write(slot, offset, bytes));
            }
        }
        Ok(())
    }

    /// A piece came and is not what its digest says.
    pub fn damaged(&mut self, flow: EntryId, offset: u64) {
        self.totals.chunks_repaired += 1;
        let again = FlowMessage::Again(vec![(flow, offset)]);
        self.actions.push_back(Action::Say(TransferMessage::Flow(again)));
    }

    /// What was handed out of a flow that was over by then was not written.
    pub fn skipped(&mut self, bytes: usize) {
        self.abandoned_bytes = self.abandoned_bytes.saturating_sub(cost(bytes));
    }

    /// The next piece that was handed out is written, of so many bytes; the flow has this digest up to its end.
    pub fn written(&mut self, slot: Slot, bytes: usize, digest: Digest, now: Duration) {
        let Some(flow) = self.flows.get_mut(&slot) else { return self.skipped(bytes) };
        flow.written = (flow.written.0 + bytes as u64, digest);
        flow.is_over = false;
        self.kept_bytes -= cost(bytes);
        flow.handed_pieces -= 1;
        self.dirty_bytes += bytes as u64;
        self.dirty_pieces += 1;
        self.dirty.insert(slot);
        self.due.get_or_insert(now + self.mark_every);
        self.stand(slot);
        self.look_at_end(slot, now);
        self.tick(now);
    }

    /// Time passed: call often enough that marks are not late.
    pub fn tick(&mut self, now: Duration) {
        // By a quarter of what the sender keeps, it has the rest to go on with.
        let dirty = self.dirty_bytes + (self.dirty_pieces * limits::FLOW_PIECE_BESIDE_BYTES) as u64;
        let is_pressed = dirty >= self.sender_bytes as u64 / 4;
        let is_due = self.due.is_some_and(|due| now >= due) || is_pressed;
        if self.is_syncing {
            return;
        }
        if self.dirty.is_empty() {
            // What was due came with the last round: who waits for that time would look again and again, without a
            // pause.
            self.due = None;
            return;
        }
        if !is_due {
            return;
        }
        self.is_syncing = true;
        self.due = None;
        (self.dirty_bytes, self.dirty_pieces) = (0, 0);
        let slots = std::mem::take(&mut self.dirty);
        let marks = slots.iter().filter_map(|slot| {
            let (bytes, digest) = self.flows.get(slot)?.written;
            Some((*slot, bytes, digest))
        });
        let marks = marks.collect();
        self.actions.push_back(Action::Sync(marks));
    }

    /// When [`Receiver::tick`] is due next.
    pub fn due(&self) -> Option<Duration> {
        self.due.filter(|_| !self.is_syncing)
    }

    /// What [`Action::Sync`] named is durable and noted.
    pub fn synced(&mut self, marks: &[(Slot, u64, Digest)], now: Duration) {
        self.is_syncing = false;
        let mut told = Vec::new();
        for (slot, bytes, digest) in marks {
            let Some(flow) = self.flows.get_mut(slot) else { continue };
            self.marked_bytes += bytes.saturating_sub(flow.marked.0);
            if *bytes > flow.marked.0 {
                flow.marked = (*bytes, *digest);
            }
            if flow.phase == Phase::Open {
                told.push(FlowMark { flow: flow.begin.flow, bytes: *bytes, digest: *digest });
            }
        }
        for batch in told.chunks(limits::OFFER_ENTRIES_MAX) {
            self.actions.push_back(Action::Say(TransferMessage::Flow(FlowMessage::Mark(batch.to_vec()))));
        }
        marks.iter().for_each(|(slot, ..)| self.look_at_end(*slot, now));
        self.tick(now);
        self.conclude();
    }

    pub(super) fn ends(&mut self, mark: FlowMark, now: Duration) -> Result<()> {
        let Some(slot) = self.slot(mark.flow)? else { return Ok(()) };
        let Some(flow) = self.flows.get_mut(&slot) else { return Ok(()) };
        if flow.phase != Phase::Open {
            return Ok(());
        }
        if mark.bytes < flow.handed {
            return Err(protocol("a flow ends before what was sent of it"));
        }
        flow.end = Some((mark.bytes, mark.digest));
        self.look_at_end(slot, now);
        self.tick(now);
        Ok(())
    }

    fn look_at_end(&mut self, slot: Slot, now: Duration) {
        let Some(flow) = self.flows.get_mut(&slot).filter(|flow| flow.phase == Phase::Open) else { return };
        let Some((end, digest)) = flow.end.filter(|(end, _)| *end == flow.written.0) else { return };
        if digest != flow.written.1 {
            let cause = "what was written has another digest than what the sender read";
            let failure = Failure::new(FailureKind::Damage, "compare the stream", cause).in_range(0, end);
            self.settle(slot, Outcome::Failed(failure), true);
        } else if flow.marked.0 == end {
            flow.phase = Phase::Completing;
            self.actions.push_back(Action::Complete(slot, end));
        } else {
            self.due = Some(now);
        }
    }
}
