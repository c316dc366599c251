//! Answers to questions that need no data stream: list, look, read, digest, remove.
//!
//! Answers come in pieces, each as bounded as a message is, and no faster than the client takes them: memory here
//! does not grow with a tree or a file.

use crate::export::Resolved;
use crate::log::{Done, Line, Reads, of_session};
use crate::sessions::{Host, Origin};
use crate::slots::{self, Asker};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::survey::{self, DigestAs, Digested, Found, Listed, Removed, SurveyPlace};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::measure::{self, Measure};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::session::Session;
use thalweg_sys::clock::unix_seconds;
use thalweg_wire::message::{Errand, MeasureTerms, Message, Part, PartOf, Place, Question, Reply, SlotAsk};
use thalweg_wire::{Digest, Entry, Evidence, RelativePath, limits};

/// Answers a question, piece by piece. `reads`: what the session has read and digested so far. `free`: gives back the
/// number and the room of the question, before its end is said: who hears the end may ask anew under the same number at
/// once.
pub(crate) fn answer(
    host: &Host,
    session: &Arc<Session>,
    (number, question): (u32, Question),
    room: &Room,
    reads: &Reads,
    crew: &Crew,
    free: impl FnOnce(),
) {
    let pen = Pen { session, epoch: session.epoch(), number, room };
    let line = Line::of_question(session, &question, host.failures.clone());
    let line = line.map(|line| line.counted(&host.metrics, None));
    // A daemon that ends waits until it stands in the log what was done.
    let work = line.is_some().then(|| host.work.clone());
    let is_read = matches!(question, Question::Read { .. });
    let is_digest = matches!(question, Question::Digest { .. });
    let is_further = matches!(question, Question::Read { offset: 1.., .. });
    let mut done = Done::default();
    let may_ask = host.exports().check_question(&question);
    let may_ask = may_ask.and_then(|()| host.check_guest_question(session, &question));
    let ended = may_ask.and_then(|()| match question {
        Question::About => {
            let program = format!("thalweg {}", env!("CARGO_PKG_VERSION"));
            let exports = host.exports_of(session).map(|exports| exports.names());
            exports.and_then(|exports| pen.say(Reply::About { program, exports }))
        }
        Question::List { place, recursive, follow_links, after } => {
            let place = surveyed(host, &pen, &place, follow_links);
            place.and_then(|place| list(&pen, &place, recursive, after.as_ref()))
        }
        Question::Look { place, follow } => look(host, &pen, &place, follow),
        Question::Read { place, offset, bytes, seen } => {
            read(host, &pen, &place, (offset, bytes), seen, &mut done)
        }
        Question::Digest { place, chunk_bytes, follow_links, after, part } => {
            DigestAs::of_question(chunk_bytes).and_then(|how| {
                let place = surveyed(host, &pen, &place, follow_links)?;
                digest(&pen, &place, (how, &crew.take(pen.epoch)), (after.as_ref(), part), &mut done)
            })
        }
        Question::Remove { place, recursive } => remove(host, &pen, &place, recursive, &mut done),
        Question::Channel { place } => {
            let status = host.channel_status(session, &place);
            status.and_then(|status| pen.say(Reply::Channel(Box::new(status))))
        }
        Question::Measure { place, part, millis, threads, terms } => {
            let time = Duration::from_millis(u64::from(millis));
            measure_part(host, &pen, &place, (part, terms), time, threads)
        }
        Question::Slot(ask) => slot(host, &pen, ask),
        Question::ErrandTo { address } => {
            // Who comes in no more is told nothing of whom it may reach.
            host.exports_of(session).and_then(|_| host.check_errand_to(&address))
        }
        Question::Vouch(vouch) => {
            let at = i64::try_from(unix_seconds()).unwrap_or(i64::MAX);
            host.vouch(session, vouch).and_then(|()| pen.say(Reply::Vouched { at }))
        }
        Question::Errand(errand) => run_errand(host, &pen, *errand),
    });
    // Who has seen enough has read what came.
    let is_well = ended.as_ref().err().is_none_or(|failure| failure.kind == FailureKind::Stopped);
    match line {
        // Asked ahead, beyond the end of the file.
        Some(_) if is_further && is_well && done.bytes == 0 => {}
        Some(line) if is_read && is_well => reads.count(line, done.bytes),
        Some(line) if is_digest => {
            reads.count_digests(line, done, ended.as_ref().err().filter(|_| !is_well));
        }
        Some(line) => match &ended {
            Err(failure) if is_read => reads.fail(&line, done, failure),
            ended => line.tell(done, ended.as_ref().map(|()| None)),
        },
        None => {}
    }
    drop(work);
    if let Err(failure) = pen.end(ended.err(), free) {
        of_session!(debug, session, %failure, "an answer was not finished");
    }
}

fn list(pen: &Pen<'_>, place: &SurveyPlace, recursive: bool, after: Option<&RelativePath>) -> Result<()> {
    let mut batch: Vec<Entry> = Vec::new();
    let mut batch_bytes = 0;
    survey::list_behind(place, recursive, after, &mut |listed| match listed {
        Listed::Found(Found::Entry(entry)) => {
            batch_bytes += entry.heap_bytes() + ITEM_BYTES;
            batch.push(entry);
            if batch.len() < BATCH_ITEMS && batch_bytes < BATCH_BYTES {
                return Ok(());
            }
            batch_bytes = 0;
            pen.say(Reply::Entries(std::mem::take(&mut batch)))
        }
        Listed::Found(Found::Trouble(failure)) => pen.say(Reply::Trouble(failure)),
        Listed::Unordered(directory) => {
            batch_bytes = 0;
            if !batch.is_empty() {
                pen.say(Reply::Entries(std::mem::take(&mut batch)))?;
            }
            pen.say(Reply::Unordered(directory))
        }
    })?;
    if batch.is_empty() { Ok(()) } else { pen.say(Reply::Entries(batch)) }
}

fn look(host: &Host, pen: &Pen<'_>, place: &Place, follow: bool) -> Result<()> {
    let entry = survey::look(&resolve(host, pen, place)?, follow)?;
    pen.say(Reply::Entries(vec![entry]))
}

fn read(
    host: &Host,
    pen: &Pen<'_>,
    place: &Place,
    (offset, bytes): (u64, u64),
    seen: Option<Evidence>,
    done: &mut Done,
) -> Result<()> {
    let place = resolve(host, pen, place)?;
    survey::read(&place, offset, bytes, seen, &mut |piece| {
        pen.say(Reply::Bytes(piece.to_vec()))?;
        done.bytes += piece.len() as u64;
        Ok(())
    })
}

fn digest(
    pen: &Pen<'_>,
    place: &SurveyPlace,
    (how, hands): (DigestAs, &Hands<'_>),
    chosen: (Option<&RelativePath>, Option<PartOf>),
    done: &mut Done,
) -> Result<()> {
    let mut batch: Vec<(RelativePath, u64, Digest)> = Vec::new();
    let mut batch_bytes = 0;
    let mut told = Instant::now();
    survey::digest_behind(place, how, hands.count(), chosen, &mut |digested| {
        match digested {
            Digested::File(path, bytes, digest) => {
                done.count_one(bytes);
                batch_bytes += path.as_bytes().len() + ITEM_BYTES;
                batch.push((path, bytes, digest));
            }
            Digested::Trouble(failure) => {
                done.failed += 1;
                pen.say(Reply::Trouble(failure))?;
            }
            Digested::Unordered(directory) => {
                batch_bytes = 0;
                if !batch.is_empty() {
                    pen.say(Reply::Digests(std::mem::take(&mut batch)))?;
                }
                pen.say(Reply::Unordered(directory))?;
            }
            Digested::Alive => {}
        }
        // Nothing more is read once nobody hears of it.
        pen.heard()?;
        let is_full = batch.len() >= BATCH_ITEMS || batch_bytes >= BATCH_BYTES;
        if !is_full && told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        told = Instant::now();
        batch_bytes = 0;
        // Empty, it says that we are alive.
        pen.say(Reply::Digests(std::mem::take(&mut batch)))
    })?;
    if batch.is_empty() { Ok(()) } else { pen.say(Reply::Digests(batch)) }
}

fn remove(host: &Host, pen: &Pen<'_>, place: &Place, recursive: bool, done: &mut Done) -> Result<()> {
    let place = host.exports_of(pen.session)?.resolve(place, true)?;
    place.check_delete("remove")?;
    let is_as_directory = place.trailing_slash && !place.path.is_empty();
    let mut place = survey_place(place);
    if is_as_directory && !place.path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        // An export's path comes without; by it an empty directory goes alone.
        place.path.as_mut_os_string().push("/");
    }
    let mut count = 0;
    let mut told = Instant::now();
    survey::remove(&place, recursive, &mut |removed| {
        match removed {
            Removed::One => {
                count += 1;
                done.count_one(0);
            }
            Removed::Trouble(failure) => {
                done.failed += 1;
                pen.say(Reply::Trouble(failure))?;
            }
        }
        // Nothing more goes once nobody hears of it.
        pen.heard()?;
        if told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        told = Instant::now();
        pen.say(Reply::Removed(count))
    })?;
    pen.say(Reply::Removed(count))
}

fn measure_part(
    host: &Host,
    pen: &Pen<'_>,
    place: &Place,
    (part, terms): (Part, MeasureTerms),
    time: Duration,
    threads: u16,
) -> Result<()> {
    let resolved = host.exports_of(pen.session)?.resolve(place, part == Part::Write)?;
    let kept = match part {
        Part::Write => resolved.kept_free(measure::WRITE_BYTES_MIN)?,
        Part::Read | Part::Digest | Part::Seal | Part::Open => None,
    };
    let _alone = match host.measuring.try_lock() {
        Ok(alone) => alone,
        // One that panicked measures no more.
        Err(TryLockError::Poisoned(left)) => left.into_inner(),
        Err(TryLockError::WouldBlock) => {
            let cause = "another client has this server measure itself: try again in some seconds";
            return Err(Failure::new(FailureKind::Busy, "measure", cause));
        }
    };
    let asked = Measure {
        part,
        path: PathBuf::from(std::ffi::OsString::from_vec(resolved.path)),
        contents: resolved.trailing_slash,
        below: resolved.below,
        bytes_max: kept.map_or(u64::MAX, |kept| kept.spare()),
        time,
        threads,
        cipher: pen.session.cipher,
        terms,
    };
    let measured = measure::measure(asked, &|| !pen.has_link())?;
    pen.say(Reply::Measured(measured))
}

fn slot(host: &Host, pen: &Pen<'_>, ask: SlotAsk) -> Result<()> {
    let slots = host.slots.as_ref().ok_or_else(slots::none)?;
    if matches!(ask, SlotAsk::Take { .. }) {
        // Nothing is begun with a ticket that is not taken any more.
        host.exports_of(pen.session)?;
    }
    let asker = Asker { origin: Origin::of_session(pen.session), session: &pen.session.id };
    let answer = slots.answer(asker, ask, Instant::now())?;
    // Who has none now has little under way before the first window opens.
    host.narrow_beside_slots();
    answer.map_or(Ok(()), |reply| pen.say(reply))
}

fn run_errand(host: &Host, pen: &Pen<'_>, errand: Errand) -> Result<()> {
    let say = |told| pen.say(Reply::Errand(Box::new(told)));
    host.run_errand(pen.session, errand, &say, &|| pen.has_link() && pen.room.is_wanted())
}

fn resolve(host: &Host, pen: &Pen<'_>, place: &Place) -> Result<SurveyPlace> {
    host.exports_of(pen.session)?.resolve(place, false).map(survey_place)
}

fn surveyed(host: &Host, pen: &Pen<'_>, place: &Place, follow_links: bool) -> Result<SurveyPlace> {
    Ok(SurveyPlace { follow_links, ..resolve(host, pen, place)? })
}

fn survey_place(resolved: Resolved) -> SurveyPlace {
    let path = PathBuf::from(std::ffi::OsString::from_vec(resolved.path));
    SurveyPlace { path, below: resolved.below, follow_links: false }
}

/// Items and bytes in one piece of an answer: well below what a message may hold.
const BATCH_ITEMS: usize = 512;
/// See [`BATCH_ITEMS`].
const BATCH_BYTES: usize = 256 << 10;
/// What an item costs beside its path.
const ITEM_BYTES: usize = 128;
/// Between two signs of life.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Bytes that may wait for the client before the answer waits too: far below what ends the connection.
const QUEUE_BYTES_PACED: usize = 4 << 20;
/// A client whose connection takes nothing for so long does not get the rest. Ours: it cannot raise it.
const PACE_TIMEOUT: Duration = Duration::from_secs(60);

/// A client that takes nothing of its answer for so long, though its connection lives, does not get the rest. Long:
/// somebody may be reading it page by page.
const TAKE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Between two looks whether the client is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The pieces of an answer that its client has room for.
pub struct Room {
    /// `None`: the client does not want the rest.
    pieces: Mutex<Option<u32>>,
    changed: Condvar,
}

impl Room {
    /// As much as a client has that took nothing yet.
    pub fn new() -> Room {
        Room { pieces: Mutex::new(Some(limits::REPLIES_AHEAD_MAX)), changed: Condvar::new() }
    }

    /// The client took so many pieces.
    pub fn taken(&self, pieces: u32) {
        if let Some(room) = &mut *self.lock() {
            *room = room.saturating_add(pieces).min(limits::REPLIES_AHEAD_MAX);
        }
        self.changed.notify_all();
    }

    /// The client does not want the rest.
    pub fn enough(&self) {
        *self.lock() = None;
        self.changed.notify_all();
    }

    /// Whether the client wants the rest.
    pub fn is_wanted(&self) -> bool {
        self.lock().is_some()
    }

    /// Takes room for one piece, and waits for it as long as it `has_link`.
    fn take(&self, has_link: impl Fn() -> bool) -> Result<()> {
        let until = Instant::now() + TAKE_TIMEOUT;
        let mut pieces = self.lock();
        loop {
            if !has_link() {
                return Err(not_taken());
            }
            match &mut *pieces {
                None => return Err(Failure::new(FailureKind::Stopped, "answer", "the rest is not wanted")),
                Some(0) => {}
                Some(room) => {
                    *room -= 1;
                    return Ok(());
                }
            }
            if Instant::now() >= until {
                return Err(not_taken());
            }
            pieces = self
                .changed
                .wait_timeout(pieces, LOOK_AGAIN)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<u32>> {
        lock(&self.pieces)
    }
}

/// Those of a session that digest several files at a time: for one question, whatever others there are meanwhile. They
/// have one each, as who asks for single files asks for many at once. An answer whose link is gone has them no more,
/// though it does not know that yet: the rest of it is asked for on another.
#[derive(Default)]
pub struct Crew {
    /// One more than the link of the question that has them; 0: none has.
    holder: AtomicU64,
}

impl Crew {
    /// For a question of the link of this [`Session::epoch`].
    fn take(&self, epoch: u64) -> Hands<'_> {
        let holder = epoch + 1;
        let is_free = |held: u64| (held < holder).then_some(holder);
        let taken = self.holder.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_free);
        Hands { of: taken.is_ok().then_some((self, holder)) }
    }
}

/// Who digests for one question.
struct Hands<'a> {
    /// With what it holds them by; `None`: the one that answers it.
    of: Option<(&'a Crew, u64)>,
}

impl Hands<'_> {
    fn count(&self) -> usize {
        if self.of.is_some() { survey::WORKERS } else { 1 }
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        if let Some((crew, holder)) = self.of {
            // Another link's question may have them by now.
            let _ = crew.holder.compare_exchange(holder, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

fn not_taken() -> Failure {
    Failure::new(FailureKind::Connection, "answer", "the client does not take its answer")
}

/// Says pieces of one answer, no faster than the client takes them, to the link on which it began: with that some may
/// be lost, and the client hears no others.
struct Pen<'a> {
    session: &'a Arc<Session>,
    epoch: u64,
    number: u32,
    room: &'a Room,
}

impl Pen<'_> {
    fn say(&self, reply: Reply) -> Result<()> {
        self.room.take(|| self.has_link())?;
        self.send(reply)
    }

    /// Whether the link on which it began stands.
    fn has_link(&self) -> bool {
        !self.session.is_closed() && self.session.epoch() == self.epoch
    }

    /// Whether anybody hears what is said.
    ///
    /// # Errors
    /// `Connection` if the link on which it began is gone.
    fn heard(&self) -> Result<()> {
        if self.has_link() { Ok(()) } else { Err(not_taken()) }
    }

    /// A client always has room for the end. What waits here for its connection still counts as a question.
    fn end(&self, why: Option<Failure>, free: impl FnOnce()) -> Result<()> {
        let paced = self.keep_pace();
        free();
        paced?;
        self.session.say_in(self.epoch, Message::Reply { number: self.number, reply: Reply::End(why) })
    }

    fn send(&self, reply: Reply) -> Result<()> {
        self.keep_pace()?;
        self.session.say_in(self.epoch, Message::Reply { number: self.number, reply })
    }

    /// Waits until the connection has taken most of what was said.
    fn keep_pace(&self) -> Result<()> {
        let until = Instant::now() + PACE_TIMEOUT;
        let mut pause = Duration::from_millis(1);
        while self.session.queued_bytes() > QUEUE_BYTES_PACED {
            if Instant::now() >= until || !self.has_link() {
                return Err(not_taken());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Export, Exports};
    use crate::sessions::HostLimits;
    use crate::sessions::tests::cut_off;
    use crate::tickets::{self, Record, Tickets};
    use thalweg_mover::link::{Fingerprint, Identity};
    use thalweg_wire::message::{Disk, Rhythm, SlotWish};

    #[test]
    fn a_slot_is_not_given_to_a_ticket_that_is_not_taken_any_more() {
        let state = tempfile::tempdir().unwrap();
        let limits = HostLimits { slots_bits_per_s: Some(1_000_000_000), ..HostLimits::default() };
        let identity = Identity::generate("server").unwrap();
        let host = Host::new(identity, Exports::open(Vec::new()).unwrap(), None, limits);
        let session = cut_off(&host, 1);
        let mut record = Record::of("a", session.peer, 1);
        record.expires_at = Some(2);
        tickets::add(state.path(), &record).unwrap();
        host.heed(Tickets::new(state.path(), Fingerprint([0; 32])));
        let room = Room::new();
        let pen = Pen { session: &session, epoch: session.epoch(), number: 1, room: &room };
        let wish = SlotWish {
            rhythm: Rhythm::Bursts { period_micros: 1_000_000, bytes: 1_000_000 },
            deadline_micros: 1_000_000,
            ready_ago_micros: 0,
            guard_micros: 0,
        };
        let refused = slot(&host, &pen, SlotAsk::Take { wish, instead: None }).unwrap_err();
        assert!(refused.cause.contains("`a` expired on"), "{refused}");
    }

    #[test]
    fn nothing_more_is_removed_once_nobody_hears_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let old = scratch.path().join("old");
        std::fs::create_dir(&old).unwrap();
        ["a", "b", "c"].iter().for_each(|name| std::fs::write(old.join(name), "content").unwrap());
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_path_buf())]).unwrap();
        let host = Host::new(Identity::generate("server").unwrap(), exports, None, HostLimits::default());
        let (session, room) = (cut_off(&host, 1), Room::new());
        let pen = Pen { session: &session, epoch: session.epoch(), number: 1, room: &room };
        session.close(None);
        let place = Place { export: Some("data".to_owned()), path: b"old".to_vec() };
        let mut done = Done::default();
        let failure = remove(&host, &pen, &place, true, &mut done).unwrap_err();
        assert_eq!((failure.kind, done.entries), (FailureKind::Connection, Some(1)), "{failure}");
        assert_eq!(std::fs::read_dir(&old).unwrap().count(), 2);
    }

    #[test]
    fn a_measurement_that_panicked_keeps_nobody_from_the_next() {
        let scratch = tempfile::tempdir().unwrap();
        let export = Export::of("data", scratch.path().to_path_buf());
        let (identity, exports) =
            (Identity::generate("server").unwrap(), Exports::open(vec![export]).unwrap());
        let host = Host::new(identity, exports, None, HostLimits::default());
        let (session, room) = (cut_off(&host, 1), Room::new());
        let pen = Pen { session: &session, epoch: session.epoch(), number: 1, room: &room };
        let place = Place { export: Some("data".to_owned()), path: Vec::new() };
        let terms = MeasureTerms { chunk_bytes: 1 << 20, segment_bytes: 1 << 16, disk: Disk::default() };
        let kind = || {
            let ended = measure_part(&host, &pen, &place, (Part::Digest, terms), Duration::from_millis(1), 1);
            ended.err().map(|failure| failure.kind)
        };
        let panics = host.clone();
        let measures = std::thread::spawn(move || {
            let _alone = panics.measuring.lock();
            panic!("as the test wants it");
        });
        assert!(measures.join().is_err());
        // It is measured, and there is no link to say that on.
        assert_eq!(kind(), Some(FailureKind::Connection));
        let alone = lock(&host.measuring);
        assert_eq!(kind(), Some(FailureKind::Busy));
        drop(alone);
    }

    /// Else the rest of an answer would go on over another link, behind a gap that nobody sees.
    #[test]
    fn an_answer_whose_link_is_gone_takes_no_room_though_there_is_some() {
        let room = Room::new();
        room.take(|| true).unwrap();
        assert_eq!(room.take(|| false).unwrap_err().kind, FailureKind::Connection);
    }

    #[test]
    fn one_question_of_a_session_digests_several_files_at_a_time_and_another_when_it_is_over() {
        let crew = Crew::default();
        let (first, second) = (crew.take(1), crew.take(1));
        assert_eq!((first.count(), second.count()), (survey::WORKERS, 1));
        // It never had what it would give back.
        drop(second);
        assert_eq!(crew.take(1).count(), 1);
        drop(first);
        assert_eq!(crew.take(1).count(), survey::WORKERS);
    }

    #[test]
    fn the_rest_of_an_answer_is_digested_as_fast_as_its_beginning_though_that_is_not_over() {
        let crew = Crew::default();
        let before = crew.take(1);
        let rest = crew.take(3);
        assert_eq!(rest.count(), survey::WORKERS);
        // One of the link that is gone takes them from nobody, nor does its end.
        assert_eq!(crew.take(1).count(), 1);
        drop(before);
        assert_eq!(crew.take(3).count(), 1);
        drop(rest);
        assert_eq!(crew.take(3).count(), survey::WORKERS);
    }
}
