//! CPU time of all processes of both sides.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

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
        let name = format!("thalweg-bench-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpuacct");
        let (parent, is_v1) = if v1.is_dir() { (v1, true) } else { (Path::new("/sys/fs/cgroup"), false) };
        let directory = parent.join(name);
        fs::create_dir(&directory).context("making a control group to count CPU time (needs root)")?;
        Ok(Group { directory, is_v1 })
    }

    /// The command, in the group with all its children from the beginning.
    pub fn enter(&self, command: Command) -> Command {
        // Through a shell that enters the group and becomes the program: no child escapes the count.
        let mut wrapped = Command::new("sh");
        wrapped.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.directory.join("cgroup.procs"));
        wrapped.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            if let Some(value) = value {
                wrapped.env(key, value);
            }
        }
        wrapped
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
        // Its processes were ended before; the kernel needs a moment to notice.
        for _ in 0..50 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
