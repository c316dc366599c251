//! An object that is being written: chunk by chunk, each a part of an upload.
//!
//! A chunk is gathered in memory and handed to a thread when it is whole. An object of one chunk is kept as a whole
//! until it gets its name, and put at once then, unless memory is scarce: under its name nothing stands before its
//! source was looked at behind the last byte.
//!
//! What gave way to others before it was whole has to come again, all of it: only chunks of which nothing came are
//! zeros.

use super::Shared;
use super::bounds::{LOOK_EVERY, Permit};
use super::conditions::Write;
use super::notes::{Noted, NotedPart};
use crate::store::{About, If, Part, Seen, Upload};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use thalweg_mover::endpoint::PartialFile;
use thalweg_mover::failure::to_io;
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::digest::{chunk_count, chunk_length};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

const WRITE: &str = "write the object";
const NOT_WHOLE: &str = "a part of it did not come whole: its stream was silent for too long";

/// See the module.
pub(super) struct ObjectPartial {
    number: u64,
    id: EntryId,
    key: String,
    path: RelativePath,
    evidence: Evidence,
    chunk_bytes: u64,
    may_have_holes: bool,
    about: About,
    shared: Arc<Shared>,
    /// Held while it is begun.
    upload: Mutex<Option<Arc<Upload>>>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    gathering: HashMap<u64, Gathering>,
    /// Chunks that gave way before they were whole, and did not come again yet.
    dropped: BTreeSet<u64>,
    /// The only chunk, whole, waiting for the name.
    whole: Option<Gathering>,
    /// Chunks that are handed over, each with a number of its own.
    under_way: BTreeMap<u64, u64>,
    hand_overs: u64,
    parts: BTreeMap<u64, Part>,
    failed: BTreeMap<u64, Failure>,
    is_over: bool,
}

/// A chunk, or what has come of it.
struct Gathering {
    content: Vec<u8>,
    /// Ranges that came, apart from each other and in order.
    covered: Vec<(usize, usize)>,
    touched: Instant,
    _permit: Permit,
}

impl Gathering {
    fn new(bytes: usize, permit: Permit) -> Gathering {
        Gathering { content: vec![0; bytes], covered: Vec::new(), touched: Instant::now(), _permit: permit }
    }

    /// Takes bytes, or zeros, at a place within.
    fn take(&mut self, content: Option<&[u8]>, from: usize, to: usize) {
        match content {
            Some(content) => self.content[from..to].copy_from_slice(content),
            None => self.content[from..to].fill(0),
        }
        self.touched = Instant::now();
        let (mut from, mut to) = (from, to);
        self.covered.retain(|&(start, end)| {
            let is_apart = end < from || to < start;
            if !is_apart {
                (from, to) = (from.min(start), to.max(end));
            }
            is_apart
        });
        self.covered.push((from, to));
    }

    fn is_whole(&self) -> bool {
        self.covered[..] == [(0, self.content.len())]
    }
}

/// A chunk on its way: however that ends, who waits for it hears of it.
struct Handed {
    partial: Arc<ObjectPartial>,
    chunk: u64,
    number: u64,
    gathering: Option<Gathering>,
}

impl Handed {
    fn go(mut self) {
        let Some(gathering) = self.gathering.take() else { return };
        let result = self.partial.put_part(self.chunk, &gathering.content);
        drop(gathering);
        self.partial.part_ended(self.chunk, self.number, result);
        self.number = 0;
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if self.number > 0 {
            let failure = Failure::new(FailureKind::Stopped, WRITE, "the transfer ended before");
            self.partial.part_ended(self.chunk, self.number, Err(failure));
        }
    }
}

impl ObjectPartial {
    /// Nothing is there of it.
    pub(super) fn new(
        shared: &Arc<Shared>,
        number: u64,
        key: String,
        entry: &Entry,
        about: About,
    ) -> Arc<ObjectPartial> {
        Arc::new(ObjectPartial {
            number,
            id: entry.id,
            key,
            path: entry.path.clone(),
            evidence: entry.evidence,
            chunk_bytes: shared.chunk_bytes,
            may_have_holes: matches!(entry.kind, Kind::File { sparse, marked } if sparse || marked),
            about,
            shared: shared.clone(),
            upload: Mutex::default(),
            state: Mutex::default(),
            ended: Condvar::new(),
        })
    }

    /// Goes on with an upload of an earlier attempt, of which these parts stand.
    pub(super) fn go_on(&self, upload: Upload, parts: Vec<Part>) {
        *lock(&self.upload) = Some(Arc::new(upload));
        lock(&self.state).parts = parts.into_iter().map(|part| (u64::from(part.number) - 1, part)).collect();
    }

    fn chunks(&self) -> u64 {
        chunk_count(self.evidence.size, self.chunk_bytes)
    }

    fn length(&self, chunk: u64) -> u64 {
        chunk_length(chunk, self.evidence.size, self.chunk_bytes)
    }

    /// Drops chunks that nobody goes on with.
    pub(super) fn drop_stale(&self) {
        // Not while it is in use: then it is none.
        if let Ok(mut state) = self.state.try_lock() {
            let State { gathering, dropped, .. } = &mut *state;
            gathering.retain(|&chunk, gathering| {
                let stays = gathering.touched.elapsed() < self.shared.budget.stale;
                if !stays {
                    dropped.insert(chunk);
                }
                stays
            });
        }
    }

    /// Takes bytes, or zeros, anywhere.
    fn gather(self: &Arc<Self>, content: Option<&[u8]>, bytes: u64, offset: u64) -> Result<()> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.evidence.size);
        let Some(end) = end else {
            return Err(Failure::new(FailureKind::Internal, WRITE, "it would become longer than it is"));
        };
        let mut at = offset;
        while at < end {
            let chunk = at / self.chunk_bytes;
            let start = chunk * self.chunk_bytes;
            let to = end.min(start + self.chunk_bytes);
            let piece = content.map(|content| &content[(at - offset) as usize..(to - offset) as usize]);
            self.gather_chunk(chunk, piece, (at - start) as usize, (to - start) as usize)?;
            at = to;
        }
        Ok(())
    }

    fn gather_chunk(
        self: &Arc<Self>,
        chunk: u64,
        content: Option<&[u8]>,
        from: usize,
        to: usize,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        if let Some(whole) = &mut state.whole {
            whole.take(content, from, to);
            return Ok(());
        }
        if from == 0 {
            state.dropped.remove(&chunk);
        } else if state.dropped.contains(&chunk) {
            return Err(Failure::new(FailureKind::Damage, WRITE, NOT_WHOLE));
        }
        if !state.gathering.contains_key(&chunk) {
            drop(state);
            let length = self.length(chunk);
            let gathering = Gathering::new(length as usize, self.shared.permit(length)?);
            state = lock(&self.state);
            state.gathering.entry(chunk).or_insert(gathering);
        }
        let Some(gathering) = state.gathering.get_mut(&chunk) else { return Ok(()) };
        gathering.take(content, from, to);
        if !gathering.is_whole() {
            return Ok(());
        }
        let Some(gathering) = state.gathering.remove(&chunk) else { return Ok(()) };
        if state.is_over {
            return Ok(());
        }
        if self.chunks() == 1 && !self.shared.budget.is_scarce() && lock(&self.upload).is_none() {
            state.whole = Some(gathering);
            return Ok(());
        }
        self.hand_over(state, chunk, gathering)
    }

    fn hand_over(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        chunk: u64,
        gathering: Gathering,
    ) -> Result<()> {
        // It came again: of two at a time nobody would know which one stays.
        let mut state = self.wait_while(state, |state| state.under_way.contains_key(&chunk))?;
        state.hand_overs += 1;
        let number = state.hand_overs;
        state.under_way.insert(chunk, number);
        state.parts.remove(&chunk);
        state.failed.remove(&chunk);
        drop(state);
        let handed = Handed { partial: self.clone(), chunk, number, gathering: Some(gathering) };
        self.shared.threads.give(self.length(chunk), Box::new(move || handed.go()));
        Ok(())
    }

    fn wait_while<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        waits: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'a, State>> {
        let mut since = Instant::now();
        let mut steps = self.shared.steps();
        while waits(&state) {
            state = self.ended.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            self.shared.check_given_up()?;
            // Those of others count: its own may wait behind them.
            let now = self.shared.steps();
            if now != steps {
                (steps, since) = (now, Instant::now());
            } else if since.elapsed() > self.shared.budget.stall {
                return Err(self.shared.stalled(since.elapsed()));
            }
        }
        Ok(state)
    }

    fn part_ended(&self, chunk: u64, number: u64, result: Result<Part>) {
        let mut state = lock(&self.state);
        if state.under_way.get(&chunk) == Some(&number) {
            state.under_way.remove(&chunk);
            match result {
                Ok(part) => drop(state.parts.insert(chunk, part)),
                Err(failure) => drop(state.failed.insert(chunk, failure)),
            }
        }
        drop(state);
        self.shared.step();
        self.ended.notify_all();
    }

    fn put_part(&self, chunk: u64, content: &[u8]) -> Result<Part> {
        let upload = self.begun()?;
        let number = part_number(chunk)?;
        let part = self.shared.bucket.put_part(&upload, number, content)?;
        Ok(Part { number, bytes: content.len() as u64, ..part })
    }

    /// Its upload, begun and noted by whoever is the first.
    fn begun(&self) -> Result<Arc<Upload>> {
        let mut upload = lock(&self.upload);
        if let Some(upload) = &*upload {
            return Ok(upload.clone());
        }
        let begun = Arc::new(self.shared.bucket.begin(&self.key, &self.about)?);
        // Its first part may be asked for as long again.
        self.shared.step();
        let noted = Noted {
            key: self.key.clone(),
            id: begun.id.clone(),
            evidence: self.evidence,
            chunk_bytes: self.chunk_bytes,
            about: super::words_of(&self.about),
            mark: begun.mark.clone(),
            parts: BTreeMap::new(),
            is_given_up: false,
        };
        if let Err(failure) = lock(&self.shared.notes).begin(self.number, noted) {
            let _ = self.shared.bucket.abort(&begun);
            return Err(failure);
        }
        *upload = Some(begun.clone());
        Ok(begun)
    }

    /// Waits for all that was handed over before the call. What failed of this file alone is told when it is to get its
    /// name.
    pub(super) fn wait(&self) -> Result<()> {
        let state = self.waited()?;
        match state.failed.iter().find(|(_, failure)| is_of_all(failure)) {
            Some((&chunk, failure)) => Err(self.in_chunk(chunk, failure.clone())),
            None => Ok(()),
        }
    }

    fn waited(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        let before = state.under_way.clone();
        let is_any =
            |state: &State| before.iter().any(|(chunk, number)| state.under_way.get(chunk) == Some(number));
        self.wait_while(state, is_any).map_err(|failure| failure.at(&self.path))
    }

    fn in_chunk(&self, chunk: u64, failure: Failure) -> Failure {
        let start = chunk * self.chunk_bytes;
        failure.at(&self.path).in_range(start, start + self.length(chunk))
    }

    /// Waits for all of it, of which nothing may have failed or have come in part.
    fn wait_for_all(&self) -> Result<()> {
        let state = self.waited()?;
        if let Some((&chunk, failure)) = state.failed.first_key_value() {
            return Err(self.in_chunk(chunk, failure.clone()));
        }
        let begun = state.dropped.iter().chain(state.gathering.keys());
        match begun.filter(|chunk| !state.parts.contains_key(*chunk)).min() {
            Some(&chunk) => Err(self.in_chunk(chunk, Failure::new(FailureKind::Damage, WRITE, NOT_WHOLE))),
            None => Ok(()),
        }
    }

    /// What of these chunks is in the store, to be noted.
    pub(super) fn noted(&self, chunks: &[(u64, Digest)]) -> Vec<NotedPart> {
        let state = lock(&self.state);
        let noted = |&(chunk, digest): &(u64, Digest)| Some(NotedPart::new(state.parts.get(&chunk)?, digest));
        chunks.iter().filter_map(noted).collect()
    }

    /// Gives it its name. Whoever waits for memory meanwhile waits for it too.
    pub(super) fn finish(&self, stood: Option<&Seen>, digest: Digest) -> Result<Seen> {
        self.wait_for_all()?;
        let whole = lock(&self.state).whole.take();
        let is_begun = lock(&self.upload).is_some();
        let may_be_zeros = self.may_have_holes || self.evidence.size == 0;
        match whole {
            Some(whole) => self.put(&whole.content, stood, digest),
            None if !is_begun && self.chunks() <= 1 && may_be_zeros => {
                let _permit = self.shared.permit(self.evidence.size)?;
                self.put(&vec![0; self.evidence.size as usize], stood, digest)
            }
            None => {
                let parts = self.all_parts()?;
                let upload = self.begun()?;
                let complete = |only: &If| self.shared.bucket.complete(&upload, &parts, only);
                let complete = |stood: Option<&Seen>| {
                    self.shared.conditional(Write::Complete, &self.key, stood, complete)
                };
                let seen = self.shared.over_own(self.id, &self.key, stood, complete)?;
                lock(&self.state).is_over = true;
                lock(&self.shared.notes).end(self.number);
                Ok(seen)
            }
        }
    }

    fn put(&self, content: &[u8], stood: Option<&Seen>, digest: Digest) -> Result<Seen> {
        let about = About { blake3: Some(digest), ..self.about };
        let seen = self.shared.put(self.id, &self.key, content, &about, stood, &self.evidence)?;
        lock(&self.state).is_over = true;
        Ok(seen)
    }

    /// Its parts, in order. Chunks that are holes as a whole never came: they become parts of zeros.
    fn all_parts(&self) -> Result<Vec<Part>> {
        let mut parts = std::mem::take(&mut lock(&self.state).parts);
        for chunk in 0..self.chunks() {
            if parts.contains_key(&chunk) {
                continue;
            }
            if !self.may_have_holes {
                let failure = Failure::new(FailureKind::Internal, WRITE, "a part of it did not come");
                return Err(self.in_chunk(chunk, failure));
            }
            let length = self.length(chunk);
            let _permit = self.shared.permit(length)?;
            parts.insert(chunk, self.put_part(chunk, &vec![0; length as usize])?);
        }
        Ok(parts.into_values().collect())
    }

    /// Throws it away, with what is in the store of it.
    pub(super) fn discard(&self) {
        let mut state = lock(&self.state);
        state.is_over = true;
        state.gathering.clear();
        state.dropped.clear();
        state.whole = None;
        drop(state);
        // A part that is under way would stay behind.
        drop(self.waited());
        if let Some(upload) = lock(&self.upload).take() {
            let aborted = self.shared.bucket.abort(&upload);
            if let Err(failure) = &aborted {
                tracing::warn!(%failure, "an upload is left in the store");
            }
            // One that stays is noted still, and ended later.
            if aborted.is_ok() {
                lock(&self.shared.notes).end(self.number);
            }
        }
    }
}

/// Whether no other file would fare better.
fn is_of_all(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Io | FailureKind::Space | FailureKind::Connection)
}

/// The number that a chunk has as a part.
fn part_number(chunk: u64) -> Result<u16> {
    u16::try_from(chunk + 1).map_err(|_| Failure::new(FailureKind::Internal, WRITE, "it has too many parts"))
}

/// What the engine holds of it.
pub(super) struct Open(pub(super) Arc<ObjectPartial>);

impl PartialFile for Open {
    fn number(&self) -> u64 {
        self.0.number
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let gathered = self.0.gather(Some(bytes), bytes.len() as u64, offset);
        gathered.map_err(to_io)
    }

    fn leave_zeros(&self, bytes: u64, offset: u64) -> io::Result<()> {
        self.0.gather(None, bytes, offset).map_err(to_io)
    }

    /// The store compared the checksum of each part, and does that of a whole object when it gets its name. Which chunk
    /// failed is told then, with the reason.
    fn is_checked(&self, chunk: u64) -> Option<bool> {
        let state = lock(&self.0.state);
        let is_kept = state.whole.is_some() || state.parts.contains_key(&chunk);
        Some(is_kept || state.failed.contains_key(&chunk))
    }

    fn read_back(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        let cause = "parts of an object cannot be read before it has its name";
        Err(to_io(Failure::new(FailureKind::Unsupported, "read back", cause)))
    }
}
