//! Where the time of one side of a transfer goes.
//!
//! Each thread of the data path is always in one stage, and books there when it leaves it: one reading of the wall
//! clock (30 ns) and one of its CPU clock (0.2 µs) for a segment of half a mebibyte. Small files, of which a thread
//! does fifty thousand a second, are booked by the wall clock alone; their CPU time is booked once for a pack. What
//! that comes to, in instructions: `cargo xtask instructions`; in time: `cargo bench -p thalweg-mover --bench
//! accounts`.

use super::Stage;
use crate::mutex::lock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_sys::cpu_time::thread_cpu;
use thalweg_wire::account::StageAccount;

/// Readings of clocks for a segment of [`SEGMENT_BYTES`](crate::plan::SEGMENT_BYTES), at the sending and at the
/// receiving side, whoever asks for them: bookings, and limits that are waited for. `cargo xtask instructions` counts
/// them, and fails where they are others.
pub const READINGS_A_SEGMENT: [f64; 2] = [11.0, 21.75];

/// The accounts of all stages of one side of a transfer.
#[derive(Default)]
pub struct Accounts {
    rows: [Row; Stage::ALL.len()],
}

/// Time and work of one visit to a stage.
#[derive(Debug, Clone, Copy, Default)]
pub struct Booking {
    /// At work.
    pub busy: Duration,
    /// Without anything to work on.
    pub input: Duration,
    /// Until what comes behind took what was ready.
    pub output: Duration,
    /// CPU time of the work.
    pub cpu: Duration,
    /// Content bytes.
    pub bytes: u64,
    /// Pieces of work.
    pub items: u64,
}

#[derive(Default)]
struct Row {
    busy_nanos: AtomicU64,
    input_nanos: AtomicU64,
    output_nanos: AtomicU64,
    cpu_nanos: AtomicU64,
    bytes: AtomicU64,
    items: AtomicU64,
    threads: Mutex<Threads>,
    queue: Arc<Waiting>,
}

/// What waits before a stage, or is under way in it.
#[derive(Default)]
struct Waiting {
    now: AtomicU32,
    max: AtomicU32,
}

impl Waiting {
    fn add(&self, count: u32) {
        let now = self.now.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        self.max.fetch_max(now, Ordering::Relaxed);
    }

    fn remove(&self, count: u32) {
        self.now.fetch_sub(count, Ordering::Relaxed);
    }
}

/// Requests of one thread that are under way in a stage; none any more when this goes.
pub struct UnderWay {
    queue: Arc<Waiting>,
    count: u32,
}

impl UnderWay {
    /// So many are now. Without a change this costs a comparison.
    pub fn set(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match count.checked_sub(self.count) {
            Some(0) => {}
            Some(more) => self.queue.add(more),
            None => self.queue.remove(self.count - count),
        }
        self.count = count;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Threads of a stage, over time.
#[derive(Debug, Default)]
struct Threads {
    now: u32,
    since: Option<Instant>,
    /// Time of all threads until then, and time with any, in seconds.
    all_s: f64,
    any_s: f64,
}

impl Threads {
    /// So many from `at` on.
    fn set(&mut self, count: u32, at: Instant) {
        (self.all_s, self.any_s) = self.until(at);
        (self.now, self.since) = (count, Some(at));
    }

    fn until(&self, at: Instant) -> (f64, f64) {
        let passed = self
            .since
            .filter(|_| self.now > 0)
            .map_or(Duration::ZERO, |since| at.saturating_duration_since(since));
        let seconds = passed.as_secs_f64();
        (self.all_s + seconds * f64::from(self.now), self.any_s + seconds)
    }

    /// How many there were on average while there was any, to the nearest whole one.
    fn mean(&self, at: Instant) -> u32 {
        match self.until(at) {
            (all, any) if any > 0.0 => ((all / any).round() as u32).max(1),
            _ => self.now,
        }
    }
}

impl Accounts {
    /// Bytes that went through a stage so far.
    pub fn bytes(&self, stage: Stage) -> u64 {
        self.rows[stage as usize].bytes.load(Ordering::Relaxed)
    }

    /// Content bytes that a receiver found good so far: what came, and what stands there and was compared.
    pub fn good_bytes(&self) -> u64 {
        self.bytes(Stage::Verify).saturating_add(self.bytes(Stage::Read))
    }

    /// Books on a stage.
    // Never a part of its caller: `cargo xtask instructions` counts what accounting costs.
    #[inline(never)]
    pub fn book(&self, stage: Stage, booking: Booking) {
        let row = &self.rows[stage as usize];
        let add_time = |to: &AtomicU64, time: Duration| {
            if !time.is_zero() {
                to.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        };
        add_time(&row.busy_nanos, booking.busy);
        add_time(&row.input_nanos, booking.input);
        add_time(&row.output_nanos, booking.output);
        add_time(&row.cpu_nanos, booking.cpu);
        row.bytes.fetch_add(booking.bytes, Ordering::Relaxed);
        row.items.fetch_add(booking.items, Ordering::Relaxed);
    }

    /// One more thread works in this stage.
    pub fn enter(&self, stage: Stage) {
        self.set_threads(stage, |now| now + 1);
    }

    /// A thread works in this stage no more.
    pub fn leave(&self, stage: Stage) {
        self.set_threads(stage, |now| now.saturating_sub(1));
    }

    /// So many threads work in this stage from now on.
    pub fn work_with(&self, stage: Stage, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.set_threads(stage, |_| count);
    }

    /// Threads that work in this stage now.
    pub fn threads(&self, stage: Stage) -> u32 {
        self.rows[stage as usize].threads().now
    }

    fn set_threads(&self, stage: Stage, count: impl FnOnce(u32) -> u32) {
        let mut threads = self.rows[stage as usize].threads();
        let count = count(threads.now);
        threads.set(count, Instant::now());
    }

    /// A piece of work begins to wait for a stage.
    pub fn queued(&self, stage: Stage) {
        self.rows[stage as usize].queue.add(1);
    }

    /// A piece of work waits no more.
    pub fn taken(&self, stage: Stage) {
        self.rows[stage as usize].queue.remove(1);
    }

    /// Counts requests of the calling thread that are under way in this stage; none yet.
    pub fn under_way(&self, stage: Stage) -> UnderWay {
        UnderWay { queue: self.rows[stage as usize].queue.clone(), count: 0 }
    }

    /// The rows that saw anything.
    pub fn rows(&self) -> Vec<StageAccount> {
        let now = Instant::now();
        let of = |value: &AtomicU64| value.load(Ordering::Relaxed);
        Stage::ALL
            .iter()
            .zip(&self.rows)
            .map(|(&stage, row)| StageAccount {
                stage: stage as u8,
                busy_nanos: of(&row.busy_nanos),
                input_nanos: of(&row.input_nanos),
                output_nanos: of(&row.output_nanos),
                cpu_nanos: of(&row.cpu_nanos),
                bytes: of(&row.bytes),
                items: of(&row.items),
                threads: u16::try_from(row.threads().mean(now)).unwrap_or(u16::MAX),
                queue: row.queue.now.load(Ordering::Relaxed),
                queue_max: row.queue.max.load(Ordering::Relaxed),
            })
            .filter(|row| {
                row.busy_nanos > 0 || row.input_nanos > 0 || row.output_nanos > 0 || row.threads > 0
            })
            .collect()
    }
}

impl Row {
    fn threads(&self) -> MutexGuard<'_, Threads> {
        lock(&self.threads)
    }
}

/// What the wall clock and the CPU clock of the calling thread said.
#[derive(Debug, Clone, Copy)]
pub struct Clocks {
    wall: Instant,
    cpu: Duration,
}

impl Clocks {
    /// Reads both.
    pub fn read() -> Clocks {
        Clocks { wall: Instant::now(), cpu: thread_cpu() }
    }

    /// The moment in which they were read.
    pub fn wall(self) -> Instant {
        self.wall
    }

    /// Wall time and CPU time since `earlier`, when the same thread read them.
    pub fn since(self, earlier: Clocks) -> (Duration, Duration) {
        (self.wall.saturating_duration_since(earlier.wall), self.cpu.saturating_sub(earlier.cpu))
    }
}

/// Books the time of the calling thread between calls on stages.
pub struct Stopwatch<'a> {
    accounts: &'a Accounts,
    since: Instant,
    cpu_since: Duration,
    /// Work since then that only computed, whose CPU time is not booked yet.
    computed: Option<(Stage, Duration)>,
}

impl<'a> Stopwatch<'a> {
    /// Starts now.
    pub fn start(accounts: &'a Accounts) -> Self {
        Stopwatch::start_at(accounts, Clocks::read())
    }

    /// Started when the calling thread read these.
    pub fn start_at(accounts: &'a Accounts, clocks: Clocks) -> Self {
        Stopwatch { accounts, since: clocks.wall, cpu_since: clocks.cpu, computed: None }
    }

    /// Books the time since the last lap on `stage`, as work on one piece.
    pub fn lap(&mut self, stage: Stage, bytes: u64) {
        self.lap_many(stage, bytes, 1);
    }

    /// Books the time since the last lap on `stage`, as work on so many pieces.
    pub fn lap_many(&mut self, stage: Stage, bytes: u64, items: u64) {
        let (wall, cpu) = self.next();
        self.accounts.book(stage, Booking { busy: wall, cpu, bytes, items, ..Booking::default() });
    }

    /// Books the CPU time since the last lap on `stage` as work, the rest of the time as a wait for what comes behind.
    pub fn lap_out(&mut self, stage: Stage, bytes: u64) {
        let (wall, cpu) = self.next();
        let output = wall.saturating_sub(cpu);
        self.accounts
            .book(stage, Booking { busy: wall - output, output, cpu, bytes, items: 1, ..Booking::default() });
    }

    /// Books the time since the last lap as one without anything to work on.
    pub fn idle(&mut self, stage: Stage) {
        let (input, _) = self.next();
        self.accounts.book(stage, Booking { input, ..Booking::default() });
    }

    /// Books a small piece of work on `stage`, without its CPU time: the next [`Stopwatch::close`] brings that.
    pub fn quick(&mut self, stage: Stage, bytes: u64) {
        self.quick_many(stage, bytes, 1);
    }

    /// The same of so many pieces.
    pub fn quick_many(&mut self, stage: Stage, bytes: u64, items: u64) {
        let busy = self.wall();
        self.accounts.book(stage, Booking { busy, bytes, items, ..Booking::default() });
    }

    /// Books a piece of work that only computes, with one clock less than a lap: its time is CPU time, as far as the
    /// thread turns out to have had so much by the next lap.
    pub fn computed(&mut self, stage: Stage, bytes: u64) {
        let busy = self.wall();
        self.accounts.book(stage, Booking { busy, bytes, items: 1, ..Booking::default() });
        match &mut self.computed {
            Some((before, time)) if *before == stage => *time += busy,
            Some(_) => {
                self.skip();
                self.computed = Some((stage, busy));
            }
            none => *none = Some((stage, busy)),
        }
    }

    /// Books the CPU time of all that was [`quick`](Stopwatch::quick) since the last lap on `stage`, and the time since
    /// as work.
    pub fn close(&mut self, stage: Stage) {
        let (wall, cpu) = self.next();
        self.accounts.book(stage, Booking { busy: wall, cpu, ..Booking::default() });
    }

    /// Forgets the time since the last lap: it belongs to nobody.
    pub fn skip(&mut self) {
        self.next();
    }

    /// Leaves out wall time and CPU time since the last lap that were booked otherwise.
    pub fn leave_out(&mut self, (wall, cpu): (Duration, Duration)) {
        self.since += wall;
        self.cpu_since += cpu;
    }

    fn wall(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.since, now))
    }

    fn next(&mut self) -> (Duration, Duration) {
        let now = thread_cpu();
        let cpu = now.saturating_sub(std::mem::replace(&mut self.cpu_since, now));
        let computed = self.computed.take().map_or(Duration::ZERO, |(stage, time)| {
            let cpu = time.min(cpu);
            self.accounts.book(stage, Booking { cpu, ..Booking::default() });
            cpu
        });
        let wall = self.wall();
        (wall, cpu - computed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_computed_is_booked_with_no_more_cpu_time_than_the_thread_had() {
        let accounts = Accounts::default();
        let mut watch = Stopwatch::start(&accounts);
        // It had no core meanwhile.
        std::thread::sleep(Duration::from_millis(50));
        watch.computed(Stage::Digest, 5);
        watch.lap(Stage::Send, 5);
        let rows = accounts.rows();
        let of = |stage: Stage| rows.iter().find(|row| row.stage == stage as u8).unwrap();
        let (digest, send) = (of(Stage::Digest), of(Stage::Send));
        assert!(digest.busy_nanos >= 50_000_000, "{digest:?}");
        assert!(digest.cpu_nanos + send.cpu_nanos < 50_000_000, "{digest:?} {send:?}");
        assert_eq!((digest.bytes, digest.items, send.items), (5, 1, 1));
    }

    #[test]
    fn requests_under_way_count_for_all_threads_together_and_go_with_whoever_made_them() {
        let accounts = Accounts::default();
        accounts.enter(Stage::Write);
        let queues = || accounts.rows().first().map(|row| (row.queue, row.queue_max)).unwrap();
        assert_eq!(queues(), (0, 0));
        let (mut one, mut other) = (accounts.under_way(Stage::Write), accounts.under_way(Stage::Write));
        one.set(3);
        other.set(2);
        other.set(2);
        assert_eq!(queues(), (5, 5));
        one.set(1);
        assert_eq!(queues(), (3, 5));
        drop(other);
        assert_eq!(queues(), (1, 5));
    }

    #[test]
    fn a_stopwatch_books_from_the_clocks_on_that_it_was_given() {
        let accounts = Accounts::default();
        let came = Clocks::read();
        std::thread::sleep(Duration::from_millis(20));
        let (wall, cpu) = Clocks::read().since(came);
        assert!(wall >= Duration::from_millis(20) && cpu < wall, "{wall:?} {cpu:?}");
        Stopwatch::start_at(&accounts, came).lap(Stage::Write, 5);
        let rows = accounts.rows();
        assert!(rows[0].busy_nanos >= 20_000_000 && rows[0].cpu_nanos < rows[0].busy_nanos, "{rows:?}");
    }

    #[test]
    fn threads_are_told_as_many_as_there_were_on_average_while_there_was_any() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut threads = Threads::default();
        assert_eq!(threads.mean(at(5)), 0);
        threads.set(2, at(5));
        assert_eq!(threads.mean(at(5)), 2);
        // A trial of some seconds, and an outage.
        threads.set(4, at(25));
        assert_eq!(threads.mean(at(25)), 2);
        threads.set(2, at(29));
        threads.set(0, at(49));
        assert_eq!(threads.mean(at(149)), 2);
        threads.set(8, at(149));
        assert_eq!(threads.mean(at(1149)), 8);
    }
}
