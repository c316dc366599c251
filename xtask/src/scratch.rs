//! Where a chore makes its files.

use crate::checkout;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// A directory below `target/` that goes when the value goes.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(name: &str) -> Result<Scratch> {
        let path = checkout::root().join("target").join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Scratch(path))
    }

    /// One that is there already.
    pub fn at(path: &Path) -> Scratch {
        Scratch(path.to_owned())
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
