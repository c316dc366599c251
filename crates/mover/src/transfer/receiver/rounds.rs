//! Rounds: what was written becomes durable, is recorded, acknowledged, and gets its names.

use super::{Action, End, Finished, Item, Named, Receiver, RoundResult, RoundStep, State};
use crate::failure::{Failure, FailureKind, Reason, VERIFY};
use crate::transfer::runs::RunSet;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_wire::message::{AckLevel, Outcome, TransferMessage as Say};
use thalweg_wire::{Digest, EntryId, digest, limits};

/// What is on its way to be durable, and to its name.
#[derive(Default)]
pub(super) struct Rounds {
    pub dirty: Dirty,
    /// The one that is under way.
    pub current: Option<Round>,
    /// Answers to [`Action::Finish`] that are to come.
    finishing: usize,
    /// Durable, and to get their names with the next round.
    carried: Vec<(EntryId, Digest)>,
    /// There is no space: what is written becomes durable, nothing more is taken, then this is said.
    pub full: Option<Failure>,
    /// Rounds begun since.
    last: u32,
}

impl Rounds {
    /// Nothing of this entry becomes durable any more.
    pub(super) fn forget(&mut self, id: EntryId) {
        self.dirty.chunks.remove(&id);
        self.dirty.staged.retain(|&other| other != id);
        if let Some(round) = &mut self.current {
            round.chunks.remove(&id);
            round.staged.retain(|&other| other != id);
            round.recorded.retain(|(other, _)| *other != id);
            round.finish.retain(|(other, _)| *other != id);
        }
    }
}

/// What was written since the last round began, and which names were given.
#[derive(Default)]
pub(super) struct Dirty {
    pub chunks: BTreeMap<EntryId, Vec<(u64, Digest)>>,
    pub staged: Vec<EntryId>,
    pub named: Vec<EntryId>,
    pub bytes: u64,
    pub since: Option<Duration>,
}

pub(super) struct Round {
    chunks: BTreeMap<EntryId, Vec<(u64, Digest)>>,
    staged: Vec<EntryId>,
    named: Vec<EntryId>,
    recorded: Vec<(EntryId, Vec<(u64, Digest)>)>,
    finish: Vec<(EntryId, Digest)>,
    /// It was not begun because nothing more could come.
    more_follows: bool,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Sync,
    ReadBack,
    Record,
}

impl Receiver {
    /// Starts a round if one is due, or concludes.
    pub(super) fn proceed(&mut self, now: Duration) {
        if self.end != End::Open || self.rounds.current.is_some() {
            return;
        }
        if let Some(failure) = &self.rounds.full {
            // What is complete by now is kept, for an attempt that finds more space.
            match self.rounds.dirty.since {
                Some(_) if self.rounds.last < LAST_ROUNDS_MAX => {
                    self.rounds.last += 1;
                    self.start_round(false);
                }
                _ if self.rounds.finishing > 0 => {}
                _ => self.abort(failure.clone()),
            }
            return;
        }
        if let Some(since) = self.rounds.dirty.since {
            let idle = self.rounds.finishing == 0 && self.awaiting_nothing();
            if idle
                || self.rounds.dirty.bytes >= self.limits.round_bytes
                || self.rounds.dirty.staged.len() + self.rounds.dirty.named.len() >= self.limits.round_files
                || now.saturating_sub(since) >= self.limits.round_after
            {
                self.start_round(!idle);
            }
        } else if self.items.is_empty()
            && !self.repeat.is_on
            && !self.replacing.follows
            && let Some(scan) = &self.scan
        {
            self.end = End::Concluding;
            self.outbox.act(Action::Conclude(scan.listing()));
        }
    }

    /// Time passed. Starts a round if one is due; returns when to look again.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        self.proceed(now);
        // On a full disk what is left waits for names that are being given, and not for time.
        if self.end != End::Open || self.rounds.current.is_some() || self.rounds.full.is_some() {
            return None;
        }
        self.rounds.dirty.since.map(|since| since + self.limits.round_after)
    }

    /// Answer to [`Action::Round`].
    pub fn round_done(&mut self, result: RoundResult, now: Duration) {
        if self.is_over() {
            return;
        }
        let Some(round) = self.rounds.current.take() else { return };
        match (round.step, result) {
            // On a disk that is full already the first word says more.
            (_, RoundResult::Failed(failure)) => {
                let first = self.rounds.full.take();
                self.abort(first.unwrap_or(failure));
            }
            (Step::Sync, RoundResult::Done) => self.round_synced(round),
            (Step::ReadBack, RoundResult::Damaged(damaged)) => self.round_read_back(round, &damaged),
            (Step::Record, RoundResult::Done) => self.round_recorded(round),
            (step, result) => self.abort(Failure::new(
                FailureKind::Internal,
                "make data durable",
                format!("step {step:?} answered with {result:?}"),
            )),
        }
        self.proceed(now);
    }

    /// Whether nothing more can come before something is durable: then waiting for company is idle.
    pub(super) fn awaiting_nothing(&mut self) -> bool {
        self.scan.is_some()
            // Those that wait for a round are no reason to wait with it.
            && self.deciding <= self.waiting.count
            && self.find_unwritten().is_none()
    }

    /// An entry of which something must still come. The same one until it has all, then the next: so that looking
    /// after each chunk costs no look at the thousands that are complete and wait for a round.
    fn find_unwritten(&mut self) -> Option<EntryId> {
        let is_unwritten = |id: &&EntryId| match self.items.get(id).map(|item| &item.state) {
            Some(State::Large(large)) => !large.is_all_written(),
            _ => true,
        };
        let found = self
            .awaiting
            .range(self.unwritten..)
            .find(is_unwritten)
            .or_else(|| self.awaiting.range(..self.unwritten).find(is_unwritten))
            .copied();
        self.unwritten = found.unwrap_or(EntryId(0));
        found
    }

    fn start_round(&mut self, more_follows: bool) {
        let dirty = std::mem::take(&mut self.rounds.dirty);
        let partials =
            dirty.chunks.iter().filter(|(_, chunks)| !chunks.is_empty()).map(|(&id, _)| id).collect();
        let staged = dirty.staged.len() as u64;
        self.rounds.current = Some(Round {
            chunks: dirty.chunks,
            staged: dirty.staged,
            named: dirty.named,
            recorded: Vec::new(),
            finish: Vec::new(),
            more_follows,
            step: Step::Sync,
        });
        self.outbox.act(Action::Round(RoundStep::Sync { partials, staged }));
    }

    pub(super) fn round_synced(&mut self, mut round: Round) {
        for id in std::mem::take(&mut round.named) {
            let Some(Item { state: State::Named(outcome), .. }) = self.items.get(&id) else { continue };
            let outcome = outcome.clone();
            self.tell(id, outcome);
        }
        if self.terms.verify >= thalweg_wire::message::VerifyLevel::Readback {
            let chunks: Vec<_> = round
                .chunks
                .iter()
                .filter(|(id, chunks)| self.items.contains_key(id) && !chunks.is_empty())
                .map(|(&id, chunks)| (id, chunks.clone()))
                .collect();
            let files: Vec<_> = round
                .staged
                .iter()
                .filter_map(|id| match self.items.get(id)?.state {
                    State::Staged(digest) => Some((*id, digest)),
                    _ => None,
                })
                .collect();
            if !chunks.is_empty() || !files.is_empty() {
                round.step = Step::ReadBack;
                self.rounds.current = Some(round);
                self.outbox.act(Action::Round(RoundStep::ReadBack { chunks, files }));
                return;
            }
        }
        self.round_durable(round);
    }

    pub(super) fn round_read_back(&mut self, mut round: Round, damaged: &[(EntryId, u64)]) {
        for &(id, chunk) in damaged {
            if let Some(chunks) = round.chunks.get_mut(&id) {
                chunks.retain(|&(other, _)| other != chunk);
            }
            round.staged.retain(|&other| other != id);
            let Some(item) = self.items.get_mut(&id) else { continue };
            let size = item.entry.evidence.size;
            let bytes = match &mut item.state {
                State::Large(large) => {
                    large.written.remove(chunk, chunk + 1);
                    large.seal = None;
                    digest::chunk_length(chunk, size, self.terms.chunk_bytes)
                }
                state @ State::Staged(_) => {
                    *state = State::Small;
                    self.awaiting.insert(id);
                    self.outbox.act(Action::Discard(id));
                    size
                }
                _ => continue,
            };
            self.counts.verified_bytes = self.counts.verified_bytes.saturating_sub(bytes);
            self.damaged(id, chunk);
        }
        self.round_durable(round);
    }

    /// The bytes of the round are durable (and read back).
    pub(super) fn round_durable(&mut self, mut round: Round) {
        let chunk_bytes = self.terms.chunk_bytes;
        for id in std::mem::take(&mut round.staged) {
            let Some(item) = self.items.get_mut(&id) else { continue };
            let State::Staged(digest) = item.state else { continue };
            item.state = State::Finishing(digest);
            self.counts.durable_bytes = self.counts.durable_bytes.saturating_add(item.entry.evidence.size);
            round.finish.push((id, digest));
        }
        for (id, chunks) in std::mem::take(&mut round.chunks) {
            let Some(item) = self.items.get_mut(&id) else { continue };
            let State::Large(large) = &mut item.state else { continue };
            for &(chunk, digest) in &chunks {
                large.written.remove(chunk, chunk + 1);
                large.tree.insert(chunk, digest);
                let bytes = digest::chunk_length(chunk, item.entry.evidence.size, chunk_bytes);
                self.counts.durable_bytes = self.counts.durable_bytes.saturating_add(bytes);
            }
            match (large.tree.root(), &large.seal) {
                _ if large.is_undecided() => {}
                (Some(root), Some(seal)) if root == seal.digest => {
                    item.pieces = large.tree.pieces(chunk_bytes);
                    self.bounded.hole_runs = self.bounded.hole_runs.saturating_sub(large.tree.hole_runs());
                    item.state = State::Finishing(root);
                    self.awaiting.remove(&id);
                    round.finish.push((id, root));
                }
                (Some(root), Some(seal)) => {
                    let cause = format!(
                        "what was read at the source joins to {}, what was written here to {root}",
                        seal.digest
                    );
                    self.outbox.act(Action::Discard(id));
                    let failure = Failure::new(FailureKind::Damage, VERIFY, cause).because(Reason::Damaged);
                    self.tell(id, Outcome::Failed(failure));
                }
                _ if chunks.is_empty() => {}
                _ => round.recorded.push((id, chunks)),
            }
        }
        if round.recorded.is_empty() {
            self.round_recorded(round);
        } else {
            round.step = Step::Record;
            self.outbox.act(Action::Round(RoundStep::Record(round.recorded.clone())));
            self.rounds.current = Some(round);
        }
    }

    pub(super) fn round_recorded(&mut self, mut round: Round) {
        let mut acks = Vec::new();
        for (id, chunks) in std::mem::take(&mut round.recorded) {
            let mut written = RunSet::new();
            chunks.iter().for_each(|&(chunk, _)| written.insert(chunk, chunk + 1));
            acks.extend(written.said().into_iter().map(|run| (id, run)));
        }
        for acks in acks.chunks(limits::MESSAGE_ITEMS_MAX / 2) {
            self.outbox.say(Say::Ack(AckLevel::Durable, acks.to_vec()));
        }
        round.finish.append(&mut self.rounds.carried);
        if !round.finish.is_empty() {
            self.rounds.finishing += 1;
            self.outbox.act(Action::Finish { entries: round.finish, may_wait: round.more_follows });
        }
    }

    /// Answer to [`Action::Finish`].
    pub fn finished(&mut self, results: Finished, now: Duration) {
        self.rounds.finishing = self.rounds.finishing.saturating_sub(1);
        if self.is_over() {
            return;
        }
        for (id, result) in results {
            let Some(item) = self.items.get_mut(&id) else { continue };
            let State::Finishing(digest) = item.state else { continue };
            match result {
                Ok(Named::Later) => {
                    self.rounds.carried.push((id, digest));
                    self.rounds.dirty.since.get_or_insert(now);
                }
                Ok(Named::Now(losses)) => {
                    item.state = State::Named(Outcome::Done { digest: Some(digest), losses });
                    self.rounds.dirty.named.push(id);
                    self.rounds.dirty.since.get_or_insert(now);
                }
                Err(failure) if matches!(failure.kind, FailureKind::Space | FailureKind::Io) => {
                    self.abort(failure);
                    return;
                }
                Err(failure) => {
                    self.outbox.act(Action::Discard(id));
                    self.tell(id, Outcome::Failed(failure));
                }
            }
        }
        self.proceed(now);
    }
}

/// Rounds for what is there when space runs out: its bytes, then its names, and what came while the first ran.
const LAST_ROUNDS_MAX: u32 = 3;
