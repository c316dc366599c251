//! What the tests of the real program share: a scratch directory, the program, a daemon, trees, comparison.
#![allow(dead_code)]

pub mod chance;

pub mod count;

pub mod group;

pub mod job;

pub mod copies;

pub mod proxy;

pub mod volume;

pub mod page_cache;

pub mod syncs;

pub mod logdisk;

pub mod machine;

pub mod plan;

pub mod nets;

pub mod testbed;

pub mod peer;

pub mod canary;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory that goes with the test, with a state directory of its own.
pub struct Scratch {
    // In this order: what is in a volume goes before the volume, and that before the directory it is mounted in.
    directory: tempfile::TempDir,
    _volume: Option<volume::Volume>,
    _around: Option<tempfile::TempDir>,
}

/// Room in memory that the largest of these tests takes.
const IN_MEMORY_BYTES: u64 = 1 << 30;

/// The user and the group that own nothing.
pub const NOBODY: u32 = 65534;

impl Scratch {
    pub fn new() -> Scratch {
        chance::watch_the_machine();
        let root = std::env::var_os("THALWEG_TEST_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let directory = tempfile::TempDir::new_in(root).expect("a scratch directory");
        Scratch { directory, _volume: None, _around: None }
    }

    /// The same in memory: for what is about links, limits and processors, and must come out the same beside a disk
    /// that is slower than the bottleneck of the test. On disk, which is told, where there is no such room.
    pub fn in_memory() -> Scratch {
        chance::watch_the_machine();
        let shared = Path::new("/dev/shm");
        let room = thalweg_sys::Dir::open(shared).and_then(|shared| shared.file_system());
        let has_room = room.is_ok_and(|room| {
            room.kind == thalweg_sys::FileSystemKind::Tmpfs && room.bytes_available >= IN_MEMORY_BYTES
        });
        if has_room && let Ok(directory) = tempfile::TempDir::new_in(shared) {
            return Scratch { directory, _volume: None, _around: None };
        }
        if !volume::may_mount() {
            chance::say("no room in memory: this test may take the disk for its bottleneck");
            return Scratch::new();
        }
        let around = Scratch::new().directory;
        let options = format!("size={IN_MEMORY_BYTES}");
        let volume = volume::Volume::in_memory(around.path(), "memory", &options);
        let directory = tempfile::TempDir::new_in(&volume.path).expect("a scratch directory in memory");
        Scratch { directory, _volume: Some(volume), _around: Some(around) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The program, with its state here.
    pub fn thalweg(&self) -> Command {
        hear_signals();
        let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        // What the user has configured is none of a test's business.
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"THALWEG_") {
                command.env_remove(name);
            }
        }
        command.env("THALWEG_STATE", self.path("client-state")).env("XDG_CONFIG_HOME", self.path("config"));
        command.stdin(Stdio::null());
        command
    }

    /// Makes commands be run by nobody, if we are root, whom no mode keeps out. `None` if nobody may not run the
    /// program here: that is told as the skipping of `row`.
    pub fn as_nobody(&self, row: &str) -> Option<impl Fn(Command) -> Command + use<>> {
        use std::os::unix::process::CommandExt;
        let is_root = chance::is_root();
        let by = move |mut command: Command| {
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let mut version = by(self.thalweg());
        // Where tests run may be closed to others.
        version.current_dir(self.root());
        if version.arg("--version").output().is_ok_and(|output| output.status.success()) {
            return Some(by);
        }
        chance::skipped(row, "nobody may not run the program where it is");
        None
    }

    /// Runs the program to its end, see [`finish`].
    pub fn run<I, S>(&self, args: I) -> Output
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        finish(
            self.thalweg().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start"),
        )
    }

    /// As [`Scratch::run`]; the command must succeed.
    pub fn ok<I, S>(&self, args: I) -> String
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let output = self.run(args);
        assert!(
            output.status.success(),
            "{}\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A daemon with these exports; it ends with the value.
    pub fn daemon(&self, exports: &[(&str, &Path)]) -> Daemon {
        self.daemon_with(exports, &[])
    }

    pub fn daemon_with(&self, exports: &[(&str, &Path)], more: &[&str]) -> Daemon {
        self.daemon_at("127.0.0.1:0", exports, more, |command| command)
    }

    /// A daemon at this address; `wrap` may put a program around it.
    pub fn daemon_at(
        &self,
        listen: &str,
        exports: &[(&str, &Path)],
        more: &[&str],
        wrap: impl FnOnce(Command) -> Command,
    ) -> Daemon {
        let ticket = self.path("ticket");
        let _ = std::fs::remove_file(&ticket);
        let mut command = self.thalweg();
        command.env("THALWEG_STATE", self.path("server-state"));
        command.args(["serve", "--listen", listen, "--ticket-file"]).arg(&ticket).args(more);
        for (name, directory) in exports {
            command.arg("--export").arg(format!("{name}={}", directory.display()));
        }
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path("server.log"))
            .expect("a log");
        let mut command = wrap(command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let said_before = self.server_log().len();
        let mut daemon = Daemon { child: command.spawn().expect("a daemon"), ticket: ticket.clone() };
        let has_begun = wait_until(START_LIMIT, || {
            // A port that was ours before may for a moment be that of a connection which the kernel gave it to.
            if !daemon.is_alive() && self.server_log()[said_before..].contains("Address already in use") {
                std::thread::sleep(Duration::from_millis(200));
                daemon.child = command.spawn().expect("a daemon");
            }
            ticket.exists()
        });
        if !has_begun {
            panic!("the daemon wrote no ticket\n{}", self.server_log());
        }
        daemon
    }
}

impl Scratch {
    /// What daemons wrote to stderr.
    pub fn server_log(&self) -> String {
        std::fs::read_to_string(self.path("server.log")).unwrap_or_default()
    }

    pub fn root(&self) -> &Path {
        self.directory.path()
    }
}

/// Has the programs that tests start hear signals as they do in a terminal, also where tests run in the background or
/// under `nohup`: who is started ignores what we ignore, but nothing of what we have a handler for.
fn hear_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let signals = [SIGINT, SIGTERM, SIGHUP].into_iter();
        for ignored in signals.filter(|&signal| thalweg_sys::process::ignores(signal)) {
            signal_hook::flag::register(ignored, std::sync::Arc::default()).expect("a handler");
        }
    });
}

/// A daemon that has not begun by then never will.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Longest that a program may run before it is taken to hang.
const HANG: Duration = Duration::from_secs(300);

/// Looks every few milliseconds; false if it did not become true in time.
#[must_use]
pub fn wait_until(at_most: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + at_most;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// A daemon that runs.
pub struct Daemon {
    child: Child,
    pub ticket: PathBuf,
}

impl Daemon {
    /// `127.0.0.1:PORT`, from the ticket.
    pub fn address(&self) -> String {
        let text = std::fs::read_to_string(&self.ticket).expect("a ticket");
        let at = text.find("127.0.0.1:").expect("an address in the ticket");
        text[at..].chars().take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':')).collect()
    }

    /// `tw://…/EXPORT/PATH`.
    pub fn place(&self, export: &str, path: &str) -> String {
        format!("tw://{}/{export}/{path}", self.address())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGTERM; waits for its end.
    pub fn terminate(mut self) -> std::process::ExitStatus {
        let _ = Command::new("kill").arg(self.pid().to_string()).status();
        let until = Instant::now() + START_LIMIT;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status;
            }
            assert!(Instant::now() < until, "the daemon did not end after SIGTERM");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a child, at most five minutes.
pub fn finish(child: Child) -> Output {
    let id = child.id();
    let (told, hears) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if hears.recv_timeout(HANG).is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            panic!("the program hung");
        }
    });
    let output = child.wait_with_output().expect("its end");
    drop(told);
    guard.join().expect("no hang");
    output
}

/// Bytes that do not repeat and do not compress.
pub fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// A tree with a bit of everything; what needs a privilege is left out without it.
pub fn make_tree(root: &Path) {
    use std::os::unix::fs::symlink;
    std::fs::create_dir_all(root.join("deep/er/and/deeper")).unwrap();
    std::fs::create_dir(root.join("empty")).unwrap();
    std::fs::write(root.join("empty-file"), b"").unwrap();
    std::fs::write(root.join("one-byte"), b"x").unwrap();
    for i in 0..300u64 {
        std::fs::write(root.join(format!("deep/small-{i}")), noise(i, (i * 37 % 9000) as usize)).unwrap();
    }
    std::fs::write(root.join("deep/er/large"), noise(1000, 9 << 20 | 12345)).unwrap();
    std::fs::write(root.join("deep/er/exactly-a-chunk"), noise(1001, 4 << 20)).unwrap();
    std::fs::write(root.join("deep/er/medium"), noise(1002, (1 << 20) + 1)).unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"not utf-8 \xff\xfe")), b"name").unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"line\nbreak and \x1b[31m")), b"name").unwrap();
    std::fs::write(root.join("n".repeat(255)), b"long").unwrap();
    symlink("one-byte", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    symlink("deep/er", root.join("link-to-directory")).unwrap();
    std::fs::hard_link(root.join("one-byte"), root.join("deep/second-name")).unwrap();
    std::fs::hard_link(root.join("deep/er/large"), root.join("deep/er/and/large-too")).unwrap();
    std::fs::set_permissions(root.join("one-byte"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::set_permissions(root.join("empty"), std::fs::Permissions::from_mode(0o555)).unwrap();
    let sparse = std::fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"island", 20 << 20).unwrap();
}

/// Everything about a tree that a copy keeps, by path; holes apart: see [`assert_same`].
pub fn facts(root: &Path) -> BTreeMap<Vec<u8>, String> {
    let mut facts = BTreeMap::new();
    let mut inodes: BTreeMap<u64, usize> = BTreeMap::new();
    walk(root, root, &mut facts, &mut inodes);
    facts
}

fn walk(root: &Path, at: &Path, facts: &mut BTreeMap<Vec<u8>, String>, inodes: &mut BTreeMap<u64, usize>) {
    let mut names: Vec<_> = std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let dir = thalweg_sys::Dir::open(at).unwrap();
    for path in names {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let kind = meta.file_type();
        let content = if kind.is_symlink() {
            format!("link to {:?}", std::fs::read_link(&path).unwrap())
        } else if kind.is_file() {
            let group = inodes.len();
            let group = *inodes.entry(meta.ino()).or_insert(group);
            format!("file {} of inode {group}", blake3::hash(&std::fs::read(&path).unwrap()))
        } else if kind.is_fifo() {
            "fifo".to_owned()
        } else if kind.is_block_device() {
            format!("block device {:#x}", meta.rdev())
        } else if kind.is_char_device() {
            format!("character device {:#x}", meta.rdev())
        } else if kind.is_socket() {
            "socket".to_owned()
        } else {
            assert!(kind.is_dir(), "{path:?} is a {kind:?}");
            "directory".to_owned()
        };
        let times = format!("{}.{:09}", meta.mtime(), meta.mtime_nsec());
        let mode = meta.mode() & 0o7777;
        facts.insert(
            name,
            format!(
                "{content} mode {mode:o} owner {}:{} time {times}{}",
                meta.uid(),
                meta.gid(),
                attributes(&dir, &path)
            ),
        );
        if kind.is_dir() {
            walk(root, &path, facts, inodes);
        }
    }
}

/// Extended attributes, ACLs among them, by name. Not those that kernels and file systems give of themselves.
fn attributes(dir: &thalweg_sys::Dir, path: &Path) -> String {
    let mut kept = dir.xattrs(path.file_name().expect("a name").as_bytes()).unwrap();
    kept.retain(|(name, _)| {
        name.starts_with(b"user.")
            || name.starts_with(b"system.posix_acl_")
            || name.as_slice() == b"security.capability"
    });
    kept.sort();
    kept.iter()
        .map(|(name, value)| format!(" {}={}", name.escape_ascii(), thalweg_wire::hex::hex(value)))
        .collect()
}

/// So much more than at the source may be allocated of what has holes.
const HOLES_SLACK_BYTES: u64 = 1 << 20;

/// Asserts that what has holes in one tree has them in the other. Nothing where they are on file systems of two kinds:
/// one of them may know no holes.
fn assert_holes_kept(from: &Path, to: &Path, facts: &BTreeMap<Vec<u8>, String>) {
    let kind = |root: &Path| thalweg_sys::Dir::open(root).and_then(|dir| dir.file_system()).unwrap().kind;
    if kind(from) != kind(to) {
        return;
    }
    for (name, _) in facts.iter().filter(|(_, fact)| fact.starts_with("file ")) {
        let path = from.join(OsStr::from_bytes(name));
        let meta = std::fs::symlink_metadata(&path).unwrap();
        if meta.blocks() * 512 < meta.len() {
            let (data, copied) = (data_bytes(&path), data_bytes(&to.join(OsStr::from_bytes(name))));
            assert!(copied <= data + HOLES_SLACK_BYTES, "{path:?}: {copied} bytes are no hole, of {data}");
        }
    }
}

/// Bytes of a file that are in no hole, as far as its file system tells.
fn data_bytes(path: &Path) -> u64 {
    let file = thalweg_sys::File::from_fd(std::fs::File::open(path).unwrap().into());
    let (mut bytes, mut at) = (0, 0);
    while let Some(data) = file.next_data(at).unwrap() {
        at = file.next_hole(data).unwrap().max(data + 1);
        bytes += at - data;
    }
    bytes
}

/// Asserts that two trees are the same in everything that a copy keeps. Holes need not be the same ones.
#[track_caller]
pub fn assert_same(from: &Path, to: &Path) {
    let (a, b) = (facts(from), facts(to));
    for (name, fact) in &a {
        let name = String::from_utf8_lossy(name);
        match b
            .get(name.as_bytes())
            .or_else(|| b.iter().find(|(n, _)| String::from_utf8_lossy(n) == name).map(|(_, f)| f))
        {
            Some(other) => assert_eq!(fact, other, "{name:?}"),
            None => panic!("{name:?} is missing"),
        }
    }
    let extra: Vec<_> = b.keys().filter(|name| !a.contains_key(*name)).collect();
    let extra: Vec<_> = extra.iter().map(|name| String::from_utf8_lossy(name)).collect();
    assert!(extra.is_empty(), "{extra:?} is too much");
    assert_holes_kept(from, to, &a);
}

/// No hidden file of ours is left below `root`.
pub fn assert_no_litter(root: &Path) {
    for name in facts(root).keys() {
        let name = String::from_utf8_lossy(name);
        assert!(!name.contains(".thalweg"), "{name} was left behind");
    }
}
