//! Ends that whoever asks for a copy made: places of which the mover knows nothing but what they promise.

use super::{From, Job, STOP_NOTICE, Stop, To, stopped};
use crate::endpoint::{Destination, Source};
use crate::failure::{FailureKind, Result};
use crate::plan::{Asked, Chosen, Plan};
use std::fs::{self, Metadata};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use thalweg_wire::message::{FilterRule, Place, SourceForm, Terms};

/// So long a copy that is asked to stop has to end by itself: most of what given ends have under way is answered
/// meanwhile, and counts the next time.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// Has everything fail, for good and soon, that waits at a given end. May be called more than once.
pub type GiveUp = Arc<dyn Fn() + Send + Sync>;

/// Opens what is scanned and read, and says of which form it is, as far as names at the destination depend on that;
/// once for each attempt.
pub type OpenSource = Arc<dyn Fn() -> Result<(Arc<dyn Source>, SourceForm)> + Send + Sync>;

/// A source that is not the mover's own. It is scanned once for each attempt of the copy.
#[derive(Clone)]
pub struct GivenSource {
    /// Opens it.
    pub open: OpenSource,
    /// It offers only what the copy is of already: of its filter, its list of names and its part. Else the mover looks
    /// at what it offers.
    pub chooses: bool,
    /// What it is called, at most [`PATH_BYTES_MAX`](thalweg_wire::limits::PATH_BYTES_MAX): part of the key by which a
    /// second attempt finds what the first left behind.
    pub name: Vec<u8>,
    /// What is remembered of ways that begin there goes by it, whatever is copied.
    pub way: String,
    /// Why no file of it may be removed once it is copied. `None`: it may, as [`Source::remove`] says.
    pub keeps: Option<String>,
    /// So many streams at least keep it busy, if nobody asks for a number.
    pub streams: u16,
    /// Bytes of a chunk that suit it, if nobody asks for a size: as
    /// [`is_chunk_size`](thalweg_wire::limits::is_chunk_size) takes them. `None`: any do.
    pub chunk_bytes: Option<u64>,
    /// Names at the top of a destination that it comes to have; an empty one is the destination itself.
    pub tops: Vec<Vec<u8>>,
    /// For who stops while it does not answer. `None`: it never waits for long.
    pub give_up: Option<GiveUp>,
}

impl GivenSource {
    /// Opens the same for each attempt.
    pub fn same(source: Arc<dyn Source>, form: SourceForm) -> OpenSource {
        Arc::new(move || Ok((source.clone(), form.clone())))
    }
}

/// Opens a destination for what has this form, on these terms; once for each attempt. Names that the rules exclude are
/// not deleted.
pub type OpenDestination =
    Arc<dyn Fn(&SourceForm, &Terms, &[FilterRule]) -> Result<Arc<dyn Destination>> + Send + Sync>;

/// Bytes of a chunk that suit a destination, of what the user asks for, and of the bytes of the largest file, as far as
/// that is known before: a size that [`is_chunk_size`](thalweg_wire::limits::is_chunk_size) takes.
pub type SuitsChunks = fn(Option<u64>, Option<u64>) -> u64;

/// A destination that is not the mover's own. What it says is durable is kept.
#[derive(Clone)]
pub struct GivenDestination {
    /// Opens it.
    pub open: OpenDestination,
    /// What is to be told of it when the copy is over, whatever became of that: what it keeps for the next attempt.
    pub note: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// As [`GivenSource::name`].
    pub name: Vec<u8>,
    /// What is stated of it in receipts.
    pub place: Place,
    /// As [`GivenSource::way`].
    pub way: String,
    /// Where below `way` it is, with slashes: of two that are one inside the other only one deletes.
    pub below: Vec<u8>,
    /// Bytes of a chunk that suit it. `None`: any do.
    pub chunk_bytes: Option<SuitsChunks>,
    /// Where that is asked it looks for content that it has under other names.
    pub finds_renames: bool,
    /// As [`GivenSource::give_up`].
    pub give_up: Option<GiveUp>,
}

/// Does `work`, a copy between these ends. If that goes on for [`STOP_GRACE`] after somebody asked to stop, given ends
/// are given up; what fails at them then was stopped.
pub(super) fn until_given_up<T>(
    from: &From,
    to: &To,
    stop: &Stop,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let of_source = if let From::Given(from) = from { from.give_up.as_ref() } else { None };
    let of_destination = if let To::Given(to) = to { to.give_up.as_ref() } else { None };
    let ends: Vec<&GiveUp> = of_source.into_iter().chain(of_destination).collect();
    if ends.is_empty() {
        return work();
    }
    let (is_over, are_given_up) = (AtomicBool::new(false), AtomicBool::new(false));
    let watches = || {
        let mut asked: Option<Instant> = None;
        while !is_over.load(Ordering::Acquire) {
            if stop.is_asked() && asked.get_or_insert_with(Instant::now).elapsed() >= STOP_GRACE {
                are_given_up.store(true, Ordering::Release);
                ends.iter().for_each(|give_up| (**give_up)());
                return;
            }
            thread::park_timeout(STOP_NOTICE);
        }
    };
    let result = thread::scope(|scope| {
        // Without a thread for it, who stops waits as long as the ends do.
        let watching = thread::Builder::new().name("give up".to_owned()).spawn_scoped(scope, watches);
        let over = Over(&is_over);
        let result = work();
        drop(over);
        if let Ok(watching) = watching {
            watching.thread().unpark();
        }
        result
    });
    let is_of_ends = |kind| matches!(kind, FailureKind::Connection | FailureKind::Io);
    match result {
        Err(failure) if are_given_up.load(Ordering::Acquire) && is_of_ends(failure.kind) => {
            tracing::debug!(%failure, "an end was given up");
            Err(stopped())
        }
        result => result,
    }
}

/// That it is over, however it ends: whoever watches it ends too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl From {
    /// Bytes of the largest file that it names itself, or of all that it is; what is in directories nobody knows before
    /// they are read.
    fn largest_known(&self) -> Option<u64> {
        match self {
            From::Local(paths) => {
                let of_file = |path: &PathBuf| fs::metadata(path).ok().filter(Metadata::is_file);
                paths.iter().filter_map(of_file).map(|file| file.len()).max()
            }
            From::Zero(bytes) => Some(*bytes),
            From::Noise(_, of_each) => Some(*of_each),
            From::Dataset(_) | From::Simulated(_) | From::Given(_) | From::Far(..) => None,
        }
    }
}

impl Job<'_> {
    /// What was asked for, with chunks as given ends take them.
    pub(super) fn asked_of_given(&self, asked: Asked) -> Asked {
        // A chunk has at least one request.
        let request = asked.request_bytes.map_or(0, u64::from);
        let chunk_bytes = match (self.from, self.to) {
            (_, To::Given(to)) => match to.chunk_bytes {
                Some(suits) => {
                    let largest = self.from.largest_known();
                    let bytes = suits(asked.chunk_bytes, largest);
                    Some(if bytes < request { suits(Some(request), largest) } else { bytes })
                }
                None => asked.chunk_bytes,
            },
            (From::Given(from), _) => asked.chunk_bytes.or(from.chunk_bytes.map(|bytes| bytes.max(request))),
            _ => asked.chunk_bytes,
        };
        Asked { chunk_bytes, ..asked }
    }

    /// The plan with what given ends need. Streams that were asked for stay.
    pub(super) fn plan_of_given(&self, mut plan: Plan) -> Plan {
        let is_asked = self.wishes.movement.asked.chunk_bytes.is_some();
        if matches!(self.to, To::Given(to) if to.chunk_bytes.is_some()) {
            plan.chunk_bytes.why = "each is one part at the destination".to_owned();
        } else if matches!(self.from, From::Given(from) if from.chunk_bytes.is_some()) && !is_asked {
            plan.chunk_bytes.why = "each is one request at the source".to_owned();
        }
        if let From::Given(from) = self.from {
            self.have_streams(&mut plan, from.streams, "each waits for the source's answers");
        }
        plan
    }

    /// Has at least so many streams planned, as far as there may be more, unless a number was asked for, or found by
    /// trials.
    pub(super) fn have_streams(&self, plan: &mut Plan, least: u16, why: &str) {
        let is_settled = plan.are_streams_asked || self.tuned().is_some_and(|tuned| tuned.streams.is_some());
        let least = least.min(plan.streams_max);
        if !is_settled && plan.streams.value < least {
            plan.streams = Chosen { value: least, why: why.to_owned() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::synthetic::{NullDestination, ZeroSource};
    use crate::endpoint::testing::{HeldUp, Hold};
    use crate::event;
    use crate::failure::Failure;
    use crate::link::Identity;
    use crate::mutex::lock;
    use crate::plan::Tuned;
    use crate::run::copy::{Report, Watch, Wishes, copy};
    use std::sync::{Mutex, mpsc};
    use thalweg_wire::RelativePath;

    const MIB: u64 = 1 << 20;

    fn source(name: &str) -> From {
        let form = SourceForm::Single { name: b"zero".to_vec() };
        From::Given(GivenSource {
            open: GivenSource::same(Arc::new(ZeroSource { bytes: MIB }), form),
            chooses: false,
            name: name.as_bytes().to_vec(),
            way: "given".to_owned(),
            keeps: Some("it has none".to_owned()),
            streams: 16,
            chunk_bytes: Some(32 * MIB),
            tops: vec![name.as_bytes().to_vec()],
            give_up: None,
        })
    }

    /// A tenth of the largest file, and 8 MiB, at least.
    fn suits(asked: Option<u64>, largest: Option<u64>) -> u64 {
        asked.unwrap_or(16 * MIB).max(8 * MIB).max(largest.unwrap_or(0).div_ceil(10).next_power_of_two())
    }

    /// Opens nothing that keeps anything.
    fn given_destination() -> GivenDestination {
        GivenDestination {
            open: Arc::new(|_, _, _| Ok(Arc::new(NullDestination::default()))),
            note: Arc::new(|| None),
            name: b"given://there".to_vec(),
            place: Place { export: None, path: b"given://there".to_vec() },
            way: "given".to_owned(),
            below: b"there".to_vec(),
            chunk_bytes: None,
            finds_renames: false,
            give_up: None,
        }
    }

    fn copied_to(from: &From, to: &To, wishes: &Wishes) -> Result<Report> {
        let identity = Identity::generate("somebody").unwrap();
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        copy(from, to, wishes, &identity, &watch, &Stop::default())
    }

    /// Copies, and tells the terms that the destination was opened with.
    fn copied(name: &str, wishes: &Wishes) -> (Result<Report>, Vec<Terms>) {
        let opened: Arc<Mutex<Vec<Terms>>> = Arc::default();
        let (notes, asked) = (opened.clone(), opened.clone());
        let to = To::Given(GivenDestination {
            open: Arc::new(move |_, terms, _| {
                notes.lock().unwrap().push(terms.clone());
                Ok(Arc::new(NullDestination::default()))
            }),
            note: Arc::new(move || (!asked.lock().unwrap().is_empty()).then(|| "nothing is kept".to_owned())),
            chunk_bytes: Some(suits),
            ..given_destination()
        });
        let identity = Identity::generate("somebody").unwrap();
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let hears = told.clone();
        let events: event::Events = Arc::new(move |event| {
            if let event::Event::Note(text) = event {
                hears.lock().unwrap().push(text);
            }
        });
        let link_events = event::nobody();
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        let result = copy(&source(name), &to, wishes, &identity, &watch, &Stop::default());
        let opened = opened.lock().unwrap().clone();
        let is_told = told.lock().unwrap().iter().any(|text| text == "nothing is kept");
        assert_eq!(is_told, !opened.is_empty(), "what is to be told at the end of a copy that began");
        (result, opened)
    }

    #[test]
    fn given_ends_are_read_and_written_with_streams_and_chunks_that_suit_them() {
        let (report, opened) = copied("given://a", &Wishes::default());
        let report = report.unwrap();
        assert_eq!((report.totals.done, report.totals.bytes_done), (1, MIB));
        assert_eq!((report.plan.streams.value, report.plan.chunk_bytes.value), (16, 16 * MIB));
        assert_eq!(opened[0].chunk_bytes, 16 * MIB);
        let mut wishes = Wishes::default();
        wishes.movement.asked.streams = Some(2);
        wishes.movement.asked.chunk_bytes = Some(4 * MIB);
        let (report, _) = copied("given://a", &wishes);
        let plan = report.unwrap().plan;
        assert_eq!((plan.streams.value, plan.chunk_bytes.value), (2, 8 * MIB));
        // No chunk is smaller than one request.
        wishes.movement.asked.chunk_bytes = None;
        wishes.movement.asked.request_bytes = Some(32 << 20);
        let plan = copied("given://a", &wishes).0.unwrap().plan;
        assert_eq!((plan.segment_bytes.value, plan.chunk_bytes.value), (32 << 20, 32 * MIB));
    }

    #[test]
    fn a_given_source_is_read_in_chunks_that_suit_it_or_were_asked_for() {
        let requests = [None, None, Some(64 << 20), Some(8 << 20)];
        let chunks = [(None, 32 * MIB), (Some(8 * MIB), 8 * MIB), (None, 64 * MIB), (None, 32 * MIB)];
        for ((asked, takes), request) in chunks.into_iter().zip(requests) {
            let mut wishes = Wishes::default();
            wishes.movement.asked.chunk_bytes = asked;
            wishes.movement.asked.request_bytes = request;
            let from = source("given://a");
            let report = copied_to(&from, &To::Null, &wishes).unwrap();
            assert_eq!(report.plan.chunk_bytes.value, takes);
        }
    }

    #[test]
    fn a_file_that_is_named_goes_in_chunks_that_are_large_enough_for_it() {
        let scratch = tempfile::tempdir().unwrap();
        let [small, large] = ["small", "large"].map(|name| scratch.path().join(name));
        fs::write(&small, b"x").unwrap();
        fs::File::create(&large).unwrap().set_len(200 * MIB).unwrap();
        let to = To::Given(GivenDestination { chunk_bytes: Some(suits), ..given_destination() });
        let chunk = |from: From| copied_to(&from, &to, &Wishes::default()).unwrap().plan.chunk_bytes.value;
        assert_eq!(chunk(From::Local(vec![small.clone()])), 16 * MIB);
        assert_eq!(chunk(From::Local(vec![small, large])), 32 * MIB);
        assert_eq!(chunk(From::Local(vec![scratch.path().to_owned()])), 16 * MIB, "nobody looked into it");
        assert_eq!(chunk(From::Zero(200 * MIB)), 32 * MIB);
    }

    struct IsFar;

    impl Hold for IsFar {
        fn streams(&self) -> u16 {
            12
        }
    }

    /// What the destination wants is known when it is open.
    #[test]
    fn as_many_streams_as_a_given_destination_wants_and_no_more_than_may_be() {
        let streams = |change: &dyn Fn(&mut Wishes)| {
            let mut wishes = Wishes::default();
            change(&mut wishes);
            let from = tempfile::tempdir().unwrap();
            std::fs::write(from.path().join("f"), b"x").unwrap();
            let opens = Arc::new(|_: &SourceForm, _: &Terms, _: &[FilterRule]| {
                Ok(Arc::new(HeldUp::new(IsFar)) as Arc<dyn Destination>)
            });
            let to = To::Given(GivenDestination { open: opens, ..given_destination() });
            let from = From::Local(vec![from.path().to_owned()]);
            let report = copied_to(&from, &to, &wishes).unwrap();
            (report.plan.streams.value, report.plan.streams.why)
        };
        let (value, why) = streams(&|_| {});
        assert_eq!((value, &*why), (12, "each waits for the destination's answers"));
        assert_eq!(streams(&|wishes| wishes.movement.asked.streams = Some(3)).0, 3);
        let bounded = |wishes: &mut Wishes| {
            wishes.movement.asked.streams_most = Some((5, "no more are left"));
        };
        assert_eq!(streams(&bounded).0, 5);
        let tuned = |wishes: &mut Wishes| {
            wishes.remembered.tuned = Some(Tuned { streams: Some(7), ..Tuned::default() });
        };
        assert_eq!(streams(&tuned).0, 7);
    }

    /// What an attempt left belongs to copies of the same source only.
    #[test]
    fn copies_of_ends_with_other_names_are_other_jobs() {
        let key = |name: &str| copied(name, &Wishes::default()).1[0].job_key;
        assert_eq!(key("given://a"), key("given://a"));
        assert_ne!(key("given://a"), key("given://b"));
    }

    /// Only what hangs ends with the other failure.
    #[test]
    fn who_asks_to_stop_has_an_end_that_does_not_answer_given_up() {
        let (gives_up, given_up) = mpsc::channel();
        let given_up = Mutex::new(given_up);
        let to = To::Given(GivenDestination {
            open: Arc::new(move |_, _, _| {
                let kind = match lock(&given_up).recv_timeout(Duration::from_secs(300)) {
                    Ok(()) => FailureKind::Connection,
                    Err(_) => FailureKind::Internal,
                };
                Err(Failure::new(kind, "open the destination", "no answer"))
            }),
            give_up: Some(Arc::new(move || {
                let _ = gives_up.send(());
            })),
            ..given_destination()
        });
        let identity = Identity::generate("somebody").unwrap();
        let (events, link_events) = (event::nobody(), event::nobody());
        let watch = Watch { events, is_behind: None, link_events, meter: Arc::default(), evidence: None };
        let stop = Stop::default();
        stop.stop();
        let result = copy(&source("given://a"), &to, &Wishes::default(), &identity, &watch, &stop);
        assert_eq!(result.unwrap_err().kind, FailureKind::Stopped);
    }

    #[test]
    fn what_given_ends_do_not_offer_is_refused_and_filters_hold() {
        let refused = |change: &dyn Fn(&mut Wishes)| {
            let mut wishes = Wishes::default();
            change(&mut wishes);
            let (result, opened) = copied("given://a", &wishes);
            let failure: Failure = result.unwrap_err();
            assert!(opened.is_empty(), "{failure}");
            failure.kind
        };
        assert_eq!(refused(&|wishes| wishes.removes_sources = true), FailureKind::Usage);
        let named = |wishes: &mut Wishes| wishes.selection.only = vec![RelativePath::root()];
        assert_eq!(refused(&named), FailureKind::Unsupported);
        let mut wishes = Wishes::default();
        wishes.selection.filter = vec![FilterRule { include: false, pattern: "zero".to_owned() }];
        let (report, _) = copied("given://a", &wishes);
        assert_eq!(report.unwrap().totals.done, 0);
    }
}
