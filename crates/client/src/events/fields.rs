//! The names of the fields of events, held against `fields.txt`: some of them are those of types that are not made for
//! programs to read, and a field that is renamed there must not be renamed here unnoticed.

use super::*;
use std::collections::BTreeSet;
use std::fmt::Write;
use thalweg_mover::admission::Margin;
use thalweg_mover::basin::times::Passage;
use thalweg_mover::basin::{Cause, Narrow, Where};
use thalweg_mover::model::prediction::{Comparison, LeftOut, Taken};
use thalweg_mover::plan::DiskPlan;
use thalweg_mover::run::agree::Agreed;
use thalweg_mover::run::copy::Sources;
use thalweg_mover::stage::Stage;
use thalweg_wire::account::{
    DiskAccount, EnergyAccount, LimitAccount, ProcessAccount, RenamedAccount, SideAccounts, StageAccount,
    StreamAccount,
};
use thalweg_wire::message::{Check, FailureKind, Loss, Slot, Totals, VerifyLevel};
use thalweg_wire::receipt::{Side, Signatory, Signed, Statement, TransferKind};
use thalweg_wire::{Digest, EntryId};

#[test]
fn fields_are_those_of_the_golden_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/events/fields.txt");
    let fields = fields_of(&events());
    if std::env::var_os("THALWEG_GOLDEN").is_some_and(|value| value == "write") {
        std::fs::write(path, &fields).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap();
    assert_eq!(fields, known, "the schema is public: docs/reference/json.md says what may become of it");
}

#[test]
fn a_slot_opens_in_as_long_as_it_takes_from_when_it_is_told() {
    let now = Instant::now();
    let held = SlotHeld { opens: now + Duration::from_secs(3), ..held() };
    for (after_s, opens_in_s) in [(0, 3.0), (1, 2.0), (4, 0.0)] {
        let told = slot(&held, now + Duration::from_secs(after_s));
        assert_eq!(told["opens_in_s"], opens_in_s);
    }
}

fn fields_of(events: &[(&str, Value)]) -> String {
    let mut out = String::from(
        "# Fields of events. Made by `THALWEG_GOLDEN=write cargo test -p thalweg-client events`.\n",
    );
    for (name, event) in events {
        let mut fields = BTreeSet::new();
        put_fields(event, "", &mut fields);
        let _ = writeln!(out, "\n{name}");
        for field in fields {
            let _ = writeln!(out, "  {field}");
        }
    }
    out
}

/// `a.b` of what is in an object, `a[]` of what is in a list.
fn put_fields(value: &Value, at: &str, fields: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let dot = if at.is_empty() { "" } else { "." };
                put_fields(value, &format!("{at}{dot}{name}"), fields);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().for_each(|item| put_fields(item, &format!("{at}[]"), fields));
        }
        _ => {
            fields.insert(at.to_owned());
        }
    }
}

/// Each with everything in it that may be there.
fn events() -> Vec<(&'static str, Value)> {
    let (path, failure) = (path(), failure());
    let said = note(&Event::Note("so".into())).unwrap();
    let settled = |outcome: Outcome| Value::Object(settled(Some(&entry(Kind::Fifo)), &path, &outcome));
    let loss = Loss { what: "owner".into(), why: "so".into() };
    let digest = Some(Digest::default());
    let link = entry(Kind::Symlink { target: b"there".to_vec() });
    vec![
        ("note", Value::Object(said.object())),
        ("entry done", settled(Outcome::Done { digest, losses: vec![loss] })),
        ("entry unchanged", settled(Outcome::Unchanged { digest })),
        ("entry skipped", settled(Outcome::Skipped("so".into()))),
        ("entry failed", settled(Outcome::Failed(failure.clone()))),
        ("error", Value::Object(error(&failure))),
        ("error at a place", Value::Object(error_at(OsStr::new("there"), &failure))),
        ("difference", Value::Object(difference("extra", &path, "so"))),
        ("tried-again", Value::Object(tried_again(&failure, Duration::ZERO))),
        ("source-kept", Value::Object(source_kept(&failure))),
        ("listed", listed(&link)),
        ("progress", progress(&Meter::default())),
        ("progress of a stream", flow_progress(&Meter::default())),
        ("stands", stands(&path, 0)),
        ("slot", slot(&held(), Instant::now())),
        ("finished", Value::Object(finished(&report(), false))),
        ("staged", Value::Object(staged(&staged_summary(), false))),
        ("finished of a stream", Value::Object(flow_finished(&flow_report(), Instant::now()))),
        ("why", Value::Object(why(Some(&verdict()), &evidence()))),
        ("prediction", Value::Object(compared(&told()))),
        ("prediction missing", Value::Object(compared(&Compared::CutOff))),
    ]
}

fn path() -> RelativePath {
    RelativePath::new(b"\xff".to_vec()).unwrap()
}

fn failure() -> Failure {
    Failure::new(FailureKind::Io, "read", "so").at(&path())
}

fn entry(kind: Kind) -> Entry {
    let evidence = thalweg_wire::Evidence::default();
    Entry { id: EntryId(0), path: path(), kind, mode: 0o644, uid: 0, gid: 0, evidence, xattrs: Vec::new() }
}

fn accounts() -> SideAccounts {
    let stage = StageAccount { stage: Stage::Read as u8, busy_nanos: 500_000_000, ..StageAccount::default() };
    SideAccounts {
        elapsed_nanos: 1_000_000_000,
        stages: vec![stage],
        process: ProcessAccount::default(),
        disk: Some(DiskAccount::default()),
        streams: vec![StreamAccount::default()],
        room: Some(RoomAccount::default()),
        limit: Some(LimitAccount::default()),
        energy: Some(EnergyAccount { joules: Some(1), ..EnergyAccount::default() }),
        renamed: Some(RenamedAccount::default()),
    }
}

fn evidence() -> Evidence {
    Evidence { elapsed_nanos: 1_000_000_000, sender: accounts(), receiver: accounts(), ..Evidence::default() }
}

fn verdict() -> Verdict {
    let narrow = Narrow {
        stage: "read".into(),
        place: Where::Source,
        cause: Cause::SourceDisk,
        busy: 0.5,
        bytes_per_s: 1.0,
        entries_per_s: 1.0,
        heat: Some(0.5),
    };
    Verdict {
        narrowest: narrow.clone(),
        next: Some(narrow),
        factor: 2.0,
        factor_low: Some(1.5),
        knob: "so".into(),
        sentence: "so".into(),
    }
}

fn told() -> Compared {
    let predicted = Prediction {
        seconds: 1.0,
        low_s: 1.0,
        high_s: 1.0,
        p99_s: 1.0,
        terms: vec![(Term::Start, 1.0)],
        rests_on: 1,
        guessed: Vec::new(),
    };
    let actual = Taken::default();
    Compared::Told(Box::new(Comparison {
        predicted,
        actual,
        is_within: true,
        wrong: Term::Start,
        wrong_by_s: 0.0,
        after_s: None,
        left_out: LeftOut::default(),
    }))
}

fn staged_summary() -> Summary {
    Summary { compared: Some(told()), ..Summary::default() }
}

fn held() -> SlotHeld {
    let slot = Slot {
        lease: [0; 16],
        lease_millis: 1,
        period_micros: 1,
        length_micros: 1,
        opens_micros: 1,
        bytes: 1,
        bytes_per_s: 1,
        worst_micros: 1,
        is_any_time: false,
        settle_micros: 1,
        over_bytes: 1,
    };
    SlotHeld {
        slot,
        deadline: Duration::ZERO,
        worst: Duration::ZERO,
        margin: Margin::default(),
        opens: Instant::now(),
        moves: 0,
    }
}

fn chosen<T>(value: T) -> Chosen<T> {
    Chosen { value, why: "so".into() }
}

fn plan_of_all() -> Plan {
    Plan {
        streams: chosen(1),
        streams_max: 1,
        chunk_bytes: chosen(1),
        segment_bytes: chosen(1),
        concurrency: chosen(1),
        depth: chosen(None),
        window_bytes: chosen(None),
        window: None,
        goal_bits_per_s: 1,
        are_streams_asked: false,
        share_bytes: None,
        congestion: Some(chosen("cubic".into())),
        disk: DiskPlan {
            io_depth: chosen(1),
            engine: chosen("so"),
            direct: [chosen("so"), chosen("so")],
            order: [chosen("so"), chosen("so")],
        },
    }
}

fn agreed() -> Agreed {
    let nobody = Signatory { certificate: [0; 32], is_ephemeral: false };
    let statement = Statement {
        root: Digest::default(),
        entries: 0,
        totals: Totals::default(),
        unread: 0,
        signed_at: 0,
        side: Side::Receiver,
        kind: TransferKind::Files,
        signer: nobody,
        peer: nobody,
        session: None,
        place: None,
        verify: VerifyLevel::default(),
        check: Check::default(),
        chunk_bytes: 1,
        segment_bytes: 1,
        header: None,
    };
    let signed = Signed { statement, certificate: Vec::new(), signature: Vec::new() };
    Agreed { sender: signed.clone(), receiver: signed }
}

pub(crate) fn report() -> Report {
    Report {
        totals: Totals::default(),
        agreed: Some(agreed()),
        plan: plan_of_all(),
        elapsed: Duration::ZERO,
        evidence: evidence(),
        verdict: Some(verdict()),
        attempts: 1,
        in_ssh: false,
        learned: None,
        passage: Passage::default(),
        beginnings: Vec::new(),
        compared: Some(told()),
        sources: Sources::default(),
        renamed: RenamedAccount::default(),
    }
}

fn flow_report() -> FlowReport {
    FlowReport {
        totals: Totals::default(),
        agreed: agreed(),
        plan: plan_of_all(),
        elapsed: Duration::ZERO,
        evidence: evidence(),
        verdict: Some(verdict()),
        attempts: 1,
        lag: Some(Lag::default()),
        slot: Some(held()),
    }
}
