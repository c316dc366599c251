//! What is to pass through a stage: what the destination lacks.
//!
//! Where one of the places is on this machine, a dry run of the direct copy says so, by all that the user asked for; of
//! what it would do only files with content pass, and all else is left to that copy. Where both are far, both are
//! listed, and everything passes that is not there with the same size and times, but for what is left alone there.
//!
//! In rounds of a bounded number of entries: what is beyond is found by the next one.

use super::{BATCH_NAME_BYTES_MAX, BLOCK_BYTES, COPY, Legs, Name, Running, path_key, prefix_of, whole};
use crate::check::Selected;
use crate::far_movers::FarMovers;
use crate::job::{Asked, Job};
use crate::place::Place;
use crate::reach::Reach;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use thalweg_mover::endpoint::left_alone::LeftAlone;
use thalweg_mover::endpoint::local::survey::Found;
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Fidelity, Remembered, Stop, Watch, Wishes};
use thalweg_wire::message::{Check, Outcome};
use thalweg_wire::{Entry, Kind, RelativePath, Time};

/// Entries that a round usually has: some 40 MiB of names.
pub const ROUND_ITEMS_MAX: usize = 256 << 10;
/// Names of one file that go together. With more they become several files.
const NAMES_OF_FILE_MAX: usize = 1024;
/// Entries at a far destination beside which a source can be held: of each 16 bytes are kept, and some 40 more where
/// something is left alone.
const STANDING_MAX: usize = 8 << 20;

/// A file with all its names, or another entry.
#[derive(Debug, Clone)]
pub struct Item {
    /// Paths in the transfer.
    pub(super) names: Vec<Name>,
    /// Content bytes.
    pub(super) bytes: u64,
}

impl Item {
    /// Bytes that it takes in the stage, at most.
    pub(super) fn room_bytes(&self) -> u64 {
        room_bytes(self.bytes).saturating_add((self.names.len() as u64 - 1).saturating_mul(BLOCK_BYTES))
    }

    /// Whether another name of the file goes with it: what is no larger than a batch may be stays so.
    pub(super) fn takes(&self, name: &Name, bytes_max: u64) -> bool {
        self.names.len() < NAMES_OF_FILE_MAX
            && self.room_bytes().saturating_add(BLOCK_BYTES) <= bytes_max
            && self.name_bytes() + name.path.as_bytes().len() <= BATCH_NAME_BYTES_MAX
    }

    pub(super) fn name_bytes(&self) -> usize {
        self.names.iter().map(|name| name.path.as_bytes().len()).sum()
    }
}

/// Bytes that content takes on a disk, at most.
fn room_bytes(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX)
}

/// What a round found.
#[derive(Debug, Default)]
pub struct Needs {
    /// What is to pass through the stage.
    pub items: Vec<Item>,
    /// Content bytes of that.
    pub bytes: u64,
    /// Another round will find more.
    pub has_more: bool,
    /// Files that do not pass through the stage: they are larger than what may lie there, or have more than 1 GiB of
    /// holes, which are in digests as the file system keeps them.
    pub files_past: u64,
    /// Entries that the destination has.
    pub unchanged: u64,
    /// Of two far places: entries that are left alone at the destination.
    pub skipped: u64,
    /// Of two far places: entries that could not be listed, or cannot pass.
    pub failed: u64,
}

impl Needs {
    /// Where it is then; `None` if it is beyond this round, which has `items_max`.
    fn add(&mut self, name: Name, bytes: u64, items_max: usize) -> Option<usize> {
        let at = self.items.len();
        if at >= items_max {
            self.has_more = true;
            return None;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.items.push(Item { names: vec![name], bytes });
        Some(at)
    }
}

impl Legs {
    /// What a direct copy would move that no earlier command left in the stage, and no earlier round tried: at most
    /// `items_max` entries.
    ///
    /// # Errors
    /// As [`Job::run`].
    pub fn needs_of(&self, direct: &Job, running: &Running<'_>, items_max: usize) -> Result<Needs> {
        let needs: Arc<Mutex<Needs>> = Arc::default();
        let (left, bytes_max, found) = (self.names_left(), self.bytes_max, needs.clone());
        let tried = self.tried.clone();
        let events: Events = Arc::new(move |event| {
            let Event::Settled(entry, Outcome::Done { .. }) = &event else { return };
            let Kind::File { marked, .. } = entry.kind else { return };
            let bytes = entry.content_bytes();
            let mut found = lock(&found);
            if marked || room_bytes(bytes) > bytes_max {
                found.files_past += 1;
            } else if bytes > 0
                && !left.contains(&entry.path)
                && !lock(&tried).contains(&path_key(&entry.path))
            {
                found.add(Name { path: entry.path.clone(), is_directory: false }, bytes, items_max);
            }
        });
        let link_events = running.link_events.clone();
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        let wishes = running.wishes;
        let wishes = Wishes {
            dry_run: true,
            removes_sources: false,
            fidelity: Fidelity { delete_max: None, ..wishes.fidelity.clone() },
            remembered: Remembered { no_profile: true, ..wishes.remembered.clone() },
            receipt: None,
            ..wishes.clone()
        };
        let report = direct.run(&wishes, running.state, &watch, running.stop)?;
        let needs = std::mem::take(&mut *lock(&needs));
        Ok(Needs { unchanged: report.totals.unchanged, ..needs })
    }
}

/// Two far places that are listed.
pub struct TwoFar {
    /// Each with what stands before its names.
    sources: Vec<(Vec<u8>, Reach)>,
    /// As it was named, and with a slash at its end.
    destination: [Reach; 2],
    /// Its name has that slash.
    is_directory: bool,
}

impl TwoFar {
    /// Reaches both.
    ///
    /// # Errors
    /// As [`Reach::all`].
    pub fn reach(
        asked: &Asked,
        far_movers: &mut FarMovers,
        stop: &Arc<Stop>,
        follow_links: bool,
    ) -> Result<TwoFar> {
        let (places, destination) = asked.places();
        let mut slashed: Place = destination.clone();
        slashed.mean_contents();
        let is_directory = slashed == *destination;
        let named = places.iter().cloned().chain([destination.clone(), slashed]).collect();
        let mut all = Reach::all(named, far_movers)?.into_iter().map(|place| place.until(stop).outlasting());
        let prefixes = places.iter().map(prefix_of);
        let followed = |(prefix, place): (Vec<u8>, Reach)| (prefix, place.following_links(follow_links));
        let sources: Vec<(Vec<u8>, Reach)> = prefixes.zip(all.by_ref()).map(followed).collect();
        match (all.next(), all.next()) {
            (Some(named), Some(slashed)) => {
                Ok(TwoFar { sources, destination: [named, slashed], is_directory })
            }
            _ => Err(Failure::new(FailureKind::Internal, "reach the places", "there are fewer than asked")),
        }
    }
}

/// What of the sources is not at the destination with the same size and times, and no earlier round tried: at most
/// `items_max` entries. `tell` hears of what cannot be listed, of what cannot pass, and of what is left alone.
///
/// # Errors
/// `Unsupported` where too much stands at the destination to be kept in mind; what the places say.
pub fn needs_between(
    legs: &Legs,
    far: &TwoFar,
    wishes: &Wishes,
    items_max: usize,
    tell: &mut dyn FnMut(Event),
) -> Result<Needs> {
    let left_alone = wishes.selection.left_alone();
    let selected = Selected::new(wishes.selection.filter.clone(), None)?;
    let (needs, inodes, left) = (Needs::default(), HashMap::new(), legs.names_left());
    let mut round = Round { needs, items_max, inodes, legs, wishes, left };
    let [named, slashed] = &far.destination;
    for (prefix, source) in &far.sources {
        let itself = if prefix.is_empty() { None } else { Some(source.itself()?) };
        let alone = itself.filter(|entry| !matches!(entry.kind, Kind::Directory));
        if let Some(entry) = alone {
            let path = RelativePath::new(prefix.clone()).unwrap_or_default();
            let is_inside = far.is_directory || far.sources.len() > 1 || is_directory(slashed)?;
            let there = if is_inside { slashed.below(prefix) } else { named.clone() };
            let mut standing = Standing::new(left_alone);
            if let Some(there) = there_is(there.itself())? {
                standing.add(&path, &there);
            }
            let there = standing.there(&path, &entry);
            round.hear(path, &entry, there, tell);
            continue;
        }
        let at = if prefix.is_empty() { slashed.clone() } else { slashed.below(prefix) };
        let standing = Standing::list(prefix, &at, left_alone)?;
        source.list(true, &mut |found| {
            match found {
                Found::Trouble(failure) => {
                    let path = failure.path.as_ref().and_then(|path| whole(prefix, path)).unwrap_or_default();
                    round.needs.failed += 1;
                    tell(failed(&path, failure));
                }
                Found::Entry(entry) => {
                    let Some(path) = whole(prefix, &entry.path) else {
                        let cause = "its path is too long with the name of the source before it: copy what is in \
                                     the source (a slash at its end)";
                        round.needs.failed += 1;
                        tell(failed(&entry.path, Failure::new(FailureKind::Unsupported, COPY, cause)));
                        return Ok(());
                    };
                    // The contents of a source: their directory is the destination.
                    if path.is_root() || !selected.has(&path, matches!(entry.kind, Kind::Directory)) {
                        return Ok(());
                    }
                    let there = standing.there(&path, &entry);
                    round.hear(path, &entry, there, tell);
                }
            }
            Ok(())
        })?;
    }
    Ok(round.needs)
}

/// What is found of a source.
struct Round<'a> {
    needs: Needs,
    items_max: usize,
    /// Device and inode of files, and where they are among the items.
    inodes: HashMap<(u64, u64), usize>,
    legs: &'a Legs,
    wishes: &'a Wishes,
    left: HashSet<RelativePath>,
}

impl Round<'_> {
    /// An entry, and what the destination has under its name.
    fn hear(&mut self, path: RelativePath, entry: &Entry, there: There, tell: &mut dyn FnMut(Event)) {
        let is_wanted = match entry.kind {
            Kind::Fifo | Kind::Device { .. } => self.wishes.fidelity.preserve.devices,
            _ => true,
        };
        let was_tried = self.left.contains(&path) || lock(&self.legs.tried).contains(&path_key(&path));
        if !is_wanted || was_tried {
            return;
        }
        match there {
            There::Left(why) => {
                self.needs.skipped += 1;
                let entry = Arc::new(Entry { path, ..entry.clone() });
                return tell(Event::Settled(entry, Outcome::Skipped(why.to_owned())));
            }
            There::Same if self.wishes.fidelity.check != Check::Nothing => {
                self.needs.unchanged += 1;
                return;
            }
            There::Same | There::Other => {}
        }
        let bytes = entry.content_bytes();
        let name = Name { path, is_directory: matches!(entry.kind, Kind::Directory) };
        let Kind::File { marked, .. } = entry.kind else {
            self.needs.add(name, 0, self.items_max);
            return;
        };
        if marked || room_bytes(bytes) > self.legs.bytes_max() {
            let cause = match marked {
                true => {
                    "it has more than 1 GiB of holes, which are in digests as its file system keeps them: copy it \
                     without --stage"
                }
                false => {
                    "it is larger than what may lie in the stage: give --stage more room, or copy it without"
                }
            };
            self.needs.failed += 1;
            return tell(failed(&name.path, Failure::new(FailureKind::Unsupported, COPY, cause)));
        }
        let inode = (entry.evidence.device, entry.evidence.inode);
        if let Some(at) = self.inodes.get(&inode)
            && let Some(first) = self.needs.items.get_mut(*at)
            && first.takes(&name, self.legs.bytes_max())
        {
            first.names.push(name);
        } else if let Some(at) = self.needs.add(name, bytes, self.items_max)
            && inode.1 != 0
        {
            self.inodes.insert(inode, at);
        }
    }
}

/// What a destination has under the name of an entry.
enum There {
    /// What is left alone, and why.
    Left(&'static str),
    /// The same, by size and times.
    Same,
    /// Nothing, or something else.
    Other,
}

/// What stands at a place.
struct Standing {
    left_alone: LeftAlone,
    marks: HashSet<[u8; 16]>,
    /// Where something is left alone: of each path the time of the file there, `None` of anything else.
    times: HashMap<[u8; 16], Option<Time>>,
}

impl Standing {
    fn new(left_alone: LeftAlone) -> Standing {
        Standing { left_alone, marks: HashSet::new(), times: HashMap::new() }
    }

    /// Lists a place; it stands empty if there is none.
    fn list(prefix: &[u8], place: &Reach, left_alone: LeftAlone) -> Result<Standing> {
        let mut standing = Standing::new(left_alone);
        let listed = place.list(true, &mut |found| {
            // What cannot be listed there is copied, and fails or not.
            let Found::Entry(entry) = found else { return Ok(()) };
            if standing.marks.len() >= STANDING_MAX {
                let cause =
                    format!("more than {STANDING_MAX} entries stand at the destination: copy part by part");
                return Err(Failure::new(FailureKind::Unsupported, COPY, cause));
            }
            if let Some(path) = whole(prefix, &entry.path) {
                standing.add(&path, &entry);
            }
            Ok(())
        });
        there_is(listed)?;
        Ok(standing)
    }

    fn add(&mut self, path: &RelativePath, entry: &Entry) {
        self.marks.insert(mark_of(path, entry));
        if self.left_alone.is_any() {
            let is_file = matches!(entry.kind, Kind::File { .. } | Kind::HardLink { .. });
            self.times.insert(path_key(path), is_file.then_some(entry.evidence.mtime));
        }
    }

    /// What stands under the name of an entry of the source.
    fn there(&self, path: &RelativePath, entry: &Entry) -> There {
        let is_directory = matches!(entry.kind, Kind::Directory);
        let mtime = self.times.get(&path_key(path)).filter(|_| !is_directory);
        match mtime.and_then(|mtime| self.left_alone.reason(entry, *mtime)) {
            Some(why) => There::Left(why),
            None if self.marks.contains(&mark_of(path, entry)) => There::Same,
            None => There::Other,
        }
    }
}

fn failed(path: &RelativePath, failure: Failure) -> Event {
    let failure = if path.is_root() { failure } else { failure.at(path) };
    Event::Aside(path.clone(), Outcome::Failed(failure))
}

/// Nothing, where there is nothing.
fn there_is<T>(asked: Result<T>) -> Result<Option<T>> {
    match asked {
        Err(failure) if failure.kind == FailureKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn is_directory(place: &Reach) -> Result<bool> {
    Ok(there_is(place.itself())?.is_some_and(|entry| matches!(entry.kind, Kind::Directory)))
}

/// What tells an entry at a path from others without reading it.
fn mark_of(path: &RelativePath, entry: &Entry) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(path.as_bytes()).update(&[0]);
    let mtime = entry.evidence.mtime;
    let (what, mode): (&[u8], u32) = match &entry.kind {
        Kind::File { .. } | Kind::HardLink { .. } => (b"f", 0),
        Kind::Directory => (b"d", entry.mode),
        Kind::Symlink { target } => (target, 0),
        Kind::Fifo => (b"p", 0),
        Kind::Device { .. } => (b"v", 0),
    };
    let kind = match &entry.kind {
        Kind::Symlink { .. } => 1,
        _ => 0,
    };
    hasher.update(&[kind]).update(what).update(&[0]).update(&mode.to_le_bytes());
    if !matches!(entry.kind, Kind::Symlink { .. }) {
        hasher.update(&entry.content_bytes().to_le_bytes());
        hasher.update(&mtime.seconds.to_le_bytes()).update(&mtime.nanos.to_le_bytes());
    }
    let mut mark = [0; 16];
    mark.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    mark
}
