//! What of the program other tools need: its command line and configuration, for manuals, completions and the
//! reference; exit codes; what users and files say, for fuzzing; the records of jobs.
#![forbid(unsafe_code)]

pub mod args;

pub mod config;

pub mod exit;

pub mod help_flag;

pub mod jobs;

pub mod spellings;

/// The commit that the program was built from, with `-dirty` behind it if sources had been changed since; `unknown`
/// where the build could not see it. See `build.rs`.
pub const COMMIT: &str = env!("THALWEG_COMMIT");

/// What `--version` says behind the name.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("THALWEG_COMMIT"), ")");

pub use thalweg_client::options::units;
pub use thalweg_client::{place, receipt_file};
