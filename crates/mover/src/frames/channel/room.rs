//! Room for one more frame: what goes, and whose it was.

use super::log::{Disk, Kind};
use super::subscription::Subscription;
use super::{Action, Channel, KnownProducer, Record, cost_of};
use std::sync::Arc;
use thalweg_wire::limits;
use thalweg_wire::message::{FramePolicy, Item, LossReason};

/// Bytes that are handed out to be written and are not yet, at most, to make room: who took a frame meanwhile frees its
/// position, but not its bytes, which the writer still has.
const SPILL_BATCH_BYTES: u64 = 16 << 20;

impl Channel {
    /// Makes room for a frame, as far as it can be made now. False: not yet.
    pub(super) fn make_room(&mut self, cost: u64) -> bool {
        while self.log.len() >= limits::CHANNEL_FRAMES_MAX {
            self.trim();
            if self.log.len() < limits::CHANNEL_FRAMES_MAX {
                break;
            }
            self.was_full = true;
            if !self.forget_oldest() {
                return false;
            }
        }
        if self.spill.is_some_and(|spill| spill.is_recorded) && !self.spill_room(cost) {
            return false;
        }
        self.keep_depth();
        while self.log.memory_bytes() + cost > self.memory_bytes_max {
            self.trim();
            if self.log.memory_bytes() + cost > self.memory_bytes_max && !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// What a frame of this cost has no room for as long as it stands: who blocks and is not past this position holds
    /// it up. `None`: it waits for nobody, but for the log if for anything.
    pub(super) fn first_to_go(&mut self, cost: u64) -> Option<u64> {
        let oldest = self.files.oldest().map(|(_, last_position)| last_position);
        let in_log = oldest.filter(|_| !self.forgets_nothing());
        if self.log.len() >= limits::CHANNEL_FRAMES_MAX {
            return if oldest.is_none() { Some(self.log.base()) } else { in_log };
        }
        if self.spill.is_some_and(|spill| spill.is_recorded) && !self.has_log_room(cost) {
            return in_log;
        }
        if self.log.memory_bytes() + cost <= self.memory_bytes_max {
            return None;
        }
        let position = self.log.first_in_memory()?;
        let held = self.log.get(position).filter(|logged| logged.disk == Disk::No)?.held.as_ref()?;
        let held_cost = held.cost();
        let spills =
            self.spill.is_some() && self.is_needed_by(position, |one| one.policy == FramePolicy::Spill);
        match spills {
            false => Some(position),
            // It goes when it is written, for which there is room or not.
            true => in_log.filter(|_| !self.has_log_room(held_cost)),
        }
    }

    fn has_log_room(&self, cost: u64) -> bool {
        self.spill.is_some_and(|spill| self.files.bytes() + cost <= spill.bytes_max)
    }

    /// Whether something at this position waits for a consumer that will come.
    pub(super) fn is_awaited(&self, position: u64) -> bool {
        self.subscriptions.is_empty() && !self.is_unattended && position >= self.hold_from
    }

    fn is_needed_by(&self, position: u64, who: fn(&Subscription) -> bool) -> bool {
        self.subscriptions.values().any(|one| who(one) && one.needs(position))
    }

    /// Takes the oldest payload out of memory, if the log has it or nobody has a right to it. False: it must be waited
    /// for.
    fn evict_one(&mut self) -> bool {
        let Some(position) = self.log.first_in_memory() else { return false };
        let Some(logged) = self.log.get(position) else { return false };
        match logged.disk {
            Disk::At(_) => {}
            Disk::Writing => return false,
            Disk::No => {
                let spills = self.is_needed_by(position, |one| one.policy == FramePolicy::Spill)
                    || self.holds_for_spill && self.is_awaited(position);
                if spills && self.spill.is_some() {
                    self.spill_from(position);
                    return false;
                }
                let blocks = self.is_needed_by(position, Subscription::blocks);
                if blocks || spills || self.is_awaited(position) {
                    return false;
                }
                self.drop_through(position);
            }
        }
        self.log.evict(position);
        true
    }

    /// Those that drop have nothing up to this position any more.
    fn drop_through(&mut self, position: u64) {
        let late = self.subscriptions.iter().filter(|(_, one)| one.drops() && one.needs(position));
        let late: Vec<_> = late.map(|(key, _)| key.clone()).collect();
        for key in late {
            self.advance(&key, position + 1);
        }
    }

    /// Those that drop and have a depth are not further behind than that.
    fn keep_depth(&mut self) {
        let end = self.log.end();
        let deep = self.subscriptions.iter().filter_map(|(key, one)| match one.policy {
            FramePolicy::DropOldest { depth } if depth > 0 => {
                let from = (end + 1).saturating_sub(u64::from(depth));
                (one.cursor < from.min(end)).then(|| (key.clone(), from.min(end)))
            }
            _ => None,
        });
        let deep: Vec<_> = deep.collect();
        for (key, from) in deep {
            self.advance(&key, from);
        }
    }

    /// Names everything below `to` as lost to one that drops.
    fn advance(&mut self, key: &super::ConsumerKey, to: u64) {
        let Channel { subscriptions, log, .. } = self;
        let Some(one) = subscriptions.get_mut(key) else { return };
        let reason = match one.policy {
            FramePolicy::LatestOnly => LossReason::Superseded,
            _ => LossReason::Dropped,
        };
        while one.cursor < to && one.pass(log.get(one.cursor), reason) {}
        self.actions.push_back(Action::Wake);
    }

    /// Has the oldest payloads written that are only in memory.
    fn spill_from(&mut self, from: u64) {
        for position in from..self.log.end() {
            let Some(held) =
                self.log.get(position).filter(|logged| logged.disk == Disk::No).and_then(|s| s.held.clone())
            else {
                continue;
            };
            let cost = held.cost();
            let writing = self.files.writing_bytes();
            if writing > 0 && writing + cost > SPILL_BATCH_BYTES || !self.spill_room(cost) {
                return;
            }
            if let Some(logged) = self.log.get_mut(position) {
                logged.disk = Disk::Writing;
            }
            self.files.begin(cost);
            self.actions.push_back(Action::Write(position, Record::Frame(Arc::clone(&held))));
        }
    }

    /// Room for so much more in the log: forgets its oldest files, if nobody is promised them.
    fn spill_room(&mut self, cost: u64) -> bool {
        let Some(spill) = self.spill else { return false };
        while self.files.bytes() + cost > spill.bytes_max {
            if !self.forget_oldest() {
                return false;
            }
        }
        true
    }

    /// Whether nothing that is recorded goes to make room. Else whoever pushes enough deletes what others recorded.
    pub(super) fn forgets_nothing(&self) -> bool {
        self.keeps_all && self.spill.is_some_and(|spill| spill.is_recorded)
    }

    /// Whether a producer waits for room in a log that forgets nothing.
    pub(super) fn waits_for_good(&self) -> bool {
        let bytes_max = self.spill.map_or(0, |spill| spill.bytes_max);
        let is_full = |item: &Item| {
            self.log.len() >= limits::CHANNEL_FRAMES_MAX || self.files.bytes() + cost_of(item) > bytes_max
        };
        let waits = |known: &KnownProducer| known.lane.peek().is_some_and(is_full);
        self.forgets_nothing() && self.producers.values().any(waits)
    }

    pub(super) fn forget_oldest(&mut self) -> bool {
        if self.forgets_nothing() {
            return false;
        }
        let Some((file, last_position)) = self.files.oldest() else { return false };
        let is_promised = self.subscriptions.values().any(|one| one.blocks() && one.cursor <= last_position);
        if is_promised || self.is_awaited(last_position) {
            return false;
        }
        for position in self.log.base()..=last_position {
            if let Some(logged) = self.log.get_mut(position)
                && matches!(logged.disk, Disk::At(at) if at.file == file)
            {
                logged.disk = Disk::No;
                self.forgotten += u64::from(logged.held.is_none());
            }
        }
        self.files.forget(file);
        self.actions.push_back(Action::Forget(file));
        self.skip_forgotten(last_position);
        self.trim();
        true
    }

    /// Names what was forgotten up to this position to those who are at it.
    fn skip_forgotten(&mut self, last_position: u64) {
        let Channel { subscriptions, log, .. } = self;
        for one in subscriptions.values_mut() {
            while one.cursor <= last_position && log.get(one.cursor).is_some_and(|at| !at.is_there()) {
                if !one.pass(log.get(one.cursor), LossReason::Forgotten) {
                    break;
                }
            }
        }
    }

    /// Takes out of the front what nobody needs and the log does not remember.
    pub(super) fn trim(&mut self) {
        let is_recorded = self.spill.is_some_and(|spill| spill.is_recorded);
        let first_needed = self.subscriptions.values().map(|one| one.cursor).min();
        while let Some(logged) = self.log.first() {
            let position = self.log.base();
            let is_remembered = is_recorded && logged.disk != Disk::No;
            let is_needed = first_needed.is_some_and(|first| first <= position) || self.is_awaited(position);
            if is_remembered || is_needed {
                break;
            }
            self.log.pop();
        }
        // Files that only held what memory did not.
        while !is_recorded
            && let Some((file, last_position)) = self.files.oldest()
            && last_position < self.log.base()
        {
            self.files.forget(file);
            self.actions.push_back(Action::Forget(file));
        }
    }

    /// Positions of frames that can be had.
    pub(super) fn places_there(&self) -> impl Iterator<Item = u64> {
        let is_frame = |position: &u64| {
            self.log
                .get(*position)
                .is_some_and(|logged| logged.is_there() && matches!(logged.kind, Kind::Frame { .. }))
        };
        (self.log.base()..self.log.end()).filter(is_frame)
    }
}
