//! The bound of all buffers, in a process of its own: one test, so that no other runs beside it.

use std::io::ErrorKind;
use std::time::Duration;

use thalweg_sys::{Buffer, Pool, buffer};

#[test]
fn all_buffers_of_a_process_share_one_bound_and_what_is_not_needed_has_half_of_it() {
    let before = Buffer::new(1 << 20).unwrap();
    // Rounded up to a huge page.
    assert_eq!(buffer::taken(), 2 << 20);
    assert_eq!(buffer::allowed(), None);
    buffer::bound(8 << 20);
    assert_eq!(buffer::allowed(), Some(8 << 20));
    let mut held = vec![Buffer::spare(2 << 20).unwrap()];
    assert_eq!(Buffer::spare(4096).unwrap_err().kind(), ErrorKind::OutOfMemory);
    let pool = Pool::new(2 << 20, 100).unwrap();
    assert!(pool.take(Duration::ZERO).is_none(), "a pool is for what is not needed");
    held.extend((0..2).map(|_| Buffer::new(2 << 20).unwrap()));
    let error = Buffer::new(4096).unwrap_err();
    let why = "a buffer of 4096 bytes is needed, and of 8388608 bytes that are allowed (--memory) 8388608 are taken";
    assert_eq!(error.to_string(), why);
    assert_eq!((buffer::taken(), buffer::refused()), (8 << 20, 3));
    drop(held);
    assert_eq!(buffer::taken(), 2 << 20);
    assert!(pool.take(Duration::ZERO).is_some());
    drop((before, pool));
    assert_eq!(buffer::taken(), 0);
    // A size that cannot be leaves nothing behind.
    buffer::bound(usize::MAX);
    assert_eq!(Buffer::new(isize::MAX as usize - (4 << 20)).unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert_eq!(buffer::taken(), 0);
}
