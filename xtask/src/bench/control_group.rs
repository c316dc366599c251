//! Control groups: CPU time of all processes of both sides, disks that are slow for some of them, and a bound on
//! memory.

use crate::command;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use thalweg_lab::wrap::wrap;

/// A control group whose CPU time is counted, children and grandchildren included.
pub struct Group {
    directory: PathBuf,
    is_v1: bool,
}

impl Group {
    /// Makes it.
    ///
    /// # Errors
    /// Without the right to (root).
    pub fn new() -> Result<Group> {
        Group::named("")
    }

    /// A further one beside it, told from it by the end of its name.
    ///
    /// # Errors
    /// As [`Group::new`].
    pub fn named(end: &str) -> Result<Group> {
        let name = format!("thalweg-bench-{}{end}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpuacct");
        let (parent, is_v1) = if v1.is_dir() { (v1, true) } else { (Path::new("/sys/fs/cgroup"), false) };
        let directory = parent.join(name);
        make(&directory).context("making a control group to count CPU time (needs root)")?;
        Ok(Group { directory, is_v1 })
    }

    /// The command, in the group with all its children from the beginning.
    pub fn enter(&self, command: Command) -> Command {
        enter(&self.directory, &command)
    }

    /// CPU time of all of them so far, user and system.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn cpu(&self) -> Result<Duration> {
        if self.is_v1 {
            let nanos: u64 = fs::read_to_string(self.directory.join("cpuacct.usage"))?.trim().parse()?;
            return Ok(Duration::from_nanos(nanos));
        }
        let stat = fs::read_to_string(self.directory.join("cpu.stat"))?;
        let usage = stat.lines().find_map(|line| line.strip_prefix("usage_usec ")).context("cpu.stat")?;
        Ok(Duration::from_micros(usage.parse()?))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Which way a [`SlowDisk`] is slow.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Read,
    Write,
}

/// A disk that is slow for the processes in it. With the kernel's first version of control groups that is true of what
/// they read, write directly or sync themselves, not of what the kernel writes back on its own.
pub struct SlowDisk {
    directory: PathBuf,
}

impl SlowDisk {
    /// Of the disk on which `path` is.
    ///
    /// # Errors
    /// Without the right to, or where the kernel has no first version of `blkio`.
    pub fn new(path: &Path, way: Way, bytes_per_s: u64) -> Result<SlowDisk> {
        let parent = Path::new("/sys/fs/cgroup/blkio");
        ensure!(parent.is_dir(), "the kernel has no control groups for disks of the first version");
        let directory = parent.join(format!("thalweg-bench-{}-{way:?}", std::process::id()));
        let findmnt = command::says(Command::new("findmnt").args(["-n", "-o", "MAJ:MIN", "-T"]).arg(path))?;
        // A partition is slowed with its disk.
        let block = Path::new("/sys/dev/block").join(&findmnt);
        let device = match block.join("partition").exists() {
            true => fs::read_to_string(block.join("../dev"))?.trim().to_owned(),
            false => findmnt,
        };
        make(&directory)?;
        let slow = SlowDisk { directory };
        let file = match way {
            Way::Read => "blkio.throttle.read_bps_device",
            Way::Write => "blkio.throttle.write_bps_device",
        };
        fs::write(slow.directory.join(file), format!("{device} {bytes_per_s}"))
            .with_context(|| format!("slowing the disk {device}"))?;
        Ok(slow)
    }

    /// The command, for which the disk is slow, with all its children.
    pub fn enter(&self, command: Command) -> Command {
        enter(&self.directory, &command)
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// So much memory, page cache included, for all processes in it together: a smaller machine. What they are the first to
/// read into the page cache counts as theirs.
pub struct Memory {
    directory: PathBuf,
}

impl Memory {
    /// Makes it.
    ///
    /// # Errors
    /// Without the right to, or where no control group bounds memory.
    pub fn of(bytes: u64) -> Result<Memory> {
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (parent, file) = match v1.is_dir() {
            true => (v1, "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup"), "memory.max"),
        };
        let directory = parent.join(format!("thalweg-bench-{}-memory", std::process::id()));
        make(&directory).context("making a control group to bound memory")?;
        let memory = Memory { directory };
        let bounded = fs::write(memory.directory.join(file), bytes.to_string());
        bounded.context("bounding the memory of a control group")?;
        Ok(memory)
    }

    /// The command, in that memory with all its children.
    pub fn enter(&self, command: Command) -> Command {
        enter(&self.directory, &command)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Through a shell that enters the group and becomes the program: no child escapes.
fn enter(directory: &Path, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(directory.join("cgroup.procs"));
    wrap(shell, command)
}

/// One of this name is left by what went before in this process, or by a maker of the same number that was killed.
fn make(directory: &Path) -> std::io::Result<()> {
    if directory.exists() {
        remove(directory);
    }
    fs::create_dir(directory)
}

/// Its processes were asked to end before, and the kernel needs a moment to notice. What a server left behind and never
/// asked is ended here: only this process puts anybody into it.
fn remove(directory: &Path) {
    for turn in 0..100 {
        if fs::remove_dir(directory).is_ok() {
            return;
        }
        if turn >= 50 {
            end_all(directory);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn end_all(directory: &Path) {
    let inside = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    // One of another pid namespace is listed as 0, which would be ourselves.
    for process in inside.lines().filter(|process| *process != "0") {
        let _ = Command::new("kill").args(["-KILL", process]).status();
    }
}
