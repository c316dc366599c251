//! Whether the threads of a side waited for a CPU and not for a disk: then a read that took long was no slow disk.

use super::cpu;
use crate::stage::Stage;
use thalweg_wire::account::SideAccounts;

/// Something on the machine waited for a CPU during more than this share of the time.
const CROWDED: f64 = 0.5;
/// Threads of ours did, all together, for this share of the time: what others wait for is not ours.
const OURS: f64 = 0.2;
/// Out of what a control group allows for more than this share of the time: that explains it, and has a name of its
/// own, whoever had used it up.
const THROTTLED: f64 = 0.5;
/// Something waited for a disk during less than this share: so little explains nothing.
const IDLE_DISK: f64 = 0.1;

/// Whether most of what a stage waited for was a CPU: its threads waited, and ours for a CPU, for long enough to
/// explain half of that. Then it is the share of the time, 0 to 1, in which something on this side's machine did.
pub(super) fn explains(side: &SideAccounts, stage: Stage) -> Option<f64> {
    let row = side.stage(stage as u8);
    let waited = row.busy_nanos.saturating_sub(row.cpu_nanos);
    of(side).filter(|_| waited > row.busy_nanos / 2 && side.process.runnable_nanos >= waited / 2)
}

/// The share of the time, 0 to 1, in which something on this side's machine waited for a CPU, if that was most of it,
/// ours did, too, and hardly anything waited for a disk. `None` otherwise, and where the kernel does not tell (pressure
/// stall information).
fn of(side: &SideAccounts) -> Option<f64> {
    let seconds = side.elapsed_nanos.max(1) as f64;
    let share = |nanos: Option<u64>| Some((nanos? as f64 / seconds).min(1.0));
    let process = &side.process;
    let (cpu, io) = (share(process.cpu_pressure_nanos)?, share(process.io_pressure_nanos)?);
    let ours = share(Some(process.runnable_nanos))?;
    let throttled = cpu::throttled_seconds(side) * 1e9 / seconds;
    (cpu > CROWDED && io < IDLE_DISK && ours > OURS && throttled < THROTTLED).then_some(cpu)
}
