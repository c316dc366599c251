//! Logins at identity providers that are kept, for all commands of this user.
//!
//! 1. [`Account::log_in`] has a code, waits until somebody approves it, and keeps what is granted.
//! 2. Who needs a token has the one that is kept. One that ends within [`EARLY`] is refreshed before: by one process at
//!    a time, under a lock, and what comes is durable before it is used. So a provider that gives another refresh token
//!    each time, and takes the old one no more, finds us with the new one.
//! 3. [`Account::log_out`] has it taken back where the provider has a place for that, and forgets it.
//!
//! They lie in `logins` of the user's state directory, whatever directory a command is told for its own state: one file
//! of mode 0600 for each server, issuer and client, and a lock beside it. So the token of a login is shown to that
//! server alone: any other may name the same issuer and client in a place file of its own. Not guaranteed: who is
//! killed between the answer of a provider and the sync of its file may have to log in again.

use crate::identity;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::place_file::Issuer;
use thalweg_mover::link::{Fingerprint, PlaceFile, Token, secret_file};
use thalweg_mover::mutex;
use thalweg_sys::{Dir, File, clock, process};
use thalweg_tokens::{Asked, Granted, Login, Pace, Polled};
use thalweg_wire::limits::TOKEN_BYTES_MAX;
use zeroize::Zeroizing;

/// A token that ends so soon is refreshed: nobody is refused for a clock that is a bit ahead.
const EARLY: Duration = Duration::from_secs(60);
/// So long another process may hold a login: it waits for two answers of a provider, of 5 s each.
const LOCK_WAIT: Duration = Duration::from_secs(15);
/// So long a provider that did not answer is not asked again by this process. A link that is dialled anew has 10 s in
/// all, and would be late each time; it is less than the 20 s between two looks whether there is another token.
const REST: Duration = Duration::from_secs(15);
/// Who waits looks so often.
const LOOK: Duration = Duration::from_millis(100);
/// Where they are in the state directory.
const DIRECTORY: &str = "logins";
/// The key that tells such a file, with its version behind it.
const VERSION: &str = "thalweg-login";
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
    directory: PathBuf,
    /// When a token was last to be refreshed and nobody answered, and what was said of that.
    unanswered: Mutex<Option<(Instant, Failure)>>,
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

/// What is kept.
struct Kept {
    access: Token,
    /// In seconds since 1970.
    ends_at: u64,
    refresh: Option<Token>,
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
        Some(Account {
            server,
            issuer: issuer.url.clone(),
            client: issuer.client.clone()?,
            scopes: issuer.scopes.clone(),
            directory: state.join(DIRECTORY),
            unanswered: Mutex::default(),
        })
    }

    /// The URL of the issuer.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What we are to the issuer.
    pub fn client(&self) -> &str {
        &self.client
    }

    /// Has a code, which `tell` shows somebody, waits until it is approved, and keeps what is granted in place of what
    /// was kept. `is_stopped` is asked ten times a second.
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
        let login = Login::find(&self.issuer, &self.client)?;
        let asked = login.begin(&self.scopes)?;
        tell(&asked)?;
        let kept = Kept::of(approved(&login, &asked, is_stopped)?, None);
        let _lock = self.lock()?;
        self.keep(&kept)?;
        Ok(LoggedIn { ends_at: kept.ends_at, renews: kept.refresh.is_some() })
    }

    /// Forgets the login, and has it taken back first; `None` if there was none.
    ///
    /// # Errors
    /// If it cannot be forgotten. One that could not be taken back is forgotten.
    pub fn log_out(&self) -> Result<Option<TakenBack>> {
        let _ = process::forbid_core_dumps();
        let path = self.path();
        if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Ok(None);
        }
        let _lock = self.lock()?;
        let taken_back = match self.read() {
            Ok(None) => return Ok(None),
            Ok(Some(kept)) => self.take_back(&kept).unwrap_or_else(TakenBack::Failed),
            Err(failure) => TakenBack::Failed(failure),
        };
        let forgotten = Dir::open(&self.directory).and_then(|directory| {
            directory.remove_file(self.name().as_bytes())?;
            self.clear_up()?;
            directory.sync()
        });
        let fail = |error: io::Error| failure::at_path(failure::of_io("forget the login", &error), &path);
        forgotten.map_err(fail)?;
        Ok(Some(taken_back))
    }

    fn take_back(&self, kept: &Kept) -> Result<TakenBack> {
        let login = Login::find(&self.issuer, &self.client)?;
        // What was had by it ends with it.
        let is_taken = match &kept.refresh {
            Some(refresh) => login.revoke(refresh, true)?,
            None => login.revoke(&kept.access, false)?,
        };
        Ok(if is_taken { TakenBack::Yes } else { TakenBack::NoPlace })
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
            Err(failure) if kept.ends_at > now => {
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
        let Some(kept) = self.read()? else { return Ok(None) };
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
        // There is to be room for what comes: what is kept may be good for nothing once it was asked with.
        self.keep(&kept)?;
        let login = Login::find(&self.issuer, &self.client);
        let granted =
            login.and_then(|login| login.refresh(refresh)).inspect_err(|failure| self.note(failure))?;
        let kept = Kept::of(granted, kept.refresh);
        // Before anybody uses it: the one before may be good for nothing by now.
        self.keep(&kept)?;
        Ok(Some(kept.access))
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
        let path = self.path();
        let bytes = match secret_file::read(&path, FILE_BYTES_MAX) {
            Err(failure) if failure.kind == FailureKind::NotFound => return Ok(None),
            bytes => bytes?,
        };
        let kept = Kept::from_bytes(&bytes, self).ok_or_else(|| {
            let cause = "it is no login that this thalweg reads: run `thalweg login` again";
            failure::at_path(Failure::new(FailureKind::Usage, READ, cause), &path)
        })?;
        Ok(Some(kept))
    }

    /// Whole and durable. Under the lock.
    fn keep(&self, kept: &Kept) -> Result<()> {
        let fail = |error: io::Error| failure::at_path(failure::of_io(KEEP, &error), &self.directory);
        self.clear_up().map_err(fail)?;
        secret_file::replace(&self.path(), kept.to_text(self).as_bytes())
    }

    /// Removes what was left by who was killed before such a file had its name: there are tokens in it. Under the lock:
    /// else somebody may be writing it.
    fn clear_up(&self) -> io::Result<()> {
        let begins = format!(".{}.", self.name());
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name().as_bytes().starts_with(begins.as_bytes()) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn make_directory(&self) -> Result<()> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        made.map_err(|error| failure::at_path(failure::of_state(&error), &self.directory))
    }

    /// Held as long as the value.
    fn lock(&self) -> Result<File> {
        let fail = |error: io::Error| failure::at_path(failure::of_io(KEEP, &error), &self.directory);
        let (name, until) = (format!("{}.lock", self.name()), Instant::now() + LOCK_WAIT);
        loop {
            let lock = Dir::open(&self.directory).and_then(|directory| directory.lock(name.as_bytes()));
            if let Some(lock) = lock.map_err(fail)? {
                return Ok(lock);
            }
            if Instant::now() >= until {
                let failure = Failure::new(FailureKind::Busy, KEEP, "another thalweg holds it");
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

/// Asks until somebody approved it.
fn approved(login: &Login, asked: &Asked, is_stopped: &dyn Fn() -> bool) -> Result<Granted> {
    let until = Instant::now() + asked.lasts;
    let mut pace = Pace::of(asked);
    loop {
        wait(pace.interval(), is_stopped)?;
        let is_over = Instant::now() >= until;
        match login.poll(asked) {
            Ok(Polled::Granted(granted)) => return Ok(granted),
            Err(failure) if failure.kind != FailureKind::Connection || is_over => return Err(failure),
            Ok(Polled::Pending | Polled::TooSoon) if is_over => {
                let cause = "nobody approved it in time: begin again";
                return Err(Failure::new(FailureKind::Permission, LOG_IN, cause));
            }
            Ok(Polled::Pending) => {}
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

impl Kept {
    /// What was granted by now; where that says nothing of how others are had, by what the last was.
    fn of(granted: Granted, last: Option<Token>) -> Kept {
        let ends_at = clock::unix_seconds().saturating_add(granted.lasts.as_secs());
        Kept { access: granted.access, ends_at, refresh: granted.refresh.or(last) }
    }

    fn is_good(&self, now: u64) -> bool {
        self.ends_at > now.saturating_add(EARLY.as_secs())
    }

    fn to_text(&self, account: &Account) -> Zeroizing<String> {
        use std::fmt::Write;
        // Of its final size from the start: a text that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX));
        let refresh = self.refresh.as_ref().map_or("", Token::as_str);
        let _ = write!(
            text,
            "# thalweg login: whoever has this file can act as its owner. Keep it to yourself.\n\
             {VERSION} = 1\nserver = {}\nissuer = {}\nclient = {}\nends = {}\naccess = {}\nrefresh = {refresh}\n",
            account.server,
            account.issuer,
            account.client,
            self.ends_at,
            self.access.as_str()
        );
        text
    }

    /// `None` for anything but such a text, of this account.
    fn from_bytes(bytes: &[u8], account: &Account) -> Option<Kept> {
        let text = std::str::from_utf8(bytes).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        let token = |text: &str| Token::from_bytes(text.as_bytes()).ok();
        let is_of = value("server")? == account.server.to_string()
            && value("issuer")? == account.issuer
            && value("client")? == account.client;
        if value(VERSION)? != "1" || !is_of {
            return None;
        }
        let refresh = match value("refresh")? {
            "" => None,
            text => Some(token(text)?),
        };
        Some(Kept { access: token(value("access")?)?, ends_at: value("ends")?.parse().ok()?, refresh })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    /// A provider on the loopback: each refresh token is good once.
    struct Provider {
        url: String,
        /// How often a token was refreshed.
        refreshed: Arc<Mutex<u64>>,
    }

    impl Provider {
        fn new() -> Provider {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let refreshed = Arc::<Mutex<u64>>::default();
            let (own, counts) = (url.clone(), refreshed.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    answer(stream, &own, &counts);
                }
            });
            Provider { url, refreshed }
        }

        fn account(&self, state: &Path) -> Account {
            account(&self.url, state)
        }
    }

    fn account(url: &str, state: &Path) -> Account {
        let issuer = Issuer { url: url.to_owned(), client: Some("thalweg".into()), scopes: Vec::new() };
        Account::at(&issuer, Fingerprint([7; 32]), state).unwrap()
    }

    /// One question on one connection.
    fn answer(mut stream: TcpStream, url: &str, refreshed: &Mutex<u64>) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        let _ = reader.read_line(&mut first);
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = told.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut form = vec![0; length];
        reader.read_exact(&mut form).unwrap();
        let form = String::from_utf8_lossy(&form).into_owned();
        let mut refreshed = refreshed.lock().unwrap();
        let (status, body) = if first.starts_with("GET ") {
            let told = json!({
                "issuer": url, "token_endpoint": format!("{url}/token"),
                "revocation_endpoint": format!("{url}/revoke"),
            });
            (200, told)
        } else if first.starts_with("POST /revoke ") {
            (200, Value::Null)
        } else if form.contains(&format!("refresh_token=refresh-{refreshed}&")) {
            *refreshed += 1;
            let told = json!({
                "access_token": format!("access-{refreshed}"), "token_type": "Bearer", "expires_in": 600,
                "refresh_token": format!("refresh-{refreshed}"),
            });
            (200, told)
        } else {
            (400, json!({ "error": "invalid_grant" }))
        };
        let (body, length) = (body.to_string(), body.to_string().len());
        let _ = write!(
            stream,
            "HTTP/1.1 {status} .\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
    }

    fn kept(lasts_s: u64, refresh: Option<&[u8]>) -> Kept {
        let token = |text| Token::from_bytes(text).unwrap();
        Kept {
            access: token(b"access-0".as_slice()),
            ends_at: clock::unix_seconds() + lasts_s,
            refresh: refresh.map(token),
        }
    }

    fn begin(account: &Account, kept: &Kept) {
        account.make_directory().unwrap();
        account.keep(kept).unwrap();
    }

    fn shown(token: Option<Token>) -> String {
        token.map_or_else(|| "none".to_owned(), |token| token.as_str().to_owned())
    }

    #[test]
    fn a_token_that_ends_is_refreshed_once_whoever_asks_and_what_comes_is_kept_before_it_is_used() {
        let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
        let account = provider.account(scratch.path());
        assert_eq!(shown(account.token().unwrap()), "none");
        begin(&account, &kept(300, Some(b"refresh-0")));
        assert_eq!(shown(account.token().unwrap()), "access-0");
        assert_eq!(*provider.refreshed.lock().unwrap(), 0);
        begin(&account, &kept(30, Some(b"refresh-0")));
        // Each as a process of its own would.
        std::thread::scope(|scope| {
            let ask = || shown(provider.account(scratch.path()).token().unwrap());
            let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            for one in asked {
                assert_eq!(one.join().unwrap(), "access-1");
            }
        });
        assert_eq!(*provider.refreshed.lock().unwrap(), 1);
        let there = account.read().unwrap().unwrap();
        assert_eq!(shown(there.refresh), "refresh-1");
        assert_eq!(shown(Some(there.access)), "access-1");
    }

    #[test]
    fn a_token_that_cannot_be_refreshed_is_good_until_its_end_and_then_the_login_is_over() {
        let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
        let account = provider.account(scratch.path());
        for refresh in [None, Some(b"spent".as_slice())] {
            begin(&account, &kept(30, refresh));
            assert_eq!(shown(account.token().unwrap()), "access-0");
            begin(&account, &kept(0, refresh));
            let over = account.token().unwrap_err();
            assert_eq!((over.kind, over.reason), (FailureKind::Permission, Reason::TokenNotTaken), "{over}");
            assert!(over.cause.contains("thalweg login"), "{over}");
        }
        // Nobody listens there.
        let away = self::account("http://127.0.0.1:1", scratch.path());
        begin(&away, &kept(30, Some(b"refresh-0")));
        assert_eq!(shown(away.token().unwrap()), "access-0");
        begin(&away, &kept(0, Some(b"refresh-0")));
        assert_eq!(away.token().unwrap_err().kind, FailureKind::Connection);
    }

    #[test]
    fn a_provider_that_did_not_answer_is_not_asked_again_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<u64>>::default();
        let counts = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                *counts.lock().unwrap() += 1;
                drop(stream);
            }
        });
        let account = self::account(&url, scratch.path());
        begin(&account, &kept(30, Some(b"refresh-0")));
        assert_eq!(shown(account.token().unwrap()), "access-0");
        let at_first = *asked.lock().unwrap();
        assert!(at_first > 0);
        begin(&account, &kept(0, Some(b"refresh-0")));
        assert_eq!(account.token().unwrap_err().kind, FailureKind::Connection);
        assert_eq!(*asked.lock().unwrap(), at_first);
        // What another process had meanwhile is used.
        begin(&account, &kept(300, None));
        assert_eq!(shown(account.token().unwrap()), "access-0");
        begin(&account, &kept(0, Some(b"refresh-0")));
        *account.unanswered.lock().unwrap() = None;
        assert_eq!(account.token().unwrap_err().kind, FailureKind::Connection);
        assert!(*asked.lock().unwrap() > at_first);
    }

    #[test]
    fn a_login_is_for_its_owner_its_account_and_its_server_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let one = account("https://iam.example.org/", scratch.path());
        let other = account("https://other.example.org/", scratch.path());
        // Its place file names the issuer and the client of the first.
        let elsewhere =
            Account { server: Fingerprint([8; 32]), ..account("https://iam.example.org/", scratch.path()) };
        begin(&one, &kept(300, None));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&one.path()), mode(&one.directory)), (0o600, 0o700));
        for not_it in [other, elsewhere] {
            assert_eq!(shown(not_it.token().unwrap()), "none");
            fs::copy(one.path(), not_it.path()).unwrap();
            assert_eq!(not_it.token().unwrap_err().kind, FailureKind::Usage);
        }
        fs::set_permissions(one.path(), fs::Permissions::from_mode(0o640)).unwrap();
        let failure = one.token().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Permission);
        assert!(!failure.to_string().contains("access-0"), "{failure}");
        let longest = vec![b'x'; TOKEN_BYTES_MAX];
        let long = Kept { access: Token::from_bytes(&longest).unwrap(), ..kept(300, Some(&longest)) };
        begin(&one, &long);
        assert_eq!(one.token().unwrap(), Some(long.access));
    }

    #[test]
    fn a_login_that_is_forgotten_is_gone_whether_or_not_its_provider_hears_of_it() {
        let (scratch, provider) = (tempfile::tempdir().unwrap(), Provider::new());
        let account = provider.account(scratch.path());
        assert!(account.log_out().unwrap().is_none());
        begin(&account, &kept(300, Some(b"refresh-0")));
        // As who was killed leaves it.
        let left = account.directory.join(format!(".{}.0123456789abcdef", account.name()));
        fs::write(&left, "refresh = another").unwrap();
        assert!(matches!(account.log_out().unwrap(), Some(TakenBack::Yes)));
        assert!(account.log_out().unwrap().is_none() && !left.exists());
        let away = self::account("http://127.0.0.1:1", scratch.path());
        begin(&away, &kept(300, None));
        assert!(matches!(away.log_out().unwrap(), Some(TakenBack::Failed(_))));
        assert!(!away.path().exists());
        begin(&away, &kept(300, None));
        fs::write(away.path(), "no login").unwrap();
        assert!(matches!(away.log_out().unwrap(), Some(TakenBack::Failed(_))));
        assert!(!away.path().exists());
    }
}
