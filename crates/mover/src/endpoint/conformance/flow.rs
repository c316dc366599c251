//! What every [`FlowDestination`] and [`FlowFile`] keeps.

use super::{Missing, each, noise};
use crate::endpoint::flow_destination::{FlowDestination, FlowFile, Standing};
use crate::failure::{Failure, FailureKind};
use std::cell::RefCell;
use thalweg_wire::message::{FlowBegin, Origin};
use thalweg_wire::{Digest, EntryId, RelativePath};

/// A place for the one flow of the suite, [`NAME`].
pub(super) trait FlowBed {
    /// A transfer to there begins; another one may follow it.
    fn open(&self) -> Box<dyn FlowDestination>;

    /// What arrived, once the transfer is closed.
    fn content(&self) -> Vec<u8>;

    /// How much is there that is not the flow. Only for [`KEPT`].
    fn hidden(&self) -> usize;

    /// A directory takes the name of the flow. Only for [`KEPT`].
    fn block(&self);

    /// Who takes the bytes ends; false where nobody does.
    fn consumer_ends(&self) -> bool;
}

/// Name of the flow.
pub(super) const NAME: &str = "run";

type Check = fn(&dyn FlowBed);

pub(super) const ARRIVES: &str = "what is written in order arrives";

/// Of every destination of flows.
pub(super) const PROMISES: &[(&str, Check)] = &[
    ("a flow of which nothing is there begins at nothing", a_flow_begins_at_nothing),
    (ARRIVES, what_is_written_arrives),
    ("a sync, a mark and an end of nothing are no failure", nothing_is_no_failure),
    ("who writes for a program that is gone is stopped", a_consumer_that_is_gone_stops_the_flow),
];

/// Of those where a second attempt goes on.
pub(super) const KEPT: &[(&str, Check)] = &[
    ("the next attempt goes on behind what was noted", the_next_attempt_goes_on_behind_its_mark),
    ("what was complete is over for the next attempt", what_was_complete_is_over),
    ("while what is there is read it is told, and stays if that is stopped", reading_is_told_and_may_end),
    ("what is not complete is told to the next attempt, until it is given up", what_is_left_is_told),
    ("of one that is written nothing else is opened", one_at_a_time_writes),
    ("something else in the way is a conflict", something_in_the_way_is_a_conflict),
    ("after success nothing hidden stays, after failure what was noted", what_is_hidden_goes_after_success),
];

/// Checks these promises, each with a bed of its own.
pub(super) fn check(
    promises: &[(&'static str, Check)],
    missing: &Missing,
    bed: &dyn Fn() -> Box<dyn FlowBed>,
) {
    each(promises, missing, |check| check(&*bed()));
}

/// Less than a pipe holds: nobody reads before the end.
const BYTES: usize = 4000;
/// What the first of two attempts notes.
const MARK: usize = 1501;

fn begin() -> FlowBegin {
    let path = RelativePath::new(NAME.as_bytes().to_vec()).unwrap();
    FlowBegin { flow: EntryId(0), path, origin: Origin([3; 16]), mode: 0o644, is_certain: false }
}

fn stands(to: &dyn FlowDestination) -> Standing {
    to.open(&begin(), &|_, _| true).unwrap()
}

/// Why the flow is not opened.
fn not_opened(to: &dyn FlowDestination) -> Failure {
    to.open(&begin(), &|_, _| true).err().expect("it is refused")
}

fn digest_of(content: &[u8]) -> Digest {
    Digest(*blake3::hash(content).as_bytes())
}

/// Writes what follows on the first bytes, in pieces of odd lengths.
fn write(file: &dyn FlowFile, content: &[u8], mut at: usize) {
    for length in [1, 4095, 4096, 77].into_iter().cycle() {
        let end = (at + length).min(content.len());
        if at == end {
            return;
        }
        file.write(&content[at..end], at as u64).unwrap();
        at = end;
    }
}

/// Makes all of it durable, and notes that.
fn mark(to: &dyn FlowDestination, standing: &Standing, content: &[u8]) {
    standing.file.sync().unwrap();
    to.record(&[(standing.number, content.len() as u64, digest_of(content))]).unwrap();
}

/// The first attempt: [`MARK`] bytes are noted, more are written. All of the flow.
fn half_way(bed: &dyn FlowBed) -> Vec<u8> {
    let content = noise(BYTES, 1);
    let to = bed.open();
    let standing = stands(&*to);
    write(&*standing.file, &content[..MARK], 0);
    mark(&*to, &standing, &content[..MARK]);
    standing.file.write(&noise(3000, 2), MARK as u64).unwrap();
    drop(standing);
    to.close(false);
    content
}

fn a_flow_begins_at_nothing(bed: &dyn FlowBed) {
    let to = bed.open();
    let standing = stands(&*to);
    assert_eq!((standing.bytes, standing.is_over), (0, false));
    assert_eq!((standing.digest, standing.hasher.finalize()), (digest_of(b""), blake3::hash(b"")));
    assert_eq!((standing.name, standing.renamed), (None, None));
    to.close(false);
}

fn what_is_written_arrives(bed: &dyn FlowBed) {
    let (to, content) = (bed.open(), noise(BYTES, 1));
    let standing = stands(&*to);
    write(&*standing.file, &content[..MARK], 0);
    mark(&*to, &standing, &content[..MARK]);
    write(&*standing.file, &content, MARK);
    mark(&*to, &standing, &content);
    standing.file.complete(BYTES as u64).unwrap();
    drop(standing);
    to.close(true);
    assert!(bed.content() == content);
}

fn nothing_is_no_failure(bed: &dyn FlowBed) {
    let to = bed.open();
    to.record(&[]).unwrap();
    let standing = stands(&*to);
    mark(&*to, &standing, b"");
    standing.file.complete(0).unwrap();
    drop(standing);
    to.close(true);
}

fn a_consumer_that_is_gone_stops_the_flow(bed: &dyn FlowBed) {
    let to = bed.open();
    assert_eq!(to.is_consumer(), bed.consumer_ends());
    if to.is_consumer() {
        let failure = stands(&*to).file.write(b"more", 0).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Stopped, "{failure}");
    }
    to.close(false);
}

fn the_next_attempt_goes_on_behind_its_mark(bed: &dyn FlowBed) {
    let content = half_way(bed);
    let to = bed.open();
    let mut standing = stands(&*to);
    assert_eq!((standing.bytes, standing.is_ours, standing.is_over), (MARK as u64, true, false));
    assert_eq!(standing.digest, digest_of(&content[..MARK]));
    // What hashed it goes on.
    standing.hasher.update(&content[MARK..]);
    assert_eq!(standing.hasher.finalize(), blake3::hash(&content));
    write(&*standing.file, &content, MARK);
    mark(&*to, &standing, &content);
    standing.file.complete(BYTES as u64).unwrap();
    drop(standing);
    to.close(true);
    assert!(bed.content() == content);
}

fn what_was_complete_is_over(bed: &dyn FlowBed) {
    let (to, content) = (bed.open(), noise(BYTES, 1));
    let standing = stands(&*to);
    write(&*standing.file, &content, 0);
    mark(&*to, &standing, &content);
    standing.file.complete(BYTES as u64).unwrap();
    drop(standing);
    to.close(false);
    drop(to);
    let to = bed.open();
    let standing = stands(&*to);
    assert_eq!((standing.bytes, standing.is_ours, standing.is_over), (BYTES as u64, true, true));
    assert_eq!(standing.digest, digest_of(&content));
    drop(standing);
    to.close(true);
    assert!(bed.content() == content);
}

fn reading_is_told_and_may_end(bed: &dyn FlowBed) {
    half_way(bed);
    let to = bed.open();
    assert_eq!(to.open(&begin(), &|_, _| false).err().expect("it is stopped").kind, FailureKind::Stopped);
    let told = RefCell::new(Vec::new());
    let standing = to.open(&begin(), &|done, of| {
        told.borrow_mut().push((done, of));
        true
    });
    assert_eq!(standing.unwrap().bytes, MARK as u64);
    let told = told.into_inner();
    assert!(!told.is_empty() && told.iter().all(|&(done, of)| done <= of && of == MARK as u64), "{told:?}");
    to.close(false);
}

fn what_is_left_is_told(bed: &dyn FlowBed) {
    half_way(bed);
    let to = bed.open();
    let (left, more) = to.left();
    assert_eq!((left.len(), more), (1, 0));
    assert_eq!((&left[0].path, left[0].origin, left[0].bytes), (&begin().path, begin().origin, MARK as u64));
    to.given_up(&begin());
    to.close(false);
    drop(to);
    let to = bed.open();
    assert_eq!(to.left(), (Vec::new(), 0));
    to.close(false);
}

fn one_at_a_time_writes(bed: &dyn FlowBed) {
    let to = bed.open();
    let standing = stands(&*to);
    standing.file.write(b"some", 0).unwrap();
    assert_eq!(not_opened(&*to).kind, FailureKind::Busy);
    drop(standing);
    stands(&*to);
    to.close(false);
}

fn something_in_the_way_is_a_conflict(bed: &dyn FlowBed) {
    bed.block();
    let to = bed.open();
    assert_eq!(not_opened(&*to).kind, FailureKind::Conflict);
    to.close(false);
}

fn what_is_hidden_goes_after_success(bed: &dyn FlowBed) {
    let content = half_way(bed);
    assert!(bed.hidden() > 0);
    let to = bed.open();
    let standing = stands(&*to);
    write(&*standing.file, &content, MARK);
    mark(&*to, &standing, &content);
    standing.file.complete(BYTES as u64).unwrap();
    drop(standing);
    to.close(true);
    drop(to);
    assert_eq!(bed.hidden(), 0);
}
