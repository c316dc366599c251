//! Deciding while a transfer runs: samples and the time come in, decisions with their reasons go out. Nothing here
//! waits, looks at a clock, or touches a socket.
//!
//! [`Tuner`] turns one knob at a time:
//!
//! 1. Measure: the median of some intervals at the present setting, each long enough for several chunks of each stream.
//! 2. Try: one knob, one step up; let it settle; measure again.
//! 3. Better beyond noise: keep it, and try the next step in that direction. Else back to where it was, and measure
//!    anew, so that a path that changed meanwhile is not mistaken for a setting that was worse.
//! 4. After up try down, then smaller steps, then the next knob. Then hold still, each time for longer, while the rate
//!    stays what it was.
//!
//! Guaranteed: values stay within their bounds; a trial that was not better is undone; in one pass no value of a knob
//! that lost against another is tried again, so that it never goes to and fro; trials in one pass are bounded, and so
//! are passes in any time. Not guaranteed: the best setting where there are several hills, or while the rate
//! wanders more than the steps change it; a better one where nothing comes for two intervals again and again.

use crate::plan::show_rate;
use std::ops::RangeInclusive;
use std::time::Duration;

// A rate that yields to others.
pub mod ledbat;

// What routes did best with.
pub mod routes;

pub mod search;

/// What can be turned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// Streams that take work.
    Streams,
    /// Files with chunks in flight. Small files travel in packs, which this does not bound.
    Concurrency,
}

impl Knob {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Knob::Streams => "streams",
            Knob::Concurrency => "concurrency",
        }
    }
}

/// A knob that may be turned: where it stands, and how far it may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Which.
    pub knob: Knob,
    /// Where it stands at the beginning; brought within the bounds.
    pub start: u32,
    /// Least and most; the least is above 0.
    pub bounds: RangeInclusive<u32>,
}

/// Counters of a transfer at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Content bytes verified so far.
    pub bytes: u64,
    /// Entries settled so far.
    pub entries: u64,
    /// Those of them whose content came, if that is known here.
    pub entries_moved: u64,
    /// Entries found so far.
    pub entries_found: u64,
    /// Their content bytes.
    pub bytes_found: u64,
    /// Those of them that travel in chunks: [`crate::plan::files_in_chunks`].
    pub in_chunks: u64,
    /// Content bytes that may come all at once: a chunk of each stream, for streams that share a path end theirs
    /// together. 0: they come as they are sent.
    pub clump_bytes: u64,
}

/// A knob is turned, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which.
    pub knob: Knob,
    /// From.
    pub from: u32,
    /// To.
    pub to: u32,
    /// What it was done for, in a few words.
    pub why: String,
}

/// An entry counts as so many bytes: what a path carries in the time that a small file takes at its ends, about
/// 20 us (docs/measurements.md, small files), at 1 GB/s.
const ENTRY_BYTES: u64 = 20 << 10;
/// Intervals of which the median counts.
const INTERVALS: usize = 3;
/// Shortest interval: acknowledgements come in rounds of half a second.
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Round trips in an interval at least.
const INTERVAL_ROUND_TRIPS: u32 = 10;
/// Clumps in an interval at least: with fewer, what comes at once would be taken for a rate.
const INTERVAL_CLUMPS: u64 = 2;
/// An interval that waited for clumps, and reached less than this share of the one before, had an outage in it.
const OUTAGE: f64 = 0.25;
/// Better by less than this is no better, however still the path is.
const BETTER_MIN: f64 = 0.01;
/// By more than this nothing has to be better, however noisy it is.
const BETTER_MAX: f64 = 0.25;
/// A trial that reaches less than this share of what was before ends with its first such interval.
const HOPELESS: f64 = 0.75;
/// Factors by which a knob is turned, the coarse one first.
const STEPS: [f64; 4] = [2.0, 1.25, 1.1, 1.05];
/// The longest of them downwards: on a far path what a stream had under way is lost when it rests, and slow to come
/// back.
const STEP_DOWN_MAX: f64 = 1.25;
/// Trials in one pass over all knobs.
const TRIALS_MAX: u32 = 24;
/// First and longest time of holding still between two passes.
const HOLD: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(600));
/// A rate that differs by so much from what was kept is another path: the hold is short again.
const CHANGED: f64 = 0.4;
/// Medians in a row that have to differ so before a hold ends early: one may be an outage.
const CHANGED_MEDIANS: u32 = 2;

/// See the module. Time is that since any fixed moment, and never goes back.
#[derive(Debug)]
pub struct Tuner {
    knobs: Vec<Range>,
    values: Vec<u32>,
    interval: Duration,
    settle: Duration,
    /// The present setting is measured from then on.
    settled_at: Option<Duration>,
    /// The counters at the beginning of the present interval.
    since: Option<(Duration, Sample)>,
    /// Of each interval at the present setting: weighed bytes a second, and content bytes a second.
    rates: Vec<(f64, f64)>,
    in_chunks: u64,
    phase: Phase,
    place: Place,
    /// Values of the present knob that lost in this pass: they were no better than where it stood then, or something
    /// else was better.
    refused: Vec<u32>,
    /// Those before this one.
    passes: u32,
    /// Of this pass.
    trials: u32,
    hold: Duration,
    /// What the kept setting reached, in weighed bytes a second and in content bits a second.
    kept: Option<(f64, u64)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// The present setting is measured, to compare trials with.
    Measuring,
    /// A trial is measured: what stood before, and how well that did (rate and noise).
    Trying { before: u32, rate: f64, noise: f64 },
    /// Nothing is tried from then until then, unless the rate changes before; so many medians in a row were another
    /// rate.
    Holding { since: Duration, until: Duration, others: u32 },
}

/// What is tried next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    knob: usize,
    step: usize,
    is_down: bool,
    /// Something was kept in this direction: the other one is not tried with this step.
    moved: bool,
}

impl Tuner {
    /// For a path with this round-trip time. With no knobs it only measures.
    pub fn new(knobs: Vec<Range>, rtt: Duration) -> Tuner {
        let values = knobs.iter().map(|range| clamp(range.start, &range.bounds)).collect();
        let interval = INTERVAL_MIN.max(rtt * INTERVAL_ROUND_TRIPS);
        Tuner {
            knobs,
            values,
            interval,
            // A stream that is new, or rested, starts slowly.
            settle: interval.max(rtt * 2 * INTERVAL_ROUND_TRIPS),
            settled_at: None,
            since: None,
            rates: Vec::new(),
            in_chunks: 0,
            phase: Phase::Measuring,
            place: Place::default(),
            refused: Vec::new(),
            passes: 0,
            trials: 0,
            hold: HOLD.0,
            kept: None,
        }
    }

    /// Where a knob stands; `None` if it is not to be turned.
    pub fn value(&self, knob: Knob) -> Option<u32> {
        let at = self.knobs.iter().position(|range| range.knob == knob)?;
        Some(self.values[at])
    }

    /// The setting that was kept, and the content bits a second that it reached; `None` before it was measured. A trial
    /// that is under way does not count.
    pub fn best(&self, knob: Knob) -> Option<(u32, u64)> {
        let at = self.knobs.iter().position(|range| range.knob == knob)?;
        let value = match self.phase {
            Phase::Trying { before, .. } if self.place.knob == at => before,
            _ => self.values[at],
        };
        Some((value, self.kept?.1))
    }

    /// Puts a knob elsewhere, for a reason that needs no trial: one that is under way is undone, and what is measured
    /// begins anew. Nothing to turn if it stands there.
    pub fn put(&mut self, knob: Knob, to: u32, why: String) -> Vec<Turn> {
        let Some(at) = self.knobs.iter().position(|range| range.knob == knob) else { return Vec::new() };
        let to = clamp(to, &self.knobs[at].bounds);
        if self.values[at] == to {
            return Vec::new();
        }
        let mut turns = Vec::new();
        let tried = self.place.knob;
        if let Phase::Trying { before, .. } = self.phase
            && tried != at
        {
            let from = std::mem::replace(&mut self.values[tried], before);
            let why = "its trial ends unjudged".to_owned();
            turns.push(Turn { knob: self.knobs[tried].knob, from, to: before, why });
        }
        let from = std::mem::replace(&mut self.values[at], to);
        turns.push(Turn { knob, from, to, why });
        self.phase = Phase::Measuring;
        self.kept = None;
        self.refused.clear();
        self.measure_anew();
        turns
    }

    /// What was measured of the present setting says nothing any more, because something else bounded the rate, or
    /// will: it is measured anew.
    pub fn measure_anew(&mut self) {
        self.rates.clear();
        (self.settled_at, self.since) = (None, None);
    }

    /// Takes a sample, at any time. Returns what to turn, which the caller does at once.
    pub fn sample(&mut self, now: Duration, sample: &Sample) -> Option<Turn> {
        self.in_chunks = sample.in_chunks;
        // The beginning of a transfer, and what follows a turn, is no measure of a setting.
        if now < *self.settled_at.get_or_insert(now + self.settle) {
            return None;
        }
        let Some((began, before)) = self.since else {
            self.since = Some((now, *sample));
            return None;
        };
        let passed = now.saturating_sub(began);
        if passed < self.interval {
            return None;
        }
        let bytes = sample.bytes.saturating_sub(before.bytes);
        let entries = sample.entries.saturating_sub(before.entries);
        let moved = bytes.saturating_add(entries.saturating_mul(ENTRY_BYTES));
        let seconds = passed.as_secs_f64();
        let enough = sample.clump_bytes.saturating_mul(INTERVAL_CLUMPS);
        // If that comes only now, the trial is hopeless.
        let is_late = matches!(self.phase, Phase::Trying { rate, .. }
            if (enough as f64) < HOPELESS * rate * seconds);
        if moved < enough && !is_late {
            return None;
        }
        let rate = moved as f64 / seconds;
        let last = self.rates.last().map(|(rate, _)| *rate);
        let had_outage = match sample.clump_bytes {
            // Where chunks take long, one interval alone may bring nothing.
            0 => moved == 0 && last.is_none_or(|last| last <= 0.0),
            // Clumps were waited for.
            _ => last.is_some_and(|last| rate < OUTAGE * last),
        };
        if had_outage && !matches!(self.phase, Phase::Trying { .. }) {
            // It says nothing of the setting, and beside it any trial would be better.
            self.since = Some((now, *sample));
            self.rates.clear();
            return None;
        }
        self.rates.push((rate, bytes as f64 / seconds));
        self.since = Some((now, *sample));
        let is_hopeless = matches!(self.phase, Phase::Trying { rate, .. }
            if self.rates.last().is_some_and(|(now, _)| *now < HOPELESS * rate));
        if self.rates.len() < INTERVALS && !is_hopeless {
            return None;
        }
        let turn = self.judge(now);
        self.rates.clear();
        turn
    }

    /// The present setting was measured.
    fn judge(&mut self, now: Duration) -> Option<Turn> {
        let (rate, noise) = median_and_noise(self.rates.iter().map(|(rate, _)| *rate).collect());
        let (bytes_rate, _) = median_and_noise(self.rates.iter().map(|(_, rate)| *rate).collect());
        let bits = (bytes_rate * 8.0) as u64;
        match self.phase.clone() {
            Phase::Measuring => {
                self.kept = Some((rate, bits));
                self.try_next(now, rate, noise)
            }
            Phase::Trying { before, rate: rate_before, noise: noise_before } => {
                let range = &self.knobs[self.place.knob];
                let (knob, value) = (range.knob, self.values[self.place.knob]);
                let gain = if rate_before > 0.0 {
                    rate / rate_before - 1.0
                } else {
                    f64::from(u8::from(rate > 0.0))
                };
                if gain > (noise + noise_before).clamp(BETTER_MIN, BETTER_MAX) {
                    self.kept = Some((rate, bits));
                    self.place.moved = true;
                    self.refused.push(before);
                    return self.try_next(now, rate, noise);
                }
                self.values[self.place.knob] = before;
                self.refused.push(value);
                self.advance();
                self.phase = Phase::Measuring;
                let why =
                    format!("{} instead of {} is not better beyond noise", shown(rate), shown(rate_before));
                self.settle_from(now);
                Some(Turn { knob, from: value, to: before, why })
            }
            Phase::Holding { since, until, others } => {
                let kept = self.kept.map_or(0.0, |(rate, _)| rate);
                let is_other = (rate - kept).abs() > CHANGED * kept.max(1.0);
                let others = if is_other { others + 1 } else { 0 };
                let due = if others >= CHANGED_MEDIANS { until.min(since + HOLD.0) } else { until };
                if now < due {
                    self.phase = Phase::Holding { since, until, others };
                    return None;
                }
                self.place = Place::default();
                self.refused.clear();
                self.passes += 1;
                self.trials = 0;
                self.hold = if is_other { HOLD.0 } else { (self.hold * 2).min(HOLD.1) };
                self.kept = Some((rate, bits));
                self.try_next(now, rate, noise)
            }
        }
    }

    /// Turns the next knob, or holds still where nothing is left to try.
    fn try_next(&mut self, now: Duration, rate: f64, noise: f64) -> Option<Turn> {
        while self.trials < TRIALS_MAX
            && let Some(range) = self.knobs.get(self.place.knob)
        {
            let before = self.values[self.place.knob];
            let factor = STEPS[self.place.step];
            let wanted = match self.place.is_down {
                false => (f64::from(before) * factor).ceil(),
                true => (f64::from(before) / factor.min(STEP_DOWN_MAX)).floor(),
            };
            let to = clamp(wanted.min(f64::from(u32::MAX)) as u32, &range.bounds);
            // More files at once than there are, or than it is about, would only measure noise.
            let is_idle = range.knob == Knob::Concurrency && u64::from(before.min(to)) >= self.in_chunks;
            if to == before || is_idle || self.refused.contains(&to) {
                self.advance();
                continue;
            }
            let knob = range.knob;
            let direction = if to > before { "more" } else { "fewer" };
            let why = format!("trying {direction}: {} so far", shown(rate));
            self.values[self.place.knob] = to;
            self.trials += 1;
            self.phase = Phase::Trying { before, rate, noise };
            self.settle_from(now);
            return Some(Turn { knob, from: before, to, why });
        }
        self.phase = Phase::Holding { since: now, until: now + self.hold, others: 0 };
        None
    }

    /// On to the next direction, step or knob.
    fn advance(&mut self) {
        let place = &mut self.place;
        let both = place.is_down || place.moved;
        let (knob, step, is_down) = match (both, place.step + 1 < STEPS.len()) {
            (false, _) => (place.knob, place.step, true),
            (true, true) => (place.knob, place.step + 1, false),
            (true, false) => (place.knob + 1, 0, false),
        };
        if knob != place.knob {
            self.refused.clear();
        }
        *place = Place { knob, step, is_down, moved: false };
    }

    fn settle_from(&mut self, now: Duration) {
        self.settled_at = Some(now + self.settle);
        self.since = None;
    }
}

/// Median, and how far the others are from it on average, as a share of it. (Of three: half their spread at most.)
fn median_and_noise(mut rates: Vec<f64>) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    let Some(&median) = rates.get(rates.len() / 2) else { return (0.0, 0.0) };
    let distance: f64 = rates.iter().map(|rate| (rate - median).abs()).sum();
    (median, if median > 0.0 { distance / rates.len() as f64 / median } else { 0.0 })
}

fn shown(bytes_per_s: f64) -> String {
    show_rate((bytes_per_s * 8.0) as u64)
}

fn clamp(value: u32, bounds: &RangeInclusive<u32>) -> u32 {
    value.clamp(*bounds.start(), *bounds.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A transfer whose rate depends on its streams, with noise, and differently so from a moment on.
    struct Plant<'a> {
        rate: &'a dyn Fn(u32) -> f64,
        then: Option<(Duration, &'a dyn Fn(u32) -> f64)>,
        noise: f64,
        seed: u64,
    }

    impl Plant<'_> {
        /// A number from -1 to 1 (splitmix64).
        fn random(&mut self) -> f64 {
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }
    }

    struct Ran {
        value: u32,
        turns: Vec<(Duration, Turn)>,
        /// Of each pass what was turned in it.
        passes: Vec<Vec<(Duration, Turn)>>,
    }

    impl Ran {
        /// Asserts that no pass tries a value twice, or goes back to where it began but from a trial that lost.
        fn assert_never_to_and_fro(&self) {
            for pass in &self.passes {
                let mut known: Vec<u32> = pass.first().map(|(_, turn)| turn.from).into_iter().collect();
                for (_, turn) in pass.iter().filter(|(_, turn)| turn.why.starts_with("trying")) {
                    assert!(!known.contains(&turn.to), "{} again: {pass:?}", turn.to);
                    known.push(turn.to);
                }
            }
        }
    }

    fn run(plant: &mut Plant, start: u32, bounds: RangeInclusive<u32>, seconds: u64) -> Ran {
        let range = Range { knob: Knob::Streams, start, bounds: bounds.clone() };
        let mut tuner = Tuner::new(vec![range], Duration::from_millis(20));
        let (mut sample, mut turns, mut passes) = (Sample::default(), Vec::new(), vec![Vec::new()]);
        for tick in 0..seconds * 10 {
            let now = Duration::from_millis(100 * tick);
            let value = tuner.value(Knob::Streams).unwrap();
            assert!(bounds.contains(&value));
            let rate_of = plant.then.filter(|(from, _)| now >= *from).map_or(plant.rate, |(_, rate)| rate);
            let rate = rate_of(value) * (1.0 + plant.noise * plant.random());
            sample.bytes += (rate * 0.1).max(0.0) as u64;
            if let Some(turn) = tuner.sample(now, &sample) {
                assert_eq!(turn.from, value);
                assert_eq!(Some(turn.to), tuner.value(Knob::Streams));
                passes.resize(tuner.passes as usize + 1, Vec::new());
                passes[tuner.passes as usize].push((now, turn.clone()));
                turns.push((now, turn));
            }
        }
        Ran { value: tuner.best(Knob::Streams).map_or(0, |(value, _)| value), turns, passes }
    }

    /// The share of the rate that streams too many may cost at an even pace.
    const LOST_MOST: f64 = 0.9;

    /// Streams carry `each` until the path is full; beyond, each one more costs a share.
    fn hill(each: f64, full: f64, cost: f64) -> impl Fn(u32) -> f64 {
        move |streams| {
            let sum = each * f64::from(streams);
            let lost = cost * (f64::from(streams) - full / each);
            match lost {
                _ if sum <= full => sum,
                lost if lost <= LOST_MOST => full * (1.0 - lost),
                // Ever less: where nothing changes any more is no hill, and no way down from there.
                lost => full * (1.0 - LOST_MOST) * (LOST_MOST - lost).exp(),
            }
        }
    }

    proptest! {
        #[test]
        fn it_ends_near_the_best_of_any_hill_with_a_bounded_number_of_turns(
            full in 2.0f64..60.0, cost in 0.0f64..0.02, noise in 0.0f64..0.02, start in 1u32..=64, seed: u64,
        ) {
            let rate = hill(1e7, full * 1e7, cost);
            let ran = run(&mut Plant { rate: &rate, noise, seed, then: None }, start, 1..=64, 600);
            let best = (1..=64).map(&rate).fold(0.0, f64::max);
            prop_assert!(rate(ran.value) >= 0.95 * best, "{} streams of {full}: {:?}", ran.value, ran.turns);
            // Two turns a trial; passes begin after 30, 60, 120, 240 s of holding still.
            prop_assert!(ran.turns.len() <= 5 * 2 * TRIALS_MAX as usize);
            ran.assert_never_to_and_fro();
        }

        #[test]
        fn while_nothing_changes_no_pass_tries_a_value_twice_and_each_comes_later_than_the_one_before(
            noise in 0.0f64..0.02, start in 1u32..=64, seed: u64,
        ) {
            let ran = run(&mut Plant { rate: &|_| 1e8, noise, seed, then: None }, start, 1..=64, 2400);
            ran.assert_never_to_and_fro();
            prop_assert!(ran.passes.len() <= 8, "{:?}", ran.turns);
            let mut held = HOLD.0;
            for pair in ran.passes.windows(2) {
                if let (Some((ended, _)), Some((began, _))) = (pair[0].last(), pair[1].first()) {
                    prop_assert!(began.saturating_sub(*ended) >= held, "{ended:?}, {began:?}: {held:?}");
                }
                held = (held * 2).min(HOLD.1);
            }
        }

        /// Holds are up to ten minutes long by then. A change in the middle of a pass may be taken for what a trial
        /// brought.
        #[test]
        fn a_path_that_changes_is_tried_anew_soon_and_its_best_is_found(
            full in 10.0f64..60.0, full_then in 2.0f64..60.0, cost in 0.0f64..0.01, noise in 0.0f64..0.02,
            start in 1u32..=64, seed: u64, changes_s in 600u64..1500,
            times in prop_oneof![0.1f64..0.45, 1.8f64..5.0],
        ) {
            let (rate, rate_then) = (hill(1e7, full * 1e7, cost), hill(times * 1e7, full_then * times * 1e7, cost));
            let changes = Duration::from_secs(changes_s);
            let then: &dyn Fn(u32) -> f64 = &rate_then;
            let mut plant = Plant { rate: &rate, noise, seed, then: Some((changes, then)) };
            let ran = run(&mut plant, start, 1..=64, changes_s + 400);
            ran.assert_never_to_and_fro();
            let before = ran.turns.iter().rev().find(|(at, _)| *at < changes);
            // No trial takes so long.
            let stood = before.filter(|(at, _)| changes - *at >= Duration::from_secs(15)).map(|(_, turn)| turn.to);
            let is_other = |streams: &u32| (rate_then(*streams) / rate(*streams) - 1.0).abs() > CHANGED + 0.1;
            if stood.filter(is_other).is_some() {
                let is_soon = |(at, _): &(Duration, Turn)| (changes..changes + 2 * HOLD.0).contains(at);
                prop_assert!(ran.turns.iter().any(is_soon), "{:?}", ran.turns);
                let best = (1..=64).map(&rate_then).fold(0.0, f64::max);
                prop_assert!(rate_then(ran.value) >= 0.75 * best, "{} of {full_then}: {:?}", ran.value, ran.turns);
            }
        }

        #[test]
        fn whatever_the_rates_are_it_stays_within_bounds_and_a_pass_is_bounded(
            low in 1u32..20, more in 0u32..100, start: u32, noise in 0.0f64..3.0, seed: u64,
        ) {
            let rate = |streams: u32| 1e6 * f64::from(streams % 7);
            let ran = run(&mut Plant { rate: &rate, noise, seed, then: None }, start, low..=low + more, 300);
            ran.assert_never_to_and_fro();
        }
    }

    #[test]
    fn on_a_flat_path_it_tries_each_way_once_and_then_holds_longer_and_longer() {
        let ran = run(&mut Plant { rate: &|_| 1e8, noise: 0.01, seed: 1, then: None }, 8, 1..=32, 1800);
        assert_eq!(ran.value, 8);
        let trials = ran.turns.iter().filter(|(_, turn)| turn.from == 8).count();
        // Up and down, three steps each (from 8 the fourth is the third); seven passes, after 30, 60, 120, 240, 480 and
        // 600 s of holding still.
        assert!((6..=42).contains(&trials), "{trials}");
        let first: Vec<_> = ran.turns.iter().take(4).map(|(_, turn)| (turn.from, turn.to)).collect();
        assert_eq!(first, [(8, 16), (16, 8), (8, 6), (6, 8)]);
        assert!(ran.turns[1].1.why.contains("not better"), "{}", ran.turns[1].1.why);
    }

    #[test]
    fn an_outage_while_the_present_setting_is_measured_keeps_no_trial() {
        for (began, clump_bytes) in (0..80u64).flat_map(|began| [(began, 0), (began, 8_000_000)]) {
            let range = Range { knob: Knob::Streams, start: 8, bounds: 1..=32 };
            let (mut tuner, mut bytes) = (Tuner::new(vec![range], Duration::ZERO), 0);
            for tick in 0..1200 {
                bytes += if (began..began + 100).contains(&tick) { 0 } else { 10_000_000 };
                let sample = Sample { bytes, clump_bytes, ..Sample::default() };
                tuner.sample(Duration::from_millis(100 * tick), &sample);
            }
            let kept = tuner.best(Knob::Streams).map(|(streams, _)| streams);
            assert_eq!(kept, Some(8), "ten seconds of outage from tick {began} on, clumps of {clump_bytes}");
        }
    }

    #[test]
    fn a_knob_that_is_put_elsewhere_undoes_the_trial_of_another_and_is_measured_anew() {
        let range = |knob, start| Range { knob, start, bounds: 1..=1000 };
        let knobs = vec![range(Knob::Concurrency, 100), range(Knob::Streams, 19)];
        let mut tuner = Tuner::new(knobs, Duration::ZERO);
        let tried = (0..100u64).find_map(|tick| {
            let sample = Sample { bytes: tick * 1_000_000, in_chunks: 10_000, ..Sample::default() };
            tuner.sample(Duration::from_millis(100 * tick), &sample)
        });
        assert_eq!(tried.map(|turn| (turn.knob, turn.from, turn.to)), Some((Knob::Concurrency, 100, 200)));
        assert!(tuner.best(Knob::Streams).is_some());
        let turns = tuner.put(Knob::Streams, 8, "small files".to_owned());
        let told: Vec<_> = turns.iter().map(|turn| (turn.knob, turn.from, turn.to)).collect();
        assert_eq!(told, [(Knob::Concurrency, 200, 100), (Knob::Streams, 19, 8)]);
        assert_eq!((tuner.value(Knob::Concurrency), tuner.value(Knob::Streams)), (Some(100), Some(8)));
        // What 19 reached is not what 8 reach.
        assert_eq!(tuner.best(Knob::Streams), None);
        assert!(tuner.put(Knob::Streams, 8, "again".to_owned()).is_empty());
        assert_eq!(tuner.put(Knob::Streams, 5000, "too many".to_owned())[0].to, 1000);
    }

    #[test]
    fn files_at_once_are_tried_only_where_there_are_so_many() {
        let range = Range { knob: Knob::Concurrency, start: 256, bounds: 1..=4096 };
        for (in_chunks, expected) in [(1, None), (100_000, Some(512))] {
            let mut tuner = Tuner::new(vec![range.clone()], Duration::ZERO);
            let turns = (0..100).find_map(|tick| {
                let bytes = tick * 1_000_000;
                tuner.sample(
                    Duration::from_millis(100 * tick),
                    &Sample { bytes, in_chunks, ..Sample::default() },
                )
            });
            assert_eq!(turns.map(|turn| turn.to), expected);
        }
    }
}
