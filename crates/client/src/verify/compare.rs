//! One line of the receipt and what stands at its path.

use super::sample::Sample;
use crate::reach::Reach;
use thalweg_mover::endpoint::local::survey::DigestAs;
use thalweg_mover::failure::{Failure, FailureKind, Result, counted};
use thalweg_wire::path::Escaped;
use thalweg_wire::receipt::{Line, digest_of_target};
use thalweg_wire::{Digest, Entry, Kind};

/// Device and inode: what all names of a file have in common.
pub(super) type Identity = (u64, u64);

/// Of what is not there, and where they are not told.
pub(super) const UNTOLD: Identity = (0, 0);

pub(super) fn identity_of(entry: &Entry) -> Identity {
    (entry.evidence.device, entry.evidence.inode)
}

/// What stands at the path of a line.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) identity: Identity,
    /// Of a link, FIFO or device: a hash of all that it is. A hash, as the target of a link can be long.
    pub(super) bare: Option<[u8; 16]>,
}

impl Seen {
    const NOTHING: Seen = Seen { identity: UNTOLD, bare: None };

    fn of(entry: &Entry) -> Seen {
        Seen { identity: identity_of(entry), bare: bare_of(&entry.kind) }
    }
}

pub(super) fn bare_of(kind: &Kind) -> Option<[u8; 16]> {
    let is_bare = matches!(kind, Kind::Symlink { .. } | Kind::Fifo | Kind::Device { .. });
    is_bare.then(|| short(format!("{kind:?}").as_bytes()))
}

/// What was found of a file, for its further names; the best of its lines counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Differs,
    Unknown,
    Unread,
    Same,
}

pub(super) enum Verdict {
    Same,
    /// Its size is the same, and there is no digest to compare.
    Unknown,
    /// Its size is the same, and it was not drawn: its content was not read.
    Unread,
    /// A hard link: its content stands on the line of its first name, which it does not tell.
    Link,
    Missing(String),
    Differs(String),
    /// Right kind and size, wrong content: it should have this digest.
    Damaged(String, Digest),
    Trouble(Failure),
}

impl Verdict {
    /// `None` if the file was not there.
    pub(super) fn standing(&self) -> Option<Standing> {
        match self {
            Verdict::Same => Some(Standing::Same),
            Verdict::Unknown | Verdict::Trouble(_) => Some(Standing::Unknown),
            Verdict::Unread => Some(Standing::Unread),
            Verdict::Differs(_) | Verdict::Damaged(..) => Some(Standing::Differs),
            Verdict::Link | Verdict::Missing(_) => None,
        }
    }
}

/// With a `sample`, content is read of what was drawn.
pub(super) fn compare(
    reach: &Reach,
    line: &Line,
    is_single: bool,
    segment_bytes: u64,
    sample: Option<&Sample>,
) -> (Verdict, Seen) {
    let path = if is_single { b"" } else { line.path.as_bytes() };
    let looked = match is_single && line.kind == "symlink" {
        true => reach.itself(),
        false => reach.entry(path),
    };
    match looked {
        Ok(entry) => {
            let digest_of = |how| reach.below(path).digest_of_file(how);
            (compare_entry(&digest_of, &entry, line, segment_bytes, sample), Seen::of(&entry))
        }
        Err(failure) if failure.kind == FailureKind::NotFound => {
            (Verdict::Missing(failure.cause), Seen::NOTHING)
        }
        Err(failure) => (Verdict::Trouble(failure.at(&line.path)), Seen::NOTHING),
    }
}

/// Bytes and digest of what stands there.
type DigestOf<'a> = &'a dyn Fn(DigestAs) -> Result<(u64, Digest)>;

fn compare_entry(
    digest_of: DigestOf<'_>,
    entry: &Entry,
    line: &Line,
    segment_bytes: u64,
    sample: Option<&Sample>,
) -> Verdict {
    let expected = line.kind.as_str();
    let found = match &entry.kind {
        Kind::HardLink { .. } => "file",
        kind => kind.word(),
    };
    // Of which kind its first name is, its line does not tell.
    if expected == "hardlink" && line.digest.is_none() && !matches!(found, "file" | "directory") {
        return Verdict::Link;
    }
    let is_content = matches!(expected, "file" | "file-marked-holes" | "hardlink");
    if found != if is_content { "file" } else { expected } {
        return Verdict::Differs(format!("a {found} is there, and a {expected} was copied"));
    }
    if let (Kind::Symlink { target }, Some(expected)) = (&entry.kind, line.digest)
        && digest_of_target(target) != expected
    {
        return Verdict::Differs(format!("it leads to `{}`, and the copied one elsewhere", Escaped(target)));
    }
    if !is_content {
        return Verdict::Same;
    }
    let how =
        if expected == "file-marked-holes" { DigestAs::Marked { segment_bytes } } else { DigestAs::Plain };
    if expected == "hardlink" && line.digest.is_none() {
        return Verdict::Link;
    }
    // What has another size differs, whatever is in it: a large file is not read to its end to say so.
    if expected != "hardlink" && entry.evidence.size != line.bytes {
        return Verdict::Differs(has_other_bytes(entry.evidence.size, line));
    }
    let is_read = sample.is_none_or(|sample| sample.reads(line));
    let digested = is_read.then(|| digest_of(how)).transpose();
    let (bytes, digest) = match digested {
        Ok(Some((bytes, digest))) => (bytes, Some(digest)),
        Ok(None) => (entry.evidence.size, None),
        Err(failure) if failure.kind == FailureKind::NotFound => return Verdict::Missing(failure.cause),
        Err(failure) if failure.kind == FailureKind::Io => return Verdict::Differs(failure.to_string()),
        Err(failure) => return Verdict::Trouble(failure.at(&line.path)),
    };
    // Since it was looked at.
    if expected != "hardlink" && bytes != line.bytes {
        return Verdict::Differs(has_other_bytes(bytes, line));
    }
    match (line.digest, digest) {
        // There is nothing that could differ.
        (None, _) | (_, None) if expected != "hardlink" && bytes == 0 => Verdict::Same,
        (None, _) => Verdict::Unknown,
        (Some(_), None) => Verdict::Unread,
        (Some(expected), Some(digest)) if expected == digest => Verdict::Same,
        (Some(expected), Some(digest)) => {
            let why = format!("its content has the digest {digest}, and {expected} was copied");
            Verdict::Damaged(why, expected)
        }
    }
}

fn has_other_bytes(bytes: u64, line: &Line) -> String {
    let were = if line.bytes == 1 { "was" } else { "were" };
    format!("it has {}, and {} {were} copied", counted(bytes, "byte", "bytes"), line.bytes)
}

/// Enough of a hash to know a path, or what stands there, again.
pub(super) fn short(bytes: &[u8]) -> [u8; 16] {
    let mut short = [0; 16];
    short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::{EntryId, Evidence, RelativePath};

    #[test]
    fn of_a_file_that_has_another_size_nothing_is_read() {
        let path = RelativePath::new(b"large".to_vec()).unwrap();
        let entry_of = |size: u64| Entry {
            id: EntryId(0),
            path: path.clone(),
            kind: Kind::File { sparse: false, marked: false },
            mode: 0o644,
            uid: 0,
            gid: 0,
            evidence: Evidence { size, ..Evidence::default() },
            xattrs: Vec::new(),
        };
        let digest = Digest([7; 32]);
        for kind in ["file", "file-marked-holes"] {
            let line = Line { digest: Some(digest), bytes: 10, kind: kind.to_owned(), path: path.clone() };
            let never = |_: DigestAs| -> Result<(u64, Digest)> { panic!("it is read") };
            for (size, why) in [(9, "it has 9 bytes, and 10 were copied"), (11, "it has 11 bytes")] {
                match compare_entry(&never, &entry_of(size), &line, 64 << 10, None) {
                    Verdict::Differs(told) => assert!(told.starts_with(why), "{told}"),
                    _ => panic!("{kind} of {size} bytes"),
                }
            }
            let same = |_: DigestAs| -> Result<(u64, Digest)> { Ok((10, digest)) };
            assert!(matches!(compare_entry(&same, &entry_of(10), &line, 64 << 10, None), Verdict::Same));
            // It grew since it was looked at.
            let grown = |_: DigestAs| -> Result<(u64, Digest)> { Ok((11, digest)) };
            let verdict = compare_entry(&grown, &entry_of(10), &line, 64 << 10, None);
            assert!(matches!(verdict, Verdict::Differs(_)), "{kind}");
        }
    }
}
