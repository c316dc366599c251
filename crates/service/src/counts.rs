//! How many there are of what is bounded, by whose they are or what they are. Each counts until what stands for it is
//! dropped. The bounds are with who takes one: whoever looks and takes under one lock gives nobody the same twice.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use thalweg_mover::mutex::lock;

/// How many there are of each. What has none is not kept.
pub(crate) struct Counts<K>(Mutex<HashMap<K, usize>>);

/// Some of one, until this goes.
#[must_use]
pub(crate) struct Counted<K: Eq + Hash> {
    counts: Arc<Counts<K>>,
    of: K,
    many: usize,
}

impl<K> Counts<K> {
    /// What there is now. No more is taken, and nothing given back, as long as this is held.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        lock(&self.0)
    }
}

impl<K: Copy + Eq + Hash> Counts<K> {
    /// Takes so many more of one, where `all` of these was looked at.
    pub fn take(
        self: &Arc<Self>,
        mut all: MutexGuard<'_, HashMap<K, usize>>,
        of: K,
        many: usize,
    ) -> Counted<K> {
        *all.entry(of).or_default() += many;
        Counted { counts: self.clone(), of, many }
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Counts(Mutex::default())
    }
}

impl<K: Eq + Hash> Drop for Counted<K> {
    fn drop(&mut self) {
        less(&mut self.counts.lock(), &self.of, self.many);
    }
}

/// So many of one are gone, of those that were counted.
pub(crate) fn less<K: Eq + Hash>(all: &mut HashMap<K, usize>, of: &K, many: usize) {
    if let Some(count) = all.get_mut(of) {
        *count -= many;
        if *count == 0 {
            all.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_counts_until_it_is_dropped_and_what_has_none_is_not_kept() {
        let counts = Arc::<Counts<u8>>::default();
        let take = |of, many| counts.take(counts.lock(), of, many);
        let now = || {
            let mut all: Vec<(u8, usize)> = counts.lock().iter().map(|(of, many)| (*of, *many)).collect();
            all.sort_unstable();
            all
        };
        let (one, three, other) = (take(1, 1), take(1, 3), take(2, 2));
        assert_eq!(now(), [(1, 4), (2, 2)]);
        drop(three);
        assert_eq!(now(), [(1, 1), (2, 2)]);
        drop(one);
        assert_eq!(now(), [(2, 2)]);
        // Not even of nothing, which a client may ask for.
        let nothing = take(3, 0);
        drop((other, nothing));
        assert!(now().is_empty());
    }
}
