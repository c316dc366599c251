//! Entries that take the place of others, and those that wait for another.

use super::{Action, Receiver, State};
use crate::numbers::NumberMap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thalweg_wire::{Entry, EntryId, Kind, RelativePath};

/// Entries that are not decided yet because another must be settled first.
#[derive(Default)]
pub(super) struct Waiting {
    /// By that other: hard links to it, and the entry that replaces it.
    by_other: NumberMap<EntryId, Vec<EntryId>>,
    /// How many; some may be withdrawn by now.
    pub count: usize,
}

impl Waiting {
    fn add(&mut self, other: EntryId, id: EntryId) {
        self.by_other.entry(other).or_default().push(id);
        self.count += 1;
    }

    /// What waited for `old` waits for `new`.
    fn instead(&mut self, old: EntryId, new: EntryId) {
        if let Some(waiting) = self.by_other.remove(&old) {
            self.by_other.entry(new).or_default().extend(waiting);
        }
    }

    /// What waits for `other` no more.
    fn take(&mut self, other: EntryId) -> Vec<EntryId> {
        let waiting = self.by_other.remove(&other).unwrap_or_default();
        self.count -= waiting.len();
        waiting
    }
}

/// Entries that changed at the source, and what is offered in their place.
#[derive(Default)]
pub(super) struct Replacing {
    /// Those that changed when their content was complete here: the new entry at the same path may be looked at when
    /// they are settled.
    pub replaced: HashMap<RelativePath, EntryId>,
    /// The next offer replaces an entry withdrawn.
    pub follows: bool,
    /// What was withdrawn because its source changed, until what replaces it is offered: what waits for the one will
    /// wait for the other.
    pub withdrawn: BTreeMap<RelativePath, Withdrawn>,
    /// Of entries under way that replace others the numbers, by the first of those: hard links name that.
    pub renumbered: NumberMap<EntryId, EntryId>,
}

/// An entry that another will replace.
#[derive(Clone, Copy)]
pub(super) struct Withdrawn {
    pub id: EntryId,
    /// See [`super::Item::first`].
    pub first: EntryId,
    /// It was offered as a hard link to this entry; its content the scan did not count.
    pub link_of: Option<EntryId>,
}

/// A second name that comes by itself.
pub(super) struct StandIn {
    /// Its number as a hard link.
    pub first: EntryId,
    /// Its number as what it is by itself, once it is offered so.
    pub id: EntryId,
    pub path: RelativePath,
}

/// Files of which a second name that came by itself is kept in mind: 8 MiB with paths of a common length. Beyond it
/// those that were seen first are forgotten: further names of theirs are files of their own.
const STAND_INS_MAX: usize = 64 << 10;

impl Receiver {
    /// Has an entry decided, or puts it behind what must be settled before.
    pub(super) fn look_at(&mut self, id: EntryId) {
        let Some(item) = self.items.get(&id) else { return };
        let entry = item.entry.clone();
        let before = match entry.kind {
            Kind::HardLink { of, .. } => Some(self.replacing.renumbered.get(&of).copied().unwrap_or(of)),
            _ => self.replacing.replaced.get(&entry.path).copied(),
        };
        match before {
            Some(before) if before != id && self.items.contains_key(&before) => self.waiting.add(before, id),
            _ if matches!(entry.kind, Kind::HardLink { .. }) => self.outbox.act(Action::Link(entry)),
            _ => self.outbox.act(Action::Decide(entry)),
        }
    }

    /// Has an entry looked at whose path may have a name of this transfer already.
    pub(super) fn look_again_at(&mut self, id: EntryId) {
        if let Some(item) = self.items.get(&id) {
            self.outbox.act(Action::OfferedBefore(item.entry.path.clone()));
        }
        self.look_at(id);
    }

    /// What waited for an entry is looked at. `replacement`: that entry, if it replaced another.
    pub(super) fn free_waiting(&mut self, settled: EntryId, replacement: Option<&Entry>) {
        for id in self.waiting.take(settled) {
            match replacement.and_then(|file| self.link_to(file, id)) {
                Some(link) => self.outbox.act(Action::Link(Arc::new(link))),
                None => self.look_at(id),
            }
        }
    }

    /// What waits for the entry that was withdrawn at this path waits for this one. Whether there was one.
    pub(super) fn replace_withdrawn(&mut self, id: EntryId) -> bool {
        let Some(item) = self.items.get_mut(&id) else { return false };
        let Some(old) = self.replacing.withdrawn.remove(&item.entry.path) else { return false };
        if let Some(of) = old.link_of {
            item.was_link = true;
            let bytes = item.entry.content_bytes();
            self.counts.unlinked_bytes = self.counts.unlinked_bytes.saturating_add(bytes);
            if let Some(stand_in) = self.stand_ins.get_mut(&of).filter(|it| it.first == old.first) {
                stand_in.id = id;
            }
        }
        item.first = old.first;
        self.replacing.renumbered.insert(old.first, id);
        self.waiting.instead(old.id, id);
        true
    }

    /// Nothing replaces what is withdrawn still: nothing waits for it.
    pub(super) fn free_withdrawn(&mut self) {
        for old in std::mem::take(&mut self.replacing.withdrawn).into_values() {
            // What is on its way to its name frees them when it is settled.
            if !self.items.contains_key(&old.id) {
                self.free_waiting(old.id, None);
            }
        }
    }

    /// Another entry will replace this one.
    pub(super) fn expect_replacement(&mut self, path: RelativePath, mut old: Withdrawn) {
        // One that was offered while the link was down may be replaced before it was looked at.
        if let Some(before) = self.replacing.withdrawn.remove(&path).filter(|before| before.id != old.id) {
            old.first = before.first;
            old.link_of = old.link_of.or(before.link_of);
            self.waiting.instead(before.id, old.id);
        }
        // A sender that never offers it is not remembered for ever.
        if self.replacing.withdrawn.len() >= self.limits.entries {
            self.free_withdrawn();
        }
        self.replacing.withdrawn.insert(path, old);
    }

    /// A hard link as it is now that its file changed and was offered again, or came under another name. `None` if it
    /// is no link to that file: an editor may have put another under that name.
    fn link_to(&self, file: &Entry, link: EntryId) -> Option<Entry> {
        let link = &self.items.get(&link)?.entry;
        let inode = |entry: &Entry| (entry.evidence.device, entry.evidence.inode);
        let is_of_it = matches!(link.kind, Kind::HardLink { .. }) && inode(link) == inode(file);
        let kind = Kind::HardLink { first: file.path.clone(), of: file.id };
        is_of_it.then(|| Entry { kind, evidence: file.evidence, ..Entry::clone(link) })
    }

    /// Whether a hard link that cannot be one to its first name is to be one to a second name that came by itself, or
    /// waits until that is settled. If there is none, the link itself comes so, and the next ones are linked to it.
    pub(super) fn is_linked_to_stand_in(&mut self, link: EntryId) -> bool {
        let Some(item) = self.items.get_mut(&link) else { return false };
        let (State::Deciding, Kind::HardLink { of, .. }) = (&item.state, &item.entry.kind) else {
            return false;
        };
        let (of, entry) = (*of, item.entry.clone());
        // Once: where no link at all can be made, each name would wait for the one before.
        let had_stand_in = std::mem::replace(&mut item.had_stand_in, true);
        let Some(stand_in) = self.stand_ins.get(&of).filter(|_| !had_stand_in) else {
            if self.stand_ins.len() >= STAND_INS_MAX {
                self.stand_ins.pop_first();
            }
            self.stand_ins.insert(of, StandIn { first: link, id: link, path: entry.path.clone() });
            return false;
        };
        let id = self.replacing.renumbered.get(&stand_in.first).copied().unwrap_or(stand_in.id);
        let withdrawn = self.replacing.withdrawn.get(&stand_in.path);
        let withdrawn = withdrawn.filter(|old| old.first == stand_in.first);
        let under_way = if self.items.contains_key(&id) { Some(id) } else { withdrawn.map(|old| old.id) };
        match under_way {
            Some(before) => self.waiting.add(before, link),
            None => {
                let kind = Kind::HardLink { first: stand_in.path.clone(), of: stand_in.id };
                self.outbox.act(Action::Link(Arc::new(Entry { kind, ..Entry::clone(&entry) })));
            }
        }
        true
    }
}
