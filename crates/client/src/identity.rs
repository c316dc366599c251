//! Who we are: keys and the directory in which state is kept.

use std::path::{Path, PathBuf};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Identity;

/// The state directory: as asked, else `$XDG_STATE_HOME/thalweg`. Created with mode 0700.
///
/// # Errors
/// If there is no home, or it cannot be created.
pub fn state_directory(asked: Option<&Path>) -> Result<PathBuf> {
    let directory = match asked {
        Some(directory) => directory.to_owned(),
        None => {
            use etcetera::BaseStrategy;
            let base = etcetera::choose_base_strategy()
                .map_err(|error| Failure::new(FailureKind::NotFound, "find the state directory", error))?;
            base.state_dir().unwrap_or_else(|| base.home_dir().join(".local/state")).join("thalweg")
        }
    };
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|error| failure::at_path(failure::of_state(&error), &directory))?;
    Ok(directory)
}

/// The key that this user's copies are signed with; made at first use.
///
/// # Errors
/// If it cannot be read or made.
pub fn own(state: &Path) -> Result<Identity> {
    Identity::load_or_create(&state.join("identity.pem"), "thalweg user")
}
