//! `cargo xtask test`: all tests, with what they need. CI runs this and nothing else.

mod programs;

mod skips;

use crate::{cargo, check, checkout, command, instructions, issuer, ktls, packages, python, stores};
use anyhow::Result;
use std::process::Command;

/// Debian packages that tests use, and a program of each that shows that it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("openssh-server", "/usr/sbin/sshd"),
    ("openssh-client", "/usr/bin/ssh"),
    ("rsync", "/usr/bin/rsync"),
    ("strace", "/usr/bin/strace"),
    ("e2fsprogs", "/sbin/mkfs.ext4"),
    ("xfsprogs", "/sbin/mkfs.xfs"),
    ("btrfs-progs", "/sbin/mkfs.btrfs"),
    ("exfat-fuse", "/sbin/mount.exfat-fuse"),
    ("exfatprogs", "/sbin/mkfs.exfat"),
    ("dosfstools", "/sbin/mkfs.vfat"),
    ("bindfs", "/usr/bin/bindfs"),
    ("systemd", "/usr/bin/systemd-analyze"),
    ("b3sum", "/usr/bin/b3sum"),
    ("iproute2", "/sbin/ip"),
    ("iperf3", "/usr/bin/iperf3"),
    ("iputils-ping", "/usr/bin/ping"),
    ("attr", "/usr/bin/setfattr"),
    ("acl", "/usr/bin/setfacl"),
    ("nftables", "/usr/sbin/nft"),
    ("faketime", "/usr/bin/faketime"),
    ("musl-tools", "/usr/bin/musl-gcc"),
    ("prometheus", "/usr/bin/promtool"),
    ("chromium", "/usr/bin/chromium"),
    ("chromium-driver", "/usr/bin/chromedriver"),
    ("curl", "/usr/bin/curl"),
    ("npm", "/usr/bin/npm"),
];

/// Counts instructions.
pub const VALGRIND: &[(&str, &str)] = &[("valgrind", "/usr/bin/valgrind")];

/// What the sources say of each other: a link that leads nowhere is a warning.
const DOC: &[&str] =
    &["doc", "--workspace", "--no-deps", "--quiet", "--config", r#"build.rustdocflags = ["-D", "warnings"]"#];

/// Whether this is CI, which has all that tests need: nothing is skipped there but for a reason.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// Options of the test run.
#[derive(clap::Args)]
pub struct Args {
    /// Do not install what is missing
    #[arg(long)]
    no_install: bool,
    /// Only the programs of tests: neither lints nor documentation, Python, instructions, kTLS or simulation
    #[arg(long)]
    programs: bool,
    /// Seeds of the simulation
    #[arg(long, default_value_t = 300)]
    seeds: u64,
}

/// Runs everything.
///
/// # Errors
/// At the first thing that fails.
pub fn run(args: &Args) -> Result<()> {
    if !args.no_install {
        // For the static program that `--bootstrap` places; where rustup is not the way, its test says what is
        // missing.
        let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let add = ["target", "add", &target];
        let _ = Command::new("rustup").args(add).current_dir(checkout::root()).status();
        packages::install(PACKAGES)?;
        packages::install(VALGRIND)?;
        stores::install()?;
        issuer::install()?;
    }
    if args.programs {
        return programs::run();
    }
    let cargo = cargo::program();
    // What takes seconds comes first: nobody waits half an hour to hear of a comment.
    println!("==> house rules");
    check::run()?;
    let steps: &[(&str, &[&str])] = &[
        ("format", &["fmt", "--all", "--check"]),
        ("generated pages", &["run", "--quiet", "--package", "xtask", "--", "gen", "--check"]),
        ("lints", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
        ("links of the documentation", DOC),
    ];
    for (name, words) in steps {
        println!("==> {name}");
        command::run(Command::new(&cargo).args(*words))?;
    }
    println!("==> tests");
    programs::run()?;
    println!("==> tests in the documentation");
    command::run(Command::new(&cargo).args(["test", "--workspace", "--doc", "--quiet"]))?;
    python::run(&python::Args { no_install: args.no_install, ..python::Args::default() })?;
    println!("==> instructions for a chunk");
    instructions::run(&instructions::Args::default())?;
    println!("==> kTLS in a guest");
    ktls::run(&ktls::Args { no_install: args.no_install, ..ktls::Args::default() })?;
    println!("==> simulation, {} seeds", args.seeds);
    let seeds = args.seeds.to_string();
    // Unoptimised, as it is there: a build that is takes longer than many more seeds.
    let simulated = ["run", "--quiet", "--package", "xtask", "--", "sim", "--seeds", &seeds];
    command::run(Command::new(&cargo).args(simulated))
}
