//! Starts a deputy, and speaks with it.

use super::child::{END_TIMEOUT, LOOK_AGAIN, call_off, end};
use super::command::{FarProgram, Ssh, no_ssh, not_reached};
use super::errand::{DEPUTY_MAGIC, Deputy, FromDeputy, Lines, Said, ToDeputy};
use super::mover::{NotStarted, why_ended};
use super::{LOGIN_TIMEOUT, START};
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::mutex::lock;
use std::io::Write;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};
use thalweg_sys::child::deaf_to_interrupts;

/// Lines that were read and not heard yet, at most: each may have a megabyte, and most have a hundred bytes.
const LINES_AHEAD: usize = 16;

/// A deputy that ssh started. Dropping it ends ssh, and a deputy whose ssh has ended stops its copy.
pub struct StartedDeputy {
    /// What it said of itself.
    pub deputy: Deputy,
    child: Mutex<Child>,
    stdin: Mutex<Option<ChildStdin>>,
    hears: Mutex<Receiver<Heard>>,
}

/// What a deputy said last.
#[derive(Debug)]
pub enum Next {
    /// This.
    Said(FromDeputy),
    /// Nothing yet.
    Nothing,
    /// It says nothing more.
    Over,
}

enum Heard {
    /// Behind the magic word.
    First(String),
    Line(String),
    /// It ended before; what it said until then.
    Ended(Vec<u8>),
    Odd(Failure),
}

/// Starts a deputy and waits until it is there, unless it `is_over` before. `patient`: its user may have to type.
///
/// Its ssh does not hear a terminal's Ctrl-C, which who started it does: it is needed to stop the copy in order.
///
/// # Errors
/// `Connection` if ssh does not get there, or it is over; `NotFound` if there is no program, `Protocol` if it is too
/// old or too new.
pub fn start(
    ssh: &Ssh,
    program: &FarProgram,
    patient: bool,
    is_over: &dyn Fn() -> bool,
) -> std::result::Result<StartedDeputy, NotStarted> {
    let mut command = ssh.command(&program.line(&["deputy"]), patient);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = deaf_to_interrupts(&mut command).spawn().map_err(|error| no_ssh(ssh, &error))?;
    let stdin = child.stdin.take();
    let (told, hears) = mpsc::sync_channel(LINES_AHEAD);
    let started = match child.stdout.take() {
        Some(stdout) => std::thread::Builder::new()
            .name("ssh".into())
            .spawn(move || read(stdout, &told))
            .map_err(|error| failure::of_thread(&error)),
        None => Err(not_reached(ssh)),
    };
    if let Err(failure) = started {
        end(&mut child, Duration::ZERO);
        return Err(failure.into());
    }
    let until = Instant::now() + LOGIN_TIMEOUT;
    let first = loop {
        match hears.recv_timeout(LOOK_AGAIN) {
            Err(RecvTimeoutError::Timeout) if is_over() => return Err(call_off(&mut child).into()),
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            first => break first,
        }
    };
    match first {
        Ok(Heard::First(text)) => match Deputy::of_line(&text) {
            Ok(deputy) => Ok(StartedDeputy {
                deputy,
                child: Mutex::new(child),
                stdin: Mutex::new(stdin),
                hears: Mutex::new(hears),
            }),
            Err(failure) => {
                drop(stdin);
                end(&mut child, END_TIMEOUT);
                Err(NotStarted { failure, program_is_missing: true })
            }
        },
        Ok(Heard::Ended(noise)) => {
            drop(stdin);
            Err(why_ended(ssh, program, end(&mut child, END_TIMEOUT), &noise))
        }
        Ok(Heard::Line(_) | Heard::Odd(_)) | Err(RecvTimeoutError::Disconnected) => {
            end(&mut child, Duration::ZERO);
            Err(not_reached(ssh).into())
        }
        Err(RecvTimeoutError::Timeout) => {
            end(&mut child, Duration::ZERO);
            let cause = format!("{}: no deputy after {} s", ssh.name(), LOGIN_TIMEOUT.as_secs());
            Err(Failure::new(FailureKind::Connection, START, cause).because(Reason::SshEnded).into())
        }
    }
}

/// Until nothing more comes, or nobody hears it.
fn read(stdout: ChildStdout, told: &SyncSender<Heard>) {
    let mut lines = Lines::new(stdout);
    let first = match lines.behind(DEPUTY_MAGIC) {
        Ok(line) => Heard::First(line),
        Err(noise) => Heard::Ended(noise),
    };
    let mut goes_on = matches!(first, Heard::First(_)) & told.send(first).is_ok();
    while goes_on {
        let heard = match lines.next_line() {
            Ok(Some(line)) => Heard::Line(line),
            Ok(None) => return,
            Err(failure) => Heard::Odd(failure),
        };
        goes_on = matches!(heard, Heard::Line(_)) & told.send(heard).is_ok();
    }
}

impl StartedDeputy {
    /// Tells it something. Waits while ssh takes nothing.
    ///
    /// # Errors
    /// `Connection` if ssh is gone.
    pub fn say(&self, what: &ToDeputy) -> Result<()> {
        let gone = || Failure::new(FailureKind::Connection, START, "ssh has ended").because(Reason::SshEnded);
        let mut stdin = lock(&self.stdin);
        let stdin = stdin.as_mut().ok_or_else(gone)?;
        stdin.write_all(what.to_line().as_bytes()).and_then(|()| stdin.flush()).map_err(|_| gone())
    }

    /// What it says next, within this time.
    ///
    /// # Errors
    /// `Protocol` for what no deputy says.
    pub fn next(&self, patience: Duration) -> Result<Next> {
        match lock(&self.hears).recv_timeout(patience) {
            Ok(Heard::Line(line)) => Ok(FromDeputy::of_line(&line)?.map_or(Next::Nothing, Next::Said)),
            Ok(Heard::Odd(failure)) => Err(failure),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Nothing),
            Ok(Heard::First(_) | Heard::Ended(_)) | Err(RecvTimeoutError::Disconnected) => Ok(Next::Over),
        }
    }

    /// Waits for ssh to end, kills it after this time, and returns its exit code if it ended by itself. Whoever waits
    /// to tell the deputy something waits no more.
    pub fn end(&self, patience: Duration) -> Option<i32> {
        let code = end(&mut lock(&self.child), patience);
        drop(lock(&self.stdin).take());
        code
    }
}

impl Drop for StartedDeputy {
    fn drop(&mut self) {
        drop(lock(&self.stdin).take());
        self.end(END_TIMEOUT);
    }
}
