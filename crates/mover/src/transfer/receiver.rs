//! The destination side of a transfer.
//!
//! ```text
//!          Offer          decided: settled, nothing made
//! (new) ----------> Deciding -------------------------------------------------> told
//!                     |  |  decided: settled, something made --> Named --+       ^
//!                     |  |  decided: small, wanted                       |       |
//!                     |  +---> Small --> staged --+                      |       |
//!                     |    decided: large         | round: sync          |       |
//!                     +---> Large: chunks         |  then finish         |       |
//!                             written --> durable +--------> Finishing --+-------+
//!                             sealed by the sender              renamed    round: sync
//! ```
//!
//! Durability comes in rounds, one at a time. A round takes everything written since the last one and does,
//! in this order: sync the bytes (and the names given in the round before), tell what those names were;
//! record the chunks of incomplete files; sync the record; acknowledge them; give complete files their names.
//! So nothing is acknowledged as durable, or told as done, before a power cut could not take it back.

use crate::failure::{Failure, FailureKind, Result};
use crate::transfer::runs::RunSet;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest::{self, Tree};
use thalweg_wire::message::{
    AckLevel, Loss, Outcome, Run, ScanTotals, Seal, Terms, Totals, TransferMessage as Say, Want,
};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, limits};

/// Bounds of a receiver.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most entries that a sender may have unsettled.
    pub entries: usize,
    /// Most heap bytes of those.
    pub entry_bytes: usize,
    /// A round starts when this much was written since the last.
    pub round_bytes: u64,
    /// Or this many small files.
    pub round_files: usize,
    /// Or when the oldest of it is this old.
    pub round_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: limits::ENTRIES_IN_FLIGHT_MAX + limits::OFFER_ENTRIES_MAX,
            entry_bytes: limits::ENTRY_BYTES_IN_FLIGHT_MAX + limits::MESSAGE_BYTES_MAX,
            round_bytes: 1 << 30,
            round_files: 16 << 10,
            round_after: Duration::from_millis(500),
        }
    }
}

/// What a look at the destination gave for an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// See [`crate::endpoint::Decision::Settled`].
    Settled {
        /// The final word.
        outcome: Outcome,
        /// Whether names were changed for it.
        made: bool,
    },
    /// All of it is wanted, as a whole in one pack item.
    Fresh,
    /// Chunks of it are in a partial from an earlier attempt.
    Resume(Vec<(u64, Digest)>),
}

/// What the machine wants done or known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Say this to the sender.
    Say(Say),
    /// Look at the destination, answer with [`Receiver::decided`].
    Decide(Arc<Entry>),
    /// All before it is decided and done: link it, answer with [`Receiver::decided`].
    Link(Arc<Entry>),
    /// Do what the round needs next, answer with [`Receiver::round_done`].
    Round(RoundStep),
    /// Throw away what was written for an entry.
    Discard(EntryId),
    /// An entry came to its end, durable.
    Settled(Arc<Entry>, Outcome),
    /// A name that was never offered (with its number), or one of the destination's, came to its end.
    Aside(Option<EntryId>, RelativePath, Outcome),
    /// This number will never settle: its entry changed and was offered again under another.
    Gone(EntryId),
    /// All entries are settled: give directories their metadata, delete what is to be deleted; answer with
    /// [`Receiver::concluded`]. True if the source was listed in full.
    Conclude(bool),
    /// It is all done.
    Finished(Totals),
    /// The transfer failed as a whole.
    Failed(Failure),
}

/// A step of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundStep {
    /// Make durable: the bytes of these partials, so many staged files, and all names given so far.
    Sync {
        /// Entries whose partials were written.
        partials: Vec<EntryId>,
        /// Small files staged.
        staged: u64,
    },
    /// Read back from the medium and compare: chunks of partials, and staged files.
    ReadBack {
        /// Chunks with the digests they must have.
        chunks: Vec<(EntryId, Vec<(u64, Digest)>)>,
        /// Staged files with the digests they must have.
        files: Vec<(EntryId, Digest)>,
    },
    /// Record these chunks, and make the record durable.
    Record(Vec<(EntryId, Vec<(u64, Digest)>)>),
    /// Give these entries their names.
    Finish(Vec<(EntryId, Digest)>),
}

/// How a step of a round went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundResult {
    /// [`RoundStep::Sync`] or [`RoundStep::Record`] went well.
    Done,
    /// It did not. Nothing of the round may be believed.
    Failed(Failure),
    /// [`RoundStep::ReadBack`]: these chunks (0 for a staged file) are not what they must be.
    Damaged(Vec<(EntryId, u64)>),
    /// [`RoundStep::Finish`]: for each entry the losses or why not.
    Finished(Vec<(EntryId, Result<Vec<Loss>>)>),
}

/// Answer to [`Receiver::claim_chunk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Write it.
    Write(Arc<Entry>),
    /// Another stream writes this chunk at this moment: ask again when it told that its write returned.
    Busy,
    /// It is there, is not wanted any more, or another stream took over: drop the rest of the chunk.
    Unwanted,
}

/// See the module.
pub struct Receiver {
    terms: Terms,
    limits: Limits,
    items: HashMap<EntryId, Item>,
    item_bytes: usize,
    next_id: EntryId,
    /// What must wait until an entry is settled: hard links to it, and the entry that replaces it.
    waiting: HashMap<EntryId, Vec<EntryId>>,
    /// Entries that changed at the source when their content was complete here: the new entry at the same
    /// path may be looked at when they are settled.
    replaced: HashMap<RelativePath, EntryId>,
    /// The next offer replaces an entry withdrawn.
    replacement_follows: bool,
    /// Since a new link stands, until the sender has offered again what it has: what was offered first
    /// meanwhile waits, and nothing is concluded.
    repeating: bool,
    held: Vec<EntryId>,
    /// Outcomes told that the sender may not have heard.
    told: BTreeMap<EntryId, Outcome>,
    scan: Option<ScanTotals>,
    /// Entries that wait for data or for the sender's word.
    awaiting: BTreeSet<EntryId>,
    deciding: usize,
    /// Entries that are not decided yet because another must be settled first; some may be withdrawn by now.
    behind: usize,
    dirty: Dirty,
    round: Option<Round>,
    end: End,
    totals: Totals,
    verified_bytes: u64,
    durable_bytes: u64,
    /// Names below the destination that could not be dealt with; told before the end.
    troubles: Vec<(RelativePath, Outcome)>,
    actions: VecDeque<Action>,
    // Told together, in one message each.
    wants: Vec<(EntryId, Want)>,
    settled: Vec<(EntryId, Outcome)>,
    acks: Vec<(EntryId, Run)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Concluding,
    Finished,
    Failed,
}

struct Item {
    entry: Arc<Entry>,
    state: State,
    /// Not offered again since the link was lost.
    unconfirmed: bool,
    /// How often content of it came damaged.
    damaged: u32,
}

/// Beyond this an entry fails. Twice what senders repair, so that an honest one gives up first and says why.
const DAMAGED_MAX: u32 = 128;

enum State {
    Deciding,
    Small,
    Staged(Digest),
    Large(Box<Large>),
    Finishing(Digest),
    Named(Outcome),
}

struct Large {
    /// Chunks that are durable (and read back, if asked).
    tree: Tree,
    /// Chunks written since, until their round is over.
    written: RunSet,
    seal: Option<Seal>,
    /// Who writes a chunk that is not complete, and whether at this moment.
    writers: BTreeMap<u64, (u64, bool)>,
    /// Chunks of which a copy was dropped because another stream writes them.
    dropped: BTreeSet<u64>,
    /// Chunks of an earlier attempt whose digests the sender may not know yet.
    have: Vec<(u64, Digest)>,
}

#[derive(Default)]
struct Dirty {
    chunks: BTreeMap<EntryId, Vec<(u64, Digest)>>,
    staged: Vec<EntryId>,
    named: Vec<EntryId>,
    bytes: u64,
    since: Option<Duration>,
}

struct Round {
    chunks: BTreeMap<EntryId, Vec<(u64, Digest)>>,
    staged: Vec<EntryId>,
    named: Vec<EntryId>,
    recorded: Vec<(EntryId, Vec<(u64, Digest)>)>,
    finish: Vec<(EntryId, Digest)>,
    step: Step,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Sync,
    ReadBack,
    Record,
    Finish,
}

impl Receiver {
    /// A receiver that was offered nothing yet.
    pub fn new(terms: Terms, limits: Limits) -> Self {
        Receiver {
            terms,
            limits,
            items: HashMap::new(),
            item_bytes: 0,
            next_id: EntryId(0),
            waiting: HashMap::new(),
            replaced: HashMap::new(),
            replacement_follows: false,
            repeating: false,
            held: Vec::new(),
            told: BTreeMap::new(),
            scan: None,
            awaiting: BTreeSet::new(),
            deciding: 0,
            behind: 0,
            troubles: Vec::new(),
            dirty: Dirty::default(),
            round: None,
            end: End::Open,
            totals: Totals::default(),
            verified_bytes: 0,
            durable_bytes: 0,
            actions: VecDeque::new(),
            wants: Vec::new(),
            settled: Vec::new(),
            acks: Vec::new(),
        }
    }

    /// Counters so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Content bytes verified and durable so far.
    pub fn verified_and_durable_bytes(&self) -> (u64, u64) {
        (self.verified_bytes, self.durable_bytes)
    }

    /// What the scan found, once the sender said it is over.
    pub fn scan_totals(&self) -> Option<&ScanTotals> {
        self.scan.as_ref()
    }

    /// Whether the end was reached, well or not.
    pub fn is_over(&self) -> bool {
        matches!(self.end, End::Finished | End::Failed)
    }

    /// Whether it waits for the sender rather than for its own disk.
    pub fn awaits_peer(&self) -> bool {
        self.end == End::Open && (!self.awaiting.is_empty() || self.scan.is_none())
    }

    /// Next action, in order. Short messages that came together go out together.
    pub fn take_action(&mut self) -> Option<Action> {
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        let max = limits::MESSAGE_ITEMS_MAX / 2;
        let batch = |items: usize| items.min(max);
        if !self.wants.is_empty() {
            let n = batch(self.wants.len());
            return Some(Action::Say(Say::Want(self.wants.drain(..n).collect())));
        }
        if !self.acks.is_empty() {
            let n = batch(self.acks.len());
            return Some(Action::Say(Say::Ack(AckLevel::Verified, self.acks.drain(..n).collect())));
        }
        if !self.settled.is_empty() {
            let n = batch(self.settled.len()).min(SETTLED_MAX);
            return Some(Action::Say(Say::Settled(self.settled.drain(..n).collect())));
        }
        None
    }

    /// The sender's word.
    ///
    /// # Errors
    /// `Protocol` for what no correct sender says; the transfer is over then.
    pub fn hear(&mut self, say: Say, now: Duration) -> Result<()> {
        if self.end == End::Failed {
            return Ok(());
        }
        match say {
            Say::Offer(entries) => entries.into_iter().try_for_each(|entry| self.hear_offer(entry)),
            Say::OfferEnd(totals) => {
                if self.end == End::Finished {
                    self.say_finished();
                }
                self.scan = Some(totals);
                self.proceed(now);
                Ok(())
            }
            Say::Holes(runs) => {
                let heard = runs.into_iter().try_for_each(|(id, run)| self.hear_holes(id, run, now));
                self.proceed(now);
                heard
            }
            Say::Seal(seals) => {
                let heard = seals.into_iter().try_for_each(|(id, seal)| self.hear_seal(id, seal, now));
                self.proceed(now);
                heard
            }
            Say::Withdraw(entries) => {
                for (id, failure) in entries {
                    self.hear_withdraw(id, failure);
                }
                self.proceed(now);
                Ok(())
            }
            Say::Aside(names) => {
                for (id, path, outcome) in names {
                    self.hear_aside(id, path, outcome);
                }
                self.proceed(now);
                Ok(())
            }
            Say::OffersRepeated => {
                let mut gone: Vec<EntryId> =
                    self.items.iter().filter(|(_, item)| item.unconfirmed).map(|(&id, _)| id).collect();
                gone.sort_unstable();
                gone.into_iter().for_each(|id| self.hear_withdraw(id, None));
                self.replacement_follows = false;
                self.repeating = false;
                std::mem::take(&mut self.held).into_iter().for_each(|id| self.look_at(id));
                self.proceed(now);
                Ok(())
            }
            Say::Heard(below) => {
                self.told = self.told.split_off(&below);
                Ok(())
            }
            Say::Abort(failure) => {
                self.fail(failure);
                Ok(())
            }
            _ => Err(protocol("the sender said what only a receiver says")),
        }
    }

    /// The link was lost and stands again; the sender will offer what is not settled.
    pub fn link_up(&mut self) {
        self.actions.retain(|action| !matches!(action, Action::Say(_)));
        self.wants.clear();
        self.acks.clear();
        self.settled.clear();
        self.items.values_mut().for_each(|item| item.unconfirmed = true);
        self.replacement_follows = false;
        self.repeating = true;
    }

    /// Answer to [`Action::Decide`] and [`Action::Link`].
    pub fn decided(&mut self, id: EntryId, decided: Decided, now: Duration) {
        let chunk_bytes = self.terms.chunk_bytes;
        let small_bytes = u64::from(self.terms.segment_bytes);
        let Some(item) = self.items.get_mut(&id).filter(|item| matches!(item.state, State::Deciding)) else {
            return;
        };
        if !matches!(decided, Decided::Settled { made: false, .. }) {
            self.deciding -= 1;
        }
        match decided {
            Decided::Settled { outcome, made: false } => self.tell(id, outcome),
            Decided::Settled { outcome, made: true } => {
                item.state = State::Named(outcome);
                if !item.unconfirmed {
                    self.wants.push((id, Want::Nothing));
                }
                self.dirty.named.push(id);
                self.dirty.since.get_or_insert(now);
            }
            Decided::Fresh => {
                let size = item.entry.evidence.size;
                let sparse = matches!(item.entry.kind, Kind::File { sparse: true, .. });
                if !sparse && size <= small_bytes {
                    item.state = State::Small;
                } else {
                    item.state = State::Large(Large::new(size, chunk_bytes));
                }
                self.awaiting.insert(id);
                if !item.unconfirmed {
                    self.wants.push((id, Want::Whole));
                }
            }
            Decided::Resume(present) => {
                let size = item.entry.evidence.size;
                let mut large = Large::new(size, chunk_bytes);
                let mut present = present;
                present.sort_unstable_by_key(|&(chunk, _)| chunk);
                present.dedup_by_key(|&mut (chunk, _)| chunk);
                present.retain(|&(chunk, _)| chunk < large.tree.chunks());
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

    /// Whether small files of these entries may be written: those that are still wanted.
    pub fn small_wanted(&self, ids: impl Iterator<Item = EntryId>) -> Vec<Option<Arc<Entry>>> {
        ids.map(|id| {
            self.items
                .get(&id)
                .filter(|item| matches!(item.state, State::Small))
                .map(|item| item.entry.clone())
        })
        .collect()
    }

    /// Whether chunks of this entry may be written: its entry if they are still wanted.
    pub fn chunks_wanted(&self, id: EntryId) -> Option<Arc<Entry>> {
        self.items
            .get(&id)
            .filter(|item| matches!(item.state, State::Large(_)))
            .map(|item| item.entry.clone())
    }

    /// Whether `writer` (a number of its own for every stream that ever was) may write the next segment of
    /// this chunk now; if so, it must tell [`Receiver::segment_written`] when the write returned. `is_first`
    /// for the first segment of the chunk.
    ///
    /// A chunk can come twice, and the second copy may be damaged on the way to the disk, or read when the
    /// source was another. It must not touch what was verified, nor be mixed with the first: a chunk has one
    /// writer, and a newcomer takes over only from one that is not writing at this moment.
    pub fn claim_chunk(&mut self, writer: u64, id: EntryId, chunk: u64, is_first: bool) -> Claim {
        let Some(Item { entry, state: State::Large(large), unconfirmed, .. }) = self.items.get_mut(&id)
        else {
            return Claim::Unwanted;
        };
        if chunk >= large.tree.chunks() {
            return Claim::Unwanted;
        }
        if large.tree.contains(chunk) || large.written.contains(chunk) {
            // Whoever sent it again does not know.
            if is_first && !*unconfirmed {
                self.acks.push((id, Run { first: chunk, count: 1 }));
            }
            return Claim::Unwanted;
        }
        match large.writers.get(&chunk) {
            Some(&(other, _)) if other == writer => {}
            Some(&(_, true)) if is_first => return Claim::Busy,
            _ if is_first => {}
            _ => {
                // Somebody took over. If that one ends before the chunk is complete, it is asked for again.
                large.dropped.insert(chunk);
                return Claim::Unwanted;
            }
        }
        large.writers.insert(chunk, (writer, true));
        Claim::Write(entry.clone())
    }

    /// The write allowed by [`Receiver::claim_chunk`] returned. After the last segment of a chunk that went
    /// well, tell only [`Receiver::chunk_written`]: between the two another could begin to write.
    pub fn segment_written(&mut self, writer: u64, id: EntryId, chunk: u64) {
        if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
            && let Some((holder, is_writing)) = large.writers.get_mut(&chunk)
            && *holder == writer
        {
            *is_writing = false;
        }
    }

    /// A stream ended here, for whatever reason, and its last write returned. What it left incomplete, after
    /// another stream's copy was dropped in its favour, is asked for again.
    pub fn writer_gone(&mut self, writer: u64) {
        let mut orphans = Vec::new();
        for (&id, item) in &mut self.items {
            let State::Large(large) = &mut item.state else { continue };
            let dropped = &mut large.dropped;
            large.writers.retain(|&chunk, &mut (holder, _)| {
                if holder == writer && dropped.remove(&chunk) {
                    orphans.push((id, chunk));
                }
                holder != writer
            });
        }
        orphans.sort_unstable();
        orphans.into_iter().for_each(|(id, chunk)| self.damaged(id, chunk));
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
            let wanted = self.items.get_mut(&id).filter(|item| matches!(item.state, State::Small));
            taken.push(wanted.is_some());
            let Some(item) = wanted else { continue };
            item.state = State::Staged(digest);
            if !item.unconfirmed {
                self.acks.push((id, Run { first: 0, count: 1 }));
            }
            let bytes = item.entry.evidence.size;
            self.awaiting.remove(&id);
            self.verified_bytes = self.verified_bytes.saturating_add(bytes);
            self.totals.bytes_received = self.totals.bytes_received.saturating_add(bytes);
            self.dirty.staged.push(id);
            self.dirty.bytes += bytes;
            self.dirty.since.get_or_insert(now);
        }
        self.proceed(now);
        taken
    }

    /// A chunk was verified and written.
    pub fn chunk_written(&mut self, id: EntryId, chunk: u64, digest: Digest, now: Duration) {
        let Some(Item { entry, state: State::Large(large), unconfirmed, .. }) = self.items.get_mut(&id)
        else {
            return;
        };
        let bytes = digest::chunk_length(chunk, entry.evidence.size, self.terms.chunk_bytes);
        self.totals.bytes_received = self.totals.bytes_received.saturating_add(bytes);
        if chunk >= large.tree.chunks() {
            return;
        }
        if large.tree.contains(chunk) || large.written.contains(chunk) {
            if !*unconfirmed {
                self.acks.push((id, Run { first: chunk, count: 1 }));
            }
            return;
        }
        large.writers.remove(&chunk);
        large.dropped.remove(&chunk);
        large.written.insert(chunk, chunk + 1);
        self.verified_bytes = self.verified_bytes.saturating_add(bytes);
        if !*unconfirmed {
            // It was sent because it was wanted: the sender knows what we have.
            large.have = Vec::new();
            self.acks.push((id, Run { first: chunk, count: 1 }));
        }
        self.dirty.chunks.entry(id).or_default().push((chunk, digest));
        self.dirty.bytes += bytes;
        self.dirty.since.get_or_insert(now);
        self.proceed(now);
    }

    /// A chunk or small file (chunk 0) arrived damaged: it is asked for again, unless it is there by now.
    pub fn damaged(&mut self, id: EntryId, chunk: u64) {
        let Some(item) = self.items.get_mut(&id) else { return };
        let missing = match &mut item.state {
            State::Small => true,
            State::Large(large)
                if chunk < large.tree.chunks()
                    && !large.tree.contains(chunk)
                    && !large.written.contains(chunk) =>
            {
                // What is read again needs a new one.
                large.seal = None;
                true
            }
            _ => false,
        };
        if missing {
            self.totals.chunks_repaired += 1;
            item.damaged += 1;
            if item.damaged > DAMAGED_MAX {
                let cause = format!("it came damaged {DAMAGED_MAX} times");
                let failure = Failure::new(FailureKind::Damage, "verify", cause).at(&item.entry.path);
                self.drop_dirty(id);
                self.actions.push_back(Action::Discard(id));
                self.tell(id, Outcome::Failed(failure));
                return;
            }
            if item.unconfirmed {
                // The answer to the repeated offer asks for it.
                return;
            }
            // After an acknowledgement of the same bytes that has not gone out yet.
            self.say_acks();
            self.say(Say::Repair(vec![(id, Run { first: chunk, count: 1 })]));
        }
    }

    /// Writing an entry failed. A full or broken destination ends the transfer, anything else the entry.
    pub fn write_failed(&mut self, id: EntryId, failure: Failure, now: Duration) {
        if matches!(failure.kind, FailureKind::Space | FailureKind::Io) {
            self.abort(failure);
            return;
        }
        let Some(item) = self.items.get(&id) else { return };
        if matches!(item.state, State::Small | State::Large(_)) {
            self.drop_dirty(id);
            self.actions.push_back(Action::Discard(id));
            self.tell(id, Outcome::Failed(failure));
            self.proceed(now);
        }
    }

    /// Time passed. Starts a round if one is due; returns when to look again.
    pub fn tick(&mut self, now: Duration) -> Option<Duration> {
        self.proceed(now);
        if self.end != End::Open || self.round.is_some() {
            return None;
        }
        self.dirty.since.map(|since| since + self.limits.round_after)
    }

    /// Answer to [`Action::Round`].
    pub fn round_done(&mut self, result: RoundResult, now: Duration) {
        if self.is_over() {
            return;
        }
        let Some(round) = self.round.take() else { return };
        match (round.step, result) {
            (_, RoundResult::Failed(failure)) => self.abort(failure),
            (Step::Sync, RoundResult::Done) => self.round_synced(round),
            (Step::ReadBack, RoundResult::Damaged(damaged)) => self.round_read_back(round, &damaged),
            (Step::Record, RoundResult::Done) => self.round_recorded(round),
            (Step::Finish, RoundResult::Finished(results)) => self.round_finished(results, now),
            (step, result) => self.abort(Failure::new(
                FailureKind::Internal,
                "make data durable",
                format!("step {step:?} answered with {result:?}"),
            )),
        }
        self.proceed(now);
    }

    /// Answer to [`Action::Conclude`].
    pub fn concluded(&mut self, revised: Vec<(EntryId, Outcome)>, deleted: u64, troubles: Vec<Failure>) {
        if self.end != End::Concluding {
            return;
        }
        for (id, outcome) in revised {
            // It was counted as done (or unchanged) before.
            self.totals.done = self.totals.done.saturating_sub(1);
            self.count(&outcome, 0);
            self.told.insert(id, outcome.clone());
            self.settled.push((id, outcome));
        }
        for failure in troubles {
            let path = failure.path.clone().unwrap_or_default();
            let outcome = Outcome::Failed(failure);
            self.count(&outcome, 0);
            self.actions.push_back(Action::Aside(None, path.clone(), outcome.clone()));
            self.troubles.push((path, outcome));
        }
        self.totals.deleted = deleted;
        self.end = End::Finished;
        // To a sender that is still repeating its offers it is said when they are all answered.
        if !self.repeating {
            self.say_finished();
        }
        self.actions.push_back(Action::Finished(self.totals));
    }

    /// Ends the transfer and says so to the sender.
    pub fn abort(&mut self, failure: Failure) {
        if !self.is_over() {
            self.say(Say::Abort(failure.clone()));
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: Failure) {
        if !self.is_over() {
            self.end = End::Failed;
            self.round = None;
            self.actions.push_back(Action::Failed(failure));
        }
    }

    fn hear_offer(&mut self, entry: Entry) -> Result<()> {
        let id = entry.id;
        let replaces = std::mem::take(&mut self.replacement_follows);
        if id < self.next_id {
            return self.repeat(&entry);
        }
        if id.0 - self.next_id.0 > limits::ENTRIES_IN_FLIGHT_MAX as u64 * 1024 || id.0 == u64::MAX {
            return Err(protocol("entry numbers jump"));
        }
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
        let entry = Arc::new(entry);
        self.item_bytes += entry.heap_bytes();
        self.deciding += 1;
        self.items.insert(id, Item { entry, state: State::Deciding, unconfirmed: false, damaged: 0 });
        if self.repeating && !replaces {
            self.held.push(id);
        } else {
            self.look_at(id);
        }
        Ok(())
    }

    /// Has an entry decided, or puts it behind what must be settled before.
    fn look_at(&mut self, id: EntryId) {
        let Some(item) = self.items.get(&id) else { return };
        let entry = item.entry.clone();
        let before = match entry.kind {
            Kind::HardLink { of, .. } => Some(of),
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

    fn hear_aside(&mut self, id: EntryId, path: RelativePath, outcome: Outcome) {
        if let Some(told) = self.told.get(&id) {
            self.settled.push((id, told.clone()));
            return;
        }
        if let Outcome::Failed(failure) = &outcome
            && let Some(item) = self.items.get_mut(&id)
        {
            item.unconfirmed = false;
            self.hear_withdraw(id, Some(failure.clone()));
            return;
        }
        self.next_id = self.next_id.max(EntryId(id.0.saturating_add(1)));
        self.count(&outcome, 0);
        self.told.insert(id, outcome.clone());
        self.settled.push((id, outcome.clone()));
        self.actions.push_back(Action::Aside(Some(id), path, outcome));
    }

    fn repeat(&mut self, entry: &Entry) -> Result<()> {
        let id = entry.id;
        if let Some(outcome) = self.told.get(&id) {
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
            State::Staged(_) | State::Finishing(_) | State::Named(_) => self.wants.push((id, Want::Nothing)),
        }
        Ok(())
    }

    /// Asks for what is missing of a large file, after the digests of what is there.
    fn say_missing(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get(&id) else { return };
        let have = neighbours(&large.have);
        let missing = large.runs_missing();
        self.say_acks();
        for (first, digests) in have {
            for (step, digests) in digests.chunks(limits::MESSAGE_DIGESTS_MAX / 2).enumerate() {
                let first = first + (step * (limits::MESSAGE_DIGESTS_MAX / 2)) as u64;
                self.say(Say::Have { entry: id, first, digests: digests.to_vec() });
            }
        }
        self.say(Say::Want(vec![(id, Want::Missing(missing))]));
    }

    /// Says what was collected so far, where something must not overtake it.
    fn say_acks(&mut self) {
        while !self.acks.is_empty() {
            let n = self.acks.len().min(limits::MESSAGE_ITEMS_MAX / 2);
            let batch = self.acks.drain(..n).collect();
            self.say(Say::Ack(AckLevel::Verified, batch));
        }
    }

    fn hear_holes(&mut self, id: EntryId, run: Run, now: Duration) -> Result<()> {
        let mark = digest::hole_chunk_mark(self.terms.chunk_bytes, u64::from(self.terms.segment_bytes));
        let chunk_bytes = self.terms.chunk_bytes;
        let Some(item) = self.items.get_mut(&id) else { return self.late(id) };
        let large = match &mut item.state {
            State::Large(large) => large,
            // Found twice, by two streams.
            State::Finishing(_) | State::Named(_) => return Ok(()),
            _ => return Err(protocol("holes in what is not a large file")),
        };
        let size = item.entry.evidence.size;
        let whole_chunks = size / chunk_bytes;
        if !matches!(item.entry.kind, Kind::File { marked: true, .. }) || run.first + run.count > whole_chunks
        {
            return Err(protocol("holes that the file cannot have"));
        }
        let before = large.tree.present();
        large.tree.insert_marked_holes(run.first, run.count, mark);
        let bytes = (large.tree.present() - before) * chunk_bytes;
        self.verified_bytes = self.verified_bytes.saturating_add(bytes);
        self.durable_bytes = self.durable_bytes.saturating_add(bytes);
        self.dirty.chunks.entry(id).or_default();
        self.dirty.since.get_or_insert(now);
        Ok(())
    }

    fn hear_seal(&mut self, id: EntryId, seal: Seal, now: Duration) -> Result<()> {
        let Some(item) = self.items.get_mut(&id) else { return self.late(id) };
        if seal.evidence != item.entry.evidence {
            return Err(protocol("a seal for other content than was offered"));
        }
        if let State::Large(large) = &mut item.state {
            large.have = Vec::new();
            large.seal = Some(seal);
            // Nothing may be written any more; then only a round can carry it on.
            self.dirty.chunks.entry(id).or_default();
            self.dirty.since.get_or_insert(now);
        }
        Ok(())
    }

    fn hear_withdraw(&mut self, id: EntryId, failure: Option<Failure>) {
        self.replacement_follows |= failure.is_none();
        let Some(item) = self.items.get(&id) else {
            // It was told as done, and is offered again under another number: it must not count twice.
            if failure.is_none()
                && let Some(outcome) = self.told.remove(&id)
            {
                self.uncount(&outcome);
            }
            return;
        };
        if !item.state.awaits_data() {
            // It is complete and gets its name. Whatever replaces it comes after that.
            if failure.is_none() {
                self.replaced.insert(item.entry.path.clone(), id);
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
                self.free_waiting(id);
            }
        }
    }

    fn late(&self, id: EntryId) -> Result<()> {
        if self.was_offered(id) { Ok(()) } else { Err(protocol("an entry that was never offered")) }
    }

    /// Starts a round if one is due, or concludes.
    fn proceed(&mut self, now: Duration) {
        if self.end != End::Open || self.round.is_some() {
            return;
        }
        if let Some(since) = self.dirty.since {
            let idle = self.awaiting_nothing();
            if idle
                || self.dirty.bytes >= self.limits.round_bytes
                || self.dirty.staged.len() + self.dirty.named.len() >= self.limits.round_files
                || now.saturating_sub(since) >= self.limits.round_after
            {
                self.start_round();
            }
        } else if self.items.is_empty()
            && !self.repeating
            && !self.replacement_follows
            && let Some(scan) = &self.scan
        {
            self.end = End::Concluding;
            self.actions.push_back(Action::Conclude(scan.complete));
        }
    }

    /// Whether nothing more can come before something is durable: then waiting for company is idle.
    fn awaiting_nothing(&self) -> bool {
        let all_written = |id: &EntryId| match self.items.get(id).map(|item| &item.state) {
            Some(State::Large(large)) => large.is_all_written(),
            _ => false,
        };
        self.scan.is_some()
            // Those that wait for a round are no reason to wait with it.
            && self.deciding <= self.behind
            && self.awaiting.len() <= IDLE_LOOK_MAX
            && self.awaiting.iter().all(all_written)
    }

    fn start_round(&mut self) {
        let dirty = std::mem::take(&mut self.dirty);
        let partials =
            dirty.chunks.iter().filter(|(_, chunks)| !chunks.is_empty()).map(|(&id, _)| id).collect();
        let staged = dirty.staged.len() as u64;
        self.round = Some(Round {
            chunks: dirty.chunks,
            staged: dirty.staged,
            named: dirty.named,
            recorded: Vec::new(),
            finish: Vec::new(),
            step: Step::Sync,
        });
        self.actions.push_back(Action::Round(RoundStep::Sync { partials, staged }));
    }

    fn round_synced(&mut self, mut round: Round) {
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
                self.round = Some(round);
                self.actions.push_back(Action::Round(RoundStep::ReadBack { chunks, files }));
                return;
            }
        }
        self.round_durable(round);
    }

    fn round_read_back(&mut self, mut round: Round, damaged: &[(EntryId, u64)]) {
        for &(id, chunk) in damaged {
            if let Some(chunks) = round.chunks.get_mut(&id) {
                chunks.retain(|&(other, _)| other != chunk);
            }
            round.staged.retain(|&other| other != id);
            match self.items.get_mut(&id).map(|item| &mut item.state) {
                Some(State::Large(large)) => {
                    large.written.remove(chunk, chunk + 1);
                    large.seal = None;
                }
                Some(state @ State::Staged(_)) => {
                    *state = State::Small;
                    self.awaiting.insert(id);
                    self.actions.push_back(Action::Discard(id));
                }
                _ => continue,
            }
            self.damaged(id, chunk);
        }
        self.round_durable(round);
    }

    /// The bytes of the round are durable (and read back).
    fn round_durable(&mut self, mut round: Round) {
        let chunk_bytes = self.terms.chunk_bytes;
        for id in std::mem::take(&mut round.staged) {
            let Some(item) = self.items.get_mut(&id) else { continue };
            let State::Staged(digest) = item.state else { continue };
            item.state = State::Finishing(digest);
            self.durable_bytes = self.durable_bytes.saturating_add(item.entry.evidence.size);
            round.finish.push((id, digest));
        }
        for (id, chunks) in std::mem::take(&mut round.chunks) {
            let Some(item) = self.items.get_mut(&id) else { continue };
            let State::Large(large) = &mut item.state else { continue };
            for &(chunk, digest) in &chunks {
                large.written.remove(chunk, chunk + 1);
                large.tree.insert(chunk, digest);
                self.durable_bytes = self.durable_bytes.saturating_add(digest::chunk_length(
                    chunk,
                    item.entry.evidence.size,
                    chunk_bytes,
                ));
            }
            match (large.tree.root(), &large.seal) {
                (Some(root), Some(seal)) if root == seal.digest => {
                    item.state = State::Finishing(root);
                    self.awaiting.remove(&id);
                    round.finish.push((id, root));
                }
                (Some(root), Some(seal)) => {
                    let cause = format!(
                        "what was read at the source joins to {}, what was written here to {root}",
                        seal.digest
                    );
                    self.actions.push_back(Action::Discard(id));
                    self.tell(id, Outcome::Failed(Failure::new(FailureKind::Damage, "verify", cause)));
                }
                _ if chunks.is_empty() => {}
                _ => round.recorded.push((id, chunks)),
            }
        }
        if round.recorded.is_empty() {
            self.round_recorded(round);
        } else {
            round.step = Step::Record;
            self.actions.push_back(Action::Round(RoundStep::Record(round.recorded.clone())));
            self.round = Some(round);
        }
    }

    fn round_recorded(&mut self, mut round: Round) {
        let mut acks = Vec::new();
        for (id, chunks) in std::mem::take(&mut round.recorded) {
            let mut numbers: Vec<u64> = chunks.iter().map(|&(chunk, _)| chunk).collect();
            numbers.sort_unstable();
            acks.extend(runs_of(&numbers).into_iter().map(|run| (id, run)));
        }
        for acks in acks.chunks(limits::MESSAGE_ITEMS_MAX / 2) {
            self.say(Say::Ack(AckLevel::Durable, acks.to_vec()));
        }
        if !round.finish.is_empty() {
            round.step = Step::Finish;
            self.actions.push_back(Action::Round(RoundStep::Finish(std::mem::take(&mut round.finish))));
            self.round = Some(round);
        }
    }

    fn round_finished(&mut self, results: Vec<(EntryId, Result<Vec<Loss>>)>, now: Duration) {
        for (id, result) in results {
            let Some(item) = self.items.get_mut(&id) else { continue };
            let State::Finishing(digest) = item.state else { continue };
            match result {
                Ok(losses) => {
                    item.state = State::Named(Outcome::Done { digest: Some(digest), losses });
                    self.dirty.named.push(id);
                    self.dirty.since.get_or_insert(now);
                }
                Err(failure) if matches!(failure.kind, FailureKind::Space | FailureKind::Io) => {
                    self.abort(failure);
                    return;
                }
                Err(failure) => {
                    self.actions.push_back(Action::Discard(id));
                    self.tell(id, Outcome::Failed(failure));
                }
            }
        }
    }

    /// The final word on an entry, which is durable if it is good.
    fn tell(&mut self, id: EntryId, outcome: Outcome) {
        let Some(item) = self.remove(id) else { return };
        if self.replaced.get(&item.entry.path) == Some(&id) {
            self.replaced.remove(&item.entry.path);
            self.actions.push_back(Action::Gone(id));
        } else {
            self.count(&outcome, item.entry.content_bytes());
            self.told.insert(id, outcome.clone());
            self.settled.push((id, outcome.clone()));
            self.actions.push_back(Action::Settled(item.entry, outcome));
        }
        self.free_waiting(id);
    }

    fn free_waiting(&mut self, settled: EntryId) {
        let waiting = self.waiting.remove(&settled).unwrap_or_default();
        self.behind -= waiting.len();
        waiting.into_iter().for_each(|id| self.look_at(id));
    }

    fn remove(&mut self, id: EntryId) -> Option<Item> {
        let item = self.items.remove(&id)?;
        self.item_bytes -= item.entry.heap_bytes();
        self.awaiting.remove(&id);
        if matches!(item.state, State::Deciding) {
            self.deciding -= 1;
        }
        Some(item)
    }

    fn drop_dirty(&mut self, id: EntryId) {
        self.dirty.chunks.remove(&id);
        self.dirty.staged.retain(|&other| other != id);
        if let Some(round) = &mut self.round {
            round.chunks.remove(&id);
            round.staged.retain(|&other| other != id);
            round.recorded.retain(|(other, _)| *other != id);
            round.finish.retain(|(other, _)| *other != id);
        }
    }

    fn count(&mut self, outcome: &Outcome, bytes: u64) {
        match outcome {
            Outcome::Done { .. } => {
                self.totals.done += 1;
                self.totals.bytes_done = self.totals.bytes_done.saturating_add(bytes);
            }
            Outcome::Unchanged { .. } => self.totals.unchanged += 1,
            Outcome::Skipped(_) => self.totals.skipped += 1,
            Outcome::Failed(_) => self.totals.failed += 1,
        }
    }

    fn uncount(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Done { .. } => &mut self.totals.done,
            Outcome::Unchanged { .. } => &mut self.totals.unchanged,
            Outcome::Skipped(_) => &mut self.totals.skipped,
            Outcome::Failed(_) => &mut self.totals.failed,
        };
        *count = count.saturating_sub(1);
    }

    fn say_finished(&mut self) {
        // Outcomes collected so far come before it.
        while !self.settled.is_empty() {
            let n = self.settled.len().min(SETTLED_MAX);
            let batch = self.settled.drain(..n).collect();
            self.say(Say::Settled(batch));
        }
        for names in self.troubles.clone().chunks(SETTLED_MAX) {
            self.say(Say::Troubles(names.to_vec()));
        }
        self.say(Say::Finished(self.totals));
    }

    fn say(&mut self, say: Say) {
        self.actions.push_back(Action::Say(say));
    }
}

impl State {
    /// Nothing of it has a name yet.
    fn awaits_data(&self) -> bool {
        matches!(self, State::Deciding | State::Small | State::Staged(_) | State::Large(_))
    }
}

impl Large {
    fn new(size: u64, chunk_bytes: u64) -> Box<Self> {
        Box::new(Large {
            tree: Tree::new(size, chunk_bytes),
            written: RunSet::new(),
            seal: None,
            writers: BTreeMap::new(),
            dropped: BTreeSet::new(),
            have: Vec::new(),
        })
    }

    /// Everything arrived, and the sender vouched for it.
    fn is_all_written(&self) -> bool {
        self.seal.is_some() && self.tree.present() + self.written.len() == self.tree.chunks()
    }

    fn runs_missing(&self) -> Vec<Run> {
        let mut missing = RunSet::new();
        self.tree.missing().into_iter().for_each(|(first, end)| missing.insert(first, end));
        self.written.iter().for_each(|(first, end)| missing.remove(first, end));
        missing.iter().map(|(first, end)| Run { first, count: end - first }).collect()
    }
}

/// Outcomes in one message: each may carry texts.
const SETTLED_MAX: usize = 256;
/// With more entries than this waiting for data, idleness is not even looked for.
const IDLE_LOOK_MAX: usize = 64;

fn runs_of(sorted: &[u64]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for &chunk in sorted {
        match runs.last_mut() {
            Some(run) if run.first + run.count == chunk => run.count += 1,
            _ => runs.push(Run { first: chunk, count: 1 }),
        }
    }
    runs
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

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "talk to the sender", what)
}
