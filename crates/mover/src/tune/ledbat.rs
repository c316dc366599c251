//! The scavenger class: a rate that yields to others by delay.
//!
//! After RFC 6817 (LEDBAT) with what `draft-irtf-iccrg-ledbat-plus-plus` found to be needed: a window grows while the path's
//! queue is shorter than a target, shrinks by a factor while it is longer, is halved by loss, and begins again from
//! nothing by doubling. The window is that of all streams together and becomes a rate, on top of TCP's own congestion
//! control: other traffic builds a queue, the scavenger sees its delay and leaves.
//!
//! Not guaranteed: a transfer that begins while the queue is never empty takes its delay for the path's own, and yields
//! less (the latecomer's advantage of RFC 6817 section 4.4). A queue shorter than the target shows by loss only.

use std::collections::VecDeque;
use std::time::Duration;

/// What the streams of a transfer showed since the last sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Round-trip time now: of the stream that sees the least.
    pub rtt: Duration,
    /// The smallest that the kernel remembers.
    pub rtt_min: Duration,
    /// Bytes that the peer acknowledged since the last sample.
    pub acked_bytes: u64,
    /// Bytes were sent again since the last sample.
    pub lost: bool,
}

/// See the module. Time comes in with each sample, as the time since any fixed moment.
#[derive(Debug)]
pub struct Ledbat {
    window_bytes: f64,
    /// Doubles until the queue is seen for the first time, and again after each stay at the bottom.
    is_starting: bool,
    /// Smallest round trip of each minute, the latest last.
    base: VecDeque<(Duration, Duration)>,
    /// The latest few round trips: one that was late alone is no queue.
    recent: VecDeque<Duration>,
    decided_at: Option<Duration>,
}

/// Delay of the queue that is aimed at. RFC 6817 has at most 100 ms, LEDBAT++ 60 ms: what a voice call still bears.
pub const TARGET: Duration = Duration::from_millis(60);
/// Least window: two full packets, as in RFC 6817 section 2.4.2.
const WINDOW_BYTES_MIN: f64 = 2.0 * 1448.0;
const WINDOW_BYTES_MAX: f64 = (4u64 << 30) as f64;
/// Minutes of base delays that are remembered (RFC 6817: BASE_HISTORY).
const BASE_MINUTES: usize = 10;
/// Round trips that are filtered (RFC 6817: CURRENT_FILTER).
const RECENT: usize = 4;
/// The window grows by so much of itself in a round trip at most, once the queue has been seen.
const GROWTH: f64 = 0.05;
/// Shortest time between two decisions.
const STEP_MIN: Duration = Duration::from_millis(50);

impl Default for Ledbat {
    fn default() -> Self {
        Ledbat {
            // As TCP begins (RFC 6928).
            window_bytes: 10.0 * 1448.0,
            is_starting: true,
            base: VecDeque::new(),
            recent: VecDeque::new(),
            decided_at: None,
        }
    }
}

impl Ledbat {
    /// Takes a sample. Returns the rate from now on, in bytes a second.
    pub fn sample(&mut self, now: Duration, sample: &Sample) -> u64 {
        self.note(now, sample);
        let rtt = sample.rtt.max(Duration::from_micros(100));
        let is_due = self.decided_at.is_none_or(|at| now.saturating_sub(at) >= rtt.max(STEP_MIN));
        if is_due && (sample.acked_bytes > 0 || sample.lost) {
            let rounds = match self.decided_at {
                Some(at) => (now.saturating_sub(at).as_secs_f64() / rtt.as_secs_f64()).clamp(1.0, 4.0),
                None => 1.0,
            };
            self.decided_at = Some(now);
            self.decide(sample, rtt, rounds);
        }
        (self.window_bytes / rtt.as_secs_f64()) as u64
    }

    /// Delay of the path's queue, as far as it is known.
    pub fn queue(&self) -> Duration {
        let current = self.recent.iter().min().copied().unwrap_or_default();
        let base = self.base.iter().map(|(_, rtt)| *rtt).min().unwrap_or_default();
        current.saturating_sub(base)
    }

    fn note(&mut self, now: Duration, sample: &Sample) {
        let smallest = if sample.rtt_min.is_zero() { sample.rtt } else { sample.rtt.min(sample.rtt_min) };
        let minute = Duration::from_secs(now.as_secs() / 60 * 60);
        match self.base.back_mut() {
            Some((at, rtt)) if *at == minute => *rtt = (*rtt).min(smallest),
            _ => self.base.push_back((minute, smallest)),
        }
        if self.base.len() > BASE_MINUTES {
            self.base.pop_front();
        }
        self.recent.push_back(sample.rtt);
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn decide(&mut self, sample: &Sample, rtt: Duration, rounds: f64) {
        let fill = self.queue().as_secs_f64() / TARGET.as_secs_f64();
        // A window that was not used says nothing about a larger one.
        let used = sample.acked_bytes as f64 >= 0.5 * self.window_bytes * rounds.min(1.0);
        if sample.lost {
            self.window_bytes /= 2.0;
            self.is_starting = false;
        } else if fill > 1.0 {
            self.window_bytes *= (1.0 - (fill - 1.0)).clamp(0.5, 1.0);
            self.is_starting = false;
        } else if self.is_starting && fill < 0.75 {
            if used {
                self.window_bytes *= 2f64.powf(rounds.min(2.0));
            }
        } else {
            self.is_starting = false;
            let packets = self.window_bytes / 1448.0;
            // RFC 6817 section 2.4.2 adds a packet for each round trip; that takes minutes to fill a long path.
            let growth = GROWTH.max(1.0 / packets) * (1.0 - fill) * rounds;
            if used {
                self.window_bytes *= 1.0 + growth;
            }
        }
        let most = WINDOW_BYTES_MAX.min(self.window_bytes);
        self.window_bytes =
            most.max(WINDOW_BYTES_MIN * (rtt.as_secs_f64() / STEP_MIN.as_secs_f64()).max(1.0));
        if self.window_bytes <= WINDOW_BYTES_MIN * 4.0 && fill < 0.25 {
            self.is_starting = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link with a queue, on which others may send as well.
    struct Link {
        bytes_per_s: f64,
        base: Duration,
        queue_bytes: f64,
        queue_max: f64,
    }

    impl Link {
        /// Carries what both send in `step`; returns what a sample of ours shows.
        fn carry(&mut self, ours: f64, others: f64, step: Duration) -> Sample {
            let seconds = step.as_secs_f64();
            let room = self.bytes_per_s * seconds;
            self.queue_bytes = (self.queue_bytes + (ours + others) * seconds - room).max(0.0);
            let lost = self.queue_bytes > self.queue_max;
            self.queue_bytes = self.queue_bytes.min(self.queue_max);
            let share = ours / (ours + others).max(1.0);
            let acked_bytes = (ours * seconds).min(room * share) as u64;
            let rtt = self.base + Duration::from_secs_f64(self.queue_bytes / self.bytes_per_s);
            Sample { rtt, rtt_min: self.base, acked_bytes, lost }
        }
    }

    const STEP: Duration = Duration::from_millis(100);

    /// Mean rates of the last half of each phase, as shares of the link.
    fn run(link: &mut Link, phases: &[(f64, u32)]) -> Vec<f64> {
        let (mut ledbat, mut now, mut rate) = (Ledbat::default(), Duration::ZERO, 14_480.0);
        let mut shares = Vec::new();
        for &(others, steps) in phases {
            let mut sum = 0.0;
            for step in 0..steps {
                now += STEP;
                let sample = link.carry(rate, others * link.bytes_per_s, STEP);
                rate = ledbat.sample(now, &sample) as f64;
                if step >= steps / 2 {
                    sum += sample.acked_bytes as f64 / STEP.as_secs_f64() / link.bytes_per_s;
                }
            }
            shares.push(sum / f64::from(steps - steps / 2));
        }
        shares
    }

    #[test]
    fn it_takes_an_idle_link_leaves_it_to_others_and_takes_it_again() {
        for (bytes_per_s, base) in [(2.5e6, 1), (2.5e6, 40), (125e6, 100)] {
            let base = Duration::from_millis(base);
            let mut link = Link { bytes_per_s, base, queue_bytes: 0.0, queue_max: bytes_per_s * 0.3 };
            // Others that fill the link and whatever queue there is, as TCP does.
            let shares = run(&mut link, &[(0.0, 300), (1.05, 300), (0.0, 300)]);
            assert!(shares[0] > 0.8, "{base:?}: alone {shares:?}");
            assert!(shares[1] < 0.1, "{base:?}: beside others {shares:?}");
            assert!(shares[2] > 0.8, "{base:?}: alone again {shares:?}");
        }
    }

    #[test]
    fn loss_halves_and_nothing_leaves_the_bounds() {
        let mut ledbat = Ledbat::default();
        let sample = Sample {
            rtt: Duration::from_millis(10),
            rtt_min: Duration::from_millis(10),
            acked_bytes: 1 << 40,
            lost: false,
        };
        let mut now = Duration::ZERO;
        for _ in 0..1000 {
            now += STEP;
            ledbat.sample(now, &sample);
            assert!(ledbat.window_bytes <= WINDOW_BYTES_MAX);
        }
        let before = ledbat.window_bytes;
        ledbat.sample(now + STEP, &Sample { lost: true, ..sample });
        assert_eq!(ledbat.window_bytes, before / 2.0);
        for step in 2..200 {
            let rate = ledbat.sample(now + STEP * step, &Sample { lost: true, ..sample });
            assert!(ledbat.window_bytes >= WINDOW_BYTES_MIN && rate > 0);
        }
        // Zeros, as from a socket that says nothing.
        assert!(Ledbat::default().sample(Duration::ZERO, &Sample::default()) > 0);
    }
}
