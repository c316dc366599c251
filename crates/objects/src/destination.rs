//! A bucket as a destination.
//!
//! A file becomes an object of its path below the prefix. A small one is put as it comes, whole and verified; of a
//! large one each chunk is a part of an upload, which gets its name when all are there. So nothing but whole content
//! stands under a key, and what stood there when it was decided is replaced only if it still does ([`conditions`]).
//!
//! A small object stays when its entry is withdrawn: what replaces that entry is put over it.
//!
//! What the store answered for is durable; an object of one chunk that is not small is, when it has its name. After
//! success no upload of ours is left; after failure all stay, noted in the state directory ([`notes`]), and the next
//! attempt goes on with them.
//!
//! - [`decide`] looks at what stands there ([`standing`]), what an earlier run remembers, and what an attempt left;
//! - [`partial`] gathers chunks and hands them over, within [`bounds`];
//! - [`read_back`] reads again what stands there, if that is asked for;
//! - [`deletion`] removes at the end what the source lacks, if that is asked for;
//! - [`leftover`] finds what attempts left that nobody goes on with.

use self::bounds::{Budget, MEMORY_BYTES_MAX, Permit, STALE, STALL_MORE, Threads};
use self::conditions::Conditions;
use self::decide::Childless;
use self::deletion::Deletion;
use self::leftover::abort;
use self::notes::Notes;
use self::partial::ObjectPartial;
use self::read_back::READ_BACK;
use self::standing::Standing;
use crate::bucket::AnyBucket;
use crate::location::Location;
use crate::store::{About, Seen, Store};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::together::Together;
use thalweg_mover::endpoint::{
    Conclusion, Decision, Destination, Listing, OPEN_DESTINATION, PartialFile, Reading, Ready, Small,
    SourceFile, Staged,
};
use thalweg_mover::failure::{Reason, VERIFY, counted, shown_path};
use thalweg_mover::journal::catalogue::Catalogue;
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::message::{FilterRule, Loss, Outcome, SourceForm, Terms, VerifyLevel};
use thalweg_wire::{Digest, Entry, EntryId, Kind, RelativePath, Time, hex, limits};

mod bounds;

mod standing;

mod notes;

mod conditions;

mod partial;

mod read_back;

mod decide;

mod deletion;

mod leftover;

pub use leftover::{Leftover, Leftovers};

/// Parts that an upload may have.
pub const PARTS_MAX: u64 = 10_000;
/// Stores take no smaller part but the last; chunks are powers of two, so the smallest has 8 MiB.
pub const PART_BYTES_MIN: u64 = 5 << 20;
const CHUNK_BYTES_MIN: u64 = PART_BYTES_MIN.next_power_of_two();
/// The usual chunk: files of up to 167 GB.
const CHUNK_BYTES: u64 = 16 << 20;
/// What a file that gets its name counts for where requests are bounded by their bytes: between an object of one chunk,
/// which is put then, and parts that are put together, which sends next to nothing.
const FINISH_BYTES: u64 = CHUNK_BYTES / 2;
/// A stream hands over small files in packs and goes on when the whole pack is there: about so many requests that it
/// has under way, with so many bytes each.
const STREAM_REQUESTS: usize = 8;
const STREAM_BYTES: u64 = 64 << 10;
const _: () = assert!(limits::is_chunk_size(CHUNK_BYTES_MIN) && limits::is_chunk_size(CHUNK_BYTES));

/// Bytes of a chunk for a transfer to a bucket: what is `wanted`, else 16 MiB, but at least 8 MiB, and as much as the
/// largest file takes that is known before, in 10,000 parts; at most 64 MiB.
pub fn chunk_bytes_for(wanted: Option<u64>, largest_known: Option<u64>) -> u64 {
    let least = largest_known.unwrap_or(0).div_ceil(PARTS_MAX).max(CHUNK_BYTES_MIN);
    wanted.unwrap_or(CHUNK_BYTES).max(least).min(limits::CHUNK_BYTES_MAX).next_power_of_two()
}

/// How a reason begins for which an entry is left out, though nobody asked for that.
pub const KEEPS_NO: &str = "a bucket keeps no";

/// How a bucket is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DestinationOptions {
    /// Directories become objects without content whose keys end in a slash: empty ones are kept, and the modes and
    /// times of all. It costs a request for each.
    pub directory_markers: bool,
    /// What these rules exclude is not deleted, whatever the source has.
    pub protect: Vec<FilterRule>,
    /// What is read lies in a stage on its way, and has size and time of its source alone: by these it is remembered,
    /// and found by the copy that looks at the source itself. Default: by all that the source shows.
    pub of_stage: bool,
}

/// See the module.
pub struct ObjectDestination {
    shared: Arc<Shared>,
    terms: Terms,
    options: DestinationOptions,
    /// Of all keys; empty or with a slash at its end.
    prefix: String,
    /// A single file gets another name.
    rename: Option<Renamed>,
    standing: Standing,
    catalogue: Mutex<Option<Catalogue>>,
    flights: Mutex<Flights>,
    /// Their listing is too old: the transfer itself may have put something there.
    again: Mutex<HashSet<RelativePath>>,
    childless: Mutex<Childless>,
    deletion: Deletion,
    is_told_unconditional: AtomicBool,
    /// How many objects are read again at this moment, and when one of them went on last.
    read_back: Mutex<(usize, Option<Instant>)>,
    left: Mutex<Option<String>>,
}

/// An entry that is decided and not settled.
#[derive(Default)]
struct Flight {
    /// What stood there.
    seen: Option<Seen>,
    done: Option<Done>,
}

/// What stands there now.
struct Done {
    etag: String,
    /// Of its content.
    digest: Digest,
    /// What it has beside it.
    beside: About,
}

/// By number, and of each path the last.
#[derive(Default)]
struct Flights {
    all: HashMap<EntryId, Flight>,
    last: HashMap<RelativePath, EntryId>,
}

impl Flights {
    fn put(&mut self, entry: &Entry, flight: Flight) {
        self.withdraw(&entry.path);
        self.last.insert(entry.path.clone(), entry.id);
        self.all.insert(entry.id, flight);
    }

    /// The entry at this path that was decided before is not settled any more.
    fn withdraw(&mut self, path: &RelativePath) {
        if let Some(id) = self.last.remove(path) {
            self.all.remove(&id);
        }
    }

    /// That of an entry that is not settled, nor withdrawn.
    fn path_of(&self, id: EntryId) -> Option<RelativePath> {
        self.last.iter().find_map(|(path, last)| (*last == id).then(|| path.clone()))
    }

    fn settle(&mut self, entry: &Entry) -> Option<Flight> {
        if self.last.get(&entry.path) == Some(&entry.id) {
            self.last.remove(&entry.path);
        }
        self.all.remove(&entry.id)
    }
}

/// What partials and threads have in common.
struct Shared {
    bucket: AnyBucket,
    chunk_bytes: u64,
    budget: Arc<Budget>,
    threads: Arc<Threads>,
    notes: Mutex<Notes>,
    partials: Mutex<HashMap<u64, Weak<ObjectPartial>>>,
    conditions: Conditions,
    /// What is read goes once it stands here.
    removes_source: bool,
    /// Small files that were put and are not settled, by key: of entries that were withdrawn too.
    own: Mutex<HashMap<String, Vec<(EntryId, Digest)>>>,
    /// Parts that ended.
    steps: AtomicU64,
}

impl Shared {
    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Another number whenever something went on: on a slow way a part may take longer than is waited.
    fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed).wrapping_add(self.bucket.moved())
    }

    /// Memory for so many bytes, when there is some.
    fn permit(&self, bytes: u64) -> Result<Permit> {
        let (mut steps, mut stepped) = (self.steps(), Duration::ZERO);
        self.budget.take(bytes, |waited| {
            self.check_given_up()?;
            if waited > self.budget.stale {
                self.drop_stale();
            }
            let now = self.steps();
            // What was waited begins anew when some memory was given back.
            if now != steps || waited < stepped {
                (steps, stepped) = (now, waited);
            }
            let stood = waited.saturating_sub(stepped);
            if stood <= self.budget.stall { Ok(()) } else { Err(self.stalled(stood)) }
        })
    }

    /// That it goes on to wait for the store.
    ///
    /// # Errors
    /// `Stopped` if nobody does.
    fn check_given_up(&self) -> Result<()> {
        if !self.bucket.is_given_up() {
            return Ok(());
        }
        let cause = format!("{} is not waited for any more", self.bucket.name());
        Err(Failure::new(FailureKind::Stopped, "write the object", cause))
    }

    fn stalled(&self, waited: Duration) -> Failure {
        let cause = format!("{} has taken nothing for {} s", self.bucket.name(), waited.as_secs());
        Failure::new(FailureKind::Io, "write the object", cause)
    }

    fn drop_stale(&self) {
        let partials: Vec<_> = lock(&self.partials).values().filter_map(Weak::upgrade).collect();
        partials.iter().for_each(|partial| partial.drop_stale());
    }
}

impl ObjectDestination {
    /// Opens a place in a bucket as rsync reads a path: for a single file a key without a slash at its end, below which
    /// nothing is, is its new name; everything else is a prefix. `state` is where the catalogue and the note of uploads
    /// are kept; without it time and size alone recognise what is unchanged, and no upload outlasts the transfer.
    /// Nothing is written yet.
    ///
    /// # Errors
    /// `Usage` for chunks below 8 MiB, and for rules that make no sense; `Conflict` if an object has the name of a
    /// directory; `Busy` if a transfer with the same job key runs here; as [`Store::list`] and [`Store::head`].
    pub fn open(
        store: Arc<Store>,
        location: &Location,
        form: &SourceForm,
        terms: Terms,
        state: Option<&Path>,
        options: DestinationOptions,
    ) -> Result<ObjectDestination> {
        if terms.chunk_bytes < CHUNK_BYTES_MIN {
            let cause = format!(
                "a chunk becomes a part of an object, which has at least {CHUNK_BYTES_MIN} bytes, and not {}",
                terms.chunk_bytes
            );
            return Err(Failure::new(FailureKind::Usage, OPEN_DESTINATION, cause));
        }
        let stall = store.patience().saturating_add(STALL_MORE);
        let budget = Budget::new(MEMORY_BYTES_MAX, STALE, stall);
        ObjectDestination::of(store, location, form, terms, state, options, budget)
    }

    fn of(
        bucket: AnyBucket,
        location: &Location,
        form: &SourceForm,
        terms: Terms,
        state: Option<&Path>,
        options: DestinationOptions,
        budget: Arc<Budget>,
    ) -> Result<ObjectDestination> {
        let (prefix, rename) = place(&bucket, &location.key, form)?;
        let identity = [bucket.name().as_bytes(), b"\0", prefix.as_bytes()].concat();
        let catalogue = state.and_then(|state| open_catalogue(state, &identity, &terms));
        let notes = match state.filter(|_| !terms.dry_run) {
            Some(state) => {
                let job = hex::hex(&terms.job_key);
                Notes::open(state, &[&identity[..], b"\0", job.as_bytes()].concat(), &bucket.name())?
            }
            None => Notes::none(),
        };
        let deletion = Deletion::new(terms.delete_max.is_some(), &options.protect, state)?;
        let shared = Shared {
            bucket: bucket.clone(),
            chunk_bytes: terms.chunk_bytes,
            budget,
            threads: Threads::new(bucket.clone()),
            notes: Mutex::new(notes),
            partials: Mutex::default(),
            conditions: Conditions::default(),
            removes_source: terms.removes_source,
            own: Mutex::default(),
            steps: AtomicU64::new(0),
        };
        let standing = Standing::new(bucket, prefix.clone());
        // What nobody is let into, or is not there, is told once, and not of each entry. The list is wanted anyway.
        standing.look()?;
        Ok(ObjectDestination {
            shared: Arc::new(shared),
            terms,
            options,
            standing,
            prefix,
            rename,
            catalogue: Mutex::new(catalogue),
            flights: Mutex::default(),
            again: Mutex::default(),
            childless: Mutex::default(),
            deletion,
            is_told_unconditional: AtomicBool::new(false),
            read_back: Mutex::default(),
            left: Mutex::default(),
        })
    }

    /// After the end: what is left in the store for the next attempt, for the user to know.
    pub fn note(&self) -> Option<String> {
        lock(&self.left).clone()
    }

    /// The path below the prefix and the key of an entry.
    fn key_of(&self, path: &RelativePath) -> Result<(String, String)> {
        let refused = |cause: &str| {
            let failure = Failure::new(FailureKind::Unsupported, "write the object", cause);
            failure.at(path)
        };
        let below = match &self.rename {
            Some((from, to)) if path.as_bytes() == from => to.clone(),
            _ => match std::str::from_utf8(path.as_bytes()) {
                Ok(below) => below.to_owned(),
                Err(_) => return Err(refused("its name is not UTF-8, which keys are")),
            },
        };
        let key = format!("{}{below}", self.prefix);
        if key.len() > KEY_BYTES_MAX {
            return Err(refused("its key would have more than 1024 bytes"));
        }
        Ok((below, key))
    }

    /// What an object is to have beside it.
    fn about(&self, entry: &Entry) -> About {
        let preserve = &self.terms.preserve;
        About {
            mtime: preserve.times.then_some(entry.evidence.mtime),
            mode: preserve.mode.then_some(entry.mode),
            uid: preserve.owner.then_some(entry.uid),
            gid: preserve.owner.then_some(entry.gid),
            blake3: None,
        }
    }

    fn losses(&self, entry: &Entry) -> Vec<Loss> {
        let mut losses = Vec::new();
        if self.terms.preserve.xattrs {
            losses.extend(entry.xattrs.iter().map(|xattr| Loss {
                what: format!("xattr {}", shown_path(&xattr.name)),
                why: "an object has none".to_owned(),
            }));
        }
        losses
    }

    /// That the store heeds no conditions, once.
    fn unconditional(&self) -> Option<Loss> {
        let tells =
            self.shared.conditions.lack() && !self.is_told_unconditional.swap(true, Ordering::Relaxed);
        tells.then(|| Loss {
            what: "condition".to_owned(),
            why: "the store heeds no conditions: who writes the same key just then is not noticed".to_owned(),
        })
    }

    fn partial(&self, number: u64) -> Option<Arc<ObjectPartial>> {
        lock(&self.shared.partials).get(&number).and_then(Weak::upgrade)
    }

    fn register(&self, number: u64, partial: &Arc<ObjectPartial>) -> Arc<dyn PartialFile> {
        lock(&self.shared.partials).insert(number, Arc::downgrade(partial));
        Arc::new(partial::Open(partial.clone()))
    }

    /// What stood there when the entry was decided.
    fn stood(&self, entry: &Entry) -> Option<Seen> {
        lock(&self.flights).all.get(&entry.id)?.seen.clone()
    }

    /// What puts a small file.
    fn small(&self, lane: u32, file: &Small<'_>) -> Result<Put> {
        let entry = file.entry;
        let (_, key) = self.key_of(&entry.path)?;
        let (about, stood, shared) = (self.about(entry), self.stood(entry), self.shared.clone());
        let (id, path, losses, read) = (entry.id, entry.path.clone(), self.losses(entry), entry.evidence);
        Ok(Box::new(move |content: &[u8]| {
            let digest = Digest(*blake3::hash(content).as_bytes());
            shared.note_own(id, &key, digest);
            let about = About { blake3: Some(digest), ..about };
            let put = shared.put(id, &key, content, &about, stood.as_ref(), &read);
            let seen = put.map_err(|failure| failure.at(&path))?;
            // What the look behind goes by.
            let name = format!("{}\0{digest}\0{key}", seen.etag).into_bytes().into_boxed_slice();
            Ok(Staged { lane, number: id.0, name: Some(name), losses })
        }))
    }

    fn stage_all(&self, lane: u32, files: &[Small<'_>]) -> Vec<Result<Staged>> {
        if let [file] = files {
            return vec![self.small(lane, file).and_then(|put| put(file.content))];
        }
        let (tells, told) = mpsc::channel();
        let mut staged: Vec<Option<Result<Staged>>> = files.iter().map(|_| None).collect();
        for (at, file) in files.iter().enumerate() {
            let permit = self.shared.permit(file.content.len() as u64);
            match self.small(lane, file).and_then(|put| permit.map(|permit| (put, permit))) {
                Err(failure) => staged[at] = Some(Err(failure)),
                Ok((put, permit)) => {
                    let (tells, content) = (tells.clone(), file.content.to_vec());
                    let bytes = content.len() as u64;
                    self.shared.threads.give(
                        bytes,
                        Box::new(move || {
                            let result = put(&content);
                            drop((content, permit));
                            let _ = tells.send((at, result));
                        }),
                    );
                }
            }
        }
        drop(tells);
        for (at, result) in told {
            staged[at] = Some(result);
        }
        let lost = || Failure::new(FailureKind::Stopped, "write the object", "the transfer ended before");
        staged.into_iter().map(|staged| staged.unwrap_or_else(|| Err(lost()))).collect()
    }

    fn finish_entry(&self, entry: &Entry, ready: Ready, digest: Digest) -> Result<Vec<Loss>> {
        let (etag, mut losses) = match ready {
            Ready::Staged(staged) => {
                let etag = version_of(&staged).map(|(etag, ..)| etag.to_owned());
                (etag, staged.losses)
            }
            Ready::Partial(open) => {
                let number = open.number();
                let gone = || Failure::new(FailureKind::Internal, "finish", "its content is gone");
                let partial = self.partial(number).ok_or_else(gone)?;
                let finished = partial.finish(self.stood(entry).as_ref(), digest);
                // What is left of the others is gone on with.
                let is_its_own = |failure: &Failure| {
                    use FailureKind::{Connection, Io, Space, Stopped};
                    !matches!(failure.kind, Space | Io | Connection | Stopped)
                };
                if finished.as_ref().is_err_and(is_its_own) {
                    partial.discard();
                }
                lock(&self.shared.partials).remove(&number);
                let seen = finished?;
                if self.terms.verify >= VerifyLevel::Readback {
                    let (_, key) = self.key_of(&entry.path)?;
                    let is_marked = matches!(entry.kind, Kind::File { marked: true, .. });
                    let found = self.read_again(&key, &seen, is_marked)?;
                    if found != digest {
                        self.remove_ours(entry.id, &key, &seen.etag);
                        let cause = format!("read back, the object is {found} and not {digest}");
                        let failure = Failure::new(FailureKind::Damage, VERIFY, cause);
                        return Err(failure.because(Reason::Damaged));
                    }
                }
                (Some(seen.etag), self.losses(entry))
            }
        };
        losses.extend(self.unconditional());
        let etag = etag.filter(|etag| !etag.is_empty());
        if let (Some(etag), Some(flight)) = (etag, lock(&self.flights).all.get_mut(&entry.id)) {
            flight.done = Some(Done { etag, digest, beside: self.about(entry) });
        }
        Ok(losses)
    }
}

/// Puts a small file of this content.
type Put = Box<dyn FnOnce(&[u8]) -> Result<Staged> + Send>;

/// The longest key that stores take, in bytes of UTF-8.
const KEY_BYTES_MAX: usize = 1024;

/// The version of a staged object, the digest of what was put, and its key.
fn version_of(staged: &Staged) -> Option<(&str, Digest, &str)> {
    let mut words = std::str::from_utf8(staged.name.as_ref()?).ok()?.splitn(3, '\0');
    Some((words.next()?, words.next()?.parse().ok()?, words.next()?))
}

/// What is kept beside an object, to be compared.
fn words_of(about: &About) -> String {
    let About { mtime, mode, uid, gid, .. } = about;
    format!("{:?} {mode:?} {uid:?} {gid:?}", mtime.map(|time| (time.seconds, time.nanos)))
}

/// Whether all that is wanted beside an object is there.
fn has(beside: &About, wanted: &About) -> bool {
    wanted.mtime.is_none_or(|mtime| beside.mtime == Some(mtime))
        && wanted.mode.is_none_or(|mode| beside.mode == Some(mode))
        && wanted.uid.is_none_or(|uid| beside.uid == Some(uid))
        && wanted.gid.is_none_or(|gid| beside.gid == Some(gid))
}

/// The name of a single file, and its key.
type Renamed = (Vec<u8>, String);

/// The prefix of all keys, and the new name of a single file.
fn place(bucket: &AnyBucket, key: &str, form: &SourceForm) -> Result<(String, Option<Renamed>)> {
    if key.is_empty() || key.ends_with('/') {
        return Ok((key.to_owned(), None));
    }
    let prefix = format!("{key}/");
    match form {
        SourceForm::Single { name } => {
            if bucket.has_keys(&prefix)? {
                return Ok((prefix, None));
            }
            let (above, last) = key.rsplit_once('/').map_or(("", key), |(above, last)| (above, last));
            let prefix = if above.is_empty() { String::new() } else { format!("{above}/") };
            Ok((prefix, Some((name.clone(), last.to_owned()))))
        }
        SourceForm::Many => match bucket.head(key)? {
            None => Ok((prefix, None)),
            Some(_) => {
                let shown = shown_path(key.as_bytes());
                let cause = format!("an object has the name of the directory: `{shown}`");
                Err(Failure::new(FailureKind::Conflict, OPEN_DESTINATION, cause))
            }
        },
    }
}

/// Without it time and size alone decide.
fn open_catalogue(state: &Path, place: &[u8], terms: &Terms) -> Option<Catalogue> {
    let mut identity = place.to_vec();
    // Parts run at the same time, each with its own.
    if let Some(part) = terms.part {
        identity.push(0);
        identity.extend_from_slice(&part.number.to_le_bytes());
        identity.extend_from_slice(&part.count.to_le_bytes());
    }
    let opened = match terms.dry_run {
        true => Catalogue::open_to_read(state, &identity),
        false => Catalogue::open(state, &identity),
    };
    opened.unwrap_or_else(|error| {
        tracing::warn!(%error, "nothing is remembered of what was copied");
        None
    })
}

impl Destination for ObjectDestination {
    fn decide(&self, entry: &Entry, reading: Reading<'_>) -> Decision {
        self.deletion.offer(entry);
        self.decide_entry(entry, reading)
    }

    fn skipped(&self, path: &RelativePath) {
        self.deletion.skip(path);
    }

    fn offered_before(&self, path: &RelativePath) {
        lock(&self.again).insert(path.clone());
    }

    /// A bucket has no links: the second name comes as a file of its own.
    fn link(&self, entry: &Entry) -> Decision {
        self.deletion.offer(entry);
        Decision::Fresh
    }

    fn lost(&self) -> Option<Failure> {
        self.shared.bucket.lost()
    }

    fn begin(&self, entry: &Entry) -> Result<Arc<dyn PartialFile>> {
        if self.terms.dry_run {
            return Err(Failure::new(FailureKind::Internal, "write the object", "it is a dry run"));
        }
        let (_, key) = self.key_of(&entry.path)?;
        self.forget_older(&key);
        let number = lock(&self.shared.notes).new_number();
        let partial = ObjectPartial::new(&self.shared, number, key, entry, self.about(entry));
        Ok(self.register(number, &partial))
    }

    fn existing(&self, entry: &Entry) -> Result<Arc<dyn SourceFile>> {
        self.open_existing(entry)
    }

    fn keep(&self, entry: &Entry, digest: Digest) -> Decision {
        self.keep_compared(entry, digest)
    }

    fn stage(&self, lane: u32, files: &[Small<'_>], _: &mut Together) -> Vec<Result<Staged>> {
        self.stage_all(lane, files)
    }

    fn sync(&self, partials: &[Arc<dyn PartialFile>]) -> Result<()> {
        for partial in partials.iter().filter_map(|partial| self.partial(partial.number())) {
            partial.wait()?;
        }
        Ok(())
    }

    fn read_staged_back(&self, staged: &Staged, bytes: u64) -> Result<Digest> {
        let gone = || Failure::new(FailureKind::Internal, READ_BACK, "its name is gone");
        let (etag, put, key) = version_of(staged).ok_or_else(gone)?;
        let seen =
            Seen { size: bytes, etag: etag.to_owned(), modified: Time::default(), storage_class: None };
        let found = self.digest(key, &seen)?;
        if found != put {
            self.remove_ours(EntryId(staged.number), key, etag);
        }
        Ok(found)
    }

    fn record(&self, chunks: &[(u64, Vec<(u64, Digest)>)]) -> Result<()> {
        for (number, chunks) in chunks {
            if let Some(partial) = self.partial(*number) {
                let parts = partial.noted(chunks);
                lock(&self.shared.notes).add(*number, parts)?;
            }
        }
        Ok(())
    }

    fn finish(&self, entry: &Entry, ready: Ready, digest: Digest) -> Result<Vec<Loss>> {
        self.finish_entry(entry, ready, digest)
    }

    fn finishes_at_once(&self) -> usize {
        self.shared.threads.requests_at_once(FINISH_BYTES)
    }

    fn streams(&self) -> u16 {
        let requests = self.shared.threads.requests_at_once(STREAM_BYTES);
        // Each may gather a chunk while another is under way: nobody waits for memory that nobody gives back.
        let in_memory = self.shared.budget.total() / (2 * self.shared.chunk_bytes);
        let streams = (requests / STREAM_REQUESTS).min(usize::try_from(in_memory).unwrap_or(usize::MAX));
        u16::try_from(streams).unwrap_or(u16::MAX)
    }

    fn reads_on(&self) -> Option<Instant> {
        let (at_once, went_on) = *lock(&self.read_back);
        went_on.filter(|_| at_once > 0)
    }

    fn discard(&self, ready: Ready) {
        match ready {
            // It may be what another stream put, and that stays.
            Ready::Staged(_) => {}
            Ready::Partial(open) => {
                let partial = self.partial(open.number());
                lock(&self.shared.partials).remove(&open.number());
                if let Some(partial) = partial {
                    partial.discard();
                }
            }
        }
    }

    fn settled(&self, entry: &Entry, outcome: &Outcome) {
        self.note_settled(entry, outcome);
    }

    fn conclude(&self, listing: Listing, goes_on: &dyn Fn() -> bool) -> Conclusion {
        goes_on();
        let mut conclusion = Conclusion { revised: lock(&self.childless).take(), ..Conclusion::default() };
        self.delete_all(listing, goes_on, &mut conclusion);
        conclusion
    }

    fn close(&self, success: bool) {
        self.shared.threads.close();
        self.deletion.forget();
        let mut notes = lock(&self.shared.notes);
        let lasts = notes.lasts();
        let is_kept = !success && lasts;
        let mut left = 0;
        for (number, noted) in notes.all() {
            let stays = is_kept || abort(&*self.shared.bucket, &noted.upload()).is_err();
            match stays {
                true => left += 1,
                false => notes.end(number),
            }
        }
        notes.close();
        drop(notes);
        lock(&self.catalogue).take();
        if left > 0 {
            let uploads = counted(left, "unfinished upload is", "unfinished uploads are");
            let name = self.shared.bucket.name();
            let note = match lasts {
                true => format!(
                    "{uploads} kept in {name} for the next attempt, and paid for: `thalweg gc` ends them"
                ),
                // It did not answer, and nothing was noted that outlasts this.
                false => {
                    format!("{uploads} left in {name}, and paid for: `thalweg gc --older-than` ends them")
                }
            };
            tracing::info!("{note}");
            *lock(&self.left) = Some(note);
        }
    }
}

/// Threads do not outlast it, whoever forgot to end it.
impl Drop for ObjectDestination {
    fn drop(&mut self) {
        self.shared.threads.close();
    }
}

#[cfg(test)]
mod tests;
