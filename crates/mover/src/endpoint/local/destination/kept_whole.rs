//! Whether what stands at the destination has all of its entry's metadata, so that the source may be removed. Its
//! content is that of the entry.
//!
//! An ordinary copy does not count what could not be kept: what only a better right could give, what the guard keeps
//! from it, and what was told when the file was made, because each copy would tell it again. Where the source is
//! removed that would be lost for good. So there it counts as a loss each time, and the source stays.

use super::decide::{kind_of, settled, unchanged};
use super::foretold::Outlook;
use super::{LocalDestination, Place};
use crate::endpoint::Decision;
use crate::endpoint::local::metadata::{SET_ID, Wanted, are_same};
use std::collections::BTreeSet;
use thalweg_sys::Stat;
use thalweg_wire::entry::Xattr;
use thalweg_wire::message::{Loss, Outcome, Preserve};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Entry, Kind};

type Found = (Vec<u8>, Vec<u8>);

impl LocalDestination {
    /// What a file that stands there and looks so does not have of its entry when it has all of `given`; nothing where
    /// no source goes for it.
    pub(super) fn missed_by_file(&self, entry: &Entry, stat: &Stat, given: &Wanted) -> Vec<Loss> {
        if !self.terms.removes_source {
            return Vec::new();
        }
        let preserve = &self.terms.preserve;
        let wanted = Wanted::of(entry);
        let mode = wanted.mode_for((stat.uid, stat.gid), preserve);
        let mut what = missed_owner((given.uid, given.gid), entry, preserve);
        if preserve.mode && given.mode != mode {
            let is_set_id = (given.mode ^ mode) & !SET_ID == 0;
            what.push((if is_set_id { "set-id bits" } else { "mode" }).to_owned());
        }
        let found: Vec<Found> =
            given.xattrs.iter().map(|xattr| (xattr.name.clone(), xattr.value.clone())).collect();
        what.extend(missed_xattrs(&found, &entry.xattrs, preserve));
        self.as_losses(entry, what)
    }

    /// The same of a link that leads where its entry does, as it stands there.
    pub(super) fn missed_by_link(&self, entry: &Entry, place: &Place, name: &[u8], stat: &Stat) -> Vec<Loss> {
        if !self.terms.removes_source || !matches!(entry.kind, Kind::Symlink { .. }) {
            return Vec::new();
        }
        let preserve = &self.terms.preserve;
        let mut what = missed_owner((stat.uid, stat.gid), entry, preserve);
        if preserve.times && !self.grain(place).is_same(entry.evidence.mtime, stat.mtime) {
            what.push("time of change".to_owned());
        }
        if preserve.xattrs {
            match place.dir.xattrs(name) {
                Ok(mut found) => {
                    // The label that SELinux gives each of itself.
                    let is_named = |name: &[u8]| entry.xattrs.iter().any(|xattr| xattr.name == name);
                    found.retain(|(name, _)| !name.starts_with(b"security.selinux") || is_named(name));
                    what.extend(missed_xattrs(&found, &entry.xattrs, preserve));
                }
                Err(_) => what.push("xattrs".to_owned()),
            }
        }
        self.as_losses(entry, what)
    }

    /// Nothing was changed of what stands there, and its last word is that it is done; without losses, that it is
    /// unchanged. Either way it [builds on the past](LocalDestination::on_the_past).
    pub(super) fn kept(&self, entry: &Entry, outcome: Outcome) -> Decision {
        match &outcome {
            Outcome::Done { digest, losses } if losses.is_empty() => return unchanged(*digest, false),
            _ if self.terms.dry_run => {
                self.hard_links.foretell(entry.id, kind_of(&entry.kind), Outlook::Stays);
            }
            _ => {}
        }
        settled(outcome, false)
    }

    fn as_losses(&self, entry: &Entry, what: Vec<String>) -> Vec<Loss> {
        let why = "what stands there has not this of the source, and does not get it";
        let of = |what| Loss { what, why: why.to_owned() };
        what.into_iter().map(of).chain(self.lost_link(&entry.path)).collect()
    }
}

fn missed_owner((uid, gid): (u32, u32), entry: &Entry, preserve: &Preserve) -> Vec<String> {
    let missed = [("owner", uid != entry.uid), ("group", gid != entry.gid)];
    let missed = missed.into_iter().filter(|(_, is_missed)| preserve.owner && *is_missed);
    missed.map(|(what, _)| what.to_owned()).collect()
}

/// Attributes that differ, each by its name.
fn missed_xattrs(found: &[Found], wanted: &[Xattr], preserve: &Preserve) -> Vec<String> {
    if !preserve.xattrs {
        return Vec::new();
    }
    let names = found.iter().map(|(name, _)| name).chain(wanted.iter().map(|xattr| &xattr.name));
    let names: BTreeSet<&Vec<u8>> = names.collect();
    let differs = |name: &&Vec<u8>| {
        let found: Vec<Found> = found.iter().filter(|(other, _)| other == *name).cloned().collect();
        let wanted: Vec<Xattr> = wanted.iter().filter(|xattr| xattr.name == **name).cloned().collect();
        !are_same(&found, &wanted, preserve)
    };
    names.into_iter().filter(differs).map(|name| format!("xattr {}", Escaped(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Destination;
    use crate::endpoint::local::destination::guard::{CAPABILITY, Guard};
    use crate::endpoint::local::{DestinationPlace, wire_time};
    use crate::filter::Filter;
    use thalweg_sys::Dir;
    use thalweg_wire::message::{Check, SourceForm, Terms};
    use thalweg_wire::{Digest, EntryId, Evidence, RelativePath};

    fn open(to: &std::path::Path, removes_source: bool, guard: Guard) -> LocalDestination {
        let place = DestinationPlace { path: to.to_path_buf(), below: None };
        let preserve = Preserve { xattrs: false, ..Preserve::ALL };
        let terms = Terms { removes_source, check: Check::Digest, preserve, ..Terms::of(4 << 20, 1 << 20) };
        let to = LocalDestination::open(place, &SourceForm::Many, true, terms, None, Filter::default());
        let mut to = to.unwrap().guarded(guard, None);
        // Whoever runs this.
        to.rights.can_chown = false;
        to
    }

    /// What a name that stands there, and has the content of its entry, is told to lose; `None` if it is unchanged.
    fn told(to: &LocalDestination, entry: &Entry) -> Option<Vec<String>> {
        let decision = match to.decide_entry(entry, &|_, _| true) {
            Decision::Wanted { .. } => to.keep_compared(entry, Digest([7; 32])),
            decision => decision,
        };
        match decision {
            Decision::Settled { outcome: Outcome::Unchanged { .. }, .. } => None,
            Decision::Settled { outcome: Outcome::Done { losses, .. }, .. } => {
                Some(losses.into_iter().map(|loss| loss.what).collect())
            }
            _ => panic!("{}: it stands there", entry.path),
        }
    }

    #[test]
    fn what_stands_there_without_all_of_its_entry_is_told_to_lose_it_where_the_source_would_go() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("file"), "1234").unwrap();
        std::os::unix::fs::symlink("file", scratch.path().join("link")).unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        dir.set_mode(b"file", 0o755).unwrap();
        let as_there = |id, name: &str, kind| {
            let stat = dir.stat(name.as_bytes()).unwrap();
            let evidence = Evidence { size: stat.size, mtime: wire_time(stat.mtime), ..Evidence::default() };
            let path = RelativePath::new(name.into()).unwrap();
            let (mode, uid, gid) = (stat.mode, stat.uid, stat.gid);
            Entry { id: EntryId(id), path, kind, mode, uid, gid, evidence, xattrs: Vec::new() }
        };
        let file = as_there(1, "file", Kind::File { sparse: false, marked: false });
        let link = as_there(2, "link", Kind::Symlink { target: b"file".to_vec() });
        let given = |entry: &Entry| Entry { uid: entry.uid + 1, ..entry.clone() };
        let set_id = Entry { mode: 0o6755, ..file.clone() };
        let no_set_id = Guard { no_set_id: true, ..Guard::default() };
        let mut late = link.clone();
        late.evidence.mtime.seconds += 10;
        let no_replace = Guard { no_replace: true, ..Guard::default() };
        let rows: [(&Entry, Guard, &[&str]); 6] = [
            (&file, Guard::default(), &[]),
            (&link, Guard::default(), &[]),
            (&given(&file), Guard::default(), &["owner"]),
            (&given(&link), Guard::default(), &["owner"]),
            (&set_id, no_set_id, &["set-id bits"]),
            (&late, no_replace, &["time of change"]),
        ];
        for removes_source in [false, true] {
            for (entry, guard, missed) in rows {
                let to = open(scratch.path(), removes_source, guard);
                let expected = missed.iter().map(|&what| what.to_owned()).collect::<Vec<_>>();
                let expected = Some(expected).filter(|expected| removes_source && !expected.is_empty());
                assert_eq!(told(&to, entry), expected, "{}, {guard:?}", entry.path);
                to.close(true);
            }
        }
    }

    #[test]
    fn attributes_are_missed_by_name_and_none_that_were_not_asked_for() {
        let found = [(b"user.a".to_vec(), b"1".to_vec()), (b"user.b".to_vec(), b"1".to_vec())];
        let xattr = |name: &[u8], value: &[u8]| Xattr { name: name.to_vec(), value: value.to_vec() };
        let wanted = [xattr(b"user.a", b"1"), xattr(b"user.b", b"2"), xattr(CAPABILITY, b"1")];
        let missed = |preserve: &Preserve| missed_xattrs(&found, &wanted, preserve);
        assert_eq!(missed(&Preserve::ALL), ["xattr security.capability", "xattr user.b"]);
        assert!(missed(&Preserve { xattrs: false, ..Preserve::ALL }).is_empty());
        assert!(missed_xattrs(&found[..1], &wanted[..1], &Preserve::ALL).is_empty());
    }
}
