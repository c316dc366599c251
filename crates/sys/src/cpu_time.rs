//! CPU time used: by a thread, by this process, by its children.

use std::io;
use std::time::Duration;

use crate::host::ProcessUse;

/// CPU time, user and system, that the calling thread has used since it began.
pub fn thread_cpu() -> Duration {
    cpu_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time, user and system, that all threads of this process have used, ended ones too.
pub fn process_cpu() -> Duration {
    cpu_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time, user and system, of child processes that have ended and were waited for, and of their children
/// likewise.
pub fn children_cpu() -> Duration {
    resources(libc::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| usage.user + usage.system)
}

/// CPU time and switches of this process, the other fields zero.
pub(crate) fn of_process() -> io::Result<ProcessUse> {
    resources(libc::RUSAGE_SELF)
}

fn resources(whose: libc::c_int) -> io::Result<ProcessUse> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // JUSTIFICATION: neither std nor rustix has getrusage; `/proc/self/stat` has it in steps of 10 ms only.
    // SAFETY: the kernel writes one rusage to a place of that type and size.
    let done = unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // JUSTIFICATION: an out-parameter of a C call.
    // SAFETY: zeroed before the call, and all its fields are integers, for which every pattern is a value.
    let usage = unsafe { usage.assume_init() };
    let part = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec.max(0) as u64)
    };
    Ok(ProcessUse {
        user: part(usage.ru_utime),
        system: part(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw.max(0) as u64,
        involuntary_switches: usage.ru_nivcsw.max(0) as u64,
        ..ProcessUse::default()
    })
}

/// A CPU clock; zero where there is none.
fn cpu_clock(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // JUSTIFICATION: rustix looks for the vDSO itself and dies under valgrind, which has none, and by which we count
    // instructions (rustix 1.1.6, 2026-11-21); for CPU clocks the vDSO gains nothing.
    // SAFETY: the kernel writes one timespec to a place of that type and size.
    let done = unsafe { libc::clock_gettime(clock, &raw mut time) };
    match done {
        0 => Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_busy_thread_uses_cpu_and_a_sleeping_one_does_not() {
        // In this order, and the other way round at the end: the process has what its thread has.
        let (process, thread) = (process_cpu(), thread_cpu());
        let begun = Instant::now();
        let mut sum = 0u64;
        // However little of a core there is.
        while thread_cpu() - thread < Duration::from_millis(5) && begun.elapsed() < Duration::from_secs(60) {
            sum = black_box(sum.wrapping_add(1));
        }
        let busy = thread_cpu() - thread;
        assert!(
            busy > Duration::from_millis(1) && busy <= begun.elapsed() + Duration::from_millis(5),
            "{busy:?}"
        );
        assert!(process_cpu() - process + Duration::from_millis(1) >= busy);

        let thread = thread_cpu();
        std::thread::sleep(Duration::from_millis(50));
        assert!(thread_cpu() - thread < Duration::from_millis(25));
    }

    #[test]
    fn children_count_once_they_are_waited_for() {
        let before = children_cpu();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(children_cpu() > before);
    }
}
