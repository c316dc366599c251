//! Threads: where there are no more to be had, that is a failure with a hint, and no panic.

use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};
use thalweg_mover::failure::{Result, of_thread};

/// Starts a thread of its own.
///
/// # Errors
/// What the kernel says.
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(work).map_err(|error| of_thread(&error))
}

/// Starts a thread that ends before its scope does.
///
/// # Errors
/// What the kernel says.
pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let thread = Builder::new().name(name.to_owned());
    thread.spawn_scoped(scope, work).map_err(|error| of_thread(&error))
}
