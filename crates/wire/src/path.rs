//! Names inside a transfer: bytes, relative, and unable to point outside.

use crate::{DecodeError, limits};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;

/// A path relative to the root of a transfer. Holds no empty, `.` or `..` component, no leading, trailing or
/// doubled slash and no NUL, whoever sent it; the empty path is the root itself.
///
/// Bytes, not text: equality and order are those of the bytes. [`fmt::Display`] escapes what a terminal, a
/// log or a person could misread; use [`RelativePath::as_bytes`] for everything else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelativePath(Vec<u8>);

impl RelativePath {
    /// The root of the transfer.
    pub const fn root() -> Self {
        RelativePath(Vec::new())
    }

    /// Checks and takes over `bytes`.
    ///
    /// # Errors
    /// `Invalid` for any component that could leave the root or does not name a file, `TooLarge` beyond
    /// [`limits::PATH_BYTES_MAX`] or for a component beyond [`limits::NAME_BYTES_MAX`].
    pub fn new(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        if bytes.is_empty() {
            return Ok(RelativePath(bytes));
        }
        check_length("path", bytes.len(), limits::PATH_BYTES_MAX)?;
        for component in bytes.split(|&b| b == b'/') {
            check_name(component)?;
        }
        Ok(RelativePath(bytes))
    }

    /// This path with one more component.
    ///
    /// # Errors
    /// As [`RelativePath::new`]; `name` must be a single component.
    pub fn join(&self, name: &[u8]) -> Result<Self, DecodeError> {
        check_name(name)?;
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        check_length("path", bytes.len(), limits::PATH_BYTES_MAX)?;
        Ok(RelativePath(bytes))
    }

    /// The directory above and the last component; `None` for the root.
    pub fn split(&self) -> Option<(&[u8], &[u8])> {
        if self.0.is_empty() {
            return None;
        }
        Some(match self.0.iter().rposition(|&b| b == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[][..], &self.0[..]),
        })
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &[u8] {
        self.split().map_or(&[][..], |(_, name)| name)
    }

    /// The directories that it is in, outermost first, without the root.
    pub fn directories_above(&self) -> impl Iterator<Item = &[u8]> {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.map(move |(at, _)| &self.0[..at])
    }

    /// The path as it is on disk.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True for the root of the transfer.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is in this directory, at any depth; everything, the root too, is in the root.
    pub fn is_below(&self, directory: &RelativePath) -> bool {
        let rest = self.0.strip_prefix(directory.as_bytes());
        directory.is_root() || rest.is_some_and(|rest| rest.starts_with(b"/"))
    }

    /// By the order of listings: component by component, so that what is in a directory follows it at once.
    pub fn cmp_in_listing(&self, other: &RelativePath) -> Ordering {
        self.0.split(|&byte| byte == b'/').cmp(other.0.split(|&byte| byte == b'/'))
    }

    /// Number of components; 0 for the root.
    pub fn depth(&self) -> usize {
        if self.0.is_empty() { 0 } else { self.0.iter().filter(|&&b| b == b'/').count() + 1 }
    }
}

fn check_length(what: &'static str, value: usize, limit: usize) -> Result<(), DecodeError> {
    if value > limit {
        return Err(DecodeError::TooLarge { what, value: value as u64, limit: limit as u64 });
    }
    Ok(())
}

/// Whether `name` can be one component of a [`RelativePath`].
///
/// # Errors
/// As [`RelativePath::new`].
pub fn check_name(name: &[u8]) -> Result<(), DecodeError> {
    if name.is_empty() || name == b"." || name == b".." || name.iter().any(|&b| b == 0 || b == b'/') {
        return Err(DecodeError::Invalid { what: "path component" });
    }
    check_length("path component", name.len(), limits::NAME_BYTES_MAX)
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str(".") } else { write!(f, "{}", Escaped(&self.0)) }
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// Shows bytes so that they are inert on a terminal and can be read back: printable UTF-8 stays, everything
/// that is not (control characters including C1, invalid bytes, direction marks, the backslash itself)
/// becomes `\xNN` for each byte. [`unescape`] is the inverse.
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let escaped = |f: &mut fmt::Formatter<'_>, bytes: &[u8]| {
            bytes.iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))
        };
        for piece in self.0.utf8_chunks() {
            let mut rest = piece.valid();
            // What needs nothing is written at once: most names as a whole.
            while let Some((at, character)) = rest.char_indices().find(|(_, character)| !is_inert(*character))
            {
                let (inert, other) = rest.split_at(at);
                let (other, behind) = other.split_at(character.len_utf8());
                f.write_str(inert)?;
                escaped(f, other.as_bytes())?;
                rest = behind;
            }
            f.write_str(rest)?;
            escaped(f, piece.invalid())?;
        }
        Ok(())
    }
}

/// A sentence of somebody else, inert as by [`Escaped`]. Names in it are escaped already, so the backslash stays.
pub struct Sentence<'a>(pub &'a str);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, piece) in self.0.split('\\').enumerate() {
            let separator = if at > 0 { "\\" } else { "" };
            write!(f, "{separator}{}", Escaped(piece.as_bytes()))?;
        }
        Ok(())
    }
}

/// Whether a terminal, a log or a person takes this character for nothing but itself. The backslash is not: it escapes.
pub fn is_inert(c: char) -> bool {
    let invisible_or_directional = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}');
    c != '\\' && !c.is_control() && !invisible_or_directional
}

/// Reads back what [`Escaped`] wrote.
///
/// # Errors
/// `Invalid` for a backslash that no `xNN` follows.
pub fn unescape(text: &str) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'\\' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let byte = after
            .strip_prefix(b"x")
            .and_then(|hex| hex.get(..2))
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .ok_or(DecodeError::Invalid { what: "escape in a name" })?;
        bytes.push(byte);
        rest = &after[3..];
    }
    Ok(bytes)
}

impl Serialize for RelativePath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for RelativePath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: &[u8] = serde_bytes::Deserialize::deserialize(deserializer)?;
        RelativePath::new(bytes.to_vec()).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_that_could_leave_the_root_is_refused() {
        for hostile in [
            &b".."[..],
            b"a/..",
            b"../a",
            b"a/../b",
            b"/a",
            b"/",
            b"a/",
            b"a//b",
            b".",
            b"a/./b",
            b"a\0b",
            b"\0",
        ] {
            assert!(RelativePath::new(hostile.to_vec()).is_err(), "{}", Escaped(hostile));
        }
        assert!(RelativePath::new(vec![b'a'; 256]).is_err());
        assert!(RelativePath::new([b'a', b'/'].repeat(limits::PATH_BYTES_MAX)).is_err());
        assert!(RelativePath::root().join(b"a/b").is_err());
    }

    #[test]
    fn the_directories_above_a_path_come_outermost_first_and_without_the_root() {
        let above = |path: &[u8]| {
            let path = RelativePath::new(path.to_vec()).unwrap();
            path.directories_above().map(<[u8]>::to_vec).collect::<Vec<Vec<u8>>>()
        };
        assert_eq!(above(b"a/bc/d"), [b"a".to_vec(), b"a/bc".to_vec()]);
        assert!(above(b"a").is_empty() && above(b"").is_empty());
    }

    #[test]
    fn a_name_is_shown_inert() {
        let shown = Escaped(b"a\x1b[31m\n\xff\xc2\x9b\\ \xe2\x80\xae\xc3\xa9").to_string();
        assert_eq!(shown, "a\\x1b[31m\\x0a\\xff\\xc2\\x9b\\x5c \\xe2\\x80\\xae\u{e9}");
    }

    #[test]
    fn a_name_in_a_sentence_is_escaped_once() {
        let sentence = format!("its first name `{}` is gone\x1b[2J", Escaped(b"a\nb"));
        assert_eq!(Sentence(&sentence).to_string(), "its first name `a\\x0ab` is gone\\x1b[2J");
        assert_eq!(Sentence("\\").to_string(), "\\");
    }

    proptest! {
        #[test]
        fn escaping_loses_nothing_and_leaves_no_control_byte(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let shown = Escaped(&bytes).to_string();
            prop_assert!(!shown.chars().any(char::is_control));
            prop_assert_eq!(unescape(&shown).unwrap(), bytes);
        }

        #[test]
        fn an_accepted_path_stays_below_its_root(bytes in proptest::collection::vec(prop_oneof![Just(b'/'), Just(b'.'), any::<u8>()], 0..24)) {
            if let Ok(path) = RelativePath::new(bytes) {
                let mut depth = 0i32;
                for component in path.as_bytes().split(|&b| b == b'/') {
                    prop_assert!(component != b"..");
                    depth += i32::from(!component.is_empty());
                }
                prop_assert_eq!(depth as usize, path.depth());
            }
        }
    }
}
