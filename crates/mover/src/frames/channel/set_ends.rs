//! Who makes no more of a set: one that is declared is over when nobody makes it any more.

use super::Channel;
use super::producers::{KnownProducer, Over};
use thalweg_wire::message::ProducerId;

impl Channel {
    /// A producer is not among those who make a set any more.
    pub(super) fn makes_no_more(&mut self, id: &ProducerId, set: u64) {
        let Channel { makers, producers, .. } = self;
        let Some(makers) = makers.get_mut(&set) else { return };
        makers.remove(id);
        // Whoever has frames of it that wait for room, or are coming, is among them.
        let under_way =
            |other: &&KnownProducer| other.over == Over::No && *other.id != *id && other.lane.has_of_set(set);
        makers.extend(producers.values().filter(under_way).map(|other| (*other.id).clone()));
    }

    /// Ends what a producer said it makes no more of, as far as all is here that it made before.
    pub(super) fn end_sets(&mut self, id: &ProducerId) {
        let ended = self.producers.get_mut(id).map(KnownProducer::take_ended).unwrap_or_default();
        if ended.is_empty() {
            return;
        }
        ended.into_iter().for_each(|set| self.makes_no_more(id, set));
        self.close_ended();
    }
}
