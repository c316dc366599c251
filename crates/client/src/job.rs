//! One copy, from places as they are written to its report: what every caller does the same way.

use crate::by_daemon::BetweenDaemons;
use crate::errand::Errand;
use crate::far_movers::{self, FarMovers, Whom, is_same_mover};
use crate::hosts;
use crate::objects::{self, Bucket};
use crate::place::{Place, Places};
use crate::profiles::{self, ByHand, Ends, Foreknown, Profiles};
use crate::{identity, not_here, routes};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_mover::endpoint::local::overlap;
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::link::Identity;
use thalweg_mover::run::by_client::ClientLine;
use thalweg_mover::run::copy::{
    self, EvidenceSink, From, Remembered, Report, Selection, Stop, To, Watch, Wishes,
};
use thalweg_mover::run::far_mover::FarMover;
use thalweg_service::published::{Progress, Publisher, SHOWN_BYTES_MAX, State};
use thalweg_wire::message::{self, PartOf};
use thalweg_wire::path::Escaped;
use thalweg_wire::{RelativePath, limits};

mod doomed;

/// A copy as it was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    sources: Vec<Place>,
    destination: Place,
    /// Bytes of a chunk, if the user says.
    chunk_bytes: Option<u64>,
    /// It is of this part alone.
    part: Option<PartOf>,
    /// It is the leg out of a stage.
    is_leg_out: bool,
}

/// A copy whose places are reached.
pub struct Job {
    /// Where it reads.
    pub from: From,
    /// Where it writes.
    pub to: To,
    /// Who signs.
    pub signer: Arc<Identity>,
    /// Source and destination as they are shown.
    pub names: (String, String),
    /// It is of this part alone.
    pub part: Option<PartOf>,
    /// Of a copy that a deputy runs: who is told how far it is.
    pub client_line: Option<Arc<ClientLine>>,
}

impl Asked {
    /// Of one source. `command` is what was asked for, as for [`Asked::read`].
    ///
    /// # Errors
    /// `Unsupported` if both places are far; `Usage` if they are in one bucket, one inside the other.
    pub fn new(command: &str, source: Place, destination: Place) -> Result<Asked> {
        let asked = Asked::of(vec![source], destination);
        asked.refuse_both_far(command)?;
        asked.refuse_in_bucket()?;
        Ok(asked)
    }

    fn of(sources: Vec<Place>, destination: Place) -> Asked {
        Asked { sources, destination, chunk_bytes: None, part: None, is_leg_out: false }
    }

    /// The same as the leg out of a stage: what it brings is found by the copy that reads the source itself.
    #[must_use]
    pub(crate) fn out_of_stage(self) -> Asked {
        Asked { is_leg_out: true, ..self }
    }

    /// The same copy with chunks of so many bytes, as the user asks: where it reads a bucket, each is one request.
    #[must_use]
    pub fn in_chunks(self, chunk_bytes: Option<u64>) -> Asked {
        Asked { chunk_bytes, ..self }
    }

    /// Only this part of it.
    #[must_use]
    pub fn in_part(self, part: Option<PartOf>) -> Asked {
        Asked { part, ..self }
    }

    /// Has this ticket count for the daemon at its destination, if that has none of its own and the sources are at a
    /// daemon, too; whether both are.
    pub fn give_to_ticket(&mut self, to_ticket: &Path) -> bool {
        let is_from_daemon = matches!(self.sources.first(), Some(Place::Daemon { .. }));
        match &mut self.destination {
            Place::Daemon { ticket, .. } if is_from_daemon => {
                ticket.get_or_insert_with(|| to_ticket.to_owned());
                true
            }
            _ => false,
        }
    }

    /// Whether neither its sources nor its destination are on this machine, or in buckets.
    pub fn is_both_far(&self) -> bool {
        let is_far = |place: &Place| Whom::of(place).is_some();
        self.sources.first().is_some_and(is_far) && is_far(&self.destination)
    }

    /// Whether a source or the destination is in a bucket.
    pub fn has_bucket(&self) -> bool {
        self.sources.iter().chain([&self.destination]).any(Place::is_in_bucket)
    }

    /// Refuses two far places, for who runs no [errands](Asked::errand). `command` is what was asked for, as for
    /// [`Asked::read`].
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn refuse_both_far(&self, command: &str) -> Result<()> {
        match self.is_both_far() {
            true => Err(not_here::both_far(command, &self.sources, &self.destination)),
            false => Ok(()),
        }
    }

    /// The copy that it is if both its places are at daemons; else `None`. `command` is what was asked for, as for
    /// [`Asked::read`].
    ///
    /// # Errors
    /// `Unsupported` if both are at one.
    pub fn between_daemons(&self, command: &str) -> Result<Option<BetweenDaemons>> {
        match BetweenDaemons::of(command, &self.sources, &self.destination, self.part) {
            Some(_) if is_same_mover(&self.sources[0], &self.destination) => {
                Err(not_here::both_far(command, &self.sources, &self.destination))
            }
            daemons => Ok(daemons),
        }
    }

    /// The errand that it is if both its places are far, and not both [at daemons](Asked::between_daemons); else
    /// `None`. `command` is what was asked for, as for [`Asked::read`].
    ///
    /// # Errors
    /// As [`Errand::of`].
    pub fn errand(&self, command: &str) -> Result<Option<Errand>> {
        let is_daemon = |place: &Place| matches!(place, Place::Daemon { .. });
        let are_daemons = self.sources.iter().chain([&self.destination]).all(is_daemon);
        match self.is_both_far() && !are_daemons {
            true => Errand::of(command, &self.sources, &self.destination).map(Some),
            false => Ok(None),
        }
    }

    fn refuse_in_bucket(&self) -> Result<()> {
        let is_met = |source: &&Place| {
            self.sources.iter().any(|other| source.meets_in_bucket(other, &self.destination))
        };
        match self.sources.iter().find(is_met) {
            Some(source) => Err(meets(&source.to_string(), &self.destination.to_string())),
            None => Ok(()),
        }
    }

    /// Of several sources in buckets each gives a name of its own.
    fn check_names(&self) -> Result<()> {
        let key = |place: &Place| match place {
            Place::Object { location, .. } => Some(location.key.clone()),
            _ => None,
        };
        let keys: Vec<String> = self.sources.iter().filter_map(key).collect();
        if keys.len() < 2 {
            return Ok(());
        }
        let names: Vec<&str> = keys.iter().map(|key| objects::name_of_key(key)).collect();
        for (at, name) in names.iter().enumerate() {
            let source = &self.sources[at];
            if name.is_empty() {
                return Err(not_here::no_names_of_their_own(&format!("{source} is what is in it")));
            }
            if let Some(other) = names[..at].iter().position(|other| other == name) {
                let other = &self.sources[other];
                let cause = format!("{other} and {source} would both give the same name at the destination");
                return Err(not_here::no_names_of_their_own(&cause));
            }
        }
        Ok(())
    }

    /// Reads the places of one copy, sources first, and refuses what cannot be copied, before anybody is asked for a
    /// password. `command` is what was asked for, `cp`: who names two far places is told it for one of them. `only`:
    /// names of a list, which are below the sources.
    ///
    /// # Errors
    /// `Usage`, `Unsupported`.
    pub fn read(
        command: &str,
        typed: &[OsString],
        only: Option<&[RelativePath]>,
        places: &Places,
    ) -> Result<Asked> {
        let asked = Asked::read_either(typed, only, places)?;
        asked.refuse_both_far(command)?;
        Ok(asked)
    }

    /// The same for a command that runs [errands](Asked::errand): both places may be far. What is bounded of far
    /// sources is then looked at where the copy runs.
    ///
    /// # Errors
    /// `Usage`.
    pub fn read_either(typed: &[OsString], only: Option<&[RelativePath]>, places: &Places) -> Result<Asked> {
        let mut sources = typed.iter().map(|text| Place::parse(text, places)).collect::<Result<Vec<_>>>()?;
        let destination = sources.pop().ok_or_else(|| usage("the source and the destination are missing"))?;
        // Whoever names one place names what is to be copied.
        let Some(first) = sources.first() else { return Err(usage("the destination is missing")) };
        let at = Whom::of(first);
        if sources.iter().any(|source| matches!(source, Place::Null)) {
            return Err(usage("`null:` is no source"));
        }
        if sources.iter().any(|source| !not_here::are_together(source, first))
            || not_here::is_alone(first) && sources.len() > 1
        {
            return Err(not_here::several_places(&sources, &destination));
        }
        if matches!(destination, Place::Zero(_) | Place::Dataset(_)) {
            return Err(usage("`zero:` and `data:` are no destinations"));
        }
        let is_far = at.is_some();
        let mut asked = Asked::of(sources, destination);
        if asked.is_both_far() {
            return Ok(asked);
        }
        asked.refuse_in_bucket()?;
        asked.check_names()?;
        let most = limits::PLACES_MAX;
        if is_far && asked.sources.len() > most {
            return Err(usage(&format!(
                "a far place takes at most {most} sources: name the directory that they are in"
            )));
        }
        if let Some(only) = only {
            if is_far {
                refuse_long_list(only)?;
            }
            asked.sources.iter_mut().for_each(Place::mean_contents);
        }
        Ok(asked)
    }

    /// As [`Asked::read_either`], of places that may be at several hosts. Then it is as many copies as the longer list
    /// has hosts, each of a part, from and to the hosts whose turn it is. `part`: what is asked for is that part alone.
    ///
    /// # Errors
    /// As [`Asked::read_either`]; `Usage` for a part that is to be shared by several hosts, and for sources at lists of
    /// two lengths.
    pub fn read_parts(
        typed: &[OsString],
        only: Option<&[RelativePath]>,
        places: &Places,
        part: Option<PartOf>,
    ) -> Result<Vec<Asked>> {
        let each = typed.iter().map(|text| hosts::each(text)).collect::<Result<Vec<_>>>()?;
        let count = each.iter().map(Vec::len).max().unwrap_or(1);
        if count == 1 {
            return Ok(vec![Asked::read_either(typed, only, places)?.in_part(part)]);
        }
        if let Some(part) = part {
            return Err(not_here::part_of_several(part, count));
        }
        let mut lengths = each.iter().rev().skip(1).map(Vec::len);
        let first = lengths.next();
        if lengths.any(|length| Some(length) != first) {
            return Err(usage("all sources are at the same hosts: name as many for each"));
        }
        let turn = |number: usize| -> Result<Asked> {
            let typed: Vec<OsString> = each.iter().map(|hosts| hosts[number % hosts.len()].clone()).collect();
            let part = PartOf::new(number as u32 + 1, count as u32);
            Ok(Asked::read_either(&typed, only, places)?.in_part(part))
        };
        (0..count).map(turn).collect()
    }

    /// Its sources and its destination.
    pub(crate) fn places(&self) -> (&[Place], &Place) {
        (&self.sources, &self.destination)
    }

    /// Whether it is of a part alone.
    pub fn part(&self) -> Option<PartOf> {
        self.part
    }

    /// The far movers that its places are at, each place's own.
    pub fn far_movers(&self) -> impl Iterator<Item = Whom> {
        self.sources.iter().chain([&self.destination]).filter_map(Whom::of)
    }

    /// Source and destination as they are shown.
    pub fn names(&self) -> (String, String) {
        let part = self.part.map_or_else(String::new, |part| format!(" (part {part})"));
        let bytes_max = SHOWN_BYTES_MAX - MORE_BYTES_MAX;
        let mut from = String::new();
        for (at, source) in self.sources.iter().enumerate() {
            let name = source.to_string();
            if at > 0 && from.len() + name.len() >= bytes_max {
                from.push_str(&format!(" and {} more", self.sources.len() - at));
                break;
            }
            let between = if at > 0 { " " } else { "" };
            from.push_str(between);
            from.push_str(&name);
        }
        (format!("{from}{part}"), self.destination.to_string())
    }

    /// Reaches them. `state` is where our own keys are: those of a ticket, which its daemon has too, sign nothing.
    ///
    /// # Errors
    /// As [`FarMovers::reach`] and [`identity::own`]; of places in buckets as [`Bucket::source`] and
    /// [`Bucket::destination`].
    pub fn reach(self, far_movers: &mut FarMovers, state: &Path) -> Result<Job> {
        let (names, part) = (self.names(), self.part);
        let mut written = None;
        let to = match (there(&self.destination, far_movers)?, self.destination) {
            (Some((far, place)), _) => To::Far(far, place),
            (None, Place::Local(path)) => To::Local(path),
            (None, Place::Simulated(spec)) => To::Simulated(spec),
            (None, Place::Object { location, settings }) => {
                let mut bucket = far_movers.bucket(&location, &settings)?;
                if self.is_leg_out {
                    bucket = bucket.behind_stage();
                }
                let to = To::Given(bucket.destination(state)?);
                written = Some(bucket);
                to
            }
            (None, _) => To::Null,
        };
        // A bucket that is written takes no chunks of every size.
        let chunk_bytes = match &to {
            To::Given(to) => {
                to.chunk_bytes.map_or(self.chunk_bytes, |suits| Some(suits(self.chunk_bytes, None)))
            }
            _ => self.chunk_bytes,
        };
        let mut from: Option<From> = None;
        let mut read: Vec<Bucket> = Vec::new();
        for source in self.sources {
            match (there(&source, far_movers)?, source, &mut from) {
                (Some((_, place)), _, Some(From::Far(_, places))) => places.push(place),
                (Some((far, place)), ..) => from = Some(From::Far(far, vec![place])),
                (None, Place::Local(path), Some(From::Local(paths))) => paths.push(path),
                (None, Place::Local(path), _) => from = Some(From::Local(vec![path])),
                (None, Place::Zero(bytes), _) => from = Some(From::Zero(bytes)),
                (None, Place::Dataset(spec), _) => from = Some(From::Dataset(spec)),
                (None, Place::Simulated(spec), _) => from = Some(From::Simulated(spec)),
                (None, Place::Object { location, settings }, _) => {
                    read.push(far_movers.bucket(&location, &settings)?);
                }
                (None, ..) => return Err(usage("this is no source")),
            }
        }
        if let Some(to) = &written
            && read.iter().any(|from| read.iter().any(|other| from.meets(other, to)))
        {
            return Err(meets(&names.0, &names.1));
        }
        if !read.is_empty() {
            from = Some(From::Given(objects::source_of(&read, chunk_bytes)?));
        }
        let signer = Arc::new(identity::own(state)?);
        let client_line = far_movers.client_line();
        let from = from.ok_or_else(|| usage("the source is missing"))?;
        Ok(Job { from, to, signer, names, part, client_line })
    }
}

/// A copy within one bucket that would read what it writes.
fn meets(source: &str, destination: &str) -> Failure {
    let cause = format!(
        "the source {source} and what it becomes at the destination {destination} are the same or one inside the other: \
         what is written would be read as what is to be copied"
    );
    Failure::new(FailureKind::Usage, "copy", cause)
}

/// The far mover that a place is at, and the place as that knows it; `None` for others.
fn there(place: &Place, far_movers: &mut FarMovers) -> Result<Option<(Arc<FarMover>, message::Place)>> {
    let Some((whom, there)) = Whom::of(place).zip(far_movers::place_there(place)) else { return Ok(None) };
    let reached = far_movers.reach(&whom).map_err(|failure| not_here::not_reached(place, failure))?;
    Ok(Some((reached.far, there)))
}

/// Bytes of all names of a list for a far source: they travel in one message, of which a quarter of a MiB is for
/// places, rules and terms.
const LIST_BYTES_MAX: usize = limits::MESSAGE_BYTES_MAX - (256 << 10);

/// Room for what stands behind the names of sources: how many more there are, and of which part it is.
const MORE_BYTES_MAX: usize = 64;
/// Bytes of such a name with what tells how long it is, in groups of seven bits.
fn encoded_bytes(name: &RelativePath) -> usize {
    let bytes = name.as_bytes().len();
    bytes + (usize::BITS - bytes.leading_zeros()).div_ceil(7).max(1) as usize
}

/// Refuses a list of names that no far source takes.
///
/// # Errors
/// `Usage`.
pub(crate) fn refuse_long_list(only: &[RelativePath]) -> Result<()> {
    let (names, bytes) = (limits::ONLY_NAMES_MAX, LIST_BYTES_MAX);
    let all_bytes: usize = only.iter().map(encoded_bytes).sum();
    if only.len() <= names && all_bytes <= bytes {
        return Ok(());
    }
    Err(usage(&format!(
        "a far source takes at most {names} names of --files-from, which have at most {bytes} bytes in a message, and \
         these are {} with {all_bytes}: run thalweg at the source, or give the list in parts",
        only.len()
    )))
}

/// Refuses copies of one command of which one would delete what another writes: for copies that delete.
///
/// Not seen: links and mounts at a far place, and one place under two addresses.
///
/// # Errors
/// `Usage`, with both destinations.
pub fn refuse_shared(jobs: &[&Job]) -> Result<()> {
    for (index, job) in jobs.iter().enumerate() {
        let ends = job.ends();
        for other in &jobs[..index] {
            let (Some(there), Some(here)) = (other.host(), job.host()) else { continue };
            let meets = |end: &PathBuf| ends.iter().any(|own| own.starts_with(end) || end.starts_with(own));
            if there.is(here) && other.ends().iter().any(meets) {
                let cause = format!(
                    "two copies end at the same place or one inside the other ({}, {}), and with --delete each deletes \
                     what the other brings; copy them one after the other to places of their own",
                    other.names.1, job.names.1
                );
                return Err(Failure::new(FailureKind::Usage, "copy", cause));
            }
        }
    }
    Ok(())
}

/// What a source is called at the destination; nothing if its contents are meant.
pub(crate) fn name_of(path: &[u8]) -> &OsStr {
    match path.rsplit(|&byte| byte == b'/').next() {
        None | Some(b"." | b"..") => OsStr::new(""),
        Some(name) => OsStr::from_bytes(name),
    }
}

/// A machine that a copy writes on.
#[derive(Clone, Copy)]
enum Host<'a> {
    Own,
    Far(&'a Arc<FarMover>),
    /// A bucket, by its name.
    Store(&'a str),
}

impl Host<'_> {
    fn is(self, other: Host<'_>) -> bool {
        match (self, other) {
            (Host::Own, Host::Own) => true,
            (Host::Far(one), Host::Far(other)) => Arc::ptr_eq(one, other),
            (Host::Store(one), Host::Store(other)) => one == other,
            _ => false,
        }
    }
}

impl Job {
    /// Where it writes; `None`: nowhere, or where nothing stays.
    fn host(&self) -> Option<Host<'_>> {
        match &self.to {
            To::Local(_) => Some(Host::Own),
            To::Far(far, _) => Some(Host::Far(far)),
            To::Given(given) => Some(Host::Store(&given.way)),
            To::Null | To::Scratch(..) | To::Simulated(_) => None,
        }
    }

    /// What its sources become, in order.
    fn ends(&self) -> Vec<PathBuf> {
        let to = match &self.to {
            To::Local(path) => overlap::resolved(path),
            To::Far(_, place) => {
                let path = OsStr::from_bytes(&place.path);
                match &place.export {
                    // A leading slash means the export.
                    Some(export) => {
                        let path = Path::new(path);
                        Path::new(export).join(path.strip_prefix("/").unwrap_or(path))
                    }
                    None => PathBuf::from(path),
                }
            }
            To::Given(given) => PathBuf::from(OsStr::from_bytes(&given.below)),
            To::Null | To::Scratch(..) | To::Simulated(_) => return Vec::new(),
        };
        match &self.from {
            From::Local(paths) => {
                paths.iter().map(|path| to.join(name_of(path.as_os_str().as_bytes()))).collect()
            }
            From::Far(_, places) => places.iter().map(|place| to.join(name_of(&place.path))).collect(),
            From::Given(given) => given.tops.iter().map(|top| to.join(OsStr::from_bytes(top))).collect(),
            From::Zero(_) | From::Noise(..) | From::Dataset(_) | From::Simulated(_) => vec![to],
        }
    }

    /// Refuses what the run itself writes (a receipt, a report) at or below a destination on this machine: for copies
    /// that remove their source files. It might take the name of a file that is delivered, whose source then goes.
    ///
    /// Not seen: bind mounts, and a far place that is on this machine.
    ///
    /// # Errors
    /// `Usage`, with the file and the destination.
    pub fn refuse_written(&self, written: [Option<&Path>; 2]) -> Result<()> {
        let To::Local(to) = &self.to else { return Ok(()) };
        let ends = ways_to(to);
        for path in written.into_iter().flatten() {
            if ways_to(path).iter().any(|way| ends.iter().any(|end| way.starts_with(end))) {
                let cause = format!(
                    "`{}` is in the destination {}, where it might take the place of a file whose source is removed \
                     (--remove-source-files): write it elsewhere",
                    Escaped(path.as_os_str().as_bytes()),
                    self.names.1
                );
                return Err(Failure::new(FailureKind::Usage, "copy", cause));
            }
        }
        Ok(())
    }

    /// Whether data travel to a far mover.
    pub fn is_push(&self) -> bool {
        matches!(self.to, To::Far(..))
    }

    /// Whether the destination keeps what it gets.
    pub fn is_kept(&self) -> bool {
        !matches!(self.to, To::Null | To::Simulated(_))
    }

    /// Copies: begins with what its route did best with, tells what it does in the state directory, and remembers what
    /// it learned there; says how long it was predicted to take, and remembers how long it took. See [`copy::copy`] for
    /// what it does to `watch` (whose `evidence` is taken for the telling) and when it stops.
    ///
    /// # Errors
    /// As [`copy::copy`].
    pub fn run(&self, wishes: &Wishes, state: &Path, watch: &Watch, stop: &Stop) -> Result<Report> {
        let (from, to) = &self.names;
        let line = self.client_line.as_ref();
        let _telling = line.map(|line| line.tells(watch.meter.clone())).transpose()?;
        if let Some(line) = line {
            line.obeys(&wishes.movement.rate);
        }
        // A dry run moves nothing.
        let told = Publisher::begin(state, from, to, false).filter(|_| !wishes.dry_run).map(Arc::new);
        let meter = watch.meter.clone();
        let (publisher, to_line) = (told.clone(), line.filter(|_| !wishes.dry_run).cloned());
        let tell: EvidenceSink = Arc::new(move |now| {
            if let Some(told) = &publisher {
                told.tell(now, Some(Progress::of(&meter)));
            }
            if let Some(line) = &to_line {
                line.tell_evidence(now);
            }
        });
        let evidence = (told.is_some() || line.is_some()).then(|| tell.clone());
        let watch = Watch { evidence, ..watch.clone() };
        let route = routes::of(&self.from, &self.to).filter(|_| !wishes.movement.holds_still);
        let learned = route.as_ref().and_then(|route| routes::known(state, route));
        let has_profile = !wishes.remembered.no_profile;
        let is_profiled = has_profile && !wishes.dry_run;
        let known = has_profile.then(|| Profiles::read(state));
        let of =
            |by_hand: &ByHand| known.as_ref().and_then(|profiles| profiles.of(&self.from, &self.to, by_hand));
        let untouched = of(&ByHand::of(wishes).of_way()).filter(|_| !wishes.movement.holds_still);
        let tuned = untouched.and_then(|way| way.tuned.clone());
        let alike = of(&ByHand::of(wishes)).filter(|_| is_profiled);
        let (verify, rate) = (wishes.fidelity.verify, &wishes.movement.rate);
        let foreknown = Foreknown::of(alike, verify, rate.bytes_per_s());
        let remembered = Remembered { learned, tuned, ..wishes.remembered.clone() };
        let selection = Selection { part: self.part, ..wishes.selection.clone() };
        let wishes = &Wishes { remembered, selection, ..wishes.clone() };
        let rate = || (rate.changes(), rate.bytes_per_s());
        let rate_at_first = rate();
        let mut result = copy::copy(&self.from, &self.to, wishes, &self.signer, &watch, stop);
        if let Ok(report) = &mut result
            && is_profiled
        {
            let (attempts, is_rate_changed) = (report.attempts, rate() != rate_at_first);
            let compared = profiles::compared(foreknown, report, verify, attempts, is_rate_changed);
            report.compared = Some(compared);
            if let Some(ends) = Ends::of(&self.from, &self.to) {
                Profiles::observe(state, &ends, wishes, report, attempts, is_rate_changed);
            }
        }
        if let (Some(route), Ok(Report { learned: Some(learned), .. })) = (route, &result) {
            routes::learn(state, &route, &ByHand::of(wishes), *learned);
        }
        if let Ok(report) = &result {
            tell(&report.evidence);
        }
        if let Some(told) = told {
            told.over(if result.is_ok() { State::Finished } else { State::Failed });
        }
        result
    }
}

/// Where a path is that may be a link: the link itself, and what it leads to.
fn ways_to(path: &Path) -> [PathBuf; 2] {
    let itself = overlap::resolved(path);
    let behind = path.canonicalize().unwrap_or_else(|_| itself.clone());
    [itself, behind]
}

fn usage(cause: &str) -> Failure {
    Failure::new(FailureKind::Usage, "read the places", cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::{Message, Open, Pull, Request, Terms, TransferNumber};

    fn read(names: usize, name_bytes: usize) -> Result<Vec<RelativePath>> {
        let name = |number: usize| RelativePath::new(format!("{number:0name_bytes$}").into_bytes()).unwrap();
        let only: Vec<RelativePath> = (0..names).map(name).collect();
        let typed = ["tw://a.example/data/run7/", "/nowhere/to"].map(OsString::from);
        Asked::read("cp", &typed, Some(only.as_slice()), &Places::default()).map(|_| only)
    }

    /// They are written twice a second, and shown to people.
    #[test]
    fn of_thousands_of_sources_the_first_are_named_and_the_others_counted() {
        let names = |count: usize| {
            let sources = (0..count).map(|number| Place::Local(format!("run7/ä-{number:06}").into()));
            Asked::of(sources.collect(), Place::Null).names().0
        };
        assert_eq!(names(2), "run7/ä-000000 run7/ä-000001");
        let many = names(10_000);
        assert!(many.len() <= SHOWN_BYTES_MAX && many.starts_with("run7/ä-000000 run7/ä-000001 "), "{many}");
        let shown = many.matches("run7/").count();
        assert!(shown > 10 && many.ends_with(&format!(" and {} more", 10_000 - shown)), "{many}");
    }

    #[test]
    fn a_list_that_no_message_has_room_for_is_refused_before_anybody_is_reached() {
        let names_max = limits::ONLY_NAMES_MAX;
        for (names, name_bytes) in [(30_000, 80), (names_max, 60), (names_max + 1, 9)] {
            let refused = read(names, name_bytes).unwrap_err();
            assert!(refused.kind == FailureKind::Usage && refused.cause.contains("in parts"), "{refused}");
        }
        // What is taken has room.
        for (names, name_bytes) in [(names_max, 53), (7000, 255), (20_000, 80)] {
            let only = read(names, name_bytes).unwrap();
            let place = message::Place { export: Some("data".to_owned()), path: vec![b'x'; 4096] };
            let request = Request::Pull(Pull { only, ..Pull::of(vec![place]) });
            let open = Open::of(TransferNumber(1), request, Terms::of(1 << 20, 1 << 16));
            assert!(Message::Open(Box::new(open)).encode().is_ok(), "{names} of {name_bytes} bytes");
        }
    }
}
