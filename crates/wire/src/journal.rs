//! What a destination remembers of files that are partly there.
//!
//! A journal is a header and records, appended and never changed. A record is
//!
//! ```text
//!  0  4  length of the body, big-endian
//!  4  8  first bytes of BLAKE3 over offset of the record in the file and body
//! 12  .  body, postcard
//! ```
//!
//! The check value covers the place of the record, so a record moved or repeated does not pass. Reading stops
//! at the first record that is short or damaged; what stands before it counts. A chunk that no record names
//! is not there, whatever the partial file holds.

use crate::digest::Digest;
use crate::entry::Evidence;
use crate::message::Origin;
use crate::{DecodeError, RelativePath, limits};
use serde::{Deserialize, Serialize};

/// Bytes in front of a record's body.
pub const RECORD_HEAD_BYTES: usize = 12;
/// First bytes of a journal file.
pub const MAGIC: &[u8; 16] = b"thalweg-journal\n";
/// Layout described here.
pub const LAYOUT: u32 = 1;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// First record: what the journal is for. Once more further on, where the size of chunks changes.
    Header {
        /// [`LAYOUT`].
        layout: u32,
        /// Sources and destination, hashed.
        job_key: [u8; 16],
        /// Chunk size of every partial that begins behind it, up to the next header: a power of two, as
        /// [`is_chunk_size`](crate::limits::is_chunk_size) says.
        chunk_bytes: u64,
    },
    /// A partial file begins.
    Begin {
        /// Number of the partial; its file is named after it.
        partial: u64,
        /// Entry it will become.
        path: RelativePath,
        /// What the source showed: a partial serves only the same content.
        evidence: Evidence,
    },
    /// These chunks of it are durable.
    Chunks {
        /// Which partial.
        partial: u64,
        /// Chunk number and digest.
        chunks: Vec<(u64, Digest)>,
    },
    /// The partial was renamed into place or thrown away.
    End {
        /// Which partial.
        partial: u64,
    },
}

impl Record {
    /// Appends the record to `out`, for offset `at` of the journal file.
    pub fn encode(&self, at: u64, out: &mut Vec<u8>) {
        encode(self, at, out);
    }

    /// Reads the record at the start of `bytes`, which stand at offset `at` of the file. Returns it with
    /// its length.
    ///
    /// # Errors
    /// `Short` where the bytes end early (a torn append), `Damaged` where the check value is wrong.
    pub fn decode(at: u64, bytes: &[u8]) -> Result<(Record, usize), DecodeError> {
        decode(at, bytes)
    }
}

/// What is known of flows that are not complete. The file begins with [`MARKS_MAGIC`]; records are laid out as those of
/// a journal of partial files, each at its offset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MarkRecord {
    /// First record.
    Header {
        /// [`LAYOUT`].
        layout: u32,
    },
    /// A flow begins.
    Begin {
        /// Its number in this file.
        flow: u64,
        /// Its name below the source.
        path: RelativePath,
        /// What its source is.
        origin: Origin,
        /// Its name below the destination: another one where an older flow has the first.
        name: RelativePath,
    },
    /// So much of these flows is durable: number, bytes, BLAKE3 of them.
    Marks(Vec<(u64, u64, Digest)>),
    /// It is complete.
    End {
        /// Its number.
        flow: u64,
    },
    /// Its file was made, and is empty.
    Made {
        /// Its number.
        flow: u64,
        /// The file's inode.
        inode: u64,
    },
}

/// First bytes of a file of marks.
pub const MARKS_MAGIC: &[u8; 16] = b"thalweg-marks  \n";

impl MarkRecord {
    /// As [`Record::encode`].
    pub fn encode(&self, at: u64, out: &mut Vec<u8>) {
        encode(self, at, out);
    }

    /// As [`Record::decode`].
    ///
    /// # Errors
    /// As there.
    pub fn decode(at: u64, bytes: &[u8]) -> Result<(MarkRecord, usize), DecodeError> {
        decode(at, bytes)
    }
}

fn encode<T: Serialize>(record: &T, at: u64, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEAD_BYTES]);
    let taken = std::mem::take(out);
    // Serialising into a Vec cannot fail: no length is unknown and no type refuses.
    *out = postcard::to_extend(record, taken).unwrap_or_default();
    let body = out.len() - start - RECORD_HEAD_BYTES;
    let check = check_value(at, &out[start + RECORD_HEAD_BYTES..]);
    out[start..start + 4].copy_from_slice(&(body as u32).to_be_bytes());
    out[start + 4..start + RECORD_HEAD_BYTES].copy_from_slice(&check);
}

fn decode<T: for<'a> Deserialize<'a>>(at: u64, bytes: &[u8]) -> Result<(T, usize), DecodeError> {
    let Some((head, rest)) = bytes.split_at_checked(RECORD_HEAD_BYTES) else {
        return Err(short(RECORD_HEAD_BYTES, bytes.len()));
    };
    let body = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if body > limits::JOURNAL_RECORD_BYTES_MAX {
        return Err(DecodeError::Damaged { what: "journal record" });
    }
    let Some(body) = rest.get(..body) else {
        return Err(short(body, rest.len()));
    };
    if check_value(at, body) != head[4..] {
        return Err(DecodeError::Damaged { what: "journal record" });
    }
    let record = postcard::from_bytes(body).map_err(|_| DecodeError::Invalid { what: "journal record" })?;
    Ok((record, RECORD_HEAD_BYTES + body.len()))
}

fn short(need: usize, have: usize) -> DecodeError {
    DecodeError::Short { what: "journal record", need, have }
}

fn check_value(at: u64, body: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&at.to_be_bytes()).update(body);
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records() -> Vec<Record> {
        vec![
            Record::Header { layout: LAYOUT, job_key: [7; 16], chunk_bytes: 4 << 20 },
            Record::Begin {
                partial: 1,
                path: RelativePath::new(b"a/\xff".to_vec()).unwrap(),
                evidence: Evidence { size: 9, ..Evidence::default() },
            },
            Record::Chunks { partial: 1, chunks: vec![(0, Digest([1; 32])), (5, Digest([2; 32]))] },
            Record::End { partial: 1 },
        ]
    }

    fn written() -> Vec<u8> {
        let mut out = Vec::new();
        for record in records() {
            let at = out.len() as u64;
            record.encode(at, &mut out);
        }
        out
    }

    fn read(bytes: &[u8]) -> Vec<Record> {
        let mut at = 0;
        let mut out = Vec::new();
        while let Ok((record, len)) = Record::decode(at as u64, &bytes[at..]) {
            out.push(record);
            at += len;
        }
        out
    }

    #[test]
    fn a_journal_reads_back() {
        assert_eq!(read(&written()), records());
    }

    #[test]
    fn a_flipped_bit_anywhere_never_gives_another_record() {
        let good = written();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let found = read(&bad);
            assert!(found.len() < records().len());
            assert_eq!(found[..], records()[..found.len()]);
        }
    }

    #[test]
    fn a_torn_journal_keeps_what_was_whole() {
        let good = written();
        for len in 0..good.len() {
            let found = read(&good[..len]);
            assert!(found.len() < records().len());
            assert_eq!(found[..], records()[..found.len()]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<u64>()) {
            let _ = Record::decode(at, &bytes);
        }
    }
}
