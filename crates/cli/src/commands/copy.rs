//! `thalweg cp` and `thalweg sync`: one copy, or several at the same time.

use crate::args::copy::CopyArgs;
use crate::args::filters::FilterArgs;
use crate::copy_output::relay::Relay;
use crate::copy_output::{Listener, Teller};
use crate::exit::Exit;
use crate::place::Places;
use crate::{begun, out, running, show, signals, threads};
use earlier::Earlier;
use errand::{Between, Elsewhere, Hears, Pack};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_client::by_daemon::BetweenDaemons;
use thalweg_client::errand::client_line;
use thalweg_client::far_movers::{FarMovers, How, Whom};
use thalweg_client::identity;
use thalweg_client::job::{self, Asked, Job};
use thalweg_client::options::congestion::{self, Wished};
use thalweg_client::options::memory;
use thalweg_client::receipt::{self, ReceiptFile};
use thalweg_mover::event::{self, Event};
use thalweg_mover::failure::{self, Failure, FailureKind, Result};
use thalweg_mover::run::client::LinkSettings;
use thalweg_mover::run::copy::{
    Fidelity, Meter, Movement, Remembered, Report, Selection, Stop, Watch, Wishes, deletes_in_part,
    removes_in_part,
};
use thalweg_mover::run::steer::Rate;
use thalweg_sys::heat;
use thalweg_sys::priority::Priority;
use thalweg_wire::message::{PartOf, Preserve};
use thalweg_wire::{RelativePath, limits};

/// Receipts that an earlier run left.
mod earlier;

/// Copies whose two places are far.
mod errand;

/// Copies through a directory of this machine.
mod staged;

/// `thalweg cp`.
///
/// # Errors
/// What is wrong with the command line; when no place could be reached.
pub fn cp(args: &CopyArgs, places: &Places) -> Result<Exit> {
    if args.delete {
        let cause = "`cp` never deletes: use `thalweg sync --delete`";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    run("cp", args, places)
}

/// `thalweg sync`.
///
/// # Errors
/// What is wrong with the command line; when no place could be reached.
pub fn sync(args: &CopyArgs, places: &Places) -> Result<Exit> {
    if args.remove_source_files {
        let cause = "`sync` keeps its source: use `thalweg cp --remove-source-files`";
        return Err(Failure::new(FailureKind::Usage, "read the command line", cause));
    }
    run("sync", args, places)
}

fn run(command: &str, args: &CopyArgs, places: &Places) -> Result<Exit> {
    match &args.stage {
        Some(stage) => staged::run(command, args, places, stage),
        None => run_directly(command, args, &args.filter.held()?, places),
    }
}

/// `filter`: that of the command line, its files read. From a pipe they come once.
///
/// 1. The command line is read, and this process stands back as it says.
/// 2. Places are reached; those of a copy between two far places when it runs.
/// 3. All copies run at the same time, and tell on one terminal.
/// 4. Links end in order; report and receipts are completed; each copy has its last word.
fn run_directly(command: &str, args: &CopyArgs, filter: &FilterArgs, places: &Places) -> Result<Exit> {
    let only = filter.only()?;
    let asked = read_places(args, only.as_deref(), places)?;
    if let Some(part) = asked.iter().find_map(Asked::part) {
        if args.delete {
            return Err(deletes_in_part(part));
        }
        if args.remove_source_files {
            return Err(removes_in_part(part));
        }
    }
    let state = identity::state_path(args.link.state.as_deref())?;
    let pack = Pack { command, args, filter, state: &state, copies: asked.len() };
    let elsewhere = |(asked, number): (&Asked, usize)| pack.elsewhere(asked, number);
    let elsewhere = asked.iter().zip(1..).map(elsewhere).collect::<Result<Vec<_>>>()?;
    errand::check_ways(args, &asked, &elsewhere)?;
    let is_daemons = |one: &Option<Elsewhere>| matches!(one, Some(Elsewhere::Daemons(_)));
    if args.to_ticket.is_some() && !elsewhere.iter().any(is_daemons) {
        return Err(needs_daemons());
    }
    let state = state_if_room(args.link.state.as_deref(), args.quiet)?;
    // Before there are threads: they inherit it.
    stand_back(args.manners.priority())?;
    let held_before = heat::held();
    bound_memory(args.knobs.memory);

    let far: Vec<Whom> = asked.iter().flat_map(Asked::far_movers).collect();
    let mut how = How { client_line: client_line()?, ..how(args, places, &state) };
    let is_shared = args.part.is_none() && asked.iter().any(|asked| asked.part().is_some());
    how.ssh.connect_max = (asked.len() > 1 && are_several_hosts(&far)).then_some(BESIDE_CONNECT_MAX);
    let mut far_movers = FarMovers::new(how.clone());
    let here = asked.iter().zip(&elsewhere).filter(|(_, elsewhere)| elsewhere.is_none());
    far_movers.reach_together(&here.flat_map(|(asked, _)| asked.far_movers()).collect::<Vec<_>>())?;
    let reach = |(asked, elsewhere): (Asked, Option<Elsewhere>)| -> Result<Work> {
        Ok(match elsewhere {
            Some(Elsewhere::Deputy(errand)) => Work::Between(Box::new(errand)),
            Some(Elsewhere::Daemons(daemons)) => Work::Daemons(Box::new(daemons)),
            None => Work::Here(Box::new(asked.in_chunks(args.knobs.chunk).reach(&mut far_movers, &state)?)),
        })
    };
    let has_deputy = elsewhere.iter().any(|one| matches!(one, Some(Elsewhere::Deputy(_))));
    let tickets = unused_tickets(args, &asked, &elsewhere);
    let works = reach_all(asked.into_iter().zip(elsewhere).collect(), is_shared, reach)?;
    let jobs: Vec<&Job> = works.iter().flatten().filter_map(Work::job).collect();
    if args.delete {
        job::refuse_shared(&jobs)?;
    }
    if args.remove_source_files {
        let written = [args.receipt.as_deref(), args.report.as_deref()];
        jobs.iter().try_for_each(|job| job.refuse_written(written))?;
    }
    let mut wishes = wishes(args, filter, only.unwrap_or_default(), &state)?;
    let receipts: Vec<PathBuf> =
        (1..=works.len()).filter_map(|at| receipt_at(args, at, works.len())).collect();
    jobs.iter().try_for_each(|job| job.refuse_doomed(&wishes, &receipts, args.report.as_deref()))?;
    works.iter().flatten().filter_map(Work::daemons).try_for_each(|daemons| daemons.check(&wishes))?;
    let mut unused = args.link.typed.unused(&far);
    unused.extend(tickets);
    if has_deputy {
        // Of what goes along it is said where such a copy runs.
        let along = |name: &str| {
            args.along.words.iter().any(|word| word.to_string_lossy().split('=').next() == Some(name))
        };
        unused.retain(|told| !told.split(' ').next().is_some_and(along));
    }
    if let [Ok(Work::Here(_))] = &works[..] {
        wishes.unused = std::mem::take(&mut unused);
    }
    let sends = jobs.iter().any(|job| job.is_push());
    let congestion = congestion::wished(args.link.congestion.cca.as_deref(), sends)?;
    // Whoever wants another rate from here on wants another one than the words of errands say.
    let rate_changes = wishes.movement.rate.changes();
    // What runs elsewhere is told there.
    let _listens = running::listen(&state, &wishes.movement.rate);

    let stop = Arc::new(Stop::default());
    let signal = signals::stop_on(stop.clone(), (!args.quiet).then_some(STOPPING))?;
    let of_part = |number: usize| receipt_at(args, number, works.len()).filter(|_| is_shared);
    let earlier = Earlier::find((1..=works.len()).filter_map(of_part));
    let receipts = begin_receipts(args, &wishes.selection, &works)?;
    let meters: Vec<Arc<Meter>> = works.iter().map(|_| Arc::default()).collect();
    let elsewhere = (1..).zip(&works).filter(|(_, work)| matches!(work, Ok(Work::Between(_))));
    let awaited: BTreeSet<usize> = elsewhere.map(|(number, _)| number).collect();
    let is_awaited = !awaited.is_empty();
    let teller = Arc::new(Teller::start(args, &meters, awaited)?);
    if !unused.is_empty() {
        // Of several copies it is said once: each has its own places.
        teller.hear_link(&Event::Note(format!("without effect: {}", unused.join(", "))));
    }
    let copies = Copies {
        works: &works,
        receipts: &receipts,
        how: &how,
        to_ticket: args.to_ticket.as_deref(),
        wishes: &wishes,
        rate_changes,
        congestion: &congestion,
        state: &state,
        stop: &stop,
        signal: &signal,
        teller: &teller,
    };
    // Who waits for deputies has begun with them.
    if !is_awaited {
        begun::tell();
    }
    let done = copies.run(&meters);

    // Ends links in order, and what ssh started.
    drop(far_movers);
    teller.tell_held(held_before, heat::held());
    done.iter().for_each(Done::write_end);
    let mut reported = teller.stop();
    for (receipt, copy) in receipts.into_iter().zip(&done) {
        if let (Some(receipt), Ok(Ended::Here(report))) = (receipt, &copy.result)
            && let Some(agreed) = &report.agreed
        {
            reported = reported.worst(teller.kept(receipt.finish(agreed)));
        }
    }
    for told in earlier.set_aside() {
        teller.hear_link(&Event::Note(told));
    }
    Ok(done.iter().fold(reported, |exit, copy| exit.worst(copy.finish(reported))))
}

/// What each copy of the command is to do. One that several hosts share is as many.
fn read_places(args: &CopyArgs, only: Option<&[RelativePath]>, places: &Places) -> Result<Vec<Asked>> {
    let all = std::iter::once(&args.places).chain(&args.and.copies);
    let read = |typed: &Vec<OsString>| Asked::read_parts(typed, only, places, args.part);
    let asked: Vec<Asked> = all.map(read).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    match asked.len() > limits::TRANSFERS_MAX {
        true => Err(usage(&format!("at most {} copies in one command", limits::TRANSFERS_MAX))),
        false => Ok(asked),
    }
}

/// For how long one ssh host of several may not answer: the others wait for it, and their copies with them. A login
/// takes far less; where nothing answers the kernel tries for some two minutes.
const BESIDE_CONNECT_MAX: Duration = Duration::from_secs(30);

/// Whether more than one host is logged in to.
fn are_several_hosts(far: &[Whom]) -> bool {
    let mut hosts = far.iter().filter(|whom| matches!(whom, Whom::Ssh(..)));
    hosts.next().is_some_and(|first| hosts.any(|other| other != first))
}

/// Reaches their places. Of a copy that several hosts share (`may_lack`), a host that is not reached leaves its parts
/// undone, unless none is; it is tried once.
fn reach_all(
    asked: Vec<(Asked, Option<Elsewhere>)>,
    may_lack: bool,
    mut reach: impl FnMut((Asked, Option<Elsewhere>)) -> Result<Work>,
) -> Result<Vec<Result<Work>>> {
    let mut works = Vec::with_capacity(asked.len());
    let mut lost: Vec<(Whom, Failure)> = Vec::new();
    for one in asked {
        let is_shared = may_lack && one.0.part().is_some();
        // What is reached now has one at most: two far places are reached when their copy runs.
        let whom = one.0.far_movers().next().filter(|_| one.1.is_none());
        let known = lost.iter().find(|(lost, _)| Some(lost) == whom.as_ref());
        let reached = match known {
            Some((_, failure)) => Err(failure.clone()),
            None => reach(one),
        };
        match &reached {
            Err(failure) if !is_shared || failure.kind == FailureKind::Usage => return Err(failure.clone()),
            Err(failure) => lost.extend(whom.map(|whom| (whom, failure.clone()))),
            Ok(_) => {}
        }
        works.push(reached);
    }
    let first = works.iter().find_map(|work| work.as_ref().err()).cloned();
    match first {
        Some(failure) if works.iter().all(Result::is_err) => Err(failure),
        _ => Ok(works),
    }
}

/// The receipt of each copy that ends or begins here, if one is asked for: that of another is written there.
fn begin_receipts(
    args: &CopyArgs,
    selection: &Selection,
    works: &[Result<Work>],
) -> Result<Vec<Option<ReceiptFile>>> {
    let begin = |(work, number): (&Result<Work>, usize)| {
        let part = work.as_ref().ok().and_then(Work::own_part);
        let path = part.zip(receipt_at(args, number, works.len()));
        path.map(|(part, path)| ReceiptFile::begin(&path, &header(args, selection, part))).transpose()
    };
    works.iter().zip(1..).map(begin).collect()
}

/// Where the receipt of the copy with this number is to be: of parts `FILE.1`, `FILE.2` and so on.
fn receipt_at(args: &CopyArgs, number: usize, copies: usize) -> Option<PathBuf> {
    let mut path = args.receipt.clone()?.into_os_string();
    if copies > 1 {
        path.push(format!(".{number}"));
    }
    Some(path.into())
}

/// How far movers are reached.
fn how(args: &CopyArgs, places: &Places, state: &Path) -> How {
    let events = if args.quiet { event::nobody() } else { show::notes() };
    args.link.how(places, state, args.manners.priority(), events)
}

/// One copy of a command.
enum Work {
    /// One end at least is here.
    Here(Box<Job>),
    /// Both are far.
    Between(Box<Between>),
    /// Both are at daemons, of which one acts.
    Daemons(Box<BetweenDaemons>),
}

impl Work {
    /// What is done here.
    fn job(&self) -> Option<&Job> {
        match self {
            Work::Here(job) => Some(job),
            Work::Between(_) | Work::Daemons(_) => None,
        }
    }

    /// What is done between two daemons.
    fn daemons(&self) -> Option<&BetweenDaemons> {
        match self {
            Work::Daemons(daemons) => Some(daemons),
            Work::Here(_) | Work::Between(_) => None,
        }
    }

    /// The part that it is of, if any, where what is told of it is made here.
    fn own_part(&self) -> Option<Option<PartOf>> {
        self.job().map(|job| job.part).or_else(|| self.daemons().map(BetweenDaemons::part))
    }
}

/// What the copies of one command share.
struct Copies<'a> {
    /// Of those whose hosts were not reached, why.
    works: &'a [Result<Work>],
    receipts: &'a [Option<ReceiptFile>],
    how: &'a How,
    to_ticket: Option<&'a Path>,
    wishes: &'a Wishes,
    /// How often its rate had changed when that was what was typed.
    rate_changes: u64,
    congestion: &'a Wished,
    state: &'a Path,
    stop: &'a Stop,
    signal: &'a signals::Asked,
    teller: &'a Arc<Teller>,
}

/// Who is told of one copy.
#[derive(Clone, Copy)]
struct Audience<'a> {
    receipt: Option<&'a ReceiptFile>,
    meter: &'a Arc<Meter>,
    listener: &'a Arc<Listener>,
}

/// A copy that is over.
struct Done {
    listener: Arc<Listener>,
    result: std::result::Result<Ended, Exit>,
    /// Whether something keeps what was copied.
    is_kept: bool,
}

/// How a copy came to its end.
enum Ended {
    Here(Box<Report>),
    /// With this exit code where it ran, and these last words.
    There(Exit, Relay),
}

impl Copies<'_> {
    /// Runs all of them, each in a thread of its own; one that gets none has failed.
    fn run(&self, meters: &[Arc<Meter>]) -> Vec<Done> {
        let listeners: Vec<Arc<Listener>> = (1..=self.works.len())
            .map(|number| Arc::new(Listener::new(self.teller.clone(), number)))
            .collect();
        std::thread::scope(|scope| {
            let copies: Vec<_> = self
                .works
                .iter()
                .zip(self.receipts)
                .zip(meters.iter().zip(&listeners))
                .map(|((work, receipt), (meter, listener))| {
                    let work =
                        work.as_ref().map_err(|failure| listener.failed(failure, Exit::of(failure.kind)))?;
                    let audience = Audience { receipt: receipt.as_ref(), meter, listener };
                    let run = move || match work {
                        Work::Here(job) => self.run_one(job, audience),
                        Work::Between(errand) => self.run_between(errand, audience),
                        Work::Daemons(daemons) => self.run_daemons(daemons, audience),
                    };
                    threads::spawn_scoped(scope, "copy", run)
                        .map_err(|failure| listener.failed(&failure, Exit::of(failure.kind)))
                })
                .collect();
            let results = copies
                .into_iter()
                .map(|copy| copy.and_then(|copy| copy.join().unwrap_or(Err(Exit::Nothing))));
            let both = results.zip(self.works).zip(&listeners);
            both.map(|((result, work), listener)| Done {
                listener: listener.clone(),
                result,
                is_kept: work.as_ref().is_ok_and(|work| work.job().is_none_or(Job::is_kept)),
            })
            .collect()
        })
    }

    /// Runs one whose data come here or go from here; a failure is told at once.
    fn run_one(&self, job: &Job, audience: Audience<'_>) -> std::result::Result<Ended, Exit> {
        let wishes = self.wishes_of(audience, job.is_push());
        if let Some(text) = self.congestion.note.clone().filter(|_| job.is_push()) {
            audience.listener.hear(&Event::Note(text));
        }
        let report = job.run(&wishes, self.state, &self.watch(audience), self.stop);
        self.ended(report, audience.listener)
    }

    /// Has one of two daemons run it; a failure is told at once.
    fn run_daemons(
        &self,
        daemons: &BetweenDaemons,
        audience: Audience<'_>,
    ) -> std::result::Result<Ended, Exit> {
        // Congestion control is looked at by who sends.
        let wishes = self.wishes_of(audience, false);
        let hows = (self.how, self.to_ticket.map(Path::to_owned));
        let watch = self.watch(audience);
        let report = daemons.run(&wishes, hows, self.teller.tells_all(), self.state, &watch, self.stop);
        self.ended(report, audience.listener)
    }

    /// What is wished of a copy that is told of here.
    fn wishes_of(&self, audience: Audience<'_>, we_send: bool) -> Wishes {
        let mut wishes = self.wishes.clone();
        wishes.receipt = audience.receipt.map(ReceiptFile::sink);
        wishes.movement.link.congestion = self.congestion.where_we_send(we_send);
        wishes
    }

    /// Who watches such a copy.
    fn watch(&self, audience: Audience<'_>) -> Watch {
        let (hears, hears_link) = (audience.listener.clone(), self.teller.clone());
        Watch {
            events: Arc::new(move |event| hears.hear(&event)),
            is_behind: Some(Arc::new(out::is_behind)),
            link_events: Arc::new(move |event| hears_link.hear_link(&event)),
            meter: audience.meter.clone(),
            evidence: None,
        }
    }

    /// How it ended; a failure is told at once.
    fn ended(&self, report: Result<Report>, listener: &Arc<Listener>) -> std::result::Result<Ended, Exit> {
        let report = report.map_err(|failure| {
            let exit = match failure.kind {
                FailureKind::Stopped => self.signal.exit(),
                kind => Exit::of(kind),
            };
            listener.failed(&failure, exit)
        })?;
        Ok(Ended::Here(Box::new(report)))
    }

    /// Has one run whose places are both far; a failure on the way there is told at once.
    fn run_between(&self, errand: &Between, audience: Audience<'_>) -> std::result::Result<Ended, Exit> {
        let Audience { meter, listener, .. } = audience;
        listener.hear(&Event::Detail(format!(
            "it runs at {}; `thalweg why` and `thalweg limit` are asked about it here",
            errand.acting()
        )));
        let relay = Relay::new(listener.clone());
        let Copies { how, state, stop, signal, rate_changes, .. } = *self;
        let rate = &self.wishes.movement.rate;
        let exit =
            errand.run(&Hears { how, state, relay: &relay, meter, rate, rate_changes, stop, signal })?;
        Ok(Ended::There(exit, relay))
    }
}

impl Done {
    /// The last lines of the report file.
    fn write_end(&self) {
        if let Ok(Ended::Here(report)) = &self.result {
            self.listener.write_end(report);
        }
    }

    /// Its last word. `reported`: what became of report and receipt.
    fn finish(&self, reported: Exit) -> Exit {
        match &self.result {
            Ok(Ended::Here(report)) => self.listener.finish(report, self.is_kept, reported),
            Ok(Ended::There(exit, relay)) => relay.finish(*exit, reported),
            Err(exit) => *exit,
        }
    }
}

fn header(args: &CopyArgs, selection: &Selection, part: Option<PartOf>) -> receipt::Asked {
    receipt::Asked::of(&args.places, args.knobs.compress, args.delete, part, selection)
}

/// Of the two tickets that are given those that nothing goes by beside a copy between two daemons: each place may have
/// its own.
fn unused_tickets(args: &CopyArgs, asked: &[Asked], elsewhere: &[Option<Elsewhere>]) -> Vec<String> {
    let daemons: Vec<&BetweenDaemons> = elsewhere
        .iter()
        .filter_map(|one| match one {
            Some(Elsewhere::Daemons(daemons)) => Some(daemons),
            _ => None,
        })
        .collect();
    if daemons.is_empty() {
        return Vec::new();
    }
    let needs = |whom: &Whom| matches!(whom, Whom::Daemon(_, None));
    let others = asked.iter().zip(elsewhere).filter(|(_, one)| !matches!(one, Some(Elsewhere::Daemons(_))));
    let is_used = others.flat_map(|(asked, _)| asked.far_movers()).any(|whom| needs(&whom))
        || daemons.iter().any(|daemons| needs(daemons.ends().0));
    let is_to_used = daemons.iter().any(|daemons| needs(daemons.ends().1));
    // Where no place needs one that is told already.
    let is_ticket = args.link.typed.has_ticket && !is_used && is_to_used;
    let ticket = is_ticket.then(|| "--ticket (the source has one of its own)".to_owned());
    let to_ticket = (args.to_ticket.is_some() && !is_to_used)
        .then(|| "--to-ticket (the destination has one of its own)".to_owned());
    ticket.into_iter().chain(to_ticket).collect()
}

/// Why a ticket for the destination is refused.
fn needs_daemons() -> Failure {
    usage("--to-ticket is for a copy between two daemons")
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the command line", cause)
}

/// For all buffers of this process, if somebody asks for it.
pub fn bound_memory(bytes: Option<u64>) {
    if bytes.is_some() {
        memory::bound(bytes);
    }
}

fn wishes(args: &CopyArgs, filter: &FilterArgs, only: Vec<RelativePath>, state: &Path) -> Result<Wishes> {
    let movement = movement(args)?;
    Ok(Wishes {
        selection: selection(args, filter, only)?,
        fidelity: Fidelity {
            preserve: Preserve {
                mode: !args.no_perms,
                owner: !args.no_owner,
                times: !args.no_times,
                xattrs: !args.no_xattrs,
                devices: args.devices,
            },
            delete_max: args.delete.then_some(args.max_delete),
            check: args.knobs.check.check(),
            finds_renames: args.knobs.find_renames,
            verify: args.verify.level(),
        },
        movement,
        remembered: Remembered {
            state: Some(state.to_owned()),
            no_profile: args.no_profile,
            ..Remembered::default()
        },
        dry_run: args.dry_run,
        removes_sources: args.remove_source_files,
        asked_of_way: args.link.typed.of_streams,
        ..Wishes::default()
    })
}

fn selection(args: &CopyArgs, filter: &FilterArgs, only: Vec<RelativePath>) -> Result<Selection> {
    Ok(Selection {
        filter: filter.rules()?,
        only,
        one_file_system: args.one_file_system,
        follow_links: args.copy_links,
        update: args.update,
        ignore_existing: args.ignore_existing,
        // Each copy has its own.
        part: None,
    })
}

fn movement(args: &CopyArgs) -> Result<Movement> {
    Ok(Movement {
        asked: args.knobs.asked(args.link.streams, args.manners.yields())?,
        rate: Arc::new(Rate::of_bits(args.bwlimit)),
        holds_still: args.knobs.no_tune,
        link: LinkSettings { dscp: args.manners.dscp(), ..args.link.settings() },
        has_via: !args.link.way.via.is_empty(),
        has_bind: !args.link.way.bind.is_empty(),
    })
}

/// Takes less of this machine than others do, as asked.
pub fn stand_back(priority: Priority) -> Result<()> {
    priority.take().map_err(|error| failure::of_io("set --nice, --ionice", &error))
}

/// The state directory of a copy or a stream, to which it is not needed: where there is no room for one that is told,
/// unless `is_quiet`.
///
/// # Errors
/// As [`identity::state_if_room`].
pub fn state_if_room(asked: Option<&Path>, is_quiet: bool) -> Result<PathBuf> {
    let (state, told) = identity::state_if_room(asked)?;
    if let Some(text) = told.filter(|_| !is_quiet) {
        show::line(&format!("warning: {text}"));
    }
    Ok(state)
}

const STOPPING: &str = "stopping: what was written becomes durable first; once more to stop at once";

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::link::Identity;
    use thalweg_mover::run::copy::{From, To};

    #[test]
    fn one_host_by_ssh_is_alone_however_many_copies_and_daemons_there_are_beside_it() {
        let are_several = |copies: &[[&str; 2]]| {
            let far = |typed: &[&str; 2]| {
                let typed = typed.map(OsString::from);
                let asked = Asked::read_parts(&typed, None, &Places::default(), None).unwrap();
                asked.iter().flat_map(Asked::far_movers).collect::<Vec<_>>()
            };
            are_several_hosts(&copies.iter().flat_map(far).collect::<Vec<_>>())
        };
        assert!(!are_several(&[["h:a", "x"], ["h:b", "y"]]));
        assert!(!are_several(&[["h:a", "tw://d/e/x"], ["z", "h:b"], ["h:c", "h:d"]]));
        assert!(!are_several(&[["tw://d/e/x", "x"], ["tw://f/e/y", "y"]]));
        assert!(are_several(&[["h:a", "x"], ["me@h:b", "y"]]));
        assert!(are_several(&[["h:a", "x"], ["h:b", "other:y"]]));
        assert!(are_several(&[["a,b:x", "x"]]));
    }

    /// Each time it would be waited for.
    #[test]
    fn a_host_of_several_that_is_not_reached_is_tried_once() {
        let read = |typed: [&str; 2]| {
            Asked::read_parts(&typed.map(OsString::from), None, &Places::default(), None).unwrap()
        };
        let both = [["x/", "down,up:y"], ["z/", "down,up:w"]];
        let asked = both.into_iter().flat_map(read).map(|asked| (asked, None)).collect();
        let mut tried = Vec::new();
        let reach = |(asked, _): (Asked, Option<Elsewhere>)| {
            let Some(Whom::Ssh(host, _)) = asked.far_movers().next() else { panic!("it is by ssh") };
            tried.push(host.clone());
            if host == "down" {
                return Err(Failure::new(FailureKind::Connection, "start by ssh", "nobody answers"));
            }
            let (from, to, part) = (From::Zero(0), To::Null, asked.part());
            let signer = Arc::new(Identity::generate("test").unwrap());
            Ok(Work::Here(Box::new(Job { from, to, signer, names: asked.names(), part, client_line: None })))
        };
        let works = reach_all(asked, true, reach).unwrap();
        assert_eq!(tried, ["down", "up", "up"]);
        assert_eq!(works.iter().map(Result::is_err).collect::<Vec<_>>(), [true, false, true, false]);
    }
}
