//! How fast the path takes what a stream gives it.

use crate::stage::send::Queued;
use std::time::Instant;

/// How long the path takes for a byte, and for how long it has enough to take, as the socket in front of it shows:
/// that has a buffer, of which the kernel tells what waits and what is under way. Under way is also what waits in
/// queues of the path itself: what takes longer than the shortest round trip.
///
/// Looked at before a segment is compressed, and before a frame is put. In between the stream waits for the path or
/// does something short; if there is still enough at the end of that, the path was busy meanwhile, and what it took is
/// what has arrived.
pub(super) struct Path {
    segment_bytes: usize,
    /// At the latest look.
    queued: Queued,
    /// When the latest frame was put, and how many bytes had not arrived then, that frame included.
    put: Option<(Instant, u64)>,
    /// How much that counts.
    weight: f64,
    /// Seconds, and the bytes taken in them, that are too few to say anything by themselves.
    gathered: (f64, u64),
    /// The same of what it took in less time than it had, in each case.
    gathered_idle: (f64, u64),
    taking: OfLate,
    /// The same over longer: a receiver that was held up for a moment is no slow path.
    taking_longer: OfLate,
    /// Something was learned since this was last asked.
    pub(super) is_heard: bool,
}

impl Path {
    pub(super) fn new(segment_bytes: usize) -> Path {
        Path {
            segment_bytes,
            queued: Queued::default(),
            put: None,
            weight: LATEST,
            gathered: (0.0, 0),
            gathered_idle: (0.0, 0),
            taking: OfLate::default(),
            taking_longer: OfLate::default(),
            is_heard: false,
        }
    }

    /// Before a segment may be compressed.
    pub(super) fn look(&mut self, now: Instant, queued: Queued) {
        self.queued = queued;
        let is_busy = self.queued.unsent > 0 || self.has_for() > 0.0;
        let Some((since, waited)) = self.put.take() else { return };
        let took = now.saturating_duration_since(since).as_secs_f64();
        let taken = waited.saturating_sub(queued.unacknowledged);
        if !is_busy {
            self.is_as_fast_as(took, taken);
            return;
        }
        self.gathered = (self.gathered.0 + took, self.gathered.1 + taken);
        let (seconds, bytes) = self.gathered;
        if bytes >= (self.segment_bytes / SMALL) as u64 {
            self.taking.add(seconds, bytes as usize, self.weight, self.segment_bytes);
            self.taking_longer.add(seconds, bytes as usize, self.weight / LONGER, self.segment_bytes);
            (self.gathered, self.is_heard) = ((0.0, 0), true);
        }
    }

    /// It was found idle, and may have waited for us: then it is at least as fast as that, over a segment in all, for
    /// acknowledgements come in bursts. What was thought before is wrong then, as of the first segments, while the far
    /// side opened its file.
    fn is_as_fast_as(&mut self, seconds: f64, bytes: u64) {
        self.gathered_idle = (self.gathered_idle.0 + seconds, self.gathered_idle.1 + bytes);
        let (seconds, bytes) = self.gathered_idle;
        if bytes < self.segment_bytes as u64 {
            return;
        }
        self.gathered_idle = (0.0, 0);
        for of_late in [&mut self.taking, &mut self.taking_longer] {
            self.is_heard |= of_late.is_at_most(seconds / bytes as f64);
        }
    }

    /// Seconds that it takes for a byte, by what it did of late and over longer: the shorter of the two, so that it is
    /// slow only once it stays so, and fast at once. `None` until something is known.
    pub(super) fn of_a_byte(&self) -> Option<f64> {
        Some(self.taking.of_a_byte()?.min(self.taking_longer.of_a_byte()?))
    }

    /// Before a frame is put.
    pub(super) fn puts(&mut self, now: Instant, payload_bytes: usize, queued: Queued, weight: f64) {
        self.put = Some((now, queued.unacknowledged.saturating_add(payload_bytes as u64)));
        self.weight = weight;
    }

    /// For how many seconds it has enough to take; 0 while nobody knows how fast it is.
    fn has_for(&self) -> f64 {
        let Queued { unsent, unacknowledged, rtt_min } = self.queued;
        let takes = |bytes: u64| self.taking.of_a_byte().map_or(0.0, |byte| bytes as f64 * byte);
        takes(unsent).max(takes(unacknowledged) - rtt_min.as_secs_f64())
    }

    /// Seconds, for each byte of a segment that takes so long to compress, in which the path would have nothing to take
    /// meanwhile.
    pub(super) fn idles_for(&self, cost: f64) -> f64 {
        (cost - self.has_for() / self.segment_bytes as f64).max(0.0)
    }
}

/// Weight of the latest segment in what is of late: sends come in bursts, as buffers have room.
pub(super) const LATEST: f64 = 0.125;
/// The same of one that was compressed or left alone to know what that costs: there are few of them, and if buffers had
/// room for it, those behind it soon tell.
pub(super) const LATEST_TO_KNOW: f64 = 0.5;

/// How many times as much counts as of late where that is to last.
const LONGER: f64 = 8.0;

/// What has less than a segment divided by this does not count.
pub(super) const SMALL: usize = 16;

/// An amount for each byte, of late.
#[derive(Default)]
pub(super) struct OfLate {
    amount: f64,
    bytes: f64,
}

impl OfLate {
    /// Of so many bytes more; `weight` is what a whole segment of them has in all.
    pub(super) fn add(&mut self, amount: f64, bytes: usize, weight: f64, segment_bytes: usize) {
        if bytes < segment_bytes / SMALL {
            return;
        }
        let most = segment_bytes as f64 * (1.0 - weight) / weight;
        let kept = (most / self.bytes.max(1.0)).min(1.0);
        self.amount = self.amount * kept + amount;
        self.bytes = self.bytes * kept + bytes as f64;
    }

    /// Of a byte, from now on; whether that is less than it was.
    fn is_at_most(&mut self, most: f64) -> bool {
        let is_less = self.amount > most * self.bytes;
        if is_less {
            self.amount = most * self.bytes;
        }
        is_less
    }

    pub(super) fn of_a_byte(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.amount / self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn queued(unsent: u64, unacknowledged: u64) -> Queued {
        Queued { unsent, unacknowledged, rtt_min: Duration::from_millis(100) }
    }

    fn bytes_per_s(path: &Path) -> Option<f64> {
        path.taking.of_a_byte().map(|byte| (1.0 / byte).round())
    }

    #[test]
    fn what_waits_tells_how_fast_the_path_is() {
        let (mut path, epoch) = (Path::new(1 << 16), Instant::now());
        let at = |seconds: f64| epoch + Duration::from_secs_f64(seconds);
        path.look(at(0.0), queued(0, 0));
        path.puts(at(0.0), 100_000, queued(0, 0), LATEST);
        path.look(at(1.0), queued(50_000, 50_000));
        assert_eq!(bytes_per_s(&path), Some(50_000.0));
        // Nobody knows since when it was idle.
        path.puts(at(1.0), 100_000, queued(50_000, 50_000), LATEST);
        path.look(at(10.0), queued(0, 0));
        assert_eq!(bytes_per_s(&path), Some(50_000.0));
        // But that it took a segment in so short a time, and it is no matter in how many parts.
        for tenths in 0..10 {
            let now = 10.0 + f64::from(tenths) / 10.0;
            let is_known = tenths >= 7;
            assert_eq!(bytes_per_s(&path), Some(if is_known { 100_000.0 } else { 50_000.0 }), "{tenths}");
            path.puts(at(now), 10_000, queued(0, 0), LATEST);
            path.look(at(now + 0.1), queued(0, 0));
        }
        // Slower than that it may be for any reason.
        path.puts(at(20.0), 100_000, queued(0, 0), LATEST);
        path.look(at(30.0), queued(0, 0));
        assert_eq!(bytes_per_s(&path), Some(100_000.0));
        // Little by little; once something is known, with all of it under way.
        let mut path = Path::new(1 << 16);
        for number in 0..100 {
            let (now, unsent) = (f64::from(number), u64::from(number < 10));
            path.puts(at(now), 1000, queued(unsent, 9000), LATEST);
            path.look(at(now + 1.0), queued(unsent, 9000));
        }
        assert_eq!(bytes_per_s(&path), Some(1000.0));
    }

    #[test]
    fn a_path_has_enough_for_as_long_as_it_takes_for_what_waits_before_it_and_in_it() {
        let (mut path, now) = (Path::new(1 << 16), Instant::now());
        path.puts(now, 1 << 16, queued(0, 0), LATEST);
        path.look(now + Duration::from_secs(1), queued(1, 0));
        // A segment a second, and a tenth of one is under way in any case.
        let has_for = |path: &mut Path, unsent: f64, unacknowledged: f64| {
            let bytes = |segments: f64| (segments * f64::from(1 << 16)) as u64;
            path.look(now, queued(bytes(unsent), bytes(unacknowledged)));
            (path.has_for() * 100.0).round() / 100.0
        };
        assert_eq!(has_for(&mut path, 0.0, 0.1), 0.0);
        assert_eq!(has_for(&mut path, 0.0, 0.6), 0.5);
        assert_eq!(has_for(&mut path, 0.5, 0.55), 0.5);
        let idles_for = |path: &Path, segment_s: f64| {
            let byte_s = segment_s / f64::from(1 << 16);
            (path.idles_for(byte_s) * f64::from(1 << 16) * 100.0).round() / 100.0
        };
        assert_eq!([0.4, 0.9].map(|cost| idles_for(&path, cost)), [0.0, 0.4]);
    }
}
