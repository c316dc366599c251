//! `cargo xtask fuzz`: runs every fuzz target for a while, keeps a small corpus, and tells executions and findings.
//!
//! 1. What is missing is installed: nightly Rust (for the sanitizer) and cargo-fuzz.
//! 2. The targets are built once and copied, so that a build meanwhile does not disturb the run.
//! 3. Each begins with its corpus and with [`seeds`], made from the golden vectors and the encoders.
//! 4. What it found is minimised, and the smallest inputs become `fuzz/corpus/TARGET/`, where the `corpus` tests of the
//!    crates run them for ever.
//!
//! A finding stays in `target/fuzz-run/TARGET/`; when it is fixed, copy it into `fuzz/corpus/TARGET/`.

use crate::{cargo, checkout, command};
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use thalweg_cli::receipt_file;
use thalweg_mover::history::{History, Moved, Observed};
use thalweg_mover::link::ssh::errand::{Answer, Ask, Deputy, FromDeputy, Outcome, Said, ToDeputy, What};
use thalweg_mover::link::ssh::{DialBack, Order, Ready, TOKEN_BYTES};
use thalweg_mover::link::{Identity, Ticket};
use thalweg_mover::model::prediction::Taken;
use thalweg_mover::mutex::lock;
use thalweg_mover::plan::Learned;
use thalweg_mover::stage::compress::Packer;
use thalweg_mover::stage::send::Queued;
use thalweg_mover::tune::routes::Routes;
use thalweg_wire::digest::{self, Pieces};
use thalweg_wire::message::{Check, Totals, VerifyLevel};
use thalweg_wire::receipt::{Side, Signed, Statement, TransferKind};
use thalweg_wire::{Digest, RelativePath, journal, limits, vectors};

#[derive(clap::Args)]
pub struct Args {
    /// Minutes for each target
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Only this target
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Targets that run at the same time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Files of a corpus that are kept; the smallest ones
    #[arg(long, default_value_t = 50)]
    keep: usize,
}

/// A target whose run ended.
struct Ran {
    name: String,
    executions: u64,
    finding: bool,
}

/// Runs the targets.
///
/// # Errors
/// If something cannot be installed or built, and for every finding.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut names = targets()?;
    if let Some(wanted) = &args.target {
        if !names.contains(wanted) {
            bail!("there is no such target; there are {}", names.join(", "));
        }
        names = vec![wanted.clone()];
    }
    install()?;
    let frozen = build(&names)?;
    let seeds = seeds()?;
    let waiting = Mutex::new(names.into_iter());
    let ran = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs.max(1))
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    loop {
                        let next = lock(&waiting).next();
                        let Some(name) = next else { return Ok(()) };
                        let result = fuzz(&name, &frozen, &seeds, args).with_context(|| name.clone())?;
                        println!("    {}", result.line(args));
                        lock(&ran).push(result);
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    let mut ran = ran.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    ran.sort_by(|a, b| a.name.cmp(&b.name));
    println!("==> {:16} {:>8} {:>14} findings", "target", "seconds", "executions");
    ran.iter().for_each(|ran| println!("    {}", ran.line(args)));
    let found: Vec<_> = ran.iter().filter(|ran| ran.finding).map(|ran| ran.name.as_str()).collect();
    if !found.is_empty() {
        bail!("findings in {}; see {}", found.join(", "), frozen.display());
    }
    Ok(())
}

impl Ran {
    fn line(&self, args: &Args) -> String {
        let finding = if self.finding { "yes" } else { "none" };
        format!("{:16} {:8} {:14} {finding}", self.name, args.minutes * 60, self.executions)
    }
}

/// One for each file of `fuzz/fuzz_targets`.
fn targets() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for file in fs::read_dir(checkout::root().join("fuzz/fuzz_targets"))? {
        let path = file?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn install() -> anyhow::Result<()> {
    let answers = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    if !answers(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        let nightly = ["toolchain", "install", "nightly", "--profile", "minimal"];
        command::run(Command::new("rustup").args(nightly))?;
    }
    if !answers(Command::new("cargo").args(["fuzz", "--version"])) {
        command::run(Command::new("cargo").args(["install", "cargo-fuzz", "--locked"]))?;
    }
    Ok(())
}

/// Builds all targets and copies them to where they are run.
fn build(names: &[String]) -> anyhow::Result<PathBuf> {
    let target = cargo::target();
    let built = target.join("fuzz-build");
    let status = Command::new("cargo")
        // The pinned stable toolchain of this folder would win over `+nightly` of an outer cargo.
        .env("RUSTUP_TOOLCHAIN", "nightly")
        .current_dir(checkout::root().join("fuzz"))
        .args(["fuzz", "build", "--target-dir"])
        .arg(&built)
        .args((names.len() == 1).then(|| &names[0]))
        .status()
        .context("run cargo fuzz")?;
    if !status.success() {
        bail!("the fuzz targets do not build");
    }
    let frozen = target.join("fuzz-run");
    fs::create_dir_all(&frozen)?;
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    for name in names {
        // Not over a program that runs.
        let to = frozen.join(format!("{name}.program"));
        let _ = fs::remove_file(&to);
        fs::copy(built.join(&triple).join("release").join(name), to).with_context(|| name.clone())?;
    }
    Ok(frozen)
}

fn fuzz(name: &str, frozen: &Path, seeds: &[(&str, Vec<u8>)], args: &Args) -> anyhow::Result<Ran> {
    let committed = checkout::root().join("fuzz/corpus").join(name);
    let home = frozen.join(name);
    let _ = fs::remove_dir_all(&home);
    let (work, small) = (home.join("work"), home.join("small"));
    for directory in [&work, &small, &committed] {
        fs::create_dir_all(directory)?;
    }
    for (number, (_, bytes)) in seeds.iter().filter(|(target, _)| *target == name).enumerate() {
        fs::write(work.join(format!("seed-{number}")), bytes)?;
    }
    for file in fs::read_dir(&committed)? {
        let file = file?;
        fs::copy(file.path(), work.join(file.file_name()))?;
    }
    let log = home.join("log");
    let run = |options: &[&str], directories: &[&Path]| -> anyhow::Result<bool> {
        let out = File::options().append(true).create(true).open(&log)?;
        let status = Command::new("nice")
            .args(["-n", "19"])
            .arg(frozen.join(format!("{name}.program")))
            .args(options)
            .args(directories)
            .current_dir(&home)
            // Some decoders are of files; what they write is not to wear a disk.
            .env(
                "TMPDIR",
                if Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() },
            )
            .stderr(out.try_clone()?)
            .stdout(out)
            .status()
            .context("run the target")?;
        Ok(status.success())
    };
    let seconds = format!("-max_total_time={}", Duration::from_secs(args.minutes * 60).as_secs());
    // A hang is an input that takes longer than this, on a machine that does other things too.
    let limits = ["-timeout=20", "-rss_limit_mb=1024", "-max_len=65536"];
    let mut options = vec![seconds.as_str(), "-print_final_stats=1"];
    options.extend(limits);
    let clean = run(&options, &[&work])?;
    let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let executions = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok())
        .unwrap_or(0);
    if clean {
        let mut options = vec!["-merge=1"];
        options.extend(limits);
        if !run(&options, &[&small, &work])? {
            bail!("the corpus could not be minimised, see {}", log.display());
        }
        fs::remove_dir_all(&committed)?;
        fs::create_dir_all(&committed)?;
        keep_smallest(&small, &committed, args.keep)?;
    }
    Ok(Ran { name: name.to_owned(), executions, finding: !clean })
}

fn keep_smallest(from: &Path, to: &Path, keep: usize) -> anyhow::Result<()> {
    let mut files = fs::read_dir(from)?
        .map(|file| {
            let file = file?;
            Ok((file.metadata()?.len(), file.path()))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    for (_, path) in files.iter().take(keep) {
        fs::copy(path, to.join(path.file_name().context("a name")?))?;
    }
    Ok(())
}

/// Good inputs, by target: what a fuzzer would take long to find by itself.
fn seeds() -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut seeds: Vec<(&str, Vec<u8>)> = Vec::new();
    for family in vectors::families() {
        for vector in family.vectors {
            let bytes = vector.bytes;
            match family.name {
                "hello" => seeds.push(("hello", bytes)),
                "server-hello" => seeds.push(("server_hello", bytes)),
                "message" => seeds.push(("message", bytes)),
                "frame-outer" | "frame-inner" => seeds.push(("frame_inner", bytes)),
                "pack" => seeds.push(("pack", [&[0, 3], &bytes[..]].concat())),
                "journal" => {
                    let body = &bytes[journal::RECORD_HEAD_BYTES..];
                    seeds.push(("journal_record", body.to_vec()));
                    seeds.push(("journal", [&[u8::try_from(body.len())?], body].concat()));
                }
                "marks" => seeds.push(("mark_record", bytes[journal::RECORD_HEAD_BYTES..].to_vec())),
                "receipt-statement" | "receipt-signed" => seeds.push(("receipt", bytes)),
                "item" => seeds.push(("frame_item", bytes)),
                "spill" => seeds.push(("spill_record", bytes)),
                "receipt-line" => seeds.push(("receipt_line", bytes)),
                other => bail!("no target takes the vectors of {other}"),
            }
        }
    }
    let mut packer = Packer::new(1 << 16)?;
    for raw in [b"thalweg ".repeat(512), vec![0; 65536], (0..=255).cycle().take(4096).collect()] {
        let mut payload = raw.clone();
        let packed = packer.pack(&mut payload, raw.len(), Queued::default()).context("it compresses")?;
        let declared = u16::try_from(raw.len() >> 6)?.to_be_bytes();
        seeds.push(("unpacker", [&declared[..], &payload[..packed]].concat()));
    }
    let identity = Identity::generate("seed")?;
    seeds.push(("identity", identity.to_pem().as_bytes().to_vec()));
    let ticket = Ticket {
        addresses: vec!["[::1]:8487".to_owned()],
        server: identity.fingerprint(),
        identity_pem: identity.to_pem(),
    };
    seeds.push(("ticket", ticket.to_text()?.as_bytes().to_vec()));
    let order = Order::new(identity.fingerprint(), Duration::from_secs(60), Duration::from_secs(30));
    seeds.push(("ssh_line", order.to_line().into_bytes()));
    let ready = Ready {
        port: 8487,
        addresses: vec![[127, 0, 0, 1].into()],
        bridge_port: 8488,
        dials_back: true,
        fingerprint: identity.fingerprint().to_string(),
        versions: (limits::VERSION_MIN, limits::VERSION_MAX),
        version: "0.1.0".to_owned(),
        confines: true,
    };
    seeds.push(("ssh_line", ready.to_line().into_bytes()));
    let addresses = vec![[127, 0, 0, 1].into()];
    let back = DialBack { port: 8487, token: "0f".repeat(TOKEN_BYTES / 2), addresses };
    seeds.push(("ssh_line", back.to_line().into_bytes()));
    seeds.push(("ssh_line", Deputy::own().to_line().into_bytes()));
    let ask = Ask { id: 1, what: What::DialBack(back) };
    seeds.push(("ssh_line", FromDeputy::Ask(ask).to_line().into_bytes()));
    let answer = Answer { id: 1, outcome: Outcome::Ready { mover: ready, host: "host".to_owned() } };
    seeds.push(("ssh_line", ToDeputy::Answer(answer).to_line().into_bytes()));
    seeds.push(("receipt_file", receipt_of(&identity).into_bytes()));
    let mut history = History::new([7; 16]);
    let taken = Taken { start_s: 0.5, entries_s: 1.0, bytes_s: 10.0, end_s: 0.25, ..Taken::default() };
    let moved = Moved { bytes: 1e10, entries: 1e3, ..Moved::default() };
    history.observe("way", Observed::of(&taken, &moved, false), Some("network".to_owned()), 1);
    let of_one_way = history.to_json();
    let mut routes = Routes::default();
    let rtt = Duration::from_millis(20);
    routes.learn("route", Learned { streams: 12, rate_bits_per_s: 940_000_000, rtt }, 1);
    let of_one_route = routes.to_json();
    let texts: [(&str, &[&str]); 12] = [
        ("units", &["10G", "1.5TiB", "100Mbit/s", "12MB/s", "90s", "5m", "2h30m"]),
        (
            "place",
            &["tw://[::1]:8487/data/run/7", "user@host:path", "ssh://u@h:22/p", "zero:5G", "null:", "./a:b"],
        ),
        (
            "config",
            &["streams = 4\n[cp]\ncompress = true\n[place.site]\nurl = \"tw://h:1/data\"\nticket = \"t\"\n"],
        ),
        ("files_from", &["a/b\n./c\r\n/d\n", "a\0b/c\0", "../out\n"]),
        ("filter", &["*.tmp\n/keep/**\n[!a-z]?/dir/x.tmp", "+ /a/***\n- *\nexclude b\na/b/c"]),
        (
            "arguments",
            &[
                "cp\n--receipt\nr\n-z\na/\nb",
                "serve\n--listen\n127.0.0.1:0\n--export\nn=/d:ro\n--state\ns",
                "sync\n--delete\n--max-delete\n10\n--bwlimit\n100M\na/\ntw://h/e/p",
                "verify\n--strict\nr\np",
            ],
        ),
        (
            "import",
            &[
                r#"{"fio version": "fio-3.36", "timestamp": 1, "jobs": [{"jobname": "r", "error": 0}]}"#,
                r#"{"test": {"type": "rtt"}, "result": {"succeeded": true, "roundtrips": [{"rtt": "1"}]}}"#,
                r#"{"start": {"version": "iperf 3.12"}, "intervals": [], "end": {"streams": []}}"#,
                "PING h (::1) 56 data bytes\n64 bytes from ::1: icmp_seq=1 ttl=64 time=1.00 ms\n--- h ping statistics \
                 ---\n1 packets transmitted, 1 received, 0% packet loss, time 0ms\nrtt min/avg/max/mdev = \
                 1.000/1.000/1.000/0.000 ms\n",
            ],
        ),
        ("framed", &["{\"bytes\":3,\"set\":[4,0]}\nabc{\"end_set\":4}\n"]),
        ("history", &[of_one_way.as_str()]),
        ("routes", &[of_one_route.as_str()]),
        (
            "job_record",
            &[r#"{"schema":1,"id":"6a0000000007","name":"run7","words":["6370","61","ff"],"directory":"2f",
                "environment":[{"name":"PATH","value":"2f62696e"}],"withheld":["BEARER_TOKEN"],
                "asked_at_ms":1778384896000,"runs":1,"run":{"machine":"00000000","host":"h","boot":null,"pid":7,
                "start_ticks":7,"command_pid":8,"began_at":1778384896},
                "end":{"ended_at":1778384897,"code":143,"signal":null,"was_stopped":true}}"#],
        ),
        ("watch_journal", &["{\"Started\":[\"a\",1]}\n{\"Done\":\"a\"}\n{\"Past\":[\"k\"]}"]),
    ];
    for (target, examples) in texts {
        seeds.extend(examples.iter().map(|text| (target, text.as_bytes().to_vec())));
    }
    Ok(seeds)
}

/// A receipt of a local copy of one file of two parts, with both statements.
fn receipt_of(identity: &Identity) -> String {
    let parts = [Digest([1; 32]), Digest([2; 32])];
    let line = format!("{}  131072  file  done  large\n", digest::join(&parts, true));
    let path = RelativePath::new(b"large".to_vec()).unwrap_or_default();
    let pieces = Pieces { piece_bytes: 64 << 10, digests: parts.to_vec() };
    let header = format!("{{\"thalweg_receipt\":{}}}", receipt_file::VERSION);
    let digest_of = |text: &str| Digest(*blake3::hash(text.as_bytes()).as_bytes());
    let signed = |side| {
        let statement = Statement {
            root: Digest(*blake3::hash(&digest_of(&line).0).as_bytes()),
            entries: 1,
            totals: Totals::default(),
            unread: 0,
            signed_at: 1_790_000_000,
            side,
            kind: TransferKind::Files,
            signer: identity.signatory(),
            peer: identity.signatory(),
            session: None,
            place: None,
            verify: VerifyLevel::Written,
            check: Check::Evidence,
            chunk_bytes: 64 << 10,
            segment_bytes: 64 << 10,
            header: Some(digest_of(&header)),
        };
        let signature = identity.sign(&statement.signed_bytes());
        Signed { statement, certificate: identity.chain()[0].to_vec(), signature }
    };
    let footer = receipt_file::footer(&signed(Side::Sender), &signed(Side::Receiver));
    let (pieces, block) = (receipt_file::pieces(&path, &pieces), receipt_file::block(0));
    let line = receipt_file::line(&line);
    format!("{header}\n{pieces}\n{block}\n{line}\n{footer}\n")
}
