//! `thalweg deputy`: the acting end of a copy between two far places.
//!
//! 1. Say that we are here, and read the errand with the files that go along. They are kept in memory alone.
//! 2. Start the copy: this program again, with the words of the errand. Its stdin is one end of a pair of sockets, by
//!    which it asks, through us, for what takes a login at the other end.
//! 3. Hand on what it says, the answers to what it asks, and the rate that it is to keep.
//! 4. When it has ended, send back what it wrote to be sent back, and its exit code.
//!
//! The copy stops in order when it is told to, when a signal asks us to stop, and when ssh ends or nothing is heard for
//! long: whoever started us is gone, and the same command resumes. Who was only silent is told so, with all that the
//! copy said. It does not outlive this process, which it hears of from the kernel. Neither configuration nor
//! environment of this machine says anything to it but where its state is: all options are in the errand.

use crate::args::serve::DeputyArgs;
use crate::exit::Exit;
use crate::{signals, threads};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::errand::{CLIENT_LINE, with_path};
use thalweg_client::identity::state_directory;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::ssh::START;
use thalweg_mover::link::ssh::errand::{
    ASKS_MAX, Deputy, Errand, FromDeputy, Lines, PIECE_BYTES_MAX, Returned, SILENT_IS_GONE, Said,
    TEXT_BYTES_MAX, ToDeputy, of_data, to_data,
};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::Stop;
use thalweg_service::published;
use thalweg_sys::child;
use thalweg_wire::hex::hex;

/// Time for the errand, and between two pieces of what goes along: nobody is asked for anything meanwhile.
const ERRAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a copy to stop in order: what was written becomes durable first, and a disk may be slow.
const STOP_LIMIT: Duration = Duration::from_secs(600);
/// Between two looks whether the copy has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What counts of the time between two looks as silence, at most: if we did not run, nobody knows who spoke meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Time for more of a copy that has ended to be read, where something that it started still has its pipes.
const LAST_LINES: Duration = Duration::from_secs(5);
/// Time for others to sweep. Who waits in vain sweeps nothing.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);
/// Where files that come back are written in the state directory.
const RETURNS: &str = "returned";
/// Lines that were heard and not taken yet, at most.
const LINES_AHEAD: usize = 16;
/// Variables that the copy has of us: all others that are ours say something of this machine.
const KEPT: [&str; 2] = ["THALWEG_STATE", "THALWEG_LOG"];

/// Runs one errand.
///
/// # Errors
/// If it cannot begin.
pub fn deputy(args: &DeputyArgs) -> Result<Exit> {
    let _ = thalweg_sys::process::forbid_core_dumps();
    super::mover::say_in_use();
    if let Some(home) = std::env::var_os("HOME") {
        // Where it cannot be entered, relative paths are relative to where sshd put us.
        let _ = std::env::set_current_dir(home);
    }
    let out = Out::new();
    out.write(&Deputy::own().to_line());
    let heard = hear()?;
    let work = Work::read(&heard)?;
    let stop = Arc::new(Stop::default());
    signals::stop_on(stop.clone(), None)?;
    // What comes back is written there, and the directory goes with this value.
    let returned = Returns::new(args.state.as_deref(), &work.errand.returned, &stop)?;
    let (ours, theirs) = UnixStream::pair().map_err(|error| failure::of_io(START, &error))?;
    let mut child = work.start(args.state.as_deref(), theirs, &returned)?;
    let mut told = tell(&mut child, &ours, &out, work.errand.progress)?;
    let mut user = User::new(heard, SILENT_IS_GONE);
    let status = attend(&mut child, &mut user, &ours, &stop, || told.say_silence(&out))?;
    // Whoever still asks is gone.
    drop(ours);
    told.await_end(&mut user)?;
    let code = code_of(status);
    returned.send(&out, &stop)?;
    out.say(&FromDeputy::Exit(code));
    Ok(Exit::Done)
}

/// Stdout: lines of several threads.
#[derive(Clone)]
struct Out(Arc<Mutex<std::io::Stdout>>);

impl Out {
    fn new() -> Out {
        Out(Arc::new(Mutex::new(std::io::stdout())))
    }

    fn say(&self, what: &FromDeputy) {
        self.write(&what.to_line());
    }

    /// If it cannot be written, ssh has ended, which stdin tells as well.
    fn write(&self, line: &str) {
        let mut stdout = lock(&self.0);
        let _ = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    }
}

/// What comes on stdin, read by a thread of its own. When nothing more comes, it ends.
fn hear() -> Result<Receiver<Result<ToDeputy>>> {
    let (told, heard) = mpsc::sync_channel(LINES_AHEAD);
    let read = move || {
        let mut lines = Lines::new(std::io::stdin().lock());
        loop {
            let said = match lines.next_line() {
                Ok(Some(line)) => match ToDeputy::of_line(&line).transpose() {
                    Some(said) => said,
                    None => continue,
                },
                Ok(None) => return,
                Err(failure) => Err(failure),
            };
            let is_odd = said.is_err();
            if told.send(said).is_err() || is_odd {
                return;
            }
        }
    };
    threads::spawn("stdin", read)?;
    Ok(heard)
}

/// An errand with the files that go along.
struct Work {
    errand: Errand,
    words: Vec<Vec<u8>>,
    files: Vec<File>,
}

impl Work {
    fn read(heard: &Receiver<Result<ToDeputy>>) -> Result<Work> {
        let next = || match heard.recv_timeout(ERRAND_TIMEOUT) {
            Ok(said) => said,
            Err(_) => {
                let cause = "the errand did not come; this command is started by `thalweg cp` through ssh";
                Err(Failure::new(FailureKind::Usage, "read the errand", cause))
            }
        };
        let ToDeputy::Errand(errand) = next()? else { return Err(odd("it does not begin with an errand")) };
        errand.check()?;
        let words = errand.words()?;
        if !matches!(words[0].as_slice(), b"cp" | b"sync") {
            return Err(odd("it is no copy"));
        }
        let of_io = |error: &std::io::Error| failure::of_io("keep a file in memory", error);
        let mut work = Work { errand, words, files: Vec::new() };
        for _ in &work.errand.files {
            work.files.push(child::memory_file().map_err(|error| of_io(&error))?);
        }
        let mut left: Vec<u64> = work.errand.files.iter().map(|file| file.bytes).collect();
        loop {
            match next()? {
                ToDeputy::Piece(piece) => {
                    let bytes = of_data(&piece.data)?;
                    let (Some(file), Some(left)) = (work.files.get_mut(piece.file), left.get_mut(piece.file))
                    else {
                        return Err(odd("a piece belongs to no file"));
                    };
                    *left = left
                        .checked_sub(bytes.len() as u64)
                        .ok_or_else(|| odd("a file is longer than it was said to be"))?;
                    file.write_all(&bytes).map_err(|error| of_io(&error))?;
                }
                ToDeputy::Begin(_) => break,
                ToDeputy::Stop(_) => {
                    let cause = "it is not wanted any more";
                    return Err(Failure::new(FailureKind::Stopped, "read the errand", cause));
                }
                ToDeputy::Here(_) => {}
                ToDeputy::Errand(_) | ToDeputy::Answer(_) | ToDeputy::Limit(_) => {
                    return Err(odd("it has two beginnings"));
                }
            }
        }
        match left.iter().all(|left| *left == 0) {
            true => Ok(work),
            false => Err(odd("a file is shorter than it was said to be")),
        }
    }

    /// Starts the copy.
    fn start(&self, state: Option<&Path>, line: UnixStream, returned: &Returns) -> Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        for (name, _) in std::env::vars_os() {
            let is_ours = name.as_encoded_bytes().starts_with(b"THALWEG_");
            if is_ours && !KEPT.iter().any(|kept| name == *kept) {
                command.env_remove(name);
            }
        }
        // Nothing stands in it.
        command.env("THALWEG_CONFIG", "/dev/null").env(CLIENT_LINE, "1");
        if let Some(state) = state {
            command.env("THALWEG_STATE", state);
        }
        command.args(self.words.iter().map(|word| self.word(OsString::from_vec(word.clone()), returned)));
        command.stdin(OwnedFd::from(line)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = child::dies_with_us(&mut command).spawn();
        started.map_err(|error| failure::of_io("start the copy", &error))
    }

    /// A word of the command, with paths in the place of names of files.
    fn word(&self, word: OsString, returned: &Returns) -> OsString {
        let along = |name: &str| {
            let at = self.errand.files.iter().position(|file| file.name == name)?;
            Some(PathBuf::from(format!("/proc/self/fd/{}", self.files[at].as_raw_fd())))
        };
        let back = |name: &str| returned.path(name);
        let word: &OsStr = &word;
        let named = with_path(word, "file", along).or_else(|| with_path(word, "back", back));
        named.unwrap_or_else(|| word.to_owned())
    }
}

fn odd(cause: &str) -> Failure {
    Failure::new(FailureKind::Protocol, "read the errand", cause).because(Reason::FarProgramDiffers)
}

/// Threads that hand on what the copy says, and since when each of them waits for more; `None` while it hands on.
struct Told {
    threads: Vec<(JoinHandle<()>, Waits)>,
}

type Waits = Arc<Mutex<Option<Instant>>>;

impl Told {
    fn begin(&mut self, name: &str, work: impl FnOnce(&Waits) + Send + 'static) -> Result<()> {
        let waits = Waits::default();
        let its = waits.clone();
        self.threads.push((threads::spawn(name, move || work(&its))?, waits));
        Ok(())
    }

    /// Tells why the copy stops. A thread of its own: who is silent may take nothing either.
    fn say_silence(&mut self, out: &Out) {
        let cause = format!(
            "nothing was heard of who asked for {} s; the copy stops, the same command resumes it",
            SILENT_IS_GONE.as_secs()
        );
        let out = out.clone();
        // It stops without that as well.
        let _ = self.begin("silence", move |_| out.say(&FromDeputy::Err(cause)));
    }

    /// All that it said is handed on, however slow the way is. If somebody else has its pipes, they are not waited for
    /// once nothing more comes.
    ///
    /// # Errors
    /// `Stopped` if whoever started us is gone, or silent while not all of it is taken.
    fn await_end(self, user: &mut User) -> Result<()> {
        let ended = Instant::now();
        let mut silent: Option<Instant> = None;
        for (thread, waits) in self.threads {
            let is_quiet = || lock(&waits).is_some_and(|since| since.max(ended).elapsed() > LAST_LINES);
            while !thread.is_finished() && !is_quiet() {
                let is_gone = match user.hear(LOOK_AGAIN) {
                    Heard::Gone => true,
                    // Longer than for pipes that somebody else has.
                    Heard::Silent => silent.get_or_insert_with(Instant::now).elapsed() > LAST_LINES * 2,
                    Heard::Said(_) | Heard::Nothing => {
                        silent = None;
                        false
                    }
                };
                if is_gone {
                    let cause = "who asked for the copy is gone";
                    return Err(Failure::new(FailureKind::Stopped, START, cause));
                }
            }
        }
        Ok(())
    }
}

/// Hands on what the copy says, each way by a thread of its own.
fn tell(child: &mut Child, line: &UnixStream, out: &Out, progress: bool) -> Result<Told> {
    let mut told = Told { threads: Vec::new() };
    if let Some(stdout) = child.stdout.take() {
        let out = out.clone();
        told.begin("stdout", move |waits| {
            hand_on(stdout, waits, |said| out.say(&said), FromDeputy::OutPart, FromDeputy::Out);
        })?;
    }
    if let Some(stderr) = child.stderr.take() {
        let out = out.clone();
        told.begin("stderr", move |waits| {
            hand_on(stderr, waits, |said| out.say(&said), FromDeputy::Err, FromDeputy::Err);
        })?;
    }
    let line = line.try_clone().map_err(|error| failure::of_io(START, &error))?;
    let out = out.clone();
    // It ends with the copy, which has the other end alone.
    told.begin("asks", move |waits| {
        let mut lines = Lines::new(line);
        while let Ok(Some(text)) = waiting(waits, || lines.next_line()) {
            match FromDeputy::of_line(&text) {
                Ok(Some(ask @ FromDeputy::Ask(_))) => out.say(&ask),
                Ok(Some(how @ (FromDeputy::Progress(_) | FromDeputy::Evidence(_)))) if progress => {
                    out.say(&how);
                }
                Ok(_) => {}
                Err(failure) => tracing::warn!(%failure, "not understood"),
            }
        }
    })?;
    Ok(told)
}

/// Reads, and notes since when.
fn waiting<T>(waits: &Waits, read: impl FnOnce() -> T) -> T {
    *lock(waits) = Some(Instant::now());
    let read = read();
    *lock(waits) = None;
    read
}

/// Line by line; of a long one the parts, each of which is text.
fn hand_on(
    from: impl Read,
    waits: &Waits,
    say: impl Fn(FromDeputy),
    part: impl Fn(String) -> FromDeputy,
    whole: impl Fn(String) -> FromDeputy,
) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        let most = (TEXT_BYTES_MAX - line.len()) as u64;
        match waiting(waits, || (&mut from).take(most).read_until(b'\n', &mut line)) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            say(whole(text(&line)));
            line.clear();
        } else if line.len() >= TEXT_BYTES_MAX {
            // A character that is cut waits for the rest of it.
            let cut = whole_characters(&line);
            let rest = line.split_off(cut);
            say(part(text(&line)));
            line = rest;
        }
    }
    if !line.is_empty() {
        say(whole(text(&line)));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How many bytes are whole characters: all of them, less a last one that is cut.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

/// Who started us.
struct User {
    heard: Receiver<Result<ToDeputy>>,
    /// When we looked last.
    looked: Instant,
    /// How long nothing was heard.
    silent: Duration,
    /// Silent for longer, it seems to be gone.
    silence: Duration,
    is_gone: bool,
}

/// What was heard.
enum Heard {
    Said(ToDeputy),
    Nothing,
    /// Nothing for so long that nobody seems to be there.
    Silent,
    /// Nobody is there any more, or says what nobody says.
    Gone,
}

impl User {
    fn new(heard: Receiver<Result<ToDeputy>>, silence: Duration) -> User {
        User { heard, looked: Instant::now(), silent: Duration::ZERO, silence, is_gone: false }
    }

    /// Within this time.
    fn hear(&mut self, patience: Duration) -> Heard {
        if self.is_gone {
            std::thread::sleep(patience);
            return Heard::Gone;
        }
        let heard = self.heard.recv_timeout(patience);
        let since = self.looked.elapsed();
        self.looked = Instant::now();
        match heard {
            Ok(Ok(said)) => {
                self.silent = Duration::ZERO;
                Heard::Said(said)
            }
            Err(RecvTimeoutError::Timeout) => {
                self.silent += since.min(LOOK_MAX);
                if self.silent > self.silence { Heard::Silent } else { Heard::Nothing }
            }
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                self.is_gone = true;
                Heard::Gone
            }
        }
    }
}

/// Until the copy has ended: hands on answers, and stops it when it is to stop. `is_silent` is called before it stops
/// because nothing is heard.
fn attend(
    child: &mut Child,
    user: &mut User,
    line: &UnixStream,
    stop: &Stop,
    mut is_silent: impl FnMut(),
) -> Result<ExitStatus> {
    let answers = answer(line)?;
    let mut stopping: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| failure::of_io("wait for the copy", &error))? {
            return Ok(status);
        }
        let heard = user.hear(LOOK_AGAIN);
        if matches!(heard, Heard::Silent) && stopping.is_none() && !stop.is_asked() {
            is_silent();
        }
        let stops = match heard {
            // A copy that hears none of so many is stuck, and is not waited for. One that hears no more ends by itself.
            Heard::Said(said @ ToDeputy::Answer(_)) => {
                matches!(answers.try_send(said), Err(TrySendError::Full(_)))
            }
            // As with an answer: where there is no room for it the copy is stuck.
            Heard::Said(said @ ToDeputy::Limit(_)) => {
                let _ = answers.try_send(said);
                false
            }
            Heard::Said(ToDeputy::Stop(_)) | Heard::Silent | Heard::Gone => true,
            Heard::Said(_) | Heard::Nothing => false,
        };
        if (stops || stop.is_asked()) && stopping.is_none() {
            stopping = Some(Instant::now());
            let _ = child::interrupt(child);
        }
        if stopping.is_some_and(|since| since.elapsed() > STOP_LIMIT) {
            let _ = child.kill();
        }
    }
}

/// Hands answers on to the copy, by a thread of its own: it may be slow to read.
fn answer(line: &UnixStream) -> Result<SyncSender<ToDeputy>> {
    let mut line = line.try_clone().map_err(|error| failure::of_io(START, &error))?;
    let (tells, told) = mpsc::sync_channel::<ToDeputy>(ASKS_MAX);
    threads::spawn("answers", move || {
        for said in told {
            if line.write_all(said.to_line().as_bytes()).is_err() {
                return;
            }
        }
    })?;
    Ok(tells)
}

/// As a shell has it.
fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// Files that come back, in a directory of their own below the state directory, which goes with the value.
struct Returns {
    names: Vec<String>,
    /// With its lock, which is held while they are there.
    directory: Option<(PathBuf, File)>,
}

/// In each such directory, and in the one that they are in. No file that comes back is called so.
const LOCK: &str = ".lock";

impl Returns {
    fn new(state: Option<&Path>, names: &[String], stop: &Stop) -> Result<Returns> {
        let mut returns = Returns { names: names.to_vec(), directory: None };
        if !names.is_empty() {
            // Other machines may have the same state directory, and not its locks.
            let all = state_directory(state)?.join(RETURNS).join(published::machine());
            let failed = |error: std::io::Error| {
                let failure = failure::of_io("make a directory for files that come back", &error);
                failure::at_path(failure, &all)
            };
            DirBuilder::new().recursive(true).mode(0o700).create(&all).map_err(failed)?;
            // So that nobody sweeps away what is being made. It is held for a moment.
            let alone = File::create(all.join(LOCK)).map_err(failed)?;
            // Where there are no locks, nobody knows what is left.
            if is_alone(&alone, stop) {
                sweep(&all);
            }
            let mut random = [0; 16];
            getrandom(&mut random)?;
            let directory = all.join(hex(&random));
            DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
            let held = File::create(directory.join(LOCK)).map_err(failed)?;
            let _ = held.try_lock();
            returns.directory = Some((directory, held));
        }
        Ok(returns)
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        let is_one = self.names.iter().any(|known| known == name);
        self.directory.as_ref().filter(|_| is_one).map(|(directory, _)| directory.join(name))
    }

    /// Sends those that the copy wrote, also if it was stopped, unless a signal comes meanwhile.
    fn send(&self, out: &Out, stop: &Stop) -> Result<()> {
        let was_stopped = stop.is_asked();
        for name in &self.names {
            let Some(mut file) = self.path(name).and_then(|path| File::open(path).ok()) else { continue };
            let mut piece = vec![0; PIECE_BYTES_MAX];
            loop {
                if stop.is_asked() && !was_stopped {
                    let cause = "stopped before all that comes back was sent";
                    return Err(Failure::new(FailureKind::Stopped, "read what comes back", cause));
                }
                let read = file.read(&mut piece);
                let read = read.map_err(|error| failure::of_io("read what comes back", &error))?;
                let data = to_data(&piece[..read]);
                let returned = Returned { name: name.clone(), data };
                if read == 0 {
                    out.say(&FromDeputy::FileEnd(returned));
                    break;
                }
                out.say(&FromDeputy::File(returned));
            }
        }
        Ok(())
    }
}

impl Drop for Returns {
    fn drop(&mut self) {
        if let Some((directory, _)) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Whether the lock was got, in time.
fn is_alone(alone: &File, stop: &Stop) -> bool {
    let until = Instant::now() + SWEEP_LIMIT;
    loop {
        match alone.try_lock() {
            Ok(()) => return true,
            Err(TryLockError::WouldBlock) if Instant::now() < until && !stop.is_asked() => {
                std::thread::sleep(LOOK_AGAIN);
            }
            Err(_) => return false,
        }
    }
}

/// Removes what deputies left that were killed: nobody has the lock of it.
fn sweep(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        // NFS locks for one alone only what is open for writing.
        let lock = OpenOptions::new().write(true).open(entry.path().join(LOCK));
        let is_left = match &lock {
            Ok(lock) => lock.try_lock().is_ok(),
            // It was killed before it had one, or this is no such directory.
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_left && entry.file_name() != LOCK {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Random bytes.
fn getrandom(bytes: &mut [u8]) -> Result<()> {
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(bytes))
        .map_err(|error| failure::of_io("get random numbers", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::link::ssh::errand::{Answer, Nothing, Outcome};

    /// Answers are on a socket of its own.
    fn user(silence: Duration) -> (SyncSender<Result<ToDeputy>>, User, UnixStream) {
        let (tells, heard) = mpsc::sync_channel(LINES_AHEAD);
        (tells, User::new(heard, silence), UnixStream::pair().unwrap().0)
    }

    /// Hears an interrupt, also where whoever runs the tests started them deaf to it: who is started ignores what we
    /// ignore, but nothing of what we have a handler for.
    fn sleep(seconds: &str) -> Child {
        signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::default()).unwrap();
        Command::new("sleep").arg(seconds).spawn().unwrap()
    }

    #[test]
    fn a_copy_stops_when_nothing_is_heard_of_who_asked_or_a_signal_asks_for_it() {
        use std::os::unix::process::ExitStatusExt;
        let sleeps = || sleep("600");
        let interrupted = Some(2);
        // Its ssh is there, and says nothing.
        let (_tells, mut silent, line) = user(Duration::from_millis(50));
        let mut told = 0;
        let status = attend(&mut sleeps(), &mut silent, &line, &Stop::default(), || told += 1).unwrap();
        assert_eq!((status.signal(), told), (interrupted, 1));
        assert!(matches!(silent.hear(Duration::ZERO), Heard::Silent));
        let (tells, mut there, line) = user(Duration::from_secs(3600));
        tells.send(Ok(ToDeputy::Here(Nothing {}))).unwrap();
        let stop = Stop::default();
        stop.stop();
        let status = attend(&mut sleeps(), &mut there, &line, &stop, || panic!("it is there")).unwrap();
        assert_eq!(status.signal(), interrupted);
    }

    #[test]
    fn while_a_deputy_does_not_run_nobody_is_silent() {
        let (_tells, mut user, _) = user(Duration::from_secs(20));
        user.looked = user.looked.checked_sub(Duration::from_secs(30)).unwrap();
        assert!(matches!(user.hear(Duration::ZERO), Heard::Nothing));
        assert!(user.silent <= LOOK_MAX);
    }

    #[test]
    fn a_copy_that_hears_no_more_answers_ends_by_itself() {
        // Nobody has the other end of the line.
        let (tells, mut there, line) = user(Duration::from_secs(3600));
        let mut ends = sleep("1");
        let says = std::thread::spawn(move || {
            for id in 0..10 {
                let answer = Answer { id, outcome: Outcome::Done(Nothing {}) };
                tells.send(Ok(ToDeputy::Answer(answer))).unwrap();
                std::thread::sleep(LOOK_AGAIN);
            }
            tells
        });
        let status = attend(&mut ends, &mut there, &line, &Stop::default(), || ()).unwrap();
        assert_eq!(status.code(), Some(0));
        drop(says.join().unwrap());
    }

    #[test]
    fn who_was_silent_is_told_what_a_copy_said_last_and_who_is_gone_is_not_waited_for() {
        let (tells, mut silent, _) = user(Duration::ZERO);
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut told = Told { threads: Vec::new() };
        let says = said.clone();
        told.begin("slow", move |waits| {
            let say = |line: FromDeputy| {
                std::thread::sleep(LOOK_AGAIN * 10);
                lock(&says).push(line);
            };
            hand_on(&b"one\n"[..], waits, say, FromDeputy::OutPart, FromDeputy::Out);
        })
        .unwrap();
        told.await_end(&mut silent).unwrap();
        assert!(matches!(lock(&said).as_slice(), [FromDeputy::Out(line)] if line == "one"));
        drop(tells);
        let mut told = Told { threads: Vec::new() };
        let (stays, stuck) = mpsc::channel::<()>();
        let waits = move |_: &Waits| {
            let _ = stuck.recv();
        };
        told.begin("stuck", waits).unwrap();
        assert_eq!(told.await_end(&mut silent).unwrap_err().kind, FailureKind::Stopped);
        drop(stays);
    }

    #[test]
    fn what_a_copy_said_last_is_handed_on_however_long_that_takes_and_pipes_of_others_are_not_waited_for() {
        let (_tells, mut user, _) = user(Duration::from_secs(3600));
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut told = Told { threads: Vec::new() };
        let says = said.clone();
        told.begin("slow", move |waits| {
            let say = |line: FromDeputy| {
                std::thread::sleep(LAST_LINES + Duration::from_secs(2));
                lock(&says).push(line);
            };
            hand_on(&b"one\n"[..], waits, say, FromDeputy::OutPart, FromDeputy::Out);
        })
        .unwrap();
        let (open, _stays) = UnixStream::pair().unwrap();
        told.begin("open", move |waits| hand_on(open, waits, |_| (), FromDeputy::Err, FromDeputy::Err))
            .unwrap();
        told.await_end(&mut user).unwrap();
        assert!(matches!(lock(&said).as_slice(), [FromDeputy::Out(line)] if line == "one"));
    }

    #[test]
    fn files_that_come_back_lie_in_the_state_directory_and_what_a_kill_left_there_goes() {
        let scratch = tempfile::tempdir().unwrap();
        let names = ["receipt".to_owned()];
        let stop = Stop::default();
        let begin = || Returns::new(Some(scratch.path()), &names, &stop).unwrap();
        let (used, killed) = (begin(), begin());
        let path = |returns: &Returns| returns.path("receipt").unwrap();
        assert!(path(&used).starts_with(scratch.path()) && path(&used) != path(&killed));
        std::fs::write(path(&used), "x").unwrap();
        let left = path(&killed);
        std::fs::write(&left, "x").unwrap();
        // As a kill does: the lock goes, and the directory stays.
        let mut killed = killed;
        killed.directory = None;
        assert!(left.exists());
        let next = begin();
        assert!(!left.exists() && path(&used).exists());
        // Somebody else sweeps, and does not end: whoever asked to stop does not wait for that.
        let alone = File::open(next.path("receipt").unwrap().ancestors().nth(2).unwrap().join(LOCK)).unwrap();
        alone.lock().unwrap();
        stop.stop();
        drop(begin());
        let [used, next] = [used, next].map(|one| path(&one));
        assert!(!used.exists() && !next.exists());
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        let bytes = "a\u{e4}\u{20ac}".as_bytes();
        assert_eq!(whole_characters(bytes), bytes.len());
        assert_eq!(whole_characters(&bytes[..bytes.len() - 1]), 3);
        assert_eq!(whole_characters(&bytes[..2]), 1);
        // What never was text waits for nothing.
        assert_eq!(whole_characters(b"a\xffb"), 3);
    }
}
