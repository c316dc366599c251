//! Progress on a terminal, silence in a pipe; who asks for it there too gets lines.

use crate::{show, threads, units};
use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_mover::run::copy::Meter;

/// Time between two lines where nothing can be drawn: a log of a day has some thousands.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Draws a bar for each meter until it is dropped, or writes lines where nothing can be drawn.
pub struct Progress {
    bars: MultiProgress,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts if stderr is a terminal that can be drawn on (or `always`), and there is a thread for it.
    pub fn start(meters: &[Arc<Meter>], always: bool, never: bool) -> Option<Progress> {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
        // No terminal, or one of which `TERM` does not say what it can do.
        let is_hidden = bars.is_hidden();
        if never || (is_hidden && !always) {
            return None;
        }
        let drawn: Vec<(ProgressBar, Arc<Meter>)> = (1..)
            .zip(meters)
            .map(|(number, meter)| {
                let bar = bars.add(ProgressBar::new(0));
                if let Some(style) = style() {
                    bar.set_style(style);
                }
                if meters.len() > 1 {
                    bar.set_prefix(format!("{number}: "));
                }
                (bar, meter.clone())
            })
            .collect();
        let done = Arc::new(AtomicBool::new(false));
        let thread_done = done.clone();
        let thread = threads::spawn("progress", move || {
            let mut next = Instant::now() + LINE_EVERY;
            while !thread_done.load(Ordering::Acquire) {
                drawn.iter().for_each(|(bar, meter)| draw(bar, meter));
                if is_hidden && Instant::now() >= next {
                    next = Instant::now() + LINE_EVERY;
                    drawn.iter().for_each(|(bar, _)| show::line(&as_line(bar)));
                }
                std::thread::sleep(Duration::from_millis(200));
            }
            if is_hidden {
                // How far it came, also where it was over before the first line.
                drawn.iter().for_each(|(bar, meter)| {
                    draw(bar, meter);
                    show::line(&as_line(bar));
                });
            }
            drawn.iter().for_each(|(bar, _)| bar.finish_and_clear());
        });
        Some(Progress { bars, done, thread: Some(thread.ok()?) })
    }

    /// Prints a line above the bars.
    pub fn line(&self, text: &str) {
        // Bars that are not drawn print nothing above them either.
        if self.bars.is_hidden() {
            return show::line(text);
        }
        // A terminal that is gone is no reason to stop copying.
        let _ = self.bars.println(text);
    }
}

/// As wide as the terminal, never wider: the bar gets what the words leave.
fn style() -> Option<ProgressStyle> {
    let style = ProgressStyle::with_template(
        "{prefix}{msg} {wide_bar} {binary_bytes} of {binary_total_bytes}, {rate}{left}",
    )
    .ok()?;
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = out.write_str(&units::bit_rate(state.per_sec() * 8.0));
    };
    // Before the first byte nobody knows, and after the last one it is not bytes that are waited for.
    let left = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        if state.pos() > 0 && state.len().is_some_and(|bytes| state.pos() < bytes) {
            let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
        }
    };
    Some(style.with_key("rate", rate).with_key("left", left))
}

fn draw(bar: &ProgressBar, meter: &Meter) {
    let found = meter.bytes_found.load(Ordering::Relaxed);
    let settled = meter.entries_settled.load(Ordering::Relaxed);
    let entries = meter.entries_found.load(Ordering::Relaxed);
    let more = if meter.scan_over.load(Ordering::Relaxed) { "" } else { "+" };
    let verified = meter.bytes_verified.load(Ordering::Relaxed);
    // Both grow while they are read.
    bar.set_length(found.max(verified));
    bar.set_position(verified);
    bar.set_message(format!("{settled}/{entries}{more} entries"));
}

/// What the bar would show.
fn as_line(bar: &ProgressBar) -> String {
    let (bytes, found) = (units::size(bar.position()), units::size(bar.length().unwrap_or_default()));
    let rate = units::bit_rate(bar.per_sec() * 8.0);
    format!("{}{}, {bytes} of {found}, {rate}", bar.prefix(), bar.message())
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_shown_also_before_it_is_known_how_much_there_is() {
        let (bar, meter) = (ProgressBar::hidden(), Meter::default());
        meter.bytes_verified.store(5 << 20, Ordering::Relaxed);
        draw(&bar, &meter);
        assert_eq!((bar.position(), bar.length()), (5 << 20, Some(5 << 20)));
        meter.bytes_found.store(6 << 20, Ordering::Relaxed);
        draw(&bar, &meter);
        assert_eq!((bar.position(), bar.length()), (5 << 20, Some(6 << 20)));
    }
}
