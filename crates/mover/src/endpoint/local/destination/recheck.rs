//! Which chunks of a partial file still have the bytes that the journal says: read again, and digested again.
//!
//! An attempt may go by chunks of another size than the one before. Digests are nodes of one tree, so what was recorded
//! in smaller chunks is joined; what was recorded in larger ones is told apart while it is read, for it is read anyhow.

use crate::endpoint::Reading;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_sys::{Advice, File, machine};
use thalweg_wire::Digest;
use thalweg_wire::digest::{self, Rule};

/// Read at once when a partial is digested again.
const READ_BYTES: usize = 1 << 20;
/// A partial with more than this is digested by several threads.
const PARALLEL_BYTES: u64 = 64 << 20;
const THREADS_MAX: usize = 4;

/// Bytes of a chunk: both powers of two.
#[derive(Clone, Copy)]
pub(super) struct Chunks {
    /// In what was recorded.
    pub(super) recorded_in: u64,
    /// In this attempt.
    pub(super) now: u64,
}

/// The chunks of this attempt's size whose bytes on the medium all have the digests that were recorded, in order.
/// Nothing where holes are marked in segments that do not fit the chunks. Tells `reading` how far it is.
///
/// # Errors
/// `Interrupted` as soon as `reading` says that nobody waits for it any more.
pub(super) fn sound_chunks(
    file: &File,
    rule: &Rule,
    chunks: Chunks,
    recorded: BTreeMap<u64, Digest>,
    reading: Reading<'_>,
) -> io::Result<Vec<(u64, Digest)>> {
    let smaller = chunks.recorded_in.min(chunks.now);
    let rule = match rule.marked {
        true if rule.segment_bytes > smaller => return Ok(Vec::new()),
        true => *rule,
        // Without marks a digest does not depend on the pieces that it is made of.
        false => Rule { segment_bytes: rule.segment_bytes.min(smaller), ..*rule },
    };
    let count = digest::chunk_count(rule.file_bytes, chunks.recorded_in);
    let recorded: Vec<_> = recorded.into_iter().filter(|(chunk, _)| *chunk < count).collect();
    let bytes = (recorded.len() as u64).saturating_mul(chunks.recorded_in).min(rule.file_bytes);
    let done = AtomicU64::new(0);
    let goes_on = |more: u64| reading(done.fetch_add(more, Ordering::Relaxed) + more, bytes);
    if !goes_on(0) {
        return Err(io::ErrorKind::Interrupted.into());
    }
    // What is on the medium counts. A partial is ours alone: before, and behind the reading, its pages are nobody
    // else's.
    let _ = file.advise(Advice::DontNeed, 0, 0);
    let next = AtomicU64::new(0);
    let check = || -> io::Result<Vec<(u64, Digest)>> {
        let mut sound = Vec::new();
        let mut buffer = vec![0; READ_BYTES.max(rule.segment_bytes as usize)];
        while let Some((chunk, digest)) = recorded.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let pieces = pieces_of(file, &rule, chunks.recorded_in, *chunk, &mut buffer, &goes_on)?;
            let _ = file.advise(Advice::DontNeed, chunk * chunks.recorded_in, chunks.recorded_in);
            let Some(pieces) = pieces else { continue };
            if joined(&pieces, &rule, chunks.recorded_in, *chunk) == *digest {
                told_apart(&pieces, &rule, chunks, (*chunk, *digest), &mut sound);
            }
        }
        Ok(sound)
    };
    let threads = if bytes > PARALLEL_BYTES { machine::cores().min(THREADS_MAX) } else { 1 };
    let mut sound = std::thread::scope(|scope| {
        // Without them it only takes longer.
        let another = || std::thread::Builder::new().name("digest".into()).spawn_scoped(scope, check);
        let others: Vec<_> = (1..threads).filter_map(|_| another().ok()).collect();
        let mut sound = check()?;
        for other in others {
            sound.extend(other.join().map_err(|_| io::Error::other("a thread that digests broke"))??);
        }
        Ok::<_, io::Error>(sound)
    })?;
    // What the kernel read ahead.
    let _ = file.advise(Advice::DontNeed, 0, 0);
    sound.sort_unstable_by_key(|(chunk, _)| *chunk);
    Ok(if chunks.now > chunks.recorded_in { put_together(&sound, &rule, chunks) } else { sound })
}

/// The digests of a chunk's segments; `None` if the file is shorter than it must be.
fn pieces_of(
    file: &File,
    rule: &Rule,
    chunk_bytes: u64,
    chunk: u64,
    buffer: &mut [u8],
    goes_on: &dyn Fn(u64) -> bool,
) -> io::Result<Option<Vec<Digest>>> {
    let start = chunk * chunk_bytes;
    let length = digest::chunk_length(chunk, rule.file_bytes, chunk_bytes);
    let mut digests = Vec::new();
    let mut at = start;
    while at < start + length || digests.is_empty() {
        let wanted = (start + length - at).min(rule.segment_bytes);
        let is_hole = wanted > 0 && file.next_data(at)?.is_none_or(|data| data >= at + wanted);
        let digest = if is_hole {
            rule.zeros(at, wanted)
        } else {
            let bytes = &mut buffer[..wanted as usize];
            let read = file.read_at(bytes, at)?;
            rule.segment(at, &bytes[..read])
        };
        let Some(digest) = digest else { return Ok(None) };
        digests.push(digest);
        at += wanted;
        // By the piece: a large chunk on a slow disk takes longer than a disk is taken to hang.
        if !goes_on(wanted) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(Some(digests))
}

/// The digest of chunk `chunk` from those of its parts, which are not empty.
fn joined(parts: &[Digest], rule: &Rule, chunk_bytes: u64, chunk: u64) -> Digest {
    digest::join(parts, digest::chunk_length(chunk, rule.file_bytes, chunk_bytes) == rule.file_bytes)
}

/// Adds a sound chunk as those of this attempt that are in it; as it is, if those are larger.
fn told_apart(
    pieces: &[Digest],
    rule: &Rule,
    chunks: Chunks,
    whole: (u64, Digest),
    sound: &mut Vec<(u64, Digest)>,
) {
    if chunks.now >= chunks.recorded_in {
        sound.push(whole);
        return;
    }
    let first = whole.0 * (chunks.recorded_in / chunks.now);
    let parts = pieces.chunks((chunks.now / rule.segment_bytes) as usize);
    sound.extend((first..).zip(parts).map(|(chunk, parts)| (chunk, joined(parts, rule, chunks.now, chunk))));
}

/// The larger chunks of which all smaller ones are sound.
fn put_together(sound: &[(u64, Digest)], rule: &Rule, chunks: Chunks) -> Vec<(u64, Digest)> {
    let (together, count) =
        (chunks.now / chunks.recorded_in, digest::chunk_count(rule.file_bytes, chunks.recorded_in));
    let of_one = sound.chunk_by(|(one, _), (other, _)| one / together == other / together);
    let larger = of_one.filter_map(|parts| {
        let chunk = parts.first()?.0 / together;
        let all = (count - chunk * together).min(together);
        let digests: Vec<Digest> = parts.iter().map(|(_, digest)| *digest).collect();
        (digests.len() as u64 == all).then(|| (chunk, joined(&digests, rule, chunks.now, chunk)))
    });
    larger.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use thalweg_sys::Dir;

    const UNIT: u64 = 64 << 10;

    fn digests(content: &[u8], rule: &Rule, chunk_bytes: u64) -> BTreeMap<u64, Digest> {
        let of_chunk = |chunk: u64| {
            let start = (chunk * chunk_bytes) as usize;
            let end = start + digest::chunk_length(chunk, rule.file_bytes, chunk_bytes) as usize;
            let segments = rule.segment_bytes.min(chunk_bytes) as usize;
            let mut parts: Vec<Digest> = (start..end)
                .step_by(segments)
                .map(|at| {
                    let rule = Rule { segment_bytes: segments as u64, ..*rule };
                    rule.segment(at as u64, &content[at..end.min(at + segments)]).unwrap()
                })
                .collect();
            if parts.is_empty() {
                parts.push(rule.segment(0, &[]).unwrap());
            }
            digest::join(&parts, rule.file_bytes <= chunk_bytes)
        };
        (0..digest::chunk_count(rule.file_bytes, chunk_bytes)).map(|chunk| (chunk, of_chunk(chunk))).collect()
    }

    fn file_of(content: &[u8]) -> File {
        let scratch = tempfile::tempdir().unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"partial", 0o600).unwrap();
        file.write_all_at(content, 0).unwrap();
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever sizes both attempts go by: a chunk counts if, and only if, everything in it was recorded and is as
        /// it was.
        #[test]
        fn chunks_of_another_size_count_where_all_of_them_was_recorded_and_is_sound(
            bytes in 0usize..(17 * UNIT as usize),
            (was, now) in (0u32..5, 0u32..5),
            segment in 0u32..3,
            marked: bool,
            lost in prop::collection::btree_set(0u64..18, 0..4),
            rotten in prop::option::of(0usize..(17 * UNIT as usize)),
            zeros in 0usize..(9 * UNIT as usize),
        ) {
            let chunks = Chunks { recorded_in: UNIT << was, now: UNIT << now };
            let mut content: Vec<u8> = (0..bytes).map(|at| (at * 31 % 251) as u8).collect();
            content[..zeros.min(bytes)].fill(0);
            let rule = Rule {
                file_bytes: bytes as u64,
                segment_bytes: (UNIT << segment).min(chunks.now),
                marked,
            };
            prop_assume!(!marked || rule.segment_bytes <= chunks.recorded_in);
            let mut recorded = digests(&content, &rule, chunks.recorded_in);
            recorded.retain(|chunk, _| !lost.contains(chunk));
            let truth = digests(&content, &rule, chunks.now);
            let mut bad: BTreeSet<u64> = lost.clone();
            let mut on_disk = content.clone();
            if let Some(at) = rotten.filter(|at| *at < bytes) {
                on_disk[at] ^= 4;
                bad.insert(at as u64 / chunks.recorded_in);
            }
            let count = digest::chunk_count(rule.file_bytes, chunks.recorded_in);
            let is_good = |chunk: u64| {
                let start = chunk * chunks.now;
                let end = start + digest::chunk_length(chunk, rule.file_bytes, chunks.now);
                (start / chunks.recorded_in..end.div_ceil(chunks.recorded_in).max(1).min(count))
                    .all(|old| !bad.contains(&old))
            };
            let expected: Vec<_> = truth.into_iter().filter(|(chunk, _)| is_good(*chunk)).collect();
            let found = sound_chunks(&file_of(&on_disk), &rule, chunks, recorded, &|_, _| true).unwrap();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_is_read_again_of_a_partial_leaves_the_page_cache() {
        const BYTES: u64 = 8 << 20;
        // /dev/shm and /tmp may have no medium; the working directory usually has one.
        let scratch = tempfile::tempdir_in(".").unwrap();
        let dir = Dir::open(scratch.path()).unwrap();
        let file = dir.create_new(b"partial", 0o600).unwrap();
        let content: Vec<u8> = (0..BYTES).map(|at| (at >> 9) as u8).collect();
        file.write_all_at(&content, 0).unwrap();
        file.sync_all().unwrap();
        file.advise(Advice::DontNeed, 0, 0).unwrap();
        if file.cached_bytes(0, BYTES).ok() != Some(0) {
            eprintln!("skipped: what is cached is not told here, or cannot be dropped");
            return;
        }
        let rule = Rule { file_bytes: BYTES, segment_bytes: UNIT, marked: false };
        let chunks = Chunks { recorded_in: 1 << 20, now: 1 << 20 };
        let mut recorded = digests(&content, &rule, chunks.recorded_in);
        recorded.retain(|chunk, _| *chunk < 5);
        let found = sound_chunks(&file, &rule, chunks, recorded.clone(), &|_, _| true).unwrap();
        assert_eq!(found, recorded.into_iter().collect::<Vec<_>>());
        // What the kernel still reads ahead when the rest is dropped stays: less than was read again by far.
        assert!(file.cached_bytes(0, BYTES).unwrap() <= BYTES / 8);
    }

    #[test]
    fn marks_of_segments_that_do_not_fit_count_for_nothing() {
        let rule = Rule { file_bytes: 4 * UNIT, segment_bytes: 2 * UNIT, marked: true };
        let recorded = BTreeMap::from([(0, Digest::default())]);
        let chunks = Chunks { recorded_in: UNIT, now: 2 * UNIT };
        let file = file_of(&vec![0; 4 * UNIT as usize]);
        assert_eq!(sound_chunks(&file, &rule, chunks, recorded, &|_, _| true).unwrap(), []);
    }

    #[test]
    fn what_is_read_again_is_told_by_the_piece_and_nothing_more_is_read_when_nobody_waits_for_it() {
        let content = vec![7; 8 * UNIT as usize];
        let (rule, chunks) = (
            Rule { file_bytes: 8 * UNIT, segment_bytes: UNIT, marked: false },
            Chunks { recorded_in: 4 * UNIT, now: 4 * UNIT },
        );
        let (file, recorded) = (file_of(&content), digests(&content, &rule, chunks.recorded_in));
        let told = Mutex::new(Vec::new());
        let read_until = |end: u64| {
            let reading = |done: u64, of: u64| {
                told.lock().unwrap().push((done, of));
                done < end
            };
            sound_chunks(&file, &rule, chunks, recorded.clone(), &reading)
        };
        assert_eq!(read_until(u64::MAX).unwrap().len(), 2);
        let pieces: Vec<_> = (0..=8).map(|piece| (piece * UNIT, 8 * UNIT)).collect();
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()), pieces);
        assert_eq!(read_until(3 * UNIT).unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(told.lock().unwrap().len(), 4, "in the middle of a chunk");
    }
}
