//! A module with files below it is `NAME.rs` beside the folder `NAME`, so that an open file says by its name which
//! module it is.

use super::text::sources_below;
use crate::checkout;
use anyhow::Result;

const BELOW: [&str; 3] = ["crates", "xtask/src", "fuzz/src"];

/// Looks at the names of all Rust sources.
///
/// # Errors
/// What the file system says.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    for below in BELOW {
        for file in sources_below(&checkout::root().join(below))? {
            let place = file.strip_prefix(checkout::root()).unwrap_or(&file);
            breaches.extend(misnamed(&place.to_string_lossy()));
        }
    }
    Ok(())
}

/// What is wrong with the name of a source, if anything. What the programs of a crate's tests share is named otherwise:
/// cargo takes each file of `tests` for a program.
fn misnamed(place: &str) -> Option<String> {
    let folder = place.strip_suffix("/mod.rs")?;
    let parts: Vec<&str> = folder.split('/').collect();
    let is_shared_by_tests = matches!(parts[..], ["crates", _, "tests", _]);
    (!is_shared_by_tests).then(|| format!("{place} is a module of the older form: name it {folder}.rs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_in_its_own_folder_is_found_and_what_tests_share_is_not() {
        let breach = misnamed("crates/a/src/b/mod.rs").unwrap();
        assert!(breach.ends_with("name it crates/a/src/b.rs"), "{breach}");
        assert!(misnamed("crates/a/src/b/tests/c/mod.rs").is_some());
        for place in ["crates/a/src/b.rs", "crates/a/src/b/c_mod.rs", "crates/a/tests/support/mod.rs"] {
            assert_eq!(misnamed(place), None);
        }
    }

    #[test]
    fn every_module_with_files_below_it_stands_beside_its_folder() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }
}
