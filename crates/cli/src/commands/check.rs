//! `thalweg check`: compares two places by content, and changes nothing.
//!
//! 1. Both sides are listed at once and paired by path: what is missing, extra, or of another kind or size.
//! 2. Both sides digest their files, each its own, past the page cache; digests of the same path are compared.
//!
//! Listings come in the same order from both sides, so pairs meet early; what waits for its partner is what differs
//! and, in directories beyond 65,536 names, what came in another order.

use crate::args::places::CheckArgs;
use crate::commands::places::{Troubles, answered};
use crate::exit::Exit;
use crate::place::Places;
use crate::reach::{self, Reach};
use crate::{json, out, units};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use thalweg_mover::endpoint::local::survey::{DigestAs, Digested, Found};
use thalweg_mover::failure::{Failure, FailureKind, Result};
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// Pieces that one side may be ahead.
const AHEAD: usize = 1024;

enum Piece<T> {
    Item(RelativePath, T),
    Trouble(Failure),
    End(Result<()>),
}

/// What one side has and the other has not, in order.
type Alone<T> = Vec<(RelativePath, T)>;

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
/// When a place cannot be listed at all.
pub fn check(args: &CheckArgs, places: &Places) -> Result<Exit> {
    let mut far_movers = reach::far_movers(&args.ask, places);
    let source = Reach::open(&args.source, &mut far_movers)?;
    let destination = Reach::open(&args.destination, &mut far_movers)?;
    let mut report = Differences {
        json: args.ask.json,
        said: HashSet::new(),
        troubles: Troubles::new(args.ask.json),
        counts: [0; 3],
        left_out: 0,
    };
    let mut entries = 0u64;
    let mut single = [false; 2];

    let (left, right) =
        both(|tell| list(&source, tell), |tell| list(&destination, tell), &mut report, &mut |report,
                                                                                             path,
                                                                                             a: (
            Entry,
            bool,
        ),
                                                                                             b: (
            Entry,
            bool,
        )| {
            entries += 1;
            single = [a.1, b.1];
            match difference(&a.0, &b.0) {
                Some(why) => report.differs(path, &why),
                None => Ok(()),
            }
        })?;
    for (path, (entry, _)) in left {
        // What a copy leaves out too.
        match !args.devices && matches!(entry.kind, Kind::Fifo | Kind::Device { .. }) {
            true => report.left_out += 1,
            false => report.missing(&path)?,
        }
    }
    for (path, _) in right {
        report.extra(&path)?;
    }

    let (mut files, mut bytes) = (0u64, 0u64);
    let how = DigestAs::Marked { segment_bytes: u64::from(plan::SEGMENT_BYTES) };
    let (left, right) = both(
        |tell| digest(&source, how, single[0], tell),
        |tell| digest(&destination, how, single[1], tell),
        &mut report,
        &mut |report, path, a: (u64, Digest), b: (u64, Digest)| {
            if report.said.contains(path) {
                return Ok(());
            }
            files += 1;
            bytes += a.0;
            if a == b { Ok(()) } else { report.differs(path, "content") }
        },
    )?;
    // What could not be digested on one side was told as a trouble; what came or went meanwhile was not.
    for (path, _) in left.iter().chain(&right) {
        if !report.said.contains(path) && report.troubles.is_empty() {
            report.differs(path, "it came or went while it was compared")?;
        }
    }
    report.end(entries, files, bytes)
}

/// Runs both sides at once and pairs what they tell by path. Returns what stayed alone, in order. When one side fails, so
/// does all at once, for its reason.
fn both<T: Send>(
    left: impl FnOnce(&Tell<'_, T>) -> Result<()> + Send,
    right: impl FnOnce(&Tell<'_, T>) -> Result<()> + Send,
    report: &mut Differences,
    pair: &mut dyn FnMut(&mut Differences, &RelativePath, T, T) -> Result<()>,
) -> Result<(Alone<T>, Alone<T>)> {
    let over = Mutex::new(None);
    let paired = std::thread::scope(|scope| {
        let (tell_left, hear_left) = sync_channel(AHEAD);
        let (tell_right, hear_right) = sync_channel(AHEAD);
        let tell_left = Tell { pieces: tell_left, over: &over };
        let tell_right = Tell { pieces: tell_right, over: &over };
        scope.spawn(move || tell_left.end(left(&tell_left)));
        scope.spawn(move || tell_right.end(right(&tell_right)));
        let paired = pair_all([Side::new(hear_left), Side::new(hear_right)], report, pair);
        if let Err(failure) = &paired {
            lock(&over).get_or_insert_with(|| failure.clone());
        }
        paired
    });
    paired.map_err(|failure| lock(&over).take().unwrap_or(failure))
}

fn pair_all<T>(
    mut sides: [Side<T>; 2],
    report: &mut Differences,
    pair: &mut dyn FnMut(&mut Differences, &RelativePath, T, T) -> Result<()>,
) -> Result<(Alone<T>, Alone<T>)> {
    while !(sides[0].ended && sides[1].ended) {
        let behind = usize::from(
            sides[0].ended
                || (!sides[1].ended && in_order(&sides[0].last, &sides[1].last) == Ordering::Greater),
        );
        match sides[behind].hear.recv() {
            Ok(Piece::Item(path, item)) => {
                sides[behind].last = path.clone();
                match sides[1 - behind].alone.remove(&path) {
                    Some(other) if behind == 0 => pair(report, &path, item, other)?,
                    Some(other) => pair(report, &path, other, item)?,
                    None => drop(sides[behind].alone.insert(path, item)),
                }
            }
            Ok(Piece::Trouble(failure)) => report.troubles.add(&failure),
            Ok(Piece::End(end)) => {
                sides[behind].ended = true;
                end?;
            }
            Err(_) => return Err(Failure::new(FailureKind::Internal, "check", "a thread ended early")),
        }
    }
    Ok(sides.map(Side::rest).into())
}

struct Side<T> {
    hear: Receiver<Piece<T>>,
    last: RelativePath,
    alone: HashMap<RelativePath, T>,
    ended: bool,
}

impl<T> Side<T> {
    fn new(hear: Receiver<Piece<T>>) -> Self {
        Side { hear, last: RelativePath::root(), alone: HashMap::new(), ended: false }
    }

    fn rest(self) -> Alone<T> {
        let mut rest: Alone<T> = self.alone.into_iter().collect();
        rest.sort_by(|(a, _), (b, _)| in_order(a, b));
        rest
    }
}

/// The order of listings: component by component.
fn in_order(a: &RelativePath, b: &RelativePath) -> Ordering {
    a.as_bytes().split(|&byte| byte == b'/').cmp(b.as_bytes().split(|&byte| byte == b'/'))
}

/// Tells entries, and with each whether the place is that one entry: it has no name of its own then.
fn list(reach: &Reach, tell: &Tell<'_, (Entry, bool)>) -> Result<()> {
    let mut is_directory = false;
    reach.list(true, &mut |found| match found {
        Found::Entry(entry) => {
            is_directory |= entry.path.is_root();
            let path = if is_directory { entry.path.clone() } else { RelativePath::root() };
            tell.say(Piece::Item(path, (entry, !is_directory)))
        }
        Found::Trouble(failure) => tell.say(Piece::Trouble(failure)),
    })
}

fn digest(reach: &Reach, how: DigestAs, single: bool, tell: &Tell<'_, (u64, Digest)>) -> Result<()> {
    reach.digest(how, &mut |digested| match digested {
        Digested::File(_, bytes, digest) if single => {
            tell.say(Piece::Item(RelativePath::root(), (bytes, digest)))
        }
        Digested::File(path, bytes, digest) => tell.say(Piece::Item(path, (bytes, digest))),
        Digested::Trouble(failure) => tell.say(Piece::Trouble(failure)),
        Digested::Alive => tell.go_on(),
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

struct Differences {
    json: bool,
    said: HashSet<RelativePath>,
    troubles: Troubles,
    /// Missing, extra, different.
    counts: [u64; 3],
    /// FIFOs and devices of the source alone: nobody asked for them.
    left_out: u64,
}

impl Differences {
    fn missing(&mut self, path: &RelativePath) -> Result<()> {
        self.say(0, "missing", path, "only at the source")
    }

    fn extra(&mut self, path: &RelativePath) -> Result<()> {
        self.say(1, "extra", path, "only at the destination")
    }

    fn differs(&mut self, path: &RelativePath, why: &str) -> Result<()> {
        self.say(2, "differs", path, why)
    }

    fn say(&mut self, what: usize, word: &str, path: &RelativePath, why: &str) -> Result<()> {
        self.counts[what] += 1;
        self.said.insert(path.clone());
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

    fn end(&self, entries: u64, files: u64, bytes: u64) -> Result<Exit> {
        let [missing, extra, differing] = self.counts;
        let left_out = match self.left_out {
            0 => String::new(),
            count => format!("; {} left out: FIFOs and devices, without --devices", units::entries(count)),
        };
        let same = self.counts == [0; 3] && self.troubles.is_empty();
        let exit = if same { Exit::Done } else { Exit::Partial };
        let told = match self.json {
            true => json::line(&serde_json::json!({
                "event": "checked", "exit": exit.code(), "entries": entries, "files": files, "bytes": bytes,
                "missing": missing, "extra": extra, "differing": differing, "left_out": self.left_out,
            })),
            false => out::line(&format!(
                "{}: {} entries on both sides, {} in {} files compared by digest; {missing} missing, {extra} extra, \
                 {differing} differ{left_out}",
                if same { "same" } else { "different" },
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

    #[test]
    fn a_side_that_fails_ends_the_other_in_the_middle_of_a_file() {
        let scratch = tempfile::tempdir().unwrap();
        // Hours of digesting: eight terabytes, none of them on the disk.
        let endless = std::fs::File::create(scratch.path().join("endless")).unwrap();
        endless.set_len(8 << 40).unwrap();
        let (tell, hear) = mpsc::channel();
        let path = scratch.path().to_owned();
        std::thread::spawn(move || {
            let mut report = Differences {
                json: false,
                said: HashSet::new(),
                troubles: Troubles::new(false),
                counts: [0; 3],
                left_out: 0,
            };
            let lost = || Err(Failure::new(FailureKind::Connection, "ask", "the link is gone"));
            for failing in [0, 1] {
                let side = |number| {
                    let path = path.clone();
                    move |tell: &Tell<'_, (u64, Digest)>| match number == failing {
                        true => lost(),
                        false => digest(&Reach::Local(path), DigestAs::Plain, false, tell),
                    }
                };
                let ended = both(side(0), side(1), &mut report, &mut |_, _, _, _| Ok(()));
                let _ = tell.send(ended.map(drop));
            }
        });
        for failing in ["source", "destination"] {
            let ended = hear.recv_timeout(HANG).unwrap_or_else(|_| panic!("the {failing} failed in vain"));
            assert_eq!(ended.unwrap_err().cause, "the link is gone", "{failing}");
        }
    }
}
