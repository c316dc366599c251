//! Tells the program which commit its sources are of (`THALWEG_COMMIT`): what whoever builds a package says in that
//! variable, else git, else `unknown`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout, seen from this package.
const ROOT: &str = "../..";

/// What the program is made of: a change of anything else is none of the program.
const SOURCES: [&str; 3] = ["crates", "Cargo.toml", "Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-env-changed=THALWEG_COMMIT");
    for path in looked_at() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    let told = std::env::var("THALWEG_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(of_git).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=THALWEG_COMMIT={commit}");
}

/// `v0.2-5-g33fe18f`, with `-dirty` behind it if a source is not as it was committed.
fn of_git() -> Option<String> {
    // Sources that were unpacked within another repository are not of its commit.
    if !git(&["rev-parse", "--show-prefix"])?.is_empty() {
        return None;
    }
    let commit = git(&["describe", "--always"])?;
    let changed = git(&[&["status", "--porcelain", "--untracked-files=no", "--"], &SOURCES[..]].concat())?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-dirty") })
}

/// The sources, and where git notes that another commit is checked out or made.
fn looked_at() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let crates = std::fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> =
        crates.flat_map(|entry| [entry.path().join("src"), entry.path().join("Cargo.toml")]).collect();
    paths.extend(["Cargo.toml", "Cargo.lock"].map(|file| root.join(file)));
    paths.push("build.rs".into());
    paths.extend(git(&["rev-parse", "--git-path", "logs/HEAD"]).map(|path| root.join(path)));
    // What is not there would count as changed each time.
    paths.retain(|path| path.exists());
    paths
}

/// What git says in the root, if it is there and content. The checkout may be another user's: what is in it is being
/// built, so it is trusted.
fn git(words: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(["-c", "safe.directory=*"]).args(words).current_dir(ROOT).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
