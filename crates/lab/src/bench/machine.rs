//! What a suite runs on, for its result file.

use super::record;
use crate::doctor::machine::Machine;
use crate::doctor::roots::{Roots, read};
use std::path::Path;

/// This machine, with the file system of `directory`.
pub fn here(directory: &Path) -> record::Machine {
    let roots = Roots::below(Path::new("/"));
    let machine = Machine::of(&roots);
    let proc = |name: &str| read(&roots.proc.join(name)).unwrap_or_default();
    let memory = proc("meminfo");
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let hypervisor = machine.hypervisor().map(str::to_owned);
    record::Machine {
        cpu: machine.cpu_model,
        cores: u32::try_from(thalweg_sys::machine::cores()).unwrap_or(u32::MAX),
        memory_bytes: kib.map_or(0, |kib: u64| kib << 10),
        kernel: format!("{} {}", proc("sys/kernel/ostype"), proc("sys/kernel/osrelease")),
        file_system: file_system(&proc("self/mountinfo"), directory),
        hypervisor,
        load: proc("loadavg").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0),
    }
}

/// The kind of the mount that is deepest above `directory` (proc(5), mountinfo: the fifth word is where, the one behind
/// the dash what).
fn file_system(mounts: &str, directory: &Path) -> String {
    let Ok(directory) = std::fs::canonicalize(directory) else { return String::new() };
    let deepest = mounts
        .lines()
        .filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            Some((left.split(' ').nth(4)?, right.split(' ').next()?))
        })
        .filter(|(at, _)| directory.starts_with(at))
        .max_by_key(|(at, _)| at.len());
    deepest.map(|(_, kind)| kind.to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_says_which_file_system_it_is() {
        let mounts = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n22 21 0:5 / /proc rw shared:1 - proc proc rw\n";
        assert_eq!(file_system(mounts, Path::new("/proc")), "proc");
        assert_eq!(file_system(mounts, Path::new("/usr")), "ext4");
        assert!(here(Path::new("/")).cores >= 1);
    }
}
