//! Writes settings, and takes them back.
//!
//! 1. What is there now, and what is to be there, is recorded in the state directory, durably, before anything is
//!    changed; with a default congestion control also who may choose what, which the kernel changes with it.
//! 2. Kernel settings are written, then a file of sysctl.d with those that the kernel took, then a profile of tuned.
//! 3. Files that set something else at the next start are told.
//!
//! The record has what was there before the first [`apply`], and all that was put there or was to be since. So whatever
//! call a kill came at, and however often it was applied: what stands there now is as it was before, or ours, which
//! [`undo`] puts back, or somebody else's. That is left to them, and told.
//!
//! Both are for one network namespace and one record: in another namespace, or where what is there was written by an
//! [`apply`] of which there is no record, nothing is changed. Files hold for the whole machine from its next start on, so
//! they are written in the kernel's first namespace only.
//!
//! Not done: what tuned set by the profile. Only tuned knows what was there, so [`undo`] waits until it has let go of
//! it.

mod record;

mod files;

mod texts;

use super::congestion;
use super::cpu;
use super::elsewhere::{Space, check_space, check_unwritten};
use super::finding::{Finding, Report, Subject, Verdict};
use super::measure::Probes;
use super::network::{rings_against_losses, rings_name};
use super::next_start;
use super::roots::{Roots, read};
use super::wanted::{Rule, SYSCTLS, Sysctl, last, with_last};
use files::{
    check_plain, make_parents, missing_above, of, read_if_there, unfinished, write_durably, write_setting,
};
use record::{
    Before, Change, RECORD, Record, What, is_left_to_them, is_theirs, keep, load, lock, save, shown,
};
use serde::Serialize;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use texts::{
    GOVERNOR_SECTION, HEAD, SYSCTL_FILE, profile_path, profile_text, rings_section, sysctl_path, sysctl_text,
};
use thalweg_mover::failure::{Failure, FailureKind, Result};

/// The profile of tuned.
pub const PROFILE: &str = "thalweg-dtn";

/// What fails of the two.
const CHANGING: &str = "change settings";
const PUTTING_BACK: &str = "put settings back";

/// What became of a file.
const WRITTEN: &str = "written";

/// The same in a network namespace of its own.
const NOT_WRITTEN: &str = "not written, and no profile: both would hold outside of this network namespace too, from \
                           the machine's next start on";

/// Why something was not done.
const LEFT_TO_THEM: &str = "somebody changed it since, so it is left as it is";

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

/// Writes what the findings of `report` want, as far as `--apply` does it, and records in `state` what was there.
/// Nothing to change is an empty answer. What somebody else changed since an earlier time is left and told.
///
/// # Errors
/// If nothing could be begun, or not be recorded; what fails otherwise is told with each change.
pub fn apply(roots: &Roots, report: &Report, probes: &Probes, state: &Path) -> Result<Vec<Done>> {
    let _lock = lock(state)?;
    let known = load(roots, state)?;
    let mut record = known.clone().unwrap_or_default();
    let wanted = Wanted::of(roots, report, probes, &record);
    let is_for_settings = !wanted.settings.is_empty() || !wanted.theirs.is_empty();
    let here = Space::here(roots);
    let has_files = here == Space::First;
    if !(is_for_settings || wanted.is_for_profile && has_files) {
        return Ok(Vec::new());
    }
    check_is_here(CHANGING, roots, known.as_ref(), &here, state)?;
    if record.changes.is_empty() {
        record.tuned_before = active_profile(roots);
        record.tuned_chose = read(&roots.etc.join("tuned/profile_mode")).is_ok_and(|mode| mode == "auto");
        record.space = Some(here);
    }
    let (sysctl_file, profile) = (sysctl_path(roots), profile_path(roots));
    // Without a new setting the file has nothing new to say.
    let files = match (has_files, is_for_settings) {
        (false, _) => Vec::new(),
        (true, true) => vec![&sysctl_file, &profile],
        (true, false) => vec![&profile],
    };
    keep_all(&mut record, roots, &wanted, &files)?;
    save(state, &record)?;

    let mut done = Vec::new();
    for (sysctl, value) in &wanted.settings {
        let change = keep(&mut record, What::Setting { key: sysctl.key.into() }, &roots.sysctl(sysctl.key))?;
        done.push(set(roots, sysctl.key, value, change));
    }
    if wanted.has_default() {
        done.extend(allowed_since(roots, &record));
    }
    let settings = settings_of_files(roots, &record, &wanted.theirs, has_files, &mut done);
    if !has_files && !settings.is_empty() {
        let what = sysctl_file.display().to_string();
        done.push(Done { what, now: NOT_WRITTEN.into(), trouble: None });
    }
    let active = record.tuned_before.clone();
    let mut texts = Vec::new();
    for path in files {
        let is_profile = path == &profile;
        if settings.is_empty() && !(is_profile && wanted.is_for_profile) {
            continue;
        }
        let change = keep(&mut record, What::File { path: path.clone() }, path)?;
        if is_theirs(roots, change) {
            done.push(left_to_them(change));
            continue;
        }
        let text = match is_profile {
            true => profile_text(&settings, &wanted, active.as_deref()),
            false => sysctl_text(report, &settings),
        };
        change.put(text.as_bytes());
        texts.push((path, text));
    }
    save(state, &record)?;
    for (path, text) in &texts {
        let outcome = make_parents(path).and_then(|()| write_durably(path, text.as_bytes(), None));
        done.push(told(path, WRITTEN, outcome));
    }
    if texts.iter().any(|(path, _)| *path == &sysctl_file) {
        done.extend(next_start::others(roots, SYSCTL_FILE, &settings).into_iter().map(at_next_start));
    }
    Ok(done)
}

/// What the findings of a report want, as far as [`apply`] does it.
struct Wanted<'a> {
    settings: Vec<(&'static Sysctl, String)>,
    /// Settings that somebody else changed since an earlier time.
    theirs: Vec<&'static str>,
    /// Of cards, to receive and to send.
    rings: Vec<(&'a String, (u32, u32))>,
    /// Whether the profile is to set the governor of the CPUs.
    has_governor: bool,
    /// Whether the profile is to say something new beside settings.
    is_for_profile: bool,
}

impl<'a> Wanted<'a> {
    fn of(roots: &Roots, report: &Report, probes: &'a Probes, record: &Record) -> Wanted<'a> {
        let (theirs, settings): (Vec<_>, Vec<_>) = SYSCTLS
            .iter()
            .filter_map(|sysctl| Some((sysctl, wanted_value(roots, report, sysctl)?)))
            .partition(|(sysctl, _)| is_left_to_them(roots, record, sysctl.key));
        let is_wanted = |device: &String| is_to_change(report, Subject::Network, &rings_name(device));
        // Rings of an earlier time stay in the profile, as settings do.
        let standing = fs::read_to_string(profile_path(roots)).unwrap_or_default();
        let rings: Vec<(&String, (u32, u32))> = probes
            .cards
            .iter()
            .filter(|(device, _)| is_wanted(device) || standing.contains(&rings_section(device)))
            .filter_map(|(device, card)| Some((device, rings_against_losses(card.rings.as_ref().ok()?))))
            .collect();
        let is_slow = is_to_change(report, Subject::Cpu, cpu::GOVERNOR_NAME);
        let is_for_profile = is_slow || rings.iter().any(|(device, _)| is_wanted(device));
        let theirs = theirs.into_iter().map(|(sysctl, _)| sysctl.key).collect();
        let has_governor = is_slow || standing.contains(GOVERNOR_SECTION);
        Wanted { settings, theirs, rings, has_governor, is_for_profile }
    }

    /// Whether another congestion control is to be the default.
    fn has_default(&self) -> bool {
        self.settings.iter().any(|(sysctl, _)| sysctl.key == congestion::DEFAULT)
    }
}

/// Settings that are to be changed, and that nobody may change from here: each with where it could be.
pub fn out_of_reach(report: &Report) -> Vec<Done> {
    let is_setting = |finding: &&Finding| SYSCTLS.iter().any(|sysctl| sysctl.key == finding.name);
    let is_left = |finding: &&Finding| finding.verdict == Verdict::Change && finding.remedy.is_none();
    let told = |finding: &Finding| {
        let shown = |value: &Option<String>| value.clone().unwrap_or_default();
        Done {
            what: finding.name.clone(),
            now: format!("= {} ({} is wanted)", shown(&finding.current), shown(&finding.wanted)),
            trouble: Some(shown(&finding.scope)),
        }
    };
    report.findings.iter().filter(is_setting).filter(is_left).map(told).collect()
}

/// Whether these changes have put the profile of tuned where it belongs.
pub fn has_profile(roots: &Roots, done: &[Done]) -> bool {
    let path = profile_path(roots).display().to_string();
    done.iter().any(|one| one.what == path && one.now == WRITTEN && one.trouble.is_none())
}

/// Whether tuned is installed, which alone makes something of the profile.
pub fn has_tuned(roots: &Roots) -> bool {
    ["sbin", "bin", "local/sbin"].iter().any(|place| roots.usr.join(place).join("tuned-adm").exists())
}

/// Whether what has to do with settings may be done here, by who has this record of them, if any.
fn check_is_here(
    operation: &str,
    roots: &Roots,
    known: Option<&Record>,
    here: &Space,
    state: &Path,
) -> Result<()> {
    let path = state.join(RECORD);
    match known {
        Some(record) => match &record.space {
            Some(then) => check_space(operation, then, here, &path),
            None => Ok(()),
        },
        None if *here != Space::First => Ok(()),
        None => check_unwritten(operation, &[sysctl_path(roots), profile_path(roots)], HEAD, &path),
    }
}

/// Puts back what was there before the first [`apply`], the last change first. Nothing recorded is an empty answer.
/// What somebody else changed since is left, told, and recorded no more; what cannot be put back stays recorded.
///
/// # Errors
/// If the record cannot be read, written or removed. Before anything is changed: `Unsupported` in another network
/// namespace; `NotFound` where there is no record, and a file that begins as [`apply`] writes it; `Busy` while tuned
/// has the profile active: it would write its settings again when it lets go of it, and would not find the profile when
/// it starts.
pub fn undo(roots: &Roots, state: &Path) -> Result<Vec<Done>> {
    let _lock = lock(state)?;
    let known = load(roots, state)?;
    check_is_here(PUTTING_BACK, roots, known.as_ref(), &Space::here(roots), state)?;
    let Some(mut record) = known else { return Ok(Vec::new()) };
    check_let_go(roots, &record)?;
    let (mut done, mut left) = (Vec::new(), Vec::new());
    for change in record.changes.drain(..).rev() {
        if is_theirs(roots, &change) {
            done.push(left_to_them(&change));
            continue;
        }
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

fn left_to_them(change: &Change) -> Done {
    let before = change.before().map_or("not there".into(), |bytes| format!("`{}`", shown(bytes)));
    Done { what: change.name(), now: format!("was {before} before"), trouble: Some(LEFT_TO_THEM.into()) }
}

fn put_back(roots: &Roots, change: &Change) -> std::result::Result<Option<Done>, Done> {
    let path = change.path(roots);
    match &change.what {
        // Not empty means that somebody keeps something there: then it is theirs.
        What::Directory { .. } => {
            return Ok(fs::remove_dir(&path).ok().map(|()| told(&path, "not there, as before", Ok(()))));
        }
        What::Setting { .. } => {}
        What::File { .. } => {
            // What a kill in the middle of writing left.
            let _ = fs::remove_file(unfinished(&path));
        }
    }
    let outcome = read_if_there(&path).and_then(|now| match &change.before {
        _ if change.is_as_before(now.as_deref()) => Ok(()),
        Before::Nothing => fs::remove_file(&path),
        Before::Bytes { bytes, .. } if change.is_setting() => write_setting(&path, bytes),
        Before::Bytes { bytes, mode, uid, gid } => write_durably(&path, bytes, Some((*mode, *uid, *gid))),
    });
    let now = match change.before() {
        Some(before) if change.is_setting() => format!("= {}", shown(before)),
        Some(_) => "as it was before".into(),
        None => "not there, as before".into(),
    };
    match outcome {
        Ok(()) => Ok(Some(Done { what: change.name(), now, trouble: None })),
        Err(error) => {
            Err(Done { what: change.name(), now: "not put back".into(), trouble: Some(error.to_string()) })
        }
    }
}

/// Whether a finding wants a change, which a proof that was asked for does not speak against.
fn is_to_change(report: &Report, subject: Subject, name: &str) -> bool {
    let is_it = |finding: &&Finding| finding.subject == subject && finding.name == name;
    report.findings.iter().find(is_it).is_some_and(|finding| finding.verdict == Verdict::Change)
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
        (Rule::Buffer, Ok(now)) => Some(with_last(&now, last(&wanted)?)),
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
        Some(_) if record.tuned_chose => "tuned-adm auto_profile".to_owned(),
        Some(before) => format!("tuned-adm profile {before}"),
        None => "tuned-adm off".to_owned(),
    };
    let cause = format!(
        "tuned has the profile {PROFILE} active, and only tuned puts back what it set by it (rings, governor): `{first}` first, then \
         `thalweg doctor --undo` again"
    );
    Err(Failure::new(FailureKind::Busy, PUTTING_BACK, cause))
}

/// Notes what is there, and what is to be there: settings, and the files with the directories that they need.
fn keep_all(record: &mut Record, roots: &Roots, wanted: &Wanted<'_>, files: &[&PathBuf]) -> Result<()> {
    for (sysctl, value) in &wanted.settings {
        let path = roots.sysctl(sysctl.key);
        keep(record, What::Setting { key: sysctl.key.into() }, &path)?.put(value.as_bytes());
    }
    if wanted.has_default() {
        keep_allowed(record, roots)?;
    }
    for path in files {
        for directory in missing_above(path) {
            let is_known =
                record.changes.iter().any(|c| c.what == What::Directory { path: directory.clone() });
            if !is_known {
                let what = What::Directory { path: directory };
                record.changes.push(Change { what, before: Before::Nothing, ours: Vec::new() });
            }
        }
        check_plain(path)?;
        keep(record, What::File { path: (*path).clone() }, path)?;
    }
    Ok(())
}

/// Notes who may choose what: what is made the default is allowed to everybody from then on
/// (`tcp_set_default_congestion_control` in net/ipv4/tcp_cong.c), what is put back as well. First in the record, so
/// that it is put back after the default. Where the list may not be written, in network namespaces, no default changes
/// it.
fn keep_allowed(record: &mut Record, roots: &Roots) -> Result<()> {
    let path = roots.sysctl(congestion::ALLOWED);
    let may_be_written = fs::metadata(&path).is_ok_and(|about| about.mode() & 0o200 != 0);
    if !may_be_written {
        return Ok(());
    }
    let defaults = record.changes.iter().filter(|change| change.is_default());
    let names: Vec<String> = defaults
        .flat_map(|change| change.before().into_iter().chain(change.ours.iter().map(Vec::as_slice)))
        .map(shown)
        .collect();
    keep(record, What::Setting { key: congestion::ALLOWED.into() }, &path)?.put(names.join(" ").as_bytes());
    record.changes.sort_by_key(|change| !change.is_allowed());
    Ok(())
}

/// Tells what the kernel made of who may choose what.
fn allowed_since(roots: &Roots, record: &Record) -> Option<Done> {
    let kept = record.changes.iter().find(|change| change.is_allowed())?;
    let before = shown(kept.before()?);
    let now = roots.sysctl_value(congestion::ALLOWED).ok()?;
    let what = congestion::ALLOWED.into();
    (now != before).then(|| Done { what, now: format!("= {now} (was {before})"), trouble: None })
}

/// What the files are to set: what this time and earlier ones have set and the kernel took. Where somebody else changed
/// it since, that is told, and the files keep what was put there; of `theirs`, which were to be changed once more, as
/// something that was not done. Who may choose what is in no file: it follows. `has_files`: whether there are any.
fn settings_of_files(
    roots: &Roots,
    record: &Record,
    theirs: &[&str],
    has_files: bool,
    done: &mut Vec<Done>,
) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for change in record.changes.iter().filter(|change| change.is_setting() && !change.is_allowed()) {
        let key = change.name();
        let has_failed = done.iter().any(|done| done.what == key && done.trouble.is_some());
        let Ok(now) = roots.sysctl_value(&key) else { continue };
        if has_failed || change.is_as_before(Some(now.as_bytes())) {
            continue;
        }
        let Some(ours) = change.ours.last().map(|ours| shown(ours)) else { continue };
        if !change.is_ours(Some(now.as_bytes())) {
            let then = if has_files { format!("; {ours} from the next start on") } else { String::new() };
            let (now, trouble) = match theirs.contains(&key.as_str()) {
                true => (format!("= {now}{then}"), Some(LEFT_TO_THEM.into())),
                false => (format!("= {now}: left, as somebody changed it since{then}"), None),
            };
            done.push(Done { what: key.clone(), now, trouble });
        }
        settings.push((key, ours));
    }
    settings
}

/// A file that is read after ours and says something else.
fn at_next_start(other: next_start::Other) -> Done {
    Done {
        what: other.path.display().to_string(),
        now: format!("sets {} = {} at the next start", other.key, other.value),
        trouble: Some(format!("it is read after {SYSCTL_FILE}: take that line out of it")),
    }
}

/// Writes a setting and looks whether the kernel took it.
fn set(roots: &Roots, key: &str, value: &str, change: &mut Change) -> Done {
    let path = roots.sysctl(key);
    let before = roots.sysctl_value(key).unwrap_or_default();
    let outcome = write_setting(&path, value.as_bytes()).map_err(|error| error.to_string());
    let now = roots.sysctl_value(key).unwrap_or_default();
    let trouble = match outcome {
        Err(why) => Some(why),
        Ok(()) if now != value => {
            change.put(now.as_bytes());
            Some(format!("the kernel made `{now}` of `{value}`"))
        }
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
