//! How much this process takes from others: nice, I/O priority, and whether heat or a quota held it.
//!
//! Both priorities are the calling thread's and are inherited by the threads it starts: set them first of all.

use crate::host;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// Which I/O priority a process has where the disk's scheduler knows of any (bfq does; others ignore it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoPriority {
    /// Only what nobody else wants.
    Idle,
    /// 0 (first) to 7 (last); above counts as 7. Without one of its own a process has 4.
    BestEffort(u8),
}

/// As people and far movers say it: `idle`, or `best-effort:0` (first) to `best-effort:7` (last).
impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IoPriority::Idle => f.write_str("idle"),
            IoPriority::BestEffort(level) => write!(f, "best-effort:{level}"),
        }
    }
}

impl FromStr for IoPriority {
    type Err = &'static str;

    /// `best-effort` alone is the usual, 4.
    fn from_str(text: &str) -> Result<IoPriority, &'static str> {
        const WANTED: &str = "idle, or best-effort:0 (first) to best-effort:7 (last)";
        match text.split_once(':') {
            None if text == "idle" => Ok(IoPriority::Idle),
            None if text == "best-effort" => Ok(IoPriority::BestEffort(4)),
            Some(("best-effort", level)) => {
                let level = level.parse().ok().filter(|level| *level <= 7);
                level.map(IoPriority::BestEffort).ok_or(WANTED)
            }
            _ => Err(WANTED),
        }
    }
}

/// How a thread stands to the others of its machine; what is not said stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priority {
    /// -20 to 19, see [`set_nice`].
    pub nice: Option<i32>,
    /// Of its requests to disks.
    pub io: Option<IoPriority>,
}

impl Priority {
    /// Gives it to the calling thread, and to those that this one starts from now on.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` where it asks for more than the thread has, without the right to.
    pub fn take(self) -> io::Result<()> {
        self.nice.map_or(Ok(()), set_nice)?;
        self.io.map_or(Ok(()), set_io_priority)
    }
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
    /// How often any core, or any package, was slowed for heat.
    pub heat: Option<u64>,
    /// For how long threads of this process's control group, or of one above it, waited because its CPU quota was used up.
    pub quota: Option<Duration>,
}

/// Reads the counters.
pub fn held() -> Held {
    Held { heat: heat_of(Path::new("/sys/devices/system/cpu")), quota: host::cpu_quota().throttled }
}

fn heat_of(cpus: &Path) -> Option<u64> {
    // By what was slowed: threads of a core, and cores of a package, each tell the same of it.
    let mut counts = BTreeMap::<String, u64>::new();
    for cpu in std::fs::read_dir(cpus).ok()?.flatten() {
        let number = |name: &str| {
            let text = std::fs::read_to_string(cpu.path().join(name)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let own = || cpu.file_name().to_string_lossy().into_owned();
        let package = number("topology/physical_package_id").map_or_else(own, |package| package.to_string());
        let core = number("topology/core_id").map_or_else(own, |core| core.to_string());
        let both = [
            (format!("core {package} {core}"), "thermal_throttle/core_throttle_count"),
            (format!("package {package}"), "thermal_throttle/package_throttle_count"),
        ];
        for (what, name) in both {
            if let Some(count) = number(name) {
                let most = counts.entry(what).or_default();
                *most = count.max(*most);
            }
        }
    }
    counts.into_values().reduce(|sum, count| sum + count)
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
            Priority::default().take().unwrap();
            Priority { nice: Some(19), io: Some(IoPriority::Idle) }.take().unwrap();
        })
        .join()
        .unwrap();
    }

    #[test]
    fn io_priorities_are_read_as_they_are_written() {
        for (text, read) in [
            ("idle", Some(IoPriority::Idle)),
            ("best-effort:0", Some(IoPriority::BestEffort(0))),
            ("best-effort:7", Some(IoPriority::BestEffort(7))),
        ] {
            assert_eq!(text.parse().ok(), read);
            assert_eq!(read.unwrap().to_string(), text);
        }
        assert_eq!("best-effort".parse(), Ok(IoPriority::BestEffort(4)));
        for odd in ["", "idle:3", "best-effort:8", "best-effort:", "best-effort:-1", "realtime", "Idle"] {
            assert!(odd.parse::<IoPriority>().is_err(), "{odd}");
        }
    }

    #[test]
    fn heat_counts_once_for_each_core_and_each_package() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(heat_of(scratch.path()), None);
        assert_eq!(heat_of(&scratch.path().join("none")), None);
        // Two packages; the first has a core of two threads, which tell of it one after the other.
        for (cpu, package, core, of_core, of_package) in [
            (0, "0", "0", "5", "2"),
            (1, "0", "0", "4", "2"),
            (2, "0", "1", "1\n", "2"),
            (3, "1", "0", "10", "3"),
        ] {
            let cpu = scratch.path().join(format!("cpu{cpu}"));
            let write = |name: &str, text: &str| {
                std::fs::create_dir_all(cpu.join(name).parent().unwrap()).unwrap();
                std::fs::write(cpu.join(name), text).unwrap();
            };
            write("topology/physical_package_id", package);
            write("topology/core_id", core);
            write("thermal_throttle/core_throttle_count", of_core);
            write("thermal_throttle/package_throttle_count", of_package);
        }
        std::fs::write(scratch.path().join("online"), "0-3").unwrap();
        assert_eq!(heat_of(scratch.path()), Some(5 + 1 + 10 + 2 + 3));
        // Where nobody says what belongs together each counts.
        (0..4).for_each(|cpu| {
            std::fs::remove_dir_all(scratch.path().join(format!("cpu{cpu}/topology"))).unwrap();
        });
        assert_eq!(heat_of(scratch.path()), Some(5 + 4 + 1 + 10 + 2 + 2 + 2 + 3));
    }

    #[test]
    fn what_held_this_machine_only_grows() {
        // Whatever it tells, asking twice never goes back.
        let (first, second) = (held(), held());
        assert!(second.heat >= first.heat && second.quota >= first.quota);
    }
}
