//! What was struck, and what came of it: counted as it happens, judged at the end, and told however the test ends.
//!
//! A test tells each strike, where the story stood by then, and where it was seen to go on; at the end what had to come
//! and what came. [`Count::over`] tells the numbers first and then fails on what may not be. A test that fails before
//! tells what it had counted, with `ended` false.

use super::chance::say;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

/// One story. See the module.
pub struct Count {
    kind: &'static str,
    unit: &'static str,
    strikes: Vec<Strike>,
    /// How often a mark was looked at, and how often it was less than before, or than what it stood at when it was
    /// struck.
    looks: u64,
    back: u64,
    /// What had to come, and of it: what came; what came more than once; what was named as lost; what a consumer that
    /// was killed had taken and not put away; what is none of these.
    pub whole: u64,
    pub came: u64,
    pub twice: u64,
    pub named: u64,
    pub in_hand: u64,
    pub lost: u64,
    /// What came and was never given, or came out of its turn.
    pub foreign: u64,
    /// So much may have been in a killed consumer's hands, and so much may come more than once: what the kills may
    /// cost.
    pub in_hand_at_most: u64,
    pub twice_at_most: u64,
    /// What was struck had it all in its hands: who comes after it begins with the first.
    pub may_begin_anew: bool,
    end: Option<End>,
    is_told: bool,
}

/// A moment.
struct Strike {
    of: &'static str,
    at: Instant,
    /// Whether there was anything that it could break.
    is_under_way: bool,
    /// What was marked, delivered or done by then.
    had: u64,
    /// Where it went on before the next strike, if that was seen.
    from: Option<u64>,
}

/// What was delivered, against what was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Whole,
    Prefix,
    Other,
}

impl Count {
    /// Of this story, which counts in `unit`.
    pub fn of(kind: &'static str, unit: &'static str) -> Count {
        Count {
            kind,
            unit,
            strikes: Vec::new(),
            looks: 0,
            back: 0,
            whole: 0,
            came: 0,
            twice: 0,
            named: 0,
            in_hand: 0,
            lost: 0,
            foreign: 0,
            in_hand_at_most: 0,
            twice_at_most: 0,
            may_begin_anew: false,
            end: None,
            is_told: false,
        }
    }

    /// `of` is struck now. `is_under_way`: there was something that this could break; `had`: what was marked, delivered
    /// or done.
    pub fn strike(&mut self, of: &'static str, is_under_way: bool, had: u64) {
        self.strikes.push(Strike { of, at: Instant::now(), is_under_way, had, from: None });
    }

    /// Nothing was there that the last strike could break.
    pub fn missed(&mut self) {
        if let Some(strike) = self.strikes.last_mut() {
            strike.is_under_way = false;
        }
    }

    /// It went on from there at that moment: after the last strike before it.
    pub fn stood(&mut self, at: Instant, from: u64) {
        if let Some(strike) = self.strikes.iter_mut().rev().find(|strike| strike.at <= at) {
            strike.from = Some(strike.from.map_or(from, |known| known.min(from)));
        }
    }

    /// What was delivered or named, in the order in which it was, with where each stands: for each strike the first
    /// that was given only after it, and the lowest on the way there.
    pub fn went_on(&mut self, given: &[u64], seen: &[(Instant, u64)]) {
        let ends = self.strikes.iter().skip(1).map(|strike| Some(strike.at)).chain([None]);
        let ends: Vec<Option<Instant>> = ends.collect();
        for ((strike, end), given) in self.strikes.iter_mut().zip(ends).zip(given) {
            let behind = seen.iter().skip_while(|(at, _)| *at < strike.at);
            let behind = behind.take_while(|(at, _)| end.is_none_or(|end| *at < end));
            let mut lowest = None;
            for &(_, place) in behind {
                lowest = Some(lowest.map_or(place, |lowest: u64| lowest.min(place)));
                if place >= *given {
                    strike.from = lowest;
                    break;
                }
            }
        }
    }

    /// A mark was looked at.
    pub fn looked(&mut self, times: u64, back: u64) {
        self.looks += times;
        self.back += back;
    }

    /// What came, byte by byte, of what had to.
    pub fn bytes(&mut self, content: &[u8], came: &[u8]) {
        let Compared { end, twice, lost, foreign } = compare(content, came);
        self.whole = content.len() as u64;
        self.end = Some(end);
        (self.twice, self.lost, self.foreign) = (twice, lost, self.foreign + foreign);
        self.came = self.whole - lost;
    }

    /// What came, one by one and how often each, of so many numbered from 0; those that were `named` as lost are not
    /// missing.
    pub fn numbered(&mut self, whole: u64, delivered: &BTreeMap<u64, u32>, named: &BTreeMap<u64, u32>) {
        let is_of = |number: &&u64| **number < whole;
        self.whole = whole;
        self.came = delivered.keys().filter(is_of).count() as u64;
        self.named =
            named.keys().filter(is_of).filter(|number| !delivered.contains_key(number)).count() as u64;
        let often = |number: u64| {
            let of = |all: &BTreeMap<u64, u32>| u64::from(all.get(&number).copied().unwrap_or(0));
            of(delivered) + of(named)
        };
        let all = delivered.keys().chain(named.keys().filter(|number| !delivered.contains_key(number)));
        self.twice = all.map(|number| often(*number) - 1).sum();
        self.foreign +=
            delivered.keys().chain(named.keys()).filter(|number| **number >= whole).count() as u64;
        let missing = whole - self.came - self.named;
        self.in_hand = missing.min(self.in_hand_at_most);
        self.lost = missing - self.in_hand;
        let is_prefix = (0..self.came + self.named)
            .all(|number| delivered.contains_key(&number) || named.contains_key(&number));
        self.end = Some(match (self.lost, self.foreign + self.twice.saturating_sub(self.twice_at_most)) {
            (0, 0) => End::Whole,
            (_, 0) if is_prefix => End::Prefix,
            _ => End::Other,
        });
    }

    /// What of these names was done how often, and what of them arrived as it was.
    pub fn items(&mut self, names: &[String], done: &BTreeMap<String, u32>, is_whole: impl Fn(&str) -> bool) {
        let times = |name: &String| u64::from(done.get(name).copied().unwrap_or(0));
        self.whole = names.len() as u64;
        self.came = names.iter().filter(|name| times(name) > 0 && is_whole(name)).count() as u64;
        self.lost = self.whole - self.came;
        self.twice = names.iter().map(|name| times(name).saturating_sub(1)).sum();
        self.foreign += done.keys().filter(|name| !names.contains(name)).count() as u64;
        self.end = Some(match self.lost + self.twice + self.foreign {
            0 => End::Whole,
            _ => End::Other,
        });
    }

    /// All is counted: tells it, and fails on what may not be.
    #[track_caller]
    pub fn over(mut self) {
        self.is_told = true;
        self.tell();
        assert!(self.whole > 0, "{}: nothing had to come", self.kind);
        assert!(self.strikes.iter().any(|strike| strike.is_under_way), "{}: nothing was struck", self.kind);
        let back = self.back + self.back_at_strikes();
        assert_eq!(back, 0, "{}: a mark went back", self.kind);
        let wrong = (self.lost, self.twice.saturating_sub(self.twice_at_most), self.foreign);
        assert_eq!(wrong, (0, 0, 0), "{}: lost, more than once, never given or out of turn", self.kind);
        assert_eq!(self.end, Some(End::Whole), "{}", self.kind);
    }

    /// Strikes after which it stood before what it had. At the very beginning only where it may begin anew.
    fn back_at_strikes(&self) -> u64 {
        let is_anew = |from| from == 0 && self.may_begin_anew;
        let is_back = |strike: &&Strike| strike.from.is_some_and(|from| from < strike.had && !is_anew(from));
        self.strikes.iter().filter(is_back).count() as u64
    }

    fn tell(&self) {
        for of in targets(&self.strikes) {
            let all = self.strikes.iter().filter(|strike| strike.of == of);
            let count = |is: fn(&Strike) -> bool| all.clone().filter(|strike| is(strike)).count();
            say(&format!(
                "struck: {}: {of} {} times, {} of them while it was under way; {} went on from a mark, {} began anew, {} had \
                 nothing yet, {} were struck again before",
                self.kind,
                all.clone().count(),
                count(|strike| strike.is_under_way),
                count(|strike| strike.from.is_some_and(|from| from > 0)),
                count(|strike| strike.from == Some(0) && strike.had > 0),
                count(|strike| strike.from == Some(0) && strike.had == 0),
                count(|strike| strike.from.is_none()),
            ));
        }
        say(&format!(
            "struck: {}: of {} {} {} came, {} more than once, {} named as lost, {} in a killed consumer's hands, {} lost; {} looks \
             at the mark, {} times it went back",
            self.kind,
            self.whole,
            self.unit,
            self.came,
            self.twice,
            self.named,
            self.in_hand,
            self.lost,
            self.looks,
            self.back + self.back_at_strikes(),
        ));
        say(&format!("counted: {}", self.json()));
    }

    fn json(&self) -> Value {
        let strikes: Vec<Value> = self
            .strikes
            .iter()
            .map(|strike| {
                json!({"of": strike.of, "under_way": strike.is_under_way, "had": strike.had, "from": strike.from})
            })
            .collect();
        let end = self.end.map(|end| match end {
            End::Whole => "whole",
            End::Prefix => "prefix",
            End::Other => "other",
        });
        json!({
            "kind": self.kind, "unit": self.unit, "ended": self.is_told, "strikes": strikes, "looks": self.looks,
            "back": self.back + self.back_at_strikes(), "whole": self.whole, "came": self.came, "twice": self.twice,
            "named": self.named, "in_hand": self.in_hand, "lost": self.lost, "foreign": self.foreign, "end": end,
        })
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell();
        }
    }
}

/// What was struck, in the order in which it first was.
fn targets(strikes: &[Strike]) -> Vec<&'static str> {
    let mut all = Vec::new();
    for strike in strikes {
        if !all.contains(&strike.of) {
            all.push(strike.of);
        }
    }
    all
}

struct Compared {
    end: End,
    twice: u64,
    lost: u64,
    foreign: u64,
}

/// Bytes that are looked for as one: of noise none is there twice by chance.
const BLOCK: usize = 64;

/// Where every block of `content`, which does not repeat itself, is found in `came`.
fn compare(content: &[u8], came: &[u8]) -> Compared {
    if content == came {
        return Compared { end: End::Whole, twice: 0, lost: 0, foreign: 0 };
    }
    if content.starts_with(came) {
        let lost = (content.len() - came.len()) as u64;
        return Compared { end: End::Prefix, twice: 0, lost, foreign: 0 };
    }
    let mut blocks: HashMap<&[u8], u64> = content.chunks(BLOCK).map(|block| (block, 0)).collect();
    let (mut at, mut foreign) = (0, 0);
    while at < came.len() {
        let block = &came[at..(at + BLOCK).min(came.len())];
        match blocks.get_mut(block) {
            Some(times) => {
                *times += 1;
                at += block.len();
            }
            None => {
                foreign += 1;
                at += 1;
            }
        }
    }
    let bytes =
        |is: fn(u64) -> u64| blocks.iter().map(|(block, times)| is(*times) * block.len() as u64).sum();
    let (lost, twice) = (bytes(|times| u64::from(times == 0)), bytes(|times| times.saturating_sub(1)));
    Compared { end: End::Other, twice, lost, foreign }
}

/// The words `stands` of `thalweg stream --json`: when it went on behind how many bytes.
pub fn stands(said: &[(Instant, String)]) -> Vec<(Instant, u64)> {
    let stand = |(at, line): &(Instant, String)| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["event"] == "stands").then_some((*at, event["bytes"].as_u64()?))
    };
    said.iter().filter_map(stand).collect()
}

#[test]
fn a_mark_that_falls_to_nothing_is_back_but_where_a_story_may_begin_anew() {
    // Where it stood after it had 5: nothing is known, behind, where it was, before that, and at its beginning.
    for (from, may_begin_anew, back) in [
        (None, false, 0),
        (Some(7), false, 0),
        (Some(5), false, 0),
        (Some(4), false, 1),
        (Some(0), false, 1),
        (Some(4), true, 1),
        (Some(0), true, 0),
    ] {
        let mut count = Count::of("a story", "bytes");
        count.may_begin_anew = may_begin_anew;
        // One before that had nothing yet.
        for (had, from) in [(0, Some(0)), (5, from)] {
            count.strike("it", true, had);
            from.into_iter().for_each(|from| count.stood(Instant::now(), from));
        }
        assert_eq!(count.back_at_strikes(), back, "{from:?}, {may_begin_anew}");
        // It is no story of a run: nothing of it is told.
        count.is_told = true;
    }
}
