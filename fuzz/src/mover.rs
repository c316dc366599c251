//! Decoders of `thalweg-mover`.

use thalweg_mover::link::{Opener, Sealer, Ticket};
use thalweg_mover::manifest::filter::{Filter, parse_filter_line};
use thalweg_mover::stage::compress::Unpacker;
use thalweg_wire::frame::{OUTER_BYTES, TAG_BYTES, encode_outer};
use thalweg_wire::hello::Cipher;
use thalweg_wire::limits;
use thalweg_wire::message::FilterRule;

/// What a target checks of any bytes.
pub type Property = fn(&[u8]);

/// As in `wire.rs`.
pub const TARGETS: [(&str, Property); 4] =
    [("ticket", ticket), ("opener", opener), ("filter", filter), ("unpacker", unpacker)];

/// A ticket or an error; a ticket can be written and read again.
pub fn ticket(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(ticket) = Ticket::from_text(text) {
        let again =
            Ticket::from_text(&ticket.to_text().expect("what was read can be written")).expect("and read");
        assert_eq!((again.addresses, again.server), (ticket.addresses, ticket.server));
    }
}

const SECRET: [u8; 32] = [0x42; 32];

/// Nothing opens but what was sealed, and after the first that does not open nothing does.
pub fn opener(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let cipher = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305][usize::from(first % 3)];
    let outer = encode_outer(data.len());
    let mut opener = Opener::new(cipher, &SECRET, limits::KEY_BYTES_MAX).expect("an opener");
    assert!(opener.open(&outer, &mut data.to_vec()).is_err(), "a forgery");
    assert!(opener.open(&outer, &mut data.to_vec()).is_err(), "after a forgery");

    // The same bytes sealed: they open as they are, and in no other way. A small budget of bytes turns keys often.
    let mut sealer = Sealer::new(cipher, &SECRET, 100).expect("a sealer");
    let mut opener = Opener::new(cipher, &SECRET, 100).expect("an opener");
    for _ in 0..3 {
        let mut sealed = data.to_vec();
        let outer = encode_outer(data.len() + TAG_BYTES);
        let tag = sealer.seal(&outer, &mut sealed).expect("sealed");
        sealed.extend_from_slice(&tag);
        assert_eq!(opener.open(&outer, &mut sealed).expect("what was sealed opens"), data);
    }
    let mut sealed = data.to_vec();
    let mut outer: [u8; OUTER_BYTES] = encode_outer(data.len() + TAG_BYTES);
    let tag = sealer.seal(&outer, &mut sealed).expect("sealed");
    sealed.extend_from_slice(&tag);
    let at = usize::from(first) % (OUTER_BYTES + sealed.len());
    match at.checked_sub(OUTER_BYTES) {
        None => outer[at] ^= 1 << (first % 8),
        Some(at) => sealed[at] ^= 1 << (first % 8),
    }
    assert!(opener.open(&outer, &mut sealed).is_err(), "a flipped bit");
}

/// Patterns in the first half, a path in the second: a decision or an error, in good time.
pub fn filter(data: &[u8]) {
    let (patterns, path) = data.split_at(data.len() / 2);
    let text = String::from_utf8_lossy(patterns);
    let rules = text
        .split('\n')
        .take(16)
        .enumerate()
        .map(|(at, pattern)| FilterRule { include: at % 2 == 1, pattern: pattern.to_owned() })
        .collect();
    text.lines().for_each(|line| drop(parse_filter_line(line)));
    let Ok(filter) = Filter::new(rules) else { return };
    if let Ok(path) = thalweg_wire::RelativePath::new(path.to_vec()) {
        for is_directory in [true, false] {
            let _ = filter.decide(&path, is_directory);
            assert!(!filter.explain(&path, is_directory).chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}

/// Never more than was declared, whatever it claims; and then the next one is as good as the first.
pub fn unpacker(data: &[u8]) {
    let Some((&[a, b], packed)) = data.split_first_chunk::<2>() else { return };
    let raw = usize::from(u16::from_be_bytes([a, b])) << 6;
    let mut unpacker = Unpacker::new().expect("memory");
    let first = unpacker.unpack(packed, raw).map(<[u8]>::to_vec).ok();
    assert!(first.as_ref().is_none_or(|bytes| bytes.len() == raw));
    assert_eq!(unpacker.unpack(packed, raw).map(<[u8]>::to_vec).ok(), first);
}
