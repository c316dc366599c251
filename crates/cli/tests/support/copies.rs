//! Copies that take a while, and eyes on what they make visible.

use super::job::with;
use super::{Scratch, facts, noise};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const CHUNK_BYTES: u64 = 1 << 20;
pub const STREAMS: u64 = 2;
pub const LARGE_FILES: u64 = 4;
pub const LARGE_BYTES: u64 = 20 << 20;
/// Nothing here takes so long, unless it hangs.
pub const LIMIT: Duration = Duration::from_secs(180);

/// A few files of many chunks, many of less than one.
pub fn make_source(root: &Path) -> u64 {
    std::fs::create_dir_all(root.join("below")).unwrap();
    let mut bytes = 0;
    for i in 0..LARGE_FILES {
        let content = noise(7000 + i, (LARGE_BYTES + i * 777) as usize);
        bytes += content.len() as u64;
        std::fs::write(root.join(format!("below/large-{i}")), content).unwrap();
    }
    for i in 0..200u64 {
        let content = noise(i, (i * 41 % 8000) as usize);
        bytes += content.len() as u64;
        std::fs::write(root.join(format!("small-{i}")), content).unwrap();
    }
    bytes
}

/// A small tree, so that a copy of it makes each system call a few times and is over soon.
pub fn make_small_source(root: &Path) {
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::fs::write(root.join("a/large"), noise(1, (5 << 20) + 99)).unwrap();
    std::fs::write(root.join("a/b/large-too"), noise(2, 3 << 20)).unwrap();
    for i in 0..12u64 {
        std::fs::write(root.join(format!("a/small-{i}")), noise(i, 1500 * i as usize)).unwrap();
    }
    std::os::unix::fs::symlink("large", root.join("a/link")).unwrap();
    std::fs::hard_link(root.join("a/large"), root.join("a/b/second-name")).unwrap();
}

/// Contents of the source by path.
pub fn digests(root: &Path) -> BTreeMap<PathBuf, blake3::Hash> {
    let paths = facts(root).into_keys().map(|name| PathBuf::from(String::from_utf8(name).unwrap()));
    paths
        .filter(|path| root.join(path).is_file())
        .map(|path| (path.clone(), blake3::hash(&std::fs::read(root.join(path)).unwrap())))
        .collect()
}

/// What is wrong with names that are visible below `to`: every one must have its whole content.
pub fn wrong_names(
    to: &Path,
    expected: &BTreeMap<PathBuf, blake3::Hash>,
    seen: &mut BTreeMap<PathBuf, u64>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, digest) in expected {
        let path = to.join(path);
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        // Content under a name never changes, so each inode is read once.
        if seen.get(&path) == Some(&meta.ino()) {
            continue;
        }
        if let Ok(content) = std::fs::read(&path) {
            if blake3::hash(&content) != *digest {
                wrong.push(format!("{} with {} bytes", path.display(), content.len()));
            }
            seen.insert(path, meta.ino());
        }
    }
    wrong
}

/// Looks at final names all the time.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    wrong: Arc<Mutex<Vec<String>>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watcher {
    pub fn start(to: &Path, expected: &BTreeMap<PathBuf, blake3::Hash>) -> Watcher {
        let (to, expected) = (to.to_owned(), expected.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let (stopped, found) = (stop.clone(), wrong.clone());
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                found.lock().unwrap().extend(wrong_names(&to, &expected, &mut seen));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Watcher { stop, wrong, thread: Some(thread) }
    }

    pub fn end(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        std::mem::take(&mut *self.wrong.lock().unwrap())
    }
}

/// Options of every copy here. What an io_uring writes is neither slowed by strace nor counted by /proc/PID/io; copies
/// with one are killed in `direct.rs`.
pub const OPTIONS: [&str; 8] =
    ["cp", "--json", "--quiet", "--chunk", "1MiB", "--streams", "2", "--no-io-uring"];

pub fn local_copy(scratch: &Scratch, to: &Path) -> Command {
    with(with(scratch.thalweg(), OPTIONS), [scratch.path("from/"), to.to_owned()])
}

pub fn push(scratch: &Scratch, place: &str) -> Command {
    let command = with(with(scratch.thalweg(), OPTIONS), ["--ticket"]);
    with(with(with(command, [scratch.path("ticket")]), [scratch.path("from/")]), [place])
}

pub fn pull(scratch: &Scratch, place: &str, to: &Path) -> Command {
    let command = with(with(scratch.thalweg(), OPTIONS), ["--ticket"]);
    with(with(with(command, [scratch.path("ticket")]), [place]), [to])
}
