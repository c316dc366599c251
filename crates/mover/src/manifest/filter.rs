//! One ordered list of include and exclude rules; the first that matches decides, no match means included.
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
use std::collections::HashMap;
use thalweg_wire::RelativePath;
use thalweg_wire::message::FilterRule;
use thalweg_wire::path::Escaped;

/// Bytes of all patterns of a filter together.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Bytes that they take when they are compiled: a peer sends some, and a short one may take 200 times its own. Enough for
/// as many rules of the usual kind as one message holds.
pub const COMPILED_BYTES_MAX: usize = 8 << 20;

/// An ordered list of rules, compiled. The default has none and includes everything.
#[derive(Debug, Default)]
pub struct Filter {
    rules: Vec<Rule>,
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
        Ok(Filter { rules: compiled })
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

/// Reads one line of a filter file or a `--filter`: `+ pattern` or `- pattern` (or `include`, `exclude`).
/// `None` for an empty line and a comment (`#` or `;`).
///
/// # Errors
/// `Usage` for anything else; rsync's merge files and modifiers are not known here.
pub fn parse_filter_line(line: &str) -> Result<Option<FilterRule>> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let line = line.strip_suffix('\r').unwrap_or(line);
    if line.trim().is_empty() || line.starts_with(['#', ';']) {
        return Ok(None);
    }
    let starts = [("+ ", true), ("- ", false), ("include ", true), ("exclude ", false)];
    match starts.iter().find_map(|(start, include)| Some((line.strip_prefix(start)?, *include))) {
        Some((pattern, include)) if !pattern.is_empty() => {
            Ok(Some(FilterRule { include, pattern: pattern.to_owned() }))
        }
        _ => Err(usage(format!(
            "the filter rule `{}` is not understood: write `+ PATTERN` or `- PATTERN`",
            Escaped(line.as_bytes())
        ))),
    }
}

/// Reads one line of an `--exclude-from` or `--include-from` file: a pattern, or a rule with its own sign.
///
/// # Errors
/// As [`parse_filter_line`].
pub fn parse_pattern_line(line: &str, include: bool) -> Result<Option<FilterRule>> {
    let bare = line.trim_end_matches(['\n', '\r']);
    if bare.starts_with("+ ")
        || bare.starts_with("- ")
        || bare.trim().is_empty()
        || bare.starts_with(['#', ';'])
    {
        return parse_filter_line(line);
    }
    Ok(Some(FilterRule { include, pattern: bare.to_owned() }))
}

fn usage(cause: String) -> Failure {
    Failure::new(FailureKind::Usage, "filter", cause)
}

#[derive(Debug)]
struct Rule {
    include: bool,
    pattern: String,
    directories_only: bool,
    /// Sees the last component alone.
    name_only: bool,
    matcher: Matcher,
}

#[derive(Debug)]
enum Matcher {
    /// Exactly these bytes. Most rules of most people are this or the next.
    Literal(Vec<u8>),
    /// `*` and then these bytes.
    Suffix(Vec<u8>),
    Automaton(Automaton),
}

impl Rule {
    fn new(rule: FilterRule) -> Result<Rule> {
        let bytes = rule.pattern.as_bytes();
        let refuse = |why: &str| Err(usage(format!("the pattern `{}` {why}", Escaped(bytes))));
        if bytes.iter().all(|&byte| byte == b'/') {
            return refuse("names nothing");
        }
        if bytes.contains(&0) {
            return refuse("holds a NUL");
        }
        let anchored = bytes[0] == b'/';
        let body = &bytes[usize::from(anchored)..];
        let (body, below) = match body.strip_suffix(b"/***") {
            Some(directory) => (directory, true),
            None => (body, false),
        };
        let (body, directories_only) = match body.strip_suffix(b"/") {
            Some(directory) if !below => (directory, true),
            _ => (body, false),
        };
        let Some(tokens) = parse(body) else {
            return refuse("has a `[` that is not closed: write `\\[` for the byte itself");
        };
        let crosses = tokens.iter().any(|token| matches!(token, Token::Byte(b'/') | Token::AnyDeep));
        let name_only = !anchored && !below && !crosses;
        let literal = |tokens: &[Token]| -> Option<Vec<u8>> {
            tokens
                .iter()
                .map(|token| if let Token::Byte(byte) = token { Some(*byte) } else { None })
                .collect()
        };
        let matcher = match (&tokens[..], literal(&tokens)) {
            (_, Some(bytes)) if (anchored || name_only) && !below => Matcher::Literal(bytes),
            ([Token::Any, rest @ ..], _) if name_only && literal(rest).is_some() => {
                Matcher::Suffix(literal(rest).unwrap_or_default())
            }
            _ => Matcher::Automaton(Automaton::new(&tokens, anchored || name_only, below)),
        };
        Ok(Rule { include: rule.include, pattern: rule.pattern, directories_only, name_only, matcher })
    }

    /// Memory that it takes.
    fn bytes(&self) -> usize {
        let heap = match &self.matcher {
            Matcher::Literal(bytes) | Matcher::Suffix(bytes) => bytes.len(),
            Matcher::Automaton(automaton) => automaton.bytes(),
        };
        size_of::<Rule>() + self.pattern.len() + heap
    }

    fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.directories_only && !is_dir {
            return false;
        }
        let text = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) if self.name_only => &path[slash + 1..],
            _ => path,
        };
        match &self.matcher {
            Matcher::Literal(bytes) => text == bytes,
            Matcher::Suffix(bytes) => text.ends_with(bytes),
            Matcher::Automaton(automaton) => automaton.matches(text, is_dir),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`
    One,
    /// `[...]`: the bytes it takes; never `/`.
    Set(Box<[bool; 256]>),
    /// `*`
    Any,
    /// `**`
    AnyDeep,
}

/// Splits a pattern; `None` for an unclosed set.
fn parse(pattern: &[u8]) -> Option<Vec<Token>> {
    let is_wild = pattern.iter().any(|byte| b"*?[".contains(byte));
    if !is_wild {
        return Some(pattern.iter().map(|&byte| Token::Byte(byte)).collect());
    }
    let mut tokens = Vec::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        tokens.push(match byte {
            b'*' => {
                let stars = rest.iter().take_while(|&&byte| byte == b'*').count();
                rest = &rest[stars..];
                if stars == 0 { Token::Any } else { Token::AnyDeep }
            }
            b'?' => Token::One,
            b'[' => {
                let (set, after) = parse_set(rest)?;
                rest = after;
                Token::Set(set)
            }
            b'\\' => match rest.split_first() {
                Some((&escaped, after)) => {
                    rest = after;
                    Token::Byte(escaped)
                }
                None => Token::Byte(b'\\'),
            },
            other => Token::Byte(other),
        });
    }
    Some(tokens)
}

/// Reads a set from behind its `[`; returns what stands behind its `]`.
fn parse_set(bytes: &[u8]) -> Option<(Box<[bool; 256]>, &[u8])> {
    let mut set = Box::new([false; 256]);
    let (negated, mut rest) = match bytes {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    let mut is_first = true;
    loop {
        let (&byte, after) = rest.split_first()?;
        if byte == b']' && !is_first {
            rest = after;
            break;
        }
        is_first = false;
        if let Some((class, after)) = rest.strip_prefix(b"[:").and_then(class) {
            for byte in (0..=255u8).filter(|&byte| class(byte)) {
                set[usize::from(byte)] = true;
            }
            rest = after;
            continue;
        }
        let (low, after) = set_member(rest)?;
        rest = after;
        let high = match rest {
            [b'-', next, ..] if *next != b']' => {
                let (high, after) = set_member(&rest[1..])?;
                rest = after;
                high
            }
            _ => low,
        };
        for byte in low..=high {
            set[usize::from(byte)] = true;
        }
    }
    if negated {
        set.iter_mut().for_each(|taken| *taken = !*taken);
    }
    set[usize::from(b'/')] = false;
    Some((set, rest))
}

fn set_member(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

type Class = fn(u8) -> bool;

/// `alpha:]` and so on, from behind the `[:`.
fn class(bytes: &[u8]) -> Option<(Class, &[u8])> {
    const CLASSES: [(&[u8], Class); 12] = [
        (b"alnum", |b| b.is_ascii_alphanumeric()),
        (b"alpha", |b| b.is_ascii_alphabetic()),
        (b"blank", |b| b == b' ' || b == b'\t'),
        (b"cntrl", |b| b.is_ascii_control()),
        (b"digit", |b| b.is_ascii_digit()),
        (b"graph", |b| b.is_ascii_graphic()),
        (b"lower", |b| b.is_ascii_lowercase()),
        (b"print", |b| b.is_ascii_graphic() || b == b' '),
        (b"punct", |b| b.is_ascii_punctuation()),
        (b"space", |b| b.is_ascii_whitespace() || b == 0x0b),
        (b"upper", |b| b.is_ascii_uppercase()),
        (b"xdigit", |b| b.is_ascii_hexdigit()),
    ];
    CLASSES.iter().find_map(|(name, class)| {
        let rest = bytes.strip_prefix(*name)?.strip_prefix(b":]")?;
        Some((*class, rest))
    })
}

/// The tokens as one row of bits: bit `i` is set while the first `i` tokens match what was read. Reading a byte
/// moves every bit whose token takes it one to the left; a star's bit stays, and reaches the bit behind it
/// without reading anything.
#[derive(Debug)]
struct Automaton {
    words: usize,
    /// For each byte its row in `takes`: bytes that no token tells apart share one.
    rows: Box<[u8; 256]>,
    /// Which tokens take a byte and are done with it: `words` words in a row.
    takes: Vec<u64>,
    /// Tokens that take any number of bytes but `/`, or of all bytes.
    any: Vec<u64>,
    any_deep: Vec<u64>,
    /// Bits that hold before anything is read, and again behind every `/` if not anchored.
    start: Vec<u64>,
    anchored: bool,
    accept: usize,
    /// For `dir/***`: accepts a directory here already.
    accept_directory: Option<usize>,
}

impl Automaton {
    fn new(tokens: &[Token], anchored: bool, below: bool) -> Automaton {
        let at_top_too = !anchored && tokens.starts_with(&[Token::AnyDeep, Token::Byte(b'/')]);
        let mut tokens = tokens.to_vec();
        let accept_directory = below.then_some(tokens.len());
        if below {
            tokens.extend([Token::Byte(b'/'), Token::AnyDeep]);
        }
        let words = tokens.len() / 64 + 1;
        let mut automaton = Automaton {
            words,
            rows: Box::new([0; 256]),
            takes: Vec::new(),
            any: vec![0; words],
            any_deep: vec![0; words],
            start: vec![0; words],
            anchored,
            accept: tokens.len(),
            accept_directory,
        };
        let mut takes = vec![0; 256 * words];
        for (index, token) in tokens.iter().enumerate() {
            let (word, bit) = (index / 64, 1u64 << (index % 64));
            match token {
                Token::Any => automaton.any[word] |= bit,
                Token::AnyDeep => automaton.any_deep[word] |= bit,
                _ => {
                    for byte in (0..=255u8).filter(|&byte| token.takes(byte)) {
                        takes[usize::from(byte) * words + word] |= bit;
                    }
                }
            }
        }
        let mut known: HashMap<&[u64], u8> = HashMap::new();
        for (row, takes) in automaton.rows.iter_mut().zip(takes.chunks_exact(words)) {
            let next = known.len() as u8;
            *row = *known.entry(takes).or_insert_with(|| {
                automaton.takes.extend_from_slice(takes);
                next
            });
        }
        automaton.takes.shrink_to_fit();
        automaton.start[0] = 1;
        // As in rsync, `**/x` also stands for `x` at the top; `/**/x` does not.
        if at_top_too {
            automaton.start[0] |= 1 << 2;
        }
        let mut start = std::mem::take(&mut automaton.start);
        automaton.close(&mut start);
        automaton.start = start;
        automaton
    }

    /// Memory that it takes, beside itself.
    fn bytes(&self) -> usize {
        let words = self.takes.len() + self.any.len() + self.any_deep.len() + self.start.len();
        self.rows.len() + words * size_of::<u64>()
    }

    fn matches(&self, text: &[u8], is_dir: bool) -> bool {
        let mut inline = [0u64; 4];
        let mut heap = Vec::new();
        let state: &mut [u64] = if self.words <= inline.len() {
            &mut inline[..self.words]
        } else {
            heap.resize(self.words, 0);
            &mut heap
        };
        state.copy_from_slice(&self.start);
        for &byte in text {
            self.step(state, byte);
            if byte == b'/' && !self.anchored {
                state.iter_mut().zip(&self.start).for_each(|(word, start)| *word |= start);
            } else if self.anchored && state.iter().all(|&word| word == 0) {
                return false;
            }
        }
        let holds = |bit: usize| state[bit / 64] & (1 << (bit % 64)) != 0;
        holds(self.accept) || (is_dir && self.accept_directory.is_some_and(holds))
    }

    fn step(&self, state: &mut [u64], byte: u8) {
        let row = usize::from(self.rows[usize::from(byte)]);
        let takes = &self.takes[row * self.words..][..self.words];
        let mut carry = 0;
        for (index, word) in state.iter_mut().enumerate() {
            let stays =
                if byte == b'/' { self.any_deep[index] } else { self.any[index] | self.any_deep[index] };
            let moved = *word & takes[index];
            let next = (moved << 1) | carry | (*word & stays);
            carry = moved >> 63;
            *word = next;
        }
        self.close(state);
    }

    /// Steps over stars, which may take nothing. Two never stand side by side, so one step is enough.
    fn close(&self, state: &mut [u64]) {
        let mut carry = 0;
        for (index, word) in state.iter_mut().enumerate() {
            let stars = *word & (self.any[index] | self.any_deep[index]);
            *word |= (stars << 1) | carry;
            carry = stars >> 63;
        }
    }
}

impl Token {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(own) => *own == byte,
            Token::One => byte != b'/',
            Token::Set(set) => set[usize::from(byte)],
            Token::Any | Token::AnyDeep => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn filter(rules: &[(bool, &str)]) -> Filter {
        let rules = rules.iter().map(|&(include, p)| FilterRule { include, pattern: p.to_owned() }).collect();
        Filter::new(rules).unwrap()
    }

    fn path(path: &[u8]) -> RelativePath {
        RelativePath::new(path.to_vec()).unwrap()
    }

    fn excluded(pattern: &str, name: &str, is_dir: bool) -> bool {
        !filter(&[(false, pattern)]).decide(&path(name.as_bytes()), is_dir).included
    }

    #[test]
    fn a_message_of_short_patterns_takes_no_more_memory_than_is_said() {
        let rules = |pattern: &dyn Fn(usize) -> String| {
            let rule = |at| FilterRule { include: false, pattern: pattern(at) };
            Filter::new((0..thalweg_wire::limits::MESSAGE_ITEMS_MAX).map(rule).collect())
        };
        // Each is two or three bytes long.
        for short in ["?a", "[a]", "a/b", "**"] {
            let filter = rules(&|_| short.to_owned()).unwrap();
            let bytes: usize = filter.rules.iter().map(Rule::bytes).sum();
            assert!(bytes <= COMPILED_BYTES_MAX, "{short}: {bytes}");
            let longest = filter.rules.iter().map(|rule| match &rule.matcher {
                Matcher::Automaton(automaton) => automaton.takes.len(),
                _ => 0,
            });
            assert!(longest.max().unwrap() <= 4, "{short}: not a row for each byte");
        }
        // As many bytes as may be sent, and most of them in rows of their own.
        let letters: String = (' '..='~').filter(|letter| !"*?[\\/".contains(*letter)).collect();
        let failure = rules(&|_| format!("?{letters}")).unwrap_err();
        assert!(failure.cause.contains("8 MiB"), "{failure}");
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

    #[test]
    fn filter_lines_have_signs_and_comments() {
        let rule = |include, pattern: &str| Some(FilterRule { include, pattern: pattern.to_owned() });
        assert_eq!(parse_filter_line("- *.o\n").unwrap(), rule(false, "*.o"));
        assert_eq!(parse_filter_line("+ a b").unwrap(), rule(true, "a b"));
        assert_eq!(parse_filter_line("include x\r\n").unwrap(), rule(true, "x"));
        for nothing in ["", "  ", "# - x", "; y"] {
            assert_eq!(parse_filter_line(nothing).unwrap(), None);
        }
        for refused in ["x", "- ", ". file", "!", "-! x"] {
            assert!(parse_filter_line(refused).is_err(), "{refused}");
        }
        assert_eq!(parse_pattern_line("*.o", false).unwrap(), rule(false, "*.o"));
        assert_eq!(parse_pattern_line("+ *.o", false).unwrap(), rule(true, "*.o"));
        assert_eq!(parse_pattern_line("# x", false).unwrap(), None);
    }

    #[test]
    fn no_pattern_takes_exponential_time() {
        let pattern = format!("/{}b", "**a*".repeat(500));
        let filter = filter(&[(false, &pattern)]);
        let text = path(&[b"a".repeat(200), b"/".to_vec()].concat().repeat(50)[..10_049]);
        // What is exponential here takes longer than there is time.
        let start = Instant::now();
        assert!(filter.decide(&text, false).included);
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }

    /// The definition, without any thought of speed.
    fn naive(tokens: &[Token], text: &[u8]) -> bool {
        let Some((token, rest)) = tokens.split_first() else { return text.is_empty() };
        match token {
            Token::Any | Token::AnyDeep => (0..=text.len()).any(|taken| {
                (*token == Token::AnyDeep || !text[..taken].contains(&b'/')) && naive(rest, &text[taken..])
            }),
            _ => text.split_first().is_some_and(|(&byte, after)| token.takes(byte) && naive(rest, after)),
        }
    }

    fn naive_rule(pattern: &str, path: &[u8], is_dir: bool) -> bool {
        let anchored = pattern.starts_with('/');
        let body = pattern.strip_prefix('/').unwrap_or(pattern);
        let starts = |text: &[u8]| -> Vec<usize> {
            std::iter::once(0)
                .chain(text.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| i + 1))
                .collect()
        };
        let at_any = |tokens: &[Token], text: &[u8]| {
            starts(text).iter().any(|&at| {
                (at == 0 || !anchored)
                    && (naive(tokens, &text[at..])
                        || !anchored
                            && tokens.starts_with(&[Token::AnyDeep, Token::Byte(b'/')])
                            && naive(&tokens[2..], &text[at..]))
            })
        };
        if let Some(directory) = body.strip_suffix("/***") {
            let tokens = parse(directory.as_bytes()).unwrap();
            let ends = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| i);
            return is_dir && at_any(&tokens, path)
                || ends.into_iter().any(|end| at_any(&tokens, &path[..end]));
        }
        let (body, only_dir) = body.strip_suffix('/').map_or((body, false), |body| (body, true));
        let tokens = parse(body.as_bytes()).unwrap();
        let deep = tokens.iter().any(|t| matches!(t, Token::AnyDeep | Token::Byte(b'/')));
        let text = if anchored || deep { path } else { path.rsplit(|&b| b == b'/').next().unwrap() };
        (is_dir || !only_dir) && at_any(&tokens, text)
    }

    fn pattern() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[ab]", 2 => Just("/".to_owned()), 2 => Just("*".to_owned()), 1 => Just("**".to_owned()),
            1 => Just("?".to_owned()), 1 => Just("[a]".to_owned()), 1 => Just("[!b]".to_owned()),
            1 => Just("\\*".to_owned()), 1 => Just("/***".to_owned()),
        ];
        proptest::collection::vec(piece, 1..8)
            .prop_map(|pieces| pieces.concat())
            .prop_filter("names something", |p| p.bytes().any(|b| b != b'/'))
    }

    fn some_path() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec("[ab*]{1,3}", 1..5).prop_map(|names| names.join("/").into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn the_automaton_agrees_with_the_definition(pattern in pattern(), name in some_path(), is_dir in any::<bool>()) {
            prop_assume!(!pattern.trim_start_matches('/').starts_with("***") || !pattern.starts_with("//"));
            let found = excluded(&pattern, std::str::from_utf8(&name).unwrap(), is_dir);
            prop_assert_eq!(found, naive_rule(&pattern, &name, is_dir));
        }

        #[test]
        fn long_patterns_agree_too(pieces in proptest::collection::vec("[ab]|\\*|/a", 60..150), flip in any::<u8>()) {
            let pattern = format!("/{}", pieces.concat().replace("//", "/"));
            let text = pattern[1..].replace('*', if flip & 1 == 0 { "" } else { "ba" });
            prop_assume!(RelativePath::new(text.clone().into_bytes()).is_ok());
            prop_assert!(excluded(&pattern, &text, true));
            let below = text + "/q";
            prop_assert!(!excluded(&pattern, &below, false) || pattern.contains("**"));
        }

        #[test]
        fn any_text_is_a_rule_or_refused(pattern in ".{0,20}", name in some_path()) {
            if let Ok(filter) = Filter::new(vec![FilterRule { include: false, pattern }]) {
                filter.decide(&RelativePath::new(name).unwrap(), false);
            }
        }
    }
}
