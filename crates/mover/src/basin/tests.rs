//! Hand-made accounts of every class of bottleneck, and what is said of them.

use super::*;
use thalweg_wire::account::{StageAccount, StreamAccount};

/// CPUs that heat slowed.
mod heat;

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
fn expect(evidence: &Evidence, cause: Cause, place: Place, factor: f64) -> Verdict {
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

#[test]
fn a_slow_disk_at_the_source() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 400);
    works(&mut evidence.sender, Stage::Digest, 600, 600);
    works(&mut evidence.receiver, Stage::Write, 4_000, 4_000);
    let verdict = expect(&evidence, Cause::SourceDisk, Place::Source, 5.0);
    assert_eq!(verdict.narrowest.stage, "read");
    let next = verdict.next.expect("a next one");
    assert_eq!((next.stage.as_str(), next.place), ("write", Place::Destination));
    assert!(verdict.sentence.contains("read at the source"), "{}", verdict.sentence);
}

/// The sender tells how many streams took work on average; the receiver has had four, of which two stood by.
#[test]
fn streams_that_stand_by_do_not_make_others_look_idle() {
    let mut evidence = evidence();
    row(&mut evidence.receiver, Stage::Receive).threads = 4;
    works(&mut evidence.receiver, Stage::Write, 19_800, 1_000);
    works(&mut evidence.receiver, Stage::Finish, 6_000, 1_000);
    works(&mut evidence.sender, Stage::Digest, 5_000, 5_000);
    let said = expect(&evidence, Cause::DestinationDisk, Place::Destination, 10.0 / 6.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::Names));
    let drawn = width::widths(&evidence).into_iter().find(|width| width.stage == "write").expect("a stage");
    assert_eq!(drawn.threads, 2);
}

#[test]
fn a_source_that_computes() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 15_000, 15_000);
    works(&mut evidence.sender, Stage::Read, 4_000, 3_000);
    works(&mut evidence.receiver, Stage::Write, 2_000, 2_000);
    // What is left for the source's threads: reading.
    expect(&evidence, Cause::SourceCpu, Place::Source, 5.0);
    works(&mut evidence.sender, Stage::Digest, 0, 0);
    works(&mut evidence.sender, Stage::Compress, 15_000, 15_000);
    assert!(verdict(&evidence).knob.contains("--compress"));
}

#[test]
fn a_control_group_without_cpu_goes_before_what_it_makes_slow() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 19_000, 1_000);
    evidence.sender.process.user_nanos = 2_400_000_000;
    evidence.sender.process.quota_milli = Some(250);
    evidence.sender.process.throttled_nanos = 7_000_000_000;
    evidence.rate_bytes_per_s = Some(300_000_000);
    paced(&mut evidence, 100, 1_000_000_000);
    let verdict = expect(&evidence, Cause::CpuQuota, Place::Source, 3.0);
    assert!(verdict.sentence.contains("0.25 of a CPU"), "{}", verdict.sentence);
    assert_eq!(verdict.next.map(|next| next.cause), Some(Cause::RateLimit));
    // The same figures at the other side.
    std::mem::swap(&mut evidence.sender.process, &mut evidence.receiver.process);
    expect(&evidence, Cause::CpuQuota, Place::Destination, 1.05);
}

#[test]
fn the_machine_of_both_without_cpu() {
    let mut evidence = evidence();
    for side in [&mut evidence.sender, &mut evidence.receiver] {
        side.process.host = 7;
        side.process.cores_milli = 2000;
        side.process.user_nanos = 9_500_000_000;
    }
    works(&mut evidence.sender, Stage::Digest, 18_000, 9_000);
    let verdict = verdict(&evidence);
    assert_eq!((verdict.narrowest.cause, verdict.narrowest.place), (Cause::Cpu, Place::Both));
}

#[test]
fn a_rate_that_was_asked_for() {
    let mut evidence = evidence();
    evidence.rate_bytes_per_s = Some(101_000_000);
    paced(&mut evidence, 19_000, 1_000_000_000);
    works(&mut evidence.receiver, Stage::Write, 5_000, 1_000);
    let verdict = expect(&evidence, Cause::RateLimit, Place::Source, 4.0);
    assert_eq!(verdict.next.map(|next| next.cause), Some(Cause::DestinationDisk));
    assert!(verdict.sentence.contains("808 Mbit/s, as asked"), "{}", verdict.sentence);
    // One that is not met limits nothing.
    evidence.rate_bytes_per_s = Some(400_000_000);
    paced(&mut evidence, 10, 1_000_000_000);
    works(&mut evidence.receiver, Stage::Write, 19_800, 1_000);
    expect(&evidence, Cause::DestinationDisk, Place::Destination, 4.0);
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

/// What was sent has a quarter of its bytes: 100 MB/s of content are 25 MB/s of a path that is asked for no more than 100.
#[test]
fn a_rate_that_packed_bytes_stay_below_limits_nothing() {
    let mut evidence = evidence();
    evidence.rate_bytes_per_s = Some(100_000_000);
    paced(&mut evidence, 100, 1_000_000_000);
    works(&mut evidence.sender, Stage::Compress, 18_000, 18_000);
    works(&mut evidence.receiver, Stage::Write, 5_000, 1_000);
    let said = expect(&evidence, Cause::SourceCpu, Place::Source, 4.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::DestinationDisk));
}

/// An hour at 4 Gbit/s, and 100 Mbit/s in its last five seconds.
#[test]
fn a_rate_that_is_set_at_the_end_explains_nothing_before() {
    let mut evidence = Evidence { elapsed_nanos: 3_605_000_000_000, bytes: 1_800_000_000_000, ..evidence() };
    evidence.rate_bytes_per_s = Some(12_500_000);
    paced(&mut evidence, 9_500, 62_500_000);
    works(&mut evidence.receiver, Stage::Write, 7_000_000, 100_000);
    works(&mut evidence.sender, Stage::Digest, 3_605_000, 3_605_000);
    let said = expect(&evidence, Cause::DestinationDisk, Place::Destination, 2.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::SourceCpu));
}

/// Ten minutes at 100 Mbit/s, then half a minute without a limit at 4 Gbit/s.
#[test]
fn a_rate_that_was_taken_away_is_still_what_most_of_the_time_went_to() {
    let mut evidence = Evidence { elapsed_nanos: 630_000_000_000, bytes: 22_500_000_000, ..evidence() };
    paced(&mut evidence, 1_190_000, 7_500_000_000);
    works(&mut evidence.receiver, Stage::Write, 50_000, 5_000);
    let said = expect(&evidence, Cause::RateLimit, Place::Source, 630.0 / 35.0);
    assert!(said.sentence.contains("the rate limit: 101 Mbit/s, as asked"), "{}", said.sentence);
}

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
    let said = expect(&evidence, Cause::Link, Place::Path, without).sentence;
    assert!(said.contains("0.20 % of the bytes are sent again"), "{said}");
    assert_eq!(verdict(&evidence).factor_low, None);
    for stream in &mut evidence.sender.streams {
        stream.rtt_nanos = stream.rtt_min_nanos;
    }
    let verdict = expect(&evidence, Cause::Loss, Place::Path, without);
    // Of the link behind it nothing is known.
    assert_eq!(verdict.factor_low, Some(1.0));
    assert!(verdict.sentence.contains("0.20 %") && verdict.knob.contains("bbr"), "{}", verdict.sentence);
    for stream in &mut evidence.sender.streams {
        stream.rwnd_limited_nanos = 8_000_000_000;
    }
    let verdict = expect(&evidence, Cause::Window, Place::Path, without);
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
    let knob = expect(&evidence, Cause::SendBuffer, Place::Path, without).knob;
    assert!(knob.contains("tcp_wmem") && knob.contains("`thalweg doctor` at the source"), "{knob}");
    // 5 MB are under way in each stream, of 16 MiB that might be.
    for stream in &mut evidence.sender.streams {
        stream.sndbuf_limited_nanos = 3_000_000_000;
        (stream.cwnd_bytes, stream.window_bytes) = (16 << 20, 16 << 20);
    }
    expect(&evidence, Cause::SendBuffer, Place::Path, without);
    for stream in &mut evidence.sender.streams {
        stream.cwnd_bytes = 5 << 20;
    }
    expect(&evidence, Cause::Loss, Place::Path, without);
    // The peer's window is full, though the kernel, which paces, says so of a part of the time only.
    for stream in &mut evidence.sender.streams {
        (stream.sndbuf_limited_nanos, stream.rwnd_limited_nanos) = (0, 2_000_000_000);
        (stream.cwnd_bytes, stream.window_bytes) = (16 << 20, 5_100_000);
    }
    expect(&evidence, Cause::Window, Place::Path, without);
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
    let said = expect(&evidence, Cause::RateLimit, Place::Source, 3.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::DestinationDisk));
    // That it carries what it carried while anything was under way is certain: two streams, each busy half of the time.
    assert!(said.factor_low.is_some_and(|low| (low - 1.33).abs() < 0.01), "{:?}", said.factor_low);
    // Busy for longer than that: the path is as wide as it was seen to be.
    evidence.sender.streams.iter_mut().for_each(|stream| stream.busy_nanos = 7_000_000_000);
    assert_eq!(verdict(&evidence).next.map(|next| next.place), Some(Place::Path));
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
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Link, Place::Path), "{}", said.sentence);
    assert!(said.sentence.contains("others leave"), "{}", said.sentence);
}

/// One of four copies that share a session: of the waits for the path a quarter is its own. The streams were busy all the
/// time, the CPUs for a third of it.
#[test]
fn a_path_that_copies_share_is_named_by_each_of_them() {
    let mut evidence = Evidence { bytes: 250_000_000, ..evidence() };
    row(&mut evidence.sender, Stage::Send).output_nanos = 4_900_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 4_900_000_000;
    evidence.sender.process.user_nanos = 12_000_000_000;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Link, Place::Path), "{}", said.sentence);
    assert!(said.narrowest.busy > 0.95, "{}", said.narrowest.busy);
    assert!((said.factor - 10.0 / 3.0).abs() < 0.1, "{}", said.factor);
    // Nor where next to none of the waits is booked yet.
    row(&mut evidence.sender, Stage::Send).output_nanos = 500_000_000;
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 500_000_000;
    assert_eq!(verdict(&evidence).narrowest.place, Place::Path);
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
        (Cause::SendBuffer, Place::Path),
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
    expect(&evidence, Cause::DestinationDisk, Place::Destination, 20.0);
    works(&mut evidence.receiver, Stage::Write, 0, 0);
    works(&mut evidence.receiver, Stage::Verify, 19_000, 19_000);
    expect(&evidence, Cause::DestinationCpu, Place::Destination, 20.0);
}

/// Within a room a receiver that takes little keeps bytes under way, and what is delivered then says nothing of the path.
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
    // Each had something of its own to carry for a second of the ten.
    expect(&evidence, Cause::DestinationDisk, Place::Destination, 10.0 / 1.9);
    // Unless it was seen to carry all in less time: not all of such waiting is counted.
    evidence.sender.streams.iter_mut().for_each(|stream| stream.delivery_bytes_per_s_max = 400_000_000);
    expect(&evidence, Cause::DestinationDisk, Place::Destination, 10.0 / 1.25);
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
    let said = expect(&evidence, Cause::CpuQuota, Place::Source, 4.0);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::RateLimit));
    // Of a stream that broke nothing is known any more: then the wait is all there is.
    evidence.sender.streams.truncate(1);
    let said = expect(&evidence, Cause::CpuQuota, Place::Source, 2.0);
    assert_eq!(said.next.map(|next| next.place), Some(Place::Path));
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

#[test]
fn a_slow_disk_at_the_destination_and_a_slow_sync() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Sync, 9_000, 10);
    works(&mut evidence.receiver, Stage::Conclude, 5, 1);
    row(&mut evidence.receiver, Stage::Conclude).items = 1;
    row(&mut evidence.receiver, Stage::Sync).items = 18;
    works(&mut evidence.sender, Stage::Digest, 4_000, 4_000);
    expect(&evidence, Cause::DestinationDisk, Place::Destination, 5.0);
    // Here the last sync, with nothing left to write, takes as long as the others.
    works(&mut evidence.receiver, Stage::Conclude, 500, 1);
    row(&mut evidence.receiver, Stage::Conclude).items = 1;
    let verdict = verdict(&evidence);
    assert_eq!(verdict.narrowest.cause, Cause::SlowSync);
}

#[test]
fn many_small_files() {
    let mut evidence = evidence();
    evidence.entries = 200_000;
    evidence.bytes = 200_000 * 1024;
    works(&mut evidence.receiver, Stage::Create, 19_000, 10_000);
    works(&mut evidence.sender, Stage::Scan, 2_000, 1_000);
    let create = expect(&evidence, Cause::SmallFilesWrite, Place::Destination, 5.0);
    assert!(create.sentence.contains("entries/s"), "{}", create.sentence);
    works(&mut evidence.receiver, Stage::Create, 1_000, 1_000);
    works(&mut evidence.receiver, Stage::Finish, 9_700, 1_000);
    expect(&evidence, Cause::Names, Place::Destination, 5.0);
    works(&mut evidence.receiver, Stage::Finish, 100, 100);
    works(&mut evidence.sender, Stage::Open, 19_400, 1_000);
    expect(&evidence, Cause::SmallFilesRead, Place::Source, 5.0);
    works(&mut evidence.sender, Stage::Open, 100, 100);
    works(&mut evidence.sender, Stage::Scan, 9_800, 1_000);
    expect(&evidence, Cause::Scan, Place::Source, 10.0 / 0.5);
    works(&mut evidence.receiver, Stage::Decide, 9_900, 1_000);
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Look);
}

#[test]
fn too_little_under_way() {
    let mut evidence = evidence();
    row(&mut evidence.sender, Stage::Read).output_nanos = 18_000_000_000;
    works(&mut evidence.sender, Stage::Digest, 1_000, 1_000);
    evidence.depth = Some(1);
    let verdict = verdict(&evidence);
    assert_eq!(verdict.narrowest.cause, Cause::Plan);
    assert!(verdict.knob.contains("--depth (now 1)"));
}

#[test]
fn in_one_process_a_thread_does_both_sides() {
    let mut evidence = evidence();
    evidence.is_linked = false;
    works(&mut evidence.sender, Stage::Read, 5_000, 5_000);
    works(&mut evidence.receiver, Stage::Write, 14_000, 1_000);
    expect(&evidence, Cause::DestinationDisk, Place::Destination, 4.0);
}

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
    assert_eq!(verdict.next.map(|next| next.place), Some(Place::Path));
    // Near by, the time in which anything was under way tells: two streams, each for a tenth of the time.
    for stream in &mut evidence.sender.streams {
        (stream.busy_nanos, stream.rtt_min_nanos) = (1_000_000_000, 50_000);
    }
    works(&mut evidence.receiver, Stage::Write, 1_000, 1_000);
    expect(&evidence, Cause::SourceDisk, Place::Source, 1.0 / 0.19);
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

#[test]
fn a_producer_that_takes_its_time() {
    let mut evidence = evidence();
    evidence.is_flow = true;
    row(&mut evidence.sender, Stage::Read).input_nanos = 9_000_000_000;
    works(&mut evidence.receiver, Stage::Sync, 2_500, 10);
    let verdict = expect(&evidence, Cause::Producer, Place::Source, 4.0);
    assert!(
        verdict.sentence.starts_with("the producer: nothing more is there to read"),
        "{}",
        verdict.sentence
    );
    // Of files that are there, idle streams wait for the scan.
    evidence.is_flow = false;
    assert_ne!(judge(&evidence).map(|verdict| verdict.narrowest.cause), Some(Cause::Producer));
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
    assert_eq!((narrowest.cause, narrowest.place), (Cause::DestinationDisk, Place::Destination));
    assert!(
        said.sentence.starts_with("read at the destination: its disk gives 800 Mbit/s"),
        "{}",
        said.sentence
    );
    let next = said.next.expect("a next one");
    assert_eq!((next.stage.as_str(), next.place), ("read", Place::Source));
    assert!((next.bytes_per_s - 200e6).abs() < 1e6, "{next:?}");
    let widths = width::widths(&evidence);
    let path = widths.iter().find(|width| width.place == Place::Path).expect("a path");
    assert_eq!(path.bytes, 100_000_000);
    assert!(path.bytes_per_s < 102e6, "{path:?}");
    let at_destination: Vec<_> =
        widths.iter().filter(|width| width.place == Place::Destination).map(|width| width.stage).collect();
    assert_eq!(at_destination, ["read"]);

    // With all of it waiting for the path, that carried what came.
    waits_for_the_path(&mut evidence);
    evidence.sender.streams.iter_mut().for_each(|stream| stream.busy_nanos = 10_000_000_000);
    row(&mut evidence.receiver, Stage::Read).busy_nanos = 1_000_000_000;
    let said = verdict(&evidence);
    assert!(said.sentence.contains("the link is full at 80.0 Mbit/s"), "{}", said.sentence);
}
