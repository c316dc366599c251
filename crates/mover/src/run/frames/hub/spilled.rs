//! The spill log of a channel: when it has one, and what it hears of it.

use super::HubChannel;
use super::attached::Owner;
use crate::failure::{Failure, FailureKind, Result};
use crate::frames::OPEN_LOG;
use crate::frames::channel::Record;
use crate::frames::spill::{Location, SpillTerms};
use crate::run::frames::spill_files::{Heard, Store};
use crate::run::frames::wall_ns;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;
use thalweg_wire::limits;
use thalweg_wire::message::{ChannelWishes, TransferMessage};

impl HubChannel {
    /// Goes on with the recorded log of an earlier hub, if there is one.
    pub(super) fn open_found_store(self: &Arc<Self>, wishes: &ChannelWishes) -> Result<()> {
        if self.has_looked.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.place.as_ref().map_or(Ok(false), Store::is_recorded_at)? {
            self.open_store(&ChannelWishes { is_recorded: true, ..*wishes })?;
        }
        self.has_looked.store(true, Ordering::Release);
        Ok(())
    }

    /// Has a spill log, and all that is written to it from now on if it `is_recorded`.
    pub(super) fn open_store(self: &Arc<Self>, wishes: &ChannelWishes) -> Result<()> {
        let mut state = self.lock();
        let known = state.machine.spill();
        if let Some(known) = known {
            if wishes.is_recorded && !known.is_recorded {
                if let Some(store) = &state.store {
                    store.mark_recorded(known.bytes_max)?;
                }
                state.machine.set_spill(SpillTerms { is_recorded: true, ..known });
            }
            return Ok(());
        }
        let Some(place) = &self.place else {
            let cause =
                "nothing can be written there: a channel with a log is below an export that can be written";
            return Err(Failure::new(FailureKind::Permission, OPEN_LOG, cause));
        };
        // Before anything is made there.
        if !Store::is_recorded_at(place)? {
            place.check_size(wishes.spill_bytes.unwrap_or(0))?;
        }
        let store = Arc::new(Store::open(place)?);
        let recorded_max = store.recorded_bytes_max()?;
        // With less than it may have it would forget frames that it promised to keep, for whoever comes first.
        let bytes_max = match (wishes.spill_bytes, recorded_max) {
            (Some(wished), Some(recorded)) => wished.max(recorded),
            (wished, recorded) => {
                wished.or(recorded).unwrap_or(limits::SPILL_BYTES.min(place.spill_bytes_max))
            }
        };
        if recorded_max.is_none_or(|recorded| bytes_max > recorded) {
            place.check_size(bytes_max)?;
        }
        let terms = SpillTerms { is_recorded: wishes.is_recorded, bytes_max };
        let machine = &mut state.machine;
        store.recover(recorded_max.is_some(), &mut |record, at| {
            machine.restore(record.position, record.item, at);
        })?;
        if wishes.is_recorded && recorded_max != Some(bytes_max) {
            store.mark_recorded(bytes_max)?;
        }
        let this: Weak<dyn Heard> = self.this.clone();
        state.writer = Some(store.start(terms.file_bytes(), this)?);
        state.store = Some(store);
        state.opened_at = Some(Instant::now());
        state.machine.set_spill(terms);
        state.machine.set_keeps_all(place.keeps_all);
        state.machine.restored();
        Ok(())
    }
}

impl Heard for HubChannel {
    fn written(&self, position: u64, at: Location, record: &Record) {
        self.act(|machine| machine.written(position, at, record, wall_ns()));
    }

    fn synced(&self, position: u64) {
        self.act(|machine| machine.synced(position));
    }

    fn wants_sync(&self) -> bool {
        self.lock().machine.wants_sync()
    }

    fn trouble(&self, why: &Failure) {
        tracing::warn!(%why, "the spill log");
        self.lock().machine.trouble(why.to_string());
    }

    /// What is handed out to be written never will be, and would keep its room in memory: who makes frames is told, and
    /// ended. Consumers get what there is, and then that their producers are gone.
    fn broken(&self, why: Failure) {
        let mut state = self.lock();
        let durable = state.attachments.values().filter(|linked| linked.is_durable).count();
        let mut producers = Vec::new();
        for (attachment, linked) in &state.attachments {
            if let Owner::Producer(id) = &linked.owner {
                linked.outbox.say(linked.number, TransferMessage::Abort(why.clone()));
                producers.push((*attachment, id.clone()));
            }
        }
        tracing::error!(%why, producers = producers.len(), durable, "the spill log: its producers are ended");
        state.machine.trouble(why.to_string());
        state.broken = Some(why);
        drop(state);
        self.act(|machine| producers.iter().for_each(|(attachment, id)| machine.give_up(*attachment, id)));
    }
}
