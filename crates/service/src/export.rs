//! What a server lets its clients reach.

use crate::tickets::Reach;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_mover::endpoint::local::DestinationPlace;
use thalweg_mover::endpoint::local::destination::guard::{Guard, MinFree};
use thalweg_mover::endpoint::local::staging::scratch;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::run::agree::place_of;
use thalweg_mover::run::frames::remove_deserted_below;
use thalweg_sys::{Dir, Links};
use thalweg_wire::limits;
use thalweg_wire::message::{Place, Question, Request};
use thalweg_wire::path::Escaped;

/// What is wrong with an export whose directory has no name any more, or not the one that was given: it is held open,
/// and would show what was there when the daemon began.
const REPLACED: &str =
    "the export's directory was removed or replaced: reload the daemon (SIGHUP) or start it anew";

/// A directory that clients may use under a name.
#[derive(Debug, Clone)]
pub struct Export {
    /// Its name in `tw://host/NAME/…`.
    pub name: String,
    /// The directory.
    pub directory: PathBuf,
    /// What clients may do there.
    pub rights: Rights,
    /// Directory in it that they see instead, by the path below it: that of their ticket. Empty: all of it.
    pub below: String,
}

/// What clients may do in an export. The default is everything but what has to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rights {
    /// They may read only.
    pub read_only: bool,
    /// They may delete nothing: neither by `rm` nor by `--delete`, nor as source files that a pull removes.
    pub no_delete: bool,
    /// Files that they leave there may have set-id bits and capabilities.
    pub set_id: bool,
    /// What keeps them from replacing files, and from filling the disk.
    pub guard: Guard,
    /// Bytes that the spill log of a channel may have there, if that is not what its server lets each have.
    pub spill_bytes_max: Option<u64>,
    /// What all transfers there move together at most, in bits a second, both directions in one.
    pub bits_per_s_max: Option<u64>,
}

/// Whether exports and tickets may be called so: 1 to so many letters, digits, `-`, `_` and `.`, and no `.` first.
pub(crate) fn is_name(text: &str, bytes_max: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=bytes_max).contains(&text.len()) && !text.starts_with('.') && text.chars().all(plain)
}

/// What was read, or what is wrong with it.
type InWords<T> = std::result::Result<T, String>;

/// All flags, for people.
const FLAGS: &str = "ro, rw, no-delete, no-replace, setid, min-free=SIZE, min-free=PERCENT%, max-spill=SIZE, \
    bwlimit=RATE";
/// How the flag begins that says how much is kept free.
const MIN_FREE: &str = "min-free=";
/// How the one does that says how large a spill log may be.
const MAX_SPILL: &str = "max-spill=";
/// And the one that says how much all transfers move.
const BWLIMIT: &str = "bwlimit=";

/// Reads a number with its unit, or says what is wrong with it.
pub type Reads = fn(&str) -> std::result::Result<u64, String>;

impl Export {
    /// One in which clients may do everything.
    pub fn of(name: &str, directory: PathBuf) -> Export {
        Export { name: name.to_owned(), directory, rights: Rights::default(), below: String::new() }
    }

    /// Reads `NAME=DIR` or `NAME=DIR:FLAG[,FLAG...]`. Only what stands behind the last colon and has one of the flags
    /// in it is flags: a directory whose own name ends so is followed by `:rw`. `size` reads a size, `rate` bits a
    /// second.
    ///
    /// # Errors
    /// `Usage`.
    pub fn read(text: &str, size: Reads, rate: Reads) -> Result<Export> {
        let usage =
            |cause: &str| Failure::new(FailureKind::Usage, "read --export", format!("`{text}`: {cause}"));
        let (name, directory) =
            text.split_once('=').ok_or_else(|| usage("expected NAME=DIR or NAME=DIR:FLAG,..."))?;
        let (directory, flags) = match directory.rsplit_once(':') {
            Some((directory, flags)) if flags.split(',').any(is_flag) => (directory, Some(flags)),
            _ => (directory, None),
        };
        let rights = flags.map(|flags| Rights::read(flags, size, rate)).transpose();
        let rights = rights.map_err(|cause| usage(&cause))?.unwrap_or_default();
        if !is_name(name, limits::NAME_BYTES_MAX) {
            let cause =
                "a name has at most 255 letters, digits, `-`, `_` and `.`, and does not begin with `.`";
            return Err(usage(cause));
        }
        if directory.is_empty() {
            return Err(usage("the directory is missing"));
        }
        Ok(Export { rights, ..Export::of(name, directory.into()) })
    }

    /// What clients see of it, where this is its directory. A link leads nobody out.
    fn opened(&self, directory: &Dir) -> Result<Dir> {
        if self.below.is_empty() {
            return directory.try_clone().map_err(|error| failure::of_io("open", &error));
        }
        let words = format!("what the ticket reaches of the export `{}`", self.name);
        let opened = directory.open_beneath(self.below.as_bytes(), Links::Refuse);
        opened.map_err(|error| failure::with_words(failure::of_io("open", &error), &words))
    }
}

impl Rights {
    fn read(flags: &str, size: Reads, rate: Reads) -> InWords<Rights> {
        let (mut rights, mut is_writable) = (Rights::default(), false);
        for flag in flags.split(',') {
            match flag {
                "ro" => rights.read_only = true,
                "rw" => is_writable = true,
                "no-delete" => rights.no_delete = true,
                "no-replace" => rights.guard.no_replace = true,
                "setid" => rights.set_id = true,
                _ => rights.read_with_value(flag, size, rate)?,
            }
        }
        match rights.read_only && is_writable {
            true => Err("it is `ro` or `rw`, not both".to_owned()),
            false => Ok(rights),
        }
    }

    fn read_with_value(&mut self, flag: &str, size: Reads, rate: Reads) -> InWords<()> {
        if let Some(room) = flag.strip_prefix(MIN_FREE) {
            self.guard.min_free = Some(min_free(room, size)?);
        } else if let Some(most) = flag.strip_prefix(MAX_SPILL) {
            self.spill_bytes_max = Some(max_spill(most, size)?);
        } else if let Some(most) = flag.strip_prefix(BWLIMIT) {
            self.bits_per_s_max = Some(rate(most)?);
        } else {
            return Err(format!("`{flag}` is none of {FLAGS}; if it belongs to the directory, add `:rw`"));
        }
        Ok(())
    }
}

fn is_flag(word: &str) -> bool {
    matches!(word, "ro" | "rw" | "no-delete" | "no-replace" | "setid")
        || [MIN_FREE, MAX_SPILL, BWLIMIT].iter().any(|flag| word.starts_with(flag))
}

fn max_spill(text: &str, size: Reads) -> InWords<u64> {
    let bytes = size(text)?;
    if bytes >= limits::SPILL_BYTES_MIN { Ok(bytes) } else { Err("a spill log has 1MiB or more".to_owned()) }
}

fn min_free(text: &str, size: Reads) -> InWords<MinFree> {
    let Some(number) = text.strip_suffix('%') else { return size(text).map(MinFree::Bytes) };
    let percent = number.parse::<f64>().ok().filter(|percent| (0.0..100.0).contains(percent));
    let percent = percent.ok_or("the share that is kept free is from 0% to less than 100%")?;
    Ok(MinFree::Share(percent / 100.0))
}

/// All that a server lets its clients reach.
#[derive(Clone)]
pub enum Exports {
    /// Named directories, each held open: nothing outside of them can be named.
    Named(Arc<Vec<(Export, Arc<Dir>)>>),
    /// Everything that the user may reach: for a mover that this user started by ssh.
    User,
    /// Of that one place, in one direction: for a mover that this user started for somebody else.
    Only(Arc<OnlyPlace>),
}

/// All that is served to a client who is not the one who started the mover: copies into a place, or copies from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnlyPlace {
    /// The path, as copies name it: another one that leads there is refused.
    pub path: Vec<u8>,
    /// Copies into it; else copies from it.
    pub write: bool,
}

impl OnlyPlace {
    /// Whether it is what is asked for: no trial, no stream, no frames, nothing the other way, and nothing that links
    /// lead to.
    fn serves(&self, request: &Request) -> bool {
        match request {
            Request::Push(push) => self.write && push.trial.is_none() && self.is(&push.place),
            Request::Pull(pull) => {
                let is_it = pull.places.iter().all(|place| self.is(place));
                !self.write && pull.trial.is_none() && !pull.follow_links && is_it
            }
            Request::FlowPush { .. } | Request::FlowPull { .. } | Request::Frames { .. } => false,
        }
    }

    fn is(&self, place: &Place) -> bool {
        place.export.is_none() && place.path == self.path
    }

    fn refusal(&self) -> Failure {
        let (path, what) = (Escaped(&self.path), if self.write { "into" } else { "from" });
        let cause = format!("this mover was started for copies {what} `{path}`, and serves nothing else");
        Failure::new(FailureKind::Permission, "open", cause)
    }
}

/// Names of exports, by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Those that there were not.
    pub added: Vec<String>,
    /// Those that there are no more.
    pub removed: Vec<String>,
    /// Those that are another directory by now, or in which clients may do more, or less, than before.
    pub changed: Vec<String>,
}

/// A place that was checked.
pub struct Resolved {
    /// Everything stays beneath this directory. `None`: the user's own rights decide.
    pub below: Option<Dir>,
    /// Path, below it or as the user wrote it.
    pub path: Vec<u8>,
    /// Ends with a slash.
    pub trailing_slash: bool,
    /// What may be done there.
    pub rights: Rights,
    /// Its export; empty where the user's own rights decide.
    pub export: String,
    /// Path of that directory in the export; empty if it is all of it.
    pub beneath: String,
}

impl Resolved {
    /// As it is told to clients: what of it is outside of its export is no concern of theirs.
    pub fn stated(&self) -> Place {
        match self.below {
            Some(_) => Place { export: Some(self.export.clone()), path: self.path.clone() },
            None => place_of(Path::new(OsStr::from_bytes(&self.path))),
        }
    }

    /// Something there is to be deleted by this `operation`.
    ///
    /// # Errors
    /// `Permission` if nothing may be.
    pub fn check_delete(&self, operation: &str) -> Result<()> {
        if !self.rights.no_delete {
            return Ok(());
        }
        let name = Escaped(self.export.as_bytes());
        let cause = format!("in the export `{name}` nothing is deleted (no-delete)");
        Err(Failure::new(FailureKind::Permission, operation, cause))
    }

    /// The room that is kept free there, if any is.
    ///
    /// # Errors
    /// Why the place cannot be looked at.
    pub fn room(&self) -> Result<Option<KeptFree>> {
        let guard = &self.rights.guard;
        let (Some(min_free), Some(below)) = (guard.min_free, &self.below) else { return Ok(None) };
        let below = below.try_clone().map_err(|error| failure::of_io("open", &error))?;
        let path = PathBuf::from(OsString::from_vec(self.path.clone()));
        let (directory, _) = scratch::nearest(&DestinationPlace { path, below: Some(below) })?;
        let kept = KeptFree { directory, min_free, export: self.export.clone() };
        Ok(Some(kept))
    }

    /// The same, where `wanted` bytes more may be taken.
    ///
    /// # Errors
    /// As [`room`](Self::room); `Space` if they may not.
    pub fn kept_free(&self, wanted: u64) -> Result<Option<KeptFree>> {
        let kept = self.room()?;
        kept.as_ref().map_or(Ok(()), |kept| kept.check(wanted))?;
        Ok(kept)
    }
}

/// Room that is kept free where a client writes: on the file system of the nearest directory that was there when it
/// began. What is mounted below is not looked at.
pub struct KeptFree {
    directory: Dir,
    min_free: MinFree,
    export: String,
}

impl KeptFree {
    /// Bytes that may be taken there; no bound where nobody can say.
    pub fn spare(&self) -> u64 {
        self.min_free.spare(&self.directory)
    }

    /// Whether it stays free when `wanted` bytes more are taken.
    ///
    /// # Errors
    /// `Space` if it does not.
    pub fn check(&self, wanted: u64) -> Result<()> {
        self.min_free.check(&self.directory, wanted).map_err(|error| {
            let export = format!("the export `{}`", Escaped(self.export.as_bytes()));
            failure::with_words(failure::of_io("write", &error), &export)
        })
    }
}

impl Exports {
    /// Opens the directories.
    ///
    /// # Errors
    /// For a directory that cannot be opened, or a name given twice.
    pub fn open(exports: Vec<Export>) -> Result<Exports> {
        let mut open: Vec<(Export, Arc<Dir>)> = Vec::with_capacity(exports.len());
        for mut export in exports {
            if open.iter().any(|(other, _)| other.name == export.name) {
                let cause = format!("the export `{}` is given twice", export.name);
                return Err(Failure::new(FailureKind::Usage, "open exports", cause));
            }
            let directory = Dir::open(&export.directory).map_err(|error| {
                failure::at_path(failure::of_io("open export", &error), &export.directory)
            })?;
            // Wherever this process goes, it is found again.
            if let Ok(absolute) = std::path::absolute(&export.directory) {
                export.directory = absolute;
            }
            open.push((export, Arc::new(directory)));
        }
        Ok(Exports::Named(Arc::new(open)))
    }

    /// Of those that clients may write by their flags, each in which nobody can: its file system is read-only for this
    /// process.
    pub fn unwritable(&self) -> Vec<Failure> {
        let Exports::Named(exports) = self else { return Vec::new() };
        let is_closed = |directory: &Dir| directory.file_system().is_ok_and(|system| system.read_only);
        let closed =
            exports.iter().filter(|(export, directory)| !export.rights.read_only && is_closed(directory));
        let told = closed.map(|(export, _)| {
            let cause = format!(
                "the file system is read-only for this daemon: where a unit of systemd starts it, name the directory \
                 in ReadWritePaths there, too; if nobody is to write, have `{}` end with :ro",
                export.name
            );
            failure::at_path(Failure::new(FailureKind::Space, "open export", cause), &export.directory)
        });
        told.collect()
    }

    /// Removes the logs of channels that hubs left which were killed, and that nobody can go on with, where clients may
    /// write, as far as that takes no longer than `time` (and one call of the file system). Why some could not be
    /// removed. That not all were looked for is no failure: most exports with many directories have none.
    pub fn remove_deserted_logs(&self, time: Duration) -> Vec<Failure> {
        let Exports::Named(exports) = self else { return Vec::new() };
        let until = Instant::now() + time;
        let written = exports.iter().filter(|(export, _)| !export.rights.read_only);
        let cleared = written.map(|(export, directory)| {
            match remove_deserted_below(directory, &mut || Instant::now() < until) {
                Ok(true) => None,
                Ok(false) => {
                    tracing::debug!(export = %export.name, "not all directories were looked into for logs");
                    None
                }
                Err(failure) => Some(failure::at_path(failure, &export.directory)),
            }
        });
        cleared.flatten().collect()
    }

    /// What of them who reaches no further is let to, with the rights that both leave.
    pub fn narrowed(&self, reach: &Reach) -> Exports {
        let (Exports::Named(exports), Reach::Only(parts)) = (self, reach) else { return self.clone() };
        let narrowed = parts.iter().filter_map(|part| {
            let (export, directory) = exports.iter().find(|(export, _)| export.name == part.export)?;
            let mut export = Export { below: part.below.clone(), ..export.clone() };
            export.rights.read_only |= part.read_only;
            export.rights.no_delete |= part.no_delete;
            export.rights.guard.no_replace |= part.no_replace;
            Some((export, directory.clone()))
        });
        Exports::Named(Arc::new(narrowed.collect()))
    }

    /// Names and whether they can be written.
    pub fn names(&self) -> Vec<(String, bool)> {
        match self {
            Exports::Named(exports) => {
                exports.iter().map(|(e, _)| (e.name.clone(), !e.rights.read_only)).collect()
            }
            Exports::User | Exports::Only(_) => Vec::new(),
        }
    }

    /// Whether there is one of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        matches!(self, Exports::Named(exports) if exports.iter().any(|(export, _)| export.name == name))
    }

    /// Names, with what each may move at most in bits a second.
    pub fn limits(&self) -> Vec<(String, Option<u64>)> {
        match self {
            Exports::Named(exports) => {
                exports.iter().map(|(e, _)| (e.name.clone(), e.rights.bits_per_s_max)).collect()
            }
            Exports::User | Exports::Only(_) => Vec::new(),
        }
    }

    /// Whether one place alone is served.
    pub(crate) fn is_one_place(&self) -> bool {
        matches!(self, Exports::Only(_))
    }

    /// Checks what kind of transfer is asked for, where not all are served.
    ///
    /// # Errors
    /// `Permission`.
    pub(crate) fn check_request(&self, request: &Request) -> Result<()> {
        match self {
            Exports::Only(only) if !only.serves(request) => Err(only.refusal()),
            _ => Ok(()),
        }
    }

    /// Checks whether questions that concern files are answered.
    ///
    /// # Errors
    /// `Permission`.
    pub(crate) fn check_question(&self, question: &Question) -> Result<()> {
        match (self, question) {
            (_, Question::About) => Ok(()),
            (Exports::Only(only), _) => Err(only.refusal()),
            _ => Ok(()),
        }
    }

    /// How others differ from these.
    pub fn changes(&self, others: &Exports) -> Changes {
        let named = |exports: &Exports| match exports {
            Exports::Named(exports) => exports.clone(),
            Exports::User | Exports::Only(_) => Arc::default(),
        };
        let (before, now) = (named(self), named(others));
        let find =
            |exports: &[(Export, Arc<Dir>)], name: &str| exports.iter().position(|(e, _)| e.name == name);
        let mut changes = Changes::default();
        for (export, held) in now.iter() {
            let list = match find(&before, &export.name).map(|at| &before[at]) {
                None => &mut changes.added,
                Some((old, _)) if old.rights != export.rights => &mut changes.changed,
                Some((_, old)) if !is_same(old, held) => &mut changes.changed,
                Some(_) => continue,
            };
            list.push(export.name.clone());
        }
        let is_gone = |(export, _): &&(Export, Arc<Dir>)| find(&now, &export.name).is_none();
        changes.removed = before.iter().filter(is_gone).map(|(export, _)| export.name.clone()).collect();
        changes
    }

    /// Checks a place that a client named.
    ///
    /// # Errors
    /// `NotFound` for an export that there is not, or whose directory is gone, `Permission` for writing to one that is
    /// read-only or is not the one that is served, `Usage` for a path that could leave it, or of more than
    /// [`limits::PLACE_LEVELS_MAX`] levels.
    pub fn resolve(&self, place: &Place, write: bool) -> Result<Resolved> {
        let trailing_slash = place.path.ends_with(b"/");
        match (self, &place.export) {
            (Exports::Named(exports), Some(name)) => {
                let Some((export, directory)) = exports.iter().find(|(export, _)| export.name == *name)
                else {
                    let cause = format!("there is no export `{}`", Escaped(name.as_bytes()));
                    return Err(Failure::new(FailureKind::NotFound, "open", cause));
                };
                if write && export.rights.read_only {
                    let cause = format!("the export `{}` is read-only", Escaped(name.as_bytes()));
                    return Err(Failure::new(FailureKind::Permission, "open", cause));
                }
                if is_replaced(export, directory) {
                    let cause = format!("`{}`: {REPLACED}", Escaped(name.as_bytes()));
                    return Err(Failure::new(FailureKind::NotFound, "open", cause));
                }
                let (mut path, mut levels) = (Vec::new(), 0);
                for component in place.path.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".") {
                    if component == b".." || component.contains(&0) {
                        let path = Escaped(&place.path);
                        let cause = format!("`{path}`: a path must stay inside its export, and has no `..`");
                        return Err(Failure::new(FailureKind::Usage, "open", cause));
                    }
                    levels += 1;
                    // Whatever is made or looked for costs as much for each.
                    if levels > limits::PLACE_LEVELS_MAX {
                        let most = limits::PLACE_LEVELS_MAX;
                        let cause = format!("a path has at most {most} levels below its export");
                        return Err(Failure::new(FailureKind::Usage, "open", cause));
                    }
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(component);
                }
                let below = export.opened(directory)?;
                let (mut rights, beneath) = (export.rights, export.below.clone());
                rights.guard.no_set_id = !rights.set_id;
                let export = export.name.clone();
                Ok(Resolved { below: Some(below), path, trailing_slash, rights, export, beneath })
            }
            (Exports::Only(only), _) if !only.is(place) || write && !only.write => Err(only.refusal()),
            (Exports::User | Exports::Only(_), None) => Ok(Resolved {
                below: None,
                path: place.path.clone(),
                trailing_slash,
                rights: Rights::default(),
                export: String::new(),
                beneath: String::new(),
            }),
            _ => Err(Failure::new(FailureKind::NotFound, "open", "no export is named")),
        }
    }
}

/// Whether both are one directory.
fn is_same(one: &Dir, other: &Dir) -> bool {
    let stats = one.stat_self().ok().zip(other.stat_self().ok());
    stats.is_some_and(|(one, other)| one.is_same_entry(&other))
}

/// Whether the directory that is held was removed, or its path leads to another by now. One that was only moved away is
/// what was meant, and so is one whose path may not be looked at.
fn is_replaced(export: &Export, held: &Dir) -> bool {
    let Ok(held) = held.stat_self() else { return false };
    match Dir::open(&export.directory).and_then(|there| there.stat_self()) {
        Ok(there) => !there.is_same_entry(&held),
        // Not by itself: some file systems count no names of directories.
        Err(_) => held.links == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tickets::Part;
    use thalweg_wire::message::Pull;

    fn read(text: &str) -> Result<Export> {
        let number: Reads = |text| text.parse().map_err(|_| format!("`{text}` is no number"));
        Export::read(text, number, number)
    }

    #[test]
    fn an_export_whose_directory_was_removed_or_replaced_is_said_to_be() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let (directory, other) = (at("srv"), at("other"));
        std::fs::create_dir(&directory).unwrap();
        let export = Export::of("data", directory.clone());
        let open = || Exports::open(vec![export.clone()]).unwrap();
        let place = Place { export: Some("data".into()), path: b"x".to_vec() };
        let refused = |exports: &Exports| {
            let failure = exports.resolve(&place, false).err().expect("it is gone");
            assert_eq!(failure.kind, FailureKind::NotFound);
            assert!(failure.cause.contains(REPLACED), "{failure}");
        };
        let exports = open();
        assert!(exports.resolve(&place, false).is_ok());
        std::fs::remove_dir(&directory).unwrap();
        refused(&exports);
        std::fs::create_dir(&directory).unwrap();
        refused(&exports);
        let exports = open();
        std::fs::rename(&directory, &other).unwrap();
        assert!(exports.resolve(&place, false).is_ok(), "it is only called otherwise");
        std::fs::create_dir(&directory).unwrap();
        refused(&exports);
    }

    #[test]
    fn logs_that_nobody_can_go_on_with_are_looked_for_while_there_is_time_and_many_directories_are_no_failure()
     {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        for number in 0..1100 {
            std::fs::create_dir(scratch.path().join(number.to_string())).unwrap();
        }
        let log = scratch.path().join("scan.frames");
        std::fs::create_dir(&log).unwrap();
        std::fs::set_permissions(&log, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(log.join("lock"), thalweg_mover::run::frames::log_signature()).unwrap();
        let exports = Exports::open(vec![Export::of("data", scratch.path().to_owned())]).unwrap();
        assert!(exports.remove_deserted_logs(Duration::ZERO).is_empty() && log.exists());
        assert!(exports.remove_deserted_logs(Duration::from_secs(3600)).is_empty() && !log.exists());
    }

    #[test]
    fn of_exports_that_are_read_anew_those_that_are_other_are_known() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name).display().to_string();
        for name in ["a", "b", "c"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        let open = |exports: &[String]| {
            Exports::open(exports.iter().map(|text| read(text).unwrap()).collect()).unwrap()
        };
        let of = |name: &str, directory: &str| format!("{name}={}", at(directory));
        let before =
            open(&[of("same", "a"), of("shut", "a"), of("kept", "a"), of("moved", "b"), of("gone", "c")]);
        assert_eq!(before.changes(&before), Changes::default());
        let (shut, kept) = (format!("{}:ro", of("shut", "a")), format!("{}:min-free=1", of("kept", "a")));
        let now = open(&[of("new", "c"), of("same", "a"), shut, kept, of("moved", "c")]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let changes = before.changes(&now);
        assert_eq!(changes.added, names(&["new"]));
        assert_eq!(changes.removed, names(&["gone"]));
        assert_eq!(changes.changed, names(&["shut", "kept", "moved"]));
    }

    #[test]
    fn where_one_place_is_served_another_one_is_refused_whatever_leads_there() {
        let only = |write| Exports::Only(Arc::new(OnlyPlace { path: b"to/x".to_vec(), write }));
        let place = |path: &[u8]| Place { export: None, path: path.to_vec() };
        assert_eq!(only(true).resolve(&place(b"to/x"), true).unwrap().path, b"to/x");
        assert!(only(true).resolve(&place(b"to/x"), false).is_ok(), "a dry run of what is written there");
        assert!(only(false).resolve(&place(b"to/x"), false).is_ok());
        let refused = |exports: Exports, place: &Place, write| {
            let failure = exports.resolve(place, write).err().expect("it is refused");
            assert_eq!(failure.kind, FailureKind::Permission, "{failure}");
            assert!(failure.cause.contains("`to/x`, and serves nothing else"), "{failure}");
        };
        refused(only(false), &place(b"to/x"), true);
        for path in [&b""[..], b"to", b"to/x/", b"to/x/y", b"to//x", b"./to/x", b"to/x/../x", b"/etc"] {
            refused(only(true), &place(path), true);
            refused(only(false), &place(path), false);
        }
        let named = Place { export: Some("to".into()), path: b"to/x".to_vec() };
        refused(only(true), &named, true);
        assert!(only(true).check_question(&Question::About).is_ok());
        let look = Question::Look { place: place(b"to/x"), follow: false };
        assert_eq!(only(true).check_question(&look).unwrap_err().kind, FailureKind::Permission);
        assert!(Exports::User.check_question(&look).is_ok());
        let pull = |follow_links| Request::Pull(Pull { follow_links, ..Pull::of(vec![place(b"to/x")]) });
        assert!(only(false).check_request(&pull(false)).is_ok());
        for (exports, pull) in [(only(false), pull(true)), (only(true), pull(false))] {
            assert_eq!(exports.check_request(&pull).unwrap_err().kind, FailureKind::Permission);
        }
    }

    #[test]
    fn an_export_is_a_name_and_a_directory() {
        let export = read("data=/srv/data:ro").unwrap();
        assert_eq!((export.name.as_str(), export.rights.read_only), ("data", true));
        assert_eq!(export.directory, PathBuf::from("/srv/data"));
        for bad in ["data", "=x", "a/b=/x", ".x=/y", "x=", "x=:no-delete"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_of_an_export_stand_behind_its_last_colon_and_a_path_may_look_like_them() {
        let guard = |no_replace, min_free| Guard { no_replace, min_free, ..Guard::default() };
        let rights = Rights::default();
        let bytes = Some(MinFree::Bytes(4096));
        for (text, directory, expected) in [
            ("x=/srv", "/srv", rights),
            ("x=/srv:rw", "/srv", rights),
            ("x=/srv:no-delete", "/srv", Rights { no_delete: true, ..rights }),
            ("x=/srv:setid", "/srv", Rights { set_id: true, ..rights }),
            (
                "x=/srv:no-delete,no-replace,min-free=4096",
                "/srv",
                Rights { no_delete: true, guard: guard(true, bytes), ..rights },
            ),
            (
                "x=/srv:min-free=2.5%",
                "/srv",
                Rights { guard: guard(false, Some(MinFree::Share(0.025))), ..rights },
            ),
            (
                "x=/srv:ro,min-free=4096",
                "/srv",
                Rights { read_only: true, guard: guard(false, bytes), ..rights },
            ),
            ("x=/srv:max-spill=2000000", "/srv", Rights { spill_bytes_max: Some(2_000_000), ..rights }),
            ("x=/srv:bwlimit=8000", "/srv", Rights { bits_per_s_max: Some(8000), ..rights }),
            ("x=/srv:no-replace:rw", "/srv:no-replace", rights),
            ("x=/srv:min-free=x:rw", "/srv:min-free=x", rights),
            ("x=/srv/at:noon,early", "/srv/at:noon,early", rights),
        ] {
            let export = read(text).unwrap_or_else(|failure| panic!("{text}: {failure}"));
            assert_eq!((export.directory, export.rights), (PathBuf::from(directory), expected), "{text}");
        }
        let bad_sizes = ["min-free=", "min-free=x", "min-free=100%", "min-free=-1%", "min-free=%"];
        let bad_others = ["ro,rw", "ro,no-delet", "max-spill=", "max-spill=9", "bwlimit=x"];
        for bad in bad_others.into_iter().chain(bad_sizes) {
            let failure = read(&format!("x=/srv:{bad}")).expect_err(bad);
            assert_eq!(failure.kind, FailureKind::Usage, "{failure}");
        }
    }

    #[test]
    fn who_holds_a_ticket_leaves_programs_with_rights_of_their_own_only_where_that_is_allowed() {
        let no_set_id = |exports: &Exports, export: Option<&str>| {
            let place = Place { export: export.map(str::to_owned), path: b"x".to_vec() };
            exports.resolve(&place, true).unwrap().rights.guard.no_set_id
        };
        let named = |text: &str| Exports::open(vec![read(text).unwrap()]).unwrap();
        assert!(no_set_id(&named("tmp=/tmp"), Some("tmp")));
        assert!(!no_set_id(&named("tmp=/tmp:setid"), Some("tmp")));
        assert!(!no_set_id(&Exports::User, None), "who came by ssh may do so anyway");
    }

    #[test]
    fn a_ticket_narrows_what_an_export_permits_and_widens_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("run7/deep")).unwrap();
        std::os::unix::fs::symlink("/etc", scratch.path().join("out")).unwrap();
        let at = scratch.path().display();
        let all = ["a=@", "b=@:ro", "c=@:no-delete,no-replace"];
        let all = all.map(|text| read(&text.replace('@', &at.to_string())).unwrap());
        let exports = Exports::open(all.to_vec()).unwrap();
        let of = |text: &str, below: &str| Part { below: below.to_owned(), ..Part::read(text).unwrap() };
        let narrowed = |parts: &[Part]| exports.narrowed(&Reach::Only(parts.to_vec()));
        let resolve = |exports: &Exports, export: &str, path: &[u8], write| {
            exports.resolve(&Place { export: Some(export.to_owned()), path: path.to_vec() }, write)
        };
        let kind = |resolved: Result<Resolved>| resolved.err().map(|failure| failure.kind);
        assert_eq!(narrowed(&[of("b", ""), of("gone", "")]).names(), [("b".to_owned(), false)]);
        assert_eq!(exports.narrowed(&Reach::All).names(), exports.names());
        let one = narrowed(&[of("a:ro", "")]);
        assert_eq!(kind(resolve(&one, "a", b"x", true)), Some(FailureKind::Permission));
        assert_eq!(kind(resolve(&one, "b", b"x", false)), Some(FailureKind::NotFound));
        // What the export forbids stays forbidden.
        assert_eq!(kind(resolve(&narrowed(&[of("b", "")]), "b", b"x", true)), Some(FailureKind::Permission));
        let rights = resolve(&narrowed(&[of("c", "")]), "c", b"x", true).unwrap().rights;
        assert!(rights.no_delete && rights.guard.no_replace);
        let rights = resolve(&narrowed(&[of("a:no-delete,no-replace", "")]), "a", b"x", true).unwrap().rights;
        assert!(rights.no_delete && rights.guard.no_replace);
        // Only a directory of it.
        let below = narrowed(&[of("a", "run7")]);
        let seen = resolve(&below, "a", b"deep", false).unwrap();
        assert!(seen.below.unwrap().stat(b"deep").is_ok());
        assert_eq!((seen.beneath.as_str(), seen.path.as_slice()), ("run7", &b"deep"[..]));
        assert!(resolve(&below, "a", b"../x", false).is_err());
        assert!(resolve(&narrowed(&[of("a", "out")]), "a", b"", false).is_err(), "a link leads out");
        let none = resolve(&narrowed(&[of("a", "none")]), "a", b"", false);
        assert_eq!(kind(none), Some(FailureKind::NotFound));
    }

    #[test]
    fn room_is_kept_free_where_a_path_leads_or_will() {
        let scratch = tempfile::tempdir().unwrap();
        let at = scratch.path().display();
        let of = |flags: &str| Exports::open(vec![read(&format!("data={at}:{flags}")).unwrap()]).unwrap();
        let kept = |exports: &Exports, path: &[u8]| {
            let place = Place { export: Some("data".into()), path: path.to_vec() };
            exports.resolve(&place, true).unwrap().kept_free(0)
        };
        for path in [&b""[..], b"not/there/yet"] {
            assert!(kept(&of("rw"), path).unwrap().is_none());
            assert!(kept(&of("min-free=1"), path).unwrap().is_some_and(|kept| kept.check(0).is_ok()));
            // What is to be taken at once is looked at before it is.
            let kept_free = kept(&of("min-free=1"), path).unwrap().expect("room is kept free");
            assert!(kept_free.check(kept_free.spare() / 2).is_ok() && kept_free.check(u64::MAX).is_err());
            let failure = kept(&of(&format!("min-free={}", u64::MAX)), path).err().expect("too little");
            assert_eq!(failure.kind, FailureKind::Space);
            assert!(failure.cause.starts_with("the export `data`: "), "{failure}");
        }
    }

    #[test]
    fn a_place_cannot_leave_its_export() {
        let exports = Exports::open(vec![read("tmp=/tmp:ro").unwrap()]).unwrap();
        let place = |export: &str, path: &[u8]| Place { export: Some(export.into()), path: path.to_vec() };
        assert!(exports.resolve(&place("tmp", b"../etc"), false).is_err());
        assert!(exports.resolve(&place("tmp", b"a/../../etc"), false).is_err());
        assert!(exports.resolve(&place("other", b""), false).is_err());
        assert!(exports.resolve(&place("tmp", b"x"), true).is_err());
        assert!(exports.resolve(&Place { export: None, path: b"/etc".to_vec() }, false).is_err());
        assert_eq!(exports.resolve(&place("tmp", b"/a//./b/"), false).unwrap().path, b"a/b");
    }

    #[test]
    fn a_place_has_no_more_levels_than_it_may() {
        let exports = Exports::open(vec![read("tmp=/tmp").unwrap()]).unwrap();
        let place = |levels| Place { export: Some("tmp".into()), path: b"a/".repeat(levels) };
        assert!(exports.resolve(&place(limits::PLACE_LEVELS_MAX), true).is_ok());
        for (levels, write) in [(limits::PLACE_LEVELS_MAX + 1, true), (100_000, false)] {
            let refused = exports.resolve(&place(levels), write).err().unwrap();
            assert_eq!(refused.kind, FailureKind::Usage, "{refused}");
        }
    }
}
