//! What the page cache has of a file.

use std::path::Path;
use std::process::Command;

/// Bytes of a file that are in the page cache; `None` where no program tells.
pub fn cached_bytes(path: &Path) -> Option<u64> {
    let told =
        Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
    String::from_utf8(told.ok()?.stdout).ok()?.trim().parse().ok()
}

/// Has the page cache forget it.
pub fn forget_cached(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    let held = thalweg_sys::Dir::open(path.parent().unwrap()).unwrap();
    let name = path.file_name().unwrap().as_encoded_bytes();
    held.open_read(name).unwrap().advise(thalweg_sys::Advice::DontNeed, 0, 0).unwrap();
}
