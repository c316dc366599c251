//! The user's own ssh: starts a far mover, exchanges one-time keys with it, and carries connections where every port
//! is shut.
//!
//! 1. [`Ssh`] makes command lines: the system's `ssh` with the user's configuration, agent and jump hosts, always as a
//!    list of arguments, never through a shell of ours. What the far shell reads is quoted by [`quote`].
//! 2. [`start`] runs `thalweg mover` there, gives it an [`Order`] on its stdin and waits for its [`Ready`] line, past
//!    whatever a login script printed before.
//! 3. [`bridge()`] gives a connection to the far mover that rides in an ssh process of its own.
//! 4. [`bootstrap`] places our own static program at the far side.
//! 5. [`deputy`] starts the program there that acts in our stead, and [`errand`] has what it and we say to each other.
//!
//! ssh's stderr is the user's (an opening of its own, where that is a pipe: ssh sets it not to wait): prompts and
//! errors appear as they do without us. Nothing secret is on a command line or in an environment; what travels on stdin
//! and stdout are fingerprints, and they are as true as ssh is.

use std::time::Duration;

// Words of command lines.
mod words;

// 1. Command lines.
mod command;

// What ssh says until it ends, and its end.
mod child;

// 2. The lines that both sides exchange.
mod line;

// 2. A far mover.
mod mover;

// 5. The lines that a deputy and who started it exchange.
pub mod errand;

// 5. A deputy.
pub mod deputy;

// 3. Connections that ride in ssh.
mod bridge;

// Scripts at the far side, and uploads.
mod script;

// 4. Our own program, placed at the far side.
pub mod bootstrap;

pub use bridge::bridge;
pub use child::end;
pub use command::{FarProgram, Ssh};
pub use line::{
    ADDRESSES_MAX, BRIDGE_MAGIC, DialBack, LINE_BYTES_MAX, MOVER_MAGIC, NOISE_BYTES_MAX, Only, Order, Ready,
    TOKEN_BYTES, check_token, read_line,
};
pub use mover::{Asker, NotStarted, StartedMover, start};
pub use words::{check_destination, quote, split_words};

/// Name of what fails here, for messages and hints.
pub const START: &str = "start by ssh";
/// Name of what fails where a far mover that ssh started is not reached, or not any more.
pub const REACH: &str = "reach the far mover";
/// Name of what fails where the far side cannot keep or run our own program.
pub const PLACE: &str = "place the program";
/// Name of what fails where this machine's own ssh cannot be started.
pub const RUN: &str = "run ssh";
/// Time for a login, with whatever its user has to type.
pub(crate) const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
