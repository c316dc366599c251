//! Pulls whose source files are removed here: who may have that, and what the client is told of it.

use super::opening::CLOSING;
use crate::export::{Exports, Resolved};
use std::time::Instant;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_mover::run::agree::STATEMENT_TIMEOUT;
use thalweg_mover::run::sender::SendRun;
use thalweg_wire::message::{Place, Pull, Terms, Totals};

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

/// Removes the rest of the source files, and says what became of all of them, where both sides have agreed. Where the
/// link was lost before, what is settled goes: the client has it, and another attempt does not see that it is the same.
pub(super) fn finish(run: &SendRun, agreed: &Result<Totals>) {
    match agreed {
        Ok(_) => {
            let sources = run.finish_removing(&|| run.is_called_off());
            run.tell_sources(&sources, STATEMENT_TIMEOUT);
        }
        Err(failure) if failure.kind == FailureKind::Connection => {
            let since = Instant::now();
            run.drain_removing(&|| since.elapsed() > CLOSING);
        }
        Err(_) => {}
    }
    run.stop_removing();
}
