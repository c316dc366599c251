//! A place file: who a server is, and whose tokens it takes. It holds no secret: anybody may read it, and it may go by
//! mail. But who can change it can lead its users, and their tokens, to a server of his own.
//!
//! ```text
//! # thalweg place: who this server is. No secret; but keep others from changing it.
//! thalweg-place = 1
//! addresses = ["data.example.org:8487", "[2001:db8::7]:8487"]
//! server = "64 hexadecimal digits: SHA-256 of the server's certificate"
//! issuers = ["https://iam.example.org/"]
//! clients = ["thalweg"]
//! scopes = ["openid offline_access"]
//! resources = ["https://data.example.org"]
//! ```
//!
//! It is read as a ticket is: the keys once each, in any order. The last three, which may be missing, have one text for
//! each issuer: as whom a login there asks, for what, and where that is to be good; or an empty one.

use super::identity::Fingerprint;
use super::ticket::{Line, TICKET_BYTES_MAX, Ticket, check_addresses};
use crate::failure::{self, Failure, FailureKind, Result};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thalweg_sys::atomic_file::{self, Durability};
use zeroize::Zeroizing;

/// Version of the format that is written and read.
const PLACE_VERSION: u32 = 1;
/// The key that tells it from a ticket.
const VERSION: &str = "thalweg-place";
/// Issuers in a place file.
pub const ISSUERS_MAX: usize = 16;
/// Longest issuer.
pub const ISSUER_BYTES_MAX: usize = 512;
/// Longest name of a client at an issuer.
const CLIENT_BYTES_MAX: usize = 255;
/// Longest list of scopes of an issuer, with the spaces between them.
const SCOPES_BYTES_MAX: usize = 1024;
/// Longest name of a resource.
const RESOURCE_BYTES_MAX: usize = 255;
/// Longest of what a place file says of one issuer, with what stands between the texts.
const OF_ISSUER_BYTES_MAX: usize =
    ISSUER_BYTES_MAX + CLIENT_BYTES_MAX + SCOPES_BYTES_MAX + RESOURCE_BYTES_MAX + 16;
// What is read of a ticket is enough for a place file.
const _: () = assert!(ISSUERS_MAX * OF_ISSUER_BYTES_MAX < TICKET_BYTES_MAX / 2);

/// An identity provider whose tokens a server takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// The URL that names it.
    pub url: String,
    /// What a login is known as there: a client without a secret, at most 255 visible characters. `None`: nobody logs
    /// in.
    pub client: Option<String>,
    /// What a login asks for, at most 1024 bytes with a space between two of them. None: what the provider gives
    /// anyway.
    pub scopes: Vec<String>,
    /// For what the tokens of a login are asked (RFC 8707), at most 255 bytes. `None`: what the provider makes them for
    /// anyway.
    pub resource: Option<String>,
}

/// What a client needs to know of a server that takes tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceFile {
    /// Where the server can be reached, as in [`Ticket::addresses`].
    pub addresses: Vec<String>,
    /// The certificate that the server must show.
    pub server: Fingerprint,
    /// Identity providers whose tokens it takes.
    pub issuers: Vec<Issuer>,
}

/// What a client is given to know a server by: a ticket, by which it is somebody to that too, or a place file.
#[derive(Debug, Clone)]
pub enum Pass {
    /// A ticket.
    Ticket(Ticket),
    /// A place file.
    Place(PlaceFile),
}

impl Pass {
    /// Reads whichever it is, following links.
    ///
    /// # Errors
    /// As [`Ticket::read`]; of a place file `Permission` if others may change it.
    pub fn read(path: &Path) -> Result<Pass> {
        match PlaceFile::read_if_one(path)? {
            Some(place) => Ok(Pass::Place(place)),
            None => Ticket::read(path).map(Pass::Ticket),
        }
    }

    /// Where the server can be reached.
    pub fn addresses(&self) -> &[String] {
        match self {
            Pass::Ticket(ticket) => &ticket.addresses,
            Pass::Place(place) => &place.addresses,
        }
    }

    /// The certificate that the server must show.
    pub fn server(&self) -> Fingerprint {
        match self {
            Pass::Ticket(ticket) => ticket.server,
            Pass::Place(place) => place.server,
        }
    }
}

impl PlaceFile {
    /// Writes it with mode 0644, whole and durable, in place of a file of that name.
    ///
    /// # Errors
    /// `Usage` for one that [`Pass::read`] would refuse, else what the file system said.
    pub fn write(&self, path: &Path) -> Result<()> {
        let written = atomic_file::write(path, self.to_text()?.as_bytes(), 0o644, Durability::Synced);
        written.map_err(|error| failure::at_path(failure::of_io("write", &error.cause), &error.path))
    }

    /// `None` for what is no such file. What is no regular file is not even opened: a pipe is read once.
    fn read_if_one(path: &Path) -> Result<Option<PlaceFile>> {
        if !std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(None);
        }
        // What cannot be opened is told as a ticket that cannot be.
        let Ok(file) = atomic_file::open(path) else { return Ok(None) };
        let fail = |error: &std::io::Error| failure::at_path(failure::of_io(READ, error), path);
        let metadata = file.metadata().map_err(|error| fail(&error))?;
        // It may be a ticket.
        let mut bytes = Zeroizing::new(Vec::with_capacity(TICKET_BYTES_MAX + 1));
        file.take(TICKET_BYTES_MAX as u64).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
        let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(None) };
        if !text.lines().any(|line| key_of(line) == Some(VERSION)) {
            return Ok(None);
        }
        let (mode, owner) = (metadata.mode(), metadata.uid());
        if mode & 0o022 != 0 {
            let mode = mode & 0o7777;
            let cause =
                format!("its mode {mode:04o} lets others change whom it trusts; run `chmod go-w` on it");
            return Err(failure::at_path(Failure::new(FailureKind::Permission, READ, cause), path));
        }
        if owner != thalweg_sys::user::effective_uid() && owner != 0 {
            let cause =
                format!("it belongs to user {owner}, who could change whom it trusts: make a copy of it");
            return Err(failure::at_path(Failure::new(FailureKind::Permission, READ, cause), path));
        }
        PlaceFile::from_text(text).map(Some).map_err(|failure| failure::at_path(failure, path))
    }

    /// The text of the file.
    ///
    /// # Errors
    /// `Usage` for addresses or issuers that it cannot hold.
    pub fn to_text(&self) -> Result<String> {
        check_addresses(&self.addresses)?;
        check_issuers(&self.issuers)?;
        let list = |of: &[String]| of.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ");
        let of_issuers =
            |text: fn(&Issuer) -> String| list(&self.issuers.iter().map(text).collect::<Vec<_>>());
        let mut text = format!(
            "# thalweg place: who this server is. No secret; but keep others from changing it.\n\
             {VERSION} = {PLACE_VERSION}\naddresses = [{}]\nserver = \"{}\"\nissuers = [{}]\n",
            list(&self.addresses),
            self.server,
            of_issuers(|issuer| issuer.url.clone())
        );
        if self.issuers.iter().any(|issuer| issuer.client.is_some()) {
            let clients = of_issuers(|issuer| issuer.client.clone().unwrap_or_default());
            let scopes = of_issuers(|issuer| issuer.scopes.join(" "));
            text.push_str(&format!("clients = [{clients}]\nscopes = [{scopes}]\n"));
        }
        if self.issuers.iter().any(|issuer| issuer.resource.is_some()) {
            let resources = of_issuers(|issuer| issuer.resource.clone().unwrap_or_default());
            text.push_str(&format!("resources = [{resources}]\n"));
        }
        Ok(text)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// `Usage`, with the line's number, for anything but a place file.
    pub fn from_text(text: &str) -> Result<PlaceFile> {
        let (mut version, mut addresses, mut server, mut issuers) = (None, None, None, None);
        let (mut clients, mut scopes, mut resources) = (None, None, None);
        for (at, line) in text.lines().enumerate() {
            let Some(line) = Line::read(at, line, refuse)? else { continue };
            let is_first = match line.key {
                VERSION => version.replace(line.version("it", PLACE_VERSION)?).is_none(),
                "addresses" => addresses.replace(line.addresses()?).is_none(),
                "server" => server.replace(line.server()?).is_none(),
                "issuers" | "clients" | "scopes" | "resources" => {
                    let list = line.list()?;
                    match line.key {
                        "issuers" => issuers.replace(list).is_none(),
                        "clients" => clients.replace(list).is_none(),
                        "resources" => resources.replace(list).is_none(),
                        _ => scopes.replace(list).is_none(),
                    }
                }
                _ => return Err(line.odd("this is no key of a place file")),
            };
            if !is_first {
                return Err(line.odd("this key was there before"));
            }
        }
        let missing = |key: &str| refuse(&format!("`{key}` is missing"));
        version.ok_or_else(|| missing(VERSION))?;
        let urls: Vec<String> = issuers.ok_or_else(|| missing("issuers"))?;
        let none = || vec![String::new(); urls.len()];
        let [clients, scopes, resources] =
            [clients, scopes, resources].map(|list: Option<Vec<String>>| list.unwrap_or_else(none));
        if [&clients, &scopes, &resources].iter().any(|list| list.len() != urls.len()) {
            return Err(refuse("`clients`, `scopes` and `resources` have one text for each issuer"));
        }
        let said = |text: String| Some(text).filter(|text| !text.is_empty());
        let of_logins = clients.into_iter().zip(scopes).zip(resources);
        let issuers = urls.into_iter().zip(of_logins).map(|(url, ((client, scopes), resource))| Issuer {
            url,
            client: said(client),
            scopes: scopes.split_ascii_whitespace().map(str::to_owned).collect(),
            resource: said(resource),
        });
        let issuers: Vec<Issuer> = issuers.collect();
        check_issuers(&issuers)?;
        Ok(PlaceFile {
            addresses: addresses.ok_or_else(|| missing("addresses"))?,
            server: server.ok_or_else(|| missing("server"))?,
            issuers,
        })
    }
}

/// What fails.
const READ: &str = "read the place file";

/// The key of a line, if it has one.
fn key_of(line: &str) -> Option<&str> {
    line.split_once('=').map(|(key, _)| key.trim())
}

fn check_issuers(issuers: &[Issuer]) -> Result<()> {
    if issuers.is_empty() || issuers.len() > ISSUERS_MAX || !issuers.iter().all(|one| is_word(&one.url)) {
        return Err(refuse("there are 1 to 16 issuers, each a URL without `,`"));
    }
    issuers.iter().try_for_each(|issuer| issuer.check().map_err(|why| refuse(&why)))
}

/// What stands in a place file, and is shown to people.
fn is_word(text: &str) -> bool {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\,".contains(&byte));
    !text.is_empty() && text.len() <= ISSUER_BYTES_MAX && is_plain
}

impl Issuer {
    /// Whether a place file can say how one logs in there.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> std::result::Result<(), String> {
        let bytes = self.scopes.iter().map(|scope| scope.len() + 1).sum::<usize>();
        if self.client.as_ref().is_some_and(|client| client.len() > CLIENT_BYTES_MAX || !is_word(client)) {
            return Err("a client is one word of at most 255 bytes, without `,`, `\"` and `\\`".to_owned());
        }
        if bytes > SCOPES_BYTES_MAX || !self.scopes.iter().all(|scope| is_word(scope)) {
            return Err(
                "scopes are a list of words, one scope each, without `,`, `\"` and `\\`, at most 1024 bytes \
                        in all"
                    .to_owned(),
            );
        }
        let is_named = |resource: &String| resource.len() <= RESOURCE_BYTES_MAX && is_word(resource);
        if !self.resource.as_ref().is_none_or(is_named) {
            return Err("a resource is one word of at most 255 bytes, without `,`, `\"` and `\\`".to_owned());
        }
        match self.client.is_none() && (!self.scopes.is_empty() || self.resource.is_some()) {
            true => Err("scopes and a resource are what a client asks for, and there is none".to_owned()),
            false => Ok(()),
        }
    }
}

fn refuse(why: &str) -> Failure {
    Failure::new(FailureKind::Usage, READ, why)
}

#[cfg(test)]
mod tests {
    use super::super::identity::Identity;
    use super::*;
    use proptest::prelude::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    fn place() -> PlaceFile {
        PlaceFile {
            addresses: vec!["data.example.org:8487".into(), "[2001:db8::7]:8487".into()],
            server: Fingerprint([7; 32]),
            issuers: vec![
                Issuer {
                    url: "https://iam.example.org/".into(),
                    client: None,
                    scopes: Vec::new(),
                    resource: None,
                },
                Issuer {
                    url: "https://sso.example.org/realms/science".into(),
                    client: Some("thalweg".into()),
                    scopes: vec!["openid".into(), "storage.read:/".into()],
                    resource: Some("https://data.example.org".into()),
                },
            ],
        }
    }

    #[test]
    fn a_place_file_comes_back_and_is_told_from_a_ticket() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("place");
        place().write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
        let Pass::Place(read) = Pass::read(&path).unwrap() else { panic!("it is a place file") };
        assert_eq!(read, place());
        let identity_pem = Identity::generate("client").unwrap().to_pem();
        let ticket = Ticket { addresses: place().addresses, server: place().server, identity_pem };
        ticket.write(&path).unwrap();
        assert!(matches!(Pass::read(&path), Ok(Pass::Ticket(read)) if read.server == place().server));
        assert!(Pass::read(&scratch.path().join("none")).is_err());
    }

    #[test]
    fn a_place_file_that_others_may_change_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("place");
        place().write(&path).unwrap();
        for mode in [0o664, 0o646, 0o666] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let failure = Pass::read(&path).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Permission);
            assert!(failure.to_string().contains("chmod go-w"), "{failure}");
        }
    }

    #[test]
    fn what_is_no_place_file_is_refused() {
        let good = place().to_text().unwrap();
        let refused = |text: &str| PlaceFile::from_text(text).unwrap_err().to_string();
        assert!(refused("").contains("missing"));
        assert!(refused(&good.replace("place = 1", "place = 2")).contains("version 2"));
        assert!(refused(&format!("{good}newer = 1\n")).contains("no key"));
        assert!(refused(&format!("{good}{good}")).contains("before"));
        assert!(refused(&good.replace("https://iam.example.org/", "")).contains("1 to 16 issuers"));
        assert!(refused(&good.replace("https://iam.example.org/", "a\u{1b}")).contains("1 to 16 issuers"));
        assert!(
            refused(&good.replace("\"\", \"thalweg\"", "\"thalweg\"")).contains("one text for each issuer")
        );
        assert!(refused(&good.replace("thalweg\"", "two words\"")).contains("one word"));
        assert!(refused(&good.replace("\"thalweg\"", "\"\"")).contains("and there is none"));
        assert!(refused(&good.replace("openid", &"x".repeat(1024))).contains("1024 bytes"));
        assert!(refused(&good.replace("https://data", &"x".repeat(255))).contains("a resource is one word"));
    }

    #[test]
    fn a_place_file_where_nobody_logs_in_says_nothing_of_that() {
        let issuers = vec![place().issuers.swap_remove(0)];
        let text = PlaceFile { issuers, ..place() }.to_text().unwrap();
        assert!(!["clients", "scopes", "resources"].iter().any(|key| text.contains(key)), "{text}");
        assert_eq!(PlaceFile::from_text(&text).unwrap().issuers.len(), 1);
    }

    proptest! {
        #[test]
        fn any_text_gives_a_place_file_or_an_error(text in "(?s).{0,300}") {
            let _ = PlaceFile::from_text(&text);
        }
    }
}
