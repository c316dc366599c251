//! A disk whose writes and flushes are known in their order, and which can be taken away: a loop device on a file of a
//! file system of our own (`logdisk.py`).

use super::chance;
use super::volume::{Volume, can_mount};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What a disk that lies looks for.
pub const MARK: &[u8] = b"here the disk lies";

/// What the disk was told.
pub enum Told {
    /// Write these bytes at this offset.
    Write(u64, Vec<u8>),
    /// Everything before it survives a power cut.
    Flush,
}

impl Told {
    /// Does it to an image.
    pub fn write(&self, image: &std::fs::File) {
        if let Told::Write(offset, bytes) = self {
            std::os::unix::fs::FileExt::write_all_at(image, bytes, *offset).unwrap();
        }
    }

    /// What it takes in the log.
    pub fn log_bytes(&self) -> u64 {
        let content = match self {
            Told::Write(_, bytes) => bytes.len(),
            Told::Flush => 0,
        };
        (HEAD_BYTES + content) as u64
    }
}

/// In front of each record of the log.
const HEAD_BYTES: usize = 17;

/// See the module. Goes with the value.
pub struct LogDisk {
    server: Option<Child>,
    /// What holds the image.
    below: PathBuf,
    log: PathBuf,
    /// The image as it was before the first write.
    pub first: PathBuf,
    device: String,
    /// The file system on it.
    pub path: PathBuf,
}

impl LogDisk {
    /// Of `kind`, mounted at `directory/name.mnt`; `None`, with the reason told, where that cannot be had.
    pub fn new(row: &str, directory: &Path, name: &str, kind: &str, mebibytes: u64) -> Option<LogDisk> {
        LogDisk::that_lies(row, directory, name, kind, mebibytes, 0)
    }

    /// One that stores the first so many writes with [`MARK`] in them with a bit behind it flipped.
    pub fn that_lies(
        row: &str,
        directory: &Path,
        name: &str,
        kind: &str,
        mebibytes: u64,
        lies: u32,
    ) -> Option<LogDisk> {
        if !can_mount(row) {
            return None;
        }
        for program in ["python3", "losetup", &format!("mkfs.{kind}")] {
            if !chance::has(program) {
                chance::skipped(row, &format!("needs {program}"));
                return None;
            }
        }
        if !Path::new("/dev/fuse").exists() {
            chance::skipped(row, "no /dev/fuse");
            return None;
        }
        let at = |more: &str| directory.join(format!("{name}{more}"));
        let (image, first, below, log, path) =
            (at(".img"), at(".first"), at(".below"), at(".log"), at(".mnt"));
        std::fs::File::create(&image).unwrap().set_len(mebibytes << 20).unwrap();
        let force = if kind == "ext4" { "-F" } else { "-f" };
        run(Command::new(format!("mkfs.{kind}")).args(["-q", force]).arg(&image));
        run(Command::new("cp").arg("--sparse=always").arg(&image).arg(&first));
        for directory in [&below, &path] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/logdisk.py");
        let mut server = Command::new("python3");
        server.arg(script).arg(&image).arg(&below).arg(&log).arg(lies.to_string());
        server.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut server = server.stderr(Stdio::inherit()).spawn().unwrap();
        let mut said = String::new();
        let _ = BufReader::new(server.stdout.take().unwrap()).read_line(&mut said);
        if said.trim() != "ready" {
            chance::skipped(row, "no file system of our own can be mounted");
            let _ = server.kill();
            let _ = server.wait();
            return None;
        }
        let mut disk = LogDisk { server: Some(server), below, log, first, device: String::new(), path };
        let device = run(Command::new("losetup").args(["-f", "--show"]).arg(disk.below.join("disk")));
        disk.device = device.trim().to_owned();
        run(Command::new("mount").args(["-t", kind]).arg(&disk.device).arg(&disk.path));
        Some(disk)
    }

    /// Bytes in the log so far: what it was told by now is before that.
    pub fn told_bytes(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// The disk is gone, with all that asks for it: from now on every request of it fails.
    pub fn take_away(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }

    /// Unmounts it; what it was told from the beginning.
    pub fn told(self) -> (PathBuf, Vec<Told>) {
        let (first, log) = (self.first.clone(), self.log.clone());
        drop(self);
        let mut log = BufReader::new(std::fs::File::open(log).unwrap());
        let mut told = Vec::new();
        let mut head = [0; HEAD_BYTES];
        while log.read_exact(&mut head).is_ok() {
            let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap());
            if head[0] == b'F' {
                told.push(Told::Flush);
                continue;
            }
            let mut bytes = vec![0; number(9) as usize];
            log.read_exact(&mut bytes).unwrap();
            told.push(Told::Write(number(1), bytes));
        }
        (first, told)
    }
}

impl Drop for LogDisk {
    fn drop(&mut self) {
        let quietly = |words: &[&str], path: &Path| {
            let _ = Command::new(words[0]).args(&words[1..]).arg(path).output();
        };
        let gone = Command::new("umount").arg(&self.path).output();
        if !gone.is_ok_and(|out| out.status.success()) {
            quietly(&["umount", "-l"], &self.path);
        }
        if !self.device.is_empty() {
            quietly(&["losetup", "-d"], Path::new(&self.device));
        }
        quietly(&["umount", "-l"], &self.below);
        self.take_away();
    }
}

/// A state that a power cut may leave: an image, mounted at the place of the disk while it is looked at.
pub fn look_at(image: &Path, path: &Path, kind: &str, look: impl FnOnce(&Path)) {
    let volume = Volume::mount_at(image.to_owned(), path.to_owned(), kind, "");
    look(path);
    drop(volume);
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
