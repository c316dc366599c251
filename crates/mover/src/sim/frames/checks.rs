//! What is checked after each step, and in the end.

use super::{Made, Taker, World};
use crate::frames::lane::cost;
use std::collections::BTreeSet;
use thalweg_wire::message::{FrameFrom, FramePolicy};

impl World {
    pub(super) fn look(&self) -> Result<(), String> {
        let memory_bytes = self.hub.memory_bytes();
        // Besides, what those that were killed or given up had not taken.
        let killed = self.takers.iter().filter(|taker| taker.is_dead || taker.was_given_up);
        let memory_max = self.memory_max + killed.map(|taker| taker.window.bytes + cost(700, 0)).sum::<u64>();
        if memory_bytes > memory_max {
            return Err(format!("{memory_bytes} bytes in memory, of {memory_max}"));
        }
        for taker in &self.takers {
            if taker.machine.held_bytes() > taker.window.bytes + cost(700, 0) {
                return Err("a consumer holds more than its window".to_owned());
            }
        }
        Ok(())
    }

    pub(super) fn is_over(&self) -> bool {
        let is_made = self.makers.iter().all(|maker| maker.is_dead || maker.finished);
        // Consumers that met no producer wait for one at a hub that never heard of any, and rightly.
        let is_orphaned = is_made && self.hub.has_no_producers();
        let is_over =
            |taker: &Taker| taker.is_dead || taker.ended || is_orphaned && taker.machine.has().is_empty();
        is_made && self.takers.iter().all(is_over)
    }

    pub(super) fn at_end(&self) -> Result<(), String> {
        for maker in self.makers.iter().filter(|maker| !maker.is_dead) {
            let mut together = BTreeSet::new();
            let name = maker.id.as_str();
            for taker in self.takers.iter().filter(|taker| !taker.is_dead) {
                let got = taker.delivered.get(name).cloned().unwrap_or_default();
                if taker.asks.group.is_some() {
                    together.extend(got);
                    continue;
                }
                let next = taker.next.get(name).copied().unwrap_or(0);
                let from_start = taker.asks.from == FrameFrom::Start;
                if from_start && !(maker.known..=maker.frames).contains(&next) {
                    return Err(format!("of {name} only {next} of {} are delivered or named", maker.frames));
                }
                let has_room = self.spill.is_none_or(|spill| spill.bytes_max > 1_000_000);
                let keeps = taker.asks.policy == FramePolicy::Block
                    || taker.asks.policy == FramePolicy::Spill && has_room;
                // Whoever is there from the start; and nothing of what others left behind, or took while it was away.
                let was_there = !taker.was_given_up || self.takers.len() == 1;
                if keeps && from_start && was_there && self.restarts == 0 && !taker.lost.is_empty() {
                    return Err(format!("{:?} lost {:?}", taker.asks.policy, taker.lost));
                }
                let promised = self.promised.get(&maker.id).copied().unwrap_or(0);
                let all_promised = (0..promised).all(|sequence| got.contains(&sequence));
                if keeps && has_room && from_start && !all_promised {
                    return Err(format!("of {name} were {promised} promised, and not all delivered"));
                }
            }
            let is_group = self.takers.iter().any(|taker| taker.asks.group.is_some());
            if is_group {
                self.check_group(maker)?;
            }
            let has_room = self.spill.is_none_or(|spill| spill.bytes_max > 1_000_000);
            if is_group && self.restarts + self.kills + self.given_up == 0 && has_room {
                let keeps = !self.takers.iter().any(|taker| {
                    matches!(taker.asks.policy, FramePolicy::DropOldest { .. } | FramePolicy::LatestOnly)
                });
                if keeps && together.len() as u64 != maker.frames {
                    return Err(format!(
                        "a group got {} of {} frames of {name}",
                        together.len(),
                        maker.frames
                    ));
                }
            }
        }
        if self.restarts + self.kills + self.given_up == 0 {
            // Every member hears of every set that is over.
            let members = || self.takers.iter().filter(|taker| taker.asks.group.is_some());
            if let Some(first) = members().next()
                && let Some(other) = members().find(|other| other.reported != first.reported)
            {
                let (one, two) = (&first.reported, &other.reported);
                return Err(format!("members of a group heard of different sets: {one:?} and {two:?}"));
            }
        }
        // Without restarts no frame goes to two of a group that were both there.
        if self.restarts + self.given_up == 0 {
            let mut seen: BTreeSet<(&str, u64)> = BTreeSet::new();
            for taker in self.takers.iter().filter(|taker| taker.asks.group.is_some() && !taker.is_dead) {
                for (name, got) in &taker.delivered {
                    for sequence in got {
                        if !seen.insert((name, *sequence)) {
                            return Err(format!("{name} {sequence} went to two of a group"));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Whatever its policy, of a producer each frame is delivered to one member of a group, or its loss is told to one;
    /// who was killed may have been told what another is told again, and what a hub that was killed told the next may
    /// tell again.
    fn check_group(&self, maker: &Made) -> Result<(), String> {
        let name = maker.id.as_str();
        let members = self.takers.iter().filter(|taker| taker.asks.group.is_some());
        let told = members.flat_map(|taker| [&taker.delivered, &taker.named]).filter_map(|of| of.get(name));
        let mut together = BTreeSet::new();
        for sequence in told.flatten() {
            if !together.insert(*sequence) && self.kills + self.restarts + self.given_up == 0 {
                return Err(format!("{name} {sequence} was told to two of a group"));
            }
        }
        if (0..maker.known).any(|sequence| !together.contains(&sequence)) {
            let frames = maker.known;
            return Err(format!("of {frames} frames of {name} a group was only told of {together:?}"));
        }
        Ok(())
    }
}
