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

    /// Replaces `payload[..raw]` by its compressed form if that is worth it; the new length then. So many bytes that
    /// were put wait `unsent` at this moment, because the path has no room for them.
    pub fn pack(&mut self, payload: &mut [u8], raw: usize, unsent: u64) -> Option<usize> {
        self.worth.path.look(Instant::now(), unsent);
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

    /// A frame with a payload of so many bytes is about to be put, behind `unsent` bytes that wait.
    pub fn puts(&mut self, payload_bytes: usize, unsent: u64) {
        self.worth.puts(Instant::now(), payload_bytes, unsent);
    }

    /// A limit bounds what is sent, and not the path.
    pub fn is_limited(&mut self) {
        self.worth.path = Path::new(self.worth.segment_bytes);
    }

    /// A frame with a payload of so many bytes went out, which took so long, all waiting included: for the rate that
    /// was asked for as for the path. Both are made shorter by bytes that are saved, and by time that passes meanwhile.
    pub fn sent(&mut self, payload_bytes: usize, took: Duration) {
        self.worth.sent(payload_bytes, took);
    }
}

/// How long the path takes for a byte, as the socket in front of it shows: that has a buffer, of which the kernel tells
/// how much waits.
///
/// Looked at before a segment is compressed, and before a frame is put. In between the stream waits for the path or
/// does something short; whatever waits at the end of that, the path was busy meanwhile, and what it took is what is
/// gone.
struct Path {
    segment_bytes: usize,
    /// Bytes that wait, and the most that ever did: so many the buffer has room for.
    unsent: u64,
    unsent_most: u64,
    /// When the latest frame was put, and how many bytes waited then, that frame included.
    put: Option<(Instant, u64)>,
    /// How much that counts.
    weight: f64,
    /// Seconds, and the bytes taken in them, that are too few to say anything by themselves.
    gathered: (f64, u64),
    taking: OfLate,
    /// Something was learned since this was last asked.
    is_heard: bool,
}

impl Path {
    fn new(segment_bytes: usize) -> Path {
        Path {
            segment_bytes,
            unsent: 0,
            unsent_most: 0,
            put: None,
            weight: LATEST,
            gathered: (0.0, 0),
            taking: OfLate::default(),
            is_heard: false,
        }
    }

    /// Before a segment may be compressed.
    fn look(&mut self, now: Instant, unsent: u64) {
        (self.unsent, self.unsent_most) = (unsent, self.unsent_most.max(unsent));
        let Some((since, waited)) = self.put.take() else { return };
        let (took, taken) =
            (now.saturating_duration_since(since).as_secs_f64(), waited.saturating_sub(unsent));
        // One that is found empty may have waited for us: it is at least as fast as that.
        let is_faster = || self.taking.of_a_byte().is_some_and(|known| took < known * taken as f64);
        if unsent == 0 && !is_faster() {
            return;
        }
        self.gathered = (self.gathered.0 + took, self.gathered.1 + taken);
        let (seconds, bytes) = self.gathered;
        if bytes >= (self.segment_bytes / SMALL) as u64 {
            self.taking.add(seconds, bytes as usize, self.weight, self.segment_bytes);
            (self.gathered, self.is_heard) = ((0.0, 0), true);
        }
    }

    /// Before a frame is put.
    fn puts(&mut self, now: Instant, payload_bytes: usize, unsent: u64, weight: f64) {
        self.put = Some((now, unsent.saturating_add(payload_bytes as u64)));
        self.weight = weight;
    }

    /// Seconds, for each byte of a segment that takes so long to compress, in which the path would have nothing to take
    /// meanwhile; times as many as these where the buffer holds enough that it need not be so.
    fn idles_for(&self, cost: f64, taking: f64) -> f64 {
        let holds = |bytes: u64| bytes as f64 / self.segment_bytes as f64 * taking;
        let is_needless = holds(self.unsent_most) >= cost;
        (cost - holds(self.unsent)).max(0.0) * if is_needless { NEEDLESS } else { 1.0 }
    }
}

/// Whether to compress: while a segment gets away sooner so, and while the path has enough to take meanwhile.
///
/// Where the kernel tells what waits in front of the path ([`Path`]), how long that takes for a byte is known, whatever
/// the stream does. A segment is compressed if that takes less time than the path takes for it as it is, and if what
/// waits keeps the path busy meanwhile, or that has nothing to take for less time than it is spared. One that goes out
/// as it is fills the buffer, behind which some can be compressed for nothing: so what is narrow, path or CPU, is busy
/// all the time, and as few bytes are compressed as do that.
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
    path: Path,
}

/// Share of the time that sending takes, at most, for a segment that is compressed and sent.
const REPAYS_MAX: f64 = 0.95;
/// So many times as much counts the time in which the path has nothing to take because a segment is compressed that
/// might have gone out as it is, and filled the buffer.
const NEEDLESS: f64 = 4.0;
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
            path: Path::new(segment_bytes),
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

    /// A frame is about to be put.
    fn puts(&mut self, now: Instant, payload_bytes: usize, unsent: u64) {
        self.path.puts(now, payload_bytes, unsent, self.weight());
    }

    /// Of what the latest segment tells.
    fn weight(&self) -> f64 {
        if self.is_to_know { LATEST_TO_KNOW } else { LATEST }
    }

    /// A frame went out.
    fn sent(&mut self, payload_bytes: usize, took: Duration) {
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
        if let Some(path) = self.path.taking.of_a_byte() {
            return cost <= REPAYS_MAX * path && self.path.idles_for(cost, path) <= saving * path;
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
        let packed = packer.pack(&mut buffer, text.len(), 0).unwrap();
        assert!(packed < text.len() / 10);
        let mut unpacker = Unpacker::new().unwrap();
        assert_eq!(unpacker.unpack(&buffer[..packed], text.len()).unwrap(), text);

        let mut noise = vec![0; 1 << 16];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let before = noise.clone();
        assert_eq!(packer.pack(&mut noise, before.len(), 0), None);
        assert_eq!(noise, before);
    }

    #[test]
    fn nothing_is_compressed_while_sending_is_faster_and_again_when_it_is_not() {
        let mut packer = Packer::new(1 << 16).unwrap();
        let text: Vec<u8> = b"thalweg ".iter().copied().cycle().take(1 << 16).collect();
        let pack = |packer: &mut Packer| packer.pack(&mut text.clone(), text.len(), 0).is_some();
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
            assert_eq!(packer.pack(&mut noise.clone(), noise.len(), 0), None);
            packer.sent(noise.len(), Duration::ZERO);
            let packed = packer.pack(&mut text.clone(), text.len(), 0);
            assert!(packed.is_some());
            packer.sent(packed.unwrap_or_default(), Duration::ZERO);
        }
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
        let unsent = |now: f64, free: f64| match held {
            Held::Path(_) => ((free - now).max(0.0) / sending * RAW as f64) as u64,
            Held::Rate | Held::Silent(_) => 0,
        };
        for _ in 0..SEGMENTS {
            now += reading;
            let mut payload = RAW;
            worth.path.look(at(now), unsent(now, free));
            if is_tried(&mut worth) {
                now += compressing;
                payload = (RAW as f64 * (1.0 - saving)) as usize;
                worth.compressed(RAW, Some(payload), Duration::from_secs_f64(compressing));
            }
            let began = now;
            worth.puts(at(now), payload, unsent(now, free));
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
    fn what_waits_tells_how_fast_the_path_is() {
        let (mut path, epoch) = (Path::new(1 << 16), Instant::now());
        let at = |seconds: f64| epoch + Duration::from_secs_f64(seconds);
        let bytes_per_s = |path: &Path| path.taking.of_a_byte().map(|byte| (1.0 / byte).round());
        path.look(at(0.0), 0);
        path.puts(at(0.0), 100_000, 0, LATEST);
        path.look(at(1.0), 50_000);
        assert_eq!(bytes_per_s(&path), Some(50_000.0));
        // A segment is 65,536 bytes, of which 50,000 wait: 0.76 of it.
        let idles_for = |path: &Path, cost: f64| (path.idles_for(cost, 1.0) * 100.0).round() / 100.0;
        assert_eq!([0.7, 0.8].map(|cost| idles_for(&path, cost)), [0.0, 0.04]);
        // Nobody knows since when it was empty.
        path.puts(at(1.0), 100_000, 50_000, LATEST);
        path.look(at(10.0), 0);
        assert_eq!(bytes_per_s(&path), Some(50_000.0));
        assert_eq!([0.7, 0.8].map(|cost| idles_for(&path, cost)), [0.7 * NEEDLESS, 0.8]);
        // But that it took so much in so short a time.
        path.puts(at(10.0), 100_000, 0, LATEST_TO_KNOW);
        path.look(at(10.1), 0);
        assert!(bytes_per_s(&path) > Some(90_000.0), "{:?}", bytes_per_s(&path));
        // Little by little.
        let mut path = Path::new(1 << 16);
        for number in 0..100 {
            let now = f64::from(number);
            path.puts(at(now), 1000, 9000, LATEST);
            path.look(at(now + 1.0), 9000);
        }
        assert_eq!(bytes_per_s(&path), Some(1000.0));
    }

    #[test]
    fn a_path_that_becomes_fast_or_slow_is_noticed_by_what_waits() {
        const RAW: usize = 1 << 16;
        let (mut worth, epoch) = (Worth::new(RAW), Instant::now());
        let (mut now, mut free) = (0.0f64, 0.0f64);
        let mut segments = |sending: f64| {
            let at = |now: f64| epoch + Duration::from_secs_f64(now);
            let unsent = |now: f64, free: f64| ((free - now).max(0.0) / sending * RAW as f64) as u64;
            let compressed = (0..4000).filter(|_| {
                now += 1e-4;
                worth.path.look(at(now), unsent(now, free));
                let is_tried = worth.is_tried();
                if is_tried {
                    now += 0.1;
                    worth.compressed(RAW, Some(RAW / 4), Duration::from_secs_f64(0.1));
                }
                let payload = if is_tried { RAW / 4 } else { RAW };
                let began = now;
                worth.puts(at(now), payload, unsent(now, free));
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
