//! What a destination does not do although it could: as who lets others write there has said.
//!
//! Nothing that stands there is replaced: what differs is refused when it is decided, where content has to be compared
//! first when it would get its name. What is the same stays, and gets the metadata of its entry.
//!
//! No file becomes a program that runs with the rights of its owner, its group or more: set-id bits and capabilities
//! are not kept. Whoever asks for a copy would leave programs of the user that runs it. One that stands there, with the
//! same content, keeps what it runs with: whose it is, and who may run it, too.
//!
//! Room is kept free: a file whose room is to be reserved finds that out before it is. Of all else (small files, sparse
//! ones, what others write) who runs the transfer looks from time to time.

use super::{LocalDestination, Place};
use crate::endpoint::local::metadata::{SET_ID, Wanted};
use crate::failure::{Failure, FailureKind, Reason, Result};
use std::io;
use thalweg_sys::{Dir, FileSystem, Stat};
use thalweg_wire::entry::Xattr;
use thalweg_wire::message::Loss;
use thalweg_wire::{Entry, Kind, RelativePath};

/// What a program may do that only root may otherwise.
pub(super) const CAPABILITY: &[u8] = b"security.capability";

/// What fails where something would take the place of what stands there, and may not.
pub const REPLACE: &str = "replace";

/// See the module. The default forbids nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Guard {
    /// Nothing that stands there is replaced.
    pub no_replace: bool,
    /// Files have neither set-id bits nor capabilities.
    pub no_set_id: bool,
    /// So much is kept free.
    pub min_free: Option<MinFree>,
}

/// Room that is left on a file system, for others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MinFree {
    /// So many bytes.
    Bytes(u64),
    /// This share of all its bytes, from 0 to 1.
    Share(f64),
}

impl MinFree {
    /// Whether so much stays free where this directory is when `wanted` bytes more are taken. Where nobody can say it
    /// does.
    ///
    /// # Errors
    /// `StorageFull` if less does.
    pub fn check(self, dir: &Dir, wanted: u64) -> io::Result<()> {
        let Ok(system) = dir.file_system() else { return Ok(()) };
        let (left, least) = (system.bytes_available, self.bytes_of(&system));
        if left.saturating_sub(wanted) >= least {
            return Ok(());
        }
        let wants = if wanted > 0 { format!("{wanted} bytes are wanted, ") } else { String::new() };
        let cause = format!("{wants}{left} bytes are left there, and {least} are kept free (min-free)");
        Err(io::Error::new(io::ErrorKind::StorageFull, cause))
    }

    /// Bytes that may be taken where this directory is; no bound where nobody can say.
    pub fn spare(self, dir: &Dir) -> u64 {
        let spare = |system: FileSystem| system.bytes_available.saturating_sub(self.bytes_of(&system));
        dir.file_system().map_or(u64::MAX, spare)
    }

    fn bytes_of(self, system: &FileSystem) -> u64 {
        match self {
            MinFree::Bytes(bytes) => bytes,
            MinFree::Share(share) => (system.bytes_total as f64 * share) as u64,
        }
    }
}

impl LocalDestination {
    /// The same, which does nothing that it is guarded against. Of its room it tells what may be taken: the bytes to
    /// `spare`, where some are kept free.
    pub fn guarded(mut self, guard: Guard, spare: Option<u64>) -> LocalDestination {
        self.guard = guard;
        if let Some(spare) = spare {
            self.resolved.free_bytes = self.resolved.free_bytes.map(|free| free.min(spare));
        }
        self
    }

    /// Something stands at this path, and is to give way.
    ///
    /// # Errors
    /// `Permission` if nothing is replaced here.
    pub(super) fn check_replacing(&self, path: &RelativePath) -> Result<()> {
        match self.guard.no_replace {
            true => Err(no_replace(path)),
            false => Ok(()),
        }
    }

    /// So many bytes more are to be taken where this directory is.
    ///
    /// # Errors
    /// As [`MinFree::check`].
    pub(super) fn check_room(&self, dir: &Dir, wanted: u64) -> io::Result<()> {
        self.guard.min_free.map_or(Ok(()), |min_free| min_free.check(dir, wanted))
    }

    /// What a file is to have of its entry.
    pub(super) fn wanted_of_file(&self, entry: &Entry) -> Wanted {
        let mut wanted = Wanted::of(entry);
        if self.guard.no_set_id {
            wanted.mode &= !SET_ID;
            wanted.xattrs.retain(|xattr| xattr.name != CAPABILITY);
        }
        wanted
    }

    /// Leaves what stands there and looks so the rights that it runs with, if it has any but those of who runs it:
    /// set-id bits and capabilities, and whose they are, its mode and its ACLs, by which others would get them.
    /// `present`: its attributes, if they were read; else `has_capability` says whether there is one, if that matters.
    pub(super) fn leave_rights(
        &self,
        wanted: &mut Wanted,
        stat: &Stat,
        present: Option<&[(Vec<u8>, Vec<u8>)]>,
        has_capability: impl FnOnce() -> bool,
    ) {
        let preserve = &self.terms.preserve;
        let changes = (preserve.mode && stat.mode != wanted.mode)
            || (preserve.owner && (stat.uid, stat.gid) != (wanted.uid, wanted.gid));
        let has_rights = || match present {
            Some(present) => present.iter().any(|(name, _)| *name == CAPABILITY),
            None => changes && has_capability(),
        };
        if !self.guard.no_set_id || (stat.mode & SET_ID == 0 && !has_rights()) {
            return;
        }
        (wanted.mode, wanted.uid, wanted.gid) = (stat.mode, stat.uid, stat.gid);
        let Some(present) = present else { return };
        wanted.keep_acls(present);
        let capability = present.iter().filter(|(name, _)| *name == CAPABILITY);
        let capability = capability.map(|(name, value)| Xattr { name: name.clone(), value: value.clone() });
        wanted.xattrs.extend(capability);
    }

    /// What a file of this user and group does not have of its entry by that.
    pub(super) fn lost_by_guard(&self, entry: &Entry, owner: (u32, u32)) -> Vec<Loss> {
        if !self.guard.no_set_id {
            return Vec::new();
        }
        let preserve = &self.terms.preserve;
        let has_bits = preserve.mode
            && entry.mode & SET_ID != 0
            && Wanted::of(entry).mode_for(owner, preserve) & SET_ID != 0;
        let has_capability = preserve.xattrs && entry.xattrs.iter().any(|xattr| xattr.name == CAPABILITY);
        let lost = [("set-id bits", has_bits), ("xattr security.capability", has_capability)];
        let why = "the export does not allow it (setid)";
        let lost = lost.into_iter().filter(|(_, is_lost)| *is_lost);
        lost.map(|(what, _)| Loss { what: what.to_owned(), why: why.to_owned() }).collect()
    }

    /// Whether a link that leads where its entry does stands there: where nothing is replaced it stays, whatever else
    /// differs, for a link is changed by being made anew.
    pub(super) fn is_link_that_stays(&self, entry: &Entry, place: &Place, name: &[u8]) -> bool {
        let Kind::Symlink { target } = &entry.kind else { return false };
        self.guard.no_replace && place.dir.read_link(name).is_ok_and(|found| found == *target)
    }
}

/// The failure of an entry that would replace what stands at its path.
pub(in crate::endpoint::local) fn no_replace(path: &RelativePath) -> Failure {
    let cause = "another one stands there, and nothing that does is replaced (no-replace)";
    Failure::new(FailureKind::Permission, REPLACE, cause).at(path).because(Reason::NotReplaced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::local::DestinationPlace;
    use crate::endpoint::local::wire_time;
    use crate::endpoint::{Decision, Destination, Ready};
    use crate::filter::Filter;
    use thalweg_wire::message::{Outcome, Preserve, SourceForm, Terms};
    use thalweg_wire::{Digest, EntryId, Evidence};

    fn open(to: &std::path::Path, guard: Guard) -> LocalDestination {
        let place = DestinationPlace { path: to.to_path_buf(), below: None };
        let preserve = Preserve { xattrs: false, ..Preserve::ALL };
        let terms = Terms { preserve, ..Terms::of(4 << 20, 1 << 20) };
        let to = LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default());
        to.unwrap().guarded(guard, None)
    }

    fn entry(id: u64, path: &str, kind: Kind, evidence: Evidence) -> Entry {
        Entry {
            id: EntryId(id),
            path: RelativePath::new(path.into()).unwrap(),
            kind,
            mode: 0o644,
            uid: thalweg_sys::user::effective_uid(),
            gid: thalweg_sys::user::effective_gid(),
            evidence,
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn where_nothing_is_replaced_links_stay_that_are_the_same_by_themselves() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        ["first", "apart"].into_iter().for_each(|name| std::fs::write(at(name), "same").unwrap());
        std::fs::hard_link(at("first"), at("joined")).unwrap();
        std::os::unix::fs::symlink("first", at("link")).unwrap();
        let to = open(scratch.path(), Guard { no_replace: true, ..Guard::default() });
        let dir = Dir::open(scratch.path()).unwrap();
        let file = Kind::File { sparse: false, marked: false };
        let evidence_of = |name: &str, inode: u64| {
            let mtime = wire_time(dir.stat(name.as_bytes()).unwrap().mtime);
            Evidence { size: 4, mtime, device: 1, inode, ..Evidence::default() }
        };
        let outcome_of = |entry: &Entry| match to.decide_entry(entry, &|_, _| true) {
            Decision::Settled { outcome, .. } => outcome,
            _ => panic!("{}: its content is wanted", entry.path),
        };
        let is_failed = |entry: &Entry| matches!(outcome_of(entry), Outcome::Failed(_));
        // One file there, two at the source.
        for (id, name) in [(1, "first"), (2, "joined")] {
            assert!(!is_failed(&entry(id, name, file.clone(), evidence_of(name, id))), "{name}");
        }
        // Two there, one at the source: the second name is offered again as a file, and stays.
        let first = RelativePath::new("first".into()).unwrap();
        let hard_link = Kind::HardLink { first, of: EntryId(1) };
        let second = entry(3, "apart", hard_link, evidence_of("apart", 1));
        assert!(matches!(to.link_entry(&second), Decision::Fresh));
        assert!(!is_failed(&entry(4, "apart", file, evidence_of("apart", 1))));
        // A link of another time.
        let link = |target: &str| {
            entry(5, "link", Kind::Symlink { target: target.as_bytes().to_vec() }, Evidence::default())
        };
        assert!(matches!(outcome_of(&link("first")), Outcome::Unchanged { .. }));
        assert!(is_failed(&link("apart")));
        to.close(false);
    }

    #[test]
    fn a_file_runs_with_no_rights_but_those_of_who_runs_it_unless_that_is_allowed() {
        for (no_set_id, mode, lost) in
            [(true, 0o755, &["set-id bits", "xattr security.capability"][..]), (false, 0o6755, &[][..])]
        {
            let scratch = tempfile::tempdir().unwrap();
            let guard = Guard { no_set_id, ..Guard::default() };
            let place = DestinationPlace { path: scratch.path().to_path_buf(), below: None };
            let terms = Terms::of(4 << 20, 1 << 20);
            let to = LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default());
            let to = to.unwrap().guarded(guard, None);
            let mtime = thalweg_wire::Time { seconds: 1_000_000_000, nanos: 0 };
            let evidence = Evidence { size: 4, mtime, ..Evidence::default() };
            let mut program = entry(1, "program", Kind::File { sparse: false, marked: false }, evidence);
            program.mode = 0o6755;
            if no_set_id {
                // None but root may give it elsewhere.
                program.xattrs = vec![Xattr { name: CAPABILITY.to_vec(), value: vec![1, 0, 0, 2] }];
            }
            assert!(matches!(to.decide_entry(&program, &|_, _| true), Decision::Fresh));
            let partial = to.begin_partial(&program).unwrap();
            partial.write_at(b"1234", 0).unwrap();
            let losses = to.finish_entry(&program, Ready::Partial(partial), Digest::default()).unwrap();
            assert_eq!(losses.iter().map(|loss| &loss.what[..]).collect::<Vec<_>>(), lost);
            let found = || Dir::open(scratch.path()).unwrap().stat(b"program").unwrap().mode;
            assert_eq!(found(), mode);
            to.close(true);
            // What it has not is no change afterwards.
            let to = open(scratch.path(), guard);
            let decided = to.decide_entry(&program, &|_, _| true);
            let is_unchanged =
                matches!(decided, Decision::Settled { outcome: Outcome::Unchanged { .. }, made: false });
            assert!(is_unchanged && found() == mode, "{no_set_id}");
            to.close(true);
        }
    }

    #[test]
    fn what_stands_there_keeps_the_rights_that_it_runs_with_and_nobody_else_gets_them() {
        // As an entry that was sent before, and as one that is to let others in, or to be given away.
        let (uid, gid) = (thalweg_sys::user::effective_uid(), thalweg_sys::user::effective_gid());
        let wishes = [(0o6755, uid, gid), (0o644, uid, gid), (0o777, uid, gid), (0o755, uid + 1, gid + 1)];
        // Those that version 2 has, of the program itself: `cap_net_bind_service`.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for (is_set_id, xattrs) in [(true, false), (true, true), (false, false), (false, true)] {
            let scratch = tempfile::tempdir().unwrap();
            std::fs::write(scratch.path().join("program"), "1234").unwrap();
            let dir = Dir::open(scratch.path()).unwrap();
            let mode = if is_set_id { 0o6750 } else { 0o750 };
            dir.set_mode(b"program", mode).unwrap();
            // None but root may give it a capability.
            let given = dir.open_read_write(b"program").unwrap().set_xattr(CAPABILITY, &capability);
            if !is_set_id && given.is_err() {
                continue;
            }
            let looks = || {
                let stat = dir.stat(b"program").unwrap();
                (stat.mode, stat.uid, stat.gid, dir.xattr(b"program", CAPABILITY).unwrap())
            };
            let before = looks();
            let mtime = wire_time(dir.stat(b"program").unwrap().mtime);
            for (mode, uid, gid) in wishes {
                let place = DestinationPlace { path: scratch.path().to_path_buf(), below: None };
                let preserve = Preserve { xattrs, ..Preserve::ALL };
                let terms = Terms { preserve, ..Terms::of(4 << 20, 1 << 20) };
                let to =
                    LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default());
                let to = to.unwrap().guarded(Guard { no_set_id: true, ..Guard::default() }, None);
                let evidence = Evidence { size: 4, mtime, ..Evidence::default() };
                let kind = Kind::File { sparse: false, marked: false };
                let program = Entry { mode, uid, gid, ..entry(1, "program", kind, evidence) };
                let decided = to.decide_entry(&program, &|_, _| true);
                assert!(
                    matches!(decided, Decision::Settled { outcome: Outcome::Unchanged { .. }, .. }),
                    "{mode:o}"
                );
                assert_eq!(looks(), before, "{mode:o}, {uid}, attributes: {xattrs}");
                to.close(true);
            }
        }
    }

    #[test]
    fn what_is_too_large_for_the_room_that_is_kept_free_is_refused_before_any_is_reserved() {
        let scratch = tempfile::tempdir().unwrap();
        let guard = Guard { min_free: Some(MinFree::Bytes(1)), ..Guard::default() };
        let to = open(scratch.path(), guard);
        // No file system has so large a file: the attempt to make it would fail by other words.
        let evidence = Evidence { size: 1 << 60, ..Evidence::default() };
        let large = entry(1, "large", Kind::File { sparse: false, marked: false }, evidence);
        let refused = to.begin_partial(&large).err().expect("too little room");
        assert_eq!(refused.kind, FailureKind::Space, "{refused}");
        assert!(refused.cause.ends_with("are kept free (min-free)"), "{refused}");
        to.close(false);
    }

    #[test]
    fn room_is_kept_free_by_bytes_or_by_a_share_of_all() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let system = FileSystem { bytes_total: 1000, ..dir.file_system().unwrap() };
        assert_eq!(MinFree::Bytes(7).bytes_of(&system), 7);
        assert_eq!(MinFree::Share(0.1).bytes_of(&system), 100);
        assert!(MinFree::Bytes(0).check(&dir, 0).is_ok());
        // What is only wanted counts as taken.
        assert!(MinFree::Bytes(1).check(&dir, 0).is_ok());
        assert!(MinFree::Bytes(1).check(&dir, u64::MAX).is_err());
        assert_eq!(MinFree::Bytes(u64::MAX).spare(&dir), 0);
        let error = MinFree::Bytes(u64::MAX).check(&dir, 0).unwrap_err();
        let failure = crate::failure::of_io("write", &error);
        assert_eq!(failure.kind, FailureKind::Space, "{failure}");
        assert!(failure.cause.ends_with("are kept free (min-free)"), "{failure}");
    }
}
