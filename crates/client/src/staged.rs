//! A copy through a directory of this machine, the *stage*: in two legs that run at the same time, each at its own
//! speed.
//!
//! 1. What the destination lacks is cut into batches of at most a quarter of what may lie in the stage.
//! 2. The leg in copies a batch from the source into the stage, as soon as there is room for all of it. The leg out
//!    copies the one before from there to the destination.
//! 3. Digests of what the leg in read at the source and of what the leg out brought are compared, file by file. One
//!    that differs was damaged between the two: both legs compare and repair it, twice at most. Only then it is told as
//!    done, and the batch leaves the stage.
//!
//! The names of a batch are durable in the stage before anything of it is: whoever goes on after a kill, or after
//! damage that stays, compares all of them from end to end, and fetches again only what is not here.
//!
//! What is gone at the source by then is not brought on. What was fetched of it stays in the stage, aside: it may be
//! the only copy.
//!
//! Not guaranteed: that names of one file become one file at the destination where they are in two batches; and that
//! damage is found of a batch whose stage was removed before its command had ended.

use crate::far_movers::{self, FarMovers};
use crate::job::{self, Asked, Job};
use crate::options::congestion::Wished;
use crate::place::Place;
use crate::threads;
use heard::{Fate, Heard, fate, lacks_room};
use room::Room;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_mover::event::{Event, Events};
use thalweg_mover::failure::{self, Failure, FailureKind, RUN_THREAD, Result, VERIFY};
use thalweg_mover::link::Identity;
use thalweg_mover::model::prediction::Compared;
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{
    Fidelity, From, Meter, Remembered, Selection, Sources, Stop, To, Watch, Wishes, stopped_in,
};
use thalweg_wire::RelativePath;
use thalweg_wire::hex::hex;
use thalweg_wire::message::{Check, Outcome, Totals};
use thalweg_wire::path::Escaped;

/// The directory.
mod place;

/// Who may come into it, and when.
mod room;

/// What is to pass through it.
mod needs;

/// What the legs say of it.
mod heard;

/// What is gone at the source.
mod gone;

/// How long it takes.
mod predicted;

pub use gone::SetAside;
pub use needs::{Item, Needs, ROUND_ITEMS_MAX, TwoFar, needs_between};
pub use place::{Name, StagePlace, leftover_stages};
pub use predicted::Expected;

/// What fails.
const COPY: &str = "copy through a stage";
/// Least bytes that may lie in a stage.
pub const STAGE_BYTES_MIN: u64 = 1 << 20;
/// A batch has at most this share of what may lie there: while one is fetched another one leaves, and neither leg waits
/// for the last file of a batch that is as large as the stage.
const BATCH_SHARE: u64 = 4;
/// Batches in the stage at a time, those of small files among them.
const BATCHES_MAX: usize = 8;
/// Names of a batch, and bytes of them: they travel in one message.
const BATCH_NAMES_MAX: usize = 4096;
const BATCH_NAME_BYTES_MAX: usize = 1 << 20;
/// What the smallest file takes of a file system, in bytes: sizes are counted in multiples of it.
const BLOCK_BYTES: u64 = 4096;
/// How often a file is repaired that was damaged in the stage. A disk that damages it every time is not to be used.
const REPAIRS_MAX: u32 = 2;
/// Entries of which is kept in mind that they were tried, in 16 bytes each.
const TRIED_MAX: usize = 8 << 20;
/// Between two looks whether somebody asked to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What passed through a stage, and how long the legs were at work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Carried {
    /// Entries brought to the destination.
    pub done: u64,
    /// Content bytes of them.
    pub bytes: u64,
    /// Entries that stood there already, as comparing showed.
    pub unchanged: u64,
    /// Entries that came to the destination meanwhile, and were left alone there.
    pub skipped: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Files that were damaged in the stage, and repaired.
    pub repaired: u64,
    /// Time in which something was copied into the stage.
    pub leg_in: Duration,
    /// Time in which something was copied out of it.
    pub leg_out: Duration,
}

impl Carried {
    /// The leg that was longer at work, and by what factor; `None` if nothing was copied.
    pub fn narrower(&self) -> Option<(Leg, f64)> {
        let (into, out) = (self.leg_in.as_secs_f64(), self.leg_out.as_secs_f64());
        let (leg, longer, shorter) = if into > out { (Leg::In, into, out) } else { (Leg::Out, out, into) };
        (self.done > 0 && shorter > 0.0).then(|| (leg, longer / shorter))
    }

    fn add(&mut self, other: &Carried) {
        self.done += other.done;
        self.bytes += other.bytes;
        self.unchanged += other.unchanged;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.repaired += other.repaired;
        self.leg_in += other.leg_in;
        self.leg_out += other.leg_out;
    }
}

/// A leg of a copy through a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    /// From the source into the stage.
    In,
    /// From there to the destination.
    Out,
}

impl Leg {
    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Leg::In => "in",
            Leg::Out => "out",
        }
    }
}

/// A source, and how the leg in reads it.
struct Source {
    /// What stands before its names in the transfer; empty if its contents are meant.
    prefix: Vec<u8>,
    /// As it was named.
    alone: From,
    /// Names in it.
    below: From,
}

/// The two legs, ready to go.
pub struct Legs {
    sources: Vec<Source>,
    to: To,
    signer: Arc<Identity>,
    names: (String, String),
    place: StagePlace,
    bytes_max: u64,
    /// What was set aside before, which is no part of that.
    gone_bytes: u64,
    batches_left: Mutex<Vec<Batch>>,
    /// [Keys](path_key) of entries that no further round finds.
    tried: Arc<Mutex<HashSet<[u8; 16]>>>,
    /// Keys of what is at the destination, and that the direct copy will leave alone there.
    passed: Mutex<HashSet<[u8; 16]>>,
    carried: Mutex<Carried>,
    course: Mutex<predicted::Course>,
}

/// What passed through a stage and [is left alone](Selection::left_alone) by the direct copy.
pub struct Passed(HashSet<[u8; 16]>);

impl Passed {
    /// Whether the entry at this path did.
    pub fn has(&self, path: &RelativePath) -> bool {
        self.0.contains(&path_key(path))
    }
}

/// A pass of the leg out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// The first, which leaves alone what the user says.
    First,
    /// One that repairs what the first brought.
    Repair,
    /// A look, which replaces nothing.
    Look,
}

/// What both legs go by.
pub struct Running<'a> {
    /// What the user says of the copy.
    pub wishes: &'a Wishes,
    /// The congestion control that is asked for.
    pub congestion: &'a Wished,
    /// Where this machine keeps what it remembers.
    pub state: &'a Path,
    /// Hears what happens to links.
    pub link_events: Events,
    /// Counts what arrives.
    pub meter: Arc<Meter>,
    /// Ends both legs, in order. It is also asked for where one leg fails.
    pub stop: &'a Stop,
    /// Hears of each entry that passed, and of damage that stays.
    pub tell: &'a (dyn Fn(Event) + Sync),
    /// Whether entries that a leg failed with are told: where nothing else moves them.
    pub tells_failed: bool,
}

/// What is in the stage at a time, or was when its command was killed.
struct Batch {
    number: u32,
    names: Vec<Name>,
    room_bytes: u64,
    /// An earlier command began it.
    is_again: bool,
}

/// A batch before it has a number.
struct Load {
    names: Vec<Name>,
    room_bytes: u64,
}

/// The name of a stage for a copy between these places of what is selected, with `devices` or without: the same command
/// finds it again, and another one does not go on with names that it leaves out.
pub fn key_of(asked: &Asked, selection: &Selection, devices: bool) -> String {
    let (sources, destination) = asked.places();
    let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 stage");
    let mut add = |word: &[u8]| {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word);
    };
    for place in sources.iter().chain([destination]) {
        match place {
            Place::Local(path) => add(resolved(path).as_os_str().as_bytes()),
            place => add(place.to_string().as_bytes()),
        }
        // Whether it has a slash at its end: a path that is resolved has none.
        add(&prefix_of(place));
    }
    let Selection { filter, only, one_file_system, follow_links, update, ignore_existing, .. } = selection;
    let options = [one_file_system, follow_links, update, ignore_existing, &devices];
    add(&options.map(|is_asked| u8::from(*is_asked)));
    add(&(filter.len() as u64).to_le_bytes());
    for rule in filter {
        add(&[u8::from(rule.include)]);
        add(rule.pattern.as_bytes());
    }
    only.iter().for_each(|name| add(name.as_bytes()));
    hex(&hasher.finalize().as_bytes()[..8])
}

/// Refuses places that no stage is for, and a stage (`key`) that is inside of one of them.
///
/// # Errors
/// `Usage`, `Unsupported`.
pub fn refuse(asked: &Asked, directory: &Path, key: &str) -> Result<()> {
    let (sources, destination) = asked.places();
    let refused = |kind, cause: String| Err(Failure::new(kind, COPY, cause));
    for source in sources {
        match source {
            Place::Local(_) | Place::Daemon { .. } | Place::Ssh { .. } => {}
            Place::Object { .. } => {
                let cause = format!(
                    "names of a list are not looked up in a bucket ({source}): copy it to {} and from there to \
                     the destination (--stage)",
                    Escaped(directory.as_os_str().as_bytes())
                );
                return refused(FailureKind::Unsupported, cause);
            }
            _ => return refused(FailureKind::Usage, format!("{source} is on no disk (--stage)")),
        }
    }
    if !matches!(
        destination,
        Place::Local(_) | Place::Daemon { .. } | Place::Ssh { .. } | Place::Object { .. }
    ) {
        return refused(FailureKind::Usage, format!("{destination} keeps nothing (--stage)"));
    }
    let prefixes: Vec<Vec<u8>> = sources.iter().map(prefix_of).collect();
    if prefixes.iter().any(Vec::is_empty) && sources.len() > 1 {
        let cause = "of several sources each gives a name of its own here: write them without a slash at the \
                     end, or copy one after the other (--stage)";
        return refused(FailureKind::Unsupported, cause.to_owned());
    }
    for (at, source) in sources.iter().enumerate() {
        if let Some(other) = prefixes[..at].iter().position(|prefix| *prefix == prefixes[at]) {
            let other = &sources[other];
            let cause = format!(
                "{other} and {source} would both give the same name at the destination: copy one after the other, \
                 each to a directory of its own (--stage)"
            );
            return refused(FailureKind::Unsupported, cause);
        }
    }
    let (stage, own) = (resolved(directory), resolved(&StagePlace::path(directory, key)));
    for place in sources.iter().chain([destination]) {
        let Place::Local(path) = place else { continue };
        let path = resolved(path);
        if stage.starts_with(&path) || path.starts_with(&own) {
            let cause = format!(
                "the stage `{}` and {place} are one inside the other: name a directory beside it (--stage)",
                Escaped(directory.as_os_str().as_bytes())
            );
            return refused(FailureKind::Usage, cause);
        }
    }
    Ok(())
}

/// Where a path leads, as far as it is there.
fn resolved(path: &Path) -> PathBuf {
    let there = thalweg_mover::endpoint::local::overlap::resolved(path);
    std::path::absolute(&there).unwrap_or(there)
}

/// How a copy through a stage ended.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// What passed through the stage.
    pub carried: Carried,
    /// At most so many bytes lay there at a time.
    pub bytes_max: u64,
    /// From the first look to the last word.
    pub elapsed: Duration,
    /// Files for which the stage was no place.
    pub files_past: u64,
    /// What the direct copy did that ends it, where one of the places is on this machine.
    pub direct: Option<(Totals, Sources)>,
    /// Entries that the destination had.
    pub unchanged: u64,
    /// Entries that it had when the copy began.
    pub stood: u64,
    /// Entries that were left alone there, or left out.
    pub skipped: u64,
    /// Entries that failed.
    pub failed: u64,
    /// Predicted against actual, as [`Expected::end`] says it.
    pub compared: Option<Compared>,
}

/// What stands before the names of a source in the transfer.
fn prefix_of(source: &Place) -> Vec<u8> {
    let path = match source {
        Place::Local(path) => path.as_os_str().as_bytes().to_vec(),
        far => far_movers::place_there(far).map(|place| place.path).unwrap_or_default(),
    };
    job::name_of(&path).as_bytes().to_vec()
}

impl Legs {
    /// Reaches the places. `bytes_asked`: at most so many bytes lie in the stage at a time; without, four fifths of
    /// what is free there now.
    ///
    /// # Errors
    /// As [`Asked::reach`]; `Space` where more lies in the stage than may, or there is no room; what the stage says.
    pub fn reach(
        asked: &Asked,
        far_movers: &mut FarMovers,
        state: &Path,
        place: StagePlace,
        bytes_asked: Option<u64>,
    ) -> Result<Legs> {
        let (places, destination) = asked.places();
        let mut sources = Vec::new();
        for source in places {
            let mut contents = source.clone();
            contents.mean_contents();
            let mut from = |place: Place| -> Result<From> {
                Ok(Asked::new("cp", place, Place::Null)?.reach(far_movers, state)?.from)
            };
            let (alone, below) = (from(source.clone())?, from(contents)?);
            sources.push(Source { prefix: prefix_of(source), alone, below });
        }
        let mut destination = destination.clone();
        if sources.len() > 1 {
            // What is left of one of them alone does not give it its own name.
            destination.mean_contents();
        }
        let Job { to, signer, .. } =
            Asked::new("cp", Place::Zero(0), destination)?.out_of_stage().reach(far_movers, state)?;
        let left = batches_left(&place)?;
        let all = |bytes: fn(&Batch, &StagePlace) -> u64| {
            left.iter().map(|batch| bytes(batch, &place)).fold(0, u64::saturating_add)
        };
        let left_bytes = all(|batch, _| batch.room_bytes);
        let free_bytes = place.free_bytes.saturating_add(all(|batch, place| place.taken(batch.number)));
        let gone_bytes = place.gone_bytes();
        let bytes_max = match bytes_asked {
            Some(asked) => asked.saturating_sub(gone_bytes).min(free_bytes),
            None => (free_bytes / 5 * 4).max(left_bytes),
        };
        let least = left_bytes.max(STAGE_BYTES_MIN);
        if bytes_max < least {
            let beside = match gone_bytes {
                0 => String::new(),
                bytes => format!(" beside {bytes} that were set aside there"),
            };
            let cause = format!(
                "at most {bytes_max} bytes may lie there{beside}, and {least} are needed, for what an earlier \
                 run left there (`thalweg gc --yes` removes it) or for anything at all"
            );
            return Err(place.named(Failure::new(FailureKind::Space, COPY, cause)));
        }
        Ok(Legs {
            sources,
            to,
            signer,
            names: asked.names(),
            place,
            bytes_max,
            gone_bytes,
            batches_left: Mutex::new(left),
            tried: Arc::default(),
            passed: Mutex::default(),
            carried: Mutex::default(),
            course: Mutex::default(),
        })
    }

    /// Whether the leg out goes to a far mover.
    pub fn is_push(&self) -> bool {
        matches!(self.to, To::Far(..))
    }

    /// At most so many bytes lie in the stage at a time.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// What passed so far.
    pub fn carried(&self) -> Carried {
        lock(&self.carried).clone()
    }

    /// Whether an earlier command left something in the stage that is not at the destination, or not compared.
    pub fn has_left(&self) -> bool {
        !lock(&self.batches_left).is_empty()
    }

    /// Names of what it left: it goes first, whatever else is needed.
    pub fn names_left(&self) -> HashSet<RelativePath> {
        lock(&self.batches_left).iter().flat_map(|batch| &batch.names).map(|name| name.path.clone()).collect()
    }

    /// Whether another round may follow: what was tried is kept in mind, up to a bound.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn check_tried(&self) -> Result<()> {
        match lock(&self.tried).len() + lock(&self.passed).len() {
            ..TRIED_MAX => Ok(()),
            tried => {
                let cause = format!("{tried} entries were tried, and there are more: copy part by part");
                Err(Failure::new(FailureKind::Unsupported, COPY, cause))
            }
        }
    }

    /// What passed, for the direct copy that leaves it alone; after the last round.
    pub fn take_passed(&self) -> Passed {
        Passed(std::mem::take(&mut *lock(&self.passed)))
    }

    /// Carries what was left in the stage and these items to the destination.
    ///
    /// # Errors
    /// What either leg failed with as a whole: then the other one has ended, too, and what is in the stage is found by
    /// the next command.
    pub fn carry(&self, items: Vec<Item>, running: &Running<'_>) -> Result<()> {
        let again = std::mem::take(&mut *lock(&self.batches_left));
        let room = Room::new(self.bytes_max);
        // In an earlier round.
        room.set_aside(self.place.gone_bytes().saturating_sub(self.gone_bytes));
        self.place.batches()?.into_iter().for_each(|number| room.keep(number));
        again.iter().for_each(|batch| room.hold(batch));
        let loads = loads_of(items, self.bytes_max / BATCH_SHARE);
        let (filled, fills) = sync_channel(BATCHES_MAX);
        std::thread::scope(|scope| {
            let (room, legs) = (&room, self);
            let leg_in = threads::spawn_scoped(scope, "stage", move || {
                legs.fill(again, loads, room, &filled, running)
            })?;
            let went = self.drain(&fills, room, running);
            if went.is_err() {
                running.stop.stop();
            }
            // Who fills hears that nobody takes it.
            drop(fills);
            let came = leg_in.join().unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Internal, RUN_THREAD, "the leg into the stage panicked"))
            });
            went.and(came)
        })
    }

    /// The leg in: one batch after the other.
    fn fill(
        &self,
        again: Vec<Batch>,
        loads: Vec<Load>,
        room: &Room,
        to: &SyncSender<(Batch, Heard)>,
        running: &Running<'_>,
    ) -> Result<()> {
        for batch in again {
            self.fill_one(batch, room, to, running)?;
        }
        for Load { names, room_bytes } in loads {
            let number = room.take(room_bytes, running.stop)?;
            self.place.write_list(number, room_bytes, &names)?;
            let batch = Batch { number, names, room_bytes, is_again: false };
            self.fill_one(batch, room, to, running)?;
        }
        Ok(())
    }

    fn fill_one(
        &self,
        batch: Batch,
        room: &Room,
        to: &SyncSender<(Batch, Heard)>,
        running: &Running<'_>,
    ) -> Result<()> {
        let check = if batch.is_again { Check::Digest } else { Check::Evidence };
        let fetch = || {
            let began = Instant::now();
            let came = self.leg_in(batch.number, &batch.names, check, running);
            lock(&self.carried).leg_in += began.elapsed();
            came
        };
        let left = room.left();
        let mut came = fetch();
        // Somebody else may have filled the disk: what leaves it makes room.
        if lacks_room(&came) && room.wait_left(left, running.stop) {
            came = fetch();
        }
        let came = came?;
        if batch.is_again {
            // What an earlier command fetched and is gone at the source, or cannot be had, is not brought on.
            let lost: Vec<&Name> = batch.names.iter().filter(|name| !came.has(&name.path)).collect();
            if let Some(aside) = self.place.set_aside(batch.number, &lost, &|path| came.has(path))? {
                room.set_aside(aside.bytes);
                (running.tell)(Event::Note(told_aside(&aside)));
            }
        }
        room.leave();
        to.send((batch, came)).map_err(|_| stopped_in(COPY))
    }

    /// The leg out, and the comparison from end to end.
    fn drain(&self, from: &Receiver<(Batch, Heard)>, room: &Room, running: &Running<'_>) -> Result<()> {
        while let Ok((batch, came)) = from.recv() {
            let is_whole = self.drain_one(&batch, came, running)?;
            room.release(&batch, is_whole);
        }
        Ok(())
    }

    /// Whether nothing of the batch is left to do.
    fn drain_one(&self, batch: &Batch, mut came: Heard, running: &Running<'_>) -> Result<bool> {
        let check = if batch.is_again { Check::Digest } else { running.wishes.fidelity.check };
        let left_alone = running.wishes.selection.left_alone();
        // An earlier command may have brought what is left alone now. Of what keeps its time nothing is newer.
        let may_be_ours = batch.is_again && (left_alone.existing || !running.wishes.fidelity.preserve.times);
        let mut went = self.leg_out(batch.number, check, Pass::First, running)?;
        let stays = went.left_alone();
        if may_be_ours && !stays.is_empty() {
            went.find(&came, &self.leg_out(batch.number, Check::Digest, Pass::Look, running)?);
        }
        let (mut opened, mut damaged) = (HashSet::new(), HashSet::new());
        for _ in 0..REPAIRS_MAX {
            let is_open = |name: &&Name| {
                !stays.contains(&name.path) && matches!(fate(&name.path, &came, &went), Fate::Open(_))
            };
            let open: Vec<Name> = batch.names.iter().filter(is_open).cloned().collect();
            if open.is_empty() {
                break;
            }
            let differs = |name: &&Name| matches!(fate(&name.path, &came, &went), Fate::Open(true));
            damaged.extend(open.iter().filter(differs).map(|name| name.path.clone()));
            opened.extend(open.iter().map(|name| name.path.clone()));
            if !stays.is_empty() {
                // The leg out takes all that is there.
                self.place.empty(batch.number)?;
            }
            came.go_on(self.leg_in(batch.number, &open, Check::Digest, running)?);
            went.go_on(self.leg_out(batch.number, Check::Digest, Pass::Repair, running)?);
        }
        // Nobody else compares what may be there by now.
        let may_be_there = |name: &Name| batch.is_again || opened.contains(&name.path);
        let mut carried = Carried::default();
        let mut left = Vec::new();
        for name in &batch.names {
            let fate = fate(&name.path, &came, &went);
            // Also of what is there: not every destination, and not every check, finds it unchanged in the next round.
            lock(&self.tried).insert(path_key(&name.path));
            match fate {
                Fate::Same(mut event) => {
                    if running.tells_failed
                        && let Event::Settled(_, Outcome::Done { losses, .. }) = &mut event
                    {
                        // No direct copy makes up for what the stage could not keep.
                        losses.extend_from_slice(came.losses(&name.path));
                    }
                    if !running.tells_failed && left_alone.is_any() {
                        lock(&self.passed).insert(path_key(&name.path));
                    }
                    carried.repaired += u64::from(damaged.contains(&name.path));
                    if let Event::Settled(entry, Outcome::Done { .. }) = &event {
                        carried.done += 1;
                        carried.bytes += entry.content_bytes();
                    } else {
                        carried.unchanged += 1;
                    }
                    (running.tell)(event);
                }
                Fate::Open(_) => {
                    carried.failed += 1;
                    let cause = "what the destination has is not what was read at the source: it was damaged in \
                                 the stage, again and again. The same command compares it once more";
                    let failure = Failure::new(FailureKind::Damage, VERIFY, cause).at(&name.path);
                    (running.tell)(Event::Aside(name.path.clone(), Outcome::Failed(failure)));
                    left.push(name.clone());
                }
                Fate::Left(Event::Settled(entry, _)) if may_be_ours && entry.content_bytes() > 0 => {
                    carried.failed += 1;
                    let cause = "what the destination has is not what was read at the source, and is left alone: \
                                 an earlier run brought it damaged, or somebody else put it there. Once it is \
                                 gone, the same command brings it";
                    let failure = Failure::new(FailureKind::Conflict, VERIFY, cause).at(&name.path);
                    (running.tell)(Event::Aside(name.path.clone(), Outcome::Failed(failure)));
                    left.push(name.clone());
                }
                Fate::Left(event) if running.tells_failed => {
                    carried.skipped += 1;
                    (running.tell)(event);
                }
                // The direct copy leaves it alone as well, and says so.
                Fate::Left(_) => {}
                // It went before this command began.
                Fate::Failed(_) if batch.is_again && came.lacks(&name.path) => {}
                Fate::Failed(failure) if running.tells_failed || may_be_there(name) => {
                    carried.failed += 1;
                    let failure = failure.at(&name.path);
                    (running.tell)(Event::Aside(name.path.clone(), Outcome::Failed(failure)));
                    if may_be_there(name) {
                        left.push(name.clone());
                    }
                }
                // The direct copy moves it, or says why not.
                Fate::Failed(_) => {}
            }
        }
        lock(&self.carried).add(&carried);
        if left.is_empty() {
            self.place.remove(batch.number)?;
        } else {
            self.place.empty(batch.number)?;
            self.place.write_list(batch.number, batch.room_bytes, &left)?;
        }
        Ok(left.is_empty())
    }

    /// Copies these names of a batch from the source into the stage.
    fn leg_in(&self, number: u32, names: &[Name], check: Check, running: &Running<'_>) -> Result<Heard> {
        let tree = self.place.tree(number);
        let leg = |job: &Job, wishes: &Wishes, prefix: &[u8]| {
            self.leg(job, wishes, prefix, None, running).map_err(|failure| self.place.named(failure))
        };
        let mut heard = Heard::default();
        for source in &self.sources {
            let Source { prefix, alone, below } = source;
            let mut only = Vec::new();
            let mut is_alone = false;
            for name in names {
                match (rest(prefix, &name.path), name.is_directory) {
                    (Some(rest), false) if rest.is_root() => is_alone = true,
                    // A directory that is the source itself comes with an empty name: without what is in it.
                    (Some(rest), _) => only.push(rest),
                    (None, _) => {}
                }
            }
            if is_alone {
                let job = self.job(alone.clone(), To::Local(slashed(&tree)), true);
                let wishes = leg_wishes(running.wishes, Vec::new(), check, Leg::In);
                heard.0.extend(leg(&job, &wishes, b"")?.0);
            }
            if !only.is_empty() {
                let to = To::Local(slashed(&tree.join(OsStr::from_bytes(prefix))));
                let job = self.job(below.clone(), to, true);
                let wishes = leg_wishes(running.wishes, only, check, Leg::In);
                heard.0.extend(leg(&job, &wishes, prefix)?.0);
            }
        }
        heard.name(&|failure| self.place.named(failure));
        Ok(heard)
    }

    /// Copies a batch from the stage to the destination.
    fn leg_out(&self, number: u32, check: Check, pass: Pass, running: &Running<'_>) -> Result<Heard> {
        let tree = self.place.tree(number);
        let path = |source: &Source| match source.prefix.is_empty() {
            true => slashed(&tree),
            false => tree.join(OsStr::from_bytes(&source.prefix)),
        };
        let mut paths: Vec<PathBuf> = self.sources.iter().map(path).collect();
        paths.retain(|path| path.symlink_metadata().is_ok());
        if paths.is_empty() {
            return Ok(Heard::default());
        }
        let job = self.job(From::Local(paths), self.to.clone(), false);
        let mut wishes = leg_wishes(running.wishes, Vec::new(), check, Leg::Out);
        let counts = (pass == Pass::First).then(|| running.meter.clone());
        match pass {
            Pass::First => {
                wishes.selection.update = running.wishes.selection.update;
                wishes.selection.ignore_existing = running.wishes.selection.ignore_existing;
            }
            Pass::Repair => {}
            Pass::Look => wishes.dry_run = true,
        }
        let began = Instant::now();
        let heard = self.leg(&job, &wishes, b"", counts, running);
        lock(&self.carried).leg_out += began.elapsed();
        heard
    }

    fn job(&self, from: From, to: To, is_in: bool) -> Job {
        let stage = "the stage".to_owned();
        let names = match is_in {
            true => (self.names.0.clone(), stage),
            false => (stage, self.names.1.clone()),
        };
        Job { from, to, signer: self.signer.clone(), names, part: None, client_line: None }
    }

    /// Runs one copy of a leg. `prefix`: what stands before its names in the whole.
    fn leg(
        &self,
        job: &Job,
        wishes: &Wishes,
        prefix: &[u8],
        counts: Option<Arc<Meter>>,
        running: &Running<'_>,
    ) -> Result<Heard> {
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let (hears, prefix) = (heard.clone(), prefix.to_vec());
        let events: Events = Arc::new(move |event| {
            if let Some(meter) = &counts {
                count(meter, &event);
            }
            lock(&hears).hear(&prefix, event);
        });
        let mut wishes = wishes.clone();
        wishes.movement.link.congestion = running.congestion.where_we_send(job.is_push());
        let link_events = running.link_events.clone();
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        lock(&self.course).begin(Instant::now());
        let report = job.run(&wishes, running.state, &watch, running.stop)?;
        lock(&self.course).end(Instant::now(), report.is_cut_off());
        Ok(std::mem::take(&mut *lock(&heard)))
    }
}

/// What a leg is asked for: the names that were chosen, and nothing is chosen again.
fn leg_wishes(wishes: &Wishes, only: Vec<RelativePath>, check: Check, leg: Leg) -> Wishes {
    let follow_links = leg == Leg::In && wishes.selection.follow_links;
    let mut fidelity = Fidelity { check, delete_max: None, ..wishes.fidelity.clone() };
    // What lies in the stage is known again by its times.
    fidelity.preserve.times |= leg == Leg::In;
    Wishes {
        selection: Selection { only, follow_links, ..Selection::default() },
        fidelity,
        movement: wishes.movement.clone(),
        remembered: Remembered { no_profile: true, ..Remembered::default() },
        ..Wishes::default()
    }
}

/// The batches that an earlier command left.
fn batches_left(place: &StagePlace) -> Result<Vec<Batch>> {
    let mut left = Vec::new();
    for number in place.batches()? {
        match place.read_list(number)? {
            Some((room_bytes, names)) => {
                let room_bytes = room_bytes.max(place.taken(number));
                left.push(Batch { number, names, room_bytes, is_again: true });
            }
            // It was killed before it fetched anything.
            None => place.remove(number)?,
        }
    }
    Ok(left)
}

/// Items in batches of at most so many bytes; one that is larger is alone in its own.
fn loads_of(items: Vec<Item>, bytes_max: u64) -> Vec<Load> {
    let mut loads: Vec<Load> = Vec::new();
    let mut name_bytes = 0;
    for item in items {
        let (more, more_bytes) = (item.names.len(), item.name_bytes());
        let fits = |load: &Load| {
            load.room_bytes.saturating_add(item.room_bytes()) <= bytes_max
                && load.names.len() + more <= BATCH_NAMES_MAX
                && name_bytes + more_bytes <= BATCH_NAME_BYTES_MAX
        };
        let room_bytes = item.room_bytes();
        match loads.last_mut().filter(|load| fits(load)) {
            Some(load) => {
                load.room_bytes += room_bytes;
                load.names.extend(item.names);
                name_bytes += more_bytes;
            }
            None => {
                loads.push(Load { names: item.names, room_bytes });
                name_bytes = more_bytes;
            }
        }
    }
    loads
}

/// What is left of a path behind this prefix, which is the root of the rest; `None` if it does not begin so.
fn rest(prefix: &[u8], path: &RelativePath) -> Option<RelativePath> {
    let bytes = path.as_bytes();
    if prefix.is_empty() {
        return Some(path.clone());
    }
    let rest = bytes.strip_prefix(prefix)?;
    match rest.strip_prefix(b"/") {
        Some(rest) => RelativePath::new(rest.to_vec()).ok(),
        None => rest.is_empty().then(RelativePath::root),
    }
}

/// The path with this prefix before it; `None` if that is too long.
fn whole(prefix: &[u8], path: &RelativePath) -> Option<RelativePath> {
    let slash: &[u8] = if prefix.is_empty() || path.is_root() { b"" } else { b"/" };
    RelativePath::new([prefix, slash, path.as_bytes()].concat()).ok()
}

fn slashed(path: &Path) -> PathBuf {
    let mut words = path.as_os_str().to_owned();
    words.push("/");
    words.into()
}

/// What tells a path from others.
fn path_key(path: &RelativePath) -> [u8; 16] {
    let mut key = [0; 16];
    key.copy_from_slice(&blake3::hash(path.as_bytes()).as_bytes()[..16]);
    key
}

fn told_aside(aside: &SetAside) -> String {
    let names = failure::counted(aside.names, "file of an earlier run is", "files of an earlier run are");
    format!(
        "{names} gone at the source, or cannot be read there: not brought on, and kept in `{}`, until you move it or \
         `thalweg gc --yes` removes it",
        failure::shown_path(aside.path.as_os_str().as_bytes())
    )
}

/// Counts what the leg out settles.
fn count(meter: &Meter, event: &Event) {
    let Event::Settled(entry, outcome) = event else { return };
    meter.entries_settled.fetch_add(1, Relaxed);
    let bytes = entry.content_bytes();
    match outcome {
        Outcome::Done { .. } => {
            let before = meter.bytes_verified.fetch_add(bytes, Relaxed);
            meter.came(before + bytes);
        }
        _ => {
            meter.bytes_unmoved.fetch_add(bytes, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
