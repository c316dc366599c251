//! What of the program other tools need: its command line, for manuals, completions and the reference; exit codes; what
//! users and files say, for fuzzing.
#![forbid(unsafe_code)]

pub mod args;

pub mod filters;

pub mod exit;

pub mod units;

pub mod place;

pub mod receipt_file;
