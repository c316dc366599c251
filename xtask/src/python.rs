//! `cargo xtask python`: the wheel is built as users build it, installed beside what its tests use, and tried: with
//! pytest, and with mypy for whoever writes types.

use crate::{cargo, checkout, command, notices, packages, trees};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's Python comes without what makes virtual environments, and says so only when one is made.
const PACKAGES: &[(&str, &str)] = &[("python3-venv", "")];

/// Options of the Python tests.
#[derive(clap::Args, Default)]
pub struct Args {
    /// Do not install Debian packages that are missing
    #[arg(long)]
    pub no_install: bool,
    /// Build the wheel as it is released, optimised; it stays in target/python/wheels
    #[arg(long)]
    pub release: bool,
    /// Arguments for pytest, for instance -k NAME
    #[arg(last = true)]
    pub pytest: Vec<String>,
}

/// Builds, installs, tries.
///
/// # Errors
/// At the first thing that fails.
pub fn run(args: &Args) -> Result<()> {
    let Installed { python, program, home } = install(args.no_install, args.release)?;
    let source = checkout::root().join("crates/python");

    println!("==> pytest");
    succeed(
        Command::new(&python)
            .args(["-m", "pytest"])
            .args(&args.pytest)
            .env("THALWEG_PROGRAM", &program)
            .current_dir(&source),
    )?;

    println!("==> mypy");
    let cache = home.join("mypy");
    let strict = |words: &[&str]| {
        succeed(
            Command::new(&python)
                .args(["-m", "mypy", "--strict", "--cache-dir"])
                .arg(&cache)
                .args(words)
                .current_dir(&source),
        )
    };
    strict(&["python/thalweg"])?;
    // As users see it: the installed package, by its own types.
    strict(&["examples"])?;
    // Its files import each other as a script's do.
    succeed(
        Command::new(&python)
            .args(["-m", "mypy", "--strict", "--config-file", "mypy.ini", "--cache-dir"])
            .arg(&cache)
            .arg(".")
            .current_dir(checkout::root().join("examples/beamline")),
    )?;
    succeed(
        Command::new(&python)
            .args(["-m", "mypy.stubtest", "thalweg._thalweg", "--mypy-config-file", "pyproject.toml"])
            .current_dir(&source),
    )
}

/// Where it is: `python` in the directory of builds.
pub fn home() -> PathBuf {
    cargo::target().join("python")
}

/// The package as users have it, beside what its tests use.
pub struct Installed {
    /// The Python that has it.
    pub python: PathBuf,
    /// The program `thalweg`, of the same build.
    pub program: PathBuf,
    home: PathBuf,
}

/// Builds the wheel as users build it, and the program; installs the wheel.
///
/// # Errors
/// At the first thing that fails.
pub fn install(no_install: bool, is_release: bool) -> Result<Installed> {
    let home = home();
    let source = checkout::root().join("crates/python");
    let bin = environment(&home, &source, no_install)?;
    let python = bin.join("python");

    println!("==> wheel");
    let _alone = alone(&source)?;
    let wheels = home.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let profile = if is_release { "release" } else { "dev" };
    // Maturin takes it along from there; afterwards a wheel of somebody else's making would have it, grown stale.
    let licences = source.join(notices::NAME);
    notices::make(&licences)?;
    let built = command::run(
        Command::new(bin.join("maturin"))
            .args(["build", "--quiet", "--profile", profile, "--interpreter"])
            .arg(&python)
            .arg("--manifest-path")
            .arg(source.join("Cargo.toml"))
            .arg("--out")
            .arg(&wheels),
    );
    std::fs::remove_file(&licences).with_context(|| licences.display().to_string())?;
    built?;
    let wheel = trees::files_below(&wheels)?.pop().context("maturin made no wheel")?;
    let listing = command::says(Command::new(&python).args(["-m", "zipfile", "--list"]).arg(&wheel))?;
    for licence in ["LICENSE", notices::NAME] {
        let is_there = listing.contains(&format!(".dist-info/licenses/{licence} "));
        ensure!(is_there, "{} has no {licence}", wheel.display());
    }
    command::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "-q", "--force-reinstall", "--no-deps"])
            .arg(wheel),
    )?;
    let program = if is_release { cargo::build_release()? } else { cargo::build_debug()? };
    Ok(Installed { python, program, home })
}

/// Waits until no other chore makes a wheel of these sources, and keeps others from it while what it gives is there:
/// what maturin takes along lies among them meanwhile.
fn alone(source: &Path) -> Result<File> {
    let manifest = source.join("Cargo.toml");
    let file = File::open(&manifest).with_context(|| manifest.display().to_string())?;
    if file.try_lock().is_err() {
        println!("==> waits for another chore that makes a wheel");
        file.lock()?;
    }
    Ok(file)
}

/// The programs of a virtual environment in which everything stands that the tests use; made anew when that changes.
fn environment(home: &Path, source: &Path, no_install: bool) -> Result<PathBuf> {
    let (venv, stamp) = (home.join("venv"), home.join("installed.txt"));
    let wanted = source.join("tests/requirements.txt");
    let text = std::fs::read_to_string(&wanted)?;
    let bin = venv.join("bin");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == text) {
        return Ok(bin);
    }
    println!("==> Python environment");
    std::fs::create_dir_all(home)?;
    let make = || command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    if make().is_err() && !no_install {
        packages::install(PACKAGES)?;
        make()?;
    }
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--requirement"];
    command::run(Command::new(bin.join("python")).args(pip).arg(&wanted))?;
    std::fs::write(&stamp, text)?;
    Ok(bin)
}

/// Runs it, with what it says.
///
/// # Errors
/// If it does not end well.
pub fn succeed(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| shown.clone())?;
    ensure!(status.success(), "{shown} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_chores_one_makes_a_wheel_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("Cargo.toml"), "").unwrap();
        let first = alone(directory.path()).unwrap();
        let manifest = File::open(directory.path().join("Cargo.toml")).unwrap();
        assert!(manifest.try_lock().is_err());
        drop(first);
        assert!(alone(directory.path()).is_ok());
        assert!(alone(&directory.path().join("none")).is_err());
    }
}
