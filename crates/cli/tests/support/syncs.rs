//! Looks at a program at the entry of each sync it makes, with the program stopped there.
//!
//! strace cannot do this: it counts the calls of each thread by itself, and what it says comes late. Calls of
//! different threads are let through one after the other, so that nothing becomes durable while one is looked at.

use super::chance;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_lab::wrap::wrap;

/// What the program finds at its sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// What the kernel says.
    Done,
    /// Nothing is synced; the kernel says `EIO`.
    Refused,
}

/// Called with the number of the sync, from 1, before it is done.
pub type AtEach = Box<dyn FnMut(u32) -> Sync + Send>;

/// A program whose syncs are watched. See the module.
pub struct Syncs {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u32>>,
}

/// Whether programs can be watched here; tells why not.
pub fn can_watch(row: &str) -> bool {
    let can = cfg!(target_arch = "x86_64");
    if !can {
        chance::skipped(row, "system calls are told apart on x86-64 only");
    }
    can
}

/// The same program, which waits for `start` to exist before it does anything.
pub fn held_until(start: &Path, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "until [ -e \"$0\" ]; do sleep 0.01; done; exec \"$@\""]).arg(start);
    wrap(shell, command)
}

/// Whether the program has ended and nobody has asked how. To wait for a child that is traced from the same process
/// would show its stops instead of its end.
pub fn is_zombie(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

impl Syncs {
    /// Watches process `pid` with all its threads from here on. Syncs made before are not counted.
    pub fn watch(pid: u32, at_each: AtEach) -> Syncs {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let (ready, is_ready) = channel();
        let thread = std::thread::spawn(move || Tracer::new(at_each).run(pid, &stopped, &ready));
        is_ready.recv_timeout(Duration::from_secs(60)).expect("the program can be traced");
        Syncs { stop, thread: Some(thread) }
    }

    /// Lets go of the program, which need not have ended; says how many syncs there were.
    pub fn end(mut self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("the tracer")
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Tracer {
    at_each: AtEach,
    syncs: u32,
    threads: BTreeSet<Pid>,
    /// The one that syncs, and what it shall find.
    syncing: Option<(Pid, Sync)>,
    /// At the entry of a sync while another one is under way.
    waiting: VecDeque<Pid>,
}

impl Tracer {
    fn new(at_each: AtEach) -> Tracer {
        let (threads, waiting) = (BTreeSet::new(), VecDeque::new());
        Tracer { at_each, syncs: 0, threads, syncing: None, waiting }
    }

    fn run(mut self, pid: u32, stop: &AtomicBool, ready: &Sender<()>) -> u32 {
        let options =
            Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_TRACEEXIT;
        for entry in std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten() {
            let tid = entry.file_name().to_string_lossy().parse().expect("a number");
            let tid = Pid::from_raw(tid);
            if ptrace::seize(tid, options).and_then(|()| ptrace::interrupt(tid)).is_ok() {
                self.threads.insert(tid);
            }
        }
        let _ = ready.send(());
        // Only what this thread traces, not the children of the test.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD | WaitPidFlag::WNOHANG;
        while !stop.load(Ordering::Relaxed) {
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_micros(100)),
                Ok(status) => self.step(status),
                Err(Errno::EINTR) => {}
                Err(_) => return self.syncs,
            }
        }
        self.let_go(flags);
        self.syncs
    }

    /// An error is that the thread is gone; then its end is told as well.
    fn step(&mut self, status: WaitStatus) {
        match status {
            WaitStatus::PtraceSyscall(tid) => match self.syncing {
                Some((syncing, verdict)) if syncing == tid => {
                    if verdict == Sync::Refused {
                        set_result(tid, -(Errno::EIO as i64));
                    }
                    let _ = ptrace::syscall(tid, None);
                    self.sync_is_over();
                }
                _ if is_entry_of_sync(tid) => {
                    self.waiting.push_back(tid);
                    if self.syncing.is_none() {
                        self.sync_next();
                    }
                }
                _ => drop(ptrace::syscall(tid, None)),
            },
            WaitStatus::PtraceEvent(tid, _, event) if event == nix::libc::PTRACE_EVENT_EXIT => {
                // Its end is its parent's business.
                let _ = ptrace::detach(tid, None);
                self.gone(tid);
            }
            WaitStatus::PtraceEvent(tid, ..) => {
                self.threads.insert(tid);
                let _ = ptrace::syscall(tid, None);
            }
            WaitStatus::Stopped(tid, signal) => drop(ptrace::syscall(tid, signal)),
            WaitStatus::Exited(tid, _) | WaitStatus::Signaled(tid, ..) => self.gone(tid),
            _ => {}
        }
    }

    fn sync_next(&mut self) {
        let Some(tid) = self.waiting.pop_front() else { return };
        self.syncs += 1;
        let verdict = (self.at_each)(self.syncs);
        if verdict == Sync::Refused {
            set_call(tid, -1);
        }
        self.syncing = Some((tid, verdict));
        let _ = ptrace::syscall(tid, None);
    }

    fn sync_is_over(&mut self) {
        self.syncing = None;
        self.sync_next();
    }

    fn gone(&mut self, tid: Pid) {
        self.threads.remove(&tid);
        self.waiting.retain(|waiting| *waiting != tid);
        if self.syncing.is_some_and(|(syncing, _)| syncing == tid) {
            self.sync_is_over();
        }
    }

    fn let_go(&mut self, flags: WaitPidFlag) {
        for tid in std::mem::take(&mut self.waiting) {
            let _ = ptrace::detach(tid, None);
            self.threads.remove(&tid);
        }
        for tid in &self.threads {
            let _ = ptrace::interrupt(*tid);
        }
        let mut tries = 0;
        while !self.threads.is_empty() && tries < 5000 {
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::StillAlive) => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(WaitStatus::Stopped(tid, signal)) => {
                    let _ = ptrace::detach(tid, Some(signal));
                    self.threads.remove(&tid);
                }
                Ok(status) => {
                    let Some(tid) = status.pid() else { continue };
                    let _ = ptrace::detach(tid, None::<Signal>);
                    self.threads.remove(&tid);
                }
                Err(_) => return,
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn is_entry_of_sync(tid: Pid) -> bool {
    use nix::libc::{SYS_fdatasync, SYS_fsync, SYS_msync, SYS_sync, SYS_sync_file_range, SYS_syncfs};
    const SYNCS: [i64; 6] = [SYS_fsync, SYS_fdatasync, SYS_syncfs, SYS_sync, SYS_msync, SYS_sync_file_range];
    // At the entry, and only there, the result is set to this.
    let entry = -(Errno::ENOSYS as i64);
    ptrace::getregs(tid).is_ok_and(|regs| regs.rax as i64 == entry && SYNCS.contains(&(regs.orig_rax as i64)))
}

#[cfg(target_arch = "x86_64")]
fn set_call(tid: Pid, call: i64) {
    if let Ok(mut regs) = ptrace::getregs(tid) {
        regs.orig_rax = call as u64;
        let _ = ptrace::setregs(tid, regs);
    }
}

#[cfg(target_arch = "x86_64")]
fn set_result(tid: Pid, result: i64) {
    if let Ok(mut regs) = ptrace::getregs(tid) {
        regs.rax = result as u64;
        let _ = ptrace::setregs(tid, regs);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn is_entry_of_sync(_: Pid) -> bool {
    unreachable!("see can_watch")
}

#[cfg(not(target_arch = "x86_64"))]
fn set_call(_: Pid, _: i64) {}

#[cfg(not(target_arch = "x86_64"))]
fn set_result(_: Pid, _: i64) {}
