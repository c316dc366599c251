//! Answers who asks for metrics: a strict HTTP that reads one request of a connection, answers it and closes.
//!
//! `GET` and `HEAD` of `/metrics` and of `/healthz`, and nothing else; without TLS, and for whoever reaches the
//! address. Bounded: connections at once, the bytes of a request, the time for it and for all of a connection, and
//! pages that are made, of which there is one at a time. It reads no body, and does nothing but tell.

use super::page::Form;
use crate::accept;
use crate::sessions::Host;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_mover::failure::{self, Failure, Reason, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections at once at each address; the rest wait in the kernel.
const CONNECTIONS_MAX: usize = 8;
/// Bytes of a request: many times those of Prometheus.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// From accept to the end of the request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// For a page, and for the one before it.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// From accept to the end of the connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);
/// For the other side to close, once it has its answer: what it still sends would take that from it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What runs here.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built from.
    pub commit: &'static str,
}

/// Answers, until it is dropped.
pub struct Answering {
    /// Where, with the ports that the kernel chose.
    pub addresses: Vec<SocketAddr>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Answers at `address` (`host:port`; port 0: the kernel chooses) what this server counts.
///
/// # Errors
/// If the address cannot be had; `Usage` if it cannot be read.
pub fn listen(host: &Arc<Host>, address: &str, build: Build) -> Result<Answering> {
    const ANSWER: &str = "listen for metrics";
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .thread_name("metrics")
        .build()
        .map_err(|error| failure::of_io(ANSWER, &error).because(Reason::NoThreads))?;
    let listeners = {
        let _inside = runtime.enter();
        // What is advised where a port is taken is not about this one.
        let of_metrics = |why: Failure| {
            let operation = ANSWER.to_owned();
            Failure { operation, reason: Reason::Other, ..why }
        };
        accept::bind_all(&[address.to_owned()]).map_err(of_metrics)?
    };
    host.look_for_metrics();
    let teller = Teller { host: host.clone(), build, pages: Arc::new(Semaphore::new(1)) };
    let mut addresses = Vec::new();
    for listener in listeners {
        addresses.push(listener.local_addr().map_err(|error| failure::of_io(ANSWER, &error))?);
        runtime.spawn(accept_loop(listener, teller.clone()));
    }
    Ok(Answering { addresses, runtime: Some(runtime) })
}

async fn accept_loop(listener: TcpListener, teller: Teller) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // As where clients are accepted.
                tracing::warn!(%error, "accept");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let teller = teller.clone();
        tokio::spawn(async move {
            let _place = place;
            let _ = timeout(CONNECTION_TIMEOUT, teller.serve(stream)).await;
        });
    }
}

/// What is told, and how much of it at once.
#[derive(Clone)]
struct Teller {
    host: Arc<Host>,
    build: Build,
    pages: Arc<Semaphore>,
}

impl Teller {
    /// One connection.
    async fn serve(&self, mut stream: TcpStream) {
        let request = match timeout(HEAD_TIMEOUT, read_head(&mut stream)).await {
            Ok(Some(Ok(head))) => parse(&head),
            Ok(Some(Err(status))) => Err(status),
            // It is gone.
            Ok(None) => return,
            Err(_) => Err(Status::TooSlow),
        };
        let answer = match request {
            Ok(request) => self.answer(request).await,
            Err(status) => Answer::of(status),
        };
        let is_head = request.is_ok_and(|request| request.is_head);
        if stream.write_all(&answer.to_bytes(is_head)).await.is_err() || stream.shutdown().await.is_err() {
            return;
        }
        let mut rest = [0; 1024];
        let close = async { while stream.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {} };
        let _ = timeout(CLOSE_TIMEOUT, close).await;
    }

    async fn answer(&self, request: Request) -> Answer {
        if request.what == What::Health {
            let (status, body) = match self.host.metrics.is_stopping() {
                true => (Status::Unavailable, "stopping\n"),
                false => (Status::Fine, "serving\n"),
            };
            return Answer { status, media_type: PLAIN, body: body.to_owned() };
        }
        match timeout(PAGE_TIMEOUT, self.page(request.form)).await {
            Ok(Some(body)) => Answer { status: Status::Fine, media_type: request.form.media_type(), body },
            Ok(None) => Answer::of(Status::Broken),
            Err(_) => Answer::of(Status::Unavailable),
        }
    }

    /// The page; `None` if making it panicked. One that nobody waits for any more keeps the next from being begun.
    async fn page(&self, form: Form) -> Option<String> {
        let turn = self.pages.clone().acquire_owned().await.ok()?;
        let (host, build) = (self.host.clone(), self.build);
        let make = move || {
            let _turn = turn;
            host.metrics_page(form, build)
        };
        let made = tokio::task::spawn_blocking(make).await;
        made.inspect_err(|error| tracing::error!(%error, "a defect of thalweg: no page of metrics")).ok()
    }
}

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Fine,
    Bad,
    NotFound,
    Method,
    TooSlow,
    TooLarge,
    Broken,
    Unavailable,
    Version,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Fine => "200 OK",
            Status::Bad => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::Method => "405 Method Not Allowed",
            Status::TooSlow => "408 Request Timeout",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Broken => "500 Internal Server Error",
            Status::Unavailable => "503 Service Unavailable",
            Status::Version => "505 HTTP Version Not Supported",
        }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// What goes back.
struct Answer {
    status: Status,
    media_type: &'static str,
    body: String,
}

impl Answer {
    /// One that has only its status to say.
    fn of(status: Status) -> Answer {
        Answer { status, media_type: PLAIN, body: format!("{}\n", status.line()) }
    }

    fn to_bytes(&self, is_head: bool) -> Vec<u8> {
        let allow = if self.status == Status::Method { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status.line(),
            self.media_type,
            self.body.len()
        );
        if !is_head {
            text.push_str(&self.body);
        }
        text.into_bytes()
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    what: What,
    form: Form,
    is_head: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Metrics,
    Health,
}

/// Stands between a request and its body.
const END: &[u8] = b"\r\n\r\n";

/// The request as it came, without the empty line behind it. `None` if the connection ended before that.
async fn read_head(stream: &mut TcpStream) -> Option<std::result::Result<Vec<u8>, Status>> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let bytes = stream.read(&mut piece).await.ok().filter(|bytes| *bytes > 0)?;
        // The end may have come in two pieces.
        let looked = head.len().saturating_sub(END.len() - 1);
        head.extend_from_slice(&piece[..bytes]);
        let end = head[looked..].windows(END.len()).position(|window| window == END);
        if let Some(end) = end {
            head.truncate(looked + end);
            return Some(Ok(head));
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Some(Err(Status::TooLarge));
        }
    }
}

/// Reads a request of HTTP/1.0 or 1.1 (RFC 9112), without what that only tolerates.
fn parse(head: &[u8]) -> std::result::Result<Request, Status> {
    let text = std::str::from_utf8(head).map_err(|_| Status::Bad)?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(Status::Bad) };
    if !is_token(method) || !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Status::Bad);
    }
    let needs_host = match version {
        "HTTP/1.1" => true,
        "HTTP/1.0" => false,
        _ if version.starts_with("HTTP/") => return Err(Status::Version),
        _ => return Err(Status::Bad),
    };
    let (mut hosts, mut form) = (0, Form::Prometheus);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or(Status::Bad)?;
        let value = value.trim_matches([' ', '\t']);
        if !is_token(name) || value.chars().any(|c| c.is_control() && c != '\t') {
            return Err(Status::Bad);
        }
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts += 1,
            "accept" if wants_open_metrics(value) => form = Form::OpenMetrics,
            "transfer-encoding" => return Err(Status::Bad),
            "content-length" if value != "0" => return Err(Status::Bad),
            _ => {}
        }
    }
    if hosts > 1 || needs_host && hosts == 0 {
        return Err(Status::Bad);
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Status::Method),
    };
    let what = match target.split('?').next() {
        Some("/metrics") => What::Metrics,
        Some("/healthz") => What::Health,
        _ => return Err(Status::NotFound),
    };
    Ok(Request { what, form, is_head })
}

/// Whether this may be a method or the name of a field.
fn is_token(text: &str) -> bool {
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_one)
}

/// Whether what is accepted has that in it.
fn wants_open_metrics(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let is_zero = |weight: &str| weight.parse::<f32>().is_ok_and(|weight| weight == 0.0);
        let is_refused = |part: &str| part.strip_prefix("q=").is_some_and(is_zero);
        kind.eq_ignore_ascii_case("application/openmetrics-text") && !parts.any(is_refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> std::result::Result<Request, Status> {
        parse(text.replace('\n', "\r\n").as_bytes())
    }

    #[test]
    fn what_is_asked_for_is_read_and_all_else_is_refused_with_its_own_words() {
        let metrics = Request { what: What::Metrics, form: Form::Prometheus, is_head: false };
        let open = Request { form: Form::OpenMetrics, ..metrics };
        for (text, expected) in [
            ("GET /metrics HTTP/1.1\nHost: a", Ok(metrics)),
            ("GET /metrics?x=/healthz HTTP/1.0", Ok(metrics)),
            ("HEAD /healthz HTTP/1.1\nhost:a", Ok(Request { what: What::Health, is_head: true, ..metrics })),
            ("GET /metrics HTTP/1.1\nHost: a\nAccept: Application/OpenMetrics-Text;q=0.6", Ok(open)),
            ("GET /metrics HTTP/1.1\nHost: a\nAccept: application/openmetrics-text;q=0.0,*/*", Ok(metrics)),
            ("GET /metrics HTTP/1.1\nHost: a\nContent-Length: 0", Ok(metrics)),
            ("POST /metrics HTTP/1.1\nHost: a", Err(Status::Method)),
            ("get /metrics HTTP/1.1\nHost: a", Err(Status::Method)),
            ("GET / HTTP/1.1\nHost: a", Err(Status::NotFound)),
            ("GET /metrics/ HTTP/1.1\nHost: a", Err(Status::NotFound)),
            ("GET /../metrics HTTP/1.1\nHost: a", Err(Status::NotFound)),
            ("GET /%6detrics HTTP/1.1\nHost: a", Err(Status::NotFound)),
            ("GET /metrics HTTP/2.0\nHost: a", Err(Status::Version)),
            ("GET /metrics HTTP/1.1", Err(Status::Bad)),
            ("GET /metrics HTTP/1.1\nHost: a\nHost: b", Err(Status::Bad)),
            ("GET /metrics HTTP/1.1\nHost: a\nContent-Length: 1", Err(Status::Bad)),
            ("GET /metrics HTTP/1.1\nHost: a\nTransfer-Encoding: chunked", Err(Status::Bad)),
            ("GET /metrics HTTP/1.1\nHost: a\n folded", Err(Status::Bad)),
            ("GET /metrics HTTP/1.1\nHost : a", Err(Status::Bad)),
            ("GET /metrics HTTP/1.1\nHost: a\u{7}", Err(Status::Bad)),
            ("GET  /metrics HTTP/1.1\nHost: a", Err(Status::Bad)),
            ("GET http://a/metrics HTTP/1.1\nHost: a", Err(Status::Bad)),
            ("GET /metrics", Err(Status::Bad)),
            ("", Err(Status::Bad)),
        ] {
            assert_eq!(asked(text), expected, "{text}");
        }
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: a\nX: b"), Err(Status::Bad));
        assert_eq!(parse(b"GET /metrics HTTP/1.1\r\nHost: \xff"), Err(Status::Bad));
    }

    #[test]
    fn an_answer_says_how_long_it_is_and_to_head_it_says_no_more() {
        let answer = Answer::of(Status::Method);
        let text = |is_head| String::from_utf8(answer.to_bytes(is_head)).unwrap();
        let (whole, head) = (text(false), text(true));
        assert!(head.starts_with("HTTP/1.1 405 Method Not Allowed\r\n"), "{head}");
        for has in ["\r\nAllow: GET, HEAD\r\n", "\r\nConnection: close\r\n"] {
            assert!(head.contains(has) && head.ends_with("\r\n\r\n"), "{head}");
        }
        let body = whole.strip_prefix(&head).unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    }
}
