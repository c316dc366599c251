//! One file that somebody else writes, and whether what is there is still what was read.
//!
//! **Nothing is taken for the same by its name or its inode alone.** Where bytes that were read before stand for those
//! of a file that is there now, the two are held against each other:
//!
//! | what is believed | against what |
//! |---|---|
//! | the destination has the first N bytes of this flow (an earlier attempt, a restart, an inode number that was used again) | all N bytes are read again here, and have its digest, or the flow does not go on there ([`Growing::rewind`]) |
//! | another stream's mark says how far a file may be read | the mark only ever holds bytes back: what is sent are the bytes of the file that is there |
//! | a file goes on where it was read to | the bytes in front of that place, whenever it grew; its first bytes, or else all of it is read again before it is said to be complete |
//! | a file that did not grow is what it was | its time of change, or else the same |
//! | a file that is over is over still | its length and its time of change, or else the flow is asked about again |
//!
//! So a new file that begins with all the bytes that the destination has may be taken for the old one that grew: the
//! destination then has the new one's bytes, which is what it has to have. A new file that begins with what a stale
//! mark says is read up to the mark and never said to be complete by it; the stream says so at its end.
//!
//! The machine that keeps a file says how long it is. What our kernel remembers is older where others write the file,
//! over a network or below what is mounted.
//!
//! Not seen: a file that is cut, written anew beyond the place that it was read to, and is the same at its beginning
//! and in front of that place, all between two looks; nor bytes in the middle that are changed while it grows.

use super::{Pushed, Taker};
use crate::endpoint::OPEN_DESTINATION;
use crate::endpoint::reread::Reread;
use crate::failure::{self, Failure, FailureKind, Reason, Result};
use crate::journal::marks::Known;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};
use thalweg_sys::{File, Stat, Time};
use thalweg_wire::message::{FlowMark, Origin};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, EntryId, RelativePath};

/// What a flow does that has all of its file.
const COMPLETE: &str = "complete the stream";

/// Bytes in front of the position that are read again when a file grows: a file that was cut and written anew beyond
/// where we were shows here, unless it is the same there.
const TAIL_BYTES: usize = 4 << 10;
/// First bytes that are read again when a file grows: one that was cut and written anew mostly shows here.
const HEAD_BYTES: usize = 4 << 10;
/// Pieces of one file before others have their turn.
const PIECES_AT_A_TURN: usize = 16;
/// Read at once of what is compared.
const COMPARE_BYTES: usize = 1 << 20;

/// A file that has had fewer bytes than a mark says for so long is another's. A network file system shows late how long
/// a file is.
const SHORT_FOR: Duration = Duration::from_secs(5);

/// A file under way.
pub(super) struct Growing {
    pub(super) path: RelativePath,
    pub(super) file: File,
    pub(super) flow: EntryId,
    /// How often it was cut since we know it.
    pub(super) cuts: u32,
    /// Its name leads to another file by now, or nowhere.
    pub(super) is_replaced: bool,
    /// Nothing more of it goes: it was said to be complete, or cannot go on.
    pub(super) is_ended: bool,
    /// With so many bytes, and this digest, it was said to be complete. It may have grown since.
    pub(super) ended_at: Option<(u64, Digest)>,
    /// A stream that is not complete writes it: it is to be believed up to that one's mark.
    pub(super) is_marked: bool,
    /// In a directory: how long it is to rest before it is complete because nobody has it open.
    pub(super) rests: Duration,
    /// Since when it is known where it goes on.
    pub(super) goes_on_since: Option<Instant>,
    /// Marks that are of another file, which had this one's name before.
    refuted: BTreeSet<(u64, Option<Digest>)>,
    tail: Vec<u8>,
    tail_end: u64,
    /// Its first bytes, as they were read.
    head: Vec<u8>,
    /// Up to where everything was read when it was looked at last, and when it had been changed last by then.
    rested: Option<(u64, Time)>,
    /// It was changed while it did not grow (maybe in what was read before, maybe only its times were set), or any may
    /// be changed by its writer: that was asked for.
    is_suspect: bool,
}

/// What tells a file from others, whatever its name. An inode number may be used again after a file is gone; with
/// another time of birth then, where the file system keeps one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    birth: Option<(i64, u32)>,
}

impl Identity {
    /// Of no file.
    pub(super) const NONE: Identity = Identity { device: 0, inode: 0, birth: None };

    pub(super) fn of(stat: &Stat) -> Identity {
        let birth = stat.birth.map(|birth| (birth.seconds, birth.nanos));
        Identity { device: stat.device, inode: stat.inode, birth }
    }

    /// Whether no other file ever has it, on any of the same file system.
    pub(super) fn is_certain(&self) -> bool {
        self.birth.is_some()
    }

    /// What the destination knows it by. Device numbers may be others after the next start of the machine.
    pub(super) fn origin(&self, cuts: u32) -> Origin {
        let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 origin of a flow");
        hasher.update(&self.inode.to_le_bytes()).update(&cuts.to_le_bytes());
        if let Some((seconds, nanos)) = self.birth {
            hasher.update(&seconds.to_le_bytes()).update(&nanos.to_le_bytes());
        }
        let mut origin = Origin::default();
        origin.0.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        origin
    }
}

/// What a look at a file showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// It has more.
    More,
    /// Everything it has was read; so many bytes.
    AtEnd(u64),
    /// It has become another: what was read of it is the whole of what it was.
    Cut,
    /// Not now.
    Waits,
    /// The transfer is over.
    Over,
}

impl Growing {
    pub(super) fn new(path: RelativePath, file: File, flow: EntryId, cuts: u32, is_suspect: bool) -> Growing {
        Growing {
            path,
            file,
            flow,
            cuts,
            is_replaced: false,
            is_ended: false,
            ended_at: None,
            is_marked: false,
            rests: Duration::ZERO,
            goes_on_since: None,
            refuted: BTreeSet::new(),
            tail: Vec::new(),
            tail_end: 0,
            head: Vec::new(),
            rested: None,
            is_suspect,
        }
    }

    /// Hands on what it has, up to `limit`; a bounded part of it.
    pub(super) fn tend(&mut self, buffer: &mut [u8], limit: u64, taker: &dyn Taker) -> Result<Seen> {
        let Some(mut position) = taker.position(self.flow) else { return Ok(Seen::Waits) };
        let of_io = |error: io::Error, at: u64, path: &RelativePath| {
            failure::of_io("read", &error).at(path).in_range(at, at)
        };
        let mut is_looked_at = false;
        for _ in 0..PIECES_AT_A_TURN {
            let most = limit.saturating_sub(position).min(buffer.len() as u64) as usize;
            let read = self.file.read_at(&mut buffer[..most], position);
            let read = read.map_err(|error| of_io(error, position, &self.path))?;
            if read == 0 {
                let stat = self.file.stat_now().map_err(|error| of_io(error, position, &self.path))?;
                // As long as what was read of it, and never seen to rest there: it may have been written anew.
                let is_new_here = self.rested.is_none_or(|(at, _)| at != position);
                let is_same = !is_new_here
                    || self.tail_is_same(position).map_err(|error| of_io(error, position, &self.path))?;
                return Ok(match stat.size {
                    size if size < position || !is_same => Seen::Cut,
                    size if size > position && position < limit => Seen::More,
                    _ => {
                        self.rest(position, stat.mtime);
                        Seen::AtEnd(position)
                    }
                });
            }
            if !self.tail_is_same(position).map_err(|error| of_io(error, position, &self.path))? {
                return Ok(Seen::Cut);
            }
            if !std::mem::replace(&mut is_looked_at, true) {
                // Its length did not go back: a writer may have changed its head. So it goes on, and is compared in the
                // end.
                let is_same = self.head_is_same().map_err(|error| of_io(error, position, &self.path))?;
                self.is_suspect |= !is_same;
            }
            match taker.push(self.flow, position, &buffer[..read]) {
                Pushed::Taken => {}
                Pushed::Elsewhere => return Ok(Seen::Waits),
                Pushed::Over => return Ok(Seen::Over),
            }
            if self.head.len() < HEAD_BYTES && position == self.head.len() as u64 {
                let more = read.min(HEAD_BYTES - self.head.len());
                self.head.extend_from_slice(&buffer[..more]);
            }
            position += read as u64;
            let kept = read.min(TAIL_BYTES);
            self.tail = buffer[read - kept..read].to_vec();
            self.tail_end = position;
        }
        Ok(Seen::More)
    }

    /// All of it was read, and it was last changed then.
    fn rest(&mut self, position: u64, changed: Time) {
        self.is_suspect |= self.rested.is_some_and(|(at, before)| at == position && before != changed);
        self.rested = Some((position, changed));
    }

    /// It is complete. What is suspect is read once more before that, all of it, and compared: a writer that changes
    /// what it wrote is told, and never passed as good. Not now, if nobody knows where it goes on.
    pub(super) fn end(&mut self, taker: &dyn Taker) {
        let Some(read) = taker.position(self.flow).zip(taker.digest(self.flow)) else { return };
        self.is_ended = true;
        if let Ok(stat) = self.file.stat_now()
            && stat.size == read.0
        {
            self.rest(read.0, stat.mtime);
        }
        let is_same = |(bytes, digest): (u64, Digest)| {
            let mut buffer = vec![0; COMPARE_BYTES];
            let found = self.hash(bytes, &mut buffer, taker, &mut |_| {})?;
            Ok(found.is_some_and(|hasher| hasher.finalize().as_bytes() == &digest.0))
        };
        let found: Result<bool> = if self.is_suspect { is_same(read) } else { Ok(true) };
        match found {
            Ok(true) => {
                self.ended_at = Some(read);
                taker.end(self.flow);
            }
            Ok(false) if taker.is_over() => {}
            Ok(false) => {
                let cause =
                    "bytes that had been sent were changed afterwards; what arrived is what they were";
                taker.give_up(self.flow, Failure::new(FailureKind::Changed, COMPLETE, cause));
            }
            Err(failure) => taker.give_up(self.flow, failure),
        }
    }

    /// It has to end now. What another stream still writes is not complete.
    pub(super) fn end_as_it_is(&mut self, taker: &dyn Taker) {
        if !self.is_marked {
            return self.end(taker);
        }
        self.is_ended = true;
        let cause = "the stream that writes it is not complete: what arrived is what was durable by now";
        let failure = Failure::new(FailureKind::Busy, COMPLETE, cause).because(Reason::StillWritten);
        taker.give_up(self.flow, failure);
    }

    /// The mark that it is to be believed up to, of those that have its name.
    pub(super) fn marked(&mut self, known: Vec<Known>) -> Option<Known> {
        let is_refuted = |known: &Known| self.refuted.contains(&(known.bytes, known.digest));
        let known = known.into_iter().find(|known| !is_refuted(known));
        self.is_marked = known.is_some();
        known
    }

    /// Whether a mark is not of this file, which rests at `position` since `rest`: it has not the bytes that were
    /// durable, or others. That mark is not believed again then.
    pub(super) fn refutes(
        &mut self,
        known: &Known,
        position: u64,
        rest: Duration,
        taker: &dyn Taker,
    ) -> bool {
        let is_anothers = match position.cmp(&known.bytes) {
            Ordering::Less => rest >= SHORT_FOR,
            Ordering::Equal => {
                known.digest.zip(taker.digest(self.flow)).is_some_and(|(theirs, ours)| theirs != ours)
            }
            Ordering::Greater => false,
        };
        if is_anothers {
            self.is_marked = false;
            self.refuted.insert((known.bytes, known.digest));
        }
        is_anothers
    }

    /// When it had been changed last, by the time that all of it was read.
    pub(super) fn changed(&self) -> Option<Time> {
        self.rested.map(|(_, changed)| changed)
    }

    /// Whether it has another length, of `limit` bytes at most, than it was said to be complete with.
    pub(super) fn has_changed_since_end(&self, limit: u64) -> bool {
        let now = self.file.stat_now().map(|stat| stat.size.min(limit));
        self.ended_at.zip(now.ok()).is_some_and(|((then, _), now)| then != now)
    }

    /// What hashed the first bytes; `None` if there are not so many, or it is over.
    fn hash(
        &self,
        bytes: u64,
        buffer: &mut [u8],
        taker: &dyn Taker,
        tell: &mut dyn FnMut(u64),
    ) -> Result<Option<blake3::Hasher>> {
        let mut hasher = blake3::Hasher::new();
        let mut position = 0;
        while position < bytes && !taker.is_over() {
            tell(position);
            let most = (bytes - position).min(buffer.len() as u64) as usize;
            let read = self.file.read_at(&mut buffer[..most], position);
            let read = read.map_err(|error| failure::of_io("read", &error).at(&self.path))?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            position += read as u64;
        }
        Ok((position == bytes).then_some(hasher))
    }

    /// Whether what stands in front of the position is still what was read there.
    fn tail_is_same(&self, position: u64) -> io::Result<bool> {
        if self.tail_end != position {
            return Ok(true);
        }
        let mut now = vec![0; self.tail.len()];
        let read = self.file.read_at(&mut now, position - self.tail.len() as u64)?;
        Ok(now[..read] == self.tail)
    }

    fn head_is_same(&self) -> io::Result<bool> {
        let mut now = vec![0; self.head.len()];
        let read = self.file.read_at(&mut now, 0)?;
        Ok(now[..read] == self.head)
    }

    /// What it goes on behind is what is there now.
    fn stands_at(&mut self, bytes: u64) -> io::Result<()> {
        let (head, tail) = (bytes.min(HEAD_BYTES as u64) as usize, bytes.min(TAIL_BYTES as u64) as usize);
        self.head = vec![0; head];
        let read = self.file.read_at(&mut self.head, 0)?;
        self.head.truncate(read);
        self.tail = vec![0; tail];
        let read = self.file.read_at(&mut self.tail, bytes - tail as u64)?;
        self.tail.truncate(read);
        self.tail_end = bytes;
        Ok(())
    }

    /// Reads up to where the destination stands, and compares.
    pub(super) fn rewind(
        &mut self,
        at: &FlowMark,
        is_ours: bool,
        buffer: &mut [u8],
        taker: &dyn Taker,
    ) -> Result<blake3::Hasher> {
        let of_io = |error: io::Error| failure::of_io("read", &error);
        self.stands_at(at.bytes).map_err(|error| of_io(error).at(&self.path))?;
        let what = format!("the source, {},", Escaped(self.path.as_bytes()));
        let mut reread = Reread::new(what, at.bytes);
        let mut tell = |done| reread.look(done, Instant::now()).into_iter().for_each(|text| taker.note(text));
        let found = self.hash(at.bytes, buffer, taker, &mut tell)?;
        if let Some(hasher) = found.filter(|hasher| hasher.finalize().as_bytes() == &at.digest.0) {
            return Ok(hasher);
        }
        Err(match is_ours {
            true => {
                let cause = format!(
                    "the destination has {} bytes, and the source does not begin with them any more: it was cut or \
                     written anew since, and what it had behind them by then is not there; what it has now is another \
                     stream",
                    at.bytes
                );
                Failure::new(FailureKind::Changed, "go on with the stream", cause)
            }
            false => {
                let cause = format!(
                    "another file of {} bytes stands there, and the source does not begin with it; choose another \
                     name, or remove it",
                    at.bytes
                );
                Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause)
            }
        })
    }

    /// Whether nobody has it open for writing.
    pub(super) fn is_closed(&self) -> Result<bool> {
        match self.file.has_writers() {
            Ok(has) => Ok(!has),
            Err(error) => {
                let cause = format!(
                    "whether somebody still writes {} cannot be told here ({error}): say when it ends by --until-idle, \
                     --until-marker or --until-size",
                    Escaped(self.path.as_bytes())
                );
                Err(Failure::new(FailureKind::Unsupported, "see who writes", cause))
            }
        }
    }
}
