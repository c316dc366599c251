//! Where a benchmark runs: a scratch directory, a control group that counts CPU time, the program under test, and the
//! stopwatch.

use crate::bench::control_group::Group;
use crate::command;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub use thalweg_lab::bench::rounds;

/// A block of a file system of [`Volume::of_tiny_files`].
const BLOCK_BYTES: u64 = 4096;

/// See the module.
pub struct Workspace {
    pub thalweg: PathBuf,
    pub group: Group,
    pub scratch: Scratch,
}

/// What one run took; see [`crate::bench::record::Sample`].
#[derive(Default)]
pub struct Times {
    pub wall_s: f64,
    pub unsynced_s: f64,
    pub cpu_s: f64,
}

impl Workspace {
    /// Makes it.
    ///
    /// # Errors
    /// Without the right to make a control group.
    pub fn new(thalweg: PathBuf, scratch: Scratch) -> Result<Workspace> {
        Ok(Workspace { thalweg, group: Group::new()?, scratch })
    }

    /// An empty directory below the scratch directory.
    ///
    /// # Errors
    /// What the file system says.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.scratch.path(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }

    /// Thalweg, with one state directory for all commands of a suite. A copy over a far path may teach there what later
    /// ones begin with: where that is not to be measured they have [`Workspace::nothing_known`].
    pub fn thalweg(&self) -> Command {
        let mut command = Command::new(&self.thalweg);
        command.env("THALWEG_STATE", self.scratch.path("client-state"));
        command
    }

    /// An empty state directory: a copy that has it knows of none before. The next call empties it again.
    ///
    /// # Errors
    /// What the file system says.
    pub fn nothing_known(&self) -> Result<PathBuf> {
        let name = "nothing-known";
        let _ = fs::remove_dir_all(self.scratch.path(name));
        self.directory(name)
    }

    /// Runs a command in the control group, then syncs the file system of `synced`, all of it in the time.
    ///
    /// # Errors
    /// If one of them fails.
    pub fn time(&self, command: Command, synced: Option<&Path>) -> Result<Times> {
        self.time_all(vec![command], synced).map(|(times, _)| times)
    }

    /// The same with several that begin at the same time: also the seconds until each had ended.
    ///
    /// # Errors
    /// If one of them fails.
    pub fn time_all(&self, commands: Vec<Command>, synced: Option<&Path>) -> Result<(Times, Vec<f64>)> {
        let cpu = self.group.cpu()?;
        let started = Instant::now();
        let one = |command| self.run(command).map(|()| started.elapsed().as_secs_f64());
        let ended = std::thread::scope(|scope| {
            let all: Vec<_> = commands.into_iter().map(|command| scope.spawn(move || one(command))).collect();
            let all = all.into_iter().map(|one| one.join().unwrap_or_else(|_| bail!("a panic")));
            all.collect::<Result<Vec<f64>>>()
        })?;
        let unsynced_s = started.elapsed().as_secs_f64();
        if let Some(path) = synced {
            let mut sync = Command::new("sync");
            sync.arg("-f").arg(path);
            self.run(sync)?;
        }
        let wall_s = started.elapsed().as_secs_f64();
        // Far sides of ssh may still be ending.
        Ok((Times { wall_s, unsynced_s, cpu_s: (self.group.cpu()? - cpu).as_secs_f64() }, ended))
    }

    fn run(&self, command: Command) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut entered = self.group.enter(command);
        let output = entered.stdin(Stdio::null()).output().with_context(|| program.clone())?;
        let says = String::from_utf8_lossy(&output.stderr);
        let last = says.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        ensure!(output.status.success(), "{program} ended with {}: {last}", output.status);
        Ok(())
    }
}

/// A file system of its own in a file, for many small files: they all go with that one file in no time, and nothing
/// that was deleted before slows it.
pub struct Volume {
    pub path: PathBuf,
    image: PathBuf,
}

impl Volume {
    /// ext4 of 4 GiB with room for so many files, of which not all have content at the same time; read and written past
    /// the page cache of the file system below.
    ///
    /// # Errors
    /// If it cannot be made or mounted.
    pub fn new(scratch: &Scratch, name: &str, files: u64) -> Result<Volume> {
        let image = scratch.path(&format!("{name}.image"));
        // Written in full, so that a sync above makes the file system below journal nothing of its own: a tool that
        // syncs more often than others would pay for that.
        let mut zeros = Command::new("dd");
        zeros.args(["if=/dev/zero", "bs=4M", "count=1024", "oflag=direct", "conv=fsync", "status=none"]);
        command::run(zeros.arg(format!("of={}", image.display())))?;
        Volume::mounted(scratch, name, image, files, &[])
    }

    /// ext4 with room for so many files whose content is so short that it stands in the inode, and for so many bytes of
    /// others: more files than a common file system has inodes, at a few hundred bytes of disk each. Nothing is
    /// written beforehand.
    ///
    /// # Errors
    /// As [`Volume::new`].
    pub fn of_tiny_files(scratch: &Scratch, name: &str, files: u64, other_bytes: u64) -> Result<Volume> {
        let image = scratch.path(&format!("{name}.image"));
        // A group of blocks has no more inodes than blocks; and there is the journal.
        let room = (files + files / 4) * BLOCK_BYTES + other_bytes + (2 << 30);
        fs::File::create(&image)?.set_len(room).context("an image of a file system")?;
        Volume::mounted(scratch, name, image, files, &["-b", &BLOCK_BYTES.to_string(), "-O", "inline_data"])
    }

    fn mounted(
        scratch: &Scratch,
        name: &str,
        image: PathBuf,
        files: u64,
        options: &[&str],
    ) -> Result<Volume> {
        let path = scratch.path(name);
        fs::create_dir_all(&path)?;
        // Some more for directories, and for what a mover keeps beside files.
        let inodes = (files + files / 4).to_string();
        let mkfs = ["-q", "-F", "-N", &inodes, "-E", "lazy_itable_init=1,lazy_journal_init=1"];
        command::run(Command::new("mkfs.ext4").args(mkfs).args(options).arg(&image))?;
        let loop_device =
            Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&image).output()?;
        let loop_device = String::from_utf8(loop_device.stdout)?.trim().to_owned();
        ensure!(!loop_device.is_empty(), "there is no loop device");
        let mounted =
            command::run(Command::new("mount").args(["-o", "noinit_itable", &loop_device]).arg(&path));
        // Detached when it is unmounted, or now.
        let detached = command::run(Command::new("losetup").args(["--detach", &loop_device]));
        mounted.and(detached)?;
        Ok(Volume { path, image })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Whoever held a file in it has just been ended.
        for _ in 0..50 {
            if Command::new("umount")
                .arg(&self.path)
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|it| it.success())
            {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let _ = fs::remove_file(&self.image);
    }
}
