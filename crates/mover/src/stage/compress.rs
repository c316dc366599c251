//! Compresses a segment where that pays, and expands it again within its declared size.

use crate::failure::{Failure, FailureKind, Result};
use std::io;
use zstd::bulk::{Compressor, Decompressor};

/// Compresses segment by segment with zstd; leaves alone what does not shrink.
///
/// Segments that did not repay their compression make it look less often: after n in a row it skips up to
/// 2^n - 1 segments, at most 31.
pub struct Packer {
    compressor: Compressor<'static>,
    out: Vec<u8>,
    failures: u32,
    skip: u32,
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
        Ok(Packer { compressor: Compressor::new(LEVEL)?, out, failures: 0, skip: 0 })
    }

    /// Replaces `payload[..raw]` by its compressed form if that is worth it; the new length then.
    pub fn pack(&mut self, payload: &mut [u8], raw: usize) -> Option<usize> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let packed = self.compressor.compress_to_buffer(&payload[..raw], &mut self.out[..]).ok();
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
