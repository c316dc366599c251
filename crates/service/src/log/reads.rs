//! What a session reads and digests outside transfers, in few lines.

use super::{Done, Line};
use crate::published::cut;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use thalweg_mover::failure::{Failure, FailureKind};
use thalweg_mover::mutex::lock;
use thalweg_wire::Digest;

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
    /// The session is over: what comes to its end now is told at once.
    is_over: bool,
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
        kept.tell_if_over();
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
        kept.tell_if_over();
    }

    /// The session is over.
    pub fn tell(&self) {
        let mut kept = self.lock();
        kept.is_over = true;
        kept.tell();
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

impl Kept {
    fn tell(&mut self) {
        self.files.drain(..).for_each(|read| read.tell());
        if let Some(digests) = self.digests.take() {
            let Digests { line, done, failure, is_answered, time } = digests;
            let first = failure.as_ref();
            let ended = first.filter(|_| !is_answered).map_or(Ok(()), Err);
            line.tell_of(time, done, (ended, None), first);
        }
    }

    fn tell_if_over(&mut self) {
        if self.is_over {
            self.tell();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::{at, line_of};
    use crate::log::whole;
    use crate::published;
    use thalweg_wire::message::Place;

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

    /// A daemon that ends may not be there any more when all that asked is gone.
    #[test]
    fn what_is_over_behind_the_end_of_its_session_is_told_at_once() {
        let reads = Reads::default();
        let is_told = || reads.lock().files.is_empty() && reads.lock().digests.is_none();
        let end = |at: &str| {
            reads.count(line_of("read", at.to_owned()), 1);
            reads.count_digests(line_of("digest", at.to_owned()), Done::default(), None);
        };
        end("data/a");
        assert!(!is_told());
        reads.tell();
        assert!(is_told());
        end("data/a");
        assert!(is_told());
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
}
