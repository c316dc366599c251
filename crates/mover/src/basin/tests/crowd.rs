use super::*;

/// Time in which something waited for a CPU, our threads among others, and for a disk, of 10 s.
fn pressed(side: &mut SideAccounts, cpu_ms: u64, io_ms: u64) {
    side.process.cpu_pressure_nanos = Some(cpu_ms * 1_000_000);
    side.process.io_pressure_nanos = Some(io_ms * 1_000_000);
    side.process.runnable_nanos = cpu_ms * 2_000_000;
}

#[test]
fn a_read_that_waited_for_a_cpu_is_no_slow_disk() {
    let mut evidence = evidence();
    works(&mut evidence.sender, Stage::Read, 19_000, 4_000);
    expect(&evidence, Cause::SourceDisk, Where::Source, 5.0);
    // Hardly anything waited for a disk, and nearly all the time something did for a CPU.
    pressed(&mut evidence.sender, 9_500, 200);
    let said = verdict(&evidence);
    assert_eq!(
        (said.narrowest.cause, said.narrowest.place),
        (Cause::SourceCpu, Where::Source),
        "{}",
        said.sentence
    );
    assert!(said.sentence.contains("something waited for a CPU there 95 % of the time"), "{}", said.sentence);
    assert!(said.knob.contains("less other work at the source"), "{}", said.knob);
    // Both were waited for, or CPUs seldom: a disk it is. The other side's CPUs explain nothing.
    for (cpu_ms, io_ms) in [(9_500, 8_000), (2_000, 200)] {
        pressed(&mut evidence.sender, cpu_ms, io_ms);
        pressed(&mut evidence.receiver, 9_500, 200);
        expect(&evidence, Cause::SourceDisk, Where::Source, 5.0);
    }
    // Others did, and none of ours; or ours had used up what their control group allows.
    pressed(&mut evidence.sender, 9_500, 200);
    for ours_ms in [1, 5_000] {
        // So little explains no half of 15 s, as where a file system waits for a program or a network.
        evidence.sender.process.runnable_nanos = ours_ms * 1_000_000;
        expect(&evidence, Cause::SourceDisk, Where::Source, 5.0);
    }
    pressed(&mut evidence.sender, 9_500, 200);
    evidence.sender.process.throttled_nanos = 5_000_000_000;
    expect(&evidence, Cause::SourceDisk, Where::Source, 5.0);
}

#[test]
fn a_write_that_waited_for_a_cpu_is_no_slow_disk() {
    let mut evidence = evidence();
    works(&mut evidence.receiver, Stage::Write, 19_000, 4_000);
    assert_eq!(verdict(&evidence).narrowest.cause, Cause::DestinationDisk);
    pressed(&mut evidence.receiver, 9_500, 200);
    let said = verdict(&evidence);
    assert_eq!((said.narrowest.cause, said.narrowest.place), (Cause::DestinationCpu, Where::Destination));
    assert!(said.knob.contains("less other work at the destination"), "{}", said.knob);
}
