//! A directory that is watched: what becomes complete in it is copied, and once it has arrived a command analyses it.
//!
//! 1. [`scan`]: what is there, by listing; the kernel's events only say that a look pays.
//! 2. [`machine`]: decides, without a clock or a disk, what is complete, what is copied, run, tried again, and in which
//!    order.
//! 3. [`journal`]: what was decided is durable before it is done, what was done before anything follows from it.
//! 4. [`command`]: runs the command below a keeper and a guard that outlive us, so that its end is known whoever is
//!    killed.
//! 5. [`engine`]: joins them, and copies by the engine of `cp`.
//!
//! Guaranteed: for each name and content the command succeeds once, whichever process is killed, and is not begun while
//! an earlier run of it lives; of what is gone from the source, for the last [`done_keys::DONE_KEYS_MAX`]. Except
//! where keeper and guard of one run are both killed, or the power is cut: then what became of the command is not
//! known, and it runs again with the same key (at least once).
//!
//! Not here: files that are analysed while they still grow.
#![forbid(unsafe_code)]

pub mod item;

pub mod machine;

pub mod done_keys;

pub mod journal;

pub mod scan;

pub mod command;

pub mod engine;

/// What fails of a watch.
const WATCH: &str = "watch";

/// For the files in which a watch keeps its state: its user's alone, created if need be.
fn own_file() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.create(true), 0o600);
    options
}
