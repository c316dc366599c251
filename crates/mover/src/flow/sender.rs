//! The sending side: keeps what is not marked, and knows where to go on.
//!
//! A flow is *asked about* until the receiver has said where it stands. If that is inside of what is kept, the flow
//! goes on from memory. If not (the first time, or after the receiver was restarted), the source is *rewound*: it reads
//! its own first bytes again, and goes on only if their digest is the receiver's. A pipe can be rewound as long as
//! nothing of it was read. That takes long, and outlasts links: who is asked for the same again meanwhile answers once.
//!
//! A flow that is over is forgotten, but for what another receiver is asked about complete ones, of which the latest
//! [`FLOWS_DONE_KEPT_MAX`](limits::FLOWS_DONE_KEPT_MAX) are remembered: a directory in which files come and go for
//! months takes no more memory than that.

use super::{DAMAGED_MAX, Over, digest_of_nothing, name_bytes, protocol};
use crate::failure::{Failure, FailureKind, Reason, Result, VERIFY};
use crate::memory::Bytes;
use crate::retry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use thalweg_wire::message::{
    FlowBegin, FlowMark, FlowMessage, FlowStand, Origin, Outcome, Totals, TransferMessage, batches,
};
use thalweg_wire::{Digest, EntryId, RelativePath, limits};

/// A receiver reads again what it is asked about, before what begins after that: of complete flows not more than this,
/// or one, at a time.
const ASKED_AGAIN_BYTES: u64 = 256 << 20;

/// Bytes of one flow that travel together.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// Of which flow.
    pub flow: EntryId,
    /// Where in it.
    pub offset: u64,
    /// At least one.
    pub bytes: Bytes,
    /// BLAKE3 of them.
    pub digest: Digest,
    /// BLAKE3 of the flow up to their end.
    pub prefix: Digest,
}

impl Piece {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// What the machine wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Say this to the receiver.
    Say(TransferMessage),
    /// Read the flow's source up to there, compare, and go on behind it: answered by [`Sender::rewound`].
    Rewind {
        /// How far, and with which digest.
        at: FlowMark,
        /// What the receiver has is of an earlier attempt at this flow.
        is_ours: bool,
        /// That attempt said that it is all.
        is_over: bool,
    },
    /// The flow is over: its source may be let go.
    Settled(Box<Over>),
    /// Flows of these numbers began before another receiver listened, which is not asked about them: they never settle.
    Gone(Range<u64>),
    /// The receiver has all flows, and everything is durable.
    Finished(Totals),
}

/// The source is not where the caller thinks: it is to be rewound, or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elsewhere;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The receiver was asked where it stands.
    Asked,
    /// The source compares.
    Rewinding,
    /// Pieces go.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Waiting,
    Stream(u16),
}

struct Kept {
    piece: Arc<Piece>,
    carrier: Carrier,
    damaged: u8,
}

/// A flow that a receiver has the whole of.
struct Done {
    begin: FlowBegin,
    name: Option<RelativePath>,
    /// Its bytes, and their digest.
    end: (u64, Digest),
}

impl Done {
    /// Memory, in bytes; about.
    fn held_bytes(&self) -> usize {
        2 * size_of::<Done>() + name_bytes(&self.begin, self.name.as_ref())
    }
}

/// A flow that is not over.
struct Flow {
    begin: FlowBegin,
    /// It is none: why it could not be read.
    missed: Option<Failure>,
    /// Its name at the destination, if that is another.
    name: Option<RelativePath>,
    phase: Phase,
    /// The source was asked to go there, and has not said yet that it is: what is kept is not where it is.
    rewinding: Option<FlowMark>,
    /// The last mark: durable at the receiver.
    marked: u64,
    /// Where the source was rewound to.
    resumed: u64,
    /// Where `kept` begins, and the digest up to there.
    from: (u64, Digest),
    kept: VecDeque<Kept>,
    is_ended: bool,
    /// It was complete at another receiver, with so many bytes, and this one was asked about it.
    is_again: bool,
    again_bytes: u64,
    /// The flow of the same file that begins when this one is settled.
    next: Option<EntryId>,
    /// It has not begun for the receiver: that is still asked about an earlier flow of the same file.
    is_held: bool,
}

impl Flow {
    fn new(begin: FlowBegin, missed: Option<Failure>) -> Flow {
        let (kept, from) = (VecDeque::new(), (0, digest_of_nothing()));
        Flow {
            begin,
            missed,
            name: None,
            phase: Phase::Asked,
            rewinding: None,
            marked: 0,
            resumed: 0,
            from,
            kept,
            is_ended: false,
            is_again: false,
            again_bytes: 0,
            next: None,
            is_held: false,
        }
    }

    /// One that is complete, and that another receiver is asked about.
    fn again(Done { begin, name, end }: Done) -> Flow {
        let (marked, resumed) = (end.0, end.0);
        Flow {
            name,
            marked,
            resumed,
            from: end,
            is_ended: true,
            is_again: true,
            again_bytes: end.0,
            ..Flow::new(begin, None)
        }
    }

    /// What is said of one that could not be read.
    fn aside(&self) -> Option<TransferMessage> {
        let outcome = Outcome::Failed(self.missed.clone()?);
        Some(TransferMessage::Aside(vec![(self.begin.flow, self.begin.path.clone(), outcome)]))
    }

    /// Bytes read so far, and their digest.
    fn end(&self) -> (u64, Digest) {
        self.kept.back().map_or(self.from, |kept| (kept.piece.end(), kept.piece.prefix))
    }

    /// The digest at `bytes`, if that is a boundary of what is kept.
    fn digest_at(&self, bytes: u64) -> Option<Digest> {
        if bytes == self.from.0 {
            return Some(self.from.1);
        }
        let index = self.kept.partition_point(|kept| kept.piece.end() < bytes);
        self.kept.get(index).filter(|kept| kept.piece.end() == bytes).map(|kept| kept.piece.prefix)
    }

    fn mark(&self, (bytes, digest): (u64, Digest)) -> FlowMark {
        FlowMark { flow: self.begin.flow, bytes, digest }
    }

    /// Memory without its pieces, in bytes; about.
    fn held_bytes(&self) -> usize {
        2 * size_of::<Flow>() + name_bytes(&self.begin, self.name.as_ref())
    }
}

/// Counters of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Flows that began.
    pub flows: u64,
    /// Of these, over.
    pub settled: u64,
    /// Of these, failed because they were damaged.
    pub damaged: u64,
    /// Bytes read of sources.
    pub read_bytes: u64,
    /// Bytes marked by the receiver.
    pub marked_bytes: u64,
    /// Bytes kept.
    pub kept_bytes: u64,
}

impl Progress {
    /// Whether nothing that was read waits to be marked. What was read of a flow that failed never will be.
    pub fn is_at_rest(&self) -> bool {
        self.kept_bytes == 0
    }
}

/// See the module.
pub struct Sender {
    window_bytes: usize,
    /// Those that are not over.
    flows: BTreeMap<EntryId, Flow>,
    next_flow: u64,
    /// Complete at the receiver that listens, the latest last.
    done: VecDeque<Done>,
    /// Complete at another receiver than that, which is to be asked about them in their turn; how many it is being
    /// asked about.
    again: VecDeque<Done>,
    /// And of how many bytes.
    asked_again: (usize, u64),
    /// Memory of what is complete, in bytes; about.
    done_bytes: usize,
    /// Complete ones that no other receiver will be asked about: there were more than are remembered.
    forgotten: u64,
    ready: VecDeque<(EntryId, u64)>,
    kept_bytes: usize,
    kept_pieces: usize,
    progress: Progress,
    is_linked: bool,
    is_last_told: bool,
    is_last: bool,
    is_finished: bool,
    actions: VecDeque<Action>,
}

impl Sender {
    /// Keeps at most so many bytes (and one piece more), with what is kept beside each piece.
    pub fn new(window_bytes: u64) -> Sender {
        Sender {
            window_bytes: usize::try_from(window_bytes).unwrap_or(usize::MAX),
            flows: BTreeMap::new(),
            next_flow: 0,
            done: VecDeque::new(),
            again: VecDeque::new(),
            asked_again: (0, 0),
            done_bytes: 0,
            forgotten: 0,
            ready: VecDeque::new(),
            kept_bytes: 0,
            kept_pieces: 0,
            progress: Progress::default(),
            is_linked: false,
            is_last_told: false,
            is_last: false,
            is_finished: false,
            actions: VecDeque::new(),
        }
    }

    /// The next thing to do, in order.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Counters.
    pub fn progress(&self) -> Progress {
        Progress { kept_bytes: self.kept_bytes as u64, ..self.progress }
    }

    /// Complete flows that no other receiver than the first will be asked about: only the latest are remembered.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Whether something waits for the receiver's word.
    pub fn awaits_peer(&self) -> bool {
        let waits = |flow: &Flow| match flow.phase {
            Phase::Asked => true,
            Phase::Open => flow.is_ended || flow.from.0 < flow.end().0,
            Phase::Rewinding => false,
        };
        // The last of a pipe has begun before its first byte comes: the end is waited for when nothing can come any
        // more.
        let is_waiting = || !self.again.is_empty() || self.flows.values().any(waits);
        !self.is_finished && (self.is_over() || is_waiting())
    }

    /// Nothing can come any more.
    fn is_over(&self) -> bool {
        self.is_last && self.flows.is_empty() && self.again.is_empty()
    }

    /// A flow begins, of this origin; whether that is certain says [`FlowBegin`]. Pieces may be pushed after it was
    /// rewound.
    ///
    /// # Errors
    /// `Unsupported` if too many are under way.
    pub fn begin(
        &mut self,
        path: RelativePath,
        (origin, is_certain): (Origin, bool),
        mode: u32,
    ) -> Result<EntryId> {
        if self.flows.len() - self.asked_again.0 >= limits::FLOWS_READ_MAX {
            let cause = format!("more than {} files grow at the same time", limits::FLOWS_READ_MAX);
            return Err(Failure::new(FailureKind::Unsupported, "stream", cause).at(&path));
        }
        let flow = EntryId(self.next_flow);
        self.next_flow += 1;
        self.progress.flows += 1;
        let begin = FlowBegin { flow, path, origin, mode, is_certain };
        let is_held = self.hold_behind(&begin);
        if self.is_linked && !is_held {
            self.say(FlowMessage::Begin(vec![begin.clone()]));
        }
        self.flows.insert(flow, Flow { is_held, ..Flow::new(begin, None) });
        Ok(flow)
    }

    /// The destination has one file: of what begins now nothing older is to be asked about any more. Whether that is
    /// being done, so that it has to wait.
    fn hold_behind(&mut self, begin: &FlowBegin) -> bool {
        let mut gone = Vec::new();
        self.again.retain(|done| {
            let is_older = retry::is_same(&done.begin, begin);
            gone.extend(is_older.then_some(done.begin.flow.0));
            !is_older
        });
        self.progress.settled += gone.len() as u64;
        if !gone.is_empty() {
            self.count_done_bytes();
        }
        self.actions.extend(gone.into_iter().map(|flow| Action::Gone(flow..flow.saturating_add(1))));
        if self.asked_again.0 == 0 {
            return false;
        }
        let is_it = |flow: &&mut Flow| flow.is_again && retry::is_same(&flow.begin, begin);
        let Some(older) = self.flows.values_mut().find(is_it) else { return false };
        older.next = Some(begin.flow);
        true
    }

    /// What waited for an earlier flow of the same file begins now; without a link, with the next.
    fn begin_held(&mut self, flow: EntryId) {
        let Some(known) = self.flows.get_mut(&flow).filter(|known| known.is_held) else { return };
        known.is_held = false;
        let begin = known.begin.clone();
        if self.is_linked {
            self.say(FlowMessage::Begin(vec![begin]));
        }
    }

    /// A name that is no flow because it could not be read: the receiver counts it, and both have it in their receipts.
    /// No file is made for it.
    pub fn missed(&mut self, path: RelativePath, failure: Failure) {
        let flow = EntryId(self.next_flow);
        self.next_flow += 1;
        self.progress.flows += 1;
        let begin = FlowBegin { flow, path, origin: Origin::default(), mode: 0, is_certain: false };
        let known = Flow::new(begin, Some(failure));
        let aside = known.aside().filter(|_| self.is_linked);
        self.flows.insert(flow, known);
        self.actions.extend(aside.map(Action::Say));
    }

    /// The source has compared its first bytes, as [`Action::Rewind`] asked: it goes on behind them, or cannot. Says
    /// whether that is what it was asked for last; else its answer is of the past.
    pub fn rewound(&mut self, at: &FlowMark, result: Result<()>) -> bool {
        let is_asked = |known: &&mut Flow| known.rewinding == Some(*at);
        let Some(known) = self.flows.get_mut(&at.flow).filter(is_asked) else { return false };
        match result {
            Ok(()) => {
                known.rewinding = None;
                known.from = (at.bytes, at.digest);
                known.resumed = at.bytes;
                // If the link broke meanwhile, the receiver is asked first whether it stands there still.
                if known.phase == Phase::Rewinding {
                    known.phase = Phase::Open;
                }
            }
            Err(failure) => self.give_up(at.flow, failure),
        }
        true
    }

    /// Keeps no more than a receiver grants, from now on. `false`, and as it was, if more is kept by now than that.
    pub fn fit_window(&mut self, window_bytes: u64) -> bool {
        let window_bytes = usize::try_from(window_bytes).unwrap_or(usize::MAX);
        let fits = window_bytes >= self.window_bytes || self.piece_bytes() <= window_bytes;
        if fits {
            self.window_bytes = window_bytes;
        }
        fits
    }

    /// Whether more may be read.
    pub fn has_room(&self) -> bool {
        self.piece_bytes() < self.window_bytes
    }

    /// Whether another flow may begin, while so many bytes of receipt lines wait for flows of their blocks. Ask again
    /// after something was settled.
    pub fn may_begin(&self, receipt_bytes: usize) -> bool {
        // Without one that is not over they wait for numbers that nobody has yet.
        receipt_bytes < limits::RECEIPT_BYTES_WAITING_MAX || self.flows.is_empty()
    }

    /// Memory of pieces that are not marked, with what is kept beside each, in bytes.
    fn piece_bytes(&self) -> usize {
        self.kept_bytes + self.kept_pieces * limits::FLOW_PIECE_BESIDE_BYTES
    }

    /// The same, with the names of flows under way and of those that are remembered; about.
    pub fn held_bytes(&self) -> usize {
        self.piece_bytes() + self.flows.values().map(Flow::held_bytes).sum::<usize>() + self.done_bytes
    }

    /// Where the source goes on. `None`: not now.
    pub fn position(&self, flow: EntryId) -> Option<u64> {
        let known = self.flows.get(&flow).filter(|known| known.phase == Phase::Open && !known.is_ended)?;
        Some(known.end().0)
    }

    /// The next bytes of a flow.
    ///
    /// # Errors
    /// [`Elsewhere`] if it does not go on there, or not now.
    pub fn push(&mut self, piece: Piece) -> std::result::Result<(), Elsewhere> {
        if self.position(piece.flow) != Some(piece.offset) {
            return Err(Elsewhere);
        }
        let Some(flow) = self.flows.get_mut(&piece.flow) else { return Err(Elsewhere) };
        self.kept_bytes += piece.bytes.len();
        self.kept_pieces += 1;
        self.progress.read_bytes += piece.bytes.len() as u64;
        self.ready.push_back((piece.flow, piece.offset));
        flow.kept.push_back(Kept { piece: Arc::new(piece), carrier: Carrier::Waiting, damaged: 0 });
        Ok(())
    }

    /// The flow has no more bytes than were pushed. Without a link that is said over the next.
    pub fn end(&mut self, flow: EntryId) {
        let Some(known) = self.flows.get_mut(&flow).filter(|known| known.rewinding.is_none()) else {
            return;
        };
        if !std::mem::replace(&mut known.is_ended, true) && known.phase == Phase::Open {
            let mark = known.mark(known.end());
            self.say(FlowMessage::End(vec![mark]));
        }
    }

    /// The flow cannot go on: the receiver keeps what is marked.
    pub fn give_up(&mut self, flow: EntryId, failure: Failure) {
        // Only what began is counted by the receiver.
        self.begin_held(flow);
        let Some(known) = self.flows.get(&flow) else { return };
        let failure = match failure.path {
            Some(_) => failure,
            None => failure.at(&known.begin.path),
        };
        self.actions.push_back(Action::Say(TransferMessage::Withdraw(vec![(flow, Some(failure.clone()))])));
        self.settle(flow, Outcome::Failed(failure));
    }

    /// No other flow will begin.
    pub fn last(&mut self) {
        self.is_last = true;
        self.tell_last();
    }

    /// Another receiver listens from now on, maybe the same one restarted: it is to say of complete flows too that it
    /// has them, as far as they are remembered, so that both sides state the same in the end. It is asked about some at
    /// a time.
    pub fn rebind(&mut self) {
        self.progress.settled -= self.done.len() as u64;
        self.again.append(&mut self.done);
        self.forget_older();
        let beyond = self.again.len().saturating_sub(limits::FLOWS_DONE_KEPT_MAX);
        self.again.drain(..beyond);
        self.progress.settled += beyond as u64;
        self.forgotten += beyond as u64;
        self.count_done_bytes();
        self.is_finished = false;
        self.say_gone();
        self.link_up();
    }

    /// What began and this receiver will not hear of: its receipt has no lines of them, and waits for none.
    fn say_gone(&mut self) {
        let again = self.again.iter().map(|done| done.begin.flow);
        let mut known: Vec<u64> = self.flows.keys().copied().chain(again).map(|flow| flow.0).collect();
        known.sort_unstable();
        let mut from = 0;
        for number in known.into_iter().chain([self.next_flow]) {
            if from < number {
                self.actions.push_back(Action::Gone(from..number));
            }
            from = number.saturating_add(1);
        }
    }

    /// Of a file that was complete more than once, because it grew again, only what it has last is asked about,
    /// whatever it is called by now: the destination has one file.
    fn forget_older(&mut self) {
        let mut newest = BTreeMap::new();
        for begin in
            self.flows.values().map(|flow| &flow.begin).chain(self.again.iter().map(|done| &done.begin))
        {
            let last = newest.entry(retry::key(begin)).or_insert(begin.flow);
            *last = begin.flow.max(*last);
        }
        let is_newest = |begin: &FlowBegin| newest.get(&retry::key(begin)) == Some(&begin.flow);
        let before = self.again.len() + self.flows.len();
        self.again.retain(|done| is_newest(&done.begin));
        self.flows.retain(|_, flow| !flow.is_again || is_newest(&flow.begin));
        // What they waited for is not asked about any more.
        self.flows.values_mut().for_each(|flow| flow.is_held = false);
        self.count_asked_again();
        self.progress.settled += (before - self.again.len() - self.flows.len()) as u64;
    }

    fn count_done_bytes(&mut self) {
        self.done_bytes = self.done.iter().chain(&self.again).map(Done::held_bytes).sum();
    }

    fn count_asked_again(&mut self) {
        let asked = self.flows.values().filter(|flow| flow.is_again);
        self.asked_again = asked.fold((0, 0), |(flows, bytes), flow| (flows + 1, bytes + flow.again_bytes));
    }

    /// Nobody listens for now.
    pub fn unlink(&mut self) {
        self.is_linked = false;
        self.ready.clear();
        for flow in self.flows.values_mut() {
            flow.phase = Phase::Asked;
            flow.kept.iter_mut().for_each(|kept| kept.carrier = Carrier::Waiting);
        }
    }

    /// The link stands again.
    pub fn link_up(&mut self) {
        self.unlink();
        self.is_linked = true;
        self.is_last_told = false;
        let open = || self.flows.values().filter(|flow| flow.phase == Phase::Asked && !flow.is_held);
        let begins: Vec<FlowBegin> =
            open().filter(|flow| flow.missed.is_none()).map(|flow| flow.begin.clone()).collect();
        let asides: Vec<Action> = open().filter_map(Flow::aside).map(Action::Say).collect();
        self.say_begins(&begins);
        self.actions.extend(asides);
        self.ask_again();
        self.tell_last();
    }

    /// Asks about more of what was complete at another receiver, as far as there is room.
    fn ask_again(&mut self) {
        let mut begins = Vec::new();
        while self.is_linked
            && self.asked_again.0 < limits::FLOWS_AGAIN_MAX
            && self.asked_again.1 < ASKED_AGAIN_BYTES
        {
            let Some(done) = self.again.pop_front() else { break };
            self.done_bytes -= done.held_bytes();
            self.asked_again = (self.asked_again.0 + 1, self.asked_again.1 + done.end.0);
            begins.push(done.begin.clone());
            self.flows.insert(done.begin.flow, Flow::again(done));
        }
        self.say_begins(&begins);
    }

    /// What this stream carried may be lost.
    pub fn stream_lost(&mut self, stream: u16) {
        let mut again = Vec::new();
        for flow in self.flows.values_mut().filter(|flow| flow.phase == Phase::Open) {
            for kept in flow.kept.iter_mut().filter(|kept| kept.carrier == Carrier::Stream(stream)) {
                kept.carrier = Carrier::Waiting;
                again.push((kept.piece.flow, kept.piece.offset));
            }
        }
        again.into_iter().rev().for_each(|piece| self.ready.push_front(piece));
    }

    /// Pieces that wait for a stream; some may be gone by the time one asks.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// The next piece for a stream.
    pub fn next_piece(&mut self, stream: u16) -> Option<Arc<Piece>> {
        while let Some((flow, offset)) = self.ready.pop_front() {
            let Some(known) = self.flows.get_mut(&flow).filter(|known| known.phase == Phase::Open) else {
                continue;
            };
            let index = known.kept.partition_point(|kept| kept.piece.offset < offset);
            if let Some(kept) = known.kept.get_mut(index)
                && kept.piece.offset == offset
                && kept.carrier == Carrier::Waiting
            {
                kept.carrier = Carrier::Stream(stream);
                return Some(kept.piece.clone());
            }
        }
        None
    }

    /// The receiver said something.
    ///
    /// # Errors
    /// `Protocol` for what no correct receiver says.
    pub fn hear(&mut self, message: TransferMessage) -> Result<()> {
        match message {
            TransferMessage::Flow(FlowMessage::Stand(stands)) => {
                stands.into_iter().try_for_each(|stand| self.stands(stand))
            }
            TransferMessage::Flow(FlowMessage::Mark(marks)) => {
                marks.into_iter().try_for_each(|mark| self.marked(mark))
            }
            TransferMessage::Flow(FlowMessage::Again(pieces)) => {
                pieces.into_iter().for_each(|(flow, offset)| self.again(flow, offset));
                Ok(())
            }
            TransferMessage::Settled(outcomes) => {
                outcomes.into_iter().try_for_each(|(flow, outcome)| self.hear_settled(flow, outcome))
            }
            TransferMessage::Finished(totals) => {
                if !self.is_over() {
                    return Err(protocol("the receiver has finished before all flows were settled"));
                }
                if !std::mem::replace(&mut self.is_finished, true) {
                    self.actions.push_back(Action::Finished(totals));
                }
                Ok(())
            }
            _ => Err(protocol("the receiver of flows said what it cannot say")),
        }
    }

    fn stands(&mut self, FlowStand { at, is_ours, is_over, name }: FlowStand) -> Result<()> {
        let Some(flow) = self.flows.get_mut(&at.flow) else {
            // It may have crossed our word that the flow is over.
            return self.began(at.flow, "the receiver stands with a flow that there is not");
        };
        if flow.missed.is_some() {
            return Err(protocol("the receiver stands with what is no flow"));
        }
        if flow.phase != Phase::Asked {
            return Err(protocol("the receiver was not asked where it stands"));
        }
        flow.name = name;
        if at.bytes < flow.marked {
            let cause = format!(
                "the destination had {} bytes that were durable, and has {} of them now",
                flow.marked, at.bytes
            );
            let failure = Failure::new(FailureKind::Damage, "go on with the stream", cause);
            self.give_up(at.flow, failure.in_range(at.bytes, at.bytes));
            return Ok(());
        }
        match flow.digest_at(at.bytes).filter(|_| flow.rewinding.is_none()) {
            Some(ours) if ours == at.digest => {
                flow.phase = Phase::Open;
                for kept in flow.kept.iter().filter(|kept| kept.piece.offset >= at.bytes) {
                    self.ready.push_back((at.flow, kept.piece.offset));
                }
                if flow.is_ended {
                    let mark = flow.mark(flow.end());
                    self.say(FlowMessage::End(vec![mark]));
                }
            }
            Some(_) => {
                let failure = differs(at.bytes);
                self.give_up(at.flow, failure);
            }
            None => {
                self.kept_pieces -= flow.kept.len();
                let dropped: usize = flow.kept.drain(..).map(|kept| kept.piece.bytes.len()).sum();
                self.kept_bytes -= dropped;
                flow.phase = Phase::Rewinding;
                flow.is_ended = false;
                // Over the link before it was asked for the same: its answer is to both.
                if flow.rewinding.replace(at) != Some(at) {
                    self.actions.push_back(Action::Rewind { at, is_ours, is_over });
                }
            }
        }
        Ok(())
    }

    fn marked(&mut self, mark: FlowMark) -> Result<()> {
        let Some(flow) = self.flows.get_mut(&mark.flow) else {
            return self.began(mark.flow, "a mark of a flow that there is not");
        };
        if flow.phase != Phase::Open {
            return Ok(());
        }
        let Some(ours) = flow.digest_at(mark.bytes) else {
            // One that crossed another is of the past; what was never sent cannot be marked.
            return match mark.bytes < flow.from.0 {
                true => Ok(()),
                false => Err(protocol("a mark where no piece ends")),
            };
        };
        if ours != mark.digest {
            let failure = differs(mark.bytes);
            self.give_up(mark.flow, failure);
            return Ok(());
        }
        while flow.kept.front().is_some_and(|kept| kept.piece.end() <= mark.bytes) {
            if let Some(kept) = flow.kept.pop_front() {
                self.kept_bytes -= kept.piece.bytes.len();
                self.kept_pieces -= 1;
            }
        }
        flow.from = (mark.bytes, mark.digest);
        self.progress.marked_bytes += mark.bytes.saturating_sub(flow.marked.max(flow.resumed));
        flow.marked = flow.marked.max(mark.bytes);
        Ok(())
    }

    fn again(&mut self, flow: EntryId, offset: u64) {
        let Some(known) = self.flows.get_mut(&flow).filter(|known| known.phase == Phase::Open) else {
            return;
        };
        let Some(kept) = known.kept.iter_mut().find(|kept| kept.piece.offset == offset) else { return };
        kept.damaged += 1;
        kept.carrier = Carrier::Waiting;
        let end = kept.piece.end();
        if kept.damaged < DAMAGED_MAX {
            self.ready.push_front((flow, offset));
            return;
        }
        let cause = format!("the same bytes arrived damaged {DAMAGED_MAX} times");
        let failure = Failure::new(FailureKind::Damage, VERIFY, cause).in_range(offset, end);
        self.give_up(flow, failure.because(Reason::Damaged));
    }

    fn hear_settled(&mut self, flow: EntryId, outcome: Outcome) -> Result<()> {
        let Some(known) = self.flows.get(&flow) else {
            return self.began(flow, "a flow that there is not was settled");
        };
        let (bytes, ours) = known.end();
        if let Outcome::Done { digest, .. } = &outcome {
            if !known.is_ended {
                return Err(protocol("a flow was settled before its end"));
            }
            if *digest != Some(ours) {
                let outcome = Outcome::Failed(differs(bytes).at(&known.begin.path));
                self.settle(flow, outcome);
                return Ok(());
            }
            self.progress.marked_bytes += bytes.saturating_sub(known.marked.max(known.resumed));
        }
        self.settle(flow, outcome);
        Ok(())
    }

    /// A word about a flow that is over, or not asked about yet, is of the past; there is none about one that never
    /// began.
    fn began(&self, flow: EntryId, else_cause: &str) -> Result<()> {
        match flow.0 < self.next_flow {
            true => Ok(()),
            false => Err(protocol(else_cause)),
        }
    }

    fn settle(&mut self, flow: EntryId, outcome: Outcome) {
        let Some(known) = self.flows.remove(&flow) else { return };
        let end = known.end();
        self.kept_pieces -= known.kept.len();
        self.kept_bytes -= known.kept.iter().map(|kept| kept.piece.bytes.len()).sum::<usize>();
        self.progress.settled += 1;
        self.progress.damaged += u64::from(outcome.is_damage());
        let Flow { begin, name, is_again, again_bytes, next, .. } = known;
        if matches!(outcome, Outcome::Done { .. }) {
            if self.done.len() >= limits::FLOWS_DONE_KEPT_MAX
                && let Some(first) = self.done.pop_front()
            {
                self.done_bytes -= first.held_bytes();
                self.forgotten += 1;
            }
            let done = Done { begin: begin.clone(), name: name.clone(), end };
            self.done_bytes += done.held_bytes();
            self.done.push_back(done);
        }
        self.actions.push_back(Action::Settled(Box::new(Over { begin, name, bytes: end.0, outcome })));
        if let Some(next) = next {
            self.begin_held(next);
        }
        if is_again {
            self.asked_again = (self.asked_again.0 - 1, self.asked_again.1 - again_bytes);
            self.ask_again();
            self.tell_last();
        }
    }

    /// Whether a flow that failed when so many bytes were read has been begun again, and as many are durable.
    pub fn goes_on(&self, begin: &FlowBegin, bytes: u64) -> bool {
        let key = retry::key(begin);
        let is_well = |flow: &Flow| flow.phase == Phase::Open && flow.from.0 >= bytes;
        self.flows.values().any(|flow| is_well(flow) && retry::key(&flow.begin) == key)
    }

    /// What a flow that is not over began with.
    pub fn begun(&self, flow: EntryId) -> Option<&FlowBegin> {
        self.flows.get(&flow).map(|known| &known.begin)
    }

    /// Not before everything has begun that is asked about: who hears it counts what it has.
    fn tell_last(&mut self) {
        if self.is_last
            && self.again.is_empty()
            && self.is_linked
            && !std::mem::replace(&mut self.is_last_told, true)
        {
            self.say(FlowMessage::Last);
        }
    }

    fn say_begins(&mut self, begins: &[FlowBegin]) {
        let bytes_of = |begin: &FlowBegin| size_of::<FlowBegin>() + begin.path.as_bytes().len();
        for batch in batches(begins, limits::OFFER_ENTRIES_MAX, bytes_of) {
            self.say(FlowMessage::Begin(batch.to_vec()));
        }
    }

    fn say(&mut self, message: FlowMessage) {
        self.actions.push_back(Action::Say(TransferMessage::Flow(message)));
    }
}

fn differs(bytes: u64) -> Failure {
    let cause = "the destination's first bytes have another digest than the source's";
    Failure::new(FailureKind::Damage, "compare the stream", cause).in_range(0, bytes)
}

#[cfg(test)]
mod tests;
