use super::*;

/// Slowed at 7 of the 10 looks.
fn heats(side: &mut SideAccounts) {
    (side.process.heat_looks, side.process.heat_slowed, side.process.heat_times) = (10, 7, 12);
}

#[test]
fn a_cpu_that_heat_slowed_is_said_to_have_been_on_the_side_that_it_was() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Digest, 19_000, 19_000);
    works(&mut evidence.receiver, Stage::Write, 4_000, 4_000);
    let cool = expect(&evidence, Cause::SourceCpu, Where::Source, 5.0);
    assert!(cool.narrowest.heat.is_none() && !cool.sentence.contains("heat"), "{}", cool.sentence);
    // The other side's is no reason.
    heats(&mut evidence.receiver);
    let other = verdict(&evidence);
    assert!(other.narrowest.heat.is_none() && !other.sentence.contains("heat"), "{}", other.sentence);
    assert_eq!(other.next.and_then(|next| next.heat), Some(0.7));
    heats(&mut evidence.sender);
    let hot = expect(&evidence, Cause::SourceCpu, Where::Source, 5.0);
    assert_eq!(hot.narrowest.heat, Some(0.7));
    let reason = "digest at the source: it computes all the time, for 842 Mbit/s; \
                  heat slowed its CPUs at 7 of 10 looks (95 % busy)";
    assert!(hot.sentence.starts_with(reason), "{}", hot.sentence);
    let knob =
        "To turn: cool the source (heat slows its CPUs), or more --streams, if the source has idle CPUs.";
    assert_eq!(hot.knob, knob);
    // A moment explains nothing, and a peer that tells nonsense is not believed.
    evidence.sender.process.heat_slowed = 1;
    assert_eq!(verdict(&evidence).narrowest.heat, None);
    evidence.sender.process.heat_slowed = u32::MAX;
    assert_eq!(verdict(&evidence).narrowest.heat, Some(1.0));
    // What waits for a disk is not slowed by heat.
    works(&mut evidence.sender, Stage::Digest, 0, 0);
    works(&mut evidence.sender, Stage::Read, 19_000, 400);
    let disk = expect(&evidence, Cause::SourceDisk, Where::Source, 5.0);
    assert!(disk.narrowest.heat.is_none() && !disk.sentence.contains("heat"), "{}", disk.sentence);
}

#[test]
fn cpus_that_are_used_up_and_hot_are_said_to_be_and_those_of_a_quota_are_not() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Verify, 18_000, 9_000);
    heats(&mut evidence.receiver);
    evidence.receiver.process.user_nanos = 39_000_000_000;
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Cpu, Where::Destination));
    assert!(said.sentence.contains("heat slowed it at 7 of 10 looks"), "{}", said.sentence);
    assert!(said.knob.starts_with("To turn: cool the destination (heat slows its CPUs), or more or faster"));
    // Both on one machine, whichever of them looked.
    (evidence.sender.process.host, evidence.receiver.process.host) = (7, 7);
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::Cpu, Where::Both));
    assert!(said.knob.starts_with("To turn: cool this machine"), "{}", said.knob);
    // A quota is used up before the CPU is.
    evidence.receiver.process.user_nanos = 2_400_000_000;
    evidence.receiver.process.quota_milli = Some(250);
    evidence.receiver.process.throttled_nanos = 7_000_000_000;
    let said = verdict(&evidence);
    assert_eq!(said.narrowest.cause, Cause::CpuQuota, "{}", said.sentence);
    assert!(!said.sentence.contains("heat") && said.narrowest.heat.is_none(), "{}", said.sentence);
}
