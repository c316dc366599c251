//! The identity provider that tests have tokens of (`crates/cli/tests/service/provider.rs`): a certified one, of npm.
//! It lies in `issuer` beside what is built, with the Node that runs it: Debian's is too old for it. It is installed
//! anew when its version changes.

use crate::stores::{Step, install_all};
use crate::{command, python};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// The provider.
const PROVIDER: &str = "oidc-provider@9.13.3";
/// The Node, whose packages are named for what they run on.
const NODE: &str = "node@22.23.3";

/// Installs it: if it cannot be that is told, and its tests are skipped, or fail in CI.
///
/// # Errors
/// If a directory cannot be made, or the version not be noted.
pub fn install() -> Result<()> {
    // Whichever changes: npm removes what it is not told of.
    let steps: [Step; 2] = [("oidc-provider", PROVIDER, of_npm), ("node", NODE, of_npm)];
    install_all(&python::home().with_file_name("issuer"), &steps)
}

/// Both packages. No script of theirs is run.
fn of_npm(home: &Path) -> Result<()> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let node = NODE.replacen("node", &format!("node-linux-{architecture}"), 1);
    let install = ["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--silent"];
    command::run(Command::new("npm").args(install).arg("--prefix").arg(home).args([PROVIDER, &node]))
}
