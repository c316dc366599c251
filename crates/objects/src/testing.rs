//! A store in memory that can be told to fail.
//!
//! It speaks as much of S3 as [`crate::store`] asks for, over HTTP on this machine, to tests of this crate and others.
//! It compares checksums and heeds conditions; signatures it only keeps, for who wants to see what was asked. Nobody
//! waits: the pauses of who asks are added up, and its clock goes on by them.

use crate::answers::xml;
use crate::answers::{crc64_of, crc64_words, plain_etag};
use crate::location::Location;
use crate::options::{Options, Style, Surroundings};
use crate::store::Store;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use thalweg_mover::Result;
use thalweg_mover::mutex::lock;

/// The bucket that it has.
pub const BUCKET: &str = "bucket";
/// The region that it is in.
pub const REGION: &str = "us-east-1";
/// A secret that nobody is to see.
pub const SECRET: &str = "s3cr3t-k3y";
/// Another one.
pub const TOKEN: &str = "t0k3n-0f-s3ss10n";

/// How long a connection that says nothing is kept.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Lines that the head of a request may have.
const LINES_MAX: usize = 256;
/// Bytes of content that one request may have.
const CONTENT_BYTES_MAX: usize = 1 << 30;

/// What goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It does nothing and says this.
    Say {
        /// HTTP's number.
        status: u16,
        /// Lines of the head.
        headers: Vec<(&'static str, String)>,
        /// What follows the head.
        words: String,
    },
    /// It does nothing and closes the connection.
    HangUp,
    /// It does what was asked, and closes the connection before it says so.
    Forget,
    /// It does what was asked, and refuses with this number and code.
    Deny(u16, &'static str),
    /// It does what was asked, and names no version.
    Anonymous,
    /// It says how long its answer is, sends so many bytes of it, and closes the connection.
    Cut(usize),
    /// It does what was asked, and tells another checksum than that of what arrived.
    Misread,
}

impl Fault {
    /// A refusal with this number and code.
    pub fn refuse(status: u16, code: &str) -> Fault {
        let words = format!("<Error><Code>{code}</Code><Message>Words of the store.</Message></Error>");
        Fault::Say { status, headers: Vec::new(), words }
    }
}

/// A request that came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// What Amazon calls it: `GetObject`.
    pub operation: &'static str,
    /// The object's key; empty if it is about the bucket.
    pub key: String,
    /// Names and values behind the question mark.
    pub query: BTreeMap<String, String>,
    /// The head; names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Its length in bytes.
    pub content_bytes: usize,
    /// Number of the connection that it came by.
    pub connection: u64,
}

impl Asked {
    /// A line of the head.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// The store. It ends when it is dropped.
pub struct Fake {
    shared: Arc<Shared>,
    address: SocketAddr,
}

#[derive(Default)]
struct Shared {
    connections: AtomicU64,
    state: Mutex<State>,
    paused: Mutex<Duration>,
    over: AtomicBool,
}

struct State {
    objects: BTreeMap<String, Object>,
    uploads: BTreeMap<String, Pending>,
    faults: Vec<(&'static str, usize, Fault)>,
    asked: Vec<Asked>,
    /// What was made so far: versions and uploads are named by it.
    made: u64,
    page_keys: usize,
    empty_pages: usize,
    knows_crc64: bool,
    ignores_if_removed: bool,
    ignores_if_put: bool,
}

impl Default for State {
    fn default() -> State {
        State {
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            faults: Vec::new(),
            asked: Vec::new(),
            made: 0,
            page_keys: 1000,
            empty_pages: 0,
            knows_crc64: true,
            ignores_if_removed: false,
            ignores_if_put: false,
        }
    }
}

#[derive(Clone)]
struct Object {
    content: Vec<u8>,
    etag: String,
    /// Those that were sent to be kept.
    beside: Vec<(String, String)>,
    modified: SystemTime,
}

struct Pending {
    key: String,
    beside: Vec<(String, String)>,
    parts: BTreeMap<u16, Object>,
    begun: SystemTime,
}

/// A request with its content.
struct Request {
    asked: Asked,
    content: Vec<u8>,
}

/// An answer.
#[derive(Default)]
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    content: Vec<u8>,
    /// So much of the content is sent.
    cut: Option<usize>,
    /// Nothing is sent at all.
    silent: bool,
}

impl Fake {
    /// Begins one with an empty bucket.
    ///
    /// # Errors
    /// If this machine has no port for it.
    pub fn start() -> io::Result<Fake> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let served = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if served.over.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let served = served.clone();
                std::thread::spawn(move || serve(&served, &stream));
            }
        });
        Ok(Fake { shared, address })
    }

    /// Its bucket, with this key.
    pub fn location(&self, key: &str) -> Location {
        Location { bucket: BUCKET.to_owned(), key: key.to_owned() }
    }

    /// How it is asked.
    pub fn options(&self) -> Options {
        Options {
            endpoint: Some(format!("http://{}", self.address)),
            region: Some(REGION.to_owned()),
            style: Some(Style::Path),
            ..Options::default()
        }
    }

    /// Surroundings with keys for it, where nobody waits.
    pub fn surroundings(&self, patience: Duration) -> Surroundings {
        let (paused, clock) = (self.shared.clone(), self.shared.clone());
        Surroundings {
            env: Arc::new(|name: &str| match name {
                "AWS_ACCESS_KEY_ID" => Some("AKIDEXAMPLE".to_owned()),
                "AWS_SECRET_ACCESS_KEY" => Some(SECRET.to_owned()),
                "AWS_SESSION_TOKEN" => Some(TOKEN.to_owned()),
                "AWS_EC2_METADATA_DISABLED" => Some("true".to_owned()),
                _ => None,
            }),
            home: None,
            now: Arc::new(move || SystemTime::now() + *lock(&clock.paused)),
            pause: Arc::new(move |wait: Duration| *lock(&paused.paused) += wait),
            end_pauses: Arc::new(|| {}),
            patience,
            seed: 7,
        }
    }

    /// A store that asks it, patient for a minute that nobody waits.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn store(&self) -> Result<Store> {
        Store::open(&self.location(""), &self.options(), &self.surroundings(Duration::from_secs(60)))
    }

    /// Puts an object there; tells its version.
    pub fn put(&self, key: &str, content: &[u8]) -> String {
        let mut state = lock(&self.shared.state);
        let object = state.object(content.to_vec(), Vec::new());
        let etag = object.etag.clone();
        state.objects.insert(key.to_owned(), object);
        etag
    }

    /// The content of an object.
    pub fn content(&self, key: &str) -> Option<Vec<u8>> {
        lock(&self.shared.state).objects.get(key).map(|object| object.content.clone())
    }

    /// Keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        lock(&self.shared.state).objects.keys().cloned().collect()
    }

    /// Has the next `times` requests for `operation` fail like this, once faults before it are used up.
    pub fn fail(&self, operation: &'static str, times: usize, fault: Fault) {
        lock(&self.shared.state).faults.push((operation, times, fault));
    }

    /// Nothing of that fails any more.
    pub fn heal(&self) {
        lock(&self.shared.state).faults.clear();
    }

    /// Makes it a store that knows no CRC64, and passes over what asks for it.
    pub fn forget_crc64(&self) {
        lock(&self.shared.state).knows_crc64 = false;
    }

    /// Makes it a store that removes an object whatever the condition.
    pub fn ignore_conditions_of_removals(&self) {
        lock(&self.shared.state).ignores_if_removed = true;
    }

    /// Makes it a store that puts an object whatever the condition.
    pub fn ignore_conditions_of_puts(&self) {
        lock(&self.shared.state).ignores_if_put = true;
    }

    /// Makes its lists shorter.
    pub fn set_page_keys(&self, keys: usize) {
        lock(&self.shared.state).page_keys = keys;
    }

    /// Has the next `pages` pages of objects come empty, and go on.
    pub fn empty_pages(&self, pages: usize) {
        lock(&self.shared.state).empty_pages = pages;
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.state).asked.clone()
    }

    /// The same of one operation.
    pub fn asked_to(&self, operation: &str) -> Vec<Asked> {
        let mut asked = self.asked();
        asked.retain(|asked| asked.operation == operation);
        asked
    }

    /// How long those who ask waited.
    pub fn paused(&self) -> Duration {
        *lock(&self.shared.paused)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Whoever waits for a connection gets one, and sees it.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers requests of one connection for as long as it lasts.
fn serve(shared: &Shared, stream: &TcpStream) {
    let _ = stream.set_read_timeout(Some(SILENCE_MAX));
    let _ = stream.set_nodelay(true);
    let connection = shared.connections.fetch_add(1, Ordering::Relaxed);
    let mut reader = BufReader::new(stream);
    while let Ok(Some(mut request)) = receive(&mut reader, stream) {
        request.asked.connection = connection;
        let has_content = request.asked.operation != "HeadObject" && request.asked.operation != "HeadBucket";
        let now = SystemTime::now() + *lock(&shared.paused);
        let reply = lock(&shared.state).answer(&request, now);
        if reply.silent || answer(stream, &reply, has_content, now).is_err() || reply.cut.is_some() {
            return;
        }
    }
}

fn answer(mut stream: &TcpStream, reply: &Reply, has_content: bool, now: SystemTime) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Words\r\n", reply.status);
    for (name, value) in &reply.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let says = |name: &str| reply.headers.iter().any(|(said, _)| said == name);
    if !says("date") {
        let _ = write!(head, "date: {}\r\n", http_time(now));
    }
    if !says("content-length") && !says("transfer-encoding") && reply.status != 204 {
        let _ = write!(head, "content-length: {}\r\n", reply.content.len());
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    if has_content {
        let sent = reply.cut.unwrap_or(usize::MAX).min(reply.content.len());
        stream.write_all(&reply.content[..sent])?;
    }
    stream.flush()
}

/// The next request; `None` at the end of the connection.
fn receive(reader: &mut BufReader<&TcpStream>, mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let bad = || io::Error::from(io::ErrorKind::InvalidData);
    let mut words = line.split(' ');
    let method = words.next().ok_or_else(bad)?.to_owned();
    let address = words.next().ok_or_else(bad)?.to_owned();
    let mut headers = BTreeMap::new();
    for _ in 0..LINES_MAX {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    if headers.contains_key("expect") {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let length = headers.get("content-length").and_then(|words| words.parse().ok()).unwrap_or(0_usize);
    let mut content = vec![0; length.min(CONTENT_BYTES_MAX)];
    reader.read_exact(&mut content)?;
    let (path, query) = address.split_once('?').unwrap_or((address.as_str(), ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (unescape(name), unescape(value))
    });
    let query = pairs.collect::<BTreeMap<_, _>>();
    let below = path.strip_prefix('/').and_then(|path| path.strip_prefix(BUCKET)).unwrap_or_default();
    let key = unescape(below.strip_prefix('/').unwrap_or_default());
    let operation = operation(&method, &key, &query);
    let content_bytes = content.len();
    Ok(Some(Request {
        asked: Asked { operation, key, query, headers, content_bytes, connection: 0 },
        content,
    }))
}

fn operation(method: &str, key: &str, query: &BTreeMap<String, String>) -> &'static str {
    let asks = |name: &str| query.contains_key(name);
    match (method, key.is_empty()) {
        ("GET", true) if asks("uploads") => "ListMultipartUploads",
        ("GET", true) => "ListObjectsV2",
        ("HEAD", true) => "HeadBucket",
        ("POST", true) if asks("delete") => "DeleteObjects",
        ("GET", false) if asks("uploadId") => "ListParts",
        ("GET", false) => "GetObject",
        ("HEAD", false) => "HeadObject",
        ("PUT", false) if asks("partNumber") => "UploadPart",
        ("PUT", false) => "PutObject",
        ("POST", false) if asks("uploads") => "CreateMultipartUpload",
        ("POST", false) if asks("uploadId") => "CompleteMultipartUpload",
        ("DELETE", false) if asks("uploadId") => "AbortMultipartUpload",
        ("DELETE", false) => "DeleteObject",
        _ => "Unknown",
    }
}

impl Reply {
    fn new(status: u16, content: impl Into<Vec<u8>>) -> Reply {
        Reply { status, content: content.into(), ..Reply::default() }
    }

    fn refusal(status: u16, code: &str) -> Reply {
        Reply::new(
            status,
            format!("<Error><Code>{code}</Code><Message>Words of the store.</Message></Error>"),
        )
    }

    fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }
}

impl State {
    fn object(&mut self, content: Vec<u8>, beside: Vec<(String, String)>) -> Object {
        self.made += 1;
        Object { content, etag: format!("version-{}", self.made), beside, modified: SystemTime::now() }
    }

    fn answer(&mut self, request: &Request, now: SystemTime) -> Reply {
        self.asked.push(request.asked.clone());
        let operation = request.asked.operation;
        let place = self.faults.iter().position(|(of, times, _)| *of == operation && *times > 0);
        let fault = place.map(|place| {
            self.faults[place].1 -= 1;
            self.faults[place].2.clone()
        });
        match fault {
            None => self.carry_out(request, now),
            Some(Fault::Say { status, headers, words }) => {
                let reply = Reply::new(status, words);
                headers.into_iter().fold(reply, |reply, (name, value)| reply.with(name, value))
            }
            Some(Fault::HangUp) => Reply { silent: true, ..Reply::default() },
            Some(Fault::Forget) => Reply { silent: true, ..self.carry_out(request, now) },
            Some(Fault::Deny(status, code)) => {
                self.carry_out(request, now);
                Reply::refusal(status, code)
            }
            Some(Fault::Anonymous) => {
                let mut reply = self.carry_out(request, now);
                reply.headers.retain(|(name, _)| name != "etag");
                reply
            }
            Some(Fault::Cut(bytes)) => Reply { cut: Some(bytes), ..self.carry_out(request, now) },
            Some(Fault::Misread) => {
                let mut reply = self.carry_out(request, now);
                reply.headers.retain(|(name, _)| name != "x-amz-checksum-crc64nvme");
                reply.with("x-amz-checksum-crc64nvme", crc64_words(!crc64(&request.content)))
            }
        }
    }

    fn carry_out(&mut self, request: &Request, now: SystemTime) -> Reply {
        let asked = &request.asked;
        let key = asked.key.as_str();
        match asked.operation {
            "HeadBucket" => Reply::new(200, ""),
            "ListObjectsV2" => self.list(asked),
            "ListMultipartUploads" => self.list_uploads(asked),
            "ListParts" => self.list_parts(asked),
            "HeadObject" | "GetObject" => self.get(asked),
            "PutObject" => {
                match self.compare(request).or_else(|| self.refuses(asked).filter(|_| !self.ignores_if_put)) {
                    Some(refusal) => refusal,
                    None => {
                        let object = self.object(request.content.clone(), beside(asked));
                        let reply = self.arrived(&object);
                        self.objects.insert(key.to_owned(), object);
                        reply
                    }
                }
            }
            "CreateMultipartUpload" => {
                self.made += 1;
                let id = format!("upload-{}", self.made);
                let pending = Pending {
                    key: key.to_owned(),
                    beside: beside(asked),
                    parts: BTreeMap::new(),
                    begun: now,
                };
                self.uploads.insert(id.clone(), pending);
                let words = format!("<UploadId>{id}</UploadId>");
                Reply::new(
                    200,
                    format!("<InitiateMultipartUploadResult>{words}</InitiateMultipartUploadResult>"),
                )
            }
            "UploadPart" => {
                if let Some(refusal) = self.compare(request) {
                    return refusal;
                }
                let part = self.object(request.content.clone(), Vec::new());
                let reply = self.arrived(&part);
                let id = asked.query.get("uploadId").cloned().unwrap_or_default();
                let number = asked.query.get("partNumber").and_then(|words| words.parse().ok()).unwrap_or(0);
                match self.uploads.get_mut(&id) {
                    Some(pending) => {
                        pending.parts.insert(number, part);
                        reply
                    }
                    None => Reply::refusal(404, "NoSuchUpload"),
                }
            }
            "CompleteMultipartUpload" => self.complete(request),
            "AbortMultipartUpload" => match self.uploads.remove(&asked.query["uploadId"]) {
                Some(_) => Reply::new(204, ""),
                None => Reply::refusal(404, "NoSuchUpload"),
            },
            "DeleteObject" => match self.refuses(asked).filter(|_| !self.ignores_if_removed) {
                Some(refusal) => refusal,
                None => {
                    self.objects.remove(key);
                    Reply::new(204, "")
                }
            },
            "DeleteObjects" => {
                let words = String::from_utf8_lossy(&request.content).into_owned();
                if let Ok(root) = xml::parse(&words) {
                    for object in root.all("Object") {
                        self.objects.remove(object.words_of("Key").unwrap_or_default());
                    }
                }
                Reply::new(200, "<DeleteResult/>")
            }
            _ => Reply::refusal(501, "NotImplemented"),
        }
    }

    /// What is wrong with content that came with a checksum.
    fn compare(&self, request: &Request) -> Option<Reply> {
        let asked = &request.asked;
        let told = asked.header("x-amz-checksum-crc64nvme").filter(|_| self.knows_crc64).and_then(crc64_of);
        let crc_differs = told.is_some_and(|told| told != crc64(&request.content));
        let md5_differs = asked.header("content-md5").is_some_and(|told| told != md5(&request.content));
        (crc_differs || md5_differs).then(|| Reply::refusal(400, "BadDigest"))
    }

    /// Whether a condition refuses what is to be written.
    fn refuses(&self, asked: &Asked) -> Option<Reply> {
        let there = self.objects.get(&asked.key);
        let refuses = match (asked.header("if-none-match"), asked.header("if-match")) {
            (Some(_), _) => there.is_some(),
            (None, Some(etag)) => there.is_none_or(|object| object.etag != plain_etag(etag)),
            (None, None) => false,
        };
        refuses.then(|| Reply::refusal(412, "PreconditionFailed"))
    }

    fn arrived(&self, object: &Object) -> Reply {
        let reply = Reply::new(200, "").with("etag", format!("\"{}\"", object.etag));
        if !self.knows_crc64 {
            return reply;
        }
        reply.with("x-amz-checksum-crc64nvme", crc64_words(crc64(&object.content)))
    }

    fn get(&self, asked: &Asked) -> Reply {
        let Some(object) = self.objects.get(&asked.key) else { return Reply::refusal(404, "NoSuchKey") };
        if asked.header("if-match").is_some_and(|etag| plain_etag(etag) != object.etag) {
            return Reply::refusal(412, "PreconditionFailed");
        }
        let size = object.content.len();
        let range = asked.header("range").and_then(|words| words.strip_prefix("bytes=")?.split_once('-'));
        let mut reply = match range {
            None => Reply::new(200, object.content.clone()),
            Some((first, last)) => {
                let first = first.parse().unwrap_or(0_usize);
                let end = last.parse().map_or(size, |last: usize| size.min(last.saturating_add(1)));
                if first >= end {
                    return Reply::refusal(416, "InvalidRange");
                }
                Reply::new(206, &object.content[first..end])
                    .with("content-range", format!("bytes {first}-{}/{size}", end - 1))
            }
        };
        if asked.header("x-amz-checksum-mode").is_some() && self.knows_crc64 {
            reply = reply.with("x-amz-checksum-crc64nvme", crc64_words(crc64(&object.content)));
        }
        reply.headers.extend(object.beside.iter().cloned());
        reply.with("etag", format!("\"{}\"", object.etag)).with("last-modified", http_time(object.modified))
    }

    fn list(&mut self, asked: &Asked) -> Reply {
        let of = |name: &str| asked.query.get(name).map_or("", String::as_str);
        let (prefix, after, delimiter) = (of("prefix"), of("continuation-token"), of("delimiter"));
        if self.empty_pages > 0 {
            // Each goes on elsewhere, and all of them before the first key.
            let token = "!".repeat(self.empty_pages);
            self.empty_pages -= 1;
            return listed("", Some(&token));
        }
        let mut words = String::new();
        let (mut count, mut last, mut more) = (0, String::new(), false);
        for (key, object) in self.objects.iter().filter(|(key, _)| key.starts_with(prefix)) {
            let cut = key[prefix.len()..].find('/').filter(|_| !delimiter.is_empty());
            let name = cut.map_or(key.as_str(), |cut| &key[..=prefix.len() + cut]);
            if name <= after || name == last {
                continue;
            }
            if count == self.page_keys {
                more = true;
                break;
            }
            count += 1;
            last = name.to_owned();
            let name = escape(name);
            let _ = match cut {
                Some(_) => write!(words, "<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
                None => write!(
                    words,
                    "<Contents><Key>{name}</Key><LastModified>{}</LastModified><ETag>&quot;{}&quot;</ETag><Size>{}\
                     </Size><StorageClass>STANDARD</StorageClass></Contents>",
                    iso_time(object.modified),
                    object.etag,
                    object.content.len()
                ),
            };
        }
        listed(&words, more.then_some(last.as_str()))
    }

    fn list_uploads(&self, asked: &Asked) -> Reply {
        let of = |name: &str| asked.query.get(name).map_or("", String::as_str);
        let (prefix, after) = (of("prefix"), (of("key-marker"), of("upload-id-marker")));
        let mut all: Vec<_> =
            self.uploads.iter().map(|(id, pending)| (&*pending.key, &**id, pending)).collect();
        all.retain(|(key, id, _)| key.starts_with(prefix) && (*key, *id) > after);
        all.sort_unstable_by_key(|(key, id, _)| (*key, *id));
        let more = all.len() > self.page_keys;
        all.truncate(self.page_keys);
        let mut words = String::new();
        if let Some((key, id, _)) = all.last().filter(|_| more) {
            let key = escape(key);
            let _ = write!(
                words,
                "<NextKeyMarker>{key}</NextKeyMarker><NextUploadIdMarker>{id}</NextUploadIdMarker>"
            );
        }
        for (_, id, pending) in all {
            let (key, begun) = (escape(&pending.key), iso_time(pending.begun));
            let _ = write!(
                words,
                "<Upload><Key>{key}</Key><UploadId>{id}</UploadId><Initiated>{begun}</Initiated></Upload>"
            );
        }
        Reply::new(
            200,
            format!(
                "<ListMultipartUploadsResult><EncodingType>url</EncodingType><IsTruncated>{more}</IsTruncated>\
                 {words}</ListMultipartUploadsResult>"
            ),
        )
    }

    fn list_parts(&self, asked: &Asked) -> Reply {
        let Some(pending) = self.uploads.get(&asked.query["uploadId"]) else {
            return Reply::refusal(404, "NoSuchUpload");
        };
        let after =
            asked.query.get("part-number-marker").and_then(|words| words.parse().ok()).unwrap_or(0_u16);
        let behind = || pending.parts.range(after.saturating_add(1)..);
        let mut words = String::new();
        let mut marker = 0;
        for (number, part) in behind().take(self.page_keys) {
            marker = *number;
            let (etag, size) = (&part.etag, part.content.len());
            let crc = if self.knows_crc64 {
                let crc = crc64_words(crc64(&part.content));
                format!("<ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME>")
            } else {
                String::new()
            };
            let _ = write!(
                words,
                "<Part><PartNumber>{number}</PartNumber><ETag>\"{etag}\"</ETag><Size>{size}</Size>{crc}</Part>"
            );
        }
        let more = behind().count() > self.page_keys;
        Reply::new(
            200,
            format!(
                "<ListPartsResult><IsTruncated>{more}</IsTruncated><NextPartNumberMarker>{marker}\
                 </NextPartNumberMarker>{words}</ListPartsResult>"
            ),
        )
    }

    fn complete(&mut self, request: &Request) -> Reply {
        let asked = &request.asked;
        let id = &asked.query["uploadId"];
        let Some(pending) = self.uploads.get(id) else { return Reply::refusal(404, "NoSuchUpload") };
        if let Some(refusal) = self.refuses(asked) {
            return refusal;
        }
        let words = String::from_utf8_lossy(&request.content);
        let Ok(root) = xml::parse(&words) else { return Reply::refusal(400, "MalformedXML") };
        let mut content = Vec::new();
        for part in root.all("Part") {
            let number =
                part.number_of("PartNumber").and_then(|number| u16::try_from(number).ok()).unwrap_or(0);
            match pending.parts.get(&number) {
                Some(held) if part.words_of("ETag").map(plain_etag).as_ref() == Some(&held.etag) => {
                    content.extend_from_slice(&held.content);
                }
                _ => return Reply::refusal(400, "InvalidPart"),
            }
        }
        let told = asked.header("x-amz-checksum-crc64nvme").and_then(crc64_of);
        if told.is_some_and(|told| told != crc64(&content)) {
            return Reply::refusal(400, "BadDigest");
        }
        let (key, beside) = (pending.key.clone(), pending.beside.clone());
        let object = self.object(content, beside);
        let etag = &object.etag;
        let reply = Reply::new(
            200,
            format!("<CompleteMultipartUploadResult><ETag>\"{etag}\"</ETag></CompleteMultipartUploadResult>"),
        );
        self.objects.insert(key, object);
        self.uploads.remove(id);
        reply
    }
}

/// A page of objects, which goes on behind `last`.
fn listed(words: &str, last: Option<&str>) -> Reply {
    let (more, token) = (last.is_some(), xml::escape(last.unwrap_or_default()));
    Reply::new(
        200,
        format!(
            "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <EncodingType>url</EncodingType><IsTruncated>{more}</IsTruncated><NextContinuationToken>{token}\
             </NextContinuationToken>{words}</ListBucketResult>"
        ),
    )
}

/// What a request gives to be kept beside an object.
fn beside(asked: &Asked) -> Vec<(String, String)> {
    let kept = asked.headers.iter().filter(|(name, _)| name.starts_with("x-amz-meta-"));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn crc64(content: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, content)
}

fn md5(content: &[u8]) -> String {
    use base64::Engine as _;
    use md5::Digest as _;
    base64::engine::general_purpose::STANDARD.encode(md5::Md5::digest(content))
}

/// As addresses have it.
fn escape(words: &str) -> String {
    let mut escaped = String::new();
    for byte in words.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => escaped.push(byte.into()),
            b' ' => escaped.push('+'),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
    }
    escaped
}

fn unescape(words: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = words.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(thalweg_wire::hex::unhex).and_then(|bytes| bytes.first().copied());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn iso_time(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time).map(|time| time.to_string()).unwrap_or_default()
}

fn http_time(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default()
}
