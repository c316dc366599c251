//! What goes past the page cache though it came compressed, and what goes through it after all.

use super::*;
use std::sync::atomic::AtomicBool;
use thalweg_sys::Buffer;

/// A file that notes whether direct I/O was refused.
struct Refusing {
    file: File,
    is_refused: AtomicBool,
}

impl PartialFile for Refusing {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn refuse_direct(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

#[test]
fn a_direct_write_that_is_refused_goes_through_the_page_cache_and_for_want_of_memory_only_that_one() {
    // EINVAL, ENOMEM and EIO.
    for (number, is_written, is_refused) in [(22, true, true), (12, true, false), (5, false, false)] {
        let (told, scratch) = (Told::new(Disk::default()), scratch(true));
        let directory = tempfile::tempdir().unwrap();
        let dir = Dir::open(directory.path()).unwrap();
        let file = dir.create_new(b"y", 0o600).unwrap();
        let partial = Arc::new(Refusing { file, is_refused: AtomicBool::new(false) });
        let open = OpenPartial { partial: partial.clone(), ..scratch.partial.clone() };
        let mut writes = Writes::new(told.clone(), 1);
        let copy = writes.begin(&open, 0);
        assert!(writes.claim(copy, Some(Copy::First)));
        writes.copies.get_mut(copy).unwrap().in_flight += 1;
        writes.complete(copy, Digest::default());
        let mut memory = Memory::Own(Buffer::new(SEGMENT).unwrap());
        memory[..SEGMENT].fill(9);
        let request = Request {
            operation: Operation::Write,
            file: Arc::new(dir.open_read(b"y").unwrap()),
            memory,
            start: 0,
            bytes: SEGMENT,
            offset: 0,
            tag: copy.0,
        };
        writes.ended(Done { request, result: Err(io::Error::from_raw_os_error(number)) });
        let mut read = vec![0; SEGMENT];
        let got = partial.file.read_at(&mut read, 0).unwrap();
        let is_there = got == SEGMENT && read.iter().all(|byte| *byte == 9);
        assert_eq!(is_there, is_written, "{number}");
        assert_eq!(partial.is_refused.load(Ordering::Relaxed), is_refused, "{number}");
        let heard = told.heard();
        assert_eq!(heard.iter().any(|what| what == "written 0"), is_written, "{number}: {heard:?}");
        assert_eq!(heard.iter().any(|what| what.starts_with("failed")), !is_written, "{number}: {heard:?}");
    }
}

#[test]
fn what_came_compressed_goes_past_the_page_cache_where_there_is_memory_for_it() {
    for disk in disks() {
        // Nothing can be written through the page cache.
        let (told, scratch) = (Told::new(disk), scratch_with(true, false));
        let mut writes = Writes::new(told.clone(), 1);
        let content = vec![9; SEGMENT];
        let copy = writes.begin(&scratch.partial, 0);
        assert!(writes.claim(copy, Some(Copy::First)));
        assert!(writes.write(copy, Bytes::Expanded(&content), 0));
        writes.complete(copy, Digest::default());
        writes.settle();
        assert_eq!(told.heard(), ["claim 0", "written 0"], "{disk:?}");
        let mut read = vec![0; SEGMENT];
        assert_eq!(scratch.reader.read_at(&mut read, 0).unwrap(), SEGMENT);
        assert!(read == content, "{disk:?}");
        // Others have it all.
        let all: Vec<_> = std::iter::from_fn(|| told.buffers.take(Duration::ZERO)).collect();
        assert_eq!(all.len(), 3, "{disk:?}");
        let copy = writes.begin(&scratch.partial, 1);
        assert!(writes.claim(copy, Some(Copy::First)));
        assert!(!writes.write(copy, Bytes::Expanded(&content), 4 * SEGMENT as u64), "{disk:?}");
        writes.give_up(copy);
    }
}
