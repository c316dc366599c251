//! The room in a stage: who may come into it, and when.

use super::{BATCHES_MAX, Batch, COPY, LOOK_AGAIN};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Stop, stopped_in};

/// The room in a stage: bytes and batches.
pub(super) struct Room {
    bytes_max: u64,
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    bytes: u64,
    /// Set aside: they stay.
    aside_bytes: u64,
    numbers: BTreeSet<u32>,
    /// Of batches that stay, without their files.
    lists: BTreeSet<u32>,
    /// Batches on their leg out, or waiting for it.
    leaving: usize,
    /// Batches that left.
    left: u64,
}

impl Room {
    pub(super) fn new(bytes_max: u64) -> Room {
        Room { bytes_max, held: Mutex::default(), changed: Condvar::new() }
    }

    /// For the list of a batch that stays: nobody else gets its number.
    pub(super) fn keep(&self, number: u32) {
        lock(&self.held).lists.insert(number);
    }

    /// For a batch that is in the stage already.
    pub(super) fn hold(&self, batch: &Batch) {
        let mut held = lock(&self.held);
        held.bytes = held.bytes.saturating_add(batch.room_bytes);
        held.numbers.insert(batch.number);
        held.lists.remove(&batch.number);
    }

    /// Bytes were set aside, and no batch that leaves takes them along.
    pub(super) fn set_aside(&self, bytes: u64) {
        let mut held = lock(&self.held);
        held.aside_bytes = held.aside_bytes.saturating_add(bytes);
    }

    /// Waits for room for a batch, and gives it the lowest number that is free.
    ///
    /// # Errors
    /// `Space` if there is none for it however many leave; `Stopped` once it is asked to stop.
    pub(super) fn take(&self, bytes: u64, stop: &Stop) -> Result<u32> {
        let mut held = lock(&self.held);
        loop {
            if stop.is_asked() {
                return Err(stopped_in(COPY));
            }
            let bytes_max = self.bytes_max.saturating_sub(held.aside_bytes);
            if bytes > bytes_max {
                let cause = format!(
                    "a batch takes {bytes} bytes, and at most {bytes_max} may lie in the stage beside what was set \
                     aside there"
                );
                return Err(Failure::new(FailureKind::Space, COPY, cause));
            }
            if held.bytes.saturating_add(bytes) <= bytes_max && held.numbers.len() < BATCHES_MAX {
                let is_free = |number: &u32| !held.numbers.contains(number) && !held.lists.contains(number);
                let none = || Failure::new(FailureKind::Internal, COPY, "no number is free for a batch");
                let number = (1..).find(is_free).ok_or_else(none)?;
                held.bytes += bytes;
                held.numbers.insert(number);
                return Ok(number);
            }
            held = self.changed.wait_timeout(held, LOOK_AGAIN).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A batch is whole, and leaves.
    pub(super) fn leave(&self) {
        lock(&self.held).leaving += 1;
    }

    /// Batches that left so far.
    pub(super) fn left(&self) -> u64 {
        lock(&self.held).left
    }

    /// Waits until all that leaves has left; false if nothing did since so many had, and once it is asked to stop.
    pub(super) fn wait_left(&self, since: u64, stop: &Stop) -> bool {
        let mut held = lock(&self.held);
        while held.leaving > 0 {
            if stop.is_asked() {
                return false;
            }
            held = self.changed.wait_timeout(held, LOOK_AGAIN).unwrap_or_else(PoisonError::into_inner).0;
        }
        held.left > since
    }

    /// The files of a batch are gone, and its list, too, if it `is_whole`.
    pub(super) fn release(&self, batch: &Batch, is_whole: bool) {
        let mut held = lock(&self.held);
        held.bytes = held.bytes.saturating_sub(batch.room_bytes);
        held.numbers.remove(&batch.number);
        held.leaving = held.leaving.saturating_sub(1);
        held.left += 1;
        if !is_whole {
            held.lists.insert(batch.number);
        }
        self.changed.notify_all();
    }
}
