//! A pattern as a bit-parallel automaton.

use super::pattern::Token;
use std::collections::HashMap;

/// The tokens as one row of bits: bit `i` is set while the first `i` tokens match what was read. Reading a byte
/// moves every bit whose token takes it one to the left; a star's bit stays, and reaches the bit behind it
/// without reading anything.
#[derive(Debug)]
pub(super) struct Automaton {
    words: usize,
    /// For each byte its row in `takes`: bytes that no token tells apart share one.
    rows: Box<[u8; 256]>,
    /// Which tokens take a byte and are done with it: `words` words in a row.
    pub(super) takes: Vec<u64>,
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
    pub(super) fn new(tokens: &[Token], anchored: bool, below: bool) -> Automaton {
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
    pub(super) fn bytes(&self) -> usize {
        let words = self.takes.len() + self.any.len() + self.any_deep.len() + self.start.len();
        self.rows.len() + words * size_of::<u64>()
    }

    pub(super) fn matches(&self, text: &[u8], is_dir: bool) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::filter::pattern::parse;
    use crate::filter::tests::{excluded, filter, path};
    use proptest::prelude::*;
    use std::time::{Duration, Instant};
    use thalweg_wire::RelativePath;
    use thalweg_wire::message::FilterRule;

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

    /// Found by the property below: a file at the top is below no directory.
    #[test]
    fn what_is_below_any_directory_is_no_file_at_the_top() {
        let pattern = "**/***";
        for (name, is_dir, is_it) in
            [("*", false, false), ("a", false, false), ("a", true, true), ("a/b", false, true)]
        {
            assert_eq!(excluded(pattern, name, is_dir), is_it, "{name}");
            assert_eq!(naive_rule(pattern, name.as_bytes(), is_dir), is_it, "{name}");
        }
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
