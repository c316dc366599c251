//! Pulls that remove their source files: the far side does, and says what became of them.

use super::{Job, Sources, stopped};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::run::agree::STATEMENT_TIMEOUT;
use crate::run::party::Party;
use crate::run::receiver::ReceiveRun;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thalweg_wire::message::{SourceTotals, TransferMessage};

/// Between two looks whether a stop is asked for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Job<'_> {
    /// Waits until the sender of `run`, with which it has agreed, has removed the rest of the source files. Asked to
    /// stop it has the sender leave the rest. What is not heard of within the patience, or of a link that is lost, is
    /// told: the copy is whole without it.
    pub(super) fn far_sources(&self, run: &ReceiveRun) -> Sources {
        if !self.wishes.removes_sources {
            return Sources::default();
        }
        let totals = self.hear_sources(run);
        if totals.is_some() {
            run.say_last(TransferMessage::SourcesHeard);
        }
        let (gone, kept) = run.sources_told();
        let unnamed = |cause: String| {
            let failure = Failure::new(FailureKind::Connection, "remove source files", cause);
            (self.watch.events)(Event::SourceKept(failure));
        };
        match totals {
            None => unnamed("the far side did not say what became of the last of them".to_owned()),
            Some(totals) if totals.kept > kept => {
                let count = totals.kept - kept;
                unnamed(format!("the names of {count} that stay were lost with a link"));
            }
            Some(totals) if totals.removed > gone => {
                let count = totals.removed - gone;
                let text = format!("the names of {count} source files removed were lost with a link");
                (self.watch.events)(Event::Note(text));
            }
            Some(_) => {}
        }
        let totals = totals.unwrap_or_default();
        Sources {
            removed: self.removed.load(Ordering::Relaxed),
            left: totals.left,
            is_cut_short: totals.is_cut_short,
        }
    }

    fn hear_sources(&self, run: &ReceiveRun) -> Option<SourceTotals> {
        let mut patience = self.wishes.movement.link.patience;
        let (mut told, mut went_on, mut is_stopped) = (run.sources_told(), Instant::now(), false);
        loop {
            let totals = run.peer_sources(LOOK_AGAIN);
            if totals.is_some() || run.is_left_alone() {
                return totals;
            }
            if self.stop.is_asked() && !is_stopped {
                run.say(TransferMessage::Abort(stopped()));
                (is_stopped, went_on, patience) = (true, Instant::now(), patience.min(STATEMENT_TIMEOUT));
            }
            let now = run.sources_told();
            if now != told {
                (told, went_on) = (now, Instant::now());
            }
            if went_on.elapsed() > patience {
                return None;
            }
        }
    }
}
