//! How large a tree is, from samples of it: D. E. Knuth, "Estimating the efficiency of backtrack programs", Mathematics
//! of Computation 29 (1975), 121-136.
//!
//! From the root one walks down, at each directory into one of its directories by chance, until there is none. What
//! each directory holds counts as often as there were choices on the way to it. The mean of such descents is an
//! estimate without bias of what the whole tree holds, whatever its form; a lopsided tree shows in their spread.

use serde::{Deserialize, Serialize};

/// What a directory holds itself.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Level {
    /// Entries in it, directories among them.
    pub entries: f64,
    /// Content bytes in it.
    pub bytes: f64,
    /// Directories in it: the choices.
    pub directories: u64,
}

/// An estimate, with its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// Entries, and the standard error of that.
    pub entries: (f64, f64),
    /// Bytes, and the standard error of that.
    pub bytes: (f64, f64),
    /// Descents that it rests on.
    pub descents: usize,
}

/// One descent: entries and bytes of the whole tree, as it saw them.
pub fn descent(levels: &[Level]) -> (f64, f64) {
    let (mut times, mut entries, mut bytes) = (1.0, 0.0, 0.0);
    for level in levels {
        entries += times * level.entries;
        bytes += times * level.bytes;
        times *= level.directories.max(1) as f64;
    }
    (entries, bytes)
}

/// The estimate of several descents. Of one the error is as large as it is itself.
pub fn estimate(descents: &[(f64, f64)]) -> Estimate {
    let of = |pick: fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = descents.iter().map(pick).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        if values.len() < 2 {
            return (mean, mean);
        }
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0) / n).sqrt())
    };
    Estimate { entries: of(|d| d.0), bytes: of(|d| d.1), descents: descents.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_even_tree_is_known_after_one_descent() {
        // Ten directories, in each ten, in each a hundred files of 1 kB.
        let levels = [
            Level { entries: 10.0, bytes: 0.0, directories: 10 },
            Level { entries: 10.0, bytes: 0.0, directories: 10 },
            Level { entries: 100.0, bytes: 1e5, directories: 0 },
        ];
        assert_eq!(descent(&levels), (10.0 + 100.0 + 10_000.0, 1e7));
        let known = estimate(&[descent(&levels); 3]);
        assert_eq!((known.entries, known.bytes, known.descents), ((10_110.0, 0.0), (1e7, 0.0), 3));
        assert_eq!(estimate(&[(5.0, 7.0)]).bytes, (7.0, 7.0));
        assert_eq!(estimate(&[]).entries, (0.0, 0.0));
    }

    proptest! {
        /// Over all choices the mean is the truth: two directories of different size.
        #[test]
        fn the_mean_over_all_choices_is_the_tree(a in 1u32..1000, b in 1u32..1000) {
            let through = |files: u32| {
                let own = Level { entries: 2.0, bytes: 0.0, directories: 2 };
                descent(&[own, Level { entries: f64::from(files), bytes: 0.0, directories: 0 }])
            };
            let mean = estimate(&[through(a), through(b)]).entries.0;
            prop_assert!((mean - f64::from(2 + a + b)).abs() < 1e-6);
        }
    }
}
