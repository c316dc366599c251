//! Hand-made accounts of every class of bottleneck, and what is said of them.

use super::*;
use thalweg_wire::account::{StageAccount, StreamAccount};

// Disks, CPUs, producers.
mod machines;

/// CPUs that heat slowed.
mod heat;

// CPUs of the machines, and quotas of control groups.
mod cpu;

// CPUs that others had.
mod crowd;

// Energy that machines used meanwhile.
mod energy;

// Rates that were asked for.
mod rates;

// Links, windows, streams.
mod path;

// What is being made while it is moved.
mod flows;

// What is said of it.
mod said;

/// A transfer of 1 GB in 10 s on two streams, in which nobody did anything yet.
fn evidence() -> Evidence {
    let mut evidence = Evidence {
        elapsed_nanos: 10_000_000_000,
        bytes: 1_000_000_000,
        entries: 1,
        is_linked: true,
        streams: 2,
        concurrency: 256,
        ..Evidence::default()
    };
    for (side, host, stage) in
        [(&mut evidence.sender, 1, Stage::Read), (&mut evidence.receiver, 2, Stage::Receive)]
    {
        side.elapsed_nanos = 10_000_000_000;
        side.process.host = host;
        side.process.cores_milli = 4000;
        side.stages.push(StageAccount { stage: stage as u8, threads: 2, ..StageAccount::default() });
    }
    evidence.sender.streams = (0..2).map(stream).collect();
    evidence
}

fn stream(stream: u16) -> StreamAccount {
    StreamAccount {
        stream,
        acked_bytes: 500_000_000,
        sent_bytes: 500_000_000,
        rtt_nanos: 100_000_000,
        rtt_min_nanos: 100_000_000,
        busy_nanos: 10_000_000_000,
        window_bytes: 4 << 20,
        congestion: "cubic".into(),
        ..StreamAccount::default()
    }
}

fn row(side: &mut SideAccounts, stage: Stage) -> &mut StageAccount {
    let at = side.stages.iter().position(|row| row.stage == stage as u8).unwrap_or_else(|| {
        side.stages.push(StageAccount { stage: stage as u8, ..StageAccount::default() });
        side.stages.len() - 1
    });
    &mut side.stages[at]
}

/// Time of all threads of a stage together, and CPU time of it, in milliseconds.
fn works(side: &mut SideAccounts, stage: Stage, busy_ms: u64, cpu_ms: u64) {
    let row = row(side, stage);
    row.busy_nanos = busy_ms * 1_000_000;
    row.cpu_nanos = cpu_ms * 1_000_000;
    row.items = 1000;
}

/// Time that all threads together waited for a rate, in milliseconds, and bytes that went by one.
fn paced(evidence: &mut Evidence, waited_ms: u64, bytes: u64) {
    works(&mut evidence.sender, Stage::Pace, waited_ms, 0);
    row(&mut evidence.sender, Stage::Pace).bytes = bytes;
}

/// Both sides wait for the path all the time.
fn waits_for_the_path(evidence: &mut Evidence) {
    row(&mut evidence.sender, Stage::Send).output_nanos = 19_000_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 19_000_000_000;
}

fn verdict(evidence: &Evidence) -> Verdict {
    judge(evidence).expect("a verdict")
}

/// Judges and compares cause, place and the factor within 5 %.
fn expect(evidence: &Evidence, cause: Cause, place: Where, factor: f64) -> Verdict {
    let verdict = verdict(evidence);
    assert_eq!((verdict.narrowest.cause, verdict.narrowest.place), (cause, place), "{}", verdict.sentence);
    assert!((verdict.factor / factor - 1.0).abs() < 0.05, "{} instead of {factor}", verdict.factor);
    verdict
}

#[test]
fn nothing_is_said_of_nothing() {
    assert_eq!(judge(&Evidence::default()), None);
    assert_eq!(judge(&evidence()), None);
}

/// Of a path that carried something, and was not full, only that is known.
#[test]
fn where_nothing_was_to_be_carried_the_path_leaves_no_doubt_about_the_factor() {
    let mut evidence = Evidence { bytes: 0, entries: 4000, ..evidence() };
    evidence.sender.streams.clear();
    works(&mut evidence.receiver, Stage::Decide, 9_000, 100);
    works(&mut evidence.sender, Stage::Scan, 2_500, 100);
    assert_eq!(expect(&evidence, Cause::Look, Where::Destination, 4.0).factor_low, None);
    evidence.bytes = 1_000_000;
    assert_eq!(expect(&evidence, Cause::Look, Where::Destination, 4.0).factor_low, Some(1.0));
    // Nor is one known that was the narrowest itself, whatever came on it.
    let mut in_ssh = Evidence { bytes: 0, entries: 4000, in_ssh: true, ..super::tests::evidence() };
    waits_for_the_path(&mut in_ssh);
    let verdict = verdict(&in_ssh);
    assert_eq!(verdict.narrowest.cause, Cause::Ssh, "{}", verdict.sentence);
    assert!(verdict.factor_low.is_some() || verdict.factor < 1.25, "{}", verdict.sentence);
}

#[test]
fn any_accounts_give_an_answer_that_makes_sense() {
    use proptest::prelude::*;
    let side = || prop::collection::vec((0u8..20, 0u64..30_000, 0u64..30_000, 0u64..30_000), 0..18);
    let strategy = (side(), side(), 0u64..20_000, 0u64..u64::MAX / 4, any::<bool>());
    proptest!(|((sender, receiver, elapsed_ms, bytes, is_linked) in strategy)| {
        let fill = |rows: Vec<(u8, u64, u64, u64)>| SideAccounts {
            stages: rows
                .into_iter()
                .map(|(stage, busy, cpu, wait)| StageAccount {
                    stage,
                    busy_nanos: busy * 1_000_000,
                    cpu_nanos: cpu * 1_000_000,
                    input_nanos: wait * 1_000_000,
                    output_nanos: wait * 1_000_000,
                    ..StageAccount::default()
                })
                .collect(),
            ..SideAccounts::default()
        };
        let evidence = Evidence {
            elapsed_nanos: elapsed_ms * 1_000_000,
            bytes,
            is_linked,
            sender: fill(sender),
            receiver: fill(receiver),
            ..Evidence::default()
        };
        if let Some(verdict) = judge(&evidence) {
            prop_assert!(verdict.factor >= 1.0 && verdict.factor.is_finite());
            prop_assert!((0.0..=1.0).contains(&verdict.narrowest.busy));
            prop_assert!(!verdict.sentence.contains("NaN"));
        }
        for width in width::widths(&evidence) {
            prop_assert!(width.bytes_per_s >= 0.0);
        }
    });
}
