//! A real sshd on a port of its own, for the user who runs the tests.

use super::support::Scratch;
use super::support::chance::skipped;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "/usr/sbin/sshd";

/// An sshd that ends with the value, and with it what it started.
pub struct Sshd {
    child: Child,
    pub port: u16,
    /// `HOME` of those who log in.
    pub home: PathBuf,
    /// What `-e` needs to get there.
    pub rsh: String,
    directory: PathBuf,
}

impl Sshd {
    /// With a `thalweg` on the path of those who log in. `None`, with the reason told, where there is no sshd.
    pub fn start(scratch: &Scratch) -> Option<Sshd> {
        Sshd::start_with(scratch, true, &[])
    }

    /// `more`: lines for its configuration.
    pub fn start_with(scratch: &Scratch, has_thalweg: bool, more: &[&str]) -> Option<Sshd> {
        if !Path::new(PROGRAM).exists() {
            skipped("ssh", &format!("no {PROGRAM} (openssh-server)"));
            return None;
        }
        let directory = scratch.path("sshd");
        let (home, bin) = (directory.join("home"), directory.join("bin"));
        for made in [&home, &bin, &directory.join("cache"), &directory.join("tmp")] {
            std::fs::create_dir_all(made).expect("a directory for sshd");
        }
        // As root it wants this place, which packages make at boot.
        let _ = std::fs::create_dir_all("/run/sshd");
        if has_thalweg {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_thalweg"), bin.join("thalweg")).expect("a link");
        }
        for name in ["host-key", "user-key"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(directory.join(name))
                .status()
                .expect("ssh-keygen");
            assert!(made.success());
        }
        std::fs::copy(directory.join("user-key.pub"), directory.join("authorized")).expect("authorized keys");
        let own_path = std::env::var("PATH").unwrap_or_default();
        // The programs of the machine, but no thalweg that somebody installed.
        let path: Vec<&str> =
            own_path.split(':').filter(|entry| !Path::new(entry).join("thalweg").exists()).collect();
        let at = |name: &str| directory.join(name).display().to_string();
        let (mut child, mut port) = (None, 0);
        for _ in 0..5 {
            port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
            let mut config = vec![
                format!("Port {port}"),
                "ListenAddress 127.0.0.1".into(),
                format!("HostKey {}", at("host-key")),
                format!("AuthorizedKeysFile {}", at("authorized")),
                "PidFile none".into(),
                "StrictModes no".into(),
                "UsePAM no".into(),
                "PasswordAuthentication no".into(),
                "KbdInteractiveAuthentication no".into(),
                "PermitRootLogin yes".into(),
                "PrintMotd no".into(),
                "MaxStartups 100".into(),
                "LogLevel VERBOSE".into(),
                // sshd takes the first SetEnv line only.
                format!(
                    "SetEnv HOME=\"{}\" PATH=\"{}:{}\" XDG_CACHE_HOME=\"{}\" TMPDIR=\"{}\" THALWEG_STATE=\"{}\" THALWEG_LOG=info",
                    home.display(),
                    bin.display(),
                    path.join(":"),
                    at("cache"),
                    at("tmp"),
                    at("far-state"),
                ),
            ];
            config.extend(more.iter().map(ToString::to_string));
            std::fs::write(directory.join("config"), config.join("\n") + "\n").expect("its configuration");
            let mut started = Command::new(PROGRAM)
                .args(["-D", "-f"])
                .arg(directory.join("config"))
                .arg("-E")
                .arg(directory.join("log"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("sshd");
            let until = Instant::now() + Duration::from_secs(60);
            while Instant::now() < until && matches!(started.try_wait(), Ok(None)) {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    child = Some(started);
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            if child.is_some() {
                break;
            }
            // Somebody else took the port in between.
        }
        let Some(child) = child else {
            panic!(
                "sshd did not start: {}",
                std::fs::read_to_string(directory.join("log")).unwrap_or_default()
            );
        };
        for (name, mode) in [("user-key", 0o600), ("host-key", 0o600)] {
            let _ = std::fs::set_permissions(directory.join(name), std::fs::Permissions::from_mode(mode));
        }
        let rsh = format!(
            "ssh -F none -i '{}' -o IdentitiesOnly=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
             -o LogLevel=ERROR -o BatchMode=yes",
            at("user-key")
        );
        Some(Sshd { child, port, home, rsh, directory })
    }

    /// `ssh://127.0.0.1:PORT` and an absolute path.
    pub fn url(&self, path: &Path) -> String {
        format!("ssh://127.0.0.1:{}{}", self.port, path.display())
    }

    /// A file in the cache of those who log in.
    pub fn cache(&self) -> PathBuf {
        self.directory.join("cache")
    }

    /// A place on their path.
    pub fn bin(&self) -> PathBuf {
        self.directory.join("bin")
    }

    /// How often somebody logged in.
    pub fn logins(&self) -> usize {
        let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        log.lines().filter(|line| line.contains("Accepted publickey")).count()
    }

    /// Movers and bridges that this sshd started and that still run.
    pub fn movers(&self) -> Vec<u32> {
        self.running("mover")
    }

    /// What this sshd, or what it started, started with this word and still runs.
    pub fn running(&self, word: &str) -> Vec<u32> {
        let state = format!("THALWEG_STATE={}", self.directory.join("far-state").display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let is_ours = read("environ").split(|&b| b == 0).any(|variable| variable == state.as_bytes());
            if is_ours && read("cmdline").split(|&b| b == 0).any(|said| said == word.as_bytes()) {
                found.push(pid);
            }
        }
        found
    }

    /// Processes of ssh that log in here, or did, and still run.
    pub fn clients(&self) -> Vec<u32> {
        let key = self.directory.join("user-key");
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if words.split(|&b| b == 0).any(|word| word == key.as_os_str().as_bytes()) {
                found.push(pid);
            }
        }
        found
    }

    /// Waits until no mover is left.
    pub fn assert_no_movers(&self, within: Duration) {
        let until = Instant::now() + within;
        while !self.movers().is_empty() {
            assert!(Instant::now() < until, "still there: {:?}", self.movers());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.movers().into_iter().chain(self.running("deputy")) {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    }
}
