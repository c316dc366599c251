//! Compresses a segment where that pays, and expands it again within its declared size.

use self::worth::Worth;
use crate::failure::{Failure, FailureKind, Result};
use crate::stage::send::Queued;
use std::io;
use std::time::{Duration, Instant};
use zstd::bulk::{Compressor, Decompressor};

mod path;

mod worth;

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

    /// Replaces `payload[..raw]` by its compressed form if that is worth it; the new length then. `queued` is what was
    /// put before and has not arrived.
    pub fn pack(&mut self, payload: &mut [u8], raw: usize, queued: Queued) -> Option<usize> {
        self.worth.path.look(Instant::now(), queued);
        if !self.is_always {
            if self.skip > 0 {
                self.skip -= 1;
                self.worth.is_to_know = false;
                return None;
            }
            if !self.worth.is_tried() {
                self.sample(&payload[..raw]);
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

    /// Of a segment that goes out as it is: what compressing it would take and save, if that is to be known.
    fn sample(&mut self, segment: &[u8]) {
        let Some(part) = self.worth.sample(segment.len()) else { return };
        let (bytes, began) = (part.len(), Instant::now());
        let packed = self.compressor.compress_to_buffer(&segment[part], &mut self.out[..]).unwrap_or(bytes);
        self.worth.sampled(bytes, packed, began.elapsed());
    }

    /// A frame with a payload of so many bytes is about to be put, behind what is `queued`.
    pub fn puts(&mut self, payload_bytes: usize, queued: Queued) {
        self.worth.puts(Instant::now(), payload_bytes, queued);
    }

    /// A limit bounds what is sent, and not the path.
    pub fn is_limited(&mut self) {
        self.worth.is_limited();
    }

    /// A frame with a payload of so many bytes went out, which took so long, all waiting included: for the rate that
    /// was asked for as for the path. Both are made shorter by bytes that are saved, and by time that passes meanwhile.
    pub fn sent(&mut self, payload_bytes: usize, took: Duration) {
        self.worth.sent(payload_bytes, took);
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
        let packed = packer.pack(&mut buffer, text.len(), Queued::default()).unwrap();
        assert!(packed < text.len() / 10);
        let mut unpacker = Unpacker::new().unwrap();
        assert_eq!(unpacker.unpack(&buffer[..packed], text.len()).unwrap(), text);

        let mut noise = vec![0; 1 << 16];
        blake3::Hasher::new().finalize_xof().fill(&mut noise);
        let before = noise.clone();
        assert_eq!(packer.pack(&mut noise, before.len(), Queued::default()), None);
        assert_eq!(noise, before);
    }

    #[test]
    fn nothing_is_compressed_while_sending_is_faster_and_again_when_it_is_not() {
        let mut packer = Packer::new(1 << 16).unwrap();
        let text: Vec<u8> = b"thalweg ".iter().copied().cycle().take(1 << 16).collect();
        let pack =
            |packer: &mut Packer| packer.pack(&mut text.clone(), text.len(), Queued::default()).is_some();
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
            assert_eq!(packer.pack(&mut noise.clone(), noise.len(), Queued::default()), None);
            packer.sent(noise.len(), Duration::ZERO);
            let packed = packer.pack(&mut text.clone(), text.len(), Queued::default());
            assert!(packed.is_some());
            packer.sent(packed.unwrap_or_default(), Duration::ZERO);
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
