//! What a machine is the narrowest in: its disks, its CPUs, and who makes the data.

use super::*;

#[test]
fn a_slow_disk_at_the_source() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 400);
    works(&mut evidence.sender, Stage::Digest, 600, 600);
    works(&mut evidence.receiver, Stage::Write, 4_000, 4_000);
    let verdict = expect(&evidence, Cause::SourceDisk, Where::Source, 5.0);
    assert_eq!(verdict.narrowest.stage, "read");
    let next = verdict.next.expect("a next one");
    assert_eq!((next.stage.as_str(), next.place), ("write", Where::Destination));
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
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0 / 6.0);
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
    expect(&evidence, Cause::SourceCpu, Where::Source, 5.0);
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
    let verdict = expect(&evidence, Cause::CpuQuota, Where::Source, 3.0);
    assert!(verdict.sentence.contains("0.25 of a CPU"), "{}", verdict.sentence);
    assert_eq!(verdict.next.map(|next| next.cause), Some(Cause::RateLimit));
    // The same figures at the other side.
    std::mem::swap(&mut evidence.sender.process, &mut evidence.receiver.process);
    expect(&evidence, Cause::CpuQuota, Where::Destination, 1.05);
}

#[test]
fn a_wait_for_a_rate_that_lacks_a_cpu_to_end_is_not_the_rates() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 9_000, 1_000);
    evidence.sender.process.user_nanos = 2_400_000_000;
    evidence.sender.process.quota_milli = Some(250);
    evidence.sender.process.throttled_nanos = 7_000_000_000;
    evidence.rate_bytes_per_s = Some(300_000_000);
    paced(&mut evidence, 9_800, 1_000_000_000);
    let verdict = expect(&evidence, Cause::CpuQuota, Where::Source, 3.0);
    assert_eq!(verdict.next.map(|next| next.cause), Some(Cause::RateLimit));
    // Of a rate that is kept no more only the wait is known.
    evidence.rate_bytes_per_s = None;
    expect(&evidence, Cause::CpuQuota, Where::Source, 2.04);
}

/// Of 9.5 s in which a stream had anything to carry it waited 9 s for room at the peer, whose threads sleep when data
/// come.
#[test]
fn a_receiver_that_lacks_a_cpu_hears_late_of_what_came_and_the_path_is_not_to_blame() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Write, 10_000, 400);
    row(&mut evidence.receiver, Stage::Receive).input_nanos = 8_000_000_000;
    row(&mut evidence.sender, Stage::Send).output_nanos = 18_000_000_000;
    evidence.receiver.process.user_nanos = 240_000_000;
    evidence.receiver.process.quota_milli = Some(25);
    evidence.receiver.process.throttled_nanos = 7_000_000_000;
    for stream in &mut evidence.sender.streams {
        (stream.rtt_nanos, stream.rtt_min_nanos) = (26_000_000, 5_000);
        (stream.busy_nanos, stream.rwnd_limited_nanos) = (9_500_000_000, 9_000_000_000);
    }
    // Two streams, each busy for half a second of ten.
    let verdict = expect(&evidence, Cause::CpuQuota, Where::Destination, 10.26);
    assert_eq!(verdict.next.map(|next| next.place), Some(Where::Path));
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
    assert_eq!((verdict.narrowest.cause, verdict.narrowest.place), (Cause::Cpu, Where::Both));
}

#[test]
fn a_slow_disk_at_the_destination_and_a_slow_sync() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Sync, 9_000, 10);
    works(&mut evidence.receiver, Stage::Conclude, 5, 1);
    row(&mut evidence.receiver, Stage::Conclude).items = 1;
    row(&mut evidence.receiver, Stage::Sync).items = 18;
    works(&mut evidence.sender, Stage::Digest, 4_000, 4_000);
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 5.0);
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
    let create = expect(&evidence, Cause::SmallFilesWrite, Where::Destination, 5.0);
    assert!(create.sentence.contains("entries/s"), "{}", create.sentence);
    works(&mut evidence.receiver, Stage::Create, 1_000, 1_000);
    works(&mut evidence.receiver, Stage::Finish, 9_700, 1_000);
    expect(&evidence, Cause::Names, Where::Destination, 5.0);
    works(&mut evidence.receiver, Stage::Finish, 100, 100);
    works(&mut evidence.sender, Stage::Open, 19_400, 1_000);
    expect(&evidence, Cause::SmallFilesRead, Where::Source, 5.0);
    works(&mut evidence.sender, Stage::Open, 100, 100);
    works(&mut evidence.sender, Stage::Scan, 9_800, 1_000);
    expect(&evidence, Cause::Scan, Where::Source, 10.0 / 0.5);
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
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 4.0);
}

#[test]
fn reading_back_waits_for_the_disk_or_computes() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 4_000, 4_000);
    for (cpu_ms, cause) in [(2_000, Cause::DestinationDisk), (8_000, Cause::DestinationCpu)] {
        works(&mut evidence.receiver, Stage::ReadBack, 9_000, cpu_ms);
        let verdict = verdict(&evidence);
        assert_eq!((verdict.narrowest.cause, verdict.narrowest.place), (cause, Where::Destination));
        assert_eq!(verdict.narrowest.stage, "read back");
        assert!(verdict.knob.contains("--verify written"), "{}", verdict.knob);
    }
}

/// Eight threads at once on four CPUs: the round waits for them for nine seconds, and books what all of them compute.
#[test]
fn threads_that_read_back_small_files_and_wait_for_the_disk_are_not_said_to_compute() {
    let mut evidence = Evidence { bytes: 200_000 * 1024, entries: 200_000, ..evidence() };
    works(&mut evidence.sender, Stage::Open, 4_000, 4_000);
    // Of each thread 1 s of nine, and 2.75 s; of as many as there are CPUs twice that.
    for (cpu_ms, cause) in [(8_000, Cause::DestinationDisk), (22_000, Cause::DestinationCpu)] {
        works(&mut evidence.receiver, Stage::ReadBack, 9_000, cpu_ms);
        row(&mut evidence.receiver, Stage::ReadBack).threads = 8;
        let said = verdict(&evidence);
        assert_eq!((said.narrowest.cause, said.narrowest.place), (cause, Where::Destination));
        assert_eq!(said.narrowest.stage, "read back");
    }
    // However fast the disk, what it gives is digested.
    works(&mut evidence.receiver, Stage::ReadBack, 9_000, 12_000);
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0 / 3.0);
    assert!(said.sentence.starts_with("read back at the destination: its disk gives "), "{}", said.sentence);
    assert_eq!(said.next.map(|next| next.stage), Some("read back".to_owned()));
}

/// One thread syncs and reads back in turn.
#[test]
fn a_slow_disk_at_the_destination_is_one_disk_whether_it_is_written_or_read_back() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Sync, 5_000, 10);
    row(&mut evidence.receiver, Stage::Sync).items = 10;
    works(&mut evidence.receiver, Stage::ReadBack, 4_000, 400);
    works(&mut evidence.sender, Stage::Digest, 5_000, 5_000);
    expect(&evidence, Cause::DestinationDisk, Where::Destination, 4.0);
    // Syncs that take their time however little there is are no reason for slow reads.
    works(&mut evidence.receiver, Stage::Conclude, 500, 1);
    row(&mut evidence.receiver, Stage::Conclude).items = 1;
    expect(&evidence, Cause::SlowSync, Where::Destination, 2.5);
}

/// An image that stands there but for a hundredth of it, and is compared by eight streams and copied by one thread.
#[test]
fn what_is_copied_at_the_destination_takes_the_time_of_one_thread() {
    let mut evidence = evidence();
    row(&mut evidence.sender, Stage::Read).threads = 8;
    row(&mut evidence.receiver, Stage::Receive).threads = 8;
    evidence.compared_bytes = 99_000_000_000;
    works(&mut evidence.receiver, Stage::Read, 16_000, 4_000);
    works(&mut evidence.receiver, Stage::Copy, 9_800, 2_000);
    row(&mut evidence.receiver, Stage::Copy).bytes = 99_000_000_000;
    works(&mut evidence.sender, Stage::Read, 24_000, 8_000);
    // Of one disk that is slow at the destination all that waits for it is gone; what is copied is still computed.
    let said = expect(&evidence, Cause::DestinationDisk, Where::Destination, 10.0 / 3.0);
    assert_eq!(said.narrowest.stage, "copy");
    assert!(said.knob.contains("without --check digest"), "{}", said.knob);
    works(&mut evidence.receiver, Stage::Copy, 9_800, 9_000);
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.stage.as_str()), (Cause::DestinationCpu, "copy"));
    assert!(!said.knob.contains("--streams"), "{}", said.knob);
}

/// Of 100 GB the last one was missing: that what is there is read again is no look at many entries.
#[test]
fn what_an_earlier_attempt_left_is_read_again_from_a_disk_or_by_a_cpu() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Decide, 10, 5);
    works(&mut evidence.receiver, Stage::Reread, 9_000, 3_000);
    row(&mut evidence.receiver, Stage::Reread).bytes = 99_000_000_000;
    works(&mut evidence.receiver, Stage::Write, 2_000, 200);
    let said = verdict(&evidence);
    let narrowest = (said.narrowest.cause, said.narrowest.stage.as_str());
    assert_eq!(narrowest, (Cause::DestinationDisk, "reread"), "{}", said.sentence);
    // As fast as it was read, and not as what came after it.
    assert!((said.narrowest.bytes_per_s / 11e9 - 1.0).abs() < 0.01, "{}", said.narrowest.bytes_per_s);
    assert!(!said.sentence.contains("--check"), "{}", said.sentence);
    works(&mut evidence.receiver, Stage::Reread, 9_000, 8_000);
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::DestinationCpu);
    // Entries that are looked at are still named as that.
    works(&mut evidence.receiver, Stage::Reread, 0, 0);
    works(&mut evidence.receiver, Stage::Decide, 9_000, 3_000);
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::Look);
}

#[test]
fn a_producer_that_takes_its_time() {
    let mut evidence = evidence();
    evidence.is_flow = true;
    row(&mut evidence.sender, Stage::Read).input_nanos = 9_000_000_000;
    works(&mut evidence.receiver, Stage::Sync, 2_500, 10);
    let verdict = expect(&evidence, Cause::Producer, Where::Source, 4.0);
    assert!(
        verdict.sentence.starts_with("the producer: nothing more is there to read"),
        "{}",
        verdict.sentence
    );
    // Of files that are there, idle streams wait for the scan.
    evidence.is_flow = false;
    assert_ne!(judge(&evidence).map(|verdict| verdict.narrowest.cause), Some(Cause::Producer));
}
