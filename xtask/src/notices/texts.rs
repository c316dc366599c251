use super::linked::Linked;
use crate::check::is_met_by;
use crate::trees;
use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// How the name of a file with a licence or a notice begins, before anything but a letter or a digit.
const BEGINS: [&str; 7] = ["license", "licence", "unlicense", "copying", "copyright", "notice", "notices"];

/// How the name of one ends that is code with such a name.
const CODE: [&str; 6] = ["rs", "c", "h", "py", "toml", "json"];

/// Directories of a package that are in no program.
const APART: [&str; 6] = ["tests", "test", "examples", "benches", "fuzz", "testing-tools"];

/// What a package leaves to choose, and is not chosen here.
const NOT_CHOSEN: [(&str, &str); 1] = [
    // The GPL; the other choice is BSD, in `LICENSE` beside it.
    ("zstd-sys", "zstd/COPYING"),
];

/// Texts that were found, each once, by numbers from 1.
pub struct Texts(Vec<Text>);

struct Text {
    /// Where it was first found.
    from: String,
    text: String,
}

impl Texts {
    /// The number of the text of Apache-2.0.
    pub const APACHE: usize = 1;

    /// With the text of Apache-2.0, which is that of thalweg itself.
    pub fn new(apache: &str) -> Texts {
        let mut texts = Texts(Vec::new());
        texts.add("LICENSE of thalweg", apache);
        texts
    }

    /// The numbers of the texts of a package. One that has none and may be taken under Apache-2.0 has the text of that;
    /// else there are none.
    ///
    /// # Errors
    /// If its directory cannot be read.
    pub fn of(&mut self, package: &Linked) -> Result<Vec<usize>> {
        let mut numbers = Vec::new();
        for file in files(package)? {
            let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
            let shown = file.strip_prefix(&package.directory).unwrap_or(&file).display();
            let from = format!("{shown} of {} {}", package.name, package.version);
            let number = self.add(&from, &String::from_utf8_lossy(&bytes));
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        if numbers.is_empty() && is_met_by(&package.licence, &["Apache-2.0"]) {
            numbers.push(Texts::APACHE);
        }
        Ok(numbers)
    }

    /// The number of a text: its own, or that of one with the same words.
    pub fn add(&mut self, from: &str, text: &str) -> usize {
        let is_same = |other: &Text| other.text.split_whitespace().eq(text.split_whitespace());
        let at = self.0.iter().position(is_same).unwrap_or_else(|| {
            self.0.push(Text { from: from.to_owned(), text: text.trim_matches(['\n', '\r']).to_owned() });
            self.0.len() - 1
        });
        at + 1
    }

    /// All of them, one below the other.
    pub fn shown(&self) -> String {
        let mut shown = String::new();
        for (number, Text { from, text }) in (1..).zip(&self.0) {
            let _ = write!(shown, "\n{}\nText {number}: {from}\n\n{text}\n", "=".repeat(80));
        }
        shown
    }
}

/// Files of a package with its licences and notices, in order.
///
/// # Errors
/// If its directory cannot be read.
fn files(package: &Linked) -> Result<Vec<PathBuf>> {
    let directory = &package.directory;
    let mut files = trees::files_below(directory).with_context(|| directory.display().to_string())?;
    files.retain(|file| {
        let below = file.strip_prefix(directory).unwrap_or(file);
        let is_apart = below.iter().any(|part| APART.iter().any(|apart| part == *apart));
        let is_chosen =
            !NOT_CHOSEN.iter().any(|(name, path)| package.name == *name && below == Path::new(path));
        package.file.as_ref() == Some(file) || (is_notice(file) && is_chosen && !is_apart)
    });
    files.sort();
    Ok(files)
}

/// Whether a file has the name of a licence or a notice.
fn is_notice(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let begins = |word: &&str| {
        name.strip_prefix(*word).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    let is_code = name.rsplit_once('.').is_some_and(|(_, ending)| CODE.contains(&ending));
    BEGINS.iter().any(begins) && !is_code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_licences_are_known_by_their_names() {
        for name in [
            "LICENSE",
            "license-mit",
            "LICENSE-Apache-2.0_WITH_LLVM-exception",
            "LICENSE.BSD-3-Clause",
            "LICENSE_A2",
            "COPYING",
            "NOTICES.md",
            "UNLICENSE",
        ] {
            assert!(is_notice(Path::new(name)), "{name}");
        }
        for name in ["license.rs", "licenses.txt.rs", "notice.h", "noticeable", "README.md", "copyrights"] {
            assert!(!is_notice(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn equal_texts_are_one_however_their_lines_are_broken_and_all_of_a_package_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("LICENSE-APACHE", "  Apache\n  License\n");
        write("LICENSE-MIT", "Permission\nof A\n");
        write("c/LICENSE", "Permission of A");
        write("c/COPYING", "of the library in C");
        write("tests/data/LICENSE", "of a picture");
        write("src/license.rs", "fn license() {}");
        write("TERMS", "of its own");
        let mut package = Linked {
            name: "a".into(),
            version: "1.0.0".into(),
            licence: "MIT".into(),
            directory: directory.path().to_owned(),
            file: None,
        };
        let mut texts = Texts::new("Apache License");
        assert_eq!(texts.of(&package).unwrap(), [1, 2, 3]);
        package.file = Some(directory.path().join("TERMS"));
        assert_eq!(texts.of(&package).unwrap(), [1, 2, 4, 3]);
        let shown = texts.shown();
        assert!(shown.contains("Text 2: LICENSE-MIT of a 1.0.0\n\nPermission\nof A\n"), "{shown}");
        assert!(!shown.contains("Text 5"), "{shown}");
    }

    #[test]
    fn what_is_not_chosen_is_left_out_and_what_may_be_taken_under_ours_needs_no_text() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("zstd")).unwrap();
        std::fs::write(directory.path().join("zstd/COPYING"), "another choice").unwrap();
        let of = |licence: &str| {
            let package = Linked {
                name: "zstd-sys".into(),
                version: "2.0.0".into(),
                licence: licence.into(),
                directory: directory.path().to_owned(),
                file: None,
            };
            Texts::new("Apache").of(&package).unwrap()
        };
        assert_eq!(of("BSD-3-Clause"), Vec::<usize>::new());
        assert_eq!(of("MIT/Apache-2.0"), [Texts::APACHE]);
        assert_eq!(of("MIT AND Apache-2.0"), Vec::<usize>::new());
    }
}
