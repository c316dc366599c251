//! Bytes from the source into a buffer: chunks segment by segment, small files in packs.

use crate::endpoint::{Source, SourceFile, is_direct_refused};
use crate::failure::{self, Failure, FailureKind, Result};
use std::io;
use std::sync::Arc;
use thalweg_wire::digest::{self, Rule, Tree};
use thalweg_wire::frame::{PACK_ITEM_BYTES, PackItem};
use thalweg_wire::message::{Run, Terms, VerifyLevel};
use thalweg_wire::{Digest, Entry, EntryId, Kind};

use super::ahead::{Ahead, Segments};
use super::{Accounts, Stage, Stopwatch};
use crate::link::FrameBuffer;

/// What a look at the next segment of a chunk found.
pub enum Segment {
    /// So many bytes, now in the buffer.
    Data(usize),
    /// So many zeros that the source keeps as a hole; nothing was read.
    Zeros(u64),
}

/// One chunk of one file, read segment by segment.
pub struct ChunkReader {
    /// The file.
    pub file: Arc<dyn SourceFile>,
    /// How its pieces are digested.
    pub rule: Rule,
    sparse: bool,
    is_whole_file: bool,
    at: u64,
    end: u64,
}

impl ChunkReader {
    /// Chunk `chunk` of `entry`, from `file`.
    pub fn new(file: Arc<dyn SourceFile>, entry: &Entry, chunk: u64, terms: &Terms) -> Self {
        let (sparse, marked) = match entry.kind {
            Kind::File { sparse, marked } => (sparse, marked),
            _ => (false, false),
        };
        let size = entry.evidence.size;
        let at = chunk * terms.chunk_bytes;
        let rule = Rule { file_bytes: size, segment_bytes: u64::from(terms.segment_bytes), marked };
        let is_whole_file = chunk == 0 && size <= terms.chunk_bytes;
        ChunkReader { file, rule, sparse, is_whole_file, at, end: size.min(at + terms.chunk_bytes) }
    }

    /// Its segments that are not read yet.
    pub fn segments(&self) -> Segments {
        Segments { at: self.at, end: self.end, bytes: self.rule.segment_bytes }
    }

    /// Gets ready to read all of the chunk. To be called before the turn for it is waited for.
    pub fn prepare(&self) {
        self.file.prepare(self.at, self.end.saturating_sub(self.at));
    }

    /// What the digests of all segments of the chunk join to.
    pub fn join(&self, segments: &[Digest]) -> Digest {
        digest::join(segments, self.is_whole_file)
    }

    /// Reads all of the chunk and digests it. `buffer` holds a segment.
    ///
    /// # Errors
    /// As [`ChunkReader::read`].
    pub fn digest(self, buffer: &mut [u8]) -> Result<Digest> {
        self.digest_while(buffer, &mut || Ok(()))
    }

    /// As [`ChunkReader::digest`]. `goes_on` is asked before each segment, and ends it by an error.
    ///
    /// # Errors
    /// As [`ChunkReader::read`], and those of `goes_on`.
    pub fn digest_while(
        mut self,
        buffer: &mut [u8],
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Digest> {
        let mut segments = Vec::new();
        while let Some(offset) = self.next_offset() {
            goes_on()?;
            let digest = match self.read(buffer)? {
                Segment::Data(bytes) => self.rule.segment(offset, &buffer[..bytes]),
                Segment::Zeros(bytes) => self.rule.zeros(offset, bytes),
            };
            segments.extend(digest);
        }
        Ok(self.join(&segments))
    }

    /// If the chunk lies in a marked hole: all whole chunks of that hole, from this one on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn marked_hole(&self, terms: &Terms) -> io::Result<Option<Run>> {
        if !self.rule.marked || self.end - self.at < terms.chunk_bytes {
            return Ok(None);
        }
        let data = self.file.next_data(self.at)?.unwrap_or(self.rule.file_bytes).min(self.rule.file_bytes);
        let count = data.saturating_sub(self.at) / terms.chunk_bytes;
        Ok((count > 0).then_some(Run { first: self.at / terms.chunk_bytes, count }))
    }

    /// Offset of the next segment; `None` after the last. A chunk of an empty file has one, empty.
    pub fn next_offset(&self) -> Option<u64> {
        (self.at < self.end || (self.at == 0 && self.rule.file_bytes == 0)).then_some(self.at)
    }

    /// As [`ChunkReader::read`], with what `ahead` has of it, and has the next segments read meanwhile.
    ///
    /// # Errors
    /// As [`ChunkReader::read`].
    pub fn read_ahead(&mut self, buffer: &mut FrameBuffer, ahead: &mut Ahead) -> Result<Segment> {
        let start = self.at;
        let want = (self.end - start).min(self.rule.segment_bytes);
        let place = |failure: Failure| failure.in_range(start, start + want);
        if self.sparse || want == 0 {
            return self.read(buffer.payload_mut());
        }
        let file = self.file.clone();
        ahead.begin(&*file, self.segments()).map_err(|e| place(failure::of_io("read", &e)))?;
        match ahead.take(start, want as usize, buffer) {
            // What direct I/O refuses is read as ever.
            Some(Err(error)) if is_direct_refused(&error) => self.read(buffer.payload_mut()),
            None => self.read(buffer.payload_mut()),
            Some(read) => {
                let got = read.map_err(|e| place(failure::of_io("read", &e)))?;
                self.at = start + want;
                // In the room that this one made.
                ahead.begin(&*file, self.segments()).map_err(|e| place(failure::of_io("read", &e)))?;
                match got < want as usize {
                    true => Err(place(became_shorter())),
                    false => Ok(Segment::Data(want as usize)),
                }
            }
        }
    }

    /// Reads the next segment into `buffer`.
    ///
    /// # Errors
    /// `Changed` if the file ends early; what the kernel says, with the range.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Segment> {
        let start = self.at;
        let want = (self.end - start).min(self.rule.segment_bytes);
        let place = |failure: Failure| failure.in_range(start, start + want);
        // An empty file's only segment must not be asked for twice.
        self.at = if want == 0 { u64::MAX } else { start + want };
        self.end = if want == 0 { 0 } else { self.end };
        if self.sparse && want > 0 {
            let data = self.file.next_data(start).map_err(|e| place(failure::of_io("read", &e)))?;
            if data.is_none_or(|data| data >= start + want) {
                return Ok(Segment::Zeros(want));
            }
        }
        let want = want as usize;
        let got =
            self.file.read_at(&mut buffer[..want], start).map_err(|e| place(failure::of_io("read", &e)))?;
        if got < want {
            return Err(place(became_shorter()));
        }
        Ok(Segment::Data(want))
    }
}

fn became_shorter() -> Failure {
    Failure::new(FailureKind::Changed, "read", "the file became shorter")
}

/// Reads a whole file again, from the medium where the system lets us, and digests it (`--verify paranoid`). That may
/// take as long as the copy did: `goes_on` is asked before each segment, and ends it by an error.
///
/// # Errors
/// As [`ChunkReader::read`], and those of `goes_on`.
pub(crate) fn digest_again(
    file: &Arc<dyn SourceFile>,
    entry: &Entry,
    terms: &Terms,
    buffer: &mut [u8],
    goes_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Option<Digest>> {
    let size = entry.evidence.size;
    file.forget_cached();
    let mut tree = Tree::new(size, terms.chunk_bytes);
    let mark = digest::hole_chunk_mark(terms.chunk_bytes, u64::from(terms.segment_bytes));
    let mut chunk = 0;
    while chunk < tree.chunks() {
        let reader = ChunkReader::new(file.clone(), entry, chunk, terms);
        let hole = reader.marked_hole(terms).map_err(|error| failure::of_io("read", &error))?;
        chunk += match hole {
            Some(run) => {
                tree.insert_marked_holes(run.first, run.count, mark);
                run.count
            }
            None => {
                tree.insert(chunk, reader.digest_while(buffer, goes_on)?);
                1
            }
        };
    }
    Ok(tree.root())
}

/// A pack in the making.
pub struct Pack {
    /// Bytes of the payload so far: contents, then (after [`Pack::close`]) the index.
    pub bytes: usize,
    items: Vec<PackItem>,
}

/// What became of the files that were to be packed.
#[derive(Default)]
pub struct Packed {
    /// Those in the pack.
    pub sent: Vec<EntryId>,
    /// Those whose source is not what was offered.
    pub changed: Vec<Arc<Entry>>,
    /// Those that could not be read.
    pub failed: Vec<(EntryId, Failure)>,
}

impl Pack {
    /// Reads and digests `entries` into `payload`. Each file is of one moment, or is not in the pack. `goes_on` hears
    /// of each before it is opened, which may take its time.
    pub fn read(
        entries: &[Arc<Entry>],
        source: &dyn Source,
        payload: &mut [u8],
        verify: VerifyLevel,
        accounts: &Accounts,
        goes_on: &dyn Fn(),
    ) -> (Pack, Packed) {
        let mut watch = Stopwatch::start(accounts);
        let mut pack = Pack { bytes: 0, items: Vec::with_capacity(entries.len()) };
        let mut packed = Packed::default();
        for entry in entries {
            goes_on();
            let size = entry.evidence.size as usize;
            let room = payload.len() - pack.bytes - (pack.items.len() + 1) * PACK_ITEM_BYTES;
            if size > room {
                // Cannot happen with packs as the sender makes them; if it does, the file is read alone.
                packed
                    .failed
                    .push((entry.id, Failure::new(FailureKind::Internal, "pack", "the pack is full")));
                continue;
            }
            let content = &mut payload[pack.bytes..pack.bytes + size];
            let read = source.read_small(entry, content).and_then(|_| match verify {
                VerifyLevel::Paranoid => compare_again(source, entry, content),
                _ => Ok(()),
            });
            match read {
                Ok(()) => {
                    watch.quick(Stage::Open, size as u64);
                    let digest = Digest(*blake3::hash(content).as_bytes());
                    watch.computed(Stage::Digest, size as u64);
                    pack.items.push(PackItem { entry: entry.id, bytes: size as u32, digest });
                    pack.bytes += size;
                    packed.sent.push(entry.id);
                }
                Err(failure) if failure.kind == FailureKind::Changed => packed.changed.push(entry.clone()),
                Err(failure) => packed.failed.push((entry.id, failure)),
            }
        }
        watch.close(Stage::Open);
        (pack, packed)
    }

    /// What was read of each file.
    pub fn digests(&self) -> impl Iterator<Item = (EntryId, Digest)> {
        self.items.iter().map(|item| (item.entry, item.digest))
    }

    /// Appends the index. Returns the length of the payload and the number of files.
    pub fn close(self, payload: &mut [u8]) -> (usize, u64) {
        let mut at = self.bytes;
        for item in &self.items {
            payload[at..at + PACK_ITEM_BYTES].copy_from_slice(&item.encode());
            at += PACK_ITEM_BYTES;
        }
        (at, self.items.len() as u64)
    }
}

fn compare_again(source: &dyn Source, entry: &Entry, content: &[u8]) -> Result<()> {
    source.open(entry)?.forget_cached();
    let mut again = vec![0; content.len()];
    source.read_small(entry, &mut again)?;
    if again == content { Ok(()) } else { Err(read_differently()) }
}

/// The failure of a source that gave other bytes the second time, without having changed.
pub(crate) fn read_differently() -> Failure {
    let cause = "read twice, it gave different bytes though it did not change: suspect its disk or this host's memory";
    Failure::new(FailureKind::Damage, "read again", cause)
}

/// Source files that are open, so that chunks of one file share one descriptor: the last few that this
/// stream read from.
#[derive(Default)]
pub struct OpenFiles {
    files: Vec<(EntryId, Arc<dyn SourceFile>)>,
}

/// Files that one stream keeps open.
const OPEN_MAX: usize = 8;

impl OpenFiles {
    /// The file of `entry`, opened if need be.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn get(&mut self, entry: &Entry, source: &dyn Source) -> Result<Arc<dyn SourceFile>> {
        if let Some(at) = self.files.iter().position(|(id, _)| *id == entry.id) {
            return Ok(self.files[at].1.clone());
        }
        let file = source.open(entry)?;
        if self.files.len() >= OPEN_MAX {
            self.files.remove(0);
        }
        self.files.push((entry.id, file.clone()));
        Ok(file)
    }

    /// The file is not needed any more.
    pub fn forget(&mut self, id: EntryId) {
        self.files.retain(|(other, _)| *other != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use thalweg_wire::{Evidence, RelativePath};

    const CHUNK: u64 = 64 << 10;

    /// Holes, but for the bytes of one chunk.
    struct Sparse {
        bytes: u64,
        data: u64,
        looks: AtomicU64,
        /// Where it was said that there will be reads, and of how many bytes.
        foretold: Mutex<Vec<(u64, u64)>>,
    }

    impl SourceFile for Sparse {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let is_data = (self.data..self.data + CHUNK).contains(&offset);
            buffer.fill(u8::from(is_data));
            Ok(self.bytes.saturating_sub(offset).min(buffer.len() as u64) as usize)
        }

        fn prepare(&self, offset: u64, bytes: u64) {
            self.foretold.lock().unwrap().push((offset, bytes));
        }

        fn evidence(&self) -> io::Result<Evidence> {
            Ok(Evidence { size: self.bytes, ..Evidence::default() })
        }

        fn next_data(&self, offset: u64) -> io::Result<Option<u64>> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            Ok((offset < self.data + CHUNK).then_some(offset.max(self.data)))
        }

        fn next_hole(&self, offset: u64) -> io::Result<u64> {
            Ok(if offset == self.data { offset + CHUNK } else { offset })
        }
    }

    fn sparse(bytes: u64, data: u64) -> (Arc<Sparse>, Entry) {
        let sparse = Sparse { bytes, data, looks: AtomicU64::new(0), foretold: Mutex::default() };
        let entry = Entry {
            id: EntryId(0),
            path: RelativePath::new(b"f".to_vec()).unwrap(),
            kind: Kind::File { sparse: true, marked: true },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: sparse.evidence().unwrap(),
            xattrs: Vec::new(),
        };
        (Arc::new(sparse), entry)
    }

    #[test]
    fn a_file_hears_of_the_bytes_of_a_chunk_that_are_there() {
        let (file, entry) = sparse(CHUNK + 100, 0);
        let terms = Terms::of(CHUNK, CHUNK as u32);
        for chunk in 0..2 {
            ChunkReader::new(file.clone(), &entry, chunk, &terms).prepare();
        }
        assert_eq!(*file.foretold.lock().unwrap(), [(0, CHUNK), (CHUNK, 100)]);
    }

    #[test]
    fn a_marked_hole_is_looked_at_once_however_many_chunks_it_has() {
        let bytes = 1 << 40;
        let data = (bytes / 2) / CHUNK * CHUNK;
        let (sparse, entry) = sparse(bytes, data);
        let terms = Terms::of(CHUNK, CHUNK as u32);
        let file: Arc<dyn SourceFile> = sparse.clone();
        let digest =
            digest_again(&file, &entry, &terms, &mut vec![0; CHUNK as usize], &mut || Ok(())).unwrap();
        let mut tree = Tree::new(bytes, CHUNK);
        let mark = digest::hole_chunk_mark(CHUNK, CHUNK);
        tree.insert(data / CHUNK, digest::of_piece(data, &vec![1; CHUNK as usize], bytes));
        tree.insert_marked_holes(0, bytes / CHUNK, mark);
        assert_eq!(digest, tree.root());
        assert!(digest.is_some());
        // Before the data, at them and in the segment, and behind them.
        assert!(sparse.looks.load(Ordering::Relaxed) <= 5, "{:?}", sparse.looks);
    }
}
