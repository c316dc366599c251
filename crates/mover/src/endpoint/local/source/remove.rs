//! Removes names of a source, which stand at the destination by now.
//!
//! 1. The name is looked at again, whatever the kernel remembers of it: it has to be what was read, nobody may have it
//!    open for writing, as far as the kernel tells us that, and after that look it has to be what was read still.
//! 2. It is removed by name in the directory that is held. No link is followed.
//! 3. Of a file with other names it is told what these show now: the removal changed their ctime.
//!
//! Not guaranteed: what takes the name between the look and the removal goes in its place, for Linux removes
//! names and not files. A process that has the file open keeps it, and what it writes from then on is in no file that
//! has a name.

use super::{LocalSource, Root, parent_of};
use crate::endpoint::local::overlap::is_any_above;
use crate::endpoint::local::{evidence_of, failed};
use crate::endpoint::{REMOVE, Removal};
use crate::failure::{Failure, FailureKind, Reason, Result};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_sys::{File, Kind, Stat};
use thalweg_wire::{Evidence, RelativePath};

impl LocalSource {
    /// Whether it has the contents of several directories as those of one. Where the first of two files with
    /// one name is gone, the second would be taken for it.
    pub fn is_merged(&self) -> bool {
        self.roots.iter().filter(|root| root.top.is_empty()).count() > 1
    }

    /// A root that is, or is in, the directory that is another one, and that one, as the user wrote them: what is in
    /// both has two names, and nothing tells that these are of one file. Not seen where a bind mount leads there.
    pub fn nested(&self) -> Option<(&Path, &Path)> {
        if self.roots.iter().any(|root| root.is_in_export) {
            return self.nested_in_export();
        }
        let mut dirs: HashMap<(u64, u64), &Root> = HashMap::new();
        for root in self.roots.iter().filter(|root| root.stat.kind == Kind::Dir) {
            if let Some(other) = dirs.insert((root.stat.device, root.stat.inode), root) {
                return Some((root.words.as_path(), other.words.as_path()));
            }
        }
        self.roots.iter().find_map(|root| {
            let is_dir = root.stat.kind == Kind::Dir;
            let above = if is_dir { root.words.join("..") } else { parent_of(&root.words) };
            let mut outer: Option<&Root> = None;
            is_any_above(&above, |stat| {
                let found = dirs.get(&(stat.device, stat.inode)).copied();
                // The root of all is above itself.
                outer = found.filter(|found| !std::ptr::eq(*found, root));
                outer.is_some()
            });
            outer.map(|outer| (root.words.as_path(), outer.words.as_path()))
        })
    }

    /// The same in an export, whose words lead nowhere else: by the paths that the kernel has for what is held.
    fn nested_in_export(&self) -> Option<(&Path, &Path)> {
        let path_of = |root: &Root| {
            let path = root.dir.real_path()?;
            Some(if root.top.is_empty() { path } else { path.join(OsStr::from_bytes(&root.top)) })
        };
        let paths: Vec<(PathBuf, &Root)> =
            self.roots.iter().filter_map(|root| Some((path_of(root)?, root))).collect();
        let dirs = paths.iter().filter(|(_, root)| root.stat.kind == Kind::Dir);
        let dirs: HashMap<&Path, &Root> = dirs.map(|(path, root)| (path.as_path(), *root)).collect();
        paths.iter().find_map(|(path, root)| {
            let is_other = |found: &&Root| !std::ptr::eq(*found, *root);
            let outer = path.ancestors().find_map(|above| dirs.get(above).copied().filter(is_other))?;
            Some((root.words.as_path(), outer.words.as_path()))
        })
    }

    pub(super) fn remove_name(&self, path: &RelativePath, seen: &Evidence, is_end: bool) -> Result<Removal> {
        if self.options.follow_links {
            let cause = "links are followed, and the file has another name than this";
            return Err(Failure::new(FailureKind::Unsupported, REMOVE, cause).at(path));
        }
        let of_io = |error: io::Error| failed(REMOVE, path, &error);
        let spot = self.spot(path).map_err(of_io)?;
        let stat = spot.dir.stat_now(&spot.name).map_err(of_io)?;
        let changed = |cause: &str| Err(Failure::new(FailureKind::Changed, REMOVE, cause).at(path));
        let since = "it changed since it was copied, and stays";
        if !is_as_seen(&stat, seen) {
            return changed(since);
        }
        if !is_end && (stat.links > 1 || self.is_named(path)) {
            return Ok(Removal::Later);
        }
        let open = || self.with_descriptors(|| spot.dir.open_read(&spot.name)).ok();
        let file = if stat.kind == Kind::File { open() } else { None };
        if file.as_ref().is_some_and(|file| matches!(file.has_writers(), Ok(true))) {
            return changed("it is open for writing, and stays")
                .map_err(|failure| failure.because(Reason::StillWritten));
        }
        // Who had it open for writing at the first look may have written since, and closed it before the second.
        let now = file.as_ref().map_or_else(|| spot.dir.stat_now(&spot.name), File::stat_now);
        if !is_as_seen(&now.map_err(of_io)?, seen) {
            return changed(since);
        }
        // An NFS client keeps a name for what is removed while it is open.
        let file = file.filter(|_| stat.links > 1);
        spot.dir.remove_file(&spot.name).map_err(of_io)?;
        let now = file.and_then(|file| file.stat_now().ok()).map(|stat| evidence_of(&stat));
        Ok(Removal::Gone { left: now.filter(|now| (now.device, now.inode) == (seen.device, seen.inode)) })
    }

    /// Whether who asked for the copy named it: another attempt looks for it by that name.
    fn is_named(&self, path: &RelativePath) -> bool {
        let is_top = |top: &[u8]| !top.is_empty() && top == path.as_bytes();
        !self.options.only.is_empty() || self.roots.iter().any(|root| is_top(&root.top))
    }
}

/// What a symbolic link says never changes. Its ctime does by its other names.
fn is_as_seen(stat: &Stat, seen: &Evidence) -> bool {
    let now = evidence_of(stat);
    match stat.kind {
        Kind::File => now == *seen,
        Kind::Symlink if stat.links > 1 => Evidence { ctime: seen.ctime, ..now } == *seen,
        Kind::Symlink => now == *seen,
        _ => false,
    }
}
