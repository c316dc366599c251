//! The log's two lines of each transfer: who, from where, what, when it begins; and when it is over also how much of
//! it, and how it ended. Of what is read, digested or removed outside transfers there is the second alone: of reading
//! one for each file, in however many pieces; of digesting one for each session, in however many questions.
//!
//! What a client chose (names, its words in failures) is escaped and stands as a text of its own: a line is one line,
//! and nobody but us writes its fields, and it is short: names and failures are cut. What comes to nothing again and
//! again is told a bounded number of times a minute; whatever was opened or done, each time. Not here: what each entry
//! became, which the client's report has.

mod failures;

mod reads;

pub(crate) use failures::Failures;
pub(crate) use reads::Reads;

use crate::accept::source_of;
use crate::metrics::{Count, Labels, Metrics};
use crate::published::{self, cut};
use crate::tickets::holder_of;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::basin::Evidence;
use thalweg_mover::failure::{Failure, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::run::session::Session;
use thalweg_wire::account::SideAccounts;
use thalweg_wire::message::{Direction, Open, Place, Question, Request, Totals};
use thalweg_wire::{Digest, digest};

/// A line about a session: which, whose, and from where that came last.
macro_rules! of_session {
    ($level:ident, $session:expr, $($told:tt)*) => {{
        let session: &thalweg_mover::run::session::Session = $session;
        tracing::$level!(
            session = %session.name(),
            client = %session.peer,
            ticket = session.ticket(),
            address = session.peer_address().map(tracing::field::display),
            $($told)*
        );
    }};
}
pub(crate) use of_session;

/// The kinds of transfers.
pub(crate) const KINDS: [&str; 5] = [FILES, STREAM, FRAMES, PROBE, DRY_RUN];
pub(crate) const FILES: &str = "files";
pub(crate) const STREAM: &str = "stream";
const FRAMES: &str = "frames";
const PROBE: &str = "probe";
/// A push or pull that only says what it would do.
pub(crate) const DRY_RUN: &str = "dry-run";

/// What comes.
pub(crate) const PUSH: &str = "push";
/// What goes.
pub(crate) const PULL: &str = "pull";

/// How something ends in order.
pub(crate) const DONE: &str = "done";

/// A transfer, or an answer, that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Name of the session.
    session: String,
    client: Fingerprint,
    /// Name of the client's ticket, if it has one; of a guest also where it acts, in words that a client chose.
    ticket: Option<String>,
    /// The name alone.
    holder: Option<String>,
    address: Option<SocketAddr>,
    /// Its number in the session; `None` of an answer.
    transfer: Option<u16>,
    /// `None` of an answer.
    direction: Option<&'static str>,
    kind: &'static str,
    /// As it is shown: cut, if it is long.
    place: String,
    /// Of an answer, what tells its place from all others.
    whole: Digest,
    /// That it began is told, and so is its end. Of all clones.
    is_open: Arc<AtomicBool>,
    began: Instant,
    failures: Arc<Failures>,
    /// What metrics have of it.
    count: Option<Arc<Count>>,
}

/// How much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    /// Files, directories, links, or flows; `None` of frames.
    pub entries: Option<u64>,
    /// Entries that could not be.
    pub failed: u64,
    /// Those of them whose content was damaged, and stayed so.
    pub damaged: u64,
    /// Content bytes; of frames those that came or were taken.
    pub bytes: u64,
    /// Entries that were as they should be.
    pub unchanged: u64,
    /// Entries left out on purpose.
    pub skipped: u64,
    /// Entries removed by `--delete`; of a dry run those that would be.
    pub deleted: u64,
    /// Source files removed here; of a dry run those that would be.
    pub removed: u64,
    /// Content bytes found from an earlier attempt.
    pub resumed: u64,
    /// Chunks that came damaged and were sent again.
    pub repaired: u64,
}

impl Done {
    /// Of one that did not come to its end.
    pub fn by_then(entries: u64, bytes: u64) -> Done {
        Done { entries: Some(entries), bytes, ..Done::default() }
    }

    /// What of it was moved: of a dry run nothing.
    pub fn moved(self, kind: &str) -> Done {
        match kind {
            DRY_RUN => Done { bytes: 0, deleted: 0, removed: 0, resumed: 0, repaired: 0, ..self },
            _ => self,
        }
    }

    /// What is known of it where it is what the totals say: sums do not go by the word of a peer. `by_then`: what was
    /// seen here.
    pub fn known(self, by_then: Done, direction: Option<&str>, kind: &str) -> Done {
        let Done { bytes, damaged, .. } = by_then;
        match direction {
            // Whose totals are the word of who received, and sums stay what we know.
            Some(PULL) => {
                let most = by_then.entries.unwrap_or(0);
                let entries = self.entries.map(|entries| entries.min(most));
                Done { entries, failed: self.failed.min(most), ..by_then }
            }
            // Of a file of which some was there already, the totals have all.
            _ if kind != STREAM => Done { bytes, damaged, ..self },
            _ => Done { damaged, ..self },
        }
    }

    /// One more entry, with so many bytes.
    pub fn count_one(&mut self, bytes: u64) {
        *self.entries.get_or_insert(0) += 1;
        self.bytes += bytes;
    }
}

impl From<Totals> for Done {
    fn from(totals: Totals) -> Done {
        Done {
            entries: Some(totals.done),
            failed: totals.failed,
            damaged: 0,
            bytes: totals.bytes_done,
            unchanged: totals.unchanged,
            skipped: totals.skipped,
            deleted: totals.deleted,
            removed: 0,
            resumed: totals.bytes_resumed,
            repaired: totals.chunks_repaired,
        }
    }
}

impl Line {
    /// Has it counted, too, as one at this export, if that is one of the daemon's.
    pub fn counted(self, metrics: &Arc<Metrics>, export: Option<String>) -> Line {
        let ticket = self.holder.clone();
        let labels = Labels { kind: self.kind, direction: self.direction, export, ticket };
        Line { count: Some(metrics.begin(labels)), ..self }
    }

    /// So much of it is done by now, and so our side's time went; `evidence`: where that of both did, if it is known.
    pub fn note(&self, done: Done, own: &SideAccounts, evidence: Option<Evidence>) {
        if let Some(count) = &self.count {
            count.note(&self.moved(done), own, evidence);
        }
    }

    /// What of that was moved.
    fn moved(&self, done: Done) -> Done {
        done.moved(self.kind)
    }

    /// It is opened, and that is told: from now on something may be done, and a daemon that is killed meanwhile has no
    /// other line of it. To be called once, before anybody sees it to its end.
    pub fn opened(&self) {
        self.is_open.store(true, Ordering::Release);
        tracing::info!(
            session = %self.session,
            client = %self.client,
            ticket = self.ticket.as_deref(),
            address = self.address.map(tracing::field::display),
            transfer = self.transfer,
            direction = self.direction,
            kind = self.kind,
            place = self.place.as_str(),
            "transfer begins"
        );
    }

    /// Where it was asked from.
    fn source(&self) -> Option<IpAddr> {
        self.address.map(|address| source_of(address.ip()))
    }

    /// Of a transfer that is asked for. That it begins is told when it [is opened](Line::opened): of what is refused
    /// there is one line.
    pub fn of_open(session: &Session, open: &Open, failures: Arc<Failures>) -> Line {
        Line {
            session: session.name(),
            client: session.peer,
            ticket: session.ticket().map(str::to_owned),
            holder: holder_of(session),
            address: session.peer_address(),
            transfer: Some(open.transfer.0),
            direction: Some(match open.direction() {
                Direction::Push => PUSH,
                Direction::Pull => PULL,
            }),
            kind: match &open.request {
                Request::Frames { .. } => FRAMES,
                Request::FlowPush { .. } | Request::FlowPull { .. } => STREAM,
                Request::Push(_) | Request::Pull(_) if open.is_trial() => PROBE,
                Request::Push(_) | Request::Pull(_) if open.terms.dry_run => DRY_RUN,
                Request::Push(_) | Request::Pull(_) => FILES,
            },
            place: shown(open.places()),
            whole: Digest::default(),
            is_open: Arc::default(),
            began: Instant::now(),
            failures,
            count: None,
        }
    }

    /// Of a question about what is in files. Of others, which only look, there is no line: `None`.
    pub fn of_question(session: &Session, question: &Question, failures: Arc<Failures>) -> Option<Line> {
        let (kind, place) = match question {
            Question::Read { place, .. } => ("read", place),
            Question::Digest { place, .. } => ("digest", place),
            Question::Remove { place, .. } => ("remove", place),
            _ => return None,
        };
        Some(Line {
            session: session.name(),
            client: session.peer,
            ticket: session.ticket().map(str::to_owned),
            holder: holder_of(session),
            address: session.peer_address(),
            transfer: None,
            direction: None,
            kind,
            place: published::shown(place),
            whole: whole(place),
            is_open: Arc::default(),
            began: Instant::now(),
            failures,
            count: None,
        })
    }

    /// It is over: by the totals, or failed with so much done. `root`: the one that we stated, if we did, also if
    /// nothing came of it here: the peer may have made a receipt of it.
    pub fn end(&self, ended: &Result<Totals>, root: Option<Digest>, by_then: Done) {
        let (done, ended) = match ended {
            Ok(totals) => (Done { removed: by_then.removed, ..Done::from(*totals) }, Ok(())),
            Err(failure) => (by_then, Err(failure)),
        };
        if let Some(count) = &self.count {
            let known = done.known(by_then, self.direction, self.kind);
            count.end(&outcome_of(ended), &self.moved(known));
        }
        self.tell_of(self.began.elapsed(), done, (ended, root), None);
    }

    /// It was done, with this root if it has one, or failed.
    pub fn tell(&self, done: Done, ended: std::result::Result<Option<Digest>, &Failure>) {
        let root = ended.ok().flatten();
        self.tell_of(self.began.elapsed(), done, (ended.map(drop), root), None);
    }

    /// `first`: of what failed of something that was done all the same.
    fn tell_of(
        &self,
        time: Duration,
        done: Done,
        (ended, root): (std::result::Result<(), &Failure>, Option<Digest>),
        first: Option<&Failure>,
    ) {
        let (moved, outcome) = (self.moved(done), outcome_of(ended));
        if let Some(count) = &self.count {
            count.end(&outcome, &moved);
        }
        if ended.is_err() && self.is_left_out(&done, root) {
            return;
        }
        let failure = ended.err().or(first).map(|failure| cut(failure.to_string()));
        let how = if ended.is_ok() { DONE } else { "failed" };
        let what = if self.direction.is_some() { "transfer" } else { "request" };
        let if_any = |count: u64| (count > 0).then_some(count);
        let seconds = (time.as_secs_f64() * 1e3).round() / 1e3;
        tracing::info!(
            session = %self.session,
            client = %self.client,
            ticket = self.ticket.as_deref(),
            address = self.address.map(tracing::field::display),
            transfer = self.transfer,
            direction = self.direction,
            kind = self.kind,
            place = self.place.as_str(),
            entries = done.entries,
            failed = done.failed,
            unchanged = if_any(done.unchanged),
            skipped = if_any(done.skipped),
            deleted = if_any(moved.deleted),
            removed = if_any(moved.removed),
            bytes = moved.bytes,
            seconds,
            outcome = outcome.as_str(),
            failure = failure.as_deref(),
            root = root.map(tracing::field::display),
            "{what} {how}"
        );
    }

    /// Of one that failed: whether it came to nothing, as too many others of late.
    fn is_left_out(&self, done: &Done, root: Option<Digest>) -> bool {
        let is_unchanged = done.deleted == 0 && done.removed == 0;
        let nothing_done = done.bytes == 0 && is_unchanged && done.entries.unwrap_or(0) == 0;
        let is_open = self.is_open.load(Ordering::Acquire);
        !is_open && root.is_none() && nothing_done && !self.failures.may_tell(self.source(), Instant::now())
    }
}

/// What tells a place from all others, however alike they are shown.
fn whole(place: &Place) -> Digest {
    let export = place.export.as_deref().unwrap_or_default().as_bytes();
    let mut bytes = vec![u8::from(place.export.is_some())];
    bytes.extend((export.len() as u64).to_le_bytes());
    bytes.extend(export);
    bytes.extend(&place.path);
    digest::of_piece(0, &bytes, bytes.len() as u64)
}

/// How it ended, in a word.
pub(crate) fn outcome_of(ended: std::result::Result<(), &Failure>) -> String {
    ended.map_or_else(|failure| failure.kind.word(), |()| DONE.to_owned())
}

/// The first place stands for all: a line has an end.
fn shown(places: &[Place]) -> String {
    let first = places.first().map(published::shown).unwrap_or_default();
    match places.len() {
        0 | 1 => first,
        many => format!("{first} and {} more", many - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::failures::FAILURES_A_MINUTE;
    use super::*;
    use thalweg_mover::failure::FailureKind;

    pub(super) fn at(path: &str) -> Place {
        Place { export: None, path: path.as_bytes().to_vec() }
    }

    pub(super) fn line_of(kind: &'static str, place: String) -> Line {
        Line {
            session: String::new(),
            client: Fingerprint([0; 32]),
            ticket: None,
            holder: None,
            address: None,
            transfer: None,
            direction: None,
            kind,
            whole: whole(&at(&place)),
            place,
            is_open: Arc::default(),
            began: Instant::now(),
            failures: Arc::default(),
            count: None,
        }
    }

    #[test]
    fn whatever_a_client_names_is_inert_and_short() {
        let place =
            |export: &str, path: &[u8]| Place { export: Some(export.to_owned()), path: path.to_vec() };
        let places = [place("da\nta", b"a\n\x1b[31m\xff"), place("data", b"b"), place("data", b"c")];
        assert_eq!(shown(&places[1..2]), "data/b");
        assert_eq!(shown(&places), "da\\x0ata/a\\x0a\\x1b[31m\\xff and 2 more");
        assert_eq!(shown(&[Place { export: None, path: b"/home/x".to_vec() }]), "/home/x");
        assert_eq!(shown(&[]), "");
    }

    #[test]
    fn whatever_is_long_is_cut() {
        let place = |export: usize, path: usize| Place {
            export: Some("\u{1}".repeat(export)),
            path: "\u{1}".repeat(path).into_bytes(),
        };
        for long in [place(2 << 20, 5), place(255, 512 << 10), place(1, 1023)] {
            let shown = shown(&[long]);
            assert!(shown.len() <= published::SHOWN_BYTES_MAX + 3 && shown.ends_with('…'), "{}", shown.len());
        }
        let words = Failure::new(FailureKind::Io, "read", "ä".repeat(4096));
        assert!(cut(words.to_string()).len() <= published::SHOWN_BYTES_MAX + 3);
        assert_eq!(cut("short".to_owned()), "short");
    }

    #[test]
    fn of_what_goes_metrics_count_no_more_than_was_seen_whatever_its_receiver_says() {
        let metrics = Metrics::new();
        let said = Totals { done: u64::MAX, failed: 9, bytes_done: u64::MAX, ..Totals::default() };
        let counted = |direction| {
            let line = Line { direction: Some(direction), ..line_of(FILES, "data/a".to_owned()) };
            let line = line.counted(&metrics, Some("data".to_owned()));
            line.end(&Ok(said), None, Done { damaged: 1, ..Done::by_then(2, 5) });
            let moved = metrics.moved("data", direction);
            (moved.bytes, moved.entries, moved.failed, moved.damaged)
        };
        assert_eq!(counted(PULL), (5, 2, 2, 1));
        // Of what comes they are our own. Their bytes have in them what a file there was found to have.
        assert_eq!(counted(PUSH), (5, u64::MAX, 9, 1));
    }

    /// Else a client would only have to fail often enough before it fails behind what it did.
    #[test]
    fn whatever_did_something_or_was_stated_is_told_behind_any_number_of_failures() {
        let line = line_of("files", "data/a".to_owned());
        let nothing = Done { entries: Some(0), failed: 3, ..Done::default() };
        let told = (0..10_000).filter(|_| !line.is_left_out(&nothing, None)).count();
        assert_eq!(told as u32, FAILURES_A_MINUTE);
        assert!(line.is_left_out(&Done::default(), None));
        let some = [
            Done::by_then(0, 1),
            Done::by_then(1, 0),
            Done { bytes: 1, ..Done::default() },
            Done { deleted: 1, ..Done::default() },
            Done { removed: 1, ..Done::default() },
        ];
        assert!(some.iter().all(|done| !line.is_left_out(done, None)));
        assert!(!line.is_left_out(&nothing, Some(Digest::default())));
        // What is told to begin is told to end, whichever clone sees it.
        let seen = line.clone();
        line.opened();
        assert!(!seen.is_left_out(&nothing, None));
    }
}
