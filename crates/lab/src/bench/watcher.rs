//! `thalweg watch` as it runs, and how many items it has brought.

use super::child_output::ChildOutput;
use super::stopped;
use super::workspace::{Noted, end, overdue};
use serde_json::Value;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, MEASURE, Result, of_io};

const POLL: Duration = Duration::from_millis(2);

/// It ends with the value.
pub struct Watcher {
    child: Child,
    output: ChildOutput<Told>,
    /// How long all items may take.
    patience: Duration,
    _noted: Noted,
}

#[derive(Default)]
struct Told {
    /// Items that are there, verified and durable, and when the last of them was told.
    arrived: u64,
    last: Option<Instant>,
}

impl Watcher {
    pub(super) fn start(mut child: Child, noted: Noted, patience: Duration) -> Result<Watcher> {
        let output = ChildOutput::of(&mut child, Told::hear).inspect_err(|_| end(&mut child))?;
        Ok(Watcher { child, output, patience, _noted: noted })
    }

    /// Waits until so many items are there; when the last of them was.
    ///
    /// # Errors
    /// If it ends before; `Stopped`.
    pub fn wait(&mut self, items: u64, stop: &AtomicBool) -> Result<Instant> {
        let until = Instant::now() + self.patience;
        loop {
            if let Some(last) = self.output.told().last_of(items) {
                return Ok(last);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            if Instant::now() > until {
                return Err(overdue("a watch", self.patience));
            }
            let ended = self.child.try_wait().map_err(|error| of_io("wait for a watch", &error))?;
            if let Some(status) = ended {
                self.output.hear_out();
                let told = self.output.told();
                if let Some(last) = told.last_of(items) {
                    return Ok(last);
                }
                let (arrived, why) = (told.arrived, self.output.why());
                let cause = format!("a watch ended ({status}) with {arrived} of {items} items: {why}");
                return Err(Failure::new(FailureKind::Internal, MEASURE, cause));
            }
            std::thread::sleep(POLL);
        }
    }
}

impl Told {
    fn last_of(&self, items: u64) -> Option<Instant> {
        self.last.filter(|_| self.arrived >= items)
    }

    fn hear(&mut self, event: &Value) {
        if event["event"] == "arrived" {
            self.arrived += 1;
            self.last = Some(Instant::now());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_arrived_is_counted() {
        let mut told = Told::default();
        told.hear(&json!({"event": "progress"}));
        assert!(told.arrived == 0 && told.last.is_none());
        told.hear(&json!({"event": "arrived", "name": "00000.raw"}));
        told.hear(&json!({"event": "item-done", "name": "00000.raw"}));
        assert!(told.last_of(1).is_some() && told.last_of(2).is_none());
    }
}
