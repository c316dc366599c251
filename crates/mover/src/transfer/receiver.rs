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
//! record the chunks of incomplete files; sync the record; acknowledge them. Then complete files get their names, while
//! the next round goes on: a name is told by the first round whose sync began after it was given.
//! So nothing is acknowledged as durable, or told as done, before a power cut could not take it back.

use crate::failure::{Failure, FailureKind, Result};
use crate::numbers::NumberMap;
use crate::transfer::Copy;
use crate::transfer::runs::RunSet;
use compare::Comparison;
use outbox::{Outbox, Told};
use replaced::{Replacing, StandIn, Waiting};
use rounds::Rounds;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest::{self, PIECES_MAX, Pieces, Tree};
use thalweg_wire::message::{
    Listing, Loss, Outcome, Run, ScanTotals, Seal, Terms, Totals, TransferMessage as Say, batches,
};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, limits};

mod compare;
mod content;
mod left;
mod offers;
mod outbox;
mod replaced;
mod rounds;

/// Bounds of a receiver.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Most entries that a sender may have unsettled.
    pub entries: usize,
    /// Most heap bytes of those.
    pub entry_bytes: usize,
    /// Most outcomes that a sender may not say it has heard.
    pub told: usize,
    /// Most runs of holes whose neighbours have not come, of all files; at times twice as many are kept.
    pub hole_runs: usize,
    /// Most gaps that what earlier attempts left, of all files, makes at the sender: of what is beyond it some is asked
    /// for again.
    pub gaps: usize,
    /// A round starts when this much was written since the last.
    pub round_bytes: u64,
    /// Or this many small files and names. Few: a round that is being synced does not keep the last one's files from
    /// their names, and what is left at the end is short (20,000 files of 4 KiB, medians of 12: 1,024 took 1.03 times
    /// as long, 16,384 1.2 times).
    pub round_files: usize,
    /// Or when the oldest of it is this old.
    pub round_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: limits::ENTRIES_IN_FLIGHT_MAX + limits::OFFER_ENTRIES_MAX,
            entry_bytes: limits::ENTRY_BYTES_IN_FLIGHT_MAX + limits::MESSAGE_BYTES_MAX,
            told: limits::ENTRIES_UNHEARD_MAX,
            hole_runs: limits::HOLE_RUNS_MAX,
            gaps: limits::GAPS_TOLD_MAX,
            round_bytes: 1 << 30,
            round_files: 2 << 10,
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
    /// Chunks of it are in a partial from an earlier attempt, or a file stands there that may hold some of it.
    Wanted {
        /// What a partial from an earlier attempt has.
        present: Vec<(u64, Digest)>,
        /// The file that stands there, if it is worth comparing.
        candidate: Option<Candidate>,
    },
}

/// A file at the destination whose content may be the entry's, or some of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Chunks `0..chunks` of it can be compared.
    pub chunks: u64,
    /// It may be all of the entry: it has the same size.
    pub is_whole: bool,
    /// It has another name, which stays: it is copied from, and never kept as the entry.
    pub is_elsewhere: bool,
}

impl Candidate {
    /// A file of `size` bytes for an entry of `entry_size`; `None` if they have no whole chunk in common. The digest
    /// of a chunk that is a whole file is no other file's.
    pub fn of(size: u64, entry_size: u64, chunk_bytes: u64) -> Option<Self> {
        let is_whole = size == entry_size;
        let chunks = match is_whole {
            true => digest::chunk_count(size, chunk_bytes),
            false if size > chunk_bytes && entry_size > chunk_bytes => size.min(entry_size) / chunk_bytes,
            false => 0,
        };
        (chunks > 0).then_some(Candidate { chunks, is_whole, is_elsewhere: false })
    }

    /// A file of another name and the same size.
    pub fn elsewhere(size: u64, chunk_bytes: u64) -> Self {
        Candidate { chunks: digest::chunk_count(size, chunk_bytes), is_whole: true, is_elsewhere: true }
    }
}

/// What the machine wants done or known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Say this to the sender.
    Say(Say),
    /// Look at the destination, answer with [`Receiver::decided`].
    Decide(Arc<Entry>),
    /// All before it is decided and done: link it, answer with [`Receiver::decided`]. The first name in it may be
    /// another than the sender offered it with.
    Link(Arc<Entry>),
    /// Do what the round needs next, answer with [`Receiver::round_done`].
    Round(RoundStep),
    /// Give these entries their names, in this order and after all before; answer with [`Receiver::finished`].
    Finish {
        /// With what was written of each.
        entries: Vec<(EntryId, Digest)>,
        /// More rounds follow: those of which the destination says that it is worth it may wait for the next.
        may_wait: bool,
    },
    /// Copy this chunk from the file that stands there into the partial if it still has this digest; answer with
    /// [`Receiver::copied`].
    Copy(Arc<Entry>, u64, Digest),
    /// Look whether the file that stands there has a hole where the source has one; answer with
    /// [`Receiver::holes_compared`].
    CompareHoles(Arc<Entry>, Run),
    /// The file that stands there has the entry's content: it stays. Answer with [`Receiver::kept`].
    Keep(Arc<Entry>, Digest),
    /// Throw away what was written for an entry.
    Discard(EntryId),
    /// An entry is offered at this path again: what was offered there before may have its name by now, so whoever
    /// decides must look, new as the directory may be.
    OfferedBefore(RelativePath),
    /// Digests of the parts of a file that is about to be settled as done; see [`Receiver::keep_pieces`].
    Pieces(Arc<Entry>, Pieces),
    /// An entry came to its end, durable.
    Settled(Arc<Entry>, Outcome),
    /// A name that was never offered (with its number), or one of the destination's, came to its end.
    Aside(Option<EntryId>, RelativePath, Outcome),
    /// A name at the destination that the source lacks is gone, or would be.
    Deleted(RelativePath),
    /// This number will never settle: its entry changed and was offered again under another.
    Gone(EntryId),
    /// All entries are settled: give directories their metadata, delete what is to be deleted; answer with
    /// [`Receiver::concluded`]. The source was listed like this.
    Conclude(Listing),
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
}

/// What became of entries that were to get their names.
pub type Finished = Vec<(EntryId, Result<Named>)>;

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// It has its name; so much could not be kept.
    Now(Vec<Loss>),
    /// It waits for the next round.
    Later,
}

/// Answer to [`Receiver::claim_chunk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Write it.
    Write,
    /// Another stream writes this chunk at this moment: ask again when it told that its write returned.
    Busy,
    /// It is there, is not wanted any more, or another stream took over: drop the rest of the chunk.
    Unwanted,
}

/// See the module.
pub struct Receiver {
    terms: Terms,
    limits: Limits,
    items: NumberMap<EntryId, Item>,
    next_id: EntryId,
    waiting: Waiting,
    replacing: Replacing,
    /// Second names that come by themselves, by the numbers of their first names, to which they could not be linked:
    /// further names of the same file are linked to these.
    stand_ins: BTreeMap<EntryId, StandIn>,
    repeat: Repeat,
    scan: Option<ScanTotals>,
    deciding: usize,
    /// Entries that wait for data or for the sender's word.
    awaiting: BTreeSet<EntryId>,
    /// Where [`Receiver::find_unwritten`] looks first.
    unwritten: EntryId,
    rounds: Rounds,
    end: End,
    outbox: Outbox,
    told: Told,
    told_last: ToldLast,
    counts: Counts,
    bounded: Bounded,
    keeps_pieces: bool,
}

/// Since a new link stands, until the sender has offered again what it has.
#[derive(Default)]
struct Repeat {
    /// Nothing is concluded.
    is_on: bool,
    /// What was offered first meanwhile waits.
    held: Vec<EntryId>,
}

/// What is told before the end.
#[derive(Default)]
struct ToldLast {
    /// Directories whose metadata could not be kept, and names below the destination that could not be dealt with.
    troubles: Vec<(RelativePath, Outcome)>,
    deleted_names: Vec<RelativePath>,
}

/// What is counted.
#[derive(Default)]
struct Counts {
    /// Entries that were offered, and their content bytes; not those that replace others.
    offered: (u64, u64),
    /// See [`Receiver::unlinked_bytes`].
    unlinked_bytes: u64,
    /// See [`Receiver::unmoved_bytes`] and [`Receiver::wanted_bytes`].
    unmoved_bytes: u64,
    wanted_bytes: u64,
    totals: Totals,
    /// Of those that failed, those whose content was damaged.
    damaged: u64,
    /// What was found under other names: files, and bytes.
    renamed: (u64, u64),
    /// See [`Receiver::compared_hole_bytes`].
    compared_hole_bytes: u64,
    verified_bytes: u64,
    durable_bytes: u64,
}

impl Counts {
    fn count(&mut self, outcome: &Outcome, bytes: u64) {
        self.damaged += u64::from(outcome.is_damage());
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

    fn uncount(&mut self, outcome: &Outcome, bytes: u64) {
        self.damaged = self.damaged.saturating_sub(u64::from(outcome.is_damage()));
        let count = match outcome {
            Outcome::Done { .. } => {
                self.totals.bytes_done = self.totals.bytes_done.saturating_sub(bytes);
                &mut self.totals.done
            }
            Outcome::Unchanged { .. } => &mut self.totals.unchanged,
            Outcome::Skipped(_) => &mut self.totals.skipped,
            Outcome::Failed(_) => &mut self.totals.failed,
        };
        *count = count.saturating_sub(1);
    }
}

/// How much a sender has us keep, or look for.
#[derive(Default)]
struct Bounded {
    /// Heap bytes of the entries.
    item_bytes: usize,
    /// Runs of holes that there were when they were counted last, and those that were added since.
    hole_runs: usize,
    /// Runs of holes that are being looked for, in files that stand here.
    looking: usize,
    /// What [`Item::gaps`] of all come to.
    gaps: usize,
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
    /// The number that was offered first of those that it replaces one after the other; its own if it replaces none.
    first: EntryId,
    state: State,
    /// Not offered again since the link was lost.
    unconfirmed: bool,
    /// How often content of it came damaged.
    damaged: u32,
    /// How often the destination lost what had come of a chunk, since one of them was whole.
    lost: u32,
    /// A hard link that was linked to a second name instead, once.
    had_stand_in: bool,
    /// It replaces a hard link, which had no content.
    was_link: bool,
    /// Requests for pieces that were said over this link.
    asked: u32,
    /// Its parts, when it is complete.
    pieces: Option<Pieces>,
    /// Gaps at the sender that come of what an earlier attempt left of it.
    gaps: usize,
}

/// Beyond this an entry fails. Twice what senders repair, so that an honest one gives up first and says why.
const DAMAGED_MAX: u32 = 128;
/// Beyond this an entry fails of which nothing becomes whole: its destination would lose it for ever. Many streams may
/// each lose a chunk several times before there is room for the first.
const LOST_MAX: u32 = 512;

enum State {
    Deciding,
    Small,
    Staged(Digest),
    Large(Box<Large>),
    /// The destination's own file turned out to have this content; so many bytes of it were compared, the others
    /// are holes.
    Keeping(u64),
    Finishing(Digest),
    Named(Outcome),
}

struct Large {
    /// Chunks that are durable (and read back, if asked).
    tree: Tree,
    /// Chunks written since, until their round is over.
    written: RunSet,
    seal: Option<Seal>,
    /// Who writes a chunk that is not complete.
    writers: BTreeMap<u64, Writer>,
    /// Chunks of which a copy was dropped because another stream writes them.
    dropped: BTreeSet<u64>,
    /// Chunks of an earlier attempt whose digests the sender may not know yet.
    have: Vec<(u64, Digest)>,
    /// The file that stands there, as far as it was compared.
    comparison: Option<Comparison>,
}

/// Who writes a chunk that is not complete.
struct Writer {
    number: u64,
    /// At this moment.
    is_writing: bool,
    copy: Copy,
}

impl Receiver {
    /// A receiver that was offered nothing yet.
    pub fn new(terms: Terms, limits: Limits) -> Self {
        Receiver {
            terms,
            limits,
            items: NumberMap::default(),
            next_id: EntryId(0),
            waiting: Waiting::default(),
            replacing: Replacing::default(),
            stand_ins: BTreeMap::new(),
            repeat: Repeat::default(),
            scan: None,
            deciding: 0,
            awaiting: BTreeSet::new(),
            unwritten: EntryId(0),
            rounds: Rounds::default(),
            end: End::Open,
            outbox: Outbox::default(),
            told: Told::default(),
            told_last: ToldLast::default(),
            counts: Counts::default(),
            bounded: Bounded::default(),
            keeps_pieces: false,
        }
    }

    /// Tells the parts of large files, from now on. Call it before the first entry is offered.
    pub fn keep_pieces(&mut self) {
        self.keeps_pieces = true;
    }

    /// Counters so far.
    pub fn totals(&self) -> Totals {
        self.counts.totals
    }

    /// Entries that failed because their content was damaged, and stayed so.
    pub fn damaged_entries(&self) -> u64 {
        self.counts.damaged
    }

    /// Files of which some content was found in files of other names, and its bytes.
    pub fn renamed(&self) -> (u64, u64) {
        self.counts.renamed
    }

    /// Bytes of holes that count as verified, in files that stand here and in which no difference is known so far:
    /// nothing of them is made here.
    pub fn compared_hole_bytes(&self) -> u64 {
        self.counts.compared_hole_bytes
    }

    /// Content bytes verified and durable so far.
    pub fn verified_and_durable_bytes(&self) -> (u64, u64) {
        (self.counts.verified_bytes, self.counts.durable_bytes)
    }

    /// Outcomes kept because the sender has not said that it heard them.
    pub fn remembered(&self) -> usize {
        self.told.outcomes.len()
    }

    /// What the scan found, once the sender said it is over.
    pub fn scan_totals(&self) -> Option<&ScanTotals> {
        self.scan.as_ref()
    }

    /// Entries offered so far, and their content bytes: what the scan found is known only when it is over.
    pub fn offered(&self) -> (u64, u64) {
        (self.counts.offered.0, self.counts.offered.1.saturating_add(self.counts.unlinked_bytes))
    }

    /// Content bytes of hard links that come as files because they could not be made: what the scan found has none for
    /// a link.
    pub fn unlinked_bytes(&self) -> u64 {
        self.counts.unlinked_bytes
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
        self.outbox.take()
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
                let heard =
                    names.into_iter().try_for_each(|(id, path, outcome)| self.hear_aside(id, path, outcome));
                self.proceed(now);
                heard
            }
            Say::OffersRepeated => {
                let mut gone: Vec<EntryId> =
                    self.items.iter().filter(|(_, item)| item.unconfirmed).map(|(&id, _)| id).collect();
                gone.sort_unstable();
                for id in gone {
                    // Numbers ascend.
                    if self.repeat.held.binary_search(&id).is_ok() {
                        self.count_less(id);
                    }
                    self.hear_withdraw(id, None);
                }
                self.replacing.follows = false;
                self.repeat.is_on = false;
                let held = std::mem::take(&mut self.repeat.held);
                for &id in &held {
                    if self.replace_withdrawn(id) {
                        self.count_less(id);
                    }
                }
                self.free_withdrawn();
                held.into_iter().for_each(|id| self.look_again_at(id));
                self.proceed(now);
                Ok(())
            }
            Say::Heard(runs) => {
                for run in runs {
                    let (first, end) = (EntryId(run.first), EntryId(run.first + run.count));
                    let heard = self.told.outcomes.range(first..end);
                    let heard: Vec<EntryId> = heard.map(|(&id, _)| id).collect();
                    heard.into_iter().for_each(|id| drop(self.told.forget(id)));
                }
                Ok(())
            }
            Say::Abort(failure) => {
                self.fail(failure);
                Ok(())
            }
            _ => Err(protocol("the sender said what only a receiver says")),
        }
    }

    /// Whether the next action is to say something.
    pub fn has_to_say(&self) -> bool {
        self.outbox.has_to_say()
    }

    /// The link is lost: what was to be said to it is covered by what the next one is told.
    pub fn link_lost(&mut self) {
        self.outbox.unsay();
    }

    /// The link was lost and stands again; the sender will offer what is not settled.
    pub fn link_up(&mut self) {
        self.link_lost();
        self.outbox.forget_collected();
        for item in self.items.values_mut() {
            item.unconfirmed = true;
            item.asked = 0;
        }
        self.replacing.follows = false;
        self.repeat.is_on = true;
    }

    /// Answer to [`Action::Conclude`]. What is revised was told as unchanged, if so, else as done. `deleted` is of this
    /// end and those before it.
    pub fn concluded(
        &mut self,
        revised: Vec<(RelativePath, bool, Outcome)>,
        deleted: u64,
        deleted_names: Vec<RelativePath>,
        troubles: Vec<Failure>,
    ) {
        if self.end != End::Concluding {
            return;
        }
        // Those of an end before this one have been told.
        self.told_last.troubles.clear();
        let told: BTreeSet<&RelativePath> = self.told_last.deleted_names.iter().collect();
        let room = limits::DELETED_TOLD_MAX.saturating_sub(told.len());
        let more: Vec<RelativePath> =
            deleted_names.into_iter().filter(|name| !told.contains(name)).take(room).collect();
        self.outbox.actions.extend(more.iter().cloned().map(Action::Deleted));
        // A sender that lost the link may not have heard the others.
        self.told_last.deleted_names.extend(more);
        for (path, was_unchanged, outcome) in revised {
            let outcome = outcome.cut();
            let totals = &mut self.counts.totals;
            let counted = if was_unchanged { &mut totals.unchanged } else { &mut totals.done };
            *counted = counted.saturating_sub(1);
            self.counts.count(&outcome, 0);
            self.outbox.act(Action::Aside(None, path.clone(), outcome.clone()));
            self.told_last.troubles.push((path, outcome));
        }
        for failure in troubles {
            let path = failure.path.clone().unwrap_or_default();
            let outcome = Outcome::Failed(failure);
            self.counts.count(&outcome, 0);
            self.outbox.act(Action::Aside(None, path.clone(), outcome.clone()));
            self.told_last.troubles.push((path, outcome));
        }
        self.counts.totals.deleted = deleted;
        self.end = End::Finished;
        // To a sender that is still repeating its offers it is said when they are all answered.
        if !self.repeat.is_on {
            self.say_finished();
        }
        self.outbox.act(Action::Finished(self.counts.totals));
    }

    /// Ends the transfer and says so to the sender.
    pub fn abort(&mut self, failure: Failure) {
        if !self.is_over() {
            self.outbox.say(Say::Abort(failure.clone()));
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: Failure) {
        if !self.is_over() {
            self.end = End::Failed;
            self.rounds.current = None;
            self.outbox.act(Action::Failed(failure));
        }
    }

    /// The final word on an entry, which is durable if it is good.
    fn tell(&mut self, id: EntryId, outcome: Outcome) {
        let Some(item) = self.remove(id) else { return };
        // Both sides have the same in their receipts.
        let outcome = outcome.cut();
        self.note_unmoved(&item, &outcome);
        let replacement = (item.first != id).then(|| item.entry.clone());
        let withdrawn = self.replacing.withdrawn.get(&item.entry.path);
        let replacement_follows = withdrawn.is_some_and(|old| old.id == id);
        if self.replacing.replaced.get(&item.entry.path) == Some(&id) {
            self.replacing.replaced.remove(&item.entry.path);
            self.outbox.act(Action::Gone(id));
        } else {
            let bytes = item.entry.content_bytes();
            self.counts.count(&outcome, bytes);
            self.told.remember(id, outcome.clone(), bytes);
            self.outbox.settled.push((id, outcome.clone()));
            // To join to what is in its line.
            if let (Outcome::Done { digest: Some(_), .. }, Some(pieces)) = (&outcome, item.pieces) {
                self.outbox.act(Action::Pieces(item.entry.clone(), pieces));
            }
            self.outbox.act(Action::Settled(item.entry, outcome));
        }
        if !replacement_follows {
            self.free_waiting(id, replacement.as_deref());
        }
    }

    fn remove(&mut self, id: EntryId) -> Option<Item> {
        let item = self.items.remove(&id)?;
        if self.replacing.renumbered.get(&item.first) == Some(&id) {
            self.replacing.renumbered.remove(&item.first);
        }
        self.bounded.item_bytes -= item.entry.heap_bytes();
        self.bounded.gaps -= item.gaps;
        self.awaiting.remove(&id);
        match &item.state {
            State::Deciding => self.deciding -= 1,
            State::Large(large) => self.let_go_of_holes(large.tree.hole_runs()),
            _ => {}
        }
        Some(item)
    }

    fn say_finished(&mut self) {
        // Outcomes collected so far come before it.
        self.outbox.say_settled();
        let name_bytes = |name: &RelativePath| size_of::<RelativePath>() + name.as_bytes().len();
        let trouble_bytes = |(name, outcome): &(RelativePath, Outcome)| {
            name_bytes(name) + size_of::<Outcome>() + outcome.heap_bytes()
        };
        for troubles in batches(&self.told_last.troubles, SETTLED_MAX, trouble_bytes) {
            self.outbox.say(Say::Troubles(troubles.to_vec()));
        }
        for names in batches(&self.told_last.deleted_names, SETTLED_MAX, name_bytes) {
            self.outbox.say(Say::Deleted(names.to_vec()));
        }
        self.outbox.say(Say::Finished(self.counts.totals));
    }
}

impl Item {
    /// A file that is to come in a pack. Of a hard link nothing comes, it is offered again as a file.
    fn awaits_pack(&self) -> bool {
        matches!(self.state, State::Small) && matches!(self.entry.kind, Kind::File { .. })
    }
}

impl State {
    /// Nothing of it has a name yet.
    fn awaits_data(&self) -> bool {
        matches!(self, State::Deciding | State::Small | State::Staged(_) | State::Large(_))
    }
}

impl Large {
    fn new(entry: &Entry, chunk_bytes: u64, keeps_pieces: bool) -> Box<Self> {
        let mut tree = Tree::new(entry.evidence.size, chunk_bytes);
        if keeps_pieces && !matches!(entry.kind, Kind::File { marked: true, .. }) {
            tree.keep_pieces(PIECES_MAX);
        }
        Box::new(Large {
            tree,
            written: RunSet::new(),
            seal: None,
            writers: BTreeMap::new(),
            dropped: BTreeSet::new(),
            have: Vec::new(),
            comparison: None,
        })
    }

    /// Everything arrived, and the sender vouched for it.
    fn is_all_written(&self) -> bool {
        self.seal.is_some() && self.tree.present() + self.written.len() == self.tree.chunks()
    }

    /// A chunk that needs nothing more from the sender but its seal.
    fn has(&self, chunk: u64) -> bool {
        self.tree.contains(chunk)
            || self.written.contains(chunk)
            || self.comparison.as_ref().is_some_and(|comparison| comparison.is_same(chunk))
    }

    /// Content bytes, of a file of `size`, that need nothing more from the sender but its seal.
    fn bytes_here(&self, size: u64, chunk_bytes: u64) -> u64 {
        let same = self.comparison.as_ref().map_or(0, Comparison::same_chunks);
        let chunks = self.tree.present() + self.written.len() + same;
        let last = self.tree.chunks() - 1;
        let missing = chunk_bytes - digest::chunk_length(last, size, chunk_bytes);
        chunks.saturating_mul(chunk_bytes).saturating_sub(if self.has(last) { missing } else { 0 })
    }

    /// The file that stands there may still turn out to be the entry: nothing is written.
    fn is_undecided(&self) -> bool {
        self.comparison.as_ref().is_some_and(Comparison::is_undecided)
    }
}

/// Outcomes in one message: each may carry texts.
const SETTLED_MAX: usize = 256;

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "talk to the sender", what)
}
