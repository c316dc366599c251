//! What is lacking: what stands there, what an earlier run remembers, and what an attempt left.

use super::conditions::Write;
use super::leftover::abort;
use super::notes::Noted;
use super::partial::ObjectPartial;
use super::standing::Found;
use super::{Done, Flight, KEEPS_NO, ObjectDestination, PARTS_MAX, has, words_of};
use crate::bucket::version_of;
use crate::source::open_version;
use crate::store::{About, Head, If, Part, Seen};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;
use thalweg_mover::endpoint::left_alone::LeftAlone;
use thalweg_mover::endpoint::local::overlap::MAY_BE_SOURCE;
use thalweg_mover::endpoint::{Decision, Left, Reading, Revised, SourceFile};
use thalweg_mover::failure::Reason;
use thalweg_mover::journal::catalogue::{Catalogue, Remembered, bind};
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::digest::chunk_count;
use thalweg_wire::message::{Check, Loss, Outcome, VerifyLevel};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

const COMPARE: &str = "compare";
/// Directories without files that are told one by one.
pub(super) const CHILDLESS_MAX: usize = 64 << 10;

/// Of the 16 bytes that are remembered of a file, so many tell whether the content is still the same.
const SHOWN_BYTES: usize = 10;

/// Directories in which no file came: a bucket does not keep them.
#[derive(Default)]
pub(super) struct Childless {
    names: BTreeSet<RelativePath>,
    /// Those behind them, in which files may have come.
    more: u64,
}

impl Childless {
    pub(super) fn directory(&mut self, path: &RelativePath) {
        if self.names.len() < CHILDLESS_MAX {
            self.names.insert(path.clone());
        } else {
            self.more += 1;
        }
    }

    fn file(&mut self, path: &RelativePath) {
        let mut above = above(path);
        while let Some(path) = above.filter(|path| self.names.remove(path)) {
            above = self::above(&path);
        }
    }

    pub(super) fn take(&mut self) -> Vec<Revised> {
        let lost = || Loss {
            what: "directory".to_owned(),
            why: "a bucket keeps none without a file in it, unless by markers".to_owned(),
        };
        let revised = |path| Revised {
            path,
            was_unchanged: false,
            outcome: Outcome::Done { digest: None, losses: vec![lost()] },
        };
        let more = std::mem::take(&mut self.more);
        let mut told: Vec<Revised> = std::mem::take(&mut self.names).into_iter().map(revised).collect();
        if let Some(Revised { outcome: Outcome::Done { losses, .. }, .. }) = told.last_mut()
            && more > 0
        {
            let why = format!("as many as {more} more may have no file in them, and are not told one by one");
            losses.push(Loss { what: "directories".to_owned(), why });
        }
        told
    }
}

fn above(path: &RelativePath) -> Option<RelativePath> {
    RelativePath::new(path.split()?.0.to_vec()).ok()
}

impl ObjectDestination {
    pub(super) fn decide_entry(&self, entry: &Entry, reading: Reading<'_>) -> Decision {
        let decided = match &entry.kind {
            Kind::Directory => self.directory(entry),
            Kind::File { .. } => self.file(entry, reading),
            Kind::Symlink { .. } => Ok(skipped(&format!("{KEEPS_NO} symbolic links"))),
            Kind::Fifo | Kind::Device { .. } if !self.terms.preserve.devices => {
                Ok(skipped("entries of this kind are not asked for"))
            }
            Kind::Fifo => Ok(skipped(&format!("{KEEPS_NO} FIFOs"))),
            Kind::Device { .. } => Ok(skipped(&format!("{KEEPS_NO} devices"))),
            Kind::HardLink { .. } => Ok(Decision::Fresh),
        };
        decided.unwrap_or_else(|failure| settled(Outcome::Failed(failure_at(failure, &entry.path)), false))
    }

    /// What stands there: as listed, unless the transfer may have changed it itself.
    fn find(&self, path: &RelativePath, below: &str) -> Result<Found> {
        if !lock(&self.again).remove(path) {
            return self.standing.find(below);
        }
        // The one before has its name by now, or never gets it.
        lock(&self.flights).withdraw(path);
        self.standing.ask(below)
    }

    fn directory(&self, entry: &Entry) -> Result<Decision> {
        if entry.path.is_root() {
            return Ok(settled(Outcome::Unchanged { digest: None }, false));
        }
        let (below, key) = self.key_of(&entry.path)?;
        let is_again = lock(&self.again).contains(&entry.path);
        let found = self.find(&entry.path, &below)?;
        if found.object.is_some() {
            return Err(conflict("an object has the name of the directory"));
        }
        let is_there = settled(Outcome::Unchanged { digest: None }, false);
        if self.terms.dry_run {
            return Ok(if found.is_directory { is_there } else { done(Vec::new()) });
        }
        if !self.options.directory_markers {
            if found.is_directory {
                return Ok(is_there);
            }
            // Of a part: its files may be in the others.
            if self.terms.part.is_none() {
                lock(&self.childless).directory(&entry.path);
            }
            return Ok(done(Vec::new()));
        }
        // Of one that is implied nobody says what is to be beside it: what is there stays.
        let about = if entry.is_implied() { About::default() } else { self.about(entry) };
        let marker = format!("{key}/");
        let stands = if found.is_directory || is_again { self.shared.bucket.head(&marker)? } else { None };
        let is_it = |head: &Head| head.seen.size == 0 && has(&head.about, &about);
        if stands.as_ref().is_some_and(is_it) {
            return Ok(is_there);
        }
        let stood = stands.map(|head| head.seen);
        if stood.as_ref().is_some_and(|seen| seen.size > 0) {
            return Err(conflict("an object with content has the name of the directory and a slash"));
        }
        let put = |only: &If| self.shared.bucket.put(&marker, &[], &about, only);
        match self.shared.conditional(Write::Put, &marker, stood.as_ref(), put) {
            // Somebody else made the same just then.
            Err(failure) if failure.kind == FailureKind::Conflict => {
                if !self.shared.bucket.head(&marker)?.as_ref().is_some_and(is_it) {
                    return Err(failure);
                }
            }
            made => drop(made?),
        }
        let mut losses = self.losses(entry);
        losses.extend(self.unconditional());
        Ok(done(losses))
    }

    fn file(&self, entry: &Entry, reading: Reading<'_>) -> Result<Decision> {
        lock(&self.childless).file(&entry.path);
        let (below, key) = self.key_of(&entry.path)?;
        let found = self.find(&entry.path, &below)?;
        if found.is_directory {
            return Err(conflict("keys below it stand there, so that it would be a file and a directory"));
        }
        let mut candidate = None;
        if let Some(seen) = &found.object {
            if let Some(reason) = self.reason_to_leave(entry, &key, seen)? {
                return Ok(skipped(reason));
            }
            match self.terms.check {
                Check::Evidence => match self.unchanged(entry, &key, seen)? {
                    Some(Decision::Wanted { candidate: compared, .. }) => candidate = compared,
                    Some(decision) => return Ok(decision),
                    None => {}
                },
                Check::Digest => candidate = Some(seen.size),
                Check::Nothing => {}
            }
        }
        let chunks = chunk_count(entry.evidence.size, self.terms.chunk_bytes);
        if chunks > PARTS_MAX {
            let cause = format!(
                "it would have {chunks} parts of {} bytes, and an object has {PARTS_MAX} at most: ask for \
                 larger chunks, up to 64 MiB, with `--chunk`",
                self.terms.chunk_bytes
            );
            let failure = Failure::new(FailureKind::Unsupported, "write the object", cause);
            return Err(failure.because(Reason::FileTooLarge));
        }
        lock(&self.flights).put(entry, Flight { seen: found.object, done: None });
        let left = if self.terms.dry_run { None } else { self.resume(entry, &key, reading)? };
        match (left, candidate) {
            (None, None) => Ok(Decision::Fresh),
            (left, candidate) => Ok(Decision::Wanted { left, candidate }),
        }
    }

    fn reason_to_leave(&self, entry: &Entry, key: &str, seen: &Seen) -> Result<Option<&'static str>> {
        if self.terms.removes_source && may_be_source(&entry.evidence, seen) {
            return Ok(Some(MAY_BE_SOURCE));
        }
        // What this transfer put there itself is no reason.
        if self.shared.own_before(entry.id, key).is_some() {
            return Ok(None);
        }
        let left_alone = LeftAlone::of(&self.terms);
        let mtime = match left_alone.goes_by_time() {
            true => {
                let head = self.shared.bucket.head(key)?;
                Some(head.and_then(|head| head.about.mtime).unwrap_or(seen.modified))
            }
            false => None,
        };
        Ok(left_alone.reason(entry, mtime))
    }

    /// By size and what the catalogue remembers of both sides, or of what a stage brought; where it remembers nothing,
    /// by the time beside the object. That was written before anybody read the content back: who wants it read has it
    /// compared.
    fn unchanged(&self, entry: &Entry, key: &str, seen: &Seen) -> Result<Option<Decision>> {
        if seen.size != entry.evidence.size {
            return Ok(None);
        }
        let find = |catalogue: &Catalogue| catalogue.find(&entry.path).ok()?;
        let remembered = lock(&self.catalogue).as_ref().and_then(find);
        if let Some(remembered) = remembered {
            return self.remembered(entry, key, seen, remembered);
        }
        let Some(head) = self.head_of(key, seen)? else { return Ok(None) };
        if head.about.mtime != Some(entry.evidence.mtime) {
            return Ok(None);
        }
        if self.terms.verify >= VerifyLevel::Readback {
            return Ok(Some(Decision::Wanted { left: None, candidate: Some(seen.size) }));
        }
        Ok(Some(self.kept(entry, &head.about, None)))
    }

    /// What stands there, if it is still what was seen.
    fn head_of(&self, key: &str, seen: &Seen) -> Result<Option<Head>> {
        Ok(self.shared.bucket.head(key)?.filter(|head| head.seen.etag == seen.etag))
    }

    /// The content is known by what both sides show of it. More may be wanted beside the object than was remembered to
    /// be there, and a record of an earlier version says nothing of that: then the object is asked. What stands there
    /// is not sent again.
    fn remembered(
        &self,
        entry: &Entry,
        key: &str,
        seen: &Seen,
        remembered: Remembered,
    ) -> Result<Option<Decision>> {
        let Remembered { evidence, digest } = remembered;
        let is_shown = |read: &Evidence| evidence[..SHOWN_BYTES] == shown(read, &seen.etag)[..SHOWN_BYTES];
        let is_known = is_shown(&entry.evidence);
        if !is_known && !is_shown(&as_staged(&entry.evidence)) {
            return Ok(None);
        }
        let wanted = self.about(entry);
        let mut enough = subsets(entry).filter(|beside| has(beside, &wanted));
        if is_known && enough.any(|beside| evidence == proof(&entry.evidence, &seen.etag, &beside)) {
            return Ok(Some(settled(Outcome::Unchanged { digest: Some(digest) }, false)));
        }
        let Some(head) = self.head_of(key, seen)? else { return Ok(None) };
        let beside = head.about;
        if !is_known {
            // Without the digest of what a stage brought: whether the source has that content only its time says. What
            // a stage could not keep beside it, such as an owner, comes with the content.
            return Ok(has(&beside, &wanted).then(|| self.kept(entry, &beside, None)));
        }
        self.remember(entry, &Done { etag: head.seen.etag, digest, beside });
        Ok(Some(self.kept(entry, &beside, Some(digest))))
    }

    fn remember(&self, entry: &Entry, done: &Done) {
        if let Some(catalogue) = &mut *lock(&self.catalogue) {
            let read = if self.options.of_stage { as_staged(&entry.evidence) } else { entry.evidence };
            let evidence = proof(&read, &done.etag, &of_file(entry, &done.beside));
            let remembered = Remembered { evidence, digest: done.digest };
            let _ = catalogue.put(&entry.path, remembered, Instant::now());
        }
    }

    /// The content stays, and with it what is beside it: that is written with content only.
    fn kept(&self, entry: &Entry, beside: &About, digest: Option<Digest>) -> Decision {
        if has(beside, &self.about(entry)) {
            return settled(Outcome::Unchanged { digest }, false);
        }
        let why = "an object gets its mode, owner and time with its content only, which is the same";
        let losses = vec![Loss { what: "metadata".to_owned(), why: why.to_owned() }];
        settled(Outcome::Done { digest, losses }, false)
    }

    /// What an attempt left of this file. What it left of another one is thrown away.
    fn resume(&self, entry: &Entry, key: &str, reading: Reading<'_>) -> Result<Option<Left>> {
        let (size, about) = (entry.evidence.size, self.about(entry));
        let (number, noted, parts) = loop {
            let Some((number, noted)) = lock(&self.shared.notes).find(key) else { return Ok(None) };
            if !reading(0, size) {
                return Ok(None);
            }
            let is_same = noted.evidence.lasting() == entry.evidence.lasting()
                && noted.chunk_bytes == self.terms.chunk_bytes
                && noted.about == words_of(&about);
            let parts = if is_same { self.sound(&noted)? } else { Vec::new() };
            if !parts.is_empty() {
                break (number, noted, parts);
            }
            self.forget(number, &noted)?;
        };
        reading(size, size);
        let present = parts.iter().map(|(part, digest)| (u64::from(part.number) - 1, *digest)).collect();
        let partial = ObjectPartial::new(&self.shared, number, key.to_owned(), entry, about);
        partial.go_on(noted.upload(), parts.into_iter().map(|(part, _)| part).collect());
        Ok(Some(Left { partial: self.register(number, &partial), present }))
    }

    /// Parts that stand in the store as they are noted.
    fn sound(&self, noted: &Noted) -> Result<Vec<(Part, Digest)>> {
        let parts = match self.shared.bucket.parts(&noted.upload()) {
            Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
            // It expired, somebody ended it, or nobody can go on with what the store says of it.
            Err(failure) => {
                tracing::debug!(%failure, "an upload is begun anew");
                return Ok(Vec::new());
            }
            Ok(parts) => parts,
        };
        let sound = parts.into_iter().filter_map(|part| {
            let known = noted.parts.get(&part.number).filter(|known| part.number > 0 && known.is(&part))?;
            let digest = known.digest()?;
            Some((part, digest))
        });
        Ok(sound.collect())
    }

    /// Throws away what was begun for a key before: soon, for who begins another may hold up all streams.
    pub(super) fn forget_older(&self, key: &str) {
        let mut notes = lock(&self.shared.notes);
        let Some((number, noted)) = notes.find(key) else { return };
        notes.give_up(number);
        drop(notes);
        let shared = self.shared.clone();
        self.shared.threads.give(
            0,
            Box::new(move || match abort(&*shared.bucket, &noted.upload()) {
                Ok(()) => lock(&shared.notes).end(number),
                Err(failure) => tracing::warn!(%failure, "an upload is left in the store for now"),
            }),
        );
    }

    /// Ends an upload. One that the store does not let go of is noted still, and nobody goes on with it.
    fn forget(&self, number: u64, noted: &Noted) -> Result<()> {
        match abort(&*self.shared.bucket, &noted.upload()) {
            Ok(()) => lock(&self.shared.notes).end(number),
            Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
            Err(failure) => {
                tracing::warn!(%failure, "an upload is left in the store for now");
                lock(&self.shared.notes).give_up(number);
            }
        }
        Ok(())
    }

    /// What stood there when the entry was decided, if it still does.
    fn still(&self, entry: &Entry) -> Result<Option<(String, Seen, About)>> {
        let seen = self.stood(entry);
        let (_, key) = self.key_of(&entry.path)?;
        let head = self.shared.bucket.head(&key)?;
        Ok(match (seen, head) {
            (Some(seen), Some(head)) if seen.etag == head.seen.etag => Some((key, head.seen, head.about)),
            _ => None,
        })
    }

    pub(super) fn open_existing(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        let (key, seen, _) = self.still(entry)?.ok_or_else(|| {
            let cause = "something else stands at the destination than when it was decided";
            Failure::new(FailureKind::Changed, COMPARE, cause).at(&entry.path)
        })?;
        Ok(open_version(&self.shared.bucket, key, seen, self.terms.chunk_bytes))
    }

    pub(super) fn keep_compared(&self, entry: &Entry, digest: Digest) -> Decision {
        match self.still(entry) {
            Ok(None) => Decision::Fresh,
            // It may be another one than was listed.
            Ok(Some((_, seen, _))) if self.terms.removes_source && may_be_source(&entry.evidence, &seen) => {
                skipped(MAY_BE_SOURCE)
            }
            Ok(Some((_, seen, about))) => {
                if let Some(flight) = lock(&self.flights).all.get_mut(&entry.id)
                    && !seen.etag.is_empty()
                {
                    flight.done = Some(Done { etag: seen.etag, digest, beside: about });
                }
                self.kept(entry, &about, Some(digest))
            }
            Err(failure) => settled(Outcome::Failed(failure_at(failure, &entry.path)), false),
        }
    }

    /// What stands there may be damaged: whatever it and its source show the next time, it is sent again.
    pub(super) fn note_damaged(&self, id: EntryId) {
        let path = lock(&self.flights).path_of(id);
        if let Some(path) = path
            && let Some(catalogue) = &mut *lock(&self.catalogue)
        {
            let never = Remembered { evidence: [0; 16], digest: Digest::default() };
            let _ = catalogue.put(&path, never, Instant::now());
        }
    }

    pub(super) fn note_settled(&self, entry: &Entry, outcome: &Outcome) {
        let flight = lock(&self.flights).settle(entry);
        if let Ok((_, key)) = self.key_of(&entry.path) {
            self.shared.forget_own(&key);
        }
        let done = flight.and_then(|flight| flight.done);
        if let (Some(done), Outcome::Done { .. } | Outcome::Unchanged { .. }) = (done, outcome) {
            self.remember(entry, &done);
        }
    }
}

/// Whether what stands there may be what is read: at another address of the store, by a mount of the bucket, or in the
/// directory that it is made of. Only a bucket's inode tells a version, and times are told in full seconds or not.
pub(super) fn may_be_source(read: &Evidence, seen: &Seen) -> bool {
    read.size == seen.size && read.ctime.seconds.abs_diff(seen.modified.seconds) <= 1
}

/// What both sides show of the content: when it was put the store does not always tell.
fn shown(read: &Evidence, etag: &str) -> [u8; 16] {
    bind(read, &Evidence { size: read.size, inode: version_of(etag), ..Evidence::default() })
}

/// What the catalogue goes by: what both sides showed, and behind it what of the file the object had beside it. Earlier
/// versions remembered 16 bytes of the first, which end like none of the second but once in 2^48 times.
fn proof(read: &Evidence, etag: &str, beside: &About) -> [u8; 16] {
    let mut proof = shown(read, etag);
    let words = blake3::hash(words_of(beside).as_bytes());
    proof[SHOWN_BYTES..].copy_from_slice(&words.as_bytes()[SHOWN_BYTES..16]);
    proof
}

/// What an object may have beside it of its file: all of it first, and at last nothing.
fn subsets(entry: &Entry) -> impl Iterator<Item = About> {
    let (mtime, mode, uid, gid) = (entry.evidence.mtime, entry.mode, entry.uid, entry.gid);
    (0..16_u8).rev().map(move |some| About {
        mtime: (some & 1 != 0).then_some(mtime),
        mode: (some & 2 != 0).then_some(mode),
        uid: (some & 4 != 0).then_some(uid),
        gid: (some & 8 != 0).then_some(gid),
        blake3: None,
    })
}

/// Of what is beside an object, what its file has.
fn of_file(entry: &Entry, beside: &About) -> About {
    About {
        mtime: beside.mtime.filter(|mtime| *mtime == entry.evidence.mtime),
        mode: beside.mode.filter(|mode| *mode == entry.mode),
        uid: beside.uid.filter(|uid| *uid == entry.uid),
        gid: beside.gid.filter(|gid| *gid == entry.gid),
        blake3: None,
    }
}

/// What a file and its copy in a stage have in common.
fn as_staged(evidence: &Evidence) -> Evidence {
    Evidence { size: evidence.size, mtime: evidence.mtime, ..Evidence::default() }
}

fn failure_at(failure: Failure, path: &RelativePath) -> Failure {
    if failure.path.is_some() { failure } else { failure.at(path) }
}

fn conflict(cause: &str) -> Failure {
    Failure::new(FailureKind::Conflict, "write the object", cause)
}

fn settled(outcome: Outcome, made: bool) -> Decision {
    Decision::Settled { outcome, made }
}

fn done(losses: Vec<Loss>) -> Decision {
    settled(Outcome::Done { digest: None, losses }, false)
}

fn skipped(reason: &str) -> Decision {
    settled(Outcome::Skipped(reason.to_owned()), false)
}
