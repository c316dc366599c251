//! Answers to questions that need no data stream: list, read, digest, remove.
//!
//! Answers come in pieces, each as bounded as a message is, and no faster than the client takes them: memory here
//! does not grow with a tree or a file.

use crate::host::Host;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::survey::{self, DigestAs, Digested, Found, Removed, SurveyPlace};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::run::session::Session;
use thalweg_wire::message::{Message, Place, Question, Reply};
use thalweg_wire::{Digest, Entry, RelativePath};

/// Answers `question`, piece by piece.
pub fn answer(host: &Host, session: &Arc<Session>, number: u32, question: Question) {
    let pen = Pen { session, number };
    let ended = match question {
        Question::About => {
            let program = format!("thalweg {}", env!("CARGO_PKG_VERSION"));
            pen.say(Reply::About { program, exports: host.exports.names() })
        }
        Question::List { place, recursive } => list(host, &pen, &place, recursive),
        Question::Read { place, offset, bytes } => read(host, &pen, &place, offset, bytes),
        Question::Digest { place, chunk_bytes } => digest(host, &pen, &place, chunk_bytes),
        Question::Remove { place, recursive } => remove(host, &pen, &place, recursive),
    };
    if let Err(failure) = pen.say(Reply::End(ended.err())) {
        tracing::debug!(%failure, "an answer was not finished");
    }
}

fn list(host: &Host, pen: &Pen<'_>, place: &Place, recursive: bool) -> Result<()> {
    let place = resolve(host, place, false)?;
    let mut batch: Vec<Entry> = Vec::new();
    let mut batch_bytes = 0;
    survey::list(&place, recursive, &mut |found| match found {
        Found::Entry(entry) => {
            batch_bytes += entry.heap_bytes() + ITEM_BYTES;
            batch.push(entry);
            if batch.len() < BATCH_ITEMS && batch_bytes < BATCH_BYTES {
                return Ok(());
            }
            batch_bytes = 0;
            pen.say(Reply::Entries(std::mem::take(&mut batch)))
        }
        Found::Trouble(failure) => pen.say(Reply::Trouble(failure)),
    })?;
    if batch.is_empty() { Ok(()) } else { pen.say(Reply::Entries(batch)) }
}

fn read(host: &Host, pen: &Pen<'_>, place: &Place, offset: u64, bytes: u64) -> Result<()> {
    let place = resolve(host, place, false)?;
    survey::read(&place, offset, bytes, &mut |piece| pen.say(Reply::Bytes(piece.to_vec())))
}

fn digest(host: &Host, pen: &Pen<'_>, place: &Place, segment_bytes: u64) -> Result<()> {
    let how = DigestAs::of_question(segment_bytes)?;
    let place = resolve(host, place, false)?;
    let mut batch: Vec<(RelativePath, u64, Digest)> = Vec::new();
    let mut batch_bytes = 0;
    let mut told = Instant::now();
    survey::digest(&place, how, &mut |digested| {
        match digested {
            Digested::File(path, bytes, digest) => {
                batch_bytes += path.as_bytes().len() + ITEM_BYTES;
                batch.push((path, bytes, digest));
            }
            Digested::Trouble(failure) => pen.say(Reply::Trouble(failure))?,
            Digested::Alive => {}
        }
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

fn remove(host: &Host, pen: &Pen<'_>, place: &Place, recursive: bool) -> Result<()> {
    let place = resolve(host, place, true)?;
    let mut count = 0;
    let mut told = Instant::now();
    survey::remove(&place, recursive, &mut |removed| {
        match removed {
            Removed::One => count += 1,
            Removed::Trouble(failure) => pen.say(Reply::Trouble(failure))?,
        }
        if told.elapsed() < TELL_EVERY {
            return Ok(());
        }
        told = Instant::now();
        pen.say(Reply::Removed(count))
    })?;
    pen.say(Reply::Removed(count))
}

fn resolve(host: &Host, place: &Place, write: bool) -> Result<SurveyPlace> {
    let resolved = host.exports.resolve(place, write)?;
    let path = PathBuf::from(std::ffi::OsString::from_vec(resolved.path));
    Ok(SurveyPlace { path, below: resolved.below })
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
/// A client that does not take its answer for so long does not get the rest. Ours: it cannot raise it.
const PACE_TIMEOUT: Duration = Duration::from_secs(60);

/// Says pieces of one answer, no faster than the client takes them.
struct Pen<'a> {
    session: &'a Arc<Session>,
    number: u32,
}

impl Pen<'_> {
    fn say(&self, reply: Reply) -> Result<()> {
        let until = Instant::now() + PACE_TIMEOUT;
        let mut pause = Duration::from_millis(1);
        while self.session.queued_bytes() > QUEUE_BYTES_PACED {
            if Instant::now() >= until || self.session.is_closed() {
                return Err(Failure::new(
                    FailureKind::Connection,
                    "answer",
                    "the client does not take its answer",
                ));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
        self.session.say(Message::Reply { number: self.number, reply })
    }
}
