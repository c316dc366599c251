//! The doctor: what of this machine stands in the way of moving data, what it should be, why, and how to take it back.
//!
//! 1. [`measure`] tries and measures what no file tells.
//! 2. One file for each subject reads the machine below [`Roots`] and judges it against [`wanted`].
//! 3. [`beliefs`] answers the six beliefs of 000 section III by both.
//! 4. [`prove`] tries in a testbed what would be changed, as [`proofs`] says, and takes back what does not help.
//! 5. [`change`] writes settings, keeps what was there before, and takes them back.
//!
//! Guarantees: 1 to 3 change nothing. What cannot be seen is said, never guessed. Not guaranteed: that a value of a
//! table helps on this path; 000 warns of copying its own.

pub mod wanted;

pub mod finding;

pub mod roots;

pub mod machine;

pub mod path_mtu;

pub mod measure;

mod device;

mod link;

mod card;

mod buffers;

mod network;

mod queue;

mod congestion;

mod memory;

mod cpu;

mod storage;

mod limits;

mod heat;

mod energy;

mod clock;

mod beliefs;

mod next_start;

mod elsewhere;

pub mod change;

mod proofs;

pub mod prove;

#[cfg(test)]
mod tests;

pub use congestion::loss_to_prove_with;
pub use device::{devices, line_rate_bits_per_s};
pub use finding::{Belief, Finding, Holds, Remedy, Report, Subject, Verdict};
pub use limits::{group_memory_bytes, machine_memory_bytes};
pub use machine::Machine;
pub use measure::Probes;
pub use roots::Roots;

use std::path::PathBuf;

/// Reads the machine below `roots` and judges it. `paths` are absolute and without links.
pub fn examine(roots: &Roots, probes: &Probes, paths: &[PathBuf]) -> Report {
    let machine = Machine::of(roots);
    let mut findings = machine.findings();
    findings.extend(network::findings(roots, &machine, probes));
    findings.extend(congestion::findings(roots, &machine, probes));
    findings.extend(memory::findings(roots));
    findings.extend(cpu::findings(roots, &machine, probes));
    findings.extend(storage::findings(roots, probes, paths));
    findings.extend(limits::findings(roots, &machine, probes));
    findings.extend(clock::findings(roots, &machine, probes));
    Report { findings, beliefs: beliefs::all(roots, &machine, probes) }
}
