//! What `thalweg tune` tells: to people, to programs.

use super::knobs::Knobs;
use super::trials::Trials;
use crate::args::tune::TuneArgs;
use crate::{json, out, units};
use serde_json::{Value, json};
use thalweg_client::job::Job;
use thalweg_mover::basin::judge;
use thalweg_mover::failure::counted;
use thalweg_mover::plan::{Tuned, show_rate};
use thalweg_mover::tune::search::{Decision, Search, Setting};

/// That nothing is remembered any more.
pub(super) fn forgotten(args: &TuneArgs, job: &Job) {
    match args.ask.json {
        true => json::tell(&json!({"event": "forgotten", "from": job.names.0, "to": job.names.1})),
        false => out::tell("forgotten: copies of this way start as if nothing had been found for it"),
    }
}

/// One decision, when it was made.
pub(super) fn decision(args: &TuneArgs, knobs: &Knobs, decision: &Decision) {
    let step = |ladder: usize, setting: &Setting| knobs.all[ladder].word(setting[ladder]);
    if args.ask.json {
        let (knob, from, to) = match decision.ladder {
            Some(at) => (Some(knobs.all[at].name()), step(at, &decision.from), step(at, &decision.to)),
            None => (None, knobs.words(&decision.from), knobs.words(&decision.to)),
        };
        json::tell(&json!({
            "event": "trial", "knob": knob, "from": from, "to": to,
            "bits_per_s_before": decision.rate_before, "bits_per_s": decision.rate,
            "kept": decision.is_kept, "why": decision.why,
        }));
        return;
    }
    let what = match decision.ladder {
        Some(at) => {
            format!("{} {} -> {}", knobs.all[at].name(), step(at, &decision.from), step(at, &decision.to))
        }
        None => "all of it together, against where it began".to_owned(),
    };
    let kept = if decision.is_kept { "kept" } else { "not kept" };
    out::tell(&format!(
        "{what}: {} instead of {}; {kept}: {}",
        shown(decision.rate),
        shown(decision.rate_before),
        decision.why
    ));
}

/// A knob that is not tried.
pub(super) fn left_out(args: &TuneArgs, knob: &str, why: &str) {
    match args.ask.json {
        true => json::tell(&json!({"event": "left-out", "knob": knob, "why": why})),
        false => out::tell(&format!("{knob}: not tried: {why}")),
    }
}

/// That a congestion control which was found before is not permitted any more.
pub(super) fn congestion_dropped(args: &TuneArgs, name: &str) {
    let forgotten = if args.dry_run { "" } else { " and is forgotten" };
    let text = format!(
        "the congestion control `{name}`, found before, is not permitted any more where this way is sent from{forgotten}: it \
         goes on with the system's choice"
    );
    match args.ask.json {
        true => json::tell(&json!({"event": "note", "text": text})),
        false => out::tell(&text),
    }
}

/// The last word.
pub(super) struct Outcome<'a> {
    pub args: &'a TuneArgs,
    pub job: &'a Job,
    pub knobs: &'a Knobs,
    pub search: &'a Search,
    pub trials: &'a Trials<'a>,
    /// What later copies begin with.
    pub found: Option<Tuned>,
}

impl Outcome<'_> {
    pub(super) fn tell(&self) {
        match self.args.ask.json {
            true => json::tell(&self.as_json()),
            false => self.tell_people(),
        }
    }

    fn changes(&self) -> Vec<(&'static str, String, String)> {
        let both = self.search.start().iter().zip(self.search.kept());
        let changed = self.knobs.all.iter().zip(both).filter(|(_, (from, to))| from != to);
        changed.map(|(knob, (&from, &to))| (knob.name(), knob.word(from), knob.word(to))).collect()
    }

    fn bound(&self) -> Option<String> {
        Some(judge(self.trials.evidence()?)?.sentence)
    }

    fn as_json(&self) -> Value {
        let changes: Vec<Value> = self
            .changes()
            .into_iter()
            .map(|(knob, from, to)| json!({"knob": knob, "from": from, "to": to}))
            .collect();
        let (trials, bytes, time) = self.trials.spent();
        json!({
            "event": "tuned", "from": self.job.names.0, "to": self.job.names.1, "changes": changes,
            "bits_per_s": self.trials.rate_of(self.search), "profile": self.found,
            "remembered": !changes.is_empty() && !self.args.dry_run,
            "trials": trials, "bytes": bytes, "seconds": time.as_secs_f64(), "bound": self.bound(),
        })
    }

    fn tell_people(&self) {
        let changes = self.changes();
        let (trials, bytes, time) = self.trials.spent();
        let trials = counted(trials.into(), "trial", "trials");
        let spent = format!("{trials}, {} in {}", units::size(bytes), units::time(time.as_secs_f64()));
        out::tell("");
        if changes.is_empty() {
            out::tell(&format!("nothing was better beyond noise than what a copy starts with ({spent})"));
        } else {
            let changes: Vec<String> =
                changes.iter().map(|(knob, from, to)| format!("{knob} {to} instead of {from}")).collect();
            let rate =
                self.trials.rate_of(self.search).map_or(String::new(), |rate| format!(": {}", shown(rate)));
            out::tell(&format!("{}{rate} ({spent})", changes.join(", ")));
            out::tell(match self.args.dry_run {
                true => "not remembered: it was a dry run",
                false => {
                    "later copies of this way start so; `thalweg tune --forget` with the same places takes it back"
                }
            });
        }
        if let Some(bound) = self.bound() {
            out::tell(&format!("what bounds it: {bound}"));
        }
    }
}

fn shown(rate: f64) -> String {
    if rate > 0.0 { show_rate(rate as u64) } else { "nothing".to_owned() }
}
