//! Signals that ask the program to stop.

use crate::exit::Exit;
use crate::{begun, show, threads};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use thalweg_client::login;
use thalweg_mover::failure::{self, Result};
use thalweg_mover::run::copy::Stop;
use thalweg_sys::process;

/// The first signal that this process heard, and over a hang-up the first of another kind; 0 before.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// The first signal that came.
pub struct Asked;

impl Asked {
    /// The exit code of what was stopped by it.
    pub fn exit(&self) -> Exit {
        exit()
    }
}

/// The exit code of what was stopped by a signal, whoever listened for it.
pub fn exit() -> Exit {
    match FIRST.load(Ordering::Acquire) {
        SIGTERM => Exit::Terminated,
        _ => Exit::Interrupted,
    }
}

/// Signals that ask to stop, less those that are ignored already: who started this (`nohup`, the keeper of a job, a
/// script's `&`) wants it to go on at them. To be asked before any of them is listened for.
pub fn heard() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !process::ignores(signal))
}

/// What became of the signals of one listener.
#[derive(Default)]
struct Came {
    /// One came, of whatever kind.
    is_any: bool,
    /// One came that is no hang-up.
    is_asked: bool,
}

impl Came {
    /// Whether this signal asks for the first time; `None` where it says nothing.
    ///
    /// Of a terminal that goes away the kernel tells and the shell, so a hang-up is nobody's second word. Nor is the
    /// first that comes after one: the end of a login sends SIGTERM and SIGHUP at once, and of signals that wait the
    /// one with the lower number, SIGHUP, is heard first.
    fn next(&mut self, signal: i32) -> Option<bool> {
        let was_any = std::mem::replace(&mut self.is_any, true);
        match signal {
            SIGHUP => (!was_any).then_some(true),
            _ => Some(!std::mem::replace(&mut self.is_asked, true)),
        }
    }
}

/// Ends the process at the second signal; not while a login would be lost by it.
fn end(signal: i32) -> ! {
    login::settle();
    std::process::exit(128 + signal)
}

/// Stops in order at the first signal, telling what that means, and ends the process at the second.
///
/// # Errors
/// What the kernel says.
pub fn stop_on(stop: Arc<Stop>, telling: Option<&'static str>) -> Result<Asked> {
    listen(heard(), move |signal, is_first| {
        if !is_first {
            end(signal);
        }
        stop.stop();
        if let Some(text) = telling {
            // The second signal is heard though nobody reads it.
            show::line_later(text.to_owned());
        }
    })?;
    Ok(Asked)
}

/// Sets a flag at the first signal, and ends the process at the second.
///
/// # Errors
/// What the kernel says.
pub fn flag_on(stop: Arc<AtomicBool>) -> Result<()> {
    listen(heard(), move |signal, is_first| match is_first {
        true => stop.store(true, Ordering::Release),
        false => end(signal),
    })
}

/// Tells of each of these signals that comes, and whether it is the first. A hang-up behind another signal is not told,
/// and what comes first behind a hang-up is told as the first again.
///
/// # Errors
/// What the kernel says.
pub fn listen(
    signals: impl IntoIterator<Item = i32>,
    mut hear: impl FnMut(i32, bool) + Send + 'static,
) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(signals)
        .map_err(|error| failure::of_io("listen for signals", &error))?;
    threads::spawn("signals", move || {
        let mut came = Came::default();
        for signal in signals.forever() {
            let Some(is_first) = came.next(signal) else { continue };
            // Before it is acted upon: who is stopped by it asks which it was.
            let over = |first: i32| [0, SIGHUP].contains(&first).then_some(signal);
            let _ = FIRST.fetch_update(Ordering::AcqRel, Ordering::Acquire, over);
            if is_first {
                begun::tell_stopping();
            }
            hear(signal, is_first);
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hang_up_is_no_second_signal_whatever_it_comes_with() {
        let heard = |signals: &[i32]| {
            let mut came = Came::default();
            signals.iter().map(|signal| came.next(*signal)).collect::<Vec<_>>()
        };
        let (first, second) = (Some(true), Some(false));
        assert_eq!(heard(&[SIGHUP, SIGHUP, SIGHUP]), [first, None, None]);
        assert_eq!(heard(&[SIGTERM, SIGHUP, SIGTERM]), [first, None, second]);
        assert_eq!(heard(&[SIGHUP, SIGTERM, SIGHUP, SIGINT]), [first, first, None, second]);
        assert_eq!(heard(&[SIGINT, SIGINT]), [first, second]);
    }
}
