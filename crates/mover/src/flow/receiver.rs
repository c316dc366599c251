//! The receiving side: takes pieces in any order, hands them on in theirs, and moves the mark.
//!
//! *Bytes, sync, record, sync, mark*: [`Action::Sync`] names how far each flow is written; only when that is durable
//! and noted, the sender hears of it. The memory for pieces that came early has the sender's window as its bound, each
//! with what is kept beside it: a sender that does not keep to it breaks the protocol. What is remembered of flows that
//! are over has a bound as well.

// From pieces to marks.
mod marks;

// Flows that are over.
mod ended;

use super::{Over, digest_of_nothing, name_bytes, protocol};
use crate::failure::{Failure, FailureKind, Result};
use crate::memory::Bytes;
use crate::retry::{self, Key, Tally};
use ended::{Ended, TOLD_KEPT_MAX};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use thalweg_wire::message::{
    FlowBegin, FlowMark, FlowMessage, FlowStand, FlowTerms, Origin, Outcome, Totals, TransferMessage,
};
use thalweg_wire::{Digest, EntryId, RelativePath, limits};

/// A flow at this receiver, whatever number its sender gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u64);

/// What the machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Say this to the sender.
    Say(TransferMessage),
    /// Look what is there of it: answered by [`Receiver::opened`].
    Open(Slot, FlowBegin),
    /// Write these bytes behind those before: answered by [`Receiver::written`].
    Write(Slot, u64, Bytes),
    /// Make durable and note that these flows have so many bytes: answered by [`Receiver::synced`]. One at a time.
    Sync(Vec<(Slot, u64, Digest)>),
    /// It is complete: answered by [`Receiver::completed`].
    Complete(Slot, u64),
    /// It is over.
    Settled(Slot, Box<Over>),
    /// It is over, and the sender that stands now never knew of it: no receipt has it.
    Forgotten(Slot, Box<Over>),
    /// All flows are settled: answered by [`Receiver::concluded`].
    Conclude,
    /// Everything is durable and said.
    Finished(Totals),
}

/// What is there of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stood {
    /// So many bytes.
    pub bytes: u64,
    /// BLAKE3 of them.
    pub digest: Digest,
    /// An earlier attempt at the same flow left them.
    pub is_ours: bool,
    /// And said that it is all.
    pub is_over: bool,
    /// Its name at the destination, if that is another than it began with.
    pub name: Option<RelativePath>,
}

/// Flows that are to be looked at, with those that were withdrawn meanwhile: who begins and withdraws without an end,
/// while something large is looked at, is no correct sender.
const OPENS_MAX: usize = 2 * limits::FLOWS_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Being looked at.
    Opening,
    /// To be said where it stands, as soon as what was handed out is written.
    Standing,
    /// Pieces come.
    Open,
    /// Being completed.
    Completing,
}

/// A flow that is not over.
struct Flow {
    begin: FlowBegin,
    /// The sender that stands now has begun it.
    is_bound: bool,
    phase: Phase,
    is_ours: bool,
    /// An earlier attempt said that what is there is all.
    is_over: bool,
    /// Its name at the destination, if that is another.
    name: Option<RelativePath>,
    /// What was handed out to be written.
    handed: u64,
    written: (u64, Digest),
    marked: (u64, Digest),
    held: BTreeMap<u64, Bytes>,
    /// Pieces that were handed out and are not written.
    handed_pieces: usize,
    end: Option<(u64, Digest)>,
}

impl Flow {
    /// Drops what came early; what that took.
    fn drop_held(&mut self) -> usize {
        std::mem::take(&mut self.held).values().map(|bytes| cost(bytes.len())).sum()
    }

    /// Memory without its pieces, in bytes; about.
    fn held_bytes(&self) -> usize {
        2 * size_of::<Flow>() + name_bytes(&self.begin, self.name.as_ref())
    }
}

/// What a piece of so many bytes takes.
fn cost(bytes: usize) -> usize {
    bytes + limits::FLOW_PIECE_BESIDE_BYTES
}

/// See the module.
pub struct Receiver {
    window_bytes: usize,
    /// What the sender keeps at most: it may be asked to keep less than is borne here.
    sender_bytes: usize,
    piece_bytes_max: usize,
    mark_every: Duration,
    /// Those that are not over.
    flows: BTreeMap<Slot, Flow>,
    next_slot: u64,
    /// Theirs, by the sender that stands now.
    numbers: BTreeMap<EntryId, Slot>,
    /// Those that are over.
    ended: Ended,
    /// What is counted in `totals` as done and as failed.
    tally: Tally,
    /// Files that were opened for the sender that stands now, the latest last: what is there of one from then on it
    /// brought.
    stood: (BTreeSet<Key>, VecDeque<Key>),
    /// Memory of that, in bytes; about.
    stood_bytes: usize,
    /// What pieces take that are held, or handed out and not written.
    kept_bytes: usize,
    /// The same of flows that ended meanwhile: who writes has yet to come by them.
    abandoned_bytes: usize,
    /// Flows that were handed out to be looked at, and that nobody has come by yet.
    opens: usize,
    /// Flows of another sender that the one that stands now has not begun.
    unbound: usize,
    /// Written and not marked.
    dirty: BTreeSet<Slot>,
    dirty_bytes: u64,
    dirty_pieces: usize,
    due: Option<Duration>,
    is_syncing: bool,
    is_last: bool,
    /// Conclude was asked for, and is done.
    end: (bool, bool),
    totals: Totals,
    /// How often a flow failed because it was damaged.
    damaged: u64,
    marked_bytes: u64,
    actions: VecDeque<Action>,
}

impl Receiver {
    /// For a transfer by these terms, with pieces of at most so many bytes.
    pub fn new(terms: &FlowTerms, piece_bytes_max: usize) -> Receiver {
        let window_bytes = usize::try_from(terms.window_bytes).unwrap_or(usize::MAX);
        Receiver {
            window_bytes,
            sender_bytes: window_bytes,
            piece_bytes_max,
            mark_every: Duration::from_millis(terms.mark_every_ms.into()),
            flows: BTreeMap::new(),
            next_slot: 0,
            numbers: BTreeMap::new(),
            ended: Ended::default(),
            tally: Tally::new(TOLD_KEPT_MAX),
            stood: (BTreeSet::new(), VecDeque::new()),
            stood_bytes: 0,
            kept_bytes: 0,
            abandoned_bytes: 0,
            opens: 0,
            unbound: 0,
            dirty: BTreeSet::new(),
            dirty_bytes: 0,
            dirty_pieces: 0,
            due: None,
            is_syncing: false,
            is_last: false,
            end: (false, false),
            totals: Totals::default(),
            damaged: 0,
            marked_bytes: 0,
            actions: VecDeque::new(),
        }
    }

    /// The sender that speaks from now on keeps at most so many bytes: marks come early enough for that. What was taken
    /// before stays, so as much is borne as by the terms.
    pub fn fit_window(&mut self, window_bytes: u64) {
        self.sender_bytes = usize::try_from(window_bytes).unwrap_or(usize::MAX).min(self.window_bytes);
    }

    /// The next thing to do, in order.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Counters; `bytes_received` has repetitions in it.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// How often a flow failed because it was damaged.
    pub fn flows_damaged(&self) -> u64 {
        self.damaged
    }

    /// Bytes verified and written, and bytes marked, by this receiver.
    pub fn written_and_marked_bytes(&self) -> (u64, u64) {
        (self.marked_bytes + self.dirty_bytes, self.marked_bytes)
    }

    /// Memory of pieces that are not written, of the names of flows under way, and of what is remembered of those that
    /// are over, in bytes; about.
    pub fn held_bytes(&self) -> usize {
        let under_way: usize = self.flows.values().map(Flow::held_bytes).sum();
        let remembered = self.ended.held_bytes() + self.tally.held_bytes() + self.stood_bytes;
        self.kept_bytes + self.abandoned_bytes + under_way + remembered
    }

    /// Whether it waits for the sender rather than for its own disk or consumer.
    pub fn awaits_peer(&self) -> bool {
        let waits =
            |flow: &Flow| flow.phase == Phase::Open && flow.end.is_some_and(|(end, _)| flow.handed < end);
        self.flows.values().any(waits)
    }

    /// Whether a flow waits for [`Receiver::opened`].
    pub fn is_opening(&self, slot: Slot) -> bool {
        self.flows.get(&slot).is_some_and(|flow| flow.phase == Phase::Opening)
    }

    /// Whether a flow waits for [`Receiver::completed`], with so many bytes.
    pub fn is_completing(&self, slot: Slot, bytes: u64) -> bool {
        let is_it = |flow: &Flow| flow.phase == Phase::Completing && flow.written.0 == bytes;
        self.flows.get(&slot).is_some_and(is_it)
    }

    /// Whether so much of flows that are over waits to be come by that nothing more is to be taken for now.
    pub fn is_behind(&self) -> bool {
        self.abandoned_bytes > self.window_bytes
    }

    /// Another sender speaks from now on: what it begins is found again by name and origin.
    pub fn rebind(&mut self) {
        self.numbers.clear();
        self.end = (false, false);
        // Complete ones are looked at again, if they begin again: both sides state in the end what they agreed on with
        // each other.
        self.tally.begin_anew(&mut self.totals);
        self.stood = (BTreeSet::new(), VecDeque::new());
        self.stood_bytes = 0;
        self.ended.rebind();
        // The other sender is to say the end again.
        let under_way = |flow: &&mut Flow| matches!(flow.phase, Phase::Open | Phase::Completing);
        for flow in self.flows.values_mut().filter(under_way) {
            flow.phase = Phase::Standing;
            flow.end = None;
        }
        self.link_up();
        self.unbound = self.flows.len();
    }

    /// The link stands again: the sender will begin what is not settled.
    pub fn link_up(&mut self) {
        self.is_last = false;
        self.flows.values_mut().for_each(|flow| flow.is_bound = false);
    }

    /// The sender said something.
    ///
    /// # Errors
    /// `Protocol` for what no correct sender says.
    pub fn hear(&mut self, message: TransferMessage, now: Duration) -> Result<()> {
        match message {
            TransferMessage::Flow(FlowMessage::Begin(begins)) => {
                begins.into_iter().try_for_each(|begin| self.begin(begin))?;
            }
            TransferMessage::Flow(FlowMessage::End(marks)) => {
                marks.into_iter().try_for_each(|mark| self.ends(mark, now))?;
            }
            TransferMessage::Flow(FlowMessage::Last) => {
                self.is_last = true;
                if self.end.1 {
                    self.actions.push_back(Action::Say(TransferMessage::Finished(self.totals)));
                }
            }
            TransferMessage::Withdraw(flows) => {
                for (flow, failure) in flows {
                    let Some(slot) = self.slot(flow)? else { continue };
                    let failure =
                        failure.unwrap_or_else(|| protocol("a flow was withdrawn without a reason"));
                    self.settle(slot, Outcome::Failed(failure), false);
                }
            }
            TransferMessage::Aside(asides) => {
                asides.into_iter().try_for_each(|aside| self.aside(aside))?;
            }
            _ => return Err(protocol("the sender of flows said what it cannot say")),
        }
        self.conclude();
        Ok(())
    }

    /// `None` if it is over.
    fn slot(&self, flow: EntryId) -> Result<Option<Slot>> {
        match self.numbers.get(&flow) {
            Some(slot) => Ok(Some(*slot)),
            None if self.ended.has(flow) => Ok(None),
            None => Err(protocol("a flow that did not begin")),
        }
    }

    fn begin(&mut self, begin: FlowBegin) -> Result<()> {
        if self.is_known(&begin)? {
            return Ok(());
        }
        if self.ended.has(begin.flow) {
            return Err(protocol("a flow began again that its sender knows to be over"));
        }
        let is_full = self.flows.len() >= limits::FLOWS_MAX || self.opens >= OPENS_MAX;
        if is_full || self.ended.is_full() {
            return Err(protocol("too many flows at the same time"));
        }
        self.let_go_before(&begin);
        self.opens += 1;
        let slot = self.insert(begin.clone());
        self.actions.push_back(Action::Open(slot, begin));
        Ok(())
    }

    /// A sender that begins a flow anew has given up what it was before, and its word was lost with the link: as long
    /// as that is here, its file is not to be had.
    fn let_go_before(&mut self, begin: &FlowBegin) {
        let key = retry::key(begin);
        let is_it = |flow: &Flow| !flow.is_bound && retry::key(&flow.begin) == key;
        let before: Vec<Slot> =
            self.flows.iter().filter(|(_, flow)| is_it(flow)).map(|(slot, _)| *slot).collect();
        for slot in before {
            let cause = "the sender gave it up, and its word was lost with the link";
            let failure = Failure::new(FailureKind::Connection, "stream", cause);
            self.settle(slot, Outcome::Failed(failure), false);
        }
    }

    /// A name that the sender could not read.
    fn aside(&mut self, (flow, path, outcome): (EntryId, RelativePath, Outcome)) -> Result<()> {
        let Outcome::Failed(_) = outcome else { return Err(protocol("a name aside that did not fail")) };
        let begin = FlowBegin { flow, path, origin: Origin::default(), mode: 0, is_certain: false };
        if self.is_known(&begin)? {
            return Ok(());
        }
        if self.ended.has(flow) {
            // There may be more of these than are remembered, and each says itself how it ended.
            self.say_settled(flow, outcome);
            return Ok(());
        }
        if self.ended.is_full() {
            return Err(protocol("too many flows at the same time"));
        }
        let slot = self.insert(begin);
        self.settle(slot, outcome, true);
        Ok(())
    }

    /// Whether it began before, with this sender or another, as far as that is remembered: then that is gone on with.
    fn is_known(&mut self, begin: &FlowBegin) -> Result<bool> {
        if let Some(slot) = self.numbers.get(&begin.flow).copied() {
            return self.begin_again(slot, begin).map(|()| true);
        }
        if let Some(outcome) = self.ended.again(begin)? {
            self.say_settled(begin.flow, outcome);
            return Ok(true);
        }
        if let Some((slot, over)) = self.ended.failed_again(begin) {
            self.say_settled(begin.flow, over.outcome.clone());
            // Another sender than it ended with states it in its receipt; so do we.
            self.actions.push_back(Action::Settled(slot, Box::new(over)));
            return Ok(true);
        }
        let is_it = |(_, flow): &(&Slot, &Flow)| {
            !flow.is_bound && flow.begin.path == begin.path && flow.begin.origin == begin.origin
        };
        // It was renamed while nobody looked.
        let is_it_renamed = |(_, flow): &(&Slot, &Flow)| {
            !flow.is_bound && begin.is_certain && flow.begin.origin == begin.origin
        };
        let numbers = &self.numbers;
        let is_anothers = |(slot, flow): &(&Slot, &Flow)| numbers.get(&flow.begin.flow) != Some(*slot);
        // There may be many thousands: looked for only after another sender's.
        let known = match self.unbound {
            0 => None,
            _ => {
                let unbound = || self.flows.iter().filter(is_anothers);
                unbound().find(is_it).or_else(|| unbound().find(is_it_renamed)).map(|(slot, _)| *slot)
            }
        };
        if let Some(slot) = known {
            self.unbound -= 1;
            self.numbers.insert(begin.flow, slot);
            if let Some(flow) = self.flows.get_mut(&slot) {
                let before = std::mem::replace(&mut flow.begin, begin.clone());
                if before.path != begin.path {
                    flow.name.get_or_insert(before.path);
                }
            }
            return self.begin_again(slot, begin).map(|()| true);
        }
        Ok(false)
    }

    fn say_settled(&mut self, flow: EntryId, outcome: Outcome) {
        self.actions.push_back(Action::Say(TransferMessage::Settled(vec![(flow, outcome)])));
    }

    fn insert(&mut self, begin: FlowBegin) -> Slot {
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        self.numbers.insert(begin.flow, slot);
        let written = (0, digest_of_nothing());
        self.flows.insert(
            slot,
            Flow {
                begin,
                is_bound: true,
                phase: Phase::Opening,
                is_ours: true,
                is_over: false,
                name: None,
                handed: 0,
                written,
                marked: written,
                held: BTreeMap::new(),
                handed_pieces: 0,
                end: None,
            },
        );
        slot
    }

    fn begin_again(&mut self, slot: Slot, begin: &FlowBegin) -> Result<()> {
        let Some(flow) = self.flows.get_mut(&slot) else { return Ok(()) };
        if flow.begin != *begin {
            return Err(protocol("a flow began again as another"));
        }
        flow.is_bound = true;
        match flow.phase {
            Phase::Opening | Phase::Completing => {}
            Phase::Standing | Phase::Open => {
                self.kept_bytes -= flow.drop_held();
                flow.phase = Phase::Standing;
                flow.end = None;
                self.stand(slot);
            }
        }
        Ok(())
    }

    /// What is there of a flow: so many bytes, with this digest; whether an earlier attempt left them.
    pub fn opened(&mut self, slot: Slot, result: Result<Stood>) {
        self.not_opened();
        let Some(flow) = self.flows.get_mut(&slot).filter(|flow| flow.phase == Phase::Opening) else {
            return;
        };
        match result {
            Ok(Stood { bytes, digest, is_ours, is_over, name }) => {
                (flow.handed, flow.written, flow.marked, flow.is_ours) =
                    (bytes, (bytes, digest), (bytes, digest), is_ours);
                (flow.name, flow.is_over) = (name, is_over);
                flow.phase = Phase::Standing;
                let key = retry::key(&flow.begin);
                if self.is_first_opening(key) {
                    self.totals.bytes_resumed += bytes;
                }
                self.stand(slot);
            }
            Err(failure) => self.settle(slot, Outcome::Failed(failure), true),
        }
        self.conclude();
    }

    /// Whether a file is opened for the first time, as far as that is remembered: what is there was there before.
    fn is_first_opening(&mut self, key: Key) -> bool {
        let (keys, order) = &mut self.stood;
        if !keys.insert(key.clone()) {
            return false;
        }
        self.stood_bytes += 2 * retry::key_bytes(&key);
        order.push_back(key);
        if order.len() > TOLD_KEPT_MAX
            && let Some(first) = order.pop_front()
        {
            self.stood_bytes -= 2 * retry::key_bytes(&first);
            keys.remove(&first);
        }
        true
    }

    /// A flow that was to be looked at was over by then.
    pub fn not_opened(&mut self) {
        self.opens = self.opens.saturating_sub(1);
    }

    /// Says where it stands, once everything that was handed out is written: to the one who asked, not to one who is
    /// about to ask over a new link.
    fn stand(&mut self, slot: Slot) {
        let Some(flow) = self.flows.get_mut(&slot) else { return };
        if flow.phase == Phase::Standing && flow.is_bound && flow.written.0 == flow.handed {
            flow.phase = Phase::Open;
            let (bytes, digest) = flow.written;
            let at = FlowMark { flow: flow.begin.flow, bytes, digest };
            let (is_ours, is_over, name) = (flow.is_ours, flow.is_over, flow.name.clone());
            let stand = FlowMessage::Stand(vec![FlowStand { at, is_ours, is_over, name }]);
            self.actions.push_back(Action::Say(TransferMessage::Flow(stand)));
            // The word that these are durable may have been lost with the link.
            let (bytes, digest) = flow.marked;
            let mark = FlowMessage::Mark(vec![FlowMark { flow: flow.begin.flow, bytes, digest }]);
            self.actions.push_back(Action::Say(TransferMessage::Flow(mark)));
        }
    }

    /// A complete flow has its final length and is durable, or not.
    pub fn completed(&mut self, slot: Slot, result: Result<()>) {
        let Some(flow) = self.flows.get(&slot).filter(|flow| flow.phase == Phase::Completing) else { return };
        let outcome = match result {
            Ok(()) => Outcome::Done { digest: Some(flow.written.1), losses: Vec::new() },
            Err(failure) => Outcome::Failed(failure),
        };
        self.settle(slot, outcome, true);
        self.conclude();
    }

    /// Writing, or making durable, failed: the flow is over, what is marked stays.
    pub fn failed(&mut self, slot: Slot, failure: Failure) {
        self.settle(slot, Outcome::Failed(failure), true);
        self.conclude();
    }

    fn settle(&mut self, slot: Slot, outcome: Outcome, tell: bool) {
        let Some(mut flow) = self.flows.remove(&slot) else { return };
        let outcome = match outcome {
            Outcome::Failed(failure) if failure.path.is_none() => {
                Outcome::Failed(failure.at(&flow.begin.path))
            }
            outcome => outcome,
        };
        // The sender has its room again as soon as it hears of it, whether or not it is written by then.
        let handed = (flow.handed - flow.written.0) as usize + flow.handed_pieces * cost(0);
        self.kept_bytes -= flow.drop_held() + handed;
        self.abandoned_bytes += handed;
        self.damaged += u64::from(outcome.is_damage());
        self.tally.count(&mut self.totals, &flow.begin, flow.written.0, &outcome);
        // Another sender may give the number to another flow; if it begins this one, it hears of it then.
        let number = flow.begin.flow;
        let is_known = self.numbers.get(&number) == Some(&slot);
        let over = Over { begin: flow.begin, name: flow.name, bytes: flow.written.0, outcome };
        if tell && is_known {
            self.say_settled(number, over.outcome.clone());
        }
        let told = Box::new(over.clone());
        if is_known {
            self.numbers.remove(&number);
            self.actions.push_back(Action::Settled(slot, told));
            self.ended.remember(slot, over);
        } else {
            self.unbound = self.unbound.saturating_sub(1);
            self.actions.push_back(Action::Forgotten(slot, told));
            self.ended.keep_failed(slot, over);
        }
    }

    fn conclude(&mut self) {
        if !self.is_last || self.is_syncing || self.end.0 {
            return;
        }
        // The sender gave them up, and its word was lost with the link.
        let given_up = self.flows.iter().filter(|(_, flow)| !flow.is_bound).map(|(slot, _)| *slot);
        let given_up: Vec<Slot> = given_up.collect();
        for slot in given_up {
            let failure = Failure::new(FailureKind::Changed, "stream", "the sender gave it up");
            self.settle(slot, Outcome::Failed(failure), false);
        }
        if self.flows.is_empty() {
            self.end.0 = true;
            self.actions.push_back(Action::Conclude);
        }
    }

    /// The end is durable.
    pub fn concluded(&mut self) {
        if !std::mem::replace(&mut self.end.1, true) {
            self.actions.push_back(Action::Say(TransferMessage::Finished(self.totals)));
            self.actions.push_back(Action::Finished(self.totals));
        }
    }

    /// Whether a flow that failed when so many bytes were written has been begun again, and more than that is durable.
    pub fn goes_on(&self, begin: &FlowBegin, bytes: u64) -> bool {
        let key = retry::key(begin);
        self.flows.values().any(|flow| flow.marked.0 > bytes && retry::key(&flow.begin) == key)
    }

    /// What a flow began with, by the number that the sender which stands now gives it.
    pub fn begun(&self, flow: EntryId) -> Option<&FlowBegin> {
        self.numbers.get(&flow).and_then(|slot| self.flows.get(slot)).map(|flow| &flow.begin)
    }
}

#[cfg(test)]
#[path = "receiver/tests.rs"]
mod tests;
