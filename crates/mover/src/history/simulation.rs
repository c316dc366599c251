//! Whether the range holds what it says, and says something, by transfers that are drawn.

use super::{History, Moved, Observed};
use crate::model::prediction::{PRIOR_SPREAD, Taken, Work};
use crate::model::testing::Noise;

fn moved(work: &Work) -> Moved {
    Moved { bytes: work.bytes, entries: work.entries, ..Moved::default() }
}

/// What transfers of a way take, term by term: around these costs, with this spread of the logarithm, of whose square
/// all terms of a transfer have this share in common.
#[derive(Clone, Copy)]
struct Weather {
    start_s: f64,
    entry_s: f64,
    byte_s: f64,
    end_s: f64,
    spread: f64,
    common: f64,
}

impl Weather {
    fn transfer(&self, work: &Work, noise: &mut Noise) -> Taken {
        let of_all = self.common.sqrt() * noise.normal();
        let mut around = |cost: f64| {
            let own = (1.0 - self.common).sqrt() * noise.normal();
            cost * (self.spread * (of_all + own)).exp()
        };
        Taken {
            start_s: around(self.start_s),
            entries_s: around(self.entry_s) * work.entries,
            bytes_s: around(self.byte_s) * work.bytes,
            back_s: 0.0,
            end_s: around(self.end_s),
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
        spread: 0.0,
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

#[test]
fn the_range_holds_what_it_says_from_one_earlier_transfer_on() {
    let mut seed = 0;
    for (weather, work) in shapes() {
        for spread in [0.05, 0.2, PRIOR_SPREAD] {
            for earlier in [1, 2, 4, 16] {
                seed += 1;
                let (within, below) = Weather { spread, ..weather }.held(&work, earlier, &work, seed);
                let told = format!("{work:?}, spread {spread}, {earlier} earlier: {within}, {below}");
                assert!(within >= 0.95 - CHANCE[0] && below >= 0.99 - CHANCE[1], "{told}");
            }
        }
        // More uneven than anybody expects.
        let (within, below) = Weather { spread: 0.4, ..weather }.held(&work, 2, &work, seed);
        assert!(within >= 0.90 - CHANCE[0] && below >= 0.97 - CHANCE[1], "{work:?}: {within}, {below}");
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
                    spread: PRIOR_SPREAD,
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
    let even = Weather { spread: 0.02, ..*weather };
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
    assert!(width(1) < 12.0 && width(16) < 2.0, "{} {}", width(1), width(16));
}
