//! Child processes that do not outlive who started them, those that have a session or a group of their own or are deaf
//! to a terminal, the user's umask for them, files in memory that they have as well, a stdin whose writer does not
//! wait, and a stderr of their own.

use crate::{process, uninterrupted};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Has the kernel kill the child (SIGKILL) as soon as the thread that starts it ends, however that ends. Holds across
/// an `exec`, also into another network namespace, but not for what the child itself starts, and not for programs that
/// gain privileges (set-user-ID; prctl(2), `PR_SET_PDEATHSIG`). To be started by a thread that lives as long as the
/// process.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let in_child = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // It may have ended before the signal was asked for.
        match rustix::process::getppid().is_some_and(|now| now.as_raw_nonzero().get() as u32 == parent) {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    };
    // JUSTIFICATION: what a child does between fork and exec can only be said so.
    // SAFETY: two system calls, nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(in_child) }
}

/// Puts the child into a session of its own before it runs anything (setsid(2)): what a terminal sends to who started
/// it, at Ctrl-C or when it is closed, never reaches the child.
pub fn in_own_session(command: &mut Command) -> &mut Command {
    let in_child = || rustix::process::setsid().map(|_| ()).map_err(io::Error::from);
    // JUSTIFICATION: what a child does between fork and exec can only be said so.
    // SAFETY: one system call, nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(in_child) }
}

/// Has the child ignore what a terminal sends at Ctrl-C (SIGINT), unless it sets a handler of its own. ssh sets none
/// once it is logged in, where the signal is ignored.
pub fn deaf_to_interrupts(command: &mut Command) -> &mut Command {
    let in_child = || {
        // JUSTIFICATION: neither std nor rustix changes how a signal is handled.
        // SAFETY: SIG_IGN runs no code of ours, so nothing need be safe in a signal's context.
        match unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // JUSTIFICATION: what a child does between fork and exec can only be said so.
    // SAFETY: one system call, nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(in_child) }
}

/// Gives the child the umask that the user gave this process, where [`process::clear_umask`] took that away: else all
/// that it makes would be everybody's to write.
pub fn with_users_umask(command: &mut Command) -> &mut Command {
    let Some(mask) = process::umask_before() else { return command };
    let in_child = move || {
        process::restore_umask(mask);
        Ok(())
    };
    // JUSTIFICATION: what a child does between fork and exec can only be said so.
    // SAFETY: one system call, nothing is allocated and no lock is taken.
    unsafe { command.pre_exec(in_child) }
}

/// Asks a child to end as Ctrl-C does (SIGINT). To be called before it is waited for: afterwards its number may be
/// another's.
///
/// # Errors
/// If it is gone, or may not be asked.
pub fn interrupt(child: &Child) -> io::Result<()> {
    Ok(rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::INT)?)
}

/// Asks a child to end (SIGTERM): one that reads a password gives the terminal back as it was. To be called before it
/// is waited for: afterwards its number may be another's.
///
/// # Errors
/// If it is gone, or may not be asked.
pub fn terminate(child: &Child) -> io::Result<()> {
    Ok(rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM)?)
}

/// From now on whoever writes to a child's stdin does not wait while the child reads nothing: what has no room is
/// refused (`WouldBlock`), and of 4096 bytes or fewer (`PIPE_BUF`) nothing is written then.
///
/// # Errors
/// What the kernel says.
pub fn write_without_waiting(stdin: &ChildStdin) -> io::Result<()> {
    let flags = uninterrupted(|| rustix::fs::fcntl_getfl(stdin))?;
    uninterrupted(|| rustix::fs::fcntl_setfl(stdin, flags | OFlags::NONBLOCK))
}

/// Our stderr, for a child that may set what it has of it not to wait, as ssh does where that is no terminal: all who
/// have the same opening of a pipe would no longer wait, and lose what has no room in it. It gets one of its own. What
/// is no pipe, or may not be opened, is inherited.
pub fn stderr_apart() -> Stdio {
    opened_apart(io::stderr().as_fd()).map_or_else(Stdio::inherit, Stdio::from)
}

/// `None`: see [`stderr_apart`]; or it has a name, and nobody reads there.
fn opened_apart(pipe: BorrowedFd<'_>) -> Option<File> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    if !std::fs::metadata(&path).ok()?.file_type().is_fifo() {
        return None;
    }
    // An opening that waits would wait for a reader.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().write(true).custom_flags(flags).open(path).ok()?;
    let flags = uninterrupted(|| rustix::fs::fcntl_getfl(&file)).ok()?;
    uninterrupted(|| rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)).ok()?;
    Some(file)
}

/// A file without a name, in memory alone, that only this user may open. Children that are started while it is open
/// have it too: they open it as `/proc/self/fd/` and its number.
///
/// # Errors
/// What the kernel says.
pub fn memory_file() -> io::Result<File> {
    // Without MFD_CLOEXEC: it is there to be handed on.
    let file = rustix::fs::memfd_create("thalweg", MemfdFlags::empty())?;
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    Ok(file.into())
}

/// Kills (SIGKILL) a child that was started with `process_group(0)`, and all that it started and that did not leave
/// this group. To be called before the child is waited for: afterwards its number may be another's.
///
/// # Errors
/// If nobody is left in the group, or some may not be killed.
pub fn kill_group(leader: &Child) -> io::Result<()> {
    let group = rustix::process::Pid::from_child(leader);
    Ok(rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let started = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("600").stdin(Stdio::null()).stdout(Stdio::piped());
            dies_with_us(&mut command).spawn().unwrap()
        });
        let mut child = started.join().unwrap();
        // Its end of the pipe is closed: it is gone, long before its time.
        child.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_child_in_its_own_session_leads_it_from_its_beginning() {
        use rustix::process::{Pid, getsid};
        let mut command = Command::new("sleep");
        let mut child = in_own_session(command.arg("600")).spawn().unwrap();
        let session = getsid(Some(Pid::from_child(&child)));
        let own = Pid::from_child(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(session, Ok(own));
    }

    #[test]
    fn a_group_is_killed_with_what_its_leader_started() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo; wait"]).process_group(0);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = child.stdout.take().unwrap();
        said.read_exact(&mut [0]).unwrap();
        kill_group(&child).unwrap();
        // Both ends of the pipe are closed, long before their time.
        said.read_to_end(&mut Vec::new()).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn who_writes_to_a_child_that_reads_nothing_is_told_so_and_does_not_wait() {
        use std::io::Write;
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        write_without_waiting(&stdin).unwrap();
        let refused = (0..10_000).find_map(|_| stdin.write_all(&[7; 4096]).err());
        assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::WouldBlock));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_pipe_that_a_child_sets_not_to_wait_still_makes_others_wait() {
        use std::io::{Read, Write};
        let (mut reader, writer) = io::pipe().unwrap();
        let waits = |fd: BorrowedFd<'_>| !rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK);
        let mut apart = opened_apart(writer.as_fd()).unwrap();
        assert!(waits(apart.as_fd()), "as who does not change it expects");
        rustix::fs::fcntl_setfl(&apart, OFlags::NONBLOCK).unwrap();
        assert!(!waits(apart.as_fd()) && waits(writer.as_fd()));
        apart.write_all(b"x").unwrap();
        reader.read_exact(&mut [0]).unwrap();
        // What is no pipe.
        assert!(opened_apart(memory_file().unwrap().as_fd()).is_none());
    }

    #[test]
    fn a_file_in_memory_is_the_users_alone_and_a_child_reads_it_from_its_beginning() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::MetadataExt;
        let mut file = memory_file().unwrap();
        file.write_all(b"secret").unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600);
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let out = Command::new("cat").arg(path).output().unwrap();
        assert_eq!(out.stdout, b"secret");
    }

    #[test]
    fn a_child_is_asked_to_end_as_a_terminal_does() {
        use std::os::unix::process::ExitStatusExt;
        let mut command = Command::new("sleep");
        // Whoever runs the tests may have started them deaf to it.
        // JUSTIFICATION: neither std nor rustix changes how a signal is handled.
        // SAFETY: one call, which allocates nothing and takes no lock; SIG_DFL runs no code of ours.
        let hears = || match unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        };
        // JUSTIFICATION: what a child does between fork and exec can only be said so.
        // SAFETY: as above.
        let mut child = unsafe { command.arg("600").pre_exec(hears) }.spawn().unwrap();
        interrupt(&child).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    }

    #[test]
    fn a_child_that_is_deaf_to_a_terminal_hears_when_it_is_asked_to_end() {
        use std::os::unix::process::ExitStatusExt;
        let mut command = Command::new("sleep");
        let mut child = deaf_to_interrupts(command.arg("600")).spawn().unwrap();
        interrupt(&child).unwrap();
        terminate(&child).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_child_whose_parent_lives_ends_by_itself() {
        let mut command = Command::new("true");
        assert!(dies_with_us(&mut command).status().unwrap().success());
    }
}
