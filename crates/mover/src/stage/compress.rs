//! Compresses a segment where that pays, and expands it again within its declared size.

use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::time::{Duration, Instant};
use zstd::bulk::{Compressor, Decompressor};

/// Compresses segment by segment with zstd; leaves alone what does not shrink, and everything while a segment gets away
/// as soon without ([`Worth`]).
///
/// Segments that did not shrink make it look less often: after n in a row it skips up to 2^n - 1 segments, at most 31.
pub struct Packer {
    compressor: Compressor<'static>,
    out: Vec<u8>,
    failures: u32,
    skip: u32,
    worth: Worth,
    is_always: bool,
}

/// Below this share of its size, compressed data is worth expanding again at the far side.
const WORTH: f64 = 0.95;
const LEVEL: i32 = 1;
const SKIP_LOG_MAX: u32 = 5;

impl Packer {
    /// For segments of at most `segment_bytes`.
    ///
    /// # Errors
    /// If zstd cannot take its memory.
    pub fn new(segment_bytes: usize) -> io::Result<Self> {
        let out = vec![0; zstd::zstd_safe::compress_bound(segment_bytes)];
        let compressor = Compressor::new(LEVEL)?;
        Ok(Packer {
            compressor,
            out,
            failures: 0,
            skip: 0,
            worth: Worth::new(segment_bytes),
            is_always: false,
        })
    }

    /// From now on it looks at each segment, whatever that takes: for measurements of what it would take.
    pub fn look_always(&mut self) {
        self.is_always = true;
    }

    /// Replaces `payload[..raw]` by its compressed form if that is worth it; the new length then.
    pub fn pack(&mut self, payload: &mut [u8], raw: usize) -> Option<usize> {
        if !self.is_always {
            if self.skip > 0 {
                self.skip -= 1;
                self.worth.is_to_know = false;
                return None;
            }
            if !self.worth.is_tried() {
                return None;
            }
        }
        let began = Instant::now();
        let packed = self.compressor.compress_to_buffer(&payload[..raw], &mut self.out[..]).ok();
        let packed = packed.filter(|&packed| (packed as f64) < raw as f64 * WORTH);
        self.worth.compressed(raw, packed, began.elapsed());
        match packed {
            Some(packed) => {
                self.failures = 0;
                payload[..packed].copy_from_slice(&self.out[..packed]);
                Some(packed)
            }
            None => {
                self.failures = (self.failures + 1).min(SKIP_LOG_MAX);
                self.skip = (1 << self.failures) - 1;
                None
            }
        }
    }

    /// A frame with a payload of so many bytes went out, which took so long, all waiting included: for the rate that
    /// was asked for as for the path. Both are made shorter by bytes that are saved, and by time that passes meanwhile.
    pub fn sent(&mut self, payload_bytes: usize, took: Duration) {
        self.worth.sent(payload_bytes, took);
    }
}

/// Whether to compress: while a segment is compressed and sent in less time than it is sent as it is, all waiting
/// included.
///
/// Where the path has a buffer behind the thread, or a rate limit counts the time that passes, compressing goes on
/// while that empties: the frame behind then waits less, by as much. So what counts is what sending a compressed frame
/// takes, as measured, and not what its bytes would take by themselves. That is all that is known until there was one,
/// and the whole truth only where nothing goes on meanwhile.
///
/// What sending takes is known from frames behind another one of the same kind. While a thread compresses, the path (or
/// the time that a rate limit asks for) goes on: a frame behind that waits less, or not at all, and says nothing of how
/// long it would have waited behind one that went out as it was; and a compressed frame behind those waits for them. So
/// a stream begins with two segments that are compressed, and behind some more, if what they took speaks for that, come
/// two that are not. Later some two bytes of 34 go out as they are, to know what sending costs now; and while nothing
/// is compressed because sending is fast, two of 64 segments are all the same, or two of up to 1024 where that takes
/// long, to know what compressing costs.
///
/// Everything counts by its bytes, and what has less than a sixteenth of a segment does not count: a frame of few bytes
/// takes as long as something else is waited for.
///
/// A little that is won is left: compressing takes CPU time, which others may want.
struct Worth {
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
    is_to_know: bool,
    /// Bytes of frames sent compressed since the last that were left alone, and what they were before.
    unprobed_bytes: usize,
    unprobed_raw: usize,
    /// Of how many bytes the last segment was that was compressed; none since the last frame.
    compressed_bytes: Option<usize>,
    /// Whether the frame before was compressed; none before the first.
    was_packed: Option<bool>,
}

/// Share of the time that sending takes, at most, for a segment that is compressed and sent.
const REPAYS_MAX: f64 = 0.95;
/// Segments that are left alone while sending is fast, before some are compressed all the same; and what that may cost
/// of the time that the others take to send, as long as there are no more of them than the upper bound.
const LEFT_ALONE: (f64, f64) = (62.0, 1022.0);
const LEFT_ALONE_COST: f64 = 0.02;
/// Segments that are compressed, or left alone, to know what that costs. The first follows one of the other kind.
const TRIALS: u32 = 2;
const PROBES: u32 = 2;
/// Times as many bytes are sent compressed before some are left alone as a segment has; and, while it is not known what
/// sending costs, times as many bytes are compressed.
const UNPROBED_MAX: usize = 32;
const UNPROBED_FIRST: usize = 8;
/// Weight of the latest segment in what is of late: sends come in bursts, as buffers have room.
const LATEST: f64 = 0.125;
/// The same of one that was compressed or left alone to know what that costs: there are few of them, and if buffers had
/// room for it, those behind it soon tell.
const LATEST_TO_KNOW: f64 = 0.5;

/// What has less than a segment divided by this does not count.
const SMALL: usize = 16;

/// An amount for each byte, of late.
#[derive(Default)]
struct OfLate {
    amount: f64,
    bytes: f64,
}

impl OfLate {
    /// Of so many bytes more; `weight` is what a whole segment of them has in all.
    fn add(&mut self, amount: f64, bytes: usize, weight: f64, segment_bytes: usize) {
        if bytes < segment_bytes / SMALL {
            return;
        }
        let most = segment_bytes as f64 * (1.0 - weight) / weight;
        let kept = (most / self.bytes.max(1.0)).min(1.0);
        self.amount = self.amount * kept + amount;
        self.bytes = self.bytes * kept + bytes as f64;
    }

    fn of_a_byte(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.amount / self.bytes)
    }
}

impl Worth {
    fn new(segment_bytes: usize) -> Worth {
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
            unprobed_bytes: 0,
            unprobed_raw: 0,
            compressed_bytes: None,
            was_packed: None,
        }
    }

    /// Whether the next segment shall be compressed. Asked once for each.
    fn is_tried(&mut self) -> bool {
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
            (self.left_alone, self.trials) = (0, TRIALS);
        }
        false
    }

    /// A segment of `raw` bytes was compressed, to so many if that is worth sending.
    fn compressed(&mut self, raw: usize, packed: Option<usize>, took: Duration) {
        let saved = packed.map_or(0, |packed| raw.saturating_sub(packed));
        self.cost.add(took.as_secs_f64(), raw, LATEST, self.segment_bytes);
        self.saving.add(saved as f64, raw, LATEST, self.segment_bytes);
        self.compressed_bytes = Some(raw);
    }

    /// A frame went out.
    fn sent(&mut self, payload_bytes: usize, took: Duration) {
        if payload_bytes == 0 {
            return;
        }
        let weight = if self.is_to_know { LATEST_TO_KNOW } else { LATEST };
        let compressed = self.compressed_bytes.take();
        let was_packed = self.was_packed.replace(compressed.is_some());
        let (of_late, bytes) = match compressed {
            Some(raw) => {
                self.unprobed_bytes += payload_bytes;
                self.unprobed_raw += raw;
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
        match (self.cost.of_a_byte(), self.sending.of_a_byte()) {
            (Some(cost), Some(sending)) => {
                let trials = f64::from(TRIALS) * cost;
                (trials / sending.max(1e-15) / LEFT_ALONE_COST).clamp(least, most)
            }
            _ => least,
        }
    }
}

/// Expands what a peer compressed, never beyond what it declared.
pub struct Unpacker {
    decompressor: Decompressor<'static>,
    out: Vec<u8>,
}

impl Unpacker {
    /// Takes no memory for data before the first use.
    ///
    /// # Errors
    /// If zstd cannot take its memory.
    pub fn new() -> io::Result<Self> {
        // A frame is expanded into one buffer at once, so zstd takes no memory for a window, whatever the frame asks
        // for.
        Ok(Unpacker { decompressor: Decompressor::new()?, out: Vec::new() })
    }

    /// Expands `packed` to exactly `raw` bytes.
    ///
    /// # Errors
    /// `Protocol` if it gives more, fewer, or is no zstd frame.
    pub fn unpack(&mut self, packed: &[u8], raw: usize) -> Result<&[u8]> {
        if self.out.len() < raw {
            self.out.resize(raw, 0);
        }
        match self.decompressor.decompress_to_buffer(packed, &mut self.out[..raw]) {
            Ok(got) if got == raw => Ok(&self.out[..raw]),
            Ok(_) => Err(protocol("compressed data gave fewer bytes than declared")),
            Err(error) => Err(protocol(&format!("compressed data: {error}"))),
        }
    }
}

fn protocol(what: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "decompress", what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shrinks_comes_back_and_what_does_not_is_left_alone() {
        let mut packer = Packer::new(1 << 16).unwrap();
        let text: Vec<u8> = b"thalweg ".iter().copied().cycle().take(1 << 16).collect();
        let mut buffer = text.clone();
        let packed = packer.pack(&mut buffer, text.len()).unwrap();
        assert!(packed < text.len() / 10);
        let mut unpacker = Unpacker::new().unwrap();
        assert_eq!(unpacker.unpack(&buffer[..packed], text.len()).unwrap(), text);

        let mut noise = vec![0; 1 << 16];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let before = noise.clone();
        assert_eq!(packer.pack(&mut noise, before.len()), None);
        assert_eq!(noise, before);
    }

    #[test]
    fn nothing_is_compressed_while_sending_is_faster_and_again_when_it_is_not() {
        let mut packer = Packer::new(1 << 16).unwrap();
        let text: Vec<u8> = b"thalweg ".iter().copied().cycle().take(1 << 16).collect();
        let pack = |packer: &mut Packer| packer.pack(&mut text.clone(), text.len()).is_some();
        assert!((0..2).all(|_| pack(&mut packer)), "nothing is known yet");
        // What sending costs is known from two frames in a row that went out as they were.
        let send = |packer: &mut Packer, took| {
            packer.worth.compressed_bytes = None;
            (0..2).for_each(|_| packer.sent(text.len(), took));
        };
        // No machine compresses 64 KiB in a picosecond.
        send(&mut packer, Duration::ZERO);
        let compressed = (0..5 * 1024).filter(|_| pack(&mut packer)).count();
        assert_eq!(compressed, 10, "two of 1024, to know what it costs");
        // Nor takes an hour for it.
        send(&mut packer, Duration::from_secs(3600));
        assert!((0..40).all(|_| pack(&mut packer)));
    }

    #[test]
    fn who_looks_always_compresses_what_shrinks_though_sending_is_faster_and_after_what_did_not_shrink() {
        let mut packer = Packer::new(1 << 16).unwrap();
        packer.look_always();
        let text: Vec<u8> = b"thalweg ".iter().copied().cycle().take(1 << 16).collect();
        let mut noise = vec![0; 1 << 16];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        for _ in 0..3 {
            assert_eq!(packer.pack(&mut noise.clone(), noise.len()), None);
            packer.sent(noise.len(), Duration::ZERO);
            let packed = packer.pack(&mut text.clone(), text.len());
            assert!(packed.is_some());
            packer.sent(packed.unwrap_or_default(), Duration::ZERO);
        }
    }

    /// What holds a stream back.
    #[derive(Debug, Clone, Copy)]
    enum Held {
        /// A rate: a frame waits until those before it have had their time.
        Rate,
        /// A path behind a buffer of so many segments.
        Path(f64),
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
        for _ in 0..SEGMENTS {
            now += reading;
            let mut payload = RAW;
            if is_tried(&mut worth) {
                now += compressing;
                payload = (RAW as f64 * (1.0 - saving)) as usize;
                worth.compressed(RAW, Some(payload), Duration::from_secs_f64(compressing));
            }
            let began = now;
            let share = payload as f64 / RAW as f64;
            let start = free.max(now);
            free = start + share * sending;
            now = match held {
                Held::Rate => start,
                Held::Path(segments) => now.max(free - segments * sending),
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
        for held in [Held::Rate, Held::Path(0.5), Held::Path(1.0), Held::Path(4.0)] {
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

    #[test]
    fn a_bomb_is_refused_at_its_declared_size() {
        let zeros = vec![0; 8 << 20];
        let bomb = zstd::bulk::compress(&zeros, 1).unwrap();
        let mut unpacker = Unpacker::new().unwrap();
        assert!(unpacker.unpack(&bomb, 1 << 16).is_err());
        assert!(unpacker.unpack(&bomb, (8 << 20) + 1).is_err());
        assert!(unpacker.unpack(b"no zstd at all", 100).is_err());
        assert_eq!(unpacker.unpack(&bomb, 8 << 20).unwrap().len(), 8 << 20);
        assert!(unpacker.out.capacity() <= (8 << 20) + 1);
    }
}
