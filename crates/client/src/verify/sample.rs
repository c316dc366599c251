//! A verification by sample: which files are read, and what it shows if those are as the receipt says.
//!
//! 1. The seed makes a key, and with that each file of the receipt that has content and a digest gets a number, by its
//!    path.
//! 2. As many as are asked for are drawn: those with the lowest numbers.
//!
//! So whoever has the receipt and the seed draws the same files, and who does not know the seed cannot tell which those
//! will be: they are all equally likely, whatever their size. docs/reference/receipt.md describes the draw.
//!
//! Not shown: that the other files are whole. Damage of few files is found by reading them all.

use super::receipt::Receipt;
use crate::options::units;
use crate::predict;
use crate::receipt_file::Seal;
use std::cmp::Reverse;
use thalweg_mover::failure::Result;
use thalweg_wire::RelativePath;
use thalweg_wire::receipt::Line;

/// What a seed makes a key for, as BLAKE3 has it.
const CONTEXT: &str = "thalweg verify sample v1";
/// A longer seed tells nobody more.
const SEED_BYTES_MAX: usize = 128;

/// How likely it has to be that a sample finds damage, for [`Sampled::least_found`].
pub const PROBABILITY: f64 = 0.95;

/// How many files are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleSize {
    /// So many; all of them if there are no more.
    Files(u64),
    /// This share of them, above 0 and at most 1: a half is rounded up, and at least one.
    Share(f64),
}

impl SampleSize {
    fn of(self, files: u64) -> u64 {
        let wanted = match self {
            SampleSize::Files(wanted) => wanted,
            SampleSize::Share(share) => ((files as f64 * share).round() as u64).max(1),
        };
        wanted.min(files)
    }
}

/// Reads how many files are drawn: `60`, `5%`, `0.05`.
///
/// # Errors
/// What is wanted instead.
pub fn parse_size(text: &str) -> std::result::Result<SampleSize, String> {
    let files = text.parse().ok().map(SampleSize::Files);
    let size = files.or_else(|| units::parse_share(text).ok().map(SampleSize::Share));
    size.filter(|size| *size != SampleSize::Files(0) && *size != SampleSize::Share(0.0))
        .ok_or_else(|| "a number of files from 1 on is wanted, or a share of them, for instance 5%".into())
}

/// Reads a seed, which a shell takes as it stands.
///
/// # Errors
/// What is wanted instead.
pub fn parse_seed(text: &str) -> std::result::Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let has_room = (1..=SEED_BYTES_MAX).contains(&text.len());
    match has_room && !text.starts_with('-') && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a seed has 1 to {SEED_BYTES_MAX} letters, digits, `.`, `_`, `:` and `-`, and does not begin with `-`"
        )),
    }
}

/// A seed that nobody foresees: 32 hexadecimal digits.
pub fn random_seed() -> String {
    format!("{:016x}{:016x}", predict::random(), predict::random())
}

/// Files and content bytes of a sample, and of what it was drawn from: the files of a receipt that have content and a
/// digest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sampled {
    /// Files of the sample.
    pub files: u64,
    /// Content bytes of them.
    pub bytes: u64,
    /// Files that it was drawn from.
    pub of_files: u64,
    /// Content bytes of those.
    pub of_bytes: u64,
}

impl Sampled {
    /// The lowest number of files such that, had so many of all been damaged, a sample of so many files would have had
    /// at least one of them with a probability of [`PROBABILITY`] or more. `None` if no number would do: nothing was
    /// read.
    ///
    /// The distribution is the hypergeometric one, as no file is drawn twice: n files miss all of d damaged ones of N
    /// with a probability of (N - n) / N times (N - n - 1) / (N - 1), and so on, d factors.
    pub fn least_found(&self) -> Option<u64> {
        let unread = self.of_files.checked_sub(self.files)?;
        let (mut damaged, mut missed) = (0, 1.0);
        while missed > 1.0 - PROBABILITY {
            if damaged == self.of_files || self.files == 0 {
                return None;
            }
            missed *= unread.saturating_sub(damaged) as f64 / (self.of_files - damaged) as f64;
            damaged += 1;
        }
        Some(damaged)
    }
}

/// What was drawn from a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What it was drawn by.
    pub seed: String,
    /// How much it is.
    pub drawn: Sampled,
    key: [u8; 32],
    /// The highest number that was drawn; `None`: there is no file to draw.
    highest: Option<u64>,
}

impl Sample {
    /// Draws from a receipt that was checked. A file that is in it twice is drawn as one, by its last line. Memory: 16
    /// bytes for each file, and that of [`Receipt::last_lines`].
    ///
    /// # Errors
    /// `Damage` if the receipt was written meanwhile.
    pub fn draw(receipt: &Receipt, seal: &Seal, size: SampleSize, seed: String) -> Result<Sample> {
        let mut draw = Draw::by(seed);
        receipt.last_lines(seal, &mut |line| {
            if may_be_drawn(&line) {
                draw.add(&line.path, line.bytes);
            }
            Ok(())
        })?;
        Ok(draw.sample(size))
    }

    /// Whether the file of this line was drawn.
    pub(super) fn has(&self, line: &Line) -> bool {
        may_be_drawn(line) && self.has_path(&line.path)
    }

    /// The same of the path of one that may be.
    pub(crate) fn has_path(&self, path: &RelativePath) -> bool {
        self.highest.is_some_and(|highest| number(&self.key, path) <= highest)
    }

    /// Whether content at the path of this line is read. A hard link that has a digest has no size to go by.
    pub(super) fn reads(&self, line: &Line) -> bool {
        line.kind == "hardlink" || self.has(line)
    }
}

/// What may be drawn. Memory: 16 bytes for each file.
pub(crate) struct Draw {
    seed: String,
    key: [u8; 32],
    /// Number and content bytes of each.
    all: Vec<(u64, u64)>,
}

impl Draw {
    /// Nothing yet.
    pub fn by(seed: String) -> Draw {
        let key = blake3::derive_key(CONTEXT, seed.as_bytes());
        Draw { seed, key, all: Vec::new() }
    }

    /// One more file, which may be one of those before.
    pub fn add(&mut self, path: &RelativePath, bytes: u64) {
        self.all.push((number(&self.key, path), bytes));
    }

    /// Draws so many.
    pub fn sample(self, size: SampleSize) -> Sample {
        let Draw { seed, key, mut all } = self;
        // Of one that was added twice the longer: it grew.
        all.sort_unstable_by_key(|&(number, bytes)| (number, Reverse(bytes)));
        all.dedup_by_key(|(number, _)| *number);
        let of_files = all.len() as u64;
        let files = size.of(of_files);
        let own = &all[..files as usize];
        let bytes_of =
            |part: &[(u64, u64)]| part.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let drawn = Sampled { files, bytes: bytes_of(own), of_files, of_bytes: bytes_of(&all) };
        let highest = own.last().map(|(number, _)| *number);
        Sample { seed, drawn, key, highest }
    }
}

/// What has content that can be compared.
fn may_be_drawn(line: &Line) -> bool {
    matches!(line.kind.as_str(), "file" | "file-marked-holes") && line.digest.is_some() && line.bytes > 0
}

fn number(key: &[u8; 32], path: &RelativePath) -> u64 {
    let hash = blake3::keyed_hash(key, path.as_bytes());
    hash.as_bytes().first_chunk::<8>().map_or(0, |first| u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::Reach;
    use crate::receipt_file::tests::Sample as ReceiptText;
    use crate::verify::{Expected, Found, Told, seal, verify_sample};
    use std::collections::BTreeSet;
    use std::path::Path;
    use thalweg_mover::run::copy::Stop;

    /// The line of a file with this content.
    fn line(name: &str, content: &str) -> String {
        format!("{}  {}  file  done  {name}\n", blake3::hash(content.as_bytes()), content.len())
    }

    fn opened(directory: &Path, lines: &[String]) -> (Receipt, Seal) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let path = directory.join("receipt");
        std::fs::write(&path, ReceiptText::new(&lines).text()).unwrap();
        let receipt = Receipt::open(&path).unwrap();
        let sealed = seal(&receipt, &Expected::default()).unwrap();
        (receipt, sealed)
    }

    /// Names that are told, with what of them, and the numbers.
    fn told(
        receipt: &Receipt,
        sealed: &Seal,
        place: &Path,
        sample: &Sample,
    ) -> (BTreeSet<(String, String)>, Found) {
        let mut told = BTreeSet::new();
        let mut tell = |what: Told<'_>| {
            if let Told::Difference(what, path, _) = what {
                told.insert((what.to_owned(), path.to_string()));
            }
        };
        let reach = Reach::local(place.to_owned());
        let found =
            verify_sample(receipt, sealed, &reach, false, Some(sample), &mut tell, &Stop::default()).unwrap();
        (told, found)
    }

    /// As docs/reference/receipt.md has it.
    #[test]
    fn who_has_receipt_and_seed_draws_the_same_files_by_the_description_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..50).map(|number| format!("deep/file-{number}")).collect();
        let mut lines: Vec<String> = names.iter().map(|name| line(name, "content")).collect();
        // What has nothing to compare is not drawn.
        lines.push(line("empty", ""));
        lines.push("-  7  file  unchanged  unread\n".to_owned());
        lines.push("-  0  directory  done  deep\n".to_owned());
        // What grew is drawn as one.
        lines.push(line("deep/file-7", "content and more"));
        let (receipt, sealed) = opened(scratch.path(), &lines);
        let drawn = |seed: &str| {
            let sample = Sample::draw(&receipt, &sealed, SampleSize::Share(0.2), seed.to_owned()).unwrap();
            assert_eq!((sample.drawn.files, sample.drawn.of_files), (10, 50));
            assert_eq!(sample.drawn.of_bytes, 49 * 7 + 16);
            let mut names: BTreeSet<String> = BTreeSet::new();
            for line in &lines {
                let line: Line = line.parse().unwrap();
                if sample.has(&line) {
                    names.insert(line.path.to_string());
                }
            }
            names
        };
        let key = blake3::derive_key("thalweg verify sample v1", b"2026-11-28");
        let mut by_hand: Vec<([u8; 32], &String)> =
            names.iter().map(|name| (*blake3::keyed_hash(&key, name.as_bytes()).as_bytes(), name)).collect();
        by_hand.sort_unstable();
        let by_hand: BTreeSet<String> = by_hand[..10].iter().map(|(_, name)| (*name).clone()).collect();
        assert_eq!(drawn("2026-11-28"), by_hand);
        assert_ne!(drawn("2026-11-29"), by_hand);
    }

    #[test]
    fn of_a_sample_the_drawn_files_are_read_and_all_others_are_looked_at() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("place");
        std::fs::create_dir(&place).unwrap();
        let names: Vec<String> = (0..30).map(|number| format!("file-{number}")).collect();
        let mut lines = Vec::new();
        for name in &names {
            // Right size, wrong content.
            std::fs::write(place.join(name), "CONTENT").unwrap();
            lines.push(line(name, "content"));
        }
        lines.push("-  0  hardlink  done  link\n".to_owned());
        let (receipt, sealed) = opened(scratch.path(), &lines);
        let sample = Sample::draw(&receipt, &sealed, SampleSize::Files(10), "seed".into()).unwrap();
        let (drawn, others): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|name| sample.has(&line(name, "content").parse().unwrap()));
        assert_eq!(drawn.len(), 10);
        // A second name of a file that is not read is no difference, and neither nobody's.
        std::fs::hard_link(place.join(others[0]), place.join("link")).unwrap();
        let is = |what: &str, name: &str| (what.to_owned(), name.to_owned());
        let (all, found) = told(&receipt, &sealed, &place, &sample);
        assert_eq!(all, drawn.iter().map(|name| is("differs", name)).collect::<BTreeSet<_>>());
        assert_eq!((found.entries, found.differing, found.without_digest, found.bytes), (31, 10, 0, 0));
        assert_eq!(found.sampled, Some(sample.drawn));
        for name in &drawn {
            std::fs::write(place.join(name), "content").unwrap();
        }
        let (all, found) = told(&receipt, &sealed, &place, &sample);
        assert!(all.is_empty() && found.is_whole() && found.bytes == 70, "{all:?} {found:?}");
        std::fs::remove_file(place.join(others[1])).unwrap();
        std::fs::write(place.join(others[2]), "short").unwrap();
        std::fs::write(place.join(others[3]), "longer than it was").unwrap();
        std::fs::remove_file(place.join(others[4])).unwrap();
        std::fs::create_dir(place.join(others[4])).unwrap();
        let (all, found) = told(&receipt, &sealed, &place, &sample);
        let expected = [
            is("missing", others[1]),
            is("differs", others[2]),
            is("differs", others[3]),
            is("differs", others[4]),
        ];
        assert_eq!(all, BTreeSet::from(expected));
        assert_eq!(found.sampled, Some(sample.drawn));
    }

    #[test]
    fn what_was_drawn_and_could_not_be_read_shows_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (receipt, sealed) = opened(scratch.path(), &[line("here", "content"), line("gone", "content")]);
        std::fs::write(scratch.path().join("here"), "content").unwrap();
        let sample = Sample::draw(&receipt, &sealed, SampleSize::Share(1.0), "seed".into()).unwrap();
        let (_, found) = told(&receipt, &sealed, scratch.path(), &sample);
        assert_eq!(found.sampled, Some(Sampled { files: 1, bytes: 7, of_files: 2, of_bytes: 14 }));
    }

    #[test]
    fn a_sample_says_how_many_damaged_files_it_would_have_shown() {
        let least =
            |files: u64, of_files: u64| Sampled { files, of_files, ..Sampled::default() }.least_found();
        // Of 3 damaged ones of 10 a sample of 5 misses all in 1 of 12 draws, of 4 in 1 of 42.
        assert_eq!(least(5, 10), Some(4));
        assert_eq!((least(10, 10), least(1_000_000, 1_000_000)), (Some(1), Some(1)));
        // 1 - 0.05^(1/59) of many is 4.95 %.
        assert!((49_400..49_600).contains(&least(59, 1_000_000).unwrap()));
        // Of 78 damaged ones of 100 two miss all in 231 of 4,950 draws, of 77 in 253.
        assert_eq!(least(2, 100), Some(78));
        // Nothing was read.
        assert_eq!((least(0, 10), least(0, 0)), (None, None));
    }

    #[test]
    fn a_sample_is_a_number_of_files_or_a_share_of_them_and_a_seed_is_plain() {
        assert_eq!(parse_size("60"), Ok(SampleSize::Files(60)));
        assert_eq!(parse_size("50%"), Ok(SampleSize::Share(0.5)));
        assert_eq!(parse_size("0.25"), Ok(SampleSize::Share(0.25)));
        for bad in ["0", "0%", "-1", "101%", "1.5", "nan", "", "all"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        let of = |size: SampleSize| [0, 1, 3, 1000].map(|files| size.of(files));
        assert_eq!(of(SampleSize::Files(10)), [0, 1, 3, 10]);
        assert_eq!(of(SampleSize::Files(u64::MAX)), [0, 1, 3, 1000]);
        assert_eq!(of(SampleSize::Share(0.0001)), [0, 1, 1, 1]);
        assert_eq!(of(SampleSize::Share(0.5)), [0, 1, 2, 500]);
        assert_eq!(SampleSize::Share(0.05).of(50), 3);
        for good in ["7", "2026-11-28T12:00:00Z", random_seed().as_str(), "x".repeat(128).as_str()] {
            assert_eq!(parse_seed(good).as_deref(), Ok(good));
        }
        for bad in ["", "-x", "a b", "a\n", "é", "$(id)", "x".repeat(129).as_str()] {
            assert!(parse_seed(bad).is_err(), "{bad}");
        }
        assert_ne!(random_seed(), random_seed());
    }
}
