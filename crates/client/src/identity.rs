//! Who we are: keys and the directory in which state is kept.

use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Identity;

/// Where the state directory is, or would be: as asked, else `$XDG_STATE_HOME/thalweg`.
///
/// # Errors
/// If there is no home.
pub fn state_path(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(directory) = asked {
        return Ok(directory.to_owned());
    }
    use etcetera::BaseStrategy;
    let base = etcetera::choose_base_strategy()
        .map_err(|error| Failure::new(FailureKind::NotFound, "find the state directory", error))?;
    Ok(base.state_dir().unwrap_or_else(|| base.home_dir().join(".local/state")).join("thalweg"))
}

/// The state directory, at [`state_path`]. Created with mode 0700.
///
/// # Errors
/// If there is no home, or it cannot be created.
pub fn state_directory(asked: Option<&Path>) -> Result<PathBuf> {
    let directory = state_path(asked)?;
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| failure::at_path(failure::of_state(&error), &directory))?;
    Ok(directory)
}

/// The state directory of a copy or a stream, and what is told where there is no room for one: then nothing is
/// remembered, and what is signed is signed with a key that is kept nowhere.
///
/// # Errors
/// If there is no home, or it cannot be created for another reason.
pub fn state_if_room(asked: Option<&Path>) -> Result<(PathBuf, Option<String>)> {
    match state_directory(asked) {
        Err(failure) if failure.kind == FailureKind::Space => {
            let told = format!("{failure}; this goes on, and nothing of it is remembered");
            Ok((state_path(asked)?, Some(told)))
        }
        made => Ok((made?, None)),
    }
}

/// The state directory of a command that has no option for it: what `THALWEG_STATE` names, else the usual one.
///
/// # Errors
/// As [`state_directory`].
pub fn usual_directory() -> Result<PathBuf> {
    let named = std::env::var_os("THALWEG_STATE").filter(|path| !path.is_empty()).map(PathBuf::from);
    state_directory(named.as_deref())
}

/// Name of the file of our key in the state directory.
const OWN: &str = "identity.pem";
/// For people who look into its certificate.
const OWN_NAME: &str = "thalweg user";

/// The key that this user's copies are signed with; made at first use. Where it cannot be kept, one that is kept
/// nowhere, which stands in what it signs.
///
/// # Errors
/// If it is there and cannot be read.
pub fn own(state: &Path) -> Result<Identity> {
    let path = state.join(OWN);
    match Identity::load_or_create(&path, OWN_NAME) {
        // One that is there is for its owner to mend.
        Err(_) if path.symlink_metadata().is_err() => Identity::generate(OWN_NAME),
        own => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_cannot_be_kept_is_ephemeral_and_one_that_is_there_is_not_passed_over() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = own(scratch.path()).unwrap();
        assert!(!kept.signatory().is_ephemeral);
        assert_eq!(own(scratch.path()).unwrap().signatory(), kept.signatory());
        // Nobody makes a file below a file, root neither.
        let no_directory = scratch.path().join(OWN);
        assert!(own(&no_directory).unwrap().signatory().is_ephemeral);
        std::fs::write(scratch.path().join(OWN), "no key").unwrap();
        assert!(own(scratch.path()).is_err());
    }
}
