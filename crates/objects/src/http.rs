//! Requests: who sends them, limits of time.
//!
//! A request is sent once; whether it is sent again is decided by [`crate::retries`]. Redirects are not followed.
//!
//! No words from here hold an address: it is signed, and whoever has it can do for some minutes what it says.

use std::borrow::Cow;
use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg_http::{Authorities, Kept, Limits, Wishes};
use thalweg_mover::failure::{self, Reason, Result};
use thalweg_mover::plan::STREAMS_PLANNED_MAX;
use ureq::RequestExt as _;
use ureq::http::{self, HeaderMap, Method};
use url::Url;

/// In this time a connection is made, TLS included.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// In this time a store begins to answer, and has told all of an answer that is no object's content.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The same where a store puts the parts of an object together: that may take it minutes.
pub const COMPLETE_LIMIT: Duration = Duration::from_secs(600);
/// A connection that moves nothing for so long is given up, unless the answer has longer to begin.
pub const STALL_LIMIT: Duration = Duration::from_secs(60);
/// An object that brings less in that time is given up as well: else a byte now and then would hold a copy for ever.
const DRIP_BYTES_MIN: usize = 4 << 10;
/// Requests of one kind at once, to a store that is far: one connection and one thread each.
pub const REQUESTS_MAX: usize = 128;
/// Connections of those that read: as many as a copy has streams without being asked for more, each of which reads.
const READS_KEPT: usize = STREAMS_PLANNED_MAX as usize;
/// Connections that wait for their next request, of those that carry much and of the others: one for each thread of a
/// large copy, of those that look or write and of those that read.
const IDLE_CONNECTIONS_MAX: usize = REQUESTS_MAX + READS_KEPT;
/// How long one waits: stores close theirs after some 20 s or later.
const IDLE_LIMIT: Duration = Duration::from_secs(15);
/// What an answer's words may be read by at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Content from this length on is counted as it gets across, for the kernel takes what is shorter at once; and goes by
/// connections of its own ([`Agents`]).
const LONG_BYTES: usize = 64 << 10;

/// How the standard library's words begin where a name is not found: there is no kind for that.
const LOOKUP: &str = "failed to lookup address information";

/// What sends requests: connections are kept and used again.
///
/// Of those that are free the one that has waited longest is used, and whichever carried only words begins slowly,
/// round trip by round trip, when it is to carry an object. Between a look at each of many objects and the reading of
/// them, the connections that looked would take their turns for ever. So what is long has its own: as many as are at
/// work, each of which is as fast as it has become.
pub struct Agents {
    of_words: ureq::Agent,
    of_content: ureq::Agent,
}

impl Agents {
    /// They believe the system's authorities, or those in the PEM file `ca` alone; `is_near`: what they ask is on this
    /// machine, and no proxy reaches it. The rest is as of all our agents: [`thalweg_http`].
    ///
    /// # Errors
    /// If `ca` cannot be read or has no certificate in it. A system without any is told of at the first handshake.
    pub fn new(ca: Option<&Path>, is_near: bool) -> Result<Agents> {
        let authorities = ca.map_or_else(|| Ok(Authorities::of_system()), Authorities::of_file)?;
        let limits = Limits::Steps { connect: CONNECT_LIMIT, answer: ANSWER_LIMIT, stall: STALL_LIMIT };
        let kept = Kept { connections_max: IDLE_CONNECTIONS_MAX, age_max: IDLE_LIMIT };
        let agent =
            |authorities| thalweg_http::agent(Wishes { authorities, is_near, accept: None, limits, kept });
        Ok(Agents { of_words: agent(authorities.clone()), of_content: agent(authorities) })
    }

    /// What is asked in few words, and answered so.
    pub fn of_words(&self) -> &ureq::Agent {
        &self.of_words
    }

    /// Closes all connections, those in use too. What is asked from now on fails.
    pub fn shut_down(&self) {
        self.of_words.clone().shutdown();
        self.of_content.clone().shutdown();
    }

    fn of(&self, request: &Request<'_>) -> &ureq::Agent {
        let sent = request.content.map_or(0, |content| content.len() as u64);
        match sent.max(request.carries) >= LONG_BYTES as u64 {
            true => &self.of_content,
            false => &self.of_words,
        }
    }
}

/// One request, signed. It has no `Debug`: its address is a secret.
pub struct Request<'a> {
    /// `GET` and the like.
    pub method: Method,
    /// Where, with the signature.
    pub address: Url,
    /// Names in lower case.
    pub headers: &'a [(&'static str, Cow<'a, str>)],
    /// What is sent. `None`: not even a length.
    pub content: Option<&'a [u8]>,
    /// Bytes of content that the connection is to carry besides, as far as that is known; else 0: with the answer, or
    /// with the next request.
    pub carries: u64,
    /// Grows with each piece of long content that the connection takes.
    pub sent: &'a AtomicU64,
    /// In this time the answer begins.
    pub limit: Duration,
    /// The answer is no object's content: its connection may be silent for all of `limit`.
    pub is_words: bool,
    /// The store may refuse before the content is sent: it is given a second for that.
    pub asks_first: bool,
}

/// Why there is no answer, or not all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In words, without address and secrets.
    pub words: String,
    /// What a hint goes by.
    pub reason: Reason,
    /// Whether it may go better another time.
    pub passes: bool,
}

impl Trouble {
    /// One that may go better another time.
    fn passing(words: impl ToString) -> Trouble {
        Trouble { words: words.to_string(), reason: Reason::Other, passes: true }
    }

    /// One that stays.
    fn lasting(words: impl ToString) -> Trouble {
        Trouble { passes: false, ..Trouble::passing(words) }
    }

    /// A body that ends before it should.
    pub fn cut() -> Trouble {
        Trouble::passing("it ends too early")
    }

    /// The same, for this reason.
    fn because(self, reason: Reason) -> Trouble {
        Trouble { reason, ..self }
    }

    /// What becomes of an error; no words of it hold an address.
    fn of(error: ureq::Error, limit: Duration) -> Trouble {
        use ureq::Timeout as T;
        match error {
            ureq::Error::Io(error) => Trouble::of_io(error, limit),
            ureq::Error::Rustls(error) => Trouble::of_tls(&error),
            ureq::Error::Timeout(T::PerRead) => {
                Trouble::passing(format!("nothing moved for {} s", limit.max(STALL_LIMIT).as_secs()))
            }
            ureq::Error::Timeout(T::PerWrite) => {
                Trouble::passing(format!("nothing moved for {} s", STALL_LIMIT.as_secs()))
            }
            ureq::Error::Timeout(T::Connect | T::Resolve) => {
                Trouble::passing(format!("there is no connection after {} s", CONNECT_LIMIT.as_secs()))
                    .because(Reason::StoreNotAnswered)
            }
            ureq::Error::Timeout(_) => {
                Trouble::passing(format!("there is no answer after {} s", limit.as_secs()))
            }
            ureq::Error::HostNotFound => {
                Trouble::passing("the name of its host is not found").because(Reason::StoreNotAnswered)
            }
            ureq::Error::ConnectionFailed => {
                Trouble::passing("there is no connection").because(Reason::StoreNotAnswered)
            }
            ureq::Error::ConnectProxyFailed(_) => Trouble::passing("the proxy does not connect to it"),
            ureq::Error::Protocol(_) => Trouble::passing("what it answers is no HTTP"),
            ureq::Error::LargeResponseHeader(..) => Trouble::lasting("the head of its answer is too large"),
            ureq::Error::Http(_) => Trouble::lasting("HTTP cannot say this"),
            _ => Trouble::lasting("it cannot be asked"),
        }
    }

    /// What the kernel says, or what somebody put into its clothes.
    fn of_io(error: io::Error, limit: Duration) -> Trouble {
        let inner = error.get_ref();
        if let Some(error) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Trouble::of_tls(error);
        }
        if inner.is_some_and(|inner| inner.is::<ureq::Error>()) {
            return match ureq::Error::from(error) {
                // It would come back here.
                ureq::Error::Io(_) => Trouble::passing("the connection fails"),
                error => Trouble::of(error, limit),
            };
        }
        if error.to_string().starts_with(LOOKUP) {
            return Trouble::of(ureq::Error::HostNotFound, ANSWER_LIMIT);
        }
        let reason = match error.kind() {
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable => Reason::StoreNotAnswered,
            _ => Reason::Other,
        };
        Trouble::passing(failure::of_io("send", &error).cause).because(reason)
    }

    fn of_tls(error: &rustls::Error) -> Trouble {
        let words = format!("TLS: {error}");
        match error {
            rustls::Error::InvalidCertificate(_) => Trouble::lasting(words).because(Reason::StoreNotTrusted),
            _ => Trouble::passing(words),
        }
    }
}

/// An answer, of which the head is here.
pub struct Answer {
    /// Its number.
    pub status: u16,
    /// Its head.
    pub headers: HeaderMap,
    body: ureq::Body,
}

impl Answer {
    /// What follows the head, as words. Returns only when all of it is here.
    ///
    /// # Errors
    /// If it breaks, is longer than `bytes_max`, or takes longer than `limit`.
    pub fn words(self, bytes_max: usize, limit: Duration) -> std::result::Result<String, Trouble> {
        let begun = Instant::now();
        let mut body = Content::of(self.body, limit);
        let mut bytes = Vec::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let got = body.read_some(&mut piece)?;
            if got == 0 {
                return Ok(String::from_utf8_lossy(&bytes).into_owned());
            }
            bytes.extend_from_slice(&piece[..got]);
            if bytes.len() > bytes_max {
                return Err(Trouble::lasting(format!("its answer has more than {bytes_max} bytes")));
            }
            if begun.elapsed() > limit {
                return Err(Trouble::passing(format!(
                    "its answer does not end within {} s",
                    limit.as_secs()
                )));
            }
        }
    }

    /// What follows the head, as it comes: at least 4 KiB in each `limit` that is waited for it.
    pub fn content(self, limit: Duration) -> Content {
        Content::of(self.body, limit)
    }
}

/// An object's bytes on their way.
pub struct Content {
    reader: ureq::BodyReader<'static>,
    limit: Duration,
    /// How long it was waited for, and what that brought, since it was last found to come fast enough.
    waited: Duration,
    brought: usize,
}

impl Content {
    fn of(body: ureq::Body, limit: Duration) -> Content {
        Content { reader: body.into_reader(), limit, waited: Duration::ZERO, brought: 0 }
    }

    /// Some of the next bytes; none at the end.
    ///
    /// # Errors
    /// If the connection breaks before the end that was announced, stalls, or brings next to nothing.
    pub fn read(&mut self, buffer: &mut [u8]) -> std::result::Result<usize, Trouble> {
        let begun = Instant::now();
        let got = self.read_some(buffer)?;
        // Time that its reader takes between two reads is not the store's.
        self.waited = self.waited.saturating_add(begun.elapsed());
        self.brought += got;
        if self.waited >= self.limit {
            if got > 0 && self.brought < DRIP_BYTES_MIN {
                let seconds = self.limit.as_secs();
                let words = format!("it brings less than {DRIP_BYTES_MIN} bytes in {seconds} s");
                return Err(Trouble::passing(words));
            }
            (self.waited, self.brought) = (Duration::ZERO, 0);
        }
        Ok(got)
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> std::result::Result<usize, Trouble> {
        loop {
            match self.reader.read(buffer) {
                Ok(got) => return Ok(got),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Trouble::of_io(error, self.limit)),
            }
        }
    }
}

/// Sends it once and waits for the head of the answer, whatever that says.
///
/// # Errors
/// If there is no answer.
pub fn send(agents: &Agents, request: &Request<'_>) -> std::result::Result<Answer, Trouble> {
    let agent = agents.of(request);
    let mut built = http::Request::builder().method(request.method.clone()).uri(request.address.as_str());
    for (name, value) in request.headers {
        built = built.header(*name, &**value);
    }
    if request.asks_first {
        built = built.header("expect", "100-continue");
    }
    let answer = match request.content {
        Some(content) if content.len() >= LONG_BYTES => {
            let mut counted = Counted { rest: content, sent: request.sent };
            let built = built.header("content-length", content.len().to_string());
            run(agent, built.body(ureq::SendBody::from_reader(&mut counted)), request)
        }
        Some(content) => run(agent, built.body(content), request),
        None => run(agent, built.body(()), request),
    };
    let (head, body) = answer.map_err(|error| Trouble::of(error, request.limit))?.into_parts();
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}

/// Content on its way. Each piece is asked for when the connection has taken the one before.
struct Counted<'a> {
    rest: &'a [u8],
    sent: &'a AtomicU64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.rest.read(buffer)
    }
}

fn run<S: ureq::AsSendBody>(
    agent: &ureq::Agent,
    built: http::Result<http::Request<S>>,
    request: &Request<'_>,
) -> std::result::Result<http::Response<ureq::Body>, ureq::Error> {
    let built = built.map_err(ureq::Error::Http)?;
    // Who waits for an answer to begin waits in one read.
    let stall = if request.is_words { request.limit.max(STALL_LIMIT) } else { STALL_LIMIT };
    let built = built.with_agent(agent);
    let of_agent = agent.config();
    if of_agent.timeouts().recv_response == Some(request.limit) && of_agent.timeout_per_read() == Some(stall)
    {
        // What a request says for itself has ureq read all authorities anew for each connection, and resume no session.
        return built.run();
    }
    built.configure().timeout_recv_response(Some(request.limit)).timeout_per_read(Some(stall)).run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::failure::FailureKind;

    #[test]
    fn a_file_without_certificates_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        std::fs::write(&path, "none\n").unwrap();
        let failure = Agents::new(Some(&path), false).err().unwrap();
        assert_eq!(failure.kind, FailureKind::Usage);
        assert!(failure.to_string().contains("ca.pem"), "{failure}");
        assert!(Agents::new(Some(&directory.path().join("missing")), false).is_err());
    }

    #[test]
    fn no_words_of_an_error_hold_the_address_that_it_is_about() {
        let secret = "http://h/?X-Amz-Signature=5ec2e7".to_owned();
        for error in [
            ureq::Error::BadUri(secret.clone()),
            ureq::Error::RequireHttpsOnly(secret.clone()),
            ureq::Error::ConnectProxyFailed(secret.clone()),
            ureq::Error::Other(secret.into()),
        ] {
            let trouble = Trouble::of(error, ANSWER_LIMIT);
            assert!(!trouble.words.contains("5ec2e7"), "{trouble:?}");
        }
    }

    #[test]
    fn a_certificate_that_is_not_trusted_is_final_and_a_connection_that_breaks_is_not() {
        let bad = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        let trouble = Trouble::of_io(io::Error::new(io::ErrorKind::InvalidData, bad), ANSWER_LIMIT);
        assert_eq!((trouble.passes, trouble.reason), (false, Reason::StoreNotTrusted));
        let trouble = Trouble::of_io(io::ErrorKind::ConnectionReset.into(), ANSWER_LIMIT);
        assert_eq!((trouble.passes, trouble.reason), (true, Reason::Other));
        let unknown = std::net::ToSocketAddrs::to_socket_addrs("no-such-host.invalid:80").unwrap_err();
        assert_eq!(Trouble::of_io(unknown, ANSWER_LIMIT).reason, Reason::StoreNotAnswered);
        // As a body's reader tells it.
        let stalled = io::Error::other(ureq::Error::Timeout(ureq::Timeout::PerRead));
        assert!(Trouble::of_io(stalled, ANSWER_LIMIT).passes);
    }

    /// Who answers one request: `answer` has the connection.
    fn served(answer: impl FnOnce(std::net::TcpStream) + Send + 'static) -> Url {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Url::parse(&format!("http://{}/k", listener.local_addr().unwrap())).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut head = std::io::BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while std::io::BufRead::read_line(&mut head, &mut line).unwrap() > 2 {
                line.clear();
            }
            answer(stream);
        });
        address
    }

    static SENT: AtomicU64 = AtomicU64::new(0);

    fn request(address: Url, is_words: bool) -> Request<'static> {
        let (method, limit) = (Method::GET, Duration::from_secs(30));
        let (content, carries, sent, asks_first) = (None, 0, &SENT, false);
        Request { method, address, headers: &[], content, carries, sent, limit, is_words, asks_first }
    }

    /// Who answers on each connection, however often it is asked there, which connection it is.
    fn counting() -> Url {
        use std::io::{BufRead, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Url::parse(&format!("http://{}/k", listener.local_addr().unwrap())).unwrap();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                std::thread::spawn(move || {
                    let mut lines = io::BufReader::new(stream.try_clone().unwrap()).lines();
                    while let Some(Ok(line)) = lines.next() {
                        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{number}");
                        if line.is_empty() && (&stream).write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        address
    }

    /// Settings of a request's own would have each connection read all authorities, and know of no other.
    #[test]
    fn a_second_connection_resumes_the_session_of_the_first() {
        let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let ca = scratch.path().join("ca.pem");
        std::fs::write(&ca, own.cert.pem()).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
        let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let config = std::sync::Arc::new(config);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("https://{}/k", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            [(); 2].map(|()| {
                let mut connection = rustls::ServerConnection::new(config.clone()).unwrap();
                let (mut socket, _) = listener.accept().unwrap();
                let mut stream = io::BufReader::new(rustls::Stream::new(&mut connection, &mut socket));
                let mut line = String::new();
                while std::io::BufRead::read_line(&mut stream, &mut line).unwrap() > 2 {
                    line.clear();
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                std::io::Write::write_all(stream.get_mut(), answer).unwrap();
                connection.send_close_notify();
                connection.complete_io(&mut socket).unwrap();
                connection.handshake_kind()
            })
        });
        let agents = Agents::new(Some(&ca), true).unwrap();
        for _ in 0..2 {
            let request = Request { limit: ANSWER_LIMIT, ..request(Url::parse(&address).unwrap(), true) };
            let answer = send(&agents, &request).unwrap_or_else(|trouble| panic!("{trouble:?}"));
            assert_eq!(answer.words(10, ANSWER_LIMIT).unwrap(), "");
        }
        let [first, second] = server.join().unwrap();
        assert_eq!(second, Some(rustls::HandshakeKind::Resumed), "after {first:?}");
    }

    #[test]
    fn what_is_long_goes_by_connections_of_its_own() {
        let (agents, address) = (Agents::new(None, true).unwrap(), counting());
        let ask = |carries: u64| {
            let request = Request { carries, ..request(address.clone(), carries == 0) };
            let answer = send(&agents, &request).unwrap_or_else(|trouble| panic!("{trouble:?}"));
            answer.words(10, ANSWER_LIMIT).unwrap()
        };
        let long = LONG_BYTES as u64;
        assert_eq!([0, long, 0, long - 1, 2 * long].map(ask), ["0", "1", "0", "0", "1"]);
    }

    #[test]
    fn an_answer_in_words_may_take_as_long_as_its_limit_whatever_the_agents_is() {
        use std::io::Write as _;
        let address = served(|mut stream| {
            std::thread::sleep(Duration::from_millis(500));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx");
        });
        let config = ureq::Agent::config_builder().proxy(None);
        let config = config.timeout_per_read(Some(Duration::from_millis(100))).build();
        let agent = ureq::Agent::new_with_config(config);
        let agents = Agents { of_words: agent.clone(), of_content: agent };
        let answer = send(&agents, &request(address, true)).unwrap_or_else(|trouble| panic!("{trouble:?}"));
        assert_eq!(answer.words(10, ANSWER_LIMIT).unwrap(), "x");
    }

    #[test]
    fn an_object_that_comes_by_single_bytes_is_given_up() {
        use std::io::Write as _;
        let address = served(|mut stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n");
            while stream.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let answer = send(&Agents::new(None, true).unwrap(), &request(address, false)).ok().unwrap();
        let mut content = answer.content(Duration::from_millis(200));
        let trouble = loop {
            match content.read(&mut [0; 16]) {
                Ok(got) => assert!(got > 0),
                Err(trouble) => break trouble,
            }
        };
        assert!(trouble.passes && trouble.words.contains("less than 4096 bytes"), "{trouble:?}");
    }
}
