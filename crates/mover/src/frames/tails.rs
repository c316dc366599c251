//! Latencies in bounded memory.

use super::frame::Latency;
use crate::model::score;

/// Buckets for each doubling: a bucket is at most 1/128 of its value wide.
const PER_DOUBLING: u64 = 128;
/// Values below this have a bucket each.
const EXACT: u64 = PER_DOUBLING;
/// The largest value told apart: 2^42 ns, 73 minutes.
const DOUBLINGS: u64 = 42 - 7;
/// Buckets in all.
const BUCKETS: usize = (EXACT + DOUBLINGS * PER_DOUBLING) as usize;

/// A histogram of times in nanoseconds: 36 KiB, whatever comes.
#[derive(Debug, Clone)]
pub struct Tails {
    buckets: Vec<u64>,
    count: u64,
    max_ns: u64,
    bound_ns: u64,
    frames: u64,
    mean_bytes: f64,
    link_bits_per_s: Option<u64>,
}

impl Default for Tails {
    fn default() -> Self {
        Tails {
            buckets: vec![0; BUCKETS],
            count: 0,
            max_ns: 0,
            bound_ns: 0,
            frames: 0,
            mean_bytes: 0.0,
            link_bits_per_s: None,
        }
    }
}

impl Tails {
    /// One more time, that may be wrong by `bound_ns`.
    pub fn add(&mut self, time_ns: u64, bound_ns: u64) {
        self.buckets[bucket(time_ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(time_ns);
        self.bound_ns = self.bound_ns.max(bound_ns);
    }

    /// What the link could carry, for the score.
    pub fn set_link(&mut self, bits_per_s: Option<u64>) {
        self.link_bits_per_s = bits_per_s.filter(|&bits| bits > 0);
    }

    /// A frame of so many bytes came.
    pub fn came(&mut self, bytes: u64) {
        self.frames += 1;
        self.mean_bytes += (bytes as f64 - self.mean_bytes) / self.frames as f64;
    }

    /// Frames that came, and of which no time is known.
    pub fn unmeasured(&self) -> u64 {
        self.frames.saturating_sub(self.count)
    }

    /// What it shows; `None` without a time.
    pub fn latency(&self) -> Option<Latency> {
        if self.count == 0 {
            return None;
        }
        let ideal_s = self.link_bits_per_s.map(|bits| self.mean_bytes * 8.0 / bits as f64);
        let speed_score = ideal_s.and_then(|ideal| score::speed_score(self.max_ns as f64 / 1e9, ideal).ok());
        Some(Latency {
            count: self.count,
            p50_ns: self.at(50),
            p90_ns: self.at(90),
            p99_ns: self.at(99),
            max_ns: self.max_ns,
            bound_ns: self.bound_ns,
            speed_score,
        })
    }

    /// P50, P90, P99 and the longest; zeros without a time.
    pub fn four(&self) -> [u64; 4] {
        self.latency().map_or([0; 4], |tail| [tail.p50_ns, tail.p90_ns, tail.p99_ns, tail.max_ns])
    }

    /// Nearest rank: the upper edge of the bucket that holds it, and never more than the longest.
    fn at(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return upper_edge(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

fn bucket(time_ns: u64) -> usize {
    if time_ns < EXACT {
        return time_ns as usize;
    }
    let doubling = u64::from(time_ns.ilog2()) - 7;
    let within = (time_ns >> doubling) - PER_DOUBLING;
    ((EXACT + doubling * PER_DOUBLING + within) as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper_edge(index: usize) -> u64 {
    let index = index as u64;
    if index < EXACT {
        return index;
    }
    let (doubling, within) = ((index - EXACT) / PER_DOUBLING, (index - EXACT) % PER_DOUBLING);
    ((PER_DOUBLING + within + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_those_of_the_sorted_times_within_a_hundredth() {
        let mut tails = Tails::default();
        (1..=1000u64).for_each(|at| tails.add(at * 1_000_000, 500));
        let tail = tails.latency().unwrap();
        for (told, truth) in
            [(tail.p50_ns, 500_000_000u64), (tail.p90_ns, 900_000_000), (tail.p99_ns, 990_000_000)]
        {
            assert!(told >= truth && told <= truth + truth / 100, "{told} for {truth}");
        }
        assert_eq!((tail.max_ns, tail.bound_ns, tail.count), (1_000_000_000, 500, 1000));
    }

    #[test]
    fn without_a_time_there_is_no_tail() {
        assert_eq!(Tails::default().latency(), None);
    }

    #[test]
    fn frames_without_a_time_are_counted_and_are_in_no_rank() {
        let mut tails = Tails::default();
        for time_ns in [None, None, Some(50), Some(60), None] {
            tails.came(1);
            if let Some(time_ns) = time_ns {
                tails.add(time_ns, 0);
            }
        }
        let tail = tails.latency().unwrap();
        assert_eq!((tails.unmeasured(), tail.count, tail.p50_ns, tail.max_ns), (3, 2, 50, 60));
    }

    #[test]
    fn the_score_is_the_worst_time_over_that_of_a_mean_frame_on_the_link() {
        let mut tails = Tails::default();
        for _ in 0..100 {
            tails.came(1_000_000);
            tails.add(5_000_000, 0);
        }
        assert_eq!(tails.latency().unwrap().speed_score, None);
        // 1 MB at 8 Gbit/s takes 1 ms; the worst took 5.
        tails.set_link(Some(8_000_000_000));
        let score = tails.latency().unwrap().speed_score.unwrap();
        assert!((score - 5.0).abs() < 1e-9, "{score}");
    }

    proptest! {
        #[test]
        fn a_bucket_holds_what_is_put_into_it(time_ns in 0u64..1 << 41) {
            let edge = upper_edge(bucket(time_ns));
            prop_assert!(edge >= time_ns && edge <= time_ns + time_ns / 128 + 1);
            prop_assert!(bucket(u64::MAX) == BUCKETS - 1);
        }
    }
}
