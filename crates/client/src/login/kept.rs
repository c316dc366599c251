//! What is kept of a login, and its file.

use super::{Account, EARLY, FILE_BYTES_MAX};
use thalweg_mover::link::{Fingerprint, Token};
use thalweg_sys::clock;
use thalweg_tokens::Granted;
use zeroize::Zeroizing;

/// The key that tells such a file, with its version behind it.
const VERSION: &str = "thalweg-login";

/// See the module. Times are in seconds since 1970.
#[derive(Debug)]
pub(super) struct Kept {
    pub access: Token,
    pub granted_at: u64,
    pub ends_at: u64,
    pub refresh: Option<Token>,
}

/// Whose a login is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub server: Fingerprint,
    pub issuer: String,
    pub client: String,
}

impl Kept {
    /// What was granted by now; where that says nothing of how others are had, by what the last was.
    pub fn of(granted: Granted, last: Option<Token>) -> Kept {
        let granted_at = clock::unix_seconds();
        Kept {
            access: granted.access,
            granted_at,
            ends_at: granted_at.saturating_add(granted.lasts.as_secs()),
            refresh: granted.refresh.or(last),
        }
    }

    /// Whether its token is good, and will be for a while.
    pub fn is_good(&self, now: u64) -> bool {
        self.is_left(now) && self.ends_at > now.saturating_add(EARLY.as_secs())
    }

    /// Whether its token is good still. Where the clock was set back since it was granted, further than [`EARLY`] has
    /// room for, nobody knows.
    pub fn is_left(&self, now: u64) -> bool {
        self.ends_at > now && self.granted_at <= now.saturating_add(EARLY.as_secs())
    }

    pub fn to_text(&self, account: &Account) -> Zeroizing<String> {
        use std::fmt::Write;
        // Of its final size from the start: a text that grows leaves copies behind.
        let mut text = Zeroizing::new(String::with_capacity(FILE_BYTES_MAX));
        let refresh = self.refresh.as_ref().map_or("", Token::as_str);
        let _ = write!(
            text,
            "# thalweg login: whoever has this file can act as its owner. Keep it to yourself.\n\
             {VERSION} = 1\nserver = {}\nissuer = {}\nclient = {}\ngranted = {}\nends = {}\naccess = {}\n\
             refresh = {refresh}\n",
            account.server,
            account.issuer,
            account.client,
            self.granted_at,
            self.ends_at,
            self.access.as_str()
        );
        text
    }

    /// `None` for anything but such a text.
    pub fn from_bytes(bytes: &[u8]) -> Option<(Whose, Kept)> {
        let text = std::str::from_utf8(bytes).ok()?;
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        let token = |text: &str| Token::from_bytes(text.as_bytes()).ok();
        if value(VERSION)? != "1" {
            return None;
        }
        let refresh = match value("refresh")? {
            "" => None,
            text => Some(token(text)?),
        };
        let whose = Whose {
            server: value("server")?.parse().ok()?,
            issuer: value("issuer")?.to_owned(),
            client: value("client")?.to_owned(),
        };
        let kept = Kept {
            access: token(value("access")?)?,
            granted_at: value("granted")?.parse().ok()?,
            ends_at: value("ends")?.parse().ok()?,
            refresh,
        };
        Some((whose, kept))
    }
}
