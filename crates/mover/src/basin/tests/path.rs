//! The path: full, lossy or shared, windows and buffers, and streams that differ.

use super::*;
use thalweg_wire::account::LimitAccount;

#[test]
fn a_full_link_a_lossy_one_and_small_windows() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    works(&mut evidence.sender, Stage::Digest, 2_000, 2_000);
    // Packets queue, and some are lost in the full queue.
    for stream in &mut evidence.sender.streams {
        stream.rtt_nanos *= 3;
        stream.retransmitted_bytes = 1_000_000;
    }
    // However wide the path, 500 MB take 15 round trips of slow start in each stream.
    let without = 10.0 / 1.506;
    let said = expect(&evidence, Cause::Link, Where::Path, without).sentence;
    assert!(said.contains("0.20 % of the bytes are sent again"), "{said}");
    assert_eq!(verdict(&evidence).factor_low, None);
    for stream in &mut evidence.sender.streams {
        stream.rtt_nanos = stream.rtt_min_nanos;
    }
    let verdict = expect(&evidence, Cause::Loss, Where::Path, without);
    // Of the link behind it nothing is known.
    assert_eq!(verdict.factor_low, Some(1.0));
    assert!(verdict.sentence.contains("0.20 %") && verdict.knob.contains("bbr"), "{}", verdict.sentence);
    for stream in &mut evidence.sender.streams {
        stream.rwnd_limited_nanos = 8_000_000_000;
    }
    let verdict = expect(&evidence, Cause::Window, Where::Path, without);
    assert!(
        verdict.sentence.contains("4.00 MiB") && verdict.sentence.contains("100.0 ms"),
        "{}",
        verdict.sentence
    );
    let how = "raise net.ipv4.tcp_rmem at the receiver (`thalweg doctor` there tells how)";
    assert!(verdict.knob.contains(how), "{}", verdict.knob);
    evidence.window_bytes = Some(4 << 20);
    assert!(super::judge(&evidence).unwrap().knob.contains("--window"));
    for stream in &mut evidence.sender.streams {
        stream.rwnd_limited_nanos = 0;
        stream.sndbuf_limited_nanos = 8_000_000_000;
    }
    let knob = expect(&evidence, Cause::SendBuffer, Where::Path, without).knob;
    assert!(knob.contains("tcp_wmem") && knob.contains("`thalweg doctor` at the source"), "{knob}");
    // 5 MB are under way in each stream, of 16 MiB that might be.
    for stream in &mut evidence.sender.streams {
        stream.sndbuf_limited_nanos = 3_000_000_000;
        (stream.cwnd_bytes, stream.window_bytes) = (16 << 20, 16 << 20);
    }
    expect(&evidence, Cause::SendBuffer, Where::Path, without);
    for stream in &mut evidence.sender.streams {
        stream.cwnd_bytes = 5 << 20;
    }
    expect(&evidence, Cause::Loss, Where::Path, without);
    // The peer's window is full, though the kernel, which paces, says so of a part of the time only.
    for stream in &mut evidence.sender.streams {
        (stream.sndbuf_limited_nanos, stream.rwnd_limited_nanos) = (0, 2_000_000_000);
        (stream.cwnd_bytes, stream.window_bytes) = (16 << 20, 5_100_000);
    }
    expect(&evidence, Cause::Window, Where::Path, without);
}

/// One of four copies that share a session: of the waits for the path a quarter is its own. The streams were busy all
/// the time, the CPUs for a third of it.
#[test]
fn a_path_that_copies_share_is_named_by_each_of_them() {
    let mut evidence = Evidence { bytes: 250_000_000, ..evidence() };
    row(&mut evidence.sender, Stage::Send).output_nanos = 4_900_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 4_900_000_000;
    evidence.sender.process.user_nanos = 12_000_000_000;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Link, Where::Path), "{}", said.sentence);
    assert!(said.narrowest.busy > 0.95, "{}", said.narrowest.busy);
    assert!((said.factor - 10.0 / 3.0).abs() < 0.1, "{}", said.factor);
    // Nor where next to none of the waits is booked yet.
    row(&mut evidence.sender, Stage::Send).output_nanos = 500_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 500_000_000;
    assert_eq!(verdict(&evidence).narrowest.place, Where::Path);
    // CPUs that are used up are another matter.
    evidence.sender.process.user_nanos = 38_000_000_000;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Cpu);
}

/// 40 Mbit/s behind a long queue: the first megabytes went into buffers, and the last wait of each thread is not over.
#[test]
fn a_link_is_said_to_be_as_wide_as_the_kernel_saw_it_and_not_as_its_threads_waited() {
    let mut evidence = Evidence { elapsed_nanos: 4_000_000_000, bytes: 20_000_000, ..evidence() };
    row(&mut evidence.sender, Stage::Send).output_nanos = 3_800_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 7_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.sent_bytes) = (10_000_000, 10_000_000);
        (stream.rtt_nanos, stream.rtt_min_nanos) = (300_000_000, 200_000);
        stream.busy_nanos = 4_000_000_000;
    }
    let verdict = verdict(&evidence);
    assert_eq!(verdict.narrowest.cause, Cause::Link);
    assert!((verdict.narrowest.bytes_per_s * 8.0 / 40e6 - 1.0).abs() < 0.01, "{}", verdict.sentence);
    assert!(verdict.sentence.contains("40.0 Mbit/s"), "{}", verdict.sentence);
    let drawn = width::widths(&evidence).into_iter().find(|width| width.stage == "path").expect("a path");
    assert_eq!(drawn.bytes_per_s, verdict.narrowest.bytes_per_s);
}

/// 0.5 MiB for a send buffer, of which 250 kB are on their way: 50 ms away that is 5 MB/s a stream.
#[test]
fn a_send_buffer_that_is_full_is_named_though_the_congestion_window_is_no_larger_than_what_is_under_way() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.sent_bytes) = (50_000_000, 50_000_000);
        (stream.rtt_nanos, stream.rtt_min_nanos) = (50_000_000, 50_000_000);
        (stream.cwnd_bytes, stream.window_bytes) = (275_000, 6 << 20);
        (stream.sndbuf_limited_nanos, stream.send_buffer_bytes) = (500_000_000, 458_752);
    }
    evidence.bytes = 100_000_000;
    let said = verdict(&evidence);
    assert_eq!(
        (said.narrowest.cause, said.narrowest.place),
        (Cause::SendBuffer, Where::Path),
        "{}",
        said.sentence
    );
    assert!(said.knob.contains("tcp_wmem"), "{}", said.knob);
    assert_eq!(said.factor_low, Some(1.0));
    // One that follows the congestion window is no bound.
    for stream in &mut evidence.sender.streams {
        stream.send_buffer_bytes = 800_000;
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
    // Nor is one before a queue: there the link is full.
    for stream in &mut evidence.sender.streams {
        (stream.send_buffer_bytes, stream.rtt_min_nanos) = (458_752, 20_000_000);
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
}

#[test]
fn a_receiver_that_does_not_take_what_comes_is_no_matter_of_windows() {
    let mut evidence = evidence();
    row(&mut evidence.sender, Stage::Send).output_nanos = 19_000_000_000;
    for stream in &mut evidence.sender.streams {
        stream.rwnd_limited_nanos = 9_000_000_000;
    }
    works(&mut evidence.receiver, Stage::Write, 19_000, 500);
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 20.0);
    works(&mut evidence.receiver, Stage::Write, 0, 0);
    works(&mut evidence.receiver, Stage::Verify, 19_000, 19_000);
    expect(&evidence, Cause::DestinationCpu, Where::Destination, 20.0);
}

/// Within a room a receiver that takes little keeps bytes under way: neither that time nor what was delivered meanwhile
/// says how narrow the path is.
#[test]
fn a_receiver_that_takes_little_makes_no_near_path_narrow() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Write, 18_000, 400);
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 1_600_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 7_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.rtt_nanos, stream.rtt_min_nanos) = (35_000_000, 5_000);
        (stream.busy_nanos, stream.rwnd_limited_nanos) = (5_000_000_000, 4_000_000_000);
        stream.delivery_bytes_per_s_max = 100_000_000;
    }
    // The disk had no part in one second of the ten. That the path carries what it was seen to carry is certain.
    for (each, low) in [(100_000_000, 2.0), (300_000_000, 6.0)] {
        evidence.sender.streams.iter_mut().for_each(|stream| stream.delivery_bytes_per_s_max = each);
        let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0);
        assert!(said.factor_low.is_some_and(|told| (told - low).abs() < 0.01), "{:?}", said.factor_low);
    }
    // Room that it never lacked makes the path as wide as it was seen to be.
    evidence.sender.streams.iter_mut().for_each(|stream| stream.rwnd_limited_nanos = 0);
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0 / 7.5);
    assert_eq!(said.next.map(|next| next.place), Some(Where::Path));
}

/// 125 MB/s before the room of a receiver was full that takes 100 MB/s: the kernel counts little of what was waited for
/// the path since.
#[test]
fn a_thin_link_behind_a_receiver_that_takes_little_is_as_wide_as_it_was_before_its_room_was_full() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Write, 18_000, 400);
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 1_600_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 7_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.rtt_nanos, stream.rtt_min_nanos) = (35_000_000, 5_000);
        (stream.busy_nanos, stream.rwnd_limited_nanos) = (5_000_000_000, 4_000_000_000);
        (stream.delivery_bytes_per_s_max, stream.peak_share_bytes_per_s) = (80_000_000, 62_500_000);
    }
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0);
    for stream in &mut evidence.sender.streams {
        stream.open_share_bytes_per_s = 62_500_000;
    }
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 1.25);
    assert_eq!(said.next.map(|next| next.place), Some(Where::Path));
    // More than it was seen to carry at any time it is not said to lack.
    for stream in &mut evidence.sender.streams {
        stream.peak_share_bytes_per_s = 100_000_000;
    }
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 2.0);
    // Who gives way holds streams itself, and so does who keeps a limit.
    let limit = LimitAccount { bytes_per_s: 1 << 40, ..LimitAccount::default() };
    evidence.sender.limit = Some(limit);
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0);
    // The path carries what was compressed, and not what that expands to.
    evidence.sender.limit = None;
    evidence.sender.streams.iter_mut().for_each(|stream| stream.acked_bytes /= 10);
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0);
}

/// 64 MiB at 48 MB/s as asked, in front of writes that take 0.1 s for half a mebibyte each: of the time in which the
/// receiver had no room the kernel counts a part only.
#[test]
fn what_is_behind_slow_writes_is_the_rate_that_was_asked_for_and_not_the_room_that_was_waited_for() {
    let mut evidence = Evidence { elapsed_nanos: 6_670_000_000, bytes: 64 << 20, ..evidence() };
    evidence.rate_bytes_per_s = Some(48_000_000);
    paced(&mut evidence, 100, 64 << 20);
    works(&mut evidence.receiver, Stage::Write, 12_900, 100);
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 200_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 11_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.sent_bytes) = (32 << 20, 32 << 20);
        (stream.rtt_nanos, stream.rtt_min_nanos) = (35_000_000, 20_000);
        (stream.busy_nanos, stream.rwnd_limited_nanos) = (6_600_000_000, 4_800_000_000);
        (stream.delivery_bytes_per_s_max, stream.peak_share_bytes_per_s) = (12_100_000, 5_000_000);
    }
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 6.67 / 1.398);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::RateLimit));
    assert!(said.factor_low.is_some_and(|low| low < 2.0), "{:?}", said.factor_low);
    // Windows that were asked for are narrow by themselves.
    evidence.window_bytes = Some(128 << 10);
    assert_eq!(verdict(&evidence).next.map(|next| next.place), Some(Where::Path));
}

/// A thread that gets no CPU hears late that there is room: that wait is none for the path.
#[test]
fn the_path_is_not_waited_for_longer_than_it_had_anything_to_carry() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 8_000, 500);
    row(&mut evidence.sender, Stage::Send).output_nanos = 10_000_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 19_000_000_000;
    evidence.sender.process.user_nanos = 600_000_000;
    evidence.sender.process.quota_milli = Some(60);
    evidence.sender.process.throttled_nanos = 9_000_000_000;
    evidence.rate_bytes_per_s = Some(400_000_000);
    paced(&mut evidence, 100, 1_000_000_000);
    for stream in &mut evidence.sender.streams {
        (stream.rtt_nanos, stream.rtt_min_nanos) = (30_000, 4_000);
        stream.busy_nanos = 600_000_000;
    }
    let said = expect(&evidence, Cause::CpuQuota, Where::Source, 4.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::RateLimit));
    // Of a stream that broke nothing is known any more: then the wait is all there is.
    evidence.sender.streams.truncate(1);
    let said = expect(&evidence, Cause::CpuQuota, Where::Source, 2.0);
    assert_eq!(said.next.map(|next| next.place), Some(Where::Path));
}

#[test]
fn one_slow_stream() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    evidence.sender.streams.push(stream(2));
    evidence.sender.streams[1].acked_bytes = 50_000_000;
    let verdict = verdict(&evidence);
    assert_eq!(verdict.narrowest.cause, Cause::SlowStream);
    assert!(verdict.sentence.contains("stream 1 has 10 %"), "{}", verdict.sentence);
    // Three streams of 50 MB/s instead of 1 GB in 10 s, however much of it was waiting for the slow one alone.
    assert!((verdict.factor - 1.5).abs() < 0.01, "{}", verdict.factor);
    row(&mut evidence.sender, Stage::Send).output_nanos = 14_000_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 14_000_000_000;
    assert!((judge(&evidence).expect("a verdict").factor - 1.5).abs() < 0.01);
}

/// What is left of the window takes as long as its last packet does: that is no queue on the way.
#[test]
fn a_link_that_loses_so_much_that_nothing_is_under_way_is_lossy_and_not_full() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    evidence.bytes = 15_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.sent_bytes, stream.retransmitted_bytes) = (7_500_000, 7_900_000, 400_000);
        (stream.rtt_nanos, stream.rtt_min_nanos, stream.cwnd_bytes) = (4_000_000, 4_000, 2_896);
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Loss);
    // However long the last of them took: no more than the window was under way.
    for stream in &mut evidence.sender.streams {
        stream.rtt_nanos = 40_000_000;
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Loss);
    // The queue in front of a thin link loses packets too.
    for stream in &mut evidence.sender.streams {
        (stream.rtt_nanos, stream.cwnd_bytes) = (60_000_000, 90_000);
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
}

/// The last round trip was a long one; but of what the windows allow little was under way, as after losses.
#[test]
fn a_very_lossy_link_is_not_called_full_for_one_long_round_trip() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    for stream in &mut evidence.sender.streams {
        (stream.retransmitted_bytes, stream.cwnd_bytes) = (10_000_000, 30 << 20);
        (stream.rtt_nanos, stream.window_bytes) = (160_000_000, 32 << 20);
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Loss);
    // All of it is under way: the queue is full, and loses.
    for stream in &mut evidence.sender.streams {
        stream.cwnd_bytes = 8 << 20;
    }
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
}

#[test]
fn no_more_streams_are_advised_than_help_and_no_congestion_control_that_is_in_use() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    for stream in &mut evidence.sender.streams {
        stream.retransmitted_bytes = 1_000_000;
    }
    let lossy = |evidence: &Evidence| {
        let said = verdict(evidence);
        assert_eq!(said.narrowest.cause, Cause::Loss);
        said.knob
    };
    let knob = lossy(&evidence);
    assert!(knob.contains("--cca bbr (if the machine that sends permits it), or --streams 8;"), "{knob}");
    evidence.streams = 64;
    let knob = lossy(&evidence);
    assert!(knob.contains("--cca bbr (if") && !knob.contains("--streams"), "{knob}");
    evidence.sender.streams.iter_mut().for_each(|stream| stream.congestion = "bbr".into());
    let knob = lossy(&evidence);
    assert!(!knob.contains("--cca") && !knob.contains("--streams"), "{knob}");
    evidence.streams = 32;
    assert!(lossy(&evidence).contains("To turn: --streams 64;"));
    // Neither of windows nor of buffers.
    for (rwnd, sndbuf, cause) in [(8, 0, Cause::Window), (0, 8, Cause::SendBuffer)] {
        for stream in &mut evidence.sender.streams {
            stream.rwnd_limited_nanos = rwnd * 1_000_000_000;
            stream.sndbuf_limited_nanos = sndbuf * 1_000_000_000;
        }
        for (streams, window) in [(16, None), (64, None), (64, Some(4 << 20))] {
            (evidence.streams, evidence.window_bytes) = (streams, window);
            let said = verdict(&evidence);
            assert_eq!(said.narrowest.cause, cause);
            assert_eq!(said.knob.contains("--streams 64"), streams < 64, "{}", said.knob);
            assert!(said.knob.contains("To turn: "), "{}", said.knob);
        }
    }
}

/// Two that share a thin link part it three to one: without the one the other had no more.
#[test]
fn one_of_two_streams_is_slow_only_where_it_goes_another_way() {
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    evidence.sender.streams[1].acked_bytes = 150_000_000;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
    evidence.sender.streams[1].rtt_min_nanos = 180_000_000;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::SlowStream);
    evidence.sender.streams[1].rtt_min_nanos = 100_000_000;
    evidence.sender.streams[1].retransmitted_bytes = 3_000_000;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::SlowStream);
    // Of several that are all unequal none is slow.
    evidence.sender.streams[1].retransmitted_bytes = 0;
    evidence.sender.streams.extend([stream(2), stream(3)]);
    evidence.sender.streams[2].acked_bytes = 250_000_000;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Link);
}

#[test]
fn one_slow_card() {
    let card = |number: u8| (Some([10, 0, number, 1].into()), Some([10, 0, number, 2].into()));
    let mut evidence = evidence();
    waits_for_the_path(&mut evidence);
    evidence.sender.streams = (0..4).map(stream).collect();
    for (number, stream) in evidence.sender.streams.iter_mut().enumerate() {
        (stream.local, stream.remote) = card(number as u8 % 2);
        stream.acked_bytes /= if number % 2 == 1 { 10 } else { 1 };
    }
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::SlowCard);
    let words = "each stream from 10.0.1.1 to 10.0.1.2 has 10 % of the others' rate";
    assert!(said.sentence.contains(words), "{}", said.sentence);
    // Of the same cards, one stream alone is a slow stream.
    evidence.sender.streams[3].acked_bytes = 500_000_000;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::SlowStream);
}

/// What `thalweg testbed up --rtt 60ms --rate 200Mbit/s` shows of one stream with BBR: its beginning overran the queue,
/// which is empty at the end.
#[test]
fn a_link_that_is_full_is_not_called_lossy_for_what_its_queue_lost() {
    let mut evidence = Evidence { elapsed_nanos: 3_100_000_000, bytes: 60_000_000, ..evidence() };
    waits_for_the_path(&mut evidence);
    evidence.sender.streams.truncate(1);
    let of = |evidence: &mut Evidence, rtt_ms: u64, overflow_bytes: u64, queued_ms: u64| {
        let stream = &mut evidence.sender.streams[0];
        (stream.acked_bytes, stream.sent_bytes) = (60_000_000, 63_000_000);
        (stream.rtt_nanos, stream.rtt_min_nanos) = (rtt_ms * 1_000_000, 60_000_000);
        (stream.busy_nanos, stream.retransmitted_bytes) = (3_000_000_000, 2_952_528);
        (stream.cwnd_bytes, stream.window_bytes) = (3_020_528, 21_228_544);
        (stream.overflow_bytes, stream.queued_nanos) = (overflow_bytes, queued_ms * 1_000_000);
        verdict(evidence).narrowest.cause
    };
    assert_eq!(of(&mut evidence, 62, 0, 0), Cause::Loss);
    assert_eq!(of(&mut evidence, 62, 2_930_000, 400), Cause::Link);
    // Packets waited most of the time, as with CUBIC; less than half of its window was under way at the end.
    assert_eq!(of(&mut evidence, 62, 0, 2_000), Cause::Link);
    evidence.sender.streams[0].congestion = "bbr".into();
    assert_eq!(of(&mut evidence, 100, 2_930_000, 2_000), Cause::Link);
    // The way itself loses 1 % besides, or most of what is lost.
    assert_eq!(of(&mut evidence, 62, 2_300_000, 400), Cause::Loss);
    assert_eq!(of(&mut evidence, 62, 1_400_000, 400), Cause::Loss);
}

/// What `thalweg testbed up --rtt 20ms --rate 1Gbit --loss 1e-4` shows of one stream with Reno: its beginning overran
/// the queue, which lost far more than the way did in all of the time behind it; but the queue was empty then.
#[test]
fn a_stream_whose_window_stays_small_for_what_was_lost_has_no_full_link() {
    let mut evidence = Evidence { elapsed_nanos: 27_050_000_000, bytes: 314_572_800, ..evidence() };
    waits_for_the_path(&mut evidence);
    evidence.sender.streams.truncate(1);
    let stream = &mut evidence.sender.streams[0];
    (stream.acked_bytes, stream.sent_bytes) = (314_627_616, 316_940_071);
    (stream.rtt_nanos, stream.rtt_min_nanos) = (19_969_000, 19_000_000);
    (stream.busy_nanos, stream.retransmitted_bytes) = (27_028_000_000, 2_312_456);
    (stream.cwnd_bytes, stream.window_bytes) = (288_152, 21_233_664);
    (stream.overflow_bytes, stream.queued_nanos) = (2_283_496, 200_925_890);
    (stream.delivery_bytes_per_s_max, stream.peak_share_bytes_per_s) = (29_986_459, 62_197_493);
    stream.congestion = "reno".into();
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::Loss, "{}", said.sentence);
    // However little was lost: what a window grows by in a round trip is little on a long way.
    let is = |change: &dyn Fn(&mut StreamAccount)| {
        let mut evidence = evidence.clone();
        change(&mut evidence.sender.streams[0]);
        verdict(&evidence).narrowest.cause
    };
    assert_eq!(is(&|stream| (stream.retransmitted_bytes, stream.overflow_bytes) = (30_000, 0)), Cause::Loss);
    assert_eq!(is(&|stream| (stream.retransmitted_bytes, stream.overflow_bytes) = (0, 0)), Cause::Link);
    // Packets wait most of the time, it carries what it carries at most, or has no more to carry.
    assert_eq!(is(&|stream| stream.queued_nanos = 20_000_000_000), Cause::Link);
    let as_ever = |stream: &mut StreamAccount| {
        (stream.delivery_bytes_per_s_max, stream.peak_share_bytes_per_s) = (14_000_000, 14_000_000);
    };
    assert_eq!(is(&as_ever), Cause::Link);
    assert_eq!(is(&|stream| stream.cwnd_bytes = 8_000_000), Cause::Link);
}

/// 12 streams take turns on a line of 25 MB/s: each was seen at a sixth of it, and together they never passed the line.
fn streams_in_turn() -> Evidence {
    let mut evidence = Evidence { elapsed_nanos: 3_000_000_000, bytes: 60_000_000, ..evidence() };
    evidence.sender.streams = (0..12).map(stream).collect();
    for stream in &mut evidence.sender.streams {
        (stream.acked_bytes, stream.sent_bytes) = (5_000_000, 5_500_000);
        (stream.rtt_nanos, stream.rtt_min_nanos) = (61_000_000, 60_000_000);
        (stream.busy_nanos, stream.delivery_bytes_per_s_max) = (1_300_000_000, 4_000_000);
        stream.peak_share_bytes_per_s = 2_000_000;
    }
    row(&mut evidence.sender, Stage::Read).threads = 12;
    evidence
}

#[test]
fn streams_that_are_busy_at_different_times_make_a_path_no_wider_than_they_saw_together() {
    let mut evidence = streams_in_turn();
    assert_eq!(super::super::path::peak_bytes_per_s(&evidence), Some(24e6));
    assert!((super::super::path::carrying_seconds(&evidence) - 2.5).abs() < 1e-9);
    // One alone was faster than all were over half a second.
    evidence.sender.streams[3].delivery_bytes_per_s_max = 25_000_000;
    assert_eq!(super::super::path::peak_bytes_per_s(&evidence), Some(25e6));
    // Of a peer that does not tell, the sum is all that is known.
    evidence.sender.streams.iter_mut().for_each(|stream| stream.peak_share_bytes_per_s = 0);
    assert_eq!(super::super::path::peak_bytes_per_s(&evidence), Some(69e6));
    // What was never asked for as much as it carries is not known to carry no more.
    for stream in &mut evidence.sender.streams {
        (stream.delivery_bytes_per_s_max, stream.peak_share_bytes_per_s) = (0, 2_000_000);
    }
    assert_eq!(super::super::path::peak_bytes_per_s(&evidence), None);
}

/// One file at a time, of which the last pieces wait in the queue of a full line: threads stand by for the plan.
#[test]
fn a_plan_that_fills_the_path_is_not_what_holds_up() {
    let mut evidence = streams_in_turn();
    row(&mut evidence.sender, Stage::Read).output_nanos = 20_700_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 5_900_000_000;
    row(&mut evidence.receiver, Stage::Receive).threads = 12;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 30_000_000_000;
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::Plan, "{}", said.sentence);
    // Without a queue nothing says that the path was full: 24 MB/s are what it carries at least, 48 what it may.
    let next = said.next.expect("a next one");
    assert!(next.place == Where::Path && (next.bytes_per_s - 48e6).abs() < 1.0, "{next:?}");
    assert!(
        said.factor_low.is_some_and(|low| low < said.factor * 0.6),
        "{:?} {}",
        said.factor_low,
        said.factor
    );
    evidence.sender.streams.iter_mut().for_each(|stream| stream.queued_nanos = 1_000_000_000);
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Link, Where::Path), "{}", said.sentence);
}

/// The end that dialled tells nothing of sockets, and the other one of some that lead to ssh.
#[test]
fn data_that_travel_in_ssh_are_no_full_link() {
    for is_pull in [false, true] {
        let mut evidence = evidence();
        waits_for_the_path(&mut evidence);
        works(&mut evidence.receiver, Stage::Write, 4_000, 1_000);
        match is_pull {
            true => evidence
                .sender
                .streams
                .iter_mut()
                .for_each(|stream| stream.rwnd_limited_nanos = 9_000_000_000),
            false => evidence.sender.streams.clear(),
        }
        evidence.in_ssh = true;
        let said = verdict(&evidence);
        assert_eq!(
            (said.narrowest.cause, said.narrowest.place),
            (Cause::Ssh, Where::Path),
            "{}",
            said.sentence
        );
        assert!(
            said.sentence.starts_with("the path: data travel in ssh, which gives 8"),
            "{}",
            said.sentence
        );
        assert!(said.knob.contains("--far-ports") && !said.knob.contains("wider link"), "{}", said.knob);
        assert_eq!(said.factor_low, Some(1.0), "what is behind it nobody knows");
        evidence.in_ssh = false;
        assert_ne!(verdict(&evidence).narrowest.cause, Cause::Ssh);
    }
}
