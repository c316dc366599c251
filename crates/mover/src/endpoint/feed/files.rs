//! Files that somebody else writes: one, or all in a directory and below it.
//!
//! 1. Look at the directory, open what is new.
//! 2. Hand on what each file has that was not read.
//! 3. Wait: for events of the file system, and [`LOOK_AGAIN`] without any, because events are lost on network file
//!    systems, and what a name leads to is seen by looking only; [`POLL`] where it is known that not all events are to
//!    be had.
//! 4. From the beginning, until all is complete.
//!
//! A flow is a file, not a name. What is moved away or removed is read to its end; what takes its name is another flow.
//! A file that is cut is two flows: what was read of it, and what it has from then on. A file with several names is one
//! flow, under the first that was seen.
//!
//! A file is known to the destination by what it is, its origin. So a file that was renamed while nobody looked goes on
//! under the name that it began with: in a directory the destination finds it. Of a single file the old one is looked
//! for in its directory, because its name leads elsewhere. What earlier attempts did not complete and is found nowhere
//! is told by name, at once and in the end.
//!
//! Only what is due is looked at between two looks at everything: files that are under way when an event names them or
//! the destination says where they go on, and names that an event tells.
//!
//! A file that fails for what may pass is begun again after a pause, and kept open until then, so that it is read to
//! its end wherever its name leads by that time.
//!
//! Bytes that are changed after they were read: seen where the file was changed while it did not grow, and at its
//! beginning; then all of it is read again before it is said to be complete, and it is not if it differs. Elsewhere not
//! seen where it grew at the same time, nor bytes that come and are cut between two looks. What is held against what
//! says `file`.

mod retry;
mod look;
mod tend;

use self::retry::{Failing, HeldFile};
use super::file::{Growing, Identity};
use super::open::GrowingPlace;
use super::{Feed, Taker};
use crate::failure::{Failure, FailureKind, Result};
use crate::journal::marks::{Known, Places};
use crate::journal::staging_names::is_staging;
use crate::retry::Rule;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::{Duration, Instant};
use thalweg_sys::{Changed, Dir, File, Kind, Links, Stat, Time, Watch, WatchId, process};
use thalweg_wire::message::{FlowLeft, Origin, Until};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, EntryId, RelativePath, limits};

/// Time between two looks at everything, events or not.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Without events, or without those of some directory.
const POLL: Duration = Duration::from_millis(100);
/// So many times as long as a look took there is none: looking takes at most a tenth of a core.
const LOOKS_REST: u32 = 9;
/// While the destination's word is waited for.
const STEP: Duration = Duration::from_millis(10);
/// While files rest: how late a wish of the destination, or the user's, is heard.
const HEAR_EVERY: Duration = Duration::from_millis(100);
/// Files that are under way at the same time: the others wait for their turn. Half of the flows that there may be,
/// because one that is cut is two for a while.
const AT_ONCE_MAX: usize = limits::FLOWS_READ_MAX / 2;
/// Names that events tell, which are looked at one by one; of more everything is looked at.
const NOTICED_MAX: usize = 1024;
/// Listings that are kept for a while, as by sshfs and NFS, are newer than a marker after so long. One that does not
/// have it by then never will: the file system spells it otherwise, or hides it.
const LISTED_WITHIN: Duration = Duration::from_secs(90);
/// Of such a marker.
const UNLISTED: &str =
    "is there, and no listing of its directory has it: what came shortly before it may be missing";

/// What is streamed.
pub struct FilesSpec {
    /// The directory; of a single file the one that it is in.
    pub dir: Dir,
    /// What that directory is called, if its name may come to lead elsewhere.
    pub place: Option<GrowingPlace>,
    /// The single file in it.
    pub name: Option<Vec<u8>>,
    /// The export that it is in, above which no marks are looked for.
    pub below: Option<Dir>,
    /// Of a directory: in front of the names of what is in it.
    pub prefix: RelativePath,
    /// When it is complete.
    pub until: Until,
    /// Largest piece.
    pub piece_bytes: usize,
}

/// A file that is over.
#[derive(Debug, Clone, Copy)]
struct Done {
    /// With so many bytes.
    bytes: u64,
    /// Of them, if all of them are at the destination.
    digest: Option<Digest>,
    /// As a flow after so many cuts.
    cuts: u32,
    /// Under this name, or one of the same hash.
    name: u64,
    /// When it had been changed last, if all of it is at the destination: one that is written anew may have the same
    /// length, and one that is another may have its number.
    changed: Option<Time>,
}

/// Enough of a name to know it again.
fn short(path: &RelativePath) -> u64 {
    let mut short = [0; 8];
    short.copy_from_slice(&blake3::hash(path.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(short)
}

impl Done {
    /// Whether a file of its identity, of so many bytes and changed then, is still what it was.
    fn is_still(&self, bytes: u64, changed: Time) -> bool {
        self.bytes == bytes && self.changed.is_none_or(|then| then == changed)
    }
}

/// When everything was looked at last, if what it showed still counts, and how long that took.
#[derive(Debug, Default)]
struct Looks {
    last: Option<Instant>,
    took: Duration,
    /// When that look ended, whatever it counts for now.
    ended: Option<Instant>,
}

/// Looks at a name in a directory.
type StatAt = dyn Fn(&Dir, &[u8]) -> io::Result<Stat> + Send;

/// Looks at an open file.
type StatOf = dyn Fn(&File) -> io::Result<Stat> + Send;

/// See the module.
pub struct FilesFeed {
    spec: FilesSpec,
    /// What time it is; a simulation has its own.
    clock: Box<dyn Fn() -> Instant + Send>,
    /// Looks at what has a name, and at what is open; a test has its own.
    stat_at: Box<StatAt>,
    stat_of: Box<StatOf>,
    /// Where marks of the single file may be.
    places: Option<Places>,
    watch: Option<Watch>,
    watched: HashMap<WatchId, RelativePath>,
    /// By identity: a file may have several names, and move.
    files: BTreeMap<Identity, Growing>,
    by_flow: HashMap<EntryId, Identity>,
    /// Where a name led at the last look.
    names: BTreeMap<RelativePath, Identity>,
    /// Files to be tended before the next wait.
    busy: BTreeSet<Identity>,
    /// Files of which the destination has not said yet where they go on: tended when it has.
    asked: BTreeSet<Identity>,
    /// What earlier attempts did not complete, and was not found yet.
    left: BTreeMap<Origin, FlowLeft>,
    /// Once: by then all that is there was seen.
    is_left_told: bool,
    /// Names that events told, of what is not under way.
    noticed: BTreeSet<RelativePath>,
    /// Counts flows that begin and end, and the coming of the marker; how far it was at the last look.
    changes: (u64, Option<u64>),
    /// Since when the marker's name leads to something.
    marker_since: Option<Instant>,
    /// The last look listed the marker, and so what came before it. Its name may be seen long before (sshfs).
    is_marker_listed: bool,
    /// The look under way decides whether all is over: what is complete is to be as it was now, not a while ago.
    is_end_near: bool,
    /// Over: not begun again before they have another length.
    done: BTreeMap<Identity, Done>,
    /// Which files that failed are begun again.
    rule: Rule,
    /// Those that failed since they came right last.
    failing: BTreeMap<Identity, Failing>,
    /// Of these, those that stay open until they are begun again.
    held: BTreeMap<Identity, HeldFile>,
    /// What could not be read at the last look, and why.
    unread: BTreeMap<RelativePath, Failure>,
    /// Files that may be open at the same time, and those that had no turn at the last look: so many are, or the taker
    /// had no room.
    at_once: usize,
    waiting: usize,
    grew_at: Instant,
    /// When the last look at everything began.
    looked_from: Option<Instant>,
    grown: BTreeMap<Identity, Instant>,
    /// Something was begun.
    has_begun: bool,
    /// A single file ended for good: it was complete by itself, or failed. One that was replaced or cut has not: what
    /// comes at its name goes on.
    is_single_over: bool,
    is_last: bool,
    told: BTreeSet<Vec<u8>>,
    /// Not all events are to be had, which was told.
    is_polling: bool,
    /// That nobody can tell here who writes was told; and that others wait for that.
    is_blind_told: bool,
    is_crowded_told: bool,
    /// That others wait for the receipt was told.
    is_full_told: bool,
    /// That the directory's name leads elsewhere was told.
    is_elsewhere_told: bool,
}

impl FilesFeed {
    /// Of these files.
    pub fn new(spec: FilesSpec) -> FilesFeed {
        let places = spec.name.as_ref().map(|name| Places::of(&spec.dir, name, spec.below.as_ref()));
        let rule = Rule::of(&spec.until, spec.name.is_some());
        FilesFeed {
            spec,
            clock: Box::new(Instant::now),
            stat_at: Box::new(Dir::stat),
            stat_of: Box::new(File::stat_now),
            places,
            watch: None,
            watched: HashMap::new(),
            files: BTreeMap::new(),
            by_flow: HashMap::new(),
            names: BTreeMap::new(),
            busy: BTreeSet::new(),
            asked: BTreeSet::new(),
            left: BTreeMap::new(),
            is_left_told: false,
            noticed: BTreeSet::new(),
            changes: (0, None),
            marker_since: None,
            is_marker_listed: false,
            is_end_near: false,
            done: BTreeMap::new(),
            rule,
            failing: BTreeMap::new(),
            held: BTreeMap::new(),
            unread: BTreeMap::new(),
            at_once: at_once(),
            waiting: 0,
            grew_at: Instant::now(),
            looked_from: None,
            grown: BTreeMap::new(),
            has_begun: false,
            is_single_over: false,
            is_last: false,
            told: BTreeSet::new(),
            is_polling: false,
            is_blind_told: false,
            is_crowded_told: false,
            is_full_told: false,
            is_elsewhere_told: false,
        }
    }

    fn work(&mut self, taker: &dyn Taker) -> Result<()> {
        if self.spec.until.poll_ms.is_none() {
            match Watch::new() {
                Ok(watch) => self.watch = Some(watch),
                Err(error) => self.say_polling("the file system's events are not to be had", &error, taker),
            }
        }
        self.hear_left(taker);
        let mut buffer = vec![0; self.spec.piece_bytes];
        let mut looks = Looks::default();
        while !taker.is_over() {
            match self.round(&mut looks, taker, &mut buffer)? {
                Some(pause) => self.wait(pause, &mut looks.last, taker),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// What is not complete at the destination. Nothing begins before that is known.
    fn hear_left(&mut self, taker: &dyn Taker) {
        while !taker.is_over() {
            let Some((left, more)) = taker.left(HEAR_EVERY) else { continue };
            let prefix = self.spec.prefix.as_bytes();
            let is_ours = |left: &FlowLeft| {
                let below = left.path.as_bytes().strip_prefix(prefix);
                self.spec.name.is_some()
                    || prefix.is_empty()
                    || below.is_some_and(|below| below.starts_with(b"/"))
            };
            // What the destination calls the single file is not what it is called here.
            let single = self.spec.name.as_ref().and_then(|name| RelativePath::new(name.clone()).ok());
            let path = |left: &FlowLeft| single.clone().unwrap_or_else(|| left.path.clone());
            let left = left.into_iter().filter(is_ours);
            self.left = left.map(|left| (left.origin, FlowLeft { path: path(&left), ..left })).collect();
            if more > 0 {
                taker.note(format!(
                    "{more} more files are not complete at the destination: they are not looked for"
                ));
            }
            return;
        }
    }

    /// Looks, if that is due, hears what is wanted, and hands on what there is. How long to wait then, if nothing
    /// happens; `None`: it is over.
    fn round(&mut self, looks: &mut Looks, taker: &dyn Taker, buffer: &mut [u8]) -> Result<Option<Duration>> {
        let every = match self.spec.until.poll_ms {
            Some(ms) => Duration::from_millis(ms.max(1).into()),
            None if self.is_polling => POLL.max(looks.took * LOOKS_REST),
            None => LOOK_AGAIN.max(looks.took),
        };
        // Whatever events say, looking takes at most half of a core.
        let rest = looks.ended.map_or(Duration::ZERO, |ended| looks.took.saturating_sub(self.since(ended)));
        let is_named = self.marker_is_named();
        let has_come = is_named && self.marker_since.is_none();
        if is_named != self.marker_since.is_some() {
            self.changes.0 += 1;
            self.marker_since = is_named.then(|| self.now());
        }
        // What nobody looked at has not rested; and what came before the marker is there.
        let is_idle_due = self.idle_since().is_some() && !self.is_idle();
        let is_end_due = is_named && self.busy.is_empty() && self.asked.is_empty() && self.all_ended();
        let must_look = is_idle_due || self.is_turn(taker) || has_come || (is_end_due && !self.is_looked());
        self.is_end_near = is_named || self.idle_since().is_some();
        if must_look || looks.last.map_or(rest.is_zero(), |at| self.since(at) >= every) {
            let (began, changes) = (self.now(), self.changes.0);
            self.look(taker)?;
            // What began by this look was seen by it.
            self.changes.1 = (self.changes.0 == changes).then_some(changes);
            self.looked_from = Some(began);
            looks.last = Some(self.now());
            looks.ended = looks.last;
            looks.took = self.since(began);
            self.busy.extend(self.files.keys().copied());
        }
        let is_ending = self.is_ending();
        if is_ending && !self.is_marker_listed {
            self.say_unlisted(taker);
        }
        self.look_at_noticed(&mut looks.last, taker)?;
        self.begin_again(taker)?;
        // As long as nobody knows where files go on, that is what is waited for.
        let all_wait = self.busy.is_empty() && !self.asked.is_empty();
        self.hear(if all_wait { STEP } else { Duration::ZERO }, taker, buffer)?;
        self.tend(taker, buffer, is_ending)?;
        self.conclude(taker, is_ending);
        if self.is_last && self.files.is_empty() {
            return Ok(None);
        }
        let until_look = looks.last.map_or(rest, |at| every.saturating_sub(self.since(at)));
        let is_waited_for = is_ending || self.files.values().any(|file| file.is_ended);
        Ok(Some(match (self.busy.is_empty() && self.asked.is_empty(), is_waited_for) {
            (false, _) => Duration::ZERO,
            // Until the destination has them.
            (true, true) => STEP.min(until_look),
            (true, false) => until_look.min(HEAR_EVERY),
        }))
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }

    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }

    /// When nothing had grown for the idle time, as far as anybody saw, if that is past. What is waited for has to come
    /// first.
    fn idle_since(&self) -> Option<Instant> {
        let since = self.grew_at + Duration::from_millis(self.spec.until.idle_ms?);
        let is_awaited = self.spec.until.wait && !self.has_begun && self.unread.is_empty();
        (!is_awaited && self.now() >= since).then_some(since)
    }

    /// Whether that was seen by a look at everything since.
    fn is_idle(&self) -> bool {
        self.idle_since().zip(self.looked_from).is_some_and(|(since, from)| from >= since)
    }

    /// Whether the marker is there, and what came before it was listed with it.
    fn is_ending(&self) -> bool {
        let is_late = |since: Instant| self.since(since) >= LISTED_WITHIN;
        self.marker_since.is_some_and(|since| self.is_marker_listed || is_late(since))
    }

    fn all_ended(&self) -> bool {
        self.files.values().all(|file| file.is_ended)
    }

    /// Whether nothing began or ended, and no marker came, since the last look.
    fn is_looked(&self) -> bool {
        self.changes.1 == Some(self.changes.0)
    }

    /// Whether files that had no turn at the last look have one now, and not a few of them.
    fn is_turn(&self, taker: &dyn Taker) -> bool {
        self.waiting > 0 && self.files.len() <= self.at_once / 2 && taker.has_room()
    }

    fn wait(&mut self, pause: Duration, looked: &mut Option<Instant>, taker: &dyn Taker) {
        let Some(watch) = &self.watch else {
            std::thread::sleep(pause);
            return;
        };
        let changes = match watch.changes(pause) {
            Ok(changes) => changes,
            Err(error) => {
                self.watch = None;
                self.say_polling("the file system's events are not to be had any more", &error, taker);
                return;
            }
        };
        for change in changes {
            let Changed::Entry(dir, name) = change else {
                *looked = None;
                continue;
            };
            let path = self.watched.get(&dir).and_then(|dir| dir.join(&name).ok());
            match path.as_ref().and_then(|path| self.names.get(path)) {
                Some(identity) if self.files.contains_key(identity) => {
                    self.busy.insert(*identity);
                }
                // New, or not what it was. Beside a single file there may be many.
                _ if self.spec.name.as_ref().is_some_and(|single| *single != name) => {}
                _ => match path.filter(|_| self.noticed.len() < NOTICED_MAX) {
                    Some(path) => drop(self.noticed.insert(path)),
                    None => *looked = None,
                },
            }
        }
    }

    /// Looks at what events named, where that is all that has to be looked at.
    fn look_at_noticed(&mut self, looked: &mut Option<Instant>, taker: &dyn Taker) -> Result<()> {
        for path in std::mem::take(&mut self.noticed) {
            if !self.look_at(&path, taker)? {
                *looked = None;
            }
        }
        Ok(())
    }

    /// Looks at a file that is new, or not what it was. `false`: everything is to be looked at.
    fn look_at(&mut self, path: &RelativePath, taker: &dyn Taker) -> Result<bool> {
        let (at, name) = path.split().unwrap_or((b"", path.as_bytes()));
        let name = name.to_vec();
        let is_marker = at == self.spec.prefix.as_bytes() && self.spec.until.marker.as_deref() == Some(&name);
        if is_staging(&name) || is_marker {
            return Ok(true);
        }
        let is_under_way = |identity: &Identity| self.files.contains_key(identity);
        if self.names.get(path).is_some_and(is_under_way) {
            return Ok(false);
        }
        let Ok(at) = RelativePath::new(at.to_vec()) else { return Ok(false) };
        let below = at.as_bytes().strip_prefix(self.spec.prefix.as_bytes()).unwrap_or(at.as_bytes());
        let below = below.strip_prefix(b"/").unwrap_or(below).to_vec();
        let dir = match below.is_empty() {
            true => self.spec.dir.try_clone(),
            false => self.spec.dir.open_beneath(&below, Links::Refuse),
        };
        let Ok(dir) = dir else { return Ok(false) };
        match dir.stat(&name) {
            // It was renamed, and what has its name now is new.
            Ok(stat) if self.files.contains_key(&Identity::of(&stat)) => return Ok(false),
            Ok(stat) if stat.kind == Kind::File => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.names.remove(path);
                self.unread.remove(path);
                return Ok(true);
            }
            _ => return Ok(false),
        }
        self.unread.remove(path);
        let mut names = BTreeMap::new();
        self.consider(&dir, &at, &name, &mut names, taker)?;
        self.names.append(&mut names);
        Ok(true)
    }

    fn say_unwatched(&mut self, error: &io::Error, taker: &dyn Taker) {
        self.say_polling("not every directory can be watched", error, taker);
    }

    fn say_unlisted(&mut self, taker: &dyn Taker) {
        let marker = self.spec.until.marker.as_ref().and_then(|name| self.spec.prefix.join(name).ok());
        if let Some(path) = marker {
            self.note_once(&path, UNLISTED, taker);
        }
    }

    /// From now on everything is looked at more often; told the first time.
    fn say_polling(&mut self, what: &str, error: &io::Error, taker: &dyn Taker) {
        if !std::mem::replace(&mut self.is_polling, true) {
            taker.note(format!(
                "{what} ({error}): looking every {} ms, or at a tenth of a core",
                POLL.as_millis()
            ));
        }
    }

    fn note_once(&mut self, path: &RelativePath, text: &str, taker: &dyn Taker) {
        if self.told.len() < TOLD_MAX && self.told.insert(path.as_bytes().to_vec()) {
            taker.note(format!("{} {text}", self.shown(path)));
        }
    }

    /// What people call it. The directory itself has no name in itself: it has the source's words.
    fn shown(&self, path: &RelativePath) -> String {
        let place = self.spec.place.as_ref().filter(|_| path.as_bytes().is_empty());
        let name = place.map_or(path.as_bytes(), |place| place.path.as_os_str().as_encoded_bytes());
        Escaped(name).to_string()
    }
}

/// Names that are told; of more there is no end.
const TOLD_MAX: usize = 1000;
/// Files that are complete and remembered: one that is forgotten is compared again.
const DONE_MAX: usize = 1 << 20;

/// Of the descriptors that this process may have a quarter: what is received, and others, have the rest.
fn at_once() -> usize {
    let descriptors =
        process::raise_open_files().map_or(1024, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    (descriptors / 4).clamp(1, AT_ONCE_MAX)
}

/// Of what an earlier attempt did not complete and nobody finds.
fn missed(left: &FlowLeft) -> Failure {
    let cause = format!(
        "the destination has {} bytes of it, as {}, of a stream that was not completed; the file that they are of is not \
         there any more, and what it had behind them is missing",
        left.bytes,
        Escaped(left.name.as_bytes())
    );
    Failure::new(FailureKind::NotFound, "go on with the stream", cause).at(&left.path)
}

/// How far a file may be read.
fn limit_of(until: &Until, marks: Option<&Known>) -> u64 {
    let marked = marks.map_or(u64::MAX, |known| known.bytes);
    until.bytes.unwrap_or(u64::MAX).min(marked)
}

impl Feed for FilesFeed {
    fn rule(&self) -> Rule {
        self.rule
    }

    fn begins_nothing_again(&mut self) {
        self.rule = Rule::Never;
    }

    fn run(mut self: Box<Self>, taker: &dyn Taker) {
        if let Err(failure) = self.work(taker) {
            for file in self.files.values() {
                taker.give_up(file.flow, failure.clone());
            }
            taker.failed(failure);
        }
    }
}

#[cfg(test)]
#[path = "files/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "files/sim.rs"]
mod sim;
