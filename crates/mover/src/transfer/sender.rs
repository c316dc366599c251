//! The source side of a transfer.
//!
//! ```text
//!            offer()            Want::Whole, small      next_work()        Settled
//! (scanned) --------> Offered ----------------------> Small ------------------------> (gone)
//!                       |  |   Want::Whole, Missing, Compare                            ^
//!                       |  +--------------------------> Large: queue, in flight         |
//!                       |                                 | every chunk read            |
//!                       |                                 v                             |
//!                       |                               Checking: source unchanged?     |
//!                       |                                 | yes: Seal                   |
//!                       |  Want::Nothing                  v                             |
//!                       +-----------------------------> Waiting ------------------------+
//! ```
//!
//! A chunk repaired takes its entry back from Waiting to Large. A source that changed is withdrawn and
//! offered again under a new number, a bounded number of times. A stream that is lost gives its unverified
//! work back; a link that is lost gives back everything that is not settled.

use crate::failure::{Failure, FailureKind, Result};
use crate::transfer::runs::RunSet;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest::{self, PIECES_MAX, Pieces, Tree};
use thalweg_wire::message::{
    AckLevel, Outcome, Run, ScanTotals, Seal, Terms, Totals, TransferMessage as Say, Want,
};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath, limits};

/// Bounds and knobs of a sender.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Entries offered and not settled.
    pub entries: usize,
    /// Heap bytes of those entries.
    pub entry_bytes: usize,
    /// Files with chunks in flight at once (*concurrency*).
    pub concurrency: usize,
    /// Chunks and packs of one stream that are handed out and not verified (*depth*).
    pub depth: usize,
    /// Files up to this size travel whole, in packs. At most one segment.
    pub small_bytes: u64,
    /// Content bytes of one pack.
    pub pack_bytes: u64,
    /// Files in one pack.
    pub pack_files: usize,
    /// How often an entry whose source changed is offered again.
    pub retries: u32,
    /// How often one entry may be repaired.
    pub repairs: u32,
    /// An idle stream may take over what another has had unverified for this long.
    pub hedge_after: Duration,
}

impl Limits {
    /// Defaults for a segment of `segment_bytes`.
    pub fn for_segment(segment_bytes: u32) -> Self {
        Limits {
            entries: limits::ENTRIES_IN_FLIGHT_MAX,
            entry_bytes: limits::ENTRY_BYTES_IN_FLIGHT_MAX,
            concurrency: 256,
            // As many as the stream's window takes: a send waits when it is full.
            depth: usize::MAX,
            small_bytes: u64::from(segment_bytes),
            pack_bytes: u64::from(segment_bytes),
            pack_files: 512,
            retries: 3,
            repairs: 64,
            hedge_after: Duration::from_secs(3),
        }
    }

    /// What `terms` ask for, else the defaults.
    pub fn for_terms(terms: &Terms) -> Self {
        let defaults = Limits::for_segment(terms.segment_bytes);
        Limits {
            concurrency: terms.concurrency.map_or(defaults.concurrency, |files| files as usize),
            depth: terms.depth.map_or(defaults.depth, |tasks| tasks as usize),
            ..defaults
        }
    }
}

/// A piece of work for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Read and send one chunk.
    Chunk(Arc<Entry>, u64),
    /// Read one chunk and tell its digest.
    Compare(Arc<Entry>, u64),
    /// Read and send whole small files.
    Pack(Vec<Arc<Entry>>),
    /// Every chunk was read: look whether the source is still the same, tell [`Sender::checked`].
    Check(Arc<Entry>),
}

/// What a stream should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This.
    Work(Work),
    /// Nothing now. Ask again when the machine was told something, or at this time.
    Wait(Option<Duration>),
    /// Nothing, ever.
    Done,
}

/// What the machine wants done or known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Say this to the receiver.
    Say(Say),
    /// Digests of the parts of a file that is about to be settled as done; see [`Sender::keep_pieces`].
    Pieces(Arc<Entry>, Pieces),
    /// An entry came to its end.
    Settled(Arc<Entry>, Outcome),
    /// A name that was never offered (with its number), or one of the receiver's, came to its end.
    Aside(Option<EntryId>, RelativePath, Outcome),
    /// Everything is settled; the receiver's totals.
    Finished(Totals),
    /// The transfer failed as a whole.
    Failed(Failure),
}

/// What to do about a source that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Look at it again and [`Sender::offer_again`].
    LookAgain,
    /// It is given up, or is not known any more.
    No,
}

/// See the module.
pub struct Sender {
    terms: Terms,
    limits: Limits,
    items: BTreeMap<EntryId, Item>,
    item_bytes: usize,
    /// Numbered names without content: never offered, or withdrawn for good. Kept until told as settled.
    asides: BTreeMap<EntryId, (RelativePath, Outcome)>,
    /// Entries numbered and not yet offered.
    unsaid: Vec<Arc<Entry>>,
    next_id: u64,
    scan: Option<ScanTotals>,
    started: usize,
    small: VecDeque<EntryId>,
    large: VecDeque<EntryId>,
    checks: VecDeque<EntryId>,
    streams: BTreeMap<u16, Vec<Handed>>,
    /// Entries whose outcome is known: in few runs, for all but the unsettled are in it.
    heard: RunSet,
    /// Those of them that the receiver was not told about, over this link.
    unreported: RunSet,
    /// An entry was offered again: the receiver may have finished before it heard that.
    offered_late: bool,
    actions: VecDeque<Action>,
    end: End,
    progress: Progress,
    keeps_pieces: bool,
}

/// Counters, all growing; what the peer acknowledged among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries offered, repetitions not counted.
    pub entries_offered: u64,
    /// Content bytes of those.
    pub bytes_offered: u64,
    /// Entries settled.
    pub entries_settled: u64,
    /// Content bytes of entries settled.
    pub bytes_settled: u64,
    /// Content bytes handed to streams, repetitions counted.
    pub bytes_sent: u64,
    /// Content bytes acknowledged as verified or settled.
    pub bytes_verified: u64,
    /// Content bytes acknowledged as durable.
    pub bytes_durable: u64,
    /// Chunks and files that came damaged and were sent again.
    pub repairs: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Open,
    Finished,
    Failed,
}

struct Item {
    entry: Arc<Entry>,
    state: State,
    /// Of a small file: digest of what was read last.
    read: Option<Digest>,
    repairs: u32,
    /// Chunks that the receiver asked for after comparing them.
    differences: u64,
    retries: u32,
}

/// How often each chunk of a file may differ: as often as links are lost while it is compared.
const DIFFERENCES_MAX: u64 = 64;

enum State {
    Offered,
    Small,
    /// A small file that arrived whole.
    Arrived,
    Large(Box<Large>),
    Waiting,
}

struct Large {
    queue: RunSet,
    /// The receiver may have these: their digests are told before anything is sent.
    compare: RunSet,
    /// Acknowledged over this link: not to be sent again unless the receiver asks.
    verified: RunSet,
    /// Acknowledged as durable.
    durable: RunSet,
    tree: Tree,
    holds_slot: bool,
    being_read: u32,
    check: Check,
}

#[derive(PartialEq, Eq)]
enum Check {
    NotYet,
    Asked,
    Sealed,
    /// Sealed, and something must be read again: not before the receiver heard that the seal is void.
    Unsealing,
}

struct Handed {
    task: Task,
    at: Duration,
    sent: bool,
    hedged: bool,
    /// What the receiver found damaged before the stream was through with it: it is queued again, so it is not under
    /// way here.
    damaged: Vec<EntryId>,
}

/// What became of a task that a stream says it is through with.
#[derive(PartialEq, Eq)]
enum Known {
    Yes,
    /// It was taken from the stream meanwhile.
    No,
}

#[derive(Clone, PartialEq, Eq)]
enum Task {
    Chunk(EntryId, u64),
    Pack(Vec<EntryId>),
    Check(EntryId),
}

impl Sender {
    /// A sender with nothing to send yet.
    pub fn new(terms: Terms, limits: Limits) -> Self {
        Sender {
            terms,
            limits,
            items: BTreeMap::new(),
            item_bytes: 0,
            asides: BTreeMap::new(),
            unsaid: Vec::new(),
            next_id: 0,
            scan: None,
            started: 0,
            small: VecDeque::new(),
            large: VecDeque::new(),
            checks: VecDeque::new(),
            streams: BTreeMap::new(),
            heard: RunSet::new(),
            unreported: RunSet::new(),
            offered_late: false,
            actions: VecDeque::new(),
            end: End::Open,
            progress: Progress::default(),
            keeps_pieces: false,
        }
    }

    /// Tells the parts of large files, from now on. Call it before the first entry is offered.
    pub fn keep_pieces(&mut self) {
        self.keeps_pieces = true;
    }

    /// Counters so far.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// What the scan found, once it is over.
    pub fn scan_totals(&self) -> Option<&ScanTotals> {
        self.scan.as_ref()
    }

    /// Whether the end was reached, well or not.
    pub fn is_over(&self) -> bool {
        self.end != End::Open
    }

    /// Whether something waits for the receiver's word.
    pub fn awaits_peer(&self) -> bool {
        !self.is_over() && (self.scan.is_some() || !self.items.is_empty())
    }

    /// Next action, in order.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether the scan may hand over more entries. Ask again after something was settled.
    pub fn has_room(&self) -> bool {
        self.items.len() + self.asides.len() < self.limits.entries
            && self.item_bytes < self.limits.entry_bytes
    }

    /// Takes entries from the scan, numbers them (from the first number returned on) and offers them.
    pub fn offer(&mut self, entries: Vec<Entry>) -> EntryId {
        let first = EntryId(self.next_id);
        let mut offered = Vec::with_capacity(entries.len());
        for mut entry in entries {
            entry.id = EntryId(self.next_id);
            self.next_id += 1;
            self.progress.entries_offered += 1;
            self.progress.bytes_offered += entry.content_bytes();
            offered.push(self.insert(entry, 0));
        }
        self.say_offers(offered);
        first
    }

    /// Takes one entry from the scan and numbers it. It is offered with the next ones: see
    /// [`Sender::flush_offers`].
    pub fn offer_soon(&mut self, mut entry: Entry) -> EntryId {
        entry.id = EntryId(self.next_id);
        self.next_id += 1;
        self.progress.entries_offered += 1;
        self.progress.bytes_offered += entry.content_bytes();
        let entry = self.insert(entry, 0);
        let id = entry.id;
        self.unsaid.push(entry);
        if self.unsaid.len() >= limits::OFFER_ENTRIES_MAX / 4 {
            self.flush_offers();
        }
        id
    }

    /// Offers what [`Sender::offer_soon`] took.
    pub fn flush_offers(&mut self) {
        let entries = std::mem::take(&mut self.unsaid);
        self.say_offers(entries);
    }

    /// The number that the next entry will get.
    pub fn next_id(&self) -> EntryId {
        EntryId(self.next_id)
    }

    /// The scan is over.
    pub fn scan_ended(&mut self, totals: ScanTotals) {
        self.flush_offers();
        self.say(Say::OfferEnd(totals.clone()));
        self.scan = Some(totals);
    }

    /// A name that the scan saw and does not offer.
    pub fn aside(&mut self, path: RelativePath, outcome: Outcome) {
        self.flush_offers();
        let id = EntryId(self.next_id);
        self.next_id += 1;
        self.actions.push_back(Action::Aside(Some(id), path.clone(), outcome.clone()));
        self.say(Say::Aside(vec![(id, path.clone(), outcome.clone())]));
        self.asides.insert(id, (path, outcome));
    }

    /// A link stands, with no stream yet: everything that is not settled is offered (again).
    pub fn link_up(&mut self) {
        self.unsaid.clear();
        let entries: Vec<Arc<Entry>> = self
            .items
            .values_mut()
            .map(|item| {
                item.state = match std::mem::replace(&mut item.state, State::Offered) {
                    // The digests of what was read stay valid: they are of the source.
                    State::Large(mut large) => {
                        large.queue = RunSet::new();
                        large.compare = RunSet::new();
                        large.verified = RunSet::new();
                        if std::mem::take(&mut large.holds_slot) {
                            self.started -= 1;
                        }
                        large.check = Check::NotYet;
                        large.being_read = 0;
                        State::Large(large)
                    }
                    _ => State::Offered,
                };
                item.entry.clone()
            })
            .collect();
        self.small.clear();
        self.large.clear();
        self.checks.clear();
        self.streams.clear();
        // What was to be said to the old link is covered by what is said now.
        self.actions.retain(|action| !matches!(action, Action::Say(_)));
        let heard = self.heard.clone();
        self.say_heard(&heard);
        self.unreported = RunSet::new();
        // In the order of numbers, as they were offered first.
        let mut entries = entries.into_iter().peekable();
        for (id, (path, outcome)) in self.asides.clone() {
            let before = std::iter::from_fn(|| entries.next_if(|entry| entry.id < id)).collect();
            self.say_offers(before);
            self.say(Say::Aside(vec![(id, path, outcome)]));
        }
        self.say_offers(entries.collect());
        self.say(Say::OffersRepeated);
        if let Some(totals) = self.scan.clone() {
            self.say(Say::OfferEnd(totals));
        }
    }

    /// A stream is ready for work.
    pub fn stream_up(&mut self, stream: u16) {
        self.streams.entry(stream).or_default();
    }

    /// A stream broke: what it had, and the receiver has not verified, goes back.
    pub fn stream_lost(&mut self, stream: u16) {
        for handed in self.streams.remove(&stream).unwrap_or_default() {
            self.give_back(handed);
        }
    }

    /// What `stream` should do now.
    pub fn next_work(&mut self, stream: u16, now: Duration) -> Next {
        if self.is_over() {
            return Next::Done;
        }
        if !self.streams.contains_key(&stream) {
            return Next::Wait(None);
        }
        self.flush_offers();
        // Even streams look for packs first, odd ones for chunks: many small files do not starve a large
        // one, nor the other way round.
        let packs_first = stream.is_multiple_of(2);
        let is_full = self.is_full(stream);
        let task = self.take_check().or_else(|| match (is_full, packs_first) {
            (true, _) => None,
            (false, true) => self.take_pack().or_else(|| self.take_chunk()),
            (false, false) => self.take_chunk().or_else(|| self.take_pack()),
        });
        if is_full && task.is_none() {
            // An acknowledgement makes room, and wakes the stream.
            return Next::Wait(None);
        }
        let is_hedge = task.is_none();
        let hedge = if is_hedge { self.take_hedge(stream, now) } else { Hedge::None };
        let task = match (task, hedge) {
            (Some(task), _) | (None, Hedge::Task(task)) => task,
            (None, Hedge::At(time)) => return Next::Wait(Some(time)),
            (None, Hedge::None) => return Next::Wait(None),
        };
        let Some(work) = self.work_of(&task) else { return Next::Wait(Some(now)) };
        let task = match &work {
            Work::Pack(entries) => Task::Pack(entries.iter().map(|entry| entry.id).collect()),
            _ => task,
        };
        if let Some(handed) = self.streams.get_mut(&stream) {
            // A copy is not copied again: with chunks slower than `hedge_after` all streams would send one.
            handed.push(Handed { task, at: now, sent: false, hedged: is_hedge, damaged: Vec::new() });
        }
        Next::Work(work)
    }

    /// A chunk went out on `stream`, with the digest of what was read.
    pub fn chunk_sent(&mut self, stream: u16, entry: EntryId, chunk: u64, digest: Digest) {
        if let Some(item) = self.items.get(&entry) {
            let bytes = digest::chunk_length(chunk, item.entry.evidence.size, self.terms.chunk_bytes);
            self.progress.bytes_sent += bytes;
        }
        self.chunk_told(stream, entry, chunk, digest);
    }

    /// The digest of a chunk went out on `stream`, alone.
    pub fn chunk_told(&mut self, stream: u16, entry: EntryId, chunk: u64, digest: Digest) {
        let known = self.mark_sent(stream, &Task::Chunk(entry, chunk));
        let Some(item) = self.items.get_mut(&entry) else { return };
        let State::Large(large) = &mut item.state else { return };
        if known == Known::Yes {
            large.being_read = large.being_read.saturating_sub(1);
        }
        large.tree.insert(chunk, digest);
        self.ask_check(entry);
    }

    /// The chunks of `run` were found to be holes (and were not sent). Chunk by chunk, they may have been
    /// handed out or queued.
    pub fn chunks_are_holes(&mut self, stream: u16, entry: EntryId, chunk: u64, run: Run) {
        let known = self.forget(stream, &Task::Chunk(entry, chunk));
        let mark = digest::hole_chunk_mark(self.terms.chunk_bytes, u64::from(self.terms.segment_bytes));
        let Some(item) = self.items.get_mut(&entry) else { return };
        let State::Large(large) = &mut item.state else { return };
        if known == Known::Yes {
            large.being_read = large.being_read.saturating_sub(1);
        }
        large.queue.remove(run.first, run.first + run.count);
        large.tree.insert_marked_holes(run.first, run.count, mark);
        self.say(Say::Holes(vec![(entry, run)]));
        self.ask_check(entry);
    }

    /// Small files were read, and are about to go out.
    pub fn small_read(&mut self, files: impl Iterator<Item = (EntryId, Digest)>) {
        for (id, digest) in files {
            if let Some(item) = self.items.get_mut(&id) {
                item.read = Some(digest);
            }
        }
    }

    /// A pack went out on `stream` with these entries, of these sizes.
    pub fn pack_sent(&mut self, stream: u16, asked: &[EntryId], sent: &[EntryId]) {
        let task = Task::Pack(asked.to_vec());
        let handed = self.streams.get_mut(&stream).and_then(|handed| {
            let at = handed.iter().position(|handed| !handed.sent && handed.task == task)?;
            Some(handed.swap_remove(at))
        });
        let (hedged, damaged) = handed.map_or((false, Vec::new()), |handed| (handed.hedged, handed.damaged));
        let bytes: u64 =
            sent.iter().filter_map(|id| self.items.get(id)).map(|item| item.entry.content_bytes()).sum();
        self.progress.bytes_sent += bytes;
        // Some may have arrived, or even be settled, by now.
        let is_under_way = |id: &EntryId| self.is_small(*id) && !damaged.contains(id);
        let under_way: Vec<EntryId> = sent.iter().copied().filter(is_under_way).collect();
        if let Some(handed) = self.streams.get_mut(&stream).filter(|_| !under_way.is_empty()) {
            // Age counts from the next look for idle work; the machine has no later time here.
            handed.push(Handed {
                task: Task::Pack(under_way),
                at: Duration::MAX,
                sent: true,
                hedged,
                damaged: Vec::new(),
            });
        }
    }

    /// Answer to [`Work::Check`]: what the source shows after the last read.
    pub fn checked(&mut self, stream: u16, entry: EntryId, evidence: Evidence) -> Retry {
        if self.items.get(&entry).is_some_and(|item| item.entry.evidence != evidence) {
            // The stream keeps the task until it offers again: if it is lost before, another checks.
            return self.changed(entry);
        }
        self.forget(stream, &Task::Check(entry));
        let Some(item) = self.items.get_mut(&entry) else { return Retry::No };
        let State::Large(large) = &mut item.state else { return Retry::No };
        if large.check != Check::Asked {
            return Retry::No;
        }
        let Some(digest) = large.tree.root() else { return Retry::No };
        large.check = Check::Sealed;
        if std::mem::take(&mut large.holds_slot) {
            self.started -= 1;
        }
        self.say(Say::Seal(vec![(entry, Seal { evidence, digest })]));
        Retry::No
    }

    /// What the chunks read so far join to, where all were.
    pub fn digest_read(&self, entry: EntryId) -> Option<Digest> {
        match &self.items.get(&entry)?.state {
            State::Large(large) => large.tree.root(),
            _ => None,
        }
    }

    /// The source of an entry is not what was offered.
    pub fn changed(&mut self, entry: EntryId) -> Retry {
        let Some(item) = self.items.get(&entry) else { return Retry::No };
        if item.retries < self.limits.retries {
            return Retry::LookAgain;
        }
        let tries = item.retries + 1;
        let cause = format!("the source changed while it was read, {tries} times in a row");
        self.failed(entry, Failure::new(FailureKind::Changed, "read", cause));
        Retry::No
    }

    /// The same path as it is now, after [`Retry::LookAgain`]: withdraws the old entry, offers the new.
    pub fn offer_again(&mut self, old: EntryId, now: Result<Entry>) {
        let Some(item) = self.items.get(&old) else { return };
        let retries = item.retries + 1;
        match now {
            Err(failure) => self.failed(old, failure),
            Ok(mut entry) => {
                self.flush_offers();
                self.remove(old);
                entry.id = EntryId(self.next_id);
                self.next_id += 1;
                let entry = self.insert(entry, retries);
                self.offered_late = true;
                // Nothing more will be told of the old number.
                self.heard.insert(old.0, old.0 + 1);
                // In this order, and with nothing between: the receiver counts on it.
                self.say(Say::Withdraw(vec![(old, None)]));
                self.say_offers(vec![entry]);
            }
        }
    }

    /// An entry cannot be had.
    pub fn failed(&mut self, entry: EntryId, failure: Failure) {
        let Some(item) = self.remove(entry) else { return };
        let failure = failure.at(&item.entry.path);
        self.say(Say::Withdraw(vec![(entry, Some(failure.clone()))]));
        let outcome = Outcome::Failed(failure);
        self.asides.insert(entry, (item.entry.path.clone(), outcome.clone()));
        self.settle_item(item, outcome);
    }

    /// The receiver's word.
    ///
    /// # Errors
    /// `Protocol` for what no correct receiver says; the transfer is over then.
    pub fn hear(&mut self, say: Say) -> Result<()> {
        if self.is_over() {
            return Ok(());
        }
        match say {
            Say::Want(wants) => wants.into_iter().try_for_each(|(entry, want)| self.hear_want(entry, want)),
            Say::Have { entry, first, digests } => self.hear_have(entry, first, &digests),
            Say::Ack(level, runs) => {
                runs.into_iter().try_for_each(|(entry, run)| self.hear_ack(level, entry, run))
            }
            Say::Repair(runs) => runs.into_iter().try_for_each(|(entry, run)| self.hear_repair(entry, run)),
            Say::Differs(runs) => runs.into_iter().try_for_each(|(entry, run)| self.hear_differs(entry, run)),
            Say::Settled(outcomes) => {
                for (entry, outcome) in outcomes {
                    self.hear_settled(entry, outcome);
                }
                Ok(())
            }
            Say::Troubles(names) => {
                self.actions
                    .extend(names.into_iter().map(|(path, outcome)| Action::Aside(None, path, outcome)));
                Ok(())
            }
            Say::Finished(_) if self.offered_late && !self.items.is_empty() => Ok(()),
            Say::Finished(totals) => {
                if !self.items.is_empty() || !self.asides.is_empty() || self.scan.is_none() {
                    return Err(protocol("the receiver finished before everything was settled"));
                }
                self.end = End::Finished;
                self.actions.push_back(Action::Finished(totals));
                Ok(())
            }
            Say::Abort(failure) => {
                self.end = End::Failed;
                self.actions.push_back(Action::Failed(failure));
                Ok(())
            }
            _ => Err(protocol("the receiver said what only a sender says")),
        }
    }

    fn hear_want(&mut self, id: EntryId, want: Want) -> Result<()> {
        let small_bytes = self.limits.small_bytes;
        // Withdrawn meanwhile: the answer crossed the withdrawal.
        let Some(item) = self.known(id)? else { return Ok(()) };
        let (Kind::File { sparse, .. }, size) = (&item.entry.kind, item.entry.evidence.size) else {
            item.state = State::Waiting;
            return if want == Want::Nothing {
                Ok(())
            } else {
                Err(protocol("content wanted of what has none"))
            };
        };
        let sparse = *sparse;
        let is_large = match &item.state {
            State::Large(_) => true,
            State::Offered => false,
            State::Small | State::Arrived | State::Waiting => return Err(protocol("an entry wanted twice")),
        };
        match want {
            Want::Nothing => match &mut item.state {
                // Complete there; the seal that it was completed with stands.
                State::Large(large) => large.check = Check::Sealed,
                state => *state = State::Waiting,
            },
            Want::Whole if !is_large && !sparse && size <= small_bytes => {
                item.state = State::Small;
                self.small.push_back(id);
            }
            Want::Whole => {
                let runs = [Run { first: 0, count: digest::chunk_count(size, self.terms.chunk_bytes) }];
                self.begin_large(id, &runs)?;
            }
            Want::Missing(runs) => self.begin_large(id, &runs)?,
            Want::Compare(runs) => {
                self.begin_large(id, &runs)?;
                if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) {
                    runs.iter().for_each(|run| large.compare.insert(run.first, run.first + run.count));
                }
            }
        }
        Ok(())
    }

    fn begin_large(&mut self, id: EntryId, wanted: &[Run]) -> Result<()> {
        let (chunk_bytes, keeps_pieces) = (self.terms.chunk_bytes, self.keeps_pieces);
        let Some(item) = self.items.get_mut(&id) else { return Ok(()) };
        let large = large_of(item, chunk_bytes, keeps_pieces);
        // Who wants something of it holds no seal.
        if matches!(large.check, Check::Sealed | Check::Unsealing) {
            large.check = Check::NotYet;
        }
        for run in wanted {
            if run.first.checked_add(run.count).is_none_or(|end| end > large.tree.chunks()) {
                return Err(protocol("a chunk wanted beyond the end of its file"));
            }
            large.queue.insert(run.first, run.first + run.count);
            large.compare.remove(run.first, run.first + run.count);
            large.verified.remove(run.first, run.first + run.count);
        }
        // What the receiver has and we have no digest of (the link broke before the stream could tell us) is
        // read again; that it is sent again too costs at most a chunk per stream.
        large.tree.missing().into_iter().for_each(|(first, end)| large.queue.insert(first, end));
        if large.queue.is_empty() {
            self.ask_check(id);
        } else {
            self.large.push_back(id);
        }
        Ok(())
    }

    fn hear_have(&mut self, id: EntryId, first: u64, digests: &[Digest]) -> Result<()> {
        let (chunk_bytes, keeps_pieces) = (self.terms.chunk_bytes, self.keeps_pieces);
        let Some(item) = self.known(id)? else { return Ok(()) };
        if !matches!(item.state, State::Offered | State::Large(_))
            || !matches!(item.entry.kind, Kind::File { .. })
        {
            return Err(protocol("digests of an entry that was not offered"));
        }
        let size = item.entry.evidence.size;
        let large = large_of(item, chunk_bytes, keeps_pieces);
        if first.checked_add(digests.len() as u64).is_none_or(|end| end > large.tree.chunks()) {
            return Err(protocol("a digest beyond the end of its file"));
        }
        let mut bytes = 0;
        for (chunk, digest) in (first..).zip(digests) {
            if large.tree.insert(chunk, *digest) {
                bytes += digest::chunk_length(chunk, size, chunk_bytes);
            }
        }
        self.progress.bytes_verified += bytes;
        self.progress.bytes_durable += bytes;
        Ok(())
    }

    fn hear_ack(&mut self, level: AckLevel, id: EntryId, run: Run) -> Result<()> {
        let chunk_bytes = self.terms.chunk_bytes;
        let Some(item) = self.known(id)? else { return Ok(()) };
        let size = item.entry.evidence.size;
        let end = run.first + run.count;
        if end > digest::chunk_count(size, chunk_bytes) {
            return Err(protocol("an acknowledgement beyond the end of its file"));
        }
        match (&mut item.state, level) {
            (State::Large(large), AckLevel::Durable) => {
                // Once each: who says the same again makes no progress by it.
                let before = large.durable.len();
                large.durable.insert(run.first, end);
                let new = large.durable.len() - before;
                let short =
                    if end == large.tree.chunks() { large.tree.chunks() * chunk_bytes - size } else { 0 };
                self.progress.bytes_durable += (new * chunk_bytes).saturating_sub(short);
            }
            (State::Large(large), AckLevel::Verified) => {
                let before = large.verified.len();
                large.verified.insert(run.first, end);
                if run.count == 1 && large.tree.contains(run.first) {
                    large.queue.remove(run.first, end);
                }
                // All chunks but the last of a file are of one length.
                let new = large.verified.len() - before;
                let short =
                    if end == large.tree.chunks() { large.tree.chunks() * chunk_bytes - size } else { 0 };
                self.progress.bytes_verified += (new * chunk_bytes).saturating_sub(short);
                self.drop_handed(id, run);
                self.ask_check(id);
            }
            (state @ State::Small, AckLevel::Verified) => {
                *state = State::Arrived;
                self.progress.bytes_verified += size;
                self.drop_small(id);
            }
            (_, AckLevel::Verified | AckLevel::Durable) => {}
        }
        Ok(())
    }

    fn hear_repair(&mut self, id: EntryId, run: Run) -> Result<()> {
        let chunk_bytes = self.terms.chunk_bytes;
        let repairs_max = self.limits.repairs;
        let small_bytes = self.limits.small_bytes;
        let Some(item) = self.known(id)? else { return Ok(()) };
        item.repairs = item.repairs.saturating_add(1);
        let chunks = digest::chunk_count(item.entry.evidence.size, chunk_bytes);
        if run.first.checked_add(run.count).is_none_or(|end| end > chunks) {
            return Err(protocol("a repair beyond the end of its file"));
        }
        if item.repairs > repairs_max {
            let cause =
                format!("still damaged after {repairs_max} repairs: suspect memory, network card or disk");
            let failure = Failure::new(FailureKind::Damage, "verify", cause).in_range(
                run.first * chunk_bytes,
                ((run.first + run.count) * chunk_bytes).min(item.entry.evidence.size),
            );
            self.failed(id, failure);
            return Ok(());
        }
        let is_small_file = matches!(item.entry.kind, Kind::File { sparse: false, .. })
            && item.entry.evidence.size <= small_bytes;
        match &mut item.state {
            State::Small => {}
            // It had arrived, over this link or the one before, and was found damaged later.
            state @ (State::Arrived | State::Waiting) if is_small_file => *state = State::Small,
            State::Large(_) => {
                self.progress.repairs += run.count;
                self.send_whole(id, run);
                return Ok(());
            }
            _ => return Err(protocol("a repair of what was not sent")),
        }
        self.progress.repairs += run.count;
        self.drop_handed(id, run);
        self.note_damaged(id, run);
        // What came damaged is not under way any more.
        self.drop_small(id);
        self.small.push_back(id);
        Ok(())
    }

    fn hear_differs(&mut self, id: EntryId, run: Run) -> Result<()> {
        let chunk_bytes = self.terms.chunk_bytes;
        let Some(item) = self.known(id)? else { return Ok(()) };
        if !matches!(item.state, State::Large(_)) {
            return Err(protocol("a difference in what was not compared"));
        }
        let chunks = digest::chunk_count(item.entry.evidence.size, chunk_bytes);
        if run.first + run.count > chunks {
            return Err(protocol("a difference beyond the end of its file"));
        }
        // Once for each chunk and link, usually.
        item.differences = item.differences.saturating_add(run.count);
        if item.differences > chunks.saturating_mul(DIFFERENCES_MAX) {
            return Err(protocol("differences without end"));
        }
        self.send_whole(id, run);
        Ok(())
    }

    /// These chunks must go out, as a whole, whatever was said of them before.
    fn send_whole(&mut self, id: EntryId, run: Run) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        let end = run.first + run.count;
        large.compare.remove(run.first, end);
        large.verified.remove(run.first, end);
        large.queue.insert(run.first, end);
        if large.check != Check::Unsealing {
            large.check = Check::NotYet;
        }
        self.drop_handed(id, run);
        self.note_damaged(id, run);
        self.large.push_back(id);
    }

    fn hear_settled(&mut self, id: EntryId, outcome: Outcome) {
        self.asides.remove(&id);
        if let Some(item) = self.remove(id) {
            let outcome = self.checked_outcome(&item, outcome);
            self.settle_item(item, outcome);
        }
        if id.0 < self.next_id {
            self.heard.insert(id.0, id.0 + 1);
            self.unreported.insert(id.0, id.0 + 1);
        }
        if self.unreported.len() >= HEARD_AT_ONCE {
            let unreported = std::mem::take(&mut self.unreported);
            self.say_heard(&unreported);
        }
    }

    fn say_heard(&mut self, entries: &RunSet) {
        let runs: Vec<Run> = entries.iter().map(|(first, end)| Run { first, count: end - first }).collect();
        for runs in runs.chunks(limits::MESSAGE_ITEMS_MAX) {
            self.say(Say::Heard(runs.to_vec()));
        }
    }

    /// A receiver's word that a file is done counts only if it wrote what was read here. Of a file that was not read it
    /// may be true: the content was there already, and only metadata could not be kept.
    fn checked_outcome(&self, item: &Item, outcome: Outcome) -> Outcome {
        let (Outcome::Done { digest: theirs, .. } | Outcome::Unchanged { digest: theirs }) = &outcome else {
            return outcome;
        };
        let ours = match &item.state {
            State::Large(large) => large.tree.root(),
            _ => item.read,
        };
        let cause = match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours == *theirs => return outcome,
            (Some(ours), Some(theirs)) => {
                format!("{ours} was read at the source, {theirs} stands at the destination")
            }
            // Nothing was written.
            (Some(_), None) if self.terms.dry_run || matches!(outcome, Outcome::Unchanged { .. }) => {
                return outcome;
            }
            (Some(_), None) => "the receiver does not say what it has written".to_owned(),
            (None, _) => return outcome,
        };
        Outcome::Failed(Failure::new(FailureKind::Damage, "verify", cause).at(&item.entry.path))
    }

    fn settle_item(&mut self, item: Item, outcome: Outcome) {
        let bytes = item.entry.content_bytes();
        self.progress.entries_settled += 1;
        self.progress.bytes_settled += bytes;
        if matches!(item.state, State::Small) {
            self.progress.bytes_verified += bytes;
        }
        if matches!(item.state, State::Small | State::Arrived) {
            self.progress.bytes_durable += bytes;
        }
        if let (Outcome::Done { .. }, State::Large(large)) = (&outcome, &item.state)
            && let Some(pieces) = large.tree.pieces(self.terms.chunk_bytes)
        {
            self.actions.push_back(Action::Pieces(item.entry.clone(), pieces));
        }
        self.actions.push_back(Action::Settled(item.entry, outcome));
    }

    /// The item, `None` if it was settled or withdrawn, an error if it never was.
    fn known(&mut self, id: EntryId) -> Result<Option<&mut Item>> {
        if id.0 >= self.next_id {
            return Err(protocol("an entry that was never offered"));
        }
        Ok(self.items.get_mut(&id))
    }

    fn insert(&mut self, entry: Entry, retries: u32) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.item_bytes += entry.heap_bytes();
        self.items.insert(
            entry.id,
            Item {
                entry: entry.clone(),
                state: State::Offered,
                read: None,
                repairs: 0,
                differences: 0,
                retries,
            },
        );
        entry
    }

    fn remove(&mut self, id: EntryId) -> Option<Item> {
        let item = self.items.remove(&id)?;
        self.item_bytes -= item.entry.heap_bytes();
        if let State::Large(large) = &item.state
            && large.holds_slot
        {
            self.started -= 1;
        }
        self.drop_small(id);
        for handed in self.streams.values_mut() {
            handed.retain(|handed| match &handed.task {
                Task::Pack(_) => true,
                Task::Chunk(entry, _) | Task::Check(entry) => *entry != id,
            });
        }
        Some(item)
    }

    /// Takes a small file out of the packs that are under way.
    fn drop_small(&mut self, id: EntryId) {
        for handed in self.streams.values_mut() {
            handed.retain_mut(|handed| match &mut handed.task {
                Task::Pack(ids) if handed.sent => {
                    ids.retain(|&other| other != id);
                    !ids.is_empty()
                }
                _ => true,
            });
        }
    }

    fn is_small(&self, id: EntryId) -> bool {
        self.items.get(&id).is_some_and(|item| matches!(item.state, State::Small))
    }

    fn say(&mut self, say: Say) {
        self.actions.push_back(Action::Say(say));
    }

    fn say_offers(&mut self, entries: Vec<Arc<Entry>>) {
        let mut batch: Vec<Entry> = Vec::new();
        let mut bytes = 0;
        for entry in entries {
            let entry_bytes = entry.heap_bytes() + 160;
            if batch.len() >= limits::OFFER_ENTRIES_MAX / 2 || bytes + entry_bytes > OFFER_BYTES {
                self.say(Say::Offer(std::mem::take(&mut batch)));
                bytes = 0;
            }
            bytes += entry_bytes;
            batch.push(Entry::clone(&entry));
        }
        if !batch.is_empty() {
            self.say(Say::Offer(batch));
        }
    }

    /// Whether a stream has as much under way as it may.
    fn is_full(&self, stream: u16) -> bool {
        let is_data = |handed: &&Handed| !matches!(handed.task, Task::Check(_));
        self.streams.get(&stream).is_some_and(|handed| {
            handed.len() >= self.limits.depth && handed.iter().filter(is_data).count() >= self.limits.depth
        })
    }

    fn take_check(&mut self) -> Option<Task> {
        while let Some(id) = self.checks.pop_front() {
            if self.items.contains_key(&id) {
                return Some(Task::Check(id));
            }
        }
        None
    }

    fn take_pack(&mut self) -> Option<Task> {
        // With several streams a short queue is shared out rather than packed into one.
        let fair = self.small.len().div_ceil(self.streams.len().max(1)).max(16);
        let files_max = self.limits.pack_files.min(fair);
        let mut ids = Vec::new();
        let mut bytes = 0;
        while let Some(&id) = self.small.front() {
            let Some(item) = self.items.get(&id).filter(|item| matches!(item.state, State::Small)) else {
                self.small.pop_front();
                continue;
            };
            let size = item.entry.evidence.size;
            if ids.len() >= files_max || (!ids.is_empty() && bytes + size > self.limits.pack_bytes) {
                break;
            }
            bytes += size;
            ids.push(id);
            self.small.pop_front();
        }
        (!ids.is_empty()).then_some(Task::Pack(ids))
    }

    fn take_chunk(&mut self) -> Option<Task> {
        for _ in 0..self.large.len() {
            let &id = self.large.front()?;
            let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else {
                self.large.pop_front();
                continue;
            };
            if !large.holds_slot {
                if self.started >= self.limits.concurrency {
                    self.large.rotate_left(1);
                    continue;
                }
                large.holds_slot = true;
                self.started += 1;
            }
            let Some(chunk) = large.queue.pop_first() else {
                self.large.pop_front();
                continue;
            };
            large.being_read += 1;
            if large.queue.is_empty() {
                self.large.pop_front();
            }
            return Some(Task::Chunk(id, chunk));
        }
        None
    }

    /// Work that another stream sent long ago and the receiver has not verified: once, to a stream that
    /// has nothing else to do.
    fn take_hedge(&mut self, stream: u16, now: Duration) -> Hedge {
        let after = self.limits.hedge_after;
        let mut soonest: Option<Duration> = None;
        let mut sealed = None;
        'streams: for (&other, handed) in &mut self.streams {
            if other == stream {
                continue;
            }
            for handed in handed.iter_mut().filter(|handed| !handed.hedged) {
                if handed.at == Duration::MAX {
                    handed.at = now;
                }
                let is_pointless = match handed.task {
                    Task::Check(_) => true,
                    Task::Pack(_) => false,
                    Task::Chunk(id, chunk) => match self.items.get(&id).map(|item| &item.state) {
                        Some(State::Large(large)) => large.verified.contains(chunk),
                        _ => true,
                    },
                };
                if is_pointless {
                    continue;
                }
                let due = handed.at + after;
                if due <= now {
                    handed.hedged = true;
                    if let Task::Chunk(id, _) = handed.task
                        && let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
                    {
                        if matches!(large.check, Check::Sealed | Check::Unsealing) {
                            sealed = Some(id);
                            break 'streams;
                        }
                        if large.check == Check::Asked {
                            // It will be asked for again after this read.
                            large.check = Check::NotYet;
                        }
                        large.being_read += 1;
                    }
                    return Hedge::Task(handed.task.clone());
                }
                soonest = Some(soonest.map_or(due, |soonest| soonest.min(due)));
            }
        }
        if let Some(id) = sealed {
            self.unseal(id);
            return Hedge::At(now);
        }
        soonest.map_or(Hedge::None, Hedge::At)
    }

    /// A sealed entry's bytes are on a stream that may never deliver them. Nothing of it may be read again
    /// while the seal stands: the source may be another by now, and the receiver could name a mixture. So it
    /// is offered again; the receiver drops the seal and answers by what it lacks.
    fn unseal(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), entry, .. }) = self.items.get_mut(&id) else { return };
        if large.check == Check::Sealed {
            large.check = Check::Unsealing;
            let entry = entry.clone();
            self.say_offers(vec![entry]);
        }
    }

    fn work_of(&self, task: &Task) -> Option<Work> {
        let entry = |id: &EntryId| self.items.get(id).map(|item| item.entry.clone());
        match task {
            Task::Chunk(id, chunk) => {
                let item = self.items.get(id)?;
                let work = match &item.state {
                    State::Large(large) if large.compare.contains(*chunk) => Work::Compare,
                    _ => Work::Chunk,
                };
                Some(work(item.entry.clone(), *chunk))
            }
            Task::Check(id) => Some(Work::Check(entry(id)?)),
            Task::Pack(ids) => {
                let entries: Vec<_> = ids.iter().filter_map(entry).collect();
                (!entries.is_empty()).then_some(Work::Pack(entries))
            }
        }
    }

    fn ask_check(&mut self, id: EntryId) {
        let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
        if large.queue.is_empty()
            && large.being_read == 0
            && large.tree.is_complete()
            && large.check == Check::NotYet
        {
            large.check = Check::Asked;
            self.checks.push_back(id);
        }
    }

    fn give_back(&mut self, handed: Handed) {
        match handed.task {
            Task::Check(id) => {
                if let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id)
                    && large.check == Check::Asked
                {
                    large.check = Check::NotYet;
                }
                self.ask_check(id);
            }
            Task::Chunk(id, chunk) => {
                let Some(Item { state: State::Large(large), .. }) = self.items.get_mut(&id) else { return };
                if !handed.sent {
                    large.being_read = large.being_read.saturating_sub(1);
                }
                if large.verified.contains(chunk) && large.tree.contains(chunk) {
                    self.ask_check(id);
                } else if matches!(large.check, Check::Sealed | Check::Unsealing) {
                    self.unseal(id);
                } else {
                    large.queue.insert(chunk, chunk + 1);
                    large.check = Check::NotYet;
                    self.large.push_back(id);
                }
            }
            Task::Pack(ids) => {
                for id in ids {
                    if self.is_small(id) {
                        self.small.push_back(id);
                    }
                }
            }
        }
    }

    fn mark_sent(&mut self, stream: u16, task: &Task) -> Known {
        let is_verified = match *task {
            Task::Chunk(id, chunk) => match self.items.get(&id).map(|item| &item.state) {
                Some(State::Large(large)) => large.verified.contains(chunk),
                _ => true,
            },
            _ => false,
        };
        let Some(handed) = self.streams.get_mut(&stream) else { return Known::No };
        let Some(at) = handed.iter().position(|handed| !handed.sent && handed.task == *task) else {
            return Known::No;
        };
        handed[at].sent = true;
        if is_verified || !handed[at].damaged.is_empty() {
            handed.swap_remove(at);
        }
        Known::Yes
    }

    fn forget(&mut self, stream: u16, task: &Task) -> Known {
        let Some(handed) = self.streams.get_mut(&stream) else { return Known::No };
        let Some(at) = handed.iter().position(|handed| !handed.sent && handed.task == *task) else {
            return Known::No;
        };
        handed.swap_remove(at);
        Known::Yes
    }

    /// What streams are not through with cannot be taken from them; they drop it when they are.
    fn note_damaged(&mut self, id: EntryId, run: Run) {
        for handed in self.streams.values_mut().flatten().filter(|handed| !handed.sent) {
            let is_damaged = match &handed.task {
                Task::Pack(ids) => ids.contains(&id),
                Task::Chunk(entry, chunk) => {
                    *entry == id && (run.first..run.first + run.count).contains(chunk)
                }
                Task::Check(_) => false,
            };
            if is_damaged {
                handed.damaged.push(id);
            }
        }
    }

    fn drop_handed(&mut self, id: EntryId, run: Run) {
        for handed in self.streams.values_mut() {
            handed.retain(|handed| !matches!(handed.task,
                Task::Chunk(entry, chunk) if handed.sent && entry == id && chunk >= run.first && chunk - run.first < run.count));
        }
    }
}

/// Outcomes after which the receiver hears that they were heard.
const HEARD_AT_ONCE: u64 = 1024;

/// Bytes of one offer: small enough that the first arrives soon.
const OFFER_BYTES: usize = 128 << 10;

enum Hedge {
    None,
    Task(Task),
    At(Duration),
}

fn large_of(item: &mut Item, chunk_bytes: u64, keeps_pieces: bool) -> &mut Large {
    if !matches!(item.state, State::Large(_)) {
        let mut tree = Tree::new(item.entry.evidence.size, chunk_bytes);
        if keeps_pieces && !matches!(item.entry.kind, Kind::File { marked: true, .. }) {
            tree.keep_pieces(PIECES_MAX);
        }
        item.state = State::Large(Box::new(Large {
            queue: RunSet::new(),
            compare: RunSet::new(),
            verified: RunSet::new(),
            durable: RunSet::new(),
            tree,
            holds_slot: false,
            being_read: 0,
            check: Check::NotYet,
        }));
    }
    match &mut item.state {
        State::Large(large) => large,
        _ => unreachable!("set just above"),
    }
}

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "talk to the receiver", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::{Check as CheckBy, Preserve, VerifyLevel};

    const CHUNK: u64 = 64 << 10;

    fn terms(depth: Option<u32>) -> Terms {
        Terms {
            chunk_bytes: CHUNK,
            segment_bytes: CHUNK as u32,
            verify: VerifyLevel::Written,
            check: CheckBy::Nothing,
            preserve: Preserve {
                mode: true,
                owner: true,
                times: true,
                xattrs: true,
                symlinks: true,
                hard_links: true,
                holes: true,
                devices: false,
            },
            delete_max: None,
            compress: false,
            rate_bytes_per_s: None,
            dry_run: false,
            ignore_existing: false,
            update: false,
            job_key: [0; 16],
            concurrency: None,
            depth,
            window_bytes: None,
            congestion: None,
        }
    }

    fn file(name: &str, size: u64) -> Entry {
        Entry {
            id: EntryId(0),
            path: RelativePath::new(name.as_bytes().to_vec()).unwrap(),
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence { size, ..Evidence::default() },
            xattrs: Vec::new(),
        }
    }

    /// A sender with two streams, of which the receiver wants everything.
    fn sender(depth: Option<u32>, files: Vec<Entry>) -> (Sender, EntryId) {
        let terms = terms(depth);
        let limits = Limits { pack_files: 1, ..Limits::for_terms(&terms) };
        let mut sender = Sender::new(terms, limits);
        let count = files.len() as u64;
        let first = sender.offer(files);
        [0, 1].into_iter().for_each(|stream| sender.stream_up(stream));
        let wants = (first.0..first.0 + count).map(|id| (EntryId(id), Want::Whole)).collect();
        sender.hear(Say::Want(wants)).unwrap();
        (sender, first)
    }

    fn ack(entry: EntryId, chunk: u64) -> Say {
        Say::Ack(AckLevel::Verified, vec![(entry, Run { first: chunk, count: 1 })])
    }

    #[test]
    fn a_stream_has_no_more_chunks_under_way_than_its_depth() {
        let now = Duration::ZERO;
        let (mut sender, file) = sender(Some(2), vec![file("large", 10 * CHUNK)]);
        let mut sent = Vec::new();
        for _ in 0..2 {
            match sender.next_work(0, now) {
                Next::Work(Work::Chunk(entry, chunk)) => {
                    sender.chunk_sent(0, entry.id, chunk, Digest::default());
                    sent.push(chunk);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(sender.next_work(0, now), Next::Wait(None));
        // The other stream has room of its own, for new work and, later, for what the first does not get across.
        assert!(matches!(sender.next_work(1, now), Next::Work(Work::Chunk(_, 2))));
        sender.hear(ack(file, sent[0])).unwrap();
        assert!(matches!(sender.next_work(0, now), Next::Work(Work::Chunk(_, 3))));
        assert_eq!(sender.next_work(0, now), Next::Wait(None));
        // What is found damaged is not under way any more.
        sender.hear(Say::Repair(vec![(file, Run { first: sent[1], count: 1 })])).unwrap();
        assert!(matches!(sender.next_work(0, now), Next::Work(Work::Chunk(..))));
    }

    #[test]
    fn packs_count_as_chunks_do() {
        let now = Duration::ZERO;
        let (mut sender, first) = sender(Some(1), (0..3).map(|at| file(&at.to_string(), 10)).collect());
        let Next::Work(Work::Pack(pack)) = sender.next_work(0, now) else { panic!("a pack") };
        let ids: Vec<EntryId> = pack.iter().map(|entry| entry.id).collect();
        sender.pack_sent(0, &ids, &ids);
        assert_eq!(sender.next_work(0, now), Next::Wait(None));
        // Damaged, and that is known before the stream is through with it.
        let (mut early, first_early) =
            self::sender(Some(1), vec![file("early", 10), file("large", 4 * CHUNK)]);
        let large = EntryId(first_early.0 + 1);
        assert!(matches!(early.next_work(0, now), Next::Work(Work::Pack(_))));
        early.hear(Say::Repair(vec![(first_early, Run { first: 0, count: 1 })])).unwrap();
        early.pack_sent(0, &[first_early], &[first_early]);
        assert!(matches!(early.next_work(0, now), Next::Work(Work::Pack(_))));
        let Next::Work(Work::Chunk(_, chunk)) = early.next_work(1, now) else { panic!("a chunk") };
        early.hear(Say::Repair(vec![(large, Run { first: chunk, count: 1 })])).unwrap();
        early.chunk_sent(1, large, chunk, Digest::default());
        assert!(matches!(early.next_work(1, now), Next::Work(Work::Chunk(..))));
        // Damaged, so it goes again, on the same stream too.
        sender.hear(Say::Repair(vec![(first, Run { first: 0, count: 1 })])).unwrap();
        let Next::Work(Work::Pack(pack)) = sender.next_work(0, now) else { panic!("a pack") };
        let ids: Vec<EntryId> = pack.iter().map(|entry| entry.id).collect();
        sender.pack_sent(0, &ids, &ids);
        assert_eq!(sender.next_work(0, now), Next::Wait(None));
        sender.hear(ack(ids[0], 0)).unwrap();
        assert!(matches!(sender.next_work(0, now), Next::Work(Work::Pack(_))));
    }

    #[test]
    fn without_a_depth_all_may_be_under_way() {
        let (mut sender, _) = sender(None, vec![file("large", 100 * CHUNK)]);
        for chunk in 0..100 {
            assert!(
                matches!(sender.next_work(0, Duration::ZERO), Next::Work(Work::Chunk(_, at)) if at == chunk)
            );
        }
    }
}
