//! One thing that the machine decided, done to its end: an item copied, its command run or found again, results sent
//! back; and where the state directory has what belongs to them.

use super::{Driver, NOTICE, Told};
use crate::command::{self, RunPlace};
use crate::item::{ItemKind, Version, key_of};
use crate::machine::{Action, Arrived, Input, Outcome, Trouble};
use crate::scan::Names;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_client::far_movers::Whom;
use thalweg_client::job::Asked;
use thalweg_client::place::Place;
use thalweg_client::reach::Reach;
use thalweg_client::receipt::{self, ReceiptFile};
use thalweg_client::receipt_file::selection::Selected;
use thalweg_mover::event::{self, Event, Events};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::filter::EXCLUDED_BY;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::agree::NO_KEY_KEPT;
use thalweg_mover::run::copy::{Report, Watch as CopyWatch, Wishes};
use thalweg_mover::run::far_mover::AskedOfWay;
use thalweg_mover::run::steer::Rate;
use thalweg_wire::message::{self, Check};
use thalweg_wire::path::{Escaped, unescape};
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// What copies brought, and what of it goes.
mod brought;

/// Before what cannot be read of a run is looked at once more.
const READ_AGAIN: Duration = Duration::from_secs(1);

impl Driver<'_> {
    /// Does one thing to its end. `None` if the watch ended first.
    pub(super) fn perform(&self, action: Action, arrived: Option<Arrived>) -> Option<Input> {
        if matches!(action, Action::Move(..) | Action::Return(..)) {
            // That it may have it was tried at the beginning.
            let _ = self.watch.priority.take();
        }
        match action {
            Action::Move(name, version) => {
                let placed = Arc::default();
                let failure = match self.copy_item(&name, version, &placed) {
                    Ok(Came { digest, bytes, stale }) => {
                        let key = key_of(&name, &digest);
                        let receipt = self.receipt(&name, version);
                        let receipt = Escaped(receipt.as_os_str().as_bytes()).to_string();
                        let digest = digest.to_string();
                        let arrived = Arrived { version, digest, key, bytes, receipt, stale };
                        return Some(Input::Moved(name, Ok(arrived)));
                    }
                    Err(failure) => failure,
                };
                let trouble = self.trouble(&name, &failure);
                let is_far = Whom::of(&self.watch.destination).is_some();
                let is_in_part = lock(&placed).may_stand(trouble, is_far);
                Some(match is_in_part {
                    true => Input::MovedInPart(name, trouble),
                    false => Input::Moved(name, Err(trouble)),
                })
            }
            Action::Run(name, attempt) => {
                if let Some(path) = self.missing_copy(&name) {
                    let path = failure::shown_path(path.as_os_str().as_bytes());
                    let why = format!("what arrived is not there any more: `{path}`");
                    return Some(Input::CopyGone(name, attempt, why));
                }
                let arrived = arrived.as_ref()?;
                if let Some(version) = self.changed_source(&name, arrived) {
                    return Some(Input::SourceChanged(name, attempt, version));
                }
                let outcome = match self.begin_run(&name, attempt, arrived) {
                    Ok(None) => Outcome::Succeeded,
                    Ok(Some(mut keeper)) => match command::reap(&mut keeper, &|| self.ends()) {
                        Ok(false) => return None,
                        // However that went: what is recorded counts.
                        Ok(true) | Err(_) => self.end_of_run(&name, attempt)?,
                    },
                    Err(error) => Outcome::NotStarted(error.to_string()),
                };
                Some(Input::Ended(name, attempt, outcome))
            }
            Action::Recover(name, attempt) => {
                let outcome = self.end_of_run(&name, attempt)?;
                Some(Input::Ended(name, attempt, outcome))
            }
            Action::Return(name) => {
                let result = self.send_back(&name).map_err(|failure| self.trouble(&name, &failure));
                Some(Input::Returned(name, result))
            }
        }
    }

    fn trouble(&self, name: &RelativePath, failure: &Failure) -> Trouble {
        if failure.reason == Reason::CongestionRefused {
            // Of the command, and not of the item: every other would be refused too.
            lock(&self.refused).get_or_insert_with(|| failure.clone());
        }
        if lock(&self.refused).is_some() {
            // It ends the watch, which tells it once.
            return Trouble::Passing;
        }
        if failure.kind != FailureKind::Stopped {
            (self.tell)(Told::Trouble(Some(name), failure));
        }
        match failure.kind {
            _ if failure.reason == Reason::NotDeleted => Trouble::Lasting,
            FailureKind::NotFound => Trouble::Missing,
            FailureKind::Usage | FailureKind::Unsupported | FailureKind::Conflict => Trouble::Lasting,
            _ => Trouble::Passing,
        }
    }

    fn ends(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.stop.is_asked()
    }

    /// Whether the far mover that items, or results, go to can be reached, tried before the first copy there, by one
    /// for all that begin then. What does not pass is, as of the source, at the beginning a mistake in the command;
    /// later it is an outage.
    fn try_far(&self, to: &Place, dialled: &Mutex<Option<Result<()>>>) -> Result<()> {
        let Some(whom) = Whom::of(to) else { return Ok(()) };
        let free = dialled.try_lock().ok();
        let has_waited = free.is_none();
        let mut last = free.unwrap_or_else(|| lock(dialled));
        if let Some(result) = &*last
            && (result.is_ok() || has_waited || lock(&self.refused).is_some())
        {
            return result.clone();
        }
        let reached = lock(&self.far_movers).reach(&whom);
        let settings = self.watch.wishes.movement.link.clone();
        let dialled = reached.and_then(|reached| reached.far.dial(settings, event::nobody())).map(drop);
        if let Err(failure) = &dialled
            && does_not_pass(failure.kind)
        {
            lock(&self.refused).get_or_insert_with(|| failure.clone());
        }
        *last = Some(dialled.clone());
        dialled
    }

    /// Copies this version of an item. One that has changed since it was seen to be complete does not count as arrived.
    /// `placed` hears whether something of it may be in place, should it fail.
    fn copy_item(&self, name: &RelativePath, version: Version, placed: &Arc<Mutex<Placed>>) -> Result<Came> {
        self.try_far(&self.watch.destination, &self.dialled)?;
        let source = self.watch.source.below(name.as_bytes());
        let above = name.split().map_or(&b""[..], |(above, _)| above);
        let mut destination = self.watch.destination.below(above);
        destination.mean_contents();
        let mut wishes = self.watch.wishes.clone();
        // What stands there is compared by content: its digest must be known.
        wishes.fidelity.check = Check::Digest;
        if self.watch.scanner.kind == ItemKind::File {
            wishes.selection.filter.clear();
        }
        let asked = receipt::Asked {
            from: vec![source.to_string()],
            to: destination.to_string(),
            compress: wishes.movement.asked.compress,
            delete: false,
            part: None,
            selected: Selected::of(&wishes.selection),
        };
        let scanner = &self.watch.scanner;
        let mut brought = match scanner.kind {
            ItemKind::Directory if self.watch.deletes => Some(self.make_way(name, version, placed)?),
            ItemKind::Directory => Some(self.brought(name)?),
            ItemKind::File => None,
        };
        let receipt = ReceiptFile::begin(&self.receipt(name, version), &asked)?;
        wishes.receipt = Some(receipt.sink());
        let (result, settled) = self.copy(name, source, destination, &wishes, placed);
        let is_well = result.is_ok() && settled.failure.is_none();
        let names = settled.names(name);
        let noted = brought.as_mut().map_or(Ok(()), |brought| brought.end(names.clone(), is_well));
        let report = result?;
        noted?;
        let mut copied = scanner.version_of(name, settled.entries());
        let is_partial = settled.is_partial;
        let (digest, bytes) = settled.digest(scanner.kind)?;
        // By the mark: to a listing a further name of a file has its bytes once more, to a copy it has none.
        let is_version = |copied: Option<Version>| copied.is_some_and(|copied| copied.mark == version.mark);
        if !is_version(copied) && is_partial && scanner.kind == ItemKind::Directory {
            // What was not copied counts too: of that only another look can tell.
            copied = scanner.look_at(name, &self.looker().reach()?)?;
        }
        match is_version(copied) {
            true => {
                let stale = match &mut brought {
                    Some(brought) if !self.watch.deletes => self.count_stale(name, brought, &names)?,
                    _ => 0,
                };
                if let Some(agreed) = &report.agreed {
                    receipt.finish(agreed)?;
                }
                Ok(Came { digest, bytes, stale })
            }
            // Its receipt is one of nothing that arrived.
            false => Err(changed()),
        }
    }

    /// Sends the results of an item back, then removes them here.
    fn send_back(&self, name: &RelativePath) -> Result<()> {
        if self.deliver(name)? {
            // What cannot be removed goes before results of the next run for this name do.
            let _ = self.put_aside(name).and_then(|()| self.forget_aside(name));
        }
        Ok(())
    }

    /// Sends results back; whether all of them are, or none are left to send.
    fn deliver(&self, name: &RelativePath) -> Result<bool> {
        let directory = self.results(name);
        let is_empty = match std::fs::read_dir(&directory) {
            Ok(mut entries) => entries.next().is_none(),
            // They are back, and we were killed before that was in the journal.
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(failure::of_io("read the results", &error)),
        };
        let (Some(place), false) = (&self.watch.results, is_empty) else { return Ok(true) };
        self.try_far(place, &self.dialled_for_results)?;
        let mut from = Place::Local(directory.clone());
        from.mean_contents();
        let mut to = place.below(name.as_bytes());
        to.mean_contents();
        let mut wishes = self.watch.wishes.clone();
        wishes.selection.filter.clear();
        wishes.movement.link.congestion.clone_from(&self.watch.results_congestion);
        let mut brought = self.make_way_for_results(name, &directory, &place.below(name.as_bytes()))?;
        let (result, settled) = self.copy(name, from, to, &wishes, &Arc::default());
        result?;
        brought.end(Names::new(), settled.failure.is_none())?;
        match settled.failure {
            Some(failure) => Err(failure),
            // What that place does not keep is nowhere else. It was told, and somebody may look for it.
            None => Ok(!settled.is_refused),
        }
    }

    /// Gives results that are back a name under which nobody sends them again, durably, before anything of them goes: a
    /// part that a kill leaves would be taken for all that there is, and what it lacks be missing where they went.
    fn put_aside(&self, name: &RelativePath) -> std::io::Result<()> {
        self.forget_aside(name)?;
        std::fs::rename(self.results(name), self.aside(name))?;
        thalweg_sys::Dir::open(&self.directory.join("results"))?.sync()
    }

    /// Removes what is left of results that are back.
    fn forget_aside(&self, name: &RelativePath) -> std::io::Result<()> {
        match std::fs::remove_dir_all(self.aside(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Copies an item, or its results, and tells what is noted of it; what it said of entries also where it failed.
    fn copy(
        &self,
        name: &RelativePath,
        from: Place,
        to: Place,
        wishes: &Wishes,
        placed: &Arc<Mutex<Placed>>,
    ) -> (Result<Report>, Settled) {
        let settled = Arc::default();
        let result = self.copy_heard(name, (from, to), wishes, placed, &settled);
        let settled = std::mem::take(&mut *lock(&settled));
        (result, settled)
    }

    fn copy_heard(
        &self,
        name: &RelativePath,
        (from, to): (Place, Place),
        wishes: &Wishes,
        placed: &Arc<Mutex<Placed>>,
        settled: &Arc<Mutex<Settled>>,
    ) -> Result<Report> {
        let is_within = [&from, &to].into_iter().all(|place| Whom::of(place).is_none());
        let job = Asked::new("watch", from, to)?.reach(&mut lock(&self.far_movers), &self.watch.state)?;
        let (hears, places) = (settled.clone(), placed.clone());
        let (tell, item) = (self.tell.clone(), name.clone());
        let is_key_told = self.is_key_told.clone();
        let events: Events = Arc::new(move |event| {
            if is_noted(&event, &is_key_told) {
                tell(Told::Noted(&item, &event));
            }
            lock(&places).hear(&event);
            lock(&hears).hear(event);
        });
        let tell = self.tell.clone();
        let link_events: Events = Arc::new(move |event| tell(Told::Link(&event)));
        let watch = CopyWatch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        let mut wishes = wishes.clone();
        // All that are copied at this moment share it.
        wishes.movement.rate = Arc::new(Rate::part_of(&wishes.movement.rate));
        if is_within {
            // What was asked of data streams is for the others, which go to a far mover or come from one.
            wishes.asked_of_way = AskedOfWay::default();
        }
        job.run(&wishes, &self.watch.state, &watch, self.stop)
    }

    /// Where what arrived was put, if a command is to run for it and nothing is there: scratch disks are purged. What
    /// somebody changed there is theirs, and stays.
    fn missing_copy(&self, name: &RelativePath) -> Option<PathBuf> {
        self.watch.analysis.as_ref()?;
        let Place::Local(path) = self.watch.destination.below(name.as_bytes()) else { return None };
        let error = path.symlink_metadata().err()?;
        matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory).then_some(path)
    }

    /// What a source on this machine has of the item now, if a command is to run for it and that is not what arrived:
    /// the last look may be many seconds old. What cannot be seen at this moment is left to looks, as is what is far.
    fn changed_source(&self, name: &RelativePath, arrived: &Arrived) -> Option<Version> {
        self.watch.analysis.as_ref()?;
        let Place::Local(source) = &self.watch.source else { return None };
        let now = self.watch.scanner.look_at(name, &Reach::local(source.clone())).ok().flatten()?;
        (now != arrived.version).then_some(now)
    }

    /// Starts the command below its keeper; `None` if there is none to run. What fails here has begun nothing.
    fn begin_run(
        &self,
        name: &RelativePath,
        attempt: u32,
        arrived: &Arrived,
    ) -> std::io::Result<Option<Child>> {
        let Some(analysis) = &self.watch.analysis else { return Ok(None) };
        let results = self.results(name);
        // What an attempt that failed left is no result.
        match std::fs::remove_dir_all(&results) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            // As the command itself would make it: its mode travels with the results.
            _ => std::fs::DirBuilder::new()
                .recursive(true)
                .mode(thalweg_sys::process::user_directory_mode())
                .create(&results)?,
        }
        let place = self.run_place(name, attempt);
        command::start(analysis, &place, &self.environment(name, attempt, arrived)).map(Some)
    }

    /// How a run ended, once it has; `None` if the watch ended first. What keeps us from seeing it says nothing of it:
    /// it is told once, and looked for again.
    fn end_of_run(&self, name: &RelativePath, attempt: u32) -> Option<Outcome> {
        let place = self.run_place(name, attempt);
        let mut is_told = false;
        loop {
            let error = match place.wait(&|| self.ends()) {
                Ok(outcome) => return outcome,
                Err(error) => error,
            };
            if !std::mem::replace(&mut is_told, true) {
                let failure = failure::of_io("find out how the command ended", &error);
                (self.tell)(Told::Trouble(Some(name), &failure));
            }
            let again = Instant::now() + READ_AGAIN;
            while Instant::now() < again {
                if self.ends() {
                    return None;
                }
                std::thread::sleep(NOTICE);
            }
        }
    }

    /// What the command is told; documented in docs/guide/watch.md.
    fn environment(
        &self,
        name: &RelativePath,
        attempt: u32,
        arrived: &Arrived,
    ) -> Vec<(&'static str, OsString)> {
        let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let source = self.watch.source.below(name.as_bytes());
        let destination = self.watch.destination.below(name.as_bytes());
        // Between a bucket and a far directory nothing of it is here.
        let here = match (&destination, &source) {
            (Place::Local(path), _) | (_, Place::Local(path)) => {
                Some(std::path::absolute(path).unwrap_or_else(|_| path.clone()).into_os_string())
            }
            _ => None,
        };
        let told = [
            ("THALWEG_ITEM_NAME", bytes(name.as_bytes())),
            ("THALWEG_ITEM_SOURCE", source.to_string().into()),
            ("THALWEG_ITEM_DESTINATION", destination.to_string().into()),
            ("THALWEG_ITEM_DIGEST", arrived.digest.clone().into()),
            ("THALWEG_ITEM_BYTES", arrived.bytes.to_string().into()),
            ("THALWEG_ITEM_STALE", arrived.stale.to_string().into()),
            ("THALWEG_ITEM_RECEIPT", self.receipt_of(name, arrived)),
            ("THALWEG_ITEM_KEY", arrived.key.clone().into()),
            ("THALWEG_ITEM_ATTEMPT", attempt.to_string().into()),
            ("THALWEG_ITEM_RESULTS", self.results(name).into_os_string()),
        ];
        told.into_iter().chain(here.map(|here| (command::ITEM_PATH, here))).collect()
    }

    /// Where the receipt of this version of an item is put, as seen from anywhere: it is told to commands.
    fn receipt(&self, name: &RelativePath, version: Version) -> PathBuf {
        let directory = match &self.watch.receipts {
            Some(directory) => std::path::absolute(directory).unwrap_or_else(|_| directory.clone()),
            None => self.directory.join("receipts"),
        };
        let watch = self.directory.file_name().unwrap_or_default();
        directory.join(receipt_name(watch.as_bytes(), name, version))
    }

    /// Where the receipt of what arrived is: it stays there, though later ones may go elsewhere.
    fn receipt_of(&self, name: &RelativePath, arrived: &Arrived) -> OsString {
        if arrived.receipt.is_empty() {
            // An earlier program named it by the item alone.
            return self.directory.join("receipts").join(format!("{}.receipt", short(name))).into_os_string();
        }
        OsString::from_vec(unescape(&arrived.receipt).unwrap_or_default())
    }

    fn results(&self, name: &RelativePath) -> PathBuf {
        self.directory.join("results").join(short(name))
    }

    /// Where results go that are back, until they are removed.
    fn aside(&self, name: &RelativePath) -> PathBuf {
        self.directory.join("results").join(format!("{}-back", short(name)))
    }

    /// Removes the directory of results of an item that is done, unless something is in it: that was not sent back
    /// because nobody asked for it, and somebody may look for it.
    pub(super) fn forget_results(&self, name: &RelativePath) {
        let _ = std::fs::remove_dir(self.results(name));
    }

    /// Removes what a kill left of the runs of these names, durably: runs of theirs have numbers from 1 again.
    pub(super) fn forget_runs(&self, names: &[RelativePath]) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            self.forget_results(name);
            // What could not be removed when they were back.
            let _ = self.forget_aside(name);
        }
        let of_io = |error: std::io::Error| failure::of_io("forget old runs", &error);
        let directory = self.directory.join("runs");
        let gone: HashSet<String> = names.iter().map(short).collect();
        for entry in std::fs::read_dir(&directory).map_err(of_io)? {
            let entry = entry.map_err(of_io)?;
            let is_gone = |text: &str| text.split_once('-').is_some_and(|(name, _)| gone.contains(name));
            if entry.file_name().to_str().is_some_and(is_gone) {
                std::fs::remove_file(entry.path()).map_err(of_io)?;
            }
        }
        thalweg_sys::Dir::open(&directory).and_then(|directory| directory.sync()).map_err(of_io)
    }

    pub(super) fn run_place(&self, name: &RelativePath, attempt: u32) -> RunPlace {
        RunPlace::new(&self.directory.join("runs"), &format!("{}-{attempt}", short(name)))
    }
}

/// What a copy brought, or would bring, is not what was to be copied.
fn changed() -> Failure {
    let cause = "it is not what it was when it was seen to be complete";
    Failure::new(FailureKind::Changed, "copy", cause)
}

/// A file name that any item can have.
fn short(name: &RelativePath) -> String {
    blake3::hash(name.as_bytes()).to_hex()[..32].to_owned()
}

/// Bytes of an item's name that are in that of its receipt, which has 25 more, and may have 255.
const SHOWN_BYTES_MAX: usize = 200;
/// Hexadecimal digits of the name of a receipt.
const VERSION_DIGITS: usize = 16;

/// The file name of the receipt of one version of an item. Its words are for people; its digits are others for each
/// watch, item and version, so that none takes the place of another's.
fn receipt_name(watch: &[u8], name: &RelativePath, version: Version) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 receipt name");
    for part in [watch, &version.mark.to_le_bytes()[..], name.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut shown = name.to_string().replace('/', "_");
    shown.truncate(shown.floor_char_boundary(SHOWN_BYTES_MAX));
    format!("{shown}.{}.receipt", &hasher.finalize().to_hex()[..VERSION_DIGITS])
}

/// What a person may want to know of a copy that is none of its failures. That a key is kept nowhere only once.
fn is_noted(event: &Event, is_key_told: &AtomicBool) -> bool {
    match event {
        Event::Note(text) if text.ends_with(NO_KEY_KEPT) => !is_key_told.swap(true, Ordering::AcqRel),
        Event::Note(_) | Event::Repaired(_) => true,
        Event::Settled(_, message::Outcome::Done { losses, .. }) => !losses.is_empty(),
        // No rule leaves out what the source offered.
        Event::Settled(_, message::Outcome::Skipped(_)) => true,
        Event::Aside(_, message::Outcome::Skipped(why)) => !why.starts_with(EXCLUDED_BY),
        _ => false,
    }
}

/// Whether waiting does not help: of what keeps a command from a far mover.
fn does_not_pass(kind: FailureKind) -> bool {
    use FailureKind as K;
    matches!(kind, K::Usage | K::NotFound | K::Permission | K::Unsupported)
}

/// What came of an item.
struct Came {
    digest: Digest,
    /// Of content.
    bytes: u64,
    /// As of [`Arrived::stale`].
    stale: u64,
}

/// What a copy of an item said of how far it came.
#[derive(Default)]
struct Placed {
    /// It went on after the far mover, if there is one, had opened the place.
    has_begun: bool,
    /// An entry failed: maybe because its name, which is in place, could not be made durable.
    has_failed: bool,
    /// An entry was put in place; or maybe was, by an attempt whose link is gone.
    has_entries: bool,
}

impl Placed {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Planned(_) => self.has_begun = true,
            Event::Settled(_, message::Outcome::Done { .. } | message::Outcome::Unchanged { .. }) => {
                self.has_entries = true;
            }
            Event::Settled(_, message::Outcome::Failed(_)) => self.has_failed = true,
            Event::LinkLost(_) => self.has_entries |= self.has_begun,
            _ => {}
        }
    }

    /// Whether something of a copy that failed so may be in place. What is not there, or cannot be, fails before any
    /// entry is put there; but what a far side did last is not always told.
    fn may_stand(&self, trouble: Trouble, is_far: bool) -> bool {
        let may_have = is_far || self.has_failed || trouble == Trouble::Passing;
        self.has_entries || self.has_begun && may_have
    }
}

/// By path what stands at the destination, and the digest of its content.
type Entries = BTreeMap<RelativePath, (Arc<Entry>, Option<Digest>)>;

/// What a copy of an item said of its entries.
#[derive(Default)]
struct Settled {
    entries: Entries,
    /// What attempts brought whose links were lost.
    earlier: Names,
    /// Something was left out.
    is_partial: bool,
    /// By the destination, which does not keep it.
    is_refused: bool,
    failure: Option<Failure>,
}

impl Settled {
    fn hear(&mut self, event: Event) {
        match event {
            Event::Settled(entry, message::Outcome::Done { digest, .. })
            | Event::Settled(entry, message::Outcome::Unchanged { digest }) => {
                self.entries.insert(entry.path.clone(), (entry, digest));
            }
            Event::Settled(_, message::Outcome::Failed(failure))
            | Event::Aside(_, message::Outcome::Failed(failure)) => {
                self.failure.get_or_insert(failure);
            }
            Event::Settled(_, message::Outcome::Skipped(_)) => {
                (self.is_partial, self.is_refused) = (true, true);
            }
            Event::Aside(_, message::Outcome::Skipped(_)) => self.is_partial = true,
            // The next attempt tells all of it once more, as it is then.
            Event::LinkLost(_) => {
                let mut earlier = std::mem::take(&mut self.earlier);
                earlier.extend(self.all());
                *self = Settled { earlier, ..Settled::default() };
            }
            _ => {}
        }
    }

    /// What stands at the destination.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values().map(|(entry, _)| &**entry)
    }

    /// Their paths.
    fn all(&self) -> impl Iterator<Item = (RelativePath, bool)> {
        self.entries().map(|entry| (entry.path.clone(), matches!(entry.kind, Kind::Directory)))
    }

    /// By their paths below the item, which is a directory, all that came to stand at the destination.
    fn names(&self, item: &RelativePath) -> Names {
        let all = self.earlier.clone().into_iter().chain(self.all());
        let below = |path: &RelativePath| {
            let rest = path.as_bytes().strip_prefix(item.as_bytes())?.strip_prefix(b"/")?;
            RelativePath::new(rest.to_vec()).ok()
        };
        all.filter_map(|(path, is_directory)| Some((below(&path)?, is_directory))).collect()
    }

    /// Digest of the whole item, and its bytes.
    fn digest(self, kind: ItemKind) -> Result<(Digest, u64)> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let bytes: u64 = self.entries.values().map(|(entry, _)| entry.content_bytes()).sum();
        let digest = match kind {
            ItemKind::File => self.entries.values().find_map(|(_, digest)| *digest).ok_or_else(|| {
                Failure::new(FailureKind::Changed, "copy", "it was a file, and is none any more")
            })?,
            ItemKind::Directory => {
                let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 directory digest");
                for (path, (entry, digest)) in &self.entries {
                    let (kind, what) = content(&self.entries, entry, digest.as_ref());
                    for part in [path.as_bytes(), &[kind][..], what] {
                        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
                    }
                }
                Digest(*hasher.finalize().as_bytes())
            }
        };
        Ok((digest, bytes))
    }
}

/// What an entry counts for in the digest of its item: a letter for its kind, and what its name leads to. That of a
/// further name of a file is what the first one has: names alone do not tell that it leads to another file by now.
fn content<'a>(entries: &'a Entries, entry: &'a Entry, digest: Option<&'a Digest>) -> (u8, &'a [u8]) {
    match &entry.kind {
        Kind::File { .. } => (b'f', digest.map_or(&[][..], |digest| digest.0.as_slice())),
        Kind::Directory => (b'd', &[][..]),
        Kind::Symlink { target } => (b'l', target.as_slice()),
        Kind::HardLink { first, .. } => match entries.get(first) {
            // A link to a link is what no correct source offers, and would have no end.
            Some((named, digest)) if !matches!(named.kind, Kind::HardLink { .. }) => {
                (b'h', content(entries, named, digest.as_ref()).1)
            }
            _ => (b'h', first.as_bytes()),
        },
        Kind::Fifo => (b'p', &[][..]),
        Kind::Device { .. } => (b'b', &[][..]),
    }
}

#[cfg(test)]
mod tests;
