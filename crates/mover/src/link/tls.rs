//! TLS 1.3 and what it is the ground of: hellos, the session's key, the proof that a stream belongs to a session.
//!
//! 1. Handshake: TLS 1.3 only, both sides show certificates, ALPN `thalweg/1`, no tickets, no resumption, no early
//!    data. The deadline is for the whole of it: a peer that sends a byte now and then gains nothing.
//! 2. Hello and answer, of fixed size, inside TLS.
//! 3. The connection goes to [`ControlChannel`](crate::link::ControlChannel) or becomes a stream
//!    ([`Connection::into_streams`](crate::link::Connection::into_streams)).
//!
//! Until 3, reads stop at the end of a TLS record: the header's five bytes, then what it announces. So bytes that the
//! peer sends behind its hello, which are no TLS records on a sealed stream, stay in the socket for whoever comes
//! next.
//!
//! Not here: who may join which session. A server compares
//! [`Connection::peer_fingerprint`](crate::link::Connection::peer_fingerprint) with that of the session's control
//! connection, besides the proof.

use super::identity::{Fingerprint, Identity};
use super::ktls::TlsForm;
use super::stream::StopHandle;
use super::token::Token;
use super::trust::{ClientTrust, ServerTrust};
use crate::failure::{Reason, of_io};
use crate::{Failure, FailureKind, Result};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{
    AlertDescription, CipherSuite, ClientConfig, ClientConnection, NamedGroup, ServerConfig, ServerConnection,
};
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use thalweg_sys::socket::{self, Interest};
use thalweg_wire::hello::{self, ANSWER_BYTES, Answer, HELLO_BYTES, Hello, Purpose, ServerHello, SessionId};
use thalweg_wire::message::TransferNumber;
use thalweg_wire::{DecodeError, Digest, limits};
use zeroize::Zeroizing;

/// The protocol's name in ALPN. The number is that of the way from TLS to the hello, not of the protocol version in it.
pub(crate) const ALPN: &[u8] = b"thalweg/1";

/// Largest record that a TLS 1.3 peer sends (RFC 8446, 5.2), without its header.
const RECORD_BYTES_MAX: usize = (1 << 14) + 256;
const RECORD_HEADER_BYTES: usize = 5;

const SESSION_LABEL: &[u8] = b"EXPORTER-thalweg-session";
const PROOF_LABEL: &[u8] = b"EXPORTER-thalweg-proof";

/// Algorithms, best first. AES-128-GCM where the processor has AES (measured 1.0 CPU-s/GB less than ChaCha20), else
/// ChaCha20-Poly1305; key exchange that a quantum computer does not undo first.
pub(super) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let suites = match thalweg_sys::machine::has_aes() {
            true => [
                CipherSuite::TLS13_AES_128_GCM_SHA256,
                CipherSuite::TLS13_AES_256_GCM_SHA384,
                CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            false => [
                CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
                CipherSuite::TLS13_AES_128_GCM_SHA256,
                CipherSuite::TLS13_AES_256_GCM_SHA384,
            ],
        };
        let rank = |suite| suites.iter().position(|wanted| *wanted == suite);
        provider.cipher_suites.retain(|suite| rank(suite.suite()).is_some());
        provider.cipher_suites.sort_by_key(|suite| rank(suite.suite()));
        provider.kx_groups = rustls::crypto::aws_lc_rs::ALL_KX_GROUPS.to_vec();
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        Arc::new(provider)
    });
    PROVIDER.clone()
}

/// TLS of a client that is `identity` and accepts the server that `trust` names. One for all connections to it.
///
/// # Errors
/// `Usage` for certificates that cannot be used.
pub fn client_config(identity: &Identity, trust: &ServerTrust) -> Result<Arc<ClientConfig>> {
    client_config_with(identity, trust, provider())
}

/// As [`client_config`] with other algorithms, for tests of each.
pub(super) fn client_config_with(
    identity: &Identity,
    trust: &ServerTrust,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<ClientConfig>> {
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(trust.verifier())
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified_key()?)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_early_data = false;
    // For the kernel, if it seals a stream; nobody else asks.
    config.enable_secret_extraction = true;
    // A pinned server needs no name, so nobody on the path needs to read one.
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// TLS of a server that is `identity` and accepts the clients that `trust` names. One for all connections; the pins in
/// `trust` stay live.
///
/// # Errors
/// `Usage` for certificates that cannot be used.
pub fn server_config(identity: &Identity, trust: &ClientTrust) -> Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(&error))?
        .with_client_cert_verifier(trust.verifier())
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified_key()?)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    // A ticket would follow the handshake at a time of its own and end up among sealed frames.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.max_early_data_size = 0;
    config.enable_secret_extraction = true;
    Ok(Arc::new(config))
}

/// A socket after its TLS handshake.
///
/// Dropping it closes the socket without a word; the peer sees a connection that was cut.
pub struct Connection {
    pub(super) socket: Arc<TcpStream>,
    pub(super) tls: rustls::Connection,
    records: Records,
    peer: Fingerprint,
    pub(super) tls_form: TlsForm,
}

impl Connection {
    /// Handshake as client, over a connected stream socket of any family.
    ///
    /// `deadline` is for all of it.
    ///
    /// A server that refuses our certificate says so only after this has returned: the next read tells it.
    ///
    /// # Errors
    /// `Permission` if the server is not the one trusted, `Connection` if it is silent, gone or slow, `Protocol` if it
    /// does not speak TLS 1.3 or ALPN `thalweg/1`.
    pub fn connect(fd: OwnedFd, config: Arc<ClientConfig>, deadline: Duration) -> Result<Connection> {
        // rustls wants one. It is neither sent nor checked.
        let name = ServerName::try_from("server.invalid")
            .map_err(|error| Failure::new(FailureKind::Internal, HANDSHAKE, error))?;
        let tls = ClientConnection::new(config, name).map_err(|error| of_tls(HANDSHAKE, &error))?;
        handshake(fd, tls.into(), deadline)
    }

    /// Handshake as server, over a connected stream socket of any family.
    ///
    /// # Errors
    /// As [`Connection::connect`], with the sides changed.
    pub fn accept(fd: OwnedFd, config: Arc<ServerConfig>, deadline: Duration) -> Result<Connection> {
        let tls = ServerConnection::new(config).map_err(|error| of_tls(HANDSHAKE, &error))?;
        handshake(fd, tls.into(), deadline)
    }

    /// Takes over a connection whose handshake somebody else has done (the daemon, with tokio), with what `tls` has
    /// read ahead. The socket's blocking mode does not matter.
    ///
    /// # Errors
    /// `Protocol` if it is not a finished TLS 1.3 handshake with both certificates and ALPN `thalweg/1`.
    pub fn from_parts(fd: OwnedFd, tls: impl Into<rustls::Connection>) -> Result<Connection> {
        let socket = TcpStream::from(fd);
        socket.set_nonblocking(true).map_err(|error| of_io(HANDSHAKE, &error))?;
        let tls = tls.into();
        let peer = check_finished(&tls)?;
        Ok(Connection {
            socket: Arc::new(socket),
            tls,
            records: Records::Unknown,
            peer,
            tls_form: TlsForm::default(),
        })
    }

    /// Fingerprint of the certificate that the peer has proved to own.
    pub fn peer_fingerprint(&self) -> Fingerprint {
        self.peer
    }

    /// The peer's end of the socket, IPv4 as such; `None` for what is no internet socket.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        let address = self.socket.peer_addr().ok()?;
        Some(SocketAddr::new(address.ip().to_canonical(), address.port()))
    }

    /// The shortest round trip that the kernel saw on it; `None` for what is no TCP socket.
    pub fn rtt(&self) -> Option<Duration> {
        thalweg_sys::socket::tcp_info(&*self.socket).ok().map(|info| info.rtt_min)
    }

    /// Its congestion control, which nobody chose; for what is no TCP socket, what the system chooses.
    pub(crate) fn usual_congestion(&self) -> Option<String> {
        use thalweg_sys::socket;
        socket::congestion(&*self.socket).or_else(|_| socket::default_congestion()).ok()
    }

    /// What a stream in TLS form is to be like, if this becomes one.
    pub fn set_tls_form(&mut self, form: TlsForm) {
        self.tls_form = form;
    }

    /// The cipher suite that was agreed.
    pub(super) fn suite(&self) -> Option<CipherSuite> {
        self.tls.negotiated_cipher_suite().map(|suite| suite.suite())
    }

    /// For another thread to end this connection with, whatever became of it in between.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle::new(self.socket.clone())
    }

    /// Fills `buffer`, reading not beyond the TLS record that has its last byte.
    ///
    /// # Errors
    /// `Connection` if the peer ends or cuts the connection or is not done after `deadline`, `Permission` if it refuses
    /// our certificate, `Protocol` if it breaks TLS.
    pub fn read_exact(&mut self, buffer: &mut [u8], deadline: Duration) -> Result<()> {
        self.read_until("read", buffer, Until::after(deadline))
    }

    /// Sends `bytes`.
    ///
    /// # Errors
    /// `Connection` if the peer is gone or has not taken them all after `deadline`.
    pub fn write_all(&mut self, bytes: &[u8], deadline: Duration) -> Result<()> {
        self.write_until("write", bytes, Until::after(deadline))
    }

    /// Client: sends `hello` and reads the answer, within `deadline` for both.
    ///
    /// # Errors
    /// `Protocol` if there is no version in common or the answer does not fit the hello, its cipher too, `Busy` if the
    /// server has too many sessions, `NotFound` if it does not know the session; else as [`Connection::read_exact`].
    pub fn hello(&mut self, hello: &Hello, deadline: Duration) -> Result<ServerHello> {
        let until = Until::after(deadline);
        self.write_until(HELLO, &hello.encode(), until)?;
        let mut bytes = [0; ANSWER_BYTES];
        self.read_until(HELLO, &mut bytes, until)?;
        let answer = ServerHello::decode(&bytes).map_err(|error| of_decode(HELLO, &error))?;
        let protocol = |why: &str| Failure::new(FailureKind::Protocol, HELLO, why);
        match answer.answer {
            Answer::Accepted => {}
            Answer::Version => {
                return Err(no_version(answer.versions, hello.versions).because(Reason::NoVersion));
            }
            Answer::Busy => {
                let why = "the peer has as many sessions or streams as it takes; try again later";
                return Err(Failure::new(FailureKind::Busy, HELLO, why));
            }
            Answer::UnknownSession => {
                let why = "the peer does not know this session (any more)";
                return Err(Failure::new(FailureKind::NotFound, HELLO, why));
            }
            Answer::TokenWanted => {
                let why = "the peer does not know our certificate, and no token was shown";
                return Err(Failure::new(FailureKind::Permission, HELLO, why).because(Reason::NotTrusted));
            }
            Answer::TokenExpired
            | Answer::TokenRefused
            | Answer::TokenWithoutRights
            | Answer::TokenUnchecked => {
                return Err(protocol("the peer speaks of a token that nobody showed"));
            }
        }
        if hello::negotiate(hello.versions, answer.versions) != Some(answer.version) {
            return Err(protocol("the peer chose a version that is not the highest in common"));
        }
        if answer.cipher != hello.cipher {
            return Err(protocol(&other_cipher(answer.cipher, hello.cipher)));
        }
        match hello.purpose {
            Purpose::Control if answer.session == [0; 16] => Err(protocol("the peer gave no session")),
            Purpose::Stream | Purpose::Resume if answer.session != hello.session => {
                Err(protocol("the peer answered for another session"))
            }
            _ => Ok(answer),
        }
    }

    /// Client: says who it is by a token, before its hello, and hears what becomes of that, within `deadline` for both.
    /// The server holds it to the certificate of this connection.
    ///
    /// # Errors
    /// `Permission` if it is not taken, `Busy` if it cannot be checked for now; else as [`Connection::hello`].
    pub fn introduce(&mut self, token: &Token, deadline: Duration) -> Result<()> {
        let until = Until::after(deadline);
        let first = Hello { stream: token.length(), ..Hello::new(Purpose::Token, hello::Cipher::Aes128Gcm) };
        let message = Zeroizing::new([&first.encode()[..], token.as_str().as_bytes()].concat());
        self.write_until(SHOW_TOKEN, &message, until)?;
        let mut bytes = [0; ANSWER_BYTES];
        self.read_until(SHOW_TOKEN, &mut bytes, until)?;
        let answer = ServerHello::decode(&bytes).map_err(|error| of_decode(SHOW_TOKEN, &error))?;
        let why = match answer.answer {
            Answer::Accepted => return Ok(()),
            Answer::Version => {
                return Err(no_version(answer.versions, first.versions).because(Reason::NoVersion));
            }
            Answer::TokenExpired => "it has expired",
            Answer::TokenRefused => {
                "the server does not take it: it is of another provider, for another audience, or not valid (yet)"
            }
            Answer::TokenWithoutRights => "it gives no rights at this server",
            Answer::TokenUnchecked => {
                let why = "the server cannot check it for now; try again later";
                return Err(Failure::new(FailureKind::Busy, SHOW_TOKEN, why));
            }
            Answer::UnknownSession | Answer::Busy | Answer::TokenWanted => {
                let why = "the peer answered another question";
                return Err(Failure::new(FailureKind::Protocol, SHOW_TOKEN, why));
            }
        };
        Err(Failure::new(FailureKind::Permission, SHOW_TOKEN, why).because(Reason::TokenNotTaken))
    }

    /// Server: reads the token that a hello of [`Purpose::Token`] announced.
    ///
    /// # Errors
    /// `Protocol` if it is none; else as [`Connection::read_exact`].
    pub fn read_token(&mut self, hello: &Hello, deadline: Duration) -> Result<Token> {
        let length = usize::from(hello.stream);
        if length > limits::TOKEN_BYTES_MAX {
            return Err(Failure::new(FailureKind::Protocol, HELLO, "the token is too long"));
        }
        let mut bytes = Zeroizing::new(vec![0; length]);
        self.read_until(HELLO, &mut bytes, Until::after(deadline))?;
        Token::from_bytes(&bytes).map_err(|failure| Failure { kind: FailureKind::Protocol, ..failure })
    }

    /// Server: reads the client's hello. With no version in common it answers so itself.
    ///
    /// # Errors
    /// `Protocol` if it is no hello or no version is in common; else as [`Connection::read_exact`].
    pub fn read_hello(&mut self, deadline: Duration) -> Result<Hello> {
        let until = Until::after(deadline);
        let mut bytes = [0; HELLO_BYTES];
        self.read_until(HELLO, &mut bytes, until)?;
        self.hello_of(&bytes, until)
    }

    /// Server: the same of a hello that was read already.
    ///
    /// # Errors
    /// As [`Connection::read_hello`].
    pub fn take_hello(&mut self, bytes: &[u8; HELLO_BYTES], deadline: Duration) -> Result<Hello> {
        self.hello_of(bytes, Until::after(deadline))
    }

    fn hello_of(&mut self, bytes: &[u8; HELLO_BYTES], until: Until) -> Result<Hello> {
        let ours = (limits::VERSION_MIN, limits::VERSION_MAX);
        let decoded = Hello::decode(bytes);
        // Of a later version's hello only the head is known to be the same: enough to say which versions we speak.
        let theirs = (u16::from_be_bytes([bytes[8], bytes[9]]), u16::from_be_bytes([bytes[10], bytes[11]]));
        let is_hello = !matches!(decoded, Err(DecodeError::Magic { .. }));
        if is_hello && hello::negotiate(ours, theirs).is_none() {
            let answer = ServerHello {
                version: 0,
                versions: ours,
                answer: Answer::Version,
                cipher: hello::Cipher::Aes128Gcm,
                features: 0,
                session: [0; 16],
                system: hello::System::default(),
            };
            // The client's misfortune is the failure to tell, not that it did not wait for the answer.
            let _ = self.write_until(HELLO, &answer.encode(), until);
            return Err(no_version(theirs, ours));
        }
        decoded.map_err(|error| of_decode(HELLO, &error))
    }

    /// Server: sends the answer to the hello.
    ///
    /// # Errors
    /// As [`Connection::write_all`].
    pub fn answer(&mut self, answer: &ServerHello, deadline: Duration) -> Result<()> {
        self.write_until(HELLO, &answer.encode(), Until::after(deadline))
    }

    /// The key of the session whose control connection this is: 32 bytes that both ends have and nobody else can have.
    ///
    /// # Errors
    /// `Protocol` if TLS has failed meanwhile.
    pub fn export_session_key(&self) -> Result<Zeroizing<[u8; 32]>> {
        self.export(SESSION_LABEL, &[]).map(Zeroizing::new)
    }

    /// Key material of this connection for one use (RFC 5705, RFC 8446 7.5).
    pub(super) fn export<const N: usize>(&self, label: &[u8], context: &[u8]) -> Result<[u8; N]> {
        self.tls
            .export_keying_material([0; N], label, Some(context))
            .map_err(|error| of_tls("export a key", &error))
    }

    /// Whether rustls holds bytes that nobody has read yet.
    pub(super) fn holds_plaintext(&mut self) -> bool {
        match self.tls.process_new_packets() {
            Ok(state) => state.plaintext_bytes_to_read() > 0,
            Err(_) => true,
        }
    }

    fn read_until(&mut self, operation: &str, buffer: &mut [u8], until: Until) -> Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Err(ended(operation)),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.fill(operation, until)?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(ended(operation)),
                Err(error) => return Err(of_io(operation, &error)),
            }
        }
        Ok(())
    }

    fn write_until(&mut self, operation: &str, bytes: &[u8], until: Until) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.tls.writer().write(rest).map_err(|error| of_io(operation, &error))?;
            rest = &rest[taken..];
            self.flush(operation, until)?;
        }
        Ok(())
    }

    /// Reads a piece of a record, or a whole one, and has rustls look at it.
    fn fill(&mut self, operation: &str, until: Until) -> Result<()> {
        self.flush(operation, until)?;
        loop {
            until.wait(operation, &self.socket, Interest::READ)?;
            let mut source = Precise { socket: &self.socket, records: &mut self.records };
            match self.tls.read_tls(&mut source) {
                Ok(0) => return Err(ended(operation)),
                Ok(_) => break,
                Err(error) if is_transient(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(Failure::new(FailureKind::Protocol, operation, error));
                }
                Err(error) => return Err(of_io(operation, &error)),
            }
        }
        match self.tls.process_new_packets() {
            Ok(state) => {
                // Read byte by byte, plaintext appears with the last byte of its record: from here on we know where
                // records begin.
                if self.records == Records::Unknown && state.plaintext_bytes_to_read() > 0 {
                    self.records = Records::start();
                }
                Ok(())
            }
            Err(error) => {
                // Tells the peer why, if that does not take waiting.
                let _ = self.tls.write_tls(&mut &*self.socket);
                Err(of_tls(operation, &error))
            }
        }
    }

    fn flush(&mut self, operation: &str, until: Until) -> Result<()> {
        while self.tls.wants_write() {
            until.wait(operation, &self.socket, Interest::WRITE)?;
            match self.tls.write_tls(&mut &*self.socket) {
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    // A server that refuses us says why and closes; that word is worth more than "broken pipe".
                    return Err(self.last_word().unwrap_or_else(|| of_io(operation, &error)));
                }
            }
        }
        Ok(())
    }

    /// An alert that the peer sent before it closed, if there is one.
    fn last_word(&mut self) -> Option<Failure> {
        for _ in 0..8 {
            let mut source = Precise { socket: &self.socket, records: &mut self.records };
            if self.tls.read_tls(&mut source).ok()? == 0 {
                return None;
            }
            if let Err(error) = self.tls.process_new_packets() {
                return Some(of_tls(HANDSHAKE, &error));
            }
        }
        None
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The peer's fingerprint; no key.
impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// What a client shows to join stream `stream` of a session: that it has the session's key, on this very connection.
///
/// Keyed BLAKE3 over a context line, the session, the stream's number and a key that TLS exports from `connection`, so
/// that a proof seen or relayed elsewhere proves nothing here. Both ends compute it; see [`proof_matches`].
///
/// # Errors
/// `Protocol` if TLS has failed meanwhile.
pub fn stream_proof(
    session_key: &[u8; 32],
    connection: &Connection,
    session: &SessionId,
    stream: u16,
) -> Result<[u8; 32]> {
    proof(b"thalweg stream proof v1\n", session_key, connection, session, stream)
}

/// What a client shows to take up a session with a new control connection. As [`stream_proof`], with a context line of
/// its own.
///
/// # Errors
/// `Protocol` if TLS has failed meanwhile.
pub fn resume_proof(
    session_key: &[u8; 32],
    connection: &Connection,
    session: &SessionId,
) -> Result<[u8; 32]> {
    proof(b"thalweg resume proof v1\n", session_key, connection, session, 0)
}

/// What ties the statements of a transfer to its session: keyed BLAKE3 over a context line and the transfer's number.
/// Both ends compute it; who has one end only, or reads a receipt, cannot make another with the same.
pub fn statement_tie(session_key: &[u8; 32], transfer: TransferNumber) -> Digest {
    let mut hasher = blake3::Hasher::new_keyed(session_key);
    hasher.update(b"thalweg statement tie v1\n").update(&transfer.0.to_be_bytes());
    Digest(*hasher.finalize().as_bytes())
}

/// Compares in a time that does not depend on where the two differ.
pub fn proof_matches(ours: &[u8; 32], theirs: &[u8; 32]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(ours, theirs).is_ok()
}

fn proof(
    context: &[u8],
    session_key: &[u8; 32],
    connection: &Connection,
    session: &SessionId,
    stream: u16,
) -> Result<[u8; 32]> {
    let exported = Zeroizing::new(connection.export::<32>(PROOF_LABEL, &context_of(session, stream))?);
    let mut hasher = blake3::Hasher::new_keyed(session_key);
    hasher.update(context).update(session).update(&stream.to_be_bytes()).update(&*exported);
    Ok(*hasher.finalize().as_bytes())
}

/// Session and stream as exporters take them.
pub(super) fn context_of(session: &SessionId, stream: u16) -> [u8; 18] {
    let mut context = [0; 18];
    context[..16].copy_from_slice(session);
    context[16..].copy_from_slice(&stream.to_be_bytes());
    context
}

const HANDSHAKE: &str = "TLS handshake";
const HELLO: &str = "hello";
const SHOW_TOKEN: &str = "show the token";

fn handshake(fd: OwnedFd, tls: rustls::Connection, deadline: Duration) -> Result<Connection> {
    let until = Until::after(deadline);
    let socket = TcpStream::from(fd);
    socket.set_nonblocking(true).map_err(|error| of_io(HANDSHAKE, &error))?;
    // Handshakes and messages are short, and an answer is waited for: where the kernel holds the second piece back
    // until the first is acknowledged, each such wait takes 40 ms. Another kind of socket does not hold back.
    let _ = socket::set_no_delay(&socket, true);
    let peer = Fingerprint([0; 32]);
    let mut connection = Connection {
        socket: Arc::new(socket),
        tls,
        records: Records::start(),
        peer,
        tls_form: TlsForm::default(),
    };
    while connection.tls.is_handshaking() {
        connection.fill(HANDSHAKE, until)?;
    }
    connection.flush(HANDSHAKE, until)?;
    connection.peer = check_finished(&connection.tls)?;
    Ok(connection)
}

/// What rustls was configured to make sure of, and what it leaves to us: without ALPN it would go on.
fn check_finished(tls: &rustls::Connection) -> Result<Fingerprint> {
    let refuse = |why: &str| Failure::new(FailureKind::Protocol, HANDSHAKE, why);
    if tls.is_handshaking() || tls.protocol_version() != Some(rustls::ProtocolVersion::TLSv1_3) {
        return Err(refuse("TLS 1.3 was not reached"));
    }
    if tls.alpn_protocol() != Some(ALPN) {
        return Err(refuse("the peer does not speak thalweg"));
    }
    let certificate = tls.peer_certificates().and_then(|chain| chain.first());
    Ok(Fingerprint::of(certificate.ok_or_else(|| refuse("the peer showed no certificate"))?))
}

/// A moment that no event moves.
#[derive(Clone, Copy)]
struct Until {
    /// `None` for one beyond what the clock can say.
    moment: Option<Instant>,
    deadline: Duration,
}

impl Until {
    fn after(deadline: Duration) -> Until {
        Until { moment: Instant::now().checked_add(deadline), deadline }
    }

    /// Waits for the socket; after the moment it fails, ready or not, so that a peer which is always ready does not
    /// keep us.
    fn wait(self, operation: &str, socket: &TcpStream, interest: Interest) -> Result<()> {
        loop {
            let left = self.moment.map(|moment| moment.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                let why = format!("the peer did not finish within {:.1} s", self.deadline.as_secs_f64());
                return Err(Failure::new(FailureKind::Connection, operation, why));
            }
            let ready = socket::poll(&[(socket.as_fd(), interest)], left);
            if ready.map_err(|error| of_io(operation, &error))?.iter().any(|ready| ready.any()) {
                return Ok(());
            }
        }
    }
}

/// Where in the TLS records of the peer we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    /// Somewhere in a record that somebody else began to read. One byte at a time is never too many.
    Unknown,
    /// In a header, of which these bytes are known.
    Header([u8; RECORD_HEADER_BYTES], usize),
    /// This many bytes before the end of a record.
    Body(usize),
}

impl Records {
    fn start() -> Records {
        Records::Header([0; RECORD_HEADER_BYTES], 0)
    }

    /// Bytes that may be read without passing the end of the record.
    fn bytes_left(self) -> usize {
        match self {
            Records::Unknown => 1,
            Records::Header(_, known) => RECORD_HEADER_BYTES - known,
            Records::Body(left) => left,
        }
    }

    /// Where we are after `bytes`, which are at most [`Records::bytes_left`].
    fn after(self, bytes: &[u8]) -> io::Result<Records> {
        match self {
            Records::Unknown => Ok(self),
            Records::Header(mut header, known) => {
                let now = known + bytes.len();
                header[known..now].copy_from_slice(bytes);
                if now < RECORD_HEADER_BYTES {
                    return Ok(Records::Header(header, now));
                }
                match usize::from(u16::from_be_bytes([header[3], header[4]])) {
                    0 => Ok(Records::start()),
                    length if length > RECORD_BYTES_MAX => Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a TLS record is longer than TLS 1.3 allows",
                    )),
                    length => Ok(Records::Body(length)),
                }
            }
            Records::Body(left) if left == bytes.len() => Ok(Records::start()),
            Records::Body(left) => Ok(Records::Body(left - bytes.len())),
        }
    }
}

/// Reads from the socket, never beyond a record.
struct Precise<'a> {
    socket: &'a TcpStream,
    records: &'a mut Records,
}

impl Read for Precise<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        // A header and its body in one go, if they are there.
        while filled < buffer.len() {
            let bytes = self.records.bytes_left().min(buffer.len() - filled);
            let piece = &mut buffer[filled..filled + bytes];
            let read = match { self.socket }.read(piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            };
            let was = *self.records;
            *self.records = was.after(&piece[..read])?;
            filled += read;
            let record_ended = matches!((was, *self.records), (Records::Body(_), Records::Header(..)));
            if record_ended || was == Records::Unknown {
                break;
            }
        }
        Ok(filled)
    }
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The failure that a TLS error is: who is not trusted is a matter of permission and not worth a second try.
pub(super) fn of_tls(operation: &str, error: &rustls::Error) -> Failure {
    use rustls::Error as E;
    let (kind, cause) = match error {
        E::InvalidCertificate(reason) => {
            (FailureKind::Permission, format!("the peer's certificate is not one we trust ({reason})"))
        }
        E::NoCertificatesPresented => (FailureKind::Permission, "the peer showed no certificate".to_owned()),
        E::AlertReceived(alert) => match alert {
            AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate => {
                (FailureKind::Permission, format!("the peer does not let us in ({alert:?})"))
            }
            AlertDescription::NoApplicationProtocol => {
                (FailureKind::Protocol, "the peer does not speak thalweg".to_owned())
            }
            _ => (FailureKind::Protocol, format!("the peer ended TLS ({alert:?})")),
        },
        E::NoApplicationProtocol => (FailureKind::Protocol, "the peer does not speak thalweg".to_owned()),
        E::DecryptError => (FailureKind::Damage, "a TLS record was altered on the way".to_owned()),
        other => (FailureKind::Protocol, other.to_string()),
    };
    let reason = match (error, kind) {
        (E::InvalidCertificate(_), _) | (E::AlertReceived(_), FailureKind::Permission) => Reason::NotTrusted,
        _ => Reason::Other,
    };
    Failure::new(kind, operation, cause).because(reason)
}

pub(super) fn of_decode(operation: &str, error: &DecodeError) -> Failure {
    Failure::new(FailureKind::Protocol, operation, error)
}

fn ended(operation: &str) -> Failure {
    Failure::new(FailureKind::Connection, operation, "the peer closed the connection")
}

fn unusable(error: &rustls::Error) -> Failure {
    Failure::new(FailureKind::Usage, "set up TLS", error)
}

/// Nobody who wants TLS records, or a longer key, gets something else without a word.
fn other_cipher(theirs: hello::Cipher, ours: hello::Cipher) -> String {
    let (theirs, ours) = (theirs.word(), ours.word());
    format!(
        "the peer chose the cipher {theirs} where {ours} was asked for; `--cipher {theirs}` asks for that"
    )
}

/// For both ends: which side to update.
pub(super) fn no_version(theirs: (u16, u16), ours: (u16, u16)) -> Failure {
    let why = format!(
        "the peer speaks protocol versions {} to {}, this thalweg {} to {}: update the older side",
        theirs.0, theirs.1, ours.0, ours.1
    );
    Failure::new(FailureKind::Protocol, HELLO, why)
}

#[cfg(test)]
mod tests;
