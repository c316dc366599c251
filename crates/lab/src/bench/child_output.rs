//! What a child says while it runs: events, one JSON object on a line of its standard output, and words on its standard
//! error.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use thalweg_mover::failure::{Result, of_thread};
use thalweg_mover::mutex::lock;

/// What of a child's errors is kept; the rest is read and forgotten, so that it never waits for us.
const ERRORS_BYTES_MAX: u64 = 1 << 20;

/// Two threads, which hear a child until it closes its ends of the pipes. `T` is what is known of its events.
pub struct ChildOutput<T> {
    told: Arc<Mutex<T>>,
    errors: Arc<Mutex<String>>,
    threads: Vec<JoinHandle<()>>,
}

impl<T: Default + Send + 'static> ChildOutput<T> {
    /// Of a child whose output is piped, taken from it; `hear` gets each event in turn. A line that is no JSON is an
    /// event that says nothing.
    ///
    /// # Errors
    /// If a thread cannot be started; the child runs on.
    pub fn of(child: &mut Child, hear: impl Fn(&mut T, &Value) + Send + 'static) -> Result<ChildOutput<T>> {
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let mut output = ChildOutput { told: Arc::default(), errors: Arc::default(), threads: Vec::new() };
        let told = output.told.clone();
        output.start(move || {
            for line in
                out.map(BufReader::new).into_iter().flat_map(|out| out.lines().map_while(io::Result::ok))
            {
                hear(&mut lock(&told), &serde_json::from_str(&line).unwrap_or_default());
            }
        })?;
        let kept = output.errors.clone();
        output.start(move || {
            let Some(mut errors) = errors else { return };
            let mut words = Vec::new();
            // What cannot be read is missed by who asks, as words that did not come.
            let _ = errors.by_ref().take(ERRORS_BYTES_MAX).read_to_end(&mut words);
            *lock(&kept) = String::from_utf8_lossy(&words).into_owned();
            let _ = io::copy(&mut errors, &mut io::sink());
        })?;
        Ok(output)
    }

    fn start(&mut self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().spawn(work);
        self.threads.push(thread.map_err(|error| of_thread(&error))?);
        Ok(())
    }

    /// What is known of its events now.
    pub fn told(&self) -> MutexGuard<'_, T> {
        lock(&self.told)
    }

    /// Waits until all that it said was heard: after the child has ended.
    pub fn hear_out(&mut self) {
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }

    /// The first of its errors; all of them are known after [`ChildOutput::hear_out`].
    pub fn why(&self) -> String {
        let errors = lock(&self.errors);
        errors.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
    }

    /// Whether these words are among its errors.
    pub fn complains_of(&self, words: &str) -> bool {
        lock(&self.errors).contains(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn heard(script: &str) -> ChildOutput<Vec<Value>> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output =
            ChildOutput::of(&mut child, |told: &mut Vec<Value>, event| told.push(event.clone())).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > until {
                child.kill().unwrap();
                panic!("`{script}` waits for somebody to hear it");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        output.hear_out();
        output
    }

    #[test]
    fn events_and_errors_of_a_child_are_heard_apart_and_to_the_end() {
        let output =
            heard("echo '{\"n\": 1}'; echo rubbish; echo >&2; echo 'no room' >&2; echo '{\"n\": 2}'");
        let told: Vec<Value> = output.told().iter().map(|event| event["n"].clone()).collect();
        assert_eq!(told, [1.into(), Value::Null, 2.into()]);
        assert_eq!(output.why(), "no room");
        assert!(output.complains_of("room") && !output.complains_of("rubbish"));
        assert_eq!(heard("true").why(), "it said nothing");
    }

    /// A reader that stops at what it does not keep has the child wait for ever.
    #[test]
    fn a_child_with_more_errors_than_are_kept_comes_to_its_end() {
        let output = heard("head -c 3000000 /dev/zero >&2; echo '{\"n\": 3}'");
        assert_eq!(output.told()[0]["n"], 3);
        assert_eq!(lock(&output.errors).len() as u64, ERRORS_BYTES_MAX);
    }
}
