//! How jobs begin, for the first time and again.
//!
//! 1. What has no end without a terminal is refused, and the job is recorded.
//! 2. Its [keeper](crate::commands::jobs::keep) is started, in a session of its own: neither Ctrl-C nor the end of the
//!    terminal reaches it. Its stdin is a socket, whose other end is here.
//! 3. It says when the command has reached its places. Then the job has begun, and goes on without us. If the command
//!    ends before, what it said is told here, and a new job is forgotten. If we end before, it stops.

use super::{environment, tell};
use crate::begun::BEGUN;
use crate::exit::Exit;
use crate::{identity, out, show};
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, Stdio};
use thalweg_cli::args::Command;
use thalweg_cli::jobs::{self, Asked, BEGIN, Job};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::child;

/// Of what a command said that ended before it had begun, so many bytes are told.
const TOLD_BYTES_MAX: u64 = 64 << 10;

/// Has a command go on as a job. `words` are those of its command line, with the program.
///
/// # Errors
/// `Usage` for what needs stdin or stdout; if the job cannot be recorded, or its keeper not be started: then nothing is
/// left.
pub fn detach(command: &Command, words: &[OsString]) -> Result<Exit> {
    let usage = |cause: &str| Failure::new(FailureKind::Usage, "read the command line", cause);
    let Some((asked, state)) = command.job() else { return Err(usage("this is no command for --detach")) };
    if command.reads_stdin() || command.stdout_is_data() {
        let cause = "--detach: a job has neither stdin nor stdout: name files in the place of `-`";
        return Err(usage(cause));
    }
    let kept = identity::state_directory(state)?;
    let here = std::env::current_dir().map_err(|error| failure::of_io(BEGIN, &error))?;
    let (environment, withheld) = environment::of(std::env::vars_os());
    let asked = Asked {
        name: asked.name.clone(),
        words: words.iter().skip(1).map(|word| word.as_bytes().to_vec()).collect(),
        directory: here.into_os_string().into_vec(),
        environment,
        withheld,
    };
    let directory = jobs::create(&kept, asked)?;
    let forget = || drop(std::fs::remove_dir_all(&directory));
    let ended = match start(&directory, 0, program()) {
        Ok(ended) => ended,
        Err(failure) => {
            forget();
            return Err(failure);
        }
    };
    if let Some(exit) = ended {
        forget();
        return Ok(exit);
    }
    let id = directory.file_name().map(|id| id.to_string_lossy().into_owned()).unwrap_or_default();
    match Job::read(&directory).filter(|_| command.wants_json()) {
        Some(job) => tell::as_json(&job, &kept),
        None => out::tell(&id),
    }
    let option = show::state_option(state);
    show::line(&format!(
        "it goes on as a job: `thalweg jobs show{option} {id}`, `thalweg jobs log -f{option} {id}`, `thalweg jobs \
         stop{option} {id}`"
    ));
    Ok(Exit::Done)
}

/// Begins a job again that is over: in its directory, with its variables. `Some` if its command ended before it had
/// begun, with the exit code: then the job is what it was.
///
/// # Errors
/// If that directory is not there, or its keeper cannot be started.
pub(super) fn resume(job: &Job) -> Result<Option<Exit>> {
    let directory = Path::new(OsStr::from_bytes(&job.record.directory.0));
    // A failure to start would not tell which of the two is missing.
    if let Err(error) = std::fs::read_dir(directory) {
        return Err(failure::at_path(failure::of_io(BEGIN, &error), directory));
    }
    let mut keeper = program();
    keeper.current_dir(directory);
    environment::restore(&mut keeper, &job.record.environment);
    start(&job.directory, job.record.runs, keeper)
}

/// This program.
fn program() -> process::Command {
    let mut program = process::Command::new("/proc/self/exe");
    program.arg0("thalweg");
    program
}

/// Starts the keeper of a recorded job that had begun so often, and waits for its beginning: as long as the command
/// takes to reach its places. `Some` if it ended before.
fn start(directory: &Path, runs: u32, mut keeper: process::Command) -> Result<Option<Exit>> {
    let failed = |error: io::Error| failure::of_io(BEGIN, &error);
    // The keeper may work elsewhere.
    let directory = std::path::absolute(directory).map_err(failed)?;
    let [_, log] = jobs::logs(&directory);
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(log).map_err(failed)?;
    let said_before = log.metadata().map_or(0, |log| log.len());
    let watched = log.try_clone().map_err(failed)?;
    let (mut ours, theirs) = UnixStream::pair().map_err(failed)?;
    keeper.arg("keep-job").arg(&directory).arg(runs.to_string());
    // What it has to say itself stands with what the command says.
    keeper.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(log);
    let mut running = child::in_own_session(&mut keeper).spawn().map_err(failed)?;
    // Who has the other end is the keeper alone.
    drop(keeper);
    let mut said = [0];
    if ours.read_exact(&mut said).is_ok() && said == [BEGUN] {
        return Ok(None);
    }
    let status = running.wait().map_err(failed)?;
    let more = watched.metadata().map_or(0, |log| log.len()).saturating_sub(said_before);
    let said = jobs::last_bytes(&directory, more.min(TOLD_BYTES_MAX));
    tell::inert(&said).lines().for_each(show::line);
    let exit = status.code().and_then(Exit::of_code).unwrap_or(Exit::Nothing);
    show::line(&format!("the job did not begin: exit code {}, {}", exit.code(), exit.meaning()));
    if exit == Exit::Nothing {
        show::line(
            "hint: where ssh asks for a password: a job asks for none; log in by a key, or over a shared connection",
        );
    }
    Ok(Some(exit))
}
