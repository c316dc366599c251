//! `thalweg watch`: each item arrives and is analysed once, in order if asked, whoever is killed.
//!
//! `THALWEG_TORTURE=1` runs the long forms, `THALWEG_SEED` repeats a run.

#[path = "../support/mod.rs"]
mod support;

// Others need more of it.
#[allow(dead_code)]
#[path = "../support/sshd.rs"]
mod sshd;

// From its arrival to its results.
mod arriving;

// What the command is told of an item.
mod told;

// What is noted of items.
mod noted;

// Markers, which say that an item is complete.
mod markers;

// Which item is next.
mod order;

// Commands that fail, outlive their watch, or leave something behind.
mod commands;

// Results that cannot be sent back.
mod results;

// Places that are far, full, or not there.
mod places;

// Watches, keepers and links that go at any moment.
mod kills;

// What a watch keeps of what is done.
mod journal;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::Scratch;

/// Longest that anything here may take that a program or a disk has to do.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A script that is the analysis: it writes one line for each run that it completes.
pub fn analysis(scratch: &Scratch, body: &str) -> PathBuf {
    let path = scratch.path("analysis.sh");
    std::fs::write(&path, format!("#!/bin/sh\nset -e\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// One line in the log: a single write of a short line to a file opened for appending.
pub const LOG: &str = r#"printf '%s %s\n' "$THALWEG_ITEM_NAME" "$THALWEG_ITEM_KEY" >> "$LOG""#;

/// What is watched, and where it goes.
pub struct Bench {
    /// All of it is below this.
    pub scratch: Scratch,
    /// The directory that is watched.
    pub source: PathBuf,
    /// Where items arrive; not made.
    pub destination: PathBuf,
}

impl Bench {
    /// With an empty source.
    fn new() -> Bench {
        let scratch = Scratch::new();
        let (source, destination) = (scratch.path("in"), scratch.path("out"));
        std::fs::create_dir(&source).unwrap();
        Bench { scratch, source, destination }
    }

    /// `thalweg watch`, from any place to any: a file is complete when it rests.
    pub fn watch(&self, source: &str, destination: &str, more: &[&str]) -> Command {
        let mut command = self.scratch.thalweg();
        command.args(["watch", source, destination, "--stable", "100ms", "--look-every", "100ms"]).args(more);
        command.env("LOG", self.scratch.path("log"));
        command
    }

    /// From the source to the destination: a file is complete when it has its marker.
    pub fn by_markers(&self, more: &[&str]) -> Command {
        let mut command = self.scratch.thalweg();
        command.arg("watch").args([&self.source, &self.destination]);
        command.args(["--marker", ".done", "--look-every", "100ms"]).args(more);
        command.env("LOG", self.scratch.path("log"));
        command
    }

    /// From the source to the destination: a file is complete when it rests.
    pub fn local(&self, more: &[&str]) -> Command {
        self.watch(self.source.to_str().unwrap(), self.destination.to_str().unwrap(), more)
    }

    /// What was analysed, in order.
    pub fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.scratch.path("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A file of the source, which has its name once it is whole.
    pub fn put(&self, name: &str, content: &[u8]) {
        let path = self.source.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let hidden = path.with_file_name(".being-written");
        std::fs::write(&hidden, content).unwrap();
        std::fs::rename(hidden, path).unwrap();
    }
}

/// Starts it; nobody hears what it says.
pub fn start(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Asks it to end.
pub fn terminate(child: &Child) {
    use nix::sys::signal::{Signal, kill};
    kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
}

/// Its exit code, and all that it said.
pub fn ends(mut command: Command) -> (Option<i32>, String) {
    let output = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = support::finish(output.unwrap());
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Files of these names are the same in both directories.
pub fn arrived_whole(source: &Path, destination: &Path, names: &[String]) {
    for name in names {
        let (left, right) = (source.join(name), destination.join(name));
        assert_eq!(std::fs::read(left).unwrap(), std::fs::read(right).unwrap(), "{name}");
    }
}

/// What a watch told with `--json`: when an item was done, and which.
pub fn items_done(said: &[(Instant, String)]) -> Vec<(Instant, String)> {
    let done = |(at, line): &(Instant, String)| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["event"] == "item-done").then_some((*at, event["path"].as_str()?.to_owned()))
    };
    said.iter().filter_map(done).collect()
}

/// Guards and keepers of commands whose records are below this directory: process and record.
pub fn keepers(below: &Path) -> Vec<(i32, String)> {
    let below = format!("{}/", below.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = words.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        if words.nth(1).as_deref() == Some("keep-run")
            && let Some(record) = words.find(|word| word.starts_with(&below) && word.contains("/runs/"))
        {
            found.push((pid, record));
        }
    }
    found
}
