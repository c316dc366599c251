//! What a daemon counts, and tells whoever asks, such as Prometheus: what its log says of each transfer, added up;
//! where the time goes, as `thalweg why` has it; what the kernel says of its streams.
//!
//! 1. A transfer has a [`Count`] beside its line of the log, which hears about once a second how much is done, and at
//!    the end how it ended. What grew since the last time is added to sums: they never go back, whatever ends.
//! 2. Streams, channels of frames and the room of exports are looked at once a second, if anybody may ask (`looks`). A
//!    stream has its last word when it ends.
//! 3. Who asks (`http`) gets a `page` made at that moment, of the metrics of one [`table`].
//!
//! How transfers end, what files and streams moved at exports, and why frames were lost is told as 0 from the first
//! page on: who asks sees the first of its kind come. No thread that moves data has a part in it. Labels are bounded:
//! names of exports, so many names of tickets (of a token that of its holder), and words of ours; nothing that a client
//! chose. Not guaranteed: what a consumer of frames did in its last second, and what is sent on a stream on which
//! nothing comes any more.

use crate::log::{DONE, Done, FILES, KINDS, PULL, PUSH, STREAM};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use thalweg_mover::basin::Evidence;
use thalweg_mover::mutex::lock;
use thalweg_sys::clock::since_1970;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::FailureKind;

/// Every metric that there is.
pub mod table;

mod page;

mod looks;

mod scrape;

mod http;

pub use http::{Answering, Build, listen};
use looks::Seen;

/// Names of tickets that stand in labels.
const TICKETS_MAX: usize = 64;
/// Names of exports that do, those of earlier reloads among them.
const EXPORTS_MAX: usize = 256;
/// Stands for all other names.
const OTHER: &str = "other";
/// How a transfer ended that goes on by another link, and has another line there.
const REPLACED: &str = "replaced";

/// Why a connection was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its peer did not prove in time that it may come.
    Handshake,
    /// There were too many at once that had not said what they are for.
    Crowd,
    /// There were as many sessions as there may be.
    Sessions,
    /// There were as many streams as there may be.
    Streams,
    /// Its session is not known, or the proof for it is wrong.
    UnknownSession,
    /// Its ticket has expired.
    TicketExpired,
    /// Its ticket was revoked.
    TicketRevoked,
    /// Its ticket is gone, or cannot be looked at.
    TicketGone,
    /// It showed a token that is not taken, or none where it is not known otherwise.
    Token,
}

impl Refused {
    const ALL: [Refused; 9] = [
        Refused::Handshake,
        Refused::Crowd,
        Refused::Sessions,
        Refused::Streams,
        Refused::UnknownSession,
        Refused::TicketExpired,
        Refused::TicketRevoked,
        Refused::TicketGone,
        Refused::Token,
    ];

    fn word(self) -> &'static str {
        match self {
            Refused::Handshake => "handshake",
            Refused::Crowd => "crowd",
            Refused::Sessions => "sessions",
            Refused::Streams => "streams",
            Refused::UnknownSession => "unknown-session",
            Refused::TicketExpired => "ticket-expired",
            Refused::TicketRevoked => "ticket-revoked",
            Refused::TicketGone => "ticket-gone",
            Refused::Token => "token",
        }
    }
}

/// See the module. A server has one, whether or not anybody asks.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Since 1970.
    began: Duration,
    is_stopping: AtomicBool,
    refused: [AtomicU64; Refused::ALL.len()],
    sums: Mutex<Sums>,
    /// Transfers that may be under way.
    counts: Mutex<Vec<Weak<Count>>>,
    seen: Seen,
}

/// What all transfers did, those that are over and those that are not.
#[derive(Default)]
struct Sums {
    exports: BTreeSet<String>,
    tickets: BTreeSet<String>,
    /// By kind and direction.
    begun: BTreeMap<(&'static str, &'static str), u64>,
    /// By kind, direction and outcome.
    ended: BTreeMap<(&'static str, &'static str, String), u64>,
    /// By export, kind and direction.
    moved: BTreeMap<(String, &'static str, &'static str), Moved>,
    /// Bytes, by ticket and direction.
    of_tickets: BTreeMap<(String, &'static str), u64>,
    /// What was done without a transfer, by kind and outcome: how often.
    requests: BTreeMap<(&'static str, String), u64>,
    /// Bytes of that, by kind.
    request_bytes: BTreeMap<&'static str, u64>,
    /// Nanoseconds, by side and number of the stage.
    busy: BTreeMap<(&'static str, u8), u64>,
}

/// What was moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub bytes: u64,
    pub resumed_bytes: u64,
    pub repaired: u64,
    pub entries: u64,
    pub failed: u64,
    pub damaged: u64,
}

/// What a transfer, or what is done without one, is counted under.
#[derive(Debug, Clone)]
pub(crate) struct Labels {
    pub kind: &'static str,
    /// `None` of what is no transfer.
    pub direction: Option<&'static str>,
    /// Its export, if that is one of the daemon's.
    pub export: Option<String>,
    pub ticket: Option<String>,
}

impl Metrics {
    /// Of a server that begins now.
    pub fn new() -> Arc<Metrics> {
        Arc::new(Metrics { began: since_1970(), ..Metrics::default() })
    }

    /// One more was turned away.
    pub fn refuse(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing more is accepted.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// One more begins.
    pub fn begin(self: &Arc<Self>, labels: Labels) -> Arc<Count> {
        let Labels { kind, direction, export, ticket } = labels;
        let mut sums = lock(&self.sums);
        let export = named(&mut sums.exports, export, EXPORTS_MAX);
        let ticket = ticket.map(|ticket| named(&mut sums.tickets, Some(ticket), TICKETS_MAX));
        if let Some(direction) = direction {
            *sums.begun.entry((kind, direction)).or_default() += 1;
        }
        drop(sums);
        let noted = Mutex::default();
        let count = Arc::new(Count { metrics: self.clone(), kind, direction, export, ticket, noted });
        if direction.is_some() {
            let mut counts = lock(&self.counts);
            counts.retain(|count| count.strong_count() > 0);
            counts.push(Arc::downgrade(&count));
        }
        count
    }

    /// There are these exports, at which something may be moved.
    fn expect(&self, exports: impl Iterator<Item = String>) {
        let mut sums = lock(&self.sums);
        for export in exports {
            let export = named(&mut sums.exports, Some(export), EXPORTS_MAX);
            for kind in [FILES, STREAM] {
                for direction in [PUSH, PULL] {
                    sums.moved.entry((export.clone(), kind, direction)).or_default();
                }
            }
        }
    }

    /// What files were moved at an export.
    #[cfg(test)]
    pub fn moved(&self, export: &str, direction: &'static str) -> Moved {
        let key = (export.to_owned(), "files", direction);
        lock(&self.sums).moved.get(&key).copied().unwrap_or_default()
    }

    /// How many transfers began, and how many ended in which way, by the word for it.
    #[cfg(test)]
    pub fn transfers(&self, kind: &'static str, direction: &'static str) -> (u64, Vec<(String, u64)>) {
        let sums = lock(&self.sums);
        let begun = sums.begun.get(&(kind, direction)).copied().unwrap_or_default();
        let is_its = |key: &(&'static str, &'static str, String)| (key.0, key.1) == (kind, direction);
        let ended = sums.ended.iter().filter(|of| is_its(of.0));
        (begun, ended.map(|(key, count)| (key.2.clone(), *count)).collect())
    }

    /// Transfers that are under way.
    fn under_way(&self) -> Vec<Arc<Count>> {
        let mut counts: Vec<Arc<Count>> = lock(&self.counts).iter().filter_map(Weak::upgrade).collect();
        counts.retain(|count| !lock(&count.noted).is_over);
        counts
    }
}

impl Sums {
    /// How many began, also of a kind of which none did.
    fn begun(&self) -> BTreeMap<(&'static str, &'static str), u64> {
        let mut begun: BTreeMap<_, _> = ways().map(|way| (way, 0)).collect();
        begun.extend(self.begun.iter().map(|(way, count)| (*way, *count)));
        begun
    }

    /// How many ended so, also if none did.
    fn ended(&self) -> BTreeMap<(&'static str, &'static str, String), u64> {
        let all = ways()
            .flat_map(|(kind, direction)| outcomes().map(move |outcome| ((kind, direction, outcome), 0)));
        let mut ended: BTreeMap<_, _> = all.collect();
        ended.extend(self.ended.iter().map(|(key, count)| (key.clone(), *count)));
        ended
    }
}

/// How transfers end, as the log has it.
fn outcomes() -> impl Iterator<Item = String> {
    FailureKind::ALL.into_iter().map(FailureKind::word).chain([DONE, REPLACED].map(str::to_owned))
}

/// Kinds and directions of transfers.
fn ways() -> impl Iterator<Item = (&'static str, &'static str)> {
    KINDS.into_iter().flat_map(|kind| [PUSH, PULL].map(|direction| (kind, direction)))
}

/// What stands in labels for a name: itself, while there are not too many.
fn named(names: &mut BTreeSet<String>, name: Option<String>, names_max: usize) -> String {
    let Some(name) = name else { return OTHER.to_owned() };
    if names.contains(&name) {
        return name;
    }
    if names.len() >= names_max {
        return OTHER.to_owned();
    }
    names.insert(name.clone());
    name
}

/// What of one transfer, or of what is done without one, is counted. One that is dropped before its end was told goes
/// on elsewhere.
pub(crate) struct Count {
    metrics: Arc<Metrics>,
    kind: &'static str,
    direction: Option<&'static str>,
    export: String,
    ticket: Option<String>,
    noted: Mutex<Noted>,
}

/// What of it is in the sums.
#[derive(Default)]
struct Noted {
    moved: Moved,
    /// Nanoseconds, by the number of the stage.
    busy: BTreeMap<u8, u64>,
    /// Where its time goes, while it runs.
    evidence: Option<Evidence>,
    is_over: bool,
}

impl std::fmt::Debug for Count {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Count").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Count {
    /// So much is done by now, and so our side's time went; `evidence`: where that of both did, if it is known.
    pub fn note(&self, done: &Done, own: &SideAccounts, evidence: Option<Evidence>) {
        let Some(direction) = self.direction else { return };
        let side = if direction == PUSH { "receiver" } else { "sender" };
        let mut noted = lock(&self.noted);
        if noted.is_over {
            return;
        }
        noted.evidence = evidence;
        let mut sums = lock(&self.metrics.sums);
        // Entries that are settled may fail still.
        self.add(&mut noted.moved, done, &mut sums, direction);
        for row in &own.stages {
            let before = noted.busy.entry(row.stage).or_default();
            let more = row.busy_nanos.saturating_sub(*before);
            *before += more;
            grow(sums.busy.entry((side, row.stage)).or_default(), more);
        }
    }

    /// It is over, and so much was done. To be called once; a second time it does nothing.
    pub fn end(&self, outcome: &str, done: &Done) {
        let mut noted = lock(&self.noted);
        if std::mem::replace(&mut noted.is_over, true) {
            return;
        }
        noted.evidence = None;
        let mut sums = lock(&self.metrics.sums);
        let Some(direction) = self.direction else {
            *sums.requests.entry((self.kind, outcome.to_owned())).or_default() += 1;
            grow(sums.request_bytes.entry(self.kind).or_default(), done.bytes);
            return;
        };
        *sums.ended.entry((self.kind, direction, outcome.to_owned())).or_default() += 1;
        self.add(&mut noted.moved, done, &mut sums, direction);
        let moved = sums.moved.entry((self.export.clone(), self.kind, direction)).or_default();
        grow(&mut moved.entries, done.entries.unwrap_or(0));
        grow(&mut moved.failed, done.failed);
        grow(&mut moved.damaged, done.damaged);
    }

    /// Adds what is more than was noted.
    fn add(&self, noted: &mut Moved, done: &Done, sums: &mut Sums, direction: &'static str) {
        let more = |noted: &mut u64, now: u64| {
            let more = now.saturating_sub(*noted);
            *noted += more;
            more
        };
        let bytes = more(&mut noted.bytes, done.bytes);
        let moved = sums.moved.entry((self.export.clone(), self.kind, direction)).or_default();
        grow(&mut moved.bytes, bytes);
        grow(&mut moved.resumed_bytes, more(&mut noted.resumed_bytes, done.resumed));
        grow(&mut moved.repaired, more(&mut noted.repaired, done.repaired));
        if let Some(ticket) = &self.ticket {
            grow(sums.of_tickets.entry((ticket.clone(), direction)).or_default(), bytes);
        }
    }
}

/// Some of these numbers are words of a peer.
fn grow(sum: &mut u64, by: u64) {
    *sum = sum.saturating_add(by);
}

impl Drop for Count {
    fn drop(&mut self) {
        if self.direction.is_some() {
            self.end(REPLACED, &Done::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::account::StageAccount;

    fn labels(export: &str, ticket: &str) -> Labels {
        let (export, ticket) = (Some(export.to_owned()), Some(ticket.to_owned()));
        Labels { kind: "files", direction: Some(PUSH), export, ticket }
    }

    #[test]
    fn what_is_counted_never_goes_back_whatever_a_transfer_says_of_itself_and_however_it_ends() {
        let metrics = Metrics::new();
        let count = metrics.begin(labels("data", "alice"));
        let own = |busy_nanos| {
            let row = StageAccount { stage: 3, busy_nanos, ..StageAccount::default() };
            SideAccounts { stages: vec![row], ..SideAccounts::default() }
        };
        let done = |bytes| Done { repaired: 1, resumed: 2, ..Done::by_then(7, bytes) };
        for (bytes, busy_nanos) in [(100, 5), (300, 9), (200, 4)] {
            count.note(&done(bytes), &own(busy_nanos), Some(Evidence::default()));
        }
        let so_far = Moved { bytes: 300, resumed_bytes: 2, repaired: 1, ..Moved::default() };
        assert_eq!(metrics.moved("data", PUSH), so_far);
        assert_eq!(lock(&metrics.sums).busy[&("receiver", 3_u8)], 9);
        assert_eq!(metrics.under_way().len(), 1);
        // Less than was told on the way: something was withdrawn.
        count.end("done", &Done { failed: 1, ..done(250) });
        count.note(&done(900), &own(90), None);
        count.end("io", &done(900));
        let is = metrics.moved("data", PUSH);
        assert_eq!((is.bytes, is.entries, is.failed), (300, 7, 1));
        let sums = lock(&metrics.sums);
        assert_eq!(sums.ended.iter().collect::<Vec<_>>(), [(&("files", "push", "done".to_owned()), &1)]);
        assert_eq!(sums.of_tickets[&("alice".to_owned(), "push")], 300);
        drop(sums);
        assert!(metrics.under_way().is_empty());
        // The next one adds to it.
        metrics.begin(labels("data", "alice")).end("done", &done(11));
        assert_eq!(metrics.moved("data", PUSH).bytes, 311);
    }

    #[test]
    fn a_transfer_that_goes_on_by_another_link_is_over_and_is_no_failure() {
        let metrics = Metrics::new();
        drop(metrics.begin(labels("data", "alice")));
        let sums = lock(&metrics.sums);
        assert_eq!(sums.ended[&("files", "push", REPLACED.to_owned())], sums.begun[&("files", "push")]);
    }

    #[test]
    fn names_are_as_many_as_are_bounded_and_those_of_more_are_one() {
        let metrics = Metrics::new();
        for number in 0..1000 {
            let count = metrics.begin(labels(&format!("export{number}"), &format!("ticket{number}")));
            count.end("done", &Done::by_then(1, 1));
        }
        let sums = lock(&metrics.sums);
        assert_eq!((sums.moved.len(), sums.of_tickets.len()), (EXPORTS_MAX + 1, TICKETS_MAX + 1));
        let rest = sums.of_tickets[&(OTHER.to_owned(), "push")];
        assert_eq!(rest, 1000 - TICKETS_MAX as u64);
    }

    #[test]
    fn what_is_done_without_a_transfer_is_counted_when_it_is_told_and_only_then() {
        let metrics = Metrics::new();
        let labels = Labels { kind: "read", direction: None, export: None, ticket: None };
        drop(metrics.begin(labels.clone()));
        metrics.begin(labels).end("done", &Done::by_then(1, 5));
        let sums = lock(&metrics.sums);
        assert_eq!(sums.requests.iter().collect::<Vec<_>>(), [(&("read", "done".to_owned()), &1)]);
        assert_eq!(sums.request_bytes["read"], 5);
        assert!(sums.begun.is_empty() && sums.ended.is_empty());
    }

    #[test]
    fn each_reason_to_turn_somebody_away_has_a_place_and_a_word_of_its_own() {
        let metrics = Metrics::new();
        for (at, why) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, at);
            metrics.refuse(why);
            assert_eq!(metrics.refused[at].load(Ordering::Relaxed), 1);
        }
        let words: BTreeSet<&str> = Refused::ALL.into_iter().map(Refused::word).collect();
        assert_eq!(words.len(), Refused::ALL.len());
    }
}
