//! The processes of a workspace: which run now, what CPU they took, and their end.

use std::collections::BTreeSet;
use std::fs;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a server may take to start or to end.
pub(super) const SERVER_WAIT: Duration = Duration::from_secs(20);

/// Between two looks at a process.
pub(super) const POLL: Duration = Duration::from_millis(2);

/// Clients and servers that run now.
pub(super) type Running = Arc<Mutex<BTreeSet<u32>>>;

/// A process is among those that run, as long as this is there.
pub struct Noted {
    running: Running,
    pid: u32,
}

impl Noted {
    pub(super) fn new(running: &Running, pid: u32) -> Noted {
        running.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
        Noted { running: running.clone(), pid }
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pid);
    }
}

/// CPU seconds that a process took so far; none where it cannot be told.
pub(super) fn cpu_of(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything; utime and stime are the 12th and the 13th word behind it (proc(5)).
    let mut words = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Asks it to end, and ends it if it does not.
pub fn end(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let until = Instant::now() + SERVER_WAIT;
    while Instant::now() < until {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(POLL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
