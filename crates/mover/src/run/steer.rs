//! A transfer's knobs while it runs: the user's rate, and what the tuner finds.

use crate::event::{Event, Events};
use crate::plan::{Learned, Plan, STREAMS_PLANNED_MAX, Window};
use crate::run::Clock;
use crate::tune::{Knob, Range, Sample, Tuner, Turn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_wire::limits;
use thalweg_wire::message::Steer;

/// The rate that a user wants, which may change at any time.
#[derive(Debug, Default)]
pub struct Rate {
    bytes_per_s: AtomicU64,
    /// How often it was changed.
    changes: AtomicU64,
    /// Transfers that have a part of it now.
    parts: AtomicU64,
    /// What it is a part of.
    whole: Option<Arc<Rate>>,
}

impl Rate {
    /// At most so many content bytes a second; 0 and `None`: no bound.
    pub fn new(bytes_per_s: Option<u64>) -> Rate {
        let rate = Rate::default();
        rate.set(bytes_per_s);
        rate
    }

    /// The same, in bits as a user says it.
    pub fn of_bits(bits_per_s: Option<u64>) -> Rate {
        let rate = Rate::default();
        rate.set_bits(bits_per_s);
        rate
    }

    /// For one of several transfers that go no faster than `whole` together: as much as each of the others has at that
    /// moment. It is theirs when this value is dropped.
    pub fn part_of(whole: &Arc<Rate>) -> Rate {
        whole.parts.fetch_add(1, Ordering::AcqRel);
        let [bytes_per_s, changes, parts] = [0; 3].map(AtomicU64::new);
        Rate { bytes_per_s, changes, parts, whole: Some(whole.clone()) }
    }

    /// From now on; of a part that of the whole.
    pub fn set(&self, bytes_per_s: Option<u64>) {
        match &self.whole {
            Some(whole) => whole.set(bytes_per_s),
            None => {
                let wanted = bytes_per_s.unwrap_or(0);
                if self.bytes_per_s.swap(wanted, Ordering::AcqRel) != wanted {
                    self.changes.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// The same, in bits as a user says it: of fewer than 8 a whole byte, for none would be no bound.
    pub fn set_bits(&self, bits_per_s: Option<u64>) {
        self.set(bits_per_s.map(|bits| (bits / 8).max(1)));
    }

    /// How often it was set to another one; of a part that of the whole.
    pub fn changes(&self) -> u64 {
        self.whole.as_deref().unwrap_or(self).changes.load(Ordering::Acquire)
    }

    /// The rate now, in bytes a second.
    pub fn bytes_per_s(&self) -> Option<u64> {
        match &self.whole {
            Some(whole) => {
                let parts = whole.parts.load(Ordering::Acquire).max(1);
                whole.bytes_per_s().map(|rate| (rate / parts).max(1))
            }
            None => Some(self.bytes_per_s.load(Ordering::Acquire)).filter(|&rate| rate > 0),
        }
    }
}

impl Drop for Rate {
    fn drop(&mut self) {
        if let Some(whole) = &self.whole {
            whole.parts.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// What is told when a rate is turned: bytes a second, or no bound.
pub(crate) fn turned_to(rate: Option<u64>) -> Event {
    let text = rate.map_or("no limit".to_owned(), |rate| crate::plan::show_rate(rate.saturating_mul(8)));
    Event::Knob(format!("rate: {text} from now on"))
}

/// What is asked of the streams of a near path at most: as many again as there are cores.
const NEAR_STREAMS_MAX: u16 = 8;

/// To how many streams a copy that begins by this plan is tuned at most.
pub fn streams_most(plan: &Plan) -> u16 {
    let tuned = if plan.is_far() { STREAMS_PLANNED_MAX } else { NEAR_STREAMS_MAX };
    tuned.max(plan.streams.value).min(plan.streams_max).max(1)
}
/// Entries of which the average size is believed.
const ENTRIES_MIN: u64 = 1000;
/// Round trips until the windows of as many streams as small files need hold a path of 1 Gbit/s: until then more
/// streams carry more.
const WINDOWS_GROW: u32 = 8;
/// A transfer shorter than this teaches nothing about its route.
const LEARN_AFTER: Duration = Duration::from_secs(5);

/// See the module.
pub struct Steering {
    steer: Steer,
    tuner: Option<Tuner>,
    rtt: Duration,
    window: Option<Window>,
    planned_streams: u16,
    segment_bytes: u32,
    chunk_bytes: u64,
    /// On a far path streams are fitted to the rate and to the files.
    is_far: bool,
    /// So many are enough for the files, once it is known how large those are.
    streams_for_files: Option<u16>,
    clock: Clock,
    events: Events,
}

impl Steering {
    /// For a transfer that begins by `plan` and keeps this rate by its terms, over a path with this round-trip time: to
    /// a rate that changed since the first look turns. With `tunes`, what the user did not ask for may be changed.
    pub fn new(
        plan: &Plan,
        asked: &crate::plan::Asked,
        rtt: Duration,
        rate_bytes_per_s: Option<u64>,
        tunes: bool,
        events: Events,
    ) -> Steering {
        let concurrency = Some(plan.concurrency.value);
        let steer = Steer { rate_bytes_per_s, streams: None, concurrency, depth: plan.depth.value };
        let mut knobs = Vec::new();
        if asked.streams.is_none() {
            let start = plan.streams.value;
            // Near, each core has its stream: fewer leave one idle.
            let least = if rtt < crate::plan::NEAR_RTT { start } else { 1 };
            let most = streams_most(plan);
            let bounds = u32::from(least.min(most))..=u32::from(most);
            knobs.push(Range { knob: Knob::Streams, start: start.into(), bounds });
        }
        if asked.concurrency.is_none() {
            let bounds = 8..=limits::CONCURRENCY_MAX;
            knobs.push(Range { knob: Knob::Concurrency, start: plan.concurrency.value, bounds });
        }
        let tuner = tunes.then(|| Tuner::new(knobs, rtt));
        let is_far = rtt >= crate::plan::NEAR_RTT && asked.streams.is_none() && tuner.is_some();
        Steering {
            steer,
            tuner,
            rtt,
            window: plan.window.clone(),
            planned_streams: plan.streams.value,
            segment_bytes: plan.segment_bytes.value,
            chunk_bytes: plan.chunk_bytes.value,
            is_far,
            streams_for_files: None,
            clock: Clock::start(),
            events,
        }
    }

    /// For a transfer of a session in which an earlier one may have left more streams: no more than these take work.
    pub fn only(&mut self, streams: u16) -> Steer {
        self.steer.streams = Some(streams);
        self.steer
    }

    /// The knobs as they stand.
    pub fn now(&self) -> Steer {
        self.steer
    }

    /// Streams that take work by now.
    pub fn streams(&self) -> u16 {
        self.steer.streams.unwrap_or(self.planned_streams)
    }

    /// Looks at the counters; returns the knobs if one is to be turned.
    pub fn look(&mut self, rate: &Rate, sample: &Sample) -> Option<Steer> {
        self.look_at(self.clock.now(), rate, sample)
    }

    fn look_at(&mut self, now: Duration, rate: &Rate, sample: &Sample) -> Option<Steer> {
        let (files, bytes) = (sample.entries_found, sample.bytes_found);
        let in_chunks = crate::plan::files_in_chunks(files, bytes, self.segment_bytes);
        let clump_bytes = match in_chunks {
            0 => 0,
            _ => self.chunk_bytes.min(bytes / files.max(1)).saturating_mul(self.streams().into()),
        };
        let sample = &Sample { in_chunks, clump_bytes, ..*sample };
        let wanted = rate.bytes_per_s();
        let mut is_turned = std::mem::replace(&mut self.steer.rate_bytes_per_s, wanted) != wanted;
        if is_turned {
            (self.events)(turned_to(wanted));
            if let Some(tuner) = &mut self.tuner {
                tuner.measure_anew();
            }
        }
        let mut turns = if is_turned { self.fit_to_rate(wanted) } else { Vec::new() };
        // A rate that is kept by us says nothing about the path.
        if wanted.is_none() && turns.is_empty() {
            turns = match self.file_bytes(sample) {
                Some(bytes) if self.is_far && self.streams_for_files.is_none() => {
                    match now < WINDOWS_GROW * self.rtt {
                        true => Vec::new(),
                        false => self.fit_to_files(bytes),
                    }
                }
                _ => self.tuner.as_mut().and_then(|it| it.sample(now, sample)).into_iter().collect(),
            };
        }
        for turn in turns {
            is_turned = true;
            match turn.knob {
                Knob::Streams => self.steer.streams = u16::try_from(turn.to).ok(),
                Knob::Concurrency => self.steer.concurrency = Some(turn.to),
            }
            let text = format!("{}: {} -> {} ({})", turn.knob.name(), turn.from, turn.to, turn.why);
            (self.events)(Event::Knob(text));
        }
        is_turned.then_some(self.steer)
    }

    /// A rate that was raised, or taken away, may need more streams than were planned. Those there are stay.
    fn fit_to_rate(&mut self, bytes_per_s: Option<u64>) -> Vec<Turn> {
        let Some(tuner) = self.tuner.as_mut().filter(|_| self.is_far) else { return Vec::new() };
        let bits_per_s = bytes_per_s.map(|rate| rate.saturating_mul(8));
        let enough = self.streams_for_files.unwrap_or(STREAMS_PLANNED_MAX);
        let to =
            u32::from(crate::plan::streams_for_rate(bits_per_s, self.rtt, self.window.as_ref()).min(enough));
        match tuner.value(Knob::Streams) {
            Some(now) if now < to => tuner.put(Knob::Streams, to, "for the rate from now on".to_owned()),
            _ => Vec::new(),
        }
    }

    /// Bytes of an entry on average, once there are enough to believe it.
    fn file_bytes(&self, sample: &Sample) -> Option<u64> {
        let (bytes, entries) = match sample.entries_found >= ENTRIES_MIN {
            true => (sample.bytes_found, sample.entries_found),
            // Few were found so far; what was there already brought no bytes.
            false => (sample.bytes, sample.entries_moved),
        };
        (entries >= ENTRIES_MIN).then(|| bytes / entries)
    }

    /// Many small files need fewer streams than a large one.
    fn fit_to_files(&mut self, file_bytes: u64) -> Vec<Turn> {
        let enough = crate::plan::streams_for_files(file_bytes, self.rtt, self.window.as_ref());
        self.streams_for_files = Some(enough);
        let why =
            format!("entries have {file_bytes} bytes on average: their names take longer than their bytes");
        match &mut self.tuner {
            Some(tuner) if tuner.value(Knob::Streams).is_some_and(|now| now > enough.into()) => {
                tuner.put(Knob::Streams, enough.into(), why)
            }
            _ => Vec::new(),
        }
    }

    /// What the transfer taught about its route, if it was long enough to.
    pub fn learned(&self) -> Option<Learned> {
        let (streams, rate_bits_per_s) = self.tuner.as_ref()?.best(Knob::Streams)?;
        let streams = u16::try_from(streams).ok()?;
        (self.clock.now() >= LEARN_AFTER && rate_bits_per_s > 0).then_some(Learned {
            streams,
            rate_bits_per_s,
            rtt: self.rtt,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Asked, Path, Tuned, plan};
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_rate_of_some_bits_is_at_least_a_byte_for_none_would_be_no_bound() {
        assert_eq!(Rate::of_bits(Some(1)).bytes_per_s(), Some(1));
        assert_eq!(Rate::of_bits(Some(807)).bytes_per_s(), Some(100));
        assert_eq!(Rate::of_bits(None).bytes_per_s(), None);
    }

    fn steered(rtt: Duration, sample: Sample) -> (Option<Steer>, Vec<String>) {
        let plan = plan(&Asked::default(), &Path { rtt: Some(rtt), ..Path::default() });
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = told.clone();
        let events: Events = Arc::new(move |event| {
            if let Event::Knob(text) = event {
                tell.lock().unwrap().push(text);
            }
        });
        let rate = Rate::default();
        let mut steering = Steering::new(&plan, &Asked::default(), rtt, None, true, events);
        assert_eq!(steering.streams(), plan.streams.value);
        let later = WINDOWS_GROW * rtt;
        let early = later.saturating_sub(Duration::from_nanos(1));
        assert_eq!(
            steering.look_at(early, &rate, &sample),
            None,
            "windows are small: more streams carry more"
        );
        let steer = steering.look_at(later, &rate, &sample);
        let turned = steer.and_then(|steer| steer.streams);
        assert_eq!(steering.streams(), turned.unwrap_or(plan.streams.value));
        assert_eq!(steering.look_at(later, &rate, &sample), None, "it is said once");
        let told = told.lock().unwrap().clone();
        (steer, told)
    }

    #[test]
    fn parts_of_a_rate_are_the_whole_together_and_go_back_to_the_others() {
        let whole = Arc::new(Rate::new(Some(900)));
        let first = Rate::part_of(&whole);
        assert_eq!(first.bytes_per_s(), Some(900));
        let others = [Rate::part_of(&whole), Rate::part_of(&whole)];
        assert_eq!(first.bytes_per_s(), Some(300));
        whole.set(Some(300));
        assert!(others.iter().all(|part| part.bytes_per_s() == Some(100)));
        drop(others);
        assert_eq!((first.bytes_per_s(), whole.bytes_per_s()), (Some(300), Some(300)));
        first.set(None);
        assert_eq!((first.bytes_per_s(), whole.bytes_per_s()), (None, None));
    }

    #[test]
    fn a_rate_that_was_changed_and_changed_back_was_changed() {
        let whole = Arc::new(Rate::new(Some(900)));
        let part = Rate::part_of(&whole);
        let before = part.changes();
        whole.set(Some(900));
        assert_eq!(part.changes(), before);
        whole.set(Some(300));
        part.set(Some(900));
        assert_eq!((part.changes(), part.bytes_per_s()), (before + 2, Some(900)));
    }

    /// As when another item of a watch begins, or `thalweg limit` is called, while the far side opens the place.
    #[test]
    fn a_rate_that_changes_while_the_transfer_is_opened_is_turned_to_by_the_first_look() {
        let (rtt, rate, asked) = (Duration::from_millis(100), Rate::new(Some(900)), Asked::default());
        let plan = plan(&asked, &Path { rtt: Some(rtt), ..Path::default() });
        let of_terms = rate.bytes_per_s();
        rate.set(Some(300));
        let mut steering = Steering::new(&plan, &asked, rtt, of_terms, true, Arc::new(|_| {}));
        assert_eq!(steering.now().rate_bytes_per_s, Some(900));
        let turned = steering.look(&rate, &Sample::default());
        assert_eq!(turned.and_then(|steer| steer.rate_bytes_per_s), Some(300));
        assert_eq!(steering.look(&rate, &Sample::default()), None, "it is said once");
    }

    #[test]
    fn the_depth_that_was_tuned_for_a_route_stays_when_another_knob_is_turned() {
        let (rtt, rate) = (Duration::from_millis(100), Rate::default());
        let tuned = Tuned { depth: Some(8), ..Tuned::default() };
        let path = Path { rtt: Some(rtt), tuned: Some(tuned), ..Path::default() };
        let asked = Asked::default();
        let plan = plan(&asked, &path);
        let mut steering = Steering::new(&plan, &asked, rtt, rate.bytes_per_s(), true, Arc::new(|_| {}));
        assert_eq!(steering.now().depth, Some(8));
        rate.set(Some(1_000_000));
        let turned = steering.look(&rate, &Sample::default());
        assert_eq!(turned.and_then(|steer| steer.depth), Some(8));
    }

    #[test]
    fn small_files_on_a_far_path_have_fewer_streams_at_work_and_a_large_one_keeps_its_own() {
        let far = Duration::from_millis(100);
        let small = Sample { entries_found: 1000, bytes_found: 4_096_000, ..Sample::default() };
        let (steer, told) = steered(far, small);
        assert_eq!(steer.and_then(|steer| steer.streams), Some(8));
        let said = told.first().map(String::as_str).unwrap_or_default();
        assert!(said.starts_with("streams: 19 -> 8 (entries have 4096 bytes on average"), "{said}");
        // A pull knows nothing of the source before the scan is over, but what has come.
        let come = Sample { entries: 1000, entries_moved: 1000, bytes: 4_096_000, ..Sample::default() };
        assert_eq!(steered(far, come).0.and_then(|steer| steer.streams), Some(8));
        for sample in [
            Sample { entries_found: 1000, bytes_found: 1 << 40, ..Sample::default() },
            Sample { entries_found: 999, bytes_found: 999, ..Sample::default() },
            // What stands there already says nothing of what is still to come.
            Sample { entries: 1000, entries_moved: 1, bytes: 4096, ..Sample::default() },
        ] {
            assert_eq!(steered(far, sample).0, None);
        }
        assert_eq!(steered(Duration::from_micros(200), small).0, None);
    }

    /// Turns of files at once while so many files of so many bytes are copied steadily over a near path.
    fn turns_of_concurrency(files: u64, file_bytes: u64) -> Vec<Option<u32>> {
        let rtt = Duration::from_micros(100);
        let asked = Asked { streams: Some(2), ..Asked::default() };
        let plan = plan(&asked, &Path { rtt: Some(rtt), ..Path::default() });
        let rate = Rate::default();
        let mut steering = Steering::new(&plan, &asked, rtt, rate.bytes_per_s(), true, Arc::new(|_| {}));
        let found = Sample { entries_found: files, bytes_found: files * file_bytes, ..Sample::default() };
        let samples = (0..200).map(|tick| (Duration::from_millis(100 * tick), tick * 10_000_000));
        let turns =
            samples.filter_map(|(now, bytes)| steering.look_at(now, &rate, &Sample { bytes, ..found }));
        turns.map(|steer| steer.concurrency).collect()
    }

    #[test]
    fn files_at_once_are_not_tried_on_small_files_which_travel_in_packs() {
        assert!(turns_of_concurrency(100_000, 4096).is_empty());
        assert_eq!(turns_of_concurrency(10_000, 4 << 20).first(), Some(&Some(512)));
    }

    /// Twelve streams share 20 Mbit/s, and each takes five seconds for a chunk: all of them come in three of these.
    #[test]
    fn chunks_that_come_at_once_are_not_taken_for_the_rate_of_a_far_path() {
        let (rtt, rate, asked) = (Duration::from_millis(60), Rate::default(), Asked::default());
        let plan = plan(&asked, &Path { rtt: Some(rtt), ..Path::default() });
        let mut steering = Steering::new(&plan, &asked, rtt, rate.bytes_per_s(), true, Arc::new(|_| {}));
        let found = Sample { entries_found: 1, bytes_found: 1 << 30, ..Sample::default() };
        let clump = u64::from(plan.streams.value) * plan.chunk_bytes.value;
        assert_eq!(clump, 12 << 20);
        let turned = (0..600u64).find(|&tick| {
            let bytes = tick / 50 * clump + (tick % 50).saturating_sub(20) * clump / 30;
            let now = Duration::from_millis(100 * tick);
            steering.look_at(now, &rate, &Sample { bytes, ..found }).is_some()
        });
        assert!(turned.is_some(), "it is measured after three intervals of some chunks each");
        let best = steering.tuner.as_ref().and_then(|tuner| tuner.best(Knob::Streams));
        let (streams, bits_per_s) = best.expect("it was measured");
        assert_eq!(streams, u32::from(plan.streams.value));
        assert!((19_000_000..21_000_000).contains(&bits_per_s), "{bits_per_s}");
    }

    /// A trial of more files at once is under way when a rate is kept for a minute, and nothing after: 1 GB/s, 1 MB/s,
    /// 2 GB/s.
    #[test]
    fn a_trial_is_not_judged_by_the_time_in_which_a_rate_was_kept() {
        let rtt = Duration::from_micros(100);
        let asked = Asked { streams: Some(2), ..Asked::default() };
        let plan = plan(&asked, &Path { rtt: Some(rtt), ..Path::default() });
        let rate = Rate::default();
        let mut steering = Steering::new(&plan, &asked, rtt, rate.bytes_per_s(), true, Arc::new(|_| {}));
        let found = Sample { entries_found: 10_000, bytes_found: 10_000 * (4 << 20), ..Sample::default() };
        let (mut tick, mut bytes) = (0, 0);
        let mut first_turn = |bytes_per_s: u64, seconds: u32| {
            let mut first = None;
            for _ in 0..seconds * 10 {
                (tick, bytes) = (tick + 1, bytes + bytes_per_s / 10);
                let now = Duration::from_millis(100) * tick;
                let turned = steering.look_at(now, &rate, &Sample { bytes, ..found });
                first = first.or(turned.and_then(|steer| steer.concurrency));
                if first.is_some() && rate.bytes_per_s().is_none() {
                    break;
                }
            }
            first
        };
        assert_eq!(first_turn(1_000_000_000, 20), Some(512));
        rate.set(Some(1_000_000));
        first_turn(1_000_000, 60);
        rate.set(None);
        // That the rate is gone is a turn of its own.
        assert_eq!(first_turn(2_000_000_000, 1), Some(512));
        assert_eq!(first_turn(2_000_000_000, 20), Some(1024));
    }

    #[test]
    fn a_rate_that_is_raised_on_a_far_path_has_the_streams_that_it_needs() {
        let rtt = Duration::from_millis(100);
        let rate = Rate::new(Some(12_500_000));
        let asked = Asked { rate_bits_per_s: Some(100_000_000), ..Asked::default() };
        let plan = plan(&asked, &Path { rtt: Some(rtt), ..Path::default() });
        assert_eq!(plan.streams.value, 1);
        let mut steering = Steering::new(&plan, &asked, rtt, rate.bytes_per_s(), true, Arc::new(|_| {}));
        let mut streams_at = |bytes_per_s| {
            rate.set(bytes_per_s);
            steering.look(&rate, &Sample::default()).and_then(|steer| steer.streams)
        };
        assert_eq!(streams_at(Some(12_500_000)), None);
        assert_eq!(streams_at(Some(625_000_000)), Some(10));
        // Less needs no other setting.
        assert_eq!(streams_at(Some(1_000_000)), Some(10));
        assert_eq!(streams_at(None), Some(19));
    }
}
