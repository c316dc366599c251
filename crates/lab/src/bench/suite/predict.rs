//! `predict`: does a copy take as long as `thalweg predict` said before it, and is that in the range that it gave?
//!
//! Ways of several shapes, each with another narrowest stage. Before each copy it is predicted, either by a probe
//! alone, on a way of which nothing else is known, or by the earlier copies of the suite on the same way: one before
//! the first counted run, two before the second, and so on. What was predicted stands beside what it took, with the
//! term that was most in error.

use super::{GBIT, MIB, ON_THIS_MACHINE, Suite, Takes, VERIFIED, Values, encrypted, of_copy, size, words};
use crate::bench::network::{MTU_BYTES, PathWish, Testbed};
use crate::bench::record::{PathKind, Quantity, Sample};
use crate::bench::workspace::{Copied, Daemon, Workspace};
use crate::bench::{Bench, Prepared, Wishes};
use crate::dataset;
use crate::testbed::spec::TUNED;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use thalweg_mover::endpoint::dataset::DatasetSpec;
use thalweg_mover::failure::{Failure, FailureKind, Result};

pub(super) const SUITE: Suite = Suite {
    name: "predict",
    asks: "does a copy take as long as was predicted, within the range? (`thalweg predict` before, the copy after)",
    runs: 5,
    budget_bytes: 256 * MIB,
    takes: Takes { max_files: Values::One, ..ON_THIS_MACHINE },
    prepare,
    needs,
    plan: super::untold,
    run,
};

/// In seconds, what a copy took; predicted under the same name.
pub const TOOK: &str = "took";
/// 1 if that is in the range, 0 if not.
pub const IN_RANGE: &str = "in_range";
/// The ends of the range, in seconds.
pub const RANGE: [&str; 2] = ["predicted_low", "predicted_high"];
/// What a prediction rests on, as a series: a probe alone.
pub const BY_PROBE: &str = "by a probe";
/// Copies of the same way before this one.
pub const BY_EARLIER: &str = "by earlier copies";
/// The term that was most in error, a word.
pub const WRONG: &str = "wrong_term";
/// The term of which nothing was known, so that nothing was predicted, a word.
pub const MISSING: &str = "missing";
/// How far the middle of the prediction was off, as a share of what it took.
pub const OFF: &str = "off_by";

/// The term that was most in error most often, of these samples.
pub fn wrong_most<'a>(samples: &[&'a Sample]) -> Option<&'a str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in samples {
        if let Some(term) = sample.measured.get(WRONG).and_then(Quantity::word) {
            *counts.entry(term).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(term, _)| term)
}

/// As short as a probe can be: the suite has one for each run of each way.
const PROBE: &str = "4s";

const SMALL_FILES: u64 = 2000;
const SMALL_BYTES: u64 = 4096;

/// A way and what is moved over it: as much as keeps a copy busy for one to three seconds.
struct Shape {
    name: &'static str,
    way: Way,
    /// At most so many bytes, in one file; none: small files.
    bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Loopback,
    /// Over an emulated path of this round trip, rate and loss; to the far side or from it.
    Far {
        rtt_ms: u64,
        rate_bits_per_s: u64,
        loss: f64,
        is_pull: bool,
    },
    /// From a simulated array to a server, and from here to one.
    SlowSource,
    SlowDestination,
}

const fn far(rtt_ms: u64, rate_bits_per_s: u64, loss: f64, is_pull: bool) -> Way {
    Way::Far { rtt_ms, rate_bits_per_s, loss, is_pull }
}

const SHAPES: [Shape; 8] = [
    Shape { name: "fast everything", way: Way::Loopback, bytes: Some(256 * MIB) },
    Shape { name: "thin link", way: far(1, GBIT / 10, 0.0, false), bytes: Some(24 * MIB) },
    Shape { name: "long link", way: far(50, GBIT, 0.0, false), bytes: Some(128 * MIB) },
    Shape { name: "long link, pulled", way: far(50, GBIT, 0.0, true), bytes: Some(128 * MIB) },
    Shape { name: "lossy link", way: far(20, GBIT, 1e-3, false), bytes: Some(64 * MIB) },
    Shape { name: "slow source disk", way: Way::SlowSource, bytes: Some(64 * MIB) },
    Shape { name: "slow destination disk", way: Way::SlowDestination, bytes: Some(64 * MIB) },
    Shape { name: "small files", way: Way::Loopback, bytes: None },
];

/// Of a simulated disk.
const DISK: &str = "rate=60MB/s";

/// What is known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Probe,
    Earlier,
}

impl Known {
    fn name(self) -> &'static str {
        match self {
            Known::Probe => BY_PROBE,
            Known::Earlier => BY_EARLIER,
        }
    }
}

struct Case {
    shape: &'static Shape,
    known: Known,
}

impl Shape {
    fn path(&self) -> Option<PathWish> {
        match self.way {
            Way::Far { rtt_ms, rate_bits_per_s, loss, .. } => {
                let rtt = Duration::from_millis(rtt_ms);
                Some(PathWish { rtt, rate_bits_per_s, loss, mtu_bytes: MTU_BYTES })
            }
            _ => None,
        }
    }

    /// What a probe can measure: simulated disks it cannot.
    fn known(&self) -> &'static [Known] {
        match self.way {
            Way::SlowSource | Way::SlowDestination => &[Known::Earlier],
            Way::Loopback | Way::Far { .. } => &[Known::Probe, Known::Earlier],
        }
    }

    fn set(&self, wishes: &Wishes) -> DatasetSpec {
        let budget_bytes = SUITE.budget_bytes(wishes);
        let (files, bytes) = match self.bytes {
            Some(bytes) => (1, bytes.min(budget_bytes)),
            None => {
                (SMALL_FILES.min(wishes.files_max()).min(budget_bytes.div_ceil(SMALL_BYTES)), SMALL_BYTES)
            }
        };
        DatasetSpec { files, sizes: vec![(bytes, 1)], seed: wishes.seed(), ..DatasetSpec::default() }
    }

    fn directory(&self) -> String {
        self.name.replace([' ', ','], "-")
    }
}

fn needs(_: &Wishes, prepared: &mut Prepared) -> Result<()> {
    if Testbed::check().is_err() {
        prepared.path = PathKind::Loopback;
    }
    Ok(())
}

fn prepare(wishes: &Wishes) -> Result<Prepared> {
    let most = SHAPES.iter().map(|shape| shape.set(wishes).bytes()).max().unwrap_or(0);
    Ok(Prepared {
        // Rates and distances are those of the shapes.
        path: PathKind::Testbed { rtt_s: None, rate_bits_per_s: None, loss: None, mtu_bytes: MTU_BYTES },
        encryption: encrypted(),
        verification: VERIFIED.to_owned(),
        changes: vec![super::scaled("a copy", "hours (a petabyte in a day, 001)", {
            format!("a few seconds, at most {}", size(most))
        })],
    })
}

fn run(bench: &mut Bench<'_>) -> Result<()> {
    let all: u64 = SHAPES.iter().map(|shape| shape.set(bench.wishes).bytes()).sum();
    bench.workspace.needs(2 * all + bench.budget_bytes())?;
    let first = SHAPES.iter().find_map(Shape::path);
    let testbed = match (Testbed::check(), first) {
        (Ok(()), Some(path)) => Some(Testbed::up(&bench.workspace, "predict", &path, TUNED)?),
        (Ok(()), None) => None,
        (Err(why), _) => {
            bench.leave_out("ways over an emulated path", &why.cause)?;
            None
        }
    };
    let site = Site {
        near: bench.workspace.daemon(None)?,
        far: testbed.as_ref().map(|testbed| bench.workspace.daemon(Some(&testbed.right))).transpose()?,
        testbed,
    };
    let mut cases = Vec::new();
    for shape in SHAPES.iter().filter(|shape| shape.path().is_none() || site.testbed.is_some()) {
        let set = shape.set(bench.wishes);
        match shape.way {
            Way::SlowSource => {}
            Way::Far { is_pull: true, .. } => {
                dataset::make(&site.daemon(shape).path(&shape.directory()), &set)?;
            }
            _ => {
                dataset::make(&bench.workspace.path(&shape.directory()), &set)?;
            }
        };
        cases.extend(shape.known().iter().map(|&known| Case { shape, known }));
    }
    bench.take_turns(cases, |bench, run, case| {
        // A probe needs no warming up, and earlier copies there are none.
        if run == 0 && case.known == Known::Probe {
            return Ok(None);
        }
        bench.workspace.settle()?;
        let set = case.shape.set(bench.wishes);
        match (&site.testbed, case.shape.path()) {
            (Some(testbed), Some(path)) => {
                testbed.set(&path)?;
                super::over(testbed, || site.measure(&bench.workspace, case, &set))
            }
            _ => site.measure(&bench.workspace, case, &set),
        }
        .map(Some)
    })
}

/// Both sides. Servers end before the hosts that they are in.
struct Site {
    near: Daemon,
    far: Option<Daemon>,
    testbed: Option<Testbed>,
}

impl Site {
    fn daemon(&self, shape: &Shape) -> &Daemon {
        self.far.as_ref().filter(|_| shape.path().is_some()).unwrap_or(&self.near)
    }

    /// Source, destination, the server among them, and where the destination is on the disk.
    fn places(&self, workspace: &Workspace, shape: &Shape, set: &DatasetSpec) -> Places<'_> {
        let here = |name: &str| workspace.path(name).display().to_string();
        let daemon = self.daemon(shape);
        let made = shape.directory();
        match shape.way {
            Way::Far { is_pull: true, .. } => Places {
                words: [format!("{}/", daemon.url(&made)), here("copy")],
                daemon: Some(daemon),
                copy: Some(workspace.path("copy")),
            },
            Way::Loopback | Way::Far { .. } => Places {
                words: [format!("{}/", here(&made)), daemon.url("copy")],
                daemon: Some(daemon),
                copy: Some(daemon.path("copy")),
            },
            Way::SlowSource => Places {
                words: [format!("sim:{DISK},size={}", set.bytes()), daemon.url("copy")],
                daemon: Some(daemon),
                copy: Some(daemon.path("copy")),
            },
            Way::SlowDestination => Places {
                words: [format!("{}/", here(&made)), format!("sim:{DISK}")],
                daemon: None,
                copy: None,
            },
        }
    }

    /// Predicts, copies, and holds one against the other.
    fn measure(&self, workspace: &Workspace, case: &Case, set: &DatasetSpec) -> Result<Sample> {
        let places = self.places(workspace, case.shape, set);
        let state = workspace.path(&format!("{:?}-{}", case.known, case.shape.directory()));
        if case.known == Known::Probe {
            workspace.remove(&state)?;
        }
        let state = state.display().to_string();
        let host = self.testbed.as_ref().filter(|_| case.shape.path().is_some()).map(|testbed| &testbed.left);
        let mut asked = words(&["predict", "--state", &state]);
        asked.extend(match case.known {
            Known::Probe => words(&["--measure", PROBE]),
            Known::Earlier => words(&["--no-measure"]),
        });
        asked.extend(places.words.clone());
        let told = workspace.told(host, places.daemon, &asked, "predicted")?;
        let mut line = words(&["cp", "--state", &state]);
        line.extend(places.words.clone());
        let copied = workspace.copy(host, places.daemon, &line)?;
        if let Some(copy) = &places.copy {
            workspace.remove(copy)?;
        }
        let sample = of_copy(case.known.name(), &copied, set.bytes(), set.files);
        held(sample.with("shape", case.shape.name.into()), &told, &copied)
    }
}

struct Places<'a> {
    words: [String; 2],
    daemon: Option<&'a Daemon>,
    copy: Option<PathBuf>,
}

/// What was predicted and what it took, in the sample; or of what nothing was known.
fn held(mut sample: Sample, told: &Value, copied: &Copied) -> Result<Sample> {
    if let Some(missing) = told["missing"].as_str() {
        sample.measured.insert(MISSING.to_owned(), missing.into());
        return Ok(sample);
    }
    let number = |key: &str| told[key].as_f64();
    let (Some(middle), Some(low), Some(high)) = (number("seconds"), number("low_s"), number("high_s")) else {
        return Err(Failure::new(
            FailureKind::Internal,
            "predict",
            format!("it says nothing of the time: {told}"),
        ));
    };
    let compared = &copied.finished["prediction"];
    let took = compared["actual_s"].as_f64().unwrap_or_else(|| copied.number("seconds"));
    sample = sample.predicted(TOOK, middle, "s").measured(TOOK, took, "s");
    sample = sample.measured(OFF, (middle / took.max(1e-9) - 1.0).abs(), "1");
    for (name, value) in RANGE.into_iter().zip([low, high]) {
        sample = sample.measured(name, value, "s");
    }
    if let Some(wrong) = compared["wrong"].as_str() {
        sample.measured.insert(WRONG.to_owned(), wrong.into());
    }
    let is_within = (low..=high).contains(&took);
    Ok(sample.measured(IN_RANGE, f64::from(u8::from(is_within)), "1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn copied(prediction: Value) -> Copied {
        Copied { wall_s: 2.5, cpu_s: None, finished: json!({"seconds": 2.4, "prediction": prediction}) }
    }

    #[test]
    fn a_result_does_not_say_that_copies_over_an_emulated_path_took_the_loopback() {
        let wishes = Wishes::default();
        let mut prepared = prepare(&wishes).unwrap();
        needs(&wishes, &mut prepared).unwrap();
        let path = prepared.path;
        let is_emulated = matches!(path, PathKind::Testbed { rtt_s: None, rate_bits_per_s: None, .. });
        assert_eq!(is_emulated, Testbed::check().is_ok(), "{path}");
    }

    #[test]
    fn what_was_predicted_stands_beside_what_it_took() {
        let told = json!({"event": "predicted", "seconds": 2.0, "low_s": 1.5, "high_s": 3.0});
        let compared = json!({"actual_s": 2.3, "wrong": "bytes"});
        let sample = held(Sample::default(), &told, &copied(compared)).unwrap();
        let of = |name: &str| sample.measured[name].value();
        assert_eq!((of(TOOK), of(IN_RANGE)), (Some(2.3), Some(1.0)));
        assert_eq!((of(RANGE[0]), of(RANGE[1])), (Some(1.5), Some(3.0)));
        assert_eq!(sample.predicted[TOOK].value(), Some(2.0));
        assert_eq!(sample.measured[WRONG], "bytes".into());
        assert!((of(OFF).unwrap() - 0.3 / 2.3).abs() < 1e-9);
        // A copy that compares nothing took its time all the same.
        let late = json!({"event": "predicted", "seconds": 1.0, "low_s": 0.9, "high_s": 1.1});
        let sample = held(Sample::default(), &late, &copied(json!({"missing": "start"}))).unwrap();
        assert_eq!(sample.measured[TOOK].value(), Some(2.4));
        assert_eq!(sample.measured[IN_RANGE].value(), Some(0.0));
    }

    #[test]
    fn nothing_predicted_is_neither_right_nor_wrong() {
        let told = json!({"event": "predicted", "seconds": null, "missing": "bytes"});
        let sample = held(Sample::default(), &told, &copied(json!({}))).unwrap();
        assert_eq!(sample.measured[MISSING], "bytes".into());
        assert!(!sample.measured.contains_key(IN_RANGE) && sample.predicted.is_empty());
        assert!(held(Sample::default(), &json!({}), &copied(json!({}))).is_err());
    }
}
