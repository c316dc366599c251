//! Several threads for many waits.

use crate::mutex::lock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What `act` makes of each item, in their order, by so many threads at most, all of this name but the one that asks.
/// Where there are no more to be had, by that one.
pub fn at_once<T: Sync, R: Send>(
    name: &str,
    threads: usize,
    items: &[T],
    act: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.iter().map(act).collect();
    }
    let (next, made) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = act(item);
            lock(&made).push((at, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            let _ = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_unstable_by_key(|&(at, _)| at);
    made.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn what_is_done_by_several_threads_comes_in_order_and_at_the_same_time() {
        // Each waits for the other: one after the other they would wait for ever.
        let both = Barrier::new(2);
        let doubled = at_once("t", 2, &[3, 4], |number| {
            both.wait();
            number * 2
        });
        assert_eq!(doubled, [6, 8]);
        assert_eq!(at_once("t", 16, &[1, 2, 3], |number| number + 1), [2, 3, 4]);
        assert_eq!(at_once("t", 1, &[1], |number| number + 1), [2]);
        assert!(at_once("t", 16, &[], |number: &i32| *number).is_empty());
    }
}
