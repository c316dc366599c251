//! Places of sessions and streams that are given away before what has them stands: answers and threads lie between, and
//! others who ask meanwhile are not to have the same.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};
use thalweg_mover::mutex::lock;
use thalweg_wire::hello::SessionId;

/// How often each of these is taken.
pub(super) struct Taken<K>(Mutex<HashMap<K, usize>>);

/// Sessions that begin, by where they come from.
pub(super) type TakenSessions = Taken<Option<IpAddr>>;
/// Streams that begin: whose, and which.
pub(super) type TakenStreams = Taken<(SessionId, u16)>;

/// One that is taken, until this goes.
pub(super) struct Place<'a, K: Copy + Eq + Hash> {
    taken: &'a Taken<K>,
    what: K,
}

impl<K: Copy + Eq + Hash> Taken<K> {
    /// What is taken now. Nothing more is, as long as this is held.
    pub fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        lock(&self.0)
    }

    /// Takes one more, where `all` was looked at.
    pub fn take(&self, mut all: MutexGuard<'_, HashMap<K, usize>>, what: K) -> Place<'_, K> {
        *all.entry(what).or_default() += 1;
        Place { taken: self, what }
    }
}

impl<K> Default for Taken<K> {
    fn default() -> Self {
        Taken(Mutex::default())
    }
}

impl<K: Copy + Eq + Hash> Drop for Place<'_, K> {
    fn drop(&mut self) {
        let mut all = self.taken.lock();
        if let Some(times) = all.get_mut(&self.what) {
            *times -= 1;
            if *times == 0 {
                all.remove(&self.what);
            }
        }
    }
}
