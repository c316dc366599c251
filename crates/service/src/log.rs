//! The log's two lines of each transfer: who, from where, what, when it begins; and when it is over also how much of
//! it, and how it ended. Of what is read, digested or removed outside transfers there is the second alone: of reading
//! one for each file, in however many pieces; of digesting one for each session, in however many questions.
//!
//! What a client chose (names, its words in failures) is escaped and stands as a text of its own: a line is one line,
//! and nobody but us writes its fields, and it is short: names and failures are cut. What comes to nothing again and
//! again is told a bounded number of times a minute; whatever was opened or done, each time. Not here: what each entry
//! became, which the client's report has.

use crate::accept::source_of;
use crate::metrics::{Count, Labels, Metrics};
use crate::published::{self, cut};
use crate::tickets::holder_of;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use thalweg_mover::basin::Evidence;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_mover::mutex::lock;
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
    /// That it began is told, or never will be.
    has_begun: bool,
    began: Instant,
    failures: Arc<Failures>,
    /// What metrics have of it.
    count: Option<Arc<Count>>,
}

/// Transfers and requests that came to nothing and are told in a minute, of one address, whatever tickets they came
/// with. Who has more of them hears of each; here they are counted.
const FAILURES_A_MINUTE: u32 = 256;
const MINUTE: Duration = Duration::from_secs(60);

/// What came to nothing of late, by where it was asked from (`None`: no internet socket): a client that asks in vain as
/// fast as it can does not fill the log, in however many sessions.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<Option<IpAddr>, Failed>>);

#[derive(Debug)]
struct Failed {
    since: Instant,
    told: u32,
    left_out: u64,
}

impl Failures {
    /// Whether one more of theirs may be told, and counts it.
    fn may_tell(&self, source: Option<IpAddr>, now: Instant) -> bool {
        let mut all = lock(&self.0);
        let failed = all.entry(source).or_insert(Failed { since: now, told: 0, left_out: 0 });
        if failed.told < FAILURES_A_MINUTE {
            failed.told += 1;
            return true;
        }
        failed.left_out += 1;
        false
    }

    /// Whether one more of theirs would be told: where not, that something begins is told when it is opened.
    fn has_room(&self, source: Option<IpAddr>) -> bool {
        lock(&self.0).get(&source).is_none_or(|failed| failed.told < FAILURES_A_MINUTE)
    }

    /// Tells how many were left out of those whose minute is over. Call it a few times a minute.
    pub fn tidy(&self, now: Instant) {
        lock(&self.0).retain(|source, failed| {
            let is_over = now.saturating_duration_since(failed.since) >= MINUTE;
            if is_over && failed.left_out > 0 {
                tracing::warn!(
                    address = source.map(tracing::field::display),
                    left_out = failed.left_out,
                    "failures of one minute were not told"
                );
            }
            !is_over
        });
    }
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
    /// It begins now, and that is told: a daemon that is killed meanwhile has no other line of it. Where too
    /// much came to nothing of late, it is told when it [is opened](Line::opened).
    pub fn begin(session: &Session, open: &Open, failures: Arc<Failures>) -> Line {
        let mut line = Line::of_open(session, open, failures);
        line.has_begun = line.failures.has_room(line.source());
        if line.has_begun {
            line.tell_begin();
        }
        line
    }

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

    /// It is opened: from now on something may be done. To be called once, before anybody sees it to its end.
    pub fn opened(&self) {
        if !self.has_begun {
            self.tell_begin();
        }
    }

    fn tell_begin(&self) {
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

    fn of_open(session: &Session, open: &Open, failures: Arc<Failures>) -> Line {
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
            has_begun: false,
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
            has_begun: true,
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
        root.is_none() && nothing_done && !self.failures.may_tell(self.source(), Instant::now())
    }
}

/// Files that a session reads outside transfers and that are told at its end; of more the one that was unused longest
/// is told at once.
const READ_MAX: usize = 1024;
/// All their places together: a client may name long ones.
const READ_PLACE_BYTES_MAX: usize = 1 << 20;

/// What a session reads outside transfers. A file comes in many pieces, each a question of its own; the line of it is
/// told when the session is over. That it cannot be read is told at once. What it has digested is one line, told then
/// as well: a verification asks for each file.
#[derive(Debug, Default)]
pub(crate) struct Reads(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The one that was read last is the last.
    files: VecDeque<Read>,
    /// The failure that was told last: where, and of which kind.
    failed: Option<(Digest, FailureKind)>,
    digests: Option<Digests>,
}

#[derive(Debug)]
struct Read {
    line: Line,
    bytes: u64,
    /// From the first piece to the end of the last.
    time: Duration,
}

/// What was digested, in however many questions.
#[derive(Debug)]
struct Digests {
    /// Of the first question; its place is the one that all others are at or below.
    line: Line,
    /// A question that could not be answered is an entry that failed.
    done: Done,
    /// Of the first of these.
    failure: Option<Failure>,
    /// Whether any question was answered.
    is_answered: bool,
    /// From the first question to the end of the last.
    time: Duration,
}

impl Reads {
    /// A piece was read.
    pub fn count(&self, line: Line, bytes: u64) {
        let mut kept = self.lock();
        let files = &mut kept.files;
        let known = files.iter().position(|read| read.line.whole == line.whole);
        if let Some(mut read) = known.and_then(|at| files.remove(at)) {
            read.bytes = read.bytes.saturating_add(bytes);
            read.time = read.line.began.elapsed();
            files.push_back(read);
            return;
        }
        let mut place_bytes = line.place.len();
        place_bytes += files.iter().map(|read| read.line.place.len()).sum::<usize>();
        while files.len() >= READ_MAX || place_bytes > READ_PLACE_BYTES_MAX {
            let Some(oldest) = files.pop_front() else { break };
            place_bytes -= oldest.line.place.len();
            oldest.tell();
        }
        let time = line.began.elapsed();
        files.push_back(Read { line, bytes, time });
    }

    /// A piece could not be read. A client that asks for several before it hears of the first has one line.
    pub fn fail(&self, line: &Line, done: Done, failure: &Failure) {
        if self.remember_failure(line.whole, failure.kind) {
            line.tell(done, Err(failure));
        }
    }

    /// Takes the failure for the one that was told last. Whether that was another.
    fn remember_failure(&self, whole: Digest, kind: FailureKind) -> bool {
        self.lock().failed.replace((whole, kind)) != Some((whole, kind))
    }

    /// A question about digests is over, and failed if there is a failure.
    pub fn count_digests(&self, line: Line, done: Done, failure: Option<&Failure>) {
        let seconds = line.began.elapsed().as_secs_f64();
        let text = failure.map(|failure| cut(failure.to_string()));
        tracing::debug!(
            session = %line.session,
            client = %line.client,
            ticket = line.ticket.as_deref(),
            address = line.address.map(tracing::field::display),
            place = line.place.as_str(),
            entries = done.entries,
            failed = done.failed,
            bytes = done.bytes,
            seconds,
            failure = text.as_deref(),
            "digests asked for"
        );
        let mut kept = self.lock();
        let digests = kept.digests.take();
        kept.digests = Some(Digests::and(digests, line, done, failure));
    }

    /// The session is over.
    pub fn tell(&self) {
        let mut kept = self.lock();
        kept.files.drain(..).for_each(|read| read.tell());
        if let Some(digests) = kept.digests.take() {
            let Digests { line, done, failure, is_answered, time } = digests;
            let first = failure.as_ref();
            let ended = first.filter(|_| !is_answered).map_or(Ok(()), Err);
            line.tell_of(time, done, (ended, None), first);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.0)
    }
}

/// Of a client that is gone without a goodbye.
impl Drop for Reads {
    fn drop(&mut self) {
        self.tell();
    }
}

impl Read {
    fn tell(&self) {
        let done = Done::by_then(1, self.bytes);
        self.line.tell_of(self.time, done, (Ok(()), None), None);
    }
}

impl Digests {
    /// With one more question.
    fn and(so_far: Option<Digests>, line: Line, mut done: Done, failure: Option<&Failure>) -> Digests {
        done.failed += u64::from(failure.is_some());
        let is_answered = failure.is_none();
        let Some(so_far) = so_far else {
            let time = line.began.elapsed();
            return Digests { line, done, failure: failure.cloned(), is_answered, time };
        };
        let entries = match (so_far.done.entries, done.entries) {
            (None, None) => None,
            (before, more) => Some(before.unwrap_or(0) + more.unwrap_or(0)),
        };
        let done = Done {
            entries,
            failed: so_far.done.failed + done.failed,
            bytes: so_far.done.bytes.saturating_add(done.bytes),
            ..Done::default()
        };
        let time = so_far.line.began.elapsed();
        let place = shared(&so_far.line.place, &line.place);
        let failure = so_far.failure.or_else(|| failure.cloned());
        let is_answered = so_far.is_answered || is_answered;
        Digests { line: Line { place, ..so_far.line }, done, failure, is_answered, time }
    }
}

/// The place that both are at or below; `/` of two that have nothing in common.
fn shared(one: &str, other: &str) -> String {
    let parts = one.split('/').zip(other.split('/')).take_while(|(one, other)| one == other);
    let parts: Vec<&str> = parts.map(|(part, _)| part).collect();
    match parts.join("/") {
        none if none.is_empty() => "/".to_owned(),
        place => place,
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
    use super::*;

    fn at(path: &str) -> Place {
        Place { export: None, path: path.as_bytes().to_vec() }
    }

    fn line_of(kind: &'static str, place: String) -> Line {
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
            has_begun: true,
            began: Instant::now(),
            failures: Arc::default(),
            count: None,
        }
    }

    #[test]
    fn the_pieces_of_a_file_are_one_line_and_no_more_files_are_kept_than_are_bounded() {
        let reads = Reads::default();
        let line = |place: String| line_of("read", place);
        for bytes in [5, 0, 7] {
            reads.count(line("data/a".to_owned()), bytes);
        }
        let kept = || -> Vec<(String, u64)> {
            reads.lock().files.iter().map(|read| (read.line.place.clone(), read.bytes)).collect()
        };
        assert_eq!(kept(), [("data/a".to_owned(), 12)]);
        (0..READ_MAX).for_each(|number| reads.count(line(format!("data/{number}")), 1));
        assert_eq!((kept().len(), kept()[0].clone()), (READ_MAX, ("data/0".to_owned(), 1)));
        // What is still read stays.
        reads.count(line("data/0".to_owned()), 1);
        reads.count(line("data/a".to_owned()), 3);
        let files = kept();
        assert_eq!((files.len(), files[0].clone()), (READ_MAX, ("data/2".to_owned(), 1)));
        assert_eq!(files[READ_MAX - 2..], [("data/0".to_owned(), 2), ("data/a".to_owned(), 3)]);
        // Long names leave room for few.
        let long = "n".repeat(READ_PLACE_BYTES_MAX);
        reads.count(line(long.clone()), 1);
        assert_eq!(kept(), [(long, 1)]);
        reads.tell();
        assert!(kept().is_empty());
    }

    #[test]
    fn pieces_of_a_file_that_fail_the_same_way_are_one_line() {
        let reads = Reads::default();
        let is_another = |path: &str, kind| reads.remember_failure(whole(&at(path)), kind);
        assert!(is_another("data/a", FailureKind::NotFound));
        assert!(!is_another("data/a", FailureKind::NotFound));
        assert!(is_another("data/a", FailureKind::Permission));
        assert!(is_another("data/b", FailureKind::Permission));
    }

    #[test]
    fn files_whose_names_are_cut_alike_have_a_line_each() {
        let (reads, long) = (Reads::default(), "n".repeat(2 * published::SHOWN_BYTES_MAX));
        let [one, other] = ["a", "b"].map(|end| at(&format!("{long}{end}")));
        assert_eq!(published::shown(&one), published::shown(&other));
        let line = |place: &Place| Line { whole: whole(place), ..line_of("read", published::shown(place)) };
        for place in [&one, &other, &one] {
            reads.count(line(place), 1);
        }
        let bytes: Vec<u64> = reads.lock().files.iter().map(|read| read.bytes).collect();
        assert_eq!(bytes, [1, 2]);
        assert!(reads.remember_failure(line(&one).whole, FailureKind::NotFound));
        assert!(reads.remember_failure(line(&other).whole, FailureKind::NotFound));
        // Nor is it of any matter where the name of the export ends.
        let of = |export: &str, path: &str| whole(&Place { export: Some(export.to_owned()), ..at(path) });
        assert!(of("a", "bc") != of("ab", "c") && of("", "a") != whole(&at("a")));
    }

    #[test]
    fn all_that_a_session_has_digested_is_one_line() {
        let reads = Reads::default();
        let missing = Failure::new(FailureKind::NotFound, "digest", "no such file");
        let ask = |place: &str, done: Done, failure: Option<&Failure>| {
            reads.count_digests(line_of("digest", place.to_owned()), done, failure);
            let kept = reads.lock();
            let digests = kept.digests.as_ref().unwrap();
            let Done { entries, failed, bytes, .. } = digests.done;
            let has_reason = digests.failure.as_ref() == Some(&missing);
            (digests.line.place.clone(), (entries, failed, bytes), (has_reason, digests.is_answered))
        };
        let of = |place: &str, counts: (Option<u64>, u64, u64), is_answered: bool| {
            (place.to_owned(), counts, (true, is_answered))
        };
        let alone = ask("data/run/a", Done::default(), Some(&missing));
        assert_eq!(alone, of("data/run/a", (None, 1, 0), false));
        // One that is answered does not take the reason of what failed with it, nor does another that fails.
        let answered = ask("data/run/b", Done::by_then(1, 5), None);
        assert_eq!(answered, of("data/run", (Some(1), 1, 5), true));
        let denied = Failure::new(FailureKind::Permission, "digest", "denied");
        let failed = ask("data/run/deep/c", Done::default(), Some(&denied));
        assert_eq!(failed, of("data/run", (Some(1), 2, 5), true));
        let tree = ask("data/other", Done { failed: 1, ..Done::by_then(3, 7) }, None);
        assert_eq!(tree, of("data", (Some(4), 3, 12), true));
        reads.tell();
        assert!(reads.lock().digests.is_none());
        assert_eq!([shared("data/a", "data/a"), shared("data/a", "shut/a")], ["data/a", "/"]);
        assert_eq!([shared("/home/x", "/home/y"), shared("/a", "/b")], ["/home", "/"]);
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
    fn what_fails_as_fast_as_it_can_be_asked_for_is_told_a_bounded_number_of_times() {
        let (failures, now) = (Failures::default(), Instant::now());
        let told = |source: Option<IpAddr>, times: u32| {
            (0..times).filter(|_| failures.may_tell(source, now)).count() as u32
        };
        // In another session with another ticket, and from another address.
        let from = |last: u8, (session, client): (&str, u8)| {
            let address = Some(SocketAddr::from(([10, 0, 0, last], 1000 + u16::from(last))));
            let (session, client) = (session.to_owned(), Fingerprint([client; 32]));
            Line { address, session, client, ..line_of("read", "data/a".to_owned()) }.source()
        };
        let (one, again, other) = (from(1, ("one", 1)), from(1, ("again", 2)), from(2, ("one", 1)));
        assert_eq!(told(one, 10_000), FAILURES_A_MINUTE);
        assert!(!failures.has_room(again) && failures.has_room(other));
        assert_eq!((told(again, 3), told(other, 3)), (0, 3));
        // Those without an address are one as well, and nobody else.
        let nowhere = line_of("read", "data/a".to_owned()).source();
        assert_eq!((nowhere, told(nowhere, 10_000)), (None, FAILURES_A_MINUTE));
        failures.tidy(now + MINUTE / 2);
        assert!(!failures.has_room(one));
        failures.tidy(now + MINUTE);
        assert_eq!(told(one, 10_000), FAILURES_A_MINUTE);
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
    }
}
