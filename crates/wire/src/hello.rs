//! The first bytes on every connection, after TLS and before anything else is parsed.
//!
//! Both are of fixed size: what a peer can make us hold before it is known is [`HELLO_BYTES`]. The client
//! names the versions it speaks, the server picks the highest that both do. TLS protects the exchange, so
//! nobody between can strip a version. Multi-byte numbers are big-endian.
//!
//! ```text
//! client hello, 96 bytes                    server hello, 64 bytes
//!  0  8  "THALWEG\n"                         0  8  "THALWEG\n"
//!  8  2  lowest version                      8  2  version (0: none in common)
//! 10  2  highest version                    10  2  lowest version it speaks
//! 12  1  purpose: 0 control, 1 stream,      12  2  highest version it speaks
//!        2 resume, 3 token                  14  1  answer: see Answer
//! 13  1  cipher it asks for                 15  1  the same cipher
//! 14  2  stream number; bytes of the token  16  8  features
//! 16  8  features                           24 16  session
//! 24 16  session (zero for a new one)       40 16  limits of its system: see System
//! 40 32  proof (zero for a new session)     56  2  cores
//! 72 24  zero                               58  6  zero
//! ```

use crate::{DecodeError, limits};

/// Bytes of a client hello.
pub const HELLO_BYTES: usize = 96;
/// Bytes of a server hello.
pub const ANSWER_BYTES: usize = 64;
const MAGIC: &[u8; 8] = b"THALWEG\n";

/// Number of a session: drawn at random by the server, known only to both ends.
pub type SessionId = [u8; 16];

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Control connection of a new session.
    Control,
    /// Data stream of a session that exists.
    Stream,
    /// New control connection of a session that exists, after an outage.
    Resume,
    /// Who the client is, by the token of an identity provider. That follows; after the answer another hello may come.
    Token,
}

/// How data streams are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Cipher {
    /// Sealed frames, AES-128-GCM.
    Aes128Gcm,
    /// Sealed frames, AES-256-GCM.
    Aes256Gcm,
    /// Sealed frames, ChaCha20-Poly1305, for processors without AES.
    ChaCha20Poly1305,
    /// Plain TLS 1.3 records, for sites whose rules demand TLS on the wire.
    Tls,
}

impl Cipher {
    /// All of them.
    pub const ALL: [Cipher; 4] =
        [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305, Cipher::Tls];

    /// What users call it, on the command line and in Python.
    pub fn word(self) -> &'static str {
        match self {
            Cipher::Aes128Gcm => "aes128",
            Cipher::Aes256Gcm => "aes256",
            Cipher::ChaCha20Poly1305 => "chacha20",
            Cipher::Tls => "tls",
        }
    }
}

/// First message of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Lowest and highest protocol version it speaks.
    pub versions: (u16, u16),
    /// What the connection is for.
    pub purpose: Purpose,
    /// Protection it asks for on data streams.
    pub cipher: Cipher,
    /// Which stream, for [`Purpose::Stream`]; how many bytes follow, for [`Purpose::Token`].
    pub stream: u16,
    /// Bits for abilities added inside one version; unknown bits are ignored.
    pub features: u64,
    /// The session joined; zero for a new one.
    pub session: SessionId,
    /// Proof of belonging to the session: keyed BLAKE3, see `docs/protocol.md`.
    pub proof: [u8; 32],
}

/// The server's word on a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Welcome.
    Accepted,
    /// No protocol version in common.
    Version,
    /// The session is not known (any more).
    UnknownSession,
    /// Too many sessions or streams; try later.
    Busy,
    /// The certificate is not known, and no token was shown.
    TokenWanted,
    /// The token is over.
    TokenExpired,
    /// The token is none that this server takes.
    TokenRefused,
    /// The token is good, and gives no rights here.
    TokenWithoutRights,
    /// The token cannot be checked for now.
    TokenUnchecked,
}

/// First message of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerHello {
    /// Version chosen; 0 with [`Answer::Version`].
    pub version: u16,
    /// Versions the server speaks.
    pub versions: (u16, u16),
    /// Accepted or why not.
    pub answer: Answer,
    /// Cipher of the data streams.
    pub cipher: Cipher,
    /// Feature bits of the server.
    pub features: u64,
    /// Session given or joined.
    pub session: SessionId,
    /// What its machine lets a stream have. Told to a peer that proved by TLS who it is; zero (unknown) to others.
    pub system: System,
}

/// What a machine lets a stream have, as far as it is known: the side that plans needs both ends'. Sizes in KiB,
/// rounded down; 0: unknown. Layout: four numbers of 4 bytes and one of 2, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct System {
    /// Largest receive buffer that may be asked for (`net.core.rmem_max`).
    pub rmem_max_kib: u32,
    /// Largest send buffer that may be asked for (`net.core.wmem_max`).
    pub wmem_max_kib: u32,
    /// Largest receive buffer of autotuning (last of `net.ipv4.tcp_rmem`).
    pub tcp_rmem_max_kib: u32,
    /// Largest send buffer of autotuning (last of `net.ipv4.tcp_wmem`).
    pub tcp_wmem_max_kib: u32,
    /// CPUs that the mover may use at once, quotas of its control group counted.
    pub cores: u16,
}

impl System {
    fn encode(self, out: &mut [u8]) {
        let sizes = [self.rmem_max_kib, self.wmem_max_kib, self.tcp_rmem_max_kib, self.tcp_wmem_max_kib];
        for (place, size) in out.chunks_exact_mut(4).zip(sizes) {
            place.copy_from_slice(&size.to_be_bytes());
        }
        out[16..18].copy_from_slice(&self.cores.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        let size = |at: usize| u32::from_be_bytes(array(&bytes[at..at + 4]));
        System {
            rmem_max_kib: size(0),
            wmem_max_kib: size(4),
            tcp_rmem_max_kib: size(8),
            tcp_wmem_max_kib: size(12),
            cores: number(&bytes[16..18]),
        }
    }
}

/// Highest version inside both ranges.
pub fn negotiate(ours: (u16, u16), theirs: (u16, u16)) -> Option<u16> {
    let version = ours.1.min(theirs.1);
    (version >= ours.0 && version >= theirs.0 && theirs.0 <= theirs.1 && version > 0).then_some(version)
}

impl Hello {
    /// A hello for `purpose` with our own versions.
    pub fn new(purpose: Purpose, cipher: Cipher) -> Self {
        Hello {
            versions: (limits::VERSION_MIN, limits::VERSION_MAX),
            purpose,
            cipher,
            stream: 0,
            features: 0,
            session: [0; 16],
            proof: [0; 32],
        }
    }

    /// The bytes to send.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut out = [0; HELLO_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&self.versions.0.to_be_bytes());
        out[10..12].copy_from_slice(&self.versions.1.to_be_bytes());
        out[12] = match self.purpose {
            Purpose::Control => 0,
            Purpose::Stream => 1,
            Purpose::Resume => 2,
            Purpose::Token => 3,
        };
        out[13] = cipher_byte(self.cipher);
        out[14..16].copy_from_slice(&self.stream.to_be_bytes());
        out[16..24].copy_from_slice(&self.features.to_be_bytes());
        out[24..40].copy_from_slice(&self.session);
        out[40..72].copy_from_slice(&self.proof);
        out
    }

    /// Reads what [`Hello::encode`] wrote. A hello of another version is accepted as far as its fixed head
    /// goes, so that the answer can name the versions.
    ///
    /// # Errors
    /// `Short`, `Magic`, or `Invalid` for an unknown purpose or cipher or a reserved byte that is not zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; HELLO_BYTES] = fixed("hello", bytes)?;
        if &bytes[..8] != MAGIC {
            return Err(DecodeError::Magic { what: "hello" });
        }
        if bytes[72..].iter().any(|&b| b != 0) {
            return Err(DecodeError::Invalid { what: "reserved bytes of the hello" });
        }
        Ok(Hello {
            versions: (number(&bytes[8..10]), number(&bytes[10..12])),
            purpose: match bytes[12] {
                0 => Purpose::Control,
                1 => Purpose::Stream,
                2 => Purpose::Resume,
                3 => Purpose::Token,
                _ => return Err(DecodeError::Invalid { what: "purpose" }),
            },
            cipher: cipher_from(bytes[13])?,
            stream: number(&bytes[14..16]),
            features: u64::from_be_bytes(array(&bytes[16..24])),
            session: array(&bytes[24..40]),
            proof: array(&bytes[40..72]),
        })
    }
}

impl ServerHello {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; ANSWER_BYTES] {
        let mut out = [0; ANSWER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..10].copy_from_slice(&self.version.to_be_bytes());
        out[10..12].copy_from_slice(&self.versions.0.to_be_bytes());
        out[12..14].copy_from_slice(&self.versions.1.to_be_bytes());
        out[14] = match self.answer {
            Answer::Accepted => 0,
            Answer::Version => 1,
            Answer::UnknownSession => 2,
            Answer::Busy => 3,
            Answer::TokenWanted => 4,
            Answer::TokenExpired => 5,
            Answer::TokenRefused => 6,
            Answer::TokenWithoutRights => 7,
            Answer::TokenUnchecked => 8,
        };
        out[15] = cipher_byte(self.cipher);
        out[16..24].copy_from_slice(&self.features.to_be_bytes());
        out[24..40].copy_from_slice(&self.session);
        self.system.encode(&mut out[40..58]);
        out
    }

    /// Reads what [`ServerHello::encode`] wrote.
    ///
    /// # Errors
    /// As [`Hello::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; ANSWER_BYTES] = fixed("server hello", bytes)?;
        if &bytes[..8] != MAGIC {
            return Err(DecodeError::Magic { what: "server hello" });
        }
        if bytes[58..].iter().any(|&b| b != 0) {
            return Err(DecodeError::Invalid { what: "reserved bytes of the server hello" });
        }
        Ok(ServerHello {
            version: number(&bytes[8..10]),
            versions: (number(&bytes[10..12]), number(&bytes[12..14])),
            answer: match bytes[14] {
                0 => Answer::Accepted,
                1 => Answer::Version,
                2 => Answer::UnknownSession,
                3 => Answer::Busy,
                4 => Answer::TokenWanted,
                5 => Answer::TokenExpired,
                6 => Answer::TokenRefused,
                7 => Answer::TokenWithoutRights,
                8 => Answer::TokenUnchecked,
                _ => return Err(DecodeError::Invalid { what: "answer" }),
            },
            cipher: cipher_from(bytes[15])?,
            features: u64::from_be_bytes(array(&bytes[16..24])),
            session: array(&bytes[24..40]),
            system: System::decode(&bytes[40..58]),
        })
    }
}

fn cipher_byte(cipher: Cipher) -> u8 {
    match cipher {
        Cipher::Aes128Gcm => 0,
        Cipher::Aes256Gcm => 1,
        Cipher::ChaCha20Poly1305 => 2,
        Cipher::Tls => 3,
    }
}

fn cipher_from(byte: u8) -> Result<Cipher, DecodeError> {
    Ok(match byte {
        0 => Cipher::Aes128Gcm,
        1 => Cipher::Aes256Gcm,
        2 => Cipher::ChaCha20Poly1305,
        3 => Cipher::Tls,
        _ => return Err(DecodeError::Invalid { what: "cipher" }),
    })
}

fn fixed<'a, const N: usize>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8; N], DecodeError> {
    bytes.get(..N).and_then(|head| head.try_into().ok()).ok_or(DecodeError::Short {
        what,
        need: N,
        have: bytes.len(),
    })
}

fn number(bytes: &[u8]) -> u16 {
    u16::from_be_bytes(array(bytes))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_common_version_is_chosen() {
        assert_eq!(negotiate((1, 1), (1, 1)), Some(1));
        assert_eq!(negotiate((1, 2), (2, 3)), Some(2));
        assert_eq!(negotiate((1, 3), (1, 2)), Some(2));
        assert_eq!(negotiate((1, 1), (2, 2)), None);
        assert_eq!(negotiate((2, 2), (1, 1)), None);
        assert_eq!(negotiate((0, 1), (0, 0)), None);
        assert_eq!(negotiate((1, 9), (8, 2)), None);
    }

    #[test]
    fn hellos_come_back_as_they_went() {
        let hello = Hello {
            stream: 7,
            session: [3; 16],
            proof: [9; 32],
            features: 5,
            ..Hello::new(Purpose::Stream, Cipher::ChaCha20Poly1305)
        };
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
        let answer = ServerHello {
            version: 1,
            versions: (1, 1),
            answer: Answer::Busy,
            cipher: Cipher::Tls,
            features: 1 << 63,
            session: [1; 16],
            system: System { rmem_max_kib: 1, tcp_wmem_max_kib: u32::MAX, cores: 3, ..System::default() },
        };
        assert_eq!(ServerHello::decode(&answer.encode()), Ok(answer));
    }

    #[test]
    fn ciphers_are_all_that_have_a_byte_and_their_words_tell_them_apart() {
        for (byte, cipher) in (0..).zip(Cipher::ALL) {
            assert_eq!(cipher_from(byte), Ok(cipher));
            assert_eq!(Cipher::ALL.into_iter().filter(|other| other.word() == cipher.word()).count(), 1);
        }
        assert!(cipher_from(Cipher::ALL.len() as u8).is_err());
    }

    #[test]
    fn every_reserved_byte_must_be_zero_and_every_short_hello_is_refused() {
        let good = Hello::new(Purpose::Control, Cipher::Aes128Gcm).encode();
        for at in 72..HELLO_BYTES {
            let mut bad = good;
            bad[at] = 1;
            assert!(Hello::decode(&bad).is_err());
        }
        for len in 0..HELLO_BYTES {
            assert!(Hello::decode(&good[..len]).is_err());
        }
    }
}
