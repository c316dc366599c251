//! By helper threads.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::Request;
use crate::socket::Wake;

/// Threads of one queue: as many writes as any disk here needed in flight (LIMITS section 3).
const THREADS_MAX: usize = 8;

pub(super) struct Threads {
    shared: Arc<Shared>,
    /// Started one by one, as they are needed.
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
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
        let mut threads =
            Threads { shared: Arc::new(shared), threads: Vec::new(), threads_max: depth.min(THREADS_MAX) };
        threads.start_one()?;
        Ok(threads)
    }

    pub(super) fn push(&mut self, request: Request) {
        let mut state = self.shared.lock();
        state.waiting.push_back(request);
        let is_short = state.idle < state.waiting.len();
        drop(state);
        self.shared.given.notify_one();
        if is_short && self.threads.len() < self.threads_max {
            // Without it those that are there do it, later.
            let _ = self.start_one();
        }
    }

    pub(super) fn take(&mut self, wait: bool) -> Option<(Request, io::Result<usize>)> {
        let mut state = self.shared.lock();
        while wait && state.done.is_empty() {
            state = self.shared.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let taken = state.done.pop_front();
        if state.done.is_empty() {
            // Lowered under the lock: who puts something in after this raises it again.
            let _ = self.shared.wake.drain();
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
                let _ = self.wake.wake();
                self.ended.notify_one();
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
