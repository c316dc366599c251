//! What a receiving stream does with a frame that was opened: expand, verify, write.
//!
//! A segment is compared with its digest before it is written, so that nothing unverified is ever in a
//! partial file where a record could name it. A chunk counts when all of its segments came, in order, on
//! this stream.

use crate::endpoint::SourceFile;
use crate::failure::{self, Failure, FailureKind, Result};
use crate::stage::compress::Unpacker;
use crate::stage::read::ChunkReader;
use crate::stage::receiving::{OpenPartial, Receiving, StagedFile};
use crate::stage::{Stage, Stopwatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_wire::digest;
use thalweg_wire::frame::{Encoding, FrameKind, Inner, PackItem};
use thalweg_wire::{Digest, EntryId};

/// The receiving stages of one stream for one transfer.
pub struct Intake {
    run: Arc<dyn Receiving>,
    lane: u32,
    /// Number of its own for every stream that ever was.
    writer: u64,
    unpacker: Option<Unpacker>,
    file: Option<OpenPartial>,
    chunk: Option<Chunk>,
    /// The file at the destination that was compared last.
    existing: Option<(EntryId, Arc<dyn SourceFile>)>,
    /// A segment of it.
    scratch: Vec<u8>,
}

struct Chunk {
    entry: EntryId,
    number: u64,
    next_offset: u64,
    digests: Vec<Digest>,
}

impl Intake {
    /// For stream `lane`.
    pub fn new(run: Arc<dyn Receiving>, lane: u32) -> Self {
        static WRITERS: AtomicU64 = AtomicU64::new(0);
        let writer = WRITERS.fetch_add(1, Ordering::Relaxed);
        let scratch = Vec::new();
        run.accounts().enter(Stage::Receive);
        Intake { run, lane, writer, unpacker: None, file: None, chunk: None, existing: None, scratch }
    }

    /// Takes one frame.
    ///
    /// # Errors
    /// `Protocol` for what no correct sender sends: the session ends. Damage and disk failures are no errors
    /// here, they are told to the transfer.
    pub fn take(&mut self, inner: &Inner, payload: &[u8]) -> Result<()> {
        let run = self.run.clone();
        let mut watch = Stopwatch::start(run.accounts());
        let raw = inner.raw_bytes as usize;
        // Taken out so that the expanded bytes may be borrowed while `self` is used; put back below.
        let mut unpacker = self.unpacker.take();
        let result = (|| {
            let payload = match inner.encoding {
                Encoding::Raw => payload,
                Encoding::Zstd => {
                    let unpacker = match &mut unpacker {
                        Some(unpacker) => unpacker,
                        none => none.insert(Unpacker::new().map_err(|e| failure::of_io("expand", &e))?),
                    };
                    let expanded = unpacker.unpack(payload, raw)?;
                    watch.lap(Stage::Expand, raw as u64);
                    expanded
                }
            };
            match inner.kind {
                FrameKind::Segment | FrameKind::Zeros => self.segment(inner, payload, &mut watch),
                FrameKind::Pack => self.pack(inner.entry.0, payload, &mut watch),
                FrameKind::Compare => self.compare(inner, &mut watch),
                FrameKind::End => Ok(()),
            }
        })();
        self.unpacker = unpacker;
        result
    }

    fn segment(&mut self, inner: &Inner, payload: &[u8], watch: &mut Stopwatch) -> Result<()> {
        let Some(file) = self.open(inner.entry)? else {
            self.chunk = None;
            return Ok(());
        };
        let chunk_bytes = self.run.terms().chunk_bytes;
        let bytes = u64::from(inner.raw_bytes);
        let is_zeros = inner.kind == FrameKind::Zeros;
        let digest = if is_zeros {
            file.rule.zeros(inner.offset, bytes)
        } else {
            file.rule.segment(inner.offset, payload)
        }
        .ok_or_else(|| protocol("a segment that the file does not have"))?;
        watch.lap(Stage::Verify, bytes);

        let number = inner.offset / chunk_bytes;
        if inner.offset.is_multiple_of(chunk_bytes) {
            self.chunk =
                Some(Chunk { entry: inner.entry, number, next_offset: inner.offset, digests: Vec::new() });
        }
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        if chunk.entry != inner.entry || chunk.number != number || chunk.next_offset != inner.offset {
            // The rest of a chunk whose beginning was not wanted or came damaged.
            self.chunk = None;
            return Ok(());
        }
        if digest != inner.digest {
            self.chunk = None;
            self.run.damaged(inner.entry, number);
            return Ok(());
        }
        let is_first = inner.offset.is_multiple_of(chunk_bytes);
        if !self.run.claim_chunk(self.writer, inner.entry, number, is_first) {
            self.chunk = None;
            return Ok(());
        }
        if !is_zeros && let Err(error) = file.partial.write_at(payload, inner.offset) {
            let failure = failure::of_io("write", &error)
                .at(&file.entry.path)
                .in_range(inner.offset, inner.offset + bytes);
            self.chunk = None;
            self.run.segment_written(self.writer, inner.entry, number);
            self.run.write_failed(inner.entry, failure);
            return Ok(());
        }
        watch.lap(Stage::Write, bytes);
        chunk.digests.push(digest);
        chunk.next_offset += bytes;
        let size = file.rule.file_bytes;
        let end = number * chunk_bytes + digest::chunk_length(number, size, chunk_bytes);
        if chunk.next_offset >= end {
            let is_whole_file = number == 0 && end == size;
            let digest = digest::join(&chunk.digests, is_whole_file);
            self.chunk = None;
            self.run.chunk_written(inner.entry, number, digest);
        } else {
            self.run.segment_written(self.writer, inner.entry, number);
        }
        Ok(())
    }

    fn open(&mut self, id: EntryId) -> Result<Option<OpenPartial>> {
        if let Some(file) = self.file.as_ref().filter(|file| file.entry.id == id) {
            return Ok(Some(file.clone()));
        }
        self.file = self.run.open_partial(id)?;
        Ok(self.file.clone())
    }

    /// Compares a chunk of the file that stands there with what was read at the source. What cannot be read here
    /// differs.
    fn compare(&mut self, inner: &Inner, watch: &mut Stopwatch) -> Result<()> {
        let run = self.run.clone();
        let terms = run.terms();
        if !inner.offset.is_multiple_of(terms.chunk_bytes) {
            return Err(protocol("a comparison of a part of a chunk"));
        }
        let chunk = inner.offset / terms.chunk_bytes;
        let Some(entry) = run.compare_wanted(inner.entry, chunk)? else { return Ok(()) };
        let existing = match self.existing.take().filter(|(id, _)| *id == entry.id) {
            Some((_, file)) => Ok(file),
            None => run.destination().existing(&entry),
        };
        self.scratch.resize(terms.segment_bytes as usize, 0);
        let found = existing.and_then(|file| {
            let digest = ChunkReader::new(file.clone(), &entry, chunk, terms).digest(&mut self.scratch);
            self.existing = Some((entry.id, file));
            digest
        });
        watch.lap(Stage::Verify, digest::chunk_length(chunk, entry.evidence.size, terms.chunk_bytes));
        match found {
            Ok(found) if found == inner.digest => run.chunk_same(entry.id, chunk, found),
            _ => run.chunk_differs(entry.id, chunk),
        }
        Ok(())
    }

    fn pack(&mut self, files: u64, payload: &[u8], watch: &mut Stopwatch) -> Result<()> {
        let items = PackItem::read_all(payload, files).map_err(|e| protocol(&e.to_string()))?;
        let ids: Vec<EntryId> = items.iter().map(|(item, _)| item.entry).collect();
        let wanted = self.run.small_wanted(&ids)?;
        let mut staged = Vec::with_capacity(items.len());
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
            match self.run.destination().stage(self.lane, &entry, content) {
                Ok(file) => staged.push(StagedFile { entry, digest, staged: file }),
                Err(failure) => self.run.write_failed(entry.id, failure),
            }
            watch.quick(Stage::Create, content.len() as u64);
        }
        watch.close(Stage::Create);
        self.run.files_staged(staged);
        Ok(())
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        self.run.accounts().leave(Stage::Receive);
        self.run.writer_gone(self.writer);
    }
}

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "receive", what)
}
