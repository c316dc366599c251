//! The whole way as one basin: which stage is the narrowest, by what factor, what would be next, which knob to turn.
//!
//! Everything here is a judgement of accounts that both sides kept ([`Evidence`]) and decides nothing else.
//!
//! 1. [`need`]: for each resource (a pool of threads and its stages, a disk, a CPU, the path, a limit that was set),
//!    the time that this transfer would take if everything else were infinitely wide. What a thread waits for others in
//!    is no time of its own.
//! 2. The narrowest is the resource with the longest need; what it is about comes from the kernel's own account of the
//!    streams, of CPU and of disks.
//! 3. Without it the transfer would take the longest need of the others, but not less than the time that the narrowest
//!    had no part in: the factor. What no account can tell (how fast a disk is beyond its throttle, a path beyond what
//!    it was asked to carry) makes it an upper bound, and [`Verdict::factor_low`] says what is certain.

use crate::stage::Stage;
use serde::{Deserialize, Serialize};
use thalweg_wire::account::{SideAccounts, StageAccount};

// What each resource needs.
mod need;

// What the streams say about the path.
mod path;

// Streams and cards that carry less than the others.
mod slow;

// Heat that slowed CPUs.
mod heat;

// Times in which nothing could move.
mod outages;

// CPUs of the machines, and quotas of control groups.
mod cpu;

// CPUs that others had.
mod crowd;

// What to turn.
mod knob;

// Rates, times and sizes in words.
mod words;

// The stages as a table and a drawing want them.
pub mod width;

// The time by the terms of a prediction.
pub mod times;

// The energy that the machines used meanwhile.
pub mod energy;

#[cfg(test)]
mod tests;

pub use need::Cause;

pub use outages::Outages;

pub use path::rtt_seconds;

/// What is known about a transfer, under way or over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Evidence {
    /// Time since the transfer began, in nanoseconds.
    pub elapsed_nanos: u64,
    /// Content bytes that came to the destination and were verified there.
    pub bytes: u64,
    /// Content bytes that stood there and were compared with what was read at the source: only their digests came.
    #[serde(default)]
    pub compared_bytes: u64,
    /// Entries settled.
    pub entries: u64,
    /// Whether what is moved is still being made: a pipe, files that grow.
    #[serde(default)]
    pub is_flow: bool,
    /// Whether it gives way to others on the path.
    #[serde(default)]
    pub yields: bool,
    /// Whether there is a link between the sides; without one both are one process.
    pub is_linked: bool,
    /// Whether data travel in ssh: no stream is a connection of its own between the machines.
    #[serde(default)]
    pub in_ssh: bool,
    /// Streams that were planned.
    pub streams: u16,
    /// Rate that was asked for, in bytes a second.
    pub rate_bytes_per_s: Option<u64>,
    /// Chunks or packs that each stream may have under way, if that was set.
    pub depth: Option<u32>,
    /// Files that may be under way.
    pub concurrency: u32,
    /// Bytes that each stream may have under way, if that was set.
    pub window_bytes: Option<u64>,
    /// Most bytes that the receiver's and the sender's system lets a socket's buffer grow to: receive, send; 0 if
    /// unknown, as of a system that is not this one.
    pub socket_bytes_max: (u64, u64),
    /// Times in which nothing could move, whatever the stages let through.
    #[serde(default)]
    pub outages: Outages,
    /// Accounts of the sending side.
    pub sender: SideAccounts,
    /// Accounts of the receiving side.
    pub receiver: SideAccounts,
}

/// Where a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub enum Where {
    /// With the sender.
    Source,
    /// Between.
    Path,
    /// With the receiver.
    Destination,
    /// Source and destination are one machine, and it is about that.
    Both,
}

impl Where {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Where::Source => "source",
            Where::Path => "path",
            Where::Destination => "destination",
            Where::Both => "both",
        }
    }
}

/// A stage that is, or would be, the narrowest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Narrow {
    /// Name of the stage; `path` or `cpu` where it is no single one.
    pub stage: String,
    /// Where it is.
    pub place: Where,
    /// What makes it narrow.
    pub cause: Cause,
    /// Time that the transfer would take if only this were there, as a share of the time that it took, 0 to 1.
    pub busy: f64,
    /// Content bytes a second that it lets through.
    pub bytes_per_s: f64,
    /// Entries a second that it lets through.
    pub entries_per_s: f64,
    /// Of a CPU that heat slowed: at which share of the looks, 0 to 1. Absent where that explains nothing, or is not
    /// told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat: Option<f64>,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The narrowest.
    pub narrowest: Narrow,
    /// What would be the narrowest without it.
    pub next: Option<Narrow>,
    /// How many times faster the transfer would be if the narrowest were as wide as the next, at least 1: the estimate.
    pub factor: f64,
    /// What is certain of that, where it is less.
    pub factor_low: Option<f64>,
    /// What to turn.
    pub knob: String,
    /// All of it in a sentence.
    pub sentence: String,
}

/// Judges. `None` before anything was done.
pub fn judge(evidence: &Evidence) -> Option<Verdict> {
    let seconds = evidence.seconds();
    let (narrowest, next) = &narrowest_and_next(evidence)?;
    if seconds <= 0.0 || narrowest.seconds <= 0.0 {
        return None;
    }
    let is_path = narrowest.place == Where::Path;
    let beginning = if is_path { path::beginning_seconds(evidence) } else { 0.0 };
    let left = (seconds - narrowest.seconds).max(0.0) + beginning;
    let wanted = next.map_or(left, |next| next.seconds).max(left).max(seconds / FACTOR_MAX);
    let factor = (seconds / wanted).max(1.0);
    // The path is known to be as wide as it ever was, and no wider: behind ssh, a window, a buffer or losses there is a
    // link of which nothing else is known.
    let hides_link = matches!(narrowest.cause, Cause::Ssh | Cause::Window | Cause::SendBuffer | Cause::Loss);
    // Where no content had to come, how wide a path is that was not the narrowest changes nothing.
    let is_in_doubt = if is_path { hides_link } else { evidence.bytes > 0 };
    let certain = match evidence.is_linked && is_in_doubt {
        true => {
            let carried = evidence.bytes.max(1) as f64;
            // Of packets that we space the kernel sees the beginnings of bursts.
            let peak = path::peak_bytes_per_s(evidence).filter(|_| !path::is_spaced_by_us(evidence));
            let peak = peak.unwrap_or(0.0) * seconds / carried;
            let busy = path::busy_seconds(evidence).filter(|_| !is_path);
            let busy = busy.map_or(0.0, |busy| seconds / busy.max(1e-9));
            peak.max(busy).clamp(1.0, factor)
        }
        false => factor,
    };
    let narrow = |need: &need::Need| need.narrow(evidence);
    let mut verdict = Verdict {
        narrowest: narrow(narrowest),
        next: next.as_ref().map(narrow),
        factor,
        factor_low: (certain < factor * 0.8).then_some(certain),
        knob: knob::knob(evidence, narrowest),
        sentence: String::new(),
    };
    verdict.sentence = words::sentence(evidence, &verdict);
    Some(verdict)
}

/// The narrowest, and what would be the narrowest without it. The next may have been busy for longer: what is known of
/// it is then the most that it can have taken, of a path the time in which anything was on its way. To be named first
/// it would have to be waited for.
fn narrowest_and_next(evidence: &Evidence) -> Option<(need::Need, Option<need::Need>)> {
    let narrowest = narrowest_of(evidence, &need::needs(evidence))?;
    let rest = need::without(evidence, &narrowest);
    let next = rest.into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Some((narrowest, next))
}

/// Busy for less than this share of the time in which the path was.
const MUCH_LESS: f64 = 0.5;

/// The resource with the longest need, by its weight.
fn narrowest_of(evidence: &Evidence, needs: &[need::Need]) -> Option<need::Need> {
    // A CPU that has time left holds nothing up, where the path was busy for much longer. What was waited for the path
    // does not tell it apart: a wait is booked when it is over, and of many streams on a thin link most never are.
    let carrying = if evidence.is_linked { path::carrying_seconds(evidence) } else { 0.0 };
    // Nor does a plan hold up what a full path does.
    let is_path_full = evidence.is_linked && path::is_full(evidence);
    let is_out = |need: &&need::Need| match need.cause {
        Cause::Plan => is_path_full,
        _ => need.is_idle_cpu() && need.seconds < carrying * MUCH_LESS,
    };
    let others = needs.iter().filter(|need| !is_out(need));
    let narrowest = *others.max_by(|a, b| a.weight.total_cmp(&b.weight))?;
    Some(match narrowest.place {
        Where::Path => {
            let seconds = narrowest.seconds.max(path::carrying_seconds(evidence));
            need::Need { seconds, ..narrowest }
        }
        _ => narrowest,
    })
}

/// Factors beyond this say only that there is nothing else in sight.
const FACTOR_MAX: f64 = 100.0;

impl Evidence {
    /// Time since the transfer began.
    pub fn seconds(&self) -> f64 {
        self.elapsed_nanos as f64 / 1e9
    }

    /// Content bytes that the transfer had to do with: what came, and what was compared.
    pub fn content_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.compared_bytes)
    }

    /// Whether both sides are on one machine, as far as they tell.
    fn is_one_machine(&self) -> bool {
        let (sender, receiver) = (self.sender.process.host, self.receiver.process.host);
        !self.is_linked || (sender != 0 && sender == receiver)
    }

    /// What of that a stage with this account had to do with, one through which no content goes with all of it. What
    /// went through it more than once counts once.
    fn bytes_through(&self, row: &StageAccount) -> u64 {
        match row.bytes {
            // What an earlier attempt left is none of what this one moves.
            bytes if row.stage == Stage::Reread as u8 => bytes,
            0 => self.content_bytes(),
            bytes => bytes.clamp(self.bytes, self.content_bytes()),
        }
    }

    /// Threads that read: of files those of as many streams as took work, on average; of a flow the one that reads it.
    fn reading_threads(&self) -> f64 {
        f64::from(self.sender.stage(Stage::Read as u8).threads.max(1))
    }

    /// Threads that send: of files those that read, too; of a flow those of as many streams as had a piece to hand on,
    /// on average while any had one.
    fn sending_threads(&self) -> f64 {
        match self.is_flow {
            true => f64::from(self.sender.stage(Stage::Send as u8).threads.max(1)),
            false => self.reading_threads(),
        }
    }

    /// Threads that receive: as many as streams took work, or had a piece. The others stand by, which their receiver
    /// cannot tell.
    fn receiving_threads(&self) -> f64 {
        if self.is_flow {
            return self.sending_threads();
        }
        let own = self.receiver.stage(Stage::Receive as u8).threads.max(1);
        match self.sender.stage(Stage::Read as u8).threads {
            sent @ 1.. => f64::from(own.min(sent)),
            _ => f64::from(own),
        }
    }
}
