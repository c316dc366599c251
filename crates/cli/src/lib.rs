//! What of the program other tools need: its command line and configuration, for manuals, completions and the reference;
//! exit codes; what users and files say, for fuzzing.
#![forbid(unsafe_code)]

pub mod args;

pub mod config;

pub mod exit;

pub use thalweg_client::{place, receipt_file, units};
