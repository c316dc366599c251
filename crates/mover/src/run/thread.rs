//! Threads. One that panics is a failure of what it worked for, which whoever waits for that hears; and one that cannot
//! be started is a failure like any other: who wanted it ends what was begun. All threads of `run` and of a server
//! begin here; `cargo xtask check` holds that.

use crate::failure::{self, Failure, FailureKind, Reason, Result};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{Builder, JoinHandle};

/// Starts a thread for `work`. If that panics, `on_panic` is called by the same thread, and has to end what others wait
/// for, in whatever state it was left.
///
/// # Errors
/// If there is no thread to be had: nothing of `work` was done.
pub fn guarded(
    name: &'static str,
    on_panic: impl FnOnce(Failure) + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>> {
    let guard = move || {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            let failure = panicked(name);
            tracing::error!(%failure, "a defect of thalweg");
            on_panic(failure);
        }
    };
    start(name, guard).map_err(|error| failure::of_thread(&error))
}

/// What became of a thread that is gone.
pub(super) fn panicked(name: &str) -> Failure {
    let cause = format!("the thread `{name}` panicked");
    Failure::new(FailureKind::Internal, failure::RUN_THREAD, cause).because(Reason::ThreadPanicked)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(test)]
    scarce::take()?;
    Builder::new().name(name.to_owned()).spawn(work)
}

/// For tests: threads of which there are too few.
#[cfg(test)]
pub(super) mod scarce {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// How many more the thread of a test may start, if that is to have an end.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// Does `work`, which may start so many threads itself.
    pub(in super::super) fn only<T>(threads: u32, work: impl FnOnce() -> T) -> T {
        LEFT.set(Some(threads));
        let result = work();
        LEFT.set(None);
        result
    }

    /// One of them; EAGAIN, as the kernel has it, if none is left.
    pub(super) fn take() -> io::Result<()> {
        match LEFT.get() {
            Some(0) => Err(io::Error::from_raw_os_error(11)),
            left => {
                LEFT.set(left.map(|left| left - 1));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_thread_that_panics_is_told_of_by_its_name_and_ends_as_others_do() {
        let (tells, told) = mpsc::channel();
        let thread = guarded("dies", move |why| tells.send(why).unwrap(), || panic!("as the test wants it"));
        thread.unwrap().join().unwrap();
        let why = told.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(why.kind, FailureKind::Internal);
        assert_eq!(why.to_string(), "run a thread failed: the thread `dies` panicked");
    }

    #[test]
    fn one_that_cannot_be_started_does_nothing_and_is_no_panic() {
        let (tells, told) = mpsc::channel::<()>();
        let nothing = || guarded("none", |_| unreachable!(), move || tells.send(()).unwrap());
        let why = scarce::only(0, nothing).map(drop).unwrap_err();
        assert_eq!((why.kind, why.reason), (FailureKind::Io, Reason::NoThreads));
        assert!(told.recv().is_err());
    }
}
