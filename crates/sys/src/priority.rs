//! How much this process takes from others: nice, I/O priority, and whether heat or a quota held it.
//!
//! Both priorities are the calling thread's and are inherited by the threads it starts: set them first of all.

use crate::heat::{self, Heat};
use crate::host;
use std::fmt;
use std::io;
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
    /// What was seen of heat that slows CPUs.
    pub heat: Option<Heat>,
    /// For how long threads of this process's control group, or of one above it, waited because its CPU quota was used
    /// up.
    pub quota: Option<Duration>,
}

/// Looks what holds this process back now: heat, and for how long its quota has so far.
pub fn held() -> Held {
    Held { heat: heat::seen_now(), quota: host::cpu_quota().throttled }
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
    fn what_held_this_machine_only_grows() {
        // Whatever it tells, asking twice never goes back.
        let (first, second) = (held(), held());
        assert!(second.quota >= first.quota && second.heat.is_some() == first.heat.is_some());
        let (first, second) = (first.heat.unwrap_or_default(), second.heat.unwrap_or_default());
        assert!(second.looks >= first.looks && second.slowed >= first.slowed && second.times >= first.times);
    }
}
