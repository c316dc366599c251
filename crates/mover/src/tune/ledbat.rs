//! The scavenger class: a rate that yields to others by delay.
//!
//! After RFC 6817 (LEDBAT) with what `draft-irtf-iccrg-ledbat-plus-plus` found to be needed: it grows while the path's
//! queue is shorter than a target, is cut by a factor while it is longer, halved by loss, and begins again from nothing
//! by leaps. A queue that stands while we carry less than we could is others': then it is cut far, at once. What grows
//! and shrinks is a rate of all streams together, not a window: within a room a round trip is microseconds, and a
//! window says nothing there. TCP's own congestion control goes on below.
//!
//! The target is half the path's own round trip, within bounds. RFC 6817's 100 ms, and LEDBAT++'s 60 ms, were tried
//! first: BBR does not push against a standing queue, and a stream with BBR got 0.4 of 40 Mbit/s beside a queue of 56
//! ms.
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
    /// Other transfers that share these streams and yield as well.
    pub others: u32,
    /// What the peer acknowledged of theirs.
    pub others_acked_bytes: u64,
}

impl Sample {
    /// Of what several transfers showed together, the part of each of them, by how much each sent lately: what all of
    /// them carry is not what each of them does, and all of them leave others what one alone would.
    pub fn parts(&self, sent: &[f64]) -> Vec<Sample> {
        let total: f64 = sent.iter().sum();
        let others = u32::try_from(sent.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let part = |sent: &f64| {
            let share = if total > 0.0 { sent / total } else { 1.0 / (f64::from(others) + 1.0) };
            let acked_bytes = ((self.acked_bytes as f64 * share) as u64).min(self.acked_bytes);
            Sample { acked_bytes, others, others_acked_bytes: self.acked_bytes - acked_bytes, ..*self }
        };
        sent.iter().map(part).collect()
    }
}

/// See the module. Time comes in with each sample, as the time since any fixed moment.
#[derive(Debug)]
pub struct Ledbat {
    frame_bytes: f64,
    bytes_per_s: f64,
    /// Leaps until the queue is seen for the first time, and again after each stay at the bottom.
    is_starting: bool,
    /// What each minute showed of the path, the latest last.
    minutes: VecDeque<Minute>,
    /// The latest round trip. Of several the least (RFC 6817: CURRENT_FILTER) is older than a short queue takes to
    /// overflow; and the kernel's is smooth.
    current: Duration,
    decided_at: Option<Duration>,
    /// No second cut before then, or before so many bytes were acknowledged since.
    cut_again_at: Duration,
    unseen_bytes: u64,
    /// Round-trip time at the last decision.
    rtt_before: Duration,
    /// What was carried before each of the latest decisions, in bytes a second: its own, and with others that share the
    /// streams.
    carried_lately: [(f64, f64); CARRIED_LATELY],
    /// The queue at the last decision, as a share of the target.
    fill_before: f64,
    /// Bytes acknowledged since the last decision.
    acked_bytes: u64,
    /// Of those others.
    others_acked_bytes: u64,
    lost: bool,
    /// Bytes were sent again before the last decision: what stood behind them was acknowledged since in one leap.
    lost_before: bool,
}

#[derive(Debug)]
struct Minute {
    /// When it began.
    at: Duration,
    /// The smallest round trip.
    rtt: Duration,
    /// The most that was carried, in bytes a second; with others that share the streams, as in [`Sample`].
    carried: f64,
}

/// Bounds of the queue's delay that is aimed at: below, a disk's own rhythm looks like others; above, a voice call
/// suffers.
pub const TARGET: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(60));
/// The streams of a transfer that yields have their packets spaced for so many times its rate. A frame that left at
/// twice the rate would fill a queue on the way by half its size: that hides how long the queue is without it, and
/// overflows a short one.
pub const SPACED_TIMES: f64 = 1.05;
/// Never less than two full packets (RFC 6817 section 2.4.2) for each decision, nor than a share of the most that was
/// carried: the kernel's round-trip time follows acknowledgements, an eighth of the way each. Transfers that share
/// their streams have this together.
const SHARE_MIN: f64 = 0.02;
const RATE_MIN: f64 = 40.0 * 1448.0;
const RATE_MAX: f64 = 125e9;
/// What it begins with.
const RATE_FIRST: f64 = 4.0 * RATE_MIN;
/// Minutes that are remembered (RFC 6817: BASE_HISTORY): a path that became longer, or carries less, is known by then.
const MINUTES: usize = 10;
/// Growth in a decision at most, once the queue has been seen. RFC 6817 adds a packet for each round trip; that takes
/// minutes to fill a long path.
const GROWTH: f64 = 0.03;
/// Growth in a decision before that.
const START: f64 = 1.5;
/// Growth beyond what was carried says nothing about the path: while starting, and later, when it only fills a queue
/// sooner than that is seen.
const ROOM: (f64, f64) = (1.5, 1.05);
/// Decisions of which the most that was carried counts: frames come at intervals.
const CARRIED_LATELY: usize = 3;
/// Shortest time between two decisions.
const STEP_MIN: Duration = Duration::from_millis(90);
/// Least and most time between two cuts, and bytes acknowledged meanwhile: before, the kernel's round-trip time shows
/// what was before the cut.
const CUT_STEP: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(2));
const CUT_BYTES: u64 = 128 << 10;
/// A queue of so much of the target, while we carry less than so much of the most that we ever did, is others': a cut
/// to this share leaves them the path at once. Not where we carry less than so much of our rate: others may have no
/// part in that.
const FILLED: f64 = 0.5;
const OURS: f64 = 0.85;
const USED: f64 = 0.7;
const CUT_FOR_OTHERS: f64 = 0.3;
/// A round trip below so much of the one before shows a queue that drains.
const DRAINS: f64 = 0.98;

impl Ledbat {
    /// For a transfer whose frames have so many bytes.
    pub fn new(frame_bytes: u32) -> Ledbat {
        Ledbat {
            frame_bytes: f64::from(frame_bytes),
            bytes_per_s: RATE_FIRST,
            is_starting: true,
            minutes: VecDeque::new(),
            current: Duration::ZERO,
            carried_lately: [(0.0, 0.0); CARRIED_LATELY],
            fill_before: 0.0,
            decided_at: None,
            cut_again_at: Duration::ZERO,
            unseen_bytes: 0,
            rtt_before: Duration::ZERO,
            acked_bytes: 0,
            others_acked_bytes: 0,
            lost: false,
            lost_before: false,
        }
    }

    /// The rate now, in bytes a second.
    pub fn rate(&self) -> u64 {
        self.bytes_per_s as u64
    }

    /// Takes a sample. Returns the rate from now on, in bytes a second.
    pub fn sample(&mut self, now: Duration, sample: &Sample) -> u64 {
        self.note(now, sample);
        let transfers = f64::from(sample.others) + 1.0;
        if self.decided_at.is_none() {
            self.bytes_per_s = RATE_FIRST / transfers;
        }
        self.acked_bytes += sample.acked_bytes;
        self.others_acked_bytes += sample.others_acked_bytes;
        self.unseen_bytes = self.unseen_bytes.saturating_sub(sample.acked_bytes + sample.others_acked_bytes);
        self.lost |= sample.lost;
        let passed = now.saturating_sub(*self.decided_at.get_or_insert(now));
        if passed >= sample.rtt.max(STEP_MIN) && (self.acked_bytes > 0 || self.lost) {
            self.decide(now, sample.rtt, passed, transfers);
            self.decided_at = Some(now);
            self.lost_before = std::mem::take(&mut self.lost);
            (self.acked_bytes, self.others_acked_bytes) = (0, 0);
        }
        self.rate()
    }

    fn base(&self) -> Duration {
        self.minutes.iter().map(|minute| minute.rtt).min().unwrap_or_default()
    }

    /// The most that was carried, in bytes a second.
    fn carried_max(&self) -> f64 {
        self.minutes.iter().map(|minute| minute.carried).fold(0.0, f64::max)
    }

    /// Delay of the queue that is aimed at on this path; a frame of ours that waits behind its own beginning, because
    /// it leaves sooner than at the rate, is no queue.
    fn target(&self) -> Duration {
        let ahead = self.frame_bytes * (1.0 - 1.0 / SPACED_TIMES);
        let own = ahead / self.carried_max().max(RATE_MIN);
        ((self.base() / 2).max(TARGET.0) + Duration::from_secs_f64(own)).min(TARGET.1)
    }

    /// Delay of the path's queue, as far as it is known.
    pub fn queue(&self) -> Duration {
        self.current.saturating_sub(self.base())
    }

    fn note(&mut self, now: Duration, sample: &Sample) {
        let smallest = if sample.rtt_min.is_zero() { sample.rtt } else { sample.rtt.min(sample.rtt_min) };
        let minute = Duration::from_secs(now.as_secs() / 60 * 60);
        match self.minutes.back_mut() {
            Some(latest) if latest.at == minute => latest.rtt = latest.rtt.min(smallest),
            _ => self.minutes.push_back(Minute { at: minute, rtt: smallest, carried: 0.0 }),
        }
        if self.minutes.len() > MINUTES {
            self.minutes.pop_front();
        }
        // Of streams on which nothing arrived it is an old one.
        if sample.acked_bytes + sample.others_acked_bytes > 0 || self.current.is_zero() {
            self.current = sample.rtt;
        }
    }

    fn decide(&mut self, now: Duration, rtt: Duration, passed: Duration, transfers: f64) {
        let fill = self.queue().as_secs_f64() / self.target().as_secs_f64();
        let a_second = |bytes: u64| bytes as f64 / passed.as_secs_f64();
        self.carried_lately.rotate_right(1);
        let all = a_second(self.acked_bytes + self.others_acked_bytes);
        self.carried_lately[0] = (a_second(self.acked_bytes), all);
        if let Some(minute) = self.minutes.back_mut().filter(|_| !self.lost && !self.lost_before) {
            minute.carried = minute.carried.max(all);
        }
        let most = |(own, all): (f64, f64), one: &(f64, f64)| (own.max(one.0), all.max(one.1));
        let (carried, together) = self.carried_lately.iter().fold((0.0, 0.0), most);
        let carried_max = self.carried_max();
        let least = RATE_MIN.max(SHARE_MIN * carried_max) / transfers;
        if self.lost || fill > 1.0 {
            self.is_starting = false;
            let is_shown = self.unseen_bytes == 0 || now >= self.cut_again_at + CUT_STEP.1;
            // A queue that drains is what the last cut was for.
            let drains = !self.lost && rtt.as_secs_f64() < DRAINS * self.rtt_before.as_secs_f64();
            if now >= self.cut_again_at && is_shown && !drains {
                let is_full = fill.max(self.fill_before) > FILLED;
                let is_used = carried > USED * self.bytes_per_s;
                let is_others = is_full && is_used && together < OURS * carried_max;
                let factor = match (is_others, self.lost) {
                    (true, _) => CUT_FOR_OTHERS,
                    (false, true) => 0.5,
                    (false, false) => (2.0 - fill).clamp(0.5, 0.8),
                };
                // Of what is carried: a rate that was never reached would be cut for nothing.
                self.bytes_per_s = self.bytes_per_s.min(carried) * factor;
                self.cut_again_at = now + CUT_STEP.0.max(rtt * 4);
                self.unseen_bytes = CUT_BYTES;
            }
        } else {
            self.is_starting &= fill < 0.75;
            let (growth, room) = match self.is_starting {
                true => (START, ROOM.0),
                false => (1.0 + GROWTH * (1.0 - fill), ROOM.1),
            };
            let most = (carried * room).max(4.0 * least);
            if self.bytes_per_s < most {
                self.bytes_per_s = (self.bytes_per_s * growth).min(most);
            }
        }
        (self.rtt_before, self.fill_before) = (rtt, fill);
        self.bytes_per_s = self.bytes_per_s.clamp(least.min(RATE_MAX), RATE_MAX);
        if self.bytes_per_s <= 2.0 * least && fill < 0.5 {
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
            Sample { rtt, rtt_min: self.base, acked_bytes, lost, ..Sample::default() }
        }
    }

    const STEP: Duration = Duration::from_millis(100);

    /// Mean rates of the last half of each phase, as shares of the link.
    fn run(link: &mut Link, phases: &[(f64, u32)]) -> Vec<f64> {
        let (mut ledbat, mut now, mut rate) = (Ledbat::new(64 << 10), Duration::ZERO, 14_480.0);
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
        for (bytes_per_s, base) in [(2.5e6, 1), (2.5e6, 40), (125e6, 100), (1.25e9, 1)] {
            let base = Duration::from_millis(base);
            let mut link = Link { bytes_per_s, base, queue_bytes: 0.0, queue_max: bytes_per_s * 0.3 };
            // Others that fill the link and whatever queue there is, as TCP does.
            let shares = run(&mut link, &[(0.0, 300), (1.05, 300), (0.0, 300)]);
            assert!(shares[0] > 0.75, "{base:?}: alone {shares:?}");
            assert!(shares[1] < 0.1, "{base:?}: beside others {shares:?}");
            assert!(shares[2] > 0.75, "{base:?}: alone again {shares:?}");
        }
    }

    #[test]
    fn who_comes_to_a_full_link_and_shares_it_as_tcp_does_soon_has_most_of_it() {
        let bytes_per_s = 12.5e6;
        let queue_max = bytes_per_s * 0.02;
        let mut link = Link { bytes_per_s, base: STEP / 5, queue_bytes: 0.0, queue_max };
        let (mut ledbat, mut rate) = (Ledbat::new(64 << 10), 14_480.0);
        let (mut others, mut shares) = (0.0, Vec::new());
        for step in 1..=400 {
            let sample = link.carry(rate, others * bytes_per_s, STEP);
            rate = ledbat.sample(STEP * step, &sample) as f64;
            shares.push(sample.acked_bytes as f64 / STEP.as_secs_f64() / bytes_per_s);
            others = match (step, sample.lost) {
                (..300, _) => 0.0,
                (300, _) => 0.3,
                (_, true) => others * 0.7,
                (_, false) => others + 0.03,
            };
        }
        let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len() as f64;
        let (alone, beside) = (mean(&shares[150..300]), mean(&shares[320..]));
        assert!(alone > 0.75, "alone {alone}");
        assert!(beside < 0.3, "beside others {beside}");
    }

    #[test]
    fn sixteen_transfers_that_share_their_streams_leave_others_what_one_leaves() {
        for (bytes_per_s, base) in [(2.5e6, 40), (125e6, 100)] {
            let base = Duration::from_millis(base);
            let mut link = Link { bytes_per_s, base, queue_bytes: 0.0, queue_max: bytes_per_s * 0.3 };
            let mut all: Vec<Ledbat> = (0..16).map(|_| Ledbat::new(64 << 10)).collect();
            let (mut now, mut rates, mut shares) = (Duration::ZERO, vec![905.0; 16], Vec::new());
            for others in [0.0, 1.05] {
                let mut acked_bytes = 0;
                for step in 0..300 {
                    now += STEP;
                    let sample = link.carry(rates.iter().sum(), others * bytes_per_s, STEP);
                    let parts = sample.parts(&rates);
                    let each = all.iter_mut().zip(&parts);
                    rates = each.map(|(one, part)| one.sample(now, part) as f64).collect();
                    acked_bytes += if step < 150 { 0 } else { sample.acked_bytes };
                }
                shares.push(acked_bytes as f64 / (STEP * 150).as_secs_f64() / bytes_per_s);
            }
            assert!(shares[0] > 0.75, "{base:?}: alone {shares:?}");
            assert!(shares[1] < 0.1, "{base:?}: beside others {shares:?}");
        }
    }

    #[test]
    fn parts_of_a_sample_are_by_what_was_sent_and_the_whole_together() {
        let sample = Sample { acked_bytes: 1000, lost: true, ..Sample::default() };
        assert_eq!(sample.parts(&[7.0]), [sample]);
        let parts = sample.parts(&[3.0, 0.0, 1.0]);
        assert_eq!(parts.iter().map(|part| part.acked_bytes).collect::<Vec<_>>(), [750, 0, 250]);
        assert!(parts.iter().all(|part| part.acked_bytes + part.others_acked_bytes == 1000));
        assert!(parts.iter().all(|part| part.lost && part.others == 2));
        // Nobody knows whose it is.
        assert_eq!(sample.parts(&[0.0, 0.0])[1].acked_bytes, 500);
    }

    #[test]
    fn loss_halves_and_nothing_leaves_the_bounds() {
        let mut ledbat = Ledbat::new(64 << 10);
        let sample = Sample {
            rtt: Duration::from_millis(10),
            rtt_min: Duration::from_millis(10),
            acked_bytes: 1 << 30,
            ..Sample::default()
        };
        let mut now = Duration::ZERO;
        for _ in 0..1000 {
            now += STEP;
            assert!(ledbat.sample(now, &sample) as f64 <= RATE_MAX);
        }
        let before = ledbat.bytes_per_s;
        ledbat.sample(now + STEP * 4, &Sample { lost: true, ..sample });
        assert!(ledbat.bytes_per_s <= before / 2.0);
        for step in 5..200 {
            let rate = ledbat.sample(now + STEP * step, &Sample { lost: true, acked_bytes: 1, ..sample });
            assert!(rate as f64 >= RATE_MIN);
        }
        // Zeros, as from a socket that says nothing.
        assert!(Ledbat::new(64 << 10).sample(Duration::ZERO, &Sample::default()) > 0);
    }
}
