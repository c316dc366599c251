//! What the chores share: the release program, real data, comparison by others' means.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Builds the program and tells where it is.
///
/// # Errors
/// If it does not build.
pub fn build_release() -> Result<PathBuf> {
    // Cargo tells what it compiles: in a fresh clone that takes minutes.
    run(Command::new(cargo()).args(["build", "--release", "--package", "thalweg"]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release/thalweg"))
}

/// Cargo itself.
pub fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The installed Rust toolchain: real data that everybody has who builds this.
///
/// # Errors
/// If rustc does not answer.
pub fn rust_toolchain() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output()?;
    let path = String::from_utf8(output.stdout).context("the path of the toolchain")?;
    Ok(PathBuf::from(path.trim()))
}

/// Runs a command in the root of the checkout; it must succeed.
///
/// # Errors
/// If it does not.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.current_dir(root()).status().with_context(|| shown.clone())?;
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

/// Git in this checkout, which may be another user's than ours.
pub fn git(words: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*"]).args(words).current_dir(root());
    git
}

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
        run(Command::new("apt-get").args(["-qq", "update"]))?;
        let install = ["-qq", "install", "-y", "--no-install-recommends"];
        return run(Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(install)
            .args(missing));
    }
    println!("==> missing, and not installed (that needs root and apt): {}", missing.join(", "));
    println!("    what needs them fails and says so");
    Ok(())
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
    let output = Command::new(cargo())
        .args(words)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root())
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

/// A directory below `target/` that goes when the value goes.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(name: &str) -> Result<Scratch> {
        let path = root().join("target").join(format!("{name}-{}", std::process::id()));
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

/// All regular files below a directory.
///
/// # Errors
/// What the file system says.
pub fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

/// Compares two trees by content and metadata: with rsync's checksum dry run where there is rsync, else with
/// `diff`.
///
/// # Errors
/// If they differ.
pub fn same_tree(a: &Path, b: &Path) -> Result<()> {
    same(a, b, "-aHnc")
}

/// Compares two trees by content only, for tools that keep no more.
///
/// # Errors
/// If they differ.
pub fn same_content(a: &Path, b: &Path) -> Result<()> {
    same(a, b, "-rnc")
}

fn same(a: &Path, b: &Path, options: &str) -> Result<()> {
    let slash = |path: &Path| format!("{}/", path.display());
    let rsync = Command::new("rsync")
        .args([options, "--delete", "--itemize-changes"])
        .args([slash(a), slash(b)])
        .output();
    match rsync {
        Ok(output) if output.status.success() && output.stdout.is_empty() => Ok(()),
        Ok(output) => bail!("they differ: {}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => run(Command::new("diff").args(["-r", "--no-dereference"]).args([a, b])),
    }
}

/// Compares two files byte by byte.
///
/// # Errors
/// If they differ.
pub fn same_file(a: &Path, b: &Path) -> Result<()> {
    let (mut one, mut two) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let got = one.read(&mut left)?;
        if got == 0 {
            return if two.read(&mut right)? == 0 { Ok(()) } else { bail!("{} is longer", b.display()) };
        }
        two.read_exact(&mut right[..got]).with_context(|| format!("{} is shorter", b.display()))?;
        if left[..got] != right[..got] {
            bail!("{} and {} differ", a.display(), b.display());
        }
    }
}
