//! Finding settings by trial before a transfer: one knob at a time, each candidate against what is kept. What is to be
//! measured next comes out, rates come in; nothing here measures, waits or looks at a clock.
//!
//! 1. A candidate is one knob one step away from what is kept. Both are measured in pairs, in turns (AB, BA, ...), so
//!    that what drifts meanwhile favours neither.
//! 2. It is kept if it is better beyond noise: the medians differ by more than both series vary ([`BETTER_MIN`] at
//!    least), and nearly all of its rates are above nearly all of the other's. A candidate that is behind is given up
//!    early.
//! 3. Where steps have an order the search goes on in a direction while that is better, in long steps first, and turns
//!    once. Then comes the next knob.
//! 4. At the end, where more than one candidate was kept, all of them are measured once more against where it began,
//!    the same way. What is not better then is given back as a whole. Where the search is stopped before, they stay.
//!
//! Guaranteed: no setting outside the ladders is ever measured; each step of a knob is a candidate at most once, so the
//! search ends and never comes back to what it refused; a failure of a candidate refuses it. Not guaranteed: the best
//! of all combinations, or of several hills.

use super::median_and_noise;

/// A knob and what it may stand at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ladder {
    /// Its name, for people.
    pub name: &'static str,
    /// Its steps, in words.
    pub steps: Vec<String>,
    /// Where it stands at the beginning; brought within the steps.
    pub start: usize,
    /// Neighbours are alike: the search goes up and down. Else every step is tried.
    pub is_ordered: bool,
}

/// For each ladder the step that it stands at.
pub type Setting = Vec<usize>;

/// What became of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The ladder; `None`: everything that was kept against where it began.
    pub ladder: Option<usize>,
    /// What was kept before.
    pub from: Setting,
    /// What was tried.
    pub to: Setting,
    /// Median of what was kept before, as it was told to [`Search::measured`]; 0 where it was not measured.
    pub rate_before: f64,
    /// Median of the candidate; 0 where it failed.
    pub rate: f64,
    /// It was kept.
    pub is_kept: bool,
    /// Why, in words, without the rates.
    pub why: String,
}

/// Measurements of either side of a comparison at most.
const PAIRS_MAX: usize = 4;
/// Better by less than this is not worth a setting of its own.
pub const BETTER_MIN: f64 = 0.03;
/// By more than this nothing has to be better, however noisy it is.
const BETTER_MAX: f64 = 0.25;
/// Worse by more than this in the first pair ends a comparison.
const HOPELESS: f64 = 0.15;
/// Better by more than this, each against each, ends it after two pairs.
const PLAIN: f64 = 0.3;
/// Of all pairs of a kept and a candidate's rate the candidate's is above in so many at least.
const ABOVE_MIN: f64 = 0.9;
/// First steps of an ordered ladder are so long.
const LONG: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct Search {
    ladders: Vec<Ladder>,
    start: Setting,
    kept: Setting,
    phase: Phase,
    rates: [Vec<f64>; 2],
    refused: Vec<usize>,
    decisions: Vec<Decision>,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    /// A candidate of a ladder.
    Trying {
        ladder: usize,
        to: usize,
        stride: usize,
        is_down: bool,
        moved: bool,
    },
    /// All that was kept, against the start.
    Confirming,
    Over,
}

/// Which of the two of a comparison.
const KEPT: usize = 0;
const CANDIDATE: usize = 1;

impl Search {
    /// Ladders are searched in this order. One without steps is left out of everything.
    pub fn new(ladders: Vec<Ladder>) -> Search {
        let start: Setting =
            ladders.iter().map(|ladder| ladder.start.min(ladder.steps.len().saturating_sub(1))).collect();
        let mut search = Search {
            ladders,
            kept: start.clone(),
            start,
            phase: Phase::Over,
            rates: Default::default(),
            refused: Vec::new(),
            decisions: Vec::new(),
        };
        search.phase = search.first_of(0);
        search
    }

    /// What is to be measured next; `None`: the search is over. Asking again gives the same until it was measured.
    pub fn next(&self) -> Option<Setting> {
        let candidate = self.candidate()?;
        Some(if self.turn() == KEPT { self.baseline().clone() } else { candidate })
    }

    /// The setting that [`Search::next`] named reached this rate, in any unit; or it failed.
    pub fn measured(&mut self, rate: Result<f64, String>) {
        if self.phase == Phase::Over {
            return;
        }
        let turn = self.turn();
        match rate {
            Ok(rate) => self.rates[turn].push(rate.max(0.0)),
            Err(why) if turn == CANDIDATE => return self.decide(false, format!("it failed: {why}")),
            // Without what it is compared with nothing can be said of it.
            Err(why) => return self.decide(false, format!("what stood before failed: {why}")),
        }
        if self.rates[KEPT].len() == self.rates[CANDIDATE].len() {
            self.judge();
        }
    }

    /// No more may be spent. What is under trial is not kept; what was kept before stays.
    pub fn stop(&mut self, why: &str) {
        if self.phase == Phase::Over {
            return;
        }
        if self.phase == Phase::Confirming || !self.rates[KEPT].is_empty() {
            // Each step was kept for itself.
            self.note(self.phase == Phase::Confirming, why.to_owned());
        }
        self.phase = Phase::Over;
    }

    /// What is kept now; after the end the result.
    pub fn kept(&self) -> &Setting {
        &self.kept
    }

    /// Where it began.
    pub fn start(&self) -> &Setting {
        &self.start
    }

    /// What became of candidates so far, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The ladders, as they were given.
    pub fn ladders(&self) -> &[Ladder] {
        &self.ladders
    }

    /// In each pair the other one comes first.
    fn turn(&self) -> usize {
        let [kept, candidate] = self.rates.each_ref().map(Vec::len);
        let pair = kept.min(candidate);
        match kept.cmp(&candidate) {
            std::cmp::Ordering::Equal => pair % 2,
            std::cmp::Ordering::Less => KEPT,
            std::cmp::Ordering::Greater => CANDIDATE,
        }
    }

    fn baseline(&self) -> &Setting {
        if self.phase == Phase::Confirming { &self.start } else { &self.kept }
    }

    fn candidate(&self) -> Option<Setting> {
        match self.phase {
            Phase::Trying { ladder, to, .. } => {
                let mut setting = self.kept.clone();
                setting[ladder] = to;
                Some(setting)
            }
            Phase::Confirming => Some(self.kept.clone()),
            Phase::Over => None,
        }
    }

    /// After a pair.
    fn judge(&mut self) {
        let [kept, candidate] = [&self.rates[KEPT], &self.rates[CANDIDATE]];
        let pairs = kept.len();
        let (before, noise_before) = median_and_noise(kept.clone());
        let (rate, noise) = median_and_noise(candidate.clone());
        let gain = if before > 0.0 { rate / before - 1.0 } else { f64::from(u8::from(rate > 0.0)) };
        let above = kept.iter().map(|k| candidate.iter().filter(|c| *c > k).count()).sum::<usize>();
        let above = above as f64 / (pairs * pairs) as f64;
        let wanted = (noise + noise_before).clamp(BETTER_MIN, BETTER_MAX);
        if pairs == 1 {
            if gain < -HOPELESS {
                self.decide(false, "plainly slower".to_owned());
            }
        } else if gain <= 0.0 {
            self.decide(false, "not better".to_owned());
        } else if gain > PLAIN && above == 1.0 {
            self.decide(true, "plainly better".to_owned());
        } else if pairs >= PAIRS_MAX {
            let is_better = gain > wanted && above >= ABOVE_MIN;
            let why = if is_better { "better beyond noise" } else { "not better beyond noise" };
            self.decide(is_better, why.to_owned());
        }
    }

    fn note(&mut self, is_kept: bool, why: String) {
        let Some(to) = self.candidate() else { return };
        let ladder = match self.phase {
            Phase::Trying { ladder, .. } => Some(ladder),
            _ => None,
        };
        let [before, rate] = self.rates.each_ref().map(|rates| median_and_noise(rates.clone()).0);
        let from = self.baseline().clone();
        self.decisions.push(Decision { ladder, from, to, rate_before: before, rate, is_kept, why });
    }

    fn decide(&mut self, is_kept: bool, why: String) {
        self.note(is_kept, why);
        self.rates.iter_mut().for_each(Vec::clear);
        match self.phase.clone() {
            Phase::Trying { ladder, to, stride, is_down, moved } => {
                if is_kept {
                    // What it was better than is not tried again.
                    let before = std::mem::replace(&mut self.kept[ladder], to);
                    self.refused.push(before);
                } else {
                    self.refused.push(to);
                }
                let moved = moved || is_kept;
                let stride = if is_kept { stride } else { stride / 2 };
                self.phase = self.go_on(ladder, stride, is_down, moved);
            }
            Phase::Confirming => {
                if !is_kept {
                    self.kept = self.start.clone();
                }
                self.phase = Phase::Over;
            }
            Phase::Over => {}
        }
    }

    /// The next candidate of a ladder; else the first of the next one.
    fn go_on(&mut self, ladder: usize, mut stride: usize, mut is_down: bool, moved: bool) -> Phase {
        let at = self.kept[ladder];
        let Ladder { steps, is_ordered, .. } = &self.ladders[ladder];
        if !is_ordered {
            // Every step that is not kept and was not refused.
            let left = (0..steps.len()).find(|step| *step != at && !self.refused.contains(step));
            return match left {
                Some(to) => Phase::Trying { ladder, to, stride: 1, is_down, moved },
                None => self.first_of(ladder + 1),
            };
        }
        loop {
            while stride > 0 {
                let to = if is_down { at.checked_sub(stride) } else { Some(at + stride) };
                if let Some(to) = to.filter(|to| *to < steps.len() && !self.refused.contains(to)) {
                    return Phase::Trying { ladder, to, stride, is_down, moved };
                }
                stride /= 2;
            }
            if is_down || moved {
                return self.first_of(ladder + 1);
            }
            (is_down, stride) = (true, LONG);
        }
    }

    fn first_of(&mut self, ladder: usize) -> Phase {
        self.refused.clear();
        match self.ladders.get(ladder) {
            Some(Ladder { steps, .. }) if steps.len() > 1 => self.go_on(ladder, LONG, false, false),
            Some(_) => self.first_of(ladder + 1),
            // What one comparison kept, one comparison said already.
            None if self.decisions.iter().filter(|decision| decision.is_kept).count() > 1 => {
                Phase::Confirming
            }
            None => Phase::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ladder(steps: usize, start: usize, is_ordered: bool) -> Ladder {
        let steps = (0..steps).map(|step| step.to_string()).collect();
        Ladder { name: "knob", steps, start, is_ordered }
    }

    /// A number from -1 to 1 (splitmix64).
    fn random(seed: &mut u64) -> f64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Runs it to its end; returns how many were measured.
    fn run(search: &mut Search, noise: f64, seed: u64, rate: impl Fn(&Setting) -> f64) -> usize {
        let (mut seed, mut count) = (seed, 0);
        while let Some(setting) = search.next() {
            for (step, ladder) in setting.iter().zip(search.ladders()) {
                assert!(*step < ladder.steps.len().max(1));
            }
            assert_eq!(search.next(), Some(setting.clone()));
            search.measured(Ok(rate(&setting) * (1.0 + noise * random(&mut seed))));
            count += 1;
            assert!(count < 10_000);
        }
        count
    }

    proptest! {
        #[test]
        fn it_ends_within_bounds_and_tries_no_step_twice(
            shapes in prop::collection::vec((0usize..12, 0usize..14, any::<bool>()), 0..5),
            noise in 0.0f64..0.5, seed: u64, odd in prop::collection::vec(0.0f64..2.0, 64),
        ) {
            let ladders: Vec<Ladder> = shapes.iter().map(|&(n, start, ordered)| ladder(n, start, ordered)).collect();
            let steps: usize = shapes.iter().map(|(n, ..)| n).sum();
            let mut search = Search::new(ladders);
            let start = search.start().clone();
            let rate = |setting: &Setting| {
                odd[setting.iter().fold(7usize, |sum, step| sum * 31 + step) % odd.len()]
            };
            let count = run(&mut search, noise, seed, rate);
            prop_assert!(count <= 2 * PAIRS_MAX * (steps + 1), "{count} for {steps}");
            for (at, one) in search.decisions().iter().enumerate() {
                for other in &search.decisions()[..at] {
                    prop_assert!(one.ladder != other.ladder || one.to != other.to, "{one:?} and {other:?}");
                }
            }
            let changed = search.decisions().iter().any(|decision| decision.is_kept);
            prop_assert!(changed || *search.kept() == start);
        }

        #[test]
        fn it_climbs_a_hill_and_does_no_harm(
            top in 0usize..10, start in 0usize..10, seed: u64, noise in 0.0f64..0.02,
        ) {
            let rate = |setting: &Setting| 1e9 / (1.0 + 0.2 * setting[0].abs_diff(top) as f64);
            let mut search = Search::new(vec![ladder(10, start, true)]);
            run(&mut search, noise, seed, rate);
            prop_assert!(rate(search.kept()) >= 0.83 * 1e9, "{:?}", search.decisions());
        }

        #[test]
        fn noise_alone_changes_nothing_for_the_worse(seed: u64, noise in 0.0f64..0.15) {
            let rate = |setting: &Setting| if setting[0] == 3 { 1e9 } else { 0.8e9 };
            let mut search = Search::new(vec![ladder(8, 3, true), ladder(4, 0, false)]);
            run(&mut search, noise, seed, rate);
            // A step that costs a fifth is never worth keeping; the other knob does nothing, whatever it stands at.
            prop_assert_eq!(search.kept()[0], 3);
        }
    }

    #[test]
    fn on_a_flat_way_nothing_is_changed_and_every_word_says_so() {
        let mut search = Search::new(vec![ladder(6, 2, true), ladder(3, 0, false)]);
        run(&mut search, 0.0, 1, |_| 5.0);
        assert_eq!(search.kept(), search.start());
        let tried: Vec<_> = search.decisions().iter().map(|decision| decision.to.clone()).collect();
        assert_eq!(tried, [[4, 0], [3, 0], [0, 0], [1, 0], [2, 1], [2, 2]]);
        assert!(search.decisions().iter().all(|decision| decision.why == "not better"));
    }

    #[test]
    fn gains_that_were_drift_are_given_back_at_the_end() {
        let mut search = Search::new(vec![ladder(2, 0, false), ladder(2, 0, false)]);
        let mut measured = 0;
        while let Some(setting) = search.next() {
            measured += 1;
            // Each candidate seems twice as fast, until all of them together are measured against the start.
            let is_last = search.decisions().len() == 2;
            let is_start = setting == [0, 0];
            let rate = if is_last { 1.0 } else { [1.0, 2.0, 4.0][setting.iter().sum::<usize>()] };
            search.measured(Ok(if is_last && is_start { 1.1 } else { rate }));
        }
        assert_eq!(search.kept(), &[0, 0]);
        let last = search.decisions().last().unwrap();
        assert_eq!((last.ladder, last.is_kept), (None, false));
        assert!(measured < 20);
    }

    #[test]
    fn what_fails_is_refused_and_a_stop_keeps_what_was_kept() {
        let mut search = Search::new(vec![ladder(3, 1, false), ladder(3, 0, true)]);
        // Both others of the first fail.
        while search.decisions().len() < 2 {
            let rate =
                if search.next() == Some(vec![1, 0]) { Ok(1.0) } else { Err("no such thing".to_owned()) };
            search.measured(rate);
        }
        assert!(search.decisions().iter().all(|decision| decision.why == "it failed: no such thing"));
        while search.decisions().len() < 3 {
            let rate = search.next().map_or(0.0, |setting| 1.0 + setting[1] as f64);
            search.measured(Ok(rate));
        }
        search.stop("the time is over");
        assert_eq!((search.next(), search.kept()), (None, &vec![1, 2]));
    }
}
