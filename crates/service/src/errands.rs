//! Errands: copies that a client has a daemon run, as the client of another daemon. To whom it may be sent its operator
//! says; by itself to nobody: it dials where a user names, and with what the operator's network lets it reach.

use std::fmt;
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result};
use thalweg_wire::path::Escaped;

/// What became of one, as it is told.
pub mod report;

/// What is told of one while it runs.
pub(crate) mod telling;

/// Whom a daemon may be sent to. Default: nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ErrandsTo {
    /// Nobody.
    #[default]
    Nobody,
    /// These.
    Only(Vec<Address>),
    /// Whomever a client names.
    Anybody,
}

/// A host and a port, as they are compared and dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// A name in lower case, or an address without brackets.
    host: String,
    port: u16,
}

/// The word for anybody.
const ANY: &str = "any";

impl Address {
    /// Reads `HOST[:PORT]`; of IPv6 `[ADDRESS][:PORT]`.
    fn read(text: &str, default_port: u16) -> Option<Address> {
        let (host, port) = match text.rsplit_once(':') {
            // Of an IPv6 address the last colon may be its own.
            Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port.parse().ok()?),
            _ => (text, default_port),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '%');
        let is_sound = !host.is_empty() && host.chars().all(is_host) && port > 0;
        is_sound.then(|| Address { host: host.trim_end_matches('.').to_ascii_lowercase(), port })
    }
}

/// As it is dialled.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl ErrandsTo {
    /// Reads `HOST[:PORT]`, each with the port of daemons where it has none, or `any`; nothing of either is nobody.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn read(words: &[String], default_port: u16) -> std::result::Result<ErrandsTo, String> {
        if words.iter().any(|word| word == ANY) {
            return Ok(ErrandsTo::Anybody);
        }
        let address = |word: &String| {
            let wanted = || format!("`{}`: HOST[:PORT] is wanted, or {ANY}", Escaped(word.as_bytes()));
            Address::read(word, default_port).ok_or_else(wanted)
        };
        let addresses = words.iter().map(address).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(if addresses.is_empty() { ErrandsTo::Nobody } else { ErrandsTo::Only(addresses) })
    }

    /// What is dialled where a client names this, `host:port`: what was compared, and not what was written.
    ///
    /// # Errors
    /// `Permission` if it may not be; `Usage` for what is no address.
    pub(crate) fn check(&self, address: &str) -> Result<Address> {
        const RUN: &str = "run a copy to another daemon";
        let Some(asked) = Address::read(address, 0) else {
            return Err(Failure::new(FailureKind::Usage, RUN, "HOST:PORT is wanted of the other daemon"));
        };
        let cause = match self {
            ErrandsTo::Anybody => return Ok(asked),
            ErrandsTo::Only(addresses) if addresses.contains(&asked) => return Ok(asked),
            ErrandsTo::Only(_) => format!("{asked} is none of those that its operator lets it be sent to"),
            ErrandsTo::Nobody => "its operator lets it be sent to nobody".to_owned(),
        };
        Err(Failure::new(FailureKind::Permission, RUN, cause).because(Reason::NoErrands))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> ErrandsTo {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        ErrandsTo::read(&words, 8487).unwrap()
    }

    fn dials(to: &ErrandsTo, address: &str) -> Option<String> {
        to.check(address).ok().map(|address| address.to_string())
    }

    #[test]
    fn a_daemon_is_sent_where_its_operator_says_and_dials_what_was_compared() {
        let to = read(&["Dtn2.example.org", "10.1.0.7:99", "[::1]:98", "::2"]);
        for (asked, dialled) in [
            ("dtn2.example.org:8487", Some("dtn2.example.org:8487")),
            ("DTN2.EXAMPLE.ORG.:8487", Some("dtn2.example.org:8487")),
            ("dtn2.example.org:22", None),
            ("10.1.0.7:99", Some("10.1.0.7:99")),
            ("10.1.0.7:8487", None),
            ("[::1]:98", Some("[::1]:98")),
            ("[::2]:8487", Some("[::2]:8487")),
            ("localhost:98", None),
            ("dtn2.example.org:8487@evil:8487", None),
            ("dtn2.example.org", None),
            ("dtn2.example.org:0", None),
            ("", None),
            (":8487", None),
        ] {
            assert_eq!(dials(&to, asked).as_deref(), dialled, "{asked}");
        }
    }

    #[test]
    fn without_a_word_it_is_sent_to_nobody_and_says_so_for_programs() {
        let refused = read(&[]).check("a:1").unwrap_err();
        assert_eq!((refused.kind, refused.reason), (FailureKind::Permission, Reason::NoErrands));
        assert_eq!(read(&["a"]).check("b:8487").unwrap_err().reason, Reason::NoErrands);
        assert_eq!(dials(&read(&["any"]), "b:1").as_deref(), Some("b:1"));
        assert_eq!(dials(&read(&["any"]), "b:x"), None);
        for odd in ["a:", "a b", "a:70000", "http://a", ":1"] {
            assert!(ErrandsTo::read(&[odd.to_owned()], 8487).is_err(), "{odd}");
        }
    }
}
