//! A service over HTTP in this process, for tests of several crates: it answers each question as its test says.
//!
//! A connection has one question and a thread of its own, so that an answer may wait for what another one does.
//!
//! Not here: a store that is told to fail (`testing` of the crate objects).

use crate::mutex::lock;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a connection that says nothing is kept.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Lines that the head of a question may have.
const LINES_MAX: usize = 256;
/// Bytes of content that one question may have.
const CONTENT_BYTES_MAX: usize = 16 << 20;

/// What was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and path: `GET /keys`.
    pub line: String,
    /// The head; names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What follows the head.
    pub body: String,
    /// Where the service is that was asked, without a slash at the end: `http://127.0.0.1:4711`.
    pub here: String,
}

impl Asked {
    /// The path, with what stands behind a question mark.
    pub fn path(&self) -> &str {
        self.line.split_once(' ').map_or("", |(_, path)| path)
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This is said.
    Says {
        /// HTTP's number.
        status: u16,
        /// Lines of the head, besides the content's length.
        headers: Vec<(&'static str, String)>,
        /// What follows the head.
        body: Vec<u8>,
    },
    /// The connection is closed without a word.
    HangsUp,
}

impl Answer {
    /// A status and what follows the head.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Answer {
        Answer::Says { status, headers: Vec::new(), body: body.into() }
    }

    /// The same with one more line of the head.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Answer {
        if let Answer::Says { headers, .. } = &mut self {
            headers.push((name, value));
        }
        self
    }
}

impl From<(u16, String)> for Answer {
    fn from((status, body): (u16, String)) -> Answer {
        Answer::new(status, body)
    }
}

/// The service, on the loopback. It lasts as long as the process.
pub struct Service {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// Begins one. `answer` is called in several threads at once if several ask at once.
    ///
    /// # Panics
    /// If this machine has no port for it: then a test has no verdict.
    pub fn start<A: Into<Answer>>(answer: impl Fn(&Asked) -> A + Send + Sync + 'static) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
        let address = listener.local_addr().expect("the number of a port");
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                std::thread::spawn(move || {
                    // Whoever asks goes away when he likes.
                    let _ = serve(&connection, address, &log, |asked| (*answer)(asked).into());
                });
            }
        });
        Service { address, asked }
    }

    /// Where a path of it is; of an empty one, the service itself.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked so far, in the order in which it came.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }
}

/// One question of a connection.
fn serve(
    connection: &TcpStream,
    address: SocketAddr,
    log: &Mutex<Vec<Asked>>,
    answer: impl Fn(&Asked) -> Answer,
) -> io::Result<()> {
    connection.set_read_timeout(Some(SILENCE_MAX))?;
    let asked = receive(&mut BufReader::new(connection), address)?;
    lock(log).push(asked.clone());
    match answer(&asked) {
        Answer::Says { status, headers, body } => say(connection, status, &headers, &body),
        Answer::HangsUp => Ok(()),
    }
}

fn receive(reader: &mut BufReader<&TcpStream>, address: SocketAddr) -> io::Result<Asked> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = BTreeMap::new();
    for _ in 0..LINES_MAX {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0_usize);
    let mut body = vec![0; length.min(CONTENT_BYTES_MAX)];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Asked { line, headers, body, here: format!("http://{address}") })
}

fn say(
    mut connection: &TcpStream,
    status: u16,
    headers: &[(&'static str, String)],
    body: &[u8],
) -> io::Result<()> {
    let mut head =
        format!("HTTP/1.1 {status} Told\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    connection.write_all(&[head.as_bytes(), body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that comes for a question.
    fn ask(service: &Service, question: &str) -> String {
        let mut connection = TcpStream::connect(service.address).unwrap();
        connection.set_read_timeout(Some(SILENCE_MAX)).unwrap();
        connection.write_all(question.as_bytes()).unwrap();
        let mut told = String::new();
        connection.read_to_string(&mut told).unwrap();
        told
    }

    #[test]
    fn each_question_is_heard_whole_and_answered_as_the_test_says() {
        let service = Service::start(|asked| match asked.path() {
            "/token?a=b" => Answer::new(302, "body").with("location", format!("{}/there", asked.here)),
            _ => Answer::HangsUp,
        });
        let told = ask(&service, "POST /token?a=b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nform");
        let location = format!("\r\nlocation: {}\r\n", service.url("/there"));
        assert!(told.starts_with("HTTP/1.1 302 ") && told.ends_with("\r\n\r\nbody"), "{told}");
        assert!(told.contains("\r\ncontent-length: 4\r\n") && told.contains(&location), "{told}");
        assert_eq!(ask(&service, "GET /keys HTTP/1.1\r\n\r\n"), "");
        let asked = service.asked();
        assert_eq!((asked[0].line.as_str(), asked[0].body.as_str()), ("POST /token?a=b", "form"));
        assert_eq!(asked[0].headers["host"], "x");
        assert_eq!((asked[1].line.as_str(), asked.len()), ("GET /keys", 2));
    }
}
