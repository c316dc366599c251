//! Object stores that tests copy to and from (`crates/cli/tests/objects`), two of them: what one takes for S3's
//! protocol the other may not; and tools that the benchmark of object stores runs beside ours. They lie in `stores`
//! beside what is built, and are installed anew when their versions change.

use crate::{command, python};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A gateway to a file system, which checks signatures; of Go's modules.
const VERSITYGW: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
/// A store in memory, which takes every key; of Python's packages.
const MOTO: &str = "moto[server]==5.2.5";
/// A tool of Go's modules. Built so, it does not know its own version.
pub const S5CMD: &str = "github.com/peak/s5cmd/v2@v2.3.0";
/// Amazon's own tool; of Python's packages, which have no version 2 of it.
pub const AWS_CLI: &str = "awscli==1.46.2";
/// Where Go is where nobody put it on the path.
const GO: &str = "/usr/local/go/bin/go";

/// Puts one below this directory.
type Install = fn(&Path) -> Result<()>;

/// A name, what it is installed from, and how.
pub type Step = (&'static str, &'static str, Install);

/// Where they are.
pub fn home() -> PathBuf {
    python::home().with_file_name("stores")
}

/// Installs the stores of tests: what cannot be is told, and its tests are skipped, or fail in CI.
///
/// # Errors
/// If a directory cannot be made, or a version not be noted.
pub fn install() -> Result<()> {
    let steps: [Step; 2] = [("versitygw", VERSITYGW, versitygw), ("moto", MOTO, moto)];
    install_all(&home(), &steps)
}

/// Installs the store of the benchmark, and the tools beside ours that Debian has not: what cannot be is told, and is
/// left out there.
///
/// # Errors
/// As [`install`].
pub fn install_for_bench() -> Result<()> {
    let steps: [Step; 3] =
        [("versitygw", VERSITYGW, versitygw), ("s5cmd", S5CMD, s5cmd), ("aws-cli", AWS_CLI, aws_cli)];
    install_all(&home(), &steps)
}

/// Puts each below this directory whose version is not there; what cannot be is told.
///
/// # Errors
/// If a directory cannot be made, or a version not be noted.
pub fn install_all(home: &Path, steps: &[Step]) -> Result<()> {
    std::fs::create_dir_all(home)?;
    for (name, version, install) in steps {
        let stamp = home.join(format!("{name}.txt"));
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == *version) {
            continue;
        }
        println!("==> installing {version}");
        match install(home) {
            Ok(()) => std::fs::write(&stamp, version)?,
            // What needs it is skipped, or fails in CI.
            Err(error) => println!("    not installed: {error:#}"),
        }
    }
    Ok(())
}

fn versitygw(home: &Path) -> Result<()> {
    of_go(home, VERSITYGW)
}

fn s5cmd(home: &Path) -> Result<()> {
    of_go(home, S5CMD)
}

fn moto(home: &Path) -> Result<()> {
    of_python(&home.join("venv"), MOTO)
}

fn aws_cli(home: &Path) -> Result<()> {
    of_python(&home.join("aws"), AWS_CLI)
}

/// A program of a Go module, into `bin`. It is built for a module that demands it, as `go install` wants to know more
/// of the module than some mirrors have.
fn of_go(home: &Path, package: &str) -> Result<()> {
    let (path, version) = package.split_once('@').context("a Go package without a version")?;
    let module = path.split("/cmd/").next().unwrap_or(path);
    let name = path.rsplit('/').find(|part| !is_major_version(part)).unwrap_or(path);
    std::fs::create_dir_all(home.join("bin"))?;
    let demands = tempfile::tempdir()?;
    let mod_file = format!("module demands\n\nrequire {module} {version}\n");
    std::fs::write(demands.path().join("go.mod"), mod_file)?;
    let go = Some(PathBuf::from(GO)).filter(|go| go.exists()).unwrap_or_else(|| "go".into());
    command::run(
        Command::new(go)
            .args(["build", "-C"])
            .arg(demands.path())
            .args(["-mod=mod", "-o"])
            .arg(home.join("bin").join(name))
            .arg(path)
            .env("GOFLAGS", "-modcacherw")
            .env("GOPATH", home.join("go")),
    )
}

/// The last part of a module's path from its second version on: `v2`.
fn is_major_version(part: &str) -> bool {
    part.strip_prefix('v')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// A package of Python's, into a virtual environment of its own.
fn of_python(venv: &Path, package: &str) -> Result<()> {
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(venv))?;
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", package];
    command::run(Command::new(venv.join("bin/python")).args(pip))
}
