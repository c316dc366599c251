//! Data sets made of numbers (`thalweg_mover::endpoint::dataset`) as files: written, and checked by the seed, wherever
//! they were copied to.
//!
//! The file that says what a set is, `dataset.json`, gets its name last: a set without it was never whole. Until then
//! it has another ([`UNFINISHED_NAME`]), so that the same command finishes what was interrupted.

mod check;

mod make;

pub use check::{Checked, Damage, check};
pub use make::{Generated, make};

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_mover::endpoint::dataset::{DESCRIPTION_BYTES_MAX, DESCRIPTION_NAME, DatasetSpec, Made};
use thalweg_mover::failure::{Failure, FailureKind, Result, at_path, of_io};
use thalweg_mover::mutex::lock;

/// What is made or compared at once, by one thread.
const PIECE_BYTES: u64 = 16 << 20;

/// What is in memory of it at once.
const BUFFER_BYTES: usize = 1 << 20;

/// What [`DESCRIPTION_NAME`] is called until all of the set is there.
const UNFINISHED_NAME: &str = "dataset.json.unfinished";

/// The set that is at `directory`.
///
/// # Errors
/// `NotFound` if there is none, or it was never finished; `Usage` if it is described in a way that nobody knows.
pub fn described(directory: &Path) -> Result<DatasetSpec> {
    described_by(&directory.join(DESCRIPTION_NAME))
}

/// The set that the file `path` describes.
fn described_by(path: &Path) -> Result<DatasetSpec> {
    const OPERATION: &str = "read what the data set is";
    let of = |error: std::io::Error| at_path(of_io(OPERATION, &error), path);
    let odd = |why: String| at_path(Failure::new(FailureKind::Usage, OPERATION, why), path);
    if fs::metadata(path).map_err(of)?.len() > DESCRIPTION_BYTES_MAX {
        return Err(odd("is too large for one".to_owned()));
    }
    let text = fs::read(path).map_err(of)?;
    DatasetSpec::from_description(&text).map_err(odd)
}

/// A part of a file, for one thread.
struct Piece {
    made: Made,
    offset: u64,
    bytes: u64,
}

impl Piece {
    /// Offsets and lengths of what is in memory at once.
    fn buffers(&self) -> impl Iterator<Item = (u64, usize)> + use<> {
        let (from, end) = (self.offset, self.offset + self.bytes);
        (from..end).step_by(BUFFER_BYTES).map(move |at| (at, (end - at).min(BUFFER_BYTES as u64) as usize))
    }
}

/// Hands out all pieces of a set, each once.
struct Pieces<'a> {
    spec: &'a DatasetSpec,
    next: Mutex<(u64, Option<Made>, u64)>,
    /// A thread failed: there are none for the others either.
    has_failed: AtomicBool,
}

impl<'a> Pieces<'a> {
    fn new(spec: &'a DatasetSpec) -> Pieces<'a> {
        Pieces { spec, next: Mutex::new((0, None, 0)), has_failed: AtomicBool::new(false) }
    }

    fn take(&self) -> Option<Piece> {
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let mut next = lock(&self.next);
        let (number, made, offset) = &mut *next;
        if *number >= self.spec.files {
            return None;
        }
        let file = made.get_or_insert_with(|| self.spec.file(*number)).clone();
        let piece = Piece { offset: *offset, bytes: (file.bytes - *offset).min(PIECE_BYTES), made: file };
        *offset += piece.bytes;
        if *offset >= piece.made.bytes {
            (*number, *made, *offset) = (*number + 1, None, 0);
        }
        Some(piece)
    }
}

/// Lets as many threads as there are cores take pieces until there are none; the first failure ends all.
fn by_all_cores<T: Send>(
    spec: &DatasetSpec,
    work: impl Fn(&Pieces<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let pieces = Pieces::new(spec);
    let work = || work(&pieces).inspect_err(|_| pieces.has_failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        // Without them it only takes longer.
        let another = || std::thread::Builder::new().name("dataset".into()).spawn_scoped(scope, work);
        let others: Vec<_> = (1..thalweg_sys::machine::cores()).filter_map(|_| another().ok()).collect();
        let own = work();
        let others = others.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| {
                Err(Failure::new(FailureKind::Internal, "work on a data set", "a thread panicked"))
            })
        });
        std::iter::once(own).chain(others).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use thalweg_mover::endpoint::content::Content;

    fn spec() -> DatasetSpec {
        DatasetSpec {
            files: 1203,
            sizes: vec![(0, 1), (777, 8), (40_000, 1)],
            content: Content::Text,
            ..DatasetSpec::default()
        }
    }

    #[test]
    fn what_was_made_is_found_whole_by_its_seed_and_making_it_again_changes_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("set");
        let generated = make(&directory, &spec()).unwrap();
        assert_eq!((generated.files, generated.bytes), (1203, spec().bytes()));
        assert_eq!(described(&directory).unwrap(), spec());
        let checked = check(&directory, &spec()).unwrap();
        assert!(checked.damage.is_empty() && checked.damaged == 0, "{checked:?}");
        assert_eq!((checked.files, checked.bytes), (generated.files, generated.bytes));
        make(&directory, &spec()).unwrap();
        let other = DatasetSpec { seed: 1, ..spec() };
        assert_eq!(make(&directory, &other).unwrap_err().kind, FailureKind::Usage);
    }

    #[test]
    fn a_set_whose_making_was_interrupted_is_finished_by_the_same_command_and_by_no_other() {
        let scratch = tempfile::tempdir().unwrap();
        let (directory, spec) = (scratch.path(), spec());
        fs::write(directory.join(UNFINISHED_NAME), spec.description()).unwrap();
        fs::create_dir(directory.join(spec.directories().next().unwrap())).unwrap();
        fs::write(directory.join(spec.file(0).path), vec![7; 100_000]).unwrap();
        assert_eq!(described(directory).unwrap_err().kind, FailureKind::NotFound, "it is not whole");
        let other = DatasetSpec { seed: 1, ..spec.clone() };
        assert_eq!(make(directory, &other).unwrap_err().kind, FailureKind::Usage);
        make(directory, &spec).unwrap();
        assert_eq!(described(directory).unwrap(), spec);
        assert_eq!(check(directory, &spec).unwrap().damaged, 0);
        // One that ended before its first file says nothing of a set.
        let begun = scratch.path().join("begun");
        fs::create_dir(&begun).unwrap();
        fs::write(begun.join(UNFINISHED_NAME), "").unwrap();
        make(&begun, &other).unwrap();
        assert_eq!(described(&begun).unwrap(), other);
    }

    #[test]
    fn where_no_set_can_be_made_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        let failure = make(&file.join("set"), &spec()).unwrap_err();
        assert!(failure.cause.starts_with(&format!("`{}", file.display())), "{failure}");
    }

    #[test]
    fn one_bit_one_missing_one_short_and_one_extra_file_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = DatasetSpec { files: 5, sizes: vec![(3 << 20, 1)], ..DatasetSpec::default() };
        make(scratch.path(), &spec).unwrap();
        let at = |number: u64| scratch.path().join(spec.file(number).path);
        let flipped = fs::OpenOptions::new().read(true).write(true).open(at(0)).unwrap();
        let mut byte = [0];
        flipped.read_exact_at(&mut byte, 2_000_000).unwrap();
        flipped.write_all_at(&[byte[0] ^ 4], 2_000_000).unwrap();
        fs::remove_file(at(1)).unwrap();
        fs::OpenOptions::new().write(true).open(at(2)).unwrap().set_len(1000).unwrap();
        fs::write(scratch.path().join("d000000/other"), "x").unwrap();
        let checked = check(scratch.path(), &spec).unwrap();
        let told: Vec<String> = checked.damage.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "d000000/f0000000: differs from byte 2000000 on",
                "d000000/f0000001: is missing",
                "d000000/f0000002: has 1000 bytes instead of 3145728",
                "d000000/other: does not belong to the set",
            ]
        );
        assert_eq!(checked.damaged, 4);
    }

    /// None of them is waited for, followed, or ends the check of the others.
    #[test]
    fn a_pipe_a_link_a_directory_and_what_cannot_be_read_are_damage_and_the_rest_is_checked() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = DatasetSpec { files: 2005, sizes: vec![(4096, 1)], ..DatasetSpec::default() };
        make(scratch.path(), &spec).unwrap();
        let at = |number: u64| scratch.path().join(spec.file(number).path);
        let replace = |number: u64| fs::remove_file(at(number)).unwrap();
        (0..3).for_each(replace);
        let made = std::process::Command::new("mkfifo").arg(at(0)).status().unwrap();
        assert!(made.success());
        std::os::unix::fs::symlink(at(3), at(1)).unwrap();
        fs::create_dir(at(2)).unwrap();
        fs::OpenOptions::new().write(true).open(at(4)).unwrap().write_all_at(b"x", 4095).unwrap();
        // The last directory is a file.
        let last = spec.directories().last().unwrap();
        let in_last = (0..spec.files).filter(|&number| spec.file(number).path.starts_with(&last)).count();
        fs::remove_dir_all(scratch.path().join(&last)).unwrap();
        fs::write(scratch.path().join(&last), b"").unwrap();
        let checked = check(scratch.path(), &spec).unwrap();
        let told: Vec<String> = checked.damage.iter().take(4).map(ToString::to_string).collect();
        assert!(told[..3].iter().all(|line| line.ends_with(": is no file")), "{told:?}");
        assert!(told[3].contains("f0000004: differs from byte 4095 on"), "{told:?}");
        // The last directory is one more: a file has its name.
        assert!(in_last > 0 && checked.damaged == 5 + in_last as u64, "{in_last} {}", checked.damaged);
        assert!(checked.damage[4].to_string().ends_with(": is no directory"), "{:?}", checked.damage[4]);
        assert!(checked.damage[5].to_string().ends_with(": is missing"), "{:?}", checked.damage[5]);
    }

    /// Whole as it is, where the link leads: this set has no such files. The set's own directory may be named by a
    /// link.
    #[test]
    fn a_set_whose_directory_is_a_link_elsewhere_is_not_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let spec = DatasetSpec { files: 3, ..spec() };
        let (set, elsewhere) = (scratch.path().join("set"), scratch.path().join("elsewhere"));
        make(&set, &spec).unwrap();
        let named = scratch.path().join("named");
        std::os::unix::fs::symlink(&set, &named).unwrap();
        assert_eq!(check(&named, &spec).unwrap().damaged, 0);
        let below = spec.directories().next().unwrap();
        fs::rename(set.join(&below), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, set.join(&below)).unwrap();
        let checked = check(&set, &spec).unwrap();
        let told: Vec<String> = checked.damage.iter().map(ToString::to_string).collect();
        assert_eq!((checked.damaged, told[0].as_str()), (4, format!("{below}: is no directory").as_str()));
        assert!(told[1..].iter().all(|line| line.ends_with(": is missing")), "{told:?}");
    }

    #[test]
    fn holes_take_no_space_and_read_as_made() {
        let scratch = tempfile::tempdir().unwrap();
        let spec =
            DatasetSpec { sizes: vec![(64 << 20, 1)], sparse_percent: 95, seed: 1, ..DatasetSpec::default() };
        make(scratch.path(), &spec).unwrap();
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(scratch.path().join(spec.file(0).path)).unwrap();
        assert!(metadata.blocks() * 512 < metadata.len() / 2, "{} blocks", metadata.blocks());
        assert_eq!(check(scratch.path(), &spec).unwrap().damaged, 0);
    }

    #[test]
    fn a_byte_in_a_hole_that_is_another_one_is_none_any_more_when_the_set_is_made_again() {
        let scratch = tempfile::tempdir().unwrap();
        let spec =
            DatasetSpec { sizes: vec![(64 << 20, 1)], sparse_percent: 95, seed: 1, ..DatasetSpec::default() };
        make(scratch.path(), &spec).unwrap();
        let made = spec.file(0);
        let hole = (0..64u64).map(|extent| extent << 20).find(|offset| made.is_hole(*offset)).unwrap();
        let file = fs::OpenOptions::new().write(true).open(scratch.path().join(&made.path)).unwrap();
        file.write_all_at(b"x", hole + 12345).unwrap();
        assert_eq!(check(scratch.path(), &spec).unwrap().damaged, 1);
        make(scratch.path(), &spec).unwrap();
        assert_eq!(check(scratch.path(), &spec).unwrap().damaged, 0);
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(scratch.path().join(&made.path)).unwrap();
        assert!(metadata.blocks() * 512 < metadata.len() / 2, "{} blocks", metadata.blocks());
    }

    #[test]
    fn when_one_thread_fails_the_others_are_given_no_more_to_do() {
        let spec = DatasetSpec { files: 1000, sizes: vec![(1, 1)], ..DatasetSpec::default() };
        let taken = std::sync::atomic::AtomicUsize::new(0);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let failed = by_all_cores(&spec, |pieces| {
            while pieces.take().is_some() {
                if taken.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Err(Failure::new(FailureKind::Space, "write a data set", "no room"));
                }
                while !pieces.has_failed.load(Ordering::Relaxed) {
                    assert!(std::time::Instant::now() < until, "nobody says that the first one failed");
                    std::thread::yield_now();
                }
            }
            Ok(())
        });
        assert_eq!(failed.unwrap_err().kind, FailureKind::Space);
        let taken = taken.into_inner();
        assert!(taken <= thalweg_sys::machine::cores().max(1) as usize, "{taken} of 1000");
    }

    #[test]
    fn every_byte_is_handed_out_once() {
        let spec = DatasetSpec {
            files: 50,
            sizes: vec![(0, 1), (1, 1), (PIECE_BYTES * 2 + 5, 1)],
            ..DatasetSpec::default()
        };
        let pieces = Pieces::new(&spec);
        let mut seen = std::collections::BTreeMap::<String, u64>::new();
        while let Some(piece) = pieces.take() {
            let end = seen.entry(piece.made.path.clone()).or_default();
            assert_eq!(*end, piece.offset, "in order, without a gap");
            *end += piece.bytes;
        }
        assert_eq!(seen.len(), 50);
        assert!((0..50).all(|number| seen[&spec.file(number).path] == spec.file(number).bytes));
    }
}
