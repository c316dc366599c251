//! Places as users write them.

use crate::not_here;
use crate::objects::{self, Location, SCHEME};
use crate::options::{dataset, simulated, units};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::endpoint::simulated::ArraySpec;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_wire::path::Escaped;

pub use crate::objects::Settings;

/// Port of a daemon if none is given.
pub const DEFAULT_PORT: u16 = 8487;

/// A place: where a copy reads or writes, as a user writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A path of this machine.
    Local(PathBuf),
    /// `zero:SIZE`.
    Zero(u64),
    /// `data:`, with what the set is like.
    Dataset(DatasetSpec),
    /// `null:`.
    Null,
    /// `sim:`, with what the array is like.
    Simulated(ArraySpec),
    /// `tw://host[:port]/export/path`.
    Daemon {
        /// `host:port`.
        address: String,
        /// Export.
        export: String,
        /// Path in it, bytes.
        path: Vec<u8>,
        /// The ticket that the configuration gives for it.
        ticket: Option<PathBuf>,
    },
    /// `[user@]host:path` or `ssh://[user@]host[:port]/path`.
    Ssh {
        /// `[user@]host`.
        host: String,
        /// Port, if not ssh's own choice.
        port: Option<u16>,
        /// Path at the host, bytes.
        path: Vec<u8>,
    },
    /// `s3://bucket[/key]`.
    Object {
        /// Bucket and key.
        location: Location,
        /// What the configuration says of it.
        settings: Settings,
    },
}

/// A place that the configuration gives a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// As a user would write it; of a daemon the export may be missing.
    pub url: String,
    /// The daemon's ticket.
    pub ticket: Option<PathBuf>,
    /// How the store of a bucket is reached.
    pub settings: Settings,
}

/// Places by their names in the configuration: `@NAME/path`.
#[derive(Debug, Clone, Default)]
pub struct Places(BTreeMap<String, Configured>);

impl Places {
    /// Whether this can be a name.
    pub fn is_name(text: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !text.is_empty() && text.bytes().all(is_plain)
    }

    /// Adds one, or replaces it.
    pub fn insert(&mut self, name: &str, place: Configured) {
        self.0.insert(name.to_owned(), place);
    }

    /// What `NAME` or `NAME/path` means.
    fn named(&self, text: &[u8]) -> Result<Place> {
        let (name, path) = text.split_at(text.iter().position(|&b| b == b'/').unwrap_or(text.len()));
        let known = std::str::from_utf8(name).ok().and_then(|name| self.0.get(name));
        let unknown = || {
            let shown = thalweg_wire::path::Escaped(name);
            let cause = format!(
                "`@{shown}`: the configuration has no [place.{shown}] (a path that begins with `@` is written `./@`)"
            );
            Failure::new(FailureKind::Usage, "read place", cause)
        };
        known.ok_or_else(unknown)?.join(OsStr::from_bytes(path))
    }
}

impl Configured {
    /// Whether places can be made of it.
    ///
    /// # Errors
    /// `Usage`, saying what is wrong.
    pub fn check(&self) -> Result<()> {
        match self.join(OsStr::new("/x")) {
            Ok(Place::Daemon { .. } | Place::Ssh { .. } | Place::Object { .. }) => Ok(()),
            Ok(_) => Err(Failure::new(
                FailureKind::Usage,
                "read place",
                "a place is tw://HOST[:PORT][/EXPORT/PATH], [USER@]HOST:PATH or s3://BUCKET[/PREFIX]",
            )),
            Err(failure) => Err(failure),
        }
    }

    /// The place itself (`path` is empty), or one below it (`path` begins with a slash).
    ///
    /// # Errors
    /// As [`Place::parse`].
    pub fn join(&self, path: &OsStr) -> Result<Place> {
        let mut text = OsString::from(&self.url);
        if !path.is_empty() {
            text = self.url.strip_suffix('/').unwrap_or(&self.url).into();
            // `host:` and `ssh://host` are the home there; with a slash they would be the root.
            let is_home = self.url.ends_with(':') && !self.url.contains('/');
            if self.url.strip_prefix("ssh://").is_some_and(|rest| !rest.contains('/')) {
                text.push("/~");
            }
            let below = if is_home { &path.as_bytes()[1..] } else { path.as_bytes() };
            // What would be read as something else right behind `host:` is below the home all the same.
            if is_home && matches!(below, [b':' | b'/' | b'~', ..]) {
                text.push("./");
            }
            text.push(OsStr::from_bytes(below));
        }
        let mut named = Place::parse(&text, &Places::default())?;
        match &mut named {
            Place::Daemon { ticket, .. } => ticket.clone_from(&self.ticket),
            Place::Object { settings, .. } => settings.clone_from(&self.settings),
            _ => {}
        }
        Ok(named)
    }
}

/// As a user would write it, escaped.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::os::unix::ffi::OsStrExt;
        match self {
            Place::Local(path) => Escaped(path.as_os_str().as_bytes()).fmt(f),
            Place::Zero(bytes) => write!(f, "zero:{bytes}"),
            Place::Dataset(spec) => write!(f, "data:{}", dataset::words(spec)),
            Place::Null => f.write_str("null:"),
            Place::Simulated(array) => write!(f, "sim:{}", simulated::words(array)),
            Place::Daemon { address, export, path, .. } => {
                write!(
                    f,
                    "tw://{}/{}/{}",
                    Escaped(address.as_bytes()),
                    Escaped(export.as_bytes()),
                    Escaped(path)
                )
            }
            Place::Object { location, .. } => Escaped(location.to_string().as_bytes()).fmt(f),
            Place::Ssh { host, port, path } => {
                let (before, path) = of_ssh(host, *port, path);
                write!(f, "{}{}", Escaped(before.as_bytes()), Escaped(path))
            }
        }
    }
}

impl Place {
    /// As if it ended with a slash: its contents are meant.
    pub fn mean_contents(&mut self) {
        match self {
            Place::Local(local) if !local.as_os_str().as_bytes().ends_with(b"/") => {
                local.as_mut_os_string().push("/")
            }
            Place::Daemon { path, .. } | Place::Ssh { path, .. } if !path.ends_with(b"/") => path.push(b'/'),
            // A bucket means its contents.
            Place::Object { location: Location { key, .. }, .. }
                if !key.is_empty() && !key.ends_with('/') =>
            {
                key.push('/');
            }
            _ => {}
        }
    }

    /// The word, bytes and not escaped, that is read as this place at any machine; of a daemon without what the
    /// configuration says of it. `None` for a place of one machine.
    pub(crate) fn word(&self) -> Option<OsString> {
        let word = match self {
            Place::Ssh { host, port, path } => {
                let (before, path) = of_ssh(host, *port, path);
                [before.as_bytes(), path].concat()
            }
            Place::Daemon { address, export, path, .. } => {
                [&b"tw://"[..], address.as_bytes(), b"/", export.as_bytes(), b"/", path].concat()
            }
            _ => return None,
        };
        Some(OsString::from_vec(word))
    }

    /// The same place, the path of a far one without `.`, doubled slashes, and slashes at its end: it has one name.
    #[must_use]
    pub fn plain(&self) -> Place {
        let mut named = self.clone();
        if let Place::Daemon { path, .. } | Place::Ssh { path, .. } = &mut named {
            *path = plain(path);
        }
        if let Place::Ssh { path, .. } = &mut named
            && path.is_empty()
        {
            // As it is read.
            path.push(b'.');
        }
        named
    }

    /// The same place, where ssh is told this port for all that name none.
    #[must_use]
    pub fn with_port(mut self, default: Option<u16>) -> Place {
        if let Place::Ssh { port, .. } = &mut self {
            *port = port.or(default);
        }
        self
    }

    /// The place of this name below, as bytes: nothing in a name is read as part of a place. Places that are not of a
    /// tree stay as they are.
    #[must_use]
    pub fn below(&self, name: &[u8]) -> Place {
        let mut named = self.clone();
        match &mut named {
            Place::Local(local) => {
                let bytes = std::mem::take(local).into_os_string().into_vec();
                *local = PathBuf::from(OsString::from_vec(joined(bytes, name)));
            }
            Place::Daemon { path, .. } | Place::Ssh { path, .. } => {
                *path = joined(std::mem::take(path), name);
            }
            Place::Object { location, .. } => location.key = objects::key_below(&location.key, name),
            Place::Zero(_) | Place::Dataset(_) | Place::Null | Place::Simulated(_) => {}
        }
        named
    }

    /// Whether this, where `other` is copied to `to` in the same bucket, would be found again on the way, or would be
    /// in what is written there. Not seen: one store by other settings.
    pub(crate) fn meets_in_bucket(&self, other: &Place, to: &Place) -> bool {
        let Place::Object { location, settings } = self else { return false };
        let Place::Object { location: copied, .. } = other else { return false };
        let Place::Object { location: there, settings: theirs } = to else { return false };
        location.bucket == there.bucket
            && settings == theirs
            && objects::keys_meet(&location.key, &copied.key, &there.key)
    }

    /// Whether it is in a bucket.
    pub fn is_in_bucket(&self) -> bool {
        matches!(self, Place::Object { .. })
    }

    /// Reads a place.
    ///
    /// # Errors
    /// `Usage`, saying what is wrong with it.
    pub fn parse(text: &OsStr, places: &Places) -> Result<Place> {
        let bytes = text.as_bytes();
        let usage = |cause: &str| {
            let shown = thalweg_wire::path::Escaped(bytes);
            Failure::new(FailureKind::Usage, "read place", format!("`{shown}`: {cause}"))
        };
        if bytes.is_empty() {
            return Err(usage("a place cannot be empty"));
        }
        // Whoever writes it means a pipe. Commands that have one take it before a place is read.
        if bytes == b"-" {
            return Err(usage(not_here::PIPE));
        }
        if let Some(rest) = bytes.strip_prefix(b"@") {
            return places.named(rest);
        }
        if let Some(rest) = bytes.strip_prefix(b"tw://") {
            return daemon(rest).map_err(usage);
        }
        if bytes.starts_with(SCHEME.as_bytes()) {
            let text = std::str::from_utf8(bytes).map_err(|_| usage("a key is text (UTF-8)"))?;
            let location = Location::parse(text)?;
            return Ok(Place::Object { location, settings: Settings::default() });
        }
        if let Some(rest) = bytes.strip_prefix(b"ssh://") {
            let (authority, path) = match rest.iter().position(|&b| b == b'/') {
                Some(at) => (&rest[..at], &rest[at..]),
                None => (rest, &b"."[..]),
            };
            let authority = std::str::from_utf8(authority).map_err(|_| usage("the host is not text"))?;
            let (host, port) = match authority.rsplit_once(':') {
                // Colons in brackets are an IPv6 address's own.
                Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => {
                    (host, Some(port.parse().map_err(|_| usage("the port is out of range"))?))
                }
                _ => (authority, None),
            };
            return ssh(host, port, path).map_err(usage);
        }
        if let Some(size) = bytes.strip_prefix(b"zero:") {
            let size = std::str::from_utf8(size).map_err(|_| usage("the size is not text"))?;
            return units::parse_size(size).map(Place::Zero).map_err(|cause| usage(&cause));
        }
        if let Some(set) = bytes.strip_prefix(b"data:") {
            let set = std::str::from_utf8(set).map_err(|_| usage("the words are not text"))?;
            return dataset::parse_spec(set).map(Place::Dataset).map_err(|cause| usage(&cause));
        }
        if bytes == b"null:" {
            return Ok(Place::Null);
        }
        if let Some(array) = bytes.strip_prefix(b"sim:") {
            let array = std::str::from_utf8(array).map_err(|_| usage("the numbers are not text"))?;
            return simulated::parse_spec(array).map(Place::Simulated).map_err(|cause| usage(&cause));
        }
        if is_url(bytes) {
            return Err(usage(&not_here::foreign(bytes)));
        }
        // The first colon that is not in brackets, as in `[::1]:path`.
        let bracketed = match bytes.iter().position(|&b| b == b'[') {
            Some(open) if !bytes[..open].iter().any(|b| b":/".contains(b)) => {
                bytes.windows(2).position(|pair| pair == b"]:").map_or(0, |at| at + 1)
            }
            _ => 0,
        };
        if let Some(colon) = bytes[bracketed..].iter().position(|&b| b == b':').map(|at| at + bracketed)
            && !bytes[..colon].contains(&b'/')
        {
            let host = std::str::from_utf8(&bytes[..colon]).map_err(|_| usage("the host is not text"))?;
            let path = &bytes[colon + 1..];
            let named = ssh(host, None, path).map_err(usage)?;
            return match path {
                [b':', ..] => Err(usage(not_here::RSYNC_MODULE)),
                _ if is_home_of_another(path) => Err(usage(not_here::HOME_OF_ANOTHER)),
                _ => Ok(named),
            };
        }
        Ok(Place::Local(PathBuf::from(OsString::from_vec(bytes.to_vec()))))
    }
}

/// What stands before the path of a place that ssh reaches, and the path behind it: together they are read as that.
fn of_ssh<'a>(host: &str, port: Option<u16>, path: &'a [u8]) -> (String, &'a [u8]) {
    let host = bracketed(host);
    let path = if path == b"." { b"" } else { path };
    match port {
        // `HOST://PATH` would be read as a URL.
        None if !path.starts_with(b"//") => {
            // `HOST::NAME` and `HOST:~NAME` mean something else to others, and are not read.
            let is_odd = path.starts_with(b":") || is_home_of_another(path);
            (format!("{host}:{}", if is_odd { "./" } else { "" }), path)
        }
        _ => {
            let port = port.map_or(String::new(), |port| format!(":{port}"));
            // What is below the home directory has a tilde there.
            let home = match path {
                _ if path.is_empty() || path.starts_with(b"/") => "",
                _ if path.starts_with(b"~/") || path == b"~" => "/",
                _ => "/~/",
            };
            (format!("ssh://{host}{port}{home}"), path)
        }
    }
}

/// `[user@]host` as a place has it: an IPv6 address, which ssh takes without, in brackets.
fn bracketed(host: &str) -> String {
    match host.rsplit_once('@') {
        Some((user, host)) if host.contains(':') => format!("{user}@[{host}]"),
        None if host.contains(':') => format!("[{host}]"),
        _ => host.to_owned(),
    }
}

/// Whether a path begins with `~NAME`, which shells read as the home of NAME, and nothing here does.
fn is_home_of_another(path: &[u8]) -> bool {
    matches!(path, [b'~', next, ..] if *next != b'/')
}

/// Whether it begins with a scheme and two slashes (RFC 3986 section 3.1). `HOST://PATH` is read as that too: nobody
/// writes two slashes to a path by ssh, and everybody mistypes a scheme once.
fn is_url(bytes: &[u8]) -> bool {
    let Some(at) = bytes.windows(3).position(|three| three == b"://") else { return false };
    bytes[..at].iter().all(|&b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// A path, bytes, without `.`, doubled slashes, and slashes at its end.
pub(crate) fn plain(path: &[u8]) -> Vec<u8> {
    let root: &[u8] = if path.starts_with(b"/") { b"/" } else { b"" };
    let is_said = |part: &&[u8]| !part.is_empty() && *part != b".";
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(is_said).collect();
    [root, &parts.join(&b'/')].concat()
}

/// A name below a path, both bytes.
pub(crate) fn joined(mut path: Vec<u8>, name: &[u8]) -> Vec<u8> {
    if !path.is_empty() && !path.ends_with(b"/") && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The address of a daemon that is named alone, without an export, and the ticket that the configuration gives for it:
/// `tw://host[:port]`, or `@NAME` of such a one; with a slash behind it or without.
pub fn daemon_alone(text: &OsStr, places: &Places) -> Option<(String, Option<PathBuf>)> {
    if let Some(name) = text.as_bytes().strip_prefix(b"@") {
        let name = std::str::from_utf8(name.strip_suffix(b"/").unwrap_or(name)).ok()?;
        let known = places.0.get(name)?;
        let (address, _) = daemon_alone(OsStr::new(&known.url), &Places::default())?;
        return Some((address, known.ticket.clone()));
    }
    let authority = text.as_bytes().strip_prefix(b"tw://")?;
    let authority = authority.strip_suffix(b"/").unwrap_or(authority);
    if authority.contains(&b'/') {
        return None;
    }
    match daemon(&[authority, b"/any"].concat()) {
        Ok(Place::Daemon { address, .. }) => Some((address, None)),
        _ => None,
    }
}

fn daemon(rest: &[u8]) -> std::result::Result<Place, &'static str> {
    let (authority, path) = match rest.iter().position(|&b| b == b'/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => return Err("expected tw://host[:port]/export/path"),
    };
    let authority = std::str::from_utf8(authority).map_err(|_| "the host is not text")?;
    let (host, port) = match authority.rsplit_once(':') {
        // Colons in brackets are an IPv6 address's own.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if authority.is_empty() || authority.starts_with(':') {
        return Err("the host is missing");
    }
    if authority.contains(',') {
        return Err(not_here::SEVERAL_HOSTS);
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_bracketed = bare.is_some_and(|bare| !bare.is_empty() && !bare.contains(['[', ']']));
    if host.contains(['[', ']', ':']) && !is_bracketed {
        return Err("an IPv6 address stands in brackets: tw://[ADDRESS]:PORT/export/path");
    }
    let address = match port {
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => authority.to_owned(),
        Some(_) => return Err("a port is a number from 1 to 65535"),
        None => format!("{authority}:{DEFAULT_PORT}"),
    };
    let (export, path) = match path.iter().position(|&b| b == b'/') {
        Some(at) => (&path[..at], path[at + 1..].to_vec()),
        None => (path, Vec::new()),
    };
    let export = std::str::from_utf8(export).map_err(|_| "the export is not text")?.to_owned();
    if export.is_empty() {
        return Err(
            "the export is missing: tw://host[:port]/export/path (`thalweg ls tw://host/` tells which there are)",
        );
    }
    Ok(Place::Daemon { address, export, path, ticket: None })
}

fn ssh(host: &str, port: Option<u16>, path: &[u8]) -> std::result::Result<Place, &'static str> {
    // ssh takes an IPv6 address without brackets.
    let (user, bare) = host.rsplit_once('@').map_or(("", host), |(user, bare)| (user, bare));
    let host = match bare.strip_prefix('[').and_then(|bare| bare.strip_suffix(']')) {
        Some(address) if host.contains('@') => format!("{user}@{address}"),
        Some(address) => address.to_owned(),
        None => host.to_owned(),
    };
    if bare.contains(',') {
        return Err(not_here::SEVERAL_HOSTS);
    }
    thalweg_mover::link::ssh::check_destination(&host)?;
    let path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
    Ok(Place::Ssh { host, port, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Place {
        Place::parse(OsStr::new(text), &Places::default()).unwrap()
    }

    #[test]
    fn places_are_read_as_rsync_users_write_them() {
        assert_eq!(parse("a/b:c"), Place::Local("a/b:c".into()));
        assert_eq!(parse("./a:b"), Place::Local("./a:b".into()));
        assert_eq!(
            parse("me@host:dir/"),
            Place::Ssh { host: "me@host".into(), port: None, path: b"dir/".to_vec() }
        );
        assert_eq!(parse("host:"), Place::Ssh { host: "host".into(), port: None, path: b".".to_vec() });
        assert_eq!(
            parse("ssh://h:2222/x"),
            Place::Ssh { host: "h".into(), port: Some(2222), path: b"/x".to_vec() }
        );
        let six = |host: &str, port| Place::Ssh { host: host.into(), port, path: b"/x".to_vec() };
        assert_eq!(parse("ssh://me@[::1]:2222/x"), six("me@::1", Some(2222)));
        assert_eq!(parse("ssh://[::1]/x"), six("::1", None));
        assert_eq!(parse("me@[fe80::1%eth0]:/x"), six("me@fe80::1%eth0", None));
        let daemon = |address: &str, path: &[u8]| Place::Daemon {
            address: address.into(),
            export: "data".into(),
            path: path.to_vec(),
            ticket: None,
        };
        assert_eq!(parse("tw://h/data"), daemon("h:8487", b""));
        assert_eq!(parse("tw://h:9/data/x/"), daemon("h:9", b"x/"));
        assert_eq!(parse("tw://[::1]:9/data/x"), daemon("[::1]:9", b"x"));
        assert_eq!(parse("tw://[::1]/data/x"), daemon("[::1]:8487", b"x"));
        assert_eq!(parse("zero:4MiB"), Place::Zero(4 << 20));
        assert_eq!(parse("null:"), Place::Null);
        let array = ArraySpec { devices: 4, bytes: 2 << 30, is_scattered: true, ..ArraySpec::default() };
        assert_eq!(parse("sim:devices=4,size=2GiB,scattered"), Place::Simulated(array.clone()));
        let array = ArraySpec { hides_places: true, ..array };
        assert_eq!(parse("sim:devices=4,size=2GiB,scattered,devices-only"), Place::Simulated(array));
        assert_eq!(parse("sim:"), Place::Simulated(ArraySpec::default()));
        let array = ArraySpec { queue: 8, bytes: 2 << 30, ..ArraySpec::eonstor() };
        assert_eq!(parse("sim:eonstor,size=2GiB,queue=8"), Place::Simulated(array));
        for text in ["sim:", "sim:eonstor,size=2GiB,queue=8", "sim:scattered,devices-only,seed=9,seek=1.5ms"]
        {
            assert_eq!(parse(&parse(text).to_string()), parse(text), "{text}");
        }
        for bad in [
            "sim:devices=0",
            "sim:speed=9",
            "sim:rate=0",
            "sim:seek=8x",
            "sim:seed=x",
            "sim:queue=0",
            "sim:queue=257",
            "sim:host=0",
            "sim:host=",
            "sim:eonstor=1",
            // Also behind what changes nothing.
            "sim:size=1GiB,eonstor",
            "sim:eonstor,eonstor",
        ] {
            assert!(Place::parse(OsStr::new(bad), &Places::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn places_in_buckets_have_keys_and_are_shown_as_they_are_read() {
        let object = |key: &str| Place::Object {
            location: Location { bucket: "data".into(), key: key.into() },
            settings: Settings::default(),
        };
        for (text, key) in [
            ("s3://data", ""),
            ("s3://data/run7", "run7"),
            ("s3://data/run7/", "run7/"),
            ("s3://data/a b/c%20d", "a b/c%20d"),
        ] {
            assert_eq!(parse(text), object(key), "{text}");
            assert_eq!(parse(text).to_string(), text);
        }
        assert_eq!(parse("s3://data/run7").below(b"a/b"), object("run7/a/b"));
        assert_eq!(parse("s3://data").below(b"a"), object("a"));
        for (text, key) in [("s3://data", ""), ("s3://data/x", "x/"), ("s3://data/x/", "x/")] {
            let mut place = parse(text);
            place.mean_contents();
            assert_eq!(place, object(key), "{text}");
        }
        for bad in ["s3://", "s3://da ta/x", "s3://data//x", "s3://data/../x", "s3://KEY@data/x"] {
            let refused = Place::parse(OsStr::new(bad), &Places::default()).unwrap_err();
            assert_eq!(refused.kind, FailureKind::Usage, "{bad}: {refused}");
        }
        let options = objects::Options { anonymous: true, ..objects::Options::default() };
        let settings = Settings { options, ..Settings::default() };
        let mut places = Places::default();
        let url = "s3://data/base/".to_owned();
        places.insert("site", Configured { url, ticket: None, settings: settings.clone() });
        for (text, key) in [("@site", "base/"), ("@site/", "base/"), ("@site/x/y", "base/x/y")] {
            let location = Location { bucket: "data".into(), key: key.into() };
            let named = Place::parse(OsStr::new(text), &places).unwrap();
            assert_eq!(named, Place::Object { location, settings: settings.clone() }, "{text}");
        }
    }

    /// Each would else be a name that nobody meant, made without a word.
    #[test]
    fn what_means_something_else_to_other_tools_is_refused_and_has_another_spelling() {
        for (text, told) in [
            ("-", "thalweg stream - DST"),
            ("-", "thalweg cat SRC"),
            ("-", "`./-`"),
            ("host::module", "tw://HOST/EXPORT/PATH"),
            ("me@[::1]::module/x", "HOST:./:NAME"),
            ("host:~other/x", "HOST:./~NAME"),
            ("host:~other", "HOST:./~NAME"),
        ] {
            let error = Place::parse(OsStr::new(text), &Places::default()).unwrap_err();
            assert_eq!(error.kind, FailureKind::Usage, "{text}");
            assert!(error.cause.contains(told), "{text}: {error}");
        }
        assert_eq!(parse("./-"), Place::Local("./-".into()));
        for text in ["host:./:module", "host:./~other/x", "host:~", "host:~/x"] {
            let path = text.strip_prefix("host:").unwrap().as_bytes().to_vec();
            assert_eq!(parse(text), Place::Ssh { host: "host".into(), port: None, path });
            assert_eq!(parse(text).to_string(), text);
            // Without its `./` it is still shown as it is read.
            let shown = parse(text).plain().to_string();
            assert_eq!(parse(&shown).plain(), parse(text).plain(), "{text}");
        }
    }

    #[test]
    fn names_below_a_place_are_bytes_and_nothing_else() {
        for name in ["@x", "a:b", "tw:", "-rf", "x/y"] {
            assert_eq!(parse("/data").below(name.as_bytes()), Place::Local(format!("/data/{name}").into()));
            assert_eq!(parse("h:").below(name.as_bytes()), parse(&format!("h:./{name}")));
            assert_eq!(parse("tw://h/data").below(name.as_bytes()), parse(&format!("tw://h/data/{name}")));
        }
        assert_eq!(parse("/data/").below(b""), parse("/data/"));
    }

    #[test]
    fn a_far_place_is_the_same_with_slashes_at_its_end_and_without() {
        for (text, shown) in [
            ("tw://h/data/x/", "tw://h:8487/data/x"),
            ("tw://h/data/./x//y/.", "tw://h:8487/data/x/y"),
            ("tw://h/data/", "tw://h:8487/data/"),
            ("tw://h/data", "tw://h:8487/data/"),
            ("h:x/", "h:x"),
            ("h:./x", "h:x"),
            ("h:", "h:"),
            ("h:./", "h:"),
            ("h:/", "h:/"),
            ("ssh://h:22//x/", "ssh://h:22/x"),
            ("/x//", "/x//"),
        ] {
            assert_eq!(parse(text).plain().to_string(), shown, "{text}");
        }
        let holds = |outer, inner| crate::far_movers::holds(&parse(outer), &parse(inner));
        for (outer, inner) in [
            ("tw://h/data", "tw://h:8487/data/x"),
            ("tw://h/data/x/", "tw://h/data/x"),
            ("tw://h/data/x", "tw://h/data/./x//y"),
            ("h:", "h:x"),
            ("h:~/x", "h:x/y"),
            ("h:/", "h:/x"),
        ] {
            assert!(holds(outer, inner), "{outer} {inner}");
        }
        for (outer, inner) in [
            ("tw://h/data/x", "tw://h/data/xy"),
            ("tw://h/data/x", "tw://h/other/x/y"),
            ("tw://h/data/x", "tw://g/data/x/y"),
            ("tw://h/data/x/y", "tw://h/data/x"),
            ("h:", "h:/x"),
            ("h:x", "h:x/../y"),
            ("h:x", "ssh://h:22/~/x/y"),
            ("/x", "/x/y"),
        ] {
            assert!(!holds(outer, inner), "{outer} {inner}");
        }
    }

    /// Two places are shown alike only if they are the same.
    #[test]
    fn places_by_ssh_are_shown_as_they_are_read_with_their_port() {
        for text in ["h:", "h:a/b", "h:~/a", "me@h:/x/", "me@[::1]:x", "[::1]:/x", "ssh://me@[::1]:22/x"] {
            assert_eq!(parse(text).to_string(), text);
        }
        for text in ["ssh://h:22", "ssh://h:22/", "ssh://h:22/~/a", "ssh://h//a", "ssh://h:22//a"] {
            assert_eq!(parse(text).to_string(), text);
        }
        for (text, shown) in [
            ("h:.", "ssh://h:22"),
            ("h:a/b", "ssh://h:22/~/a/b"),
            ("h:~/a", "ssh://h:22/~/a"),
            ("h:~", "ssh://h:22/~"),
            ("h:./~other/a", "ssh://h:22/~/./~other/a"),
            ("h:/a", "ssh://h:22/a"),
            ("ssh://h:23/a", "ssh://h:23/a"),
            ("/a", "/a"),
        ] {
            let place = parse(text).with_port(Some(22));
            assert_eq!(place.to_string(), shown);
            let there = crate::far_movers::place_there;
            assert_eq!(there(&parse(shown)), there(&place), "{text}");
        }
        assert_eq!(parse("ssh://h:22").below(b"x").to_string(), "ssh://h:22/~/./x");
    }

    /// Each would else be looked up as a name, for as long as there is patience.
    #[test]
    fn a_port_that_is_none_and_an_address_without_its_brackets_are_no_host() {
        for (text, told) in [
            ("tw://10.9.0.1:99999/data/k", "from 1 to 65535"),
            ("tw://h:0/data/k", "from 1 to 65535"),
            ("tw://h:0/", "from 1 to 65535"),
            ("tw://h:x/data", "from 1 to 65535"),
            ("tw://[::1]:65536/data", "from 1 to 65535"),
            ("tw://[fd09::1/data/k", "in brackets"),
            ("tw://fd09::1/data/k", "in brackets"),
            ("tw://fd09::1]:9/data/k", "in brackets"),
            ("tw://[]/data", "in brackets"),
        ] {
            let error = Place::parse(OsStr::new(text), &Places::default()).unwrap_err();
            assert_eq!(error.kind, FailureKind::Usage, "{text}");
            assert!(error.cause.contains(told), "{text}: {error}");
            assert_eq!(daemon_alone(OsStr::new(text), &Places::default()), None, "{text}");
        }
    }

    #[test]
    fn another_scheme_is_not_a_host() {
        for bad in ["thalweg://h/data", "s3a://bucket/x", "gs://bucket/x", "rsync://h/x", "https://h/x"] {
            let error = Place::parse(OsStr::new(bad), &Places::default()).unwrap_err();
            assert!(error.to_string().contains("known are tw://"), "{error}");
        }
        assert_eq!(parse("./a://b"), Place::Local("./a://b".into()));
    }

    #[test]
    fn hosts_that_are_options_are_refused() {
        for bad in [
            "-oProxyCommand=x:y",
            "ssh://-x/y",
            "tw://h",
            "tw:///x",
            "tw://h/",
            "",
            ":x",
            "a b:c",
            "h1,h2:x",
            "tw://a,b/x",
        ] {
            assert!(Place::parse(OsStr::new(bad), &Places::default()).is_err(), "{bad}");
        }
    }
}
