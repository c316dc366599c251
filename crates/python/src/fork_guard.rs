//! What belongs to the process that made it. A fork of that process has none of the threads that work for it: whoever
//! used it or ended it there would wait for them for ever, and the peer would hear two speak as one.

use crate::failures::raise;
use pyo3::prelude::*;
use thalweg_mover::failure::{Failure, FailureKind, Reason};

/// See the module. It ends with this, where it was made.
pub struct Ours<T: Send> {
    process: u32,
    inner: Option<T>,
}

impl<T: Send> Ours<T> {
    /// Of this process.
    pub fn new(inner: T) -> Ours<T> {
        Ours { process: std::process::id(), inner: Some(inner) }
    }

    /// `None` in a fork.
    pub fn there(&self) -> Option<&T> {
        self.inner.as_ref().filter(|_| std::process::id() == self.process)
    }

    /// Raises in a fork.
    pub fn get(&self, py: Python<'_>) -> PyResult<&T> {
        self.there().ok_or_else(|| {
            let cause = format!("it is of process {}, and so are the threads that work for it", self.process);
            raise(py, &Failure::new(FailureKind::Usage, "use in a fork", cause).because(Reason::InFork))
        })
    }
}

impl<T: Send> Drop for Ours<T> {
    fn drop(&mut self) {
        let is_ours = self.there().is_some();
        let inner = self.inner.take();
        match is_ours {
            true => crate::at_the_end(|| drop(inner)),
            false => std::mem::forget(inner),
        }
    }
}
