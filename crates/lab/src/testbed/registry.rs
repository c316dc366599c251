//! Where testbeds are recorded, and how they are found, asked, entered and removed.
//!
//! Each has a directory `ROOT/NAME` (0700) with `record.json`, `socket`, `hosts` and `log`, and `ended` where its
//! warden has ended programs. Whether it runs is never believed from the record alone: the process must be there *and*
//! have been started at the recorded moment. `up` and `down` hold a lock on `ROOT`, so that two of them do not meet
//! half-way; who clears what dead ones left does too. Who ends a testbed's programs holds a lock on `ROOT/NAME`.

use super::daemon::{REQUEST_BYTES_MAX, Request, Status};
use super::spec::{Side, Spec, check_name};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_mover::failure::{
    Failure, FailureKind, Reason, Result, START_TESTBED, at_path, of_io, of_namespace,
};
use thalweg_sys::atomic_file::{self, Durability};
use thalweg_sys::child::in_own_session;
use thalweg_sys::namespace::{self, NetworkNamespace};
use thalweg_sys::process::{boot_id, start_ticks};

/// Set for every program that `run` starts: by it they are found when their testbed has died, where the kernel has no
/// cookies of namespaces.
pub const ID_VARIABLE: &str = "THALWEG_TESTBED";

/// How long a testbed may take to come up.
const UP_WAIT: Duration = Duration::from_secs(30);

/// How long others may take before it is our turn.
const LOCK_WAIT: Duration = Duration::from_secs(90);

/// How long a program, or the testbed itself, may take to end when asked to; then it is killed.
const END_WAIT: Duration = Duration::from_secs(2);

/// How often programs may start others while they are ended.
const ROUNDS_MAX: usize = 20;

/// How long a running testbed may take to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(5);

/// In a testbed's directory: how many programs its warden has ended.
const ENDED_FILE: &str = "ended";

/// What is recorded of a testbed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// Unlike any other testbed's, at any time.
    pub id: String,
    /// Its process.
    pub pid: u32,
    /// When that began, in clock ticks since boot: another process of the same number began at another moment.
    pub start_ticks: u64,
    /// The run of the machine in which it began; `None` where the kernel does not tell.
    #[serde(default)]
    pub boot: Option<String>,
    /// Descriptor of the router's namespace in that process.
    pub router_fd: i32,
    /// Its hosts; none while it comes up.
    pub hosts: Vec<HostRecord>,
    /// What it was asked to be.
    pub spec: Spec,
}

/// A host, as recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostRecord {
    /// `left-1`.
    pub name: String,
    /// Where it stands.
    pub side: Side,
    /// Its address.
    pub address: Ipv4Addr,
    /// Descriptor of its namespace in the testbed's process.
    pub fd: i32,
    /// Inode of its namespace.
    pub inode: u64,
    /// What names its namespace for as long as the machine runs; `None` of a kernel before 5.14.
    #[serde(default)]
    pub cookie: Option<u64>,
}

impl Record {
    /// Writes it into the testbed's directory, whole or not at all.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let failed = |error: io::Error| of_io("write the testbed's record", &error);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        let (path, mode) = (directory.join("record.json"), thalweg_sys::process::user_mode());
        atomic_file::write(&path, text.as_bytes(), mode, Durability::Unsynced)
            .map_err(|error| failed(error.into()))
    }

    fn read(directory: &Path) -> Option<Record> {
        serde_json::from_str(&fs::read_to_string(directory.join("record.json")).ok()?).ok()
    }

    /// Whether its process still is the one that was recorded.
    pub fn is_running(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }

    /// The host called so: `left-2`, or `left` for the first.
    ///
    /// # Errors
    /// `NotFound`, with the names there are.
    pub fn host(&self, name: &str) -> Result<&HostRecord> {
        let full = if name == "left" || name == "right" { format!("{name}-1") } else { name.to_owned() };
        self.hosts.iter().find(|host| host.name == full).ok_or_else(|| {
            let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            let cause = format!("there is no host `{}`, but {}", name.escape_debug(), names.join(", "));
            Failure::new(FailureKind::NotFound, "find a host of the testbed", cause)
        })
    }

    /// A host's namespace, or the router's by its descriptor.
    ///
    /// # Errors
    /// `NotFound` if the testbed ended meanwhile; `Permission`.
    pub fn namespace(&self, fd: i32) -> Result<NetworkNamespace> {
        let path = PathBuf::from(format!("/proc/{}/fd/{fd}", self.pid));
        let opened = NetworkNamespace::open(&path)
            .map_err(|error| of_io("open a host's network namespace", &error))?;
        // The number may be another process's by now.
        self.still_running().map(|()| opened)
    }

    fn still_running(&self) -> Result<()> {
        match self.is_running() {
            true => Ok(()),
            false => Err(Failure::new(FailureKind::NotFound, "enter the testbed", "it ended just now")),
        }
    }
}

/// A directory entry of a testbed.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// What is recorded; `None` if it died before it could record anything.
    pub record: Option<Record>,
}

impl Found {
    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.record.as_ref().is_some_and(Record::is_running)
    }
}

/// What `down` did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    /// The testbed had died before.
    pub was_dead: bool,
    /// Programs in its hosts that had to be ended, by its warden or now.
    pub programs: usize,
}

/// Where testbeds of root are recorded.
const OF_ROOT: &str = "/run/thalweg/testbed";

/// All testbeds recorded in one place.
#[derive(Debug)]
pub struct Registry(PathBuf);

impl Registry {
    /// `directory`, or the default: `/run/thalweg/testbed` for root, else below `$XDG_RUNTIME_DIR`.
    ///
    /// # Errors
    /// `NotFound` without a default.
    pub fn new(directory: Option<&Path>) -> Result<Registry> {
        if let Some(directory) = directory {
            let absolute = std::path::absolute(directory)
                .map_err(|error| of_io("find the directory of testbeds", &error))?;
            return Ok(Registry(absolute));
        }
        if thalweg_sys::user::effective_uid() == 0 {
            return Ok(Registry(OF_ROOT.into()));
        }
        match std::env::var_os("XDG_RUNTIME_DIR") {
            Some(base) => Ok(Registry(PathBuf::from(base).join("thalweg/testbed"))),
            None => {
                let cause = "XDG_RUNTIME_DIR is not set: name a directory with --state";
                Err(Failure::new(FailureKind::NotFound, "find the directory of testbeds", cause))
            }
        }
    }

    /// Starts a testbed and waits until it is up. `command` is a program that calls [`super::daemon::serve`] with the
    /// specification on its standard input and [`Self::directory`].
    ///
    /// # Errors
    /// `Permission` without root; `Busy` if one of this name runs; what it says if it cannot come up.
    pub fn up(&self, spec: &Spec, command: Command) -> Result<Record> {
        self.up_unless(spec, command, &AtomicBool::new(false))
    }

    /// The same. Where it is to stop before the testbed is up, what is there of it is taken down.
    ///
    /// # Errors
    /// As [`Self::up`]; `Stopped`.
    pub fn up_unless(&self, spec: &Spec, command: Command, stop: &AtomicBool) -> Result<Record> {
        spec.check().map_err(|why| Failure::new(FailureKind::Usage, "read the testbed's options", why))?;
        NetworkNamespace::new().map_err(|error| of_namespace(&error))?;
        self.start(spec, command, stop)
    }

    fn start(&self, spec: &Spec, mut command: Command, stop: &AtomicBool) -> Result<Record> {
        let _lock = self.lock_unless(LOCK_WAIT, stop)?;
        self.clear_dead_locked()?;
        if let Some(found) = self.look(&spec.name) {
            if found.is_running() {
                let cause = format!(
                    "a testbed `{0}` is up: `thalweg testbed status --name {0}` shows it, `set` changes its path, \
                     `down` removes it; another --name makes another",
                    spec.name
                );
                return Err(Failure::new(FailureKind::Busy, START_TESTBED, cause));
            }
            self.clear(&found)?;
        }
        let directory = self.directory(&spec.name);
        let failed = |error: io::Error| of_io(START_TESTBED, &error);
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let log = File::create(directory.join("log")).map_err(failed)?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).current_dir("/");
        // A Ctrl-C is for us alone, who then take it down: a child that it ended as well would be told as one that
        // failed. And a testbed does not end with its starter's terminal.
        let mut child = in_own_session(&mut command).spawn().map_err(failed)?;
        let text = serde_json::to_string(spec).map_err(|error| failed(error.into()))?;
        let said = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
        if let Some(Err(error)) = said {
            end(&mut child);
            return Err(failed(error));
        }
        let until = Instant::now() + UP_WAIT;
        loop {
            if let Some(record) = Record::read(&directory).filter(|record| !record.hosts.is_empty()) {
                return Ok(record);
            }
            if stop.load(Ordering::Acquire) {
                end(&mut child);
                fs::remove_dir_all(&directory)
                    .map_err(|error| of_io("remove the testbed's directory", &error))?;
                return Err(stopped());
            }
            let ended = child.try_wait().map_err(failed)?;
            if ended.is_some() || Instant::now() > until {
                end(&mut child);
                let failure = last_words(&directory);
                let _ = fs::remove_dir_all(&directory);
                return Err(failure);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Where the testbed of this name keeps its things.
    pub fn directory(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Where testbeds are looked for, in words; to who is not root also where root's are.
    pub fn place(&self) -> String {
        let user = thalweg_sys::user::effective_uid();
        format!("{}{}", self.0.display(), of_root(&self.0, Path::new(OF_ROOT), user).unwrap_or_default())
    }

    /// All that are recorded, by name, dead ones too.
    ///
    /// # Errors
    /// What the file system says; that there is no directory is no error.
    pub fn list(&self) -> Result<Vec<Found>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(of_io("list testbeds", &error)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| of_io("list testbeds", &error))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if check_name(&name).is_ok() {
                all.extend(self.look(&name));
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// A testbed that is up.
    ///
    /// # Errors
    /// `NotFound`, which says what there is instead; `Usage` of a name that cannot be one.
    pub fn running(&self, name: &str) -> Result<Record> {
        check_name(name).map_err(|why| Failure::new(FailureKind::Usage, "find a testbed", why))?;
        let not_found = |cause: String| Failure::new(FailureKind::NotFound, "find a testbed", cause);
        let Some(found) = self.look(name) else {
            return Err(not_found(format!(
                "no testbed `{name}` is up in {}: `thalweg testbed up` starts one",
                self.place()
            )));
        };
        match found.record {
            Some(record) if record.is_running() && !record.hosts.is_empty() => Ok(record),
            Some(record) if record.is_running() => Err(not_found(format!("testbed `{name}` is coming up"))),
            _ => Err(not_found(format!(
                "testbed `{name}` has died; `down`, `list` or an `up` clears what it left"
            ))),
        }
    }

    /// Asks a running testbed.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if it does not answer for 30 s; `Connection`; `Usage` if it does not like what was asked.
    pub fn ask(&self, name: &str, request: &Request) -> Result<Status> {
        self.running(name)?;
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let cause = format!(
                    "`{name}` does not answer for {} s: is this machine overloaded?",
                    ANSWER_WAIT.as_secs()
                );
                Failure::new(FailureKind::Busy, "ask the testbed", cause)
            }
            _ => of_io("ask the testbed", &error),
        };
        let directory = File::open(self.directory(name)).map_err(failed)?;
        let stream = UnixStream::connect(socket_of(&directory)).map_err(failed)?;
        stream.set_read_timeout(Some(ANSWER_WAIT)).map_err(failed)?;
        stream.set_write_timeout(Some(ANSWER_WAIT)).map_err(failed)?;
        let mut text = serde_json::to_string(request).map_err(|error| failed(error.into()))?;
        text.push('\n');
        (&stream).write_all(text.as_bytes()).map_err(failed)?;
        let mut line = String::new();
        BufReader::new((&stream).take(REQUEST_BYTES_MAX * 16)).read_line(&mut line).map_err(failed)?;
        let answer: std::result::Result<Status, String> =
            serde_json::from_str(&line).map_err(|error| failed(error.into()))?;
        answer.map_err(|why| Failure::new(FailureKind::Usage, "ask the testbed", why))
    }

    /// Ends the programs in its hosts and the testbed, and removes its directory. `None` if there is none.
    ///
    /// # Errors
    /// If something cannot be ended or removed.
    pub fn down(&self, name: &str) -> Result<Option<Removed>> {
        check_name(name).map_err(|why| Failure::new(FailureKind::Usage, "find a testbed", why))?;
        if !self.0.exists() {
            return Ok(None);
        }
        let _lock = self.lock(LOCK_WAIT)?;
        self.look(name).map(|found| self.clear(&found)).transpose()
    }

    /// Ends the programs of all testbeds that have died and removes their directories; what it did, by name. Waits for
    /// nobody but a warden that is ending them: what cannot be cleared now stays for the next time.
    ///
    /// # Errors
    /// `Busy` if a testbed comes up or goes down just now; `Permission`; if testbeds cannot be listed.
    pub fn clear_dead(&self) -> Result<Vec<(String, Removed)>> {
        // Nothing is made, and nobody held up, where there is nothing to clear.
        if self.list()?.iter().all(Found::is_running) {
            return Ok(Vec::new());
        }
        let _lock = self.lock(Duration::ZERO)?;
        self.clear_dead_locked()
    }

    /// The same, of who has the lock: a testbed that comes up without a record is another's only without it.
    fn clear_dead_locked(&self) -> Result<Vec<(String, Removed)>> {
        let dead = self.list()?.into_iter().filter(|found| !found.is_running());
        Ok(dead.filter_map(|found| Some((found.name.clone(), self.clear(&found).ok()?))).collect())
    }

    fn clear(&self, found: &Found) -> Result<Removed> {
        let directory = self.directory(&found.name);
        let mut removed = Removed { was_dead: !found.is_running(), programs: 0 };
        let _lock = lock_programs(&directory)?;
        if let Some(record) = &found.record {
            removed.programs = end_programs(record)?;
            if record.is_running()
                && let Some(process) = open_process(record.pid)
            {
                end_all(vec![process], &[Signal::TERM, Signal::KILL])?;
            }
            // Who came into a host until then; now nobody comes any more.
            removed.programs += end_programs(record)?;
        }
        removed.programs += ended_by_warden(&directory);
        fs::remove_dir_all(&directory).map_err(|error| of_io("remove the testbed's directory", &error))?;
        Ok(removed)
    }

    /// Ends the programs in the hosts of a testbed that has ended, for its warden; how many, which is told to people by
    /// who removes the directory. If that was removed, whoever did it has ended them, and may itself be one of them:
    /// then it does nothing, and the answer is `None`.
    pub(super) fn end_left(&self, record: &Record) -> Result<Option<usize>> {
        let directory = self.directory(&record.spec.name);
        let is_there = || Record::read(&directory).is_some_and(|found| found.id == record.id);
        if !is_there() {
            return Ok(None);
        }
        // Who takes it down is at it as long as this lock is held; for a stopped one nobody waits for ever.
        let _lock = lock_programs(&directory);
        if !is_there() {
            return Ok(None);
        }
        // The second time for what one started that ended while we looked.
        let programs = end_programs(record)? + end_programs(record)?;
        // Where nothing was ended nothing is written: one that did not come up is being removed just now.
        if programs > 0 {
            let written = fs::write(directory.join(ENDED_FILE), programs.to_string());
            written.map_err(|error| of_io("note what was ended", &error))?;
        }
        Ok(Some(programs))
    }

    fn look(&self, name: &str) -> Option<Found> {
        let directory = self.directory(name);
        directory.is_dir().then(|| Found { name: name.to_owned(), record: Record::read(&directory) })
    }

    /// Waits for others that bring testbeds up or down, no longer than `wait`.
    fn lock(&self, wait: Duration) -> Result<OwnedFd> {
        self.lock_unless(wait, &AtomicBool::new(false))
    }

    fn lock_unless(&self, wait: Duration, stop: &AtomicBool) -> Result<OwnedFd> {
        let failed = |error: io::Error| at_path(of_io("open the directory of testbeds", &error), &self.0);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let directory = File::open(&self.0).map_err(failed)?;
        let metadata = directory.metadata().map_err(failed)?;
        // Who could write here could have us run a program in a namespace of theirs.
        if metadata.uid() != thalweg_sys::user::effective_uid() || metadata.mode() & 0o022 != 0 {
            let cause = "it belongs to somebody else, or somebody else may change it";
            let failure = Failure::new(FailureKind::Permission, "open the directory of testbeds", cause);
            return Err(at_path(failure, &self.0));
        }
        match locks_within(&directory, wait, stop).map_err(failed)? {
            true => Ok(directory.into()),
            false if stop.load(Ordering::Acquire) => Err(stopped()),
            false => {
                let cause = format!(
                    "another command brings a testbed up or down there and is not over after {} s; \
                     --state names another directory",
                    wait.as_secs()
                );
                Err(Failure::new(FailureKind::Busy, "lock the directory of testbeds", cause))
            }
        }
    }
}

/// Whether this open directory is locked within `wait`; not if it is to stop.
fn locks_within(directory: &File, wait: Duration, stop: &AtomicBool) -> io::Result<bool> {
    let until = Instant::now() + wait;
    loop {
        match flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if stop.load(Ordering::Acquire) => return Ok(false),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(POLL),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// For who ends the programs of the testbed of this directory.
fn lock_programs(directory: &Path) -> Result<File> {
    let failed = |error: io::Error| at_path(of_io("lock the testbed's directory", &error), directory);
    let opened = File::open(directory).map_err(failed)?;
    match locks_within(&opened, LOCK_WAIT, &AtomicBool::new(false)).map_err(failed)? {
        true => Ok(opened),
        false => {
            let cause = format!(
                "another process ends programs in it and is not over after {} s",
                LOCK_WAIT.as_secs()
            );
            let failure = Failure::new(FailureKind::Busy, "lock the testbed's directory", cause);
            Err(at_path(failure, directory))
        }
    }
}

/// How many programs the warden of a testbed that died has ended.
fn ended_by_warden(directory: &Path) -> usize {
    let noted = fs::read_to_string(directory.join(ENDED_FILE)).unwrap_or_default();
    noted.trim().parse().unwrap_or(0)
}

/// Where the testbed of this directory listens: by the open directory, because a socket's path has at most 107 bytes
/// and that of a directory may have more.
pub(super) fn socket_of(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/socket", directory.as_raw_fd()))
}

/// Becomes `program`, in a host of a running testbed. Returns only if that fails.
///
/// The program keeps the caller's process number, terminal, directory and files, so its exit code and signals are its
/// own. `/etc/hosts` shows the testbed's names. It, and what it starts there, ends with the testbed.
pub fn become_program(
    registry: &Registry,
    record: &Record,
    host: &HostRecord,
    mut program: Command,
) -> Failure {
    use std::os::unix::process::CommandExt;
    let entered = record.namespace(host.fd).and_then(|space| {
        space.enter().map_err(|error| of_io("enter a host's network namespace", &error))?;
        // Whoever ended the programs of a testbed that died before now did not see us; whoever does later will.
        record.still_running()?;
        // A program without names of hosts still runs.
        let _ = namespace::private_mounts().and_then(|()| {
            let names = registry.directory(&record.spec.name).join("hosts");
            namespace::show_in_place(&names, Path::new("/etc/hosts"))
        });
        Ok(())
    });
    if let Err(failure) = entered {
        return failure;
    }
    program.env(ID_VARIABLE, &record.id).env("THALWEG_TESTBED_HOST", &host.name);
    let name = program.get_program().to_string_lossy().escape_debug().to_string();
    of_io(&format!("run `{name}`"), &program.exec())
}

/// Another descriptor of a namespace of this process.
pub(super) fn reopen(space: &NetworkNamespace) -> Result<NetworkNamespace> {
    NetworkNamespace::open(Path::new(&format!("/proc/self/fd/{}", space.number())))
        .map_err(|error| of_io("open a network namespace", &error))
}

/// When this process began, in clock ticks since boot.
///
/// # Errors
/// Where `/proc` is not there.
pub fn own_start_ticks() -> Result<u64> {
    start_ticks(std::process::id()).ok_or_else(|| {
        Failure::new(
            FailureKind::Unsupported,
            "read /proc/self/stat",
            "the start of this process is not told",
        )
    })
}

/// Processes in the hosts of a testbed. Of one that has died the kernel may have given the inodes to others, so there
/// the cookie of the namespace decides as well, in the same run of the machine; and where there are none, the mark in
/// the environment, which a program may have rewritten.
fn programs_inside(record: &Record) -> Vec<OwnedFd> {
    let is_running = record.is_running();
    let is_this_boot = record.boot.is_some() && record.boot == boot_id();
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let mark = format!("{ID_VARIABLE}={}", record.id).into_bytes();
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        // Who removes it from within is left to end by itself.
        .filter(|&pid| pid != std::process::id())
        .filter_map(|pid| {
            // The descriptor first: what is looked at then is this process or nothing.
            let process = open_process(pid)?;
            let space = format!("/proc/{pid}/ns/net");
            let inode = fs::metadata(&space).ok()?.ino();
            let host = record.hosts.iter().find(|host| host.inode == inode)?;
            let has_cookie = |cookie: u64| {
                is_this_boot
                    && NetworkNamespace::open(Path::new(&space))
                        .and_then(|space| space.cookie())
                        .is_ok_and(|found| found == cookie)
            };
            let is_marked = || {
                fs::read(format!("/proc/{pid}/environ"))
                    .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|one| one == mark))
            };
            (is_running || host.cookie.map_or_else(is_marked, has_cookie)).then_some(process)
        })
        .collect()
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

/// Ends the processes in the hosts of a testbed, and those that they start meanwhile; how many. Only the first are
/// asked to end: one that was asked and starts others goes on doing so.
fn end_programs(record: &Record) -> Result<usize> {
    let mut ended = 0;
    for round in 0..ROUNDS_MAX {
        let inside = programs_inside(record);
        if inside.is_empty() {
            return Ok(ended);
        }
        ended += inside.len();
        let signals: &[Signal] = if round == 0 { &[Signal::TERM, Signal::KILL] } else { &[Signal::KILL] };
        end_all(inside, signals)?;
    }
    let cause = format!("programs in it have started others {ROUNDS_MAX} times while they were ended");
    Err(Failure::new(FailureKind::Busy, "end the testbed's programs", cause))
}

/// Sends processes one signal after another until they have ended.
fn end_all(mut processes: Vec<OwnedFd>, signals: &[Signal]) -> Result<()> {
    for &signal in signals {
        for process in &processes {
            // One that has ended meanwhile is what was wanted.
            let _ = pidfd_send_signal(process, signal);
        }
        let until = Instant::now() + END_WAIT;
        while !processes.is_empty() && Instant::now() < until {
            processes.retain(|process| !has_ended(process));
            if !processes.is_empty() {
                std::thread::sleep(POLL);
            }
        }
    }
    match processes.len() {
        0 => Ok(()),
        left => {
            let cause = format!("{left} still there after SIGKILL");
            Err(Failure::new(FailureKind::Busy, "end the testbed's programs", cause))
        }
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut wanted = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
    poll(&mut wanted, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// What a testbed that did not come up has said.
fn last_words(directory: &Path) -> Failure {
    let text = fs::read_to_string(directory.join("log")).unwrap_or_default();
    let words: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let cause = match words.iter().find_map(|line| line.strip_prefix("error: ")) {
        Some(error) => error.to_owned(),
        None if words.is_empty() => "it said nothing".to_owned(),
        None => words.join("; "),
    };
    Failure::new(FailureKind::Unsupported, START_TESTBED, cause)
}

/// Where root's are, for who is not root and looked elsewhere. Whether any is up nobody else sees.
fn of_root(looked_in: &Path, root: &Path, user: u32) -> Option<String> {
    // What is above it may be closed as well.
    let is_there = match fs::symlink_metadata(root) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    };
    let is_other = user != 0 && looked_in != root;
    (is_there && is_other).then(|| format!(" (root's are in {}: run as root for those)", root.display()))
}

fn stopped() -> Failure {
    let cause = "stopped on request; nothing of it is left";
    Failure::new(FailureKind::Stopped, START_TESTBED, cause).because(Reason::BeginsAnew)
}

fn end(child: &mut std::process::Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_root_is_told_where_testbeds_of_root_are() {
        let scratch = tempfile::tempdir().unwrap();
        let (own, root) = (scratch.path().join("own"), scratch.path().join("root"));
        assert_eq!(of_root(&own, &root, 1000), None, "there are none");
        fs::create_dir(&root).unwrap();
        let told = of_root(&own, &root, 1000).unwrap();
        assert!(told.contains("run as root") && told.contains(&root.display().to_string()), "{told}");
        assert_eq!(of_root(&own, &root, 0), None);
        assert_eq!(of_root(&root, &root, 1000), None);
    }

    fn spec() -> Spec {
        Spec {
            name: "x".into(),
            left: 1,
            right: 1,
            mtu_bytes: 1500,
            paths: Default::default(),
            seed: 0,
            sysctls: Vec::new(),
        }
    }

    #[test]
    fn a_process_is_known_by_its_number_and_its_beginning() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let begun = start_ticks(child.id());
        assert!(begun.is_some() && own_start_ticks().unwrap() <= begun.unwrap());
        child.kill().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while start_ticks(child.id()).is_some() {
            assert!(Instant::now() < until, "it waits for its parent only");
            std::thread::sleep(POLL);
        }
        child.wait().unwrap();
    }

    /// Nobody is ended here: only looked for, in the namespace of the tests.
    #[test]
    fn what_a_dead_testbed_left_is_known_by_the_cookie_of_its_namespace_and_not_by_an_inode_alone() {
        let here = NetworkNamespace::open(Path::new("/proc/self/ns/net")).unwrap();
        let Ok(cookie) = here.cookie() else {
            println!("skipped: needs root, and Linux 5.14");
            return;
        };
        let mut inside = Command::new("sleep").arg("60").env_clear().spawn().unwrap();
        let is_found = |cookie: Option<u64>, boot: Option<String>| {
            let host = HostRecord {
                name: "left-1".into(),
                side: Side::Left,
                address: Ipv4Addr::LOCALHOST,
                fd: -1,
                inode: here.inode().unwrap(),
                cookie,
            };
            let (id, hosts, spec) = ("none".to_owned(), vec![host], spec());
            // Of another beginning than the process of this number.
            let (pid, start_ticks) = (std::process::id(), 0);
            let record = Record { id, pid, start_ticks, boot, router_fd: -1, hosts, spec };
            !programs_inside(&record).is_empty()
        };
        assert!(is_found(Some(cookie), boot_id()), "though it has no mark");
        assert!(!is_found(Some(cookie + 1), boot_id()), "another namespace with the inode of the first");
        assert!(!is_found(Some(cookie), Some("another".into())), "numbers begin again with the machine");
        assert!(
            !is_found(Some(cookie), None) && !is_found(None, boot_id()),
            "nothing says that it is inside"
        );
        inside.kill().unwrap();
        inside.wait().unwrap();
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        assert_eq!(registry.down("x").unwrap(), None);
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(registry.down("x").unwrap_err().kind, FailureKind::Permission);
    }

    #[test]
    fn who_holds_the_lock_for_ever_is_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        let held = registry.lock(Duration::ZERO).unwrap();
        assert_eq!(registry.lock(POLL).unwrap_err().kind, FailureKind::Busy);
        drop(held);
        registry.lock(Duration::ZERO).unwrap();
    }

    /// Without root: the hosts are made by the command, which here does nothing and never comes up.
    #[test]
    fn what_is_to_stop_before_it_is_up_is_taken_down_and_waits_for_nobody() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        let spec = spec();
        let mut idle = Command::new("sleep");
        idle.arg("600");
        let stop = AtomicBool::new(true);
        assert_eq!(registry.start(&spec, idle, &stop).unwrap_err().kind, FailureKind::Stopped);
        assert!(registry.list().unwrap().is_empty());
        let _held = registry.lock(Duration::ZERO).unwrap();
        assert_eq!(registry.lock_unless(LOCK_WAIT, &stop).unwrap_err().kind, FailureKind::Stopped);
    }

    /// Without root: the command only says which session it is in, and ends.
    #[test]
    fn what_a_terminal_sends_does_not_reach_a_testbed_that_comes_up() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        let spec = spec();
        let mut shell = Command::new("sh");
        // The specification is read first: who gives it must not find the pipe closed.
        shell.arg("-c").arg(
            "cat > /dev/null; read -r own name state parent group session rest < /proc/self/stat; \
             echo \"error: $own $session\" >&2",
        );
        let failure = registry.start(&spec, shell, &AtomicBool::new(false)).unwrap_err();
        let (own, session) = failure.cause.split_once(' ').unwrap();
        assert_eq!(own, session, "it leads a session of its own");
        assert!(registry.list().unwrap().is_empty());
    }

    #[test]
    fn all_that_died_are_cleared_but_not_while_another_comes_up() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(&scratch.path().join("not there"))).unwrap();
        assert!(registry.clear_dead().unwrap().is_empty() && !registry.0.exists(), "nothing is made");
        let registry = Registry::new(Some(scratch.path())).unwrap();
        for name in ["x", "y"] {
            fs::create_dir(registry.directory(name)).unwrap();
        }
        // Somebody who brings one up, which has nothing recorded yet.
        let held = registry.lock(Duration::ZERO).unwrap();
        assert_eq!(registry.clear_dead().unwrap_err().kind, FailureKind::Busy);
        assert_eq!(registry.list().unwrap().len(), 2);
        drop(held);
        let removed = Removed { was_dead: true, programs: 0 };
        assert_eq!(registry.clear_dead().unwrap(), [("x".to_owned(), removed), ("y".to_owned(), removed)]);
        assert!(registry.list().unwrap().is_empty());
    }

    /// Of a process that is not there: a number that is ours, of another beginning.
    fn dead(id: &str) -> Record {
        let (id, pid, start_ticks, boot) = (id.to_owned(), std::process::id(), 0, boot_id());
        Record { id, pid, start_ticks, boot, router_fd: -1, hosts: Vec::new(), spec: spec() }
    }

    #[test]
    fn what_a_warden_ended_is_counted_by_who_removes_the_rest() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        let directory = registry.directory("x");
        fs::create_dir(&directory).unwrap();
        let record = dead("one");
        record.write(&directory).unwrap();
        assert_eq!(registry.end_left(&record).unwrap(), Some(0));
        assert!(!directory.join(ENDED_FILE).exists(), "there was nothing to end");
        fs::write(directory.join(ENDED_FILE), "2").unwrap();
        assert_eq!(registry.down("x").unwrap(), Some(Removed { was_dead: true, programs: 2 }));
        // Without a directory it makes none.
        assert_eq!(registry.end_left(&record).unwrap(), None);
        assert!(!directory.exists());
    }

    /// It would wait for the lock, were it its own.
    #[test]
    fn a_warden_leaves_alone_what_another_testbed_of_the_name_has() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        let directory = registry.directory("x");
        fs::create_dir(&directory).unwrap();
        dead("another").write(&directory).unwrap();
        let _held = lock_programs(&directory).unwrap();
        assert_eq!(registry.end_left(&dead("one")).unwrap(), None);
        assert!(registry.list().unwrap()[0].record.as_ref().is_some_and(|found| found.id == "another"));
    }

    #[test]
    fn what_died_before_it_recorded_anything_is_cleared() {
        let scratch = tempfile::tempdir().unwrap();
        let registry = Registry::new(Some(scratch.path())).unwrap();
        fs::create_dir(registry.directory("x")).unwrap();
        assert!(!registry.list().unwrap()[0].is_running());
        assert_eq!(registry.running("x").unwrap_err().kind, FailureKind::NotFound);
        assert_eq!(registry.down("x").unwrap(), Some(Removed { was_dead: true, programs: 0 }));
        assert!(registry.list().unwrap().is_empty());
    }
}
