//! Attempts, the pauses between them, and a stop that was asked for.

use super::{Job, stopped};
use crate::event::Event;
use crate::failure::{Failure, FailureKind, Result};
use crate::plan::{Foreseen, Path, Plan};
use crate::retry::attempts::Policy;
use crate::retry::{Again, Rule};
use crate::run::Ended;
use crate::run::agree::Agreed;
use crate::run::client::{Client, LinkSettings};
use crate::run::far_mover::FarMover;
use crate::run::flow::sender::FlowSend;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::{SourceForm, Totals, TransferNumber};

/// What was read before a stop is to become durable: that is waited for as long as some of it does within this time.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// And at most so long.
const STOP_PATIENCE_MAX: Duration = Duration::from_secs(60);
/// What heals: nothing before there ever was a link, when the command is most likely wrong.
pub(super) const HEALS: Policy = Policy {
    first_max: 1,
    away: &[],
    handshake: false,
    busy: false,
    pause: Duration::from_millis(500),
    pause_max: Duration::from_secs(4),
};

impl Job<'_> {
    /// Tries again in a session of its own after each outage, as long as there is progress within the patience.
    pub(super) fn in_sessions(
        &mut self,
        far: &Arc<FarMover>,
        attempt: &mut Attempt<'_>,
    ) -> Result<(Done, u32)> {
        loop {
            self.attempts.begin();
            self.opens_by = None;
            let spent = self.attempts.dial(Instant::now());
            let asked = self.asked();
            // A slot may be waited for, and streams are wanted behind that. How many a rate needs goes by the peer's
            // windows.
            let are_known = asked.rate_bits_per_s.is_none() || asked.streams.is_some();
            let is_foreseen = self.wishes.slot.is_none() && are_known;
            let foreseen = is_foreseen.then(|| Box::new(Foreseen { asked, path: Path::default() }));
            let link = LinkSettings { spent, foreseen, ..self.wishes.link.clone() };
            let result = far.transfer(link, self.watch.link_events.clone()).and_then(|(client, number)| {
                self.attempts.linked();
                self.in_ssh = far.is_carried();
                self.tell_unused(Some(&**far));
                let result = attempt(self, &client, number);
                client.conclude(number, result.as_ref().err());
                result
            });
            let failure = match result {
                Ok(done) => return Ok((done, self.attempts.count())),
                Err(failure) => failure,
            };
            if failure.kind == FailureKind::Space
                && let Some(rule) = self.opens_by.take()
            {
                self.wait_for_room(rule, failure)?;
                self.attempts.undo(Instant::now());
                continue;
            }
            self.watch.lost("stream", &mut self.attempts, failure, self.stop)?;
        }
    }

    /// What is begun again of a stream from such a source; nothing from a program, or to one.
    pub(super) fn rule_of(&self, form: &SourceForm, is_pipe: bool) -> Rule {
        match is_pipe {
            true => Rule::Never,
            false => Rule::of(&self.wishes.terms.until, matches!(form, SourceForm::Single { .. })),
        }
    }

    /// The destination could not be opened. If only room is missing, it is tried again as a file is for which there is
    /// none: this returns when the pause is over. What else is wrong at the beginning is most likely the command, and
    /// is told at once.
    ///
    /// # Errors
    /// The failure, if it is not to be tried again; `Stopped`.
    pub(super) fn wait_for_room(&mut self, rule: Rule, failure: Failure) -> Result<()> {
        let again = match failure.kind {
            FailureKind::Space => self.openings.failed(rule, failure.kind, Duration::ZERO),
            _ => None,
        };
        let Some(Again { pause, is_news }) = again else { return Err(failure) };
        if is_news {
            (self.watch.events)(Event::TriedAgain(failure, pause));
        }
        if self.stop.pause(pause) { Ok(()) } else { Err(stopped()) }
    }

    pub(super) fn wait(
        &mut self,
        client: &Client,
        mut step: impl FnMut(&mut Self) -> Option<Result<Ended>>,
    ) -> Result<Ended> {
        loop {
            if let Some(ended) = step(self) {
                return ended;
            }
            if client.session.is_closed() {
                return Err(client.session.why_closed("stream"));
            }
        }
    }

    /// Lets what was read become durable; the flows are not complete.
    pub(super) fn stop_sender(&self, run: &FlowSend) -> Failure {
        run.stop_reading();
        let (began, mut least, mut fell) = (Instant::now(), u64::MAX, Instant::now());
        loop {
            let kept = run.progress().kept_bytes;
            if kept < least {
                (least, fell) = (kept, Instant::now());
            }
            if kept == 0 || fell.elapsed() >= STOP_PATIENCE || began.elapsed() >= STOP_PATIENCE_MAX {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        if least > 0 {
            let text = format!(
                "{least} bytes that were read are not known to be durable at the destination: the same command reads them \
                 again, where the source still has them"
            );
            (self.watch.events)(Event::Note(text));
        }
        stopped()
    }
}

/// One attempt, in a session and under a number of its own.
type Attempt<'a> = dyn FnMut(&mut Job<'_>, &Arc<Client>, TransferNumber) -> Result<Done> + 'a;

/// What an attempt that went well has to tell.
pub(super) type Done = (Totals, Agreed, Plan, (SideAccounts, SideAccounts));
