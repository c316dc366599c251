//! Options of jobs: `--detach` of what moves and compares data, and the commands about what goes on so.

use crate::args::whole;
use crate::exit;
use crate::jobs::NAME_BYTES_MAX;
use crate::units;
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;

/// Going on without a terminal.
#[derive(Debug, clap::Args)]
pub struct JobArgs {
    /// Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged
    /// in. A job asks for no password and reads no stdin; `thalweg jobs` shows it
    #[arg(long)]
    pub detach: bool,
    /// With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`
    #[arg(long, value_name = "NAME", requires = "detach", value_parser = parse_name)]
    pub name: Option<String>,
}

/// The same of a command that keeps nothing else.
#[derive(Debug, clap::Args)]
pub struct StatedJobArgs {
    /// Whether it is one.
    #[command(flatten)]
    pub job: JobArgs,
    /// With --detach: where thalweg keeps what it remembers, and the job
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// Options of jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = exit::help())]
pub struct JobsArgs {
    /// What to do (default: list them, the newest last).
    #[command(subcommand)]
    pub command: Option<JobsCommand>,
    /// Where thalweg keeps its keys and what it remembers
    #[arg(long, value_name = "DIR", global = true)]
    pub state: Option<PathBuf>,
    /// Each job that is told of as JSON, one a line, on stdout; not with log
    #[arg(long, global = true)]
    pub json: bool,
}

/// What is done about jobs. Each is named by its number, the beginning of that, or its --name, of which the newest
/// counts.
#[derive(Debug, Subcommand)]
pub enum JobsCommand {
    /// Show a job: its command, who runs it, how far it is or how it ended, and what it said last
    Show(JobsShowArgs),
    /// Print what a job said
    Log(JobsLogArgs),
    /// Wait until jobs are over; exit with the gravest of their exit codes
    Wait(JobsWaitArgs),
    /// Ask jobs to stop in order, and wait for that
    Stop(JobsStopArgs),
    /// Run jobs again that are over and not done: the same words, in the same directory
    Resume(JobsResumeArgs),
    /// Remove the record and the log of jobs that are over
    Forget(JobsForgetArgs),
}

/// Options of jobs show.
#[derive(Debug, clap::Args)]
pub struct JobsShowArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Lines of what it said last
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole::<u16>(0..=1000))]
    pub lines: u16,
}

/// Options of jobs log.
#[derive(Debug, clap::Args)]
pub struct JobsLogArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: String,
    /// Go on until the job is over
    #[arg(short = 'f', long)]
    pub follow: bool,
}

/// Options of jobs wait.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exits with 3 for a job that is interrupted, and if the time is up.")]
pub struct JobsWaitArgs {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// Wait for no longer (default: as long as it takes)
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub timeout: Option<Duration>,
}

/// Options of jobs stop.
#[derive(Debug, clap::Args)]
pub struct JobsStopArgs {
    /// The jobs
    #[arg(value_name = "JOB", required = true)]
    pub jobs: Vec<String>,
    /// Wait for no longer; the job goes on stopping: what was written becomes durable first
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = units::parse_time)]
    pub timeout: Duration,
}

/// Options of jobs resume.
#[derive(Debug, clap::Args)]
pub struct JobsResumeArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present = "all", conflicts_with = "all")]
    pub jobs: Vec<String>,
    /// All that were interrupted on this machine, as after it was started anew; not those that failed or were stopped
    #[arg(long)]
    pub all: bool,
}

/// Options of jobs forget.
#[derive(Debug, clap::Args)]
pub struct JobsForgetArgs {
    /// The jobs
    #[arg(value_name = "JOB", required_unless_present = "older_than", conflicts_with = "older_than")]
    pub jobs: Vec<String>,
    /// All that have been over for so long, for instance 30d
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub older_than: Option<Duration>,
}

/// Options of the keeper of a job.
#[derive(Debug, clap::Args)]
pub struct KeepJobArgs {
    /// Where the job is recorded
    pub directory: PathBuf,
    /// How often it had begun when it was looked at
    pub runs: u32,
}

fn parse_name(text: &str) -> Result<String, String> {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_' | b'.');
    match (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('-') {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.` are wanted, the first of which is no `-`"
        )),
    }
}
