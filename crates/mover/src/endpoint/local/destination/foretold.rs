//! What became of first names, for hard links that are looked at later, where what stands there does not show it. In a
//! dry run nothing was changed: of each entry what would become of it. In a copy only those that failed or were left
//! alone: what stands there instead may have the size and the time of the source's, and other content.
//!
//! A dry run has no kernel either that refuses a link from one project into another: that is foretold by what
//! directories hand down.

use super::{LocalDestination, split};
use thalweg_sys::Kind;
use thalweg_wire::{EntryId, RelativePath};

/// Entries that are kept in mind, a byte each. Of further ones what stands there has to tell.
const FORETOLD_MAX: u64 = 64 << 20;

/// What would become of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outlook {
    /// It would come, in place of whatever stands there.
    Comes,
    /// What stands there would stay, with other metadata perhaps.
    Stays,
    /// It failed, or what stands there was left alone; or would be.
    Left,
}

/// See the module.
#[derive(Default)]
pub(super) struct Foretold {
    /// By the entries' numbers: an outlook and a kind in one byte, or 0.
    known: Vec<u8>,
}

const OUTLOOKS: [Outlook; 3] = [Outlook::Comes, Outlook::Stays, Outlook::Left];
const KINDS: [Kind; 5] = [Kind::File, Kind::Symlink, Kind::Fifo, Kind::BlockDevice, Kind::CharDevice];

impl Foretold {
    /// Remembers what would become of an entry of this kind; directories have no second names.
    pub(super) fn note(&mut self, id: EntryId, kind: Kind, outlook: Outlook) {
        let Some(kind) = KINDS.iter().position(|&known| known == kind) else { return };
        let Some(at) = usize::try_from(id.0).ok().filter(|_| id.0 < FORETOLD_MAX) else { return };
        if self.known.len() <= at {
            self.known.resize(at + 1, 0);
        }
        let outlook = OUTLOOKS.iter().take_while(|&&known| known != outlook).count();
        self.known[at] = (1 + outlook * KINDS.len() + kind) as u8;
    }

    /// What would become of an entry, and what it is; `None` if nobody noted that.
    pub(super) fn of(&self, id: EntryId) -> Option<(Outlook, Kind)> {
        let known = *self.known.get(usize::try_from(id.0).ok()?)?;
        let known = usize::from(known.checked_sub(1)?);
        Some((*OUTLOOKS.get(known / KINDS.len())?, KINDS[known % KINDS.len()]))
    }
}

impl LocalDestination {
    /// Whether the file of a `first` name could have no other one at `path`, as far as a dry run knows: a directory
    /// that hands down a project takes no link to a file of another.
    pub(super) fn would_be_kept_apart(
        &self,
        path: &RelativePath,
        first: &RelativePath,
        foretold: Option<(Outlook, Kind)>,
    ) -> bool {
        let Some(project) = self.project_at(path) else { return false };
        project_of_first(foretold, self.project_at(first)).is_some_and(|first| first != project)
    }

    /// The project of what is made at a path, if one is handed down there. A directory that is missing still will have
    /// that of the one above.
    fn project_at(&self, path: &RelativePath) -> Option<u32> {
        let path = self.final_path(path);
        let mut at = path.as_bytes();
        while !at.is_empty() {
            (at, _) = split(at);
            if let Ok(place) = self.place(at) {
                return place.territory.inheritance.project;
            }
        }
        None
    }
}

/// The project of the file of a first name, in a directory that hands this one down; `None` if nobody knows it.
fn project_of_first(foretold: Option<(Outlook, Kind)>, handed_down: Option<u32>) -> Option<u32> {
    match foretold {
        // Where none is handed down, what is made has number 0.
        Some((Outlook::Comes, Kind::File)) => Some(handed_down.unwrap_or(0)),
        _ => handed_down,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_of_a_file_that_stands_where_none_is_handed_down_is_not_known() {
        let foretold = |outlook| Some((outlook, Kind::File));
        assert_eq!(project_of_first(foretold(Outlook::Comes), Some(42)), Some(42));
        assert_eq!(project_of_first(foretold(Outlook::Comes), None), Some(0));
        assert_eq!(project_of_first(foretold(Outlook::Stays), Some(42)), Some(42));
        assert_eq!(project_of_first(foretold(Outlook::Stays), None), None);
        assert_eq!(project_of_first(None, None), None);
    }

    #[test]
    fn what_was_noted_of_an_entry_is_known_and_nothing_of_others() {
        let mut foretold = Foretold::default();
        let mut noted = Vec::new();
        for (id, kind) in KINDS.into_iter().enumerate() {
            for (step, outlook) in OUTLOOKS.into_iter().enumerate() {
                let id = EntryId((id * 10 + step) as u64);
                foretold.note(id, kind, outlook);
                noted.push((id, outlook, kind));
            }
        }
        for (id, outlook, kind) in noted {
            assert_eq!(foretold.of(id), Some((outlook, kind)));
        }
        foretold.note(EntryId(0), Kind::Fifo, Outlook::Left);
        assert_eq!(foretold.of(EntryId(0)), Some((Outlook::Left, Kind::Fifo)), "the last word counts");
        foretold.note(EntryId(5), Kind::Dir, Outlook::Comes);
        // A sender's number that no memory holds.
        foretold.note(EntryId(u64::MAX), Kind::File, Outlook::Comes);
        for id in [5, 1000, u64::MAX] {
            assert_eq!(foretold.of(EntryId(id)), None);
        }
    }
}
