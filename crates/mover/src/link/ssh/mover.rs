//! Starts a far mover, waits for its first word, and asks it to dial back.

use super::child::{END_TIMEOUT, LOOK_AGAIN, call_off, end};
use super::command::{FarProgram, Ssh, no_ssh, not_reached};
use super::{DialBack, LOGIN_TIMEOUT, MOVER_MAGIC, Order, REACH, Ready, START, read_line};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::mutex::lock;
use std::io::{ErrorKind, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_sys::child::write_without_waiting;

/// A far mover that ssh started. Dropping it ends ssh; the far mover ends when its session does.
#[derive(Debug)]
pub struct StartedMover {
    /// What it said of itself.
    pub ready: Ready,
    child: Child,
    asker: Asker,
}

/// Asks a far mover to dial back, also while another has that.
#[derive(Debug, Clone)]
pub struct Asker {
    stdin: Arc<Mutex<Option<ChildStdin>>>,
}

impl Asker {
    /// Asks it, and waits for nothing.
    ///
    /// # Errors
    /// `Connection` if ssh is gone; `Busy` if it takes nothing for the time being.
    pub fn ask(&self, request: &DialBack) -> Result<()> {
        let gone = || Failure::new(FailureKind::Connection, START, "ssh has ended").because(Reason::SshEnded);
        let mut stdin = lock(&self.stdin);
        let stdin = stdin.as_mut().ok_or_else(gone)?;
        // A line is shorter than what is written whole or not at all.
        stdin.write_all(request.to_line().as_bytes()).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Failure::new(FailureKind::Busy, REACH, "ssh takes nothing"),
            _ => gone(),
        })
    }
}

impl StartedMover {
    /// Whether ssh has ended, whatever became of the far mover.
    pub fn ssh_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Who asks it to dial back.
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Tells the far mover that nothing more comes, and waits a little for ssh to end.
    pub fn close(&mut self) {
        drop(lock(&self.asker.stdin).take());
        end(&mut self.child, END_TIMEOUT);
    }
}

impl Drop for StartedMover {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why a far mover did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// For the user.
    pub failure: Failure,
    /// Whether placing our own program there may help.
    pub program_is_missing: bool,
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        NotStarted { failure, program_is_missing: false }
    }
}

/// Starts a far mover and waits until it listens, unless it `is_over` before. `patient`: a first time, on which its
/// user may have to type.
///
/// # Errors
/// `Connection` if ssh does not get there, or it is over; `NotFound` if there is no program, `Protocol` if it is too
/// old or too new.
pub fn start(
    ssh: &Ssh,
    program: &FarProgram,
    order: &Order,
    patient: bool,
    is_over: &dyn Fn() -> bool,
) -> std::result::Result<StartedMover, NotStarted> {
    let mut child = ssh
        .command(&program.line(&["mover"]), patient)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| no_ssh(ssh, &error))?;
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // An ssh that ended already tells more by its exit code.
        let _ = stdin.write_all(order.to_line().as_bytes()).and_then(|()| stdin.flush());
    }
    match first_word(&mut child, MOVER_MAGIC, LOGIN_TIMEOUT, is_over) {
        Word::Said(text) => {
            let ready = Ready::of_line(&text, order.versions);
            let ready = match ready.and_then(|ready| ready.check(order).map(|()| ready)) {
                Ok(ready) => ready,
                Err(failure) => {
                    drop(stdin);
                    end(&mut child, END_TIMEOUT);
                    return Err(NotStarted { failure, program_is_missing: true });
                }
            };
            if let Some(Err(error)) = stdin.as_ref().map(write_without_waiting) {
                drop(stdin);
                end(&mut child, END_TIMEOUT);
                return Err(failure::of_io(START, &error).into());
            }
            let asker = Asker { stdin: Arc::new(Mutex::new(stdin)) };
            Ok(StartedMover { ready, child, asker })
        }
        Word::Late => {
            end(&mut child, Duration::ZERO);
            let cause = format!("{}: no far mover after {} s", ssh.name(), LOGIN_TIMEOUT.as_secs());
            Err(Failure::new(FailureKind::Connection, START, cause).because(Reason::SshEnded).into())
        }
        Word::Unwanted => Err(call_off(&mut child).into()),
        Word::Ended(noise) => {
            drop(stdin);
            Err(why_ended(ssh, program, end(&mut child, END_TIMEOUT), &noise))
        }
    }
}

enum Word {
    /// The rest of the line behind the magic word.
    Said(String),
    /// It ended before; what it said until then.
    Ended(Vec<u8>),
    Late,
    Unwanted,
}

/// Waits for a line with `magic`, past bounded noise. What follows is read and thrown away, so that nobody waits for
/// us.
fn first_word(
    child: &mut Child,
    magic: &'static str,
    patience: Duration,
    is_over: &dyn Fn() -> bool,
) -> Word {
    let Some(mut stdout) = child.stdout.take() else { return Word::Ended(Vec::new()) };
    let (told, hears) = mpsc::channel();
    let read = move || {
        match read_line(&mut stdout, magic) {
            Ok(line) => {
                let _ = told.send(Ok(line));
                let mut rest = [0; 4096];
                while !matches!(stdout.read(&mut rest), Ok(0) | Err(_)) {}
            }
            Err(noise) => {
                let _ = told.send(Err(noise));
            }
        };
    };
    if std::thread::Builder::new().name("ssh".into()).spawn(read).is_err() {
        return Word::Ended(Vec::new());
    }
    let until = Instant::now() + patience;
    loop {
        match hears.recv_timeout(LOOK_AGAIN) {
            Ok(Ok(line)) => return Word::Said(line),
            Ok(Err(noise)) => return Word::Ended(noise),
            Err(RecvTimeoutError::Timeout) if is_over() => return Word::Unwanted,
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(RecvTimeoutError::Timeout) => return Word::Late,
            Err(RecvTimeoutError::Disconnected) => return Word::Ended(Vec::new()),
        }
    }
}

/// Why it did not start, by the exit code and by what stood where the first word was expected.
pub(super) fn why_ended(ssh: &Ssh, program: &FarProgram, code: Option<i32>, noise: &[u8]) -> NotStarted {
    let (where_looked, program, name) = (program.where_looked(), program.name(), ssh.name());
    let not_found = |cause: String| NotStarted {
        failure: Failure::new(FailureKind::NotFound, START, cause).because(Reason::NoFarProgram),
        program_is_missing: true,
    };
    match code {
        Some(255) | None => not_reached(ssh).into(),
        Some(127) => not_found(format!("no `{program}` at {name}{where_looked}")),
        Some(126) => not_found(format!("`{program}` at {name} cannot be run")),
        // csh has no other code for what it does not find.
        Some(1) if noise.trim_ascii().is_empty() => not_found(format!(
            "`{program}` at {name} ended with exit code 1 before it was ready, or a csh did not find it"
        )),
        Some(code) => {
            let mut cause = format!("`{program}` at {name} ended with exit code {code} before it was ready");
            let said = String::from_utf8_lossy(&noise[..noise.len().min(200)]);
            if let Some(line) = said.lines().rfind(|line| !line.trim().is_empty()) {
                cause.push_str(&format!("; it said: {line}"));
            }
            let failure = Failure::new(FailureKind::Protocol, START, cause);
            NotStarted { failure: failure.because(Reason::FarProgramDiffers), program_is_missing: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn an_end_without_a_word_may_be_a_csh_that_did_not_find_the_program() {
        let ssh = Ssh::new(OsStr::new("ssh"), "far", None).unwrap();
        let program = FarProgram::at("thalweg".into());
        let why = |code: i32, noise: &[u8]| why_ended(&ssh, &program, Some(code), noise).failure;
        assert_eq!(why(1, b"\n").kind, FailureKind::NotFound);
        assert_eq!(why(1, b"thalweg 0.0.1\n").kind, FailureKind::Protocol);
        assert_eq!(why(3, b"").kind, FailureKind::Protocol);
    }
}
