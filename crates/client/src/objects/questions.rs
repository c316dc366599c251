//! Questions about a bucket that need no copy: what is there, its bytes, its digests, and removing it.
//!
//! A key that an object has is that object; else it is a directory of what begins with it and a slash. Modes and times
//! are not asked for: those that are told are the store's. Content is compared by reading it, of one version; no
//! checksum of the store is believed for it.
//!
//! Names come in the order of keys, which is not that of listings: they are told as unordered.

use super::{Bucket, check};
use crate::threads;
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use thalweg_mover::endpoint::local::survey::{DigestAs, Digested, Found, Listed, PIECE_BYTES};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result, shown_path};
use thalweg_mover::mutex::lock;
use thalweg_objects::location::{Location, why_no_path};
use thalweg_objects::store;
use thalweg_objects::store::Seen;
use thalweg_wire::digest::{HASHED_HOLE_BYTES_MAX, Rule, Tree};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath};

/// Uploads that were not completed.
mod uploads;

pub use uploads::{Cleaning, LeftUpload, UploadState};

/// Objects digested at a time: as many hide the answers of a store that is near. Of one that is far it is more, see
/// [`store::Store::requests_at_once`].
const WORKERS_NEAR: usize = 16;
/// Objects handed out and not told, for each that is digested at a time.
const UNDER_WAY_EACH: usize = 2;
/// Between two signs of life while no object ends.
const ALIVE_EVERY: Duration = Duration::from_secs(2);

/// What fails where a place is listed.
const LIST: &str = "list";

/// Whether somebody still wants the answer.
type GoOn<'a> = &'a dyn Fn() -> Result<()>;

/// What a walk finds.
enum Walked {
    Directory(RelativePath),
    Object(RelativePath, store::Listed),
    Trouble(Failure),
}

/// An object that is to be digested.
struct Job {
    path: RelativePath,
    key: String,
    seen: Seen,
}

impl Bucket {
    /// A place below this one; `path` is bytes, relative.
    pub(crate) fn below(&self, path: &[u8]) -> Bucket {
        let key = super::key_below(&self.location.key, path);
        self.at(&Location { bucket: self.location.bucket.clone(), key })
    }

    /// What stands there, without what is in it.
    ///
    /// # Errors
    /// `NotFound`; what the store says.
    pub(crate) fn look(&self) -> Result<Entry> {
        if let Some((name, seen)) = self.object()? {
            return Ok(entry(name, &seen));
        }
        // Of a bucket that is empty the answer is that it is there.
        let has_keys = self.store.has_keys(&self.prefix())?;
        match has_keys || self.location.key.is_empty() {
            true => Ok(directory(RelativePath::root())),
            false => Err(self.absent()),
        }
    }

    /// Lists it; all levels if `recursive`.
    ///
    /// # Errors
    /// `NotFound`; what the store, `go_on` and `sink` say.
    pub(crate) fn list(
        &self,
        recursive: bool,
        go_on: GoOn<'_>,
        sink: &mut dyn FnMut(Listed) -> Result<()>,
    ) -> Result<()> {
        let mut tell = |found| sink(Listed::Found(found));
        if let Some((name, seen)) = self.object()? {
            return tell(Found::Entry(entry(name, &seen)));
        }
        let mut is_there = self.location.key.is_empty() || self.is_directory;
        let mut told_root = false;
        let mut each = |walked: Walked| {
            is_there = true;
            if !std::mem::replace(&mut told_root, true) {
                sink(Listed::Found(Found::Entry(directory(RelativePath::root()))))?;
                sink(Listed::Unordered(RelativePath::root()))?;
            }
            sink(Listed::Found(match walked {
                Walked::Directory(path) => Found::Entry(directory(path)),
                Walked::Object(path, object) => Found::Entry(entry(path, &object.seen)),
                Walked::Trouble(failure) => Found::Trouble(failure),
            }))
        };
        match recursive {
            true => self.walk(go_on, &mut each)?,
            false => self.walk_one_level(go_on, &mut each)?,
        }
        match (is_there, told_root) {
            (false, _) => Err(self.absent()),
            (true, true) => Ok(()),
            (true, false) => sink(Listed::Found(Found::Entry(directory(RelativePath::root())))),
        }
    }

    /// Digests the objects in it whose paths are wanted, several at a time; they are told as they are done.
    ///
    /// # Errors
    /// As [`Bucket::list`].
    pub(crate) fn digest_wanted(
        &self,
        how: DigestAs,
        wanted: &dyn Fn(&RelativePath) -> bool,
        go_on: GoOn<'_>,
        sink: &mut dyn FnMut(Digested) -> Result<()>,
    ) -> Result<()> {
        let single = self.object()?;
        let is_over = AtomicBool::new(false);
        // No more is in these than is under way.
        let (give, take) = channel::<Job>();
        let take = Mutex::new(take);
        let (tell, hear) = channel::<Digested>();
        std::thread::scope(|scope| {
            let (take, is_over) = (&take, &is_over);
            let start = move || {
                let tell = tell.clone();
                let work = move || {
                    while let Some(job) = next(take) {
                        if tell.send(self.digested(job, how, is_over)).is_err() {
                            return;
                        }
                    }
                };
                threads::spawn_scoped(scope, "digest", work).map(drop)
            };
            let mut answers = Answers { hear: &hear, under_way: 0, workers: 0, go_on, sink };
            let hand_out = |answers: &mut Answers<'_>, job: Job| {
                // By now: before the first list came nobody knew how far the store is.
                let at_once = self.store.requests_at_once(job.seen.size, WORKERS_NEAR);
                answers.hand_out(&give, job, at_once, &start)
            };
            let walked = match single {
                Some((path, _)) if !wanted(&path) => answers.alive(),
                Some((path, seen)) => {
                    hand_out(&mut answers, Job { path, key: self.location.key.clone(), seen })
                }
                None => self.walk(go_on, &mut |walked| match walked {
                    Walked::Object(path, _) if !wanted(&path) => answers.alive(),
                    Walked::Object(path, store::Listed { key, seen, .. }) => {
                        hand_out(&mut answers, Job { path, key, seen })
                    }
                    Walked::Directory(_) => Ok(()),
                    Walked::Trouble(failure) => (answers.sink)(Digested::Trouble(failure)),
                }),
            };
            // Only those who digest can tell from now on.
            drop(start);
            let ended = walked.and_then(|()| answers.hear_all());
            // What is under way is of no use any more, or there is none.
            is_over.store(true, Ordering::Relaxed);
            drop(give);
            ended
        })
    }

    /// Reads at most `bytes` of the object from `offset` on, all of one version; fewer where it ends.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` for a directory; `Changed` if it is no more what was `seen`, or is overwritten meanwhile;
    /// what the store, `go_on` and `sink` say.
    pub(crate) fn read(
        &self,
        offset: u64,
        bytes: u64,
        was: Option<Evidence>,
        go_on: GoOn<'_>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let Some((name, seen)) = self.object()? else {
            self.look()?;
            return Err(Failure::new(FailureKind::Conflict, "read", "it is no object, but a directory"));
        };
        if was.is_some_and(|was| was != entry(name, &seen).evidence) {
            let cause = "it is not the object that was opened any more";
            let failure = Failure::new(FailureKind::Changed, "read on", cause);
            return Err(failure.because(Reason::NameReplaced));
        }
        let end = offset.saturating_add(bytes).min(seen.size);
        let mut buffer = vec![0; PIECE_BYTES];
        let mut at = offset;
        while at < end {
            go_on()?;
            let want = (end - at).min(PIECE_BYTES as u64) as usize;
            let got = self.store.read(&self.location.key, &seen, at, end, &mut buffer[..want])?;
            if got == 0 {
                return Err(became_shorter());
            }
            sink(&buffer[..got])?;
            at += got as u64;
        }
        Ok(())
    }

    /// Removes the object, or with `recursive` all that is in the directory; counts what is gone.
    ///
    /// # Errors
    /// `NotFound`; `Usage` for a bucket; `Conflict` for a directory without `recursive`; what the store and `go_on`
    /// say.
    pub(crate) fn remove(
        &self,
        recursive: bool,
        count: &mut u64,
        go_on: GoOn<'_>,
        trouble: &mut dyn FnMut(Failure),
    ) -> Result<()> {
        if self.location.key.is_empty() {
            let cause = "a bucket is not removed: name what is in it";
            return Err(Failure::new(FailureKind::Usage, "remove", cause));
        }
        if self.object()?.is_some() {
            return self.remove_keys(slice::from_ref(&self.location.key), count, trouble);
        }
        self.look()?;
        if !recursive {
            return Err(Failure::new(FailureKind::Conflict, "remove", "it is a directory: use -r"));
        }
        let (prefix, mut after) = (self.prefix(), None);
        loop {
            go_on()?;
            let page = self.store.list(&prefix, false, after.as_deref())?;
            let keys: Vec<String> = page.objects.into_iter().map(|object| object.key).collect();
            let keys = self.those_there(keys, trouble)?;
            if !keys.is_empty() {
                self.remove_keys(&keys, count, trouble)?;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Removes objects by their keys, and counts what is gone.
    fn remove_keys(&self, keys: &[String], count: &mut u64, trouble: &mut dyn FnMut(Failure)) -> Result<()> {
        let all = keys.len() as u64;
        let stay = self.store.remove(keys)?;
        *count += all.saturating_sub(stay.len() as u64);
        for (key, failure) in stay {
            let cause = format!("`{}`: {}", shown_path(key.as_bytes()), failure.cause);
            trouble(Failure::new(failure.kind, "remove", cause));
        }
        Ok(())
    }

    /// Listed keys under which something stands. Some stores put U+FFFD in the place of what their lists cannot say:
    /// the object has another key then, which nobody can name, and a store says of any that it is gone.
    fn those_there(&self, listed: Vec<String>, trouble: &mut dyn FnMut(Failure)) -> Result<Vec<String>> {
        let mut keys = Vec::with_capacity(listed.len());
        for key in listed {
            let there = match key.contains(char::REPLACEMENT_CHARACTER) {
                true => self.store.head(&key).map(|head| head.is_some()),
                false => Ok(true),
            };
            match there {
                Ok(true) => {
                    keys.push(key);
                    continue;
                }
                Ok(false) => {}
                Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
                Err(failure) => {
                    trouble(failure);
                    continue;
                }
            }
            let cause = format!(
                "`{}`: the store lists this key and has no object there: its own has bytes that a list cannot say",
                shown_path(key.as_bytes())
            );
            trouble(Failure::new(FailureKind::Unsupported, "remove", cause));
        }
        Ok(keys)
    }

    /// Whether a key is this place's own, or of what is in it.
    fn has(&self, key: &str) -> bool {
        key == self.location.key || key.starts_with(&self.prefix())
    }

    /// The object that has this very key, and its own name.
    fn object(&self) -> Result<Option<(RelativePath, Seen)>> {
        let key = &self.location.key;
        if key.is_empty() || key.ends_with('/') {
            return Ok(None);
        }
        // A name that is no key stands nowhere.
        check(&self.location).map_err(|_| self.absent())?;
        let Some(head) = self.store.head(key)? else { return Ok(None) };
        let name = key.rsplit('/').next().unwrap_or_default();
        let name = RelativePath::new(name.as_bytes().to_vec()).map_err(|_| no_path(key))?;
        Ok(Some((name, head.seen)))
    }

    /// What the keys of all that is in it begin with.
    fn prefix(&self) -> String {
        match &*self.location.key {
            "" => String::new(),
            key if key.ends_with('/') => key.to_owned(),
            key => format!("{key}/"),
        }
    }

    fn absent(&self) -> Failure {
        let cause = format!(
            "`{}`: no object has this key, and none has one that begins with it",
            shown_path(self.location.to_string().as_bytes())
        );
        Failure::new(FailureKind::NotFound, "look up", cause)
    }

    /// Tells all objects in it, each directory once and before what is in it.
    fn walk(&self, go_on: GoOn<'_>, each: &mut dyn FnMut(Walked) -> Result<()>) -> Result<()> {
        let (prefix, mut after) = (self.prefix(), None);
        let mut directories = Directories::default();
        loop {
            go_on()?;
            let page = self.store.list(&prefix, false, after.as_deref())?;
            for object in page.objects {
                let Some(rest) = object.key.strip_prefix(&prefix) else { continue };
                let is_marker = (rest.is_empty() || rest.ends_with('/')) && object.seen.size == 0;
                if !is_marker && why_no_path(rest).is_some() {
                    each(Walked::Trouble(no_path(&object.key)))?;
                    continue;
                }
                let rest = rest.to_owned();
                directories.come_to(&rest, each)?;
                if !is_marker {
                    match RelativePath::new(rest.into_bytes()) {
                        Ok(path) => each(Walked::Object(path, object))?,
                        Err(_) => each(Walked::Trouble(no_path(&object.key)))?,
                    }
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// As [`Bucket::walk`], without what is in directories.
    fn walk_one_level(&self, go_on: GoOn<'_>, each: &mut dyn FnMut(Walked) -> Result<()>) -> Result<()> {
        let (prefix, mut after) = (self.prefix(), None);
        loop {
            go_on()?;
            let page = self.store.list(&prefix, true, after.as_deref())?;
            for below in &page.prefixes {
                let name = below.strip_prefix(&prefix).and_then(|name| name.strip_suffix('/'));
                let path = name.and_then(|name| RelativePath::new(name.as_bytes().to_vec()).ok());
                match path.filter(|path| !path.is_root()) {
                    Some(path) => each(Walked::Directory(path))?,
                    None => each(Walked::Trouble(no_path(below)))?,
                }
            }
            for object in page.objects {
                let Some(rest) = object.key.strip_prefix(&prefix) else { continue };
                if rest.is_empty() && object.seen.size == 0 {
                    continue;
                }
                match RelativePath::new(rest.as_bytes().to_vec()).ok().filter(|path| !path.is_root()) {
                    Some(path) => each(Walked::Object(path, object))?,
                    None => each(Walked::Trouble(no_path(&object.key)))?,
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn digested(&self, job: Job, how: DigestAs, is_over: &AtomicBool) -> Digested {
        match self.digest_object(&job.key, &job.seen, how, is_over) {
            Ok(digest) => Digested::File(job.path, job.seen.size, digest),
            Err(failure) => Digested::Trouble(failure.at(&job.path)),
        }
    }

    fn digest_object(&self, key: &str, seen: &Seen, how: DigestAs, is_over: &AtomicBool) -> Result<Digest> {
        let bytes = seen.size;
        let mut digesting = match how {
            DigestAs::Marked { segment_bytes } if bytes > HASHED_HOLE_BYTES_MAX => Digesting::Marked(
                Rule { file_bytes: bytes, segment_bytes, marked: true },
                Tree::new(bytes, segment_bytes),
            ),
            _ => Digesting::Plain(Box::default()),
        };
        let piece_bytes = match &digesting {
            Digesting::Marked(rule, _) => rule.segment_bytes,
            Digesting::Plain(_) => PIECE_BYTES as u64,
        };
        let mut buffer = vec![0; usize::try_from(piece_bytes.min(bytes)).unwrap_or(PIECE_BYTES)];
        let mut at = 0;
        while at < bytes {
            if is_over.load(Ordering::Relaxed) {
                return Err(Failure::new(FailureKind::Stopped, "digest", "nobody waits for it any more"));
            }
            let want = (bytes - at).min(piece_bytes) as usize;
            let got = self.store.read(key, seen, at, bytes, &mut buffer[..want])?;
            if got != want {
                return Err(became_shorter());
            }
            digesting.update(at, &buffer[..want])?;
            at += want as u64;
        }
        digesting.finish()
    }
}

/// Which directories were told, as keys come in their order.
#[derive(Default)]
struct Directories {
    /// The key that came last.
    last: String,
    /// Objects whose keys the last one begins with: what is in a directory with such a name is beside an object.
    above: Vec<String>,
}

impl Directories {
    /// Tells those that this key is in, and were not told.
    fn come_to(&mut self, key: &str, each: &mut dyn FnMut(Walked) -> Result<()>) -> Result<()> {
        self.above.retain(|above| key.starts_with(above.as_str()));
        for (end, _) in key.match_indices('/') {
            let (name, with_slash) = (&key[..end], &key[..=end]);
            if self.last.starts_with(with_slash) {
                continue;
            }
            let path = RelativePath::new(name.as_bytes().to_vec()).ok().filter(|path| !path.is_root());
            match path {
                Some(path) if self.above.iter().any(|above| above == name) => {
                    let cause = "an object and a directory have this name";
                    each(Walked::Trouble(Failure::new(FailureKind::Conflict, LIST, cause).at(&path)))?;
                }
                Some(path) => each(Walked::Directory(path))?,
                None => each(Walked::Trouble(no_path(with_slash)))?,
            }
        }
        if !key.ends_with('/') {
            self.above.push(key.to_owned());
        }
        key.clone_into(&mut self.last);
        Ok(())
    }
}

/// Digests that are under way, and who hears them.
struct Answers<'a> {
    hear: &'a Receiver<Digested>,
    under_way: usize,
    /// Threads that digest.
    workers: usize,
    go_on: GoOn<'a>,
    sink: &'a mut dyn FnMut(Digested) -> Result<()>,
}

impl Answers<'_> {
    fn alive(&mut self) -> Result<()> {
        (self.sink)(Digested::Alive)
    }

    /// Hands one out, once there is room for another. `at_once`: so many like it are digested at a time, each by a
    /// thread; `start` starts one more where those that are there may have enough to do.
    fn hand_out(
        &mut self,
        give: &Sender<Job>,
        job: Job,
        at_once: usize,
        start: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        while self.under_way >= UNDER_WAY_EACH * at_once {
            self.hear_one()?;
        }
        if self.workers < at_once && self.workers <= self.under_way {
            match start() {
                Ok(()) => self.workers += 1,
                Err(failure) if self.workers == 0 => return Err(failure),
                // Fewer of them only take longer.
                Err(_) => {}
            }
        }
        give.send(job).map_err(|_| ended_early())?;
        self.under_way += 1;
        Ok(())
    }

    fn hear_all(&mut self) -> Result<()> {
        while self.under_way > 0 {
            self.hear_one()?;
        }
        Ok(())
    }

    fn hear_one(&mut self) -> Result<()> {
        loop {
            (self.go_on)()?;
            match self.hear.recv_timeout(ALIVE_EVERY) {
                Ok(digested) => {
                    self.under_way -= 1;
                    return (self.sink)(digested);
                }
                Err(RecvTimeoutError::Timeout) => self.alive()?,
                Err(RecvTimeoutError::Disconnected) => return Err(ended_early()),
            }
        }
    }
}

/// The next object; `None` when there are no more.
fn next(take: &Mutex<Receiver<Job>>) -> Option<Job> {
    lock(take).recv().ok()
}

/// As `survey` digests a file.
enum Digesting {
    Plain(Box<blake3::Hasher>),
    Marked(Rule, Tree),
}

impl Digesting {
    fn update(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Digesting::Plain(hasher) => {
                hasher.update(bytes);
            }
            Digesting::Marked(rule, tree) => {
                let digest = rule.segment(at, bytes).ok_or_else(became_shorter)?;
                tree.insert(at / rule.segment_bytes, digest);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Digest> {
        match self {
            Digesting::Plain(hasher) => Ok(Digest(*hasher.finalize().as_bytes())),
            Digesting::Marked(_, tree) => tree.root().ok_or_else(|| {
                Failure::new(FailureKind::Internal, "digest", "segments of the object are missing")
            }),
        }
    }
}

/// An object as an entry. Its inode is not told: objects with the same content may look like names of one.
fn entry(path: RelativePath, seen: &Seen) -> Entry {
    let evidence =
        Evidence { size: seen.size, mtime: seen.modified, ctime: seen.modified, ..Evidence::default() };
    Entry { kind: Kind::File { sparse: false, marked: false }, mode: 0o644, evidence, ..directory(path) }
}

fn directory(path: RelativePath) -> Entry {
    Entry {
        id: EntryId(0),
        path,
        kind: Kind::Directory,
        mode: 0o755,
        uid: thalweg_sys::user::effective_uid(),
        gid: thalweg_sys::user::effective_gid(),
        evidence: Evidence::default(),
        xattrs: Vec::new(),
    }
}

fn no_path(key: &str) -> Failure {
    let why = why_no_path(key).unwrap_or("has a component that is longer than a name of a file");
    let cause = format!("the key `{}` {why}, so that it is no path", shown_path(key.as_bytes()));
    Failure::new(FailureKind::Unsupported, LIST, cause)
}

fn became_shorter() -> Failure {
    Failure::new(FailureKind::Changed, "read", "the object became shorter")
}

fn ended_early() -> Failure {
    Failure::new(FailureKind::Internal, "digest", "a thread ended early")
}

#[cfg(test)]
mod tests {
    use super::super::tests::bucket;
    use super::*;
    use std::cell::Cell;
    use thalweg_objects::testing::{Fake, Fault};
    use thalweg_wire::Time;

    #[test]
    fn a_prefix_without_objects_is_not_there_unless_it_is_known_to_be_a_directory() {
        let fake = Fake::start().unwrap();
        let list = |bucket: &Bucket| {
            let mut found = 0;
            bucket.list(true, &|| Ok(()), &mut |_| {
                found += 1;
                Ok(())
            })?;
            Ok::<u32, Failure>(found)
        };
        let place = bucket(&fake, "run7/");
        assert_eq!(list(&place).unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(list(&place.clone().as_directory()).unwrap(), 1);
        // A bucket that is not there is none.
        fake.fail("ListObjectsV2", 1, Fault::refuse(404, "NoSuchBucket"));
        assert_eq!(list(&place.as_directory()).unwrap_err().kind, FailureKind::NotFound);
    }

    #[test]
    fn what_is_listed_behind_pages_that_are_empty_is_found_and_removed() {
        let fake = Fake::start().unwrap();
        fake.put("run7/a", b"x");
        let place = bucket(&fake, "run7");
        fake.empty_pages(2);
        assert!(matches!(place.look().unwrap().kind, Kind::Directory));
        fake.empty_pages(1);
        let mut count = 0;
        place.remove(true, &mut count, &|| Ok(()), &mut |failure| panic!("{failure}")).unwrap();
        assert_eq!((count, fake.keys().len()), (1, 0));
        fake.empty_pages(2);
        assert_eq!(place.look().unwrap_err().kind, FailureKind::NotFound);
    }

    #[test]
    fn a_key_that_a_store_lists_in_place_of_another_is_trouble_and_does_not_count_as_removed() {
        let fake = Fake::start().unwrap();
        let there = ["run7/a", "run7/c\u{fffd}"];
        there.iter().for_each(|key| drop(fake.put(key, b"x")));
        let of = |key: &str| {
            let time = "<LastModified>2024-01-01T00:00:00.000Z</LastModified>";
            format!("<Contents><Key>{key}</Key>{time}<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>")
        };
        let keys = ["run7/a", "run7/b%EF%BF%BD", "run7/c%EF%BF%BD"].map(of).concat();
        let words = format!(
            "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{keys}\
             </ListBucketResult>"
        );
        fake.fail("ListObjectsV2", usize::MAX, Fault::Say { status: 200, headers: Vec::new(), words });
        let (mut count, mut told) = (0, Vec::new());
        let mut trouble = |failure: Failure| told.push(failure);
        bucket(&fake, "run7/").remove(true, &mut count, &|| Ok(()), &mut trouble).unwrap();
        assert_eq!((count, fake.keys().len(), told.len()), (2, 0, 1));
        let failure = &told[0];
        assert!(failure.kind == FailureKind::Unsupported && failure.cause.contains("run7/b"), "{failure}");
    }

    #[test]
    fn as_many_objects_are_digested_at_once_as_are_to_be_for_their_size_and_twice_as_many_are_handed_out() {
        let job = || {
            let seen = Seen { size: 0, etag: String::new(), modified: Time::default(), storage_class: None };
            Job { path: RelativePath::root(), key: String::new(), seen }
        };
        let ((give, _take), (tell, hear)) = (channel(), channel());
        let (started, has_threads) = (Cell::new(0), Cell::new(true));
        let start = || {
            if !has_threads.get() {
                return Err(ended_early());
            }
            started.set(started.get() + 1);
            Ok(())
        };
        let go_on = || -> Result<()> { Ok(()) };
        let mut sink = |_: Digested| -> Result<()> { Ok(()) };
        let mut answers = Answers { hear: &hear, under_way: 0, workers: 0, go_on: &go_on, sink: &mut sink };
        answers.hand_out(&give, job(), 16, &start).unwrap();
        assert_eq!(started.get(), 1);
        for _ in 1..256 {
            answers.hand_out(&give, job(), 128, &start).unwrap();
        }
        assert_eq!((started.get(), answers.under_way), (128, 256));
        // Large ones wait until few are under way.
        (0..256).for_each(|_| tell.send(Digested::Alive).unwrap());
        answers.hand_out(&give, job(), 16, &start).unwrap();
        assert_eq!((started.get(), answers.under_way), (128, 32));
        // One thread is enough, and without any nothing would come.
        has_threads.set(false);
        answers.workers = 1;
        answers.hand_out(&give, job(), 128, &start).unwrap();
        answers.workers = 0;
        assert!(answers.hand_out(&give, job(), 128, &start).is_err());
    }

    #[test]
    fn each_directory_is_told_once_and_one_beside_an_object_is_named() {
        let mut directories = Directories::default();
        let mut told = Vec::new();
        for key in ["a", "a-1", "a/b/c", "a/b/d", "b.txt", "b/", "b/c", "c/d"] {
            let mut each = |walked: Walked| {
                told.push(match walked {
                    Walked::Directory(path) => path.to_string(),
                    Walked::Trouble(failure) => failure.cause,
                    Walked::Object(..) => unreachable!("only directories are told"),
                });
                Ok(())
            };
            directories.come_to(key, &mut each).unwrap();
        }
        assert_eq!(told, ["an object and a directory have this name", "a/b", "b", "c"]);
    }

    #[test]
    fn keys_that_are_no_paths_are_told_with_why() {
        for (key, why) in [("a//b", "two slashes"), ("../x", "`..`"), ("/x", "begins with a slash")] {
            let failure = no_path(key);
            assert!(failure.cause.contains(why) && failure.cause.contains(key), "{failure}");
        }
    }
}
