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
mod notice;
mod look;
mod tend;

use self::notice::Watching;
use self::retry::Retries;
use super::file::{Growing, Identity};
use super::open::GrowingPlace;
use super::{Feed, Taker};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::journal::marks::{Known, Places};
use crate::retry::Rule;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::{Duration, Instant};
use thalweg_sys::{Dir, File, Stat, Time, Watch, process};
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

/// See the module.
pub struct FilesFeed {
    spec: FilesSpec,
    /// Where marks of the single file may be.
    places: Option<Places>,
    eyes: Eyes,
    watching: Watching,
    found: Found,
    left: LeftBefore,
    flows: UnderWay,
    /// Over: not begun again before they have another length.
    done: BTreeMap<Identity, Done>,
    retries: Retries,
    /// Files that may be open at the same time.
    at_once: usize,
    end: End,
    told: Told,
}

/// Looks at a name in a directory.
type StatAt = dyn Fn(&Dir, &[u8]) -> io::Result<Stat> + Send;

/// Looks at an open file.
type StatOf = dyn Fn(&File) -> io::Result<Stat> + Send;

/// How time and files are seen; a simulation and tests have their own.
struct Eyes {
    clock: Box<dyn Fn() -> Instant + Send>,
    stat_at: Box<StatAt>,
    stat_of: Box<StatOf>,
}

/// What the last look at everything found, and what was found since.
#[derive(Default)]
struct Found {
    /// When that look began.
    looked_from: Option<Instant>,
    /// Where a name led.
    names: BTreeMap<RelativePath, Identity>,
    /// What could not be read, and why.
    unread: BTreeMap<RelativePath, Failure>,
    /// Files that had no turn: as many are open as may be, or the taker had no room.
    waiting: usize,
    /// That look listed the marker, and so what came before it. Its name may be seen long before (sshfs).
    is_marker_listed: bool,
}

/// What earlier attempts did not complete.
#[derive(Default)]
struct LeftBefore {
    /// Of that, what was not found yet.
    by_origin: BTreeMap<Origin, FlowLeft>,
    /// Once: by then all that is there was seen.
    is_told: bool,
}

/// Files under way.
struct UnderWay {
    /// By identity: a file may have several names, and move.
    files: BTreeMap<Identity, Growing>,
    by_flow: HashMap<EntryId, Identity>,
    /// To be tended before the next wait.
    busy: BTreeSet<Identity>,
    /// The destination has not said yet where they go on: tended when it has.
    asked: BTreeSet<Identity>,
    /// When each grew last.
    grown: BTreeMap<Identity, Instant>,
    /// When any of them grew last, or began.
    grew_at: Instant,
}

impl UnderWay {
    fn new(now: Instant) -> UnderWay {
        UnderWay {
            files: BTreeMap::new(),
            by_flow: HashMap::new(),
            busy: BTreeSet::new(),
            asked: BTreeSet::new(),
            grown: BTreeMap::new(),
            grew_at: now,
        }
    }

    fn begin(&mut self, identity: Identity, file: Growing, now: Instant) {
        self.by_flow.insert(file.flow, identity);
        self.grew_at = now;
        self.grown.insert(identity, now);
        self.files.insert(identity, file);
        self.busy.insert(identity);
    }

    /// The file of a flow that is over, if it was not cut since.
    fn let_go(&mut self, flow: EntryId) -> Option<(Identity, Growing)> {
        let identity = self.by_flow.remove(&flow)?;
        if self.files.get(&identity)?.flow != flow {
            return None;
        }
        self.busy.remove(&identity);
        self.asked.remove(&identity);
        self.grown.remove(&identity);
        self.files.remove_entry(&identity)
    }

    /// Whether nothing is to be tended, nor the destination's word waited for.
    fn rest(&self) -> bool {
        self.busy.is_empty() && self.asked.is_empty()
    }

    fn all_ended(&self) -> bool {
        self.files.values().all(|file| file.is_ended)
    }
}

/// What the end of all goes by.
#[derive(Default)]
struct End {
    /// Counts flows that begin and end, and the coming of the marker; how far it was at the last look.
    changes: (u64, Option<u64>),
    /// Since when the marker's name leads to something.
    marker_since: Option<Instant>,
    /// The look under way decides whether all is over: what is complete is to be as it was now, not a while ago.
    is_near: bool,
    /// Something was begun.
    has_begun: bool,
    /// A single file ended for good: it was complete by itself, or failed. One that was replaced or cut has not: what
    /// comes at its name goes on.
    is_single_over: bool,
    is_last: bool,
}

impl End {
    /// Whether nothing began or ended, and no marker came, since the last look.
    fn is_looked(&self) -> bool {
        self.changes.1 == Some(self.changes.0)
    }
}

/// What is told once.
#[derive(Default)]
struct Told {
    /// Something of these names.
    names: BTreeSet<Vec<u8>>,
    /// That nobody can tell here who writes; and that others wait for that.
    is_blind: bool,
    is_crowded: bool,
    /// That others wait for the receipt.
    is_full: bool,
    /// That the directory's name leads elsewhere.
    is_elsewhere: bool,
}

impl FilesFeed {
    /// Of these files.
    pub fn new(spec: FilesSpec) -> FilesFeed {
        let places = spec.name.as_ref().map(|name| Places::of(&spec.dir, name, spec.below.as_ref()));
        let rule = Rule::of(&spec.until, spec.name.is_some());
        FilesFeed {
            spec,
            places,
            eyes: Eyes {
                clock: Box::new(Instant::now),
                stat_at: Box::new(Dir::stat),
                stat_of: Box::new(File::stat_now),
            },
            watching: Watching::default(),
            found: Found::default(),
            left: LeftBefore::default(),
            flows: UnderWay::new(Instant::now()),
            done: BTreeMap::new(),
            retries: Retries::by(rule),
            at_once: at_once(),
            end: End::default(),
            told: Told::default(),
        }
    }

    fn work(&mut self, taker: &dyn Taker) -> Result<()> {
        if self.spec.until.poll_ms.is_none() {
            match Watch::new() {
                Ok(watch) => self.watching.watch = Some(watch),
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
            let left = left.map(|left| (left.origin, FlowLeft { path: path(&left), ..left }));
            self.left.by_origin = left.collect();
            if more > 0 {
                taker.note(format!(
                    "{} not complete at the destination: not looked for",
                    failure::counted(more, "more file is", "more files are")
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
            None if self.watching.is_polling => POLL.max(looks.took * LOOKS_REST),
            None => LOOK_AGAIN.max(looks.took),
        };
        // Whatever events say, looking takes at most half of a core.
        let rest = looks.ended.map_or(Duration::ZERO, |ended| looks.took.saturating_sub(self.since(ended)));
        let is_named = self.marker_is_named();
        let has_come = is_named && self.end.marker_since.is_none();
        if is_named != self.end.marker_since.is_some() {
            self.end.changes.0 += 1;
            self.end.marker_since = is_named.then(|| self.now());
        }
        // What nobody looked at has not rested; and what came before the marker is there.
        let is_idle_due = self.idle_since().is_some() && !self.is_idle();
        let is_end_due = is_named && self.flows.rest() && self.flows.all_ended();
        let is_end_due = is_end_due && !self.end.is_looked();
        let must_look = is_idle_due || self.is_turn(taker) || has_come || is_end_due;
        self.end.is_near = is_named || self.idle_since().is_some();
        if must_look || looks.last.map_or(rest.is_zero(), |at| self.since(at) >= every) {
            let (began, changes) = (self.now(), self.end.changes.0);
            self.look(taker)?;
            // What began by this look was seen by it.
            self.end.changes.1 = (self.end.changes.0 == changes).then_some(changes);
            self.found.looked_from = Some(began);
            looks.last = Some(self.now());
            looks.ended = looks.last;
            looks.took = self.since(began);
            self.flows.busy.extend(self.flows.files.keys().copied());
        }
        let is_ending = self.is_ending();
        if is_ending && !self.found.is_marker_listed {
            self.say_unlisted(taker);
        }
        self.look_at_noticed(&mut looks.last, taker)?;
        self.begin_again(taker)?;
        // As long as nobody knows where files go on, that is what is waited for.
        let all_wait = self.flows.busy.is_empty() && !self.flows.asked.is_empty();
        self.hear(if all_wait { STEP } else { Duration::ZERO }, taker, buffer)?;
        self.tend(taker, buffer, is_ending)?;
        self.conclude(taker, is_ending);
        if self.end.is_last && self.flows.files.is_empty() {
            return Ok(None);
        }
        let until_look = looks.last.map_or(rest, |at| every.saturating_sub(self.since(at)));
        let is_waited_for = is_ending || self.flows.files.values().any(|file| file.is_ended);
        Ok(Some(match (self.flows.rest(), is_waited_for) {
            (false, _) => Duration::ZERO,
            // Until the destination has them.
            (true, true) => STEP.min(until_look),
            (true, false) => until_look.min(HEAR_EVERY),
        }))
    }

    fn now(&self) -> Instant {
        (self.eyes.clock)()
    }

    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }

    /// When nothing had grown for the idle time, as far as anybody saw, if that is past. What is waited for has to come
    /// first.
    fn idle_since(&self) -> Option<Instant> {
        let since = self.flows.grew_at + Duration::from_millis(self.spec.until.idle_ms?);
        let is_awaited = self.spec.until.wait && !self.end.has_begun && self.found.unread.is_empty();
        (!is_awaited && self.now() >= since).then_some(since)
    }

    /// Whether that was seen by a look at everything since.
    fn is_idle(&self) -> bool {
        self.idle_since().zip(self.found.looked_from).is_some_and(|(since, from)| from >= since)
    }

    /// Whether the marker is there, and what came before it was listed with it.
    fn is_ending(&self) -> bool {
        let is_late = |since: Instant| self.since(since) >= LISTED_WITHIN;
        self.end.marker_since.is_some_and(|since| self.found.is_marker_listed || is_late(since))
    }

    /// Whether files that had no turn at the last look have one now, and not a few of them.
    fn is_turn(&self, taker: &dyn Taker) -> bool {
        self.found.waiting > 0 && self.flows.files.len() <= self.at_once / 2 && taker.has_room()
    }

    fn say_unlisted(&mut self, taker: &dyn Taker) {
        let marker = self.spec.until.marker.as_ref().and_then(|name| self.spec.prefix.join(name).ok());
        if let Some(path) = marker {
            self.note_once(&path, UNLISTED, taker);
        }
    }

    fn note_once(&mut self, path: &RelativePath, text: &str, taker: &dyn Taker) {
        if self.told.names.len() < TOLD_MAX && self.told.names.insert(path.as_bytes().to_vec()) {
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
        self.retries.rule
    }

    fn begins_nothing_again(&mut self) {
        self.retries.rule = Rule::Never;
    }

    fn run(mut self: Box<Self>, taker: &dyn Taker) {
        if let Err(failure) = self.work(taker) {
            for file in self.flows.files.values() {
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
