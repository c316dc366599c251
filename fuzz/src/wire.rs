//! Decoders of `thalweg-wire`.

use thalweg_wire::frame::{self, Inner, PackItem};
use thalweg_wire::hello::{Hello, ServerHello, negotiate};
use thalweg_wire::journal::{MarkRecord, RECORD_HEAD_BYTES, Record};
use thalweg_wire::message::{Item, Message};
use thalweg_wire::path::{Escaped, unescape};
use thalweg_wire::receipt::{Line, Signed, Statement};
use thalweg_wire::spill::SpillRecord;
use thalweg_wire::{DecodeError, RelativePath, limits};

/// What a target checks of any bytes.
pub type Property = fn(&[u8]);

/// Name of the target and of its folder in `corpus/`, and what it runs.
pub const TARGETS: [(&str, Property); 12] = [
    ("hello", hello),
    ("server_hello", server_hello),
    ("message", message),
    ("frame_inner", frame_inner),
    ("pack", pack),
    ("journal_record", journal_record),
    ("mark_record", mark_record),
    ("frame_item", frame_item),
    ("spill_record", spill_record),
    ("path_unescape", path_unescape),
    ("receipt", receipt),
    ("receipt_line", receipt_line),
];

/// What was decoded comes back as it went, to the byte.
pub fn hello(data: &[u8]) {
    if let Ok(hello) = Hello::decode(data) {
        assert_eq!(hello.encode(), data[..thalweg_wire::hello::HELLO_BYTES]);
        let chosen = negotiate((limits::VERSION_MIN, limits::VERSION_MAX), hello.versions);
        assert!(chosen.is_none_or(|version| (limits::VERSION_MIN..=limits::VERSION_MAX).contains(&version)));
    }
}

/// As [`hello`].
pub fn server_hello(data: &[u8]) {
    if let Ok(hello) = ServerHello::decode(data) {
        assert_eq!(hello.encode(), data[..thalweg_wire::hello::ANSWER_BYTES]);
    }
}

/// A message comes back as it went, its texts are inert when shown, and a large one was sent by large means.
pub fn message(data: &[u8]) {
    if let Some((head, _)) = data.split_first_chunk::<4>()
        && let Ok(length) = Message::length(*head)
    {
        assert!(length <= limits::MESSAGE_BYTES_MAX);
    }
    let Ok(message) = Message::decode(data) else { return };
    match message.encode() {
        Ok(encoded) => assert_eq!(Message::decode(&encoded[4..]).as_ref(), Ok(&message)),
        // Numbers may be written longer than they need be, never shorter.
        Err(error) => panic!("{error}: {message:?}"),
    }
    if let Message::Goodbye(Some(failure)) = &message {
        assert!(!failure.to_string().chars().any(char::is_control));
    }
}

/// Frames are split at their lengths, and nothing else.
pub fn frame_inner(data: &[u8]) {
    if let Some(head) = data.first_chunk::<{ frame::OUTER_BYTES }>()
        && let Ok(sealed) = frame::decode_outer(head)
    {
        assert_eq!(frame::encode_outer(sealed), *head);
        assert!(sealed <= limits::FRAME_BYTES_MAX);
    }
    if let Ok((inner, payload)) = Inner::split(data) {
        assert_eq!(inner.encode(), data[payload.len()..]);
        assert!(payload.len() <= inner.raw_bytes as usize);
    }
}

/// The files of a pack are all of its contents, in order.
pub fn pack(data: &[u8]) {
    let Some((&[high, low], payload)) = data.split_first_chunk::<2>() else { return };
    let files = u64::from(u16::from_be_bytes([high, low]));
    if let Ok(items) = PackItem::read_all(payload, files) {
        assert_eq!(items.len() as u64, files);
        let contents: Vec<u8> = items.iter().flat_map(|(_, content)| content.iter().copied()).collect();
        let index: Vec<u8> = items.iter().flat_map(|(item, _)| item.encode()).collect();
        assert_eq!([contents, index].concat(), payload);
        assert!(items.iter().all(|(item, content)| content.len() == item.bytes as usize));
    }
}

/// Any bytes as they are, and any body behind a head that is right.
pub fn journal_record(data: &[u8]) {
    record(data, Record::decode, Record::encode);
}

/// A record of marks is read as one of a journal is.
pub fn mark_record(data: &[u8]) {
    record(data, MarkRecord::decode, MarkRecord::encode);
}

/// What a lane of frames carries comes back as it went, and says no more than it may.
pub fn frame_item(data: &[u8]) {
    let Ok((item, end)) = Item::decode(data) else { return };
    assert!(end <= data.len() && item.payload_bytes() <= limits::FRAME_PAYLOAD_BYTES_MAX);
    let mut encoded = Vec::new();
    match item.encode(&mut encoded) {
        Ok(()) => assert_eq!(Item::decode(&encoded), Ok((item, encoded.len()))),
        Err(error) => panic!("{error}: {item:?}"),
    }
}

/// As [`frame_item`]; a record counts only where it stands.
pub fn spill_record(data: &[u8]) {
    let Ok((record, lengths)) = SpillRecord::decode(data, 3, 1 << 20) else { return };
    assert!(SpillRecord::decode(data, 3, 1 << 21).is_err() && SpillRecord::decode(data, 4, 1 << 20).is_err());
    assert_eq!(lengths.payload, record.item.payload_bytes());
    match record.encode(3, 1 << 20) {
        Ok(encoded) => {
            assert_eq!(SpillRecord::decode(&encoded, 3, 1 << 20).map(|(read, _)| read), Ok(record))
        }
        Err(error) => panic!("{error}: {record:?}"),
    }
}

/// Reads a record at this place in its file, and says how long it was.
type Decode<T> = fn(u64, &[u8]) -> Result<(T, usize), DecodeError>;

/// Any bytes give a record or an error; a body with the right check value one that comes back as it went.
fn record<T: PartialEq + std::fmt::Debug>(data: &[u8], decode: Decode<T>, encode: fn(&T, u64, &mut Vec<u8>)) {
    let _ = decode(7, data);
    let at = 4096u64;
    let check = blake3::Hasher::new().update(&at.to_be_bytes()).update(data).finalize();
    let mut bytes = (data.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&check.as_bytes()[..8]);
    bytes.extend_from_slice(data);
    match decode(at, &bytes) {
        Ok((read, length)) => {
            assert_eq!(length, RECORD_HEAD_BYTES + data.len());
            let mut again = Vec::new();
            encode(&read, 0, &mut again);
            assert_eq!(decode(0, &again).map(|(record, _)| record), Ok(read));
        }
        Err(error) => assert!(!matches!(error, DecodeError::Short { .. }), "{error}"),
    }
    assert!(decode(at + 1, &bytes).is_err(), "a record that was moved");
}

/// What is shown is inert and can be read back; what is accepted stays below its root.
pub fn path_unescape(data: &[u8]) {
    let shown = Escaped(data).to_string();
    assert!(!shown.chars().any(char::is_control));
    assert_eq!(unescape(&shown).as_deref(), Ok(data));
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(bytes) = unescape(text)
    {
        assert_eq!(unescape(&Escaped(&bytes).to_string()), Ok(bytes));
    }
    if let Ok(path) = RelativePath::new(data.to_vec()) {
        let joined =
            std::path::Path::new("/root").join(std::ffi::OsStr::new(&*String::from_utf8_lossy(data)));
        assert!(joined.starts_with("/root"));
        assert!(
            !data.split(|&byte| byte == b'/').any(|name| matches!(name, b".." | b".") || name.contains(&0))
        );
        assert_eq!(path.depth(), if data.is_empty() { 0 } else { data.split(|&byte| byte == b'/').count() });
        if let Some((above, name)) = path.split() {
            let above = RelativePath::new(above.to_vec()).expect("the parent of a path is one");
            assert_eq!(above.join(name), Ok(path));
        }
    }
}

/// A statement is signed over the same bytes wherever it is read.
pub fn receipt(data: &[u8]) {
    if let Ok(signed) = Signed::from_bytes(data) {
        assert_eq!(Signed::from_bytes(&signed.to_bytes()).as_ref(), Ok(&signed));
        let bytes = signed.statement.signed_bytes();
        assert_eq!(Statement::from_signed_bytes(&bytes).as_ref(), Ok(&signed.statement));
        assert!(Statement::from_signed_bytes(&bytes[1..]).is_err());
    }
    let _ = Statement::from_signed_bytes(data);
}

/// A line or an error; a path in it stays below the root.
pub fn receipt_line(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(line) = text.parse::<Line>() {
        assert!(RelativePath::new(line.path.as_bytes().to_vec()).is_ok());
    }
}
