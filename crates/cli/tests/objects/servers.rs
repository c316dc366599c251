//! Object stores that run for a test, each on a port of its own, and what is in them without us.

use super::support::chance::skipped;
use super::support::job::{Ran, Running};
use super::support::{Scratch, wait_until};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rusty_s3::actions::{ListObjectsV2, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use std::ffi::OsStr;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The bucket that each server has.
pub const BUCKET: &str = "data";

/// Who may do everything there.
pub const KEY: &str = "AKIDOFATEST";
pub const SECRET: &str = "a-secret-of-the-test";

/// A server that has not begun by then never will.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest that a copy may run before it is taken to hang.
const HANG: Duration = Duration::from_secs(300);
/// An URL of ours is good for so long.
const SIGNED_FOR: Duration = Duration::from_secs(600);
/// More than any object here has.
const OBJECT_BYTES_MAX: u64 = 256 << 20;

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A gateway to a file system, which checks signatures.
    Versity,
    /// A store in memory, which takes every key and checks no signature.
    Moto,
}

/// A server that ends with the value, with a bucket and a scratch directory.
pub struct Server {
    child: Child,
    pub kind: Kind,
    pub scratch: Scratch,
    pub endpoint: String,
    /// The authority of its certificate, if it speaks TLS.
    pub ca: Option<PathBuf>,
}

/// Runs a test with each server that is there.
pub fn each(row: &str, test: impl Fn(&Server)) {
    for kind in [Kind::Versity, Kind::Moto] {
        with(kind, row, &test);
    }
}

/// Runs a test with one server, if it is there.
pub fn with(kind: Kind, row: &str, test: impl Fn(&Server)) {
    if let Some(server) = Server::start(kind, row) {
        test(&server);
    }
}

/// Where `cargo xtask test` puts them.
fn program(kind: Kind) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_thalweg"));
    let stores = built.ancestors().nth(2).expect("a directory of builds").join("stores");
    stores.join(match kind {
        Kind::Versity => "bin/versitygw",
        Kind::Moto => "venv/bin/moto_server",
    })
}

impl Server {
    /// `None`, with the reason told, where there is no such server. In CI that is a failure.
    pub fn start(kind: Kind, row: &str) -> Option<Server> {
        let scratch = Scratch::new();
        if !program(kind).exists() {
            let why = format!("no {} (`cargo xtask test` installs it)", program(kind).display());
            assert!(std::env::var_os("CI").is_none(), "{row}: {why}");
            skipped(row, &why);
            return None;
        }
        let (child, port) = begin(kind, &scratch, &[], None);
        let endpoint = format!("http://127.0.0.1:{port}");
        let server = Server { child, kind, scratch, endpoint, ca: None };
        let url = server.bucket().create_bucket(&credentials()).sign(SIGNED_FOR);
        let status = server.agent().put(url.as_str()).send_empty().expect("an answer").status().as_u16();
        assert!((200..300).contains(&status), "the bucket is not made: {status}");
        Some(server)
    }

    /// The same data behind TLS, with a certificate of an authority that only this test knows.
    pub fn with_tls(mut self) -> Server {
        self.end();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key_pair = || KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let authority = CertifiedIssuer::self_signed(params, key_pair()).unwrap();
        let own = key_pair();
        let named = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = named.signed_by(&own, &authority).unwrap();
        let files = ["ca.pem", "server.pem", "server.key"].map(|name| self.scratch.path(name));
        std::fs::write(&files[0], authority.pem()).unwrap();
        std::fs::write(&files[1], certificate.pem()).unwrap();
        std::fs::write(&files[2], own.serialize_pem()).unwrap();
        let [ca, certificate, key] = files;
        let more = ["--cert".into(), certificate.into_os_string(), "--key".into(), key.into_os_string()];
        let (child, port) = begin(self.kind, &self.scratch, &more, None);
        self.child = child;
        self.endpoint = format!("https://127.0.0.1:{port}");
        self.ca = Some(ca);
        self
    }

    /// The program, with this store as its AWS. Nothing of the user's own AWS is seen.
    pub fn thalweg(&self) -> Command {
        let mut command = self.scratch.thalweg();
        for (name, _) in std::env::vars_os() {
            if name.as_bytes().starts_with(b"AWS_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.scratch.root());
        command.env("AWS_ENDPOINT_URL", &self.endpoint).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// Starts it.
    pub fn begin<S: AsRef<OsStr>>(&self, words: &[S]) -> Running {
        let mut command = self.thalweg();
        command.args(words);
        Running::start(command)
    }

    /// Runs it to its end.
    pub fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Ran {
        self.begin(words).end(HANG)
    }

    /// As [`Server::run`]; it must end with 0.
    #[track_caller]
    pub fn ok<S: AsRef<OsStr>>(&self, words: &[S]) -> Ran {
        self.run(words).expect(0)
    }

    /// `s3://BUCKET/KEY`.
    pub fn place(&self, key: &str) -> String {
        format!("s3://{BUCKET}/{key}")
    }

    /// Where the objects of the bucket are files.
    pub fn files(&self) -> PathBuf {
        assert_eq!(self.kind, Kind::Versity, "the other keeps them in memory");
        self.scratch.path("store").join(BUCKET)
    }

    pub fn path(&self, name: &str) -> String {
        self.scratch.path(name).display().to_string()
    }

    /// Puts an object, without us.
    pub fn put(&self, key: &str, content: &[u8]) {
        let url = self.bucket().put_object(Some(&credentials()), key).sign(SIGNED_FOR);
        let status = self.agent().put(url.as_str()).send(content).expect("an answer").status().as_u16();
        assert_eq!(status, 200, "{key}");
    }

    /// Puts one under a key that URLs of ours cannot hold. Only where signatures are not checked.
    pub fn put_raw(&self, key: &str, content: &[u8]) {
        let url = format!("{}/{BUCKET}/{key}", self.endpoint);
        let status = self.agent().put(&url).send(content).expect("an answer").status().as_u16();
        assert_eq!(status, 200, "{key}");
    }

    /// What an object has, without us.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let url = self.bucket().get_object(Some(&credentials()), key).sign(SIGNED_FOR);
        let mut response = self.agent().get(url.as_str()).call().expect("an answer");
        let is_there = response.status().as_u16() == 200;
        is_there.then(|| {
            response.body_mut().with_config().limit(OBJECT_BYTES_MAX).read_to_vec().expect("its content")
        })
    }

    /// Keys and ETags of all objects, without us.
    pub fn objects(&self) -> Vec<(String, String)> {
        let (bucket, credentials, mut all) = (self.bucket(), credentials(), Vec::new());
        let mut after: Option<String> = None;
        loop {
            let mut list = ListObjectsV2::new(&bucket, Some(&credentials));
            if let Some(after) = after.take() {
                list.with_continuation_token(after);
            }
            let url = list.sign(SIGNED_FOR);
            let mut answer = self.agent().get(url.as_str()).call().expect("an answer");
            let text = answer.body_mut().read_to_string().expect("a list");
            let page = ListObjectsV2::parse_response(&text).expect("a list");
            all.extend(page.contents.into_iter().map(|one| (one.key, one.etag.unwrap_or_default())));
            match page.next_continuation_token {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }

    /// Keys of all objects, without us.
    pub fn keys(&self) -> Vec<String> {
        self.objects().into_iter().map(|(key, _)| key).collect()
    }

    /// Bytes of uploads that were not completed.
    pub fn unfinished_bytes(&self) -> u64 {
        let told = self.run(&["gc", "--json", &self.place("")]);
        let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
        told.stdout.lines().filter_map(event).filter_map(|event| event["bytes"].as_u64()).sum()
    }

    fn bucket(&self) -> Bucket {
        let endpoint = self.endpoint.parse().expect("a URL");
        Bucket::new(endpoint, UrlStyle::Path, BUCKET, "us-east-1").expect("a bucket")
    }

    fn agent(&self) -> ureq::Agent {
        ureq::Agent::new_with_config(ureq::Agent::config_builder().http_status_as_error(false).build())
    }

    /// Starts it again where it was, with what it had on disk.
    pub fn start_again(&mut self) {
        let port = self.endpoint.rsplit(':').next().and_then(|port| port.parse().ok());
        self.child = begin(self.kind, &self.scratch, &[], port).0;
    }

    /// Kills it.
    pub fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn credentials() -> Credentials {
    Credentials::new(KEY, SECRET)
}

/// Starts the program, and waits until it listens; on any port, if it is not said on which.
fn begin(kind: Kind, scratch: &Scratch, more: &[std::ffi::OsString], port: Option<u16>) -> (Child, u16) {
    let root = scratch.path("store");
    std::fs::create_dir_all(&root).unwrap();
    for _ in 0..5 {
        let any =
            || TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
        let port = port.unwrap_or_else(any);
        let mut command = Command::new(program(kind));
        match kind {
            Kind::Versity => {
                command.env("ROOT_ACCESS_KEY", KEY).env("ROOT_SECRET_KEY", SECRET);
                command.args(["--port", &format!("127.0.0.1:{port}")]).args(more).arg("posix").arg(&root);
            }
            Kind::Moto => {
                command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
            }
        }
        let log = std::fs::File::create(scratch.path("store.log")).unwrap();
        command.current_dir(&root).stdin(Stdio::null()).stderr(log.try_clone().unwrap()).stdout(log);
        let mut child = command.spawn().expect("a store");
        let mut is_over = false;
        let listens = wait_until(START_LIMIT, || {
            is_over = !matches!(child.try_wait(), Ok(None));
            is_over || TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        if listens && !is_over {
            return (child, port);
        }
        // Somebody else took the port in between.
        let _ = child.kill();
        let _ = child.wait();
    }
    let log = std::fs::read_to_string(scratch.path("store.log")).unwrap_or_default();
    panic!("{kind:?} did not start\n{log}");
}
