//! Seeds of failures that proptest kept lie where it looks for them, by the place of their property's source: those of
//! a module that was renamed are never tried again, and nobody is told.

use crate::{checkout, trees};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of seeds, beside that of the sources.
const FOLDER: &str = "proptest-regressions";

const BELOW: [&str; 3] = ["crates", "xtask/proptest-regressions", "fuzz/proptest-regressions"];

/// Looks at all files of seeds.
///
/// # Errors
/// What the file system says.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    for below in BELOW.map(|below| checkout::root().join(below)) {
        if !below.is_dir() {
            continue;
        }
        for seeds in dead_below(&below)? {
            let place = seeds.strip_prefix(checkout::root()).unwrap_or(&seeds).display();
            breaches.push(format!(
                "{place} has no property: proptest does not look there, move it to where it does"
            ));
        }
    }
    Ok(())
}

/// Files of seeds that no property tries again.
fn dead_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut dead = Vec::new();
    for file in trees::files_below(directory)? {
        let folder = file.ancestors().find(|above| above.file_name().is_some_and(|name| name == FOLDER));
        let Some(folder) = folder else { continue };
        let source = file.strip_prefix(folder)?.with_extension("rs");
        if !has_property(folder.parent().unwrap_or(folder), &source)? {
            dead.push(file);
        }
    }
    Ok(dead)
}

/// Whether this source of a crate, whose folder of sources is in this one, has a property.
fn has_property(directory: &Path, source: &Path) -> Result<bool> {
    for entry in fs::read_dir(directory)? {
        let sources = entry?.path();
        // As proptest finds it.
        let is_root = ["lib.rs", "main.rs"].iter().any(|root| sources.join(root).is_file());
        if is_root && fs::read_to_string(sources.join(source)).is_ok_and(|text| text.contains("proptest!")) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn seeds_without_their_source_or_of_one_without_a_property_are_found() {
        let scratch = Scratch::new("seeds").unwrap();
        let root = scratch.path("crates");
        let write = |place: &str, text: &str| {
            let path = root.join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/src/lib.rs", "mod b;");
        write("a/src/b/c.rs", "proptest! {}");
        write("a/src/d.rs", "fn d() {}");
        for seeds in ["b/c.txt", "b.txt", "d.txt"] {
            write(&format!("a/{FOLDER}/{seeds}"), "cc 00");
        }
        let mut dead = dead_below(&root).unwrap();
        dead.sort();
        assert_eq!(dead, ["b.txt", "d.txt"].map(|seeds| root.join("a").join(FOLDER).join(seeds)));
    }

    #[test]
    fn all_seeds_are_tried_again() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }
}
