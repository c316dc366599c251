//! Copies that delete: whether what they write themselves, a receipt and a report, would go with the rest.

use super::{Job, ways_to};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use thalweg_mover::endpoint::local::overlap;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::filter::Filter;
use thalweg_mover::run::copy::{From, To, Wishes};
use thalweg_sys::atomic_file;
use thalweg_wire::RelativePath;
use thalweg_wire::path::Escaped;

impl Job {
    /// Refuses receipts and a report below a destination on this machine, in what the copy would delete there: a report
    /// would lose its name with all that it says, and a receipt that which it is written under, so that none is left.
    /// What the filter leaves out stays, and so may they; of a receipt also the name that it has until it is whole.
    ///
    /// Not seen: bind mounts, and a far place that is on this machine.
    ///
    /// # Errors
    /// `Usage`, with the file and the destination; as [`Filter::new`].
    pub fn refuse_doomed(&self, wishes: &Wishes, receipts: &[PathBuf], report: Option<&Path>) -> Result<()> {
        let To::Local(to) = &self.to else { return Ok(()) };
        // One file of zeros has no directory in which anything would go.
        let is_single = matches!(self.from, From::Zero(_));
        if is_single || wishes.fidelity.delete_max.is_none() || receipts.is_empty() && report.is_none() {
            return Ok(());
        }
        let (root, ends) = (overlap::resolved(to), self.ends());
        let filter = Filter::new(wishes.selection.filter.clone())?;
        let stays =
            |way: &PathBuf| !ends.iter().any(|end| way.starts_with(end)) || is_left_out(&filter, &root, way);
        for receipt in receipts {
            if !ways_of_receipt(receipt).iter().all(stays) {
                return Err(self.doomed("--receipt", receipt, "*"));
            }
        }
        match report {
            Some(report) if !ways_to(report).iter().all(stays) => Err(self.doomed("--report", report, "")),
            _ => Ok(()),
        }
    }

    /// `around`: what a pattern has before and behind the name, so that it fits all names that the file has.
    fn doomed(&self, option: &str, path: &Path, around: &str) -> Failure {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let cause = format!(
            "`{}` ({option}) is in the destination {}, where --delete removes what the source lacks: write it elsewhere, \
             or leave it out by a rule, as by --exclude '{around}{}{around}'",
            Escaped(path.as_os_str().as_bytes()),
            self.names.1,
            Escaped(name.as_bytes())
        );
        Failure::new(FailureKind::Usage, "copy", cause)
    }
}

/// Where a receipt will be, and hidden names that it may have until then. It takes the place of a link.
fn ways_of_receipt(path: &Path) -> Vec<PathBuf> {
    let itself = overlap::resolved(path);
    let name = itself.file_name().unwrap_or_default().as_bytes();
    let hidden = atomic_file::hidden_names(name).map(|name| itself.with_file_name(OsStr::from_bytes(&name)));
    hidden.into_iter().chain([itself]).collect()
}

/// Whether the filter leaves out what is at `way`, or a directory on the way to it from the destination.
fn is_left_out(filter: &Filter, root: &Path, way: &Path) -> bool {
    let Ok(below) = way.strip_prefix(root) else { return false };
    let mut names = below.iter().peekable();
    let mut path = RelativePath::root();
    while let Some(name) = names.next() {
        let Ok(deeper) = path.join(name.as_bytes()) else { return false };
        path = deeper;
        if !filter.decide(&path, names.peek().is_some()).included {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::FilterRule;

    #[test]
    fn a_receipt_is_left_out_where_its_hidden_name_is_too_or_a_directory_above() {
        let root = Path::new("/backup");
        let is_left_out = |pattern: &str, path: &str| {
            let rule = FilterRule { include: false, pattern: pattern.to_owned() };
            let filter = Filter::new(vec![rule]).unwrap();
            ways_of_receipt(Path::new(path)).iter().all(|way| super::is_left_out(&filter, root, way))
        };
        // Of directories that are not there nothing is resolved.
        for (pattern, path, is) in [
            ("receipt.json", "/backup/run7/receipt.json", false),
            ("*receipt.json*", "/backup/run7/receipt.json", true),
            (".receipt.json.[0-9]*", "/backup/run7/receipt.json", false),
            ("/run7/log/", "/backup/run7/log/receipt.json", true),
            ("log/", "/backup/run7/log", false),
            ("/log/", "/backup/run7/log/receipt.json", false),
            ("*receipt.json*", "/elsewhere/receipt.json", false),
        ] {
            assert_eq!(is_left_out(pattern, path), is, "{pattern} on {path}");
        }
    }
}
