//! Tickets of a daemon's users: who may come in, until when, and what each may do there.
//!
//! Each is a file `STATE/tickets/NAME.json` with its name, the fingerprint of its certificate and its rights. The key
//! is in the ticket file that the user carries, and nowhere here. A ticket that was revoked keeps its file, so that its
//! holder hears why, and its name is not given again.
//!
//! 1. `thalweg ticket` makes and revokes: whole files, put in place durably by link or rename.
//! 2. A daemon heeds that while it runs: [`Tickets`].
//! 3. Who shows the token of an identity provider has the rights of a ticket as well, and no file: [`issuers`].
//!
//! What cannot be read is no ticket: nobody comes in by it. Two tickets of one certificate are none. Not here: what the
//! daemon's owner may, whose ticket has no file.

use crate::export::is_name;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use thalweg_mover::failure::{self, Failure, FailureKind, Reason, Result};
use thalweg_mover::link::Fingerprint;
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::clock;
use thalweg_sys::dir::make_lasting;
use thalweg_wire::limits;
use thalweg_wire::path::Escaped;

mod heeded;

mod daemon;

pub mod issuers;

mod guests;

mod vouched;

pub use daemon::Daemon;
pub(crate) use guests::Guest;
pub use heeded::Tickets;
pub(crate) use vouched::{Vouched, have_one_holder, holder_of, over, vouches_for_nobody};

/// Name of the ticket of the daemon's owner, which no other has.
pub const OWNER: &str = "owner";
/// Longest name of a ticket.
pub const NAME_BYTES_MAX: usize = 64;
/// Tickets of one daemon, those that are over included.
pub const TICKETS_MAX: usize = 65_536;
/// What was under way when its ticket ended goes on for so long at most, in seconds: an hour.
pub const GRACE_S: u64 = 3600;
/// Exports that a ticket may name.
const PARTS_MAX: usize = 256;
/// Larger files are none of ours.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Layout of a file.
const VERSION: u32 = 1;
/// How the name of a file ends.
const ENDING: &str = ".json";

const MAKE: &str = "make a ticket";
const READ: &str = "read a ticket";
const REVOKE: &str = "revoke a ticket";

/// What is kept of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    version: u32,
    /// Its name.
    pub name: String,
    /// Fingerprint of the certificate that its holder shows.
    #[serde(with = "as_text")]
    pub certificate: Fingerprint,
    /// When it was made, in seconds since 1970.
    pub made_at: u64,
    /// From when on it is not taken, in seconds since 1970; `None`: it has no end.
    #[serde(deserialize_with = "stated")]
    pub expires_at: Option<u64>,
    /// When it was revoked, in seconds since 1970; of a token, when rules were changed that gave this.
    #[serde(deserialize_with = "stated")]
    pub revoked_at: Option<u64>,
    /// What its holder reaches.
    pub reach: Reach,
    /// What all its sessions together move at most, in bits a second, both directions in one.
    #[serde(deserialize_with = "stated")]
    pub bits_per_s_max: Option<u64>,
    /// Who made the token that it is of, where it is of no file.
    #[serde(skip)]
    pub issuer: Option<String>,
}

/// What the holder of a ticket reaches of what there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// All exports, with what each permits.
    All,
    /// These.
    Only(Vec<Part>),
}

/// An export that a ticket names, and what it takes from what that permits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Its name.
    pub export: String,
    /// The directory in it that is all of it to the holder, by its path; empty: all of it.
    pub below: String,
    /// The holder may read only.
    pub read_only: bool,
    /// The holder deletes nothing.
    pub no_delete: bool,
    /// The holder replaces nothing.
    pub no_replace: bool,
}

/// Whether a ticket is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Valid,
    /// Not since then, in seconds since 1970.
    Expired(u64),
    /// Somebody took it back then, in seconds since 1970.
    Revoked(u64),
}

/// Of a field that has to be there, though it may be null: one that somebody took out of a file gives no rights.
fn stated<'de, D, T>(deserializer: D) -> std::result::Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer)
}

/// A fingerprint as people read it.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use thalweg_mover::link::Fingerprint;

    pub fn serialize<S: Serializer>(fingerprint: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(fingerprint)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// What of an export a ticket may take away, for people.
const FLAGS: &str = "ro, no-delete, no-replace";

impl Part {
    /// Reads `EXPORT` or `EXPORT:FLAG[,FLAG...]`.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn read(text: &str) -> std::result::Result<Part, String> {
        let (export, flags) = match text.split_once(':') {
            Some((export, flags)) => (export, Some(flags)),
            None => (text, None),
        };
        if !is_name(export, limits::NAME_BYTES_MAX) {
            let wanted = "EXPORT or EXPORT:FLAG,... is wanted; in a name are letters, digits, `-`, `_`, `.`";
            return Err(wanted.to_owned());
        }
        let mut part = Part {
            export: export.to_owned(),
            below: String::new(),
            read_only: false,
            no_delete: false,
            no_replace: false,
        };
        for flag in flags.into_iter().flat_map(|flags| flags.split(',')) {
            match flag {
                "ro" => part.read_only = true,
                "no-delete" => part.no_delete = true,
                "no-replace" => part.no_replace = true,
                _ => return Err(format!("a flag is one of {FLAGS}")),
            }
        }
        Ok(part)
    }

    /// As [`Part::read`] takes it, without the directory.
    pub fn shown(&self) -> String {
        let flags = [(self.read_only, "ro"), (self.no_delete, "no-delete"), (self.no_replace, "no-replace")];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        let flags: Vec<&str> = set.map(|(_, flag)| flag).collect();
        if flags.is_empty() { self.export.clone() } else { format!("{}:{}", self.export, flags.join(",")) }
    }
}

/// Reads the path of a directory in an export, without what it does not need.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_below(text: &str) -> std::result::Result<String, String> {
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() || parts.contains(&"..") || text.contains('\0') {
        return Err("a directory in the export is wanted, without `..`".to_owned());
    }
    if parts.len() > limits::PLACE_LEVELS_MAX {
        return Err(format!("it has at most {} levels", limits::PLACE_LEVELS_MAX));
    }
    Ok(parts.join("/"))
}

/// Reads the name of a ticket.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_name(text: &str) -> std::result::Result<String, String> {
    match text {
        OWNER => Err(format!("`{OWNER}` is the ticket that `thalweg serve --ticket-file` writes")),
        name if is_name(name, NAME_BYTES_MAX) => Ok(name.to_owned()),
        _ => Err("a name has at most 64 letters, digits, `-`, `_` and `.`, and no `.` first".to_owned()),
    }
}

impl Record {
    /// One that is made now: without an end, for everything.
    pub fn of(name: &str, certificate: Fingerprint, made_at: u64) -> Record {
        Record {
            version: VERSION,
            name: name.to_owned(),
            certificate,
            made_at,
            expires_at: None,
            revoked_at: None,
            reach: Reach::All,
            bits_per_s_max: None,
            issuer: None,
        }
    }

    /// Whether it is taken at this time, in seconds since 1970.
    pub fn standing(&self, now: u64) -> Standing {
        match (self.revoked_at, self.expires_at) {
            (Some(at), _) => Standing::Revoked(at),
            (None, Some(at)) if now >= at => Standing::Expired(at),
            _ => Standing::Valid,
        }
    }

    /// The same where something is to be begun with it.
    ///
    /// # Errors
    /// `Permission` if it is not.
    pub fn check(&self, now: u64) -> Result<()> {
        match self.standing(now) {
            Standing::Valid => Ok(()),
            Standing::Expired(at) => Err(self.refused(&format!("expired on {}", shown(at)))),
            Standing::Revoked(at) if self.issuer.is_some() => Err(self.withdrawn(at)),
            Standing::Revoked(at) => Err(self.refused(&format!("was revoked on {}", shown(at)))),
        }
    }

    /// Whether it gives the same, to a holder who is called the same.
    fn gives_as(&self, other: &Record) -> bool {
        self.name == other.name && self.reach == other.reach && self.bits_per_s_max == other.bits_per_s_max
    }

    /// Why what is under way with it ends, if it does: one that expired is borne with for [`GRACE_S`].
    pub(crate) fn ends(&self, now: u64) -> Option<Failure> {
        match self.standing(now) {
            Standing::Expired(at) if now < at.saturating_add(GRACE_S) => None,
            _ => self.check(now).err(),
        }
    }

    fn refused(&self, how: &str) -> Failure {
        let name = &self.name;
        match &self.issuer {
            None => {
                let cause = format!("the ticket `{name}` {how}: ask the operator of the daemon for another");
                Failure::new(FailureKind::Permission, SERVE, cause)
            }
            Some(issuer) => {
                let cause = format!("the token of `{name}` {how}: have another from `{issuer}`");
                Failure::new(FailureKind::Permission, SERVE, cause).because(Reason::TokenNotTaken)
            }
        }
    }

    /// Of a token: another one from its issuer would not help.
    fn withdrawn(&self, at: u64) -> Failure {
        let cause = format!(
            "the operator of the daemon changed on {} what tokens give: that of `{}` gives something else now, or nothing; \
             what is begun anew goes by that",
            shown(at),
            self.name
        );
        Failure::new(FailureKind::Permission, SERVE, cause)
    }

    fn to_text(&self) -> Result<Vec<u8>> {
        let text = serde_json::to_string_pretty(self);
        let text = text.map_err(|error| Failure::new(FailureKind::Internal, MAKE, error))?;
        Ok((text + "\n").into_bytes())
    }

    /// Reads the text of the file of a ticket of this name.
    fn from_text(name: &str, text: &str) -> Result<Record> {
        /// What all versions have.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let refuse = |cause: &str| Failure::new(FailureKind::Usage, READ, cause);
        let odd = |error: serde_json::Error| refuse(&format!("it is none: {error}"));
        let Versioned { version } = serde_json::from_str(text).map_err(odd)?;
        if version != VERSION {
            let (ours, theirs) = (VERSION, version);
            let cause = format!("it has version {theirs}, this thalweg reads {ours}: update the older side");
            return Err(refuse(&cause));
        }
        let record: Record = serde_json::from_str(text).map_err(odd)?;
        if record.name != name || parse_name(name).is_err() {
            return Err(refuse("its file is not called as it is"));
        }
        if let Reach::Only(parts) = &record.reach {
            let is_odd = |part: &Part| {
                let is_plain = || parse_below(&part.below).is_ok_and(|plain| plain == part.below);
                !part.below.is_empty() && !is_plain() || !is_name(&part.export, limits::NAME_BYTES_MAX)
            };
            if parts.len() > PARTS_MAX || parts.iter().any(is_odd) {
                return Err(refuse("it reaches for too much, or for what is in no export"));
            }
            let mut names = HashSet::new();
            // Of two only the first would be heeded.
            if let Some(part) = parts.iter().find(|part| !names.insert(part.export.as_str())) {
                return Err(refuse(&format!("it names the export `{}` twice", part.export)));
            }
        }
        Ok(record)
    }
}

/// What fails where a client is not served.
const SERVE: &str = "serve";

/// A moment, for people.
fn shown(seconds_since_1970: u64) -> String {
    clock::moment(i64::try_from(seconds_since_1970).unwrap_or(i64::MAX / 2))
}

/// Where the tickets of a daemon are, by its state directory.
fn directory_of(state: &Path) -> PathBuf {
    state.join("tickets")
}

/// Makes the directory of tickets, if there is none. Others may read it: who makes tickets is not always the daemon's
/// user, and no key is in it.
///
/// # Errors
/// What the kernel says.
pub fn make_directory(state: &Path) -> Result<()> {
    let directory = directory_of(state);
    make_lasting(&directory, 0o755).map_err(|error| at(MAKE, &directory, &error))
}

/// Keeps a new ticket, durably.
///
/// # Errors
/// `Conflict` if its name was ever given; `Usage` for one that cannot be, `Space` where there are [`TICKETS_MAX`]; else
/// what the kernel says.
pub fn add(state: &Path, record: &Record) -> Result<()> {
    check_free(state, &record.name)?;
    // What would not be read again is not written.
    let text = record.to_text()?;
    Record::from_text(&record.name, &String::from_utf8_lossy(&text))?;
    make_directory(state)?;
    let path = path_of(&directory_of(state), &record.name);
    let written = atomic_file::write_new(&path, &text, 0o644, Durability::Synced);
    written.map_err(|error| match error.cause.kind() {
        ErrorKind::AlreadyExists => taken(&record.name),
        _ => at(MAKE, &error.path, &error.cause),
    })
}

/// Whether a ticket may be called so.
///
/// # Errors
/// As [`add`].
pub fn check_free(state: &Path, name: &str) -> Result<()> {
    parse_name(name).map_err(|cause| Failure::new(FailureKind::Usage, MAKE, cause))?;
    let directory = directory_of(state);
    match fs::symlink_metadata(path_of(&directory, name)) {
        Ok(_) => return Err(taken(name)),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(at(MAKE, &directory, &error)),
    }
    match names(&directory) {
        Ok(names) if names.len() >= TICKETS_MAX => {
            let cause = format!("there are {TICKETS_MAX}: remove files of old ones");
            Err(failure::at_path(Failure::new(FailureKind::Space, MAKE, cause), &directory))
        }
        Err(error) if error.kind() != ErrorKind::NotFound => Err(at(MAKE, &directory, &error)),
        _ => Ok(()),
    }
}

fn taken(name: &str) -> Failure {
    let cause = format!("there is, or was, a ticket `{name}`: take another name");
    Failure::new(FailureKind::Conflict, MAKE, cause)
}

/// Takes a ticket back, durably; one that was taken back before stays as it is. What it was.
///
/// # Errors
/// `NotFound` if there is none of this name; else what reading and writing say.
pub fn revoke(state: &Path, name: &str, now: u64) -> Result<Record> {
    let directory = directory_of(state);
    let record = match parse_name(name).is_ok() {
        true => read(&directory, name)?,
        false => None,
    };
    let Some(record) = record else {
        let cause = format!("there is no ticket `{}`", Escaped(name.as_bytes()));
        return Err(Failure::new(FailureKind::NotFound, REVOKE, cause));
    };
    if record.revoked_at.is_none() {
        let revoked = Record { revoked_at: Some(now), ..record.clone() };
        let path = path_of(&directory, name);
        let written = atomic_file::write(&path, &revoked.to_text()?, 0o644, Durability::Synced);
        written.map_err(|error| not_revoked(&path, &error.path, &error.cause))?;
    }
    Ok(record)
}

/// Why the file of a ticket could not be written anew, and what helps where there is no room for that.
fn not_revoked(path: &Path, written: &Path, error: &io::Error) -> Failure {
    let failure = at(REVOKE, written, error);
    if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return failure;
    }
    let path = failure::shown_path(path.as_os_str().as_encoded_bytes());
    let cause = format!("{}; remove `{path}`: its holder is then unknown", failure.cause);
    Failure { cause, ..failure }
}

/// All tickets by name, and why some of them cannot be read.
///
/// # Errors
/// If their directory cannot be read.
pub fn all(state: &Path) -> Result<(Vec<Record>, Vec<Failure>)> {
    let directory = directory_of(state);
    let names = match names(&directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        names => names.map_err(|error| at(READ, &directory, &error))?,
    };
    let (mut records, mut troubles) = (Vec::new(), Vec::new());
    for name in names {
        match read(&directory, &name) {
            Ok(record) => records.extend(record),
            Err(failure) => troubles.push(failure),
        }
    }
    Ok((records, troubles))
}

/// When a ticket was used last, in seconds since 1970, to about a minute; `None` if it never was.
pub fn used_at(state: &Path, name: &str) -> Option<u64> {
    let modified = fs::metadata(uses_of(state).join(name)).and_then(|used| used.modified()).ok()?;
    modified.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Beside the tickets: what is noted there does not make their directory another.
fn uses_of(state: &Path) -> PathBuf {
    state.join("tickets-used")
}

fn path_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{ENDING}"))
}

fn at(operation: &str, path: &Path, error: &io::Error) -> Failure {
    failure::at_path(failure::of_io(operation, error), path)
}

/// Names of the tickets in a directory, in order, at most one more than there may be. What is called otherwise is none.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        names.extend(name.filter(|name| parse_name(name).is_ok()).map(str::to_owned));
        if names.len() > TICKETS_MAX {
            break;
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// `None` if there is no such ticket.
fn read(directory: &Path, name: &str) -> Result<Option<Record>> {
    let path = path_of(directory, name);
    let file = match atomic_file::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| at(READ, &path, &error))?,
    };
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| at(READ, &path, &error))?;
    let text = String::from_utf8_lossy(&bytes);
    Record::from_text(name, &text).map(Some).map_err(|failure| failure::at_path(failure, &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn record(name: &str, last: u8) -> Record {
        Record::of(name, Fingerprint([last; 32]), NOW)
    }

    #[test]
    fn a_ticket_comes_back_from_its_file_and_what_is_none_is_refused() {
        let part = Part { below: "run7".into(), ..Part::read("data:ro,no-delete").unwrap() };
        let (reach, bits_per_s_max) = (Reach::Only(vec![part]), Some(8));
        let given = Record { expires_at: Some(NOW), reach, bits_per_s_max, ..record("a.b-c_1", 7) };
        let text = String::from_utf8(given.to_text().unwrap()).unwrap();
        assert_eq!(Record::from_text("a.b-c_1", &text).unwrap(), given);
        let refused = |name: &str, text: &str| Record::from_text(name, text).unwrap_err().to_string();
        assert!(refused("a.b-c_1", &text.replace("\"version\": 1", "\"version\": 2")).contains("version 2"));
        let more = text.replace("\"made_at\"", "\"more\": 1, \"made_at\"");
        assert!(refused("a.b-c_1", &more).contains("more"));
        assert!(refused("other", &text).contains("not called"));
        for odd in ["../run7", "/run7", "run7/", "a//run7", "./run7"] {
            assert!(refused("a.b-c_1", &text.replace("run7", odd)).contains("in no export"), "{odd}");
        }
        let part = Part::read("data").unwrap();
        let twice = Record { reach: Reach::Only(vec![part.clone(), part]), ..given.clone() };
        let twice = String::from_utf8(twice.to_text().unwrap()).unwrap();
        assert!(refused("a.b-c_1", &twice).contains("`data` twice"));
        // What is taken out of a file does not give more.
        for field in ["expires_at", "revoked_at", "reach", "bits_per_s_max"] {
            let mut less: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
            less.remove(field).unwrap();
            assert!(refused("a.b-c_1", &serde_json::to_string(&less).unwrap()).contains(field), "{field}");
        }
        for odd in ["", "{}", "[", "{\"version\": 1}", &text[..text.len() / 2]] {
            refused("a.b-c_1", odd);
        }
    }

    #[test]
    fn names_lead_nowhere_else_and_flags_are_those_that_take_away() {
        for odd in ["", ".", "..", ".x", "a/b", "a b", "owner", "a\n", "ä", "x".repeat(65).as_str()] {
            assert!(parse_name(odd).is_err(), "{odd:?}");
        }
        assert!(parse_name(&"x".repeat(64)).is_ok());
        for odd in ["", "a/b", "data:rw", "data:", "data:setid", "data:ro,bwlimit=1", ".x:ro"] {
            assert!(Part::read(odd).is_err(), "{odd:?}");
        }
        assert_eq!(Part::read("data:ro,no-replace").unwrap().shown(), "data:ro,no-replace");
        assert_eq!(parse_below("/a//./b/").as_deref(), Ok("a/b"));
        for odd in ["", "/", ".", "a/../b", "a\0"] {
            assert!(parse_below(odd).is_err(), "{odd:?}");
        }
    }

    #[test]
    fn a_ticket_ends_when_it_says_and_what_is_under_way_an_hour_later() {
        let ends = Record { expires_at: Some(NOW), ..record("a", 1) };
        assert!(ends.check(NOW - 1).is_ok());
        let refused = ends.check(NOW).unwrap_err();
        assert_eq!(refused.kind, FailureKind::Permission);
        assert!(refused.cause.contains("`a` expired on 2027-01-15T08:00:00Z"), "{refused}");
        assert!(ends.ends(NOW).is_none() && ends.ends(NOW + GRACE_S - 1).is_none());
        assert!(ends.ends(NOW + GRACE_S).is_some());
        let revoked = Record { revoked_at: Some(NOW), ..ends };
        assert!(revoked.check(NOW - 1).is_err(), "whatever the clock says");
        assert!(revoked.ends(NOW).unwrap().cause.contains("`a` was revoked on 2027-01-15"));
        assert!(record("b", 1).check(u64::MAX).is_ok());
    }

    #[test]
    fn who_finds_no_room_to_revoke_a_ticket_reads_that_removing_its_file_does_it() {
        let path = Path::new("/state/tickets/a.json");
        let failed = |code: i32| not_revoked(path, path, &io::Error::from_raw_os_error(code));
        let no_space = failed(28);
        assert!(no_space.cause.ends_with("; remove `/state/tickets/a.json`: its holder is then unknown"));
        assert_eq!(no_space.kind, FailureKind::Space);
        assert!(!failed(5).cause.contains("remove"));
    }

    #[test]
    fn of_two_that_take_one_name_at_once_one_has_it() {
        let state = tempfile::tempdir().unwrap();
        let add = |last: u8| add(state.path(), &record("a", last));
        let made: Vec<Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..9).map(|last| scope.spawn(move || add(last))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        let mut conflicts = made.iter().filter_map(|made| made.as_ref().err());
        assert!(conflicts.all(|failure| failure.kind == FailureKind::Conflict), "{made:?}");
        assert_eq!(all(state.path()).unwrap().0.len(), 1);
    }
}
