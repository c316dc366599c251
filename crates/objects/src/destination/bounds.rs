//! What bounds a destination: memory for what waits for the store, and threads that hand it over.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_mover::Result;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::thread;

/// Parts and objects in memory, gathered or under way: 32 parts of the usual 16 MiB.
pub(super) const MEMORY_BYTES_MAX: u64 = 512 << 20;
/// Requests that write, at once, to a bucket that is near: one connection each. More where it is far:
/// [`requests_at_once`](crate::store::requests_at_once).
pub(super) const THREADS_NEAR: usize = 16;
/// So much longer than a request is made again, who waits for the store waits for it to take something: why a request
/// failed says more than that nothing was taken.
pub(super) const STALL_MORE: Duration = Duration::from_secs(300);
/// A chunk that nobody went on with for so long gives way where memory is wanted: its stream is gone.
pub(super) const STALE: Duration = Duration::from_secs(30);
/// How often who waits looks around.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Bytes that may be in memory at once.
pub(super) struct Budget {
    total: u64,
    /// After so long a chunk that nobody goes on with gives way.
    pub(super) stale: Duration,
    /// Who waits for the store gives up when it took nothing for so long.
    pub(super) stall: Duration,
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Default)]
struct Used {
    bytes: u64,
    /// How often some were given back.
    steps: u64,
}

/// Some of them, until it goes.
pub(super) struct Permit {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(total: u64, stale: Duration, stall: Duration) -> Arc<Budget> {
        Arc::new(Budget { total, stale, stall, used: Mutex::default(), freed: Condvar::new() })
    }

    /// Waits for so many bytes. `waits` hears from time to time for how long none were given back, and may end it.
    pub(super) fn take(
        self: &Arc<Self>,
        bytes: u64,
        mut waits: impl FnMut(Duration) -> Result<()>,
    ) -> Result<Permit> {
        let mut since = Instant::now();
        let mut used = lock(&self.used);
        let mut steps = used.steps;
        // One alone is never too large: a chunk has its own bound.
        while used.bytes > 0 && used.bytes + bytes > self.total {
            used = self.freed.wait_timeout(used, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            if used.steps != steps {
                (steps, since) = (used.steps, Instant::now());
                continue;
            }
            drop(used);
            waits(since.elapsed())?;
            used = lock(&self.used);
        }
        used.bytes += bytes;
        Ok(Permit { budget: self.clone(), bytes })
    }

    /// Whether more than half is taken.
    pub(super) fn is_scarce(&self) -> bool {
        lock(&self.used).bytes > self.total / 2
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.used).bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = lock(&self.budget.used);
        used.bytes -= self.bytes;
        used.steps += 1;
        drop(used);
        self.budget.freed.notify_all();
    }
}

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Threads that are started when there is something to do, and end with the destination.
#[derive(Default)]
pub(super) struct Threads {
    queue: Mutex<Queue>,
    wakes: Condvar,
    started: Mutex<Vec<JoinHandle<()>>>,
}

/// Bounded by the memory that each job holds.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    is_closed: bool,
}

impl Threads {
    /// Has a job done soon, by at most so many threads; by the caller where there are none to be had. After the end it
    /// is dropped.
    pub(super) fn give(self: &Arc<Self>, threads_max: usize, job: Job) {
        let mut queue = lock(&self.queue);
        if queue.is_closed {
            drop(queue);
            return;
        }
        queue.jobs.push_back(job);
        let starts = queue.idle < queue.jobs.len() && queue.threads < threads_max;
        queue.threads += usize::from(starts);
        drop(queue);
        self.wakes.notify_one();
        if starts && !self.start() {
            let mut queue = lock(&self.queue);
            queue.threads -= 1;
            if queue.threads == 0 {
                while let Some(job) = queue.jobs.pop_front() {
                    drop(queue);
                    job();
                    queue = lock(&self.queue);
                }
            }
        }
    }

    fn start(self: &Arc<Self>) -> bool {
        let (own, lost) = (self.clone(), self.clone());
        let on_panic = move |_| lock(&lost.queue).threads -= 1;
        let started = thread::guarded("store", on_panic, move || own.work());
        started.map(|thread| lock(&self.started).push(thread)).is_ok()
    }

    fn work(&self) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = lock(&self.queue);
            } else if queue.is_closed {
                return;
            } else {
                queue.idle += 1;
                queue = self.wakes.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }

    /// Drops what nobody began, and waits for what is under way.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        let unbegun = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(unbegun);
        self.wakes.notify_all();
        for thread in std::mem::take(&mut *lock(&self.started)) {
            let _ = thread.join();
        }
    }
}
