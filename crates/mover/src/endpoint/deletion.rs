//! Deletion of what a source lacks, as far as all destinations do it in the same way: which names were offered, how
//! many may go, and what is said where less goes than was asked for.

use super::Conclusion;
use crate::failure::{self, Failure, FailureKind, shown_path};
use crate::journal::catalogue::OnDiskSet;
use std::io;
use thalweg_wire::RelativePath;
use thalweg_wire::limits::DELETED_TOLD_MAX;

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

/// Entries that are to go, or went.
#[derive(Debug, Default)]
pub struct Doomed {
    /// How many.
    pub count: u64,
    /// The names of the first, [`DELETED_TOLD_MAX`] at most.
    pub names: Vec<RelativePath>,
}

impl Doomed {
    /// Whether these go, of `offered` entries besides the root, and at most `most` with those that made way before.
    /// Where they do not the end tells why; in a dry run, in which nothing goes, which they are.
    pub fn may_go(self, offered: u64, most: u64, dry_run: bool, conclusion: &mut Conclusion) -> bool {
        if let Some(refused) = self.of_empty_source(offered) {
            conclusion.troubles.push(refused);
            return false;
        }
        let too_many = self.too_many(conclusion.deleted, most, dry_run);
        let is_refused = too_many.is_some();
        conclusion.troubles.extend(too_many);
        if dry_run {
            self.tell(conclusion);
        }
        !is_refused && !dry_run
    }

    /// Why these are not deleted, of `offered` entries besides the root: the source is empty. `None`: it is not.
    fn of_empty_source(&self, offered: u64) -> Option<Failure> {
        let has = failure::counted(self.count, "entry", "entries");
        let cause = format!("nothing was deleted: the source is empty and the destination has {has}");
        (self.count > 0 && offered == 0).then(|| refuse(FailureKind::Usage, cause))
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
