//! Events as JSON objects: docs/reference/json.md is their schema. `--json` prints them, Python gets them as
//! dictionaries.

use crate::hint;
use crate::options::units;
use crate::receipt_file::totals;
use crate::staged::Summary;
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::time::{Duration, Instant};
use thalweg_mover::admission::SlotHeld;
use thalweg_mover::basin::energy::Energy;
use thalweg_mover::basin::{Evidence, Verdict, width};
use thalweg_mover::event::Event;
use thalweg_mover::model::prediction::{Compared, Prediction, Term};
use thalweg_mover::plan::{Chosen, Plan};
use thalweg_mover::run::copy::{Left, Meter, Report, Stays};
use thalweg_mover::run::flow::job::FlowReport;
use thalweg_mover::run::flow::lags::Lag;
use thalweg_wire::account::RoomAccount;
use thalweg_wire::message::{Failure, Outcome};
use thalweg_wire::path::Escaped;
use thalweg_wire::{Entry, Kind, RelativePath};

/// An object `{"event": …, …}` about a path: `path` escaped, so that it can always be read back, and `path_bytes`
/// in hexadecimal where the name is no UTF-8.
pub fn about(event: &str, path: &RelativePath) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("event".into(), event.into());
    put_path(&mut object, path);
    object
}

fn put_path(object: &mut Map<String, Value>, path: &RelativePath) {
    object.insert("path".into(), path.to_string().into());
    if std::str::from_utf8(path.as_bytes()).is_err() {
        object.insert("path_bytes".into(), thalweg_wire::hex::hex(path.as_bytes()).into());
    }
}

/// What is told of an event in words: to people and programs alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Name of the event, for programs.
    pub name: &'static str,
    /// The words.
    pub text: String,
    /// Who is told.
    pub level: Level,
}

/// Who is told of a [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Everybody.
    All,
    /// Programs, and people who want to know more.
    Programs,
    /// Who wants to know more.
    More,
}

impl Level {
    /// Whether it is told to a program or a person that wants to know more or does not.
    pub fn is_for(self, wants_more: bool, is_program: bool) -> bool {
        match self {
            Level::All => true,
            Level::Programs => wants_more || is_program,
            Level::More => wants_more,
        }
    }
}

impl Note {
    /// An object `{"event": …, "text": …}`.
    pub fn object(&self) -> Map<String, Value> {
        let pairs = [("event", self.name), ("text", self.text.as_str())];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
    }
}

/// The words for an event; `None` for one that is told in fields of its own, or not at all.
pub fn note(event: &Event) -> Option<Note> {
    let (name, text, level) = match event {
        Event::LinkLost(why) => ("link-lost", format!("link lost: {why}; trying again"), Level::All),
        Event::LinkUp(after) => {
            ("link-up", format!("link is back after {:.1} s", after.as_secs_f64()), Level::All)
        }
        Event::StreamLost(stream, why) => ("stream-lost", format!("stream {stream}: {why}"), Level::More),
        Event::Repaired(count) => ("repaired", format!("{count} damaged, sent again"), Level::All),
        Event::Note(text) => ("note", text.clone(), Level::All),
        Event::Knob(text) => ("knob", text.clone(), Level::Programs),
        Event::Detail(text) => ("detail", text.clone(), Level::More),
        Event::LacksRoom { room, is_all } => ("note", lacks_room(room, *is_all), Level::All),
        Event::Settled(..)
        | Event::Aside(..)
        | Event::Deleted(_)
        | Event::SourceRemoved(_)
        | Event::SourceKept(_)
        | Event::ScanEnded(_)
        | Event::Stands(..)
        | Event::TriedAgain(..)
        | Event::Planned(_)
        | Event::Slot(_)
        | Event::Finished(_) => return None,
    };
    Some(Note { name, text, level })
}

fn lacks_room(room: &RoomAccount, is_all: bool) -> String {
    let (free, wanted) = (units::size(room.free_bytes), units::size(room.wanted_bytes));
    let needs = if is_all { "needs" } else { "needs at least" };
    format!(
        "the copy {needs} {wanted}, and the destination has room for {free}: files that are replaced may make \
         room"
    )
}

/// How an entry ended; `entry` if it was offered.
pub fn settled(entry: Option<&Entry>, path: &RelativePath, outcome: &Outcome) -> Map<String, Value> {
    let mut object = about("entry", path);
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    match outcome {
        Outcome::Done { digest, losses } => {
            put("outcome", "done".into());
            put("blake3", digest.map(|digest| digest.to_string()).into());
            put("losses", losses.iter().map(|loss| json!({"what": loss.what, "why": loss.why})).collect());
        }
        Outcome::Unchanged { digest } => {
            put("outcome", "unchanged".into());
            put("blake3", digest.map(|digest| digest.to_string()).into());
        }
        Outcome::Skipped(why) => {
            put("outcome", "skipped".into());
            put("why", why.as_str().into());
        }
        Outcome::Failed(failure) => {
            put("outcome", "failed".into());
            put("kind", kind(failure).into());
            put("reason", failure.reason.word().into());
            put("operation", failure.operation.as_str().into());
            put("range", json!(failure.range));
            put("why", failure.cause.as_str().into());
        }
    }
    if let Some(entry) = entry {
        object.insert("type".into(), entry.kind.word().into());
        object.insert("bytes".into(), entry.content_bytes().into());
    }
    object
}

/// Of an event about an entry what a report has of it, and whoever hears of each; `None` for others.
pub fn of_entry(event: &Event) -> Option<Map<String, Value>> {
    Some(match event {
        Event::Settled(entry, outcome) => settled(Some(entry), &entry.path, outcome),
        Event::Aside(path, outcome) => settled(None, path, outcome),
        Event::Deleted(path) => about("deleted", path),
        Event::SourceRemoved(path) => about("source-removed", path),
        Event::SourceKept(failure) => source_kept(failure),
        _ => return None,
    })
}

/// So many more were deleted, or would be, of which no name came.
pub fn deleted_unnamed(entries: u64) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("event".into(), "deleted-unnamed".into());
    object.insert("entries".into(), entries.into());
    object
}

/// A failure of the whole, or of an entry that a listing could not look at.
pub fn error(failure: &Failure) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("event".into(), "error".into());
    if let Some(path) = &failure.path {
        put_path(&mut object, path);
    }
    object.insert("kind".into(), kind(failure).into());
    object.insert("reason".into(), failure.reason.word().into());
    object.insert("operation".into(), failure.operation.as_str().into());
    object.insert("range".into(), json!(failure.range));
    object.insert("why".into(), failure.cause.as_str().into());
    object.insert("hint".into(), hint::of(failure).into());
    object
}

/// A failure at one of the places that were asked for: a path in it is below that place.
pub fn error_at(place: &OsStr, failure: &Failure) -> Map<String, Value> {
    let mut object = error(failure);
    object.insert("place".into(), Escaped(place.as_encoded_bytes()).to_string().into());
    object
}

/// What is missing, extra or different, and why.
pub fn difference(what: &str, path: &RelativePath, why: &str) -> Map<String, Value> {
    let mut object = about("difference", path);
    object.insert("what".into(), what.into());
    object.insert("why".into(), why.into());
    object
}

/// A file of a stream failed, and is tried again after a pause.
pub fn tried_again(failure: &Failure, pause: Duration) -> Map<String, Value> {
    let mut object = error(failure);
    object.insert("event".into(), "tried-again".into());
    // What to do is said of what is over.
    object.remove("hint");
    object.insert("after_s".into(), pause.as_secs_f64().into());
    object
}

/// A file or link of the source was to be removed, and stays.
pub fn source_kept(failure: &Failure) -> Map<String, Value> {
    let mut object = error(failure);
    object.insert("event".into(), "source-kept".into());
    object.remove("hint");
    object
}

/// The class of a failure, in lower case.
pub fn kind(failure: &Failure) -> String {
    failure.kind.word()
}

/// A line of a listing.
pub fn listed(entry: &Entry) -> Value {
    let mut object = about("listed", &entry.path);
    object.insert("type".into(), entry.kind.word().into());
    object.insert("bytes".into(), entry.content_bytes().into());
    object.insert("mode".into(), format!("{:04o}", entry.mode).into());
    object.insert("uid".into(), entry.uid.into());
    object.insert("gid".into(), entry.gid.into());
    let mtime = entry.evidence.mtime;
    object.insert("mtime".into(), format!("{}.{:09}", mtime.seconds, mtime.nanos).into());
    if let Kind::Symlink { target } = &entry.kind {
        object.insert("target".into(), Escaped(target).to_string().into());
    }
    Value::Object(object)
}

/// Where a copy is, once a second.
pub fn progress(meter: &Meter) -> Value {
    use std::sync::atomic::Ordering::Relaxed;
    json!({
        "event": "progress", "entries_found": meter.entries_found.load(Relaxed),
        "bytes_found": meter.bytes_found.load(Relaxed), "scan_over": meter.scan_over.load(Relaxed),
        "entries_settled": meter.entries_settled.load(Relaxed),
        "bytes_verified": meter.bytes_verified.load(Relaxed), "bytes_settled": meter.bytes_settled(),
        "seconds": meter.elapsed().as_secs_f64(), "bytes_per_s": meter.bytes_per_s(),
        "left_s": meter.left().map(|left| left.as_secs_f64()),
    })
}

/// Where a stream is, once a second.
pub fn flow_progress(meter: &Meter) -> Value {
    use std::sync::atomic::Ordering::Relaxed;
    json!({
        "event": "progress", "files_found": meter.entries_found.load(Relaxed),
        "files_complete": meter.entries_settled.load(Relaxed), "bytes_read": meter.bytes_found.load(Relaxed),
        "bytes_durable": meter.bytes_verified.load(Relaxed),
    })
}

/// Where a file of a stream goes on: at the beginning, and after each outage.
pub fn stands(path: &RelativePath, bytes: u64) -> Value {
    let mut object = about("stands", path);
    object.insert("bytes".into(), bytes.into());
    Value::Object(object)
}

/// The last event of a stream; `now` is when it is told.
pub fn flow_finished(report: &FlowReport, now: Instant) -> Map<String, Value> {
    let totals = &report.totals;
    let mut object = why(report.verdict.as_ref(), &report.evidence);
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    put("event", "finished".into());
    put("files_complete", totals.done.into());
    put("files_failed", totals.failed.into());
    put("bytes", totals.bytes_done.into());
    put("bytes_received", totals.bytes_received.into());
    put("bytes_resumed", totals.bytes_resumed.into());
    put("pieces_repaired", totals.chunks_repaired.into());
    put("seconds", report.elapsed.as_secs_f64().into());
    put("root", report.agreed.receiver.statement.root.to_string().into());
    put("attempts", report.attempts.into());
    for (key, value) in report.lag.iter().flat_map(lag) {
        put(key, value);
    }
    if let Some(held) = &report.slot {
        put("slot", slot(held, now));
    }
    object
}

/// What is promised, when a producer has its slot; `now` is when it is told.
pub fn slot(held: &SlotHeld, now: Instant) -> Value {
    let slot = &held.slot;
    let seconds = |micros: u64| micros as f64 / 1e6;
    let opens = held.opens.saturating_duration_since(now);
    json!({
        "event": "slot", "period_s": seconds(slot.period_micros), "length_s": seconds(slot.length_micros),
        "opens_in_s": opens.as_secs_f64(), "bytes": slot.bytes, "bytes_per_s": slot.bytes_per_s,
        "promised_s": held.worst.as_secs_f64(), "deadline_s": held.deadline.as_secs_f64(),
        "any_time": slot.is_any_time, "moves": held.moves,
        "margin": {
            "mark_s": held.margin.mark.as_secs_f64(), "settle_s": held.margin.settle.as_secs_f64(),
            "way_back_s": held.margin.way_back.as_secs_f64(), "late_s": held.margin.late.as_secs_f64(),
            "guard_s": held.margin.guard.as_secs_f64(),
        },
    })
}

/// How late bytes were, for the last event.
pub fn lag(lag: &Lag) -> [(&'static str, Value); 6] {
    [
        ("lag_p50_s", lag.p50.as_secs_f64().into()),
        ("lag_p99_s", lag.p99.as_secs_f64().into()),
        ("lag_worst_s", lag.worst.as_secs_f64().into()),
        ("lag_worst_until_sent_s", lag.worst_until_sent.as_secs_f64().into()),
        ("pieces", lag.pieces.into()),
        ("pieces_late", lag.late.into()),
    ]
}

/// The last event of a copy.
pub fn finished(report: &Report, dry_run: bool) -> Map<String, Value> {
    let mut object = totals(&report.totals);
    let root = report.agreed.as_ref().map(|agreed| agreed.receiver.statement.root.to_string());
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    put("event", "finished".into());
    put("dry_run", dry_run.into());
    put("seconds", report.elapsed.as_secs_f64().into());
    put("root", root.into());
    put("attempts", report.attempts.into());
    put("sources_removed", report.sources.removed.into());
    put("sources_left", report.sources.left.sum().into());
    put("sources_left_by", left_by(&report.sources.left));
    put("in_ssh", report.in_ssh.into());
    put("files_renamed", report.renamed.files.into());
    put("bytes_renamed", report.renamed.bytes.into());
    put("plan", plan(&report.plan));
    if let Some(told) = &report.compared {
        put("prediction", Value::Object(compared(told)));
    }
    object.extend(why(report.verdict.as_ref(), &report.evidence));
    object
}

/// The last event of a copy through a stage.
pub fn staged(summary: &Summary, dry_run: bool) -> Map<String, Value> {
    let (carried, direct) = (&summary.carried, summary.direct.unwrap_or_default());
    let narrower = carried.narrower();
    let value = json!({
        "event": "staged", "dry_run": dry_run, "seconds": summary.elapsed.as_secs_f64(),
        "stage_bytes_max": summary.bytes_max, "done": carried.done, "bytes_done": carried.bytes,
        "repaired": carried.repaired, "unchanged": summary.unchanged, "failed": summary.failed,
        "leg_in_s": carried.leg_in.as_secs_f64(), "leg_out_s": carried.leg_out.as_secs_f64(),
        "narrower": narrower.map(|(leg, _)| leg.word()), "factor": narrower.map(|(_, factor)| factor),
        "files_past": summary.files_past, "done_past": direct.0.done, "bytes_past": direct.0.bytes_done,
        "skipped": summary.skipped, "deleted": direct.0.deleted, "sources_removed": direct.1.removed,
    });
    let mut object = match value {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    if let Some(told) = &summary.compared {
        object.insert("prediction".into(), Value::Object(compared(told)));
    }
    object
}

/// How many source files stay, by cause.
fn left_by(left: &Left) -> Value {
    Stays::ALL.iter().map(|why| (why.word(), left.of(*why))).collect()
}

/// Which stage was the narrowest, and all that this was judged by.
pub fn why(verdict: Option<&Verdict>, evidence: &Evidence) -> Map<String, Value> {
    let mut object = Map::new();
    let mut put = |key: &str, value: Value| drop(object.insert(key.into(), value));
    put("narrowest", json!(verdict.map(|verdict| &verdict.narrowest)));
    put("next", json!(verdict.map(|verdict| &verdict.next)));
    put("factor", json!(verdict.map(|verdict| verdict.factor)));
    put("factor_low", json!(verdict.map(|verdict| verdict.factor_low)));
    put("knob", json!(verdict.map(|verdict| &verdict.knob)));
    put("sentence", json!(verdict.map(|verdict| &verdict.sentence)));
    put("stages", json!(width::widths(evidence)));
    put("energy", json!(Energy::of(evidence)));
    put("evidence", with_derived(evidence));
    object
}

/// With what follows from the accounts of a stream and does not travel with them.
fn with_derived(evidence: &Evidence) -> Value {
    let mut value = json!(evidence);
    for (side, accounts) in [("sender", &evidence.sender), ("receiver", &evidence.receiver)] {
        let streams = value[side]["streams"].as_array_mut().into_iter().flatten();
        for (told, stream) in streams.zip(&accounts.streams) {
            told["cwnd_limited_nanos"] = json!(stream.cwnd_limited_nanos());
        }
    }
    value
}

/// Predicted against actual.
pub fn compared(compared: &Compared) -> Map<String, Value> {
    let value = match compared {
        Compared::CutOff => json!({"missing": "cut-off"}),
        Compared::RateChanged => json!({"missing": "rate-changed"}),
        Compared::LittleMoved => json!({"missing": "little-moved"}),
        Compared::InStage => json!({"missing": "in-stage"}),
        Compared::PastStage => json!({"missing": "past-stage"}),
        Compared::NoProfile => json!({"missing": "profile"}),
        Compared::Unknown(missing) => json!({"missing": missing.0}),
        Compared::Told(told) => json!({
            "seconds": told.predicted.seconds, "low_s": told.predicted.low_s, "high_s": told.predicted.high_s,
            "p99_s": told.predicted.p99_s, "rests_on": told.predicted.rests_on,
            "terms": terms(&told.predicted),
            "actual_s": told.actual.seconds(), "actual": told.actual, "within": told.is_within,
            "wrong": told.wrong, "wrong_by_s": told.wrong_by_s, "after_s": told.after_s,
            "left_out_bytes": told.left_out.bytes, "left_out_entries": told.left_out.entries,
        }),
    };
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The same as an event of its own, which ends a report.
pub fn prediction(told: &Compared) -> Map<String, Value> {
    let mut object = compared(told);
    object.insert("event".into(), "prediction".into());
    object
}

/// Medians of the terms, in seconds, and whether anything was measured of them.
pub fn terms(prediction: &Prediction) -> Value {
    let of = |(term, seconds): &(Term, f64)| json!({"term": term, "seconds": seconds, "guessed": prediction.guessed.contains(term)});
    prediction.terms.iter().map(of).collect()
}

/// What a copy goes by: each knob with its value and the reason.
pub fn plan(plan: &Plan) -> Value {
    json!({
        "streams": {"value": plan.streams.value, "why": plan.streams.why},
        "chunk_bytes": {"value": plan.chunk_bytes.value, "why": plan.chunk_bytes.why},
        "segment_bytes": {"value": plan.segment_bytes.value, "why": plan.segment_bytes.why},
        "concurrency": {"value": plan.concurrency.value, "why": plan.concurrency.why},
        "depth": {"value": plan.depth.value, "why": plan.depth.why},
        "io_depth": {"value": plan.disk.io_depth.value, "why": plan.disk.io_depth.why},
        "engine": {"value": plan.disk.engine.value, "why": plan.disk.engine.why},
        "direct": sides(&plan.disk.direct),
        "order": sides(&plan.disk.order),
        "window_bytes": {"value": plan.window_bytes.value, "why": plan.window_bytes.why},
        "congestion": plan.congestion.as_ref().map(|name| json!({"value": name.value, "why": name.why})),
    })
}

fn sides(of_both: &[Chosen<&'static str>; 2]) -> Value {
    let one = |chosen: &Chosen<&'static str>| json!({"value": chosen.value, "why": chosen.why});
    json!({"source": one(&of_both[0]), "destination": one(&of_both[1])})
}

#[cfg(test)]
pub(crate) mod fields;

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::account::StreamAccount;
    use thalweg_wire::message::{FailureKind, Reason};

    #[test]
    fn a_stream_tells_for_how_long_its_congestion_window_was_the_bound() {
        let stream = StreamAccount {
            busy_nanos: 10,
            rwnd_limited_nanos: 3,
            sndbuf_limited_nanos: 2,
            ..StreamAccount::default()
        };
        // Counters of a kernel that do not add up.
        let odd = StreamAccount { rwnd_limited_nanos: 11, ..stream.clone() };
        let mut evidence = Evidence::default();
        evidence.sender.streams = vec![stream, odd];
        let told = why(None, &evidence);
        let streams = &told["evidence"]["sender"]["streams"];
        assert_eq!(
            (&streams[0]["cwnd_limited_nanos"], &streams[1]["cwnd_limited_nanos"]),
            (&json!(5), &json!(0))
        );
        // What reads it again takes it.
        let again: Evidence = serde_json::from_value(told["evidence"].clone()).unwrap();
        assert_eq!(again.sender.streams, evidence.sender.streams);
    }

    #[test]
    fn an_error_tells_its_reason_in_a_word_and_null_where_it_has_none() {
        let failure = Failure::new(FailureKind::Space, "write", "rien");
        for (reason, word) in [(Reason::Other, Value::Null), (Reason::NoInodes, "no-inodes".into())] {
            let failure = failure.clone().because(reason);
            assert_eq!(error(&failure)["reason"], word);
            let path = RelativePath::root();
            assert_eq!(settled(None, &path, &Outcome::Failed(failure))["reason"], word);
        }
    }

    #[test]
    fn an_event_has_one_name_and_one_text_whoever_tells_it() {
        let why = || Failure::new(FailureKind::Connection, "read", "the peer is gone");
        let seconds = Duration::from_millis(1_540);
        let lost = format!("link lost: {}; trying again", why());
        let room = RoomAccount { free_bytes: 5 << 40, wanted_bytes: 10 << 40 };
        for (event, name, text) in [
            (Event::LinkLost(why()), "link-lost", lost.as_str()),
            (Event::LinkUp(seconds), "link-up", "link is back after 1.5 s"),
            (Event::Repaired(3), "repaired", "3 damaged, sent again"),
            (Event::Note("so".into()), "note", "so"),
            (
                Event::LacksRoom { room, is_all: true },
                "note",
                "the copy needs 10.00 TiB, and the destination has room for 5.00 TiB: files that are replaced may \
                 make room",
            ),
            (Event::Knob("turned".into()), "knob", "turned"),
        ] {
            let note = note(&event).unwrap();
            assert_eq!((note.name, note.text.as_str()), (name, text));
            assert_eq!(Value::Object(note.object()), json!({"event": name, "text": text}));
            assert!(note.level.is_for(false, true), "{name}");
            assert_eq!(note.level.is_for(false, false), name != "knob", "{name}");
        }
        for event in [Event::StreamLost(1, why()), Event::Detail("more".into())] {
            let level = note(&event).unwrap().level;
            assert!(level.is_for(true, true) && !level.is_for(false, true), "{event:?}");
        }
        assert_eq!(note(&Event::Deleted(RelativePath::root())), None);
    }
}
