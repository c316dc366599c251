//! The tools, ours and others', and the servers that they copy to. All servers run in the control group.
//!
//! A tool copies the contents of a directory into a new directory below the export. What each protects and keeps is
//! said in [`TOOLS`] and printed beside the figures; nothing is switched off that a tool does by default, and nobody
//! compresses.

use crate::bench::workspace::Workspace;
use crate::servers::{self, Daemon, Sshd};
use crate::{command, trees};
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use thalweg_lab::wrap::wrap;

/// One way to copy.
pub struct Tool {
    pub name: &'static str,
    /// Where it copies to.
    server: Server,
    /// Others' Debian package, and the program that shows that it is there.
    package: Option<(&'static str, &'static str)>,
    /// What is encrypted.
    pub encrypts: &'static str,
    /// What is compared, beyond TCP's checksums.
    pub verifies: &'static str,
    pub keeps: Keeps,
    command: fn(&Servers<'_>, &Job<'_>) -> Result<Command>,
}

/// What a tool keeps of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Owners, modes, times, links, attributes.
    Everything,
    Content,
}

/// One copy.
pub struct Job<'a> {
    pub source: &'a Path,
    /// Below the export; its parent exists.
    pub destination: &'a Path,
    pub has_many_files: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Server {
    Thalweg,
    Ssh,
    Rsync,
    GridFtp,
    Xrootd,
    XrootdTls,
    Webdav,
    Sftp,
    /// The far end is started with each copy.
    Own,
}

/// What is said of a tool that does not encrypt.
pub const ENCRYPTS_NOTHING: &str = "nothing";
const DIGESTS: &str = "BLAKE3 of each chunk, source to received bytes";
const CHECKSUMS: &str = "a checksum of each file, source to received bytes";
const MAC: &str = "authenticated records";
const FRAMES: &str = "AES-128-GCM";
const SSH: &str = "ssh's cipher";
const RSYNC: (&str, &str) = ("rsync", "/usr/bin/rsync");
const OPENSSH: (&str, &str) = ("openssh-server", "/usr/sbin/sshd");
const SOCAT: (&str, &str) = ("socat", "/usr/bin/socat");
const GRIDFTP: (&str, &str) = ("globus-gridftp-server-progs", "/usr/sbin/globus-gridftp-server");
const XROOTD: (&str, &str) = ("xrootd-server", "/usr/bin/xrootd");
const RCLONE: (&str, &str) = ("rclone", "/usr/bin/rclone");

/// Clients and servers of all of [`TOOLS`], and what makes paths; each package with a program that shows that it is
/// there.
pub const PACKAGES: [(&str, &str); 12] = [
    RSYNC,
    OPENSSH,
    ("openssh-client", "/usr/bin/ssh"),
    SOCAT,
    GRIDFTP,
    ("globus-gass-copy-progs", "/usr/bin/globus-url-copy"),
    XROOTD,
    ("xrootd-client", "/usr/bin/xrdcp"),
    RCLONE,
    ("openssl", "/usr/bin/openssl"),
    ("iperf3", "/usr/bin/iperf3"),
    ("iproute2", "/sbin/tc"),
];

/// All of them.
pub const TOOLS: [Tool; 16] = [
    Tool {
        name: "thalweg daemon",
        server: Server::Thalweg,
        package: None,
        encrypts: FRAMES,
        verifies: DIGESTS,
        keeps: Keeps::Everything,
        command: |servers, job| {
            let daemon = servers.thalweg()?;
            let mut command = servers.workspace.thalweg();
            command.args(["cp", "-q", "--ticket"]).arg(&daemon.ticket);
            command.args([contents(job.source), format!("tw://{}/bench/{}", daemon.address, name(job)?)]);
            Ok(command)
        },
    },
    Tool {
        name: "thalweg ssh",
        server: Server::Ssh,
        package: Some(OPENSSH),
        encrypts: FRAMES,
        verifies: DIGESTS,
        keeps: Keeps::Everything,
        command: |servers, job| {
            let mut command = servers.workspace.thalweg();
            command.args(["cp", "-q", "-e", &servers.sshd()?.rsh(), "--far-path"]);
            command.arg(&servers.workspace.thalweg).args([contents(job.source), servers.at_ssh(job)]);
            Ok(command)
        },
    },
    Tool {
        name: "rsync daemon",
        server: Server::Rsync,
        package: Some(RSYNC),
        encrypts: ENCRYPTS_NOTHING,
        verifies: CHECKSUMS,
        keeps: Keeps::Everything,
        command: |servers, job| {
            let mut command = Command::new("rsync");
            command.args(["-aHAXW", &contents(job.source)]);
            let port = servers.port(Server::Rsync)?;
            command.arg(format!("rsync://{}:{port}/bench/{}", servers.host, name(job)?));
            Ok(command)
        },
    },
    Tool {
        name: "rsync ssh",
        server: Server::Ssh,
        package: Some(RSYNC),
        encrypts: SSH,
        verifies: CHECKSUMS,
        keeps: Keeps::Everything,
        command: |servers, job| {
            let mut command = Command::new("rsync");
            command.args([
                "-aHAXW",
                "-e",
                &servers.sshd()?.rsh(),
                &contents(job.source),
                &servers.at_ssh(job),
            ]);
            Ok(command)
        },
    },
    Tool {
        name: "scp",
        server: Server::Ssh,
        package: Some(OPENSSH),
        encrypts: SSH,
        verifies: MAC,
        keeps: Keeps::Content,
        command: |servers, job| {
            let rsh = servers.sshd()?.rsh();
            let mut command = Command::new("scp");
            command
                .args(rsh.split_whitespace().skip(1))
                .args(["-q", "-r"])
                .arg(job.source)
                .arg(servers.at_ssh(job));
            Ok(command)
        },
    },
    Tool {
        name: "tar ssh",
        server: Server::Ssh,
        package: Some(OPENSSH),
        encrypts: SSH,
        verifies: MAC,
        keeps: Keeps::Content,
        command: |servers, job| {
            let mut command = Command::new("bash");
            command.args(["-o", "pipefail", "-c", TAR_SSH, "bash"]).args([job.source, job.destination]);
            command.args(servers.sshd()?.rsh().split_whitespace()).arg(&servers.host);
            Ok(command)
        },
    },
    Tool {
        name: "tar socket",
        server: Server::Own,
        package: Some(SOCAT),
        encrypts: ENCRYPTS_NOTHING,
        verifies: "nothing",
        keeps: Keeps::Content,
        command: |servers, job| {
            servers.must_be_here()?;
            tar_socket(job)
        },
    },
    Tool {
        name: "GridFTP",
        server: Server::GridFtp,
        package: Some(GRIDFTP),
        encrypts: ENCRYPTS_NOTHING,
        verifies: "nothing",
        keeps: Keeps::Content,
        command: |servers, job| gridftp(servers, job, "ftp", ("4", &[])),
    },
    Tool {
        name: "GridFTP, 8 at once",
        server: Server::GridFtp,
        package: Some(GRIDFTP),
        encrypts: ENCRYPTS_NOTHING,
        verifies: "nothing",
        keeps: Keeps::Content,
        command: |servers, job| gridftp(servers, job, "ftp", ("8", &[])),
    },
    Tool {
        name: "GridFTP checksums",
        server: Server::GridFtp,
        package: Some(GRIDFTP),
        encrypts: ENCRYPTS_NOTHING,
        verifies: "MD5 of each file, both sides read again",
        keeps: Keeps::Content,
        command: |servers, job| gridftp(servers, job, "ftp", ("4", &["-verify-checksum"])),
    },
    Tool {
        name: "GridFTP private",
        server: Server::GridFtp,
        package: Some(GRIDFTP),
        encrypts: "GSI (TLS)",
        verifies: MAC,
        keeps: Keeps::Content,
        command: |servers, job| gridftp(servers, job, "gsiftp", ("4", &["-dcpriv"])),
    },
    Tool {
        name: "GridFTP private checksums",
        server: Server::GridFtp,
        package: Some(GRIDFTP),
        encrypts: "GSI (TLS)",
        verifies: "MD5 of each file, both sides read again",
        keeps: Keeps::Content,
        command: |servers, job| gridftp(servers, job, "gsiftp", ("4", &["-dcpriv", "-verify-checksum"])),
    },
    Tool {
        name: "xrootd",
        server: Server::Xrootd,
        package: Some(XROOTD),
        encrypts: ENCRYPTS_NOTHING,
        verifies: "nothing",
        keeps: Keeps::Content,
        command: |servers, job| xrdcp(servers, job, "root", Server::Xrootd),
    },
    Tool {
        name: "xrootd TLS",
        server: Server::XrootdTls,
        package: Some(XROOTD),
        encrypts: "TLS",
        verifies: MAC,
        keeps: Keeps::Content,
        command: |servers, job| xrdcp(servers, job, "roots", Server::XrootdTls),
    },
    Tool {
        name: "rclone webdav",
        server: Server::Webdav,
        package: Some(RCLONE),
        encrypts: ENCRYPTS_NOTHING,
        verifies: "sizes",
        keeps: Keeps::Content,
        command: |servers, job| {
            let port = servers.port(Server::Webdav)?;
            let url = format!(":webdav,url='http://{}:{port}':{}", servers.host, name(job)?);
            Ok(rclone(servers.workspace, &["copy", &contents(job.source), &url]))
        },
    },
    Tool {
        name: "rclone sftp",
        server: Server::Sftp,
        package: Some(RCLONE),
        encrypts: SSH,
        verifies: "MD5 of each file, both sides read again",
        keeps: Keeps::Content,
        command: |servers, job| {
            let secret = command::says(&mut rclone(servers.workspace, &["obscure", RCLONE_SECRET]))?;
            let port = servers.port(Server::Sftp)?;
            let (host, name) = (&servers.host, name(job)?);
            let far = format!(":sftp,host={host},port={port},user=bench,pass={secret}:{name}");
            Ok(rclone(servers.workspace, &["copy", &contents(job.source), &far]))
        },
    },
];

/// Of the sftp server on loopback.
const RCLONE_SECRET: &str = "bench";

const TAR_SSH: &str = "from=$1 to=$2; shift 2; \
     tar -C \"$from\" -b 512 -cf - . | \"$@\" \"mkdir '$to' && tar -C '$to' -b 512 -xf -\"";

/// tar's output is the socket itself, and so is the far tar's input: nobody pumps between them.
const TAR_SOCKET: &str = "mkdir \"$2\"; \
     socat TCP-LISTEN:$3,bind=127.0.0.1,reuseaddr EXEC:\"tar -C $2 -b 512 -xf -\",nofork & \
     for try in $(seq 500); do \
       { exec 3>/dev/tcp/127.0.0.1/$3; } 2>/dev/null && break; sleep 0.005; \
     done; \
     tar -C \"$1\" -b 512 -cf - . >&3 && exec 3>&- && wait $!";

/// A tool by its name.
///
/// # Errors
/// If there is none.
pub fn tool(name: &str) -> Result<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name).with_context(|| format!("there is no tool `{name}`"))
}

impl Tool {
    /// One of ours: that it fails is a failure of the benchmark.
    pub fn is_ours(&self) -> bool {
        self.name.starts_with("thalweg")
    }

    /// The command that does it.
    ///
    /// # Errors
    /// If its server does not run.
    pub fn command(&self, servers: &Servers<'_>, job: &Job<'_>) -> Result<Command> {
        (self.command)(servers, job)
    }

    /// Compares the copy with its source, by what the tool keeps.
    ///
    /// # Errors
    /// If they differ.
    pub fn compare(&self, job: &Job<'_>) -> Result<()> {
        // Where a tool makes a directory of the source's name, that is the copy.
        let below = job.source.file_name().map(|name| job.destination.join(name));
        let below = below.filter(|below| job.has_many_files && below.is_dir());
        let destination = below.as_deref().unwrap_or(job.destination);
        match self.keeps {
            Keeps::Everything => trees::same_tree(job.source, destination),
            Keeps::Content => trees::same_content(job.source, destination),
        }
    }
}

fn contents(directory: &Path) -> String {
    format!("{}/", directory.display())
}

fn name<'a>(job: &Job<'a>) -> Result<&'a str> {
    job.destination.file_name().and_then(|name| name.to_str()).context("a name")
}

/// tar into a socket and out of it: nothing is encrypted, nothing compared.
///
/// # Errors
/// If there is no port.
pub fn tar_socket(job: &Job<'_>) -> Result<Command> {
    let mut command = Command::new("bash");
    command.args(["-c", TAR_SOCKET, "bash"]).args([job.source, job.destination]);
    command.arg(servers::free_port()?.to_string());
    Ok(command)
}

fn gridftp(
    servers: &Servers<'_>,
    job: &Job<'_>,
    scheme: &str,
    (at_once, options): (&str, &[&str]),
) -> Result<Command> {
    let certificates = servers.certificates()?;
    let host = if scheme == "ftp" { &servers.host } else { servers.certified()? };
    let mut command = Command::new("globus-url-copy");
    command.env("X509_CERT_DIR", certificates.directory());
    command.env("X509_USER_PROXY", certificates.path("user.proxy"));
    command.args(["-cd", "-r", "-fast"]);
    // Several files at once, commands in advance; or several streams for one file.
    match job.has_many_files {
        true => command.args(["-pp", "-cc", at_once]),
        false => command.args(["-p", at_once]),
    };
    command.args(options).arg(format!("file://{}", contents(job.source)));
    command.arg(format!("{scheme}://{host}:{}{}", servers.port(Server::GridFtp)?, contents(job.destination)));
    Ok(command)
}

fn xrdcp(servers: &Servers<'_>, job: &Job<'_>, scheme: &str, server: Server) -> Result<Command> {
    let mut command = Command::new("xrdcp");
    if let Some(certificates) = &servers.certificates {
        command.env("X509_CERT_DIR", certificates.directory());
    }
    // Only TLS wants a name, and that of its certificate.
    let is_far = scheme == "root" && servers.host != LOOPBACK;
    let host = if is_far { servers.host.as_str() } else { servers.certified()? };
    let port = servers.port(server)?;
    let far = format!("{scheme}://{host}:{port}/{}", job.destination.display());
    if job.has_many_files {
        // As many at once as others take. Of the directory it makes one of that name below the destination.
        command.args(["--silent", "--recursive", "--parallel", "4"]).arg(job.source).arg(format!("{far}/"));
        return Ok(command);
    }
    // A few files are named one by one.
    for file in trees::files_below(job.source)? {
        let name = file.file_name().context("a name")?.to_string_lossy().into_owned();
        command.args(["--silent", "--streams", "4"]).arg(&file).arg(format!("{far}/{name}"));
    }
    Ok(command)
}

fn rclone(workspace: &Workspace, words: &[&str]) -> Command {
    let mut command = Command::new("rclone");
    // A proxy of this machine leads nowhere from hosts of ours.
    command.env("NO_PROXY", "*");
    command.args(["--quiet", "--config"]).arg(workspace.scratch.path("rclone.conf")).args(words);
    command
}

/// Where servers are, unless they are told to be elsewhere.
const LOOPBACK: &str = "127.0.0.1";

/// The servers that some tools need; they end with the value.
pub struct Servers<'a> {
    workspace: &'a Workspace,
    /// Where they listen.
    host: String,
    enter: Box<dyn Fn(Command) -> Command + 'a>,
    daemon: Option<Daemon>,
    sshd: Option<Sshd>,
    others: HashMap<Server, (Child, u16)>,
    certificates: Option<Certificates>,
}

impl<'a> Servers<'a> {
    /// Starts what `tools` need, all with this export; what cannot be had is told as tools left out, with the reason.
    ///
    /// # Errors
    /// If a server of ours does not start.
    pub fn start<'t>(
        workspace: &'a Workspace,
        export: &Path,
        tools: &[&'t Tool],
    ) -> Result<(Servers<'a>, Vec<(&'t Tool, String)>)> {
        Self::start_at(LOOPBACK, workspace, export, tools, |command| workspace.group.enter(command))
    }

    /// The same at a host that may be another network's; `enter` puts each server there, and into the control group.
    ///
    /// # Errors
    /// If a server of ours does not start.
    pub fn start_at<'t>(
        host: &str,
        workspace: &'a Workspace,
        export: &Path,
        tools: &[&'t Tool],
        enter: impl Fn(Command) -> Command + 'a,
    ) -> Result<(Servers<'a>, Vec<(&'t Tool, String)>)> {
        // Some servers refuse to be root, and write as somebody else.
        fs::set_permissions(export, fs::Permissions::from_mode(0o777))?;
        let mut servers = Servers {
            workspace,
            host: host.to_owned(),
            enter: Box::new(enter),
            daemon: None,
            sshd: None,
            others: HashMap::new(),
            certificates: None,
        };
        let mut left_out = Vec::new();
        for tool in tools {
            let started = match tool.package {
                Some((package, program)) if !Path::new(program).exists() => {
                    Err(anyhow::anyhow!("{program} is not there (package {package})"))
                }
                _ => servers.ensure(tool.server, export),
            };
            match started {
                Err(error) if tool.is_ours() => return Err(error),
                Err(error) => left_out.push((*tool, format!("{error:#}"))),
                Ok(()) => {}
            }
        }
        Ok((servers, left_out))
    }

    fn thalweg(&self) -> Result<&Daemon> {
        self.daemon.as_ref().context("no daemon")
    }

    fn sshd(&self) -> Result<&Sshd> {
        self.sshd.as_ref().context("no sshd")
    }

    fn port(&self, server: Server) -> Result<u16> {
        let running = self.others.get(&server).with_context(|| format!("no server {server:?}"))?;
        Ok(running.1)
    }

    fn certificates(&self) -> Result<&Certificates> {
        self.certificates.as_ref().context("no certificates")
    }

    /// The name that certificates have for where the servers are.
    fn certified(&self) -> Result<&str> {
        self.must_be_here()?;
        Ok("localhost")
    }

    fn must_be_here(&self) -> Result<()> {
        ensure!(self.host == LOOPBACK, "it is measured over loopback only");
        Ok(())
    }

    fn at_ssh(&self, job: &Job<'_>) -> String {
        format!("{}:{}", self.host, job.destination.display())
    }

    fn ensure(&mut self, server: Server, export: &Path) -> Result<()> {
        let enter = |command| (self.enter)(command);
        let scratch = &self.workspace.scratch;
        match server {
            Server::Own => return Ok(()),
            Server::Thalweg if self.daemon.is_none() => {
                let exports = [format!("bench={}", export.display())];
                let address = format!("{}:{}", self.host, servers::free_port()?);
                let thalweg = &self.workspace.thalweg;
                self.daemon = Some(Daemon::start_at(&address, thalweg, scratch, &exports, enter)?);
            }
            Server::Ssh if self.sshd.is_none() => {
                self.sshd = Some(Sshd::start_at(&self.host, scratch, enter)?);
            }
            Server::Thalweg | Server::Ssh => {}
            _ if self.others.contains_key(&server) => {}
            _ => {
                let is_grid = matches!(server, Server::GridFtp | Server::Xrootd | Server::XrootdTls);
                if is_grid && self.certificates.is_none() {
                    self.certificates = Some(Certificates::make(self.workspace)?);
                }
                let port = servers::free_port()?;
                let command = self.command(server, port, export)?;
                let child = servers::start(command, (&self.host, port), &format!("{server:?}"), enter)?;
                self.others.insert(server, (child, port));
            }
        }
        Ok(())
    }

    fn command(&self, server: Server, port: u16, export: &Path) -> Result<Command> {
        let (scratch, shown, host) = (&self.workspace.scratch, export.display(), &self.host);
        let address = format!("{host}:{port}");
        Ok(match server {
            Server::Rsync => {
                let config = scratch.path(&format!("rsyncd-{port}.conf"));
                // A control group needs root, so the daemon is root's, and would change its user without these.
                let users = "uid = root\ngid = root";
                let text = format!("use chroot = no\n{users}\n[bench]\npath = {shown}\nread only = no\n");
                fs::write(&config, text)?;
                let mut command = Command::new("rsync");
                command.args(["--daemon", "--no-detach", &format!("--address={host}")]);
                command.arg(format!("--port={port}")).arg(format!("--config={}", config.display()));
                command
            }
            Server::GridFtp => {
                let certificates = self.certificates()?;
                let mut command = as_nobody("/usr/sbin/globus-gridftp-server");
                command.env("X509_CERT_DIR", certificates.directory());
                command.env("X509_USER_CERT", certificates.path("server.pem"));
                command.env("X509_USER_KEY", certificates.path("server.key"));
                command.env("GRIDMAP", certificates.path("gridmap"));
                if self.host != LOOPBACK {
                    // It asks for the machine's name, which nobody in a host of ours knows.
                    command.env("GLOBUS_HOSTNAME", host);
                }
                command.args(["-aa", "-p", &port.to_string()]);
                command.args(["-control-interface", host, "-data-interface", host]);
                command
            }
            Server::Xrootd | Server::XrootdTls => {
                let own = self.workspace.directory(&format!("{server:?}"))?;
                fs::set_permissions(&own, fs::Permissions::from_mode(0o777))?;
                let mut lines = vec![
                    format!("all.export {shown}"),
                    format!("all.adminpath {}", own.display()),
                    format!("all.pidpath {}", own.display()),
                ];
                if server == Server::XrootdTls {
                    let certificates = self.certificates()?;
                    let (key, certificate) =
                        (certificates.path("server.key"), certificates.path("server.pem"));
                    lines.push(format!("xrd.tls {} {}", certificate.display(), key.display()));
                    lines.push(format!("xrd.tlsca certdir {}", certificates.directory().display()));
                    lines.push("xrootd.tls all".to_owned());
                }
                let config = own.join("xrootd.cfg");
                fs::write(&config, lines.join("\n") + "\n")?;
                let mut command = as_nobody("/usr/bin/xrootd");
                command.arg("-c").arg(&config).args(["-p", &port.to_string(), "-l"]).arg(own.join("log"));
                // It does not start without the machine's name, which nobody in a host of ours knows.
                if self.host == LOOPBACK { command } else { named(host, &command) }
            }
            Server::Webdav => {
                rclone(self.workspace, &["serve", "webdav", &shown.to_string(), "--addr", &address])
            }
            Server::Sftp => {
                let login = ["--user", "bench", "--pass", RCLONE_SECRET];
                let mut command =
                    rclone(self.workspace, &["serve", "sftp", &shown.to_string(), "--addr", &address]);
                command.args(login);
                command
            }
            Server::Thalweg | Server::Ssh | Server::Own => anyhow::bail!("{server:?} is not started here"),
        })
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for (child, _) in self.others.values_mut() {
            servers::end(child);
        }
    }
}

fn as_nobody(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups", program]);
    command
}

/// The command on a machine of this name, which may be an address: whoever asks for the machine's own finds that.
fn named(name: &str, command: &Command) -> Command {
    let mut unshare = Command::new("unshare");
    let script = "echo \"$0\" > /proc/sys/kernel/hostname && exec \"$@\"";
    unshare.args(["--uts", "sh", "-c", script, name]);
    wrap(unshare, command)
}

/// An authority, a server and a user, as grid tools want them.
struct Certificates(PathBuf);

impl Certificates {
    fn make(workspace: &Workspace) -> Result<Certificates> {
        let own = Certificates(workspace.directory("certificates")?);
        let openssl = |words: &str| -> Result<String> {
            let mut command = Command::new("openssl");
            command::says(command.args(words.split_whitespace()).current_dir(&own.0))
        };
        // RSA: GSI signs its proxies with nothing else.
        let new = "-newkey rsa:2048 -nodes";
        openssl(&format!("req -x509 {new} -keyout ca.key -out ca.pem -days 2 -subj /O=bench/CN=ca"))?;
        let extensions = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n\
                          keyUsage=digitalSignature,keyEncipherment\n";
        fs::write(own.path("extensions"), extensions)?;
        for (file, subject) in [("server", "localhost"), ("user", "user")] {
            openssl(&format!("req {new} -keyout {file}.key -out {file}.csr -subj /O=bench/CN={subject}"))?;
            let signed = format!("-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -sha256 -out {file}.pem");
            openssl(&format!("x509 -req -in {file}.csr {signed} -extfile extensions"))?;
        }
        let hash = openssl("x509 -hash -noout -in ca.pem")?;
        // A suite with several scenarios starts its servers for each of them.
        let _ = fs::remove_dir_all(own.directory());
        fs::create_dir(own.directory())?;
        fs::copy(own.path("ca.pem"), own.directory().join(format!("{hash}.0")))?;
        let policy = "access_id_CA X509 '/O=bench/CN=ca'\npos_rights globus CA:sign\n\
                      cond_subjects globus '\"/O=bench/*\"'\n";
        fs::write(own.directory().join(format!("{hash}.signing_policy")), policy)?;
        fs::write(own.path("gridmap"), "\"/O=bench/CN=user\" nobody\n")?;
        let proxy = [fs::read(own.path("user.pem"))?, fs::read(own.path("user.key"))?].concat();
        fs::write(own.path("user.proxy"), proxy)?;
        for secret in ["user.proxy", "server.key"] {
            fs::set_permissions(own.path(secret), fs::Permissions::from_mode(0o600))?;
        }
        for file in ["server.key", "server.pem"] {
            command::run(Command::new("chown").arg("nobody:nogroup").arg(own.path(file)))?;
        }
        Ok(own)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Of authorities, for both sides.
    fn directory(&self) -> PathBuf {
        self.path("authorities")
    }
}
