//! What earlier transfers of a way took, term by term: what [`crate::model::prediction`] goes by.
//!
//! Of little worth and bounded: the last [`OBSERVED_MAX`] transfers of each of the last [`WAYS_MAX`] ways. What cannot
//! be read counts as nothing. A way is known by a keyed hash only: no name of a host, an export or a path is in it.
//!
//! Of a transfer that is like earlier ones (as many bytes and entries, by a factor of [`ALIKE`]), these say best what
//! it will take: as a whole, with all that the equation leaves out, so that no error stays. Of others the unit costs
//! are put together, those of small files apart from those of large ones.

use crate::model::Result;
use crate::model::prediction::{self, Knowledge, Known, Missing, Prediction, Quick, Taken, Work};
use crate::plan::Tuned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Predictions of drawn transfers.
#[cfg(test)]
mod simulation;

/// Version of the format that is written and read.
pub const VERSION: u32 = 1;
/// Transfers of a way that are remembered.
pub const OBSERVED_MAX: usize = 16;
/// Ways at most; the one that was used longest ago goes first.
pub const WAYS_MAX: usize = 128;
/// Largest file that is read.
pub const BYTES_MAX: usize = 2 << 20;
/// A year: what is older says little of what disks and lines are now.
const KEPT_FOR_S: u64 = 365 * 86400;

/// Fewer bytes say nothing of the rate, fewer entries nothing of what an entry costs, less time nothing of either.
const BYTES_MIN: f64 = 16_777_216.0;
const ENTRIES_MIN: f64 = 64.0;
const SECONDS_MIN: f64 = 0.2;
/// In so much time fewer say it too: the way is slow.
const SECONDS_LONG: f64 = 1.0;
const BYTES_LONG: f64 = 1_048_576.0;
const ENTRIES_LONG: f64 = 16.0;

/// Transfers whose bytes and entries differ by no more than this are alike: what each of them cost is much the same.
pub const ALIKE: f64 = 2.0;
/// Fewer are as good as so many: what they take is start and end.
const BYTES_ALIKE: f64 = 1_048_576.0;
const ENTRIES_ALIKE: f64 = 8.0;

/// Files of fewer bytes on average are small: what is done for each of them is in their rate as well, and says little
/// of large ones.
const SMALL_BYTES: f64 = 131_072.0;

/// Fewer bytes for each entry are content of so few that its passage says nothing of when the others came and went.
const BARE_BYTES: f64 = 16.0;

/// A transfer that was looked at too seldom to see its end took this for it.
const END_MIN: f64 = 0.02;

/// A start or an end that was seen to take less took this: nobody looks more often, and what a start took is what is
/// left of a look when the time of the bytes that it showed is taken off, which may be nothing at all.
const LOOK_S: f64 = 1e-3;

/// What one transfer showed; costs in seconds. `None`: it was too small to show it, or something else was the bound.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    start_s: f64,
    entry_s: Option<f64>,
    byte_s: Option<f64>,
    back_s: Option<f64>,
    end_s: f64,
    /// Bytes and entries that passed too quickly to say what one of them costs; 0 where they took their time.
    #[serde(default)]
    bytes_free: f64,
    #[serde(default)]
    entries_free: f64,
    /// What a byte cost where a rate limit was the bound: it may cost less, and not more.
    #[serde(default)]
    byte_limited_s: Option<f64>,
    /// All of it, if nothing else was the bound.
    #[serde(default)]
    whole: Option<Whole>,
}

/// What a transfer was and took, besides start and end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    bytes: f64,
    entries: f64,
    entries_s: f64,
    bytes_s: f64,
    /// `None`: it read nothing back.
    back_s: Option<f64>,
}

impl Probed {
    /// Fewer entries say nothing of what one costs.
    pub const ENTRIES_MIN: f64 = ENTRIES_MIN;
}

/// What a transfer moved.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moved {
    /// Content bytes.
    pub bytes: f64,
    /// Of them, what stood verified when the first of it did. Streams that share a path come to the ends of their
    /// segments together: only what came afterwards says at what rate it came.
    pub first_bytes: f64,
    /// Entries.
    pub entries: f64,
    /// What was written was read back.
    pub reads_back: bool,
}

impl Observed {
    /// From what it took for what it moved. `was_limited`: a rate limit was the bound.
    pub fn of(taken: &Taken, moved: &Moved, was_limited: bool) -> Observed {
        let (bytes, entries) = (moved.bytes, moved.entries);
        let says = |seconds: f64, amount: f64, least: f64, least_long: f64| {
            let is_enough = amount >= least || (amount >= least_long && seconds >= SECONDS_LONG);
            (is_enough && seconds >= SECONDS_MIN).then(|| seconds / amount)
        };
        let rest_bytes = (bytes - moved.first_bytes).max(0.0);
        let rest_s = if bytes > 0.0 { taken.bytes_s * rest_bytes / bytes } else { 0.0 };
        let free = |seconds: f64, amount: f64| if seconds < SECONDS_MIN { amount } else { 0.0 };
        let byte_s = says(rest_s, rest_bytes, BYTES_MIN, BYTES_LONG);
        // All of its time is that of entries.
        let bytes_seen = if is_bare(bytes, entries) { 0.0 } else { bytes };
        Observed {
            start_s: taken.start_s,
            entry_s: says(taken.entries_s, entries, ENTRIES_MIN, ENTRIES_LONG),
            byte_s: byte_s.filter(|_| !was_limited),
            back_s: says(taken.back_s, bytes, BYTES_MIN, BYTES_LONG),
            end_s: taken.end_s,
            bytes_free: free(taken.bytes_s, bytes_seen),
            entries_free: free(taken.entries_s, entries),
            byte_limited_s: byte_s.filter(|_| was_limited),
            whole: (!was_limited).then_some(Whole {
                bytes,
                entries,
                entries_s: taken.entries_s,
                bytes_s: taken.bytes_s,
                back_s: moved.reads_back.then_some(taken.back_s),
            }),
        }
    }

    /// What it says of a transfer that is like it, which is none the less as large as it is.
    fn alike(&self, work: &Work) -> Option<Taken> {
        let whole = self.whole.filter(|whole| whole.back_s.is_some() == work.reads_back)?;
        let is_near = |seen: f64, asked: f64, least: f64| {
            let (seen, asked) = (seen.max(least), asked.max(least));
            seen.max(asked) <= seen.min(asked) * ALIKE
        };
        let is_alike = is_near(whole.bytes, work.bytes, BYTES_ALIKE)
            && is_near(whole.entries, work.entries, ENTRIES_ALIKE);
        // Below what makes them alike time does not go by their number either.
        let times = |asked: f64, seen: f64, least: f64| {
            if asked > 0.0 { asked.max(least) / seen.max(least) } else { 0.0 }
        };
        let of_bytes = times(work.bytes, whole.bytes, BYTES_ALIKE);
        is_alike.then(|| Taken {
            start_s: self.start_s,
            entries_s: whole.entries_s * times(work.entries, whole.entries, ENTRIES_ALIKE),
            bytes_s: whole.bytes_s * of_bytes,
            back_s: whole.back_s.unwrap_or(0.0) * of_bytes,
            end_s: self.end_s,
        })
    }

    /// How long the transfer takes as a whole that had shown this before its end: what had `passed` then, and what so
    /// much that was `left` costs at the same rates. Its end is not known yet: it is taken to be as usual. `rtt_s` is
    /// for that.
    ///
    /// # Errors
    /// As [`prediction::predict`].
    pub fn foretells(
        self,
        passed: &Taken,
        left: &Work,
        rtt_s: f64,
    ) -> Result<std::result::Result<Prediction, Missing>> {
        let way = Way { observed: vec![self], ..Way::default() };
        // It has begun.
        let knowledge = Knowledge { start: Known::of(&[0.0]), end: None, ..way.knowledge(left) };
        let rest = prediction::predict(&knowledge.completed(rtt_s, left), left)?;
        Ok(rest.map(|rest| rest.after(passed)))
    }

    /// What start and end took, where content showed them.
    fn ends(&self) -> Option<[f64; 2]> {
        let is_shown = self.whole.is_none_or(|whole| !is_bare(whole.bytes, whole.entries));
        is_shown.then_some([self.start_s, self.end_s])
    }

    fn bytes_quick(&self) -> Quick {
        Quick { amount: self.bytes_free, seconds: self.whole.map_or(0.0, |whole| whole.bytes_s) }
    }

    fn entries_quick(&self) -> Quick {
        Quick { amount: self.entries_free, seconds: self.whole.map_or(0.0, |whole| whole.entries_s) }
    }

    /// Whether what it moved were small files; `None` where that was not noted.
    fn is_of_small(&self) -> Option<bool> {
        self.whole.map(|whole| is_of_small(whole.bytes, whole.entries))
    }

    fn is_sound(&self) -> bool {
        let bytes = [self.byte_s, self.byte_limited_s, self.back_s];
        let costs = [Some(self.start_s), self.entry_s, Some(self.end_s)];
        let free = [Some(self.bytes_free), Some(self.entries_free)];
        let whole =
            self.whole.map(|of| [of.bytes, of.entries, of.entries_s, of.bytes_s, of.back_s.unwrap_or(0.0)]);
        let whole = whole.unwrap_or_default().map(Some);
        let all = costs.iter().chain(&bytes).chain(&free).chain(&whole);
        all.flatten().all(|cost| cost.is_finite() && *cost >= 0.0)
    }
}

/// What a probe found, in bits a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    /// The five stages, by their names, as far as they were measured.
    pub stages: Vec<(String, f64)>,
    /// What a byte cost on the whole way, in seconds, where that was measured.
    pub byte_s: Option<f64>,
    /// What an entry cost, in seconds, where there were enough of them.
    pub entry_s: Option<f64>,
    /// The spread: half of the distance between the quarters, as a share.
    pub spread: f64,
    /// The narrowest stage, by its name.
    pub narrowest: Option<String>,
    /// What its transfer of the whole way showed, if that came to its end.
    #[serde(default)]
    pub observed: Option<Observed>,
    /// Seconds since 1970.
    pub at: u64,
}

/// One way.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    observed: Vec<Observed>,
    /// The narrowest stage of the last one, in words.
    pub narrowest: Option<String>,
    /// The last probe.
    pub probed: Option<Probed>,
    /// What trials found best.
    #[serde(default)]
    pub tuned: Option<Tuned>,
    used_at: u64,
}

fn is_of_small(bytes: f64, entries: f64) -> bool {
    bytes < entries * SMALL_BYTES
}

/// Whether so many entries have no content to speak of: directories, links, empty files.
pub fn is_bare(bytes: f64, entries: f64) -> bool {
    bytes < entries * BARE_BYTES
}

impl Way {
    /// Transfers that it rests on.
    pub fn count(&self) -> usize {
        self.observed.len()
    }

    /// How long this will take: as long as earlier ones that are like it, else by what each part of it cost. `rtt_s` is
    /// for what nobody has seen yet.
    ///
    /// # Errors
    /// As [`prediction::predict`].
    pub fn predict(&self, work: &Work, rtt_s: f64) -> Result<std::result::Result<Prediction, Missing>> {
        let alike = self.alike(work);
        match alike.is_empty() {
            true => prediction::predict(&self.knowledge(work).completed(rtt_s, work), work),
            false => prediction::by_alike(&alike, work).map(Ok),
        }
    }

    /// What earlier transfers say that are like this one.
    pub fn alike(&self, work: &Work) -> Vec<Taken> {
        self.observed.iter().filter_map(|observed| observed.alike(work)).collect()
    }

    /// What a byte cost, by earlier transfers that say something of such a one.
    pub fn byte_seen(&self, work: &Work) -> Option<Known> {
        let of_kind = |small: bool| self.known_of_kind(|observed| observed.byte_s, small);
        of_kind(is_of_small(work.bytes, work.entries)).or_else(|| of_kind(false))
    }

    /// The probe, where it alone says what a byte of such a transfer costs.
    pub fn probe_of_bytes(&self, work: &Work) -> Option<&Probed> {
        let is_seen = self.byte_seen(work).is_some() || !self.alike(work).is_empty();
        let cost = self.knowledge(work).byte.filter(|_| !is_seen && work.bytes > 0.0)?;
        let is_limited = work.bytes_per_s_max.is_some_and(|limit| cost.median() * limit < 1.0);
        self.probed.as_ref().filter(|_| !is_limited)
    }

    /// By transfers of small files, or of large ones; and by those of which that was not noted.
    fn known_of_kind(&self, of: fn(&Observed) -> Option<f64>, small: bool) -> Option<Known> {
        let is_kind = |observed: &&Observed| observed.is_of_small().is_none_or(|is| is == small);
        let costs: Vec<f64> = self.observed.iter().filter(is_kind).filter_map(of).collect();
        Known::of(&costs)
    }

    /// What is known for such a transfer; where no transfer says it, the last probe may know the rate. What small files
    /// cost by the byte says nothing of large ones; the other way round it is better than nothing, and so is what an
    /// entry costs.
    pub fn knowledge(&self, work: &Work) -> Knowledge {
        let wants_small = is_of_small(work.bytes, work.entries);
        let known = |of: fn(&Observed) -> Option<f64>| {
            let costs: Vec<f64> = self.observed.iter().filter_map(of).collect();
            Known::of(&costs)
        };
        let probed = |of: fn(&Probed) -> Option<f64>| {
            let probed = self.probed.as_ref()?;
            let cost = of(probed).filter(|cost| cost.is_finite() && *cost > 0.0)?;
            Some(Known::probed(cost, probed.spread))
        };
        let seen = self.probed.as_ref().and_then(|probed| probed.observed);
        let once = |of: fn(&Observed) -> Option<f64>| {
            let cost = of(seen.as_ref()?).filter(|cost| cost.is_finite() && *cost > 0.0)?;
            Some(Known::probed(cost, self.probed.as_ref()?.spread))
        };
        // Of as many, what took the longest.
        let most = |of: fn(&Observed) -> Quick| {
            let by_size =
                |a: &Quick, b: &Quick| a.amount.total_cmp(&b.amount).then(a.seconds.total_cmp(&b.seconds));
            self.observed.iter().chain(&seen).map(of).max_by(by_size).unwrap_or_default()
        };
        let limited = self.observed.iter().filter_map(|observed| observed.byte_limited_s);
        Knowledge {
            byte_limited: limited.min_by(f64::total_cmp),
            bytes_quick: most(Observed::bytes_quick),
            entries_quick: most(Observed::entries_quick),
            start: known(|o| o.ends().map(|[start_s, _]| start_s.max(LOOK_S))),
            // What a probe's transfer showed of its own time knows better than its rate as a whole, with start and end
            // in it.
            entry: self
                .known_of_kind(|o| o.entry_s, wants_small)
                .or_else(|| known(|o| o.entry_s))
                .or_else(|| once(|o| o.entry_s))
                .or_else(|| probed(|p| p.entry_s)),
            byte: self.byte_seen(work).or_else(|| once(|o| o.byte_s)).or_else(|| probed(|p| p.byte_s)),
            back: known(|o| o.back_s),
            // Its start is no copy's: the link was there.
            end: known(|o| o.ends().map(|[_, end_s]| end_s.max(LOOK_S)))
                .or_else(|| once(|o| o.ends().map(|[_, end_s]| end_s.max(END_MIN)))),
        }
    }
}

/// All ways, by their keyed hashes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    version: u32,
    /// Random: what the hashes are keyed with, so that nobody can try names against the files of all machines at once.
    salt: [u8; 16],
    ways: BTreeMap<String, Way>,
}

impl History {
    /// None yet, keyed with random bytes.
    pub fn new(salt: [u8; 16]) -> History {
        History { version: VERSION, salt, ways: BTreeMap::new() }
    }

    /// Reads what [`History::to_json`] wrote. `None` for what cannot be read; what no transfer can have shown is left
    /// out.
    pub fn from_json(text: &[u8]) -> Option<History> {
        let read = (text.len() <= BYTES_MAX).then(|| serde_json::from_slice::<History>(text).ok()).flatten();
        let mut history = read.filter(|history| history.version == VERSION)?;
        for way in history.ways.values_mut() {
            way.observed.retain(Observed::is_sound);
            way.observed.truncate(OBSERVED_MAX);
            way.tuned = way.tuned.take().map(Tuned::within_bounds);
        }
        Some(history)
    }

    /// The key of a way that these words tell from all others.
    pub fn key(&self, words: &[String]) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("thalweg 2026-11 profile key");
        hasher.update(&self.salt);
        for word in words {
            hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is known of a way now (seconds since 1970).
    pub fn of(&self, key: &str, now: u64) -> Option<&Way> {
        self.ways.get(key).filter(|way| now.saturating_sub(way.used_at) <= KEPT_FOR_S)
    }

    /// Remembers a transfer.
    pub fn observe(&mut self, key: &str, observed: Observed, narrowest: Option<String>, now: u64) {
        if !observed.is_sound() {
            return;
        }
        let way = self.used(key, now);
        way.observed.push(observed);
        let too_many = way.observed.len().saturating_sub(OBSERVED_MAX);
        way.observed.drain(..too_many);
        way.narrowest = narrowest;
        self.bound(now);
    }

    /// Remembers a probe.
    pub fn probed(&mut self, key: &str, probed: Probed, now: u64) {
        self.used(key, now).probed = Some(probed);
        self.bound(now);
    }

    /// Remembers what trials found, or forgets it.
    pub fn tuned(&mut self, key: &str, tuned: Option<Tuned>, now: u64) {
        self.used(key, now).tuned = tuned;
        self.bound(now);
    }

    fn used(&mut self, key: &str, now: u64) -> &mut Way {
        let way = self.ways.entry(key.to_owned()).or_default();
        way.used_at = now;
        way
    }

    fn bound(&mut self, now: u64) {
        self.ways.retain(|_, way| now.saturating_sub(way.used_at) <= KEPT_FOR_S);
        while self.ways.len() > WAYS_MAX {
            let oldest = self.ways.iter().min_by_key(|(_, way)| way.used_at).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return };
            self.ways.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_near;
    use crate::model::prediction::{Work, predict};

    /// 10 GB in 10 s, 1,000 entries in 1 s.
    const TAKEN: Taken = Taken { start_s: 0.5, entries_s: 1.0, bytes_s: 10.0, back_s: 0.0, end_s: 0.25 };

    fn moved(bytes: f64, entries: f64) -> Moved {
        Moved { bytes, entries, ..Moved::default() }
    }

    /// Half a second of a start, and 300 MB that came in 3 s: with 2.7 GB more it is half a second, thirty, and a usual
    /// end.
    #[test]
    fn a_beginning_foretells_the_whole_without_taking_its_own_last_look_for_the_end() {
        let taken = Taken { start_s: 0.5, bytes_s: 3.0, end_s: 0.001, ..Taken::default() };
        let moved = Moved { bytes: 3e8, entries: 1.0, ..Moved::default() };
        let left = Work { bytes: 2.7e9, ..Work::default() };
        let foretold =
            |left: &Work| Observed::of(&taken, &moved, false).foretells(&taken, left, 0.1).unwrap();
        let told = foretold(&left).unwrap();
        let [_, usual_end_s] = prediction::usual_s(0.1);
        assert!((told.seconds - 30.5 - usual_end_s).abs() < 0.01, "{told:?}");
        assert_eq!(told.guessed, [prediction::Term::End]);
        let of = |term| told.terms.iter().find(|(of, _)| *of == term).unwrap().1;
        assert!(
            (of(prediction::Term::Start) - 0.5).abs() < 1e-6
                && (of(prediction::Term::Bytes) - 30.0).abs() < 0.01
        );
        // What has passed has passed.
        assert!(told.low_s > 3.5);
        let little = foretold(&Work::default()).unwrap();
        assert!(little.low_s > 3.5 && (little.seconds - 3.5 - usual_end_s).abs() < 0.01, "{little:?}");
        // What it did not show is not made up.
        let missing = foretold(&Work { entries: 1e6, ..left });
        assert_eq!(missing, Err(Missing(prediction::Term::Entries)));
    }

    #[test]
    fn what_was_seen_is_known_across_a_file() {
        let mut history = History::new([7; 16]);
        for _ in 0..3 {
            history.observe("x", Observed::of(&TAKEN, &moved(1e10, 1e3), false), Some("write".into()), 1000);
        }
        let read = History::from_json(history.to_json().as_bytes()).unwrap();
        assert_eq!(read, history);
        let way = read.of("x", 1000 + KEPT_FOR_S).unwrap();
        let knowledge = way.knowledge(&Work::default());
        assert!(is_near(knowledge.byte.unwrap().median(), 1e-9, 1e-9));
        assert!(is_near(knowledge.entry.unwrap().median(), 1e-3, 1e-9));
        assert_eq!((knowledge.back, way.count(), way.narrowest.as_deref()), (None, 3, Some("write")));
        assert_eq!(read.of("x", 1001 + KEPT_FOR_S), None);
        assert_eq!(read.of("y", 1000), None);
    }

    /// A request took a millisecond, whatever came of it: a hundred bytes say nothing of a rate.
    #[test]
    fn a_copy_of_next_to_nothing_says_what_a_small_one_takes() {
        let tiny = Taken { start_s: 0.1, bytes_s: 0.001, end_s: 0.1, ..Taken::default() };
        let mut history = History::new([7; 16]);
        history.observe("x", Observed::of(&tiny, &moved(100.0, 1.0), false), None, 1000);
        let way = history.of("x", 1000).unwrap();
        for bytes in [1.0, 100.0, 1_048_576.0, 2_097_152.0] {
            let told = way.predict(&Work { bytes, entries: 1.0, ..Work::default() }, 0.0).unwrap().unwrap();
            assert!((0.15..0.3).contains(&told.seconds), "{bytes}: {}", told.seconds);
        }
    }

    #[test]
    fn words_are_told_apart_and_keyed() {
        let (one, other) = (History::new([1; 16]), History::new([2; 16]));
        let words = |words: [&str; 2]| words.map(str::to_owned);
        assert_eq!(one.key(&words(["ab", "c"])), one.key(&words(["ab", "c"])));
        assert_ne!(one.key(&words(["ab", "c"])), one.key(&words(["a", "bc"])));
        assert_ne!(one.key(&words(["ab", "c"])), other.key(&words(["ab", "c"])));
    }

    #[test]
    fn small_and_limited_transfers_say_nothing_of_the_rate() {
        assert_eq!(Observed::of(&TAKEN, &moved(1e10, 1e3), true).byte_s, None);
        assert_eq!(Observed::of(&TAKEN, &moved(1e6, 3.0), false).byte_s, None);
        assert_eq!(Observed::of(&TAKEN, &moved(1e6, 3.0), false).entry_s, None);
    }

    /// Eight streams over 11 MB/s, a mebibyte each, come to their ends at once; what follows is little, and quick.
    #[test]
    fn content_that_came_in_one_lump_says_nothing_of_the_rate() {
        let taken = |bytes_s| Taken { bytes_s, entries_s: 0.0, ..TAKEN };
        let of = |bytes: f64, bytes_s| {
            let moved = Moved { bytes, first_bytes: 8e6, entries: 1.0, reads_back: false };
            Observed::of(&taken(bytes_s), &moved, false).byte_s
        };
        assert_eq!(of(8.8e6, 0.22), None);
        assert_eq!(of(8e6, 0.0), None);
        assert!(is_near(of(3e7, 2.7).unwrap(), 9e-8, 1e-9));
    }

    #[test]
    fn little_on_a_slow_way_says_what_it_cost_and_much_on_a_quick_one_that_it_cost_nothing() {
        let slow = Taken { bytes_s: 8.0, entries_s: 2.0, ..TAKEN };
        let observed = Observed::of(&slow, &moved(2e6, 20.0), false);
        assert_eq!((observed.byte_s, observed.entry_s), (Some(4e-6), Some(0.1)));
        assert_eq!((observed.bytes_free, observed.entries_free), (0.0, 0.0));
        let quick = Taken { bytes_s: 0.05, entries_s: 0.05, ..TAKEN };
        let mut history = History::new([7; 16]);
        for amount in [1e8, 1e9, 1e7] {
            history.observe("x", Observed::of(&quick, &moved(amount, amount / 1e5), false), None, 1);
        }
        let knowledge = history.of("x", 1).unwrap().knowledge(&Work::default());
        assert_eq!((knowledge.byte, knowledge.entry), (None, None));
        let of = |amount| Quick { amount, seconds: 0.05 };
        assert_eq!((knowledge.bytes_quick, knowledge.entries_quick), (of(1e9), of(1e4)));
        // Written by a version that did not note it.
        let text = history.to_json().replace(",\"bytes_free\":1000000000.0,\"entries_free\":10000.0", "");
        assert_ne!(text, history.to_json());
        let older = History::from_json(text.as_bytes()).unwrap();
        assert_eq!(older.of("x", 1).unwrap().knowledge(&Work::default()).bytes_quick, of(1e8));
    }

    /// Seen within one machine: copies of 64 MiB came in one lump, so that nothing said what a byte cost but the probe;
    /// and that was added to a start that had it already, for ever.
    #[test]
    fn no_error_stays_where_earlier_copies_were_like_this_one() {
        let work = Work { bytes: 67_108_864.0, entries: 1.0, ..Work::default() };
        let mut history = History::new([7; 16]);
        let probed = Probed {
            stages: Vec::new(),
            byte_s: Some(0.127 / work.bytes),
            entry_s: None,
            spread: 0.1,
            narrowest: None,
            observed: None,
            at: 1,
        };
        history.probed("x", probed, 1);
        let moved = Moved { bytes: work.bytes, first_bytes: work.bytes, entries: 1.0, reads_back: false };
        for (earlier, seconds) in [0.165, 0.22, 0.19, 0.2, 0.17, 0.21].into_iter().enumerate() {
            let told = history.of("x", 1).unwrap().predict(&work, 0.0).unwrap().unwrap();
            // Before the first, start and end are usual values.
            if earlier > 0 {
                assert!((told.low_s..=told.high_s).contains(&seconds), "{earlier}: {told:?}");
                assert_eq!(told.rests_on, earlier);
                assert!((0.15..0.23).contains(&told.seconds), "{earlier}: {told:?}");
                let terms: f64 = told.terms.iter().map(|(_, seconds)| seconds).sum();
                assert!(is_near(terms, told.seconds, 1e-9), "{told:?}");
            }
            let taken = Taken { start_s: seconds - 0.06, end_s: 0.06, ..Taken::default() };
            history.observe("x", Observed::of(&taken, &moved, false), None, 1);
        }
        // Half as much again is of the same kind, ten times as much is not.
        let way = history.of("x", 1).unwrap();
        assert_eq!(way.alike(&Work { bytes: work.bytes * 1.5, ..work }).len(), 6);
        assert!(way.alike(&Work { bytes: work.bytes * 10.0, ..work }).is_empty());
        assert!(way.alike(&Work { reads_back: true, ..work }).is_empty());
        assert!(way.alike(&Work { entries: 100.0, ..work }).is_empty());
    }

    /// In turn 2,000 files of 4 KiB and one of 64 MiB, over the same way: each kind is known by its own.
    #[test]
    fn small_files_do_not_say_what_a_large_one_takes() {
        let small = Work { bytes: 8_192_000.0, entries: 2000.0, ..Work::default() };
        let large = Work { bytes: 67_108_864.0, entries: 1.0, ..Work::default() };
        let mut history = History::new([7; 16]);
        for _ in 0..4 {
            let taken = Taken { start_s: 0.3, entries_s: 3.0, bytes_s: 1.4, back_s: 0.0, end_s: 0.3 };
            history.observe("x", Observed::of(&taken, &moved(small.bytes, small.entries), false), None, 1);
        }
        let way = history.of("x", 1).unwrap();
        assert_eq!(way.predict(&large, 0.0).unwrap(), Err(Missing(prediction::Term::Bytes)));
        let taken = Taken { start_s: 0.1, entries_s: 0.0, bytes_s: 0.3, back_s: 0.0, end_s: 0.1 };
        history.observe("x", Observed::of(&taken, &moved(large.bytes, 1.0), false), None, 1);
        let way = history.of("x", 1).unwrap();
        for (work, seconds) in [(large, 0.5), (small, 5.0), (Work { bytes: 1e9, ..large }, 4.7)] {
            let told = way.predict(&work, 0.0).unwrap().unwrap();
            assert!(is_near(told.seconds, seconds, 0.1), "{work:?}: {told:?}");
        }
        // And of many times more small files, by what these cost.
        let more = Work { bytes: small.bytes * 10.0, entries: small.entries * 10.0, ..small };
        assert!(is_near(way.predict(&more, 0.0).unwrap().unwrap().seconds, 45.0, 0.15));
    }

    /// 256 MiB in 0.29 s, of which their stages worked for 0.15 s; then half and a third of it, in other numbers of
    /// files.
    #[test]
    fn what_was_too_quick_to_know_its_cost_takes_its_time_all_the_same() {
        let bytes = 268_435_456.0;
        let taken = Taken { start_s: 0.08, entries_s: 0.01, bytes_s: 0.15, back_s: 0.0, end_s: 0.05 };
        let mut history = History::new([7; 16]);
        history.observe("x", Observed::of(&taken, &moved(bytes, 100.0), false), None, 1);
        let way = history.of("x", 1).unwrap();
        assert_eq!(way.knowledge(&Work::default()).byte, None);
        for (share, entries) in [(1.0, 10.0), (0.5, 20.0), (1.0 / 3.0, 100.0)] {
            let work = Work { bytes: bytes * share, entries, ..Work::default() };
            assert!(way.alike(&work).is_empty());
            let told = way.predict(&work, 0.0).unwrap().unwrap();
            let seconds = 0.13 + 0.15 * share + 0.01 * entries / 100.0;
            assert!(is_near(told.seconds, seconds, 1e-6), "{work:?}: {told:?}");
        }
        // Of more than that nothing is known.
        let more = Work { bytes: bytes * 3.0, entries: 1.0, ..Work::default() };
        assert_eq!(way.predict(&more, 0.0).unwrap(), Err(Missing(prediction::Term::Bytes)));
    }

    /// 100,000 links in 20 s say what an entry costs, and nothing of a start, an end or a byte.
    #[test]
    fn a_transfer_without_content_teaches_what_its_entries_cost_and_nothing_else() {
        let taken = Taken { start_s: 0.1, entries_s: 19.4, end_s: 0.5, ..Taken::default() };
        for bytes in [0.0, 10.0] {
            let mut history = History::new([7; 16]);
            history.observe("x", Observed::of(&taken, &moved(bytes, 1e5), false), None, 1);
            let way = history.of("x", 1).unwrap();
            let knowledge = way.knowledge(&Work::default());
            assert!(is_near(knowledge.entry.unwrap().median(), 1.94e-4, 1e-9));
            assert_eq!((knowledge.start, knowledge.byte, knowledge.end), (None, None, None));
            assert_eq!((knowledge.bytes_quick.amount, knowledge.entries_quick.amount), (0.0, 0.0));
            // Such ones are predicted by it as a whole.
            let work = Work { bytes, entries: 8e4, ..Work::default() };
            let told = way.predict(&work, 0.0).unwrap().unwrap();
            assert!(is_near(told.seconds, 0.6 + 0.8 * 19.4, 1e-6), "{told:?}");
            let is_of_bytes = told.terms.iter().any(|(term, _)| *term == prediction::Term::Bytes);
            assert_eq!(is_of_bytes, bytes > 0.0, "{told:?}");
        }
    }

    #[test]
    fn a_limit_that_is_asked_for_holds_for_copies_that_had_none() {
        let work = Work { bytes: 1e9, entries: 1.0, bytes_per_s_max: Some(1e7), ..Work::default() };
        let mut history = History::new([7; 16]);
        let taken = Taken { start_s: 0.1, bytes_s: 1.0, end_s: 0.1, ..Taken::default() };
        history.observe("x", Observed::of(&taken, &moved(1e9, 1.0), false), None, 1);
        let told = history.of("x", 1).unwrap().predict(&work, 0.0).unwrap().unwrap();
        assert!(is_near(told.seconds, 100.2, 1e-6) && told.high_s < 120.0, "{told:?}");
        // One that was limited says nothing of copies without, and of others that the way carries as much.
        history.observe("y", Observed::of(&taken, &moved(1e9, 1.0), true), None, 1);
        let way = history.of("y", 1).unwrap();
        assert!(way.alike(&work).is_empty());
        assert!(is_near(way.predict(&work, 0.0).unwrap().unwrap().seconds, 100.2, 1e-6));
        for limit in [None, Some(2e9)] {
            let wider = Work { bytes_per_s_max: limit, ..work };
            assert_eq!(way.predict(&wider, 0.0).unwrap(), Err(Missing(prediction::Term::Bytes)), "{limit:?}");
        }
    }

    #[test]
    fn a_probe_knows_the_rate_until_a_transfer_does() {
        let mut history = History::new([7; 16]);
        let probed = Probed {
            stages: vec![("network".into(), 1e9)],
            byte_s: Some(1e-8),
            entry_s: None,
            spread: 0.1,
            narrowest: Some("network".into()),
            observed: None,
            at: 5,
        };
        history.probed("x", probed.clone(), 5);
        assert!(is_near(
            history.of("x", 6).unwrap().knowledge(&Work::default()).byte.unwrap().median(),
            1e-8,
            1e-9
        ));
        // All rests on it, unless a limit is narrower.
        let work = Work { bytes: 1e10, entries: 1e3, ..Work::default() };
        assert_eq!(history.of("x", 6).unwrap().probe_of_bytes(&work), Some(&probed));
        let limited = |limit| Work { bytes_per_s_max: Some(limit), ..work };
        assert_eq!(history.of("x", 6).unwrap().probe_of_bytes(&limited(2e8)), Some(&probed));
        assert_eq!(history.of("x", 6).unwrap().probe_of_bytes(&limited(1e7)), None);
        // Its own transfer says how much of that were start and end.
        let observed = Some(Observed::of(&Taken { bytes_s: 5.0, ..TAKEN }, &moved(1e9, 3.0), false));
        history.probed("x", Probed { observed, ..probed }, 5);
        let knowledge = history.of("x", 6).unwrap().knowledge(&Work::default());
        assert!(is_near(knowledge.byte.unwrap().median(), 5e-9, 1e-9));
        assert!(is_near(knowledge.end.unwrap().median(), 0.25, 1e-9) && knowledge.start.is_none());
        let observed =
            Some(Observed::of(&Taken { start_s: 0.1, ..Taken::default() }, &moved(1e9, 3.0), false));
        history.probed("x", Probed { observed, ..history.of("x", 6).unwrap().probed.clone().unwrap() }, 5);
        let knowledge = history.of("x", 6).unwrap().knowledge(&Work::default());
        assert!(is_near(knowledge.end.unwrap().median(), END_MIN, 1e-9));
        assert_eq!(knowledge.bytes_quick, Quick { amount: 1e9, seconds: 0.0 });
        history.observe("x", Observed::of(&TAKEN, &moved(1e10, 1e3), false), None, 7);
        assert_eq!(history.of("x", 8).unwrap().probe_of_bytes(&work), None);
        assert!(is_near(
            history.of("x", 8).unwrap().knowledge(&Work::default()).byte.unwrap().median(),
            1e-9,
            1e-9
        ));
    }

    /// What a look shows at once leaves nothing for the start; a logarithm of nothing would make everything possible.
    #[test]
    fn a_start_or_an_end_of_no_time_at_all_leaves_predictions_as_they_were() {
        let with = |times: &[f64]| {
            let mut history = History::new([7; 16]);
            for &seconds in times {
                let taken = Taken { start_s: seconds, end_s: seconds, ..TAKEN };
                history.observe("x", Observed::of(&taken, &moved(1e10, 1e3), false), None, 1);
            }
            let work = Work { bytes: 1e6, entries: 1.0, ..Work::default() };
            predict(&history.of("x", 1).unwrap().knowledge(&Work::default()), &work).unwrap().unwrap()
        };
        for times in [&[0.0, 0.1][..], &[0.1, 1e-12], &[0.0, 0.0, 0.1, 0.1]] {
            let told = with(times);
            assert!((0.005..0.5).contains(&told.seconds) && told.p99_s < 10.0, "{times:?}: {told:?}");
            assert!(told.p99_s >= 0.1, "what was seen is possible, {times:?}: {told:?}");
        }
        let told = with(&[0.0]);
        assert!((0.001..0.01).contains(&told.seconds) && told.p99_s < 0.1, "{told:?}");
    }

    #[test]
    fn it_is_bounded_and_what_cannot_be_read_is_nothing() {
        let mut history = History::new([7; 16]);
        for at in 0..WAYS_MAX as u64 + 10 {
            for _ in 0..OBSERVED_MAX + 3 {
                history.observe(
                    &format!("way {at}"),
                    Observed::of(&TAKEN, &moved(1e10, 1e3), false),
                    None,
                    at,
                );
            }
        }
        assert_eq!(history.ways.len(), WAYS_MAX);
        assert!(history.of("way 9", 0).is_none() && history.of("way 10", 0).is_some());
        assert_eq!(history.of("way 10", 0).unwrap().count(), OBSERVED_MAX);
        assert!(history.to_json().len() <= BYTES_MAX, "{}", history.to_json().len());
        for text in
            ["", "{", "[]", "{\"version\":2,\"ways\":{}}", "{\"version\":1,\"ways\":{\"x\":3}}", "\u{0}"]
        {
            assert_eq!(History::from_json(text.as_bytes()), None, "{text}");
        }
        let odd = "{\"version\":1,\"salt\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],\"ways\":{\"x\":{\"observed\":[{\"start_s\":-1.0,\"entry_s\":null,\"byte_s\":null,\
                   \"back_s\":null,\"end_s\":0.0}],\"narrowest\":null,\"probed\":null,\"used_at\":1}}}";
        assert_eq!(History::from_json(odd.as_bytes()).unwrap().of("x", 1).unwrap().count(), 0);
        let nothing = Observed { start_s: f64::NAN, ..Observed::default() };
        history.observe("nan", nothing, None, 200);
        assert!(history.of("nan", 200).is_none());
    }
}
