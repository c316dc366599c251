//! The commands, each in a file of its own or beside those that it shares its work with.

mod copy;

mod serve;

mod ticket;

mod stream;

mod mark;

mod frames;

mod slots;

mod mover;

mod deputy;

mod verify;

mod identity;

mod login;

mod places;

mod check;

mod gc;

mod watch;

mod limit;

mod jobs;

mod why;

mod probe;

mod predict;

mod tune;

mod explain_filter;

mod testbed;

mod model;

mod advise;

mod doctor;

mod report;

mod dataset;

mod bench;

use thalweg_cli::args::Command;
use thalweg_cli::exit::Exit;
use thalweg_client::place::Places;
use thalweg_mover::failure::Result;

pub use jobs::begin::detach;

/// Runs what the command line asks for.
///
/// # Errors
/// What ended it.
pub fn run(command: Command, places: &Places) -> Result<Exit> {
    match command {
        Command::Cp(args) => copy::cp(&args, places),
        Command::Sync(args) => copy::sync(&args, places),
        Command::Verify(args) => verify::verify(&args, places),
        Command::Identity(args) => identity::identity(&args),
        Command::Login(args) => login::login(&args, places),
        Command::Logout(args) => login::logout(&args, places),
        Command::Check(args) => check::check(&args, places),
        Command::Ls(args) => places::ls(&args, places),
        Command::Du(args) => places::du(&args, places),
        Command::Cat(args) => places::cat(&args, places),
        Command::Rm(args) => places::rm(&args, places),
        Command::Gc(args) => gc::gc(&args, places),
        Command::Limit(args) => limit::limit(&args),
        Command::Why(args) => why::why(&args),
        Command::Jobs(args) => jobs::jobs(&args),
        Command::Predict(args) => predict::predict(&args, places),
        Command::Probe(args) => probe::probe(&args, places),
        Command::Tune(args) => tune::tune(&args, places),
        Command::ExplainFilter(args) => explain_filter::explain_filter(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Ticket(command) => ticket::ticket(&command),
        Command::Testbed(command) => testbed::testbed(&command),
        Command::Advise(args) => advise::advise(&args),
        Command::Model(command) => model::model(&command),
        Command::Doctor(args) => doctor::doctor(&args, places),
        Command::Stream(args) => stream::stream(&args, places),
        Command::Mark(args) => mark::mark(&args, places),
        Command::Frames(command) => frames::frames(&command, places),
        Command::Slots(args) => slots::slots(&args, places),
        Command::Bench(command) => bench::bench(&command),
        Command::Dataset(command) => dataset::dataset(&command),
        Command::Plot(args) => report::plot(&args),
        Command::Report(args) => report::report(&args),
        Command::Mover(args) => mover::mover(&args),
        Command::Deputy(args) => deputy::deputy(&args),
        Command::Watch(args) => watch::watch(&args, places),
        Command::KeepRun(args) => watch::keep_run(&args),
        Command::KeepJob(args) => jobs::keep::keep_job(&args),
    }
}
