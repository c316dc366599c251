//! What the header says of which names were asked for. Names that were not are in no line and no total: without these
//! words a receipt of some of the source could not be told from one of all of it.
//!
//! Not here: the part, which has a key of its own, and what the destination had (`--update`, `--ignore-existing`),
//! which counts as skipped.

use serde_json::{Map, Value, json};
use thalweg_mover::failure::counted;
use thalweg_mover::run::copy::Selection;
use thalweg_wire::path::{Escaped, Sentence};
use thalweg_wire::{Digest, RelativePath};

const RULES: &str = "rules";
const NAMES: &str = "names";
const ONE_FILE_SYSTEM: &str = "one_file_system";
const FOLLOW_LINKS: &str = "follow_links";
/// The keys, each of which is there if it was asked for.
pub const KEYS: [&str; 4] = [RULES, NAMES, ONE_FILE_SYSTEM, FOLLOW_LINKS];

/// So many rules stand in a header as they are, of more only number and digest: a header is one line that everybody
/// reads whole.
const RULES_MAX: usize = 256;
/// Bytes of these together.
const RULES_BYTES_MAX: usize = 16 << 10;
/// So many of them are named to people.
const RULES_NAMED_MAX: usize = 16;

/// What a header says of it. The default is of all of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selected(Map<String, Value>);

impl Selected {
    /// What is said of this selection.
    pub fn of(selection: &Selection) -> Selected {
        let mut told = Map::new();
        if !selection.filter.is_empty() {
            let sign = |include: bool| if include { '+' } else { '-' };
            let rules =
                selection.filter.iter().map(|rule| format!("{} {}", sign(rule.include), rule.pattern));
            told.insert(RULES.into(), of_rules(rules.collect()));
        }
        if !selection.only.is_empty() {
            told.insert(NAMES.into(), digested(selection.only.iter().map(RelativePath::as_bytes)));
        }
        let [one, follow] = [selection.one_file_system, selection.follow_links];
        for (key, is_asked) in [(ONE_FILE_SYSTEM, one), (FOLLOW_LINKS, follow)] {
            if is_asked {
                told.insert(key.into(), true.into());
            }
        }
        Selected(told)
    }

    /// For a header that is written.
    pub(crate) fn keys(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

fn of_rules(rules: Vec<String>) -> Value {
    let mut told = digested(rules.iter().map(String::as_bytes));
    if rules.len() <= RULES_MAX && rules.iter().map(String::len).sum::<usize>() <= RULES_BYTES_MAX {
        told["list"] = rules.into();
    }
    told
}

/// How many texts these are, and BLAKE3 of them, each with a NUL behind it: none has one in it.
fn digested<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Value {
    let (mut hasher, mut count) = (blake3::Hasher::new(), 0u64);
    for text in texts {
        hasher.update(text).update(&[0]);
        count += 1;
    }
    json!({ "count": count, "digest": Digest(*hasher.finalize().as_bytes()).to_string() })
}

/// What a header says of it. It is as it was signed, and may be of any form: what is none of ours is left out.
pub(super) fn read(header: &Value) -> Map<String, Value> {
    let read = |key: &str| match key {
        RULES | NAMES => read_digested(header.get(key)?),
        _ => header.get(key)?.as_bool().filter(|is_asked| *is_asked).map(Value::from),
    };
    KEYS.into_iter().filter_map(|key| Some((key.to_owned(), read(key)?))).collect()
}

fn read_digested(value: &Value) -> Option<Value> {
    let count = value.get("count")?.as_u64()?;
    let digest = value.get("digest")?.as_str()?;
    let mut read = json!({ "count": count, "digest": digest });
    if let Some(list) = value.get("list").and_then(Value::as_array) {
        read["list"] = list.iter().filter(|rule| rule.is_string()).cloned().collect();
    }
    Some(read)
}

/// The same for people, of [`Seal::words`](super::Seal::words): a sentence for each. None where all was asked for.
pub fn sentences(words: &Value) -> Vec<String> {
    let count = |value: &Value| value.get("count").and_then(Value::as_u64).unwrap_or_default();
    let digest = |value: &Value| {
        let digest = value.get("digest").and_then(Value::as_str).unwrap_or_default();
        format!("BLAKE3 {}", Sentence(digest))
    };
    let mut sentences = Vec::new();
    if let Some(rules) = words.get(RULES) {
        let by = format!("names were left out by {}", counted(count(rules), "rule", "rules"));
        match rules.get("list").and_then(Value::as_array) {
            Some(list) => {
                let named = named(list);
                let more = count(rules).saturating_sub(named.len() as u64);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                sentences.push(format!("{by}: {}{more}", named.join(", ")));
            }
            None => sentences.push(format!("{by} ({})", digest(rules))),
        }
    }
    if let Some(names) = words.get(NAMES) {
        let list = counted(count(names), "name", "names");
        sentences.push(format!("nothing but a list of {list} was asked for ({})", digest(names)));
    }
    let told = [
        (ONE_FILE_SYSTEM, "what is on other file systems than the source was left out"),
        (FOLLOW_LINKS, "links were followed: what they led to was copied in their place"),
    ];
    let told = told.into_iter().filter(|(key, _)| words.get(key).is_some());
    sentences.extend(told.map(|(_, sentence)| sentence.to_owned()));
    sentences
}

/// The first rules of a list.
fn named(list: &[Value]) -> Vec<String> {
    let rules = list.iter().filter_map(Value::as_str).take(RULES_NAMED_MAX);
    rules.map(|rule| format!("`{}`", Escaped(rule.as_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::message::FilterRule;

    fn rule(include: bool, pattern: &str) -> FilterRule {
        FilterRule { include, pattern: pattern.to_owned() }
    }

    fn words_of(selection: &Selection) -> Value {
        Value::Object(read(&Value::Object(Selected::of(selection).keys())))
    }

    #[test]
    fn what_was_asked_for_is_told_in_its_order_and_read_again_and_of_all_there_is_nothing_to_say() {
        assert_eq!(Selected::of(&Selection::default()), Selected::default());
        assert!(sentences(&words_of(&Selection::default())).is_empty());
        let selection = Selection {
            filter: vec![rule(true, "/a.h5"), rule(false, "*.h5"), rule(false, "\u{1b}[2J")],
            only: vec![RelativePath::new(b"b/c".to_vec()).unwrap(), RelativePath::new(vec![0xff]).unwrap()],
            one_file_system: true,
            follow_links: true,
            ..Selection::default()
        };
        let words = words_of(&selection);
        assert_eq!(words["rules"]["list"], json!(["+ /a.h5", "- *.h5", "- \u{1b}[2J"]));
        assert_eq!(words["rules"]["count"], 3);
        let by_hand = blake3::hash(b"b/c\0\xff\0").to_hex();
        assert_eq!(words["names"], json!({ "count": 2, "digest": by_hand.as_str() }));
        let told = sentences(&words);
        assert_eq!(told.len(), 4, "{told:?}");
        assert_eq!(told[0], "names were left out by 3 rules: `+ /a.h5`, `- *.h5`, `- \\x1b[2J`");
        assert!(told[1].contains("a list of 2 names") && told[1].contains(by_hand.as_str()), "{told:?}");
        // The order decides.
        let mut other = selection.clone();
        other.filter.swap(0, 1);
        assert_ne!(words_of(&other)["rules"]["digest"], words["rules"]["digest"]);
    }

    #[test]
    fn of_more_rules_than_a_header_has_room_for_number_and_digest_are_told() {
        let many: Vec<FilterRule> =
            (0..=RULES_MAX).map(|number| rule(false, &format!("*.{number}"))).collect();
        let long = vec![rule(false, &"x".repeat(RULES_BYTES_MAX))];
        for (filter, told) in [(many, "by 257 rules (BLAKE3 "), (long, "by 1 rule (BLAKE3 ")] {
            let words = words_of(&Selection { filter, ..Selection::default() });
            assert!(words.to_string().len() < 200, "{words}");
            let sentences = sentences(&words);
            assert!(sentences[0].contains(told), "{sentences:?}");
        }
        let some = (0..20).map(|number| rule(false, &format!("*.{number}"))).collect();
        let sentences = sentences(&words_of(&Selection { filter: some, ..Selection::default() }));
        assert!(sentences[0].ends_with("`- *.15` and 4 more"), "{sentences:?}");
    }

    #[test]
    fn what_is_of_another_form_is_no_word() {
        let odd = json!({ "rules": ["- *.h5"], "names": { "count": -1, "digest": "" }, "follow_links": "yes",
            "one_file_system": false });
        assert!(read(&odd).is_empty());
        let list = json!({ "rules": { "count": 2, "digest": "d", "list": ["- a", 7], "of": "nobody" } });
        assert_eq!(read(&list)["rules"], json!({ "count": 2, "digest": "d", "list": ["- a"] }));
    }
}
