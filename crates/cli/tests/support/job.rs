//! A run of the program that may be watched, killed, and read afterwards.

use super::chance;
use super::wait_until;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thalweg_lab::wrap::wrap;

/// A program that runs. It is killed when this goes.
pub struct Running {
    child: Option<Child>,
    stdout: Option<std::thread::JoinHandle<String>>,
    stderr: Option<std::thread::JoinHandle<String>>,
    said: Said,
    pub started: Instant,
}

/// Lines of stdout and stderr, and when each came.
type Said = Arc<Mutex<Vec<(Instant, String)>>>;

/// A program that ended.
#[derive(Debug)]
pub struct Ran {
    /// `None`: by a signal.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// Lines of both, and when each came.
    pub said: Vec<(Instant, String)>,
    pub took: Duration,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Running::start_as(command).0
    }

    /// The same with a pipe into it.
    pub fn fed(mut command: Command) -> (Running, ChildStdin) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let (running, stdin) = Running::start_as(command);
        (running, stdin.expect("a pipe"))
    }

    /// The same with stdin and stdout as the command has them.
    pub fn start_as(mut command: Command) -> (Running, Option<ChildStdin>) {
        let started = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let said = Said::default();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().map(|from| reader(from, said.clone()));
        let stderr = child.stderr.take().map(|from| reader(from, said.clone()));
        (Running { child: Some(child), stdout, stderr, said, started }, stdin)
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Lines of stdout and stderr so far, and when each came.
    pub fn said(&self) -> Vec<(Instant, String)> {
        self.said.lock().unwrap().clone()
    }

    /// Of them those that came since then.
    pub fn said_since(&self, since: Instant) -> Vec<(Instant, String)> {
        let said = self.said.lock().unwrap();
        let first = said.partition_point(|(at, _)| *at < since);
        said[first..].to_vec()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Waits for its end; a program that is still there after `at_most` is killed, and the test fails.
    pub fn end(mut self, at_most: Duration) -> Ran {
        if !wait_until(at_most, || self.is_over()) {
            let told = self.kill_now();
            panic!("the program still ran after {at_most:?}\n{}\n{}", told.stdout, told.stderr);
        }
        self.collect()
    }

    /// SIGKILL.
    pub fn kill(mut self) -> Ran {
        self.kill_now()
    }

    fn kill_now(&mut self) -> Ran {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
        }
        self.collect()
    }

    fn collect(&mut self) -> Ran {
        let status = self.child.take().expect("a child").wait().expect("its end");
        let took = self.started.elapsed();
        let text = |thread: Option<std::thread::JoinHandle<String>>| {
            thread.map(|thread| thread.join().unwrap_or_default()).unwrap_or_default()
        };
        let (stdout, stderr) = (text(self.stdout.take()), text(self.stderr.take()));
        let said = std::mem::take(&mut *self.said.lock().unwrap());
        Ran { code: status.code(), stdout, stderr, said, took }
    }
}

/// Reads all there is, line by line.
fn reader(from: impl Read + Send + 'static, said: Said) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut from, mut all) = (BufReader::new(from), Vec::new());
        loop {
            let begun = all.len();
            if from.read_until(b'\n', &mut all).unwrap_or(0) == 0 {
                return String::from_utf8_lossy(&all).into_owned();
            }
            let line = String::from_utf8_lossy(&all[begun..]).into_owned();
            said.lock().unwrap().push((Instant::now(), line));
        }
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ran {
    /// The last event of `--json`.
    pub fn finished(&self) -> serde_json::Value {
        self.stdout
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .find(|event| event["event"] == "finished")
            .unwrap_or_else(|| panic!("no `finished` event: {self:?}"))
    }

    /// A number of it.
    pub fn number(&self, key: &str) -> u64 {
        self.finished()[key].as_u64().unwrap_or_else(|| panic!("no number `{key}`: {}", self.stdout))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        let end: String = self.stdout.lines().rev().take(3).collect::<Vec<_>>().join("\n");
        assert_eq!(self.code, Some(code), "after {:?}\n{end}\n{}", self.took, self.stderr);
        self
    }
}

/// Sends a signal.
pub fn signal(pid: u32, signal: Signal) {
    nix::sys::signal::kill(Pid::from_raw(pid as i32), signal).expect("a process to signal");
}

/// Waits until a process has a handler for this signal: before, the signal would just end it.
#[track_caller]
pub fn wait_for_handler(pid: u32, signal: Signal) {
    let handles = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
        caught >> (signal as u32 - 1) & 1 == 1
    };
    assert!(wait_until(Duration::from_secs(60), handles), "{pid} never handles {signal}");
}

/// Bytes that a process passed to write calls so far; `None` when it is gone.
pub fn bytes_written(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}

/// `strace -D` around a program: the process that is started is the program itself, its tracer stands aside.
pub struct Strace {
    args: Vec<std::ffi::OsString>,
}

impl Strace {
    /// `None`, with the reason told, where it cannot be used.
    pub fn available(row: &str) -> bool {
        let works = chance::has("strace")
            && Command::new("strace")
                .args(["-qq", "-o", "/dev/null", "true"])
                .output()
                .is_ok_and(|out| out.status.success());
        if !works {
            chance::skipped(row, "strace is missing or may not trace");
        }
        works
    }

    /// With one injection for one call, for example `pwrite64:delay_enter=5000`.
    pub fn inject(what: &str) -> Strace {
        let call = what.split(':').next().unwrap_or_default();
        let args = ["-D", "-f", "-qq", "-o", "/dev/null", "-e"].map(str::to_owned).into_iter();
        let args = args.chain([format!("trace={call}"), "-e".into(), format!("inject={what}")]);
        // Quicker by much, but with it strace 6.1 does not count the calls: only the first is ever found.
        let quick = (!what.contains("when=")).then(|| "--seccomp-bpf".to_owned());
        let args = args.chain(quick);
        Strace { args: args.map(Into::into).collect() }
    }

    /// That writes every call of this name, with arguments and result, to a file.
    pub fn log(call: &str, to: &Path) -> Strace {
        let trace = format!("trace={call}");
        let args = ["-D", "-f", "-qq", "--seccomp-bpf", "-e", &trace, "-o"].map(std::ffi::OsString::from);
        Strace { args: args.into_iter().chain([to.as_os_str().to_owned()]).collect() }
    }

    /// With more arguments of strace.
    pub fn with<S: Into<std::ffi::OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Strace {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The same program with the same arguments and environment, traced.
    pub fn around(&self, command: &Command) -> Command {
        let mut traced = Command::new("strace");
        traced.args(&self.args).arg("--");
        wrap(traced, command)
    }
}

/// Adds arguments.
pub fn with<S: AsRef<OsStr>>(mut command: Command, args: impl IntoIterator<Item = S>) -> Command {
    command.args(args);
    command
}

/// Length of the journal of a copy to this directory that is under way: it grows with what is durable.
pub fn journal_bytes(to: &Path) -> u64 {
    let Ok(jobs) = std::fs::read_dir(to.join(".thalweg-staging")) else { return 0 };
    jobs.flatten().filter_map(|job| Some(job.path().join("journal").metadata().ok()?.len())).sum()
}

/// Bytes allocated below a directory, hidden files included.
pub fn bytes_allocated(root: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(root) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_allocated(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// The most memory that a process ever had, in bytes. `None` while it has not become its program: so long it has the
/// memory of this one.
pub fn peak_memory(pid: u32) -> Option<u64> {
    // In this order: once it is another program its memory is its own. Who started it may go on a moment before that.
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    if std::fs::read_link("/proc/self/exe").is_ok_and(|own| own == program) {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(peak.trim().trim_end_matches(" kB").parse::<u64>().ok()? << 10)
}

/// What the process and each of its threads has: nice, and the I/O priority as ionice tells it.
pub fn priorities(pid: u32) -> Vec<(i32, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            // After the name, which may hold anything, comes the third field; nice is the nineteenth.
            let nice = stat.rsplit_once(") ")?.1.split_whitespace().nth(16)?.parse().ok()?;
            let told = Command::new("ionice").arg("-p").arg(task.file_name()).output().ok()?;
            let io = String::from_utf8(told.stdout).ok()?.trim().to_owned();
            // One that ended in between tells nothing.
            (!io.is_empty()).then_some((nice, io))
        })
        .collect()
}
