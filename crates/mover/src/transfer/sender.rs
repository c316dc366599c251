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
use crate::order::devices::Devices;
use crate::order::{self, Dealer};
use crate::plan::{NEAR_RTT, STREAMS_PLANNED_MAX};
use crate::transfer::Copy;
use crate::transfer::runs::RunSet;
use crate::transfer::stays::Fate;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use thalweg_wire::digest::{Pieces, Tree};
use thalweg_wire::message::{Order, Outcome, ScanTotals, Terms, Totals, TransferMessage as Say};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, limits};

mod answers;

mod packs;

mod work;

/// Bounds and knobs of a sender.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Entries offered and not settled.
    pub entries: usize,
    /// Heap bytes of those entries.
    pub entry_bytes: usize,
    /// Bytes of receipt lines that wait for entries before them.
    pub receipt_bytes: usize,
    /// Files with chunks in flight at once (*concurrency*).
    pub concurrency: usize,
    /// Chunks and packs of one stream that are handed out and not verified (*depth*).
    pub depth: usize,
    /// Streams that take work, of those that stand.
    pub streams: usize,
    /// Streams that may stand soon: far away one is up before the others.
    pub streams_to_come: usize,
    /// For so long since the first is up they may still come.
    pub come_within: Duration,
    /// For so long since the first is up the windows of streams are about as small as all begin.
    pub windows_are_small: Duration,
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
    /// Gaps in what the receiver says of chunks, beyond those that come of what was sent.
    pub gaps: usize,
    /// When an idle stream may take over what another has had unverified.
    pub hedge: Hedging,
}

/// From when on a chunk that is not verified counts as late: so many times as long as chunks usually take.
#[derive(Debug, Clone)]
pub struct Hedging {
    /// Before any chunk was verified.
    pub at_first: Duration,
    /// Never sooner (rounds of acknowledgements and syncs come in bursts) and never later than this.
    pub bounds: RangeInclusive<Duration>,
}

impl Hedging {
    /// Four times: with three, a stream that is a little slower than the others loses its last chunk to them.
    const TIMES: u32 = 4;

    /// Always after this.
    pub fn fixed(after: Duration) -> Hedging {
        Hedging { at_first: after, bounds: after..=after }
    }

    /// For chunks that usually take so long, from being handed out to being verified.
    pub fn after(&self, usual: Option<Duration>) -> Duration {
        usual.map_or(self.at_first, |usual| {
            usual.saturating_mul(Hedging::TIMES).clamp(*self.bounds.start(), *self.bounds.end())
        })
    }
}

impl Default for Hedging {
    fn default() -> Self {
        Hedging {
            at_first: Duration::from_secs(3),
            bounds: Duration::from_millis(500)..=Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// Defaults for a segment of `segment_bytes`.
    pub fn for_segment(segment_bytes: u32) -> Self {
        Limits {
            entries: limits::ENTRIES_IN_FLIGHT_MAX,
            entry_bytes: limits::ENTRY_BYTES_IN_FLIGHT_MAX,
            receipt_bytes: limits::RECEIPT_BYTES_WAITING_MAX,
            concurrency: 256,
            // As many as the stream's window takes: a send waits when it is full.
            depth: usize::MAX,
            streams: usize::MAX,
            streams_to_come: STREAMS_PLANNED_MAX.into(),
            come_within: COME_WITHIN_MAX,
            windows_are_small: Duration::ZERO,
            small_bytes: u64::from(segment_bytes),
            pack_bytes: u64::from(segment_bytes.min(PACK_BYTES)),
            pack_files: 512,
            retries: 3,
            repairs: 64,
            gaps: limits::GAPS_MAX,
            hedge: Hedging::default(),
        }
    }

    /// What `terms` ask for, else the defaults for a path of this round trip, where that is known.
    pub fn for_path(terms: &Terms, rtt: Option<Duration>) -> Self {
        let defaults = Limits::for_segment(terms.segment_bytes);
        Limits {
            entries: rtt.map_or(defaults.entries, entries_for),
            // Near, and within one process, all are up before there is work.
            streams_to_come: match rtt {
                Some(rtt) if rtt < NEAR_RTT => 0,
                _ => defaults.streams_to_come,
            },
            // Dialled side by side, they are apart by what the processors take for their handshakes; what the first one
            // has sent is not acknowledged before.
            come_within: rtt.map_or(COME_WITHIN_MAX, |rtt| rtt.min(COME_WITHIN_MAX)),
            windows_are_small: match rtt {
                Some(rtt) if rtt >= NEAR_RTT => SMALL_FOR * rtt.min(COME_WITHIN_MAX),
                _ => Duration::ZERO,
            },
            concurrency: terms.concurrency.map_or(defaults.concurrency, |files| files as usize),
            depth: terms.depth.map_or(defaults.depth, |tasks| tasks as usize),
            ..defaults
        }
    }
}

/// Content of a pack, at most: more than half the second-level cache is no gain (docs/measurements.md, segments).
const PACK_BYTES: u32 = 512 << 10;
/// For so long at most a short queue of small files is left to streams that may still come.
const COME_WITHIN_MAX: Duration = Duration::from_millis(500);
/// Round trips until the window of a stream that begins has some hundred kilobytes.
const SMALL_FOR: u32 = 4;
/// Entries that are in flight where the far side is near: those of many rounds, for a round may take longer than its
/// files. docs/measurements.md, entries in flight.
const ENTRIES_NEAR: u64 = 32 << 10;
/// Files that no disk was seen to take in a second, four times over: docs/measurements.md, small files.
const ENTRIES_A_SECOND: u128 = 4 * 80_000;

/// Entries in flight over a path of this round trip. Each is known to both sides, with about a kilobyte at each: what
/// distance does not need is not taken.
fn entries_for(rtt: Duration) -> usize {
    let under_way = ENTRIES_A_SECOND * rtt.as_micros() / 1_000_000;
    let wanted = u128::from(ENTRIES_NEAR) + under_way;
    usize::try_from(wanted).unwrap_or(usize::MAX).min(limits::ENTRIES_IN_FLIGHT_MAX)
}

/// A piece of work for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Read and send one chunk.
    Chunk(Arc<Entry>, u64, Copy),
    /// Read one chunk and tell its digest.
    Compare(Arc<Entry>, u64),
    /// Read and send whole small files.
    Pack(Vec<Arc<Entry>>),
    /// Every chunk was read: look whether the source is still the same, tell [`Sender::checked`]. Of a hard link that
    /// cannot be made nothing is read: it is to be looked at as what it is by itself.
    Check(Arc<Entry>),
}

/// What a stream should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Do this piece of work.
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
    /// An entry that changed and was offered again had come to its end before the receiver heard that: a line of the
    /// receipt, and nobody's outcome.
    SettledBefore(Arc<Entry>, Outcome),
    /// A file or link was settled; whether nothing is lost if the source's goes. See
    /// [`Sender::tell_redundant`].
    MayGo(Arc<Entry>, Fate),
    /// This number will never settle: its entry changed and was offered again under another.
    Gone(EntryId),
    /// A name that was never offered (with its number), or one of the receiver's, came to its end.
    Aside(Option<EntryId>, RelativePath, Outcome),
    /// A name at the destination that the source lacks is gone, or would be.
    Deleted(RelativePath),
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
    /// Numbered names without content: never offered, or withdrawn for good. Kept until told as settled.
    asides: BTreeMap<EntryId, Aside>,
    /// Offered again under another number: the receiver may have had all of it before it heard that. Kept until it says
    /// something of the other.
    replaced: BTreeMap<EntryId, Item>,
    /// Entries numbered and not yet offered.
    unsaid: Vec<Arc<Entry>>,
    next_id: u64,
    scan: Option<ScanTotals>,
    tasks: Tasks,
    heard: Heard,
    actions: VecDeque<Action>,
    end: End,
    progress: Progress,
    bounded: Bounded,
    /// Names of deleted entries that the receiver told.
    deleted_told: BTreeSet<RelativePath>,
    keeps_pieces: bool,
    tells_redundant: bool,
}

/// What streams are to do, and have under way.
struct Tasks {
    small: packs::Packs,
    /// Files with chunks to read.
    large: Devices,
    checks: VecDeque<EntryId>,
    streams: BTreeMap<u16, Vec<Handed>>,
    /// Files that hold a slot.
    started: usize,
    dealer: Dealer,
    /// Time of the last question for work.
    clock: Duration,
    /// How long chunks usually took of late, from being handed out to being verified.
    usual: Option<Duration>,
    /// Chunks that streams are through with.
    chunks_read: usize,
    /// When the first stream over this link asked for work.
    first_up: Option<Duration>,
}

impl Tasks {
    fn by(order: Order) -> Tasks {
        Tasks {
            small: packs::Packs::default(),
            large: Devices::of(order),
            checks: VecDeque::new(),
            streams: BTreeMap::new(),
            started: 0,
            dealer: Dealer::new(order),
            clock: Duration::ZERO,
            usual: None,
            chunks_read: 0,
            first_up: None,
        }
    }

    /// The link is lost, and all streams with it.
    fn clear(&mut self) {
        self.small.clear();
        self.large.clear();
        self.checks.clear();
        self.streams.clear();
        self.first_up = None;
    }
}

/// Entries whose outcome is known.
#[derive(Default)]
struct Heard {
    /// In few runs, for all but the unsettled are in it.
    all: RunSet,
    /// Those of them that the receiver was not told about, over this link.
    unreported: RunSet,
    /// An entry was offered again: the receiver may have finished before it heard that.
    offered_late: bool,
}

/// How much there is to keep, of it what the receiver says.
#[derive(Default)]
struct Bounded {
    /// Heap bytes of the entries.
    item_bytes: usize,
    /// Gaps when they were counted last, and runs and digests that were heard since.
    gaps_counted: usize,
    runs_heard: usize,
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
    /// Those of them with content whose digest is the receiver's word: they were not read here, or not all of them.
    pub entries_unread: u64,
    /// Those of them that failed.
    pub entries_failed: u64,
    /// Those of these whose content was damaged, and stayed so.
    pub entries_damaged: u64,
    /// Content bytes that do not come, of entries settled: those that were there already, are holes, were left out, or
    /// failed; in a dry run those that would come. Together with `bytes_verified` all bytes of what is settled, each
    /// once.
    pub bytes_unmoved: u64,
    /// Content bytes handed to streams, repetitions counted.
    pub bytes_sent: u64,
    /// Content bytes acknowledged as verified or settled.
    pub bytes_verified: u64,
    /// Those of them that an earlier attempt had left.
    pub bytes_resumed: u64,
    /// Those of them of which the digest alone was told: a file at the destination was found to have them.
    pub bytes_same: u64,
    /// Content bytes acknowledged as durable.
    pub bytes_durable: u64,
    /// Chunks and files that came damaged and were sent again.
    pub repairs: u64,
    /// Chunks and packs that were late on one stream, and that another took over which had nothing else to do.
    pub taken_over: u64,
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    Open,
    Finished,
    Failed,
}

/// A numbered name without content.
struct Aside {
    path: RelativePath,
    outcome: Outcome,
    /// Of an entry that was offered before: it settles by the receiver's answer.
    item: Option<Item>,
}

struct Item {
    entry: Arc<Entry>,
    state: State,
    /// The number under which it was offered before it changed.
    replaces: Option<EntryId>,
    /// Of a small file: digest of what was read last.
    read: Option<Digest>,
    /// Of a small file: it was acknowledged, over whatever link, and counts as verified.
    arrived: bool,
    /// Of a small file: the stream that it went out on last, until it is known to have arrived.
    sent_on: Option<u16>,
    repairs: u32,
    /// Chunks that the receiver asked for after comparing them.
    differences: u64,
    /// Requests for pieces that were heard over this link.
    asked: u32,
    /// Answers that wanted chunks of it, since it was offered last.
    wanted: u32,
    retries: u32,
}

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
    /// Acknowledged over whatever link: these count as verified.
    came: RunSet,
    tree: Tree,
    /// Some of its digests are the receiver's, who has those chunks from an earlier attempt.
    has_theirs: bool,
    holds_slot: bool,
    /// It stands in the queue of files with chunks to read.
    is_listed: bool,
    /// Chunks that streams have begun to read and are not through with; one may be there twice.
    being_read: Vec<u64>,
    /// Chunks that were handed to a stream, over this link.
    begun: RunSet,
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

#[derive(Clone, PartialEq, Eq)]
enum Task {
    Chunk(EntryId, u64),
    Pack(Vec<EntryId>),
    Check(EntryId),
}

impl Sender {
    /// A sender with nothing to send yet.
    pub fn new(terms: Terms, limits: Limits) -> Self {
        let order = terms.disk.source.order.unwrap_or(order::SOURCE);
        Sender {
            terms,
            limits,
            items: BTreeMap::new(),
            asides: BTreeMap::new(),
            replaced: BTreeMap::new(),
            unsaid: Vec::new(),
            next_id: 0,
            scan: None,
            tasks: Tasks::by(order),
            heard: Heard::default(),
            actions: VecDeque::new(),
            end: End::Open,
            progress: Progress::default(),
            bounded: Bounded::default(),
            deleted_told: BTreeSet::new(),
            keeps_pieces: false,
            tells_redundant: false,
        }
    }

    /// Tells the parts of large files, from now on. Call it before the first entry is offered.
    pub fn keep_pieces(&mut self) {
        self.keeps_pieces = true;
    }

    /// Tells of each file and link that is settled and did not fail whether the destination has what was read
    /// of it (in a dry run: would have), from now on. Call it before the first entry is offered.
    pub fn tell_redundant(&mut self) {
        self.tells_redundant = true;
    }

    /// Counters so far.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// Memory of entries, and of what the receiver says of them, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        let items_bytes = self.items.len() * 2 * (size_of::<Item>() + size_of::<Entry>());
        let gaps = self.bounded.gaps_counted + self.bounded.runs_heard;
        self.bounded.item_bytes + items_bytes + gaps * GAP_BYTES
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

    /// Whether the next action is to say something.
    pub fn has_to_say(&self) -> bool {
        matches!(self.actions.front(), Some(Action::Say(_)))
    }

    /// The link is lost: what was to be said to it is covered by what the next one is told.
    pub fn link_lost(&mut self) {
        self.actions.retain(|action| !matches!(action, Action::Say(_)));
    }

    /// Whether the scan may hand over more entries, while so many bytes of receipt lines wait for entries of their
    /// blocks. Ask again after something was settled.
    pub fn has_room(&self, receipt_bytes: usize) -> bool {
        let unsettled = self.items.len() + self.asides.len();
        unsettled < self.limits.entries
            && self.bounded.item_bytes < self.limits.entry_bytes
            // Without one that is unsettled they wait for numbers that nobody has yet.
            && (receipt_bytes < self.limits.receipt_bytes || unsettled == 0)
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
            offered.push(self.insert(entry, 0, None));
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
        let entry = self.insert(entry, 0, None);
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
        self.asides.insert(id, Aside { path, outcome, item: None });
    }

    /// A link stands, with no stream yet: everything that is not settled is offered (again).
    pub fn link_up(&mut self) {
        self.unsaid.clear();
        let entries: Vec<Arc<Entry>> = self
            .items
            .values_mut()
            .map(|item| {
                (item.asked, item.wanted) = (0, 0);
                item.state = match std::mem::replace(&mut item.state, State::Offered) {
                    // The digests of what was read stay valid: they are of the source.
                    State::Large(mut large) => {
                        large.queue = RunSet::new();
                        large.compare = RunSet::new();
                        large.verified = RunSet::new();
                        if std::mem::take(&mut large.holds_slot) {
                            self.tasks.started -= 1;
                        }
                        large.is_listed = false;
                        large.check = Check::NotYet;
                        large.being_read = Vec::new();
                        large.begun = RunSet::new();
                        State::Large(large)
                    }
                    _ => State::Offered,
                };
                item.entry.clone()
            })
            .collect();
        self.tasks.clear();
        // What was said of these is lost with the link, if anything was.
        for &id in std::mem::take(&mut self.replaced).keys() {
            self.actions.push_back(Action::Gone(id));
        }
        self.link_lost();
        let heard = self.heard.all.clone();
        self.say_heard(&heard);
        self.heard.unreported = RunSet::new();
        // In the order of numbers, as they were offered first.
        let mut entries = entries.into_iter().peekable();
        let of_aside = |(&id, aside): (&EntryId, &Aside)| (id, aside.path.clone(), aside.outcome.clone());
        let asides: Vec<_> = self.asides.iter().map(of_aside).collect();
        for (id, path, outcome) in asides {
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

    /// The source of an entry is not what was offered. No matter once a whole copy of a good moment is at the receiver.
    pub fn changed(&mut self, entry: EntryId) -> Retry {
        if self.is_copied(entry) {
            return Retry::No;
        }
        let Some(item) = self.items.get(&entry) else { return Retry::No };
        if item.retries < self.limits.retries {
            return Retry::LookAgain;
        }
        let tries = item.retries + 1;
        let cause = format!("the source changed while it was read, {tries} times in a row");
        self.give_up(entry, Failure::new(FailureKind::Changed, "read", cause));
        Retry::No
    }

    /// The same path as it is now, after [`Retry::LookAgain`]: withdraws the old entry, offers the new.
    pub fn offer_again(&mut self, old: EntryId, now: Result<Entry>) {
        if self.is_copied(old) {
            return;
        }
        match now {
            Err(failure) => self.give_up(old, failure),
            Ok(mut entry) => {
                let Some(mut item) = self.remove(old) else { return };
                item.let_go_of_chunks(self.terms.chunk_bytes);
                self.flush_offers();
                entry.id = EntryId(self.next_id);
                self.next_id += 1;
                let was_link = is_link(&item.entry);
                if was_link {
                    // The link had no content.
                    self.progress.bytes_offered += entry.content_bytes();
                    self.drop_check(old);
                }
                // That a link could not be made is no change of its source.
                let retries = item.retries + u32::from(!was_link || is_link(&entry));
                let entry = self.insert(entry, retries, Some(old));
                self.replaced.insert(old, item);
                self.heard.offered_late = true;
                // After an answer to this nothing more will be told of the old number.
                self.heard.all.insert(old.0, old.0 + 1);
                // In this order, and with nothing between: the receiver counts on it.
                self.say(Say::Withdraw(vec![(old, None)]));
                self.say_offers(vec![entry]);
            }
        }
    }

    /// An entry cannot be read. No matter once a whole copy of it is at the receiver.
    pub fn failed(&mut self, entry: EntryId, failure: Failure) {
        if !self.is_copied(entry) {
            self.give_up(entry, failure);
        }
    }

    /// Whether all of it was read at one good moment, and nothing of it is asked for: what is read besides was late.
    fn is_copied(&self, entry: EntryId) -> bool {
        match self.items.get(&entry).map(|item| &item.state) {
            Some(State::Arrived) => true,
            Some(State::Large(large)) => large.check == Check::Sealed,
            _ => false,
        }
    }

    /// Withdraws an entry for good. The receiver, which may have all of it by now, has the last word.
    fn give_up(&mut self, entry: EntryId, failure: Failure) {
        let Some(item) = self.remove(entry) else { return };
        if is_link(&item.entry) {
            self.drop_check(entry);
        }
        let path = item.entry.path.clone();
        let failure = failure.at(&path);
        self.say(Say::Withdraw(vec![(entry, Some(failure.clone()))]));
        self.asides.insert(entry, Aside { path, outcome: Outcome::Failed(failure), item: Some(item) });
    }

    /// The receiver's word.
    ///
    /// # Errors
    /// `Protocol` for what no correct receiver says; the transfer is over then.
    pub fn hear(&mut self, say: Say) -> Result<()> {
        if self.is_over() {
            return Ok(());
        }
        self.check_gaps(&say)?;
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
            Say::Deleted(names) => {
                for name in names {
                    // After another link they are all told again.
                    if self.deleted_told.contains(&name) {
                        continue;
                    }
                    if self.deleted_told.len() >= limits::DELETED_TOLD_MAX {
                        return Err(protocol("more deleted names than are told"));
                    }
                    self.deleted_told.insert(name.clone());
                    self.actions.push_back(Action::Deleted(name));
                }
                Ok(())
            }
            Say::Finished(_) if self.heard.offered_late && !self.items.is_empty() => Ok(()),
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

    fn insert(&mut self, entry: Entry, retries: u32, replaces: Option<EntryId>) -> Arc<Entry> {
        let entry = Arc::new(entry);
        self.bounded.item_bytes += entry.heap_bytes();
        self.items.insert(
            entry.id,
            Item {
                entry: entry.clone(),
                state: State::Offered,
                replaces,
                read: None,
                arrived: false,
                sent_on: None,
                repairs: 0,
                differences: 0,
                asked: 0,
                wanted: 0,
                retries,
            },
        );
        entry
    }

    fn remove(&mut self, id: EntryId) -> Option<Item> {
        self.tasks.dealer.forget(id);
        let item = self.items.remove(&id)?;
        self.bounded.item_bytes -= item.entry.heap_bytes();
        if let State::Large(large) = &item.state
            && large.holds_slot
        {
            self.tasks.started -= 1;
        }
        match item.state {
            State::Large(_) => self.drop_chunks(id),
            _ => self.drop_sent(id, item.sent_on),
        }
        Some(item)
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
}

/// Memory of a gap: of a run of chunks, or of a node with a digest.
const GAP_BYTES: usize = 64;

/// Bytes of one offer: small enough that the first arrives soon.
const OFFER_BYTES: usize = 128 << 10;

fn is_link(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::HardLink { .. })
}

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "talk to the receiver", what)
}
