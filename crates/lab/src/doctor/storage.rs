//! File systems and disks of the paths that were asked about.

use super::device;
use super::finding::{Finding, Subject};
use super::measure::{DISK_TIME_MIN, DiskSpeed, IN_FLIGHT, Probes};
use super::memory::chosen;
use super::roots::{Roots, read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_mover::failure::shown_path;

/// Where a path is mounted (`proc_pid_mountinfo(5)`).
struct Mount {
    device: String,
    point: String,
    options: String,
    kind: String,
    source: String,
}

/// Everything about these paths, which are absolute and without links.
pub fn findings(roots: &Roots, probes: &Probes, paths: &[PathBuf]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mounts = read(&roots.proc.join("self/mountinfo"));
    for path in paths {
        match &mounts {
            Ok(text) => match mount_of(text, path) {
                Some(mount) => described(roots, path, &mount, &mut found),
                None => found.push(Finding::unseen(Subject::Storage, shown(path), "no mount holds it")),
            },
            Err(why) => found.push(Finding::unseen(Subject::Storage, shown(path), why)),
        }
        match probes.disks.get(path) {
            Some(Ok(speed)) => measured(roots, path, speed, &mut found),
            Some(Err(why)) => {
                let why = format!("could not be measured: {why}");
                found.push(Finding::unseen(Subject::Storage, format!("{} speed", shown(path)), why));
            }
            None => found.push(Finding::unseen(
                Subject::Storage,
                format!("{} speed", shown(path)),
                "not measured",
            )),
        }
    }
    found
}

/// A path as a sentence has it: inert on a terminal.
pub(super) fn shown(path: &Path) -> String {
    shown_path(path.as_os_str().as_encoded_bytes())
}

/// The mount that a path is in: the one with the longest point, the last of equals since it hides the others.
fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(parse);
    mounts.filter(|mount| path.starts_with(&mount.point)).max_by_key(|mount| mount.point.len())
}

fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let before: Vec<&str> = before.split(' ').collect();
    let mut after = after.split(' ');
    let (kind, source, of_all) = (after.next()?, after.next()?, after.next().unwrap_or(""));
    Some(Mount {
        device: (*before.get(2)?).to_owned(),
        // White space and backslashes stand as octal numbers.
        point: before.get(4)?.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"),
        options: each_once(before.get(5)?.split(',').chain(of_all.split(','))),
        kind: kind.to_owned(),
        source: source.to_owned(),
    })
}

/// Options of the mount and of all of its file system: both say `rw`, and often more of the same.
fn each_once<'a>(options: impl Iterator<Item = &'a str>) -> String {
    let mut once = Vec::new();
    for option in options.filter(|option| !option.is_empty()) {
        if !once.contains(&option) {
            once.push(option);
        }
    }
    once.join(",")
}

fn described(roots: &Roots, path: &Path, mount: &Mount, found: &mut Vec<Finding>) {
    let name = |what: &str| format!("{} {what}", shown(path));
    found.push(Finding::told(
        Subject::Storage,
        name("file system"),
        format!("{} on {}, mounted at {}", mount.kind, mount.source, mount.point),
        match mount.kind.as_str() {
            "ext4" | "xfs" => "large files are read and written past the page cache",
            "tmpfs" => "memory: nothing here outlives a power cut",
            "overlay" => "layers of a container: mount a volume for data",
            kind if kind.starts_with("nfs") || kind.starts_with("fuse") => {
                "another machine or program decides how fast it is"
            }
            _ => "written through the page cache, uncached where the kernel can",
        },
    ));
    let options: Vec<&str> = mount.options.split(',').collect();
    let slow: Vec<&str> =
        ["sync", "dirsync", "strictatime"].into_iter().filter(|option| options.contains(option)).collect();
    found.push(
        Finding::told(
            Subject::Storage,
            name("mount options"),
            &mount.options,
            "sync and dirsync make each write wait for the disk, strictatime makes each read a write",
        )
        .wanted("none of sync, dirsync, strictatime", slow.is_empty(), "mount(8)")
        .scoped("every program that uses this mount")
        .remedied(
            format!("mount -o remount,async,relatime {}, and /etc/fstab", mount.point),
            format!("mount -o remount,{} {}", slow.join(","), mount.point),
        ),
    );
    let device = roots.sys.join("dev/block").join(&mount.device);
    // A partition has no queue; its disk, the directory above, has.
    for queue in [device.join("queue"), device.join("../queue")] {
        let Ok(scheduler) = read(&queue.join("scheduler")) else { continue };
        let kind = match read(&queue.join("rotational")).as_deref() {
            Ok("1") => "turns",
            Ok(_) => "does not turn",
            Err(_) => "may turn or not",
        };
        let ahead = read(&queue.join("read_ahead_kb")).unwrap_or_else(|_| "?".into());
        found.push(Finding::told(
            Subject::Storage,
            name("disk"),
            format!("{kind}, scheduler {}, read-ahead {ahead} KiB", chosen(&scheduler)),
            "a disk that turns wants requests in order (--order layout)",
        ));
        return;
    }
}

fn measured(roots: &Roots, path: &Path, speed: &DiskSpeed, found: &mut Vec<Finding>) {
    let name = |what: &str| format!("{} {what}", shown(path));
    let gbit =
        |bytes_per_s: f64| format!("{:.2} Gbit/s ({:.0} MB/s)", bytes_per_s * 8.0 / 1e9, bytes_per_s / 1e6);
    let line = device::line_rate_bits_per_s(roots);
    let mut rate = |what: &str, bytes_per_s: f64, time: Duration, why: &str| {
        let finding =
            Finding::told(Subject::Storage, name(what), gbit(bytes_per_s), why).scoped("this file system");
        found.push(match line {
            Some(_) if time < DISK_TIME_MIN => {
                let ms = time.as_secs_f64() * 1e3;
                let why = format!("{why}; for {ms:.0} ms only, which is not enough to judge: free some room");
                Finding { why, ..finding }
            }
            Some(line) => finding.wanted(
                format!("above the line's {} Gbit/s", line as f64 / 1e9),
                bytes_per_s * 8.0 > line as f64,
                "000 section III-D",
            ),
            None => finding,
        });
    };
    let measured = format!("measured: {IN_FLIGHT} requests of 1 MiB in flight");
    rate("write", speed.write_bytes_per_s, speed.write_time, &format!("{measured}, and synced"));
    if let Some(bytes_per_s) = speed.read_bytes_per_s {
        rate("read", bytes_per_s, speed.read_time, &format!("{measured}, past the page cache"));
    } else {
        let why = "the page cache cannot be passed by here, so it would be memory that is measured";
        found.push(Finding::unseen(Subject::Storage, name("read"), why));
    }
    let why = "measured: 1 MiB, then the next, and synced; so write programs that keep none in flight";
    let one =
        Finding::told(Subject::Storage, name("write, one at a time"), gbit(speed.write_one_bytes_per_s), why);
    found.push(one.scoped("this file system"));
    let ms = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    if let Some(latency) = speed.read_latency {
        let why = "measured: median of 4 KiB reads at random; latency undoes concurrency (000 section III-D)";
        found.push(Finding::told(Subject::Storage, name("read latency"), ms(latency), why));
    }
    let why = "measured: median of 4 KiB writes, each synced";
    found.push(Finding::told(Subject::Storage, name("sync latency"), ms(speed.sync_latency), why));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n\
        30 22 259:9 / /data rw,noatime - xfs /dev/nvme1n1 rw,logbufs=8\n\
        31 22 0:40 / /data\\040sets rw - nfs4 filer:/sets rw,vers=4.2\n\
        32 22 0:41 / /data rw,noatime - xfs /dev/nvme2n1 rw";

    #[test]
    fn the_last_mount_with_the_longest_point_holds_a_path() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).map(|mount| mount.source).unwrap_or_default();
        assert_eq!(of("/data/run7"), "/dev/nvme2n1");
        assert_eq!(of("/data sets/a"), "filer:/sets");
        assert_eq!(of("/database"), "/dev/nvme0n1p2");
    }
}
