//! CPUs of machines, and quotas of control groups: whose they are, and who used them up.

use super::*;

/// CPU time, a quota, and the time in which it was used up, of 10 s.
fn held(side: &mut SideAccounts, used_ms: u64, quota_milli: u32, throttled_ms: u64) {
    side.process.user_nanos = used_ms * 1_000_000;
    side.process.quota_milli = Some(quota_milli);
    side.process.throttled_nanos = throttled_ms * 1_000_000;
}

#[test]
fn a_quota_of_a_whole_cpu_is_not_the_cpus_of_the_machine() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 19_000, 9_800);
    works(&mut evidence.receiver, Stage::Write, 4_000, 4_000);
    held(&mut evidence.sender, 9_800, 1000, 7_000);
    evidence.sender.process.cores_milli = 64_000;
    // Two threads share what is computed.
    let said = expect(&evidence, Cause::CpuQuota, Where::Source, 10.0 / 4.9);
    assert_eq!(said.next.map(|next| next.cause), Some(Cause::SourceCpu));
}

#[test]
fn a_quota_that_is_no_whole_number_and_never_used_up_is_not_named() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 9_000);
    held(&mut evidence.sender, 9_000, 1900, 0);
    evidence.sender.process.cores_milli = 64_000;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::SourceDisk, Where::Source));
}

#[test]
fn sides_in_two_containers_of_one_machine_share_all_its_cpus() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 400);
    for (side, cores_milli, used_ms) in
        [(&mut evidence.sender, 2000, 5_000), (&mut evidence.receiver, 64_000, 15_000)]
    {
        (side.process.host, side.process.cores_milli) = (7, cores_milli);
        side.process.user_nanos = used_ms * 1_000_000;
    }
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::SourceDisk, Where::Source));
    // Who may run on two of them has used these up.
    evidence.sender.process.user_nanos = 19_000_000_000;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Cpu, Where::Source));
}

/// A tenth of what the group may use is ours.
#[test]
fn a_quota_that_others_in_the_group_used_up_is_named_with_the_time_that_it_was() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 400);
    held(&mut evidence.sender, 500, 4000, 8_000);
    let said = expect(&evidence, Cause::CpuQuota, Where::Source, 5.0);
    let reason = "the CPU quota at the source: its control group may use 4.00 of a CPU, most of which went to other \
                  work in it; what was left is enough for 1.00 Gbit/s (80 % busy)";
    assert!(said.sentence.starts_with(reason), "{}", said.sentence);
    // In 90 periods of 100 ms it was used up; in 5 it explains nothing, however many CPUs it kept from the group.
    evidence.sender.process.throttled_count = 90;
    expect(&evidence, Cause::CpuQuota, Where::Source, 5.0);
    evidence.sender.process.throttled_count = 5;
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::SourceDisk);
}

#[test]
fn both_sides_in_one_group_have_its_quota_together() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 10_000, 5_000);
    works(&mut evidence.receiver, Stage::Verify, 10_000, 5_000);
    for (side, throttled_ms) in [(&mut evidence.sender, 4_000), (&mut evidence.receiver, 4_100)] {
        side.process.host = 7;
        held(side, 4_800, 1000, throttled_ms);
    }
    let said = expect(&evidence, Cause::CpuQuota, Where::Both, 4.0);
    assert!(said.narrowest.busy > 0.95 && !said.sentence.contains("other work"), "{}", said.sentence);
    // Groups of one size that were out of CPU for different times are two, and so are those of two machines.
    evidence.sender.process.throttled_nanos = 100_000_000;
    evidence.receiver.process.throttled_nanos = 7_000_000_000;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::CpuQuota, Where::Destination));
    evidence.sender.process.throttled_nanos = 7_000_000_000;
    evidence.sender.process.host = 8;
    assert_ne!(verdict(&evidence).narrowest.place, Where::Both);
}
