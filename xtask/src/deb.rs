//! `cargo xtask deb`: the Debian package, of the release program.
//!
//! What is in it stands in `[package.metadata.deb]` of crates/cli/Cargo.toml, which cargo-deb reads; what is
//! done when it is installed and removed, in packaging/debian. What was made is held against the former.

use crate::{cargo, checkout, command, notices, packages};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of cargo-deb that makes it.
const CARGO_DEB: &str = "3.7.0";
/// What tells cargo-deb on which packages of libraries the program depends.
const PACKAGES: &[(&str, &str)] = &[("dpkg-dev", "/usr/bin/dpkg-shlibdeps")];
/// What is built and not in the checkout; cargo-deb knows where that is.
const BUILT: [&str; 2] = ["target/release/thalweg", "target/release/LICENSE-THIRD-PARTY.txt"];
/// From the crate to the root of the checkout.
const TO_ROOT: &str = "../../";
/// What an update leaves as its owner changed it.
const CONFIGURATION: &str = "etc/thalweg/config.toml";

/// Options of the package.
#[derive(clap::Args)]
pub struct Args {
    /// Take the release program that is there
    #[arg(long)]
    no_build: bool,
}

/// Makes the package, and tells where it is.
///
/// # Errors
/// If something cannot be installed or built, and for everything that is missing in it.
pub fn run(args: &Args) -> Result<()> {
    packages::install(PACKAGES)?;
    let version = Command::new("cargo-deb").arg("--version").output();
    let is_there = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(CARGO_DEB));
    if !is_there {
        let words = ["install", "cargo-deb", "--locked", "--version", CARGO_DEB];
        command::run(Command::new(cargo::program()).args(words))?;
    }
    if !args.no_build {
        cargo::build_release()?;
    }
    notices::make(&cargo::target().join("release").join(notices::NAME))?;
    // Names of functions stay in it, for reports of crashes.
    let words = ["deb", "--no-build", "--no-strip", "--package", "thalweg"];
    let told = command::says(Command::new(cargo::program()).args(words).current_dir(checkout::root()))?;
    let package = told.lines().next_back().context("cargo-deb does not say where the package is")?;
    let package = checkout::root().join(package);
    let listing = command::says(Command::new("dpkg-deb").arg("--contents").arg(&package))?;
    let mut expected = Vec::new();
    for asset in assets()? {
        expected.extend(asset.files()?.iter().map(|file| asset.installed(file)));
    }
    let missing = missing(&listing, &expected);
    ensure!(missing.is_empty(), "{} has no {}", package.display(), missing.join(", "));
    let kept = command::says(Command::new("dpkg-deb").arg("--info").arg(&package).arg("conffiles"))?;
    ensure!(kept.contains(CONFIGURATION), "{CONFIGURATION} is no conffile of {}", package.display());
    println!("    {} files, all that are to be in it", expected.len());
    println!("==> {}", package.display());
    Ok(())
}

/// What the package takes from the checkout, and where that goes.
pub struct Asset {
    /// Below the root of the checkout; the last part may have a `*`.
    pub source: String,
    /// Below `/`; with a slash at its end a directory.
    target: String,
}

/// All of them.
///
/// # Errors
/// If cargo does not answer, or the manifest has none.
pub fn assets() -> Result<Vec<Asset>> {
    let manifest = manifest()?;
    let assets = manifest["assets"].as_array().context("assets of the Debian package")?;
    let all = assets.iter().map(|asset| {
        let (source, target) = (asset[0].as_str()?, asset[1].as_str()?);
        let source = source.strip_prefix(TO_ROOT).unwrap_or(source);
        Some(Asset { source: source.to_owned(), target: target.to_owned() })
    });
    all.collect::<Option<Vec<Asset>>>().context("an asset of the Debian package is [SOURCE, TARGET, MODE]")
}

/// What an update leaves as its owner changed it, below `/`.
///
/// # Errors
/// As [`assets`].
pub fn kept() -> Result<Vec<String>> {
    let manifest = manifest()?;
    let files = manifest["conf-files"].as_array().context("conf-files of the Debian package")?;
    let all = files.iter().map(|file| file.as_str()?.strip_prefix('/').map(str::to_owned));
    all.collect::<Option<Vec<String>>>().context("a file of conf-files of the Debian package begins with /")
}

/// `[package.metadata.deb]` of crates/cli/Cargo.toml.
fn manifest() -> Result<serde_json::Value> {
    let words = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let told = command::says(Command::new(cargo::program()).args(words).current_dir(checkout::root()))?;
    let metadata: serde_json::Value = serde_json::from_str(&told).context("what `cargo metadata` says")?;
    let packages = metadata["packages"].as_array().context("packages of the workspace")?;
    let package = packages.iter().find(|package| package["name"] == "thalweg");
    let package = package.context("the package thalweg")?;
    Ok(package["metadata"]["deb"].clone())
}

impl Asset {
    /// The files that it takes, of what is built as if it was; none if it names nothing that is there.
    ///
    /// # Errors
    /// If their directory cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let path = checkout::root().join(&self.source);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((head, tail)) = name.split_once('*') else {
            let is_there = BUILT.contains(&self.source.as_str()) || path.is_file();
            return Ok(if is_there { vec![path] } else { Vec::new() });
        };
        let directory = path.parent().context("the directory of an asset")?;
        let mut files = files_in(directory)?;
        files.retain(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.len() >= head.len() + tail.len() && name.starts_with(head) && name.ends_with(tail)
        });
        Ok(files)
    }

    /// Where one of its files is installed, below `/`.
    pub fn installed(&self, file: &Path) -> String {
        match self.target.ends_with('/') {
            true => format!("{}{}", self.target, file.file_name().unwrap_or_default().to_string_lossy()),
            false => self.target.clone(),
        }
    }
}

/// Files of a directory, in order.
///
/// # Errors
/// If it cannot be read.
pub fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        files.push(entry?.path());
    }
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

/// What a listing of `dpkg-deb` does not have. Man pages are compressed.
fn missing(listing: &str, expected: &[String]) -> Vec<String> {
    let there: Vec<&str> = listing.lines().filter_map(|line| line.rsplit(" ./").next()).collect();
    let is_there = |name: &&String| there.iter().any(|there| there.trim_end_matches(".gz") == **name);
    expected.iter().filter(|name| !is_there(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_package_lacks_is_named_and_a_man_page_may_be_compressed() {
        let listing = "drwxr-xr-x root/root         0 2026-01-01 00:00 ./usr/bin/\n\
                       -rwxr-xr-x root/root   9000000 2026-01-01 00:00 ./usr/bin/thalweg\n\
                       -rw-r--r-- root/root       900 2026-01-01 00:00 ./usr/share/man/man1/thalweg.1.gz";
        let names = ["usr/bin/thalweg", "usr/share/man/man1/thalweg.1", "usr/bin", "bin/thalweg"];
        let expected = names.map(str::to_owned);
        assert_eq!(missing(listing, &expected), ["usr/bin", "bin/thalweg"]);
    }

    #[test]
    fn an_asset_is_one_file_or_those_of_a_directory_that_have_its_name() {
        let asset = |source: &str, target: &str| Asset { source: source.into(), target: target.into() };
        let program = asset(BUILT[0], "usr/bin/");
        let files = program.files().unwrap();
        assert_eq!(files.iter().map(|file| program.installed(file)).collect::<Vec<_>>(), ["usr/bin/thalweg"]);
        let timers = asset("packaging/systemd/*.timer", "usr/lib/systemd/system/");
        let files = timers.files().unwrap();
        let installed: Vec<_> = files.iter().map(|file| timers.installed(file)).collect();
        assert_eq!(installed, ["usr/lib/systemd/system/thalweg-gc.timer"]);
        let renamed = asset("LICENSE", "usr/share/doc/thalweg/license");
        assert_eq!(renamed.installed(&renamed.files().unwrap()[0]), "usr/share/doc/thalweg/license");
        assert!(asset("packaging/nothing", "usr/bin/").files().unwrap().is_empty());
        assert!(BUILT[1].ends_with(notices::NAME), "{}", BUILT[1]);
    }
}
