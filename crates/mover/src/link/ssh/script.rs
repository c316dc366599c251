//! Runs a script at the far side, and uploads a file to it for as long as that gets on.

use super::child::{END_TIMEOUT, call_off, end, read_while};
use super::command::{Ssh, no_ssh, not_reached};
use super::words::quote_all;
use super::{LOGIN_TIMEOUT, START};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use std::fs::File;
use std::io::Seek;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Time in which ssh must take more of what is uploaded, from the login on, and all of it have arrived from the last
/// piece on: on a thin line the mebibytes that it reads ahead are minutes.
const UPLOAD_STALL: Duration = LOGIN_TIMEOUT;

/// Runs a script of a POSIX shell at the far side, whatever the login shell is; its stdout, bounded, and exit code.
/// `input` is its stdin: while more of it is taken, that may last as long as it does. Once it `is_over` it ends.
pub(super) fn run_script(
    ssh: &Ssh,
    script: &str,
    input: Option<File>,
    is_over: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, Option<i32>)> {
    let patience = if input.is_some() { UPLOAD_STALL } else { LOGIN_TIMEOUT };
    run_script_for(ssh, script, input, patience, is_over)
}

fn run_script_for(
    ssh: &Ssh,
    script: &str,
    input: Option<File>,
    patience: Duration,
    is_over: &dyn Fn() -> bool,
) -> Result<(Vec<u8>, Option<i32>)> {
    let upload = input.as_ref().map(Upload::of).transpose().map_err(|error| failure::of_io(START, &error))?;
    let remote = quote_all([b"sh".as_slice(), b"-c", script.as_bytes()].into_iter());
    let mut child = ssh
        .command(&remote, true)
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| no_ssh(ssh, &error))?;
    let taken = || upload.as_ref().map_or(0, Upload::taken);
    let mut progress = Progress { seen: 0, since: Instant::now(), patience };
    let output = read_while(&mut child, || !is_over() && !progress.is_stuck(Instant::now(), taken()));
    let Some(output) = output else {
        if is_over() {
            return Err(call_off(&mut child));
        }
        end(&mut child, Duration::ZERO);
        let why = format!("nothing more of it was taken for {} s", patience.as_secs());
        return Err(upload.map_or_else(|| not_reached(ssh), |upload| upload.failed(ssh, &why)));
    };
    match end(&mut child, END_TIMEOUT) {
        Some(255) | None => {
            Err(upload.map_or_else(|| not_reached(ssh), |upload| upload.failed(ssh, "the line was lost")))
        }
        code => Ok((output, code)),
    }
}

/// A file that ssh reads as its stdin. It has the position of ours: that says how much of it was taken.
struct Upload {
    file: File,
    bytes: u64,
}

impl Upload {
    fn of(file: &File) -> std::io::Result<Upload> {
        Ok(Upload { file: file.try_clone()?, bytes: file.metadata()?.len() })
    }

    fn taken(&self) -> u64 {
        (&self.file).stream_position().unwrap_or(0)
    }

    /// Before ssh takes any of it there is a login.
    fn failed(&self, ssh: &Ssh, why: &str) -> Failure {
        match self.taken() {
            0 => not_reached(ssh),
            taken => {
                let (name, all) = (ssh.name(), self.bytes);
                let cause =
                    format!("the upload to {name} ended early: {why}; ssh took {taken} of {all} bytes");
                Failure::new(FailureKind::Connection, START, cause).because(Reason::SshEnded)
            }
        }
    }
}

/// A deadline that every progress moves.
struct Progress {
    seen: u64,
    since: Instant,
    patience: Duration,
}

impl Progress {
    fn is_stuck(&mut self, now: Instant, seen: u64) -> bool {
        if seen != self.seen {
            (self.seen, self.since) = (seen, now);
        }
        now.saturating_duration_since(self.since) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::testing::LONG;
    use std::ffi::OsStr;

    /// What becomes of an upload of 16 pieces by this shell script in place of ssh.
    fn uploaded(ssh: &str) -> Result<(Vec<u8>, Option<i32>)> {
        uploaded_until(ssh, Duration::from_secs(2), &|_| false)
    }

    /// The same, unless it `is_over`, which is asked with how much was taken.
    fn uploaded_until(
        ssh: &str,
        patience: Duration,
        is_over: &dyn Fn(u64) -> bool,
    ) -> Result<(Vec<u8>, Option<i32>)> {
        let scratch = tempfile::tempdir().unwrap();
        let (path, upload) = (scratch.path().join("ssh.sh"), scratch.path().join("upload"));
        std::fs::write(&upload, vec![7; 16 * 65_536]).unwrap();
        let take = "take() { dd bs=65536 count=1 of=/dev/null 2>/dev/null; }";
        std::fs::write(&path, format!("{take}\n{ssh}\n")).unwrap();
        let command = format!("sh {}", path.display());
        let ssh = Ssh::new(OsStr::new(&command), "far", None).unwrap();
        let file = File::open(upload).unwrap();
        let looks = Upload::of(&file).unwrap();
        run_script_for(&ssh, "true", Some(file), patience, &|| is_over(looks.taken()))
    }

    #[test]
    fn an_upload_that_is_not_wanted_any_more_ends_with_its_ssh() {
        let scratch = tempfile::tempdir().unwrap();
        let begun = scratch.path().join("begun");
        let ssh = format!("echo $$ > '{}'; take; exec sleep 600", begun.display());
        let failure = uploaded_until(&ssh, LONG, &|taken| taken > 0).unwrap_err();
        assert_eq!((failure.kind, &*failure.cause), (FailureKind::Connection, "the copy is over"));
        let process = std::fs::read_to_string(&begun).unwrap();
        assert!(!std::path::Path::new("/proc").join(process.trim()).exists(), "it outlives the copy");
    }

    #[test]
    fn an_upload_may_last_while_it_gets_on_and_says_how_far_it_came() {
        // Longer than the patience in all, and far shorter from one piece to the next.
        let slow = "for piece in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.25; take; done; echo arrived";
        let (said, code) = uploaded(slow).unwrap();
        assert_eq!((said.as_slice(), code), (&b"arrived\n"[..], Some(0)));
        let said = |ssh: &str| uploaded(ssh).unwrap_err().cause;
        let stuck = said("take; take; exec sleep 60");
        assert!(
            stuck.contains("upload to far") && stuck.ends_with("took 131072 of 1048576 bytes"),
            "{stuck}"
        );
        let lost = said("take; exit 255");
        assert!(lost.contains("line was lost; ssh took 65536 of 1048576"), "{lost}");
        for never in ["exec sleep 60", "exit 255"] {
            assert_eq!(said(never), "ssh did not reach far");
        }
    }

    #[test]
    fn each_progress_moves_the_deadline() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut progress = Progress { seen: 0, since: begin, patience: 3 * second };
        for (at, seen, is_stuck) in [
            (1, 0, false),
            (2, 5, false),
            (4, 5, false),
            (5, 5, true),
            (6, 6, false),
            (8, 6, false),
            (9, 6, true),
        ] {
            assert_eq!(progress.is_stuck(begin + at * second, seen), is_stuck, "{at}");
        }
    }
}
