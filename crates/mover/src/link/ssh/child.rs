//! Processes of ssh: what they say until they end, and their end.

use super::{NOISE_BYTES_MAX, START};
use crate::failure::{Failure, FailureKind, Reason};
use std::io::Read;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use thalweg_sys::child::terminate;

/// Between two looks whether an upload gets on, and whether a login or a bridge is still wanted.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Time in which an ssh process must end when its work is over.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Ends a process: waits so long, then kills it. Its exit code, if it ended by itself.
pub fn end(child: &mut Child, patience: Duration) -> Option<i32> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// Ends a login that nobody wants any more, and says so. It is asked to end first: what reads a password then gives the
/// terminal back as it was.
pub(super) fn call_off(child: &mut Child) -> Failure {
    let _ = terminate(child);
    end(child, END_TIMEOUT);
    Failure::new(FailureKind::Connection, START, "the copy is over").because(Reason::SshEnded)
}

/// The first [`NOISE_BYTES_MAX`] bytes of a child's stdout, until it closes it or the time is over.
pub(super) fn read_some(child: &mut Child, patience: Duration) -> Vec<u8> {
    let until = Instant::now() + patience;
    read_while(child, || Instant::now() < until).unwrap_or_default()
}

/// The same, as long as it `goes_on`; `None` if it did not.
pub(super) fn read_while(child: &mut Child, mut goes_on: impl FnMut() -> bool) -> Option<Vec<u8>> {
    let Some(stdout) = child.stdout.take() else { return Some(Vec::new()) };
    let (told, hears) = mpsc::channel();
    let read = move || {
        let mut output = Vec::new();
        let _ = stdout.take(NOISE_BYTES_MAX as u64).read_to_end(&mut output);
        let _ = told.send(output);
    };
    if std::thread::Builder::new().name("ssh".into()).spawn(read).is_err() {
        return Some(Vec::new());
    }
    loop {
        match hears.recv_timeout(LOOK_AGAIN) {
            Ok(output) => return Some(output),
            Err(RecvTimeoutError::Timeout) if goes_on() => {}
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => return Some(Vec::new()),
        }
    }
}
