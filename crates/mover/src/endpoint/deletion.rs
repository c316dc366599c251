//! Deletion of what a source lacks, as far as all destinations do it in the same way: which names were offered, how
//! many may go, and what is said where less goes than was asked for.

use super::Conclusion;
use crate::failure::{self, Failure, FailureKind, shown_path};
use crate::journal::catalogue::OnDiskSet;
use crate::mutex::lock;
use std::collections::HashSet;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_wire::RelativePath;
use thalweg_wire::limits::DELETED_TOLD_MAX;
use thalweg_wire::message::Listing;

/// What fails where something that is to be deleted is not.
pub const DELETE: &str = "delete";

/// Names in the refusal to delete that many: enough to see what kind of entries these are.
const REFUSED_NAMED: usize = 3;

/// Names offered in this run, on disk. Of a directory there is [`as_directory`], too, if what is in it is offered name
/// by name, and [`as_unlisted`], if it was not listed.
pub type Offered = OnDiskSet<Box<dyn FnMut() -> io::Result<std::fs::File> + Send>>;

/// What stands for a directory of this path in the set of names offered.
pub fn as_directory(path: &[u8]) -> Vec<u8> {
    [path, b"/"].concat()
}

/// What stands in that set for a directory whose content the source did not list.
pub fn as_unlisted(path: &[u8]) -> Vec<u8> {
    [path, b"//"].concat()
}

/// Directories at the top that are known to have something in them. Beyond that many one counts as empty.
const FILLED_MAX: usize = 1 << 16;

/// What the entries offered say of where something may go.
#[derive(Debug, Default)]
pub struct Tops {
    /// Entries besides the root.
    entries: AtomicU64,
    has_root: AtomicBool,
    /// Without the root: the names at the top below which the source has something.
    filled: Mutex<HashSet<Vec<u8>>>,
}

impl Tops {
    /// An entry is offered, which has this path at the destination.
    pub fn offer(&self, path: &RelativePath) {
        if path.is_root() {
            self.has_root.store(true, Ordering::Relaxed);
            return;
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.fill(path);
    }

    /// The source has something of this path, whether or not it is offered.
    pub fn fill(&self, path: &RelativePath) {
        // Where all that stands in the root is the source's, its names are not looked at one by one.
        if let (Some(top), false) = (top_of(path.as_bytes()), self.has_root()) {
            let mut filled = lock(&self.filled);
            if !filled.contains(top) && filled.len() < FILLED_MAX {
                filled.insert(top.to_vec());
            }
        }
    }

    /// Whether what else stands at the top is the source's business.
    pub fn has_root(&self) -> bool {
        self.has_root.load(Ordering::Relaxed)
    }

    /// Whether this path is in a directory that was named, and in which the source, listed like this, has nothing.
    pub fn is_in_empty(&self, path: &[u8], listing: Listing) -> bool {
        listing == Listing::WithEmpty
            && !self.has_root()
            && top_of(path).is_some_and(|top| !lock(&self.filled).contains(top))
    }
}

/// The first name of a path that has more than one.
fn top_of(path: &[u8]) -> Option<&[u8]> {
    path.iter().position(|&byte| byte == b'/').map(|end| &path[..end])
}

/// What stays of directories that were named and are empty at the source.
#[derive(Debug, Default)]
pub struct Spared {
    entries: u64,
    /// The first of these directories.
    first: Option<RelativePath>,
    has_others: bool,
}

impl Spared {
    /// One more, at this path.
    pub fn add(&mut self, path: &[u8]) {
        self.entries += 1;
        let top = RelativePath::new(top_of(path).unwrap_or(path).to_vec()).unwrap_or_default();
        self.has_others |= self.first.as_ref().is_some_and(|first| *first != top);
        self.first.get_or_insert(top);
    }
}

/// Entries that are to go, or went.
#[derive(Debug, Default)]
pub struct Doomed {
    /// How many.
    pub count: u64,
    /// What stays only because it is in a directory of the source that is empty ([`is_in_empty`](Tops::is_in_empty)).
    pub spared: Spared,
    /// The names of the first, [`DELETED_TOLD_MAX`] at most.
    pub names: Vec<RelativePath>,
}

impl Doomed {
    /// Whether these go, of a source that offered `tops` and was listed like this, and at most `most` with those that
    /// made way before. Where they do not the end tells why; in a dry run, in which nothing goes, which they are.
    pub fn may_go(
        self,
        (tops, listing): (&Tops, Listing),
        most: u64,
        dry_run: bool,
        conclusion: &mut Conclusion,
    ) -> bool {
        if let Some(refused) = self.of_empty_source(tops, listing) {
            conclusion.troubles.push(refused);
            return false;
        }
        conclusion.troubles.extend(self.of_empty_directory());
        let too_many = self.too_many(conclusion.deleted, most, dry_run);
        let is_refused = too_many.is_some();
        conclusion.troubles.extend(too_many);
        if dry_run {
            self.tell(conclusion);
        }
        !is_refused && !dry_run
    }

    /// Why these are not deleted: the source is empty, or one of several is whose content is one at the destination.
    /// `None`: it is not.
    fn of_empty_source(&self, tops: &Tops, listing: Listing) -> Option<Failure> {
        let has = failure::counted(self.count, "entry", "entries");
        let cause = match (tops.entries.load(Ordering::Relaxed), listing) {
            (0, _) => format!("nothing was deleted: the source is empty and the destination has {has}"),
            (_, Listing::WithEmpty) if tops.has_root() => {
                format!(
                    "nothing was deleted: one of the sources is empty, and {has} would go; is it mounted?"
                )
            }
            _ => return None,
        };
        (self.count > 0).then(|| refuse(FailureKind::Usage, cause))
    }

    /// What is told of those that stay because a directory which was named is empty.
    fn of_empty_directory(&self) -> Option<Failure> {
        let Spared { entries, first, has_others } = &self.spared;
        let has = failure::counted(*entries, "entry", "entries");
        let cause = match has_others {
            false => format!(
                "nothing in it was deleted: it is empty at the source, and has {has} here; is it mounted?"
            ),
            true => format!(
                "nothing in it and in others was deleted that are empty at the source, and have {has} here; are they \
                 mounted?"
            ),
        };
        first.as_ref().map(|first| refuse(FailureKind::Usage, cause).at(first))
    }

    /// Why these are not deleted where `gone` were before, of at most `most`: they are too many. `None`: they are not.
    /// In a dry run each is named elsewhere.
    fn too_many(&self, gone: u64, most: u64, dry_run: bool) -> Option<Failure> {
        if self.count <= most.saturating_sub(gone) {
            return None;
        }
        let entries = failure::counted(self.count, "entry", "entries");
        let cause = match gone {
            0 => format!("nothing was deleted: {entries} would be, and {most} are allowed"),
            gone => format!(
                "no more was deleted: {entries} would be, {gone} made way for others or went \
                 before, and {most} are allowed"
            ),
        };
        // Last: a cause that is too long is cut.
        let cause = if dry_run { cause } else { format!("{cause}: {}", self.some()) };
        Some(refuse(FailureKind::Usage, cause))
    }

    /// The first names, of entries that are not deleted.
    fn some(&self) -> String {
        let first = self.names.iter().take(REFUSED_NAMED);
        let mut shown: Vec<String> = first.map(|name| format!("`{}`", shown_path(name.as_bytes()))).collect();
        match self.count.saturating_sub(shown.len() as u64) {
            0 => {}
            more => shown.push(format!("{more} more, which a dry run names")),
        }
        shown.join(", ")
    }

    /// Has the end tell them.
    pub fn tell(self, conclusion: &mut Conclusion) {
        conclusion.deleted += self.count;
        let room = DELETED_TOLD_MAX.saturating_sub(conclusion.deleted_names.len());
        conclusion.deleted_names.extend(self.names.into_iter().take(room));
    }
}

/// Why nothing is deleted: what of the source was not listed may be there.
pub fn not_listed() -> Failure {
    let cause = "nothing was deleted, because the source could not be listed in full";
    refuse(FailureKind::Usage, cause.to_owned())
}

/// Why nothing is deleted: which names were offered is not known.
pub fn not_kept() -> Failure {
    let cause = "nothing was deleted, because the names offered could not be kept";
    refuse(FailureKind::Io, cause.to_owned())
}

fn refuse(kind: FailureKind, cause: String) -> Failure {
    Failure::new(kind, DELETE, cause)
}
