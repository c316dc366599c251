//! A bounded set of directories held open, by their path in the transfer: the last ones used.

use super::{errno, is_errno, lock};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

/// Directories held at once. Each is a descriptor; more would not fit beside the streams under the usual limit of
/// 1,024, and fewer than the threads of a transfer would thrash.
const HELD_MAX: usize = 256;
/// As many after descriptors ran out once: slower, but everything else has some.
const HELD_FEW: usize = 8;

pub(super) struct Held<T> {
    inner: Mutex<Inner<T>>,
}

struct Inner<T> {
    clock: u64,
    max: usize,
    entries: HashMap<Vec<u8>, (u64, Arc<T>)>,
}

impl<T> Held<T> {
    pub(super) fn new() -> Self {
        Held::with_max(HELD_MAX)
    }

    /// Holds at most so many.
    pub(super) fn with_max(max: usize) -> Self {
        Held { inner: Mutex::new(Inner { clock: 0, max, entries: HashMap::new() }) }
    }

    pub(super) fn get(&self, path: &[u8]) -> Option<Arc<T>> {
        let mut inner = lock(&self.inner);
        inner.clock += 1;
        let clock = inner.clock;
        let (used, value) = inner.entries.get_mut(path)?;
        *used = clock;
        Some(value.clone())
    }

    /// Holds `value`; lets go of the one used longest ago where there are too many.
    pub(super) fn put(&self, path: &[u8], value: Arc<T>) {
        let mut inner = lock(&self.inner);
        inner.clock += 1;
        let clock = inner.clock;
        if inner.entries.len() >= inner.max && !inner.entries.contains_key(path) {
            let oldest =
                inner.entries.iter().min_by_key(|(_, (used, _))| *used).map(|(path, _)| path.clone());
            if let Some(oldest) = oldest {
                inner.entries.remove(&oldest);
            }
        }
        inner.entries.insert(path.to_vec(), (clock, value));
    }

    /// The sum of what `of` says of each that is held.
    pub(super) fn sum(&self, of: impl Fn(&T) -> usize) -> usize {
        lock(&self.inner).entries.values().map(|(_, value)| of(value)).sum()
    }

    /// Lets go of what is at `path`.
    pub(super) fn forget(&self, path: &[u8]) {
        lock(&self.inner).entries.remove(path);
    }

    /// Opens what is not held by `open`.
    pub(super) fn get_or(&self, path: &[u8], open: impl Fn() -> io::Result<T>) -> io::Result<Arc<T>> {
        if let Some(value) = self.get(path) {
            return Ok(value);
        }
        let value = Arc::new(self.with_descriptors(open)?);
        self.put(path, value.clone());
        Ok(value)
    }

    /// Does something that needs a descriptor. Where there is none left, lets go of what is held, holds less from
    /// then on, and tries again.
    pub(super) fn with_descriptors<R>(&self, mut act: impl FnMut() -> io::Result<R>) -> io::Result<R> {
        match act() {
            Err(error) if is_errno(&error, errno::TOO_MANY_OPEN) || is_errno(&error, errno::TABLE_FULL) => {
                let mut inner = lock(&self.inner);
                inner.entries.clear();
                inner.max = inner.max.min(HELD_FEW);
                drop(inner);
                act()
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_used_longest_ago_is_let_go() {
        let held = Held::new();
        for number in 0..HELD_MAX {
            held.put(&number.to_be_bytes(), Arc::new(number));
        }
        assert!(held.get(&0usize.to_be_bytes()).is_some());
        held.put(b"one more", Arc::new(0));
        assert!(held.get(&0usize.to_be_bytes()).is_some());
        assert!(held.get(&1usize.to_be_bytes()).is_none());
    }

    #[test]
    fn without_descriptors_all_are_let_go_and_it_is_tried_again() {
        let held = Held::new();
        held.put(b"a", Arc::new(1));
        let tries = std::cell::Cell::new(0);
        let value = held.get_or(b"b", || {
            tries.set(tries.get() + 1);
            if tries.get() == 1 { Err(io::Error::from_raw_os_error(errno::TOO_MANY_OPEN)) } else { Ok(2) }
        });
        assert_eq!(*value.unwrap(), 2);
        assert!(held.get(b"a").is_none());
    }
}
