//! Memory of pieces, used again.
//!
//! What was read waits in memory until it is marked, and a mark lets go of many pieces at once. The allocator gives such
//! memory back to the kernel, and the next pieces come into new pages: 224 to 257 page faults for each MiB, 0.7 to 0.8
//! CPU-s/GB at either side, where memory that was used before takes 0.06 (pieces of 64 KiB and of 1 MiB, a virtual machine
//! whose host takes back what is free). So memory of large pieces goes to a [`Shelf`], and comes from there.
//!
//! Not guaranteed: that memory is found there. What is not is made.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Smaller pieces are not worth it: the allocator keeps memory for them.
const REUSED_BYTES_MIN: usize = 32 << 10;
/// Memory is made in multiples of this: pages of the usual size.
const GRAIN_BYTES: usize = 4 << 10;

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
}

impl Shelf {
    /// Memory that waits, and memory from here that is in use, are at most so many bytes together; what would be beyond
    /// goes back to the system. Takes nothing yet.
    pub fn new(bytes_max: usize) -> Shelf {
        Shelf(Arc::new(Shared { bytes_max, state: Mutex::default() }))
    }

    /// A copy of these bytes. Its memory is at most a quarter larger, and a page.
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        if bytes.len() < REUSED_BYTES_MIN {
            return Bytes::from(bytes.to_vec());
        }
        let mut memory = self.take(bytes.len());
        memory.clear();
        memory.extend_from_slice(bytes);
        Bytes { memory, start: 0, shelf: Some(self.clone()) }
    }

    /// Gives all that waits back to the system: for a time in which nothing comes.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.spare_bytes = 0;
        let spare = std::mem::take(&mut state.spare);
        drop(state);
        drop(spare);
    }

    /// Bytes of memory that wait.
    pub fn spare_bytes(&self) -> usize {
        self.lock().spare_bytes
    }

    fn take(&self, bytes: usize) -> Vec<u8> {
        let mut state = self.lock();
        let fits = |memory: &Vec<u8>| (bytes..=bytes + bytes / 4).contains(&memory.capacity());
        // The youngest is most likely in a cache.
        if let Some(index) = state.spare.iter().rposition(fits) {
            let memory = state.spare.remove(index);
            state.spare_bytes -= memory.capacity();
            state.used_bytes += memory.capacity();
            return memory;
        }
        let wanted = bytes.next_multiple_of(GRAIN_BYTES);
        // What nobody could use makes room.
        while !state.spare.is_empty() && state.used_bytes + state.spare_bytes + wanted > self.0.bytes_max {
            state.spare_bytes -= state.spare.remove(0).capacity();
        }
        let memory = Vec::with_capacity(wanted);
        state.used_bytes += memory.capacity();
        memory
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
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bytes {
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
