//! What a command that goes on as a job says to its keeper: that its places are reached, and nobody is asked for
//! anything any more; and that it stops, so that it is not asked once more. Its stdin is one end of a pair of sockets
//! for that, from which nothing comes.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// In the environment of such a command: the number of its keeper. Programs that it starts have it too, and another
/// parent.
pub const KEEPER: &str = "THALWEG_JOB";

/// Its places are reached.
pub const BEGUN: u8 = b'b';
/// A signal asked it to stop.
pub const STOPPING: u8 = b's';

/// Whether a keeper started this process.
pub fn is_job() -> bool {
    let keeper = std::env::var(KEEPER).ok().and_then(|pid| pid.parse().ok());
    keeper == Some(std::os::unix::process::parent_id())
}

/// Says that its places are reached, if one did.
pub fn tell() {
    say(BEGUN);
}

/// Says that it stops, if one did.
pub fn tell_stopping() {
    say(STOPPING);
}

fn say(what: u8) {
    if is_job()
        && let Ok(line) = std::io::stdin().as_fd().try_clone_to_owned()
    {
        // If it is not heard, the keeper is gone, and this process ends with it.
        let _ = UnixStream::from(line).write_all(&[what]);
    }
}
