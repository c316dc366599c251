//! Lines that wait for the reader of stdout in the place of whoever tells them.
//!
//! An event is told with the lock held that serves a link. A reader that pauses (a pager, a program that has something
//! else to do) would have the link wait with it, until the other side takes it for lost. So a line is only put here,
//! and one thread writes them all, in the order in which they came.
//!
//! Memory has a bound, and no line is lost:
//! - A state, such as progress, takes the place of the one before it that still waits.
//! - From [`BEHIND_BYTES`] on [`Later::is_behind`]: a copy then begins no more entries. What is in flight still ends,
//!   and is told.
//! - At [`BYTES_MAX`] for each copy, which takes more than that, who tells waits as for the reader itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use thalweg_mover::mutex::lock;

/// Some 16,000 entries with names of usual length.
const BEHIND_BYTES: usize = 4 << 20;
/// More than the lines of all entries that a copy has in flight with such names have.
const BYTES_MAX: usize = 64 << 20;

/// See the module.
pub(super) struct Later {
    waiting: Mutex<Waiting>,
    /// That are told of.
    copies: AtomicUsize,
    came: Condvar,
    went: Condvar,
}

struct Waiting {
    lines: VecDeque<Line>,
    /// Of all lines, and of the one that is being written.
    bytes: usize,
    is_writing: bool,
}

struct Line {
    text: String,
    /// Of which state it tells, if of any.
    state: Option<usize>,
}

impl Later {
    pub const fn new() -> Later {
        let waiting = Waiting { lines: VecDeque::new(), bytes: 0, is_writing: false };
        Later {
            waiting: Mutex::new(waiting),
            copies: AtomicUsize::new(1),
            came: Condvar::new(),
            went: Condvar::new(),
        }
    }

    /// So many copies, one at least, are told of: as much more may wait.
    pub fn tell_of(&self, copies: usize) {
        self.copies.store(copies.max(1), Ordering::Release);
    }

    /// Puts a line behind those that wait; the newest of a `state`, in the place of an older one.
    pub fn put(&self, text: String, state: Option<usize>) {
        let mut waiting = lock(&self.waiting);
        if state.is_some()
            && let Some(at) = waiting.lines.iter().position(|line| line.state == state)
            && let Some(older) = waiting.lines.remove(at)
        {
            waiting.bytes -= older.text.len();
        }
        let bytes_max = BYTES_MAX * self.copies.load(Ordering::Acquire);
        while waiting.bytes > 0 && waiting.bytes + text.len() > bytes_max {
            waiting = self.went.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        waiting.bytes += text.len();
        waiting.lines.push_back(Line { text, state });
        drop(waiting);
        self.came.notify_one();
    }

    /// Whether so much waits that less is to come.
    pub fn is_behind(&self) -> bool {
        lock(&self.waiting).bytes >= BEHIND_BYTES
    }

    /// Hands each line to `write`, in order, for as long as the process lives. For one thread.
    pub fn write(&self, write: impl Fn(&str)) {
        loop {
            let text = self.next();
            write(&text);
            let mut waiting = lock(&self.waiting);
            waiting.bytes -= text.len();
            waiting.is_writing = false;
            drop(waiting);
            self.went.notify_all();
        }
    }

    fn next(&self) -> String {
        let mut waiting = lock(&self.waiting);
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.is_writing = true;
                return line.text;
            }
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all of them are written: what is written otherwise comes behind them.
    pub fn drain(&self) {
        let waits = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        drop(self.went.wait_while(lock(&self.waiting), waits).unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Lines that are read one by one, each when the test asks for it, and none before.
    fn read() -> (&'static Later, mpsc::Receiver<String>) {
        let later: &'static Later = Box::leak(Box::new(Later::new()));
        let (tells, told) = mpsc::sync_channel(0);
        std::thread::spawn(move || {
            later.write(|text| {
                // The test may be over.
                let _ = tells.send(text.to_owned());
            });
        });
        (later, told)
    }

    fn wait_until_one_is_written(later: &Later) {
        while !lock(&later.waiting).is_writing {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_reader_that_pauses_holds_up_nobody_who_tells_and_gets_each_event_and_the_newest_state() {
        let (later, told) = read();
        later.put("begun".to_owned(), None);
        wait_until_one_is_written(later);
        for number in 0..1000 {
            later.put(format!("event {number}"), None);
            later.put(format!("progress {number}"), Some(1));
        }
        later.put("progress of another".to_owned(), Some(2));
        later.put("finished".to_owned(), None);
        let read: Vec<String> = told.iter().take(1004).collect();
        assert_eq!(read[0], "begun");
        assert!((0..1000).all(|number| read[number + 1] == format!("event {number}")), "{read:?}");
        assert_eq!(read[1001..], ["progress 999", "progress of another", "finished"]);
        later.drain();
        assert_eq!(lock(&later.waiting).bytes, 0);
    }

    #[test]
    fn who_makes_lines_hears_that_many_wait_and_when_they_are_read() {
        let (later, told) = read();
        let line = "x".repeat(BEHIND_BYTES / 4);
        (0..3).for_each(|_| later.put(line.clone(), None));
        assert!(!later.is_behind());
        later.put(line, None);
        assert!(later.is_behind(), "also what is being written is in memory");
        assert_eq!(told.iter().take(4).count(), 4);
        later.drain();
        assert!(!later.is_behind());
    }

    #[test]
    fn as_much_of_each_of_several_copies_may_wait_as_of_one() {
        let (later, told) = read();
        later.tell_of(2);
        let line = "x".repeat(BYTES_MAX / 2);
        // Nobody reads meanwhile.
        (0..4).for_each(|_| later.put(line.clone(), None));
        assert_eq!(lock(&later.waiting).bytes, 2 * BYTES_MAX);
        assert_eq!(told.iter().take(4).count(), 4);
    }

    #[test]
    fn at_the_bound_who_tells_waits_and_nothing_is_lost() {
        let (later, told) = read();
        let line = "x".repeat(BYTES_MAX / 2);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..4).for_each(|_| later.put(line.clone(), None)));
            for _ in 0..4 {
                let text = told.recv().unwrap();
                assert_eq!(text.len(), line.len());
                assert!(lock(&later.waiting).bytes <= BYTES_MAX);
            }
        });
        // One that is longer than all may be comes alone.
        std::thread::scope(|scope| {
            scope.spawn(|| later.put("x".repeat(BYTES_MAX + 1), None));
            assert_eq!(told.recv().unwrap().len(), BYTES_MAX + 1);
        });
    }
}
