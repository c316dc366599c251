//! Locks between threads of this process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock whose holders leave sound data behind even if they panic: then it is no reason for others to panic as
/// well.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
