//! Walks a tree depth first, with bounded memory and few descriptors, whatever its shape.
//!
//! A directory of up to [`SORTED_NAMES_MAX`] names is listed whole and handed out in the order of its bytes; a
//! larger one in sorted batches of that many, as the file system lists them, so that the first name comes at once.
//! Only the innermost [`HELD_MAX`] directories of a path stay open; further out they are opened again from the
//! root when the walk comes back, and must be the same directories then. Where many large directories are nested,
//! outer listings are forgotten and made again from the last name on.
//!
//! Not guaranteed: anything about names that come and go during the walk.

use std::io;
use std::sync::Arc;
use thalweg_sys::{Dir, DirEntry, Entries, Kind};

/// Names listed and sorted at once: 2 MiB at usual lengths.
pub(super) const SORTED_NAMES_MAX: usize = 1 << 16;
/// Names kept of all directories on the way together.
const NAMES_MAX: usize = 4 * SORTED_NAMES_MAX;
/// Directories on the way that stay open: enough that a walk seldom opens one twice, few enough for the smallest
/// limits on descriptors.
const HELD_MAX: usize = 16;
/// Directories inside one another that are listed in batches: each keeps a descriptor and a batch.
const BATCHED_MAX: usize = 16;

/// Opens a directory by its path below the walk's root.
pub(super) type Reopen<'a> = Box<dyn Fn(&[u8]) -> io::Result<Dir> + Send + 'a>;

pub(super) struct Walk<'a> {
    reopen: Reopen<'a>,
    /// Path of the current directory, below the walk's root.
    path: Vec<u8>,
    frames: Vec<Frame>,
    sorted_names_max: usize,
    names_max: usize,
}

/// What the walk comes upon.
pub(super) enum Step {
    /// A name in the current directory.
    Name(Vec<u8>, Kind),
    /// The current directory could not be listed to its end.
    Trouble(io::Error),
    /// A directory is done; the current one is its parent again. Carries its name.
    Left(Vec<u8>),
    /// Nothing is left.
    End,
}

struct Frame {
    /// Length of `path` for this directory's parent.
    parent_bytes: usize,
    dir: Option<Arc<Dir>>,
    /// Device and inode.
    identity: (u64, u64),
    names: Names,
    /// The rest of a large directory.
    rest: Option<Entries>,
    trouble: Option<io::Error>,
    /// The listing was given up; it is to be made again behind this name.
    forgotten: Option<Vec<u8>>,
}

impl<'a> Walk<'a> {
    /// A walk that has not entered its root yet: [`enter`](Self::enter) it with an empty name.
    pub(super) fn new(reopen: Reopen<'a>) -> Self {
        let path = Vec::new();
        Walk { reopen, path, frames: Vec::new(), sorted_names_max: SORTED_NAMES_MAX, names_max: NAMES_MAX }
    }

    /// Path of the current directory below the root.
    pub(super) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Path of a name in the current directory.
    pub(super) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.path.clone();
        push_component(&mut path, name);
        path
    }

    /// Levels below the root, the root being 1; 0 before and after the walk.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// The current directory.
    pub(super) fn dir(&mut self) -> io::Result<Arc<Dir>> {
        let Some(frame) = self.frames.last_mut() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if let Some(dir) = &frame.dir {
            return Ok(dir.clone());
        }
        let dir = (self.reopen)(&self.path)?;
        let stat = dir.stat_self()?;
        if (stat.device, stat.inode) != frame.identity {
            return Err(io::Error::other("the directory was replaced while it was walked"));
        }
        let dir = Arc::new(dir);
        frame.dir = Some(dir.clone());
        Ok(dir)
    }

    /// Whether names of the current directory may come that belong before some that came.
    pub(super) fn is_unordered(&self) -> bool {
        self.frames.last().is_some_and(|frame| frame.rest.is_some())
    }

    /// Device and inode of the directories on the way, outermost first.
    pub(super) fn identities(&self) -> impl Iterator<Item = (u64, u64)> {
        self.frames.iter().map(|frame| frame.identity)
    }

    /// Goes down into `dir`, which is `name` in the current directory.
    ///
    /// # Errors
    /// If it cannot be listed at all; the walk stays where it is.
    pub(super) fn enter(&mut self, name: &[u8], dir: Arc<Dir>) -> io::Result<()> {
        let stat = dir.stat_self()?;
        let mut entries = dir.entries()?;
        let (names, is_end, trouble) = list(&mut entries, self.sorted_names_max);
        let rest = (!is_end).then_some(entries);
        if rest.is_some() && self.frames.iter().filter(|frame| frame.rest.is_some()).count() >= BATCHED_MAX {
            return Err(io::Error::other("too many very large directories inside one another"));
        }
        let parent_bytes = self.path.len();
        push_component(&mut self.path, name);
        let identity = (stat.device, stat.inode);
        self.frames.push(Frame {
            parent_bytes,
            dir: Some(dir),
            identity,
            names,
            rest,
            trouble,
            forgotten: None,
        });
        self.economise();
        Ok(())
    }

    pub(super) fn next(&mut self) -> Step {
        loop {
            let Some(frame) = self.frames.last_mut() else { return Step::End };
            if let Some(last) = frame.forgotten.take() {
                if let Err(error) = self.list_again(last) {
                    return Step::Trouble(error);
                }
                continue;
            }
            if let Some((name, kind)) = frame.names.next() {
                return Step::Name(name, kind);
            }
            if let Some(error) = frame.trouble.take() {
                return Step::Trouble(error);
            }
            if let Some(entries) = &mut frame.rest {
                let (names, is_end, trouble) = list(entries, self.sorted_names_max);
                if is_end {
                    frame.rest = None;
                }
                (frame.names, frame.trouble) = (names, trouble);
                continue;
            }
            let name = self.path[frame.parent_bytes..]
                .strip_prefix(b"/")
                .unwrap_or(&self.path[frame.parent_bytes..]);
            let name = name.to_vec();
            self.path.truncate(frame.parent_bytes);
            self.frames.pop();
            return Step::Left(name);
        }
    }

    /// Gives up the rest of the current directory.
    pub(super) fn abandon(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            (frame.names, frame.rest, frame.trouble, frame.forgotten) = (Names::default(), None, None, None);
        }
    }

    fn list_again(&mut self, last: Vec<u8>) -> io::Result<()> {
        let dir = self.dir()?;
        // It fitted when it was listed first; if it grew, the smallest names behind `last` come now and the
        // others are lost to this walk, which is said.
        let mut entries = dir.entries()?;
        let (mut names, is_end, trouble) = list(&mut entries, 2 * self.sorted_names_max);
        names.skip_to_behind(&last);
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        frame.names = names;
        frame.trouble = trouble.or_else(|| {
            (!is_end).then(|| io::Error::other("the directory grew too fast while it was walked"))
        });
        Ok(())
    }

    /// Lets go of outer directories and listings beyond the bounds.
    fn economise(&mut self) {
        let depth = self.frames.len();
        if let Some(frame) = depth.checked_sub(HELD_MAX + 1).and_then(|at| self.frames.get_mut(at)) {
            frame.dir = None;
        }
        let mut names: usize = self.frames.iter().map(|frame| frame.names.left()).sum();
        for frame in self.frames.iter_mut().take(depth.saturating_sub(1)) {
            if names <= self.names_max {
                break;
            }
            if frame.rest.is_none() && frame.trouble.is_none() && frame.names.left() > 0 {
                names -= frame.names.left();
                frame.forgotten = Some(frame.names.last().to_vec());
                frame.names = Names::default();
            }
        }
    }
}

fn push_component(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Lists up to `names_max` names, sorted; says whether the directory ended and what went wrong.
fn list(entries: &mut Entries, names_max: usize) -> (Names, bool, Option<io::Error>) {
    let mut names = Names::default();
    while names.items.len() < names_max {
        match entries.next() {
            None => return (names.sorted(), true, None),
            Some(Ok(entry)) => names.push(&entry),
            Some(Err(error)) => return (names.sorted(), true, Some(error)),
        }
    }
    (names.sorted(), false, None)
}

/// Names packed into one piece of memory: 12 bytes each beside their own.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    items: Vec<Item>,
    next: usize,
}

#[derive(Clone, Copy)]
struct Item {
    start: u32,
    length: u16,
    kind: Kind,
}

impl Names {
    fn push(&mut self, entry: &DirEntry) {
        let (start, length) = (self.bytes.len() as u32, entry.name.len() as u16);
        self.items.push(Item { start, length, kind: entry.kind });
        self.bytes.extend_from_slice(&entry.name);
    }

    fn sorted(mut self) -> Names {
        let bytes = &self.bytes;
        self.items.sort_unstable_by_key(|item| item.name(bytes));
        self
    }

    fn next(&mut self) -> Option<(Vec<u8>, Kind)> {
        let item = self.items.get(self.next)?;
        self.next += 1;
        Some((item.name(&self.bytes).to_vec(), item.kind))
    }

    fn left(&self) -> usize {
        self.items.len() - self.next
    }

    /// The name handed out last; empty if none was.
    fn last(&self) -> &[u8] {
        self.next.checked_sub(1).map_or(&[][..], |at| self.items[at].name(&self.bytes))
    }

    fn skip_to_behind(&mut self, last: &[u8]) {
        let bytes = &self.bytes;
        self.next = self.items.partition_point(|item| item.name(bytes) <= last);
    }
}

impl Item {
    fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.start as usize..][..usize::from(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use thalweg_sys::Links;

    /// All paths, directories before what is in them, by `walk` entered at `root`.
    fn paths(root: &Arc<Dir>, set_up: impl Fn(&mut Walk)) -> Vec<Vec<u8>> {
        let reopen = |path: &[u8]| root.open_beneath(path, Links::Refuse);
        let mut walk = Walk::new(Box::new(reopen));
        set_up(&mut walk);
        walk.enter(b"", root.clone()).unwrap();
        let mut found = Vec::new();
        loop {
            match walk.next() {
                Step::Name(name, kind) => {
                    found.push(walk.path_of(&name));
                    if kind == Kind::Dir {
                        let child = walk.dir().unwrap().open_beneath(&name, Links::Refuse).unwrap();
                        walk.enter(&name, Arc::new(child)).unwrap();
                    }
                }
                Step::Trouble(error) => panic!("{error}"),
                Step::Left(_) => {}
                Step::End => return found,
            }
        }
    }

    fn tree(path: &Path) -> Arc<Dir> {
        for a in 0..7 {
            for b in 0..5 {
                let dir = path.join(format!("d{a}/e{b}"));
                std::fs::create_dir_all(&dir).unwrap();
                for c in 0..9 {
                    std::fs::write(dir.join(format!("f{c}")), "").unwrap();
                }
                std::fs::write(path.join(format!("d{a}/z{b}")), "").unwrap();
            }
        }
        Arc::new(Dir::open(path).unwrap())
    }

    #[test]
    fn names_come_sorted_and_parents_first() {
        let scratch = tempfile::tempdir().unwrap();
        let root = tree(scratch.path());
        let found = paths(&root, |_| {});
        assert_eq!(found.len(), 7 + 35 + 35 + 315);
        let mut sorted: Vec<Vec<Vec<u8>>> =
            found.iter().map(|path| path.split(|&b| b == b'/').map(<[u8]>::to_vec).collect()).collect();
        sorted.sort();
        let in_order: Vec<_> = sorted.iter().map(|components| components.join(&b'/')).collect();
        assert_eq!(found, in_order);
    }

    #[test]
    fn forgotten_listings_are_made_again_without_loss_or_repetition() {
        let scratch = tempfile::tempdir().unwrap();
        let root = tree(scratch.path());
        assert_eq!(paths(&root, |walk| walk.names_max = 3), paths(&root, |_| {}));
    }

    #[test]
    fn batches_hand_out_every_name_once() {
        let scratch = tempfile::tempdir().unwrap();
        let root = tree(scratch.path());
        let mut found = paths(&root, |walk| walk.sorted_names_max = 4);
        let mut expected = paths(&root, |_| {});
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_directory_swapped_while_the_walk_was_deep_below_is_noticed() {
        let scratch = tempfile::tempdir().unwrap();
        let mut deep = scratch.path().to_path_buf();
        for _ in 0..HELD_MAX + 5 {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(scratch.path().join("d/x"), "").unwrap();
        let root = Arc::new(Dir::open(scratch.path()).unwrap());
        let reopen = |path: &[u8]| root.open_beneath(path, Links::Refuse);
        let mut walk = Walk::new(Box::new(reopen));
        walk.enter(b"", root.clone()).unwrap();
        let mut depth = 0;
        while let Step::Name(name, Kind::Dir) = walk.next() {
            let child = walk.dir().unwrap().open_beneath(&name, Links::Refuse).unwrap();
            walk.enter(&name, Arc::new(child)).unwrap();
            depth += 1;
        }
        assert_eq!(depth, HELD_MAX + 5);
        std::fs::rename(scratch.path().join("d"), scratch.path().join("old")).unwrap();
        std::fs::create_dir(scratch.path().join("d")).unwrap();
        while walk.depth() > 2 {
            walk.next();
        }
        assert!(matches!(walk.next(), Step::Name(name, Kind::File) if name == b"x"));
        assert!(walk.dir().is_err());
    }
}
