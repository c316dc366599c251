//! A stream from beginning to end: plan, link, both sides, attempts, agreement.
//!
//! Both sides on this machine outlive the sessions that they ride in: what was read of a pipe, or delivered to a
//! program, is not had a second time. So only the link is begun anew after an outage that a session did not survive.

use crate::failure::{Failure, FailureKind, Result};
use crate::link::Identity;
use crate::retry::attempts::Attempts;
use crate::retry::{Rule, Tries};
use crate::run::copy::{Stop, Watch, stopped_in};
use std::time::Instant;

/// What is asked for, and what comes of it.
mod wishes;

/// Its ends, plan and terms.
mod open;

/// Within this machine.
mod local;

/// To a far one.
mod push;

/// From a far one.
mod pull;

/// One session after the other.
mod attempts;

/// How far it is.
mod measure;

pub use open::PIPE_NAME;
pub use wishes::{FlowFrom, FlowReport, FlowTo, FlowWishes, MARK_EVERY_MS, WINDOW_BYTES};

/// Streams, until the source is complete and all of it is durable (or delivered) at the destination.
///
/// # Errors
/// When it could not begin, or not go on. Single flows that failed are events and counted in the totals.
pub fn stream(
    from: FlowFrom,
    to: FlowTo,
    wishes: &FlowWishes,
    identity: &Identity,
    watch: &Watch,
    stop: &Stop,
) -> Result<FlowReport> {
    let mut job = Job {
        wishes,
        identity,
        watch,
        stop,
        started: Instant::now(),
        attempts: Attempts::new(attempts::HEALS, wishes.link.patience, Instant::now()),
        told: None,
        steered: (0, wishes.rate.bytes_per_s()),
        in_ssh: false,
        is_unused_told: false,
        is_window_told: false,
        opens_by: None,
        openings: Tries::default(),
    };
    let far = (matches!(from, FlowFrom::Far(..)), matches!(to, FlowTo::Far(..)));
    if wishes.slot.is_some() && far != (false, true) {
        let cause = match far {
            (true, _) => SLOT_OF_A_PULL,
            (false, _) => "slots are for streams from this machine to a daemon",
        };
        return Err(Failure::new(FailureKind::Usage, "take a slot", cause));
    }
    match (from, to) {
        (FlowFrom::Far(..), FlowTo::Far(..)) => {
            let cause = "both places are far: run thalweg at one of them";
            Err(Failure::new(FailureKind::Unsupported, "stream", cause))
        }
        (FlowFrom::Far(far, place), to) => job.pull(&far, &place, to),
        (from, FlowTo::Far(far, place)) => job.push(from, &far, &place),
        (from, to) => job.local(from, to),
    }
}

/// A daemon knows what comes to it. What goes from it leaves by the other direction, to ways that differ by client.
const SLOT_OF_A_PULL: &str = "slots are for streams from this machine to a daemon: a daemon gives away the way to it, and \
    what it sends takes the ways from it; have the machine that has the data push to a daemon here";

struct Job<'a> {
    wishes: &'a FlowWishes,
    identity: &'a Identity,
    watch: &'a Watch,
    stop: &'a Stop,
    started: Instant,
    attempts: Attempts,
    told: Option<Instant>,
    /// The rate that the sender goes by, and in which epoch of the link it was told.
    steered: (u64, Option<u64>),
    /// Data travel in ssh.
    in_ssh: bool,
    /// What was asked for and does nothing on this way was told.
    is_unused_told: bool,
    /// That less is kept than was asked for was told.
    is_window_told: bool,
    /// While the destination is opened: whether that is begun again if there is no room.
    opens_by: Option<Rule>,
    /// How often in a row there was none.
    openings: Tries,
}

fn stopped() -> Failure {
    stopped_in("stream")
}

fn internal(cause: &str) -> Failure {
    Failure::new(FailureKind::Internal, "stream", cause)
}
