//! What is told of a copy between two far places. It runs at one of them, by a thalweg there that tells of it; here its
//! words stand among those of the command's other copies. They are somebody else's: shown escaped, and bounded.

use super::{Listener, numbered};
use crate::exit::Exit;
use crate::json;
use serde_json::Value;
use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::sync::{Arc, Mutex};
use thalweg_mover::event::Event;
use thalweg_mover::failure::Failure;
use thalweg_mover::mutex::lock;
use thalweg_wire::path::Sentence;

/// Lines that wait for the end of all copies, as the last words of each do: a dry run has some fifteen. Of an event,
/// which has the exit code, there is one.
const LAST_MAX: usize = 64;
/// Longest line of a report: one with the longest path there can be, escaped.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Tells what one such copy told there.
pub struct Relay {
    listener: Arc<Listener>,
    last: Mutex<Last>,
}

/// What is told when nothing is drawn any more, and all that was to be kept is.
#[derive(Default)]
struct Last {
    lines: VecDeque<String>,
    event: Option<Value>,
}

impl Relay {
    /// For the copy that this listener hears.
    pub fn new(listener: Arc<Listener>) -> Relay {
        Relay { listener, last: Mutex::default() }
    }

    /// A line of its stdout: an event, where events are asked for.
    pub fn out(&self, line: &str) {
        if !self.listener.teller.json {
            return self.put_last(Sentence(line).to_string());
        }
        match serde_json::from_str(line) {
            Ok(event @ Value::Object(_)) => self.event(self.ours(event)),
            _ => self.err(line),
        }
    }

    /// A line of its stderr.
    pub fn err(&self, line: &str) {
        self.listener.line(&Sentence(line).to_string());
    }

    /// What is noted of the way to it, here.
    pub fn note(&self, text: String) {
        self.listener.hear(&Event::Note(text));
    }

    /// It has begun: what may ask for a password has done so.
    pub fn begun(&self) {
        self.listener.teller.begun(self.listener.number, true);
    }

    /// It is over, and asks for none any more. `is_done`: it had begun, though it may have told nothing of that.
    pub fn over(&self, is_done: bool) {
        self.listener.teller.begun(self.listener.number, is_done);
    }

    /// What is in the report that it wrote, for ours.
    ///
    /// # Errors
    /// What reading says.
    pub fn record(&self, mut written: impl BufRead) -> std::io::Result<()> {
        let Some(report) = &self.listener.teller.report else { return Ok(()) };
        let mut line = Vec::new();
        while written.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? > 0 {
            if let Ok(event @ Value::Object(_)) = serde_json::from_slice(&line) {
                report.line(&self.ours(event));
            }
            line.clear();
        }
        Ok(())
    }

    /// The last words, and the exit code. `exit` is that of the copy, `reported` what became of report and receipt.
    pub fn finish(&self, exit: Exit, reported: Exit) -> Exit {
        let exit = exit.worst(reported);
        let last = std::mem::take(&mut *lock(&self.last));
        last.lines.iter().for_each(|line| self.listener.say(line));
        if let Some(mut event) = last.event {
            event["exit"] = exit.code().into();
            json::tell_later(&event);
        }
        exit
    }

    /// It failed here, not there; hands the exit code back. What it called its last event is not the last.
    pub fn failed(&self, failure: &Failure, exit: Exit) -> Exit {
        let last = std::mem::take(&mut *lock(&self.last));
        last.lines.iter().for_each(|line| self.listener.say(line));
        self.listener.failed(failure, exit)
    }

    /// An event with its place in our command.
    fn ours(&self, event: Value) -> Value {
        numbered(event, self.listener.number, self.listener.teller.copies)
    }

    fn event(&self, event: Value) {
        match event["event"].as_str() {
            // Of all copies it is told here, once a second.
            Some("progress") => {}
            // What it calls so more than once, it may call so: the last of them is.
            Some("finished" | "error") if event.get("exit").is_some() => lock(&self.last).event = Some(event),
            _ => json::tell_later(&event),
        }
    }

    fn put_last(&self, line: String) {
        let mut last = lock(&self.last);
        last.lines.push_back(line);
        if last.lines.len() > LAST_MAX
            && let Some(first) = last.lines.pop_front()
        {
            drop(last);
            self.listener.say(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use crate::config;
    use crate::copy_output::Teller;
    use clap::FromArgMatches;
    use std::collections::BTreeSet;
    use thalweg_mover::run::copy::Meter;

    #[test]
    fn a_report_that_comes_back_has_our_number_of_the_copy_and_nothing_that_is_no_event_gets_in() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("report");
        let words = ["thalweg", "cp", "a:x", "b:y", "--report", path.to_str().unwrap()];
        let matches = config::command().try_get_matches_from(words).unwrap();
        let Command::Cp(args) = Args::from_arg_matches(&matches).unwrap().command else { panic!("no copy") };
        let meters: [Arc<Meter>; 2] = Default::default();
        let teller = Arc::new(Teller::start(&args, &meters, BTreeSet::from([2])).unwrap());
        let relay = Relay::new(Arc::new(Listener::new(teller.clone(), 2)));
        let long = format!(r#"{{"event":"{}"}}"#, "x".repeat(3 << 19));
        let lines = [r#"{"event":"entry","copy":7}"#, "nonsense", "[1]", &long, r#"{"event":"deleted"}"#];
        relay.record(lines.join("\n").as_bytes()).unwrap();
        relay.begun();
        assert_eq!(teller.stop(), Exit::Done);
        let events: Vec<Value> = std::fs::read_to_string(&path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let told = events.iter().map(|event| (event["event"].as_str(), event["copy"].as_u64()));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(Some("entry"), Some(2)), (Some("deleted"), Some(2))]);
        // However often it calls an event its last, one is, with our exit code.
        for number in 0..=LAST_MAX {
            relay.event(serde_json::json!({"event": "finished", "exit": 0, "number": number}));
        }
        let waits = lock(&relay.last).event.take();
        assert_eq!(waits.and_then(|event| event["number"].as_u64()), Some(LAST_MAX as u64));
        // A copy that is done is not, if what was to be kept of it is not.
        assert_eq!(relay.finish(Exit::Done, Exit::Partial), Exit::Partial);
        assert_eq!(relay.finish(Exit::Damage, Exit::Partial), Exit::Damage);
    }
}
