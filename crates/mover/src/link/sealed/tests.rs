//! Sealing and opening, golden vectors, everything that must not open.

use super::*;
use proptest::prelude::*;
use std::fmt::Write;
use thalweg_wire::frame::encode_outer;
use thalweg_wire::hex::hex;

const CIPHERS: [Cipher; 3] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
const SECRET: [u8; SECRET_BYTES] = [0x5e; SECRET_BYTES];

fn pair(cipher: Cipher, key_bytes_max: u64) -> (Sealer, Opener) {
    let sealer = Sealer::new(cipher, &SECRET, key_bytes_max).unwrap();
    (sealer, Opener::new(cipher, &SECRET, key_bytes_max).unwrap())
}

/// Outer header and what stands behind it.
type Frame = ([u8; OUTER_BYTES], Vec<u8>);

fn seal(sealer: &mut Sealer, plaintext: &[u8]) -> Frame {
    let outer = encode_outer(plaintext.len() + TAG_BYTES);
    let mut sealed = plaintext.to_vec();
    let tag = sealer.seal(&outer, &mut sealed).unwrap();
    sealed.extend(tag);
    (outer, sealed)
}

fn open(opener: &mut Opener, frame: &Frame) -> Result<Vec<u8>> {
    opener.open(&frame.0, &mut frame.1.clone()).map(|plaintext| plaintext.to_vec())
}

#[test]
fn what_is_sealed_opens_once_in_order_for_every_cipher_and_length() {
    for cipher in CIPHERS {
        let (mut sealer, mut opener) = pair(cipher, limits::KEY_BYTES_MAX);
        for length in [0, 1, 15, 16, 17, 64, 4096, 65_537, 1 << 20] {
            let plaintext: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let frame = seal(&mut sealer, &plaintext);
            assert_eq!(frame.1.len(), length + TAG_BYTES);
            assert!(length < 16 || frame.1[..length] != plaintext);
            assert_eq!(open(&mut opener, &frame).unwrap(), plaintext);
        }
        assert_eq!((sealer.frames(), opener.frames()), (9, 9));
    }
}

#[test]
fn tls_is_no_cipher_of_sealed_frames() {
    assert_eq!(Sealer::new(Cipher::Tls, &SECRET, 1).unwrap_err().kind, FailureKind::Internal);
    assert_eq!(Opener::new(Cipher::Tls, &SECRET, 1).unwrap_err().kind, FailureKind::Internal);
}

#[test]
fn a_flipped_bit_anywhere_is_refused_and_ends_the_stream() {
    for cipher in CIPHERS {
        let good = seal(&mut pair(cipher, limits::KEY_BYTES_MAX).0, b"payload and inner header");
        for bit in 0..(OUTER_BYTES + good.1.len()) * 8 {
            let (byte, mask) = (bit / 8, 1 << (bit % 8));
            let mut bad = good.clone();
            match byte.checked_sub(OUTER_BYTES) {
                None => bad.0[byte] ^= mask,
                Some(byte) => bad.1[byte] ^= mask,
            }
            let (_, mut opener) = pair(cipher, limits::KEY_BYTES_MAX);
            assert_eq!(open(&mut opener, &bad).unwrap_err().kind, FailureKind::Damage, "bit {bit}");
            assert!(open(&mut opener, &good).is_err(), "a stream goes on after bit {bit}");
        }
    }
}

#[test]
fn a_shortened_or_lengthened_frame_is_refused() {
    let good = seal(&mut pair(Cipher::Aes128Gcm, limits::KEY_BYTES_MAX).0, b"payload and inner header");
    for length in 0..good.1.len() + 8 {
        if length == good.1.len() {
            continue;
        }
        let mut bytes = good.1.clone();
        bytes.resize(length, 0);
        for outer in [good.0, encode_outer(length)] {
            let (_, mut opener) = pair(Cipher::Aes128Gcm, limits::KEY_BYTES_MAX);
            assert!(open(&mut opener, &(outer, bytes.clone())).is_err(), "{length}");
        }
    }
}

#[test]
fn frames_swapped_repeated_or_dropped_are_refused() {
    for cipher in CIPHERS {
        let mut sealer = pair(cipher, limits::KEY_BYTES_MAX).0;
        let frames: Vec<Frame> = (0..4).map(|_| seal(&mut sealer, b"the same each time")).collect();
        for (order, good) in [
            (&[0, 1, 2, 3][..], 4),
            (&[1, 0], 0),
            (&[0, 0], 1),
            (&[0, 2], 1),
            (&[0, 1, 0], 2),
            (&[0, 1, 3, 2], 2),
            (&[3], 0),
        ] {
            let mut opener = pair(cipher, limits::KEY_BYTES_MAX).1;
            let opened = order.iter().take_while(|&&at| open(&mut opener, &frames[at]).is_ok()).count();
            assert_eq!(opened, good, "{order:?}");
        }
    }
}

#[test]
fn the_same_bytes_never_look_the_same_twice() {
    let mut sealer = pair(Cipher::Aes128Gcm, 100).0;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        assert!(seen.insert(seal(&mut sealer, &[0; 32]).1));
    }
}

#[test]
fn another_secret_or_another_cipher_opens_nothing() {
    let frame = seal(&mut pair(Cipher::Aes128Gcm, limits::KEY_BYTES_MAX).0, b"hello");
    let mut other = Opener::new(Cipher::Aes128Gcm, &[0x5f; 32], limits::KEY_BYTES_MAX).unwrap();
    assert!(open(&mut other, &frame).is_err());
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        assert!(open(&mut pair(cipher, limits::KEY_BYTES_MAX).1, &frame).is_err());
    }
}

#[test]
fn keys_change_by_the_count_of_both_ends_and_the_number_of_a_frame_goes_on() {
    let (mut sealer, mut opener) = pair(Cipher::Aes128Gcm, 100);
    let mut ivs = vec![sealer.0.keys.iv];
    // 36 bytes each with their tags: two under a key, and a frame beyond the limit by itself has a key of its own.
    for (length, keys) in [(20, 1), (20, 1), (20, 2), (20, 2), (200, 3), (1, 4), (67, 4), (1, 5)] {
        let frame = seal(&mut sealer, &vec![1; length]);
        if *ivs.last().unwrap() != sealer.0.keys.iv {
            ivs.push(sealer.0.keys.iv);
        }
        assert_eq!(ivs.len(), keys, "at {length}");
        assert_eq!(open(&mut opener, &frame).unwrap(), vec![1; length]);
    }
    assert_eq!(sealer.frames(), 8);
    let all: std::collections::HashSet<_> = ivs.iter().collect();
    assert_eq!(all.len(), ivs.len(), "no key comes back");
}

#[test]
fn ends_that_count_differently_part_at_the_first_change_of_keys() {
    let mut sealer = Sealer::new(Cipher::Aes128Gcm, &SECRET, 100).unwrap();
    let mut opener = Opener::new(Cipher::Aes128Gcm, &SECRET, 1000).unwrap();
    for _ in 0..2 {
        open(&mut opener, &seal(&mut sealer, &[1; 20])).unwrap();
    }
    assert!(open(&mut opener, &seal(&mut sealer, &[1; 20])).is_err());
}

#[test]
fn nothing_is_sealed_or_opened_after_the_last_number() {
    let (mut sealer, mut opener) = pair(Cipher::Aes128Gcm, limits::KEY_BYTES_MAX);
    (sealer.0.sequence, opener.0.sequence) = (FRAMES_MAX - 1, FRAMES_MAX - 1);
    let last = seal(&mut sealer, b"last");
    assert_eq!(open(&mut opener, &last).unwrap(), b"last");
    let outer = encode_outer(4 + TAG_BYTES);
    assert_eq!(sealer.seal(&outer, &mut [0; 4]).unwrap_err().kind, FailureKind::Internal);
    assert!(open(&mut opener, &last).is_err());
}

#[test]
fn a_nonce_is_the_iv_with_the_number_in_its_last_eight_bytes() {
    let iv = [0xf0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    assert_eq!(nonce(&iv, 0), iv);
    assert_eq!(nonce(&iv, 1), [0xf0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10]);
    assert_eq!(nonce(&iv, 0x0102_0304_0506_0708), [0xf0, 1, 2, 3, 5, 7, 5, 3, 13, 15, 13, 3]);
}

#[test]
fn debug_shows_no_key() {
    let (sealer, opener) = pair(Cipher::Aes128Gcm, 100);
    assert_eq!(format!("{sealer:?}"), "Sealer { cipher: Aes128Gcm, frames: 0, .. }");
    assert_eq!(format!("{opener:?}"), "Opener { cipher: Aes128Gcm, frames: 0, .. }");
}

/// Three frames of each cipher: two under the first key, one under the next.
fn vectors() -> String {
    let secret: [u8; SECRET_BYTES] = std::array::from_fn(|at| at as u8);
    let mut out = String::from(
        "# Sealed frames: golden vectors. Made by `THALWEG_GOLDEN=write cargo test -p thalweg-mover link::sealed`.\n\
         # secret[0] of the direction and the bytes that one key seals (here 200), then of each frame: number, nonce,\n\
         # plaintext (payload and inner header), and the whole frame (outer header, sealed, tag). Hexadecimal.\n",
    );
    for cipher in CIPHERS {
        let mut sealer = Sealer::new(cipher, &secret, 200).unwrap();
        let _ = writeln!(out, "\ncipher {cipher:?}\nsecret {}\nkey_bytes_max 200", hex(&secret));
        for number in 0..3u64 {
            let mut plaintext = format!("payload {number}").into_bytes();
            plaintext.extend(thalweg_wire::frame::Inner::end().encode());
            let frame = seal(&mut sealer, &plaintext);
            let _ = writeln!(out, "frame {number}");
            let _ = writeln!(out, "  iv {}", hex(&sealer.0.keys.iv));
            let _ = writeln!(out, "  nonce {}", hex(&nonce(&sealer.0.keys.iv, number)));
            let _ = writeln!(out, "  plaintext {}", hex(&plaintext));
            let _ = writeln!(out, "  sent {}{}", hex(&frame.0), hex(&frame.1));
        }
    }
    out
}

#[test]
fn the_sealed_form_is_that_of_the_golden_vectors() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/link/vectors/sealed.txt");
    if std::env::var_os("THALWEG_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(path, vectors()).unwrap();
    }
    assert_eq!(vectors(), std::fs::read_to_string(path).unwrap());
}

proptest! {
    #[test]
    fn any_bytes_open_to_nothing(outer in any::<[u8; OUTER_BYTES]>(), mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut opener = pair(Cipher::Aes128Gcm, limits::KEY_BYTES_MAX).1;
        prop_assert!(opener.open(&outer, &mut bytes).is_err());
    }

    #[test]
    fn any_lengths_come_through_many_changes_of_keys(
        lengths in proptest::collection::vec(0usize..500, 1..200),
        key_bytes_max in 0u64..2000,
    ) {
        let (mut sealer, mut opener) = pair(Cipher::Aes128Gcm, key_bytes_max);
        for length in lengths {
            let plaintext = vec![length as u8; length];
            let frame = seal(&mut sealer, &plaintext);
            prop_assert_eq!(open(&mut opener, &frame).unwrap(), plaintext);
        }
    }
}
