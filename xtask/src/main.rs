//! Project chores: `cargo xtask <what>`. Each has a file of its own; this one only dispatches.

use clap::{Parser, Subcommand};

mod sim;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Runs transfers in virtual time, with faults, and checks every promise at every step
    Sim(sim::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().chore {
        Chore::Sim(args) => sim::run(&args),
    }
}
