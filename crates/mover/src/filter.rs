//! Which of the names that a scan finds are to move: one ordered list of include and exclude rules; the first that
//! matches decides, no match means included.
//!
//! Patterns mean what they mean to rsync:
//!
//! ```text
//! name        the last component, at any depth        *      any bytes but /
//! dir/name    these last components, at any depth     **     any bytes
//! /name       from the root of the transfer           ?      one byte but /
//! name/       directories only                        [a-z]  one byte of a set, [!a-z] or [^a-z] of its complement
//! dir/***     `dir` and everything below              \*     the byte itself
//! ```
//!
//! Everything is bytes: names need not be UTF-8 and `?` is one byte. As with rsync a backslash in a pattern
//! without `*`, `?` and `[` stands for itself. Unlike rsync a `[` that is never closed is an error, not a rule
//! that silently matches nothing.
//!
//! A rule is compiled to a bit-parallel automaton (Baeza-Yates and Gonnet, CACM 1992), so matching takes time
//! proportional to path length times pattern length / 64 whatever the two are: there is no pattern that a peer
//! could send to make it exponential.

use crate::failure::{Failure, FailureKind, Result};
use rule::Rule;
use thalweg_wire::RelativePath;
use thalweg_wire::message::FilterRule;
use thalweg_wire::path::Escaped;

/// Lines that people write.
mod lines;

/// One rule.
mod rule;

/// Its pattern, read.
mod pattern;

/// Its pattern, compiled.
mod automaton;

pub use lines::{parse_filter_line, parse_pattern_line};

/// With this begins why a name was skipped that the user's own rules leave out: nobody needs to be told.
pub const EXCLUDED_BY: &str = "excluded by";
/// Bytes of all patterns of a filter together.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Bytes that they take when they are compiled: a peer sends some, and a short one may take 200 times its own. Enough
/// for as many rules of the usual kind as one message holds.
pub const COMPILED_BYTES_MAX: usize = 8 << 20;

/// An ordered list of rules, compiled. The default has none and includes everything.
#[derive(Debug, Default)]
pub struct Filter {
    rules: Vec<Rule>,
    /// Memory that they take.
    bytes: usize,
}

/// What a filter says about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the entry is to be moved.
    pub included: bool,
    /// Index of the rule that decided; `None` if none matched.
    pub rule: Option<usize>,
}

impl Filter {
    /// Compiles the rules.
    ///
    /// # Errors
    /// `Usage`, naming the pattern: it is empty, holds a NUL or an unclosed `[`; or all together are longer than
    /// [`PATTERN_BYTES_MAX`], or take more than [`COMPILED_BYTES_MAX`].
    pub fn new(rules: Vec<FilterRule>) -> Result<Filter> {
        if rules.iter().map(|rule| rule.pattern.len()).sum::<usize>() > PATTERN_BYTES_MAX {
            return Err(usage(format!("the patterns are longer than {PATTERN_BYTES_MAX} bytes together")));
        }
        let (mut compiled, mut bytes) = (Vec::new(), 0);
        for rule in rules {
            let rule = Rule::new(rule)?;
            bytes += rule.bytes();
            if bytes > COMPILED_BYTES_MAX {
                return Err(usage(format!(
                    "the patterns take more than {} MiB when they are compiled: use fewer, or shorter ones where there \
                     are `*`, `?` and `[`",
                    COMPILED_BYTES_MAX >> 20
                )));
            }
            compiled.push(rule);
        }
        Ok(Filter { rules: compiled, bytes })
    }

    /// Memory that its rules take, at most [`COMPILED_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Decides about `path` alone: whether a directory above it is excluded is for the caller to know, who did
    /// not descend then. The root is always included.
    pub fn decide(&self, path: &RelativePath, is_dir: bool) -> Verdict {
        if !path.is_root()
            && let Some(index) = self.rules.iter().position(|rule| rule.matches(path.as_bytes(), is_dir))
        {
            return Verdict { included: self.rules[index].include, rule: Some(index) };
        }
        Verdict { included: true, rule: None }
    }

    /// The pattern of rule `index`, escaped for people; empty if there is no such rule.
    pub fn pattern(&self, index: usize) -> String {
        self.rules.get(index).map_or_else(String::new, |rule| Escaped(rule.pattern.as_bytes()).to_string())
    }

    /// Why `path` would be moved or left out, in one line, its directories considered.
    pub fn explain(&self, path: &RelativePath, is_dir: bool) -> String {
        let bytes = path.as_bytes();
        let parents = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in parents {
            let Ok(parent) = RelativePath::new(bytes[..end].to_vec()) else { continue };
            let verdict = self.decide(&parent, true);
            if let (false, Some(rule)) = (verdict.included, verdict.rule) {
                return format!("`{path}` is left out: its directory `{parent}` is {}", self.by_rule(rule));
            }
        }
        self.explain_alone(path, is_dir)
    }

    /// The same of a name from a list, which is looked at whatever becomes of its directories.
    pub fn explain_alone(&self, path: &RelativePath, is_dir: bool) -> String {
        let verdict = self.decide(path, is_dir);
        match verdict.rule {
            None => format!("`{path}` is moved: no rule matches it"),
            Some(rule) if verdict.included => format!("`{path}` is moved: it is {}", self.by_rule(rule)),
            Some(rule) => format!("`{path}` is left out: it is {}", self.by_rule(rule)),
        }
    }

    fn by_rule(&self, index: usize) -> String {
        let include = self.rules.get(index).is_some_and(|rule| rule.include);
        let (verb, sign) = if include { ("included", '+') } else { ("excluded", '-') };
        format!("{verb} by rule {} `{sign} {}`", index + 1, self.pattern(index))
    }
}

fn usage(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, "read the filter rules", cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn filter(rules: &[(bool, &str)]) -> Filter {
        let rules = rules.iter().map(|&(include, p)| FilterRule { include, pattern: p.to_owned() }).collect();
        Filter::new(rules).unwrap()
    }

    pub(super) fn path(path: &[u8]) -> RelativePath {
        RelativePath::new(path.to_vec()).unwrap()
    }

    pub(super) fn excluded(pattern: &str, name: &str, is_dir: bool) -> bool {
        !filter(&[(false, pattern)]).decide(&path(name.as_bytes()), is_dir).included
    }

    /// What rsync 3.5.0 does with the same pattern and path, tried.
    #[test]
    fn patterns_mean_what_they_mean_to_rsync() {
        let cases = [
            ("foo", "foo", true),
            ("foo", "a/foo", true),
            ("foo", "foo/x", false),
            ("*.o", "a/b.o", true),
            ("*.o", "a.o/b", false),
            ("/foo", "foo", true),
            ("/foo", "a/foo", false),
            ("foo/b", "a/foo/b", true),
            ("foo/b", "foo/c/b", false),
            ("oo/b", "a/foo/b", false),
            ("**/foo", "foo", true),
            ("**/foo", "a/foo", true),
            ("/**/foo", "foo", false),
            ("/**/foo", "a/foo", true),
            ("a**", "b/a/c/d", true),
            ("foo/**", "a/foo/b/x", true),
            ("foo/**", "a/foo", false),
            ("a/**/x", "a/foo/b/x", true),
            ("a/**/x", "a/x", false),
            ("**x", "a/foo/x", true),
            ("***", "a/b", true),
            ("/***", "a/b", true),
            ("a\\b", "a\\b", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("a\\?[b]", "a?b", true),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^a-c]x", "dx", true),
            ("[]x]", "]", true),
            ("[[:digit:]_]", "7", true),
            ("[[:digit:]_]", "_", true),
            ("[[:digit:]_]", "a", false),
            ("a[!b]c", "a/c", false),
            ("*", "a/b/c", true),
            ("/*", "a/b", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(excluded(pattern, name, false), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn a_trailing_slash_means_directories_and_three_stars_mean_all_of_one() {
        assert!(excluded("foo/", "a/foo", true) && !excluded("foo/", "a/foo", false));
        assert!(excluded("foo/***", "a/foo", true) && !excluded("foo/***", "a/foo", false));
        assert!(excluded("foo/***", "a/foo/b/c", false));
        assert!(excluded("/foo/***", "foo/b", false) && !excluded("/foo/***", "a/foo/b", false));
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let filter = filter(&[(true, "/keep/*.o"), (false, "*.o"), (true, "*")]);
        assert_eq!(filter.decide(&path(b"keep/a.o"), false), Verdict { included: true, rule: Some(0) });
        assert_eq!(filter.decide(&path(b"a.o"), false), Verdict { included: false, rule: Some(1) });
        assert_eq!(filter.decide(&path(b"a.c"), false), Verdict { included: true, rule: Some(2) });
        assert_eq!(filter.decide(&RelativePath::root(), true), Verdict { included: true, rule: None });
    }

    #[test]
    fn names_that_are_not_utf8_are_matched_by_byte() {
        let filter = filter(&[(false, "a?b"), (false, "*.tmp")]);
        assert!(!filter.decide(&path(b"x/a\xffb"), false).included);
        assert!(!filter.decide(&path(b"\xfe\n.tmp"), false).included);
        assert!(filter.decide(&path(b"a\xff\xffb"), false).included);
    }

    #[test]
    fn an_explanation_names_the_directory_and_the_rule() {
        let filter = filter(&[(false, "cache/"), (true, "*.c")]);
        assert_eq!(
            filter.explain(&path(b"a/cache/b.c"), false),
            "`a/cache/b.c` is left out: its directory `a/cache` is excluded by rule 1 `- cache/`"
        );
        assert_eq!(filter.explain(&path(b"b.c"), false), "`b.c` is moved: it is included by rule 2 `+ *.c`");
        assert_eq!(filter.explain(&path(b"b.h"), false), "`b.h` is moved: no rule matches it");
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused_by_name() {
        for pattern in ["", "/", "//", "a[b", "a\0b", "x/[a-"] {
            let rules = vec![FilterRule { include: false, pattern: pattern.to_owned() }];
            let failure = Filter::new(rules).unwrap_err();
            assert_eq!(failure.kind, FailureKind::Usage);
            assert!(failure.cause.contains(&Escaped(pattern.as_bytes()).to_string()), "{failure}");
        }
        let long = FilterRule { include: true, pattern: "x".repeat(PATTERN_BYTES_MAX + 1) };
        assert!(Filter::new(vec![long]).is_err());
    }
}
