//! Commands that must succeed.

use crate::checkout;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Runs a command in the root of the checkout; it must succeed.
///
/// # Errors
/// If it does not.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.current_dir(checkout::root()).status().with_context(|| shown.clone())?;
    if !status.success() {
        bail!("{shown} ended with {status}");
    }
    Ok(())
}

/// What a command says, without the white space around it; it must succeed.
///
/// # Errors
/// If it does not.
pub fn says(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} ended with {}: {}", output.status, why.trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
