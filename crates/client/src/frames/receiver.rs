//! What takes frames from a channel.

use super::hub;
use super::{ChannelWishes, ConsumerReport, Delivery, FrameFrom, FramePolicy, ReceiverFigures};
use crate::far_movers::{self, FarMovers, How, Whom};
use std::ffi::OsStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_mover::event::{self, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::frames::consume::ConsumeRun;
use thalweg_mover::run::frames::job::{self, ConsumeWishes, Keeper, Opening};
use thalweg_wire::message::Place;

/// Bytes under way in a lane, if nobody says otherwise.
pub(super) const WINDOW_BYTES: u64 = 64 << 20;
/// For so long the place of a consumer is kept, if nobody says otherwise.
const KEEP: Duration = Duration::from_secs(30);

/// Everything that can be said about a receiver.
#[derive(Clone)]
pub struct ReceiverWishes {
    /// What happens when it is slower than the producers. Default: they wait.
    pub policy: FramePolicy,
    /// Shares frames with all others of this group: each goes to one of them. Named as producers are. Default:
    /// everything is for this consumer.
    pub group: Option<String>,
    /// Where it begins. Default: with everything that is there.
    pub from: FrameFrom,
    /// A name under which it may come back in another process, within `keep`, and go on behind what it took. Default:
    /// none.
    pub name: Option<String>,
    /// It ends when so many producers have finished, and all that are known. Default: 1.
    pub producers: u32,
    /// For so long the hub keeps its place when its link was closed; when that fell silent, as long as the patience of
    /// `link` if that is longer. Default: 30 s.
    pub keep: Duration,
    /// What the link could carry, in bits a second: the Streaming Speed Score is reckoned with it. Default: no score.
    pub link_bits_per_s: Option<u64>,
    /// Payload bytes that may be under way and not taken, 64 KiB to 256 MiB (or one larger frame). Default: 64 MiB;
    /// with
    /// [`FramePolicy::LatestOnly`] at most two frames.
    pub window_bytes: u64,
    /// How the channel is kept, if this is the first to open it.
    pub channel: ChannelWishes,
    /// TCP connections. Default: by round trip and cores, at most 4.
    pub streams: Option<u16>,
    /// The link: patience is how long an outage is borne, and how long producers of an earlier hub are waited for.
    pub link: LinkSettings,
    /// Hears of links lost and back, and of what of the channel is not as it was asked for.
    pub events: Events,
}

impl Default for ReceiverWishes {
    fn default() -> Self {
        ReceiverWishes {
            policy: FramePolicy::default(),
            group: None,
            from: FrameFrom::default(),
            name: None,
            producers: 1,
            keep: KEEP,
            link_bits_per_s: None,
            window_bytes: WINDOW_BYTES,
            channel: ChannelWishes::default(),
            streams: None,
            link: LinkSettings::default(),
            events: event::nobody(),
        }
    }
}

/// Takes frames from a channel. May be used from several threads: each delivery goes to one of them.
///
/// Dropped, it leaves the channel; one that has a name is [let go](Receiver::let_go).
pub struct Receiver {
    run: Arc<ConsumeRun>,
    keeper: Keeper,
    has_name: bool,
    /// Closed after all others; `None`: it was let go.
    far_movers: Mutex<Option<FarMovers>>,
}

impl Receiver {
    /// Reaches the channel and begins.
    ///
    /// # Errors
    /// `Usage` for a place that is no channel or wishes out of their range; `Connection`, `Permission`, `NotFound` if
    /// it cannot be reached; `Unsupported` for [`FramePolicy::Spill`] where nothing can be written.
    pub fn open(place: &OsStr, how: How, wishes: ReceiverWishes) -> Result<Receiver> {
        let mut far_movers = FarMovers::new(how);
        let has_name = wishes.name.is_some();
        let asked = ConsumeWishes {
            policy: wishes.policy,
            group: wishes.group,
            from: wishes.from,
            name: wishes.name,
            producers: wishes.producers,
            keep: wishes.keep,
            link_bits_per_s: wishes.link_bits_per_s,
        };
        let (whom, place) = channel(place, &far_movers)?;
        if let Some(hub) = far_movers.ticket(&whom).ok().flatten().and_then(|pass| hub::here(&pass.server()))
        {
            let (run, keeper) = hub.consume_within(&place, asked, (wishes.window_bytes, wishes.channel))?;
            return Ok(Receiver { run, keeper, has_name, far_movers: Mutex::new(Some(far_movers)) });
        }
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
        let (run, keeper) = job::consume(opening, asked)?;
        Ok(Receiver { run, keeper, has_name, far_movers: Mutex::new(Some(far_movers)) })
    }

    /// What comes next; waits at most so long, `None`: as long as it takes. `Ok(None)`: nothing came in time, or the
    /// end was delivered before. What is returned counts as taken: the hub need not keep it any more.
    ///
    /// # Errors
    /// Why the receiver failed as a whole.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Option<Delivery>> {
        self.run.next(timeout)
    }

    /// From now on what [`Receiver::next`] returned counts as taken only with [`Receiver::settle`]: for who puts it
    /// away, and may be killed before it is. As much as the window may be in hand. The end must be settled too, or
    /// [`Receiver::close`]d: that leaves the channel.
    pub fn hold(&self) {
        self.run.hold();
    }

    /// All that was returned so far is put away: the hub need not keep it any more.
    pub fn settle(&self) {
        self.run.settle();
    }

    /// Whether so much is in hand, a quarter of the window, that the hub would soon have to wait.
    pub fn wants_settling(&self) -> bool {
        self.run.wants_settling()
    }

    /// Whether the hub goes on where another process under this name ended. What that had in hand comes again.
    pub fn has_gone_on(&self) -> bool {
        self.run.has_gone_on()
    }

    /// Ends without leaving the channel: for as long as it said ([`ReceiverWishes::keep`]) its place is kept for who
    /// comes back under its name, with all that was not taken. One without a name, or at its end, leaves. Returns what
    /// it got.
    pub fn let_go(&self) -> ConsumerReport {
        if !self.has_name {
            return self.close();
        }
        self.run.let_go();
        let report = self.close();
        // With the session ends what stands for it at the hub: else who comes back would find its name taken.
        drop(lock(&self.far_movers).take());
        report
    }

    /// Whether nothing follows: the end was delivered, it was closed, or it failed.
    pub fn is_over(&self) -> bool {
        self.run.is_over()
    }

    /// Figures so far.
    pub fn figures(&self) -> ReceiverFigures {
        self.run.figures()
    }

    /// Leaves the channel: nothing is kept for it. Returns what it got.
    pub fn close(&self) -> ConsumerReport {
        let report = self.run.leave();
        self.keeper.stop();
        report
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// The far mover that a channel is at, and its place there.
pub(super) fn channel(place: &OsStr, far_movers: &FarMovers) -> Result<(Whom, Place)> {
    let named = far_movers.named(place)?;
    let Some((whom, there)) = Whom::of(&named).zip(far_movers::place_there(&named)) else {
        let cause =
            "a channel of frames is at a daemon, tw://HOST/EXPORT/NAME: a path of this machine is none";
        return Err(Failure::new(FailureKind::Usage, "read place", cause));
    };
    Ok((whom, there))
}
