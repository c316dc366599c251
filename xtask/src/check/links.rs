//! Links of pages, and the anchors that their headings have.

use super::text::prose_lines;
use std::collections::{BTreeMap, BTreeSet};

/// A link that a page has outside of its code.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    /// The line of the page, from 1.
    pub line: usize,
    /// What stands before `#`; empty where the link stays on its page.
    pub file: String,
    /// What stands behind it.
    pub anchor: Option<String>,
}

/// All links of a page, in order.
pub fn of(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, shown) in prose_lines(text) {
        let prose: String = shown.split('`').step_by(2).collect();
        for link in prose.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let (file, anchor) = match target.split_once('#') {
                Some((file, anchor)) => (file, Some(anchor.to_owned())),
                None => (target, None),
            };
            links.push(Link { line, file: file.to_owned(), anchor });
        }
    }
    links
}

/// The anchors of a page's headings, by GitHub's rule.
pub fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose_lines(text) {
        let words = line.trim_start_matches('#');
        let depth = line.len() - words.len();
        if !(1..=6).contains(&depth) || !words.starts_with(' ') {
            continue;
        }
        let anchor = anchor(words);
        let before = times.entry(anchor.clone()).or_default();
        anchors.insert(match before {
            0 => anchor,
            _ => format!("{anchor}-{before}"),
        });
        *before += 1;
    }
    anchors
}

/// Of a heading's words, as they are shown, letters, digits, `-` and `_` are left, small; each blank is `-`.
fn anchor(words: &str) -> String {
    let mut shown = String::new();
    let mut parts = words.split("](");
    shown.push_str(parts.next().unwrap_or_default());
    for part in parts {
        // Where a link leads is not shown.
        shown.push_str(part.split_once(')').map_or("", |(_, behind)| behind));
    }
    let kept = shown.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code_with_their_anchors() {
        let text = "[a](b.md#c), `[d](e.md)`\n```\n[f](g.md)\n```\n[`h`](#i) [j](k/)";
        let link = |line, file: &str, anchor: Option<&str>| Link {
            line,
            file: file.to_owned(),
            anchor: anchor.map(str::to_owned),
        };
        assert_eq!(of(text), [link(1, "b.md", Some("c")), link(5, "", Some("i")), link(5, "k/", None)]);
    }

    #[test]
    fn a_heading_has_the_anchor_that_github_gives_it() {
        for (heading, wanted) in [
            (" In short", "in-short"),
            (" As a service", "as-a-service"),
            (" `--and`: both ways, at once ", "--and-both-ways-at-once"),
            (" Eq 6 & what it_says", "eq-6--what-it_says"),
            (" The [map](#the-map), again", "the-map-again"),
            (" Größe: 5 µs", "größe-5-µs"),
        ] {
            assert_eq!(anchor(heading), wanted);
        }
    }

    #[test]
    fn headings_that_are_alike_are_counted_and_what_is_no_heading_has_no_anchor() {
        let text = "# A\n## A\ntext\n### A\n#b\n####### c\n```sh\n# d\n```\n    # e\n";
        let found: Vec<String> = anchors(text).into_iter().collect();
        assert_eq!(found, ["a", "a-1", "a-2"]);
    }
}
