//! What data streams carry: sealed frames.
//!
//! ```text
//! outer header, 8 bytes, in clear, authenticated
//!   0  4  length of what follows (sealed bytes and tag)
//!   4  1  0
//!   5  3  zero
//! sealed
//!   payload
//!   inner header, 64 bytes
//!      0  1  kind: see FrameKind
//!      1  1  encoding: 0 as is, 1 zstd
//!      2  2  transfer
//!      4  4  payload bytes before compression
//!      8  8  entry, or the number of files in a pack
//!     16  8  offset in the file
//!     24 32  digest of the payload before compression
//!     56  1  1 for a chunk that was begun before on another stream
//!     57  7  zero
//! tag, 16 bytes
//! ```
//!
//! The inner header stands behind the payload so that the payload starts where its buffer starts, aligned
//! for direct I/O. Numbers are big-endian. The sequence number of a frame is not sent: it is the nonce, and a
//! frame lost, repeated or moved does not open.

use crate::digest::Digest;
use crate::entry::EntryId;
use crate::message::TransferNumber;
use crate::{DecodeError, limits};

/// Bytes of the outer header.
pub const OUTER_BYTES: usize = 8;
/// Bytes of the inner header.
pub const INNER_BYTES: usize = 64;
/// Bytes of the authentication tag.
pub const TAG_BYTES: usize = 16;
/// Bytes of the index of a pack for each file.
pub const PACK_ITEM_BYTES: usize = 48;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Bytes of one file.
    Segment,
    /// A segment of zeros; no payload.
    Zeros,
    /// Whole small files; see [`PackItem`].
    Pack,
    /// The digest of a whole chunk, to be compared with what the destination has; no payload.
    Compare,
    /// The sender will send nothing more on this stream. A stream that ends without it was cut.
    End,
}

/// How the payload is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As is.
    Raw,
    /// One zstd frame.
    Zstd,
}

/// The inner header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner {
    /// What the frame is.
    pub kind: FrameKind,
    /// How its payload is encoded.
    pub encoding: Encoding,
    /// Which transfer.
    pub transfer: TransferNumber,
    /// Payload bytes before compression; for `Zeros` the number of zeros.
    pub raw_bytes: u32,
    /// Which entry; for `Pack` the number of files.
    pub entry: EntryId,
    /// Where in the file.
    pub offset: u64,
    /// Digest of the piece (see [`crate::digest::of_piece`]), for `Compare` of the chunk; zero for `Pack` and `End`.
    pub digest: Digest,
    /// Of a chunk that was begun before on another stream, and may still be under way there: this copy goes before that
    /// one.
    pub is_again: bool,
}

/// One file in a pack. The index stands behind the contents, in the order of the contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackItem {
    /// Which entry.
    pub entry: EntryId,
    /// Its length; it is here as a whole.
    pub bytes: u32,
    /// BLAKE3 of it.
    pub digest: Digest,
}

/// Outer header of a frame with `sealed` bytes behind it (payload, inner header, tag).
pub fn encode_outer(sealed: usize) -> [u8; OUTER_BYTES] {
    let mut out = [0; OUTER_BYTES];
    out[..4].copy_from_slice(&(sealed as u32).to_be_bytes());
    out
}

/// Length of what follows an outer header.
///
/// # Errors
/// `TooLarge`, `Short` for less than an empty frame, `Invalid` for reserved bytes that are not zero.
pub fn decode_outer(bytes: &[u8; OUTER_BYTES]) -> Result<usize, DecodeError> {
    let sealed = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    if bytes[4..].iter().any(|&b| b != 0) {
        return Err(DecodeError::Invalid { what: "reserved bytes of the frame" });
    }
    if sealed > limits::FRAME_BYTES_MAX {
        let limit = limits::FRAME_BYTES_MAX as u64;
        return Err(DecodeError::TooLarge { what: "frame", value: sealed as u64, limit });
    }
    if sealed < INNER_BYTES + TAG_BYTES {
        return Err(DecodeError::Short { what: "frame", need: INNER_BYTES + TAG_BYTES, have: sealed });
    }
    Ok(sealed)
}

impl Inner {
    /// The frame that ends a stream.
    pub fn end() -> Self {
        Inner {
            kind: FrameKind::End,
            encoding: Encoding::Raw,
            transfer: TransferNumber(0),
            raw_bytes: 0,
            entry: EntryId(0),
            offset: 0,
            digest: Digest::default(),
            is_again: false,
        }
    }

    /// The bytes behind the payload.
    pub fn encode(&self) -> [u8; INNER_BYTES] {
        let mut out = [0; INNER_BYTES];
        out[0] = match self.kind {
            FrameKind::Segment => 1,
            FrameKind::Zeros => 2,
            FrameKind::Pack => 3,
            FrameKind::End => 4,
            FrameKind::Compare => 5,
        };
        out[1] = match self.encoding {
            Encoding::Raw => 0,
            Encoding::Zstd => 1,
        };
        out[2..4].copy_from_slice(&self.transfer.0.to_be_bytes());
        out[4..8].copy_from_slice(&self.raw_bytes.to_be_bytes());
        out[8..16].copy_from_slice(&self.entry.0.to_be_bytes());
        out[16..24].copy_from_slice(&self.offset.to_be_bytes());
        out[24..56].copy_from_slice(&self.digest.0);
        out[56] = u8::from(self.is_again);
        out
    }

    /// Splits an opened frame into payload and inner header, and checks that they agree.
    ///
    /// # Errors
    /// For lengths, offsets and kinds that no correct peer sends.
    pub fn split(opened: &[u8]) -> Result<(Inner, &[u8]), DecodeError> {
        let Some((payload, inner)) = opened.split_last_chunk::<INNER_BYTES>() else {
            return Err(DecodeError::Short { what: "frame", need: INNER_BYTES, have: opened.len() });
        };
        let inner = Inner::decode(inner)?;
        inner.check(payload.len())?;
        Ok((inner, payload))
    }

    fn decode(bytes: &[u8; INNER_BYTES]) -> Result<Inner, DecodeError> {
        let u64_at = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(number)
        };
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[24..56]);
        if bytes[57..].iter().any(|&b| b != 0) {
            return Err(DecodeError::Invalid { what: "reserved bytes of the inner header" });
        }
        Ok(Inner {
            kind: match bytes[0] {
                1 => FrameKind::Segment,
                2 => FrameKind::Zeros,
                3 => FrameKind::Pack,
                4 => FrameKind::End,
                5 => FrameKind::Compare,
                _ => return Err(DecodeError::Invalid { what: "frame kind" }),
            },
            encoding: match bytes[1] {
                0 => Encoding::Raw,
                1 => Encoding::Zstd,
                _ => return Err(DecodeError::Invalid { what: "encoding" }),
            },
            transfer: TransferNumber(u16::from_be_bytes([bytes[2], bytes[3]])),
            raw_bytes: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            entry: EntryId(u64_at(8)),
            offset: u64_at(16),
            digest: Digest(digest),
            is_again: match bytes[56] {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::Invalid { what: "copy" }),
            },
        })
    }

    fn check(&self, payload_bytes: usize) -> Result<(), DecodeError> {
        let raw = self.raw_bytes as usize;
        let raw_max = match self.kind {
            FrameKind::Pack => limits::SEGMENT_BYTES_MAX as usize + limits::PACK_FILES_MAX * PACK_ITEM_BYTES,
            _ => limits::SEGMENT_BYTES_MAX as usize,
        };
        if raw > raw_max {
            return Err(DecodeError::TooLarge { what: "payload", value: raw as u64, limit: raw_max as u64 });
        }
        let agrees = match (self.kind, self.encoding) {
            (FrameKind::Segment | FrameKind::Pack, Encoding::Raw) => payload_bytes == raw,
            (FrameKind::Segment | FrameKind::Pack, Encoding::Zstd) => payload_bytes < raw,
            (FrameKind::Zeros, Encoding::Raw) => payload_bytes == 0,
            (FrameKind::Compare | FrameKind::End, Encoding::Raw) => payload_bytes == 0 && raw == 0,
            _ => false,
        };
        if !agrees {
            return Err(DecodeError::Invalid { what: "payload length" });
        }
        if self.is_again && !matches!(self.kind, FrameKind::Segment | FrameKind::Zeros) {
            return Err(DecodeError::Invalid { what: "copy" });
        }
        let end = self.offset.checked_add(u64::from(self.raw_bytes));
        if self.kind != FrameKind::Pack && end.is_none_or(|end| end > limits::FILE_BYTES_MAX) {
            return Err(DecodeError::Invalid { what: "offset" });
        }
        if self.kind == FrameKind::Pack && self.entry.0 > limits::PACK_FILES_MAX as u64 {
            let limit = limits::PACK_FILES_MAX as u64;
            return Err(DecodeError::TooLarge { what: "files in a pack", value: self.entry.0, limit });
        }
        Ok(())
    }
}

impl PackItem {
    /// The bytes in the index.
    pub fn encode(&self) -> [u8; PACK_ITEM_BYTES] {
        let mut out = [0; PACK_ITEM_BYTES];
        out[..8].copy_from_slice(&self.entry.0.to_be_bytes());
        out[8..12].copy_from_slice(&self.bytes.to_be_bytes());
        out[16..].copy_from_slice(&self.digest.0);
        out
    }

    /// Reads the index of a pack of `files` files: items and their contents, borrowed from `payload`.
    ///
    /// # Errors
    /// If lengths do not add up exactly.
    pub fn read_all(payload: &[u8], files: u64) -> Result<Vec<(PackItem, &[u8])>, DecodeError> {
        let limit = limits::PACK_FILES_MAX as u64;
        if files > limit {
            return Err(DecodeError::TooLarge { what: "files in a pack", value: files, limit });
        }
        let index_bytes = files as usize * PACK_ITEM_BYTES;
        let Some(contents_bytes) = payload.len().checked_sub(index_bytes) else {
            return Err(DecodeError::Short { what: "pack", need: index_bytes, have: payload.len() });
        };
        let (mut contents, index) = payload.split_at(contents_bytes);
        let mut items = Vec::with_capacity(files as usize);
        for bytes in index.chunks_exact(PACK_ITEM_BYTES) {
            let item = PackItem::decode(bytes)?;
            let Some((content, rest)) = contents.split_at_checked(item.bytes as usize) else {
                let need = item.bytes as usize;
                return Err(DecodeError::Short { what: "packed file", need, have: contents.len() });
            };
            contents = rest;
            items.push((item, content));
        }
        if !contents.is_empty() {
            return Err(DecodeError::Invalid { what: "bytes that no packed file claims" });
        }
        Ok(items)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut entry = [0; 8];
        entry.copy_from_slice(&bytes[..8]);
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[16..48]);
        if bytes[12..16].iter().any(|&b| b != 0) {
            return Err(DecodeError::Invalid { what: "reserved bytes of a pack item" });
        }
        Ok(PackItem {
            entry: EntryId(u64::from_be_bytes(entry)),
            bytes: u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            digest: Digest(digest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(raw: u32) -> Inner {
        Inner {
            kind: FrameKind::Segment,
            encoding: Encoding::Raw,
            transfer: TransferNumber(3),
            raw_bytes: raw,
            entry: EntryId(77),
            offset: 1 << 40,
            digest: Digest([5; 32]),
            is_again: false,
        }
    }

    #[test]
    fn a_frame_comes_back_as_it_went() {
        let inner = Inner { is_again: true, ..segment(5) };
        let mut opened = b"hello".to_vec();
        opened.extend_from_slice(&inner.encode());
        assert_eq!(Inner::split(&opened), Ok((inner, &b"hello"[..])));
    }

    #[test]
    fn a_frame_whose_lengths_disagree_is_refused() {
        for (kind, encoding, raw, payload) in [
            (FrameKind::Segment, Encoding::Raw, 4, 5),
            (FrameKind::Segment, Encoding::Zstd, 5, 5),
            (FrameKind::Segment, Encoding::Raw, (limits::SEGMENT_BYTES_MAX + 1) as u32, 0),
            (FrameKind::Zeros, Encoding::Raw, 4, 1),
            (FrameKind::Zeros, Encoding::Zstd, 4, 0),
            (FrameKind::End, Encoding::Raw, 1, 0),
        ] {
            let inner = Inner { kind, encoding, raw_bytes: raw, ..segment(0) };
            let mut opened = vec![0; payload];
            opened.extend_from_slice(&inner.encode());
            assert!(Inner::split(&opened).is_err(), "{inner:?}");
        }
        let again = Inner { kind: FrameKind::End, is_again: true, ..segment(0) };
        assert!(Inner::split(&again.encode()).is_err(), "only chunks come again");
        let beyond = Inner { offset: u64::MAX - 1, ..segment(0) };
        assert!(Inner::split(&beyond.encode()).is_err());
    }

    #[test]
    fn a_pack_gives_back_its_files_and_nothing_else() {
        let items: Vec<PackItem> = [3u32, 0, 2]
            .iter()
            .enumerate()
            .map(|(i, &bytes)| PackItem { entry: EntryId(i as u64), bytes, digest: Digest([i as u8; 32]) })
            .collect();
        let mut payload = b"abcde".to_vec();
        items.iter().for_each(|item| payload.extend_from_slice(&item.encode()));
        let read = PackItem::read_all(&payload, 3).unwrap();
        assert_eq!(read.iter().map(|(_, c)| *c).collect::<Vec<_>>(), [&b"abc"[..], b"", b"de"]);
        assert_eq!(read.iter().map(|(i, _)| *i).collect::<Vec<_>>(), items);
        for (bad, files) in
            [(&payload[1..], 3), (&payload[..], 2), (&payload[..], 4), (&payload[..], u64::MAX)]
        {
            assert!(PackItem::read_all(bad, files).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_value_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400), files in 0u64..6) {
            let _ = Inner::split(&bytes);
            let _ = PackItem::read_all(&bytes, files);
            if let Some(head) = bytes.first_chunk::<OUTER_BYTES>() {
                let _ = decode_outer(head);
            }
            let _ = crate::message::Message::decode(&bytes);
        }
    }
}
