//! What bounds a destination: memory for what waits for the store, and threads that hand it over.

use crate::bucket::AnyBucket;
use crate::store::requests_at_once;
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
const THREADS_NEAR: usize = 16;
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

    /// Bytes in all.
    pub(super) fn total(&self) -> u64 {
        self.total
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

type Work = Box<dyn FnOnce() + Send>;

struct Job {
    /// Of its content.
    bytes: u64,
    work: Work,
}

/// Threads that are started when there is something to do, and end with the destination.
pub(super) struct Threads {
    /// How far it is says how many there may be.
    bucket: AnyBucket,
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
    pub(super) fn new(bucket: AnyBucket) -> Arc<Threads> {
        let (queue, wakes, started) = Default::default();
        Arc::new(Threads { bucket, queue, wakes, started })
    }

    /// Requests that write, at once, with so many bytes of content each.
    pub(super) fn requests_at_once(&self, bytes: u64) -> usize {
        requests_at_once(self.bucket.answers_in(), bytes, THREADS_NEAR)
    }

    /// Has this done soon, which sends so many bytes; by the caller where there are no threads to be had. After the end
    /// it is dropped.
    pub(super) fn give(self: &Arc<Self>, bytes: u64, work: Work) {
        let mut queue = lock(&self.queue);
        if queue.is_closed {
            drop(queue);
            return;
        }
        queue.jobs.push_back(Job { bytes, work });
        let starts = self.takes_one_more(&mut queue);
        drop(queue);
        self.wakes.notify_one();
        if starts && !self.start() && lock(&self.queue).threads == 0 {
            while let Some(job) = self.next() {
                (job.work)();
            }
        }
    }

    fn next(&self) -> Option<Job> {
        lock(&self.queue).jobs.pop_front()
    }

    /// Whether one more thread is to be started for what waits; it counts from now on.
    fn takes_one_more(&self, queue: &mut Queue) -> bool {
        if queue.is_closed {
            return false;
        }
        let Some(next) = queue.jobs.front() else { return false };
        let threads_max = self.requests_at_once(next.bytes);
        let starts = queue.idle < queue.jobs.len() && queue.threads < threads_max;
        queue.threads += usize::from(starts);
        starts
    }

    /// Starts one that counts already; or it does not count any more.
    fn start(self: &Arc<Self>) -> bool {
        let (own, lost) = (self.clone(), self.clone());
        let on_panic = move |_| lock(&lost.queue).threads -= 1;
        match thread::guarded("store", on_panic, move || own.work()) {
            Ok(thread) => {
                lock(&self.started).push(thread);
                true
            }
            Err(_) => {
                lock(&self.queue).threads -= 1;
                false
            }
        }
    }

    fn work(self: &Arc<Self>) {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                // All that waits may have been given before the store answered at all.
                let starts = self.takes_one_more(&mut queue);
                drop(queue);
                if starts {
                    self.start();
                }
                (job.work)();
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

    /// Not locked while it is waited for: it may be about to start another.
    fn next_started(&self) -> Option<JoinHandle<()>> {
        lock(&self.started).pop()
    }

    /// Drops what nobody began, and waits for what is under way.
    pub(super) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.is_closed = true;
        let unbegun = std::mem::take(&mut queue.jobs);
        drop(queue);
        drop(unbegun);
        self.wakes.notify_all();
        // One that is being started now counts when its starter has ended.
        while let Some(thread) = self.next_started() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::memory::Memory;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(120);

    /// All that waits is given before it is known how far the store is.
    #[test]
    fn once_a_store_shows_that_it_is_far_more_threads_write_to_it() {
        let bucket = Memory::new();
        let threads = Threads::new(bucket.clone());
        let (begins, begun) = mpsc::channel();
        let (ends, end) = mpsc::channel::<()>();
        let end = Arc::new(Mutex::new(end));
        for _ in 0..64 {
            let (begins, end) = (begins.clone(), end.clone());
            threads.give(
                64 << 10,
                Box::new(move || {
                    begins.send(()).unwrap();
                    let _ = lock(&end).recv_timeout(LONG);
                }),
            );
        }
        let has_begun = |jobs: usize| (0..jobs).for_each(|_| begun.recv_timeout(LONG).unwrap());
        has_begun(THREADS_NEAR);
        assert!(begun.try_recv().is_err(), "near there are no more");
        bucket.answers_in_ms.store(50, Ordering::Relaxed);
        ends.send(()).unwrap();
        // The one that ended takes the next, and has another started, which does the same.
        has_begun(50 - THREADS_NEAR + 1);
        assert!(begun.try_recv().is_err() && lock(&threads.queue).threads == 50);
        drop(ends);
        threads.close();
    }
    /// Each thread that takes something may be starting another then.
    #[test]
    fn who_closes_while_threads_are_started_waits_for_all_of_them() {
        let bucket = Memory::new();
        bucket.answers_in_ms.store(100, Ordering::Relaxed);
        let under_way = Arc::new(());
        for _ in 0..50 {
            let threads = Threads::new(bucket.clone());
            for _ in 0..100 {
                let one = under_way.clone();
                threads.give(1, Box::new(move || drop(one)));
            }
            threads.close();
            assert_eq!(Arc::strong_count(&under_way), 1, "what was given is done or dropped");
        }
    }
}
