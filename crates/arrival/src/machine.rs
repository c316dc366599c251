//! Decides what is done with each item, and when. Pure: looks, ends and the time go in, records and actions come out.
//!
//! The way of an item: *growing* until it is complete, *moved*, *run*, its results *returned*, *done*. A later version of
//! it goes the same way once the earlier one is done, or in its place once the command failed for the earlier one.
//!
//! Who drives it makes records durable before he does the actions that came with or after them. [`Machine::replay`] of the
//! records and [`Machine::begin`] then go on wherever it was killed.
//!
//! What is done and gone from the source is forgotten when the journal is rewritten ([`Machine::forget`]), but for its key:
//! should it come again under its name, it is not analysed again. Keys have a bound of their own ([`crate::done_keys`]).

use crate::done_keys::{DONE_KEYS_MAX, DoneKeys};
use crate::item::{Complete, Order, Version, by_name, name_text};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;
use thalweg_wire::RelativePath;

/// Time before the first repetition; each further one waits twice as long.
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest that is waited between two attempts.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Names of what was lost that are kept.
const LOST_MAX: usize = 1024;

/// Keys of the past in one record: a line of the journal has some tens of KiB.
const KEYS_IN_A_RECORD: usize = 1024;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Rules {
    /// When an item is complete.
    pub complete: Complete,
    /// In which order items are analysed.
    pub order: Order,
    /// Items copied, or their results sent back, at the same time.
    pub moves_max: usize,
    /// Commands at the same time; one where there is an order.
    pub runs_max: usize,
    /// Failed attempts of the command, in one life of the watcher, after which an item is given up.
    pub attempts_max: u32,
    /// Whether there is a command.
    pub runs_command: bool,
    /// Whether results are sent back.
    pub returns_results: bool,
}

/// An item in a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: RelativePath,
    /// What it is now.
    pub version: Version,
    /// Whether its marker is there.
    pub is_marked: bool,
}

/// What arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// The version that was seen when it was begun to copy.
    pub version: Version,
    /// BLAKE3 of the file; of a directory over what is in it.
    pub digest: String,
    /// [`crate::item::key_of`].
    pub key: String,
    /// Content bytes.
    pub bytes: u64,
}

/// How a run of the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// With exit code 0.
    Succeeded,
    /// With another one.
    Failed(i32),
    /// By a signal.
    Killed(i32),
    /// It could not be started, and why.
    NotStarted(String),
    /// Nobody knows: its keeper was killed, or the machine went down.
    Unknown,
}

/// What must be durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A new content of the item arrived.
    Arrived(#[serde(with = "name_text")] RelativePath, Arrived),
    /// Content that is done came again, in another version.
    Same(#[serde(with = "name_text")] RelativePath, Version),
    /// The command is about to run.
    Started(#[serde(with = "name_text")] RelativePath, u32),
    /// It ended.
    Ended(#[serde(with = "name_text")] RelativePath, u32, Outcome),
    /// Nothing is left to do.
    Done(#[serde(with = "name_text")] RelativePath),
    /// All that is known of an item at once: what a journal begins with after it was rewritten.
    Known(#[serde(with = "name_text")] RelativePath, Known),
    /// Keys of what was done and is forgotten otherwise, oldest first.
    Past(Vec<String>),
}

/// What is known of an item that arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// What arrived last.
    pub arrived: Arrived,
    /// Number of the last run for this name, from 1; 0 if there was none. It never begins again, so that what became of
    /// one run is never taken for the end of another.
    pub attempt: u32,
    /// How far it is.
    pub stage: Stage,
    /// Whether the command failed for what arrived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_failed: bool,
}

/// How far what arrived is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It waits for the command.
    Arrived,
    /// The command was started, and did not end yet as far as is known.
    Running,
    /// The command succeeded; its results are not back yet.
    Succeeded,
    /// Nothing is left to do.
    Done,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// All that is there now, but for what is at these paths or below: there nobody could look.
    Looked(Vec<Seen>, Vec<RelativePath>),
    /// A copy ended.
    Moved(RelativePath, Result<Arrived, Trouble>),
    /// A run ended.
    Ended(RelativePath, u32, Outcome),
    /// A run did not begin, for what arrived is not there any more; and that in words.
    CopyGone(RelativePath, u32, String),
    /// Results are back, or not.
    Returned(RelativePath, Result<(), Trouble>),
}

/// Why something was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It may go better another time.
    Passing,
    /// It will not.
    Lasting,
    /// Something is not there. Whether that is the item only a look can say.
    Missing,
}

impl Trouble {
    /// Failed attempts after which it is given up.
    fn tries_max(self) -> u32 {
        if self == Trouble::Lasting { 1 } else { u32::MAX }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Copy it.
    Move(RelativePath, Version),
    /// Run the command for it, with this number of the attempt.
    Run(RelativePath, u32),
    /// Find out what became of this run, and wait for its end if it lives.
    Recover(RelativePath, u32),
    /// Send its results back.
    Return(RelativePath),
}

/// What is being done with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Nothing.
    Rest,
    /// Something; its end will be told.
    Busy,
    /// Nothing before this time.
    Later(Duration),
    /// A run of which is to be found out what became.
    Recover,
    /// Nothing any more, in this life, for this version.
    GivenUp,
}

struct Item {
    seen: Option<Look>,
    known: Option<Known>,
    work: Work,
    /// Failures since the last success of anything.
    tries: u32,
    /// When the last copy, or the last way back of results, failed because something is not there.
    missing: Option<Duration>,
    /// A copy failed though the item was there: should it go, it is lost.
    is_missed: bool,
    copied: Copied,
    line: Line,
}

/// What became of the copy that the command is to run for, as far as this life knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied {
    /// Nothing.
    Stands,
    /// It is not there any more. The command had failed so often for it.
    Gone(u32),
    /// It was made again, and the command did not begin since.
    Again,
}

#[derive(Clone, Copy)]
struct Look {
    version: Version,
    /// From when on it is as it is, as far as looks saw it.
    since: Duration,
    /// When it was seen last.
    is_marked: bool,
    /// The last look could not see it, or not all of it.
    is_unseen: bool,
}

impl Look {
    /// Nobody saw it rest, nor whether its marker still counts: before it is seen again it is not complete.
    fn unseen(&mut self, now: Duration) {
        (self.since, self.is_unseen) = (now, true);
    }
}

/// Place in the order.
#[derive(Clone, PartialEq, Eq)]
struct Line {
    first: i64,
    name: RelativePath,
}

impl Ord for Line {
    fn cmp(&self, other: &Self) -> Ordering {
        self.first.cmp(&other.first).then_with(|| by_name(&self.name, &other.name))
    }
}

impl PartialOrd for Line {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Paths at which nobody could look, nor below.
struct Unseen(HashSet<Vec<u8>>);

impl Unseen {
    fn new(paths: &[RelativePath]) -> Unseen {
        Unseen(paths.iter().map(|path| path.as_bytes().to_vec()).collect())
    }

    /// Whether it is one of them: what was seen of it may not be all.
    fn is(&self, name: &RelativePath) -> bool {
        self.0.contains(name.as_bytes())
    }

    /// Whether it is one of them, or below one.
    fn has(&self, name: &RelativePath) -> bool {
        let bytes = name.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends = [0, bytes.len()].into_iter().chain(slashes);
        !self.0.is_empty() && ends.any(|end| self.0.contains(&bytes[..end]))
    }
}

/// See the module.
pub struct Machine {
    rules: Rules,
    items: HashMap<RelativePath, Item>,
    /// Items with something left to do, in order.
    open: BTreeSet<Line>,
    /// What was done before, and of which nothing else is known.
    past: DoneKeys,
    moves: usize,
    runs: usize,
    met: i64,
    /// When the last look began. Before there was one nobody knows whose turn it is.
    looked_at: Option<Duration>,
    /// When what was seen to change will have rested long enough, from the last look on.
    rests: BTreeSet<(Duration, RelativePath)>,
    /// There may be runs to be found out about.
    has_lost_runs: bool,
    /// What went before it arrived, though copies of it were tried.
    lost: BTreeSet<RelativePath>,
}

impl Machine {
    /// Nothing is known yet.
    pub fn new(rules: Rules) -> Machine {
        Machine {
            rules,
            items: HashMap::new(),
            open: BTreeSet::new(),
            past: DoneKeys::new(DONE_KEYS_MAX),
            moves: 0,
            runs: 0,
            met: 0,
            looked_at: None,
            rests: BTreeSet::new(),
            has_lost_runs: false,
            lost: BTreeSet::new(),
        }
    }

    /// Takes a record of an earlier life; in the order in which they were made.
    pub fn replay(&mut self, record: Record) {
        self.apply(&record);
    }

    /// All records are replayed: runs whose end is not known are to be found out about.
    pub fn begin(&mut self) {
        for item in self.items.values_mut() {
            if item.known.as_ref().is_some_and(|known| known.stage == Stage::Running) {
                item.work = Work::Recover;
                self.has_lost_runs = true;
            }
        }
    }

    /// Forgets all but the keys of what is done and gone from the source. What is left of their runs must be removed
    /// before the next [`Machine::snapshot`] is durable: runs of these names begin with 1 again.
    #[must_use]
    pub fn forget(&mut self) -> Vec<RelativePath> {
        if self.looked_at.is_none() {
            return Vec::new();
        }
        let is_past = |item: &Item| {
            item.seen.is_none()
                && item.work == Work::Rest
                && item.known.as_ref().is_some_and(|known| known.stage == Stage::Done)
        };
        let names: Vec<RelativePath> =
            self.items.iter().filter(|(_, item)| is_past(item)).map(|(name, _)| name.clone()).collect();
        for name in &names {
            if let Some(item) = self.items.remove(name) {
                self.open.remove(&item.line);
                item.known.iter().for_each(|known| self.past.insert(&known.arrived.key));
            }
        }
        names
    }

    /// All that is known, as a journal would begin with it: keys of the past, then items by name.
    pub fn snapshot(&self) -> Vec<Record> {
        let mut all: Vec<(&RelativePath, &Known)> =
            self.items.iter().filter_map(|(name, item)| Some((name, item.known.as_ref()?))).collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        let known = all.into_iter().map(|(name, known)| Record::Known(name.clone(), known.clone()));
        self.past.parts(KEYS_IN_A_RECORD).into_iter().map(Record::Past).chain(known).collect()
    }

    /// What arrived of an item last.
    pub fn arrived(&self, name: &RelativePath) -> Option<&Arrived> {
        self.items.get(name)?.known.as_ref().map(|known| &known.arrived)
    }

    /// Items that were given up; also those that are tried on, and fail again and again because something is not there; and
    /// one without its marker, if others that arrived wait for it in order.
    pub fn given_up(&self) -> Vec<&RelativePath> {
        let holds = |item: &Item| {
            self.lacks_marker(item)
                && self.is_ordered()
                && self.open.first() == Some(&item.line)
                && self
                    .open
                    .iter()
                    .any(|line| self.items.get(&line.name).is_some_and(Item::waits_for_command))
        };
        let is_given_up = |item: &Item| self.is_stuck(item) || holds(item);
        let of = |line: &&Line| self.items.get(&line.name).is_some_and(is_given_up);
        self.open.iter().filter(of).map(|line| &line.name).collect()
    }

    /// Items whose copies failed, and that went from the source before one succeeded; the first so many by name.
    pub fn lost(&self) -> impl Iterator<Item = &RelativePath> {
        self.lost.iter()
    }

    /// The item that was given up, and for which all others would wait for ever.
    pub fn blocked_by(&self) -> Option<&RelativePath> {
        let first = self.open.first().filter(|_| self.is_ordered())?;
        (self.work_of(&first.name) == Some(Work::GivenUp)).then_some(&first.name)
    }

    /// Whether something is copied, run or sent back now. What is tried once more may succeed, however often it failed.
    pub fn is_busy(&self) -> bool {
        self.moves > 0 || self.runs > 0
    }

    /// Whether nothing is left to do but what was given up, has no marker or could not be looked at, or waits for that in
    /// order.
    pub fn is_idle(&self) -> bool {
        let mut is_held = false;
        self.open.iter().filter_map(|line| self.items.get(&line.name)).all(|item| {
            let rests = self.is_stuck(item) || self.lacks_marker(item) || is_out_of_sight(item);
            is_held |= rests && self.is_ordered();
            rests || is_held && item.waits_for_command()
        })
    }

    /// When an item will be complete if another look still sees it as it is.
    pub fn wakes_at(&self) -> Option<Duration> {
        let waits = |(at, name): &&(Duration, RelativePath)| {
            self.items.get(name).is_some_and(|item| {
                item.rests_at(&self.rules) == Some(*at)
                    && matches!(item.work, Work::Rest | Work::Later(_))
                    && item.waits_for_source()
                    && self.open.contains(&item.line)
            })
        };
        self.rests.iter().find(waits).map(|(at, _)| *at)
    }

    /// Takes what happened, and when; of a look when it began. The records come first, then whatever [`Machine::decide`] says.
    #[must_use]
    pub fn take(&mut self, now: Duration, input: Input) -> Vec<Record> {
        let (name, mut records) = match input {
            Input::Looked(all, unseen) => {
                self.looked(now, all, &Unseen::new(&unseen));
                self.looked_at = Some(now);
                let (items, rules) = (&self.items, &self.rules);
                let rests_at =
                    |name: &RelativePath| items.get(name).and_then(|item: &Item| item.rests_at(rules));
                self.rests.retain(|(at, name)| *at > now && rests_at(name) == Some(*at));
                return Vec::new();
            }
            Input::Moved(name, result) => (name.clone(), self.moved(now, name, result)),
            Input::Ended(name, attempt, outcome) => (name.clone(), self.ended(now, name, attempt, outcome)),
            Input::CopyGone(name, attempt, why) => (name.clone(), self.copy_gone(now, name, attempt, why)),
            Input::Returned(name, result) => (name.clone(), self.returned(now, name, result)),
        };
        records.iter().for_each(|record| self.apply(record));
        let item = self.items.get(&name);
        if item.is_some_and(|item| item.work == Work::Rest && item.is_over(&self.rules)) {
            let done = Record::Done(name);
            self.apply(&done);
            records.push(done);
        }
        records
    }

    /// What is to be done now. Records come before actions.
    #[must_use]
    pub fn decide(&mut self, now: Duration) -> (Vec<Record>, Vec<Action>) {
        let (mut records, mut actions) = (Vec::new(), Vec::new());
        let has_lost_runs = std::mem::take(&mut self.has_lost_runs);
        for (place, line) in self.open.iter().enumerate() {
            let is_turn = !self.is_ordered() || (place == 0 && self.looked_at.is_some());
            let runs_max = if self.is_ordered() { 1 } else { self.rules.runs_max };
            let may_run = self.runs < runs_max && (place == 0 || !self.is_ordered());
            // A million items are not gone through at each end of a copy.
            if place > 0 && !may_run && self.moves >= self.rules.moves_max && !has_lost_runs {
                break;
            }
            let Some(item) = self.items.get_mut(&line.name) else { continue };
            match item.work {
                Work::Rest => {}
                Work::Later(at) if at <= now => {}
                Work::Recover => {
                    item.work = Work::Busy;
                    self.runs += 1;
                    let attempt = item.known.as_ref().map_or(0, |known| known.attempt);
                    actions.push(Action::Recover(line.name.clone(), attempt));
                    continue;
                }
                Work::Later(_) | Work::Busy => continue,
                // Another version of it may do better.
                Work::GivenUp => continue,
            }
            let is_complete = item.seen.is_some_and(|look| match self.rules.complete {
                // By looks alone: nobody knows what changed after the last.
                Complete::Stable(time) => {
                    self.looked_at.is_some_and(|at| at.saturating_sub(look.since) >= time)
                }
                Complete::Marker(_) => look.is_marked && !look.is_unseen,
            });
            if item.is_over(&self.rules) {
                records.push(Record::Done(line.name.clone()));
                continue;
            }
            let is_copied_anew = item.is_replaced() || item.is_copy_gone();
            match item.known.as_ref().map(|known| (known.stage, known.attempt)) {
                Some((Stage::Arrived, attempt)) if !is_copied_anew => {
                    if is_turn && self.runs < runs_max {
                        item.work = Work::Busy;
                        self.runs += 1;
                        records.push(Record::Started(line.name.clone(), attempt + 1));
                        actions.push(Action::Run(line.name.clone(), attempt + 1));
                    }
                }
                Some((Stage::Succeeded, _)) if self.moves >= self.rules.moves_max => {}
                Some((Stage::Succeeded, _)) => {
                    item.work = Work::Busy;
                    self.moves += 1;
                    actions.push(Action::Return(line.name.clone()));
                }
                Some((Stage::Running, _)) => {}
                // What the command failed for waits until what somebody put in its place is complete.
                Some((Stage::Done | Stage::Arrived, _)) | None => {
                    let Some(look) = item.seen else { continue };
                    if is_complete && self.moves < self.rules.moves_max {
                        item.work = Work::Busy;
                        self.moves += 1;
                        actions.push(Action::Move(line.name.clone(), look.version));
                    }
                }
            }
        }
        records.iter().for_each(|record| self.apply(record));
        (records, actions)
    }

    fn looked(&mut self, now: Duration, all: Vec<Seen>, unseen: &Unseen) {
        let mut there: HashSet<RelativePath> = HashSet::with_capacity(all.len());
        for Seen { name, version, is_marked } in all {
            let rules = &self.rules;
            let met = &mut self.met;
            let item = self.items.entry(name.clone()).or_insert_with(|| {
                *met += 1;
                Item::new(line_of(rules, &name, *met, version.changed_ns))
            });
            let is_whole = !unseen.is(&name);
            match &mut item.seen {
                Some(look) if !is_whole => look.unseen(now),
                Some(look) if look.version == version => {
                    (look.is_marked, look.is_unseen) = (is_marked, false);
                }
                seen => {
                    let is_marked = is_marked && is_whole;
                    *seen = Some(Look { version, since: now, is_marked, is_unseen: !is_whole });
                    // What failed was another version.
                    let waits = matches!(item.work, Work::Later(_)) && item.is_replaced();
                    if item.work == Work::GivenUp || waits {
                        item.work = Work::Rest;
                        item.tries = 0;
                    }
                }
            }
            // It was something else that is not there. What arrived is not missed.
            item.is_missed |= item.waits_for_source() && item.missing.is_some_and(|at| at <= now);
            self.settle(&name);
            self.note_rest(now, &name);
            there.insert(name);
        }
        let others: Vec<RelativePath> = self
            .items
            .iter()
            .filter(|(name, item)| item.seen.is_some() && !there.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in others {
            if !unseen.has(&name) {
                self.gone(&name);
                continue;
            }
            // It stays as it was.
            if let Some(look) = self.items.get_mut(&name).and_then(|item| item.seen.as_mut()) {
                look.unseen(now);
            }
            self.note_rest(now, &name);
        }
    }

    /// Keeps when it will have rested, if something is left to do with it.
    fn note_rest(&mut self, now: Duration, name: &RelativePath) {
        if let Some(item) = self.items.get(name).filter(|item| self.open.contains(&item.line))
            && let Some(at) = item.rests_at(&self.rules).filter(|at| *at > now)
        {
            self.rests.insert((at, name.clone()));
        }
    }

    fn moved(&mut self, now: Duration, name: RelativePath, result: Result<Arrived, Trouble>) -> Vec<Record> {
        self.moves = self.moves.saturating_sub(1);
        match result {
            Ok(arrived) => {
                let item = self.items.get(&name);
                let tries = item.and_then(|item| item.tries_for(&arrived));
                self.rest(&name);
                if let Some((tries, item)) = tries.zip(self.items.get_mut(&name)) {
                    (item.tries, item.copied) = (tries, Copied::Again);
                }
                self.lost.remove(&name);
                let known = self.items.get(&name).and_then(|item| item.known.as_ref());
                let is_done = known.is_some_and(|k| k.stage == Stage::Done && k.arrived.key == arrived.key);
                let attempt = known.map_or(0, |known| known.attempt);
                vec![match (is_done, self.past.contains(&arrived.key)) {
                    (true, _) => Record::Same(name, arrived.version),
                    // It was here before, and is done since then.
                    (false, true) => {
                        let known = Known { arrived, attempt, stage: Stage::Done, has_failed: false };
                        Record::Known(name, known)
                    }
                    (false, false) => Record::Arrived(name, arrived),
                }]
            }
            Err(trouble) => {
                if let Some(item) = self.items.get_mut(&name) {
                    item.missing = (trouble == Trouble::Missing).then_some(now);
                    item.is_missed |= item.missing.is_none();
                }
                self.failed(now, &name, trouble.tries_max());
                Vec::new()
            }
        }
    }

    fn ended(&mut self, now: Duration, name: RelativePath, attempt: u32, outcome: Outcome) -> Vec<Record> {
        self.runs = self.runs.saturating_sub(1);
        if let Some(item) = self.items.get_mut(&name)
            && let Copied::Gone(tries) = std::mem::replace(&mut item.copied, Copied::Stands)
        {
            // Somebody brought it back.
            item.tries = tries;
        }
        match outcome {
            Outcome::Succeeded => self.rest(&name),
            _ => self.failed(now, &name, self.rules.attempts_max),
        }
        vec![Record::Ended(name, attempt, outcome)]
    }

    /// It is copied again, which is no failure of the command; but what goes each time is not copied for ever. Where the
    /// source has it no more either, somebody may bring it back before it is given up.
    fn copy_gone(&mut self, now: Duration, name: RelativePath, attempt: u32, why: String) -> Vec<Record> {
        self.runs = self.runs.saturating_sub(1);
        let Some(item) = self.items.get_mut(&name) else { return Vec::new() };
        let is_free = item.seen.is_some() && item.copied != Copied::Again;
        if let Copied::Gone(tries) = item.copied {
            item.tries = tries;
        }
        match is_free {
            true => item.work = Work::Rest,
            false => self.failed(now, &name, self.rules.attempts_max),
        }
        if let Some(item) = self.items.get_mut(&name) {
            // Copies that fail are counted for themselves.
            item.copied = Copied::Gone(std::mem::take(&mut item.tries));
        }
        vec![Record::Ended(name, attempt, Outcome::NotStarted(why))]
    }

    fn returned(&mut self, now: Duration, name: RelativePath, result: Result<(), Trouble>) -> Vec<Record> {
        self.moves = self.moves.saturating_sub(1);
        match result {
            Ok(()) => {
                self.rest(&name);
                vec![Record::Done(name)]
            }
            Err(trouble) => {
                if let Some(item) = self.items.get_mut(&name) {
                    item.missing = (trouble == Trouble::Missing).then_some(now);
                }
                self.failed(now, &name, trouble.tries_max());
                Vec::new()
            }
        }
    }

    /// Later once more, unless it failed `tries_max` times.
    fn failed(&mut self, now: Duration, name: &RelativePath, tries_max: u32) {
        let Some(item) = self.items.get_mut(name) else { return };
        item.tries = item.tries.saturating_add(1);
        let doublings = item.tries.saturating_sub(1).min(16);
        let pause = BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX);
        item.work =
            if item.tries >= tries_max { Work::GivenUp } else { Work::Later(now.saturating_add(pause)) };
        // It went while it was copied: of that no look tells again.
        if item.seen.is_none() && item.known.as_ref().is_none_or(|known| known.stage == Stage::Done) {
            self.gone(name);
        }
    }

    fn rest(&mut self, name: &RelativePath) {
        if let Some(item) = self.items.get_mut(name) {
            item.rest();
        }
    }

    /// The source has it no more: what did not arrive is forgotten, what arrived goes its way.
    fn gone(&mut self, name: &RelativePath) {
        let Some(item) = self.items.get_mut(name) else { return };
        item.seen = None;
        if item.is_missed && item.work != Work::Busy && self.lost.len() < LOST_MAX {
            self.lost.insert(name.clone());
        }
        // There is no copy to be tried again.
        if item.known.as_ref().is_some_and(|known| known.stage == Stage::Done)
            && matches!(item.work, Work::Later(_) | Work::GivenUp)
        {
            item.rest();
        }
        if item.known.is_none() && item.work != Work::Busy {
            self.open.remove(&item.line);
            self.items.remove(name);
            return;
        }
        self.settle(name);
    }

    /// What a record says, now as in a later life.
    fn apply(&mut self, record: &Record) {
        let (name, fresh) = match record {
            Record::Past(keys) => return keys.iter().for_each(|key| self.past.insert(key)),
            Record::Arrived(name, arrived) => {
                let before = self.items.get(name).and_then(|item| item.known.as_ref());
                let attempt = before.map_or(0, |known| known.attempt);
                let arrived = arrived.clone();
                (name, Some(Known { arrived, attempt, stage: Stage::Arrived, has_failed: false }))
            }
            Record::Known(name, known) => (name, Some(known.clone())),
            Record::Same(name, _)
            | Record::Started(name, _)
            | Record::Ended(name, ..)
            | Record::Done(name) => (name, None),
        };
        if let Some(known) = fresh {
            let before = self.items.get(name).and_then(|item| item.known.as_ref());
            if let Some(before) = before.filter(|before| before.stage == Stage::Done) {
                self.past.insert(&before.arrived.key);
            }
            self.met += 1;
            let line = line_of(&self.rules, name, self.met, known.arrived.version.changed_ns);
            self.items.entry(name.clone()).or_insert_with(|| Item::new(line)).known = Some(known);
        } else if let Some(known) = self.items.get_mut(name).and_then(|item| item.known.as_mut()) {
            match record {
                Record::Same(_, version) => known.arrived.version = *version,
                Record::Started(_, attempt) => (known.attempt, known.stage) = (*attempt, Stage::Running),
                Record::Ended(_, _, Outcome::Succeeded) => {
                    (known.stage, known.has_failed) = (Stage::Succeeded, false);
                }
                Record::Ended(..) => (known.stage, known.has_failed) = (Stage::Arrived, true),
                Record::Done(_) => known.stage = Stage::Done,
                Record::Arrived(..) | Record::Known(..) | Record::Past(_) => {}
            }
        }
        self.settle(&name.clone());
    }

    /// Keeps the list of what is left to do, and in it the place of each by time.
    fn settle(&mut self, name: &RelativePath) {
        let Some(item) = self.items.get_mut(name) else { return };
        if self.rules.order == Order::Time
            && let Some(version) = item.version()
            && version.changed_ns != item.line.first
        {
            self.open.remove(&item.line);
            item.line.first = version.changed_ns;
        }
        let is_over = item.work == Work::Rest
            && item.known.as_ref().is_some_and(|known| {
                known.stage == Stage::Done
                    && item.seen.is_none_or(|look| look.version == known.arrived.version)
            });
        match is_over {
            true => self.open.remove(&item.line),
            false => self.open.insert(item.line.clone()),
        };
    }

    /// Whether it was given up, or waits for something that is not there, as for its marker if it is to be copied again.
    fn is_stuck(&self, item: &Item) -> bool {
        item.work == Work::GivenUp
            || item.missing.is_some() && item.tries >= self.rules.attempts_max
            || item.is_copy_gone() && self.lacks_marker(item)
    }

    /// Whether nothing can be done with it until somebody makes its marker.
    fn lacks_marker(&self, item: &Item) -> bool {
        matches!(self.rules.complete, Complete::Marker(_))
            && item.work != Work::Busy
            && item.waits_for_source()
            && item.seen.is_some_and(|look| !look.is_marked)
    }

    fn work_of(&self, name: &RelativePath) -> Option<Work> {
        self.items.get(name).map(|item| item.work)
    }

    fn is_ordered(&self) -> bool {
        self.rules.order != Order::Arrival
    }
}

/// Whether nobody can tell if it is complete: the last look did not see it, or not all of it.
fn is_out_of_sight(item: &Item) -> bool {
    item.work != Work::Busy && item.waits_for_source() && item.seen.is_some_and(|look| look.is_unseen)
}

impl Item {
    fn new(line: Line) -> Item {
        Item {
            seen: None,
            known: None,
            work: Work::Rest,
            tries: 0,
            missing: None,
            is_missed: false,
            copied: Copied::Stands,
            line,
        }
    }

    /// Nothing of it failed, or what failed is over.
    fn rest(&mut self) {
        (self.tries, self.work) = (0, Work::Rest);
        (self.missing, self.is_missed) = (None, false);
        self.copied = Copied::Stands;
    }

    /// The version whose turn comes next: what arrived until that is done, then what is there.
    fn version(&self) -> Option<Version> {
        let arrived = self.known.as_ref().filter(|known| known.stage != Stage::Done);
        arrived.map(|known| known.arrived.version).or(self.seen.map(|look| look.version))
    }

    /// When it will have rested for as long as is asked, if it stays as it was seen.
    fn rests_at(&self, rules: &Rules) -> Option<Duration> {
        let Complete::Stable(time) = rules.complete else { return None };
        self.seen.map(|look| look.since.saturating_add(time))
    }

    /// Whether all that was asked for is done with what arrived, and that is only to be recorded.
    fn is_over(&self, rules: &Rules) -> bool {
        match self.known.as_ref().map(|known| known.stage) {
            Some(Stage::Arrived) => !rules.runs_command && !self.is_replaced(),
            Some(Stage::Succeeded) => !rules.returns_results,
            _ => false,
        }
    }

    /// Whether what is to be done with it next is to copy it.
    fn waits_for_source(&self) -> bool {
        let stage = self.known.as_ref().map(|known| known.stage);
        self.is_replaced() || self.is_copy_gone() || matches!(stage, None | Some(Stage::Done))
    }

    /// Whether it arrived, and waits for its turn.
    fn waits_for_command(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.stage == Stage::Arrived)
            && self.work == Work::Rest
            && !self.is_copy_gone()
    }

    /// Whether what arrived is there no more, and the source has it.
    fn is_copy_gone(&self) -> bool {
        matches!(self.copied, Copied::Gone(_)) && self.seen.is_some()
    }

    /// Failures of the command for this content, if its copy was gone and this is it again.
    fn tries_for(&self, arrived: &Arrived) -> Option<u32> {
        let known = self.known.as_ref().filter(|known| known.arrived.key == arrived.key)?;
        match self.copied {
            Copied::Gone(tries) if known.stage == Stage::Arrived => Some(tries),
            _ => None,
        }
    }

    /// Whether the source has another version of what the command failed for.
    fn is_replaced(&self) -> bool {
        let Some((look, known)) = self.seen.zip(self.known.as_ref()) else { return false };
        known.stage == Stage::Arrived && known.has_failed && look.version != known.arrived.version
    }
}

fn line_of(rules: &Rules, name: &RelativePath, met: i64, changed_ns: i64) -> Line {
    let first = match rules.order {
        Order::Arrival => met,
        Order::Name => 0,
        Order::Time => changed_ns,
    };
    Line { first, name: name.clone() }
}

#[cfg(test)]
mod tests;
