//! `thalweg watch` as it runs, and how many items it has brought.

use super::stopped;
use super::yard::{Noted, end};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};

/// How long all items may take.
const WAIT: Duration = Duration::from_secs(3600);
const POLL: Duration = Duration::from_millis(2);

/// It ends with the value.
pub struct Watcher {
    child: Child,
    told: Arc<Mutex<Told>>,
    ears: Vec<JoinHandle<()>>,
    _noted: Noted,
}

#[derive(Default)]
struct Told {
    /// Items that are there, verified and durable, and when the last of them was told.
    arrived: u64,
    last: Option<Instant>,
    errors: String,
}

impl Watcher {
    pub(super) fn start(mut child: Child, noted: Noted) -> Result<Watcher> {
        let told: Arc<Mutex<Told>> = Arc::default();
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let (hears, reads) = (told.clone(), told.clone());
        let events = move || {
            for line in
                out.map(BufReader::new).into_iter().flat_map(|out| out.lines().map_while(io::Result::ok))
            {
                lock(&hears).hear(&serde_json::from_str(&line).unwrap_or_default());
            }
        };
        let words = move || {
            let mut text = String::new();
            // What cannot be read is missed below, as words that did not come.
            let _ = errors.map(|mut errors| errors.read_to_string(&mut text));
            lock(&reads).errors = text;
        };
        let mut watcher = Watcher { child, told, ears: Vec::new(), _noted: noted };
        for work in [Box::new(events) as Box<dyn FnOnce() + Send>, Box::new(words)] {
            let ear = std::thread::Builder::new().spawn(work);
            watcher.ears.push(ear.map_err(|error| of_io("start a thread", &error))?);
        }
        Ok(watcher)
    }

    /// Waits until so many items are there; when the last of them was.
    ///
    /// # Errors
    /// If it ends before; `Stopped`.
    pub fn wait(&mut self, items: u64, stop: &AtomicBool) -> Result<Instant> {
        let until = Instant::now() + WAIT;
        loop {
            if let Some(last) = lock(&self.told).last_of(items) {
                return Ok(last);
            }
            if stop.load(Ordering::Relaxed) || Instant::now() > until {
                return Err(stopped());
            }
            let ended = self.child.try_wait().map_err(|error| of_io("wait for a watch", &error))?;
            if let Some(status) = ended {
                self.ears.drain(..).for_each(|ear| drop(ear.join()));
                let told = lock(&self.told);
                if let Some(last) = told.last_of(items) {
                    return Ok(last);
                }
                let why =
                    told.errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
                let cause = format!("a watch ended ({status}) with {} of {items} items: {why}", told.arrived);
                return Err(Failure::new(FailureKind::Internal, "measure", cause));
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
