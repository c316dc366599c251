//! Streams of data that are being made: one thread reads, streams hand on what it read, and one thread writes.

use super::*;

/// Of 1 GB in 10 s, by four streams, of which nobody did anything yet.
fn flow() -> Evidence {
    let mut evidence = Evidence { is_flow: true, streams: 4, ..evidence() };
    row(&mut evidence.sender, Stage::Read).threads = 1;
    row(&mut evidence.sender, Stage::Send).threads = 4;
    // Its receiver counts none.
    row(&mut evidence.receiver, Stage::Receive).threads = 0;
    let part = 250_000_000;
    let quarter = |number| StreamAccount { acked_bytes: part, sent_bytes: part, ..stream(number) };
    evidence.sender.streams = (0..4).map(quarter).collect();
    evidence
}

/// What all streams of both sides waited for the path, in milliseconds.
fn wait(evidence: &mut Evidence, sent_ms: u64, received_ms: u64) {
    works(&mut evidence.sender, Stage::Send, 400, 400);
    works(&mut evidence.receiver, Stage::Receive, 400, 400);
    row(&mut evidence.sender, Stage::Send).output_nanos = sent_ms * 1_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = received_ms * 1_000_000;
}

#[test]
fn a_thin_link_holds_up_a_flow() {
    let mut evidence = flow();
    wait(&mut evidence, 38_000, 38_000);
    works(&mut evidence.receiver, Stage::Write, 4_000, 400);
    let said = expect(&evidence, Cause::Link, Where::Path, 2.5);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::DestinationDisk));
    // Before the receiver has told anything.
    evidence.receiver.stages.clear();
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
}

/// Sockets are full because nobody takes what comes, and not because the path is narrow.
#[test]
fn slow_writes_that_back_up_the_streams_of_a_flow_are_no_thin_link() {
    let mut evidence = flow();
    wait(&mut evidence, 38_000, 1_000);
    works(&mut evidence.receiver, Stage::Write, 9_800, 400);
    works(&mut evidence.receiver, Stage::Verify, 2_000, 2_000);
    let said = verdict(&evidence);
    let narrowest = (said.narrowest.cause, said.narrowest.place, said.narrowest.stage.as_str());
    assert_eq!(narrowest, (Cause::DestinationDisk, Where::Destination, "write"), "{}", said.sentence);
}

#[test]
fn the_thread_that_reads_a_flow_and_the_streams_that_carry_it_have_each_their_own_time() {
    let mut evidence = flow();
    works(&mut evidence.sender, Stage::Digest, 9_800, 9_800);
    works(&mut evidence.sender, Stage::Send, 20_000, 20_000);
    works(&mut evidence.receiver, Stage::Write, 4_000, 400);
    let said = expect(&evidence, Cause::SourceCpu, Where::Source, 2.0);
    assert_eq!(said.narrowest.stage, "digest", "{}", said.sentence);
    let widths = width::widths(&evidence);
    let threads = |stage: &str| widths.iter().find(|width| width.stage == stage).map(|width| width.threads);
    assert_eq!(["digest", "send", "write"].map(threads), [Some(1), Some(4), Some(1)]);
}

/// An hour at 100 MB/s without a limit, then ten minutes in which 1 MB/s is made, below one of 10 MB/s.
#[test]
fn a_limit_that_a_producer_stays_below_does_not_hold_up_a_flow() {
    let mut evidence = Evidence { elapsed_nanos: 4_200_000_000_000, bytes: 360_600_000_000, ..flow() };
    evidence.rate_bytes_per_s = Some(10_000_000);
    row(&mut evidence.sender, Stage::Read).input_nanos = 4_000_000_000_000;
    paced(&mut evidence, 100, 600_000_000);
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Producer);
}

/// An hour below a limit that was then taken away, and ten minutes without one.
#[test]
fn a_limit_of_a_flow_that_was_taken_away_is_what_its_time_went_to() {
    let mut evidence = Evidence { elapsed_nanos: 4_200_000_000_000, ..flow() };
    row(&mut evidence.sender, Stage::Read).input_nanos = 500_000_000_000;
    paced(&mut evidence, 14_200_000, 900_000_000);
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::RateLimit, "{}", said.sentence);
}
