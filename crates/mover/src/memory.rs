//! Memory of pieces and frames, used again.
//!
//! What was read or came waits in memory until it is marked or taken, and then much of it is let go at once. The
//! allocator gives such memory back to the kernel, and what comes next goes into new pages: 224 to 257 page faults for
//! each MiB, 0.7 to 0.8 CPU-s/GB at either side, where memory that was used before takes 0.06 (pieces of 64 KiB and of
//! 1 MiB, a virtual machine whose host takes back what is free; of frames see docs/measurements.md, "Memory that frames
//! come into"). So memory of large pieces goes to a [`Shelf`], and comes from there.
//!
//! Not guaranteed: that memory is found there. What is not is made.

use crate::mutex::lock;
use std::collections::TryReserveError;
use std::fmt;
use std::io::{self, Read};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// For who plans by it, and knows no kernel.
pub(crate) use thalweg_sys::buffer::HUGE_PAGE_BYTES;

/// Smaller pieces are not worth it: the allocator keeps memory for them.
const REUSED_BYTES_MIN: usize = 32 << 10;
/// Memory is made in multiples of this: pages of the usual size.
const GRAIN_BYTES: usize = 4 << 10;
/// What nobody wanted for so long goes back to the system.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// Where memory waits to be used again. Clones are the same shelf.
#[derive(Clone, Debug)]
pub struct Shelf(Arc<Shared>);

/// The bytes of a piece. Their memory goes back to its shelf on drop; a clone has memory of its own.
pub struct Bytes {
    memory: Vec<u8>,
    /// Where they begin in it.
    start: usize,
    shelf: Option<Shelf>,
}

#[derive(Debug)]
struct Shared {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
    used_bytes: usize,
    /// The fewest bytes that waited since it was tidied, and when that was.
    spare_bytes_min: usize,
    tidied: Option<Instant>,
}

impl Shelf {
    /// Memory that waits, and memory from here that is in use, are at most so many bytes together; what would be beyond
    /// goes back to the system. Takes nothing yet.
    pub fn new(bytes_max: usize) -> Shelf {
        Shelf(Arc::new(Shared { bytes_max, state: Mutex::default() }))
    }

    /// A copy of these bytes. Its memory is at most a quarter larger, and a page.
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        match self.room(bytes.len()) {
            Ok(mut room) => {
                room.extend(bytes);
                room
            }
            // Ends the program, as whatever else finds no memory.
            Err(_) => Bytes::from(bytes.to_vec()),
        }
    }

    /// Nothing yet, with room for so many bytes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn room(&self, bytes: usize) -> Result<Bytes, TryReserveError> {
        if bytes < REUSED_BYTES_MIN {
            let mut memory = Vec::new();
            memory.try_reserve_exact(bytes)?;
            return Ok(Bytes::from(memory));
        }
        let mut memory = self.take(bytes)?;
        memory.clear();
        Ok(Bytes { memory, start: 0, shelf: Some(self.clone()) })
    }

    /// Gives all that waits back to the system: for a time in which nothing comes.
    pub fn clear(&self) {
        let mut state = self.lock();
        (state.spare_bytes, state.spare_bytes_min) = (0, 0);
        let spare = std::mem::take(&mut state.spare);
        drop(state);
        drop(spare);
    }

    /// Gives back to the system what nobody wanted since the time before. Does so once a second, however often it is
    /// called.
    pub fn tidy(&self, now: Instant) {
        let mut state = self.lock();
        if state.tidied.is_some_and(|then| now.saturating_duration_since(then) < TIDY_EVERY) {
            return;
        }
        state.tidied = Some(now);
        let left = state.spare_bytes - state.spare_bytes_min.min(state.spare_bytes);
        let mut unwanted = Vec::new();
        while state.spare_bytes > left && !state.spare.is_empty() {
            unwanted.push(state.oldest());
        }
        state.spare_bytes_min = state.spare_bytes;
        drop(state);
        drop(unwanted);
    }

    /// Bytes of memory that wait.
    pub fn spare_bytes(&self) -> usize {
        self.lock().spare_bytes
    }

    fn take(&self, bytes: usize) -> Result<Vec<u8>, TryReserveError> {
        let mut state = self.lock();
        let fits = |memory: &Vec<u8>| (bytes..=bytes.saturating_add(bytes / 4)).contains(&memory.capacity());
        // The youngest is most likely in a cache.
        if let Some(index) = state.spare.iter().rposition(fits) {
            let memory = state.spare.remove(index);
            state.spare_bytes -= memory.capacity();
            state.spare_bytes_min = state.spare_bytes_min.min(state.spare_bytes);
            state.used_bytes += memory.capacity();
            return Ok(memory);
        }
        let wanted = bytes.checked_next_multiple_of(GRAIN_BYTES).unwrap_or(bytes);
        // What nobody could use makes room.
        while !state.spare.is_empty() && state.used_bytes + state.spare_bytes + wanted > self.0.bytes_max {
            drop(state.oldest());
        }
        let mut memory = Vec::new();
        memory.try_reserve_exact(wanted)?;
        state.used_bytes += memory.capacity();
        Ok(memory)
    }

    fn give(&self, memory: Vec<u8>) {
        let bytes = memory.capacity();
        let mut state = self.lock();
        state.used_bytes -= bytes;
        if state.used_bytes + state.spare_bytes + bytes <= self.0.bytes_max {
            state.spare_bytes += bytes;
            state.spare.push(memory);
        }
    }

    /// No user code runs under the lock, so a poisoned one holds a sound state all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

impl State {
    /// The spare memory that waited longest; nothing if none does.
    fn oldest(&mut self) -> Vec<u8> {
        if self.spare.is_empty() {
            return Vec::new();
        }
        let memory = self.spare.remove(0);
        self.spare_bytes -= memory.capacity();
        self.spare_bytes_min = self.spare_bytes_min.min(self.spare_bytes);
        memory
    }
}

impl Bytes {
    /// Adds these behind the others. Beyond the room that was asked for all of it moves into other memory.
    pub fn extend(&mut self, more: &[u8]) {
        self.grow(|memory| memory.extend_from_slice(more));
    }

    /// Adds all that there is to be read. Memory grows with what comes.
    ///
    /// # Errors
    /// What reading says; what came before stays.
    pub fn read_all(&mut self, mut from: impl Read) -> io::Result<usize> {
        self.grow(|memory| from.read_to_end(memory))
    }

    fn grow<T>(&mut self, with: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let before = self.memory.capacity();
        let result = with(&mut self.memory);
        let grown = self.memory.capacity() - before;
        if let Some(shelf) = self.shelf.as_ref().filter(|_| grown > 0) {
            shelf.lock().used_bytes += grown;
        }
        result
    }

    /// Makes them so many: leaves out the last, or adds zeros, within the room that was asked for.
    pub fn resize(&mut self, bytes: usize) {
        let bytes = (self.start + bytes).min(self.memory.capacity());
        self.memory.resize(bytes, 0);
    }

    /// Leaves out the first `bytes`, or all if there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        self.start = self.start.saturating_add(bytes).min(self.memory.len());
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from(Vec::new())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(memory: Vec<u8>) -> Bytes {
        Bytes { memory, start: 0, shelf: None }
    }
}

impl Clone for Bytes {
    fn clone(&self) -> Bytes {
        Bytes::from(self.to_vec())
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Bytes) -> bool {
        self[..] == other[..]
    }
}

impl Eq for Bytes {}

impl fmt::Debug for Bytes {
    /// The number alone: the content is the user's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").field("bytes", &self.len()).finish()
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(shelf) = self.shelf.take() {
            shelf.give(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_that_was_let_go_is_used_again() {
        let shelf = Shelf::new(8 * MIB);
        let first = shelf.copy(&vec![1; MIB]);
        let place = first.as_ptr();
        assert_eq!(shelf.spare_bytes(), 0);
        drop(first);
        assert_eq!(shelf.spare_bytes(), MIB);
        let second = shelf.copy(&vec![2; MIB - 1000]);
        assert_eq!(second.as_ptr(), place);
        assert!(second.len() == MIB - 1000 && second.iter().all(|&byte| byte == 2));
        // One that is far too large for it is left to others.
        drop(second);
        let small = shelf.copy(&vec![3; MIB / 4]);
        assert!(small.as_ptr() != place && shelf.spare_bytes() == MIB);
    }

    #[test]
    fn what_waits_and_what_is_in_use_have_one_bound() {
        let shelf = Shelf::new(4 * MIB);
        let pieces: Vec<Bytes> = (0..6).map(|_| shelf.copy(&vec![1; MIB])).collect();
        drop(pieces);
        assert_eq!(shelf.spare_bytes(), 4 * MIB);
        // Others that fit nobody make room for those that come.
        let small: Vec<Bytes> = (0..8).map(|_| shelf.copy(&vec![1; MIB / 4])).collect();
        assert_eq!(shelf.spare_bytes(), 2 * MIB);
        drop(small);
        assert_eq!(shelf.spare_bytes(), 4 * MIB);
        shelf.clear();
        assert_eq!(shelf.spare_bytes(), 0);
    }

    #[test]
    fn what_nobody_wanted_for_a_while_goes_back() {
        let (shelf, start) = (Shelf::new(8 * MIB), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        drop((0..4).map(|_| shelf.copy(&vec![1; MIB])).collect::<Vec<_>>());
        shelf.tidy(at(0));
        assert_eq!(shelf.spare_bytes(), 4 * MIB, "it was wanted just now");
        // Three of four are in use at the same time, again and again.
        for second in 1..4 {
            drop((0..3).map(|_| shelf.copy(&vec![1; MIB])).collect::<Vec<_>>());
            shelf.tidy(at(second));
            assert_eq!(shelf.spare_bytes(), 3 * MIB);
        }
        shelf.tidy(at(3));
        assert_eq!(shelf.spare_bytes(), 3 * MIB, "a second has not passed");
        shelf.tidy(at(4));
        assert_eq!(shelf.spare_bytes(), 0);
        shelf.tidy(at(5));
    }

    #[test]
    fn room_is_filled_piece_by_piece_and_counted_whatever_comes() {
        let shelf = Shelf::new(4 * MIB);
        let mut room = shelf.room(MIB).unwrap();
        let place = room.as_ptr();
        for half in [1, 2] {
            room.extend(&vec![half; MIB / 2]);
        }
        assert!(room.as_ptr() == place && room.len() == MIB && room[MIB / 2 - 1..=MIB / 2] == [1, 2]);
        // More than was asked for.
        assert_eq!(room.read_all(&vec![3; MIB][..]).unwrap(), MIB);
        assert!(room.len() == 2 * MIB && room[2 * MIB - 1] == 3);
        drop(room);
        let larger = shelf.spare_bytes();
        assert!(larger >= 2 * MIB);
        let mut again = shelf.room(larger).unwrap();
        again.resize(larger + 1);
        assert!(again.len() == larger && again.iter().all(|&byte| byte == 0), "nothing of the old content");
        again[7] = 9;
        again.resize(8);
        assert_eq!(again[..], [0, 0, 0, 0, 0, 0, 0, 9]);
        drop(again);
        assert_eq!((shelf.spare_bytes(), shelf.lock().used_bytes), (larger, 0));
        assert!(shelf.room(usize::MAX / 2).is_err(), "no memory is a failure, not an end");
        assert!(shelf.room(1000).unwrap().is_empty() && shelf.lock().used_bytes == 0);
    }

    #[test]
    fn bytes_are_what_they_are_whatever_memory_they_are_in() {
        let shelf = Shelf::new(MIB);
        drop(shelf.copy(&vec![9; MIB]));
        let content: Vec<u8> = (0..MIB - 7).map(|i| (i % 251) as u8).collect();
        let mut bytes = shelf.copy(&content);
        assert_eq!(bytes, Bytes::from(content.clone()));
        bytes.skip(1000);
        assert_eq!(bytes[..], content[1000..]);
        assert_eq!(bytes.clone(), bytes);
        bytes.skip(2 * MIB);
        assert!(bytes.is_empty());
        // Small ones have memory of their own.
        drop(bytes);
        shelf.clear();
        drop(shelf.copy(&content[..REUSED_BYTES_MIN - 1]));
        assert_eq!(shelf.spare_bytes(), 0);
    }
}
