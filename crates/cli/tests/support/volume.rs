//! File systems made for a test, on loop devices or in memory, whose power can be cut. They go with the value, also
//! when the test panics.

use super::chance;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A mounted file system of its own.
pub struct Volume {
    pub path: PathBuf,
    pub image: Option<PathBuf>,
    kind: String,
    mounted: bool,
}

/// Whether file systems can be mounted here; tells why not.
pub fn can_mount(row: &str) -> bool {
    let why = if !may_mount() {
        "file systems may not be mounted here"
    } else if !Path::new("/dev/loop-control").exists() {
        "no loop devices"
    } else {
        return true;
    };
    chance::skipped(row, why);
    false
}

/// Whether a file system in memory can be mounted, tried once: root in a container may not.
pub fn may_mount() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let Ok(place) = tempfile::tempdir() else { return false };
        let tried = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(place.path()).output();
        let may = tried.is_ok_and(|out| out.status.success());
        may && Command::new("umount").arg(place.path()).output().is_ok_and(|out| out.status.success())
    })
}

impl Volume {
    /// A loop image of `kind` (`ext4`, `xfs`, `btrfs`) at `directory/name`, mounted at `directory/name.mnt`.
    pub fn new(directory: &Path, name: &str, kind: &str, mebibytes: u64) -> Option<Volume> {
        Volume::with_options(directory, name, kind, mebibytes, &[], "")
    }

    pub fn with_options(
        directory: &Path,
        name: &str,
        kind: &str,
        mebibytes: u64,
        make: &[&str],
        mount: &str,
    ) -> Option<Volume> {
        if !chance::has(&format!("mkfs.{kind}")) {
            chance::skipped(name, &format!("no mkfs.{kind}"));
            return None;
        }
        let image = directory.join(name);
        std::fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let force = if kind == "ext4" { "-F" } else { "-f" };
        let made = Command::new(format!("mkfs.{kind}"))
            .arg("-q")
            .arg(force)
            .args(make)
            .arg(&image)
            .output()
            .unwrap();
        assert!(made.status.success(), "mkfs.{kind}: {}", String::from_utf8_lossy(&made.stderr));
        Some(Volume::mount_image(image, kind, mount))
    }

    /// A btrfs on two loop devices, mounted at `directory/name.mnt`, and the names of these (`loop0`).
    pub fn on_two_devices(directory: &Path, name: &str, mebibytes: u64) -> Option<(Volume, [String; 2])> {
        if !chance::has("mkfs.btrfs") {
            chance::skipped(name, "no mkfs.btrfs");
            return None;
        }
        let image = |which: &str| directory.join(format!("{name}.{which}"));
        let loops = ["one", "other"].map(|which| Loop::of(&image(which), mebibytes));
        let [one, other] = &loops;
        run(Command::new("mkfs.btrfs").args(["-q", "-f", "-d", "raid0", "-m", "raid1", &one.0, &other.0]));
        let path = directory.join(format!("{name}.mnt"));
        std::fs::create_dir_all(&path).unwrap();
        let options = format!("device={}", other.0);
        run(Command::new("mount").args(["-t", "btrfs", "-o", &options, &one.0]).arg(&path));
        let names = [one, other].map(|device| device.0.trim_start_matches("/dev/").to_owned());
        Some((Volume { path, image: None, kind: "btrfs".into(), mounted: true }, names))
    }

    fn mount_image(image: PathBuf, kind: &str, options: &str) -> Volume {
        let path = PathBuf::from(format!("{}.mnt", image.display()));
        Volume::mount_at(image, path, kind, options)
    }

    /// An image of `kind` that was made before, mounted at `path`.
    pub fn mount_at(image: PathBuf, path: PathBuf, kind: &str, options: &str) -> Volume {
        std::fs::create_dir_all(&path).unwrap();
        let options = if options.is_empty() { "loop".to_owned() } else { format!("loop,{options}") };
        // A copy of an image has the same identity as the image.
        let options = if kind == "xfs" { format!("{options},nouuid") } else { options };
        run(Command::new("mount").args(["-t", kind, "-o", &options]).arg(&image).arg(&path));
        Volume { path, image: Some(image), kind: kind.to_owned(), mounted: true }
    }

    /// A file system in memory, with these options (`size=8m,nr_inodes=40`).
    pub fn in_memory(directory: &Path, name: &str, options: &str) -> Volume {
        let path = directory.join(format!("{name}.mnt"));
        std::fs::create_dir_all(&path).unwrap();
        run(Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&path));
        Volume { path, image: None, kind: "tmpfs".into(), mounted: true }
    }

    /// exFAT by FUSE, as memory sticks have it: no owners, modes, links, reservations.
    pub fn exfat(directory: &Path, name: &str, mebibytes: u64) -> Option<Volume> {
        for program in ["mkfs.exfat", "mount.exfat-fuse"] {
            if !chance::has(program) {
                chance::skipped(name, &format!("no {program}"));
                return None;
            }
        }
        let image = directory.join(name);
        std::fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        run(Command::new("mkfs.exfat").arg(&image));
        Some(Volume::mount_image(image, "exfat-fuse", ""))
    }

    /// What is in `below` once more, by FUSE: for a minute the kernel believes what it saw of a file there.
    pub fn by_fuse(directory: &Path, name: &str, below: &Path) -> Option<Volume> {
        if !chance::has("bindfs") || !may_mount() {
            chance::skipped(name, "no bindfs, or file systems may not be mounted here");
            return None;
        }
        let path = directory.join(format!("{name}.mnt"));
        std::fs::create_dir_all(&path).unwrap();
        // Each alone is not heard.
        let keeps = "attr_timeout=60,entry_timeout=60";
        let mounted = Command::new("bindfs").args(["-o", keeps]).arg(below).arg(&path).output().unwrap();
        if !mounted.status.success() {
            chance::skipped(name, &String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(Volume { path, image: None, kind: "fuse.bindfs".into(), mounted: true })
    }

    /// A file or directory that is mounted over another.
    pub fn bound(what: &Path, over: &Path) -> Volume {
        run(Command::new("mount").arg("--bind").arg(what).arg(over));
        Volume { path: over.to_owned(), image: None, kind: "bind".into(), mounted: true }
    }

    pub fn remount(&self, options: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(&self.path));
    }

    /// Cuts the power: nothing that was not synced reaches the image any more. False, with the reason told, where the
    /// file system cannot do that.
    pub fn cut_power(&self, row: &str) -> bool {
        // FS_IOC_SHUTDOWN with NOLOGFLUSH.
        let program = "import fcntl,os,struct,sys\n\
            d=os.open(sys.argv[1],os.O_RDONLY)\n\
            fcntl.ioctl(d,0x8004587d,struct.pack('I',2))";
        let cut = Command::new("python3").args(["-c", program]).arg(&self.path).output();
        match cut {
            Ok(cut) if cut.status.success() => true,
            Ok(cut) => {
                let text = String::from_utf8_lossy(&cut.stderr);
                let why = text.lines().last().unwrap_or("").to_owned();
                chance::skipped(row, &format!("{} cannot be shut down: {why}", self.kind));
                false
            }
            Err(error) => {
                chance::skipped(row, &format!("no python3: {error}"));
                false
            }
        }
    }

    /// What the disk holds after the cut: a copy of the image, mounted at the same place. A copy, because somebody
    /// else's mount name space may pin the dead one.
    pub fn after_the_cut(mut self, name: &str) -> Volume {
        let image = self.image.take().expect("a loop image");
        let copy = image.with_file_name(name);
        run(Command::new("cp").arg("--sparse=always").arg(&image).arg(&copy));
        let (path, kind) = (self.path.clone(), self.kind.clone());
        drop(self);
        let _ = std::fs::remove_file(image);
        Volume::mount_at(copy, path, &kind, "")
    }

    /// Unmounts and mounts it again: only what the disk holds counts.
    pub fn mount_again(&mut self) {
        run(Command::new("umount").arg(&self.path));
        self.mounted = false;
        let options = if self.kind == "xfs" { "loop,nouuid" } else { "loop" };
        let image = self.image.as_ref().expect("a loop image");
        run(Command::new("mount").args(["-t", &self.kind, "-o", options]).arg(image).arg(&self.path));
        self.mounted = true;
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.mounted {
            let gone = Command::new("umount").arg(&self.path).output();
            if !gone.is_ok_and(|out| out.status.success()) {
                let _ = Command::new("umount").arg("-l").arg(&self.path).output();
            }
        }
    }
}

/// A loop device of its own, by its path.
struct Loop(String);

impl Loop {
    /// On a new image of zeros.
    fn of(image: &Path, mebibytes: u64) -> Loop {
        std::fs::File::create(image).unwrap().set_len(mebibytes << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(image).output().unwrap();
        assert!(made.status.success(), "losetup: {}", String::from_utf8_lossy(&made.stderr));
        Loop(String::from_utf8(made.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    /// One that is mounted is gone once that is over.
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).output();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
