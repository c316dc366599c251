//! What should happen, before it does: the equations of the field, as pure functions. One law per file.
//!
//! Every law says its equation, where it was published, its units, and the range in which it holds; its tests are the
//! numbers that were published with it. Quantities are `f64` in base units, and the unit is in the name: bytes
//! (`_bytes`), decimal bits a second (`_bits_per_s`), seconds (`_s`), shares from 0 to 1. That keeps the equations
//! legible and loses nothing on the way to other languages. (What plans reckon in whole bytes has `whole_` before its
//! name.) Results are plain values; nothing here knows a clock, a disk, or a command line.
//!
//! The papers: 000 Zettar's "drainage basin", 001 "Transferring a petabyte in a day", 003 "To stream or not to stream",
//! 004 XDD.

use serde::Serialize;

// Rate of one stream by its window.
pub mod window;

// Rate of one stream by loss and congestion control.
pub mod loss;

// What streams carry over a path: the least of line, windows and losses.
pub mod path;

// Loss of packets as an error rate of bits.
pub mod bit_error;

// Data, time and rate.
pub mod volume;

// Rates that were published: of instruments and of clouds.
pub mod published;

// What damage costs: 001 Eqs 1 and 2.
pub mod repair;

// Time by the number of files: 001 Eqs 3 to 6.
pub mod files;

// The parameters of [`files`] from measurements.
pub mod fit;

// What a packet's delay is made of: 003 Eqs 1 and 2.
pub mod delay;

// Local or remote: 003 Eqs 3 to 10.
pub mod completion;

// Streaming Speed Score and tiers: 003 Eq 11 and section 5.
pub mod score;

// Score by load, where nothing was measured: 003 Fig 2.
pub mod congestion;

// Frames gathered into files, or streamed: 003 Fig 4.
pub mod frames;

// Stages with capacity and latency: the narrowest, and what widening one would gain.
pub mod basin;

// How far a value may be off whose spread is known from a few observations.
pub mod student;

// How long a transfer will take, with a range, from what earlier ones took; and which term was wrong.
pub mod prediction;

// How large a tree is, from samples of it.
pub mod tree;

// Local, file or stream: all of the above on one question.
pub mod advice;

/// What a law cannot be asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize)]
pub enum ModelError {
    /// A quantity outside the range of the law.
    #[error("{what} is {value}, but must be {range}")]
    OutOfRange {
        /// Which quantity.
        what: &'static str,
        /// What it was.
        value: f64,
        /// What it may be, in words.
        range: &'static str,
    },
    /// Fewer measurements than the law has parameters.
    #[error("{have} measurements, but at least {need} are needed")]
    TooFew {
        /// So many there are.
        have: usize,
        /// So many are needed.
        need: usize,
    },
    /// Measurements that are too much alike to tell the parameters apart.
    #[error("the measurements have {have} different numbers of files, but at least {need} are needed")]
    TooAlike {
        /// So many different ones there are.
        have: usize,
        /// So many are needed.
        need: usize,
    },
    /// Measurements that differ, but of which several sets of parameters say the same.
    #[error(
        "the measurements cannot tell what each byte costs from what each file costs, as where all files have one size: \
         measure the same data in other numbers of files"
    )]
    Inseparable,
}

/// What a law says, or why it cannot.
pub type Result<T> = std::result::Result<T, ModelError>;

fn positive(what: &'static str, value: f64) -> Result<f64> {
    within(what, value, value > 0.0, "positive")
}

fn not_negative(what: &'static str, value: f64) -> Result<f64> {
    within(what, value, value >= 0.0, "0 or more")
}

fn at_least_one(what: &'static str, value: f64) -> Result<f64> {
    within(what, value, value >= 1.0, "1 or more")
}

/// A share that may be divided by.
fn share(what: &'static str, value: f64) -> Result<f64> {
    within(what, value, value > 0.0 && value <= 1.0, "more than 0, at most 1")
}

fn within(what: &'static str, value: f64, holds: bool, range: &'static str) -> Result<f64> {
    match holds && value.is_finite() {
        true => Ok(value),
        false => Err(ModelError::OutOfRange { what, value, range }),
    }
}

// For tests of ranges: noise from a seed.
#[cfg(test)]
pub(crate) mod testing;

/// For tests: whether `value` is within `share` of `expected`.
#[cfg(test)]
pub(crate) fn is_near(value: f64, expected: f64, share: f64) -> bool {
    (value - expected).abs() <= share * expected.abs()
}
