//! The result file: JSON Lines, one object on a line, each with one key that says what it is.
//!
//! 1. `about`: what was measured, where, over which path, and the command that repeats it. The first line, once.
//! 2. `sample`: one measurement, raw. As many as there were.
//! 3. `left_out`: what did not run, and why.
//! 4. `end`: nothing is missing. The last line, where `about` says that there is one.
//!
//! ```text
//! {"about":{"suite":"latency","date":"2026-11-22T02:40:00Z","is_unfinished":true,…}}
//! {"sample":{"series":"default buffers","parameters":{"rtt":{"value":0.1,"unit":"s"}},"run":1,"order":7,"wall_s":2.5,…}}
//! {"left_out":{"what":"bbr","why":"this kernel has no tcp_bbr"}}
//! {"end":{}}
//! ```
//!
//! Times are in seconds, sizes in bytes, rates in bits a second, all of them decimal numbers; a quantity that is not
//! one of the fields below carries its unit. One in another unit, as people write it (`ms`, `MiB`, `Gbit/s`, `%`), is
//! converted when it is read. Whoever reads a file takes the keys it knows and passes over the others.

mod about;

mod quantity;

mod sample;

mod results;

mod file;

pub use about::{About, Machine, PathKind, Scaled, Scaling};
pub use file::{Log, RESULT_BYTES_MAX, partial};
pub use quantity::Quantity;
pub use results::{Results, counting, path_cpu_s_per_gb};
pub use sample::{
    Distribution, LOST_BY_A_SLOW_MACHINE, NOT_ACCOUNTED, RATE, RATE_WITH_START, SIMULATED, Sample, VALUES_MAX,
};

use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first.
    About(Box<About>),
    /// A measurement.
    Sample(Sample),
    /// What did not run.
    LeftOut(LeftOut),
    /// The last: it was not interrupted.
    End(End),
}

/// That nothing comes any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {}

/// What did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The case, by its name in the suite.
    pub what: String,
    /// Why: what the machine or the program cannot do.
    pub why: String,
}

#[cfg(test)]
pub(crate) mod tests;
