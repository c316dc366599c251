//! Options of ticket.

use crate::units;
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_service::tickets::{Part, parse_below, parse_name};
use thalweg_sys::clock;

/// What to do with the tickets of a daemon.
#[derive(Debug, Subcommand)]
pub enum TicketCommand {
    /// Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once
    New(NewArgs),
    /// List tickets: what each permits, when it was made, when it ends, when it was used last
    List(ListArgs),
    /// Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds
    Revoke(RevokeArgs),
}

impl TicketCommand {
    /// Whether answers are to be told as JSON.
    pub fn wants_json(&self) -> bool {
        match self {
            TicketCommand::List(args) => args.json,
            TicketCommand::New(_) | TicketCommand::Revoke(_) => false,
        }
    }
}

/// Options of `thalweg ticket new`.
#[derive(Debug, clap::Args)]
pub struct NewArgs {
    /// Whose it is, for the log and for revoke: letters, digits, `-`, `_` and `.`, at most 64. A name is given once
    #[arg(value_name = "NAME", value_parser = parse_name)]
    pub name: String,
    /// Only this export, EXPORT or EXPORT:FLAG,...: ro, its holder may only read; no-delete, deletes nothing;
    /// no-replace, replaces nothing. It takes away from what the export permits, and adds nothing. May be given several
    /// times (default: all exports, those that come later included)
    #[arg(long, value_name = "EXPORT[:FLAG,...]", value_parser = Part::read)]
    pub export: Vec<Part>,
    /// Of each of these exports only this directory, which is all of it to the holder
    #[arg(long, value_name = "PATH", requires = "export", value_parser = parse_below)]
    pub below: Option<String>,
    /// It ends after so long, for instance 30d, or at the beginning of a day, 2027-01-31, in UTC (default: never). What
    /// runs then goes on for at most an hour
    #[arg(long, value_name = "TIME|DATE", value_parser = parse_end)]
    pub expires: Option<End>,
    /// All transfers with it together move no faster than this, for instance 1Gbit/s. A daemon with --slots does not go
    /// by it
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub bwlimit: Option<u64>,
    /// Write the ticket here, readable by you only; no file is replaced (default: NAME.ticket)
    #[arg(short = 'o', long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The daemon's state directory
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// Options of `thalweg ticket list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// The daemon's state directory
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// A ticket as JSON, one a line, on stdout
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg ticket revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The daemon's state directory
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

/// When a ticket ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// So long after it was made.
    After(Duration),
    /// In seconds since 1970.
    At(u64),
}

impl End {
    /// In seconds since 1970, of one that is made now.
    pub fn at(self, now: u64) -> u64 {
        match self {
            End::After(time) => now.saturating_add(time.as_secs()),
            End::At(at) => at,
        }
    }
}

/// Reads `30d`, or the day `2027-01-31`.
fn parse_end(text: &str) -> Result<End, String> {
    if let Some(at) = clock::day(text) {
        return Ok(End::At(at));
    }
    match units::parse_time(text) {
        Ok(time) if time >= Duration::from_secs(1) => Ok(End::After(time)),
        _ => Err("a time from 1s on, as 30d, or a day, as 2027-01-31, is wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_ends_after_a_time_or_on_a_day() {
        assert_eq!(parse_end("30d").map(|end| end.at(1)), Ok(30 * 86_400 + 1));
        assert_eq!(parse_end("2027-01-15").map(|end| end.at(1)), Ok(1_799_971_200));
        assert_eq!(parse_end("1s"), Ok(End::After(Duration::from_secs(1))));
        for odd in ["", "0s", "10ms", "2027-02-30", "2027-1-1", "tomorrow"] {
            assert!(parse_end(odd).is_err(), "{odd}");
        }
    }
}
