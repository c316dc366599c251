//! A copy between two far places: a *deputy*, a thalweg at one of the two ends, runs it in our stead.
//!
//! 1. [`Errand::of`] says which end acts: the source if ssh reaches it, else the destination if ssh reaches that. Data
//!    travel between the two ends, and not through this machine, but where neither end can dial the other.
//! 2. [`Errand::run`] starts the deputy by ssh, gives it the command with the files that go along, tells what it says
//!    and what rate is wanted, and does for it what takes a login at the other end ([`Steward`]).
//! 3. [`client_line`] is, in the program that the deputy runs, the way back to here.
//!
//! The deputy does not outlive us: when ssh ends, or it hears nothing of us for long, it stops its copy in order, and
//! the same command resumes.

use crate::far_movers::{How, Whom, is_same_mover, place_there};
use crate::place::Place;
use crate::{not_here, ssh, threads};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use thalweg_mover::basin::Evidence;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::ssh::Only;
use thalweg_mover::link::ssh::deputy::{Next, StartedDeputy};
use thalweg_mover::link::ssh::errand::{
    self, ASKS_MAX, Answer, Ask, Attached, ERRAND_LINE_BYTES_MAX, FromDeputy, HERE_EVERY, Limit, Nothing,
    Outcome, PIECE_BYTES_MAX, Piece, RETURNED_BYTES_MAX, Returned, Said, ToDeputy,
};
use thalweg_mover::run::by_client::ClientLine;
use thalweg_mover::run::copy::Stop;
use thalweg_mover::run::steer::Rate;
use thalweg_mover::run::steward::Steward;
use thalweg_sys::Replace;
use thalweg_sys::atomic_file::{AtomicFile, Durability};
use thalweg_sys::process::user_mode;
use thalweg_wire::hex::hex;
pub use thalweg_wire::message::ErrandCounts;

/// What a deputy's copy has in its environment where its stdin is the line to the deputy.
pub const CLIENT_LINE: &str = "THALWEG_CLIENT_LINE";

/// Between two looks whether somebody asked to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Time for a deputy that was asked to stop: it ends its copy by force before.
const STOP_LIMIT: Duration = Duration::from_secs(660);
/// Time for ssh to end when the copy has.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Time for logins for the copy to end when it is over: they are asked to, and killed after 3 s.
const ASKS_LIMIT: Duration = Duration::from_secs(4);
/// Time for a signal that ended ssh, too, to be heard here: a terminal's Ctrl-C reaches both.
pub const SIGNAL_LIMIT: Duration = Duration::from_millis(200);
/// Between two looks whether another rate is wanted.
const LIMIT_LOOK: Duration = Duration::from_millis(250);
/// Between two words on where its time goes, at least: each is a file that is written.
const EVIDENCE_EVERY: Duration = Duration::from_millis(500);
/// Bytes of one line of a copy's stdout, at most.
const OUT_BYTES_MAX: usize = 4 << 20;

/// A copy that a deputy is to run. See the module.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The host of the acting end, and its port.
    host: String,
    port: Option<u16>,
    other: Other,
    sources: Vec<Place>,
    destination: Place,
    /// Whether the acting end is that of the sources.
    sends: bool,
}

/// The end that does not act.
#[derive(Debug, Clone)]
enum Other {
    /// It is at the same host.
    Here,
    /// A daemon, and the ticket that the configuration gives for it.
    Daemon(Option<PathBuf>),
    /// A destination at another host.
    Ssh { host: String, port: Option<u16>, path: Vec<u8> },
}

/// What a deputy is given.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The command, `cp` or `sync`, its options and its [places](Errand::places). `{file:NAME}`, a word of its own or
    /// behind the first `=` of one, becomes the path of a file that goes along, `{back:NAME}` of one that comes back.
    pub words: Vec<OsString>,
    /// Files that go along: each with its name (letters, digits, `-`, `_`, `.`) and what is in it.
    pub attached: Vec<(String, Vec<u8>)>,
    /// Files that come back: each with its name, and where it is written here.
    pub returned: Vec<(String, PathBuf)>,
    /// Whether [`Told::Progress`] and [`Told::Evidence`] are wanted.
    pub progress: bool,
    /// The rate that it is to keep, which may change while it runs.
    pub rate: Arc<Rate>,
    /// How often that had [changed](Rate::changes) when it was what the words say.
    pub rate_changes: u64,
    /// Which copy of its command it is, from 1 on.
    pub number: usize,
    /// How many there are.
    pub copies: usize,
}

/// What a deputy tells. No text has a control character in it.
#[derive(Debug, Clone)]
pub enum Told {
    /// A line of the copy's stdout.
    Out(String),
    /// A line of its stderr.
    Err(String),
    /// How far it is.
    Progress(ErrandCounts),
    /// Where its time goes: every second or so, and at its end.
    Evidence(Box<Evidence>),
    /// Something of ours.
    Note(String),
}

/// The line to who started the deputy that runs this program; `None` where none does. To be had once: stdin is taken
/// for it.
///
/// # Errors
/// If it cannot be had.
pub fn client_line() -> Result<Option<Arc<ClientLine>>> {
    if std::env::var_os(CLIENT_LINE).is_none_or(|set| set.is_empty()) {
        return Ok(None);
    }
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let socket = socket.map_err(|error| failure::of_io("speak with the deputy", &error))?;
    ClientLine::new(socket).map(Some)
}

impl Errand {
    /// Which end acts, or the refusal. `command` is what was asked for: `cp`.
    ///
    /// # Errors
    /// `Unsupported` if neither end is reached by ssh; `Usage` if one of the places is not far.
    pub fn of(command: &str, sources: &[Place], destination: &Place) -> Result<Errand> {
        let ends = sources.first().and_then(Whom::of).zip(Whom::of(destination));
        let Some((from, to)) = ends else {
            let cause = "one of the two places is not far";
            return Err(Failure::new(FailureKind::Usage, "read the places", cause));
        };
        let of_daemon = |whom: &Whom| match whom {
            Whom::Daemon(_, ticket) => Some(Other::Daemon(ticket.clone())),
            Whom::Ssh(..) => None,
        };
        let is_same = sources.first().is_some_and(|source| is_same_mover(source, destination));
        let (host, port, sends, other) = match (from, to) {
            (Whom::Ssh(host, port), _) if is_same => (host, port, true, Other::Here),
            (Whom::Ssh(host, port), Whom::Ssh(other_host, other_port)) => {
                let path = place_there(destination).map(|place| place.path).unwrap_or_default();
                (host, port, true, Other::Ssh { host: other_host, port: other_port, path })
            }
            (Whom::Ssh(host, port), daemon) => (host, port, true, of_daemon(&daemon).unwrap_or(Other::Here)),
            (daemon, Whom::Ssh(host, port)) => (host, port, false, of_daemon(&daemon).unwrap_or(Other::Here)),
            (Whom::Daemon(..), Whom::Daemon(..)) => {
                return Err(not_here::both_far(command, sources, destination));
            }
        };
        let (sources, destination) = (sources.to_vec(), destination.clone());
        Ok(Errand { host, port, other, sources, destination, sends })
    }

    /// The acting end, `[user@]host[:port]`.
    pub fn acting(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// The other end as far movers are told apart, which the acting end dials; `None` if both are at one host.
    pub fn other_end(&self) -> Option<Whom> {
        match &self.other {
            Other::Here => None,
            Other::Daemon(_) | Other::Ssh { .. } if self.sends => Whom::of(&self.destination),
            Other::Daemon(_) | Other::Ssh { .. } => self.sources.first().and_then(Whom::of),
        }
    }

    /// The ticket of an other end that is a daemon, which has to go along; `None` if there is none, or it is no daemon.
    pub fn ticket(&self, how: &How) -> Option<PathBuf> {
        match &self.other {
            Other::Daemon(ticket) => ticket.clone().or_else(|| how.ticket.clone()),
            Other::Here | Other::Ssh { .. } => None,
        }
    }

    /// The places as they stand in the deputy's words: the acting end's as paths there, the other end's as they are.
    pub fn places(&self) -> Vec<OsString> {
        let is_both = matches!(self.other, Other::Here);
        let word = |place: &Place, is_there: bool| match is_there {
            true => path_there(place),
            false => place.word().unwrap_or_default(),
        };
        let sources = self.sources.iter().map(|source| word(source, self.sends || is_both));
        sources.chain([word(&self.destination, !self.sends || is_both)]).collect()
    }

    /// Runs it to its end: returns the exit code of the copy there. Its user may be asked for passwords, first for the
    /// acting end and later for the other one.
    ///
    /// # Errors
    /// `Connection` where ssh does not get there, or ends before the copy does; `NotFound` if there is no program;
    /// `Protocol` if it is too old or too new; `Usage` for what cannot be given to a deputy; `Stopped` if it was
    /// stopped and did not end there in order.
    pub fn run(
        &self,
        given: Given,
        how: &How,
        _state: &Path,
        told: &(dyn Fn(Told) + Sync),
        stop: &Stop,
    ) -> Result<i32> {
        let acting = ssh::wishes(&self.host, self.port, how)?;
        let other = match &self.other {
            Other::Ssh { host, port, path } => Some((ssh::wishes(host, *port, how)?, Only::new(path, true))),
            Other::Daemon(_) | Other::Here => None,
        };
        let to_send = to_send(&given)?;
        let steward = Arc::new(Steward::new(acting, other));
        self.attend(&steward, given, to_send, told, stop).map_err(|failure| {
            // Whatever it was: a signal ends ssh in many ways, and may be heard here later.
            let is_stopped = failure.kind != FailureKind::Stopped && !stop.pause(SIGNAL_LIMIT);
            if is_stopped { stopped(&self.acting(), &failure.cause) } else { failure }
        })
    }

    /// Starts the deputy, and attends to it until its copy has ended.
    fn attend(
        &self,
        steward: &Arc<Steward>,
        given: Given,
        (errand, attached): (ToDeputy, Vec<Vec<u8>>),
        told: &(dyn Fn(Told) + Sync),
        stop: &Stop,
    ) -> Result<i32> {
        let deputy = Arc::new(steward.start_deputy(&|| stop.is_asked())?);
        let sends = deputy.clone();
        let (goes_on, over) = mpsc::channel();
        // It may have changed while somebody typed a password.
        let (rate, changes) = (given.rate.clone(), given.rate_changes);
        // If ssh takes nothing, it has ended, and that is heard.
        threads::spawn("errand", move || send(&sends, errand, &attached, (&rate, changes), &over))?;
        let mut hearing = Hearing {
            name: self.acting(),
            deputy: &deputy,
            steward,
            told,
            out: String::new(),
            back: given.returned.into_iter().map(Back::of).collect(),
            asks: Arc::default(),
            evidence: None,
            evidence_at: None,
        };
        let ended = hearing.hear(stop);
        hearing.tell_evidence();
        drop(goes_on);
        // First: the last words of its ssh are waited for when all is closed.
        deputy.end(if ended.is_ok() { END_LIMIT } else { Duration::ZERO });
        steward.close();
        // An ssh that asks for a password would outlive us, and keep the terminal as it made it.
        await_end(&hearing.asks, ASKS_LIMIT);
        let code = ended?;
        for back in &hearing.back {
            if code == 0 && !back.is_whole {
                let cause = format!("{} did not send it back", self.acting());
                let failure = Failure::new(FailureKind::Io, "write", cause);
                return Err(failure::at_path(failure, &back.path));
            }
        }
        Ok(code)
    }
}

/// A path at the acting end, as it is read there: never as another kind of place.
fn path_there(place: &Place) -> OsString {
    let path = place_there(place).map(|place| place.path).unwrap_or_default();
    let is_plain = path.starts_with(b"/") || path.starts_with(b"./") || path == b".";
    OsString::from_vec(match is_plain {
        true => path,
        false if path.is_empty() => b".".to_vec(),
        false => [b"./", path.as_slice()].concat(),
    })
}

/// The errand as it is told, within its bounds, and what goes along with it.
fn to_send(given: &Given) -> Result<(ToDeputy, Vec<Vec<u8>>)> {
    let usage = |cause: &str| Failure::new(FailureKind::Usage, "read the command line", cause);
    let file = |(name, bytes): &(String, Vec<u8>)| Attached { name: name.clone(), bytes: bytes.len() as u64 };
    let errand = errand::Errand {
        words: given.words.iter().map(|word| hex(word.as_bytes())).collect(),
        files: given.attached.iter().map(file).collect(),
        returned: given.returned.iter().map(|(name, _)| name.clone()).collect(),
        progress: given.progress,
        number: given.number,
        copies: given.copies,
    };
    errand.check().map_err(|failure| usage(&failure.cause))?;
    let errand = ToDeputy::Errand(errand);
    if errand.to_line().len() > ERRAND_LINE_BYTES_MAX {
        let cause = "the command is too long for a far machine: name the directory that the sources are in";
        return Err(usage(cause));
    }
    Ok((errand, given.attached.iter().map(|(_, bytes)| bytes.clone()).collect()))
}

/// Says all, and then that we are here, and each rate that is wanted after so many `changes` of it, until it is `over`,
/// or ssh takes no more.
fn send(
    deputy: &StartedDeputy,
    errand: ToDeputy,
    attached: &[Vec<u8>],
    (rate, mut changes): (&Rate, u64),
    over: &Receiver<()>,
) {
    let pieces = attached.iter().enumerate().flat_map(|(file, bytes)| {
        let piece = move |bytes: &[u8]| Piece { file, data: errand::to_data(bytes) };
        bytes.chunks(PIECE_BYTES_MAX).map(move |bytes| ToDeputy::Piece(piece(bytes)))
    });
    let mut all = std::iter::once(errand).chain(pieces).chain([ToDeputy::Begin(Nothing {})]);
    let mut goes_on = all.try_for_each(|what| deputy.say(&what)).is_ok();
    let mut said_at = Instant::now();
    while goes_on && matches!(over.recv_timeout(LIMIT_LOOK), Err(RecvTimeoutError::Timeout)) {
        let what = if rate.changes() != changes {
            changes = rate.changes();
            ToDeputy::Limit(Limit { bytes_per_s: rate.bytes_per_s() })
        } else if said_at.elapsed() >= HERE_EVERY {
            ToDeputy::Here(Nothing {})
        } else {
            continue;
        };
        said_at = Instant::now();
        goes_on = deputy.say(&what).is_ok();
    }
}

/// What is heard of a deputy.
struct Hearing<'a> {
    name: String,
    deputy: &'a Arc<StartedDeputy>,
    steward: &'a Arc<Steward>,
    told: &'a (dyn Fn(Told) + Sync),
    /// The beginning of a long line.
    out: String,
    back: Vec<Back>,
    /// Asks that are worked on.
    asks: Arc<AtomicUsize>,
    /// Where its time goes, unless that is told.
    evidence: Option<Box<Evidence>>,
    /// When that was told last.
    evidence_at: Option<Instant>,
}

impl Hearing<'_> {
    /// Until the copy has ended; its exit code.
    fn hear(&mut self, stop: &Stop) -> Result<i32> {
        let mut stopping: Option<Instant> = None;
        loop {
            if stop.is_asked() && stopping.is_none() {
                stopping = Some(Instant::now());
                let deputy = self.deputy.clone();
                // It waits while files go along.
                threads::spawn("stop", move || deputy.say(&ToDeputy::Stop(Nothing {})))?;
            }
            if stopping.is_some_and(|since| since.elapsed() > STOP_LIMIT) {
                return Err(stopped(&self.name, "it did not stop in time"));
            }
            if self.evidence_at.is_none_or(|at| at.elapsed() >= EVIDENCE_EVERY) {
                self.tell_evidence();
            }
            match self.deputy.next(LOOK_AGAIN)? {
                Next::Said(FromDeputy::Exit(code)) => return Ok(code),
                Next::Said(said) => self.take(said)?,
                Next::Nothing => {}
                Next::Over if stop.is_asked() => return Err(stopped(&self.name, "it stops in order")),
                Next::Over => {
                    let code = self.deputy.end(END_LIMIT);
                    if !stop.pause(SIGNAL_LIMIT) {
                        return Err(stopped(&self.name, "it stops in order"));
                    }
                    let how = code.map_or("by a signal".to_owned(), |code| format!("with exit code {code}"));
                    let cause = format!(
                        "{}: ssh ended {how} before the copy there did, which stops; the same command resumes it",
                        self.name
                    );
                    let failure = Failure::new(FailureKind::Connection, "copy", cause);
                    return Err(failure.because(Reason::SshEnded));
                }
            }
        }
    }

    fn take(&mut self, said: FromDeputy) -> Result<()> {
        match said {
            FromDeputy::Out(text) => {
                let line = std::mem::take(&mut self.out) + &text;
                (self.told)(Told::Out(inert(&line)));
            }
            FromDeputy::OutPart(text) => {
                if self.out.len() + text.len() > OUT_BYTES_MAX {
                    return Err(self.odd("a line without end"));
                }
                self.out.push_str(&text);
            }
            FromDeputy::Err(text) => (self.told)(Told::Err(inert(&text))),
            FromDeputy::Progress(progress) => (self.told)(Told::Progress(progress)),
            FromDeputy::Evidence(evidence) => {
                self.evidence = read_evidence(evidence).or(self.evidence.take());
            }
            FromDeputy::Ask(ask) => self.answer(ask)?,
            FromDeputy::File(piece) => self.back(&piece.name)?.add(&piece)?,
            FromDeputy::FileEnd(piece) => self.back(&piece.name)?.finish()?,
            FromDeputy::Exit(_) => {}
        }
        Ok(())
    }

    fn tell_evidence(&mut self) {
        if let Some(evidence) = self.evidence.take() {
            self.evidence_at = Some(Instant::now());
            (self.told)(Told::Evidence(evidence));
        }
    }

    /// Each in a thread of its own: a login takes its time.
    fn answer(&self, ask: Ask) -> Result<()> {
        let (deputy, steward) = (self.deputy.clone(), self.steward.clone());
        let (working, before) = Working::begin(&self.asks);
        if before >= ASKS_MAX {
            return Err(self.odd("too many questions at once"));
        }
        threads::spawn("ask", move || {
            let _working = working;
            let outcome: Outcome = steward.answer(&ask.what);
            if let Outcome::Failed(failed) = &outcome {
                let failure = failed.failure();
                tracing::info!(%failure, "not done for the deputy");
            }
            // A deputy that is gone needs no answer.
            let _ = deputy.say(&ToDeputy::Answer(Answer { id: ask.id, outcome }));
        })
        .map(drop)
    }

    fn back(&mut self, name: &str) -> Result<&mut Back> {
        let odd = self.odd("a file that nobody asked for");
        self.back.iter_mut().find(|back| back.name == name).ok_or(odd)
    }

    fn odd(&self, what: &str) -> Failure {
        let cause = format!("{}: the far thalweg sends {what}", self.name);
        Failure::new(FailureKind::Protocol, "copy", cause).because(Reason::FarProgramDiffers)
    }
}

/// Where its time goes. What another version has otherwise is not told, nor what no peer may tell of itself.
fn read_evidence(told: Value) -> Option<Box<Evidence>> {
    let evidence: Box<Evidence> = serde_json::from_value(told).ok()?;
    let are_within = [&evidence.sender, &evidence.receiver].iter().all(|side| side.check().is_ok());
    are_within.then_some(evidence)
}

/// Held while an ask is worked on.
struct Working(Arc<AtomicUsize>);

impl Working {
    /// And how many there were before.
    fn begin(asks: &Arc<AtomicUsize>) -> (Working, usize) {
        let before = asks.fetch_add(1, Ordering::AcqRel);
        (Working(asks.clone()), before)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Until no ask is worked on, and at most so long.
fn await_end(asks: &AtomicUsize, limit: Duration) {
    let until = Instant::now() + limit;
    while asks.load(Ordering::Acquire) > 0 && Instant::now() < until {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Of a copy at the acting end `name` that did not end there before we did.
fn stopped(name: &str, how: &str) -> Failure {
    let cause = format!("the copy at {name}: {how}; the same command resumes it");
    Failure::new(FailureKind::Stopped, "copy", cause)
}

/// A file that comes back: it is there when it is whole.
struct Back {
    name: String,
    path: PathBuf,
    file: Option<AtomicFile>,
    bytes: u64,
    is_whole: bool,
}

impl Back {
    fn of((name, path): (String, PathBuf)) -> Back {
        Back { name, path, file: None, bytes: 0, is_whole: false }
    }

    fn add(&mut self, piece: &Returned) -> Result<()> {
        let bytes = errand::of_data(&piece.data)?;
        self.bytes += bytes.len() as u64;
        if self.bytes > RETURNED_BYTES_MAX {
            let failure = Failure::new(FailureKind::Protocol, "write", "it has no end");
            return Err(failure::at_path(failure, &self.path));
        }
        let of_io = |error: &std::io::Error| failure::at_path(failure::of_io("write", error), &self.path);
        if self.file.is_none() {
            let file = AtomicFile::begin(&self.path, user_mode(), Durability::Synced);
            self.file = Some(file.map_err(|error| of_io(&error.cause))?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        file.file().write_all(&bytes).map_err(|error| of_io(&error))
    }

    fn finish(&mut self) -> Result<()> {
        // One that is empty came in no piece.
        self.add(&Returned { name: self.name.clone(), data: String::new() })?;
        let Some(file) = self.file.take() else { return Ok(()) };
        let finished = file.finish(Replace::Existing);
        finished
            .map_err(|error| failure::at_path(failure::of_io("write", &error.cause), &self.path))
            .inspect(|()| self.is_whole = true)
    }
}

/// Text of a far machine, of which nothing is an order to a terminal.
fn inert(text: &str) -> String {
    let inert = |c: char| if c.is_control() && c != '\t' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(inert).collect()
}

/// What stands for a file in a word: the word, or what is behind its first `=`, is `{KIND:NAME}` of one of these names.
/// The word with the path that `path` has for it.
pub fn with_path(word: &OsStr, kind: &str, path: impl Fn(&str) -> Option<PathBuf>) -> Option<OsString> {
    let bytes = word.as_bytes();
    let begins = format!("{{{kind}:");
    let name = |bytes: &[u8]| {
        let name = bytes.strip_prefix(begins.as_bytes())?.strip_suffix(b"}")?;
        path(std::str::from_utf8(name).ok()?)
    };
    if let Some(path) = name(bytes) {
        return Some(path.into_os_string());
    }
    let at = bytes.iter().position(|&byte| byte == b'=')? + 1;
    let mut whole = OsStr::from_bytes(&bytes[..at]).to_owned();
    whole.push(name(&bytes[at..])?);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::far_movers::SshOptions;
    use crate::place::Places;
    use thalweg_wire::account::{LimitAccount, MACHINE_BYTES_MAX, SideAccounts};

    fn place(text: &str) -> Place {
        Place::parse(OsStr::new(text), &Places::default()).unwrap()
    }

    fn errand(sources: &[&str], destination: &str) -> Result<Errand> {
        let sources: Vec<Place> = sources.iter().map(|text| place(text)).collect();
        Errand::of("cp", &sources, &place(destination))
    }

    #[test]
    fn the_end_acts_that_ssh_reaches_and_of_two_that_of_the_source() {
        for (from, to, acting, places) in [
            ("a:x", "b:y", "a", ["./x", "b:y"]),
            ("ssh://me@a:22/x/", "ssh://b:23/~/y", "me@a:22", ["/x/", "ssh://b:23/~/y"]),
            ("a:x", "tw://b/e/y", "a", ["./x", "tw://b:8487/e/y"]),
            ("tw://a/e/x", "b:y", "b", ["tw://a:8487/e/x", "./y"]),
            ("a:x", "a:y/", "a", ["./x", "./y/"]),
            ("a:~/zero:1", "b:", "a", ["./zero:1", "b:"]),
            ("a:", "b:~", "a", [".", "b:~"]),
        ] {
            let errand = errand(&[from], to).unwrap();
            assert_eq!(errand.acting(), acting, "{from} {to}");
            assert_eq!(errand.places(), places.map(OsString::from), "{from} {to}");
        }
        let failure = errand(&["tw://a/e/x"], "tw://b/e/y").unwrap_err();
        assert_eq!(failure.reason, Reason::BothFar);
        assert_eq!(errand(&["x"], "b:y").unwrap_err().kind, FailureKind::Usage);
        assert_eq!(errand(&[], "b:y").unwrap_err().kind, FailureKind::Usage);
    }

    /// What the mover there serves alone has to be what the copy names.
    #[test]
    fn the_other_end_is_read_at_the_acting_end_as_it_is_read_here() {
        for to in ["b:y", "b:", "b:~/", "b:./~x/y", "b:./:x", "ssh://b//y", "ssh://b:23/~/~x", "m@[::1]:y/"] {
            let errand = errand(&["a:x"], to).unwrap();
            let word = errand.places().pop().unwrap();
            let there = Place::parse(&word, &Places::default()).unwrap();
            assert_eq!(Whom::of(&there), Whom::of(&place(to)), "{to}");
            let Other::Ssh { path, .. } = &errand.other else { panic!("{to}") };
            assert_eq!(Some(path), place_there(&there).map(|place| place.path).as_ref(), "{to}");
        }
        let mut odd = OsString::from("b:");
        odd.push(OsStr::from_bytes(b"\xff\n"));
        let odd = Place::parse(&odd, &Places::default()).unwrap();
        let errand = Errand::of("cp", &[place("a:x")], &odd).unwrap();
        let there = Place::parse(&errand.places()[1], &Places::default()).unwrap();
        assert_eq!(place_there(&there), place_there(&odd));
    }

    #[test]
    fn a_ticket_goes_along_only_to_an_end_that_reaches_a_daemon() {
        let how = How::to_ask(&Places::default(), Some(Path::new("/t")), SshOptions::default());
        assert_eq!(errand(&["a:x"], "tw://b/e/y").unwrap().ticket(&how), Some(PathBuf::from("/t")));
        assert_eq!(errand(&["a:x"], "b:y").unwrap().ticket(&how), None);
        assert_eq!(errand(&["a:x"], "a:y").unwrap().ticket(&how), None);
    }

    #[test]
    fn a_word_names_a_file_as_a_whole_or_behind_its_first_equals_sign() {
        let path = |name: &str| (name == "ticket").then(|| PathBuf::from("/proc/self/fd/7"));
        let with = |word: &str| with_path(OsStr::new(word), "file", path);
        assert_eq!(with("{file:ticket}"), Some("/proc/self/fd/7".into()));
        assert_eq!(with("--ticket={file:ticket}"), Some("--ticket=/proc/self/fd/7".into()));
        for word in ["ticket", "{file:other}", "{back:ticket}", "x{file:ticket}", "a=b={file:ticket}", ""] {
            assert_eq!(with(word), None, "{word}");
        }
    }

    #[test]
    fn what_does_not_fit_an_errand_is_refused_before_anybody_is_asked() {
        let refused = |given: Given| to_send(&given).err().unwrap();
        let words = vec!["x".repeat(ERRAND_LINE_BYTES_MAX).into()];
        assert_eq!(refused(Given { words, ..Given::default() }).kind, FailureKind::Usage);
        let attached = vec![("../x".to_owned(), Vec::new())];
        assert_eq!(refused(Given { attached, ..Given::default() }).kind, FailureKind::Usage);
        let attached = vec![("a".to_owned(), vec![0; (errand::ATTACHED_BYTES_MAX + 1) as usize])];
        assert!(refused(Given { attached, ..Given::default() }).cause.contains("64 MiB"));
    }

    #[test]
    fn a_file_that_comes_back_is_there_when_it_is_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("receipt");
        let mut back = Back::of(("receipt".to_owned(), path.clone()));
        let piece = |data: &[u8]| Returned { name: "receipt".to_owned(), data: errand::to_data(data) };
        back.add(&piece(b"one\n")).unwrap();
        assert!(!path.exists());
        back.add(&piece(b"two\n")).unwrap();
        back.finish().unwrap();
        assert!(back.is_whole);
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
        let empty = scratch.path().join("empty");
        let mut back = Back::of(("receipt".to_owned(), empty.clone()));
        back.finish().unwrap();
        assert_eq!(std::fs::read(&empty).unwrap(), b"");
        // One that was cut off leaves nothing.
        let mut cut = Back::of(("receipt".to_owned(), scratch.path().join("cut")));
        cut.add(&piece(b"one\n")).unwrap();
        drop(cut);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_ask_that_is_worked_on_is_waited_for_and_not_for_ever() {
        let asks = Arc::new(AtomicUsize::new(0));
        let (working, before) = Working::begin(&asks);
        assert_eq!((before, Working::begin(&asks).1), (0, 1));
        await_end(&asks, LOOK_AGAIN);
        assert_eq!(asks.load(Ordering::Acquire), 1);
        let works = threads::spawn("ask", move || {
            let _working = working;
            std::thread::sleep(LOOK_AGAIN * 2);
        });
        await_end(&asks, Duration::from_secs(60));
        assert_eq!(asks.load(Ordering::Acquire), 0);
        works.unwrap().join().unwrap();
    }

    #[test]
    fn evidence_beyond_the_bounds_of_what_a_peer_tells_of_itself_is_dropped() {
        let machine = |bytes: usize| {
            let limit = LimitAccount { machine: "m".repeat(bytes), ..LimitAccount::default() };
            SideAccounts { limit: Some(limit), ..SideAccounts::default() }
        };
        let (fits, other) = (machine(MACHINE_BYTES_MAX), machine(MACHINE_BYTES_MAX + 1));
        for (sender, receiver, is_told) in
            [(&fits, &fits, true), (&fits, &other, false), (&other, &fits, false)]
        {
            let (sender, receiver) = (sender.clone(), receiver.clone());
            let evidence = Evidence { sender, receiver, ..Evidence::default() };
            let told = read_evidence(serde_json::to_value(&evidence).unwrap());
            assert_eq!(told.map(|told| *told), is_told.then_some(evidence));
        }
        assert_eq!(read_evidence(serde_json::json!({ "bytes": "many" })), None);
    }

    #[test]
    fn text_of_a_far_machine_is_no_order_to_a_terminal() {
        assert_eq!(inert("a\u{1b}[31m\tb\r\u{9b}\u{e4}"), "a\u{fffd}[31m\tb\u{fffd}\u{fffd}\u{e4}");
    }
}
