//! Golden vectors: a value of every kind that travels or is stored, and its bytes.
//!
//! `cargo xtask gen` writes them to `crates/wire/vectors/`, one file for each family; a test holds the committed
//! files against this code, reads every vector back, and damages it. The fuzz targets begin with them. Who adds
//! a variant adds a value to [`samples`], or it does not compile.

use crate::frame::{self, Inner, PackItem};
use crate::hello::{Hello, ServerHello};
use crate::journal::{MarkRecord, Record};
use crate::message::{Item, Message};
use crate::receipt::{self, Line, Signed, Statement};
use crate::spill::SpillRecord;
use std::fmt::{Debug, Write};

mod samples;

/// Vectors of one layout, in one file.
pub struct Family {
    /// Name of the file, without its ending.
    pub name: &'static str,
    /// What stands in it, in one line.
    pub about: &'static str,
    /// The vectors; names are unique.
    pub vectors: Vec<Vector>,
    /// Reads bytes as this family does, and shows the value as [`Vector::value`] does.
    pub read: fn(&[u8]) -> Result<String, crate::DecodeError>,
}

/// A value and its bytes.
pub struct Vector {
    /// What it is.
    pub name: String,
    /// The value, as Rust shows it.
    pub value: String,
    /// The value, encoded.
    pub bytes: Vec<u8>,
}

/// A value with the name of its vector.
struct Sample<T> {
    name: String,
    value: T,
}

/// All families.
pub fn families() -> Vec<Family> {
    vec![
        Family {
            name: "hello",
            about: "client hello: all 96 bytes",
            vectors: encoded(samples::hellos(), |hello| hello.encode().to_vec()),
            read: |bytes| Hello::decode(bytes).map(show),
        },
        Family {
            name: "server-hello",
            about: "server hello: all 64 bytes",
            vectors: encoded(samples::server_hellos(), |hello| hello.encode().to_vec()),
            read: |bytes| ServerHello::decode(bytes).map(show),
        },
        Family {
            name: "message",
            about: "control messages: postcard, without the length in front",
            vectors: encoded(samples::messages(), message_bytes),
            read: |bytes| Message::decode(bytes).map(show),
        },
        Family {
            name: "frame-outer",
            about: "outer header of a frame: 8 bytes; the value is the length of what follows",
            vectors: encoded(samples::sealed_lengths(), |length| frame::encode_outer(*length).to_vec()),
            read: |bytes| frame::decode_outer(&head(bytes)?).map(show),
        },
        Family {
            name: "frame-inner",
            about: "opened frame: payload and inner header of 64 bytes",
            vectors: encoded(samples::frames(), |(inner, payload)| [&payload[..], &inner.encode()].concat()),
            read: |bytes| Inner::split(bytes).map(|(inner, payload)| show((inner, payload.to_vec()))),
        },
        Family {
            name: "pack",
            about: "payload of a pack of three files: contents, then the index",
            vectors: encoded(samples::packs(), |files| pack_bytes(files)),
            read: |bytes| {
                let items = PackItem::read_all(bytes, samples::PACK_FILES)?;
                Ok(show(items.iter().map(|(item, content)| (*item, content.to_vec())).collect::<Vec<_>>()))
            },
        },
        Family {
            name: "journal",
            about: "records of a journal, each at offset 16 of its file",
            vectors: encoded(samples::records(), record_bytes),
            read: |bytes| Record::decode(samples::RECORD_AT, bytes).map(|(record, _)| show(record)),
        },
        Family {
            name: "marks",
            about: "records of a file of marks, each at offset 16 of its file",
            vectors: encoded(samples::mark_records(), |record| {
                let mut bytes = Vec::new();
                record.encode(samples::RECORD_AT, &mut bytes);
                bytes
            }),
            read: |bytes| MarkRecord::decode(samples::RECORD_AT, bytes).map(|(record, _)| show(record)),
        },
        Family {
            name: "item",
            about: "items of a lane of frames: length and head",
            vectors: encoded(samples::frames::items(), |item| {
                let mut bytes = Vec::new();
                item.encode(&mut bytes).expect("an item");
                bytes
            }),
            read: |bytes| Item::decode(bytes).map(|(item, _)| show(item)),
        },
        Family {
            name: "spill",
            about: "records of a spill log without their payloads, each at offset 1048576 of file 3",
            vectors: encoded(samples::frames::spill_records(), |record| {
                let (file, offset) = samples::frames::SPILL_AT;
                record.encode(file, offset).expect("a record")
            }),
            read: |bytes| {
                let (file, offset) = samples::frames::SPILL_AT;
                SpillRecord::decode(bytes, file, offset).map(|(record, _)| show(record))
            },
        },
        Family {
            name: "receipt-statement",
            about: "what is signed: a context line, then postcard",
            vectors: encoded(samples::statements(), Statement::signed_bytes),
            read: |bytes| Statement::from_signed_bytes(bytes).map(show),
        },
        Family {
            name: "receipt-signed",
            about: "a signed statement as a receipt file keeps it: postcard (the signature is made up)",
            vectors: encoded(samples::signed(), Signed::to_bytes),
            read: |bytes| Signed::from_bytes(bytes).map(show),
        },
        Family {
            name: "receipt-line",
            about: "lines that the root of a receipt is computed over",
            vectors: receipt_lines(),
            read: |bytes| {
                let invalid = crate::DecodeError::Invalid { what: "line of a receipt" };
                std::str::from_utf8(bytes).map_err(|_| invalid)?.parse::<Line>().map(show)
            },
        },
    ]
}

impl Family {
    /// The text of its file.
    pub fn to_text(&self) -> String {
        let mut text = format!("# Golden vectors: {}.\n", self.about);
        text.push_str(
            "# Made by `cargo xtask gen`. A name, the value as Rust shows it, its bytes in hexadecimal.\n",
        );
        for vector in &self.vectors {
            // Writing into a String cannot fail.
            let _ = write!(text, "\n{}\n  {}\n  ", vector.name, vector.value);
            for byte in &vector.bytes {
                let _ = write!(text, "{byte:02x}");
            }
            text.push('\n');
        }
        text
    }
}

fn encoded<T: Debug>(samples: Vec<Sample<T>>, encode: impl Fn(&T) -> Vec<u8>) -> Vec<Vector> {
    samples
        .into_iter()
        .map(|sample| {
            let bytes = encode(&sample.value);
            Vector { name: sample.name, value: show(sample.value), bytes }
        })
        .collect()
}

fn show(value: impl Debug) -> String {
    format!("{value:?}")
}

fn head<const N: usize>(bytes: &[u8]) -> Result<[u8; N], crate::DecodeError> {
    bytes.first_chunk().copied().ok_or(crate::DecodeError::Short { what: "head", need: N, have: bytes.len() })
}

fn message_bytes(message: &Message) -> Vec<u8> {
    message.encode().map(|bytes| bytes[crate::message::LENGTH_BYTES..].to_vec()).unwrap_or_default()
}

fn pack_bytes(files: &[(PackItem, Vec<u8>)]) -> Vec<u8> {
    let contents = files.iter().flat_map(|(_, content)| content.iter().copied());
    contents.chain(files.iter().flat_map(|(item, _)| item.encode())).collect()
}

fn record_bytes(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(samples::RECORD_AT, &mut bytes);
    bytes
}

/// Made from entries and outcomes, read back as [`Line`].
fn receipt_lines() -> Vec<Vector> {
    samples::settled()
        .into_iter()
        .filter_map(|sample| {
            let (entry, outcome) = &sample.value;
            let text = receipt::line(entry, outcome)?;
            let value = show(text.parse::<Line>());
            let value = value.strip_prefix("Ok(").and_then(|value| value.strip_suffix(')'))?.to_owned();
            Some(Vector { name: sample.name, value, bytes: text.into_bytes() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digest, EntryId};
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn the_committed_vectors_are_what_this_code_writes() {
        for family in families() {
            let path = format!("{}/vectors/{}.txt", env!("CARGO_MANIFEST_DIR"), family.name);
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == family.to_text(),
                "{path} is stale: run `cargo xtask gen`, and if a layout \
                changed, think of the peers and receipts that know the old one"
            );
        }
    }

    #[test]
    fn every_vector_reads_back_as_its_value() {
        for family in families() {
            let mut names = HashSet::new();
            for vector in &family.vectors {
                assert_eq!((family.read)(&vector.bytes).as_ref(), Ok(&vector.value), "{}", vector.name);
                assert!(names.insert(&vector.name), "{} {} twice", family.name, vector.name);
            }
        }
    }

    #[test]
    fn every_vector_cut_short_or_with_a_byte_changed_gives_a_value_or_an_error() {
        for family in families() {
            for vector in &family.vectors {
                for length in 0..vector.bytes.len() {
                    let _ = (family.read)(&vector.bytes[..length]);
                }
                for at in 0..vector.bytes.len() {
                    for flip in [0x01, 0x80, 0xff] {
                        let mut bytes = vector.bytes.clone();
                        bytes[at] ^= flip;
                        let _ = (family.read)(&bytes);
                    }
                }
            }
        }
    }

    /// A message that ends early is never taken for another one: postcard knows where it ends.
    #[test]
    fn a_message_cut_short_is_refused() {
        for sample in samples::messages() {
            let bytes = message_bytes(&sample.value);
            for length in 0..bytes.len() {
                assert!(Message::decode(&bytes[..length]).is_err(), "{} at {length}", sample.name);
            }
        }
    }

    /// Bytes of one sample with some of them replaced, taken out or put in: numbers of all sizes, and other variants.
    fn damaged(bytes: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
        let edit = (any::<prop::sample::Index>(), any::<u8>(), 0..3u8);
        prop::collection::vec(edit, 0..8).prop_map(move |edits| {
            let mut bytes = bytes.clone();
            for (at, byte, how) in edits {
                match (how, bytes.len()) {
                    (0, length) => bytes.insert(at.index(length + 1), byte),
                    (_, 0) => {}
                    (1, length) => drop(bytes.remove(at.index(length))),
                    (_, length) => bytes[at.index(length)] = byte,
                }
            }
            bytes
        })
    }

    fn any_sample<T>(samples: Vec<Sample<T>>, encode: fn(&T) -> Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
        let bytes: Vec<Vec<u8>> = samples.iter().map(|sample| encode(&sample.value)).collect();
        prop::sample::select(bytes).prop_flat_map(damaged)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn a_message_that_is_accepted_reads_back_as_itself(bytes in any_sample(samples::messages(), message_bytes)) {
            if let Ok(message) = Message::decode(&bytes) {
                let again = message.encode().expect("what was accepted can be sent");
                prop_assert_eq!(Message::decode(&again[crate::message::LENGTH_BYTES..]), Ok(message));
            }
        }

        #[test]
        fn hellos_of_any_numbers_read_back(versions: (u16, u16), stream: u16, features: u64, session: [u8; 16], proof: [u8; 32], at: prop::sample::Index) {
            for sample in samples::hellos() {
                let hello = Hello { versions, stream, features, session, proof, ..sample.value };
                prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
                prop_assert!(Hello::decode(&hello.encode()[..at.index(crate::hello::HELLO_BYTES)]).is_err());
            }
            for sample in samples::server_hellos() {
                let hello = ServerHello { version: stream, versions, features, session, ..sample.value };
                prop_assert_eq!(ServerHello::decode(&hello.encode()), Ok(hello));
                prop_assert!(ServerHello::decode(&hello.encode()[..at.index(crate::hello::ANSWER_BYTES)]).is_err());
            }
        }

        #[test]
        fn frames_of_any_numbers_read_back(transfer: u16, entry in 0u64..1 << 40, offset in 0u64..1 << 62, digest: [u8; 32], raw in 0u32..5000, at: prop::sample::Index) {
            for sample in samples::frames() {
                let (mut inner, mut payload) = sample.value;
                inner.transfer.0 = transfer;
                inner.digest = Digest(digest);
                if inner.kind == frame::FrameKind::Segment || inner.kind == frame::FrameKind::Zeros {
                    inner.entry = EntryId(entry);
                    inner.offset = offset;
                    inner.raw_bytes = raw;
                    let sent = match (inner.kind, inner.encoding) {
                        (frame::FrameKind::Segment, frame::Encoding::Raw) => raw as usize,
                        (frame::FrameKind::Segment, frame::Encoding::Zstd) => at.index(raw.max(1) as usize),
                        _ => 0,
                    };
                    if inner.encoding == frame::Encoding::Zstd && raw == 0 {
                        continue;
                    }
                    payload = vec![7; sent];
                }
                let opened = [&payload[..], &inner.encode()].concat();
                prop_assert_eq!(Inner::split(&opened), Ok((inner, &payload[..])));
                let mut bad = opened.clone();
                let at = at.index(bad.len());
                bad[at] ^= 0x10;
                prop_assert!(Inner::split(&bad) != Ok((inner, &payload[..])));
                let _ = Inner::split(&opened[..at]);
            }
            let length = (raw as usize) + frame::INNER_BYTES + frame::TAG_BYTES;
            prop_assert_eq!(frame::decode_outer(&frame::encode_outer(length)), Ok(length));
        }

        #[test]
        fn journal_records_read_back_where_they_stand_and_nowhere_else(
            at: u64,
            partial: u64,
            job_key: [u8; 16],
            chunk_bytes: u64,
            chunks in prop::collection::vec((any::<u64>(), any::<[u8; 32]>()), 0..40),
            numbers: [u64; 5],
            name in "[a-z]{1,9}(/[^/\u{0}.]{1,9}){0,3}",
            damage: prop::sample::Index,
        ) {
            let [size, seconds, ctime, device, inode] = numbers;
            let time = |seconds: u64, nanos| crate::Time { seconds: seconds.cast_signed(), nanos };
            let evidence = crate::Evidence { size, mtime: time(seconds, 5), ctime: time(ctime, 999_999_999), device, inode };
            let path = crate::RelativePath::new(name.into_bytes()).expect("a path");
            let chunks = chunks.into_iter().map(|(chunk, digest)| (chunk, Digest(digest))).collect();
            for record in [
                Record::Header { layout: crate::journal::LAYOUT, job_key, chunk_bytes },
                Record::Begin { partial, path, evidence },
                Record::Chunks { partial, chunks },
                Record::End { partial },
            ] {
                let mut bytes = Vec::new();
                record.encode(at, &mut bytes);
                let length = bytes.len();
                prop_assert_eq!(Record::decode(at, &bytes), Ok((record, length)));
                prop_assert!(Record::decode(at ^ 1, &bytes).is_err());
                let damage = damage.index(length);
                prop_assert!(Record::decode(at, &bytes[..damage]).is_err());
                bytes[damage] ^= 0x10;
                prop_assert!(Record::decode(at, &bytes).is_err());
            }
        }
    }
}
