//! The energy that the machines of a transfer used while it ran, as far as their counters could be read.

use super::Evidence;
use serde::Serialize;
use thalweg_wire::account::SideAccounts;

const JOULES_PER_KWH: f64 = 3.6e6;
const BYTES_PER_TB: f64 = 1e12;

/// What machines used while a transfer ran, for all that they did: not the transfer's own share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Energy {
    /// The source's. `None`: it was not told.
    pub source: Option<Used>,
    /// The destination's. `None`: it was not told. If both are one machine, the same as the source's.
    pub destination: Option<Used>,
    /// Whether both are one machine, which is counted once.
    pub is_one_machine: bool,
    /// Kilowatt-hours of those that were told, for 10^12 content bytes that came. `None` where none came, and in the
    /// first second, of which whole joules say little.
    pub kwh_per_tb: Option<f64>,
}

/// What a machine used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Used {
    /// Whole joules.
    pub joules: u64,
    /// Whether of the whole platform; else of its CPU packages and their memory.
    pub is_platform: bool,
}

impl Energy {
    /// What was used so far. `None` where neither side tells.
    pub fn of(evidence: &Evidence) -> Option<Energy> {
        let is_one_machine = evidence.is_one_machine();
        let (mut source, mut destination) = (used(&evidence.sender), used(&evidence.receiver));
        if is_one_machine {
            // Each side looked when it began and ended: who looked for longer saw all.
            let all = source.into_iter().chain(destination).max_by_key(|used| used.joules);
            (source, destination) = (all, all);
        }
        let machines = if is_one_machine { [source, None] } else { [source, destination] };
        let joules = machines.into_iter().flatten().map(|used| used.joules as f64).reduce(|a, b| a + b)?;
        let is_telling = evidence.bytes > 0 && evidence.seconds() >= 1.0;
        let per_tb = || joules / JOULES_PER_KWH / (evidence.bytes as f64 / BYTES_PER_TB);
        let kwh_per_tb = is_telling.then(per_tb);
        Some(Energy { source, destination, is_one_machine, kwh_per_tb })
    }

    /// In one line, with what it is not.
    pub fn sentence(&self) -> String {
        let side = |used: Option<Used>, place: &str| match used {
            Some(used) => {
                let what = if used.is_platform { "the whole machine" } else { "CPUs and memory" };
                format!("{} {place} ({what})", joules(used.joules))
            }
            None => format!("not told {place}"),
        };
        let sides = match self.is_one_machine {
            true => side(self.source, "on this machine"),
            false => {
                let source = side(self.source, "at the source");
                format!("{source}, {}", side(self.destination, "at the destination"))
            }
        };
        let all = "all that was used there in that time, and not the transfer's own share";
        match self.kwh_per_tb {
            Some(kwh) => format!("energy: {} kWh per TB: {sides}; {all}", number(kwh)),
            None => format!("energy: {sides}; {all}"),
        }
    }
}

/// Which sides tell of no energy, and why: a line for each machine. Of a side that has told nothing at all there is
/// none.
pub fn untold(evidence: &Evidence) -> Vec<String> {
    let both = [("source", &evidence.sender), ("destination", &evidence.receiver)];
    let mut sides: Vec<(&str, &SideAccounts)> = match (evidence.is_one_machine(), Energy::of(evidence)) {
        (true, Some(_)) => Vec::new(),
        (true, None) => vec![("this machine", &evidence.sender)],
        (false, _) => both.into(),
    };
    sides.retain(|(_, side)| side.elapsed_nanos > 0 && used(side).is_none());
    let why = |side: &SideAccounts| match side.energy {
        None => "nothing counts it there, as in most guests",
        Some(energy) if energy.is_denied => "its counters may not be read (`thalweg doctor` there says more)",
        Some(_) => "its counters could not be read, or not often enough",
    };
    sides.into_iter().map(|(place, side)| format!("{place}: energy is not told: {}", why(side))).collect()
}

fn used(side: &SideAccounts) -> Option<Used> {
    let energy = side.energy?;
    Some(Used { joules: energy.joules?, is_platform: energy.is_platform })
}

fn joules(joules: u64) -> String {
    match joules {
        0..1_000 => format!("{joules} J"),
        1_000..1_000_000 => format!("{:.1} kJ", joules as f64 / 1e3),
        _ => format!("{:.1} MJ", joules as f64 / 1e6),
    }
}

/// With about two digits.
fn number(value: f64) -> String {
    match value {
        ..1.0 => format!("{value:.2}"),
        ..10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
