//! Signals that ask the program to stop.

use crate::exit::Exit;
use crate::show;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use thalweg_mover::failure::{self, Result};
use thalweg_mover::run::copy::Stop;
use thalweg_sys::usage;

/// The first signal that came.
pub struct Asked(Arc<AtomicI32>);

impl Asked {
    /// The exit code of what was stopped by it.
    pub fn exit(&self) -> Exit {
        match self.0.load(Ordering::Acquire) {
            SIGTERM => Exit::Terminated,
            _ => Exit::Interrupted,
        }
    }
}

/// Signals that ask to stop, less those that are ignored already: who started this (`nohup`, a script's `&`) wants it to
/// go on at them. To be asked before any of them is listened for.
pub fn heard() -> impl Iterator<Item = i32> {
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !usage::ignores(signal))
}

/// Stops in order at the first signal, telling what that means, and ends the process at the second.
///
/// # Errors
/// What the kernel says.
pub fn stop_on(stop: Arc<Stop>, telling: Option<&'static str>) -> Result<Asked> {
    let seen = Arc::new(AtomicI32::new(0));
    let mut signals = signal_hook::iterator::Signals::new(heard())
        .map_err(|error| failure::of_io("listen for signals", &error))?;
    let first = seen.clone();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if first.swap(signal, Ordering::AcqRel) != 0 {
                std::process::exit(128 + signal);
            }
            stop.stop();
            if let Some(text) = telling {
                show::line(text);
            }
        }
    });
    Ok(Asked(seen))
}
