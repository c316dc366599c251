//! What an earlier attempt left of a file: how much of it is told, and what is asked for.

use super::Large;
use crate::transfer::runs::RunSet;
use thalweg_wire::Digest;
use thalweg_wire::message::Want;

/// Gaps that a run of chunks makes at a sender beside the nodes of its digests: in what has come, in what is to be
/// read, and in what is to be compared.
const RUN_GAPS: usize = 3;

/// Takes of the chunks that are there, in order, those that would make more gaps at a sender than `room`: the shortest
/// runs, of which least comes again. Whoever asks for what is not there asks for these too. How many gaps the others
/// make, at most.
pub(super) fn thin(present: &mut Vec<(u64, Digest)>, room: usize) -> usize {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &(chunk, _) in &*present {
        match runs.last_mut() {
            Some((_, end)) if *end == chunk => *end += 1,
            _ => runs.push((chunk, chunk + 1)),
        }
    }
    let mut gaps: usize = runs.iter().map(|&run| gaps_of(run)).sum();
    if gaps <= room {
        return gaps;
    }
    let mut shortest: Vec<usize> = (0..runs.len()).collect();
    shortest.sort_by_key(|&at| runs[at].1 - runs[at].0);
    for at in shortest {
        if gaps <= room {
            break;
        }
        gaps -= gaps_of(runs[at]);
        runs[at].1 = runs[at].0;
    }
    let mut kept = runs.into_iter().filter(|(first, end)| first < end).peekable();
    present.retain(|&(chunk, _)| {
        while kept.next_if(|&(_, end)| end <= chunk).is_some() {}
        kept.peek().is_some_and(|&(first, _)| first <= chunk)
    });
    gaps
}

/// Gaps that the chunks `first..end` make at a sender, at most: see [`RUN_GAPS`], and a node for each subtree.
fn gaps_of((first, end): (u64, u64)) -> usize {
    let (mut at, mut nodes) = (first, 0);
    while at < end {
        let aligned = if at == 0 { u64::BITS - 1 } else { at.trailing_zeros() };
        at += 1 << aligned.min((end - at).ilog2());
        nodes += 1;
    }
    // The whole file is never one node.
    RUN_GAPS + nodes + usize::from(first == 0)
}

impl Large {
    /// What the sender should do about chunks that are not here: compare those that can be, send the others.
    pub(super) fn wants(&self) -> Vec<Want> {
        let mut missing = self.missing();
        let mut wants = Vec::new();
        if let Some(comparison) = &self.comparison {
            let compare = comparison.take_comparable(&mut missing);
            if !compare.is_empty() {
                wants.push(Want::Compare(compare));
            }
        }
        if wants.is_empty() || !missing.is_empty() {
            wants.push(Want::Missing(missing.said()));
        }
        wants
    }

    /// Chunks that are not here.
    pub(super) fn missing(&self) -> RunSet {
        let mut missing = RunSet::new();
        self.tree.missing().into_iter().for_each(|(first, end)| missing.insert(first, end));
        self.written.iter().for_each(|(first, end)| missing.remove(first, end));
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use thalweg_wire::digest::Tree;

    const CHUNKS: u64 = 300;

    proptest! {
        #[test]
        fn what_is_asked_for_covers_all_that_is_missing_in_few_gaps_and_in_order(
            there in proptest::collection::btree_set(0..CHUNKS, 0..200),
            room in 0usize..400,
        ) {
            let chunk_bytes = 64 << 10;
            let all_there = || there.iter().map(|&chunk| (chunk, Digest::default())).collect::<Vec<_>>();
            let mut present = all_there();
            let gaps = thin(&mut present, room);
            prop_assert!(gaps <= room);
            let told: BTreeSet<u64> = present.iter().map(|&(chunk, _)| chunk).collect();
            prop_assert!(told.is_subset(&there) && present.is_sorted_by_key(|&(chunk, _)| chunk));
            // As the sender has it.
            let mut tree = Tree::new(CHUNKS * chunk_bytes, chunk_bytes);
            let (mut came, mut asked) = (RunSet::new(), RunSet::new());
            asked.insert(0, CHUNKS);
            for &(chunk, digest) in &present {
                tree.insert(chunk, digest);
                came.insert(chunk, chunk + 1);
                asked.remove(chunk, chunk + 1);
            }
            prop_assert!((0..CHUNKS).all(|chunk| asked.contains(chunk) != told.contains(&chunk)));
            prop_assert!((0..CHUNKS).all(|chunk| there.contains(&chunk) || asked.contains(chunk)));
            let runs = asked.said();
            prop_assert!(runs.is_sorted_by(|one, next| one.first + one.count < next.first));
            // The last run may have one behind it.
            prop_assert!(tree.parts() + came.run_count() + 2 * runs.len() <= gaps + 2);
            // Nothing is asked for again where there is room.
            let all = present.len() == there.len();
            prop_assert_eq!(all, thin(&mut all_there(), usize::MAX) <= room);
        }
    }

    #[test]
    fn the_shortest_runs_come_again() {
        let chunks = (0..4).chain([6]).chain(8..16).chain([18]).chain(20..22);
        let present: Vec<(u64, Digest)> = chunks.map(|chunk| (chunk, Digest::default())).collect();
        let left = |room| {
            let mut present = present.clone();
            thin(&mut present, room);
            present.into_iter().map(|(chunk, _)| chunk).collect::<Vec<u64>>()
        };
        // 5 of the first, and 4 of each other.
        assert_eq!(left(21).len(), 16);
        assert_eq!(left(20), (0..4).chain(8..16).chain([18]).chain(20..22).collect::<Vec<u64>>());
        assert_eq!(left(9), (0..4).chain(8..16).collect::<Vec<u64>>());
        assert!(left(3).is_empty());
    }
}
