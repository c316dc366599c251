//! Of which parts of a copy receipts are that are named together, and whether they can be of one copy.

use crate::receipt_file::{Seal, selection};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_mover::failure::counted;
use thalweg_wire::message::PartOf;

/// Tasks of an array may wait for so long in their queue; what began further apart may be of two copies.
const BEGAN_APART_S: u64 = SECONDS_PER_DAY;
const SECONDS_PER_DAY: u64 = 86_400;

/// What receipts lack to be those of all parts of a copy. Of a copy that is not in parts nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The part that the one receipt is of, if there is one alone, and others of its copy.
    pub alone: Option<PartOf>,
    /// Numbers of parts, from 1 on, of which none of them is.
    pub missing: Vec<u32>,
    /// How many parts there are.
    pub count: u32,
}

impl Parts {
    /// Of receipts that were checked. Those of one number of parts belong together; one such group that is whole is
    /// enough, and else it counts which lacks least.
    pub fn of(seals: &[&Seal]) -> Parts {
        let mut groups: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let parts: Vec<PartOf> = seals.iter().filter_map(|seal| part_of(seal)).collect();
        for part in &parts {
            groups.entry(part.count).or_default().insert(part.number);
        }
        let lacks = |(count, there): (u32, BTreeSet<u32>)| {
            let missing = (1..=count).filter(|number| !there.contains(number)).collect();
            Parts { alone: None, missing, count }
        };
        let least = groups.into_iter().map(lacks).min_by_key(|parts| parts.missing.len());
        let alone = parts.first().filter(|part| seals.len() == 1 && part.count > 1).copied();
        Parts { alone, ..least.unwrap_or_default() }
    }
}

/// Why receipts, of which one at least is of a part, may not be of one copy, each in a sentence. It is the word of who
/// wrote them: from where, to where, when, and which names.
pub fn doubts_together(seals: &[&Seal]) -> Vec<String> {
    if seals.iter().all(|seal| part_of(seal).is_none()) {
        return Vec::new();
    }
    let mut doubts = Vec::new();
    let began = || seals.iter().map(|seal| seal.began);
    let apart_s = began().max().zip(began().min()).map_or(0, |(last, first)| last - first);
    if apart_s > BEGAN_APART_S {
        let days = counted(apart_s / SECONDS_PER_DAY, "day", "days");
        doubts.push(format!("these receipts began {days} apart: one may be of an earlier copy"));
    }
    let mut places = seals.iter().map(|seal| places_of(seal));
    let first = places.next();
    if places.any(|other| Some(other) != first) {
        let why = "these receipts do not name the same places: one may be of another copy";
        doubts.push(why.to_owned());
    }
    let selected = |seal: &Seal| selection::KEYS.map(|key| seal.words.get(key).cloned());
    let mut each = seals.iter().map(|seal| selected(seal));
    let first = each.next();
    if each.any(|other| Some(other) != first) {
        let why = "these receipts do not leave out the same names: one may be of another copy";
        doubts.push(why.to_owned());
    }
    doubts
}

/// The part that the header names, if there is such a one: who signs may write any.
fn part_of(seal: &Seal) -> Option<PartOf> {
    let (number, count) = seal.words.get("part")?.as_str()?.split_once('/')?;
    PartOf::new(number.parse().ok()?, count.parse().ok()?)
}

/// From where and to where, but for the hosts: each part may name its own.
fn places_of(seal: &Seal) -> Vec<&str> {
    let from = seal.words.get("from").and_then(Value::as_array).into_iter().flatten();
    from.chain(seal.words.get("to")).filter_map(Value::as_str).map(without_host).collect()
}

/// A place as it was typed, without the host, its port and a leading slash or `./`.
fn without_host(place: &str) -> &str {
    let behind_slash = |text: &str| text.find('/').map_or(text.len(), |at| at + 1);
    let start = match place.find("://") {
        Some(at) => at + 3 + behind_slash(&place[at + 3..]),
        None if place.starts_with('@') => behind_slash(place),
        None => {
            let host = place.split('/').next().unwrap_or_default();
            // Of addresses and lists in brackets it is behind these.
            let bracket = host.find("]:").map(|at| at + 2);
            bracket.or_else(|| host.find(':').map(|at| at + 1)).unwrap_or(0)
        }
    };
    let path = &place[start..];
    path.strip_prefix("./").unwrap_or(path).trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt_file::tests::Sample;

    fn seal(words: Value, began: u64) -> Seal {
        Seal { words, began, ..Sample::new(&[]).seal() }
    }

    fn parts_of(parts: &[Option<&str>]) -> Parts {
        let seals: Vec<Seal> =
            parts.iter().map(|part| seal(serde_json::json!({ "part": part }), 0)).collect();
        Parts::of(&seals.iter().collect::<Vec<_>>())
    }

    #[test]
    fn of_the_receipts_of_parts_it_is_said_which_are_not_there() {
        let missing = |parts: &[Option<&str>]| {
            let parts = parts_of(parts);
            assert_eq!(parts.alone, None);
            (parts.missing, parts.count)
        };
        assert_eq!(missing(&[Some("1/4"), Some("3/4")]), (vec![2, 4], 4));
        assert_eq!(missing(&[Some("2/2"), Some("1/2"), Some("1/2")]), (vec![], 2));
        // Parts that were left over from a copy in another number of parts are none of this one.
        assert_eq!(missing(&[Some("1/4"), Some("1/3")]), (vec![2, 3], 3));
        assert_eq!(missing(&[Some("1/2"), Some("3/4"), Some("4/4")]), (vec![2], 2));
        assert_eq!(missing(&[Some("1/2"), Some("2/2"), Some("3/4"), Some("4/4")]), (vec![], 2));
        // What is no part of it does not stand for the others.
        assert_eq!(missing(&[Some("1/4"), None]), (vec![2, 3, 4], 4));
        assert_eq!(missing(&[None, None]), (vec![], 0));
        // Whoever signs may write any number.
        let odd = ["1/4000000000", "5/4", "0/4", "x/y", "/"].map(Some);
        assert_eq!(missing(&odd), (vec![], 0));
    }

    #[test]
    fn the_receipt_of_one_part_alone_lacks_all_others() {
        let alone = Parts { alone: PartOf::new(2, 3), missing: vec![1, 3], count: 3 };
        assert_eq!(parts_of(&[Some("2/3")]), alone);
        assert_eq!(parts_of(&[Some("1/1")]), Parts { alone: None, missing: vec![], count: 1 });
        assert_eq!(parts_of(&[None]), Parts::default());
    }

    #[test]
    fn receipts_that_cannot_be_of_one_copy_are_doubted_and_those_of_several_hosts_are_not() {
        let doubts = |all: &[(&str, &str, u64)], part: Option<&str>| {
            let seal_of = |&(from, to, began): &(&str, &str, u64)| {
                seal(serde_json::json!({ "from": [from], "to": to, "part": part }), began)
            };
            let seals: Vec<Seal> = all.iter().map(seal_of).collect();
            doubts_together(&seals.iter().collect::<Vec<_>>()).len()
        };
        let part = Some("1/4");
        for (one, other) in [
            ("tw://dtn1/data/x", "tw://dtn2:8487/data/x"),
            ("dtn1:/data/x", "me@dtn2:/data/x"),
            ("dtn1:/data/x", "/data/x"),
            ("[::1]:/data/x", "dtn[1-4]:/data/x"),
            ("ssh://dtn1/data/x", "@dtn2/data/x"),
            ("./data/x", "data/x"),
        ] {
            assert_eq!(doubts(&[("x", one, 0), ("x", other, BEGAN_APART_S)], part), 0, "{one} {other}");
            assert_eq!(doubts(&[(one, "x", 0), (other, "x", 0)], part), 0, "{one} {other}");
        }
        assert_eq!(doubts(&[("x", "dtn1:y", 0), ("x", "dtn1:z", 0)], part), 1);
        assert_eq!(doubts(&[("w", "y", 0), ("x", "y", 0)], part), 1);
        assert_eq!(doubts(&[("x", "y", 0), ("x", "y", BEGAN_APART_S + 1)], part), 1);
        assert_eq!(doubts(&[("w", "y", 0), ("x", "y", 1 << 40)], part), 2);
        let rules = serde_json::json!({ "part": "2/2", "rules": { "count": 1, "digest": "d" } });
        let filtered = [seal(serde_json::json!({ "part": "1/2" }), 0), seal(rules, 0)];
        assert_eq!(doubts_together(&[&filtered[0], &filtered[1]]).len(), 1);
        assert_eq!(doubts_together(&[&filtered[1], &filtered[1]]).len(), 0);
        // Of those of other copies nobody says that they are one.
        assert_eq!(doubts(&[("w", "y", 0), ("x", "y", 1 << 40)], None), 0);
    }
}
