//! Compresses a segment where that pays, and expands it again within its declared size.

use crate::failure::{Failure, FailureKind, Result};
use std::io;
use std::time::{Duration, Instant};
use zstd::bulk::{Compressor, Decompressor};

/// Compresses segment by segment with zstd; leaves alone what does not shrink, and everything while that takes longer than
/// sending what it saves.
///
/// Segments that did not shrink make it look less often: after n in a row it skips up to 2^n - 1 segments, at most 31. While
/// sending is too fast for it, every 32nd is compressed all the same, to know what it costs now.
pub struct Packer {
    compressor: Compressor<'static>,
    out: Vec<u8>,
    failures: u32,
    skip: u32,
    /// Seconds that compressing a byte takes, and the share of it that is saved, of late.
    cost: Option<(f64, f64)>,
    /// Seconds that sending a byte takes, of late.
    sending: Option<f64>,
    /// Segments in a row that were left alone because sending is fast.
    left_alone: u32,
}

/// Below this share of its size, compressed data is worth expanding again at the far side.
const WORTH: f64 = 0.95;
const LEVEL: i32 = 1;
const SKIP_LOG_MAX: u32 = 5;
/// See [`Packer`].
const LEFT_ALONE_MAX: u32 = 31;
/// Weight of the latest segment in what is of late: sends come in bursts, as buffers have room.
const LATEST: f64 = 0.125;

impl Packer {
    /// For segments of at most `segment_bytes`.
    ///
    /// # Errors
    /// If zstd cannot take its memory.
    pub fn new(segment_bytes: usize) -> io::Result<Self> {
        let out = vec![0; zstd::zstd_safe::compress_bound(segment_bytes)];
        Ok(Packer {
            compressor: Compressor::new(LEVEL)?,
            out,
            failures: 0,
            skip: 0,
            cost: None,
            sending: None,
            left_alone: 0,
        })
    }

    /// Replaces `payload[..raw]` by its compressed form if that is worth it; the new length then.
    pub fn pack(&mut self, payload: &mut [u8], raw: usize) -> Option<usize> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        if !self.repays() && self.left_alone < LEFT_ALONE_MAX {
            self.left_alone += 1;
            return None;
        }
        self.left_alone = 0;
        let began = Instant::now();
        let packed = self.compressor.compress_to_buffer(&payload[..raw], &mut self.out[..]).ok();
        let saved = packed.map_or(0.0, |packed| 1.0 - packed as f64 / raw.max(1) as f64).max(0.0);
        let seconds = began.elapsed().as_secs_f64() / raw.max(1) as f64;
        let (cost, saving) = self.cost.unwrap_or((seconds, saved));
        self.cost = Some((of_late(cost, seconds), of_late(saving, saved)));
        match packed.filter(|&packed| (packed as f64) < raw as f64 * WORTH) {
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

    /// A frame with a payload of so many bytes went out, which took so long, waiting included.
    pub fn sent(&mut self, payload_bytes: usize, took: Duration) {
        if payload_bytes > 0 {
            let seconds = took.as_secs_f64() / payload_bytes as f64;
            self.sending = Some(self.sending.map_or(seconds, |sending| of_late(sending, seconds)));
        }
    }

    /// Whether what compressing saves takes longer to send than to compress, as far as that is known.
    fn repays(&self) -> bool {
        match (self.cost, self.sending) {
            (Some((cost, saving)), Some(sending)) => cost <= saving * sending,
            _ => true,
        }
    }
}

fn of_late(before: f64, latest: f64) -> f64 {
    before * (1.0 - LATEST) + latest * LATEST
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
        // A frame is expanded into one buffer at once, so zstd takes no memory for a window, whatever the frame asks for.
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
    Failure::new(FailureKind::Protocol, "expand", what)
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
        assert!(pack(&mut packer), "nothing is known yet");
        // No machine compresses 64 KiB in a picosecond.
        packer.sent(text.len(), Duration::ZERO);
        let compressed = (0..320).filter(|_| pack(&mut packer)).count();
        assert_eq!(compressed, 10, "one of 32, to know what it costs");
        // Nor takes an hour for it.
        packer.sent(text.len(), Duration::from_secs(3600));
        assert!((0..40).all(|_| pack(&mut packer)));
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
