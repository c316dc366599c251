//! README.md: how fast, from the results of suites of `cargo xtask bench`.

use super::results;
use crate::bench::record::Results;
use crate::bench::suite::{Suite, beside_rsync, beside_zeromq, large, small};
use anyhow::Result;

/// The page.
pub const PAGE: &str = "README.md";

/// Tells the results of a suite in a sentence; nothing of nothing.
type InShort = fn(&Results) -> String;

const IN_SHORT: [(&Suite, InShort); 3] = [
    (&large::SUITE, large::in_short),
    (&small::SUITE, small::in_short),
    (&beside_zeromq::SUITE, beside_zeromq::in_short),
];

/// The page with the table beside rsync and these sentences between its marks; `None` while nothing was measured beside
/// rsync.
///
/// # Errors
/// If the page has no marks, or a result cannot be read.
pub fn page() -> Result<Option<String>> {
    let Some(beside) = Results::read(beside_rsync::SUITE.name)? else { return Ok(None) };
    let mut told = (beside_rsync::SUITE.tell)(&beside)? + "\n";
    for (suite, in_short) in IN_SHORT {
        told += &Results::read(suite.name)?
            .map(|results| paragraph(suite, in_short, &results))
            .unwrap_or_default();
    }
    let told = told.trim_end().to_owned() + "\n";
    results::shown_in(PAGE, &told).map(Some)
}

/// The sentence, with why its result is to be taken with care: it stands far from the page that says so of all.
fn paragraph(suite: &Suite, in_short: InShort, results: &Results) -> String {
    match in_short(results) {
        told if told.is_empty() => told,
        told => format!("{told}{}\n\n", suite.care(results, results.runs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::Load;
    use crate::bench::workspace::Times;
    use thalweg_lab::bench::record::About;

    #[test]
    fn what_is_weak_or_stale_is_said_behind_each_sentence() {
        for (suite, in_short) in IN_SHORT {
            // So many runs of all but the last so many rows.
            let told = |runs: usize, without: usize| {
                let mut rows = (suite.rows)();
                rows.truncate(rows.len() - without);
                let times = Times { wall_s: 1.0, unsynced_s: 1.0, cpu_s: 1.0 };
                let mut samples = Vec::new();
                for run in 1..=runs {
                    for (scenario, tool) in &rows {
                        samples.push(Load { scenario, tool, run, bytes: 1 << 20, files: 1 }.took(&times));
                    }
                }
                let about = About { commit: Some("bc7c365".into()), ..About::default() };
                paragraph(suite, in_short, &Results { about, samples, ..Results::default() })
            };
            let end = format!(" `cargo xtask bench --suite {}`.", suite.name);
            let whole = told(suite.runs, 0);
            assert!(whole.ends_with(&format!("{end}\n\n")), "{whole}");
            let few = told(2, 0);
            assert!(few.ends_with(&format!("{end} Weak: 2 runs, fewer than 3.\n\n")), "{few}");
            let stale = told(suite.runs, 1);
            assert!(stale.contains(&format!("{end} Stale: lacks ")), "{stale}");
            assert_eq!(paragraph(suite, in_short, &Results::default()), "");
        }
    }

    #[test]
    fn the_best_is_named_with_those_that_ran_beside_it() {
        let times = |wall_s: f64| Times { wall_s, unsynced_s: wall_s, cpu_s: 1.0 };
        let of = |scenario: &str, tool: &str, wall_s: f64| {
            Load { scenario, tool, run: 1, bytes: 1 << 30, files: 1 }.took(&times(wall_s))
        };
        let of_large = [("thalweg daemon", 1.0), ("rsync daemon", 3.0), ("tar socket", 2.0)];
        let samples = of_large.map(|(tool, wall_s)| of("large", tool, wall_s)).into();
        let told = large::in_short(&Results { samples, ..Results::default() });
        let best =
            "2.00 × as fast as tar socket, the best that does not encrypt (of rsync daemon, tar socket).";
        assert!(told.contains(best), "{told}");
        let of_small = [("thalweg daemon", 1.0), ("bare loop", 0.5), ("tar ssh", 2.0), ("rsync ssh", 4.0)];
        let samples = of_small.map(|(tool, wall_s)| of("20,000 x 4 KiB", tool, wall_s)).into();
        let told = small::in_short(&Results { samples, ..Results::default() });
        assert!(
            told.contains("0.500 × as long as by the best other tool that ran (tar ssh), 2.00 ×"),
            "{told}"
        );
        assert!(told.contains("The other tools that ran: tar ssh, rsync ssh."), "{told}");
    }
}
