//! What gives frames to a channel.

use super::{ChannelWishes, HeldLevel, NewFrame, ProducerReport, SenderFigures, TakenBefore};
use crate::far_movers::{FarMovers, How};
use std::ffi::OsStr;
use std::time::Duration;
use thalweg_mover::admission::{SlotAsked, SlotHeld};
use thalweg_mover::event::{self, Events};
use thalweg_mover::failure::Result;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::flow::lags::Lag;
use thalweg_mover::run::frames::job::{Keeper, Opening, ProduceWishes};
use thalweg_mover::run::frames::produce::{Prepared, ProduceRun};

/// Everything that can be said about a sender.
#[derive(Clone)]
pub struct SenderWishes {
    /// Its name: 1 to 64 ASCII letters, digits, `-`, `_`, `.`. A sender that begins under a name that the hub knows
    /// goes on with its sequence. Default: a random one.
    pub producer: Option<String>,
    /// When the hub has a frame. Default: when it holds it in memory.
    pub level: HeldLevel,
    /// Payload bytes that are kept here until the hub has them, 64 KiB to 256 MiB (or one larger frame): pushes wait
    /// when they are used up. Default: 64 MiB.
    pub window_bytes: u64,
    /// How the channel is kept, if this is the first to open it.
    pub channel: ChannelWishes,
    /// TCP connections. Default: by round trip and cores, at most 4.
    pub streams: Option<u16>,
    /// Send only in windows that the daemon promises (`thalweg serve --slots`): frames that are pushed are at the hub,
    /// and known to be, within the deadline. Default: whenever there are frames.
    pub slot: Option<SlotAsked>,
    /// The link: patience is how long an outage is borne.
    pub link: LinkSettings,
    /// Hears of links lost and back, of what the slot promises, of what of the channel is not as it was asked for, and
    /// by which consumer this sender is held up.
    pub events: Events,
}

impl Default for SenderWishes {
    fn default() -> Self {
        SenderWishes {
            producer: None,
            level: HeldLevel::default(),
            window_bytes: super::receiver::WINDOW_BYTES,
            channel: ChannelWishes::default(),
            streams: None,
            slot: None,
            link: LinkSettings::default(),
            events: event::nobody(),
        }
    }
}

/// A frame that was digested. Cloning copies no payload.
#[derive(Clone)]
pub struct PreparedFrame(Prepared);

/// Gives frames to a channel. May be used from several threads; pushes get their sequence in the order in which they
/// come.
///
/// Dropped without [`Sender::finish`], the producer counts as gone: consumers are told, and a sender of the same name
/// may go on.
pub struct Sender {
    run: std::sync::Arc<ProduceRun>,
    keeper: Keeper,
    /// Closed after all others.
    _far_movers: FarMovers,
}

impl Sender {
    /// Reaches the channel and begins.
    ///
    /// # Errors
    /// `Usage` for a place that is no channel or wishes out of their range; `Busy` if a producer of this name has a
    /// link, or if the slot cannot be promised; `Connection`, `Permission`, `NotFound` if the place cannot be reached;
    /// `Unsupported` for durable frames where nothing can be written.
    pub fn open(place: &OsStr, how: How, wishes: SenderWishes) -> Result<Sender> {
        let mut far_movers = FarMovers::new(how);
        let (whom, place) = super::receiver::channel(place, &far_movers)?;
        let far = far_movers.reach(&whom)?.far;
        let opening = Opening {
            far,
            place,
            link: wishes.link,
            streams: wishes.streams,
            channel: wishes.channel,
            window_bytes: wishes.window_bytes,
            events: wishes.events,
        };
        let asked = ProduceWishes { producer: wishes.producer, level: wishes.level, slot: wishes.slot };
        let (run, keeper) = thalweg_mover::run::frames::job::produce(opening, asked)?;
        Ok(Sender { run, keeper, _far_movers: far_movers })
    }

    /// Its name.
    pub fn producer(&self) -> String {
        self.run.producer().to_string()
    }

    /// Gives a frame, and returns its sequence. The frame is digested here, in the caller's thread, and kept until the
    /// hub has it. Waits for room at most so long; `None`: as long as it takes.
    ///
    /// # Errors
    /// `Usage` for a frame beyond the limits or whose shape does not fit; `Busy` if there was no room in time (the
    /// frame was not taken), and for nothing else; else why the sender failed as a whole, `Connection` also where a hub
    /// does not let it back in.
    pub fn push(&self, frame: NewFrame, timeout: Option<Duration>) -> Result<u64> {
        self.push_prepared(self.prepare(frame)?, timeout)
    }

    /// Digests a frame for [`Sender::push_prepared`].
    ///
    /// # Errors
    /// `Usage` for a frame beyond the limits or whose shape does not fit.
    pub fn prepare(&self, frame: NewFrame) -> Result<PreparedFrame> {
        self.run.prepare(frame).map(PreparedFrame)
    }

    /// [`Sender::push`] of a frame that may have been tried before: it is not digested again.
    ///
    /// # Errors
    /// As [`Sender::push`].
    pub fn push_prepared(&self, frame: PreparedFrame, timeout: Option<Duration>) -> Result<u64> {
        self.run.push(frame.0, timeout)
    }

    /// Says that a set has so many frames (1 to 2^20), so that consumers are told whether they got all of it. May be
    /// said by several producers, before, among or after its frames; a set that is not complete is over when all that
    /// declared it or gave frames of it have ended. (A producer that gives its first frame of it later than that is too
    /// late.)
    ///
    /// # Errors
    /// `Usage` for a wrong number; why the sender failed.
    pub fn declare_set(&self, set: u64, frames: u32) -> Result<()> {
        self.run.declare(set, frames)
    }

    /// Says that no more of a set comes from this sender, which goes on with others: of a scan that was aborted. It is
    /// over, and consumers are told what is missing, when all have said so or ended that declared it or gave frames of
    /// it, and the hub has what they gave before. May be said again; of a set that is over it says nothing new. Without
    /// a [declaration](Sender::declare_set) nobody is told of the set.
    ///
    /// # Errors
    /// `Usage` after [`Sender::finish`]; why the sender failed.
    pub fn end_set(&self, set: u64) -> Result<()> {
        self.run.end_set(set)
    }

    /// The sequence of the next frame: so many the hub took before under this name, and this sender gave. One that goes
    /// on with files after a kill leaves out as many.
    pub fn next_sequence(&self) -> u64 {
        self.run.next_sequence()
    }

    /// What the hub took under this name before this sender came, if it knows all of it: not if an earlier hub had
    /// some, or if it has forgotten the name since.
    pub fn taken_before(&self) -> Option<TakenBefore> {
        self.run.taken_before()
    }

    /// Waits until the hub has every frame that was pushed, at most so long; `None`: as long as it takes. More may
    /// follow.
    ///
    /// # Errors
    /// `Busy` if that took longer; else why the sender failed.
    pub fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        self.run.flush(timeout)
    }

    /// Waits until the hub holds all that it took before under this name, as the level wants it, at most so long;
    /// `None`: as long as it takes. One that goes on after a kill asks before its first push: a hub that is killed
    /// while it has some of it in memory only loses that.
    ///
    /// # Errors
    /// `Busy` if that took longer: it may be asked again; `Connection` if the link was lost meanwhile, for the next hub
    /// may not have it; else why the sender failed.
    pub fn wait_for_earlier(&self, timeout: Option<Duration>) -> Result<()> {
        self.run.wait_for_earlier(timeout)
    }

    /// Says that no more will come, and waits until the hub has everything, at most so long; `None`: as long as it
    /// takes. May be called again after `Busy`.
    ///
    /// # Errors
    /// `Busy` if the hub did not have everything in time; else why the sender failed.
    pub fn finish(&self, timeout: Option<Duration>) -> Result<ProducerReport> {
        let report = self.run.finish(timeout)?;
        self.keeper.stop();
        Ok(report)
    }

    /// Ends at once. What the hub has not is lost with this sender.
    pub fn abort(&self) {
        self.run.abort();
        self.keeper.stop();
    }

    /// Figures so far.
    pub fn figures(&self) -> SenderFigures {
        self.run.figures()
    }

    /// What the slot promises, if there is one, and how late frames were so far: from pushed to known to be at the hub.
    /// With bursts that must be ready a period apart nothing is promised before the first.
    pub fn slot(&self) -> Option<(SlotHeld, Lag)> {
        self.run.slot()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.abort();
    }
}
