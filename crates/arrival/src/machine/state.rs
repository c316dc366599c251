//! What whoever drives the machine asks it: is it at work, what was given up, what went.

use super::item::is_out_of_sight;
use super::looks::NAMES_MAX;
use super::{Complete, Item, Line, Machine, Work};
use thalweg_wire::RelativePath;

impl Machine {
    /// Items that were given up; also those that are tried on, and fail again and again because something is not there;
    /// and one without its marker, if others that arrived wait for it in order.
    pub fn given_up(&self) -> Vec<&RelativePath> {
        let holds = |item: &Item| {
            self.lacks_marker(item)
                && self.is_ordered()
                && self.open.first() == Some(&item.line)
                && self
                    .open
                    .iter()
                    .any(|line| self.items.get(&line.name).is_some_and(Item::waits_for_command))
        };
        let is_given_up = |item: &Item| self.is_stuck(item) || holds(item);
        let of = |line: &&Line| self.items.get(&line.name).is_some_and(is_given_up);
        self.open.iter().filter(of).map(|line| &line.name).collect()
    }

    /// Items whose copies failed, and that went from the source before one succeeded; the first so many by name. Not
    /// those that are [`Machine::torn`].
    pub fn lost(&self) -> impl Iterator<Item = &RelativePath> {
        self.lost.iter().filter(move |name| self.items.get(*name).is_none_or(|item| !item.is_torn()))
    }

    /// Items that arrived, and went from the source after a copy over what arrived had begun, by name: what stands at
    /// the destination may be neither, so that the command does not run for them. In later lives too, until they come
    /// again. The first so many by name.
    pub fn torn(&self) -> Vec<&RelativePath> {
        let torn = self.items.iter().filter(|(_, item)| item.is_torn());
        let mut torn: Vec<&RelativePath> = torn.map(|(name, _)| name).collect();
        torn.sort_unstable();
        torn.truncate(NAMES_MAX);
        torn
    }

    /// All items that the source has, or of which more is known than a key of the past.
    pub fn names(&self) -> impl Iterator<Item = &RelativePath> {
        self.items.keys()
    }

    /// The item that was given up, and for which all others would wait for ever.
    pub fn blocked_by(&self) -> Option<&RelativePath> {
        let first = self.open.first().filter(|_| self.is_ordered())?;
        (self.work_of(&first.name) == Some(Work::GivenUp)).then_some(&first.name)
    }

    /// Whether something is copied, run or sent back now. What is tried once more may succeed, however often it failed.
    pub fn is_busy(&self) -> bool {
        self.moves > 0 || self.runs > 0
    }

    /// Whether nothing is left to do but what was given up, has no marker or could not be looked at, or waits for that
    /// in order.
    pub fn is_idle(&self) -> bool {
        let mut is_held = false;
        self.open.iter().filter_map(|line| self.items.get(&line.name)).all(|item| {
            let rests = self.is_stuck(item) || self.lacks_marker(item) || is_out_of_sight(item);
            is_held |= rests && self.is_ordered();
            rests || is_held && item.waits_for_command()
        })
    }

    /// Whether it was given up, or waits for something that is not there, as for its marker if it is to be copied
    /// again.
    fn is_stuck(&self, item: &Item) -> bool {
        item.work == Work::GivenUp
            || item.missing.is_some() && item.tries >= self.rules.attempts_max
            || (item.is_copy_gone() || item.is_replaced()) && self.lacks_marker(item)
    }

    /// Whether nothing can be done with it until somebody makes its marker.
    fn lacks_marker(&self, item: &Item) -> bool {
        matches!(self.rules.complete, Complete::Marker(_))
            && item.work != Work::Busy
            && item.waits_for_source()
            && item.seen.is_some_and(|look| !look.is_marked)
    }

    fn work_of(&self, name: &RelativePath) -> Option<Work> {
        self.items.get(name).map(|item| item.work)
    }
}
