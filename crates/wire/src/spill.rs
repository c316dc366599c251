//! The spill log of a channel of frames: files of records, appended and never changed.
//!
//! ```text
//!  0  4  "tfr1"
//!  4  4  bytes of the head
//!  8  8  bytes of the payload
//! 16  8  position in the channel
//! 24 16  first bytes of BLAKE3 over bytes 0..24, number of the file, offset of the record, and head
//! 40  .  head: an item, postcard
//!  .  .  payload, if the item is a frame; its digest is in the head
//! ```
//!
//! Numbers are big-endian. The check value covers where the record stands, so one that was moved or repeated does not
//! pass. Reading a file stops at the first record that is short or damaged.

use crate::message::Item;
use crate::{DecodeError, limits};

/// Bytes in front of a head.
pub const SPILL_HEAD_BYTES: usize = 40;
const MAGIC: &[u8; 4] = b"tfr1";
const CHECK_AT: usize = 24;

/// What stands in front of a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpillRecord {
    /// Position in the channel.
    pub position: u64,
    /// What it is.
    pub item: Item,
}

/// How long the parts of a record are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpillLengths {
    /// Bytes of the head, length and check not counted.
    pub head: usize,
    /// Bytes of the payload.
    pub payload: u64,
}

impl SpillLengths {
    /// Reads them from the first bytes of a record.
    ///
    /// # Errors
    /// `Short`; `Invalid` for what is no record; `TooLarge`.
    pub fn read(bytes: &[u8]) -> Result<SpillLengths, DecodeError> {
        let short = DecodeError::Short { what: "spilled frame", need: SPILL_HEAD_BYTES, have: bytes.len() };
        let bytes = bytes.first_chunk::<SPILL_HEAD_BYTES>().ok_or(short)?;
        if &bytes[..4] != MAGIC {
            return Err(DecodeError::Invalid { what: "spilled frame" });
        }
        let head = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
        let payload = number_at(bytes, 8);
        if head > limits::ITEM_HEAD_BYTES_MAX {
            let limit = limits::ITEM_HEAD_BYTES_MAX as u64;
            return Err(DecodeError::TooLarge { what: "head of an item", value: head as u64, limit });
        }
        if payload > limits::FRAME_PAYLOAD_BYTES_MAX {
            let limit = limits::FRAME_PAYLOAD_BYTES_MAX;
            return Err(DecodeError::TooLarge { what: "frame", value: payload, limit });
        }
        Ok(SpillLengths { head, payload })
    }

    /// Bytes of the record.
    pub fn record(&self) -> u64 {
        SPILL_HEAD_BYTES as u64 + self.head as u64 + self.payload
    }
}

impl SpillRecord {
    /// What stands in front of the payload, for a record at `offset` of file number `file`.
    ///
    /// # Errors
    /// `TooLarge` for an item that nobody could have sent.
    pub fn encode(&self, file: u64, offset: u64) -> Result<Vec<u8>, DecodeError> {
        let mut out = vec![0; SPILL_HEAD_BYTES];
        out = postcard::to_extend(&self.item, out).map_err(|_| DecodeError::Invalid { what: "item" })?;
        let head = out.len() - SPILL_HEAD_BYTES;
        if head > limits::ITEM_HEAD_BYTES_MAX {
            let limit = limits::ITEM_HEAD_BYTES_MAX as u64;
            return Err(DecodeError::TooLarge { what: "head of an item", value: head as u64, limit });
        }
        out[..4].copy_from_slice(MAGIC);
        out[4..8].copy_from_slice(&(head as u32).to_be_bytes());
        out[8..16].copy_from_slice(&self.item.payload_bytes().to_be_bytes());
        out[16..24].copy_from_slice(&self.position.to_be_bytes());
        let check = check(&out, file, offset);
        out[CHECK_AT..SPILL_HEAD_BYTES].copy_from_slice(&check);
        Ok(out)
    }

    /// Reads what [`SpillRecord::encode`] wrote; `bytes` may have more behind the head.
    ///
    /// # Errors
    /// `Short`, `Damaged` where the check value is wrong, or as [`SpillLengths::read`].
    pub fn decode(bytes: &[u8], file: u64, offset: u64) -> Result<(SpillRecord, SpillLengths), DecodeError> {
        let lengths = SpillLengths::read(bytes)?;
        let end = SPILL_HEAD_BYTES + lengths.head;
        let Some(bytes) = bytes.get(..end) else {
            return Err(DecodeError::Short { what: "spilled frame", need: end, have: bytes.len() });
        };
        if bytes[CHECK_AT..SPILL_HEAD_BYTES] != check(bytes, file, offset) {
            return Err(DecodeError::Damaged { what: "spilled frame" });
        }
        let item = Item::decode_head(&bytes[SPILL_HEAD_BYTES..])?;
        if item.payload_bytes() != lengths.payload {
            return Err(DecodeError::Invalid { what: "spilled frame" });
        }
        Ok((SpillRecord { position: number_at(bytes, 16), item }, lengths))
    }
}

fn check(record: &[u8], file: u64, offset: u64) -> [u8; SPILL_HEAD_BYTES - CHECK_AT] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&record[..CHECK_AT]).update(&file.to_be_bytes()).update(&offset.to_be_bytes());
    hasher.update(&record[SPILL_HEAD_BYTES..]);
    let mut out = [0; SPILL_HEAD_BYTES - CHECK_AT];
    out.copy_from_slice(&hasher.finalize().as_bytes()[..SPILL_HEAD_BYTES - CHECK_AT]);
    out
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{LossReason, LostRange, ProducerId, SetOver};
    use proptest::prelude::*;

    fn record(position: u64) -> SpillRecord {
        SpillRecord { position, item: Item::SetOver(SetOver { set: 3, frames: 1440, taken: 1439 }) }
    }

    #[test]
    fn a_record_reads_back_where_it_stands_and_nowhere_else() {
        let lost = LostRange {
            producer: ProducerId::new("a").unwrap(),
            first: 1,
            end: 9,
            reason: LossReason::Dropped,
        };
        for written in [record(7), SpillRecord { position: 0, item: Item::Lost(lost) }] {
            let mut bytes = written.encode(2, 4096).unwrap();
            bytes.extend_from_slice(b"what follows");
            assert_eq!(SpillRecord::decode(&bytes, 2, 4096).unwrap().0, written);
            assert!(SpillRecord::decode(&bytes, 2, 4095).is_err());
            assert!(SpillRecord::decode(&bytes, 3, 4096).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_flipped_bit_never_gives_another_record(position in 0u64..1 << 40, at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = record(position).encode(1, 0).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(SpillRecord::decode(&bytes, 1, 0).is_err());
        }

        #[test]
        fn any_bytes_give_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = SpillRecord::decode(&bytes, 0, 0);
        }
    }
}
