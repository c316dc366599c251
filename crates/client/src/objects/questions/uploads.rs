//! Uploads that were begun and neither completed nor aborted: which there are, and that those go which may.

use super::Bucket;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, SystemTime};
use thalweg_mover::failure::{Failure, FailureKind, Result, shown_path};
use thalweg_objects::destination::ObjectDestination;
use thalweg_objects::store::Upload;
use thalweg_wire::Time;

/// Uploads listed at a time, each of which is asked for its parts.
const UPLOADS_AT_ONCE: usize = 10_000;
/// So often at most: a store whose list never ends is not asked for ever. Each list has some.
const UPLOAD_LISTS_MAX: usize = 10_000;

/// An upload that was begun and neither completed nor aborted.
#[derive(Debug)]
pub struct LeftUpload {
    /// Key of the object that it would make, escaped.
    pub key: String,
    /// Bytes that its parts take.
    pub bytes: u64,
    /// Time since it was begun; `None` where the store does not tell.
    pub age: Option<Duration>,
    /// What became of it.
    pub state: UploadState,
}

/// Whether an upload may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UploadState {
    /// No copy of ours is known to have left it: it may be under way.
    Unknown,
    /// A copy of ours has it.
    InUse,
    /// It is younger than what is to go.
    Recent,
    /// It would be removed.
    Left,
    /// It is.
    Removed,
}

/// Uploads of ours.
#[derive(Default)]
struct Ours {
    /// Their names at the store, as they are noted.
    noted: HashSet<String>,
    /// Of those that were listed the bytes that their parts take, and the time since they were begun.
    listed: HashMap<String, (u64, Option<Duration>)>,
}

/// Which uploads go.
#[derive(Debug, Clone, Copy)]
pub struct Cleaning<'a> {
    /// Abort them; else they are only told.
    pub removes: bool,
    /// Only what was begun so long ago. If that is given, also what nobody knows who makes.
    pub older_than: Option<Duration>,
    /// Where uploads of ours are noted.
    pub state: &'a Path,
    /// The time.
    pub now: SystemTime,
}

impl Cleaning<'_> {
    /// Time since an upload was begun, where the store tells it.
    fn age_of(&self, upload: &Upload) -> Option<Duration> {
        self.now.duration_since(system_time(upload.begun?)?).ok()
    }

    /// Has one that may go end, if it is old enough and that is wanted.
    fn clean(
        &self,
        age: Option<Duration>,
        trouble: &mut dyn FnMut(Failure),
        end: impl FnOnce() -> Result<()>,
    ) -> UploadState {
        let is_young = self.older_than.is_some_and(|least| age.is_none_or(|age| age < least));
        if is_young {
            return UploadState::Recent;
        }
        if !self.removes {
            return UploadState::Left;
        }
        match end() {
            Ok(()) => UploadState::Removed,
            Err(failure) => {
                trouble(failure);
                UploadState::Left
            }
        }
    }
}

impl Bucket {
    /// Uploads at this key or below it that were not completed, and ends those that may go. No store tells whose they
    /// are, and one that is under way looks like one that was left: those of ours are told, and ended, by what is noted
    /// here, each job while no transfer has it. The store's list tells their bytes and when they were begun, and all
    /// others. However many there are, `each` hears of all: of those of others as they are listed, of ours at the end.
    /// In memory are some that were listed, and all of ours.
    ///
    /// # Errors
    /// What the store says of the list where nothing of ours is noted, the kernel of the notes; what the store says of
    /// one, and of the list else, goes to `trouble`.
    pub fn left_uploads(
        &self,
        cleaning: &Cleaning<'_>,
        trouble: &mut dyn FnMut(Failure),
        each: &mut dyn FnMut(LeftUpload),
    ) -> Result<()> {
        self.left_by(UPLOADS_AT_ONCE, cleaning, trouble, each)
    }

    /// The same, with so many that are listed at a time.
    fn left_by(
        &self,
        at_once: usize,
        cleaning: &Cleaning<'_>,
        trouble: &mut dyn FnMut(Failure),
        each: &mut dyn FnMut(LeftUpload),
    ) -> Result<()> {
        let mut ours = Ours::default();
        self.add_noted(cleaning.state, &mut ours.noted)?;
        let refused = self.left_of_others(at_once, cleaning, &mut ours, trouble, each).err();
        // Behind all lists: those tell more of ours than is noted, wherever they come in them.
        let has_ours = self.left_of_ours(cleaning, ours.listed, trouble, each)?;
        match refused {
            Some(failure) if !has_ours => return Err(failure),
            Some(failure) => trouble(failure),
            None => {}
        }
        Ok(())
    }

    /// Adds the names of all uploads of ours.
    fn add_noted(&self, state: &Path, noted: &mut HashSet<String>) -> Result<()> {
        ObjectDestination::leftovers(&self.store, state, &mut |job| {
            let here = job.uploads().into_iter().filter(|left| self.has(&left.key));
            noted.extend(here.map(|left| left.upload));
        })
    }

    /// Those that are listed and not ours; what is told of ours is kept.
    fn left_of_others(
        &self,
        at_once: usize,
        cleaning: &Cleaning<'_>,
        ours: &mut Ours,
        trouble: &mut dyn FnMut(Failure),
        each: &mut dyn FnMut(LeftUpload),
    ) -> Result<()> {
        let mut after = None;
        for _ in 0..UPLOAD_LISTS_MAX {
            let (listed, next) = self.store.uploads(&self.location.key, after.as_ref(), at_once)?;
            self.left_of(&listed, cleaning, ours, trouble, each)?;
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
        let cause = "the store's list of unfinished uploads does not end";
        Err(Failure::new(FailureKind::Protocol, "look for unfinished uploads", cause))
    }

    /// The same of those that are `listed`.
    fn left_of(
        &self,
        listed: &[Upload],
        cleaning: &Cleaning<'_>,
        ours: &mut Ours,
        trouble: &mut dyn FnMut(Failure),
        each: &mut dyn FnMut(LeftUpload),
    ) -> Result<()> {
        let mut found = HashMap::new();
        for upload in listed.iter().filter(|upload| self.has(&upload.key)) {
            match self.store.parts(upload) {
                Ok(parts) => {
                    let bytes = parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
                    found.insert(upload.id.as_str(), (bytes, cleaning.age_of(upload)));
                }
                // Somebody completed it meanwhile.
                Err(failure) if failure.kind == FailureKind::NotFound => {}
                Err(failure) => trouble(failure),
            }
        }
        // Behind the list: one of ours may have been begun since the notes were read, and is not to pass for another's.
        // By clocks that differ nobody knows which are older than the notes.
        if found.keys().any(|id| !ours.noted.contains(*id)) {
            self.add_noted(cleaning.state, &mut ours.noted)?;
        }
        for upload in listed {
            let Some((bytes, age)) = found.remove(upload.id.as_str()) else { continue };
            if ours.noted.contains(&upload.id) {
                ours.listed.insert(upload.id.clone(), (bytes, age));
                continue;
            }
            let state = match cleaning.older_than {
                None => UploadState::Unknown,
                Some(_) => cleaning.clean(age, trouble, || self.store.abort(upload)),
            };
            each(LeftUpload { key: shown_path(upload.key.as_bytes()), bytes, age, state });
        }
        Ok(())
    }

    /// Ours, by what was `listed` of them, else by what is noted; whether there are any.
    fn left_of_ours(
        &self,
        cleaning: &Cleaning<'_>,
        mut listed: HashMap<String, (u64, Option<Duration>)>,
        trouble: &mut dyn FnMut(Failure),
        each: &mut dyn FnMut(LeftUpload),
    ) -> Result<bool> {
        let mut has_some = false;
        ObjectDestination::leftovers(&self.store, cleaning.state, &mut |job| {
            let noted = job.noted_at().and_then(|at| cleaning.now.duration_since(at).ok());
            for left in job.uploads().into_iter().filter(|left| self.has(&left.key)) {
                has_some = true;
                // It was begun before something was noted of it.
                let (bytes, age) = listed.remove(&left.upload).unwrap_or((left.bytes, noted));
                let state = match job.are_in_use() {
                    true => UploadState::InUse,
                    false => cleaning.clean(age, trouble, || job.end(&self.store, &left)),
                };
                each(LeftUpload { key: shown_path(left.key.as_bytes()), bytes, age, state });
            }
        })?;
        Ok(has_some)
    }
}

/// `None` before 1970, and where no clock comes.
fn system_time(time: Time) -> Option<SystemTime> {
    let seconds = u64::try_from(time.seconds).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::super::entry;
    use super::*;
    use crate::objects::tests::bucket;
    use std::sync::Arc;
    use thalweg_mover::endpoint::{Destination, PartialFile};
    use thalweg_objects::store::{About, Seen};
    use thalweg_objects::testing::{Fake, Fault};
    use thalweg_wire::message::{SourceForm, Terms};
    use thalweg_wire::{Digest, RelativePath};

    const PART: usize = 8 << 20;

    /// Begins an upload of two parts and sends the first.
    fn begin(to: &dyn Destination) {
        let partial = send(to);
        to.record(&[(partial.number(), vec![(0, Digest([1; 32]))])]).unwrap();
    }

    /// The same, and does not note that part.
    fn send(to: &dyn Destination) -> Arc<dyn PartialFile> {
        let time = Time { seconds: 1_600_000_000, nanos: 0 };
        let size = 2 * PART as u64;
        let seen = Seen { size, etag: String::new(), modified: time, storage_class: None };
        let entry = entry(RelativePath::new(b"large".to_vec()).unwrap(), &seen);
        let _ = to.decide(&entry, &|_, _| true);
        let partial = to.begin(&entry).unwrap();
        partial.write_at(&vec![7; PART], 0).unwrap();
        to.sync(std::slice::from_ref(&partial)).unwrap();
        partial
    }

    /// A store that lists two at a time, in which somebody began an upload for each of these keys.
    fn paged(keys: &[&str]) -> (Fake, tempfile::TempDir, Bucket) {
        let (fake, state) = (Fake::start().unwrap(), tempfile::tempdir().unwrap());
        fake.set_page_keys(2);
        let bucket = bucket(&fake, "run7/");
        for key in keys {
            bucket.store.begin(key, &About::default()).unwrap();
        }
        (fake, state, bucket)
    }

    fn opened(bucket: &Bucket, state: &Path) -> Arc<dyn Destination> {
        let given = bucket.destination(state).unwrap();
        (given.open)(&SourceForm::Many, &Terms::of(PART as u64, 1 << 20), &[]).unwrap()
    }

    /// What is left in `bucket`, as far as the notes in `state` and the store's list know, and failures.
    fn left(bucket: &Bucket, state: &Path, older_than: Option<Duration>) -> (Vec<LeftUpload>, usize) {
        let cleaning = Cleaning { removes: true, older_than, state, now: SystemTime::now() };
        let (mut left, mut failures) = (Vec::new(), 0);
        let mut each = |one: LeftUpload| left.push(one);
        // Two at a time.
        bucket.left_by(2, &cleaning, &mut |_| failures += 1, &mut each).unwrap();
        (left, failures)
    }

    #[test]
    fn an_upload_that_runs_stays_and_one_that_was_left_goes_by_its_note_whatever_the_store_lists() {
        let (fake, state) = (Fake::start().unwrap(), tempfile::tempdir().unwrap());
        let bucket = bucket(&fake, "run7/");
        let to = opened(&bucket, state.path());
        begin(&*to);
        for older_than in [None, Some(Duration::ZERO)] {
            let (running, _) = left(&bucket, state.path(), older_than);
            assert_eq!((running.len(), running[0].state), (1, UploadState::InUse));
        }
        assert!(fake.asked_to("AbortMultipartUpload").is_empty());
        to.close(false);
        // What is elsewhere stays.
        let (none, _) = left(&bucket.below(b"other"), state.path(), None);
        assert!(none.is_empty(), "{none:?}");
        let (young, _) = left(&bucket, state.path(), Some(Duration::from_secs(3600)));
        assert_eq!(young[0].state, UploadState::Recent);
        // Some stores list what has the very key alone, others nobody may ask.
        fake.fail("ListMultipartUploads", usize::MAX, Fault::refuse(403, "AccessDenied"));
        let (gone, failures) = left(&bucket, state.path(), None);
        assert_eq!((gone.len(), gone[0].key.as_str(), failures), (1, "run7/large", 1));
        assert_eq!((gone[0].state, gone[0].bytes), (UploadState::Removed, PART as u64));
        assert_eq!(fake.asked_to("AbortMultipartUpload").len(), 1);
        let mut names = std::fs::read_dir(state.path()).unwrap().flatten();
        assert!(names.all(|name| name.path().extension().is_none_or(|end| end != "uploads")));
    }

    #[test]
    fn uploads_of_others_that_are_old_go_at_the_key_and_below_it_and_not_where_a_name_only_begins_so() {
        let (fake, state) = (Fake::start().unwrap(), tempfile::tempdir().unwrap());
        let bucket = bucket(&fake, "run7");
        for key in ["run7", "run7/a", "run70/a", "run7-b"] {
            bucket.store.begin(key, &About::default()).unwrap();
        }
        let (unknown, _) = left(&bucket, state.path(), None);
        assert!(unknown.len() == 2 && unknown.iter().all(|left| left.state == UploadState::Unknown));
        let (gone, failures) = left(&bucket, state.path(), Some(Duration::ZERO));
        assert!(failures == 0 && gone.iter().all(|left| left.state == UploadState::Removed), "{gone:?}");
        let (uploads, _) = bucket.store.uploads("", None, 1000).unwrap();
        let mut stay: Vec<&str> = uploads.iter().map(|upload| upload.key.as_str()).collect();
        stay.sort_unstable();
        assert_eq!(stay, ["run7-b", "run70/a"]);
    }

    #[test]
    fn however_many_uploads_there_are_all_are_told_once_and_may_go() {
        // Before and behind ours, and several of one key.
        let keys = ["run7/a", "run7/b", "run7/b", "run7/b", "run7/x", "run7/y", "run7/z"];
        let (_fake, state, bucket) = paged(&keys);
        let to = opened(&bucket, state.path());
        begin(&*to);
        to.close(false);
        let (told, failures) = left(&bucket, state.path(), None);
        let unknown = told.iter().filter(|left| left.state == UploadState::Unknown).count();
        assert_eq!((told.len(), unknown, failures), (8, 7, 0), "{told:?}");
        // Ours is gone by now.
        let (gone, failures) = left(&bucket, state.path(), Some(Duration::ZERO));
        assert!(failures == 0 && gone.iter().all(|left| left.state == UploadState::Removed), "{gone:?}");
        assert_eq!(gone.len(), 7);
        assert!(bucket.store.uploads("", None, 1000).unwrap().0.is_empty());
    }

    /// Others stand before it, more than are listed at a time.
    #[test]
    fn one_of_ours_that_is_listed_late_is_told_as_the_store_knows_it() {
        let (_fake, state, bucket) = paged(&["run7/a", "run7/b", "run7/c"]);
        let to = opened(&bucket, state.path());
        send(&*to);
        to.close(false);
        let (told, failures) = left(&bucket, state.path(), None);
        let ours = told.last().unwrap();
        assert_eq!((told.len(), failures, ours.key.as_str()), (4, 0, "run7/large"), "{told:?}");
        assert_eq!((ours.state, ours.bytes), (UploadState::Removed, PART as u64));
    }

    #[test]
    fn one_of_ours_that_is_begun_while_others_are_ended_does_not_pass_for_one_of_those() {
        let (_fake, state, bucket) = paged(&["run7/a", "run7/b", "run7/c"]);
        let to = opened(&bucket, state.path());
        let older_than = Some(Duration::ZERO);
        let cleaning = Cleaning { removes: true, older_than, state: state.path(), now: SystemTime::now() };
        let mut told = Vec::new();
        let mut each = |one: LeftUpload| {
            // It is behind what is being told.
            if told.is_empty() {
                begin(&*to);
            }
            told.push((one.key, one.state));
        };
        bucket.left_by(2, &cleaning, &mut |failure| panic!("{failure}"), &mut each).unwrap();
        let ended = ["run7/a", "run7/b", "run7/c"].map(|key| (key.to_owned(), UploadState::Removed));
        assert_eq!(told[..3], ended);
        assert_eq!(told[3..], [("run7/large".to_owned(), UploadState::InUse)]);
        to.close(false);
    }
}
