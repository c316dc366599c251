//! Reads and writes in flight: both engines do the same.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use thalweg_sys::queue::{Operation, io_uring_is_there};
use thalweg_sys::socket::{self, Interest};
use thalweg_sys::{Buffer, Dir, Engine, File, Memory, Queue, Request};

const PIECE: usize = 64 << 10;

/// Every engine that is to be had here.
fn engines() -> Vec<Engine> {
    match io_uring_is_there() {
        Ok(()) => vec![Engine::IoUring, Engine::Threads],
        Err(error) => {
            eprintln!("skipped in part: no io_uring here: {error}");
            vec![Engine::Threads]
        }
    }
}

fn memory(byte: u8) -> Memory {
    let mut buffer = Buffer::new(PIECE).unwrap();
    buffer.fill(byte);
    Memory::Own(buffer)
}

fn request(operation: Operation, file: &Arc<File>, memory: Memory, number: u64) -> Request {
    let offset = number * PIECE as u64;
    Request { operation, file: file.clone(), memory, start: 0, bytes: PIECE, offset, tag: number }
}

#[test]
fn what_was_written_in_flight_is_read_in_flight() {
    // The working directory usually has direct I/O.
    let scratch = tempfile::tempdir_in(".").unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    for engine in engines() {
        for direct in [false, true] {
            let name = format!("{engine:?}-{direct}");
            let file = dir.create_new(name.as_bytes(), 0o600).unwrap();
            if direct && (file.direct_alignment().unwrap().is_none() || file.set_direct(true).is_err()) {
                eprintln!("skipped in part: no direct I/O here");
                continue;
            }
            let file = Arc::new(file);
            let mut queue = Queue::new(engine, 3).unwrap();
            assert_eq!(queue.engine(), engine);
            let mut ended = Vec::new();
            for number in 0..20u64 {
                ended.extend(std::iter::from_fn(|| queue.take_known()));
                while queue.is_full() {
                    ended.push(queue.take(true).unwrap());
                }
                queue.push(request(Operation::Write, &file, memory(number as u8), number)).unwrap();
            }
            while let Some(done) = queue.take(true) {
                ended.push(done);
            }
            assert_eq!((queue.in_flight(), ended.len()), (0, 20));
            let mut tags: Vec<u64> = ended.iter().map(|done| done.request.tag).collect();
            tags.sort_unstable();
            assert_eq!(tags, (0..20).collect::<Vec<_>>());
            assert!(ended.iter().all(|done| *done.result.as_ref().unwrap() == PIECE));

            // The file now ends inside of the last piece.
            file.truncate(19 * PIECE as u64 + 100).unwrap();
            for number in 18..21 {
                queue.push(request(Operation::Read, &file, memory(0xff), number)).unwrap();
            }
            while let Some(done) = queue.take(true) {
                let number = done.request.tag;
                let read = done.result.unwrap();
                assert_eq!(read, [PIECE, 100, 0][number as usize - 18], "{name} piece {number}");
                assert!(done.request.memory[..read].iter().all(|&byte| byte == number as u8));
            }
        }
    }
}

#[test]
fn errors_come_back_with_their_request_and_its_memory() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    dir.create_new(b"x", 0o600).unwrap();
    let read_only = Arc::new(dir.open_read(b"x").unwrap());
    for engine in engines() {
        let mut queue = Queue::new(engine, 2).unwrap();
        queue.push(request(Operation::Write, &read_only, memory(7), 5)).unwrap();
        let done = queue.take(true).unwrap();
        assert!(done.result.is_err());
        assert_eq!((done.request.tag, done.request.memory[0]), (5, 7));

        let mut beyond = request(Operation::Read, &read_only, memory(0), 0);
        beyond.start = 1;
        let (error, beyond) = queue.push(beyond).unwrap_err();
        assert_eq!((error.kind(), beyond.memory.len()), (ErrorKind::InvalidInput, PIECE));
        for number in 0..2 {
            queue.push(request(Operation::Read, &read_only, memory(0), number)).unwrap();
        }
        let (error, _) = queue.push(request(Operation::Read, &read_only, memory(0), 2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(Queue::new(engine, 0).is_err());
        // Two are in flight: dropping waits for them.
    }
}

#[test]
fn a_thread_can_wait_for_the_end_of_a_request_and_for_others_at_once() {
    let scratch = tempfile::tempdir_in(".").unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    for engine in engines() {
        let file = dir.create_new(format!("{engine:?}").as_bytes(), 0o600).unwrap();
        // Under direct I/O the end comes later than the call.
        let _ = file.set_direct(true);
        let file = Arc::new(file);
        let mut queue = Queue::new(engine, 4).unwrap();
        for number in 0..50 {
            queue.push(request(Operation::Write, &file, memory(1), number)).unwrap();
            loop {
                let found = socket::poll(&[(queue.as_fd(), Interest::READ)], Some(Duration::from_secs(10)));
                assert!(found.unwrap()[0].readable, "{engine:?}: nobody says that piece {number} ended");
                if queue.take(false).is_some() {
                    break;
                }
            }
        }
        assert!(queue.take(false).is_none() && queue.take(true).is_none());
    }
}
