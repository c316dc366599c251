//! Writes in flight: a chunk counts when all of it is there, a failure names its place, one copy of a chunk at a time.

use super::*;
use crate::endpoint::synthetic::NullDestination;
use crate::endpoint::{Conclusion, Destination, PartialFile, Ready, Staged};
use crate::failure::{Failure, FailureKind, Result, to_io};
use crate::stage::intake::Intake;
use crate::stage::read_back::{Found, of_chunks, read_back};
use crate::stage::receiving::StagedFile;
use crate::stage::round::{self, Job};
use crate::stage::{Accounts, Clocks};
use crate::transfer::receiver::{Finished, RoundResult, RoundStep};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use thalweg_sys::{Dir, Pool};
use thalweg_wire::digest::Rule;
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::{Disk, Terms, TransferNumber};
use thalweg_wire::{Entry, EntryId, Evidence, Kind, RelativePath, digest};

mod past_cache;

const SEGMENT: usize = 64 << 10;

/// Writes down what it is told.
struct Told {
    terms: Terms,
    accounts: Accounts,
    destination: NullDestination,
    buffers: Pool,
    gate: Option<Gate>,
    heard: Mutex<Vec<String>>,
    /// Of every entry.
    partial: Mutex<Option<OpenPartial>>,
}

impl Told {
    fn new(disk: Disk) -> Arc<Told> {
        Arc::new(Told {
            terms: Terms { disk, ..Terms::of(4 * SEGMENT as u64, SEGMENT as u32) },
            accounts: Accounts::default(),
            destination: NullDestination::default(),
            buffers: Pool::new(FrameBuffer::memory_bytes(SEGMENT), 3).unwrap(),
            gate: disk.destination.order.and_then(Gate::of),
            heard: Mutex::default(),
            partial: Mutex::default(),
        })
    }

    fn note(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

impl Receiving for Told {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    fn destination(&self) -> &dyn Destination {
        &self.destination
    }

    fn is_given_up(&self) -> bool {
        false
    }

    fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    fn buffers(&self) -> &Pool {
        &self.buffers
    }

    fn claim_chunk(&self, _: u64, _: EntryId, chunk: u64, _: Option<Copy>, _: &mut dyn FnMut()) -> bool {
        self.note(format!("claim {chunk}"));
        true
    }

    fn segment_written(&self, _: u64, _: EntryId, chunk: u64) {
        self.note(format!("rests {chunk}"));
    }

    fn copy_given_up(&self, _: u64, _: EntryId, chunk: u64) {
        self.note(format!("given up {chunk}"));
    }

    fn chunk_written(&self, _: EntryId, chunk: u64, _: Digest) {
        self.note(format!("written {chunk}"));
    }

    fn write_failed(&self, _: EntryId, failure: Failure) {
        self.note(format!("failed {:?} {:?}", failure.path.map(|path| path.to_string()), failure.range));
    }

    fn open_partial(&self, _: EntryId) -> Result<Option<OpenPartial>> {
        Ok(self.partial.lock().unwrap().clone())
    }

    fn small_wanted(&self, _: &[EntryId]) -> Result<Vec<Option<Arc<Entry>>>> {
        Ok(Vec::new())
    }

    fn files_staged(&self, _: Vec<StagedFile>) {}

    fn damaged(&self, _: EntryId, chunk: u64) {
        self.note(format!("damaged {chunk}"));
    }

    fn lost(&self, _: EntryId, chunk: u64) {
        self.note(format!("lost {chunk}"));
    }

    fn compare_wanted(&self, _: EntryId, _: u64) -> Result<Option<Arc<Entry>>> {
        Ok(None)
    }

    fn chunk_same(&self, _: EntryId, _: u64, _: Digest) {}

    fn chunk_differs(&self, _: EntryId, _: u64) {}

    fn is_copy_wanted(&self, _: EntryId, _: u64) -> bool {
        true
    }

    fn copied(&self, _: EntryId, _: u64, _: bool) {}

    fn is_undecided(&self, _: EntryId) -> bool {
        true
    }

    fn holes_compared(&self, _: EntryId, _: bool) {}

    fn writer_gone(&self, _: u64) {}

    fn partial(&self, _: EntryId) -> Option<OpenPartial> {
        self.partial.lock().unwrap().clone()
    }

    fn staged(&self, _: EntryId) -> Option<(Arc<Entry>, Staged)> {
        self.note(format!("staged, one of {}", self.accounts.threads(Stage::ReadBack)));
        None
    }

    fn entry(&self, _: EntryId) -> Option<Arc<Entry>> {
        None
    }

    fn begin_if_hole(&self, _: EntryId, _: Digest) -> Result<()> {
        Ok(())
    }

    fn is_worth_waiting(&self, _: EntryId) -> bool {
        false
    }

    fn take_content(&self, _: EntryId) -> Option<Ready> {
        None
    }

    fn round_done(&self, result: RoundResult) {
        self.note(format!("{result:?}"));
    }

    fn finished(&self, _: Finished) {}

    fn noted(&self, _: usize) {}

    fn concludes(&self) -> bool {
        true
    }

    fn concluded(&self, _: Conclusion) {}
}

/// A file whose blocks go through a descriptor of its own, past the page cache or not.
struct Partial {
    file: File,
    past: Arc<File>,
}

impl PartialFile for Partial {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn direct(&self) -> Option<(Arc<File>, DirectAlignment)> {
        Some((self.past.clone(), DirectAlignment { memory: 512, offset: 512 }))
    }

    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

struct Scratch {
    _directory: tempfile::TempDir,
    partial: OpenPartial,
    reader: File,
}

/// An open partial; its second descriptor may write or not.
fn scratch(may_write: bool) -> Scratch {
    scratch_with(may_write, true)
}

/// An open partial; its descriptors past the page cache and through it may write or not.
fn scratch_with(may_write: bool, may_write_cached: bool) -> Scratch {
    let directory = tempfile::tempdir().unwrap();
    let dir = Dir::open(directory.path()).unwrap();
    let created = dir.create_new(b"x", 0o600).unwrap();
    let file = if may_write_cached { created } else { dir.open_read(b"x").unwrap() };
    let past = if may_write { dir.open_read_write(b"x") } else { dir.open_read(b"x") };
    let entry = Arc::new(Entry {
        id: EntryId(1),
        path: RelativePath::new(b"dir/x".to_vec()).unwrap(),
        kind: Kind::File { sparse: false, marked: false },
        mode: 0o644,
        uid: 0,
        gid: 0,
        evidence: Evidence { size: 1 << 20, ..Evidence::default() },
        xattrs: Vec::new(),
    });
    let rule = Rule { file_bytes: 1 << 20, segment_bytes: SEGMENT as u64, marked: false };
    let partial =
        OpenPartial { entry, partial: Arc::new(Partial { file, past: Arc::new(past.unwrap()) }), rule };
    Scratch { _directory: directory, partial, reader: dir.open_read(b"x").unwrap() }
}

fn disks() -> [Disk; 2] {
    [
        Disk { depth: Some(2), ..Disk::default() },
        Disk { depth: Some(2), no_io_uring: true, ..Disk::default() },
    ]
}

#[test]
fn a_chunk_is_written_when_all_of_its_writes_ended_whatever_the_length() {
    for disk in disks() {
        let (told, scratch) = (Told::new(disk), scratch(true));
        told.accounts.enter(Stage::Write);
        let mut writes = Writes::new(told.clone(), 1);
        let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
        for chunk in 0..3u64 {
            let copy = writes.begin(&scratch.partial, chunk);
            for segment in 0..4u64 {
                assert!(writes.claim(copy, (segment == 0).then_some(Copy::First)));
                // The last one fills no block.
                let length = if segment == 3 { SEGMENT - 700 } else { SEGMENT };
                buffer.payload_mut()[..length].fill((1 + chunk * 4 + segment) as u8);
                let offset = (chunk * 4 + segment) * SEGMENT as u64;
                assert!(writes.write(copy, Bytes::Frame(&mut buffer, length), offset));
                match segment {
                    3 => writes.complete(copy, Digest::default()),
                    _ => writes.go_on(copy),
                }
            }
        }
        drop(writes);
        let rows = told.accounts.rows();
        let row = rows.iter().find(|row| row.stage == Stage::Write as u8).unwrap();
        assert!(row.queue == 0 && (1..=2).contains(&row.queue_max), "{disk:?}: {row:?}");
        let heard = told.heard();
        for chunk in 0..3 {
            let written: Vec<usize> = heard
                .iter()
                .enumerate()
                .filter(|(_, w)| **w == format!("written {chunk}"))
                .map(|(at, _)| at)
                .collect();
            let claims = heard.iter().rposition(|what| *what == format!("claim {chunk}"));
            assert!(written.len() == 1 && Some(written[0]) > claims, "{heard:?}");
        }
        let mut read = vec![0; 12 * SEGMENT];
        assert_eq!(scratch.reader.read_at(&mut read, 0).unwrap(), 12 * SEGMENT - 700);
        for (segment, bytes) in read.chunks(SEGMENT).enumerate() {
            let length = if segment % 4 == 3 { SEGMENT - 700 } else { SEGMENT };
            assert!(bytes[..length].iter().all(|&byte| byte == segment as u8 + 1), "{disk:?} {segment}");
        }
    }
}

#[test]
fn a_write_that_fails_in_flight_names_path_and_range_and_the_chunk_never_counts() {
    for disk in disks() {
        let (told, scratch) = (Told::new(disk), scratch(false));
        let mut writes = Writes::new(told.clone(), 1);
        let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
        let copy = writes.begin(&scratch.partial, 0);
        for segment in 0..4 {
            if !writes.claim(copy, (segment == 0).then_some(Copy::First))
                || !writes.write(copy, Bytes::Frame(&mut buffer, SEGMENT), segment * SEGMENT as u64)
            {
                writes.give_up(copy);
                break;
            }
            match segment {
                3 => writes.complete(copy, Digest::default()),
                _ => writes.go_on(copy),
            }
        }
        writes.settle();
        assert!(writes.copies.0.is_empty() && writes.fd().is_none());
        let heard = told.heard();
        let failures: Vec<&String> = heard.iter().filter(|what| what.starts_with("failed")).collect();
        // One of those in flight, of which any may end first.
        let of = |start| format!("failed Some(\"dir/x\") Some(({start}, {}))", start + SEGMENT);
        assert!(failures == [&of(0)] || failures == [&of(SEGMENT)], "{disk:?} {heard:?}");
        assert!(!heard.iter().any(|what| what.starts_with("written")), "{heard:?}");
        // Whoever waits for the chunk may have it.
        assert_eq!(heard.last().map(String::as_str), Some("given up 0"));
    }
}

#[test]
fn a_copy_given_up_has_ended_before_the_next_one_of_its_chunk_begins() {
    for disk in disks() {
        let (told, scratch) = (Told::new(disk), scratch(true));
        let mut writes = Writes::new(told.clone(), 1);
        let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
        for byte in [1, 2] {
            let copy = writes.begin(&scratch.partial, 0);
            assert!(writes.copies.0.len() == 1, "the first is still under way");
            assert!(writes.claim(copy, Some(Copy::First)));
            buffer.payload_mut().fill(byte);
            assert!(writes.write(copy, Bytes::Frame(&mut buffer, SEGMENT), 0));
            writes.give_up(copy);
        }
        drop(writes);
        assert_eq!(told.heard(), ["claim 0", "given up 0", "claim 0", "given up 0"]);
        let mut read = vec![0; SEGMENT];
        scratch.reader.read_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|&byte| byte == 2));
    }
}

#[test]
fn without_memory_to_give_a_stream_writes_past_the_page_cache_all_the_same_and_waits() {
    let (told, scratch) = (Told::new(Disk::default()), scratch_with(true, false));
    let all: Vec<_> = std::iter::from_fn(|| told.buffers.take(Duration::ZERO)).collect();
    assert_eq!(all.len(), 3);
    let mut writes = Writes::new(told.clone(), 1);
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    buffer.payload_mut().fill(9);
    let copy = writes.begin(&scratch.partial, 0);
    assert!(writes.claim(copy, Some(Copy::First)));
    assert!(writes.write(copy, Bytes::Frame(&mut buffer, SEGMENT), 0));
    writes.complete(copy, Digest::default());
    assert_eq!(told.heard(), ["claim 0", "written 0"]);
    let mut read = vec![0; SEGMENT];
    assert_eq!(scratch.reader.read_at(&mut read, 0).unwrap(), SEGMENT);
    assert!(read.iter().all(|&byte| byte == 9));
}

#[test]
fn a_direct_write_that_is_waited_for_and_fails_names_path_and_range() {
    let (told, scratch) = (Told::new(Disk::default()), scratch(false));
    let _all: Vec<_> = std::iter::from_fn(|| told.buffers.take(Duration::ZERO)).collect();
    let mut writes = Writes::new(told.clone(), 1);
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    let copy = writes.begin(&scratch.partial, 0);
    assert!(writes.claim(copy, Some(Copy::First)));
    assert!(!writes.write(copy, Bytes::Frame(&mut buffer, SEGMENT), 0));
    writes.give_up(copy);
    let failed = format!("failed Some(\"dir/x\") Some((0, {SEGMENT}))");
    assert_eq!(told.heard(), ["claim 0", failed.as_str(), "given up 0"]);
}

fn frame(kind: FrameKind, encoding: Encoding, raw_bytes: usize) -> Inner {
    let (entry, transfer) = (EntryId(1), TransferNumber(0));
    let raw_bytes = raw_bytes as u32;
    Inner {
        kind,
        encoding,
        transfer,
        raw_bytes,
        entry,
        offset: 0,
        digest: Digest::default(),
        is_again: false,
    }
}

#[test]
fn what_would_expand_to_more_than_a_segment_is_refused_before_it_does() {
    let mut intake = Intake::new(Told::new(Disk::default()), 0);
    let packed = zstd::bulk::compress(&vec![0; 16 << 20], 1).unwrap();
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    buffer.payload_mut()[..packed.len()].copy_from_slice(&packed);
    let bomb = frame(FrameKind::Segment, Encoding::Zstd, 16 << 20);
    let failure = intake.take(Clocks::read(), &bomb, &mut buffer, packed.len()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol);
}

#[test]
fn zeros_that_nobody_would_write_are_refused_of_a_file_without_holes() {
    let (told, scratch) = (Told::new(Disk::default()), scratch(true));
    *told.partial.lock().unwrap() = Some(scratch.partial.clone());
    let mut intake = Intake::new(told, 0);
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    let zeros = frame(FrameKind::Zeros, Encoding::Raw, SEGMENT);
    let failure = intake.take(Clocks::read(), &zeros, &mut buffer, 0).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Protocol);
}

/// A partial that is told of its holes, and that somebody else checks: its first chunk is sound, and no other.
#[derive(Default)]
struct Hears(Mutex<Vec<(u64, u64)>>);

impl PartialFile for Hears {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn leave_zeros(&self, bytes: u64, offset: u64) -> io::Result<()> {
        self.0.lock().unwrap().push((offset, bytes));
        Ok(())
    }

    fn is_checked(&self, chunk: u64) -> Option<bool> {
        Some(chunk == 0)
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn who_gathers_a_chunk_hears_of_the_zeros_that_are_not_written() {
    let (told, scratch, hears) = (Told::new(Disk::default()), scratch(true), Arc::new(Hears::default()));
    let entry =
        Entry { kind: Kind::File { sparse: true, marked: false }, ..(*scratch.partial.entry).clone() };
    let partial: Arc<dyn PartialFile> = hears.clone();
    *told.partial.lock().unwrap() = Some(OpenPartial { entry: Arc::new(entry), partial, ..scratch.partial });
    let mut intake = Intake::new(told, 0);
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    let rule = Rule { file_bytes: 1 << 20, segment_bytes: SEGMENT as u64, marked: false };
    let digest = rule.zeros(0, SEGMENT as u64).unwrap();
    let zeros = Inner { digest, ..frame(FrameKind::Zeros, Encoding::Raw, SEGMENT) };
    intake.take(Clocks::read(), &zeros, &mut buffer, 0).unwrap();
    assert_eq!(*hears.0.lock().unwrap(), [(0, SEGMENT as u64)]);
}

/// A partial that writes down what it hears: what, where, how many bytes.
#[derive(Default)]
struct Foretold(Mutex<Vec<(&'static str, u64, u64)>>);

impl PartialFile for Foretold {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.lock().unwrap().push(("write", offset, bytes.len() as u64));
        Ok(())
    }

    fn prepare(&self, offset: u64, bytes: u64) {
        self.0.lock().unwrap().push(("prepare", offset, bytes));
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn who_is_written_to_hears_of_each_write_before_it_comes() {
    let (told, scratch, foretold) =
        (Told::new(Disk::default()), scratch(true), Arc::new(Foretold::default()));
    let partial = OpenPartial { partial: foretold.clone(), ..scratch.partial };
    let mut writes = Writes::new(told.clone(), 1);
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    let copy = writes.begin(&partial, 0);
    let bytes = SEGMENT as u64;
    for (offset, begins) in [(0, Some(Copy::First)), (bytes, None)] {
        assert!(writes.claim(copy, begins));
        assert!(writes.write(copy, Bytes::Frame(&mut buffer, SEGMENT), offset));
        writes.go_on(copy);
    }
    let each =
        [("prepare", 0, bytes), ("write", 0, bytes), ("prepare", bytes, bytes), ("write", bytes, bytes)];
    assert_eq!(*foretold.0.lock().unwrap(), each);
}

/// A partial that has lost what came of a chunk before.
struct Forgets;

impl PartialFile for Forgets {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(to_io(Failure::new(FailureKind::Damage, "write", "it is lost")))
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_chunk_that_the_destination_lost_is_asked_for_again_and_costs_neither_the_file_nor_the_transfer() {
    let (told, scratch) = (Told::new(Disk::default()), scratch(true));
    let partial = OpenPartial { partial: Arc::new(Forgets), ..scratch.partial };
    let mut writes = Writes::new(told.clone(), 1);
    let mut buffer = FrameBuffer::new(SEGMENT).unwrap();
    let copy = writes.begin(&partial, 2);
    assert!(writes.claim(copy, Some(Copy::First)));
    assert!(!writes.write(copy, Bytes::Frame(&mut buffer, SEGMENT), 9 * SEGMENT as u64));
    writes.give_up(copy);
    assert_eq!(told.heard(), ["claim 2", "lost 2", "given up 2"]);
}

#[test]
fn a_chunk_that_its_keeper_checked_is_not_read_back() {
    let (told, scratch) = (Told::new(Disk::default()), scratch(true));
    let partial = Arc::new(Hears::default());
    *told.partial.lock().unwrap() = Some(OpenPartial { partial, ..scratch.partial });
    let (jobs, queue) = mpsc::channel();
    let chunks = vec![(EntryId(1), vec![(0, Digest::default()), (1, Digest::default())])];
    jobs.send(Job::Step(RoundStep::ReadBack { chunks, files: Vec::new() })).unwrap();
    jobs.send(Job::Stop).unwrap();
    round::work(&*told, &queue, Stage::Sync);
    assert_eq!(told.heard(), ["Damaged([(EntryId(1), 1)])"]);
}

/// It is done by the one thread that makes things durable: as work of streams it would seem a fraction of what it is.
#[test]
fn what_is_copied_from_what_stands_there_is_no_time_of_streams() {
    let (told, scratch) = (Told::new(Disk::default()), scratch(true));
    let (jobs, queue) = mpsc::channel();
    jobs.send(Job::Copy(scratch.partial.entry.clone(), 0, Digest::default())).unwrap();
    jobs.send(Job::Stop).unwrap();
    round::work(&*told, &queue, Stage::Sync);
    let rows = told.accounts.rows();
    let busy = |stage: Stage| rows.iter().any(|row| row.stage == stage as u8 && row.busy_nanos > 0);
    assert_eq!([Stage::Copy, Stage::Read, Stage::Write].map(busy), [true, false, false]);
}

/// A partial that is read back by requests in flight, and by others if so.
struct Kept {
    file: Arc<File>,
    is_read_alone: bool,
}

impl PartialFile for Kept {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.is_read_alone {
            true => self.file.read_at(buffer, offset),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn to_read_back(&self, _: u64, _: u64) -> Option<(Arc<File>, DirectAlignment)> {
        Some((self.file.clone(), DirectAlignment { memory: 512, offset: 512 }))
    }
}

/// Four chunks; the last fills no block.
const KEPT_BYTES: usize = (1 << 20) - 700;

fn kept_byte(at: usize) -> u8 {
    (at / 1000) as u8
}

/// A partial that is written, and the digests that its chunks must have.
fn kept(is_read_alone: bool) -> (Scratch, OpenPartial, Vec<(u64, Digest)>) {
    let scratch = scratch(true);
    let (file, _) = scratch.partial.partial.direct().unwrap();
    let content: Vec<u8> = (0..KEPT_BYTES).map(kept_byte).collect();
    file.write_all_at(&content, 0).unwrap();
    let rule = Rule { file_bytes: KEPT_BYTES as u64, ..scratch.partial.rule };
    let digest_of = |chunk: usize, bytes: &[u8]| {
        let offset = |segment| ((chunk * 4 + segment) * SEGMENT) as u64;
        let segments = bytes.chunks(SEGMENT).enumerate();
        let digests: Vec<Digest> =
            segments.map(|(segment, bytes)| rule.segment(offset(segment), bytes).unwrap()).collect();
        digest::join(&digests, false)
    };
    let chunks = content.chunks(4 * SEGMENT).enumerate();
    let chunks = chunks.map(|(chunk, bytes)| (chunk as u64, digest_of(chunk, bytes))).collect();
    let partial: Arc<dyn PartialFile> = Arc::new(Kept { file, is_read_alone });
    let partial = OpenPartial { entry: scratch.partial.entry.clone(), partial, rule };
    (scratch, partial, chunks)
}

fn found(damaged: &[u64], bytes: usize) -> Found {
    let damaged = damaged.iter().map(|&chunk| (EntryId(1), chunk)).collect();
    Found { damaged, bytes: bytes as u64 }
}

#[test]
fn damage_in_several_places_is_found_by_reading_back_with_several_requests_in_flight_until_it_is_repaired() {
    let deep = Disk { depth: Some(16), ..Disk::default() };
    for disk in disks().into_iter().chain([deep]) {
        let (told, (scratch, partial, mut chunks)) = (Told::new(disk), kept(false));
        *told.partial.lock().unwrap() = Some(partial.clone());
        // As they were written.
        chunks.reverse();
        let chunks = [(EntryId(1), chunks)];
        let read = || read_back(&*told, &chunks, &[]).unwrap();
        assert_eq!(read(), found(&[], KEPT_BYTES), "{disk:?}");
        let places = [2 * SEGMENT + 5, 8 * SEGMENT, 10 * SEGMENT - 1, KEPT_BYTES - 1];
        for at in places {
            partial.partial.write_at(&[!kept_byte(at)], at as u64).unwrap();
        }
        assert_eq!(read(), found(&[0, 2, 3], KEPT_BYTES), "{disk:?}");
        for at in places {
            partial.partial.write_at(&[kept_byte(at)], at as u64).unwrap();
        }
        assert_eq!(read(), found(&[], KEPT_BYTES), "{disk:?}");
        let (file, _) = scratch.partial.partial.direct().unwrap();
        file.truncate(KEPT_BYTES as u64 - 1).unwrap();
        assert_eq!(read(), found(&[3], KEPT_BYTES - 1), "{disk:?}");
    }
}

#[test]
fn reading_back_goes_on_with_one_buffer_and_with_none() {
    let (told, (_scratch, partial, chunks)) = (Told::new(Disk::default()), kept(true));
    *told.partial.lock().unwrap() = Some(partial.clone());
    let chunks = [(EntryId(1), chunks)];
    let at = 5 * SEGMENT;
    partial.partial.write_at(&[!kept_byte(at)], at as u64).unwrap();
    for (bytes, count) in [(SEGMENT, 1), (2 * SEGMENT, 1), (4 * SEGMENT, 3)] {
        let pool = Pool::new(bytes, count).unwrap();
        assert_eq!(of_chunks(&*told, &chunks, &pool).unwrap(), found(&[1], KEPT_BYTES));
        let all: Vec<_> = std::iter::from_fn(|| pool.take(Duration::ZERO)).collect();
        assert_eq!(all.len(), count);
        assert_eq!(of_chunks(&*told, &chunks, &pool).unwrap(), found(&[1], KEPT_BYTES));
    }
}

/// A partial of which a read that fills no block is refused, though its file is open for direct I/O.
struct Refuses {
    past: Arc<File>,
    through: File,
    /// Times that whoever reads said so.
    refused: AtomicUsize,
    /// Times that it was told of what comes.
    expected: AtomicUsize,
}

impl PartialFile for Refuses {
    fn number(&self) -> u64 {
        1
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn expect_read_back(&self) {
        self.expected.fetch_add(1, Ordering::Relaxed);
    }

    fn refuse_direct_reads(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    fn read_back(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.through.read_at(buffer, offset)
    }

    fn to_read_back(&self, _: u64, _: u64) -> Option<(Arc<File>, DirectAlignment)> {
        let alignment = DirectAlignment { memory: 1, offset: 1 };
        (self.refused.load(Ordering::Relaxed) == 0).then(|| (self.past.clone(), alignment))
    }
}

#[test]
fn where_a_read_past_the_page_cache_is_refused_the_rest_is_read_alone_and_the_round_goes_on() {
    // The working directory usually has direct I/O.
    let scratch = tempfile::tempdir_in(".").unwrap();
    let dir = Dir::open(scratch.path()).unwrap();
    let content: Vec<u8> = (0..KEPT_BYTES).map(kept_byte).collect();
    let writer = dir.create_new(b"x", 0o600).unwrap();
    writer.write_all_at(&content, 0).unwrap();
    writer.sync_all().unwrap();
    for disk in disks() {
        let past = dir.open_read(b"x").unwrap();
        if past.set_direct(true).is_err() || past.read_at(&mut vec![0; 1000], 500).is_ok() {
            eprintln!("skipped: no direct I/O here that must be aligned; what is cached is read");
            return;
        }
        let (told, (_scratch, kept, mut chunks)) = (Told::new(disk), kept(true));
        let (refused, expected) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let through = dir.open_read(b"x").unwrap();
        let refuses = Arc::new(Refuses { past: Arc::new(past), through, refused, expected });
        *told.partial.lock().unwrap() = Some(OpenPartial { partial: refuses.clone(), ..kept });
        let read =
            |chunks: &[(u64, Digest)]| read_back(&*told, &[(EntryId(1), chunks.to_vec())], &[]).unwrap();
        assert_eq!(read(&chunks), found(&[], KEPT_BYTES), "{disk:?}");
        assert!(refuses.refused.load(Ordering::Relaxed) > 0, "{disk:?}");
        assert_eq!(refuses.expected.load(Ordering::Relaxed), 1, "{disk:?}");
        // Damage is found that way, too.
        chunks[3].1 = Digest::default();
        assert_eq!(read(&chunks), found(&[3], KEPT_BYTES), "{disk:?}");
        assert_eq!(refuses.expected.load(Ordering::Relaxed), 2, "once in each round");
    }
}

#[test]
fn as_many_threads_are_booked_as_read_small_files_back() {
    let told = Told::new(Disk { depth: Some(2), ..Disk::default() });
    for (count, threads) in [(1, 1), (3, 2)] {
        let files: Vec<_> = (0..count).map(|id| (EntryId(id), Digest::default())).collect();
        assert_eq!(read_back(&*told, &[], &files).unwrap(), Found::default());
        assert_eq!(told.heard(), vec![format!("staged, one of {threads}"); files.len()]);
        assert_eq!(told.accounts.threads(Stage::ReadBack), 0);
    }
}

#[test]
fn what_cannot_be_read_back_names_path_and_range() {
    for disk in disks() {
        let (told, (_scratch, partial, chunks)) = (Told::new(disk), kept(false));
        let unreadable = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        let file = Arc::new(File::from_fd(unreadable.into()));
        let unreadable: Arc<dyn PartialFile> = Arc::new(Kept { file, is_read_alone: false });
        *told.partial.lock().unwrap() = Some(OpenPartial { partial: unreadable, ..partial });
        let failure = read_back(&*told, &[(EntryId(1), chunks)], &[]).unwrap_err();
        assert_eq!(failure.path.map(|path| path.to_string()).as_deref(), Some("dir/x"));
        assert!(failure.range.is_some_and(|(start, end)| end - start == SEGMENT as u64), "{disk:?}");
    }
}

/// A partial that waits for what its order forbids: while the write at 0 gets ready for another to be made, and during
/// a write for one beside it.
#[derive(Default)]
struct InTurn {
    until_passed: Duration,
    until_beside: Duration,
    seen: Mutex<Turned>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Turned {
    /// The write at 0 gets ready.
    is_held: bool,
    made: Vec<u64>,
    under_way: usize,
    is_passed: bool,
    is_beside: bool,
}

impl PartialFile for InTurn {
    fn number(&self) -> u64 {
        1
    }

    fn prepare(&self, offset: u64, _: u64) {
        if offset == 0 {
            let mut seen = self.seen.lock().unwrap();
            seen.is_held = true;
            self.changed.notify_all();
            let is_first = |seen: &mut Turned| seen.made.is_empty();
            let mut seen = self.changed.wait_timeout_while(seen, self.until_passed, is_first).unwrap().0;
            seen.is_passed = !seen.made.is_empty();
        }
    }

    fn write_at(&self, _: &[u8], offset: u64) -> io::Result<()> {
        let mut seen = self.seen.lock().unwrap();
        seen.made.push(offset);
        seen.under_way += 1;
        seen.is_beside |= seen.under_way > 1;
        self.changed.notify_all();
        let is_alone = |seen: &mut Turned| !seen.is_beside;
        let mut seen = self.changed.wait_timeout_while(seen, self.until_beside, is_alone).unwrap().0;
        seen.under_way -= 1;
        Ok(())
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What a partial saw that two streams write in this order, the second after the first was handed its request. `None`
/// where the machine stood still, and one was made out of turn.
fn turned(order: Order, until_passed: Duration, until_beside: Duration) -> Option<Turned> {
    let mut disk = Disk::default();
    disk.destination.order = Some(order);
    let (told, scratch) = (Told::new(disk), scratch(true));
    let partial = Arc::new(InTurn { until_passed, until_beside, ..InTurn::default() });
    let open = OpenPartial { partial: partial.clone(), ..scratch.partial.clone() };
    let write = |chunk: u64| {
        let mut writes = Writes::new(told.clone(), chunk);
        let copy = writes.begin(&open, chunk);
        assert!(writes.claim(copy, Some(Copy::First)));
        assert!(writes.write(copy, Bytes::Expanded(&[7; 512]), chunk * SEGMENT as u64));
        writes.complete(copy, Digest::default());
    };
    std::thread::scope(|scope| {
        scope.spawn(|| write(0));
        let seen = partial.seen.lock().unwrap();
        let held =
            partial.changed.wait_timeout_while(seen, Duration::from_secs(30), |seen| !seen.is_held).unwrap();
        drop(held);
        scope.spawn(|| write(1));
    });
    let seen = std::mem::take(&mut *partial.seen.lock().unwrap());
    told.gate.as_ref().is_none_or(|gate| gate.out_of_turn() == 0).then_some(seen)
}

#[test]
fn writes_of_several_streams_are_made_in_turn_as_the_order_says() {
    let (short, long) = (Duration::from_millis(200), Duration::from_secs(30));
    for (order, until_passed, until_beside, expected) in [
        (Order::None, long, long, (true, true)),
        (Order::Loose, short, long, (false, true)),
        (Order::Serial, short, short, (false, false)),
    ] {
        let seen = (0..10).find_map(|_| turned(order, until_passed, until_beside)).unwrap();
        assert_eq!((seen.is_passed, seen.is_beside), expected, "{order:?}: {seen:?}");
    }
}
