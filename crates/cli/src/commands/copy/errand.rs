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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_client::by_daemon::BetweenDaemons;
use thalweg_client::errand::{Errand, Given, SIGNAL_LIMIT, Told};
use thalweg_client::far_movers::{self, How, Whom};
use thalweg_client::job::Asked;
use thalweg_mover::basin::Evidence;
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::link::Pass;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_mover::run::steer::Rate;
use thalweg_service::published::{self, Progress, Publisher, State};

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
    /// Source and destination as they are shown.
    names: (String, String),
    is_dry: bool,
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
    /// The rate that is wanted by now.
    pub rate: &'a Arc<Rate>,
    /// How often that had changed when it was what the words say.
    pub rate_changes: u64,
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
            self.check_daemons()?;
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
    /// `Usage` for what such a copy does not do, also with a token, and without the ticket of a daemon; what is wrong
    /// with the ticket, or with the place of the receipt.
    fn with(&self, asked: &Asked, errand: Errand, number: usize) -> Result<Between> {
        self.check(&errand)?;
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
        let (names, is_dry, copies) = (asked.names(), self.args.dry_run, self.copies);
        Ok(Between { errand, words, attached, receipt, report, names, is_dry, number, copies })
    }

    fn check(&self, errand: &Errand) -> Result<()> {
        let (args, acting) = (self.args, errand.acting());
        if args.link.typed.of_streams.via
            && let Some(other) = errand.other_end()
        {
            far_movers::check_ticket_via(&args.link.way.via, &other)?;
        }
        if args.receipt.is_some() && args.remove_source_files {
            let cause = format!(
                "--receipt would come here after source files are removed (--remove-source-files), and be lost with the way: \
                 log in to {acting}, and copy from there"
            );
            return Err(refused(&cause));
        }
        self.check_delete()
    }

    /// The same of a copy between two daemons.
    fn check_daemons(&self) -> Result<()> {
        let typed = &self.args.link.typed.of_streams;
        for (option, is_typed) in [("--via", typed.via), ("--bind", typed.bind)] {
            if is_typed {
                let cause = format!(
                    "{option} names addresses of the machine that the copy runs on, which is one of the two daemons: log in \
                     there, and give it to `thalweg {}`",
                    self.command
                );
                return Err(refused(&cause));
            }
        }
        for (option, is_typed) in [("--ktls", typed.ktls), ("--tls-records", typed.tls_records)] {
            if is_typed {
                let cause = format!(
                    "{option} is about streams of one machine, and those of this copy are between the two daemons, of \
                     which each has its own: give it to `thalweg serve`"
                );
                return Err(refused(&cause));
            }
        }
        self.check_delete()
    }

    fn check_delete(&self) -> Result<()> {
        if self.args.delete && self.copies > 1 {
            let cause = "--delete is for one copy where both places are far: two might end at the same place, and each would \
                         delete what the other brings";
            return Err(refused(cause));
        }
        Ok(())
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
        match Pass::read(&path)? {
            Pass::Ticket(ticket) => Ok(Some(ticket.to_text()?.as_bytes().to_vec())),
            // Who has a token may pass for its holder at all servers that take it.
            Pass::Place(_) => {
                let cause =
                    "a token does not go along to another host: copy between two far places with a ticket";
                Err(refused(cause))
            }
        }
    }
}

/// Refuses ways of data streams that would not be those of one end; of copies between two daemons they were before.
///
/// # Errors
/// `Usage`.
pub fn check_ways(args: &CopyArgs, asked: &[Asked], elsewhere: &[Option<Elsewhere>]) -> Result<()> {
    let typed = &args.link.typed.of_streams;
    let runs_here = elsewhere.iter().any(Option::is_none);
    if typed.bind && runs_here && elsewhere.iter().any(Option::is_some) {
        let cause = "--bind names addresses or cards of one machine, and copies of this command run at two: give one command \
                     for those between two far places, and one for the others";
        return Err(refused(cause));
    }
    if !typed.via {
        return Ok(());
    }
    let ends = |(asked, elsewhere): (&Asked, &Option<Elsewhere>)| -> Vec<Whom> {
        match elsewhere {
            Some(Elsewhere::Deputy(between)) => between.errand.other_end().into_iter().collect(),
            Some(Elsewhere::Daemons(_)) => Vec::new(),
            None => asked.far_movers().collect(),
        }
    };
    let ends: Vec<Whom> = asked.iter().zip(elsewhere).flat_map(ends).collect();
    far_movers::check_via(&args.link.way.via, &ends)
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
        let published = Published::begin(self, hears.state);
        let ended = self.attend(hears, &published);
        published.over(&ended, hears.meter);
        ended
    }

    fn attend(&self, hears: &Hears<'_>, published: &Published) -> std::result::Result<Exit, Exit> {
        let Hears { how, state, relay, meter, stop, signal, .. } = *hears;
        let told = |told: Told| match told {
            Told::Out(line) => relay.out(&line),
            Told::Err(line) => relay.err(&line),
            Told::Note(text) => relay.note(text),
            Told::Evidence(evidence) => published.tell(&evidence, meter),
            Told::Progress(progress) => {
                relay.begun();
                meter.count_as(&progress);
            }
        };
        let ended = self.errand.run(self.given(hears), how, state, &told, stop);
        relay.over(matches!(ended, Ok(0)));
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

    fn given(&self, hears: &Hears<'_>) -> Given {
        let receipt = self.receipt.iter().map(|path| (RECEIPT.to_owned(), path.clone()));
        let report = self.report.iter().map(|report| (REPORT.to_owned(), report.path.clone()));
        Given {
            words: self.words.clone(),
            attached: self.attached.clone(),
            returned: receipt.chain(report).collect(),
            progress: true,
            rate: hears.rate.clone(),
            rate_changes: hears.rate_changes,
            number: self.number,
            copies: self.copies,
        }
    }
}

/// What `thalweg why` finds of it here: nothing before the acting end has told something.
struct Published {
    publisher: Option<Publisher>,
    is_told: AtomicBool,
}

impl Published {
    fn begin(between: &Between, state: &Path) -> Published {
        let (from, to) = &between.names;
        let publisher = Publisher::begin(state, from, to, false).filter(|_| !between.is_dry);
        Published { publisher, is_told: AtomicBool::new(false) }
    }

    fn tell(&self, evidence: &Evidence, meter: &Meter) {
        if let Some(publisher) = &self.publisher {
            publisher.tell(evidence, Some(Progress::of(meter)));
            self.is_told.store(true, Ordering::Relaxed);
        }
    }

    fn over(&self, ended: &std::result::Result<Exit, Exit>, meter: &Meter) {
        if let Some(publisher) = self.publisher.as_ref().filter(|_| self.is_told.load(Ordering::Relaxed)) {
            // How far it is may be told behind the evidence.
            publisher.tell_progress(Progress::of(meter));
            let is_done = matches!(ended, Ok(Exit::Done | Exit::Partial));
            publisher.over(if is_done { State::Finished } else { State::Failed });
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
