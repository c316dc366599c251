//! Servers that chores copy to and from: a daemon of ours, and a real sshd, each on a port of its own.

use crate::command;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// `thalweg serve`; ends with the value.
pub struct Daemon {
    child: Child,
    /// `127.0.0.1:PORT`, or what it was started at.
    pub address: String,
    /// What clients need.
    pub ticket: PathBuf,
}

impl Daemon {
    /// Starts it with these exports (`NAME=DIR` or `NAME=DIR:ro`); `enter` may put a program around it.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(
        thalweg: &Path,
        scratch: &Scratch,
        exports: &[String],
        enter: impl Fn(Command) -> Command,
    ) -> Result<Daemon> {
        Self::start_at(&format!("127.0.0.1:{}", free_port()?), thalweg, scratch, exports, enter)
    }

    /// The same, at an address that may be another network's.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_at(
        address: &str,
        thalweg: &Path,
        scratch: &Scratch,
        exports: &[String],
        enter: impl Fn(Command) -> Command,
    ) -> Result<Daemon> {
        let ticket = scratch.path(&format!("ticket-{}", address.replace([':', '.'], "-")));
        let mut command = Command::new(thalweg);
        command.args(["serve", "--listen", address, "--ticket-file"]).arg(&ticket);
        for export in exports {
            command.args(["--export", export]);
        }
        // One has a state directory for itself.
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let state = format!("server-state-{}", STARTED.fetch_add(1, Ordering::Relaxed));
        command.env("THALWEG_STATE", scratch.path(&state));
        // One of an earlier daemon would not be believed by this one.
        let _ = fs::remove_file(&ticket);
        let mut command = enter(command);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("starting the daemon")?;
        let mut daemon = Daemon { child, address: address.to_owned(), ticket };
        let until = Instant::now() + PATIENCE;
        // Written when it listens.
        while !daemon.ticket.exists() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("the daemon ended with {status}");
            }
            ensure!(Instant::now() < until, "the daemon wrote no ticket");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, and waits until it has.
    ///
    /// # Errors
    /// If it does not.
    pub fn stop(mut self) -> Result<()> {
        command::run(Command::new("kill").arg(self.child.id().to_string()))?;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the daemon did not stop within {} s", PATIENCE.as_secs());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// An sshd that lets in whoever runs the chore; ends with the value.
pub struct Sshd {
    child: Child,
    port: u16,
    key: PathBuf,
}

impl Sshd {
    /// Starts it; `enter` may put a program around it.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(scratch: &Scratch, enter: impl Fn(Command) -> Command) -> Result<Sshd> {
        Self::start_at("127.0.0.1", scratch, enter)
    }

    /// The same, at a host that may be another network's.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_at(host: &str, scratch: &Scratch, enter: impl Fn(Command) -> Command) -> Result<Sshd> {
        let (key, host_key) = (scratch.path("user-key"), scratch.path("host-key"));
        // A scratch directory sees several sshds, one after the other, with the same keys.
        for key in [&key, &host_key].into_iter().filter(|key| !key.exists()) {
            command::run(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(key))?;
        }
        let port = free_port()?;
        let config = scratch.path("sshd_config");
        let lines = [
            format!("ListenAddress {host}:{port}"),
            format!("HostKey {}", host_key.display()),
            format!("AuthorizedKeysFile {}", key.with_extension("pub").display()),
            format!("SetEnv THALWEG_STATE=\"{}\"", scratch.path("far-state").display()),
            "StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nSubsystem sftp internal-sftp\n"
                .to_owned(),
        ];
        fs::write(&config, lines.join("\n"))?;
        // As root it wants this place, which packages make at boot.
        let _ = fs::create_dir_all("/run/sshd");
        let mut command = Command::new("/usr/sbin/sshd");
        command.args(["-D", "-f"]).arg(&config);
        let child = start(command, (host, port), "sshd (openssh-server)", enter)?;
        Ok(Sshd { child, port, key })
    }

    /// The ssh that gets there, for `-e`. Its options are such that scp takes them as well.
    pub fn rsh(&self) -> String {
        format!(
            "ssh -F none -o Port={} -i {} -o IdentitiesOnly=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes",
            self.port,
            self.key.display()
        )
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Starts a server and waits until it listens there: asked from where it runs, which may be another network.
///
/// # Errors
/// If it cannot be started, ends, or does not listen in time.
pub fn start(
    command: Command,
    (host, port): (&str, u16),
    name: &str,
    enter: impl Fn(Command) -> Command,
) -> Result<Child> {
    let mut command = enter(command);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    let is_listening = || {
        let mut connect = Command::new("bash");
        connect.args(["-c", "exec 3<>\"/dev/tcp/$0/$1\"", host, &port.to_string()]);
        let mut connect = enter(connect);
        connect.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        connect.status().is_ok_and(|status| status.success())
    };
    let until = Instant::now() + PATIENCE;
    while !is_listening() {
        if let Some(status) = child.try_wait()? {
            bail!("{name} ended with {status}");
        }
        if Instant::now() > until {
            end(&mut child);
            bail!("{name} does not listen at {host}:{port}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(child)
}

/// A program in the background, of which nobody waits for the end; it ends with the value.
pub struct Running(Child);

impl Running {
    /// Starts it; `name` is for errors.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(mut command: Command, name: &str) -> Result<Running> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Ok(Running(child.with_context(|| format!("starting {name}"))?))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Whether it ended by itself.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn is_over(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// A port that nobody uses now.
///
/// # Errors
/// If there is none.
pub fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Ends a child and waits for it.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
