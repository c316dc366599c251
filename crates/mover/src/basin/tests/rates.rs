//! Rates that were asked for.

use super::*;
use thalweg_wire::account::LimitAccount;

#[test]
fn a_rate_that_was_asked_for() {
    let mut evidence = evidence();
    evidence.rate_bytes_per_s = Some(101_000_000);
    paced(&mut evidence, 19_000, 1_000_000_000);
    works(&mut evidence.receiver, Stage::Write, 5_000, 1_000);
    let verdict = expect(&evidence, Cause::RateLimit, Where::Source, 4.0);
    assert_eq!(verdict.next.map(|next| next.cause), Some(Cause::DestinationDisk));
    assert!(verdict.sentence.contains("808 Mbit/s, as asked"), "{}", verdict.sentence);
    // One that is not met limits nothing.
    evidence.rate_bytes_per_s = Some(400_000_000);
    paced(&mut evidence, 10, 1_000_000_000);
    works(&mut evidence.receiver, Stage::Write, 19_800, 1_000);
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 4.0);
}

/// One large file in one chunk: of eight streams one has something to send, and waits.
#[test]
fn a_rate_limit_is_met_by_one_stream_of_many() {
    let mut evidence = evidence();
    row(&mut evidence.sender, Stage::Read).threads = 8;
    evidence.rate_bytes_per_s = Some(101_000_000);
    paced(&mut evidence, 9_000, 1_000_000_000);
    works(&mut evidence.receiver, Stage::Write, 5_000, 1_000);
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::RateLimit, "{}", said.sentence);
    // Nobody waited: that it was all but reached is chance.
    paced(&mut evidence, 10, 1_000_000_000);
    assert_ne!(verdict(&evidence).narrowest.cause, Cause::RateLimit);
}

/// What was sent has a quarter of its bytes: 100 MB/s of content are 25 MB/s of a path that is asked for no more
/// than 100.
#[test]
fn a_rate_that_packed_bytes_stay_below_limits_nothing() {
    let mut evidence = evidence();
    evidence.rate_bytes_per_s = Some(100_000_000);
    paced(&mut evidence, 2_000, 250_000_000);
    works(&mut evidence.sender, Stage::Compress, 17_000, 17_000);
    works(&mut evidence.receiver, Stage::Write, 6_000, 1_000);
    let said = expect(&evidence, Cause::SourceCpu, Where::Source, 10.0 / 3.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::DestinationDisk));
}

/// Threads that compress for half of the time and wait for a limit in the rest: without `--compress` it would take
/// four times as long.
#[test]
fn a_limit_that_packed_bytes_reach_is_named_and_not_what_packs_them() {
    for limited in [Where::Source, Where::Path, Where::Destination] {
        let mut evidence = evidence();
        works(&mut evidence.sender, Stage::Compress, 10_000, 10_000);
        works(&mut evidence.receiver, Stage::Write, 5_000, 1_000);
        let (sent, rate) = (250_000_000, 25_500_000);
        let side = match limited {
            Where::Source => &mut evidence.sender,
            _ => &mut evidence.receiver,
        };
        let (cause, place) = match limited {
            Where::Path => {
                evidence.rate_bytes_per_s = Some(rate);
                paced(&mut evidence, 9_000, sent);
                (Cause::RateLimit, Where::Source)
            }
            place => {
                works(side, Stage::Limit, 9_000, 0);
                row(side, Stage::Limit).bytes = sent;
                side.limit =
                    Some(LimitAccount { bytes_per_s: rate, machine: "dtn1".to_owned(), export: None });
                (Cause::OperatorLimit, place)
            }
        };
        let said = verdict(&evidence);
        let narrowest = &said.narrowest;
        assert_eq!((narrowest.cause, narrowest.place), (cause, place), "{}", said.sentence);
        assert!(!said.knob.contains("--compress"), "{}", said.knob);
        // Content that went by it, which is more than was sent.
        assert!((narrowest.bytes_per_s / 102e6 - 1.0).abs() < 0.01, "{}", narrowest.bytes_per_s);
    }
}

/// Packed fourfold for half of the frames below a limit that was then taken away.
#[test]
fn of_packed_bytes_only_those_count_as_paced_that_went_by_a_rate() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Compress, 1_000, 1_000);
    paced(&mut evidence, 18_000, 125_000_000);
    works(&mut evidence.sender, Stage::Send, 500, 500);
    row(&mut evidence.sender, Stage::Send).items = 2_000;
    let said = verdict(&evidence).narrowest;
    assert_eq!(said.cause, Cause::RateLimit);
    assert!((said.bytes_per_s / (500e6 / 9.0) - 1.0).abs() < 0.01, "{}", said.bytes_per_s);
}

/// As above, with the limit of an operator, on either side.
#[test]
fn a_limit_of_an_operator_that_packed_bytes_stay_below_limits_nothing() {
    for place in [Where::Source, Where::Destination] {
        let mut evidence = evidence();
        works(&mut evidence.sender, Stage::Compress, 18_000, 18_000);
        works(&mut evidence.receiver, Stage::Write, 5_000, 1_000);
        let side = match place {
            Where::Source => &mut evidence.sender,
            _ => &mut evidence.receiver,
        };
        // Now and then it is waited for: packed bytes come in bursts too.
        works(side, Stage::Limit, 1_200, 0);
        row(side, Stage::Limit).bytes = 250_000_000;
        let machine = "dtn1".to_owned();
        side.limit = Some(LimitAccount { bytes_per_s: 100_000_000, machine, export: None });
        let said = verdict(&evidence);
        assert_eq!(said.narrowest.cause, Cause::SourceCpu, "{}", said.sentence);
    }
}

/// As above, by accounts of a version that counts content there: four times as much as was sent.
#[test]
fn a_limit_of_an_older_peer_is_judged_by_no_more_than_was_carried() {
    for limited in [Where::Source, Where::Path, Where::Destination] {
        let mut evidence = evidence();
        works(&mut evidence.sender, Stage::Compress, 18_000, 18_000);
        evidence.sender.streams.iter_mut().for_each(|stream| stream.acked_bytes = 125_000_000);
        let limit = LimitAccount { bytes_per_s: 100_000_000, machine: "dtn1".to_owned(), export: None };
        let side = match limited {
            Where::Destination => &mut evidence.receiver,
            _ => &mut evidence.sender,
        };
        if limited == Where::Path {
            evidence.rate_bytes_per_s = Some(limit.bytes_per_s);
            paced(&mut evidence, 1_200, 1_000_000_000);
        } else {
            works(side, Stage::Limit, 1_200, 0);
            row(side, Stage::Limit).bytes = 1_000_000_000;
            side.limit = Some(limit);
        }
        let said = verdict(&evidence);
        assert_eq!(said.narrowest.cause, Cause::SourceCpu, "{}", said.sentence);
    }
}

/// An hour at 4 Gbit/s, and 100 Mbit/s in its last five seconds.
#[test]
fn a_rate_that_is_set_at_the_end_explains_nothing_before() {
    let mut evidence = Evidence { elapsed_nanos: 3_605_000_000_000, bytes: 1_800_000_000_000, ..evidence() };
    evidence.rate_bytes_per_s = Some(12_500_000);
    paced(&mut evidence, 9_500, 62_500_000);
    works(&mut evidence.receiver, Stage::Write, 7_000_000, 100_000);
    works(&mut evidence.sender, Stage::Digest, 3_605_000, 3_605_000);
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 2.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::SourceCpu));
}

/// Ten minutes at 100 Mbit/s, then half a minute without a limit at 4 Gbit/s.
#[test]
fn a_rate_that_was_taken_away_is_still_what_most_of_the_time_went_to() {
    let mut evidence = Evidence { elapsed_nanos: 630_000_000_000, bytes: 22_500_000_000, ..evidence() };
    paced(&mut evidence, 1_190_000, 7_500_000_000);
    works(&mut evidence.receiver, Stage::Write, 50_000, 5_000);
    let said = expect(&evidence, Cause::RateLimit, Where::Source, 630.0 / 35.0);
    let words = "the rate limit: 101 Mbit/s on average, under limits that changed (";
    assert!(said.sentence.starts_with(words), "{}", said.sentence);
    // Nor is the mean of several what was asked for last.
    evidence.rate_bytes_per_s = Some(5_000_000);
    let said = verdict(&evidence).sentence;
    assert!(said.starts_with("the rate limit: "), "{said}");
    assert!(said.contains(" on average; 40.0 Mbit/s is asked for now ("), "{said}");
}

/// 12 MB/s were asked for, so packets were spaced for 24; the disk behind takes 36.
#[test]
fn packets_that_we_space_ourselves_say_nothing_of_how_wide_the_path_is() {
    let mut evidence = Evidence { bytes: 120_000_000, rate_bytes_per_s: Some(12_000_000), ..evidence() };
    paced(&mut evidence, 19_000, 120_000_000);
    works(&mut evidence.receiver, Stage::Sync, 3_333, 10);
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.rtt_nanos, stream.rtt_min_nanos) = (60_000_000, 50_000, 10_000);
        (stream.busy_nanos, stream.delivery_bytes_per_s_max) = (5_000_000_000, 3_000_000_000);
    }
    let said = expect(&evidence, Cause::RateLimit, Where::Source, 3.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::DestinationDisk));
    // That it carries what it carried while anything was under way is certain: two streams, each busy half of the time.
    assert!(said.factor_low.is_some_and(|low| (low - 1.33).abs() < 0.01), "{:?}", said.factor_low);
    // Busy for longer than that: the path is as wide as it was seen to be.
    evidence.sender.streams.iter_mut().for_each(|stream| stream.busy_nanos = 7_000_000_000);
    assert_eq!(verdict(&evidence).next.map(|next| next.place), Some(Where::Path));
}

#[test]
fn who_gives_way_waits_for_the_path_at_its_own_pace() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    row(&mut evidence.sender, Stage::Send).output_nanos = 0;
    works(&mut evidence.sender, Stage::Pace, 19_000, 0);
    works(&mut evidence.receiver, Stage::Write, 3_000, 1_000);
    evidence.yields = true;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Link, Where::Path), "{}", said.sentence);
    let words = "it gives way to others, and hardly any queue was seen: it may be growing still, at ";
    assert!(said.sentence.contains(words), "{}", said.sentence);
    // Once by chance.
    evidence.sender.streams[0].queued_nanos = 100_000_000;
    assert!(verdict(&evidence).sentence.contains(words));
    for stream in &mut evidence.sender.streams {
        stream.queued_nanos = stream.busy_nanos / 5;
    }
    let said = verdict(&evidence).sentence;
    assert!(said.contains("it gives way to others, by the delay, which leaves it "), "{said}");
}

/// As a scavenger does that overran a queue at its beginning, and had less than half of its send buffer under way
/// since.
#[test]
fn who_gives_way_is_told_neither_of_losses_nor_of_buffers_and_to_take_no_more_streams() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Pace, 17_000, 0);
    row(&mut evidence.sender, Stage::Send).output_nanos = 2_000_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 19_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.retransmitted_bytes, stream.sndbuf_limited_nanos) = (12_000_000, 5_000_000_000);
    }
    evidence.yields = true;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Link, Where::Path), "{}", said.sentence);
    assert!(said.knob.contains("--class normal") && !said.knob.contains("--streams"), "{}", said.knob);
    // Where what others leave is not what it waits for, it is told what the path does, and not to be more.
    row(&mut evidence.sender, Stage::Send).output_nanos = 18_000_000_000;
    works(&mut evidence.sender, Stage::Pace, 1_000, 0);
    evidence.sender.streams.iter_mut().for_each(|stream| stream.sndbuf_limited_nanos = 0);
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::Loss, "{}", said.sentence);
    assert!(!said.knob.contains("--streams"), "{}", said.knob);
}

#[test]
fn a_limit_that_an_operator_set_is_named_where_it_is_with_who_set_it() {
    for (place, name) in [(Where::Source, "source"), (Where::Destination, "destination")] {
        let limited = |waited_ms: u64, wrote_ms: u64| {
            let mut evidence = evidence();
            works(&mut evidence.receiver, Stage::Write, wrote_ms, 1_000);
            let side = match place {
                Where::Source => &mut evidence.sender,
                _ => &mut evidence.receiver,
            };
            works(side, Stage::Limit, waited_ms, 0);
            row(side, Stage::Limit).bytes = 1_000_000_000;
            let machine = "dtn1\u{1b}".to_owned();
            side.limit = Some(LimitAccount { bytes_per_s: 250_000_000, machine, export: None });
            evidence
        };
        let evidence = limited(19_000, 5_000);
        let said = verdict(&evidence);
        assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::OperatorLimit, place));
        let words = format!(
            "the limit at the {name}: the operator of dtn1\\x1b limits all that it moves to 2.00 Gbit/s, of which this \
             transfer has 842 Mbit/s (95 % busy)"
        );
        assert!(said.sentence.starts_with(&words), "{}", said.sentence);
        assert!(said.knob.contains(&format!("`thalweg serve` at the {name}")), "{}", said.knob);
        let mut of_export = evidence.clone();
        let side = if place == Where::Source { &mut of_export.sender } else { &mut of_export.receiver };
        side.limit.as_mut().unwrap().export = Some("data".to_owned());
        let said = verdict(&of_export);
        let words = "limits all that its export `data` moves to 2.00 Gbit/s";
        assert!(said.sentence.contains(words), "{}", said.sentence);
        assert!(said.knob.contains("bwlimit of the export of `thalweg serve`"), "{}", said.knob);
        let is_it = |width: &width::Width| width.stage == "limit" && width.place == place;
        assert!(width::widths(&evidence).iter().any(is_it));
        // One that is hardly waited for limits nothing.
        let said = verdict(&limited(10, 19_800));
        assert_eq!(said.narrowest.cause, Cause::DestinationDisk, "{}", said.sentence);
    }
}
