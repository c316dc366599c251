//! Where this user's token is: the discovery of bearer tokens of WLCG, and behind that a login. The first of these that
//! is there counts, and it alone:
//!
//! 1. the variable `BEARER_TOKEN`;
//! 2. the file that `BEARER_TOKEN_FILE` names;
//! 3. `$XDG_RUNTIME_DIR/bt_uUID`;
//! 4. `/tmp/bt_uUID`;
//! 5. a login for this server, at the first issuer of the place file where there is one that is not over
//!    ([`crate::login`]).
//!
//! Files are for their owner alone. Those of 3 and 4 are ours and no links: anybody may make a name in `/tmp`.

use crate::login::{self, Account};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::{PlaceFile, Token, TokenSource};
use thalweg_mover::mutex;
use thalweg_sys::{process, user};

/// What fails.
const FIND: &str = "find a token";

/// See the module.
#[derive(Debug)]
pub(crate) struct Discovered {
    issuers: Vec<String>,
    accounts: Vec<Account>,
    /// Where the last token was.
    source: Mutex<String>,
}

impl Discovered {
    /// One for a server that takes those of the issuers of this file.
    pub(crate) fn of(place: &PlaceFile) -> Discovered {
        // From now on there is one in memory.
        let _ = process::forbid_core_dumps();
        let issuers = place.issuers.iter().map(|issuer| issuer.url.clone()).collect();
        // Without a home nobody is logged in.
        let accounts = Account::all_of(place).unwrap_or_default();
        Discovered { issuers, accounts, source: Mutex::default() }
    }
}

/// Where a token of this process's environment is, if there is one.
pub(crate) fn place_of_environment() -> Option<String> {
    of_environment().place()
}

fn of_environment() -> Places {
    Places::of(|name| std::env::var_os(name), Path::new("/tmp"), user::effective_uid())
}

impl TokenSource for Discovered {
    fn token(&self) -> Result<Token> {
        let places = of_environment();
        if let Some(token) = places.token()? {
            *mutex::lock(&self.source) = places.source(!self.accounts.is_empty());
            return Ok(token);
        }
        let Some((token, issuer)) = login::first_token(&self.accounts)? else {
            return Err(places.none(&self.issuers(), !self.accounts.is_empty()));
        };
        *mutex::lock(&self.source) = format!("the login at `{issuer}` by `thalweg login`");
        Ok(token)
    }

    fn issuers(&self) -> String {
        self.issuers.iter().map(|issuer| format!("`{issuer}`")).collect::<Vec<_>>().join(", ")
    }

    fn source(&self) -> String {
        mutex::lock(&self.source).clone()
    }
}

/// Where one may be.
struct Places {
    variable: Option<OsString>,
    named: Option<PathBuf>,
    usual: Vec<PathBuf>,
    uid: u32,
}

impl Places {
    /// By the environment; an empty variable says nothing.
    fn of(variable: impl Fn(&str) -> Option<OsString>, shared: &Path, uid: u32) -> Places {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let own = said("XDG_RUNTIME_DIR").map(PathBuf::from);
        let usual = own.into_iter().chain([shared.to_owned()]);
        Places {
            variable: said("BEARER_TOKEN"),
            named: said("BEARER_TOKEN_FILE").map(PathBuf::from),
            usual: usual.map(|directory| directory.join(format!("bt_u{uid}"))).collect(),
            uid,
        }
    }

    /// The first that is there.
    fn token(&self) -> Result<Option<Token>> {
        if let Some(text) = &self.variable {
            let token = Token::from_bytes(text.as_bytes());
            return token.map(Some).map_err(|failure| failure::with_words(failure, "BEARER_TOKEN"));
        }
        if let Some(path) = &self.named {
            return Token::read(path).map(Some);
        }
        for path in &self.usual {
            match std::fs::symlink_metadata(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failure::at_path(failure::of_io(FIND, &error), path)),
                Ok(metadata) if metadata.is_file() && metadata.uid() == self.uid => {
                    return Token::read(path).map(Some);
                }
                Ok(_) => {
                    let cause =
                        "it is no file of this user: remove it, or name another with BEARER_TOKEN_FILE";
                    return Err(failure::at_path(Failure::new(FailureKind::Permission, FIND, cause), path));
                }
            }
        }
        Ok(None)
    }

    /// Where the first is that is there.
    fn place(&self) -> Option<String> {
        let shown = |path: &PathBuf| format!("`{}`", failure::shown_path(path.as_os_str().as_bytes()));
        if self.variable.is_some() {
            return Some("BEARER_TOKEN".to_owned());
        }
        let is_there = |path: &&PathBuf| path.symlink_metadata().is_ok();
        self.named.as_ref().or_else(|| self.usual.iter().find(is_there)).map(shown)
    }

    /// The same of the token that it has, for who may wonder why it is that. `may_log_in`: the place file says how.
    fn source(&self, may_log_in: bool) -> String {
        let place = self.place().unwrap_or_default();
        match may_log_in {
            true => format!("{place}, which counts before what `thalweg login` gives"),
            false => place,
        }
    }

    /// `may_log_in`: the place file says how.
    fn none(&self, issuers: &str, may_log_in: bool) -> Failure {
        let usual: Vec<String> = self.usual.iter().map(|path| format!("`{}`", path.display())).collect();
        let cause = format!(
            "this server takes tokens of {issuers}, and there is none in BEARER_TOKEN, BEARER_TOKEN_FILE or {}{}",
            usual.join(", "),
            if may_log_in { ", nor a login for it by `thalweg login`" } else { "" }
        );
        Failure::new(FailureKind::Usage, FIND, cause).because(Reason::TokenNotTaken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_first_place_that_has_a_token_counts_and_an_empty_variable_says_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (shared, runtime, named) =
            (scratch.path().join("tmp"), scratch.path().join("run"), scratch.path().join("named"));
        for directory in [&shared, &runtime] {
            fs::create_dir(directory).unwrap();
        }
        let uid = user::effective_uid();
        let name = format!("bt_u{uid}");
        let found = |set: &[(&str, &Path)]| {
            let value =
                |name: &str| set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).into());
            Places::of(value, &shared, uid).token().map(|token| token.map(|token| token.as_str().to_owned()))
        };
        assert_eq!(found(&[]).unwrap(), None);
        write(&shared.join(&name), "shared", 0o600);
        assert_eq!(found(&[]).unwrap().as_deref(), Some("shared"));
        write(&runtime.join(&name), "runtime", 0o600);
        let in_runtime = ("XDG_RUNTIME_DIR", runtime.as_path());
        assert_eq!(found(&[in_runtime]).unwrap().as_deref(), Some("runtime"));
        write(&named, "named", 0o600);
        let in_file = ("BEARER_TOKEN_FILE", named.as_path());
        assert_eq!(found(&[in_runtime, in_file]).unwrap().as_deref(), Some("named"));
        let in_variable = ("BEARER_TOKEN", Path::new("variable"));
        assert_eq!(found(&[in_runtime, in_file, in_variable]).unwrap().as_deref(), Some("variable"));
        let empty = ("BEARER_TOKEN", Path::new(""));
        assert_eq!(found(&[in_runtime, in_file, empty]).unwrap().as_deref(), Some("named"));
        // One that was named and is not there is not passed over.
        assert!(found(&[in_runtime, ("BEARER_TOKEN_FILE", &scratch.path().join("none"))]).is_err());
    }

    #[test]
    fn who_is_refused_hears_which_token_it_was_and_of_logins_only_where_there_may_be_one() {
        let scratch = tempfile::tempdir().unwrap();
        let variable = |name: &str| (name == "BEARER_TOKEN").then(|| "variable".into());
        let none = || Places::of(|_| None, scratch.path(), 7);
        assert_eq!(none().place(), None);
        write(&scratch.path().join("bt_u7"), "shared", 0o600);
        let place = none().place().unwrap();
        assert!(place.contains("bt_u7"), "{place}");
        let named = Places::of(variable, scratch.path(), 7);
        assert_eq!(named.source(false), "BEARER_TOKEN");
        let told = named.source(true);
        assert!(told.contains("BEARER_TOKEN") && told.contains("thalweg login"), "{told}");
    }

    #[test]
    fn a_file_in_tmp_that_is_a_link_somebody_elses_or_open_to_others_is_no_token() {
        let scratch = tempfile::tempdir().unwrap();
        let uid = user::effective_uid();
        let secret = scratch.path().join("secret");
        write(&secret, "another-secret", 0o600);
        let at = scratch.path().join(format!("bt_u{uid}"));
        symlink(&secret, &at).unwrap();
        let refused = |uid: u32| {
            let failure = Places::of(|_| None, scratch.path(), uid).token().unwrap_err();
            assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
            assert!(!failure.to_string().contains("another-secret"), "{failure}");
        };
        refused(uid);
        fs::remove_file(&at).unwrap();
        write(&at, "a-token", 0o640);
        refused(uid);
        write(&scratch.path().join(format!("bt_u{}", uid + 1)), "a-token", 0o600);
        refused(uid + 1);
    }

    #[test]
    fn who_has_no_token_hears_whose_are_taken_and_where_they_were_looked_for() {
        let scratch = tempfile::tempdir().unwrap();
        let places = Places::of(|_| None, scratch.path(), 7);
        assert!(!places.none("`https://iam.example.org/`", false).cause.contains("thalweg login"));
        let failure = places.none("`https://iam.example.org/`", true);
        assert_eq!((failure.kind, failure.reason), (FailureKind::Usage, Reason::TokenNotTaken));
        for word in ["https://iam.example.org/", "BEARER_TOKEN_FILE", "bt_u7", "thalweg login"] {
            assert!(failure.cause.contains(word), "{failure}");
        }
    }
}
