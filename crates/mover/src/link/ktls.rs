//! Whether the kernel seals the records of a stream in TLS form (kTLS), and how such a stream is read.
//!
//! 1. [`KernelTls::decide`]: the kernel is tried once for each cipher, on a connection to ourselves; with
//!    [`KernelTls::Auto`] kernel and user space then carry the same frames over loopback, and the kernel is used where
//!    it was faster.
//! 2. [`hand_over`]: the keys go from rustls to the kernel, after the hellos.
//! 3. [`fill`]: what comes is data, or the end of the stream. No other record belongs there: nobody sends tickets, and
//!    keys are not changed, because a stream is replaced before its key is used up ([`RECORDS_MAX`]).

use super::identity::Identity;
use super::stream::{FrameBuffer, Received, Role};
use super::tls::{Connection, client_config, server_config};
use super::trust::{ClientTrust, ServerTrust};
use crate::failure::of_io;
use crate::{Failure, FailureKind, Result};
use rustls::{CipherSuite, ConnectionTrafficSecrets};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use thalweg_sys::socket::ktls::{self, Cipher, Keys, Lacking};
use thalweg_wire::digest::Digest;
use thalweg_wire::entry::EntryId;
use thalweg_wire::frame::{Encoding, FrameKind, Inner};
use thalweg_wire::hello;
use thalweg_wire::message::TransferNumber;
use zeroize::Zeroizing;

/// Most records that a stream in TLS form seals with one key, whoever seals them. AES-GCM's limit is 2^24 (RFC 8446,
/// 5.5; rustls' `confidentiality_limit`); a sixteenth is left for records that are not counted: a call that a signal
/// interrupts makes one more.
pub const RECORDS_MAX: u64 = (1 << 24) - (1 << 20);
/// Fewest that can be asked for: below, streams would be replaced more often than they get something across.
pub const RECORDS_MIN: u64 = 1 << 10;

/// What the user wants of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KernelTls {
    /// Used where it was measured to be faster, once in the life of this process.
    #[default]
    Auto,
    /// Used where the kernel has it.
    On,
    /// Not used.
    Off,
}

/// How streams in TLS form are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsForm {
    /// Whether the kernel seals their records.
    pub kernel: KernelTls,
    /// Records after which a stream is replaced, from [`RECORDS_MIN`] to [`RECORDS_MAX`], which is the default.
    pub records_max: u64,
}

impl Default for TlsForm {
    fn default() -> Self {
        TlsForm { kernel: KernelTls::Auto, records_max: RECORDS_MAX }
    }
}

/// Who seals the records of a stream, and why. Shown as a line for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The kernel does.
    pub is_used: bool,
    why: String,
}

impl Decision {
    fn used(why: impl Into<String>) -> Decision {
        Decision { is_used: true, why: why.into() }
    }

    /// Not the kernel.
    pub(super) fn not_used(why: impl Into<String>) -> Decision {
        Decision { is_used: false, why: why.into() }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_used {
            true => write!(f, "kTLS: used ({})", self.why),
            false => write!(f, "kTLS: not used: {}", self.why),
        }
    }
}

impl KernelTls {
    /// Whether the kernel shall seal for a connection with this cipher suite. The first call tries the kernel (a few
    /// milliseconds) and, for [`KernelTls::Auto`], measures (below a second; bounded by [`TRIAL_TIMEOUT`] for each of
    /// [`TRIALS`] pairs).
    pub(super) fn decide(self, suite: Option<CipherSuite>) -> Decision {
        if self == KernelTls::Off {
            return Decision::not_used("--ktls off");
        }
        let Some((cipher, name)) = suite.and_then(cipher_of) else {
            return Decision::not_used("the connection's cipher suite is not for the kernel");
        };
        if let Err(why) = probed(cipher) {
            return Decision::not_used(why);
        }
        if self == KernelTls::On {
            return Decision::used(name);
        }
        static MEASURED: OnceLock<Result<Measured>> = OnceLock::new();
        match MEASURED.get_or_init(measure) {
            Err(failure) => Decision::not_used(format!("it could not be measured: {failure}")),
            Ok(measured) if measured.suite != suite => {
                Decision::not_used(format!("it was not measured with {name}"))
            }
            Ok(measured) => measured.judge(name),
        }
    }
}

fn cipher_of(suite: CipherSuite) -> Option<(Cipher, &'static str)> {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Some((Cipher::Aes128Gcm, "AES-128-GCM")),
        CipherSuite::TLS13_AES_256_GCM_SHA384 => Some((Cipher::Aes256Gcm, "AES-256-GCM")),
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => Some((Cipher::ChaCha20Poly1305, "ChaCha20-Poly1305")),
        _ => None,
    }
}

/// What the kernel said when it was tried with this cipher, once.
fn probed(cipher: Cipher) -> std::result::Result<(), String> {
    static PROBED: [OnceLock<std::result::Result<(), String>>; 3] = [const { OnceLock::new() }; 3];
    PROBED[cipher as usize].get_or_init(|| ktls::probe(cipher).map_err(|lacking| why_not(&lacking))).clone()
}

fn why_not(lacking: &Lacking) -> String {
    match lacking {
        Lacking::Ktls(error) if error.kind() == io::ErrorKind::NotFound => {
            "the kernel has none (ENOENT)".to_owned()
        }
        Lacking::Ktls(error) => format!("the kernel refuses it ({error})"),
        Lacking::Cipher(error) => format!("the kernel does not have the cipher ({error})"),
    }
}

/// Bytes a second over loopback, the best of [`TRIALS`] for each.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Measured {
    suite: Option<CipherSuite>,
    kernel: f64,
    user_space: f64,
}

impl Measured {
    fn judge(&self, name: &str) -> Decision {
        let (kernel, user_space) = (self.kernel / 1e6, self.user_space / 1e6);
        match self.kernel > GAIN_MIN * self.user_space {
            true => Decision::used(format!(
                "{name}; measured {kernel:.0} MB/s over loopback, {user_space:.0} MB/s in user space"
            )),
            false => Decision::not_used(format!(
                "not faster: measured {kernel:.0} MB/s over loopback, {user_space:.0} MB/s in user space"
            )),
        }
    }
}

/// What it must gain, to be beyond noise.
const GAIN_MIN: f64 = 1.1;
/// Pairs of trials, kernel and user space in turn.
const TRIALS: usize = 3;
/// Frames of a trial, 8 MiB in all: some milliseconds where there is AES in the processor.
const TRIAL_FRAMES: u64 = 16;
const TRIAL_FRAME_BYTES: usize = 512 << 10;
/// For each wait of a trial. A machine on which that is too short measures nothing.
pub const TRIAL_TIMEOUT: Duration = Duration::from_secs(2);

fn measure() -> Result<Measured> {
    let mut measured = Measured { suite: None, kernel: 0.0, user_space: 0.0 };
    for _ in 0..TRIALS {
        let (suite, kernel) = trial(KernelTls::On)?;
        let (_, user_space) = trial(KernelTls::Off)?;
        measured.suite = suite;
        measured.kernel = measured.kernel.max(kernel);
        measured.user_space = measured.user_space.max(user_space);
    }
    Ok(measured)
}

/// Sends frames to ourselves, by the code that sends all others; the suite that was agreed, and bytes a second.
fn trial(kernel: KernelTls) -> Result<(Option<CipherSuite>, f64)> {
    const OPERATION: &str = "measure kTLS";
    let failed = |error: io::Error| of_io(OPERATION, &error);
    let own = Identity::generate("trial")?;
    let trust = ClientTrust::default();
    trust.pinned.insert(own.fingerprint());
    let client_tls = client_config(&own, &ServerTrust::Pinned(own.fingerprint()))?;
    let server_tls = server_config(&own, &trust)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let socket = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let (accepted, _) = listener.accept().map_err(failed)?;
    let form = TlsForm { kernel, ..TlsForm::default() };
    let session = [0; 16];
    std::thread::scope(|scope| {
        let receiving = scope.spawn(move || -> Result<()> {
            let mut server = Connection::accept(accepted.into(), server_tls, TRIAL_TIMEOUT)?;
            server.set_tls_form(form);
            let (_writer, mut reader) = server.into_streams(hello::Cipher::Tls, &session, 0, Role::Server)?;
            reader.set_timeouts(Some(TRIAL_TIMEOUT), Some(TRIAL_TIMEOUT)).map_err(failed)?;
            let mut buffer = FrameBuffer::new(TRIAL_FRAME_BYTES).map_err(failed)?;
            loop {
                match reader.receive(&mut buffer)? {
                    Received::Frame(_) => {}
                    Received::End => return Ok(()),
                    Received::Cut(error) => return Err(failed(error)),
                }
            }
        });
        let sending = || -> Result<(Option<CipherSuite>, Instant)> {
            let mut client = Connection::connect(socket.into(), client_tls, TRIAL_TIMEOUT)?;
            client.set_tls_form(form);
            let suite = client.suite();
            let (mut writer, _reader) = client.into_streams(hello::Cipher::Tls, &session, 0, Role::Client)?;
            writer.set_timeouts(Some(TRIAL_TIMEOUT), Some(TRIAL_TIMEOUT)).map_err(failed)?;
            let mut buffer = FrameBuffer::new(TRIAL_FRAME_BYTES).map_err(failed)?;
            let since = Instant::now();
            for number in 0..TRIAL_FRAMES {
                let inner = Inner {
                    kind: FrameKind::Segment,
                    encoding: Encoding::Raw,
                    transfer: TransferNumber(1),
                    raw_bytes: TRIAL_FRAME_BYTES as u32,
                    entry: EntryId(number),
                    offset: 0,
                    digest: Digest([0; 32]),
                    is_again: false,
                };
                writer.send(&mut buffer, TRIAL_FRAME_BYTES, &inner).map_err(failed)?;
            }
            writer.finish().map_err(failed)?;
            Ok((suite, since))
        };
        let sent = sending();
        let received = receiving.join();
        let (suite, since) = sent?;
        received
            .map_err(|_| Failure::new(FailureKind::Internal, OPERATION, "the receiving side failed"))??;
        Ok((suite, (TRIAL_FRAMES * TRIAL_FRAME_BYTES as u64) as f64 / since.elapsed().as_secs_f64()))
    })
}

/// Gives the kernel the keys of a connection, if it takes any. `Ok(Err(_))` gives the connection back, as it was, and
/// says why.
///
/// # Errors
/// `Connection` if the kernel took a part of the keys only: nobody can go on with such a connection.
pub(super) fn hand_over(
    socket: &TcpStream,
    tls: rustls::Connection,
) -> Result<std::result::Result<(), (rustls::Connection, String)>> {
    if tls.wants_write() {
        return Ok(Err((tls, "TLS has still something to say".to_owned())));
    }
    if let Err(error) = ktls::attach(socket) {
        // Not a TCP socket, for one.
        return Ok(Err((tls, format!("the socket does not take it ({error})"))));
    }
    let refused = |error: &dyn fmt::Display| {
        Failure::new(FailureKind::Connection, "hand keys to the kernel", error.to_string())
    };
    let secrets = tls.dangerous_extract_secrets().map_err(|error| refused(&error))?;
    let of = |(sequence, secrets): &(u64, ConnectionTrafficSecrets), sends: bool| {
        let (cipher, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (Cipher::ChaCha20Poly1305, key, iv),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let iv: Zeroizing<[u8; 12]> =
            Zeroizing::new(iv.as_ref().try_into().map_err(|_| io::ErrorKind::Unsupported)?);
        let keys = Keys { cipher, key: key.as_ref(), iv: *iv, sequence: *sequence };
        if sends { ktls::set_send_keys(socket, &keys) } else { ktls::set_receive_keys(socket, &keys) }
    };
    of(&secrets.tx, true).map_err(|error| refused(&error))?;
    of(&secrets.rx, false).map_err(|error| refused(&error))?;
    Ok(Ok(()))
}

/// Reads from a socket that has keys: until `bytes` is full, or what is there if `fills` is not set (`WouldBlock` for
/// nothing). 0 at the end of the stream, by a word of the peer or without.
pub(super) fn fill(socket: &TcpStream, bytes: &mut [u8], fills: bool) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        let (received, kind) = ktls::receive(socket, &mut bytes[filled..], fills)?;
        let what = &bytes[filled..filled + received];
        match (kind, what) {
            (ktls::APPLICATION_DATA, []) => break,
            (ktls::APPLICATION_DATA, _) => filled += received,
            (ktls::ALERT, [_, CLOSE_NOTIFY]) => break,
            (ktls::ALERT, [_, description]) => {
                return Err(io::Error::other(format!("the peer ended TLS (alert {description})")));
            }
            _ => {
                let why = "the peer sent a TLS record that is no data, a new key perhaps, which the kernel does not \
                           take; a new stream does";
                return Err(io::Error::other(why));
            }
        }
        if !fills {
            break;
        }
    }
    Ok(filled)
}

/// RFC 8446, 6.1.
const CLOSE_NOTIFY: u8 = 0;

#[cfg(test)]
mod tests;
