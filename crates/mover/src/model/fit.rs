//! The parameters of 001 Eq 6 from measured transfers, and how far a prediction from them may be off.
//!
//! 1. Measurements of one concurrency are linear equations in the four parameters.
//! 2. The best parameters have the least sum of squared *relative* errors (a transfer that takes ten times as long
//!    varies by ten times as much) among those that are not negative: no start takes less than no time. With four
//!    parameters it is quick to try every set of them that are not 0.
//! 3. What remains gives the range of a prediction.
//!
//! 001 fits four parameters to four points with one size of the data. But there `(S/cc) a_trs` is the same in every
//! point, as is `b_ck + b_srvs`, so that only their sum can be told. Then we give the whole sum to `a_trs` and say that
//! it is an upper bound ([`Fit::is_split_known`]). Neither the optimum nor a prediction for this size needs to know
//! more; a prediction for another size, and the condition `a_ck < a_trs`, do: such a prediction is a bound
//! ([`Fit::bound`]) and has no range.

use super::files::{Costs, Optimum, Work};
use super::{ModelError, Result, positive};
use serde::Serialize;

/// A transfer that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measurement {
    /// N; at least the concurrency.
    pub files: f64,
    /// What was moved, and by how many at once.
    pub work: Work,
    /// T: seconds; positive.
    pub time_s: f64,
}

/// Fewest measurements for a fit.
pub const MEASUREMENTS_MIN: usize = 4;
/// Fewest different numbers of files in them: fewer cannot tell starts from verification.
pub const FILE_COUNTS_MIN: usize = 3;

/// Parameters from measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The parameters.
    pub costs: Costs,
    /// cc, for which alone they hold.
    pub concurrency: f64,
    /// Bytes of the measurements, smallest and largest.
    pub bytes: (f64, f64),
    /// Files of the measurements, smallest and largest.
    pub files: (f64, f64),
    /// So many measurements.
    pub measurements: usize,
    /// Whether `a_trs` and `b_ck + b_srvs` could be told apart. If not, `a_trs` is an upper bound with both in it, and
    /// `b_ck + b_srvs` stands as 0.
    pub is_split_known: bool,
    /// Mean of |predicted - measured| / measured over the measurements themselves, 0 to 1 and more.
    pub mean_absolute_error: f64,
    /// Standard deviation of relative errors; `None` where there are no more measurements than parameters.
    pub relative_deviation: Option<f64>,
    /// Inverse of the normal matrix of the parameters in use, for ranges.
    #[serde(skip)]
    covariance: Vec<Vec<f64>>,
    #[serde(skip)]
    support: Vec<usize>,
    /// The same of all parameters that can be told, also those that came out 0: what is known of their differences.
    #[serde(skip)]
    covariance_of_all: Vec<Vec<f64>>,
}

/// Whether 001 Eq 6 may be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// `a_ck < a_trs`, and with 99 % confidence by the spread of the measurements: it holds.
    Holds,
    /// `a_ck >= a_trs`: verification is the narrower stage. Predictions are too short. Without that confidence: nothing
    /// is promised by it.
    Broken,
    /// `a_ck` is below the upper bound of `a_trs`, which is all that is known; or it is below `a_trs` by less than the
    /// measurements can tell, or there are no more of them than parameters; or of neither anything was measured, as of
    /// many tiny files.
    Unknown,
}

/// What a prediction for another size is where one size was measured: all that is paid once was taken as paid by the
/// byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OneSided {
    /// Of more data: it takes no longer, as far as measurements go; what is paid once is in it more than once.
    Upper,
    /// Of less data: it takes no less; only a part of what is paid once is in it.
    Lower,
}

/// A time with its range: 1 of 100 transfers is expected to be below `low_s`, 1 of 100 above `high_s`. Without a range
/// where measurements cannot give one: there are no more of them than parameters, or it is a bound ([`Fit::bound`]).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// Most likely.
    pub time_s: f64,
    /// P1.
    pub low_s: Option<f64>,
    /// P99.
    pub high_s: Option<f64>,
}

/// Fits measurements of one concurrency.
///
/// # Errors
/// `OutOfRange` if a measurement makes no sense, or has another concurrency than the first; `TooFew` below
/// [`MEASUREMENTS_MIN`]; `TooAlike` if they have fewer than [`FILE_COUNTS_MIN`] different numbers of files;
/// `Inseparable` if several sets of parameters fit equally well, as where all files have one size.
pub fn fit(measurements: &[Measurement]) -> Result<Fit> {
    if measurements.len() < MEASUREMENTS_MIN {
        return Err(ModelError::TooFew { have: measurements.len(), need: MEASUREMENTS_MIN });
    }
    let concurrency = measurements[0].work.concurrency;
    let mut rows = Vec::with_capacity(measurements.len());
    for one in measurements {
        positive("time", one.time_s)?;
        let is_same = one.work.concurrency == concurrency;
        super::within("concurrency", one.work.concurrency, is_same, "the same in all measurements of a fit")?;
        rows.push(regressors(one.work, one.files)?.map(|value| value / one.time_s));
    }
    let files = ends(measurements.iter().map(|one| one.files));
    let bytes = ends(measurements.iter().map(|one| one.work.bytes));
    let mut counts: Vec<f64> = measurements.iter().map(|one| one.files).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    if counts.len() < FILE_COUNTS_MIN {
        return Err(ModelError::TooAlike { have: counts.len(), need: FILE_COUNTS_MIN });
    }
    let is_split_known = bytes.1 / bytes.0 > SIZES_DIFFER;
    let usable: &[usize] = if is_split_known { &[0, 1, 2, 3] } else { &[0, 1, 2] };
    // A single parameter always fits somehow, unless the numbers are beyond what can be squared.
    let beyond =
        ModelError::OutOfRange { what: "data", value: bytes.1, range: "what can be calculated with" };
    let best = best_of(&rows, usable).ok_or(beyond)?;
    // Subsets may fit all the same, and rounding would choose one of them.
    let all = least_squares(&rows, usable.to_vec()).ok_or(ModelError::Inseparable)?;
    let [transfer_s_per_byte, transfer_start_s, check_s_per_byte, once_s] = best.values;
    let spare = measurements.len() - usable.len();
    let residuals = || rows.iter().map(|row| dot(row, &best.values) - 1.0);
    Ok(Fit {
        costs: Costs { transfer_s_per_byte, transfer_start_s, check_s_per_byte, once_s },
        concurrency,
        bytes,
        files,
        measurements: measurements.len(),
        is_split_known,
        mean_absolute_error: residuals().map(f64::abs).sum::<f64>() / rows.len() as f64,
        relative_deviation: (spare > 0)
            .then(|| (residuals().map(|error| error * error).sum::<f64>() / spare as f64).sqrt()),
        covariance: best.covariance,
        support: best.support,
        covariance_of_all: all.covariance,
    })
}

impl Fit {
    /// Whether Eq 6 holds.
    pub fn condition(&self) -> Condition {
        let is_neither_seen = self.costs.transfer_s_per_byte <= 0.0 && self.costs.check_s_per_byte <= 0.0;
        match (self.costs.is_transfer_longer(), self.is_split_known) {
            _ if is_neither_seen => Condition::Unknown,
            (false, _) => Condition::Broken,
            (true, true) if self.is_transfer_surely_longer() => Condition::Holds,
            (true, _) => Condition::Unknown,
        }
    }

    /// Whether `a_trs` is above `a_ck` by more than chance makes of such measurements in 99 of 100 cases (Student's t).
    /// `false` where no deviation is known.
    fn is_transfer_surely_longer(&self) -> bool {
        let Some(deviation) = self.relative_deviation else { return false };
        let of = |i: usize, j: usize| self.covariance_of_all[i][j];
        let variance = of(TRANSFER, TRANSFER) + of(CHECK, CHECK) - 2.0 * of(TRANSFER, CHECK);
        let chance =
            student_p99(self.measurements - self.parameters()) * deviation * variance.max(0.0).sqrt();
        self.costs.transfer_s_per_byte - self.costs.check_s_per_byte > chance
    }

    /// So many can be told.
    fn parameters(&self) -> usize {
        if self.is_split_known { 4 } else { 3 }
    }

    /// What a prediction for so much data is, if it is no more than a bound: only one size was measured, and this
    /// differs from it by more than sizes do that count as one. `None`: it is what is to be expected.
    pub fn bound(&self, bytes: f64) -> Option<OneSided> {
        let (smallest, largest) = self.bytes;
        match self.is_split_known {
            true => None,
            false if bytes > largest * SIZES_DIFFER => Some(OneSided::Upper),
            false if bytes * SIZES_DIFFER < smallest => Some(OneSided::Lower),
            false => None,
        }
    }

    /// Time of `bytes` in `files` files with the concurrency of the fit, and the range of a single transfer, from the
    /// spread of the measurements around the fit and from their number (Student's t); no range of what is a
    /// [bound](Fit::bound).
    ///
    /// # Errors
    /// As [`Costs::time_s`].
    pub fn predict(&self, bytes: f64, files: f64) -> Result<Prediction> {
        let work = Work { bytes, concurrency: self.concurrency };
        let time_s = self.costs.time_s(work, files)?;
        let Some(deviation) = self.relative_deviation.filter(|_| self.bound(bytes).is_none()) else {
            return Ok(Prediction { time_s, low_s: None, high_s: None });
        };
        let row = regressors(work, files)?.map(|value| value / time_s);
        let part = |at: usize| row[self.support[at]];
        let mut leverage = 0.0;
        for (i, line) in self.covariance.iter().enumerate() {
            leverage += line.iter().enumerate().map(|(j, value)| part(i) * value * part(j)).sum::<f64>();
        }
        let quantile = student_p99(self.measurements - self.parameters());
        let half = quantile * deviation * (1.0 + leverage).sqrt() * time_s;
        Ok(Prediction { time_s, low_s: Some((time_s - half).max(0.0)), high_s: Some(time_s + half) })
    }

    /// The best number of files for `bytes`, at most `files_max`.
    ///
    /// # Errors
    /// As [`Costs::optimum`].
    pub fn optimum(&self, bytes: f64, files_max: f64) -> Result<Optimum> {
        self.costs.optimum(Work { bytes, concurrency: self.concurrency }, files_max)
    }

    /// Whether no number of files up to `files_max` is better than another, as far as measurements tell: what is
    /// predicted of `bytes` in the best and in the worst of them differs by no more than the deviation of the fit.
    /// `false` where no deviation is known.
    ///
    /// # Errors
    /// As [`Costs::optimum`].
    pub fn is_flat(&self, bytes: f64, files_max: f64) -> Result<bool> {
        let best = self.optimum(bytes, files_max)?;
        let Some(deviation) = self.relative_deviation else { return Ok(false) };
        let work = Work { bytes, concurrency: self.concurrency };
        let most = (files_max / self.concurrency).floor() * self.concurrency;
        // Times fall to the optimum and rise behind it: the longest is at an end.
        let longest_s = self.costs.time_s(work, self.concurrency)?.max(self.costs.time_s(work, most)?);
        Ok(longest_s / best.time_s - 1.0 <= deviation)
    }
}

/// Sizes that differ by less than this factor do not tell what depends on size from what does not.
const SIZES_DIFFER: f64 = 1.2;

/// `a_trs` and `a_ck` among the parameters of Eq 6.
const TRANSFER: usize = 0;
const CHECK: usize = 2;

/// What stands beside each parameter in Eq 6.
fn regressors(work: Work, files: f64) -> Result<[f64; 4]> {
    let unit = |at: usize| {
        let mut values = [0.0; 4];
        values[at] = 1.0;
        let [transfer_s_per_byte, transfer_start_s, check_s_per_byte, once_s] = values;
        Costs { transfer_s_per_byte, transfer_start_s, check_s_per_byte, once_s }.time_s(work, files)
    };
    Ok([unit(0)?, unit(1)?, unit(2)?, unit(3)?])
}

struct Solution {
    values: [f64; 4],
    squares: f64,
    support: Vec<usize>,
    covariance: Vec<Vec<f64>>,
}

/// Least squares of `row * values = 1` over all sets of parameters that come out 0 or more: the minimum under that
/// constraint is the free minimum of one of them.
fn best_of(rows: &[[f64; 4]], usable: &[usize]) -> Option<Solution> {
    let sets = 1_usize..1 << usable.len();
    let solutions = sets.filter_map(|set| {
        let support: Vec<usize> = usable
            .iter()
            .enumerate()
            .filter(|(bit, _)| set >> bit & 1 == 1)
            .map(|(_, &column)| column)
            .collect();
        least_squares(rows, support)
    });
    solutions
        .filter(|solution| solution.values.iter().all(|&value| value >= 0.0))
        .min_by(|a, b| a.squares.total_cmp(&b.squares))
}

/// `None` where these columns cannot be told apart.
fn least_squares(rows: &[[f64; 4]], support: Vec<usize>) -> Option<Solution> {
    // Bytes and seconds differ by many orders of magnitude: every column is scaled to length 1.
    let length = |&at: &usize| rows.iter().map(|row| row[at] * row[at]).sum::<f64>().sqrt();
    let scales: Vec<f64> = support.iter().map(length).collect();
    let scaled = |(&at, scale): (&usize, &f64)| rows.iter().map(|row| row[at] / scale).collect::<Vec<f64>>();
    let columns: Vec<Vec<f64>> = support.iter().zip(&scales).map(scaled).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let normal = columns.iter().map(|a| columns.iter().map(|b| product(a, b)).collect()).collect();
    let right: Vec<f64> = columns.iter().map(|column| column.iter().sum()).collect();
    let mut covariance = inverted(normal)?;
    let mut values = [0.0; 4];
    for (i, line) in covariance.iter_mut().enumerate() {
        values[support[i]] = product(line, &right) / scales[i];
        for (value, scale) in line.iter_mut().zip(&scales) {
            *value /= scales[i] * scale;
        }
    }
    let squares = rows.iter().map(|row| (dot(row, &values) - 1.0).powi(2)).sum();
    Some(Solution { values, squares, support, covariance })
}

/// Gauss-Jordan with pivots. `None` if singular; the diagonal must be about 1, as of scaled columns.
fn inverted(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    const SINGULAR: f64 = 1e-11;
    let size = matrix.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..size).map(|i| (0..size).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    for at in 0..size {
        let pivot = (at..size).max_by(|&a, &b| matrix[a][at].abs().total_cmp(&matrix[b][at].abs()))?;
        if matrix[pivot][at].abs() < SINGULAR {
            return None;
        }
        matrix.swap(at, pivot);
        inverse.swap(at, pivot);
        let by = matrix[at][at];
        for j in 0..size {
            matrix[at][j] /= by;
            inverse[at][j] /= by;
        }
        for i in (0..size).filter(|&i| i != at) {
            let factor = matrix[i][at];
            for j in 0..size {
                matrix[i][j] -= factor * matrix[at][j];
                inverse[i][j] -= factor * inverse[at][j];
            }
        }
    }
    Some(inverse)
}

fn dot(row: &[f64; 4], values: &[f64; 4]) -> f64 {
    row.iter().zip(values).map(|(a, b)| a * b).sum()
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)))
}

/// The 0.99 quantile of Student's t with so many degrees of freedom, at least 1 (any table of statistics).
#[expect(clippy::approx_constant, reason = "a quantile that happens to be near e")]
fn student_p99(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650, 2.624,
        2.602, 2.583, 2.567, 2.552, 2.539, 2.528, 2.518, 2.508, 2.500, 2.492, 2.485, 2.479, 2.473, 2.467,
        2.462, 2.457,
    ];
    // Beyond the table within 0.001 of it.
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(2.326 + 3.9 / freedom as f64)
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::{SNAPSHOT, published};
    use super::*;
    use crate::model::is_near;
    use crate::model::testing::Noise;
    use proptest::prelude::*;

    fn measured(costs: Costs, work: Work, counts: &[f64]) -> Vec<Measurement> {
        let one = |&files: &f64| Measurement { files, work, time_s: costs.time_s(work, files).unwrap() };
        counts.iter().map(one).collect()
    }

    /// 001 Fig 9: fitted to four points, the others follow.
    #[test]
    fn four_points_of_one_snapshot_predict_the_others() {
        let fitted = fit(&measured(published(), SNAPSHOT, &[128.0, 512.0, 2048.0, 8192.0])).unwrap();
        for files in [256.0, 1024.0, 1536.0, 4096.0] {
            let expected = published().time_s(SNAPSHOT, files).unwrap();
            let prediction = fitted.predict(SNAPSHOT.bytes, files).unwrap();
            assert!(is_near(prediction.time_s, expected, 1e-6), "{files}");
            assert!(
                prediction.low_s.unwrap() <= expected && expected <= prediction.high_s.unwrap() * 1.000_001
            );
        }
        let optimum = fitted.optimum(SNAPSHOT.bytes, 1e6).unwrap();
        assert!((1536.0..=2048.0).contains(&optimum.files));
        // One size cannot tell a_trs from what is paid once: the paper's method does not see it.
        assert!(!fitted.is_split_known);
        assert!(fitted.costs.transfer_s_per_byte > published().transfer_s_per_byte);
        assert_eq!(fitted.condition(), Condition::Unknown);
    }

    #[test]
    fn two_sizes_tell_all_four_parameters() {
        let mut points = measured(published(), SNAPSHOT, &[128.0, 1024.0, 8192.0]);
        let half = Work { bytes: SNAPSHOT.bytes / 2.0, ..SNAPSHOT };
        points.extend(measured(published(), half, &[128.0, 1024.0]));
        let fitted = fit(&points).unwrap();
        assert!(fitted.is_split_known);
        let (expected, found) = (published(), fitted.costs);
        assert!(is_near(found.transfer_s_per_byte, expected.transfer_s_per_byte, 1e-6));
        assert!(is_near(found.transfer_start_s, expected.transfer_start_s, 1e-6));
        assert!(is_near(found.check_s_per_byte, expected.check_s_per_byte, 1e-6));
        assert!(is_near(found.once_s, expected.once_s, 1e-3));
        assert_eq!(fitted.condition(), Condition::Holds);
    }

    /// What is paid once, here a fifth of it, is taken as paid by the byte: ten times the data do not take ten times as
    /// long, and a tenth takes more than a tenth.
    #[test]
    fn one_size_gives_a_bound_for_other_sizes_and_no_range() {
        let once = Costs { once_s: published().time_s(SNAPSHOT, 1536.0).unwrap() / 4.0, ..published() };
        let counts = [128.0, 256.0, 512.0, 1024.0, 2048.0, 8192.0];
        let fitted = fit(&measured(once, SNAPSHOT, &counts)).unwrap();
        for (times, bound) in [
            (1.0, None),
            (1.19, None),
            (1.0 / 1.19, None),
            (1.3, Some(OneSided::Upper)),
            (10.0, Some(OneSided::Upper)),
            (0.7, Some(OneSided::Lower)),
            (0.1, Some(OneSided::Lower)),
        ] {
            let bytes = SNAPSHOT.bytes * times;
            let told = fitted.predict(bytes, 1536.0).unwrap();
            let real_s = once.time_s(Work { bytes, ..SNAPSHOT }, 1536.0).unwrap();
            assert_eq!(fitted.bound(bytes), bound, "{times}");
            assert_eq!(
                (told.low_s.is_none(), told.high_s.is_none()),
                (bound.is_some(), bound.is_some()),
                "{times}"
            );
            match bound {
                Some(OneSided::Upper) => assert!(told.time_s > real_s * 1.01, "{times}: {told:?}, {real_s}"),
                Some(OneSided::Lower) => assert!(told.time_s < real_s * 0.99, "{times}: {told:?}, {real_s}"),
                None => assert!(is_near(told.time_s, real_s, 0.05), "{times}: {told:?}, {real_s}"),
            }
        }
        let mut points = measured(once, SNAPSHOT, &counts);
        points.extend(measured(once, Work { bytes: SNAPSHOT.bytes * 1.5, ..SNAPSHOT }, &counts));
        let both = fit(&points).unwrap();
        let told = both.predict(SNAPSHOT.bytes * 10.0, 1536.0).unwrap();
        assert!(
            both.bound(SNAPSHOT.bytes * 10.0).is_none() && told.high_s.is_some(),
            "two sizes tell it: {told:?}"
        );
    }

    /// Files of one size, more and more of them: data and files grow together, and so do their costs. That sizes of
    /// the data differ tells nothing then.
    #[test]
    fn files_of_one_size_are_refused_for_they_tell_no_cost_from_another() {
        let of = |(files, by): (f64, f64)| {
            let work = Work { bytes: files * 1e6, concurrency: 8.0 };
            let time_s = published().time_s(work, files).unwrap() * by;
            Measurement { files, work, time_s }
        };
        let alike = [(8.0, 1.01), (64.0, 0.99), (512.0, 1.02), (4096.0, 0.98)].map(of);
        assert_eq!(fit(&alike), Err(ModelError::Inseparable));
        // Some of another size among them tell it.
        let others = [1, 2].map(|at| {
            let of: Measurement = alike[at];
            Measurement { work: Work { bytes: 256e6, ..of.work }, ..of }
        });
        assert!(fit(&[&alike[..], &others[..]].concat()).is_ok());
    }

    /// A tenth less is less only where measurements differ by less than that.
    #[test]
    fn the_condition_is_unknown_where_chance_may_have_made_the_difference() {
        let near = Costs { check_s_per_byte: published().transfer_s_per_byte * 0.9, ..published() };
        let counts = [128.0, 512.0, 2048.0, 8192.0];
        let half = Work { bytes: SNAPSHOT.bytes / 2.0, ..SNAPSHOT };
        let condition = |spread: f64| {
            let mut points = [measured(near, SNAPSHOT, &counts), measured(near, half, &counts[..3])].concat();
            for (at, point) in points.iter_mut().enumerate() {
                // In no order that looks like a cost.
                point.time_s *= 1.0 + spread * [1.0, -1.0, -1.0, 1.0, 0.0][at % 5];
            }
            fit(&points).unwrap().condition()
        };
        assert_eq!(condition(0.0), Condition::Holds);
        assert_eq!(condition(1e-3), Condition::Holds);
        assert_eq!(condition(-0.1), Condition::Unknown);
        // As many parameters as measurements: nobody knows what chance makes of them.
        let few = [measured(near, SNAPSHOT, &counts[..3]), measured(near, half, &counts[..1])];
        assert_eq!(fit(&few.concat()).unwrap().condition(), Condition::Unknown);
    }

    #[test]
    fn a_check_that_is_slower_than_the_transfer_is_said() {
        let fast = published();
        let slow_check = Costs { check_s_per_byte: fast.transfer_s_per_byte * 3.0, ..fast };
        let fitted = fit(&measured(slow_check, SNAPSHOT, &[128.0, 512.0, 2048.0, 8192.0])).unwrap();
        assert_eq!(fitted.condition(), Condition::Broken);
    }

    /// Of tiny files all time goes into starts: whatever a byte costs, transferred or verified, nobody saw it.
    #[test]
    fn where_no_byte_cost_anything_neither_stage_is_called_the_narrower() {
        let starts =
            Costs { transfer_s_per_byte: 0.0, transfer_start_s: 0.004, check_s_per_byte: 0.0, once_s: 0.0 };
        let mut points = Vec::new();
        // More bytes, and fewer files of more bytes each, took a little less.
        for (bytes, by) in [(1e6, 1.0), (1.5e6, 0.99)] {
            let work = Work { bytes, concurrency: 8.0 };
            for (files, by_files) in [(64.0, 0.97), (512.0, 0.98), (4096.0, 1.0)] {
                let time_s = starts.time_s(work, files).unwrap() * by * by_files;
                points.push(Measurement { files, work, time_s });
            }
        }
        let fitted = fit(&points).unwrap();
        assert_eq!(
            (fitted.costs.transfer_s_per_byte, fitted.costs.check_s_per_byte),
            (0.0, 0.0),
            "{fitted:?}"
        );
        assert!(fitted.is_split_known);
        assert_eq!(fitted.condition(), Condition::Unknown);
    }

    #[test]
    fn too_few_or_too_like_measurements_are_refused() {
        let points = measured(published(), SNAPSHOT, &[128.0, 512.0, 2048.0]);
        assert_eq!(fit(&points), Err(ModelError::TooFew { have: 3, need: 4 }));
        let same = measured(published(), SNAPSHOT, &[128.0, 128.0, 512.0, 512.0, 512.0]);
        assert_eq!(fit(&same), Err(ModelError::TooAlike { have: 2, need: 3 }));
        let mut mixed = measured(published(), SNAPSHOT, &[128.0, 256.0, 512.0, 1024.0]);
        mixed[3].work.concurrency = 64.0;
        assert!(matches!(fit(&mixed), Err(ModelError::OutOfRange { what: "concurrency", .. })));
        mixed[3] = Measurement { time_s: 0.0, ..mixed[0] };
        assert!(matches!(fit(&mixed), Err(ModelError::OutOfRange { what: "time", .. })));
    }

    #[test]
    fn four_points_of_two_sizes_leave_nothing_for_a_range() {
        let mut points = measured(published(), SNAPSHOT, &[128.0, 1024.0, 8192.0]);
        let half = Work { bytes: SNAPSHOT.bytes / 2.0, ..SNAPSHOT };
        points.extend(measured(published(), half, &[256.0]));
        let fitted = fit(&points).unwrap();
        assert_eq!(fitted.relative_deviation, None);
        assert_eq!(fitted.predict(SNAPSHOT.bytes, 512.0).unwrap().high_s, None);
    }

    /// Shares of transfers below and above the range, of 1500 fits to as many sets of noisy measurements.
    fn missed(counts: &[f64], sizes: &[f64], spread: f64, seed: u64) -> [f64; 2] {
        const FITS: u32 = 1500;
        let mut noise = Noise::new(seed);
        let mut missed = [0; 2];
        for _ in 0..FITS {
            let mut points = Vec::new();
            for size in sizes {
                let work = Work { bytes: SNAPSHOT.bytes * size, ..SNAPSHOT };
                points.extend(measured(published(), work, counts));
            }
            let mut noisy = |time_s: f64| time_s * (1.0 + spread * noise.normal()).max(0.05);
            points.iter_mut().for_each(|point| point.time_s = noisy(point.time_s));
            let told = fit(&points).unwrap().predict(SNAPSHOT.bytes, 1536.0).unwrap();
            let time_s = noisy(published().time_s(SNAPSHOT, 1536.0).unwrap());
            missed[0] += u32::from(time_s < told.low_s.unwrap());
            missed[1] += u32::from(time_s > told.high_s.unwrap());
        }
        missed.map(|count| f64::from(count) / f64::from(FITS))
    }

    /// At most 1 of 100 on each side, as it says; a set of 1500 may have some more by chance (three standard errors).
    #[test]
    fn the_range_of_a_prediction_holds_what_it_says() {
        let few: &[f64] = &[128.0, 512.0, 2048.0, 8192.0];
        let more: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
        for (seed, (counts, sizes, spread)) in (1..).zip([
            (few, &[1.0][..], 0.05),
            (few, &[1.0][..], 0.2),
            (more, &[1.0][..], 0.05),
            (more, &[1.0][..], 0.2),
            (few, &[1.0, 0.5][..], 0.1),
        ]) {
            let missed = missed(counts, sizes, spread, seed);
            let told = format!("{} counts, {sizes:?}, spread {spread}: {missed:?}", counts.len());
            assert!(missed.iter().all(|share| *share <= 0.01 + 0.008), "{told}");
        }
        // One that holds everything would say nothing: some are outside.
        assert!(missed(more, &[1.0], 0.1, 9).iter().sum::<f64>() > 0.002);
    }

    #[test]
    fn a_fit_is_flat_where_numbers_of_files_differ_by_less_than_measurements_do() {
        let counts = [128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
        let points = measured(published(), SNAPSHOT, &counts);
        let is_flat = |points: &[Measurement]| fit(points).unwrap().is_flat(SNAPSHOT.bytes, 8192.0).unwrap();
        assert!(!is_flat(&points), "256 files take a quarter more than the best");
        let times_s = [100.0, 101.0, 99.0, 100.0, 101.0, 99.0, 100.0];
        let even = points.iter().zip(times_s).map(|(point, time_s)| Measurement { time_s, ..*point });
        let even: Vec<Measurement> = even.collect();
        assert!(is_flat(&even), "{even:?}");
        // As many measurements as parameters fit each of them: nobody knows how much they differ.
        let costs = Costs { transfer_start_s: 0.0, check_s_per_byte: 0.0, ..published() };
        let half = Work { bytes: SNAPSHOT.bytes / 2.0, ..SNAPSHOT };
        let few = [measured(costs, SNAPSHOT, &counts[..3]), measured(costs, half, &counts[..1])].concat();
        assert!(!is_flat(&few), "{few:?}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(1, 31.821), (10, 2.764), (30, 2.457), (60, 2.390), (120, 2.358)] {
            assert!((student_p99(freedom) - expected).abs() < 0.002, "{freedom}");
        }
    }

    proptest! {
        #[test]
        fn noise_leaves_parameters_that_are_not_negative_and_a_range_around_the_prediction(
            noise in proptest::collection::vec(-0.1..0.1, 7), work_bytes in 1e8..1e13
        ) {
            let work = Work { bytes: work_bytes, concurrency: 8.0 };
            let mut points = measured(published(), work, &[8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 8192.0]);
            for (point, noise) in points.iter_mut().zip(&noise) {
                point.time_s *= 1.0 + noise;
            }
            let fitted = fit(&points).unwrap();
            let costs = fitted.costs;
            for value in [costs.transfer_s_per_byte, costs.transfer_start_s, costs.check_s_per_byte, costs.once_s] {
                prop_assert!(value >= 0.0);
            }
            let prediction = fitted.predict(work.bytes, 512.0).unwrap();
            prop_assert!(prediction.low_s.unwrap() <= prediction.time_s);
            prop_assert!(prediction.high_s.unwrap() >= prediction.time_s);
            // The fit is the best there is: the true costs are no nearer to the measurements.
            let squares = |costs: Costs| points.iter().map(|point| {
                (costs.time_s(point.work, point.files).unwrap() / point.time_s - 1.0).powi(2)
            }).sum::<f64>();
            prop_assert!(squares(costs) <= squares(published()) + 1e-9);
        }
    }
}
