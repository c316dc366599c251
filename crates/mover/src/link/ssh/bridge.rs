//! A connection to the far mover that rides in an ssh process of its own.

use super::child::{END_TIMEOUT, LOOK_AGAIN, end};
use super::command::{FarProgram, Ssh, no_ssh};
use super::{BRIDGE_MAGIC, NOISE_BYTES_MAX, REACH, START};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A connection to port `port` of the far machine's loopback, inside an ssh process of its own.
///
/// ssh has one end of a pair of sockets as stdin and stdout; the other end is what is returned, once the far end of the
/// bridge said that it stands. A login that `is_over` overtakes is ended.
///
/// # Errors
/// `Connection` if ssh does not get there, or it is over; `NotFound` if nobody listens at the port (any more).
pub fn bridge(
    ssh: &Ssh,
    program: &FarProgram,
    port: u16,
    deadline: Duration,
    is_over: &AtomicBool,
) -> Result<(OwnedFd, Child)> {
    const OVER: &str = "the copy is over";
    if is_over.load(Ordering::Acquire) {
        return Err(Failure::new(FailureKind::Connection, REACH, OVER).because(Reason::FarNotReached));
    }
    let until = Instant::now() + deadline;
    let of_io = |error: std::io::Error| failure::of_io(START, &error);
    let (ours, theirs) = UnixStream::pair().map_err(of_io)?;
    let also_theirs = theirs.try_clone().map_err(of_io)?;
    let mut command = ssh.command(&program.line(&["mover", "--bridge", &port.to_string()]), false);
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(also_theirs));
    let mut child = command.spawn().map_err(|error| no_ssh(ssh, &error))?;
    // Our own copies of ssh's end: while they are open, nobody sees it close.
    drop(command);
    let failed = |child: &mut Child, kind, cause: String| {
        end(child, Duration::ZERO);
        Err(Failure::new(kind, REACH, cause).because(Reason::FarNotReached))
    };
    let (mut line, mut noise_bytes) = (Vec::new(), 0);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return failed(&mut child, FailureKind::Connection, format!("{}: ssh took too long", ssh.name()));
        }
        if is_over.load(Ordering::Acquire) {
            return failed(&mut child, FailureKind::Connection, OVER.to_owned());
        }
        // Byte by byte, so that nothing behind the line is taken. There are few.
        let mut byte = [0];
        let _ = ours.set_read_timeout(Some(left.min(LOOK_AGAIN)));
        match (&ours).read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            Ok(_) => {
                let code = end(&mut child, END_TIMEOUT);
                let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                let cause = format!("{}: ssh ended with {code}", ssh.name());
                let failure = Failure::new(FailureKind::Connection, REACH, cause);
                return Err(failure.because(Reason::FarNotReached));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => {}
        }
        if noise_bytes + line.len() > NOISE_BYTES_MAX {
            return failed(&mut child, FailureKind::Protocol, format!("{}: too much noise", ssh.name()));
        }
        if line.last() != Some(&b'\n') {
            continue;
        }
        match line.strip_prefix(BRIDGE_MAGIC.as_bytes()).map(<[u8]>::trim_ascii_end) {
            Some(b"up") => {
                let _ = ours.set_read_timeout(None);
                return Ok((ours.into(), child));
            }
            Some(b"gone") => {
                let cause = format!("{}: it could not be reached on that machine's loopback", ssh.name());
                return failed(&mut child, FailureKind::NotFound, cause);
            }
            _ => {
                noise_bytes += line.len();
                line.clear();
            }
        }
    }
}
