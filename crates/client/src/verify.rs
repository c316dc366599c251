//! Is what a receipt says still there?
//!
//! 1. Both signatures, both statements against each other, and the root against the lines.
//! 2. Every path of the receipt at the place, by the last of its lines; every file, or each that was drawn
//!    ([`Sample`]), is read past the page cache and digested, if it has the right size.
//! 3. Hard links, which have no digest, are each a file (device and inode) of step 2, or have the content of one.
//! 4. Files whose content differs, and of which the receipt has the digests of parts, are read once more: which bytes?
//! 5. If asked: nothing is there that the receipt does not have.
//!
//! Several receipts, as those of the parts of one copy, are one: steps 2 to 4 for each, and step 5 for all together.
//!
//! The receipt is opened once, and of what is no regular file a copy is made, so that each pass reads what step 1 has
//! checked. A file that is written in place meanwhile is found by the root, which each pass computes again.
//!
//! What failed when it was copied has no line: the signed totals say how much that was, and such a copy is not whole.
//!
//! Not checked: modes, owners, times; the receipt does not hold them. Files of which the receipt has no digest (found
//! unchanged by evidence, never read) are compared by size and counted: as long as there are any, not all was verified.

use crate::reach::Reach;
use crate::receipt_file::Seal;
use compare::compare;
use damage::locate;
use judge::Judge;
use links::compare_links;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use superseded::At;
use thalweg_mover::endpoint::local::survey::{Found as Listed, WORKERS};
use thalweg_mover::failure::{Failure, FailureKind, Reason, Result, VERIFY};
use thalweg_mover::mutex::lock;
use thalweg_mover::run::copy::{Meter, Stop};
use thalweg_wire::receipt::Line;
use thalweg_wire::{Kind, RelativePath};

/// 1. The receipt, and its passes.
mod receipt;

/// Which lines are not the last of their path.
mod superseded;

/// 2. A line, and what stands at its path.
mod compare;

/// Of which files content is read, where not of all.
mod sample;

/// What was found, in numbers and words.
mod judge;

/// 3. Hard links.
mod links;

/// 4. Which bytes differ.
mod damage;

/// Which parts of a copy receipts are of.
mod parts;

pub use parts::{Parts, doubts_together};
pub use receipt::{Expected, Receipt, Unlisted, certified, parse_key, seal};
pub(crate) use sample::Draw;
pub use sample::{PROBABILITY, Sample, SampleSize, Sampled, parse_seed, parse_size, random_seed};

/// Files that are asked about at the same time at a far place, where it hides the round trip.
pub const FAR_WORKERS: usize = 16;

/// The clock of the place may be so far behind the one by which a copy says when it began: another machine's.
const CLOCKS_APART_S: u64 = 60;

/// What is found on the way.
#[derive(Debug)]
pub enum Told<'a> {
    /// One more entry of the receipt was looked at, which has so many bytes of content.
    Looked(u64),
    /// `missing`, `differs` or `extra`: a path, and why.
    Difference(&'static str, &'a RelativePath, &'a str),
    /// A file whose content differs, read again: these bytes do, or none any more.
    Damage(&'a RelativePath, &'a [Range<u64>]),
    /// What could not be looked at.
    Trouble(&'a Failure),
}

/// What there is to be looked at, for who is told how far it is.
pub fn expect(meter: &Meter, seal: &Seal) {
    expect_all(meter, &[seal]);
}

/// The same of several receipts.
pub fn expect_all(meter: &Meter, seals: &[&Seal]) {
    let sum = |of: fn(&Seal) -> u64| seals.iter().fold(0u64, |sum, seal| sum.saturating_add(of(seal)));
    meter.entries_found.store(sum(|seal| seal.entries), Ordering::Relaxed);
    meter.bytes_found.store(sum(|seal| seal.bytes), Ordering::Relaxed);
    meter.scan_over.store(true, Ordering::Relaxed);
    meter.came(0);
}

/// One more entry was [looked at](Told::Looked).
pub fn looked(meter: &Meter, bytes: u64) {
    meter.entries_settled.fetch_add(1, Ordering::Relaxed);
    meter.came(meter.bytes_verified.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes));
}

/// Takes what is found, from one thread at a time.
pub type Tell<'a> = dyn FnMut(Told<'_>) + Send + 'a;

/// What was found, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries of the receipt that were looked for; a path that has several lines is one.
    pub entries: u64,
    /// Content bytes that have the digest of the receipt.
    pub bytes: u64,
    /// Entries that are not there.
    pub missing: u64,
    /// Entries of another kind, size or content.
    pub differing: u64,
    /// Entries that the receipt does not have; `None`: nobody looked for them.
    pub extra: Option<u64>,
    /// Entries that could not be read; when it is strict, also directories that could not be listed.
    pub unreadable: u64,
    /// Files of the right size, not empty, of which the receipt has no digest, and hard links of which it has no file:
    /// nobody knows whether they have the content that was copied.
    pub without_digest: u64,
    /// Entries that failed when it was copied: the receipt has nothing of them but how many they are.
    pub failed: u64,
    /// Entries that were skipped when it was copied, as somebody wanted it.
    pub skipped: u64,
    /// What was drawn, as far as it was read to its end; `None`: nothing was drawn, all was to be read.
    pub sampled: Option<Sampled>,
}

impl Found {
    /// Whether all that the receipt has is as it says.
    pub fn is_same(&self) -> bool {
        self.missing + self.differing + self.extra.unwrap_or(0) + self.unreadable == 0
    }

    /// Whether nothing that was looked for is there, by its name: the place may be another one than was copied to.
    pub fn is_nowhere(&self) -> bool {
        self.entries > 0 && self.missing == self.entries
    }

    /// Whether that is also all that was to be copied, and the content of all of it, or of all that was drawn, was
    /// compared.
    pub fn is_whole(&self) -> bool {
        self.is_same() && self.failed == 0 && self.without_digest == 0
    }
}

/// Compares a place with a receipt whose [`seal`] was checked. `strict`: what the receipt does not have is a
/// difference. When it is asked to stop, the files that are being read are the last, or are not read to their end if
/// `reach` is one [`until`](Reach::until) then. A link that is lost is outlasted ([`Reach::outlasting`]): what was
/// under way is asked for again, and each entry is told once.
///
/// # Errors
/// `Usage` for a file as the place of many; `Damage` for a receipt that was written meanwhile; when the place cannot be
/// reached.
pub fn verify(
    receipt: &Receipt,
    seal: &Seal,
    reach: &Reach,
    strict: bool,
    tell: &mut Tell<'_>,
    stop: &Stop,
) -> Result<Found> {
    verify_sample(receipt, seal, reach, strict, None, tell, stop)
}

/// The same, where content is read only of what was drawn from that receipt, if there is a `sample`. All else is looked
/// at: of files that were not drawn the size. A hard link that is none of the files any more is read.
///
/// # Errors
/// As [`verify`].
pub fn verify_sample(
    receipt: &Receipt,
    seal: &Seal,
    reach: &Reach,
    strict: bool,
    sample: Option<&Sample>,
    tell: &mut Tell<'_>,
    stop: &Stop,
) -> Result<Found> {
    verify_all(&[(receipt, seal)], reach, strict, sample, tell, stop)
}

/// The same with several receipts together: what none of them has is extra, and a directory that several have is looked
/// at once. A `sample` is that of one.
///
/// # Errors
/// As [`verify`].
pub fn verify_all(
    receipts: &[(&Receipt, &Seal)],
    reach: &Reach,
    strict: bool,
    sample: Option<&Sample>,
    tell: &mut Tell<'_>,
    stop: &Stop,
) -> Result<Found> {
    let reach = &reach.outlasting();
    let is_single = is_single(receipts, reach)?;
    let mut judge = Judge::new(strict, tell).of(receipts.len()).reading(sample);
    for &(receipt, seal) in receipts {
        judge = judge.on(seal);
        if judge.is_away {
            // A directory that several have counts for each.
            judge.found.unreadable = judge.found.unreadable.saturating_add(seal.entries);
            continue;
        }
        judge = compare_one((receipt, seal), (reach, is_single), sample, judge, stop)?;
        if judge.stopped.is_some() {
            break;
        }
    }
    // It ends with that anyway, and a place that is away would be waited for once more.
    if strict && !is_single && judge.stopped.is_none() {
        reach.list(true, &mut |found| {
            match found {
                Listed::Entry(entry) => judge.is_extra(&entry.path),
                // Nobody knows what is there that the receipt does not have.
                Listed::Trouble(failure) => judge.is_unreadable(&failure),
            }
            Ok(())
        })?;
    }
    if stop.is_asked() {
        judge.stop(stopped());
    }
    judge.end()
}

fn stopped() -> Failure {
    Failure::new(FailureKind::Stopped, VERIFY, "stopped on request").because(Reason::BeginsAnew)
}

/// Steps 2 to 4 for one receipt.
fn compare_one<'a, 'b>(
    (receipt, seal): (&Receipt, &Seal),
    (reach, is_single): (&Reach, bool),
    sample: Option<&Sample>,
    judge: Judge<'a, 'b>,
    stop: &Stop,
) -> Result<Judge<'a, 'b>> {
    let superseded = receipt.superseded(seal)?;
    let judge = Mutex::new(judge);
    let lines = Mutex::new(receipt.pass(seal)?);
    let next_line = || -> Result<Option<(Line, At)>> {
        let mut lines = lock(&lines);
        let line = lines.next_line()?;
        Ok(line.map(|line| (line, lines.at())))
    };
    let workers = if reach.is_local() { WORKERS } else { FAR_WORKERS };
    let work = || {
        loop {
            if stop.is_asked() {
                return lock(&judge).stop(stopped());
            }
            let (line, at) = match next_line() {
                Ok(Some(next)) => next,
                Ok(None) => return,
                Err(failure) => return lock(&judge).stop(failure),
            };
            if superseded.has(at) {
                lock(&judge).pass_over(&line);
                continue;
            }
            if lock(&judge).has_looked_at(&line) {
                continue;
            }
            let (verdict, seen) = compare(reach, &line, is_single, seal.segment_bytes, sample);
            // What was cut off says nothing of the file.
            if stop.is_asked() {
                continue;
            }
            if !lock(&judge).take(&line, verdict, seen) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        // Without them it only takes longer.
        let another = || std::thread::Builder::new().name("verify".into()).spawn_scoped(scope, work);
        let _others: Vec<_> =
            (1..workers.min(seal.entries as usize)).filter_map(|_| another().ok()).collect();
        work();
    });
    let mut judge = judge.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if judge.stopped.is_none() {
        lines.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).end()?;
        compare_links(reach, is_single, seal, receipt, &mut judge)?;
        locate(reach, is_single, (receipt, seal), &mut judge)?;
    }
    Ok(judge)
}

/// Whether the place is the one entry of the receipts, whatever its name: a file, or another object of which one was
/// copied alone. What leads to a directory is that directory, unless it is such a link.
fn is_single(receipts: &[(&Receipt, &Seal)], reach: &Reach) -> Result<bool> {
    match (reach.entry(b"")?.kind, alone(receipts)?) {
        (Kind::File { .. }, Some(_)) => Ok(true),
        (Kind::File { .. }, None) => {
            let cause = "the receipt does not have one entry alone: name the directory that they are in";
            Err(Failure::new(FailureKind::Usage, VERIFY, cause))
        }
        (_, None) => Ok(false),
        (_, Some((line, _))) if line.path.depth() != 1 || line.kind == "directory" => Ok(false),
        (Kind::Directory, Some((line, seal))) => match line.kind == "symlink" {
            true => is_link_renamed(seal, reach, &line),
            false => Ok(false),
        },
        (_, Some(_)) => Ok(true),
    }
}

/// The last line of the one path that the receipts have, and of which of them it is; `None` if they have none, or
/// several.
fn alone<'a>(receipts: &[(&Receipt, &'a Seal)]) -> Result<Option<(Line, &'a Seal)>> {
    let mut with_lines = receipts.iter().filter(|(_, seal)| seal.entries > 0);
    let (Some(&(receipt, seal)), None) = (with_lines.next(), with_lines.next()) else { return Ok(None) };
    let mut pass = receipt.pass(seal)?;
    let mut last: Option<(At, Line)> = None;
    while let Some(line) = pass.next_line()? {
        let at = pass.at();
        let is_later = match &last {
            Some((_, known)) if known.path != line.path => return Ok(None),
            Some((known, _)) => at > *known,
            None => true,
        };
        if is_later {
            last = Some((at, line));
        }
    }
    pass.end()?;
    Ok(last.map(|(_, line)| (line, seal)))
}

/// Whether a place that leads to a directory is the link of this line under a new name: in the directory is none of its
/// own name, and it is a link that the copy can have made. One that was there before led the copy into that directory.
fn is_link_renamed(seal: &Seal, reach: &Reach, line: &Line) -> Result<bool> {
    let in_it = reach.entry(line.path.as_bytes());
    if !in_it.is_err_and(|failure| failure.kind == FailureKind::NotFound) {
        return Ok(false);
    }
    let itself = reach.itself()?;
    let made = u64::try_from(itself.evidence.ctime.seconds).unwrap_or(0);
    let is_late_enough = made.saturating_add(CLOCKS_APART_S) >= seal.began;
    Ok(is_late_enough && matches!(itself.kind, Kind::Symlink { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt_file::tests::Sample;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    #[test]
    fn one_link_or_fifo_is_compared_with_what_has_its_new_name() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::os::unix::fs::symlink("nowhere", at("link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        std::fs::write(at("file"), "").unwrap();
        for kind in ["symlink", "fifo", "directory"] {
            let text = Sample::new(&[format!("-  0  {kind}  done  once\n").as_str()]).text();
            std::fs::write(at("receipt"), text).unwrap();
            let receipt = Receipt::open(&at("receipt")).unwrap();
            let sealed = seal(&receipt, &Expected::default()).unwrap();
            // How many entries are missing, different and extra.
            let of = |place: &Path| {
                let reach = Reach::local(place.to_owned());
                let found = verify(&receipt, &sealed, &reach, true, &mut |_: Told<'_>| {}, &Stop::default());
                let found = found.unwrap();
                assert_eq!(found.entries, 1);
                (found.missing, found.differing, found.extra)
            };
            let found = ["link", "fifo", "file"].map(|name| of(&at(name)));
            let (same, other) = ((0, 0, Some(0)), (0, 1, Some(0)));
            assert_eq!(found[2], other, "{kind}");
            match kind {
                "symlink" => assert_eq!(found[..2], [same, other]),
                "fifo" => assert_eq!(found[..2], [other, same]),
                // Nothing is in them.
                _ => assert!(found[..2].iter().all(|found| found.0 == 1), "{found:?}"),
            }
        }
    }

    /// The receipts of parts with these lines, in files of this directory.
    fn receipts(directory: &Path, parts: &[&[&str]]) -> Vec<(Receipt, Seal)> {
        let write = |(number, lines): (usize, &&[&str])| {
            let path = directory.join(format!("receipt.{number}"));
            std::fs::write(&path, Sample::new(lines).text()).unwrap();
            let receipt = Receipt::open(&path).unwrap();
            let sealed = seal(&receipt, &Expected::default()).unwrap();
            (receipt, sealed)
        };
        parts.iter().enumerate().map(write).collect()
    }

    fn found_by(receipts: &[(Receipt, Seal)], place: &Path) -> Result<Found> {
        let receipts: Vec<_> = receipts.iter().map(|one| (&one.0, &one.1)).collect();
        let reach = Reach::local(place.to_owned());
        verify_all(&receipts, &reach, true, None, &mut |_: Told<'_>| {}, &Stop::default())
    }

    #[test]
    fn several_receipts_are_compared_as_one() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("place");
        std::fs::create_dir_all(place.join("d")).unwrap();
        for name in ["d/a", "d/b", "c"] {
            std::fs::write(place.join(name), "content").unwrap();
        }
        let digest = blake3::hash(b"content");
        let [a, b] = ["d/a", "d/b"].map(|name| format!("{digest}  7  file  done  {name}\n"));
        let directory = "-  0  directory  done  d\n";
        let both = receipts(scratch.path(), &[&[directory, &a], &[directory, &b]]);
        let counts = |found: Found| (found.entries, found.bytes, found.missing, found.extra);
        assert_eq!(counts(found_by(&both, &place).unwrap()), (3, 14, 0, Some(1)), "c is in none of them");
        // One alone knows nothing of the other.
        assert_eq!(counts(found_by(&both[..1], &place).unwrap()), (2, 7, 0, Some(2)));
        std::fs::remove_dir_all(place.join("d")).unwrap();
        assert_eq!(counts(found_by(&both, &place).unwrap()), (3, 0, 3, Some(1)), "the directory lacks once");
        // A file that was copied alone is in one part, and the others have nothing.
        let file = format!("{digest}  7  file  done  c\n");
        let alone = receipts(scratch.path(), &[&[], &[&file]]);
        assert_eq!(counts(found_by(&alone, &place.join("c")).unwrap()), (1, 7, 0, Some(0)));
        assert_eq!(found_by(&both, &place.join("c")).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn of_however_many_files_that_were_stated_again_the_last_word_counts() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("place");
        std::fs::create_dir(&place).unwrap();
        let names: Vec<String> = (0..4097).map(|number| format!("file-{number}")).collect();
        let line_of = |content: &str, name: &str| {
            format!("{}  {}  file  done  {name}\n", blake3::hash(content.as_bytes()), content.len())
        };
        let mut lines = Vec::new();
        for content in ["first", "first and second"] {
            lines.extend(names.iter().map(|name| line_of(content, name)));
        }
        // Of one size, and a smaller one.
        for (name, contents) in [("as-large", ["CONTENT", "content"]), ("smaller", ["content", "less"])] {
            std::fs::write(place.join(name), contents[1]).unwrap();
            lines.extend(contents.map(|content| line_of(content, name)));
        }
        for name in &names {
            std::fs::write(place.join(name), "first and second").unwrap();
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let receipts = receipts(scratch.path(), &[&lines[..]]);
        let found = found_by(&receipts, &place).unwrap();
        assert!(found.is_whole() && found.extra == Some(0), "{found:?}");
        assert_eq!((found.entries, found.bytes), (4099, 4097 * 16 + 7 + 4));
        // What has the content of an earlier line is damaged.
        std::fs::write(place.join("as-large"), "CONTENT").unwrap();
        std::fs::write(place.join("file-7"), "first").unwrap();
        let found = found_by(&receipts, &place).unwrap();
        assert_eq!((found.differing, found.missing, found.entries), (2, 0, 4099));
    }

    #[test]
    fn a_file_that_has_several_lines_is_one_entry_and_is_verified_under_a_new_name() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("renamed");
        std::fs::write(&place, "first and second").unwrap();
        let line_of = |content: &str, name: &str| {
            format!("{}  {}  file  done  {name}\n", blake3::hash(content.as_bytes()), content.len())
        };
        let [first, last, other] = [("first", "a"), ("first and second", "a"), ("first", "b")]
            .map(|(content, name)| line_of(content, name));
        let one = receipts(scratch.path(), &[&[&first, &last]]);
        let found = found_by(&one, &place).unwrap();
        assert!(found.is_whole(), "{found:?}");
        assert_eq!((found.entries, found.bytes), (1, 16));
        let several = receipts(scratch.path(), &[&[&first, &last, &other]]);
        assert_eq!(found_by(&several, &place).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn how_far_it_is_is_told_entry_by_entry() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("a"), "content").unwrap();
        let digest = blake3::hash(b"content");
        let lines = [format!("{digest}  7  file  done  a\n"), format!("{digest}  7  file  done  missing\n")];
        let text = Sample::new(&[lines[0].as_str(), lines[1].as_str()]).text();
        std::fs::write(at("receipt"), text).unwrap();
        let receipt = Receipt::open(&at("receipt")).unwrap();
        let sealed = seal(&receipt, &Expected::default()).unwrap();
        let meter = Meter::default();
        expect(&meter, &sealed);
        assert_eq!((meter.entries_found.load(Ordering::Relaxed), meter.bytes_settled()), (2, 0));
        let mut told = Vec::new();
        let mut tell = |what: Told<'_>| match what {
            Told::Looked(bytes) => {
                looked(&meter, bytes);
                told.push((meter.entries_settled.load(Ordering::Relaxed), meter.bytes_settled()));
            }
            Told::Difference(what, ..) => assert_eq!(what, "missing"),
            other => panic!("{other:?}"),
        };
        let reach = Reach::local(scratch.path().to_owned());
        let found = verify(&receipt, &sealed, &reach, false, &mut tell, &Stop::default()).unwrap();
        assert_eq!((told, found.missing), (vec![(1, 7), (2, 14)], 1));
        assert_eq!(meter.bytes_found.load(Ordering::Relaxed), 14);
    }

    #[test]
    fn one_link_that_leads_to_a_directory_is_the_one_copied_if_its_copy_can_have_made_it() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("directory")).unwrap();
        std::os::unix::fs::symlink("directory", at("new")).unwrap();
        // How many entries are missing and different at a place, after a copy that began then.
        let of = |began: u64, place: &str| {
            let text = Sample::new(&["-  0  symlink  done  link\n"]).that_began(began).text();
            std::fs::write(at("receipt"), text).unwrap();
            let receipt = Receipt::open(&at("receipt")).unwrap();
            let sealed = seal(&receipt, &Expected::default()).unwrap();
            let reach = Reach::local(at(place));
            let found = verify(&receipt, &sealed, &reach, false, &mut |_: Told<'_>| {}, &Stop::default());
            let found = found.unwrap();
            (found.missing, found.differing)
        };
        let (long_ago, one_day) = (1_000_000_000, 9_999_999_999);
        assert_eq!(of(long_ago, "new"), (0, 0));
        assert_eq!(of(long_ago, "new/"), (1, 0), "what it leads to");
        assert_eq!(of(one_day, "new"), (1, 0), "it was there before, and led into the directory");
        let made = u64::try_from(at("new").symlink_metadata().unwrap().ctime()).unwrap();
        assert_eq!(of(made + CLOCKS_APART_S, "new"), (0, 0), "another machine's clock is behind");
        assert_eq!(of(made + CLOCKS_APART_S + 1, "new"), (1, 0));
        std::fs::write(at("directory/link"), "").unwrap();
        assert_eq!(of(long_ago, "new"), (0, 1), "what has its name goes first");
        std::fs::remove_file(at("directory/link")).unwrap();
        std::os::unix::fs::symlink("nowhere", at("directory/link")).unwrap();
        assert_eq!(of(one_day, "new"), (0, 0));
    }
}
