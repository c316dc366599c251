//! The file of sysctl.d and the profile of tuned: where they are, and what stands in them.

use super::{PROFILE, Wanted};
use crate::doctor::finding::Report;
use crate::doctor::roots::Roots;
use crate::doctor::wanted::GOVERNOR;
use std::path::PathBuf;

/// The file of sysctl.d; late, so that it goes over a distribution's own.
pub(super) const SYSCTL_FILE: &str = "90-thalweg.conf";

pub(super) fn sysctl_path(roots: &Roots) -> PathBuf {
    roots.etc.join("sysctl.d").join(SYSCTL_FILE)
}

/// tuned 2.23 looks in `profiles`, older ones beside it.
pub(super) fn profile_path(roots: &Roots) -> PathBuf {
    let tuned = roots.etc.join("tuned");
    let profiles = tuned.join("profiles");
    let place = if profiles.is_dir() { profiles } else { tuned };
    place.join(PROFILE).join("tuned.conf")
}

pub(super) const HEAD: &str =
    "# Written by `thalweg doctor --apply`; `thalweg doctor --undo` takes it back.\n";

pub(super) fn sysctl_text(report: &Report, settings: &[(String, String)]) -> String {
    let mut text = HEAD.to_owned();
    for (key, value) in settings {
        let finding = report.findings.iter().find(|finding| finding.name == *key);
        let source = finding.and_then(|finding| finding.source.as_ref());
        text.push_str(&source.map_or(String::new(), |source| format!("# {source}\n")));
        text.push_str(&format!("{key} = {value}\n"));
    }
    text
}

/// What the profile stands on where tuned had none active.
const PROFILE_BELOW: &str = "throughput-performance";

/// On top of what tuned had active, so that all that is not said here stays.
pub(super) fn profile_text(
    settings: &[(String, String)],
    wanted: &Wanted<'_>,
    active: Option<&str>,
) -> String {
    let active = active.unwrap_or_default().split_whitespace().filter(|name| *name != PROFILE);
    let active = active.collect::<Vec<_>>().join(",");
    let below = if active.is_empty() { PROFILE_BELOW } else { &active };
    let mut text = HEAD.to_owned();
    text.push_str("[main]\nsummary=Data transfer node (000 Tables II and III)\n");
    text.push_str(&format!("include={below}\n\n[sysctl]\n"));
    for (key, value) in settings {
        text.push_str(&format!("{key}={value}\n"));
    }
    if wanted.has_governor {
        text.push_str(&format!("\n{GOVERNOR_SECTION}governor={GOVERNOR}\n"));
    }
    for (device, (receive, send)) in &wanted.rings {
        text.push_str(&format!(
            "\n{}type=net\ndevices={device}\nring=rx {receive} tx {send}\n",
            rings_section(device)
        ));
    }
    text
}

/// The line above the governor.
pub(super) const GOVERNOR_SECTION: &str = "[cpu]\n";

/// The line above the rings of a card.
pub(super) fn rings_section(device: &str) -> String {
    format!("[net_{device}]\n")
}
