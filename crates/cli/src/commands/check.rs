//! `thalweg check`: compares two places by content, and changes nothing.
//!
//! 1. Both sides are listed at once and paired by path: what is missing, extra, or of another kind or size.
//! 2. If there are files on both sides that are alike so far, both sides digest theirs, each its own, several at a time and
//!    past the page cache; digests of the same path are compared. Of the files here only those are read; a far mover is
//!    asked for all of its own.
//!
//! Listings come in the same order from both sides, so pairs meet early, and what the other side has passed by is told at
//! once and kept no longer. What waits for its partner is what came in another order, in directories beyond 65,536 names:
//! there a side says that it has none. Of what is told to be different a hash is kept, of so much at most.
//!
//! What a side cannot list may hold anything: of what the other side has there nothing is told but that it is unreadable.
//!
//! What the filter leaves out is neither compared nor told. It is left out here, of what both sides tell.

use crate::args::places::CheckArgs;
use crate::commands::places::{Troubles, answered};
use crate::exit::Exit;
use crate::place::Places;
use crate::reach::{self, Reach};
use crate::{json, out, threads, units};
use selected::Selected;
use std::cmp::Ordering;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use thalweg_mover::endpoint::local::survey::{DigestAs, Digested, Found, Listed};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// Which names.
mod selected;

/// With a list instead of a second place.
mod sums;

/// Pieces that one side may be ahead.
const AHEAD: usize = 1024;
/// Paths told to be different, or unreadable at a side, whose hashes are kept: 36 MiB for each of the three.
const KNOWN_MAX: usize = 2 << 20;

enum Piece<T> {
    Item(RelativePath, T),
    /// What is in the last item comes in no order.
    Unordered,
    Trouble(Failure),
    End(Result<()>),
}

/// What comes of a path.
enum Met<T> {
    /// Both sides have it: the source, the destination.
    Pair(T, T),
    /// One side alone has it: 0, the source, or 1.
    Alone(usize, T),
}

/// Takes what comes of each path.
type Meet<'a, T> = &'a mut dyn FnMut(&mut Differences, &RelativePath, Met<T>) -> Result<()>;

/// In which order both sides tell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// That of listings; they say where not.
    InOrder,
    /// Mostly so, and nobody says where not.
    Anyhow,
}

/// Where one side tells what it finds.
struct Tell<'a, T> {
    pieces: SyncSender<Piece<T>>,
    /// Why the comparison is over before its end: what one side says of the other is not why.
    over: &'a Mutex<Option<Failure>>,
}

impl<T> Tell<'_, T> {
    fn say(&self, piece: Piece<T>) -> Result<()> {
        self.go_on()?;
        self.pieces.send(piece).map_err(|_| stopped())
    }

    /// Fails when what this side does is of no use any more.
    fn go_on(&self) -> Result<()> {
        if lock(self.over).is_some() { Err(stopped()) } else { Ok(()) }
    }

    fn end(&self, end: Result<()>) {
        if let Err(failure) = &end {
            lock(self.over).get_or_insert_with(|| failure.clone());
        }
        // Nobody hears it who failed himself.
        let _ = self.pieces.send(Piece::End(end));
    }
}

/// `thalweg check`.
///
/// # Errors
/// When a place cannot be listed at all; `Usage` for a filter or a list that is none.
pub fn check(args: &CheckArgs, places: &Places) -> Result<Exit> {
    let selected = &Selected::new(&args.filter)?;
    let destination = match (&args.sums, &args.destination) {
        (Some(list), _) => return sums::check(args, list, selected, places),
        (None, Some(destination)) => destination,
        // It is asked for where words are read.
        (None, None) => return Err(Failure::new(FailureKind::Usage, "check", "there is no second place")),
    };
    let mut far_movers = reach::far_movers(&args.ask, places);
    let mut report = Differences::new(args.ask.json, [args.source.clone(), destination.clone()]);
    let (source, destination) =
        (Reach::open(&args.source, &mut far_movers)?, Reach::open(destination, &mut far_movers)?);
    let sides = [&source, &destination];
    let listed = compare_listings(sides, args.devices, selected, &mut report)?;
    let (files, bytes) = match listed.has_alike {
        true => compare_digests(sides, listed.single, selected, &mut report)?,
        false => (0, 0),
    };
    report.end(listed.entries, files, bytes)
}

/// What the listings of both sides showed.
#[derive(Default)]
struct Compared {
    /// On both sides.
    entries: u64,
    /// Whether each place is the one entry.
    single: [bool; 2],
    /// There are files on both sides that may have the same content.
    has_alike: bool,
}

/// Lists both places and tells what is missing, extra, or of another kind or size. Without `devices` FIFOs and devices of the
/// source alone are left out.
fn compare_listings(
    [source, destination]: [&Reach; 2],
    devices: bool,
    selected: &Selected,
    report: &mut Differences,
) -> Result<Compared> {
    let mut compared = Compared::default();
    let mut awaited: BTreeSet<&RelativePath> = selected.names().collect();
    let mut meet = |report: &mut Differences, path: &RelativePath, met: Met<(Entry, bool)>| match met {
        Met::Pair((a, a_single), (b, b_single)) => {
            compared.entries += 1;
            compared.single = [a_single, b_single];
            match difference(&a, &b) {
                Some(why) => {
                    report.known.insert(path);
                    report.differs(path, &why)
                }
                None => {
                    // A place that is a link is digested as what it leads to.
                    compared.has_alike |= a_single || matches!(a.kind, Kind::File { .. });
                    Ok(())
                }
            }
        }
        // What a copy leaves out too.
        Met::Alone(0, (Entry { kind: Kind::Fifo | Kind::Device { .. }, .. }, _)) if !devices => {
            report.left_out += 1;
            Ok(())
        }
        Met::Alone(side, (entry, _)) => {
            if matches!(entry.kind, Kind::File { .. }) || path.is_root() {
                report.known.insert(path);
            }
            report.alone(side, path)
        }
    };
    let mut listed = |report: &mut Differences, path: &RelativePath, met: Met<(Entry, bool)>| {
        awaited.remove(path);
        meet(report, path, met)
    };
    both(
        |tell| list(source, selected, tell),
        |tell| list(destination, selected, tell),
        Told::InOrder,
        report,
        &mut listed,
    )?;
    let nobody_knows = |path: &RelativePath| report.closed.iter().any(|closed| closed.may_cover(path));
    awaited.retain(|path| !nobody_knows(path));
    for path in awaited {
        let cause = "neither place has it, and --files-from names it";
        report.trouble(0, &Failure::new(FailureKind::NotFound, "look", cause).at(path));
    }
    Ok(compared)
}

/// Digests both places, but for what is known to be different, and tells whose content differs. So many files, and bytes.
fn compare_digests(
    [source, destination]: [&Reach; 2],
    single: [bool; 2],
    selected: &Selected,
    report: &mut Differences,
) -> Result<(u64, u64)> {
    let (mut files, mut bytes) = (0u64, 0u64);
    let how = DigestAs::Marked { segment_bytes: u64::from(plan::SEGMENT_BYTES) };
    let known = std::mem::take(&mut report.known);
    let mut digested = |report: &mut Differences, path: &RelativePath, met: Met<(u64, Digest)>| match met {
        // Told already, most likely.
        Met::Pair(a, b) if known.is_cut && a.0 != b.0 => Ok(()),
        Met::Pair(a, b) => {
            files += 1;
            bytes += a.0;
            if a == b { Ok(()) } else { report.differs(path, "content") }
        }
        // What could not be digested on one side was told as a trouble; what came or went meanwhile was not.
        Met::Alone(..) if known.is_cut || !report.troubles.is_empty() => Ok(()),
        Met::Alone(..) => report.differs(path, "it came or went while it was compared"),
    };
    both(
        |tell| digest(source, how, single[0], (selected, &known), tell),
        |tell| digest(destination, how, single[1], (selected, &known), tell),
        Told::Anyhow,
        report,
        &mut digested,
    )?;
    Ok((files, bytes))
}

/// Runs both sides at once and pairs what they tell by path. When one side fails, so does all at once, for its reason.
fn both<T: Send>(
    left: impl FnOnce(&Tell<'_, T>) -> Result<()> + Send,
    right: impl FnOnce(&Tell<'_, T>) -> Result<()> + Send,
    told: Told,
    report: &mut Differences,
    meet: Meet<'_, T>,
) -> Result<()> {
    let over = Mutex::new(None);
    let paired = std::thread::scope(|scope| {
        let (tell_left, hear_left) = sync_channel(AHEAD);
        let (tell_right, hear_right) = sync_channel(AHEAD);
        let tell_left = Tell { pieces: tell_left, over: &over };
        let tell_right = Tell { pieces: tell_right, over: &over };
        let started = threads::spawn_scoped(scope, "source", move || tell_left.end(left(&tell_left)));
        let started = started.and_then(|_| {
            threads::spawn_scoped(scope, "destination", move || tell_right.end(right(&tell_right)))
        });
        if let Err(failure) = &started {
            // Before the side that did start finds nobody who hears it.
            lock(&over).get_or_insert_with(|| failure.clone());
        }
        let sides = [Side::new(hear_left, told), Side::new(hear_right, told)];
        let paired = started.and_then(|_| pair_all(sides, report, meet));
        if let Err(failure) = &paired {
            lock(&over).get_or_insert_with(|| failure.clone());
        }
        paired
    });
    paired.map_err(|failure| lock(&over).take().unwrap_or(failure))
}

fn pair_all<T>(mut sides: [Side<T>; 2], report: &mut Differences, meet: Meet<'_, T>) -> Result<()> {
    while !(sides[0].ended && sides[1].ended) {
        let behind = usize::from(
            sides[0].ended
                || (!sides[1].ended && in_order(&sides[0].last, &sides[1].last) == Ordering::Greater),
        );
        match sides[behind].hear.recv() {
            Ok(Piece::Item(path, item)) => {
                sides[behind].go_to(&path)?;
                let path = InOrder(path);
                match sides[1 - behind].alone.remove(&path) {
                    Some(other) if behind == 0 => meet(report, &path.0, Met::Pair(item, other))?,
                    Some(other) => meet(report, &path.0, Met::Pair(other, item))?,
                    None if sides[1 - behind].has_passed(&path.0) => {
                        meet(report, &path.0, Met::Alone(behind, item))?;
                    }
                    None => drop(sides[behind].alone.insert(path, item)),
                }
            }
            Ok(Piece::Unordered) => {
                let last = sides[behind].last.clone();
                sides[behind].unordered.push(last);
            }
            Ok(Piece::Trouble(failure)) => report.trouble(behind, &failure),
            Ok(Piece::End(end)) => {
                sides[behind].ended = true;
                end?;
            }
            Err(_) => return Err(Failure::new(FailureKind::Internal, "check", "a thread ended early")),
        }
        let [left, right] = &mut sides;
        let (passer, other) = if behind == 0 { (left, right) } else { (right, left) };
        while let Some(first) = other.alone.first_entry()
            && passer.has_passed(&first.key().0)
        {
            let (path, item) = first.remove_entry();
            meet(report, &path.0, Met::Alone(1 - behind, item))?;
        }
    }
    Ok(())
}

struct Side<T> {
    hear: Receiver<Piece<T>>,
    last: RelativePath,
    /// Directories that the last path is in, and whose names come in no order.
    unordered: Vec<RelativePath>,
    /// What waits for its partner.
    alone: BTreeMap<InOrder, T>,
    ended: bool,
}

impl<T> Side<T> {
    fn new(hear: Receiver<Piece<T>>, told: Told) -> Self {
        let unordered = if told == Told::Anyhow { vec![RelativePath::root()] } else { Vec::new() };
        Side { hear, last: RelativePath::root(), unordered, alone: BTreeMap::new(), ended: false }
    }

    /// # Errors
    /// `Protocol` where it goes back in the order that it keeps: what it passed by was told to be missing.
    fn go_to(&mut self, path: &RelativePath) -> Result<()> {
        self.unordered.retain(|directory| is_below(path, directory));
        if in_order(path, &self.last) == Ordering::Less && self.unordered.is_empty() {
            let cause = "its names come in no order, and it does not say so: is thalweg older there?";
            return Err(Failure::new(FailureKind::Protocol, "list", cause).at(path));
        }
        self.last = path.clone();
        Ok(())
    }

    /// Whether it does not tell this path any more.
    fn has_passed(&self, path: &RelativePath) -> bool {
        let is_behind = || in_order(path, &self.last) == Ordering::Less;
        self.ended || (is_behind() && !self.unordered.iter().any(|directory| is_below(path, directory)))
    }
}

/// A path by the order of listings.
#[derive(PartialEq, Eq)]
struct InOrder(RelativePath);

impl Ord for InOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        in_order(&self.0, &other.0)
    }
}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Whether a path is in a directory, at any depth.
fn is_below(path: &RelativePath, directory: &RelativePath) -> bool {
    let rest = path.as_bytes().strip_prefix(directory.as_bytes());
    directory.is_root() || rest.is_some_and(|rest| rest.starts_with(b"/"))
}

/// The order of listings: component by component.
fn in_order(a: &RelativePath, b: &RelativePath) -> Ordering {
    a.as_bytes().split(|&byte| byte == b'/').cmp(b.as_bytes().split(|&byte| byte == b'/'))
}

/// Tells entries that are selected, and with each whether the place is that one entry: it has no name of its own then.
fn list(reach: &Reach, selected: &Selected, tell: &Tell<'_, (Entry, bool)>) -> Result<()> {
    let (mut is_directory, mut is_told) = (false, false);
    reach.list_in_order(true, &mut |listed| match listed {
        Listed::Found(Found::Entry(entry)) => {
            is_directory |= entry.path.is_root();
            let path = if is_directory { entry.path.clone() } else { RelativePath::root() };
            is_told = selected.has(&path, matches!(entry.kind, Kind::Directory));
            match is_told {
                true => tell.say(Piece::Item(path, (entry, !is_directory))),
                false => tell.go_on(),
            }
        }
        Listed::Found(Found::Trouble(failure)) if selected.is_concerned(&failure) => {
            tell.say(Piece::Trouble(failure))
        }
        // What is in a directory that is left out is left out too.
        Listed::Unordered if is_told => tell.say(Piece::Unordered),
        Listed::Found(Found::Trouble(_)) | Listed::Unordered => tell.go_on(),
    })
}

/// Tells digests of what is selected, but for what is `known` to be different.
fn digest(
    reach: &Reach,
    how: DigestAs,
    single: bool,
    (selected, known): (&Selected, &Known),
    tell: &Tell<'_, (u64, Digest)>,
) -> Result<()> {
    let root = RelativePath::root();
    let wanted = |path: &RelativePath| {
        let path = if single { &root } else { path };
        !known.has(path) && selected.has(path, false)
    };
    reach.digest_wanted(how, &wanted, &mut |digested| match digested {
        Digested::File(_, bytes, digest) if single => {
            tell.say(Piece::Item(RelativePath::root(), (bytes, digest)))
        }
        Digested::File(path, bytes, digest) => tell.say(Piece::Item(path, (bytes, digest))),
        Digested::Trouble(failure) if single || selected.is_concerned(&failure) => {
            tell.say(Piece::Trouble(failure))
        }
        Digested::Trouble(_) | Digested::Alive => tell.go_on(),
    })
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, "check", "the other side failed")
}

/// Kind, size, link target. (Modes, owners and times are not content.)
fn difference(a: &Entry, b: &Entry) -> Option<String> {
    match (&a.kind, &b.kind) {
        (Kind::File { .. }, Kind::File { .. }) => (a.evidence.size != b.evidence.size)
            .then(|| format!("{} bytes and {} bytes", a.evidence.size, b.evidence.size)),
        (Kind::Symlink { target: a }, Kind::Symlink { target: b }) => {
            (a != b).then(|| "they lead to different places".to_owned())
        }
        (a_kind, b_kind) if std::mem::discriminant(a_kind) != std::mem::discriminant(b_kind) => {
            Some(format!("a {} and a {}", json::kind_word(a), json::kind_word(b)))
        }
        (a_kind @ Kind::Device { .. }, b_kind) => (a_kind != b_kind).then(|| "different devices".to_owned()),
        _ => None,
    }
}

/// Paths that are told to be different, or unreadable: their content is not asked for. As hashes: another path that has the
/// same one is not compared, among places that are different anyway.
#[derive(Default)]
struct Known {
    hashes: HashSet<u64>,
    state: RandomState,
    /// There were more than are kept.
    is_cut: bool,
}

impl Known {
    fn insert(&mut self, path: &RelativePath) {
        if self.hashes.len() < KNOWN_MAX {
            self.hashes.insert(self.state.hash_one(path.as_bytes()));
        } else {
            self.is_cut = true;
        }
    }

    fn has(&self, path: &RelativePath) -> bool {
        self.has_bytes(path.as_bytes())
    }

    /// Whether this path or a directory that it is in is among them, or may be.
    fn may_cover(&self, path: &RelativePath) -> bool {
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut ends = std::iter::once(0).chain(ends).chain([bytes.len()]);
        self.is_cut || (!self.hashes.is_empty() && ends.any(|end| self.has_bytes(&bytes[..end])))
    }

    fn has_bytes(&self, path: &[u8]) -> bool {
        self.hashes.contains(&self.state.hash_one(path))
    }
}

struct Differences {
    json: bool,
    /// Source and destination, as they were typed.
    places: [OsString; 2],
    known: Known,
    /// What could not be listed, looked at or read, at each side.
    closed: [Known; 2],
    troubles: Troubles,
    /// Missing, extra, different.
    counts: [u64; 3],
    /// FIFOs and devices of the source alone: nobody asked for them.
    left_out: u64,
}

impl Differences {
    /// None so far, of two places.
    fn new(json: bool, places: [OsString; 2]) -> Differences {
        Differences {
            json,
            places,
            known: Known::default(),
            closed: Default::default(),
            troubles: Troubles::new(json),
            counts: [0; 3],
            left_out: 0,
        }
    }

    /// One side alone told it. Where the other could not look, nobody knows whether it has it too.
    fn alone(&mut self, side: usize, path: &RelativePath) -> Result<()> {
        match (self.closed[1 - side].may_cover(path), side) {
            (true, _) => Ok(()),
            (false, 0) => self.say(0, "missing", path, "only at the source"),
            (false, _) => self.say(1, "extra", path, "only at the destination"),
        }
    }

    fn differs(&mut self, path: &RelativePath, why: &str) -> Result<()> {
        self.say(2, "differs", path, why)
    }

    /// Tells it once: what cannot be listed cannot be digested either.
    fn trouble(&mut self, side: usize, failure: &Failure) {
        if let Some(path) = &failure.path {
            if self.closed[side].has(path) {
                return;
            }
            self.closed[side].insert(path);
        }
        self.troubles.add_at(&self.places[side], failure);
    }

    fn say(&mut self, what: usize, word: &str, path: &RelativePath, why: &str) -> Result<()> {
        self.counts[what] += 1;
        let told = if self.json {
            let mut object = json::about("difference", path);
            object.insert("what".into(), word.into());
            object.insert("why".into(), why.into());
            json::line(&serde_json::Value::Object(object))
        } else {
            out::line(&format!("{word}  {path}  ({why})"))
        };
        // The exit code is an answer of its own: a reader that is gone does not end the comparison.
        if out::is_closed() { Ok(()) } else { told }
    }

    fn verdict(&self) -> (&'static str, Exit) {
        match (self.counts == [0; 3], self.troubles.is_empty()) {
            (true, true) => ("same", Exit::Done),
            (true, false) => ("not comparable in full", Exit::Partial),
            (false, _) => ("different", Exit::Partial),
        }
    }

    fn end(&self, entries: u64, files: u64, bytes: u64) -> Result<Exit> {
        let [missing, extra, differing] = self.counts;
        let left_out = match self.left_out {
            0 => String::new(),
            count => format!("; {} left out: FIFOs and devices, without --devices", units::entries(count)),
        };
        let unreadable = self.troubles.count();
        let (verdict, exit) = self.verdict();
        let told = match self.json {
            true => json::line(&serde_json::json!({
                "event": "checked", "exit": exit.code(), "entries": entries, "files": files, "bytes": bytes,
                "missing": missing, "extra": extra, "differing": differing, "unreadable": unreadable,
                "left_out": self.left_out,
            })),
            false => out::line(&format!(
                "{verdict}: {} entries on both sides, {} in {} files compared by digest; {missing} missing, \
                 {extra} extra, {differing} differ, {unreadable} unreadable{left_out}",
                units::count(entries),
                units::size(bytes),
                units::count(files),
            )),
        };
        answered(told, exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Only a side that goes on to the end of its file takes so long.
    const HANG: Duration = Duration::from_secs(120);

    fn nothing_told() -> Differences {
        Differences::new(false, ["from", "to"].map(OsString::from))
    }

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    /// What comes of two listings: `a/` has names in no order.
    fn met(told: Told, sides: [&[&str]; 2]) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let hear = sides.map(|names| {
            let (tell, hear) = sync_channel(AHEAD);
            for name in names {
                let (name, is_unordered) = name.strip_suffix('/').map_or((*name, false), |name| (name, true));
                tell.send(Piece::Item(path(name), ())).unwrap();
                if is_unordered {
                    tell.send(Piece::Unordered).unwrap();
                }
            }
            tell.send(Piece::End(Ok(()))).unwrap();
            Side::new(hear, told)
        });
        pair_all(hear, &mut nothing_told(), &mut |_, path, met| {
            all.push(match met {
                Met::Pair(..) => path.to_string(),
                Met::Alone(0, ()) => format!("-{path}"),
                Met::Alone(..) => format!("+{path}"),
            });
            Ok(())
        })?;
        Ok(all)
    }

    #[test]
    fn what_the_other_side_has_passed_by_is_told_at_once_and_kept_no_longer() {
        // The destination has but a root and what comes last: most of the source would wait.
        let (tell_left, hear_left) = sync_channel(AHEAD);
        let (tell_right, hear_right) = sync_channel(AHEAD);
        for number in 0..AHEAD / 2 {
            tell_left.send(Piece::Item(path(&format!("many/{number:04}")), ())).unwrap();
        }
        tell_right.send(Piece::Item(path("z"), ())).unwrap();
        let mut alone = 0;
        let sides = [Side::new(hear_left, Told::InOrder), Side::new(hear_right, Told::InOrder)];
        // Nobody has said that this is the end: what is told is told before.
        drop((tell_left, tell_right));
        let ended = pair_all(sides, &mut nothing_told(), &mut |_, _, met| {
            assert!(matches!(met, Met::Alone(0, ())));
            alone += 1;
            Ok(())
        });
        assert_eq!((ended.unwrap_err().kind, alone), (FailureKind::Internal, AHEAD / 2));
    }

    #[test]
    fn what_a_side_could_not_list_is_not_told_to_be_missing_there_and_what_is_beside_it_is() {
        for (closed, counts) in [(0, [0, 1, 0]), (1, [1, 0, 0])] {
            let hear = [0, 1].map(|side| {
                let (tell, hear) = sync_channel(AHEAD);
                let names: &[&str] =
                    if side == closed { &["k", "z"] } else { &["k", "k/d", "k/d/f", "k-too", "z"] };
                for name in names {
                    tell.send(Piece::Item(path(name), ())).unwrap();
                    if side == closed && *name == "k" {
                        let denied = Failure::new(FailureKind::Permission, "list", "Permission denied");
                        tell.send(Piece::Trouble(denied.at(&path("k")))).unwrap();
                    }
                }
                tell.send(Piece::End(Ok(()))).unwrap();
                Side::new(hear, Told::InOrder)
            });
            let mut report = nothing_told();
            pair_all(hear, &mut report, &mut |report, path, met| match met {
                Met::Pair(..) => Ok(()),
                Met::Alone(side, ()) => report.alone(side, path),
            })
            .unwrap();
            assert_eq!((report.counts, report.troubles.count()), (counts, 1), "closed at {closed}");
            // Who digests comes upon it again.
            report.trouble(closed, &Failure::new(FailureKind::Permission, "list", "").at(&path("k")));
            assert_eq!(report.troubles.count(), 1);
        }
    }

    #[test]
    fn a_directory_covers_what_is_in_it_and_no_name_that_begins_like_it() {
        let mut closed = Known::default();
        assert!(!closed.may_cover(&path("a")));
        closed.insert(&path("a/b"));
        let covered = ["a", "a/b", "a/b/c/d", "a/bc", "b"].map(|name| closed.may_cover(&path(name)));
        assert_eq!(covered, [false, true, true, false, false]);
        closed.insert(&RelativePath::root());
        assert!(closed.may_cover(&path("b")));
    }

    #[test]
    fn pairs_meet_whatever_the_order_of_a_directory_that_says_it_has_none() {
        let of = |left: &[&str], right: &[&str]| met(Told::InOrder, [left, right]).unwrap();
        assert_eq!(of(&["a", "a/b", "c"], &["a", "a-b", "c"]), ["a", "-a/b", "+a-b", "c"]);
        assert_eq!(
            of(&["a/", "a/z", "a/b", "d"], &["a", "a/b", "a/z", "c"]),
            ["a", "a/z", "a/b", "+c", "-d"]
        );
        assert_eq!(of(&["a/", "a/z", "a/b"], &["a/", "a/m", "a/b"]), ["a", "-a/z", "a/b", "+a/m"]);
        // One that does not say so is not believed.
        let silent = met(Told::InOrder, [&["a", "a/z", "a/b"], &["a", "a/b", "a/z"]]);
        assert_eq!(silent.unwrap_err().kind, FailureKind::Protocol);
        let anyhow = met(Told::Anyhow, [&["a/z", "a/b"], &["a/b", "a/z"]]).unwrap();
        assert_eq!(anyhow, ["a/z", "a/b"]);
    }

    #[test]
    fn a_side_that_fails_ends_the_other_in_the_middle_of_a_file() {
        let scratch = tempfile::tempdir().unwrap();
        // Hours of digesting: eight terabytes, none of them on the disk.
        let endless = std::fs::File::create(scratch.path().join("endless")).unwrap();
        endless.set_len(8 << 40).unwrap();
        let (tell, hear) = mpsc::channel();
        let path = scratch.path().to_owned();
        std::thread::spawn(move || {
            let mut report = nothing_told();
            let every = (&Selected::default(), &Known::default());
            let lost = || Err(Failure::new(FailureKind::Connection, "ask", "the link is gone"));
            for failing in [0, 1] {
                let side = |number| {
                    let path = path.clone();
                    move |tell: &Tell<'_, (u64, Digest)>| match number == failing {
                        true => lost(),
                        false => digest(&Reach::local(path), DigestAs::Plain, false, every, tell),
                    }
                };
                let ended = both(side(0), side(1), Told::Anyhow, &mut report, &mut |_, _, _| Ok(()));
                let _ = tell.send(ended);
            }
        });
        for failing in ["source", "destination"] {
            let ended = hear.recv_timeout(HANG).unwrap_or_else(|_| panic!("the {failing} failed in vain"));
            assert_eq!(ended.unwrap_err().cause, "the link is gone", "{failing}");
        }
    }
}
