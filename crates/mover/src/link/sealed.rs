//! Sealed frames, without I/O: keys, nonces, sealing and opening in place.
//!
//! A data stream begins as mutually authenticated TLS 1.3 and leaves it after the hello. What follows is this:
//!
//! ```text
//! from the stream's own TLS connection, 64 bytes:
//!   TLS-Exporter(label "EXPORTER-thalweg-sealed", context session (16) | stream number (2))
//!     0  32  secret[0] client to server
//!    32  32  secret[0] server to client
//! from each secret, HKDF-Expand with SHA-256 (RFC 5869), info as written, C the cipher's byte in the hello:
//!   key         = "thalweg sealed v1 key" C     16 or 32 bytes
//!   iv          = "thalweg sealed v1 iv" C      12 bytes
//!   secret[n+1] = "thalweg sealed v1 next" C    32 bytes
//! each frame:
//!   nonce       = iv xor (4 zero bytes | sequence number of the frame in its direction, 8 bytes, from 0)
//!   associated  = outer header, 8 bytes
//!   plaintext   = payload | inner header
//! ```
//!
//! A key seals frames whose lengths (as in their outer headers) sum up to at most [`limits::KEY_BYTES_MAX`]; the frame
//! that would exceed it is the first under the next key. Both ends count, nothing is sent about it, and the sequence
//! number goes on.
//!
//! # Why this is safe
//!
//! - **A nonce never repeats under a key.** The sequence number is counted up before it is used, whatever becomes of
//!   the frame, and a frame that fails ends the stream. It cannot wrap: after [`FRAMES_MAX`] frames nothing is sealed.
//!   A [`Sealer`] cannot be cloned, stored or started anywhere but at 0, and making one takes the [`Connection`] whose
//!   exporter gave the secret, so there is one for each connection and direction.
//! - **Streams and directions never share a key.** The exporter's output is of one TLS connection (its transcript has
//!   fresh random numbers of both ends), session and stream are in its context, and each direction has half of it. So a
//!   frame of another stream, of the other direction (reflected), or of an earlier connection does not open.
//! - **Nothing is lost, repeated, moved or altered unseen.** The sequence number is not sent; the opener uses its own
//!   count. A frame that is not the very next one is sealed with another nonce and does not open, and the first that
//!   does not open ends the stream. The length is in the associated data.
//! - **Truncation is an error.** A stream ends with an End frame, sealed like any other. Without it the stream was cut,
//!   wherever the cut was.
//! - **Nothing is used before it is authenticated**, except the length, which is only compared with the buffer that is
//!   there already.
//! - **Each key does little.** 64 GiB are at most 2^32 blocks of AES; that keeps the advantage of an attacker below
//!   2^-60 (RFC 9001, B.1). After a step of the ratchet the earlier key and secret are overwritten, so that who takes
//!   our memory later cannot read what went before.
//!
//! Not promised: hiding lengths or times, and safety of a stream whose TLS connection was broken.
//!
//! [`Connection`]: crate::link::Connection
//! [`Sealer`]: crate::link::Sealer
//! [`FRAMES_MAX`]: crate::link::sealed::FRAMES_MAX
//! [`limits::KEY_BYTES_MAX`]: thalweg_wire::limits::KEY_BYTES_MAX

use crate::{Failure, FailureKind, Result};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use std::fmt;
use thalweg_wire::frame::{OUTER_BYTES, TAG_BYTES};
use thalweg_wire::hello::Cipher;
use thalweg_wire::limits;
use zeroize::Zeroizing;

/// Frames in one direction of a stream: at a million frames a second, 292,000 years.
pub const FRAMES_MAX: u64 = 1 << 63;
/// Label of the exporter that the secrets come from.
pub const SEALED_LABEL: &[u8] = b"EXPORTER-thalweg-sealed";
/// Bytes of a secret.
pub const SECRET_BYTES: usize = 32;

/// The half that seals.
pub struct Sealer(Direction);

/// The half that opens.
pub struct Opener(Direction);

impl Sealer {
    /// A sealer for one direction of one stream. `key_bytes_max` is [`limits::KEY_BYTES_MAX`] outside of tests; both
    /// ends must have the same.
    ///
    /// # Errors
    /// `Internal` for [`Cipher::Tls`], which seals nothing itself.
    pub fn new(cipher: Cipher, secret: &[u8; SECRET_BYTES], key_bytes_max: u64) -> Result<Sealer> {
        Ok(Sealer(Direction::new(cipher, secret, key_bytes_max)?))
    }

    /// Seals `plaintext` in place, with `outer` as associated data, and returns the tag that goes behind it. Allocates
    /// nothing, except at a change of keys.
    ///
    /// # Errors
    /// `Internal` after [`FRAMES_MAX`] frames or a frame that failed; the stream is over then.
    pub fn seal(&mut self, outer: &[u8; OUTER_BYTES], plaintext: &mut [u8]) -> Result<[u8; TAG_BYTES]> {
        let broken = || Failure::new(FailureKind::Internal, "seal frame", "the stream has sealed all it may");
        let nonce = self.0.next(plaintext.len() + TAG_BYTES).ok_or_else(broken)?;
        match self.0.keys.key.seal_in_place_separate_tag(nonce, Aad::from(outer), plaintext) {
            Ok(tag) => {
                let mut bytes = [0; TAG_BYTES];
                bytes.copy_from_slice(tag.as_ref());
                Ok(bytes)
            }
            Err(_) => {
                self.0.broken = true;
                Err(broken())
            }
        }
    }

    /// Frames sealed so far.
    pub fn frames(&self) -> u64 {
        self.0.sequence
    }
}

impl Opener {
    /// The counterpart of [`Sealer::new`].
    ///
    /// # Errors
    /// `Internal` for [`Cipher::Tls`].
    pub fn new(cipher: Cipher, secret: &[u8; SECRET_BYTES], key_bytes_max: u64) -> Result<Opener> {
        Ok(Opener(Direction::new(cipher, secret, key_bytes_max)?))
    }

    /// Opens what stands behind the outer header (sealed bytes and tag) in place and returns the plaintext. Allocates
    /// nothing, except at a change of keys and for errors.
    ///
    /// # Errors
    /// `Damage` if this is not, bit for bit, the next frame that the peer sealed. What is in the buffer then is of no
    /// use, and neither is the stream: every later call fails too.
    pub fn open<'a>(&mut self, outer: &[u8; OUTER_BYTES], sealed: &'a mut [u8]) -> Result<&'a mut [u8]> {
        let number = self.0.sequence;
        let refuse = || {
            let why = format!(
                "frame {number} of the stream is not what the peer sent: altered, lost or out of place"
            );
            Failure::new(FailureKind::Damage, "open frame", why)
        };
        if sealed.len() < TAG_BYTES {
            self.0.broken = true;
        }
        let nonce = self.0.next(sealed.len()).ok_or_else(refuse)?;
        match self.0.keys.key.open_in_place(nonce, Aad::from(outer), sealed) {
            Ok(plaintext) => Ok(plaintext),
            Err(_) => {
                self.0.broken = true;
                Err(refuse())
            }
        }
    }

    /// Frames opened so far.
    pub fn frames(&self) -> u64 {
        self.0.sequence
    }
}

/// Cipher and number of frames; no key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("Sealer", f)
    }
}

/// Cipher and number of frames; no key.
impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe("Opener", f)
    }
}

/// What both halves count.
struct Direction {
    cipher: Cipher,
    algorithm: &'static Algorithm,
    keys: Keys,
    /// Number of the next frame.
    sequence: u64,
    /// Sum of frame lengths under the present key.
    key_bytes: u64,
    key_bytes_max: u64,
    broken: bool,
}

struct Keys {
    key: LessSafeKey,
    iv: [u8; 12],
    next: Zeroizing<[u8; SECRET_BYTES]>,
}

impl Direction {
    fn new(cipher: Cipher, secret: &[u8; SECRET_BYTES], key_bytes_max: u64) -> Result<Direction> {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &AES_128_GCM,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::Tls => return Err(no_keys()),
        };
        let keys = Keys::derive(cipher, algorithm, secret)?;
        Ok(Direction { cipher, algorithm, keys, sequence: 0, key_bytes: 0, key_bytes_max, broken: false })
    }

    /// Nonce of the next frame, whose outer header says `length`. Used up from here on. `None` when the stream is over.
    fn next(&mut self, length: usize) -> Option<Nonce> {
        if self.broken || self.sequence >= FRAMES_MAX {
            return None;
        }
        let length = length as u64;
        if self.key_bytes > 0 && self.key_bytes.saturating_add(length) > self.key_bytes_max {
            let secret = std::mem::take(&mut self.keys.next);
            let Ok(keys) = Keys::derive(self.cipher, self.algorithm, &secret) else {
                self.broken = true;
                return None;
            };
            self.keys = keys;
            self.key_bytes = 0;
        }
        self.key_bytes = self.key_bytes.saturating_add(length);
        let nonce = nonce(&self.keys.iv, self.sequence);
        self.sequence += 1;
        Some(Nonce::assume_unique_for_key(nonce))
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("cipher", &self.cipher)
            .field("frames", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Keys {
    fn derive(cipher: Cipher, algorithm: &'static Algorithm, secret: &[u8; SECRET_BYTES]) -> Result<Keys> {
        let byte = [cipher_byte(cipher)];
        let secret = Prk::new_less_safe(HKDF_SHA256, secret);
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..algorithm.key_len()];
        expand(&secret, b"thalweg sealed v1 key", &byte, key)?;
        let mut iv = [0; 12];
        expand(&secret, b"thalweg sealed v1 iv", &byte, &mut iv)?;
        let mut next = Zeroizing::new([0; SECRET_BYTES]);
        expand(&secret, b"thalweg sealed v1 next", &byte, &mut *next)?;
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).map_err(|_| no_keys())?);
        Ok(Keys { key, iv, next })
    }
}

/// The initial vector, its last 8 bytes xor the number of the frame.
fn nonce(iv: &[u8; 12], sequence: u64) -> [u8; 12] {
    let mut nonce = *iv;
    for (byte, number) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= number;
    }
    nonce
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(secret: &Prk, label: &[u8], cipher: &[u8; 1], out: &mut [u8]) -> Result<()> {
    let info = [label, &cipher[..]];
    secret.expand(&info, Length(out.len())).and_then(|okm| okm.fill(out)).map_err(|_| no_keys())
}

/// As in the hello.
fn cipher_byte(cipher: Cipher) -> u8 {
    match cipher {
        Cipher::Aes128Gcm => 0,
        Cipher::Aes256Gcm => 1,
        Cipher::ChaCha20Poly1305 => 2,
        Cipher::Tls => 3,
    }
}

fn no_keys() -> Failure {
    Failure::new(FailureKind::Internal, "make keys", "there are no keys for this cipher")
}

const _: () = assert!(limits::KEY_BYTES_MAX / 16 <= 1 << 32);

#[cfg(test)]
mod tests;
