//! Two movers in one thread and virtual time, with everything that can go wrong, and a check after each step.
//!
//! One seed is one story: a tree, limits, speeds, and the faults that strike. `cargo xtask sim --seed N`
//! tells it again, event by event. The machines are the real [`crate::transfer`]; journal records, digests
//! and messages are the real ones of `thalweg_wire` and pass their codecs. Disk, link, source and the threads
//! around the machines are simulated.
//!
//! # Faults that must be survived
//! The class of a seed is `seed % 18`:
//!
//! | class | fault | must end in |
//! |---|---|---|
//! | 0 | none | done, nothing sent twice |
//! | 1 | a stream is reset; what it carried is lost or comes seconds later | done |
//! | 2 | a stream stands still; it is cut only after a while | done |
//! | 3 | control and all streams lost, any part of what was said with them, and back | done, same attempt |
//! | 4 | kill -9 of the receiving mover at any step | done, same attempt |
//! | 5 | power cut at the destination: any part of unsynced sectors, names, journal bytes is lost | the same |
//! | 6 | kill -9 of the sending mover; the command is given again | done |
//! | 7 | a source file changes (with or without its mtime), vanishes, becomes unreadable | done, or failed so |
//! | 8 | a bit flips at the sender after the digest | repaired |
//! | 9 | a bit flips between check and disk, readback asked for | repaired |
//! | 10 | a stored bit of a partial or of the journal flips while no process runs | done |
//! | 11 | the destination is full for a while | done, or ended for space and done by a later attempt |
//! | 12 | a sync fails once, and what it should have written is never written | ended, done by a later attempt |
//! | 13 | somebody puts another file, or the same again, where one stands at the destination | done, or failed so |
//! | 14 to 17 | mixtures; all of it | the same |
//!
//! In two seeds of five the files at the destination are compared by content (`--check digest`): some are the
//! source's, some in part, some shorter.
//!
//! Limits are tiny in two seeds of five: windows of one to five entries, one file at a time, rounds of a few bytes.
//! Work is hedged early in most, so that chunks come twice. The source is read in any of the orders, and in two seeds
//! of five the sender's knobs are turned while it runs: fewer streams work than stand.
//!
//! # What is checked
//! 1. Under a final name stands the old content or one that the source had at one moment: after every change,
//!    and on copies of the disk after a power cut at any moment.
//! 2. What is told as done, at either side, survives a power cut right then, its directories too, and hashes to
//!    the digest told. What is told as done is of this attempt, not older.
//! 3. A chunk acknowledged as durable is found again after any crash, and is not sent again.
//! 4. At the end each name is settled exactly once, and the counts add up.
//! 5. Neither machine ever calls the other's words a breach of protocol.
//! 6. When faults stop, the command ends, within bounds of virtual time and of steps.
//! 7. After the end the power is cut, and the same command again sends nothing.
//! 8. Entries in flight stay within the limit.
//! 9. A seed run twice does exactly the same.
//! 10. Nothing fails without a fault that explains it.
//!
//! # Not simulated
//! Real threads and locks, the sealed stream, heartbeats and stall detection (a stalled stream is cut at a set
//! time), `--delete`, directory times, FIFOs and devices, hostile peers, the racy grain of timestamps, a lost
//! directory below a file that survived, rot under a final name, and rot in what a partial keeps as a hole.

mod destination;

mod disk;

pub mod flows;

pub mod frames;

mod plan;

pub(crate) mod random;

mod source;

mod world;

pub use plan::{Fault, Plan};
pub use world::Report;

use plan::{ALL, CLASSES};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs one seed, and those of some classes twice. `log`: tell every event on stderr.
///
/// # Errors
/// What was violated, and the line that repeats it.
pub fn check(seed: u64, log: bool) -> Result<Report, String> {
    let first = attempt(seed, log)?;
    if seed.is_multiple_of(CLASSES) || seed % CLASSES > ALL.len() as u64 {
        let second = attempt(seed, false)?;
        if first != second {
            return Err(line(seed, "the same seed went another way"));
        }
    }
    Ok(first)
}

fn attempt(seed: u64, log: bool) -> Result<Report, String> {
    thread_local! {
        static LAST: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
    }
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() == Some(THREAD) {
                let text = info.payload_as_str().unwrap_or("panic").to_owned();
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                LAST.with(|last| *last.borrow_mut() = format!("{text} [{place}]"));
            } else {
                before(info);
            }
        }));
    });
    let run = move || {
        catch_unwind(AssertUnwindSafe(|| world::World::new(Plan::new(seed), log).run()))
            .map_err(|_| LAST.with(|last| line(seed, &last.borrow())))
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run);
    match thread.map(|thread| thread.join()) {
        Ok(Ok(result)) => result,
        _ => Err(line(seed, "the simulation could not run")),
    }
}

const THREAD: &str = "simulation";

fn line(seed: u64, what: &str) -> String {
    format!("cargo xtask sim --seed {seed}    # class {}: {what}", seed % CLASSES)
}

#[cfg(test)]
mod tests {
    /// Beyond those, what found something: a receiver on a full disk that looked again at once, and again, until its
    /// names were given.
    const FOUND: [u64; 2] = [20_099, 20_621];

    #[test]
    fn no_seed_breaks_a_promise() {
        // Each class 20 times; `cargo xtask sim` runs as many as you like.
        let failures: Vec<String> = (0..20 * super::CLASSES)
            .chain(FOUND)
            .filter_map(|seed| super::check(seed, false).err())
            .collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
