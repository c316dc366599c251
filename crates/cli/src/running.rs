//! Copies, streams and watches of this user that run now, and how to speak to them: a socket each,
//! `running/MACHINE-PID` in the state directory, which machines may share: of those of another one nothing is
//! known here. That of a daemon is `running/serve-MACHINE-PID`: it is spoken to by its number alone, for who
//! means all of their copies does not mean it.
//!
//! A request and its answer are one line of JSON. Only the same user is heard, and root. What a copy that was killed
//! left behind refuses connections, and is removed by whoever finds it.

use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::run::steer::Rate;
use thalweg_service::published;

/// Longest line.
const LINE_BYTES_MAX: u64 = 4096;
/// For an answer, or a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// The socket of this process. It goes with the value.
pub struct Running {
    path: PathBuf,
}

impl Running {
    /// Listens for requests about the copies of this process.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn begin(state: &Path, rate: Arc<Rate>) -> Result<Running> {
        Running::begin_as(state, name_of(std::process::id()), rate)
    }

    fn begin_as(state: &Path, name: String, rate: Arc<Rate>) -> Result<Running> {
        let of_io = |error: io::Error| failure::of_io("listen for `thalweg limit`", &error);
        let directory = directory(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(of_io)?;
        let path = directory.join(&name);
        // Left by a process that was killed and had our number.
        let _ = std::fs::remove_file(&path);
        let held = File::open(&directory).map_err(of_io)?;
        let listener = UnixListener::bind(short(&held, &name)).map_err(of_io)?;
        let answer_all = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => drop(answer(&stream, &rate)),
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        };
        std::thread::Builder::new().name("requests".into()).spawn(answer_all).map_err(of_io)?;
        Ok(Running { path })
    }
}

/// The same, for a command that goes on without where no socket can be had.
pub fn listen(state: &Path, rate: &Arc<Rate>) -> Option<Running> {
    Running::begin(state, rate.clone())
        .inspect_err(|failure| tracing::info!(%failure, "this process cannot be asked"))
        .ok()
}

/// The same, for a daemon. What earlier ones with its state directory left on this machine goes: they have
/// ended.
pub fn listen_as_daemon(state: &Path, rate: &Arc<Rate>) -> Option<Running> {
    let of_daemons = daemon_name("");
    for entry in std::fs::read_dir(directory(state)).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&of_daemons)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Running::begin_as(state, daemon_name(&std::process::id().to_string()), rate.clone())
        .inspect_err(|failure| tracing::info!(%failure, "this daemon cannot be asked"))
        .ok()
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Process numbers of the copies that run on this machine.
///
/// # Errors
/// If the directory cannot be read.
pub fn all(state: &Path) -> Result<Vec<u32>> {
    let entries = match std::fs::read_dir(directory(state)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failure::of_io("look for copies", &error)),
    };
    let mut all: Vec<u32> =
        entries.flatten().filter_map(|entry| pid_of(entry.file_name().to_str()?)).collect();
    all.sort_unstable();
    Ok(all)
}

/// What fails where a copy that runs does not say how far it is.
const ASK: &str = "ask the copy";

/// Asks one of them, or a daemon. `None` if it is not there any more.
///
/// # Errors
/// What it answered, or why it did not.
pub fn ask(state: &Path, pid: u32, request: &Value) -> Result<Option<Value>> {
    match ask_at(state, pid, &name_of(pid), request)? {
        None => ask_at(state, pid, &daemon_name(&pid.to_string()), request),
        answer => Ok(answer),
    }
}

/// The same, of the one whose socket has this name.
fn ask_at(state: &Path, pid: u32, name: &str, request: &Value) -> Result<Option<Value>> {
    let failed = |kind: FailureKind, why: &str| Failure::new(kind, ASK, format!("process {pid}: {why}"));
    let of_io = |error: io::Error| {
        let failure = failure::of_io(ASK, &error);
        failed(failure.kind, &failure.cause).because(failure.reason)
    };
    let Ok(directory) = File::open(directory(state)) else { return Ok(None) };
    let mut stream = match UnixStream::connect(short(&directory, name)) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(self::directory(state).join(name));
            return Ok(None);
        }
        Err(error) => return Err(of_io(error)),
    };
    stream.set_read_timeout(Some(PATIENCE)).map_err(of_io)?;
    let answered = stream.write_all(format!("{request}\n").as_bytes()).and_then(|()| line(&stream));
    let text = match answered {
        Ok(text) => text,
        // It was killed at this moment.
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => {
            return Ok(None);
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            return Err(failed(FailureKind::Busy, "it does not answer").because(Reason::CopySilent));
        }
        Err(error) => return Err(of_io(error)),
    };
    let answer: Value =
        serde_json::from_str(&text).map_err(|error| failed(FailureKind::Protocol, &error.to_string()))?;
    match answer["error"].as_str() {
        Some(why) => Err(failed(FailureKind::Unsupported, why)),
        None => Ok(Some(answer)),
    }
}

fn answer(stream: &UnixStream, rate: &Rate) -> io::Result<()> {
    let peer = thalweg_sys::socket::peer_uid(stream)?;
    if peer != thalweg_sys::user::effective_uid() && peer != 0 {
        return Ok(());
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request: Value = serde_json::from_str(&line(stream)?).unwrap_or_default();
    let answer = match &request["limit_bits_per_s"] {
        Value::Null if request.get("limit_bits_per_s").is_some() => Some(None),
        value => value.as_u64().map(Some),
    }
    .map_or_else(
        || json!({"error": "this thalweg does not know the request"}),
        |limit| {
            let was = rate.bytes_per_s();
            rate.set_bits(limit);
            json!({"was_bits_per_s": was.map(|rate| rate.saturating_mul(8))})
        },
    );
    let mut stream = stream;
    stream.write_all(format!("{answer}\n").as_bytes())
}

fn line(stream: &UnixStream) -> io::Result<String> {
    let mut text = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut text)?;
    Ok(text)
}

fn name_of(pid: u32) -> String {
    format!("{}-{pid}", published::machine())
}

/// No machine is called so: [`pid_of`] passes over it.
fn daemon_name(pid: &str) -> String {
    format!("serve-{}-{pid}", published::machine())
}

/// `None` for the name of another machine's copy, or of an earlier version's.
fn pid_of(name: &str) -> Option<u32> {
    let (machine, pid) = name.split_once('-')?;
    if machine == published::machine() { pid.parse().ok() } else { None }
}

fn directory(state: &Path) -> PathBuf {
    state.join("running")
}

/// A socket's path has at most 107 bytes; that of a state directory may be longer.
fn short(directory: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_hears_its_user_and_is_forgotten_when_it_is_gone() {
        let state = tempfile::tempdir().unwrap();
        let deep = state.path().join("d".repeat(120));
        std::fs::create_dir(&deep).unwrap();
        assert_eq!(all(&deep).unwrap(), [] as [u32; 0]);
        let rate = Arc::new(Rate::new(Some(1000)));
        let running = Running::begin(&deep, rate.clone()).unwrap();
        let pid = std::process::id();
        assert_eq!(all(&deep).unwrap(), [pid]);
        let answer = ask(&deep, pid, &json!({"limit_bits_per_s": 80_000})).unwrap().unwrap();
        assert_eq!((answer["was_bits_per_s"].as_u64(), rate.bytes_per_s()), (Some(8000), Some(10_000)));
        ask(&deep, pid, &json!({"limit_bits_per_s": null})).unwrap().unwrap();
        assert_eq!(rate.bytes_per_s(), None);
        assert!(ask(&deep, pid, &json!({"dance": 1})).is_err());
        drop(running);
        assert_eq!(ask(&deep, pid, &json!({})).unwrap(), None);
        // What a killed one left.
        let bind = |name: &str| {
            let directory = File::open(directory(&deep)).unwrap();
            UnixListener::bind(short(&directory, name)).unwrap()
        };
        drop(bind(&name_of(77)));
        assert_eq!((all(&deep).unwrap(), ask(&deep, 77, &json!({})).unwrap()), (vec![77], None));
        assert_eq!(all(&deep).unwrap(), [] as [u32; 0]);
        // One of another machine refuses here while it runs there.
        drop(bind("elsewhere-77"));
        assert_eq!((all(&deep).unwrap(), ask(&deep, 77, &json!({})).unwrap()), (vec![], None));
        assert!(directory(&deep).join("elsewhere-77").exists());
        // A daemon is asked by its number, and is none of the copies. What one that was killed left goes with
        // the next.
        drop(bind(&daemon_name("79")));
        let rate = Arc::new(Rate::new(None));
        let daemon = listen_as_daemon(&deep, &rate).unwrap();
        assert!(!directory(&deep).join(daemon_name("79")).exists());
        assert_eq!(all(&deep).unwrap(), [] as [u32; 0]);
        ask(&deep, pid, &json!({"limit_bits_per_s": 80_000})).unwrap().unwrap();
        assert_eq!(rate.bytes_per_s(), Some(10_000));
        drop(daemon);
        assert_eq!(ask(&deep, pid, &json!({})).unwrap(), None);
        // It listens no more before it took who had come: their connections are reset.
        let listener = bind(&name_of(78));
        let dying = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(listener);
        });
        assert_eq!(ask(&deep, 78, &json!({})).unwrap(), None);
        dying.join().unwrap();
    }
}
