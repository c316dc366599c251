//! Small files that wait to be packed: dealt to streams by directory.
//!
//! Two streams that make files in one directory wait for each other at the far side, and a new directory whose files
//! come on one stream can be made as a whole there. So a stream stays in its directory while there is something left of
//! it, and begins one that no other stream is in; with nothing else to do it helps another. A directory that does not
//! fit into what is left of a pack begins the next one.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use thalweg_wire::{EntryId, RelativePath};

/// In the order in which they came, those of one directory together.
#[derive(Default)]
pub(super) struct Packs {
    groups: VecDeque<Group>,
    files: usize,
}

/// Files of one directory that came one after the other.
struct Group {
    /// A hash of it: that two are taken for one costs time at most.
    directory: u64,
    files: VecDeque<EntryId>,
    stream: Option<u16>,
}

/// How large a pack may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Packs {
    /// Adds a file at the end.
    pub(super) fn push(&mut self, id: EntryId, path: &RelativePath) {
        let mut hasher = DefaultHasher::new();
        path.split().map_or(&[][..], |(above, _)| above).hash(&mut hasher);
        let directory = hasher.finish();
        self.files += 1;
        match self.groups.back_mut().filter(|group| group.directory == directory) {
            Some(group) => group.files.push_back(id),
            None => self.groups.push_back(Group { directory, files: VecDeque::from([id]), stream: None }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files == 0
    }

    /// Files, of which some may not be wanted any more.
    pub(super) fn len(&self) -> usize {
        self.files
    }

    pub(super) fn clear(&mut self) {
        *self = Packs::default();
    }

    /// The next pack of a stream; empty if nothing is left. `bytes_of` knows how large a file is; `None`: it is not
    /// wanted.
    pub(super) fn take(
        &mut self,
        stream: u16,
        room: Room,
        bytes_of: impl Fn(EntryId) -> Option<u64>,
    ) -> Vec<EntryId> {
        let (mut pack, mut bytes) = (Vec::new(), 0);
        while pack.len() < room.files
            && let Some(at) = self.group_for(stream)
        {
            let group = &mut self.groups[at];
            let left = Room { files: room.files - pack.len(), bytes: room.bytes.saturating_sub(bytes) };
            if !pack.is_empty() && group.stream != Some(stream) && !group.fits(left, &bytes_of) {
                break;
            }
            group.stream = Some(stream);
            while let Some(&id) = group.files.front() {
                if let Some(more) = bytes_of(id) {
                    if pack.len() >= room.files || (!pack.is_empty() && bytes + more > room.bytes) {
                        return pack;
                    }
                    bytes += more;
                    pack.push(id);
                }
                group.files.pop_front();
                self.files -= 1;
            }
            self.groups.remove(at);
        }
        pack
    }

    /// Where the stream is, else the first where none is, else the first of all. Groups that streams are in are the
    /// first.
    fn group_for(&self, stream: u16) -> Option<usize> {
        let mut first_free = None;
        for (at, group) in self.groups.iter().enumerate() {
            match group.stream {
                Some(other) if other == stream => return Some(at),
                Some(_) => {}
                None => {
                    first_free = Some(at);
                    break;
                }
            }
        }
        first_free.or_else(|| (!self.groups.is_empty()).then_some(0))
    }

    /// A stream is gone.
    pub(super) fn leave(&mut self, stream: u16) {
        self.groups
            .iter_mut()
            .filter(|group| group.stream == Some(stream))
            .for_each(|group| group.stream = None);
    }
}

impl Group {
    /// Whether all of it fits.
    fn fits(&self, room: Room, bytes_of: impl Fn(EntryId) -> Option<u64>) -> bool {
        self.files.len() <= room.files
            && self.files.iter().filter_map(|id| bytes_of(*id)).sum::<u64>() <= room.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packs(directories: &[(&str, u64)]) -> Packs {
        let mut packs = Packs::default();
        let mut next = 0;
        for (directory, files) in directories {
            for _ in 0..*files {
                packs.push(
                    EntryId(next),
                    &RelativePath::new(format!("{directory}/{next}").into_bytes()).unwrap(),
                );
                next += 1;
            }
        }
        packs
    }

    fn take(packs: &mut Packs, stream: u16, files: usize) -> Vec<u64> {
        let room = Room { files, bytes: 1000 };
        packs.take(stream, room, |_| Some(10)).into_iter().map(|id| id.0).collect()
    }

    #[test]
    fn a_stream_stays_in_its_directory_and_another_begins_the_next() {
        let mut packs = packs(&[("a", 5), ("b", 5), ("c", 1)]);
        assert_eq!(take(&mut packs, 0, 3), [0, 1, 2]);
        assert_eq!(take(&mut packs, 1, 3), [5, 6, 7]);
        assert_eq!(take(&mut packs, 0, 3), [3, 4, 10], "the rest of its own, and a directory that fits");
        // Nothing is left that nobody has begun.
        assert_eq!(take(&mut packs, 0, 3), [8, 9]);
        assert!(take(&mut packs, 1, 3).is_empty() && packs.is_empty());
    }

    #[test]
    fn a_directory_that_does_not_fit_begins_a_pack() {
        let mut packs = packs(&[("a", 2), ("b", 4), ("c", 1)]);
        assert_eq!(take(&mut packs, 0, 4), [0, 1]);
        assert_eq!(take(&mut packs, 0, 4), [2, 3, 4, 5]);
        assert_eq!(take(&mut packs, 0, 4), [6]);
    }

    #[test]
    fn bytes_bound_a_pack_and_one_file_always_goes() {
        let mut packs = packs(&[("a", 3)]);
        let room = Room { files: 9, bytes: 20 };
        let taken = packs.take(0, room, |id| (id.0 != 1).then_some(15));
        assert_eq!((taken, packs.len()), (vec![EntryId(0)], 1));
        assert_eq!(packs.take(0, Room { bytes: 1, ..room }, |_| Some(15)), [EntryId(2)]);
    }

    #[test]
    fn what_a_stream_left_is_anybodys() {
        let mut packs = packs(&[("a", 4), ("b", 4)]);
        assert_eq!(take(&mut packs, 0, 2), [0, 1]);
        assert_eq!(take(&mut packs, 1, 2), [4, 5]);
        packs.leave(0);
        assert_eq!(take(&mut packs, 2, 2), [2, 3]);
    }
}
