//! What holds for this whole process: its limits, its umask, the signals that it ignores or holds. And what tells one
//! process from another that has its number.

use std::fs;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Resource, Signal};

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
    ignore(libc::SIGXFSZ)
}

/// Ignores SIGHUP, as `nohup` has it. It is the process's, and children inherit it.
pub fn ignore_hangup() -> io::Result<()> {
    ignore(libc::SIGHUP)
}

fn ignore(signal: i32) -> io::Result<()> {
    // JUSTIFICATION: std has no way to ignore a signal.
    // SAFETY: SIG_IGN runs no code of ours, so nothing need be safe in a signal's context.
    match unsafe { libc::signal(signal, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether this process ignores a signal, as `nohup` has it of SIGHUP, and a shell of SIGINT for what it runs in the
/// background. Ask before there is a handler of our own: one takes the place of that wish.
pub fn ignores(signal: i32) -> bool {
    handler_of(signal) == Some(libc::SIG_IGN)
}

/// What handles a signal; `None` if there is no such signal.
fn handler_of(signal: i32) -> Option<libc::sighandler_t> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // JUSTIFICATION: neither std nor rustix tells how a signal is handled.
    // SAFETY: without a new action the kernel only writes the present one to a place of that type and size.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // JUSTIFICATION: an out-parameter of a C call. SAFETY: zeroed before the call, and zeros are values of all its
    // fields: numbers, and a function that may be absent.
    let action = unsafe { action.assume_init() };
    (done == 0).then_some(action.sa_sigaction)
}

/// Signals that would end this process at once, and wait until this goes. Then the last that came does so.
///
/// It is the process's: one at a time. A signal that somebody listens for, or ignores, is theirs; also where they begin
/// to meanwhile.
#[derive(Debug)]
pub struct HeldSignals(Vec<i32>);

/// The last that came while some were held; 0 for none.
static CAME: AtomicI32 = AtomicI32::new(0);

/// Holds those by which a terminal, a user or a manager asks a process to end: SIGINT, SIGTERM and SIGHUP.
pub fn hold_signals() -> HeldSignals {
    HeldSignals::of(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

impl HeldSignals {
    fn of(signals: &[i32]) -> HeldSignals {
        CAME.store(0, Ordering::Release);
        let is_deadly = |signal: &i32| handler_of(*signal) == Some(libc::SIG_DFL);
        let held = signals.iter().copied().filter(is_deadly).filter(|&signal| handle(signal, note_it()));
        HeldSignals(held.collect())
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        let is_ours = |signal: &i32| handler_of(*signal) == Some(note_it());
        let freed: Vec<i32> = self.0.drain(..).filter(is_ours).collect();
        for &signal in &freed {
            handle(signal, libc::SIG_DFL);
        }
        let came = CAME.swap(0, Ordering::AcqRel);
        if freed.contains(&came)
            && let Some(signal) = Signal::from_named_raw(came)
        {
            // It ends us; a failure would leave us as if it had not come.
            let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
        }
    }
}

/// Has a signal handled so; false where the kernel has it otherwise.
fn handle(signal: i32, handler: libc::sighandler_t) -> bool {
    // JUSTIFICATION: std and rustix have no way to handle a signal.
    // SAFETY: the handler is SIG_DFL, which runs no code of ours, or `note`, which is of the type of a handler and does
    // one atomic store: that may be done in a signal's context.
    (unsafe { libc::signal(signal, handler) }) != libc::SIG_ERR
}

fn note_it() -> libc::sighandler_t {
    note as *const () as libc::sighandler_t
}

extern "C" fn note(signal: libc::c_int) {
    CAME.store(signal, Ordering::Release);
}

/// When a process began, in clock ticks since boot: another one of the same number began at another moment. `None` if
/// there is no such process, or it has ended and only waits for its parent.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.nth(18)?.parse().ok()).flatten()
}

/// Tells this run of the machine from others; `None` where the kernel does not tell.
pub fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_ignored_is_told_from_one_that_is_not() {
        ignore_file_size_signal().unwrap();
        assert!(ignores(libc::SIGXFSZ));
        // Nobody ignores what nobody can.
        assert!(!ignores(libc::SIGKILL) && !ignores(-1));
    }

    /// What the others do with signals is the process's too: this takes some of which the default is to do nothing.
    #[test]
    fn a_signal_that_is_held_comes_afterwards_and_what_somebody_listens_for_is_theirs() {
        let (held, theirs) = (libc::SIGURG, libc::SIGWINCH);
        ignore(theirs).unwrap();
        let signals = HeldSignals::of(&[held, theirs]);
        assert_eq!(signals.0, [held]);
        // JUSTIFICATION: rustix sends signals to a process, of which another thread may hear it, and later.
        // SAFETY: it takes a number, and the handler is `note`.
        unsafe { libc::raise(held) };
        assert_eq!(CAME.load(Ordering::Acquire), held);
        drop(signals);
        assert_eq!((handler_of(held), CAME.load(Ordering::Acquire)), (Some(libc::SIG_DFL), 0));
        assert!(ignores(theirs));
    }

    #[test]
    fn the_soft_limit_of_open_files_reaches_the_hard_one() {
        let reached = raise_open_files().unwrap();
        let limit = rustix::process::getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(Some(reached), limit.current);
    }
}
