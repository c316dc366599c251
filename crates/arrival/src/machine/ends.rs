//! Ends of copies, of runs, and of results on their way back; what failed is tried later once more.

use super::item::{Copied, Item, Look};
use super::{Arrived, Known, Machine, Outcome, Record, Stage, Trouble, Work};
use crate::item::Version;
use std::time::Duration;
use thalweg_wire::RelativePath;

/// Time before the first repetition; each further one waits twice as long.
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest that is waited between two attempts.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

impl Machine {
    pub(super) fn moved(
        &mut self,
        now: Duration,
        name: RelativePath,
        result: Result<Arrived, Trouble>,
    ) -> Vec<Record> {
        let arrived = match result {
            Ok(arrived) => arrived,
            Err(trouble) => return self.not_moved(now, name, trouble, false),
        };
        self.moves = self.moves.saturating_sub(1);
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
            (false, true) => Record::Known(name, Known { arrived, attempt, stage: Stage::Done }),
            (false, false) => Record::Arrived(name, arrived),
        }]
    }

    /// A copy failed. What arrived before stands, unless something of this copy may be in place, or was of one before
    /// it.
    pub(super) fn not_moved(
        &mut self,
        now: Duration,
        name: RelativePath,
        trouble: Trouble,
        is_in_part: bool,
    ) -> Vec<Record> {
        self.moves = self.moves.saturating_sub(1);
        let Some(item) = self.items.get_mut(&name) else { return Vec::new() };
        item.missing = (trouble == Trouble::Missing).then_some(now);
        item.is_missed |= item.missing.is_none();
        let stands = std::mem::take(&mut item.is_first_over) && !is_in_part;
        let (has_gone, is_missed) = (item.seen.is_none(), item.is_missed);
        self.failed(now, &name, trouble.tries_max());
        // It went while it was copied: of that no look tells again.
        match (has_gone, stands) {
            (false, _) => {}
            (true, false) => self.gone(&name),
            // There is no copy to be tried again, and what arrived goes its way.
            (true, true) => {
                self.rest(&name);
                if is_missed {
                    self.lose(&name);
                }
            }
        }
        if stands { vec![Record::Stands(name)] } else { Vec::new() }
    }

    pub(super) fn ended(
        &mut self,
        now: Duration,
        name: RelativePath,
        attempt: u32,
        outcome: Outcome,
    ) -> Vec<Record> {
        self.runs = self.runs.saturating_sub(1);
        if let Some(item) = self.items.get_mut(&name)
            && let Copied::Gone(tries) = std::mem::replace(&mut item.copied, Copied::Stands)
        {
            // Somebody brought it back.
            item.tries = tries;
        }
        match outcome {
            Outcome::Succeeded => self.rest(&name),
            // What failed was another version, as a look saw while it ran.
            _ if self.items.get(&name).is_some_and(Item::has_changed) => self.rest(&name),
            _ => self.failed(now, &name, self.rules.attempts_max),
        }
        vec![Record::Ended(name, attempt, outcome)]
    }

    /// The source has this version by now: it is copied first, which is no failure of the command.
    pub(super) fn source_changed(
        &mut self,
        now: Duration,
        name: RelativePath,
        attempt: u32,
        version: Version,
    ) -> Vec<Record> {
        self.runs = self.runs.saturating_sub(1);
        let Some(item) = self.items.get_mut(&name) else { return Vec::new() };
        item.rest();
        if item.seen.is_none_or(|look| look.version != version) {
            // Whether its marker counts only a look says.
            item.seen = Some(Look { version, since: now, is_marked: false, is_unseen: false });
        }
        self.note_rest(now, &name);
        let why = "its source has changed since it arrived; it is copied again first".to_owned();
        vec![Record::Ended(name, attempt, Outcome::NotStarted(why))]
    }

    /// It is copied again, which is no failure of the command; but what goes each time is not copied for ever. Where
    /// the source has it no more either, somebody may bring it back before it is given up.
    pub(super) fn copy_gone(
        &mut self,
        now: Duration,
        name: RelativePath,
        attempt: u32,
        why: String,
    ) -> Vec<Record> {
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

    pub(super) fn returned(
        &mut self,
        now: Duration,
        name: RelativePath,
        result: Result<(), Trouble>,
    ) -> Vec<Record> {
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
    }

    fn rest(&mut self, name: &RelativePath) {
        if let Some(item) = self.items.get_mut(name) {
            item.rest();
        }
    }
}
