//! Secrets that a test knows, and all places in which none of them may turn up.

use super::job::{Ran, Running};
use super::wait_until;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use thalweg_lab::wrap::wrap;
use thalweg_wire::hex::hex;

/// What a private key begins with in a file of ours.
const KEY_BEGINS: &str = "-----BEGIN PRIVATE KEY-----\n";
/// What stands before the secret bytes of an Ed25519 key (RFC 8410), and how many these are.
const SEED_FOLLOWS: [u8; 4] = [0x04, 0x22, 0x04, 0x20];
const SEED_BYTES: usize = 32;
/// Only what hangs takes longer.
const LIMIT: Duration = Duration::from_secs(300);

/// Secrets, each in the forms in which a program could tell it.
#[derive(Default)]
pub struct Secrets {
    /// Of which secret, and the bytes.
    forms: Vec<(String, Vec<u8>)>,
}

impl Secrets {
    /// As it is, in hexadecimal, and as Rust shows bytes.
    pub fn add(&mut self, name: &str, secret: &[u8]) {
        let shown = format!("{secret:?}");
        let shown = shown.trim_matches(['[', ']']).as_bytes().to_vec();
        let forms = [secret.to_vec(), hex(secret).into_bytes(), shown];
        self.forms.extend(forms.into_iter().map(|form| (name.to_owned(), form)));
    }

    /// The private keys in these files, which nobody but their owner may read, also as they are written there.
    #[track_caller]
    pub fn add_keys<'a>(&mut self, files: impl IntoIterator<Item = &'a PathBuf>) {
        for file in files {
            let name = format!("the key of {}", file.display());
            let mode = std::fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name} can be read by others");
            let text = std::fs::read_to_string(file).unwrap();
            let body = text.split_once(KEY_BEGINS).and_then(|(_, rest)| rest.split("-----").next());
            let body = body.unwrap_or_else(|| panic!("{name} is not there"));
            let key = decoded(body);
            let before = key.windows(SEED_FOLLOWS.len()).position(|bytes| bytes == SEED_FOLLOWS);
            let seed = before.expect("an Ed25519 key") + SEED_FOLLOWS.len();
            self.add(&name, &key[seed..seed + SEED_BYTES]);
            let line = body.lines().next().expect("a line of it");
            self.forms.push((name, line.as_bytes().to_vec()));
            assert!(!self.found_in(text.as_bytes()).is_empty(), "what is there is found");
        }
    }

    fn found_in(&self, bytes: &[u8]) -> BTreeSet<&str> {
        self.forms.iter().filter(|(_, form)| has(bytes, form)).map(|(name, _)| name.as_str()).collect()
    }

    #[track_caller]
    pub fn assert_not_in(&self, place: &str, bytes: &[u8]) {
        let found = self.found_in(bytes);
        assert!(found.is_empty(), "{place} has {found:?} in it");
    }

    /// In nothing that a program said.
    #[track_caller]
    pub fn assert_not_said(&self, ran: &Ran) {
        self.assert_not_in("stdout", ran.stdout.as_bytes());
        self.assert_not_in("stderr", ran.stderr.as_bytes());
    }

    /// In no file below, and in no name of one, but where they belong.
    #[track_caller]
    pub fn assert_not_below(&self, root: &Path, but: &[PathBuf]) {
        for file in files_below(root) {
            if !but.iter().any(|place| file.starts_with(place)) {
                self.assert_not_in("a name", file.as_os_str().as_bytes());
                self.assert_not_in(&file.display().to_string(), &std::fs::read(&file).unwrap_or_default());
            }
        }
    }

    /// Runs it to its end. Meanwhile no process that this directory belongs to, by its command line or its environment,
    /// has a secret there, but the programs of these names. Also which programs these processes were.
    #[track_caller]
    pub fn watch(&self, command: Command, root: &Path, but: &[&str]) -> (Ran, BTreeSet<String>) {
        let mut seen = BTreeSet::new();
        let mut running = Running::start(command);
        let is_over = wait_until(LIMIT, || {
            self.look_at_processes(root, but, &mut seen);
            running.is_over()
        });
        assert!(is_over, "it hangs");
        (running.end(LIMIT), seen)
    }

    #[track_caller]
    fn look_at_processes(&self, root: &Path, but: &[&str], seen: &mut BTreeSet<String>) {
        for process in std::fs::read_dir("/proc").expect("/proc").flatten() {
            let read = |name: &str| std::fs::read(process.path().join(name)).unwrap_or_default();
            let (words, variables) = (read("cmdline"), read("environ"));
            if ![&words, &variables].iter().any(|text| has(text, root.as_os_str().as_bytes())) {
                continue;
            }
            let program = words.split(|&byte| byte == 0).next().unwrap_or_default();
            let program = program.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            let program = String::from_utf8_lossy(program).into_owned();
            if !but.contains(&program.as_str()) {
                self.assert_not_in(&format!("the command line of {program}"), &words);
                self.assert_not_in(&format!("the environment of {program}"), &variables);
            }
            seen.insert(program);
        }
    }
}

/// Files below with a private key of ours in them.
pub fn key_files(root: &Path) -> BTreeSet<PathBuf> {
    let has_key = |file: &PathBuf| has(&std::fs::read(file).unwrap_or_default(), KEY_BEGINS.as_bytes());
    files_below(root).into_iter().filter(has_key).collect()
}

/// The program with core dumps of any size allowed, as far as they may be: what it forbids it has to forbid itself.
pub fn with_core_dumps(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited 2>/dev/null; exec \"$@\"", "sh"]);
    wrap(shell, command)
}

/// Whether no core dump of it is made, whatever takes them: see `thalweg_sys::process::forbid_core_dumps`.
pub fn leaves_no_core_dump(pid: u32) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
    core.is_some_and(|core| core.split_whitespace().take(2).all(|bytes| matches!(bytes, "0" | "1")))
}

fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&entry.path())),
            Ok(kind) if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Base64, with whatever else stands between its digits.
fn decoded(text: &str) -> Vec<u8> {
    let digits = text.bytes().filter_map(|digit| match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let digits: Vec<u8> = digits.collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0u32, |bits, &digit| bits << 6 | u32::from(digit));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
