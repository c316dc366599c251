//! Homes, clocks and services of tests' own.

use crate::options::{Options, Surroundings};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use thalweg_mover::mutex::lock;

/// A home directory with an environment and a clock, both of which may be changed while they are used.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    environment: Arc<Mutex<BTreeMap<String, String>>>,
    clock: Arc<Mutex<SystemTime>>,
}

impl Home {
    /// An empty one, at no machine of Amazon's.
    pub(crate) fn new() -> Home {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".aws")).unwrap();
        let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let mut home = Home { directory, environment: Arc::default(), clock: Arc::new(Mutex::new(clock)) };
        home.set("AWS_EC2_METADATA_DISABLED", "true");
        home
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        lock(&self.environment).insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn unset(&mut self, name: &str) {
        lock(&self.environment).remove(name);
    }

    /// Writes a file of `.aws`.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(".aws").join(name), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn advance(&self, by: Duration) {
        *lock(&self.clock) += by;
    }

    /// Waiting takes no time but by the clock.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let (environment, clock) = (Arc::clone(&self.environment), Arc::clone(&self.clock));
        let waiting = Arc::clone(&self.clock);
        Surroundings {
            env: Arc::new(move |name: &str| lock(&environment).get(name).cloned()),
            home: Some(self.directory.path().to_owned()),
            now: Arc::new(move || *lock(&clock)),
            pause: Arc::new(move |time| *lock(&waiting) += time),
            patience: Duration::from_secs(600),
            seed: 1,
        }
    }

    /// The chain, for these options.
    pub(crate) fn credentials(&self, options: &Options) -> super::Credentials {
        let settled = options.settle("run7", &self.surroundings()).unwrap();
        let agent = ureq::Agent::new_with_config(ureq::Agent::config_builder().proxy(None).build());
        super::Credentials::of(&settled, self.surroundings(), agent)
    }
}

/// What a service was asked.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// A service on loopback, until the program ends.
pub(crate) struct Service {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// One that answers with a status and a body.
    pub(crate) fn start(answer: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
                std::thread::spawn(move || serve(connection, &*answer, &log));
            }
        });
        Service { address, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }
}

/// Answers one request. Whoever asks goes away when he likes.
fn serve(mut connection: TcpStream, answer: &dyn Fn(&Asked) -> (u16, String), log: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut line = String::new();
    if reader.read_line(&mut line).is_err() || line.is_empty() {
        return;
    }
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).is_err() {
            return;
        }
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let asked = Asked { line, headers, body: String::from_utf8(body).unwrap() };
    lock(log).push(asked.clone());
    let (status, body) = answer(&asked);
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Told\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = connection.write_all((head + &body).as_bytes());
}
