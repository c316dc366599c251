//! Object stores that tests copy to and from (`crates/cli/tests/objects`), two of them: what one takes for S3's
//! protocol the other may not. They lie in `stores` beside what is built, and are installed anew when their versions
//! change.

use crate::{command, python};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A gateway to a file system, which checks signatures; of Go's modules.
const VERSITYGW: &str = "github.com/versity/versitygw/cmd/versitygw@v1.8.0";
/// A store in memory, which takes every key; of Python's packages.
const MOTO: &str = "moto[server]==5.2.5";
/// Where Go is where nobody put it on the path.
const GO: &str = "/usr/local/go/bin/go";

/// Puts one below this directory.
type Install = fn(&Path) -> Result<()>;

/// Installs them: what cannot be is told, and its tests are skipped, or fail in CI.
///
/// # Errors
/// If a directory cannot be made, or a version not be noted.
pub fn install() -> Result<()> {
    let home = python::home().with_file_name("stores");
    std::fs::create_dir_all(&home)?;
    let steps: [(&str, &str, Install); 2] = [("versitygw", VERSITYGW, versitygw), ("moto", MOTO, moto)];
    for (name, version, install) in steps {
        let stamp = home.join(format!("{name}.txt"));
        if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == version) {
            continue;
        }
        println!("==> installing {version}");
        match install(&home) {
            Ok(()) => std::fs::write(&stamp, version)?,
            // What needs it is skipped, or fails in CI.
            Err(error) => println!("    not installed: {error:#}"),
        }
    }
    Ok(())
}

fn versitygw(home: &Path) -> Result<()> {
    let go = Some(PathBuf::from(GO)).filter(|go| go.exists()).unwrap_or_else(|| "go".into());
    command::run(
        Command::new(go)
            .args(["install", VERSITYGW])
            .env("GOBIN", home.join("bin"))
            .env("GOFLAGS", "-modcacherw")
            .env("GOPATH", home.join("go")),
    )
}

fn moto(home: &Path) -> Result<()> {
    let venv = home.join("venv");
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", MOTO];
    command::run(Command::new(venv.join("bin/python")).args(pip))
}
