//! A bucket in memory, for tests: conditional, with parts, and able to fail, to wait and to be changed by others. The
//! same content has the same etag, as in most stores.

use super::Bucket;
use crate::store::{About, Head, If, Listed, Page, Part, Removed, Seen, Upload};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use thalweg_mover::mutex::lock;
use thalweg_mover::{Failure, FailureKind, Result};
use thalweg_wire::Time;

/// More than are asked for before somebody waits.
const MOVES: u64 = 5;

#[derive(Clone)]
pub(crate) struct Object {
    pub(crate) content: Vec<u8>,
    pub(crate) seen: Seen,
    pub(crate) about: About,
}

struct Parted {
    key: String,
    about: About,
    parts: BTreeMap<u16, (Vec<u8>, Part)>,
}

#[derive(Default)]
pub(crate) struct Memory {
    objects: Mutex<BTreeMap<String, Object>>,
    uploads: Mutex<HashMap<String, Parted>>,
    versions: AtomicU64,
    /// Requests by name.
    pub(crate) asked: Mutex<BTreeMap<&'static str, u64>>,
    /// Keys per page; 1000 if 0.
    pub(crate) page_keys: AtomicUsize,
    /// Pages that come empty from now on, and go on.
    pub(crate) empty_pages: AtomicU64,
    /// Puts and parts that fail from now on.
    pub(crate) fails: AtomicU64,
    /// Keys that are listed and not found.
    pub(crate) hidden_heads: Mutex<Vec<String>>,
    /// It takes no conditions.
    pub(crate) refuses_conditions: AtomicBool,
    /// It takes them, and writes in any case.
    pub(crate) ignores_conditions: AtomicBool,
    /// How puts, parts and their lists, and looks that read at once, are refused from now on.
    pub(crate) refuses: Mutex<Option<FailureKind>>,
    /// Objects come back damaged, so often.
    pub(crate) damages: AtomicU64,
    /// Somebody else writes these just before they are removed, or looked at and read at once.
    pub(crate) overwritten: Mutex<Vec<String>>,
    /// Somebody else removes these just before.
    pub(crate) taken: Mutex<Vec<String>>,
    /// Removals that it answers before it is away; all, without a number.
    pub(crate) removals_left: Mutex<Option<u64>>,
    /// Somebody else writes what is put next, just then.
    pub(crate) overwrites: AtomicBool,
    /// Nobody may remove an object.
    pub(crate) denies_removal: AtomicBool,
    /// It is away: nobody hears what stands at a key.
    pub(crate) is_away: AtomicBool,
    /// Nobody waits for it any more.
    pub(crate) is_given_up: AtomicBool,
    /// Keys whose content is on the way.
    pub(crate) begun: Mutex<BTreeSet<String>>,
    /// With so much on the way it answers nobody until that is given up; 0: it does.
    pub(crate) answers_beside_begun: AtomicUsize,
    /// In what time it says that it answers.
    pub(crate) answers_in_ms: AtomicU64,
    /// Pages come backwards.
    pub(crate) lists_backwards: AtomicBool,
    /// Content gets across whenever somebody asks; after [`MOVES`] times the gate is open.
    pub(crate) moves: AtomicBool,
    moved: AtomicU64,
    /// Puts, parts and what ends uploads wait until it is open again.
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Memory {
    pub(crate) fn new() -> Arc<Memory> {
        Arc::default()
    }

    /// As somebody else would.
    pub(crate) fn set(&self, key: &str, content: &[u8]) {
        self.set_about(key, content, About::default(), None);
    }

    pub(crate) fn set_about(&self, key: &str, content: &[u8], about: About, storage_class: Option<&str>) {
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let seen = Seen {
            size: content.len() as u64,
            etag: etag_of(content),
            modified: Time { seconds: 1_700_000_000 + version as i64, nanos: 0 },
            storage_class: storage_class.map(str::to_owned),
        };
        lock(&self.objects).insert(key.to_owned(), Object { content: content.to_vec(), seen, about });
    }

    pub(crate) fn get(&self, key: &str) -> Option<Object> {
        lock(&self.objects).get(key).cloned()
    }

    pub(crate) fn forget(&self, key: &str) {
        lock(&self.objects).remove(key);
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        lock(&self.objects).keys().cloned().collect()
    }

    /// Uploads that have no end, and their parts.
    pub(crate) fn hidden(&self) -> Vec<usize> {
        lock(&self.uploads).values().map(|upload| upload.parts.len()).collect()
    }

    pub(crate) fn count(&self, request: &str) -> u64 {
        lock(&self.asked).get(request).copied().unwrap_or(0)
    }

    /// They wait from now on, or go on.
    pub(crate) fn hold(&self, holds: bool) {
        *lock(&self.gate) = holds;
        self.opened.notify_all();
    }

    fn ask(&self, request: &'static str) {
        *lock(&self.asked).entry(request).or_default() += 1;
    }

    fn pass(&self) {
        let mut held = lock(&self.gate);
        while *held {
            held = self.opened.wait(held).unwrap();
        }
    }

    fn may_fail(&self) -> Result<()> {
        if let Some(kind) = *lock(&self.refuses) {
            return Err(failure(kind, "it is refused"));
        }
        match take_one(&self.fails) {
            true => Err(failure(FailureKind::Connection, "503 SlowDown, asked again for 60 s")),
            false => Ok(()),
        }
    }

    fn check(&self, key: &str, only: &If) -> Result<()> {
        if self.refuses_conditions.load(Ordering::Relaxed) && !matches!(only, If::Any) {
            return Err(failure(FailureKind::Unsupported, "501 NotImplemented"));
        }
        if self.ignores_conditions.load(Ordering::Relaxed) {
            return Ok(());
        }
        let objects = lock(&self.objects);
        let holds = match only {
            If::Any => true,
            If::Absent => !objects.contains_key(key),
            If::Is(etag) => objects.get(key).is_some_and(|object| object.seen.etag == *etag),
        };
        if holds { Ok(()) } else { Err(failure(FailureKind::Conflict, "412 PreconditionFailed")) }
    }
}

/// Whether there was one left.
fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn etag_of(content: &[u8]) -> String {
    format!("\"{}\"", blake3::hash(content).to_hex())
}

fn failure(kind: FailureKind, cause: &str) -> Failure {
    Failure::new(kind, "write the object", cause)
}

fn away() -> Failure {
    failure(FailureKind::Connection, "no answer of the store")
}

fn no_upload() -> Failure {
    failure(FailureKind::NotFound, "404 NoSuchUpload")
}

impl Bucket for Memory {
    fn name(&self) -> String {
        "s3://memory".to_owned()
    }

    fn lost(&self) -> Option<Failure> {
        self.is_away.load(Ordering::Relaxed).then(away)
    }

    fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }

    fn answers_in(&self) -> Duration {
        Duration::from_millis(self.answers_in_ms.load(Ordering::Relaxed))
    }

    fn moved(&self) -> u64 {
        let moves = self.moves.load(Ordering::Relaxed);
        let moved = self.moved.fetch_add(moves.into(), Ordering::Relaxed);
        if moves && moved == MOVES {
            self.hold(false);
        }
        moved
    }

    fn list(&self, prefix: &str, delimiter: bool, after: Option<&str>) -> Result<Page> {
        self.ask("list");
        let most = match self.page_keys.load(Ordering::Relaxed) {
            0 => 1000,
            most => most,
        };
        let objects = lock(&self.objects);
        let mut keys: Vec<&String> = objects.keys().filter(|key| key.starts_with(prefix)).collect();
        if self.lists_backwards.load(Ordering::Relaxed) {
            keys.reverse();
        }
        let from: usize = after.map_or(0, |after| after.parse().unwrap());
        if take_one(&self.empty_pages) {
            return Ok(Page { objects: Vec::new(), prefixes: Vec::new(), next: Some(from.to_string()) });
        }
        let (mut page, mut prefixes) = (Vec::new(), BTreeSet::new());
        for key in keys.iter().skip(from).take(most) {
            let rest = &key[prefix.len()..];
            match rest.find('/').filter(|_| delimiter) {
                Some(at) => {
                    prefixes.insert(format!("{prefix}{}", &rest[..=at]));
                }
                None => page.push(Listed { key: (*key).clone(), seen: objects[*key].seen.clone() }),
            }
        }
        let next = (from + most < keys.len()).then(|| (from + most).to_string());
        Ok(Page { objects: page, prefixes: prefixes.into_iter().collect(), next })
    }

    fn head(&self, key: &str) -> Result<Option<Head>> {
        self.ask("head");
        if self.is_away.load(Ordering::Relaxed) {
            return Err(away());
        }
        let object = self.get(key).filter(|_| !lock(&self.hidden_heads).iter().any(|hidden| hidden == key));
        Ok(object.map(|object| Head { seen: object.seen, about: object.about, crc64: None }))
    }

    fn head_before(&self, key: &str, _: u64) -> Result<Option<Head>> {
        self.head(key)
    }

    fn fetch(&self, key: &str, bytes_max: usize) -> Result<Option<(Head, Option<Vec<u8>>)>> {
        self.ask("fetch");
        if self.is_away.load(Ordering::Relaxed) {
            return Err(away());
        }
        if lock(&self.overwritten).iter().any(|overwritten| overwritten == key) {
            self.set(key, b"somebody else's");
        }
        if let Some(kind) = *lock(&self.refuses) {
            return Err(failure(kind, "it is refused"));
        }
        let object = self.get(key).filter(|_| !lock(&self.hidden_heads).iter().any(|hidden| hidden == key));
        Ok(object.map(|object| {
            let Object { content, seen, about } = object;
            (Head { seen, about, crc64: None }, (content.len() <= bytes_max).then_some(content))
        }))
    }

    fn begin_reading(&self, key: &str, bytes_max: u64) -> Result<Option<Head>> {
        self.ask("begin reading");
        if self.is_away.load(Ordering::Relaxed) {
            return Err(away());
        }
        if let Some(kind) = *lock(&self.refuses) {
            return Err(failure(kind, "it is refused"));
        }
        let object = self.get(key);
        let is_begun = object.as_ref().is_some_and(|object| object.seen.size <= bytes_max);
        let most = self.answers_beside_begun.load(Ordering::Relaxed);
        loop {
            let mut begun = lock(&self.begun);
            if most == 0 || begun.len() < most {
                if is_begun {
                    begun.insert(key.to_owned());
                }
                break;
            }
            drop(begun);
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(object.map(|object| Head { seen: object.seen, about: object.about, crc64: None }))
    }

    fn forget_begun(&self) {
        lock(&self.begun).clear();
    }

    fn read(&self, key: &str, seen: &Seen, offset: u64, through: u64, buffer: &mut [u8]) -> Result<usize> {
        if offset > 0 || !lock(&self.begun).remove(key) {
            self.ask("read");
        }
        let object = self.get(key).ok_or_else(|| failure(FailureKind::NotFound, "404 NoSuchKey"))?;
        if object.seen.etag != seen.etag {
            return Err(failure(FailureKind::Changed, "412 PreconditionFailed"));
        }
        if object.seen.storage_class.as_deref() == Some("GLACIER") {
            return Err(failure(FailureKind::Permission, "403 InvalidObjectState"));
        }
        assert!(offset + buffer.len() as u64 <= through || through == seen.size, "{through}");
        let from = object.content.len().min(offset as usize);
        let bytes = buffer.len().min(object.content.len() - from);
        buffer[..bytes].copy_from_slice(&object.content[from..from + bytes]);
        if let Some(byte) = buffer.first_mut()
            && take_one(&self.damages)
        {
            *byte ^= 1;
        }
        Ok(bytes)
    }

    fn put(&self, key: &str, content: &[u8], about: &About, only: &If) -> Result<Seen> {
        self.ask("put");
        self.pass();
        self.may_fail()?;
        self.check(key, only)?;
        self.set_about(key, content, *about, None);
        let seen = self.get(key).unwrap().seen;
        if self.overwrites.swap(false, Ordering::Relaxed) {
            self.set(key, b"somebody else's");
        }
        Ok(seen)
    }

    fn begin(&self, key: &str, about: &About) -> Result<Upload> {
        self.ask("begin");
        let id = format!("u{}", self.versions.fetch_add(1, Ordering::Relaxed));
        let parted = Parted { key: key.to_owned(), about: *about, parts: BTreeMap::new() };
        lock(&self.uploads).insert(id.clone(), parted);
        Ok(Upload { key: key.to_owned(), id, begun: None, mark: None })
    }

    fn put_part(&self, upload: &Upload, number: u16, content: &[u8]) -> Result<Part> {
        self.ask("part");
        self.pass();
        self.may_fail()?;
        let etag = format!("\"p{}\"", self.versions.fetch_add(1, Ordering::Relaxed));
        let part = Part { number, bytes: content.len() as u64, etag, crc64: None };
        let mut uploads = lock(&self.uploads);
        let parted = uploads.get_mut(&upload.id).ok_or_else(no_upload)?;
        parted.parts.insert(number, (content.to_vec(), part.clone()));
        Ok(part)
    }

    fn parts(&self, upload: &Upload) -> Result<Vec<Part>> {
        self.ask("parts");
        self.may_fail()?;
        let uploads = lock(&self.uploads);
        let parted = uploads.get(&upload.id).ok_or_else(no_upload)?;
        Ok(parted.parts.values().map(|(_, part)| part.clone()).collect())
    }

    fn complete(&self, upload: &Upload, parts: &[Part], only: &If) -> Result<Seen> {
        self.ask("complete");
        self.check(&upload.key, only)?;
        let parted = lock(&self.uploads).remove(&upload.id).ok_or_else(no_upload)?;
        let mut content = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            assert_eq!(usize::from(part.number), at + 1);
            let (bytes, there) = &parted.parts[&part.number];
            assert_eq!(there.etag, part.etag);
            content.extend_from_slice(bytes);
        }
        self.set_about(&parted.key, &content, parted.about, None);
        Ok(self.get(&parted.key).unwrap().seen)
    }

    fn abort(&self, upload: &Upload) -> Result<()> {
        self.ask("abort");
        self.pass();
        lock(&self.uploads).remove(&upload.id);
        Ok(())
    }

    fn remove(&self, key: &str, seen: &Seen) -> Result<Removed> {
        self.ask("remove");
        if self.denies_removal.load(Ordering::Relaxed) {
            return Err(failure(FailureKind::Permission, "403 AccessDenied"));
        }
        if lock(&self.overwritten).iter().any(|overwritten| overwritten == key) {
            self.set(key, b"somebody else's");
        }
        if let Some(left) = &mut *lock(&self.removals_left) {
            let Some(less) = left.checked_sub(1) else {
                self.is_away.store(true, Ordering::Relaxed);
                return Err(away());
            };
            *left = less;
        }
        if lock(&self.taken).iter().any(|taken| taken == key) {
            self.forget(key);
        }
        let mut objects = lock(&self.objects);
        let is_it = objects.get(key).map(|object| object.seen.etag == seen.etag);
        if is_it == Some(true) {
            objects.remove(key);
        }
        Ok(match is_it {
            None => Removed::Gone,
            Some(true) => Removed::Ours,
            Some(false) => Removed::Other,
        })
    }
}
