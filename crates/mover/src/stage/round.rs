//! What makes written bytes durable and gives them their names: two threads for a transfer.
//!
//! 1. Sync what was written.
//! 2. Read it back, if asked.
//! 3. Record chunks, sync the record. In between, copy what the destination has already, throw away what failed, and
//!    write the catalogue.
//! 4. Give complete entries their names: by a thread of its own, for a disk that syncs leaves the CPU idle; by several
//!    where the destination says so.
//!
//! The receiver machine says when and in which order; these threads only do it.

use crate::endpoint::{Destination, ELSEWHERE_MAX, Listing, PartialFile, Ready, SourceFile, Staged};
use crate::failure::{self, Failure, FailureKind, Result};
use crate::several::at_once;
use crate::stage::read::{ChunkReader, Segment};
use crate::stage::read_back::read_back;
use crate::stage::receiving::{OpenPartial, Receiving};
use crate::stage::{Stage, Stopwatch};
use crate::transfer::receiver::{Finished, Named, RoundResult, RoundStep};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError};
use thalweg_wire::message::{Outcome, Run};
use thalweg_wire::{Digest, Entry, EntryId, RelativePath, digest};

/// Work for one of the threads.
pub enum Job {
    /// A step of a round.
    Step(RoundStep),
    /// Give these entries their names; if so, those that are not better given with the next round.
    Finish(Vec<(EntryId, Digest)>, bool),
    /// Copy a chunk from the file that stands at the destination, if it has this digest.
    Copy(Arc<Entry>, u64, Digest),
    /// Look whether the file that stands there has a hole here.
    CompareHoles(Arc<Entry>, Run),
    /// Throw away what was written for an entry.
    Discard(Ready),
    /// The source has this name and does not send it.
    Skipped(RelativePath),
    /// Entries are settled and durable: note them in the catalogue.
    Settled(Vec<(Arc<Entry>, Outcome)>),
    /// Everything is settled, of a source that was listed like this.
    Conclude(Listing),
    /// No more work.
    Stop,
}

/// Does jobs until it is told to stop; waits for them in `stage`.
pub fn work(run: &dyn Receiving, jobs: &Receiver<Job>, stage: Stage) {
    run.accounts().enter(stage);
    let mut watch = Stopwatch::start(run.accounts());
    while let Ok(job) = next_job(jobs, &mut watch, stage) {
        run.accounts().taken(stage);
        match job {
            Job::Finish(entries, may_wait) => {
                let results = finish(run, &entries, may_wait);
                // Their number is booked when they are settled.
                watch.lap_many(Stage::Finish, 0, 0);
                run.finished(results);
            }
            Job::Step(step) => {
                let result = do_step(run, &step, &mut watch);
                run.round_done(result);
            }
            // There may be one for each entry under way, and who closes the transfer waits for all of them.
            Job::Copy(..) | Job::CompareHoles(..) if run.is_given_up() => {}
            Job::Copy(entry, chunk, digest) => copy_existing(run, &entry, chunk, digest, &mut watch),
            Job::CompareHoles(entry, holes) => {
                let is_hole = run.is_undecided(entry.id) && has_hole(run, &entry, holes).unwrap_or(false);
                run.holes_compared(entry.id, is_hole);
            }
            Job::Discard(ready) => run.destination().discard(ready),
            Job::Settled(entries) => {
                for (entry, outcome) in &entries {
                    run.destination().settled(entry, outcome);
                    watch.quick(Stage::Finish, 0);
                }
                run.noted(entries.len());
            }
            Job::Skipped(path) => run.destination().skipped(&path),
            Job::Stop => return,
            Job::Conclude(listing) => {
                let conclusion = run.destination().conclude(listing, &|| run.concludes());
                watch.lap(Stage::Conclude, 0);
                run.concluded(conclusion);
            }
        }
    }
}

/// The next job, the wait for it booked. The CPU clock is read only where there is a wait.
pub(crate) fn next_job<T>(
    jobs: &Receiver<T>,
    watch: &mut Stopwatch,
    stage: Stage,
) -> std::result::Result<T, RecvError> {
    if let Ok(job) = jobs.try_recv() {
        return Ok(job);
    }
    watch.close(stage);
    let job = jobs.recv();
    watch.idle(stage);
    job
}

fn do_step(run: &dyn Receiving, step: &RoundStep, watch: &mut Stopwatch) -> RoundResult {
    let done = |result: Result<()>| match result {
        Ok(()) => RoundResult::Done,
        Err(failure) => RoundResult::Failed(failure),
    };
    match step {
        RoundStep::Sync { partials, .. } => {
            let partials: Vec<_> = partials.iter().filter_map(|&id| run.partial(id)).collect();
            let files: Vec<Arc<dyn PartialFile>> = partials.iter().map(|file| file.partial.clone()).collect();
            let result = run.destination().sync(&files);
            watch.lap(Stage::Sync, 0);
            done(result)
        }
        RoundStep::ReadBack { chunks, files } => {
            let result = read_back(run, chunks, files);
            watch.lap(Stage::ReadBack, result.as_ref().map_or(0, |found| found.bytes));
            match result {
                Ok(found) => RoundResult::Damaged(found.damaged),
                Err(failure) => RoundResult::Failed(failure),
            }
        }
        RoundStep::Record(chunks) => {
            let chunks: Vec<(u64, Vec<(u64, Digest)>)> = chunks
                .iter()
                .filter_map(|(id, chunks)| Some((run.partial(*id)?.partial.number(), chunks.clone())))
                .collect();
            let result = run.destination().record(&chunks);
            watch.lap(Stage::Record, 0);
            done(result)
        }
    }
}

fn finish(run: &dyn Receiving, entries: &[(EntryId, Digest)], may_wait: bool) -> Finished {
    let finish = |id: EntryId, digest| {
        if may_wait && run.is_worth_waiting(id) {
            return Ok(Named::Later);
        }
        // Of a file that is one hole nothing came that would have begun it.
        run.begin_if_hole(id, digest)?;
        match (run.entry(id), run.take_content(id)) {
            (Some(entry), Some(ready)) => {
                let losses =
                    run.destination().finish(&entry, ready, digest).map_err(|f| f.at(&entry.path))?;
                Ok(Named::Now(losses))
            }
            _ => Err(Failure::new(FailureKind::Internal, "finish", "its content is gone")),
        }
    };
    at_once("names", run.destination().finishes_at_once(), entries, |&(id, digest)| (id, finish(id, digest)))
}

/// A file that may have the content of an entry: the one that stands there, or one of those of other names; `None`
/// behind the last.
pub(super) fn may_have(
    destination: &dyn Destination,
    entry: &Entry,
    number: usize,
) -> Option<Result<Arc<dyn SourceFile>>> {
    destination.elsewhere(entry, number).or_else(|| (number == 0).then(|| destination.existing(entry)))
}

/// Copies a chunk of the file that stands there into the partial. All of it is read and digested before anything is
/// written: memory for a chunk. Nothing is read for one that is not wanted any more.
fn copy_existing(run: &dyn Receiving, entry: &Arc<Entry>, chunk: u64, digest: Digest, watch: &mut Stopwatch) {
    if !run.is_copy_wanted(entry.id, chunk) {
        return;
    }
    let terms = run.terms();
    let (mut content, mut zeros, mut segments) = (Vec::new(), Vec::new(), Vec::new());
    let mut read = |file: Arc<dyn SourceFile>| -> Result<Digest> {
        content.clear();
        zeros.clear();
        segments.clear();
        let mut reader = ChunkReader::new(file, entry, chunk, terms);
        let mut buffer = vec![0; terms.segment_bytes as usize];
        while let Some(offset) = reader.next_offset() {
            match reader.read(&mut buffer)? {
                Segment::Data(bytes) => {
                    segments.extend(reader.rule.segment(offset, &buffer[..bytes]));
                    content.push((offset, buffer[..bytes].to_vec()));
                }
                // A partial is made of zeros.
                Segment::Zeros(bytes) => {
                    segments.extend(reader.rule.zeros(offset, bytes));
                    zeros.push((offset, bytes));
                }
            }
        }
        Ok(reader.join(&segments))
    };
    let is_same = (0..ELSEWHERE_MAX)
        .map_while(|number| may_have(run.destination(), entry, number))
        .any(|file| file.and_then(&mut read).is_ok_and(|found| found == digest));
    // The piece counts when it is written.
    watch.lap_many(Stage::Copy, 0, 0);
    if !is_same {
        run.copied(entry.id, chunk, false);
        return;
    }
    // An error has been told; without it, it is not wanted any more.
    let Ok(Some(file)) = run.open_partial(entry.id) else { return };
    let written = content.into_iter().map(|(offset, bytes): (u64, Vec<u8>)| {
        (offset, bytes.len() as u64, file.partial.write_at(&bytes, offset))
    });
    let left =
        zeros.into_iter().map(|(offset, bytes)| (offset, bytes, file.partial.leave_zeros(bytes, offset)));
    for (offset, bytes, result) in written.chain(left) {
        if let Err(error) = result {
            let end = offset + bytes;
            let failure = failure::of_io("write", &error).at(&entry.path).in_range(offset, end);
            run.write_failed(entry.id, failure);
            return;
        }
    }
    watch.lap(Stage::Copy, digest::chunk_length(chunk, entry.evidence.size, terms.chunk_bytes));
    run.copied(entry.id, chunk, true);
}

fn has_hole(run: &dyn Receiving, entry: &Entry, holes: Run) -> Result<bool> {
    let of_io = |error| failure::of_io("read", &error).at(&entry.path);
    let chunk_bytes = run.terms().chunk_bytes;
    let start = holes.first * chunk_bytes;
    let data = run.destination().existing(entry)?.next_data(start).map_err(of_io)?;
    Ok(data.is_none_or(|data| data >= start + holes.count * chunk_bytes))
}

/// Where the content of an entry waits for its name.
pub enum HeldContent {
    /// In a partial.
    Partial(OpenPartial),
    /// Staged as a whole.
    Staged(Arc<Entry>, Staged),
}

impl HeldContent {
    /// For `Destination::finish` and `Destination::discard`.
    pub fn ready(self) -> Ready {
        match self {
            HeldContent::Partial(file) => Ready::Partial(file.partial),
            HeldContent::Staged(_, staged) => Ready::Staged(staged),
        }
    }
}
