//! What strikes, and how it heals.

use super::{STREAMS, World};
use crate::frames::channel::{Channel, Record};
use std::time::Duration;
use thalweg_wire::message::Item;

impl World {
    pub(super) fn strike(&mut self) -> Result<(), String> {
        self.heal()?;
        if self.class == 0 || !self.random.percent(4) {
            return Ok(());
        }
        self.faults += 1;
        let fault = if self.class == 6 { self.random.within(1, 5) } else { self.class };
        let maker = self.random.below(self.makers.len() as u64) as usize;
        let taker = self.random.below(self.takers.len() as u64) as usize;
        let at_maker = self.random.percent(50);
        match fault {
            1 => self.takers[taker].stalled_until = self.step + self.random.below(400),
            2 => {
                let stream = self.random.below(STREAMS.into()) as u16;
                if at_maker {
                    self.makers[maker].wire.streams[usize::from(stream)].clear();
                    self.makers[maker].machine.stream_lost(stream);
                } else {
                    let taker = &mut self.takers[taker];
                    taker.wire.streams[usize::from(stream)].clear();
                    self.hub.consumer_stream_lost(
                        taker.wire.attachment,
                        &taker.key,
                        &taker.asks.consumer,
                        stream,
                    );
                }
            }
            3 => {
                // With or without its session.
                let wire = match at_maker {
                    true => &mut self.makers[maker].wire,
                    false => &mut self.takers[taker].wire,
                };
                wire.clear();
                wire.up = false;
                if !at_maker && self.random.percent(30) {
                    self.give_up(taker)?;
                }
            }
            4 => self.kill(at_maker, maker, taker)?,
            _ => self.restart_hub()?,
        }
        Ok(())
    }

    /// What has no link gets one again, sometimes.
    pub(super) fn heal(&mut self) -> Result<(), String> {
        for index in 0..self.makers.len() {
            let maker = &self.makers[index];
            let is_there = !maker.is_dead && !maker.finished && maker.begins_at <= self.step;
            if !maker.wire.up && is_there && self.random.percent(30) {
                if self.makers[index].wire.needs_session || self.random.percent(50) {
                    self.attach_maker(index)?;
                } else {
                    let maker = &mut self.makers[index];
                    maker.wire.up = true;
                    maker.machine.unlink();
                    (0..STREAMS).for_each(|stream| maker.machine.stream_lost(stream));
                    self.hub.link_up(maker.wire.attachment);
                    self.pump()?;
                }
            }
        }
        for index in 0..self.takers.len() {
            let taker = &mut self.takers[index];
            if !taker.wire.up && !taker.is_dead && self.random.percent(30) {
                if taker.wire.needs_session || self.random.percent(50) {
                    self.attach_taker(index)?;
                } else {
                    taker.wire.up = true;
                    self.hub.pause_consumer(taker.wire.attachment, &taker.key, &taker.asks.consumer);
                    taker.machine.unlink();
                    taker.machine.link_up();
                    self.pump()?;
                }
            }
        }
        // Those that were killed or have finished do not come back.
        if self.makers.iter().all(|maker| maker.is_dead || maker.finished || maker.wire.up)
            && self.random.percent(10)
        {
            self.hub.give_up_absent();
            self.hub.give_up_earlier(Duration::from_nanos(self.now));
        }
        Ok(())
    }

    /// An outage takes longer than the hub waits for a consumer, which comes back all the same.
    fn give_up(&mut self, taker: usize) -> Result<(), String> {
        let taker = &mut self.takers[taker];
        if taker.is_dead || taker.ended {
            return Ok(());
        }
        (taker.was_given_up, taker.wire.needs_session) = (true, true);
        self.given_up += 1;
        self.hub.leave(taker.wire.attachment, &taker.key, &taker.asks.consumer);
        self.hub.admit(self.now);
        self.pump()
    }

    fn kill(&mut self, at_maker: bool, maker: usize, taker: usize) -> Result<(), String> {
        self.kills += 1;
        if at_maker {
            let maker = &mut self.makers[maker];
            // Of one that has not come yet the hub would never hear.
            if maker.is_dead || maker.finished || maker.wire.attachment == 0 {
                return Ok(());
            }
            maker.is_dead = true;
            maker.wire.up = false;
            maker.wire.clear();
            self.hub.give_up(maker.wire.attachment, &maker.id);
        } else {
            // One stays.
            if self.takers.iter().filter(|taker| !taker.is_dead).count() < 2 || self.takers[taker].is_dead {
                return Ok(());
            }
            let taker = &mut self.takers[taker];
            taker.is_dead = true;
            taker.wire.up = false;
            taker.wire.clear();
            self.hub.leave(taker.wire.attachment, &taker.key, &taker.asks.consumer);
        }
        self.hub.admit(self.now);
        self.pump()
    }

    /// Another hub finds what the log has, if it records; of what was not synced, a part.
    fn restart_hub(&mut self) -> Result<(), String> {
        self.restarts += 1;
        self.hub = Channel::new(&self.wishes, self.memory_max, self.restarts << 32);
        let kept = match self.spill.is_some_and(|spill| spill.is_recorded) {
            false => 0,
            true => {
                let through = self.synced_through;
                let synced = self.stored.iter().filter(|(position, ..)| *position < through).count();
                synced + self.random.below((self.stored.len() - synced) as u64 + 1) as usize
            }
        };
        self.stored.truncate(kept);
        self.writes.clear();
        self.at = (self.stored.back().map_or(0, |(.., at)| at.file + 1), 0);
        for (position, record, at) in &self.stored {
            let item = match record {
                Record::Frame(held) => Item::Frame(Box::new(held.head.clone())),
                Record::Note(item) => item.clone(),
            };
            self.hub.restore(*position, item, *at);
        }
        self.written_through = self.stored.back().map_or(0, |(position, ..)| position + 1);
        self.synced_through = self.written_through;
        if let Some(spill) = self.spill {
            self.hub.set_spill(spill);
        }
        self.hub.restored();
        for maker in self.makers.iter_mut().filter(|maker| maker.finished) {
            let shown = self.stored.iter().map(|(_, record, _)| match record {
                Record::Frame(held) if held.head.producer == maker.id => held.head.sequence + 1,
                Record::Note(Item::ProducerOver { producer, frames, .. }) if *producer == maker.id => *frames,
                _ => 0,
            });
            maker.known = maker.known.min(shown.max().unwrap_or(0));
        }
        // They come back one after the other, in any order.
        for wire in self.makers.iter_mut().map(|maker| &mut maker.wire) {
            wire.lose();
        }
        for wire in self.takers.iter_mut().map(|taker| &mut taker.wire) {
            wire.lose();
        }
        Ok(())
    }
}
