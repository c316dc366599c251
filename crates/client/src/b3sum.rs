//! Lists of digests as `b3sum` writes and checks them: a line for each file.
//!
//! ```text
//! DIGEST  NAME              64 hexadecimal digits, two spaces
//! BLAKE3 (NAME) = DIGEST    with --tag
//! \DIGEST  NAME             in NAME `\\` is a backslash, `\n` an end of line, `\r` a carriage return; so with --tag
//! ```
//!
//! Names are text: `b3sum` checks none that is not UTF-8. Here they are bytes, and those of a list have to be relative.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use thalweg_mover::failure::{self, Failure};
use thalweg_sys::Replace;
use thalweg_sys::atomic_file::{AtomicFile, Durability};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Digest, RelativePath, limits};

/// Bytes of a line, with its end: a name of which each byte is escaped, and what stands around it.
pub const LINE_BYTES_MAX: u64 = 2 * limits::PATH_BYTES_MAX as u64 + 128;

/// Begins a line with --tag.
const TAG: &[u8] = b"BLAKE3 (";

/// The line of a file, with its end; `None` if `b3sum` checks no file of this name.
pub fn line(path: &RelativePath, digest: Digest) -> Option<String> {
    // To it U+FFFD says that a name was not UTF-8.
    let name = std::str::from_utf8(path.as_bytes()).ok().filter(|name| !name.contains('\u{fffd}'))?;
    // At the end it would be one of the line. Elsewhere it stands for itself: older ones do not know `\r`.
    let ends_in_return = name.ends_with('\r');
    if !name.contains(['\\', '\n']) && !ends_in_return {
        return Some(format!("{digest}  {name}\n"));
    }
    let name = name.replace('\\', "\\\\").replace('\n', "\\n");
    let name = if ends_in_return { name.replace('\r', "\\r") } else { name };
    Some(format!("\\{digest}  {name}\n"))
}

/// Writes a list into a file: under its name stands a whole and durable one, or what was there. `fill` tells its lines,
/// each with its end.
///
/// # Errors
/// What `fill` says; with the path what the kernel says, of the file.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let of_io = |error: &io::Error| failure::at_path(failure::of_io("write the list", error), path);
    let mode = thalweg_sys::process::user_mode();
    let hidden = AtomicFile::begin(path, mode, Durability::Synced).map_err(|error| of_io(&error.cause))?;
    let mut file = BufWriter::new(hidden.file().try_clone().map_err(|error| of_io(&error))?);
    fill(&mut |line| file.write_all(line.as_bytes()).map_err(|error| of_io(&error)))?;
    file.flush().map_err(|error| of_io(&error))?;
    hidden.finish(Replace::Existing).map_err(|error| of_io(&error.cause))
}

/// Reads a line without its end. A `./` in a name says nothing.
///
/// # Errors
/// What is wrong with it.
pub fn parse(line: &[u8]) -> Result<(RelativePath, Digest), String> {
    let returns = line.iter().rev().take_while(|byte| **byte == b'\r').count();
    let line = &line[..line.len() - returns];
    let (line, is_escaped) = line.strip_prefix(b"\\").map_or((line, false), |line| (line, true));
    let (digest, name) = match line.strip_prefix(TAG) {
        Some(rest) => split_tagged(rest),
        None => split_plain(line),
    }
    .ok_or("it is not `DIGEST  NAME`, a digest of 64 hexadecimal digits, two spaces and a name")?;
    let path = if is_escaped { relative(&unescape(name)?)? } else { relative(name)? };
    Ok((path, digest))
}

fn split_plain(line: &[u8]) -> Option<(Digest, &[u8])> {
    let (digest, rest) = line.split_at_checked(64)?;
    Some((digest_of(digest)?, rest.strip_prefix(b"  ")?))
}

fn split_tagged(rest: &[u8]) -> Option<(Digest, &[u8])> {
    let (rest, digest) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
    Some((digest_of(digest)?, rest.strip_suffix(b") = ")?))
}

fn digest_of(digits: &[u8]) -> Option<Digest> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn unescape(name: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'\\') => b'\\',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                _ => return Err("behind a backslash in its name stands none of `\\`, `n` and `r`".into()),
            },
            byte => *byte,
        });
    }
    Ok(bytes)
}

fn relative(name: &[u8]) -> Result<RelativePath, String> {
    let refused = |why: &str| Err(format!("`{}` {why}", Escaped(&name[..name.len().min(SHOWN_BYTES)])));
    if name.starts_with(b"/") {
        return refused("is absolute: names are relative to the place");
    }
    let parts = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let parts: Vec<&[u8]> = parts.collect();
    if parts.is_empty() {
        return refused("names no file");
    }
    if parts.contains(&&b".."[..]) {
        return refused("leads out of the place");
    }
    RelativePath::new(parts.join(&b'/')).or_else(|error| refused(&format!("is no name: {error}")))
}

/// Of a name in a sentence.
const SHOWN_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::failure::FailureKind;

    fn path(bytes: &[u8]) -> RelativePath {
        RelativePath::new(bytes.to_vec()).unwrap()
    }

    /// What `b3sum` prints of an empty file with this name.
    #[test]
    fn names_are_escaped_as_b3sum_does_and_read_back() {
        let digest = Digest(*blake3::hash(b"").as_bytes());
        let digits = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        for (name, written) in [
            ("plain name", format!("{digits}  plain name\n")),
            ("a\\b/c", format!("\\{digits}  a\\\\b/c\n")),
            ("line\nbreak", format!("\\{digits}  line\\nbreak\n")),
            ("\\n", format!("\\{digits}  \\\\n\n")),
            ("in\rside", format!("{digits}  in\rside\n")),
            ("at its end\r", format!("\\{digits}  at its end\\r\n")),
            (" \u{e9} ", format!("{digits}   \u{e9} \n")),
        ] {
            let path = path(name.as_bytes());
            assert_eq!(line(&path, digest), Some(written.clone()));
            let read = parse(written.strip_suffix('\n').unwrap().as_bytes());
            assert_eq!(read, Ok((path, digest)), "{written}");
        }
        for name in [&b"not utf-8 \xff"[..], "\u{fffd}".as_bytes()] {
            assert_eq!(line(&path(name), digest), None);
        }
    }

    #[test]
    fn a_list_that_is_not_whole_leaves_what_was_there() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("sums");
        write_file(&path, |write| write("one\n")).unwrap();
        let cut = write_file(&path, |write| {
            write("two\n")?;
            Err(Failure::new(FailureKind::Stopped, "write the list", "stopped on request"))
        });
        assert_eq!(cut.unwrap_err().kind, FailureKind::Stopped);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_write_is_read_too() {
        let digest = Digest(*blake3::hash(b"").as_bytes());
        for (line, name) in [
            (format!("{digest}  ./a//b\r"), &b"a/b"[..]),
            (format!("BLAKE3 (a) = b) = {digest}"), b"a) = b"),
            (format!("\\BLAKE3 (a\\nb) = {digest}"), b"a\nb"),
            (format!("{digest}  a\\b"), b"a\\b"),
            (digest.to_string().to_uppercase() + "  a", b"a"),
        ] {
            assert_eq!(parse(line.as_bytes()), Ok((path(name), digest)), "{line}");
        }
        let bytes = [digest.to_string().as_bytes(), b"  \xff"].concat();
        assert_eq!(parse(&bytes), Ok((path(b"\xff"), digest)));
    }

    #[test]
    fn a_line_that_is_none_or_leads_out_is_refused() {
        let digest = Digest([7; 32]);
        let whole = digest.to_string();
        let long = "x".repeat(limits::PATH_BYTES_MAX + 1);
        for (line, why) in [
            (String::new(), "it is not"),
            ("a".repeat(63), "it is not"),
            (format!("{}  a", &whole[1..]), "it is not"),
            (format!("{}g  a", &whole[1..]), "it is not"),
            (format!("{whole} a"), "it is not"),
            (format!("{whole} *a"), "it is not"),
            (format!("SHA256 (a) = {whole}"), "it is not"),
            (format!("BLAKE3 (a) = {}", &whole[1..]), "it is not"),
            (format!("{whole}  "), "names no file"),
            (format!("{whole}  ./"), "names no file"),
            (format!("{whole}  /etc/passwd"), "is absolute"),
            (format!("{whole}  a/../../b"), "leads out"),
            (format!("\\{whole}  a\\tb"), "behind a backslash"),
            (format!("\\{whole}  a\\"), "behind a backslash"),
            (format!("{whole}  a\0b"), "is no name"),
            (format!("{whole}  {long}"), "is no name"),
        ] {
            let refused = parse(line.as_bytes()).unwrap_err();
            assert!(refused.contains(why) && refused.len() < 2000, "{why}: {refused}");
        }
    }
}
