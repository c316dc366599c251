//! A copy between two far places as a part of `cp` and `sync`: what goes along to the end that acts, what comes back,
//! and how it ended.
//!
//! What is refused is refused before anybody is reached: what would mean this machine there, or could be lost between
//! the two. Between two daemons nothing goes along in words: there is only what is refused.

use crate::args::copy::CopyArgs;
use crate::args::filters::{Along, FilterArgs};
use crate::copy_output::relay::Relay;
use crate::exit::Exit;
use crate::{files, signals};
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use thalweg_client::by_daemon::BetweenDaemons;
use thalweg_client::errand::{Errand, Given, SIGNAL_LIMIT, Told};
use thalweg_client::far_movers::{self, How, Whom};
use thalweg_client::job::Asked;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Ticket;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_service::published;

/// What all such copies of a command are given.
pub struct Pack<'a> {
    /// `cp` or `sync`.
    pub command: &'a str,
    pub args: &'a CopyArgs,
    /// Its filters, with the files that they name.
    pub filter: &'a FilterArgs,
    /// Where this machine keeps what it remembers.
    pub state: &'a Path,
    /// Copies of the command.
    pub copies: usize,
}

/// One of them, ready to go.
pub struct Between {
    errand: Errand,
    words: Vec<OsString>,
    attached: Vec<(String, Vec<u8>)>,
    receipt: Option<PathBuf>,
    report: Option<Scrap>,
    number: usize,
    copies: usize,
}

/// A copy whose two places are far.
pub enum Elsewhere {
    /// A deputy runs it, at an end that ssh reaches.
    Deputy(Between),
    /// Both are at daemons, of which one acts.
    Daemons(BetweenDaemons),
}

/// What listens to it, and stops it.
pub struct Hears<'a> {
    pub how: &'a How,
    pub state: &'a Path,
    pub relay: &'a Relay,
    pub meter: &'a Meter,
    pub stop: &'a Stop,
    pub signal: &'a signals::Asked,
}

/// Names of files that go along and come back.
const TICKET: &str = "ticket";
const RECEIPT: &str = "receipt";
const REPORT: &str = "report";

impl Pack<'_> {
    /// The copy with this number, from 1, if both its places are far.
    ///
    /// # Errors
    /// `Unsupported` for two places at one daemon; as [`Pack::with`]; `Usage` for what a copy between two daemons does
    /// not do, and without a ticket for each.
    pub fn elsewhere(&self, asked: &Asked, number: usize) -> Result<Option<Elsewhere>> {
        if let Some(daemons) = asked.between_daemons(self.command)? {
            self.check("one of the two daemons")?;
            let (from, to) = (self.args.link.ticket.as_deref(), self.args.to_ticket.as_deref());
            daemons.check_tickets(from, to)?;
            return Ok(Some(Elsewhere::Daemons(daemons)));
        }
        let errand = asked.errand(self.command)?.map(|errand| self.with(asked, errand, number));
        Ok(errand.transpose()?.map(Elsewhere::Deputy))
    }

    /// What the copy with this number, from 1, takes along.
    ///
    /// # Errors
    /// `Usage` for what such a copy does not do, and without the ticket of a daemon; what is wrong with the ticket, or
    /// with the place of the receipt.
    fn with(&self, asked: &Asked, errand: Errand, number: usize) -> Result<Between> {
        self.check(&errand.acting())?;
        self.check_receipt(&errand.acting())?;
        let Along { words: filters, files: mut attached } = self.filter.along()?;
        let mut words = vec![OsString::from(self.command)];
        words.extend(self.args.along.words.iter().cloned());
        words.extend(filters);
        if let Some(text) = self.ticket(asked)? {
            words.extend(file("ticket", "file", TICKET));
            attached.push((TICKET.to_owned(), text));
        }
        if let Some(part) = asked.part() {
            words.push(format!("--part={part}").into());
        }
        let receipt = super::receipt_at(self.args, number, self.copies);
        if let Some(path) = &receipt {
            files::can_be_written("write the receipt", path)?;
            words.extend(file("receipt", "back", RECEIPT));
        }
        let report = self.args.report.as_ref().map(|_| Scrap::new(self.state, number));
        if report.is_some() {
            words.extend(file("report", "back", REPORT));
        }
        words.push("--".into());
        words.extend(errand.places());
        let copies = self.copies;
        Ok(Between { errand, words, attached, receipt, report, number, copies })
    }

    /// `acting`: where it runs.
    fn check(&self, acting: &str) -> Result<()> {
        let args = self.args;
        let typed = &args.link.typed.of_streams;
        for (option, is_typed) in [("--via", typed.via), ("--bind", typed.bind)] {
            if is_typed {
                let cause = format!(
                    "{option} names addresses of the machine that the copy runs on, which is {acting}: log in there, and give \
                     it to `thalweg {}`",
                    self.command
                );
                return Err(refused(&cause));
            }
        }
        if args.delete && self.copies > 1 {
            let cause = "--delete is for one copy where both places are far: two might end at the same place, and each would \
                         delete what the other brings";
            return Err(refused(cause));
        }
        Ok(())
    }

    fn check_receipt(&self, acting: &str) -> Result<()> {
        if self.args.receipt.is_none() || !self.args.remove_source_files {
            return Ok(());
        }
        let cause = format!(
            "--receipt would come here after source files are removed (--remove-source-files), and be lost with the way: \
             log in to {acting}, and copy from there"
        );
        Err(refused(&cause))
    }

    /// The ticket for its daemon; `None` where both ends are reached by ssh.
    fn ticket(&self, asked: &Asked) -> Result<Option<Vec<u8>>> {
        let daemon = asked.far_movers().find_map(|whom| match whom {
            Whom::Daemon(address, ticket) => Some((address, ticket)),
            Whom::Ssh(..) => None,
        });
        let Some((address, ticket)) = daemon else { return Ok(None) };
        let path = ticket.or(self.args.link.ticket.clone());
        let path = path.ok_or_else(|| far_movers::lacks_ticket(&address))?;
        Ok(Some(Ticket::read(&path)?.to_text()?.as_bytes().to_vec()))
    }
}

/// An option with a file that goes along, or comes `back`.
fn file(option: &str, way: &str, name: &str) -> [OsString; 2] {
    [format!("--{option}"), format!("{{{way}:{name}}}")].map(OsString::from)
}

fn refused(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

impl Between {
    /// The far end that it runs at.
    pub fn acting(&self) -> String {
        self.errand.acting()
    }

    /// Runs it to its end. `Ok` with its exit code if it ended there, `Err` if it failed here, which is told.
    pub fn run(&self, hears: &Hears<'_>) -> std::result::Result<Exit, Exit> {
        let Hears { how, state, relay, meter, stop, signal } = *hears;
        let told = |told: Told| match told {
            Told::Out(line) => relay.out(&line),
            Told::Err(line) => relay.err(&line),
            Told::Note(text) => relay.note(text),
            Told::Progress(progress) => {
                relay.begun();
                progress.set(meter);
            }
        };
        let ended = self.errand.run(self.given(), how, state, &told, stop);
        relay.begun();
        let failed = |failure: &Failure| {
            let exit = match failure.kind {
                FailureKind::Stopped => signal.exit(),
                kind => Exit::of(kind),
            };
            relay.failed(failure, exit)
        };
        let recorded = self.report.as_ref().map_or(Ok(()), |report| report.read(relay));
        let code = ended.map_err(|failure| failed(&failure))?;
        recorded.map_err(|failure| failed(&failure))?;
        exit_of(code, &self.acting(), stop, signal).map_err(|failure| failed(&failure))
    }

    fn given(&self) -> Given {
        let receipt = self.receipt.iter().map(|path| (RECEIPT.to_owned(), path.clone()));
        let report = self.report.iter().map(|report| (REPORT.to_owned(), report.path.clone()));
        Given {
            words: self.words.clone(),
            attached: self.attached.clone(),
            returned: receipt.chain(report).collect(),
            progress: true,
            number: self.number,
            copies: self.copies,
        }
    }
}

/// What the exit code of a copy at `acting` is here.
///
/// # Errors
/// `Connection` if the copy was stopped there without a word from here, or did not say why it ended.
fn exit_of(code: i32, acting: &str, stop: &Stop, signal: &signals::Asked) -> Result<Exit> {
    let failed = |cause: String| Err(Failure::new(FailureKind::Connection, "copy between far places", cause));
    match Exit::of_code(code) {
        // It may be heard here later than there, or end a login for the copy first: nothing could be done.
        Some(Exit::Interrupted | Exit::Terminated | Exit::Nothing) if !stop.pause(SIGNAL_LIMIT) => {
            Ok(signal.exit())
        }
        Some(Exit::Interrupted | Exit::Terminated) => {
            failed(format!("the copy at {acting} was stopped there; the same command resumes it"))
        }
        Some(exit) => Ok(exit),
        None => failed(format!("the copy at {acting} ended with exit code {code}, and did not say why")),
    }
}

/// The report as it comes back, in the state directory: its lines go behind what is in the user's file. It is removed
/// with the value.
struct Scrap {
    path: PathBuf,
}

impl Scrap {
    fn new(state: &Path, number: usize) -> Scrap {
        // Other machines may have the same directory.
        let name = format!("report-{}-{}-{number}", published::machine(), std::process::id());
        Scrap { path: state.join(name) }
    }

    /// What came back of it.
    fn read(&self, relay: &Relay) -> Result<()> {
        let read = match File::open(&self.path) {
            Ok(file) => relay.record(BufReader::new(file)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        read.map_err(|error| failure::at_path(failure::of_io("read", &error), &self.path))
    }
}

impl Drop for Scrap {
    fn drop(&mut self) {
        // It may never have come.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_stopped_there_alone_is_none_that_the_user_stopped() {
        let ended = |code: i32, stop: &Stop| exit_of(code, "a", stop, &signals::Asked);
        for code in [130, 143] {
            let failure = ended(code, &Stop::default()).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Connection);
            assert_eq!(failure.cause, "the copy at a was stopped there; the same command resumes it");
        }
        let stop = Stop::default();
        stop.stop();
        assert_eq!(ended(143, &stop).unwrap(), Exit::Interrupted);
        // Ctrl-C at the password prompt of the other end.
        assert_eq!(ended(3, &stop).unwrap(), Exit::Interrupted);
        assert_eq!(ended(3, &Stop::default()).unwrap(), Exit::Nothing);
        assert_eq!(ended(2, &stop).unwrap(), Exit::Partial);
        assert_eq!(ended(137, &stop).unwrap_err().kind, FailureKind::Connection);
    }
}
