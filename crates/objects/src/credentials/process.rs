//! A command that prints credentials: `credential_process` of a profile.
//!
//! It is started without a shell, with our environment, the user's umask, an empty standard input and our standard
//! error: its words are the user's to read, and none of ours repeats them.

use super::{Found, answer, failed};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{of_io, shown_path};
use thalweg_mover::link::ssh::{end, split_words};
use thalweg_mover::{FailureKind, Result};
use thalweg_sys::child::{dies_with_us, with_users_umask};
use thalweg_sys::socket::{Interest, poll};

/// How long a command may take: it may ask a service that takes its time, and a person for a second factor.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Runs the command and reads what it prints.
///
/// # Errors
/// `Usage` if it cannot be split into words, `Connection` if it takes too long, `Permission` if it fails; what the
/// kernel says if it cannot be started; those of [`answer::read`].
pub(super) fn run(source: &str, command: &str, patience: Duration) -> Result<Found> {
    let source = format!("`credential_process` of {source}");
    let words = split_words(command.as_bytes()).map_err(|why| failed(FailureKind::Usage, &source, why))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(failed(FailureKind::Usage, &source, "it names no program"));
    };
    // Arguments may be secrets.
    let source = format!("{source}, `{}`", shown_path(program.as_bytes()));
    let of_kernel = |error: &io::Error| {
        let failure = of_io("run", error);
        failed(failure.kind, &source, failure.cause)
    };
    let mut child = start(program, arguments).map_err(|error| of_kernel(&error))?;
    let until = Instant::now() + patience;
    let read = read_output(&mut child, until);
    // Nobody waits for a command whose output is of no use.
    let left = match &read {
        Ok(Output::Whole(_)) => until.saturating_duration_since(Instant::now()),
        _ => Duration::ZERO,
    };
    let code = end(&mut child, left);
    let too_long = || {
        let cause = format!("it has not ended after {} s, and was killed", patience.as_secs());
        failed(FailureKind::Connection, &source, cause)
    };
    let output = match read.map_err(|error| of_kernel(&error))? {
        Output::Whole(output) => output,
        Output::TooLong => {
            let cause = format!("it prints more than {ANSWER_BYTES_MAX} bytes");
            return Err(failed(FailureKind::Protocol, &source, cause));
        }
        Output::TooLate => return Err(too_long()),
    };
    match code {
        Some(0) => {
            let text = str::from_utf8(&output)
                .map_err(|_| failed(FailureKind::Protocol, &source, "what it prints is no text in UTF-8"))?;
            answer::read(&source, text, true)
        }
        Some(code) => {
            let cause = format!("it ended with exit code {code}: what it says is on standard error");
            Err(failed(FailureKind::Permission, &source, cause))
        }
        None if Instant::now() >= until => Err(too_long()),
        None => Err(failed(FailureKind::Permission, &source, "it was ended by a signal")),
    }
}

fn start(program: &OsStr, arguments: &[OsString]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    with_users_umask(dies_with_us(&mut command)).spawn()
}

enum Output {
    Whole(Vec<u8>),
    TooLong,
    TooLate,
}

/// What the child prints until it closes its standard output, which it may leave to others.
fn read_output(child: &mut Child, until: Instant) -> io::Result<Output> {
    let Some(mut stdout) = child.stdout.take() else { return Ok(Output::Whole(Vec::new())) };
    let mut output = Vec::new();
    let mut piece = vec![0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let ready = poll(&[(stdout.as_fd(), Interest::READ)], Some(left))?;
        if !ready.iter().any(|ready| ready.any()) {
            return Ok(Output::TooLate);
        }
        match stdout.read(&mut piece) {
            Ok(0) => return Ok(Output::Whole(output)),
            Ok(read) if output.len() + read > ANSWER_BYTES_MAX => return Ok(Output::TooLong),
            Ok(read) => output.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= until {
            return Ok(Output::TooLate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(command: &str, patience: Duration) -> thalweg_mover::Failure {
        run("profile `a`", command, patience).err().expect(command)
    }

    /// A command that a shell runs.
    fn by_shell(script: &str) -> String {
        format!("sh -c '{script}'")
    }

    #[test]
    fn what_a_command_prints_is_read_and_quotes_are_as_in_a_shell() {
        let command = "printf '{\"Version\":1,\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"%s\"}' \"A\" s\\x";
        let found = run("profile `a`", command, PATIENCE).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!((found.credentials.key(), found.credentials.secret()), ("A", "sx"));
        assert_eq!((found.credentials.token(), found.until), (None, None));
    }

    #[test]
    fn a_command_that_fails_is_told_without_its_arguments() {
        for (command, kind, why) in [
            (by_shell("echo canary; exit 7"), FailureKind::Permission, "exit code 7"),
            (by_shell("kill -9 $$; : canary"), FailureKind::Permission, "by a signal"),
            (by_shell("echo canary"), FailureKind::Protocol, "no JSON"),
            (by_shell("printf \"\\\\377\""), FailureKind::Protocol, "UTF-8"),
            ("/does/not/exist canary".to_owned(), FailureKind::NotFound, "`/does/not/exist`"),
            ("'canary".to_owned(), FailureKind::Usage, "a quote does not end"),
            (" ".to_owned(), FailureKind::Usage, "no program"),
        ] {
            let failure = failure(&command, PATIENCE);
            assert_eq!(failure.kind, kind, "{command}: {failure}");
            assert!(failure.cause.contains(why), "{command}: {failure}");
            assert!(failure.cause.contains("profile `a`"), "{command}: {failure}");
            assert!(!format!("{failure:?}").contains("canary"), "{failure:?}");
        }
    }

    #[test]
    fn a_command_that_prints_without_end_or_never_ends_is_killed() {
        let failure_of = |script: &str, patience| failure(&by_shell(script), patience);
        let endless = failure_of("while :; do echo canary; done", PATIENCE);
        assert!(endless.cause.contains("more than 65536 bytes"), "{endless}");
        let patience = Duration::from_millis(200);
        // One keeps its output open, the other has closed it.
        for script in ["exec sleep 600", "exec >&-; exec sleep 600"] {
            let late = failure_of(script, patience);
            assert_eq!(late.kind, FailureKind::Connection, "{script}: {late}");
            assert!(late.cause.contains("was killed"), "{script}: {late}");
        }
    }
}
