//! `thalweg predict`: how long a transfer would take, before it begins. See [`thalweg_client::predict`].

use crate::args::copy::Verify;
use crate::args::probe::PredictArgs;
use crate::commands::probe::{self, Measurer, how, movement};
use crate::exit::Exit;
use crate::place::Places;
use crate::{copy_output, json, out, units};
use std::sync::Arc;
use thalweg_client::far_movers::FarMovers;
use thalweg_client::identity;
use thalweg_client::job::Asked;
use thalweg_client::options::congestion;
use thalweg_client::predict::{self, Predicted, Wanted};
use thalweg_client::profiles::ByHand;
use thalweg_lab::probe::find;
use thalweg_mover::failure::Result;
use thalweg_mover::history::Way;
use thalweg_mover::model::prediction::{Deadline, Missing, Prediction, Term, Work};
use thalweg_mover::run::copy::{Fidelity, Movement, Wishes};

/// `thalweg predict`.
///
/// # Errors
/// What is wrong with the command line; when a place cannot be reached or listed.
pub fn predict(args: &PredictArgs, places: &Places) -> Result<Exit> {
    let state = identity::state_directory(args.state.as_deref())?;
    let typed = [args.source.clone(), args.destination.clone()];
    let asked = Asked::read("predict", &typed, None, places)?;
    let mut far_movers = FarMovers::new(how(&args.ask, &args.way, places, &state));
    let knobs = args.knobs.asked(args.streams, args.yields())?;
    super::copy::bound_memory(args.knobs.memory);
    let job = asked.reach(&mut far_movers, &state)?;
    let size = predict::size(&job, &args.source, &mut far_movers, args.scan, &Arc::default())?;
    let congestion = congestion::wished(args.congestion.cca.as_deref(), job.is_push())?;
    let mut movement = Movement {
        asked: knobs.clone(),
        holds_still: args.knobs.no_tune,
        ..movement(&args.way, args.streams)
    };
    movement.link.dscp = args.mark();
    movement.link.congestion = congestion.where_we_send(job.is_push());
    let measurer = Measurer::new(&job, movement.clone(), args.measure, &state, args.ask.json)?;
    // As a copy with the same options is remembered.
    let fidelity = Fidelity {
        verify: args.verify.level(),
        check: args.knobs.check.check(),
        finds_renames: args.knobs.find_renames,
        ..Fidelity::default()
    };
    let wanted = Wanted {
        reads_back: args.verify != Verify::Written,
        bits_per_s_max: args.bwlimit,
        asked: knobs,
        holds_still: args.knobs.no_tune,
        by_hand: ByHand::of(&Wishes { movement, fidelity, ..Wishes::default() }),
        deadline: args.deadline,
    };
    // Nothing is remembered, or only what was measured long ago: a short probe, which is remembered too.
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
        if let Some(room) = self.told.room_bytes.filter(|room| work.bytes > *room as f64) {
            out::tell(&format!(
                "the destination has room for {}: all of it fits only if files are there already or replaced",
                units::size(room)
            ));
        }
        if let Ok(told) = predicted {
            self.terms(told);
        }
        if self.told.known.count() == 0 {
            out::tell(
                "copies are remembered by the options that they had (-z, --check digest, --concurrency, ...), also \
                 those of [cp] in the configuration: predict takes the same, and has [predict] there",
            );
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
            let is_measured = predicted.as_ref().is_ok_and(Prediction::is_measured);
            let words = match verdict {
                Deadline::Holds => "holds: 99 of 100 such transfers take less",
                Deadline::Uncertain if !is_measured => {
                    "may be kept, but nothing of this way was measured yet: a copy, or `thalweg probe`, shows it"
                }
                Deadline::Uncertain => "is kept more often than not, but not in 99 of 100 cases",
                Deadline::TooLate => "is not kept",
            };
            out::tell(&format!("\ndeadline of {}: {words}", units::time(time.as_secs_f64())));
        }
    }

    fn terms(&self, told: &Prediction) {
        out::tell("\ntime = start-up + entries + bytes / rate + verification + last sync (001 Eqs 3 and 5)");
        let (known, work) = (&self.told.known, &self.told.size.work);
        for (term, seconds) in &told.terms {
            let why = match term {
                Term::Start => "until the first content stands verified".to_owned(),
                Term::Entries => of_entries(work, *seconds),
                Term::Bytes => of_bytes(known, work, *seconds),
                Term::Verification => "reading back what was written".to_owned(),
                Term::End => "after the last content".to_owned(),
            };
            let mark = match (told.guessed.contains(term), term) {
                (true, Term::Bytes) => " (the rate limit: not measured yet)",
                (true, _) => " (a usual value: not measured yet)",
                (false, _) => "",
            };
            out::tell(&format!("  {:<14} {:>10}  {why}{mark}", term.name(), units::time(*seconds)));
        }
        if self.args.verify == Verify::Written {
            out::tell("  verification   with the write: nothing extra");
        }
        out::tell(&format!("rests on: {}", rests_on(known, work)));
    }
}

fn of_entries(work: &Work, seconds: f64) -> String {
    let each = if work.entries > 0.0 { seconds / work.entries } else { seconds };
    format!("{} x {}", units::count(work.entries as u64), units::time(each))
}

fn of_bytes(known: &Way, work: &Work, seconds: f64) -> String {
    let size = units::size(work.bytes as u64);
    let rate = work.bytes * 8.0 / seconds;
    // What took no time has no rate.
    let rate = if rate.is_finite() { format!(" at {}", units::bit_rate(rate)) } else { String::new() };
    // Not where it is a rate limit that binds.
    let probed = || known.probe_of_bytes(work)?.narrowest.as_ref();
    let narrow = match (&known.narrowest, probed()) {
        (Some(stage), _) => format!("; narrowest of the last copy: {stage}"),
        (None, Some(stage)) => format!("; narrowest by the probe: {stage}"),
        (None, None) => String::new(),
    };
    format!("{size}{rate}{narrow}")
}

/// Transfers, a probe with its date, or neither.
fn rests_on(known: &Way, work: &Work) -> String {
    let (count, alike) = (known.count(), known.alike(work).len());
    let transfers = units::counted(count as u64, "earlier transfer", "earlier transfers");
    let copies = if alike > 0 && alike < count {
        format!("{alike} of {transfers} of this way: those with about as many bytes and entries")
    } else {
        format!("{transfers} of this way")
    };
    let probe = if count == 0 { known.probed.as_ref() } else { known.probe_of_bytes(work) };
    let probe = probe.map(|probe| units::moment(i64::try_from(probe.at).unwrap_or(i64::MAX)));
    match (count, probe) {
        (0, Some(at)) => format!("a probe of {at}; no transfer of this way is remembered yet"),
        (0, None) if work.bytes_per_s_max.is_some() => "the rate limit that was asked for".to_owned(),
        (0, None) => "nothing that was measured on this way".to_owned(),
        (_, Some(at)) => format!("{copies}; for what a byte costs, a probe of {at}"),
        (_, None) => copies,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_mover::history::{History, Moved, Observed, Probed};
    use thalweg_mover::model::prediction::Taken;

    const WORK: Work = Work {
        bytes: 1e9,
        bytes_sd: 0.0,
        entries: 10.0,
        entries_sd: 0.0,
        reads_back: false,
        bytes_per_s_max: None,
    };

    /// Of noon on the first day of 2026.
    fn probed(history: &mut History) {
        let at = 1_767_268_800;
        let probed = Probed {
            stages: Vec::new(),
            byte_s: Some(1e-8),
            entry_s: None,
            spread: 0.1,
            narrowest: None,
            observed: None,
            at,
        };
        history.probed("way", probed, at);
    }

    /// So many bytes in so many seconds.
    fn copied(history: &mut History, bytes: f64, bytes_s: f64) {
        let taken = Taken { start_s: 0.1, bytes_s, end_s: 0.1, ..Taken::default() };
        let moved = Moved { bytes, entries: 1.0, ..Moved::default() };
        history.observe("way", Observed::of(&taken, &moved, false), None, 1_767_268_800);
    }

    #[test]
    fn what_rests_on_a_probe_says_of_when_that_is() {
        let mut history = History::new([0; 16]);
        let said = |history: &History| {
            let way = history.of("way", 1_767_268_800).cloned().unwrap_or_default();
            rests_on(&way, &WORK)
        };
        assert_eq!(said(&history), "nothing that was measured on this way");
        probed(&mut history);
        let of = "a probe of 2026-01-01T12:00:00Z";
        assert_eq!(said(&history), format!("{of}; no transfer of this way is remembered yet"));
        // One that was over at once says nothing of a byte.
        copied(&mut history, 1e6, 0.01);
        assert_eq!(said(&history), format!("1 earlier transfer of this way; for what a byte costs, {of}"));
        copied(&mut history, 1e10, 10.0);
        assert_eq!(said(&history), "2 earlier transfers of this way");
        copied(&mut history, 1e9, 1.0);
        assert!(said(&history).starts_with("1 of 3 earlier transfers of this way: "));
    }

    #[test]
    fn the_narrowest_stage_of_a_probe_is_none_of_a_copy_that_its_rate_limit_binds() {
        let mut history = History::new([0; 16]);
        probed(&mut history);
        let mut way = history.of("way", 1_767_268_800).cloned().unwrap();
        way.probed.as_mut().unwrap().narrowest = Some("destination storage".into());
        let narrow = "; narrowest by the probe: destination storage";
        assert!(of_bytes(&way, &WORK, 10.0).ends_with(narrow));
        let limited = |bytes_per_s| Work { bytes_per_s_max: Some(bytes_per_s), ..WORK };
        assert!(of_bytes(&way, &limited(1e12), 10.0).ends_with(narrow));
        assert_eq!(of_bytes(&way, &limited(1e6), 1000.0), "953.67 MiB at 8.00 Mbit/s");
    }

    #[test]
    fn what_took_no_time_has_no_rate() {
        let way = Way::default();
        assert_eq!(of_bytes(&way, &WORK, 8.0), "953.67 MiB at 1.00 Gbit/s");
        assert_eq!(of_bytes(&way, &WORK, 0.0), "953.67 MiB");
        assert_eq!(of_bytes(&way, &Work { bytes: 0.0, ..WORK }, 0.0), "0 B");
        assert_eq!(of_entries(&WORK, 0.1), "10 x 10.00 ms");
        assert_eq!(of_entries(&Work { entries: 0.0, ..WORK }, 0.1), "0 x 100 ms");
    }
}
