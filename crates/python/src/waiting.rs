//! How Python waits: in short steps, so that a Ctrl-C is heard, and who gives up from another thread.

use crate::failures::raise;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;

/// The longest that a wait holds back a Ctrl-C.
pub const STEP: Duration = Duration::from_millis(100);

/// Ends a wait from another thread, within a step: coroutines wait on threads, which no signal reaches.
#[pyclass(frozen)]
pub struct GivingUp(AtomicBool);

#[pymethods]
impl GivingUp {
    #[new]
    fn new() -> GivingUp {
        GivingUp(AtomicBool::new(false))
    }

    fn give_up(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Whether somebody gave up this wait.
pub fn is_given_up(gives_up: Option<&Bound<'_, GivingUp>>) -> bool {
    gives_up.is_some_and(|gives_up| gives_up.get().0.load(Ordering::Acquire))
}

/// Waits for work that cannot be interrupted, on a thread of its own. On a Ctrl-C, or if it is given up, nobody waits any
/// more, which raises: the work goes on to its own end, and what comes of it is dropped there.
pub fn on_a_thread<T: Send + 'static>(
    py: Python<'_>,
    gives_up: Option<&Bound<'_, GivingUp>>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> PyResult<Result<T>> {
    // Without room: what nobody takes stays with the thread that made it, and is dropped without the interpreter's lock.
    let (sender, hears) = sync_channel(0);
    let run = move || {
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("thalweg".into()).spawn(run)?;
    let hears = Mutex::new(hears);
    loop {
        match py.detach(|| lock(&hears).recv_timeout(STEP)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                let cause = "a thread ended with a panic";
                return Ok(Err(Failure::new(FailureKind::Internal, "work", cause)));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        py.check_signals()?;
        if is_given_up(gives_up) {
            return Err(raise(py, &Failure::new(FailureKind::Stopped, "wait", "it was given up")));
        }
    }
}
