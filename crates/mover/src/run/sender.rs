//! The sending side of a transfer at work: a scan thread, and what streams do with the machine's decisions.

use crate::endpoint::Source;
use crate::event::{Event, Events};
use crate::failure::{self, Failure};
use crate::link::FrameBuffer;
use crate::order;
use crate::run::party::{Common, Party, State};
use crate::run::{Clock, Ended, LineSink, Outbox, Told};
use crate::stage::ahead::Ahead;
use crate::stage::compress::Packer;
use crate::stage::pace::Pace;
use crate::stage::read::OpenFiles;
use crate::stage::send::Outlet;
use crate::stage::turn::Gate;
use crate::stage::{Booking, Stage};
use crate::transfer::sender::{Action, Limits, Next, Progress, Sender, Work};
use crate::tune::ledbat::{Ledbat, Sample};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_wire::message::{ScanTotals, Steer, Terms, TransferMessage, TransferNumber};

mod sending;

mod scan;

/// A transfer's sending side. Shared by the scan thread, the stream threads and the control thread.
pub struct SendRun {
    common: Common<Sender>,
    /// Of all its life: asked for each frame.
    number: TransferNumber,
    source: Arc<dyn Source>,
    pace: Pace,
    /// For orders that have turns.
    gate: Option<Gate>,
    /// The source does not say where files lie: told once.
    layout_is_missed: AtomicBool,
    /// How much is left to it, if it yields.
    ledbat: Mutex<Ledbat>,
    events: Events,
    clock: Clock,
}

/// What one stream keeps between pieces of work.
pub struct SendLane {
    /// Number of the stream.
    pub stream: u16,
    files: OpenFiles,
    packer: Option<Packer>,
    buffer: FrameBuffer,
    /// Since when there is nothing to do, and whether that is because nothing more may be under way.
    idle: Option<(Instant, bool)>,
    ahead: Ahead,
}

impl SendLane {
    /// For stream `stream`, with a buffer for `terms`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(stream: u16, terms: &Terms) -> io::Result<Self> {
        let payload_bytes = crate::run::session::payload_max(terms);
        Ok(SendLane {
            stream,
            files: OpenFiles::default(),
            packer: if terms.compress { Some(Packer::new(payload_bytes)?) } else { None },
            buffer: FrameBuffer::new(payload_bytes)?,
            idle: None,
            ahead: Ahead::new(terms.disk, payload_bytes),
        })
    }
}

/// What a stream found to do.
pub enum Did {
    /// Something; ask again at once.
    Work,
    /// Nothing now, for at most so long.
    Nothing(Option<Duration>),
    /// Nothing, ever.
    Over,
}

impl SendRun {
    /// A sender for transfer `number`; starts to scan with [`SendRun::start`].
    pub fn new(
        number: TransferNumber,
        source: Arc<dyn Source>,
        terms: Terms,
        limits: Limits,
        outbox: Box<dyn Outbox>,
        events: Events,
    ) -> Arc<Self> {
        let pace = Pace::new(terms.rate_bytes_per_s);
        let ledbat = Ledbat::new(terms.segment_bytes);
        if terms.yields {
            pace.leave(Some(ledbat.rate()));
        }
        let gate = Gate::of(terms.disk.source.order.unwrap_or(order::SOURCE));
        let machine = Sender::new(terms.clone(), limits);
        Arc::new(SendRun {
            common: Common::new(terms, source.device(), (machine, ()), (number, Some(outbox))),
            number,
            source,
            gate,
            layout_is_missed: AtomicBool::new(false),
            pace,
            ledbat: Mutex::new(ledbat),
            events,
            clock: Clock::start(),
        })
    }

    /// Turns its knobs, from now on.
    pub fn steer(&self, steer: &Steer) {
        self.pace.ask(steer.rate_bytes_per_s);
        let mut state = self.lock();
        state.machine.steer(steer);
        state.work();
    }

    /// The rate that it is held to now, in bytes a second.
    pub fn rate(&self) -> Option<u64> {
        self.pace.rate()
    }

    /// Yields to others by what its streams show.
    pub fn leave_room(&self, sample: &Sample) {
        let mut ledbat = self.ledbat.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let rate = ledbat.sample(self.clock.now(), sample);
        tracing::debug!(?sample, queue = ?ledbat.queue(), rate, "yielding");
        self.pace.leave(Some(rate));
    }

    /// Starts the scan on a thread of its own.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        let run = self.clone();
        std::thread::Builder::new().name("scan".into()).spawn(move || run.scan())?;
        Ok(())
    }

    /// Counters so far.
    pub fn progress(&self) -> Progress {
        self.lock().machine.progress()
    }

    /// What the scan found, when it is over.
    pub fn scan_totals(&self) -> Option<ScanTotals> {
        self.lock().machine.scan_totals().cloned()
    }

    /// Whether something waits for the receiver's word.
    pub fn awaits_peer(&self) -> bool {
        self.lock().machine.awaits_peer()
    }

    /// Has the lines of the receipt told, from now on: call it before the first entry settles. The last ones come
    /// with [`Party::take_root`].
    pub fn tell_lines(&self, sink: LineSink) {
        let mut state = self.lock();
        state.machine.keep_pieces();
        state.end.tell_lines(sink);
    }

    /// The receiver said something.
    ///
    /// # Errors
    /// `Protocol`; the session ends then.
    pub fn hear(&self, message: TransferMessage) -> failure::Result<()> {
        let mut state = self.lock();
        match state.end.hear(message) {
            None => self.common.notify(),
            Some(message) => {
                let repairs = state.machine.progress().repairs;
                state.machine.hear(message)?;
                let repaired = state.machine.progress().repairs - repairs;
                if repaired > 0 {
                    (self.events)(Event::Repaired(repaired));
                }
            }
        }
        self.pump(&mut state);
        // What was wanted or asked for again is work, whether or not there was something to say.
        state.work();
        Ok(())
    }

    /// Ends the transfer from this side.
    pub fn abort(&self, failure: Failure) {
        self.common.abort(failure);
    }

    /// The link stands (again).
    pub fn link_up(&self) {
        let mut state = self.lock();
        state.machine.link_up();
        self.pump(&mut state);
    }

    /// A stream is ready.
    pub fn stream_up(&self, stream: u16) {
        // Told twice by a stream that comes while the transfer is added.
        if self.lock().machine.stream_up(stream) {
            self.common.accounts.enter(Stage::Read);
        }
    }

    /// A stream is gone.
    pub fn stream_lost(&self, stream: u16) {
        self.common.accounts.leave(Stage::Read);
        let mut state = self.lock();
        state.machine.stream_lost(stream);
        self.pump(&mut state);
    }

    /// Does the next piece of work of this transfer on a stream.
    ///
    /// # Errors
    /// When the stream is gone. Everything else is told to the machine.
    pub fn work(&self, lane: &mut SendLane, outlet: &mut dyn Outlet) -> io::Result<Did> {
        let (next, turn, is_held_back) = {
            let mut state = self.lock();
            if state.end.is_closed {
                return Ok(Did::Over);
            }
            let next = state.machine.next_work(lane.stream, self.clock.now());
            // In the order in which chunks are handed out.
            let is_read = matches!(next, Next::Work(Work::Chunk(..) | Work::Compare(..)));
            let turn = self.gate.as_ref().filter(|_| is_read).map(Gate::draw);
            self.pump(&mut state);
            (next, turn, state.machine.is_held_back(lane.stream))
        };
        let idle = matches!(next, Next::Wait(_)).then(|| (Instant::now(), is_held_back));
        if let Some((since, was_held_back)) = std::mem::replace(&mut lane.idle, idle) {
            let waited = since.elapsed();
            let booking = match was_held_back {
                true => Booking { output: waited, ..Booking::default() },
                false => Booking { input: waited, ..Booking::default() },
            };
            self.common.accounts.book(Stage::Read, booking);
        }
        match next {
            Next::Done => return Ok(Did::Over),
            Next::Wait(until) => {
                return Ok(Did::Nothing(until.map(|until| until.saturating_sub(self.clock.now()))));
            }
            Next::Work(Work::Chunk(entry, chunk, copy)) => {
                self.send_chunk(lane, outlet, &entry, (chunk, copy), turn)?
            }
            Next::Work(Work::Compare(entry, chunk)) => {
                self.compare_chunk(lane, outlet, &entry, chunk, turn)?
            }
            Next::Work(Work::Pack(entries)) => self.send_pack(lane, outlet, &entries)?,
            Next::Work(Work::Check(entry)) => self.check(lane, &entry),
        }
        Ok(Did::Work)
    }

    /// Carries out what the machine wants. Called with the lock held, so that what is said keeps its order.
    fn pump(&self, state: &mut State<Sender, ()>) {
        let mut any = false;
        while let Some(action) = state.machine.take_action() {
            tracing::trace!(?action);
            any = true;
            match action {
                Action::Say(message) => state.say(message),
                Action::Settled(entry, outcome) => {
                    state.end.settled(&entry, &outcome);
                    (self.events)(Event::Settled(entry, outcome));
                }
                Action::Pieces(entry, pieces) => {
                    state.end.tell([Told::Pieces(entry.path.clone(), pieces)]);
                }
                Action::Aside(id, path, outcome) => {
                    if let Some(id) = id {
                        state.end.skipped(id);
                    }
                    (self.events)(Event::Aside(path, outcome));
                }
                Action::Deleted(path) => (self.events)(Event::Deleted(path)),
                Action::Finished(totals) => {
                    state.end.come(Ended::Finished(totals));
                }
                Action::Failed(failure) => {
                    state.end.come(Ended::Failed(failure));
                }
            }
        }
        if any {
            self.common.notify();
            state.work();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<Sender, ()>> {
        self.common.lock()
    }
}

impl Party for SendRun {
    type Machine = Sender;
    type Beside = ();

    fn common(&self) -> &Common<Sender> {
        &self.common
    }

    fn number(&self) -> TransferNumber {
        self.number
    }
}
