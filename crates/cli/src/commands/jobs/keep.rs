//! `thalweg keep-job`: the keeper of a job. It holds the job's lock, and runs the command as its child.
//!
//! 1. Take the lock. If the job has not begun since it was looked at, start the command with the words of the record;
//!    what it says goes into the log.
//! 2. When the command says that its places are reached, record who runs it, and tell who began the job.
//! 3. When the command has ended, record how.
//!
//! A signal that asks to stop is handed on as SIGTERM, unless the command says that it got one itself: who shuts a
//! machine down asks all of its processes, and a second one would not let it stop in order. SIGHUP is ignored, here and
//! by the command: what ends a login sends it behind SIGTERM, and it would count as the second. If who began the job is
//! gone before that knows of it, the command is asked to stop too. It does not outlive us, which it hears of from the
//! kernel: if we are killed, so is it, and the lock is free. Where there is no room for how it ended, that is tried
//! again for a while; after that the job looks as if it had been killed.

use crate::args::jobs::KeepJobArgs;
use crate::begun::{BEGUN, KEEPER, STOPPING};
use crate::exit::Exit;
use crate::{show, signals, threads, units};
use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_cli::jobs::{self, BEGIN, Log, Record, Run};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::clock::unix_seconds;
use thalweg_sys::{child, process};

/// Between two looks whether the command has ended, where nothing tells so before.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same once it has closed its stdin, as it does when it ends.
const LOOK_SOON: Duration = Duration::from_millis(5);
/// Time for what it said last to be read, where something that it started still has its pipe.
const LAST_LINES: Duration = Duration::from_secs(5);
/// Time for a disk that is full to have room for how it ended.
const END_LIMIT: Duration = Duration::from_secs(60);
const END_AGAIN: Duration = Duration::from_secs(1);
/// Time for the command to say that it got a signal itself.
const GRACE: Duration = Duration::from_millis(500);
/// What was heard and not taken yet, at most.
const HEARD_MAX: usize = 16;
/// Bytes of the log that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// What a keeper hears.
enum Heard {
    /// The command has reached its places.
    Begun,
    /// It stops.
    Stopping,
    /// It says nothing any more.
    Over,
    /// Who began the job is gone.
    Gone,
    /// A signal.
    Stop,
}

/// Keeps one job until its command has ended; ends with its exit code.
///
/// # Errors
/// If it cannot begin; if its beginning or its end cannot be recorded.
pub fn keep_job(args: &KeepJobArgs) -> Result<Exit> {
    let directory = &args.directory;
    let failed = |error: io::Error| failure::of_io(BEGIN, &error);
    // The command inherits it.
    process::ignore_hangup().map_err(failed)?;
    let asker = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    let _claim = jobs::claim(directory)?;
    let record = jobs::read_record(directory).ok_or_else(|| {
        let failure = Failure::new(FailureKind::NotFound, BEGIN, "its record is not there");
        failure::at_path(failure, directory)
    })?;
    // Who had the lock meanwhile ran it: it may be done, or its user may have stopped it.
    if record.runs != args.runs {
        return Err(Failure::new(FailureKind::Busy, BEGIN, "it was resumed meanwhile"));
    }
    let mut log = Log::of(directory);
    if record.runs > 0 {
        let now = units::moment(unix_seconds().cast_signed());
        log.write(format!("(thalweg: begun again at {now})\n").as_bytes());
    }
    let (tells, heard) = mpsc::sync_channel(HEARD_MAX);
    let hears = tells.clone();
    signals::listen(signals::heard(), move |_, _| drop(hears.try_send(Heard::Stop)))?;
    let (line, theirs) = UnixStream::pair().map_err(failed)?;
    // Who reads stdin finds its end.
    line.shutdown(Shutdown::Write).map_err(failed)?;
    let (said, says) = io::pipe().map_err(failed)?;
    let began_at = unix_seconds();
    let child = start(&record, theirs, says)?;
    let logged = threads::spawn("log", move || hand_on(said, &mut log))?;
    hear_command(line, tells.clone())?;
    hear_asker(asker.try_clone().map_err(failed)?, tells)?;
    let run = Run::of(child.id(), began_at);
    let mut keeper = Keeper {
        directory,
        record,
        run,
        child,
        asker,
        has_begun: false,
        has_ended: false,
        signals: 0,
        is_asked: false,
        asks_at: None,
        refused: None,
    };
    let status = keeper.attend(&heard)?;
    await_end(&logged);
    keeper.end(status)?;
    Ok(status.code().and_then(Exit::of_code).unwrap_or(Exit::Nothing))
}

fn start(record: &Record, line: UnixStream, says: PipeWriter) -> Result<Child> {
    let failed = |error: io::Error| failure::of_io("start the command of the job", &error);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("thalweg").args(record.words.iter().map(|word| OsStr::from_bytes(&word.0)));
    command.env(KEEPER, std::process::id().to_string());
    // One pipe for both, so that what is said stays in its order.
    let also_says = says.try_clone().map_err(failed)?;
    command.stdin(OwnedFd::from(line)).stdout(says).stderr(also_says);
    child::dies_with_us(&mut command).spawn().map_err(failed)
}

fn hand_on(mut said: PipeReader, log: &mut Log) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match said.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(bytes) => log.write(&piece[..bytes]),
        }
    }
}

fn hear_command(mut line: UnixStream, tells: SyncSender<Heard>) -> Result<()> {
    threads::spawn("command", move || {
        let mut said = [0];
        while line.read_exact(&mut said).is_ok() {
            let told = match said {
                [BEGUN] => tells.send(Heard::Begun),
                [STOPPING] => tells.send(Heard::Stopping),
                _ => Ok(()),
            };
            if told.is_err() {
                return;
            }
        }
        let _ = tells.send(Heard::Over);
    })?;
    Ok(())
}

fn hear_asker(mut asker: UnixStream, tells: SyncSender<Heard>) -> Result<()> {
    // It says nothing.
    threads::spawn("asker", move || {
        let _ = asker.read_exact(&mut [0]);
        let _ = tells.send(Heard::Gone);
    })?;
    Ok(())
}

struct Keeper<'a> {
    directory: &'a Path,
    record: Record,
    run: Run,
    child: Child,
    asker: UnixStream,
    has_begun: bool,
    /// The command was waited for: its number may be another's.
    has_ended: bool,
    /// So many asked us to stop.
    signals: u32,
    /// Whether the command was asked.
    is_asked: bool,
    /// When we ask it, unless it says before that it was.
    asks_at: Option<Instant>,
    /// Why it is not to go on.
    refused: Option<Failure>,
}

impl Keeper<'_> {
    /// Until the command has ended, and nothing more is heard of it.
    fn attend(&mut self, heard: &Receiver<Heard>) -> Result<ExitStatus> {
        let mut is_over = false;
        let status = loop {
            let status = self.child.try_wait();
            if let Some(status) = status.map_err(|error| failure::of_io("wait for the command", &error))? {
                break status;
            }
            if self.asks_at.is_some_and(|at| at <= Instant::now()) {
                self.stop();
            }
            let look = match self.asks_at {
                _ if is_over => LOOK_SOON,
                Some(at) => at.saturating_duration_since(Instant::now()),
                None => LOOK_AGAIN,
            };
            match heard.recv_timeout(look) {
                Ok(said) => is_over |= self.take(said),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(look),
            }
        };
        self.has_ended = true;
        // It may have begun and ended at once.
        let until = Instant::now() + LAST_LINES;
        while !is_over {
            match heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(said) => is_over = self.take(said),
                Err(_) => break,
            }
        }
        Ok(status)
    }

    /// Whether the command says nothing any more.
    fn take(&mut self, said: Heard) -> bool {
        match said {
            Heard::Begun => {
                if let Err(failure) = self.begin() {
                    self.refused = Some(failure);
                    self.stop();
                }
            }
            // Nobody knows of the job.
            Heard::Gone if !self.has_begun => self.stop(),
            Heard::Gone => {}
            Heard::Stopping => (self.is_asked, self.asks_at) = (true, None),
            Heard::Stop => {
                self.signals += 1;
                match (self.signals, self.is_asked) {
                    (1, true) => {}
                    (1, false) => self.asks_at = Some(Instant::now() + GRACE),
                    // Who asks twice means it.
                    _ => self.stop(),
                }
            }
            Heard::Over => return true,
        }
        false
    }

    /// Records that it has begun, and tells so.
    fn begin(&mut self) -> Result<()> {
        let begun = Record {
            runs: self.record.runs.saturating_add(1),
            run: Some(self.run.clone()),
            end: None,
            ..self.record.clone()
        };
        // Not before: one that does not begin again is what it was.
        let was_stopped = jobs::is_asked_to_stop(self.directory);
        jobs::goes_on(self.directory);
        if let Err(failure) = jobs::write_record(self.directory, &begun) {
            if was_stopped {
                let _ = jobs::ask_to_stop(self.directory);
            }
            return Err(failure);
        }
        self.record = begun;
        self.has_begun = true;
        let told = self.asker.write_all(&[BEGUN]);
        told.map_err(|error| {
            // It is as if they had stopped it: nobody knows of the job.
            let _ = jobs::ask_to_stop(self.directory);
            failure::of_io("tell that the job has begun", &error)
        })
    }

    fn stop(&mut self) {
        (self.is_asked, self.asks_at) = (true, None);
        // One that has ended meanwhile is what was wanted.
        if !self.has_ended {
            let _ = child::terminate(&self.child);
        }
    }

    /// Records how it ended, if it had begun.
    fn end(self, status: ExitStatus) -> Result<()> {
        if self.has_begun {
            let end = jobs::end(status.code(), status.signal(), self.directory);
            write_end(self.directory, &Record { end: Some(end), ..self.record })?;
        }
        self.refused.map_or(Ok(()), Err)
    }
}

fn write_end(directory: &Path, record: &Record) -> Result<()> {
    let until = Instant::now() + END_LIMIT;
    loop {
        match jobs::write_record(directory, record) {
            Err(failure) if Instant::now() < until => {
                show::failure(&failure);
                // How it ended is worth more than what it said long before.
                let [earlier, _] = jobs::logs(directory);
                let _ = std::fs::remove_file(earlier);
                std::thread::sleep(END_AGAIN);
            }
            written => return written,
        }
    }
}

fn await_end(logged: &JoinHandle<()>) {
    let until = Instant::now() + LAST_LINES;
    while !logged.is_finished() && Instant::now() < until {
        std::thread::sleep(LOOK_SOON);
    }
}
