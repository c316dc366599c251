//! How Python waits: in short steps, so that a Ctrl-C is heard, and who gives up from another thread.

use crate::failures::raise;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind, Result, of_thread};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Stop;

/// The longest that a wait holds back a Ctrl-C.
pub const STEP: Duration = Duration::from_millis(100);
/// How long who gives up waits for work that was asked to stop: a question ends in a quarter of a second, a dial in its
/// own time.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

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

/// Waits for work on a thread of its own. On a Ctrl-C, or if it is given up, the work is asked to stop and the wait
/// raises when it has ended, or after a second: what is left then (a dial) goes on to its own end, and what comes of it
/// is dropped there.
pub fn on_a_thread<T: Send + 'static>(
    py: Python<'_>,
    gives_up: Option<&Bound<'_, GivingUp>>,
    work: impl FnOnce(&Arc<Stop>) -> Result<T> + Send + 'static,
) -> PyResult<Result<T>> {
    let stop: Arc<Stop> = Arc::default();
    let asked = stop.clone();
    let hears = Mutex::new(begin(move || work(&asked))?);
    let given_up = loop {
        match py.detach(|| lock(&hears).recv_timeout(STEP)) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => return Ok(Err(panicked())),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(interrupted) = py.check_signals() {
            break interrupted;
        }
        if is_given_up(gives_up) {
            break raise(py, &Failure::new(FailureKind::Stopped, "wait", "it was given up"));
        }
    };
    stop.stop();
    // Dropped without the interpreter's lock.
    py.detach(|| drop(lock(&hears).recv_timeout(ENDS_WITHIN)));
    Err(given_up)
}

/// Waits for work that cannot be stopped, on a thread of its own, until it is asked to stop: then nobody waits any
/// more, and the work goes on as in [`on_a_thread`].
///
/// # Errors
/// What the work says; `Stopped`.
pub fn unless_stopped<T: Send + 'static>(
    stop: &Stop,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let hears = begin(work).map_err(|error| of_thread(&error))?;
    loop {
        match hears.recv_timeout(STEP) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
            Err(RecvTimeoutError::Timeout) if stop.is_asked() => {
                return Err(Failure::new(FailureKind::Stopped, "wait", "stopped on request"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Without room: what nobody takes stays with the thread that made it, and is dropped without the interpreter's lock.
fn begin<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> std::io::Result<Receiver<Result<T>>> {
    let (sender, hears) = sync_channel(0);
    let run = move || {
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("thalweg".into()).spawn(run)?;
    Ok(hears)
}

fn panicked() -> Failure {
    Failure::new(FailureKind::Internal, "run a thread", "a thread ended with a panic")
}
