//! What an earlier command fetched and is gone at the source: nobody can compare it, so that it is not brought on; and
//! it may be the only copy, so that it is not removed. It goes to a directory of its own in the stage.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use thalweg_mover::endpoint::local::staging::leftover::open_for_us;
use thalweg_sys::{Dir, Kind, Links, Replace, Stat};
use thalweg_wire::RelativePath;

/// Where it is, below the stage.
pub(super) const GONE: &[u8] = b"gone";

/// What was set aside.
#[derive(Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its names.
    pub names: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Where it is.
    pub path: PathBuf,
}

/// The directory for what a command sets aside of a batch, made when something is.
pub(super) struct Aside<'a> {
    stage: &'a Dir,
    own: Option<(u32, Dir)>,
    names: u64,
    bytes: u64,
}

impl<'a> Aside<'a> {
    pub(super) fn new(stage: &'a Dir) -> Aside<'a> {
        Aside { stage, own: None, names: 0, bytes: 0 }
    }

    /// Takes the entry at a path below `tree` there, if it is no directory; an empty one goes. So do those above it
    /// that are empty then, but for what `stays`; the others are left as they were.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn take(
        &mut self,
        tree: &Dir,
        path: &RelativePath,
        stays: &dyn Fn(&RelativePath) -> bool,
    ) -> io::Result<()> {
        let Some((above, name)) = path.split() else { return Ok(()) };
        let mut passed = Vec::new();
        let taken = descend(tree, above, &mut passed).and_then(|here| match here {
            Some(here) => self.take_from(&here, above, name),
            None => Ok(()),
        });
        taken.and(ascend(tree, above, passed, stays))
    }

    fn take_from(&mut self, here: &Dir, above: &[u8], name: &[u8]) -> io::Result<()> {
        let stat = match here.stat(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        if stat.kind == Kind::Dir {
            // What is in it has names of its own, or stays.
            return match here.remove_dir(name) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                other => other,
            };
        }
        let mut there = self.dir()?;
        for name in components(above) {
            there = below(&there, name)?;
        }
        here.rename(name, &there, name, Replace::Never)?;
        there.sync()?;
        self.names += 1;
        self.bytes = self.bytes.saturating_add(stat.blocks_512.saturating_mul(512));
        Ok(())
    }

    /// The first with a number that nobody had.
    fn dir(&mut self) -> io::Result<Dir> {
        if let Some((_, dir)) = &self.own {
            return dir.try_clone();
        }
        let all = below(self.stage, GONE)?;
        let mut number: u32 = 1;
        loop {
            match all.make_dir(number.to_string().as_bytes(), 0o700) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                other => break other?,
            }
        }
        let own = below(&all, number.to_string().as_bytes())?;
        let dir = own.try_clone()?;
        self.own = Some((number, own));
        Ok(dir)
    }

    /// What was taken, if anything was. `top`: the path of the stage.
    pub(super) fn end(self, top: PathBuf) -> Option<SetAside> {
        let (number, _) = self.own?;
        let path = top.join(OsStr::from_bytes(GONE)).join(number.to_string());
        Some(SetAside { names: self.names, bytes: self.bytes, path })
    }
}

/// A directory on the way to a name.
struct Passed {
    /// Where its name is in the path.
    name: Range<usize>,
    was: Stat,
    is_opened: bool,
}

/// The directory at a path below `tree`; `None` if there is none. Those on the way are opened to us.
fn descend(tree: &Dir, path: &[u8], passed: &mut Vec<Passed>) -> io::Result<Option<Dir>> {
    let mut here = tree.try_clone()?;
    let mut start = 0;
    for name in components(path) {
        let was = match here.stat(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        if was.kind != Kind::Dir {
            return Ok(None);
        }
        let is_opened = open_for_us(&here, name, &was)?;
        passed.push(Passed { name: start..start + name.len(), was, is_opened });
        start += name.len() + 1;
        here = here.open_beneath(name, Links::Refuse)?;
    }
    Ok(Some(here))
}

/// Removes what is empty on the way, innermost first, and leaves the rest as it was.
fn ascend(
    tree: &Dir,
    path: &[u8],
    passed: Vec<Passed>,
    stays: &dyn Fn(&RelativePath) -> bool,
) -> io::Result<()> {
    let mut may_go = true;
    for Passed { name, was, is_opened } in passed.into_iter().rev() {
        if !may_go && !is_opened {
            continue;
        }
        let parent = tree.open_beneath(&path[..name.start.saturating_sub(1)], Links::Refuse)?;
        let whole = RelativePath::new(path[..name.end].to_vec());
        let own = &path[name];
        if may_go && !whole.is_ok_and(|whole| stays(&whole)) && parent.remove_dir(own).is_ok() {
            continue;
        }
        // Of those that stay only the innermost lost a name.
        if may_go && parent.stat(own)?.mtime != was.mtime {
            parent.set_times(own, None, Some(was.mtime))?;
        }
        may_go = false;
        if is_opened {
            parent.set_mode(own, was.mode)?;
        }
    }
    Ok(())
}

/// Opens or makes a directory that outlives a power cut.
fn below(parent: &Dir, name: &[u8]) -> io::Result<Dir> {
    match parent.make_dir(name, 0o700) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    parent.sync()?;
    parent.open_beneath(name, Links::Refuse)
}

fn components(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}
