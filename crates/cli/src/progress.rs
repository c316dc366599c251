//! Progress on a terminal, silence in a pipe.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_mover::run::copy::Meter;

/// Draws a bar from a meter until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts if stderr is a terminal (or `always`).
    pub fn start(meter: Arc<Meter>, always: bool, never: bool) -> Option<Progress> {
        let is_terminal =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        if never || !(always || is_terminal) {
            return None;
        }
        let target = ProgressDrawTarget::stderr_with_hz(5);
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let template = "{msg} {bar:24} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        let done = Arc::new(AtomicBool::new(false));
        let (thread_bar, thread_done) = (bar.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            while !thread_done.load(Ordering::Acquire) {
                let found = meter.bytes_found.load(Ordering::Relaxed);
                let settled = meter.entries_settled.load(Ordering::Relaxed);
                let entries = meter.entries_found.load(Ordering::Relaxed);
                let more = if meter.scan_over.load(Ordering::Relaxed) { "" } else { "+" };
                thread_bar.set_length(found);
                thread_bar.set_position(meter.bytes_verified.load(Ordering::Relaxed).min(found));
                thread_bar.set_message(format!("{settled}/{entries}{more} entries"));
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        Some(Progress { bar, done, thread: Some(thread) })
    }

    /// Prints a line above the bar.
    pub fn line(&self, text: &str) {
        self.bar.println(text);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
