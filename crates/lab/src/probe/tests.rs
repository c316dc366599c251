use super::*;
use proptest::prelude::*;
use thalweg_wire::account::{ProcessAccount, SideAccounts, StageAccount, StreamAccount};

fn rate(gbit: f64) -> Reading {
    Reading::Rate(Rate::of_series((gbit * 1e9 / 8.0) as u64, 1.0, 1, &[]))
}

fn unknown() -> Reading {
    Reading::missing("not tried")
}

fn measurements(parts: [f64; 7], ways: [f64; 4]) -> Measurements {
    let [read, digest, encrypt, decrypt, verify, write, sync] = parts.map(rate);
    let [without_ends, without_destination, without_source, full] = ways.map(rate);
    Measurements {
        parts: Parts { read, digest, encrypt, decrypt, verify, write, sync },
        ways: Ways { wire: without_ends.clone(), without_ends, without_destination, without_source, full },
        evidence_without_ends: None,
        evidence: None,
        passage: None,
    }
}

/// A side with cores to spare, of ten seconds.
fn side(stages: Vec<StageAccount>, streams: Vec<StreamAccount>) -> SideAccounts {
    SideAccounts {
        elapsed_nanos: 10_000_000_000,
        process: ProcessAccount { cores_milli: 4000, ..ProcessAccount::default() },
        stages,
        streams,
        ..SideAccounts::default()
    }
}

/// What these sides had of a copy of 10⁹ bytes over a link with so many streams.
fn copied(streams: u16, sender: SideAccounts, receiver: SideAccounts) -> Evidence {
    Evidence {
        elapsed_nanos: 10_000_000_000,
        bytes: 1_000_000_000,
        entries: 1,
        is_linked: true,
        streams,
        sender,
        receiver,
        ..Evidence::default()
    }
}

const WIDE: [f64; 7] = [20.0, 40.0, 40.0, 40.0, 40.0, 12.0, 10.0];

#[test]
fn parts_in_turn_add_their_times() {
    // 1/40 + 1/40 = 1/20.
    let both = in_turn(&[&rate(40.0), &rate(40.0)]);
    assert!((both.rate().unwrap().bits_per_s / 20e9 - 1.0).abs() < 1e-9);
    assert_eq!(in_turn(&[&rate(1.0), &unknown()]), unknown());
}

#[test]
fn a_series_gives_its_middle_half() {
    let rate = Rate::of_series(100, 1.0, 2, &[1.0, 2.0, 3.0, 4.0, 100.0]);
    assert_eq!((rate.low_bits_per_s, rate.bits_per_s, rate.high_bits_per_s), (2.0, 3.0, 4.0));
    assert!((rate.spread() - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(Rate::of_series(100, 2.0, 2, &[7.0]).bits_per_s, 400.0, "too few: the whole");
}

#[test]
fn rounds_give_their_median_and_one_its_own() {
    let rounds = [2.0, 1.0, 4.0].map(|gbit| Rate::of_series(1000, 1.0, 2, &[gbit; 3]));
    let rate = Rate::of_rounds(&rounds);
    assert_eq!((rate.low_bits_per_s, rate.bits_per_s, rate.high_bits_per_s), (1.5, 2.0, 3.0));
    assert_eq!((rate.bytes, rate.seconds), (3000, 3.0));
    assert_eq!(Rate::of_rounds(&rounds[..1]), rounds[0]);
}

#[test]
fn writing_counts_until_it_is_durable() {
    let measured = Measured {
        bytes: 1_000_000_000,
        threads: 4,
        busy_nanos: 4_000_000_000,
        sync_nanos: 1_000_000_000,
        cached_bytes: None,
        ..Measured::default()
    };
    // 1 GB in 1 s, and 1 s more for the sync: 4 Gbit/s.
    assert!((Rate::of_part(&measured).bits_per_s / 4e9 - 1.0).abs() < 1e-9);
    let read = Measured { sync_nanos: 0, cached_bytes: Some(250_000_000), ..measured };
    assert_eq!((Rate::of_part(&read).cached, Rate::of_part(&read).past_cache), (Some(0.25), None));
    let past = Measured { past_cache_bytes: Some(750_000_000), ..read };
    assert_eq!(Rate::of_part(&past).past_cache, Some(0.75));
}

/// 002, section VI-C.2: an end is replaced, and what the way gains names it.
#[test]
fn the_end_without_which_it_is_faster_is_the_narrow_one() {
    let slow_disk = find(&measurements(WIDE, [9.0, 8.8, 2.1, 2.0]));
    assert_eq!(slow_disk.narrowest, Some(Stage::DestinationStorage));
    assert_eq!(slow_disk.decided_by, Some(Witness::Substitution));
    assert!((slow_disk.factor.unwrap() - 4.4).abs() < 1e-9);
    let slow_source = find(&measurements(WIDE, [9.0, 2.1, 8.8, 2.0]));
    assert_eq!(slow_source.narrowest, Some(Stage::SourceStorage));
}

#[test]
fn two_narrow_ends_are_told_apart_by_what_they_do_alone() {
    let mut parts = WIDE;
    (parts[0], parts[6]) = (2.2, 2.0);
    assert_eq!(find(&measurements(parts, [9.0, 2.1, 2.1, 2.0])).narrowest, Some(Stage::DestinationStorage));
    (parts[0], parts[6]) = (2.0, 2.2);
    assert_eq!(find(&measurements(parts, [9.0, 2.1, 2.1, 2.0])).narrowest, Some(Stage::SourceStorage));
}

/// Seen on a link that loses packets: a sixth more without both ends, which alone were 400 times as fast.
#[test]
fn ends_that_are_far_faster_alone_do_not_explain_a_gain_without_both() {
    let mut parts = WIDE;
    (parts[0], parts[5], parts[6]) = (38.5, 39.4, 39.4);
    let found = find(&measurements(parts, [0.0864, 0.0790, 0.0760, 0.0740]));
    assert_eq!(found.narrowest, Some(Stage::Network));
}

/// A way with fewer parts was slower, so a gain of two says nothing: seen on a link that loses packets.
#[test]
fn runs_that_contradict_each_other_raise_what_counts_as_a_gain() {
    let found = find(&measurements(WIDE, [0.086, 0.235, 0.115, 0.116]));
    assert_ne!(found.decided_by, Some(Witness::Substitution));
    assert_eq!(found.narrowest, Some(Stage::Network), "what is left: alone, noise to nowhere is the slowest");
}

/// Taking an end away frees its host: where a CPU is used up that gains, whatever the disk.
#[test]
fn a_cpu_that_is_used_up_goes_before_what_it_makes_slow() {
    let mut measured = measurements(WIDE, [9.0, 3.0, 2.2, 2.0]);
    assert_eq!(find(&measured).narrowest, Some(Stage::DestinationStorage));
    let receiver = SideAccounts {
        elapsed_nanos: 10_000_000_000,
        process: ProcessAccount {
            user_nanos: 5_000_000_000,
            cores_milli: 2000,
            quota_milli: Some(500),
            throttled_nanos: 9_000_000_000,
            ..ProcessAccount::default()
        },
        ..SideAccounts::default()
    };
    let evidence = Evidence {
        elapsed_nanos: 10_000_000_000,
        bytes: 1 << 30,
        is_linked: true,
        receiver,
        ..Evidence::default()
    };
    measured.evidence = Some(evidence);
    let found = find(&measured);
    assert_eq!(found.narrowest, Some(Stage::DestinationHost));
    assert_eq!(found.decided_by, Some(Witness::Accounts));
}

/// Transfers that were cut off at different moments: a gain of a fifth against two who agree.
#[test]
fn a_small_gain_does_not_stand_against_accounts_and_parts_that_agree() {
    let mut parts = WIDE;
    parts[0] = 1.9;
    let mut measured = measurements(parts, [2.4, 2.36, 2.05, 2.0]);
    assert_eq!(find(&measured).narrowest, Some(Stage::DestinationStorage));
    let busy = |stage: Step, busy_nanos| StageAccount {
        stage: stage as u8,
        threads: 2,
        items: 1000,
        bytes: 1_000_000_000,
        busy_nanos,
        ..StageAccount::default()
    };
    let sender = side(vec![busy(Step::Read, 19_000_000_000)], Vec::new());
    let receiver = side(vec![busy(Step::Write, 1_000_000_000)], Vec::new());
    measured.evidence = Some(copied(2, sender, receiver));
    let found = find(&measured);
    assert_eq!((found.narrowest, found.decided_by), (Some(Stage::SourceStorage), Some(Witness::Accounts)));
    // A large one does.
    measured.ways = measurements(parts, [9.0, 8.8, 2.1, 2.0]).ways;
    assert_eq!(find(&measured).narrowest, Some(Stage::DestinationStorage));
}

/// Seen on a link that loses packets: five times as fast without a source that alone was 600 times as fast as the way.
#[test]
fn a_gain_without_an_end_that_is_far_faster_alone_does_not_stand_against_accounts_and_parts_that_agree() {
    let mut parts = WIDE;
    (parts[0], parts[5], parts[6]) = (78.1, 31.6, 31.0);
    let mut measured = measurements(parts, [0.282, 0.084, 0.662, 0.127]);
    measured.ways.wire = rate(0.4);
    assert_eq!(find(&measured).narrowest, Some(Stage::SourceStorage), "who else could say");
    let stream = StreamAccount {
        congestion: "cubic".to_owned(),
        busy_nanos: 9_900_000_000,
        sent_bytes: 1_000_000_000,
        retransmitted_bytes: 25_000_000,
        cwnd_bytes: 30_000,
        acked_bytes: 975_000_000,
        send_buffer_bytes: 4 << 20,
        ..StreamAccount::default()
    };
    let sending = StageAccount {
        stage: Step::Send as u8,
        threads: 1,
        items: 1000,
        bytes: 1_000_000_000,
        busy_nanos: 100_000_000,
        output_nanos: 9_800_000_000,
        ..StageAccount::default()
    };
    let sender = side(vec![sending], vec![stream]);
    measured.evidence = Some(copied(1, sender, side(Vec::new(), Vec::new())));
    let found = find(&measured);
    assert_eq!((found.narrowest, found.decided_by), (Some(Stage::Network), Some(Witness::Accounts)));
    // Not where it could hold back.
    measured.parts.read = rate(0.5);
    assert_eq!(find(&measured).narrowest, Some(Stage::SourceStorage));
}

/// Seen on one machine, with the source in the page cache: alone the disk that is written is the widest of all, and the
/// way is three times as fast without it.
#[test]
fn the_marked_stage_is_the_narrowest_drawn_whatever_the_parts_do_alone() {
    let is_narrowest_drawn = |found: &Finding| {
        let marked = found.rows.iter().find(|row| Some(row.stage) == found.narrowest).unwrap();
        let least = found.rows.iter().filter_map(|row| row.way_bits_per_s).fold(f64::INFINITY, f64::min);
        marked.way_bits_per_s == Some(least)
    };
    let of = |found: &Finding, stage: Stage| {
        let row = found.rows.iter().find(|row| row.stage == stage).unwrap();
        (row.way_bits_per_s.map(|bits| bits / 1e9), row.way_is_at_least)
    };
    let mut measured = measurements([6.0, 16.0, 16.0, 12.0, 12.0, 30.0, 24.4], [2.3, 3.4, 1.9, 1.3]);
    let found = find(&measured);
    assert_eq!(found.narrowest, Some(Stage::DestinationStorage));
    assert!(is_narrowest_drawn(&found), "{:?}", found.rows);
    assert_eq!(of(&found, Stage::DestinationStorage), (Some(1.3), false), "what the way carried");
    assert_eq!(of(&found, Stage::SourceStorage), (Some(6.0), false));
    // A way with the network in it carried more than it would have by itself.
    measured.ways.wire = rate(1.1);
    assert_eq!(of(&find(&measured), Stage::Network), (Some(3.4), true));
    for ways in
        [[9.0, 8.8, 2.1, 2.0], [9.0, 2.1, 8.8, 2.0], [9.0, 2.1, 2.1, 2.0], [0.086, 0.235, 0.115, 0.116]]
    {
        assert!(is_narrowest_drawn(&find(&measurements(WIDE, ways))), "{ways:?}");
    }
    // Where the parts decide, they are what is drawn.
    measured.ways.full = unknown();
    let found = find(&measured);
    assert_eq!((found.narrowest, found.decided_by), (Some(Stage::Network), Some(Witness::Alone)));
    assert!(is_narrowest_drawn(&found) && of(&found, Stage::DestinationStorage) == (Some(24.4), false));
}

/// Writing takes two threads five seconds each, receiving four and a half: a host is not narrower for the disk that its
/// threads wait for, nor a disk for its host.
#[test]
fn stages_that_share_threads_are_each_as_wide_as_their_own_work() {
    let busy = |stage: Step, busy_nanos| StageAccount {
        stage: stage as u8,
        threads: 2,
        bytes: 1_000_000_000,
        busy_nanos,
        ..StageAccount::default()
    };
    let side = |stages| SideAccounts { elapsed_nanos: 10_000_000_000, stages, ..SideAccounts::default() };
    let evidence = Evidence {
        elapsed_nanos: 10_000_000_000,
        bytes: 1_000_000_000,
        is_linked: true,
        sender: side(vec![busy(Step::Read, 1_000_000_000)]),
        receiver: side(vec![busy(Step::Receive, 9_000_000_000), busy(Step::Write, 10_000_000_000)]),
        ..Evidence::default()
    };
    let found = in_company(&evidence);
    for (stage, gbit) in [(Stage::DestinationHost, 8.0 / 4.5), (Stage::DestinationStorage, 8.0 / 5.0)] {
        let bits = found.iter().find(|(of, _)| *of == stage).expect("a rate").1;
        assert!((bits / 1e9 - gbit).abs() < 1e-9, "{stage:?}: {bits}");
    }
}

#[test]
fn what_is_missing_decides_nothing() {
    let mut measured = measurements(WIDE, [9.0, 2.0, 2.0, 2.0]);
    measured.ways.full = unknown();
    let found = find(&measured);
    // Wire and hosts at 9 Gbit/s are narrower than every part alone.
    assert_eq!((found.narrowest, found.decided_by), (Some(Stage::Network), Some(Witness::Alone)));
    measured.ways.wire = rate(30.0);
    assert_eq!(find(&measured).narrowest, Some(Stage::DestinationStorage));
    // A wire on which nothing arrived in time may be the narrowest of all.
    let silent = Measurements { ways: Ways { wire: unknown(), ..measured.ways.clone() }, ..measured.clone() };
    assert_eq!(find(&silent).narrowest, None);
    measured.parts.sync = unknown();
    assert_eq!(find(&measured).narrowest, Some(Stage::SourceStorage));
    let nothing = Measurements {
        parts: Parts {
            read: unknown(),
            digest: unknown(),
            encrypt: unknown(),
            decrypt: unknown(),
            verify: unknown(),
            write: unknown(),
            sync: unknown(),
        },
        ways: Ways {
            wire: unknown(),
            without_ends: unknown(),
            without_destination: unknown(),
            without_source: unknown(),
            full: unknown(),
        },
        evidence_without_ends: None,
        evidence: None,
        passage: None,
    };
    let found = find(&nothing);
    assert_eq!((found.narrowest, found.factor), (None, None));
    assert!(svg::draw(&found, "a -> b", "").contains("not measured"));
}

#[test]
fn a_drawing_marks_one_stage_and_holds_no_foreign_markup() {
    let found = find(&measurements(WIDE, [9.0, 8.8, 2.1, 2.0]));
    let drawn = svg::draw(&found, "<script>\u{1b}[31m & \"x\"", "cold");
    assert_eq!(drawn.matches(">narrowest<").count(), 1);
    assert!(!drawn.contains("<script>") && !drawn.contains('\u{1b}') && drawn.contains("&lt;script&gt;"));
    assert_eq!(drawn.matches("<rect").count(), 6, "five stages and the paper");
}

proptest! {
    #[test]
    fn units_do_not_matter_and_a_wider_end_is_never_named_for_it(
        ways in [0.1..10.0, 0.1..10.0, 0.1..10.0, 0.1..10.0_f64], times in 0.01..100.0, by in 1.0..10.0_f64
    ) {
        let found = find(&measurements(WIDE, ways));
        let scaled = find(&measurements(WIDE.map(|rate| rate * times), ways.map(|rate| rate * times)));
        prop_assert_eq!(found.narrowest, scaled.narrowest);
        // The source is taken out and it gains more: the source it is, all the more.
        if found.narrowest == Some(Stage::SourceStorage) {
            let mut more = ways;
            more[2] *= by;
            prop_assert_eq!(find(&measurements(WIDE, more)).narrowest, Some(Stage::SourceStorage));
        }
    }
}
