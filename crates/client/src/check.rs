//! Are two places the same, by content? Nothing is changed.
//!
//! 1. Both sides are listed at once and paired by path: what is missing, extra, or of another kind or size.
//! 2. If there are files on both sides that are alike so far, both sides digest theirs, each its own, several at a time
//!    and past the page cache; digests of the same path are compared. Of the files here only those are read; a far
//!    mover is asked for all of its own.
//!
//! With a sample only what was drawn by a seed is digested in step 2, as of a verification ([`check_sample`]).
//!
//! Or one place is held against a list of `b3sum` ([`check_list`]).
//!
//! Listings come in the same order from both sides, so pairs meet early, and what the other side has passed by is told
//! at once and kept no longer. What waits for its partner is what came in another order, in directories beyond 65,536
//! names: there a side says that it has none. Of what is told to be different a hash is kept, of so much at most.
//!
//! What a side cannot list may hold anything: what the other side has there is not told as a difference. Only that it
//! cannot be read here is told.
//!
//! A link to a far place may be lost meanwhile: it is dialled again, and what it had told is not told again
//! ([`Reach::outlasting`]).
//!
//! What the filter leaves out is neither compared nor told. It is left out here, of what both sides tell. So is what
//! another part has, of which no side digests anything.

use crate::reach::Reach;
use crate::verify::{Draw, SampleSize, Sampled};
use crate::{hosts, not_here};
use differences::{Differences, Known};
use pairs::{Met, Order, Piece, Teller, both};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_mover::endpoint::local::survey::{self, DigestAs, Digested, Listed};
use thalweg_mover::failure::{Failure, FailureKind, Result, counted};
use thalweg_mover::plan;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_wire::message::PartOf;
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// Which names.
mod selected;

/// What both sides tell, by path.
mod pairs;

/// What was found, in numbers and words.
mod differences;

/// 2. of what a sample drew.
mod sampled;

/// With a list instead of a second place.
mod sums;

pub use selected::Selected;
pub use sums::{List, check_list};

/// What is found on the way.
#[derive(Debug)]
pub enum Told<'a> {
    /// `missing`, `extra` or `differs`: a path, and why.
    Difference(&'static str, &'a RelativePath, &'a str),
    /// What could not be listed, looked at or read, and at which of the places: 0, the first (or the list), or 1.
    Trouble(usize, &'a Failure),
}

/// Takes what is found, from one thread. If it fails, so does the comparison.
pub type Tell<'a> = dyn FnMut(Told<'_>) -> Result<()> + 'a;

/// What was found, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries on both sides; files of a list that were looked at.
    pub entries: u64,
    /// Files whose digests were compared; of a list, as `entries`.
    pub files: u64,
    /// Content bytes of these; of a list, of those that are as it says.
    pub bytes: u64,
    /// Files whose digests are the same.
    pub same: u64,
    /// Entries that only the source, or the list, has.
    pub missing: u64,
    /// Entries that only the destination has; `None`: nobody looked for them.
    pub extra: Option<u64>,
    /// Entries of another kind, size, link target or content.
    pub differing: u64,
    /// Entries that could not be listed, looked at or read. What is in such a directory is not compared.
    pub unreadable: u64,
    /// FIFOs and devices that only the source has, and nobody asked for.
    pub left_out: u64,
    /// Links to far places that were lost, and in whose place another one came.
    pub links_lost: u64,
    /// Files that were drawn; 0 without a sample.
    pub drawn: u64,
    /// What was drawn, as far as both sides read it to its end, of the files with content that are alike so far;
    /// `None`: nothing was drawn, all was to be read.
    pub sampled: Option<Sampled>,
}

impl Found {
    /// Whether something is missing, extra or different.
    pub fn is_different(&self) -> bool {
        self.missing + self.extra.unwrap_or(0) + self.differing > 0
    }

    /// Whether all of it was compared, and nothing is different.
    pub fn is_same(&self) -> bool {
        !self.is_different() && self.unreadable == 0
    }

    /// With what was found of another part, without a sample. The places themselves are in both.
    #[must_use]
    pub fn and(self, other: &Found) -> Found {
        let extra = self.extra.zip(other.extra).map(|(one, other)| one + other);
        Found {
            entries: (self.entries + other.entries).saturating_sub(1),
            files: self.files + other.files,
            bytes: self.bytes + other.bytes,
            same: self.same + other.same,
            missing: self.missing + other.missing,
            extra: extra.or(self.extra).or(other.extra),
            differing: self.differing + other.differing,
            unreadable: self.unreadable + other.unreadable,
            left_out: self.left_out + other.left_out,
            links_lost: self.links_lost + other.links_lost,
            drawn: 0,
            sampled: None,
        }
    }
}

/// One comparison of those that two places are: of which part, and which two places.
pub type InPart = (Option<PartOf>, [OsString; 2]);

/// The comparisons that two places are, as they are written: places at several hosts are as many as the longer list has
/// hosts, each of a part, at the hosts whose turn it is. `part`: what is asked for is that part alone.
///
/// # Errors
/// `Usage` for a list of hosts that is none, and for a part that is to be shared by several.
pub fn in_parts(places: [&OsStr; 2], part: Option<PartOf>) -> Result<Vec<InPart>> {
    let [sources, destinations] = [hosts::each(places[0])?, hosts::each(places[1])?];
    let count = sources.len().max(destinations.len());
    if count == 1 {
        return Ok(vec![(part, places.map(OsStr::to_owned))]);
    }
    if let Some(part) = part {
        return Err(not_here::part_of_several(part, count));
    }
    let turn = |number: usize| -> InPart {
        let at = |hosts: &[OsString]| hosts[number % hosts.len()].clone();
        (PartOf::new(number as u32 + 1, count as u32), [at(&sources), at(&destinations)])
    };
    Ok((0..count).map(turn).collect())
}

/// Compares a source with a destination. FIFOs and devices that only the source has are no difference without
/// `devices`: a copy leaves them out too. `meter` counts files that are on both sides and alike so far, and those whose
/// digests were compared: a file counts when both sides have read it to its end. When `stop` is asked for, it ends as
/// questions do ([`Reach::until`]); it asks for that itself where it fails.
///
/// # Errors
/// `Stopped`; when a place cannot be listed at all; what the connection says; what `tell` says.
pub fn check(
    places: [&Reach; 2],
    selected: &Selected,
    devices: bool,
    meter: &Meter,
    tell: &mut Tell<'_>,
    stop: &Arc<Stop>,
) -> Result<Found> {
    check_sample(places, selected, devices, None, meter, tell, stop)
}

/// The same, where digests are compared only of so many files, drawn by that seed from those with content that are
/// alike so far, if a sample is asked for. Memory: 16 bytes for each of these; one side is listed once more.
///
/// # Errors
/// As [`check`].
pub fn check_sample(
    places: [&Reach; 2],
    selected: &Selected,
    devices: bool,
    sample: Option<(SampleSize, String)>,
    meter: &Meter,
    tell: &mut Tell<'_>,
    stop: &Arc<Stop>,
) -> Result<Found> {
    let lost_before = links_lost(places);
    let [source, destination] = places.map(|place| place.until(stop).outlasting());
    let sides = [&source, &destination];
    let mut report = Differences::new(true, meter, tell);
    let mut draw = sample.map(|(size, seed)| (Draw::by(seed), size));
    let to_draw = draw.as_mut().map(|(draw, _)| draw);
    let listed = compare_listings(sides, (devices, to_draw), selected, &mut report, stop)?;
    let sample = draw.map(|(draw, size)| draw.sample(size));
    if let Some(sample) = &sample {
        report.drawn(sample);
    }
    meter.scan_over.store(true, Ordering::Relaxed);
    match &sample {
        None if listed.has_alike => compare_digests(sides, listed.single, selected, &mut report, stop)?,
        Some(sample) if sample.drawn.files > 0 => {
            let is_single = listed.single == [true; 2];
            sampled::compare_sample(sides, is_single, (selected, sample), &mut report, stop)?;
        }
        _ => {}
    }
    Ok(Found { links_lost: links_lost(places) - lost_before, ..report.found })
}

/// Of both; one that both are reached by counts for each.
fn links_lost(places: [&Reach; 2]) -> u64 {
    places.map(Reach::links_lost).iter().sum()
}

/// What the listings of both sides showed.
#[derive(Default)]
struct Compared {
    /// Whether each place is the one entry.
    single: [bool; 2],
    /// There are files on both sides that may have the same content.
    has_alike: bool,
}

/// Lists both places and tells what is missing, extra, or of another kind or size. Without `devices` FIFOs and devices
/// of the source alone are left out. What may be drawn is added to `draw`, if there is one.
fn compare_listings(
    [source, destination]: [&Reach; 2],
    (devices, mut draw): (bool, Option<&mut Draw>),
    selected: &Selected,
    report: &mut Differences<'_, '_>,
    stop: &Stop,
) -> Result<Compared> {
    let mut compared = Compared::default();
    let mut awaited: BTreeSet<&RelativePath> = selected.names().collect();
    let mut meet = |met: Met<(Entry, bool)>| match met {
        Met::Pair(path, (a, a_single), (b, b_single)) => {
            awaited.remove(&path);
            report.found.entries += 1;
            compared.single = [a_single, b_single];
            match difference(&a, &b) {
                Some(why) => {
                    report.known.insert(&path);
                    report.differs(&path, &why)
                }
                None => {
                    // A place that is a link is digested as what it leads to.
                    if a_single || matches!(a.kind, Kind::File { .. }) {
                        compared.has_alike = true;
                        let bytes = a.content_bytes();
                        match &mut draw {
                            None => report.alike(bytes),
                            Some(draw) if a_single || bytes > 0 => draw.add(&path, bytes),
                            Some(_) => {}
                        }
                    }
                    Ok(())
                }
            }
        }
        Met::Alone(side, path, (entry, _)) => {
            awaited.remove(&path);
            // What a copy leaves out too.
            if side == 0 && !devices && matches!(entry.kind, Kind::Fifo | Kind::Device { .. }) {
                report.found.left_out += 1;
                return Ok(());
            }
            if matches!(entry.kind, Kind::File { .. }) || path.is_root() {
                report.known.insert(&path);
            }
            report.alone(side, &path)
        }
        Met::Trouble(side, failure) => report.trouble(side, &failure),
    };
    both(
        |tell| list(source, selected, tell),
        |tell| list(destination, selected, tell),
        Order::Listed,
        stop,
        &mut meet,
    )?;
    let nobody_knows = |path: &RelativePath| report.closed.iter().any(|closed| closed.may_cover(path));
    awaited.retain(|path| !nobody_knows(path));
    for path in awaited {
        let cause = "neither place has it, and --files-from names it";
        report.trouble(0, &Failure::new(FailureKind::NotFound, "look up", cause).at(path))?;
    }
    Ok(compared)
}

/// Digests both places, but for what is known to be different, and tells whose content differs.
fn compare_digests(
    [source, destination]: [&Reach; 2],
    single: [bool; 2],
    selected: &Selected,
    report: &mut Differences<'_, '_>,
    stop: &Stop,
) -> Result<()> {
    let how = DigestAs::Marked { segment_bytes: u64::from(plan::SEGMENT_BYTES) };
    let known = std::mem::take(&mut report.known);
    let mut meet = |met: Met<(u64, Digest)>| match met {
        // Told already, most likely.
        Met::Pair(_, a, b) if known.is_cut && a.0 != b.0 => Ok(()),
        Met::Pair(path, a, b) => report.pair(&path, a, b),
        // What could not be digested on one side was told as a trouble; what came or went meanwhile was not.
        Met::Alone(..) if known.is_cut || report.found.unreadable > 0 => Ok(()),
        Met::Alone(_, path, _) => report.differs(&path, "it came or went while it was compared"),
        Met::Trouble(side, failure) => report.trouble(side, &failure),
    };
    both(
        |tell| digest(source, how, single[0], (selected, &known), tell),
        |tell| digest(destination, how, single[1], (selected, &known), tell),
        Order::Mostly,
        stop,
        &mut meet,
    )
}

/// Tells entries that are selected, and with each whether the place is that one entry: it has no name of its own then.
fn list(reach: &Reach, selected: &Selected, tell: &Teller<'_, (Entry, bool)>) -> Result<()> {
    let mut is_directory = false;
    reach.list_in_order(true, &mut |listed| match listed {
        Listed::Found(survey::Found::Entry(entry)) => {
            is_directory |= entry.path.is_root();
            let path = if is_directory { entry.path.clone() } else { RelativePath::root() };
            match selected.has(&path, matches!(entry.kind, Kind::Directory)) {
                true => tell.say(Piece::Item(path, (entry, !is_directory))),
                false => tell.go_on(),
            }
        }
        Listed::Found(survey::Found::Trouble(failure)) if selected.is_concerned(&failure) => {
            tell.say(Piece::Trouble(failure))
        }
        // What is in a directory that is left out is left out too.
        Listed::Unordered(directory) if selected.takes_in(&directory, true) => {
            tell.say(Piece::Unordered(directory))
        }
        Listed::Found(survey::Found::Trouble(_)) | Listed::Unordered(_) => tell.go_on(),
    })
}

/// Tells digests of what is selected, but for what is `known` to be different.
fn digest(
    reach: &Reach,
    how: DigestAs,
    single: bool,
    (selected, known): (&Selected, &Known),
    tell: &Teller<'_, (u64, Digest)>,
) -> Result<()> {
    let root = RelativePath::root();
    let wanted = |path: &RelativePath| {
        let path = if single { &root } else { path };
        !known.has(path) && selected.has(path, false)
    };
    // Of one file the name does not matter.
    let part = selected.part().filter(|_| !single);
    reach.digest_wanted(how, part, &wanted, &mut |digested| match digested {
        Digested::File(_, bytes, digest) if single => {
            tell.say(Piece::Item(RelativePath::root(), (bytes, digest)))
        }
        Digested::File(path, bytes, digest) => tell.say(Piece::Item(path, (bytes, digest))),
        Digested::Trouble(failure) if single || selected.is_concerned(&failure) => {
            tell.say(Piece::Trouble(failure))
        }
        Digested::Trouble(_) | Digested::Unordered(_) | Digested::Alive => tell.go_on(),
    })
}

/// Kind, size, link target. (Modes, owners and times are not content.)
fn difference(a: &Entry, b: &Entry) -> Option<String> {
    match (&a.kind, &b.kind) {
        (Kind::File { .. }, Kind::File { .. }) => {
            (a.evidence.size != b.evidence.size).then(|| format!("{} and {}", bytes_of(a), bytes_of(b)))
        }
        (Kind::Symlink { target: a }, Kind::Symlink { target: b }) => {
            (a != b).then(|| "they lead to different places".to_owned())
        }
        (a_kind, b_kind) if std::mem::discriminant(a_kind) != std::mem::discriminant(b_kind) => {
            Some(format!("a {} and a {}", a_kind.word(), b_kind.word()))
        }
        (a_kind @ Kind::Device { .. }, b_kind) => (a_kind != b_kind).then(|| "different devices".to_owned()),
        _ => None,
    }
}

fn bytes_of(entry: &Entry) -> String {
    counted(entry.evidence.size, "byte", "bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Only a side that goes on to the end of its file takes so long.
    const HANG: Duration = Duration::from_secs(120);

    #[test]
    fn a_side_that_fails_ends_the_other_in_the_middle_of_a_file() {
        let scratch = tempfile::tempdir().unwrap();
        // Hours of digesting: eight terabytes, none of them on the disk.
        let endless = std::fs::File::create(scratch.path().join("endless")).unwrap();
        endless.set_len(8 << 40).unwrap();
        let (tell, hear) = mpsc::channel();
        let path = scratch.path().to_owned();
        std::thread::spawn(move || {
            let every = (&Selected::default(), &Known::default());
            let lost = || Err(Failure::new(FailureKind::Connection, "ask the server", "the link is gone"));
            for failing in [0, 1] {
                let side = |number| {
                    let path = path.clone();
                    move |tell: &Teller<'_, (u64, Digest)>| match number == failing {
                        true => lost(),
                        false => digest(&Reach::local(path), DigestAs::Plain, false, every, tell),
                    }
                };
                let ended = both(side(0), side(1), Order::Mostly, &Stop::default(), &mut |_| Ok(()));
                let _ = tell.send(ended);
            }
        });
        for failing in ["source", "destination"] {
            let ended = hear.recv_timeout(HANG).unwrap_or_else(|_| panic!("the {failing} failed in vain"));
            assert_eq!(ended.unwrap_err().cause, "the link is gone", "{failing}");
        }
    }

    /// As over a link that is down: it hears nothing that it could tell.
    #[test]
    fn a_side_that_fails_ends_the_other_while_that_waits_for_a_link() {
        let (tell, hear) = mpsc::channel();
        std::thread::spawn(move || {
            for failing in [0, 1] {
                let asked = Stop::default();
                let stop = &asked;
                let failed = |kind, cause: &str| Err(Failure::new(kind, "ask the server", cause));
                let side = |number| {
                    move |_: &Teller<'_, ()>| {
                        if number == failing {
                            return failed(FailureKind::Permission, "the directory is closed");
                        }
                        while stop.pause(HANG) {}
                        failed(FailureKind::Stopped, "stopped on request")
                    }
                };
                let ended = both(side(0), side(1), Order::Listed, stop, &mut |_| Ok(()));
                let _ = tell.send(ended);
            }
        });
        for failing in ["source", "destination"] {
            let ended = hear.recv_timeout(HANG).unwrap_or_else(|_| panic!("the {failing} failed in vain"));
            assert_eq!(ended.unwrap_err().cause, "the directory is closed", "{failing}");
        }
    }

    #[test]
    fn parts_are_together_what_one_comparison_is_and_places_at_several_hosts_are_as_many() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for (side, own) in [("a", "mine"), ("b", "theirs")] {
            std::fs::create_dir_all(at(side).join("deep").join(own)).unwrap();
            for number in 0..30 {
                std::fs::write(at(side).join(format!("deep/{number}")), "content").unwrap();
            }
            std::fs::write(at(side).join("deep").join(own).join("file"), "content").unwrap();
        }
        std::fs::write(at("b/deep/7"), "CONTENT").unwrap();
        std::fs::write(at("b/deep/9"), "").unwrap();
        let places = ["a", "b"].map(|name| Reach::local(at(name)));
        let mut told = Vec::new();
        let mut found_of = |part: Option<PartOf>| {
            let mut tell = |what: Told<'_>| -> Result<()> {
                if let Told::Difference(what, path, _) = what {
                    told.push((part.is_some(), format!("{what} {path}")));
                }
                Ok(())
            };
            let selected = Selected::default().in_part(part);
            let sides = [&places[0], &places[1]];
            check(sides, &selected, false, &Meter::default(), &mut tell, &Arc::default()).unwrap()
        };
        let whole = found_of(None);
        let parts = [1, 2, 3].map(|number| found_of(PartOf::new(number, 3)));
        assert!(parts.iter().all(|part| part.files < whole.files), "{parts:?}");
        let [first, others @ ..] = parts;
        assert_eq!(others.iter().fold(first, |sum, part| sum.and(part)), whole);
        assert_eq!((whole.missing, whole.extra, whole.differing), (2, Some(2), 2));
        let of = |in_parts: bool| -> BTreeSet<&String> {
            told.iter().filter(|(one, _)| *one == in_parts).map(|(_, told)| told).collect()
        };
        assert_eq!((of(true), told.len()), (of(false), 12), "each is told by one part");

        let pair = |source: &str, destination: &str| {
            in_parts([OsStr::new(source), OsStr::new(destination)], None).unwrap()
        };
        let named = |number, of, places: [&str; 2]| (PartOf::new(number, of), places.map(OsString::from));
        assert_eq!(pair("a", "h:b"), [(None, ["a", "h:b"].map(OsString::from))]);
        let both = [named(1, 2, ["a", "tw://h/e/b"]), named(2, 2, ["a", "tw://g/e/b"])];
        assert_eq!(pair("a", "tw://h,g/e/b"), both);
        let turns =
            [named(1, 3, ["h1:x", "g:y"]), named(2, 3, ["h2:x", "k:y"]), named(3, 3, ["h3:x", "g:y"])];
        assert_eq!(pair("h[1-3]:x", "g,k:y"), turns);
        let shared = in_parts(["a", "g,k:y"].map(OsStr::new), PartOf::new(1, 2));
        assert_eq!(shared.unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn how_far_it_is_is_counted_in_files_on_both_sides_and_their_bytes() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for (side, own) in [("a", "mine"), ("b", "theirs")] {
            std::fs::create_dir(at(side)).unwrap();
            for name in ["same", "differs", "longer", own] {
                std::fs::write(at(side).join(name), "content").unwrap();
            }
        }
        std::fs::write(at("b/differs"), "Content").unwrap();
        std::fs::write(at("b/longer"), "more content").unwrap();
        let [a, b] = ["a", "b"].map(|name| Reach::local(at(name)));
        let (meter, every) = (Meter::default(), Selected::default());
        let mut anybody = |_: Told<'_>| -> Result<()> { Ok(()) };
        let found = check([&a, &b], &every, false, &meter, &mut anybody, &Arc::default()).unwrap();
        assert_eq!((found.files, found.differing, found.missing), (2, 2, 1));
        let counts =
            [&meter.entries_found, &meter.bytes_found, &meter.entries_settled, &meter.bytes_verified];
        assert_eq!(counts.map(|count| count.load(Ordering::Relaxed)), [2, 14, 2, 14]);
        assert!(meter.scan_over.load(Ordering::Relaxed));

        // A list does not say how much there is.
        let digest = Digest(*blake3::hash(b"content").as_bytes());
        std::fs::write(at("list"), format!("{digest}  same\n")).unwrap();
        let (meter, list) = (Meter::default(), List::open(&at("list")).unwrap());
        check_list(list, &a, &every, &meter, &mut anybody, &Arc::default()).unwrap();
        assert_eq!((meter.entries_settled.load(Ordering::Relaxed), meter.bytes_settled()), (1, 7));
        assert!(!meter.scan_over.load(Ordering::Relaxed));
    }

    #[test]
    fn a_comparison_that_is_asked_to_stop_or_whose_listener_fails_ends_at_the_next_entry_or_line() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["a", "b"] {
            std::fs::create_dir(at(name)).unwrap();
            std::fs::write(at(name).join("same"), "content").unwrap();
        }
        std::fs::write(at("a/alone"), "").unwrap();
        let places = ["a", "b"].map(|name| Reach::local(at(name)));
        let every = Selected::default();
        let of_both = |tell: &mut Tell<'_>, stop: &Arc<Stop>| {
            check([&places[0], &places[1]], &every, false, &Meter::default(), tell, stop)
        };
        let mut anybody = |_: Told<'_>| -> Result<()> { Ok(()) };
        let found = of_both(&mut anybody, &Arc::default()).unwrap();
        let expected = Found { entries: 2, files: 1, bytes: 7, same: 1, missing: 1, ..Found::default() };
        assert_eq!(found, Found { extra: Some(0), ..expected });
        let mut full = |_: Told<'_>| -> Result<()> { Err(Failure::new(FailureKind::Space, "print", "full")) };
        assert_eq!(of_both(&mut full, &Arc::default()).unwrap_err().kind, FailureKind::Space);
        let asked: Arc<Stop> = Arc::default();
        asked.stop();
        let mut nobody = |_: Told<'_>| -> Result<()> { panic!("nothing was to be told") };
        assert_eq!(of_both(&mut nobody, &asked).unwrap_err().kind, FailureKind::Stopped);
        // Nothing of the list is there: no file is read in which it could stop.
        let line = format!("{}  absent\n", Digest([7; 32]));
        std::fs::write(at("list"), line.repeat(3)).unwrap();
        let of_list = |stop: &Arc<Stop>| {
            let list = List::open(&at("list")).unwrap();
            check_list(list, &places[0], &every, &Meter::default(), &mut |_: Told<'_>| Ok(()), stop)
        };
        assert_eq!(of_list(&asked).unwrap_err().kind, FailureKind::Stopped);
        let found = of_list(&Arc::default()).unwrap();
        assert_eq!((found.entries, found.missing, found.extra), (3, 3, None));
    }
}
