//! Peers that are who they say they are, and lie about everything else: a client and a server on the product's own
//! TLS, hellos, messages and frames, which say what they are told to say.

use super::{Scratch, wait_until};
use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_mover::link::{
    ClientTrust, Connection, Fingerprint, FrameBuffer, FrameReader, FrameWriter, Identity, Role, ServerTrust,
    Ticket, client_config, resume_proof, server_config, statement_tie, stream_proof,
};
use thalweg_wire::frame::{Encoding, FrameKind, Inner, PackItem};
use thalweg_wire::hello::{Answer, Cipher, Hello, Purpose, ServerHello, SessionId, System};
use thalweg_wire::message::{
    Direction, Heartbeat, Message, Open, Opened, Outcome, Place, Preserve, Pull, Push, PushTrial, Request,
    SourceForm, Terms, Totals, TransferMessage, TransferNumber,
};
use thalweg_wire::receipt::{self, RootHasher, Side, Signatory, Signed, Statement, TransferKind};
use thalweg_wire::{Digest, Entry, EntryId, Evidence, Kind, RelativePath, Time, limits};

/// For what takes no time.
pub const SOON: Duration = Duration::from_secs(30);
/// Chunks and segments of the transfers here.
pub const CHUNK: u64 = 64 << 10;
pub const CIPHER: Cipher = Cipher::Aes128Gcm;
pub const ONE: TransferNumber = TransferNumber(1);

/// A control connection, whichever end.
pub struct Line {
    pub connection: Connection,
    pub session: SessionId,
    pub key: [u8; 32],
}

/// What came, or why nothing did.
#[derive(Debug)]
pub enum Heard {
    Message(Message),
    /// The peer ended or cut the connection.
    Ended,
    /// Nothing in time.
    Silence,
}

impl Line {
    /// False when the peer does not take it any more.
    pub fn say(&mut self, message: &Message) -> bool {
        self.say_raw(&message.encode().expect("a message that can be encoded"))
    }

    pub fn tell(&mut self, message: TransferMessage) -> bool {
        self.say(&Message::Transfer(ONE, message))
    }

    pub fn say_raw(&mut self, bytes: &[u8]) -> bool {
        self.connection.write_all(bytes, SOON).is_ok()
    }

    /// These bytes as a message, with the right length in front.
    pub fn say_body(&mut self, body: &[u8]) -> bool {
        let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        self.say_raw(&bytes)
    }

    /// The next message that is no heartbeat and no account.
    pub fn hear(&mut self, at_most: Duration) -> Heard {
        let until = Instant::now() + at_most;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut head = [0; 4];
            let result = self.connection.read_exact(&mut head, left).and_then(|()| {
                let mut body = vec![0; u32::from_be_bytes(head) as usize];
                self.connection.read_exact(&mut body, left.max(SOON))?;
                Ok(Message::decode(&body).expect("an honest peer's message"))
            });
            match result {
                Ok(Message::Heartbeat(_) | Message::Transfer(_, TransferMessage::Accounts(_))) => {}
                Ok(message) => return Heard::Message(message),
                Err(_) if Instant::now() >= until => return Heard::Silence,
                Err(_) => return Heard::Ended,
            }
            if Instant::now() >= until {
                return Heard::Silence;
            }
        }
    }

    /// The next message for which `pick` gives something.
    pub fn hear_some<T>(
        &mut self,
        at_most: Duration,
        mut pick: impl FnMut(Message) -> Option<T>,
    ) -> Option<T> {
        let until = Instant::now() + at_most;
        loop {
            match self.hear(until.saturating_duration_since(Instant::now())) {
                Heard::Message(message) => {
                    if let Some(found) = pick(message) {
                        return Some(found);
                    }
                }
                Heard::Ended | Heard::Silence => return None,
            }
        }
    }

    /// Whether the peer ends the session within the time: says goodbye with a reason, or cuts the connection.
    pub fn is_ended(&mut self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        loop {
            match self.hear(until.saturating_duration_since(Instant::now())) {
                Heard::Message(Message::Goodbye(_)) | Heard::Ended => return true,
                Heard::Message(_) => {}
                Heard::Silence => return false,
            }
        }
    }

    /// The receiver's final word on an entry.
    pub fn outcome_of(&mut self, id: u64, at_most: Duration) -> Option<Outcome> {
        self.hear_some(at_most, |message| match message {
            Message::Transfer(_, TransferMessage::Settled(items)) => {
                items.into_iter().find(|(entry, _)| entry.0 == id).map(|(_, outcome)| outcome)
            }
            _ => None,
        })
    }
}

/// A client with a good ticket and bad intentions.
pub struct HostileClient {
    pub line: Line,
    identity: Identity,
    server: thalweg_mover::link::Fingerprint,
    address: String,
    from: Option<IpAddr>,
}

impl HostileClient {
    /// Begins a session.
    pub fn begin(ticket: &Path, address: &str) -> HostileClient {
        let ticket = Ticket::read(ticket).expect("a ticket");
        let identity = ticket.identity().expect("an identity");
        HostileClient::begin_as(identity, ticket.server, address)
    }

    pub fn begin_as(
        identity: Identity,
        server: thalweg_mover::link::Fingerprint,
        address: &str,
    ) -> HostileClient {
        HostileClient::begin_from(identity, server, address, None)
    }

    /// From an address of this machine.
    pub fn begin_from(
        identity: Identity,
        server: thalweg_mover::link::Fingerprint,
        address: &str,
        from: Option<IpAddr>,
    ) -> HostileClient {
        let mut connection = secure_from(&identity, server, address, from);
        let answer = connection.hello(&Hello::new(Purpose::Control, CIPHER), SOON).expect("a welcome");
        let key = *connection.export_session_key().expect("a key");
        let line = Line { connection, session: answer.session, key };
        HostileClient { line, identity, server, address: address.to_owned(), from }
    }

    /// One more connection, before its hello.
    pub fn dial(&self) -> Connection {
        secure_from(&self.identity, self.server, &self.address, self.from)
    }

    /// A data stream.
    pub fn stream(&self, number: u16) -> Stream {
        let mut connection = self.dial();
        let (session, key) = (self.line.session, self.line.key);
        let proof = stream_proof(&key, &connection, &session, number).expect("a proof");
        let hello = Hello { session, stream: number, proof, ..Hello::new(Purpose::Stream, CIPHER) };
        connection.hello(&hello, SOON).expect("a welcome");
        Stream::of(connection, &session, number, Role::Client)
    }

    /// Opens transfer 1, a push; the server must agree.
    pub fn open_push(&mut self, export: &str, path: &str) {
        self.open(push(export, path)).expect("the push is opened");
    }

    /// Opens any transfer: what the server says, or its reason.
    pub fn open(&mut self, open: Open) -> Result<Opened, String> {
        let number = open.transfer;
        self.line.say(&Message::Open(Box::new(open)));
        let opened = self.line.hear_some(SOON, |message| match message {
            Message::Opened(at, opened) if at == number => Some(Ok(opened)),
            Message::Goodbye(why) => Some(Err(format!("goodbye: {why:?}"))),
            _ => None,
        });
        match opened.unwrap_or_else(|| Err("cut".into()))? {
            Opened::Refused(failure) => Err(failure.to_string()),
            opened => Ok(opened),
        }
    }
}

pub fn secure(identity: &Identity, server: thalweg_mover::link::Fingerprint, address: &str) -> Connection {
    secure_from(identity, server, address, None)
}

pub fn secure_from(
    identity: &Identity,
    server: thalweg_mover::link::Fingerprint,
    address: &str,
    from: Option<IpAddr>,
) -> Connection {
    let tls = client_config(identity, &ServerTrust::Pinned(server)).expect("TLS");
    let address: SocketAddr = address.parse().expect("an address");
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).expect("a socket");
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into()).expect("an address of this machine");
    }
    socket.connect(&address.into()).expect("the server listens");
    let socket = TcpStream::from(socket);
    Connection::connect(socket.into(), tls, SOON).expect("a handshake")
}

/// A data stream, whichever end.
pub struct Stream {
    pub writer: FrameWriter,
    pub reader: FrameReader,
    buffer: FrameBuffer,
}

impl Stream {
    fn of(connection: Connection, session: &SessionId, number: u16, role: Role) -> Stream {
        let (writer, reader) = connection.into_streams(CIPHER, session, number, role).expect("a stream");
        writer.set_timeouts(Some(SOON), Some(SOON)).expect("timeouts");
        let buffer = FrameBuffer::new(4 << 20).expect("memory");
        Stream { writer, reader, buffer }
    }

    /// Sends any frame. False when the peer does not take it any more.
    pub fn send(&mut self, inner: Inner, payload: &[u8]) -> bool {
        self.buffer.payload_mut()[..payload.len()].copy_from_slice(payload);
        self.writer.send(&mut self.buffer, payload.len(), &inner).is_ok()
    }

    /// A segment with a digest that is right, of a file of this size.
    pub fn segment(&mut self, entry: u64, offset: u64, payload: &[u8], file_bytes: u64) -> bool {
        let digest = thalweg_wire::digest::of_piece(offset, payload, file_bytes);
        self.send(segment(entry, offset, payload.len(), digest), payload)
    }

    /// A pack that says to be of so many files: their content, and behind it what it says of each.
    pub fn pack(&mut self, files: u64, payload: &[u8]) -> bool {
        let inner = segment(0, 0, payload.len(), Digest::default());
        self.send(Inner { kind: FrameKind::Pack, entry: EntryId(files), ..inner }, payload)
    }

    /// A pack of one file.
    pub fn packed(&mut self, content: &[u8], item: PackItem) -> bool {
        self.pack(1, &[content, &item.encode()].concat())
    }

    /// Waits for one frame.
    pub fn receive(&mut self) -> Option<(Inner, Vec<u8>)> {
        match self.reader.receive(&mut self.buffer) {
            Ok(thalweg_mover::link::Received::Frame(inner)) => Some((inner, self.buffer.payload().to_vec())),
            _ => None,
        }
    }
}

pub fn segment(entry: u64, offset: u64, bytes: usize, digest: Digest) -> Inner {
    Inner {
        kind: FrameKind::Segment,
        encoding: Encoding::Raw,
        transfer: ONE,
        raw_bytes: bytes as u32,
        entry: EntryId(entry),
        offset,
        digest,
        is_again: false,
    }
}

pub fn terms() -> Terms {
    let preserve = Preserve { owner: false, ..Preserve::default() };
    Terms { preserve, compress: true, job_key: [7; 16], ..Terms::of(CHUNK, CHUNK as u32) }
}

pub fn place(export: &str, path: &str) -> Place {
    Place { export: Some(export.to_owned()), path: path.as_bytes().to_vec() }
}

/// Opens transfer 1 by [`terms`].
pub fn asks(request: Request) -> Open {
    Open::of(ONE, request, terms())
}

pub fn push(export: &str, path: &str) -> Open {
    asks(Request::Push(Push::to(place(export, path))))
}

pub fn pull(export: &str, path: &str) -> Open {
    asks(Request::Pull(Pull::of(vec![place(export, path)])))
}

/// A push that only measures.
pub fn push_trial(export: &str, path: &str, trial: PushTrial) -> Open {
    asks(Request::Push(Push { trial: Some(trial), ..Push::to(place(export, path)) }))
}

pub fn path(text: &str) -> RelativePath {
    RelativePath::new(text.as_bytes().to_vec()).expect("a path")
}

pub fn entry(id: u64, at: &str, kind: Kind, size: u64) -> Entry {
    let time = Time { seconds: 1_700_000_000, nanos: 5 };
    Entry {
        id: EntryId(id),
        path: path(at),
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
        evidence: Evidence { size, mtime: time, ctime: time, device: 1, inode: id.wrapping_add(1000) },
        xattrs: Vec::new(),
    }
}

pub fn file(id: u64, at: &str, size: u64) -> Entry {
    entry(id, at, Kind::File { sparse: false, marked: false }, size)
}

pub fn directory(id: u64, at: &str) -> Entry {
    Entry { mode: 0o755, ..entry(id, at, Kind::Directory, 0) }
}

pub fn symlink(id: u64, at: &str, target: &str) -> Entry {
    entry(id, at, Kind::Symlink { target: target.as_bytes().to_vec() }, 0)
}

/// The message of an offer whose path is replaced, after it was encoded, by one that the encoder would not make.
pub fn offer_of_raw_path(raw: &[u8]) -> Vec<u8> {
    with_raw_path(TransferMessage::Offer(vec![file(0, PLACEHOLDER, 5)]), raw)
}

/// Path that [`with_raw_path`] replaces.
pub const PLACEHOLDER: &str = "placeholder";

/// A message in which the one path [`PLACEHOLDER`] is replaced, after it was encoded, by one that the encoder would not
/// make.
pub fn with_raw_path(message: TransferMessage, raw: &[u8]) -> Vec<u8> {
    let encoded = Message::Transfer(ONE, message).encode().expect("a message");
    let at = encoded
        .windows(PLACEHOLDER.len())
        .position(|window| window == PLACEHOLDER.as_bytes())
        .expect("the path");
    // The length stands in front, seven bits in a byte; that of the placeholder takes one.
    let mut body = encoded[4..at - 1].to_vec();
    let mut length = raw.len();
    while length >= 0x80 {
        body.push(length as u8 | 0x80);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend_from_slice(raw);
    body.extend_from_slice(&encoded[at + PLACEHOLDER.len()..]);
    body
}

/// A server with a certificate that the client trusts, and bad intentions.
pub struct HostileServer {
    listener: TcpListener,
    identity: Identity,
    trust: ClientTrust,
    /// The certificate of the client that comes.
    client: Fingerprint,
    pub ticket: PathBuf,
    pub address: String,
}

impl HostileServer {
    pub fn new(scratch: &Scratch, name: &str) -> HostileServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let identity = Identity::generate("hostile server").expect("an identity");
        let client = Identity::generate("honest client").expect("an identity");
        let trust = ClientTrust::default();
        trust.pinned.insert(client.fingerprint());
        let ticket = scratch.path(name);
        let content = Ticket {
            addresses: vec![address.clone()],
            server: identity.fingerprint(),
            identity_pem: client.to_pem(),
        };
        content.write(&ticket).expect("a ticket");
        HostileServer { listener, identity, trust, client: client.fingerprint(), ticket, address }
    }

    pub fn place(&self, path: &str) -> String {
        format!("tw://{}/data/{path}", self.address)
    }

    /// The next TCP connection; `None` when nobody comes for so long.
    pub fn accept_raw(&self, at_most: Duration) -> Option<TcpStream> {
        self.listener.set_nonblocking(true).expect("a mode");
        let mut accepted = None;
        let _ = wait_until(at_most, || {
            accepted = self.listener.accept().ok().map(|(socket, _)| socket);
            accepted.is_some()
        });
        let socket = accepted?;
        socket.set_nonblocking(false).expect("a mode");
        Some(socket)
    }

    /// The next connection after its TLS handshake.
    pub fn accept(&self, at_most: Duration) -> Option<Connection> {
        let socket = self.accept_raw(at_most)?;
        let tls = server_config(&self.identity, &self.trust).expect("TLS");
        Connection::accept(socket.into(), tls, SOON).ok()
    }

    /// The next connection with its hello, answered as one wishes.
    pub fn welcome(&self, at_most: Duration) -> Option<(Connection, Hello)> {
        let mut connection = self.accept(at_most)?;
        let hello = connection.read_hello(SOON).ok()?;
        let session = if hello.purpose == Purpose::Control { [9; 16] } else { hello.session };
        let answer = ServerHello {
            version: limits::VERSION_MAX,
            versions: (limits::VERSION_MIN, limits::VERSION_MAX),
            answer: Answer::Accepted,
            cipher: CIPHER,
            features: 0,
            session,
            system: System::default(),
        };
        connection.answer(&answer, SOON).ok()?;
        Some((connection, hello))
    }

    /// The control connection of a session.
    pub fn session(&self) -> Option<Line> {
        let (connection, hello) = self.welcome(SOON)?;
        assert_eq!(hello.purpose, Purpose::Control);
        let key = *connection.export_session_key().ok()?;
        Some(Line { connection, session: [9; 16], key })
    }

    /// A data stream of it.
    pub fn stream(&self, at_most: Duration) -> Option<Stream> {
        let (connection, hello) = self.welcome(at_most)?;
        (hello.purpose == Purpose::Stream)
            .then(|| Stream::of(connection, &hello.session, hello.stream, Role::Server))
    }

    /// A statement over these entries, signed, as a sender or receiver makes it at the end.
    pub fn receipt(
        &self,
        side: Side,
        (line, open): (&Line, &Open),
        settled: &[(Entry, Outcome)],
        totals: Totals,
    ) -> Signed {
        let terms = &open.terms;
        let kept = |certificate| Signatory { certificate, is_ephemeral: false };
        let mut root = RootHasher::default();
        for (entry, outcome) in settled {
            root.settled(entry.id, receipt::line(entry, outcome));
        }
        let (root, entries, _) = root.finish();
        let statement = Statement {
            root,
            entries,
            totals,
            unread: 0,
            signed_at: 1_700_000_000,
            side,
            kind: TransferKind::Files,
            signer: kept(self.identity.fingerprint().0),
            peer: open.signer.unwrap_or(kept(self.client.0)),
            session: Some(statement_tie(&line.key, open.transfer)),
            place: None,
            verify: terms.verify,
            check: terms.check,
            chunk_bytes: terms.chunk_bytes,
            segment_bytes: terms.segment_bytes,
            header: None,
        };
        self.sign(statement)
    }

    /// A statement as its own.
    pub fn sign(&self, statement: Statement) -> Signed {
        sign(&self.identity, statement)
    }
}

/// A statement, signed by whoever.
pub fn sign(identity: &Identity, statement: Statement) -> Signed {
    let signature = identity.sign(&statement.signed_bytes());
    Signed { statement, certificate: identity.chain()[0].to_vec(), signature }
}

/// Hears the client's `Open` of a copy or a stream and agrees to it; `source` is what a pull would have.
pub fn agree(line: &mut Line, source: SourceForm) -> Option<Open> {
    let open = line.hear_some(SOON, |message| match message {
        Message::Open(open) => Some(*open),
        _ => None,
    })?;
    let opened = match &open.request {
        Request::FlowPush { flow, .. } => {
            Opened::FlowPush { is_ephemeral: false, window_bytes: flow.window_bytes }
        }
        Request::FlowPull { flow, .. } => {
            Opened::FlowPull { source, is_ephemeral: false, window_bytes: flow.window_bytes }
        }
        _ => match open.direction() {
            Direction::Push => Opened::Push { is_ephemeral: false },
            Direction::Pull => Opened::Pull { source, is_ephemeral: false },
        },
    };
    line.say(&Message::Opened(open.transfer, opened));
    Some(open)
}

pub fn heartbeat() -> Message {
    Message::Heartbeat(Heartbeat::default())
}

pub fn done(digest: Option<Digest>) -> Outcome {
    Outcome::Done { digest, losses: Vec::new() }
}

/// BLAKE3 of these bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest(*blake3::hash(bytes).as_bytes())
}

/// A proof for the resumption of a session.
pub fn proof_to_resume(key: &[u8; 32], connection: &Connection, session: &SessionId) -> [u8; 32] {
    resume_proof(key, connection, session).expect("a proof")
}
