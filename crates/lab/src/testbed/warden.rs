//! Ends what runs in the hosts of a testbed that was killed.
//!
//! A program in a host is its user's: it has its own number, terminal and parent, and is no child of the testbed, so
//! the kernel does not end it with the testbed. Therefore each testbed has a second process, the warden:
//!
//! 1. The testbed's own process starts it before anybody can enter a host, hands it the record, and waits until it
//!    watches ([`appoint`]). Of one that ends before the testbed it starts a successor.
//! 2. The warden waits for the end of the testbed's process ([`watch`]). Then it ends the programs in the hosts, unless
//!    whoever took the testbed down has done so, and ends itself.
//!
//! It has a session and a name of its own, so that what kills the testbed by its group or by the name of its program
//! does not kill both. Where both are asked to end (SIGTERM), it ends the programs first. Not covered: both killed at
//! the same moment. Then programs go on until the next `up`, `down`, `list` or `status`.

use super::registry::{Record, Registry};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thalweg_mover::failure::{Failure, Result, of_io, of_thread};
use thalweg_sys::child::in_own_session;
use thalweg_sys::other_process::OtherProcess;
use thalweg_sys::process::hold_signals;

/// How long a warden may take until it watches: it starts and reads some kilobytes.
const WATCH_WAIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// How many wardens may follow the first: whoever kills more of them does not want one.
const SUCCESSORS_MAX: usize = 20;

/// Before a successor that could not be started is tried again: a machine without memory has some by then, perhaps.
const AGAIN_WAIT: Duration = Duration::from_secs(1);

/// How long it waits at a time; nothing happens in between.
const LOOK_WAIT: Duration = Duration::from_secs(60);

/// What `ps` and `pkill` call it; a kernel takes 15 bytes.
const PROCESS_NAME: &str = "testbed-warden";

/// Starts a warden of the testbed that is this process, and has it watch. `command` calls [`watch`] with the record on
/// its standard input.
///
/// # Errors
/// If it cannot be started, or does not watch within 10 s.
pub(super) fn appoint(mut command: Command, record: &Record) -> Result<()> {
    let record = serde_json::to_string(record).map_err(|error| failed(&error.into()))?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
    in_own_session(&mut command);
    let first = begin(&mut command, &record).map_err(|error| failed(&error))?;
    std::thread::Builder::new()
        .name("warden".into())
        .spawn(move || replace(first, command, &record))
        .map_err(|error| of_thread(&error))?;
    Ok(())
}

/// Watches over a testbed until that ends, then ends what is left in its hosts. Who asks it to end meanwhile (SIGTERM,
/// SIGINT, SIGHUP) has it end after that.
///
/// # Errors
/// If the kernel does not let it watch; if something cannot be ended.
pub fn watch(registry: &Registry, record: &Record) -> Result<()> {
    // A name alone: without it, it still watches.
    let _ = std::fs::write("/proc/self/comm", PROCESS_NAME);
    // Who asks all processes of a testbed to end, as `pkill -f` does, asks this one as well.
    let _held = hold_signals();
    let testbed = OtherProcess::open(record.pid, record.start_ticks)
        .map_err(|error| of_io("watch over the testbed", &error))?;
    // Without one it has ended already, and had another warden before us.
    if let Some(testbed) = testbed {
        // If nobody hears it, the testbed is about to end.
        let mut stdout = io::stdout();
        let _ = stdout.write_all(b"\n").and_then(|()| stdout.flush());
        while !testbed.ends_within(LOOK_WAIT) {}
    }
    registry.end_left(record).map(|_| ())
}

/// A warden that watches.
fn begin(command: &mut Command, record: &str) -> io::Result<Child> {
    let mut warden = command.spawn()?;
    match hand_over(&mut warden, record) {
        Ok(()) => Ok(warden),
        Err(error) => {
            let _ = warden.kill();
            let _ = warden.wait();
            Err(error)
        }
    }
}

fn hand_over(warden: &mut Child, record: &str) -> io::Result<()> {
    let (Some(mut stdin), Some(mut stdout)) = (warden.stdin.take(), warden.stdout.take()) else {
        return Err(io::Error::other("it has no pipes"));
    };
    // The largest record has less than a pipe takes.
    stdin.write_all(record.as_bytes())?;
    drop(stdin);
    if poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&WATCH_WAIT))? == 0 {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not begin to watch"));
    }
    // One that ended instead has said why in the log.
    stdout.read_exact(&mut [0])
}

/// Waits for the end of each warden, and starts the next.
fn replace(first: Child, mut command: Command, record: &str) {
    let mut warden = Some(first);
    for _ in 0..SUCCESSORS_MAX {
        if let Some(mut ended) = warden.take() {
            let _ = ended.wait();
        }
        match begin(&mut command, record) {
            Ok(next) => warden = Some(next),
            Err(error) => {
                eprintln!("warning: {}", failed(&error));
                std::thread::sleep(AGAIN_WAIT);
            }
        }
    }
    if let Some(mut last) = warden {
        let _ = last.wait();
    }
    eprintln!("warning: {SUCCESSORS_MAX} wardens ended: if the testbed is killed, programs in it go on");
}

fn failed(error: &io::Error) -> Failure {
    of_io("start the testbed's warden", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell that reads what it is given, and then does this.
    fn shell(then: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("cat > /dev/null; {then}")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    #[test]
    fn a_warden_that_does_not_begin_to_watch_is_none() {
        let mut watching = begin(&mut shell("echo; exec sleep 600"), "{}").unwrap();
        assert!(watching.try_wait().unwrap().is_none(), "it goes on");
        watching.kill().unwrap();
        watching.wait().unwrap();
        let error = begin(&mut shell("exit 1"), "{}").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            begin(&mut Command::new("/there/is/no/such/program"), "").unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
