//! What of the program other tools need: its command line and configuration, for manuals, completions and the reference;
//! exit codes; what users and files say, for fuzzing.
#![forbid(unsafe_code)]

pub mod args;

pub mod and;

pub mod testbed_args;

pub mod model_args;

pub mod stream_args;

pub mod frames_args;

pub mod dataset_args;

pub mod bench_args;

pub mod report_args;

pub mod watch_args;

pub mod config;

pub mod filters;

pub mod exit;

pub use thalweg_client::{place, receipt_file, units};
