//! What a stream sends: chunks, packs of small files, digests to compare; and how it looks at a source again that was
//! read.

use super::{SendLane, SendRun};
use crate::endpoint::SourceFile;
use crate::event::Event;
use crate::failure::{self, Failure, FailureKind};
use crate::run::party::Party;
use crate::stage::read::{self, ChunkReader, Pack, Segment};
use crate::stage::send::Outlet;
use crate::stage::turn::{Gate, Turn};
use crate::stage::{Stage, Stopwatch};
use crate::transfer::Copy;
use crate::transfer::sender::Retry;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_wire::digest::chunk_length;
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::message::VerifyLevel;
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind};

impl SendRun {
    /// Streams that come up from now on look at each segment whether it shrinks, if by the terms they compress at all.
    pub fn compress_always(&self) {
        self.compresses_always.store(true, Ordering::Relaxed);
    }

    /// For a stream of this number.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn lane(&self, stream: u16) -> io::Result<SendLane> {
        let mut lane = SendLane::new(stream, &self.common.terms)?;
        lane.ahead.share(&self.spare);
        if let Some(packer) = lane.packer.as_mut().filter(|_| self.compresses_always.load(Ordering::Relaxed))
        {
            packer.look_always();
        }
        Ok(lane)
    }

    pub(super) fn send_chunk(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        entry: &Arc<Entry>,
        (chunk, copy): (u64, Copy),
        mut turn: Option<Turn<'_>>,
    ) -> io::Result<()> {
        let mut watch = Stopwatch::start(&self.common.accounts);
        let Some(mut reader) = self.open_chunk(lane, entry, chunk) else { return Ok(()) };
        let mut digests = Vec::new();
        let mut looks_ahead = true;
        reader.prepare();
        if let Some(turn) = &turn {
            turn.issue();
        }
        while let Some(offset) = reader.next_offset() {
            let segment = match self.reads(|| reader.read_ahead(&mut lane.buffer, &mut lane.ahead)) {
                Ok(segment) => segment,
                // The receiver drops the beginning of the chunk when the next one starts.
                Err(failure) => {
                    lane.ahead.forget();
                    self.unreadable(lane, entry, failure);
                    return Ok(());
                }
            };
            if looks_ahead && lane.ahead.has_room() {
                looks_ahead = self.look_ahead(lane, entry, &reader);
            }
            self.count_reads(lane);
            if reader.next_offset().is_none() {
                // Its last read ended.
                drop(turn.take());
            }
            let (kind, raw, digest) = match segment {
                Segment::Data(bytes) => {
                    watch.lap(Stage::Read, bytes as u64);
                    let digest = reader.rule.segment(offset, &lane.buffer.payload_mut()[..bytes]);
                    (FrameKind::Segment, bytes, digest)
                }
                Segment::Zeros(bytes) => (FrameKind::Zeros, bytes as usize, reader.rule.zeros(offset, bytes)),
            };
            let Some(digest) = digest else {
                let failure =
                    Failure::new(FailureKind::Internal, "digest", "a segment that the file does not have");
                self.unreadable(lane, entry, failure);
                return Ok(());
            };
            digests.push(digest);
            watch.computed(Stage::Digest, raw as u64);
            let mut inner = Inner {
                kind,
                encoding: Encoding::Raw,
                transfer: self.number,
                raw_bytes: raw as u32,
                entry: entry.id,
                offset,
                digest,
                is_again: copy == Copy::Again,
            };
            let payload = if kind == FrameKind::Zeros { 0 } else { raw };
            let payload = self.compress(lane, outlet, payload, &mut inner, &mut watch);
            self.put(lane, outlet, payload, &inner, &mut watch, raw as u64)?;
        }
        let mut state = self.lock();
        state.machine.chunk_sent(lane.stream, entry.id, chunk, reader.join(&digests));
        self.pump(&mut state);
        Ok(())
    }

    /// Begins to read the chunk that the stream sends next, as all of this one is under way. False if there is none of
    /// this file.
    fn look_ahead(&self, lane: &mut SendLane, entry: &Arc<Entry>, reader: &ChunkReader) -> bool {
        if lane.drawn.is_none() {
            let mut state = self.lock();
            let taken = state.machine.take_ahead(lane.stream, entry.id, self.clock.now());
            let turn = self.gate.as_ref().filter(|_| taken.is_some()).map(Gate::draw);
            // Offers of what was found meanwhile.
            self.pump(&mut state);
            drop(state);
            // Those before it were handed out to streams that make their requests now.
            if let Some(turn) = turn {
                turn.issue();
            }
            lane.drawn = taken.map(|(chunk, copy)| (entry.clone(), chunk, copy));
        }
        let Some((_, chunk, _)) = &lane.drawn else { return false };
        let next = ChunkReader::new(reader.file.clone(), entry, *chunk, &self.common.terms);
        // What cannot be begun is read, and fails, when it is wanted.
        let _ = self.reads(|| lane.ahead.begin(&*reader.file, next.segments()));
        true
    }

    /// Tells the digest of a chunk that the receiver may have.
    pub(super) fn compare_chunk(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        entry: &Arc<Entry>,
        chunk: u64,
        turn: Option<Turn<'_>>,
    ) -> io::Result<()> {
        let mut watch = Stopwatch::start(&self.common.accounts);
        let Some(reader) = self.open_chunk(lane, entry, chunk) else { return Ok(()) };
        reader.prepare();
        if let Some(turn) = &turn {
            turn.issue();
        }
        let mut goes_on = || -> failure::Result<()> {
            self.note_read();
            Ok(())
        };
        let digest = match self.reads(|| reader.digest_while(lane.buffer.payload_mut(), &mut goes_on)) {
            Ok(digest) => digest,
            Err(failure) => {
                self.unreadable(lane, entry, failure);
                return Ok(());
            }
        };
        drop(turn);
        let inner = Inner {
            kind: FrameKind::Compare,
            encoding: Encoding::Raw,
            transfer: self.number,
            raw_bytes: 0,
            entry: entry.id,
            offset: chunk * self.common.terms.chunk_bytes,
            digest,
            is_again: false,
        };
        watch.lap(Stage::Read, chunk_length(chunk, entry.evidence.size, self.common.terms.chunk_bytes));
        self.put(lane, outlet, 0, &inner, &mut watch, 0)?;
        let mut state = self.lock();
        state.machine.chunk_told(lane.stream, entry.id, chunk, digest);
        self.pump(&mut state);
        Ok(())
    }

    /// A chunk ready to be read; `None` if it cannot be, or lies in a marked hole, which the machine was told.
    fn open_chunk(&self, lane: &mut SendLane, entry: &Arc<Entry>, chunk: u64) -> Option<ChunkReader> {
        let open = || -> failure::Result<_> {
            let file = lane.files.get(entry, &*self.source)?;
            self.tell_of_direct();
            let reader = ChunkReader::new(file, entry, chunk, &self.common.terms);
            let hole =
                reader.marked_hole(&self.common.terms).map_err(|error| failure::of_io("read", &error))?;
            Ok((reader, hole))
        };
        // What others wrote just now may have to reach the medium first.
        match self.reads(open) {
            Ok((reader, None)) => Some(reader),
            Ok((_, Some(run))) => {
                let mut state = self.lock();
                state.machine.chunks_are_holes(lane.stream, entry.id, chunk, run);
                self.pump(&mut state);
                None
            }
            Err(failure) => {
                self.unreadable(lane, entry, failure);
                None
            }
        }
    }

    fn tell_of_direct(&self) {
        if self.source.direct_is_missed() && !self.direct_is_missed.swap(true, Ordering::Relaxed) {
            let why = "its file system takes no direct I/O, or is in memory";
            (self.events)(Event::Note(format!("--direct source=on: read by way of the page cache: {why}")));
            tracing::info!(why, "the source is read by way of the page cache");
        }
    }

    pub(super) fn send_pack(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        entries: &[Arc<Entry>],
    ) -> io::Result<()> {
        let asked: Vec<EntryId> = entries.iter().map(|entry| entry.id).collect();
        let (pack, packed) = self.reads(|| {
            Pack::read(
                entries,
                &*self.source,
                lane.buffer.payload_mut(),
                self.common.terms.verify,
                &self.common.accounts,
                &|| self.note_read(),
            )
        });
        let content_bytes = pack.bytes as u64;
        // Before it goes out: the receiver may have the last word on it before we are back here.
        self.lock().machine.small_read(pack.digests());
        let (raw, files) = pack.close(lane.buffer.payload_mut());
        if files > 0 {
            let mut watch = Stopwatch::start(&self.common.accounts);
            let mut inner = Inner {
                kind: FrameKind::Pack,
                encoding: Encoding::Raw,
                transfer: self.number,
                raw_bytes: raw as u32,
                entry: EntryId(files),
                offset: 0,
                digest: Digest::default(),
                is_again: false,
            };
            let payload = self.compress(lane, outlet, raw, &mut inner, &mut watch);
            self.put(lane, outlet, payload, &inner, &mut watch, content_bytes)?;
        }
        if !packed.failed.is_empty() {
            self.ends_if_lost();
        }
        let mut state = self.lock();
        state.machine.pack_sent(lane.stream, &asked, &packed.sent);
        for (id, failure) in packed.failed {
            state.machine.failed(id, failure);
        }
        self.pump(&mut state);
        drop(state);
        for entry in packed.changed {
            self.changed(&entry);
        }
        Ok(())
    }

    fn compress(
        &self,
        lane: &mut SendLane,
        outlet: &dyn Outlet,
        raw: usize,
        inner: &mut Inner,
        watch: &mut Stopwatch,
    ) -> usize {
        let Some(packer) = lane.packer.as_mut().filter(|_| raw > 0) else { return raw };
        let packed = packer.pack(lane.buffer.payload_mut(), raw, outlet.queued());
        watch.lap(Stage::Compress, raw as u64);
        match packed {
            Some(packed) => {
                inner.encoding = Encoding::Zstd;
                packed
            }
            None => raw,
        }
    }

    /// Sends a frame that carries so many bytes of content, no faster than asked.
    fn put(
        &self,
        lane: &mut SendLane,
        outlet: &mut dyn Outlet,
        payload: usize,
        inner: &Inner,
        watch: &mut Stopwatch,
        content_bytes: u64,
    ) -> io::Result<()> {
        let began = lane.packer.is_some().then(Instant::now);
        let mut is_limited = false;
        // By the rate of the moment: it may be set while the copy runs, and what yields has none by its terms.
        if payload > 0 && self.pace.rate().is_some() {
            let goes = self.pace.wait(payload as u64, || {
                // As it goes: at a low rate a single wait takes long.
                watch.lap_many(Stage::Pace, 0, 0);
                self.ended().is_none() && !outlet.is_over()
            });
            if !goes && outlet.is_over() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            // A limit is one of bytes as they are sent.
            watch.lap(Stage::Pace, payload as u64);
            is_limited = true;
        }
        let mut goes_on = || {
            // As above, and what a stream that is lost waited is not lost with it.
            watch.lap_many(Stage::Limit, 0, 0);
            self.ended().is_none()
        };
        if payload > 0 && outlet.wait_for_share(payload as u64, &mut goes_on) {
            if outlet.is_over() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            watch.lap(Stage::Limit, payload as u64);
            is_limited = true;
        }
        match &mut lane.packer {
            Some(packer) if is_limited => packer.is_limited(),
            Some(packer) => packer.puts(payload, outlet.queued()),
            None => {}
        }
        self.putting.fetch_add(1, Ordering::Relaxed);
        let put = outlet.put(&mut lane.buffer, payload, inner);
        self.putting.fetch_sub(1, Ordering::Relaxed);
        put?;
        match outlet.books_itself() {
            true => watch.skip(),
            false => watch.lap_out(Stage::Send, content_bytes),
        }
        if let (Some(packer), Some(began)) = (&mut lane.packer, began) {
            packer.sent(payload, began.elapsed());
        }
        Ok(())
    }

    /// Looks at a file whose last byte was read.
    ///
    /// # Errors
    /// When the stream is gone meanwhile: another one looks.
    pub(super) fn check(
        &self,
        lane: &mut SendLane,
        outlet: &dyn Outlet,
        entry: &Arc<Entry>,
    ) -> io::Result<()> {
        let is_link = matches!(entry.kind, Kind::HardLink { .. });
        let look = || if is_link { Ok(entry.evidence) } else { self.look_at_read(lane, outlet, entry) };
        let looked = self.reads(look);
        lane.files.forget(entry.id);
        if looked.is_err() && self.ended().is_some() {
            return Ok(());
        }
        if looked.is_err() && outlet.is_over() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        match looked {
            Ok(evidence) => {
                let mut state = self.lock();
                let retry = state.machine.checked(lane.stream, entry.id, evidence);
                self.pump(&mut state);
                drop(state);
                if retry == Retry::LookAgain {
                    self.look_again(entry);
                }
            }
            Err(failure) => self.unreadable(lane, entry, failure),
        }
        Ok(())
    }

    /// What a file shows after its last read.
    fn look_at_read(
        &self,
        lane: &mut SendLane,
        outlet: &dyn Outlet,
        entry: &Arc<Entry>,
    ) -> failure::Result<Evidence> {
        lane.files.get(entry, &*self.source).and_then(|file| {
            if self.common.terms.verify == VerifyLevel::Paranoid {
                self.read_again(&file, lane.buffer.payload_mut(), outlet, entry)?;
            }
            file.evidence().map_err(|error| failure::of_io("read", &error))
        })
    }

    fn read_again(
        &self,
        file: &Arc<dyn SourceFile>,
        buffer: &mut [u8],
        outlet: &dyn Outlet,
        entry: &Arc<Entry>,
    ) -> failure::Result<()> {
        let mut watch = Stopwatch::start(&self.common.accounts);
        // Nobody wants it any more, or another stream begins it anew.
        let mut goes_on = || {
            self.note_read();
            match self.ended().is_some() || outlet.is_over() {
                true => Err(Failure::new(FailureKind::Stopped, "read again", "the stream is over")),
                false => Ok(()),
            }
        };
        let second = read::digest_again(file, entry, &self.common.terms, buffer, &mut goes_on)?;
        watch.lap(Stage::Read, entry.evidence.size);
        let first = self.lock().machine.digest_read(entry.id);
        // A file that changed between the two is told apart by its evidence, looked at next.
        let is_same_moment = file.evidence().is_ok_and(|now| now == entry.evidence);
        if first.is_some() && first != second && is_same_moment {
            Err(read::read_differently())
        } else {
            Ok(())
        }
    }

    fn unreadable(&self, lane: &mut SendLane, entry: &Arc<Entry>, failure: Failure) {
        lane.files.forget(entry.id);
        if failure.kind == FailureKind::Changed {
            self.changed(entry);
        } else if !self.ends_if_lost() {
            let mut state = self.lock();
            state.machine.failed(entry.id, failure);
            self.pump(&mut state);
        }
    }

    fn changed(&self, entry: &Arc<Entry>) {
        let mut state = self.lock();
        let retry = state.machine.changed(entry.id);
        self.pump(&mut state);
        drop(state);
        if retry == Retry::LookAgain {
            self.look_again(entry);
        }
    }

    fn look_again(&self, entry: &Entry) {
        let now = self.reads(|| self.source.look_again(entry));
        let mut state = self.lock();
        state.machine.offer_again(entry.id, now);
        self.pump(&mut state);
    }
}
