//! Whether the range holds what it says, and says something, by transfers that are drawn.

use super::{History, Moved, Observed};
use crate::model::prediction::{BYTES_SPREAD, ENTRIES_SPREAD, PRIOR_SPREAD, Taken, Work};
use crate::model::testing::Noise;

fn moved(work: &Work) -> Moved {
    Moved { bytes: work.bytes, entries: work.entries, ..Moved::default() }
}

/// What is expected of transfers that are alike: spreads of start, entries, bytes and end.
const EXPECTED: [f64; 4] = [PRIOR_SPREAD, ENTRIES_SPREAD, BYTES_SPREAD, PRIOR_SPREAD];

/// So many times these.
fn expected(times: f64) -> [f64; 4] {
    EXPECTED.map(|spread| spread * times)
}

/// What transfers of a way take, term by term: around these costs, with these spreads of the logarithm, of whose
/// squares all terms of a transfer have this share in common.
#[derive(Clone, Copy)]
struct Weather {
    start_s: f64,
    entry_s: f64,
    byte_s: f64,
    end_s: f64,
    /// Of start, entries, bytes and end.
    spreads: [f64; 4],
    common: f64,
}

impl Weather {
    fn transfer(&self, work: &Work, noise: &mut Noise) -> Taken {
        let of_all = self.common.sqrt() * noise.normal();
        let mut around = |cost: f64, spread: f64| {
            let own = (1.0 - self.common).sqrt() * noise.normal();
            cost * (spread * (of_all + own)).exp()
        };
        let [start, entry, byte, end] = self.spreads;
        Taken {
            start_s: around(self.start_s, start),
            entries_s: around(self.entry_s, entry) * work.entries,
            bytes_s: around(self.byte_s, byte) * work.bytes,
            back_s: 0.0,
            end_s: around(self.end_s, end),
        }
    }

    /// Shares of transfers within the range and at most at P99, of the next one after so many of another work that were
    /// remembered: by the way of every copy, through the history.
    fn held(&self, learned: &Work, earlier: usize, asked: &Work, seed: u64) -> (f64, f64) {
        const WAYS: u32 = 1500;
        let mut noise = Noise::new(seed);
        let (mut within, mut below) = (0, 0);
        for _ in 0..WAYS {
            let mut history = History::new([0; 16]);
            for _ in 0..earlier {
                let observed = Observed::of(&self.transfer(learned, &mut noise), &moved(learned), false);
                history.observe("way", observed, None, 1);
            }
            let told = history.of("way", 1).unwrap().predict(asked, 0.0).unwrap().unwrap();
            let seconds = self.transfer(asked, &mut noise).seconds();
            within += u32::from((told.low_s..=told.high_s).contains(&seconds));
            below += u32::from(seconds <= told.p99_s);
        }
        (f64::from(within) / f64::from(WAYS), f64::from(below) / f64::from(WAYS))
    }
}

/// One large file, where bytes are most; many small ones, where entries are; both alike; and where start and end are.
fn shapes() -> [(Weather, Work); 4] {
    let weather = |start_s, entry_s, byte_s, end_s| Weather {
        start_s,
        entry_s,
        byte_s,
        end_s,
        spreads: [0.0; 4],
        common: 0.0,
    };
    let work = |bytes, entries| Work { bytes, entries, ..Work::default() };
    [
        (weather(0.1, 1e-3, 1e-9, 0.5), work(1e10, 1.0)),
        (weather(0.1, 1e-4, 1e-9, 0.5), work(1e9, 1e5)),
        (weather(0.5, 1e-3, 1e-9, 0.5), work(1e9, 1e3)),
        (weather(2.0, 1e-3, 1e-9, 2.0), work(1e9, 1e3)),
    ]
}

/// Of 1500 drawn from what holds exactly, so many fewer are within three standard errors.
const CHANCE: [f64; 2] = [0.017, 0.008];
/// The same where about two thirds are.
const UNEVEN: f64 = 0.037;

#[test]
fn the_range_holds_what_it_says_from_one_earlier_transfer_on() {
    let mut seed = 0;
    for (weather, work) in shapes() {
        for (times, common) in [(0.2, 0.0), (0.7, 0.0), (1.0, 0.0), (1.0, 1.0)] {
            for earlier in [1, 2, 4, 16] {
                seed += 1;
                let weather = Weather { spreads: expected(times), common, ..weather };
                let (within, below) = weather.held(&work, earlier, &work, seed);
                let told = format!(
                    "{work:?}, {times} of what is expected, {common} in common, {earlier} earlier: {within}, {below}"
                );
                assert!(within >= 0.95 - CHANCE[0] && below >= 0.99 - CHANCE[1], "{told}");
            }
        }
        // More uneven than is expected.
        for common in [0.0, 1.0] {
            let uneven = Weather { spreads: expected(4.0 / 3.0), common, ..weather };
            let (within, below) = uneven.held(&work, 2, &work, seed);
            assert!(within >= 0.94 - CHANCE[0] && below >= 0.98 - CHANCE[1], "{work:?}: {within}, {below}");
        }
    }
}

/// Days apart, or on a line that others fill, transfers may differ by far more than in the rounds of a benchmark: each
/// that is remembered says more of that.
#[test]
fn a_way_that_is_far_more_uneven_than_others_is_known_by_its_own_transfers_after_some() {
    let (weather, work) = &shapes()[0];
    for (times, first_least, earlier, least) in [(2.0, 0.83, 6, 0.89), (3.0, 0.64, 16, 0.92)] {
        let uneven = Weather { spreads: expected(times), common: 1.0, ..*weather };
        let held = |earlier: usize| uneven.held(work, earlier, work, 77).0;
        let (first, later) = (held(1), held(earlier));
        let told = format!("{times} times: {first} after one, {later} after {earlier}");
        assert!(first >= first_least - UNEVEN && later >= least - UNEVEN && later > first, "{told}");
    }
}

/// A fifth of the earlier ones, or five times as much: the terms are put together, and a busy machine slows all of
/// them, or none, or something in between.
#[test]
fn the_range_holds_for_transfers_of_another_size_whatever_slows_their_terms_together() {
    let learned = Work { bytes: 1e10, entries: 1e4, ..Work::default() };
    let times = |times: f64| Work {
        bytes: learned.bytes * times,
        entries: learned.entries * times,
        ..Work::default()
    };
    let mut seed = 1000;
    // Seconds of the four terms, of what is asked about.
    for [start_s, entries_s, bytes_s, end_s] in [[5.0, 10.0, 30.0, 5.0], [20.0, 10.0, 10.0, 20.0]] {
        for asked in [times(0.2), times(5.0)] {
            for common in [0.0, 0.5, 1.0] {
                let weather = Weather {
                    start_s,
                    entry_s: entries_s / asked.entries,
                    byte_s: bytes_s / asked.bytes,
                    end_s,
                    spreads: [PRIOR_SPREAD; 4],
                    common,
                };
                for earlier in [1, 4, 16] {
                    seed += 1;
                    let (within, below) = weather.held(&learned, earlier, &asked, seed);
                    let told = format!("{asked:?}, {common} in common, {earlier} earlier: {within}, {below}");
                    assert!(within >= 0.95 - CHANCE[0] && below >= 0.99 - CHANCE[1], "{told}");
                }
            }
        }
    }
}

/// A range that holds everything says nothing.
#[test]
fn the_range_becomes_narrow_where_transfers_are_even() {
    let (weather, work) = &shapes()[0];
    let even = Weather { spreads: [0.02; 4], ..*weather };
    let width = |earlier: usize| {
        let mut history = History::new([0; 16]);
        let mut noise = Noise::new(7);
        for _ in 0..earlier {
            let taken = even.transfer(work, &mut noise);
            history.observe("way", Observed::of(&taken, &moved(work), false), None, 1);
        }
        let told = history.of("way", 1).unwrap().predict(work, 0.0).unwrap().unwrap();
        told.high_s / told.low_s
    };
    assert!(width(1) > width(4) && width(4) > width(16), "{} {} {}", width(1), width(4), width(16));
    assert!(width(1) < 3.8 && width(16) < 1.5, "{} {}", width(1), width(16));
}
