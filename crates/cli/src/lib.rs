//! What of the program other tools need: its command line, for manuals, completions and the reference; exit codes.
#![forbid(unsafe_code)]

pub mod args;

pub mod filters;

pub mod exit;

pub mod units;
