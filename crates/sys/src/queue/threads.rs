//! By helper threads.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::Request;
use crate::socket::Wake;

/// Threads of one queue, if its depth asks for so many.
const THREADS_MAX: usize = 64;
/// So many each queue may have, whatever the others have: more writes in flight than the disks that were
/// measured needed (docs/measurements.md, disks).
const THREADS_OWN: usize = 8;
/// Beyond those a queue gets no more while all queues of the process have so many: a peer may ask for many streams,
/// each with a queue, each of great depth.
const THREADS_OF_ALL: usize = 512;

/// Of all queues of the process.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Whether a queue that has `own` threads may have one more, while all queues have `of_all`.
fn may_start(own: usize, depth: usize, of_all: usize) -> bool {
    own < depth.min(THREADS_MAX) && (own < THREADS_OWN || of_all < THREADS_OF_ALL)
}

pub(super) struct Threads {
    shared: Arc<Shared>,
    /// Started one by one, as they are needed.
    threads: Vec<JoinHandle<()>>,
    depth: usize,
}

struct Shared {
    state: Mutex<State>,
    /// Something is waiting, or it is over.
    given: Condvar,
    /// Something ended.
    ended: Condvar,
    /// Up while something that ended was not taken.
    wake: Wake,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Request>,
    /// Threads that wait for work.
    idle: usize,
    done: VecDeque<(Request, io::Result<usize>)>,
    /// The owner waits for something to end.
    is_awaited: bool,
    /// The flag is up.
    is_up: bool,
    is_over: bool,
}

impl Threads {
    pub(super) fn new(depth: usize) -> io::Result<Threads> {
        let shared = Shared {
            state: Mutex::default(),
            given: Condvar::new(),
            ended: Condvar::new(),
            wake: Wake::new()?,
        };
        let mut threads = Threads { shared: Arc::new(shared), threads: Vec::new(), depth };
        threads.start_one()?;
        Ok(threads)
    }

    pub(super) fn push(&mut self, request: Request) {
        let mut state = self.shared.lock();
        state.waiting.push_back(request);
        let (idle, is_short) = (state.idle, state.idle < state.waiting.len());
        drop(state);
        // A system call, also where nobody waits; those at work look before they wait.
        if idle > 0 {
            self.shared.given.notify_one();
        }
        if is_short && may_start(self.threads.len(), self.depth, COUNT.load(Ordering::Relaxed)) {
            // Without it those that are there do it, later.
            let _ = self.start_one();
        }
    }

    pub(super) fn take(&mut self, wait: bool) -> Option<(Request, io::Result<usize>)> {
        let mut state = self.shared.lock();
        while wait && state.done.is_empty() {
            state.is_awaited = true;
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.is_awaited = false;
        let taken = state.done.pop_front();
        if state.is_up && state.done.is_empty() {
            // Lowered under the lock: who puts something in after this raises it again.
            state.is_up = self.shared.wake.drain().is_err();
        }
        taken
    }

    /// Without waiting, and without lowering the flag.
    pub(super) fn take_known(&mut self) -> Option<(Request, io::Result<usize>)> {
        self.shared.lock().done.pop_front()
    }

    fn start_one(&mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("disk".into()).spawn(move || shared.work())?;
        self.threads.push(thread);
        COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl AsFd for Threads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }
}

/// What is in flight ends first.
impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.given.notify_all();
        COUNT.fetch_sub(self.threads.len(), Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Shared {
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(mut request) = state.waiting.pop_front() {
                drop(state);
                let answer = request.carry_out(0);
                state = self.lock();
                state.done.push_back((request, answer));
                if !state.is_up {
                    state.is_up = self.wake.wake().is_ok();
                }
                if state.is_awaited {
                    self.ended.notify_one();
                }
            } else if state.is_over {
                return;
            } else {
                state.idle += 1;
                state = self.given.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// No user code runs under the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Operation;
    use crate::socket::{Interest, poll};
    use crate::{Buffer, Dir, Memory};
    use std::time::Duration;

    #[test]
    fn a_queue_has_as_many_threads_as_its_depth_asks_for_within_its_bounds() {
        let most = |depth, of_others: usize| {
            (0..).find(|own| !may_start(*own, depth, of_others + own)).expect("a bound")
        };
        assert_eq!([1, 4, 16, 64, 256].map(|depth| most(depth, 0)), [1, 4, 16, 64, 64]);
        // However many the others have, there are those that a disk needs.
        assert_eq!([most(4, 10_000), most(64, 10_000)], [4, THREADS_OWN]);
        assert_eq!(most(64, THREADS_OF_ALL - 20), 20);
    }

    #[test]
    fn a_deep_queue_starts_more_than_the_usual_threads_and_they_end_with_it() {
        let mut threads = Threads::new(THREADS_MAX).unwrap();
        // As it is when the disk takes its time: nobody is idle.
        while may_start(threads.threads.len(), threads.depth, 0) {
            threads.start_one().unwrap();
        }
        assert_eq!(threads.threads.len(), THREADS_MAX);
        assert!(COUNT.load(Ordering::Relaxed) >= THREADS_MAX);
        drop(threads);
        assert!(COUNT.load(Ordering::Relaxed) < THREADS_MAX);
    }

    #[test]
    fn the_flag_is_up_while_something_that_ended_was_not_taken() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let file = Arc::new(Dir::open(scratch.path()).unwrap().create_new(b"file", 0o600).unwrap());
        let mut threads = Threads::new(2).unwrap();
        let push = |threads: &mut Threads| {
            let memory = Memory::Own(Buffer::new(4096).unwrap());
            let (operation, file) = (Operation::Write, file.clone());
            threads.push(Request { operation, file, memory, start: 0, bytes: 4096, offset: 0, tag: 0 });
        };
        let await_ended = |threads: &Threads, count| {
            while threads.shared.lock().done.len() < count {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let is_up = |threads: &Threads| {
            poll(&[(threads.as_fd(), Interest::READ)], Some(Duration::ZERO)).unwrap()[0].readable
        };
        (0..2).for_each(|_| push(&mut threads));
        await_ended(&threads, 2);
        assert!(is_up(&threads) && threads.take(false).is_some());
        assert!(is_up(&threads), "one was not taken");
        assert!(threads.take(true).is_some() && !is_up(&threads));
        push(&mut threads);
        await_ended(&threads, 1);
        assert!(threads.take_known().is_some(), "which leaves the flag alone");
        push(&mut threads);
        await_ended(&threads, 1);
        assert!(is_up(&threads) && threads.take(false).is_some());
        assert!(!is_up(&threads) && threads.take(false).is_none());
    }
}
