//! Writes settings, and takes them back.
//!
//! 1. What is there now is recorded in the state directory, durably, before anything is changed; with a default congestion
//!    control also who may choose what, which the kernel changes with it.
//! 2. Kernel settings are written, then a file of sysctl.d with those that the kernel took, then a profile of tuned.
//! 3. The record says that all of it was done.
//!
//! A kill between leaves a record that is at worst too long: [`undo`] puts back what it names, and what was not yet changed
//! is put back as it is. Applied again, what was there at first stays recorded. Settings that somebody else changed since
//! are left to them, and told.
//!
//! Not done: what tuned set by the profile. Only tuned knows what was there, so [`undo`] waits until it has let go of it.

use super::congestion;
use super::finding::{Report, Subject, Verdict};
use super::measure::Probes;
use super::network::wanted_rings;
use super::roots::{Roots, read, spaced};
use super::wanted::{Rule, SYSCTLS, Sysctl};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thalweg_mover::failure::{Failure, FailureKind, Result, of_io};

/// The file of sysctl.d; late, so that it goes over a distribution's own.
const SYSCTL_FILE: &str = "90-thalweg.conf";

/// The profile of tuned.
pub const PROFILE: &str = "thalweg-dtn";

const RECORD: &str = "doctor.json";

/// Something that was changed, or would have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Done {
    /// A setting's name, or a path.
    pub what: String,
    /// What it is now, in words.
    pub now: String,
    /// What went wrong, if anything did.
    pub trouble: Option<String>,
}

/// What was there before, and what was put there.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Change {
    what: What,
    before: Before,
    after: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// A kernel setting.
    Setting { key: String },
    /// A file.
    File { path: PathBuf },
    /// A directory that was made for it.
    Directory { path: PathBuf },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Before {
    Nothing,
    Bytes { bytes: Vec<u8>, mode: u32, uid: u32, gid: u32 },
}

/// What one or several [`apply`] have changed since nothing was.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Record {
    /// Whether the last [`apply`] came to its end: then `after` is what was really there.
    is_complete: bool,
    changes: Vec<Change>,
    /// The profile that tuned had active before the first [`apply`]; none without tuned, or if it had none.
    #[serde(default)]
    tuned_before: Option<String>,
}

/// Writes what the findings of `report` want, as far as `--apply` does it, and records in `state` what was there. Nothing to
/// change is an empty answer.
///
/// # Errors
/// If nothing could be begun; what fails later is told with each change.
pub fn apply(roots: &Roots, report: &Report, probes: &Probes, state: &Path) -> Result<Vec<Done>> {
    let _lock = lock(state)?;
    let mut record = load(state)?.unwrap_or_default();
    let wanted: Vec<(&Sysctl, String)> =
        SYSCTLS.iter().filter_map(|sysctl| Some((sysctl, wanted_value(roots, report, sysctl)?))).collect();
    let rings: Vec<(&String, (u32, u32))> = probes
        .cards
        .iter()
        .filter_map(|(device, card)| Some((device, card.rings.as_ref().ok()?)))
        .filter(|(_, rings)| (rings.receive, rings.send) != wanted_rings(rings))
        .map(|(device, rings)| (device, wanted_rings(rings)))
        .collect();
    if wanted.is_empty() && rings.is_empty() {
        return Ok(Vec::new());
    }
    let sysctl_file = roots.etc.join("sysctl.d").join(SYSCTL_FILE);
    let profile = profile_directory(roots).join("tuned.conf");
    if record.changes.is_empty() {
        record.tuned_before = active_profile(roots);
    }
    let is_new_default = wanted.iter().any(|(sysctl, _)| sysctl.key == congestion::DEFAULT);
    if is_new_default {
        keep_allowed(&mut record, roots)?;
    }
    for (sysctl, value) in &wanted {
        let (path, after) = (roots.sysctl(sysctl.key), value.clone().into_bytes());
        keep(&mut record, What::Setting { key: sysctl.key.into() }, &path, after)?;
    }
    for path in [&sysctl_file, &profile] {
        for directory in missing_above(path) {
            let is_known =
                record.changes.iter().any(|c| c.what == What::Directory { path: directory.clone() });
            if !is_known {
                let what = What::Directory { path: directory };
                record.changes.push(Change { what, before: Before::Nothing, after: Vec::new() });
            }
        }
        check_plain(path)?;
        keep(&mut record, What::File { path: path.clone() }, path, Vec::new())?;
    }
    record.is_complete = false;
    save(state, &record)?;

    let mut done = Vec::new();
    for (sysctl, value) in &wanted {
        done.push(set(roots, sysctl.key, value));
    }
    if is_new_default {
        done.extend(allowed_since(roots, &record));
    }
    // Settings of an earlier time are in the record, and stay in the file. Who may choose what is in no file: it follows.
    let settings: Vec<(String, String)> = record
        .changes
        .iter()
        .filter_map(|change| match &change.what {
            What::Setting { key } if key != congestion::ALLOWED => {
                Some((key.clone(), roots.sysctl_value(key).ok()?))
            }
            _ => None,
        })
        .filter(|(key, _)| !done.iter().any(|done| done.what == *key && done.trouble.is_some()))
        .collect();
    let texts = [(&sysctl_file, sysctl_text(report, &settings)), (&profile, profile_text(&settings, &rings))];
    for (path, text) in &texts {
        done.push(told(
            path,
            "written",
            make_parents(path).and_then(|()| write_durably(path, text.as_bytes(), None)),
        ));
    }
    for change in &mut record.changes {
        let now = match &change.what {
            What::Setting { key } => fs::read(roots.sysctl(key)),
            What::File { path } => fs::read(path),
            What::Directory { .. } => continue,
        };
        change.after = now.unwrap_or_default();
    }
    record.is_complete = true;
    save(state, &record)?;
    Ok(done)
}

/// Puts back what was there before the first [`apply`]. Nothing recorded is an empty answer.
///
/// 1. What somebody else changed since is struck off the record, and told.
/// 2. The record says that the rest may be half put back, so that a kill makes nobody else of us.
/// 3. The rest is put back, the last change first; what cannot be stays recorded.
///
/// # Errors
/// If the record cannot be read, written or removed. `Busy`, before anything is changed, while tuned has the profile
/// active: it would write its settings again when it lets go of it, and would not find the profile when it starts.
pub fn undo(roots: &Roots, state: &Path) -> Result<Vec<Done>> {
    let _lock = lock(state)?;
    let Some(mut record) = load(state)? else { return Ok(Vec::new()) };
    check_let_go(roots, &record)?;
    let mut done = Vec::new();
    if record.is_complete {
        record.changes.retain(|change| match theirs(roots, change) {
            Some(told) => {
                done.push(told);
                false
            }
            None => true,
        });
        record.is_complete = false;
        save(state, &record)?;
    }
    let mut left = Vec::new();
    for change in record.changes.drain(..).rev() {
        match put_back(roots, &change) {
            Ok(told) => {
                done.extend(told);
                // A default that is put back later allows itself once more.
                if change.is_allowed() && left.iter().any(Change::is_default) {
                    left.push(change);
                }
            }
            Err(told) => {
                done.push(told);
                left.push(change);
            }
        }
    }
    if left.is_empty() {
        let path = state.join(RECORD);
        fs::remove_file(&path).map_err(|error| of(&path, "remove the record", &error))?;
        let _ = File::open(state).and_then(|directory| directory.sync_all());
        return Ok(done);
    }
    left.reverse();
    record.changes = left;
    save(state, &record)?;
    Ok(done)
}

impl Change {
    fn path(&self, roots: &Roots) -> PathBuf {
        match &self.what {
            What::Setting { key } => roots.sysctl(key),
            What::File { path } | What::Directory { path } => path.clone(),
        }
    }

    fn name(&self) -> String {
        match &self.what {
            What::Setting { key } => key.clone(),
            What::File { path } | What::Directory { path } => path.display().to_string(),
        }
    }

    /// Whether it is of who may choose which congestion control.
    fn is_allowed(&self) -> bool {
        matches!(&self.what, What::Setting { key } if key == congestion::ALLOWED)
    }

    /// Whether it is of what a program gets that chooses none.
    fn is_default(&self) -> bool {
        matches!(&self.what, What::Setting { key } if key == congestion::DEFAULT)
    }

    fn before(&self) -> Option<&[u8]> {
        match &self.before {
            Before::Nothing => None,
            Before::Bytes { bytes, .. } => Some(bytes),
        }
    }

    /// The kernel shows a setting with white space of its own.
    fn is_same(&self, a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) if matches!(self.what, What::Setting { .. }) => {
                spaced(&String::from_utf8_lossy(a)) == spaced(&String::from_utf8_lossy(b))
            }
            (a, b) => a == b,
        }
    }
}

/// What is neither as we left it nor as it was before is somebody else's.
fn theirs(roots: &Roots, change: &Change) -> Option<Done> {
    if matches!(change.what, What::Directory { .. }) {
        return None;
    }
    // What cannot be read now is tried later, and told then.
    let now = read_if_there(&change.path(roots)).ok()?;
    if change.is_same(now.as_deref(), Some(&change.after)) || change.is_same(now.as_deref(), change.before())
    {
        return None;
    }
    let before = change
        .before()
        .map_or("not there".into(), |bytes| format!("`{}`", spaced(&String::from_utf8_lossy(bytes))));
    Some(Done {
        what: change.name(),
        now: format!("was {before} before"),
        trouble: Some("somebody changed it since, so it is left as it is".into()),
    })
}

fn put_back(roots: &Roots, change: &Change) -> std::result::Result<Option<Done>, Done> {
    let path = change.path(roots);
    let is_setting = match &change.what {
        // Not empty means that somebody keeps something there: then it is theirs.
        What::Directory { .. } => {
            return Ok(fs::remove_dir(&path).ok().map(|()| told(&path, "removed", Ok(()))));
        }
        What::Setting { .. } => true,
        What::File { .. } => {
            // What a kill in the middle of writing left.
            let _ = fs::remove_file(unfinished(&path));
            false
        }
    };
    let outcome = read_if_there(&path).and_then(|now| match &change.before {
        _ if change.is_same(now.as_deref(), change.before()) => Ok(()),
        Before::Nothing => fs::remove_file(&path),
        Before::Bytes { bytes, .. } if is_setting => write_setting(&path, bytes),
        Before::Bytes { bytes, mode, uid, gid } => write_durably(&path, bytes, Some((*mode, *uid, *gid))),
    });
    let now = match change.before() {
        Some(before) if is_setting => format!("= {}", spaced(&String::from_utf8_lossy(before))),
        Some(_) => "as it was before".into(),
        None => "removed".into(),
    };
    match outcome {
        Ok(()) => Ok(Some(Done { what: change.name(), now, trouble: None })),
        Err(error) => {
            Err(Done { what: change.name(), now: "not put back".into(), trouble: Some(error.to_string()) })
        }
    }
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a setting is to be changed to, if it is. What somebody raised since it was looked at is not lowered either.
fn wanted_value(roots: &Roots, report: &Report, sysctl: &Sysctl) -> Option<String> {
    let finding = report.findings.iter().find(|finding| {
        finding.name == sysctl.key
            && finding.verdict == Verdict::Change
            && matches!(finding.subject, Subject::Network | Subject::Congestion)
            && finding.remedy.as_ref().is_some_and(|remedy| remedy.by_apply)
    });
    let wanted = finding?.wanted.clone()?;
    match (sysctl.rule, roots.sysctl_value(sysctl.key)) {
        (Rule::AtLeast, Ok(now)) => Some(sysctl.wanted_from(&now)),
        _ => Some(wanted),
    }
}

/// The profile that tuned has active, as it wrote it; several have a space between.
fn active_profile(roots: &Roots) -> Option<String> {
    read(&roots.etc.join("tuned/active_profile")).ok().filter(|names| !names.is_empty())
}

/// Whether tuned has our profile active, and had not before there was ours.
fn check_let_go(roots: &Roots, record: &Record) -> Result<()> {
    let is_ours = |names: &String| names.split_whitespace().any(|name| name == PROFILE);
    if !active_profile(roots).is_some_and(|now| is_ours(&now))
        || record.tuned_before.as_ref().is_some_and(is_ours)
    {
        return Ok(());
    }
    let first = match &record.tuned_before {
        Some(before) => format!("tuned-adm profile {before}"),
        None => "tuned-adm off".to_owned(),
    };
    let cause = format!(
        "tuned has the profile {PROFILE} active, and only tuned puts back what it set by it (rings, governor): `{first}` first, then \
         `thalweg doctor --undo` again"
    );
    Err(Failure::new(FailureKind::Busy, "put settings back", cause))
}

/// Notes who may choose what: what is made the default is allowed to everybody from then on
/// (`tcp_set_default_congestion_control` in net/ipv4/tcp_cong.c). First in the record, so that it is put back after the
/// default. Where the list may not be written, in network namespaces, no default changes it.
fn keep_allowed(record: &mut Record, roots: &Roots) -> Result<()> {
    let path = roots.sysctl(congestion::ALLOWED);
    let may_be_written = fs::metadata(&path).is_ok_and(|about| about.mode() & 0o200 != 0);
    if !may_be_written {
        return Ok(());
    }
    let now =
        fs::read(&path).map_err(|error| of(&path, "read what is there before it is changed", &error))?;
    keep(record, What::Setting { key: congestion::ALLOWED.into() }, &path, now)?;
    record.changes.sort_by_key(|change| !change.is_allowed());
    Ok(())
}

/// Tells what the kernel made of who may choose what.
fn allowed_since(roots: &Roots, record: &Record) -> Option<Done> {
    let kept = record.changes.iter().find(|change| change.is_allowed())?;
    let before = spaced(&String::from_utf8_lossy(kept.before()?));
    let now = roots.sysctl_value(congestion::ALLOWED).ok()?;
    let what = congestion::ALLOWED.into();
    (now != before).then(|| Done { what, now: format!("= {now} (was {before})"), trouble: None })
}

/// Notes what is there, unless that is noted from an earlier time.
fn keep(record: &mut Record, what: What, path: &Path, after: Vec<u8>) -> Result<()> {
    if let Some(known) = record.changes.iter_mut().find(|change| change.what == what) {
        known.after = after;
        return Ok(());
    }
    let before = match fs::read(path) {
        Ok(bytes) => {
            let about = fs::metadata(path).map_err(|error| of(path, "look at", &error))?;
            Before::Bytes { bytes, mode: about.mode() & 0o7777, uid: about.uid(), gid: about.gid() }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Before::Nothing,
        Err(error) => return Err(of(path, "read what is there before it is changed", &error)),
    };
    record.changes.push(Change { what, before, after });
    Ok(())
}

/// A link would be replaced by a file, and could not be put back: who made it wants the file elsewhere, or (`/dev/null`) not at
/// all.
///
/// # Errors
/// `Unsupported`, before anything is changed.
fn check_plain(path: &Path) -> Result<()> {
    let is_plain = |about: fs::Metadata| about.is_file();
    match fs::symlink_metadata(path).map(is_plain) {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(of(path, "look at", &error)),
        Ok(false) => {
            let cause = format!("`{}` is there and no plain file: remove it first", path.display());
            Err(Failure::new(FailureKind::Unsupported, "change settings", cause))
        }
    }
}

/// Writes a setting and looks whether the kernel took it.
fn set(roots: &Roots, key: &str, value: &str) -> Done {
    let path = roots.sysctl(key);
    let before = roots.sysctl_value(key).unwrap_or_default();
    let outcome = write_setting(&path, value.as_bytes()).map_err(|error| error.to_string());
    let now = roots.sysctl_value(key).unwrap_or_default();
    let trouble = match outcome {
        Err(why) => Some(why),
        Ok(()) if now != value => Some(format!("the kernel made `{now}` of `{value}`")),
        Ok(()) => None,
    };
    Done { what: key.into(), now: format!("= {now} (was {before})"), trouble }
}

fn told(path: &Path, now: &str, outcome: io::Result<()>) -> Done {
    Done {
        what: path.display().to_string(),
        now: now.into(),
        trouble: outcome.err().map(|error| error.to_string()),
    }
}

/// Never creates: a setting that is not there cannot be made.
fn write_setting(path: &Path, value: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(value)
}

/// A file is the old one or the new one, never a part.
fn write_durably(path: &Path, bytes: &[u8], about: Option<(u32, u32, u32)>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let new = unfinished(path);
    let (mode, owner) = about.map_or((0o644, None), |(mode, uid, gid)| (mode, Some((uid, gid))));
    let mut file = File::create(&new)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    File::open(directory)?.sync_all()
}

/// Where a file is written before it gets its name.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".thalweg-new");
    path.with_file_name(name)
}

fn make_parents(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))
}

/// Directories that have to be made for a path, the upper ones first.
fn missing_above(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|directory| !directory.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// tuned 2.23 looks in `profiles`, older ones beside it.
fn profile_directory(roots: &Roots) -> PathBuf {
    let tuned = roots.etc.join("tuned");
    let profiles = tuned.join("profiles");
    if profiles.is_dir() { profiles.join(PROFILE) } else { tuned.join(PROFILE) }
}

const HEAD: &str = "# Written by `thalweg doctor --apply`; `thalweg doctor --undo` takes it back.\n";

fn sysctl_text(report: &Report, settings: &[(String, String)]) -> String {
    let mut text = HEAD.to_owned();
    for (key, value) in settings {
        let finding = report.findings.iter().find(|finding| finding.name == *key);
        let source = finding.and_then(|finding| finding.source.as_ref());
        text.push_str(&source.map_or(String::new(), |source| format!("# {source}\n")));
        text.push_str(&format!("{key} = {value}\n"));
    }
    text
}

fn profile_text(settings: &[(String, String)], rings: &[(&String, (u32, u32))]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str("[main]\nsummary=Data transfer node (000 Tables II and III)\ninclude=throughput-performance\n\n[sysctl]\n");
    for (key, value) in settings {
        text.push_str(&format!("{key}={value}\n"));
    }
    for (device, (receive, send)) in rings {
        text.push_str(&format!(
            "\n[net_{device}]\ntype=net\ndevices={device}\nring=rx {receive} tx {send}\n"
        ));
    }
    text
}

/// One doctor at a time.
fn lock(state: &Path) -> Result<File> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(state)
        .map_err(|error| of(state, "create the state directory", &error))?;
    let directory = File::open(state).map_err(|error| of(state, "open the state directory", &error))?;
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(fs::TryLockError::WouldBlock) => {
            Err(Failure::new(FailureKind::Busy, "change settings", "another `thalweg doctor` does"))
        }
        Err(fs::TryLockError::Error(error)) => Err(of(state, "lock the state directory", &error)),
    }
}

fn load(state: &Path) -> Result<Option<Record>> {
    let path = state.join(RECORD);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(of(&path, "read the record", &error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| {
        Failure::new(FailureKind::Damage, "read the record", format!("`{}`: {error}", path.display()))
    })
}

fn save(state: &Path, record: &Record) -> Result<()> {
    let path = state.join(RECORD);
    let text = serde_json::to_vec_pretty(record)
        .map_err(|error| Failure::new(FailureKind::Internal, "write the record", error.to_string()))?;
    write_durably(&path, &text, None).map_err(|error| of(&path, "write the record", &error))
}

fn of(path: &Path, operation: &str, error: &io::Error) -> Failure {
    let mut failure = of_io(operation, error);
    failure.cause = format!("`{}`: {}", path.display(), failure.cause);
    failure
}
