//! The store: versitygw, with a directory for each bucket and a file for each object; by https, with a certificate of
//! an authority that is made for the run.

use crate::bench::control_group::Group;
use crate::bench::workspace::{Times, Workspace};
use crate::{command, servers, stores};
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// Where it is, if nobody says.
const HERE: &str = "127.0.0.1";
const REGION: &str = "us-east-1";
/// Who may do everything there.
const KEY: &str = "AKIDOFTHEBENCH";
const SECRET: &str = "a-secret-of-the-bench";

/// Of the keys of all objects.
pub const PREFIX: &str = "data";
/// What rclone calls the store.
pub const REMOTE: &str = "store";

/// Files in its directory: the authority's certificate, what aws-cli is told, a line for each request.
pub const CA: &str = "ca.pem";
pub const AWS_CONFIG: &str = "aws-config";
const LOG: &str = "requests.log";

/// Without what the example has for a slow line and for Amazon's own network. A checksum that follows the content is
/// for Amazon's own store: the one here cannot read a few of such requests.
const AWS_SETTINGS: &str = "[default]\nrequest_checksum_calculation = when_required\ns3 =\n  max_concurrent_requests = 20\n  max_queue_size = 10000\n  \
                            multipart_threshold = 64MB\n  multipart_chunksize = 16MB\n  addressing_style = path\n";

/// What certificates hold; behind the last name stands the host. Strict programs want to be told whose key signed, and
/// what each key is for.
const EXTENSIONS: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:";

/// It ends with the value.
pub struct Store {
    child: Child,
    /// It alone is in it.
    group: Group,
    directory: PathBuf,
    /// Of the buckets.
    root: PathBuf,
    host: String,
    port: u16,
}

/// What a tool took, and the store meanwhile.
pub struct Took {
    /// CPU seconds are those of the tool.
    pub times: Times,
    pub store_cpu_s: f64,
    pub requests: u64,
}

impl Store {
    /// Starts it on the loopback.
    ///
    /// # Errors
    /// If it is not there, or does not start.
    pub fn start(workspace: &Workspace) -> Result<Store> {
        Self::start_at(HERE, workspace, |command| command)
    }

    /// The same, at an address that may be another network's; `enter` may put a program around it.
    ///
    /// # Errors
    /// As [`Store::start`].
    pub fn start_at(host: &str, workspace: &Workspace, enter: impl Fn(Command) -> Command) -> Result<Store> {
        let program = stores::home().join("bin/versitygw");
        ensure!(program.exists(), "there is no {}", program.display());
        let (directory, root) = (workspace.directory("store")?, workspace.directory("buckets")?);
        certify(&directory, host)?;
        fs::write(directory.join(AWS_CONFIG), AWS_SETTINGS)?;
        let group = Group::named("-store")?;
        let port = servers::free_port()?;
        let mut command = Command::new(program);
        command.env("ROOT_ACCESS_KEY", KEY).env("ROOT_SECRET_KEY", SECRET);
        // By default it hangs up after each request, and what is measured would be handshakes.
        command.args(["--keep-alive", "--quiet", "--port", &format!("{host}:{port}")]);
        for (option, file) in [("--access-log", LOG), ("--cert", "server.pem"), ("--key", "server.key")] {
            command.arg(option).arg(directory.join(file));
        }
        command.arg("posix").arg(&root);
        let enter = |command| group.enter(enter(command));
        let child = servers::start(command, (host, port), "versitygw", enter)?;
        Ok(Store { child, group, directory, root, host: host.to_owned(), port })
    }

    /// Makes a bucket; where its objects will be, as files.
    ///
    /// # Errors
    /// What the file system says.
    pub fn make_bucket(&self, name: &str) -> Result<PathBuf> {
        let bucket = self.root.join(name);
        fs::create_dir(&bucket)?;
        Ok(bucket.join(PREFIX))
    }

    /// The command with all that tools want to know of the store in its environment, and nothing of the user's own;
    /// besides, variables with the files of the store's directory that they name.
    pub fn told_to(&self, mut command: Command, files: &[(&str, &str)]) -> Command {
        for (name, _) in std::env::vars_os() {
            let name_bytes = name.as_encoded_bytes();
            if ["AWS_", "RCLONE_", "S3_"].iter().any(|family| name_bytes.starts_with(family.as_bytes())) {
                command.env_remove(&name);
            }
        }
        let endpoint = format!("https://{}:{}", self.host, self.port);
        command.env("HOME", &self.directory);
        for name in ["AWS_ENDPOINT_URL", "S3_ENDPOINT_URL"] {
            command.env(name, &endpoint);
        }
        for name in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
            command.env(name, REGION);
        }
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        let of_rclone = [
            ("TYPE", "s3"),
            ("PROVIDER", "Other"),
            ("ENDPOINT", endpoint.as_str()),
            ("REGION", REGION),
            ("ACCESS_KEY_ID", KEY),
            ("SECRET_ACCESS_KEY", SECRET),
        ];
        for (name, value) in of_rclone {
            command.env(format!("RCLONE_CONFIG_{}_{name}", REMOTE.to_uppercase()), value);
        }
        for (name, file) in files {
            command.env(name, self.directory.join(file));
        }
        command
    }

    /// Runs a command as [`Workspace::time`] does, and looks at what the store did meanwhile.
    ///
    /// # Errors
    /// If it fails.
    pub fn time(&self, workspace: &Workspace, command: Command, synced: Option<&Path>) -> Result<Took> {
        let log = self.directory.join(LOG);
        // The store appends to it.
        fs::OpenOptions::new().write(true).open(&log)?.set_len(0)?;
        let cpu = self.group.cpu()?;
        let times = workspace.time(command, synced)?;
        let store_cpu_s = (self.group.cpu()? - cpu).as_secs_f64();
        let requests = fs::read_to_string(&log)?.lines().count() as u64;
        Ok(Took { times, store_cpu_s, requests })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        servers::end(&mut self.child);
    }
}

/// Makes an authority, and the certificate of the store at this host.
fn certify(directory: &Path, host: &str) -> Result<()> {
    fs::write(directory.join("extensions"), format!("{EXTENSIONS}{host}\n"))?;
    let openssl = |words: &str| -> Result<String> {
        let mut command = Command::new("openssl");
        command::says(command.args(words.split_whitespace()).current_dir(directory))
    };
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -config extensions";
    openssl(&format!("req -x509 {new} -keyout ca.key -out {CA} -days 2 -subj /CN=ca -extensions authority"))?;
    openssl(&format!("req {new} -keyout server.key -out server.csr -subj /CN=store"))?;
    let signed = format!("-CA {CA} -CAkey ca.key -CAcreateserial -days 2 -sha256 -out server.pem");
    openssl(&format!("x509 -req -in server.csr {signed} -extfile extensions -extensions server"))?;
    Ok(())
}
