//! Jobs as they are told to people and programs. Words of a command, and what it said, are inert on a terminal.

use crate::exit::Exit;
use crate::{json, out, units};
use serde_json::{Value, json};
use std::path::Path;
use thalweg_cli::jobs::{self, Job, State};
use thalweg_mover::failure::Result;
use thalweg_mover::link::ssh;
use thalweg_service::published;
use thalweg_wire::path::{Escaped, is_inert};

/// How far the transfers of a job are that run now.
struct Progress {
    /// Bytes of content that came.
    bytes: u64,
    /// How long they have run.
    seconds: f64,
    /// How much of the content is done, and how much there is as far as is known; of streams nobody knows.
    settled: Option<u64>,
    found: u64,
    scan_over: bool,
}

impl Progress {
    /// `None` if it does not run here, or no transfer of it does.
    fn of(job: &Job, state: &Path) -> Option<Progress> {
        if job.state != State::Running {
            return None;
        }
        let told = job.transfers(state).into_iter().filter(|told| told.state == published::State::Running);
        told.fold(None, |sum: Option<Progress>, told| {
            let done = told.progress.unwrap_or_default();
            let own = Progress {
                bytes: told.evidence.bytes,
                seconds: told.evidence.elapsed_nanos as f64 / 1e9,
                settled: told.progress.map(|done| done.bytes_settled),
                found: done.bytes_found,
                scan_over: done.scan_over,
            };
            Some(match sum {
                None => own,
                Some(sum) => Progress {
                    bytes: sum.bytes.saturating_add(own.bytes),
                    seconds: sum.seconds.max(own.seconds),
                    settled: sum.settled.zip(own.settled).map(|(one, other)| one.saturating_add(other)),
                    found: sum.found.saturating_add(own.found),
                    scan_over: sum.scan_over && own.scan_over,
                },
            })
        })
    }

    fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / self.seconds } else { 0.0 }
    }

    /// At the rate so far; `None` while nobody knows.
    fn left_s(&self) -> Option<f64> {
        let left = self.found.saturating_sub(self.settled.filter(|_| self.scan_over)?);
        (self.bytes_per_s() > 0.0).then(|| left as f64 / self.bytes_per_s())
    }

    fn words(&self) -> String {
        let bytes = match self.settled {
            Some(settled) => {
                let more = if self.scan_over { "" } else { "+" };
                format!("{} of {}{more}", units::size(settled), units::size(self.found))
            }
            None => units::size(self.bytes),
        };
        let left = self.left_s().map(|left| format!(", {} left", units::time(left))).unwrap_or_default();
        format!("{bytes}, {}{left}", units::rate(self.bytes, self.seconds))
    }
}

/// A job on one line.
///
/// # Errors
/// As [`out::line`].
pub fn line(job: &Job, state: &Path) -> Result<()> {
    let name = job.record.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let progress = Progress::of(job, state).map(|progress| format!("  {}", progress.words()));
    out::line(&format!(
        "{}{name}  {}  {}{}  {}",
        job.record.id,
        moment(job.record.asked_at_ms / 1000),
        state_words(job),
        progress.unwrap_or_default(),
        command(job),
    ))
}

/// All that is known of a job, and the last lines of what it said.
///
/// # Errors
/// As [`out::line`].
pub fn all(job: &Job, state: &Path, option: &str, lines: usize) -> Result<()> {
    let record = &job.record;
    let tell = |what: &str, words: &str| out::line(&format!("{what:<12} {words}"));
    tell("job", &record.id)?;
    if let Some(name) = &record.name {
        tell("name", name)?;
    }
    tell("state", &state_words(job))?;
    if job.state == State::Running
        && let Some(run) = &record.run
    {
        tell("process", &format!("{} (`thalweg why`, `thalweg limit`)", run.command_pid))?;
    }
    if let Some(progress) = Progress::of(job, state) {
        tell("progress", &progress.words())?;
    }
    tell("command", &command(job))?;
    tell("directory", &Escaped(&record.directory.0).to_string())?;
    for variable in &record.environment {
        tell("environment", &format!("{}={}", variable.name, Escaped(&variable.value.0)))?;
    }
    for name in &record.withheld {
        tell("not kept", &format!("{}: who resumes it has to have it", Escaped(name.as_bytes())))?;
    }
    if let Some(run) = &record.run {
        let again = if record.runs > 1 { format!(", run {}", record.runs) } else { String::new() };
        tell("begun", &format!("{} at {}{again}", moment(run.began_at), inert(run.host.as_bytes())))?;
    }
    if let Some(end) = record.end {
        let code = end.code.map(|code| (code, Exit::of_code(code)));
        let words = match (code, end.signal) {
            (Some((code, Some(exit))), _) => format!("exit code {code}: {}", exit.meaning()),
            (Some((code, None)), _) => format!("exit code {code}"),
            (None, signal) => format!("by signal {}", signal.unwrap_or_default()),
        };
        tell("ended", &format!("{}, {words}", moment(end.ended_at)))?;
    }
    if matches!(job.state, State::Failed | State::Stopped | State::Interrupted) {
        tell("resume", &format!("thalweg jobs resume{option} {}", record.id))?;
    }
    let said = inert(&jobs::last_bytes(&job.directory, LAST_BYTES_MAX));
    let said: Vec<&str> = said.lines().collect();
    let last = &said[said.len().saturating_sub(lines)..];
    if !last.is_empty() {
        out::line("")?;
    }
    last.iter().try_for_each(|line| out::line(line))
}

/// Of what a job said last, so many bytes are looked at.
const LAST_BYTES_MAX: u64 = 256 << 10;

/// The event of a job.
pub fn object(job: &Job, state: &Path) -> Value {
    let (record, progress) = (&job.record, Progress::of(job, state));
    let (run, end) = (record.run.as_ref(), record.end);
    let shown = |bytes: &[u8]| Escaped(bytes).to_string();
    let environment = record.environment.iter();
    let environment =
        environment.map(|variable| (variable.name.clone(), shown(&variable.value.0).into())).collect();
    json!({
        "event": "job", "id": record.id, "name": record.name, "state": job.state.word(),
        "exit": end.and_then(|end| end.code), "signal": end.and_then(|end| end.signal),
        "words": record.words.iter().map(|word| shown(&word.0)).collect::<Vec<_>>(),
        "directory": shown(&record.directory.0), "environment": Value::Object(environment),
        "withheld": record.withheld, "asked_at": record.asked_at_ms / 1000, "runs": record.runs,
        "host": run.map(|run| run.host.as_str()), "pid": run.map(|run| run.command_pid),
        "began_at": run.map(|run| run.began_at), "ended_at": end.map(|end| end.ended_at),
        "bytes": progress.as_ref().map(|progress| progress.bytes),
        "bytes_settled": progress.as_ref().and_then(|progress| progress.settled),
        "bytes_found": progress.as_ref().and_then(|progress| progress.settled.map(|_| progress.found)),
        "bytes_per_s": progress.as_ref().map(Progress::bytes_per_s),
        "left_s": progress.as_ref().and_then(Progress::left_s),
    })
}

/// Tells it at once.
pub fn as_json(job: &Job, state: &Path) {
    json::tell(&object(job, state));
}

/// The command of a job as a shell takes it, if it can be shown so.
fn command(job: &Job) -> String {
    let words = job.record.words.iter().map(|word| match is_plain(&word.0) {
        true => word.0.clone(),
        false => ssh::quote(&word.0),
    });
    let line =
        words.fold(b"thalweg".to_vec(), |line, word| [line.as_slice(), b" ", word.as_slice()].concat());
    Escaped(&line).to_string()
}

/// Whether a shell takes a word for itself.
fn is_plain(word: &[u8]) -> bool {
    let is_plain = |&byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:=@,%+".contains(&byte);
    !word.is_empty() && word.iter().all(is_plain)
}

fn state_words(job: &Job) -> String {
    let host = job.record.run.as_ref().map(|run| inert(run.host.as_bytes())).unwrap_or_default();
    match (job.state, job.record.end.and_then(|end| end.code)) {
        (State::Failed, Some(code)) => format!("failed ({code})"),
        (State::Elsewhere, _) => format!("at {host}, where it may run"),
        (state, _) => state.word().to_owned(),
    }
}

fn moment(seconds: u64) -> String {
    units::moment(i64::try_from(seconds).unwrap_or(0))
}

/// What somebody said, without what a terminal acts on but ends of lines and tabulators.
pub fn inert(said: &[u8]) -> String {
    let is_kept = |c: char| is_inert(c) || matches!(c, '\\' | '\n' | '\t');
    String::from_utf8_lossy(said).chars().map(|c| if is_kept(c) { c } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_cannot_act_on_a_terminal() {
        assert_eq!(inert(b"a\x1b[31m\\x0a\tb\r\n\xff"), "a?[31m\\x0a\tb?\n\u{fffd}");
    }

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert!(is_plain(b"tw://host:8487/data/run-7_a.b") && is_plain(b"--bwlimit=50%"));
        for word in [&b""[..], b"a b", b"$HOME", b"*", b"~/x", b"'", b"\xff"] {
            assert!(!is_plain(word), "{word:?}");
        }
    }
}
