//! Receipts of parts that an earlier run left where this one writes its own.
//!
//! A part that this run did not complete has no receipt of it. Beside those of the other parts the earlier one would
//! pass for it, and all of them together for one copy. So it gets another name. It is not removed: somebody signed it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_wire::path::Escaped;

/// See the module.
pub struct Earlier(Vec<(PathBuf, Option<Metadata>)>);

impl Earlier {
    /// What stands at these paths before the run.
    pub fn find(paths: impl Iterator<Item = PathBuf>) -> Earlier {
        let look = |path: PathBuf| {
            let found = path.metadata().ok();
            (path, found)
        };
        Earlier(paths.map(look).collect())
    }

    /// Renames those that still stand there after it, if beside them one of this run does. What is to be told of it.
    pub fn set_aside(self) -> Vec<String> {
        // A receipt is written under a hidden name, and renamed.
        let is_same = |path: &Path, before: &Metadata| {
            path.metadata().is_ok_and(|now| (now.dev(), now.ino()) == (before.dev(), before.ino()))
        };
        let is_left = |(path, before): &(PathBuf, Option<Metadata>)| {
            before.as_ref().is_some_and(|before| is_same(path, before))
        };
        let (left, others): (Vec<_>, Vec<_>) = self.0.into_iter().partition(is_left);
        if !others.iter().any(|(path, _)| path.exists()) {
            return Vec::new();
        }
        left.into_iter().filter_map(|(path, before)| Some(rename(&path, &before?))).collect()
    }
}

/// To a name that `FILE.*` does not have, with when it was written: no other receipt has it.
fn rename(path: &Path, written: &Metadata) -> String {
    let shown = |path: &Path| Escaped(path.as_os_str().as_encoded_bytes()).to_string();
    let mut name = std::ffi::OsString::from(format!("earlier-{}-", written.mtime()));
    name.push(path.file_name().unwrap_or_default());
    let aside = path.with_file_name(name);
    match std::fs::rename(path, &aside) {
        Ok(()) => format!("`{}` was of an earlier run, and is `{}` now", shown(path), shown(&aside)),
        Err(error) => format!("`{}` is of an earlier run, and could not be renamed: {error}", shown(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_of_an_earlier_run_beside_one_of_this_run_gets_a_name_of_its_own() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |number: u32| scratch.path().join(format!("run.{number}"));
        let find = || Earlier::find((1..=3).map(at));
        let write = |number: u32, text: &str| {
            let hidden = scratch.path().join("hidden");
            std::fs::write(&hidden, text).unwrap();
            std::fs::rename(&hidden, at(number)).unwrap();
        };
        let names = || {
            let entries = std::fs::read_dir(scratch.path()).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        write(1, "old");
        write(3, "old");
        // Nothing came: all are of one run, as before.
        assert_eq!(find().set_aside(), [] as [String; 0]);
        assert_eq!(names(), ["run.1", "run.3"]);
        let earlier = find();
        write(1, "new");
        let written = at(3).metadata().unwrap().mtime();
        let told = earlier.set_aside();
        assert!(told.len() == 1 && told[0].contains("run.3` was of an earlier run"), "{told:?}");
        assert_eq!(names(), [format!("earlier-{written}-run.3"), "run.1".to_owned()]);
        assert_eq!(std::fs::read_to_string(at(1)).unwrap(), "new");
        // The first one of a part.
        let earlier = find();
        [1, 2, 3].iter().for_each(|&number| write(number, "newer"));
        assert_eq!(earlier.set_aside(), [] as [String; 0]);
    }
}
