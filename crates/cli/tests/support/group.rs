//! A control group with too little memory.

use super::chance;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use thalweg_lab::wrap::wrap;

/// It goes with the value; its processes must have ended by then.
pub struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// With so many bytes, page cache included; `None`, said aloud, where such groups cannot be made.
    pub fn new(row: &str, bytes: u64) -> Option<MemoryGroup> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (v1, v2) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let (parent, limit) = match v1.is_dir() {
            true => (v1, "memory.limit_in_bytes"),
            false => (v2, "memory.max"),
        };
        let group = MemoryGroup(parent.join(format!("thalweg-test-{}-{number}", std::process::id())));
        let made = std::fs::create_dir(&group.0)
            .and_then(|()| std::fs::write(group.0.join(limit), bytes.to_string()));
        match made {
            Ok(()) => Some(group),
            Err(error) => {
                chance::skipped(row, &format!("no memory control group can be made: {error}"));
                None
            }
        }
    }

    /// The command, in the group from its beginning.
    pub fn around(&self, command: &Command) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.0.join("cgroup.procs"));
        wrap(shell, command)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel needs a moment after the last process ended.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
