//! How late bytes are: the time from when a piece was read until the receiver said that it is durable.
//!
//! By the clock of the side that reads, so no clocks are compared; the way back of the receiver's word is in it.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use thalweg_wire::EntryId;

/// Lags of all pieces so far. Pieces that were not marked yet are remembered: no more than the window holds. What was
/// marked is counted in buckets, each 3 % wide, so that memory does not grow with time.
#[derive(Debug, Default)]
pub struct Lags {
    waiting: BTreeMap<EntryId, VecDeque<Waiting>>,
    buckets: BTreeMap<u16, u64>,
    lags: Lag,
    deadline: Option<Duration>,
    /// The first that was late; not said yet.
    first_late: Option<LatePiece>,
}

/// A piece that was later than its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatePiece {
    /// From read to marked.
    pub lag: Duration,
    /// Of these, the time until it might go.
    pub until_sent: Duration,
}

/// A piece that is not marked: where it ends, when it was read, when it went first.
#[derive(Debug)]
struct Waiting {
    end: u64,
    read: Instant,
    sent: Option<Instant>,
}

/// What there is to say of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Pieces that were marked.
    pub pieces: u64,
    /// Half of them were at least as early, to 3 %.
    pub p50: Duration,
    /// 99 of 100 were, to 3 %.
    pub p99: Duration,
    /// The worst.
    pub worst: Duration,
    /// Of the worst, the time until it might go: the buffer, the slot, the limit of the rate. The rest is the way, and
    /// the disk.
    pub worst_until_sent: Duration,
    /// Pieces that were later than the deadline, where there is one.
    pub late: u64,
}

impl Lags {
    /// What is later than that is counted.
    pub fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = Some(deadline);
    }

    /// A flow was read up to `end`.
    pub fn read(&mut self, flow: EntryId, end: u64, now: Instant) {
        self.waiting.entry(flow).or_default().push_back(Waiting { end, read: now, sent: None });
    }

    /// The piece that ends at `end` goes, for the first time or again.
    pub fn sent(&mut self, flow: EntryId, end: u64, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(&flow) else { return };
        let index = waiting.partition_point(|piece| piece.end < end);
        if let Some(piece) = waiting.get_mut(index).filter(|piece| piece.end == end) {
            piece.sent.get_or_insert(now);
        }
    }

    /// All of a flow up to `bytes` is durable.
    pub fn marked(&mut self, flow: EntryId, bytes: u64, now: Instant) {
        let Some(waiting) = self.waiting.get_mut(&flow) else { return };
        while let Some(piece) = waiting.pop_front_if(|piece| piece.end <= bytes) {
            let lag = now.saturating_duration_since(piece.read);
            let until_sent = piece.sent.unwrap_or(now).saturating_duration_since(piece.read);
            if lag > self.lags.worst {
                self.lags.worst_until_sent = until_sent;
            }
            *self.buckets.entry(bucket(lag)).or_default() += 1;
            self.lags.pieces += 1;
            self.lags.worst = self.lags.worst.max(lag);
            if self.deadline.is_some_and(|deadline| lag > deadline) {
                self.lags.late += 1;
                if self.lags.late == 1 {
                    self.first_late = Some(LatePiece { lag, until_sent });
                }
            }
        }
    }

    /// The first piece that was late, said once.
    pub fn take_first_late(&mut self) -> Option<LatePiece> {
        self.first_late.take()
    }

    /// A flow is over, or is read anew.
    pub fn forget(&mut self, flow: EntryId) {
        self.waiting.remove(&flow);
    }

    /// So far.
    pub fn so_far(&self) -> Lag {
        let at = |percent: u64| self.quantile(percent).min(self.lags.worst);
        Lag { p50: at(50), p99: at(99), ..self.lags }
    }

    fn quantile(&self, percent: u64) -> Duration {
        let wanted = (self.lags.pieces * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return upper(*bucket);
            }
        }
        Duration::ZERO
    }
}

/// Bits of a lag in microseconds that tell buckets apart.
const DIGITS: u32 = 5;

/// The power of two, then the bits behind the first.
fn bucket(lag: Duration) -> u16 {
    let micros = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX).max(1 << DIGITS);
    let power = micros.ilog2();
    let digits = (micros >> (power - DIGITS)) & ((1 << DIGITS) - 1);
    ((power << DIGITS) | digits as u32) as u16
}

/// The largest lag of a bucket.
fn upper(bucket: u16) -> Duration {
    let (power, digits) = (u32::from(bucket) >> DIGITS, u64::from(bucket) & ((1 << DIGITS) - 1));
    let next = u128::from(digits + 1 + (1 << DIGITS)) << (power - DIGITS);
    Duration::from_micros(u64::try_from(next - 1).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_counted_when_their_bytes_are_marked() {
        let began = Instant::now();
        let ms = |ms| began + Duration::from_millis(ms);
        let mut lags = Lags::default();
        lags.set_deadline(Duration::from_millis(150));
        let flow = EntryId(3);
        for piece in 0..100u64 {
            lags.read(flow, (piece + 1) * 10, ms(piece));
        }
        lags.marked(flow, 9, ms(100));
        assert_eq!(lags.so_far().pieces, 0);
        lags.sent(flow, 20, ms(31));
        lags.sent(flow, 20, ms(90));
        lags.sent(flow, 25, ms(90));
        lags.marked(flow, 505, ms(100));
        assert_eq!(lags.so_far().worst_until_sent, Duration::from_millis(100), "nobody said that it went");
        assert_eq!((lags.so_far().pieces, lags.so_far().late), (50, 0));
        lags.sent(flow, 510, ms(120));
        assert_eq!(lags.take_first_late(), None);
        lags.marked(flow, 1000, ms(249));
        let seen = lags.so_far();
        assert_eq!((seen.pieces, seen.worst, seen.late), (100, Duration::from_millis(199), 49));
        assert_eq!(seen.worst_until_sent, Duration::from_millis(70));
        let late = LatePiece { lag: Duration::from_millis(199), until_sent: Duration::from_millis(70) };
        assert_eq!((lags.take_first_late(), lags.take_first_late()), (Some(late), None), "said once");
        let near = |found: Duration, ms: f64| (found.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.04;
        assert!(near(seen.p50, 100.0) && near(seen.p99, 198.0), "{seen:?}");
        lags.read(flow, 1010, ms(300));
        lags.forget(flow);
        lags.marked(flow, 1010, ms(400));
        assert_eq!(lags.so_far().pieces, 100);
    }

    #[test]
    fn buckets_hold_what_falls_into_them() {
        for micros in [0, 1, 31, 32, 33, 63, 64, 1000, 123_456, 9_999_999, u64::MAX / 2] {
            let lag = Duration::from_micros(micros);
            let top = upper(bucket(lag));
            assert!(top >= lag && top.as_secs_f64() <= lag.as_secs_f64() * 1.04 + 32e-6, "{micros}");
        }
    }
}
