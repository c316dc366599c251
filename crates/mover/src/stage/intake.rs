//! What a receiving stream does with a frame that was opened: expand, verify, hand on to be written.
//!
//! A segment is compared with its digest before it is written, so that nothing unverified is ever in a
//! partial file where a record could name it. A chunk counts when all of its segments came, in order, on
//! this stream.

use crate::endpoint::together::{TOGETHER_MAX, Together};
use crate::endpoint::{ELSEWHERE_MAX, Small, SourceFile};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::link::FrameBuffer;
use crate::stage::compress::Unpacker;
use crate::stage::read::ChunkReader;
use crate::stage::receiving::{OpenPartial, Receiving, StagedFile};
use crate::stage::round::may_have;
use crate::stage::write::{Bytes, CopyNumber, Writes};
use crate::stage::{Clocks, Stage, Stopwatch};
use crate::transfer::Copy;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_wire::digest;
use thalweg_wire::frame::{Encoding, FrameKind, Inner, PACK_ITEM_BYTES, PackItem};
use thalweg_wire::{Digest, Entry, EntryId, Kind, limits};

/// The receiving stages of one stream for one transfer.
pub struct Intake {
    run: Arc<dyn Receiving>,
    lane: u32,
    /// Number of its own for every stream that ever was.
    writer: u64,
    unpacker: Option<Unpacker>,
    file: Option<OpenPartial>,
    chunk: Option<Chunk>,
    writes: Writes,
    together: Together,
    /// The file at the destination that was compared last, with its number among those for its entry.
    existing: Option<(EntryId, usize, Arc<dyn SourceFile>)>,
    /// A segment of it.
    scratch: Vec<u8>,
}

struct Chunk {
    entry: EntryId,
    number: u64,
    next_offset: u64,
    digests: Vec<Digest>,
    copy: CopyNumber,
}

impl Intake {
    /// For stream `lane`.
    pub fn new(run: Arc<dyn Receiving>, lane: u32) -> Self {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
        run.accounts().enter(Stage::Receive);
        Intake {
            writes: Writes::new(run.clone(), writer),
            together: Together::new(&run.terms().disk),
            run,
            lane,
            writer,
            unpacker: None,
            file: None,
            chunk: None,
            existing: None,
            scratch: Vec::new(),
        }
    }

    /// Takes one frame, whose payload is the first `payload` bytes of the buffer's; what it takes is booked since it
    /// `came`. The buffer may have other memory afterwards.
    ///
    /// # Errors
    /// `Protocol` for what no correct sender sends: the session ends. Damage and disk failures are no errors
    /// here, they are told to the transfer.
    pub fn take(
        &mut self,
        came: Clocks,
        inner: &Inner,
        buffer: &mut FrameBuffer,
        payload: usize,
    ) -> Result<()> {
        let run = self.run.clone();
        let mut watch = Stopwatch::start_at(run.accounts(), came);
        let raw = inner.raw_bytes as usize;
        // Before there is memory for it: what is compressed may claim to be more than any frame of this transfer.
        if raw > run.terms().segment_bytes as usize + limits::PACK_FILES_MAX * PACK_ITEM_BYTES {
            return Err(protocol("more in a frame than a segment has"));
        }
        // Taken out so that the expanded bytes may be borrowed while `self` is used; put back below.
        let mut unpacker = self.unpacker.take();
        let result = (|| {
            let mut bytes = match inner.encoding {
                Encoding::Raw => Bytes::Frame(buffer, payload),
                Encoding::Zstd => {
                    let unpacker = match &mut unpacker {
                        Some(unpacker) => unpacker,
                        none => none.insert(Unpacker::new().map_err(|e| failure::of_io("decompress", &e))?),
                    };
                    let expanded = unpacker.unpack(&buffer.payload_mut()[..payload], raw)?;
                    watch.lap(Stage::Expand, raw as u64);
                    Bytes::Expanded(expanded)
                }
            };
            match inner.kind {
                FrameKind::Segment | FrameKind::Zeros => self.segment(inner, bytes, &mut watch),
                FrameKind::Pack => self.pack(inner.entry.0, bytes.as_slice(), &mut watch),
                FrameKind::Compare => self.compare(inner, &mut watch),
                FrameKind::End => Ok(()),
            }
        })();
        self.unpacker = unpacker;
        result
    }

    fn segment(&mut self, inner: &Inner, mut payload: Bytes<'_>, watch: &mut Stopwatch) -> Result<()> {
        let Some(file) = self.open(inner.entry)? else {
            self.drop_chunk();
            return Ok(());
        };
        let chunk_bytes = self.run.terms().chunk_bytes;
        let bytes = u64::from(inner.raw_bytes);
        let is_zeros = inner.kind == FrameKind::Zeros;
        if is_zeros && !matches!(file.entry.kind, Kind::File { sparse, marked } if sparse || marked) {
            // They are not written.
            return Err(protocol("holes in a file that has none"));
        }
        let digest = if is_zeros {
            file.rule.zeros(inner.offset, bytes)
        } else {
            file.rule.segment(inner.offset, payload.as_slice())
        }
        .ok_or_else(|| protocol("a segment that the file does not have"))?;
        watch.computed(Stage::Verify, bytes);

        let number = inner.offset / chunk_bytes;
        let is_first = inner.offset.is_multiple_of(chunk_bytes);
        if is_first {
            self.drop_chunk();
            let copy = self.writes.begin(&file, number);
            let (entry, next_offset) = (inner.entry, inner.offset);
            self.chunk = Some(Chunk { entry, number, next_offset, digests: Vec::new(), copy });
        }
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        if chunk.entry != inner.entry || chunk.number != number || chunk.next_offset != inner.offset {
            // The rest of a chunk whose beginning was not wanted or came damaged.
            self.drop_chunk();
            return Ok(());
        }
        if digest != inner.digest {
            // First: what is asked for by this need not be asked for because its copy is given up.
            self.run.damaged(inner.entry, number);
            self.drop_chunk();
            return Ok(());
        }
        let copy = if inner.is_again { Copy::Again } else { Copy::First };
        let claimed = self.writes.claim(chunk.copy, is_first.then_some(copy));
        let is_taken = claimed
            && match is_zeros {
                true => self.writes.leave_zeros(chunk.copy, bytes, inner.offset),
                false => self.writes.write(chunk.copy, payload, inner.offset),
            };
        if !is_taken {
            self.drop_chunk();
            return Ok(());
        }
        watch.lap(Stage::Write, bytes);
        chunk.digests.push(digest);
        chunk.next_offset += bytes;
        let size = file.rule.file_bytes;
        let end = number * chunk_bytes + digest::chunk_length(number, size, chunk_bytes);
        if chunk.next_offset < end {
            self.writes.go_on(chunk.copy);
        } else {
            let is_whole_file = number == 0 && end == size;
            self.writes.complete(chunk.copy, digest::join(&chunk.digests, is_whole_file));
            self.chunk = None;
        }
        Ok(())
    }

    fn drop_chunk(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.writes.give_up(chunk.copy);
        }
    }

    /// Readable when something ended that [`Intake::notice`] should hear of; `None` while nothing is in flight.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.writes.fd()
    }

    /// Tells what has ended by now.
    pub fn notice(&mut self) {
        self.writes.notice();
    }

    /// Waits until nothing is in flight, and tells it. To be called before a wait for anything else that does not look
    /// at [`Intake::fd`].
    pub fn settle(&mut self) {
        self.writes.settle();
    }

    fn open(&mut self, id: EntryId) -> Result<Option<OpenPartial>> {
        if let Some(file) = self.file.as_ref().filter(|file| file.entry.id == id) {
            return Ok(Some(file.clone()));
        }
        self.file = self.run.open_partial(id)?;
        Ok(self.file.clone())
    }

    /// Compares a chunk of the file that stands there, or of those of other names, with what was read at the source.
    /// What cannot be read here differs.
    fn compare(&mut self, inner: &Inner, watch: &mut Stopwatch) -> Result<()> {
        let run = self.run.clone();
        let terms = run.terms();
        if !inner.offset.is_multiple_of(terms.chunk_bytes) {
            return Err(protocol("a comparison of a part of a chunk"));
        }
        let chunk = inner.offset / terms.chunk_bytes;
        let Some(entry) = run.compare_wanted(inner.entry, chunk)? else { return Ok(()) };
        let is_same = self.stands_there(&entry, chunk, inner.digest);
        // It stood here: nothing of it came.
        watch.lap(Stage::Read, digest::chunk_length(chunk, entry.evidence.size, terms.chunk_bytes));
        match is_same {
            true => run.chunk_same(entry.id, chunk, inner.digest),
            false => run.chunk_differs(entry.id, chunk),
        }
        Ok(())
    }

    /// Whether a file that may have the entry's content has this chunk of it: first the one that was asked last.
    fn stands_there(&mut self, entry: &Entry, chunk: u64, wanted: Digest) -> bool {
        let run = self.run.clone();
        let terms = run.terms();
        self.scratch.resize(terms.segment_bytes as usize, 0);
        let (last, mut held) = match self.existing.take() {
            Some((id, number, file)) if id == entry.id => (number, Some(file)),
            _ => (0, None),
        };
        let others = (0..ELSEWHERE_MAX).filter(|&number| number != last);
        for number in std::iter::once(last).chain(others) {
            let Some(file) = held.take().or_else(|| may_have(run.destination(), entry, number)?.ok()) else {
                continue;
            };
            let found = ChunkReader::new(file.clone(), entry, chunk, terms).digest(&mut self.scratch);
            self.existing = Some((entry.id, number, file));
            if found.is_ok_and(|found| found == wanted) {
                return true;
            }
        }
        false
    }

    fn pack(&mut self, files: u64, payload: &[u8], watch: &mut Stopwatch) -> Result<()> {
        let items = PackItem::read_all(payload, files).map_err(|e| protocol(&e.to_string()))?;
        let ids: Vec<EntryId> = items.iter().map(|(item, _)| item.entry).collect();
        let wanted = self.run.small_wanted(&ids)?;
        let mut staged = Vec::with_capacity(items.len());
        let mut batch = Vec::with_capacity(TOGETHER_MAX);
        for ((item, content), entry) in items.into_iter().zip(wanted) {
            let Some(entry) = entry else { continue };
            if u64::from(item.bytes) != entry.evidence.size {
                return Err(protocol("a packed file of another size than offered"));
            }
            let digest = Digest(*blake3::hash(content).as_bytes());
            watch.computed(Stage::Verify, content.len() as u64);
            if digest != item.digest {
                self.run.damaged(item.entry, 0);
                continue;
            }
            batch.push((entry, content, digest));
            if batch.len() == TOGETHER_MAX {
                self.stage(&mut batch, &mut staged, watch);
            }
        }
        self.stage(&mut batch, &mut staged, watch);
        self.run.files_staged(staged);
        watch.close(Stage::Create);
        Ok(())
    }

    /// Writes files that were verified, and forgets them.
    fn stage(
        &mut self,
        batch: &mut Vec<(Arc<Entry>, &[u8], Digest)>,
        staged: &mut Vec<StagedFile>,
        watch: &mut Stopwatch,
    ) {
        let files: Vec<_> = batch.iter().map(|(entry, content, _)| Small { entry, content }).collect();
        let bytes = files.iter().map(|file| file.content.len() as u64).sum();
        let results = self.run.destination().stage(self.lane, &files, &mut self.together);
        watch.quick_many(Stage::Create, bytes, batch.len() as u64);
        for ((entry, _, digest), result) in batch.drain(..).zip(results) {
            match result {
                Ok(file) => staged.push(StagedFile { entry, digest, staged: file }),
                Err(failure) => self.run.write_failed(entry.id, failure),
            }
        }
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.writes.settle();
        self.run.accounts().leave(Stage::Receive);
        self.run.writer_gone(self.writer);
    }
}

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "receive", what)
}
