//! The checkout that this is: where it is, and git in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where everybody sees its files, each below by its path: pages that are installed have no other way to what is not.
pub const PUBLISHED: &str = "https://github.com/thalweg/thalweg/blob/main/";

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Git in this checkout, which may be another user's than ours.
pub fn git(words: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*"]).args(words).current_dir(root());
    git
}
