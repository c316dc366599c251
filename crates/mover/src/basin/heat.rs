//! Whether heat slowed the CPUs that a narrow stage computes on.

use super::need::Cause;
use super::{Evidence, Where};
use thalweg_wire::account::SideAccounts;

/// Slowed at this share of the looks, heat explains a CPU that is the narrowest, as a quota does that was used up for
/// as long. Less is a moment that explains little.
const EXPLAINS: f64 = 0.2;

/// Looks at the CPUs of a side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Heat {
    pub looks: u32,
    /// Looks when heat slowed one.
    pub slowed: u32,
}

impl Heat {
    fn of_side(side: &SideAccounts) -> Heat {
        let looks = side.process.heat_looks;
        Heat { looks, slowed: side.process.heat_slowed.min(looks) }
    }

    /// 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.slowed) / f64::from(self.looks.max(1))
    }
}

/// The heat that explains why it is narrow. `None` where there was little, where nobody tells, and of what is no CPU.
pub(super) fn of(evidence: &Evidence, cause: Cause, place: Where) -> Option<Heat> {
    let sides: &[&SideAccounts] = match (cause, place) {
        (Cause::Cpu | Cause::SourceCpu | Cause::DestinationCpu, Where::Source) => &[&evidence.sender],
        (Cause::Cpu | Cause::SourceCpu | Cause::DestinationCpu, Where::Destination) => &[&evidence.receiver],
        (Cause::Cpu, Where::Both) => &[&evidence.sender, &evidence.receiver],
        _ => return None,
    };
    let most = sides.iter().map(|side| Heat::of_side(side)).max_by(|a, b| a.share().total_cmp(&b.share()))?;
    (most.share() >= EXPLAINS).then_some(most)
}
