//! `cargo xtask notices`: what the licences of others want to have beside what is made of their work.
//!
//! MIT, ISC and BSD ask for their notices beside a program, the Open Font License beside letters. What goes out, goes
//! out with this text: the Debian package, the wheel, and the static program where it is given away. It is made when
//! something is packed, and not committed: it has some hundred kilobytes, and changes with every lock file.
//!
//! 1. Which packages are linked, cargo says: not what only runs while something is built, nor what only tests use.
//! 2. Of each the texts in its directory; equal ones once.
//! 3. What is in the program besides: letters, and the libraries of Rust and of C.

use crate::{cargo, checkout, toolchain};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Which packages are linked, by what cargo says of them.
mod linked;

/// Texts of licences in the directories of packages.
mod texts;

use linked::Linked;
use texts::Texts;

/// How the file is named, wherever it lies.
pub const NAME: &str = "LICENSE-THIRD-PARTY.txt";

/// What is given away: the program, and the module of the wheel.
const GIVEN_AWAY: [&str; 2] = ["thalweg", "thalweg-python"];

/// What others made and is no package: what it is, its licence, and where in the checkout the text of that is.
const EMBEDDED: [(&str, &str, &str); 1] =
    [("Arimo 1.33, the letters of figures", "OFL-1.1", "crates/lab/src/plot/font/OFL.txt")];

/// Of Rust's standard library, in the directory of a toolchain that rustup installed.
const OF_RUST: &str = "share/doc/rust/COPYRIGHT-library.html";

/// Of the C library in a static program, where Debian's `musl` is installed, which building it needs.
const OF_MUSL: &str = "/usr/share/doc/musl/copyright";

const HEAD: &str = "\
# What others made and is in thalweg

thalweg is under Apache-2.0. Its program and its Python module are also made of what is listed here, each under its own
licence. Where a licence leaves a choice and Apache-2.0 is in it, that is taken. Numbers are those of the texts below.

";

/// Options of the notices.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write them (default: LICENSE-THIRD-PARTY.txt where cargo builds)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Writes them, and tells where they are.
///
/// # Errors
/// As [`make`].
pub fn run(args: &Args) -> Result<()> {
    let path = args.out.clone().unwrap_or_else(|| cargo::target().join(NAME));
    make(&path)?;
    if !Path::new(OF_MUSL).exists() {
        println!("    without those of musl (apt-get install musl): not enough beside a static program");
    }
    println!("==> {}", path.display());
    Ok(())
}

/// Writes them to a file.
///
/// # Errors
/// If cargo does not answer, a package has no text, or the file cannot be written.
pub fn make(path: &Path) -> Result<()> {
    let text = text()?;
    let folder = path.parent().context("the directory of the notices")?;
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// Packages of which there is no text to give along, each with what is wrong.
///
/// # Errors
/// If cargo does not answer, or a file cannot be read.
pub fn lacking() -> Result<Vec<String>> {
    let mut texts = Texts::new(&ours()?);
    let mut lacking = Vec::new();
    for package in linked::packages(&metadata()?, &GIVEN_AWAY)? {
        if texts.of(&package)?.is_empty() {
            lacking.push(without_text(&package));
        }
    }
    Ok(lacking)
}

/// All of them.
fn text() -> Result<String> {
    let root = checkout::root();
    let mut texts = Texts::new(&ours()?);
    let mut list = listed(&linked::packages(&metadata()?, &GIVEN_AWAY)?, &mut texts)?;
    for (what, licence, path) in EMBEDDED {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned())?;
        list += &line(what, licence, &[texts.add(path, &text)]);
    }
    // Where Rust is not rustup's, this is not at hand; its own licence then has to do, which is a choice it leaves.
    let of_rust = std::fs::read_to_string(toolchain::directory()?.join(OF_RUST));
    let of_rust = of_rust.map_or(Texts::APACHE, |page| texts.add("of the toolchain", &plain(&page)));
    list += &line("The standard library of Rust", "MIT OR Apache-2.0", &[of_rust]);
    if let Ok(text) = std::fs::read_to_string(OF_MUSL) {
        list += &line("musl, in a static program", "MIT", &[texts.add("of Debian's package", &text)]);
    }
    Ok(format!("{HEAD}{list}{}", texts.shown()))
}

/// The licence of thalweg itself.
fn ours() -> Result<String> {
    std::fs::read_to_string(checkout::root().join("LICENSE")).context("LICENSE")
}

/// What cargo says of all packages, for this processor under Linux, with either library of C: crates of other systems
/// need not be at hand.
fn metadata() -> Result<serde_json::Value> {
    let mut metadata = Command::new(cargo::program());
    metadata.args(["metadata", "--locked", "--format-version", "1"]).current_dir(checkout::root());
    for library in ["gnu", "musl"] {
        metadata.args(["--filter-platform", &format!("{}-unknown-linux-{library}", std::env::consts::ARCH)]);
    }
    serde_json::from_str(&cargo::says(&mut metadata)?).context("what `cargo metadata` says")
}

/// A line of each package, with the numbers of its texts.
///
/// # Errors
/// Naming all packages without one.
fn listed(packages: &[Linked], texts: &mut Texts) -> Result<String> {
    let mut list = String::new();
    let mut lacking = Vec::new();
    for package in packages {
        let numbers = texts.of(package)?;
        if numbers.is_empty() {
            lacking.push(without_text(package));
        }
        list += &line(&format!("{} {}", package.name, package.version), &package.licence, &numbers);
    }
    ensure!(lacking.is_empty(), "{}", lacking.join("\n"));
    Ok(list)
}

fn line(what: &str, licence: &str, numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    format!("- {what} ({licence}): {}\n", numbers.join(", "))
}

fn without_text(package: &Linked) -> String {
    format!(
        "{} {} ({}) has no text of its licence in {}: xtask/src/notices/texts.rs says what is looked for",
        package.name,
        package.version,
        package.licence,
        package.directory.display()
    )
}

/// A page without its marks.
fn plain(html: &str) -> String {
    let mut text = String::new();
    for part in html.split('<') {
        // Before the first mark nothing ends one.
        text += part.split_once('>').map_or(part, |(_, behind)| behind);
    }
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#x27;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text, |text, (written, sign)| text.replace(*written, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_away_has_a_text_of_everything_in_it() {
        assert_eq!(lacking().unwrap(), Vec::<String>::new());
        let text = text().unwrap();
        for part in
            ["- rustls ", "- aws-lc-sys ", "- pyo3 ", "- zstd-sys ", "- Arimo ", "SIL OPEN FONT LICENSE"]
        {
            assert!(text.contains(part), "{part}");
        }
        for not in ["- thalweg", "- proptest ", "- serde_derive ", "GNU GENERAL PUBLIC LICENSE\n"] {
            assert!(!text.contains(not), "{not}");
        }
    }

    /// Whatever letters are in the sources of a crate, their licence is beside them and in the list.
    #[test]
    fn letters_that_are_embedded_are_listed() {
        let mut folders = std::collections::BTreeSet::new();
        for file in crate::trees::files_below(&checkout::root().join("crates")).unwrap() {
            let ending = file.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
            if ["ttf", "otf", "woff", "woff2"].contains(&ending) {
                folders.insert(file.parent().unwrap().to_owned());
            }
        }
        let root = checkout::root();
        let listed: Vec<_> =
            EMBEDDED.iter().map(|(.., path)| root.join(path).parent().unwrap().to_owned()).collect();
        assert!(!folders.is_empty() && folders.iter().all(|folder| listed.contains(folder)), "{folders:?}");
    }

    #[test]
    fn a_package_has_a_line_with_its_texts_and_one_without_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let package = |name: &str, licence: &str| {
            let directory = directory.path().join(name);
            std::fs::create_dir_all(&directory).unwrap();
            Linked {
                name: name.into(),
                version: "1.0.0".into(),
                licence: licence.into(),
                directory,
                file: None,
            }
        };
        let (a, b) = (package("a", "MIT"), package("b", "MIT OR Apache-2.0"));
        std::fs::write(a.directory.join("LICENSE"), "Permission of A").unwrap();
        let list = listed(&[a, b], &mut Texts::new("Apache")).unwrap();
        assert_eq!(list, "- a 1.0.0 (MIT): 2\n- b 1.0.0 (MIT OR Apache-2.0): 1\n");
        let (c, d) = (package("c", "ISC"), package("d", "MIT"));
        let told = listed(&[c, d], &mut Texts::new("Apache")).unwrap_err().to_string();
        assert!(told.starts_with("c 1.0.0 (ISC) has no text ") && told.contains("\nd 1.0.0 "), "{told}");
    }

    #[test]
    fn a_page_is_read_without_its_marks() {
        assert_eq!(plain("<h1 id=\"a\">A &amp; B</h1>\n<pre>&lt;c@d&gt;</pre>"), "A & B\n<c@d>");
        assert_eq!(plain("&amp;lt;"), "&lt;");
    }
}
