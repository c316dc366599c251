//! Which disks a file lies on, as far as the kernel tells everybody: nothing here needs a privilege.
//!
//! 1. What is mounted: a block device, by its number; of btrfs, whose number is of none, all devices that it has.
//! 2. From each of them down, through what it is made of (LVM, md, dm-crypt), to what is made of nothing.
//! 3. A partition is the disk that it is of. Several paths to one disk (dm-multipath) are one disk.
//!
//! Not seen: what a disk is inside (a RAID controller, the file of a loop device), and what a file system has beside
//! what is mounted (a journal elsewhere, the real-time device of XFS, further devices of f2fs).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{File, host, uninterrupted};

/// How deep devices are made of others: LVM over dm-crypt over md over partitions is 4.
const DEPTH_MAX: usize = 16;
/// Devices that are looked at for one file, and entries of a directory.
const DEVICES_MAX: usize = 1024;
const ENTRIES_MAX: usize = 1024;

/// `BTRFS_SUPER_MAGIC` of `linux/magic.h`.
const BTRFS: u64 = 0x9123_683e;

/// The disks that the file system of a file lies on, each once, by the names that the kernel gives them (`sda`), in
/// alphabetical order. One that is a single disk is a list of one.
///
/// `None` where that cannot be found out, or not all of it: no block device (tmpfs, NFS, overlayfs), a `/sys` that is
/// not there, more than is looked at. Reads a few small files for each device.
pub fn of(file: &File) -> Option<Vec<String>> {
    below(Path::new("/sys"), mounted(file).ok()??)
}

/// What a file system is mounted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mounted {
    /// A block device, by its major and minor number.
    Device(u32, u32),
    /// A btrfs, by the number that a subvolume gives (`f_fsid`), its first word on top.
    Btrfs(u64),
}

fn mounted(file: &File) -> io::Result<Option<Mounted>> {
    let (major, minor) = host::device_numbers(file.stat()?.device);
    if major > 0 {
        return Ok(Some(Mounted::Device(major, minor)));
    }
    // The number has 32 bits; a sign from the field's width is not part of it.
    let magic = uninterrupted(|| rustix::fs::fstatfs(file))?.f_type as u64 & 0xffff_ffff;
    if magic != BTRFS {
        return Ok(None);
    }
    let fsid = uninterrupted(|| rustix::fs::fstatvfs(file))?.f_fsid;
    Ok(Some(Mounted::Btrfs(fsid.rotate_left(32))))
}

/// The same, with `sys` for `/sys`.
fn below(sys: &Path, mounted: Mounted) -> Option<Vec<String>> {
    let devices = match mounted {
        Mounted::Device(major, minor) => vec![sys.join(format!("dev/block/{major}:{minor}"))],
        Mounted::Btrfs(fsid) => devices_of_btrfs(sys, fsid)?,
    };
    let mut found = Found::default();
    for device in &devices {
        found.go_down(device, DEPTH_MAX)?;
    }
    Some(found.disks.into_iter().collect())
}

#[derive(Default)]
struct Found {
    disks: BTreeSet<String>,
    /// Devices that were looked at.
    looks: usize,
}

impl Found {
    /// Adds the disks below a device, whose directory this is or leads to. `None` where they cannot be found out.
    fn go_down(&mut self, device: &Path, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.looks += 1;
        if self.looks > DEVICES_MAX {
            return None;
        }
        let mut disk = fs::canonicalize(device).ok()?;
        // The directory of a partition is in that of its disk.
        if disk.join("partition").exists() {
            disk.pop();
        }
        let mut parts = if is_multipath(&disk) { Vec::new() } else { entries(&disk.join("slaves"))? };
        parts.retain(|part| !is_idle(&disk, part));
        if parts.is_empty() {
            let name = disk.file_name()?.to_str()?;
            // It is shown to people.
            return name.bytes().all(|byte| byte.is_ascii_graphic()).then(|| {
                self.disks.insert(name.to_owned());
            });
        }
        parts.iter().try_for_each(|part| self.go_down(part, depth))
    }
}

/// Whether a device is made of several paths to one disk.
fn is_multipath(device: &Path) -> bool {
    text(&device.join("dm/uuid")).starts_with("mpath-")
}

/// Whether a part of an md array has none of its content: a spare one, one that failed, a journal.
fn is_idle(array: &Path, part: &Path) -> bool {
    let name = part.file_name().unwrap_or_default().to_string_lossy();
    let state = text(&array.join(format!("md/dev-{name}/state")));
    state.split(',').any(|word| matches!(word, "spare" | "faulty" | "journal"))
}

/// The devices of the btrfs that has a subvolume with this number.
///
/// Its `st_dev` is of no device, and another one than that of its mounts. But the number is made of the file system's
/// UUID, by which `/sys` has its directory, and of the subvolume's own number (`btrfs_statfs`): that is what is left of
/// it beside the right UUID. Beside a wrong one it has 64 bits by chance, and is hardly a number of a subvolume.
fn devices_of_btrfs(sys: &Path, fsid: u64) -> Option<Vec<PathBuf>> {
    let mut file_systems = entries(&sys.join("fs/btrfs"))?;
    file_systems.retain(|own| {
        let folded = own.file_name().and_then(OsStr::to_str).and_then(folded);
        folded.is_some_and(|folded| is_subvolume(folded ^ fsid))
    });
    let [one] = &file_systems[..] else { return None };
    entries(&one.join("devices")).filter(|devices| !devices.is_empty())
}

/// Both halves of a UUID over each other. `None` for what is none.
fn folded(uuid: &str) -> Option<u64> {
    let digits: String = uuid.chars().filter(|digit| *digit != '-').collect();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid)?;
    Some((number >> 64) as u64 ^ number as u64)
}

/// Whether a subvolume may have this number: that of the first one, or one that was given out since.
fn is_subvolume(number: u64) -> bool {
    number == 5 || (256..1 << 32).contains(&number)
}

/// What is in a directory; nothing where there is none. `None` where that cannot be read, or is too much.
fn entries(directory: &Path) -> Option<Vec<PathBuf>> {
    let listed = match fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        Err(_) => return None,
    };
    let found: Option<Vec<PathBuf>> =
        listed.take(ENTRIES_MAX + 1).map(|entry| Some(entry.ok()?.path())).collect();
    found.filter(|found| found.len() <= ENTRIES_MAX)
}

/// What a small file says; nothing where there is none.
fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dir;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A `/sys` made of files.
    struct Tree(TempDir);

    impl Tree {
        fn new() -> Tree {
            Tree(tempfile::tempdir().unwrap())
        }

        /// A device with this number, made of others: `sda`, or its partition `sda/sda1`.
        fn device(&self, device: &str, number: &str, parts: &[&str]) {
            let own = self.of(device);
            fs::create_dir_all(own.join("slaves")).unwrap();
            if device.contains('/') {
                fs::write(own.join("partition"), "1\n").unwrap();
            }
            self.link(&own, &format!("dev/block/{number}"));
            for part in parts {
                let part = self.of(part);
                symlink(&part, own.join("slaves").join(part.file_name().unwrap())).unwrap();
            }
        }

        fn of(&self, device: &str) -> PathBuf {
            self.0.path().join("devices").join(device)
        }

        fn link(&self, to: &Path, name: &str) {
            let name = self.0.path().join(name);
            fs::create_dir_all(name.parent().unwrap()).unwrap();
            symlink(to, name).unwrap();
        }

        /// A file in the directory of a device.
        fn put(&self, device: &str, name: &str, text: &str) {
            let file = self.of(device).join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }

        /// A btrfs on these devices.
        fn btrfs(&self, uuid: &str, devices: &[&str]) {
            fs::create_dir_all(self.0.path().join("fs/btrfs/features")).unwrap();
            for device in devices {
                let own = self.of(device);
                let name = own.file_name().unwrap().to_str().unwrap();
                self.link(&own, &format!("fs/btrfs/{uuid}/devices/{name}"));
            }
        }

        fn below(&self, mounted: Mounted) -> Option<Vec<String>> {
            below(self.0.path(), mounted)
        }
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// LVM over md over partitions, and a partition of the array.
    #[test]
    fn of_what_is_made_of_others_the_disks_are_told_each_once() {
        let tree = Tree::new();
        for (device, number) in
            [("sda", "8:0"), ("sda/sda1", "8:1"), ("sda/sda2", "8:2"), ("sdb", "8:16"), ("sdb/sdb1", "8:17")]
        {
            tree.device(device, number, &[]);
        }
        tree.device("sdc", "8:32", &[]);
        tree.device("md0", "9:0", &["sda/sda1", "sdb/sdb1", "sdc"]);
        tree.put("md0", "md/dev-sda1/state", "in_sync");
        tree.put("md0", "md/dev-sdb1/state", "in_sync,write_mostly");
        tree.put("md0", "md/dev-sdc/state", "spare");
        tree.device("md0/md0p1", "259:0", &[]);
        tree.device("dm-0", "253:0", &["md0", "sda/sda2"]);
        tree.put("dm-0", "dm/uuid", "LVM-abc");
        for (mounted, disks) in [
            ((8, 0), &["sda"][..]),
            ((8, 2), &["sda"]),
            ((9, 0), &["sda", "sdb"]),
            ((259, 0), &["sda", "sdb"]),
            ((253, 0), &["sda", "sdb"]),
        ] {
            assert_eq!(tree.below(Mounted::Device(mounted.0, mounted.1)), names(disks), "{mounted:?}");
        }
    }

    #[test]
    fn several_paths_to_a_disk_are_one_disk() {
        let tree = Tree::new();
        tree.device("sda", "8:0", &[]);
        tree.device("sdb", "8:16", &[]);
        tree.device("dm-0", "253:0", &["sda", "sdb"]);
        tree.put("dm-0", "dm/uuid", "mpath-3600a");
        // A partition of it.
        tree.device("dm-1", "253:1", &["dm-0"]);
        tree.put("dm-1", "dm/uuid", "part1-mpath-3600a");
        assert_eq!(tree.below(Mounted::Device(253, 1)), names(&["dm-0"]));
    }

    #[test]
    fn a_btrfs_is_found_by_the_number_of_any_of_its_subvolumes() {
        let tree = Tree::new();
        tree.device("loop0", "7:0", &[]);
        tree.device("sda", "8:0", &[]);
        tree.device("sda/sda1", "8:1", &[]);
        tree.btrfs("01234567-89ab-cdef-0011-223344556677", &["loop0", "sda/sda1"]);
        tree.btrfs("76543210-89ab-cdef-0011-223344556677", &["sda/sda1"]);
        // By hand: 01234567 ^ 00112233, 89abcdef ^ 44556677, and the subvolume's number over it.
        for (fsid, disks) in [
            (0x0132_6754_cdfe_ab98 ^ 5, names(&["loop0", "sda"])),
            (0x0132_6754_cdfe_aa98, names(&["loop0", "sda"])),
            (0x7645_1023_cdfe_aa98, names(&["sda"])),
            (0x0132_6754_cdfe_ab98 ^ 6, None),
            (0x0132_6755_cdfe_aa98, None),
            (0, None),
        ] {
            assert_eq!(tree.below(Mounted::Btrfs(fsid)), disks, "{fsid:x}");
        }
    }

    #[test]
    fn what_cannot_be_found_out_is_not_told() {
        let tree = Tree::new();
        assert_eq!(tree.below(Mounted::Device(8, 0)), None);
        assert_eq!(tree.below(Mounted::Btrfs(5)), None);
        // Each is made of the other.
        tree.device("dm-0", "253:0", &["dm-1"]);
        tree.device("dm-1", "253:1", &["dm-0"]);
        assert_eq!(tree.below(Mounted::Device(253, 0)), None);
        // One of its disks is hidden.
        tree.device("sda", "8:0", &[]);
        tree.device("md0", "9:0", &["sda", "sdb"]);
        assert_eq!(tree.below(Mounted::Device(9, 0)), None);
        // More than is looked at.
        let many: Vec<String> = (0..=ENTRIES_MAX).map(|number| format!("d{number}")).collect();
        tree.device("md1", "9:1", &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(tree.below(Mounted::Device(9, 1)), None);
    }

    #[test]
    fn where_the_disks_of_this_machine_are_told_there_are_some() {
        let scratch = tempfile::tempdir().unwrap();
        let file = Dir::open(scratch.path()).unwrap().create_new(b"x", 0o600).unwrap();
        assert!(of(&file).is_none_or(|disks| !disks.is_empty()));
    }
}
