//! The laws of `mover::model` by name, for `thalweg/model.py`: quantities go in and results come out as JSON text.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};
use thalweg_mover::model::advice::{Files, Question, Tail, advise};
use thalweg_mover::model::basin::{Basin, Stage, basin};
use thalweg_mover::model::completion::{self, Remote};
use thalweg_mover::model::congestion::{self, Starts};
use thalweg_mover::model::delay::Delay;
use thalweg_mover::model::files::{Costs, Work};
use thalweg_mover::model::fit::{self, Condition, Fit, Measurement, Prediction};
use thalweg_mover::model::frames::Scan;
use thalweg_mover::model::loss::{self, CongestionControl};
use thalweg_mover::model::path::Path;
use thalweg_mover::model::repair::{Damage, Looks};
use thalweg_mover::model::score::{self, Tier};
use thalweg_mover::model::{bit_error, volume, window};

/// Asks one law.
#[pyfunction]
pub fn law(name: &str, quantities: &str) -> PyResult<String> {
    let wrong = |why: String| PyValueError::new_err(why);
    let given =
        serde_json::from_str(quantities).map_err(|_| wrong("a quantity is no finite number".into()))?;
    let answer = asked(name, &Given(&given)).map_err(wrong)?;
    Ok(answer.to_string())
}

type Answer = Result<Value, String>;

/// Quantities by name.
struct Given<'a>(&'a Value);

impl<'a> Given<'a> {
    fn number(&self, name: &str) -> Result<f64, String> {
        self.optional(name)?.ok_or_else(|| format!("{name} is missing"))
    }

    fn optional(&self, name: &str) -> Result<Option<f64>, String> {
        match &self.0[name] {
            Value::Null => Ok(None),
            value => value.as_f64().map(Some).ok_or_else(|| format!("{name} is no number")),
        }
    }

    fn of(&self, name: &str) -> Given<'a> {
        Given(&self.0[name])
    }

    fn is_given(&self) -> bool {
        !self.0.is_null()
    }

    fn list(&self, name: &str) -> Result<&'a Vec<Value>, String> {
        self.0[name].as_array().ok_or_else(|| format!("{name} is no list"))
    }

    fn numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        let number = |value: &Value| value.as_f64().ok_or_else(|| format!("{name} has what is no number"));
        self.list(name)?.iter().map(number).collect()
    }

    fn word(&self, name: &str) -> &'a str {
        self.0[name].as_str().unwrap_or_default()
    }

    fn control(&self) -> Result<CongestionControl, String> {
        let name = self.word("control");
        CongestionControl::of_name(name)
            .ok_or_else(|| format!("control is {name:?}, but must be reno, cubic or bbr"))
    }

    fn starts(&self) -> Result<Starts, String> {
        match self.word("starts") {
            "simultaneous" => Ok(Starts::Simultaneous),
            "scheduled" => Ok(Starts::Scheduled),
            other => Err(format!("starts is {other:?}, but must be simultaneous or scheduled")),
        }
    }

    fn condition(&self, name: &str) -> Result<Condition, String> {
        match self.word(name) {
            "holds" => Ok(Condition::Holds),
            "broken" => Ok(Condition::Broken),
            "unknown" => Ok(Condition::Unknown),
            other => Err(format!("{name} is {other:?}, but must be holds, broken or unknown")),
        }
    }

    fn work(&self) -> Result<Work, String> {
        Ok(Work { bytes: self.number("bytes")?, concurrency: self.number("concurrency")? })
    }

    fn costs(&self) -> Result<Costs, String> {
        Ok(Costs {
            transfer_s_per_byte: self.number("transfer_s_per_byte")?,
            transfer_start_s: self.number("transfer_start_s")?,
            check_s_per_byte: self.number("check_s_per_byte")?,
            once_s: self.number("once_s")?,
        })
    }

    fn remote(&self) -> Result<Remote, String> {
        Ok(Remote {
            bytes: self.number("bytes")?,
            bandwidth_bits_per_s: self.number("bandwidth_bits_per_s")?,
            efficiency: self.number("efficiency")?,
            io_overhead: self.number("io_overhead")?,
            local_s: self.number("local_s")?,
            ratio: self.number("ratio")?,
        })
    }

    fn damage(&self) -> Result<Damage, String> {
        Ok(Damage {
            files: self.number("files")?,
            file_bytes: self.number("file_bytes")?,
            failures: self.number("failures")?,
        })
    }

    fn looks(&self) -> Result<Looks, String> {
        Ok(Looks {
            read_s_per_byte: self.number("read_s_per_byte")?,
            check_s_per_byte: self.number("check_s_per_byte")?,
        })
    }

    fn scan(&self) -> Result<Scan, String> {
        Ok(Scan {
            frames: self.number("frames")?,
            frame_bytes: self.number("frame_bytes")?,
            period_s: self.number("period_s")?,
            rate_bits_per_s: self.number("rate_bits_per_s")?,
            file_start_s: self.number("file_start_s")?,
        })
    }

    fn basin(&self) -> Result<Basin, String> {
        let stage = |value| {
            let stage = Given(value);
            Ok(Stage {
                name: stage.word("name").to_owned(),
                capacity_bits_per_s: stage.number("capacity_bits_per_s")?,
                latency_s: stage.number("latency_s")?,
            })
        };
        let stages = self.list("stages")?.iter().map(stage).collect::<Result<Vec<Stage>, String>>()?;
        basin(&stages).map_err(|error| error.to_string())
    }

    fn fit(&self) -> Result<Fit, String> {
        let measurement = |value| {
            let given = Given(value);
            Ok(Measurement {
                files: given.number("files")?,
                work: given.of("work").work()?,
                time_s: given.number("time_s")?,
            })
        };
        let all = self.list("measurements")?.iter().map(measurement).collect::<Result<Vec<_>, String>>()?;
        fit::fit(&all).map_err(|error| error.to_string())
    }

    fn delay(&self) -> Result<Delay, String> {
        Ok(Delay {
            processing_s: self.number("processing_s")?,
            queueing_s: self.number("queueing_s")?,
            transmission_s: self.number("transmission_s")?,
            propagation_s: self.number("propagation_s")?,
        })
    }

    fn question(&self) -> Result<Question, String> {
        let overhead = self.optional("files_io_overhead")?.map(Files::Overhead);
        let timed = self.of("files_prediction");
        let files = match timed.is_given() {
            true => {
                let prediction = Prediction {
                    time_s: timed.number("time_s")?,
                    low_s: timed.optional("low_s")?,
                    high_s: timed.optional("high_s")?,
                };
                Some(Files::Timed(prediction, self.condition("files_condition")?))
            }
            false => overhead,
        };
        let starts = self.of("starts").is_given().then(|| self.starts()).transpose()?;
        let measured = self.optional("p99_s")?.map(Tail::Measured);
        let score = self.optional("score")?.map(Tail::Score);
        Ok(Question {
            bytes: self.number("bytes")?,
            period_s: self.optional("period_s")?,
            bandwidth_bits_per_s: self.number("bandwidth_bits_per_s")?,
            efficiency: self.number("efficiency")?,
            is_efficiency_bound: self.0["is_efficiency_bound"] == true,
            rtt_s: self.optional("rtt_s")?,
            path: None,
            local_s: self.optional("local_s")?,
            remote_s: self.number("remote_s")?,
            files: files.into_iter().collect(),
            tail: measured.or(score).or(starts.map(Tail::Like003)),
            deadline_s: self.optional("deadline_s")?,
        })
    }
}

/// A result of the model as an answer.
fn told<T: Serialize>(result: thalweg_mover::model::Result<T>) -> Answer {
    result.map_err(|error| error.to_string()).map(|value| json!(value))
}

fn asked(name: &str, given: &Given<'_>) -> Answer {
    let n = |name: &str| given.number(name);
    match name {
        "window.rate_bits_per_s" => told(window::rate_bits_per_s(n("window_bytes")?, n("rtt_s")?)),
        "window.bandwidth_delay_product_bytes" => {
            told(window::bandwidth_delay_product_bytes(n("rate_bits_per_s")?, n("rtt_s")?))
        }
        "window.streams_needed" => {
            told(window::streams_needed(n("rate_bits_per_s")?, n("rtt_s")?, n("window_bytes")?))
        }
        "loss.window_segments" => told(loss::window_segments(given.control()?, n("loss")?, n("rtt_s")?)),
        "loss.rate_bits_per_s" => {
            told(loss::rate_bits_per_s(given.control()?, n("loss")?, n("rtt_s")?, n("segment_bytes")?))
        }
        "loss.loss_allowed" => told(loss::loss_allowed(
            given.control()?,
            n("rate_bits_per_s")?,
            n("rtt_s")?,
            n("segment_bytes")?,
        )),
        "path.carried" => told(
            Path {
                bandwidth_bits_per_s: n("bandwidth_bits_per_s")?,
                rtt_s: given.optional("rtt_s")?,
                window_bytes: given.optional("window_bytes")?,
                loss: n("loss")?,
                control: given.control()?,
                segment_bytes: n("segment_bytes")?,
                streams: n("streams")?,
            }
            .carried(),
        ),
        "bit_error.rate" => told(bit_error::bit_error_rate(n("loss")?, n("frame_bytes")?)),
        "bit_error.loss" => told(bit_error::loss(n("bit_error_rate")?, n("frame_bytes")?)),
        "volume.time_s" => told(volume::time_s(n("bytes")?, n("rate_bits_per_s")?)),
        "volume.rate_bits_per_s" => told(volume::rate_bits_per_s(n("bytes")?, n("time_s")?)),
        "volume.bytes" => told(volume::bytes(n("rate_bits_per_s")?, n("time_s")?)),
        "repair.time_s" => told(given.damage()?.time_s(n("rate_bits_per_s")?)),
        "repair.effective_rate_bits_per_s" => {
            told(given.damage()?.effective_rate_bits_per_s(n("rate_bits_per_s")?))
        }
        "repair.time_by_chunk_s" => {
            told(given.damage()?.time_by_chunk_s(n("chunk_bytes")?, n("rate_bits_per_s")?))
        }
        "repair.time_with_looks_s" => {
            told(given.damage()?.time_with_looks_s(n("rate_bits_per_s")?, &given.looks()?))
        }
        "repair.effective_rate_with_looks_bits_per_s" => {
            let (rate_bits_per_s, looks) = (n("rate_bits_per_s")?, given.looks()?);
            told(given.damage()?.effective_rate_with_looks_bits_per_s(rate_bits_per_s, &looks))
        }
        "repair.time_by_chunk_with_looks_s" => {
            let (chunk_bytes, rate_bits_per_s) = (n("chunk_bytes")?, n("rate_bits_per_s")?);
            told(given.damage()?.time_by_chunk_with_looks_s(chunk_bytes, rate_bits_per_s, &given.looks()?))
        }
        "files.transfer_s" => told(given.costs()?.transfer_s(n("file_bytes")?)),
        "files.check_and_service_s" => told(given.costs()?.check_and_service_s(n("file_bytes")?)),
        "files.process_s" => told(given.costs()?.process_s(n("files")?, n("file_bytes")?)),
        "files.time_s" => told(given.costs()?.time_s(given.of("work").work()?, n("files")?)),
        "files.is_transfer_longer" => Ok(json!(given.costs()?.is_transfer_longer())),
        "files.optimum" => told(given.costs()?.optimum(given.of("work").work()?, n("files_max")?)),
        "fit.fit" => Ok(json!(given.fit()?)),
        "fit.condition" => Ok(json!(given.fit()?.condition())),
        "fit.predict" => told(given.fit()?.predict(n("bytes")?, n("files")?)),
        "fit.optimum" => told(given.fit()?.optimum(n("bytes")?, n("files_max")?)),
        "fit.is_flat" => told(given.fit()?.is_flat(n("bytes")?, n("files_max")?)),
        "delay.total_s" => Ok(json!(given.delay()?.total_s())),
        "delay.overlooked_s" => Ok(json!(given.delay()?.overlooked_s())),
        "completion.local_s" => told(completion::local_s(n("flop_per_byte")?, n("bytes")?, n("flop_per_s")?)),
        "completion.efficiency" => {
            told(completion::efficiency(n("transfer_bits_per_s")?, n("bandwidth_bits_per_s")?))
        }
        "completion.io_overhead" => told(completion::io_overhead(n("io_s")?, n("transfer_s")?)),
        "completion.transfer_s" => told(given.remote()?.transfer_s()),
        "completion.io_s" => told(given.remote()?.io_s()),
        "completion.remote_s" => told(given.remote()?.remote_s()),
        "completion.total_s" => told(given.remote()?.total_s()),
        "completion.gain" => told(given.remote()?.gain()),
        "completion.break_even" => told(given.remote()?.break_even(n("target_s")?)),
        "score.speed_score" => told(score::speed_score(n("worst_s")?, n("theoretical_s")?)),
        "score.tier" => Ok(json!(Tier::of(n("time_s")?))),
        "score.tail" => told(score::tail(&given.numbers("times_s")?)),
        "congestion.utilisation" => {
            told(congestion::utilisation(n("bytes")?, n("period_s")?, n("bandwidth_bits_per_s")?))
        }
        "congestion.stretch" => told(congestion::stretch(n("utilisation")?, given.starts()?)),
        "frames.bytes" => Ok(json!(given.scan()?.bytes())),
        "frames.acquisition_s" => Ok(json!(given.scan()?.acquisition_s())),
        "frames.in_files_s" => told(given.scan()?.in_files_s(n("files")?)),
        "frames.streamed_s" => told(given.scan()?.streamed_s()),
        "basin.basin" => Ok(json!(given.basin()?)),
        "basin.time_s" => told(given.basin()?.time_s(n("bytes")?)),
        "advice.advise" => told(advise(&given.question()?)),
        _ => Err(format!("there is no law {name:?}")),
    }
}
