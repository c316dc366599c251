//! Pulls whose source files are removed here: who may have that, and what the client is told of it.

use super::opening::{CLOSING, IN_FLIGHT, SILENCE};
use super::{Host, Origin};
use crate::export::{Exports, Resolved};
use crate::log::of_session;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::mutex::lock;
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

/// A removal as [`Host::outlast_removal`] finds it, until this goes.
pub(super) struct Listed {
    host: Arc<Host>,
    run: Arc<SendRun>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.host.removals).retain(|(_, run)| !Arc::ptr_eq(run, &self.run));
    }
}

impl Host {
    /// Has later ones of the same job outlast what `run` removes, also when its session is closed.
    ///
    /// # Errors
    /// When the server shuts down.
    pub(super) fn list_removal(&self, session: &Arc<Session>, run: &Arc<SendRun>) -> Result<Listed> {
        let listed = Listed { host: self.strong()?, run: run.clone() };
        lock(&self.removals).push((session.clone(), run.clone()));
        Ok(listed)
    }

    /// Where this client, by its certificate, removes files for this job already, it may have begun anew: what is
    /// settled goes before this one looks. An older session that was cut off a while ago ends for that, if it is of the
    /// same address. Whether there was one.
    pub(super) fn outlast_removal(&self, session: &Arc<Session>, job_key: &[u8; 16]) -> bool {
        let since = Instant::now();
        let mut removals = lock(&self.removals).clone();
        removals.retain(|(older, run)| older.peer.matches(&session.peer) && run.removes_for(job_key));
        for (older, run) in &removals {
            let is_own = Arc::ptr_eq(older, session);
            while run.removes_for(job_key) && since.elapsed() < CLOSING {
                // With a link that stands, or may come back at once, it may be another machine's with the same ticket.
                let is_cut_off = older.lost_since().is_some_and(|at| at.elapsed() > SILENCE);
                if is_cut_off && !is_own && !older.is_closed() && Origin::of_session(session).counts(older) {
                    let name = older.name();
                    of_session!(
                        info,
                        session,
                        older = %name,
                        "a client begins its removal anew; its older session ends"
                    );
                    let cause = "the same client began the job anew";
                    older.close(Some(Failure::new(FailureKind::Connection, "serve", cause)));
                } else if !is_own && older.heard_at().is_some_and(|at| at > since + IN_FLIGHT) {
                    // It lives: it is another of that client.
                    break;
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        !removals.is_empty()
    }
}

/// Removes the rest of the source files, and says what became of all of them, where both sides have agreed: that waits
/// for a link that is lost as the transfer does. Where the link was lost before, what is settled goes: the client has
/// it, and another attempt does not see that it is the same.
pub(super) fn finish(run: &SendRun, agreed: &Result<Totals>, session: &Session, patience: Duration) {
    match agreed {
        Ok(_) => {
            let sources = run.finish_removing(&|| run.is_called_off());
            // Who begins anew need not wait until somebody has heard of it.
            run.stop_removing();
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
    use super::super::HostLimits;
    use super::super::tests::cut_off;
    use super::*;
    use thalweg_mover::endpoint::synthetic::NoiseSource;
    use thalweg_mover::event;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::Ended;
    use thalweg_mover::run::party::Party;
    use thalweg_mover::transfer::sender;
    use thalweg_wire::message::TransferNumber;

    /// Nobody waits for so long but in vain.
    const LIMIT: Duration = Duration::from_secs(60);

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

    /// It would be offered what goes meanwhile.
    #[test]
    fn a_client_that_begins_a_removal_anew_outlasts_that_of_its_older_session() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let [older, newer] = [1, 2].map(|id| cut_off(&host, id));
        host.sessions().insert(older.id, older.clone());
        let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
        let (key, limits) = (terms.job_key, sender::Limits::for_path(&terms, None));
        let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
        let run = SendRun::new(number, source, terms, limits, older.outbox(), event::nobody());
        run.remove_sources_for_peer(false).expect("a thread");
        older.add(number, run.clone()).expect("room for it");
        let listed = host.list_removal(&older, &run).expect("a host");
        assert!(!host.outlast_removal(&newer, &[9; 16]) && !older.is_closed(), "it is another job");
        let removes = run.clone();
        let seen = std::thread::spawn(move || {
            let ended = removes.wait(LIMIT);
            removes.stop_removing();
            ended
        });
        assert!(host.outlast_removal(&newer, &key));
        assert!(older.is_closed() && !Transfer::removes_for(&*run, &key));
        assert!(matches!(seen.join().expect("an end"), Some(Ended::Failed(_))));
        drop(listed);
        assert!(lock(&host.removals).is_empty());
    }

    /// Of a session that is closed by now, and of one that goes on: the client's attempt failed, and not its session.
    #[test]
    fn a_removal_is_outlasted_though_its_session_is_closed_or_is_the_same() {
        let identity = Identity::generate("server").expect("an identity");
        let exports = Exports::open(Vec::new()).expect("no exports");
        let host = Host::new(identity, exports, None, HostLimits::default());
        let [older, newer] = [1, 2].map(|id| cut_off(&host, id));
        older.close(None);
        for (session, is_closed) in [(&older, true), (&newer, false)] {
            let (number, terms) = (TransferNumber(1), Terms::of(1 << 20, 1 << 16));
            let (key, limits) = (terms.job_key, sender::Limits::for_path(&terms, None));
            let source = Arc::new(NoiseSource { bytes: 1 << 10, file_bytes: 1 << 10 });
            let run = SendRun::new(number, source, terms, limits, session.outbox(), event::nobody());
            run.remove_sources_for_peer(false).expect("a thread");
            let _listed = host.list_removal(session, &run).expect("a host");
            let removes = run.clone();
            let ends = std::thread::spawn(move || {
                // For who does not wait to be seen.
                std::thread::sleep(Duration::from_millis(300));
                removes.stop_removing();
            });
            assert!(host.outlast_removal(&newer, &key));
            assert!(!Transfer::removes_for(&*run, &key), "it was not waited for");
            assert_eq!(session.is_closed(), is_closed);
            ends.join().expect("an end");
        }
    }
}
