//! Project chores: `cargo xtask <what>`. Each has a file of its own; this one only dispatches.

use clap::{Parser, Subcommand};

mod checkout;

mod command;

mod cargo;

mod packages;

mod scratch;

mod trees;

mod toolchain;

mod servers;

mod stores;

mod issuer;

mod demo;

mod test;

mod check;

mod bench;

mod entries;

mod bottlenecks;

mod instructions;

mod ktls;

mod real;

mod python;

mod beamline;

mod sim;

mod fuzz;

mod torture;

mod generate;

mod notices;

mod deb;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// The main job on real data: a tree and a large file through an encrypted daemon, and back
    Demo(demo::Args),
    /// All tests, with what they need; what CI runs
    Test(test::Args),
    /// Layers and other rules of the house
    Check,
    /// Real data, every way there is, compared with rsync and b3sum
    Real(real::Args),
    /// A million entries: time to the first byte, and the most memory of both sides
    Entries(entries::Args),
    /// How fast: beside the limits of the machine and other tools, wall time and CPU of both sides
    Bench(bench::Args),
    /// Bottlenecks made on purpose, and whether `thalweg why` names them
    Bottlenecks(bottlenecks::Args),
    /// Instructions that a chunk costs, counted by callgrind and held against a budget
    Instructions(instructions::Args),
    /// Streams sealed by the kernel, in a guest whose kernel can
    Ktls(ktls::Args),
    /// Pages, man pages, completions, vectors and figures, made from the code and from bench/results
    Gen(generate::Args),
    /// Notices of what others made and is linked into the program and the Python module
    Notices(notices::Args),
    /// The Debian package: program, pages, completions, units, guides
    Deb(deb::Args),
    /// The Python wheel: built, installed, and tried with pytest and mypy
    Python(python::Args),
    /// The example: a detector, a station that reconstructs what it makes, and the way back
    Beamline(beamline::Args),
    /// Runs transfers in virtual time, with faults, and checks every promise at every step
    Sim(sim::Args),
    /// Fuzzes every decoder, with nightly Rust and cargo-fuzz, which it installs
    Fuzz(fuzz::Args),
    /// Real processes under faults, again and again with other seeds, and a table of what failed
    Torture(torture::Args),
}

fn main() -> std::process::ExitCode {
    match run(Cli::parse().chore) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<()> {
    match chore {
        Chore::Demo(args) => demo::run(&args),
        Chore::Test(args) => test::run(&args),
        Chore::Check => check::run(),
        Chore::Real(args) => real::run(&args),
        Chore::Entries(args) => entries::run(&args),
        Chore::Bench(args) => bench::run(&args),
        Chore::Bottlenecks(args) => bottlenecks::run(&args),
        Chore::Instructions(args) => instructions::run(&args),
        Chore::Ktls(args) => ktls::run(&args),
        Chore::Python(args) => python::run(&args),
        Chore::Beamline(args) => beamline::run(&args),
        Chore::Sim(args) => sim::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
        Chore::Torture(args) => torture::run(&args),
        Chore::Gen(args) => generate::run(&args),
        Chore::Notices(args) => notices::run(&args),
        Chore::Deb(args) => deb::run(&args),
    }
}
