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
/// How often the sender is told of a stop: a link may have taken along what it was told before.
const STOP_AGAIN: Duration = Duration::from_secs(1);

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
        if totals.is_none() {
            unnamed("the far side did not say what became of the last of them".to_owned());
        }
        let is_unheard = totals.is_none();
        let totals = totals.unwrap_or_default();
        if totals.kept > kept {
            let count = totals.kept - kept;
            unnamed(format!("the names of {count} that stay were lost with a link"));
        }
        if totals.removed > gone {
            let count = totals.removed - gone;
            let text = format!("the names of {count} source files removed were lost with a link");
            (self.watch.events)(Event::Note(text));
        }
        Sources {
            removed: self.removed.load(Ordering::Relaxed),
            left: totals.left,
            is_cut_short: totals.is_cut_short || (is_unheard && self.stop.is_asked()),
        }
    }

    fn hear_sources(&self, run: &ReceiveRun) -> Option<SourceTotals> {
        let mut patience = self.wishes.movement.link.patience;
        let (mut told, mut went_on) = (run.sources_told(), Instant::now());
        let mut said_at: Option<Instant> = None;
        loop {
            let totals = run.peer_sources(LOOK_AGAIN);
            if totals.is_some() {
                return totals;
            }
            if run.is_left_alone() {
                // They may have come before the end.
                return run.peer_sources(Duration::ZERO);
            }
            if self.stop.is_asked() {
                if said_at.is_none() {
                    (went_on, patience) = (Instant::now(), patience.min(STATEMENT_TIMEOUT));
                }
                if said_at.is_none_or(|at| at.elapsed() >= STOP_AGAIN) {
                    run.say(TransferMessage::Abort(stopped()));
                    said_at = Some(Instant::now());
                }
            }
            let now = run.sources_told();
            if now != told && said_at.is_none() {
                (told, went_on) = (now, Instant::now());
            }
            if went_on.elapsed() > patience {
                return None;
            }
        }
    }
}
