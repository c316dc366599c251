//! What was measured, where, over which path, and what was made smaller.

use crate::plot::unit::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// What was measured, and where.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct About {
    /// Its name as it is typed: `sweep bulk`, `latency`, …; of what was imported `iperf3`, `pscheduler`, or the one
    /// whose figures it has: `storage` of fio.
    pub suite: String,
    /// The question that it answers, with its source.
    pub question: String,
    /// When it began, RFC 3339 in UTC.
    pub date: String,
    /// The program and its version: `thalweg 0.1.0`, `iperf 3.12`.
    pub program: String,
    /// The commit that it was built from, with `-dirty` behind it if sources had been changed since; `unknown` where
    /// its build could not see it. `None` of what was imported, and of results that are older than this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that repeats it; empty of what was imported.
    pub command: String,
    /// On which machine.
    pub machine: Machine,
    /// Over which path. Where a suite changes it (latency, loss), samples say so in their parameters.
    pub path: PathKind,
    /// Counted runs of each case.
    pub iterations: u32,
    /// How data streams were protected: `AES-128-GCM`, `none`, …
    pub encryption: String,
    /// How far copies were checked: `every segment before it is written`, `none`, …
    pub verification: String,
    /// What was made smaller than the source of the suite has it.
    pub scaling: Scaling,
    /// What else has a part in the figures, by its name: a congestion control that all had, the version of a program
    /// that was measured beside this one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub more: BTreeMap<String, String>,
    /// The line `end` is still to come: a result that was read and has this was interrupted. Results that are older
    /// than this line have no end, and do not say that one comes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unfinished: bool,
}

/// The same as it is read: of what others measured over a foreign path much is not known, and need not be written.
#[derive(Deserialize)]
struct Written {
    suite: String,
    question: String,
    date: String,
    program: String,
    commit: Option<String>,
    command: Option<String>,
    machine: Option<Machine>,
    path: PathKind,
    iterations: Option<u32>,
    encryption: Option<String>,
    verification: Option<String>,
    scaling: Option<Scaling>,
    #[serde(default)]
    more: BTreeMap<String, String>,
    #[serde(default)]
    is_unfinished: bool,
}

impl TryFrom<Written> for About {
    type Error = String;

    fn try_from(written: Written) -> Result<About, String> {
        let is_foreign = matches!(written.path, PathKind::Foreign { .. });
        Ok(About {
            suite: written.suite,
            question: written.question,
            date: written.date,
            program: written.program,
            commit: written.commit,
            command: known(written.command, "command", is_foreign)?,
            machine: known(written.machine, "machine", is_foreign)?,
            path: written.path,
            iterations: known(written.iterations.or(is_foreign.then_some(1)), "iterations", is_foreign)?,
            encryption: known(written.encryption, "encryption", is_foreign)?,
            verification: known(written.verification, "verification", is_foreign)?,
            scaling: known(written.scaling, "scaling", is_foreign)?,
            more: written.more,
            is_unfinished: written.is_unfinished,
        })
    }
}

fn known<T: Default>(value: Option<T>, name: &str, is_foreign: bool) -> Result<T, String> {
    match value {
        Some(value) => Ok(value),
        None if is_foreign => Ok(T::default()),
        None => Err(format!("missing field `{name}`")),
    }
}

impl About {
    /// The program with its version and, where it is known, its commit.
    pub fn built(&self) -> String {
        match &self.commit {
            Some(commit) => format!("{} (commit {commit})", self.program),
            None => self.program.clone(),
        }
    }

    /// How data were encrypted and verified, one statement each; of what others measured that may not be known.
    pub fn protection(&self) -> impl Iterator<Item = String> {
        let both = [("encryption", &self.encryption), ("verification", &self.verification)];
        both.into_iter().filter(|(_, is)| !is.is_empty()).map(|(what, is)| format!("{what}: {is}"))
    }
}

/// The machine on which all of it ran; empty and 0 are not known.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the CPU.
    pub cpu: String,
    /// Cores that are online.
    pub cores: u32,
    /// Of RAM.
    pub memory_bytes: u64,
    /// `Linux 6.12.1`.
    pub kernel: String,
    /// Of the scratch directory: `ext4`, `tmpfs`, …
    pub file_system: String,
    /// The hypervisor, if it is a guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// What the machine was busy with just before: mean number of runnable processes in the last minute.
    pub load: f64,
}

/// The path that data took.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PathKind {
    /// Two processes, and the loopback between them.
    #[default]
    Loopback,
    /// From a disk, or to one; no network.
    Disk,
    /// Simulated disks.
    Simulated,
    /// Two hosts of `thalweg testbed`.
    Testbed {
        /// Round trip time, if the same in all samples.
        rtt_s: Option<f64>,
        /// Rate of the line, if the same in all samples; `None` also where nothing limits it.
        rate_bits_per_s: Option<u64>,
        /// Share of packets lost, if the same in all samples.
        loss: Option<f64>,
        /// Of every device.
        mtu_bytes: u32,
    },
    /// Somebody else's: of what was imported.
    Foreign {
        /// Where to: an address or a name.
        to: String,
        /// Round trip time as that program saw it.
        rtt_s: Option<f64>,
    },
}

impl fmt::Display for PathKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To the microsecond: what is behind that is of the arithmetic.
        let ms = |rtt_s: &f64| format!("{} ms", (rtt_s * 1e6).round() / 1e3);
        match self {
            PathKind::Loopback => f.write_str("loopback"),
            PathKind::Disk => f.write_str("disk"),
            PathKind::Simulated => f.write_str("simulated disks"),
            PathKind::Testbed { rtt_s, rate_bits_per_s, loss, mtu_bytes } => {
                let mut words = vec!["emulated path".to_owned()];
                words.extend(rtt_s.as_ref().map(ms));
                words.extend(rate_bits_per_s.map(|rate| Unit::BitsPerS.show(rate as f64)));
                words.extend(loss.filter(|loss| *loss > 0.0).map(|loss| format!("loss {loss}")));
                words.push(format!("MTU {mtu_bytes}"));
                f.write_str(&words.join(", "))
            }
            PathKind::Foreign { to, rtt_s } => {
                let rtt = rtt_s.as_ref().map(|rtt_s| format!(", {}", ms(rtt_s))).unwrap_or_default();
                write!(f, "to {to}{rtt}")
            }
        }
    }
}

/// What was made smaller, so that it fits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Scaling {
    /// Most bytes of one data set; `None` where nothing was scaled.
    pub budget_bytes: Option<u64>,
    /// Most files of one data set.
    pub files_max: Option<u64>,
    /// Where chance comes from.
    pub seed: u64,
    /// Each thing that differs from the source of the suite, in words: `data set: 1 TiB -> 256 MiB`.
    pub changes: Vec<Scaled>,
}

/// One thing that was made smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaled {
    /// What: `size of a data set`.
    pub what: String,
    /// As the source has it: `1 TiB (000 section III-B.2)`.
    pub from: String,
    /// As it was here: `256 MiB`.
    pub to: String,
}
