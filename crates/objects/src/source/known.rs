//! What is known of the objects that were offered last: their versions, and the content of small ones that came with
//! the look at them.
//!
//! Content is kept until it is read, once. It goes unread when objects far behind it are read, for then nobody wants
//! it, or when the source is told that reads are not likely any more. What is kept has bounds: of objects
//! [`OBJECTS_MAX`], of their names [`NAMES_BYTES_MAX`], of content [`Room`].

use super::Version;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_wire::{RelativePath, limits};

/// Objects whose versions are kept, so that a read needs no look before: those that may be offered and not settled.
const OBJECTS_MAX: usize = limits::ENTRIES_IN_FLIGHT_MAX;
/// Bytes of their paths and etags.
const NAMES_BYTES_MAX: usize = 32 << 20;
/// Bytes of content that wait to be read: of some 7,000 objects of 4 KiB.
const CONTENT_BYTES_MAX: usize = 32 << 20;
/// What keeping the content of one object takes besides.
const CONTENT_MORE_BYTES: usize = 512;
/// Objects behind one that may be read before it is: what packs of several streams hold.
const PASSED_MIN: u64 = 2 * limits::PACK_FILES_MAX as u64;

/// See the module.
#[derive(Default)]
pub(super) struct Known {
    objects: HashMap<RelativePath, Object>,
    /// As they came.
    order: VecDeque<RelativePath>,
    names_bytes: usize,
    /// Those that came with content, by their numbers, as they came.
    filled: VecDeque<(u64, RelativePath)>,
    /// Objects that came: the number of the next one.
    count: u64,
}

struct Object {
    version: Version,
    number: u64,
    content: Option<Content>,
}

impl Known {
    pub(super) fn put(&mut self, path: &RelativePath, version: Version, content: Option<Content>) {
        let number = self.count;
        self.count += 1;
        if content.is_some() {
            self.filled.push_back((number, path.clone()));
            if self.filled.len() > OBJECTS_MAX {
                self.drop_oldest_content();
            }
        }
        let object = Object { version, number, content };
        if let Some(known) = self.objects.get_mut(path) {
            *known = object;
            return;
        }
        self.names_bytes += bytes_of(path);
        self.order.push_back(path.clone());
        self.objects.insert(path.clone(), object);
        while self.order.len() > OBJECTS_MAX || self.names_bytes > NAMES_BYTES_MAX {
            let Some(oldest) = self.order.pop_front() else { return };
            self.names_bytes -= bytes_of(&oldest);
            self.objects.remove(&oldest);
        }
    }

    /// The version that was offered.
    pub(super) fn version(&self, path: &RelativePath) -> Option<Version> {
        self.objects.get(path).map(|object| object.version.clone())
    }

    /// The same for who reads the object, with its content, which is kept no longer.
    pub(super) fn take(&mut self, path: &RelativePath) -> Option<(Version, Option<Content>)> {
        let object = self.objects.get_mut(path)?;
        let (number, taken) = (object.number, (object.version.clone(), object.content.take()));
        while self.filled.front().is_some_and(|(oldest, _)| oldest + PASSED_MIN < number) {
            self.drop_oldest_content();
        }
        Some(taken)
    }

    /// Keeps no content any more.
    pub(super) fn drop_contents(&mut self) {
        while !self.filled.is_empty() {
            self.drop_oldest_content();
        }
    }

    fn drop_oldest_content(&mut self) {
        let Some((number, path)) = self.filled.pop_front() else { return };
        // It may have come again.
        if let Some(object) = self.objects.get_mut(&path).filter(|object| object.number == number) {
            object.content = None;
        }
    }
}

/// Twice the path, and about what the rest takes.
fn bytes_of(path: &RelativePath) -> usize {
    2 * path.as_bytes().len() + 128
}

/// Content of one object, all of it.
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// Until it goes.
    pub(super) _room: Taken,
}

/// Room for content, of 32 MiB.
pub(super) struct Room(Arc<AtomicUsize>);

impl Default for Room {
    fn default() -> Room {
        Room(Arc::new(AtomicUsize::new(CONTENT_BYTES_MAX)))
    }
}

impl Room {
    /// For so many bytes of an object, if there is some.
    pub(super) fn take(&self, bytes: usize) -> Option<Taken> {
        let taken = bytes + CONTENT_MORE_BYTES;
        let relaxed = Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, |left| left.checked_sub(taken)).ok()?;
        Some(Taken { left: self.0.clone(), bytes: taken })
    }
}

/// Room that is taken, until it is dropped.
pub(super) struct Taken {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Seen;
    use thalweg_wire::Time;

    fn path(number: u64) -> RelativePath {
        RelativePath::new(number.to_string().into_bytes()).unwrap()
    }

    fn version() -> Version {
        let seen = Seen { size: 1, etag: "e".to_owned(), modified: Time::default(), storage_class: None };
        Version { seen, mtime: None }
    }

    fn put(known: &mut Known, room: &Room, number: u64) {
        let content = room.take(1).map(|room| Content { bytes: vec![7], _room: room });
        known.put(&path(number), version(), content);
    }

    fn left(room: &Room) -> usize {
        room.0.load(Ordering::Relaxed)
    }

    #[test]
    fn content_is_kept_until_it_is_read_or_passed_over_and_its_room_comes_back() {
        let (mut known, room) = (Known::default(), Room::default());
        let last = PASSED_MIN + 1;
        (0..=last).for_each(|number| put(&mut known, &room, number));
        let of_each = CONTENT_MORE_BYTES + 1;
        assert_eq!(left(&room), CONTENT_BYTES_MAX - (last as usize + 1) * of_each);
        // Its neighbour may still be read, and is not passed over.
        assert_eq!(known.take(&path(PASSED_MIN)).unwrap().1.unwrap().bytes, [7]);
        assert!(known.take(&path(last)).unwrap().1.is_some());
        assert!(known.take(&path(0)).unwrap().1.is_none(), "passed over");
        assert!(known.take(&path(1)).unwrap().1.is_some());
        assert!(known.take(&path(1)).unwrap().1.is_none(), "once");
        assert_eq!(left(&room), CONTENT_BYTES_MAX - (last as usize + 1 - 4) * of_each);
        known.drop_contents();
        assert_eq!(left(&room), CONTENT_BYTES_MAX);
        assert!(known.version(&path(5)).is_some() && known.version(&path(last + 1)).is_none());
    }

    #[test]
    fn there_is_no_more_content_than_there_is_room_for() {
        let room = Room::default();
        let half = room.take(CONTENT_BYTES_MAX / 2).unwrap();
        assert!(room.take(CONTENT_BYTES_MAX / 2).is_none());
        drop(half);
        assert!(room.take(CONTENT_BYTES_MAX / 2).is_some());
        assert!(room.take(CONTENT_BYTES_MAX).is_none());
    }

    #[test]
    fn what_came_again_has_the_content_that_it_came_with() {
        let (mut known, room) = (Known::default(), Room::default());
        put(&mut known, &room, 0);
        known.put(&path(0), version(), None);
        assert!(known.take(&path(0)).unwrap().1.is_none());
        assert_eq!(left(&room), CONTENT_BYTES_MAX);
        put(&mut known, &room, 0);
        // The first of its names in the row is of what it was.
        known.drop_oldest_content();
        assert!(known.take(&path(0)).unwrap().1.is_some());
    }
}
