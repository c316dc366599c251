//! One rule, compiled to what its pattern needs: bytes to compare, or an automaton.

use super::automaton::Automaton;
use super::pattern::{Token, parse};
use super::usage;
use crate::failure::Result;
use thalweg_wire::message::FilterRule;
use thalweg_wire::path::Escaped;

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) include: bool,
    pub(super) pattern: String,
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
    pub(super) fn new(rule: FilterRule) -> Result<Rule> {
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
    pub(super) fn bytes(&self) -> usize {
        let heap = match &self.matcher {
            Matcher::Literal(bytes) | Matcher::Suffix(bytes) => bytes.len(),
            Matcher::Automaton(automaton) => automaton.bytes(),
        };
        size_of::<Rule>() + self.pattern.len() + heap
    }

    pub(super) fn matches(&self, path: &[u8], is_dir: bool) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{COMPILED_BYTES_MAX, Filter};

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
            assert_eq!(filter.bytes(), bytes);
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
}
