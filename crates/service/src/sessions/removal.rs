//! Pulls whose source files are removed here: who may have that, and what the client is told of it.

use super::Host;
use super::opening::{CLOSING, IN_FLIGHT, is_silent};
use crate::export::{Exports, Resolved};
use crate::log::of_session;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::run::agree::STATEMENT_TIMEOUT;
use thalweg_mover::run::sender::SendRun;
use thalweg_mover::run::session::Session;
use thalweg_mover::run::transfer::Transfer;
use thalweg_wire::message::{Place, Pull, Terms, Totals};

/// Between two looks whether an older session still removes files.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What is asked for.
const REMOVE: &str = "remove source files";

/// Refuses the removal where a client that asks for it so does not know what it does.
///
/// # Errors
/// `Usage`.
pub(super) fn check(terms: &Terms, pull: &Pull) -> Result<()> {
    let is_odd = pull.trial.is_some() || pull.follow_links || terms.delete_max.is_some();
    if !terms.removes_source || !is_odd {
        return Ok(());
    }
    let cause = "not in a measurement, nor where links are followed or the destination deletes";
    Err(Failure::new(FailureKind::Usage, REMOVE, cause))
}

/// A place to read from, and, where its files are removed, to remove them, also in a dry run.
///
/// # Errors
/// As [`Exports::resolve`] and [`Resolved::check_delete`].
pub(super) fn resolve(exports: &Exports, place: &Place, removes: bool) -> Result<Resolved> {
    if !removes {
        return exports.resolve(place, false);
    }
    let may_go = exports.resolve(place, true).and_then(|resolved| {
        resolved.check_delete(REMOVE)?;
        Ok(resolved)
    });
    may_go.map_err(|failure| match failure.kind {
        FailureKind::Permission => failure.because(Reason::SourceStays),
        _ => failure,
    })
}

impl Host {
    /// Where an older session of the same client that was cut off removes files for this job, this is that client again
    /// under the same command: the older session ends, and what it has settled goes before this one looks.
    pub(super) fn outlast_removal(&self, session: &Arc<Session>, job_key: &[u8; 16]) {
        let since = Instant::now();
        for (older, transfer) in self.removals(session, job_key) {
            while transfer.removes_for(job_key) && since.elapsed() < CLOSING {
                let is_gone = older.lost_since().is_some() || is_silent(&older);
                if is_gone && !older.is_closed() {
                    let name = older.name();
                    of_session!(
                        info,
                        session,
                        older = %name,
                        "a client begins its removal anew; its older session ends"
                    );
                    let cause = "the same client began the job anew";
                    older.close(Some(Failure::new(FailureKind::Connection, "serve", cause)));
                } else if older.heard_at().is_some_and(|at| at > since + IN_FLIGHT) {
                    // It lives: it is another of that client.
                    break;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Transfers of other sessions of the same client that remove files for this job, each with its session.
    fn removals(&self, session: &Arc<Session>, job_key: &[u8; 16]) -> Vec<(Arc<Session>, Arc<dyn Transfer>)> {
        let mut others: Vec<_> = self.sessions().values().cloned().collect();
        others.retain(|other| !Arc::ptr_eq(other, session) && other.peer.matches(&session.peer));
        let removing = |other: Arc<Session>| {
            let transfers = other.transfers().into_iter();
            let removes = transfers.filter(|transfer| transfer.removes_for(job_key));
            removes.map(|transfer| (other.clone(), transfer)).collect::<Vec<_>>()
        };
        others.into_iter().flat_map(removing).collect()
    }
}

/// Removes the rest of the source files, and says what became of all of them, where both sides have agreed: that waits
/// for a link that is lost as the transfer does. Where the link was lost before, what is settled goes: the client has
/// it, and another attempt does not see that it is the same.
pub(super) fn finish(run: &SendRun, agreed: &Result<Totals>, session: &Session, patience: Duration) {
    match agreed {
        Ok(_) => {
            let sources = run.finish_removing(&|| run.is_called_off());
            let is_linked = || session.lost_since().is_none();
            let names = Telling::begin(Instant::now(), patience);
            run.tell_names(&|| names.is_in_vain(Instant::now(), is_linked()));
            // Names that a slow link took long for leave the numbers their time.
            let numbers = Telling::begin(Instant::now(), patience);
            run.tell_sources(&sources, &|| numbers.is_in_vain(Instant::now(), is_linked()));
        }
        Err(failure) if failure.kind == FailureKind::Connection => {
            let since = Instant::now();
            run.drain_removing(&|| since.elapsed() > CLOSING);
        }
        Err(_) => {}
    }
    run.stop_removing();
}

/// For how long a client is told what became of the files.
struct Telling {
    began: Instant,
    patience: Duration,
    /// The link stands since then.
    linked_at: Cell<Instant>,
}

impl Telling {
    fn begin(now: Instant, patience: Duration) -> Telling {
        Telling { began: now, patience, linked_at: Cell::new(now) }
    }

    /// Whether it has had its time: that of a last word with a link that stands, or all of the patience.
    fn is_in_vain(&self, now: Instant, is_linked: bool) -> bool {
        if !is_linked {
            self.linked_at.set(now);
        }
        let since = |then| now.saturating_duration_since(then);
        since(self.linked_at.get()) > STATEMENT_TIMEOUT || since(self.began) > self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_what_became_of_the_files_after_an_outage_within_the_patience() {
        let now = Instant::now();
        let telling = Telling::begin(now, 10 * STATEMENT_TIMEOUT);
        let is_in_vain = |timeouts: u32, is_linked| {
            let after = STATEMENT_TIMEOUT * timeouts;
            telling.is_in_vain(now + after, is_linked)
        };
        assert!(!is_in_vain(1, true));
        assert!(!is_in_vain(2, false), "the link is lost");
        assert!(!is_in_vain(5, false));
        assert!(!is_in_vain(6, true), "it stands again");
        assert!(is_in_vain(7, true), "nobody hears it");
        assert!(!is_in_vain(8, false));
        assert!(is_in_vain(11, false), "nobody comes back");
    }
}
