//! The Debian package: what it names is there, what is to be installed is in it, and so is what its pages lead to.

use super::links;
use crate::{checkout, deb, notices};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Directories of which a package has every file.
const WHOLE: [&str; 9] = [
    "packaging/man",
    "packaging/completions",
    "packaging/systemd",
    "packaging/prometheus",
    "docs",
    "docs/decisions",
    "docs/figures",
    "docs/guide",
    "docs/reference",
];
/// Below this pages lie as they do in the clone: they lead to each other.
const PAGES: &str = "usr/share/doc/thalweg/";
/// What is done when it is installed and removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Without a build: cargo reads the manifest, and the shell its scripts.
///
/// # Errors
/// If cargo does not answer, or a file that it reads is not there.
pub fn check(breaches: &mut Vec<String>) -> Result<()> {
    let root = checkout::root();
    let (mut taken, mut installed) = (BTreeSet::new(), BTreeSet::new());
    let mut pages = Vec::new();
    for asset in deb::assets()? {
        let files = asset.files()?;
        if files.is_empty() {
            breaches.push(format!("the Debian package names {}, which is not there", asset.source));
        }
        for file in files {
            if !installed.insert(asset.installed(&file)) {
                breaches.push(format!("the Debian package has {} twice", asset.installed(&file)));
            }
            breaches.extend(misplaced(&file, &asset.installed(&file)));
            if file.extension().is_some_and(|extension| extension == "md") {
                pages.push((asset.installed(&file), file.clone()));
            }
            taken.insert(file);
        }
    }
    for (page, file) in pages {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        breaches.extend(lost(&page, &text, &installed));
    }
    let notices = format!("{PAGES}{}", notices::NAME);
    if !installed.contains(&notices) {
        breaches.push(format!("the Debian package has no {notices}: licences of what is linked ask for it"));
    }
    breaches.extend(not_kept(&installed, &deb::kept()?));
    for folder in WHOLE {
        for file in deb::files_in(&root.join(folder))? {
            if !taken.contains(&file) {
                let shown = file.strip_prefix(&root).unwrap_or(&file).display();
                breaches.push(format!("{shown} is not in the Debian package (crates/cli/Cargo.toml)"));
            }
        }
    }
    for file in deb::files_in(&root.join("packaging/systemd"))? {
        let unit = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let shown = file.strip_prefix(&root).unwrap_or(&file).display();
        let odd = not_installed(&unit, &installed);
        breaches.extend(odd.map(|program| format!("{shown} starts {program}, which no package installs")));
    }
    for script in SCRIPTS {
        let path = root.join("packaging/debian").join(script);
        let read = Command::new("sh").arg("-n").arg(&path).output().context("sh")?;
        if !read.status.success() {
            let why = String::from_utf8_lossy(&read.stderr);
            breaches.push(format!("packaging/debian/{script}: {}", why.trim()));
        }
    }
    Ok(())
}

/// What is wrong with the place of a page, if it is one.
fn misplaced(file: &Path, installed: &str) -> Option<String> {
    let page = file.strip_prefix(checkout::root()).unwrap_or(file).display().to_string();
    let is_there = installed.strip_prefix(PAGES).is_some_and(|place| place == page);
    (page.ends_with(".md") && !is_there)
        .then(|| format!("the Debian package has {page} as {installed}: its links lead nowhere from there"))
}

/// Links of an installed page to what is not installed.
fn lost(page: &str, text: &str, installed: &BTreeSet<String>) -> Vec<String> {
    let is_there = |path: &str| {
        let below = format!("{path}/");
        installed.contains(path)
            || installed.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below))
    };
    let links =
        links::of(text).into_iter().filter(|link| !link.file.is_empty() && !link.file.contains("://"));
    let lost = links.filter(|link| !is_there(&led_to(page, &link.file)));
    lost.map(|link| {
        format!(
            "the Debian package has /{page}, whose line {} leads to {}, but not that",
            link.line, link.file
        )
    })
    .collect()
}

/// Where a link of a page leads, by their words alone.
fn led_to(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What is wrong with the files that an update leaves as their owner changed them: all below /etc, and no others.
fn not_kept(installed: &BTreeSet<String>, kept: &[String]) -> Vec<String> {
    let lost = installed.iter().filter(|file| file.starts_with("etc/") && !kept.contains(file));
    let lost = lost.map(|file| format!("an update of the Debian package replaces /{file} (conf-files)"));
    let odd = kept.iter().filter(|file| !installed.contains(*file));
    let odd = odd.map(|file| format!("the Debian package keeps /{file} (conf-files), and does not have it"));
    lost.chain(odd).collect()
}

/// Programs that a unit starts and a package does not install.
fn not_installed<'a>(unit: &'a str, installed: &'a BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    let programs = lines.filter_map(|line| line.split_whitespace().next());
    programs.filter(move |program| !program.strip_prefix('/').is_some_and(|path| installed.contains(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_package_names_is_there_and_pages_completions_units_and_guides_are_in_it() {
        let mut breaches = Vec::new();
        check(&mut breaches).unwrap();
        assert_eq!(breaches, Vec::<String>::new());
    }

    #[test]
    fn a_page_lies_where_the_others_find_it() {
        let page = checkout::root().join("docs/guide/copy.md");
        assert_eq!(misplaced(&page, "usr/share/doc/thalweg/docs/guide/copy.md"), None);
        assert!(misplaced(&page, "usr/share/doc/thalweg/guide/copy.md").is_some());
        assert_eq!(misplaced(&checkout::root().join("packaging/etc/config.toml"), "etc/thalweg/"), None);
    }

    #[test]
    fn a_link_of_an_installed_page_to_what_is_not_installed_is_a_breach() {
        let installed = ["usr/share/doc/thalweg/docs/a.md", "usr/share/doc/thalweg/examples/run/run.py"];
        let installed = BTreeSet::from(installed.map(str::to_owned));
        let lost = |text: &str| lost("usr/share/doc/thalweg/docs/guide/b.md", text, &installed).len();
        assert_eq!(lost("[a](../a.md#x) [b](https://c.d) [e](#f)\n[g](../../examples/run/run.py)"), 0);
        assert_eq!(lost("[a](../../examples/run) [b](../../examples/)"), 0);
        assert_eq!(
            lost("[a](../../bench/results/a.jsonl) [b](../../../thalweg/docs/c.md) [d](../../exam)"),
            3
        );
    }

    #[test]
    fn what_is_configured_stays_as_its_owner_changed_it() {
        let installed = BTreeSet::from(["etc/thalweg/config.toml", "usr/bin/thalweg"].map(str::to_owned));
        let wrong = |kept: &[&str]| {
            let kept: Vec<String> = kept.iter().map(|&file| file.to_owned()).collect();
            not_kept(&installed, &kept).len()
        };
        assert_eq!(wrong(&["etc/thalweg/config.toml"]), 0);
        assert_eq!(wrong(&[]), 1);
        assert_eq!(wrong(&["etc/thalweg/config.toml", "etc/thalweg/gone.toml"]), 1);
    }

    #[test]
    fn a_program_that_a_unit_starts_and_nobody_installs_is_named() {
        let installed = BTreeSet::from(["usr/bin/thalweg".to_owned()]);
        let unit = "[Service]\nExecStart=/usr/bin/thalweg serve\nExecStart=/usr/local/bin/thalweg gc\n";
        assert_eq!(not_installed(unit, &installed).collect::<Vec<_>>(), ["/usr/local/bin/thalweg"]);
    }
}
