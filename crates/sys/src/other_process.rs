//! A process that is no child of this one, held by a descriptor: what is done to it is never done to another one that
//! got its number.

use crate::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct OtherProcess(OwnedFd);

impl OtherProcess {
    /// The process that has this number and began at this moment ([`process::start_ticks`]); `None` if it is gone.
    ///
    /// # Errors
    /// What the kernel says, of another than that.
    pub fn open(pid: u32, start_ticks: u64) -> io::Result<Option<OtherProcess>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let held = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(held) => held,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The descriptor first: what is looked at then is this process or nothing.
        Ok((process::start_ticks(pid) == Some(start_ticks)).then_some(OtherProcess(held)))
    }

    /// Asks it to end (SIGTERM). One that has ended meanwhile is no error.
    ///
    /// # Errors
    /// If it may not be asked.
    pub fn terminate(&self) -> io::Result<()> {
        match pidfd_send_signal(&self.0, Signal::TERM) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it has ended; does not wait.
    pub fn has_ended(&self) -> bool {
        self.ends_within(Duration::ZERO)
    }

    /// Whether it has ended, or does within this time. A signal that comes to us meanwhile ends the wait: the answer
    /// then is no.
    pub fn ends_within(&self, wait: Duration) -> bool {
        let mut wanted = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        // A time beyond the kernel's is as good as none that passes.
        let wait = Timespec::try_from(wait).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        poll(&mut wanted, Some(&wait)).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_process_is_asked_to_end_and_another_one_with_its_number_is_not() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let began = process::start_ticks(child.id()).unwrap();
        assert!(OtherProcess::open(child.id(), began + 1).unwrap().is_none());
        let held = OtherProcess::open(child.id(), began).unwrap().unwrap();
        assert!(!held.has_ended() && !held.ends_within(Duration::from_millis(1)));
        held.terminate().unwrap();
        // Waited for by nobody yet: it has ended all the same.
        assert!(held.ends_within(Duration::from_secs(60)));
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert!(held.has_ended());
        held.terminate().unwrap();
        assert!(OtherProcess::open(child.id(), began).unwrap().is_none());
        assert!(OtherProcess::open(0, began).unwrap().is_none());
        assert!(OtherProcess::open(u32::MAX, began).unwrap().is_none());
    }
}
