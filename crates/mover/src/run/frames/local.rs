//! A consumer in the process of its hub: what it gets is the hub's own memory.
//!
//! Both ends of the lane decide as over a link, and say the same to each other. But nothing is sealed, sent, copied or
//! digested again: a payload was held against its digest when the hub took it, and again when it was read from the log.

use super::consume::ConsumeRun;
use super::hub::{Attached, HubChannel};
use super::hub_consumer::HubConsumer;
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::OPEN_CHANNEL;
use crate::run::bell::Bell;
use crate::run::copy::Stop;
use crate::run::thread;
use crate::run::transfer::Transfer;
use crate::run::within::{Heard, NUMBER, Within};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_wire::message::{FrameRole, FrameTerms, Terms};

/// Between two looks whether it is over.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Looks between two ticks of the consumer.
const TICK_EVERY: u32 = 5;
/// Between two looks whether a consumer that was let go came back under its name.
const LOOK_FOR_NEXT: Duration = Duration::from_millis(100);
/// A bell that nobody rings is looked at all the same.
const BELL: Duration = Duration::from_millis(250);

/// Both ends, attached to each other. Dropping it ends both; what the consumer said last is heard. The place of one
/// that was let go is kept for as long as it asked.
pub(super) struct Joined {
    run: Arc<ConsumeRun>,
    channel: Arc<HubChannel>,
    keep: Duration,
    consumer: Arc<HubConsumer>,
    link: Arc<dyn Transfer>,
    within: Within,
}

impl Joined {
    /// Attaches the consumer to the channel, and begins.
    ///
    /// # Errors
    /// As [`HubChannel::attach`]; if there is no thread to be had.
    pub fn begin(
        run: Arc<ConsumeRun>,
        channel: Arc<HubChannel>,
        frames: &FrameTerms,
        terms: Terms,
    ) -> Result<Joined> {
        let (within, [hub, client], heard) = Within::new();
        let attached = channel.attach(NUMBER, terms.clone(), frames, hub)?;
        let (Attached::Consumer(consumer, instance), FrameRole::Consume(asks)) = (&attached, &frames.role)
        else {
            attached.give_up();
            return Err(Failure::new(FailureKind::Internal, OPEN_CHANNEL, "this is no consumer"));
        };
        let (consumer, keep) = (consumer.clone(), Duration::from_millis(asks.keep_ms.into()));
        let link = run.attach(NUMBER, terms, *instance, client);
        let mut joined = Joined { run, channel, keep, consumer, link, within };
        joined.start(heard)?;
        Ok(joined)
    }

    fn start(&mut self, [hub_hears, client_hears]: [Heard; 2]) -> Result<()> {
        // What the hub says before it hands anything out comes by another thread than that.
        self.channel.begin();
        client_hears.hear_now(|message| self.link.hear(message))?;
        let within = &mut self.within;
        let (consumer, link) = (self.consumer.clone(), self.link.clone());
        let failed = |run: &Arc<ConsumeRun>| {
            let run = run.clone();
            move |failure| run.fail(failure)
        };
        within.deliver(hub_hears, move |message| consumer.hear(message), failed(&self.run))?;
        within.deliver(client_hears, move |message| link.hear(message), failed(&self.run))?;
        let (consumer, run) = (self.consumer.clone(), self.run.clone());
        within.spawn("frames", failed(&self.run), move |bell| {
            if let Err(failure) = hand_over(bell, &consumer, &run) {
                run.fail(failure);
            }
        })?;
        self.run.begin();
        Ok(())
    }

    /// Until nobody needs it any more.
    pub fn ride(&self, stop: &Stop) {
        let mut looks = 0;
        while !stop.is_asked() && !self.run.is_over() {
            if self.channel.is_closed() {
                let cause = "the hub of this process was stopped";
                self.run.fail(Failure::new(FailureKind::Connection, "take frames", cause));
            }
            looks += 1;
            if looks % TICK_EVERY == 0 {
                self.link.tick();
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.within.close();
        self.link.detach();
        if self.consumer.is_over() {
            return;
        }
        self.consumer.detach();
        let is_kept = self.run.is_let_go() && {
            let (channel, consumer, keep) = (self.channel.clone(), self.consumer.clone(), self.keep);
            let given_up = consumer.clone();
            let keeps = move || keep_place(&channel, &consumer, keep);
            thread::guarded("frames", move |_| given_up.give_up(), keeps).is_ok()
        };
        if !is_kept {
            self.consumer.give_up();
        }
    }
}

/// Until another consumer has the place of this one, or for so long.
fn keep_place(channel: &HubChannel, consumer: &HubConsumer, keep: Duration) {
    let since = Instant::now();
    while !channel.is_closed() && !consumer.is_replaced() && since.elapsed() < keep {
        std::thread::sleep(LOOK_FOR_NEXT);
    }
    match consumer.is_replaced() {
        true => consumer.forget(),
        false => consumer.give_up(),
    }
}

/// What the hub has for the consumer, one item after the other.
fn hand_over(bell: &Bell, consumer: &HubConsumer, run: &ConsumeRun) -> Result<()> {
    loop {
        let seen = bell.rings();
        while let Some((epoch, number, what)) = consumer.next_item(0, &|| false) {
            run.hand_over(epoch, number, what)?;
        }
        if !bell.wait(seen, BELL) {
            return Ok(());
        }
    }
}
