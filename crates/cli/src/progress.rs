//! Progress on a terminal, silence in a pipe; who asks for it there too gets lines.

use crate::{json, out, show, threads, units};
use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_mover::failure::Result;
use thalweg_mover::run::copy::Meter;
use thalweg_wire::message::PartOf;

/// Time between two lines where nothing can be drawn: a log of a day has some thousands.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Time between two events.
const TICK_EVERY: Duration = Duration::from_secs(1);

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
                if let Some(style) = style(meter) {
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
                    tell(&drawn);
                }
                std::thread::park_timeout(Duration::from_millis(200));
            }
            if is_hidden {
                // How far it came, also where it was over before the first line.
                drawn.iter().for_each(|(bar, meter)| draw(bar, meter));
                tell(&drawn);
            }
            drawn.iter().for_each(|(bar, _)| bar.finish_and_clear());
        });
        Some(Progress { bars, done, thread: Some(thread.ok()?) })
    }

    /// Prints a line above the bars.
    pub fn line(&self, text: &str) {
        // Bars that are not drawn print nothing above them either. No link waits for who reads the lines.
        if self.bars.is_hidden() {
            return show::line_later(text.to_owned());
        }
        // A terminal that is gone is no reason to stop copying.
        let _ = self.bars.println(text);
    }

    /// Does what writes to the terminal by itself, while no bar is in its way.
    pub fn aside(&self, work: impl FnOnce()) {
        self.bars.suspend(work);
    }
}

/// Tells as JSON how far it is, once a second, until it is dropped.
pub struct Ticker {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start(meter: Arc<Meter>) -> Result<Ticker> {
        Ticker::start_of(meter, None)
    }

    /// The same of one of several parts, which is named.
    ///
    /// # Errors
    /// As [`Ticker::start`].
    pub fn start_of(meter: Arc<Meter>, part: Option<PartOf>) -> Result<Ticker> {
        let over = Arc::new(AtomicBool::new(false));
        let thread_over = over.clone();
        let thread = threads::spawn("progress", move || {
            let mut next = Instant::now() + TICK_EVERY;
            while !thread_over.load(Ordering::Acquire) {
                std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                if Instant::now() >= next && !thread_over.load(Ordering::Acquire) {
                    next += TICK_EVERY;
                    let mut told = json::progress(&meter);
                    if let Some(part) = part {
                        told["part"] = part.to_string().into();
                    }
                    json::tell_progress(&told, part.map_or(1, |part| part.number as usize));
                }
            }
        })?;
        Ok(Ticker { over, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// As wide as the terminal, never wider: the bar gets what the words leave.
fn style(meter: &Arc<Meter>) -> Option<ProgressStyle> {
    let style = ProgressStyle::with_template("{prefix}{msg} {wide_bar} {amounts}").ok()?;
    let meter = meter.clone();
    let told = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
        let _ = out.write_str(&amounts(&meter));
    };
    Some(style.with_key("amounts", told))
}

/// Content settled of what was found, the rate of what comes, and how long the rest takes.
fn amounts(meter: &Meter) -> String {
    let settled = meter.bytes_settled();
    let (settled, found) = (units::size(settled), units::size(found(meter, settled)));
    let rate = units::bit_rate(meter.bytes_per_s().unwrap_or(0.0) * 8.0);
    let left = meter.left().map(|left| format!(", {:#} left", HumanDuration(left))).unwrap_or_default();
    format!("{settled} of {found}{}, {rate}{left}", more(meter))
}

/// Content bytes found: no fewer than are settled, for both grow while they are read.
fn found(meter: &Meter, settled: u64) -> u64 {
    meter.bytes_found.load(Ordering::Relaxed).max(settled)
}

/// Behind what is not all yet.
fn more(meter: &Meter) -> &'static str {
    if meter.scan_over.load(Ordering::Relaxed) { "" } else { "+" }
}

fn draw(bar: &ProgressBar, meter: &Meter) {
    let settled = meter.entries_settled.load(Ordering::Relaxed);
    let entries = meter.entries_found.load(Ordering::Relaxed);
    let bytes = meter.bytes_settled();
    bar.set_length(found(meter, bytes));
    bar.set_position(bytes);
    bar.set_message(format!("{settled}/{entries}{} entries", more(meter)));
}

/// Tells how far each is, in the place of what nobody has read yet.
fn tell(drawn: &[(ProgressBar, Arc<Meter>)]) {
    for (number, (bar, meter)) in drawn.iter().enumerate() {
        out::tell_aside_later(as_line(bar, meter), Some(number));
    }
}

/// What the bar would show, and for how long it has gone on.
fn as_line(bar: &ProgressBar, meter: &Meter) -> String {
    let elapsed = HumanDuration(meter.elapsed());
    format!("{}{}, {}, {elapsed:#} elapsed", bar.prefix(), bar.message(), amounts(meter))
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
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

    #[test]
    fn what_was_there_already_is_done_and_what_is_found_so_far_is_marked() {
        let (bar, meter) = (ProgressBar::hidden(), Meter::default());
        meter.bytes_found.store(10 << 30, Ordering::Relaxed);
        meter.bytes_verified.store(1 << 30, Ordering::Relaxed);
        meter.bytes_unmoved.store(5 << 30, Ordering::Relaxed);
        draw(&bar, &meter);
        assert_eq!((bar.position(), bar.length()), (6 << 30, Some(10 << 30)));
        let line = as_line(&bar, &meter);
        assert!(line.starts_with("0/0+ entries, 6.00 GiB of 10.00 GiB+, 0"), "{line}");
        assert!(line.ends_with(", 0s elapsed") && !line.contains("left"), "{line}");
        meter.scan_over.store(true, Ordering::Relaxed);
        draw(&bar, &meter);
        let line = as_line(&bar, &meter);
        assert!(line.starts_with("0/0 entries, 6.00 GiB of 10.00 GiB, 0"), "{line}");
    }
}
