//! What is said of it: shares, gains, and how certain they are.

use super::*;
use std::time::Duration;

#[test]
fn what_is_certain_of_a_factor_is_what_the_path_has_carried() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_800, 200);
    works(&mut evidence.receiver, Stage::Write, 2_000, 2_000);
    // Nothing was seen of the path but that it carried this.
    assert_eq!(verdict(&evidence).factor_low, Some(1.0));
    evidence.sender.streams[0].delivery_bytes_per_s_max = 200_000_000;
    let verdict = verdict(&evidence);
    // The widest that was seen is the next.
    assert!((verdict.factor - 2.0).abs() < 0.1, "{}", verdict.factor);
    assert_eq!(verdict.factor_low, None);
    assert_eq!(verdict.next.map(|next| next.place), Some(Where::Path));
    // Near by, the time in which anything was under way tells: two streams, each for a tenth of the time.
    for stream in &mut evidence.sender.streams {
        (stream.busy_nanos, stream.rtt_min_nanos) = (1_000_000_000, 50_000);
    }
    works(&mut evidence.receiver, Stage::Write, 1_000, 1_000);
    expect(&evidence, Cause::SourceDisk, Where::Source, 1.0 / 0.19);
}

/// 1 GB in 10 s: what stands beside a rate is the share of the time in which it was reached, so that each makes up the
/// transfer's own rate, and the gain is what the shares say, not what the two rates would say.
#[test]
fn rates_stand_with_their_shares_and_the_gain_is_one_of_time() {
    let mut evidence = evidence();
    evidence.rate_bytes_per_s = Some(105_000_000);
    let bytes = evidence.bytes;
    paced(&mut evidence, 19_000, bytes);
    works(&mut evidence.receiver, Stage::Write, 6_250, 1_000);
    let said = verdict(&evidence).sentence;
    let words = "the rate limit: 840 Mbit/s, as asked (95 % busy); without it the transfer would take no less than 31 % of \
                 its time (at most 3.2 times as fast); next is write at the destination, at 2.56 Gbit/s (31 % busy). To turn: --bwlimit.";
    assert_eq!(said, words);
    // What was seen of the path says how much of it is certain.
    evidence.sender.streams[0].delivery_bytes_per_s_max = 200_000_000;
    let said = verdict(&evidence).sentence;
    assert!(
        said.contains("; without it the transfer would take 50 % of its time (2.0 times as fast); "),
        "{said}"
    );
}

/// As where no stream ever came up: the CPU, next to idle, was not what took eight seconds.
#[test]
fn where_nothing_moved_no_rate_is_told_and_an_idle_stage_took_none_of_the_time() {
    let said = |busy_ms: u64, is_linked: bool, entries: u64| {
        let mut evidence =
            Evidence { elapsed_nanos: 8_000_000_000, bytes: 0, entries, is_linked, ..evidence() };
        evidence.sender.streams.clear();
        for side in [&mut evidence.sender, &mut evidence.receiver] {
            side.process.host = 7;
            side.process.cores_milli = 1000;
            side.process.user_nanos = busy_ms * 500_000;
        }
        let said = verdict(&evidence);
        assert_eq!(said.narrowest.cause, Cause::Cpu, "{}", said.sentence);
        assert!(!said.sentence.contains("bit/s"), "{}", said.sentence);
        said.sentence
    };
    let words = "no content was moved: 1 entry settled in 8.00 s; most of that time it waited for the link or the far \
                 side; the busiest was the CPU of this machine (1 % busy)";
    assert_eq!(said(80, true, 1), words);
    let here = said(2_400, false, 1);
    assert!(!here.contains("link") && here.contains("no stage took most of that time"), "{here}");
    let busy = said(7_200, true, 1_000);
    assert!(busy.starts_with("no content was moved: 1000 entries settled in "), "{busy}");
    let all =
        "most of that time took the CPU of this machine (90 % busy); without it the transfer would take ";
    assert!(busy.contains(all) && busy.contains(". To turn: more or faster CPUs"), "{busy}");
}

/// Five of six minutes the link was down: what the disk gave took little of all that time.
#[test]
fn a_time_in_which_nothing_could_move_is_told_behind_the_narrowest() {
    let mut evidence = Evidence { elapsed_nanos: 360_000_000_000, ..evidence() };
    works(&mut evidence.sender, Stage::Read, 90_000, 400);
    let without = verdict(&evidence).sentence;
    assert!(
        without.starts_with("read at the source: its disk gives ") && !without.contains("Nothing"),
        "{without}"
    );
    evidence.outages.lost(Duration::from_secs(300));
    let told = "Nothing could move for a while: the link was lost 1 time, for 300.0 of 360.0 s.";
    assert_eq!(verdict(&evidence).sentence, format!("{without} {told}"));
    evidence.outages.stood_still(Duration::from_secs(12));
    assert!(verdict(&evidence).sentence.ends_with("; thalweg stood still for 12.0 of 360.0 s."));
    // Where nothing was moved at all, it is told as well.
    let evidence = Evidence { bytes: 0, ..evidence };
    assert!(verdict(&evidence).sentence.contains("Nothing could move for a while: the link"));
}

#[test]
fn a_gain_is_told_with_what_is_certain_of_it() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 400);
    works(&mut evidence.receiver, Stage::Write, 4_000, 4_000);
    let told = |factor: f64, factor_low: Option<f64>| {
        let verdict = Verdict { factor, factor_low, ..verdict(&evidence) };
        let sentence = words::sentence(&evidence, &verdict);
        sentence.split("; ").nth(1).expect("a gain").to_owned()
    };
    let all = "without it the transfer would take";
    assert_eq!(told(3.1, None), format!("{all} 32 % of its time (3.1 times as fast)"));
    assert_eq!(
        told(3.1, Some(1.0)),
        format!("{all} no less than 32 % of its time (at most 3.1 times as fast)")
    );
    assert_eq!(told(3.1, Some(2.0)), format!("{all} 32 to 50 % of its time (2.0 to 3.1 times as fast)"));
    assert_eq!(told(20.0, None), format!("{all} 5 % of its time (20 times as fast)"));
    assert_eq!(told(1.0, None), format!("{all} as long"));
}

#[test]
fn what_is_not_busy_all_the_time_is_not_said_to_be_used_up() {
    let said_of = |busy_s: u64| {
        let mut evidence = evidence();
        for side in [&mut evidence.sender, &mut evidence.receiver] {
            side.process.host = 7;
            side.process.cores_milli = 1000;
            side.process.user_nanos = busy_s * 500_000_000;
        }
        let said = verdict(&evidence);
        assert_eq!(said.narrowest.cause, Cause::Cpu, "{}", said.sentence);
        said.sentence
    };
    assert!(said_of(10).starts_with("the CPU of this machine: it is used up at 800 Mbit/s (100 % busy)"));
    let said = said_of(8);
    assert!(
        said.starts_with("the CPU of this machine: it would be enough for 1.00 Gbit/s (80 % busy)"),
        "{said}"
    );

    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 12_000, 12_000);
    let said = verdict(&evidence).sentence;
    assert!(
        said.starts_with("digest at the source: it computes, enough for 1.33 Gbit/s (60 % busy)"),
        "{said}"
    );
    works(&mut evidence.sender, Stage::Digest, 19_000, 19_000);
    let said = verdict(&evidence).sentence;
    assert!(
        said.starts_with("digest at the source: it computes all the time, for 842 Mbit/s (95 % busy)"),
        "{said}"
    );
}

#[test]
fn a_link_that_is_waited_for_some_of_the_time_is_not_said_to_be_full() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    assert!(verdict(&evidence).sentence.contains("the link is full at 800 Mbit/s (100 % busy)"));
    row(&mut evidence.sender, Stage::Send).output_nanos = 12_000_000_000;
    evidence.sender.streams.iter_mut().for_each(|stream| stream.busy_nanos = 6_000_000_000);
    let said = verdict(&evidence).sentence;
    assert!(said.contains("the link carries 1.33 Gbit/s while it is waited for (60 % busy)"), "{said}");
}

/// 100 MB came, 900 MB were found by comparing: read at both sides, and only digests crossed.
#[test]
fn what_was_compared_is_said_to_have_been_read_and_not_to_have_crossed() {
    let mut evidence =
        Evidence { bytes: 100_000_000, compared_bytes: 900_000_000, entries: 10, ..evidence() };
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.sent_bytes, stream.busy_nanos) = (51_000_000, 51_000_000, 1_000_000_000);
    }
    works(&mut evidence.receiver, Stage::Read, 18_000, 500);
    row(&mut evidence.receiver, Stage::Read).bytes = 900_000_000;
    works(&mut evidence.sender, Stage::Read, 10_000, 500);
    row(&mut evidence.sender, Stage::Read).bytes = 1_000_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 2_000_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 2_000_000_000;
    let said = verdict(&evidence);
    let narrowest = &said.narrowest;
    assert_eq!((narrowest.cause, narrowest.place), (Cause::DestinationDisk, Where::Destination));
    assert!(
        said.sentence.starts_with("read at the destination: its disk gives 800 Mbit/s"),
        "{}",
        said.sentence
    );
    let next = said.next.expect("a next one");
    assert_eq!((next.stage.as_str(), next.place), ("read", Where::Source));
    assert!((next.bytes_per_s - 200e6).abs() < 1e6, "{next:?}");
    let widths = width::widths(&evidence);
    let path = widths.iter().find(|width| width.place == Where::Path).expect("a path");
    assert_eq!(path.bytes, 100_000_000);
    assert!(path.bytes_per_s < 102e6, "{path:?}");
    let at_destination: Vec<_> =
        widths.iter().filter(|width| width.place == Where::Destination).map(|width| width.stage).collect();
    assert_eq!(at_destination, ["read"]);

    // With all of it waiting for the path, that carried what came.
    waits_for_the_path(&mut evidence);
    evidence.sender.streams.iter_mut().for_each(|stream| stream.busy_nanos = 10_000_000_000);
    row(&mut evidence.receiver, Stage::Read).busy_nanos = 1_000_000_000;
    let said = verdict(&evidence);
    assert!(said.sentence.contains("the link is full at 80.0 Mbit/s"), "{}", said.sentence);
}

/// Threads of the destination write for 3.5 s and open what comes for 1.8 s; something was on its way for 6.9 s of ten,
/// and for 2 s both sides waited for it.
#[test]
fn the_narrowest_and_the_next_are_drawn_as_wide_as_they_are_said_to_be() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Write, 7_000, 500);
    works(&mut evidence.receiver, Stage::Receive, 3_600, 3_600);
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 4_000_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 8_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.rtt_nanos, stream.rtt_min_nanos, stream.busy_nanos) = (60_000, 50_000, 4_432_000_000);
    }
    let drawn = |evidence: &Evidence, narrow: &Narrow| {
        let mut widths = width::widths(evidence).into_iter();
        let row = widths.find(|row| row.stage == narrow.stage && row.place == narrow.place);
        row.expect("a stage").bytes_per_s
    };
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0 / 6.9);
    let next = said.next.as_ref().expect("a next one");
    assert_eq!(next.place, Where::Path);
    assert_eq!(drawn(&evidence, &said.narrowest), said.narrowest.bytes_per_s);
    assert_eq!(drawn(&evidence, next), next.bytes_per_s);
    // The path was busy for longer, and threads waited less for it: that is the most that it took.
    let words = "write at the destination: its disk takes 1.51 Gbit/s (53 % busy); without it the transfer would take \
                 69 % of its time (1.4 times as fast); next is the path, at 1.16 Gbit/s or more (at most 69 % busy). ";
    assert!(said.sentence.starts_with(words), "{}", said.sentence);
    let widths = width::widths(&evidence);
    let narrower = widths.iter().filter(|row| row.bytes_per_s < said.narrowest.bytes_per_s);
    assert_eq!(narrower.map(|row| row.stage).collect::<Vec<_>>(), ["path"], "{widths:?}");
    // What is busy for less is as wide as it is.
    evidence.sender.streams.iter_mut().for_each(|stream| stream.busy_nanos = 2_000_000_000);
    let said = verdict(&evidence);
    assert!(said.sentence.contains("next is the path, at 2.22 Gbit/s (36 % busy)"), "{}", said.sentence);

    // Of a rate that was asked for: the rate, and not what the waiting for it comes to.
    evidence.rate_bytes_per_s = Some(105_000_000);
    paced(&mut evidence, 19_000, 1_000_000_000);
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::RateLimit, "{}", said.sentence);
    assert_eq!(drawn(&evidence, &said.narrowest), said.narrowest.bytes_per_s);
    assert!((said.narrowest.bytes_per_s - 105e6).abs() < 1.0, "{:?}", said.narrowest);
}

/// 20 files of 3 MB: creating is the largest part of what the receiver's threads do, and less than half of it.
#[test]
fn a_stage_whose_threads_do_much_else_is_not_said_to_be_busy_for_all_of_it() {
    let mut evidence = Evidence { bytes: 60_000_000, entries: 20, ..evidence() };
    works(&mut evidence.receiver, Stage::Create, 4_800, 1_000);
    works(&mut evidence.receiver, Stage::Verify, 3_200, 3_000);
    works(&mut evidence.receiver, Stage::Write, 3_000, 2_000);
    let said = verdict(&evidence).sentence;
    let words = "create at the destination: creating files gives 87.3 Mbit/s (55 % busy, with all that its threads do)";
    assert!(said.starts_with(words), "{said}");
    assert!(said.contains("--streams 8 works on more files at once"), "{said}");
    // Small ones are those that are small, and a stage that is nearly all of it is busy itself.
    evidence.bytes = 20 * 1024;
    works(&mut evidence.receiver, Stage::Create, 10_000, 1_000);
    works(&mut evidence.receiver, Stage::Write, 300, 100);
    works(&mut evidence.receiver, Stage::Verify, 300, 100);
    let said = verdict(&evidence).sentence;
    assert!(said.starts_with("create at the destination: creating small files gives"), "{said}");
    assert!(said.contains("(53 % busy)") && said.contains("more small files"), "{said}");
}

#[test]
fn what_a_slow_disk_leaves_to_its_reads_is_their_computing() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 6_000);
    let said = verdict(&evidence).sentence;
    assert!(said.starts_with("read at the source: its disk gives"), "{said}");
    assert!(said.contains("; next is the computing of read at the source, at "), "{said}");
}
