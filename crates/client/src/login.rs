//! Logins at identity providers that are kept, for all commands of this user.
//!
//! 1. [`Account::log_in`] has a code, has the login before taken back, waits until somebody approves the code, and
//!    keeps what is granted.
//! 2. Who needs a token has the one that is kept. One that ends within [`EARLY`] is refreshed before: by one process at
//!    a time, under a lock, with room for what comes, which is durable before it is used. So a provider that gives
//!    another refresh token each time, and takes the old one no more, finds us with the new one. From the question
//!    until that is so nothing ends the process (`unbroken`).
//! 3. [`Account::log_out`] has it taken back where the provider has a place for that, and forgets it.
//!
//! They lie in `logins` of the user's state directory, whatever directory a command is told for its own state: one file
//! of mode 0600 for each server, issuer and client, and a lock beside it. So the token of a login is shown to that
//! server alone: any other may name the same issuer and client in a place file of its own. Not guaranteed: who is
//! killed (SIGKILL) between the question and the sync of the file, or whose disk fails then until the process ends, may
//! have to log in again.

/// What nothing may cut.
mod unbroken;

/// What is kept, and its file.
mod kept;

pub use unbroken::settle;

use crate::identity;
use kept::{Kept, Whose};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::place_file::Issuer;
use thalweg_mover::link::secret_file::{self, Room};
use thalweg_mover::link::{Fingerprint, PlaceFile, Token};
use thalweg_mover::mutex;
use thalweg_sys::{Dir, File, clock, process};
use thalweg_tokens::{Asked, GRANT_LIMIT, Granted, LOGIN_LIMIT, Login, Pace, Polled};
use thalweg_wire::limits::TOKEN_BYTES_MAX;
use unbroken::Unbroken;

/// A token that ends so soon is refreshed: nobody is refused for a clock that is a bit ahead.
const EARLY: Duration = Duration::from_secs(60);
/// So long another process may hold a login: it waits for two answers of a provider, and for the disk.
const LOCK_WAIT: Duration = Duration::from_secs(LOGIN_LIMIT.as_secs() + GRANT_LIMIT.as_secs() + 10);
/// So long a provider that did not answer is not asked again by this process: each dial would wait for it. It is less
/// than the 20 s between two looks whether there is another token.
const REST: Duration = Duration::from_secs(15);
/// Who waits looks so often.
const LOOK: Duration = Duration::from_millis(100);
/// Where they are in the state directory.
const DIRECTORY: &str = "logins";
/// What the lock of a login is called, behind its name.
const LOCK: &str = ".lock";
/// Largest such file: two tokens, a server, an issuer and a client.
const FILE_BYTES_MAX: usize = 2 * TOKEN_BYTES_MAX + 2048;

/// What fails.
const LOG_IN: &str = "log in";
const READ: &str = "read the login";
const KEEP: &str = "keep the login";

/// Who logs in where, to be let in by whom.
#[derive(Debug)]
pub struct Account {
    server: Fingerprint,
    issuer: String,
    client: String,
    scopes: Vec<String>,
    resource: Option<String>,
    directory: PathBuf,
    /// When a token was last to be refreshed and nobody answered, and what was said of that.
    unanswered: Mutex<Option<(Instant, Failure)>>,
    /// What was granted by this refresh token and could not be kept.
    unkept: Mutex<Option<(Token, Kept)>>,
}

/// What came of a login.
#[derive(Debug, Clone, Copy)]
pub struct LoggedIn {
    /// When its token ends, in seconds since 1970.
    pub ends_at: u64,
    /// Whether there are others after that.
    pub renews: bool,
}

/// Whether a login that is forgotten was taken back at its provider.
#[derive(Debug)]
pub enum TakenBack {
    /// It was.
    Yes,
    /// The provider has no place for that.
    NoPlace,
    /// It was to be, and why it was not.
    Failed(Failure),
}

impl Account {
    /// Those of a place file: of each issuer for which it says how one logs in.
    ///
    /// # Errors
    /// If there is no home.
    pub fn all_of(place: &PlaceFile) -> Result<Vec<Account>> {
        let state = identity::state_path(None)?;
        Ok(place.issuers.iter().filter_map(|issuer| Account::at(issuer, place.server, &state)).collect())
    }

    fn at(issuer: &Issuer, server: Fingerprint, state: &Path) -> Option<Account> {
        let whose = Whose { server, issuer: issuer.url.clone(), client: issuer.client.clone()? };
        let (scopes, resource) = (issuer.scopes.clone(), issuer.resource.clone());
        Some(Account { scopes, resource, ..Account::of(whose, &state.join(DIRECTORY)) })
    }

    fn of(whose: Whose, directory: &Path) -> Account {
        Account {
            server: whose.server,
            issuer: whose.issuer,
            client: whose.client,
            scopes: Vec::new(),
            resource: None,
            directory: directory.to_owned(),
            unanswered: Mutex::default(),
            unkept: Mutex::default(),
        }
    }

    /// Those of all logins that are kept, whatever place files they were made by, to be logged out; of one that cannot
    /// be read why.
    ///
    /// # Errors
    /// If there is no home; what the file system says of the directory.
    pub fn all_kept() -> Result<Vec<Result<Account>>> {
        Account::kept_in(&identity::state_path(None)?.join(DIRECTORY))
    }

    fn kept_in(directory: &Path) -> Result<Vec<Result<Account>>> {
        let fail = |error: &io::Error| failure::at_path(failure::of_io(READ, error), directory);
        let listed = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed.map_err(|error| fail(&error))?,
        };
        // By name: what was left of one that is kept is no other.
        let (mut accounts, mut unread) = (BTreeMap::new(), Vec::new());
        for entry in listed {
            let path = entry.map_err(|error| fail(&error))?.path();
            let name = path.file_name().unwrap_or_default().as_bytes();
            if name.ends_with(LOCK.as_bytes()) {
                continue;
            }
            match read_at(&path) {
                Ok((whose, _)) => {
                    let account = Account::of(whose, directory);
                    accounts.insert(account.name(), account);
                }
                // What was left of one that was not written whole has nothing in it.
                Err(_) if name.starts_with(b".") => {}
                Err(failure) => unread.push(failure),
            }
        }
        Ok(accounts.into_values().map(Ok).chain(unread.into_iter().map(Err)).collect())
    }

    /// The URL of the issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What we are to the issuer.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Has a code, which `tell` shows somebody, waits until it is approved, and keeps what is granted. What was kept
    /// before is taken back as soon as there is a code, and forgotten then. `is_stopped` is asked ten times a second.
    ///
    /// # Errors
    /// `Permission` if it is refused, or not approved in time; `Stopped`; `Connection` if the provider does not answer;
    /// `Unsupported` if it has no such logins; what the file system says; what `tell` does.
    pub fn log_in(
        &self,
        tell: impl FnOnce(&Asked) -> Result<()>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<LoggedIn> {
        // From now on there is one in memory.
        let _ = process::forbid_core_dumps();
        // Before somebody approves what cannot be kept.
        self.make_directory()?;
        self.lock().and_then(|_lock| self.room().map(drop))?;
        let login = self.find()?;
        let asked = login.begin(&self.scopes)?;
        if let Err(failure) = self.take_back_last(&login) {
            tracing::warn!(issuer = %self.issuer, %failure, "the login before is not taken back");
        }
        tell(&asked)?;
        let (granted, _unbroken) = approved(&login, &asked, is_stopped)?;
        let kept = Kept::of(granted, None);
        if let Err(failure) = self.lock().and_then(|_lock| self.keep(&kept)) {
            // Nobody would have it.
            let _ = take_back(&login, &kept);
            return Err(failure);
        }
        Ok(LoggedIn { ends_at: kept.ends_at, renews: kept.refresh.is_some() })
    }

    /// Has what another login comes in the place of taken back, and forgets it: else it would be good for whoever has a
    /// copy of it, and no `log_out` would know it. Not once the other is approved: there are providers that end all
    /// logins of a client with one (decision 0022).
    fn take_back_last(&self, login: &Login) -> Result<()> {
        let _lock = self.lock()?;
        // What cannot be read is replaced.
        let Ok(Some(kept)) = self.read() else { return Ok(()) };
        match kept.refresh.is_some() && matches!(take_back(login, &kept)?, TakenBack::Yes) {
            true => self.forget(),
            false => Ok(()),
        }
    }

    /// Forgets the login, and has it taken back first; `None` if there was none.
    ///
    /// # Errors
    /// If it cannot be forgotten. One that could not be taken back is forgotten.
    pub fn log_out(&self) -> Result<Option<TakenBack>> {
        let _ = process::forbid_core_dumps();
        if self.directory.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        let _lock = self.lock()?;
        let mut taken_back = match self.read() {
            Ok(kept) => kept.map(|kept| self.take_back(&kept)),
            Err(failure) => Some(TakenBack::Failed(failure)),
        };
        let left = self.left_over().map_err(|error| self.fail(KEEP, &error))?;
        // What was left by who was killed before it had its name is newer.
        for kept in left.iter().filter_map(|path| self.read_own(path).ok()) {
            let this = self.take_back(&kept);
            taken_back = Some(match taken_back {
                Some(other) => other.or_worse(this),
                None => this,
            });
        }
        self.forget()?;
        Ok(taken_back)
    }

    fn forget(&self) -> Result<()> {
        let forgotten = Dir::open(&self.directory).and_then(|directory| {
            match directory.remove_file(self.name().as_bytes()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            self.clear_up()?;
            directory.sync()
        });
        forgotten.map_err(|error| failure::at_path(failure::of_io("forget the login", &error), &self.path()))
    }

    fn take_back(&self, kept: &Kept) -> TakenBack {
        self.find().and_then(|login| take_back(&login, kept)).unwrap_or_else(TakenBack::Failed)
    }

    /// The provider.
    fn find(&self) -> Result<Login> {
        let login = Login::find(&self.issuer, &self.client)?;
        Ok(login.asking_for(self.resource.as_deref()))
    }

    /// The token that is kept, refreshed where that is due; `None` if nobody is logged in.
    ///
    /// # Errors
    /// `Permission` (`TokenNotTaken`) if the login is over; `Connection` if the provider does not answer and the token
    /// has ended; what is wrong with the file.
    pub(crate) fn token(&self) -> Result<Option<Token>> {
        let Some(kept) = self.read()? else { return Ok(None) };
        let now = clock::unix_seconds();
        if kept.is_good(now) {
            return Ok(Some(kept.access));
        }
        match self.refreshed() {
            Err(failure) if kept.is_left(now) => {
                tracing::warn!(issuer = %self.issuer, %failure, "the token of the login is not refreshed");
                Ok(Some(kept.access))
            }
            refreshed => refreshed,
        }
    }

    fn refreshed(&self) -> Result<Option<Token>> {
        self.may_ask()?;
        let _lock = self.lock().inspect_err(|failure| self.note(failure))?;
        // A thread of ours that had it may have waited for nothing.
        self.may_ask()?;
        // Another process may have done it, or logged out.
        let Some(kept) = self.read_late()? else { return Ok(None) };
        if kept.is_good(clock::unix_seconds()) {
            return Ok(Some(kept.access));
        }
        let Some(refresh) = &kept.refresh else {
            let cause = format!(
                "`{}`: the token of the login is over: log in again with `thalweg login`",
                self.issuer
            );
            let failure = Failure::new(FailureKind::Permission, READ, cause);
            return Err(failure.because(Reason::TokenNotTaken));
        };
        let login = self.find().inspect_err(|failure| self.note(failure))?;
        // What is kept may be good for nothing once it was asked with.
        let room = self.room()?;
        let _unbroken = unbroken::begin()?;
        let granted = login.refresh(refresh).inspect_err(|failure| self.note(failure))?;
        let granted = Kept::of(granted, Some(refresh.clone()));
        // Before anybody uses it. A disk on which the room did not do may have some for less.
        let is_kept = room.fill(granted.to_text(self).as_bytes()).or_else(|_| self.keep(&granted));
        if let Err(failure) = is_kept {
            *mutex::lock(&self.unkept) = Some((refresh.clone(), granted));
            return Err(failure);
        }
        Ok(Some(granted.access))
    }

    /// What is kept; or what could not be when it was granted, if by now it can. Under the lock.
    fn read_late(&self) -> Result<Option<Kept>> {
        let kept = self.read()?;
        let mut unkept = mutex::lock(&self.unkept);
        let Some((by, late)) = unkept.take() else { return Ok(kept) };
        // Nobody logged in or out meanwhile.
        let is_due = kept.as_ref().is_some_and(|kept| kept.refresh.as_ref() == Some(&by));
        if !is_due {
            return Ok(kept);
        }
        match self.keep(&late) {
            Ok(()) => Ok(Some(late)),
            Err(failure) => {
                *unkept = Some((by, late));
                Err(failure)
            }
        }
    }

    /// Whether it is time to ask the provider.
    ///
    /// # Errors
    /// What was said when nobody answered, until it is time to ask again.
    fn may_ask(&self) -> Result<()> {
        let unanswered = mutex::lock(&self.unanswered).clone();
        match unanswered {
            Some((at, failure)) if at.elapsed() < REST => Err(failure),
            _ => Ok(()),
        }
    }

    /// Notes what was waited for in vain. An answer, whatever it is, was there soon.
    fn note(&self, failure: &Failure) {
        if matches!(failure.kind, FailureKind::Connection | FailureKind::Busy) {
            *mutex::lock(&self.unanswered) = Some((Instant::now(), failure.clone()));
        }
    }

    fn read(&self) -> Result<Option<Kept>> {
        match self.read_own(&self.path()) {
            Err(failure) if failure.kind == FailureKind::NotFound => Ok(None),
            kept => kept.map(Some),
        }
    }

    /// That of a file, if it is of this login.
    fn read_own(&self, path: &Path) -> Result<Kept> {
        let (whose, kept) = read_at(path)?;
        let Whose { server, issuer, client } = whose;
        match server == self.server && issuer == self.issuer && client == self.client {
            true => Ok(kept),
            false => Err(no_login(path)),
        }
    }

    /// Whole and durable. Under the lock.
    fn keep(&self, kept: &Kept) -> Result<()> {
        self.clear_up().map_err(|error| self.fail(KEEP, &error))?;
        secret_file::replace(&self.path(), kept.to_text(self).as_bytes())
    }

    /// Room for the largest that may be to be kept. Under the lock.
    fn room(&self) -> Result<Room> {
        self.clear_up().map_err(|error| self.fail(KEEP, &error))?;
        Room::of(&self.path(), FILE_BYTES_MAX)
    }

    /// Removes what was left by who was killed before such a file had its name: there are tokens in it. Under the lock:
    /// else somebody may be writing it.
    fn clear_up(&self) -> io::Result<()> {
        self.left_over()?.iter().try_for_each(std::fs::remove_file)
    }

    fn left_over(&self) -> io::Result<Vec<PathBuf>> {
        let begins = format!(".{}.", self.name());
        let mut left = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name().as_bytes().starts_with(begins.as_bytes()) {
                left.push(entry.path());
            }
        }
        Ok(left)
    }

    fn fail(&self, operation: &str, error: &io::Error) -> Failure {
        failure::at_path(failure::of_io(operation, error), &self.directory)
    }

    fn make_directory(&self) -> Result<()> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| failure::at_path(failure::of_state(&error), &self.directory))
    }

    /// Held as long as the value.
    fn lock(&self) -> Result<File> {
        let (name, until) = (format!("{}{LOCK}", self.name()), Instant::now() + LOCK_WAIT);
        loop {
            let lock = Dir::open(&self.directory).and_then(|directory| directory.lock(name.as_bytes()));
            if let Some(lock) = lock.map_err(|error| self.fail(KEEP, &error))? {
                return Ok(lock);
            }
            if Instant::now() >= until {
                let cause = format!("another thalweg holds it, and waits for `{}`", self.issuer);
                let failure = Failure::new(FailureKind::Busy, KEEP, cause);
                return Err(failure::at_path(failure, &self.path()));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(self.name())
    }

    fn name(&self) -> String {
        let digest = blake3::hash(format!("{}\n{}\n{}", self.server, self.issuer, self.client).as_bytes());
        digest.to_hex()[..32].to_owned()
    }
}

impl TakenBack {
    /// What is to be said of two.
    fn or_worse(self, other: TakenBack) -> TakenBack {
        match (&self, &other) {
            (TakenBack::Failed(_), _) | (TakenBack::NoPlace, TakenBack::Yes | TakenBack::NoPlace) => self,
            _ => other,
        }
    }
}

/// The token of the first account that has one, and its issuer. A login that is over, or whose provider does not
/// answer, keeps none from a good one.
///
/// # Errors
/// If none has one, of the first that should have: rather of one that may have one again than of one that is over,
/// since who waits for a token tries again then. `Stopped` at once.
pub(crate) fn first_token(accounts: &[Account]) -> Result<Option<(Token, &str)>> {
    let (mut failed, mut over) = (None, None);
    for account in accounts {
        match account.token() {
            Ok(Some(token)) => return Ok(Some((token, account.issuer()))),
            Ok(None) => {}
            Err(failure) if failure.kind == FailureKind::Stopped => return Err(failure),
            Err(failure) if failure.reason == Reason::TokenNotTaken => over = over.or(Some(failure)),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    failed.or(over).map_or(Ok(None), Err)
}

/// Where a token is that counts before any login, if there is one: in a variable or a file.
pub fn counts_before() -> Option<String> {
    crate::tokens::place_of_environment()
}

fn take_back(login: &Login, kept: &Kept) -> Result<TakenBack> {
    let is_taken = match &kept.refresh {
        Some(refresh) => login.revoke(refresh, true)?,
        None => login.revoke(&kept.access, false)?,
    };
    Ok(if is_taken { TakenBack::Yes } else { TakenBack::NoPlace })
}

fn read_at(path: &Path) -> Result<(Whose, Kept)> {
    let bytes = secret_file::read(path, FILE_BYTES_MAX)?;
    Kept::from_bytes(&bytes).ok_or_else(|| no_login(path))
}

fn no_login(path: &Path) -> Failure {
    let cause = "it is no login that this thalweg reads: run `thalweg login` again, or remove it";
    let failure = Failure::new(FailureKind::Permission, READ, cause).because(Reason::TokenNotTaken);
    failure::at_path(failure, path)
}

/// Asks until somebody approved it. What is granted is not to be cut from being kept.
fn approved(
    login: &Login,
    asked: &Asked,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(Granted, Unbroken<'static>)> {
    let until = Instant::now() + asked.lasts;
    let mut pace = Pace::of(asked);
    loop {
        wait(pace.interval().min(until.saturating_duration_since(Instant::now())), is_stopped)?;
        let is_over = Instant::now() >= until;
        let unbroken = unbroken::begin()?;
        match login.poll(asked) {
            Ok(Polled::Granted(granted)) => return Ok((granted, unbroken)),
            Err(failure) if failure.kind != FailureKind::Connection || is_over => return Err(failure),
            Ok(Polled::Pending | Polled::TooSoon) if is_over => {
                let cause = "nobody approved it in time: begin again";
                return Err(Failure::new(FailureKind::Permission, LOG_IN, cause));
            }
            Ok(Polled::Pending) => pace.answered(),
            Ok(Polled::TooSoon) => pace.slow_down(),
            Err(failure) => {
                tracing::debug!(%failure, "it is asked again whether the login is approved");
                pace.back_off();
            }
        }
    }
}

fn wait(time: Duration, is_stopped: &dyn Fn() -> bool) -> Result<()> {
    let until = Instant::now() + time;
    loop {
        if is_stopped() {
            let failure = Failure::new(FailureKind::Stopped, LOG_IN, "stopped on request");
            return Err(failure.because(Reason::BeginsAnew));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

#[cfg(test)]
mod tests;
