//! What of the program other tools need: its command line and configuration, for manuals, completions and the reference;
//! exit codes; what users and files say, for fuzzing.
#![forbid(unsafe_code)]

pub mod args;

pub mod and;

pub mod testbed_args;

pub mod model_args;

pub mod config;

pub mod filters;

pub mod place;

pub mod exit;

pub mod units;

pub mod receipt_file;
