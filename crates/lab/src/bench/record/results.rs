//! A result, and what can be asked of all of it.

use super::LeftOut;
use super::about::{About, PathKind};
use super::sample::{RATE, RATE_WITH_START, Sample};
use crate::bench::statistics::median;

/// A result file, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What was measured.
    pub about: About,
    /// All measurements, in their order.
    pub samples: Vec<Sample>,
    /// All that did not run.
    pub left_out: Vec<LeftOut>,
    /// The line `end` was promised and came: nothing is missing.
    pub has_end: bool,
}

impl Results {
    /// The same with all runs of a case in one series. In results of `latency` from before 29 November 2026 a copy
    /// stood in another series, and had its start in its rate, where the rate without it was above the line or noise.
    /// So which were left was chosen by their rates: that is undone, and all of them have the rate of the whole copy.
    #[must_use]
    pub fn without_choice(mut self) -> Results {
        if self.about.suite != "latency" {
            return self;
        }
        for sample in &mut self.samples {
            if let Some(series) = sample.series.strip_suffix(", with the start") {
                sample.series = series.to_owned();
            }
            if sample.measured.remove(RATE_WITH_START).is_some() {
                sample.measured.remove(RATE);
            }
        }
        self
    }

    /// Whether another program measured it.
    pub fn is_foreign(&self) -> bool {
        matches!(self.about.path, PathKind::Foreign { .. })
    }

    /// The path of some of the samples, in words: not all of a suite need take the one that `about` names. Beside a
    /// disk there may be simulated ones, and beside an emulated path the loopback.
    pub fn path_of(&self, samples: &[&Sample]) -> String {
        let path = &self.about.path;
        let is_other: fn(&Sample) -> bool = match path {
            PathKind::Disk => Sample::is_simulated,
            PathKind::Loopback => Sample::is_emulated,
            PathKind::Testbed { .. } => |sample| !sample.is_emulated(),
            PathKind::Simulated | PathKind::Foreign { .. } => |_| false,
        };
        let others = samples.iter().filter(|sample| is_other(sample)).count();
        match (path, others) {
            (_, 0) => path.to_string(),
            (PathKind::Disk, others) if others == samples.len() => PathKind::Simulated.to_string(),
            (PathKind::Disk, _) => format!("{path} and {}", PathKind::Simulated),
            (PathKind::Loopback, others) if others == samples.len() => "emulated paths".to_owned(),
            (PathKind::Loopback, _) => format!("{path} and emulated paths"),
            // Of what was written by hand nobody said it.
            (_, others) if others == samples.len() => path.to_string(),
            (_, _) => format!("{path}, and {}", PathKind::Loopback),
        }
    }

    /// How often each case was measured, in words; of a result that is not whole, how often of how often. Of what
    /// others measured nobody knows how often it was to be.
    pub fn counted(&self) -> String {
        let counts: Vec<usize> = self.cases().iter().map(Vec::len).collect();
        let wanted = self.about.iterations as usize;
        let most = counts.iter().copied().max().unwrap_or(wanted);
        let range = |fewest: usize, most: usize| match fewest == most {
            true => fewest.to_string(),
            false => format!("{fewest} to {most}"),
        };
        // First: whoever writes by hand what others measured may have taken `about` from a file that has an end.
        if let PathKind::Foreign { .. } = self.about.path {
            return range(counts.into_iter().min().unwrap_or(wanted), most);
        }
        if self.about.is_unfinished {
            // In the first round nobody knows which cases were still to come.
            let most = counts.iter().copied().max().unwrap_or(0).min(wanted);
            let fewest = if most < 2 { 0 } else { counts.into_iter().min().unwrap_or(0).min(most) };
            return format!("partial: {} of {wanted}", range(fewest, most));
        }
        // Also where a case has fewer runs: some were left out.
        if self.has_end {
            return wanted.to_string();
        }
        // Cases take turns: what is behind by more than one run was written by hand.
        let fewest = counts.into_iter().filter(|count| count + 1 >= most).min().unwrap_or(wanted);
        match fewest < wanted {
            true => format!("partial: {} of {wanted}", range(fewest, most.min(wanted))),
            false => wanted.to_string(),
        }
    }

    /// What the emulated path itself cost: see [`path_cpu_s_per_gb`]. None of what was not taken through one.
    pub fn path_cpu_s_per_gb(&self) -> Option<f64> {
        path_cpu_s_per_gb(self.samples.iter())
    }

    /// The series, in the order in which they first came.
    pub fn series(&self) -> Vec<&str> {
        let mut known = std::collections::HashSet::new();
        self.samples.iter().map(|sample| sample.series.as_str()).filter(|name| known.insert(*name)).collect()
    }

    /// The samples of which figures are made: see [`Sample::counts`].
    pub fn counting(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(|sample| sample.counts())
    }

    /// Cases of the samples that count alone: one that has none is not there.
    pub fn counting_cases(&self) -> Vec<Vec<&Sample>> {
        let cases = self.cases();
        cases.iter().map(|case| counting(case)).filter(|case| !case.is_empty()).collect()
    }

    /// How many samples do not count because this machine was too slow for the emulated path, of how many, in words;
    /// nothing where there are none.
    pub fn void(&self) -> Option<String> {
        let void = self.samples.iter().filter(|sample| sample.is_void()).count();
        (void > 0).then(|| format!("{void} of {} samples are VOID", self.samples.len()))
    }

    /// Samples that differ in nothing but their run, in the order in which the first of each came; those that do not
    /// count are among them, so that they can be told.
    pub fn cases(&self) -> Vec<Vec<&Sample>> {
        let mut cases: Vec<Vec<&Sample>> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for sample in &self.samples {
            let parameters: Vec<_> =
                sample.parameters.iter().map(|(name, value)| (name, value.key())).collect();
            let at = *known.entry((&sample.series, parameters)).or_insert(cases.len());
            match cases.get_mut(at) {
                Some(case) => case.push(sample),
                None => cases.push(vec![sample]),
            }
        }
        cases
    }
}

/// Those samples of a case of which figures are made: see [`Sample::counts`].
pub fn counting<'a>(case: &[&'a Sample]) -> Vec<&'a Sample> {
    case.iter().copied().filter(|sample| sample.counts()).collect()
}

/// Of a few small packets it says nothing what their bytes cost: so much at least must have been moved, and so fast.
const CARRIED_BYTES_MIN: u64 = 1 << 20;
const CARRIED_BITS_PER_S_MIN: f64 = 4e6;

/// What the emulated path itself cost, in CPU seconds for 10^9 bytes that it carried: the median of those samples that
/// count and moved at least 1 MiB over one, at 4 Mbit/s or more.
pub fn path_cpu_s_per_gb<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<f64> {
    let has_moved = |sample: &&Sample| {
        let has_carried =
            sample.bytes >= CARRIED_BYTES_MIN && sample.rate_bits_per_s() >= CARRIED_BITS_PER_S_MIN;
        sample.counts() && has_carried
    };
    let costs = samples.filter(has_moved);
    let costs: Vec<f64> = costs.filter_map(|sample| sample.wire_cpu_s_per_gb).collect();
    (!costs.is_empty()).then(|| median(&costs))
}
