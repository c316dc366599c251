//! Owner, mode, attributes and times of what was made or found, by descriptor.
//!
//! In the order owner, attributes, ACLs, mode, times: changing the owner clears set-id bits and capabilities, `user.`
//! attributes need the write bit that an ACL or the mode may take away, an ACL changes the mode's group bits, and all
//! of them but the last leave the time of change alone.
//!
//! What cannot be kept is a loss, told with the entry; only errors of the medium are failures.

use self::attributes::{is_meant, is_of_the_file_system};
use super::staging::Grain;
use super::{errno, is_errno};
use crate::endpoint::acl::{ACL, GROUP, is_acl, mode_without, mode_without_acl};
use crate::failure::{self, FailureKind, Reason};
use std::io;
use thalweg_sys::{File, Stat, user};
use thalweg_wire::entry::Xattr;
use thalweg_wire::message::{Loss, Preserve};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Entry, Time};

mod target;

mod attributes;

pub(super) use self::attributes::{are_same, is_bare, stays_where_it_is};
pub(super) use self::target::{Named, Target};

pub(super) const SET_ID: u32 = 0o6000;

/// What is lost where a time is not kept.
const TIME: &str = "time of change";

/// What we may do.
pub(super) struct Rights {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// That files of ours may be given to.
    pub(super) groups: Vec<u32>,
    pub(super) can_chown: bool,
    pub(super) can_make_devices: bool,
}

impl Rights {
    pub(super) fn now() -> Rights {
        Rights {
            uid: user::effective_uid(),
            gid: user::effective_gid(),
            groups: user::groups(),
            can_chown: user::has_capability_chown(),
            can_make_devices: user::has_capability_mknod(),
        }
    }
}

/// Metadata that an entry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Time,
    pub(super) xattrs: Vec<Xattr>,
}

impl Wanted {
    pub(super) fn of(entry: &Entry) -> Wanted {
        Wanted {
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.evidence.mtime,
            xattrs: entry.xattrs.clone(),
        }
    }

    /// What stands there has.
    pub(super) fn of_existing(stat: &Stat, xattrs: &[(Vec<u8>, Vec<u8>)]) -> Wanted {
        let xattr = |(name, value): &(Vec<u8>, Vec<u8>)| Xattr { name: name.clone(), value: value.clone() };
        Wanted {
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            mtime: super::wire_time(stat.mtime),
            xattrs: xattrs.iter().map(xattr).collect(),
        }
    }

    /// What of it these rights reach, of something that stands there and looks so: an owner or a group that only better
    /// ones could give stays what it is, and set-id bits go, as in [`apply`]. It was told when this was made; as a
    /// difference each copy would find it, and tell it, again.
    pub(super) fn within_reach(mut self, stat: &Stat, preserve: &Preserve, rights: &Rights) -> Wanted {
        self.mode = self.mode_for((stat.uid, stat.gid), preserve);
        if !preserve.owner || rights.can_chown {
            return self;
        }
        let may_have_group = stat.uid == rights.uid && rights.groups.contains(&self.gid);
        let has_group = stat.gid == self.gid || may_have_group;
        if stat.uid != self.uid || !has_group {
            self.mode &= !SET_ID;
        }
        self.uid = stat.uid;
        if !has_group {
            self.gid = stat.gid;
        }
        self
    }

    /// The mode of what belongs to this user and group. Where those are not to be kept, set-id bits work for whom they
    /// were meant, or go.
    pub(super) fn mode_for(&self, owner: (u32, u32), preserve: &Preserve) -> u32 {
        match preserve.owner || owner == (self.uid, self.gid) {
            true => self.mode,
            false => self.mode & !SET_ID,
        }
    }

    /// Has the ACLs that are there, instead of its own.
    pub(super) fn keep_acls(&mut self, present: &[(Vec<u8>, Vec<u8>)]) {
        self.xattrs.retain(|xattr| !is_acl(&xattr.name));
        let acls = present.iter().filter(|(name, _)| is_acl(name));
        self.xattrs.extend(acls.map(|(name, value)| Xattr { name: name.clone(), value: value.clone() }));
    }
}

/// What a target has already.
#[derive(Clone, Copy)]
pub(super) struct Has {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// `None`: not known, set it.
    pub(super) mode: Option<u32>,
    pub(super) mtime: Option<Time>,
    /// Attributes of an older life may have to go.
    pub(super) may_have_xattrs: bool,
}

impl Has {
    pub(super) fn of(stat: &Stat) -> Has {
        Has {
            uid: stat.uid,
            gid: stat.gid,
            mode: Some(stat.mode),
            mtime: Some(super::wire_time(stat.mtime)),
            may_have_xattrs: true,
        }
    }
}

/// Gives `target` what is wanted and it does not have. Returns what could not be kept, and whether anything was
/// changed.
///
/// # Errors
/// Only of the medium or its server: `EIO`, `ESTALE`, read-only, no space for anything but an attribute.
pub(super) fn apply(
    target: &impl Target,
    has: &Has,
    wanted: &Wanted,
    preserve: &Preserve,
    rights: &Rights,
    has_mode: bool,
) -> io::Result<(Vec<Loss>, bool)> {
    let mut applying = Applying {
        target,
        preserve,
        losses: Vec::new(),
        is_changed: false,
        is_owner_kept: true,
        is_acl_kept: true,
    };
    let given = wanted.mode_for((has.uid, has.gid), preserve);
    let mut mode = if preserve.mode { given } else { has.mode.unwrap_or(given) };
    let mut mode_is_known = has.mode;
    if preserve.owner && (has.uid, has.gid) != (wanted.uid, wanted.gid) {
        applying.owner(has, wanted, rights)?;
        if mode & SET_ID != 0 {
            mode_is_known = None;
        }
    }
    if preserve.xattrs && (has.may_have_xattrs || !wanted.xattrs.is_empty()) {
        // `user.` attributes of our own file need its write bit.
        let closed = has.mode.filter(|mode| {
            rights.uid != 0 && has.uid == rights.uid && mode & 0o200 == 0 && mode & SET_ID == 0
        });
        applying.xattrs(has, wanted, closed)?;
    }
    if has_mode && preserve.mode {
        if !applying.is_owner_kept && mode & SET_ID != 0 {
            let is_user_lost = applying.losses.iter().any(|loss| loss.what == "owner");
            let whose = if is_user_lost { "owner" } else { "group" };
            applying.lose("set-id bits", &format!("the {whose} could not be kept"));
            mode &= !SET_ID;
        }
        if !applying.is_acl_kept {
            mode = mode_without_acl(mode, &wanted.xattrs);
        }
        if mode_is_known != Some(mode) {
            applying.mode(mode)?;
        }
    }
    if preserve.times && (applying.is_changed || has.mtime != Some(wanted.mtime)) {
        applying.times(wanted.mtime, has.mtime)?;
    }
    Ok((applying.losses, applying.is_changed))
}

/// As [`apply`], and as [`look_what_stayed`] where the file system forgets: it keeps times as finely as `forgets` says.
///
/// # Errors
/// Only of the medium.
pub(super) fn apply_surely(
    target: &impl Target,
    has: &Has,
    wanted: &Wanted,
    preserve: &Preserve,
    rights: &Rights,
    has_mode: bool,
    forgets: Option<Grain>,
) -> io::Result<(Vec<Loss>, bool)> {
    let (mut losses, is_changed) = apply(target, has, wanted, preserve, rights, has_mode)?;
    if let Some(grain) = forgets {
        let preserve = Preserve { mode: preserve.mode && has_mode, ..*preserve };
        look_what_stayed(target, wanted, &preserve, grain, &mut losses)?;
    }
    Ok((losses, is_changed))
}

struct Applying<'a, T> {
    target: &'a T,
    preserve: &'a Preserve,
    losses: Vec<Loss>,
    is_changed: bool,
    is_owner_kept: bool,
    is_acl_kept: bool,
}

impl<T: Target> Applying<'_, T> {
    fn owner(&mut self, has: &Has, wanted: &Wanted, rights: &Rights) -> io::Result<()> {
        let uid = (has.uid != wanted.uid).then_some(wanted.uid);
        let gid = (has.gid != wanted.gid).then_some(wanted.gid);
        let mut refusal = None;
        if rights.can_chown || uid.is_none() {
            match self.target.own(uid, gid) {
                Ok(()) => {
                    self.is_changed = true;
                    return Ok(());
                }
                Err(error) if is_refusal(&error) => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(uid) = uid {
            self.is_owner_kept = false;
            self.lose("owner", &not_given(&format!("user {uid}"), refusal.as_ref()));
        }
        let Some(gid) = gid else { return Ok(()) };
        // Users may give their own files to any of their groups.
        match self.target.own(None, Some(gid)) {
            Ok(()) => self.is_changed = true,
            Err(error) if is_refusal(&error) => {
                self.is_owner_kept = false;
                self.lose("group", &not_given(&format!("group {gid}"), Some(&error)));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// `closed`: the mode of a file of ours that we may not write, which is opened for us as long as this takes.
    fn xattrs(&mut self, has: &Has, wanted: &Wanted, closed: Option<u32>) -> io::Result<()> {
        let present = if has.may_have_xattrs { self.target.attributes()? } else { Vec::new() };
        let closed = closed.filter(|_| !are_same(&present, &wanted.xattrs, self.preserve));
        let opened = closed.filter(|mode| self.target.permit(mode | 0o600).is_ok());
        self.is_changed |= opened.is_some();
        let set = self.set_xattrs(&present, wanted);
        if let Some(mode) = opened
            && let Err(error) = self.target.permit(mode)
            && set.is_ok()
        {
            return Err(error);
        }
        set
    }

    fn set_xattrs(&mut self, present: &[(Vec<u8>, Vec<u8>)], wanted: &Wanted) -> io::Result<()> {
        for (name, _) in present {
            let is_wanted = wanted.xattrs.iter().any(|xattr| xattr.name == *name);
            // Labels come from the policy of this machine and cannot be taken off.
            let stays = name.starts_with(b"security.selinux") || is_of_the_file_system(name);
            if is_wanted || stays || !is_meant(name, self.preserve) {
                continue;
            }
            match self.target.remove_attribute(name) {
                Ok(()) => self.is_changed = true,
                Err(error) if is_errno(&error, errno::NO_DATA) => {}
                Err(error) if is_medium(&error) => return Err(error),
                Err(error) => self.lose_xattr(name, &error),
            }
        }
        // ACLs last: one may take away the write bit that the others need.
        let of_kind = |acls: bool| wanted.xattrs.iter().filter(move |xattr| is_acl(&xattr.name) == acls);
        for xattr in of_kind(false).chain(of_kind(true)) {
            let is_there = present.iter().any(|(name, value)| *name == xattr.name && *value == xattr.value);
            if is_there || stays_where_it_is(&xattr.name) || !is_meant(&xattr.name, self.preserve) {
                continue;
            }
            match self.target.set_attribute(&xattr.name, &xattr.value) {
                Ok(()) => self.is_changed = true,
                Err(error) if is_medium(&error) => return Err(error),
                Err(error) => {
                    // A label that policy gave it by itself is no loss.
                    let now = self.target.attributes().unwrap_or_default();
                    if !now.iter().any(|(name, value)| *name == xattr.name && *value == xattr.value) {
                        self.is_acl_kept &= xattr.name != ACL;
                        self.lose_xattr(&xattr.name, &error);
                    }
                }
            }
        }
        Ok(())
    }

    fn mode(&mut self, mode: u32) -> io::Result<()> {
        match self.target.permit(mode) {
            Ok(()) => self.is_changed = true,
            Err(error) if !is_refusal(&error) => return Err(error),
            Err(error) => {
                self.lose("mode", &sentence(&error));
                return Ok(());
            }
        }
        // The kernel takes set-group-id away without a word from who is not in the group.
        if mode & SET_ID != 0 && self.target.look()?.mode & SET_ID != mode & SET_ID {
            self.lose("set-id bits", "the kernel did not keep them");
        }
        Ok(())
    }

    fn times(&mut self, mtime: Time, had: Option<Time>) -> io::Result<()> {
        match self.target.stamp(None, mtime) {
            Ok(()) => self.is_changed |= had != Some(mtime),
            Err(error) if !is_refusal(&error) => return Err(error),
            Err(error) => {
                self.lose(TIME, &sentence(&error));
                return Ok(());
            }
        }
        // Beyond 32 bits file systems differ, and they clamp without a word.
        if i32::try_from(mtime.seconds).is_err() || mtime.seconds < 0 {
            let kept = self.target.look()?.mtime;
            if !Grain(2_000_000_000).is_same(mtime, kept) {
                self.lose(TIME, "this file system cannot keep it");
            }
        }
        Ok(())
    }

    fn lose_xattr(&mut self, name: &[u8], error: &io::Error) {
        self.lose(&format!("xattr {}", Escaped(name)), &sentence(error));
    }

    fn lose(&mut self, what: &str, why: &str) {
        self.losses.push(Loss { what: what.to_owned(), why: why.to_owned() });
    }
}

/// Why something could not be given `to` somebody; without an answer of the kernel, nobody was asked.
fn not_given(to: &str, refusal: Option<&io::Error>) -> String {
    match refusal {
        // As of a link that leads nowhere on sshfs, which follows it.
        Some(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("it cannot be given to {to}: {}", sentence(error))
        }
        _ => format!("not permitted to give it to {to}"),
    }
}

/// What a name does not have in the end although the file system took it; adds it to `losses`, each kind once. For
/// file systems that forget: see `Abilities::is_forgetful`. The time is given once more first, together with
/// that of the last access: some of FUSE know only both at once, and closing a file may have changed it. Where it is
/// right in the end it is no loss, whatever was answered before.
///
/// # Errors
/// Only of the medium.
pub(super) fn look_what_stayed(
    target: &impl Target,
    wanted: &Wanted,
    preserve: &Preserve,
    grain: Grain,
    losses: &mut Vec<Loss>,
) -> io::Result<()> {
    let mut stat = target.look()?;
    if preserve.times && !grain.is_same(wanted.mtime, stat.mtime) {
        let _ = target.stamp(Some(stat.atime), wanted.mtime);
        stat = target.look()?;
    }
    if preserve.times && grain.is_same(wanted.mtime, stat.mtime) {
        losses.retain(|loss| loss.what != TIME);
    }
    let mode = wanted.mode_for((stat.uid, stat.gid), preserve);
    let lost = [
        ("mode", preserve.mode && stat.mode != mode),
        ("owner", preserve.owner && stat.uid != wanted.uid),
        ("group", preserve.owner && stat.gid != wanted.gid),
        (TIME, preserve.times && !grain.is_same(wanted.mtime, stat.mtime)),
    ];
    for (what, _) in lost.into_iter().filter(|&(_, is_lost)| is_lost) {
        if !losses.iter().any(|loss| loss.what == what) {
            losses.push(Loss { what: what.to_owned(), why: "this file system did not keep it".to_owned() });
        }
    }
    Ok(())
}

/// Whether anything but content is not as wanted. Attributes are compared only if `xattrs` gives them.
pub(super) fn differs(
    stat: &Stat,
    xattrs: Option<&[(Vec<u8>, Vec<u8>)]>,
    wanted: &Wanted,
    preserve: &Preserve,
    grain: Grain,
) -> bool {
    (preserve.mode && stat.mode != wanted.mode_for((stat.uid, stat.gid), preserve))
        || (preserve.owner && (stat.uid, stat.gid) != (wanted.uid, wanted.gid))
        || (preserve.times && !grain.is_same(wanted.mtime, stat.mtime))
        || xattrs.is_some_and(|present| preserve.xattrs && !are_same(present, &wanted.xattrs, preserve))
}

/// Gives what will replace a file of this mode and ACL that mode, but for set-id bits, and that ACL: without it the
/// mode would give the owning group more than it had.
///
/// # Errors
/// Of the mode; of the ACL only of the medium.
pub(super) fn take_over(file: &File, mode: u32, acl: Option<&[u8]>) -> io::Result<()> {
    let mode = mode & 0o777;
    let Some(acl) = acl else { return file.set_mode(mode) };
    file.set_mode(mode & !GROUP)?;
    match file.set_xattr(ACL, acl) {
        Ok(()) => Ok(()),
        Err(error) if is_medium(&error) => Err(error),
        Err(_) => file.set_mode(mode_without(mode, acl)),
    }
}

/// Whatever is not the medium's fault: not allowed, not known here, a number that this machine cannot express, or what
/// file systems in user space make of these.
fn is_refusal(error: &io::Error) -> bool {
    !is_medium(error) && error.kind() != io::ErrorKind::StorageFull
}

/// The disk is at fault, there is none to write to any more, its server is away, or memory is short: a second later it
/// may be set. An attribute that finds no space is not meant: file systems say that for one that is merely too long for
/// them.
fn is_medium(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    failure::of_io("", error).reason == Reason::DiskFailed
        || failure::kind_of_io(error) == FailureKind::Connection
        || matches!(error.kind(), E::ReadOnlyFilesystem | E::QuotaExceeded | E::OutOfMemory)
}

fn sentence(error: &io::Error) -> String {
    failure::of_io("", error).cause
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::sys_time;
    use std::cell::{Cell, RefCell};
    use thalweg_sys::Dir;

    const UID: u32 = 1000;
    /// What the kernel answers where an idmapped mount cannot express a number.
    const OVERFLOW: i32 = 75;

    /// A file of a user's on a poor file system.
    struct Poor {
        mode: Cell<u32>,
        attributes: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
        /// What is answered to who gives it away or gives it an ACL.
        refusal: i32,
        /// What is answered to who gives it a mode, a time, or takes an attribute away.
        trouble: Option<i32>,
        /// It takes ACLs, and its owner may only read by them.
        has_acls: bool,
        mtime: Cell<Time>,
        /// What it does with a time that comes without that of the last access.
        alone: Alone,
    }

    #[derive(Clone, Copy, PartialEq)]
    enum Alone {
        Kept,
        Forgotten,
        Refused,
    }

    impl Poor {
        fn new(mode: u32, refusal: i32) -> Poor {
            Poor {
                mode: Cell::new(mode),
                attributes: RefCell::default(),
                refusal,
                trouble: None,
                has_acls: false,
                mtime: Cell::default(),
                alone: Alone::Kept,
            }
        }

        fn has(&self) -> Has {
            let mode = Some(self.mode.get());
            Has { uid: UID, gid: UID, mode, mtime: Some(Time::default()), may_have_xattrs: true }
        }

        fn apply(&self, wanted: &Wanted) -> (Vec<String>, bool) {
            let rights = rights(true, &[]);
            let (losses, is_changed) =
                apply(self, &self.has(), wanted, &Preserve::ALL, &rights, true).unwrap();
            (losses.into_iter().map(|loss| loss.what).collect(), is_changed)
        }

        fn is_sound(&self) -> io::Result<()> {
            self.trouble.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
        }

        fn is_open(&self) -> io::Result<()> {
            self.is_sound()?;
            match self.mode.get() & 0o200 {
                0 => Err(io::ErrorKind::PermissionDenied.into()),
                _ => Ok(()),
            }
        }
    }

    impl Target for Poor {
        fn look(&self) -> io::Result<Stat> {
            let root = Dir::open(std::path::Path::new("/"))?;
            let mtime = sys_time(self.mtime.get());
            Ok(Stat { mode: self.mode.get(), uid: UID, gid: UID, mtime, ..root.stat_self()? })
        }
        fn own(&self, _: Option<u32>, _: Option<u32>) -> io::Result<()> {
            Err(io::Error::from_raw_os_error(self.refusal))
        }
        fn permit(&self, mode: u32) -> io::Result<()> {
            self.is_sound()?;
            self.mode.set(mode);
            Ok(())
        }
        fn stamp(&self, atime: Option<thalweg_sys::Time>, mtime: Time) -> io::Result<()> {
            self.is_sound()?;
            match self.alone {
                Alone::Forgotten if atime.is_none() => return Ok(()),
                Alone::Refused if atime.is_none() => return Err(io::ErrorKind::Unsupported.into()),
                _ => self.mtime.set(mtime),
            }
            Ok(())
        }
        fn attributes(&self) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
            Ok(self.attributes.borrow().clone())
        }
        fn set_attribute(&self, name: &[u8], value: &[u8]) -> io::Result<()> {
            if name == ACL && !self.has_acls {
                return Err(io::Error::from_raw_os_error(self.refusal));
            }
            if name == ACL {
                self.mode.set(self.mode.get() & !0o200);
            } else {
                self.is_open()?;
            }
            self.attributes.borrow_mut().push((name.to_vec(), value.to_vec()));
            Ok(())
        }
        fn remove_attribute(&self, name: &[u8]) -> io::Result<()> {
            self.is_open()?;
            self.attributes.borrow_mut().retain(|(there, _)| there != name);
            Ok(())
        }
    }

    /// Of the user.
    fn rights(can_chown: bool, others: &[u32]) -> Rights {
        let groups = [&[UID][..], others].concat();
        Rights { uid: UID, gid: UID, groups, can_chown, can_make_devices: false }
    }

    fn wanted(mode: u32, xattrs: &[(&[u8], &[u8])]) -> Wanted {
        let xattr = |&(name, value): &(&[u8], &[u8])| Xattr { name: name.to_vec(), value: value.to_vec() };
        let xattrs = xattrs.iter().map(xattr).collect();
        Wanted { mode, uid: UID, gid: UID, mtime: Time::default(), xattrs }
    }

    #[test]
    fn an_acl_that_is_not_kept_does_not_widen_what_the_owning_group_may() {
        // The owner may read and write, user 7 too, the group read, the others nothing; at most, read and write.
        let mut acl = vec![2, 0, 0, 0];
        let nobody = u32::MAX;
        for (tag, permissions, id) in [(1u16, 6u16, nobody), (2, 6, 7), (4, 4, nobody), (0x10, 6, nobody)] {
            acl.extend_from_slice(&tag.to_le_bytes());
            acl.extend_from_slice(&permissions.to_le_bytes());
            acl.extend_from_slice(&id.to_le_bytes());
        }
        let poor = Poor::new(0o600, errno::NOT_SUPPORTED);
        let (losses, _) = poor.apply(&wanted(0o660, &[(ACL, &acl[..])]));
        assert_eq!((losses, poor.mode.get()), (vec!["xattr system.posix_acl_access".to_owned()], 0o640));
        // Of one that cannot be read the group has nothing.
        poor.apply(&wanted(0o660, &[(ACL, &acl[..9])]));
        assert_eq!(poor.mode.get(), 0o600);
    }

    #[test]
    fn attributes_of_our_own_file_are_set_though_we_may_not_write_it() {
        let poor = Poor::new(0o444, errno::NOT_SUPPORTED);
        let wanted = wanted(0o444, &[(&b"user.a"[..], &b"1"[..])]);
        assert_eq!(poor.apply(&wanted), (Vec::new(), true));
        assert_eq!(*poor.attributes.borrow(), [(b"user.a".to_vec(), b"1".to_vec())]);
        assert_eq!(poor.mode.get(), 0o444);
        assert_eq!(poor.apply(&wanted), (Vec::new(), false), "nothing is opened for nothing");
    }

    #[test]
    fn an_acl_that_takes_the_write_bit_away_is_set_after_what_needs_it() {
        let poor = Poor { has_acls: true, ..Poor::new(0o644, errno::NOT_SUPPORTED) };
        let wanted = wanted(0o444, &[(ACL, &b"r for its owner"[..]), (&b"user.a"[..], &b"1"[..])]);
        assert_eq!(poor.apply(&wanted), (Vec::new(), true));
        let names: Vec<Vec<u8>> = poor.attributes.borrow().iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, [b"user.a".to_vec(), ACL.to_vec()]);
        assert_eq!(poor.mode.get(), 0o444);
    }

    #[test]
    fn the_second_names_of_acls_on_xfs_are_neither_set_nor_removed_nor_compared() {
        let poor = Poor::new(0o644, errno::NOT_SUPPORTED);
        let names = [
            &b"trusted.SGI_ACL_FILE"[..],
            b"trusted.SGI_ACL_DEFAULT",
            b"trusted.SGI_DMI_DMATTR",
            b"xfsroot.a",
            b"afs.acl",
            b"security.evm",
        ];
        let listed: Vec<_> = names.map(|name| (name.to_vec(), b"an ACL".to_vec())).to_vec();
        *poor.attributes.borrow_mut() = listed.clone();
        assert_eq!(poor.apply(&wanted(0o644, &[])), (Vec::new(), false));
        // A sender of another version sends them.
        let stale = wanted(0o644, &names.map(|name| (name, &b"of another file system"[..])));
        assert_eq!(poor.apply(&stale), (Vec::new(), false));
        assert_eq!(*poor.attributes.borrow(), listed);
        assert!(is_bare(&listed) && are_same(&listed, &stale.xattrs, &Preserve::ALL));
        assert!(!stays_where_it_is(b"security.ima") && !stays_where_it_is(b"trusted.a"));
    }

    #[test]
    fn what_the_file_system_lists_by_itself_is_neither_removed_nor_compared() {
        let poor = Poor::new(0o644, errno::NOT_SUPPORTED);
        let own = |name: &[u8]| (name.to_vec(), b"of the server".to_vec());
        let listed = vec![own(b"system.nfs4_acl"), own(b"system.cifs_acl")];
        *poor.attributes.borrow_mut() = listed.clone();
        assert_eq!(poor.apply(&wanted(0o644, &[])), (Vec::new(), false));
        assert_eq!(*poor.attributes.borrow(), listed);
        assert!(is_bare(&listed));
        let user = wanted(0o644, &[(&b"user.a"[..], &b"1"[..])]).xattrs;
        let all = &Preserve::ALL;
        assert!(!are_same(&listed, &user, all) && !are_same(&[own(b"user.a")], &user, all));
    }

    #[test]
    fn where_owners_are_not_kept_set_id_bits_work_for_whom_they_were_meant_or_go() {
        let preserve = Preserve { owner: false, ..Preserve::ALL };
        for (uid, gid, mode) in [(UID, UID, 0o6755), (UID + 1, UID, 0o755), (UID, UID + 1, 0o755)] {
            let poor = Poor::new(0o600, OVERFLOW);
            let wanted = Wanted { uid, gid, ..wanted(0o6755, &[]) };
            let rights = rights(true, &[]);
            let (mut losses, _) = apply(&poor, &poor.has(), &wanted, &preserve, &rights, true).unwrap();
            look_what_stayed(&poor, &wanted, &preserve, Grain::FINEST, &mut losses).unwrap();
            assert!(losses.is_empty(), "nobody asked for owners: {losses:?}");
            assert_eq!(poor.mode.get(), mode, "{uid}, {gid}");
            let stat = poor.look().unwrap();
            let wanted = wanted.within_reach(&stat, &preserve, &rights);
            assert!(!differs(&stat, None, &wanted, &preserve, Grain::FINEST), "{uid}, {gid}");
        }
    }

    #[test]
    fn where_modes_are_not_kept_acls_are_neither_set_nor_removed_nor_compared() {
        let preserve = Preserve { mode: false, ..Preserve::ALL };
        let poor = Poor { has_acls: true, ..Poor::new(0o640, errno::NOT_SUPPORTED) };
        let own = vec![(ACL.to_vec(), b"of the destination".to_vec())];
        *poor.attributes.borrow_mut() = own.clone();
        let wanted = wanted(0o4777, &[(&b"system.posix_acl_default"[..], &b"of the source"[..])]);
        let rights = rights(true, &[]);
        let (losses, is_changed) = apply(&poor, &poor.has(), &wanted, &preserve, &rights, true).unwrap();
        assert!(losses.is_empty() && !is_changed, "{losses:?}");
        assert_eq!((poor.attributes.borrow().clone(), poor.mode.get()), (own.clone(), 0o640));
        assert!(are_same(&own, &wanted.xattrs, &preserve) && are_same(&own, &[], &preserve));
        assert!(!is_bare(&own));
    }

    /// The bits would work for another group than they were meant for; its user is the same.
    #[test]
    fn set_id_bits_that_go_with_a_group_alone_are_not_said_to_go_with_the_owner() {
        let causes_of = |wanted: &Wanted| {
            let poor = Poor::new(0o644, OVERFLOW);
            let rights = rights(true, &[]);
            let (losses, _) = apply(&poor, &poor.has(), wanted, &Preserve::ALL, &rights, true).unwrap();
            losses.into_iter().map(|loss| format!("{}: {}", loss.what, loss.why)).collect::<Vec<_>>()
        };
        let group = causes_of(&Wanted { gid: UID + 1, ..wanted(0o2755, &[]) });
        assert_eq!(group.last().unwrap(), "set-id bits: the group could not be kept", "{group:?}");
        let both = causes_of(&Wanted { uid: UID + 1, gid: UID + 1, ..wanted(0o2755, &[]) });
        assert_eq!(both.last().unwrap(), "set-id bits: the owner could not be kept", "{both:?}");
    }

    #[test]
    fn an_owner_or_a_group_that_only_a_better_right_could_give_is_no_difference() {
        const PROJECT: u32 = 5000;
        let stat = |uid, gid, mode| {
            let root = Dir::open(std::path::Path::new("/")).unwrap().stat_self().unwrap();
            Stat { uid, gid, mode, mtime: thalweg_sys::Time { seconds: 0, nanos: 0 }, ..root }
        };
        let differs = |stat: Stat, wanted: Wanted, rights: &Rights| {
            let wanted = wanted.within_reach(&stat, &Preserve::ALL, rights);
            differs(&stat, None, &wanted, &Preserve::ALL, Grain::FINEST)
        };
        let foreign = |mode| Wanted { uid: UID + 1, gid: UID + 1, ..wanted(mode, &[]) };
        let user = rights(false, &[PROJECT]);
        assert!(!differs(stat(UID, UID, 0o755), foreign(0o755), &user));
        assert!(differs(stat(UID, UID, 0o755), foreign(0o755), &rights(true, &[])));
        assert!(differs(stat(UID, UID, 0o700), foreign(0o755), &user), "its mode can be set");
        // The bits went when it was made, and still go.
        assert!(!differs(stat(UID, UID, 0o755), foreign(0o2755), &user));
        assert!(differs(stat(UID, UID, 0o2755), foreign(0o2755), &user));
        // A group of ours is had, of what is ours.
        let of_project = || Wanted { gid: PROJECT, ..wanted(0o755, &[]) };
        assert!(differs(stat(UID, UID, 0o755), of_project(), &user));
        assert!(!differs(stat(UID, PROJECT, 0o755), of_project(), &user));
        assert!(!differs(stat(UID, UID, 0o755), of_project(), &rights(false, &[])));
        assert!(!differs(stat(UID + 1, UID, 0o755), of_project(), &user));
        // And then it keeps the bits.
        let with_bit = Wanted { mode: 0o2755, ..of_project() };
        assert!(differs(stat(UID, PROJECT, 0o755), with_bit.clone(), &user));
        assert!(!differs(stat(UID, PROJECT, 0o2755), with_bit, &user));
    }

    #[test]
    fn an_owner_that_an_idmapped_mount_cannot_express_is_a_loss() {
        let poor = Poor::new(0o644, OVERFLOW);
        let foreign = Wanted { uid: UID + 1, ..wanted(0o644, &[]) };
        assert_eq!(poor.apply(&foreign), (vec!["owner".to_owned()], false));
    }

    /// As bindfs does with those of links and FIFOs.
    #[test]
    fn a_time_that_is_taken_and_forgotten_is_given_again_and_one_that_is_right_in_the_end_is_no_loss() {
        let apply = |poor: &Poor, seconds, has_mode| {
            let wanted = Wanted { mtime: Time { seconds, nanos: 7 }, ..wanted(0o777, &[]) };
            let (has, rights) = (Has { mtime: None, ..poor.has() }, rights(true, &[]));
            let forgets = Some(Grain::FINEST);
            let (losses, _) =
                apply_surely(poor, &has, &wanted, &Preserve::ALL, &rights, has_mode, forgets).unwrap();
            (losses, poor.mtime.get().seconds)
        };
        for alone in [Alone::Forgotten, Alone::Refused, Alone::Kept] {
            // Before 1970, in 2001, and behind 2038.
            for seconds in [-1_000_000_000, 1_000_000_000, 5_000_000_000] {
                let poor = Poor { alone, ..Poor::new(0o777, errno::NOT_SUPPORTED) };
                assert_eq!(apply(&poor, seconds, true), (Vec::new(), seconds));
            }
        }
        // A link has no mode of its own, and loses none.
        let link = Poor { alone: Alone::Forgotten, ..Poor::new(0o700, errno::NOT_SUPPORTED) };
        assert_eq!(apply(&link, 1_000_000_000, false), (Vec::new(), 1_000_000_000));
    }

    /// ENOENT: of a link that leads nowhere, on sshfs, which follows it.
    #[test]
    fn an_owner_that_a_server_does_not_take_for_whatever_reason_is_a_loss_and_only_the_medium_fails() {
        let group = Wanted { gid: UID + 1, ..wanted(0o644, &[]) };
        for number in [errno::NO_ENTRY, errno::NO_SYSTEM_CALL, errno::NOT_SUPPORTED] {
            let poor = Poor::new(0o644, number);
            assert_eq!(poor.apply(&group), (vec!["group".to_owned()], false), "{number}");
        }
        // ENOSPC, ETIMEDOUT, ENOMEM.
        for number in [errno::IO, errno::STALE, errno::DEVICE_GONE, errno::DAMAGED, 28, 110, 12] {
            let poor = Poor::new(0o644, number);
            let rights = rights(true, &[]);
            assert!(apply(&poor, &poor.has(), &group, &Preserve::ALL, &rights, true).is_err(), "{number}");
        }
    }

    #[test]
    fn a_mode_a_time_or_an_attribute_that_the_medium_or_its_server_does_not_take_is_no_loss() {
        const NO_SPACE: i32 = 28;
        let apply = |number, wanted: &Wanted| {
            let poor = Poor { trouble: Some(number), ..Poor::new(0o644, errno::NOT_SUPPORTED) };
            let losses = apply(&poor, &poor.has(), wanted, &Preserve::ALL, &rights(true, &[]), true);
            losses.map(|(losses, _)| losses.len())
        };
        let later = Time { seconds: 1, nanos: 0 };
        let (mode, time) = (wanted(0o600, &[]), Wanted { mtime: later, ..wanted(0o644, &[]) });
        let attribute = wanted(0o644, &[(&b"user.a"[..], &b"1"[..])]);
        // ETIMEDOUT, ENOMEM.
        for number in [errno::STALE, errno::DEVICE_GONE, errno::DAMAGED, 110, 12] {
            for wanted in [&mode, &time, &attribute] {
                assert!(apply(number, wanted).is_err(), "{number}");
            }
        }
        assert!(apply(NO_SPACE, &mode).is_err() && apply(NO_SPACE, &time).is_err());
        assert_eq!(apply(NO_SPACE, &attribute).unwrap(), 1, "it may be too long for this file system");
        assert_eq!(apply(errno::NOT_SUPPORTED, &time).unwrap(), 1);
    }
}
