//! Directories that outlive a power cut from the moment they are made.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::Dir;

/// Makes a directory with all that is missing above it, each of this mode (0..=0o7777, minus the umask), and syncs
/// their names. One that is there is left as it is; its name is synced all the same: who made it may have been killed
/// before. A directory above that may be passed through and not read is not synced.
///
/// # Errors
/// What making and syncing say.
pub fn make_lasting(directory: &Path, mode: u32) -> io::Result<()> {
    let above = named_in(directory);
    std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    for above in above {
        match Dir::open(&above).and_then(|above| above.sync()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other?,
        }
    }
    Ok(())
}

/// The directories that get a name when this one is made: the one above it, and above each that is not there. The first
/// of them in any case.
fn named_in(directory: &Path) -> Vec<PathBuf> {
    let above: Vec<&Path> = directory.ancestors().skip(1).collect();
    let is_here = |above: &Path| above.as_os_str().is_empty();
    let missing = above.iter().take_while(|&&above| !is_here(above) && !above.exists()).count();
    let named = above.into_iter().take(missing + 1);
    named.map(|above| if is_here(above) { PathBuf::from(".") } else { above.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_above_a_new_one_are_synced_up_to_the_one_that_was_there() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        std::fs::create_dir(at("a")).unwrap();
        assert_eq!(named_in(&at("a/b/c/d")), [at("a/b/c"), at("a/b"), at("a")]);
        make_lasting(&at("a/b/c/d"), 0o700).unwrap();
        assert!(at("a/b/c/d").is_dir());
        assert_eq!(named_in(&at("a/b/c/d")), [at("a/b/c")]);
        make_lasting(&at("a/b/c/d"), 0o700).unwrap();
        assert_eq!(named_in(Path::new("new")), [PathBuf::from(".")]);
    }
}
