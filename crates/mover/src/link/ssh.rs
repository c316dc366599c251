//! The user's own ssh: starts a far mover, exchanges one-time keys with it, and carries connections where every port
//! is shut.
//!
//! 1. [`Ssh`] makes command lines: the system's `ssh` with the user's configuration, agent and jump hosts, always as a
//!    list of arguments, never through a shell of ours. What the far shell reads is quoted by [`quote`].
//! 2. [`start`] runs `thalweg mover` there, gives it an [`Order`] on its stdin and waits for its [`Ready`] line, past
//!    whatever a login script printed before.
//! 3. [`bridge`] gives a connection to the far mover that rides in an ssh process of its own.
//! 4. [`bootstrap`] places our own static program at the far side.
//!
//! ssh's stderr is the user's: prompts and errors appear as he knows them. Nothing secret is on a command line or in
//! an environment; what travels on stdin and stdout are fingerprints, and they are as true as ssh is.

use crate::failure::{self, Failure, FailureKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

// 2. The lines that both sides exchange.
mod line;

// 4. Our own program, placed at the far side.
pub mod bootstrap;

pub use line::{
    BRIDGE_MAGIC, DialBack, LINE_BYTES_MAX, MOVER_MAGIC, NOISE_BYTES_MAX, Order, Ready, TOKEN_BYTES,
    read_line,
};

/// Name of what fails here, for messages and hints.
pub const START: &str = "start by ssh";
/// Name of what fails where a far mover that ssh started is not reached, or not any more.
pub const REACH: &str = "reach the far mover";
/// Name of what fails where the far side cannot keep or run our own program.
pub const PLACE: &str = "place the program";
/// Name of what fails where this machine's own ssh cannot be started.
pub const RUN: &str = "run ssh";
/// Time for a login, with whatever its user has to type.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);
/// Time in which ssh must take more of what is uploaded, from the login on, and all of it have arrived from the last piece on:
/// on a thin line the mebibytes that it reads ahead are minutes.
const UPLOAD_STALL: Duration = LOGIN_TIMEOUT;
/// Between two looks whether it did, and whether a bridge is still wanted.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Time in which an ssh process must end when its work is over.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for `ssh -G`, which connects to nobody.
const CONFIG_TIMEOUT: Duration = Duration::from_secs(5);
/// Words in a command that a user gave.
const WORDS_MAX: usize = 256;

/// How to start ssh to one host.
#[derive(Debug, Clone)]
pub struct Ssh {
    words: Vec<OsString>,
    destination: String,
    port: Option<u16>,
}

impl Ssh {
    /// ssh to `destination` (`[user@]host`). `command` is the program and its own arguments, as one would type them
    /// (`ssh -J gate`, see [`split_words`]).
    ///
    /// # Errors
    /// `Usage` for a command that cannot be split, or a destination that [`check_destination`] refuses.
    pub fn new(command: &OsStr, destination: &str, port: Option<u16>) -> Result<Ssh> {
        let words = split_words(command.as_bytes()).map_err(|why| usage(&format!("--rsh: {why}")))?;
        if words.is_empty() {
            return Err(usage("--rsh: the command is empty"));
        }
        check_destination(destination).map_err(usage)?;
        Ok(Ssh { words, destination: destination.to_owned(), port })
    }

    /// `[user@]host[:port]`, for messages and as the far side's name.
    pub fn name(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.destination),
            None => self.destination.clone(),
        }
    }

    /// The host, without the user.
    pub fn host(&self) -> &str {
        self.destination.rsplit_once('@').map_or(&self.destination, |(_, host)| host)
    }

    /// Whether the command is OpenSSH's (or one that takes its options), by its name.
    fn is_openssh(&self) -> bool {
        std::path::Path::new(&self.words[0]).file_name().is_some_and(|name| name == "ssh")
    }

    /// Program and arguments, for a remote command line that is quoted already.
    fn command(&self, remote: &OsStr, patient: bool) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        if self.is_openssh() {
            // Neither a terminal nor forwarding of anything, whatever the configuration has for everyday logins.
            command.args(["-T", "-x", "-a", "-oClearAllForwardings=yes", "-oPermitLocalCommand=no"]);
            command.args(["-oRemoteCommand=none", "-oRequestTTY=no", "-oForkAfterAuthentication=no"]);
            if !patient {
                command.arg("-oConnectTimeout=10");
            }
        }
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        if self.is_openssh() {
            command.arg("--");
        }
        command.arg(&self.destination).arg(remote).stderr(Stdio::inherit());
        command
    }

    /// The host name that ssh itself would dial, after aliases of its configuration. The host as given if ssh does not
    /// say.
    pub fn dialled_host(&self) -> String {
        let given = self.host().to_owned();
        if !self.is_openssh() {
            return given;
        }
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg("-G");
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        command.arg("--").arg(&self.destination);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return given };
        let output = read_some(&mut child, CONFIG_TIMEOUT);
        end(&mut child, Duration::ZERO);
        let text = String::from_utf8_lossy(&output);
        text.lines()
            .find_map(|line| line.strip_prefix("hostname "))
            .map_or(given, |name| name.trim().to_owned())
    }
}

/// A far mover that ssh started. Dropping it ends ssh; the far mover ends when its session does.
#[derive(Debug)]
pub struct StartedMover {
    /// What it said of itself.
    pub ready: Ready,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl StartedMover {
    /// Whether ssh has ended, whatever became of the far mover.
    pub fn ssh_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks the far mover to dial back.
    ///
    /// # Errors
    /// `Connection` if ssh is gone.
    pub fn ask(&mut self, request: &DialBack) -> Result<()> {
        let gone = || Failure::new(FailureKind::Connection, START, "ssh has ended");
        let stdin = self.stdin.as_mut().ok_or_else(gone)?;
        stdin.write_all(request.to_line().as_bytes()).and_then(|()| stdin.flush()).map_err(|_| gone())
    }

    /// Tells the far mover that nothing more comes, and waits a little for ssh to end.
    pub fn close(&mut self) {
        drop(self.stdin.take());
        end(&mut self.child, END_TIMEOUT);
    }
}

impl Drop for StartedMover {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why a far mover did not start.
#[derive(Debug)]
pub struct NotStarted {
    /// For the user.
    pub failure: Failure,
    /// Whether placing our own program there may help.
    pub program_is_missing: bool,
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        NotStarted { failure, program_is_missing: false }
    }
}

/// The program at the far side and what it is given first.
#[derive(Debug, Clone)]
pub struct FarProgram {
    words: Vec<OsString>,
}

impl FarProgram {
    /// From what a user wrote, see [`split_words`]: `thalweg`, `/opt/thalweg/bin/thalweg`, `sudo thalweg`.
    ///
    /// # Errors
    /// `Usage` if it cannot be split.
    pub fn from_command(command: &OsStr) -> Result<FarProgram> {
        let words = split_words(command.as_bytes()).map_err(|why| usage(&format!("--far-path: {why}")))?;
        if words.is_empty() {
            return Err(usage("--far-path: the command is empty"));
        }
        Ok(FarProgram { words })
    }

    /// A program by its path.
    pub fn at(path: OsString) -> FarProgram {
        FarProgram { words: vec![path] }
    }

    /// The command line for a far shell.
    fn line(&self, arguments: &[&str]) -> OsString {
        let words = self.words.iter().map(|word| word.as_bytes());
        quote_all(words.chain(arguments.iter().map(|argument| argument.as_bytes())))
    }

    /// For messages.
    fn name(&self) -> String {
        self.words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// Starts a far mover and waits until it listens. `patient`: a first time, on which its user may have to type.
///
/// # Errors
/// `Connection` if ssh does not get there, `NotFound` if there is no program, `Protocol` if it is too old or too new.
pub fn start(
    ssh: &Ssh,
    program: &FarProgram,
    order: &Order,
    patient: bool,
) -> std::result::Result<StartedMover, NotStarted> {
    let mut child = ssh
        .command(&program.line(&["mover"]), patient)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| no_ssh(ssh, &error))?;
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // An ssh that ended already tells more by its exit code.
        let _ = stdin.write_all(order.to_line().as_bytes()).and_then(|()| stdin.flush());
    }
    match first_word(&mut child, MOVER_MAGIC, LOGIN_TIMEOUT) {
        Word::Said(text) => {
            let ready = match Ready::of_line(&text, order.versions) {
                Ok(ready) => ready,
                Err(failure) => {
                    drop(stdin);
                    end(&mut child, END_TIMEOUT);
                    return Err(NotStarted { failure, program_is_missing: true });
                }
            };
            Ok(StartedMover { ready, child, stdin })
        }
        Word::Late => {
            end(&mut child, Duration::ZERO);
            let cause = format!("{}: no far mover after {} s", ssh.name(), LOGIN_TIMEOUT.as_secs());
            Err(Failure::new(FailureKind::Connection, START, cause).into())
        }
        Word::Ended(noise) => {
            drop(stdin);
            Err(why_ended(ssh, program, end(&mut child, END_TIMEOUT), &noise))
        }
    }
}

/// A connection to port `port` of the far machine's loopback, inside an ssh process of its own.
///
/// ssh has one end of a pair of sockets as stdin and stdout; the other end is what is returned, once the far end of the
/// bridge said that it stands. A login that `is_over` overtakes is ended.
///
/// # Errors
/// `Connection` if ssh does not get there, or it is over; `NotFound` if nobody listens at the port (any more).
pub fn bridge(
    ssh: &Ssh,
    program: &FarProgram,
    port: u16,
    deadline: Duration,
    is_over: &AtomicBool,
) -> Result<(OwnedFd, Child)> {
    const OVER: &str = "the copy is over";
    if is_over.load(Ordering::Acquire) {
        return Err(Failure::new(FailureKind::Connection, REACH, OVER));
    }
    let until = Instant::now() + deadline;
    let of_io = |error: std::io::Error| failure::of_io(START, &error);
    let (ours, theirs) = UnixStream::pair().map_err(of_io)?;
    let also_theirs = theirs.try_clone().map_err(of_io)?;
    let mut command = ssh.command(&program.line(&["mover", "--bridge", &port.to_string()]), false);
    command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(also_theirs));
    let mut child = command.spawn().map_err(|error| no_ssh(ssh, &error))?;
    // Our own copies of ssh's end: while they are open, nobody sees it close.
    drop(command);
    let failed = |child: &mut Child, kind, cause: String| {
        end(child, Duration::ZERO);
        Err(Failure::new(kind, REACH, cause))
    };
    let (mut line, mut noise_bytes) = (Vec::new(), 0);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return failed(&mut child, FailureKind::Connection, format!("{}: ssh took too long", ssh.name()));
        }
        if is_over.load(Ordering::Acquire) {
            return failed(&mut child, FailureKind::Connection, OVER.to_owned());
        }
        // Byte by byte, so that nothing behind the line is taken. There are few.
        let mut byte = [0];
        let _ = ours.set_read_timeout(Some(left.min(LOOK_AGAIN)));
        match (&ours).read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            Ok(_) => {
                let code = end(&mut child, END_TIMEOUT);
                let code = code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
                let cause = format!("{}: ssh ended with {code}", ssh.name());
                return Err(Failure::new(FailureKind::Connection, REACH, cause));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => {}
        }
        if noise_bytes + line.len() > NOISE_BYTES_MAX {
            return failed(&mut child, FailureKind::Protocol, format!("{}: too much noise", ssh.name()));
        }
        if line.last() != Some(&b'\n') {
            continue;
        }
        match line.strip_prefix(BRIDGE_MAGIC.as_bytes()).map(<[u8]>::trim_ascii_end) {
            Some(b"up") => {
                let _ = ours.set_read_timeout(None);
                return Ok((ours.into(), child));
            }
            Some(b"gone") => {
                let cause = format!("{}: it could not be reached on that machine's loopback", ssh.name());
                return failed(&mut child, FailureKind::NotFound, cause);
            }
            _ => {
                noise_bytes += line.len();
                line.clear();
            }
        }
    }
}

/// Ends a process: waits so long, then kills it. Its exit code, if it ended by itself.
pub fn end(child: &mut Child, patience: Duration) -> Option<i32> {
    let until = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.code(),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// Runs a script of a POSIX shell at the far side, whatever the login shell is; its stdout, bounded, and exit code.
/// `input` is its stdin: while more of it is taken, that may last as long as it does.
fn run_script(ssh: &Ssh, script: &str, input: Option<File>) -> Result<(Vec<u8>, Option<i32>)> {
    let patience = if input.is_some() { UPLOAD_STALL } else { LOGIN_TIMEOUT };
    run_script_for(ssh, script, input, patience)
}

fn run_script_for(
    ssh: &Ssh,
    script: &str,
    input: Option<File>,
    patience: Duration,
) -> Result<(Vec<u8>, Option<i32>)> {
    let upload = input.as_ref().map(Upload::of).transpose().map_err(|error| failure::of_io(START, &error))?;
    let remote = quote_all([b"sh".as_slice(), b"-c", script.as_bytes()].into_iter());
    let mut child = ssh
        .command(&remote, true)
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| no_ssh(ssh, &error))?;
    let taken = || upload.as_ref().map_or(0, Upload::taken);
    let mut progress = Progress { seen: 0, since: Instant::now(), patience };
    let output = read_while(&mut child, || !progress.is_stuck(Instant::now(), taken()));
    let Some(output) = output else {
        end(&mut child, Duration::ZERO);
        let why = format!("nothing more of it was taken for {} s", patience.as_secs());
        return Err(upload.map_or_else(|| not_reached(ssh), |upload| upload.failed(ssh, &why)));
    };
    match end(&mut child, END_TIMEOUT) {
        Some(255) | None => {
            Err(upload.map_or_else(|| not_reached(ssh), |upload| upload.failed(ssh, "the line was lost")))
        }
        code => Ok((output, code)),
    }
}

/// A file that ssh reads as its stdin. It has the position of ours: that says how much of it was taken.
struct Upload {
    file: File,
    bytes: u64,
}

impl Upload {
    fn of(file: &File) -> std::io::Result<Upload> {
        Ok(Upload { file: file.try_clone()?, bytes: file.metadata()?.len() })
    }

    fn taken(&self) -> u64 {
        (&self.file).stream_position().unwrap_or(0)
    }

    /// Before ssh takes any of it there is a login.
    fn failed(&self, ssh: &Ssh, why: &str) -> Failure {
        match self.taken() {
            0 => not_reached(ssh),
            taken => {
                let (name, all) = (ssh.name(), self.bytes);
                let cause =
                    format!("the upload to {name} ended early: {why}; ssh took {taken} of {all} bytes");
                Failure::new(FailureKind::Connection, START, cause)
            }
        }
    }
}

/// A deadline that every progress moves.
struct Progress {
    seen: u64,
    since: Instant,
    patience: Duration,
}

impl Progress {
    fn is_stuck(&mut self, now: Instant, seen: u64) -> bool {
        if seen != self.seen {
            (self.seen, self.since) = (seen, now);
        }
        now.saturating_duration_since(self.since) >= self.patience
    }
}

enum Word {
    /// The rest of the line behind the magic word.
    Said(String),
    /// It ended before; what it said until then.
    Ended(Vec<u8>),
    Late,
}

/// Waits for a line with `magic`, past bounded noise. What follows is read and thrown away, so that nobody waits for us.
fn first_word(child: &mut Child, magic: &'static str, patience: Duration) -> Word {
    let Some(mut stdout) = child.stdout.take() else { return Word::Ended(Vec::new()) };
    let (told, hears) = mpsc::channel();
    let read = move || {
        match read_line(&mut stdout, magic) {
            Ok(line) => {
                let _ = told.send(Ok(line));
                let mut rest = [0; 4096];
                while !matches!(stdout.read(&mut rest), Ok(0) | Err(_)) {}
            }
            Err(noise) => {
                let _ = told.send(Err(noise));
            }
        };
    };
    if std::thread::Builder::new().name("ssh".into()).spawn(read).is_err() {
        return Word::Ended(Vec::new());
    }
    match hears.recv_timeout(patience) {
        Ok(Ok(line)) => Word::Said(line),
        Ok(Err(noise)) => Word::Ended(noise),
        Err(RecvTimeoutError::Timeout) => Word::Late,
        Err(RecvTimeoutError::Disconnected) => Word::Ended(Vec::new()),
    }
}

/// The first [`NOISE_BYTES_MAX`] bytes of a child's stdout, until it closes it or the time is over.
fn read_some(child: &mut Child, patience: Duration) -> Vec<u8> {
    let until = Instant::now() + patience;
    read_while(child, || Instant::now() < until).unwrap_or_default()
}

/// The same, as long as it `goes_on`; `None` if it did not.
fn read_while(child: &mut Child, mut goes_on: impl FnMut() -> bool) -> Option<Vec<u8>> {
    let Some(stdout) = child.stdout.take() else { return Some(Vec::new()) };
    let (told, hears) = mpsc::channel();
    let read = move || {
        let mut output = Vec::new();
        let _ = stdout.take(NOISE_BYTES_MAX as u64).read_to_end(&mut output);
        let _ = told.send(output);
    };
    if std::thread::Builder::new().name("ssh".into()).spawn(read).is_err() {
        return Some(Vec::new());
    }
    loop {
        match hears.recv_timeout(LOOK_AGAIN) {
            Ok(output) => return Some(output),
            Err(RecvTimeoutError::Timeout) if goes_on() => {}
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => return Some(Vec::new()),
        }
    }
}

fn why_ended(ssh: &Ssh, program: &FarProgram, code: Option<i32>, noise: &[u8]) -> NotStarted {
    let (program, name) = (program.name(), ssh.name());
    let not_found = |cause: String| NotStarted {
        failure: Failure::new(FailureKind::NotFound, START, cause),
        program_is_missing: true,
    };
    match code {
        Some(255) | None => not_reached(ssh).into(),
        Some(127) => not_found(format!("no `{program}` at {name}")),
        Some(126) => not_found(format!("`{program}` at {name} cannot be run")),
        // csh has no other code for what it does not find.
        Some(1) if noise.trim_ascii().is_empty() => not_found(format!(
            "`{program}` at {name} ended with exit code 1 before it was ready, or a csh did not find it"
        )),
        Some(code) => {
            let mut cause = format!("`{program}` at {name} ended with exit code {code} before it was ready");
            let said = String::from_utf8_lossy(&noise[..noise.len().min(200)]);
            if let Some(line) = said.lines().rfind(|line| !line.trim().is_empty()) {
                cause.push_str(&format!("; it said: {line}"));
            }
            let failure = Failure::new(FailureKind::Protocol, START, cause);
            NotStarted { failure, program_is_missing: true }
        }
    }
}

fn not_reached(ssh: &Ssh) -> Failure {
    Failure::new(FailureKind::Connection, START, format!("ssh did not reach {}", ssh.name()))
}

fn no_ssh(ssh: &Ssh, error: &std::io::Error) -> Failure {
    let mut failure = failure::of_io(RUN, error);
    failure.cause = format!("`{}`: {}", ssh.words[0].to_string_lossy(), failure.cause);
    failure
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, START, cause)
}

/// Whether `[user@]host` can only be that: never an option to ssh, nothing that a shell behind ssh's own configuration
/// (`ProxyCommand` with `%h`, `%r`) would read as more than a word. What OpenSSH refuses since 9.6, everywhere.
///
/// # Errors
/// What is wrong with it.
pub fn check_destination(destination: &str) -> std::result::Result<(), &'static str> {
    let (user, host) = match destination.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, destination),
    };
    if destination.len() > 512 {
        return Err("the host is too long");
    }
    if host.is_empty() || host.starts_with('-') {
        return Err("the host is missing or begins with a dash");
    }
    if user.is_some_and(|user| user.is_empty() || user.starts_with('-')) {
        return Err("the user is missing or begins with a dash");
    }
    let odd = |c: char| c.is_control() || c.is_whitespace() || "'`\"$\\;&<>|(){}*?#!".contains(c);
    if host.chars().any(|c| odd(c) || c == '/') {
        return Err("the host has characters that no host has");
    }
    // A domain's user is DOMAIN\user; all else of the list is for shells.
    if user.is_some_and(|user| user.ends_with('\\') || user.chars().any(|c| odd(c) && c != '\\')) {
        return Err("the user has characters that no user has");
    }
    Ok(())
}

/// Splits a command as a POSIX shell would, and does nothing else that a shell does: blanks separate, single quotes keep
/// all, double quotes keep all but a backslash before `"`, `\`, `$` and a back quote, a backslash keeps the next byte.
///
/// # Errors
/// For a quote that does not end, or too many words.
pub fn split_words(text: &[u8]) -> std::result::Result<Vec<OsString>, &'static str> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            0 => return Err("it has a zero byte"),
            b' ' | b'\t' | b'\n' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'\'') => break,
                        Some(byte) => word.push(byte),
                        None => return Err("a quote does not end"),
                    }
                }
            }
            b'"' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'"') => break,
                        Some(b'\\') => match bytes.next() {
                            Some(byte @ (b'"' | b'\\' | b'$' | b'`')) => word.push(byte),
                            Some(byte) => word.extend([b'\\', byte]),
                            None => return Err("a quote does not end"),
                        },
                        Some(byte) => word.push(byte),
                        None => return Err("a quote does not end"),
                    }
                }
            }
            b'\\' => match bytes.next() {
                Some(byte) => word.get_or_insert_default().push(byte),
                None => return Err("it ends with a backslash"),
            },
            byte => word.get_or_insert_default().push(byte),
        }
        if words.len() > WORDS_MAX {
            return Err("it has too many words");
        }
    }
    words.extend(word);
    Ok(words.into_iter().map(OsString::from_vec).collect())
}

/// Quotes one word for a POSIX shell. `~/` in front stays open, as its user means it.
pub fn quote(word: &[u8]) -> Vec<u8> {
    if let Some(rest) = word.strip_prefix(b"~/") {
        let mut quoted = b"~/".to_vec();
        if !rest.is_empty() {
            quoted.extend(quote(rest));
        }
        return quoted;
    }
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+:,@%".contains(b);
    if !word.is_empty() && word[0] != b'-' && word.iter().all(plain) {
        return word.to_vec();
    }
    // Options in our own lists are plain as well.
    if word.starts_with(b"--") && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut quoted = vec![b'\''];
    for &byte in word {
        match byte {
            b'\'' => quoted.extend(b"'\\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}

fn quote_all<'a>(words: impl Iterator<Item = &'a [u8]>) -> OsString {
    let words: Vec<Vec<u8>> = words.map(quote).collect();
    OsString::from_vec(words.join(&b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_never_an_option_nor_a_command() {
        for good in ["host", "me@host", "h.example.org", "::1", "me@fe80::1%eth0", "DOM\\me@host", "10.0.0.1"]
        {
            assert_eq!(check_destination(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "-oProxyCommand=id",
            "me@-oProxyCommand=id",
            "-l@host",
            "@host",
            "me@",
            "a b",
            "a\nb",
            "a`id`",
            "$(id)",
            "h;id",
            "m|e@host",
            "h/x",
            "me\\@host",
            "h'x",
        ] {
            assert!(check_destination(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_command_is_split_as_a_shell_would_and_nothing_is_expanded() {
        let split = |text: &str| split_words(text.as_bytes()).unwrap();
        assert_eq!(split("ssh -J gate  -i '/a b/key'"), ["ssh", "-J", "gate", "-i", "/a b/key"]);
        assert_eq!(
            split(r#"ssh "-oProxyCommand=nc \"x\" $HOME" a\ b ''"#),
            ["ssh", r#"-oProxyCommand=nc "x" $HOME"#, "a b", ""]
        );
        assert_eq!(split("  "), Vec::<OsString>::new());
        for bad in ["ssh 'x", "ssh \"x", "ssh \\"] {
            assert!(split_words(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_real_shell_reads_back_what_was_quoted() {
        for word in [
            &b"plain"[..],
            b"",
            b"a b",
            b"it's",
            b"-n",
            b"$HOME `id` \\ \"",
            b"line\nbreak",
            b"\xff*?[x]",
            b"a!b",
        ] {
            let mut script = b"printf %s ".to_vec();
            script.extend(quote(word));
            let out = Command::new("sh").arg("-c").arg(OsString::from_vec(script)).output().unwrap();
            // printf takes `--` and nothing else for itself; a dash in front is data here.
            assert_eq!(out.stdout, word, "{}", String::from_utf8_lossy(word));
        }
        assert_eq!(quote(b"~/a b"), b"~/'a b'");
    }

    /// What becomes of an upload of 16 pieces by this shell script in place of ssh.
    fn uploaded(ssh: &str) -> Result<(Vec<u8>, Option<i32>)> {
        let scratch = tempfile::tempdir().unwrap();
        let (path, upload) = (scratch.path().join("ssh.sh"), scratch.path().join("upload"));
        std::fs::write(&upload, vec![7; 16 * 65_536]).unwrap();
        let take = "take() { dd bs=65536 count=1 of=/dev/null 2>/dev/null; }";
        std::fs::write(&path, format!("{take}\n{ssh}\n")).unwrap();
        let command = format!("sh {}", path.display());
        let ssh = Ssh::new(OsStr::new(&command), "far", None).unwrap();
        run_script_for(&ssh, "true", Some(File::open(upload).unwrap()), Duration::from_secs(2))
    }

    #[test]
    fn an_upload_may_last_while_it_gets_on_and_says_how_far_it_came() {
        // Longer than the patience in all, and far shorter from one piece to the next.
        let slow = "for piece in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.25; take; done; echo arrived";
        let (said, code) = uploaded(slow).unwrap();
        assert_eq!((said.as_slice(), code), (&b"arrived\n"[..], Some(0)));
        let said = |ssh: &str| uploaded(ssh).unwrap_err().cause;
        let stuck = said("take; take; exec sleep 60");
        assert!(
            stuck.contains("upload to far") && stuck.ends_with("took 131072 of 1048576 bytes"),
            "{stuck}"
        );
        let lost = said("take; exit 255");
        assert!(lost.contains("line was lost; ssh took 65536 of 1048576"), "{lost}");
        for never in ["exec sleep 60", "exit 255"] {
            assert_eq!(said(never), "ssh did not reach far");
        }
    }

    #[test]
    fn an_end_without_a_word_may_be_a_csh_that_did_not_find_the_program() {
        let ssh = Ssh::new(OsStr::new("ssh"), "far", None).unwrap();
        let program = FarProgram::at("thalweg".into());
        let why = |code: i32, noise: &[u8]| why_ended(&ssh, &program, Some(code), noise).failure;
        assert_eq!(why(1, b"\n").kind, FailureKind::NotFound);
        assert_eq!(why(1, b"thalweg 0.0.1\n").kind, FailureKind::Protocol);
        assert_eq!(why(3, b"").kind, FailureKind::Protocol);
    }

    #[test]
    fn each_progress_moves_the_deadline() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut progress = Progress { seen: 0, since: begin, patience: 3 * second };
        for (at, seen, is_stuck) in [
            (1, 0, false),
            (2, 5, false),
            (4, 5, false),
            (5, 5, true),
            (6, 6, false),
            (8, 6, false),
            (9, 6, true),
        ] {
            assert_eq!(progress.is_stuck(begin + at * second, seen), is_stuck, "{at}");
        }
    }

    #[test]
    fn ssh_gets_the_host_behind_a_double_dash_and_one_remote_word() {
        let ssh = Ssh::new(OsStr::new("/usr/bin/ssh -J gate"), "me@host", Some(2222)).unwrap();
        let program = FarProgram::from_command(OsStr::new("'/opt/my thalweg'")).unwrap();
        let command = ssh.command(&program.line(&["mover", "--bridge", "7"]), true);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        assert_eq!(arguments[..2], ["-J", "gate"]);
        let tail = ["-p", "2222", "--", "me@host", "'/opt/my thalweg' mover --bridge 7"];
        assert_eq!(arguments[arguments.len() - 5..], tail);
        let other = Ssh::new(OsStr::new("wrapper"), "host", None).unwrap();
        let arguments: Vec<_> =
            other.command(OsStr::new("x"), true).get_args().map(OsStr::to_owned).collect();
        assert_eq!(arguments, ["host", "x"]);
    }
}
