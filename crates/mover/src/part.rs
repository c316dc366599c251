//! Which part of a copy a name is in, where several hosts share one copy (decision 0018).
//!
//! A pure function of what every host sees, so that none has to know of another: a name goes by its path in the
//! transfer, one of a file with several names by the inode number, so that all of them are in one part. Directories are
//! in every part.
//!
//! Sizes do not count, and no file is in two parts. Not guaranteed: that hosts agree on a file with several names where
//! they do not see the same inode numbers; and that what gets a second name or loses it between the scans of two parts
//! is in one of them. Once more copied, it is.

use thalweg_wire::RelativePath;
use thalweg_wire::message::PartOf;

/// Whether a name is in this part that is the only one of what it names.
pub fn has_name(part: PartOf, path: &RelativePath) -> bool {
    has(part, path.as_bytes())
}

/// Whether a file with several names is in this part, and all of them with it.
pub fn has_inode(part: PartOf, inode: u64) -> bool {
    has(part, &inode.to_le_bytes())
}

/// The first eight bytes of BLAKE3, the lowest first, by the number of parts: what is left, and 1, is its part.
fn has(part: PartOf, bytes: &[u8]) -> bool {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(bytes).as_bytes()[..8]);
    u64::from_le_bytes(first) % u64::from(part.count.max(1)) + 1 == u64::from(part.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text.as_bytes().to_vec()).unwrap()
    }

    /// The parts that have it.
    fn parts(count: u32, has: impl Fn(PartOf) -> bool) -> Vec<u32> {
        (1..=count).filter(|&number| has(PartOf::new(number, count).unwrap())).collect()
    }

    #[test]
    fn each_name_and_each_inode_is_in_one_part_whatever_their_number() {
        for count in [1, 2, 3, 7, 64] {
            for number in 0..200u64 {
                let named = path(&format!("run/{number}/frame-{number:06}.h5"));
                assert_eq!(parts(count, |part| has_name(part, &named)).len(), 1, "{named} of {count}");
                assert_eq!(parts(count, |part| has_inode(part, number)).len(), 1, "{number} of {count}");
            }
        }
        let odd = RelativePath::new(b"not utf-8 \xff/line\nbreak".to_vec()).unwrap();
        assert_eq!(parts(5, |part| has_name(part, &odd)).len(), 1);
    }

    /// As docs/protocol.md says it: hosts with programs of two versions share a copy.
    #[test]
    fn the_part_is_what_is_left_of_the_first_eight_bytes_of_blake3() {
        let digest = blake3::hash(b"a/b");
        let first = u64::from_le_bytes(digest.as_bytes()[..8].try_into().unwrap());
        for count in [1, 2, 9, 4096] {
            let number = u32::try_from(first % u64::from(count)).unwrap() + 1;
            assert!(has_name(PartOf::new(number, count).unwrap(), &path("a/b")), "{count}");
        }
    }

    /// Dealt independently and evenly, the numbers of files in the parts differ from their mean as in a multinomial
    /// distribution: Pearson's statistic of each tree is on average the number of parts less one. A deal that favours
    /// a part, or names alike, has a greater one; one that deals in turn a smaller one.
    #[test]
    fn files_are_dealt_as_evenly_as_chance_deals_them() {
        const TREES: u32 = 100;
        const FILES: u32 = 1000;
        const COUNT: u32 = 8;
        let mean = f64::from(FILES) / f64::from(COUNT);
        let mut statistics = 0.0;
        for tree in 0..TREES {
            let mut dealt = [0u32; COUNT as usize];
            for file in 0..FILES {
                let named = path(&format!("{tree}/frame-{file:06}.cbf"));
                for number in parts(COUNT, |part| has_name(part, &named)) {
                    dealt[number as usize - 1] += 1;
                }
            }
            statistics += dealt.iter().map(|&files| (f64::from(files) - mean).powi(2) / mean).sum::<f64>();
        }
        // Of 100 trees it strays from that by 0.4.
        let average = statistics / f64::from(TREES);
        assert!((average - f64::from(COUNT - 1)).abs() < 2.0, "{average}");
    }
}
