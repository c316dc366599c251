//! Time used, limits, abilities.

use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use crate::host::ProcessUse;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::Resource;
use rustix::thread::CapabilitySet;

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

/// Raises the limit of open descriptors to what this process may have; returns that limit.
///
/// Never lowers it. The limit is the process's: do it once, early. Children inherit it, and old programs that
/// use `select` break above 1024.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        rustix::process::setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.current.unwrap_or(u64::MAX))
}

/// Has no core dump of this process, or of its children, made: there may be keys in it.
///
/// The limit is 1 byte and not 0: the kernel hands the dump of a process with 0 to a program that takes dumps, if there
/// is one (core(5)), and makes none where it is 1. It is the process's: do it once, early.
pub fn forbid_core_dumps() -> io::Result<()> {
    let most = rustix::process::getrlimit(Resource::Core).maximum.map_or(1, |most| most.min(1));
    let limit = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
    Ok(rustix::process::setrlimit(Resource::Core, limit)?)
}

/// Where the address space of this process is bounded (`ulimit -v`), has glibc's allocator use it for few arenas.
///
/// An arena reserves 64 MiB, and by default there may be eight of them for each CPU: threads fill the space with what
/// nobody uses, and the next allocation ends the process. Other C libraries have none. It is the process's: do it once,
/// before there are threads.
pub fn bound_arenas() {
    #[cfg(target_env = "gnu")]
    {
        // Two threads then allocate at the same time without waiting for each other.
        const ARENAS: libc::c_int = 2;
        // A number that the user chose stays.
        let is_chosen = std::env::var_os("MALLOC_ARENA_MAX").is_some();
        if !is_chosen && rustix::process::getrlimit(Resource::As).current.is_some() {
            // JUSTIFICATION: neither std nor rustix has mallopt. On two CPUs, movers of a copy of 3,000 files by ssh
            // under `ulimit -v 400000` aborted in each of 4 tries; with two arenas one under 150000 went well. SAFETY:
            // it takes two numbers, under the allocator's own lock; what is allocated stays where it is.
            unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
        }
    }
}

/// Whether this error says that this process, or the whole machine, may have no more open descriptors.
pub fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Makes the umask empty, so that modes are what the caller says; returns the old one.
///
/// It is the process's, not the thread's: do it once, before there are threads. What should have the user's default
/// mode is created with [`user_mode`] or [`user_directory_mode`] from then on.
pub fn clear_umask() -> u32 {
    let before = rustix::process::umask(Mode::empty()).as_raw_mode();
    *UMASK_BEFORE.get_or_init(|| before)
}

/// The umask that the user gave this process, where [`clear_umask`] took it away.
pub fn umask_before() -> Option<u32> {
    UMASK_BEFORE.get().copied()
}

/// The mode to create a file of the user's own with, so that it gets what any program would give it.
pub fn user_mode() -> u32 {
    0o666 & !umask_before().unwrap_or(0)
}

/// As [`user_mode`], of a directory.
pub fn user_directory_mode() -> u32 {
    0o777 & !umask_before().unwrap_or(0)
}

static UMASK_BEFORE: OnceLock<u32> = OnceLock::new();

/// Gives the process the umask that [`clear_umask`] returned: before it becomes, or starts, what should have it.
pub fn restore_umask(mask: u32) {
    rustix::process::umask(Mode::from_raw_mode(mask));
}

/// Makes a write past the file size limit (`ulimit -f`) an error, `EFBIG`, instead of the end of the process.
///
/// It is the process's, and children inherit it.
pub fn ignore_file_size_signal() -> io::Result<()> {
    // JUSTIFICATION: std has no way to ignore a signal.
    // SAFETY: SIG_IGN runs no code of ours, so nothing need be safe in a signal's context.
    match unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether this process ignores a signal, as `nohup` has it of SIGHUP, and a shell of SIGINT for what it runs in the
/// background. Ask before there is a handler of our own: one takes the place of that wish.
pub fn ignores(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // JUSTIFICATION: neither std nor rustix tells how a signal is handled.
    // SAFETY: without a new action the kernel only writes the present one to a place of that type and size.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // JUSTIFICATION: an out-parameter of a C call. SAFETY: zeroed before the call, and zeros are values of all its
    // fields: numbers, and a function that may be absent.
    let action = unsafe { action.assume_init() };
    done == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Another descriptor for what this number is open as, closed on exec: for callers in languages whose descriptors are
/// numbers. The given one stays the caller's.
///
/// # Errors
/// `EBADF`, if it is not open; `EMFILE`.
pub fn duplicate(number: std::os::fd::RawFd) -> io::Result<std::os::fd::OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // JUSTIFICATION: a number from another language has no owner that Rust knows.
    // SAFETY: it is not negative; it is borrowed for one call of fcntl only, which refuses a number that is not open.
    let borrowed = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
    borrowed.try_clone_to_owned()
}

/// Lets the calling thread run before all ordinary ones (`SCHED_FIFO`, lowest priority), as soon as it has something
/// to do. It must sleep most of the time: on its CPU ordinary threads wait for it. What it starts is ordinary again.
///
/// # Errors
/// `PermissionDenied` without `CAP_SYS_NICE`, or where the control group has no real-time share.
pub fn run_before_others() -> io::Result<()> {
    // JUSTIFICATION: other C libraries than glibc have more fields, which do not matter here.
    // SAFETY: it is of plain numbers, and zeros are numbers.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = 1;
    // JUSTIFICATION: neither std nor rustix has sched_setscheduler.
    // SAFETY: 0 is the calling thread; the kernel only reads the parameters, which live until it returns.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The user this process acts as.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The group this process acts as.
pub fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The groups this process may give its files to: [`effective_gid`], and its supplementary ones where the kernel tells
/// them.
pub fn groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    std::iter::once(effective_gid()).chain(others.into_iter().map(|gid| gid.as_raw())).collect()
}

/// Whether the calling thread may give files away (`CAP_CHOWN`), in its own user namespace at least. A file
/// system may still refuse (NFS with root squashed); `false` where the kernel does not say.
pub fn has_capability_chown() -> bool {
    has_capability(CapabilitySet::CHOWN)
}

/// Whether the calling thread may make devices (`CAP_MKNOD`). Within a user namespace of its own the kernel refuses all
/// the same; `false` where it does not say.
pub fn has_capability_mknod() -> bool {
    has_capability(CapabilitySet::MKNOD)
}

fn has_capability(right: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(right))
}

/// Whether the CPU has instructions for AES-GCM: AES and the carry-less product.
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// CPUs this process can use at once: those online that its affinity allows, bounded by the quota of its
/// control group. At least 1.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
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

/// A line of `/proc/self/status` that gives kB, which there are 1024 bytes.
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
    fn a_signal_that_is_ignored_is_told_from_one_that_is_not() {
        ignore_file_size_signal().unwrap();
        assert!(ignores(libc::SIGXFSZ));
        // Nobody ignores what nobody can.
        assert!(!ignores(libc::SIGKILL) && !ignores(-1));
    }

    #[test]
    fn children_count_once_they_are_waited_for() {
        let before = children_cpu();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", script]).status().unwrap().success());
        assert!(children_cpu() > before);
    }

    #[test]
    fn the_soft_limit_of_open_files_reaches_the_hard_one() {
        let reached = raise_open_files().unwrap();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(Some(reached), limit.current);
    }

    #[test]
    fn abilities_agree_with_proc() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
        let effective = u64::from_str_radix(line.trim(), 16).unwrap();
        assert_eq!(has_capability_chown(), effective & 1 != 0);
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap();
        let others: Vec<u32> = line.split_whitespace().map(|gid| gid.parse().unwrap()).collect();
        assert_eq!(groups(), [vec![effective_gid()], others].concat());
        assert!(cores() >= 1);
        if cfg!(target_arch = "x86_64") {
            let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap();
            let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap();
            assert_eq!(has_aes(), flags.contains(" aes ") && flags.contains(" pclmulqdq "));
        }
    }
}
