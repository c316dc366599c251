//! Debian packages that a chore needs.

use crate::command;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Installs Debian packages, each given with a program that shows that it is there: where that is possible; else says
/// what is missing.
///
/// # Errors
/// If apt fails.
pub fn install(packages: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<&str> = packages
        .iter()
        .filter(|(_, program)| !Path::new(program).exists())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    let has_apt = Path::new("/usr/bin/apt-get").exists();
    if is_root && has_apt {
        println!("==> installing {}", missing.join(", "));
        command::run(Command::new("apt-get").args(["-qq", "update"]))?;
        let install = ["-qq", "install", "-y", "--no-install-recommends"];
        return command::run(
            Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(install).args(missing),
        );
    }
    println!("==> missing, and not installed (that needs root and apt): {}", missing.join(", "));
    println!("    what needs them is skipped, and says so");
    Ok(())
}
