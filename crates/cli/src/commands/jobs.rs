//! `thalweg jobs`: what goes on without a terminal, and what is done about it.

/// How they begin.
pub mod begin;

/// Who runs them.
pub mod keep;

/// Which variables they go by.
mod environment;

/// How they are told.
mod tell;

use crate::args::jobs::{
    JobsArgs, JobsCommand, JobsForgetArgs, JobsLogArgs, JobsShowArgs, JobsStopArgs, JobsWaitArgs,
};
use crate::exit::Exit;
use crate::{identity, json, out, show};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_cli::jobs::{self, Job, State};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_sys::atomic_file;
use thalweg_sys::clock::unix_seconds;

/// Between two looks at a job that is waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Bytes of a log that are read at once; a line that is longer is told in parts.
const PIECE_BYTES: usize = 64 << 10;

/// `thalweg jobs`.
///
/// # Errors
/// `NotFound` for a job that is not known; what keeps a job from what is asked of it. Of several jobs that is told of
/// each.
pub fn jobs(args: &JobsArgs) -> Result<Exit> {
    let state = identity::state_path(args.state.as_deref())?;
    let them = Them { state: &state, option: show::state_option(args.state.as_deref()), json: args.json };
    match &args.command {
        Some(JobsCommand::Log(_)) if args.json => {
            let cause =
                "--json: a log is what the job said, as it said it; `jobs show --json` tells of the job";
            Err(Failure::new(FailureKind::Usage, "read the command line", cause))
        }
        None => them.list(),
        Some(JobsCommand::Show(args)) => them.show(args),
        Some(JobsCommand::Log(args)) => them.log(args),
        Some(JobsCommand::Wait(args)) => Ok(them.wait(args)),
        Some(JobsCommand::Stop(args)) => Ok(them.each(&args.jobs, |job| them.stop(job, args))),
        Some(JobsCommand::Resume(args)) if args.all => them.resume_all(),
        Some(JobsCommand::Resume(args)) => Ok(them.each(&args.jobs, |job| them.resume(&them.find(job)?))),
        Some(JobsCommand::Forget(args)) => them.forget(args),
    }
}

/// The jobs of a state directory.
struct Them<'a> {
    state: &'a Path,
    /// That directory for a further command, where it was named.
    option: String,
    json: bool,
}

impl Them<'_> {
    /// Does it with each; one that fails does not keep the others. The gravest exit code.
    fn each(&self, jobs: &[String], mut work: impl FnMut(&str) -> Result<Exit>) -> Exit {
        jobs.iter().map(|job| self.told(work(job))).fold(Exit::Done, Exit::worst)
    }

    /// A failure is told, and is an exit code then.
    fn told(&self, done: Result<Exit>) -> Exit {
        done.unwrap_or_else(|failure| {
            self.tell_failure(&failure);
            Exit::of(failure.kind)
        })
    }

    /// One of a job, which does not end the command.
    fn tell_failure(&self, failure: &Failure) {
        if self.json {
            json::tell(&json::error(failure, None));
        }
        show::failure(failure);
    }

    fn find(&self, job: &str) -> Result<Job> {
        jobs::find(self.state, job)
    }

    /// All that can be read; the others are told, and what that makes of the exit code.
    fn known(&self) -> Result<(Vec<Job>, Exit)> {
        let known = jobs::known(self.state)?;
        known.unread.iter().for_each(|(_, failure)| self.tell_failure(failure));
        Ok((known.jobs, if known.unread.is_empty() { Exit::Done } else { Exit::Partial }))
    }

    fn list(&self) -> Result<Exit> {
        let (all, exit) = self.known()?;
        for job in &all {
            match self.json {
                true => json::line(&tell::object(job, self.state))?,
                false => tell::line(job, self.state)?,
            }
        }
        out::flush()?;
        Ok(exit)
    }

    fn show(&self, args: &JobsShowArgs) -> Result<Exit> {
        let job = self.find(&args.job)?;
        match self.json {
            true => json::line(&tell::object(&job, self.state))?,
            false => tell::all(&job, self.state, &self.option, usize::from(args.lines))?,
        }
        out::flush()?;
        Ok(Exit::Done)
    }

    fn log(&self, args: &JobsLogArgs) -> Result<Exit> {
        let job = self.find(&args.job)?;
        let mut reading = Reading::of(&job.directory);
        loop {
            // Looked at before the log is: what was said until then is told.
            let is_over = !args.follow || Job::read(&job.directory).is_none_or(|job| job.state.is_over());
            reading.tell(is_over)?;
            out::flush()?;
            if is_over {
                return Ok(Exit::Done);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Of one that is interrupted no exit code is its own.
    fn wait(&self, args: &JobsWaitArgs) -> Exit {
        let until = args.timeout.map(|timeout| Instant::now() + timeout);
        self.each(&args.jobs, |job| {
            let job = self.over(self.find(job)?, until)?;
            self.tell(&job);
            let end = job.record.end.filter(|_| job.state != State::Interrupted);
            Ok(end.and_then(|end| end.code).and_then(Exit::of_code).unwrap_or(Exit::Nothing))
        })
    }

    /// Waits until it is.
    fn over(&self, mut job: Job, until: Option<Instant>) -> Result<Job> {
        while !job.state.is_over() {
            if until.is_some_and(|until| until <= Instant::now()) {
                let cause = format!("{} is not over: {}", job.record.id, job.state.word());
                return Err(Failure::new(FailureKind::Busy, "wait for the job", cause));
            }
            std::thread::sleep(LOOK_AGAIN);
            job = self.again(&job)?;
        }
        Ok(job)
    }

    /// As it is now.
    fn again(&self, job: &Job) -> Result<Job> {
        let cause = || format!("{} was forgotten meanwhile", job.record.id);
        let now = Job::read(&job.directory);
        now.ok_or_else(|| Failure::new(FailureKind::NotFound, "look for jobs", cause()))
    }

    fn stop(&self, job: &str, args: &JobsStopArgs) -> Result<Exit> {
        const STOP: &str = "stop the job";
        let job = self.find(job)?;
        let id = &job.record.id;
        let failed = |kind: FailureKind, why: &str| Failure::new(kind, STOP, format!("{id}: {why}"));
        match job.state {
            State::Running => {}
            State::Elsewhere => return Err(elsewhere(&job, STOP)),
            State::Beginning => {
                let why = "it has not begun; Ctrl-C stops it where it was asked for";
                return Err(failed(FailureKind::Busy, why));
            }
            state => {
                return Err(failed(FailureKind::NotFound, &format!("it does not run: {}", state.word())));
            }
        }
        let of_io = |error: io::Error| failure::with_words(failure::of_io(STOP, &error), id);
        // Of one that is about to end, or is being resumed, nobody is there.
        if let Some(keeper) = job.keeper().map_err(of_io)? {
            if let Err(error) = jobs::ask_to_stop(&job.directory) {
                // It stops all the same.
                let why = of_io(error);
                show::line(&format!(
                    "warning: `thalweg jobs resume --all{}` will resume it: {why}",
                    self.option
                ));
            }
            if let Err(error) = keeper.terminate() {
                // How it ends is not by this.
                jobs::goes_on(&job.directory);
                return Err(of_io(error));
            }
            let until = Instant::now() + args.timeout;
            while !keeper.has_ended() {
                if until <= Instant::now() {
                    let why = format!(
                        "it was asked to, and what was written becomes durable first: `thalweg jobs wait{} {id}` waits",
                        self.option
                    );
                    return Err(failed(FailureKind::Busy, &why));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        let job = self.again(&job)?;
        if !job.state.is_over() {
            return Err(failed(FailureKind::Busy, "it is being resumed, and has not begun"));
        }
        self.tell(&job);
        if !self.json && job.state != State::Done {
            show::line(&format!("`thalweg jobs resume{} {id}` goes on", self.option));
        }
        Ok(Exit::Done)
    }

    fn resume(&self, job: &Job) -> Result<Exit> {
        const RESUME: &str = "resume the job";
        let id = &job.record.id;
        let failed = |kind: FailureKind, why: &str| Failure::new(kind, RESUME, format!("{id}: {why}"));
        match job.state {
            State::Done => return Err(failed(FailureKind::Usage, "it is done")),
            State::Running | State::Beginning => return Err(failed(FailureKind::Busy, "it runs")),
            _ if !is_here(job) => return Err(elsewhere(job, RESUME)),
            _ => {}
        }
        for name in environment::missing(&job.record.withheld) {
            let name = tell::inert(name.as_bytes());
            show::line(&format!("warning: {id}: {name} was in its environment, and is not now"));
        }
        let ended = begin::resume(job).map_err(|failure| failure::with_words(failure, id))?;
        if ended.is_none() {
            self.tell(&self.again(job)?);
        }
        Ok(ended.unwrap_or(Exit::Done))
    }

    /// What failed would fail again each time.
    fn resume_all(&self) -> Result<Exit> {
        let (all, exit) = self.known()?;
        let interrupted = all.into_iter().filter(|job| job.state == State::Interrupted && is_here(job));
        Ok(interrupted.map(|job| self.told(self.resume(&job))).fold(exit, Exit::worst))
    }

    fn forget(&self, args: &JobsForgetArgs) -> Result<Exit> {
        let Some(older_than) = args.older_than else {
            return Ok(self.each(&args.jobs, |job| self.find(job)?.forget().map(|()| Exit::Done)));
        };
        let now = unix_seconds();
        let is_old = |job: &Job| now.saturating_sub(job.over_at()) >= older_than.as_secs();
        let (all, exit) = self.known()?;
        let old = all.into_iter().filter(|job| job.state.is_over() && is_old(job));
        Ok(old.map(|job| self.told(job.forget().map(|()| Exit::Done))).fold(exit, Exit::worst))
    }

    /// A job about which something was done.
    fn tell(&self, job: &Job) {
        match self.json {
            true => tell::as_json(job, self.state),
            false => out::tell(&format!("{}  {}", job.record.id, job.state.word())),
        }
    }
}

fn is_here(job: &Job) -> bool {
    job.record.run.as_ref().is_some_and(jobs::Run::is_here)
}

fn elsewhere(job: &Job, operation: &str) -> Failure {
    let host = job.record.run.as_ref().map(|run| tell::inert(run.host.as_bytes())).unwrap_or_default();
    let cause = format!("{}: it was begun at {host}: do it there", job.record.id);
    Failure::new(FailureKind::Unsupported, operation, cause)
}

/// Reads the log of a job, from its beginning and through the file that takes its place when it is full.
struct Reading {
    files: [PathBuf; 2],
    open: Option<File>,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Reading {
    fn of(directory: &Path) -> Reading {
        let files = jobs::logs(directory);
        let open = atomic_file::open(&files[0]).ok();
        Reading { files, open, rest: Vec::new() }
    }

    /// Tells what has come, by whole lines; if it is the `end`, all.
    fn tell(&mut self, end: bool) -> Result<()> {
        loop {
            if let Some(file) = self.open.take() {
                self.drain(&file)?;
                self.open = Some(file);
            }
            let Some(next) = self.next() else { break };
            self.open = Some(next);
        }
        let rest = if end { std::mem::take(&mut self.rest) } else { Vec::new() };
        out::write(tell::inert(&rest).as_bytes())
    }

    fn drain(&mut self, mut file: &File) -> Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let bytes = match file.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| failure::of_io("read the log of the job", &error))?,
            };
            if bytes == 0 {
                return Ok(());
            }
            self.rest.extend_from_slice(&piece[..bytes]);
            let whole = self.rest.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let whole = if whole == 0 && self.rest.len() >= PIECE_BYTES { self.rest.len() } else { whole };
            let rest = self.rest.split_off(whole);
            out::write(tell::inert(&self.rest).as_bytes())?;
            self.rest = rest;
        }
    }

    /// The file that is written now, if that is not the one that is read.
    fn next(&self) -> Option<File> {
        let next = atomic_file::open(&self.files[1]).ok()?;
        let which = |file: &File| file.metadata().ok().map(|file| (file.dev(), file.ino()));
        let is_same = self.open.as_ref().is_some_and(|open| which(open) == which(&next));
        (!is_same).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_through_the_file_that_takes_its_place() {
        let scratch = tempfile::tempdir().unwrap();
        let mut log = jobs::Log::of(scratch.path());
        let read = |reading: &mut Reading| {
            let mut all = Vec::new();
            while let Some(next) = reading.next() {
                (&next).read_to_end(&mut all).unwrap();
                reading.open = Some(next);
            }
            all
        };
        let mut reading = Reading::of(scratch.path());
        assert!(read(&mut reading).is_empty());
        log.write(b"one\n");
        assert_eq!(read(&mut reading), b"one\n");
        // The same file is none to go on to.
        log.write(&vec![b'x'; usize::try_from(jobs::LOG_BYTES_MAX).unwrap() - 4]);
        assert!(read(&mut reading).is_empty());
        log.write(b"two\n");
        assert_eq!(read(&mut reading), b"two\n");
        // Who comes later reads both.
        let later = Reading::of(scratch.path());
        assert!(later.open.is_some() && later.next().is_some());
    }
}
