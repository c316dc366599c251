//! Options of how what moves data stands to others: on the path, and on the machines at its ends.

use crate::args::whole;
use crate::units;
use thalweg_sys::priority::{IoPriority, Priority};

/// How copies stand to others.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct MannersArgs {
    /// scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice
    /// 19 and idle I/O priority on this machine, and where ssh starts the far side there
    #[arg(long, value_enum, default_value_t = Class::Normal)]
    pub class: Class,
    /// Marks and priorities.
    #[command(flatten)]
    asked: PriorityArgs,
}

/// Marks of packets, and priorities of threads, of whatever moves data.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PriorityArgs {
    /// Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63
    #[arg(long, value_name = "DSCP", value_parser = units::parse_dscp)]
    pub dscp: Option<u8>,
    /// Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side
    #[arg(long, value_name = "N", value_parser = whole::<i32>(-20..=19), allow_negative_numbers = true)]
    nice: Option<i32>,
    /// Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers
    /// of disks know of it: bfq does
    #[arg(long, value_name = "CLASS")]
    ionice: Option<IoPriority>,
}

/// How a copy stands to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Class {
    /// As fast as the path carries, fair as TCP is
    Normal,
    /// What others leave
    Scavenger,
}

impl MannersArgs {
    /// Whether it is to yield.
    pub fn yields(&self) -> bool {
        self.class == Class::Scavenger
    }

    /// What packets are marked with. A class says itself to every queue on the way as well.
    pub fn dscp(&self) -> Option<u8> {
        self.asked.dscp.or(self.yields().then_some(units::LOWER_EFFORT))
    }

    /// On this machine.
    pub fn priority(&self) -> Priority {
        let asked = self.asked.priority();
        match self.class {
            Class::Normal => asked,
            Class::Scavenger => {
                Priority { nice: asked.nice.or(Some(19)), io: asked.io.or(Some(IoPriority::Idle)) }
            }
        }
    }
}

impl PriorityArgs {
    /// On this machine.
    pub fn priority(&self) -> Priority {
        Priority { nice: self.nice, io: self.ionice }
    }
}
