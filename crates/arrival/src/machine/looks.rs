//! Looks: what is there now, what is gone, and when it will have rested.

use super::item::{Item, Look, line_of};
use super::{Machine, Seen, Stage, Work};
use std::collections::HashSet;
use std::time::Duration;
use thalweg_wire::RelativePath;

/// Names that are told of what was lost, and of what is torn.
pub(super) const NAMES_MAX: usize = 1024;

/// Paths at which nobody could look, nor below.
pub(super) struct Unseen(HashSet<Vec<u8>>);

impl Unseen {
    pub(super) fn new(paths: &[RelativePath]) -> Unseen {
        Unseen(paths.iter().map(|path| path.as_bytes().to_vec()).collect())
    }

    /// Whether it is one of them: what was seen of it may not be all.
    fn is(&self, name: &RelativePath) -> bool {
        self.0.contains(name.as_bytes())
    }

    /// Whether it is one of them, or below one.
    fn has(&self, name: &RelativePath) -> bool {
        let bytes = name.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends = [0, bytes.len()].into_iter().chain(slashes);
        !self.0.is_empty() && ends.any(|end| self.0.contains(&bytes[..end]))
    }
}

impl Machine {
    pub(super) fn looked(&mut self, now: Duration, all: Vec<Seen>, unseen: &Unseen) {
        let mut there: HashSet<RelativePath> = HashSet::with_capacity(all.len());
        for Seen { name, version, is_marked } in all {
            let rules = &self.rules;
            let met = &mut self.met;
            let item = self.items.entry(name.clone()).or_insert_with(|| {
                *met += 1;
                Item::new(line_of(rules, &name, *met, version.changed_ns))
            });
            let is_whole = !unseen.is(&name);
            match &mut item.seen {
                Some(look) if !is_whole => look.unseen(now),
                Some(look) if look.version == version => {
                    (look.is_marked, look.is_unseen) = (is_marked, false);
                }
                seen => {
                    let is_marked = is_marked && is_whole;
                    *seen = Some(Look { version, since: now, is_marked, is_unseen: !is_whole });
                    // What failed was another version.
                    let waits = matches!(item.work, Work::Later(_)) && item.is_replaced();
                    if item.work == Work::GivenUp || waits {
                        item.work = Work::Rest;
                        item.tries = 0;
                    }
                }
            }
            // It was something else that is not there. What arrived is not missed.
            item.is_missed |= item.waits_for_source() && item.missing.is_some_and(|at| at <= now);
            self.settle(&name);
            self.note_rest(now, &name);
            there.insert(name);
        }
        let others: Vec<RelativePath> = self
            .items
            .iter()
            .filter(|(name, item)| (item.seen.is_some() || item.awaits_look()) && !there.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in others {
            if !unseen.has(&name) {
                self.gone(&name);
                continue;
            }
            // It stays as it was.
            if let Some(look) = self.items.get_mut(&name).and_then(|item| item.seen.as_mut()) {
                look.unseen(now);
            }
            self.note_rest(now, &name);
        }
    }

    /// Keeps when it will have rested, if something is left to do with it.
    pub(super) fn note_rest(&mut self, now: Duration, name: &RelativePath) {
        if let Some(item) = self.items.get(name).filter(|item| self.open.contains(&item.line))
            && let Some(at) = item.rests_at(&self.rules).filter(|at| *at > now)
        {
            self.rests.insert((at, name.clone()));
        }
    }

    /// The source has it no more: what did not arrive is forgotten, what arrived goes its way, and what arrived and
    /// began to be replaced goes none.
    pub(super) fn gone(&mut self, name: &RelativePath) {
        let Some(item) = self.items.get_mut(name) else { return };
        let was_replaced = item.is_replaced();
        (item.seen, item.was_gone) = (None, true);
        let is_lost = item.is_missed && item.work != Work::Busy;
        // There is no copy to be tried again.
        if (was_replaced || matches!(item.stage(), Some(Stage::Done | Stage::Replacing)))
            && matches!(item.work, Work::Later(_) | Work::GivenUp)
        {
            item.rest();
        }
        if item.known.is_none() && item.work != Work::Busy {
            self.open.remove(&item.line);
            self.items.remove(name);
        } else {
            self.settle(name);
        }
        if is_lost {
            self.lose(name);
        }
    }

    /// Copies of it failed, and it went before one succeeded.
    pub(super) fn lose(&mut self, name: &RelativePath) {
        if self.lost.len() < NAMES_MAX {
            self.lost.insert(name.clone());
        }
    }

    /// When an item will be complete if another look still sees it as it is.
    pub fn wakes_at(&self) -> Option<Duration> {
        let waits = |(at, name): &&(Duration, RelativePath)| {
            self.items.get(name).is_some_and(|item| {
                item.rests_at(&self.rules) == Some(*at)
                    && matches!(item.work, Work::Rest | Work::Later(_))
                    && item.waits_for_source()
                    && self.open.contains(&item.line)
            })
        };
        self.rests.iter().find(waits).map(|(at, _)| *at)
    }
}
