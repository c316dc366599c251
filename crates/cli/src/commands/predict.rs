//! `thalweg predict`: how long a transfer would take, before it begins. See [`thalweg_client::predict`].

use crate::args::copy::Verify;
use crate::args::probe::PredictArgs;
use crate::commands::probe::{self, Measurer, how};
use crate::exit::Exit;
use crate::place::Places;
use crate::{copy_output, json, out, units};
use thalweg_client::far_movers::FarMovers;
use thalweg_client::identity;
use thalweg_client::job::Asked;
use thalweg_client::predict::{self, Predicted, Wanted};
use thalweg_lab::probe::find;
use thalweg_mover::failure::Result;
use thalweg_mover::model::prediction::{Deadline, Missing, Prediction, Term};

/// `thalweg predict`.
///
/// # Errors
/// What is wrong with the command line; when a place cannot be reached or listed.
pub fn predict(args: &PredictArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read("predict", &typed, None, places)?;
    let mut far_movers = FarMovers::new(how(&args.ask, places, &state));
    let job = asked.reach(&mut far_movers, &state)?;
    let size = predict::size(&job, &args.source, &mut far_movers, args.scan)?;
    let measurer = Measurer::new(&job, args.streams, args.measure, &state, args.ask.json)?;
    let wanted = Wanted {
        reads_back: args.verify != Verify::Written,
        bits_per_s_max: args.bwlimit,
        streams: args.streams,
        deadline: args.deadline,
    };
    // Nothing is remembered: a short probe, which is remembered too.
    let mut measure = || match args.no_measure {
        true => Ok(None),
        false => measurer.measure().map(|measured| Some(probe::remembered(&measured, &find(&measured)))),
    };
    let told = predict::predict(&job, size, &state, wanted, &measurer.path(), &mut measure)?;
    drop(measurer);
    drop(far_movers);
    match args.ask.json {
        true => json::tell(&told.as_json()),
        false => Said { told: &told, args }.tell(),
    }
    Ok(match (&told.prediction, told.verdict) {
        (Err(_), _) | (_, Some(Deadline::Uncertain | Deadline::TooLate)) => Exit::Partial,
        _ => Exit::Done,
    })
}

/// For people.
struct Said<'a> {
    told: &'a Predicted,
    args: &'a PredictArgs,
}

impl Said<'_> {
    fn tell(&self) {
        let (work, predicted) = (&self.told.size.work, &self.told.prediction);
        let mut size =
            format!("{} in {}", units::size(work.bytes as u64), units::entries(work.entries as u64));
        if work.bytes_sd > 0.0 || work.entries_sd > 0.0 {
            let share = |sd: f64, of: f64| units::share(sd / of.max(1.0));
            size = format!(
                "about {size} (standard errors {} and {})",
                share(work.bytes_sd, work.bytes),
                share(work.entries_sd, work.entries)
            );
        }
        match predicted {
            Ok(told) => out::tell(&format!(
                "{}, between {} and {} (95 %), {} at P99: {size}",
                units::time(told.seconds),
                units::time(told.low_s),
                units::time(told.high_s),
                units::time(told.p99_s),
            )),
            Err(Missing(term)) => out::tell(&format!(
                "nothing is known of {} on this way yet, so no time can be said: {size}. {}",
                term.name(),
                match term {
                    Term::Bytes if self.told.is_real => "To learn it: `thalweg probe`, or a copy.",
                    Term::Bytes => "To learn it: one copy.",
                    _ => "To learn it: one copy of such files.",
                }
            )),
        }
        out::tell(&format!("({} -> {}; {})", self.told.names.0, self.told.names.1, self.told.size.how));
        if let Ok(told) = predicted {
            self.terms(told);
        }
        let limits = self.told.limits();
        if let Some(binding) = self.told.binding(&limits) {
            out::tell("");
            for (at, (name, bits, why)) in limits.iter().enumerate() {
                let mark = if at == binding { " < binds" } else { "" };
                out::tell(&format!("  {name:<20} {:>14}  {why}{mark}", units::bit_rate(*bits)));
            }
        }
        out::tell("");
        copy_output::plan_lines(&self.told.plan).iter().for_each(|line| out::tell(line));
        if let (Some(time), Some(verdict)) = (self.args.deadline, self.told.verdict) {
            let words = match verdict {
                Deadline::Holds => "holds: 99 of 100 such transfers take less",
                Deadline::Uncertain => "is kept more often than not, but not in 99 of 100 cases",
                Deadline::TooLate => "is not kept",
            };
            out::tell(&format!("\ndeadline of {}: {words}", units::time(time.as_secs_f64())));
        }
    }

    fn terms(&self, told: &Prediction) {
        out::tell("\ntime = start-up + entries + bytes / rate + verification + last sync (001 Eqs 3 and 5)");
        for (term, seconds) in &told.terms {
            let why = match term {
                Term::Start => "until the first content stands verified".to_owned(),
                Term::Entries => {
                    format!(
                        "{} x {}",
                        units::count(self.told.size.work.entries as u64),
                        units::time(seconds / self.told.size.work.entries)
                    )
                }
                Term::Bytes => {
                    let rate = units::bit_rate(self.told.size.work.bytes * 8.0 / seconds);
                    let copied = self.told.known.narrowest.as_ref();
                    let probed = || self.told.known.probed.as_ref()?.narrowest.as_ref();
                    let narrow = match (copied, probed()) {
                        (Some(stage), _) => format!("; narrowest of the last copy: {stage}"),
                        (None, Some(stage)) => format!("; narrowest by the probe: {stage}"),
                        (None, None) => String::new(),
                    };
                    format!("{} at {rate}{narrow}", units::size(self.told.size.work.bytes as u64))
                }
                Term::Verification => "reading back what was written".to_owned(),
                Term::End => "after the last content".to_owned(),
            };
            let mark = if told.guessed.contains(term) { " (a usual value: not measured yet)" } else { "" };
            out::tell(&format!("  {:<14} {:>10}  {why}{mark}", term.name(), units::time(*seconds)));
        }
        if self.args.verify == Verify::Written {
            out::tell("  verification   with the write: nothing extra");
        }
        let (count, alike) = (self.told.known.count(), self.told.known.alike(&self.told.size.work).len());
        let rests = match (count, &self.told.known.probed) {
            _ if alike > 0 && alike < count => {
                format!(
                    "{alike} of {count} earlier transfers of this way: those with about as many bytes and entries"
                )
            }
            (0, Some(_)) => "a probe; no transfer of this way is remembered yet".to_owned(),
            (0, None) if self.args.bwlimit.is_some() => "the rate limit that was asked for".to_owned(),
            (0, None) => "nothing that was measured on this way".to_owned(),
            (1, _) => "1 earlier transfer of this way".to_owned(),
            (many, _) => format!("{many} earlier transfers of this way"),
        };
        out::tell(&format!("rests on: {rests}"));
    }
}
