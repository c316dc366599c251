//! Cargo, and what it builds.

use crate::{checkout, command};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo itself.
pub fn program() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// What cargo says of packages, tests' own among them: it wants all of them at hand, and gets what is not, if it can.
///
/// # Errors
/// If it cannot, as offline in a clone that was only built: with what to do then.
pub fn says(of_packages: &mut Command) -> Result<String> {
    command::says(of_packages).context(
        "cargo does not tell its packages; those that are not at hand `cargo fetch --locked` gets, where there is a \
         network",
    )
}

/// Builds the program and tells where it is.
///
/// # Errors
/// If it does not build.
pub fn build_release() -> Result<PathBuf> {
    // Cargo tells what it compiles: in a fresh clone that takes minutes.
    command::run(Command::new(program()).args(["build", "--release", "--package", "thalweg"]))?;
    Ok(target().join("release/thalweg"))
}

/// Builds the program unoptimised and tells where it is.
///
/// # Errors
/// If it does not build.
pub fn build_debug() -> Result<PathBuf> {
    // Beside this program, whose libraries are there: by itself it would take them with other features, built anew.
    let words = ["build", "--quiet", "--package", "thalweg", "--package", "xtask"];
    command::run(Command::new(program()).args(words))?;
    Ok(target().join("debug/thalweg"))
}

/// Where cargo builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout::root().join("target"), PathBuf::from)
}

/// A program that cargo built of one target: of a test, a benchmark.
pub struct Built {
    /// The target's name: of a crate's own tests that of its library or program.
    pub name: String,
    pub program: PathBuf,
    /// The directory of its crate, in which cargo runs it.
    pub directory: PathBuf,
}

/// Builds by `cargo test` or `cargo bench` what these words name, and runs none of it.
///
/// # Errors
/// If it does not build.
pub fn built(words: &[&str]) -> Result<Vec<Built>> {
    let output = Command::new(program())
        .args(words)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(checkout::root())
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("cargo {} ended with {}", words.join(" "), output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let told = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    Ok(told
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| one(&message))
        .collect())
}

/// The program that a message of cargo's tells of, if it does.
fn one(message: &serde_json::Value) -> Option<Built> {
    Some(Built {
        name: message["target"]["name"].as_str()?.to_owned(),
        program: message["executable"].as_str()?.into(),
        directory: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
    })
}

/// Builds the benchmark of the parts of a transfer, and tells where its program is.
///
/// # Errors
/// If it does not build.
pub fn build_primitives() -> Result<PathBuf> {
    let found = built(&["bench", "--quiet", "--package", "thalweg-mover", "--bench", "primitives"])?;
    let primitives = found.into_iter().find(|built| built.name == "primitives");
    Ok(primitives.context("the benchmark `primitives` does not build")?.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_cargo_says_nothing_of_packages_it_is_told_how_they_are_fetched() {
        assert_eq!(says(Command::new("echo").arg("serde")).unwrap(), "serde");
        let failure = format!("{:#}", says(&mut Command::new("false")).unwrap_err());
        assert!(failure.contains("`cargo fetch --locked`") && failure.contains("\"false\""), "{failure}");
    }
}
