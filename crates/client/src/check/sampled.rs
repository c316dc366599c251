//! 2. Of a sample each side digests what was drawn, file by file: it is asked for nothing else.
//!
//! What was drawn shows when names are listed once more, at one side: so none of them is kept. What cannot be listed
//! by then is told, and so is how many of those that were drawn do not show any more: nobody has read them.

use super::Selected;
use super::differences::{Differences, Known};
use super::pairs::Met;
use crate::reach::Reach;
use crate::threads;
use crate::verify::{FAR_WORKERS, Sample};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use thalweg_mover::endpoint::local::survey::{self, DigestAs, WORKERS};
use thalweg_mover::failure::{Failure, FailureKind, Result, counted};
use thalweg_mover::mutex::lock;
use thalweg_mover::plan;
use thalweg_mover::run::copy::Stop;
use thalweg_wire::{Digest, Entry, Kind, RelativePath};

/// Bytes and digest of a file.
type Read = (u64, Digest);

/// Digests what was drawn at both places, and tells whose content differs. Several files at a time, each at one place
/// after the other. `is_single`: each place is the one file.
pub(super) fn compare_sample(
    sides: [&Reach; 2],
    is_single: bool,
    (selected, sample): (&Selected, &Sample),
    report: &mut Differences<'_, '_>,
    stop: &Stop,
) -> Result<()> {
    let (known, unreadable) = (std::mem::take(&mut report.known), report.found.unreadable);
    // Here it costs no round trips.
    let side = usize::from(sides[1].is_local());
    let lister = sides[side];
    let workers = if sides.iter().all(|side| side.is_local()) { WORKERS } else { FAR_WORKERS };
    let is_drawn = |entry: &Entry| is_drawn(entry, (selected, sample), &known);
    // How many it names.
    let name_all = |names: SyncSender<RelativePath>, tell: SyncSender<Result<Met<Read>>>| -> Result<u64> {
        let nobody = || ended("nobody compares any more");
        let mut named = 0;
        let mut name = |path| {
            named += 1;
            names.send(path).map_err(|_| nobody())
        };
        if is_single {
            name(RelativePath::root())?;
            return Ok(named);
        }
        lister.list(true, &mut |found| match found {
            survey::Found::Entry(entry) if is_drawn(&entry) => name(entry.path),
            // One without a path was told when names were listed first.
            survey::Found::Trouble(failure) if failure.path.is_some() && selected.is_concerned(&failure) => {
                tell.send(Ok(Met::Trouble(side, failure))).map_err(|_| nobody())
            }
            survey::Found::Entry(_) | survey::Found::Trouble(_) => Ok(()),
        })?;
        Ok(named)
    };
    let name_all = &name_all;
    let named = std::thread::scope(|scope| {
        let (names, named) = sync_channel(workers);
        let (tell, hear) = sync_channel(workers);
        let named = Arc::new(Mutex::new(named));
        for number in 0..workers {
            let (named, tell) = (named.clone(), tell.clone());
            match threads::spawn_scoped(scope, "check", move || work(sides, &named, &tell)) {
                Err(failure) if number == 0 => return Err(failure),
                // Fewer of them only take longer.
                Err(_) => break,
                Ok(_) => {}
            }
        }
        drop(named);
        let listed = threads::spawn_scoped(scope, "list", move || name_all(names, tell))?;
        let heard = hear.iter().try_for_each(|met| match met? {
            // Told already, most likely.
            Met::Pair(_, source, destination) if known.is_cut && source.0 != destination.0 => Ok(()),
            Met::Pair(path, source, destination) => {
                report.sampled(source.0);
                report.pair(&path, source, destination)
            }
            Met::Alone(..) if known.is_cut || report.found.unreadable > 0 => Ok(()),
            Met::Alone(_, path, _) => report.differs(&path, "it came or went while it was compared"),
            Met::Trouble(side, failure) => report.trouble(side, &failure),
        });
        if heard.is_err() {
            stop.stop();
        }
        // Who still has something to say hears that nobody listens.
        drop(hear);
        heard?;
        listed.join().unwrap_or_else(|_| Err(ended("a thread ended early")))
    })?;
    let lost = report.found.drawn.saturating_sub(named);
    if lost > 0 && report.found.unreadable == unreadable {
        let lost = counted(lost, "file that was drawn is", "files that were drawn are");
        let cause = format!("{lost} gone or empty by now: not all of the sample was compared");
        return report.trouble(side, &Failure::new(FailureKind::NotFound, "look up", cause));
    }
    Ok(())
}

/// Whether a file was drawn, as both listings had it alike.
fn is_drawn(entry: &Entry, (selected, sample): (&Selected, &Sample), known: &Known) -> bool {
    let path = &entry.path;
    matches!(entry.kind, Kind::File { .. })
        && entry.content_bytes() > 0
        && sample.has_path(path)
        && selected.has(path, false)
        && !known.has(path)
}

/// Digests one file after the other, until there is none, nobody hears it, or it fails as a whole.
fn work(sides: [&Reach; 2], named: &Mutex<Receiver<RelativePath>>, tell: &SyncSender<Result<Met<Read>>>) {
    loop {
        let next = lock(named).recv();
        let Ok(path) = next else { return };
        let met = digest_both(sides, path);
        let is_over = met.is_err();
        if tell.send(met).is_err() || is_over {
            return;
        }
    }
}

/// Digests a file at both places.
///
/// # Errors
/// What the rest would fail of as well.
fn digest_both(sides: [&Reach; 2], path: RelativePath) -> Result<Met<Read>> {
    let how = DigestAs::Marked { segment_bytes: u64::from(plan::SEGMENT_BYTES) };
    let mut read = [(0, Digest::default()); 2];
    for (side, reach) in sides.into_iter().enumerate() {
        match reach.below(path.as_bytes()).digest_of_file(how) {
            Ok(found) => read[side] = found,
            Err(failure) if failure.kind == FailureKind::NotFound => {
                return Ok(Met::Alone(1 - side, path, read[0]));
            }
            Err(failure) if matches!(failure.kind, FailureKind::Connection | FailureKind::Stopped) => {
                return Err(failure);
            }
            Err(failure) if path.is_root() => return Ok(Met::Trouble(side, failure)),
            Err(failure) => return Ok(Met::Trouble(side, failure.at(&path))),
        }
    }
    let [source, destination] = read;
    Ok(Met::Pair(path, source, destination))
}

fn ended(cause: &str) -> Failure {
    Failure::new(FailureKind::Internal, "check", cause)
}

#[cfg(test)]
mod tests {
    use super::super::{Found, Told, check_sample};
    use super::*;
    use crate::verify::{Draw, SampleSize, Sampled};
    use std::collections::BTreeSet;
    use std::path::Path;
    use thalweg_mover::run::copy::Meter;

    /// What is told of two places by a sample of so many files, with the seed `seed`.
    fn told(places: [&Path; 2], files: u64) -> (BTreeSet<String>, Found) {
        let [source, destination] = places.map(|place| Reach::local(place.to_owned()));
        let mut told = BTreeSet::new();
        let mut tell = |what: Told<'_>| -> Result<()> {
            match what {
                Told::Difference(what, path, _) => drop(told.insert(format!("{what} {path}"))),
                Told::Trouble(..) => {}
            }
            Ok(())
        };
        let found = check_sample(
            [&source, &destination],
            &Selected::default(),
            false,
            Some((SampleSize::Files(files), "seed".to_owned())),
            &Meter::default(),
            &mut tell,
            &Arc::default(),
        );
        (told, found.unwrap())
    }

    #[test]
    fn of_two_places_what_was_drawn_is_digested_and_all_else_is_looked_at() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
        let names: Vec<String> = (0..30).map(|number| format!("deep/file-{number:02}")).collect();
        for (place, content) in [(&from, "content"), (&to, "CONTENT")] {
            std::fs::create_dir_all(place.join("deep")).unwrap();
            names.iter().for_each(|name| std::fs::write(place.join(name), content).unwrap());
            // There is nothing in it to compare.
            std::fs::write(place.join("empty"), "").unwrap();
        }
        // Right size, wrong content: of those that were drawn.
        let (all, found) = told([&from, &to], 10);
        assert_eq!((all.len(), found.differing, found.files, found.entries), (10, 10, 10, 33));
        let sampled = Sampled { files: 10, bytes: 70, of_files: 30, of_bytes: 210 };
        assert_eq!((found.sampled, found.drawn), (Some(sampled), 10));
        assert_eq!(told([&from, &to], 10).0, all, "the same seed draws the same");
        let is_drawn = |name: &&String| all.contains(&format!("differs {name}"));
        let (drawn, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_drawn);
        drawn.iter().for_each(|name| std::fs::write(to.join(name), "content").unwrap());
        let (all, found) = told([&from, &to], 10);
        assert!(all.is_empty() && found.is_same() && found.bytes == 70, "{all:?} {found:?}");
        // What shows without reading shows of all.
        std::fs::remove_file(to.join(others[0])).unwrap();
        std::fs::write(to.join(others[1]), "short").unwrap();
        let (all, found) = told([&from, &to], 28);
        assert!(all.contains(&format!("missing {}", others[0])), "{all:?}");
        assert!(all.contains(&format!("differs {}", others[1])), "{all:?}");
        // These two are told, and none of those that may be drawn any more.
        let sampled = Sampled { files: 28, bytes: 196, of_files: 28, of_bytes: 196 };
        assert_eq!((found.sampled, found.differing), (Some(sampled), 19));
    }

    /// As it is where that happens between the two listings.
    #[test]
    fn what_was_drawn_and_is_gone_or_cannot_be_looked_at_any_more_is_told_and_then_nothing_is_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
        for place in [&from, &to] {
            std::fs::create_dir(place).unwrap();
            ["a", "b"].iter().for_each(|name| std::fs::write(place.join(name), "content").unwrap());
        }
        let told = || {
            let mut draw = Draw::by("seed".to_owned());
            for name in ["a", "b"] {
                draw.add(&RelativePath::new(name.into()).unwrap(), 7);
            }
            let sample = draw.sample(SampleSize::Files(2));
            let (mut told, meter) = (Vec::new(), Meter::default());
            let mut tell = |what: Told<'_>| -> Result<()> {
                match what {
                    Told::Difference(what, path, _) => told.push(format!("{what} {path}")),
                    Told::Trouble(side, failure) => told.push(format!("{side} {:?}", failure.path)),
                }
                Ok(())
            };
            let mut report = Differences::new(true, &meter, &mut tell);
            report.drawn(&sample);
            let [source, destination] =
                [&from, &to].map(|place| Reach::local(place.clone()).following_links(true));
            let (all, stop) = (Selected::default(), Stop::default());
            let sides = [&source, &destination];
            compare_sample(sides, false, (&all, &sample), &mut report, &stop).unwrap();
            let found = report.found;
            drop(report);
            (told, found.is_same(), found.unreadable)
        };
        assert_eq!(told(), (Vec::new(), true, 0));
        // Empty, it is none that is drawn.
        std::fs::write(to.join("b"), "").unwrap();
        assert_eq!(told(), (vec!["1 None".to_owned()], false, 1));
        std::fs::remove_file(to.join("b")).unwrap();
        assert_eq!(told(), (vec!["1 None".to_owned()], false, 1));
        // What could not be looked at is named, and nothing else is told of it.
        std::os::unix::fs::symlink("nowhere", to.join("b")).unwrap();
        let path = RelativePath::new(b"b".to_vec()).ok();
        assert_eq!(told(), (vec![format!("1 {path:?}")], false, 1));
    }

    #[test]
    fn a_file_that_is_the_place_is_the_sample() {
        let scratch = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
        std::fs::write(&from, "content").unwrap();
        std::fs::write(&to, "CONTENT").unwrap();
        let (all, found) = told([&from, &to], 3);
        assert_eq!((all.len(), found.differing, found.drawn), (1, 1, 1));
        std::fs::write(&to, "content").unwrap();
        assert!(told([&from, &to], 3).1.is_same());
    }
}
