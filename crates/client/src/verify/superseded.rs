//! Of several lines with one path the last says what was left there: which lines are not the last of theirs?
//!
//! A stream states a file once more that grew after it was complete, and a copy one that changed after it was done.
//! Blocks stand in a receipt in the order in which they became complete: the last line is that with the highest number,
//! wherever it stands.
//!
//! 1. One pass finds which paths may have several lines: those whose slot, by a hash, another line has too. Others
//!    share a slot by chance, some in sixteen.
//! 2. Further passes look for the last line of each of these, of a bounded number of paths in each.
//!
//! Memory: some 4 bytes for each line, and what one pass of step 2 holds; a bit for each line stays.

use super::compare::short;
use super::receipt::Receipt;
use crate::receipt_file::Seal;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use thalweg_mover::failure::Result;

/// Slots for each line: with more of them fewer lines share one by chance, and with fewer they take less memory.
const SLOTS_PER_LINE: u64 = 16;
/// Paths that one pass of step 2 looks for, about: they take some 80 MB. Of 16 million lines with a path each no more
/// share a slot by chance.
const PATHS_AT_ONCE: u64 = 1 << 20;

/// Where a line stands: in the order of numbers, as its block is in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    /// Number of its block.
    pub(super) block: u64,
    /// Lines before it in the file.
    pub(super) line: u64,
}

/// The lines of a receipt that are not the last of their path.
#[derive(Debug, Default)]
pub(super) struct Superseded {
    lines: Bits,
}

impl Superseded {
    /// Reads a receipt that was checked.
    ///
    /// # Errors
    /// `Damage` if it was written meanwhile.
    pub(super) fn of(receipt: &Receipt, seal: &Seal) -> Result<Superseded> {
        Superseded::by(receipt, seal, PATHS_AT_ONCE)
    }

    fn by(receipt: &Receipt, seal: &Seal, paths_at_once: u64) -> Result<Superseded> {
        if seal.entries < 2 {
            return Ok(Superseded::default());
        }
        let shared = Shared::of(receipt, seal)?;
        let passes = shared.paths_max.div_ceil(paths_at_once);
        let mut superseded = Superseded { lines: Bits::new(seal.entries) };
        for pass in 0..passes {
            superseded
                .find(receipt, seal, &|number| shared.has(number) && shared.pass(number, passes) == pass)?;
        }
        Ok(superseded)
    }

    /// Whether the line at this place is one of them.
    pub(super) fn has(&self, at: At) -> bool {
        self.lines.has(at.line)
    }

    /// Finds those among the lines whose number, by their path, is `wanted`.
    fn find(&mut self, receipt: &Receipt, seal: &Seal, wanted: &dyn Fn(u64) -> bool) -> Result<()> {
        let (mut pass, mut last) = (receipt.pass(seal)?, HashMap::new());
        while let Some(line) = pass.next_line()? {
            let name = short(line.path.as_bytes());
            if !wanted(number_of(&name)) {
                continue;
            }
            let at = pass.at();
            match last.entry(name) {
                Entry::Vacant(place) => {
                    place.insert(at);
                }
                Entry::Occupied(mut known) => {
                    self.lines.set(at.min(*known.get()).line);
                    known.insert(at.max(*known.get()));
                }
            }
        }
        pass.end()
    }
}

/// The slots that several lines have.
struct Shared {
    slots: u64,
    twice: Bits,
    /// No more paths have lines in them.
    paths_max: u64,
}

impl Shared {
    fn of(receipt: &Receipt, seal: &Seal) -> Result<Shared> {
        let slots = seal.entries.saturating_mul(SLOTS_PER_LINE).max(1);
        let (mut once, mut twice, mut met) = (Bits::new(slots), Bits::new(slots), 0u64);
        let mut pass = receipt.pass(seal)?;
        while let Some(line) = pass.next_line()? {
            let slot = number_of(&short(line.path.as_bytes())) % slots;
            if once.set(slot) {
                twice.set(slot);
                met += 1;
            }
        }
        pass.end()?;
        // Each of them, and who was there first.
        Ok(Shared { slots, twice, paths_max: met.saturating_mul(2) })
    }

    fn has(&self, number: u64) -> bool {
        self.twice.has(number % self.slots)
    }

    /// Which of so many passes looks for a path with this number.
    fn pass(&self, number: u64, passes: u64) -> u64 {
        (number / self.slots) % passes
    }
}

fn number_of(name: &[u8; 16]) -> u64 {
    name.first_chunk::<8>().map_or(0, |first| u64::from_le_bytes(*first))
}

/// A bit for each number below some bound. Beyond it, where a receipt is longer by now than it was, none is set.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: u64) -> Bits {
        Bits(vec![0; count.div_ceil(64) as usize])
    }

    fn has(&self, number: u64) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Sets it; whether it was set already.
    fn set(&mut self, number: u64) -> bool {
        let was = self.has(number);
        if let Some(word) = self.0.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt_file::tests::Sample;
    use crate::verify::{Expected, seal};
    use std::collections::BTreeMap;

    fn line(bytes: u64, name: &str) -> String {
        format!("-  {bytes}  file  unchanged  {name}\n")
    }

    #[test]
    fn the_last_line_of_a_path_is_that_with_the_highest_number_wherever_its_block_stands() {
        let scratch = tempfile::tempdir().unwrap();
        // Of 100 paths every second has a line in block 0 and one in block 7, which stands before it; of `many` three
        // are in block 0 alone.
        let both = |name: &u64| name.is_multiple_of(2);
        let first: Vec<String> = (0..100)
            .map(|name| line(1, &format!("file-{name}")))
            .chain((2..5).map(|bytes| line(bytes, "many")))
            .collect();
        let second: Vec<String> =
            (0..100).filter(both).map(|name| line(9, &format!("file-{name}"))).collect();
        let [first, second] =
            [&first, &second].map(|lines| lines.iter().map(String::as_str).collect::<Vec<_>>());
        let path = scratch.path().join("receipt");
        std::fs::write(&path, Sample::new(&first).behind(7, &second).text()).unwrap();
        let receipt = Receipt::open(&path).unwrap();
        let sealed = seal(&receipt, &Expected::default()).unwrap();
        for paths_at_once in [1, 10, PATHS_AT_ONCE] {
            let superseded = Superseded::by(&receipt, &sealed, paths_at_once).unwrap();
            let (mut pass, mut last) = (receipt.pass(&sealed).unwrap(), BTreeMap::new());
            while let Some(line) = pass.next_line().unwrap() {
                if !superseded.has(pass.at()) {
                    let before = last.insert(line.path.to_string(), line.bytes);
                    assert_eq!(before, None, "{paths_at_once}: {}", line.path);
                }
            }
            let expected = (0..100).map(|name| (format!("file-{name}"), if both(&name) { 9 } else { 1 }));
            let expected = expected.chain([("many".to_owned(), 4)]).collect::<BTreeMap<_, _>>();
            assert_eq!(last, expected, "{paths_at_once}");
        }
    }
}
