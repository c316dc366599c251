//! `thalweg stream - PLACE` as a producer's end: what is written to it, and what it says meanwhile.

use super::child_output::ChildOutput;
use super::workspace::end;
use serde_json::Value;
use std::io::{self, Write};
use std::process::{Child, ChildStdin};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, of_io};
use thalweg_mover::mutex::lock;

/// After its pipe was closed, until all is durable.
const END_WAIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(2);
/// Nothing could be done: a slot was refused.
const REFUSED: i32 = 3;

/// It ends with the value.
pub struct Producer {
    child: Mutex<Child>,
    pipe: Mutex<Option<ChildStdin>>,
    output: ChildOutput<Told>,
}

#[derive(Default)]
struct Told {
    /// When a window of its slot opens, and the time to the next.
    opening: Option<(Instant, Duration)>,
    finished: Option<Value>,
}

impl Producer {
    pub(super) fn start(mut child: Child) -> Result<Producer> {
        let pipe = child.stdin.take();
        let output = ChildOutput::of(&mut child, Told::hear).inspect_err(|_| end(&mut child))?;
        Ok(Producer { child: Mutex::new(child), pipe: Mutex::new(pipe), output })
    }

    /// Hands it bytes.
    ///
    /// # Errors
    /// If it has ended.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match &mut *lock(&self.pipe) {
            Some(pipe) => pipe.write_all(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// No more bytes will come.
    pub fn close(&self) {
        lock(&self.pipe).take();
    }

    /// Ends it. The writer has the pipe until then, and is told that nobody reads any more.
    pub fn give_up(&self) {
        let mut child = lock(&self.child);
        // The number of one that was waited for may be another's.
        if matches!(child.try_wait(), Ok(None)) {
            end(&mut child);
        }
        drop(child);
        self.close();
    }

    /// Whether it was refused what it asked for.
    pub fn is_refused(&self) -> bool {
        let ended = lock(&self.child).try_wait().ok().flatten();
        ended.is_some_and(|status| status.code() == Some(REFUSED))
    }

    /// When a window of its slot opens, and the time to the next, once it has one.
    pub fn opening(&self) -> Option<(Instant, Duration)> {
        self.output.told().opening
    }

    /// Waits for its end: its last event, or nothing if it was refused.
    ///
    /// # Errors
    /// If it ends in another way, or not.
    pub fn end(mut self) -> Result<Option<Value>> {
        self.close();
        let until = Instant::now() + END_WAIT;
        let status = loop {
            let ended = lock(&self.child).try_wait().map_err(|error| of_io("wait for a producer", &error))?;
            if let Some(status) = ended {
                break status;
            }
            if Instant::now() > until {
                return Err(Failure::new(FailureKind::Internal, MEASURE, "a producer did not end"));
            }
            std::thread::sleep(POLL);
        };
        self.output.hear_out();
        match status.code() {
            Some(0) => Ok(self.output.told().finished.clone()),
            Some(REFUSED) if self.output.complains_of("take a slot") => Ok(None),
            _ => {
                let cause = format!("a producer did not end well: {}", self.output.why());
                Err(Failure::new(FailureKind::Internal, MEASURE, cause))
            }
        }
    }
}

impl Told {
    fn hear(&mut self, event: &Value) {
        let seconds = |key: &str| event[key].as_f64().and_then(|s| Duration::try_from_secs_f64(s).ok());
        match event["event"].as_str() {
            Some("slot") => {
                self.opening =
                    seconds("opens_in_s").map(|opens| Instant::now() + opens).zip(seconds("period_s"));
            }
            Some("finished") => self.finished = Some(event.clone()),
            _ => {}
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn giving_up_waits_for_no_write_that_nobody_reads() {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let producer = Producer::start(command.spawn().unwrap()).unwrap();
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| producer.write(&vec![0; 1 << 20]));
            let until = Instant::now() + Duration::from_secs(60);
            // More than a pipe holds: who has it keeps it.
            while producer.pipe.try_lock().is_ok() {
                assert!(Instant::now() < until, "nobody writes");
                std::thread::sleep(POLL);
            }
            producer.give_up();
            assert_eq!(writing.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        });
    }
}
