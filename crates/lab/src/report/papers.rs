//! What the papers measured: `papers.toml`, read.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One published figure or table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Paper and figure: `000 Fig 2`.
    pub id: String,
    /// The suite whose figures it stands beside.
    pub suite: String,
    /// What was measured, and where.
    pub what: String,
    /// Where the numbers stand.
    pub source: String,
    /// What the paper says wrongly, and what is drawn here instead.
    pub slip: Option<String>,
    /// What makes it comparable.
    pub basis: Basis,
    /// Names of groups, if it is drawn as bars.
    #[serde(default)]
    pub groups: Vec<String>,
    /// How our suite calls the same groups; empty where it has none such. `{frames}` in it is the number of frames of
    /// our scan, which may have been made smaller.
    #[serde(default)]
    pub ours: Vec<String>,
    /// What was measured.
    pub series: Vec<PublishedSeries>,
    /// What of ours is comparable with these groups, where our suite has no such groups of its own: by samples, rates
    /// as shares of our line, or times as shares of that in the first group.
    #[serde(default)]
    pub measured: Vec<MeasuredSeries>,
    /// Parameters of which the samples of these were measured at several values, and the value of the paper: those at
    /// the nearest stand beside it.
    #[serde(default)]
    pub nearest: BTreeMap<String, f64>,
}

/// One bar of ours in some groups.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSeries {
    /// What the legend says; `{line}` in it is the rate of our line.
    pub name: String,
    /// Its bars; a group that the paper has not comes behind its own.
    pub cases: Vec<MeasuredCase>,
}

/// Which samples make one bar.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCase {
    /// The group that it stands in; `{file}` in its name is the size of our files.
    pub group: String,
    /// Their series.
    pub series: String,
    /// Their parameters, each with its number.
    #[serde(default)]
    pub at: BTreeMap<String, f64>,
    /// Further ones, each with its word.
    #[serde(default)]
    pub said: BTreeMap<String, String>,
}

/// What figures are divided by.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The rate of the line, in bits a second; ours by ours.
    Line(f64),
    /// The best of them; ours by our best.
    Best,
    /// The first group; ours by our first.
    First,
    /// Nothing.
    None,
}

/// One line or one bar in each group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedSeries {
    /// What the legend says.
    pub name: String,
    /// `[x, y]` or `[x, y, low, high]`.
    #[serde(default)]
    pub points: Vec<Vec<f64>>,
    /// One for each group, from the first on.
    #[serde(default)]
    pub values: Vec<f64>,
}

impl Published {
    /// What stands below a figure that shows it.
    pub fn note(&self) -> String {
        let slip = self.slip.as_ref().map(|slip| format!(" {slip}")).unwrap_or_default();
        format!("Hollow: {} ({}). From {}.{slip}", self.id, self.what, self.source)
    }
}

#[derive(Deserialize)]
struct File {
    published: Vec<Published>,
}

static ALL: LazyLock<Vec<Published>> = LazyLock::new(|| {
    // Parsed by a test too: what is committed is right, and nothing is drawn beside ours if it were not.
    toml::from_str::<File>(include_str!("papers.toml")).map(|file| file.published).unwrap_or_default()
});

/// All of them.
pub fn all() -> &'static [Published] {
    &ALL
}

/// Those that stand beside a suite.
pub fn of(suite: &str) -> impl Iterator<Item = &'static Published> {
    ALL.iter().filter(move |published| published.suite == suite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_file_is_whole() {
        let file: File = toml::from_str(include_str!("papers.toml")).unwrap();
        assert_eq!(file.published, all());
        for published in all() {
            for series in &published.series {
                assert!(
                    series.points.iter().all(|point| point.len() == 2 || point.len() == 4),
                    "{}",
                    series.name
                );
                assert!(series.values.len() <= published.groups.len(), "{}", series.name);
                assert!(series.points.is_empty() != series.values.is_empty(), "{}", series.name);
            }
        }
    }

    #[test]
    fn the_numbers_agree_with_what_the_papers_say_of_them() {
        let values = |id: &str, at: usize| {
            let published = all().iter().find(|published| published.id == id).unwrap();
            published.series[at].values.clone()
        };
        // 002 Table II: 21 % and 42 % better than 57 s.
        let times = values("002 Table II", 0);
        assert_eq!(((57.0 / times[1] - 1.0) * 100.0).round(), 21.0);
        assert_eq!((57.0f64 / times[2] * 100.0).floor() - 100.0, 42.0);
        // 002 Table I: 103, 110 and 43 %, cut behind the point.
        let slower = |at: usize| {
            let times = values("002 Table I", at);
            (times[1] / times[0] * 100.0).floor() - 100.0
        };
        assert_eq!([0, 1, 2].map(slower), [103.0, 110.0, 43.0]);
        // 000 Fig 11: 3.34 and 5.88 times as fast, 1.76 and 3.1 times as long, cut behind the last figure.
        let [zx, aws_cli] = [0, 1].map(|at| values("000 Fig 11", at));
        let cut = |above: f64, below: f64| (above / below * 100.0).floor() / 100.0;
        assert_eq!([cut(aws_cli[0], zx[0]), cut(aws_cli[1], zx[1])], [3.34, 5.88]);
        assert_eq!([cut(zx[1], zx[0]), cut(aws_cli[1], aws_cli[0])], [1.76, 3.1]);
        // What was moved in its times at its rates, in Gbit/s and TB, is not the same for both.
        let moved = [(6.71, zx[0]), (4.60, zx[1])].map(|(rate, minutes)| rate * minutes * 60.0 / 8e3);
        assert_eq!(moved.map(|moved| (moved * 100.0).round() / 100.0), [1.14, 1.38]);
        // 004 section IV-D: nearly 30 % between 829 and 596 MB/s.
        let xdd = all().iter().find(|published| published.id == "004 section IV-D").unwrap();
        let rates: Vec<f64> = xdd.series[0].points.iter().map(|point| point[1] / 8e6).collect();
        assert_eq!(rates, [829.0, 596.0]);
        // 001 section 5: 25 % more than with files of 4 GB. Its 92.4 Gbit/s for 24 h and 3 min are 10^15 bytes.
        let rates = values("001 section 4", 0);
        assert_eq!(((rates[2] / rates[1] - 1.0) * 100.0).round(), 25.0);
        assert!((rates[0] / 8.0 * (24.0 * 3600.0 + 180.0) / 1e15 - 1.0).abs() < 1e-3);
    }
}
