//! How much this process takes from others: nice, I/O priority, and whether heat or a quota held it.
//!
//! Both priorities are the calling thread's and are inherited by the threads it starts: set them first of all.

use crate::host;
use std::io;
use std::time::Duration;

/// Which I/O priority a process has where the disk's scheduler knows of any (bfq does; others ignore it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoPriority {
    /// Only what nobody else wants.
    Idle,
    /// 0 (first) to 7 (last); above counts as 7. Without one of its own a process has 4.
    BestEffort(u8),
}

/// Makes this process as nice as that: -20 to 19, brought into these bounds. Below what it has needs `CAP_SYS_NICE`
/// (`EPERM`, `EACCES`).
pub fn set_nice(nice: i32) -> io::Result<()> {
    Ok(rustix::process::setpriority_process(None, nice.clamp(-20, 19))?)
}

/// Sets the I/O priority. Needs no right.
pub fn set_io_priority(priority: IoPriority) -> io::Result<()> {
    let value: libc::c_int = match priority {
        IoPriority::Idle => CLASS_IDLE << CLASS_SHIFT,
        IoPriority::BestEffort(level) => CLASS_BEST_EFFORT << CLASS_SHIFT | libc::c_int::from(level.min(7)),
    };
    // JUSTIFICATION: neither std, rustix nor libc wraps ioprio_set(2).
    // SAFETY: three integers, no memory.
    let done = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const WHO_PROCESS: libc::c_int = 1;
const CLASS_BEST_EFFORT: libc::c_int = 2;
const CLASS_IDLE: libc::c_int = 3;
const CLASS_SHIFT: libc::c_int = 13;

/// What held the machine or this process back so far, as counters that only grow. `None`: not told here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// How often any core, or its package, was slowed for heat.
    pub heat: Option<u64>,
    /// For how long threads of this process's control group, or of one above it, waited because its CPU quota was used up.
    pub quota: Option<Duration>,
}

/// Reads the counters.
pub fn held() -> Held {
    Held { heat: heat(), quota: host::cpu_quota().throttled }
}

fn heat() -> Option<u64> {
    let cores = std::fs::read_dir("/sys/devices/system/cpu").ok()?;
    let counters = cores.flatten().flat_map(|core| {
        let place = core.path().join("thermal_throttle");
        ["core_throttle_count", "package_throttle_count"].map(|name| place.join(name))
    });
    let counts = counters.filter_map(|path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok());
    counts.fold(None, |sum, count| Some(sum.unwrap_or(0) + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_becomes_nicer_and_idle_at_the_disk() {
        // In a thread of its own: the others keep theirs.
        std::thread::spawn(|| {
            set_nice(100).unwrap();
            assert_eq!(rustix::process::getpriority_process(None).unwrap(), 19);
            set_io_priority(IoPriority::BestEffort(200)).unwrap();
            set_io_priority(IoPriority::Idle).unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_held_this_machine_only_grows() {
        // Whatever it tells, asking twice never goes back.
        let (first, second) = (held(), held());
        assert!(second.heat >= first.heat && second.quota >= first.quota);
    }
}
