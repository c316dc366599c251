//! What everything needs that asks for copies: the program `thalweg`, its Python module, a watched directory.
//!
//! Places are read, far movers reached, keys found; a [`job`] copies, a [`receipt`] says what was copied, [`verify`]
//! whether it is still there, and [`check`] whether two places are the same. Nothing here prints, reads a command line,
//! or waits for a signal.
#![forbid(unsafe_code)]

pub mod options;

pub mod threads;

pub mod objects;

pub mod place;

mod not_here;

mod hosts;

pub mod identity;

pub mod login;

mod tokens;

pub mod ssh;

pub mod far_movers;

pub mod reach;

pub mod inodes;

pub mod routes;

pub mod profiles;

pub mod job;

pub mod errand;

pub mod by_daemon;

pub mod predict;

pub mod stream;

pub mod receipt_file;

pub mod receipt;

pub mod b3sum;

pub mod verify;

pub mod check;

pub mod staged;

pub mod frames;

pub mod events;

pub mod hint;
