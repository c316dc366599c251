//! Whether compressing a segment pays at this moment.

use super::path::{LATEST, LATEST_TO_KNOW, OfLate, Path};
use crate::stage::send::Queued;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Whether to compress: while a segment gets away sooner so, and while the path has enough to take meanwhile.
///
/// Where the kernel tells what waits in front of the path ([`Path`]), how long that takes for a byte is known, whatever
/// the stream does. A segment is compressed if that takes less time than the path takes for it as it is, and if what
/// waits keeps the path busy meanwhile, or that has nothing to take for less time than it is spared. Where compressing
/// takes longer than it spares, what goes out as it is fills the buffer, and some behind it can be compressed for
/// nothing: so path and CPU are both busy.
///
/// Where nothing waits, as behind a rate limit, it is while a segment is compressed and sent in less time than it is
/// sent as it is, all waiting included. Where the path has a buffer behind the thread, or a rate limit counts the time
/// that passes, compressing goes on while that empties: the frame behind then waits less, by as much. So what counts is
/// what sending a compressed frame takes, as measured, and not what its bytes would take by themselves. That is all
/// that is known until there was one, and the whole truth only where nothing goes on meanwhile.
///
/// What sending takes is known from frames behind another one of the same kind. While a thread compresses, the path (or
/// the time that a rate limit asks for) goes on: a frame behind that waits less, or not at all, and says nothing of how
/// long it would have waited behind one that went out as it was; and a compressed frame behind those waits for them. So
/// a stream begins with two segments that are compressed, and behind some more, if what they took speaks for that, come
/// two that are not. Later some two bytes of 34 go out as they are, to know what sending costs now; and while nothing
/// is compressed because sending is fast, two of 64 segments are all the same, or two of up to 1024 where that takes
/// long, to know what compressing costs. Where the kernel tells what waits, an eighth of one of them says that, and
/// goes out as it is.
///
/// Everything counts by its bytes, and what has less than a sixteenth of a segment does not count: a frame of few bytes
/// takes as long as something else is waited for.
///
/// A little that is won is left: compressing takes CPU time, which others may want.
pub(super) struct Worth {
    segment_bytes: usize,
    /// Seconds that compressing a byte takes, and the share of it that is saved.
    cost: OfLate,
    saving: OfLate,
    /// Seconds that sending a byte takes as it is, and that sending what became of it takes.
    sending: OfLate,
    sending_packed: OfLate,
    /// Segments in a row that were left alone because sending is fast.
    left_alone: u32,
    /// Segments that are to be compressed now, and behind them left alone, to know what either costs; whether the
    /// latest one was for that.
    trials: u32,
    probes: u32,
    pub(super) is_to_know: bool,
    /// Segments of which a part was compressed to know it, and whether the one that is left alone now is to be such.
    samples: usize,
    is_sample: bool,
    /// Bytes of frames sent compressed since the last that were left alone, and what they were before.
    unprobed_bytes: usize,
    unprobed_raw: usize,
    /// Of how many bytes the last segment was that was compressed; none since the last frame.
    pub(super) compressed_bytes: Option<usize>,
    /// Whether the frame before was compressed; none before the first.
    was_packed: Option<bool>,
    pub(super) path: Path,
}

/// Share of the time that sending takes, at most, for a segment that is compressed and sent.
const REPAYS_MAX: f64 = 0.95;
/// Segments that are left alone while sending is fast, before some are compressed all the same; and what that may cost
/// of the time that the others take to send, as long as there are no more of them than the upper bound.
const LEFT_ALONE: (f64, f64) = (62.0, 1022.0);
const LEFT_ALONE_COST: f64 = 0.02;
/// The share of a segment that is compressed to know what it costs, as a divisor; and what all these may cost then.
const SAMPLE: usize = 8;
const SAMPLE_COST: f64 = 0.005;
/// Segments that are compressed, or left alone, to know what that costs. The first follows one of the other kind.
const TRIALS: u32 = 2;
const PROBES: u32 = 2;
/// Times as many bytes are sent compressed before some are left alone as a segment has; and, while it is not known what
/// sending costs, times as many bytes are compressed.
const UNPROBED_MAX: usize = 32;
const UNPROBED_FIRST: usize = 8;

impl Worth {
    pub(super) fn new(segment_bytes: usize) -> Worth {
        Worth {
            segment_bytes,
            cost: OfLate::default(),
            saving: OfLate::default(),
            sending: OfLate::default(),
            sending_packed: OfLate::default(),
            left_alone: 0,
            trials: TRIALS,
            probes: 0,
            is_to_know: false,
            samples: 0,
            is_sample: false,
            unprobed_bytes: 0,
            unprobed_raw: 0,
            compressed_bytes: None,
            was_packed: None,
            path: Path::new(segment_bytes),
        }
    }

    /// Whether the next segment shall be compressed. Asked once for each.
    pub(super) fn is_tried(&mut self) -> bool {
        self.is_to_know = self.trials > 0 || self.probes > 0;
        if self.trials > 0 {
            self.trials -= 1;
            return true;
        }
        if self.probes > 0 {
            self.probes -= 1;
            return false;
        }
        if self.repays() {
            self.left_alone = 0;
            return true;
        }
        self.left_alone += 1;
        if f64::from(self.left_alone) >= self.left_alone_max() {
            self.left_alone = 0;
            match self.path.of_a_byte() {
                Some(_) => self.is_sample = true,
                None => self.trials = TRIALS,
            }
        }
        false
    }

    /// Of a segment of `raw` bytes that is left alone: those to be compressed all the same, to know what that costs.
    /// Another part of each.
    pub(super) fn sample(&mut self, raw: usize) -> Option<Range<usize>> {
        if !std::mem::take(&mut self.is_sample) {
            return None;
        }
        let (bytes, number) = (raw / SAMPLE, self.samples % SAMPLE);
        self.samples += 1;
        Some(number * bytes..(number + 1) * bytes)
    }

    /// Such a part was compressed, to so many bytes.
    pub(super) fn sampled(&mut self, bytes: usize, packed: usize, took: Duration) {
        let saved = bytes.saturating_sub(packed) * SAMPLE;
        self.learn(bytes * SAMPLE, saved, took * SAMPLE as u32);
    }

    /// A segment of `raw` bytes was compressed, to so many if that is worth sending.
    pub(super) fn compressed(&mut self, raw: usize, packed: Option<usize>, took: Duration) {
        self.learn(raw, packed.map_or(0, |packed| raw.saturating_sub(packed)), took);
        self.compressed_bytes = Some(raw);
    }

    /// Compressing `raw` bytes took so long, and saved so many.
    fn learn(&mut self, raw: usize, saved: usize, took: Duration) {
        self.cost.add(took.as_secs_f64(), raw, LATEST, self.segment_bytes);
        self.saving.add(saved as f64, raw, LATEST, self.segment_bytes);
    }

    /// A frame is about to be put.
    pub(super) fn puts(&mut self, now: Instant, payload_bytes: usize, queued: Queued) {
        self.path.puts(now, payload_bytes, queued, self.weight());
    }

    /// A limit bounds what is sent: what waits says nothing of the path.
    pub(super) fn is_limited(&mut self) {
        self.path = Path::new(self.segment_bytes);
    }

    /// Of what the latest segment tells.
    fn weight(&self) -> f64 {
        if self.is_to_know { LATEST_TO_KNOW } else { LATEST }
    }

    /// A frame went out.
    pub(super) fn sent(&mut self, payload_bytes: usize, took: Duration) {
        if payload_bytes == 0 {
            return;
        }
        let weight = self.weight();
        let compressed = self.compressed_bytes.take();
        let was_packed = self.was_packed.replace(compressed.is_some());
        let (of_late, bytes) = match compressed {
            Some(raw) => {
                self.unprobed_bytes += payload_bytes;
                self.unprobed_raw += raw;
                // What waits says it as well.
                if std::mem::take(&mut self.path.is_heard) {
                    (self.unprobed_bytes, self.unprobed_raw) = (0, 0);
                }
                let is_first = self.sending.of_a_byte().is_none()
                    && self.unprobed_raw >= self.segment_bytes * UNPROBED_FIRST;
                if is_first || self.unprobed_bytes >= self.segment_bytes * UNPROBED_MAX {
                    (self.unprobed_bytes, self.unprobed_raw, self.probes) = (0, 0, PROBES);
                }
                (&mut self.sending_packed, raw)
            }
            None => (&mut self.sending, payload_bytes),
        };
        if was_packed == Some(compressed.is_some()) {
            of_late.add(took.as_secs_f64(), bytes, weight, self.segment_bytes);
        }
    }

    /// Whether a segment gets away sooner compressed, as far as that is known.
    fn repays(&self) -> bool {
        let [cost, saving, sending, packed] =
            [&self.cost, &self.saving, &self.sending, &self.sending_packed].map(OfLate::of_a_byte);
        let (Some(cost), Some(saving)) = (cost, saving) else { return true };
        if let Some(path) = self.path.of_a_byte() {
            return cost <= REPAYS_MAX * path && self.path.idles_for(cost) <= saving * path;
        }
        match (sending, packed) {
            (Some(sending), Some(packed)) => {
                cost <= saving * sending || cost + packed <= REPAYS_MAX * sending
            }
            // The one of the two that is known stands for both.
            (Some(sending), None) => cost <= saving * sending,
            (None, Some(packed)) => cost <= saving * packed / (1.0 - saving).max(1e-3),
            (None, None) => true,
        }
    }

    fn left_alone_max(&self) -> f64 {
        let (least, most) = LEFT_ALONE;
        let (trials, share) = match self.path.of_a_byte() {
            Some(_) => (1.0 / SAMPLE as f64, SAMPLE_COST),
            None => (f64::from(TRIALS), LEFT_ALONE_COST),
        };
        match (self.cost.of_a_byte(), self.sending.of_a_byte()) {
            (Some(cost), Some(sending)) => (trials * cost / sending.max(1e-15) / share).clamp(least, most),
            _ => least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// So many bytes that a path without length has no room for.
    fn waiting(bytes: f64) -> Queued {
        Queued { unsent: bytes as u64, unacknowledged: bytes as u64, rtt_min: Duration::ZERO }
    }

    /// What holds a stream back.
    #[derive(Debug, Clone, Copy)]
    enum Held {
        /// A rate: a frame waits until those before it have had their time.
        Rate,
        /// A path behind a buffer of so many segments, of which the kernel tells what waits.
        Path(f64),
        /// One of which it does not.
        Silent(f64),
    }

    /// Segments of 64 KiB through one stream: each is read, compressed if that is asked for, and sent. Seconds for
    /// each. The others are those that compressing one takes, and sending it as it is.
    fn stream(
        held: Held,
        (compressing, saving): (f64, f64),
        sending: f64,
        is_tried: impl Fn(&mut Worth) -> bool,
    ) -> f64 {
        const RAW: usize = 1 << 16;
        const SEGMENTS: u32 = 4000;
        let (reading, handing) = (0.05, 0.02);
        let (mut worth, mut now, mut free) = (Worth::new(RAW), 0.0f64, 0.0f64);
        let epoch = Instant::now();
        let at = |now: f64| epoch + Duration::from_secs_f64(now);
        let queued = |now: f64, free: f64| match held {
            Held::Path(_) => waiting((free - now).max(0.0) / sending * RAW as f64),
            Held::Rate | Held::Silent(_) => Queued::default(),
        };
        for _ in 0..SEGMENTS {
            now += reading;
            let mut payload = RAW;
            worth.path.look(at(now), queued(now, free));
            if is_tried(&mut worth) {
                now += compressing;
                payload = (RAW as f64 * (1.0 - saving)) as usize;
                worth.compressed(RAW, Some(payload), Duration::from_secs_f64(compressing));
            } else if let Some(part) = worth.sample(RAW) {
                let took = compressing * part.len() as f64 / RAW as f64;
                now += took;
                let packed = (part.len() as f64 * (1.0 - saving)) as usize;
                worth.sampled(part.len(), packed, Duration::from_secs_f64(took));
            }
            let began = now;
            worth.puts(at(now), payload, queued(now, free));
            let share = payload as f64 / RAW as f64;
            let start = free.max(now);
            free = start + share * sending;
            now = match held {
                Held::Rate => start,
                Held::Path(segments) | Held::Silent(segments) => now.max(free - segments * sending),
            };
            now += share * handing;
            worth.sent(payload, Duration::from_secs_f64(now - began));
        }
        now.max(free) / f64::from(SEGMENTS)
    }

    /// Time that compressing takes passes for the path, and for a rate limit, too: it is no reason to stop.
    #[test]
    fn it_does_nearly_as_well_as_always_or_never_whatever_holds_the_stream() {
        let cases = [
            (0.37, 0.28, 1.0),
            (0.2, 0.1, 1.0),
            (0.65, 0.3, 1.0),
            (0.95, 0.5, 1.0),
            (1.2, 0.5, 1.0),
            (0.27, 0.67, 1.0),
            (0.4, 0.5, 1.0),
            (0.6, 0.67, 1.0),
            (0.6, 0.9, 1.0),
            (0.1, 0.95, 1.0),
            (0.9, 0.3, 1.0),
            (0.3, 0.67, 0.1),
            (0.3, 0.67, 0.4),
            (0.3, 0.67, 0.5),
            (0.3, 0.95, 10.0),
        ];
        let buffers = [0.5, 1.0, 4.0];
        let paths = buffers.iter().flat_map(|segments| [Held::Path(*segments), Held::Silent(*segments)]);
        for held in std::iter::once(Held::Rate).chain(paths) {
            for (compressing, saving, sending) in cases {
                let took =
                    |is_tried: fn(&mut Worth) -> bool| stream(held, (compressing, saving), sending, is_tried);
                let (always, never, by_itself) = (took(|_| true), took(|_| false), took(Worth::is_tried));
                let best = always.min(never);
                assert!(
                    by_itself <= best * 1.1,
                    "{held:?}, {compressing} s to save {saving} of {sending} s: {by_itself:.3} s, not {best:.3} s"
                );
                // And it never slows.
                assert!(
                    by_itself <= never * 1.02,
                    "{held:?}, {compressing}, {saving}, {sending}: {by_itself:.3} s"
                );
            }
        }
    }

    #[test]
    fn a_path_that_becomes_fast_is_noticed_while_everything_is_compressed() {
        const RAW: usize = 1 << 16;
        let mut worth = Worth::new(RAW);
        let mut segments = |sending: f64| {
            let compressed = (0..4000).filter(|_| {
                let is_tried = worth.is_tried();
                if is_tried {
                    worth.compressed(RAW, Some(RAW / 4), Duration::from_secs_f64(0.1));
                }
                let payload = if is_tried { RAW / 4 } else { RAW };
                worth.sent(payload, Duration::from_secs_f64(sending * payload as f64 / RAW as f64));
                is_tried
            });
            compressed.count()
        };
        assert!(segments(1.0) > 3900);
        let compressed = segments(0.001);
        assert!(compressed < 600, "{compressed}");
        assert!(segments(1.0) > 3800);
    }

    #[test]
    fn a_path_that_becomes_fast_or_slow_is_noticed_by_what_waits() {
        const RAW: usize = 1 << 16;
        let (mut worth, epoch) = (Worth::new(RAW), Instant::now());
        let (mut now, mut free) = (0.0f64, 0.0f64);
        let mut segments = |sending: f64| {
            let at = |now: f64| epoch + Duration::from_secs_f64(now);
            let queued = |now: f64, free: f64| waiting((free - now).max(0.0) / sending * RAW as f64);
            let compressed = (0..4000).filter(|_| {
                now += 1e-4;
                worth.path.look(at(now), queued(now, free));
                let is_tried = worth.is_tried();
                if is_tried {
                    now += 0.1;
                    worth.compressed(RAW, Some(RAW / 4), Duration::from_secs_f64(0.1));
                }
                let payload = if is_tried { RAW / 4 } else { RAW };
                let began = now;
                worth.puts(at(now), payload, queued(now, free));
                free = free.max(now) + sending * payload as f64 / RAW as f64;
                now = now.max(free - sending);
                worth.sent(payload, Duration::from_secs_f64(now - began));
                is_tried
            });
            compressed.count()
        };
        let (slow, fast, slow_again) = (segments(1.0), segments(0.001), segments(1.0));
        assert!(slow > 3800 && fast < 600 && slow_again > 3800, "{slow}, {fast}, {slow_again}");
    }

    #[test]
    fn parts_of_what_goes_out_as_it_is_tell_that_compressing_takes_less_by_now() {
        const RAW: usize = 1 << 16;
        let (mut worth, mut now) = (Worth::new(RAW), Instant::now());
        // The path takes a segment a second, and always has eight more.
        let (second, wait) = (Duration::from_secs(1), waiting(8.0 * RAW as f64));
        let mut parts = BTreeSet::new();
        let mut compressed = |compressing: f64| {
            let segments = (0..1000).filter(|_| {
                worth.path.look(now, wait);
                let is_tried = worth.is_tried();
                if is_tried {
                    worth.compressed(RAW, Some(RAW / 2), Duration::from_secs_f64(compressing));
                } else if let Some(part) = worth.sample(RAW) {
                    let took = Duration::from_secs_f64(compressing / 8.0);
                    worth.sampled(part.len(), part.len() / 2, took);
                    assert!(part.len() == RAW / 8 && part.end <= RAW);
                    parts.insert(part.start);
                }
                worth.puts(now, RAW, wait);
                now += second;
                worth.sent(RAW, second);
                is_tried
            });
            segments.count()
        };
        assert_eq!(compressed(2.0), TRIALS as usize);
        assert!(compressed(0.1) > 500);
        assert!(compressed(2.0) <= 8, "the first few have told it");
        assert_eq!(parts.len(), 8, "{parts:?}");
    }

    #[test]
    fn a_frame_of_few_bytes_says_little_of_what_a_segment_takes() {
        const RAW: usize = 1 << 20;
        let millis = Duration::from_millis;
        // Compressing a segment takes so long, sending it as it is as long as it takes, and what became of it a
        // quarter.
        let compressed = |compressing: u64, sending: u64, packs: u32| {
            let mut worth = Worth::new(RAW);
            let segments = (0..200).filter(|number| {
                // Packs of small files, which wait for something else.
                for _ in 0..if number % 50 < 2 { packs } else { 0 } {
                    if worth.is_tried() {
                        worth.compressed(300, Some(180), millis(1));
                    }
                    worth.sent(180, millis(4));
                }
                let is_tried = worth.is_tried();
                if is_tried {
                    worth.compressed(RAW, Some(RAW / 4), millis(compressing));
                }
                worth
                    .sent(RAW / if is_tried { 4 } else { 1 }, millis(sending) / if is_tried { 4 } else { 1 });
                is_tried
            });
            segments.count()
        };
        for packs in [1, 20] {
            let (fast, slow) = (compressed(8, 1, packs), compressed(8, 40, packs));
            assert!(fast <= 16 && slow >= 176, "{packs} packs: {fast} on a fast path, {slow} on a slow one");
        }
    }
}
