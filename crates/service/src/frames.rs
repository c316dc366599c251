//! The server's side of frames: channels below exports, and who is at them.

use crate::export::Exports;
use crate::host::{Host, check_congestion, in_thread};
use crate::log::{Done, Line};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::frames::ChannelWishes;
use thalweg_mover::plan;
use thalweg_mover::run::frames::StorePlace;
use thalweg_mover::run::frames::consume::ConsumeRun;
use thalweg_mover::run::frames::hub::{Attached, ChannelKey};
use thalweg_mover::run::frames::job::{self, ConsumeWishes, Keeper};
use thalweg_mover::run::frames::windows::is_of_window;
use thalweg_mover::run::session::{Session, Transfer};
use thalweg_wire::message::{
    ChannelStatus, Direction, FramePolicy, FrameRole, FrameTerms, Message, Open, Opened, Place, SourceForm,
    Terms,
};
use thalweg_wire::path::Escaped;

/// Between two looks whether a client is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// For so long a producer without a link is waited for before its consumers are told that it is gone.
const PRODUCER_PATIENCE: Duration = Duration::from_secs(30);
/// A client that comes back is let in when its older link was silent for so long.
const COMES_BACK: Duration = Duration::from_secs(5);

impl Host {
    pub(crate) fn open_frames(&self, session: &Arc<Session>, open: Open, frames: &FrameTerms, line: &Line) {
        let number = open.transfer;
        let attached = self.attach_frames(session, &open, frames, line);
        let (instance, refused) = match &attached {
            Ok(attached) => (attached.instance(), None),
            Err(failure) => (0, Some(failure.clone())),
        };
        if let Some(failure) = &refused {
            line.tell(Done::default(), Err(failure));
            // What the client says to it now crossed our answer.
            session.remove(number);
        }
        let opened = Opened { transfer: number, source: SourceForm::Many, instance, refused };
        if let Err(failure) = session.say(Message::Opened(opened)) {
            tracing::info!(%failure, "not opened");
        }
    }

    fn attach_frames(
        &self,
        session: &Arc<Session>,
        open: &Open,
        frames: &FrameTerms,
        line: &Line,
    ) -> Result<Attached> {
        let (is_producer, keep) = match &frames.role {
            FrameRole::Produce { .. } => (true, PRODUCER_PATIENCE),
            FrameRole::Consume(consume) => (false, Duration::from_millis(consume.keep_ms.into())),
        };
        if (open.direction == Direction::Push) != is_producer {
            return Err(Failure::new(
                FailureKind::Protocol,
                "open a channel",
                "producers push, consumers pull",
            ));
        }
        if let Some(name) = &open.terms.congestion {
            check_congestion(name)?;
        }
        let writes = is_producer
            || frames.channel.is_recorded
            || matches!(&frames.role, FrameRole::Consume(consume) if consume.policy == FramePolicy::Spill);
        let (key, store) = channel_at(&self.exports, &open.places[0], writes)?;
        let channel = self.hub.channel(&key, &frames.channel, store)?;
        let since = Instant::now();
        let attached = loop {
            match channel.attach(open.transfer, open.terms.clone(), frames, session.outbox()) {
                // Its own older link, which is about to be noticed as lost.
                Err(failure)
                    if failure.kind == FailureKind::Busy
                        && !is_of_window(&failure)
                        && since.elapsed() < COMES_BACK =>
                {
                    std::thread::sleep(LOOK_AGAIN);
                }
                other => break other?,
            }
        };
        if let Err(failure) = session.add(open.transfer, Transfer::Frames(attached.link())) {
            attached.give_up();
            return Err(failure);
        }
        channel.begin();
        let (session, number) = (session.clone(), open.transfer);
        let link = attached.link();
        let (watched, line) = (attached.clone(), line.clone());
        let watches = in_thread("frames", move || {
            let is_here =
                || !session.is_closed() && session.lost_since().is_none_or(|at| at.elapsed() <= keep);
            while !watched.is_over() && is_here() {
                std::thread::sleep(LOOK_AGAIN);
            }
            let left = Instant::now();
            link.detach();
            session.remove(number);
            // It may come back in another session.
            let is_awaited = || !watched.is_over() && !watched.is_replaced();
            while is_awaited() && left.elapsed() < keep {
                std::thread::sleep(LOOK_AGAIN);
            }
            let is_given_up = is_awaited();
            match is_given_up {
                true => watched.give_up(),
                false => watched.forget(),
            }
            let done = Done { bytes: link.moved_bytes(), ..Done::default() };
            match watched.failure().or_else(|| is_given_up.then(gone)) {
                Some(failure) => line.tell(done, Err(&failure)),
                None if watched.is_over() => line.tell(done, Ok(None)),
                // It goes on by another link, which has a line of its own.
                None => {}
            }
        });
        // Nobody would see it go, and its window would stay taken.
        watches.inspect_err(|_| attached.give_up())?;
        tracing::debug!(is_producer, "frames");
        Ok(attached)
    }

    /// Attaches a consumer of this process to a channel, and begins. `kept`: how the channel is kept, if this is the first
    /// to open it; `window_bytes`: what may be under way, as over a link.
    ///
    /// # Errors
    /// Why it cannot begin, as over a link.
    pub fn consume_within(
        &self,
        place: &Place,
        wishes: ConsumeWishes,
        (window_bytes, kept): (u64, ChannelWishes),
    ) -> Result<(Arc<ConsumeRun>, Keeper)> {
        let writes = kept.is_recorded || wishes.policy == FramePolicy::Spill;
        let (key, store) = channel_at(&self.exports, place, writes)?;
        let channel = self.hub.channel(&key, &kept, store)?;
        let terms = Terms::of(plan::CHUNK_BYTES, plan::SEGMENT_BYTES);
        job::consume_within(channel, wishes, (window_bytes, kept), terms)
    }

    /// Why the spill log of a channel cannot be written for now, if it cannot; `None` also for a channel that nobody opened.
    pub fn spill_trouble(&self, place: &Place) -> Option<String> {
        let (key, _) = channel_at(&self.exports, place, false).ok()?;
        self.hub.spill_trouble(&key)
    }

    /// How a channel stands.
    ///
    /// # Errors
    /// `NotFound` if nobody has opened it; why it cannot be one.
    pub fn channel_status(&self, place: &Place) -> Result<ChannelStatus> {
        let (key, _) = channel_at(&self.exports, place, false)?;
        self.hub.status(&key).ok_or_else(|| {
            Failure::new(
                FailureKind::NotFound,
                "look at a channel",
                format!("nobody has opened `{}/{}` since the hub began", key.0, Escaped(&key.1)),
            )
        })
    }
}

fn gone() -> Failure {
    Failure::new(FailureKind::Connection, "serve", "the client did not come back")
}

/// A channel's key, and where its log may be.
fn channel_at(exports: &Exports, place: &Place, writes: bool) -> Result<(ChannelKey, Option<StorePlace>)> {
    let resolved = exports.resolve(place, writes)?;
    let Some(below) = resolved.below else {
        let cause = "channels of frames live in daemons, below an export";
        return Err(Failure::new(FailureKind::Unsupported, "open a channel", cause));
    };
    if resolved.path.is_empty() || resolved.trailing_slash {
        let cause = "a channel has a name below its export";
        return Err(Failure::new(FailureKind::Usage, "open a channel", cause));
    }
    let key = (place.export.clone().unwrap_or_default(), resolved.path.clone());
    // Who may not write there may not have it written either.
    let can_write = exports.resolve(place, true).is_ok();
    Ok((key, can_write.then_some(StorePlace { below, path: resolved.path })))
}
