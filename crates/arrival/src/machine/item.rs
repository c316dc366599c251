//! One item: what was seen and arrived of it, what is being done with it, and its place in the order.

use super::{Arrived, Known, Rules, Stage};
use crate::item::{Complete, Order, Version, by_name};
use std::cmp::Ordering;
use std::time::Duration;
use thalweg_wire::RelativePath;

/// What is being done with an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
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

pub(super) struct Item {
    pub(super) seen: Option<Look>,
    pub(super) known: Option<Known>,
    pub(super) work: Work,
    /// Failures since the last success of anything.
    pub(super) tries: u32,
    /// When the last copy, or the last way back of results, failed because something is not there.
    pub(super) missing: Option<Duration>,
    /// A copy failed though the item was there: should it go, it is lost.
    pub(super) is_missed: bool,
    pub(super) copied: Copied,
    /// The copy under way is the first over what arrived, which stands unless that one replaces something.
    pub(super) is_first_over: bool,
    /// A look said that the source has it no more, since when it may have come again.
    pub(super) was_gone: bool,
    pub(super) line: Line,
}

/// What became of the copy that the command is to run for, as far as this life knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copied {
    /// Nothing.
    Stands,
    /// It is not there any more. The command had failed so often for it.
    Gone(u32),
    /// It was made again, and the command did not begin since.
    Again,
}

#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) version: Version,
    /// From when on it is as it is, as far as looks saw it.
    pub(super) since: Duration,
    /// When it was seen last.
    pub(super) is_marked: bool,
    /// The last look could not see it, or not all of it.
    pub(super) is_unseen: bool,
}

impl Look {
    /// Nobody saw it rest, nor whether its marker still counts: before it is seen again it is not complete.
    pub(super) fn unseen(&mut self, now: Duration) {
        (self.since, self.is_unseen) = (now, true);
    }
}

/// Place in the order.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) first: i64,
    pub(super) name: RelativePath,
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

impl Item {
    pub(super) fn new(line: Line) -> Item {
        Item {
            seen: None,
            known: None,
            work: Work::Rest,
            tries: 0,
            missing: None,
            is_missed: false,
            copied: Copied::Stands,
            is_first_over: false,
            was_gone: false,
            line,
        }
    }

    /// Nothing of it failed, or what failed is over.
    pub(super) fn rest(&mut self) {
        (self.tries, self.work) = (0, Work::Rest);
        (self.missing, self.is_missed) = (None, false);
        self.copied = Copied::Stands;
    }

    /// How far what arrived is.
    pub(super) fn stage(&self) -> Option<Stage> {
        self.known.as_ref().map(|known| known.stage)
    }

    /// The version whose turn comes next: what arrived until that is done or replaced, then what is there.
    pub(super) fn version(&self) -> Option<Version> {
        let arrived = self.known.as_ref().filter(|known| known.stage != Stage::Done && !self.is_replaced());
        arrived.map(|known| known.arrived.version).or(self.seen.map(|look| look.version))
    }

    /// When it will have rested for as long as is asked, if it stays as it was seen.
    pub(super) fn rests_at(&self, rules: &Rules) -> Option<Duration> {
        let Complete::Stable(time) = rules.complete else { return None };
        self.seen.map(|look| look.since.saturating_add(time))
    }

    /// Whether all that was asked for is done with what arrived, and that is only to be recorded.
    pub(super) fn is_over(&self, rules: &Rules) -> bool {
        match self.stage() {
            Some(Stage::Arrived) => !rules.runs_command,
            Some(Stage::Succeeded) => !rules.returns_results,
            _ => false,
        }
    }

    /// Whether what is to be done with it next is to copy it.
    pub(super) fn waits_for_source(&self) -> bool {
        let is_to_come = matches!(self.stage(), None | Some(Stage::Done | Stage::Replacing));
        self.is_replaced() || self.is_copy_gone() || is_to_come
    }

    /// Whether it arrived, and waits for its turn.
    pub(super) fn waits_for_command(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.stage == Stage::Arrived)
            && self.work == Work::Rest
            && !self.is_copy_gone()
            && !self.is_replaced()
    }

    /// Whether what arrived is there no more, and the source has it.
    pub(super) fn is_copy_gone(&self) -> bool {
        matches!(self.copied, Copied::Gone(_)) && self.seen.is_some()
    }

    /// Failures of the command for this content, if its copy was gone and this is it again.
    pub(super) fn tries_for(&self, arrived: &Arrived) -> Option<u32> {
        let known = self.known.as_ref().filter(|known| known.arrived.key == arrived.key)?;
        match self.copied {
            Copied::Gone(tries) if matches!(known.stage, Stage::Arrived | Stage::Replacing) => Some(tries),
            _ => None,
        }
    }

    /// Whether the source has another version of what waits for the command, or what began to replace that. The earlier
    /// is never run: where the command reads the source, what it is told would not be true of it.
    pub(super) fn is_replaced(&self) -> bool {
        match self.stage() {
            Some(Stage::Arrived) => self.has_changed(),
            Some(Stage::Replacing) => self.seen.is_some(),
            _ => false,
        }
    }

    /// Whether it began to be replaced, and no look of this life said yet whether the source has it.
    pub(super) fn awaits_look(&self) -> bool {
        self.stage() == Some(Stage::Replacing) && self.seen.is_none() && !self.was_gone
    }

    /// Whether it went from the source after something had begun to replace what arrived: what stands at the
    /// destination may be neither, and for that the command does not run.
    pub(super) fn is_torn(&self) -> bool {
        let is_replacing = self.stage() == Some(Stage::Replacing) && self.work != Work::Busy;
        is_replacing && self.seen.is_none() && self.was_gone
    }

    /// Whether the source has another version than what arrived.
    pub(super) fn has_changed(&self) -> bool {
        let arrived = self.known.as_ref().map(|known| known.arrived.version);
        self.seen.zip(arrived).is_some_and(|(look, arrived)| look.version != arrived)
    }
}

/// Whether nobody can tell if it is complete: the last look did not see it, or not all of it.
pub(super) fn is_out_of_sight(item: &Item) -> bool {
    item.work != Work::Busy && item.waits_for_source() && item.seen.is_none_or(|look| look.is_unseen)
}

pub(super) fn line_of(rules: &Rules, name: &RelativePath, met: i64, changed_ns: i64) -> Line {
    let first = match rules.order {
        Order::Arrival => met,
        Order::Name => 0,
        Order::Time => changed_ns,
    };
    Line { first, name: name.clone() }
}
