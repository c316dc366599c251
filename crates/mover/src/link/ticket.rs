//! A ticket: all that a client needs to know a server by and be let in. It is a secret.
//!
//! A client dials what its user names (`tw://HOST/…`). The addresses are for users who want to use all of
//! them at once (`--via ticket`), and for people to read.
//!
//! ```text
//! # thalweg ticket: whoever has this file can act as its owner. Keep it to yourself.
//! thalweg-ticket = 1
//! addresses = ["data.example.org:8487", "[2001:db8::7]:8487"]
//! server = "64 hexadecimal digits: SHA-256 of the server's certificate"
//! identity = """
//! -----BEGIN PRIVATE KEY-----
//! ...
//! -----END CERTIFICATE-----
//! """
//! ```
//!
//! That is TOML, of which the reader takes this much: comments, blank lines, the four keys once each, in any order,
//! strings without escapes. A key it does not know is an error: what is new in a ticket gets a new version number.

use super::identity::{Fingerprint, IDENTITY_BYTES_MAX, Identity};
use super::secret_file;
use crate::failure::{self, Failure, FailureKind, Result};
use std::fmt;
use std::path::Path;
use zeroize::Zeroizing;

/// Version of the format that is written and read.
const TICKET_VERSION: u32 = 1;
/// Addresses in a ticket.
pub const ADDRESSES_MAX: usize = 64;
/// Longest address: a DNS name has at most 253 characters, then a colon and a port.
const ADDRESS_BYTES_MAX: usize = 262;
/// Largest ticket file.
pub(super) const TICKET_BYTES_MAX: usize =
    IDENTITY_BYTES_MAX + ADDRESSES_MAX * (ADDRESS_BYTES_MAX + 4) + 4096;

/// What a client needs to know and to have.
#[derive(Clone)]
pub struct Ticket {
    /// Where the server can be reached, each `host:port` or `[IPv6]:port`, best first.
    pub addresses: Vec<String>,
    /// The certificate that the server must show.
    pub server: Fingerprint,
    /// Key and certificate of the client, PEM. The secret.
    pub identity_pem: Zeroizing<String>,
}

impl Ticket {
    /// The client's identity.
    ///
    /// # Errors
    /// `Usage` if it is none.
    pub fn identity(&self) -> Result<Identity> {
        Identity::from_pem(&self.identity_pem)
    }

    /// Writes the ticket with mode 0600, whole and durable, in place of a file of that name.
    ///
    /// # Errors
    /// `Usage` for a ticket that [`Ticket::read`] would refuse, else what the file system said.
    pub fn write(&self, path: &Path) -> Result<()> {
        secret_file::replace(path, self.to_text()?.as_bytes())
    }

    /// The same as a new file.
    ///
    /// # Errors
    /// `Conflict` if there is a file of that name; else as [`Ticket::write`].
    pub fn write_new(&self, path: &Path) -> Result<()> {
        secret_file::create(path, self.to_text()?.as_bytes())
    }

    /// Reads a ticket, following links.
    ///
    /// # Errors
    /// `Permission` if others may read the file, `Usage` if it is no ticket, else what the file system said.
    pub fn read(path: &Path) -> Result<Ticket> {
        let bytes = secret_file::read(path, TICKET_BYTES_MAX)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| refuse("it is not text"));
        text.and_then(Ticket::from_text).map_err(|failure| failure::at_path(failure, path))
    }

    /// The text of the file. A secret.
    ///
    /// # Errors
    /// `Usage` for addresses or an identity that a ticket cannot hold.
    pub fn to_text(&self) -> Result<Zeroizing<String>> {
        check_addresses(&self.addresses)?;
        Identity::from_pem(&self.identity_pem)?;
        let addresses: Vec<String> = self.addresses.iter().map(|address| format!("\"{address}\"")).collect();
        let mut text = Zeroizing::new(String::with_capacity(TICKET_BYTES_MAX));
        text.push_str("# thalweg ticket: whoever has this file can act as its owner. Keep it to yourself.\n");
        text.push_str(&format!("thalweg-ticket = {TICKET_VERSION}\n"));
        text.push_str(&format!("addresses = [{}]\n", addresses.join(", ")));
        text.push_str(&format!("server = \"{}\"\n", self.server));
        text.push_str("identity = \"\"\"\n");
        text.push_str(self.identity_pem.trim_end());
        text.push_str("\n\"\"\"\n");
        Ok(text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// `Usage`, with the line's number, for anything but a ticket.
    pub fn from_text(text: &str) -> Result<Ticket> {
        let (mut version, mut addresses, mut server, mut identity_pem) = (None, None, None, None);
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let Some(line) = Line::read(at, line, refuse)? else { continue };
            let first = match line.key {
                "thalweg-ticket" => version.replace(line.version("the ticket", TICKET_VERSION)?).is_none(),
                "addresses" => addresses.replace(line.addresses()?).is_none(),
                "server" => server.replace(line.server()?).is_none(),
                "identity" => {
                    if line.value != "\"\"\"" {
                        return Err(line.odd("the identity begins with \"\"\" and a new line"));
                    }
                    let mut pem = Zeroizing::new(String::with_capacity(text.len()));
                    loop {
                        let next = lines.next().ok_or_else(|| line.odd("the identity does not end"));
                        let (_, next) = next?;
                        if next.trim() == "\"\"\"" {
                            break;
                        }
                        pem.push_str(next);
                        pem.push('\n');
                    }
                    Identity::from_pem(&pem)?;
                    identity_pem.replace(pem).is_none()
                }
                _ => return Err(line.odd("this is no key of a ticket")),
            };
            if !first {
                return Err(line.odd("this key was there before"));
            }
        }
        let missing = |key: &str| refuse(&format!("`{key}` is missing"));
        version.ok_or_else(|| missing("thalweg-ticket"))?;
        Ok(Ticket {
            addresses: addresses.ok_or_else(|| missing("addresses"))?,
            server: server.ok_or_else(|| missing("server"))?,
            identity_pem: identity_pem.ok_or_else(|| missing("identity"))?,
        })
    }
}

/// Without the identity.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("addresses", &self.addresses)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

pub(super) fn check_addresses(addresses: &[String]) -> Result<()> {
    if addresses.is_empty() || addresses.len() > ADDRESSES_MAX {
        return Err(refuse("there are 1 to 64 addresses"));
    }
    let odd = |address: &str| {
        let port = address.rsplit_once(':').and_then(|(host, port)| {
            let host_is_plain = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
            host_is_plain.then(|| port.parse::<u16>().ok()).flatten()
        });
        // A host that begins with `-` is read as an option by more than one program.
        let unsafe_text = address.starts_with('-') || address.contains(['"', '\\', '/', '@']);
        port.is_none_or(|port| port == 0) || unsafe_text || address.len() > ADDRESS_BYTES_MAX
    };
    match addresses.iter().any(|address| odd(address)) {
        true => Err(refuse("an address is `host:port`")),
        false => Ok(()),
    }
}

/// A line with a key, of a ticket or a place file.
pub(super) struct Line<'a> {
    number: usize,
    pub(super) key: &'a str,
    pub(super) value: &'a str,
    refuse: fn(&str) -> Failure,
}

impl<'a> Line<'a> {
    /// `None` for a comment and for a blank line. `at` counts from 0; `refuse` makes the failure of what is no such
    /// file.
    pub(super) fn read(at: usize, text: &'a str, refuse: fn(&str) -> Failure) -> Result<Option<Line<'a>>> {
        let (number, text) = (at + 1, text.trim());
        if text.is_empty() || text.starts_with('#') {
            return Ok(None);
        }
        let parts = text.split_once('=').ok_or_else(|| refuse(&format!("line {number}: there is no `=`")));
        let (key, value) = parts?;
        Ok(Some(Line { number, key: key.trim(), value: value.trim(), refuse }))
    }

    pub(super) fn odd(&self, why: &str) -> Failure {
        (self.refuse)(&format!("line {}: {why}", self.number))
    }

    /// The version that it tells of `what`, which is `known`.
    pub(super) fn version(&self, what: &str, known: u32) -> Result<u32> {
        let number = self.value.parse::<u32>().map_err(|_| self.odd("the version is no number"))?;
        match number == known {
            true => Ok(number),
            false => Err(self.odd(&format!(
                "{what} has version {number}, this thalweg reads {known}: update the older side"
            ))),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<String>> {
        list_of_strings(self.value).ok_or_else(|| self.odd("it is no list of strings"))
    }

    /// Where the server can be reached.
    pub(super) fn addresses(&self) -> Result<Vec<String>> {
        let list = self.list()?;
        check_addresses(&list)?;
        Ok(list)
    }

    /// The certificate that the server must show.
    pub(super) fn server(&self) -> Result<Fingerprint> {
        let text = string(self.value).ok_or_else(|| self.odd("it is no string"))?;
        text.parse()
    }
}

/// As TOML writes it, without escapes.
fn list_of_strings(text: &str) -> Option<Vec<String>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    let inside = inside.strip_suffix(',').unwrap_or(inside);
    inside.split(',').map(|item| string(item.trim()).map(str::to_owned)).collect()
}

fn string(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.contains(['"', '\\'])).then_some(inside)
}

fn refuse(why: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read ticket", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    fn ticket() -> Ticket {
        Ticket {
            addresses: vec!["data.example.org:8487".into(), "[2001:db8::7]:8487".into()],
            server: Identity::generate("server").unwrap().fingerprint(),
            identity_pem: Identity::generate("client").unwrap().to_pem(),
        }
    }

    #[test]
    fn a_ticket_comes_back_from_its_file_which_only_its_owner_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ticket");
        std::fs::write(&path, "an older one").unwrap();
        let given = ticket();
        given.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let read = Ticket::read(&path).unwrap();
        assert_eq!((&read.addresses, read.server), (&given.addresses, given.server));
        assert_eq!(read.identity().unwrap().fingerprint(), given.identity().unwrap().fingerprint());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_new_ticket_takes_the_place_of_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ticket");
        let given = ticket();
        given.write_new(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        let failure = ticket().write_new(&path).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Conflict, "{failure}");
        assert_eq!(Ticket::read(&path).unwrap().server, given.server);
    }

    #[test]
    fn a_ticket_that_others_may_read_is_refused_and_the_sentence_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ticket");
        ticket().write(&path).unwrap();
        for mode in [0o640, 0o604, 0o644, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let failure = Ticket::read(&path).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Permission);
            assert!(failure.to_string().contains("chmod 600"), "{failure}");
        }
    }

    #[test]
    fn a_ticket_file_without_end_is_not_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ticket");
        std::fs::write(&path, vec![b'#'; TICKET_BYTES_MAX + 1]).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Ticket::read(&path).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn what_is_no_ticket_is_refused() {
        let good = ticket().to_text().unwrap();
        Ticket::from_text(&good).unwrap();
        let refused = |text: &str| Ticket::from_text(text).unwrap_err().to_string();
        assert!(refused("").contains("missing"));
        assert!(refused(&good.replace("ticket = 1", "ticket = 2")).contains("version 2"));
        assert!(refused(&format!("{}newer = 1\n", good.as_str())).contains("no key"));
        assert!(refused(&format!("{0}{0}", good.as_str())).contains("before"));
        assert!(refused(&good.replace("addresses = [", "addresses = [\"x\", ")).contains("host:port"));
        assert!(refused(&good.replace("\n\"\"\"\n", "\n")).contains("does not end"));
        for address in ["-oProxyCommand=x:1", "a:0", "a:65536", ":1", "a b:1", "u@h:1", "a\u{1b}:1", "a"] {
            let bad = Ticket { addresses: vec![address.into()], ..ticket() };
            assert!(bad.to_text().is_err(), "{address}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let ticket = ticket();
        let shown = format!("{ticket:?}");
        assert!(!shown.contains("PRIVATE") && shown.contains("data.example.org"), "{shown}");
    }

    proptest! {
        #[test]
        fn any_text_gives_a_ticket_or_an_error(text in "(?s).{0,300}") {
            let _ = Ticket::from_text(&text);
        }
    }
}
