//! What every [`Feed`] keeps towards its [`Taker`], for one flow that is complete by itself.

use super::{Missing, each};
use crate::endpoint::feed::{Feed, Pushed, Taker, Wanted};
use crate::failure::{Failure, FailureKind, Result};
use crate::mutex::lock;
use crate::retry::Again;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_wire::message::{FlowLeft, FlowMark, Origin};
use thalweg_wire::{Digest, EntryId, RelativePath};

/// Something of which there is a feed.
pub(super) trait FeedBed {
    /// Reads it from its beginning.
    fn feed(&self) -> Box<dyn Feed>;

    /// All that the flow has; at least [`BEGUN`] and some more.
    fn content(&self) -> Vec<u8>;

    /// Whether it is a pipe.
    fn is_pipe(&self) -> bool;
}

/// What the destination has where it has something.
const BEGUN: usize = 1501;

/// A feed that does not come to its end has failed by then.
const LIMIT: Duration = Duration::from_secs(60);

/// The flow, by the number that it gets.
const FLOW: EntryId = EntryId(7);

type Check = fn(&dyn FeedBed);

/// Of every feed.
pub(super) const PROMISES: &[(&str, Check)] = &[
    ("each byte comes once and in order, and then the end", each_byte_comes_once),
    ("nothing comes before it is known where the flow goes on", nothing_comes_before_it_is_known),
    ("what was not taken comes again", what_was_not_taken_comes_again),
    (
        "the flow goes on behind what the destination has, once that was compared",
        it_goes_on_behind_what_is_there,
    ),
    ("what does not begin as the destination has it does not go on there", another_beginning_is_a_conflict),
    ("nothing comes when the transfer is over", nothing_comes_when_it_is_over),
    ("a pipe says that it is one", a_pipe_says_so),
];

/// Checks these promises, each with a bed of its own.
pub(super) fn check(
    promises: &[(&'static str, Check)],
    missing: &Missing,
    bed: &dyn Fn() -> Box<dyn FeedBed>,
) {
    each(promises, missing, |check| check(&*bed()));
}

/// Where the destination is with the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has not said yet where the flow goes on. Not before it is asked so often.
    Asked(u32),
    /// It has something, and asks for the same.
    Rewinding,
    Open,
    Ended,
}

/// A destination in memory, and what it saw.
struct Far {
    phase: Phase,
    content: Vec<u8>,
    /// Of what it has from the beginning.
    digest: Digest,
    wanted: Vec<Wanted>,
    begun: u32,
    is_last: bool,
    is_over: bool,
    /// The transfer is over when it has so many bytes.
    over_at: Option<usize>,
    /// So many pieces are not taken yet.
    refusals: u32,
    /// Why the flow does not go on.
    refused: Option<Failure>,
    /// What a feed must not do.
    wrong: Vec<String>,
}

struct Listener {
    far: Mutex<Far>,
    since: Instant,
}

impl Listener {
    /// It has these bytes.
    fn new(content: &[u8], phase: Phase) -> Listener {
        let far = Far {
            phase,
            content: content.to_vec(),
            digest: digest_of(content),
            wanted: Vec::new(),
            begun: 0,
            is_last: false,
            is_over: false,
            over_at: None,
            refusals: 0,
            refused: None,
            wrong: Vec::new(),
        };
        Listener { far: Mutex::new(far), since: Instant::now() }
    }

    /// What it saw, when the feed has ended.
    fn hear(self, feed: Box<dyn Feed>) -> Far {
        feed.run(&self);
        let far = self.far.into_inner().unwrap();
        assert!(far.wrong.is_empty(), "{:?}", far.wrong);
        assert!(self.since.elapsed() < LIMIT, "it did not end: {:?}", far.phase);
        far
    }
}

fn digest_of(content: &[u8]) -> Digest {
    Digest(*blake3::hash(content).as_bytes())
}

impl Far {
    fn let_go(&mut self, failure: Option<Failure>) {
        self.phase = Phase::Ended;
        self.wanted.push(Wanted::LetGo { flow: FLOW, failure });
    }
}

impl Taker for Listener {
    fn left(&self, _: Duration) -> Option<(Vec<FlowLeft>, u64)> {
        Some((Vec::new(), 0))
    }

    fn begin(&self, _: RelativePath, _: (Origin, bool), _: u32) -> Result<EntryId> {
        let mut far = lock(&self.far);
        far.begun += 1;
        if far.phase == Phase::Rewinding {
            let at = FlowMark { flow: FLOW, bytes: far.content.len() as u64, digest: far.digest };
            far.wanted.push(Wanted::Rewind { at, is_ours: false, is_over: false });
        }
        Ok(FLOW)
    }

    fn has_room(&self) -> bool {
        true
    }

    fn position(&self, _: EntryId) -> Option<u64> {
        let far = lock(&self.far);
        (far.phase == Phase::Open).then_some(far.content.len() as u64)
    }

    fn digest(&self, _: EntryId) -> Option<Digest> {
        Some(digest_of(&lock(&self.far).content))
    }

    fn push(&self, _: EntryId, offset: u64, bytes: &[u8]) -> Pushed {
        let mut far = lock(&self.far);
        if far.is_over {
            return Pushed::Over;
        }
        if far.phase != Phase::Open || offset != far.content.len() as u64 {
            let wrong =
                format!("{} bytes at {offset}, {:?} at {}", bytes.len(), far.phase, far.content.len());
            far.wrong.push(wrong);
            far.is_over = true;
            return Pushed::Over;
        }
        if far.refusals > 0 {
            far.refusals -= 1;
            far.phase = Phase::Asked(1);
            return Pushed::Elsewhere;
        }
        far.content.extend_from_slice(bytes);
        far.is_over = far.over_at.is_some_and(|most| far.content.len() >= most);
        if far.is_over { Pushed::Over } else { Pushed::Taken }
    }

    fn end(&self, _: EntryId) {
        let mut far = lock(&self.far);
        if far.phase != Phase::Open {
            let wrong = format!("an end, {:?}", far.phase);
            far.wrong.push(wrong);
        }
        far.let_go(None);
    }

    fn give_up(&self, _: EntryId, failure: Failure) {
        let mut far = lock(&self.far);
        far.wrong.push(failure.to_string());
        far.let_go(Some(failure));
    }

    fn last(&self) {
        lock(&self.far).is_last = true;
    }

    fn wanted(&self, _: Duration) -> Vec<Wanted> {
        let mut far = lock(&self.far);
        if let Phase::Asked(times) = far.phase
            && far.begun > 0
        {
            far.phase = times.checked_sub(1).map_or(Phase::Open, Phase::Asked);
            if far.phase == Phase::Open {
                far.wanted.push(Wanted::GoesOn { flow: FLOW });
            }
        }
        std::mem::take(&mut far.wanted)
    }

    fn rewound(&self, at: &FlowMark, result: Result<blake3::Hasher>) {
        let mut far = lock(&self.far);
        match result {
            Ok(hasher) if hasher.finalize().as_bytes() == &at.digest.0 => far.phase = Phase::Open,
            Ok(_) => far.wrong.push("what was read again is not what was asked for".to_owned()),
            Err(failure) => far.refused = Some(failure),
        }
        if far.phase != Phase::Open {
            far.is_over = true;
        }
    }

    fn begins_again(&self, _: EntryId, _: Option<Again>) {}

    fn missed(&self, path: RelativePath, failure: Failure) {
        lock(&self.far).wrong.push(format!("{path} was missed: {failure}"));
    }

    fn note(&self, _: String) {}

    fn failed(&self, failure: Failure) {
        let mut far = lock(&self.far);
        far.wrong.push(failure.to_string());
        far.is_over = true;
    }

    fn is_over(&self) -> bool {
        lock(&self.far).is_over || self.since.elapsed() >= LIMIT
    }
}

/// All of the flow came.
fn assert_whole(bed: &dyn FeedBed, far: &Far) {
    assert!(far.content == bed.content(), "{} bytes came", far.content.len());
    assert_eq!((far.phase, far.begun, far.is_last), (Phase::Ended, 1, true));
}

fn each_byte_comes_once(bed: &dyn FeedBed) {
    assert_whole(bed, &Listener::new(b"", Phase::Open).hear(bed.feed()));
}

fn nothing_comes_before_it_is_known(bed: &dyn FeedBed) {
    assert_whole(bed, &Listener::new(b"", Phase::Asked(3)).hear(bed.feed()));
}

fn what_was_not_taken_comes_again(bed: &dyn FeedBed) {
    let listener = Listener::new(b"", Phase::Open);
    lock(&listener.far).refusals = 2;
    let far = listener.hear(bed.feed());
    assert_eq!(far.refusals, 0);
    assert_whole(bed, &far);
}

fn it_goes_on_behind_what_is_there(bed: &dyn FeedBed) {
    assert_whole(bed, &Listener::new(&bed.content()[..BEGUN], Phase::Rewinding).hear(bed.feed()));
}

fn another_beginning_is_a_conflict(bed: &dyn FeedBed) {
    let mut another = bed.content()[..BEGUN].to_vec();
    another[BEGUN / 2] ^= 1;
    let far = Listener::new(&another, Phase::Rewinding).hear(bed.feed());
    assert_eq!(far.refused.expect("it is refused").kind, FailureKind::Conflict);
    assert!(far.content == another, "more came");
}

fn nothing_comes_when_it_is_over(bed: &dyn FeedBed) {
    let listener = Listener::new(b"", Phase::Open);
    lock(&listener.far).over_at = Some(1);
    let far = listener.hear(bed.feed());
    assert!(!far.content.is_empty() && far.phase == Phase::Open, "{:?}", far.phase);
}

fn a_pipe_says_so(bed: &dyn FeedBed) {
    assert_eq!(bed.feed().is_pipe(), bed.is_pipe());
}
