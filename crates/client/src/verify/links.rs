//! Hard links, which have no digest: each is one of the files that were looked at, or has the content of one.

use super::compare::{Identity, Seen, identity_of};
use super::judge::Judge;
use super::receipt::Receipt;
use crate::reach::Reach;
use crate::receipt_file::Seal;
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_mover::endpoint::local::survey::{DigestAs, Found as Listed};
use thalweg_mover::failure::{FailureKind, Result};
use thalweg_wire::{Digest, RelativePath};

/// A hard link is one of the files that were looked at, and goes by what was found of that one. Where it is none of
/// them, its content has to be that of one: who passed the tree on may not have kept hard links.
pub(super) fn compare_links(
    reach: &Reach,
    is_single: bool,
    seal: &Seal,
    receipt: &Receipt,
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    let mut strays = judge.take_strays();
    let digest_of = |path: &RelativePath, how: DigestAs| reach.below(path.as_bytes()).digest_of_file(how);
    pass_copies(&digest_of, seal, receipt, &mut strays, judge)?;
    if strays.is_empty() {
        return Ok(());
    }
    // Its file may be one that could not be looked at.
    let mut is_sure = !is_single && judge.found.missing + judge.found.unreadable == 0;
    let mut named_twice = HashSet::new();
    if is_sure && (seal.skipped > 0 || seal.failed > 0) {
        // Its file may have no line, because it was left as it was: then it is there under that name too.
        let identities: HashSet<Identity> = strays.values().map(|seen| seen.identity).collect();
        reach.list(true, &mut |found| {
            match found {
                Listed::Entry(entry) => {
                    let identity = identity_of(&entry);
                    if identities.contains(&identity) && !strays.contains_key(&entry.path) {
                        named_twice.insert(identity);
                    }
                }
                Listed::Trouble(_) => is_sure = false,
            }
            Ok(())
        })?;
    }
    for (path, seen) in strays {
        if is_sure && !named_twice.contains(&seen.identity) {
            judge.differs(&path, "a hard link was copied, and it has the content of no file of the receipt");
        } else {
            judge.found.without_digest += 1;
        }
    }
    Ok(())
}

/// Bytes and digest of a file at the place.
type DigestOf<'a> = &'a dyn Fn(&RelativePath, DigestAs) -> Result<(u64, Digest)>;

/// Takes out of `strays` what has the content of a file of the receipt, by its digest.
fn pass_copies(
    digest_of: DigestOf<'_>,
    seal: &Seal,
    receipt: &Receipt,
    strays: &mut BTreeMap<RelativePath, Seen>,
    judge: &mut Judge<'_, '_>,
) -> Result<()> {
    let mut has_marked = false;
    for how in [DigestAs::Plain, DigestAs::Marked { segment_bytes: seal.segment_bytes }] {
        // A link has no content, wherever it leads.
        let has_files = strays.values().any(|seen| seen.bare.is_none());
        if !has_files || (how != DigestAs::Plain && !has_marked) {
            return Ok(());
        }
        let mut contents: HashMap<(u64, Digest), Vec<RelativePath>> = HashMap::new();
        for (path, _) in strays.iter().filter(|(_, seen)| seen.bare.is_none()) {
            match digest_of(path, how) {
                Ok(content) => contents.entry(content).or_default().push(path.clone()),
                // That says nothing of the file.
                Err(failure) if failure.kind == FailureKind::Connection => return Err(failure),
                // What cannot be read has no content that is known.
                Err(_) => {}
            }
        }
        let mut lines = receipt.pass(seal)?;
        // Of a path with several lines each vouches: a link may have been made to what a later one replaced.
        while let Some(line) = lines.next_line()? {
            has_marked |= line.kind == "file-marked-holes";
            let copies = line.digest.and_then(|digest| contents.remove(&(line.bytes, digest)));
            for path in copies.unwrap_or_default() {
                strays.remove(&path);
                judge.found.bytes += line.bytes;
            }
        }
        lines.end()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt_file::tests::Sample;
    use crate::verify::Told;
    use crate::verify::compare::{Verdict, bare_of};
    use crate::verify::receipt::tests::no_receipt;
    use thalweg_mover::failure::Failure;
    use thalweg_wire::Kind;
    use thalweg_wire::receipt::Line;

    const SEGMENT_BYTES: u64 = 256 << 10;

    fn path(name: &str) -> RelativePath {
        RelativePath::new(name.as_bytes().to_vec()).unwrap()
    }

    fn line(kind: &str, name: &str) -> Line {
        Line { digest: None, bytes: 0, kind: kind.to_owned(), path: path(name) }
    }

    fn seen(inode: u64, kind: &Kind) -> Seen {
        Seen { identity: (1, inode), bare: bare_of(kind) }
    }

    /// Of a receipt with hard links.
    fn seal() -> Seal {
        Seal { entries: 5, hard_links: 3, segment_bytes: SEGMENT_BYTES, ..Sample::new(&[]).seal() }
    }

    #[test]
    fn a_link_in_place_of_a_second_name_passes_only_if_one_that_was_copied_stands_like_it() {
        let mut tell = |_: Told<'_>| {};
        let mut judge = Judge::new(false, &mut tell).on(&seal());
        let link_to = |target: &str| Kind::Symlink { target: target.as_bytes().to_vec() };
        // The line of a first name can come after those of the others.
        let links = [("alike", 2, link_to("a")), ("as-wrong", 3, Kind::Fifo), ("other", 4, link_to("b"))];
        for (name, inode, kind) in links {
            assert!(judge.take(&line("hardlink", name), Verdict::Link, seen(inode, &kind)));
        }
        assert!(judge.take(&line("symlink", "link"), Verdict::Same, seen(5, &link_to("a"))));
        let wrong = Verdict::Differs("a fifo is there".into());
        assert!(judge.take(&line("symlink", "wrong"), wrong, seen(6, &Kind::Fifo)));
        let strays: Vec<RelativePath> = judge.take_strays().into_keys().collect();
        assert_eq!(strays, [path("as-wrong"), path("other")]);
    }

    #[test]
    fn what_has_no_content_is_not_read_for_that_of_a_file() {
        let mut tell = |_: Told<'_>| {};
        let mut judge = Judge::new(false, &mut tell).on(&seal());
        let mut strays = BTreeMap::from([(path("fifo"), seen(2, &Kind::Fifo))]);
        let never = |path: &RelativePath, _: DigestAs| -> Result<(u64, Digest)> { panic!("read {path}") };
        pass_copies(&never, &seal(), &no_receipt(), &mut strays, &mut judge).unwrap();
        assert!(strays.contains_key(&path("fifo")));
    }

    #[test]
    fn a_lost_connection_is_told_as_such_and_not_as_a_hard_link_that_differs() {
        let mut tell = |_: Told<'_>| {};
        let mut judge = Judge::new(false, &mut tell).on(&seal());
        let file = Kind::File { sparse: false, marked: false };
        let mut strays = BTreeMap::from([(path("copy"), seen(2, &file))]);
        let lost = |_: &RelativePath, _: DigestAs| -> Result<(u64, Digest)> {
            Err(Failure::new(FailureKind::Connection, "digest", "the server is gone"))
        };
        let failure = pass_copies(&lost, &seal(), &no_receipt(), &mut strays, &mut judge).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Connection);
    }
}
