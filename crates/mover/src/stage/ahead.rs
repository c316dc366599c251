//! Reading ahead past the page cache: the next segments of a chunk, and the first ones of the chunk behind it, are on
//! their way while one is digested and sent.
//!
//! The page cache reads ahead by itself; past it nobody does, and one read at a time leaves a disk idle between two.
//! The memory of what is read is swapped with the frame's, so nothing is copied. All streams of a transfer share a
//! bound of it: how many they are, how deep they read and in which pieces the peer may say.

use crate::endpoint::SourceFile;
use crate::endpoint::together::{depth_of, queue_for};
use crate::link::{FrameBuffer, PAYLOAD_ALIGNMENT};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use thalweg_sys::queue::Operation;
use thalweg_sys::{Buffer, Done, Memory, Queue, Request};
use thalweg_wire::message::Disk;

/// Memory of what the streams of one transfer have read ahead, at most: 32 of them with the usual four reads of 1 MiB,
/// each on a huge page.
const AHEAD_BYTES_MAX: usize = 256 << 20;
/// Of the largest requests too a stream has as many under way as usual.
const AHEAD_MIN: usize = 4;

/// How many frames the streams of one transfer may still read ahead into, all together.
#[derive(Debug)]
pub struct Spare {
    left: AtomicUsize,
    /// With so many left nobody is short of them.
    plenty: usize,
    /// A stream found none left, and there was not plenty since.
    is_short: AtomicBool,
}

impl Spare {
    /// For frames with payloads of `payload_max`.
    pub fn new(payload_max: usize) -> Arc<Spare> {
        let frame_bytes = Buffer::memory_bytes(FrameBuffer::memory_bytes(payload_max));
        Spare::of((AHEAD_BYTES_MAX / frame_bytes).max(AHEAD_MIN))
    }

    fn of(frames: usize) -> Arc<Spare> {
        let (left, is_short) = (AtomicUsize::new(frames), AtomicBool::new(false));
        Arc::new(Spare { left, plenty: frames.div_ceil(2), is_short })
    }

    fn take(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        let is_taken = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok();
        if !is_taken {
            self.is_short.store(true, Ordering::Relaxed);
        }
        is_taken
    }

    /// Whether those that need theirs no more are to give it back. Else they keep it: pages are mapped and cleared each
    /// time that it is taken.
    fn is_short(&self) -> bool {
        if self.left.load(Ordering::Acquire) >= self.plenty {
            self.is_short.store(false, Ordering::Relaxed);
        }
        self.is_short.load(Ordering::Relaxed)
    }

    fn give_back(&self, frames: usize) {
        self.left.fetch_add(frames, Ordering::AcqRel);
    }
}

/// The reads of one stream. Memory: at most the depth of the queue in frames, and what the streams of its transfer have
/// left; taken when it is first needed. Where there is none, a segment is read when it is wanted.
pub struct Ahead {
    disk: Disk,
    queue: Option<Queue>,
    frame_bytes: usize,
    spare: Vec<Memory>,
    ended: Vec<Done>,
    left: Arc<Spare>,
    /// Frames that it has of these.
    taken: usize,
}

/// Segments that follow each other.
#[derive(Clone, Copy)]
pub struct Segments {
    /// Where the next one begins.
    pub at: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Bytes of each but the last.
    pub bytes: u64,
}

impl Ahead {
    /// Nothing under way; frames have room for payloads of `payload_max`. Of a stream that shares with nobody.
    pub fn new(disk: Disk, payload_max: usize) -> Ahead {
        let frame_bytes = FrameBuffer::memory_bytes(payload_max);
        let left = Spare::new(payload_max);
        Ahead { disk, queue: None, frame_bytes, spare: Vec::new(), ended: Vec::new(), left, taken: 0 }
    }

    /// The same, before anything is under way, sharing what is left with others for frames of its size.
    pub fn share(&mut self, left: &Arc<Spare>) {
        self.left = left.clone();
    }

    /// Begins to read `segments` of `file`, as many as may be under way: those that go past the page cache and are not
    /// under way yet. Where that has as many as may be under way, none behind those: each costs a look.
    pub fn begin(&mut self, file: &dyn SourceFile, segments: Segments) -> io::Result<()> {
        if !file.has_direct() {
            return Ok(());
        }
        if segments.end - segments.at.min(segments.end) <= segments.bytes && self.is_idle() {
            // A single one is read when it is wanted.
            return Ok(());
        }
        let (mut at, mut looks) = (segments.at, depth_of(&self.disk));
        while at < segments.end && looks > 0 {
            let want = segments.bytes.min(segments.end - at);
            if !self.knows(at) {
                if self.is_full() {
                    return Ok(());
                }
                let Some((direct, alignment)) = file.direct(at, want) else {
                    // It is read when it is wanted, from the page cache.
                    at += want;
                    looks -= 1;
                    continue;
                };
                let unit = alignment.offset as usize;
                let room = self.frame_bytes - PAYLOAD_ALIGNMENT;
                let bytes = (want as usize).next_multiple_of(unit);
                let fits = bytes <= room
                    && at.is_multiple_of(unit as u64)
                    && PAYLOAD_ALIGNMENT.is_multiple_of(alignment.memory as usize);
                if self.queue.is_none() {
                    self.queue = queue_for(&self.disk, depth_of(&self.disk));
                }
                let Some(queue) = self.queue.as_mut().filter(|_| fits) else { return Ok(()) };
                // Without memory it is read when it is wanted.
                let memory = match self.spare.pop() {
                    Some(memory) => memory,
                    None if !self.left.take() => return Ok(()),
                    None => match Buffer::spare(self.frame_bytes) {
                        Ok(buffer) => {
                            self.taken += 1;
                            Memory::Own(buffer)
                        }
                        Err(_) => {
                            self.left.give_back(1);
                            return Ok(());
                        }
                    },
                };
                let (operation, file, start) = (Operation::Read, direct, PAYLOAD_ALIGNMENT);
                let request = Request { operation, file, memory, start, bytes, offset: at, tag: at };
                queue.push(request).map_err(|(error, _)| error)?;
            }
            at += want;
        }
        Ok(())
    }

    /// The segment at `offset`, its bytes now in `buffer`; `None` if it was not begun. As [`SourceFile::read_at`]: at
    /// most `want` bytes, fewer at the end of the file.
    pub fn take(&mut self, offset: u64, want: usize, buffer: &mut FrameBuffer) -> Option<io::Result<usize>> {
        if !self.knows(offset) {
            return None;
        }
        let done = loop {
            if let Some(at) = self.ended.iter().position(|done| done.request.tag == offset) {
                break self.ended.swap_remove(at);
            }
            self.ended.push(self.queue.as_mut()?.take(true)?);
        };
        match done.result {
            Ok(read) => {
                self.spare.push(buffer.replace_memory(done.request.memory));
                Some(Ok(read.min(want)))
            }
            Err(error) => {
                self.spare.push(done.request.memory);
                Some(Err(error))
            }
        }
    }

    /// What is under way is not wanted any more. Waits for it.
    pub fn forget(&mut self) {
        while let Some(done) = self.queue.as_mut().and_then(|queue| queue.take(true)) {
            self.ended.push(done);
        }
        self.spare.extend(self.ended.drain(..).map(|done| done.request.memory));
        if self.left.is_short() {
            self.spare.clear();
            self.left.give_back(std::mem::take(&mut self.taken));
        }
    }

    /// Whether reads are under way, and another one may be: all that was to begin did.
    pub fn has_room(&self) -> bool {
        !self.is_idle() && !self.is_full()
    }

    /// Reads that were begun and not taken yet, at most the depth of the queue.
    pub fn under_way(&self) -> usize {
        self.ended.len() + self.queue.as_ref().map_or(0, Queue::in_flight)
    }

    fn is_idle(&self) -> bool {
        self.ended.is_empty() && self.queue.as_ref().is_none_or(|queue| queue.in_flight() == 0)
    }

    fn is_full(&self) -> bool {
        self.queue.as_ref().is_some_and(|queue| queue.in_flight() + self.ended.len() >= queue.depth())
    }

    fn knows(&self, offset: u64) -> bool {
        let is_it = |request: &Request| request.tag == offset;
        self.ended.iter().any(|done| is_it(&done.request))
            || self.queue.as_ref().is_some_and(|queue| queue.has(offset))
    }
}

/// What is under way is waited for by its queue.
impl Drop for Ahead {
    fn drop(&mut self) {
        self.left.give_back(self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_sys::{Dir, DirectAlignment, File};
    use thalweg_wire::Evidence;

    const SEGMENT: usize = 64 << 10;

    /// Read past the page cache, but for the segment at this offset.
    struct Direct(Arc<File>, Option<u64>);

    impl SourceFile for Direct {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn evidence(&self) -> io::Result<Evidence> {
            Ok(Evidence::default())
        }

        fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
            Ok(Some(offset))
        }

        fn next_hole(&self, offset: u64) -> io::Result<u64> {
            Ok(offset)
        }

        fn has_direct(&self) -> bool {
            true
        }

        fn direct(&self, offset: u64, _: u64) -> Option<(Arc<File>, DirectAlignment)> {
            let is_past = self.1 != Some(offset);
            is_past.then(|| (self.0.clone(), DirectAlignment { memory: 4096, offset: 4096 }))
        }
    }

    #[test]
    fn what_the_page_cache_has_is_left_to_be_read_from_there_and_what_follows_is_begun() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let content = vec![7; 4 * SEGMENT];
        dir.create_new(b"x", 0o600).unwrap().write_all_at(&content, 0).unwrap();
        let file = dir.open_read(b"x").unwrap();
        if file.set_direct(true).is_err() {
            eprintln!("skipped: no direct I/O here");
            return;
        }
        let file = Direct(Arc::new(file), Some(SEGMENT as u64));
        let mut ahead = Ahead::new(Disk { depth: Some(2), ..Disk::default() }, SEGMENT + 4096);
        let mut buffer = FrameBuffer::new(SEGMENT + 4096).unwrap();
        let segments = Segments { at: 0, end: 4 * SEGMENT as u64, bytes: SEGMENT as u64 };
        ahead.begin(&file, segments).unwrap();
        assert_eq!(ahead.under_way(), 2);
        let mut take = |number: usize| {
            ahead.take((number * SEGMENT) as u64, SEGMENT, &mut buffer).map(|read| read.unwrap())
        };
        // Two may be under way.
        assert_eq!([take(1), take(0), take(2), take(3)], [None, Some(SEGMENT), Some(SEGMENT), None]);
        assert_eq!(ahead.under_way(), 0);
    }

    #[test]
    fn streams_that_share_memory_read_ahead_into_no_more_than_that_and_who_is_idle_gives_it_back() {
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        dir.create_new(b"x", 0o600).unwrap().write_all_at(&[7; 4 * SEGMENT], 0).unwrap();
        let file = dir.open_read(b"x").unwrap();
        if file.set_direct(true).is_err() {
            eprintln!("skipped: no direct I/O here");
            return;
        }
        let file = Direct(Arc::new(file), None);
        let left = Spare::of(3);
        let new = || {
            let mut ahead = Ahead::new(Disk { depth: Some(2), ..Disk::default() }, SEGMENT + 4096);
            ahead.share(&left);
            ahead
        };
        let mut streams = [new(), new(), new()];
        let segments = Segments { at: 0, end: 4 * SEGMENT as u64, bytes: SEGMENT as u64 };
        let begin = |streams: &mut [Ahead; 3]| {
            streams.iter_mut().for_each(|ahead| ahead.begin(&file, segments).unwrap());
            streams.each_ref().map(Ahead::under_way)
        };
        assert_eq!(begin(&mut streams), [2, 1, 0]);
        // Each keeps what it has while it goes on.
        let mut buffer = FrameBuffer::new(SEGMENT + 4096).unwrap();
        assert_eq!(streams[1].take(0, SEGMENT, &mut buffer).unwrap().unwrap(), SEGMENT);
        assert_eq!(left.left.load(Ordering::Acquire), 0);
        streams[0].forget();
        assert_eq!(left.left.load(Ordering::Acquire), 2);
        // By now there is plenty: it keeps what it has.
        streams[1].forget();
        assert_eq!((streams[1].spare.len(), left.left.load(Ordering::Acquire)), (1, 2));
        streams[2].begin(&file, segments).unwrap();
        assert_eq!(streams[2].under_way(), 2);
        // And until somebody lacks some again.
        streams[1].forget();
        assert_eq!(streams[1].spare.len(), 1);
        streams[0].begin(&file, segments).unwrap();
        streams[1].forget();
        assert_eq!((streams[1].spare.len(), left.left.load(Ordering::Acquire)), (0, 1));
        drop(streams);
        assert_eq!(left.left.load(Ordering::Acquire), 3);
        // As many as 256 MiB have; of large ones a few all the same.
        let of = |payload_max| Spare::new(payload_max).left.load(Ordering::Acquire);
        assert_eq!((of(1 << 20), of(64 << 20), of(256 << 20)), (128, 4, 4));
    }

    #[test]
    fn segments_come_in_order_whole_or_short_and_what_is_broken_off_is_forgotten() {
        // The working directory usually has direct I/O.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let content: Vec<u8> = (0..6 * SEGMENT + 777).map(|at| (at / 1000) as u8).collect();
        dir.create_new(b"x", 0o600).unwrap().write_all_at(&content, 0).unwrap();
        let file = dir.open_read(b"x").unwrap();
        if file.set_direct(true).is_err() {
            eprintln!("skipped: no direct I/O here");
            return;
        }
        let file = Direct(Arc::new(file), None);
        for no_io_uring in [false, true] {
            let mut ahead =
                Ahead::new(Disk { depth: Some(3), no_io_uring, ..Disk::default() }, SEGMENT + 4096);
            let mut buffer = FrameBuffer::new(SEGMENT + 4096).unwrap();
            // It was longer once: the last segment is short, and one is beyond the end.
            for broken_off in [true, false] {
                let mut at = 0;
                while at < 8 * SEGMENT as u64 {
                    let segments = Segments { at, end: 8 * SEGMENT as u64, bytes: SEGMENT as u64 };
                    ahead.begin(&file, segments).unwrap();
                    let read = ahead.take(at, SEGMENT, &mut buffer).unwrap().unwrap();
                    let from = (at as usize).min(content.len());
                    let expected = &content[from..(at as usize + SEGMENT).min(content.len()).max(from)];
                    assert_eq!(&buffer.payload_mut()[..read], expected, "at {at}");
                    at += SEGMENT as u64;
                    if broken_off && at > 2 * SEGMENT as u64 {
                        break;
                    }
                }
                ahead.forget();
                assert!(ahead.is_idle() && ahead.spare.len() <= 4);
                assert!(ahead.take(at, SEGMENT, &mut buffer).is_none());
            }
        }
    }
}
