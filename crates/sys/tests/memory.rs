//! Buffers and the bounded pool.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use thalweg_sys::{Buffer, Pool};

#[test]
fn a_buffer_is_aligned_zeroed_and_as_long_as_asked() {
    for bytes in [1, 4095, 4096, 5000, 1 << 20, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20] {
        let mut buffer = Buffer::new(bytes).unwrap();
        let align = if bytes >= 1 << 20 { 2 << 20 } else { 4096 };
        assert_eq!(buffer.as_ptr() as usize % align, 0, "{bytes}");
        assert_eq!(buffer.len(), bytes);
        assert!(buffer.iter().all(|&byte| byte == 0));
        buffer.fill(7);
        assert!(buffer.iter().all(|&byte| byte == 7));
        buffer.clear();
        assert_eq!((buffer[0], buffer[bytes - 1]), (0, 0));
    }
}

#[test]
fn a_size_that_cannot_be_is_an_error() {
    assert_eq!(Buffer::new(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(Buffer::new(usize::MAX).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(Buffer::new(isize::MAX as usize - (4 << 20)).unwrap_err().kind(), ErrorKind::OutOfMemory);
    for (bytes, count) in [(0, 1), (1, 0), (usize::MAX, 2), (1 << 40, 1 << 40)] {
        assert_eq!(Pool::new(bytes, count).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn a_buffer_says_its_size_and_never_its_content() {
    let mut buffer = Buffer::new(4096).unwrap();
    buffer.fill(b'S');
    assert_eq!(format!("{buffer:?}"), "Buffer { bytes: 4096 }");
}

#[test]
fn a_pool_gives_no_more_than_its_bound_and_waits_no_longer_than_told() {
    let pool = Pool::new(8192, 2).unwrap();
    assert_eq!((pool.allocated(), pool.in_use()), (0, 0));
    let (first, second) = (pool.take(Duration::ZERO).unwrap(), pool.take(Duration::ZERO).unwrap());
    assert_eq!((first.len(), second.len()), (8192, 8192));
    assert_eq!((pool.allocated(), pool.in_use()), (2, 2));
    let begun = Instant::now();
    assert!(pool.take(Duration::from_millis(60)).is_none());
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(60) && waited < Duration::from_secs(60), "{waited:?}");

    let address = first.as_ptr() as usize;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            drop(first);
        });
        let third = pool.take(Duration::MAX).unwrap();
        assert_eq!(third.as_ptr() as usize, address);
    });
    assert_eq!((pool.allocated(), pool.in_use()), (2, 1));
    // A buffer may outlive the pool's handles.
    drop(pool);
    assert_eq!(second[8191], 0);
}

#[test]
fn many_threads_share_a_few_buffers_and_none_is_given_twice() {
    const COUNT: usize = 3;
    let pool = Pool::new(4096, COUNT).unwrap();
    let held = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            let (pool, held) = (pool.clone(), &held);
            scope.spawn(move || {
                for _ in 0..2000 {
                    let mut buffer = pool.take(Duration::from_secs(300)).expect("starved");
                    assert!(held.fetch_add(1, Ordering::SeqCst) < COUNT);
                    buffer.fill(thread);
                    std::hint::black_box(&buffer);
                    assert!(buffer.iter().all(|&byte| byte == thread), "somebody else wrote here");
                    held.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((pool.allocated() <= COUNT, pool.in_use()), (true, 0));
    let all: Vec<_> = std::iter::from_fn(|| pool.take(Duration::ZERO)).collect();
    let places: HashSet<_> = all.iter().map(|buffer| buffer.as_ptr()).collect();
    assert_eq!((all.len(), places.len()), (COUNT, COUNT));
}
