//! The last words of a copy through a stage.

use super::{Listener, of_sources};
use crate::exit::Exit;
use crate::{json, units};
use std::sync::atomic::Ordering;
use thalweg_client::staged::{Leg, Summary};
use thalweg_mover::mutex::lock;

impl Listener {
    /// The last words, and the exit code, which is at least what [`Teller::kept`](super::Teller::kept) said
    /// (`reported`).
    pub fn finish_staged(&self, summary: &Summary, reported: Exit) -> Exit {
        let of_entries = Exit::of_entries(lock(&self.failed).iter().copied());
        let sources = summary.direct.map_or(Exit::Done, |(_, sources)| of_sources(&sources));
        let exit = of_entries.worst(sources).worst(reported);
        let deleted = summary.direct.map_or(0, |(totals, _)| totals.deleted);
        self.tell_unnamed(deleted.saturating_sub(self.deleted.load(Ordering::Relaxed)));
        let compared = summary.compared.as_ref();
        self.tell_terms(compared);
        if self.teller.json {
            self.tell(json::staged(summary, self.teller.dry_run, exit));
        } else if !self.teller.quiet {
            let line = if self.teller.dry_run { dry_run(summary) } else { last_line(summary) };
            self.say(&format!("{line}{}", self.told_of(compared)));
        }
        let hints = [*lock(&self.space_hint), *lock(&self.limit_hint), *lock(&self.links_hint)];
        for hint in hints.into_iter().flatten() {
            self.line(&format!("hint: {hint}"));
        }
        exit
    }
}

fn dry_run(summary: &Summary) -> String {
    let (done, bytes) = (summary.carried.done, units::size(summary.carried.bytes));
    format!(
        "dry run: {bytes} in {} would pass through the stage{}; nothing was changed",
        units::entries(done),
        counts(summary)
    )
}

fn last_line(summary: &Summary) -> String {
    let (carried, seconds) = (&summary.carried, summary.elapsed.as_secs_f64());
    let mut line = format!(
        "{} in {} copied through the stage in {seconds:.2} s",
        units::size(carried.bytes),
        units::entries(carried.done)
    );
    if carried.bytes > 0 {
        line.push_str(&format!(", {}", units::rate(carried.bytes, seconds)));
    }
    line.push_str(&counts(summary));
    if carried.done > 0 {
        let rest = if summary.failed > 0 { "the others " } else { "" };
        line.push_str(&format!("; {rest}verified from end to end, durable"));
    }
    if let Some((leg, factor)) = carried.narrower() {
        let leg = match leg {
            Leg::In => "into the stage",
            Leg::Out => "out of the stage",
        };
        let rate = |time: std::time::Duration| units::rate(carried.bytes, time.as_secs_f64());
        let (into, out) = (rate(carried.leg_in), rate(carried.leg_out));
        line.push_str(&format!("; narrower leg: {leg}, by {factor:.1} (in {into}, out {out})"));
    }
    line
}

/// What became of other entries.
fn counts(summary: &Summary) -> String {
    let (totals, sources) = summary.direct.unwrap_or_default();
    let mut line = String::new();
    if totals.bytes_done > 0 {
        line.push_str(&format!(", {} past it", units::size(totals.bytes_done)));
    }
    for (count, word) in [
        (summary.carried.repaired, "repaired"),
        (summary.unchanged, "unchanged"),
        (summary.skipped, "skipped"),
        (totals.deleted, "deleted"),
        (summary.failed, "failed"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {} {word}", units::count(count)));
        }
    }
    line.push_str(&super::sources(&sources, "removed", "left"));
    line
}
