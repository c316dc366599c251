//! Where a symbolic link leads that is followed (`--copy-links`): to a name in a held directory, which is then
//! looked at, opened and compared as any other.
//!
//! On the user's own machine a link leads wherever the user may go. In an export it is followed one component after
//! the other; each directory is opened beneath the export and through no link, so that neither what a link says nor
//! what is swapped meanwhile leads out. An absolute link leads out, wherever it ends.
//!
//! Not guaranteed: that a tree in which links branch again and again is small. No directory is gone into that is on
//! the way already, so it has an end.

use super::{Spot, parent_of};
use crate::endpoint::local::{FOLLOW_LINKS, errno, failed, is_errno, is_in_staging, is_staging};
use crate::failure::{Failure, FailureKind, Reason, shown_path};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_sys::{Dir, Kind, Links};
use thalweg_wire::RelativePath;

/// Why a directory that a link leads to is not gone into.
pub(in crate::endpoint::local) const LEADS_ABOVE: &str = "it leads to a directory that it is in";

/// Links followed from one name before it counts as a loop, as in the kernel.
pub(in crate::endpoint::local) const FOLLOW_MAX: usize = 40;

/// Follows a chain of links, as [`follow`] or [`follow_beneath`], from a spot to which these words lead too; fails
/// where it leads to what is unfinished.
pub(in crate::endpoint::local) fn end_of(words: &Path, spot: Spot, export: Option<&Dir>) -> io::Result<Spot> {
    let end = match export {
        Some(export) => follow_beneath(export, words.as_os_str().as_bytes())?,
        None => follow(parent_of(words), spot)?,
    };
    match is_staging(&end.name) || is_in_staging(&end.dir, export) {
        true => Err(LeadsIntoStaging.into()),
        false => Ok(end),
    }
}

/// Follows a chain of links to what is not a link. `directory`: the words that lead to where it begins.
pub(super) fn follow(mut directory: PathBuf, mut spot: Spot) -> io::Result<Spot> {
    for _ in 0..FOLLOW_MAX {
        if spot.dir.stat(&spot.name)?.kind != Kind::Symlink {
            return Ok(spot);
        }
        let target = PathBuf::from(std::ffi::OsString::from_vec(spot.dir.read_link(&spot.name)?));
        let words = directory.join(target);
        let Some(name) = words.file_name().map(|name| name.as_bytes().to_vec()) else {
            // It ends in `..` or is `/`: a directory, whose own name is not in the words.
            return Err(io::ErrorKind::IsADirectory.into());
        };
        directory = parent_of(&words);
        spot = Spot { dir: Arc::new(Dir::open(&directory)?), name };
    }
    Err(io::Error::from_raw_os_error(errno::LOOP))
}

/// As [`follow`], from a path below an export; `CrossesDevices` where that leads out of it.
pub(super) fn follow_beneath(export: &Dir, path: &[u8]) -> io::Result<Spot> {
    let mut rest = components(path);
    let mut here = export.try_clone()?;
    let mut way: Vec<Vec<u8>> = Vec::new();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == b".." {
            // Above the export there is nothing.
            way.pop().ok_or(io::ErrorKind::CrossesDevices)?;
            here = export.open_beneath(&way.join(&b'/'), Links::Refuse).map_err(of_swapped)?;
        } else if here.stat(&name)?.kind == Kind::Symlink {
            links += 1;
            if links > FOLLOW_MAX {
                return Err(io::Error::from_raw_os_error(errno::LOOP));
            }
            let target = here.read_link(&name)?;
            if target.starts_with(b"/") {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            rest.extend(components(&target));
        } else if rest.is_empty() {
            return Ok(Spot { dir: Arc::new(here), name });
        } else {
            here = here.open_beneath(&name, Links::Refuse).map_err(of_swapped)?;
            way.push(name);
        }
    }
    Err(io::ErrorKind::IsADirectory.into())
}

/// The error of a directory that was none a moment later: no link is followed there, so it is no loop.
fn of_swapped(error: io::Error) -> io::Error {
    if is_errno(&error, errno::LOOP) { io::Error::new(io::ErrorKind::NotFound, Swapped) } else { error }
}

/// The components of a path, the last one first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let all = path.split(|&byte| byte == b'/').rev();
    all.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}

/// The failure of a link that says this and could not be followed.
pub(in crate::endpoint::local) fn not_followed(
    path: &RelativePath,
    says: &[u8],
    error: &io::Error,
) -> Failure {
    use io::ErrorKind as E;
    if let Some(why) = leads_into_staging(error) {
        return Failure::new(FailureKind::NotFound, FOLLOW_LINKS, why).at(path).because(Reason::NotFollowed);
    }
    if error.get_ref().is_some_and(|why| why.is::<Swapped>()) {
        let cause = Swapped.to_string();
        return Failure::new(FailureKind::Changed, FOLLOW_LINKS, cause).at(path);
    }
    let says = shown_path(says);
    let (kind, cause) = match error.kind() {
        E::NotFound | E::NotADirectory => {
            (FailureKind::NotFound, format!("it leads to `{says}`, and nothing is there"))
        }
        E::CrossesDevices => (FailureKind::Permission, format!("it leads to `{says}`, out of the export")),
        _ if is_errno(error, errno::LOOP) => {
            (FailureKind::NotFound, format!("it leads to `{says}`, and from link to link without end"))
        }
        _ => return failed(FOLLOW_LINKS, path, error),
    };
    Failure::new(kind, FOLLOW_LINKS, cause).at(path).because(Reason::NotFollowed)
}

/// A directory on the way of a link that is followed is a link by now.
#[derive(Debug)]
struct Swapped;

impl std::fmt::Display for Swapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a directory on its way was replaced by a link while it was followed")
    }
}

impl std::error::Error for Swapped {}

/// A link that is followed leads to what is unfinished, which is nobody's source.
#[derive(Debug)]
pub(super) struct LeadsIntoStaging;

/// How that is said.
const INTO_STAGING: &str = "it leads into thalweg's own staging directory";

impl std::fmt::Display for LeadsIntoStaging {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(INTO_STAGING)
    }
}

impl std::error::Error for LeadsIntoStaging {}

impl From<LeadsIntoStaging> for io::Error {
    fn from(why: LeadsIntoStaging) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, why)
    }
}

/// Why a name is left out that a link makes lead into a staging directory, if this says that it does.
pub(in crate::endpoint::local) fn leads_into_staging(error: &io::Error) -> Option<&'static str> {
    error.get_ref().is_some_and(|why| why.is::<LeadsIntoStaging>()).then_some(INTO_STAGING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn in_an_export_links_lead_where_they_say_and_never_out() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir_all(at("export/a/b")).unwrap();
        std::fs::write(at("export/a/f"), "x").unwrap();
        std::fs::write(at("export/g"), "x").unwrap();
        std::fs::write(at("secret"), "x").unwrap();
        for (name, says) in [
            ("a/b/up", "../f"),
            ("a/b/top", "../../g"),
            ("to-b", "./a//b"),
            ("far", "to-b/up"),
            ("back", "to-b/../../g"),
            ("out", "../secret"),
            ("round", "a/../../export/g"),
            ("absolute", "/etc/passwd"),
            ("loop", "loop"),
            ("nowhere", "a/absent"),
            ("through", "g/x"),
        ] {
            symlink(says, at("export").join(name)).unwrap();
        }
        let export = Dir::open(&at("export")).unwrap();
        let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(at(name)).unwrap());
        for (path, end) in [
            ("a/f", "export/a/f"),
            ("a/b/up", "export/a/f"),
            ("to-b", "export/a/b"),
            ("to-b/top", "export/g"),
            ("far", "export/a/f"),
            // From where the link leads, not from where it stands.
            ("back", "export/g"),
        ] {
            let spot = follow_beneath(&export, path.as_bytes());
            let spot = spot.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(spot.dir.stat(&spot.name).unwrap().inode, inode(end), "{path}");
        }
        let refused = |path: &str| follow_beneath(&export, path.as_bytes()).map(drop).unwrap_err();
        for path in ["out", "round", "absolute", ".."] {
            assert_eq!(refused(path).kind(), io::ErrorKind::CrossesDevices, "{path}");
        }
        assert!(is_errno(&refused("loop"), errno::LOOP));
        assert_eq!(refused("nowhere").kind(), io::ErrorKind::NotFound);
        assert_eq!(refused("through").kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn a_directory_that_became_a_link_on_the_way_is_a_change_and_links_without_end_are_a_loop() {
        let path = RelativePath::new(b"link".to_vec()).unwrap();
        let endless = || io::Error::from_raw_os_error(errno::LOOP);
        let told = |error: &io::Error| not_followed(&path, b"d/f", error).kind;
        assert_eq!(told(&endless()), FailureKind::NotFound);
        assert_eq!(told(&of_swapped(endless())), FailureKind::Changed);
        assert_eq!(told(&of_swapped(io::ErrorKind::NotFound.into())), FailureKind::NotFound);
    }
}
